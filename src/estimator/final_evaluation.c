/* SPDX-License-Identifier: Apache-2.0
 *
 * Which task makes the final evaluation of a cluster's training:
 *   - all workers, after the training, if eval_distribute has a strategy with several workers;
 *   - else an evaluator task, while the others train;
 *   - else the leader (the task that saves), after the training.
 *
 * TF_CONFIG need not list an evaluator, so the leader detects one by its lock, eval/evaluator.lock, while it trains. At
 * most one process at a time evaluates a directory and holds that lock, the leader in its final evaluation included. If
 * an evaluator holds the lock when training ends, the leader leaves the final evaluation to it. If an evaluator was
 * there and has gone, the leader has to know whether it made the final evaluation or was lost before: it made it if it
 * removed its lock file, as a process does that ends normally, and if there are results of max_steps, the step at which
 * an evaluator makes the final export. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "estimator/evaluator.h"
#include "train/eval_results.h"
#include "train/saver.h"

#define EVALUATOR "evaluator"

static bool lists_evaluator(const est_estimator *estimator)
{
    return est_cluster_tasks(estimator->self.task->cluster, EVALUATOR) > 0;
}

bool est_evaluates_across_workers(const est_estimator *estimator)
{
    return est_strategy_evaluators(estimator->config.eval_distribute) > 1 && !lists_evaluator(estimator);
}

/* --- the lock ----------------------------------------------------------------------------------------------------- */

bool est_has_evaluator(const est_estimator *estimator, const est_eval_spec *eval)
{
    char       holder[EST_LOCK_HOLDER_MAX] = "";
    est_strbuf dir                         = { 0 };
    est_status status                      = est_evaluator_results_dir(estimator, eval, &dir);

    if (status == EST_OK) status = est_dir_lock_holder_as(EVALUATOR, est_strbuf_text(&dir), holder, sizeof holder);
    est_strbuf_clear(&dir);
    return lists_evaluator(estimator) || (status == EST_OK && holder[0] != '\0');
}

/* Whether there are results of the latest checkpoint, and that has all steps. */
static est_status find_result(const est_evaluator *e, const char *dir, bool *out)
{
    est_eval_results results = { 0 };
    int64_t          saved;
    est_status       status;

    EST_TRY(est_saved_step(e->estimator->model_dir, &saved));
    if (e->train->max_steps == 0 || saved < e->train->max_steps) return EST_OK;
    status = est_eval_results_read(&results, dir);
    for (int i = 0; status == EST_OK && i < results.n; i++) *out = *out || results.data[i].step == saved;
    est_eval_results_clear(&results);
    return status;
}

est_status est_evaluator_take_lock(est_evaluator *e, bool *evaluated)
{
    est_strbuf dir    = { 0 };
    est_status status = est_evaluator_results_dir(e->estimator, e->eval, &dir);

    *evaluated = false;
    if (status == EST_OK) status = est_dir_create(est_strbuf_text(&dir));
    if (status == EST_OK) status = est_dir_lock_take_as(EVALUATOR, est_strbuf_text(&dir), &e->lock);
    if (status == EST_FAILED_PRECONDITION) e->met_other = true;
    if (status == EST_OK && e->met_other && !est_dir_lock_was_left(e->lock)) {
        status = find_result(e, est_strbuf_text(&dir), evaluated);
        if (status != EST_OK) est_dir_lock_release(e->lock);
        if (status != EST_OK) e->lock = NULL;
    }
    est_strbuf_clear(&dir);
    return status;
}

static est_status look_for_evaluator(est_hook *hook, est_loop *loop)
{
    est_evaluator *e   = EST_CONTAINER_OF(hook, est_evaluator, hook);
    int64_t        now = est_now_ns();

    (void)loop;
    if (e->met_other || now < e->look_ns) return EST_OK;
    e->met_other = est_has_evaluator(e->estimator, e->eval);
    e->look_ns   = now + est_secs_to_ns(EST_WATCH_SECS);
    return EST_OK;
}

/* --- the evaluation ----------------------------------------------------------------------------------------------- */

/* All evaluate their parts, and have the metrics; the chief has the checkpoint, and exports. */
static est_status evaluate_last(est_evaluator *e)
{
    char latest[EST_CHECKPOINT_PATH_MAX];
    bool evaluated;

    e->finished = true;
    if (e->estimator->self.is_chief && est_latest_usable_checkpoint(e->estimator->model_dir, latest) != EST_NOT_FOUND) {
        return est_evaluator_pass(e, true, &evaluated);
    }
    EST_TRY(est_evaluator_evaluate(e, &e->metrics)); /* the others have to hear of it */
    if (e->metrics == NULL) est_evaluator_tell_none(e);
    return EST_OK;
}

static est_status evaluate_here(est_evaluator *e)
{
    bool       evaluated;
    est_status status = est_evaluator_take_lock(e, &evaluated);

    if (status == EST_FAILED_PRECONDITION) {
        est_log_info("The final evaluation is left to the evaluator.");
        return EST_OK;
    }
    EST_TRY(status);
    if (evaluated) {
        est_log_info("The evaluator has made the final evaluation.");
    } else {
        est_log_info("There is no evaluator%s: the final evaluation is made here.", e->met_other ? " any more" : "");
        status = est_evaluator_pass(e, true, &evaluated);
    }
    est_dir_lock_release(e->lock);
    e->lock = NULL;
    return status;
}

/* What follows the training, at the task that leads: the final evaluation, unless another task makes it. */
static est_status finish(void *user, bool done)
{
    est_evaluator *e = user;
    char           latest[EST_CHECKPOINT_PATH_MAX];

    if (est_evaluates_across_workers(e->estimator)) return evaluate_last(e);
    if (done) return EST_OK;
    if (est_latest_usable_checkpoint(e->estimator->model_dir, latest) != EST_NOT_FOUND) return evaluate_here(e);
    est_log_warn("There is no final evaluation: the training has saved no checkpoint in %s.", e->estimator->model_dir);
    return EST_OK;
}

/* --- the training ------------------------------------------------------------------------------------------------- */

/* Says, before the training, when the model will be evaluated. */
static void announce_finish(const est_evaluator *e)
{
    if (!e->estimator->self.is_chief || est_has_evaluator(e->estimator, e->eval)) return;
    est_log_info("No evaluator is there yet. Unless one is started, the model is evaluated and exported once, when the "
                 "training has ended; start an evaluator task to evaluate during the training.");
}

/* Trains, and has `finish` called at the task that leads. */
static est_status train_and_finish(est_evaluator *e)
{
    int        n     = e->train->hooks.n;
    est_hook **hooks = est_zalloc((size_t)(n + 1) * sizeof *hooks);
    est_status status;

    if (hooks == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) hooks[i] = e->train->hooks.data[i];
    e->hook  = (est_hook)EST_HOOK(.before_run = look_for_evaluator, .idle = true);
    hooks[n] = &e->hook;
    status   = est_evaluator_train(
          e, (est_hooks){ hooks, e->estimator->self.is_chief ? n + 1 : n }, e->train->saving_listeners,
          &(est_train_call){ .spec = "train spec", .eval = e->eval, .finish = finish, .user = e });
    est_free(hooks);
    return status;
}

est_status est_evaluator_train_with_others(est_evaluator *e)
{
    if (lists_evaluator(e->estimator)) {
        return est_evaluator_train(e, e->train->hooks, e->train->saving_listeners,
                                   &(est_train_call){ .spec = "train spec", .eval = e->eval });
    }
    if (!est_evaluates_across_workers(e->estimator)) announce_finish(e);
    EST_TRY(train_and_finish(e));
    return est_evaluates_across_workers(e->estimator) && !e->finished ? evaluate_last(e) : EST_OK;
}
