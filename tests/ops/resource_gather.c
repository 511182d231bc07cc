/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

static void gather(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[1]), cols = 1;

    for (int i = 1; i < r->in_shape[0].rank; i++) cols *= r->in_shape[0].dim[i];
    for (int64_t i = 0; i < n * cols; i++) r->out[0][i] = r->in[0][(int64_t)r->in[1][i / cols] * cols + i % cols];
}

#define GATHER .op = "ResourceGather", .ref = gather, .attrs = EST_ATTRS(est_attr_type("dtype", EST_F32))
#define ROWS(type, last, ...)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = 0, .hi = last                                            \
    }

int main(int argc, char **argv)
{
    static const double below[] = { 1, -1 };
    const est_op_case   cases[] = {
          { GATHER, .in = { VAR(11, 5), ROWS(EST_I64, 10, 7) } },
          { GATHER, .in = { VAR(11), ROWS(EST_I32, 10, 7) } },
          { GATHER, .in = { VAR(11, 16), ROWS(EST_I32, 10, 30) } },
          { GATHER, .in = { VAR(5, 2, 3), ROWS(EST_I64, 4, 3, 4) } },
          { GATHER, .in = { VAR(5, 2), { .shape = EST_SHAPE_SCALAR, .dtype = EST_I64, .lo = 0, .hi = 4 } } },
          { GATHER, .in = { VAR(11, 5), ROWS(EST_I64, 10, 0) } },
          { GATHER, .in = { VAR(11, 0), ROWS(EST_I64, 10, 3) } },
          { GATHER, .in = { VAR(9000, 16), ROWS(EST_I64, 8999, 9001) } },
          { .op    = "ResourceGather",
            .ref   = gather,
            .attrs = EST_ATTRS(est_attr_type("dtype", EST_I64)),
            .in = { { .shape = EST_SHAPE(4, 3), .dtype = EST_I64, .hi = 99, .variable = true }, ROWS(EST_I64, 3, 5) } },
          { GATHER, .in = { VAR(3, 5), INDICES(EST_I64, 4, few) }, .fails = EST_INVALID_ARGUMENT,
            .says = "indices[0] = 7 is not a row of variable 'in0' [3,5]: rows are 0 to 2" },
          { GATHER, .in = { VAR(3, 5), INDICES(EST_I32, 2, below) }, .fails = EST_INVALID_ARGUMENT,
            .says = "indices[1] = -1 is not a row of variable 'in0' [3,5]: rows are 0 to 2; est_lookup returns -1 for an "
                      "unknown key: set its num_oov_buckets or default_id" },
          { GATHER, .in = { SCALAR_VAR, INDICES(EST_I32, 2, few) }, .fails = EST_INVALID_ARGUMENT, .says = "scalar" },
    };
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
