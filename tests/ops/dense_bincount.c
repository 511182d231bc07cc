/* SPDX-License-Identifier: Apache-2.0 — DenseBincount. */
#include "support/op_check.h"

static void bincount_ref(est_ref *r)
{
    int     rank = r->in_shape[0].rank;
    int64_t rows = rank == 2 ? r->in_shape[0].dim[0] : 1, columns = r->in_shape[0].dim[rank - 1];
    int64_t bins   = (int64_t)r->in[1][0];
    bool    binary = est_node_bool(r->node, "binary_output"), weighted = est_shape_count(&r->in_shape[2]) > 0;

    for (int64_t i = 0; i < rows * bins; i++) r->out[0][i] = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t bin = (int64_t)r->in[0][i];

        if (bin >= bins) continue;
        if (binary)
            r->out[0][i / columns * bins + bin] = 1;
        else
            r->out[0][i / columns * bins + bin] += weighted ? r->in[2][i] : 1;
    }
}

#define NUMBERS(type, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = 5                                               \
    }
#define SIZE(type, n)                                                                                                  \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = type, .values = (const double[])                                           \
        {                                                                                                              \
            n                                                                                                          \
        }                                                                                                              \
    }
#define BINCOUNT .op = "DenseBincount", .ref = bincount_ref, .tol = 1e-6
#define BINARY   .attrs = EST_ATTRS(est_attr_bool("binary_output", true))
#define WRONG    .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { BINCOUNT, .in = { NUMBERS(EST_I64, 4, 3), SIZE(EST_I64, 6), IN(0) } },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 4, 3), SIZE(EST_I64, 4), IN(4, 3) } },
        { BINCOUNT, .in = { NUMBERS(EST_I32, 7), SIZE(EST_I32, 6), IN(7) } },
        { BINCOUNT, .in = { NUMBERS(EST_I32, 40), SIZE(EST_I32, 5), IN(0) }, .dtype = EST_I64 },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 4, 3), SIZE(EST_I64, 6), IN(0) }, BINARY },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 5), SIZE(EST_I64, 6), IN(0) }, .dtype = EST_I32, BINARY },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 0, 3), SIZE(EST_I64, 6), IN(0) } },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 2, 0), SIZE(EST_I64, 6), IN(0) } },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 0), SIZE(EST_I64, 0), IN(0) } },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 4, 3), SIZE(EST_I64, 6), IN(5) }, WRONG = "5 weights" },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 4, 3), SIZE(EST_I64, -1), IN(0) }, WRONG = "size is -1" },
        { BINCOUNT, .in = { NUMBERS(EST_I64, 1, 1, 1), SIZE(EST_I64, 6), IN(0) }, WRONG = "3 axes" },
        { BINCOUNT,
          .in   = { { .shape = EST_SHAPE(2), .dtype = EST_I64, .values = (const double[]){ 1, -2 } },
                    SIZE(EST_I64, 6),
                    IN(0) },
          WRONG = "element 1 is -2" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
