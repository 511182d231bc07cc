/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of lookups and of other parts, against plain loops. */
#include "apply.h"

static void sum_ref(est_ref *r)
{
    int     n    = est_node_ints(r->node, "Tlookups").n / 2;
    int64_t cols = r->out_shape[0].dim[1];

    for (int64_t i = 0; i < r->out_shape[0].dim[0] * cols; i++) r->out[0][i] = 0;
    for (int in = 0; in < r->n_in; in += in < 2 * n ? 2 : 1) {
        for (int64_t i = 0; i < r->out_shape[0].dim[0]; i++) {
            int64_t row = in < 2 * n ? (int64_t)r->in[in + 1][i] : i;

            for (int64_t j = 0; j < cols; j++) r->out[0][i * cols + j] += r->in[in][row * cols + j];
        }
    }
}

#define ROWS(type, last, ...)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = last                                            \
    }
#define SUM(n)                                                                                                         \
    .op = "EstGatherSum", .ref = sum_ref, .n_in = 4 + (n), .tol = 1e-6,                                                \
    .attrs = EST_ATTRS(est_attr_types("Tlookups", EST_I64S(EST_RESOURCE, EST_I64, EST_RESOURCE, EST_I32)),             \
                       est_attr_int("N", n), est_attr_type("T", EST_F32))

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { SUM(1), .in = { VAR(11, 1), ROWS(EST_I64, 10, 700), VAR(5, 1), ROWS(EST_I32, 4, 700), IN(700, 1) } },
        { SUM(0), .in = { VAR(11, 3), ROWS(EST_I64, 10, 33), VAR(5, 3), ROWS(EST_I32, 4, 33) } },
        { SUM(8), .in = { VAR(11, 2), ROWS(EST_I64, 10, 40), VAR(5, 2), ROWS(EST_I32, 4, 40), IN(40, 2), IN(40, 2),
                          IN(40, 2), IN(40, 2), IN(40, 2), IN(40, 2), IN(40, 2), IN(40, 2) } },
        { SUM(0), .in = { VAR(11, 4), ROWS(EST_I64, 10, 0), VAR(9, 4), ROWS(EST_I32, 8, 0) } },
        { SUM(0), .in = { VAR(3, 2), ROWS(EST_I64, 2, 4), VAR(3, 2), INDICES(EST_I32, 4, few) },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "indices[0] = 7 is not a row of variable 'in2' [3,2]: rows are 0 to 2" },
        { SUM(1), .in = { VAR(3, 2), ROWS(EST_I64, 2, 8), VAR(3, 2), ROWS(EST_I32, 2, 8), IN(8, 3) },
          .fails = EST_INVALID_ARGUMENT, .says = "input 4 makes rows [8,3], those before it [8,2]" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
