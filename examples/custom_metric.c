/* SPDX-License-Identifier: Apache-2.0
 *
 * A regressor with metrics of its own: predicts the weight of a baby from what is known before its birth, and adds to
 * its evaluations the root mean squared error, which the library has, and the coefficient of determination, which it
 * has not.
 *
 *   custom_metric [--steps N] [--model-dir DIR] [--quiet]
 *
 * Checkpoints are made by the clock, evaluations are throttled, and every evaluation exports the model. The babies are
 * made up, with a noise of half a pound: no model can do better than an error of 0.5. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECKPOINT_SECS 0.5
#define EVAL_INTERVAL   1.0 /* seconds */
#define BATCH_SIZE      128
#define TRAIN_ROWS      50000
#define EVAL_ROWS       10000 /* the ones after those */
#define FEATURES        3

/* --- data --------------------------------------------------------------------------------------------------------- */

/* Numbers in [0, 1) that look random and are always the same for a row. */
static double uniform(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t x = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9;
    x          = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

/* Row number in, features and weight out. */
static est_status make_baby(void *user, const est_field *in, est_field *out)
{
    uint64_t state = (uint64_t) * (const int64_t *)est_tensor_data(in[0].values);
    double   age = 15 + 30 * uniform(&state), weeks = 30 + 12 * uniform(&state);
    double   babies = uniform(&state) < 0.1 ? 2 : 1, noise = 0;

    for (int i = 0; i < 12; i++) noise += uniform(&state) - 0.5; /* nearly normal, with a deviation of 1 */
    double weight = 7.5 + 0.3 * (weeks - 39) - 0.002 * (age - 30) * (age - 30) - 1.5 * (babies - 1) + 0.5 * noise;

    (void)user;
    float features[FEATURES] = { (float)(age - 30) / 10, (float)(weeks - 36) / 4, (float)babies - 1 };
    float label[]            = { (float)weight };
    EST_TRY(est_tensor_f32(EST_SHAPE(FEATURES), features, &out[0].values));
    return est_tensor_f32(EST_SHAPE(1), label, &out[1].values);
}

static est_status read_dataset(const est_input_context *ctx, void *user, est_dataset **out)
{
    const est_component row[] = { { .name = "features", .dtype = EST_F32, .shape = EST_SHAPE(FEATURES) },
        { .name = "weight", .dtype = EST_F32, .shape = EST_SHAPE(1) } };
    est_dataset        *d;

    (void)user;
    if (ctx->mode == EST_TRAIN) {
        d = est_dataset_range(0, TRAIN_ROWS, 1);
        d = est_dataset_shuffle(d, TRAIN_ROWS, ctx->seed);
        d = est_dataset_repeat(d, EST_FOREVER);
    } else {
        d = est_dataset_range(TRAIN_ROWS, TRAIN_ROWS + EVAL_ROWS, 1);
    }
    d = est_dataset_map(d, make_baby, EST_MAP(.components = { row, 2 }));
    d = est_dataset_batch(d, BATCH_SIZE, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

static est_status regressor(est_model *m, est_mode mode, const void *params)
{
    est_node x = est_model_feature(m, "features");
    x          = est_dense(x, 64, EST_DENSE(.activation = est_relu));
    x          = est_dense(x, 32, EST_DENSE(.activation = est_relu));
    x          = est_dense(x, 1, EST_DENSE(.name = "weight"));

    (void)params;
    est_model_predict(m, "predictions", x);
    if (mode == EST_PREDICT) return est_model_status(m);

    est_node loss = est_mean(est_square(est_sub(x, est_model_label(m, "weight"))));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(1e-3, NULL), loss);
    return est_model_status(m);
}

/* Knows nothing of the model but the names of its predictions and labels. */
static est_status my_rmse(est_model *m, void *user)
{
    est_node labels = est_model_label(m, "weight"), predictions = est_model_prediction(m, "predictions");

    (void)user;
    est_model_metric(m, "rmse", est_metric_root_mean_squared_error(labels, predictions, NULL));
    return est_model_status(m);
}

static est_node sum_f64(est_node x)
{
    return est_sum(est_cast(x, EST_F64));
}

/* R^2 = 1 - (sum of squared errors) / (sum of squared distances of labels from their mean). The mean is known only at
 * the end, so four sums are kept: est_metric_state() makes them, for one evaluation each and in no checkpoint. */
static est_status my_r2(est_model *m, void *user)
{
    est_graph *graph  = est_model_graph(m);
    est_node   labels = est_model_label(m, "weight");
    est_node   errors = est_sub(est_model_prediction(m, "predictions"), labels);
    est_node   state[4], total[4], spread;

    (void)user;
    static const char *const names[] = { "r2/errors", "r2/squares", "r2/labels", "r2/count" };
    for (int i = 0; i < 4; i++) {
        state[i] = est_metric_state(graph, names[i], EST_F64, EST_SHAPE_SCALAR);
        total[i] = est_read_variable(state[i]);
    }
    est_node update[] = { est_assign_add(state[0], sum_f64(est_square(errors))),
        est_assign_add(state[1], sum_f64(est_square(labels))), est_assign_add(state[2], sum_f64(labels)),
        est_assign_add(state[3], sum_f64(est_ones_like(labels))) };
    spread            = est_sub(total[1], est_div_no_nan(est_square(total[2]), total[3]));
    est_model_metric(m, "r2",
        est_metric_custom((est_nodes){ state, 4 }, (est_nodes){ update, 4 },
            est_shift(est_neg(est_div_no_nan(total[0], spread)), 1)));
    return est_model_status(m);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* Whether nobody evaluated because there was nothing left to train. In a cluster that is the evaluator's business. */
static bool was_trained(const est_estimator *estimator, const est_metrics *metrics)
{
    return metrics == NULL && est_cluster_jobs(est_estimator_task(estimator)->cluster) == 0;
}

static est_status train_and_evaluate(const char *output_dir, int64_t train_steps)
{
    const est_component served    = { .name = "features", .dtype = EST_F32, .shape = EST_SHAPE(FEATURES) };
    est_estimator      *estimator = NULL;
    est_exporter       *exporter  = NULL;
    est_metrics        *metrics   = NULL;
    est_status          status;

    status = est_estimator_create(regressor,
        EST_ESTIMATOR(.model_dir = output_dir,
            .config              = EST_RUN_CONFIG(.save_checkpoints_secs = CHECKPOINT_SECS, .keep_checkpoint_max = 3)),
        &estimator);
    if (status == EST_OK) status = est_estimator_add_metrics(estimator, my_rmse, NULL);
    if (status == EST_OK) status = est_estimator_add_metrics(estimator, my_r2, NULL);
    if (status == EST_OK) {
        exporter = est_latest_exporter(
            "exporter", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { &served, 1 } }),
                            .exports_to_keep              = EST_OFF));
        status = est_train_and_evaluate(estimator, EST_TRAIN_SPEC(.input_fn = read_dataset, .max_steps = train_steps),
            EST_EVAL_SPEC(.input_fn = read_dataset, .steps = EST_FOREVER, .throttle_secs = EVAL_INTERVAL,
                .exporters = EST_EXPORTERS(exporter)),
            &metrics);
    }
    if (status == EST_OK && was_trained(estimator, metrics)) {
        printf("%s has its %" PRId64 " steps already\n", est_estimator_model_dir(estimator), train_steps);
    } else if (status == EST_OK && metrics != NULL) {
        printf("rmse %.4f, r2 %.4f after %" PRId64 " steps; exported to %s/export/exporter/\n",
            est_metrics_get(metrics, "rmse"), est_metrics_get(metrics, "r2"), est_metrics_global_step(metrics),
            est_estimator_model_dir(estimator));
    }
    est_metrics_free(metrics);
    est_exporter_free(exporter);
    est_estimator_free(estimator);
    return status;
}

int main(int argc, char **argv)
{
    const char *model_dir = NULL; /* a new temporary directory */
    int64_t     steps     = 20000;
    est_status  status;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            steps = strtol(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[++i];
        } else if (strcmp(argv[i], "--quiet") == 0) {
            est_log_set_level(EST_LOG_WARN); /* no progress, no news */
        } else {
            steps = 0;
        }
    }
    if (steps < 1) {
        fprintf(stderr, "usage: custom_metric [--steps N] [--model-dir DIR] [--quiet]\n");
        return 2;
    }
    status = train_and_evaluate(model_dir, steps);
    if (status != EST_OK) fprintf(stderr, "custom_metric: %s: %s\n", est_status_name(status), est_error_message());
    return est_exit_code(status);
}
