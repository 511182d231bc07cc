/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss that becomes NaN in the middle of train_and_evaluate, also in the very step after which a checkpoint is due: the
 * run ends with an error, the latest checkpoint is a good one, and the run goes on from it when the data is mended. */
#include <inttypes.h>
#include <math.h>

#include "support/estimator_test.h"

#define SAVE_STEPS 10
#define STEPS      30

/* Row i, in order: a bad one makes the loss of step i + 1 NaN. */
static est_status make_row(void *user, const est_field *in, est_field *out)
{
    int64_t bad = *(int64_t *)user, i = *(int64_t *)est_tensor_data(in[0].values);
    float   x[] = { (float)(i % 7), 1 }, y[] = { i == bad ? NAN : (float)(i % 5) };

    EST_TRY(est_tensor_f32(EST_SHAPE(2), x, &out[0].values));
    return est_tensor_f32(EST_SHAPE(1), y, &out[1].values);
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    static int64_t      none  = -1;
    const est_component row[] = { { "x", EST_F32, EST_SHAPE(2), false }, { "y", EST_F32, EST_SHAPE(1), false } };
    est_dataset        *d     = est_dataset_range(0, context->mode == EST_TRAIN ? STEPS : 4, 1);

    d = est_dataset_map(
        d, make_row, EST_MAP(.components = row, .n_components = 2, .user = context->mode == EST_TRAIN ? user : &none));
    d = est_dataset_batch(d, 1, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

static est_status run(const char *dir, int64_t bad)
{
    est_estimator *e = NULL;
    est_status     status;

    assert_int_equal(
        est_estimator_create(
            est_test_model,
            EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true,
                                                   .save_checkpoints_steps = SAVE_STEPS, .cluster_json = "{}")),
            &e),
        EST_OK);
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
    step = *(int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const char *name = est_checkpoint_at(checkpoint, i)->name;

        assert_int_equal(est_checkpoint_read(checkpoint, name, &value), EST_OK);
        for (int64_t k = 0; est_tensor_dtype(value) == EST_F32 && k < est_tensor_count(value); k++) {
            if (!isfinite(((float *)est_tensor_data(value))[k]))
                fail_msg("step %" PRId64 ": %s is spoiled", step, name);
        }
        est_tensor_free(value);
    }
    est_checkpoint_close(checkpoint);
    return step;
}

static void test_nan(void **state)
{
    const int64_t steps[] = { 1, 15, 2 * SAVE_STEPS, STEPS }; /* the loss of this step */

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nan) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
