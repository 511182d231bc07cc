/* SPDX-License-Identifier: Apache-2.0 — Range. */
#include <string.h>

#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void range_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        r->out[0][i] = r->in[0][0] + (double)i * r->in[2][0];
    }
}

/* How many there must be is part of the case: checked through the last element and the first that is not there. */
static int check_end(est_ref *r, est_view *const *in, const est_view *out)
{
    double limit = r->in[1][0], delta = r->in[2][0], next = r->in[0][0] + (double)out->count * delta;

    (void)in;
    if (delta > 0) return next < limit || next - delta >= limit + (out->count == 0) * delta;
    return next > limit || next - delta <= limit + (out->count == 0) * delta;
}

#define LONG(value)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_I64, .values = (const double[]){ value }, .constant = true             \
    }

static const est_op_case cases[] = {
    { "Range", { INT(0), INT(5), INT(1) }, .ref = range_ref, .also = check_end },
    { "Range", { INT(3), INT(18), INT(3) }, .ref = range_ref, .also = check_end },
    { "Range", { INT(3), INT(19), INT(3) }, .ref = range_ref, .also = check_end },
    { "Range", { INT(5), INT(0), INT(-2) }, .ref = range_ref, .also = check_end },
    { "Range", { INT(5), INT(5), INT(1) }, .ref = range_ref, .also = check_end },
    { "Range", { LONG(-7), LONG(100), LONG(1) }, .ref = range_ref, .also = check_end },
    { "Range", { FED_INT(0), FED_INT(5), FED_INT(1) }, .ref = range_ref, .also = check_end },
    { "Range", { INT(0), INT(5), INT(0) }, .fails = EST_INVALID_ARGUMENT, .says = "delta other than 0" },
    { "Range", { INT(0), INT(5), INT(-1) }, .fails = EST_INVALID_ARGUMENT, .says = "from 0 to 5 by -1" },
    { "Range", { INTS(0, 1), INT(5), INT(1) }, .fails = EST_INVALID_ARGUMENT, .says = "rank 0" },
};

/* Floats are refused in words, not by the list of dtypes. */
static void test_floats(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_scalar(graph, EST_F32, 1);

    est_range(est_scalar(graph, EST_F32, 0), x, x);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT);
    CHECK(strstr(est_error_message(), "int32 or int64, not in float32") != NULL, "%s", est_error_message());
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_floats();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
