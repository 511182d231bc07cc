/* SPDX-License-Identifier: Apache-2.0 — EstLineUp. */
#include "ragged.h"

static void weights_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[2]); i++) r->out[0][i] = r->in[2][i];
}

#define LINE_UP .op = "EstLineUp", .ref = weights_ref, .n_in = 4, .attrs = EST_ATTRS(est_attr_string("column", "c"))
#define WRONG   .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { LINE_UP, .in = { SOME(EST_I64, 5, -1, 9), SPLITS(0, 2, 2, 5), IN(5), SPLITS(0, 2, 2, 5) } },
        { LINE_UP, .in = { SOME(EST_I32, 2, -1, 9), SPLITS(0, 2), IN(2), SPLITS(0, 2) } },
        { LINE_UP, .in = { IN(0), SPLITS(0, 0, 0), IN(0), SPLITS(0, 0, 0) } },
        { LINE_UP, .in = { IN(0), SPLITS(0), IN(0), SPLITS(0) } },
        { LINE_UP, .in = { IN(5), SPLITS(0, 2, 2, 5), IN(5), SPLITS(0, 2, 3, 5) },
          WRONG = "column \"c\": row 1 has 0 values and 1 weights; there must be one for each" },
        { LINE_UP, .in = { IN(3), SPLITS(0, 3), IN(4), SPLITS(0, 4) }, WRONG = "row 0 has 3 values and 4 weights" },
        { LINE_UP, .in = { IN(3), SPLITS(0, 3), IN(3), SPLITS(0, 3, 3) },
          WRONG = "column \"c\": there are 1 rows of values and 2 of weights" },
        { LINE_UP, .in = { IN(3), SPLITS(0, 2), IN(2), SPLITS(0, 2) }, WRONG = "" },
        { LINE_UP, .in = { IN(2), SPLITS(0, 2), IN(3), SPLITS(0, 2) }, WRONG = "" },
        { LINE_UP, .in = { IN(2, 1), SPLITS(0, 2), IN(2), SPLITS(0, 2) }, WRONG = "" },
    };

    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
