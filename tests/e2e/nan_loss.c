/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss or a gradient that becomes NaN in the middle of train_and_evaluate, also in the very step after which a
 * checkpoint is due: the run ends with an error, the latest checkpoint is a good one, and the run goes on from it when
 * the data is mended. A checkpoint with a NaN that another wrote is restored, but not trained on nor exported. */
#include <inttypes.h>
#include <math.h>

#include "support/estimator_test.h"

#define SAVE_STEPS 10
#define STEPS      30

/* Row i, in order: a bad one makes the loss of step i + 1 NaN. */
static est_status make_row(void *user, const est_field *in, est_field *out)
{
    int64_t bad = *(int64_t *)user, i = *(const int64_t *)est_tensor_data(in[0].values);
    float   x[] = { (float)(i % 7), 1 }, y[] = { i == bad ? NAN : (float)(i % 5) };

    EST_TRY(est_tensor_f32(EST_SHAPE(2), x, &out[0].values));
    return est_tensor_f32(EST_SHAPE(1), y, &out[1].values);
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    static int64_t      none  = -1;
    const est_component row[] = { { "x", EST_F32, EST_SHAPE(2), false }, { "y", EST_F32, EST_SHAPE(1), false } };
    est_dataset        *d     = est_dataset_range(0, context->mode == EST_TRAIN ? STEPS : 4, 1);

    d = est_dataset_map(d, make_row,
                        EST_MAP(.components = { row, 2 }, .user = context->mode == EST_TRAIN ? user : &none));
    d = est_dataset_batch(d, 1, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

static est_estimator *make(est_model_fn model, const char *dir)
{
    return est_test_make(
        model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true,
                                                      .save_checkpoints_steps = SAVE_STEPS, .cluster_json = "{}")));
}

static est_status run(const char *dir, int64_t bad)
{
    est_estimator *e = make(est_test_model, dir);
    est_status     status;

    status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = input, .input_user = &bad, .max_steps = STEPS),
                                    EST_EVAL_SPEC(.input_fn = input, .throttle_secs = EST_OFF), NULL);
    est_estimator_free(e);
    return status;
}

/* Fails unless all numbers of the latest checkpoint are finite; returns its step. */
static int64_t good_step(const char *dir)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *value      = NULL;
    int64_t         step;

    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, "global_step", &value), EST_OK);
    step = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const char *name = est_checkpoint_at(checkpoint, i)->name;

        assert_int_equal(est_checkpoint_read(checkpoint, name, &value), EST_OK);
        for (int64_t k = 0; est_tensor_dtype(value) == EST_F32 && k < est_tensor_count(value); k++) {
            if (!isfinite(((const float *)est_tensor_data(value))[k]))
                fail_msg("step %" PRId64 ": %s is spoiled", step, name);
        }
        est_tensor_free(value);
    }
    est_checkpoint_close(checkpoint);
    return step;
}

TEST(nan)
{
    const int64_t steps[] = { 1, 15, 2 * SAVE_STEPS, STEPS }; /* the loss of this step */

    for (int i = 0; i < 4; i++) {
        char dir[64], text[64];

        est_test_dir(dir);
        assert_int_equal(run(dir, steps[i] - 1), EST_INVALID_ARGUMENT);
        snprintf(text, sizeof text, "NaN loss during training: at step %" PRId64 " feature or label", steps[i]);
        est_test_error_has(text);
        assert_int_equal(good_step(dir), (steps[i] - 1) / SAVE_STEPS * SAVE_STEPS);
        assert_int_equal(run(dir, -1), EST_OK);
        assert_int_equal(good_step(dir), STEPS);
        est_test_dir_remove(dir);
    }
}

/* --- a gradient --------------------------------------------------------------------------------------------------- */

/* |w x| as a root: where the second x is 0 its value is 0 and its gradient inf * 0. */
static est_status root_model(est_model *model, est_mode mode, const void *params)
{
    est_node w    = est_weight(est_model_graph(model), "w", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    est_node root = est_sqrt(est_square(est_mul(est_model_feature(model, "x"), est_read_variable(w))));
    est_node y    = est_reduce_sum(root, EST_I64S(1), true), loss;

    (void)params;
    est_model_predict(model, "y", y);
    if (mode == EST_PREDICT) return est_model_status(model);
    loss = est_mean(est_square(est_sub(y, est_model_label(model, "y"))));
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_sgd(0.001), loss);
    return est_model_status(model);
}

static est_status make_root_row(void *user, const est_field *in, est_field *out)
{
    int64_t bad = *(int64_t *)user, i = *(const int64_t *)est_tensor_data(in[0].values);
    float   x[] = { 1 + (float)(i % 7), i == bad ? 0 : 1 }, y[] = { (float)(i % 5) };

    EST_TRY(est_tensor_f32(EST_SHAPE(2), x, &out[0].values));
    return est_tensor_f32(EST_SHAPE(1), y, &out[1].values);
}

static est_status root_input(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component row[] = { { "x", EST_F32, EST_SHAPE(2), false }, { "y", EST_F32, EST_SHAPE(1), false } };
    est_dataset        *d     = est_dataset_range(0, STEPS, 1);

    (void)context;
    d = est_dataset_map(d, make_root_row, EST_MAP(.components = { row, 2 }, .user = user));
    return est_dataset_finish(est_dataset_batch(d, 1, NULL), out);
}

/* A step that spoils the variables while its own loss is fine: found before they are saved, or by the next loss. */
TEST(nan_gradient)
{
    static const struct {
        int64_t     bad_step, last_step, good_step;
        const char *what;
    } cases[] = {
        { 2 * SAVE_STEPS, STEPS, SAVE_STEPS, "NaN variable 'w' during training: the model diverged at step 20;" },
        { 15, 15, SAVE_STEPS,
          "NaN variable 'w' during training: the model diverged at step 15;" }, /* saved at the end */
        { 15, STEPS, SAVE_STEPS, "NaN loss during training: the model diverged at step 16;" },
    };

    for (int i = 0; i < 6; i++) {
        bool           stops = i >= 3;
        int64_t        bad = cases[i % 3].bad_step - 1, none = -1;
        est_hook      *nan = stops ? est_nan_hook(false) : NULL;
        est_estimator *e;
        est_status     status;
        char           dir[64];

        est_test_dir(dir);
        e      = make(root_model, dir);
        status = est_train_and_evaluate(e,
                                        EST_TRAIN_SPEC(.input_fn = root_input, .input_user = &bad,
                                                       .max_steps = cases[i % 3].last_step,
                                                       .hooks     = { &nan, stops ? 1 : 0 }),
                                        EST_EVAL_SPEC(.input_fn = root_input, .input_user = &none), NULL);
        assert_int_equal(status, stops ? EST_OK : EST_INVALID_ARGUMENT);
        if (!stops) est_test_error_has(cases[i % 3].what);
        assert_int_equal(good_step(dir), cases[i % 3].good_step);
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = root_input, .input_user = &none, .steps = 5)),
                         EST_OK);
        assert_int_equal(good_step(dir), cases[i % 3].good_step + 5);
        est_hook_free(nan);
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

/* --- a checkpoint of another's ------------------------------------------------------------------------------------ */

typedef struct spoiler {
    est_hook    hook;
    const char *dir;
} spoiler;

/* Writes a checkpoint as TensorFlow would, NaN or not. */
static est_status spoil(est_hook *hook, est_loop *loop)
{
    const float bad[] = { 1, NAN };
    est_tensor *value = NULL;
    est_saver  *saver = NULL;
    est_status  status;

    EST_TRY(est_saver_create(EST_CONTAINER_OF(hook, spoiler, hook)->dir, NULL, &saver));
    status = est_tensor_f32(EST_SHAPE(2), bad, &value);
    if (status == EST_OK) status = est_session_write(est_loop_session(loop), "w", value);
    if (status == EST_OK) status = est_saver_save(saver, est_loop_session(loop), 7, NULL, NULL);
    est_tensor_free(value);
    est_saver_free(saver);
    return status;
}

TEST(nan_checkpoint)
{
    est_component  raw[]   = { { "x", EST_F32, EST_SHAPE(2), false } };
    est_metrics   *metrics = NULL;
    int64_t        none    = -1;
    est_hook      *stops   = est_nan_hook(false);
    spoiler        s       = { .hook = EST_HOOK(.after_run = spoil) };
    est_estimator *e;
    char           dir[64], other[64];

    est_test_dir(dir);
    est_test_dir(other);
    s.dir = dir;
    e     = make(root_model, other);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = root_input, .input_user = &none, .steps = 1,
                                                    .hooks = EST_HOOKS(&s.hook))),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(good_step(other), 0);
    est_estimator_free(e);

    e = make(root_model, dir);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = root_input, .input_user = &none), &metrics),
                     EST_OK);
    assert_true(isnan(est_metrics_get(metrics, "loss")));
    est_metrics_free(metrics);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = root_input, .input_user = &none, .steps = 1)),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("NaN variable 'w' during training: the model diverged at step 1");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = root_input, .input_user = &none, .hooks = EST_HOOKS(stops)),
                         EST_EVAL_SPEC(.input_fn = root_input, .input_user = &none), NULL),
                     EST_OK);
    assert_int_equal(est_export_saved_model(e, dir, EST_EXPORT(.input = { .raw = { raw, 1 } }), NULL),
                     EST_FAILED_PRECONDITION);
    est_test_error_has("the variable 'w' of ");
    est_estimator_free(e);
    est_test_dir_remove(dir);
    est_hook_free(stops);
    est_test_dir_remove(other);
}
