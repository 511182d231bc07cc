/* SPDX-License-Identifier: Apache-2.0 — GatherV2, EstGatherGrad, EstGatherOrZero. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* Where in params the slice of index `i` (of indices), seen from result element `at`, comes from. */
typedef struct gather_dims {
    int64_t batch, outer, picks, rows, inner;
} gather_dims;

static int64_t product(const est_shape *s, int first, int end)
{
    int64_t n = 1;

    for (int i = first; i < end; i++) n *= s->dim[i];
    return n;
}

static gather_dims dims_of(const est_ref *r, const est_shape *params, const est_shape *indices, int64_t axis,
                           int64_t batch_dims)
{
    (void)r;
    if (axis < 0) axis += params->rank;
    if (batch_dims < 0) batch_dims += indices->rank;
    return (gather_dims){ product(params, 0, (int)batch_dims), product(params, (int)batch_dims, (int)axis),
                          product(indices, (int)batch_dims, indices->rank), params->dim[axis],
                          product(params, (int)axis + 1, params->rank) };
}

/* y[b,o,p,k] and x[b,o,indices[b,p],k], as one loop that copies or adds. */
static void gather_loop(const gather_dims *d, const double *indices, const double *from, double *to, int back)
{
    for (int64_t b = 0; b < d->batch; b++) {
        for (int64_t o = 0; o < d->outer; o++) {
            for (int64_t p = 0; p < d->picks; p++) {
                int64_t row = (int64_t)indices[b * d->picks + p];

                for (int64_t k = 0; k < d->inner; k++) {
                    int64_t y = ((b * d->outer + o) * d->picks + p) * d->inner + k;
                    int64_t x = ((b * d->outer + o) * d->rows + row) * d->inner + k;

                    if (back) {
                        to[x] += from[y];
                    } else {
                        to[y] = row < 0 ? 0 : from[x];
                    }
                }
            }
        }
    }
}

static void gather_ref(est_ref *r)
{
    gather_dims d = dims_of(r, &r->in_shape[0], &r->in_shape[1], (int64_t)r->in[2][0],
                            est_node_int(r->node, "batch_dims"));

    gather_loop(&d, r->in[1], r->in[0], r->out[0], 0);
}

static void gather_grad_ref(est_ref *r)
{
    gather_dims d = dims_of(r, &r->in_shape[0], &r->in_shape[1], (int64_t)r->in[3][0],
                            est_node_int(r->node, "batch_dims"));

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    gather_loop(&d, r->in[1], r->in[2], r->out[0], 1);
}

static void gather_or_zero_ref(est_ref *r)
{
    gather_dims d = dims_of(r, &r->in_shape[0], &r->in_shape[1], 0, 0);

    gather_loop(&d, r->in[1], r->in[0], r->out[0], 0);
}

#define PICKS(most, type, ...)                                                                                         \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = most                                            \
    }
#define SHAPE_IN(...)                                                                                                  \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .no_grad = true                                                               \
    }
#define BATCH(n) EST_ATTRS(est_attr_int("batch_dims", n))
#define REFUSED  .fails = EST_INVALID_ARGUMENT

static void test_string_tensors(void)
{
    est_graph  *graph = test_graph();
    est_tensor *words = test_strings(EST_SHAPE(3), (const char *const[]){ "a", "b", "c" });
    est_node    picks = est_const_i32(graph, EST_SHAPE(4), (const int32_t[]){ 2, 0, 2, 1 });

    check_strings(est_gather(est_const(graph, words), picks, 0), EST_SHAPE(4),
                  (const char *const[]){ "c", "a", "c", "b" });
    est_tensor_free(words);
    est_graph_free(graph);
}

/* Rows of a tensor of unknown shape: the sparse gradient has as many rows as indices, in the shape of a row. */
static void test_sparse_gradient(void)
{
    est_graph   *graph  = test_graph();
    est_node     params = est_placeholder(graph, "p", EST_F32, EST_SHAPE(-1, -1));
    est_node     picks  = est_placeholder(graph, "i", EST_I64, EST_SHAPE(-1, 2));
    est_gradient dp;
    est_tensor  *p = NULL, *i = NULL, *out;

    est_gradients(est_sum(est_gather(params, picks, 0)), (est_nodes){ &params, 1 }, &dp);
    CHECK(dp.indices.graph != NULL);
    CHECK(est_tensor_f32(EST_SHAPE(3, 2), (const float[]){ 1, 2, 3, 4, 5, 6 }, &p) == EST_OK);
    CHECK(est_tensor_i64(EST_SHAPE(1, 2), (const int64_t[]){ 2, 2 }, &i) == EST_OK);
    out = test_run(dp.values, EST_FEEDS({ params, p }, { picks, i }));
    CHECK(out != NULL && est_shape_equal(est_tensor_shape(out), &EST_SHAPE(2, 2)));
    est_tensor_free(out);
    out = test_run(dp.indices, EST_FEEDS({ params, p }, { picks, i }));
    CHECK(out != NULL && est_tensor_count(out) == 2 && ((const int64_t *)est_tensor_data(out))[1] == 2);
    est_tensor_free(out);
    est_tensor_free(p);
    est_tensor_free(i);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "GatherV2", { IN(6, 3), PICKS(5, EST_I32, 4), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(6, 3), PICKS(5, EST_I64, 2, 3), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(6), PICKS(5, EST_I32, 9), INT(0) }, .ref = gather_ref },
        { "GatherV2",
          { IN(6, 3), { .shape = EST_SHAPE_SCALAR, .dtype = EST_I32, .hi = 5 }, INT(0) },
          .ref = gather_ref },
        { "GatherV2", { IN(6, 3), PICKS(2, EST_I32, 5), INT(1) }, .ref = gather_ref },
        { "GatherV2", { IN(2, 6, 3), PICKS(5, EST_I64, 4), FED_INT(-2) }, .ref = gather_ref },
        { "GatherV2", { IN(4, 6, 3), PICKS(5, EST_I32, 4, 2), INT(1) }, .attrs = BATCH(1), .ref = gather_ref },
        { "GatherV2", { IN(4, 2, 6), PICKS(5, EST_I32, 4, 3), INT(2) }, .attrs = BATCH(1), .ref = gather_ref },
        { "GatherV2", { IN(3, 5), PICKS(4, EST_I32, 3, 2), INT(-1) }, .attrs = BATCH(-1), .ref = gather_ref },
        { "GatherV2", { IN(6, 3), PICKS(5, EST_I32, 0), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(6, 0), PICKS(5, EST_I32, 3), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(1000, 16), PICKS(999, EST_I64, 5000), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(100, 77), PICKS(99, EST_I32, 700), INT(0) }, .ref = gather_ref },
        { "GatherV2", { IN(9, 5), PICKS(8, EST_I32, 6), INT(0) }, .dtype = EST_BOOL, .ref = gather_ref },
        { "GatherV2",
          { IN(6, 3),
            { .shape = EST_SHAPE(2, 2), .dtype = EST_I32, .values = (const double[]){ 0, 1, 6, 2 } },
            INT(0) },
          REFUSED,
          .says = "indices[1,0] = 6 is not in [0, 6)" },
        { "GatherV2", { IN(6, 3), FED_INTS(0, -1), INT(0) }, REFUSED, .says = "indices[1] = -1" },
        { "GatherV2", { IN(6, 3), PICKS(2, EST_I32, 4), INT(2) }, REFUSED, .says = "axis 2" },
        { "GatherV2", { IN(4, 6), PICKS(2, EST_I32, 3, 2), INT(1) }, .attrs = BATCH(1), REFUSED, .says = "[3,2]" },
        { "EstGatherGrad",
          { SHAPE_IN(6, 3), PICKS(5, EST_I32, 8), IN(8, 3), INT(0) },
          .tol = 1e-6,
          .ref = gather_grad_ref },
        { "EstGatherGrad",
          { SHAPE_IN(2, 6, 3), PICKS(5, EST_I64, 4), IN(2, 4, 3), INT(1) },
          .tol = 1e-6,
          .ref = gather_grad_ref },
        { "EstGatherGrad",
          { SHAPE_IN(4, 6), PICKS(5, EST_I32, 4, 3), IN(4, 3), INT(1) },
          .attrs = BATCH(1),
          .tol   = 1e-6,
          .ref   = gather_grad_ref },
        { "EstGatherGrad",
          { SHAPE_IN(300, 50), PICKS(49, EST_I32, 300, 20), IN(300, 20), INT(-1) },
          .attrs = BATCH(-1),
          .tol   = 1e-5,
          .ref   = gather_grad_ref },
        { "EstGatherOrZero", { IN(6, 3), FED_INTS(5, -1, 0, 5) }, .ref = gather_or_zero_ref },
        { "EstGatherOrZero",
          { IN(6), { .shape = EST_SHAPE(3, 4), .dtype = EST_I64, .lo = -2, .hi = 5 } },
          .ref = gather_or_zero_ref },
        { "EstGatherOrZero", { IN(6, 3), FED_INTS(5, -1, 6) }, REFUSED, .says = "indices[2] = 6" },
    };

    test_string_tensors();
    test_sparse_gradient();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
