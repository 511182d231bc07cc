/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming metrics over two batches, with reset, and the areas under curves of a worked example. */
#include "support/nn_test.h"

#define BATCHES 2
#define SIZE    4

static const double labels[BATCHES][SIZE]      = { { 1, 0, 2, 1 }, { 2, 2, 0, 1 } };
static const double predictions[BATCHES][SIZE] = { { 1, 2, 2, 0 }, { 2, 1, 0, 1 } };
static const double weights[BATCHES][SIZE]     = { { 1, 2, 0.5, 1 }, { 1, 0, 3, 1 } };

typedef struct fed {
    nn_test  t;
    est_node label, prediction, weight;
} fed;

static fed fed_begin(void)
{
    fed f = { .t = nn_begin(1) };

    f.label      = est_placeholder(f.t.graph, "label", EST_F32, EST_SHAPE(-1));
    f.prediction = est_placeholder(f.t.graph, "prediction", EST_F32, EST_SHAPE(-1));
    f.weight     = est_placeholder(f.t.graph, "weight", EST_F32, EST_SHAPE(-1));
    return f;
}

static est_tensor *batch_of(const double *values)
{
    est_tensor *tensor;
    float       few[SIZE];

    for (int i = 0; i < SIZE; i++) few[i] = (float)values[i];
    assert_ok(est_tensor_f32(EST_SHAPE(SIZE), few, &tensor));
    return tensor;
}

/* Both batches through the update, twice with a reset between: the value must be the same. */
static void check_metric(fed *f, const char *label, est_metric metric, double expected)
{
    for (int round = 0; round < 2; round++) {
        double got;

        nn_run(&f->t, metric.reset);
        for (int b = 0; b < BATCHES; b++) {
            est_tensor *l = batch_of(labels[b]), *p = batch_of(predictions[b]), *w = batch_of(weights[b]);
            assert_ok(est_session_run(f->t.session, EST_FEEDS({ f->label, l }, { f->prediction, p }, { f->weight, w }),
                                      (est_nodes){ 0 }, EST_NODES(metric.update), NULL));
            est_tensor_free(l);
            est_tensor_free(p);
            est_tensor_free(w);
        }
        got = nn_scalar(&f->t, metric.value);
        if (fabs(got - expected) > 1e-5) fail_msg("%s is %.9g, expected %.9g", label, got, expected);
    }
}

/* sum(w x) / sum(w) over both batches. */
static double mean_over(double (*x)(double label, double prediction), bool weighted)
{
    double total = 0, count = 0;

    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < SIZE; i++) {
            double w = weighted ? weights[b][i] : 1;
            total += w * x(labels[b][i], predictions[b][i]);
            count += w;
        }
    }
    return total / count;
}

static double equal(double l, double p)
{
    return l == p;
}

static double absolute(double l, double p)
{
    return fabs(l - p);
}

static double square(double l, double p)
{
    return (l - p) * (l - p);
}

static double prediction_of(double l, double p)
{
    (void)l;
    return p;
}

static double relative(double l, double p)
{
    return l == 0 ? 0 : fabs(l - p) / l;
}

TEST(means)
{
    fed        f                 = fed_begin();
    est_metric mean              = est_metric_mean(f.prediction, NULL);
    est_metric weighted          = est_metric_mean(f.prediction, EST_METRIC(.weights = f.weight, .name = "weighted"));
    est_metric accuracy          = est_accuracy(f.label, f.prediction);
    est_metric weighted_accuracy = est_metric_accuracy(f.label, f.prediction, EST_METRIC(.weights = f.weight));
    est_metric mae               = est_metric_mean_absolute_error(f.label, f.prediction, NULL);
    est_metric mse    = est_metric_mean_squared_error(f.label, f.prediction, EST_METRIC(.weights = f.weight));
    est_metric rmse   = est_metric_root_mean_squared_error(f.label, f.prediction, NULL);
    est_metric rel    = est_metric_mean_relative_error(f.label, f.prediction, f.label, NULL);
    est_metric cosine = est_metric_mean_cosine_distance(f.label, f.prediction, 0, NULL);
    double     few;

    assert_int_equal(est_global_variables(f.t.graph).n, 0); /* nothing of this goes into a checkpoint */
    assert_int_equal(est_local_variables(f.t.graph).n, 18);
    nn_ready(&f.t);
    assert_int_equal(nn_read(&f.t, "accuracy/total", &few, 1), 1);
    assert_int_equal(nn_read(&f.t, "accuracy_1/count", &few, 1), 1);
    assert_near(nn_scalar(&f.t, mean.value), 0, 0); /* nothing seen yet */
    check_metric(&f, "mean", mean, mean_over(prediction_of, false));
    check_metric(&f, "weighted mean", weighted, mean_over(prediction_of, true));
    check_metric(&f, "accuracy", accuracy, mean_over(equal, false));
    check_metric(&f, "weighted accuracy", weighted_accuracy, mean_over(equal, true));
    check_metric(&f, "mae", mae, mean_over(absolute, false));
    check_metric(&f, "mse", mse, mean_over(square, true));
    check_metric(&f, "rmse", rmse, sqrt(mean_over(square, false)));
    check_metric(&f, "relative error", rel, mean_over(relative, false));
    check_metric(&f, "cosine distance", cosine, 1 - (5.0 + 7.0) / 2);
    nn_end(&f.t);
}

/* Labels and predictions above 0.5 are true: weights of (label, prediction) pairs summed by hand. */
TEST(precision_and_recall)
{
    fed        f               = fed_begin();
    est_metric precision       = est_metric_precision(f.label, f.prediction, NULL);
    est_metric weighted        = est_metric_precision(f.label, f.prediction, EST_METRIC(.weights = f.weight));
    est_metric recall          = est_metric_recall(f.label, f.prediction, NULL);
    est_metric weighted_recall = est_metric_recall(f.label, f.prediction, EST_METRIC(.weights = f.weight));
    double     few;

    nn_ready(&f.t);
    assert_int_equal(nn_read(&f.t, "precision/true_positives/count", &few, 1), 1);
    assert_int_equal(nn_read(&f.t, "recall/false_negatives/count", &few, 1), 1);
    check_metric(&f, "precision", precision, 5.0 / 6);
    check_metric(&f, "weighted precision", weighted, 3.5 / 5.5);
    check_metric(&f, "recall", recall, 5.0 / 6);
    check_metric(&f, "weighted recall", weighted_recall, 3.5 / 4.5);
    nn_end(&f.t);
}

TEST(classes)
{
    fed        f        = fed_begin();
    est_metric each     = est_metric_mean_per_class_accuracy(f.label, f.prediction, 4, NULL);
    est_metric iou      = est_metric_mean_iou(f.label, f.prediction, 4, NULL);
    est_metric weighted = est_metric_mean_iou(f.label, f.prediction, 4, EST_METRIC(.weights = f.weight));

    nn_ready(&f.t);
    check_metric(&f, "per class", each, (1.0 / 2 + 2.0 / 3 + 2.0 / 3 + 0) / 4); /* class 3 never occurs */
    check_metric(&f, "iou", iou, (1.0 / 3 + 2.0 / 4 + 2.0 / 4) / 3);
    check_metric(&f, "weighted iou", weighted, (3.0 / 6 + 2.0 / 3 + 1.5 / 3.5) / 3);
    nn_end(&f.t);
}

TEST(thresholds)
{
    nn_test    t         = nn_begin(1);
    est_node   l         = nn_const(t.graph, EST_SHAPE(4, 1), NN_VALUES(1, 1, 1, 0));
    est_node   p         = nn_const(t.graph, EST_SHAPE(4), NN_VALUES(0.5, 0.5, 0.9, 0.3)); /* one axis fewer */
    est_metric v1        = est_metric_accuracy_at_threshold(l, p, 0.5, EST_METRIC(.v1 = true));
    est_metric v2        = est_metric_accuracy_at_threshold(l, p, 0.5, NULL);
    est_metric precision = est_metric_precision_at_threshold(l, p, 0.25, NULL);
    est_metric recall    = est_metric_recall_at_threshold(l, p, 0.5, EST_METRIC(.v1 = true));

    nn_ready(&t);
    nn_run(&t, v1.update);
    nn_run(&t, v2.update);
    nn_run(&t, precision.update);
    nn_run(&t, recall.update);
    assert_near(nn_scalar(&t, v1.value), 1, 1e-6);   /* 0.5 >= 0.5 */
    assert_near(nn_scalar(&t, v2.value), 0.5, 1e-6); /* 0.5 > 0.5 is not */
    assert_near(nn_scalar(&t, precision.value), 3.0 / 4, 1e-6);
    assert_near(nn_scalar(&t, recall.value), 1.0 / 3, 1e-6);
    nn_end(&t);
}

/* --- areas under curves ------------------------------------------------------------------------------------------- */

static double auc_of(const double *l, const double *p, const double *w, int n, est_metric_options o)
{
    nn_test    t = nn_begin(1);
    est_metric m;
    double     value;

    if (w != NULL) o.weights = nn_const(t.graph, EST_SHAPE(n), w);
    m = est_metric_auc(nn_const(t.graph, EST_SHAPE(n), l), nn_const(t.graph, EST_SHAPE(n), p), &o);
    nn_ready(&t);
    nn_run(&t, m.update);
    value = nn_scalar(&t, m.value);
    nn_end(&t);
    return value;
}

TEST(auc)
{
    static const double l[5] = { 1, 0, 1, 0, 1 }, p[5] = { 0.92, 0.61, 0.4, 0.13, 0.3 }, w[5] = { 1, 2, 1, 1, 0.5 };
    static const double ones[5] = { 1, 1, 1, 1, 1 }, zeros[5] = { 0 };

    assert_near(auc_of(l, p, w, 5, *EST_METRIC(.curve = EST_ROC)), 0.6, 1e-5);
    assert_near(auc_of(l, p, w, 5, *EST_METRIC(.curve = EST_ROC, .summation = EST_SUM_TRAPEZOID)), 0.6, 1e-5);
    assert_near(auc_of(l, p, w, 5, *EST_METRIC(.curve = EST_PR)), 0.675628, 1e-6);
    assert_near(auc_of(l, p, w, 5, *EST_METRIC(.curve = EST_PR, .summation = EST_SUM_CAREFUL_INTERPOLATION)), 0.675628,
                1e-6);
    assert_near(auc_of(l, p, w, 5, *EST_METRIC(.curve = EST_PR, .summation = EST_SUM_TRAPEZOID)), 0.672222, 1e-5);
    assert_near(auc_of(ones, p, NULL, 5, *EST_METRIC(.curve = EST_ROC)), 0, 1e-6); /* one class only */
    assert_near(auc_of(zeros, p, NULL, 5, *EST_METRIC(.curve = EST_ROC)), 0, 1e-6);
    assert_near(auc_of(ones, p, NULL, 5, *EST_METRIC(.curve = EST_PR)), 1, 1e-6);
    assert_near(auc_of(l, l, NULL, 5, *EST_METRIC(.curve = EST_ROC)), 1, 1e-6); /* a perfect model */
}

/* Minoring and majoring enclose the trapezoid; thresholds of one's own are taken. */
TEST(auc_options)
{
    static const double l[5] = { 1, 0, 1, 0, 1 }, p[5] = { 0.92, 0.61, 0.4, 0.13, 0.3 }, half[1] = { 0.5 };
    double              low  = auc_of(l, p, NULL, 5, *EST_METRIC(.num_thresholds = 3, .summation = EST_SUM_MINORING));
    double              mid  = auc_of(l, p, NULL, 5, *EST_METRIC(.num_thresholds = 3, .summation = EST_SUM_TRAPEZOID));
    double              high = auc_of(l, p, NULL, 5, *EST_METRIC(.num_thresholds = 3, .summation = EST_SUM_MAJORING));
    double own = auc_of(l, p, NULL, 5, *EST_METRIC(.thresholds = { half, 1 }, .summation = EST_SUM_TRAPEZOID));

    assert_near(low, 0.5 * 1.0 / 3, 1e-5); /* points (0,0), (1/2, 1/3), (1, 1) */
    assert_near(mid, 0.5 * (1.0 / 6) + 0.5 * (2.0 / 3), 1e-5);
    assert_near(high, 0.5 * (1.0 / 3) + 0.5, 1e-5);
    assert_near(own, mid, 1e-6);

    /* A prediction that equals the threshold is not above it. */
    assert_near(auc_of(NN_VALUES(1, 0), NN_VALUES(0.5, 0.2), NULL, 2,
                       *EST_METRIC(.thresholds = { half, 1 }, .summation = EST_SUM_TRAPEZOID)),
                0.5, 1e-5);
}

/* --- metrics of one's own ----------------------------------------------------------------------------------------- */

/* Weights of each class in float64 by scatter_add, examples in int64: (weight of class 2) / (all) + examples. */
TEST(custom)
{
    fed        f     = fed_begin();
    est_graph *graph = f.t.graph;
    est_node   sums, count, class, read, two;
    est_metric metric;
    double     few[3];

    sums   = est_metric_state(graph, "mine/sums", EST_F64, EST_SHAPE(3));
    count  = est_metric_state(graph, "mine/count", EST_I64, EST_SHAPE_SCALAR);
    class  = est_cast(f.label, EST_I32);
    read   = est_read_variable(sums);
    two    = est_gather(read, est_scalar(graph, EST_I32, 2), 0);
    metric = est_metric_custom(
        EST_NODES(sums, count),
        EST_NODES(est_scatter_add(sums, class, est_cast(f.weight, EST_F64)),
                  est_assign_add(count, est_sum(est_cast(est_ones_like(f.label), EST_I64)))),
        est_add(est_div_no_nan(two, est_sum(read)), est_cast(est_read_variable(count), EST_F64)));
    assert_int_equal(est_global_variables(graph).n, 0); /* nothing of this goes into a checkpoint */
    assert_int_equal(est_local_variables(graph).n, 2);
    nn_ready(&f.t);
    check_metric(&f, "a custom metric", metric, 1.5 / 9.5 + 8);
    assert_int_equal(nn_read(&f.t, "mine/sums", few, 3), 3);
    assert_near(few[0], 5, 1e-9);
    assert_near(few[1], 3, 1e-9);
    assert_near(few[2], 1.5, 1e-9);
    nn_end(&f.t);
}

/* Shared states are global variables that no optimizer trains. */
TEST(shared)
{
    fed        f     = fed_begin();
    est_metric mean  = est_metric_mean(f.prediction, EST_METRIC(.shared = true));
    est_node   count = est_metric_shared_state(f.t.graph, "mine/count", EST_I64, EST_SHAPE_SCALAR);
    est_metric mine;

    mine = est_metric_custom(EST_NODES(count),
                             EST_NODES(est_assign_add(count, est_sum(est_cast(est_ones_like(f.label), EST_I64)))),
                             est_read_variable(count));
    assert_int_equal(est_global_variables(f.t.graph).n, 3);
    assert_int_equal(est_local_variables(f.t.graph).n, 0);
    assert_int_equal(est_trainable_variables(f.t.graph).n, 0);
    nn_ready(&f.t);
    check_metric(&f, "a shared mean", mean, mean_over(prediction_of, false));
    check_metric(&f, "a shared state", mine, 8);
    nn_end(&f.t);
}

/* Other updates than additions: the largest prediction. */
TEST(custom_assigned)
{
    fed        f       = fed_begin();
    est_node   largest = est_metric_state(f.t.graph, "largest", EST_F32, EST_SHAPE_SCALAR), read;
    est_metric metric;

    read   = est_read_variable(largest);
    metric = est_metric_custom(
        EST_NODES(largest),
        EST_NODES(est_assign(largest, est_maximum(read, est_reduce_max(f.prediction, EST_I64S(0), false)))), read);
    nn_ready(&f.t);
    check_metric(&f, "the largest", metric, 2);
    nn_end(&f.t);
}

static void refused_custom(int which, const char *text)
{
    nn_test    t     = nn_begin(1);
    est_node   state = est_metric_state(t.graph, "s", which == 0 ? EST_I32 : EST_F32, EST_SHAPE_SCALAR);
    est_node   other = est_weight(t.graph, "w", EST_SHAPE_SCALAR, NULL), one = est_scalar(t.graph, EST_F32, 1);
    est_metric metric;

    metric = est_metric_custom(which == 1   ? EST_NODES(state, other)
                               : which == 2 ? EST_NO_NODES
                                            : EST_NODES(state),
                               EST_NODES(which == 3   ? one
                                         : which == 4 ? EST_NO_NODE
                                                      : est_assign_add(state, one)),
                               which == 5   ? est_placeholder(t.graph, "batch", EST_F32, EST_SHAPE_SCALAR)
                               : which == 6 ? EST_NO_NODE
                                            : est_read_variable(state));
    (void)metric;
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
    nn_end(&t);
}

TEST(custom_refused)
{
    refused_custom(0, "the metric state 's' is int32; it must be float32, float64 or int64");
    refused_custom(1, "state 1 of the metric was not created with est_metric_state");
    refused_custom(2, "needs at least one state and one update, got 0 and 1");
    refused_custom(3, "no update of the metric changes state 0 ('s')");
    refused_custom(4, "update 0 of the metric is not an operation of the graph");
    refused_custom(5, "the value of the metric depends on the batch ('batch')");
    refused_custom(6, "the value of the metric is not a node");
}
