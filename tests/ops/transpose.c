/* SPDX-License-Identifier: Apache-2.0 — Transpose and InvertPermutation. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void transpose_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        int64_t at[EST_RANK_MAX], from[EST_RANK_MAX];

        coords_of(&r->out_shape[0], i, at);
        for (int k = 0; k < r->in_shape[0].rank; k++) from[(int)r->in[1][k]] = at[k];
        r->out[0][i] = r->in[0][offset_of(&r->in_shape[0], from)];
    }
}

static void invert_ref(est_ref *r)
{
    for (int64_t i = 0; i < r->in_shape[0].dim[0]; i++) r->out[0][(int)r->in[0][i]] = (double)i;
}

#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "Transpose", { IN(3, 4), INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(3, 4), FED_INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(3, 4), INTS(0, 1) }, .ref = transpose_ref },
    { "Transpose", { IN(8, 8), INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(37, 61), INTS(1, 0) }, .ref = transpose_ref }, /* tiles and edges on both sides */
    { "Transpose", { IN(509, 301), INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(5, 6, 7), INTS(0, 2, 1) }, .ref = transpose_ref },
    { "Transpose", { IN(5, 6, 7), INTS(1, 0, 2) }, .ref = transpose_ref }, /* rows move whole */
    { "Transpose", { IN(5, 6, 7), INTS(2, 0, 1) }, .ref = transpose_ref },
    { "Transpose", { IN(5, 6, 7), INTS(2, 1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(16, 9, 11, 12), INTS(0, 3, 1, 2) }, .ref = transpose_ref }, /* NHWC to NCHW */
    { "Transpose", { IN(2, 3, 4, 5, 2), INTS(4, 2, 0, 3, 1) }, .ref = transpose_ref },
    { "Transpose", { IN(0, 4), INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { IN(1, 9), INTS(1, 0) }, .ref = transpose_ref },
    { "Transpose", { SCALAR_IN, { .shape = EST_SHAPE(0), .dtype = EST_I32, .constant = true } }, .ref = transpose_ref },
    { "Transpose", { IN(70, 45), INTS(1, 0) }, .dtype = EST_BOOL, .ref = transpose_ref },
    { "Transpose", { IN(21, 19), INTS(1, 0) }, .dtype = EST_I64, .lo = -99, .hi = 99, .ref = transpose_ref },
    { "Transpose", { IN(3, 4), INTS(1, 1) }, REFUSED, .says = "twice" },
    { "Transpose", { IN(3, 4), INTS(0, 2) }, REFUSED, .says = "no such axis" },
    { "Transpose", { IN(3, 4), FED_INTS(0, 2) }, REFUSED, .says = "no such axis" },
    { "Transpose", { IN(3, 4), INTS(0, 1, 2) }, REFUSED, .says = "permutation of shape [3]" },
    { "InvertPermutation", { FED_INTS(2, 0, 3, 1) }, .ref = invert_ref },
    { "InvertPermutation",
      { { .shape = EST_SHAPE(3), .dtype = EST_I64, .values = (const double[]){ 1, 2, 0 } } },
      .ref = invert_ref },
    { "InvertPermutation", { FED_INTS(1, 1) }, REFUSED },
};

static void test_string_tensors(void)
{
    est_graph  *graph = test_graph();
    est_tensor *a     = test_strings(EST_SHAPE(2, 2), (const char *const[]){ "a", "b", "c", "d" });

    check_strings(est_transpose(est_const(graph, a), EST_I64S(1, 0)), EST_SHAPE(2, 2),
                  (const char *const[]){ "a", "c", "b", "d" });
    est_tensor_free(a);
    est_graph_free(graph);
}

/* Moving an axis to the end and back is nothing at all. */
static void test_axes(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(2, 3, 5, 7));
    est_node   last  = est_axis_to_last(x, 1);
    est_node   back  = est_axis_from_last(last, 1);

    CHECK(est_node_dim(last, 1) == 5 && est_node_dim(last, 3) == 3);
    CHECK(est_shape_equal(est_node_shape(back), est_node_shape(x)));
    CHECK(est_axis_to_last(x, 3).id == x.id && est_axis_to_last(x, -1).id == x.id);
    (void)est_axis_to_last(x, 4);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT && strstr(est_error_message(), "[2,3,5,7]") != NULL);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_string_tensors();
    test_axes();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
