/* SPDX-License-Identifier: Apache-2.0
 *
 * Who uses what in a private graph, and replacing one result by another. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/pass.h"

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* A place where a node is used: an input or control edge of another, a fetch or a target. A link stays when its place
 * has turned to another node, so readers check the target. */
typedef struct est_use_link {
    int32_t user; /* a node; -1: io */
    int32_t at;   /* which input, control edges counted after the inputs; which fetch, targets likewise */
    int32_t next; /* plus one; 0: the last */
} est_use_link;

static est_status add_link(est_rewriter *r, int32_t from, int32_t user, int32_t at)
{
    if (r->n_links == r->max_links) {
        int32_t       max   = r->max_links == 0 ? 256 : 2 * r->max_links;
        est_use_link *links = est_realloc(r->links, sizeof *links * (size_t)max);
        if (links == NULL) return est_no_memory();
        r->links     = links;
        r->max_links = max;
    }
    r->links[r->n_links] = (est_use_link){ user, at, r->first[from] };
    r->first[from]       = ++r->n_links;
    return EST_OK;
}

static est_node *io_at(const est_io *io, int32_t at)
{
    return at < io->n_fetches ? &io->fetches[at] : &io->targets[at - io->n_fetches];
}

/* Links what was added to the graph since the last time; the first time also what io mentions. */
static est_status link_new_nodes(est_rewriter *r)
{
    int32_t size = est_graph_size(r->graph), begin = r->n_nodes;

    if (size > r->max_nodes) {
        int32_t  max   = 2 * size;
        int32_t *first = est_realloc(r->first, sizeof *first * (size_t)max);
        if (first == NULL) return est_no_memory();
        memset(first + r->max_nodes, 0, sizeof *first * (size_t)(max - r->max_nodes));
        r->first     = first;
        r->max_nodes = max;
    }
    for (int i = 0; begin == 0 && i < r->io->n_fetches + r->io->n_targets; i++) {
        EST_TRY(add_link(r, io_at(r->io, i)->id, -1, i));
    }
    for (int32_t id = begin; id < size; id++) {
        const est_node_def *n = est_graph_node(r->graph, id);
        for (int32_t i = 0; i < n->n_in; i++) EST_TRY(add_link(r, n->in[i].node, id, i));
        for (int32_t i = 0; i < n->n_control; i++) EST_TRY(add_link(r, n->control[i], id, n->n_in + i));
    }
    r->n_nodes = size;
    return EST_OK;
}

/* Turn a place from one result to the other, if it is still at that. */
static bool turn_node(est_node_def *n, int32_t at, est_edge from, est_edge to)
{
    if (at >= n->n_in) {
        int32_t *control = &n->control[at - n->n_in];
        if (*control != from.node) return false;
        *control = to.node;
        return true;
    }
    if (n->in[at].node != from.node || n->in[at].output != from.output) return false;
    n->in[at] = to;
    return true;
}

static bool turn_io(est_rewriter *r, int32_t at, est_edge from, est_edge to)
{
    est_node *node = io_at(r->io, at);

    if (node->id != from.node || (at < r->io->n_fetches && node->output != from.output)) return false;
    *node = at < r->io->n_fetches ? (est_node){ r->graph, to.node, to.output }
                                  : (est_node){ node->graph, to.node, node->output };
    return true;
}

est_status est_rewriter_replace(est_rewriter *r, est_edge from, est_edge to)
{
    EST_TRY(link_new_nodes(r));
    for (int32_t l = r->first[from.node]; l > 0; l = r->links[l - 1].next) {
        est_use_link link = r->links[l - 1];
        bool         turned;

        turned = link.user < 0 ? turn_io(r, link.at, from, to)
                               : turn_node(est_graph_node(r->graph, link.user), link.at, from, to);
        if (turned) EST_TRY(add_link(r, to.node, link.user, link.at));
    }
    return EST_OK;
}

void est_rewriter_clear(est_rewriter *r)
{
    est_free(r->links);
    est_free(r->first);
    memset(r, 0, sizeof *r);
}

/* --- counting users ----------------------------------------------------------------------------------------------- */

/* Nodes that what the step asks for depends on; the others are left from earlier rewrites. */
static void mark_live(const est_graph *graph, const est_io *io, bool *live, int32_t *stack)
{
    int32_t depth = 0;

    for (int i = 0; i < io->n_fetches + io->n_targets; i++) {
        int32_t id = i < io->n_fetches ? io->fetches[i].id : io->targets[i - io->n_fetches].id;
        if (!live[id]) stack[depth++] = id;
        live[id] = true;
    }
    while (depth > 0) {
        const est_node_def *n = est_graph_node(graph, stack[--depth]);
        for (int32_t i = 0; i < n->n_in + n->n_control; i++) {
            int32_t from = i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
            if (!live[from]) stack[depth++] = from;
            live[from] = true;
        }
    }
}

/* Calls for every use of a node by a live one, fetches and targets as user -1: counts, or fills when user is set. */
static void each_use(const est_graph *graph, const est_io *io, const bool *live, int32_t *n, const int32_t *first,
                     int32_t *user)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);
        for (int32_t i = 0; live[id] && i < def->n_in + def->n_control; i++) {
            int32_t from = i < def->n_in ? def->in[i].node : def->control[i - def->n_in];
            if (user != NULL) user[first[from] + n[from]] = id;
            n[from]++;
        }
    }
    for (int i = 0; i < io->n_fetches + io->n_targets; i++) {
        int32_t from = i < io->n_fetches ? io->fetches[i].id : io->targets[i - io->n_fetches].id;
        if (user != NULL) user[first[from] + n[from]] = -1;
        n[from]++;
    }
}

est_status est_uses_create(const est_graph *graph, const est_io *io, est_uses *out)
{
    size_t   size  = (size_t)est_graph_size(graph) + 1;
    bool    *live  = est_zalloc(size);
    int32_t *stack = est_zalloc(sizeof *stack * size);
    est_uses u     = { est_zalloc(sizeof *u.n * size), est_zalloc(sizeof *u.first * size), NULL };
    int32_t  total = 0;

    if (live != NULL && stack != NULL && u.n != NULL && u.first != NULL) {
        mark_live(graph, io, live, stack);
        each_use(graph, io, live, u.n, NULL, NULL);
        for (size_t i = 0; i + 1 < size; i++) {
            u.first[i] = total;
            total += u.n[i];
            u.n[i] = 0;
        }
        u.user = est_alloc(sizeof *u.user * ((size_t)total + 1));
        if (u.user != NULL) each_use(graph, io, live, u.n, u.first, u.user);
    }
    est_free(live);
    est_free(stack);
    if (u.user == NULL) {
        est_uses_clear(&u);
        return est_no_memory();
    }
    *out = u;
    return EST_OK;
}

void est_uses_clear(est_uses *uses)
{
    est_free(uses->n);
    est_free(uses->first);
    est_free(uses->user);
    memset(uses, 0, sizeof *uses);
}
