/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers in memory. */
#include "support/memory_communicator.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "support/nn_test.h"

#define RANKS_MAX  16
#define OPS_MAX    4096
#define WAIT_SECS  60 /* only a test that fails waits so long */
#define TABLES_MAX 16 /* of rows that travel together */
#define SLOTS_MAX  (16 * TABLES_MAX)

typedef enum op_kind { OP_NONE, OP_SUM, OP_ROWS, OP_GATHER } op_kind;

/* What one worker brings to one operation. */
typedef struct brought {
    op_kind   kind;
    est_dtype dtype;
    size_t    count; /* elements, of a row, or bytes */
    void     *data;  /* copied */
    int64_t  *indices;
    int64_t   n;
} brought;

struct est_comm_work {
    int     number, slot;
    void   *data;  /* SUM: where the result goes */
    size_t  count; /* ROWS: of tables */
    op_kind kind;
};

typedef struct memory_peer {
    est_communicator     base;
    memory_communicator *all;
    int                  begun;
    void                *values[SLOTS_MAX]; /* results, until the next of the slot */
    int64_t             *indices[SLOTS_MAX];
    size_t               begins[RANKS_MAX + 1];
} memory_peer;

struct memory_communicator {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             n, broken;
    char            why[256]; /* a worker has aborted; "": none */
    memory_peer     peer[RANKS_MAX];
    brought        *ops; /* [OPS_MAX * n] */
};

static memory_peer *of(est_communicator *communicator)
{
    return (memory_peer *)(void *)communicator; /* its first member */
}

static brought *at(const memory_communicator *all, int number, int rank)
{
    return &all->ops[number * all->n + rank];
}

static void *copy(const void *data, size_t bytes)
{
    void *made = malloc(bytes + 1);

    assert_non_null(made);
    if (bytes > 0) memcpy(made, data, bytes);
    return made;
}

static est_status begin(est_communicator *communicator, brought what, est_comm_work work, est_comm_work **out)
{
    memory_peer *p = of(communicator);

    work.number = p->begun++;
    assert_true(work.number < OPS_MAX);
    pthread_mutex_lock(&p->all->lock);
    *at(p->all, work.number, communicator->rank) = what;
    pthread_cond_broadcast(&p->all->changed);
    pthread_mutex_unlock(&p->all->lock);
    *out = copy(&work, sizeof work);
    return EST_OK;
}

static bool complete(const memory_communicator *all, int number)
{
    for (int i = 0; i < all->n; i++) {
        if (at(all, number, i)->kind == OP_NONE) return false;
    }
    return true;
}

/* Waits for all; they must have begun the same. */
static est_status await(memory_communicator *all, int number)
{
    struct timespec until;
    bool            there, broken;
    char            why[sizeof all->why];

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECS;
    pthread_mutex_lock(&all->lock);
    while (!complete(all, number) && all->why[0] == '\0' &&
           pthread_cond_timedwait(&all->changed, &all->lock, &until) == 0) {}
    there  = complete(all, number);
    broken = all->broken >= 0 && number >= all->broken;
    memcpy(why, all->why, sizeof why);
    pthread_mutex_unlock(&all->lock);
    if (!there && why[0] != '\0') return est_fail(EST_ABORTED, "operation %d: %s", number, why);
    if (!there) return est_fail(EST_DEADLINE_EXCEEDED, "operation %d: somebody did not come", number);
    if (broken) return est_fail(EST_ABORTED, "operation %d: a worker was lost", number);
    for (int i = 1; i < all->n; i++) {
        const brought *a = at(all, number, 0), *b = at(all, number, i);

        if (a->kind != b->kind || a->dtype != b->dtype || (a->kind != OP_GATHER && a->count != b->count)) {
            return est_fail(EST_INTERNAL, "operation %d: worker %d brings something else than worker 0", number, i);
        }
    }
    return EST_OK;
}

static void add(void *sum, const void *more, size_t count, est_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == EST_F32) ((float *)sum)[i] += ((const float *)more)[i];
        if (dtype == EST_F64) ((double *)sum)[i] += ((const double *)more)[i];
        if (dtype == EST_I64) ((int64_t *)sum)[i] += ((const int64_t *)more)[i];
    }
}

static est_status sum(est_communicator *communicator, void *data, size_t count, est_dtype dtype, est_comm_work **out)
{
    return begin(
        communicator,
        (brought){ .kind = OP_SUM, .dtype = dtype, .count = count, .data = copy(data, count * est_dtype_size(dtype)) },
        (est_comm_work){ .kind = OP_SUM, .data = data, .count = count }, out);
}

static est_status wait_sum(est_communicator *communicator, est_comm_work *work)
{
    memory_communicator *all    = of(communicator)->all;
    est_status           status = await(all, work->number);

    for (int i = 0; i < all->n && status == EST_OK; i++) {
        const brought *b = at(all, work->number, i);

        if (i == 0) memcpy(work->data, b->data, b->count * est_dtype_size(b->dtype));
        if (i > 0) add(work->data, b->data, b->count, b->dtype);
    }
    free(work);
    return status;
}

/* The rows times their factor. */
static void *scaled(const est_comm_rows *rows)
{
    size_t count = (size_t)rows->n * rows->row_count;
    void  *made  = copy(rows->values, count * est_dtype_size(rows->dtype));

    for (size_t i = 0; i < count; i++) {
        if (rows->dtype == EST_F32) ((float *)made)[i] *= (float)rows->factor;
        if (rows->dtype == EST_F64) ((double *)made)[i] *= rows->factor;
    }
    return made;
}

/* Every table is an operation of its own. */
static est_status begin_rows(est_communicator *communicator, int slot, const est_comm_rows *tables, int n,
                             est_comm_work **out)
{
    est_comm_work *work;

    assert_in_range(n, 1, TABLES_MAX);
    for (int i = 0; i < n; i++) {
        const est_comm_rows *rows = &tables[i];

        EST_TRY(begin(communicator,
                      (brought){ .kind    = OP_ROWS,
                                 .dtype   = rows->dtype,
                                 .count   = rows->row_count,
                                 .data    = scaled(rows),
                                 .indices = copy(rows->indices, (size_t)rows->n * sizeof(int64_t)),
                                 .n       = rows->n },
                      (est_comm_work){ .kind = OP_ROWS, .slot = slot, .count = (size_t)n }, &work));
        if (i == 0) {
            *out = work;
        } else {
            free(work);
        }
    }
    return EST_OK;
}

/* Adds a row where its index is, or at the end. */
static void put_row(est_comm_rows *all, int64_t *indices, char *values, const brought *b, int64_t row)
{
    size_t  bytes = b->count * est_dtype_size(b->dtype);
    int64_t place = 0;

    while (place < all->n && indices[place] != b->indices[row]) place++;
    if (place == all->n) {
        indices[all->n++] = b->indices[row];
        memcpy(values + (size_t)place * bytes, (const char *)b->data + (size_t)row * bytes, bytes);
    } else {
        add(values + (size_t)place * bytes, (const char *)b->data + (size_t)row * bytes, b->count, b->dtype);
    }
}

static est_status wait_table(memory_peer *p, int number, int slot, est_comm_rows *out)
{
    size_t         total = 0, bytes;
    const brought *first = at(p->all, number, 0);

    EST_TRY(await(p->all, number));
    bytes = first->count * est_dtype_size(first->dtype);
    for (int i = 0; i < p->all->n; i++) total += (size_t)at(p->all, number, i)->n;
    free(p->values[slot]);
    free(p->indices[slot]);
    p->values[slot]  = malloc(total * bytes + 1);
    p->indices[slot] = malloc(total * sizeof(int64_t) + 1);
    *out             = (est_comm_rows){ .indices = p->indices[slot], .values = p->values[slot] };
    for (int i = 0; i < p->all->n; i++) {
        const brought *b = at(p->all, number, i);

        for (int64_t row = 0; row < b->n; row++) put_row(out, p->indices[slot], p->values[slot], b, row);
    }
    return EST_OK;
}

static est_status wait_rows(est_communicator *communicator, est_comm_work *work, est_comm_rows *out)
{
    est_status status = EST_OK;

    for (int i = 0; i < (int)work->count && status == EST_OK; i++) {
        status = wait_table(of(communicator), work->number + i, TABLES_MAX * work->slot + i, &out[i]);
    }
    free(work);
    return status;
}

static est_status gather(est_communicator *communicator, int slot, const void *mine, size_t bytes, est_comm_work **out)
{
    return begin(communicator,
                 (brought){ .kind = OP_GATHER, .dtype = EST_U8, .count = bytes, .data = copy(mine, bytes) },
                 (est_comm_work){ .kind = OP_GATHER, .slot = slot }, out);
}

static est_status wait_gather(est_communicator *communicator, est_comm_work *work, const void **data,
                              const size_t **begins)
{
    memory_peer *p      = of(communicator);
    est_status   status = await(p->all, work->number);
    int          slot   = SLOTS_MAX - 1 - work->slot; /* those of rows begin at the other end */

    if (status == EST_OK) {
        p->begins[0] = 0;
        for (int i = 0; i < p->all->n; i++) p->begins[i + 1] = p->begins[i] + at(p->all, work->number, i)->count;
        free(p->values[slot]);
        p->values[slot] = malloc(p->begins[p->all->n] + 1);
        for (int i = 0; i < p->all->n; i++) {
            const brought *b = at(p->all, work->number, i);

            memcpy((char *)p->values[slot] + p->begins[i], b->data, b->count);
        }
        *data   = p->values[slot];
        *begins = p->begins;
    }
    free(work);
    return status;
}

static void abort_all(est_communicator *communicator, const char *why)
{
    memory_communicator *all = of(communicator)->all;

    pthread_mutex_lock(&all->lock);
    snprintf(all->why, sizeof all->why, "%s", why);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

static const est_communicator_ops ops = { sum, wait_sum, begin_rows, wait_rows, gather, wait_gather, abort_all };

memory_communicator *memory_communicator_create(int n)
{
    memory_communicator *all = calloc(1, sizeof *all);

    assert_non_null(all);
    assert_true(n <= RANKS_MAX);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->n      = n;
    all->broken = -1;
    all->ops    = calloc((size_t)n * OPS_MAX, sizeof *all->ops);
    assert_non_null(all->ops);
    for (int i = 0; i < n; i++) all->peer[i] = (memory_peer){ .base = { .ops = &ops, .n = n, .rank = i }, .all = all };
    return all;
}

void memory_communicator_free(memory_communicator *communicator)
{
    for (int i = 0; i < OPS_MAX * communicator->n; i++) {
        free(communicator->ops[i].data);
        free(communicator->ops[i].indices);
    }
    for (int i = 0; i < communicator->n; i++) {
        for (int slot = 0; slot < SLOTS_MAX; slot++) {
            free(communicator->peer[i].values[slot]);
            free(communicator->peer[i].indices[slot]);
        }
    }
    free(communicator->ops);
    pthread_cond_destroy(&communicator->changed);
    pthread_mutex_destroy(&communicator->lock);
    free(communicator);
}

est_communicator *memory_communicator_of(memory_communicator *communicator, int rank)
{
    return &communicator->peer[rank].base;
}

void memory_communicator_break(memory_communicator *communicator, int number)
{
    communicator->broken = number;
}

int memory_communicator_begun(const memory_communicator *communicator, int rank)
{
    return communicator->peer[rank].begun;
}

typedef struct runner {
    void (*work)(void *user, int rank);
    void *user;
    int   rank;
} runner;

static void *run(void *arg)
{
    const runner *r = arg;

    r->work(r->user, r->rank);
    return NULL;
}

void memory_communicator_run(int n, void (*work)(void *user, int rank), void *user)
{
    pthread_t threads[RANKS_MAX];
    runner    runners[RANKS_MAX];

    for (int i = 0; i < n; i++) {
        runners[i] = (runner){ work, user, i };
        assert_int_equal(pthread_create(&threads[i], NULL, run, &runners[i]), 0);
    }
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}
