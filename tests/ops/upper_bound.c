/* SPDX-License-Identifier: Apache-2.0 — UpperBound. */
#include "support/op_check.h"

static void upper_bound_ref(est_ref *r)
{
    int64_t n = r->in_shape[0].dim[1], per_row = r->in_shape[1].dim[1];

    for (int64_t i = 0; i < est_shape_count(&r->in_shape[1]); i++) {
        int64_t count = 0;

        for (int64_t k = 0; k < n; k++) count += r->in[0][i / per_row * n + k] <= r->in[1][i];
        r->out[0][i] = (double)count;
    }
}

/* Sorted rows of two lengths, with repeats. */
static const double two_rows[] = { -1, 0, 0, 2, 5, -3, -2, -2, -2, 4 };
static double       long_row[257];

#define SORTED(values_, rows, n, type)                                                                                 \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows, n), .dtype = type, .values = values_                                                  \
    }
#define VALUES(rows, n, type)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(rows, n), .dtype = type, .lo = -4, .hi = 6                                                  \
    }

int main(int argc, char **argv)
{
    est_attrs         wide    = EST_ATTRS(est_attr_type("out_type", EST_I64));
    const est_op_case cases[] = {
        { "UpperBound", { SORTED(two_rows, 2, 5, 0), VALUES(2, 7, 0) }, .ref = upper_bound_ref },
        { "UpperBound", { SORTED(two_rows, 2, 5, EST_I32), VALUES(2, 9, EST_I32) }, .ref = upper_bound_ref },
        { "UpperBound",
          { SORTED(two_rows, 2, 5, EST_I64), VALUES(2, 9, EST_I64) },
          .attrs = wide,
          .ref   = upper_bound_ref },
        { "UpperBound", { SORTED(two_rows, 1, 10, EST_I64), VALUES(1, 0, EST_I64) }, .ref = upper_bound_ref },
        { "UpperBound", { VALUES(2, 0, 0), VALUES(2, 3, 0) }, .ref = upper_bound_ref },
        { "UpperBound", { VALUES(0, 3, 0), VALUES(0, 3, 0) }, .ref = upper_bound_ref },
        { "UpperBound", { SORTED(long_row, 1, 257, EST_I64), VALUES(1, 3000, EST_I64) }, .ref = upper_bound_ref },
        { "UpperBound", { IN(2, 3), IN(3, 3) }, .fails = EST_INVALID_ARGUMENT, .says = "same number of rows" },
        { "UpperBound", { IN(3), IN(3) }, .fails = EST_INVALID_ARGUMENT },
    };

    for (int i = 0; i < 257; i++) long_row[i] = i / 20 - 4;
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
