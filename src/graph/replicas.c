/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas of a graph: scopes that are kept while another one is built, and the variables of the first, which all
 * share. */
#include "graph/replicas.h"

#include <stdio.h>
#include <string.h>

#include "graph/internal.h"
#include "graph/op.h"

struct est_replica_place {
    scope_frame *scopes;
    const char  *scope;
    const char  *device;
    size_t       base; /* length of its first scope */
};

/* One variable or table of the first replica. */
typedef struct shared {
    struct shared *next; /* of the same name, made later */
    est_node       node;
    int            taken; /* the last replica that got it; they are built in order */
} shared;

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
}

static void load_place(est_graph *g, const est_replica_place *place)
{
    g->scopes = place->scopes;
    g->scope  = place->scope;
    g->device = place->device;
}

est_status est_replicas_begin(est_graph *graph, est_replicas *replicas)
{
    int                n      = replicas->n;
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
        places[i].base = strlen(places[i].scope);
        load_place(graph, &places[n]);
    }
    if (est_graph_poisoned(graph)) return est_graph_status(graph);
    replicas->current = -1;
    replicas->places  = places;
    replicas->shared  = (est_map){ 0 };
    graph->replicas   = replicas;
    return EST_OK;
}

void est_replicas_turn(est_graph *graph, int replica)
{
    est_replicas *r = graph->replicas;

    if (r->current >= 0) save_place(graph, &r->places[r->current]);
    r->current = replica;
    load_place(graph, &r->places[replica >= 0 ? replica : 0]);
}

void est_replicas_end(est_graph *graph, est_replicas *replicas, est_replicas *before)
{
    load_place(graph, &replicas->places[replicas->n]);
    est_map_clear(&replicas->shared);
    graph->replicas = before;
}

/* --- shared variables --------------------------------------------------------------------------------------------- */

/* The name without the scope of its replica and without what made its parts unique ("dense_1/kernel": "dense/kernel").
 * NULL when memory is out. */
static char *plain_name(const est_graph *g, const char *name)
{
    const est_replica_place *place = &g->replicas->places[g->replicas->current];
    char                    *plain, *to;

    if (strncmp(name, place->scope, place->base) == 0) name += place->base;
    plain = to = est_arena_strdup(g->arena, name);
    while (plain != NULL && *name != '\0') {
        size_t part = strcspn(name, "/"), n = part;

        while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
        if (n < 2 || n == part || name[n - 1] != '_') n = part + 1; /* nothing was added */
        memcpy(to, name, n - 1);
        to += n - 1;
        name += part;
        if (*name == '/') *to++ = *name++;
        *to = '\0';
    }
    return plain;
}

void est_replicas_keep(est_node made)
{
    est_graph *g = made.graph;
    shared    *s, *list;
    char      *name;

    if (est_def(made) == NULL || !est_in_replica(g) || est_in_later_replica(g) || g->replicas->n == 1) return;
    name = plain_name(g, est_node_name(made));
    s    = est_arena_alloc(g->arena, sizeof *s);
    if (name == NULL || s == NULL) {
        (void)est_graph_poison(g, est_no_memory());
        return;
    }
    *s   = (shared){ .node = made };
    list = est_map_get(&g->replicas->shared, name);
    while (list != NULL && list->next != NULL) list = list->next;
    if (list != NULL) {
        list->next = s;
    } else if (est_map_put(&g->replicas->shared, name, s) != EST_OK) {
        (void)est_graph_poison(g, est_no_memory());
    }
}

est_node est_replicas_find(est_graph *graph, const est_op *op, const char *name, bool absolute)
{
    est_replicas *r    = graph->replicas;
    const char   *full = absolute ? name : est_graph_scoped(graph, name);
    char         *key;
    shared       *s;

    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    key = full != NULL ? plain_name(graph, full) : NULL;
    if (key == NULL) return est_graph_poison(graph, est_no_memory());
    s = est_map_get(&r->shared, key);
    while (s != NULL && (s->taken >= r->current || est_def(s->node)->op != op)) s = s->next;
    if (s == NULL) {
        return est_graph_poison(
            graph, est_graph_blame(est_fail(EST_INVALID_ARGUMENT,
                                            "replica %d requests '%s' (%s), which replica 0 did not create, or not as "
                                            "often: all replicas must be built by the same calls",
                                            r->current, key, op->name)));
    }
    s->taken = r->current;
    return s->node;
}

est_node est_replicas_merge(est_graph *graph, est_merge_build build, void *arg)
{
    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_OK);
    return graph->replicas->merge(graph->replicas, build, arg);
}
