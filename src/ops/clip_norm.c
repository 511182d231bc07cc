/* SPDX-License-Identifier: Apache-2.0
 *
 * Clipping by l2 norm, composed of ops.
 *
 *   clip_by_norm:         x * clip / max(|x|, clip)
 *   clip_by_global_norm:  the same factor for all, from the norm of all together; NaN when that norm is not finite, so
 *                         that a broken step is seen and not hidden
 *
 * Below the limit the factor is exactly 1. Sparse gradients count by the rows they have: duplicates are not summed
 * first, as in TensorFlow. */
#include <float.h>
#include <math.h>

#include "ops/ops.h"

/* sqrt(2 * half_square), kept away from 0 where the derivative of the root is infinite. */
static est_node norm_of(est_node half_square)
{
    double   tiny = est_node_dtype(half_square) == EST_F64 ? DBL_MIN : FLT_MIN;
    est_node sum  = est_scale(half_square, 2);

    return est_sqrt(est_maximum(sum, est_scalar(half_square.graph, est_node_dtype(half_square), tiny)));
}

static est_node clip_factor(est_node norm, double clip)
{
    est_node limit = est_scalar(norm.graph, est_node_dtype(norm), clip);

    return est_div(limit, est_maximum(norm, limit));
}

static est_node check_limit(est_graph *graph, double norm)
{
    return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "the norm to clip to must be above 0, got %g", norm));
}

est_node est_clip_by_norm(est_node x, double norm)
{
    if (x.graph == NULL) return x;
    if (!(norm > 0)) return check_limit(x.graph, norm);
    return est_mul(x, clip_factor(norm_of(est_l2_loss(x)), norm));
}

/* sum of l2_loss over all entries; EST_NO_NODE when there are none. */
static est_node half_square_of_all(const est_gradient *xs, int n)
{
    est_node total = EST_NO_NODE;

    for (int i = 0; xs != NULL && i < n; i++) {
        if (xs[i].values.graph == NULL) continue;
        est_node part = est_l2_loss(xs[i].values);
        total         = total.graph == NULL ? part : est_add(total, part);
    }
    return total;
}

est_node est_global_norm(const est_gradient *xs, int n)
{
    est_node half_square = half_square_of_all(xs, n);

    return half_square.graph == NULL ? EST_NO_NODE : est_sqrt(est_scale(half_square, 2));
}

est_node est_clip_by_global_norm(est_gradient *xs, int n, double norm)
{
    est_node before = est_global_norm(xs, n), factor;

    if (before.graph == NULL) return before;
    if (!(norm > 0)) return check_limit(before.graph, norm);
    factor = est_select(est_is_finite(before), clip_factor(before, norm),
                        est_scalar(before.graph, est_node_dtype(before), NAN));
    for (int i = 0; i < n; i++) {
        if (xs[i].values.graph != NULL) xs[i].values = est_mul(xs[i].values, factor);
    }
    return before;
}
