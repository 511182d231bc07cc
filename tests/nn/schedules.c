/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules against their closed forms at many steps. */
#include "support/nn_test.h"

static double exponential(double s)
{
    return 0.5 * pow(0.9, s / 7);
}

static double staircase(double s)
{
    return 0.5 * pow(0.9, floor(s / 7));
}

static double natural_exp(double s)
{
    return 0.5 * exp(-0.3 * s / 7);
}

static double natural_exp_staircase(double s)
{
    return 0.5 * exp(-0.3 * floor(s / 7));
}

static double inverse_time(double s)
{
    return 0.5 / (1 + 0.3 * s / 7);
}

static double polynomial(double s)
{
    return (0.5 - 0.01) * pow(1 - fmin(s, 20) / 20, 2) + 0.01;
}

static double polynomial_cycle(double s)
{
    double decay = 20 * fmax(1, ceil(s / 20));

    return (0.5 - 0.01) * pow(1 - s / decay, 2) + 0.01;
}

static double piecewise(double s)
{
    return s <= 5 ? 1 : s <= 12 ? 0.5 : 0.1;
}

static double cosine(double s)
{
    return 0.5 * (0.9 * 0.5 * (1 + cos(M_PI * fmin(s, 20) / 20)) + 0.1);
}

/* Periods of 8, 16, 32 ... steps, peaks 1, 0.5, 0.25 ... */
static double restarts(double s)
{
    double begun = 0, length = 8, height = 1;

    while (s >= begun + length) {
        begun += length;
        length *= 2;
        height *= 0.5;
    }
    return 0.5 * height * 0.5 * (1 + cos(M_PI * (s - begun) / length));
}

static double equal_restarts(double s)
{
    return 0.5 * 0.5 * (1 + cos(M_PI * fmod(s, 8) / 8));
}

static double warmup(double s)
{
    return s < 10 ? 0.05 + s / 10 * (exponential(10) - 0.05) : exponential(s);
}

static double warmup_before(double s)
{
    return s < 10 ? 0.05 + s / 10 * (exponential(0) - 0.05) : exponential(s - 10);
}

static double constant(double s)
{
    (void)s;
    return 0.25;
}

TEST(closed_forms)
{
    static const double values[] = { 1, 0.5, 0.1 };
    const struct {
        est_schedule schedule;
        double (*expected)(double step);
    } cases[] = {
        { est_constant_rate(0.25), constant },
        { est_exponential_decay(0.5, 7, 0.9, false), exponential },
        { est_exponential_decay(0.5, 7, 0.9, true), staircase },
        { est_natural_exp_decay(0.5, 7, 0.3, false), natural_exp },
        { est_natural_exp_decay(0.5, 7, 0.3, true), natural_exp_staircase },
        { est_inverse_time_decay(0.5, 7, 0.3, false), inverse_time },
        { est_polynomial_decay(0.5, 20, 0.01, 2, false), polynomial },
        { est_polynomial_decay(0.5, 20, 0.01, 2, true), polynomial_cycle },
        { est_piecewise_constant(EST_I64S(5, 12), (est_f64s){ values, 3 }), piecewise },
        { est_cosine_decay(0.5, 20, 0.1), cosine },
        { est_cosine_decay_restarts(0.5, 8, 2, 0.5, 0), restarts },
        { est_cosine_decay_restarts(0.5, 8, 1, 1, 0), equal_restarts },
        { est_warmup_before(est_exponential_decay(0.5, 7, 0.9, false), 10, 0.05), warmup_before },
        { est_linear_warmup(est_exponential_decay(0.5, 7, 0.9, false), 10, 0.05), warmup },
    };
    enum { N = sizeof cases / sizeof cases[0] };
    nn_test  t = nn_begin(1);
    est_node rate[N], step = est_placeholder(t.graph, "step", EST_I64, EST_SHAPE_SCALAR);

    for (int i = 0; i < N; i++) {
        rate[i] = est_learning_rate(cases[i].schedule, step);
        assert_int_equal(est_node_dtype(rate[i]), EST_F32);
    }
    nn_ready(&t);
    for (int64_t s = 0; s < 60; s++) {
        est_tensor *in, *out[N];
        assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &s, &in));
        assert_ok(est_session_run(t.session, EST_FEEDS({ step, in }), (est_nodes){ rate, N }, (est_nodes){ 0 }, out));
        for (int i = 0; i < N; i++) {
            double want = cases[i].expected((double)s), got = nn_element(out[i], 0);
            /* at a restart rounding may put the step on either side of the edge */
            double before = cases[i].expected == restarts ? restarts((double)s - 1e-9) : want;
            if (fabs(got - want) > 2e-6 && fabs(got - before) > 2e-6) {
                fail_msg("schedule %d at step %d is %.9g, expected %.9g", i, (int)s, got, want);
            }
            est_tensor_free(out[i]);
        }
        est_tensor_free(in);
    }
    nn_end(&t);
}

/* A counter beyond float32's integers still tells steps apart. */
TEST(late_steps)
{
    nn_test  t    = nn_begin(1);
    int64_t  late = (INT64_C(1) << 26) + 1;
    est_node step = est_const_i64(t.graph, EST_SHAPE_SCALAR, &late);
    est_node rate = est_learning_rate(est_piecewise_constant(EST_I64S(late - 1), EST_F64S(1, 2)), step);

    nn_ready(&t);
    assert_near(nn_scalar(&t, rate), 2, 0);
    nn_end(&t);
}
