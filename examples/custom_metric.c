/* SPDX-License-Identifier: Apache-2.0
 *
 * A canned regressor with metrics of its own: a wide and deep model predicts the weight of a baby from what is known
 * before its birth, and its evaluations have the root mean squared error, which the library has, and the coefficient of
 * determination, which it has not. Above each part, the TensorFlow calls that it stands for.
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
#define START_DELAY     60  /* seconds; of an evaluator */
#define BATCH_SIZE      128
#define EVAL_BATCH      (1 << 15) /* no need of batches */
#define TRAIN_ROWS      50000
#define EVAL_ROWS       10000 /* the ones after those */

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
    bool     male = uniform(&state) < 0.5, twins = uniform(&state) < 0.1;
    double   noise = 0;

    for (int i = 0; i < 12; i++) noise += uniform(&state) - 0.5; /* nearly normal, with a deviation of 1 */
    double weight = 7.4 + 0.3 * (weeks - 39) - 0.002 * (age - 30) * (age - 30) + 0.2 * male - 1.5 * twins + 0.5 * noise;
    float  numbers[] = { (float)age, (float)weeks }, label[] = { (float)weight };
    const char *sex = male ? "True" : "False", *plurality = twins ? "Twins(2)" : "Single(1)";

    (void)user;
    EST_TRY(est_tensor_string(sex, strlen(sex), &out[0].values));
    EST_TRY(est_tensor_string(plurality, strlen(plurality), &out[1].values));
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &numbers[0], &out[2].values));
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &numbers[1], &out[3].values));
    return est_tensor_f32(EST_SHAPE(1), label, &out[4].values);
}

static const est_component columns[] = { { .name = "is_male", .dtype = EST_STRING },
    { .name = "plurality", .dtype = EST_STRING }, { .name = "mother_age", .dtype = EST_F32 },
    { .name = "gestation_weeks", .dtype = EST_F32 },
    { .name = "weight_pounds", .dtype = EST_F32, .shape = { .rank = 1, .dim = { 1 } } } };

/* read_dataset(prefix, mode, batch_size): an input_fn over Dataset.map, .shuffle, .repeat(num_epochs) and .batch, which
 * repeats without end in training and reads the rows once in an evaluation */
static est_status read_dataset(const est_input_context *ctx, void *user, est_dataset **out)
{
    bool         trains = ctx->mode == EST_TRAIN;
    est_dataset *d      = trains ? est_dataset_range(0, TRAIN_ROWS, 1)
                                 : est_dataset_range(TRAIN_ROWS, TRAIN_ROWS + EVAL_ROWS, 1);

    (void)user;
    if (trains) {
        d = est_dataset_shuffle(d, TRAIN_ROWS, ctx->seed);
        d = est_dataset_repeat(d, EST_FOREVER);
    }
    d = est_dataset_map(d, make_baby, EST_MAP(.components = { columns, 5 }));
    d = est_dataset_batch(d, trains ? BATCH_SIZE : EVAL_BATCH, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

/* def my_rmse(labels, predictions):
 *     a dictionary with "rmse": the root mean squared error of predictions["predictions"] */
static est_status my_rmse(est_model *m, void *user)
{
    est_node labels = est_model_label(m, "weight_pounds"), predictions = est_model_prediction(m, "predictions");

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
    est_node   labels = est_model_label(m, "weight_pounds");
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

#define WIDE 4
#define DEEP 3

typedef struct parts {
    const est_column *all[WIDE + DEEP]; /* the wide ones first */
} parts;

/* tf.feature_column: numeric_column, bucketized_column, categorical_column_with_vocabulary_list, crossed_column and
 * embedding_column */
static parts make_columns(est_columns *c)
{
    static const float ages[]  = { 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40 };
    static const float weeks[] = { 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41 };

    const est_column *mother_age      = est_numeric_column(c, "mother_age", NULL);
    const est_column *gestation_weeks = est_numeric_column(c, "gestation_weeks", NULL);
    const est_column *age_buckets     = est_bucketized_column(mother_age, (est_f32s){ ages, 12 });
    const est_column *weeks_buckets   = est_bucketized_column(gestation_weeks, (est_f32s){ weeks, 11 });
    const est_column *is_male         = est_vocabulary_strings_column(
                c, "is_male", EST_STRINGS("True", "False", "Unknown"), NULL);
    const est_column *plurality = est_vocabulary_strings_column(
        c, "plurality", EST_STRINGS("Single(1)", "Twins(2)", "Multiple(2+)"), NULL);
    const est_column *crossed = est_crossed_column(
        EST_COLUMN_LIST(is_male, plurality, age_buckets, weeks_buckets), 20000, 0);

    return (parts){ { is_male, plurality, age_buckets, weeks_buckets, mother_age, gestation_weeks,
        est_embedding_column(crossed, 8, NULL) } };
}

/* run_config = tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_secs=..., keep_checkpoint_max=3)
 * estimator = tf.estimator.DNNLinearCombinedRegressor(model_dir=output_dir, ..., config=run_config)
 * estimator = tf.estimator.add_metrics(estimator, my_rmse): here it extends the estimator in place */
static est_status make_estimator(const parts *p, const char *output_dir, est_estimator **out)
{
    EST_TRY(est_dnn_linear_combined_regressor(
        EST_CANNED(.model_dir = output_dir, .linear_columns = { p->all, WIDE }, .dnn_columns = { p->all + WIDE, DEEP },
            .hidden_units = EST_I64S(64, 32), .dnn_optimizer = { .name = "Adam" }, .label = "weight_pounds",
            .config = EST_RUN_CONFIG(.seed = 1, .save_checkpoints_secs = CHECKPOINT_SECS, .keep_checkpoint_max = 3)),
        out));
    EST_TRY(est_estimator_add_metrics(*out, my_rmse, NULL));
    return est_estimator_add_metrics(*out, my_r2, NULL);
}

/* serving_input_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(make_parse_example_spec(columns))
 * exporter = tf.estimator.LatestExporter('exporter', serving_input_fn, exports_to_keep=None)
 * train_spec = tf.estimator.TrainSpec(input_fn=..., max_steps=...)
 * eval_spec = tf.estimator.EvalSpec(input_fn=..., steps=None, start_delay_secs=..., throttle_secs=..., exporters=...)
 * tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec) */
static est_status run(est_estimator *estimator, const est_parse_spec *served, int64_t train_steps)
{
    est_metrics  *metrics  = NULL;
    est_exporter *exporter = est_latest_exporter("exporter",
        EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .parse = est_parse_spec_features(served) }),
            .exports_to_keep              = EST_OFF));
    est_status    status   = est_train_and_evaluate(estimator,
             EST_TRAIN_SPEC(.input_fn = read_dataset, .max_steps = train_steps),
             EST_EVAL_SPEC(.input_fn = read_dataset, .steps = EST_FOREVER, .start_delay_secs = START_DELAY,
                 .throttle_secs = EVAL_INTERVAL, .exporters = EST_EXPORTERS(exporter)),
             &metrics);

    if (status == EST_OK && was_trained(estimator, metrics)) {
        printf("%s has its %" PRId64 " steps already\n", est_estimator_model_dir(estimator), train_steps);
    } else if (status == EST_OK && metrics != NULL) {
        printf("rmse %.4f, r2 %.4f after %" PRId64 " steps; exported to %s/export/exporter/\n",
            est_metrics_get(metrics, "rmse"), est_metrics_get(metrics, "r2"), est_metrics_global_step(metrics),
            est_estimator_model_dir(estimator));
    }
    est_metrics_free(metrics);
    est_exporter_free(exporter);
    return status;
}

static est_status train_and_evaluate(const char *output_dir, int64_t train_steps)
{
    est_columns    *c         = est_columns_create();
    est_parse_spec *served    = NULL;
    est_estimator  *estimator = NULL;
    parts           p         = make_columns(c);
    est_status      status    = make_estimator(&p, output_dir, &estimator);

    if (status == EST_OK) status = est_parse_spec_create((est_column_list){ p.all, WIDE + DEEP }, &served);
    if (status == EST_OK) status = run(estimator, served, train_steps);
    est_parse_spec_free(served);
    est_estimator_free(estimator);
    est_columns_free(c);
    return status;
}

int main(int argc, char **argv)
{
    const char *model_dir = NULL; /* a new temporary directory */
    int64_t     steps     = 4000;
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
