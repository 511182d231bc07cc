/* SPDX-License-Identifier: Apache-2.0
 *
 * The multi_worker_mirrored strategy: membership, who leads and saves, and the run of one worker
 * (strategy/multi_worker.h). */
#include "strategy/multi_worker.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "cluster/cluster.h"
#include "cluster/task_status.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "train/hooks.h"
#include "train/saver.h"

#define GATHER_EVERY_STEPS 1000    /* between two times that workers gather the positions of their inputs */
#define LOCK_SECS          10.0    /* that a worker which led has to give the directory back */
#define TRAINING           "train" /* purposes of a membership */
#define EVALUATION         "evaluate"

typedef struct multi_worker_mirrored {
    est_strategy                      strategy;
    est_multi_worker_mirrored_options options; /* all pointers NULL */
} multi_worker_mirrored;

static const est_multi_worker_mirrored_options *options_of(const est_strategy *strategy)
{
    return &((const multi_worker_mirrored *)(const void *)strategy)->options; /* it begins with the strategy */
}

/* --- membership --------------------------------------------------------------------------------------------------- */

#define NAME_MAX_BYTES 32

/* Fills ranks, whose names are in `names`, by rank. */
static void list_ranks(const est_cluster *cluster, est_rank *ranks, char (*names)[NAME_MAX_BYTES])
{
    const char *job;
    int         index;

    for (int n = 0; (job = est_rank_task(cluster, n, &index)) != NULL; n++) {
        snprintf(names[n], sizeof names[n], "%s:%d", job, index);
        ranks[n] = (est_rank){ .task = names[n], .address = est_cluster_address(cluster, job, index) };
    }
}

/* What must be the same on all workers: for a step to fit together; for a training to end, and to be followed by the
 * same. */
static est_status write_terms(const est_run *run, char **out)
{
    const est_multi_worker_mirrored_options *how  = options_of(run->strategy);
    est_strbuf                               text = { 0 };

    est_strbuf_printf(&text, "communication=%s\n", est_communication_name(how->communication));
    est_strbuf_printf(&text, "bytes_per_pack=%" PRId64 "\n",
                      how->bytes_per_pack > 0 ? how->bytes_per_pack : (int64_t)EST_BYTES_PER_PACK);
    est_strbuf_printf(&text, "replicas=%d\n", run->strategy->self.replicas);
    est_strbuf_printf(&text, "elastic=%s\n", how->elastic ? "yes" : "no");
    if (run->purpose == EST_RUN_TRAIN) {
        est_run_add_max_steps(run, &text);
        est_strbuf_printf(&text, "eval_distribute=%s\n",
                          est_strategy_evaluators(run->evaluates_with) > 1 ? est_strategy_name(run->evaluates_with)
                                                                           : "none");
    }
    return est_strbuf_take(&text, out);
}

static bool is_over(void *user)
{
    return est_run_is_over(user);
}

/* A worker that is slow with its part of an evaluation is not lost: its links would tell. */
static est_membership_options membership_options(est_run *run)
{
    const est_multi_worker_mirrored_options *how       = options_of(run->strategy);
    bool                                     evaluates = run->purpose == EST_RUN_EVALUATE;

    return (est_membership_options){ .n              = run->self.size,
                                     .self           = run->self.rank,
                                     .connect_secs   = run->connect_secs,
                                     .rejoin_secs    = how->rejoin_secs,
                                     .elastic        = how->elastic,
                                     .deadline_secs  = evaluates ? run->connect_secs : how->timeout_secs,
                                     .bytes_per_pack = (size_t)how->bytes_per_pack,
                                     .communication  = how->communication,
                                     .purpose        = evaluates ? EVALUATION : TRAINING,
                                     .after          = evaluates ? TRAINING : NULL,
                                     .over           = run->purpose == EST_RUN_TRAIN ? is_over : NULL,
                                     .user           = run };
}

/* The device that the sessions of this run compute on; NULL: the CPU. One that is not there, they report. */
static const est_device *find_device(const est_run *run)
{
    const est_device *const *all;
    const est_device        *device = NULL;

    if (run->devices.n > 0) {
        if (est_device_named(run->devices.data[0], &device) != EST_OK) device = NULL;
    } else if (est_devices(&all) > 1) {
        device = all[1];
    }
    return device != NULL && device->runs != NULL ? device : NULL;
}

static est_status create_membership(est_multi_worker *m)
{
    est_membership_options o     = membership_options(m->run);
    size_t                 n     = (size_t)o.n + 1;
    est_rank              *ranks = est_zalloc(n * sizeof *ranks);
    char(*names)[NAME_MAX_BYTES] = est_zalloc(n * sizeof *names);
    char             *terms      = NULL;
    est_communication how        = options_of(m->run->strategy)->communication;
    est_status        status     = ranks != NULL && names != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK) status = write_terms(m->run, &terms);
    if (status == EST_OK) {
        list_ranks(m->run->self.task->cluster, ranks, names);
        o.terms       = terms;
        o.device_sums = how == EST_COMMUNICATION_AUTO || how == EST_COMMUNICATION_NCCL;
        if (o.device_sums) o.device = find_device(m->run);
        o.tasks = ranks;
        status  = est_membership_create(m->run->server, &o, &m->membership);
    }
    est_free(terms);
    est_free(ranks);
    est_free(names);
    return status;
}

est_status est_multi_worker_join(est_multi_worker *m, int64_t step, const char *payload)
{
    if (m->pending) return EST_OK;
    EST_TRY(est_membership_join(m->membership, step, payload, &m->view));
    m->pending = true;
    if (m->run->purpose != EST_RUN_TRAIN) m->run->leads = !m->view.over && m->view.rank == 0;
    return EST_OK;
}

est_status est_multi_worker_await(est_work *work)
{
    est_status status = est_work_wait(work);

    if (status != EST_DEADLINE_EXCEEDED && status != EST_UNAVAILABLE) return status;
    return est_fail(EST_ABORTED, "%s", est_error_message());
}

/* Positions, and what the owner adds, come first and are used last: a worker that is left when the source is lost has
 * either the old ones and the old variables, or the new ones of all. */
est_status est_multi_worker_transfer(est_multi_worker *m, est_session *session)
{
    char      *positions = NULL, *owned = NULL;
    size_t     size, owned_size;
    est_status status;

    m->pending = false; /* whatever comes of it: one that fails is tried again with a new view */
    EST_TRY(est_positions_broadcast(m, &positions, &size));
    status = est_owned_broadcast(m, &owned, &owned_size);
    if (status == EST_OK) status = est_membership_transfer(m->membership, session, m->view.source);
    if (status == EST_OK && m->view.rank != m->view.source) status = est_positions_unpack(m, positions, size);
    if (status == EST_OK && owned != NULL) status = m->run->owner->unpack(m->run->user, owned, owned_size);
    est_free(positions);
    est_free(owned);
    return status;
}

/* --- the leader --------------------------------------------------------------------------------------------------- */

static void follow(est_multi_worker *m)
{
    est_run_release(m->run);
    est_hook_free(m->saves);
    m->saves              = NULL;
    m->run->standby_saves = NULL;
    m->run->leads         = false;
}

/* With a new view. A chief that hangs still has the directory: then the worker in its place tries again when it has
 * to save. */
static est_status choose_leader(est_multi_worker *m)
{
    bool       is_chief = m->run->self.is_chief;
    est_status status   = EST_OK;

    if (m->view.rank == 0) {
        status = est_run_lead(m->run, is_chief ? LOCK_SECS : 0);
    } else {
        follow(m);
    }
    if (status != EST_FAILED_PRECONDITION || is_chief) return status;
    est_log_warn("This worker has the lowest rank of those left, and cannot save: %s", est_error_message());
    return EST_OK;
}

/* --- the standby saver: saves when the chief is lost -------------------------------------------------------------- */

static bool is_first(const est_multi_worker *m)
{
    return !m->view.over && m->view.rank == 0;
}

static est_status begin_saving(est_multi_worker *m, est_loop *loop)
{
    EST_TRY(m->run->owner->make_saver(m->run->user, &m->saves));
    m->run->standby_saves = m->saves;
    if (m->saves == NULL) return EST_OK;
    EST_TRY(m->saves->begin(m->saves, loop));
    return m->saves->after_create_session(m->saves, loop);
}

static est_status standby_saver_after_run(est_hook *hook, est_loop *loop)
{
    est_multi_worker *m = EST_CONTAINER_OF(hook, est_multi_worker, standby_saver);

    if (!is_first(m)) return EST_OK;
    if (!m->run->leads) {
        est_status status = est_run_lead(m->run, 0);

        if (status != EST_OK) return status == EST_FAILED_PRECONDITION ? EST_OK : status;
    }
    return m->saves == NULL ? begin_saving(m, loop) : m->saves->after_run(m->saves, loop);
}

static est_status standby_saver_end(est_hook *hook, est_loop *loop)
{
    est_multi_worker *m = EST_CONTAINER_OF(hook, est_multi_worker, standby_saver);

    if (!m->run->leads && (!is_first(m) || m->run->lost.status != EST_OK)) return EST_OK;
    EST_TRY(est_run_lead(m->run, LOCK_SECS));
    if (m->saves == NULL) EST_TRY(begin_saving(m, loop));
    return m->saves != NULL ? m->saves->end(m->saves, loop) : EST_OK;
}

/* --- joining a training ------------------------------------------------------------------------------------------- */

/* The step whose variables this worker can offer without a session: that of its checkpoint or, for the chief, that of
 * the variables it was given. -1: none. Directories need not be shared: a worker that saved when the chief was lost may
 * have a later checkpoint. */
static est_status offered_step(const est_multi_worker *m, int64_t *out)
{
    EST_TRY(est_saved_step(m->run->model_dir, out));
    if (m->fell_back) *out = m->fallen_to;
    if (*out < 0 && m->run->self.is_chief && !m->partial) *out = m->run->first_step;
    return EST_OK;
}

/* The job keeps the seed that was drawn first and the last step that was set first, whichever worker has been lost
 * since. */
static est_status take_payload(est_multi_worker *m)
{
    const char *payload = est_membership_payload(m->membership);
    char       *end;

    if (m->agreed && strcmp(payload, m->payload) != 0) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "the job was started again with seed and last step %s, and this worker has %s; start it again",
                        payload, m->payload);
    }
    snprintf(m->payload, sizeof m->payload, "%s", payload);
    m->agreed          = true;
    m->run->seed       = strtoull(payload, &end, 10);
    m->run->stop_after = 0;
    m->run->stop_at    = strtoll(end, NULL, 10);
    return EST_OK;
}

static est_status join_training(est_multi_worker *m, int64_t step)
{
    EST_TRY(est_multi_worker_join(m, step, m->payload));
    if (m->view.over) return EST_OK;
    if (m->view.source < 0) {
        return est_fail(EST_DATA_LOSS, "no worker is left that has the variables; start all workers again");
    }
    EST_TRY(take_payload(m));
    return choose_leader(m);
}

/* With a new view: all get the same variables, of step *at, and the input its position. */
static est_status share_variables(est_multi_worker *m, est_loop *loop, bool seek, int64_t *at)
{
    int64_t    step   = m->view.step;
    est_status status = est_multi_worker_transfer(m, est_loop_session(loop));

    m->partial = status != EST_OK && (m->partial || est_membership_partial(m->membership));
    EST_TRY(status);
    *at      = step;
    m->seeks = m->seeks || seek;
    if (!m->seeks || m->run->no_input_position) return EST_OK;
    EST_TRY(est_loop_reset_input(loop));
    m->run->input_resumed = step > 0;
    EST_TRY(est_positions_seek(m, est_loop_input(loop), est_loop_get_spec(loop)->input, step));
    m->seeks = false;
    return EST_OK;
}

/* The source has the step that it offered, unless its newest checkpoint turns out to be damaged: then all need a new
 * view. */
static est_status restore_offered(est_multi_worker *m, est_loop *loop)
{
    int64_t     had     = est_loop_global_step(loop);
    est_reached reached = { .step = m->view.step > had ? m->view.step : had, .all = true, .tasks = "" };

    m->at_step = m->view.step;
    EST_TRY(m->run->owner->restore(m->run->user, loop, &reached));
    EST_TRY(est_loop_read_step(loop, &m->fallen_to));
    m->fell_back = m->fallen_to != m->view.step;
    if (!m->fell_back) return EST_OK;
    m->pending = false;
    return est_fail(EST_ABORTED, "the checkpoint that could be read is of step %" PRId64 ", not of %" PRId64,
                    m->fallen_to, m->view.step);
}

static est_status mw_join(est_run *run, est_loop *loop)
{
    est_multi_worker *m = run->state;
    int64_t           offered;

    if (run->purpose == EST_RUN_EVALUATE) return est_multi_worker_begin_evaluation(run, loop);
    est_membership_reset(m->membership); /* it is a new session */
    m->partial = false;
    EST_TRY(offered_step(m, &offered));
    EST_TRY(join_training(m, offered));
    if (m->view.over) {
        est_loop_job_over(loop);
        return est_session_init(est_loop_session(loop));
    }
    if (m->view.rank == m->view.source) EST_TRY(restore_offered(m, loop));
    return share_variables(m, loop, true, &offered);
}

/* A worker is gone for good, as the last failure says: the loop ends as if the job were over. */
static est_status give_up(est_multi_worker *m, const est_loop *loop)
{
    est_status status = EST_DEADLINE_EXCEEDED;
    int64_t    saved;

    if (m->partial) return status;
    est_error_take(status, &m->run->lost);
    if (m->run->leads || est_saved_step(m->run->model_dir, &saved) != EST_OK || saved >= est_loop_global_step(loop)) {
        return EST_OK;
    }
    if (est_run_lead(m->run, 0) != EST_OK) est_log_info("%s", est_error_message()); /* then another worker saves */
    return EST_OK;
}

/* A worker whose variables are lost offers those of its checkpoint: when no worker has better ones all go back to
 * it. */
static est_status join_between_steps(est_multi_worker *m, int64_t global_step)
{
    if (m->partial) {
        EST_TRY(offered_step(m, &global_step));
        est_membership_reset(m->membership);
    }
    return join_training(m, global_step);
}

/* A worker that was left behind by more than the step under way has batches to skip, and one that goes back reads
 * some again. A signal while it waits ends the loop as one between two steps does. */
static est_status mw_rejoin(est_run *run, est_loop *loop, int64_t *global_step, bool *over)
{
    est_multi_worker *m      = run->state;
    est_status        status = join_between_steps(m, *global_step);
    int64_t           step;

    if (status == EST_CANCELLED && est_stop_signal() != 0 && !m->partial) return EST_OK;
    if (status == EST_DEADLINE_EXCEEDED) {
        *over = true;
        return give_up(m, loop);
    }
    EST_TRY(status);
    *over = m->view.over;
    if (*over) return EST_OK;
    step = m->view.step;
    if (m->partial && m->view.rank == m->view.source) EST_TRY(restore_offered(m, loop));
    return share_variables(m, loop, step != *global_step && step != *global_step + 1, global_step);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* Two chiefs at a time are a mistake, unless another worker has led meanwhile: that gives the directory back when
 * they join. Who leads is known after that. */
static est_status mw_open(est_run *run)
{
    est_status status;

    if (run->purpose != EST_RUN_TRAIN || !run->self.is_chief) return EST_OK;
    status     = est_run_lead(run, 0);
    run->leads = false;
    return status == EST_FAILED_PRECONDITION && options_of(run->strategy)->elastic ? EST_OK : status;
}

/* Before anything is made of what the other workers know. A chief with nothing left to do does not wait for others.
 * Any other worker asks first: a chief that has just ended the job may be waiting for it. */
static est_status start_training(est_multi_worker *m)
{
    est_run *run = m->run;
    int64_t  saved, offered;

    run->joined = true;
    if (!run->self.is_chief) {
        m->standby_saver   = (est_hook)EST_HOOK(.after_run = standby_saver_after_run, .end = standby_saver_end,
                                                .idle = true);
        run->standby_saver = &m->standby_saver;
    }
    EST_TRY(est_saved_step(run->model_dir, &saved));
    if (run->self.is_chief && run->max_steps > 0 && saved >= run->max_steps) return est_run_lead(run, LOCK_SECS);
    EST_TRY(offered_step(m, &offered));
    if (offered >= 0) EST_TRY(est_run_choose_seed(run));
    snprintf(m->payload, sizeof m->payload, "%" PRIu64 " %" PRId64, run->seed,
             run->steps > 0 ? offered + run->steps : run->max_steps);
    EST_TRY(join_training(m, offered));
    run->over = m->view.over;
    return EST_OK;
}

static est_status mw_start(est_run *run)
{
    est_multi_worker *m = run->state;

    m->run = run;
    EST_TRY(est_run_start_server(run));
    EST_TRY(create_membership(m));
    if (run->purpose != EST_RUN_EVALUATE) run->communicator = est_membership_communicator(m->membership);
    return run->purpose == EST_RUN_TRAIN ? start_training(m) : EST_OK;
}

/* Zeros, or no rows where their number is open. */
static est_status make_zeros(est_node node, est_tensor **out)
{
    est_shape shape = *est_node_shape(node);

    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 0) shape.dim[i] = 0;
    }
    EST_TRY(est_tensor_create(est_node_dtype(node), shape, out));
    memset(est_tensor_mutable_data(*out), 0, est_tensor_bytes(*out));
    return EST_OK;
}

est_status est_multi_worker_idle(est_graph *graph, est_loop_strategy *out, est_tensor ***values, int *n_values)
{
    est_arena *arena = est_graph_arena(graph);
    int        n     = est_reduce_inputs(graph, NULL, 0);
    est_node  *feeds = est_arena_alloc(arena, (size_t)(n + 1) * sizeof *feeds);

    *values = est_arena_alloc(arena, (size_t)(n + 1) * sizeof **values);
    if (feeds == NULL || *values == NULL) return est_no_memory();
    n = est_reduce_inputs(graph, feeds, n);
    for (*n_values = 0; *n_values < n; ++*n_values) EST_TRY(make_zeros(feeds[*n_values], &(*values)[*n_values]));
    out->idle_feeds  = feeds;
    out->idle_values = (const est_tensor *const *)*values;
    out->n_idle      = n;
    return EST_OK;
}

static est_status mw_prepare(est_run *run, est_loop_spec *spec)
{
    est_multi_worker *m = run->state;

    if (run->purpose == EST_RUN_EVALUATE) return est_multi_worker_check_states(spec->graph);
    return est_multi_worker_idle(spec->graph, &spec->strategy, &m->idle, &m->n_idle);
}

/* Positions are gathered only after steps of this worker: the others gathered them for a step that they made without
 * it. A worker that is lost in between is for the next step to notice, since this one is made. */
static est_status mw_after_step(est_run *run, est_loop *loop)
{
    est_multi_worker *m    = run->state;
    int64_t           step = est_loop_global_step(loop);
    est_status        status;

    est_server_note_step(run->server, step);
    if (run->no_input_position) return EST_OK; /* a run will not start there */
    if (est_loop_runs(loop) == m->noted_runs || step % GATHER_EVERY_STEPS != 0) return EST_OK;
    m->noted_runs = est_loop_runs(loop);
    status        = est_positions_gather(m, est_loop_input(loop), step);
    if (status == EST_ABORTED) est_log_debug("positions of inputs: %s", est_error_message());
    return status == EST_ABORTED ? EST_OK : status;
}

static est_status mw_save_input(est_run *run, est_loop *loop, est_tensor **out)
{
    (void)loop;
    return est_positions_save(run->state, out);
}

static est_status mw_restore_input(est_run *run, est_loop *loop, const est_tensor *position)
{
    est_multi_worker *m = run->state;

    (void)loop;
    m->at_step = m->view.step;
    return position == NULL || run->no_input_position ? EST_OK : est_positions_restore(m, position);
}

/* A worker that does not lead waits until the leader has saved. */
static est_status mw_settle(est_run *run, est_loop *loop)
{
    est_multi_worker *m = run->state;
    est_status        status;

    if (run->leads || run->lost.status != EST_OK) return EST_OK;
    run->unfinished = est_stop_signal() != 0;
    if (run->unfinished) return EST_OK;
    status          = join_training(m, est_loop_global_step(loop));
    run->unfinished = status == EST_CANCELLED && est_stop_signal() != 0;
    if (run->unfinished) return EST_OK;
    if (status == EST_DEADLINE_EXCEEDED) return give_up(m, loop);
    EST_TRY(status);
    if (m->view.over) return EST_OK;
    return est_fail(EST_ABORTED, "the other workers continue; this worker rejoins them");
}

static est_status mw_end(est_run *run)
{
    est_multi_worker *m = run->state;

    if (run->leads) est_membership_end_job(m->membership);
    return EST_OK;
}

static void mw_close(est_run *run, est_status why)
{
    est_multi_worker *m = run->state;

    if (m->membership != NULL && why != EST_OK) est_membership_fail(m->membership, why);
    est_membership_free(m->membership);
    est_gathered_clear(&m->positions);
    for (int i = 0; i < m->n_idle; i++) est_tensor_free(m->idle[i]);
    est_hook_free(m->saves);
}

/* A worker that is lost while variables are transferred joins again. */
static est_status mw_share(est_run *run, est_session *session, int64_t *step)
{
    est_multi_worker *m      = run->state;
    est_status        status = EST_ABORTED;

    for (int tries = 0; status == EST_ABORTED && tries < EST_RECOVERIES_MAX; tries++) {
        m->pending = false;
        EST_TRY(est_multi_worker_join(m, *step, ""));
        run->over = m->view.over;
        if (run->over) return EST_OK;
        if (m->view.source < 0) {
            est_membership_reset(m->membership); /* the session gets its next variables in another way */
            return est_fail(EST_FAILED_PRECONDITION, "no worker has variables: call est_session_init, and pass step 0");
        }
        status = est_membership_transfer(m->membership, session, m->view.source);
    }
    if (status == EST_ABORTED) {
        return est_fail_context(status, "still failing after rejoining the other workers %d times", EST_RECOVERIES_MAX);
    }
    EST_TRY(status);
    EST_TRY(est_session_init(session)); /* variables of this worker's own */
    *step = m->view.step;
    return EST_OK;
}

/* --- the strategy ------------------------------------------------------------------------------------------------- */

static void mw_text(const est_strategy *s, est_strbuf *out)
{
    const est_multi_worker_mirrored_options *o = options_of(s);

    est_strbuf_printf(out,
                      ", \"replicas\": %d, \"workers\": %d, \"communication\": \"%s\", \"bytes_per_pack\": %" PRId64
                      ", \"timeout_secs\": %g, \"rejoin_secs\": %g, \"elastic\": %s",
                      s->self.replicas, s->self.size, est_communication_name(o->communication), o->bytes_per_pack,
                      o->timeout_secs, o->rejoin_secs, o->elastic ? "true" : "false");
}

#define NAME  "multi_worker_mirrored"
#define ABOUT "every worker has the variables, gradients all-reduced in every step"

const est_strategy_ops est_multi_worker_ops = {
    .name             = NAME,
    .about            = ABOUT,
    .no_chief_ok      = true,
    .evaluates_across = true,
    .state_size       = sizeof(est_multi_worker),
    .text             = mw_text,
    .open             = mw_open,
    .start            = mw_start,
    .prepare          = mw_prepare,
    .join             = mw_join,
    .rejoin           = mw_rejoin,
    .after_step       = mw_after_step,
    .input_extra      = EST_EXTRA_POSITIONS,
    .save_input       = mw_save_input,
    .restore_input    = mw_restore_input,
    .settle           = mw_settle,
    .end              = mw_end,
    .close            = mw_close,
    .agree            = est_multi_worker_agree,
    .reduce           = est_multi_worker_reduce,
    .share            = mw_share,
};

/* Without a cluster, and in an evaluator, the one worker has nobody to wait for. */
static const est_strategy_ops single_worker_ops = { .name             = NAME,
                                                    .about            = ABOUT,
                                                    .no_chief_ok      = true,
                                                    .evaluates_across = true,
                                                    .check            = est_local_check,
                                                    .text             = mw_text };

/* Not a number of seconds, and not what stands for none. */
static bool bad_secs(double secs)
{
    return !(secs >= 0) && secs != EST_FOREVER;
}

static est_status check_options(const est_multi_worker_mirrored_options *o)
{
    if (o->communication < EST_COMMUNICATION_AUTO || o->communication > EST_COMMUNICATION_NCCL) {
        return est_fail(EST_INVALID_ARGUMENT, NAME ": communication is %d; use a value of est_communication",
                        (int)o->communication);
    }
    if (o->bytes_per_pack < 0) {
        return est_fail(EST_INVALID_ARGUMENT, NAME ": bytes_per_pack is %" PRId64 "; write a number above 0, or 0",
                        o->bytes_per_pack);
    }
    if (bad_secs(o->timeout_secs) || bad_secs(o->rejoin_secs)) {
        bool timeout = bad_secs(o->timeout_secs);
        return est_fail(EST_INVALID_ARGUMENT, NAME ": %s is %g; write a number above 0, 0 for 600 or EST_FOREVER",
                        timeout ? "timeout_secs" : "rejoin_secs", timeout ? o->timeout_secs : o->rejoin_secs);
    }
    return EST_OK;
}

static est_status find_task(multi_worker_mirrored *s, const est_multi_worker_mirrored_options *o, int replicas)
{
    const est_task *task;

    EST_TRY(est_strategy_set_cluster(&s->strategy, o->resolver, o->cluster_json));
    task             = est_resolver_task(s->strategy.resolver);
    s->strategy.self = est_self_of(task, replicas);
    if (s->strategy.self.size > 1) s->strategy.ops = &est_multi_worker_ops;
    if (s->strategy.self.rank >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    NAME ": this task is a %s; its tasks are chief (or master), worker and evaluator", task->type);
}

/* As Python writes a dictionary of lists. */
static void put_cluster(const est_cluster *cluster, est_strbuf *out)
{
    est_strbuf_append(out, "{");
    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job   = est_cluster_job(cluster, i);
        const char *comma = "";

        est_strbuf_printf(out, "%s'%s': [", i > 0 ? ", " : "", job);
        for (int k = 0; k < est_cluster_tasks(cluster, job); k++) {
            const char *address = est_cluster_address(cluster, job, k);

            if (address == NULL) continue;
            est_strbuf_printf(out, "%s'%s'", comma, address);
            comma = ", ";
        }
        est_strbuf_append(out, "]");
    }
    est_strbuf_append(out, "}");
}

/* The two lines that TensorFlow logs of such a strategy. */
static void log_strategy(const est_strategy *s)
{
    const est_self *self    = &s->self;
    est_strbuf      devices = { 0 }, line = { 0 };
    char            task[64] = "", how[32];

    if (!est_log_on(EST_LOG_INFO)) return;
    if (self->size > 1) snprintf(task, sizeof task, "/job:%s/replica:0/task:%d", self->task->type, self->task->index);
    est_devices_text((est_strings){ 0 }, self->replicas, task, &devices);
    snprintf(how, sizeof how, "%s", est_communication_name(options_of(s)->communication));
    for (char *at = how; *at != '\0'; at++) *at = (char)toupper((unsigned char)*at);
    if (self->size > 1) {
        est_strbuf_append(&line, "MultiWorkerMirroredStrategy with cluster_spec = ");
        put_cluster(self->task->cluster, &line);
        est_strbuf_printf(&line,
                          ", task_type = '%s', task_id = %d, num_workers = %d, local_devices = ", self->task->type,
                          self->task->index, self->size);
    } else {
        est_strbuf_append(&line, "Single-worker MultiWorkerMirroredStrategy with local_devices = ");
    }
    est_log_info("Using MirroredStrategy with devices %s", est_strbuf_text(&devices));
    est_log_info("%s%s, communication = CommunicationImplementation.%s", est_strbuf_text(&line),
                 est_strbuf_text(&devices), how);
    est_strbuf_clear(&devices);
    est_strbuf_clear(&line);
}

est_status est_multi_worker_mirrored_strategy(const est_multi_worker_mirrored_options *options, est_strategy **out)
{
    est_multi_worker_mirrored_options o;
    multi_worker_mirrored            *s;
    est_status                        status;
    int                               n;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_multi_worker_mirrored_options), options, &o));
    EST_TRY(check_options(&o));
    EST_TRY(est_count_replicas(NAME, (est_strings){ 0 }, o.replicas, &n));
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    est_strategy_init(&s->strategy, &single_worker_ops, n);
    s->options              = o;
    s->options.resolver     = NULL;
    s->options.cluster_json = NULL;
    status                  = find_task(s, &o, n);
    if (status != EST_OK) {
        est_strategy_free(&s->strategy);
        return status;
    }
    log_strategy(&s->strategy);
    if (s->strategy.self.size == 1 && strcmp(s->strategy.self.task->type, "evaluator") != 0) {
        est_log_info(NAME ": single-worker mode");
    }
    *out = &s->strategy;
    return EST_OK;
}
