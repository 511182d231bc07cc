/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of a network, by itself and as the validation of a fit: a loop over the test function. */
#include <inttypes.h>

#include "base/argument.h"
#include "base/options.h"
#include "base/signals.h"
#include "estimator/estimator.h"
#include "network/network.h"
#include "train/hooks.h"

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    (void)user;
    return est_loop_read_step(loop, global_step);
}

/* Up to `steps` batches; 0: all. */
static est_status run_steps(est_loop *loop, int64_t steps)
{
    est_status status = EST_OK;

    for (int64_t i = 0; status == EST_OK && (steps == 0 || i < steps); i++) status = est_loop_step(loop);
    if (est_loop_at_end(loop)) status = EST_OK;
    EST_TRY(status);
    EST_TRY(est_signals_check("evaluation"));
    return est_loop_end(loop);
}

/* What hooks see of a test under way. */
typedef struct testing {
    est_network          *network;
    est_network_function *f;
    double               *values;
} testing;

static est_status measure_so_far(void *user, est_loop *loop)
{
    testing *t = user;

    EST_TRY(est_network_function_read(t->network, t->f, t->values));
    for (int i = 0; i < est_network_metrics(t->network); i++) {
        est_loop_set_log(loop, est_network_metric(t->network, i), t->values[i]);
    }
    return EST_OK;
}

est_status est_network_run_test(est_network *network, est_network_function *f, const est_dataset *input, int64_t steps,
                                est_hooks hooks, int64_t *batches)
{
    testing        test  = { .network = network, .f = f };
    est_loop_spec  spec  = { .graph      = network->graph,
                             .lent       = network->session,
                             .input      = input,
                             .loss       = f->loss,
                             .targets    = { f->targets, f->n_targets },
                             .hooks      = hooks,
                             .n_given    = hooks.n,
                             .initialize = initialize,
                             .measure    = measure_so_far,
                             .user       = &test,
                             .model_dir  = network->model_dir };
    est_loop_feed *feeds = NULL;
    est_loop      *loop  = NULL;
    est_status     status;

    EST_TRY(est_network_function_reset(network, f));
    EST_TRY(est_network_feeds(network, f, input, NULL, &feeds, &spec.n_feeds));
    spec.feeds  = feeds;
    test.values = est_alloc((size_t)est_network_metrics(network) * sizeof *test.values);
    status      = test.values != NULL ? est_loop_open(&spec, &loop) : est_no_memory();
    est_free(feeds);
    if (status == EST_OK) status = run_steps(loop, steps);
    if (status == EST_OK) *batches = est_loop_runs(loop);
    est_loop_free(loop);
    est_free(test.values);
    return status;
}

est_status est_network_measure_input(est_network *network, const est_dataset *input, int64_t steps, est_hooks hooks,
                                     double *values)
{
    est_network_function *f;
    int64_t               batches;

    if (est_network_is_coordinated(network)) return est_network_measure_shards(network, input, steps, hooks, values);
    EST_TRY(est_network_function_get(network, false, est_network_form(network, input), &f));
    EST_TRY(est_network_run_test(network, f, input, steps, hooks, &batches));
    if (batches == 0) return est_fail(EST_INVALID_ARGUMENT, "the input of the evaluation has no batch");
    return est_network_function_read(network, f, values);
}

est_status est_network_check_verbose(est_verbose verbose)
{
    if (verbose >= EST_VERBOSE_AUTO && verbose <= EST_VERBOSE_NONE) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "verbose is %d; use a value of est_verbose", (int)verbose);
}

static est_status check(const est_network_evaluate_options *o)
{
    EST_TRY(est_network_check_verbose(o->verbose));
    if (o->steps < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "steps is %" PRId64 "; write a number above 0, or 0 for all", o->steps);
    }
    return est_hooks_check("callback", o->callbacks);
}

est_status est_network_need_end(const est_dataset *input, int64_t steps)
{
    if (steps > 0 || !est_dataset_endless(input)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the input repeats for ever; set .steps");
}

/* With a line on the terminal that shows how far it is. */
static est_status measure_shown(est_network *network, const est_network_evaluate_options *o, const est_dataset *input,
                                double *values)
{
    est_hook **hooks    = est_alloc((size_t)(o->callbacks.n + 1) * sizeof(est_hook *));
    est_hook  *progress = est_eval_progress_hook(o->steps);
    est_status status   = EST_RESOURCE_EXHAUSTED;

    if (hooks == NULL) {
        status = est_no_memory();
    } else if (progress != NULL) {
        for (int i = 0; i < o->callbacks.n; i++) hooks[i] = o->callbacks.data[i];
        hooks[o->callbacks.n] = progress;
        status = est_network_measure_input(network, input, o->steps, (est_hooks){ hooks, o->callbacks.n + 1 }, values);
    }
    est_hook_free(progress);
    est_free(hooks);
    return status;
}

static est_status measure(est_network *network, const est_network_evaluate_options *o, double *values)
{
    est_network_source source = { .input = o->input, .arrays = o->arrays, .batch_size = o->batch_size };
    bool               shown  = o->verbose == EST_VERBOSE_AUTO || o->verbose == EST_VERBOSE_BAR;
    est_dataset       *input  = NULL;
    est_status         status;

    EST_TRY(est_network_source_open(network, &source, &input));
    status = est_network_need_end(input, o->steps);
    if (status == EST_OK) status = est_network_fit_to(network, input, true);
    if (status == EST_OK) {
        status = shown ? measure_shown(network, o, input, values)
                       : est_network_measure_input(network, input, o->steps, o->callbacks, values);
    }
    est_dataset_free(input);
    return status;
}

static est_status collect(const est_network *network, const double *values, est_metrics **out)
{
    est_metrics *metrics;
    est_status   status = EST_OK;
    int          n      = est_network_metrics(network);

    EST_TRY(est_metrics_create(n, &metrics));
    for (int i = 0; i < n && status == EST_OK; i++) {
        status = est_metrics_set(metrics, i, est_network_metric(network, i), values[i]);
    }
    if (status != EST_OK) {
        est_metrics_free(metrics);
        return status;
    }
    *out = metrics;
    return EST_OK;
}

est_status est_network_evaluate(est_network *network, const est_network_evaluate_options *options, est_metrics **out)
{
    est_network_evaluate_options o;
    double                      *values;
    est_status                   status;

    EST_REQUIRE(network);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_network_evaluate_options), options, &o));
    EST_TRY(est_network_need_compiled(network, "est_network_evaluate"));
    EST_TRY(est_network_need_idle(network, "est_network_evaluate", true));
    EST_TRY(check(&o));
    values = est_alloc((size_t)est_network_metrics(network) * sizeof *values);
    if (values == NULL) return est_no_memory();
    network->evaluating = true;
    est_signals_catch();
    status = measure(network, &o, values);
    est_signals_release(status);
    network->evaluating = false;
    network->failed     = status != EST_OK;
    if (status == EST_OK && out != NULL) status = collect(network, values, out);
    est_free(values);
    return status == EST_OK ? EST_OK : est_fail_context(status, "evaluate");
}
