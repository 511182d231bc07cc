/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the nodes of a step run.
 *
 * A topological order of data and control edges, of edges that keep reads of a variable before later writes (P2), and
 * otherwise in the order of the program, except that an update runs as soon as it can: its gradient is warm then, and
 * its memory is free for the rest of the backward pass.
 *
 * On a device that runs by itself alike operations are put together instead, because the device runs them as one
 * (cuda/batch.cuh): level by level, as far as each is from the inputs, and by op within a level. Updates of a kind come
 * together, when the last of them can; so do sums of rows, all of them right before the updates. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "cuda/launchers.h"
#include "ops/ops.h"
#include "runtime/pass.h"

typedef struct edge_list {
    int32_t *from, *to;
    int32_t  n, max;
} edge_list;

/* A live node that takes a variable as an input, in a list of such. */
typedef struct touch {
    int32_t node;
    int32_t next; /* -1: the last */
    bool    writes;
} touch;

typedef struct orderer {
    est_graph    *g;
    const est_io *io;
    est_arena    *arena;
    int32_t       n;
    bool         *live;
    edge_list     edges; /* every edge, data, control and hazard */
    int32_t      *var;   /* per node: the variable whose memory its output 0 is (the id of its first handle), or -1 */
    touch        *touches;
    int32_t *first_touch; /* per variable (the id of its first handle): its list in `touches`, in the order of ids */
    int32_t *last_touch;
    int32_t *after; /* scratch: nodes that come after one writer are marked with its id + 1 */
    int32_t *stack;
    int32_t *first, *next; /* edges by source: heads and links */
    int64_t *key;          /* per node: the least of those that are ready comes first */
} orderer;

static est_status add_edge(edge_list *e, int32_t from, int32_t to)
{
    if (e->n == e->max) {
        int32_t  max = e->max == 0 ? 256 : 2 * e->max;
        int32_t *f   = est_realloc(e->from, sizeof *f * (size_t)max);
        if (f != NULL) e->from = f;
        int32_t *t = est_realloc(e->to, sizeof *t * (size_t)max);
        if (t != NULL) e->to = t;
        if (f == NULL || t == NULL) return est_no_memory();
        e->max = max;
    }
    e->from[e->n] = from;
    e->to[e->n++] = to;
    return EST_OK;
}

static est_status mark_live(orderer *o)
{
    int32_t depth = 0;

    for (int i = 0; i < o->io->n_fetches + o->io->n_targets; i++) {
        int32_t id = i < o->io->n_fetches ? o->io->fetches[i].id : o->io->targets[i - o->io->n_fetches].id;
        if (!o->live[id]) {
            o->live[id]       = true;
            o->stack[depth++] = id;
        }
    }
    for (int i = 0; i < o->io->n_feeds; i++) o->live[o->io->feeds[i].id] = true;
    while (depth > 0) {
        const est_node_def *def = est_graph_node(o->g, o->stack[--depth]);
        for (int32_t i = 0; i < def->n_in + def->n_control; i++) {
            int32_t from = i < def->n_in ? def->in[i].node : def->control[i - def->n_in];
            EST_TRY(add_edge(&o->edges, from, def->id));
            if (!o->live[from]) {
                o->live[from]     = true;
                o->stack[depth++] = from;
            }
        }
    }
    return EST_OK;
}

/* Links edges by source, so that paths can be walked; hazards found later are linked as they are added. */
static void link_edges(orderer *o, int32_t begin)
{
    for (int32_t e = begin; e < o->edges.n; e++) {
        o->next[e]                 = o->first[o->edges.from[e]];
        o->first[o->edges.from[e]] = e;
    }
}

static bool is_after(const orderer *o, int32_t id, int32_t writer)
{
    return o->after[id] == writer + 1;
}

static void mark_after(orderer *o, int32_t writer)
{
    int32_t depth = 0;

    o->after[writer]  = writer + 1;
    o->stack[depth++] = writer;
    while (depth > 0) {
        for (int32_t e = o->first[o->stack[--depth]]; e >= 0; e = o->next[e]) {
            int32_t to = o->edges.to[e];
            if (!is_after(o, to, writer)) {
                o->after[to]      = writer + 1;
                o->stack[depth++] = to;
            }
        }
    }
}

/* Which variable's memory each node hands on: handles themselves, reads of them, and aliases of those. */
static est_status trace_variables(orderer *o, const int32_t *by_order)
{
    est_map    first_handle = { 0 };
    est_status status       = EST_OK;

    for (int32_t k = 0; k < o->n && status == EST_OK; k++) {
        const est_node_def *def = est_graph_node(o->g, by_order[k]);
        o->var[def->id]         = -1;
        if (!o->live[def->id]) continue;
        if (def->op->source == EST_SOURCE_VARIABLE) {
            const char *name  = est_node_string(def, "shared_name");
            uintptr_t   known = (uintptr_t)est_map_get(&first_handle, name); /* id + 1 */
            o->var[def->id]   = known != 0 ? (int32_t)known - 1 : def->id;
            if (known == 0) status = est_map_put(&first_handle, name, (void *)(uintptr_t)(def->id + 1));
        } else if (def->op->alias && def->n_in > 0) {
            o->var[def->id] = o->var[def->in[0].node];
        }
    }
    est_map_clear(&first_handle);
    return status;
}

static bool writes(const est_node_def *def, int32_t input)
{
    return input < 32 && (def->op->writes & 1u << input) != 0;
}

/* Lists the nodes that touch each variable. */
static est_status list_touches(orderer *o)
{
    int32_t n = 0;

    o->touches     = est_arena_alloc(o->arena, sizeof *o->touches * ((size_t)o->edges.n + 1));
    o->first_touch = est_arena_alloc(o->arena, sizeof *o->first_touch * ((size_t)o->n + 1));
    o->last_touch  = est_arena_alloc(o->arena, sizeof *o->last_touch * ((size_t)o->n + 1));
    if (o->touches == NULL || o->first_touch == NULL || o->last_touch == NULL) return est_no_memory();
    for (int32_t id = 0; id < o->n; id++) o->first_touch[id] = o->last_touch[id] = -1;
    for (int32_t id = 0; id < o->n; id++) {
        const est_node_def *def = est_graph_node(o->g, id);

        for (int32_t i = 0; o->live[id] && i < def->n_in; i++) {
            int32_t var = o->var[def->in[i].node], last = var >= 0 ? o->last_touch[var] : -1;

            if (var < 0) continue;
            if (last < 0 || o->touches[last].node != id) {
                *(last < 0 ? &o->first_touch[var] : &o->touches[last].next) = n;
                o->touches[n]                                               = (touch){ id, -1, false };
                last = o->last_touch[var] = n++;
            }
            o->touches[last].writes = o->touches[last].writes || writes(def, i);
        }
    }
    return EST_OK;
}

static est_status add_hazard(orderer *o, int32_t from, int32_t to)
{
    int32_t begin = o->edges.n, max = o->edges.max;

    EST_TRY(add_edge(&o->edges, from, to));
    if (o->edges.max > max) {
        int32_t *next = est_realloc(o->next, sizeof *next * (size_t)(o->edges.max + 1));
        if (next == NULL) return est_no_memory();
        o->next = next;
    }
    link_edges(o, begin);
    return EST_OK;
}

/* Writers of one variable run in the order of the program: nothing made earlier can wait for one made later. */
static est_status order_after_earlier_writers(orderer *o, const est_node_def *writer, int32_t var)
{
    for (int32_t t = o->first_touch[var]; t >= 0; t = o->touches[t].next) {
        const touch *other = &o->touches[t];

        if (!other->writes || est_graph_node(o->g, other->node)->order >= writer->order) continue;
        EST_TRY(add_hazard(o, other->node, writer->id));
    }
    return EST_OK;
}

/* P2 for one writer of one variable: what reads the variable and does not come after the writer comes before it. */
static est_status order_after_readers(orderer *o, const est_node_def *writer, int32_t var)
{
    mark_after(o, writer->id);
    for (int32_t t = o->first_touch[var]; t >= 0; t = o->touches[t].next) {
        const touch *other = &o->touches[t];

        if (other->writes || is_after(o, other->node, writer->id)) continue;
        EST_TRY(add_hazard(o, other->node, writer->id));
    }
    return EST_OK;
}

/* Writers first: whether a reader comes after a writer may depend on which writers that one comes after. */
static est_status order_hazards(orderer *o, const int32_t *by_order)
{
    static est_status (*const rule[2])(orderer *, const est_node_def *, int32_t) = { order_after_earlier_writers,
                                                                                     order_after_readers };

    for (int32_t k = 0; k < 2 * o->n; k++) {
        const est_node_def *def = est_graph_node(o->g, by_order[k % o->n]);
        for (int32_t i = 0; o->live[def->id] && i < def->n_in; i++) {
            if (writes(def, i)) EST_TRY(rule[k / o->n](o, def, o->var[def->in[i].node]));
        }
    }
    return EST_OK;
}

/* --- a heap of ready nodes, smallest key first -------------------------------------------------------------------- */

typedef struct ready {
    int64_t key;
    int32_t id;
} ready;

static void heap_push(ready *heap, int32_t *n, ready r)
{
    int32_t i = (*n)++;

    while (i > 0 && heap[(i - 1) / 2].key > r.key) {
        heap[i] = heap[(i - 1) / 2];
        i       = (i - 1) / 2;
    }
    heap[i] = r;
}

static ready heap_pop(ready *heap, int32_t *n)
{
    ready   top = heap[0], last = heap[--*n];
    int32_t i = 0;

    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= *n) break;
        if (child + 1 < *n && heap[child + 1].key < heap[child].key) child++;
        if (heap[child].key >= last.key) break;
        heap[i] = heap[child];
        i       = child;
    }
    heap[i] = last;
    return top;
}

static int64_t key_of(const est_node_def *def)
{
    int64_t key = ((int64_t)def->order << 20) + def->id;

    return def->op->writes != 0 ? key - ((int64_t)1 << 60) : key; /* updates as soon as they can */
}

static est_status sort(const orderer *o, int32_t *missing, ready *heap, est_order *out)
{
    int32_t n_heap = 0, n_live = 0;

    memset(missing, 0, sizeof *missing * (size_t)o->n);
    for (int32_t e = 0; e < o->edges.n; e++) missing[o->edges.to[e]]++;
    for (int32_t id = 0; id < o->n; id++) {
        n_live += o->live[id];
        if (o->live[id] && missing[id] == 0) heap_push(heap, &n_heap, (ready){ o->key[id], id });
    }
    while (n_heap > 0) {
        int32_t id           = heap_pop(heap, &n_heap).id;
        out->nodes[out->n++] = id;
        for (int32_t e = o->first[id]; e >= 0; e = o->next[e]) {
            int32_t to = o->edges.to[e];
            if (--missing[to] == 0) heap_push(heap, &n_heap, (ready){ o->key[to], to });
        }
    }
    if (out->n == n_live) return EST_OK;
    return est_fail(EST_INTERNAL, "the step has a cycle of %d nodes", (int)(n_live - out->n));
}

/* --- alike operations together ------------------------------------------------------------------------------------ */

typedef struct ranked {
    const est_node_def *def;
    int32_t             level;
} ranked;

/* Of a level updates come last, and what makes the sums of rows for them right before. */
static int turn_of(const est_op *op)
{
    return op->writes != 0 ? 2 : op->shrinks ? 1 : 0;
}

/* What a device launches; lookups of all kinds are next to each other there (cuda/launchers.def). */
static int launcher_of(const est_op *op)
{
    return op->cuda != NULL ? op->cuda[0].launch : 0;
}

static bool computes(const est_op *op)
{
    return op->source == EST_SOURCE_NONE && !op->alias;
}

/* What is put together whatever its level: sums of rows are one kind, all but those that go into the update; and what a
 * device launches as one, as dense and sparse updates of a rule. 0: by level. */
static int kind_of(const est_op *op)
{
    if (op->writes == 0) return op->shrinks ? 1 : 0;
    return 2 + 2 * launcher_of(op) + (op->update->sorted != 0);
}

#define KINDS (2 + 2 * EST_LAUNCH_COUNT + 2)

static int alike_first(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    bool          x_computes = computes(x->def->op), y_computes = computes(y->def->op);
    int           x_launcher = launcher_of(x->def->op), y_launcher = launcher_of(y->def->op);
    int           x_turn = turn_of(x->def->op), y_turn = turn_of(y->def->op);
    int           names  = strcmp(x->def->op->name, y->def->op->name);
    int           x_kind = kind_of(x->def->op), y_kind = kind_of(y->def->op);

    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x_computes != y_computes) return y_computes ? -1 : 1; /* what others wait for without a launch */
    if (x_turn != y_turn) return x_turn < y_turn ? -1 : 1;
    if (x_kind != y_kind) return x_kind < y_kind ? -1 : 1;
    if (x_launcher != y_launcher) return x_launcher < y_launcher ? -1 : 1;
    if (names != 0) return names;
    if (x->def->order != y->def->order) return x->def->order < y->def->order ? -1 : 1;
    return (x->def->id > y->def->id) - (x->def->id < y->def->id);
}

/* A kind is at the level of the last of them. */
static void join_kinds(ranked *all, int32_t n)
{
    int32_t last[KINDS] = { 0 };

    for (int32_t i = 0; i < n; i++) {
        int kind = kind_of(all[i].def->op);

        if (kind > 0 && last[kind] < all[i].level) last[kind] = all[i].level;
    }
    for (int32_t i = 0; i < n; i++) {
        int kind = kind_of(all[i].def->op);

        if (kind > 0) all[i].level = last[kind];
    }
}

/* Makes keys of levels; `order` is one in which producers come first. */
static est_status rank_by_level(const orderer *o, const est_order *order)
{
    ranked  *all   = est_arena_alloc(o->arena, sizeof *all * ((size_t)o->n + 1));
    int32_t *level = est_arena_alloc(o->arena, sizeof *level * ((size_t)o->n + 1));

    if (all == NULL || level == NULL) return est_no_memory();
    memset(level, 0, sizeof *level * ((size_t)o->n + 1));
    for (int32_t k = 0; k < order->n; k++) {
        const est_node_def *def  = est_graph_node(o->g, order->nodes[k]);
        bool                runs = computes(def->op);

        all[k] = (ranked){ def, level[def->id] };
        for (int32_t e = o->first[def->id]; e >= 0; e = o->next[e]) {
            int32_t to = o->edges.to[e];
            if (level[to] < level[def->id] + runs) level[to] = level[def->id] + runs;
        }
    }
    join_kinds(all, order->n);
    qsort(all, (size_t)order->n, sizeof *all, alike_first);
    for (int32_t k = 0; k < order->n; k++) o->key[all[k].def->id] = k;
    return EST_OK;
}

/* Nodes by their place in the program, so that producers come before users also where passes added nodes. */
static void sort_by_order(const orderer *o, int32_t *by_order, int32_t *count, int32_t max_order)
{
    for (int32_t id = 0; id < o->n; id++) count[est_graph_node(o->g, id)->order + 1]++;
    for (int32_t i = 0; i < max_order + 1; i++) count[i + 1] += count[i];
    for (int32_t id = 0; id < o->n; id++) by_order[count[est_graph_node(o->g, id)->order]++] = id;
}

static est_status run_order(orderer *o, bool alike, est_order *out)
{
    size_t   n         = (size_t)o->n + 1;
    int32_t  max_order = 0;
    int32_t *by_order, *missing, *count;
    ready   *heap;

    for (int32_t id = 0; id < o->n; id++) {
        int32_t order = est_graph_node(o->g, id)->order;
        if (order > max_order) max_order = order;
    }
    by_order = est_arena_alloc(o->arena, sizeof *by_order * n);
    missing  = est_arena_alloc(o->arena, sizeof *missing * n);
    count    = est_arena_alloc(o->arena, sizeof *count * (size_t)(max_order + 3));
    heap     = est_arena_alloc(o->arena, sizeof *heap * n);
    o->key   = est_arena_alloc(o->arena, sizeof *o->key * n);
    if (by_order == NULL || missing == NULL || count == NULL || heap == NULL || o->key == NULL) return est_no_memory();
    EST_TRY(mark_live(o));
    o->next = est_alloc(sizeof *o->next * (size_t)(o->edges.max + 1));
    if (o->next == NULL) return est_no_memory();
    for (int32_t i = 0; i < o->n; i++) o->first[i] = -1;
    link_edges(o, 0);
    sort_by_order(o, by_order, count, max_order);
    EST_TRY(trace_variables(o, by_order));
    EST_TRY(list_touches(o));
    EST_TRY(order_hazards(o, by_order));
    for (int32_t id = 0; id < o->n; id++) o->key[id] = key_of(est_graph_node(o->g, id));
    EST_TRY(sort(o, missing, heap, out));
    if (!alike) return EST_OK;
    EST_TRY(rank_by_level(o, out));
    out->n = 0;
    return sort(o, missing, heap, out);
}

static est_status make(est_graph *graph, const est_io *io, est_arena *arena, bool alike, est_order *out)
{
    orderer    o = { .g = graph, .io = io, .arena = arena, .n = est_graph_size(graph) };
    size_t     n = (size_t)o.n + 1;
    est_status status;

    o.live  = est_zalloc(sizeof *o.live * n);
    o.var   = est_zalloc(sizeof *o.var * n);
    o.after = est_zalloc(sizeof *o.after * n);
    o.stack = est_zalloc(sizeof *o.stack * n);
    o.first = est_zalloc(sizeof *o.first * n);
    *out    = (est_order){ .graph = graph, .nodes = est_arena_alloc(arena, sizeof *out->nodes * n) };
    if (o.live == NULL || o.var == NULL || o.after == NULL || o.stack == NULL || o.first == NULL ||
        out->nodes == NULL) {
        status = est_no_memory();
    } else {
        status = run_order(&o, alike, out);
    }
    est_free(o.live);
    est_free(o.var);
    est_free(o.after);
    est_free(o.stack);
    est_free(o.first);
    est_free(o.next);
    out->edge_from = o.edges.from;
    out->edge_to   = o.edges.to;
    out->n_edges   = o.edges.n;
    return status;
}

est_status est_order_make(est_graph *graph, const est_io *io, est_arena *arena, est_order *out)
{
    return make(graph, io, arena, false, out);
}

est_status est_order_make_alike(est_graph *graph, const est_io *io, est_arena *arena, est_order *out)
{
    return make(graph, io, arena, true, out);
}

void est_order_clear(est_order *order)
{
    est_free(order->edge_from);
    est_free(order->edge_to);
}

est_status est_order_incoming(const est_order *order, est_arena *arena, est_incoming *out)
{
    int32_t  n     = est_graph_size(order->graph);
    int32_t *first = est_arena_alloc(arena, sizeof *first * ((size_t)n + 2));
    int32_t *from  = est_arena_alloc(arena, sizeof *from * ((size_t)order->n_edges + 1));

    if (first == NULL || from == NULL) return est_no_memory();
    for (int32_t e = 0; e < order->n_edges; e++) first[order->edge_to[e] + 2]++;
    for (int32_t i = 1; i < n + 2; i++) first[i] += first[i - 1];
    for (int32_t e = 0; e < order->n_edges; e++) from[first[order->edge_to[e] + 1]++] = order->edge_from[e];
    *out = (est_incoming){ first, from };
    return EST_OK;
}
