/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer of a fit over parameter servers: a step is a call that the coordinator of the network hands to any
 * worker, and an epoch ends when all its calls have completed.
 *
 * A checkpoint is written before the first step of each epoch, when metrics are reset and callbacks have set the
 * learning rate, and at the end of the fit. Its epoch counts those of all fits of the program in their order, so that a
 * program that is started again goes on in the right one. */
#include <inttypes.h>

#include "base/log.h"
#include "base/signals.h"
#include "estoc/saver.h"
#include "network/fit.h"

struct est_fit_calls {
    est_per_worker *rows, *batches; /* the input at every worker, and an iterator over it */
    est_function   *step;
    est_arguments   arguments;
    int64_t         first; /* epoch of the fit, also when it was made before */
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

static est_status make_function(est_fit *fit)
{
    est_fit_calls *calls  = fit->calls;
    est_node      *feeds  = est_alloc((size_t)(calls->arguments.n + 1) * sizeof *feeds);
    est_status     status = EST_OK;

    if (feeds == NULL) return est_no_memory();
    for (int i = 0; i < calls->arguments.n; i++) feeds[i] = calls->arguments.data[i].node;
    status = est_coordinator_function(fit->network->coordinator, "fit", (est_nodes){ feeds, calls->arguments.n },
                                      EST_NO_NODES, (est_nodes){ fit->f->targets, fit->f->n_targets }, &calls->step);
    est_free(feeds);
    return status;
}

/* Variables that the graph got after the coordinator had restored the others, as the state of an optimizer. */
static est_status restore_rest(est_network *network, void *user)
{
    est_saver *saver = NULL;
    est_status status;

    (void)user;
    EST_TRY(est_saver_create(network->model_dir, NULL, &saver));
    status = est_saver_restore(saver, network->session, EST_RESTORE(.partial = true), NULL);
    est_saver_free(saver);
    return status;
}

/* Leaves out the epochs that a checkpoint has. */
static est_status resume(est_fit *fit, bool connected)
{
    est_network *network = fit->network;
    int64_t      planned = fit->epochs - fit->epoch;
    int64_t      made    = network->restored < planned ? network->restored : planned;

    if (network->restored == 0 || planned <= 0) return EST_OK;
    if (connected) EST_TRY(est_network_use_session(network, restore_rest, NULL));
    network->restored -= made;
    fit->epoch += made;
    fit->over = made == planned;
    if (fit->over) {
        network->fitted += planned;
        est_log_info("Nothing left to do: all epochs of this fit were made before.");
    } else {
        est_log_info("The fit goes on with epoch %" PRId64 " of %" PRId64 ".", fit->epoch + 1, fit->epochs);
    }
    return EST_OK;
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    (void)user;
    return est_loop_read_step(loop, global_step);
}

static est_status open_loop(est_fit *fit)
{
    est_network  *network = fit->network;
    est_loop_spec spec    = { .graph      = network->graph,
                              .model_dir  = network->model_dir,
                              .lent       = network->session,
                              .rate       = network->compiled->rate,
                              .hooks      = { fit->hooks, fit->n_hooks },
                              .n_given    = fit->options->callbacks.n,
                              .initialize = initialize,
                              .measure    = est_fit_measure,
                              .user       = fit };

    return est_loop_open(&spec, &fit->loop);
}

static est_status open_rows(est_fit *fit)
{
    const est_fit_options *o = fit->options;
    est_coordinator       *c = fit->network->coordinator;

    if (o->input_function == NULL) return est_coordinator_dataset(c, fit->input, NULL, &fit->calls->rows);
    return est_coordinator_dataset_by_name(
        c, o->input_function, EST_PER_WORKER(.params = o->input_params, .params_size = o->input_params_size),
        &fit->calls->rows);
}

/* The iterator is made also for a fit that is over: the positions of a checkpoint go by the order of iterators. */
static est_status open_calls(est_fit *fit)
{
    est_network   *network   = fit->network;
    bool           connected = network->coordinator != NULL;
    est_fit_calls *calls     = est_zalloc(sizeof *calls);

    if (calls == NULL) return est_no_memory();
    fit->calls   = calls;
    calls->first = fit->epoch;
    EST_TRY(est_network_connect(network));
    EST_TRY(open_rows(fit));
    EST_TRY(est_per_worker_iterator(calls->rows, &calls->batches));
    EST_TRY(est_network_arguments(network, fit->f, fit->input, calls->batches, fit->class_weight, &calls->arguments));
    EST_TRY(make_function(fit));
    EST_TRY(resume(fit, connected));
    if (fit->over) return EST_OK;
    EST_TRY(est_network_connect(network));
    return open_loop(fit);
}

/* --- epochs ------------------------------------------------------------------------------------------------------- */

/* epochs: of this fit. */
static est_status save(const est_fit *fit, int64_t epochs)
{
    if (fit->network->model_dir[0] == '\0') return EST_OK;
    return est_coordinator_save(fit->network->coordinator, fit->network->fitted + epochs);
}

static est_status make_steps(est_fit *fit)
{
    est_coordinator *c = fit->network->coordinator;

    for (int64_t i = 0; i < fit->steps; i++) {
        EST_TRY(est_coordinator_schedule(c, fit->calls->step, fit->calls->arguments, NULL));
    }
    return est_coordinator_join(c);
}

static est_status read_step(est_network *network, void *out)
{
    est_tensor *step = NULL;

    EST_TRY(est_session_read(network->session, "global_step", &step));
    *(int64_t *)out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    return EST_OK;
}

static est_status run_calls(est_fit *fit)
{
    int64_t step;

    EST_TRY(save(fit, fit->epoch - fit->calls->first));
    EST_TRY(make_steps(fit));
    EST_TRY(est_network_use_session(fit->network, read_step, &step));
    est_loop_lend(fit->loop, fit->network->session);
    return est_loop_made(fit->loop, fit->steps, step);
}

/* A signal leaves the epoch incomplete: a program that is started again makes it from its beginning. */
static est_status run_epoch(est_fit *fit, bool *ended)
{
    est_status status = run_calls(fit);

    *ended = est_stop_signal() != 0 || est_loop_should_stop(fit->loop);
    return status == EST_CANCELLED && est_stop_signal() != 0 ? EST_OK : status;
}

static est_status validate(est_fit *fit, double *values)
{
    EST_TRY(est_network_measure_input(fit->network, fit->validation, fit->options->validation_steps, (est_hooks){ 0 },
                                      values));
    est_loop_lend(fit->loop, fit->network->session);
    return EST_OK;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Callbacks may change variables at the end. A fit that a callback has stopped counts with all its epochs. */
static est_status end(est_fit *fit, bool *resumed)
{
    (void)resumed;
    EST_TRY(est_loop_end(fit->loop));
    if (est_stop_signal() != 0) return EST_OK;
    if (fit->epochs > fit->calls->first) fit->network->fitted += fit->epochs - fit->calls->first;
    return save(fit, 0);
}

static void close_calls(est_fit *fit, est_status why)
{
    est_fit_calls *calls = fit->calls;

    (void)why;
    est_loop_free(fit->loop);
    fit->loop = NULL;
    if (calls == NULL) return;
    est_function_free(calls->step);
    est_per_worker_free(calls->batches);
    est_per_worker_free(calls->rows);
    est_free(calls);
    fit->calls = NULL;
}

const est_trainer_ops est_coordinator_trainer = { .open     = open_calls,
                                                  .epoch    = run_epoch,
                                                  .validate = validate,
                                                  .end      = end,
                                                  .close    = close_calls };
