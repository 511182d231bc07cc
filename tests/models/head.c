/* SPDX-License-Identifier: Apache-2.0
 *
 * What heads share: options they refuse, labels and weights that do not fit, names of metrics and summaries,
 * regularization, signatures, parse specs. The numbers are in tests/models/heads.c. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "estimator/model.h"
#include "models/head.h"
#include "support/estimator_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static void assert_refused(est_status status, const char *text)
{
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    est_test_error_has(text);
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static est_node any_loss(est_node labels, est_node logits, est_features features, void *user)
{
    (void)features;
    (void)user;
    return est_abs(est_sub(labels, logits));
}

TEST(options)
{
    static const char *const words[] = { "a", "b", "a" };
    const double             bad = 1.5, good = 0.5;
    const int64_t            class_3 = 3;
    est_columns             *set     = est_columns_create();
    const est_column        *w       = est_numeric_column(set, "w", NULL);
    const est_column        *id      = est_identity_column(set, "id", 3, NULL);
    est_head                *head    = NULL;
    est_head_options         plain   = { .v1 = true };

    assert_refused(est_regression_head(1, EST_HEAD(.thresholds = { &good, 1 }), &head),
                   "regression head: it has no option thresholds");
    assert_refused(est_multi_class_head(3, EST_HEAD(.inverse_link = est_exp), &head), "no option inverse_link");
    assert_refused(est_logistic_regression_head(EST_HEAD(.loss_fn = any_loss), &head), "no option loss_fn");
    assert_refused(est_binary_head(EST_HEAD(.no_full_loss = true), &head), "no option no_full_loss");
    assert_refused(est_binary_head(EST_HEAD(.metric_classes = { &class_3, 1 }), &head), "no option metric_classes");
    assert_refused(est_multi_label_head(3, EST_HEAD(.v1 = true), &head), "no option v1");
    assert_refused(est_poisson_head(1, EST_HEAD(.label_vocabulary = { words, 3 }), &head),
                   "no option label_vocabulary");

    assert_refused(est_binary_head(EST_HEAD(.thresholds = { &bad, 1 }), &head), "threshold 0 is 1.5");
    assert_refused(est_binary_head(EST_HEAD(.loss_reduction = EST_LOSS_NONE), &head), "EST_LOSS_NONE");
    assert_refused(est_binary_head(EST_HEAD(.weight_column = "w", .weight_numeric = w), &head), "both given");
    assert_refused(est_binary_head(EST_HEAD(.weight_numeric = id), &head), "\"id\", is ");
    assert_refused(est_binary_head(EST_HEAD(.label_vocabulary = { words, 3 }), &head), "3 entries for 2 classes");
    assert_refused(est_multi_class_head(3, EST_HEAD(.label_vocabulary = { words, 3 }), &head), "'a' twice, at 0 and 2");
    assert_refused(est_multi_label_head(3, EST_HEAD(.metric_classes = { &class_3, 1 }), &head),
                   "metric_classes has 3, classes are 0 to 2");
    assert_refused(est_multi_class_head(2, NULL, &head), "use est_binary_head");
    assert_refused(est_multi_label_head(1, NULL, &head), "at least 2 classes, got 1");
    assert_refused(est_regression_head(-1, NULL, &head), "at least 1, got -1");
    assert_refused(est_binary_head(&plain, &head), "EST_HEAD");
    assert_null(head);
    est_columns_free(set);
}

/* Comparing all pairs of these would take minutes. */
TEST(large_vocabulary)
{
    enum { CLASSES = 300000 };
    char(*text)[8]          = est_alloc(CLASSES * sizeof *text);
    const char **vocabulary = est_alloc(CLASSES * sizeof *vocabulary);
    est_head    *head       = NULL;

    assert_non_null(text);
    assert_non_null(vocabulary);
    for (int i = 0; i < CLASSES; i++) {
        (void)snprintf(text[i], sizeof text[i], "%d", i);
        vocabulary[i] = text[i];
    }
    assert_ok(est_multi_class_head(CLASSES, EST_HEAD(.label_vocabulary = { vocabulary, CLASSES }), &head));
    est_head_free(head);
    est_free(vocabulary);
    est_free(text);
}

TEST(multi_head_refusals)
{
    est_head *a = NULL, *b = NULL, *sum = NULL, *plain = NULL, *multi = NULL, *none = NULL;

    assert_ok(est_binary_head(EST_HEAD(.name = "a"), &a));
    assert_ok(est_binary_head(EST_HEAD(.name = "b"), &b));
    assert_ok(est_binary_head(EST_HEAD(.name = "sum", .loss_reduction = EST_LOSS_SUM), &sum));
    assert_ok(est_binary_head(NULL, &plain));
    assert_ok(est_multi_head((est_heads){ (est_head *[]){ a, b }, 2 }, (est_f64s){ 0 }, &multi));
    assert_string_equal(est_head_name(multi), "a_b");
    assert_int_equal(est_head_logits(multi), 2);
    assert_null(est_head_name(plain));

    assert_refused(est_multi_head((est_heads){ &a, 0 }, (est_f64s){ 0 }, &none), "at least one head");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ a, NULL }, 2 }, (est_f64s){ 0 }, &none),
                   "multi-head: head 1 of 2 is NULL");
    assert_refused(
        est_multi_head((est_heads){ (est_head *[]){ a, b }, 2 }, (est_f64s){ (const double[]){ 1, NAN }, 2 }, &none),
        "multi-head: the weight of head 1 is nan, it must be a finite number");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ a, b }, 2 },
                                  (est_f64s){ (const double[]){ INFINITY, 1 }, 2 }, &none),
                   "the weight of head 0 is inf");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ a, plain }, 2 }, (est_f64s){ 0 }, &none),
                   "head 1, a binary head, needs a name");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ a, a }, 2 }, (est_f64s){ 0 }, &none),
                   "two heads are called a");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ a, sum }, 2 }, (est_f64s){ 0 }, &none),
                   "a and sum differ in loss_reduction");
    assert_refused(est_multi_head((est_heads){ (est_head *[]){ multi, a }, 2 }, (est_f64s){ 0 }, &none),
                   "cannot hold a multi-head");
    assert_null(none);
    est_head_free(a);
    est_head_free(b);
    est_head_free(sum);
    est_head_free(plain);
    est_head_free(multi); /* holds the first two until now */
    est_head_free(NULL);
}

/* --- models of nothing but a head --------------------------------------------------------------------------------- */

/* What a model is made of: the width of the logits, and whether a regularized layer makes them. */
typedef struct plan {
    est_head               *head;
    int64_t                 width;
    bool                    regularized;
    est_head_finish_options finish;
} plan;

static int finish_line; /* of this file, where est_head_finish is called */

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const plan *p = params;
    est_node    x = est_model_feature(model, "x");

    if (p->regularized) {
        x = est_dense(x, p->width,
                      EST_DENSE(.kernel_initializer = est_init_ones(), .kernel_regularizer = est_l2_regularizer(0.5)));
    }
    finish_line = __LINE__ + 1;
    return est_head_finish(p->head, model, mode, x, p->finish.struct_size > 0 ? &p->finish : NULL);
}

static est_dataset *rows_of(const est_named_tensor *tensors, int n)
{
    est_dataset *d = est_dataset_batch(est_dataset_slices((est_named_tensors){ tensors, n }), 4, NULL), *out = NULL;

    assert_ok(est_dataset_finish(d, &out));
    return out;
}

static est_tensor *zeros_f32(est_shape shape)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_create(EST_F32, shape, &t));
    memset(est_tensor_mutable_data(t), 0, est_tensor_bytes(t));
    return t;
}

static est_tensor *of_type(est_dtype dtype, est_shape shape)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_create(dtype, shape, &t));
    if (dtype != EST_STRING) memset(est_tensor_mutable_data(t), 0, est_tensor_bytes(t));
    return t;
}

/* Builds a model over zeros; label and weight may be NULL. */
static est_status build(const plan *p, est_mode mode, int64_t inputs, const char *label, est_tensor *labels,
                        est_tensor *weights, est_model **out)
{
    static const est_run_config config;
    est_named_tensor            tensors[3] = { { "x", zeros_f32(EST_SHAPE(4, inputs)) } };
    int                         n          = 1;
    est_dataset                *input;
    est_model                  *model = NULL;
    est_status                  status;

    if (labels != NULL) tensors[n++] = (est_named_tensor){ label, labels };
    if (weights != NULL) tensors[n++] = (est_named_tensor){ "w", weights };
    input = rows_of(tensors, n);
    for (int i = 0; i < n; i++) est_tensor_free(tensors[i].tensor);
    assert_ok(est_model_create(mode, &config, NULL, input, 1, &model));
    status = est_model_build(model, model_fn, p);
    est_dataset_free(input);
    if (status != EST_OK || out == NULL) {
        est_model_free(model);
    } else {
        *out = model;
    }
    return status;
}

TEST(labels_that_do_not_fit)
{
    static const char *const words[] = { "no", "yes" };
    est_head                *binary = NULL, *named = NULL, *three = NULL, *labels = NULL, *real = NULL;
    char                     where[64];

    assert_ok(est_binary_head(NULL, &binary));
    assert_ok(est_binary_head(EST_HEAD(.name = "bought", .label_vocabulary = { words, 2 }), &named));
    assert_ok(est_multi_class_head(3, EST_HEAD(.label = "kind"), &three));
    assert_ok(est_multi_label_head(3, NULL, &labels));
    assert_ok(est_regression_head(2, EST_HEAD(.weight_column = "w"), &real));

    assert_refused(build(&(plan){ binary }, EST_EVAL, 1, "other", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL),
                   "the label \"label\", but the input has no such component; it has: x, other");
    assert_refused(build(&(plan){ binary }, EST_EVAL, 1, "label", of_type(EST_I64, EST_SHAPE(4, 2)), NULL, NULL),
                   "binary head: labels 'label' have shape [?,2], which does not go with logits of shape [?,1]");
    assert_refused(build(&(plan){ binary }, EST_EVAL, 1, "label", of_type(EST_STRING, EST_SHAPE(4)), NULL, NULL),
                   "labels 'label' are strings; give the head a label_vocabulary");
    assert_refused(
        build(&(plan){ named }, EST_EVAL, 1, "bought", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL),
        "binary head bought: it has a label_vocabulary, so labels 'bought' must be strings, but they are int64");
    assert_refused(build(&(plan){ three }, EST_EVAL, 3, "kind", of_type(EST_F32, EST_SHAPE(4)), NULL, NULL),
                   "multi-class head: labels are float32, expected class numbers");
    assert_refused(build(&(plan){ labels }, EST_EVAL, 3, "label", of_type(EST_I64, EST_SHAPE(4, 2)), NULL, NULL),
                   "the last axis must be 3");
    assert_refused(build(&(plan){ real }, EST_EVAL, 2, "label", of_type(EST_STRING, EST_SHAPE(4, 2)), NULL, NULL),
                   "labels are strings, expected numbers");
    assert_refused(build(&(plan){ three }, EST_EVAL, 2, "kind", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL),
                   "multi-class head: logits have shape [?,2], the last of at least two axes must be 3");
    (void)snprintf(where, sizeof where, "head.c:%d: multi-class head: logits", finish_line);
    est_test_error_has(where);
    assert_refused(build(&(plan){ real }, EST_EVAL, 2, "label", of_type(EST_F32, EST_SHAPE(4, 2)),
                         of_type(EST_F32, EST_SHAPE(4, 3)), NULL),
                   "regression head: weights have shape [?,3], which does not go with logits of shape [?,2]");
    assert_ok(build(&(plan){ real }, EST_EVAL, 2, "label", of_type(EST_F32, EST_SHAPE(4, 2)),
                    of_type(EST_F32, EST_SHAPE(4, 2)), NULL)); /* one for each element */
    assert_refused(build(&(plan){ real }, EST_EVAL, 2, "label", of_type(EST_F32, EST_SHAPE(4, 2)),
                         of_type(EST_STRING, EST_SHAPE(4)), NULL),
                   "the weights are strings");
    assert_refused(build(&(plan){ real }, EST_EVAL, 2, "label", of_type(EST_F32, EST_SHAPE(4, 2)), NULL, NULL),
                   "the feature \"w\", but the input has no such component");
    est_head_free(binary);
    est_head_free(named);
    est_head_free(three);
    est_head_free(labels);
    est_head_free(real);
}

static est_node no_train_op(est_node loss, void *user)
{
    (void)user;
    return loss;
}

TEST(how_it_trains)
{
    est_head_finish_options both = { .struct_size = sizeof both, .optimizer = est_sgd(1), .train_op_fn = no_train_op };
    est_head               *head = NULL;

    assert_ok(est_binary_head(NULL, &head));
    assert_refused(build(&(plan){ head, 1, true }, EST_TRAIN, 1, "label", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL),
                   "none is given");
    assert_refused(
        build(&(plan){ head, 1, true, both }, EST_TRAIN, 1, "label", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL),
        "both are given");
    both.optimizer = (est_optimizer){ 0 };
    assert_ok(build(&(plan){ head, 1, true, both }, EST_TRAIN, 1, "label", of_type(EST_I64, EST_SHAPE(4)), NULL, NULL));
    est_head_free(head);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static const char *metric_names(const est_model *model, char out[1024])
{
    const est_model_metric_item *metrics = model->metrics.data;

    out[0] = '\0';
    for (int i = 0; i < model->metrics.n; i++) {
        (void)snprintf(out + strlen(out), 1024 - strlen(out), "%s ", metrics[i].name);
    }
    return out;
}

static const char *summary_tags(const est_model *model, char out[1024])
{
    const est_model_summary *summaries = model->summaries.data;

    out[0] = '\0';
    for (int i = 0; i < model->summaries.n; i++) {
        (void)snprintf(out + strlen(out), 1024 - strlen(out), "%s ", summaries[i].tag);
    }
    return out;
}

static void expect_summaries(est_head *head, const char *label, const char *tags)
{
    est_head_finish_options finish = { .struct_size = sizeof finish, .optimizer = est_sgd(1) };
    est_model              *model  = NULL;
    char                    text[1024];

    assert_ok(
        build(&(plan){ head, 1, true, finish }, EST_TRAIN, 1, label, of_type(EST_I64, EST_SHAPE(4)), NULL, &model));
    assert_string_equal(summary_tags(model, text), tags);
    est_model_free(model);
}

TEST(names)
{
    const double threshold = 0.1 + 0.2;
    est_head    *plain = NULL, *named = NULL, *v1 = NULL, *mean = NULL, *multi = NULL;
    est_model   *model = NULL;
    char         text[1024];

    assert_ok(est_binary_head(NULL, &plain));
    assert_ok(est_binary_head(EST_HEAD(.name = "bought", .thresholds = { &threshold, 1 }), &named));
    assert_ok(est_binary_head(EST_HEAD(.v1 = true), &v1));
    assert_ok(est_binary_head(EST_HEAD(.v1 = true, .loss_reduction = EST_LOSS_SUM_OVER_BATCH_SIZE), &mean));
    assert_ok(est_multi_head((est_heads){ &named, 1 }, (est_f64s){ 0 }, &multi));

    expect_summaries(plain, "label", "loss regularization_loss ");
    expect_summaries(named, "bought", "loss/bought regularization_loss/bought ");
    expect_summaries(v1, "label", "loss regularization_loss average_loss ");
    expect_summaries(mean, "label", "loss regularization_loss ");
    expect_summaries(multi, "bought", "loss regularization_loss loss/bought ");

    assert_ok(build(&(plan){ multi, 1, true }, EST_EVAL, 1, "bought", of_type(EST_I64, EST_SHAPE(4)), NULL, &model));
    assert_string_equal(metric_names(model, text),
                        "average_loss/bought loss/bought accuracy/bought precision/bought recall/bought "
                        "prediction/mean/bought label/mean/bought accuracy_baseline/bought auc/bought "
                        "auc_precision_recall/bought accuracy/positive_threshold_0.3/bought "
                        "precision/positive_threshold_0.3/bought recall/positive_threshold_0.3/bought "
                        "regularization_loss/bought ");
    est_model_free(model);
    est_head_free(plain);
    est_head_free(named);
    est_head_free(v1);
    est_head_free(mean);
    est_head_free(multi);
}

static void expect_export(const est_model *model, int i, const char *key, est_export_method method, const char *outputs)
{
    const est_model_export *e         = (const est_model_export *)model->exports.data + i;
    char                    text[256] = "";

    assert_true(i < model->exports.n);
    assert_string_equal(e->key, key);
    assert_int_equal(e->method, method);
    for (int k = 0; k < e->n_outputs; k++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", e->outputs[k].name);
    }
    assert_string_equal(text, outputs);
}

TEST(exports_of_several)
{
    est_head  *real = NULL, *labels = NULL, *multi = NULL;
    est_model *model = NULL;

    assert_ok(est_poisson_head(1, EST_HEAD(.name = "count"), &real));
    assert_ok(est_multi_label_head(2, EST_HEAD(.name = "tags"), &labels));
    assert_ok(est_multi_head((est_heads){ (est_head *[]){ real, labels }, 2 }, (est_f64s){ 0 }, &multi));
    assert_ok(build(&(plan){ multi }, EST_PREDICT, 3, NULL, NULL, NULL, &model));
    expect_export(model, 0, "serving_default", EST_EXPORT_REGRESS, "outputs ");
    expect_export(model, 1, "count", EST_EXPORT_REGRESS, "outputs ");
    expect_export(model, 2, "count/regression", EST_EXPORT_REGRESS, "outputs ");
    expect_export(model, 3, "count/predict", EST_EXPORT_PREDICT, "predictions logits ");
    expect_export(model, 4, "tags", EST_EXPORT_CLASSIFY, "classes scores ");
    expect_export(model, 5, "tags/classification", EST_EXPORT_CLASSIFY, "classes scores ");
    expect_export(model, 6, "tags/predict", EST_EXPORT_PREDICT, "logits probabilities classes ");
    expect_export(model, 7, "predict", EST_EXPORT_PREDICT,
                  "count/predictions count/logits tags/logits tags/probabilities tags/classes ");
    assert_int_equal(model->exports.n, 8);
    est_model_free(model);
    est_head_free(real);
    est_head_free(labels);
    est_head_free(multi);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Four rows of logits, labels and weights. */
typedef struct data {
    const float       *x; /* [4] */
    const int64_t     *ids;
    const char *const *words;
} data;

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const data *d = user;
    est_tensor *x = NULL, *label = NULL;

    (void)context;
    assert_ok(est_tensor_f32(EST_SHAPE(4, 1), d->x, &x));
    if (d->ids != NULL) {
        assert_ok(est_tensor_i64(EST_SHAPE(4), d->ids, &label));
    } else {
        assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(4), &label));
        for (int i = 0; i < 4; i++) assert_ok(est_tensor_set_string(label, i, d->words[i], strlen(d->words[i])));
    }
    *out = rows_of((est_named_tensor[]){ { "x", x }, { "label", label } }, 2);
    est_tensor_free(x);
    est_tensor_free(label);
    return EST_OK;
}

static est_status evaluate(const plan *p, data *d, est_metrics **out)
{
    est_estimator *e = NULL;
    est_status     status;
    char           dir[64];

    est_test_dir(dir);
    status = est_estimator_create(model_fn, EST_ESTIMATOR(.model_dir = dir, .params = p, .params_size = sizeof *p), &e);
    if (status == EST_OK) status = est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = d), out);
    est_estimator_free(e);
    est_test_dir_remove(dir);
    return status;
}

static const float ramp[] = { 1, 2, 3, 4 };

TEST(labels_out_of_range)
{
    static const char *const words[] = { "no", "yes" }, *const said[] = { "yes", "no", "perhaps", "no" };
    data         bad = { .x = ramp, .ids = (const int64_t[]){ 0, 1, 1, 2 } }, unknown = { .x = ramp, .words = said };
    est_head    *binary = NULL, *named = NULL, *three = NULL;
    est_metrics *metrics = NULL;

    assert_ok(est_binary_head(NULL, &binary));
    assert_ok(est_binary_head(EST_HEAD(.label_vocabulary = { words, 2 }), &named));
    assert_ok(est_multi_class_head(3, NULL, &three));
    assert_refused(evaluate(&(plan){ binary }, &bad, &metrics),
                   "binary head: labels 'label': element 3 is 2, not in [0, 1]");
    assert_refused(evaluate(&(plan){ named }, &unknown, &metrics),
                   "binary head: labels 'label': element 2 is \"perhaps\", which is not in the vocabulary");
    bad.ids = (const int64_t[]){ 0, -3, 1, 2 };
    assert_refused(evaluate(&(plan){ three, 3, true }, &bad, &metrics),
                   "multi-class head: labels 'label': element 1 is -3, not in [0, 2]");
    assert_null(metrics);
    est_head_free(binary);
    est_head_free(named);
    est_head_free(three);
}

/* As TensorFlow 2 has it, where v1 would say 1. */
TEST(no_weight_at_all)
{
    data         d       = { .x = (const float[]){ 0, 0, 0, 0 }, .ids = (const int64_t[]){ 0, 1, 1, 0 } };
    est_head    *head    = NULL;
    est_metrics *metrics = NULL;

    assert_ok(est_binary_head(EST_HEAD(.weight_column = "x"), &head));
    assert_ok(evaluate(&(plan){ head }, &d, &metrics));
    assert_true(est_metrics_get(metrics, "accuracy_baseline") == 0);
    assert_true(est_metrics_get(metrics, "label/mean") == 0);
    est_metrics_free(metrics);
    est_head_free(head);
}

TEST(regularization)
{
    data         d       = { .x = ramp, .ids = (const int64_t[]){ 1, 2, 3, 4 } }; /* the layer is the identity */
    est_head    *head    = NULL;
    est_metrics *metrics = NULL;

    assert_ok(est_regression_head(1, NULL, &head));
    assert_ok(evaluate(&(plan){ head, 1, true }, &d, &metrics));
    assert_near(est_metrics_get(metrics, "regularization_loss"), 0.5, 1e-6);
    assert_near(est_metrics_get(metrics, "loss"), 0.5, 1e-6);
    assert_near(est_metrics_get(metrics, "average_loss"), 0, 1e-6);
    est_metrics_free(metrics);
    est_head_free(head);
}

static est_node scaled_loss(est_node labels, est_node logits, est_features features, void *user)
{
    return est_scale(any_loss(labels, logits, features, NULL), *(const double *)user);
}

static est_node flat_loss(est_node labels, est_node logits, est_features features, void *user)
{
    return est_reshape(any_loss(labels, logits, features, user), EST_I64S(-1));
}

/* Costs what a feature says, whatever the label. */
static est_node feature_loss(est_node labels, est_node logits, est_features features, void *user)
{
    (void)labels;
    return est_add(est_scale(logits, 0), features.find(features.user, user).values);
}

TEST(loss_fn)
{
    data         d      = { .x = ramp, .ids = (const int64_t[]){ 0, 0, 0, 0 } };
    double       factor = 3;
    est_head    *own = NULL, *flat = NULL, *fed = NULL;
    est_metrics *metrics = NULL;

    assert_ok(est_regression_head(1, EST_HEAD(.loss_fn = feature_loss, .loss_user = "x"), &fed));
    assert_ok(evaluate(&(plan){ fed }, &d, &metrics));
    assert_near(est_metrics_get(metrics, "loss"), 2.5, 1e-6); /* the mean of the ramp */
    est_metrics_free(metrics);
    est_head_free(fed);
    metrics = NULL;

    assert_ok(est_regression_head(1, EST_HEAD(.loss_fn = scaled_loss, .loss_user = &factor), &own));
    assert_ok(evaluate(&(plan){ own }, &d, &metrics));
    assert_near(est_metrics_get(metrics, "loss"), 7.5, 1e-6);
    est_metrics_free(metrics);
    metrics = NULL;

    assert_ok(est_regression_head(1, EST_HEAD(.loss_fn = flat_loss), &flat));
    assert_refused(evaluate(&(plan){ flat }, &d, &metrics),
                   "loss_fn returned shape [?] for logits of shape [?,1]; its last axis must be 1");
    est_head_free(own);
    est_head_free(flat);
}

static est_node double_it(est_node values, const void *user)
{
    (void)user;
    return est_scale(values, 2);
}

/* A numeric column weighs by what its normalizer makes. */
TEST(weight_column)
{
    data              d       = { .x = ramp, .ids = (const int64_t[]){ 0, 0, 0, 0 } };
    est_columns      *set     = est_columns_create();
    const est_column *weight  = est_numeric_column(set, "x", EST_NUMERIC(.normalizer = double_it));
    est_head         *head    = NULL;
    est_metrics      *metrics = NULL;

    assert_ok(est_regression_head(1, EST_HEAD(.weight_numeric = weight), &head));
    assert_ok(evaluate(&(plan){ head }, &d, &metrics));
    assert_near(est_metrics_get(metrics, "loss"), 2 * (1 + 8 + 27 + 64) / 4.0, 1e-6);
    assert_near(est_metrics_get(metrics, "average_loss"), 100 / 10.0, 1e-6);
    est_metrics_free(metrics);
    est_head_free(head);
    est_columns_free(set);
}

/* --- parse specs -------------------------------------------------------------------------------------------------- */

static void expect_feature(const est_parse_spec *spec, int i, const char *name, est_dtype dtype, int64_t width)
{
    const est_feature_spec *features = est_parse_spec_features(spec).data;

    assert_true(i < est_parse_spec_features(spec).n);
    assert_string_equal(features[i].name, name);
    assert_int_equal(features[i].dtype, dtype);
    assert_int_equal(features[i].rows, width > 0 ? EST_ROWS_FIXED : EST_ROWS_RAGGED);
    if (width > 0) {
        assert_int_equal(features[i].shape.rank, 1);
        assert_int_equal(features[i].shape.dim[0], width);
    }
}

TEST(parse_spec)
{
    static const char *const words[] = { "a", "b", "c" };
    est_columns             *set     = est_columns_create();
    const est_column        *x = est_numeric_column(set, "x", NULL), *w = est_numeric_column(set, "w2", NULL);
    est_head                *heads[3] = { NULL }, *multi = NULL;
    est_parse_spec          *spec = NULL;

    assert_ok(est_multi_class_head(3, EST_HEAD(.name = "kind", .label_vocabulary = { words, 3 }, .weight_column = "w"),
                                   &heads[0]));
    assert_ok(est_regression_head(2, EST_HEAD(.name = "price", .weight_numeric = w), &heads[1]));
    assert_ok(est_multi_label_head(4, EST_HEAD(.name = "tags"), &heads[2]));
    assert_ok(est_multi_head((est_heads){ heads, 3 }, (est_f64s){ 0 }, &multi));
    assert_ok(est_parse_spec_create(EST_COLUMN_LIST(x), &spec));
    assert_ok(est_head_parse_spec(multi, spec));
    expect_feature(spec, 1, "kind", EST_STRING, 1);
    expect_feature(spec, 2, "w", EST_F32, 1);
    expect_feature(spec, 3, "price", EST_F32, 2);
    expect_feature(spec, 4, "w2", EST_F32, 1);
    expect_feature(spec, 5, "tags", EST_I64, 0);
    assert_refused(est_head_parse_spec(multi, spec), "kind");
    est_parse_spec_free(spec);
    for (int i = 0; i < 3; i++) est_head_free(heads[i]);
    est_head_free(multi);
    est_columns_free(set);
}

/* Examples without a label, and labels of another type. */
TEST(label_spec)
{
    static const int64_t one[]  = { 1 };
    static const float   two[]  = { 1.5F, 2 };
    est_tensor          *number = NULL, *pair = NULL;
    est_head            *binary = NULL, *real = NULL, *tags = NULL, *odd = NULL;
    est_parse_spec      *spec = NULL;

    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, one, &number));
    assert_ok(est_tensor_f32(EST_SHAPE(2), two, &pair));
    assert_ok(est_binary_head(EST_HEAD(.label = "a", .label_default = number), &binary));
    assert_ok(est_regression_head(2, EST_HEAD(.label = "b", .label_default = pair), &real));
    assert_ok(est_multi_label_head(4, EST_HEAD(.label = "c", .label_default = number), &tags));
    assert_ok(est_binary_head(EST_HEAD(.label = "d", .label_dtype = EST_F32, .label_default = number), &odd));
    est_tensor_free(number); /* shared with the heads */
    est_tensor_free(pair);
    assert_ok(est_parse_spec_create((est_column_list){ 0 }, &spec));
    assert_ok(est_head_parse_spec(binary, spec));
    assert_ok(est_head_parse_spec(real, spec));
    assert_refused(est_head_parse_spec(tags, spec), "label_default is set, but labels 'c' are lists");
    assert_refused(est_head_parse_spec(odd, spec),
                   "binary head: label_default has 1 elements of int64, but labels 'd' 1 of float32");
    est_head_free(odd);
    assert_ok(est_binary_head(EST_HEAD(.label = "d", .label_dtype = EST_F32), &odd));
    assert_ok(est_head_parse_spec(odd, spec));
    expect_feature(spec, 0, "a", EST_I64, 1);
    expect_feature(spec, 1, "b", EST_F32, 2);
    expect_feature(spec, 2, "d", EST_F32, 1);
    assert_int_equal(*(const int64_t *)est_tensor_data(est_parse_spec_features(spec).data[0].default_value), 1);
    assert_near(((const float *)est_tensor_data(est_parse_spec_features(spec).data[1].default_value))[1], 2, 0);
    est_parse_spec_free(spec);
    est_head_free(binary);
    est_head_free(real);
    est_head_free(tags);
    est_head_free(odd);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_status make_all(void)
{
    static const char *const words[]  = { "no", "yes" };
    const double             t        = 0.5;
    est_head                *heads[2] = { NULL }, *multi = NULL;
    est_status               status;

    status = est_binary_head(EST_HEAD(.name = "a", .label_vocabulary = { words, 2 }, .thresholds = { &t, 1 }),
                             &heads[0]);
    if (status == EST_OK) status = est_regression_head(2, EST_HEAD(.name = "b", .weight_column = "w"), &heads[1]);
    if (status == EST_OK) status = est_multi_head((est_heads){ heads, 2 }, (est_f64s){ 0 }, &multi);
    for (int i = 0; i < 2; i++) est_head_free(heads[i]);
    est_head_free(multi);
    return status;
}

TEST(memory_runs_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 4) {
        est_status status;

        fault_arm(&f);
        status = make_all();
        fault_check(&f, status);
    }
}
