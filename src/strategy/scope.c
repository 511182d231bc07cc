/* SPDX-License-Identifier: Apache-2.0
 *
 * What a strategy does to a graph: scopes, replicas, and reductions across them. */
#include "strategy/scope.h"
#include "nn/replicas_reduce.h"
#include "strategy/replicas_build.h"

/* --- scopes ------------------------------------------------------------------------------------------------------- */

/* Whether the graph is this strategy's or nobody's, and outside of replicas; poisons it otherwise. */
static bool is_free(const est_strategy *strategy, est_graph *graph, const char *what)
{
    const est_replicas *r = est_graph_replicas(graph);

    if (est_graph_poisoned(graph)) return false;
    if (r != NULL && r->owner != strategy) {
        (void)est_graph_poison(
            graph, est_graph_blame(est_fail(EST_FAILED_PRECONDITION,
                                            "%s: mixing different strategies: the graph is in the scope of %s, and "
                                            "this is another one, %s",
                                            what, est_strategy_name(r->owner), est_strategy_name(strategy))));
        return false;
    }
    if (r != NULL && r->current >= 0) {
        (void)est_graph_poison(graph, est_graph_blame(est_fail(EST_FAILED_PRECONDITION,
                                                               "%s is called in a replica; it is for the context "
                                                               "across replicas, or for est_replica_merge_call",
                                                               what)));
        return false;
    }
    return true;
}

void est_strategy_scope(const est_strategy *strategy, est_graph *graph)
{
    est_replicas *r = est_graph_replicas(graph);

    if (!is_free(strategy, graph, "est_strategy_scope")) return;
    if (r == NULL) {
        r = est_arena_alloc(est_graph_arena(graph), sizeof *r);
        if (r == NULL) {
            (void)est_graph_poison(graph, est_no_memory());
            return;
        }
        *r = est_strategy_replicas(strategy);
        est_graph_set_replicas(graph, r);
    }
    r->depth++;
}

void est_strategy_scope_end(const est_strategy *strategy, est_graph *graph)
{
    est_replicas *r = est_graph_replicas(graph);

    if (!is_free(strategy, graph, "est_strategy_scope_end")) return;
    if (r == NULL || r->depth == 0) {
        (void)est_graph_poison(graph,
                               est_fail(EST_FAILED_PRECONDITION, "est_strategy_scope_end without est_strategy_scope"));
        return;
    }
    if (--r->depth == 0 && r->merge == NULL)
        est_graph_set_replicas(graph, NULL); /* not in a merge, whose replicas stay */
}

bool est_strategy_enter(const est_strategy *strategy, est_graph *graph, const char *what, est_replicas *own)
{
    if (!is_free(strategy, graph, what)) return false;
    if (est_graph_replicas(graph) == NULL) {
        *own = est_strategy_replicas(strategy);
        est_graph_set_replicas(graph, own);
    }
    return true;
}

void est_strategy_leave(est_graph *graph, const est_replicas *own)
{
    if (est_graph_replicas(graph) == own) est_graph_set_replicas(graph, NULL);
}

/* --- replicas ----------------------------------------------------------------------------------------------------- */

static est_replica_context context_of(const est_strategy *strategy, est_graph *graph, const est_replicas *r, int i)
{
    return (est_replica_context){ .strategy                 = strategy,
                                  .graph                    = graph,
                                  .replica                  = i,
                                  .replica_id_in_sync_group = r->first_global + i,
                                  .num_replicas_in_sync     = r->total };
}

/* Room for a node of each replica; NULL: the graph was poisoned. */
static est_node *node_list(est_graph *graph, int n)
{
    est_node *list = est_arena_alloc(est_graph_arena(graph), sizeof *list * (size_t)n);

    if (list == NULL) (void)est_graph_poison(graph, est_no_memory());
    return list;
}

/* One est_strategy_run. */
typedef struct job {
    const est_strategy *strategy;
    est_graph          *graph;
    est_replica_fn      fn;
    void               *user;
    est_node           *results;
} job;

static est_status build_replica(int replica, void *user)
{
    const job          *j       = user;
    est_replica_context context = context_of(j->strategy, j->graph, est_graph_replicas(j->graph), replica);

    est_strategy_pin(j->strategy, j->graph, replica);
    j->results[replica] = j->fn(&context, j->user);
    return EST_OK; /* builders poison the graph on failure */
}

static bool has_function(est_graph *graph, est_replica_fn fn)
{
    if (fn == NULL) (void)est_nn_fail(graph, "the function that builds a replica is NULL");
    return fn != NULL;
}

est_per_replica est_strategy_run(const est_strategy *strategy, est_graph *graph, est_replica_fn fn, void *user)
{
    est_replicas replicas = est_strategy_replicas(strategy);
    job          j        = { strategy, graph, fn, user, NULL };

    if (!is_free(strategy, graph, "est_strategy_run") || !has_function(graph, fn)) return (est_per_replica){ 0 };
    j.results = node_list(graph, replicas.n);
    if (j.results == NULL || est_replicas_build(graph, replicas, build_replica, &j) != EST_OK) {
        return (est_per_replica){ 0 };
    }
    return (est_per_replica){ j.results, replicas.n };
}

est_per_replica est_strategy_values_from_function(const est_strategy *strategy, est_graph *graph, est_replica_fn fn,
                                                  void *user)
{
    est_replicas own, replicas = est_strategy_replicas(strategy);
    est_node    *values;

    if (!has_function(graph, fn) || !est_strategy_enter(strategy, graph, "est_strategy_values_from_function", &own)) {
        return (est_per_replica){ 0 };
    }
    values = node_list(graph, replicas.n);
    for (int i = 0; i < replicas.n && values != NULL; i++) {
        est_replica_context context = context_of(strategy, graph, &replicas, i);
        values[i]                   = fn(&context, user);
    }
    est_strategy_leave(graph, &own);
    return values == NULL || est_graph_poisoned(graph) ? (est_per_replica){ 0 }
                                                       : (est_per_replica){ values, replicas.n };
}

/* --- across replicas ---------------------------------------------------------------------------------------------- */

/* The graph of the values, of which there must be one for each replica; NULL: it was poisoned, or there is none. */
static est_graph *graph_of(const est_strategy *strategy, est_per_replica values, const char *what)
{
    int        n     = est_strategy_replicas(strategy).n;
    est_graph *graph = values.n > 0 && values.data != NULL ? values.data[0].graph : NULL;

    if (graph == NULL || est_graph_poisoned(graph)) return NULL;
    for (int i = 0; i < values.n; i++) {
        if (est_def(values.data[i]) != NULL && values.data[i].graph == graph) continue;
        (void)est_nn_fail(graph, "%s: replica %d has no value", what, i);
        return NULL;
    }
    if (values.n == n) return graph;
    (void)est_nn_fail(graph, "%s: got %d values, but %s has %d replicas here", what, values.n,
                      est_strategy_name(strategy), n);
    return NULL;
}

/* The result after a failure. */
static est_node failed(est_per_replica values)
{
    est_graph *graph = values.n > 0 && values.data != NULL ? values.data[0].graph : NULL;

    return graph != NULL ? est_graph_poison(graph, EST_INVALID_ARGUMENT) : EST_NO_NODE;
}

static bool check_axis(est_per_replica values, int axis, const char *what)
{
    int  rank = est_node_shape(values.data[0])->rank;
    char text[EST_SHAPE_TEXT_MAX];

    if (rank > 0 && axis >= -rank && axis < rank) return true;
    (void)est_nn_fail(values.data[0].graph,
                      "%s: axis %d of values %s; it needs a known rank of 1 or more, and an axis "
                      "in it",
                      what, axis, est_shape_text(est_node_shape(values.data[0]), text));
    return false;
}

static est_node reduce_all(est_graph *graph, est_reduce_op op, const est_node *values)
{
    est_replica_reduction reduction = est_replica_reduction_begin(graph, op, NULL);

    return est_replica_reduce_value(&reduction, values);
}

static est_node reduce_axis(est_graph *graph, est_reduce_op op, est_per_replica values, int axis)
{
    est_node *sums = node_list(graph, values.n), *counts = node_list(graph, values.n), sum;
    est_dtype dtype = est_node_dtype(values.data[0]);

    if (sums == NULL || counts == NULL) return failed(values);
    for (int i = 0; i < values.n; i++) sums[i] = est_reduce_sum(values.data[i], EST_I64S(axis), false);
    sum = reduce_all(graph, EST_REDUCE_OP_SUM, sums);
    if (op == EST_REDUCE_OP_SUM) return sum;
    for (int i = 0; i < values.n; i++) counts[i] = est_cast(est_nn_dim(values.data[i], axis), dtype);
    return est_div(sum, reduce_all(graph, EST_REDUCE_OP_SUM, counts));
}

est_node est_strategy_reduce(const est_strategy *strategy, est_reduce_op op, est_per_replica values, int axis)
{
    est_graph   *graph = graph_of(strategy, values, "est_strategy_reduce");
    est_replicas own;
    est_node     result;

    if (graph == NULL || !est_strategy_enter(strategy, graph, "est_strategy_reduce", &own)) return failed(values);
    if (op != EST_REDUCE_OP_SUM && op != EST_REDUCE_OP_MEAN) {
        result = est_nn_fail(
            graph, "est_strategy_reduce: unknown operation %d; expected EST_REDUCE_OP_SUM or EST_REDUCE_OP_MEAN",
            (int)op);
    } else if (axis == EST_NO_AXIS) {
        result = reduce_all(graph, op, values.data);
    } else {
        result = check_axis(values, axis, "est_strategy_reduce") ? reduce_axis(graph, op, values, axis)
                                                                 : failed(values);
    }
    est_strategy_leave(graph, &own);
    return result;
}

/* Gathers across workers along an axis that is not the first, by swapping the two. */
static est_node gather_across_workers(est_node value, int axis)
{
    int64_t there[EST_RANK_MAX], back[EST_RANK_MAX];
    int     rank = est_node_shape(value)->rank;

    if (axis < 0) axis += rank;
    if (axis == 0) return est_gather_across(value);
    for (int i = 0; i < rank; i++) there[i] = back[i] = i;
    there[0] = back[0] = axis;
    there[axis] = back[axis] = 0; /* the swap is its own inverse */
    value                    = est_gather_across(est_transpose(value, (est_i64s){ there, rank }));
    return est_transpose(value, (est_i64s){ back, rank });
}

est_node est_strategy_gather(const est_strategy *strategy, est_per_replica values, int axis)
{
    est_graph   *graph = graph_of(strategy, values, "est_strategy_gather");
    est_replicas own;
    est_node     result;

    if (graph == NULL || !est_strategy_enter(strategy, graph, "est_strategy_gather", &own)) return failed(values);
    if (check_axis(values, axis, "est_strategy_gather")) {
        result = values.n > 1 ? est_concat((est_nodes){ values.data, values.n }, axis) : values.data[0];
        if (est_graph_replicas(graph)->across_workers) result = gather_across_workers(result, axis);
    } else {
        result = failed(values);
    }
    est_strategy_leave(graph, &own);
    return result;
}

/* --- in a replica ------------------------------------------------------------------------------------------------- */

/* A replica's call of est_replica_merge_call. */
typedef struct call {
    const est_strategy *strategy;
    est_merge_fn        fn;
    est_node            value;
    void               *user;
} call;

static est_node merge_call(est_graph *graph, void *const *brought, int n)
{
    const call *first  = brought[0];
    est_node   *values = node_list(graph, n);

    if (values == NULL) return est_graph_poison(graph, EST_RESOURCE_EXHAUSTED);
    for (int i = 0; i < n; i++) {
        const call *c = brought[i];

        if (c->fn != first->fn) {
            return est_nn_fail(graph, "est_replica_merge_call: replica %d merges with another function than replica 0",
                               i);
        }
        values[i] = c->value;
    }
    return first->fn(first->strategy, (est_per_replica){ values, n }, first->user);
}

est_node est_replica_merge_call(const est_replica_context *context, est_merge_fn fn, est_node value, void *user)
{
    call c = { .fn = fn, .value = value, .user = user };

    if (context == NULL) return EST_NO_NODE;
    c.strategy = context->strategy;
    if (fn == NULL) return est_nn_fail(context->graph, "est_replica_merge_call: fn is NULL");
    if (est_graph_poisoned(context->graph)) return est_graph_poison(context->graph, EST_INVALID_ARGUMENT);
    if (!est_in_replica(context->graph)) {
        return est_nn_fail(context->graph, "est_replica_merge_call is for replicas: call it in the function of "
                                           "est_strategy_run");
    }
    return est_replicas_merge(context->graph, merge_call, &c);
}

static est_node reduce_values(const est_strategy *strategy, est_per_replica values, void *user)
{
    return est_strategy_reduce(strategy, *(const est_reduce_op *)user, values, EST_NO_AXIS);
}

static est_node gather_values(const est_strategy *strategy, est_per_replica values, void *user)
{
    return est_strategy_gather(strategy, values, *(const int *)user);
}

est_node est_replica_all_reduce(const est_replica_context *context, est_reduce_op op, est_node value)
{
    return est_replica_merge_call(context, reduce_values, est_stop_gradient(value), &op);
}

est_node est_replica_all_gather(const est_replica_context *context, est_node value, int axis)
{
    return est_replica_merge_call(context, gather_values, est_stop_gradient(value), &axis);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

/* The number of replicas of a loss; 0: it is in no replica, and the graph was poisoned. */
static int replicas_of(est_graph *graph, const char *what)
{
    const est_replicas *r = est_graph_replicas(graph);

    if (r == NULL || r->current >= 0 || r->total == 1) return r != NULL ? r->total : 1;
    (void)est_nn_fail(graph,
                      "%s is called across replicas; it is for the loss of one: call it in the function of "
                      "est_strategy_run",
                      what);
    return 0;
}

est_node est_compute_average_loss(est_node per_example_loss, est_node sample_weight, int64_t global_batch_size)
{
    est_graph *graph = per_example_loss.graph;
    est_dtype  dtype = est_node_dtype(per_example_loss);
    est_node   examples;
    int        n;

    if (graph == NULL || est_graph_poisoned(graph)) return per_example_loss;
    n = replicas_of(graph, "est_compute_average_loss");
    if (n == 0) return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    if (global_batch_size < 0 || est_node_shape(per_example_loss)->rank == 0) {
        return est_nn_fail(graph,
                           "est_compute_average_loss: a global batch of %lld and losses of rank %d; it needs the "
                           "loss of each example",
                           (long long)global_batch_size, est_node_shape(per_example_loss)->rank);
    }
    examples = global_batch_size > 0 ? est_scalar(graph, dtype, (double)global_batch_size)
                                     : est_scale(est_cast(est_nn_dim(per_example_loss, 0), dtype), n);
    if (sample_weight.graph != NULL) {
        per_example_loss = est_mul(per_example_loss, est_nn_align_weights(sample_weight, per_example_loss));
    }
    return est_div_no_nan(est_sum(per_example_loss), examples);
}

est_node est_scale_regularization_loss(est_node loss)
{
    int n;

    if (loss.graph == NULL || est_graph_poisoned(loss.graph)) return loss;
    n = replicas_of(loss.graph, "est_scale_regularization_loss");
    if (n == 0) return est_graph_poison(loss.graph, EST_INVALID_ARGUMENT);
    return est_scale(est_sum(loss), 1.0 / n);
}
