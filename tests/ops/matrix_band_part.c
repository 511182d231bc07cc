/* SPDX-License-Identifier: Apache-2.0 — MatrixBandPart. */
#include "support/coords.h"
#include "support/op_check.h"

static void band_ref(est_ref *r)
{
    const est_shape *s = &r->in_shape[0];
    int64_t          m = s->dim[s->rank - 2], n = s->dim[s->rank - 1];
    double           lower = r->in[1][0], upper = r->in[2][0];

    for (int64_t e = 0; e < est_shape_count(s); e++) {
        double i = (double)(e / n % m), j = (double)(e % n);
        bool   in = (lower < 0 || i - j <= lower) && (upper < 0 || j - i <= upper);

        r->out[0][e] = in ? r->in[0][e] : 0;
    }
}

#define OP "MatrixBandPart"

static const est_op_case cases[] = {
    { OP, { IN(4, 4), INT(-1), INT(0) }, .ref = band_ref }, /* the lower triangle */
    { OP, { IN(4, 4), INT(0), INT(-1) }, .ref = band_ref },
    { OP, { IN(4, 4), INT(-1), INT(-1) }, .ref = band_ref },
    { OP, { IN(4, 4), INT(0), INT(0) }, .ref = band_ref },
    { OP, { IN(3, 7), INT(1), INT(2) }, .ref = band_ref },
    { OP, { IN(7, 3), INT(1), INT(1) }, .ref = band_ref },
    { OP, { IN(7, 3), INT(7), INT(3) }, .ref = band_ref },
    { OP, { IN(2, 3, 5, 4), INT(-1), INT(0) }, .ref = band_ref },
    { OP, { IN(300, 200), INT(17), INT(31) }, .ref = band_ref }, /* cut into blocks */
    { OP, { IN(0, 4), INT(-1), INT(0) }, .ref = band_ref },
    { OP, { IN(4, 0), INT(-1), INT(0) }, .ref = band_ref },
    { OP, { IN(5, 5), INT(-1), INT(0) }, .dtype = EST_BOOL, .ref = band_ref },
    { OP, { IN(5, 5), INT(2), INT(0) }, .dtype = EST_I64, .lo = -9, .hi = 9, .ref = band_ref },
    { OP, { IN(5, 3), INT(6), FED_INT(0) }, .fails = EST_INVALID_ARGUMENT, .says = "num_lower is 6" },
    { OP, { IN(4), INT(-1), INT(0) }, .fails = EST_INVALID_ARGUMENT, .says = "at least two axes" },
};

EST_OP_CHECK_MAIN(cases)
