/* SPDX-License-Identifier: Apache-2.0
 *
 * The profiler hook: writes a Chrome timeline of one step every so many steps or seconds. The first run starts the
 * timer. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "train/hooks.h"

typedef struct profiler_hook {
    est_hook  hook;
    char     *output_dir; /* NULL: the model directory */
    est_timer timer;
    bool      no_dataflow, show_memory;
    bool      traces; /* this run */
} profiler_hook;

static est_status profiler_session(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, profiler_hook, hook)->timer.marked = false;
    return EST_OK;
}

static est_status profiler_before_run(est_hook *hook, est_loop *loop)
{
    profiler_hook *own = EST_CONTAINER_OF(hook, profiler_hook, hook);

    own->traces = own->timer.marked && est_timer_due(&own->timer, est_loop_global_step(loop) + 1);
    if (own->traces) est_loop_trace(loop);
    return EST_OK;
}

static est_status profiler_after_run(est_hook *hook, est_loop *loop)
{
    profiler_hook *own  = EST_CONTAINER_OF(hook, profiler_hook, hook);
    const char    *dir  = own->output_dir != NULL ? own->output_dir : est_loop_model_dir(loop);
    int64_t        step = est_loop_global_step(loop);
    est_strbuf     path = { 0 };
    est_status     status;

    if (!own->timer.marked) (void)est_timer_mark(&own->timer, step, NULL, NULL);
    if (!own->traces) return EST_OK;
    (void)est_timer_mark(&own->timer, step, NULL, NULL);
    est_strbuf_printf(&path, "%s/timeline-%" PRId64 ".json", dir, step);
    status = est_strbuf_status(&path);
    if (status == EST_OK) {
        est_log_info("Saving timeline for %" PRId64 " into '%s'.", step, est_strbuf_text(&path));
        status = est_dir_create(dir);
    }
    if (status == EST_OK) {
        status = est_loop_write_timeline(
            loop, est_strbuf_text(&path),
            EST_TIMELINE(.no_dataflow = own->no_dataflow, .show_memory = own->show_memory));
    }
    est_strbuf_clear(&path);
    return status;
}

static void profiler_free(est_hook *hook)
{
    profiler_hook *own = EST_CONTAINER_OF(hook, profiler_hook, hook);

    est_free(own->output_dir);
    est_free(own);
}

static est_status take_profiler(profiler_hook *own, const est_profiler_options *given)
{
    est_profiler_options options;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_profiler_options), given, &options));
    EST_TRY(est_every_take("profiler", options.steps, options.secs, &own->timer));
    own->no_dataflow = options.no_dataflow;
    own->show_memory = options.show_memory;
    if (options.output_dir == NULL) return EST_OK;
    own->output_dir = est_strdup(options.output_dir);
    return own->output_dir != NULL ? EST_OK : est_no_memory();
}

est_hook *est_profiler_hook(const est_profiler_options *options)
{
    profiler_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    if (take_profiler(own, options) != EST_OK) {
        profiler_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.after_create_session = profiler_session, .before_run = profiler_before_run,
                                   .after_run = profiler_after_run, .free = profiler_free);
    return &own->hook;
}
