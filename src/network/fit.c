/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: epochs of training, each followed by a validation, with callbacks around them and a history. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "network/callbacks.h"
#include "train/hooks.h"

/* --- options ------------------------------------------------------------------------------------------------------ */

static est_status check_number(const char *name, int64_t value, const char *meaning)
{
    if (value >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s is %" PRId64 "; write a number above 0, or 0 for %s", name, value,
                    meaning);
}

static est_status check_options(const est_fit_options *o)
{
    if (o->epochs != EST_OFF) EST_TRY(check_number("epochs", o->epochs, "1"));
    EST_TRY(check_number("initial_epoch", o->initial_epoch, "the first"));
    EST_TRY(check_number("steps_per_epoch", o->steps_per_epoch, "all of the input"));
    EST_TRY(check_number("validation_batch_size", o->validation_batch_size, "batch_size"));
    EST_TRY(check_number("validation_steps", o->validation_steps, "all of the validation input"));
    EST_TRY(check_number("validation_freq", o->validation_freq, "1"));
    if (!(o->validation_split >= 0 && o->validation_split < 1)) {
        return est_fail(EST_INVALID_ARGUMENT, "validation_split is %g; write a number from 0 to below 1",
                        o->validation_split);
    }
    if (o->validation_split > 0 && (o->arrays.n == 0 || o->validation != NULL || o->validation_arrays.n > 0)) {
        return est_fail(EST_INVALID_ARGUMENT, "validation_split divides arrays; it goes %s",
                        o->arrays.n == 0 ? "with none: give a dataset for validation"
                                         : "without other validation data");
    }
    if (o->validation != NULL && o->validation_arrays.n > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "validation and validation_arrays are both set; leave one out");
    }
    EST_TRY(est_network_check_verbose(o->verbose));
    EST_REQUIRE_LIST("class_weight", o->class_weight);
    for (int i = 0; i < o->class_weight.n; i++) {
        if (o->class_weight.data[i] >= 0 && isfinite(o->class_weight.data[i])) continue;
        return est_fail(EST_INVALID_ARGUMENT, "class_weight of class %d is %g; write a number that is 0 or more", i,
                        o->class_weight.data[i]);
    }
    if (o->input_function != NULL && o->input == NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "input_function is %s, and input is NULL; set it to a dataset of the same components",
                        o->input_function);
    }
    EST_TRY(est_hooks_check("validation callback", o->validation_callbacks));
    return est_hooks_check("callback", o->callbacks);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static est_network_source train_source(const est_fit *fit)
{
    const est_fit_options *o = fit->options;

    return (est_network_source){ .input      = o->input,
                                 .arrays     = o->arrays,
                                 .batch_size = o->batch_size,
                                 .passes     = o->steps_per_epoch > 0 ? fit->epochs : 1,
                                 .take       = o->validation_split > 0 ? 1 - o->validation_split : 0,
                                 .shuffle    = o->no_shuffle ? 0 : fit->network->seed,
                                 .own_order  = est_network_is_coordinated(fit->network),
                                 .distribute = true };
}

static est_network_source validation_source(const est_fit_options *o)
{
    int64_t batch_size = o->validation_batch_size > 0 ? o->validation_batch_size : o->batch_size;

    return (est_network_source){ .input      = o->validation,
                                 .arrays     = o->validation_split > 0 ? o->arrays : o->validation_arrays,
                                 .batch_size = o->validation == NULL ? batch_size : 0,
                                 .skip       = o->validation_split > 0 ? 1 - o->validation_split : 0 };
}

/* Before any training: both parts have rows. */
static est_status check_split(const est_fit *fit)
{
    est_network_source train = train_source(fit), rest = validation_source(fit->options);
    bool               trains;

    if (fit->options->validation_split == 0) return EST_OK;
    trains = est_network_source_steps(&train) > 0;
    if (trains && est_network_source_steps(&rest) > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "validation_split is %g, which leaves none of the rows of arrays for %s",
                    fit->options->validation_split, trains ? "validation" : "training");
}

static est_status open_validation(est_fit *fit)
{
    const est_fit_options *o      = fit->options;
    est_network_source     source = validation_source(o);
    est_status             status;

    if (o->validation == NULL && source.arrays.n == 0) return EST_OK;
    status = est_network_source_open(fit->network, &source, &fit->validation);
    if (status != EST_OK) return est_fail_context(status, "validation");
    if (o->validation_steps == 0 && est_dataset_endless(fit->validation)) {
        return est_fail(EST_INVALID_ARGUMENT, "the validation input repeats for ever; set validation_steps");
    }
    return est_network_fit_to(fit->network, fit->validation, true);
}

static est_status check_coordinated(const est_fit *fit)
{
    if (fit->steps > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "steps_per_epoch is not set: with parameter servers any worker makes the "
                                          "next step, and an epoch is a number of them");
}

static est_status take_class_weight(est_fit *fit)
{
    est_f64s given = fit->options->class_weight;
    float   *w;

    if (given.n == 0) return EST_OK;
    if (fit->network->compiled->n_outputs != 1) {
        return est_fail(EST_INVALID_ARGUMENT, "class_weight is set, and %s has %d losses; give rows a sample_weight",
                        fit->network->name, fit->network->compiled->n_outputs);
    }
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(given.n), &fit->class_weight));
    w = est_tensor_mutable_data(fit->class_weight);
    for (int i = 0; i < given.n; i++) w[i] = (float)given.data[i];
    return EST_OK;
}

static int train_form(const est_fit *fit)
{
    return est_network_form(fit->network, fit->input) | (fit->class_weight != NULL ? EST_FORM_CLASS_WEIGHT : 0);
}

/* Several workers count steps, and go on with their inputs for ever. */
static est_status count_steps(est_fit *fit)
{
    est_dataset *once;

    if (est_network_is_coordinated(fit->network)) EST_TRY(check_coordinated(fit));
    if (fit->known_steps == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "several workers train in steps; set steps_per_epoch");
    }
    if (fit->backup != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "several workers go on from the checkpoints of model_dir; leave out "
                                              "est_backup_callback");
    }
    if (fit->options->validation_callbacks.n > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "several workers validate without callbacks; leave out "
                                              "validation_callbacks");
    }
    fit->steps = fit->known_steps;
    if (est_dataset_endless(fit->input)) return EST_OK;
    once       = fit->input;
    fit->input = NULL; /* taken, also on failure */
    return est_dataset_finish(est_dataset_repeat(once, EST_FOREVER), &fit->input);
}

static est_status open_inputs(est_fit *fit)
{
    est_network_source source = train_source(fit);

    if (fit->options->input_function != NULL && !est_network_is_coordinated(fit->network)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "input_function is %s, which workers of parameter servers call; set input alone",
                        fit->options->input_function);
    }
    EST_TRY(take_class_weight(fit));
    EST_TRY(est_network_source_open(fit->network, &source, &fit->input));
    EST_TRY(check_split(fit));
    fit->steps = fit->known_steps = fit->options->steps_per_epoch;
    if (fit->steps == 0 && est_dataset_endless(fit->input)) {
        return est_fail(EST_INVALID_ARGUMENT, "the input repeats for ever; set steps_per_epoch");
    }
    if (fit->steps == 0 && source.input == NULL) fit->known_steps = est_network_source_steps(&source);
    if (est_fit_has_workers(fit->network) || est_network_is_coordinated(fit->network)) EST_TRY(count_steps(fit));
    fit->goes_on = fit->steps > 0;
    EST_TRY(est_network_fit_to(fit->network, fit->input, true));
    EST_TRY(est_network_function_get(fit->network, true, train_form(fit), &fit->f));
    return open_validation(fit);
}

/* --- epochs ------------------------------------------------------------------------------------------------------- */

static bool validates(const est_fit *fit)
{
    int64_t every = fit->options->validation_freq > 0 ? fit->options->validation_freq : 1;

    return fit->validation != NULL && (fit->epoch + 1) % every == 0;
}

static est_status add_validation(est_fit *fit)
{
    char       name[256];
    est_status status = fit->trainer->validate(fit, fit->values);

    if (status != EST_OK) return est_fail_context(status, "validation");
    for (int i = 0; i < est_network_metrics(fit->network); i++) {
        (void)snprintf(name, sizeof name, "val_%s", est_network_metric(fit->network, i));
        est_loop_set_log(fit->loop, name, fit->values[i]);
    }
    return EST_OK;
}

/* The input of a fit that goes on from a backup. */
static est_status seek(est_fit *fit)
{
    est_status status = EST_OK;

    if (fit->position != NULL) status = est_iterator_restore(est_loop_input(fit->loop), fit->position);
    est_tensor_free(fit->position);
    fit->position = NULL;
    return status;
}

/* The pass that an epoch begins; -1: it goes on with the input. Each has an order of its own, also in later fits of the
 * network. Workers go on in all fits: they find their position by the step. */
static int64_t pass_of(const est_fit *fit)
{
    if (fit->workers != NULL || fit->calls != NULL) return -1;
    if (fit->goes_on) return fit->begun ? -1 : fit->first_pass;
    return fit->first_pass + fit->epoch - fit->options->initial_epoch;
}

static est_status run_epoch(est_fit *fit, bool *ended)
{
    int64_t before = est_loop_runs(fit->loop);

    if (fit->done == 0 && fit->workers == NULL) EST_TRY(est_network_function_reset(fit->network, fit->f));
    est_loop_lend(fit->loop, fit->network->session);
    EST_TRY(est_loop_begin_epoch(fit->loop, fit->epoch, fit->epochs, pass_of(fit)));
    fit->begun = true;
    if (fit->done > 0) est_loop_outdate_logs(fit->loop); /* a backup has brought the states of the metrics */
    EST_TRY(seek(fit));
    EST_TRY(fit->trainer->epoch(fit, ended));
    fit->done = 0;
    if (est_stop_signal() != 0) return EST_OK;                       /* the epoch is not complete */
    if (*ended && est_loop_runs(fit->loop) == before) return EST_OK; /* it did not begin */
    if (fit->workers != NULL && est_fit_workers_left_epoch(fit)) return EST_OK;
    EST_TRY(est_loop_measure(fit->loop));
    if (validates(fit)) EST_TRY(add_validation(fit));
    EST_TRY(est_loop_end_epoch(fit->loop));
    EST_TRY(est_history_add(fit->history, fit->loop));
    if (fit->workers != NULL) {
        EST_TRY(est_fit_workers_vote(fit));
        EST_TRY(est_fit_workers_save(fit));
    }
    return fit->backup != NULL && fit->epoch + 1 < fit->epochs ? est_backup_epoch(fit->backup, fit) : EST_OK;
}

/* Up to the last, or a stop. */
static est_status run_epochs_left(est_fit *fit)
{
    bool ended = false;

    while (fit->epoch < fit->epochs && !ended) {
        EST_TRY(run_epoch(fit, &ended));
        ended = ended || est_loop_should_stop(fit->loop);
        if (fit->workers != NULL) {
            est_fit_workers_seek(fit);
        } else {
            fit->epoch++;
        }
    }
    return EST_OK;
}

static est_status run_epochs(est_fit *fit)
{
    bool resumed;

    do {
        resumed = false;
        EST_TRY(run_epochs_left(fit));
        EST_TRY(fit->trainer->end(fit, &resumed));
    } while (resumed);
    EST_TRY(est_signals_check("fit"));
    return fit->backup != NULL ? est_backup_end(fit->backup, fit) : EST_OK;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static est_status collect_hooks(est_fit *fit)
{
    est_hooks given = fit->options->callbacks;

    fit->hooks  = est_alloc((size_t)(given.n + 1) * sizeof(est_hook *));
    fit->values = est_alloc((size_t)est_network_metrics(fit->network) * sizeof *fit->values);
    if (fit->hooks == NULL || fit->values == NULL) return est_no_memory();
    for (int i = 0; i < given.n; i++) {
        fit->hooks[fit->n_hooks++] = given.data[i];
        if (est_is_backup(given.data[i])) fit->backup = given.data[i];
    }
    if (fit->options->verbose == EST_VERBOSE_NONE) return EST_OK;
    fit->progress = est_fit_progress(fit, fit->options->verbose);
    if (fit->progress == NULL) return est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
    fit->hooks[fit->n_hooks++] = fit->progress;
    return EST_OK;
}

static est_status run(est_fit *fit)
{
    EST_TRY(collect_hooks(fit));
    EST_TRY(est_history_create(&fit->history));
    EST_TRY(open_inputs(fit));
    if (fit->backup != NULL) EST_TRY(est_backup_restore(fit->backup, fit));
    EST_TRY(fit->trainer->open(fit));
    return fit->over ? EST_OK : run_epochs(fit);
}

static void clear(est_fit *fit)
{
    if (fit->backup != NULL) est_backup_leave(fit->backup);
    est_hook_free(fit->progress);
    est_free(fit->hooks);
    est_free(fit->values);
    est_dataset_free(fit->input);
    est_dataset_free(fit->validation);
    est_history_free(fit->history);
    est_tensor_free(fit->position);
    est_tensor_free(fit->class_weight);
}

est_status est_network_fit(est_network *network, const est_fit_options *options, est_history **out)
{
    est_fit_options own;
    est_fit         fit = { .network = network, .options = &own, .trainer = &est_loop_trainer };
    est_status      status;
    est_error       error;

    EST_REQUIRE(network);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_fit_options), options, &own));
    EST_TRY(est_network_need_compiled(network, "est_network_fit"));
    EST_TRY(est_network_need_idle(network, "est_network_fit", false));
    status = check_options(&own);
    if (status != EST_OK) return est_fail_context(status, "fit");
    if (est_network_is_coordinated(network)) fit.trainer = &est_coordinator_trainer;
    fit.epochs       = (int64_t)est_or((double)own.epochs, 1);
    fit.epoch        = own.initial_epoch;
    fit.first_pass   = network->passes > fit.epoch ? network->passes : fit.epoch;
    network->fitting = true;
    est_signals_catch();
    status = run(&fit);
    est_error_take(status, &error);
    fit.trainer->close(&fit, status);
    if (status == EST_OK && out != NULL) {
        *out        = fit.history;
        fit.history = NULL;
    }
    clear(&fit);
    network->passes  = fit.first_pass + fit.epoch - own.initial_epoch;
    network->failed  = status != EST_OK;
    network->fitting = false;
    est_signals_release(status);
    if (status == EST_OK) return EST_OK;
    (void)est_error_raise(&error);
    return est_fail_context(status, "fit");
}
