/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: what all strategies share, and what a strategy does that leaves a function out. */
#include "strategy/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "estoc/checkpoint.h"
#include "train/done_mark.h"
#include "train/saver.h"

#define LOCK_AGAIN_SECS 0.05 /* between two tries */

static const est_strategy_ops *ops_of(const est_run *run)
{
    return run->strategy != NULL ? run->strategy->ops : &est_default_ops;
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

est_status est_run_check(est_run *run)
{
    return ops_of(run)->check != NULL ? ops_of(run)->check(run) : EST_OK;
}

est_status est_run_open(est_run *run)
{
    const est_strategy_ops *ops = ops_of(run);

    run->start_secs = est_wall_secs();
    run->stop_after = run->steps;
    run->stop_at    = run->max_steps;
    run->leads      = run->purpose != EST_RUN_TRAIN;
    if (ops->state_size > 0) {
        run->state = est_zalloc(ops->state_size);
        if (run->state == NULL) return est_no_memory();
    }
    if (ops->open != NULL) return ops->open(run);
    return run->self.is_chief && !run->leads ? est_run_lead(run, 0) : EST_OK;
}

est_status est_run_start(est_run *run)
{
    return ops_of(run)->start != NULL ? ops_of(run)->start(run) : EST_OK;
}

void est_run_close(est_run *run, est_status why)
{
    const est_strategy_ops *ops = ops_of(run);
    est_error               error;

    est_error_take(why, &error); /* what fails below is not the reason */
    if (ops->close != NULL && (run->state != NULL || ops->state_size == 0)) ops->close(run, why);
    est_remote_free(run->remote);
    est_server_free(run->server);
    est_free(run->state);
    run->communicator = NULL;
    run->remote       = NULL;
    run->server       = NULL;
    run->state        = NULL;
    if (why != EST_OK) (void)est_error_raise(&error);
}

void est_run_release(est_run *run)
{
    est_dir_lock_release(run->lock);
    run->lock = NULL;
}

est_status est_run_end(est_run *run)
{
    return ops_of(run)->end != NULL ? ops_of(run)->end(run) : EST_OK;
}

est_status est_run_serve(est_run *run)
{
    run->start_secs = est_wall_secs();
    if (ops_of(run)->serve != NULL) return ops_of(run)->serve(run);
    return est_fail(EST_INVALID_ARGUMENT, "the %s strategy has no %s tasks; leave them out of the cluster",
                    ops_of(run)->name, run->self.task->type);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static est_status run_turn(void *user, bool *finished)
{
    est_run *run = user;

    return ops_of(run)->turn(run, finished);
}

static est_status run_rejoin(void *user, est_loop *loop, int64_t *global_step, bool *over)
{
    est_run *run = user;

    return ops_of(run)->rejoin(run, loop, global_step, over);
}

est_status est_run_prepare(est_run *run, est_loop_spec *spec)
{
    const est_strategy_ops *ops    = ops_of(run);
    bool                    trains = run->purpose == EST_RUN_TRAIN;

    spec->session.remote       = run->remote;
    spec->session.communicator = run->communicator;
    if (run->remote == NULL && run->communicator == NULL && est_strategy_devices(run->strategy).n > 0) {
        spec->session.devices = est_strategy_devices(run->strategy);
    }
    spec->n_replicas      = run->self.replicas;
    spec->strategy.shared = run->remote != NULL;
    spec->strategy.turn   = trains && ops->turn != NULL ? run_turn : NULL;
    spec->strategy.rejoin = trains && ops->rejoin != NULL ? run_rejoin : NULL;
    spec->strategy.user   = run;
    return ops->prepare != NULL ? ops->prepare(run, spec) : EST_OK;
}

est_status est_run_join(est_run *run, est_loop *loop)
{
    return ops_of(run)->join != NULL ? ops_of(run)->join(run, loop) : est_run_restore(run, loop);
}

est_status est_run_after_step(est_run *run, est_loop *loop)
{
    return ops_of(run)->after_step != NULL ? ops_of(run)->after_step(run, loop) : EST_OK;
}

est_status est_run_settle(est_run *run, est_loop *loop)
{
    return ops_of(run)->settle != NULL ? ops_of(run)->settle(run, loop) : EST_OK;
}

est_status est_run_agree(est_run *run, est_status prepared)
{
    return ops_of(run)->agree != NULL && run->state != NULL ? ops_of(run)->agree(run, prepared) : prepared;
}

est_status est_run_reduce(est_run *run, est_session *session, est_nodes variables, double *counts, int n_counts)
{
    return ops_of(run)->reduce != NULL ? ops_of(run)->reduce(run, session, variables, counts, n_counts) : EST_OK;
}

est_status est_run_share(est_run *run, est_session *session, int64_t *step)
{
    if (ops_of(run)->share != NULL) return ops_of(run)->share(run, session, step);
    if (*step >= 0) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION, "a worker alone has no variables: call est_session_init");
}

/* --- the input ---------------------------------------------------------------------------------------------------- */

const char *est_run_input_extra(const est_run *run)
{
    return ops_of(run)->input_extra != NULL ? ops_of(run)->input_extra : EST_EXTRA_INPUT;
}

est_status est_run_save_input(est_run *run, est_loop *loop, est_tensor **out)
{
    if (ops_of(run)->save_input != NULL) return ops_of(run)->save_input(run, loop, out);
    return est_iterator_save(est_loop_input(loop), out);
}

est_status est_run_restore_input(est_run *run, est_loop *loop, const est_tensor *position)
{
    if (ops_of(run)->restore_input != NULL) return ops_of(run)->restore_input(run, loop, position);
    if (position == NULL || run->no_input_position || est_loop_input(loop) == NULL) return EST_OK;
    EST_TRY(est_loop_reset_input(loop));
    run->input_resumed = est_iterator_restore(est_loop_input(loop), position) == EST_OK;
    if (run->input_resumed) return EST_OK;
    est_log_warn("the input starts from its beginning: %s", est_error_message());
    return est_loop_reset_input(loop);
}

/* --- for strategies ----------------------------------------------------------------------------------------------- */

est_status est_run_lead(est_run *run, double secs)
{
    int64_t    until  = est_now_ns() + est_secs_to_ns(secs);
    est_status status = EST_OK;

    if (run->held == NULL && run->lock == NULL) {
        do status = est_dir_lock_take(run->model_dir, &run->lock);
        while (status == EST_FAILED_PRECONDITION && est_now_ns() < until && !est_signals_wait(LOCK_AGAIN_SECS));
    }
    run->leads = run->leads || status == EST_OK;
    return status;
}

est_status est_run_choose_seed(est_run *run)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *saved      = NULL;
    est_status      status;

    if (run->seed != 0) return EST_OK;
    status = est_checkpoint_open(run->model_dir, &checkpoint);
    if (status == EST_OK && est_checkpoint_find(checkpoint, EST_EXTRA_SEED) != NULL) {
        status = est_checkpoint_read(checkpoint, EST_EXTRA_SEED, &saved);
        if (status == EST_OK && est_tensor_dtype(saved) == EST_I64 && est_tensor_count(saved) == 1) {
            memcpy(&run->seed, est_tensor_data(saved), sizeof run->seed);
        }
        est_tensor_free(saved);
    }
    est_checkpoint_close(checkpoint);
    if (status != EST_OK && status != EST_NOT_FOUND) return status;
    while (run->seed == 0) {
        if (getrandom(&run->seed, sizeof run->seed, 0) != sizeof run->seed) run->seed = 0;
        run->seed &= INT64_MAX;
    }
    est_log_info("seed %" PRIu64, run->seed);
    return EST_OK;
}

est_status est_run_restore(est_run *run, est_loop *loop)
{
    return run->owner->restore(run->user, loop,
                               &(est_reached){ .step = est_loop_global_step(loop), .all = true, .tasks = "" });
}

bool est_run_is_over(const est_run *run)
{
    return est_done_mark_is_of(run->model_dir, run->max_steps, run->start_secs);
}

bool est_run_ended_elsewhere(const est_run *run)
{
    return ops_of(run)->uses_ps && est_run_is_over(run);
}

void est_run_folder(const char *model_dir, char *out, size_t size)
{
    char here[EST_CHECKPOINT_PATH_MAX];

    if (model_dir[0] == '/' || getcwd(here, sizeof here) == NULL) {
        snprintf(out, size, "%s", model_dir);
    } else {
        snprintf(out, size, "%s/%s", here, model_dir);
    }
}

/* type NULL: a client. */
static est_status start_server(const est_run *run, const est_cluster *cluster, const char *type, int index,
                               est_server **out)
{
    char folder[EST_FOLDER_TEXT_MAX];

    if (run->model_dir != NULL) est_run_folder(run->model_dir, folder, sizeof folder);
    return est_server_start(cluster, type, index,
                            EST_SERVER(.transport = run->transport, .threads = run->threads,
                                       .silence_secs = run->silence_secs, .lonely_secs = run->connect_secs),
                            run->model_dir != NULL ? folder : NULL, out);
}

est_status est_run_start_server(est_run *run)
{
    const est_task *task = run->self.task;

    return start_server(run, task->cluster, task->type, task->index, &run->server);
}

est_status est_run_start_client(const est_run *run, const est_cluster *cluster, est_server **out)
{
    return start_server(run, cluster, NULL, 0, out);
}

void est_run_add_max_steps(const est_run *run, est_strbuf *terms)
{
    if (run->max_steps > 0) {
        est_strbuf_printf(terms, "max_steps=%" PRId64 "\n", run->max_steps);
    } else {
        est_strbuf_append(terms, "max_steps=none\n");
    }
}
