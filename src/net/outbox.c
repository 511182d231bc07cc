/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames on their way out. Invariants: O1 a frame gets its sequence number when its first byte may leave, and from then
 * on is sent whole; O2 nobody's memory is read after est_outbox_forget of its owner. */
#include "net/outbox.h"

#include <string.h>

#include "base/alloc.h"

#define IOV_MAX_USED 64
#define FRONT_SMALL  1024 /* fronts up to this size are made on the stack */

/* Pieces are the front (0), then part i (2 i + 1) and the zeros behind it (2 i + 2). */
struct est_sending {
    est_sending    *next;
    est_frame       frame;
    uint8_t        *front;
    size_t          front_bytes;
    const est_part *parts;
    int             n_parts;
    int             piece;  /* that is sent next */
    size_t          offset; /* in it */
    uint64_t        left;   /* bytes */
    bool            begun;
    const void     *owner;
    size_t          copied_bytes;
};

static const uint8_t zeros[64];

static struct iovec piece_of(const est_sending *s, int piece)
{
    const est_part *part = piece > 0 ? &s->parts[(piece - 1) / 2] : NULL;
    const void     *data = part == NULL ? s->front : piece % 2 == 1 ? part->data : zeros;
    size_t          size = part == NULL ? s->front_bytes : piece % 2 == 1 ? part->size : -part->size & 63;
    struct iovec    iov  = { .iov_len = size };

    memcpy(&iov.iov_base, &data, sizeof data); /* iovec knows no const */
    return iov;
}

/* Nothing follows the last part. */
static int n_pieces(const est_sending *s)
{
    return s->n_parts > 0 ? 2 * s->n_parts : 1;
}

static int gather(const est_sending *s, struct iovec *iov, int n_max)
{
    size_t skip = s->offset;
    int    n    = 0;

    for (int piece = s->piece; piece < n_pieces(s) && n < n_max; piece++) {
        struct iovec all = piece_of(s, piece);

        if (all.iov_len > skip) {
            iov[n].iov_base  = (char *)all.iov_base + skip;
            iov[n++].iov_len = all.iov_len - skip;
        }
        skip = 0;
    }
    return n;
}

static void advance(est_sending *s, size_t n)
{
    s->left -= n;
    while (n > 0) {
        size_t rest = piece_of(s, s->piece).iov_len - s->offset;

        if (n < rest) {
            s->offset += n;
            return;
        }
        n -= rest;
        s->piece++;
        s->offset = 0;
    }
}

static void begin(est_outbox *box, est_sending *s)
{
    if (s->begun) return;
    s->begun          = true;
    s->frame.sequence = box->sequence++;
    est_frame_encode(&s->frame, s->front);
}

static void append(est_outbox *box, est_sending *s)
{
    s->next = NULL;
    if (box->first == NULL) {
        box->first = s;
    } else {
        box->last->next = s;
    }
    box->last = s;
    box->copied_bytes += s->copied_bytes;
}

static void remove_after(est_outbox *box, est_sending *before, est_sending *s)
{
    if (before == NULL) {
        box->first = s->next;
    } else {
        before->next = s->next;
    }
    if (box->last == s) box->last = before;
    box->copied_bytes -= s->copied_bytes;
}

/* `own`: the sending on the stack of est_outbox_send, which is not freed. */
static bool flush(est_outbox *box, est_outbox_transmit transmit, void *user, const est_sending *own)
{
    while (box->first != NULL) {
        struct iovec iov[IOV_MAX_USED];
        int          n = 0;
        ssize_t      taken;

        for (est_sending *s = box->first; s != NULL && n < IOV_MAX_USED; s = s->next) {
            begin(box, s);
            n += gather(s, iov + n, IOV_MAX_USED - n);
        }
        taken = transmit(user, iov, n);
        if (taken <= 0) return taken == 0;
        while (taken > 0) {
            est_sending *s    = box->first;
            size_t       here = (uint64_t)taken < s->left ? (size_t)taken : (size_t)s->left;

            advance(s, here);
            taken -= (ssize_t)here;
            if (s->left > 0) break;
            remove_after(box, NULL, s);
            if (s != own) est_block_free(box->blocks, s);
        }
    }
    return true;
}

/* A heap copy of a sending, with a copy of the remaining bytes. */
static est_sending *copy_rest(est_outbox *box, const est_sending *s)
{
    est_sending  from = *s, *copy;
    struct iovec iov;
    uint8_t     *to;

    copy = s->left <= SIZE_MAX / 2 ? est_block_alloc(box->blocks, sizeof *copy + (size_t)s->left) : NULL;
    if (copy == NULL) return NULL;
    *copy = (est_sending){ .frame        = s->frame,
                           .front        = (uint8_t *)(copy + 1),
                           .front_bytes  = (size_t)s->left,
                           .left         = s->left,
                           .begun        = s->begun,
                           .copied_bytes = (size_t)s->left };
    for (to = copy->front; gather(&from, &iov, 1) == 1; to += iov.iov_len) {
        memcpy(to, iov.iov_base, iov.iov_len);
        advance(&from, iov.iov_len);
    }
    return copy;
}

/* A heap copy of a sending, whose parts are borrowed. */
static est_sending *copy_front(est_outbox *box, const est_sending *s)
{
    size_t       list = (size_t)s->n_parts * sizeof(est_part);
    est_sending *copy = est_block_alloc(box->blocks, sizeof *copy + list + s->front_bytes);

    if (copy == NULL) return NULL;
    *copy       = *s;
    copy->front = (uint8_t *)(copy + 1) + list;
    if (list > 0) memcpy(copy + 1, s->parts, list);
    copy->parts = (const est_part *)(copy + 1);
    memcpy(copy->front, s->front, s->front_bytes);
    return copy;
}

est_status est_outbox_send(est_outbox *box, est_outgoing *out, est_outbox_transmit transmit, void *user, bool *torn,
                           bool *sound)
{
    _Alignas(8) uint8_t small[FRONT_SMALL];
    size_t              bytes = est_frame_front_bytes(&out->frame);
    uint8_t            *front = bytes <= sizeof small ? small : est_block_alloc(box->blocks, bytes);
    est_sending         own, *kept;
    bool                alone = box->first == NULL;

    *torn  = false;
    *sound = true;
    if (front == NULL) return est_no_memory();
    est_frame_write_front(&out->payload, &out->frame, front);
    own = (est_sending){ .frame       = out->frame,
                         .front       = front,
                         .front_bytes = bytes,
                         .parts       = out->payload.parts,
                         .n_parts     = out->payload.n_parts,
                         .left        = EST_FRAME_BYTES + out->frame.body_size,
                         .owner       = out->owner };
    if (alone) {
        append(box, &own);
        *sound = flush(box, transmit, user, &own);
        if (own.left > 0) remove_after(box, NULL, &own);
    }
    kept = &own;
    if (own.left > 0 && *sound) {
        kept = own.owner != NULL ? copy_front(box, &own) : copy_rest(box, &own);
        if (kept != NULL) append(box, kept);
    }
    if (front != small) est_block_free(box->blocks, front);
    if (kept != NULL) return EST_OK;
    *torn = own.left < EST_FRAME_BYTES + out->frame.body_size;
    if (own.begun && !*torn) box->sequence--; /* keeps O1: its number was not used */
    return est_no_memory();
}

bool est_outbox_flush(est_outbox *box, est_outbox_transmit transmit, void *user)
{
    return flush(box, transmit, user, NULL);
}

bool est_outbox_forget(est_outbox *box, const void *owner)
{
    est_sending *before = NULL, *next;

    for (est_sending *s = box->first; s != NULL; s = next) {
        next = s->next;
        if (s->owner != owner) {
            before = s;
            continue;
        }
        if (s->begun) { /* keeps O1 */
            est_sending *copy = copy_rest(box, s);

            if (copy == NULL) return false;
            copy->next = next;
            box->copied_bytes += copy->copied_bytes;
            if (before == NULL) {
                box->first = copy;
            } else {
                before->next = copy;
            }
            if (box->last == s) box->last = copy;
            box->copied_bytes -= s->copied_bytes;
            before = copy;
        } else {
            remove_after(box, before, s);
        }
        est_block_free(box->blocks, s);
    }
    return true;
}

void est_outbox_clear(est_outbox *box)
{
    while (box->first != NULL) {
        est_sending *s = box->first;

        remove_after(box, NULL, s);
        est_block_free(box->blocks, s);
    }
}
