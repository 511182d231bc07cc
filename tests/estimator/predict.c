/* SPDX-License-Identifier: Apache-2.0
 *
 * est_predict: hooks around the runs of its predictor. What they see and feed is told of each run, nodes that they name
 * late included, and batches may differ in size. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "support/estimator_test.h"

#define ROWS 7

static est_node doubled; /* of the last model that was built */

static est_status doubling_model(est_model *model, est_mode mode, const void *params)
{
    (void)mode;
    (void)params;
    doubled = est_mul(est_model_feature(model, "x"), est_scalar(est_model_graph(model), EST_F32, 2));
    est_model_predict(model, "y", doubled);
    return est_model_status(model);
}

/* 0, 1, ..., 6 in batches of at most *user. */
static est_status count_input(const est_input_context *context, void *user, est_dataset **out)
{
    const int64_t *batch    = user;
    float          xs[ROWS] = { 0, 1, 2, 3, 4, 5, 6 };
    est_tensor    *x        = NULL;
    est_dataset   *d;

    (void)context;
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS), xs, &x));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }));
    est_tensor_free(x);
    return est_dataset_finish(est_dataset_batch(d, *batch, NULL), out);
}

/* Adds what it feeds to the predictions, counts runs in a variable, and looks at both now and then. */
typedef struct watcher {
    est_hook    hook;
    est_node    shifted, counted;
    int         feed, late, count;
    float       shift;
    est_tensor *value;
    int         seen, sessions, ends;
} watcher;

static est_status watcher_begin(est_hook *hook, est_loop *loop)
{
    watcher *w     = EST_CONTAINER_OF(hook, watcher, hook);
    est_node shift = est_placeholder(est_loop_graph(loop), "shift", EST_F32, EST_SHAPE_SCALAR);
    est_node runs  = est_variable(est_loop_graph(loop), "runs", EST_F32, EST_SHAPE_SCALAR);
    est_node one   = est_scalar(est_loop_graph(loop), EST_F32, 1);

    est_variable_initializer(runs, est_scalar(est_loop_graph(loop), EST_F32, 0));
    w->shifted = est_add(doubled, shift);
    w->counted = est_read_after(est_read_variable(runs), EST_NODES(est_assign_add(runs, one)));
    w->feed    = est_loop_add_feed(loop, shift);
    w->count   = est_loop_fetch(loop, w->counted);
    w->late    = -1;
    return EST_OK;
}

static est_status watcher_created(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, watcher, hook)->sessions++;
    return EST_OK;
}

static est_status watcher_before(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    est_tensor_free(w->value);
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &w->shift, &w->value));
    est_loop_set_feed(loop, w->feed, w->value);
    est_loop_want(loop, w->count);
    if (est_loop_runs(loop) == 0) return EST_OK;
    w->late = est_loop_fetch(loop, w->shifted); /* named in the second run only */
    if (est_loop_runs(loop) % 2 == 1) est_loop_want(loop, w->late);
    return EST_OK;
}

static est_status watcher_after(est_hook *hook, est_loop *loop)
{
    watcher     *w       = EST_CONTAINER_OF(hook, watcher, hook);
    const float *shifted = est_loop_data(loop, w->late);
    int64_t      run     = est_loop_runs(loop) - 1;

    assert_true(est_loop_scalar(loop, w->count) == (double)(run + 1));
    assert_int_equal(shifted != NULL, run % 2 == 1);
    if (shifted == NULL) return EST_OK;
    for (int64_t i = 0; i < est_loop_shape(loop, w->late)->dim[0]; i++) {
        assert_true(shifted[i] == 2 * (float)(run * 3 + i) + w->shift);
        w->seen++;
    }
    return EST_OK;
}

static est_status watcher_end(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, watcher, hook)->ends++;
    return EST_OK;
}

static void predict_all(est_estimator *e, int64_t batch, est_hooks hooks)
{
    est_predictions *p = NULL;
    float            n = 0;

    assert_int_equal(
        est_predict(e, EST_PREDICT_OPTIONS(.input_fn = count_input, .input_user = &batch, .hooks = hooks), &p), EST_OK);
    while (est_predictions_next(p) == EST_OK) {
        assert_true(*(const float *)est_tensor_data(est_predictions_get(p, "y")) == 2 * n);
        n++;
    }
    assert_int_equal(est_predictions_next(p), EST_OUT_OF_RANGE);
    assert_true(n == ROWS);
    est_predictions_free(p);
}

TEST(hooks_see_and_feed)
{
    watcher        w = { .hook  = EST_HOOK(.begin = watcher_begin, .after_create_session = watcher_created,
                                           .before_run = watcher_before, .after_run = watcher_after, .end = watcher_end),
                         .shift = 0.5f };
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    e = EST_TEST_ESTIMATOR(doubling_model, dir, "{}");
    predict_all(e, 3, EST_HOOKS(&w.hook)); /* 3, 3 and 1 rows */
    assert_int_equal(w.seen, 3);
    assert_int_equal(w.sessions, 1);
    assert_int_equal(w.ends, 1);
    for (int64_t batch = 1; batch <= ROWS; batch++) predict_all(e, batch, (est_hooks){ 0 });
    est_tensor_free(w.value);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A feed of another shape is refused by the predictor, which knows it by the name of its node. */
static est_status feeds_a_vector(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    if (w->value == NULL) EST_TRY(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 2 }, &w->value));
    est_loop_set_feed(loop, w->feed, w->value);
    return EST_OK;
}

TEST(wrong_feed)
{
    watcher          w     = { .hook = EST_HOOK(.begin = watcher_begin, .before_run = feeds_a_vector) };
    int64_t          batch = 3;
    est_estimator   *e;
    est_predictions *p = NULL;
    char             dir[64];

    est_test_dir(dir);
    e = EST_TEST_ESTIMATOR(doubling_model, dir, "{}");
    assert_int_equal(
        est_predict(e, EST_PREDICT_OPTIONS(.input_fn = count_input, .input_user = &batch, .hooks = EST_HOOKS(&w.hook)),
                    &p),
        EST_OK);
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
    est_test_error_has("the input \"shift\" is float32 [2]; expected float32 []");
    est_predictions_free(p);
    est_tensor_free(w.value);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Runs of predictions are traced as those of trainings are. */
TEST(profiler)
{
    est_estimator *e;
    est_hook      *profiler;
    char           dir[64], path[128];

    est_test_dir(dir);
    e        = EST_TEST_ESTIMATOR(doubling_model, dir, "{}");
    profiler = est_profiler_hook(EST_PROFILER(.steps = 1, .output_dir = dir));
    assert_non_null(profiler);
    predict_all(e, 3, EST_HOOKS(profiler));
    snprintf(path, sizeof path, "%s/timeline-0.json", dir);
    assert_true(est_file_exists(path));
    est_hook_free(profiler);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}
