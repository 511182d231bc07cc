/* SPDX-License-Identifier: Apache-2.0
 *
 * SparseReshape, SparseFillEmptyRows, SparseToDense, SparseReorder, SparseSlice, GatherNd and ScatterNd;
 * tests/interop/saved_model_load.c compares models of TensorFlow that are made of them. */
#include "support/graph_test.h"
#include "support/op_check.h"

static void reshape_ref(est_ref *r)
{
    int64_t rank = r->in_shape[1].dim[0], new_rank = r->in_shape[2].dim[0], n = r->in_shape[0].dim[0];
    double  total = 1, known = 1;

    for (int64_t k = 0; k < rank; k++) total *= r->in[1][k];
    for (int64_t k = 0; k < new_rank; k++) known *= r->in[2][k] < 0 ? 1 : r->in[2][k];
    for (int64_t k = 0; k < new_rank; k++) r->out[1][k] = r->in[2][k] < 0 ? total / known : r->in[2][k];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < rank; k++) at = at * (int64_t)r->in[1][k] + (int64_t)r->in[0][i * rank + k];
        for (int64_t k = new_rank - 1; k >= 0; k--) {
            r->out[0][i * new_rank + k] = (double)(at % (int64_t)r->out[1][k]);
            at /= (int64_t)r->out[1][k];
        }
    }
}

static void fill_ref(est_ref *r)
{
    int64_t rows = (int64_t)r->in[2][0], n = r->in_shape[0].dim[0], rank = r->in_shape[0].dim[1], at = 0;

    for (int64_t row = 0; row < rows; row++) {
        r->out[2][row] = 1;
        for (int64_t i = 0; i < n; i++) {
            if ((int64_t)r->in[0][i * rank] != row) continue;
            r->out[2][row] = 0;
            for (int64_t k = 0; k < rank; k++) r->out[0][at * rank + k] = r->in[0][i * rank + k];
            r->out[1][at] = r->in[1][i];
            r->out[3][i]  = (double)at++;
        }
        if (r->out[2][row] == 0) continue;
        for (int64_t k = 0; k < rank; k++) r->out[0][at * rank + k] = k == 0 ? (double)row : 0;
        r->out[1][at++] = r->in[3][0];
    }
}

static void to_dense_ref(est_ref *r)
{
    int64_t n = r->in_shape[0].dim[0], rank = r->in_shape[1].dim[0];

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = r->in[3][0];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < rank; k++) at = at * (int64_t)r->in[1][k] + (int64_t)r->in[0][i * rank + k];
        r->out[0][at] = r->in[2][r->in_shape[2].rank == 0 ? 0 : i];
    }
}

/* Places of two axes, below 1000 each: selection by the smallest. */
static void reorder_ref(est_ref *r)
{
    int64_t n    = r->in_shape[0].dim[0];
    double  last = -1;

    for (int64_t i = 0; i < n; i++) {
        double  best = 1e9;
        int64_t at   = 0;

        for (int64_t k = 0; k < n; k++) {
            double place = r->in[0][2 * k] * 1000 + r->in[0][2 * k + 1];

            if (place <= last || place >= best) continue;
            best = place;
            at   = k;
        }
        last                 = best;
        r->out[0][2 * i]     = r->in[0][2 * at];
        r->out[0][2 * i + 1] = r->in[0][2 * at + 1];
        r->out[1][i]         = r->in[1][at];
    }
}

static void slice_ref(est_ref *r)
{
    int64_t n = r->in_shape[0].dim[0], taken = 0;

    for (int k = 0; k < 2; k++) {
        double left = r->in[2][k] - r->in[3][k];

        r->out[2][k] = left < 0 ? 0 : left < r->in[4][k] ? left : r->in[4][k];
    }
    for (int64_t i = 0; i < n; i++) {
        double row = r->in[0][2 * i] - r->in[3][0], column = r->in[0][2 * i + 1] - r->in[3][1];

        if (row < 0 || column < 0 || row >= r->out[2][0] || column >= r->out[2][1]) continue;
        r->out[0][2 * taken]     = row;
        r->out[0][2 * taken + 1] = column;
        r->out[1][taken++]       = r->in[1][i];
    }
}

static void gather_ref(est_ref *r)
{
    int     axes  = r->in_shape[1].rank - 1;
    int64_t depth = r->in_shape[1].dim[axes], n = 1, width = 1;

    for (int k = 0; k < axes; k++) n *= r->in_shape[1].dim[k];
    for (int k = (int)depth; k < r->in_shape[0].rank; k++) width *= r->in_shape[0].dim[k];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < depth; k++) at = at * r->in_shape[0].dim[k] + (int64_t)r->in[1][i * depth + k];
        for (int64_t k = 0; k < width; k++) r->out[0][i * width + k] = r->in[0][at * width + k];
    }
}

static void scatter_ref(est_ref *r)
{
    int64_t depth = r->in_shape[0].dim[1], n = r->in_shape[0].dim[0];
    int64_t width = n > 0 ? est_shape_count(&r->in_shape[1]) / n : 0;

    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        for (int64_t k = 0; k < depth; k++) at = at * (int64_t)r->in[2][k] + (int64_t)r->in[0][i * depth + k];
        for (int64_t k = 0; k < width; k++) r->out[0][at * width + k] += r->in[1][i * width + k];
    }
}

#define INTS(dims, ...)                                                                                                \
    {                                                                                                                  \
        .shape = EST_SHAPE dims, .dtype = EST_I64, .values = (const double[])                                          \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define WRONG .fails = EST_INVALID_ARGUMENT, .says

/* Every element of a dense text is one: loaded models read all of them. */
static void dense_strings(void)
{
    static const char *const words[] = { "none at all", "b" };
    est_graph               *graph   = test_graph();
    est_tensor              *values = test_strings(EST_SHAPE(2), words), *none = test_strings(EST_SHAPE_SCALAR, words);
    est_node                 at    = est_const_i64(graph, EST_SHAPE(2, 2), (const int64_t[]){ 0, 1, 1, 0 });
    est_node                 sizes = est_const_i64(graph, EST_SHAPE(2), (const int64_t[]){ 2, 2 });
    est_nodes                in    = EST_NODES(at, sizes, est_const(graph, values), est_const(graph, none));

    check_strings(est_build(graph, &est_op_sparse_to_dense, in, EST_NO_ATTRS), EST_SHAPE(2, 2),
                  (const char *const[]){ words[0], words[0], words[1], words[0] });
    est_tensor_free(values);
    est_tensor_free(none);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    est_case_in       none    = { .shape = EST_SHAPE(0, 2), .dtype = EST_I64 };
    const est_op_case cases[] = {
        { "SparseReshape", { INTS((3, 2), 0, 1, 1, 0, 3, 2), INTS((2), 4, 3), INTS((1), 12) }, .ref = reshape_ref },
        { "SparseReshape",
          { INTS((2, 3), 0, 1, 2, 1, 0, 0), INTS((3), 2, 2, 3), INTS((2), -1, 3) },
          .ref = reshape_ref },
        { "SparseReshape", { INTS((1, 1), 5), INTS((1), 6), INTS((3), 1, 2, -1) }, .ref = reshape_ref },
        { "SparseReshape", { none, INTS((2), 4, 3), INTS((2), 6, -1) }, .ref = reshape_ref },
        { "SparseReshape", { INTS((1, 2), 0, 1), INTS((2), 4, 3), INTS((2), 5, -1) }, WRONG = "12 elements" },
        { "SparseReshape", { INTS((1, 2), 0, 3), INTS((2), 4, 3), INTS((1), 12) }, WRONG = "not below 3" },
        { "SparseReshape", { INTS((1, 2), 0, 1), INTS((2), 4, 3), INTS((2), -1, -1) }, WRONG = "cannot be reshaped" },
        { "SparseReshape", { INTS((1, 2), 0, 1), INTS((1), 12), INTS((1), 12) }, WRONG = "columns" },

        { "SparseFillEmptyRows", { INTS((3, 2), 1, 0, 1, 4, 3, 2), IN(3), INTS((2), 5, 6), IN() }, .ref = fill_ref },
        { "SparseFillEmptyRows", { INTS((2, 2), 0, 0, 1, 0), IN(2), INTS((2), 2, 6), IN() }, .ref = fill_ref },
        { "SparseFillEmptyRows", { none, IN(0), INTS((2), 3, 6), IN() }, .ref = fill_ref },
        { "SparseFillEmptyRows", { none, IN(0), INTS((2), 0, 6), IN() }, .ref = fill_ref },
        { "SparseFillEmptyRows", { INTS((1, 2), 5, 0), IN(1), INTS((2), 5, 6), IN() }, WRONG = "row 5 of 5" },
        { "SparseFillEmptyRows", { INTS((2, 2), 0, 0, 1, 0), IN(1), INTS((2), 5, 6), IN() }, WRONG = "1 values" },
        { "SparseFillEmptyRows",
          { INTS((2, 2), 1, 0, 0, 0), IN(2), INTS((2), 5, 6), IN() },
          .fails = EST_UNIMPLEMENTED,
          .says  = "must be in order" },

        { "SparseToDense", { INTS((2, 2), 1, 2, 0, 0), INTS((2), 2, 3), IN(2), IN() }, .ref = to_dense_ref },
        { "SparseToDense", { INTS((3), 4, 0, 2), INTS((1), 5), IN(3), IN() }, .ref = to_dense_ref },
        { "SparseToDense", { INTS((2), 1, 3), INTS((1), 5), IN(), IN() }, .ref = to_dense_ref },
        { "SparseToDense", { none, INTS((2), 2, 0), IN(0), IN() }, .ref = to_dense_ref },
        { "SparseToDense", { INTS((1, 2), 1, 3), INTS((2), 2, 3), IN(1), IN() }, WRONG = "not below 3" },
        { "SparseToDense", { INTS((2, 2), 1, 2, 0, 0), INTS((2), 2, 3), IN(3), IN() }, WRONG = "for 3 values" },

        { "SparseReorder", { INTS((5, 2), 3, 1, 0, 7, 3, 0, 0, 2, 1, 1), IN(5), INTS((2), 5, 9) }, .ref = reorder_ref },
        { "SparseReorder", { INTS((1, 2), 3, 1), IN(1), INTS((2), 5, 9) }, .ref = reorder_ref },
        { "SparseReorder", { none, IN(0), INTS((2), 5, 9) }, .ref = reorder_ref },
        { "SparseReorder", { INTS((1, 2), 3, 1), IN(2), INTS((2), 5, 9) }, WRONG = "2 values" },

        { "SparseSlice",
          { INTS((4, 2), 0, 1, 1, 3, 2, 2, 4, 0), IN(4), INTS((2), 5, 4), INTS((2), 1, 1), INTS((2), 3, 9) },
          .ref = slice_ref },
        { "SparseSlice",
          { INTS((1, 2), 3, 1), IN(1), INTS((2), 5, 9), INTS((2), 0, 0), INTS((2), 5, 9) },
          .ref = slice_ref },
        { "SparseSlice", { none, IN(0), INTS((2), 5, 9), INTS((2), 6, 0), INTS((2), 5, 9) }, .ref = slice_ref },
        { "SparseSlice",
          { INTS((1, 2), 3, 1), IN(1), INTS((2), 5, 9), INTS((2), 0, 0), INTS((2), -1, 9) },
          WRONG = "starts at 0 and has -1" },
        { "SparseSlice",
          { INTS((1, 2), 3, 1), IN(2), INTS((2), 5, 9), INTS((2), 0, 0), INTS((2), 1, 9) },
          WRONG = "2 values" },

        { "GatherNd", { IN(4, 3), INTS((3, 2), 1, 2, 0, 0, 3, 2) }, .ref = gather_ref },
        { "GatherNd", { IN(4, 3, 2), INTS((2, 2, 1), 3, 0, 0, 2) }, .ref = gather_ref },
        { "GatherNd", { IN(4, 3), INTS((2), 3, 1) }, .ref = gather_ref },
        { "GatherNd", { IN(2, 3), { .shape = EST_SHAPE(3, 0), .dtype = EST_I64 } }, .ref = gather_ref },
        { "GatherNd", { IN(4, 3), none }, .dtype = EST_I64, .ref = gather_ref },
        { "GatherNd", { IN(4, 0), INTS((2, 1), 3, 1) }, .ref = gather_ref },
        { "GatherNd", { IN(4, 3), INTS((1, 2), 1, 3) }, WRONG = "not below 3" },
        { "GatherNd", { IN(4, 3), INTS((1, 2), -1, 0) }, WRONG = "index -1 of slice 0" },
        { "GatherNd", { IN(4), INTS((1, 2), 1, 0) }, WRONG = "rank 2 in a tensor of rank 1" },

        { "ScatterNd", { INTS((3, 2), 1, 2, 0, 0, 1, 2), IN(3), INTS((2), 2, 3) }, .tol = 1e-6, .ref = scatter_ref },
        { "ScatterNd", { INTS((3, 1), 3, 0, 3), IN(3, 2), INTS((2), 4, 2) }, .tol = 1e-6, .ref = scatter_ref },
        { "ScatterNd", { none, IN(0), INTS((2), 4, 2) }, .dtype = EST_I64, .ref = scatter_ref },
        { "ScatterNd", { INTS((1, 2), 1, 3), IN(1), INTS((2), 2, 3) }, WRONG = "not below 3" },
        { "ScatterNd", { INTS((1, 2), 1, 2), IN(2), INTS((2), 2, 3) }, WRONG = "2 updates" },
        { "ScatterNd", { INTS((1, 2), 1, 2), IN(1), INTS((1), 2) }, WRONG = "rank 2 in a tensor of rank 1" },
    };

    dense_strings();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
