/* SPDX-License-Identifier: Apache-2.0 — Slice. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void slice_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        int64_t at[EST_RANK_MAX];

        coords_of(&r->out_shape[0], i, at);
        for (int k = 0; k < r->in_shape[0].rank; k++) at[k] += (int64_t)r->in[1][k];
        r->out[0][i] = r->in[0][offset_of(&r->in_shape[0], at)];
    }
}

#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "Slice", { IN(5, 6), INTS(1, 2), INTS(3, 2) }, .ref = slice_ref },
    { "Slice", { IN(5, 6), INTS(1, 2), INTS(-1, -1) }, .ref = slice_ref },
    { "Slice", { IN(5, 6), FED_INTS(0, 5), FED_INTS(5, 1) }, .ref = slice_ref },
    { "Slice", { IN(5, 6), INTS(0, 0), INTS(5, 6) }, .ref = slice_ref },
    { "Slice", { IN(5, 6), INTS(2, 6), INTS(2, 0) }, .ref = slice_ref },
    { "Slice", { IN(2, 3, 4, 5), INTS(1, 0, 1, 2), INTS(1, 3, 2, 3) }, .ref = slice_ref },
    { "Slice", { IN(900, 70), INTS(17, 3), INTS(800, 65) }, .ref = slice_ref },
    { "Slice", { IN(9, 7), INTS(2, 1), INTS(4, 5) }, .dtype = EST_BOOL, .ref = slice_ref },
    { "Slice", { IN(5, 6), INTS(1, 2), INTS(5, 2) }, REFUSED, .says = "[5,6]" },
    { "Slice", { IN(5, 6), INTS(-1, 2), INTS(1, 2) }, REFUSED, .says = "from -1" },
    { "Slice", { IN(5, 6), INTS(1), INTS(1) }, REFUSED, .says = "begin has shape" },
};

static void test_string_tensors(void)
{
    static const char *const words[] = { "a", "b", "c", "d", "e", "f" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(2, 3), words);

    check_strings(est_slice(est_const(graph, tensor), EST_I64S(0, 1), EST_I64S(2, 2)), EST_SHAPE(2, 2),
                  (const char *const[]){ "b", "c", "e", "f" });
    est_tensor_free(tensor);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_string_tensors();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
