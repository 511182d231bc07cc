/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as GraphDef: names, edges, devices, and which attributes are written. (That every op comes back the same is
 * checked with the op's own cases.) */
#include "graph/graph_export.h"

#include "estoc/estoc.h"
#include "support/def_test.h"
#include "support/nn_test.h"

static est_graph *build(void)
{
    est_graph *graph;
    est_node   x, w, parts[2], product, go;

    assert_ok(est_graph_create(1, &graph));
    x = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 4));
    w = est_variable(graph, "w", EST_F32, EST_SHAPE(3, 2));
    est_split(x, 2, 1, parts);
    est_graph_device(graph, "/job:ps/task:0");
    est_node read = est_named(est_read_variable(w), "read");
    est_graph_device(graph, NULL);
    product = est_named(est_matmul_t(parts[1], read, false, true), "product");
    go = est_named(est_group(graph, EST_NODES(w)), "go"); /* before what comes after it, whatever argument is first */
    (void)est_named(est_after(est_leaky_relu(product, 0.2), go), "leaky");
    (void)est_named(est_leaky_relu(product, 0.3), "other");
    assert_ok(est_graph_status(graph));
    return graph;
}

static est_graph_def_node *find(const est_graph_def *def, const char *name)
{
    est_graph_def_node *node = est_graph_def_find(def, name);

    if (node == NULL) fail_msg("there is no node '%s'", name);
    return node;
}

TEST(names_edges_and_attributes)
{
    est_graph           *graph = build();
    est_arena           *arena = est_arena_create();
    const est_def_value *value;
    est_graph_def        def;
    est_graph_def_node  *node;

    est_graph_def_init(&def, arena);
    assert_ok(est_graph_export(graph, &def));
    assert_int_equal(def.n_nodes, est_graph_size(graph));
    assert_int_equal(def.producer, EST_GRAPH_DEF_PRODUCER);
    node = find(&def, "x");
    assert_string_equal(node->op, "Placeholder");
    assert_ok(est_graph_def_get(node, "shape", EST_DEF_SHAPE, &value));
    assert_true(est_shape_equal(value->shape, &EST_SHAPE(-1, 4)));
    node = find(&def, "w");
    assert_string_equal(node->op, "VarHandleOp");
    assert_ok(est_graph_def_get(node, "shared_name", EST_DEF_S, &value));
    def_expect_bytes(value->s, def_str("w"));
    assert_null(est_def_attrs_find(&node->attrs, "container")); /* has its default */
    assert_string_equal(find(&def, "read")->device, "/job:ps/task:0");
    node = find(&def, "product");
    assert_string_equal(node->op, "MatMul");
    assert_string_equal(node->device, "");
    assert_int_equal(node->inputs.n, 2);
    assert_string_equal(strchr(node->inputs.items[0], ':'), ":1");
    assert_string_equal(node->inputs.items[1], "read");
    assert_int_equal(node->attrs.n, 2); /* T and the one that is not its default */
    assert_ok(est_graph_def_get(node, "transpose_b", EST_DEF_B, &value));
    assert_true(value->b);
    assert_ok(est_graph_def_get(node, "T", EST_DEF_TYPE, &value));
    assert_int_equal(value->type, EST_F32);
    node = find(&def, "leaky");
    assert_int_equal(node->inputs.n, 2);
    assert_string_equal(node->inputs.items[1], "^go");
    assert_null(est_def_attrs_find(&node->attrs, "alpha")); /* 0.2 is the default */
    assert_ok(est_graph_def_get(find(&def, "other"), "alpha", EST_DEF_F, &value));
    assert_true(value->f == 0.3F);
    est_arena_free(arena);
    est_graph_free(graph);
}

static est_graph *fault_graph;

static est_status export_once(void)
{
    est_arena    *arena = est_arena_create();
    est_graph_def def;
    est_status    status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no arena");
    est_graph_def_init(&def, arena);
    status = est_graph_export(fault_graph, &def);
    est_arena_free(arena);
    return status;
}

TEST(every_allocation_may_fail)
{
    fault_graph = build();
    def_fail_allocations(export_once);
    est_graph_free(fault_graph);
}
