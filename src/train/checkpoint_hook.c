/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoint saver hook: saves the variables, and the extras that the loop adds, after the session is created,
 * periodically and at the end. Log lines and the order of the calls around a save are those of TensorFlow's
 * CheckpointSaverHook. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/callback.h"
#include "base/log.h"
#include "base/options.h"
#include "runtime/session.h"
#include "train/graph_files.h"
#include "train/hooks.h"
#include "train/saver.h"

#define EXTRAS_MAX 8

typedef struct checkpoint_hook {
    est_hook              hook;
    char                 *dir, *basename; /* NULL: those of `saver` */
    est_saver            *own_saver;      /* for `dir`, created by every loop; NULL: no directory given */
    est_saver            *saver;          /* the one in use */
    est_timer             timer;
    est_saving_listener **listeners; /* [n_listeners] */
    int                   n_listeners;
    est_saving_listeners  lent; /* called after the others */
    bool                  no_graph_def;
    bool                  described; /* `files` holds the graph of this loop, and the event file has it */
    bool                  spoiled;   /* a variable of this session is NaN: nothing more is saved */
    est_graph_files       files;
} checkpoint_hook;

/* --- listeners ---------------------------------------------------------------------------------------------------- */

static int count_listeners(const checkpoint_hook *own)
{
    return own->n_listeners + own->lent.n;
}

/* NULL: the same listener already has a lower number. */
static est_saving_listener *listener_at(const checkpoint_hook *own, int i)
{
    est_saving_listener *listener;

    if (i < own->n_listeners) return own->listeners[i];
    listener = own->lent.data[i - own->n_listeners];
    for (int k = 0; k < own->n_listeners; k++) {
        if (own->listeners[k] == listener) return NULL;
    }
    return listener;
}

void est_checkpoint_saver_lend(est_hook *checkpoint_saver, est_saving_listeners listeners)
{
    EST_CONTAINER_OF(checkpoint_saver, checkpoint_hook, hook)->lent = listeners;
}

/* TensorFlow logs calls of listeners even when there are none; a cluster does so only at debug level. */
static est_log_level level_of_calls(checkpoint_hook *own, est_loop *loop)
{
    return count_listeners(own) == 0 && est_session_remote(est_loop_session(loop)) != NULL ? EST_LOG_DEBUG
                                                                                           : EST_LOG_INFO;
}

/* Asks every listener; true from any of them requests a stop. */
static est_status tell_saved(checkpoint_hook *own, est_loop *loop, int64_t step)
{
    EST_LOG_AT(level_of_calls(own, loop), "Calling checkpoint listeners after saving checkpoint %" PRId64 "...", step);
    for (int i = 0; i < count_listeners(own); i++) {
        est_saving_listener *listener = listener_at(own, i);
        bool                 stop     = false;

        if (listener == NULL || EST_MEMBER(listener, after_save) == NULL) continue;
        EST_TRY(EST_CALLBACK(listener->after_save(listener, est_loop_session(loop), step, &stop),
                             "saving listener %d: after_save", i));
        if (!stop) continue;
        est_log_info("A CheckpointSaverListener requested that training be stopped. listener: %d", i);
        est_loop_request_stop(loop, "a saving listener requested a stop");
    }
    return EST_OK;
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

static est_status write_checkpoint(checkpoint_hook *own, est_loop *loop, int64_t step)
{
    const est_loop_spec *spec = est_loop_get_spec(loop);
    est_extra            extras[EXTRAS_MAX];
    int                  n      = 0;
    est_status           status = EST_OK;
    char                 path[EST_CHECKPOINT_PATH_MAX];

    if (spec->summaries != NULL) est_summary_flush(spec->summaries); /* event files are never behind a checkpoint */
    if (spec->extras != NULL) status = spec->extras(spec->user, loop, extras, EXTRAS_MAX, &n);
    if (status == EST_OK) {
        est_log_info("Saving checkpoints for %" PRId64 " into %s/%s.", step, est_saver_dir(own->saver),
                     est_saver_name(own->saver));
        status = est_saver_save(
            own->saver, est_loop_session(loop), step,
            EST_SAVE(.extras = { extras, n }, .meta = { own->no_graph_def ? NULL : (const char *)own->files.meta.data,
                                                        own->no_graph_def ? 0 : own->files.meta.size }),
            path);
    }
    for (int i = 0; i < n; i++) {
        est_tensor *value;

        memcpy(&value, &extras[i].value, sizeof value); /* a copy that this function owns, so no longer const */
        est_tensor_free(value);
    }
    EST_TRY(status);
    if (spec->summaries != NULL) est_summary_session_log(spec->summaries, EST_SESSION_CHECKPOINT, path, step);
    return EST_OK;
}

/* Whether the last step made a variable NaN: then the last good checkpoint stays the latest. The loss was computed
 * before the update, so it does not show this. Checking the variables takes a fraction of the time of writing them. */
static est_status look_for_nan(checkpoint_hook *own, est_loop *loop)
{
    const char *name;
    char        what[128];

    EST_TRY(est_saved_nan(est_loop_session(loop), &name));
    own->spoiled = name != NULL;
    if (!own->spoiled) return EST_OK;
    snprintf(what, sizeof what, "variable '%s'", name);
    return est_loop_diverged(loop, what);
}

static est_status save(checkpoint_hook *own, est_loop *loop)
{
    int64_t step = est_loop_global_step(loop);

    EST_TRY(look_for_nan(own, loop));
    if (own->spoiled) return EST_OK;
    EST_LOG_AT(level_of_calls(own, loop), "Calling checkpoint listeners before saving checkpoint %" PRId64 "...", step);
    for (int i = 0; i < count_listeners(own); i++) {
        est_saving_listener *listener = listener_at(own, i);

        if (listener == NULL || EST_MEMBER(listener, before_save) == NULL) continue;
        EST_TRY(EST_CALLBACK(listener->before_save(listener, est_loop_session(loop), step),
                             "saving listener %d: before_save", i));
    }
    EST_TRY(write_checkpoint(own, loop, step));
    (void)est_timer_mark(&own->timer, step, NULL, NULL);
    return tell_saved(own, loop, step);
}

/* Writes graph.pbtxt, the graph for TensorBoard, and the .meta of checkpoints. This waits for the session: hooks may
 * add to the graph until then, and a checkpoint that does not fit must leave the directory unchanged. */
static est_status describe_graph(checkpoint_hook *own, est_loop *loop)
{
    est_summary_writer *summaries = est_loop_summaries(loop);

    est_graph_files_clear(&own->files);
    EST_TRY(est_graph_files_make(est_loop_graph(loop), &own->files));
    if (!own->no_graph_def && est_graph_files_write(&own->files, est_saver_dir(own->saver)) != EST_OK) {
        est_log_warn("%s/" EST_GRAPH_FILE " could not be written (%s); training continues without it",
                     est_saver_dir(own->saver), est_error_message());
    }
    if (summaries != NULL) {
        est_summary_graph(summaries, 0,
                          (est_str){ (const char *)own->files.graph_def.data, own->files.graph_def.size });
    }
    own->described = true;
    return EST_OK;
}

/* --- the hook ----------------------------------------------------------------------------------------------------- */

static est_status hook_begin(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    (void)loop;
    own->described = false;
    if (own->dir != NULL) { /* always a new saver: another process may have saved there since the last loop */
        est_saver_free(own->own_saver);
        own->own_saver = NULL;
        EST_TRY(est_saver_create(own->dir, EST_SAVER(.name = own->basename), &own->own_saver));
        own->saver = own->own_saver;
    }
    for (int i = 0; i < count_listeners(own); i++) {
        est_saving_listener *listener = listener_at(own, i);

        if (listener == NULL || EST_MEMBER(listener, begin) == NULL) continue;
        EST_TRY(EST_CALLBACK(listener->begin(listener), "saving listener %d: begin", i));
    }
    return EST_OK;
}

static est_status hook_after_create_session(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    own->spoiled = false;
    if (!own->described) EST_TRY(describe_graph(own, loop));
    return save(own, loop);
}

static bool is_spoiled(const checkpoint_hook *own, est_loop *loop)
{
    return own->spoiled ||
           (est_loop_get_spec(loop)->loss.graph != NULL && est_loop_runs(loop) > 0 && isnan(est_loop_loss(loop)));
}

static est_status hook_after_run(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    if (!est_timer_due(&own->timer, est_loop_global_step(loop)))
        return EST_OK; /* first: to look at the loss may wait */
    return is_spoiled(own, loop) ? EST_OK : save(own, loop);
}

est_status est_checkpoint_saver_save(est_hook *checkpoint_saver, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(checkpoint_saver, checkpoint_hook, hook);

    if (is_spoiled(own, loop) || own->timer.last_step == est_loop_global_step(loop)) return EST_OK;
    return save(own, loop);
}

static est_status hook_end(est_hook *hook, est_loop *loop)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    EST_TRY(est_checkpoint_saver_save(hook, loop));
    for (int i = 0; i < count_listeners(own); i++) {
        est_saving_listener *listener = listener_at(own, i);

        if (listener == NULL || EST_MEMBER(listener, end) == NULL) continue;
        EST_TRY(EST_CALLBACK(listener->end(listener, est_loop_session(loop), own->timer.last_step),
                             "saving listener %d: end", i));
    }
    return EST_OK;
}

static void hook_free(est_hook *hook)
{
    checkpoint_hook *own = EST_CONTAINER_OF(hook, checkpoint_hook, hook);

    est_graph_files_clear(&own->files);
    est_saver_free(own->own_saver);
    est_free(own->listeners);
    est_free(own->basename);
    est_free(own->dir);
    est_free(own);
}

bool est_is_checkpoint_saver(const est_hook *hook)
{
    return hook != NULL && EST_MEMBER(hook, free) == hook_free;
}

const est_timer *est_checkpoint_saver_timer(const est_hook *checkpoint_saver)
{
    return &((const checkpoint_hook *)checkpoint_saver)->timer; /* the hook is its first member */
}

static est_status take_options(checkpoint_hook *own, const char *dir, const est_checkpoint_saver_options *given)
{
    est_checkpoint_saver_options options;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_checkpoint_saver_options), given, &options));
    EST_TRY(est_every_take("checkpoint saver", options.steps, options.secs, &own->timer));
    if ((dir != NULL) == (options.saver != NULL) || (options.basename != NULL && dir == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "a checkpoint saver got %s: give it either a directory or a saver",
                        dir == NULL && options.saver == NULL ? "no directory" : "a saver and names beside it");
    }
    own->saver        = options.saver;
    own->no_graph_def = options.no_graph_def;
    if (dir != NULL) own->dir = est_strdup(dir);
    if (options.basename != NULL) own->basename = est_strdup(options.basename);
    EST_TRY(est_listeners_check("saving listener", options.listeners));
    own->listeners = est_zalloc((size_t)(options.listeners.n + 1) * sizeof *own->listeners);
    if ((dir != NULL && own->dir == NULL) || (options.basename != NULL && own->basename == NULL) ||
        own->listeners == NULL) {
        return est_no_memory();
    }
    for (; own->n_listeners < options.listeners.n; own->n_listeners++) {
        own->listeners[own->n_listeners] = options.listeners.data[own->n_listeners];
    }
    return EST_OK;
}

est_hook *est_checkpoint_saver_hook(const char *dir, const est_checkpoint_saver_options *options)
{
    checkpoint_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    if (take_options(own, dir, options) != EST_OK) {
        hook_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.begin = hook_begin, .after_create_session = hook_after_create_session,
                                   .after_run = hook_after_run, .end = hook_end, .free = hook_free, .idle = true);
    est_log_info("Create CheckpointSaverHook.");
    return &own->hook;
}
