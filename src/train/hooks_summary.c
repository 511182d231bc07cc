/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary saver: values of nodes into the loop's event file, in the first run and then every so many steps. */
#include <string.h>

#include "base/alloc.h"
#include "train/hooks.h"

typedef struct summary_saver {
    est_hook           hook;
    est_model_summary *summaries; /* [n] */
    int               *fetches;   /* [n] */
    int                n;
    est_timer          timer;
    bool               due; /* in this run */
} summary_saver;

static est_status saver_begin(est_hook *hook, est_loop *loop)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    for (int i = 0; i < own->n; i++) own->fetches[i] = est_loop_fetch(loop, own->summaries[i].node);
    return EST_OK;
}

static est_status saver_session(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, summary_saver, hook)->timer.marked = false;
    return EST_OK;
}

static est_status saver_before_run(est_hook *hook, est_loop *loop)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    own->due = est_loop_summaries(loop) != NULL && est_timer_due(&own->timer, est_loop_global_step(loop) + 1);
    for (int i = 0; i < own->n && own->due; i++) est_loop_want(loop, own->fetches[i]);
    return EST_OK;
}

static void add_summary(est_summary_writer *writer, const est_model_summary *summary, est_loop *loop, int fetch)
{
    est_dtype        dtype = est_loop_dtype(loop, fetch);
    const est_shape *shape = est_loop_shape(loop, fetch);
    const void      *data  = est_loop_data(loop, fetch);
    int64_t          n     = est_shape_count(shape);

    switch (summary->what) {
    case EST_MODEL_SCALAR: est_summary_add_scalar(writer, summary->tag, est_loop_scalar(loop, fetch)); break;
    case EST_MODEL_HISTOGRAM: est_summary_add_histogram(writer, summary->tag, dtype, data, n); break;
    case EST_MODEL_IMAGE: est_summary_add_images(writer, summary->tag, dtype, shape, data, summary->max_images); break;
    case EST_MODEL_TEXT:
        if (dtype == EST_STRING && n > 0) est_summary_add_text(writer, summary->tag, *(const est_str *)data);
        break;
    }
}

static est_status saver_after_run(est_hook *hook, est_loop *loop)
{
    summary_saver      *own    = EST_CONTAINER_OF(hook, summary_saver, hook);
    est_summary_writer *writer = est_loop_summaries(loop);
    int64_t             step   = est_loop_global_step(loop);

    if (!own->due) return EST_OK;
    (void)est_timer_mark(&own->timer, step, NULL, NULL);
    est_summary_begin(writer, step);
    for (int i = 0; i < own->n; i++) add_summary(writer, &own->summaries[i], loop, own->fetches[i]);
    est_summary_end(writer);
    return EST_OK;
}

static est_status saver_end(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_summaries(loop) != NULL) est_summary_flush(est_loop_summaries(loop));
    return EST_OK;
}

static void saver_free(est_hook *hook)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    est_free(own->summaries);
    est_free(own->fetches);
    est_free(own);
}

est_hook *est_summary_saver_hook(const est_model_summary *summaries, int n, int64_t every_steps)
{
    summary_saver *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->summaries = est_hook_alloc((size_t)(n + 1) * sizeof *own->summaries);
    own->fetches   = est_hook_alloc((size_t)(n + 1) * sizeof *own->fetches);
    if (own->summaries == NULL || own->fetches == NULL) {
        saver_free(&own->hook);
        return NULL;
    }
    if (n > 0) memcpy(own->summaries, summaries, (size_t)n * sizeof *own->summaries);
    own->n     = n;
    own->timer = (est_timer){ .every_steps = every_steps };
    own->hook  = (est_hook){ .begin                = saver_begin,
                             .after_create_session = saver_session,
                             .before_run           = saver_before_run,
                             .after_run            = saver_after_run,
                             .end                  = saver_end,
                             .free                 = saver_free };
    return &own->hook;
}
