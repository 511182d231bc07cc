/* SPDX-License-Identifier: Apache-2.0 — BroadcastGradientArgs. */
#include "support/op_check.h"

static void args_ref(est_ref *r)
{
    int64_t n[2] = { r->in_shape[0].dim[0], r->in_shape[1].dim[0] }, rank = n[0] > n[1] ? n[0] : n[1];

    for (int i = 0; i < 2; i++) {
        int64_t found = 0, missing = rank - n[i];

        for (int64_t a = 0; a < rank; a++) {
            if (a < missing || r->in[i][a - missing] == 1) r->out[i][found++] = (double)a;
        }
    }
}

#define DIMS(type, n, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .values = (const double[])                                               \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define ARGS .op = "BroadcastGradientArgs", .ref = args_ref

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { ARGS, .in = { DIMS(EST_I32, 3, 2, 1, 5), DIMS(EST_I32, 3, 2, 4, 5) } },
        { ARGS, .in = { DIMS(EST_I32, 1, 5), DIMS(EST_I32, 3, 2, 4, 5) } },
        { ARGS, .in = { DIMS(EST_I64, 3, 1, 4, 1), DIMS(EST_I64, 3, 2, 1, 1) } },
        { ARGS, .in = { DIMS(EST_I32, 2, 2, 3), DIMS(EST_I32, 2, 2, 3) } },
        { ARGS, .in = { DIMS(EST_I32, 0, 0), DIMS(EST_I32, 2, 2, 0) } },
        { ARGS, .in = { DIMS(EST_I32, 2, 2, 3), DIMS(EST_I32, 2, 2, 4) }, .fails = EST_INVALID_ARGUMENT,
          .says = "broadcast" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
