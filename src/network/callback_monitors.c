/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks that watch a value or set the learning rate: early stopping, reduction on a plateau, a schedule. They
 * decide as those of tf.keras.callbacks do. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "network/callbacks.h"
#include "ops/ops.h"
#include "train/hooks.h"

/* --- a monitored value -------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

est_status est_monitor_init(est_monitor *monitor, const char *name, est_monitor_mode mode, double min_delta)
{
    if (name == NULL) name = "val_loss";
    if (mode < EST_MONITOR_AUTO || mode > EST_MONITOR_MAX || !(min_delta >= 0)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: mode is %d and min_delta %g; use a value of est_monitor_mode, and a "
                        "number that is 0 or more",
                        name, (int)mode, min_delta);
    }
    monitor->name = est_strdup(name);
    if (monitor->name == NULL) return est_no_memory();
    monitor->larger = mode == EST_MONITOR_MAX ||
                      (mode == EST_MONITOR_AUTO &&
                       (ends_with(name, "acc") || ends_with(name, "accuracy") || ends_with(name, "auc")));
    monitor->min_delta = min_delta;
    est_monitor_begin(monitor);
    return EST_OK;
}

void est_monitor_clear(est_monitor *monitor)
{
    est_free(monitor->name);
}

void est_monitor_begin(est_monitor *monitor)
{
    monitor->best = monitor->larger ? -INFINITY : INFINITY;
}

bool est_loop_has_log(est_loop *loop, const char *name)
{
    for (int i = 0; i < est_loop_logs(loop); i++) {
        if (strcmp(est_loop_log_name(loop, i), name) == 0) return true;
    }
    return false;
}

static void warn_of_monitor(const est_monitor *monitor, const char *callback, est_loop *loop)
{
    est_strbuf logs = { 0 };

    for (int i = 0; i < est_loop_logs(loop); i++) {
        est_strbuf_printf(&logs, "%s%s", i > 0 ? ", " : "", est_loop_log_name(loop, i));
    }
    est_log_warn("%s: there is no %s in the logs of epoch %" PRId64 "; there are: %s", callback, monitor->name,
                 est_loop_epoch(loop) + 1, est_strbuf_text(&logs));
    est_strbuf_clear(&logs);
}

bool est_monitor_read(const est_monitor *monitor, const char *callback, est_loop *loop, double *value)
{
    if (est_loop_has_log(loop, monitor->name)) {
        *value = est_loop_log(loop, monitor->name);
        return true;
    }
    warn_of_monitor(monitor, callback, loop);
    return false;
}

bool est_monitor_better(const est_monitor *monitor, double value, double than)
{
    return monitor->larger ? value - monitor->min_delta > than : value + monitor->min_delta < than;
}

/* --- the learning rate -------------------------------------------------------------------------------------------- */

static est_status rate_name(const est_loop *loop, const char **out)
{
    est_node rate = est_loop_rate(loop);

    if (rate.graph == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "the learning rate follows a schedule, and cannot be set");
    }
    *out = est_node_name(rate);
    return EST_OK;
}

est_status est_loop_learning_rate(est_loop *loop, double *out)
{
    const char *name;
    est_tensor *value = NULL;

    EST_TRY(rate_name(loop, &name));
    EST_TRY(est_session_read(est_loop_session(loop), name, &value));
    *out = (double)*(const float *)est_tensor_data(value);
    est_tensor_free(value);
    return EST_OK;
}

est_status est_loop_set_learning_rate(est_loop *loop, double rate)
{
    const char *name;
    est_tensor *value = NULL;
    est_status  status;

    EST_TRY(rate_name(loop, &name));
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ (float)rate }, &value));
    status = est_session_write(est_loop_session(loop), name, value);
    est_tensor_free(value);
    return status;
}

static est_status log_rate(est_loop *loop)
{
    double rate;

    EST_TRY(est_loop_learning_rate(loop, &rate));
    est_loop_set_log(loop, "lr", rate);
    return EST_OK;
}

/* --- early stopping ----------------------------------------------------------------------------------------------- */

typedef struct early_stopping {
    est_hook                            hook;
    est_early_stopping_callback_options o;
    est_monitor                         monitor;
    int64_t                             wait;
    est_weights                         weights; /* of the best epoch */
} early_stopping;

/* Weights are put back by value, and those of a dynamic embedding belong to keys. */
static est_status check_restorable(est_graph *graph)
{
    est_nodes variables = est_global_variables(graph);

    for (int i = 0; i < variables.n; i++) {
        if (!est_has_rows(variables.data[i])) continue;
        return est_fail(EST_UNIMPLEMENTED,
                        "early stopping: '%s' is a dynamic embedding, which cannot be set to an earlier value; leave "
                        "out restore_best_weights, and save the best with est_model_checkpoint_callback",
                        est_node_name(variables.data[i]));
    }
    return EST_OK;
}

static est_status early_begin(est_hook *hook, est_loop *loop)
{
    early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);

    if (own->o.restore_best_weights) EST_TRY(check_restorable(est_loop_graph(loop)));
    est_monitor_begin(&own->monitor);
    est_weights_clear(&own->weights);
    own->wait = 0;
    return EST_OK;
}

static est_status keep_weights(early_stopping *own, est_loop *loop)
{
    if (!own->o.restore_best_weights) return EST_OK;
    est_weights_clear(&own->weights);
    return est_weights_take(est_loop_graph(loop), est_loop_session(loop), false, &own->weights);
}

static est_status early_epoch_end(est_hook *hook, est_loop *loop)
{
    early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);
    double          value;

    if (!est_monitor_read(&own->monitor, "early stopping", loop, &value)) return EST_OK;
    if (est_loop_epoch(loop) < own->o.start_from_epoch) return EST_OK;
    if (own->weights.n == 0) EST_TRY(keep_weights(own, loop));
    own->wait++;
    if (est_monitor_better(&own->monitor, value, own->monitor.best)) {
        own->monitor.best = value;
        EST_TRY(keep_weights(own, loop));
        if (!own->o.has_baseline || est_monitor_better(&own->monitor, value, own->o.baseline)) own->wait = 0;
        return EST_OK;
    }
    if (own->wait < own->o.patience || est_loop_epoch(loop) == 0) return EST_OK;
    est_log_info("epoch %" PRId64 ": early stopping", est_loop_epoch(loop) + 1);
    est_loop_request_stop(loop, "early stopping");
    return own->weights.n > 0 ? est_weights_put(&own->weights, est_loop_session(loop)) : EST_OK;
}

static void early_free(est_hook *hook)
{
    early_stopping *own = EST_CONTAINER_OF(hook, early_stopping, hook);

    est_monitor_clear(&own->monitor);
    est_weights_clear(&own->weights);
    est_free(own);
}

est_hook *est_early_stopping_callback(const char *monitor, const est_early_stopping_callback_options *options)
{
    early_stopping *own = est_hook_alloc(sizeof *own);
    est_status      status;

    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.begin = early_begin, .epoch_end = early_epoch_end, .free = early_free);
    status    = est_options_take(EST_STRUCT_SIZE(est_early_stopping_callback_options), options, &own->o);
    if (status == EST_OK && (own->o.patience < 0 || own->o.start_from_epoch < 0)) {
        status = est_fail(EST_INVALID_ARGUMENT, "early stopping: patience and start_from_epoch are 0 or more");
    }
    if (status == EST_OK) status = est_monitor_init(&own->monitor, monitor, own->o.mode, own->o.min_delta);
    if (status == EST_OK) return &own->hook;
    early_free(&own->hook);
    return NULL;
}

/* --- reduction on a plateau --------------------------------------------------------------------------------------- */

typedef struct plateau {
    est_hook                      hook;
    est_reduce_on_plateau_options o;
    est_monitor                   monitor;
    int64_t                       wait, cooldown;
} plateau;

static est_status plateau_begin(est_hook *hook, est_loop *loop)
{
    plateau *own = EST_CONTAINER_OF(hook, plateau, hook);

    (void)loop;
    est_monitor_begin(&own->monitor);
    own->wait = own->cooldown = 0;
    return EST_OK;
}

static est_status reduce(plateau *own, est_loop *loop)
{
    double rate;

    EST_TRY(est_loop_learning_rate(loop, &rate));
    if (rate <= (double)(float)own->o.min_rate) return EST_OK;
    rate = fmax(rate * own->o.factor, own->o.min_rate);
    EST_TRY(est_loop_set_learning_rate(loop, rate));
    est_log_info("epoch %" PRId64 ": the learning rate is reduced to %g", est_loop_epoch(loop) + 1, rate);
    own->cooldown = own->o.cooldown;
    own->wait     = 0;
    return EST_OK;
}

static est_status plateau_epoch_end(est_hook *hook, est_loop *loop)
{
    plateau *own = EST_CONTAINER_OF(hook, plateau, hook);
    double   value;

    EST_TRY(log_rate(loop)); /* that of the epoch */
    if (!est_monitor_read(&own->monitor, "reduce on plateau", loop, &value)) return EST_OK;
    if (own->cooldown > 0) {
        own->cooldown--;
        own->wait = 0;
    }
    if (est_monitor_better(&own->monitor, value, own->monitor.best)) {
        own->monitor.best = value;
        own->wait         = 0;
        return EST_OK;
    }
    if (own->cooldown > 0 || ++own->wait < own->o.patience) return EST_OK;
    return reduce(own, loop);
}

static void plateau_free(est_hook *hook)
{
    plateau *own = EST_CONTAINER_OF(hook, plateau, hook);

    est_monitor_clear(&own->monitor);
    est_free(own);
}

static est_status plateau_fill(plateau *own, const char *monitor)
{
    est_reduce_on_plateau_options *o = &own->o;

    o->factor   = est_or(o->factor, 0.1);
    o->patience = (int64_t)est_or((double)o->patience, 10);
    if (!(o->factor >= 0 && o->factor < 1) || o->patience < 0 || o->cooldown < 0 || !(o->min_rate >= 0)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "reduce on plateau: factor is %g, patience %" PRId64 ", cooldown %" PRId64
                        ", min_rate %g; the factor is at least 0 and below 1, the others 0 or more",
                        o->factor, o->patience, o->cooldown, o->min_rate);
    }
    return est_monitor_init(&own->monitor, monitor, o->mode, est_or(o->min_delta, 1e-4));
}

est_hook *est_reduce_on_plateau_callback(const char *monitor, const est_reduce_on_plateau_options *options)
{
    plateau   *own = est_hook_alloc(sizeof *own);
    est_status status;

    if (own == NULL) return NULL;
    own->hook = (est_hook)EST_HOOK(.begin = plateau_begin, .epoch_end = plateau_epoch_end, .free = plateau_free);
    status    = est_options_take(EST_STRUCT_SIZE(est_reduce_on_plateau_options), options, &own->o);
    if (status == EST_OK) status = plateau_fill(own, monitor);
    if (status == EST_OK) return &own->hook;
    plateau_free(&own->hook);
    return NULL;
}

/* --- a schedule --------------------------------------------------------------------------------------------------- */

typedef struct schedule {
    est_hook             hook;
    est_learning_rate_fn fn;
    void                *user;
} schedule;

static est_status schedule_epoch_begin(est_hook *hook, est_loop *loop)
{
    const schedule *own = EST_CONTAINER_OF(hook, schedule, hook);
    double          rate;

    EST_TRY(est_loop_learning_rate(loop, &rate));
    rate = own->fn(est_loop_epoch(loop), rate, own->user);
    if (!(rate >= 0) || rate == INFINITY) {
        return est_fail(EST_INVALID_ARGUMENT, "the learning rate of epoch %" PRId64 " is %g", est_loop_epoch(loop) + 1,
                        rate);
    }
    return est_loop_set_learning_rate(loop, rate);
}

static est_status schedule_epoch_end(est_hook *hook, est_loop *loop)
{
    (void)hook;
    return log_rate(loop);
}

est_hook *est_learning_rate_callback(est_learning_rate_fn fn, void *user)
{
    schedule *own;

    if (fn == NULL) {
        (void)est_fail(EST_INVALID_ARGUMENT, "est_learning_rate_callback: fn is NULL");
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    *own = (schedule){ .hook = EST_HOOK(.epoch_begin = schedule_epoch_begin, .epoch_end = schedule_epoch_end,
                                        .free = est_hook_free_struct),
                       .fn   = fn,
                       .user = user };
    return &own->hook;
}
