/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations: each chooses an algorithm, which writes the list of steps, and begins. */
#include <string.h>

#include "base/alloc.h"
#include "collective/work.h"

enum { KIND_ALL_REDUCE, KIND_REDUCE_SCATTER, KIND_ALL_GATHER, KIND_ALL_GATHER_UNEVEN, KIND_BROADCAST, KIND_BARRIER };

/* Whether an algorithm has an operation: some have all-reduce only. */
static bool does(est_communication by, int kind)
{
    const est_algorithm *a = est_algorithm_of(by);

    return kind == KIND_ALL_REDUCE       ? a->all_reduce != NULL
           : kind == KIND_REDUCE_SCATTER ? a->reduce_scatter != NULL
           : kind == KIND_BROADCAST      ? a->broadcast != NULL
           : kind == KIND_BARRIER        ? a->barrier != NULL
                                         : a->all_gather != NULL;
}

/* The requested algorithm, else that of the rules. If it lacks the operation: that of the rules for ranks on separate
 * hosts, else the ring, which has everything. */
static est_status choose(const est_rank_group *group, int kind, const est_collective_options *options, size_t bytes,
                         est_communication *out)
{
    est_communication c = options != NULL ? options->communication : EST_COMMUNICATION_AUTO;

    if (c == EST_COMMUNICATION_AUTO) c = group->communication;
    if (c == EST_COMMUNICATION_AUTO) c = est_collective_choose(group->n, bytes, group->topology);
    if (c == EST_COMMUNICATION_NCCL) {
        return est_fail(EST_UNIMPLEMENTED,
                        "communication by nccl is between GPUs of workers, not within a group; use auto or ring");
    }
    if (c == EST_COMMUNICATION_SHARED && group->n > 1 && group->topology != EST_TOPOLOGY_ONE_HOST) {
        return est_fail(EST_FAILED_PRECONDITION, "communication by shared memory needs all ranks on one host; use "
                                                 "auto or ring");
    }
    if (!does(c, kind) || (c == EST_COMMUNICATION_SHARED && group->n == 1))
        c = est_collective_choose(group->n, bytes, EST_TOPOLOGY_APART);
    *out = does(c, kind) ? c : EST_COMMUNICATION_RING;
    return EST_OK;
}

/* Frees a work that has not begun, and aborts the group. */
static est_status drop(est_work *w, est_status status)
{
    est_mailbox *mailbox = w->group->mailbox;

    status = est_group_give_up(w->group, status);
    pthread_mutex_lock(&mailbox->lock);
    est_work_unref(w);
    pthread_mutex_unlock(&mailbox->lock);
    return status;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

static est_status begin_reduction(est_rank_group *group, int kind, est_collective c, est_dtype dtype,
                                  est_reduce_op reduction, const est_collective_options *options, est_work **out)
{
    static const char *const names[] = { "all_reduce", "reduce_scatter" };
    est_block_head           head    = {
                     .kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .reduction = (uint8_t)reduction, .bytes = c.count * c.element
    };
    est_communication    by;
    const est_algorithm *algorithm;
    est_work            *w;
    est_status           status;

    EST_TRY(choose(group, kind, options, c.count * c.element, &by));
    head.communication = (uint8_t)by;
    algorithm          = est_algorithm_of(by);
    c.hosts            = &group->hosts;
    status             = est_work_create(group, names[kind], head, options, &w);
    if (status != EST_OK) return est_group_give_up(group, status);
    if (by == EST_COMMUNICATION_DIRECT && c.count > 0 && group->n > 1) {
        w->scratch = est_alloc_aligned(c.count * c.element);
        if (w->scratch == NULL) {
            return drop(w, est_no_memory());
        }
        c.scratch = w->scratch;
    }
    if (group->n > 1) (kind == KIND_ALL_REDUCE ? algorithm->all_reduce : algorithm->reduce_scatter)(&w->moves, &c);
    return est_work_begin(w, out);
}

static est_status check_reduction(size_t count, est_dtype dtype, est_collective *c)
{
    if (dtype != EST_F32 && dtype != EST_F64 && dtype != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "elements of type %s cannot be reduced; expected float32, float64 or int64",
                        est_dtype_name(dtype));
    }
    c->element = est_dtype_size(dtype);
    if (count > SIZE_MAX / c->element)
        return est_fail(EST_INVALID_ARGUMENT, "%zu elements do not fit into memory", count);
    return EST_OK;
}

est_status est_all_reduce(est_rank_group *group, void *data, size_t count, est_dtype dtype, est_reduce_op reduction,
                          const est_collective_options *options, est_work **out)
{
    est_collective c = { .data = data, .count = count, .mean = reduction == EST_REDUCE_OP_MEAN };

    EST_TRY(check_reduction(count, dtype, &c));
    return begin_reduction(group, KIND_ALL_REDUCE, c, dtype, reduction, options, out);
}

est_status est_reduce_scatter(est_rank_group *group, void *data, size_t count, est_dtype dtype, est_reduce_op reduction,
                              const est_collective_options *options, est_work **out)
{
    est_collective c = { .data = data, .count = count, .mean = reduction == EST_REDUCE_OP_MEAN };

    EST_TRY(check_reduction(count, dtype, &c));
    return begin_reduction(group, KIND_REDUCE_SCATTER, c, dtype, reduction, options, out);
}

/* --- all-gather --------------------------------------------------------------------------------------------------- */

/* The steps of an all-gather into `all`, after copying this rank's part there. */
static void write_gather(est_work *w, const void *mine, uint8_t *all, const size_t *begins, est_communication by)
{
    est_moves     *s     = &w->moves;
    size_t         bytes = begins[s->rank + 1] - begins[s->rank];
    est_collective c     = { .data = all, .count = bytes, .element = 1, .mine = mine, .begins = begins };
    uint8_t       *own;

    if (begins[s->n] == 0) return;
    own = all + begins[s->rank];
    if (own != mine && by != EST_COMMUNICATION_SHARED) est_moves_add(s, EST_MOVE_COPY, 0, own, mine, bytes);
    if (s->n > 1) est_algorithm_of(by)->all_gather(s, &c);
}

est_status est_all_gather(est_rank_group *group, const void *mine, size_t bytes, void *all,
                          const est_collective_options *options, est_work **out)
{
    est_block_head    head = { .kind = KIND_ALL_GATHER, .bytes = bytes };
    est_communication by;
    est_work         *w;
    est_status        status;

    if (bytes > SIZE_MAX / (size_t)group->n)
        return est_fail(EST_INVALID_ARGUMENT, "%d times %zu bytes do not fit into memory", group->n, bytes);
    EST_TRY(choose(group, KIND_ALL_GATHER, options, bytes * (size_t)group->n, &by));
    head.communication = (uint8_t)by;
    status             = est_work_create(group, "all_gather", head, options, &w);
    if (status != EST_OK) return est_group_give_up(group, status);
    w->result.begins = est_alloc(((size_t)group->n + 1) * sizeof *w->result.begins);
    if (w->result.begins == NULL) return drop(w, est_no_memory());
    for (int i = 0; i <= group->n; i++) w->result.begins[i] = bytes * (size_t)i;
    write_gather(w, mine, all, w->result.begins, by);
    return est_work_begin(w, out);
}

/* The lengths of all ranks are known. */
static est_status gather_bytes(est_work *w)
{
    int     n      = w->group->n;
    size_t *begins = w->result.begins;

    begins[0] = 0;
    for (int i = 0; i < n; i++) {
        if (w->lengths[i] < 0 || (uint64_t)w->lengths[i] > SIZE_MAX - begins[i])
            return est_fail(EST_DATA_LOSS, "rank %d has a length of %lld", i, (long long)w->lengths[i]);
        begins[i + 1] = begins[i] + (size_t)w->lengths[i];
    }
    w->result.data = est_alloc_aligned(begins[n] > 0 ? begins[n] : 1);
    if (w->result.data == NULL) return est_no_memory();
    write_gather(w, w->mine, w->result.data, begins, (est_communication)w->head.communication);
    return w->moves.failed ? est_no_memory() : EST_OK;
}

est_status est_all_gather_uneven(est_rank_group *group, const void *mine, size_t bytes, est_gathered *all,
                                 const est_collective_options *options, est_work **out)
{
    est_block_head    head = { .kind = KIND_ALL_GATHER_UNEVEN };
    int               n    = group->n;
    est_communication by;
    est_work         *w;
    est_status        status;

    /* Each rank knows only its own length, so the choice must not depend on it. */
    EST_TRY(choose(group, KIND_ALL_GATHER_UNEVEN, options, SIZE_MAX, &by));
    head.communication = (uint8_t)by;
    status             = est_work_create(group, "all_gather", head, options, &w);
    if (status != EST_OK) return est_group_give_up(group, status);
    w->lengths       = est_zalloc((size_t)n * sizeof *w->lengths);
    w->result.begins = est_zalloc(((size_t)n + 1) * sizeof *w->result.begins);
    if (w->lengths == NULL || w->result.begins == NULL) return drop(w, est_no_memory());
    w->lengths[group->rank] = (int64_t)bytes;
    w->mine                 = mine;
    w->gathered             = all;
    w->then                 = gather_bytes;
    if (by == EST_COMMUNICATION_SHARED) { /* where the first piece carries the lengths */
        est_collective c = { .count = bytes, .element = 1, .mine = mine };

        est_algorithm_of(by)->all_gather(&w->moves, &c);
        return est_work_begin(w, out);
    }
    for (int i = 0; i <= n; i++) w->result.begins[i] = (size_t)i * sizeof *w->lengths; /* of the lengths, for now */
    write_gather(w, &w->lengths[group->rank], (uint8_t *)w->lengths, w->result.begins, EST_COMMUNICATION_DIRECT);
    est_moves_add(&w->moves, EST_MOVE_CALL, 0, NULL, NULL, 0);
    return est_work_begin(w, out);
}

void est_gathered_clear(est_gathered *gathered)
{
    est_free_aligned(gathered->data);
    est_free(gathered->begins);
    *gathered = (est_gathered){ 0 };
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

est_status est_broadcast(est_rank_group *group, void *data, size_t bytes, int root,
                         const est_collective_options *options, est_work **out)
{
    est_collective    c    = { .data = data, .count = bytes, .element = 1, .root = root };
    est_block_head    head = { .kind = KIND_BROADCAST, .root = (uint32_t)root, .bytes = bytes };
    est_communication by;
    est_work         *w;
    est_status        status;

    if (root < 0 || root >= group->n) return est_fail(EST_INVALID_ARGUMENT, "rank %d of a group of %d", root, group->n);
    EST_TRY(choose(group, KIND_BROADCAST, options, bytes, &by));
    head.communication = (uint8_t)by;
    status             = est_work_create(group, "broadcast", head, options, &w);
    if (status != EST_OK) return est_group_give_up(group, status);
    if (group->n > 1) est_algorithm_of(by)->broadcast(&w->moves, &c);
    return est_work_begin(w, out);
}

est_status est_barrier(est_rank_group *group, const est_collective_options *options, est_work **out)
{
    est_block_head    head = { .kind = KIND_BARRIER };
    est_communication by;
    est_work         *w;
    est_status        status;

    EST_TRY(choose(group, KIND_BARRIER, options, 0, &by));
    head.communication = (uint8_t)by;
    status             = est_work_create(group, "barrier", head, options, &w);
    if (status != EST_OK) return est_group_give_up(group, status);
    if (group->n > 1) est_algorithm_of(by)->barrier(&w->moves);
    return est_work_begin(w, out);
}
