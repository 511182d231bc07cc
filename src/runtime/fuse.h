/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rules of fusing share. runtime/fuse.c has the pass and most rules, runtime/fuse_joins.c those of matrices
 * that are joined from parts, runtime/fuse_bfloat16.c that of mixed precision.
 *
 * A rule is given a node of the op that its chain is recognised by, and replaces the chain or leaves it as it is. False
 * means that it failed, with the graph poisoned. */
#ifndef EST_RUNTIME_FUSE_H
#define EST_RUNTIME_FUSE_H

#include "ops/ops.h"
#include "runtime/pass.h"
#include "runtime/pattern.h"

typedef struct est_fuser {
    est_graph   *g;
    est_rewriter rewriter;
    est_uses     uses;                           /* when the rule began */
    est_pattern  bags[EST_COMBINE_SQRTN + 1][2]; /* by combiner, and whether there are weights */
    bool         writes;                         /* something in the graph changes a variable */
    int32_t     *sorted; /* per node, of the first n_sorted: the EstSortIds of its first output; 0: none */
    int32_t      n_sorted;
} est_fuser;

static inline est_node_def *est_fuse_node(const est_fuser *f, int32_t id)
{
    return est_graph_node(f->g, id);
}

static inline est_node est_fuse_edge(const est_fuser *f, est_edge e)
{
    return (est_node){ f->g, e.node, e.output };
}

/* How often the results of n are looked at, fetches and control edges included. */
static inline int32_t est_fuse_users(const est_fuser *f, const est_node_def *n)
{
    return f->uses.n[n->id];
}

/* Uses an output of a freshly built node in place of one of another; false, with the graph poisoned, when it cannot. */
static inline bool est_fuse_replace(est_fuser *f, est_edge from, est_edge to)
{
    est_status status = est_rewriter_replace(&f->rewriter, from, to);

    if (status != EST_OK) (void)est_graph_poison(f->g, status);
    return status == EST_OK;
}

/* Puts a freshly built node where `old` stood. False when it could not be built. */
static inline bool est_fuse_stand_in(est_fuser *f, est_node fresh, int output, const est_node_def *old)
{
    if (fresh.id < 0) return false;
    est_fuse_node(f, fresh.id)->order = old->order;
    est_fuse_node(f, fresh.id)->name  = old->name;
    est_fuse_node(f, fresh.id)->file  = old->file;
    est_fuse_node(f, fresh.id)->line  = old->line;
    return est_fuse_replace(f, (est_edge){ old->id, 0 }, (est_edge){ fresh.id, output });
}

static inline est_attr est_fuse_copy_bool(const est_node_def *n, const char *name)
{
    return est_attr_bool(name, est_node_bool(n, name));
}

static inline bool est_fuse_is_f32(const est_node_def *n)
{
    return n->dtype[0] == EST_F32;
}

static inline bool est_fuse_same_edge(est_edge a, est_edge b)
{
    return a.node == b.node && a.output == b.output;
}

/* Whether the edge is an axis that says 1 for matrices. */
static inline bool est_fuse_is_last_axis(const est_fuser *f, est_edge axis, const est_node_def *matrix)
{
    const est_value *value = &est_fuse_node(f, axis.node)->value[axis.output];

    return matrix->shape[0].rank == 2 && value->n == 1 && (value->v[0] == 1 || value->v[0] == -1);
}

/* --- runtime/fuse_joins.c ----------------------------------------------------------------------------------------- */

bool est_fuse_concat_bags(est_fuser *f, const est_node_def *concat);
bool est_fuse_slice_grad(est_fuser *f, const est_node_def *grad);
bool est_fuse_concat_lookups(est_fuser *f, const est_node_def *concat);
bool est_fuse_sum_lookups(est_fuser *f, const est_node_def *sum);
bool est_fuse_dedup_slice(est_fuser *f, const est_node_def *dedup);
bool est_fuse_pad_uneven(est_fuser *f, const est_node_def *whole);
bool est_fuse_sums_in_update(est_fuser *f, const est_node_def *sums);

/* --- runtime/fuse_bfloat16.c -------------------------------------------------------------------------------------- */

bool est_fuse_bfloat16(est_fuser *f, const est_node_def *rounded);

#endif
