/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation during training, from the variables in memory instead of a checkpoint. Each evaluation builds its own
 * graph: that costs little compared with the evaluation, and uses no memory while training runs. */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "estimator/estimator.h"
#include "train/hooks.h"
#include "train/timer.h"

#define EVERY_DEFAULT 100

typedef struct in_memory {
    est_hook              hook;
    est_estimator        *estimator;
    est_in_memory_options options; /* the name and the list of hooks are copies */
    est_hook            **hooks;
    est_timer             timer; /* of runs */
} in_memory;

/* A signal during the evaluation ends it, and then the loop, normally: it is not a failure of the hook. */
static est_status evaluate(in_memory *own, est_loop *loop)
{
    const est_in_memory_options *options = &own->options;
    est_metrics                 *metrics = NULL;
    est_status                   status;

    if (est_stop_signal() != 0) return EST_OK;
    status = est_estimator_evaluate(own->estimator,
                                    EST_EVALUATE_OPTIONS(.input_fn   = options->input_fn,
                                                         .input_user = options->input_user, .steps = options->steps,
                                                         .name = options->name, .hooks = options->hooks),
                                    &(est_evaluate_call){ .from = est_loop_session(loop) }, &metrics);
    est_metrics_free(metrics);
    if (status == EST_CANCELLED && est_stop_signal() != 0) return EST_OK;
    (void)est_timer_mark(&own->timer, est_loop_runs(loop), NULL, NULL);
    return status;
}

static est_status in_memory_after_create_session(est_hook *hook, est_loop *loop)
{
    return evaluate(EST_CONTAINER_OF(hook, in_memory, hook), loop);
}

static est_status in_memory_after_run(est_hook *hook, est_loop *loop)
{
    in_memory *own = EST_CONTAINER_OF(hook, in_memory, hook);

    return est_timer_due(&own->timer, est_loop_runs(loop)) ? evaluate(own, loop) : EST_OK;
}

/* Evaluates at the end, unless the last run was evaluated. */
static est_status in_memory_end(est_hook *hook, est_loop *loop)
{
    in_memory *own = EST_CONTAINER_OF(hook, in_memory, hook);

    return own->timer.marked && own->timer.last_step == est_loop_runs(loop) ? EST_OK : evaluate(own, loop);
}

static void in_memory_free(est_hook *hook)
{
    in_memory *own = EST_CONTAINER_OF(hook, in_memory, hook);
    char      *name;

    memcpy(&name, &own->options.name, sizeof name); /* this hook's copy, so no longer const */
    est_free(name);
    est_free(own->hooks);
    est_free(own);
}

bool est_is_in_memory_evaluator(const est_hook *hook)
{
    return EST_MEMBER(hook, free) == in_memory_free;
}

static est_status check(const est_estimator *estimator, const est_in_memory_options *options)
{
    if (estimator == NULL) return est_fail(EST_INVALID_ARGUMENT, "in-memory evaluation: estimator is NULL");
    if (options->input_fn == NULL) return est_fail(EST_INVALID_ARGUMENT, "in-memory evaluation: input_fn is required");
    bool bad_steps = options->steps < 0 && options->steps != EST_FOREVER;

    if (bad_steps || options->every_n_iter < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "in-memory evaluation: %s is %" PRId64 "; it must be above 0, or 0 for %s",
                        bad_steps ? "steps" : "every_n_iter", bad_steps ? options->steps : options->every_n_iter,
                        bad_steps ? "all of the input" : "100");
    }
    if (estimator->self.task->num_ps_replicas > 0 || estimator->self.task->num_worker_replicas > 1) {
        return est_fail(
            EST_INVALID_ARGUMENT,
            "in-memory evaluation needs training in one process, but this cluster has %d ps and %d workers; use an "
            "evaluator "
            "task",
            estimator->self.task->num_ps_replicas, estimator->self.task->num_worker_replicas);
    }
    return est_hooks_check("in-memory evaluation: hook", options->hooks);
}

static est_status copy_options(in_memory *own)
{
    est_in_memory_options *options = &own->options;
    const char            *name    = options->name;

    options->name = name != NULL ? est_strdup(name) : NULL;
    own->hooks    = est_alloc((size_t)(options->hooks.n + 1) * sizeof *own->hooks);
    if (own->hooks == NULL || (name != NULL && options->name == NULL)) {
        return est_no_memory();
    }
    for (int i = 0; i < options->hooks.n; i++) own->hooks[i] = options->hooks.data[i];
    options->hooks.data = own->hooks;
    return EST_OK;
}

est_hook *est_in_memory_evaluator_hook(est_estimator *estimator, const est_in_memory_options *options)
{
    est_in_memory_options given;
    in_memory            *own;

    if (est_options_take(EST_STRUCT_SIZE(est_in_memory_options), options, &given) != EST_OK) return NULL;
    if (check(estimator, &given) != EST_OK) return NULL;
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->estimator         = estimator;
    own->options           = given;
    own->timer.every_steps = given.every_n_iter > 0 ? given.every_n_iter : EVERY_DEFAULT;
    own->hook              = (est_hook)EST_HOOK(.after_create_session = in_memory_after_create_session,
                                                .after_run = in_memory_after_run, .end = in_memory_end, .free = in_memory_free);
    if (copy_options(own) != EST_OK) {
        in_memory_free(&own->hook);
        return NULL;
    }
    return &own->hook;
}
