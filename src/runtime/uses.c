/* SPDX-License-Identifier: Apache-2.0
 *
 * Who uses what in a private graph, and replacing one result by another. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/pass.h"

void est_pass_replace(est_graph *graph, est_io *io, est_edge from, est_edge to)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        est_node_def *n = est_graph_node(graph, id);
        for (int32_t i = 0; i < n->n_in; i++) {
            if (n->in[i].node == from.node && n->in[i].output == from.output) n->in[i] = to;
        }
        for (int32_t i = 0; i < n->n_control; i++) {
            if (n->control[i] == from.node) n->control[i] = to.node;
        }
    }
    for (int i = 0; i < io->n_fetches; i++) {
        if (io->fetches[i].id == from.node && io->fetches[i].output == from.output) {
            io->fetches[i] = (est_node){ graph, to.node, to.output };
        }
    }
    for (int i = 0; i < io->n_targets; i++) {
        if (io->targets[i].id == from.node) io->targets[i].id = to.node;
    }
}

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
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to look at a graph");
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
