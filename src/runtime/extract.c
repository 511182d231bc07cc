/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a graph that a step needs, as a graph of its own. */
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"
#include "runtime/pass.h"

typedef struct extract {
    const est_graph *from;
    est_graph       *to;
    est_io          *io;
    bool            *needed;     /* per node of `from` */
    int32_t         *copy;       /* per node of `from`: its id in `to` */
    int32_t         *feed;       /* per feed: the Placeholder's id in `to` */
    int             *first_feed; /* per node of `from`: one of its feeds, plus one; 0: none */
    int             *next_feed;  /* per feed: another of the same node, plus one */
    int32_t         *stack;
    const int32_t   *order; /* [n_order]: nodes, inputs before their users; NULL: by id */
    int32_t          n_order;
} extract;

static int feed_of(const extract *x, est_edge edge)
{
    for (int i = x->first_feed[edge.node]; i > 0; i = x->next_feed[i - 1]) {
        if (x->io->feeds[i - 1].output == edge.output) return i - 1;
    }
    return -1;
}

/* Feeds are found by their node from now on. */
static est_status list_feeds(extract *x)
{
    for (int i = 0; i < x->io->n_feeds; i++) {
        const est_node *feed = &x->io->feeds[i];

        if (feed_of(x, (est_edge){ feed->id, feed->output }) >= 0) {
            return est_fail(EST_INVALID_ARGUMENT, "'%s' is fed twice", est_node_name(*feed));
        }
        x->next_feed[i]         = x->first_feed[feed->id];
        x->first_feed[feed->id] = i + 1;
    }
    return EST_OK;
}

static est_status check_unfed(const extract *x, const est_node_def *def)
{
    char text[EST_NODE_TEXT_MAX];

    (void)x;
    if (def->op != &est_op_placeholder) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s must be fed: what is fetched or run depends on it",
                    est_node_text(def, text));
}

/* Marks what `root` depends on, not looking behind fed edges. */
static est_status mark(extract *x, int32_t root)
{
    int32_t depth = 0;

    if (x->needed[root]) return EST_OK;
    x->needed[root]   = true;
    x->stack[depth++] = root;
    while (depth > 0) {
        const est_node_def *def = est_graph_node(x->from, x->stack[--depth]);
        EST_TRY(check_unfed(x, def));
        for (int32_t i = 0; i < def->n_in + def->n_control; i++) {
            int32_t next = i < def->n_in ? def->in[i].node : def->control[i - def->n_in];
            if (i < def->n_in && feed_of(x, def->in[i]) >= 0) continue;
            if (i >= def->n_in && feed_of(x, (est_edge){ next, 0 }) >= 0) continue;
            if (!x->needed[next]) {
                x->needed[next]   = true;
                x->stack[depth++] = next;
            }
        }
    }
    return EST_OK;
}

static est_status check_io(const extract *x, const est_node *nodes, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        const est_node_def *def = nodes[i].graph == x->from ? est_def(nodes[i]) : NULL;
        if (def == NULL || nodes[i].output < 0 || (nodes[i].output >= def->n_out && nodes[i].output > 0)) {
            return est_fail(EST_INVALID_ARGUMENT, "%s %d is no node of the session's graph", what, i);
        }
    }
    return EST_OK;
}

static est_status mark_all(extract *x)
{
    for (int i = 0; i < x->io->n_fetches; i++) {
        const est_node *f = &x->io->fetches[i];
        if (est_def(*f)->n_out == 0 || est_node_dtype(*f) == EST_RESOURCE) {
            char text[EST_NODE_TEXT_MAX];
            return est_fail(EST_INVALID_ARGUMENT, "%s has no value to fetch; run it as a target",
                            est_node_text(est_def(*f), text));
        }
        if (feed_of(x, (est_edge){ f->id, f->output }) < 0) EST_TRY(mark(x, f->id));
    }
    for (int i = 0; i < x->io->n_targets; i++) {
        const est_node *t = &x->io->targets[i];
        if (feed_of(x, (est_edge){ t->id, t->output }) < 0) EST_TRY(mark(x, t->id));
    }
    return EST_OK;
}

static est_status add_feeds(extract *x)
{
    for (int i = 0; i < x->io->n_feeds; i++) {
        est_node node = x->io->feeds[i];
        est_node copy = est_build0(
            x->to, &est_op_placeholder,
            EST_ATTRS(est_attr_type("dtype", est_node_dtype(node)), est_attr_shape("shape", *est_node_shape(node))));
        if (copy.id < 0) return est_graph_status(x->to);
        est_graph_node(x->to, copy.id)->name = est_node_name(node);
        est_graph_node(x->to, copy.id)->file = est_def(node)->file;
        est_graph_node(x->to, copy.id)->line = est_def(node)->line;
        x->feed[i]                           = copy.id;
    }
    return EST_OK;
}

static est_edge moved(const extract *x, est_edge edge)
{
    int feed = feed_of(x, edge);

    return feed >= 0 ? (est_edge){ x->feed[feed], 0 } : (est_edge){ x->copy[edge.node], edge.output };
}

static est_status copy_node(extract *x, const est_node_def *def)
{
    est_graph    *g       = x->to;
    est_arena    *arena   = est_graph_arena(g);
    est_node_def *copy    = est_arena_alloc(arena, sizeof *copy);
    est_edge     *in      = est_arena_alloc(arena, sizeof *in * (size_t)(def->n_in + 1));
    int32_t      *control = est_arena_alloc(arena, sizeof *control * (size_t)(def->n_control + 1));

    if (copy == NULL || in == NULL || control == NULL) {
        return est_no_memory();
    }
    *copy         = *def;
    copy->in      = in;
    copy->control = control;
    for (int32_t i = 0; i < def->n_in; i++) in[i] = moved(x, def->in[i]);
    for (int32_t i = 0; i < def->n_control; i++) control[i] = moved(x, (est_edge){ def->control[i], 0 }).node;
    EST_TRY(est_graph_append(g, copy));
    for (int32_t i = 0; i < copy->n_attr; i++) {
        if (copy->attr[i].kind == EST_ATTR_TENSOR) (void)est_tensor_ref(copy->attr[i].tensor);
    }
    copy->order      = def->id;
    x->copy[def->id] = copy->id;
    return EST_OK;
}

static est_status run_extract(extract *x)
{
    size_t n = (size_t)est_graph_size(x->from) + 1;

    x->needed = est_zalloc(sizeof *x->needed * n);
    x->copy   = est_zalloc(sizeof *x->copy * n);
    x->stack  = est_zalloc(sizeof *x->stack * n);
    x->feed   = est_zalloc(sizeof *x->feed * (size_t)(x->io->n_feeds + 1));

    x->first_feed = est_zalloc(sizeof *x->first_feed * n);
    x->next_feed  = est_zalloc(sizeof *x->next_feed * (size_t)(x->io->n_feeds + 1));
    if (x->needed == NULL || x->copy == NULL || x->stack == NULL || x->feed == NULL || x->first_feed == NULL ||
        x->next_feed == NULL) {
        return est_no_memory();
    }
    EST_TRY(check_io(x, x->io->feeds, x->io->n_feeds, "feed"));
    EST_TRY(check_io(x, x->io->fetches, x->io->n_fetches, "fetch"));
    EST_TRY(check_io(x, x->io->targets, x->io->n_targets, "target"));
    EST_TRY(list_feeds(x));
    EST_TRY(mark_all(x));
    EST_TRY(add_feeds(x));
    for (int32_t k = 0; k < x->n_order; k++) {
        int32_t id = x->order != NULL ? x->order[k] : k;
        if (x->needed[id]) EST_TRY(copy_node(x, est_graph_node(x->from, id)));
    }
    return EST_OK;
}

/* io now speaks of the copy. */
static void rename_io(const extract *x)
{
    for (int i = 0; i < x->io->n_fetches + x->io->n_targets; i++) {
        est_node *node = i < x->io->n_fetches ? &x->io->fetches[i] : &x->io->targets[i - x->io->n_fetches];
        est_edge  to   = moved(x, (est_edge){ node->id, node->output });
        *node          = (est_node){ x->to, to.node, to.output };
    }
    for (int i = 0; i < x->io->n_feeds; i++) x->io->feeds[i] = (est_node){ x->to, x->feed[i], 0 };
}

static est_status make_extract(extract x, est_graph **out)
{
    est_status status;

    EST_TRY(est_graph_create(est_graph_seed(x.from), &x.to));
    status = run_extract(&x);
    if (status == EST_OK) {
        rename_io(&x);
        *out = x.to;
    } else {
        est_graph_free(x.to);
    }
    est_free(x.needed);
    est_free(x.copy);
    est_free(x.stack);
    est_free(x.feed);
    est_free(x.first_feed);
    est_free(x.next_feed);
    return status;
}

est_status est_pass_extract(const est_graph *graph, est_io *io, est_graph **out)
{
    return make_extract((extract){ .from = graph, .io = io, .n_order = est_graph_size(graph) }, out);
}

est_status est_pass_extract_in_order(const est_order *order, est_io *io, est_graph **out)
{
    return make_extract((extract){ .from = order->graph, .io = io, .order = order->nodes, .n_order = order->n }, out);
}
