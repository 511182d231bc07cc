/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering: the graph is built again, node by node, with our own ops replaced. A replacement may contain such ops in
 * turn, so rounds repeat until none is left. */
#include "graph/lower.h"

#include <string.h>

#include "graph/internal.h"
#include "graph/op.h"

#define ROUNDS_MAX 16 /* no op needs more rounds */

/* One round: from a graph to the next. */
typedef struct lowering {
    const est_graph *from;
    est_graph       *to;
    bool            *needed; /* [node of from] */
    est_node       **moved;  /* [node of from]: its outputs in `to`, or the operation itself if it has none */
    est_node        *in;     /* scratch: inputs of one node */
    int32_t          in_max;
} lowering;

static bool is_ours(const est_op *op)
{
    return strncmp(op->name, "Est", 3) == 0;
}

static bool has_ours(const est_graph *g)
{
    for (int32_t id = 0; id < g->n_nodes; id++) {
        if (is_ours(g->nodes[id]->op)) return true;
    }
    return false;
}

/* Inputs have smaller ids, so one backward walk finds all needed nodes. */
static void mark_needed(lowering *l, const est_node *nodes, int n)
{
    for (int i = 0; i < n; i++) l->needed[nodes[i].id] = true;
    for (int32_t id = l->from->n_nodes - 1; id >= 0; id--) {
        const est_node_def *def = l->from->nodes[id];

        if (n == 0) l->needed[id] = true;
        if (!l->needed[id]) continue;
        for (int32_t i = 0; i < def->n_in; i++) l->needed[def->in[i].node] = true;
        for (int32_t i = 0; i < def->n_control; i++) l->needed[def->control[i]] = true;
    }
}

/* Names that are kept are taken first, so that no new operation gets one of them. */
static est_status take_names(const lowering *l)
{
    for (int32_t id = 0; id < l->from->n_nodes; id++) {
        if (l->needed[id] && est_graph_unique_name(l->to, l->from->nodes[id]->name) == NULL) return est_no_memory();
    }
    return EST_OK;
}

static est_status set_origin(const lowering *l, est_node_def *def, const est_node_def *from)
{
    def->device = est_arena_strdup(l->to->arena, from->device);
    def->file   = est_arena_strdup(l->to->arena, from->file);
    def->line   = from->line;
    return def->device != NULL && def->file != NULL ? EST_OK : est_no_memory();
}

static est_status set_name(const lowering *l, est_node_def *def, const char *name)
{
    def->name = est_arena_strdup(l->to->arena, name);
    return def->name != NULL ? EST_OK : est_no_memory();
}

/* Copies the control inputs of `from`; an operation of several outputs may have been replaced by several operations. */
static void add_controls(const lowering *l, est_node node, const est_node_def *from)
{
    for (int32_t i = 0; i < from->n_control; i++) {
        int32_t before = from->control[i], n = l->from->nodes[before]->n_out;

        for (int32_t k = 0; k == 0 || k < n; k++) {
            if (k == 0 || l->moved[before][k].id != l->moved[before][k - 1].id) {
                (void)est_after(node, l->moved[before][k]);
            }
        }
    }
}

static est_status move_node(const lowering *l, const est_node_def *from, est_node *out)
{
    est_node node = est_build(l->to, from->op, (est_nodes){ l->in, from->n_in },
                              (est_attrs){ from->attr, from->n_attr });

    EST_TRY(est_graph_status(l->to));
    EST_TRY(set_origin(l, l->to->nodes[node.id], from));
    EST_TRY(set_name(l, l->to->nodes[node.id], from->name));
    add_controls(l, node, from);
    for (int32_t i = 0; i == 0 || i < from->n_out; i++) out[i] = est_output(node, i);
    return est_graph_status(l->to);
}

static est_status cannot_lower(const est_node_def *from)
{
    char text[EST_NODE_TEXT_MAX];

    return est_fail(
        EST_UNIMPLEMENTED,
        "%s cannot be lowered to TensorFlow's ops with the known shapes; give its inputs more known dimensions",
        est_node_text(from, text));
}

/* New operations without inputs from other new ones get the control inputs of the old one. */
static void pass_controls(const lowering *l, const est_node_def *from, int32_t first)
{
    for (int32_t id = first; id < l->to->n_nodes && from->n_control > 0; id++) {
        const est_node_def *def   = l->to->nodes[id];
        bool                inner = false;

        for (int32_t i = 0; i < def->n_in; i++) inner |= def->in[i].node >= first;
        if (!inner) add_controls(l, (est_node){ l->to, id, 0 }, from);
    }
}

static est_status lower_node(const lowering *l, const est_node_def *from, est_node *out)
{
    int32_t       first = l->to->n_nodes;
    est_node_def *last;

    if (from->op->lower == NULL) return cannot_lower(from);
    est_scope_push(l->to, from->name);
    from->op->lower(from, l->to, l->in, out);
    est_scope_pop(l->to);
    EST_TRY(est_graph_status(l->to));
    for (int32_t i = 0; i == 0 || i < from->n_out; i++) {
        if (out[i].graph == NULL) return cannot_lower(from);
    }
    for (int32_t id = first; id < l->to->n_nodes; id++) EST_TRY(set_origin(l, l->to->nodes[id], from));
    pass_controls(l, from, first);
    last = l->to->nodes[out[0].id];
    if (out[0].id >= first && from->n_out <= 1 && last->n_out == from->n_out) EST_TRY(set_name(l, last, from->name));
    return est_graph_status(l->to);
}

static est_status take_inputs(lowering *l, const est_node_def *from)
{
    if (from->n_in > l->in_max) {
        est_node *more = est_realloc(l->in, sizeof *more * (size_t)from->n_in);

        if (more == NULL) return est_no_memory();
        l->in     = more;
        l->in_max = from->n_in;
    }
    for (int32_t i = 0; i < from->n_in; i++) l->in[i] = l->moved[from->in[i].node][from->in[i].output];
    return EST_OK;
}

static est_status move_all(lowering *l)
{
    for (int32_t id = 0; id < l->from->n_nodes; id++) {
        const est_node_def *from = l->from->nodes[id];

        if (!l->needed[id]) continue;
        l->moved[id] = est_arena_alloc(l->to->arena, sizeof(est_node) * (size_t)(from->n_out + 1));
        if (l->moved[id] == NULL) return est_no_memory();
        EST_TRY(take_inputs(l, from));
        EST_TRY(is_ours(from->op) ? lower_node(l, from, l->moved[id]) : move_node(l, from, l->moved[id]));
    }
    return EST_OK;
}

/* Copies the initializers and collections of the nodes that were kept. */
static est_status move_lists(const lowering *l)
{
    for (int i = 0; i < l->from->n_initializers; i++) {
        const initializer *it = &l->from->initializers[i];

        if (!l->needed[it->variable] || !l->needed[it->assign.id]) continue;
        est_graph_set_initializer(l->to, l->moved[it->variable][0].id, l->moved[it->assign.id][0]);
    }
    for (int i = 0; i < l->from->n_collections; i++) {
        const collection *list = &l->from->collections[i];

        for (int k = 0; k < list->n; k++) {
            est_node node = list->nodes[k];

            if (l->needed[node.id]) est_graph_collect(l->to, list->name, l->moved[node.id][node.output]);
        }
    }
    return est_graph_status(l->to);
}

/* One round over `from`; nodes[] are changed on success. */
static est_status lower_round(const est_graph *from, est_node *nodes, int n_nodes, est_graph **out)
{
    size_t     n = (size_t)from->n_nodes + 1;
    lowering   l = { .from = from };
    est_status status;

    EST_TRY(est_graph_create(from->seed, &l.to));
    l.needed = est_zalloc(sizeof *l.needed * n);
    l.moved  = est_zalloc(sizeof *l.moved * n);
    if (l.needed == NULL || l.moved == NULL) {
        status = est_no_memory();
    } else {
        mark_needed(&l, nodes, n_nodes);
        status = take_names(&l);
        if (status == EST_OK) status = move_all(&l);
        if (status == EST_OK) status = move_lists(&l);
    }
    if (status == EST_OK) {
        for (int i = 0; i < n_nodes; i++) nodes[i] = l.moved[nodes[i].id][nodes[i].output];
        *out = l.to;
    } else {
        est_graph_free(l.to);
    }
    est_free(l.needed);
    est_free(l.moved);
    est_free(l.in);
    return status;
}

static est_status check_nodes(const est_graph *graph, const est_node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        const est_node_def *def = nodes[i].graph == graph ? est_def(nodes[i]) : NULL;

        if (def == NULL || nodes[i].output < 0 || nodes[i].output >= (def->n_out > 0 ? def->n_out : 1)) {
            return est_fail(EST_INVALID_ARGUMENT, "node %d does not belong to the graph to lower", i);
        }
    }
    return EST_OK;
}

static est_status lower_rounds(const est_graph *graph, est_node *nodes, int n_nodes, est_graph **out)
{
    est_graph *done, *next;
    est_status status;

    EST_TRY(lower_round(graph, nodes, n_nodes, &done));
    for (int round = 1; has_ours(done); round++) {
        status = round < ROUNDS_MAX ? lower_round(done, nodes, n_nodes, &next)
                                    : est_fail(EST_INTERNAL, "lowering does not end after %d rounds", round);
        est_graph_free(done);
        if (status != EST_OK) return status;
        done = next;
    }
    *out = done;
    return EST_OK;
}

est_status est_graph_lower(const est_graph *graph, est_node *nodes, int n_nodes, est_graph **out)
{
    est_node  *moved;
    est_status status;

    EST_TRY(est_graph_status(graph));
    EST_TRY(check_nodes(graph, nodes, n_nodes));
    moved = est_alloc(sizeof *moved * (size_t)(n_nodes + 1));
    if (moved == NULL) return est_no_memory();
    if (n_nodes > 0) memcpy(moved, nodes, sizeof *moved * (size_t)n_nodes);
    status = lower_rounds(graph, moved, n_nodes, out);
    if (status == EST_OK && n_nodes > 0) memcpy(nodes, moved, sizeof *moved * (size_t)n_nodes);
    est_free(moved);
    return status;
}
