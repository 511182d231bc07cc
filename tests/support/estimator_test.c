/* SPDX-License-Identifier: Apache-2.0
 *
 * See estimator_test.h. */
#include "support/estimator_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 64

est_estimator *est_test_make(est_model_fn model_fn, const est_estimator_options *options)
{
    est_estimator *e = NULL;

    if (est_estimator_create(model_fn, options, &e) != EST_OK) fail_msg("%s", est_error_message());
    return e;
}

est_status est_test_kill(est_hook *hook, est_loop *loop)
{
    est_test_killer *k = EST_CONTAINER_OF(hook, est_test_killer, hook);

    if (est_loop_global_step(loop) == k->step) kill(getpid(), SIGKILL);
    return EST_OK;
}

void est_test_error_has(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

est_status est_test_input(const est_input_context *context, void *user, est_dataset **out)
{
    const int64_t *passes = user;
    est_tensor    *x = NULL, *y = NULL;
    float          xs[ROWS * 2], ys[ROWS];
    est_dataset   *d;

    for (int i = 0; i < ROWS; i++) {
        xs[2 * i]     = (float)((i * 37) % 64) / 32.0f - 1.0f;
        xs[2 * i + 1] = (float)((i * 11) % 64) / 32.0f - 1.0f;
        ys[i]         = 2 * xs[2 * i] - xs[2 * i + 1] + (float)((i * 29) % 7) / 100.0f;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS, 2), xs, &x));
    if (est_tensor_f32(EST_SHAPE(ROWS, 1), ys, &y) != EST_OK) {
        est_tensor_free(x);
        return EST_RESOURCE_EXHAUSTED;
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    est_tensor_free(x);
    est_tensor_free(y);
    if (context->mode == EST_TRAIN) {
        d = est_dataset_shuffle(d, 32, context->seed);
        d = est_dataset_repeat(d, passes != NULL ? *passes : EST_FOREVER);
    }
    d = est_dataset_batch(d, 8, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

est_status est_test_model(est_model *model, est_mode mode, const void *params)
{
    est_node      x      = est_model_feature(model, "x");
    est_node      hidden = est_dense(x, 4, EST_DENSE(.activation = est_tanh));
    est_node      kept   = mode == EST_TRAIN ? est_dropout(hidden, 0.25, 0) : hidden;
    est_node      y      = est_dense(kept, 1, EST_DENSE(.name = "out"));
    est_node      target, loss;
    const double *sgd = params;

    est_model_predict(model, "y", y);
    if (mode == EST_PREDICT) return est_model_status(model);
    target = est_model_label(model, "y");
    loss   = est_mean(est_square(est_sub(y, target)));
    est_model_loss(model, loss);
    est_model_metric(model, "mae", est_metric_mean_absolute_error(target, y, NULL));
    est_model_metric(model, "rmse", est_metric_root_mean_squared_error(target, y, NULL));
    est_model_histogram(model, "hidden", hidden);
    if (mode == EST_TRAIN) est_model_minimize(model, sgd != NULL ? est_sgd(*sgd) : est_adam(0.02, NULL), loss);
    return est_model_status(model);
}

void est_test_same_checkpoint(const char *a, const char *b)
{
    est_checkpoint *first = NULL, *second = NULL;

    assert_int_equal(est_checkpoint_open(a, &first), EST_OK);
    assert_int_equal(est_checkpoint_open(b, &second), EST_OK);
    assert_int_equal(est_checkpoint_count(first), est_checkpoint_count(second));
    for (int i = 0; i < est_checkpoint_count(first); i++) {
        const char *name = est_checkpoint_at(first, i)->name;
        est_tensor *x = NULL, *y = NULL;

        if (strcmp(name, "estoc/input_position") == 0) continue; /* how far threads had read ahead may differ */
        assert_int_equal(est_checkpoint_read(first, name, &x), EST_OK);
        assert_int_equal(est_checkpoint_read(second, name, &y), EST_OK);
        if (est_tensor_bytes(x) != est_tensor_bytes(y) ||
            memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) != 0) {
            fail_msg("%s differs", name);
        }
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_checkpoint_close(first);
    est_checkpoint_close(second);
}
