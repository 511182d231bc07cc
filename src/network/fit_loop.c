/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer of a fit whose steps are made by a loop in this process, by itself or with other workers. */
#include <inttypes.h>

#include "base/log.h"
#include "network/fit.h"
#include "runtime/session.h"

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    (void)user;
    return est_loop_read_step(loop, global_step);
}

/* Reading metrics draws no random numbers, and must not move those of the training. */
est_status est_fit_measure(void *user, est_loop *loop)
{
    est_fit *fit = user;

    EST_TRY(est_network_function_read(fit->network, fit->f, fit->values));
    for (int i = 0; i < est_network_metrics(fit->network); i++) {
        est_loop_set_log(loop, est_network_metric(fit->network, i), fit->values[i]);
    }
    return EST_OK;
}

static est_status open_loop(est_fit *fit)
{
    est_network   *network = fit->network;
    est_loop_spec  spec    = { .graph       = network->graph,
                               .model_dir   = network->model_dir,
                               .lent        = network->session,
                               .input       = fit->input,
                               .n_replicas  = fit->f->n,
                               .loss        = fit->f->loss,
                               .rate        = network->compiled->rate,
                               .global_step = fit->f->step_after,
                               .targets     = { fit->f->targets, fit->f->n_targets },
                               .n_given     = fit->options->callbacks.n,
                               .runs_ahead  = true,
                               .initialize  = initialize,
                               .measure     = est_fit_measure,
                               .user        = fit };
    est_loop_feed *feeds   = NULL;
    est_status     status;

    if (est_fit_has_workers(network)) {
        EST_TRY(est_fit_workers_open(fit));
        if (fit->over) return EST_OK;
        EST_TRY(est_fit_workers_prepare(fit, &spec));
    }
    EST_TRY(est_network_feeds(network, fit->f, fit->input, fit->class_weight, &feeds, &spec.n_feeds));
    spec.feeds = feeds;
    spec.hooks = (est_hooks){ fit->hooks, fit->n_hooks };
    spec.given = fit->given;
    status     = est_loop_open(&spec, &fit->loop);
    est_free(feeds);
    EST_TRY(status);
    if (fit->workers != NULL) est_fit_workers_seek(fit);
    return EST_OK;
}

static est_status run_epoch(est_fit *fit, bool *ended)
{
    est_status status = EST_OK;

    if (fit->workers != NULL) return est_fit_workers_epoch(fit, ended);
    while (status == EST_OK && (fit->steps == 0 || fit->done < fit->steps)) {
        status = est_loop_step(fit->loop);
        if (status == EST_OK) fit->done++;
    }
    *ended = est_loop_should_stop(fit->loop);
    if (status != EST_OK && !est_loop_at_end(fit->loop)) return status;
    if (status == EST_OK || *ended) return EST_OK;
    if (fit->done == 0 && est_loop_runs(fit->loop) == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "the input has no batch to train with");
    }
    if (fit->steps == 0) {
        fit->known_steps = fit->done;
        return EST_OK;
    }
    est_log_warn("the input ended after %" PRId64 " of %" PRId64 " steps of epoch %" PRId64
                 ": training ends; repeat the dataset, or leave out steps_per_epoch",
                 fit->done, fit->steps, fit->epoch + 1);
    *ended = true;
    return EST_OK;
}

static est_status validate(est_fit *fit, double *values)
{
    if (fit->workers != NULL) return est_fit_workers_validate(fit, values);
    return est_network_measure_input(fit->network, fit->validation, fit->options->validation_steps,
                                     fit->options->validation_callbacks, values);
}

static est_status end(est_fit *fit, bool *resumed)
{
    return fit->workers != NULL ? est_fit_workers_end(fit, resumed) : est_loop_end(fit->loop);
}

static void close_loop(est_fit *fit, est_status why)
{
    est_loop_free(fit->loop);
    fit->loop = NULL;
    if (fit->workers != NULL) est_fit_workers_close(fit, why);
}

const est_trainer_ops est_loop_trainer = { .open     = open_loop,
                                           .epoch    = run_epoch,
                                           .validate = validate,
                                           .end      = end,
                                           .close    = close_loop };
