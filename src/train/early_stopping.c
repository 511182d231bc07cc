/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping. A hook calls a predicate every so many steps or seconds and requests a stop when it returns true. The
 * predicates of the library read the results of evaluations from their event files. */
#include "estoc/early_stopping.h"

#include <inttypes.h>

#include "base/callback.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "train/eval_results.h"
#include "train/hooks.h"

#define DEFAULT_SECS 60
#define EVAL_DIR     "eval"

typedef struct early_stopping {
    est_hook           hook;
    est_should_stop_fn should_stop;
    void              *user;
    est_timer          timer;

    /* State of the predicates that read results; `user` points to this struct then. */
    char   *metric, *eval_dir;
    int64_t min_steps;
    bool    higher_is_better, by_threshold;
    double  threshold;
    int64_t patience; /* stop after so many steps without a better result */
    bool    has_seen; /* this run has seen a result that counts */
} early_stopping;

/* --- predicates --------------------------------------------------------------------------------------------------- */

static est_status metric_of(const early_stopping *own, const est_eval_result *result, const char *dir, double *out)
{
    const est_eval_metric *metric = est_eval_result_find(result, own->metric);
    est_strbuf             names  = { 0 };
    est_status             status;

    if (metric != NULL) {
        *out = metric->value;
        return EST_OK;
    }
    for (int i = 0; i < result->n; i++) {
        est_strbuf_printf(&names, "%s'%s'", i > 0 ? ", " : "", result->metrics[i].name);
    }
    status = est_fail(EST_NOT_FOUND,
                      "early stopping looks for the metric '%s', but the evaluation at step %" PRId64 " in %s has %s",
                      own->metric, result->step, dir, est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}

static bool is_better(const early_stopping *own, double a, double b)
{
    return own->higher_is_better ? a > b : a < b;
}

/* Whether a value passes the threshold, or the best one is too old. */
static est_status judge(const early_stopping *own, const est_eval_results *results, const char *dir, bool *stop)
{
    const est_eval_result *best       = NULL;
    double                 best_value = 0, value;

    for (int i = 0; i < results->n; i++) {
        const est_eval_result *result = &results->data[i];

        if (result->step < own->min_steps) continue;
        EST_TRY(metric_of(own, result, dir, &value));
        if (own->by_threshold && is_better(own, value, own->threshold)) {
            est_log_info("At step %" PRId64
                         ", metric \"%s\" has value %g which is %s than the configured threshold (%g) "
                         "for early stopping.",
                         result->step, own->metric, value, own->higher_is_better ? "higher" : "lower", own->threshold);
            *stop = true;
            return EST_OK;
        }
        if (best == NULL || is_better(own, value, best_value)) {
            best       = result;
            best_value = value;
        }
        if (!own->by_threshold && result->step - best->step >= own->patience) {
            est_log_info("No %s in metric \"%s\" for %" PRId64 " steps, which is greater than or equal to max steps "
                         "(%" PRId64 ") configured for early stopping.",
                         own->higher_is_better ? "increase" : "decrease", own->metric, result->step - best->step,
                         own->patience);
            *stop = true;
            return EST_OK;
        }
    }
    return EST_OK;
}

static est_status results_say_stop(void *user, est_loop *loop, bool *stop)
{
    early_stopping  *own     = user;
    est_eval_results results = { 0 };
    est_strbuf       dir     = { 0 };
    est_status       status;

    if (own->eval_dir != NULL) {
        est_strbuf_append(&dir, own->eval_dir);
    } else {
        est_strbuf_printf(&dir, "%s/" EVAL_DIR, est_loop_model_dir(loop));
    }
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_eval_results_read(&results, est_strbuf_text(&dir));
    if (status == EST_OK) status = judge(own, &results, est_strbuf_text(&dir), stop);
    for (int i = 0; i < results.n; i++) own->has_seen = own->has_seen || results.data[i].step >= own->min_steps;
    est_eval_results_clear(&results);
    est_strbuf_clear(&dir);
    return status;
}

/* --- the hook ----------------------------------------------------------------------------------------------------- */

static est_status stopping_begin(est_hook *hook, est_loop *loop)
{
    early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);

    (void)loop;
    own->timer.marked = false;
    own->has_seen     = false;
    return EST_OK;
}

/* A rule that never saw a result had no effect: the user should know. */
static est_status stopping_end(est_hook *hook, est_loop *loop)
{
    const early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);

    (void)loop;
    if (own->metric != NULL && !own->has_seen) {
        est_log_warn("early stopping by the metric \"%s\" found no evaluation result in this run: check more often "
                     "(run_every_steps), evaluate more often (save_checkpoints_steps, throttle_secs), and in a cluster "
                     "start an evaluator",
                     own->metric);
    }
    return EST_OK;
}

static est_status stopping_after_run(est_hook *hook, est_loop *loop)
{
    early_stopping *own  = EST_CONTAINER_OF(hook, early_stopping, hook);
    int64_t         step = est_loop_global_step(loop);
    bool            stop = false;

    if (!est_timer_due(&own->timer, step)) return EST_OK;
    (void)est_timer_mark(&own->timer, step, NULL, NULL);
    EST_TRY(EST_CALLBACK(own->should_stop(own->user, loop, &stop), "should_stop of early stopping"));
    if (!stop) return EST_OK;
    est_log_info("Requesting early stopping at global step %" PRId64, step);
    est_loop_request_stop(loop, "early stopping");
    return EST_OK;
}

static void stopping_free(est_hook *hook)
{
    early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);

    est_free(own->metric);
    est_free(own->eval_dir);
    est_free(own);
}

bool est_early_stopping_rule(const est_hook *hook, est_stop_rule *out)
{
    const early_stopping *own;

    if (EST_MEMBER(hook, free) != stopping_free) return false;
    own = (const early_stopping *)hook; /* its first member */
    if (own->metric == NULL) return false;
    *out = (est_stop_rule){ .metric          = own->metric,
                            .eval_dir        = own->eval_dir,
                            .min_steps       = own->min_steps,
                            .patience        = own->patience,
                            .run_every_steps = own->timer.every_steps };
    return true;
}

static est_status take_options(early_stopping *own, const est_early_stopping_options *given)
{
    est_early_stopping_options options;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_early_stopping_options), given, &options));
    if (!(options.run_every_secs >= 0) || options.run_every_steps < 0 ||
        (options.run_every_secs > 0 && options.run_every_steps > 0)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "early stopping has run_every_secs %g and run_every_steps %" PRId64
                        "; set exactly one of them above 0",
                        options.run_every_secs, options.run_every_steps);
    }
    if (options.run_every_secs == 0 && options.run_every_steps == 0) options.run_every_secs = DEFAULT_SECS;
    own->timer     = (est_timer){ .every_steps = options.run_every_steps, .every_secs = options.run_every_secs };
    own->min_steps = options.min_steps;
    if (options.eval_dir == NULL) return EST_OK;
    own->eval_dir = est_strdup(options.eval_dir);
    return own->eval_dir != NULL ? EST_OK : est_no_memory();
}

/* Completes a hook whose predicate is set. Returns NULL on failure, and frees the hook. */
static est_hook *finish(early_stopping *own, const est_early_stopping_options *options)
{
    if (take_options(own, options) != EST_OK) {
        stopping_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.begin = stopping_begin, .after_run = stopping_after_run, .end = stopping_end,
                                   .free = stopping_free, .idle = true);
    return &own->hook;
}

est_hook *est_early_stopping_hook(est_should_stop_fn should_stop, void *user, const est_early_stopping_options *options)
{
    early_stopping *own;

    if (should_stop == NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "early stopping needs a should_stop function, got NULL");
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->should_stop = should_stop;
    own->user        = user;
    return finish(own, options);
}

/* A hook that reads results; its options are still unset. */
static early_stopping *by_results(const char *metric, bool higher_is_better)
{
    early_stopping *own;

    if (metric == NULL || metric[0] == '\0') {
        (void)est_fail(EST_INVALID_ARGUMENT, "early stopping needs the name of a metric");
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->metric = est_strdup(metric);
    if (own->metric == NULL) {
        (void)est_no_memory();
        stopping_free(&own->hook);
        return NULL;
    }
    own->should_stop      = results_say_stop;
    own->user             = own;
    own->higher_is_better = higher_is_better;
    return own;
}

static est_hook *at_threshold(const char *metric, double threshold, bool higher,
                              const est_early_stopping_options *options)
{
    early_stopping *own = by_results(metric, higher);

    if (own == NULL) return NULL;
    own->by_threshold = true;
    own->threshold    = threshold;
    return finish(own, options);
}

static est_hook *without_progress(const char *metric, int64_t patience, bool higher,
                                  const est_early_stopping_options *options)
{
    early_stopping *own;

    if (patience < 1) {
        (void)est_fail(EST_INVALID_ARGUMENT, "early stopping after %" PRId64 " steps: expected a number above 0",
                       patience);
        return NULL;
    }
    own = by_results(metric, higher);
    if (own == NULL) return NULL;
    own->patience = patience;
    return finish(own, options);
}

est_hook *est_stop_if_higher_hook(const char *metric, double threshold, const est_early_stopping_options *options)
{
    return at_threshold(metric, threshold, true, options);
}

est_hook *est_stop_if_lower_hook(const char *metric, double threshold, const est_early_stopping_options *options)
{
    return at_threshold(metric, threshold, false, options);
}

est_hook *est_stop_if_no_increase_hook(const char *metric, int64_t max_steps_without_increase,
                                       const est_early_stopping_options *options)
{
    return without_progress(metric, max_steps_without_increase, true, options);
}

est_hook *est_stop_if_no_decrease_hook(const char *metric, int64_t max_steps_without_decrease,
                                       const est_early_stopping_options *options)
{
    return without_progress(metric, max_steps_without_decrease, false, options);
}
