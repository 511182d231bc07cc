/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas of a graph: scopes and builds that are kept while another one is built. */
#include "graph/replicas.h"

#include <stdio.h>

#include "graph/internal.h"
#include "graph/op.h"

struct est_replica_place {
    scope_frame *scopes;
    const char  *scope;
    const char  *device;
    est_reuse   *reuse;
};

est_replicas *est_graph_replicas(const est_graph *graph)
{
    return graph != NULL ? graph->replicas : NULL;
}

void est_graph_set_replicas(est_graph *graph, est_replicas *replicas)
{
    graph->replicas = replicas;
}

bool est_in_replica(const est_graph *graph)
{
    return graph != NULL && graph->replicas != NULL && graph->replicas->current >= 0;
}

void est_replicas_set_loss(est_graph *graph, est_reduce_op how)
{
    if (est_in_replica(graph)) graph->replicas->last_loss = how;
}

bool est_in_later_replica(const est_graph *graph)
{
    return graph != NULL && graph->replicas != NULL && graph->replicas->current > 0;
}

int est_global_replica(const est_graph *graph)
{
    return est_in_replica(graph) ? graph->replicas->first_global + graph->replicas->current : 0;
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void save_place(const est_graph *g, est_replica_place *place)
{
    place->scopes = g->scopes;
    place->scope  = g->scope;
    place->device = g->device;
    place->reuse  = g->reuse;
}

static void load_place(est_graph *g, const est_replica_place *place)
{
    g->scopes = place->scopes;
    g->scope  = place->scope;
    g->device = place->device;
    g->reuse  = place->reuse;
}

est_status est_replicas_begin(est_graph *graph, est_replicas *replicas)
{
    int                n      = replicas->n;
    est_reuse_record  *record = est_reuse_record_create(graph, NULL);
    est_replica_place *places = est_arena_alloc(graph->arena, sizeof *places * (size_t)(n + 1)); /* the last: outside */

    if (places == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return est_graph_status(graph);
    }
    save_place(graph, &places[n]);
    for (int i = 0; i < n; i++) {
        char scope[32];

        (void)snprintf(scope, sizeof scope, "replica_%d", i);
        if (i > 0) est_scope_push(graph, scope);
        save_place(graph, &places[i]);
        places[i].reuse = est_reuse_replica(graph, record, i == 0);
        load_place(graph, &places[n]);
    }
    if (est_graph_poisoned(graph)) return est_graph_status(graph);
    replicas->current = -1;
    replicas->places  = places;
    graph->replicas   = replicas;
    return EST_OK;
}

void est_replicas_turn(est_graph *graph, int replica)
{
    est_replicas *r = graph->replicas;

    if (r->current >= 0) save_place(graph, &r->places[r->current]);
    r->current = replica;
    load_place(graph, &r->places[replica >= 0 ? replica : 0]);
    if (replica >= 0) return;
    graph->reuse = NULL; /* what a merge makes is made once */
    if (r->merge_device != NULL) graph->device = r->merge_device;
}

void est_replicas_end(est_graph *graph, est_replicas *replicas, est_replicas *before)
{
    load_place(graph, &replicas->places[replicas->n]);
    graph->replicas = before;
}

est_node est_replicas_merge(est_graph *graph, est_merge_build build, void *arg)
{
    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    return graph->replicas->merge(graph->replicas, build, arg);
}
