/* SPDX-License-Identifier: Apache-2.0
 *
 * Initializers: bounds, mean and deviation of what they draw. */
#include <stdlib.h>

#include "support/nn_test.h"

typedef struct draw_case {
    est_initializer init;
    est_shape       shape;
    double          mean, deviation; /* expected */
    double          bound;           /* nothing beyond, measured from the mean; 0: no bound */
} draw_case;

static void check_draw(const draw_case *c)
{
    nn_test  t = nn_begin(11);
    int64_t  n = est_shape_count(&c->shape);
    double  *x = malloc(sizeof *x * (size_t)n), mean = 0, square = 0, far = 0;
    est_node node = est_initial_value(c->init, t.graph, EST_F32, c->shape);

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, node, x, n), n);
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) far = fmax(far, fabs(x[i] - c->mean));
    if (fabs(mean - c->mean) > 5 * c->deviation / sqrt((double)n)) fail_msg("mean is %g, expected %g", mean, c->mean);
    if (fabs(sqrt(square) - c->deviation) > 0.02 * c->deviation) {
        fail_msg("deviation is %g, expected %g", sqrt(square), c->deviation);
    }
    if (c->bound > 0 && (far > c->bound * (1 + 1e-6) || far < 0.95 * c->bound)) {
        fail_msg("values reach %g from the mean, expected %g", far, c->bound);
    }
    free(x);
    nn_end(&t);
}

TEST(draws)
{
    const double    cut     = 0.87962566103423978; /* deviation of a unit normal cut at two */
    const draw_case cases[] = {
        { est_init_zeros(), EST_SHAPE(3, 4), 0, 0, 0 },
        { est_init_ones(), EST_SHAPE(3, 4), 1, 0, 0 },
        { est_init_constant(-2.5), EST_SHAPE(7), -2.5, 0, 0 },
        { est_init_random_uniform(-1, 3, 0), EST_SHAPE(200, 100), 1, 4 / sqrt(12), 2 },
        { est_init_random_normal(2, 0.5, 0), EST_SHAPE(200, 100), 2, 0.5, 0 },
        { est_init_truncated_normal(1, 0.5, 0), EST_SHAPE(200, 100), 1, 0.5 * cut, 1 },
        { est_init_glorot_uniform(0), EST_SHAPE(100, 300), 0, sqrt(2.0 / 400), sqrt(6.0 / 400) },
        { est_init_glorot_normal(0), EST_SHAPE(100, 300), 0, sqrt(2.0 / 400), 2 * sqrt(2.0 / 400) / cut },
        { est_init_he_normal(0), EST_SHAPE(100, 300), 0, sqrt(2.0 / 100), 2 * sqrt(2.0 / 100) / cut },
        { est_init_he_uniform(0), EST_SHAPE(100, 300), 0, sqrt(2.0 / 100), sqrt(6.0 / 100) },
        { est_init_lecun_normal(0), EST_SHAPE(100, 300), 0, sqrt(1.0 / 100), 0 },
        { est_init_lecun_uniform(0), EST_SHAPE(100, 300), 0, sqrt(1.0 / 100), sqrt(3.0 / 100) },
        { est_init_he_normal(0), EST_SHAPE(5, 5, 16, 64), 0, sqrt(2.0 / (25 * 16)), 0 }, /* filters: times the area */
        { est_init_glorot_uniform(0), EST_SHAPE(3, 3, 32, 64), 0, sqrt(2.0 / (9 * 96)), sqrt(6.0 / (9 * 96)) },
        { est_init_variance_scaling(3, EST_FAN_OUT, EST_DRAW_NORMAL, 0), EST_SHAPE(100, 300), 0, 0.1, 0 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_draw(&cases[i]);
}

/* The same graph seed gives the same weights, another one others, and two layers differ. */
TEST(seeds)
{
    double a[4], b[4], c[4], other[4];

    for (int i = 0; i < 3; i++) {
        nn_test  t = nn_begin(i < 2 ? 5 : 6);
        est_node x = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 1));
        (void)est_dense(est_dense(x, 2, NULL), 2, NULL);
        nn_ready(&t);
        nn_read(&t, "dense/kernel", i == 0 ? a : i == 1 ? b : c, 4);
        nn_read(&t, "dense_1/kernel", other, 4);
        nn_end(&t);
    }
    assert_memory_equal(a, b, sizeof a);
    assert_true(memcmp(a, c, sizeof a) != 0);
    assert_true(memcmp(c, other, sizeof a) != 0);
}
