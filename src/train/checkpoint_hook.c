/* SPDX-License-Identifier: Apache-2.0
 *
 * The saving hook. Log lines and the order of what happens around a save are those that people know from Estimators. */
#include "train/checkpoint_hook.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "train/saver.h"

typedef struct checkpoint_hook {
    est_hook                 hook;
    est_checkpoint_hook_spec spec;
    est_saving_listener    **listeners; /* [spec.listeners.n] */
} checkpoint_hook;

/* Asks every listener; true from any of them requests a stop. */
static est_status tell_saved(checkpoint_hook *own, est_loop *loop, int64_t step)
{
    est_log_info("Calling checkpoint listeners after saving checkpoint %" PRId64 "...", step);
    for (int i = 0; i < own->spec.listeners.n; i++) {
        est_saving_listener *listener = own->listeners[i];
        bool                 stop     = false;

        if (listener->after_save == NULL) continue;
        EST_TRY(listener->after_save(listener, est_loop_session(loop), step, &stop));
        if (!stop) continue;
        est_log_info("A CheckpointSaverListener requested that training be stopped. listener: %d", i);
        est_loop_request_stop(loop, "a saving listener asked to stop");
    }
    return EST_OK;
}

static est_status write_checkpoint(checkpoint_hook *own, est_loop *loop, int64_t step)
{
    est_extra  extras[EST_CHECKPOINT_EXTRAS_MAX];
    int        n      = 0;
    est_status status = EST_OK;
    char       path[EST_CHECKPOINT_PATH_MAX];

    if (own->spec.extras != NULL) {
        status = own->spec.extras(own->spec.user, loop, extras, EST_CHECKPOINT_EXTRAS_MAX, &n);
    }
    if (status == EST_OK) {
        est_log_info("Saving checkpoints for %" PRId64 " into %s/%s.", step, est_saver_dir(own->spec.saver),
                     est_saver_name(own->spec.saver));
        status = est_saver_save(
            own->spec.saver, est_loop_session(loop), step,
            EST_SAVE(.extras = { extras, n }, .meta = own->spec.meta, .meta_size = own->spec.meta_size), path);
    }
    for (int i = 0; i < n; i++) {
        est_tensor *value;

        memcpy(&value, &extras[i].value, sizeof value); /* ours now, and no longer constant */
        est_tensor_free(value);
    }
    EST_TRY(status);
    if (own->spec.summaries != NULL) {
        est_summary_session_log(own->spec.summaries, EST_SESSION_CHECKPOINT, path, step);
    }
    return EST_OK;
}

static est_status save(checkpoint_hook *own, est_loop *loop)
{
    int64_t step = est_loop_global_step(loop);

    est_log_info("Calling checkpoint listeners before saving checkpoint %" PRId64 "...", step);
    for (int i = 0; i < own->spec.listeners.n; i++) {
        est_saving_listener *listener = own->listeners[i];

        if (listener->before_save != NULL) EST_TRY(listener->before_save(listener, est_loop_session(loop), step));
    }
    EST_TRY(write_checkpoint(own, loop, step));
    (void)est_timer_mark(&own->spec.timer, step, NULL, NULL);
    return tell_saved(own, loop, step);
}

static est_status hook_begin(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    (void)loop;
    for (int i = 0; i < own->spec.listeners.n; i++) {
        if (own->listeners[i]->begin != NULL) EST_TRY(own->listeners[i]->begin(own->listeners[i]));
    }
    return EST_OK;
}

static est_status hook_after_create_session(est_hook *hook, est_loop *loop)
{
    return save(EST_CONTAINER_OF(hook, checkpoint_hook, hook), loop);
}

static est_status hook_after_run(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    if (isnan(est_loop_loss(loop)))
        return EST_OK; /* the step has spoiled the variables: the last good ones stay the latest */
    return est_timer_due(&own->spec.timer, est_loop_global_step(loop)) ? save(own, loop) : EST_OK;
}

static est_status hook_end(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own  = EST_CONTAINER_OF(hook, checkpoint_hook, hook);
    int64_t          step = est_loop_global_step(loop);

    if (!own->spec.timer.marked || own->spec.timer.last_step != step) EST_TRY(save(own, loop));
    for (int i = 0; i < own->spec.listeners.n; i++) {
        est_saving_listener *listener = own->listeners[i];

        if (listener->end != NULL) EST_TRY(listener->end(listener, est_loop_session(loop), step));
    }
    return EST_OK;
}

static void hook_free(est_hook *hook)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    est_free(own->listeners);
    est_free(own);
}

est_status est_checkpoint_hook_create(const est_checkpoint_hook_spec *spec, est_hook **out)
{
    checkpoint_hook *own = est_zalloc(sizeof *own);

    if (own != NULL) own->listeners = est_zalloc((size_t)(spec->listeners.n + 1) * sizeof *own->listeners);
    if (own == NULL || own->listeners == NULL) {
        est_free(own);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a hook");
    }
    own->spec = *spec;
    for (int i = 0; i < spec->listeners.n; i++) {
        own->listeners[i] = spec->listeners.data[i];
        if (own->listeners[i] != NULL) continue;
        hook_free(&own->hook);
        return est_fail(EST_INVALID_ARGUMENT, "saving listener %d is NULL", i);
    }
    own->hook = (est_hook){ .begin                = hook_begin,
                            .after_create_session = hook_after_create_session,
                            .after_run            = hook_after_run,
                            .end                  = hook_end,
                            .free                 = hook_free };
    est_log_info("Create CheckpointSaverHook.");
    *out = &own->hook;
    return EST_OK;
}
