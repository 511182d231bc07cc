/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy-on-write snapshots of variables (kernels/copy_on_write.h).
 *
 * Invariants, under the lock of a snapshot:
 *   W1  The reader looks at the memory of a variable only for lines that are not kept.
 *   W2  A line is kept before it changes, unless the reader has passed it.
 *   W3  A record is in the list of its line's chunk, or free.
 * So no byte is read and changed at the same time, and what is read is what there was when the snapshot began. */
#include "kernels/copy_on_write.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "kernels/key_rows.h"
#include "kernels/lazy_rows.h"
#include "kernels/variable_access.h"

#define BUFFER_PART   10 /* the buffer is this part of the variables */
#define LINES_OF_WORD 64
/* a writer that finds the buffer full waits until this part of it is free, not for a single line */
#define ROOM_PART 4
#define TELL_NS   (10 * EST_NS_PER_SEC) /* a longer wait is logged while it lasts */

/* A line that was kept. */
typedef struct record {
    uint32_t next; /* in its list: its number + 1; 0: the last */
    uint32_t line; /* in its chunk */
    uint8_t  bytes[EST_COW_LINE];
} record;

/* A variable of a snapshot. */
struct est_cow_var {
    est_cow     *cow;
    est_cow_var *next; /* the same variable in another snapshot */
    est_var     *var;
    size_t       bytes;
    uint64_t    *kept;  /* a bit for each line */
    uint32_t    *first; /* of the records of each chunk: its number + 1; 0: none */
    char        *copy;  /* of a variable on another device: all of it, made at the beginning; NULL: none */
};

struct est_cow {
    /* Held while `lock` is waited for: a thread that waits for the lock gets it before the last holder gets it
     * again. */
    pthread_mutex_t gate;
    pthread_mutex_t lock;  /* guards the rest */
    pthread_cond_t  moved; /* the reader has passed a chunk, or the snapshot has ended */
    bool            ended;
    int             refs;    /* the owner, and variables that point here */
    int             at;      /* the reader has passed all variables before this one, */
    size_t          done;    /* and so many of its bytes */
    record         *records; /* [max_records], the first n_records of them touched */
    uint32_t        n_records, max_records;
    uint32_t        n_used; /* that lines are in */
    uint32_t        free;   /* the first that is free again: its number + 1; 0: none */
    uint64_t       *kept;   /* of all variables, as the next */
    uint32_t       *first;
    int64_t         paused_ns, told_ns; /* waits that are over; at the last warning */
    int64_t         since_ns;           /* of those that are not */
    int             n_waiting;
    int             n;
    est_cow_var     vars[];
};

/* --- life --------------------------------------------------------------------------------------------------------- */

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t words_of(const est_cow_var *c)
{
    return divide_up(c->bytes, EST_COW_LINE * LINES_OF_WORD);
}

static size_t chunks_of(const est_cow_var *c)
{
    return divide_up(c->bytes, EST_COW_CHUNK);
}

size_t est_cow_buffer_bytes(const est_cow *cow)
{
    return (size_t)cow->max_records * sizeof *cow->records;
}

/* Used only while a snapshot is open. */
static void free_memory(est_cow *cow)
{
    est_unreserve(cow->records, est_cow_buffer_bytes(cow));
    est_free(cow->kept);
    est_free(cow->first);
    for (int i = 0; i < cow->n; i++) {
        est_free(cow->vars[i].copy);
        cow->vars[i].copy = NULL;
    }
    cow->records = NULL;
    cow->kept    = NULL;
    cow->first   = NULL;
}

static est_status allocate(est_cow *cow)
{
    size_t    bytes = 0, words = 0, chunks = 0, buffer;
    uint64_t *kept;
    uint32_t *first;

    for (int i = 0; i < cow->n; i++) {
        bytes += cow->vars[i].bytes;
        words += words_of(&cow->vars[i]);
        chunks += chunks_of(&cow->vars[i]);
    }
    buffer           = bytes / BUFFER_PART > EST_COW_BUFFER ? bytes / BUFFER_PART : EST_COW_BUFFER;
    buffer           = buffer / sizeof *cow->records < words * LINES_OF_WORD ? buffer / sizeof *cow->records
                                                                             : words * LINES_OF_WORD;
    cow->max_records = buffer < UINT32_MAX ? (uint32_t)buffer : UINT32_MAX - 1;
    cow->records     = est_reserve(est_cow_buffer_bytes(cow));
    cow->kept = kept = est_zalloc(sizeof *kept * (words + 1));
    cow->first = first = est_zalloc(sizeof *first * (chunks + 1));
    if (cow->records == NULL || kept == NULL || first == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < cow->n; i++) {
        cow->vars[i].kept  = kept;
        cow->vars[i].first = first;
        kept += words_of(&cow->vars[i]);
        first += chunks_of(&cow->vars[i]);
    }
    return EST_OK;
}

static est_status init(est_cow *cow)
{
    est_status status = est_lock_init(&cow->gate);

    if (status != EST_OK) return status;
    status = est_lock_init(&cow->lock);
    if (status != EST_OK) goto destroy_gate;
    status = est_cond_init(&cow->moved);
    if (status != EST_OK) goto destroy_lock;
    status = allocate(cow);
    if (status != EST_OK) goto destroy_cond;
    return EST_OK;

destroy_cond:
    free_memory(cow);
    pthread_cond_destroy(&cow->moved);
destroy_lock:
    pthread_mutex_destroy(&cow->lock);
destroy_gate:
    pthread_mutex_destroy(&cow->gate);
    return status;
}

static void take(est_cow *cow)
{
    pthread_mutex_lock(&cow->gate);
    pthread_mutex_lock(&cow->lock);
    pthread_mutex_unlock(&cow->gate);
}

/* What runs on another device announces nothing. */
static est_status copy_variable(est_cow_var *c)
{
    const est_device *device = c->var->device;

    if (device->runs == NULL) return EST_OK;
    c->copy = est_alloc(c->bytes + 1);
    return c->copy != NULL ? device->copy_out(device, c->copy, c->var->value.data, c->bytes) : est_no_memory();
}

est_status est_cow_begin(est_var *const *vars, int n, est_cow **out)
{
    est_cow   *cow = est_zalloc(sizeof *cow + sizeof *cow->vars * (size_t)n);
    est_status status;

    if (cow == NULL) return est_no_memory();
    cow->n = n;
    for (int i = 0; i < n; i++) {
        est_view stored = est_var_stored(vars[i]);

        cow->vars[i] = (est_cow_var){ .cow   = cow,
                                      .var   = vars[i],
                                      .bytes = (size_t)stored.count * est_dtype_size(stored.dtype) };
    }
    status = init(cow);
    if (status != EST_OK) {
        est_free(cow);
        return status;
    }
    cow->refs = 1;
    for (int i = 0; i < n && status == EST_OK; i++) status = copy_variable(&cow->vars[i]);
    if (status != EST_OK) {
        est_cow_free(cow);
        return status;
    }
    for (int i = 0; i < n; i++) {
        if (cow->vars[i].copy != NULL) continue;
        cow->vars[i].next = vars[i]->cow;
        vars[i]->cow      = &cow->vars[i];
        cow->refs++;
    }
    *out = cow;
    return EST_OK;
}

/* Under the lock. */
static void end(est_cow *cow)
{
    if (!cow->ended) free_memory(cow);
    cow->ended = true;
    pthread_cond_broadcast(&cow->moved);
}

void est_cow_end(est_cow *cow)
{
    take(cow);
    end(cow);
    pthread_mutex_unlock(&cow->lock);
}

static void drop_reference(est_cow *cow, bool ends)
{
    bool last;

    take(cow);
    if (ends) end(cow);
    last = --cow->refs == 0;
    pthread_mutex_unlock(&cow->lock);
    if (!last) return;
    pthread_cond_destroy(&cow->moved);
    pthread_mutex_destroy(&cow->lock);
    pthread_mutex_destroy(&cow->gate);
    est_free(cow);
}

void est_cow_free(est_cow *cow)
{
    if (cow != NULL) drop_reference(cow, true);
}

void est_cow_leave(est_var *var)
{
    while (var->cow != NULL) {
        est_cow_var *c = var->cow;

        var->cow = c->next;
        drop_reference(c->cow, true);
    }
}

static int64_t paused_ns(const est_cow *cow)
{
    return cow->paused_ns + (cow->n_waiting > 0 ? est_machine_ns() - cow->since_ns : 0);
}

int64_t est_cow_paused_ns(est_cow *cow)
{
    int64_t ns;

    take(cow);
    ns = paused_ns(cow);
    pthread_mutex_unlock(&cow->lock);
    return ns;
}

/* --- keeping ------------------------------------------------------------------------------------------------------ */

static bool is_kept(const est_cow_var *c, size_t line)
{
    return (c->kept[line / LINES_OF_WORD] >> line % LINES_OF_WORD & 1) != 0;
}

/* Bytes [first, first + n) as they are, or would be if they were drawn. */
static void copy_bytes(const est_cow_var *c, size_t first, size_t n, void *out)
{
    size_t size = est_dtype_size(c->var->value.dtype);

    if (c->copy != NULL) {
        memcpy(out, c->copy + first, n);
        return;
    }
    est_lazy_copy(c->var, NULL, (int64_t)(first / size), (int64_t)(n / size), out);
}

/* The number + 1 of a free record; 0: all are in use. */
static uint32_t take_record(est_cow *cow)
{
    uint32_t at = cow->free;

    if (at != 0) {
        cow->free = cow->records[at - 1].next;
    } else if (cow->n_records < cow->max_records) {
        at = ++cow->n_records;
    }
    cow->n_used += at != 0;
    return at;
}

/* The lock is released during the wait, and while the long wait is logged. */
static void await_reader(est_cow *cow)
{
    int64_t paused;

    if (cow->n_waiting++ == 0) cow->since_ns = est_machine_ns();
    est_cond_wait_ns(&cow->moved, &cow->lock, TELL_NS);
    paused = paused_ns(cow);
    if (--cow->n_waiting == 0) cow->paused_ns = paused;
    if (cow->ended || paused - cow->told_ns < TELL_NS) return;
    cow->told_ns = paused;
    pthread_mutex_unlock(&cow->lock);
    est_log_warn("updates have waited %.0f s for a checkpoint to be written: changes since its begin exceed the "
                 "buffer of %.0f MB",
                 (double)paused / (double)EST_NS_PER_SEC, (double)est_cow_buffer_bytes(cow) / 1e6);
    take(cow);
}

/* Whether the line must be kept before it is changed (W2). */
static bool is_needed(const est_cow_var *c, size_t line)
{
    const est_cow *cow = c->cow;
    int            at  = (int)(c - cow->vars);

    if (cow->ended || at < cow->at || (at == cow->at && line * EST_COW_LINE < cow->done)) return false;
    return !is_kept(c, line);
}

/* Waits until there is room for the line and others, or need for none. */
static void await_room(est_cow_var *c, size_t line)
{
    est_cow *cow = c->cow;

    do {
        await_reader(cow);
    } while (is_needed(c, line) && cow->max_records - cow->n_used < cow->max_records / ROOM_PART);
}

static void keep_line(est_cow_var *c, size_t line)
{
    est_cow *cow  = c->cow;
    size_t   from = line * EST_COW_LINE, chunk = from / EST_COW_CHUNK;
    uint32_t at = 0;
    record  *r;

    while (is_needed(c, line) && (at = take_record(cow)) == 0) await_room(c, line);
    if (at == 0) return;
    r = &cow->records[at - 1];
    copy_bytes(c, from, c->bytes - from < EST_COW_LINE ? c->bytes - from : EST_COW_LINE, r->bytes);
    r->line         = (uint32_t)(line % (EST_COW_CHUNK / EST_COW_LINE));
    r->next         = c->first[chunk];
    c->first[chunk] = at;
    c->kept[line / LINES_OF_WORD] |= UINT64_C(1) << line % LINES_OF_WORD;
}

/* Under the lock. */
static void keep_bytes(est_cow_var *c, size_t from, size_t to)
{
    size_t end = divide_up(to < c->bytes ? to : c->bytes, EST_COW_LINE);

    for (size_t line = from / EST_COW_LINE; line < end && !c->cow->ended; line++) keep_line(c, line);
}

static void keep_rows(est_cow_var *c, const est_view *indices)
{
    const est_view *value = &c->var->value;
    size_t          row   = (size_t)est_row_size(value) * est_dtype_size(value->dtype);

    for (int64_t i = 0; i < indices->count; i++) {
        int64_t at = est_row_at(indices->data, indices->dtype == EST_I64, i);

        if (at >= 0) keep_bytes(c, (size_t)at * row, ((size_t)at + 1) * row);
    }
}

/* indices NULL: bytes [from, to). Snapshots that have ended are forgotten. */
static void keep(est_var *var, size_t from, size_t to, const est_view *indices)
{
    for (est_cow_var **link = &var->cow; *link != NULL;) {
        est_cow_var *c = *link;
        bool         ended;

        take(c->cow);
        if (indices != NULL) {
            keep_rows(c, indices);
        } else {
            keep_bytes(c, from, to);
        }
        ended = c->cow->ended;
        pthread_mutex_unlock(&c->cow->lock);
        if (ended) {
            *link = c->next;
            drop_reference(c->cow, false);
        } else {
            link = &c->next;
        }
    }
}

void est_cow_keep_bytes(est_var *var, size_t from, size_t to)
{
    keep(var, from, to, NULL);
}

void est_cow_keep_named(est_var *var, const est_view *indices)
{
    keep(var, 0, 0, indices);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Runs of lines that are not kept (W1). */
static void read_memory(const est_cow_var *c, size_t first, size_t n, char *out)
{
    size_t line = first / EST_COW_LINE, end = divide_up(first + n, EST_COW_LINE);

    while (line < end) {
        size_t from = line * EST_COW_LINE, to;

        if (is_kept(c, line++)) continue;
        while (line < end && !is_kept(c, line)) line++;
        to = line * EST_COW_LINE < first + n ? line * EST_COW_LINE : first + n;
        copy_bytes(c, from, to - from, out + (from - first));
    }
}

/* Copies the kept lines and frees their records (W3). */
static void read_records(est_cow_var *c, size_t chunk, size_t n, char *out)
{
    est_cow *cow = c->cow;

    for (uint32_t at = c->first[chunk], next; at != 0; at = next) {
        record *r    = &cow->records[at - 1];
        size_t  from = (size_t)r->line * EST_COW_LINE;

        memcpy(out + from, r->bytes, n - from < EST_COW_LINE ? n - from : EST_COW_LINE);
        next      = r->next;
        r->next   = cow->free;
        cow->free = at;
        cow->n_used--;
    }
    c->first[chunk] = 0;
}

est_status est_cow_read(est_cow *cow, int i, size_t first, size_t n, void *out)
{
    est_cow_var *c = &cow->vars[i];
    bool         ended;

    take(cow);
    ended = cow->ended;
    if (!ended && n > 0) {
        read_memory(c, first, n, out);
        read_records(c, first / EST_COW_CHUNK, n, out);
        cow->at   = i;
        cow->done = first + n;
        pthread_cond_broadcast(&cow->moved);
    }
    pthread_mutex_unlock(&cow->lock);
    if (ended) return est_fail(EST_ABORTED, "the task gave up the variables, or this checkpoint of them");
    return EST_OK;
}
