/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary saver hook: writes the summaries of the model to an event file, in the first run and periodically. */
#include "base/alloc.h"
#include "base/options.h"
#include "train/hooks.h"

typedef struct summary_saver {
    est_hook            hook;
    est_summary_writer *writer;  /* for output_dir; NULL: the writer of the loop */
    int                *fetches; /* [summaries of the loop] */
    est_timer           timer;
    bool                due; /* this run writes */
} summary_saver;

static est_summary_writer *writer_of(const summary_saver *own, est_loop *loop)
{
    return own->writer != NULL ? own->writer : est_loop_summaries(loop);
}

static est_status saver_begin(est_hook *hook, est_loop *loop)
{
    summary_saver       *own  = EST_CONTAINER_OF(hook, summary_saver, hook);
    const est_loop_spec *spec = est_loop_get_spec(loop);

    est_free(own->fetches);
    own->fetches = est_alloc((size_t)(spec->n_shown + 1) * sizeof *own->fetches);
    if (own->fetches == NULL) return est_no_memory();
    for (int i = 0; i < spec->n_shown; i++) own->fetches[i] = est_loop_fetch(loop, spec->shown[i].node);
    return EST_OK;
}

static est_status saver_session(est_hook *hook, est_loop *loop)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    own->timer.marked = false;
    if (own->writer != NULL) est_summary_session_log(own->writer, EST_SESSION_START, "", est_loop_global_step(loop));
    return EST_OK;
}

static est_status saver_before_run(est_hook *hook, est_loop *loop)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    own->due = writer_of(own, loop) != NULL && est_timer_due(&own->timer, est_loop_global_step(loop) + 1);
    for (int i = 0; i < est_loop_get_spec(loop)->n_shown && own->due; i++) est_loop_want(loop, own->fetches[i]);
    return EST_OK;
}

static bool one_element(const est_shape *shape)
{
    return est_shape_count(shape) < 0 || est_shape_count(shape) == 1;
}

static bool pictures(const est_shape *shape)
{
    int64_t channels;

    if (shape->rank < 0) return true;
    if (shape->rank != 4) return false;
    channels = shape->dim[3];
    return channels < 0 || channels == 1 || channels == 3 || channels == 4;
}

est_status est_model_summary_check(est_summary_what what, const char *tag, est_dtype dtype, const est_shape *shape)
{
    static const char *const wanted[] = {
        [EST_MODEL_SCALAR]    = "expected one number: take the mean, or add a histogram",
        [EST_MODEL_HISTOGRAM] = "expected numbers",
        [EST_MODEL_TEXT]      = "expected one string",
        [EST_MODEL_IMAGE]     = "expected uint8 or floats [n, height, width, channels] with 1, 3 or 4 channels",
    };
    bool numbers = dtype != EST_STRING && dtype != EST_RESOURCE;
    bool good    = false;
    char text[EST_SHAPE_TEXT_MAX];

    switch (what) {
    case EST_MODEL_SCALAR: good = numbers && one_element(shape); break;
    case EST_MODEL_HISTOGRAM: good = numbers; break;
    case EST_MODEL_TEXT: good = dtype == EST_STRING && one_element(shape); break;
    case EST_MODEL_IMAGE: good = (dtype == EST_U8 || dtype == EST_F32 || dtype == EST_F64) && pictures(shape); break;
    }
    if (good) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "summary %s is %s %s; %s", tag, est_dtype_name(dtype),
                    est_shape_text(shape, text), wanted[what]);
}

static est_status add_summary(est_summary_writer *writer, const est_model_summary *summary, est_loop *loop, int fetch)
{
    est_dtype        dtype = est_loop_dtype(loop, fetch);
    const est_shape *shape = est_loop_shape(loop, fetch);
    const void      *data  = est_loop_data(loop, fetch);
    int64_t          n     = est_shape_count(shape);

    EST_TRY(est_model_summary_check(summary->what, summary->tag, dtype, shape));
    switch (summary->what) {
    case EST_MODEL_SCALAR: est_summary_add_scalar(writer, summary->tag, est_loop_scalar(loop, fetch)); break;
    case EST_MODEL_HISTOGRAM: est_summary_add_histogram(writer, summary->tag, dtype, data, n); break;
    case EST_MODEL_IMAGE: est_summary_add_images(writer, summary->tag, dtype, shape, data, summary->max_images); break;
    case EST_MODEL_TEXT: est_summary_add_text(writer, summary->tag, *(const est_str *)data); break;
    }
    return EST_OK;
}

static est_status saver_after_run(est_hook *hook, est_loop *loop)
{
    summary_saver       *own    = EST_CONTAINER_OF(hook, summary_saver, hook);
    const est_loop_spec *spec   = est_loop_get_spec(loop);
    est_summary_writer  *writer = writer_of(own, loop);
    int64_t              step   = est_loop_global_step(loop);
    est_status           status = EST_OK;

    if (!own->due) return EST_OK;
    (void)est_timer_mark(&own->timer, step, NULL, NULL);
    est_summary_begin(writer, step);
    for (int i = 0; i < spec->n_shown && status == EST_OK; i++) {
        status = add_summary(writer, &spec->shown[i], loop, own->fetches[i]);
    }
    est_summary_end(writer);
    return status;
}

static est_status saver_end(est_hook *hook, est_loop *loop)
{
    est_summary_writer *writer = writer_of(EST_CONTAINER_OF(hook, summary_saver, hook), loop);

    if (writer != NULL) est_summary_flush(writer);
    return EST_OK;
}

static void saver_free(est_hook *hook)
{
    summary_saver *own = EST_CONTAINER_OF(hook, summary_saver, hook);

    est_summary_writer_free(own->writer);
    est_free(own->fetches);
    est_free(own);
}

est_hook *est_summary_saver_hook(const est_every_options *options)
{
    summary_saver    *own = est_hook_alloc(sizeof *own);
    est_every_options every;
    est_status        status;

    if (own == NULL) return NULL;
    status = est_options_take(EST_STRUCT_SIZE(est_every_options), options, &every);
    if (status == EST_OK) status = est_every_take("summary saver", every.steps, every.secs, &own->timer);
    if (status == EST_OK && every.output_dir != NULL) {
        status = est_summary_writer_create(every.output_dir, "", &own->writer);
    }
    if (status != EST_OK) {
        saver_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.begin = saver_begin, .after_create_session = saver_session,
                                   .before_run = saver_before_run, .after_run = saver_after_run, .end = saver_end,
                                   .free = saver_free);
    return &own->hook;
}
