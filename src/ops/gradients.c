/* SPDX-License-Identifier: Apache-2.0
 *
 * Reverse-mode differentiation: gradients are more graph.
 *
 * Nodes are visited from y backwards in id order, which is a reverse topological order. Each node's gradient function
 * maps the gradients of its outputs to those of its inputs. Several contributions to one tensor are added (AddN),
 * sparse ones are concatenated, and a mix of both is made dense; a read of a variable passes all on as they are. Only
 * nodes that lead from wrt to y are visited.
 *
 * Where a function of the program builds gradients (est_custom_gradient), the walk goes on at its x, whatever led to
 * the copies. Those of one call follow each other: all have been visited at the first of them. */
#include <string.h>

#include "base/argument.h"
#include "ops/ops.h"
#include "tensor/shape.h"

/* Contributions to one output of one node, as a list in the arena. */
typedef struct flow {
    est_gradient g;
    struct flow *next;
} flow;

typedef struct walk {
    est_graph *g;
    est_arena *arena; /* freed at the end of the walk */
    int32_t    last;  /* nodes after y are ignored */
    bool      *leads; /* per node: it lies on a path from wrt */
    flow    ***flows; /* per node, per output */

    const est_own_gradient **own; /* per node: what it is a copy for, or NULL */
} walk;

static est_status mark_own(walk *w)
{
    w->own = est_arena_alloc(w->arena, sizeof(est_own_gradient *) * (size_t)(w->last + 1));
    if (w->own == NULL) return est_no_memory();
    for (const est_own_gradient *o = est_graph_own_gradients(w->g); o != NULL; o = o->next) {
        for (int32_t i = o->first; i < o->first + o->n_y && i <= w->last; i++) w->own[i] = o;
    }
    return EST_OK;
}

/* Whether something that the gradient of a node goes on to lies on a path from wrt. */
static bool is_led_to(const walk *w, const est_node_def *def)
{
    const est_own_gradient *own = w->own[def->id];
    const est_edge         *in  = own != NULL ? own->x : def->in;
    int32_t                 n   = own != NULL ? own->n_x : def->n_in;

    for (int32_t i = 0; i < n; i++) {
        if (w->leads[in[i].node]) return true;
    }
    return false;
}

static est_status mark_paths(walk *w, const est_node *wrt, int n)
{
    w->leads = est_arena_alloc(w->arena, sizeof *w->leads * (size_t)(w->last + 1));
    w->flows = est_arena_alloc(w->arena, sizeof *w->flows * (size_t)(w->last + 1));
    if (w->leads == NULL || w->flows == NULL) return est_no_memory();
    EST_TRY(mark_own(w));
    for (int i = 0; i < n; i++) {
        if (wrt[i].graph == w->g && wrt[i].id >= 0 && wrt[i].id <= w->last) w->leads[wrt[i].id] = true;
    }
    for (int32_t id = 0; id <= w->last; id++) {
        const est_node_def *def = est_graph_node(w->g, id);
        w->leads[id]            = w->leads[id] || is_led_to(w, def);
        w->flows[id]            = est_arena_alloc(w->arena, sizeof **w->flows * (size_t)(def->n_out + 1));
        if (w->flows[id] == NULL) return est_no_memory();
    }
    return EST_OK;
}

static void add_flow(walk *w, est_edge to, est_gradient g)
{
    flow *f = est_arena_alloc(w->arena, sizeof *f);

    if (f == NULL) {
        (void)est_graph_poison(w->g, est_no_memory());
        return;
    }
    f->g                         = g;
    f->next                      = w->flows[to.node][to.output];
    w->flows[to.node][to.output] = f;
}

/* Rows of the tensor `like`, scattered into a dense one. */
static est_node make_dense(est_gradient g, est_node like)
{
    est_node rows = est_strided_slice(est_shape_of(like), EST_I64S(0), EST_I64S(1), EST_I64S(1),
                                      (est_strided_slice_options){ .shrink_axis_mask = 1 });

    return est_unsorted_segment_sum(g.values, g.indices, rows);
}

static est_gradient concat_slices(const flow *flows, int n, est_arena *arena)
{
    est_node   *values  = est_arena_alloc(arena, sizeof *values * (size_t)n);
    est_node   *indices = est_arena_alloc(arena, sizeof *indices * (size_t)n);
    const flow *f       = flows;
    bool        same    = true;

    for (const flow *k = flows; k != NULL; k = k->next) {
        same = same && est_node_dtype(k->g.indices) == est_node_dtype(flows->g.indices);
    }
    if (values == NULL || indices == NULL) return (est_gradient){ 0 };
    for (int i = 0; i < n; i++, f = f->next) { /* the newest is of the first lookup */
        values[i]  = f->g.values;
        indices[i] = same ? f->g.indices : est_cast(f->g.indices, EST_I64);
    }
    return (est_gradient){ est_concat((est_nodes){ values, n }, 0), est_concat((est_nodes){ indices, n }, 0) };
}

/* The sum of all contributions to one output; values.graph is NULL when there are none. */
static est_gradient collect(walk *w, int32_t id, int32_t output, bool may_be_sparse)
{
    const flow *flows = w->flows[id][output];
    est_node    like  = { w->g, id, output };
    est_node   *parts;
    int         n = 0, sparse = 0, i;

    for (const flow *f = flows; f != NULL; f = f->next) {
        n++;
        sparse += f->g.indices.graph != NULL;
    }
    if (n == 0) return (est_gradient){ 0 };
    if (n == 1 && (sparse == 0 || may_be_sparse)) return flows->g;
    if (sparse == n && may_be_sparse) return concat_slices(flows, n, w->arena);
    parts = est_arena_alloc(w->arena, sizeof *parts * (size_t)n);
    if (parts == NULL) return (est_gradient){ 0 };
    i = n; /* the list has the newest first: add in order of creation */
    for (const flow *f = flows; f != NULL; f = f->next) {
        parts[--i] = f->g.indices.graph != NULL ? make_dense(f->g, like) : f->g.values;
    }
    return (est_gradient){ .values = n == 1 ? parts[0] : est_add_n((est_nodes){ parts, n }) };
}

/* Each contribution to the output of a node as one to its input, in the same order. */
static void pass_on(walk *w, const est_node_def *def)
{
    const flow **all, *f;
    int          n = 0;

    for (f = w->flows[def->id][0]; f != NULL; f = f->next) n++;
    all = est_arena_alloc(w->arena, sizeof *all * (size_t)(n + 1));
    if (all == NULL) {
        (void)est_graph_poison(w->g, est_no_memory());
        return;
    }
    f = w->flows[def->id][0];
    for (int i = 0; i < n; i++, f = f->next) all[i] = f;
    for (int i = n - 1; i >= 0; i--) add_flow(w, def->in[0], all[i]->g);
}

static bool has_rows(const flow *f)
{
    while (f != NULL && f->g.indices.graph == NULL) f = f->next;
    return f != NULL;
}

static void step_back(walk *w, int32_t id)
{
    const est_node_def *def  = est_graph_node(w->g, id);
    size_t              n_in = (size_t)def->n_in + 1, n_out = (size_t)def->n_out + 1;
    est_node           *in   = est_arena_alloc(w->arena, sizeof *in * n_in);
    est_node           *out  = est_arena_alloc(w->arena, sizeof *out * n_out);
    est_node           *dout = est_arena_alloc(w->arena, sizeof *dout * n_out);
    est_gradient       *din  = est_arena_alloc(w->arena, sizeof *din * n_in);
    bool                any  = false;

    if (in == NULL || out == NULL || dout == NULL || din == NULL) {
        (void)est_graph_poison(w->g, est_no_memory());
        return;
    }
    for (int32_t i = 0; i < def->n_out; i++) any = any || w->flows[id][i] != NULL;
    if (!any || def->op->grad == NULL) return;
    if (def->op->passes_rows && has_rows(w->flows[id][0])) {
        if (w->leads[def->in[0].node]) pass_on(w, def);
        return;
    }
    for (int32_t i = 0; i < def->n_out; i++) {
        dout[i] = collect(w, id, i, false).values;
        out[i]  = (est_node){ w->g, id, i };
    }
    for (int32_t i = 0; i < def->n_in; i++) in[i] = (est_node){ w->g, def->in[i].node, def->in[i].output };
    def->op->grad(&(est_grad){ def, def->n_in, def->n_out, in, out, dout, din });
    for (int32_t i = 0; i < def->n_in; i++) {
        if (din[i].values.graph != NULL && w->leads[def->in[i].node]) add_flow(w, def->in[i], din[i]);
    }
}

/* Whether values could be the gradient of x, or rows of it where there are indices. */
static bool fits(const est_gradient *g, est_shape x)
{
    const est_shape *values = est_node_shape(g->values);

    if (g->indices.graph != NULL) {
        if (x.rank == 0 || values->rank == 0) return false;
        x.dim[0] = -1;
    }
    return est_shape_compatible(&x, values);
}

static bool is_of(const est_graph *g, est_node node)
{
    return node.graph == g && est_def(node) != NULL;
}

/* What a function of the program gave for x[i]. The handle of a variable has the variable's shape. */
static est_status check_own(const est_gradient *g, est_node x, int i)
{
    bool      rows = g->indices.graph != NULL;
    est_dtype want = est_node_dtype(x) == EST_RESOURCE ? est_variable_dtype(x) : est_node_dtype(x);
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (!is_of(x.graph, g->values) || (rows && !is_of(x.graph, g->indices))) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_custom_gradient: the gradient for x[%d] ('%s') is not a node of the graph", i,
                        est_node_name(x));
    }
    if (est_node_dtype(g->values) != want) {
        return est_fail(EST_INVALID_ARGUMENT, "est_custom_gradient: the gradient for x[%d] ('%s'), %s, is %s", i,
                        est_node_name(x), est_dtype_name(want), est_dtype_name(est_node_dtype(g->values)));
    }
    if (rows && est_node_dtype(g->indices) != EST_I32 && est_node_dtype(g->indices) != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_custom_gradient: the rows of the gradient for x[%d] ('%s') are numbered by %s", i,
                        est_node_name(x), est_dtype_name(est_node_dtype(g->indices)));
    }
    if (!fits(g, *est_node_shape(x))) {
        return est_fail(
            EST_INVALID_ARGUMENT, "est_custom_gradient: the gradient for x[%d] ('%s'), of shape %s, has the shape %s",
            i, est_node_name(x), est_shape_text(est_node_shape(x), a), est_shape_text(est_node_shape(g->values), b));
    }
    return EST_OK;
}

/* The gradients of all copies are complete at the first of them. */
static void step_back_own(walk *w, int32_t id)
{
    const est_own_gradient *own = w->own[id];
    est_node               *dy  = est_arena_alloc(w->arena, sizeof *dy * (size_t)own->n_y);
    est_gradient           *dx  = est_arena_alloc(w->arena, sizeof *dx * (size_t)(own->n_x + 1));
    bool                    any = false;
    est_status              status;

    if (id != own->first || !is_led_to(w, est_graph_node(w->g, id))) return;
    if (dy == NULL || dx == NULL) {
        (void)est_graph_poison(w->g, est_no_memory());
        return;
    }
    for (int32_t i = 0; i < own->n_y; i++) {
        if (id + i <= w->last) dy[i] = collect(w, id + i, 0, false).values;
        any = any || dy[i].graph != NULL;
    }
    if (!any) return;
    for (int32_t i = 0; i < own->n_y; i++) {
        if (dy[i].graph == NULL) dy[i] = est_zeros_like((est_node){ w->g, id + i, 0 });
    }
    status = own->fn((est_nodes){ dy, own->n_y }, dx, own->user);
    for (int32_t i = 0; i < own->n_x && status == EST_OK; i++) {
        if (dx[i].values.graph == NULL) continue;
        status = check_own(&dx[i], (est_node){ w->g, own->x[i].node, own->x[i].output }, i);
        if (status == EST_OK && w->leads[own->x[i].node]) add_flow(w, own->x[i], dx[i]);
    }
    if (status != EST_OK) (void)est_graph_poison(w->g, status);
}

static est_status check_target(const est_graph *g, est_node y)
{
    if (y.graph != g || est_def(y) == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "est_gradients: the targets are not nodes of one graph");
    }
    if (est_node_dtype(y) != EST_F32 && est_node_dtype(y) != EST_F64) {
        return est_fail(EST_INVALID_ARGUMENT, "est_gradients: '%s' is %s; only float32 and float64 have gradients",
                        est_node_name(y), est_dtype_name(est_node_dtype(y)));
    }
    return EST_OK;
}

/* Gives the walk its beginning: the gradients dy of y, where they are given, else ones. */
static est_status begin(walk *w, est_nodes y, est_nodes dy, const est_node *wrt, int n)
{
    for (int i = 0; i < y.n; i++) {
        EST_TRY(check_target(w->g, y.data[i]));
        if (y.data[i].id > w->last) w->last = y.data[i].id;
    }
    EST_TRY(mark_paths(w, wrt, n));
    for (int i = 0; i < y.n; i++) {
        est_node one = i < dy.n && dy.data[i].graph != NULL ? dy.data[i] : est_ones_like(y.data[i]);
        add_flow(w, (est_edge){ y.data[i].id, y.data[i].output }, (est_gradient){ .values = one });
    }
    return EST_OK;
}

static est_status differentiate(walk *w, const est_node *wrt, int n, est_gradient *out)
{
    for (int32_t id = w->last; id >= 0 && !est_graph_poisoned(w->g); id--) {
        if (!w->leads[id]) continue;
        if (w->own[id] != NULL) {
            step_back_own(w, id);
        } else {
            step_back(w, id);
        }
    }
    for (int i = 0; i < n && !est_graph_poisoned(w->g); i++) {
        if (wrt[i].graph != w->g || wrt[i].id < 0) {
            return est_fail(EST_INVALID_ARGUMENT, "est_gradients: wrt[%d] is not a node of the graph of the target", i);
        }
        if (wrt[i].id <= w->last) out[i] = collect(w, wrt[i].id, wrt[i].output, true);
    }
    return EST_OK;
}

void est_gradients_from(est_nodes y, est_nodes dy, est_nodes wrt, est_gradient *out)
{
    est_graph *g = EST_LIST_OK(y) && y.n > 0 ? y.data[0].graph : NULL;
    walk       w = { .g = g };
    est_status status;

    if (!EST_LIST_OK(dy) || !EST_LIST_OK(wrt) || (wrt.n > 0 && out == NULL)) {
        (void)est_graph_poison(g, est_fail(EST_INVALID_ARGUMENT, "est_gradients: %d gradients, wrt %s, out %s", wrt.n,
                                           wrt.data != NULL ? "given" : "NULL", out != NULL ? "given" : "NULL"));
        return;
    }
    memset(out, 0, sizeof *out * (size_t)wrt.n);
    if (g == NULL || est_graph_poisoned(g)) return;
    w.arena = est_arena_create();
    status  = w.arena != NULL ? begin(&w, y, dy, wrt.data, wrt.n) : est_no_memory();
    if (status == EST_OK) status = differentiate(&w, wrt.data, wrt.n, out);
    if (status != EST_OK) (void)est_graph_poison(g, status);
    est_arena_free(w.arena);
    if (est_graph_poisoned(g)) memset(out, 0, sizeof *out * (size_t)wrt.n);
}

void est_gradients(est_node y, est_nodes wrt, est_gradient *out)
{
    est_gradients_from((est_nodes){ &y, 1 }, EST_NO_NODES, wrt, out);
}
