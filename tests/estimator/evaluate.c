/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation and prediction: metrics, where they are written, checkpoints chosen, added metrics, single examples. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/estimator_test.h"

static est_estimator *make(const char *dir)
{
    est_estimator *e = NULL;

    assert_int_equal(est_estimator_create(
                         est_test_model,
                         EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true,
                                                                .save_checkpoints_steps = 50, .cluster_json = "{}")),
                         &e),
                     EST_OK);
    return e;
}

/* Predictions of all rows, and the errors computed from them here. */
static void errors_by_hand(est_estimator *e, double *mae, double *mse, int *n)
{
    est_predictions *p = NULL;
    int              i = 0;

    *mae = *mse = 0;
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &p), EST_OK);
    while (est_predictions_next(p) == EST_OK) {
        const est_tensor *y  = est_predictions_get(p, "y");
        double            x0 = (i * 37 % 64) / 32.0 - 1, x1 = (i * 11 % 64) / 32.0 - 1;
        double            want = 2 * x0 - x1 + (i * 29 % 7) / 100.0;
        double            error;

        assert_true(est_shape_equal(est_tensor_shape(y), &EST_SHAPE(1)));
        error = *(const float *)est_tensor_data(y) - want;
        *mae += fabs(error) / 64;
        *mse += error * error / 64;
        i++;
    }
    assert_int_equal(est_predictions_next(p), EST_OUT_OF_RANGE);
    assert_int_equal(est_predictions_count(p), 1);
    assert_string_equal(est_predictions_key(p, 0), "y");
    assert_null(est_predictions_get(p, "z"));
    est_predictions_free(p);
    *n = i;
}

static void test_metrics(void **state)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *before = NULL, *after = NULL;
    double         mae, mse;
    int            n;

    (void)state;
    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &before),
                     EST_OK); /* untrained */
    assert_int_equal(est_metrics_global_step(before), 0);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 150)), EST_OK);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &after), EST_OK);
    assert_int_equal(est_metrics_global_step(after), 150);
    assert_int_equal(est_metrics_count(after), 4);
    assert_string_equal(est_metrics_name(after, 0), "global_step");
    assert_string_equal(est_metrics_name(after, 3), "rmse");
    assert_true(est_metrics_get(after, "loss") < est_metrics_get(before, "loss") / 4);
    assert_true(isnan(est_metrics_get(after, "nothing")));
    errors_by_hand(e, &mae, &mse, &n);
    assert_int_equal(n, 64);
    /* sums of 64 float32 terms of order 1 */
    assert_true(fabs(est_metrics_get(after, "mae") - mae) < 1e-5);
    assert_true(fabs(est_metrics_get(after, "loss") - mse) < 1e-5);
    assert_true(fabs(est_metrics_get(after, "rmse") - sqrt(mse)) < 1e-5);
    est_metrics_free(before);
    est_metrics_free(after);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status count_rows(est_model *model, void *user)
{
    (void)user;
    if (est_model_prediction(model, "y").graph == NULL) return est_fail(EST_INTERNAL, "no prediction y");
    est_model_metric(model, "mean_y", est_metric_mean(est_model_label(model, "y"), EST_METRIC(.name = "mean_y")));
    return est_model_status(model);
}

static void test_steps_name_checkpoint_added(void **state)
{
    char           dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e;
    est_metrics   *m = NULL;

    (void)state;
    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 120)), EST_OK);
    assert_int_equal(est_estimator_add_metrics(e, count_rows, NULL), EST_OK);
    snprintf(path, sizeof path, "%s/model.ckpt-50", dir);
    assert_int_equal(est_evaluate(e,
                                  EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 3, .name = "early",
                                                       .checkpoint_path = path),
                                  &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 50);
    assert_false(isnan(est_metrics_get(m, "mean_y")));
    est_metrics_free(m);
    snprintf(path, sizeof path, "%s/model.ckpt-77", dir);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .checkpoint_path = path), &m),
                     EST_NOT_FOUND);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = -1), &m),
                     EST_INVALID_ARGUMENT);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static void test_predict_batches(void **state)
{
    char             dir[64];
    const char      *keys[] = { "nothing" };
    est_estimator   *e;
    est_predictions *p = NULL;
    int              n = 0;

    (void)state;
    est_test_dir(dir);
    e = make(dir);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .batches = true), &p), EST_OK);
    while (est_predictions_next(p) == EST_OK) {
        assert_true(est_shape_equal(est_tensor_shape(est_predictions_get(p, "y")), &EST_SHAPE(8, 1)));
        n++;
    }
    assert_int_equal(n, 8);
    est_predictions_free(p);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .keys = keys, .n_keys = 1), &p),
                     EST_OK);
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
    est_test_error_has("none of the keys");
    assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT); /* again, and no other */
    est_test_error_has("none of the keys");
    est_predictions_free(p);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .n_keys = 1), &p),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("n_keys is 1 and keys is NULL");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A prediction and a metric of the wrong shape, as the mode says. */
static est_status wrong_shapes(est_model *model, est_mode mode, const void *params)
{
    est_node   x      = est_model_feature(model, "x");
    est_metric metric = { 0 };

    (void)params;
    est_model_predict(model, "rows", x);
    est_model_predict(model, "sum", est_mean(x));
    if (mode == EST_EVAL) {
        est_model_loss(model, est_mean(x));
        metric       = est_metric_mean(x, EST_METRIC(.name = "m"));
        metric.value = est_reshape(
            est_concat(EST_NODES(est_reshape(metric.value, EST_I64S(1)), est_reshape(metric.value, EST_I64S(1))), 0),
            EST_I64S(2));
        est_model_metric(model, "m", metric);
    }
    return est_model_status(model);
}

static void test_wrong_shapes(void **state)
{
    char             dir[64];
    est_estimator   *e = NULL;
    est_metrics     *m = NULL;
    est_predictions *p = NULL;

    (void)state;
    est_test_dir(dir);
    assert_int_equal(
        est_estimator_create(wrong_shapes,
                             EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .cluster_json = "{}")),
                             &e),
        EST_OK);
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_INVALID_ARGUMENT);
    est_test_error_has("the metric m has shape [2]");
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .name = "a/b"), &m),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("name is a/b");
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &p), EST_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(est_predictions_next(p), EST_INVALID_ARGUMENT);
        est_test_error_has("the prediction sum has shape []");
    }
    est_predictions_free(p);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_steps_name_checkpoint_added),
        cmocka_unit_test(test_predict_batches),
        cmocka_unit_test(test_wrong_shapes),
    };

    est_log_set_level(EST_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
