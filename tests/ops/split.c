/* SPDX-License-Identifier: Apache-2.0 — Split. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void split_ref(est_ref *r)
{
    int64_t axis = (int64_t)r->in[0][0];

    if (axis < 0) axis += r->in_shape[1].rank;
    for (int p = 0; p < r->n_out; p++) {
        for (int64_t i = 0; i < est_shape_count(&r->out_shape[p]); i++) {
            int64_t at[EST_RANK_MAX];

            coords_of(&r->out_shape[p], i, at);
            at[axis] += p * r->out_shape[p].dim[axis];
            r->out[p][i] = r->in[1][offset_of(&r->in_shape[1], at)];
        }
    }
}

#define PARTS(n) EST_ATTRS({ .name = "num_split", .kind = EST_ATTR_INT, .i = n })

static void test_string_tensors(void)
{
    static const char *const words[] = { "a", "b", "c", "d" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(2, 2), words);
    est_node                 parts[2];

    est_split(est_const(graph, tensor), 2, 1, parts);
    check_strings(parts[1], EST_SHAPE(2, 1), (const char *const[]){ "b", "d" });
    est_tensor_free(tensor);
    est_graph_free(graph);
}

/* Only one of the parts is used: the gradient of the others is zero. */
static void test_unused_part(void)
{
    est_graph   *graph = test_graph();
    est_node     x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 4)), parts[2];
    est_gradient dx;
    est_tensor  *feed = NULL, *out;

    est_split(x, 2, -1, parts);
    est_gradients(est_sum(parts[1]), (est_nodes){ &x, 1 }, &dx);
    CHECK(est_tensor_f32(EST_SHAPE(1, 4), (const float[]){ 1, 2, 3, 4 }, &feed) == EST_OK);
    out = test_run(dx.values, EST_FEEDS({ x, feed }));
    CHECK(out != NULL && memcmp(est_tensor_data(out), (const float[]){ 0, 0, 1, 1 }, 16) == 0);
    est_tensor_free(out);
    est_tensor_free(feed);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "Split", { INT(1), IN(3, 6) }, .attrs = PARTS(3), .ref = split_ref },
        { "Split", { INT(0), IN(4, 3) }, .attrs = PARTS(2), .ref = split_ref },
        { "Split", { INT(-2), IN(2, 4, 3) }, .attrs = PARTS(4), .ref = split_ref },
        { "Split", { FED_INT(1), IN(2, 4) }, .attrs = PARTS(1), .ref = split_ref },
        { "Split", { INT(1), IN(0, 4) }, .attrs = PARTS(2), .ref = split_ref },
        { "Split", { INT(1), IN(800, 52) }, .attrs = PARTS(4), .ref = split_ref },
        { "Split", { INT(1), IN(5, 6) }, .attrs = PARTS(2), .dtype = EST_I32, .ref = split_ref },
        { "Split", { INT(1), IN(3, 5) }, .attrs = PARTS(2), .fails = EST_INVALID_ARGUMENT, .says = "[3,5]" },
    };

    test_string_tensors();
    test_unused_part();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
