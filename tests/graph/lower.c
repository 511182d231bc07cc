/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering a graph: none of our own ops is left, results and names stay, what nobody needs goes, control edges,
 * initializers and collections are kept. (That every op lowers to the same numbers is checked with the op's own cases.)
 */
#include "graph/lower.h"

#include "estoc/estoc.h"
#include "graph/op.h"
#include "support/def_test.h"
#include "support/nn_test.h"

static bool has_ours(const est_graph *graph)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        if (strncmp(est_graph_node(graph, id)->op->name, "Est", 3) == 0) return true;
    }
    return false;
}

static double run_scalar(est_graph *graph, est_node node)
{
    est_session *session;
    est_tensor  *out;
    double       value;

    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(node), EST_NO_NODES, &out));
    value = nn_element(out, 0);
    est_tensor_free(out);
    est_session_free(session);
    return value;
}

/* The mean of a cross entropy (an op of ours) and its gradient (which has more of them). */
static est_node build_loss(est_graph *graph, est_node *gradient)
{
    est_node     logits = est_const_f32(graph, EST_SHAPE(2), (const float[]){ 0.5F, -1 });
    est_node     labels = est_const_f32(graph, EST_SHAPE(2, 2), (const float[]){ 1, 0, 0, 1 });
    est_node     rows   = est_add(est_zeros_like(labels), logits); /* broadcast: its gradient sums rows */
    est_node     loss   = est_named(est_sigmoid_xent(rows, labels), "loss");
    est_gradient g;

    est_gradients(loss, (est_nodes){ &logits, 1 }, &g);
    *gradient = g.values;
    return loss;
}

TEST(nothing_of_ours_is_left)
{
    est_graph *graph, *lowered;
    est_node   gradient, nodes[2], loss;

    assert_ok(est_graph_create(1, &graph));
    loss     = build_loss(graph, &gradient);
    nodes[0] = loss;
    nodes[1] = gradient;
    assert_ok(est_graph_status(graph));
    assert_true(has_ours(graph));
    assert_ok(est_graph_lower(graph, nodes, 2, &lowered));
    assert_false(has_ours(lowered));
    assert_ptr_equal(nodes[0].graph, lowered);
    assert_string_equal(est_node_name(nodes[0]), "loss"); /* although it was one of ours */
    assert_near(run_scalar(lowered, nodes[0]), run_scalar(graph, loss), 1e-6);
    assert_near(run_scalar(lowered, nodes[1]), run_scalar(graph, gradient), 1e-6);
    for (int32_t a = 0; a < est_graph_size(lowered); a++) {
        for (int32_t b = 0; b < a; b++) {
            assert_string_not_equal(est_graph_node(lowered, a)->name, est_graph_node(lowered, b)->name);
        }
    }
    est_graph_free(graph); /* the lowered one needs nothing of it */
    assert_true(isfinite(run_scalar(lowered, nodes[1])));
    est_graph_free(lowered);
}

TEST(only_what_is_needed_stays)
{
    est_graph *graph, *all, *some;
    est_node   a, b, first, unused, nodes[1];

    assert_ok(est_graph_create(1, &graph));
    a      = est_named(est_const_f32(graph, EST_SHAPE_SCALAR, (const float[]){ 3 }), "a");
    unused = est_named(est_neg(a), "unused");
    first  = est_named(est_group(graph, EST_NODES(a)), "first");
    b      = est_named(est_after(est_square(a), first), "b");
    est_graph_collect(graph, "kept", a);
    est_graph_collect(graph, "kept", unused);
    assert_ok(est_graph_status(graph));
    assert_ok(est_graph_lower(graph, NULL, 0, &all));
    assert_int_equal(est_graph_size(all), est_graph_size(graph));
    assert_int_equal(est_graph_collection(all, "kept").n, 2);
    nodes[0] = b;
    assert_ok(est_graph_lower(graph, nodes, 1, &some));
    assert_null(est_graph_find(some, "unused").graph);
    assert_non_null(est_graph_find(some, "first").graph); /* b waits for it */
    assert_int_equal(est_def(nodes[0])->n_control, 1);
    assert_int_equal(est_graph_collection(some, "kept").n, 1);
    assert_near(run_scalar(some, nodes[0]), 9, 0);
    est_graph_free(graph);
    est_graph_free(all);
    est_graph_free(some);
}

/* What waited for an op of ours waits for what replaces it, and that waits for what the op waited for. */
TEST(order_is_kept)
{
    est_graph *graph, *lowered;
    est_node   x, before, middle, nodes[1];
    int32_t    id, n_waiting = 0;

    assert_ok(est_graph_create(1, &graph));
    x        = est_const_f32(graph, EST_SHAPE(2), (const float[]){ 1, 2 });
    before   = est_named(est_group(graph, EST_NODES(x)), "before");
    middle   = est_after(est_sigmoid_xent(x, x), before);
    nodes[0] = est_named(est_after(est_neg(x), middle), "after");
    assert_ok(est_graph_lower(graph, nodes, 1, &lowered));
    assert_false(has_ours(lowered));
    assert_int_equal(est_def(nodes[0])->n_control, 1);
    id = est_graph_find(lowered, "before").id;
    for (int32_t i = 0; i < est_graph_size(lowered); i++) {
        const est_node_def *def = est_graph_node(lowered, i);
        for (int32_t k = 0; k < def->n_control; k++) n_waiting += def->control[k] == id;
    }
    assert_true(n_waiting > 0);
    est_graph_free(graph);
    est_graph_free(lowered);
}

TEST(variables_keep_their_initializers)
{
    nn_test    t = nn_begin(1);
    est_node   v, nodes[2];
    est_graph *lowered;

    v        = est_variable(t.graph, "v", EST_F32, EST_SHAPE(2));
    nodes[0] = v;
    nodes[1] = est_assign(v, est_const_f32(t.graph, EST_SHAPE(2), (const float[]){ 1, 2 }));
    est_graph_set_initializer(t.graph, v.id, nodes[1]);
    assert_ok(est_graph_lower(t.graph, nodes, 2, &lowered));
    assert_int_equal(est_graph_initializer(lowered, nodes[0].id).id, nodes[1].id);
    est_graph_free(lowered);
    nn_end(&t);
}

TEST(refusals)
{
    est_graph *graph, *other, *lowered = NULL;
    est_node   nodes[1];

    assert_ok(est_graph_create(1, &graph));
    assert_ok(est_graph_create(1, &other));
    nodes[0] = est_placeholder(other, "x", EST_F32, EST_SHAPE(3));
    assert_int_equal(est_graph_lower(graph, nodes, 1, &lowered), EST_INVALID_ARGUMENT);
    assert_ptr_equal(nodes[0].graph, other);
    (void)est_add(nodes[0], est_placeholder(other, "y", EST_F32, EST_SHAPE(7, 2)));
    assert_int_equal(est_graph_lower(other, NULL, 0, &lowered), EST_INVALID_ARGUMENT); /* poisoned */
    assert_null(lowered);
    est_graph_free(graph);
    est_graph_free(other);
}

static est_graph *fault_graph;
static est_node   fault_node;

static est_status lower_once(void)
{
    est_graph *lowered;
    est_node   node = fault_node;

    EST_TRY(est_graph_lower(fault_graph, &node, 1, &lowered));
    est_graph_free(lowered);
    return EST_OK;
}

TEST(every_allocation_may_fail)
{
    est_node gradient;

    assert_ok(est_graph_create(1, &fault_graph));
    (void)build_loss(fault_graph, &gradient);
    fault_node = gradient;
    def_fail_allocations(lower_once);
    est_graph_free(fault_graph);
}
