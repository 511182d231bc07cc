/* SPDX-License-Identifier: Apache-2.0 — Reshape, ExpandDims, Squeeze. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static void copy_ref(est_ref *r)
{
    memcpy(r->out[0], r->in[0], sizeof(double) * (size_t)est_shape_count(&r->in_shape[0]));
}

#define AXES(...) EST_ATTRS({ .name = "squeeze_dims", .kind = EST_ATTR_INTS, .ints = EST_I64S(__VA_ARGS__) })
#define REFUSED   .fails = EST_INVALID_ARGUMENT

/* A shape computed from shapes is followed while the graph is built: [?,4,8] -> [?,32] -> [?,4,8]. */
static void test_following(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 4, 8));
    est_node   batch = est_strided_slice(est_shape_of(x), EST_I64S(0), EST_I64S(1), EST_I64S(1),
                                         (est_strided_slice_options){ .shrink_axis_mask = 1 });
    est_node   flat  = est_reshape_to(x, est_pack(EST_NODES(batch, est_scalar(graph, EST_I32, 32)), 0));
    est_node   back  = est_reshape_to(
           flat, est_concat(EST_NODES(est_reshape(batch, EST_I64S(1)), est_const_list(graph, EST_I64S(4, 8))), 0));
    est_node    known = est_reshape(est_placeholder(graph, "k", EST_F32, EST_SHAPE(6, 4)), EST_I64S(3, -1));
    est_tensor *feed  = NULL, *out;

    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(est_node_dim(flat, 0) == -1 && est_node_dim(flat, 1) == 32);
    CHECK(est_node_shape(back)->rank == 3 && est_node_dim(back, 1) == 4 && est_node_dim(back, 2) == 8);
    CHECK(est_node_dim(known, 1) == 8);
    CHECK(est_tensor_create(EST_F32, EST_SHAPE(5, 4, 8), &feed) == EST_OK);
    memset(est_tensor_mutable_data(feed), 0, est_tensor_bytes(feed));
    out = test_run(back, EST_FEEDS({ x, feed }));
    CHECK(out != NULL && est_tensor_shape(out)->dim[0] == 5);
    est_tensor_free(out);
    est_tensor_free(feed);
    est_graph_free(graph);
}

static void test_string_tensors(void)
{
    static const char *const words[] = { "a", "b", "c", "d", "e", "f" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(6), words);
    est_node                 x       = est_const(graph, tensor);

    check_strings(est_reshape(x, EST_I64S(2, -1)), EST_SHAPE(2, 3), words);
    check_strings(est_expand_dims(x, -1), EST_SHAPE(6, 1), words);
    check_strings(est_squeeze(est_expand_dims(x, 0), EST_ALL_AXES), EST_SHAPE(6), words);
    est_tensor_free(tensor);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "Reshape", { IN(3, 4), INTS(2, 6) }, .ref = copy_ref },
        { "Reshape", { IN(3, 4), INTS(-1, 2) }, .ref = copy_ref },
        { "Reshape", { IN(3, 4), FED_INTS(4, -1) }, .ref = copy_ref }, /* a shape not known before the step */
        { "Reshape", { IN(1), { .shape = EST_SHAPE(0), .dtype = EST_I32, .constant = true } }, .ref = copy_ref },
        { "Reshape", { SCALAR_IN, INTS(1, 1, 1) }, .ref = copy_ref },
        { "Reshape", { IN(0, 3), INTS(3, 0, 7) }, .ref = copy_ref },
        { "Reshape", { IN(0, 3), INTS(-1, 3) }, .ref = copy_ref },
        { "Reshape", { IN(3, 4), INTS(5, -1) }, REFUSED, .says = "[5,?]" },
        { "Reshape", { IN(3, 4), INTS(2, 5) }, REFUSED, .says = "12 elements" },
        { "Reshape", { IN(3, 4), INTS(-1, -1) }, REFUSED, .says = "only one" },
        { "Reshape", { IN(3, 4), INTS(-2, 6) }, REFUSED, .says = "-2" },
        { "ExpandDims", { IN(3, 4), INT(0) }, .ref = copy_ref },
        { "ExpandDims", { IN(3, 4), INT(-1) }, .ref = copy_ref },
        { "ExpandDims", { IN(3, 4), FED_INT(1) }, .ref = copy_ref },
        { "ExpandDims", { SCALAR_IN, INT(0) }, .ref = copy_ref },
        { "ExpandDims", { IN(3, 4), INT(3) }, REFUSED, .says = "axis 3" },
        { "Squeeze", { IN(1, 3, 1, 4, 1) }, .ref = copy_ref },
        { "Squeeze", { IN(1, 3, 1, 4) }, .attrs = AXES(-2), .ref = copy_ref },
        { "Squeeze", { IN(1, 3, 1, 4) }, .attrs = AXES(0, 2), .ref = copy_ref },
        { "Squeeze", { IN(1, 1) }, .ref = copy_ref },
        { "Squeeze", { IN(2, 3) }, .attrs = AXES(1), REFUSED, .says = "[2,3]" },
    };

    test_following();
    test_string_tensors();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
