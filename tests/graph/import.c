/* SPDX-License-Identifier: Apache-2.0
 *
 * A GraphDef as a graph of ours: TensorFlow's graph runs; nodes in any order; what is refused, and that the error says
 * where. */
#include "graph/import.h"

#include "estoc/estoc.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "support/def_test.h"
#include "support/nn_test.h"

#define TENSORFLOW_NODES 14 /* of graph.pb, up to the first op we do not have */

typedef struct fixture {
    est_arena    *arena;
    est_graph    *graph;
    est_graph_def def;
} fixture;

static fixture begin(void)
{
    fixture f = { .arena = est_arena_create() };

    assert_non_null(f.arena);
    assert_ok(est_graph_create(1, &f.graph));
    return f;
}

static void end(fixture *f)
{
    est_graph_free(f->graph);
    est_arena_free(f->arena);
}

TEST(tensorflows_graph_runs)
{
    est_str      file = def_read_file(DEF_GOLDEN "graph.pb");
    fixture      f    = begin();
    est_session *session;
    est_tensor  *x, *out[2];

    assert_ok(est_graph_def_parse_bytes(file, f.arena, &f.def));
    f.def.n_nodes = TENSORFLOW_NODES;
    assert_ok(est_graph_import(&f.def, est_op_find, f.graph));
    assert_int_equal(est_graph_size(f.graph), TENSORFLOW_NODES);
    assert_string_equal(est_def(est_graph_find(f.graph, "Read/ReadVariableOp"))->device, "/job:ps/task:1");
    assert_ok(est_session_create(f.graph, EST_SESSION(.threads = 1), &session));
    assert_ok(
        est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(est_graph_find(f.graph, "w/Assign")), NULL));
    assert_ok(est_tensor_f32(EST_SHAPE(1, 3), (const float[]){ 1, 2, -3 }, &x));
    assert_ok(est_session_run(session, EST_FEEDS({ est_graph_find(f.graph, "x"), x }),
                              EST_NODES(est_graph_find(f.graph, "y"), est_graph_find(f.graph, "leaky")), EST_NO_NODES,
                              out));
    assert_near(nn_element(out[0], 0), -8, 0); /* 1 * 1 + 2 * 3 - 3 * 5 */
    assert_near(nn_element(out[0], 1), -9.5, 0);
    assert_near(nn_element(out[1], 1), -0.95, 1e-7);
    est_tensor_free(x);
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_session_free(session);
    end(&f);
    def_free_file(file);
}

/* A Const called `name`, one float. */
static est_graph_def_node *add_const(fixture *f, const char *name, float value)
{
    est_graph_def_node *node = est_graph_def_add_node(&f->def, name, "Const");
    est_tensor         *tensor;

    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &value, &tensor));
    est_graph_def_set_tensor(node, "value", tensor);
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_tensor_free(tensor);
    return node;
}

static est_graph_def_node *add_op(fixture *f, const char *name, const char *op, const char *a, const char *b)
{
    est_graph_def_node *node = est_graph_def_add_node(&f->def, name, op);

    if (a != NULL) est_graph_def_add_input(node, a);
    if (b != NULL) est_graph_def_add_input(node, b);
    est_graph_def_set_type(node, "T", EST_F32);
    return node;
}

TEST(nodes_may_come_in_any_order)
{
    fixture     f = begin();
    est_tensor *out;

    est_graph_def_init(&f.def, f.arena);
    add_op(&f, "Mul", "Sub", "Sub", "two"); /* names that other ops would get by default */
    est_graph_def_add_input(add_op(&f, "Sub", "Mul", "three", "two:0"), "^go");
    add_const(&f, "two", 2);
    est_graph_def_add_input(est_graph_def_add_node(&f.def, "go", "NoOp"), "^two");
    add_const(&f, "three", 3);
    assert_ok(est_graph_import(&f.def, est_op_find, f.graph));
    assert_string_equal(est_def(est_graph_find(f.graph, "Sub"))->op->name, "Mul");
    assert_int_equal(est_def(est_graph_find(f.graph, "Sub"))->n_control, 1);

    est_session *session;
    assert_ok(est_session_create(f.graph, EST_SESSION(.threads = 1), &session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(est_graph_find(f.graph, "Mul")), EST_NO_NODES, &out));
    assert_near(nn_element(out, 0), 4, 0);
    est_tensor_free(out);
    est_session_free(session);
    end(&f);
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

/* Imports what f.def has become, expects a failure that says both words, and starts over. */
static void expect_refused(fixture *f, est_status status, const char *where, const char *what)
{
    assert_int_equal(est_graph_import(&f->def, est_op_find, f->graph), status);
    def_expect_message(where);
    def_expect_message(what);
    assert_int_equal(est_graph_status(f->graph), status);
    end(f);
    *f = begin();
    est_graph_def_init(&f->def, f->arena);
    add_const(f, "a", 1);
}

TEST(refusals)
{
    fixture f = begin();

    est_graph_def_init(&f.def, f.arena);
    add_op(&f, "bad", "NoSuchOp", NULL, NULL);
    expect_refused(&f, EST_UNIMPLEMENTED, "node 'bad' (NoSuchOp)", "op 'NoSuchOp' is not supported");
    add_op(&f, "bad", "Neg", "missing", NULL);
    expect_refused(&f, EST_INVALID_ARGUMENT, "node 'bad' (Neg)", "'missing' is not in the graph");
    add_op(&f, "bad", "Neg", "a:x", NULL);
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "'a:x'");
    add_op(&f, "bad", "Neg", "a:7", NULL);
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "input 0");
    add_op(&f, "bad", "Neg", "^a", "a");
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "after a control input");
    add_op(&f, "bad", "Neg", "a", "a");
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "2 inputs given, 1 expected");
    add_op(&f, "p", "Neg", "q", NULL);
    add_op(&f, "q", "Neg", "p", NULL);
    expect_refused(&f, EST_INVALID_ARGUMENT, "'q'", "depends on the node itself");
    add_op(&f, "p", "AddV2", "a", "p");
    expect_refused(&f, EST_INVALID_ARGUMENT, "'p'", "depends on the node itself");
    add_const(&f, "a", 2);
    expect_refused(&f, EST_INVALID_ARGUMENT, "", "two nodes are called 'a'");
    add_op(&f, "", "Neg", "a", NULL);
    expect_refused(&f, EST_INVALID_ARGUMENT, "node 1 (Neg)", "no name");
    (void)est_placeholder(f.graph, "a", EST_F32, EST_SHAPE(1));
    expect_refused(&f, EST_INVALID_ARGUMENT, "", "already has a node called 'a'");
    end(&f);
}

TEST(attributes)
{
    fixture             f = begin();
    est_graph_def_node *node;

    est_graph_def_init(&f.def, f.arena);
    add_const(&f, "a", 1);
    est_graph_def_set_s(add_op(&f, "bad", "Neg", "a", NULL), "T", "float");
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "attribute 'T': the kind is string, expected type");
    est_graph_def_set_type(add_op(&f, "bad", "Neg", "a", NULL), "T", (est_dtype)19);
    expect_refused(&f, EST_UNIMPLEMENTED, "'bad'", "attribute 'T': the type DT_HALF (19) is not supported");
    est_graph_def_set_b(add_op(&f, "bad", "Neg", "a", NULL), "new", true);
    expect_refused(&f, EST_UNIMPLEMENTED, "'bad'", "attribute 'new': Estoc's op has no such attribute");
    est_graph_def_set_f_list(est_graph_def_add_node(&f.def, "bad", "Squeeze"), "squeeze_dims", (const float[]){ 1 }, 1);
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "a list of float, expected int");
    est_graph_def_set_type(est_graph_def_add_node(&f.def, "bad", "Const"), "dtype", EST_F32);
    expect_refused(&f, EST_INVALID_ARGUMENT, "'bad'", "attribute 'value' is missing");
    node = add_op(&f, "good", "Neg", "a", NULL); /* what says nothing is passed over */
    est_graph_def_set_b(node, "new", false);
    est_graph_def_set_i(node, "zero", 0);
    est_graph_def_set_s(node, "text", "");
    est_graph_def_set_i_list(node, "list", NULL, 0);
    est_graph_def_set_type(node, "index_type", EST_I32);
    est_graph_def_set_s(node, "_class", "loc:@a");
    assert_ok(est_graph_import(&f.def, est_op_find, f.graph));
    end(&f);
}

static est_graph_def *fault_def;

static est_status import_once(void)
{
    est_graph *graph;
    est_status status;

    EST_TRY(est_graph_create(1, &graph));
    status = est_graph_import(fault_def, est_op_find, graph);
    est_graph_free(graph);
    return status;
}

TEST(every_allocation_may_fail)
{
    est_str file = def_read_file(DEF_GOLDEN "graph.pb");
    fixture f    = begin();

    assert_ok(est_graph_def_parse_bytes(file, f.arena, &f.def));
    f.def.n_nodes = TENSORFLOW_NODES;
    fault_def     = &f.def;
    def_fail_allocations(import_once);
    end(&f);
    def_free_file(file);
}
