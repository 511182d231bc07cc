/* SPDX-License-Identifier: Apache-2.0 — SelectV2, and Select of TensorFlow 1. */
#include "support/broadcast_ref.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void select_ref(est_ref *r)
{
    const est_shape *out = &r->out_shape[0];

    for (int64_t i = 0; i < est_shape_count(out); i++) {
        bool when    = r->in[0][broadcast_source(&r->in_shape[0], out, i)] != 0;
        int  taken   = when ? 1 : 2;
        r->out[0][i] = r->in[taken][broadcast_source(&r->in_shape[taken], out, i)];
    }
}

#define WHEN(...)                                                                                                      \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = EST_BOOL                                                             \
    }
#define ALWAYS(value)                                                                                                  \
    {                                                                                                                  \
        .shape = EST_SHAPE_SCALAR, .dtype = EST_BOOL, .values = (const double[])                                       \
        {                                                                                                              \
            value                                                                                                      \
        }                                                                                                              \
    }

static const est_op_case cases[] = {
    { "SelectV2", { WHEN(5, 7), IN(5, 7), IN(5, 7) }, .ref = select_ref },
    { "Select", { WHEN(5, 7), IN(5, 7), IN(5, 7) }, .ref = select_ref },
    { "Select", { WHEN(5), IN(5), IN(5) }, .dtype = EST_I64, .ref = select_ref },
    { "Select", { WHEN(5), IN(5, 2), IN(5, 2) }, .fails = EST_UNIMPLEMENTED, .says = "the same shape" },
    { "Select", { WHEN(5), IN(5), IN(1) }, .fails = EST_INVALID_ARGUMENT },
    { "SelectV2", { WHEN(5, 7), IN(5, 7), SCALAR_IN }, .ref = select_ref },
    { "SelectV2", { WHEN(5, 7), SCALAR_IN, IN(5, 7) }, .ref = select_ref },
    { "SelectV2", { WHEN(5, 7), SCALAR_IN, SCALAR_IN }, .ref = select_ref },
    { "SelectV2", { ALWAYS(1), IN(5, 7), IN(7) }, .ref = select_ref },
    { "SelectV2", { ALWAYS(0), IN(5, 7), IN(7) }, .ref = select_ref },
    { "SelectV2", { WHEN(4, 1), IN(3), IN(2, 1, 1) }, .ref = select_ref },
    { "SelectV2", { WHEN(0, 3), IN(3), IN(1, 3) }, .ref = select_ref },
    { "SelectV2", { WHEN(301, 501), IN(301, 501), IN(501) }, .no_grad = true, .ref = select_ref },
    { "SelectV2", { WHEN(9), IN(9), IN(9) }, .dtype = EST_BOOL, .ref = select_ref },
    { "SelectV2", { WHEN(9), IN(9), IN(9) }, .dtype = EST_I32, .hi = 9, .ref = select_ref },
    { "SelectV2", { WHEN(9), IN(9), IN(9) }, .dtype = EST_I64, .hi = 9, .ref = select_ref },
    { "SelectV2", { WHEN(3), IN(4), IN(4) }, .fails = EST_INVALID_ARGUMENT, .says = "[3]" },
};

static void test_strings_(void)
{
    static const char *const words[] = { "a", "b", "c" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(3), words);
    est_node                 x       = est_const(graph, tensor);
    est_node                 first   = est_equal(est_const_i32(graph, EST_SHAPE(3), (const int32_t[]){ 1, 0, 1 }),
                                                 est_scalar(graph, EST_I32, 1));

    check_strings(est_select(first, x, est_gather(x, est_scalar(graph, EST_I32, 0), 0)), EST_SHAPE(3),
                  (const char *const[]){ "a", "a", "c" });
    est_tensor_free(tensor);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_strings_();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
