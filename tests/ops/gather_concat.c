/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookups that are columns of a matrix, and the sums of such columns, against plain loops. */
#include "apply.h"

static void join_ref(est_ref *r)
{
    est_i64s columns = est_node_ints(r->node, "columns");
    int      n       = est_node_ints(r->node, "Tlookups").n / 2;
    int64_t  rows = r->out_shape[0].dim[0], width = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < rows * width; i++) r->out[0][i] = 0;
    for (int k = 0; k < columns.n; k++) {
        int     in   = k < n ? 2 * k : n + k;
        int64_t cols = r->in_shape[in].dim[1];

        for (int64_t i = 0; i < rows; i++) {
            int64_t row = k < n ? (int64_t)r->in[in + 1][i] : i;

            for (int64_t j = 0; j < cols; j++) r->out[0][i * width + columns.data[k] + j] = r->in[in][row * cols + j];
        }
    }
}

/* Every index in the order of first sight. */
static void slice_ref(est_ref *r)
{
    int64_t n = r->in_shape[1].dim[0], step = r->in_shape[0].dim[1], column = est_node_int(r->node, "column");
    int64_t columns = est_node_int(r->node, "columns"), n_unique = 0;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;

        while (at < n_unique && r->out[1][at] != r->in[1][i]) at++;
        if (at == n_unique) {
            r->out[1][n_unique++] = r->in[1][i];
            for (int64_t j = 0; j < columns; j++) r->out[0][at * columns + j] = 0;
        }
        for (int64_t j = 0; j < columns; j++) r->out[0][at * columns + j] += r->in[0][i * step + column + j];
    }
}

static void rows_ref(est_ref *r)
{
    int64_t have = est_shape_count(&r->in_shape[0]), want = est_shape_count(&r->out_shape[0]);

    for (int64_t i = 0; i < want; i++) r->out[0][i] = i < have ? r->in[0][i] : 0;
}

#define ROWS(type, last, ...)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = last                                            \
    }
#define JOIN(n, wide, ...)                                                                                             \
    .op = "EstGatherConcat", .ref = join_ref, .n_in = 4 + (n),                                                         \
    .attrs = EST_ATTRS(est_attr_types("Tlookups", EST_I64S(EST_RESOURCE, EST_I64, EST_RESOURCE, EST_I32)),             \
                       est_attr_int("N", n), est_attr_type("T", EST_F32), est_attr_int("width", wide),                 \
                       est_attr_ints("columns", EST_I64S(__VA_ARGS__)))
#define SLICE(at, n)                                                                                                   \
    .op = "EstDedupSlice", .ref = slice_ref, .tol = 1e-4,                                                              \
    .attrs = EST_ATTRS(est_attr_int("column", at), est_attr_int("columns", n))
#define PAD(n)   .op = "EstPadRows", .ref = rows_ref, .attrs = EST_ATTRS(est_attr_int("rows", n))
#define FIRST(n) .op = "EstFirstRows", .ref = rows_ref, .attrs = EST_ATTRS(est_attr_int("rows", n))

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { JOIN(1, 14, 0, 3, 12), .in = { VAR(11, 3), ROWS(EST_I64, 10, 7), VAR(5, 9), ROWS(EST_I32, 4, 7), IN(7, 2) } },
        { JOIN(1, 32, 0, 16, 24), /* words of 16 bytes, and zeros at the end */
          .in = { VAR(11, 16), ROWS(EST_I64, 10, 70), VAR(5, 8), ROWS(EST_I32, 4, 70), IN(70, 5) } },
        { JOIN(0, 12, 8, 0), .in = { VAR(11, 4), ROWS(EST_I64, 10, 700), VAR(9, 8), ROWS(EST_I32, 8, 700) } },
        { JOIN(0, 8, 0, 4), .in = { VAR(11, 4), ROWS(EST_I64, 10, 0), VAR(9, 4), ROWS(EST_I32, 8, 0) } },
        { JOIN(0, 4, 0, 2), .in = { VAR(3, 2), ROWS(EST_I64, 2, 4), VAR(3, 2), INDICES(EST_I32, 4, few) },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "indices[0] = 7 is not a row of variable 'in2' [3,2]: rows are 0 to 2" },
        { JOIN(0, 4, 0, 2), .in = { VAR(3, 2), ROWS(EST_I64, 2, 32), VAR(3, 2), ROWS(EST_I32, 2, 16) },
          .fails = EST_INVALID_ARGUMENT, .says = "input 3 has rows [16], those before it [32]" },
        { JOIN(1, 6, 0, 2, 4), .in = { VAR(3, 2), ROWS(EST_I64, 2, 8), VAR(3, 2), ROWS(EST_I32, 2, 8), IN(7, 2) },
          .fails = EST_INVALID_ARGUMENT, .says = "input 4 has rows [7], those before it [8]" },
        { SLICE(0, 2), .in = { IN(16, 4), ROWS(EST_I64, 9, 32) }, .fails = EST_INVALID_ARGUMENT,
          .says = "16 rows of values for 32 indices" },
        { SLICE(3, 2), .in = { IN(4, 4), ROWS(EST_I64, 9, 4) }, .fails = EST_INVALID_ARGUMENT,
          .says = "columns 3 to 4 of a matrix that has 4" },
        { SLICE(4, 8), .in = { IN(300, 20), ROWS(EST_I64, 90, 300) } },
        { SLICE(3, 5), .in = { IN(40, 9), ROWS(EST_I32, 9, 40) } },
        { SLICE(0, 16), .in = { IN(5000, 32), ROWS(EST_I64, 300, 5000) } },
        { SLICE(1, 2), .in = { IN(0, 4), ROWS(EST_I64, 9, 0) } },
        { PAD(8), .in = { IN(5, 7) } },
        { PAD(432), .in = { IN(429, 3) } },
        { PAD(4), .in = { IN(4, 3) } },
        { FIRST(5), .in = { IN(8, 7) } },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
