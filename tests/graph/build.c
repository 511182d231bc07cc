/* SPDX-License-Identifier: Apache-2.0
 *
 * Building: what the graph refuses, and that the first refusal says everything and is never overwritten. */
#include "estoc/estoc.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "support/nn_test.h"

/* The graph has failed with that status, and its text has all of `words` (ended by NULL). */
static void failed(const est_graph *g, est_status status, const char *const *words)
{
    assert_int_equal(est_graph_status(g), status);
    for (; *words != NULL; words++) {
        if (strstr(est_error_message(), *words) == NULL) fail_msg("\"%s\" is not in: %s", *words, est_error_message());
    }
}

#define FAILED(g, status, ...) failed(g, status, (const char *const[]){ __VA_ARGS__, NULL })

TEST(the_first_error_wins_and_says_it_all)
{
    nn_test t = nn_begin(1);
    char    line[32];

    est_node a = est_placeholder(t.graph, "a", EST_F32, EST_SHAPE(2, 3));
    est_node b = est_placeholder(t.graph, "b", EST_F32, EST_SHAPE(4));
    est_scope_push(t.graph, "layer");
    est_node sum = est_add(a, b);
    (void)snprintf(line, sizeof line, "build.c:%d", __LINE__ - 1);
    est_scope_pop(t.graph);
    (void)est_matmul(b, b);                                                        /* wrong too, but later */
    (void)est_cast(est_placeholder(t.graph, "c", EST_F32, EST_SHAPE(1)), EST_F64); /* right, but late */
    FAILED(t.graph, EST_INVALID_ARGUMENT, "Add", "'layer/Add", "'a' [2,3]", "'b' [4]", "float32", line);
    assert_null(est_def(sum));
    FAILED(t.graph, EST_INVALID_ARGUMENT, line); /* asking again gives the same answer */
    nn_end(&t);
}

/* A line without a file is no line. */
TEST(a_line_of_no_file)
{
    nn_test t = nn_begin(1);

    est_node bad = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2, 3));
    est_here(NULL, 1);
    (void)(est_reshape)(bad, EST_I64S(4));
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_null(strstr(est_error_message(), ":1: "));
    nn_end(&t);
}

TEST(poison_passes_through_every_kind_of_builder)
{
    nn_test      t = nn_begin(1);
    est_node     out[4], index = EST_NO_NODE;
    est_gradient g;

    est_node bad = est_reshape(est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2, 3)), EST_I64S(4));
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    int32_t size = est_graph_size(t.graph);
    est_split(bad, 4, 0, out);
    for (int i = 0; i < 4; i++) assert_null(est_def(out[i]));
    est_unpack(bad, 3, 0, out);
    est_fused_batch_norm(bad, bad, bad, bad, bad, 0.001, true, out);
    (void)est_unique(bad, &index);
    (void)est_top_k(bad, 2, &index);
    est_gradients(bad, (est_nodes){ &bad, 1 }, &g);
    assert_null(g.values.graph);
    (void)est_named(bad, "name");
    (void)est_after(bad, bad);
    (void)est_concat(EST_NODES(bad, bad), 0);
    (void)est_group(t.graph, EST_NODES(bad));
    (void)est_scale(bad, 2);
    (void)est_assign(bad, bad);
    (void)est_resource_gather(bad, bad);
    (void)est_clip_by_global_norm(&g, 1, 1);
    (void)est_dedup((est_gradient){ bad, bad });
    (void)est_dense(bad, 3, NULL);
    (void)est_embedding(bad, 3, 3, NULL);
    (void)est_batch_norm(bad, true, NULL);
    (void)est_conv2d_layer(bad, 3, 3, NULL);
    (void)est_loss_mse(bad, bad, NULL);
    (void)est_metric_auc(bad, bad, NULL);
    (void)est_minimize(est_adam(0, NULL), bad, NULL);
    (void)est_minimize(est_sgd(0), bad, EST_MINIMIZE(.clip_global_norm = 1));
    assert_int_equal(est_graph_size(t.graph), size);
    nn_end(&t);
}

TEST(nodes_of_another_graph_are_refused)
{
    nn_test t = nn_begin(1), other = nn_begin(1);

    est_node a = est_scalar(t.graph, EST_F32, 1), b = est_scalar(other.graph, EST_F32, 1);
    (void)est_add(a, b);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "input 1", "another", "build.c:");
    assert_ok(est_graph_status(other.graph));
    nn_end(&t);
    nn_end(&other);
}

TEST(missing_inputs_are_refused)
{
    nn_test t = nn_begin(1);

    (void)est_add(est_scalar(t.graph, EST_F32, 1), EST_NO_NODE);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "AddV2", "input 1", "build.c:");
    nn_end(&t);

    t          = nn_begin(1);
    est_node a = est_scalar(t.graph, EST_F32, 1);
    a.output   = 1;
    (void)est_neg(a);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "input 0");
    nn_end(&t);

    t = nn_begin(1);
    a = est_scalar(t.graph, EST_F32, 1);
    (void)est_build(t.graph, &est_op_matmul, EST_NODES(a), EST_NO_ATTRS);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "MatMul", "'b' is missing");
    nn_end(&t);

    t = nn_begin(1);
    a = est_scalar(t.graph, EST_F32, 1);
    (void)est_build(t.graph, &est_op_relu, EST_NODES(a, a), EST_NO_ATTRS);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "2 inputs given, 1 expected");
    nn_end(&t);

    assert_null(est_relu(EST_NO_NODE).graph); /* there is no graph to tell */
}

TEST(wrong_dtypes_are_refused)
{
    nn_test t = nn_begin(1);

    (void)est_add(est_scalar(t.graph, EST_F32, 1), est_scalar(t.graph, EST_F64, 1));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "float64", "float32", "agree");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_sqrt(est_scalar(t.graph, EST_I32, 1));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "Sqrt", "int32", "not supported");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_select(est_scalar(t.graph, EST_F32, 1), est_scalar(t.graph, EST_F32, 1), est_scalar(t.graph, EST_F32, 1));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "'condition'", "must be bool", "float32");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_assign(est_variable(t.graph, "v", EST_F32, EST_SHAPE(2)),
                     est_const_i32(t.graph, EST_SHAPE(2), (int32_t[2]){ 0 }));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "int32", "float32", "'v'");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_read_variable(est_scalar(t.graph, EST_F32, 1)); /* no variable */
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
}

TEST(bad_attributes_are_refused)
{
    nn_test  t = nn_begin(1);
    est_node x = est_const_f32(t.graph, EST_SHAPE(2, 2), (float[4]){ 0 });

    (void)est_build(t.graph, &est_op_matmul, EST_NODES(x, x), EST_ATTRS(est_attr_bool("transpose_c", true)));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "MatMul", "no attribute 'transpose_c'");
    nn_end(&t);

    t = nn_begin(1);
    x = est_const_f32(t.graph, EST_SHAPE(2, 2), (float[4]){ 0 });
    (void)est_build(t.graph, &est_op_matmul, EST_NODES(x, x), EST_ATTRS(est_attr_int("transpose_a", 1)));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "'transpose_a'", "wrong kind");
    nn_end(&t);

    t = nn_begin(1);
    x = est_const_f32(t.graph, EST_SHAPE(2, 2), (float[4]){ 0 });
    (void)est_build(t.graph, &est_op_matmul, EST_NODES(x, x), EST_ATTRS(est_attr_type("T", EST_F64)));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "float64", "float32");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_build0(t.graph, &est_op_placeholder, EST_NO_ATTRS);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "Placeholder", "'dtype' is missing");
    nn_end(&t);

    t = nn_begin(1);
    (void)est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, -1));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "'v'", "[3,?]");
    nn_end(&t);

    t = nn_begin(1);
    x = est_const_f32(t.graph, EST_SHAPE(1, 4, 4, 1), (float[16]){ 0 });
    (void)est_max_pool(x, 0, 2, 1, 1, EST_VALID);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
}

/* A tensor given to a node that fails must not be lost or freed twice (the sanitizers watch). */
TEST(shared_tensors_survive_a_failed_node)
{
    nn_test     t      = nn_begin(1);
    est_tensor *tensor = NULL;

    assert_ok(est_tensor_f32(EST_SHAPE(1), (const float[]){ 7 }, &tensor));
    (void)est_build0(t.graph, &est_op_const, EST_ATTRS(est_attr_tensor("value", tensor), est_attr_int("nonsense", 1)));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "nonsense");
    nn_end(&t);
    assert_true(*(const float *)est_tensor_data(tensor) == 7);
    est_tensor_free(tensor);
}

TEST(after_only_looks_back)
{
    nn_test  t = nn_begin(1);
    est_node a = est_scalar(t.graph, EST_F32, 1), b = est_neg(a), c = est_neg(b);

    (void)est_after(est_after(c, a), b);
    assert_int_equal(est_def(c)->n_control, 2);
    assert_int_equal(est_def(c)->control[0], a.id);
    assert_int_equal(est_def(c)->control[1], b.id);
    (void)est_after(a, c);
    FAILED(t.graph, EST_INVALID_ARGUMENT, "est_after", "'Const'", est_node_name(c));
    nn_end(&t);

    t = nn_begin(1);
    a = est_scalar(t.graph, EST_F32, 1);
    (void)est_after(a, a);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);

    nn_test other = nn_begin(1);
    t             = nn_begin(1);
    b             = est_scalar(other.graph, EST_F32, 1);
    a             = est_scalar(t.graph, EST_F32, 1);
    (void)est_after(a, b);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_ok(est_graph_status(other.graph));
    nn_end(&t);
    nn_end(&other);
}

TEST(operations_made_after_others)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2)), one = est_scalar(t.graph, EST_F32, 1);
    est_node v   = est_weight(t.graph, "v", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_zeros()));
    est_node add = est_assign_add(v, x), read, w;

    est_graph_after(t.graph, EST_NODES(add));
    read = est_read_variable(v);
    w    = est_weight(t.graph, "w", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_after(t.graph, EST_NO_NODES);
    assert_int_equal(est_def(read)->n_control, 1);
    assert_int_equal(est_def(read)->control[0], add.id);
    assert_int_equal(est_def(est_scalar(t.graph, EST_F32, 2))->n_control, 0);
    assert_int_equal(est_def(est_read_variable(v))->n_control, 0);
    assert_int_equal(est_def(w)->n_control, 0);
    assert_false(est_nodes_need(EST_NODES(est_variable_initializer_op(w)), add)); /* initial values are not ordered */
    assert_true(est_nodes_need(EST_NODES(one, read), x));
    assert_true(est_nodes_need(EST_NODES(x), x));
    assert_false(est_nodes_need(EST_NODES(one, v), x));
    assert_false(est_nodes_need(EST_NODES(read), EST_NO_NODE));
    assert_ok(est_graph_status(t.graph));
    est_graph_after(t.graph, EST_NODES(EST_NO_NODE));
    FAILED(t.graph, EST_INVALID_ARGUMENT, "est_graph_after", "item 0 of 1", "not a node");
    nn_end(&t);
}

/* Shapes computed by the graph are followed at build time. */
TEST(known_numbers_flow_into_shapes)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 6, 5)), y;

    est_node shape = est_shape_of(x);
    est_node tail  = est_strided_slice(shape, EST_I64S(1), EST_I64S(0), EST_I64S(1),
                                       (est_strided_slice_options){ .end_mask = 1 });
    est_node rows  = est_const_list(t.graph, EST_I64S(-1));
    y              = est_reshape_to(x, est_concat(EST_NODES(rows, est_reduce_prod(tail, EST_I64S(0), true)), 0));
    assert_int_equal(est_node_shape(y)->rank, 2);
    assert_int_equal(est_node_dim(y, 0), -1);
    assert_int_equal(est_node_dim(y, 1), 30);
    y = est_fill(est_add(tail, est_const_list(t.graph, EST_I64S(1, 2))), est_scalar(t.graph, EST_F32, 0));
    assert_int_equal(est_node_dim(y, 0), 7);
    assert_int_equal(est_node_dim(y, 1), 7);
    assert_ok(est_graph_status(t.graph));
    nn_end(&t);
}

static void count(void *user)
{
    ++*(int *)user;
}

TEST(kept_objects_are_released_with_the_graph)
{
    est_graph *graph = NULL;
    int        n     = 0;

    assert_ok(est_graph_create(1, &graph));
    est_graph_keep(graph, count, &n);
    est_graph_keep(graph, count, &n);
    est_graph_keep(graph, NULL, &n);
    assert_int_equal(n, 0);
    est_graph_free(graph);
    assert_int_equal(n, 2);
    est_graph_keep(NULL, count, &n); /* nobody else would release it */
    assert_int_equal(n, 3);
}
