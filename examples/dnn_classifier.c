/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest program of the canned kind: hashed categories, embeddings of them, a classifier of three hidden layers,
 * and train_and_evaluate. Above each part, the TensorFlow calls that it stands for.
 *
 *   dnn_classifier [--steps N] [--model-dir DIR]
 *
 * The rows are made up: two words and a number decide the class together, and one label of twenty is wrong. No model
 * can be right about more than 95 % of them, and none that weighs the words one by one about more than 65 %. */
#include <estoc/estoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_SIZE 64
#define TRAIN_ROWS 50000
#define EVAL_ROWS  5000  /* the ones after those */
#define WORDS      50    /* of each feature */
#define BUCKETS    10000 /* many more: words that share one are the same to the model */
#define WRONG      0.05  /* of the labels */

/* --- data --------------------------------------------------------------------------------------------------------- */

/* Numbers in [0, 1) that look random and are always the same for a row. */
static double uniform(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t x = (*state ^ *state >> 30) * 0xbf58476d1ce4e5b9;
    x          = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

/* Row number in, features and label out. */
static est_status make_row(void *user, const est_field *in, est_field *out)
{
    uint64_t state = (uint64_t) * (const int64_t *)est_tensor_data(in[0].values);
    int      a = (int)(WORDS * uniform(&state)), b = (int)(WORDS * uniform(&state));
    float    c     = (float)(2 * uniform(&state) - 1);
    bool     alike = a % 2 == b % 2;
    int64_t  label = (alike ? 1 : -1) + 1.5 * c > 0;
    char     words[2][16];

    (void)user;
    if (uniform(&state) < WRONG) label = !label;
    snprintf(words[0], sizeof words[0], "a%d", a);
    snprintf(words[1], sizeof words[1], "b%d", b);
    EST_TRY(est_tensor_string(words[0], strlen(words[0]), &out[0].values));
    EST_TRY(est_tensor_string(words[1], strlen(words[1]), &out[1].values));
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &c, &out[2].values));
    return est_tensor_i64(EST_SHAPE_SCALAR, &label, &out[3].values);
}

/* Dataset.map, .batch and .prefetch, which both input functions end with */
static est_dataset *batches(est_dataset *rows)
{
    const est_component columns[] = { { .name = "categorical_feature_a", .dtype = EST_STRING },
        { .name = "categorical_feature_b", .dtype = EST_STRING }, { .name = "numeric_feature_c", .dtype = EST_F32 },
        { .name = "label", .dtype = EST_I64 } };

    rows = est_dataset_map(rows, make_row, EST_MAP(.components = { columns, 4 }));
    rows = est_dataset_batch(rows, BATCH_SIZE, NULL);
    return est_dataset_prefetch(rows, 2);
}

/* def train_input_fn(): returns features and labels, shuffled */
static est_status train_input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    est_dataset *d = est_dataset_range(0, TRAIN_ROWS, 1);

    (void)user;
    d = est_dataset_shard(d, ctx->n_pipelines, ctx->pipeline);
    d = est_dataset_shuffle(d, TRAIN_ROWS, ctx->seed);
    d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(batches(d), out);
}

/* def eval_input_fn(): the same of rows that were not trained with */
static est_status eval_input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    (void)ctx, (void)user;
    return est_dataset_finish(batches(est_dataset_range(TRAIN_ROWS, TRAIN_ROWS + EVAL_ROWS, 1)), out);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

/* Whether nobody evaluated because there was nothing left to train. In a cluster that is the evaluator's business. */
static bool was_trained(const est_estimator *estimator, const est_metrics *metrics)
{
    return metrics == NULL && est_cluster_jobs(est_estimator_task(estimator)->cluster) == 0;
}

/* tf.feature_column.categorical_column_with_hash_bucket and embedding_column for each feature
 * estimator = tf.estimator.DNNClassifier(
 *     config=tf.estimator.RunConfig(model_dir=..., save_summary_steps=100),
 *     feature_columns=[...], hidden_units=[1024, 512, 256])
 * train_spec = tf.estimator.TrainSpec(input_fn=train_input_fn, max_steps=1000)
 * eval_spec = tf.estimator.EvalSpec(input_fn=eval_input_fn)
 * tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec) */
static est_status train_and_evaluate(const char *model_dir, int64_t max_steps)
{
    est_columns   *c         = est_columns_create();
    est_estimator *estimator = NULL;
    est_metrics   *metrics   = NULL;
    est_status     status;

    const est_column *categorical_feature_a     = est_hash_bucket_column(c, "categorical_feature_a", BUCKETS, NULL);
    const est_column *categorical_feature_a_emb = est_embedding_column(categorical_feature_a, 16, NULL);
    const est_column *categorical_feature_b     = est_hash_bucket_column(c, "categorical_feature_b", BUCKETS, NULL);
    const est_column *categorical_feature_b_emb = est_embedding_column(categorical_feature_b, 16, NULL);
    const est_column *numeric_feature_c         = est_numeric_column(c, "numeric_feature_c", NULL);

    status = est_dnn_classifier(
        EST_CANNED(.columns = EST_COLUMN_LIST(categorical_feature_a_emb, categorical_feature_b_emb, numeric_feature_c),
            .hidden_units   = EST_I64S(1024, 512, 256),
            .optimizer      = { .name = "Adam" }, /* the default, Adagrad at 0.001, needs many more steps */
            .config         = EST_RUN_CONFIG(.model_dir = model_dir, .seed = 1, .save_summary_steps = 100)),
        &estimator);
    if (status == EST_OK) {
        status = est_train_and_evaluate(estimator, EST_TRAIN_SPEC(.input_fn = train_input_fn, .max_steps = max_steps),
            EST_EVAL_SPEC(.input_fn = eval_input_fn), &metrics);
    }
    if (status == EST_OK && was_trained(estimator, metrics)) {
        status = est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = eval_input_fn), &metrics);
    }
    if (status == EST_OK && metrics != NULL) printf("accuracy %.4f\n", est_metrics_get(metrics, "accuracy"));
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    est_columns_free(c);
    return status;
}

int main(int argc, char **argv)
{
    const char *model_dir = NULL; /* a new temporary directory */
    int64_t     max_steps = 1000;
    est_status  status;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            max_steps = strtol(argv[i + 1], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[i + 1];
        } else {
            max_steps = 0;
        }
    }
    if (max_steps < 1) {
        fprintf(stderr, "usage: dnn_classifier [--steps N] [--model-dir DIR]\n");
        return 2;
    }
    status = train_and_evaluate(model_dir, max_steps);
    if (status != EST_OK) fprintf(stderr, "dnn_classifier: %s: %s\n", est_status_name(status), est_error_message());
    return est_exit_code(status);
}
