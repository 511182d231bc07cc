/* SPDX-License-Identifier: Apache-2.0
 *
 * Keras' names: what they stand for, against formulas in double, and what an unknown name is told. */
#include "estoc/names.h"

#include "nn/optimizer.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

#define ROWS 3
#define COLS 4
#define EPS  1e-7

/* Numbers with a float of the same value, or nearly. */
static const double numbers[ROWS * COLS] = { 1, -1, 2.5, 0.5, 0, 4, -2, 1.5, 3, 0.25, -0.5, 2 };
static const double raw[ROWS * COLS]     = { 0.25, -1.5, 3, 0.75, -0.125, 2.25, -2.5, 1, 3.5, 0.5, -1, 0 };
static const double bits[ROWS * COLS]    = { 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0 };
static const double shares[ROWS * COLS]  = { 0.5, 0.25, 0.125, 0.125, 0.75, 0.125, 0.0625, 0.0625, 0.25, 0.5, 0.25, 0 };
static const double one_hot[ROWS * COLS] = { 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1 };
static const double classes[ROWS]        = { 1, 0, 3 };

/* --- losses ------------------------------------------------------------------------------------------------------- */

typedef double (*row_fn)(const double *l, const double *p);

static double mean4(const double *x)
{
    return (x[0] + x[1] + x[2] + x[3]) / 4;
}

#define MEAN_ROW(name, ...)                                                                                            \
    static double name(const double *l, const double *p)                                                               \
    {                                                                                                                  \
        double x[COLS];                                                                                                \
        for (int i = 0; i < COLS; i++) x[i] = (__VA_ARGS__);                                                           \
        return mean4(x);                                                                                               \
    }
MEAN_ROW(mse, (p[i] - l[i]) * (p[i] - l[i]))
MEAN_ROW(mae, fabs(p[i] - l[i]))
MEAN_ROW(mape, 100 * fabs((l[i] - p[i]) / fmax(fabs(l[i]), EPS)))
MEAN_ROW(msle, pow(log(fmax(p[i], EPS) + 1) - log(fmax(l[i], EPS) + 1), 2))
MEAN_ROW(huber, fabs(p[i] - l[i]) <= 1 ? 0.5 * pow(p[i] - l[i], 2) : fabs(p[i] - l[i]) - 0.5)
MEAN_ROW(log_cosh, log(cosh(p[i] - l[i])))
MEAN_ROW(hinge, fmax(0, 1 - (2 * l[i] - 1) * p[i]))
MEAN_ROW(squared_hinge, pow(fmax(0, 1 - (2 * l[i] - 1) * p[i]), 2))
MEAN_ROW(poisson, p[i] - l[i] * log(p[i] + EPS))
MEAN_ROW(sigmoid_xent, fmax(p[i], 0) - p[i] * l[i] + log1p(exp(-fabs(p[i]))))

static double clipped(double p, double high)
{
    return fmin(fmax(p, EPS), high);
}

MEAN_ROW(bce, -l[i] * log(clipped(p[i], 1 - EPS) + EPS) - (1 - l[i]) * log(1 - clipped(p[i], 1 - EPS) + EPS))
MEAN_ROW(focal_bce,
         pow(1 - (l[i] * p[i] + (1 - l[i]) * (1 - p[i])), 2) *
             (-l[i] * log(clipped(p[i], 1 - EPS) + EPS) - (1 - l[i]) * log(1 - clipped(p[i], 1 - EPS) + EPS)))

static double cce(const double *l, const double *p)
{
    double sum = p[0] + p[1] + p[2] + p[3], y = 0;

    for (int i = 0; i < COLS; i++) y -= l[i] * log(clipped(p[i] / sum, 1 - EPS));
    return y;
}

static double focal_cce(const double *l, const double *p)
{
    double sum = p[0] + p[1] + p[2] + p[3], y = 0;

    for (int i = 0; i < COLS; i++) {
        double share = clipped(p[i] / sum, 1 - EPS);

        y -= 0.25 * pow(1 - share, 2) * l[i] * log(share);
    }
    return y;
}

/* Keras does not normalise before it clips here, the crossentropy does after. */
static double sparse_cce(const double *l, const double *p)
{
    double sum = 0, y = 0;

    for (int i = 0; i < COLS; i++) sum += clipped(p[i], 1 - EPS);
    for (int i = 0; i < COLS; i++) y -= l[i] * log(clipped(p[i], 1 - EPS) / sum);
    return y;
}

static double softmax_xent(const double *l, const double *x)
{
    double sum = exp(x[0]) + exp(x[1]) + exp(x[2]) + exp(x[3]), y = 0;

    for (int i = 0; i < COLS; i++) y -= l[i] * (x[i] - log(sum));
    return y;
}

static double categorical_hinge(const double *l, const double *p)
{
    double right = 0, wrong = -INFINITY;

    for (int i = 0; i < COLS; i++) {
        right += l[i] * p[i];
        wrong = fmax(wrong, (1 - l[i]) * p[i]);
    }
    return fmax(0, wrong - right + 1);
}

static double kl_divergence(const double *l, const double *p)
{
    double y = 0;

    for (int i = 0; i < COLS; i++) y += clipped(l[i], 1) * log(clipped(l[i], 1) / clipped(p[i], 1));
    return y;
}

static double cosine(const double *l, const double *p)
{
    double lp = 0, ll = 0, pp = 0;

    for (int i = 0; i < COLS; i++) {
        lp += l[i] * p[i];
        ll += l[i] * l[i];
        pp += p[i] * p[i];
    }
    return -lp / sqrt(ll * pp);
}

static void check_rows(nn_test *t, const char *label, est_node each, row_fn row, const double *l, const double *p)
{
    double got[ROWS];

    assert_int_equal(est_node_shape(each)->rank, 1);
    assert_int_equal(nn_fetch(t, each, got, ROWS), ROWS);
    for (int i = 0; i < ROWS; i++) {
        double expected = row(l + i * COLS, p + i * COLS);

        if (fabs(got[i] - expected) > 1e-5 * fmax(1, fabs(expected))) {
            fail_msg("%s of row %d is %.9g, expected %.9g", label, i, got[i], expected);
        }
    }
}

TEST(losses)
{
    const struct {
        const char   *names[4]; /* that stand for it */
        row_fn        row;
        const double *labels, *predictions;
    } cases[] = {
        { { "mean_squared_error", "mse", "MSE", "MeanSquaredError" }, mse, numbers, raw },
        { { "mean_absolute_error", "mae", "MAE", "MeanAbsoluteError" }, mae, numbers, raw },
        { { "mean_absolute_percentage_error", "mape", "MeanAbsolutePercentageError" }, mape, shares, numbers },
        { { "mean_squared_logarithmic_error", "msle", "MeanSquaredLogarithmicError" }, msle, numbers, raw },
        { { "huber", "Huber", "huber_loss" }, huber, numbers, raw },
        { { "log_cosh", "logcosh", "LogCosh" }, log_cosh, numbers, raw },
        { { "hinge", "Hinge" }, hinge, bits, raw },
        { { "squared_hinge", "SquaredHinge" }, squared_hinge, bits, raw },
        { { "poisson", "Poisson" }, poisson, numbers, shares },
        { { "binary_crossentropy", "bce", "BinaryCrossentropy" }, bce, bits, shares },
        { { "binary_focal_crossentropy", "BinaryFocalCrossentropy" }, focal_bce, bits, shares },
        { { "categorical_crossentropy", "CategoricalCrossentropy" }, cce, one_hot, shares },
        { { "categorical_focal_crossentropy", "CategoricalFocalCrossentropy" }, focal_cce, one_hot, shares },
        { { "categorical_hinge", "CategoricalHinge" }, categorical_hinge, one_hot, raw },
        { { "kl_divergence", "kld", "kullback_leibler_divergence", "KLDivergence" }, kl_divergence, one_hot, shares },
        { { "cosine_similarity", "CosineSimilarity" }, cosine, numbers, raw },
    };
    const size_t n = sizeof cases / sizeof cases[0];
    est_node     each[sizeof cases / sizeof cases[0]];
    nn_test      t = nn_begin(1);

    for (size_t i = 0; i < n; i++) {
        est_loss first;

        assert_ok(est_loss_by_name(cases[i].names[0], &first));
        assert_string_equal(first.name, cases[i].names[0]);
        for (int k = 1; k < 4 && cases[i].names[k] != NULL; k++) {
            est_loss same;

            assert_ok(est_loss_by_name(cases[i].names[k], &same));
            assert_ptr_equal(same.each, first.each);
            assert_string_equal(same.name, first.name);
        }
        each[i] = first.each(&first, nn_const(t.graph, EST_SHAPE(ROWS, COLS), cases[i].labels),
                             nn_const(t.graph, EST_SHAPE(ROWS, COLS), cases[i].predictions));
    }
    nn_ready(&t);
    for (size_t i = 0; i < n; i++) {
        check_rows(&t, cases[i].names[0], each[i], cases[i].row, cases[i].labels, cases[i].predictions);
    }
    nn_end(&t);
}

/* From logits, by the flag, because an activation made the predictions of them, and for both reasons: the same. */
TEST(losses_from_logits)
{
    static const double far[ROWS * COLS] = { 40, -40, 0, 0, -90, 90, 0, 1, 0, 0, 0, 200 };
    nn_test             t                = nn_begin(1);
    est_node            x                = nn_const(t.graph, EST_SHAPE(ROWS, COLS), far), b, c, s, got[9];
    est_loss            loss[9];

    b = nn_const(t.graph, EST_SHAPE(ROWS, COLS), bits);
    c = nn_const(t.graph, EST_SHAPE(ROWS, COLS), one_hot);
    s = nn_const(t.graph, EST_SHAPE(ROWS), classes);
    for (int i = 0; i < 3; i++) {
        loss[i]     = est_loss_value_binary_crossentropy(i != 1, 0);
        loss[i + 3] = est_loss_value_categorical_crossentropy(i != 1, 0);
        loss[i + 6] = est_loss_value_sparse_categorical_crossentropy(i != 1);
    }
    for (int i = 0; i < 9; i++) {
        est_node labels = i < 3 ? b : i < 6 ? c : s;
        est_node p      = i % 3 == 0 ? x : i < 3 ? est_sigmoid(x) : est_softmax(x, -1);

        got[i] = loss[i].each(&loss[i], labels, p);
    }
    nn_ready(&t);
    for (int i = 0; i < 9; i++) {
        check_rows(&t, loss[i].name, got[i], i < 3 ? sigmoid_xent : softmax_xent, i < 3 ? bits : one_hot, far);
    }
    nn_end(&t);
}

static double smooth_bce(const double *l, const double *p)
{
    double smooth[COLS];

    for (int i = 0; i < COLS; i++) smooth[i] = l[i] * 0.75 + 0.125;
    return bce(smooth, p);
}

static double smooth_cce(const double *l, const double *p)
{
    double smooth[COLS];

    for (int i = 0; i < COLS; i++) smooth[i] = l[i] * 0.75 + 0.0625;
    return cce(smooth, p);
}

static double huber_half(const double *l, const double *p)
{
    double x[COLS];

    for (int i = 0; i < COLS; i++) {
        double e = fabs(p[i] - l[i]);

        x[i] = e <= 0.5 ? 0.5 * e * e : 0.5 * e - 0.125;
    }
    return mean4(x);
}

TEST(losses_with_options)
{
    nn_test  t = nn_begin(1);
    est_node p = nn_const(t.graph, EST_SHAPE(ROWS, COLS), shares), got[4];
    est_loss loss[4];

    loss[0] = est_loss_value_binary_crossentropy(false, 0.25);
    loss[1] = est_loss_value_categorical_crossentropy(false, 0.25);
    loss[2] = est_loss_value_huber(0.5);
    loss[3] = est_loss_value_sparse_categorical_crossentropy(false);
    got[0]  = loss[0].each(&loss[0], nn_const(t.graph, EST_SHAPE(ROWS, COLS), bits), p);
    got[1]  = loss[1].each(&loss[1], nn_const(t.graph, EST_SHAPE(ROWS, COLS), one_hot), p);
    got[2]  = loss[2].each(&loss[2], nn_const(t.graph, EST_SHAPE(ROWS, COLS), numbers), p);
    got[3]  = loss[3].each(&loss[3], nn_const(t.graph, EST_SHAPE(ROWS, 1), classes), p);
    nn_ready(&t);
    check_rows(&t, "smoothed binary", got[0], smooth_bce, bits, shares);
    check_rows(&t, "smoothed categorical", got[1], smooth_cce, one_hot, shares);
    check_rows(&t, "huber", got[2], huber_half, numbers, shares);
    check_rows(&t, "sparse", got[3], sparse_cce, one_hot, shares);
    nn_end(&t);
}

/* Labels [batch] go with predictions [batch, 1], and predictions [batch] have a value an example. Sequences keep their
 * axis. */
TEST(loss_shapes)
{
    nn_test  t = nn_begin(1);
    est_node l = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3));
    est_node p = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1.5, 4, 3)), got[4];
    est_loss loss;
    double   value[4];

    assert_ok(est_loss_by_name("mse", &loss));
    got[0] = loss.each(&loss, l, est_expand_dims(p, -1));
    got[1] = loss.each(&loss, est_expand_dims(l, -1), p);
    got[2] = loss.each(&loss, est_cast(l, EST_I64), p);
    got[3] = loss.each(&loss, est_reshape(est_concat(EST_NODES(l, l), 0), EST_I64S(1, 3, 2)),
                       est_reshape(est_concat(EST_NODES(p, p), 0), EST_I64S(1, 3, 2)));
    nn_ready(&t);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(est_node_shape(got[i])->rank, 1);
        assert_int_equal(nn_fetch(&t, got[i], value, 4), 3);
        assert_near(value[0], 0.25, 0);
        assert_near(value[1], 4, 0);
        assert_near(value[2], 0, 0);
    }
    assert_int_equal(est_node_shape(got[3])->rank, 2);
    assert_int_equal(nn_fetch(&t, got[3], value, 4), 3);
    assert_near(value[0], 2.125, 0);
    assert_near(value[1], 0.125, 0);
    assert_near(value[2], 2, 0);
    nn_end(&t);
}

/* One label for several predictions of a row, as Keras has it. */
TEST(labels_are_broadcast)
{
    nn_test  t = nn_begin(1);
    est_node l = nn_const(t.graph, EST_SHAPE(2, 1), NN_VALUES(1, 2));
    est_node p = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 3, 2, 5)), got[2];
    est_loss loss;
    double   value[2];

    assert_ok(est_loss_by_name("mse", &loss));
    got[0] = loss.each(&loss, l, p);
    got[1] = loss.each(&loss, est_reshape(l, EST_I64S(2)), p);
    nn_ready(&t);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(nn_fetch(&t, got[i], value, 2), 2);
        assert_near(value[0], 2, 0);
        assert_near(value[1], 4.5, 0);
    }
    nn_end(&t);
}

TEST(shapes_that_do_not_fit)
{
    nn_test  t = nn_begin(1);
    est_loss loss;

    assert_ok(est_loss_by_name("categorical_crossentropy", &loss));
    (void)loss.each(&loss, nn_const(t.graph, EST_SHAPE(ROWS), classes),
                    nn_const(t.graph, EST_SHAPE(ROWS, COLS), shares));
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "use sparse_categorical_crossentropy"));
    nn_end(&t);

    t = nn_begin(1);
    assert_ok(est_loss_by_name("mse", &loss));
    (void)loss.each(&loss, nn_const(t.graph, EST_SHAPE(1, ROWS), classes),
                    nn_const(t.graph, EST_SHAPE(ROWS, COLS), shares));
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "of one shape"));
    nn_end(&t);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

typedef struct metric_case {
    const char *name, *logged;
    int    kind; /* of labels: 0 bits against shares, 1 one_hot, 2 class numbers, 3 numbers, an error with shares */
    bool   weighted;
    double expected;
} metric_case;

/* Worked out from the tables above. Predicted classes: 0, 0, 1. Shares above 0.5: only the fifth, whose bit is 1.
 * Weights 1, 2, 0.5. */
static const metric_case metric_cases[] = {
    { "accuracy", "accuracy", 1, false, 1.0 / 3 },
    { "acc", "acc", 2, false, 1.0 / 3 },
    { "accuracy", "accuracy", 2, true, 2 / 3.5 },
    { "CategoricalAccuracy", "categorical_accuracy", 1, true, 2 / 3.5 },
    { "sparse_categorical_accuracy", "sparse_categorical_accuracy", 2, false, 1.0 / 3 },
    { "binary_accuracy", "binary_accuracy", 0, false, 7.0 / 12 },
    { "BinaryAccuracy", "binary_accuracy", 0, true, (1 * 0.5 + 2 * 0.5 + 0.5 * 0.75) / 3.5 },
    { "Precision", "precision", 0, false, 1 },
    { "recall", "recall", 0, false, 1.0 / 6 },
    { "Recall", "recall", 0, true, 2 / (2 * 1 + 3 * 2 + 0.5) },
    { "TruePositives", "true_positives", 0, true, 2 },
    { "false_positives", "false_positives", 0, true, 0 },
    { "FalseNegatives", "false_negatives", 0, true, 2 * 1 + 2 * 2 + 0.5 },
    { "true_negatives", "true_negatives", 0, true, 2 * 1 + 1 * 2 + 3 * 0.5 },
    { "mse", "mse", 3, false, 41.6796875 / 12 },
    { "MeanSquaredError", "mean_squared_error", 3, false, 41.6796875 / 12 },
    { "sum", "sum", 0, false, 3 },
    { "Mean", "mean", 0, false, 0.25 },
};

static est_node labels_of(est_graph *graph, int kind)
{
    switch (kind) {
    case 0: return nn_const(graph, EST_SHAPE(ROWS, COLS), bits);
    case 1: return nn_const(graph, EST_SHAPE(ROWS, COLS), one_hot);
    case 2: return est_cast(nn_const(graph, EST_SHAPE(ROWS), classes), EST_I64);
    default: return nn_const(graph, EST_SHAPE(ROWS, COLS), numbers);
    }
}

/* Two batches of the same rows, a reset, and one more. */
TEST(metrics)
{
    const size_t    n = sizeof metric_cases / sizeof metric_cases[0];
    est_metric      made[sizeof metric_cases / sizeof metric_cases[0]];
    est_metric_spec spec;
    nn_test         t = nn_begin(1);
    est_node        p = nn_const(t.graph, EST_SHAPE(ROWS, COLS), shares);
    est_node        w = nn_const(t.graph, EST_SHAPE(ROWS), NN_VALUES(1, 2, 0.5));

    for (size_t i = 0; i < n; i++) {
        assert_ok(est_metric_by_name(metric_cases[i].name, &spec));
        assert_string_equal(spec.name, metric_cases[i].logged);
        made[i] = spec.make(&spec, labels_of(t.graph, metric_cases[i].kind), p,
                            metric_cases[i].weighted ? w : EST_NO_NODE);
    }
    assert_int_equal(est_global_variables(t.graph).n, 0);
    nn_ready(&t);
    for (size_t i = 0; i < n; i++) {
        const char *logged = metric_cases[i].logged;
        bool        adds   = strstr(logged, "_positives") != NULL || strstr(logged, "_negatives") != NULL ||
                    strcmp(logged, "sum") == 0;
        double got[3];

        nn_run(&t, made[i].update);
        got[0] = nn_scalar(&t, made[i].value);
        nn_run(&t, made[i].update);
        got[1] = nn_scalar(&t, made[i].value);
        nn_run(&t, made[i].reset);
        nn_run(&t, made[i].update);
        got[2] = nn_scalar(&t, made[i].value);
        for (int k = 0; k < 3; k++) {
            double expected = metric_cases[i].expected * (adds && k == 1 ? 2 : 1);

            if (fabs(got[k] - expected) > 1e-6) {
                fail_msg("%s is %.9g, expected %.9g", metric_cases[i].name, got[k], expected);
            }
        }
    }
    nn_end(&t);
}

/* accuracy and crossentropy take the metric that the shapes ask for. */
TEST(metrics_by_shape)
{
    const char     *names[] = { "accuracy", "crossentropy" };
    est_metric      made[2][4];
    est_metric_spec spec;
    nn_test         t = nn_begin(1);
    est_node        p = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0.25, 0.75));

    for (int i = 0; i < 2; i++) {
        assert_ok(est_metric_by_name(names[i], &spec));
        made[i][0]       = spec.make(&spec, nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0, 0)), est_expand_dims(p, -1),
                                     EST_NO_NODE);
        made[i][1]       = spec.make(&spec, nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0, 0)), p, EST_NO_NODE);
        made[i][2]       = spec.make(&spec, nn_const(t.graph, EST_SHAPE(1, 1), NN_VALUES(1)), est_expand_dims(p, 0),
                                     EST_NO_NODE);
        spec.from_logits = true;
        made[i][3]       = spec.make(&spec, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(0)), est_expand_dims(p, 0),
                                     EST_NO_NODE);
    }
    nn_ready(&t);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4; k++) nn_run(&t, made[i][k].update);
        assert_near(nn_scalar(&t, made[i][0].value), i == 0 ? 0.5 : -0.5 * log(0.75 * 0.25), 1e-6);
        assert_near(nn_scalar(&t, made[i][1].value), i == 0 ? 0.5 : -0.5 * log(0.75 * 0.25), 1e-6);
        assert_near(nn_scalar(&t, made[i][2].value), i == 0 ? 1 : -log(0.75), 1e-6);
        assert_near(nn_scalar(&t, made[i][3].value), i == 0 ? 0 : log1p(exp(0.5)), 1e-6);
    }
    nn_end(&t);
}

TEST(metrics_with_options)
{
    nn_test         t = nn_begin(1);
    est_node        p = nn_const(t.graph, EST_SHAPE(ROWS, COLS), shares), l = labels_of(t.graph, 1);
    est_loss        loss    = est_loss_value_huber(0.5);
    est_metric_spec specs[] = {
        est_metric_value_top_k_categorical_accuracy(2),
        est_metric_value_sparse_top_k_categorical_accuracy(1),
        est_metric_value_binary_accuracy(0.2),
        est_metric_value_precision(0.2),
        est_metric_value_recall(0.2),
        est_metric_value_auc(EST_ROC, 3),
        est_metric_value_of_loss(&loss),
    };
    const double expected[] = { 2.0 / 3, 1.0 / 3, 7.0 / 12, 2.0 / 6, 2.0 / 3, 0, 0 };
    est_metric   made[7];
    double       huber_mean = 0;

    specs[5].shared = true;
    for (int i = 0; i < 7; i++) {
        made[i] = specs[i].make(&specs[i], i == 1 ? labels_of(t.graph, 2) : l, p, EST_NO_NODE);
    }
    assert_int_equal(est_global_variables(t.graph).n, 4); /* the states of one auc */
    nn_ready(&t);
    for (int i = 0; i < ROWS; i++) huber_mean += huber_half(one_hot + i * COLS, shares + i * COLS) / ROWS;
    for (int i = 0; i < 7; i++) {
        nn_run(&t, made[i].update);
        /* at 1/2 one of 3 and 0 of 9: (0, 0), (0, 1/3), (1, 1) */
        assert_near(nn_scalar(&t, made[i].value), i == 5 ? 2.0 / 3 : i == 6 ? huber_mean : expected[i], 1e-6);
    }
    nn_end(&t);
}

/* --- activations, initializers, regularizers ---------------------------------------------------------------------- */

TEST(activations)
{
    static const double x[3] = { -4, -0.5, 1.25 };
    const struct {
        const char *name;
        double      expected[3];
    } cases[] = {
        { "linear", { -4, -0.5, 1.25 } },
        { "relu", { 0, 0, 1.25 } },
        { "ReLU6", { 0, 0, 1.25 } },
        { "leaky_relu", { -0.8, -0.1, 1.25 } },
        { "sigmoid", { 1 / (1 + exp(4)), 1 / (1 + exp(0.5)), 1 / (1 + exp(-1.25)) } },
        { "tanh", { tanh(-4), tanh(-0.5), tanh(1.25) } },
        { "elu", { expm1(-4), expm1(-0.5), 1.25 } },
        { "selu", { 1.7580993408473766 * expm1(-4), 1.7580993408473766 * expm1(-0.5), 1.0507009873554805 * 1.25 } },
        { "gelu", { -2 * erfc(4 * M_SQRT1_2), -0.25 * erfc(0.5 * M_SQRT1_2), 0.625 * (1 + erf(1.25 * M_SQRT1_2)) } },
        { "softplus", { log1p(exp(-4)), log1p(exp(-0.5)), log1p(exp(1.25)) } },
        { "softsign", { -0.8, -1.0 / 3, 1.25 / 2.25 } },
        { "swish", { -4 / (1 + exp(4)), -0.5 / (1 + exp(0.5)), 1.25 / (1 + exp(-1.25)) } },
        { "silu", { -4 / (1 + exp(4)), -0.5 / (1 + exp(0.5)), 1.25 / (1 + exp(-1.25)) } },
        { "mish", { -4 * tanh(log1p(exp(-4))), -0.5 * tanh(log1p(exp(-0.5))), 1.25 * tanh(log1p(exp(1.25))) } },
        { "exponential", { exp(-4), exp(-0.5), exp(1.25) } },
        { "hard_sigmoid", { 0, 0.4, 0.75 } },
        { "softmax",
          { exp(-4) / (exp(-4) + exp(-0.5) + exp(1.25)), exp(-0.5) / (exp(-4) + exp(-0.5) + exp(1.25)),
            exp(1.25) / (exp(-4) + exp(-0.5) + exp(1.25)) } },
    };
    const size_t n = sizeof cases / sizeof cases[0];
    est_node     y[sizeof cases / sizeof cases[0]];
    nn_test      t = nn_begin(1);

    for (size_t i = 0; i < n; i++) {
        est_activation f;

        assert_ok(est_activation_by_name(cases[i].name, &f));
        y[i] = f(nn_const(t.graph, EST_SHAPE(1, 3), x));
    }
    nn_ready(&t);
    for (size_t i = 0; i < n; i++) {
        double got[3];

        assert_int_equal(nn_fetch(&t, y[i], got, 3), 3);
        for (int k = 0; k < 3; k++) {
            if (fabs(got[k] - cases[i].expected[k]) > 1e-6 * fmax(1, fabs(got[k]))) {
                fail_msg("%s(%g) is %.9g, expected %.9g", cases[i].name, x[k], got[k], cases[i].expected[k]);
            }
        }
    }
    nn_end(&t);
}

TEST(initializers)
{
    const char *const names[] = { "zeros",           "Ones",          "random_uniform", "RandomNormal",
                                  "TruncatedNormal", "glorot_normal", "GlorotUniform",  "he_normal",
                                  "he_uniform",      "lecun_normal",  "LecunUniform",   "VarianceScaling" };
    const double      bound[] = { 0, 0, 0.05, 0, 0.1, 0, sqrt(6.0 / 32), 0, sqrt(6.0 / 16), 0, sqrt(3.0 / 16), 0 };
    est_node          value[12], identity;
    est_initializer   initializer;
    nn_test           t = nn_begin(1);

    for (int i = 0; i < 12; i++) {
        assert_ok(est_initializer_by_name(names[i], &initializer));
        value[i] = est_initial_value(initializer, t.graph, EST_F32, EST_SHAPE(16, 16));
    }
    assert_ok(est_initializer_by_name("identity", &initializer));
    identity = est_initial_value(initializer, t.graph, EST_F32, EST_SHAPE(2, 3));
    nn_ready(&t);
    for (int i = 0; i < 12; i++) {
        double got[256], square = 0, most = 0;

        assert_int_equal(nn_fetch(&t, value[i], got, 256), 256);
        for (int k = 0; k < 256; k++) {
            square += got[k] * got[k] / 256;
            most = fmax(most, fabs(got[k]));
        }
        if (i < 2) assert_near(square, i, 0);
        if (bound[i] > 0 && !(most <= bound[i] && most > 0.9 * bound[i])) fail_msg("%s: %g", names[i], most);
        if (i == 3) assert_near(sqrt(square), 0.05, 0.01);
    }
    {
        double got[6];

        assert_int_equal(nn_fetch(&t, identity, got, 6), 6);
        for (int k = 0; k < 6; k++) assert_near(got[k], k == 0 || k == 4, 0);
    }
    nn_end(&t);
}

TEST(regularizers)
{
    est_regularizer r;

    assert_ok(est_regularizer_by_name("l1", &r));
    assert_near(r.l1, 0.01, 0);
    assert_near(r.l2, 0, 0);
    assert_ok(est_regularizer_by_name("L2", &r));
    assert_near(r.l1, 0, 0);
    assert_near(r.l2, 0.01, 0);
    assert_ok(est_regularizer_by_name("L1L2", &r));
    assert_near(r.l1, 0.01, 0);
    assert_near(r.l2, 0.01, 0);
}

/* --- optimizers --------------------------------------------------------------------------------------------------- */

/* Three steps of an optimizer; `rate` is set in its variable after it was made with another. */
static double trained(const char *name, double made_with, double rate)
{
    nn_test       t      = nn_begin(1);
    est_node      w      = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_ones()));
    est_node      loss   = est_square(est_read_variable(w)), train;
    float         value  = (float)rate;
    est_tensor   *tensor = NULL;
    est_optimizer optimizer;
    est_nodes     rates;
    double        got;

    assert_ok(est_optimizer_by_name(name, made_with, true, &optimizer));
    train = est_minimize(optimizer, loss, NULL);
    rates = est_graph_collection(t.graph, EST_LEARNING_RATES);
    assert_int_equal(rates.n, 1);
    assert_non_null(strstr(est_node_name(rates.data[0]), "/learning_rate"));
    nn_ready(&t);
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &value, &tensor));
    assert_ok(est_session_write(t.session, est_node_name(rates.data[0]), tensor));
    est_tensor_free(tensor);
    for (int i = 0; i < 3; i++) nn_run(&t, train);
    nn_read(&t, "w", &got, 1);
    nn_end(&t);
    return got;
}

/* Each has its learning rate in a variable, which counts from the next step on. */
TEST(learning_rates)
{
    static const char *const names[] = { "sgd",     "SGD",  "momentum", "Adagrad", "adam",
                                         "rmsprop", "Ftrl", "adadelta", "AdaMax",  "Nadam" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(trained(names[i], 0.125, 0.25) == trained(names[i], 0.25, 0.25));
        assert_true(trained(names[i], 0.125, 0.25) != trained(names[i], 0.125, 0.125));
    }
}

/* Without .keras it is one if that is asked for. */
TEST(learning_rate_variable)
{
    nn_test     t     = nn_begin(1);
    est_node    w     = est_weight(t.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_ones())), train;
    float       value = 0.5f;
    est_tensor *rate  = NULL;
    double      got;

    assert_null(est_learning_rate_variable(t.graph).graph);
    (void)est_minimize(est_adam(1, NULL), est_read_variable(w), NULL);
    assert_null(est_learning_rate_variable(t.graph).graph);
    train = est_minimize(est_sgd(0.25), est_read_variable(w), EST_MINIMIZE(.learning_rate_variable = true));
    assert_string_equal(est_node_name(est_learning_rate_variable(t.graph)), "training/SGD/learning_rate");
    nn_ready(&t);
    nn_run(&t, train);
    nn_read(&t, "w", &got, 1);
    assert_near(got, 0.75, 0);
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &value, &rate));
    assert_ok(est_session_write(t.session, "training/SGD/learning_rate", rate));
    est_tensor_free(rate);
    nn_run(&t, train);
    nn_read(&t, "w", &got, 1);
    assert_near(got, 0.25, 0);
    nn_end(&t);
}

/* The name of estimators means the legacy formula, the one of Keras the newer: they differ in the place of epsilon. */
TEST(two_rms_props)
{
    est_optimizer legacy, newer;

    assert_ok(est_optimizer_by_name("RMSProp", 0, true, &legacy));
    assert_ok(est_optimizer_by_name("RMSprop", 0, true, &newer));
    assert_true(legacy.hyper[3] == 0);
    assert_true(newer.hyper[3] == 1);
}

/* Of sparse gradients those of Keras make dense ones. */
TEST(dense_gradients_by_name)
{
    est_optimizer legacy, newer, v1;

    assert_ok(est_optimizer_by_name("Ftrl", 0, true, &legacy));
    assert_ok(est_optimizer_by_name("ftrl", 0, true, &newer));
    assert_ok(est_optimizer_by_name("ftrl", 0, false, &v1));
    assert_false(legacy.dense);
    assert_true(newer.dense);
    assert_false(v1.dense);
    assert_ok(est_optimizer_by_name("adadelta", 0, true, &newer));
    assert_ok(est_optimizer_by_name("Adadelta", 0, true, &legacy));
    assert_true(newer.dense);
    assert_false(legacy.dense);
}

/* --- unknown names ------------------------------------------------------------------------------------------------ */

static void expect_error(est_status status, const char *text)
{
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), text);
}

TEST(unknown_names)
{
    const char     *once;
    est_loss        loss;
    est_metric_spec metric;
    est_activation  activation;
    est_initializer initializer;
    est_regularizer regularizer;
    est_optimizer   optimizer;

    expect_error(est_loss_by_name("mean_sqared_error", &loss),
                 "unknown loss 'mean_sqared_error'; did you mean 'mean_squared_error'?");
    expect_error(est_loss_by_name("MeanSquareError", &loss),
                 "unknown loss 'MeanSquareError'; did you mean 'mean_squared_error'?");
    expect_error(
        est_loss_by_name("", &loss),
        "unknown loss ''; expected one of mean_squared_error, mean_absolute_error, "
        "mean_absolute_percentage_error, mean_squared_logarithmic_error, huber, log_cosh, binary_crossentropy, "
        "binary_focal_crossentropy, categorical_crossentropy, categorical_focal_crossentropy, "
        "sparse_categorical_crossentropy, hinge, squared_hinge, categorical_hinge, poisson, kl_divergence, "
        "cosine_similarity");
    assert_int_equal(est_metric_by_name("", &metric), EST_INVALID_ARGUMENT); /* each name once */
    once = strstr(est_error_message(), "cosine_similarity");
    assert_true(once != NULL && strstr(once + 1, "cosine_similarity") == NULL);
    assert_null(strstr(est_error_message(), "log_cosh"));
    expect_error(est_metric_by_name("acuracy", &metric), "unknown metric 'acuracy'; did you mean 'accuracy'?");
    expect_error(est_regularizer_by_name("ridge", &regularizer),
                 "unknown regularizer 'ridge'; expected one of l1, l2, l1_l2");
    expect_error(est_activation_by_name("rellu", &activation), "unknown activation 'rellu'; did you mean 'relu'?");
    expect_error(est_initializer_by_name("glorot", &initializer),
                 "unknown initializer 'glorot'; did you mean 'glorot_uniform'?");
    expect_error(est_regularizer_by_name("l3", &regularizer), "unknown regularizer 'l3'; did you mean 'l1'?");
    expect_error(est_optimizer_by_name("Adm", 0, true, &optimizer), "unknown optimizer 'Adm'; did you mean 'adam'?");
    expect_error(est_loss_by_name(NULL, &loss), "est_loss_by_name: name is NULL");
    expect_error(est_metric_by_name("mse", NULL), "est_metric_by_name: out is NULL");
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status build_all(void)
{
    static const char *const names[] = { "mse", "categorical_crossentropy", "accuracy", "auc", "true_positives" };
    est_graph               *graph   = NULL;
    est_status               status  = est_graph_create(1, &graph);

    if (status != EST_OK) return status;
    for (int i = 0; i < 5; i++) {
        est_node        l = est_placeholder(graph, "l", EST_F32, EST_SHAPE(-1, COLS));
        est_node        p = est_placeholder(graph, "p", EST_F32, EST_SHAPE(-1, COLS));
        est_metric_spec spec;

        if (est_metric_by_name(names[i], &spec) == EST_OK) (void)spec.make(&spec, l, p, EST_NO_NODE);
    }
    status = est_graph_status(graph);
    est_graph_free(graph);
    return status;
}

TEST(memory_failures)
{
    fault_allocations(build_all);
}
