/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding: what depends on constants alone is computed once, when the step is planned.
 *
 * The part of the graph that is constant is planned and run like any other step; its results become Const nodes. Only
 * small results are kept: a large table of zeros is cheaper to make than to keep twice. */
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"
#include "runtime/plan.h"

#define FOLDED_BYTES_MAX 65536

static bool small_and_known(const est_node_def *n)
{
    for (int32_t o = 0; o < n->n_out; o++) {
        int64_t count = est_shape_count(&n->shape[o]);
        if (count < 0 || (size_t)count * est_dtype_size(n->dtype[o]) > FOLDED_BYTES_MAX) return false;
        if (n->dtype[o] == EST_STRING || n->dtype[o] == EST_RESOURCE) return false;
    }
    return n->n_out > 0;
}

/* Which nodes are functions of constants. One that waits for something is none: the wait would be lost. */
static void mark_constant(const est_graph *g, bool *constant)
{
    for (int32_t id = 0; id < est_graph_size(g); id++) {
        const est_node_def *n = est_graph_node(g, id);
        constant[id]          = n->op->source == EST_SOURCE_CONST && n->n_control == 0;
        if (constant[id] || n->op->source != EST_SOURCE_NONE || n->op->stateful || n->op->writes != 0 || n->n_in == 0 ||
            n->n_control > 0 || !small_and_known(n)) {
            continue;
        }
        constant[id] = true;
        for (int32_t i = 0; i < n->n_in; i++) constant[id] = constant[id] && constant[n->in[i].node];
    }
}

static bool fold_here(const est_graph *g, const bool *constant, int32_t id)
{
    return constant[id] && est_graph_node(g, id)->op->source == EST_SOURCE_NONE;
}

/* Lists a result once; outputs beyond the 32nd of a node as often as they are used. */
static int add_result(est_node result, uint32_t *listed, est_node *results, int n)
{
    uint32_t bit = result.output < 32 ? 1u << result.output : 0;

    if ((listed[result.id] & bit) != 0) return n;
    listed[result.id] |= bit;
    results[n] = result;
    return n + 1;
}

/* Results that somebody outside the constant part looks at. */
static int list_results(est_graph *g, const est_io *io, const bool *constant, uint32_t *listed, est_node *results)
{
    int n = 0;

    for (int32_t id = 0; id < est_graph_size(g); id++) {
        const est_node_def *user = est_graph_node(g, id);
        for (int32_t i = 0; i < user->n_in && !constant[id]; i++) {
            if (fold_here(g, constant, user->in[i].node)) {
                n = add_result((est_node){ g, user->in[i].node, user->in[i].output }, listed, results, n);
            }
        }
    }
    for (int i = 0; i < io->n_fetches; i++) {
        if (fold_here(g, constant, io->fetches[i].id)) n = add_result(io->fetches[i], listed, results, n);
    }
    return n;
}

static est_status put_constant(est_rewriter *r, est_node old, const est_view *value)
{
    est_graph          *g      = r->graph;
    const est_node_def *from   = est_graph_node(g, old.id);
    est_tensor         *tensor = NULL;
    est_node            fresh;

    EST_TRY(est_tensor_create_from(value->dtype, value->shape, value->data, &tensor));
    fresh = est_const(g, tensor);
    est_tensor_free(tensor);
    if (fresh.id < 0) return est_graph_status(g);
    est_graph_node(g, fresh.id)->order = from->order;
    est_graph_node(g, fresh.id)->name  = from->name;
    return est_rewriter_replace(r, (est_edge){ old.id, old.output }, (est_edge){ fresh.id, 0 });
}

static est_status run_constants(est_graph *g, est_io *io, est_node *results, int n, est_store *store,
                                const est_plan_options *options)
{
    est_plan_options plain  = { .device = &est_device_cpu, .pool = options->pool };
    est_io           wanted = { .fetches = results, .n_fetches = n };
    est_rewriter     r      = { .graph = g, .io = io };
    est_plan        *plan   = NULL;
    est_status       status;

    EST_TRY(est_plan_create(g, &wanted, store, &plain, &plan));
    status = est_plan_run(plan, NULL, 0);
    for (int i = 0; i < n && status == EST_OK; i++) status = put_constant(&r, results[i], est_plan_fetch(plan, i));
    est_rewriter_clear(&r);
    est_plan_free(plan);
    return status;
}

/* Ones or zeros in the shape of a scalar, as the gradient of a loss begins with. */
static bool is_scalar_like(const est_node_def *n)
{
    return (n->op == &est_op_ones_like || n->op == &est_op_zeros_like) && n->shape[0].rank == 0 &&
           n->dtype[0] == EST_F32 && n->n_control == 0;
}

/* Whether all that the node says is known from shapes. */
static bool is_known(const est_node_def *n)
{
    const est_value *value = &n->value[0];

    if ((n->op != &est_op_shape && n->op != &est_op_size && n->op != &est_op_rank) || value->n < 0) return false;
    for (int32_t i = 0; i < value->n; i++) {
        if (value->v[i] == EST_VALUE_UNKNOWN || value->v[i] < 0) return false;
    }
    return n->n_control == 0;
}

/* Shapes that are known become constants, and so do scalar ones and zeros. With devices a shape of what is on one would
 * otherwise be asked for from there in the middle of a step, though nothing has to be computed for it. */
static est_status fold_shapes(est_graph *g, est_io *io)
{
    est_rewriter r      = { .graph = g, .io = io };
    int32_t      size   = est_graph_size(g);
    est_status   status = EST_OK;

    for (int32_t id = 0; id < size && status == EST_OK; id++) {
        const est_node_def *n = est_graph_node(g, id);
        int32_t             narrow[EST_VALUE_MAX];
        float               one = n->op == &est_op_ones_like ? 1 : 0;

        if (is_scalar_like(n)) {
            status = put_constant(&r, (est_node){ g, id, 0 }, &(est_view){ &one, EST_F32, EST_SHAPE_SCALAR, 1 });
            continue;
        }
        if (!is_known(n)) continue;
        for (int32_t i = 0; i < n->value[0].n; i++) narrow[i] = (int32_t)n->value[0].v[i];
        status = put_constant(&r, (est_node){ g, id, 0 },
                              &(est_view){ n->dtype[0] == EST_I32 ? (void *)narrow : (void *)n->value[0].v, n->dtype[0],
                                           n->shape[0], n->value[0].n });
    }
    est_rewriter_clear(&r);
    return status;
}

est_status est_pass_fold(est_graph *graph, est_io *io, est_store *store, const est_plan_options *options)
{
    size_t     n_edges  = (size_t)io->n_fetches + 1;
    bool      *constant = est_zalloc((size_t)est_graph_size(graph) + 1);
    uint32_t  *listed   = est_zalloc(sizeof *listed * ((size_t)est_graph_size(graph) + 1));
    est_node  *results;
    est_status status = EST_OK;
    int        n;

    for (int32_t id = 0; id < est_graph_size(graph); id++) n_edges += (size_t)est_graph_node(graph, id)->n_in;
    results = est_alloc(sizeof *results * n_edges);
    if (constant == NULL || listed == NULL || results == NULL) {
        status = est_no_memory();
    } else {
        mark_constant(graph, constant);
        n = list_results(graph, io, constant, listed, results);
        if (n > 0) status = run_constants(graph, io, results, n, store, options);
    }
    est_free(constant);
    est_free(listed);
    est_free(results);
    if (status == EST_OK && options->devices != NULL) status = fold_shapes(graph, io);
    return status;
}
