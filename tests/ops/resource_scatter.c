/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

static void scatter(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[1]), cols = 1;
    bool    add = strcmp(r->test->op, "ResourceScatterAdd") == 0, sub = strcmp(r->test->op, "ResourceScatterSub") == 0;

    memcpy(r->out[0], r->in[0], (size_t)est_shape_count(&r->in_shape[0]) * sizeof(double));
    for (int i = 1; i < r->in_shape[0].rank; i++) cols *= r->in_shape[0].dim[i];
    for (int64_t i = 0; i < n * cols; i++) {
        double *w = &r->out[0][(int64_t)r->in[1][i / cols] * cols + i % cols];
        double  x = r->in[2][r->in_shape[2].rank == 0 ? 0 : i];
        *w        = add ? *w + x : sub ? *w - x : x;
    }
}

#define ADD    .op = "ResourceScatterAdd", .tol = 1e-4, .ref = scatter
#define SUB    .op = "ResourceScatterSub", .tol = 1e-5, .ref = scatter
#define UPDATE .op = "ResourceScatterUpdate", .tol = 1e-7, .ref = scatter
#define ROWS(type, last, ...)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = last                                            \
    }
#define I64_IN(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_I64, .lo = -9, .hi = 9                                           \
    }
#define I32_IN(...)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_I32, .lo = -9, .hi = 9                                           \
    }

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { ADD, .in = { VAR(5, 3), ROWS(EST_I64, 4, 20), IN(20, 3) } }, /* duplicates */
        { ADD, .in = { VAR(11), ROWS(EST_I32, 10, 4), IN(4) } },
        { ADD, .in = { VAR(5, 3), ROWS(EST_I64, 4, 2, 3), IN(2, 3, 3) } },
        { ADD, .in = { VAR(5, 3), ROWS(EST_I64, 4, 4), SCALAR } },
        { ADD, .in = { VAR(5, 3), ROWS(EST_I64, 4, 0), IN(0, 3) } },
        { ADD, .in = { VAR(3000, 16), ROWS(EST_I64, 2999, 20001), IN(20001, 16) } }, /* cut into lanes */
        { ADD, .in = { VAR(40, 24), ROWS(EST_I32, 39, 20001), IN(20001, 24) } },
        { ADD, .in = { { .shape = EST_SHAPE(4), .dtype = EST_I64, .lo = -5, .hi = 5, .variable = true },
                       ROWS(EST_I64, 3, 9),
                       I64_IN(9) } },
        { ADD, .in = { VAR(3, 5), INDICES(EST_I64, 4, few), IN(4, 5) }, .fails = EST_INVALID_ARGUMENT,
          .says = "indices[0] = 7" },
        { ADD, .in = { VAR(11, 5), INDICES(EST_I64, 4, few), IN(4, 4) }, .fails = EST_INVALID_ARGUMENT,
          .says = "[4,4]" },
        { SUB, .in = { VAR(5, 3), ROWS(EST_I64, 4, 20), IN(20, 3) } },
        { SUB, .in = { VAR(9, 16), ROWS(EST_I32, 8, 20), IN(20, 16) } },
        { SUB, .in = { { .shape = EST_SHAPE(4), .dtype = EST_I32, .lo = -5, .hi = 5, .variable = true },
                       ROWS(EST_I64, 3, 9),
                       I32_IN(9) } },
        { UPDATE, .in = { VAR(5, 3), ROWS(EST_I64, 4, 20), IN(20, 3) } }, /* the last one stays */
        { UPDATE, .in = { VAR(9), ROWS(EST_I32, 8, 20), IN(20) } },
        { UPDATE, .in = { VAR(3000, 16), ROWS(EST_I64, 2999, 20001), IN(20001, 16) } },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
