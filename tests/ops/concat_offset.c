/* SPDX-License-Identifier: Apache-2.0 — ConcatOffset. */
#include "support/coords.h"
#include "support/op_check.h"

static void concat_offset_ref(est_ref *r)
{
    int64_t rank = r->in_shape[1].dim[0], axis = (int64_t)r->in[0][0];
    double  offset = 0;

    if (axis < 0) axis += rank;
    for (int i = 0; i < r->n_out; i++) {
        for (int64_t k = 0; k < rank; k++) r->out[i][k] = k == axis ? offset : 0;
        offset += r->in[i + 1][axis];
    }
}

#define DIMS(type, n, ...)                                                                                             \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .dtype = type, .values = (const double[])                                               \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "ConcatOffset",
          { INT(1), DIMS(EST_I32, 3, 2, 2, 5), DIMS(EST_I32, 3, 2, 3, 5), DIMS(EST_I32, 3, 2, 0, 5) },
          .n_in = 4,
          .ref  = concat_offset_ref },
        { "ConcatOffset",
          { INT(-2), DIMS(EST_I32, 2, 7, 1), DIMS(EST_I32, 2, 4, 1) },
          .n_in = 3,
          .ref  = concat_offset_ref },
        { "ConcatOffset", { INT(0), DIMS(EST_I64, 1, 7) }, .n_in = 2, .ref = concat_offset_ref },
        { "ConcatOffset",
          { INT(0), DIMS(EST_I32, 2, 7, 1), DIMS(EST_I32, 2, 7, 2) },
          .n_in  = 3,
          .fails = EST_INVALID_ARGUMENT,
          .says  = "axis 1 of part 1" },
        { "ConcatOffset",
          { INT(2), DIMS(EST_I32, 2, 7, 1), DIMS(EST_I32, 2, 7, 2) },
          .n_in  = 3,
          .fails = EST_INVALID_ARGUMENT },
        { "ConcatOffset",
          { INT(0), DIMS(EST_I32, 2, 7, 1), DIMS(EST_I32, 1, 7) },
          .n_in  = 3,
          .fails = EST_INVALID_ARGUMENT },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
