/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts from a census who earns more than 50,000 dollars a year, with the models of the well-known tutorial: a
 * linear one over categories and crosses of them (wide), a neural network (deep), or the sum of both (wide_deep).
 *
 *   census_wide_deep [--model-dir DIR] [--seed N] wide|deep|wide_deep data-directory
 *
 * The directory has adult.data and adult.test of the Adult data set of the UCI repository
 * (archive.ics.uci.edu/dataset/2); the names adult-train.csv and adult-test.csv do as well.
 * The export reads tf.train.Examples. Started again with the same --model-dir, it goes on where it stopped. On a
 * cluster (`estoc launch --ps 2 --workers 3 --evaluator -- census_wide_deep --model-dir DIR ...`) the evaluator says
 * how good it is. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRAIN_ROWS 32561
#define BATCH_SIZE 64
#define EPOCHS     20
#define MAX_STEPS  (EPOCHS * TRAIN_ROWS / BATCH_SIZE)
#define SAVE_STEPS 2000 /* an evaluation after each */

/* Chosen on parts of adult.data that were held out. */
#define WIDE_RATE 0.1
#define WIDE_L1   0.5
#define WIDE_L2   1
#define DEEP_RATE 3e-3 /* at the start */
#define DROPOUT   0.3

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* --- columns ------------------------------------------------------------------------------------------------------ */

/* "?" is what the files have for unknown. It stays a category of its own, for requests to the exported model too: were
 * it taken for missing, crosses would see "" in a row of CSV, but nothing in an Example. */
static const char *const education_names[] = { "Bachelors", "HS-grad", "11th", "Masters", "9th", "Some-college",
    "Assoc-acdm", "Assoc-voc", "7th-8th", "Doctorate", "Prof-school", "5th-6th", "10th", "1st-4th", "Preschool",
    "12th" };
static const char *const marital_names[] = { "Married-civ-spouse", "Divorced", "Married-spouse-absent", "Never-married",
    "Separated", "Married-AF-spouse", "Widowed" };
static const char *const relation_names[] = { "Husband", "Not-in-family", "Wife", "Own-child", "Unmarried",
    "Other-relative" };
static const char *const work_names[]   = { "Self-emp-not-inc", "Private", "State-gov", "Federal-gov", "Local-gov", "?",
      "Self-emp-inc", "Without-pay", "Never-worked" };
static const char *const income_names[] = { "<=50K", ">50K" };

/* All columns: first those that the linear model weighs, then those that the network is fed. */
typedef struct model_columns {
    const est_column *all[18];
} model_columns;

static est_column_list wide_columns(const model_columns *columns)
{
    return (est_column_list){ columns->all, 8 };
}

static est_column_list deep_columns(const model_columns *columns)
{
    return (est_column_list){ columns->all + 8, 10 };
}

/* Mean and deviation of a number, so that the network sees it around 0. */
typedef struct scale {
    double mean, deviation;
} scale;

static est_node standard(est_node x, const void *user)
{
    const scale *s = user;

    return est_scale(est_shift(x, -s->mean), 1 / s->deviation);
}

/* Of amounts that are mostly 0 and sometimes huge. */
static est_node logarithm(est_node x, const void *user)
{
    (void)user;
    return est_log1p(x);
}

static model_columns build_model_columns(est_columns *c)
{
    static const scale ages = { 38.6, 13.6 }, years = { 10.1, 2.57 }, hours = { 40.4, 12.3 };

    /* numbers */
    const est_column *age           = est_numeric_column(c, "age", EST_NUMERIC(.normalizer = standard, .user = &ages));
    const est_column *education_num = est_numeric_column(
        c, "education_num", EST_NUMERIC(.normalizer = standard, .user = &years));
    const est_column *capital_gain   = est_numeric_column(c, "capital_gain", EST_NUMERIC(.normalizer = logarithm));
    const est_column *capital_loss   = est_numeric_column(c, "capital_loss", EST_NUMERIC(.normalizer = logarithm));
    const est_column *hours_per_week = est_numeric_column(
        c, "hours_per_week", EST_NUMERIC(.normalizer = standard, .user = &hours));

    /* categories */
    const est_column *education = est_vocabulary_strings_column(
        c, "education", (est_strings){ education_names, COUNT(education_names) }, NULL);
    const est_column *marital_status = est_vocabulary_strings_column(
        c, "marital_status", (est_strings){ marital_names, COUNT(marital_names) }, NULL);
    const est_column *relationship = est_vocabulary_strings_column(
        c, "relationship", (est_strings){ relation_names, COUNT(relation_names) }, NULL);
    const est_column *workclass = est_vocabulary_strings_column(
        c, "workclass", (est_strings){ work_names, COUNT(work_names) }, NULL);
    const est_column *occupation  = est_hash_bucket_column(c, "occupation", 1000, NULL);
    const est_column *years_old   = est_numeric_column(c, "age", NULL); /* not scaled */
    const est_column *age_buckets = est_bucketized_column(years_old, EST_F32S(18, 25, 30, 35, 40, 45, 50, 55, 60, 65));

    /* crosses */
    const est_column *education_key          = est_key_column(c, "education");
    const est_column *occupation_key         = est_key_column(c, "occupation");
    const est_column *education_x_occupation = est_crossed_column(
        EST_COLUMN_LIST(education_key, occupation_key), 1000, 0);
    const est_column *age_x_education_x_occupation = est_crossed_column(
        EST_COLUMN_LIST(age_buckets, education_key, occupation_key), 1000, 0);

    return (model_columns){
        { education, marital_status, relationship, workclass, occupation, age_buckets, education_x_occupation,
            age_x_education_x_occupation,
            /* and from here on the deep ones */
            age, education_num, capital_gain, capital_loss, hours_per_week, est_indicator_column(workclass),
            est_indicator_column(education), est_indicator_column(marital_status), est_indicator_column(relationship),
            est_embedding_column(occupation, 8, NULL) },
    };
}

/* --- data --------------------------------------------------------------------------------------------------------- */

/* The first line of adult.test is a comment. */
static est_status is_row(void *user, const est_field *line, bool *keep)
{
    const est_str *text = est_tensor_data(line->values);

    (void)user;
    *keep = text->size > 0 && text->data[0] != '|';
    return EST_OK;
}

/* Its rows end with a full stop. */
static est_status drop_full_stop(void *user, const est_field *in, est_field *out)
{
    const est_str *text = est_tensor_data(in->values);

    (void)user;
    if (text->size > 0 && text->data[text->size - 1] == '.') {
        return est_tensor_string(text->data, text->size - 1, &out->values);
    }
    out->values = est_tensor_ref(in->values);
    return EST_OK;
}

/* What input_fn is told: where the files are, and which of their fields the columns read. */
typedef struct census {
    const char     *dir;
    est_csv_columns wanted;
} census;

/* A file under the newer of its names, or else under that of the repository. */
static void find_file(const char *dir, est_mode mode, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", dir, mode == EST_TRAIN ? "adult-train.csv" : "adult-test.csv");
    if (access(path, R_OK) != 0) {
        snprintf(path, size, "%s/%s", dir, mode == EST_TRAIN ? "adult.data" : "adult.test");
    }
}

static est_status input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    static const char *const fields[] = { "age", "workclass", "fnlwgt", "education", "education_num", "marital_status",
        "occupation", "relationship", "race", "gender", "capital_gain", "capital_loss", "hours_per_week",
        "native_country", "income" };
    const census            *files    = user;
    est_dataset             *d;
    char                     path[512];

    find_file(files->dir, ctx->mode, path, sizeof path);
    d = est_dataset_files(path);
    d = est_dataset_lines(d, NULL);
    d = est_dataset_filter(d, is_row, NULL);
    d = est_dataset_map(d, drop_full_stop, NULL);
    if (ctx->mode == EST_TRAIN) {
        d = est_dataset_cache(d, NULL);
        d = est_dataset_shuffle(d, TRAIN_ROWS, ctx->seed);
        d = est_dataset_repeat(d, EST_FOREVER);
    }
    d = est_dataset_decode_csv(
        d, files->wanted, EST_CSV(.trim = true, .field_names = { fields, COUNT(fields) }), BATCH_SIZE, NULL);
    d = est_dataset_prefetch(d, 2);
    return est_dataset_finish(d, out);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

#define INCOME .label = "income", .label_vocabulary = { income_names, COUNT(income_names) }

static est_status build_estimator(
    const char *type, const model_columns *columns, const est_run_config *config, est_estimator **out)
{
    est_optimizer falling = est_with_schedule(
        est_adam(0, EST_ADAM(.keras = true)), est_cosine_decay(DEEP_RATE, MAX_STEPS, 0));
    est_canned_optimizer adam = { .value = falling };
    est_canned_optimizer ftrl = { .value = est_ftrl(WIDE_RATE, EST_FTRL(.l1 = WIDE_L1, .l2 = WIDE_L2, .keras = true)) };

    if (strcmp(type, "wide") == 0) {
        return est_linear_classifier(
            EST_CANNED(.columns = wide_columns(columns), .optimizer = ftrl, INCOME, .config = config), out);
    }
    if (strcmp(type, "deep") == 0) {
        return est_dnn_classifier(
            EST_CANNED(.columns = deep_columns(columns), .hidden_units = EST_I64S(100, 75, 50, 25), .dropout = DROPOUT,
                .optimizer = adam, INCOME, .config = config),
            out);
    }
    return est_dnn_linear_combined_classifier(
        EST_CANNED(.linear_columns = wide_columns(columns), .linear_optimizer = ftrl,
            .dnn_columns = deep_columns(columns), .hidden_units = EST_I64S(100, 75, 50, 25), .dropout = DROPOUT,
            .dnn_optimizer = adam, INCOME, .config = config),
        out);
}

/* The columns that a model of this type reads. */
static est_column_list feature_columns(const char *type, const model_columns *columns)
{
    if (strcmp(type, "wide") == 0) return wide_columns(columns);
    if (strcmp(type, "deep") == 0) return deep_columns(columns);
    return (est_column_list){ columns->all, COUNT(columns->all) };
}

/* --- the exact area under the curve ------------------------------------------------------------------------------- */

/* Predicts the test file and reads its labels at the same time, batch by batch. The metric "auc" is nearly that, as it
 * looks at 200 thresholds only. */
static est_status exact_auc(est_estimator *estimator, census *files, double *auc)
{
    census           incomes     = { files->dir, EST_CSV_COLUMNS({ .name = "income", .dtype = EST_STRING }) };
    est_dataset     *dataset     = NULL;
    est_iterator    *labels      = NULL;
    est_predictions *predictions = NULL;
    est_field        label       = { 0 };
    est_scored      *rows        = NULL;
    size_t           n           = 0;
    est_status       status;

    status = input_fn(&(est_input_context){ .mode = EST_PREDICT }, &incomes, &dataset);
    if (status == EST_OK) status = est_iterator_create(dataset, &labels);
    if (status == EST_OK) {
        status = est_predict(
            estimator, EST_PREDICT_OPTIONS(.input_fn = input_fn, .input_user = files, .batches = true), &predictions);
    }
    while (status == EST_OK && (status = est_iterator_next(labels, &label)) == EST_OK) {
        const est_str *income = est_tensor_data(label.values);
        size_t         batch  = (size_t)est_tensor_count(label.values);
        est_scored    *grown  = realloc(rows, (n + batch) * sizeof *rows);

        if (grown != NULL) rows = grown;
        status = grown != NULL ? est_predictions_next(predictions) : est_fail(EST_RESOURCE_EXHAUSTED, "no memory");
        for (size_t i = 0; i < batch && status == EST_OK; i++) {
            const float *logistic = est_tensor_data(est_predictions_get(predictions, "logistic")); /* [batch, 1] */
            rows[n++]             = (est_scored){ logistic[i], 1, income[i].data[0] == '>' };
        }
        est_element_clear(&label, 1);
    }
    if (status == EST_OUT_OF_RANGE) status = EST_OK; /* the end of the file */
    if (status == EST_OK) *auc = est_exact_auc(rows, n);
    free(rows);
    est_predictions_free(predictions);
    est_iterator_free(labels);
    est_dataset_free(dataset);
    return status;
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* Whether nobody evaluated because there was nothing left to train. In a cluster that is the evaluator's business. */
static bool was_trained(const est_estimator *estimator, const est_metrics *metrics)
{
    return metrics == NULL && est_cluster_jobs(est_estimator_task(estimator)->cluster) == 0;
}

/* Trains, evaluates and exports, and says how good the model is. */
static est_status run(est_estimator *estimator, census *files, est_serving_input served)
{
    est_metrics  *metrics  = NULL;
    est_exporter *exporter = est_final_exporter(
        "census", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = served)));
    double     auc = 0;
    est_status status;

    status = est_train_and_evaluate(estimator,
        EST_TRAIN_SPEC(.input_fn = input_fn, .input_user = files, .max_steps = MAX_STEPS),
        EST_EVAL_SPEC(.input_fn = input_fn, .input_user = files, .steps = EST_FOREVER, .start_delay_secs = EST_OFF,
            .throttle_secs = EST_OFF, .exporters = EST_EXPORTERS(exporter)),
        &metrics);
    if (status == EST_OK && was_trained(estimator, metrics)) {
        status = est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = files), &metrics);
    }
    if (status == EST_OK && metrics != NULL) status = exact_auc(estimator, files, &auc);
    if (status == EST_OK && metrics != NULL) {
        printf("accuracy %.4f  auc %.4f  exact auc %.4f  after %" PRId64 " steps\n",
            est_metrics_get(metrics, "accuracy"), est_metrics_get(metrics, "auc"), auc,
            est_metrics_global_step(metrics));
        printf("exported model: %s/export/census/\n", est_estimator_model_dir(estimator));
    }
    est_metrics_free(metrics);
    est_exporter_free(exporter);
    return status;
}

static est_status wide_deep(const char *type, const char *data_dir, const est_run_config *config)
{
    est_columns    *set       = est_columns_create();
    model_columns   columns   = build_model_columns(set);
    est_estimator  *estimator = NULL;
    est_parse_spec *features  = NULL,
                   *rows      = NULL; /* what the export is fed; that and the label, which the files have */
    est_column_list used      = feature_columns(type, &columns);
    est_status      status;

    status = build_estimator(type, &columns, config, &estimator);
    if (status == EST_OK) status = est_parse_spec_create(used, &features);
    if (status == EST_OK) status = est_classifier_parse_spec(EST_CANNED(.columns = used, INCOME), &rows);
    if (status == EST_OK) {
        census            files  = { data_dir, est_parse_spec_csv(rows) };
        est_serving_input served = { 0 };

        served.parse = est_parse_spec_features(features);
        status       = run(estimator, &files, served);
    }
    est_parse_spec_free(rows);
    est_parse_spec_free(features);
    est_estimator_free(estimator);
    est_columns_free(set);
    return status;
}

int main(int argc, char **argv)
{
    const char *model_dir = NULL; /* a new temporary directory */
    uint64_t    seed      = 1;
    int         i         = 1;
    est_status  status;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[i + 1];
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else {
            break;
        }
    }
    if (argc != i + 2 ||
        (strcmp(argv[i], "wide") != 0 && strcmp(argv[i], "deep") != 0 && strcmp(argv[i], "wide_deep") != 0)) {
        fprintf(stderr, "usage: census_wide_deep [--model-dir DIR] [--seed N] wide|deep|wide_deep data-directory\n");
        return 2;
    }
    status = wide_deep(argv[i], argv[i + 1],
        EST_RUN_CONFIG(.model_dir = model_dir, .seed = seed, .save_checkpoints_steps = SAVE_STEPS,
            .max_worker_delay_secs = EST_OFF));
    if (status != EST_OK) fprintf(stderr, "census_wide_deep: %s: %s\n", est_status_name(status), est_error_message());
    return est_exit_code(status);
}
