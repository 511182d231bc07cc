/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributions by their moments and limits; that threads, batches and runs draw what they should is in the harness and
 * in check_streams(). */
#include "apply.h"
#include "estoc/session.h"

static double element(const est_view *v, int64_t i)
{
    switch (v->dtype) {
    case EST_F32: return ((const float *)v->data)[i];
    case EST_F64: return ((const double *)v->data)[i];
    case EST_I32: return ((const int32_t *)v->data)[i];
    default: return (double)((const int64_t *)v->data)[i];
    }
}

typedef struct moments {
    double mean, variance, low, high, repeats; /* repeats: neighbours that are equal */
} moments;

static moments moments_of(const est_view *v)
{
    moments m = { .low = INFINITY, .high = -INFINITY };

    for (int64_t i = 0; i < v->count; i++) {
        double x = element(v, i);
        m.mean += x / (double)v->count;
        m.low  = fmin(m.low, x);
        m.high = fmax(m.high, x);
        m.repeats += i > 0 && x == element(v, i - 1);
    }
    for (int64_t i = 0; i < v->count; i++) {
        double d = element(v, i) - m.mean;
        m.variance += d * d / (double)v->count;
    }
    return m;
}

static int fits(const est_view *v, double mean, double variance, double low, double high)
{
    moments m = moments_of(v);
    double  t = 6 * sqrt(variance / (double)v->count); /* six deviations of the mean */

    if (v->count < 1000) return 0;
    if (fabs(m.mean - mean) < t && fabs(m.variance / variance - 1) < 0.05 && m.low >= low && m.high <= high) return 0;
    printf("  mean %g (want %g) variance %g (want %g) in [%g, %g]\n", m.mean, mean, m.variance, variance, m.low,
           m.high);
    return 1;
}

static int uniform(est_ref *r, est_view *const *in, const est_view *out)
{
    (void)r;
    (void)in;
    return fits(&out[0], 0.5, 1.0 / 12, 0, 0.99999999);
}

static int normal(est_ref *r, est_view *const *in, const est_view *out)
{
    (void)r;
    (void)in;
    return fits(&out[0], 0, 1, -7, 7);
}

static int truncated(est_ref *r, est_view *const *in, const est_view *out)
{
    (void)r;
    (void)in;
    return fits(&out[0], 0, 0.774, -2, 2);
}

static int integers(est_ref *r, est_view *const *in, const est_view *out)
{
    double low = r->in[1][0], high = r->in[2][0], width = high - low;

    (void)in;
    return fits(&out[0], (low + high - 1) / 2, (width * width - 1) / 12, low, high - 1);
}

#define SHAPE(type, n, ...)                                                                                            \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .values = (const double[]){ __VA_ARGS__ }, .constant = true              \
    }
#define INTEGER(type, x)                                                                                               \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = type, .values = (const double[])                                           \
        {                                                                                                              \
            x                                                                                                          \
        }                                                                                                              \
    }
#define SEEDED .attrs = EST_ATTRS(est_attr_type("dtype", EST_F32), est_attr_int("seed", 3), est_attr_int("seed2", 4))
#define PART                                                                                                           \
    .attrs = EST_ATTRS(est_attr_type("dtype", EST_F32), est_attr_int("seed", 3), est_attr_int("seed2", 4),             \
                       est_attr_int("first", 1001))
#define INT_PART   .attrs = EST_ATTRS(est_attr_int("seed", 3), est_attr_int("seed2", 4), est_attr_int("first", 1001))
#define INT_SEEDED .attrs = EST_ATTRS(est_attr_int("seed", 3), est_attr_int("seed2", 4))

static int failures;

static void check(bool ok, const char *what)
{
    if (ok) return;
    printf("FAIL %s: %s\n", what, est_error_message());
    failures++;
}

/* Two ops differ, two runs differ, the same run count draws the same, and a longer tensor starts as a shorter one. */
static void check_streams(void)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *out[3], *again[3];
    const float *x[3], *y[3];

    check(est_graph_create(5, &graph) == EST_OK, "graph");
    est_node shape  = est_const_list(graph, EST_I64S(100));
    est_node longer = est_const_list(graph, EST_I64S(200));
    est_node a = est_random_uniform(shape, EST_F32, 0), b = est_random_uniform(shape, EST_F32, 0);
    est_node c = est_random_uniform(longer, EST_F32, (uint64_t)est_node_int(est_def(a), "seed2"));

    check(est_session_create(graph, NULL, &session) == EST_OK, "session");
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(a, b, c), (est_nodes){ 0 }, out) == EST_OK, "run");
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(a, b, c), (est_nodes){ 0 }, again) == EST_OK, "run");
    for (int i = 0; i < 3; i++) {
        x[i] = est_tensor_data(out[i]);
        y[i] = est_tensor_data(again[i]);
    }
    check(memcmp(x[0], x[1], 400) != 0, "two ops draw different numbers");
    check(memcmp(x[0], x[2], 400) == 0, "the beginning does not depend on the length");
    check(memcmp(x[0], y[0], 400) != 0, "two runs draw different numbers");
    for (int i = 0; i < 3; i++) est_tensor_free(again[i]);
    est_session_set_run_count(session, 0);
    check(est_session_run(session, EST_NO_FEEDS, EST_NODES(a, b, c), (est_nodes){ 0 }, again) == EST_OK, "run");
    check(memcmp(x[1], est_tensor_data(again[1]), 400) == 0, "the same run draws the same");
    for (int i = 0; i < 3; i++) {
        est_tensor_free(out[i]);
        est_tensor_free(again[i]);
    }
    est_session_free(session);
    est_graph_free(graph);
}

/* A part draws what the whole has there, whatever is cut. */
static void check_part(const char *name, est_dtype dtype, int64_t first)
{
    char         part_name[64];
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *out[2];
    est_node     all[3], part[3];
    bool         integer = dtype == EST_I32 || dtype == EST_I64;
    size_t       size    = est_dtype_size(dtype);

    snprintf(part_name, sizeof part_name, "Est%sPart", name);
    check(est_graph_create(5, &graph) == EST_OK, "graph");
    all[0]  = est_const_list(graph, EST_I64S(5, 100));
    part[0] = est_const_list(graph, EST_I64S(37));
    for (int i = 1; i < 3; i++) all[i] = part[i] = est_scalar(graph, dtype, i == 1 ? -5 : 5000);
    const est_attr attrs[] = { est_attr_int("seed", 3), est_attr_int("seed2", 9), est_attr_type("dtype", dtype),
                               est_attr_int("first", first) };
    const est_attr whole[] = { attrs[0], attrs[1], attrs[2] }, integers_part[] = { attrs[0], attrs[1], attrs[3] };
    est_node       a = est_build(graph, est_op_find(name), (est_nodes){ all, integer ? 3 : 1 },
                                 (est_attrs){ whole, integer ? 2 : 3 });
    est_node       b = est_build(graph, est_op_find(part_name), (est_nodes){ part, integer ? 3 : 1 },
                           integer ? (est_attrs){ integers_part, 3 } : (est_attrs){ attrs, 4 });

    check(est_session_create(graph, NULL, &session) == EST_OK, part_name);
    if (est_session_run(session, EST_NO_FEEDS, EST_NODES(a, b), (est_nodes){ 0 }, out) == EST_OK) {
        check(memcmp((const char *)est_tensor_data(out[0]) + (size_t)first * size, est_tensor_data(out[1]),
                     37 * size) == 0,
              part_name);
        for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    } else {
        check(false, part_name);
    }
    est_session_free(session);
    est_graph_free(graph);
}

static void check_parts(void)
{
    static const int64_t first[] = { 0, 1, 2, 3, 13, 64, 250, 463 };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        for (int wide = 0; wide < 2; wide++) {
            check_part("RandomUniform", wide ? EST_F64 : EST_F32, first[i]);
            check_part("RandomStandardNormal", wide ? EST_F64 : EST_F32, first[i]);
            check_part("TruncatedNormal", wide ? EST_F64 : EST_F32, first[i]);
            check_part("RandomUniformInt", wide ? EST_I64 : EST_I32, first[i]);
        }
    }
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { .op = "RandomUniform", { SHAPE(EST_I32, 2, 300, 501) }, SEEDED, .also = uniform },
        { .op = "RandomUniform", { SHAPE(EST_I64, 1, 7) }, SEEDED, .also = uniform },
        { .op = "RandomUniform", { SHAPE(EST_I64, 2, 0, 3) }, SEEDED, .also = uniform },
        { .op = "RandomStandardNormal", { SHAPE(EST_I32, 1, 100003) }, SEEDED, .also = normal },
        { .op = "TruncatedNormal", { SHAPE(EST_I32, 1, 100003) }, SEEDED, .also = truncated },
        { .op = "RandomUniformInt",
          { SHAPE(EST_I32, 1, 100003), INTEGER(EST_I64, -3), INTEGER(EST_I64, 97) },
          INT_SEEDED,
          .also = integers },
        { .op = "RandomUniformInt",
          { SHAPE(EST_I32, 1, 100003), INTEGER(EST_I32, 10), INTEGER(EST_I32, 20) },
          INT_SEEDED,
          .also = integers },
        { .op = "RandomUniformInt",
          { SHAPE(EST_I32, 1, 3), INTEGER(EST_I32, 10), INTEGER(EST_I32, 10) },
          INT_SEEDED,
          .fails = EST_INVALID_ARGUMENT,
          .says  = "[10, 10)" },
        { .op = "EstRandomUniformPart", { SHAPE(EST_I64, 2, 300, 501) }, PART, .also = uniform },
        { .op = "EstRandomStandardNormalPart", { SHAPE(EST_I64, 1, 100003) }, PART, .also = normal },
        { .op = "EstTruncatedNormalPart", { SHAPE(EST_I64, 1, 100003) }, PART, .also = truncated },
        { .op = "EstRandomUniformIntPart",
          { SHAPE(EST_I64, 1, 100003), INTEGER(EST_I64, -3), INTEGER(EST_I64, 97) },
          INT_PART,
          .also = integers },
    };

    check_streams();
    check_parts();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) | (failures != 0);
}
