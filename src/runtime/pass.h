/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph passes: a private copy of the part of a graph that a step needs, and rewrites of it.
 *
 * A pass never touches the user's graph. In a private copy ids are no longer a topological order once a pass has added
 * nodes; est_node_def.order keeps the place in the program that a node stands for, and the planner sorts. */
#ifndef EST_RUNTIME_PASS_H
#define EST_RUNTIME_PASS_H

#include "graph/op.h"

/* What a step feeds, fetches and runs, in terms of one graph. Arrays belong to the creator of the struct. */
typedef struct est_io {
    est_node *feeds;
    est_node *fetches;
    est_node *targets;
    int       n_feeds, n_fetches, n_targets;
} est_io;

/* Copies what `io` needs of `graph` into a new graph, where fed outputs have become Placeholders, and rewrites io to
 * name the copies. The original must outlive the copy. A placeholder that is needed but not fed is an error. */
EST_MUST_CHECK est_status est_pass_extract(const est_graph *graph, est_io *io, est_graph **out);

/* The order in which the nodes of a graph run, and the edges that it follows from: data, control and hazards of
 * variables. */
typedef struct est_order {
    est_graph *graph;
    int32_t   *nodes; /* [n]: ids; in the arena */
    int32_t    n;
    int32_t   *edge_from, *edge_to; /* [n_edges] */
    int32_t    n_edges;
} est_order;

/* Orders the nodes that `io` needs (runtime/order.c). Cleared by est_order_clear, also after a failure. */
EST_MUST_CHECK est_status est_order_make(est_graph *graph, const est_io *io, est_arena *arena, est_order *out);
/* The same with alike operations together, for a device that runs them as one. */
EST_MUST_CHECK est_status est_order_make_alike(est_graph *graph, const est_io *io, est_arena *arena, est_order *out);
void                      est_order_clear(est_order *order);

/* The edges into each node: node i waits for from[first[i]] to from[first[i + 1] - 1]. In the arena. */
typedef struct est_incoming {
    int32_t *first, *from;
} est_incoming;

EST_MUST_CHECK est_status est_order_incoming(const est_order *order, est_arena *arena, est_incoming *out);

/* est_pass_extract of a private graph, whose ids are no topological order. */
EST_MUST_CHECK est_status est_pass_extract_in_order(const est_order *order, est_io *io, est_graph **out);

/* Replaces results by others in a private graph. It knows the users of every node, so that a replacement costs as much
 * as the node has users, whatever the size of the graph. Nodes may be added meanwhile; their inputs and control edges
 * are complete before the next replacement. Zeroed but for graph and io, it is ready to use. */
typedef struct est_rewriter {
    est_graph           *graph;
    est_io              *io;
    struct est_use_link *links;
    int32_t             *first; /* per node: its first link, plus one; 0: none */
    int32_t              n_nodes, max_nodes, n_links, max_links;
} est_rewriter;

/* Replaces every use of a node's output, every control edge from that node and every mention in io. */
EST_MUST_CHECK est_status est_rewriter_replace(est_rewriter *r, est_edge from, est_edge to);
void                      est_rewriter_clear(est_rewriter *r);

/* Merges equal operations on equal inputs. apart: a node that updates need is not merged into an earlier one that they
 * do not need, so that the core of the step does not depend on what else is fetched (C5 in partition.c). */
EST_MUST_CHECK est_status est_pass_merge(est_graph *graph, est_io *io, bool apart);

/* Whether two nodes are the same op with equal attributes, whatever their inputs are. */
bool est_same_operation(const est_node_def *a, const est_node_def *b);

/* Makes one operation of chains that would cross memory more often than they need, where the device has kernels for it
 * (runtime/fuse.c). */
EST_MUST_CHECK est_status est_pass_fuse(est_graph *graph, est_io *io, const est_device *device);

/* Users of every output: a table built when a pass needs it. */
typedef struct est_uses {
    int32_t *n;     /* per node: how many edges of live nodes leave it (data and control), fetches, targets included */
    int32_t *first; /* per node: where its users start in `user` */
    int32_t *user;  /* node ids, one per edge; -1: a fetch or a target */
} est_uses;

EST_MUST_CHECK est_status est_uses_create(const est_graph *graph, const est_io *io, est_uses *out);
void                      est_uses_clear(est_uses *uses);

#endif
