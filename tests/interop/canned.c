/* SPDX-License-Identifier: Apache-2.0
 *
 * Canned estimators beside TensorFlow's: every class, head, kind of column and optimizer, over the same rows in the
 * same order. Each case goes both ways:
 *
 *     TensorFlow trains 100 steps; we go on from its step 0 to 50 and from its step 50 to 100, evaluate and predict;
 *     we train 100 steps; TensorFlow goes on from our step 50 to 100.
 *
 * Both must agree on every loss, every variable with the slots of its optimizers, every metric and every prediction.
 * canned.py has the same cases, makes the rows, and says how far they may be apart. */
#include <stdio.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/interop.h"

#define BATCH     16
#define PIECE     50 /* steps */
#define PREDICTED 6  /* rows */

/* --- columns ------------------------------------------------------------------------------------------------------ */

static est_columns *set;

#define N_NUMBERS    6
#define N_CATEGORIES 10
#define N_EMBEDDINGS 9

static const est_column *numbers[N_NUMBERS], *wide[N_NUMBERS + N_CATEGORIES + 1], *indicators[N_CATEGORIES];
static const est_column *embeddings[N_EMBEDDINGS], *shared[3], *still[3], *top[3], *deep[2], *linear[4];
static const est_column *many[N_NUMBERS + 2 * N_CATEGORIES + 1], *raised_weight;

static const char *const words[]  = { "red", "green", "blue", "pink" };
static const char *const spices[] = { "mint", "dill", "sage" }, *const answers[] = { "no", "yes" };
static const char *const tags[] = { "a", "b", "c", "d" };

static est_node centred(est_node x, const void *user)
{
    (void)user;
    return est_scale(est_shift(x, -150), 0.02);
}

static const est_column *embedding(const est_column *column, int64_t dimension, est_combiner combiner, double max_norm)
{
    return est_embedding_column(column, dimension, EST_EMBEDDING_COLUMN(.combiner = combiner, .max_norm = max_norm));
}

static void make_categories(est_columns *c, const est_column *ages, const est_column **out)
{
    const est_column *key = est_key_column(c, "key");

    out[0] = est_identity_column(c, "id", 6, EST_CATEGORICAL(.has_default = true, .default_value = 2));
    out[1] = est_hash_bucket_column(c, "word", 10, NULL);
    out[2] = est_hash_bucket_column(c, "number", 7, EST_CATEGORICAL(.dtype = EST_I64));
    out[3] = est_vocabulary_strings_column(c, "color", (est_strings){ words, 3 }, NULL);
    out[4] = est_vocabulary_strings_column(c, "shade", (est_strings){ words, 4 },
                                           EST_CATEGORICAL(.has_default = true, .default_value = 1));
    out[5] = est_vocabulary_file_column(c, "city", interop_path("cities.txt"), EST_CATEGORICAL(.num_oov_buckets = 2));
    out[6] = est_crossed_column(EST_COLUMN_LIST(key, est_key_column(c, "other")), 20, 7);
    out[7] = est_crossed_column(EST_COLUMN_LIST(key, ages, out[3]), 40, 0);
    out[8] = est_identity_column(c, "part", 5, NULL);
    out[9] = est_weighted_column(out[8], "parts");
}

/* Two columns with one table, and a vector. */
static void make_shared(const est_embedding_column_options *options, const est_column *vec, const est_column **out)
{
    est_shared_embedding_columns(
        EST_COLUMN_LIST(est_identity_column(set, "left", 7, NULL), est_identity_column(set, "right", 7, NULL)), 3,
        options, out);
    out[2] = vec;
}

static void make_columns(void)
{
    static const float half[] = { 0.5F };
    const est_column  *age, *vec, *c[N_CATEGORIES];

    age        = est_numeric_column(set, "age", NULL);
    vec        = est_numeric_column(set, "vec", EST_NUMERIC(.shape = EST_SHAPE(3)));
    numbers[0] = age;
    numbers[1] = vec;
    numbers[2] = est_numeric_column(set, "scaled", EST_NUMERIC(.normalizer = centred));
    numbers[3] = est_numeric_column(set, "gap", EST_NUMERIC(.default_value = { half, 1 }));
    numbers[4] = est_bucketized_column(age, EST_F32S(0.5F, 1, 2.5F));
    numbers[5] = est_bucketized_column(vec, EST_F32S(-1, 0));
    make_categories(set, numbers[4], c);
    memcpy(wide, numbers, sizeof numbers);
    memcpy(wide + N_NUMBERS, c, sizeof c);
    wide[N_NUMBERS + N_CATEGORIES] = est_embedding_column(c[2], 2, NULL);
    for (int i = 0; i < N_CATEGORIES; i++) indicators[i] = est_indicator_column(c[i]);
    memcpy(many, wide, sizeof wide);
    memcpy(many + sizeof wide / sizeof wide[0], indicators, sizeof indicators);
    embeddings[0] = est_embedding_column(c[0], 3, NULL);
    embeddings[1] = embedding(c[1], 2, EST_COMBINE_SUM, 0);
    embeddings[2] = embedding(c[2], 2, EST_COMBINE_SQRTN, 0);
    embeddings[3] = embedding(c[3], 2, EST_COMBINE_MEAN, 0.5);
    embeddings[4] = est_embedding_column(c[4], 1, EST_EMBEDDING_COLUMN(.frozen = true));
    embeddings[5] = embedding(c[5], 2, EST_COMBINE_SUM, 0.7);
    embeddings[6] = est_embedding_column(c[7], 2, NULL);
    embeddings[7] = embedding(c[8], 2, EST_COMBINE_SQRTN, 0);
    embeddings[8] = est_embedding_column(c[9], 2, NULL);
    make_shared(EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SUM), vec, shared);
    make_shared(EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SUM, .frozen = true), vec, still);
    make_shared(EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SUM, .collection_name = "sides"), vec, top);
    deep[0] = linear[0] = vec;
    deep[1]             = est_embedding_column(c[1], 2, NULL);
    linear[1]           = numbers[4];
    linear[2]           = c[1];
    linear[3]           = c[9];
    interop_check(est_columns_status(set));
}

#define LIST(columns) ((est_column_list){ (columns), (int)(sizeof(columns) / sizeof(columns)[0]) })

/* --- heads -------------------------------------------------------------------------------------------------------- */

static struct heads {
    est_head *binary, *multi_class, *multi_label, *multi_label_words, *regression, *poisson, *poisson_part, *logistic,
        *multi, *multi_two, *v1_binary;
} heads;

static void make_multi_heads(void)
{
    static const double weights[] = { 0.5, 1, 2 };
    est_head           *parts[4]  = { 0 };

    interop_check(est_regression_head(1, EST_HEAD(.name = "value"), &parts[0]));
    interop_check(est_binary_head(EST_HEAD(.name = "binary", .weight_column = "weight"), &parts[1]));
    interop_check(est_multi_class_head(3, EST_HEAD(.name = "level"), &parts[2]));
    interop_check(est_logistic_regression_head(EST_HEAD(.name = "share"), &parts[3]));
    interop_check(est_multi_head((est_heads){ parts, 3 }, (est_f64s){ weights, 3 }, &heads.multi));
    interop_check(
        est_multi_head((est_heads){ (est_head *const[]){ parts[0], parts[3] }, 2 }, (est_f64s){ 0 }, &heads.multi_two));
    for (int i = 0; i < 4; i++) est_head_free(parts[i]);
}

static est_node raised(est_node x, const void *user)
{
    (void)user;
    return est_shift(est_scale(x, 2), 0.25);
}

static void make_heads(void)
{
    static const double  thresholds[] = { 0.25, 0.5, 0.9 }, low[] = { 0.3 };
    static const int64_t outer[] = { 0, 3 }, second[] = { 1 };

    raised_weight = est_numeric_column(set, "weight", EST_NUMERIC(.normalizer = raised));
    interop_check(
        est_binary_head(EST_HEAD(.label = "binary_word", .weight_column = "weight", .thresholds = { thresholds, 3 },
                                 .label_vocabulary = { answers, 2 }, .loss_reduction = EST_LOSS_SUM),
                        &heads.binary));
    interop_check(
        est_binary_head(EST_HEAD(.label = "binary_word", .weight_column = "weight", .thresholds = { thresholds, 3 },
                                 .label_vocabulary = { answers, 2 }, .v1 = true),
                        &heads.v1_binary));
    interop_check(est_multi_class_head(
        3, EST_HEAD(.name = "spices", .label = "spice", .weight_column = "weight", .label_vocabulary = { spices, 3 }),
        &heads.multi_class));
    interop_check(est_multi_label_head(
        4,
        EST_HEAD(.label = "tags", .weight_column = "weight", .thresholds = { low, 1 }, .metric_classes = { outer, 2 }),
        &heads.multi_label));
    interop_check(est_multi_label_head(
        4, EST_HEAD(.label = "tag_words", .label_vocabulary = { tags, 4 }, .metric_classes = { second, 1 }),
        &heads.multi_label_words));
    interop_check(est_regression_head(2, EST_HEAD(.label = "pair", .weight_column = "weight", .inverse_link = est_tanh),
                                      &heads.regression));
    interop_check(est_poisson_head(1, EST_HEAD(.label = "count"), &heads.poisson));
    interop_check(est_poisson_head(1, EST_HEAD(.label = "count", .no_full_loss = true, .loss_reduction = EST_LOSS_SUM),
                                   &heads.poisson_part));
    interop_check(
        est_logistic_regression_head(EST_HEAD(.label = "share", .weight_numeric = raised_weight), &heads.logistic));
    make_multi_heads();
}

static void free_heads(void)
{
    est_head *all[sizeof heads / sizeof(est_head *)];

    memcpy(all, &heads, sizeof heads);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) est_head_free(all[i]);
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

typedef est_status (*make_fn)(const est_canned_options *options, est_estimator **out);

typedef struct canned_case {
    const char        *name;
    make_fn            make;
    est_canned_options o;
} canned_case;

#define N_CASES 43
static canned_case cases[N_CASES], shared_trained, halves[2];
static int         n_cases;

static void add(const char *name, make_fn make, const est_canned_options *options)
{
    assert_true(n_cases < N_CASES);
    cases[n_cases++] = (canned_case){ name, make, *options };
}

static const int64_t layers[] = { 5, 3 }, layer[] = { 4 };

#define DEEP(list, ...)   EST_CANNED(.columns = LIST(list), .hidden_units = { layers, 2 }, __VA_ARGS__)
#define LINEAR(list, ...) EST_CANNED(.columns = LIST(list), __VA_ARGS__)
#define BOTH(...)                                                                                                      \
    EST_CANNED(.dnn_columns = LIST(deep), .linear_columns = LIST(linear), .hidden_units = { layer, 1 }, __VA_ARGS__)

#define NAMED(optimizer)  ((est_canned_optimizer){ .name = (optimizer) })
#define OBJECT(optimizer) ((est_canned_optimizer){ .value = (optimizer) })

static void add_classes(void)
{
    add("dnn_classifier", est_dnn_classifier, DEEP(deep, .label = "binary"));
    add("dnn_classifier_3", est_dnn_classifier,
        DEEP(deep, .label = "spice", .n_classes = 3, .label_vocabulary = { spices, 3 }, .weight_column = "weight",
             .optimizer = NAMED("Adam")));
    add("dnn_classifier_norm", est_dnn_classifier,
        DEEP(deep, .label = "binary_word", .label_vocabulary = { answers, 2 }, .batch_norm = true,
             .activation = est_tanh, .optimizer = NAMED("RMSProp")));
    add("dnn_regressor", est_dnn_regressor, DEEP(deep, .label = "value", .optimizer = NAMED("SGD")));
    add("dnn_regressor_2", est_dnn_regressor,
        DEEP(deep, .label = "pair", .label_dimension = 2, .weight_column = "weight", .loss_reduction = EST_LOSS_SUM,
             .optimizer = NAMED("Ftrl")));
    add("linear_classifier", est_linear_classifier, LINEAR(linear, .label = "binary"));
    add("linear_regressor", est_linear_regressor,
        LINEAR(linear, .label = "pair", .label_dimension = 2, .optimizer = NAMED("Adagrad")));
    add("combined_classifier", est_dnn_linear_combined_classifier, BOTH(.label = "level", .n_classes = 3));
    add("combined_regressor", est_dnn_linear_combined_regressor,
        BOTH(.label = "value", .dnn_optimizer = NAMED("Adam"), .linear_optimizer = NAMED("SGD"),
             .loss_reduction = EST_LOSS_SUM));
    add("combined_deep", est_dnn_linear_combined_classifier,
        EST_CANNED(.dnn_columns = LIST(deep), .hidden_units = { layer, 1 }, .batch_norm = true, .label = "binary",
                   .dnn_optimizer = NAMED("RMSProp")));
    add("combined_wide", est_dnn_linear_combined_regressor,
        EST_CANNED(.linear_columns = LIST(linear), .label = "value"));
    add("baseline_classifier", est_baseline_classifier,
        EST_CANNED(.label = "level", .n_classes = 3, .weight_column = "weight"));
    add("baseline_regressor", est_baseline_regressor, EST_CANNED(.label = "value", .optimizer = NAMED("Adam")));
}

static void add_heads(void)
{
    est_optimizer adagrad = est_adagrad(0.1, EST_ADAGRAD(.keras = true));

    add("binary_head", est_dnn_estimator, DEEP(deep, .head = heads.binary, .optimizer = OBJECT(adagrad)));
    add("multi_class_head", est_dnn_linear_combined_estimator,
        BOTH(.head = heads.multi_class, .dnn_optimizer = OBJECT(est_adam(0.01, EST_ADAM(.keras = true))),
             .linear_optimizer = OBJECT(est_ftrl(0.1, EST_FTRL(.l1 = 0.01, .l2 = 0.02, .keras = true)))));
    add("multi_label_head", est_linear_estimator,
        LINEAR(
            linear, .head = heads.multi_label,
            .optimizer = OBJECT(est_rms_prop(0.01, EST_RMS_PROP(.momentum = 0.5, .centered = true, .keras = true)))));
    add("multi_label_words", est_dnn_estimator,
        DEEP(deep, .head = heads.multi_label_words,
             .optimizer = OBJECT(est_momentum(0.1, EST_MOMENTUM(.nesterov = true, .keras = true)))));
    add("regression_head", est_dnn_estimator,
        DEEP(deep, .head = heads.regression,
             .optimizer = OBJECT(est_adagrad(0.05, EST_ADAGRAD(.initial_accumulator = 0.3, .keras = true)))));
    add("poisson_head", est_baseline_estimator,
        EST_CANNED(.head = heads.poisson, .optimizer = OBJECT(est_momentum(0.1, EST_MOMENTUM(.keras = true)))));
    add("poisson_head_part", est_linear_estimator,
        LINEAR(linear, .head = heads.poisson_part,
               .optimizer = OBJECT(est_momentum(0.01, EST_MOMENTUM(.momentum = 0.5, .keras = true)))));
    add("logistic_head", est_linear_estimator,
        LINEAR(linear, .head = heads.logistic,
               .optimizer = OBJECT(est_adam(0.05, EST_ADAM(.epsilon = 1e-4, .keras = true)))));
    add("multi_head", est_dnn_estimator, DEEP(deep, .head = heads.multi, .optimizer = OBJECT(adagrad)));
    add("multi_head_combined", est_dnn_linear_combined_estimator, BOTH(.head = heads.multi_two, .batch_norm = true));
}

static void add_columns(void)
{
    est_optimizer adagrad = est_adagrad(0.1, EST_ADAGRAD(.keras = true));

    add("numbers", est_dnn_classifier, DEEP(numbers, .label = "binary", .optimizer = OBJECT(adagrad)));
    add("indicators", est_dnn_classifier, DEEP(indicators, .label = "binary", .optimizer = OBJECT(adagrad)));
    add("embeddings", est_dnn_classifier,
        DEEP(embeddings, .label = "binary", .optimizer = OBJECT(est_adam(0.02, EST_ADAM(.keras = true)))));
    add("shared", est_dnn_classifier, DEEP(still, .label = "binary", .optimizer = OBJECT(adagrad)));
    add("shared_linear", est_linear_classifier, LINEAR(still, .label = "binary"));
    shared_trained = (canned_case){ "shared_trained", est_dnn_classifier,
                                    *DEEP(top, .label = "binary", .optimizer = OBJECT(adagrad)) };
    add("wide", est_linear_classifier, LINEAR(wide, .label = "binary"));
    add("linear_none", est_linear_classifier,
        LINEAR(many, .label = "binary", .optimizer = NAMED("None"), .weight_numeric = raised_weight));
    add("linear_mean", est_linear_regressor,
        LINEAR(linear, .label = "value", .sparse_combiner = EST_COMBINE_MEAN,
               .optimizer = OBJECT(est_ftrl(0.1, EST_FTRL(.l1 = 0.01, .l2 = 0.02, .keras = true)))));
    add("linear_sqrtn", est_linear_classifier,
        LINEAR(linear, .label = "level", .n_classes = 3, .sparse_combiner = EST_COMBINE_SQRTN,
               .optimizer = NAMED("Adam")));
}

static void add_v1(void)
{
    add("v1_dnn_classifier", est_dnn_classifier,
        DEEP(deep, .v1 = true, .label = "level", .n_classes = 3, .batch_norm = true, .loss_reduction = EST_LOSS_MEAN,
             .weight_column = "weight", .optimizer = NAMED("Adam")));
    add("v1_dnn_regressor", est_dnn_regressor,
        DEEP(deep, .v1 = true, .label = "pair", .label_dimension = 2, .weight_column = "weight",
             .loss_reduction = EST_LOSS_SUM_OVER_BATCH_SIZE, .optimizer = NAMED("RMSProp")));
    halves[0] = (canned_case){ "v1_dnn_halves", est_dnn_classifier,
                               *DEEP(deep, .v1 = true, .label = "binary", .optimizer = NAMED("Adagrad")) };
    halves[1] = (canned_case){ "v1_linear_halves", est_linear_classifier,
                               *LINEAR(linear, .v1 = true, .label = "binary", .optimizer = NAMED("Ftrl")) };
    add("v1_shared", est_dnn_classifier,
        DEEP(shared, .v1 = true, .label = "binary", .optimizer = OBJECT(est_sgd(0.05))));
    add("v1_linear_classifier", est_linear_classifier,
        LINEAR(linear, .v1 = true, .label = "binary", .sparse_combiner = EST_COMBINE_MEAN,
               .optimizer = OBJECT(est_ftrl(0.05, EST_FTRL(.l1 = 0.1, .l2 = 0.2)))));
    add("v1_linear_none", est_linear_classifier,
        LINEAR(many, .v1 = true, .label = "binary", .optimizer = NAMED("None")));
    add("v1_linear_regressor", est_linear_regressor,
        LINEAR(linear, .v1 = true, .label = "value", .optimizer = OBJECT(est_adam(0.02, NULL))));
    add("v1_combined_classifier", est_dnn_linear_combined_classifier,
        BOTH(.v1 = true, .label = "level", .n_classes = 3));
    add("v1_combined_regressor", est_dnn_linear_combined_regressor,
        BOTH(.v1 = true, .label = "value", .weight_column = "weight",
             .loss_reduction = EST_LOSS_SUM_OVER_NONZERO_WEIGHTS, .dnn_optimizer = NAMED("RMSProp"),
             .linear_optimizer = NAMED("Adagrad")));
    add("v1_dnn_estimator", est_dnn_estimator, DEEP(deep, .v1 = true, .head = heads.v1_binary));
    add("v1_baseline_classifier", est_baseline_classifier,
        EST_CANNED(.v1 = true, .label = "binary", .weight_column = "weight"));
    add("v1_baseline_regressor", est_baseline_regressor,
        EST_CANNED(.v1 = true, .label = "value", .optimizer = NAMED("Adagrad")));
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void add_lists(est_column_list list, const est_column **all, int *n)
{
    for (int i = 0; i < list.n; i++) all[(*n)++] = list.data[i];
}

/* What the columns of the case read (of a baseline: a vector), and every label and the weight. */
static void parse_spec(const canned_case *c, est_parse_spec **out)
{
    const est_feature_spec more[] = {
        { .name = "binary", .dtype = EST_I64, .shape = EST_SHAPE(1) },
        { .name = "binary_word", .dtype = EST_STRING, .shape = EST_SHAPE(1) },
        { .name = "level", .dtype = EST_I64, .shape = EST_SHAPE(1) },
        { .name = "spice", .dtype = EST_STRING, .shape = EST_SHAPE(1) },
        { .name = "value", .dtype = EST_F32, .shape = EST_SHAPE(1) },
        { .name = "pair", .dtype = EST_F32, .shape = EST_SHAPE(2) },
        { .name = "count", .dtype = EST_F32, .shape = EST_SHAPE(1) },
        { .name = "share", .dtype = EST_F32, .shape = EST_SHAPE(1) },
        { .name = "tags", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
        { .name = "tag_words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
        { .name = "weight", .dtype = EST_F32, .shape = EST_SHAPE(1) },
    };
    const est_column *all[64] = { deep[0] };
    int               n       = 1;

    add_lists(c->o.columns, all, &n);
    add_lists(c->o.dnn_columns, all, &n);
    add_lists(c->o.linear_columns, all, &n);
    interop_check(est_parse_spec_create((est_column_list){ all, n }, out));
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) interop_check(est_parse_spec_add(*out, &more[i]));
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    est_parse_spec *spec = NULL;
    est_dataset    *d;

    parse_spec(user, &spec);
    d = est_dataset_files(interop_path(context->mode == EST_TRAIN ? "train.tfrecord" : "eval.tfrecord"));
    d = est_dataset_tfrecords(d, NULL);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    if (context->mode == EST_PREDICT) d = est_dataset_take(d, PREDICTED);
    d = est_dataset_parse_examples(d, est_parse_spec_features(spec), BATCH, NULL);
    est_parse_spec_free(spec);
    return est_dataset_finish(d, out);
}

/* The estimator of a case in the folder "<case><suffix>". */
static est_estimator *make(const canned_case *c, const char *suffix)
{
    est_canned_options o = c->o;
    est_estimator     *e = NULL;
    char               dir[64];

    snprintf(dir, sizeof dir, "%s%s", c->name, suffix);
    o.model_dir = interop_path(dir);
    o.config    = EST_RUN_CONFIG(.seed = 1, .save_checkpoints_steps = PIECE, .save_summary_steps = EST_OFF,
                                 .log_step_count_steps = EST_OFF, .quiet = true, .cluster_json = "{}");
    interop_check(c->make(&o, &e));
    return e;
}

/* A hook that keeps the losses of all steps. */
typedef struct losses {
    est_hook hook;
    float    at[2 * PIECE];
    int      n;
} losses;

static est_status losses_after_run(est_hook *hook, est_loop *loop)
{
    losses *l = EST_CONTAINER_OF(hook, losses, hook);

    assert_true(l->n < 2 * PIECE);
    l->at[l->n++] = (float)est_loop_loss(loop);
    return EST_OK;
}

static void tell_floats(est_strbuf *told, const char *name, est_shape shape, const float *values)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_f32(shape, values, &tensor));
    interop_tensor(told, name, tensor);
    est_tensor_free(tensor);
}

/* Trains in the folder "<case><suffix>" to a step and tells the losses on the way. */
static void train(canned_case *c, const char *suffix, int64_t max_steps, est_strbuf *told)
{
    losses         l = { .hook = EST_HOOK(.after_run = losses_after_run) };
    est_estimator *e = make(c, suffix);

    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = c, .max_steps = max_steps,
                                                 .hooks = EST_HOOKS(&l.hook))));
    est_estimator_free(e);
    tell_floats(told, suffix, EST_SHAPE(l.n), l.at);
}

static void evaluate(est_estimator *e, canned_case *c, est_strbuf *told)
{
    est_metrics *metrics = NULL;
    char         name[128];

    interop_check(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = c), &metrics));
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        float value = (float)est_metrics_value(metrics, i);

        snprintf(name, sizeof name, "metric/%s", est_metrics_name(metrics, i));
        tell_floats(told, name, EST_SHAPE(), &value);
    }
    est_metrics_free(metrics);
}

static void predict(est_estimator *e, canned_case *c, est_strbuf *told)
{
    est_predictions *p = NULL;
    char             name[128];
    est_status       status;

    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = input_fn, .input_user = c), &p));
    for (int row = 0; (status = est_predictions_next(p)) == EST_OK; row++) {
        for (int i = 0; i < est_predictions_count(p); i++) {
            const char *key = est_predictions_key(p, i);

            snprintf(name, sizeof name, "prediction/%d/%s", row, key);
            interop_tensor(told, name, est_predictions_get(p, key));
        }
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    est_predictions_free(p);
}

/* A parse spec as tensors: "<case>/<feature>/<dtype>/<rows>" is the shape, "<case>/<feature>/default" the default. */
static void tell_spec(est_strbuf *told, const char *name,
                      est_status (*make_spec)(const est_canned_options *options, est_parse_spec **out),
                      const est_canned_options *options)
{
    est_parse_spec         *spec = NULL;
    const est_feature_spec *f;
    int                     n;

    interop_check(make_spec(options, &spec));
    f = est_parse_spec_features(spec).data;
    n = est_parse_spec_features(spec).n;
    for (int i = 0; i < n; i++) {
        est_tensor *shape = NULL;
        char        key[128];

        snprintf(key, sizeof key, "%s/%s/%s/%s", name, f[i].name, est_dtype_name(f[i].dtype),
                 f[i].rows == EST_ROWS_RAGGED ? "var" : "fixed");
        interop_check(est_tensor_i64(EST_SHAPE(f[i].shape.rank), f[i].shape.dim, &shape));
        interop_tensor(told, key, shape);
        est_tensor_free(shape);
        snprintf(key, sizeof key, "%s/%s/default", name, f[i].name);
        if (f[i].default_value != NULL) interop_tensor(told, key, f[i].default_value);
    }
    est_parse_spec_free(spec);
}

static void ask(const char *what, const canned_case *c)
{
    char request[64];

    snprintf(request, sizeof request, "%s %s", what, c->name);
    interop_ask(request);
}

static void test_case(void **state)
{
    canned_case   *c    = *state;
    est_strbuf     told = { 0 };
    est_estimator *e;
    char           file[64];

    assert_non_null(deep[0]); /* test_start made them */
    ask("train", c);
    train(c, ".0", PIECE, &told);
    train(c, ".50", 2 * PIECE, &told);
    e = make(c, ".50");
    evaluate(e, c, &told);
    predict(e, c, &told);
    est_estimator_free(e);
    train(c, ".ours", 2 * PIECE, &told);
    snprintf(file, sizeof file, "%s.told", c->name);
    interop_save(file, &told);
    ask("check", c);
}

/* Goes on from a checkpoint of TensorFlow, which has no slots for the table since it never trains it; and back. */
TEST(shared_trained)
{
    est_strbuf told = { 0 };

    ask("train", &shared_trained);
    train(&shared_trained, ".0", PIECE, &told);
    ask("check_trained", &shared_trained);
    est_strbuf_clear(&told);
}

/* Goes on from checkpoints whose variables and slots are in parts. */
TEST(partitioned)
{
    for (int i = 0; i < 2; i++) {
        est_strbuf told = { 0 };
        char       file[64];

        ask("train", &halves[i]);
        train(&halves[i], ".0", PIECE, &told);
        train(&halves[i], ".50", 2 * PIECE, &told);
        snprintf(file, sizeof file, "%s.told", halves[i].name);
        interop_save(file, &told);
        ask("check_partitioned", &halves[i]);
    }
}

/* How Examples are parsed for a model: a name, and what options say. */
TEST(specs)
{
    static const float   seven[] = { 7 }, rate[] = { 0.5F }, pair[] = { 1.5F, -2 };
    static const int64_t two[]   = { 2 };
    const est_column    *counted = est_numeric_column(
           set, "counts", EST_NUMERIC(.shape = EST_SHAPE(2), .dtype = EST_I64, .default_value = { seven, 1 }));
    const est_column *scaled = est_numeric_column(set, "weight",
                                                  EST_NUMERIC(.normalizer = raised, .default_value = { rate, 1 }));
    const est_column *some[] = { counted, deep[1], wide[N_NUMBERS + 2] };
    est_tensor       *word = NULL, *number = NULL, *real = NULL, *reals = NULL;
    est_strbuf        told = { 0 };

    interop_check(est_tensor_string("no", 2, &word));
    interop_check(est_tensor_i64(EST_SHAPE(1), two, &number));
    interop_check(est_tensor_f32(EST_SHAPE(1), rate, &real));
    interop_check(est_tensor_f32(EST_SHAPE(2), pair, &reals));
    tell_spec(&told, "plain", est_classifier_parse_spec, LINEAR(some, .label = "y"));
    tell_spec(&told, "none", est_classifier_parse_spec, EST_CANNED(.label = "y"));
    tell_spec(&told, "default", est_classifier_parse_spec,
              LINEAR(some, .label = "y", .n_classes = 3, .label_default = number, .weight_column = "weight"));
    tell_spec(&told, "words", est_classifier_parse_spec,
              LINEAR(some, .label = "y", .label_vocabulary = { answers, 2 }, .label_default = word,
                     .weight_numeric = scaled));
    tell_spec(&told, "shares", est_classifier_parse_spec,
              LINEAR(some, .label = "y", .label_dtype = EST_F32, .label_default = real));
    tell_spec(&told, "real", est_regressor_parse_spec, LINEAR(some, .label = "y", .weight_column = "weight"));
    tell_spec(&told, "reals", est_regressor_parse_spec,
              LINEAR(some, .label = "y", .label_dimension = 2, .label_default = reals, .weight_numeric = scaled));
    tell_spec(&told, "integers", est_regressor_parse_spec,
              LINEAR(some, .label = "y", .label_dtype = EST_I64, .label_default = number));
    est_tensor_free(word);
    est_tensor_free(number);
    est_tensor_free(real);
    est_tensor_free(reals);
    interop_save("specs", &told);
    interop_ask("specs");
}

/* Makes the rows on the other side, and the columns, which read a vocabulary there. */
static void test_start(void **state)
{
    (void)state;
    interop_ask("start");
    make_columns();
}

int main(void)
{
    int failed;

    est_log_set_level(EST_LOG_ERROR);
    set = est_columns_create();
    assert_non_null(set);
    make_heads();
    add_classes();
    add_heads();
    add_columns();
    add_v1();
    assert_int_equal(n_cases, N_CASES);
    est_test_row("test_start", test_start, NULL);
    for (int i = 0; i < N_CASES; i++) est_test_row(cases[i].name, test_case, &cases[i]);
    failed = INTEROP_MAIN("canned");
    est_columns_free(set);
    free_heads();
    return failed;
}
