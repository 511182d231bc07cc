/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation by all workers of multi_worker_mirrored: the chief has the checkpoint and transfers its variables; each
 * worker evaluates its part of the input; the states of metrics are summed over all. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "graph/graph.h"
#include "nn/metric.h"
#include "strategy/multi_worker.h"

#define NO_CHECKPOINT "no checkpoint" /* payload of a chief that has nothing to evaluate */

est_status est_multi_worker_check_states(const est_graph *graph)
{
    est_nodes unsummed = est_graph_collection(graph, EST_UNSUMMED_STATES);

    if (unsummed.n == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "workers that evaluate together sum the states of metrics, and the state %s is not only added to; "
                    "update it by est_assign_add or est_scatter_add, or evaluate without eval_distribute",
                    est_node_name(unsummed.data[0]));
}

/* --- whether to evaluate ------------------------------------------------------------------------------------------ */

static est_status barrier(est_multi_worker *m);

/* After a view that leaves nothing to do: the first returns when all know of it, and then ends the job; the others
 * return when it has. A worker that left before that would be waited for. */
static est_status await_end(est_multi_worker *m)
{
    for (;;) {
        est_status status = barrier(m);

        if (status != EST_ABORTED) EST_TRY(status);
        if (m->view.rank == 0) return EST_OK;
        m->pending = false;
        EST_TRY(est_multi_worker_join(m, -1, ""));
        if (m->view.over) return EST_OK;
    }
}

/* The payload of the chief, which has the checkpoint: "", or why it does not evaluate. */
static est_status join_to_evaluate(est_multi_worker *m, const char *payload)
{
    est_run *run = m->run;

    EST_TRY(est_multi_worker_join(m, run->self.is_chief ? 0 : -1, payload));
    if (m->view.over) {
        est_log_info("The other workers finished this evaluation without this worker.");
        run->over = true;
        return EST_OK;
    }
    payload   = est_membership_payload(m->membership);
    run->over = strcmp(payload, NO_CHECKPOINT) == 0;
    if (run->over) return await_end(m);
    if (payload[0] == '\0') return EST_OK;

    /* A chief that left before the group is complete would be taken for a lost one, and its reason would be lost too.
     * After that every worker may leave. */
    if (barrier(m) != EST_OK) est_log_debug("%s", est_error_message());
    return est_fail(EST_FAILED_PRECONDITION, "the chief cannot evaluate: %s", payload);
}

/* The others wait for the chief, and hear when it cannot evaluate. They wait for a worker that fails. */
est_status est_multi_worker_agree(est_run *run, est_status prepared)
{
    est_multi_worker *m = run->state;
    est_status        status;
    bool              missing = false;
    est_error         error;

    if (m->membership == NULL) return prepared;
    if (!run->self.is_chief) {
        EST_TRY(prepared);
        return join_to_evaluate(m, "");
    }
    if (prepared == EST_OK) {
        prepared = run->owner->find_checkpoint(run->user);
        missing  = prepared == EST_NOT_FOUND;
    }
    if (prepared == EST_OK) return join_to_evaluate(m, "");
    est_error_take(prepared, &error);
    status = join_to_evaluate(m, missing ? NO_CHECKPOINT : error.message);
    return missing ? status : est_error_raise(&error);
}

/* A chief that was started again gets the variables from the others, but reads the checkpoint all the same: exporters
 * need it pinned. */
est_status est_multi_worker_begin_evaluation(est_run *run, est_loop *loop)
{
    est_multi_worker *m = run->state;

    EST_TRY(join_to_evaluate(m, ""));
    if (run->over)
        return est_fail(EST_FAILED_PRECONDITION,
                        "the other workers have ended this evaluation; start it again on all workers");
    if (m->view.rank == m->view.source || run->self.is_chief) EST_TRY(est_run_restore(run, loop));
    return est_multi_worker_transfer(m, est_loop_session(loop));
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* Copies of what is summed: a sum that fails leaves the originals. */
typedef struct addends {
    est_tensor **values; /* [n] */
    int          n;
    double      *counts; /* [n_counts] */
    int          n_counts;
} addends;

static est_status sum_one(est_multi_worker *m, void *data, int64_t count, est_dtype dtype)
{
    est_work *work;

    EST_TRY(est_all_reduce(m->view.group, data, (size_t)count, dtype, EST_REDUCE_OP_SUM, NULL, &work));
    return est_multi_worker_await(work);
}

static est_status sum_copies(est_multi_worker *m, const addends *a)
{
    for (int i = 0; i < a->n; i++) {
        EST_TRY(sum_one(m, est_tensor_mutable_data(a->values[i]), est_tensor_count(a->values[i]),
                        est_tensor_dtype(a->values[i])));
    }
    return sum_one(m, a->counts, a->n_counts, EST_F64);
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

/* A worker that gets past this knows that all have the sums. */
static est_status barrier(est_multi_worker *m)
{
    double nothing = 0;

    return sum_one(m, &nothing, 1, EST_F64);
}

/* All but the first return when that has ended the job: without them it could not begin again. A worker that is lost
 * meanwhile is missed by the first, or was not needed any more. */
static est_status await_first(est_multi_worker *m)
{
    est_status status = barrier(m);

    if (status != EST_ABORTED) EST_TRY(status);
    EST_TRY(est_multi_worker_join(m, 1, ""));
    return m->view.over ? EST_OK : est_fail(EST_ABORTED, "a worker has come back after the last batch");
}

static est_status try_sum(est_multi_worker *m, est_session *session, est_nodes variables, double *counts, addends *a)
{
    drop_addends(a);
    EST_TRY(copy_addends(session, variables, counts, a));
    EST_TRY(sum_copies(m, a));
    EST_TRY(m->view.rank == 0 ? barrier(m) : await_first(m));
    return keep_sums(session, variables, a, counts);
}

/* A worker that has come back has no variables yet. */
static est_status rejoin_evaluation(est_multi_worker *m, est_session *session, est_status status)
{
    est_log_warn("%s: %s. Rejoining the other workers.", est_status_name(status), est_error_message());
    EST_TRY(est_multi_worker_join(m, 1, ""));
    if (m->view.over) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the others have ended without this worker: evaluate again with all, or "
                        "without TF_CONFIG and eval_distribute on one machine");
    }
    return est_multi_worker_transfer(m, session);
}

/* With `elastic` some may be missing. */
static void name_missing(const est_multi_worker *m)
{
    int        size    = m->run->self.size;
    est_strbuf missing = { 0 };

    for (int i = 0, k = 0; i < size; i++) {
        if (k < m->view.n && m->view.tasks[k] == i) {
            k++;
        } else {
            est_strbuf_printf(&missing, "%s%d", est_strbuf_text(&missing)[0] != '\0' ? ", " : "", i);
        }
    }
    est_log_warn("The evaluation lacks the examples of %d of %d workers, which did not come back: number %s.",
                 size - m->view.n, size, est_strbuf_text(&missing));
    est_strbuf_clear(&missing);
}

/* A worker that is lost meanwhile is waited for, and adds its part when it is back. */
est_status est_multi_worker_reduce(est_run *run, est_session *session, est_nodes variables, double *counts,
                                   int n_counts)
{
    est_multi_worker *m      = run->state;
    addends           a      = { .n_counts = n_counts };
    est_status        status = EST_ABORTED;

    a.values = est_zalloc((size_t)(variables.n + 1) * sizeof(est_tensor *));
    a.counts = est_zalloc((size_t)(n_counts + 1) * sizeof *a.counts);
    if (a.values == NULL || a.counts == NULL) {
        status = est_no_memory();
    } else {
        status = try_sum(m, session, variables, counts, &a);
        for (int tries = 0; status == EST_ABORTED && tries < EST_RECOVERIES_MAX; tries++) {
            status = rejoin_evaluation(m, session, status);
            if (status == EST_OK) status = try_sum(m, session, variables, counts, &a);
        }
        if (status == EST_ABORTED) {
            status = est_fail_context(status, "still failing after rejoining the other workers %d times",
                                      EST_RECOVERIES_MAX);
        }
    }
    if (status == EST_OK && !m->view.over && m->view.n < run->self.size) name_missing(m);
    drop_addends(&a);
    est_free(a.values);
    est_free(a.counts);
    return status;
}
