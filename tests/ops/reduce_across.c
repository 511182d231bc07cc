/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions across workers, with one worker: each value is unchanged. tests/runtime/reduce_packs.c has several. */
#include "support/op_check.h"

/* As it is, and as it is written in TensorFlow's ops. */
static void same(est_ref *r)
{
    for (int o = 0; o < r->n_out; o++) {
        for (int64_t i = 0; i < est_shape_count(&r->in_shape[o]); i++) r->out[o][i] = r->in[o][i];
    }
}

static void gathered(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][i] = r->in[0][i];
    r->out[1][0] = 0;
}

#define SCALAR                                                                                                         \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_F32, .lo = 1, .hi = 9                                                  \
    }
#define ALONE(name) .op = name, .tol = 0, .ref = same

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { ALONE("EstReduce"), .in = { IN(7, 3), SCALAR },
          .attrs = EST_ATTRS(est_attr_bool("mean", true), est_attr_int("made", 1)) },
        { ALONE("EstReduce"), .in = { { .shape = EST_SHAPE(2), .dtype = EST_I64, .hi = 5 }, SCALAR },
          .attrs = EST_ATTRS(est_attr_bool("mean", true), est_attr_int("made", 1)), .fails = EST_INVALID_ARGUMENT,
          .says = "cast them to float" },
        { ALONE("EstReduceRows"), .in = { { .shape = EST_SHAPE(4), .dtype = EST_I64, .hi = 9 }, IN(4, 3), SCALAR },
          .attrs = EST_ATTRS(est_attr_bool("mean", true), est_attr_int("made", 1)) },
        { .op = "EstGather", .ref = gathered, .in = { IN(7, 3) }, .attrs = EST_ATTRS(est_attr_int("made", 1)) },
        { ALONE("EstGather"), .in = { SCALAR }, .attrs = EST_ATTRS(est_attr_int("made", 1)),
          .fails = EST_INVALID_ARGUMENT, .says = "give it a dimension" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
