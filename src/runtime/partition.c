/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioning a step into what runs here and the segments that other tasks run.
 *
 * Where (runtime/partition_place.c): an operation on a variable runs at the variable's task; one that is pinned to a
 * task runs there. So does what only one task uses and does not depend on the step's inputs (initial values), and a
 * group of operations of one task. Everything else runs here.
 *
 * When: tasks talk only to this one, which drives the step, in phases. Phase 1 needs only what is computed here without
 * any task, phase 3 depends on the results of phase 1, and so on; what runs here has the even numbers in between. The
 * operations of one task in one phase are one segment, which costs a message each way. For training: phase 1 sends ids
 * and returns values, phase 3 sends gradients, and phase 5 is needed where the global step waits for several tasks.
 *
 * Early (runtime/partition_early.c): updates whose gradients are ready before the last one do not wait for it. A few
 * pieces of a phase become segments of their own, which are sent while the backward pass still runs.
 *
 * sync_replicas (runtime/partition_sync.c): a training step that several workers push to (est_remote.sync_replicas)
 * changes nothing before all of them have pushed the same, whatever else each of them fetches. So a segment either
 * writes variables or has outputs, and those that write are built as if nothing was fetched (C5). Nodes that see the
 * changes, such as the fetched global step, are late: their segments run when the step has been applied.
 *
 *   C1  Edges never lead to a lower phase: data, control, and reads of a variable before writes that do not depend on
 *       them (P2), for which the order of the whole step is made first.
 *   C2  The segments of one task are started in the order of their phases, each when those of the phase before have
 *       finished. Within a phase the pieces are started first and the rest last; the task runs them in that order
 *       (remote.h), and the rest is awaited last.
 *   C3  Constants, and reads of a variable that the same task needs again, are repeated in a segment rather than sent,
 *       unless a segment in between has written the variable.
 *   C4  An operation of a piece has no outputs and waits for nothing of its own phase at its task. So edges within a
 *       phase lead only from pieces to the rest, and need no round trip.
 *   C5  sync_replicas: the bytes of a segment that writes variables depend only on the updates of the step and what
 *       they need: on their nodes, order (`core`), names and phases. It has no outputs.
 *   C6  sync_replicas: late segments have later phases than all others, and start when all others have finished.
 *   C7  est_remote.direct: a tensor that a segment makes for another segment travels from task to task, once for each
 *       task that needs it. The start of the receiver waits for the start of the sender only; its finish waits for the
 *       finish of the sender, so that a failure is reported for the task where it happened. A segment that receives
 *       is the last of its phase: it may have to wait at its task, and the pieces must not (C2). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ops/ops.h"
#include "runtime/partition.h"

/* The edges across the border of a segment. */
typedef struct border {
    est_edges in, out; /* first those from and to this process, then those from and to tasks (C7) */
    est_edges received, sent;
    int32_t   n_in, n_out; /* from and to this process */
    est_edges after;       /* nodes that must run before it, by control edges */
    est_edges targets;     /* nodes of it that run for their effect */
    est_node  start, finish;
} border;

typedef struct partition {
    est_graph        *graph;
    est_io           *io;
    const est_store  *store;
    const est_remote *remote;
    est_arena        *arena;
    est_order         whole;         /* of all nodes of the step */
    est_order         apart;         /* sync_replicas: of the updates and what they need */
    const est_order  *core;          /* `apart`, or `whole` without sync_replicas */
    bool              sync_replicas; /* the step is one of sync_replicas */
    int32_t           n;             /* nodes before the pass */
    int32_t          *task;          /* per node */
    int32_t          *phase;
    int32_t          *piece;   /* per node: of its phase; 0: the rest; EST_READING: sync_replicas, and no update */
    int32_t          *segment; /* per node: its segment, -1: none */
    est_role         *role;    /* per node */
    est_incoming      in_whole, in_core;
    est_segment      *segments;
    border           *borders; /* per segment */
    est_edges        *sent_to; /* per task: what it receives from tasks (C7) */
    int               n_segments;
    int               first; /* the number of the first segment */
} partition;

static const est_node_def *node_of(const partition *p, int32_t id)
{
    return est_graph_node(p->graph, id);
}

static bool is_read(const partition *p, int32_t id)
{
    const est_node_def *def = node_of(p, id);

    return def->op->alias && def->n_in == 1 && def->n_control == 0 &&
           node_of(p, def->in[0].node)->op->source == EST_SOURCE_VARIABLE;
}

static bool is_group(const partition *p, int32_t id)
{
    return node_of(p, id)->op == &est_op_no_op;
}

/* A node that waits for a group waits for its members instead: a group of operations at several tasks has no task, and
 * running it would cost a round trip. *flat: the node waited for no group. */
static est_status flatten(const partition *p, est_node_def *def, bool *flat)
{
    est_edges members = { 0 };
    int32_t  *control;

    *flat = true;
    for (int32_t i = 0; i < def->n_control; i++) *flat = *flat && !is_group(p, def->control[i]);
    if (*flat) return EST_OK;
    for (int32_t i = 0; i < def->n_control; i++) {
        const est_node_def *group = node_of(p, def->control[i]);

        if (!is_group(p, group->id)) EST_TRY(est_edges_add(p->arena, &members, (est_edge){ group->id, 0 }));
        for (int32_t m = 0; is_group(p, group->id) && m < group->n_control; m++) {
            EST_TRY(est_edges_add(p->arena, &members, (est_edge){ group->control[m], 0 }));
        }
    }
    control = est_arena_alloc(p->arena, sizeof *control * ((size_t)members.n + 1));
    if (control == NULL) return est_no_memory();
    for (int32_t i = 0; i < members.n; i++) control[i] = members.data[i].node;
    def->control   = control;
    def->n_control = members.n;
    return EST_OK;
}

/* Nested groups take one round per level. */
static est_status flatten_groups(const partition *p)
{
    bool again = true;

    while (again) {
        again = false;
        for (int32_t id = 0; id < p->n; id++) {
            bool flat;

            EST_TRY(flatten(p, est_graph_node(p->graph, id), &flat));
            again = again || !flat;
        }
    }
    return EST_OK;
}

static bool writes_variable(const partition *p, const est_node_def *def, const char *name)
{
    for (int32_t i = 0; i < def->n_in && i < 32; i++) {
        const est_node_def *handle = node_of(p, def->in[i].node);

        if ((def->op->writes & 1u << i) != 0 && handle->op->source == EST_SOURCE_VARIABLE &&
            strcmp(est_node_string(handle, "shared_name"), name) == 0) {
            return true;
        }
    }
    return false;
}

/* The node that increments global_step. -1: none. */
static int32_t find_count(const partition *p)
{
    for (int32_t k = 0; k < p->whole.n; k++) {
        const est_node_def *def = node_of(p, p->whole.nodes[k]);

        if (!def->op->fills_var && writes_variable(p, def, "global_step")) return def->id;
    }
    return -1;
}

/* --- phases ------------------------------------------------------------------------------------------------------- */

/* The first phase in which node `id` can use node `from`. With sync_replicas, results of its own task are sent to an
 * update. */
static int32_t phase_after(const partition *p, int32_t from, int32_t id)
{
    int32_t at = p->task[from], phase = p->phase[from];

    if (at != p->task[id]) return at == EST_HERE || p->task[id] == EST_HERE ? phase + 1 : phase + 2;
    if (at == EST_HERE || p->role[id] != EST_ROLE_UPDATE || p->role[from] == EST_ROLE_UPDATE || is_read(p, from))
        return phase;
    return phase + 2;
}

/* Phases of nodes that have none and whose role is at most `upto`; at other tasks from `first` on. */
static void assign_phases_of(const partition *p, const est_order *order, const est_incoming *in, est_role upto,
                             int32_t first)
{
    for (int32_t k = 0; k < order->n; k++) {
        int32_t id    = order->nodes[k];
        int32_t phase = p->task[id] == EST_HERE ? 0 : first;

        if (p->phase[id] >= 0 || p->role[id] > upto) continue;
        for (int32_t e = in->first[id]; e < in->first[id + 1]; e++) {
            int32_t after = est_is_free(p->graph, in->from[e]) ? 0 : phase_after(p, in->from[e], id);

            if (after > phase) phase = after;
        }
        p->phase[id] = phase;
    }
}

/* Updates first, so that nothing else delays them (C5); late nodes last (C6). */
static void assign_phases(const partition *p)
{
    int32_t last = 1;

    for (int32_t id = 0; id < p->n; id++) p->phase[id] = -1;
    assign_phases_of(p, p->core, &p->in_core, EST_ROLE_UPDATE, 1);
    assign_phases_of(p, &p->whole, &p->in_whole, EST_ROLE_UPDATE, 1);
    for (int32_t id = 0; id < p->n; id++) {
        if (p->task[id] != EST_HERE && p->phase[id] > last) last = p->phase[id];
    }
    assign_phases_of(p, &p->whole, &p->in_whole, EST_ROLE_LATE, last + 2);
}

static est_status assign_pieces(const partition *p)
{
    for (int32_t id = 0; id < p->n; id++)
        p->piece[id] = p->sync_replicas && p->role[id] != EST_ROLE_UPDATE ? EST_READING : 0;
    if (p->remote->whole_phases) return EST_OK;
    return est_partition_early(
        p->arena,
        &(est_partition_phases){ p->core, p->remote->n_tasks, p->task, p->phase, p->in_core, p->remote->direct },
        p->piece);
}

/* --- segments ----------------------------------------------------------------------------------------------------- */

static int32_t find_output(const border *b, est_edge edge)
{
    return est_edges_find(&b->out, edge);
}

/* The segment of a node; n_segments: it is not listed yet. */
static int find_segment(const partition *p, int32_t id)
{
    const est_segment *s = p->segments;
    int                i = 0;

    while (i < p->n_segments &&
           (s[i].task != p->task[id] || s[i].phase != p->phase[id] || s[i].piece != p->piece[id])) {
        i++;
    }
    return i;
}

/* Whether two segments have the same task and phase. */
static bool are_beside(const partition *p, int a, int b)
{
    return p->segments[a].task == p->segments[b].task && p->segments[a].phase == p->segments[b].phase;
}

static void list_piece(partition *p, int32_t phase, int32_t piece)
{
    for (int32_t k = 0; k < p->whole.n; k++) {
        int32_t id = p->whole.nodes[k];
        int     at;

        if (p->task[id] == EST_HERE || p->phase[id] != phase || p->piece[id] != piece || est_is_free(p->graph, id))
            continue;
        at = find_segment(p, id);
        if (at == p->n_segments) {
            p->segments[p->n_segments++] = (est_segment){ .task = p->task[id], .phase = phase, .piece = piece };
        }
        p->segment[id] = at;
        p->segments[at].writes |= node_of(p, id)->op->writes != 0;
        p->segments[at].late |= p->role[id] == EST_ROLE_LATE;
    }
}

/* Segments in the order of their phases; within a phase reading ones, then pieces, then the rest (C2). */
static est_status list_segments(partition *p)
{
    int32_t last = 0;
    size_t  max;

    for (int32_t k = 0; k < p->whole.n; k++) {
        if (p->phase[p->whole.nodes[k]] > last) last = p->phase[p->whole.nodes[k]];
    }
    p->sent_to  = est_arena_alloc(p->arena, sizeof *p->sent_to * ((size_t)p->remote->n_tasks + 1));
    max         = (size_t)(last + 1) * (size_t)p->remote->n_tasks * (EST_PIECES_MAX + 2) + 1;
    p->segments = est_arena_alloc(p->arena, sizeof *p->segments * max);
    p->borders  = est_arena_alloc(p->arena, sizeof *p->borders * max);
    if (p->segments == NULL || p->borders == NULL || p->sent_to == NULL) return est_no_memory();
    for (int32_t id = 0; id < p->n; id++) p->segment[id] = -1;
    for (int32_t phase = 1; phase <= last; phase += 2) {
        list_piece(p, phase, EST_READING);
        for (int32_t piece = 1; piece <= EST_PIECES_MAX; piece++) list_piece(p, phase, piece);
        list_piece(p, phase, 0);
    }
    return EST_OK;
}

static void mark_training(const partition *p)
{
    int32_t count = find_count(p);

    for (int i = 0; i < p->n_segments; i++) {
        est_segment *segment = &p->segments[i];

        segment->trains  = count >= 0;
        segment->counted = segment->writes && count >= 0 && p->segment[count] >= 0 && p->segment[count] != i &&
                           segment->task == p->segments[p->segment[count]].task;
    }
}

/* Whether another segment writes what a node reads before segment `at` of the same task runs. */
static bool is_changed_before(const partition *p, int32_t read, int32_t at)
{
    const char *name = est_node_string(node_of(p, node_of(p, read)->in[0].node), "shared_name");

    for (int32_t k = 0; k < p->whole.n; k++) {
        int32_t writer = p->whole.nodes[k];

        if (p->segment[writer] >= 0 && p->segment[writer] < at && writes_variable(p, node_of(p, writer), name))
            return true;
    }
    return false;
}

/* Whether the value of the edge has to be sent to a user in segment `at` (-1: here) (C3). */
static bool crosses(const partition *p, est_edge edge, int32_t at)
{
    int32_t from = p->segment[edge.node];

    if (est_is_free(p->graph, edge.node) || from == at) return false;
    if (at < 0 || from < 0 || !is_read(p, edge.node)) return true;
    return p->segments[from].task != p->segments[at].task || is_changed_before(p, edge.node, at);
}

/* Keeps C5. */
static est_status add_output(const partition *p, est_edge edge)
{
    if (p->sync_replicas && p->role[edge.node] == EST_ROLE_UPDATE) {
        return est_fail(
            EST_UNIMPLEMENTED,
            "'%s' depends on the result of an update, which is not available within a step of sync_replicas",
            node_of(p, edge.node)->name);
    }
    return est_edges_add(p->arena, &p->borders[p->segment[edge.node]].out, edge);
}

/* C7 */
static est_status add_transfer(const partition *p, est_edge edge, int32_t at)
{
    EST_TRY(est_edges_add(p->arena, &p->borders[p->segment[edge.node]].sent, edge));
    EST_TRY(est_edges_add(p->arena, &p->borders[at].received, edge));
    return est_edges_add(p->arena, &p->sent_to[p->segments[at].task], edge);
}

static est_status find_data_borders(partition *p, const est_node_def *def)
{
    int32_t at = p->segment[def->id];

    for (int32_t i = 0; i < def->n_in; i++) {
        est_edge edge = def->in[i];

        if (!crosses(p, edge, at)) continue;
        if (p->remote->direct && at >= 0 && p->segment[edge.node] >= 0) {
            EST_TRY(add_transfer(p, edge, at));
            continue;
        }
        if (at >= 0) EST_TRY(est_edges_add(p->arena, &p->borders[at].in, edge));
        if (p->segment[edge.node] >= 0) EST_TRY(add_output(p, edge));
    }
    return EST_OK;
}

/* Control edges that cross the border move to the start and finish of the segment. Those from a piece to the rest are
 * implied by the order in which the task runs them (C2). Updates run in any case. */
static est_status find_control_borders(partition *p, est_node_def *def)
{
    int32_t at = p->segment[def->id], kept = 0;

    for (int32_t i = 0; i < def->n_control; i++) {
        int32_t before = def->control[i], from = p->segment[before];

        if (from >= 0 && from != at && p->role[before] != EST_ROLE_UPDATE) {
            EST_TRY(est_edges_add(p->arena, &p->borders[from].targets, (est_edge){ before, 0 }));
        }
        if (at >= 0 && from >= 0 && from != at && are_beside(p, from, at)) continue;
        if (at >= 0 && from != at) {
            EST_TRY(est_edges_add(p->arena, &p->borders[at].after, (est_edge){ before, 0 }));
        } else {
            def->control[kept++] = before;
        }
    }
    def->n_control = kept;
    return EST_OK;
}

/* For the nodes of reading segments, or for all others. */
static est_status find_borders_of(partition *p, const est_order *order, bool reading)
{
    for (int32_t k = 0; k < order->n; k++) {
        est_node_def *def = est_graph_node(p->graph, order->nodes[k]);
        int32_t       at  = p->segment[def->id];

        if ((p->piece[def->id] == EST_READING) != reading) continue;
        EST_TRY(find_data_borders(p, def));
        EST_TRY(find_control_borders(p, def));
        if (at >= 0 && (def->op->writes != 0 || def->n_out == 0)) {
            EST_TRY(est_edges_add(p->arena, &p->borders[at].targets, (est_edge){ def->id, 0 }));
        }
    }
    return EST_OK;
}

static est_status find_borders(partition *p)
{
    EST_TRY(find_borders_of(p, p->core, false));
    EST_TRY(find_borders_of(p, &p->whole, true));
    for (int i = 0; i < p->io->n_fetches; i++) {
        const est_node *node = &p->io->fetches[i];

        if (p->segment[node->id] < 0) continue;
        EST_TRY(add_output(p, (est_edge){ node->id, node->output }));
    }
    for (int i = 0; i < p->io->n_targets; i++) {
        int32_t id = p->io->targets[i].id;

        if (p->segment[id] >= 0 && p->role[id] != EST_ROLE_UPDATE)
            EST_TRY(est_edges_add(p->arena, &p->borders[p->segment[id]].targets, (est_edge){ id, 0 }));
    }
    return EST_OK;
}

/* What comes from and goes to tasks follows what comes from and goes to this process. */
static est_status append_transfers(const partition *p, border *b)
{
    b->n_in  = b->in.n;
    b->n_out = b->out.n;
    for (int32_t i = 0; i < b->received.n; i++) EST_TRY(est_edges_add(p->arena, &b->in, b->received.data[i]));
    for (int32_t i = 0; i < b->sent.n; i++) EST_TRY(est_edges_add(p->arena, &b->out, b->sent.data[i]));
    return EST_OK;
}

/* The number of a transfer in the step; -1: the task does not receive this. */
static int transfer_of(const partition *p, est_edge edge, int task)
{
    int32_t k = est_edges_find(&p->sent_to[task], edge);

    return k < 0 ? -1 : k * p->remote->n_tasks + task;
}

static est_status list_transfers(const partition *p, int at)
{
    const border     *b     = &p->borders[at];
    est_segment      *s     = &p->segments[at];
    int              *from  = est_arena_alloc(p->arena, sizeof *from * ((size_t)b->received.n + 1));
    size_t            max   = (size_t)b->sent.n * (size_t)p->remote->n_tasks + 1;
    est_segment_send *sends = est_arena_alloc(p->arena, sizeof *sends * max);

    if (from == NULL || sends == NULL) return est_no_memory();
    for (int32_t i = 0; i < b->received.n; i++) from[i] = transfer_of(p, b->received.data[i], s->task);
    for (int32_t i = 0; i < b->sent.n; i++) {
        for (int task = 0; task < p->remote->n_tasks; task++) {
            int edge = transfer_of(p, b->sent.data[i], task);

            if (edge >= 0) sends[s->n_sends++] = (est_segment_send){ find_output(b, b->sent.data[i]), task, edge };
        }
    }
    s->edges = from;
    s->sends = sends;
    s->n_in  = b->n_in;
    s->n_out = b->n_out;
    return EST_OK;
}

/* Nodes made by passes may share a name, but a graph that is sent needs unique names. */
static est_status name_apart(est_graph *graph)
{
    est_map    names  = { 0 };
    est_status status = EST_OK;

    for (int32_t id = 0; id < est_graph_size(graph) && status == EST_OK; id++) {
        est_node_def *def = est_graph_node(graph, id);

        if (est_map_get(&names, def->name) != NULL) {
            def->name = est_arena_printf(est_graph_arena(graph), "%s/%" PRId32, def->name, id);
            if (def->name == NULL) status = est_no_memory();
        }
        if (status == EST_OK) status = est_map_put(&names, def->name, &names);
    }
    est_map_clear(&names);
    return status;
}

/* The chief creates dynamic embeddings, with EstFillRowTable. The seed of their rows is the chief's, and all others
 * refer to them by name (C5). Attributes are copied because the original graph shares them. */
static est_status hide_draws(est_graph *graph)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        if (est_graph_node(graph, id)->op == &est_op_fill_row_table) return EST_OK;
    }
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        est_node_def *def = est_graph_node(graph, id);
        est_attr     *own;

        if (!def->op->has_rows || est_node_string(def, "rows_of")[0] != '\0') continue;
        own = est_arena_alloc(est_graph_arena(graph), sizeof *own * (size_t)(def->n_attr + 1));
        if (own == NULL) return est_no_memory();
        memcpy(own, def->attr, sizeof *own * (size_t)def->n_attr);
        for (int32_t i = 0; i < def->n_attr; i++) {
            if (strcmp(own[i].name, "seed") == 0) own[i].i = 0;
            if (strcmp(own[i].name, "distribution") == 0) own[i].i = EST_ROW_UNKNOWN;
        }
        def->attr = own;
    }
    return EST_OK;
}

static est_node *as_nodes(const partition *p, const est_edges *list)
{
    est_node *nodes = est_arena_alloc(p->arena, sizeof *nodes * ((size_t)list->n + 1));

    for (int32_t i = 0; i < list->n && nodes != NULL; i++) {
        nodes[i] = (est_node){ p->graph, list->data[i].node, list->data[i].output };
    }
    return nodes;
}

static est_status make_segment(partition *p, int at)
{
    border *b  = &p->borders[at];
    est_io *io = &p->segments[at].io;

    EST_TRY(append_transfers(p, b));
    EST_TRY(list_transfers(p, at));
    *io = (est_io){
        as_nodes(p, &b->in), as_nodes(p, &b->out), as_nodes(p, &b->targets), b->in.n, b->out.n, b->targets.n
    };
    if (io->feeds == NULL || io->fetches == NULL || io->targets == NULL) return est_no_memory();
    if (p->sync_replicas && p->segments[at].writes) {
        EST_TRY(est_partition_extract(p->core, io, &p->segments[at].graph));
    } else {
        EST_TRY(est_pass_extract_in_order(&p->whole, io, &p->segments[at].graph));
    }
    EST_TRY(hide_draws(p->segments[at].graph));
    return name_apart(p->segments[at].graph);
}

/* --- start and finish nodes --------------------------------------------------------------------------------------- */

static est_node local_value(const partition *p, est_edge edge)
{
    int32_t from = p->segment[edge.node];

    if (from < 0) return (est_node){ p->graph, edge.node, edge.output };
    return est_output(p->borders[from].finish, find_output(&p->borders[from], edge));
}

static int32_t local_control(const partition *p, int32_t before)
{
    return p->segment[before] < 0 ? before : p->borders[p->segment[before]].finish.id;
}

static est_status name_end(const partition *p, est_node end, int at, const char *what)
{
    const est_segment *segment   = &p->segments[at];
    char               piece[24] = "", *name;

    if (segment->piece > 0) snprintf(piece, sizeof piece, "/piece_%d", segment->piece);
    if (segment->piece == EST_READING) snprintf(piece, sizeof piece, "/reading");
    name = est_arena_printf(est_graph_arena(p->graph), "%s/phase_%d%s/%s",
                            p->remote->ops->name(p->remote, segment->task), segment->phase, piece, what);
    if (name == NULL) return est_no_memory();
    est_graph_node(p->graph, end.id)->name = name;
    return EST_OK;
}

/* The inputs of a segment. */
typedef struct sent {
    est_nodes in;
    est_i64s  types;
} sent;

static est_status find_sent(const partition *p, int at, sent *out)
{
    const border *b     = &p->borders[at];
    est_node     *in    = as_nodes(p, &b->in);
    int64_t      *types = est_arena_alloc(p->arena, sizeof *types * ((size_t)b->n_in + 1));

    if (in == NULL || types == NULL) return est_no_memory();
    for (int32_t i = 0; i < b->n_in; i++) {
        in[i]    = local_value(p, b->in.data[i]);
        types[i] = est_node_dtype(in[i]);
    }
    *out = (sent){ { in, b->n_in }, { types, b->n_in } };
    return EST_OK;
}

/* The last place in the program. */
static int32_t last_place(const partition *p)
{
    int32_t last = 0;

    for (int32_t id = 0; id < p->n; id++) {
        if (node_of(p, id)->order > last) last = node_of(p, id)->order;
    }
    return last;
}

/* Whether segment `at` waits for the earlier segment i (C2, C6). */
static bool waits_for(const partition *p, int at, int i)
{
    return p->segments[i].task == p->segments[at].task || (p->segments[at].late && !p->segments[i].late);
}

static est_status add_start(partition *p, int at, const sent *s)
{
    border  *b     = &p->borders[at];
    est_node start = est_build(p->graph, &est_op_start, s->in,
                               EST_ATTRS(est_attr_types("T", s->types), est_attr_int("segment", p->first + at)));

    for (int32_t i = 0; i < b->after.n; i++) {
        start = est_after(start, (est_node){ p->graph, local_control(p, b->after.data[i].node), 0 });
    }
    for (int i = 0; i < at; i++) {
        if (!waits_for(p, at, i)) continue;
        start = est_after(start, are_beside(p, i, at) ? p->borders[i].start : p->borders[i].finish);
    }
    for (int32_t i = 0; i < b->received.n; i++) { /* C7 */
        start = est_after(start, p->borders[p->segment[b->received.data[i].node]].start);
    }
    EST_TRY(est_graph_status(p->graph));
    /* as soon as possible; a late one waits for others, so local work comes first */
    est_graph_node(p->graph, start.id)->order = p->segments[at].late ? last_place(p) : 0;
    b->start                                  = start;
    return name_end(p, start, at, "start");
}

static est_status add_finish(partition *p, int at, const sent *s)
{
    border    *b      = &p->borders[at];
    int64_t   *types  = est_arena_alloc(p->arena, sizeof *types * ((size_t)b->n_out + 1));
    est_shape *shapes = est_arena_alloc(p->arena, sizeof *shapes * ((size_t)b->n_out + 1));

    if (types == NULL || shapes == NULL) return est_no_memory();
    for (int32_t i = 0; i < b->n_out; i++) {
        const est_node_def *def = node_of(p, b->out.data[i].node);

        types[i]  = def->dtype[b->out.data[i].output];
        shapes[i] = def->shape[b->out.data[i].output];
    }
    b->finish = est_build(
        p->graph, &est_op_finish, s->in,
        EST_ATTRS(est_attr_types("Tsent", s->types), est_attr_types("T", (est_i64s){ types, b->n_out }),
                  est_attr_shapes("shapes", (est_shapes){ shapes, b->n_out }), est_attr_int("segment", p->first + at)));
    b->finish = est_after(b->finish, b->start);
    for (int i = 0; i < at; i++) { /* C2 */
        if (are_beside(p, i, at)) b->finish = est_after(b->finish, p->borders[i].finish);
    }
    for (int32_t i = 0; i < b->received.n; i++) { /* C7 */
        b->finish = est_after(b->finish, p->borders[p->segment[b->received.data[i].node]].finish);
    }
    EST_TRY(est_graph_status(p->graph));
    est_graph_node(p->graph, b->finish.id)->order = last_place(p); /* moved up to its first user by need_finish */
    return name_end(p, b->finish, at, "finish");
}

/* Moves the finish of a segment up to its first user here. */
static void need_finish(const partition *p, int32_t finish, const est_node_def *user)
{
    est_node_def *def = est_graph_node(p->graph, finish);

    if (user->order < def->order) def->order = user->order;
}

static void redirect(const partition *p)
{
    for (int32_t k = 0; k < p->whole.n; k++) {
        est_node_def *def = est_graph_node(p->graph, p->whole.nodes[k]);

        if (p->segment[def->id] >= 0) continue;
        for (int32_t i = 0; i < def->n_in; i++) {
            est_node now;

            if (p->segment[def->in[i].node] < 0) continue;
            now        = local_value(p, def->in[i]);
            def->in[i] = (est_edge){ now.id, now.output };
            need_finish(p, now.id, def);
        }
        for (int32_t i = 0; i < def->n_control; i++) {
            if (p->segment[def->control[i]] < 0) continue;
            def->control[i] = local_control(p, def->control[i]);
            need_finish(p, def->control[i], def);
        }
    }
    for (int i = 0; i < p->io->n_fetches; i++) {
        est_node *node = &p->io->fetches[i];

        if (p->segment[node->id] >= 0) *node = local_value(p, (est_edge){ node->id, node->output });
    }
    for (int i = 0; i < p->io->n_targets; i++) {
        p->io->targets[i] = (est_node){ p->graph, local_control(p, p->io->targets[i].id), 0 };
    }
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static est_status make_partition(partition *p)
{
    EST_TRY(flatten_groups(p));
    EST_TRY(est_order_make(p->graph, p->io, p->arena, &p->whole));
    EST_TRY(est_order_incoming(&p->whole, p->arena, &p->in_whole));
    p->core          = &p->whole;
    p->in_core       = p->in_whole;
    p->sync_replicas = p->remote->sync_replicas && find_count(p) >= 0;
    if (p->sync_replicas) {
        EST_TRY(est_partition_core(&p->whole, p->arena, &p->apart));
        p->core = &p->apart;
        EST_TRY(est_order_incoming(p->core, p->arena, &p->in_core));
        est_partition_roles(&p->whole, &p->in_whole, p->core, p->role);
    }
    EST_TRY(est_partition_place(&(est_partition_step){ p->graph, p->io, p->store, p->remote, &p->whole, p->n },
                                !p->sync_replicas, p->arena, p->task));
    assign_phases(p);
    EST_TRY(assign_pieces(p));
    EST_TRY(list_segments(p));
    if (p->n_segments == 0) return EST_OK;
    mark_training(p);
    EST_TRY(find_borders(p));
    for (int i = 0; i < p->n_segments; i++) EST_TRY(make_segment(p, i));
    for (int i = 0; i < p->n_segments; i++) {
        sent s;

        EST_TRY(find_sent(p, i, &s));
        EST_TRY(add_start(p, i, &s));
        EST_TRY(add_finish(p, i, &s));
    }
    redirect(p);
    return EST_OK;
}

est_status est_pass_partition(est_graph *graph, est_io *io, const est_store *store, const est_remote *remote, int first,
                              est_arena *arena, est_segment **segments, int *n_segments)
{
    partition  p = { .graph  = graph,
                     .io     = io,
                     .store  = store,
                     .remote = remote,
                     .first  = first,
                     .arena  = arena,
                     .n      = est_graph_size(graph) };
    size_t     n = (size_t)p.n + 1;
    est_status status;

    p.task    = est_arena_alloc(arena, sizeof *p.task * n);
    p.phase   = est_arena_alloc(arena, sizeof *p.phase * n);
    p.piece   = est_arena_alloc(arena, sizeof *p.piece * n);
    p.segment = est_arena_alloc(arena, sizeof *p.segment * n);
    p.role    = est_arena_alloc(arena, sizeof *p.role * n);
    status    = p.task != NULL && p.phase != NULL && p.piece != NULL && p.segment != NULL && p.role != NULL
                    ? make_partition(&p)
                    : est_no_memory();
    est_order_clear(&p.whole);
    est_order_clear(&p.apart);
    for (int i = 0; i < p.n_segments && status != EST_OK; i++) est_graph_free(p.segments[i].graph);
    EST_TRY(status);
    *segments   = p.segments;
    *n_segments = p.n_segments;
    return EST_OK;
}
