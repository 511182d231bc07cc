/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables that replicas write: their values are aggregated when they are written, or when they are read. */
#include "nn/replicas_reduce.h"
#include "runtime/session.h"
#include "strategy/scope.h"

static bool on_read(const est_distributed_variable *v)
{
    return v->synchronization == EST_SYNCHRONIZATION_ON_READ;
}

static est_graph *graph_of(const est_distributed_variable *v)
{
    return v != NULL && v->copies.n > 0 ? v->copies.data[0].graph : NULL;
}

/* --- create ------------------------------------------------------------------------------------------------------- */

static bool check_variable(est_graph *graph, const char *name, const est_distributed_variable_options *o)
{
    if (o->synchronization < 0 || o->synchronization > EST_SYNCHRONIZATION_ON_READ || o->aggregation < 0 ||
        o->aggregation > EST_AGGREGATION_ONLY_FIRST_REPLICA) {
        (void)est_nn_fail(graph, "variable '%s': unknown synchronization %d or aggregation %d", name,
                          (int)o->synchronization, (int)o->aggregation);
    } else if (o->trainable && o->synchronization == EST_SYNCHRONIZATION_ON_READ) {
        (void)est_nn_fail(graph, "variable '%s' is trainable and synchronized on read: its copies would train apart",
                          name);
    }
    return !est_graph_poisoned(graph);
}

/* A copy for each replica, all with one initial value. */
static void make_copies(est_graph *graph, const char *name, est_shape shape, const est_distributed_variable_options *o,
                        est_node *copies, int n)
{
    est_node value = est_initial_value(o->initializer, graph, o->dtype, shape);

    for (int i = 0; i < n; i++) {
        char *full = est_arena_printf(est_graph_arena(graph), i > 0 ? "%s/replica_%d" : "%s", name, i);

        if (full == NULL) {
            (void)est_graph_poison(graph, est_no_memory());
            return;
        }
        copies[i] = est_variable(graph, full, o->dtype, shape);
        est_variable_initializer(copies[i], value);
        if (est_graph_poisoned(graph)) return;
        est_graph_collect(graph, "global_variables", copies[i]);
        est_graph_collect(graph, EST_OWN_VARIABLES, copies[i]);
    }
}

est_distributed_variable est_strategy_variable(const est_strategy *strategy, est_graph *graph, const char *name,
                                               est_shape shape, const est_distributed_variable_options *options)
{
    est_distributed_variable_options o;
    est_distributed_variable         v = { .strategy = strategy };
    est_replicas                     own;
    est_node                        *copies;
    int                              n = est_strategy_replicas(strategy).n;

    if (!est_strategy_enter(strategy, graph, "est_strategy_variable", &own)) return v;
    copies = est_arena_alloc(est_graph_arena(graph), sizeof *copies * (size_t)n);
    if (copies == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
    } else if (EST_OPTIONS(graph, est_distributed_variable_options, options, o) && check_variable(graph, name, &o)) {
        if (o.dtype == EST_DTYPE_NONE) o.dtype = EST_F32;
        if (o.initializer.make == NULL) o.initializer = est_init_zeros();
        v.synchronization = o.synchronization != EST_SYNCHRONIZATION_AUTO ? o.synchronization
                                                                          : EST_SYNCHRONIZATION_ON_WRITE;
        v.aggregation     = o.aggregation;
        v.copies          = (est_per_replica){ copies, n };
        if (on_read(&v)) {
            make_copies(graph, name, shape, &o, copies, n);
        } else {
            copies[0] = est_weight(graph, name, shape,
                                   EST_WEIGHT(.dtype = o.dtype, .initializer = o.initializer, .frozen = !o.trainable));
            for (int i = 1; i < n; i++) copies[i] = copies[0];
        }
    }
    est_strategy_leave(graph, &own);
    return v;
}

/* --- aggregate ---------------------------------------------------------------------------------------------------- */

/* 1 on the first worker that has a batch, 0 on the others. A worker without a batch feeds zeros, also to `there`. */
static est_node is_first(est_graph *graph)
{
    est_node there = est_gather_across(est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 }));

    return est_cast(est_equal(est_argmax(there, 0), est_output(there, 1)), EST_F32);
}

/* The value of the first replica of all workers: a sum in which only that one has a weight. */
static est_node first_value(est_graph *graph, est_node value)
{
    if (!est_graph_replicas(graph)->across_workers) return value;
    if (est_node_dtype(value) != EST_I32) return est_reduce_across(value, is_first(graph), false);
    return est_cast(est_reduce_across(est_cast(value, EST_I64), is_first(graph), false), EST_I32);
}

/* One value from those of all replicas. */
static est_node aggregate(est_graph *graph, est_aggregation how, const est_node *values)
{
    est_replica_reduction reduction;

    if (how == EST_AGGREGATION_ONLY_FIRST_REPLICA) return first_value(graph, values[0]);
    reduction = est_replica_reduction_begin(graph, how == EST_AGGREGATION_SUM ? EST_REDUCE_OP_SUM : EST_REDUCE_OP_MEAN,
                                            NULL);
    return est_replica_reduce_value(&reduction, values);
}

static est_node unaggregated(const est_distributed_variable *v, const char *what)
{
    return est_nn_fail(graph_of(v),
                       "variable '%s' is %s and has no aggregation; make it with EST_AGGREGATION_SUM, "
                       "EST_AGGREGATION_MEAN or EST_AGGREGATION_ONLY_FIRST_REPLICA",
                       est_node_name(v->copies.data[0]), what);
}

/* --- read --------------------------------------------------------------------------------------------------------- */

static est_node read_across(const est_distributed_variable *v, est_graph *graph)
{
    est_node    *values = est_arena_alloc(est_graph_arena(graph), sizeof *values * (size_t)v->copies.n);
    est_replicas own;
    est_node     value;

    if (values == NULL) return est_graph_poison(graph, est_no_memory());
    if (!est_strategy_enter(v->strategy, graph, "est_distributed_read without a context", &own)) {
        return est_graph_poison(graph, EST_FAILED_PRECONDITION);
    }
    for (int i = 0; i < v->copies.n; i++) values[i] = est_read_variable(v->copies.data[i]);
    value = aggregate(graph, v->aggregation, values);
    est_strategy_leave(graph, &own);
    return value;
}

est_node est_distributed_read(const est_distributed_variable *variable, const est_replica_context *context)
{
    est_graph *graph = graph_of(variable);

    if (graph == NULL || est_graph_poisoned(graph)) return graph != NULL ? variable->copies.data[0] : EST_NO_NODE;
    if (context != NULL) return est_read_variable(variable->copies.data[context->replica]);
    if (!on_read(variable)) return est_read_variable(variable->copies.data[0]);
    if (variable->aggregation == EST_AGGREGATION_NONE) return unaggregated(variable, "read across replicas");
    return read_across(variable, graph);
}

/* --- write -------------------------------------------------------------------------------------------------------- */

/* A replica's write, which is merged with those of the others. */
typedef struct writing {
    const est_distributed_variable *variable;
    est_node                        value;
    est_node (*write)(est_node variable, est_node value);
} writing;

static est_node write_merged(est_graph *graph, void *const *args, int n)
{
    const writing *first  = args[0];
    est_node      *values = est_arena_alloc(est_graph_arena(graph), sizeof *values * (size_t)n);

    if (values == NULL) return est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < n; i++) {
        const writing *w = args[i];

        if (w->write != first->write || w->variable->copies.data[0].id != first->variable->copies.data[0].id) {
            return est_nn_fail(graph, "replica %d writes another variable than replica 0, or with another operation",
                               i);
        }
        values[i] = w->value;
    }
    return first->write(first->variable->copies.data[0], aggregate(graph, first->variable->aggregation, values));
}

/* Writes every copy, across replicas. */
static est_node write_copies(const writing *w, est_graph *graph)
{
    const est_distributed_variable *v = w->variable;
    est_node *writes                  = est_arena_alloc(est_graph_arena(graph), sizeof *writes * (size_t)v->copies.n);
    est_node  value                   = w->value;

    if (writes == NULL) return est_graph_poison(graph, est_no_memory());
    if (v->aggregation == EST_AGGREGATION_SUM) {
        if (w->write != est_assign) {
            return est_nn_fail(graph, "variable '%s' is the sum of its replicas' copies: add to it in a replica",
                               est_node_name(v->copies.data[0]));
        }
        value = est_scale(value, 1.0 / est_strategy_num_replicas_in_sync(v->strategy));
    }
    for (int i = 0; i < v->copies.n; i++) writes[i] = w->write(v->copies.data[i], value);
    return est_group(graph, (est_nodes){ writes, v->copies.n });
}

static est_node write_variable(const est_replica_context *context, const writing *w)
{
    const est_distributed_variable *v     = w->variable;
    est_graph                      *graph = graph_of(v);

    if (graph == NULL || est_graph_poisoned(graph)) return graph != NULL ? v->copies.data[0] : EST_NO_NODE;
    if (context == NULL) {
        if (est_in_replica(graph)) {
            return est_nn_fail(graph, "variable '%s' is written in a replica: give the replica's context",
                               est_node_name(v->copies.data[0]));
        }
        return on_read(v) ? write_copies(w, graph) : w->write(v->copies.data[0], w->value);
    }
    if (on_read(v)) return w->write(v->copies.data[context->replica], w->value);
    if (v->aggregation == EST_AGGREGATION_NONE) return unaggregated(v, "written in a replica");
    return est_replicas_merge(graph, write_merged, (void *)(uintptr_t)w);
}

est_node est_distributed_assign(const est_distributed_variable *variable, const est_replica_context *context,
                                est_node value)
{
    return write_variable(context, &(writing){ variable, value, est_assign });
}

est_node est_distributed_assign_add(const est_distributed_variable *variable, const est_replica_context *context,
                                    est_node value)
{
    return write_variable(context, &(writing){ variable, value, est_assign_add });
}
