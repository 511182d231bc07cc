/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming metrics: means, precision and recall, per-class ones, and those of the user's own. The area under a curve
 * is in nn/auc.c.
 *
 * T += sum(w x), C += sum(w), value T / C: most metrics are this mean of something. */
#include "base/argument.h"
#include "nn/metric.h"

/* --- common parts ------------------------------------------------------------------------------------------------- */

est_metric est_metric_none(est_node of)
{
    est_node bad = of.graph == NULL ? of : est_graph_poison(of.graph, EST_INVALID_ARGUMENT);

    return (est_metric){ bad, bad, bad };
}

bool est_metric_begin(est_metric_build *m, est_node of, const char *name, const est_metric_options *options)
{
    *m = (est_metric_build){ .graph = of.graph };
    if (of.graph == NULL || est_graph_poisoned(of.graph)) return false;
    if (!EST_OPTIONS(of.graph, est_metric_options, options, m->o)) return false;
    est_scope_push(of.graph, m->o.name != NULL ? m->o.name : name);
    return true;
}

static est_node make_state(est_graph *graph, const char *name, est_dtype dtype, est_shape shape, bool shared)
{
    est_node state;

    if (dtype != EST_F32 && dtype != EST_F64 && dtype != EST_I64) {
        return est_nn_fail(graph, "the metric state '%s' is %s; it must be float32, float64 or int64", name,
                           est_dtype_name(dtype));
    }
    est_reuse_begin_new(graph);
    state = est_nn_variable(graph, name, dtype, shape, est_init_zeros(),
                            shared ? "global_variables" : "local_variables");
    est_reuse_end(graph);
    if (shared && est_def(state) != NULL) est_graph_collect(graph, EST_SHARED_STATES, state);
    return state;
}

/* A lost ps task must cost a metric all of its states or none, or its value would be wrong without notice. */
static void colocate(est_node first, est_node state)
{
    if (est_def(first) == NULL || est_def(state) == NULL || est_in_later_replica(first.graph)) return;
    est_reuse_begin_new(first.graph); /* a pair for each state, whatever the list has */
    est_graph_collect(first.graph, EST_COLOCATED, first);
    est_graph_collect(first.graph, EST_COLOCATED, state);
    est_reuse_end(first.graph);
}

/* A shared state at the device of the first one. */
static est_node make_next_state(const est_metric_build *m, const char *name, est_shape shape)
{
    est_colocation before = est_graph_colocate(m->graph, m->state[0]);
    est_node       state  = make_state(m->graph, name, EST_F32, shape, true);

    est_graph_colocate_end(m->graph, before);
    colocate(m->state[0], state);
    return state;
}

est_node est_metric_sum(est_metric_build *m, const char *name, est_node value)
{
    est_shape shape = *est_node_shape(value);
    est_node  state = m->o.shared && m->n > 0 ? make_next_state(m, name, shape)
                                              : make_state(m->graph, name, EST_F32, shape, m->o.shared);
    int       i     = m->n++;

    m->state[i]  = state;
    m->update[i] = est_metric_add(state, value);
    m->reset[i]  = est_assign(state, est_initial_value(est_init_zeros(), m->graph, EST_F32, shape));
    return est_read_variable(state);
}

est_metric est_metric_end(est_metric_build *m, est_node value)
{
    est_metric metric = { .value = est_named(est_identity(value), "value") };

    metric.update = est_named(est_group(m->graph, (est_nodes){ m->update, m->n }), "update_op");
    metric.reset  = est_named(est_group(m->graph, (est_nodes){ m->reset, m->n }), "reset");
    est_scope_pop(m->graph);
    return metric;
}

est_node est_metric_f32(est_node x)
{
    return est_node_dtype(x) == EST_F32 ? x : est_cast(x, EST_F32);
}

est_node est_metric_weights(const est_metric_build *m, est_node values)
{
    est_node ones = est_ones_like(values);

    return m->o.weights.graph == NULL ? ones : est_mul(ones, est_nn_align_weights(m->o.weights, values));
}

static void need_one_shape(est_node labels, est_node predictions)
{
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_def(labels) == NULL || est_def(predictions) == NULL) return;
    if (est_infer_merge(est_node_shape(labels), est_node_shape(predictions), &merged) == EST_OK) return;
    (void)est_nn_fail(predictions.graph,
                      "the metric needs labels and predictions of one shape, got %s and %s; where predictions have a "
                      "column for each class, labels are one-hot rows",
                      est_shape_text(est_node_shape(labels), a), est_shape_text(est_node_shape(predictions), b));
}

void est_metric_align(est_node *labels, est_node *predictions)
{
    int l = est_node_shape(*labels)->rank, p = est_node_shape(*predictions)->rank;

    if (l > 0 && l == p + 1 && est_node_dim(*labels, -1) == 1) *labels = est_squeeze(*labels, EST_I64S(-1));
    if (p > 0 && p == l + 1 && est_node_dim(*predictions, -1) == 1)
        *predictions = est_squeeze(*predictions, EST_I64S(-1));
    need_one_shape(*labels, *predictions);
}

est_node est_metric_truth(est_node x)
{
    est_dtype dtype = est_node_dtype(x);

    if (dtype == EST_F32 || dtype == EST_F64) {
        return est_cast(est_greater(x, est_scalar(x.graph, dtype, 0.5)), EST_F32);
    }
    return est_cast(dtype == EST_BOOL ? x : est_cast(x, EST_BOOL), EST_F32);
}

/* --- means -------------------------------------------------------------------------------------------------------- */

/* sum(w x) / sum(w) of x in an open metric. */
static est_node streaming_mean(est_metric_build *m, est_node x)
{
    est_node values = est_metric_f32(x), weights = est_metric_weights(m, values);
    est_node total = est_metric_sum(m, "total", est_sum(est_mul(values, weights)));
    est_node count = est_metric_sum(m, "count", est_sum(weights));

    return est_div_no_nan(total, count);
}

/* A mean of `measure` over labels and predictions. */
typedef est_node (*measure_fn)(est_node labels, est_node predictions);

static est_metric mean_of(est_node labels, est_node predictions, const char *name, measure_fn measure,
                          est_node (*value)(est_node mean), const est_metric_options *options)
{
    est_metric_build m;
    est_node         mean;

    if (!est_metric_begin(&m, predictions, name, options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    mean = streaming_mean(&m, measure(labels, predictions));
    return est_metric_end(&m, value != NULL ? value(mean) : mean);
}

est_metric est_metric_mean(est_node values, const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, values, "mean", options)) return est_metric_none(values);
    return est_metric_end(&m, streaming_mean(&m, values));
}

static est_node matches(est_node labels, est_node predictions)
{
    if (est_node_dtype(labels) != est_node_dtype(predictions))
        predictions = est_cast(predictions, est_node_dtype(labels));
    return est_equal(labels, predictions);
}

static est_node error(est_node labels, est_node predictions)
{
    return est_sub(est_metric_f32(predictions), est_metric_f32(labels));
}

static est_node absolute_error(est_node labels, est_node predictions)
{
    return est_abs(error(labels, predictions));
}

static est_node squared_error(est_node labels, est_node predictions)
{
    return est_square(error(labels, predictions));
}

est_metric est_metric_accuracy(est_node labels, est_node predictions, const est_metric_options *options)
{
    return mean_of(labels, predictions, "accuracy", matches, NULL, options);
}

est_metric est_accuracy(est_node labels, est_node predictions)
{
    return est_metric_accuracy(labels, predictions, NULL);
}

est_metric est_metric_mean_absolute_error(est_node labels, est_node predictions, const est_metric_options *options)
{
    return mean_of(labels, predictions, "mean_absolute_error", absolute_error, NULL, options);
}

est_metric est_metric_mean_squared_error(est_node labels, est_node predictions, const est_metric_options *options)
{
    return mean_of(labels, predictions, "mean_squared_error", squared_error, NULL, options);
}

est_metric est_metric_root_mean_squared_error(est_node labels, est_node predictions, const est_metric_options *options)
{
    return mean_of(labels, predictions, "root_mean_squared_error", squared_error, est_sqrt, options);
}

est_metric est_metric_mean_relative_error(est_node labels, est_node predictions, est_node normalizer,
                                          const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, predictions, "mean_relative_error", options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    est_metric_align(&normalizer, &predictions);
    return est_metric_end(
        &m, streaming_mean(&m, est_div_no_nan(absolute_error(labels, predictions), est_metric_f32(normalizer))));
}

est_metric est_metric_mean_cosine_distance(est_node labels, est_node predictions, int axis,
                                           const est_metric_options *options)
{
    est_metric_build m;
    est_node         product;

    if (!est_metric_begin(&m, predictions, "mean_cosine_distance", options)) return est_metric_none(predictions);
    product = est_mul(est_metric_f32(predictions), est_metric_f32(labels));
    product = est_reduce_sum(product, EST_I64S(axis), true);
    return est_metric_end(&m, est_shift(est_neg(streaming_mean(&m, product)), 1));
}

/* --- precision and recall ----------------------------------------------------------------------------------------- */

/* tp / (tp + other): other is false positives for precision, false negatives for recall. */
static est_node part_found(est_metric_build *m, est_node label, est_node prediction, bool recall, double epsilon)
{
    est_node both = est_mul(label, prediction), w = est_metric_weights(m, both), found, other;
    est_node missed = est_sub(recall ? label : prediction, both);

    found = est_metric_sum(m, "true_positives/count", est_sum(est_mul(both, w)));
    other = est_metric_sum(m, recall ? "false_negatives/count" : "false_positives/count", est_sum(est_mul(missed, w)));
    if (epsilon > 0) return est_div(found, est_shift(est_add(found, other), epsilon));
    return est_div_no_nan(found, est_add(found, other));
}

static est_metric found_metric(est_node labels, est_node predictions, const char *name, bool recall,
                               const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, predictions, name, options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    return est_metric_end(&m, part_found(&m, est_metric_truth(labels), est_metric_truth(predictions), recall, 0));
}

est_metric est_metric_precision(est_node labels, est_node predictions, const est_metric_options *options)
{
    return found_metric(labels, predictions, "precision", false, options);
}

est_metric est_metric_recall(est_node labels, est_node predictions, const est_metric_options *options)
{
    return found_metric(labels, predictions, "recall", true, options);
}

static est_node above(est_node predictions, double threshold, bool or_equal)
{
    est_node p = est_metric_f32(predictions), t = est_scalar(p.graph, EST_F32, threshold);

    return est_cast(or_equal ? est_greater_equal(p, t) : est_greater(p, t), EST_F32);
}

est_metric est_metric_accuracy_at_threshold(est_node labels, est_node predictions, double threshold,
                                            const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, predictions, "accuracy", options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    return est_metric_end(&m,
                          streaming_mean(&m, matches(est_metric_f32(labels), above(predictions, threshold, m.o.v1))));
}

static est_metric found_at_threshold(est_node labels, est_node predictions, double threshold, const char *name,
                                     bool recall, const est_metric_options *options)
{
    est_metric_build m;

    if (!est_metric_begin(&m, predictions, name, options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    return est_metric_end(
        &m, part_found(&m, est_metric_truth(labels), above(predictions, threshold, false), recall, m.o.v1 ? 1e-7 : 0));
}

est_metric est_metric_precision_at_threshold(est_node labels, est_node predictions, double threshold,
                                             const est_metric_options *options)
{
    return found_at_threshold(labels, predictions, threshold, "precision_at_thresholds", false, options);
}

est_metric est_metric_recall_at_threshold(est_node labels, est_node predictions, double threshold,
                                          const est_metric_options *options)
{
    return found_at_threshold(labels, predictions, threshold, "recall_at_thresholds", true, options);
}

/* --- per class ---------------------------------------------------------------------------------------------------- */

/* One-hot rows [n, classes] of class numbers of any shape. */
static est_node classes_of(est_node x, int64_t n_classes)
{
    est_node flat = est_reshape(est_cast(x, EST_I64), EST_I64S(-1));

    return est_one_hot(flat, n_classes, 1, 0, -1);
}

static est_node flat_weights(const est_metric_build *m, est_node like)
{
    return est_reshape(est_metric_weights(m, est_metric_f32(like)), EST_I64S(-1, 1));
}

est_metric est_metric_mean_per_class_accuracy(est_node labels, est_node predictions, int64_t n_classes,
                                              const est_metric_options *options)
{
    est_metric_build m;
    est_node         truth, hits, total, count;

    if (!est_metric_begin(&m, predictions, "mean_accuracy", options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    truth = est_mul(classes_of(labels, n_classes), flat_weights(&m, labels)); /* [n, classes] */
    hits  = est_mul(truth, classes_of(predictions, n_classes));
    total = est_metric_sum(&m, "total", est_reduce_sum(truth, EST_I64S(0), false));
    count = est_metric_sum(&m, "count", est_reduce_sum(hits, EST_I64S(0), false));
    return est_metric_end(&m, est_mean(est_div_no_nan(count, total)));
}

est_metric est_metric_mean_iou(est_node labels, est_node predictions, int64_t n_classes,
                               const est_metric_options *options)
{
    est_metric_build m;
    est_node         truth, matrix, hits, both, some;

    if (!est_metric_begin(&m, predictions, "mean_iou", options)) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    truth  = est_mul(classes_of(labels, n_classes), flat_weights(&m, labels));
    matrix = est_metric_sum(
        &m, "total_confusion_matrix",
        est_matmul_t(truth, classes_of(predictions, n_classes), true, false)); /* [label, prediction] */
    both = est_add(est_reduce_sum(matrix, EST_I64S(0), false), est_reduce_sum(matrix, EST_I64S(1), false));
    hits = est_reduce_sum(est_mul(matrix, est_one_hot(est_range(est_scalar(m.graph, EST_I64, 0),
                                                                est_scalar(m.graph, EST_I64, (double)n_classes),
                                                                est_scalar(m.graph, EST_I64, 1)),
                                                      n_classes, 1, 0, -1)),
                          EST_I64S(1), false);
    both = est_sub(both, hits); /* tp + fp + fn of each class */
    some = est_cast(est_not_equal(both, est_zeros_like(both)), EST_F32);
    return est_metric_end(&m, est_div_no_nan(est_sum(est_div_no_nan(hits, both)), est_sum(some)));
}

/* --- metrics of one's own ----------------------------------------------------------------------------------------- */

est_node est_metric_state(est_graph *graph, const char *name, est_dtype dtype, est_shape shape)
{
    return make_state(graph, name, dtype, shape, false);
}

est_node est_metric_shared_state(est_graph *graph, const char *name, est_dtype dtype, est_shape shape)
{
    return make_state(graph, name, dtype, shape, true);
}

static bool is_addition(const est_node_def *update)
{
    return update->op == &est_op_assign_add_variable || update->op == &est_op_assign_sub_variable ||
           update->op == &est_op_resource_scatter_add || update->op == &est_op_resource_scatter_sub;
}

static bool is_in(const char *collection, est_node state)
{
    est_nodes list = est_graph_collection(state.graph, collection);

    for (int i = 0; i < list.n; i++) {
        if (list.data[i].id == state.id) return true;
    }
    return false;
}

static bool is_state(est_node node)
{
    return is_in("local_variables", node) || is_in(EST_SHARED_STATES, node);
}

/* Checks the parts of a custom metric; all states must come from est_metric_state(). */
static bool check_states(est_graph *graph, est_nodes states, est_nodes updates)
{
    if (states.n < 1 || updates.n < 1) {
        (void)est_nn_fail(graph, "a custom metric needs at least one state and one update, got %d and %d", states.n,
                          updates.n);
        return false;
    }
    for (int i = 0; i < states.n; i++) {
        if (states.data[i].graph == graph && is_state(states.data[i])) continue;
        (void)est_nn_fail(graph,
                          "state %d of the metric was not created with est_metric_state or est_metric_shared_state", i);
        return false;
    }
    return true;
}

/* Marks the nodes and all their dependencies. */
static void mark_inputs(const est_graph *graph, est_nodes nodes, bool *marked, int32_t *stack)
{
    int32_t depth = 0;

    for (int i = 0; i < nodes.n; i++) {
        if (!marked[nodes.data[i].id]) stack[depth++] = nodes.data[i].id;
        marked[nodes.data[i].id] = true;
    }
    while (depth > 0) {
        const est_node_def *def = est_graph_node(graph, stack[--depth]);

        for (int32_t i = 0; i < def->n_in + def->n_control; i++) {
            int32_t from = i < def->n_in ? def->in[i].node : def->control[i - def->n_in];

            if (!marked[from]) stack[depth++] = from;
            marked[from] = true;
        }
    }
}

static bool writes_state(const est_node_def *def, est_node state)
{
    for (int32_t i = 0; i < def->n_in && i < 32; i++) {
        if ((def->op->writes & 1u << i) != 0 && def->in[i].node == state.id) return true;
    }
    return false;
}

/* Every state is written by an update. */
static bool check_updates(est_graph *graph, est_nodes states, est_nodes updates, bool *marked, int32_t *stack)
{
    for (int i = 0; i < updates.n; i++) {
        if (updates.data[i].graph == graph && est_def(updates.data[i]) != NULL) continue;
        (void)est_nn_fail(graph, "update %d of the metric is not an operation of the graph", i);
        return false;
    }
    mark_inputs(graph, updates, marked, stack);
    for (int k = 0; k < states.n; k++) {
        bool written = false;

        for (int32_t id = 0; id < est_graph_size(graph) && !written; id++) {
            written = marked[id] && writes_state(est_graph_node(graph, id), states.data[k]);
        }
        if (written) continue;
        (void)est_nn_fail(graph, "no update of the metric changes state %d ('%s')", k, est_node_name(states.data[k]));
        return false;
    }
    return true;
}

/* The value is read after the last batch, so it must not depend on one. */
static bool check_value(est_graph *graph, est_node value, bool *marked, int32_t *stack)
{
    mark_inputs(graph, (est_nodes){ &value, 1 }, marked, stack);
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        if (!marked[id] || est_graph_node(graph, id)->op->source != EST_SOURCE_FEED) continue;
        (void)est_nn_fail(graph,
                          "the value of the metric depends on the batch ('%s'); compute it from "
                          "est_read_variable of the states",
                          est_graph_node(graph, id)->name);
        return false;
    }
    return true;
}

static bool check_parts(est_graph *graph, est_nodes states, est_nodes updates, est_node value)
{
    size_t   n      = (size_t)est_graph_size(graph) + 1;
    bool    *marked = est_zalloc(2 * n);
    int32_t *stack  = est_alloc(sizeof *stack * n);
    bool     ok     = marked != NULL && stack != NULL;

    if (!ok) (void)est_graph_poison(graph, est_no_memory());
    ok = ok && check_updates(graph, states, updates, marked, stack) && check_value(graph, value, marked + n, stack);
    est_free(marked);
    est_free(stack);
    return ok;
}

static void colocate_states(est_nodes states)
{
    int first = -1;

    for (int i = 0; i < states.n; i++) {
        if (!is_in(EST_SHARED_STATES, states.data[i])) continue;
        if (first < 0) first = i;
        if (i > first) colocate(states.data[first], states.data[i]);
    }
}

/* Records the states that cannot be summed. */
static bool note_updates(est_graph *graph, est_nodes states, est_nodes updates)
{
    const est_replicas *replicas = est_graph_replicas(graph);

    for (int i = 0; i < updates.n; i++) {
        const est_node_def *update = est_def(updates.data[i]);

        if (is_addition(update)) continue;
        if (replicas != NULL && replicas->n > 1) {
            (void)est_nn_fail(graph,
                              "update %d of the metric is %s; in several replicas a state can only be added to: use "
                              "est_assign_add or est_scatter_add",
                              i, update->op->name);
            return false;
        }
        for (int k = 0; k < states.n; k++) est_graph_collect(graph, EST_UNSUMMED_STATES, states.data[k]);
        return true;
    }
    return true;
}

/* The updates as one, shared where states are. */
static est_node join_updates(est_graph *graph, est_nodes updates)
{
    est_node *list = est_arena_alloc(est_graph_arena(graph), (size_t)updates.n * sizeof *list);

    if (list == NULL) return est_graph_poison(graph, est_no_memory());
    for (int i = 0; i < updates.n; i++) {
        list[i] = is_addition(est_def(updates.data[i])) ? est_metric_share(updates.data[i]) : updates.data[i];
    }
    return est_group(graph, (est_nodes){ list, updates.n });
}

est_metric est_metric_custom(est_nodes states, est_nodes updates, est_node value)
{
    est_graph *graph = value.graph;
    est_metric metric;
    est_node  *resets;

    if (graph == NULL && EST_LIST_OK(states) && states.n > 0 && states.data[0].graph != NULL) {
        return est_metric_none(est_nn_fail(states.data[0].graph, "the value of the metric is not a node"));
    }
    if (graph == NULL || est_graph_poisoned(graph)) return est_metric_none(value);
    if (est_def(value) == NULL) return est_metric_none(est_nn_fail(graph, "the value of the metric is not a node"));
    if (!EST_LIST_OK(states) || !EST_LIST_OK(updates)) {
        (void)est_graph_poison(
            graph, est_fail(EST_INVALID_ARGUMENT, "est_metric_custom: a list of states or updates is NULL"));
        return est_metric_none(value);
    }
    if (!check_states(graph, states, updates) || !check_parts(graph, states, updates, value) ||
        !note_updates(graph, states, updates)) {
        return est_metric_none(value);
    }
    resets = est_alloc((size_t)states.n * sizeof *resets);
    if (resets == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return est_metric_none(value);
    }
    for (int i = 0; i < states.n; i++) {
        est_node state = states.data[i];

        resets[i] = est_assign(
            state, est_initial_value(est_init_zeros(), graph, est_variable_dtype(state), *est_node_shape(state)));
    }
    colocate_states(states);
    metric.value  = est_identity(value);
    metric.update = join_updates(graph, updates);
    metric.reset  = est_group(graph, (est_nodes){ resets, states.n });
    est_free(resets);
    return metric;
}
