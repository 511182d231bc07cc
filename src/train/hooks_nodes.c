/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks around the user's nodes: one feeds nodes in every run, one computes final values at the end. */
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/callback.h"
#include "base/log.h"
#include "train/hooks.h"

/* Copies a list of nodes; NULL with the error set. */
static est_node *copy_nodes(est_nodes nodes)
{
    est_node *copy;

    if (!EST_LIST_OK(nodes)) {
        (void)est_fail(EST_INVALID_ARGUMENT, "a hook: %d nodes given, but the pointer is NULL", nodes.n);
        return NULL;
    }
    copy = est_hook_alloc((size_t)(nodes.n + 1) * sizeof *copy);
    if (copy != NULL && nodes.n > 0) memcpy(copy, nodes.data, (size_t)nodes.n * sizeof *copy);
    return copy;
}

/* --- at the end --------------------------------------------------------------------------------------------------- */

typedef struct final_ops_hook {
    est_hook     hook;
    est_node    *nodes; /* [n] */
    int          n;
    est_tensor **values; /* [n]; NULL before the end */
} final_ops_hook;

static void drop_values(final_ops_hook *own)
{
    for (int i = 0; i < own->n; i++) {
        est_tensor_free(own->values[i]);
        own->values[i] = NULL;
    }
}

static est_status final_begin(est_hook *hook, est_loop *loop)
{
    (void)loop;
    drop_values(EST_CONTAINER_OF(hook, final_ops_hook, hook));
    return EST_OK;
}

static est_status final_end(est_hook *hook, est_loop *loop)
{
    final_ops_hook *own    = EST_CONTAINER_OF(hook, final_ops_hook, hook);
    est_status      status = est_loop_compute(loop, (est_nodes){ own->nodes, own->n }, own->values);

    if (status == EST_OK) return EST_OK;
    if (est_loop_input_ended(loop) && est_loop_runs(loop) == 0) {
        est_log_warn("The final values could not be computed, and the input ended before its first batch: most likely "
                     "they depend on the input. Final values should come from variables.");
    }
    return est_fail_context(status, "computing the final values");
}

static void final_free(est_hook *hook)
{
    final_ops_hook *own = EST_CONTAINER_OF(hook, final_ops_hook, hook);

    if (own->values != NULL) drop_values(own);
    est_free(own->values);
    est_free(own->nodes);
    est_free(own);
}

est_hook *est_final_ops_hook(est_nodes nodes)
{
    final_ops_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->nodes  = copy_nodes(nodes);
    own->values = own->nodes != NULL ? est_hook_alloc((size_t)(nodes.n + 1) * sizeof *own->values) : NULL;
    if (own->values == NULL) {
        final_free(&own->hook);
        return NULL;
    }
    own->n    = nodes.n;
    own->hook = (est_hook)EST_HOOK(.begin = final_begin, .end = final_end, .free = final_free);
    return &own->hook;
}

const est_tensor *est_final_value(const est_hook *final_ops, int i)
{
    const final_ops_hook *own;

    if (final_ops == NULL || final_ops->free != final_free) return NULL;
    memcpy(&own, &final_ops, sizeof own); /* the hook is its first member */
    return i >= 0 && i < own->n ? own->values[i] : NULL;
}

/* --- feeding ------------------------------------------------------------------------------------------------------ */

typedef struct feed_fn_hook {
    est_hook     hook;
    est_node    *nodes;  /* [n] */
    int         *feeds;  /* [n] */
    est_tensor **values; /* [n]: values from fn */
    int          n;
    est_feed_fn  fn;
    void        *user;
} feed_fn_hook;

static est_status feed_begin(est_hook *hook, est_loop *loop)
{
    feed_fn_hook *own = EST_CONTAINER_OF(hook, feed_fn_hook, hook);

    for (int i = 0; i < own->n; i++) own->feeds[i] = est_loop_add_feed(loop, own->nodes[i]);
    return EST_OK;
}

static est_status feed_before_run(est_hook *hook, est_loop *loop)
{
    feed_fn_hook *own    = EST_CONTAINER_OF(hook, feed_fn_hook, hook);
    est_status    status = EST_CALLBACK(own->fn(own->user, own->values), "the function of a feeding hook");

    if (status == EST_OUT_OF_RANGE) {
        est_loop_end_input(loop);
        return EST_OK;
    }
    EST_TRY(status);
    for (int i = 0; i < own->n; i++) {
        est_loop_set_feed(loop, own->feeds[i], own->values[i]);
        est_tensor_free(own->values[i]);
        own->values[i] = NULL;
    }
    return EST_OK;
}

static void feed_free(est_hook *hook)
{
    feed_fn_hook *own = EST_CONTAINER_OF(hook, feed_fn_hook, hook);

    est_free(own->nodes);
    est_free(own->feeds);
    est_free(own->values);
    est_free(own);
}

est_hook *est_feed_fn_hook(est_nodes nodes, est_feed_fn fn, void *user)
{
    feed_fn_hook *own;

    if (fn == NULL || nodes.n < 1) {
        (void)est_fail(EST_INVALID_ARGUMENT, "a feed hook needs a function and a node, got %d nodes%s", nodes.n,
                       fn == NULL ? " and no function" : "");
        return NULL;
    }
    own = est_hook_alloc(sizeof *own);
    if (own == NULL) return NULL;
    own->nodes  = copy_nodes(nodes);
    own->feeds  = est_hook_alloc((size_t)nodes.n * sizeof *own->feeds);
    own->values = est_hook_alloc((size_t)nodes.n * sizeof *own->values);
    if (own->nodes == NULL || own->feeds == NULL || own->values == NULL) {
        feed_free(&own->hook);
        return NULL;
    }
    own->n    = nodes.n;
    own->fn   = fn;
    own->user = user;
    own->hook = (est_hook)EST_HOOK(.begin = feed_begin, .before_run = feed_before_run, .free = feed_free);
    return &own->hook;
}
