/* SPDX-License-Identifier: Apache-2.0 — EstCountZeros. */
#include <math.h>

#include "ragged.h"

static void count_ref(est_ref *r)
{
    r->out[0][0] = 0;
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) r->out[0][0] += r->in[0][i] == 0;
}

#define COUNT .op = "EstCountZeros", .ref = count_ref

static double many[200003];

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { COUNT, .in = { LIST(EST_F32, 0, 1, -0.0, NAN, 0, 1e-30) } },
        { COUNT, .in = { LIST(EST_F64, 0, 1, -0.0, NAN, 1e-300) } },
        { COUNT, .in = { IN(7, 3) } },
        { COUNT, .in = { IN(0, 3) } },
        { COUNT, .in = { { .shape = EST_SHAPE_SCALAR, .dtype = EST_F32, .values = (const double[]){ 0 } } } },
        { COUNT, .in = { { .shape = EST_SHAPE(200003), .dtype = EST_F32, .values = many } } }, /* several blocks */
    };

    for (int i = 0; i < 200003; i += 3) many[i] = 1;
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
