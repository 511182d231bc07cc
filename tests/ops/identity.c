/* SPDX-License-Identifier: Apache-2.0 — Identity and StopGradient. */
#include "support/graph_test.h"
#include "support/op_check.h"

static void copy_ref(est_ref *r)
{
    memcpy(r->out[0], r->in[0], sizeof(double) * (size_t)est_shape_count(&r->in_shape[0]));
}

static const est_op_case cases[] = {
    { "Identity", { IN(3, 5) }, .ref = copy_ref },
    { "Identity", { { .shape = EST_SHAPE_SCALAR } }, .ref = copy_ref },
    { "Identity", { IN(0, 4) }, .ref = copy_ref },
    { "Identity", { IN(7) }, .dtype = EST_I64, .ref = copy_ref },
    { "Identity", { IN(9) }, .dtype = EST_BOOL, .ref = copy_ref },
    { "StopGradient", { IN(2, 3) }, .ref = copy_ref },
};

/* d(x * stop(x)) / dx = x, not 2x. */
static void test_stop(void)
{
    est_graph   *graph = test_graph();
    est_node     x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE_SCALAR);
    est_gradient dx;
    est_tensor  *three = NULL, *out;

    est_gradients(est_mul(x, est_stop_gradient(x)), (est_nodes){ &x, 1 }, &dx);
    CHECK(est_tensor_f32(EST_SHAPE_SCALAR, (const float[]){ 3 }, &three) == EST_OK);
    out = test_run(dx.values, EST_FEEDS({ x, three }));
    CHECK(out != NULL && *(const float *)est_tensor_data(out) == 3);
    est_tensor_free(out);
    est_tensor_free(three);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_stop();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
