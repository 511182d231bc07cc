/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks by size class, four classes to a power of two, so that at most a fifth of a block is not asked for. All
 * together, used and free, are at most twice as many bytes as were once in use at the same time (pulls and pushes take
 * turns): a training sends the same messages step after step, and for a large one the kernel takes longer to clear new
 * pages than to send it. */
#include "net/message.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/refcount.h"
#include "base/thread.h"

#define KEPT_BYTES_MIN ((size_t)256 << 20) /* always kept */
#define CLASS_MIN      512                 /* bytes */
#define N_CLASSES      160                 /* up to 512 << 40 bytes; larger blocks are not kept */
#define NOT_KEPT       N_CLASSES

/* The header of a block. */
typedef struct block {
    _Alignas(EST_ALIGNMENT) struct block *next; /* while it is free */
    size_t bytes;                               /* with this struct */
    int class;
} block;

struct est_blocks {
    est_refcount    refs;
    pthread_mutex_t lock; /* guards the rest */
    size_t          kept_bytes, used_bytes;
    size_t          used_bytes_max; /* so far */
    block          *free[N_CLASSES];
};

struct est_message {
    _Alignas(EST_ALIGNMENT) est_refcount refs;
    est_blocks *blocks;
    int         n_parts;
    size_t      head_begin, head_size;
};

est_status est_blocks_create(est_blocks **out)
{
    est_blocks *blocks = est_zalloc(sizeof *blocks);
    est_status  status;

    if (blocks == NULL) return est_no_memory();
    status = est_lock_init(&blocks->lock);
    if (status != EST_OK) {
        est_free(blocks);
        return status;
    }
    est_refcount_init(&blocks->refs);
    *out = blocks;
    return EST_OK;
}

est_blocks *est_blocks_ref(est_blocks *blocks)
{
    est_refcount_add(&blocks->refs);
    return blocks;
}

void est_blocks_free(est_blocks *blocks)
{
    if (blocks == NULL || !est_refcount_drop(&blocks->refs)) return;
    for (int i = 0; i < N_CLASSES; i++) {
        while (blocks->free[i] != NULL) {
            block *b = blocks->free[i];

            blocks->free[i] = b->next;
            est_free_aligned(b);
        }
    }
    pthread_mutex_destroy(&blocks->lock);
    est_free(blocks);
}

/* The class of blocks that hold `size` bytes, and their size. */
static int class_of(size_t bytes, size_t *size)
{
    for (int power = 0; power < N_CLASSES / 4; power++) {
        size_t base = (size_t)CLASS_MIN << power;

        for (int quarter = 0; quarter < 4 && bytes <= 2 * base; quarter++) {
            *size = base + (base / 4) * (size_t)quarter;
            if (bytes <= *size) return 4 * power + quarter;
        }
    }
    *size = bytes;
    return NOT_KEPT;
}

void *est_block_alloc(est_blocks *blocks, size_t bytes)
{
    block *b = NULL;
    size_t size;
    int class;

    if (bytes > SIZE_MAX / 2) return NULL;
    class = class_of(bytes + sizeof *b, &size);
    pthread_mutex_lock(&blocks->lock);
    if (class != NOT_KEPT) b = blocks->free[class];
    if (b != NULL) {
        blocks->free[class] = b->next;
        blocks->kept_bytes -= b->bytes;
    }
    blocks->used_bytes += size;
    if (blocks->used_bytes > blocks->used_bytes_max) blocks->used_bytes_max = blocks->used_bytes;
    pthread_mutex_unlock(&blocks->lock);
    if (b == NULL) {
        b = est_alloc_aligned(size);
        if (b == NULL) {
            pthread_mutex_lock(&blocks->lock);
            blocks->used_bytes -= size;
            pthread_mutex_unlock(&blocks->lock);
            return NULL;
        }
        b->bytes = size;
        b->class = class;
    }
    return b + 1;
}

/* Takes a free block out, the largest first; NULL: there is none. Under the lock. */
static block *evict(est_blocks *blocks)
{
    for (int class = N_CLASSES - 1; class >= 0; class --) {
        block *b = blocks->free[class];

        if (b == NULL) continue;
        blocks->free[class] = b->next;
        blocks->kept_bytes -= b->bytes;
        return b;
    }
    return NULL;
}

/* Keeps recently used blocks rather than those that wait for their size to recur. */
void est_block_free(est_blocks *blocks, void *memory)
{
    block *b = memory != NULL ? (block *)memory - 1 : NULL, *old = NULL, *out;
    size_t most;

    if (b == NULL) return;
    pthread_mutex_lock(&blocks->lock);
    most = blocks->used_bytes_max > KEPT_BYTES_MIN / 2 ? 2 * blocks->used_bytes_max : KEPT_BYTES_MIN;
    while (blocks->kept_bytes + blocks->used_bytes > most && (out = evict(blocks)) != NULL) {
        out->next = old;
        old       = out;
    }
    blocks->used_bytes -= b->bytes;
    if (b->class == NOT_KEPT) {
        b->next = old;
        old     = b;
    } else {
        b->next                = blocks->free[b->class];
        blocks->free[b->class] = b;
        blocks->kept_bytes += b->bytes;
    }
    pthread_mutex_unlock(&blocks->lock);
    while (old != NULL) {
        out = old;
        old = out->next;
        est_free_aligned(out);
    }
}

est_status est_message_create(est_blocks *blocks, const est_frame *frame, est_message **out)
{
    est_message *message = est_block_alloc(blocks, sizeof *message + (size_t)frame->body_size);

    if (message == NULL) {
        return est_no_memory();
    }
    est_refcount_init(&message->refs);
    message->blocks     = est_blocks_ref(blocks);
    message->n_parts    = (int)frame->n_parts;
    message->head_begin = (size_t)est_frame_align(8 * (uint64_t)frame->n_parts);
    message->head_size  = (size_t)frame->head_size;
    *out                = message;
    return EST_OK;
}

void *est_message_body(est_message *message)
{
    return message + 1;
}

/* Where parts end, once the message is finished. */
static const uint64_t *part_ends(const est_message *message)
{
    return (const uint64_t *)(const void *)(message + 1);
}

est_status est_message_finish(est_message *message, const est_frame *frame)
{
    return est_frame_read_table(frame, est_message_body(message));
}

const void *est_message_head(const est_message *message, size_t *size)
{
    *size = message->head_size;
    return (const char *)(message + 1) + message->head_begin;
}

int est_message_parts(const est_message *message)
{
    return message->n_parts;
}

void *est_message_part(const est_message *message, int i, size_t *size)
{
    const uint64_t *ends  = part_ends(message);
    uint64_t        begin = est_frame_align(i > 0 ? ends[i - 1] : message->head_begin + message->head_size);
    est_message    *whole;

    memcpy(&whole, &message, sizeof whole); /* the parts are the holder's to write to */
    *size = (size_t)(ends[i] - begin);
    return (char *)(whole + 1) + begin;
}

est_message *est_message_ref(est_message *message)
{
    est_refcount_add(&message->refs);
    return message;
}

void est_message_free(est_message *message)
{
    est_blocks *blocks;

    if (message == NULL || !est_refcount_drop(&message->refs)) return;
    blocks = message->blocks;
    est_block_free(blocks, message);
    est_blocks_free(blocks);
}
