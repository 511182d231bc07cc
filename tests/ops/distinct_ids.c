/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDistinctIds. */
#include "ragged.h"
#include "support/graph_test.h"

static void distinct_ref(est_ref *r)
{
    int64_t found = 0;

    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) {
        int64_t at = 0;

        while (at < found && r->out[0][at] != r->in[0][i]) at++;
        if (r->in[0][i] >= 0 && at == found) r->out[0][found++] = r->in[0][i];
        r->out[1][i] = r->in[0][i] >= 0 ? (double)at : -1;
    }
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "EstDistinctIds", { SOME(EST_I64, 20, -3, 6) }, .ref = distinct_ref },
        { "EstDistinctIds", { SOME(EST_I32, 20, -3, 6) }, .ref = distinct_ref },
        { "EstDistinctIds", { SOME(EST_I32, 21, 0, 6) }, .ref = distinct_ref }, /* odd: places follow 4-byte ids */
        { "EstDistinctIds", { LIST(EST_I64, 9) }, .ref = distinct_ref },
        { "EstDistinctIds", { LIST(EST_I64, -1, -7, -1) }, .ref = distinct_ref },
        { "EstDistinctIds", { LIST(EST_I32, -1, 5, -1, 5, 0) }, .ref = distinct_ref },
        { "EstDistinctIds", { SOME(EST_I64, 0, 0, 1) }, .ref = distinct_ref },
        { "EstDistinctIds", { IN(5, 7) }, .dtype = EST_I64, .lo = -4, .hi = 9, .ref = distinct_ref },
        { "EstDistinctIds", { IN(2, 0, 3) }, .dtype = EST_I32, .ref = distinct_ref },
        { "EstDistinctIds",
          { { .shape = EST_SHAPE_SCALAR } },
          .dtype = EST_I64,
          .lo    = 4,
          .hi    = 4,
          .ref   = distinct_ref },
        { "EstDistinctIds", { SOME(EST_I64, 300, -1e12, 1e12) }, .ref = distinct_ref },
        { "EstDistinctIds", { SOME(EST_I64, 5000, -100, 900) }, .ref = distinct_ref },
    };

    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv);
}
