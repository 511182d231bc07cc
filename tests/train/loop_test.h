/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of loops and hooks: a line y = 2 x to be learned from a few rows, hooks that write down their calls, and
 * the lines of the log. */
#ifndef EST_TESTS_LOOP_TEST_H
#define EST_TESTS_LOOP_TEST_H

#include "base/clock.h"
#include "train/hooks.h"
#include "train/loop.h"
#include "train/saver_test.h"

/* --- what happened ------------------------------------------------------------------------------------------------ */

static char happened[1 << 16]; /* words, each with a space after it */

static inline void note(const char *format, ...)
{
    size_t  size = strlen(happened);
    va_list args;

    va_start(args, format);
    vsnprintf(happened + size, sizeof happened - size, format, args);
    va_end(args);
}

static inline void expect_happened(const char *want)
{
    assert_string_equal(happened, want);
    happened[0] = '\0';
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static inline int keep_log(void **state)
{
    (void)state;
    happened[0] = '\0';
    log_keep(EST_LOG_INFO);
    return 0;
}

/* The lines that every session brings, or all others, without their levels. */
static inline const char *lines_of(bool session)
{
    static char text[1 << 16];
    size_t      size = 0;

    text[0] = '\0';
    for (int i = 0; *log_line(i) != '\0'; i++) {
        const char *line = strchr(log_line(i), ' ') + 1;

        if ((strcmp(line, "Graph was finalized.") == 0 || strstr(line, "local_init_op.") != NULL) != session) continue;
        size += (size_t)snprintf(text + size, sizeof text - size, "%s\n", line);
    }
    return text;
}

/* --- a training --------------------------------------------------------------------------------------------------- */

typedef struct trainer {
    est_graph    *graph;
    est_dataset  *input;
    est_node      x, y, prediction, loss, step, train;
    est_loop_feed feeds[2];
    est_node      targets[1];
    est_loop_spec spec;        /* ready to be opened; hooks are to be added */
    est_saver    *saver;       /* NULL: variables always get initial values */
    bool          reset_input; /* in every session but the first */
    int           sessions;
} trainer;

static inline est_status trainer_initialize(void *user, est_loop *loop, int64_t *step)
{
    trainer    *t = user;
    est_tensor *value;
    est_status  status = EST_NOT_FOUND;

    note("init ");
    if (t->sessions++ > 0 && t->reset_input) EST_TRY(est_loop_reset_input(loop));
    if (t->saver != NULL) status = est_saver_restore(t->saver, est_loop_session(loop), NULL, NULL);
    if (status != EST_OK && status != EST_NOT_FOUND) return status;
    EST_TRY(est_session_init(est_loop_session(loop)));
    EST_TRY(est_session_read(est_loop_session(loop), "global_step", &value));
    *step = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    return EST_OK;
}

/* Batches of 2 rows: x = 1, 2, ..., rows. */
static inline est_status trainer_input(int rows, int64_t repeat, est_dataset **out)
{
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;
    est_status   status = est_tensor_create(EST_F32, EST_SHAPE(rows), &x);

    if (status == EST_OK) status = est_tensor_create(EST_F32, EST_SHAPE(rows), &y);
    if (status == EST_OK) {
        for (int i = 0; i < rows; i++) {
            ((float *)est_tensor_mutable_data(x))[i] = (float)(i + 1);
            ((float *)est_tensor_mutable_data(y))[i] = 2 * (float)(i + 1);
        }
        d      = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
        d      = est_dataset_repeat(d, repeat);
        status = est_dataset_finish(est_dataset_batch(d, 2, NULL), out);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

static inline void trainer_free(trainer *t)
{
    est_dataset_free(t->input);
    est_graph_free(t->graph);
    memset(t, 0, sizeof *t);
}

static inline est_status trainer_try(trainer *t, int rows, int64_t repeat)
{
    est_node w;

    memset(t, 0, sizeof *t);
    EST_TRY(est_graph_create(1, &t->graph));
    t->x          = est_placeholder(t->graph, "x", EST_F32, EST_SHAPE(-1));
    t->y          = est_placeholder(t->graph, "y", EST_F32, EST_SHAPE(-1));
    w             = est_weight(t->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    t->prediction = est_named(est_mul(t->x, est_read_variable(w)), "prediction");
    t->loss       = est_named(est_mean(est_squared_difference(t->prediction, t->y)), "loss");
    t->train      = est_minimize(est_sgd(0.01), t->loss, NULL);
    t->step       = est_after(est_read_variable(est_global_step(t->graph)), t->train);
    EST_TRY(est_graph_status(t->graph));
    EST_TRY(trainer_input(rows, repeat, &t->input));
    t->feeds[0]   = (est_loop_feed){ .node = t->x, .component = 0 };
    t->feeds[1]   = (est_loop_feed){ .node = t->y, .component = 1 };
    t->targets[0] = t->train;
    t->spec       = (est_loop_spec){ .graph       = t->graph,
                                     .model_dir   = est_test_root,
                                     .session     = *EST_SESSION(.threads = 1),
                                     .input       = t->input,
                                     .feeds       = t->feeds,
                                     .n_feeds     = 2,
                                     .loss        = t->loss,
                                     .global_step = t->step,
                                     .targets     = { t->targets, 1 },
                                     .initialize  = trainer_initialize,
                                     .user        = t };
    return EST_OK;
}

static inline void make_trainer(trainer *t, int rows, int64_t repeat)
{
    assert_ok(trainer_try(t, rows, repeat));
}

/* Opens and runs a loop with these hooks. */
static inline est_status run_hooks(trainer *t, est_hooks hooks)
{
    est_loop  *loop;
    est_status status;

    t->spec.hooks = hooks;
    EST_TRY(est_loop_open(&t->spec, &loop));
    status = est_loop_run(loop);
    est_loop_free(loop);
    return status;
}

/* --- a hook that writes down its calls ---------------------------------------------------------------------------- */

/* What it does besides: in run `run` (from 1; of before_run or after_run) it fails or stops. */
typedef struct recorder {
    est_hook    hook;
    const char *name;
    int         calls;       /* of after_run */
    int         fail_before; /* call of before_run that fails; 0: none */
    int         fail_after, stop_after;
    int         befores;
    est_status  failure;
    void (*in_after)(struct recorder *own, est_loop *loop);
    void (*in_before)(struct recorder *own, est_loop *loop);
    void (*in_begin)(struct recorder *own, est_loop *loop);
    void (*in_end)(struct recorder *own, est_loop *loop);
    est_node   node;
    int        fetch;
    est_status begin_failure, session_failure, end_failure;
    int        session_failures; /* so many times */
} recorder;

static inline est_status recorder_begin(est_hook *hook, est_loop *loop)
{
    recorder *own = EST_CONTAINER_OF(hook, recorder, hook);

    note("%s.begin ", own->name);
    assert_null(est_loop_session(loop));
    if (own->in_begin != NULL) own->in_begin(own, loop);
    return own->begin_failure != EST_OK ? est_fail(own->begin_failure, "%s fails in begin", own->name) : EST_OK;
}

static inline est_status recorder_session(est_hook *hook, est_loop *loop)
{
    recorder *own = EST_CONTAINER_OF(hook, recorder, hook);

    note("%s.session ", own->name);
    assert_non_null(est_loop_session(loop));
    if (own->session_failure == EST_OK || own->session_failures == 0) return EST_OK;
    own->session_failures--;
    return est_fail(own->session_failure, "%s fails in session", own->name);
}

static inline est_status recorder_before_run(est_hook *hook, est_loop *loop)
{
    recorder *own = EST_CONTAINER_OF(hook, recorder, hook);

    note("%s.before ", own->name);
    if (own->in_before != NULL) own->in_before(own, loop);
    return ++own->befores == own->fail_before ? est_fail(own->failure, "%s fails in before", own->name) : EST_OK;
}

static inline est_status recorder_after_run(est_hook *hook, est_loop *loop)
{
    recorder *own = EST_CONTAINER_OF(hook, recorder, hook);

    note("%s.after ", own->name);
    own->calls++;
    if (own->in_after != NULL) own->in_after(own, loop);
    if (own->calls == own->stop_after) est_loop_request_stop(loop, own->name);
    return own->calls == own->fail_after ? est_fail(own->failure, "%s fails in after", own->name) : EST_OK;
}

static inline est_status recorder_end(est_hook *hook, est_loop *loop)
{
    recorder *own = EST_CONTAINER_OF(hook, recorder, hook);

    note("%s.end ", own->name);
    if (own->in_end != NULL) own->in_end(own, loop);
    return own->end_failure != EST_OK ? est_fail(own->end_failure, "%s fails in end", own->name) : EST_OK;
}

static inline recorder make_recorder(const char *name)
{
    return (recorder){ .name = name,
                       .hook = EST_HOOK(.begin = recorder_begin, .after_create_session = recorder_session,
                                        .before_run = recorder_before_run, .after_run = recorder_after_run,
                                        .end = recorder_end) };
}

#endif
