/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph remembers beside its nodes: names and scopes, devices, collections, initializers, seeds. */
#include "graph/graph.h"

#include "support/nn_test.h"

static est_node constant(est_graph *g)
{
    return est_scalar(g, EST_F32, 1);
}

TEST(names_are_made_unique)
{
    nn_test  t = nn_begin(1);
    est_node a = constant(t.graph), b = constant(t.graph), c = constant(t.graph);

    assert_string_equal(est_node_name(a), "Const");
    assert_string_equal(est_node_name(b), "Const_1");
    assert_string_equal(est_node_name(c), "Const_2");
    assert_string_equal(est_node_name(est_named(a, "x")), "x");
    assert_string_equal(est_node_name(est_named(b, "x")), "x_1");
    assert_string_equal(est_node_name(est_named(c, "x_1")), "x_1_1");
    assert_string_equal(est_node_name(est_named(constant(t.graph), "x")), "x_2");
    assert_int_equal(est_graph_find(t.graph, "x_1").id, b.id);
    assert_null(est_graph_find(t.graph, "y").graph);
    assert_string_equal(est_node_name(EST_NO_NODE), "");
    assert_ok(est_graph_status(t.graph));
    nn_end(&t);
}

TEST(operations_are_listed_as_they_were_made)
{
    nn_test  t = nn_begin(1);
    est_node a = constant(t.graph), b;

    est_graph_device(t.graph, "/job:ps/task:1");
    b = est_named(est_add(a, a), "sum");
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_graph_operations(t.graph), 2);
    assert_int_equal(est_graph_operation(t.graph, 1).id, b.id);
    assert_null(est_graph_operation(t.graph, 2).graph);
    assert_null(est_graph_operation(t.graph, -1).graph);
    assert_string_equal(est_node_op(a), "Const");
    assert_string_equal(est_node_op(b), "AddV2");
    assert_string_equal(est_node_device(a), "");
    assert_string_equal(est_node_device(b), "/job:ps/task:1");
    assert_int_equal(est_node_inputs(b), 2);
    assert_int_equal(est_node_input(b, 1).id, a.id);
    assert_null(est_node_input(b, 2).graph);
    assert_int_equal(est_node_inputs(EST_NO_NODE), 0);
    assert_string_equal(est_node_op(EST_NO_NODE), "");
    assert_string_equal(est_node_device(EST_NO_NODE), "");
    nn_end(&t);
}

/* A name that somebody chose may be the one that a suffix would have made. */
TEST(suffixes_step_over_names_in_use)
{
    nn_test t = nn_begin(1);

    assert_string_equal(est_node_name(est_named(constant(t.graph), "w_1")), "w_1");
    assert_string_equal(est_node_name(est_named(constant(t.graph), "w")), "w");
    assert_string_equal(est_node_name(est_named(constant(t.graph), "w")), "w_2");
    for (int i = 3; i < 300; i++) {
        char want[16];
        (void)snprintf(want, sizeof want, "w_%d", i);
        assert_string_equal(est_node_name(est_named(constant(t.graph), "w")), want);
    }
    nn_end(&t);
}

TEST(scopes_nest_and_are_made_unique)
{
    nn_test t = nn_begin(1);

    est_scope_push(t.graph, "a");
    est_scope_push(t.graph, "b");
    assert_string_equal(est_node_name(constant(t.graph)), "a/b/Const");
    assert_string_equal(est_node_name(est_named(constant(t.graph), "k")), "a/b/k");
    est_scope_pop(t.graph);
    assert_string_equal(est_node_name(constant(t.graph)), "a/Const");
    est_scope_pop(t.graph);
    est_scope_push(t.graph, "a");
    assert_string_equal(est_node_name(constant(t.graph)), "a_1/Const");
    est_scope_push(t.graph, "b");
    assert_string_equal(est_node_name(constant(t.graph)), "a_1/b/Const");
    est_scope_pop(t.graph);
    est_scope_pop(t.graph);
    assert_string_equal(est_node_name(constant(t.graph)), "Const");
    assert_ok(est_graph_status(t.graph));
    est_scope_pop(t.graph); /* one too many */
    assert_int_equal(est_graph_status(t.graph), EST_FAILED_PRECONDITION);
    nn_end(&t);
}

TEST(a_scope_can_be_entered_again)
{
    nn_test t = nn_begin(1);

    est_scope_push(t.graph, "a");
    est_scope_enter(t.graph, "b/c");
    assert_string_equal(est_node_name(est_named(constant(t.graph), "x")), "b/c/x");
    est_scope_enter(t.graph, "");
    assert_string_equal(est_node_name(est_variable(t.graph, "v", EST_F32, EST_SHAPE(2))), "v");
    est_scope_pop(t.graph);
    assert_string_equal(est_node_name(est_named(constant(t.graph), "x")), "b/c/x_1");
    est_scope_pop(t.graph);
    assert_string_equal(est_node_name(est_named(constant(t.graph), "x")), "a/x");
    est_scope_pop(t.graph);
    assert_ok(est_graph_status(t.graph));
    est_scope_enter(t.graph, NULL);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
}

TEST(variables_go_by_their_full_unique_name)
{
    nn_test t = nn_begin(1);

    est_scope_push(t.graph, "layer");
    est_node v = est_variable(t.graph, "w", EST_F32, EST_SHAPE(2));
    est_scope_pop(t.graph);
    est_node u = est_variable(t.graph, "layer/w", EST_F32, EST_SHAPE(2));
    assert_string_equal(est_node_name(v), "layer/w");
    assert_string_equal(est_node_name(u), "layer/w_1");
    assert_string_equal(est_node_string(est_def(v), "shared_name"), "layer/w");
    assert_string_equal(est_node_string(est_def(u), "shared_name"), "layer/w_1");
    nn_end(&t);
}

TEST(devices_hold_until_changed)
{
    nn_test t       = nn_begin(1);
    char    where[] = "/job:ps/task:1";

    est_node a = constant(t.graph);
    est_graph_device(t.graph, where);
    where[1]   = 'x'; /* it was copied */
    est_node b = constant(t.graph);
    est_graph_device(t.graph, NULL);
    est_node c = constant(t.graph);
    assert_string_equal(est_def(a)->device, "");
    assert_string_equal(est_def(b)->device, "/job:ps/task:1");
    assert_string_equal(est_def(c)->device, "");
    nn_end(&t);
}

TEST(collections_keep_order_and_are_apart)
{
    nn_test  t = nn_begin(1);
    est_node n[40];

    assert_int_equal(est_graph_collection(t.graph, "ups").n, 0);
    for (int i = 0; i < 40; i++) {
        n[i] = constant(t.graph);
        est_graph_collect(t.graph, i % 2 == 0 ? "even" : "odd", n[i]);
    }
    assert_int_equal(est_graph_collection(t.graph, "even").n, 20);
    assert_int_equal(est_graph_collection(t.graph, "odd").n, 20);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(est_graph_collection(t.graph, i % 2 == 0 ? "even" : "odd").data[i / 2].id, n[i].id);
    }
    nn_end(&t);
}

TEST(the_last_initializer_counts)
{
    nn_test  t = nn_begin(1);
    est_node v = est_variable(t.graph, "v", EST_F32, EST_SHAPE_SCALAR);
    double   got;

    assert_null(est_graph_initializer(t.graph, v.id).graph);
    est_variable_initializer(v, est_scalar(t.graph, EST_F32, 1));
    est_variable_initializer(v, est_scalar(t.graph, EST_F32, 2));
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "v", &got, 1), 1);
    assert_true(got == 2);
    nn_end(&t);
}

TEST(an_initializer_runs_again)
{
    nn_test      t = nn_begin(1);
    est_node     v = est_variable(t.graph, "v", EST_F32, EST_SHAPE_SCALAR), add;
    est_session *session;
    est_tensor  *value;

    assert_null(est_variable_initializer_op(v).graph);
    assert_null(est_variable_initializer_op(constant(t.graph)).graph);
    est_variable_initializer(v, constant(t.graph));
    add     = est_assign_add(v, constant(t.graph));
    session = nn_session(t.graph, NULL);
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(add), NULL));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(est_variable_initializer_op(v)), NULL));
    assert_ok(est_session_read(session, "v", &value));
    assert_near(((const float *)est_tensor_data(value))[0], 1.0, 0);
    est_tensor_free(value);
    est_session_free(session);
    nn_end(&t);
}

TEST(facts_about_no_node_are_harmless)
{
    nn_test  t    = nn_begin(1);
    est_node gone = { t.graph, -1, 0 }, beyond;

    assert_int_equal(est_node_dtype(EST_NO_NODE), EST_DTYPE_NONE);
    assert_int_equal(est_node_shape(EST_NO_NODE)->rank, -1);
    assert_int_equal(est_node_dim(gone, 0), -1);
    assert_null(est_def(gone));
    beyond = est_placeholder(t.graph, "x", EST_I32, EST_SHAPE(3, -1, 5));
    assert_int_equal(est_node_dim(beyond, -1), 5);
    assert_int_equal(est_node_dim(beyond, 1), -1);
    assert_int_equal(est_node_dim(beyond, 3), -1);
    assert_int_equal(est_node_dim(beyond, -4), -1);
    beyond.output = 7;
    assert_int_equal(est_node_dtype(beyond), EST_DTYPE_NONE);
    nn_end(&t);
}
