/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders that no other test calls: the kernels are tested by name of the op, this is that each builder makes the op
 * that its name says, with its arguments in their places. */
#include "support/nn_test.h"

#define N_MAX 16

typedef struct expectation {
    const char *what;
    est_node    node;
    int         n;
    double      want[N_MAX];
} expectation;

/* The nodes belong to the graph, so the expectations are made in the test: EXPECT(est_sign(x), -1, 0, 1). */
#define EXPECT(expr, ...)                                                                                              \
    {                                                                                                                  \
#expr, (expr), (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)),                                      \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static void check(nn_test *t, const expectation *cases, size_t n)
{
    nn_ready(t);
    for (size_t i = 0; i < n; i++) {
        double out[N_MAX];

        if (nn_fetch(t, cases[i].node, out, N_MAX) != cases[i].n) fail_msg("%s: wrong size", cases[i].what);
        for (int k = 0; k < cases[i].n; k++) {
            if (!(fabs(out[k] - cases[i].want[k]) <= 1e-6 * fmax(1, fabs(cases[i].want[k])))) {
                fail_msg("%s, element %d: %.9g, expected %.9g", cases[i].what, k, out[k], cases[i].want[k]);
            }
        }
    }
}

TEST(elementwise)
{
    nn_test           t       = nn_begin(1);
    est_node          x       = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(-1.5, 0, 7));
    est_node          half    = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(-0.5, 0, 0.5));
    est_node          odd     = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(NAN, -INFINITY, 3));
    const expectation cases[] = {
        EXPECT(est_ceil(x), -1, 0, 7),
        EXPECT(est_round_bfloat16(est_scale(x, 1.001)), -1.5, 0, 7),
        EXPECT(est_floor(x), -2, 0, 7),
        EXPECT(est_cos(half), cos(0.5), 1, cos(0.5)),
        EXPECT(est_elu(x), exp(-1.5) - 1, 0, 7),
        EXPECT(est_erf(half), erf(-0.5), 0, erf(0.5)),
        EXPECT(est_expm1(half), expm1(-0.5), 0, expm1(0.5)),
        EXPECT(est_log1p(half), log1p(-0.5), 0, log1p(0.5)),
        EXPECT(est_reciprocal(est_add(x, est_ones_like(x))), -2, 1, 0.125),
        EXPECT(est_relu6(x), 0, 0, 6),
        EXPECT(est_selu(x), 1.0507009873554805 * 1.6732632423543772 * (exp(-1.5) - 1), 0, 1.0507009873554805 * 7),
        EXPECT(est_sign(x), -1, 0, 1),
        EXPECT(est_softsign(x), -0.6, 0, 0.875),
        EXPECT(est_is_finite(odd), 0, 0, 1),
        EXPECT(est_is_inf(odd), 0, 1, 0),
        EXPECT(est_is_nan(odd), 1, 0, 0),
    };

    check(&t, cases, sizeof cases / sizeof cases[0]);
    nn_end(&t);
}

TEST(pairs)
{
    nn_test           t   = nn_begin(1);
    est_node          a   = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(2, 3, 4));
    est_node          b   = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(3, 3, 0));
    est_node          yes = est_greater_equal(a, b), no = est_less(a, b);
    const expectation cases[] = {
        EXPECT(est_div_no_nan(a, b), 2.0 / 3, 1, 0),
        EXPECT(est_pow(a, b), 8, 27, 1),
        EXPECT(yes, 0, 1, 1),
        EXPECT(no, 1, 0, 0),
        EXPECT(est_less_equal(a, b), 1, 1, 0),
        EXPECT(est_not_equal(a, b), 1, 0, 1),
        EXPECT(est_logical_and(est_less_equal(a, b), yes), 0, 1, 0),
        EXPECT(est_logical_or(no, est_not_equal(a, b)), 1, 0, 1),
        EXPECT(est_logical_not(no), 0, 1, 1),
        EXPECT(est_where(yes), 1, 2), /* [2, 1] */
    };

    check(&t, cases, sizeof cases / sizeof cases[0]);
    nn_end(&t);
}

TEST(axes)
{
    nn_test           t       = nn_begin(1);
    est_node          x       = nn_const(t.graph, EST_SHAPE(2, 3), NN_VALUES(4, 1, 2, 3, 6, 5));
    est_node          column  = nn_const(t.graph, EST_SHAPE(2, 1), NN_VALUES(0, 0));
    est_node          large   = est_greater(x, est_scalar(t.graph, EST_F32, 2.5)); /* 1 0 0, 1 1 1 */
    est_node          splits  = est_const_i64(t.graph, EST_SHAPE(4), (const int64_t[]){ 0, 2, 2, 6 });
    est_node          targets = est_const_i64(t.graph, EST_SHAPE(2), (const int64_t[]){ 1, 2 });
    const expectation cases[] = {
        EXPECT(est_argmin(x, 1), 1, 0),
        EXPECT(est_argmin(x, 0), 1, 0, 0),
        EXPECT(est_reduce_min(x, EST_I64S(0), false), 3, 1, 2),
        EXPECT(est_reduce_all(large, EST_I64S(1), false), 0, 1),
        EXPECT(est_reduce_any(large, EST_I64S(0), false), 1, 1, 1),
        EXPECT(est_pad(x, EST_I64S(0, 1, 1, 0), 9), 9, 4, 1, 2, 9, 3, 6, 5, 9, 9, 9, 9),
        EXPECT(est_sum_to_shape(x, column), 7, 14),
        EXPECT(est_in_top_k(x, targets, 2), 0, 1),
        EXPECT(est_row_ids(splits, est_reshape(x, EST_I64S(6))), 0, 0, 2, 2, 2, 2),
    };

    check(&t, cases, sizeof cases / sizeof cases[0]);
    nn_end(&t);
}

TEST(products)
{
    nn_test           t       = nn_begin(1);
    est_node          a       = nn_const(t.graph, EST_SHAPE(2, 1, 2), NN_VALUES(1, 2, 3, 4));
    est_node          b       = nn_const(t.graph, EST_SHAPE(2, 1, 2), NN_VALUES(5, 6, 7, 8));
    est_node          image   = nn_const(t.graph, EST_SHAPE(1, 2, 2, 2), NN_VALUES(1, 10, 2, 20, 3, 30, 4, 40));
    est_node          filter  = nn_const(t.graph, EST_SHAPE(2, 2, 2, 1), NN_VALUES(1, 1, 1, 0, 1, 0, 1, 0));
    const expectation cases[] = {
        EXPECT(est_batch_matmul(a, b, false, true), 17, 53),
        EXPECT(est_batch_matmul(a, b, true, false), 5, 6, 10, 12, 21, 24, 28, 32),
        EXPECT(est_depthwise_conv2d(image, filter, 1, 1, EST_VALID), 10, 10), /* each channel has its own filter */
    };

    check(&t, cases, sizeof cases / sizeof cases[0]);
    nn_end(&t);
}

TEST(random)
{
    enum { N = 1000 };
    nn_test       t      = nn_begin(1);
    est_node      shape  = est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ N });
    est_node      normal = est_truncated_normal(shape, EST_F32, 3);
    est_node      low = est_scalar(t.graph, EST_I64, -2), high = est_scalar(t.graph, EST_I64, 3);
    est_node      integer = est_random_uniform_int(shape, low, high, 3);
    static double out[N];
    int           seen[5]  = { 0 };
    double        farthest = 0;

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, normal, out, N), N);
    for (int i = 0; i < N; i++) farthest = fmax(farthest, fabs(out[i]));
    assert_true(farthest < 2 && farthest > 1.5);
    assert_int_equal(nn_fetch(&t, integer, out, N), N);
    for (int i = 0; i < N; i++) {
        assert_in_range((int)out[i] + 2, 0, 4);
        seen[(int)out[i] + 2]++;
    }
    for (int i = 0; i < 5; i++) assert_true(seen[i] > 0);
    nn_end(&t);
}

TEST(scatter_sub)
{
    nn_test  t       = nn_begin(1);
    est_node w       = est_weight(t.graph, "w", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_ones()));
    est_node rows    = est_const_i64(t.graph, EST_SHAPE(2), (const int64_t[]){ 2, 0 });
    est_node update  = est_scatter_sub(w, rows, nn_const(t.graph, EST_SHAPE(2), NN_VALUES(5, 0.5)));
    double   want[3] = { 0.5, 1, -4 }, out[3];

    nn_ready(&t);
    nn_run(&t, update);
    assert_int_equal(nn_read(&t, "w", out, 3), 3);
    assert_memory_equal(out, want, sizeof want);
    nn_end(&t);
}
