/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact evaluation. The dataset is cut into shards, and a call evaluates one of them with states of its own at a
 * worker. A call completes once (Q1), so the sum of the states of all calls counts every example once. */
#include "base/argument.h"
#include "coordinator/functions.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "estoc/layers.h"
#include "graph/graph.h"
#include "nn/metric.h"
#include "tensor/tensor.h"

typedef struct evaluation {
    est_coordinator   *c;
    const est_metric  *metrics;
    int                n;
    est_nodes          states;  /* variables of the metrics */
    est_node          *reads;   /* [states.n]: their values */
    est_node          *targets; /* resets, then updates */
    est_function      *function;
    est_per_worker    *dataset;
    est_remote_value **values; /* [n_shards] */
    int64_t            n_shards;
    est_tensor       **sums; /* [states.n] */
    double            *out;
} evaluation;

/* --- the function ------------------------------------------------------------------------------------------------- */

/* Adds the variables that `node` depends on. */
static void find_states(const est_graph *graph, int32_t node, bool *seen, est_node *out, int *n)
{
    const est_node_def *def = est_graph_node(graph, node);

    if (seen[node]) return;
    seen[node] = true;
    if (def->op->source == EST_SOURCE_VARIABLE) {
        memcpy(&out[*n].graph, &graph, sizeof graph);
        out[*n].id     = node;
        out[*n].output = 0;
        (*n)++;
    }
    for (int32_t i = 0; i < def->n_in; i++) find_states(graph, def->in[i].node, seen, out, n);
    for (int32_t i = 0; i < def->n_control; i++) find_states(graph, def->control[i], seen, out, n);
}

static est_status check_states(const evaluation *e)
{
    est_nodes unsummed = est_graph_collection(e->c->graph, EST_UNSUMMED_STATES);

    for (int i = 0; i < unsummed.n; i++) {
        for (int k = 0; k < e->states.n; k++) {
            if (unsummed.data[i].id != e->states.data[k].id) continue;
            return est_fail(EST_INVALID_ARGUMENT,
                            "metric state '%s' has updates other than additions, so states of shards cannot be added",
                            est_node_name(unsummed.data[i]));
        }
    }
    return EST_OK;
}

/* The states are the variables that the resets assign. */
static est_status list_states(evaluation *e)
{
    size_t    size = (size_t)est_graph_size(e->c->graph) + 1;
    bool     *seen = est_zalloc(size);
    est_node *all  = est_zalloc(sizeof *all * size);
    int       n    = 0;

    e->targets = est_zalloc(sizeof *e->targets * 2 * ((size_t)e->n + 1));
    if (seen == NULL || all == NULL || e->targets == NULL) {
        est_free(seen);
        est_free(all);
        return est_no_memory();
    }
    for (int i = 0; i < e->n; i++) {
        e->targets[i]        = e->metrics[i].reset;
        e->targets[e->n + i] = e->metrics[i].update;
        find_states(e->c->graph, e->metrics[i].reset.id, seen, all, &n);
    }
    est_free(seen);
    e->states = (est_nodes){ all, n };
    return check_states(e);
}

/* A read of each state: one that the graph has, as every metric's value has, so that evaluations do not make it
 * grow. */
static est_node read_of(const est_graph *graph, est_node state)
{
    est_node read = EST_NO_NODE;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (strcmp(def->op->name, "ReadVariableOp") != 0 || def->in[0].node != state.id || def->n_control > 0) continue;
        read    = state;
        read.id = id;
        return read;
    }
    return est_read_variable(state);
}

static est_status make_function(evaluation *e, est_arguments arguments)
{
    est_node  *feeds  = est_zalloc(sizeof *feeds * ((size_t)arguments.n + 1));
    est_status status = feeds != NULL ? EST_OK : est_no_memory();

    e->reads = est_zalloc(sizeof *e->reads * ((size_t)e->states.n + 1));
    if (status == EST_OK && e->reads == NULL) status = est_no_memory();
    for (int i = 0; i < arguments.n && status == EST_OK; i++) feeds[i] = arguments.data[i].node;
    for (int i = 0; i < e->states.n && status == EST_OK; i++) e->reads[i] = read_of(e->c->graph, e->states.data[i]);
    if (status == EST_OK) {
        status = est_function_make(e->c,
                                   &(est_function_spec){ .name     = "exact evaluation",
                                                         .feeds    = { feeds, arguments.n },
                                                         .fetches  = { e->reads, e->states.n },
                                                         .targets  = { e->targets, 2 * e->n },
                                                         .states   = e->states,
                                                         .n_resets = e->n },
                                   &e->function);
    }
    est_free(feeds);
    return status;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Under `lock`. */
static est_status fill_shard(evaluation *e, est_arguments arguments, int64_t shard, est_scheduled *call)
{
    est_object_ref(&e->function->object);
    call->function = e->function;
    call->shard    = est_zalloc(sizeof *call->shard);
    if (call->shard == NULL) return est_no_memory();
    est_object_ref(&e->dataset->object);
    *call->shard = (est_shard_call){ e->dataset, e->n_shards, shard };
    for (int i = 0; i < arguments.n; i++) {
        call->feeds[i].component = est_per_worker_component(e->dataset, arguments.data[i].component);
        if (call->feeds[i].component == NULL) return est_no_memory();
    }
    est_refcount_add(&e->values[shard]->references);
    call->value = e->values[shard];
    return EST_OK;
}

/* Under `lock`. */
static est_status schedule_shard(evaluation *e, est_arguments arguments, int64_t shard)
{
    est_scheduled *call = est_call_queue_new(&e->c->queue, arguments.n);
    est_status     status;

    if (call == NULL) return est_no_memory();
    status = fill_shard(e, arguments, shard, call);
    if (status == EST_OK) return est_coordinator_enqueue(e->c, call);
    est_scheduled_free(e->c, call);
    return status;
}

/* An evaluation that has failed leaves no shard in the queue; those under way end by themselves. */
static void cancel_shards(const evaluation *e, est_status status)
{
    pthread_mutex_lock(&e->c->lock);
    est_calls_cancel_shards(e->c, e->dataset, status, est_error_message());
    pthread_mutex_unlock(&e->c->lock);
}

static est_status run_shards(evaluation *e, est_arguments arguments)
{
    est_status status = EST_OK;

    for (int64_t i = 0; i < e->n_shards && status == EST_OK; i++) {
        status = est_remote_value_make(e->c, e->states.n, &e->values[i]);
        if (status != EST_OK) break;
        pthread_mutex_lock(&e->c->lock);
        status = schedule_shard(e, arguments, i);
        pthread_mutex_unlock(&e->c->lock);
    }
    if (status == EST_OK) status = est_coordinator_join(e->c);
    if (status != EST_OK) cancel_shards(e, status);
    return status;
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

static est_status add(est_tensor *sum, const est_tensor *part)
{
    int64_t     n = est_tensor_count(sum);
    void       *a = est_tensor_mutable_data(sum);
    const void *b = est_tensor_data(part);

    if (est_tensor_dtype(sum) != est_tensor_dtype(part) || est_tensor_count(part) != n)
        return est_fail(EST_DATA_LOSS, "two shards have metric states of different types or sizes");
    switch (est_tensor_dtype(sum)) {
    case EST_F32:
        for (int64_t i = 0; i < n; i++) ((float *)a)[i] += ((const float *)b)[i];
        return EST_OK;
    case EST_F64:
        for (int64_t i = 0; i < n; i++) ((double *)a)[i] += ((const double *)b)[i];
        return EST_OK;
    case EST_I64:
        for (int64_t i = 0; i < n; i++) ((int64_t *)a)[i] += ((const int64_t *)b)[i];
        return EST_OK;
    default: return est_fail(EST_UNIMPLEMENTED, "metric states must be float32, float64 or int64 to be added");
    }
}

/* Shard by shard in their order, whatever the order of calls was: the sums are always the same. */
static est_status add_states(evaluation *e)
{
    for (int64_t shard = 0; shard < e->n_shards; shard++) {
        for (int i = 0; i < e->states.n; i++) {
            est_tensor *part;
            est_status  status;

            EST_TRY(est_remote_value_fetch(e->values[shard], i, &part));
            if (shard == 0) {
                e->sums[i] = part;
                continue;
            }
            status = add(e->sums[i], part);
            est_tensor_free(part);
            EST_TRY(status);
        }
    }
    return EST_OK;
}

static est_status read_values(est_coordinator *c, void *user)
{
    evaluation *e = user;

    for (int i = 0; i < e->states.n; i++) {
        const est_node_def *def = est_def(e->states.data[i]);

        EST_TRY(est_session_write(c->session, est_node_string(def, "shared_name"), e->sums[i]));
    }
    for (int i = 0; i < e->n; i++) {
        est_tensor *value;

        EST_TRY(est_session_run(c->session, EST_NO_FEEDS, EST_NODES(e->metrics[i].value), EST_NO_NODES, &value));
        e->out[i] = est_number_at(est_tensor_dtype(value), est_tensor_data(value), 0);
        est_tensor_free(value);
    }
    return EST_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static est_status check_dataset(const est_coordinator *c, const est_dataset *dataset, est_arguments arguments)
{
    if (est_dataset_endless(dataset)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_coordinator_evaluate: the dataset has no end: leave out its est_dataset_repeat");
    }
    for (int i = 0; i < arguments.n; i++) {
        const est_argument *a = &arguments.data[i];

        if (a->node.graph != c->graph)
            return est_fail(EST_INVALID_ARGUMENT, "est_coordinator_evaluate: argument %d is for no node of the graph",
                            i);
        EST_TRY(est_component_check(dataset, a->component, "est_coordinator_evaluate", a->node));
    }
    return EST_OK;
}

static est_status check_arguments(const est_coordinator *c, est_arguments arguments, const est_metric *metrics, int n)
{
    EST_REQUIRE_LIST("est_coordinator_evaluate: arguments", arguments);
    for (int i = 0; i < arguments.n; i++) {
        const est_argument *a = &arguments.data[i];

        if (a->component != NULL && a->from == NULL && a->value == NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_coordinator_evaluate: argument %d must be { node, .component = \"name\" }, a component of "
                        "the dataset",
                        i);
    }
    for (int i = 0; i < n; i++) {
        if (metrics[i].update.graph != c->graph || metrics[i].reset.graph != c->graph)
            return est_fail(EST_INVALID_ARGUMENT, "metric %d is not of the coordinator's graph", i);
    }
    return n > 0 ? EST_OK : est_fail(EST_INVALID_ARGUMENT, "est_coordinator_evaluate: there are no metrics");
}

static void clear(evaluation *e)
{
    for (int64_t i = 0; e->values != NULL && i < e->n_shards; i++) est_remote_value_free(e->values[i]);
    for (int i = 0; e->sums != NULL && i < e->states.n; i++) est_tensor_free(e->sums[i]);
    est_free(e->values);
    est_free(e->sums);
    est_free(e->reads);
    est_free(e->targets);
    est_free((void *)(uintptr_t)e->states.data);
    est_function_free(e->function);
    est_per_worker_free(e->dataset);
}

static est_status evaluate(evaluation *e, const est_dataset *dataset, est_arguments arguments)
{
    EST_TRY(list_states(e));
    EST_TRY(make_function(e, arguments));
    EST_TRY(est_per_worker_dataset_make(e->c, dataset, "dataset of an evaluation", false, &e->dataset));
    e->dataset->same_order = true; /* so that shards are parts of one sequence */
    e->values              = est_zalloc(sizeof(est_remote_value *) * (size_t)e->n_shards);
    e->sums                = est_zalloc(sizeof(est_tensor *) * ((size_t)e->states.n + 1));
    if (e->values == NULL || e->sums == NULL) return est_no_memory();
    EST_TRY(run_shards(e, arguments));
    EST_TRY(add_states(e));
    return est_coordinator_use_session(e->c, read_values, e);
}

est_status est_coordinator_evaluate(est_coordinator *coordinator, const est_dataset *dataset, est_arguments arguments,
                                    const est_metric *metrics, int n, const est_exact_options *options, double *values)
{
    est_exact_options o;
    evaluation        e = { .c = coordinator, .metrics = metrics, .n = n, .out = values };
    est_status        status;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(dataset);
    EST_REQUIRE(metrics);
    EST_REQUIRE(values);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_exact_options), options, &o));
    EST_TRY(check_arguments(coordinator, arguments, metrics, n));
    EST_TRY(check_dataset(coordinator, dataset, arguments));
    if (o.shards < 0) return est_fail(EST_INVALID_ARGUMENT, "est_coordinator_evaluate: shards is %d", o.shards);
    e.n_shards = o.shards > 0 ? o.shards : coordinator->n_workers;
    EST_TRY(est_coordinator_join(coordinator));
    status = evaluate(&e, dataset, arguments);
    clear(&e);
    return status;
}
