/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: each formula element by element in double, and every reduction with and without weights. */
#include "support/nn_test.h"

#define N 6 /* 3 rows of 2 */

typedef est_node (*loss_fn)(est_node labels, est_node predictions, const est_loss_options *options);

static const double raw[N]     = { 0.2, -1.5, 3, 0.7, -0.1, 2.2 };
static const double share[N]   = { 0.2, 0.9, 0.5, 0.7, 0.1, 0.35 };
static const double numbers[N] = { 1, -1, 2.5, 0.5, 0, 4 };
static const double bits[N]    = { 1, 0, 0, 1, 1, 0 };

static double mse(double l, double p)
{
    return (p - l) * (p - l);
}

static double mae(double l, double p)
{
    return fabs(p - l);
}

static double huber(double l, double p)
{
    double e = fabs(p - l);

    return e <= 0.8 ? 0.5 * e * e : 0.8 * e - 0.32;
}

static double hinge(double l, double p)
{
    return fmax(0, 1 - (2 * l - 1) * p);
}

static double log_loss(double l, double p)
{
    return -l * log(p + 1e-7) - (1 - l) * log(1 - p + 1e-7);
}

static double sigmoid_xent(double l, double x)
{
    return fmax(x, 0) - x * l + log1p(exp(-fabs(x)));
}

static double smoothed_sigmoid_xent(double l, double x)
{
    return sigmoid_xent(l * 0.8 + 0.1, x);
}

static double poisson(double l, double p)
{
    return p - l * log(p + 1e-7);
}

static double log_poisson(double l, double x)
{
    return exp(x) - l * x;
}

static double full_log_poisson(double l, double x)
{
    return log_poisson(l, x) + (l > 1 ? l * log(l) - l + 0.5 * log(2 * M_PI * l) : 0);
}

TEST(elementwise)
{
    const struct {
        const char *label;
        loss_fn     build;
        double (*expected)(double label, double prediction);
        const double    *labels, *predictions;
        est_loss_options o;
    } cases[] = {
        { "mse", est_loss_mse, mse, numbers, raw, *EST_LOSS(.delta = 0) },
        { "mae", est_loss_mae, mae, numbers, raw, *EST_LOSS(.delta = 0) },
        { "huber", est_loss_huber, huber, numbers, raw, *EST_LOSS(.delta = 0.8) },
        { "hinge", est_loss_hinge, hinge, bits, raw, *EST_LOSS(.delta = 0) },
        { "log", est_loss_log, log_loss, bits, share, *EST_LOSS(.delta = 0) },
        { "sigmoid", est_loss_sigmoid_xent, sigmoid_xent, bits, raw, *EST_LOSS(.delta = 0) },
        { "smoothed sigmoid", est_loss_sigmoid_xent, smoothed_sigmoid_xent, bits, raw,
          *EST_LOSS(.label_smoothing = 0.2) },
        { "poisson", est_loss_poisson, poisson, bits, share, *EST_LOSS(.delta = 0) },
        { "log poisson", est_loss_log_poisson, log_poisson, bits, raw, *EST_LOSS(.delta = 0) },
        { "full log poisson", est_loss_log_poisson, full_log_poisson, numbers, share, *EST_LOSS(.full = true) },
    };

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        nn_test          t = nn_begin(1);
        est_node         l = nn_const(t.graph, EST_SHAPE(3, 2), cases[c].labels);
        est_node         p = nn_const(t.graph, EST_SHAPE(3, 2), cases[c].predictions), each, whole;
        est_loss_options o = cases[c].o;
        double           got[N], mean = 0;

        whole       = cases[c].build(l, p, &o);
        o.reduction = EST_LOSS_NONE;
        each        = cases[c].build(l, p, &o);
        nn_ready(&t);
        assert_int_equal(nn_fetch(&t, each, got, N), N);
        for (int i = 0; i < N; i++) {
            double want = cases[c].expected(cases[c].labels[i], cases[c].predictions[i]);
            if (fabs(got[i] - want) > 2e-5 * fmax(1, fabs(want))) {
                fail_msg("%s element %d is %g, expected %g", cases[c].label, i, got[i], want);
            }
            mean += want / N;
        }
        assert_near(nn_scalar(&t, whole), mean, 2e-5);
        nn_end(&t);
    }
}

/* l = (1, 2, 3, 4, 5, 6), weights per row (2, 0, 0.5), given as [3], as [3, 1] and as [3, 2]. */
TEST(reductions)
{
    static const double ls[N] = { 1, 2, 3, 4, 5, 6 }, row[3] = { 2, 0, 0.5 }, each[N] = { 2, 2, 0, 0, 0.5, 0.5 };
    static const struct {
        est_reduction reduction;
        double        weighted, plain;
    } cases[] = {
        { EST_LOSS_SUM_OVER_BATCH_SIZE, 11.5 / 6, 3.5 },
        { EST_LOSS_SUM, 11.5, 21 },
        { EST_LOSS_MEAN, 11.5 / 5, 3.5 },
        { EST_LOSS_SUM_OVER_NONZERO_WEIGHTS, 11.5 / 4, 3.5 },
    };

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        nn_test  t    = nn_begin(1);
        est_node l    = nn_const(t.graph, EST_SHAPE(3, 2), ls);
        est_node w[3] = { nn_const(t.graph, EST_SHAPE(3), row), nn_const(t.graph, EST_SHAPE(3, 1), row),
                          nn_const(t.graph, EST_SHAPE(3, 2), each) };
        est_node out[4];

        for (int i = 0; i < 3; i++) {
            out[i] = est_loss_reduce(l, EST_LOSS(.weights = w[i], .reduction = cases[c].reduction));
        }
        out[3] = est_loss_reduce(l, EST_LOSS(.reduction = cases[c].reduction));
        nn_ready(&t);
        for (int i = 0; i < 3; i++) assert_near(nn_scalar(&t, out[i]), cases[c].weighted, 1e-6);
        assert_near(nn_scalar(&t, out[3]), cases[c].plain, 1e-6);
        nn_end(&t);
    }
}

TEST(softmax)
{
    nn_test  t       = nn_begin(1);
    est_node logits  = nn_const(t.graph, EST_SHAPE(3, 2), raw);
    est_node onehot  = nn_const(t.graph, EST_SHAPE(3, 2), NN_VALUES(1, 0, 0, 1, 0, 1));
    est_node classes = est_const_i64(t.graph, EST_SHAPE(3, 1), (const int64_t[]){ 0, 1, 1 });
    est_node dense   = est_loss_softmax_xent(onehot, logits, NULL);
    est_node smooth  = est_loss_softmax_xent(onehot, logits, EST_LOSS(.label_smoothing = 0.2));
    est_node sparse  = est_loss_sparse_softmax_xent(classes, logits, NULL);
    double   want = 0, want_smooth = 0;

    for (int r = 0; r < 3; r++) {
        int    c       = r == 0 ? 0 : 1;
        double log_sum = log(exp(raw[2 * r]) + exp(raw[2 * r + 1]));
        want += (log_sum - raw[2 * r + c]) / 3;
        want_smooth += (log_sum - 0.9 * raw[2 * r + c] - 0.1 * raw[2 * r + 1 - c]) / 3;
    }
    nn_ready(&t);
    assert_near(nn_scalar(&t, dense), want, 1e-6);
    assert_near(nn_scalar(&t, sparse), want, 1e-6);
    assert_near(nn_scalar(&t, smooth), want_smooth, 1e-6);
    nn_end(&t);
}

TEST(cosine)
{
    nn_test  t = nn_begin(1);
    est_node l = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(3, 4, 1, 0));
    est_node p = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(6, 8, 0, 5));
    est_node y = est_loss_cosine(l, p, EST_LOSS(.reduction = EST_LOSS_NONE));
    double   got[2];

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, y, got, 2), 2);
    assert_near(got[0], -1, 1e-6);
    assert_near(got[1], 0, 1e-6);
    nn_end(&t);
}

/* Labels -1 and 1 are taken as they are. */
TEST(signed_hinge)
{
    nn_test  t = nn_begin(1);
    est_node l = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(-1, 1)),
             p = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0.5, 0.5));
    est_node y = est_loss_hinge(l, p, NULL);

    nn_ready(&t);
    assert_near(nn_scalar(&t, y), (1.5 + 0.5) / 2, 1e-6);
    nn_end(&t);
}

/* Numbers of tf.keras.losses.BinaryCrossentropy: probabilities are clipped, the last axis is averaged. */
TEST(binary)
{
    nn_test  t       = nn_begin(1);
    est_node labels  = nn_const(t.graph, EST_SHAPE(3, 2), NN_VALUES(1, 0, 1, 1, 0, 0));
    est_node p       = nn_const(t.graph, EST_SHAPE(3, 2), NN_VALUES(0.2, 0.9, 0, 1, 1, 0.35));
    est_node weights = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 0.5, 2));
    est_node rows    = est_loss_binary_xent(labels, p, EST_LOSS(.reduction = EST_LOSS_NONE));
    est_node mean    = est_loss_binary_xent(labels, p, NULL);
    est_node some    = est_loss_binary_xent(labels, p, EST_LOSS(.weights = weights));
    est_node smooth  = est_loss_binary_xent(labels, p, EST_LOSS(.label_smoothing = 0.2));
    est_node sum     = est_loss_binary_xent(labels, p, EST_LOSS(.reduction = EST_LOSS_SUM));
    double   few[3];

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, rows, few, 3), 3);
    assert_near(few[0], 1.95601058, 1e-6);
    assert_near(few[1], 7.71247435, 1e-6);
    assert_near(few[2], 7.88201046, 1e-6);
    assert_near(nn_scalar(&t, mean), 5.850165, 1e-6);
    assert_near(nn_scalar(&t, some), 7.1920896, 1e-6);
    assert_near(nn_scalar(&t, smooth), 5.5436745, 1e-6);
    assert_near(nn_scalar(&t, sum), 17.550495, 1e-6);
    nn_end(&t);
}

/* In graphs Keras takes the logits of a sigmoid, whose probabilities of 0 and 1 would be clipped; so does the gradient
 * reach them. */
TEST(binary_of_sigmoid)
{
    nn_test      t      = nn_begin(1);
    est_node     labels = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 1, 0));
    est_node     logits = nn_const(t.graph, EST_SHAPE(3, 1), NN_VALUES(0.2, -40, 30));
    est_node     rows   = est_loss_binary_xent(labels, est_sigmoid(logits), EST_LOSS(.reduction = EST_LOSS_NONE));
    est_gradient slope;
    double       few[3];

    est_gradients(est_sum(rows), EST_NODES(logits), &slope);
    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, rows, few, 3), 3);
    assert_near(few[0], 0.59813887, 1e-6);
    assert_near(few[1], 40, 1e-6);
    assert_near(few[2], 30, 1e-6);
    assert_int_equal(nn_fetch(&t, slope.values, few, 3), 3);
    assert_near(few[1], -1, 1e-6);
    assert_near(few[2], 1, 1e-6);
    nn_end(&t);
}
