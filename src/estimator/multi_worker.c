/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that train together. */
#include "estimator/multi_worker.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "strategy/workers.h"

#define TRAINING "train" /* a purpose to meet for */

/* --- who ----------------------------------------------------------------------------------------------------------------- */

bool est_is_multi_worker(const est_estimator *estimator, const est_strategy *strategy)
{
    return strategy != NULL && strategy->kind == EST_STRATEGY_MULTI_WORKER_MIRRORED &&
           strcmp(estimator->task->type, "evaluator") != 0 && est_count_ranks(estimator->task->cluster) > 1;
}

static bool is_over(void *user)
{
    return est_cluster_task_is_over(user);
}

/* What all workers need the same, beyond what their strategy says, for a training to end, and to be followed by what comes next. */
static est_status write_terms(const est_multi_worker *multi_worker, char **out)
{
    const est_estimator *estimator = multi_worker->job.estimator;
    est_strbuf           text      = { 0 };

    est_terms_add_max_steps(&text, multi_worker->job.max_steps);
    est_strbuf_printf(&text, "eval_distribute=%s\n",
                      est_is_multi_worker(estimator, estimator->config.eval_distribute) ? "multi_worker_mirrored"
                                                                                        : "none");
    return est_strbuf_take(&text, out);
}

/* One that is slow with its part of an evaluation is not lost: that its links tell. */
static est_status make_membership(est_multi_worker *multi_worker, const est_strategy *strategy)
{
    const est_estimator *estimator    = multi_worker->job.estimator;
    double               connect_secs = estimator->config.session_creation_timeout_secs;
    bool                 trains       = multi_worker->job.max_steps != (int64_t)EST_OFF;
    char                *terms        = NULL;
    est_status           status;

    if (trains) EST_TRY(write_terms(multi_worker, &terms));
    status = est_membership_of_task(multi_worker->job.server, estimator->task, strategy,
                                    &(est_membership_options){ .connect_secs  = connect_secs,
                                                               .deadline_secs = trains ? 0 : connect_secs,
                                                               .terms         = terms,
                                                               .purpose       = trains ? TRAINING : "evaluate",
                                                               .after         = trains ? NULL : TRAINING,
                                                               .over          = trains ? is_over : NULL,
                                                               .user          = &multi_worker->job },
                                    &multi_worker->membership);
    est_free(terms);
    return status;
}

est_status est_multi_worker_open(est_estimator *estimator, const est_strategy *strategy, int64_t max_steps,
                                 est_multi_worker *out)
{
    est_status status;

    *out     = (est_multi_worker){ .n        = est_count_ranks(estimator->task->cluster),
                                   .self     = est_rank_of(estimator->task),
                                   .replicas = strategy->replicas > 0 ? strategy->replicas : 1 };
    out->job = (est_cluster_task){ .estimator = estimator, .max_steps = max_steps, .start_secs = est_wall_secs() };
    status   = est_cluster_task_serve(&out->job);
    if (status == EST_OK) status = make_membership(out, strategy);
    if (status != EST_OK) est_multi_worker_close(out);
    return status;
}

void est_multi_worker_fail(est_multi_worker *multi_worker, est_status status)
{
    if (multi_worker->membership != NULL && status != EST_OK) est_membership_fail(multi_worker->membership, status);
}

void est_multi_worker_close(est_multi_worker *multi_worker)
{
    est_membership_free(multi_worker->membership);
    est_gathered_clear(&multi_worker->positions);
    est_cluster_task_close(&multi_worker->job);
    *multi_worker = (est_multi_worker){ 0 };
}

est_status est_multi_worker_join(est_multi_worker *multi_worker, int64_t step, const char *payload)
{
    if (multi_worker->met) return EST_OK;
    EST_TRY(est_membership_join(multi_worker->membership, step, payload, &multi_worker->view));
    multi_worker->met = true;
    return EST_OK;
}

/* --- nothing to bring -------------------------------------------------------------------------------------------------------- */

/* Zeros, or no rows of what has any number of them. */
static est_status make_nothing(est_node node, est_tensor **out)
{
    est_shape shape = *est_node_shape(node);

    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 0) shape.dim[i] = 0;
    }
    EST_TRY(est_tensor_create(est_node_dtype(node), shape, out));
    memset(est_tensor_mutable_data(*out), 0, est_tensor_bytes(*out));
    return EST_OK;
}

est_status est_multi_worker_idle(est_graph *graph, est_arena *arena, est_loop_multi_worker *out)
{
    int          n      = est_reduce_inputs(graph, NULL, 0);
    est_node    *feeds  = est_arena_alloc(arena, (size_t)(n + 1) * sizeof *feeds);
    est_tensor **values = est_arena_alloc(arena, (size_t)(n + 1) * sizeof *values);
    est_status   status = feeds != NULL && values != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK) n = est_reduce_inputs(graph, feeds, n);
    for (int i = 0; i < n && status == EST_OK; i++) status = make_nothing(feeds[i], &values[i]);
    out->idle_feeds  = feeds;
    out->idle_values = (const est_tensor *const *)values;
    out->n_idle      = values != NULL ? n : 0;
    return status;
}

void est_multi_worker_free_idle(const est_loop_multi_worker *idle)
{
    for (int i = 0; i < idle->n_idle; i++) {
        est_tensor *value;

        memcpy(&value, &idle->idle_values[i], sizeof value);
        est_tensor_free(value);
    }
}

/* --- positions ------------------------------------------------------------------------------------------------------------- */

/* As bytes: the step, the number of tasks and, if there are positions, the begin of each and of what is behind them, and they. */
static size_t packed_size(const est_multi_worker *multi_worker)
{
    size_t n = (size_t)multi_worker->n;

    return multi_worker->positions.data == NULL ? 2 * sizeof(int64_t)
                                                : (n + 3) * sizeof(int64_t) + multi_worker->positions.begins[n];
}

static void pack_positions(const est_multi_worker *multi_worker, char *out)
{
    size_t  n       = (size_t)multi_worker->n;
    int64_t numbers = multi_worker->at_step;

    memcpy(out, &numbers, sizeof numbers);
    numbers = (int64_t)n;
    memcpy(out + sizeof numbers, &numbers, sizeof numbers);
    if (multi_worker->positions.data == NULL) return;
    for (size_t i = 0; i <= n; i++) {
        numbers = (int64_t)multi_worker->positions.begins[i];
        memcpy(out + (i + 2) * sizeof numbers, &numbers, sizeof numbers);
    }
    memcpy(out + (n + 3) * sizeof numbers, multi_worker->positions.data, multi_worker->positions.begins[n]);
}

static est_status bad_positions(void)
{
    return est_fail(EST_DATA_LOSS, "the positions of the workers' inputs are damaged");
}

static int64_t number_at(const char *bytes, size_t i)
{
    int64_t value;

    memcpy(&value, bytes + i * sizeof value, sizeof value);
    return value;
}

static est_status check_begins(const char *bytes, size_t size, size_t n)
{
    size_t head = (n + 3) * sizeof(int64_t);

    for (size_t i = 0; i <= n; i++) {
        int64_t begin = number_at(bytes, i + 2), before = i > 0 ? number_at(bytes, i + 1) : 0;

        if (begin < before || (uint64_t)begin > size - head) return bad_positions();
    }
    return number_at(bytes, n + 2) == (int64_t)(size - head) ? EST_OK : bad_positions();
}

/* Positions of another number of tasks are of no use: each had other rows then, and begins anew at the step of the meeting. */
static est_status unpack_positions(est_multi_worker *multi_worker, const char *bytes, size_t size)
{
    size_t       n = (size_t)multi_worker->n, head = (n + 3) * sizeof(int64_t);
    est_gathered made = { 0 };

    if (size < 2 * sizeof(int64_t)) return bad_positions();
    est_gathered_clear(&multi_worker->positions);
    multi_worker->at_step = number_at(bytes, 1) == (int64_t)n ? number_at(bytes, 0) : multi_worker->view.step;
    if (size == 2 * sizeof(int64_t) || number_at(bytes, 1) != (int64_t)n) return EST_OK;
    if (size < head) return bad_positions();
    EST_TRY(check_begins(bytes, size, n));
    made.data   = est_alloc(size - head + 1);
    made.begins = est_alloc((n + 1) * sizeof *made.begins);
    if (made.data == NULL || made.begins == NULL) {
        est_free(made.data);
        est_free(made.begins);
        return est_no_memory();
    }
    memcpy(made.data, bytes + head, size - head);
    for (size_t i = 0; i <= n; i++) made.begins[i] = (size_t)number_at(bytes, i + 2);
    multi_worker->positions = made;
    return EST_OK;
}

est_status est_multi_worker_positions(const est_multi_worker *multi_worker, est_tensor **out)
{
    size_t size = packed_size(multi_worker);

    EST_TRY(est_tensor_create(EST_U8, EST_SHAPE((int64_t)size), out));
    pack_positions(multi_worker, est_tensor_mutable_data(*out));
    return EST_OK;
}

est_status est_multi_worker_set_positions(est_multi_worker *multi_worker, const est_tensor *positions)
{
    if (est_tensor_dtype(positions) != EST_U8) return bad_positions();
    return unpack_positions(multi_worker, est_tensor_data(positions), est_tensor_bytes(positions));
}

est_status est_multi_worker_note(est_multi_worker *multi_worker, est_iterator *input, int64_t step)
{
    est_tensor  *mine = NULL;
    est_gathered all  = { 0 };
    bool         complete;
    est_status   status;

    EST_TRY(est_iterator_save(input, &mine));
    status = est_membership_gather(multi_worker->membership, est_tensor_data(mine), est_tensor_bytes(mine), &all);
    est_tensor_free(mine);
    EST_TRY(status);
    complete = multi_worker->view.n ==
               multi_worker->n; /* else ranks are not the numbers of tasks, and one is missing */
    if (complete) {
        est_gathered_clear(&multi_worker->positions);
        multi_worker->positions = all;
        multi_worker->at_step   = step;
    } else {
        est_gathered_clear(&all);
    }
    return EST_OK;
}

/* Reads on from the last position that is known, or from the beginning, over the batches of the steps since then. */
est_status est_multi_worker_seek(const est_multi_worker *multi_worker, est_iterator *input, const est_dataset *dataset,
                                 int64_t step)
{
    const est_gathered *p       = &multi_worker->positions;
    int                 n       = est_dataset_components(dataset);
    int64_t             batches = (step - multi_worker->at_step) * multi_worker->replicas;
    est_field          *batch;
    est_status          status = EST_OK;

    if (p->data != NULL) {
        size_t      begin    = p->begins[multi_worker->self];
        est_tensor *position = NULL;

        EST_TRY(est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)(p->begins[multi_worker->self + 1] - begin)),
                                       (const char *)p->data + begin, &position));
        status = est_iterator_restore(input, position);
        est_tensor_free(position);
        EST_TRY(status);
    }
    batch = est_zalloc((size_t)(n + 1) * sizeof *batch);
    if (batch == NULL) return est_no_memory();
    if (batches > 0) est_log_info("Reading over %" PRId64 " batches that were trained with.", batches);
    for (int64_t i = 0; i < batches && status == EST_OK; i++) {
        status = est_iterator_next(input, batch);
        est_element_clear(batch, n);
    }
    est_free(batch);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

/* --- sharing --------------------------------------------------------------------------------------------------------------- */

/* A group that has failed, or is late, is met again. */
static est_status await(est_work *work)
{
    est_status status = est_work_wait(work);

    if (status != EST_DEADLINE_EXCEEDED && status != EST_UNAVAILABLE) return status;
    return est_fail(EST_ABORTED, "%s", est_error_message());
}

static est_status broadcast(est_multi_worker *multi_worker, void *data, size_t bytes)
{
    est_work *work;

    EST_TRY(est_broadcast(multi_worker->view.group, data, bytes, multi_worker->view.source, NULL, &work));
    return await(work);
}

/* Those of the source, packed. */
static est_status share_positions(est_multi_worker *multi_worker, char **out, size_t *size)
{
    uint64_t   bytes = packed_size(multi_worker);
    char      *data;
    est_status status;

    EST_TRY(broadcast(multi_worker, &bytes, sizeof bytes));
    data = est_alloc((size_t)bytes + 1);
    if (data == NULL) return est_no_memory();
    if (multi_worker->view.rank == multi_worker->view.source) pack_positions(multi_worker, data);
    status = broadcast(multi_worker, data, (size_t)bytes);
    if (status != EST_OK) {
        est_free(data);
        return status;
    }
    *out  = data;
    *size = (size_t)bytes;
    return EST_OK;
}

/* Positions come first and are used last: whoever is left when the source is lost has either the old ones and the old variables, or the
 * new of both. */
est_status est_multi_worker_transfer(est_multi_worker *multi_worker, est_session *session)
{
    char      *positions = NULL;
    size_t     size;
    est_status status;

    multi_worker->met = false; /* whatever comes of it: one that fails is tried again in a meeting */
    EST_TRY(share_positions(multi_worker, &positions, &size));
    status = est_membership_transfer(multi_worker->membership, session, multi_worker->view.source);
    if (status == EST_OK && multi_worker->view.rank != multi_worker->view.source)
        status = unpack_positions(multi_worker, positions, size);
    est_free(positions);
    return status;
}

/* --- sums -------------------------------------------------------------------------------------------------------------------- */

/* What is to be summed: copies. */
typedef struct addends {
    est_tensor **values; /* [n] */
    int          n;
    double      *counts; /* [n_counts] */
    int          n_counts;
} addends;

static est_status sum_one(est_multi_worker *multi_worker, void *data, int64_t count, est_dtype dtype)
{
    est_work *work;

    EST_TRY(est_all_reduce(multi_worker->view.group, data, (size_t)count, dtype, EST_REDUCE_OP_SUM, NULL, &work));
    return await(work);
}

static est_status sum_copies(est_multi_worker *multi_worker, const addends *a)
{
    for (int i = 0; i < a->n; i++) {
        EST_TRY(sum_one(multi_worker, est_tensor_mutable_data(a->values[i]), est_tensor_count(a->values[i]),
                        est_tensor_dtype(a->values[i])));
    }
    return sum_one(multi_worker, a->counts, a->n_counts, EST_F64);
}

static est_status copy_addends(est_session *session, est_nodes variables, const double *counts, addends *a)
{
    for (int i = 0; i < variables.n; i++) {
        EST_TRY(est_session_read(session, est_node_name(variables.data[i]), &a->values[i]));
        a->n = i + 1;
    }
    memcpy(a->counts, counts, (size_t)a->n_counts * sizeof *counts);
    return EST_OK;
}

static void drop_addends(addends *a)
{
    for (int i = 0; i < a->n; i++) est_tensor_free(a->values[i]);
    a->n = 0;
}

static est_status keep_sums(est_session *session, est_nodes variables, const addends *a, double *counts)
{
    for (int i = 0; i < variables.n; i++) {
        EST_TRY(est_session_write(session, est_node_name(variables.data[i]), a->values[i]));
    }
    memcpy(counts, a->counts, (size_t)a->n_counts * sizeof *counts);
    return EST_OK;
}

/* Whoever gets past this knows that all have the sums. */
static est_status await_all(est_multi_worker *multi_worker)
{
    double nothing = 0;

    return sum_one(multi_worker, &nothing, 1, EST_F64);
}

est_status est_multi_worker_await_end(est_multi_worker *multi_worker)
{
    for (;;) {
        est_status status = await_all(multi_worker);

        if (status != EST_ABORTED) EST_TRY(status);
        if (multi_worker->view.rank == 0) return EST_OK;
        multi_worker->met = false;
        EST_TRY(est_multi_worker_join(multi_worker, -1, ""));
        if (multi_worker->view.over) return EST_OK;
    }
}

/* One who is lost meanwhile is found missing by the first, or was not needed any more. */
static est_status await_first(est_multi_worker *multi_worker)
{
    est_status status = await_all(multi_worker);

    if (status != EST_ABORTED) EST_TRY(status);
    EST_TRY(est_multi_worker_join(multi_worker, 1, ""));
    return multi_worker->view.over ? EST_OK : est_fail(EST_ABORTED, "a worker has come back after the last batch");
}

static est_status try_sum(est_multi_worker *multi_worker, est_session *session, est_nodes variables, double *counts,
                          addends *a)
{
    drop_addends(a);
    EST_TRY(copy_addends(session, variables, counts, a));
    EST_TRY(sum_copies(multi_worker, a));
    EST_TRY(multi_worker->view.rank == 0 ? await_all(multi_worker) : await_first(multi_worker));
    return keep_sums(session, variables, a, counts);
}

/* Whoever has come back has no variables yet. */
static est_status meet_again(est_multi_worker *multi_worker, est_session *session, est_status status)
{
    est_log_warn("%s: %s. Meeting the other workers.", est_status_name(status), est_error_message());
    EST_TRY(est_multi_worker_join(multi_worker, 1, ""));
    if (multi_worker->view.over) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the others have ended without this worker: evaluate again with all, or "
                        "without TF_CONFIG and eval_distribute on one machine");
    }
    return est_multi_worker_transfer(multi_worker, session);
}

/* With `elastic` some may be missing. */
static void name_missing(const est_multi_worker *multi_worker)
{
    const est_membership_view *m       = &multi_worker->view;
    est_strbuf                 missing = { 0 };

    for (int i = 0, k = 0; i < multi_worker->n; i++) {
        if (k < m->n && m->tasks[k] == i) {
            k++;
        } else {
            est_strbuf_printf(&missing, "%s%d", est_strbuf_text(&missing)[0] != '\0' ? ", " : "", i);
        }
    }
    est_log_warn("The evaluation is without the examples of %d of %d workers, which did not come back: number %s.",
                 multi_worker->n - m->n, multi_worker->n, est_strbuf_text(&missing));
    est_strbuf_clear(&missing);
}

est_status est_multi_worker_sum(est_multi_worker *multi_worker, est_session *session, est_nodes variables,
                                double *counts, int n_counts)
{
    addends    a      = { .n_counts = n_counts };
    est_status status = EST_ABORTED;

    a.values = est_zalloc((size_t)(variables.n + 1) * sizeof(est_tensor *));
    a.counts = est_zalloc((size_t)(n_counts + 1) * sizeof *a.counts);
    if (a.values == NULL || a.counts == NULL) {
        status = est_no_memory();
    } else {
        status = try_sum(multi_worker, session, variables, counts, &a);
        for (int tries = 0; status == EST_ABORTED && tries < EST_RECOVERIES_MAX; tries++) {
            status = meet_again(multi_worker, session, status);
            if (status == EST_OK) status = try_sum(multi_worker, session, variables, counts, &a);
        }
        if (status == EST_ABORTED) {
            status = est_fail_context(status, "still failing after meeting the other workers %d times",
                                      EST_RECOVERIES_MAX);
        }
    }
    if (status == EST_OK && !multi_worker->view.over && multi_worker->view.n < multi_worker->n)
        name_missing(multi_worker);
    drop_addends(&a);
    est_free(a.values);
    est_free(a.counts);
    return status;
}
