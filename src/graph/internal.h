/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph's own fields, shared by the files of graph/ only. */
#ifndef EST_GRAPH_INTERNAL_H
#define EST_GRAPH_INTERNAL_H

#include "base/map.h"
#include "graph/graph.h"
#include "graph/replicas.h"
#include "graph/reuse.h"

/* The id of a node that stands for a failed builder. */
#define EST_POISON (-1)

typedef struct scope_frame {
    struct scope_frame *outer;
    const char         *path; /* of the outer scope */
} scope_frame;

typedef struct initializer {
    int32_t  variable;
    est_node assign;
} initializer;

typedef struct collection {
    const char *name;
    int         replica; /* the replica it belongs to (graph/replicas.h); 0: the first, or shared */
    est_node   *nodes;
    int         n;
} collection;

typedef struct kept_object {
    struct kept_object *next;
    void (*release)(void *user);
    void *user;
} kept_object;

struct est_graph {
    est_arena        *arena;
    est_node_def    **nodes;
    int32_t           n_nodes, nodes_max;
    est_map           names; /* every name in use -> the next suffix to try */
    est_nodes         after; /* est_graph_after; in the arena */
    scope_frame      *scopes;
    const char       *scope;     /* "" or "a/b/" */
    est_precision     precision; /* est_graph_precision */
    bool              keeps_float32;
    const char       *device;    /* "": free */
    est_device_fn     device_fn; /* NULL: none */
    void             *device_user;
    est_node_def     *unplaced; /* the last node: device_fn is asked when its name is final; NULL: it was asked */
    initializer      *initializers;
    int               n_initializers;
    est_i64_map       initializer_of; /* a variable's id -> its last initializer's position */
    const char       *terms;          /* est_graph_terms; NULL: "" */
    collection       *collections;
    int               n_collections;
    uint64_t          seed, n_seeds;
    est_seed_counter *seeds; /* NULL: n_seeds counts */
    uint64_t          version;
    est_replicas     *replicas; /* NULL: built as one */

    est_reuse        *reuse;         /* the innermost open build; NULL: none */
    est_reuse_record *reuse_records; /* of all keys */
    int               reuse_missing; /* builds that began without memory */
    bool              reuse_is_new;
    kept_object      *kept; /* what est_graph_free releases */
    est_own_gradient *own_gradients;

    est_error error; /* status EST_OK until poisoned */
};

/* scope + name, in the arena; NULL when memory is out. */
const char *est_graph_scoped(est_graph *g, const char *name);

#endif
