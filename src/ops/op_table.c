/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of all operations, made from ops/ops.def, and the lookup by TensorFlow name. Also the two helpers with
 * which an op over the last axis serves any axis. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

#define EST_OP(name) &est_op_##name,
static const est_op *const op_table[] = {
#include "ops/ops.def"
    NULL,
};
#undef EST_OP

#define N_OPS (sizeof op_table / sizeof op_table[0] - 1)

/* The table sorted by name, made at the first lookup and constant from then on. */
static const est_op  *ops_by_name[N_OPS + 1];
static pthread_once_t sorted_once = PTHREAD_ONCE_INIT;

static int compare_ops(const void *a, const void *b)
{
    return strcmp((*(const est_op *const *)a)->name, (*(const est_op *const *)b)->name);
}

static void sort_table(void)
{
    memcpy(ops_by_name, op_table, sizeof op_table);
    qsort(ops_by_name, N_OPS, sizeof ops_by_name[0], compare_ops);
}

static int compare_name(const void *name, const void *op)
{
    return strcmp(name, (*(const est_op *const *)op)->name);
}

const est_op *est_op_find(const char *name)
{
    const est_op *const *found;

    pthread_once(&sorted_once, sort_table);
    found = bsearch(name, ops_by_name, N_OPS, sizeof ops_by_name[0], compare_name);
    return found != NULL ? *found : NULL;
}

const est_op *est_op_find_public(const char *name)
{
    const est_op *op = est_op_find(name);

    return op != NULL && !op->planned ? op : NULL;
}

const est_op *const *est_op_table(void)
{
    return op_table;
}

/* Exchanges nothing when the axis is last; else permutes so that it is (to_last) or is back in its place. */
static est_node move_axis(est_node x, int axis, bool to_last)
{
    const est_shape *shape = est_node_shape(x);
    int64_t          permutation[EST_RANK_MAX];
    int              rank = shape != NULL ? shape->rank : -1;

    if (axis == -1 || x.graph == NULL || est_graph_poisoned(x.graph)) return x;
    if (rank < 0) {
        return est_graph_poison(x.graph,
                                est_fail(EST_INVALID_ARGUMENT, "axis %d of '%s' cannot be found: its rank is not known",
                                         axis, est_node_name(x)));
    }
    if (axis < -rank || axis >= rank) {
        char text[EST_SHAPE_TEXT_MAX];

        return est_graph_poison(x.graph, est_fail(EST_INVALID_ARGUMENT, "'%s' of shape %s has no axis %d",
                                                  est_node_name(x), est_shape_text(shape, text), axis));
    }
    if (axis < 0) axis += rank;
    if (axis == rank - 1) return x;
    for (int i = 0; i < rank; i++) {
        if (to_last) {
            permutation[i] = i < axis ? i : i < rank - 1 ? i + 1 : axis;
        } else {
            permutation[i] = i < axis ? i : i > axis ? i - 1 : rank - 1;
        }
    }
    return est_transpose(x, (est_i64s){ permutation, rank });
}

est_node est_axis_to_last(est_node x, int axis)
{
    return move_axis(x, axis, true);
}

est_node est_axis_from_last(est_node x, int axis)
{
    return move_axis(x, axis, false);
}
