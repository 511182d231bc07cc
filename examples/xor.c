/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest whole program: a network that learns exclusive or. The README shows it. */
#include <estoc/estoc.h>
#include <stdio.h>

static est_status xor_input(const est_input_context *ctx, void *user, est_dataset **out)
{
    float        xs[] = { 0, 0, 0, 1, 1, 0, 1, 1 }, ys[] = { 0, 1, 1, 0 };
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    (void)user;
    est_status status = est_tensor_f32(EST_SHAPE(4, 2), xs, &x);
    if (status == EST_OK) status = est_tensor_f32(EST_SHAPE(4, 1), ys, &y);
    if (status == EST_OK) {
        d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
        if (ctx->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
        d      = est_dataset_batch(d, 4, NULL);
        status = est_dataset_finish(d, out); /* tells what went wrong in any of the stages */
    }
    est_tensor_free(x); /* the dataset keeps what it needs */
    est_tensor_free(y);
    return status;
}

static est_status xor_model(est_model *m, est_mode mode, const void *params)
{
    est_node hidden = est_dense(est_model_feature(m, "x"), 8, EST_DENSE(.activation = est_tanh));
    est_node logit  = est_dense(hidden, 1, NULL);

    (void)params;
    est_model_predict(m, "y", est_sigmoid(logit));
    if (mode == EST_PREDICT) return est_model_status(m); /* there are no labels */

    est_node y    = est_model_label(m, "y");
    est_node loss = est_mean(est_sigmoid_xent(logit, y));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_metric_accuracy_at_threshold(y, est_sigmoid(logit), 0.5, NULL));
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.05, NULL), loss);
    return est_model_status(m);
}

int main(void)
{
    est_estimator * xor  = NULL;
    est_metrics *metrics = NULL;

    est_status status = est_estimator_create(xor_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.seed = 7)), &xor);
    if (status == EST_OK) {
        status = est_train_and_evaluate(xor, EST_TRAIN_SPEC(.input_fn = xor_input, .max_steps = 500),
            EST_EVAL_SPEC(.input_fn = xor_input), &metrics);
    }
    if (status == EST_OK) printf("accuracy %g\n", est_metrics_get(metrics, "accuracy"));
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_metrics_free(metrics);
    est_estimator_free(xor);
    return est_exit_code(status);
}
