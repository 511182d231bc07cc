/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a compiled network: the model once more in the graph, its loss, its metrics and, of training, the
 * update of the variables.
 *
 * Replicas: each has a batch of its own, and the number of its rows is fed, 0 where it has none. Losses and gradients
 * are means over the rows of a replica, and those of all are averaged by rows (nn/replicas_reduce.h): the sum over all
 * examples divided by their number, however they are divided. */
#include <math.h>
#include <string.h>

#include "estoc/ops.h"
#include "graph/graph.h"
#include "graph/replicas.h"
#include "graph/reuse.h"
#include "network/network.h"
#include "nn/nn.h"
#include "nn/optimizer.h"
#include "nn/replicas_reduce.h"
#include "runtime/session.h"
#include "strategy/replicas_build.h"
#include "tensor/tensor.h"

/* A function under construction. */
typedef struct builder {
    est_network          *network;
    est_compiled         *compiled;
    est_graph            *graph;
    est_network_function *f;
    int                   form;
    int                   max_targets;
} builder;

/* What a replica computes, by the outputs of compile. */
typedef struct computed {
    est_node *predictions, *labels, *each, *losses; /* [n_outputs] */
    est_node *weights;                              /* [n_outputs]: of the examples; EST_NO_NODE: all are 1 */
    est_node  loss;                                 /* of all outputs */
} computed;

/* --- one replica -------------------------------------------------------------------------------------------------- */

static void add_target(builder *b, est_node node)
{
    est_network_function *f = b->f;

    for (int i = 0; i < f->n_targets; i++) {
        if (f->targets[i].id == node.id) return; /* replicas share what was merged */
    }
    if (f->n_targets == b->max_targets) {
        int       max     = 2 * b->max_targets + 16;
        est_node *targets = est_arena_alloc(est_graph_arena(b->graph), (size_t)max * sizeof *targets);

        if (targets == NULL) {
            (void)est_graph_poison(b->graph, est_no_memory());
            return;
        }
        if (f->n_targets > 0) memcpy(targets, f->targets, (size_t)f->n_targets * sizeof *targets);
        f->targets     = targets;
        b->max_targets = max;
    }
    f->targets[f->n_targets++] = node;
}

/* Labels as Keras hands them to losses and metrics: of the rank and, if both are floats, of the dtype of the
 * predictions. */
est_node est_network_match_label(est_node label, est_node prediction)
{
    est_dtype have = est_node_dtype(label), want = est_node_dtype(prediction);

    if (est_node_shape(label)->rank == 1 && est_node_shape(prediction)->rank == 2) label = est_expand_dims(label, -1);
    if (have != want && (have == EST_F32 || have == EST_F64) && (want == EST_F32 || want == EST_F64)) {
        label = est_cast(label, want);
    }
    return label;
}

/* Weights as those of the values of a loss: one an example, or more. */
static est_node match_weight(est_node weight)
{
    const est_shape *shape = est_node_shape(weight);

    if (shape->rank == 2 && shape->dim[1] == 1) weight = est_squeeze(weight, EST_I64S(1));
    return est_node_dtype(weight) == EST_F32 ? weight : est_cast(weight, EST_F32);
}

est_node est_network_mask_weight(est_node output, est_node weight)
{
    est_node mask = est_network_mask(output);

    if (mask.graph == NULL || weight.graph == NULL) return mask.graph != NULL ? mask : weight;
    return est_mul(mask, est_nn_align_weights(weight, mask));
}

/* Whether weights have a column for each output. Of a number that is not known they have them where the losses are one
 * an example; beside losses of steps they are those of the steps. */
static bool has_columns(const est_compiled *compiled, const est_shape *weight, const est_shape *each)
{
    if (!compiled->weights_by_output || compiled->n_outputs < 2 || weight->rank != 2) return false;
    return weight->dim[1] == compiled->n_outputs || (weight->dim[1] < 0 && each->rank == 1);
}

/* The weights of the losses at an output, which must not be broadcast the other way round. */
static est_node weight_at(const est_compiled *compiled, int output, est_node given, est_node each)
{
    est_node         weight = match_weight(given);
    const est_shape *have = est_node_shape(weight), *want = est_node_shape(each);
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (has_columns(compiled, have, want)) return est_gather(weight, est_scalar(weight.graph, EST_I64, output), 1);
    if (want->rank >= 0 && have->rank > want->rank) {
        return est_nn_fail(each.graph, "sample weights %s do not go with losses %s; give one an example%s",
                           est_shape_text(have, a), est_shape_text(want, b),
                           compiled->weights_by_output ? ", or a column for each output" : "");
    }
    return weight;
}

static est_node losses_from(est_graph *graph, int first, est_node loss)
{
    est_nodes more = est_losses(graph);

    for (int i = first; i < more.n; i++) {
        est_node one = est_sum(more.data[i]);

        if (loss.graph == NULL) {
            loss = one;
            continue;
        }
        loss = est_add(loss, est_node_dtype(one) == est_node_dtype(loss) ? one : est_cast(one, est_node_dtype(loss)));
    }
    return loss;
}

static est_node fail_mask(est_node mask, est_node each)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    return est_nn_fail(each.graph, "the mask of the output, %s, does not go with losses %s; give one for each step",
                       est_shape_text(est_node_shape(mask), a), est_shape_text(est_node_shape(each), b));
}

est_node est_network_loss(const est_compiled *compiled, int i, est_node labels, est_node predictions, est_node *weight,
                          est_node *each)
{
    const est_loss *loss = &compiled->outputs[i].loss;
    est_node        mask = est_network_mask(predictions), weighed;

    weighed = *each = loss->each(loss, labels, predictions);
    if (est_graph_status(predictions.graph) != EST_OK) return EST_NO_NODE;
    if (weight->graph != NULL) {
        *weight = weight_at(compiled, i, *weight, *each);
        weighed = est_mul(*each, est_nn_align_weights(*weight, *each));
    }
    if (mask.graph == NULL) return est_mean(weighed);
    if (est_node_shape(mask)->rank != est_node_shape(*each)->rank) return fail_mask(mask, *each);
    if (est_node_dtype(mask) != est_node_dtype(*each)) mask = est_cast(mask, est_node_dtype(*each));
    /* a true value counts once for every loss that it is broadcast to */
    return est_div_no_nan(est_sum(est_mul(weighed, mask)), est_sum(est_mul(est_ones_like(*each), mask)));
}

est_node est_network_total_loss(const est_compiled *compiled, est_graph *graph, const est_node *losses, int first_loss)
{
    est_node sum = EST_NO_NODE;

    for (int i = 0; i < compiled->n_outputs; i++) {
        est_node one = losses[i];

        if (compiled->outputs[i].weight != 1) {
            one = est_mul(one, est_scalar(one.graph, est_node_dtype(one), compiled->outputs[i].weight));
        }
        if (i > 0 && est_node_dtype(one) != est_node_dtype(sum)) one = est_cast(one, est_node_dtype(sum));
        sum = i > 0 ? est_add(sum, one) : one;
    }
    sum = losses_from(graph, first_loss, sum);
    if (sum.graph != NULL) return sum;
    return est_nn_fail(graph, "there is nothing to minimize: compile has no loss, and the model adds none with "
                              "est_add_loss");
}

/* The weights of the classes that the labels are of: numbers, rounded as in Keras, or the largest of a row. */
static est_node weigh_classes(est_node class_weight, est_node label)
{
    const est_shape *shape = est_node_shape(label);
    char             text[EST_SHAPE_TEXT_MAX];

    if (shape->rank < 1 || shape->rank > 2 || (shape->rank == 2 && shape->dim[1] < 0)) {
        return est_nn_fail(label.graph,
                           "class_weight is set, and labels are %s; give one class an example, as [?], [?,1] or [?,n]",
                           est_shape_text(shape, text));
    }
    if (shape->rank == 2 && shape->dim[1] != 1) {
        label = est_argmax(label, -1);
    } else if (shape->rank == 2) {
        label = est_squeeze(label, EST_I64S(1));
    }
    if (est_node_dtype(label) == EST_F32 || est_node_dtype(label) == EST_F64) label = est_rint(label);
    if (est_node_dtype(label) != EST_I64) label = est_cast(label, EST_I64);
    return est_named(est_gather(class_weight, label, 0), "class_weight_of_label");
}

/* The weight of each example: its own times that of its class. EST_NO_NODE: all are 1. */
static est_node weight_of(const est_network_batch *batch)
{
    est_node weight = batch->weight.graph != NULL ? match_weight(batch->weight) : EST_NO_NODE, of_class;

    if (batch->class_weight.graph == NULL) return weight;
    of_class = weigh_classes(batch->class_weight, batch->labels[0]);
    return weight.graph != NULL ? est_mul(weight, est_nn_align_weights(of_class, weight)) : of_class;
}

static est_node one_if_rows(const est_network_batch *batch)
{
    return est_minimum(batch->rows, est_scalar(batch->rows.graph, EST_F32, 1));
}

/* Weights of the rows for a metric; EST_NO_NODE: all are 1. A replica without rows has a batch that does not count. */
static est_node metric_weight(const est_network_batch *batch, est_node each, est_node weight)
{
    const est_shape *shape = est_node_shape(each);
    int64_t          axes[EST_RANK_MAX];

    if (batch->rows.graph == NULL) return weight;
    if (weight.graph != NULL) return est_mul(weight, one_if_rows(batch));
    for (int i = 1; i < shape->rank; i++) axes[i - 1] = i;
    if (shape->rank > 1) each = est_reduce_sum(each, (est_i64s){ axes, shape->rank - 1 }, false);
    return est_mul(est_cast(est_ones_like(each), EST_F32), one_if_rows(batch));
}

/* The mean of the losses of batches, each as often as it has examples. */
static est_metric loss_metric(const est_network_batch *batch, const char *name, est_node each, est_node loss,
                              bool shared)
{
    est_node rows = batch->rows;

    loss = est_cast(est_stop_gradient(loss), EST_F32);
    if (rows.graph == NULL) {
        rows = est_cast(est_nn_dim(each, 0), EST_F32);
    } else {
        loss = est_select(est_greater(rows, est_scalar(rows.graph, EST_F32, 0)), loss, est_zeros_like(loss));
    }
    return est_metric_mean(loss, EST_METRIC(.name = name, .weights = rows, .shared = shared));
}

static est_metric make_metric(const builder *b, const est_network_batch *batch, const computed *c,
                              const est_network_metric_item *item)
{
    bool            shared = b->f->training && est_network_is_coordinated(b->network);
    int             at     = item->output >= 0 ? item->output : 0;
    est_metric_spec spec   = item->spec;
    est_node        weight;

    if (spec.make == NULL) {
        return loss_metric(batch, item->name, c->each[at], item->output >= 0 ? c->losses[at] : c->loss, shared);
    }
    weight      = item->weighted ? c->weights[at] : EST_NO_NODE;
    weight      = metric_weight(batch, c->each[at], est_network_mask_weight(c->predictions[at], weight));
    spec.shared = spec.shared || shared;
    return spec.make(&spec, c->labels[at], c->predictions[at], weight);
}

static void add_metrics(builder *b, int replica, const computed *c)
{
    for (int i = 0; i < b->compiled->n_metrics; i++) {
        est_metric metric = make_metric(b, &b->f->batches[replica], c, &b->compiled->metrics[i]);

        add_target(b, metric.update);
        if (replica > 0) continue;
        b->f->values[i]  = metric.value;
        b->f->resets[i]  = metric.reset;
        b->f->updates[i] = metric.update;
    }
}

static est_node join_losses(est_graph *graph, void *const *brought, int n)
{
    const est_replicas   *replicas  = est_graph_replicas(graph);
    est_replica_reduction reduction = est_replica_reduction_begin(graph, replicas->gradients, replicas->weight);
    est_node              losses[EST_STRATEGY_REPLICAS_MAX];

    for (int i = 0; i < n; i++) losses[i] = *(const est_node *)brought[i];
    return est_replica_reduce_value(&reduction, losses);
}

/* Of a model all of whose layers are frozen only losses and metrics are computed, and no step is counted, as Keras
 * does. */
static bool trains_variables(const builder *b)
{
    return est_trainable_variables(b->graph).n > 0;
}

static void add_training(builder *b, est_node loss, int first_update)
{
    est_nodes updates;
    est_node  train = EST_NO_NODE;

    if (trains_variables(b)) {
        (void)est_reuse_begin(b->graph, b->compiled);
        train = est_minimize(b->compiled->optimizer, loss,
                             EST_MINIMIZE(.no_update_ops = true, .learning_rate_variable = true));
        est_reuse_end(b->graph);
        add_target(b, train);
    }
    b->f->step_after = est_read_variable(est_global_step(b->graph));
    if (train.graph != NULL) b->f->step_after = est_after(b->f->step_after, train);
    updates = est_update_ops(b->graph);
    for (int i = first_update; i < updates.n; i++) add_target(b, updates.data[i]);
}

/* The model and its losses. */
static est_status compute(const builder *b, const est_network_batch *batch, computed *c)
{
    est_arena       *arena      = est_graph_arena(b->graph);
    size_t           n          = (size_t)b->compiled->n_outputs;
    est_network_view view       = { b->network, b->graph, batch };
    int              first_loss = est_losses(b->graph).n;
    est_node        *all        = est_arena_alloc(arena, (size_t)b->network->n_outputs * sizeof *all);
    est_node        *room       = est_arena_alloc(arena, (5 * n + 1) * sizeof *room);
    est_node         weight;

    if (all == NULL || room == NULL) return est_no_memory();
    *c = (computed){
        .predictions = room, .labels = room + n, .each = room + 2 * n, .losses = room + 3 * n, .weights = room + 4 * n
    };
    est_network_call(b->network, est_network_features(&view), b->f->training, all);
    EST_TRY(est_graph_status(b->graph));
    weight = weight_of(batch);
    for (size_t i = 0; i < n; i++) {
        c->predictions[i] = all[b->compiled->outputs[i].output];
        c->labels[i]      = est_network_match_label(batch->labels[i], c->predictions[i]);
        c->weights[i]     = weight;
        c->losses[i]      = est_network_loss(b->compiled, (int)i, c->labels[i], c->predictions[i], &c->weights[i],
                                             &c->each[i]);
        EST_TRY(est_graph_status(b->graph));
    }
    if (n == 0) {
        c->each       = all; /* it has the rows of the batch, too */
        c->weights[0] = weight;
    }
    c->loss = est_network_total_loss(b->compiled, b->graph, c->losses, first_loss);
    return est_graph_status(b->graph);
}

static est_status build_replica(int replica, void *user)
{
    builder                 *b            = user;
    const est_network_batch *batch        = &b->f->batches[replica];
    int                      first_update = est_update_ops(b->graph).n;
    computed                 c;

    EST_TRY(compute(b, batch, &c));
    add_metrics(b, replica, &c);
    if (b->f->training) add_training(b, c.loss, first_update);
    if (batch->rows.graph != NULL) c.loss = est_replicas_merge(b->graph, join_losses, &c.loss);
    if (replica == 0) b->f->loss = c.loss;
    return est_graph_status(b->graph);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* A placeholder in a batch; the one of the first batch is shared by all functions, which `kept` remembers. */
static est_node shared_placeholder(const builder *b, const est_network_field *field, bool shared, est_node *kept)
{
    est_node node = shared ? *kept : EST_NO_NODE;

    if (node.graph == NULL) node = est_network_placeholder(b->graph, field, false);
    if (shared) *kept = node;
    return node;
}

/* Those of labels and weights. */
static void add_labels(const builder *b, est_network_batch *batch, bool shared)
{
    static const est_network_field class_weight = { .name = "class_weight", .dtype = EST_F32, .shape = { 1, { -1 } } };

    est_compiled *c = b->compiled;

    batch->labels = est_arena_alloc(est_graph_arena(b->graph), ((size_t)c->n_outputs + 1) * sizeof *batch->labels);
    if (batch->labels == NULL) {
        (void)est_graph_poison(b->graph, est_no_memory());
        return;
    }
    for (int i = 0; i < c->n_outputs; i++) {
        batch->labels[i] = shared_placeholder(b, &c->outputs[i].field, shared, &c->outputs[i].node);
    }
    if ((b->form & EST_FORM_SAMPLE_WEIGHT) != 0) {
        batch->weight = shared_placeholder(b, &c->weight_field, shared, &c->weight_node);
    }
    if ((b->form & EST_FORM_CLASS_WEIGHT) != 0) {
        batch->class_weight = shared_placeholder(b, &class_weight, shared, &c->class_weight_node);
    }
}

static est_node rows_placeholder(est_graph *graph)
{
    return est_named(est_placeholder(graph, NULL, EST_F32, EST_SHAPE_SCALAR), "inputs/rows");
}

/* Whether the function is made in a graph that is thrown away (try_function). */
static bool is_trial(const builder *b)
{
    return b->graph != b->network->graph;
}

/* The batch of the network for the first replica, and one of its own for each of the others. */
static void make_batches(builder *b, bool rows)
{
    est_network_function *f = b->f;

    for (int i = 0; i < f->n; i++) {
        bool shared = i == 0 && !is_trial(b);

        f->batches[i] = shared ? b->network->batch : est_network_placeholders(b->network, b->graph);
        if (f->batches[i].values == NULL) return;
        add_labels(b, &f->batches[i], shared);
        if (rows) f->batches[i].rows = rows_placeholder(b->graph);
    }
}

static est_status build_replicas(builder *b, est_replicas replicas)
{
    est_node *weight = est_arena_alloc(est_graph_arena(b->graph), (size_t)replicas.n * sizeof *weight);

    if (weight == NULL) return est_no_memory();
    for (int i = 0; i < replicas.n; i++) weight[i] = b->f->batches[i].rows;
    replicas.weight        = weight;
    replicas.gradients     = EST_REDUCE_OP_MEAN;
    replicas.shares_states = replicas.across_workers;
    return est_replicas_build(b->graph, replicas, build_replica, b);
}

static est_status build_function(builder *b)
{
    bool                  divided  = b->f->training && !is_trial(b);
    est_replicas          replicas = est_strategy_replicas(divided ? b->network->strategy : NULL);
    bool                  several  = replicas.n > 1 || replicas.across_workers;
    est_arena            *arena    = est_graph_arena(b->graph);
    size_t                n        = (size_t)b->compiled->n_metrics;
    est_network_function *f        = b->f;

    f->n       = replicas.n;
    f->batches = est_arena_alloc(arena, (size_t)f->n * sizeof *f->batches);
    f->values  = est_arena_alloc(arena, n * sizeof *f->values);
    f->resets  = est_arena_alloc(arena, n * sizeof *f->resets);
    f->updates = est_arena_alloc(arena, n * sizeof *f->updates);
    if (f->batches == NULL || f->values == NULL || f->resets == NULL || f->updates == NULL) return est_no_memory();
    make_batches(b, several);
    EST_TRY(est_graph_status(b->graph));
    return several ? build_replicas(b, replicas) : build_replica(0, b);
}

/* Labels, weights or a loss that do not go with the outputs leave a graph that nothing can be added to: that is found
 * with a graph of its own, so that the network lives on. */
static est_status try_function(const builder *b)
{
    est_network_function f     = { .training = b->f->training };
    builder              trial = *b;
    est_status           status;

    if (b->compiled->optimizer.learning_node.graph != NULL) return EST_OK; /* a node of the network's graph */
    EST_TRY(est_graph_create(b->network->seed, &trial.graph));
    (void)est_graph_precision(trial.graph, b->network->precision);
    trial.f = &f;
    status  = build_function(&trial);
    if (status == EST_OK) status = est_graph_status(trial.graph);
    est_graph_free(trial.graph);
    return status;
}

static est_status prepare_steps(builder *b)
{
    est_network_function *f = b->f;
    int                   n = b->compiled->n_metrics;

    if (est_network_is_coordinated(b->network)) return EST_OK;
    EST_TRY(est_session_init(b->network->session));
    EST_TRY(
        est_session_prepare(b->network->session, EST_NO_NODES, (est_nodes){ f->values, n }, EST_NO_NODES, &f->read));
    return est_session_prepare(b->network->session, EST_NO_NODES, EST_NO_NODES, (est_nodes){ f->resets, n }, &f->reset);
}

/* Whether the learning rate is in a variable. One of an earlier compile may be in the graph. */
static bool has_rate(const builder *b)
{
    return b->compiled->optimizer.schedule.rate == NULL && b->compiled->optimizer.learning_node.graph == NULL;
}

static est_status make_function(builder *b)
{
    *b->f = (est_network_function){ .training = b->f->training }; /* an attempt that failed may have left nodes */
    EST_TRY(try_function(b));
    b->f->first_state = est_local_variables(b->graph).n;
    EST_TRY(build_function(b));
    EST_TRY(est_graph_status(b->graph));
    b->f->n_states = est_local_variables(b->graph).n - b->f->first_state;
    if (b->f->training && has_rate(b) && trains_variables(b)) b->compiled->rate = est_learning_rate_variable(b->graph);
    EST_TRY(prepare_steps(b));
    b->f->made = true;
    return EST_OK;
}

void est_compiled_forget_fields(est_compiled *c)
{
    bool labels = false, weights = false;

    for (int form = 0; form < EST_FORMS; form++) {
        bool made = c->functions[false][form].made || c->functions[true][form].made;

        labels  = labels || made;
        weights = weights || (made && (form & EST_FORM_SAMPLE_WEIGHT) != 0);
    }
    if (!weights) c->weight_field = (est_network_field){ 0 };
    for (int i = 0; i < c->n_outputs && !labels; i++) c->outputs[i].field = (est_network_field){ 0 };
}

est_status est_network_function_get(est_network *network, bool training, int form, est_network_function **out)
{
    est_compiled *c = network->compiled;
    builder       b = { .network = network, .compiled = c, .graph = network->graph, .form = form };
    est_status    status;

    b.f           = &c->functions[training][form];
    b.f->training = training;
    if (!b.f->made) {
        status = make_function(&b);
        if (status != EST_OK) {
            est_compiled_forget_fields(c);
            return est_fail_context(status, "%s", network->name);
        }
    }
    *out = b.f;
    return EST_OK;
}

/* Without prepared steps. */
typedef struct state_run {
    const est_network_function *f;
    double                     *out; /* [n_metrics]; NULL: a reset */
} state_run;

static est_status run_states(est_network *network, void *user)
{
    const state_run *run    = user;
    int              n      = network->compiled->n_metrics;
    est_tensor     **values = est_zalloc((size_t)n * sizeof(est_tensor *));
    est_status       status;

    if (values == NULL) return est_no_memory();
    status = run->out != NULL ? est_session_run(network->session, EST_NO_FEEDS, (est_nodes){ run->f->values, n },
                                                EST_NO_NODES, values)
                              : est_session_run(network->session, EST_NO_FEEDS, EST_NO_NODES,
                                                (est_nodes){ run->f->resets, n }, NULL);
    for (int i = 0; i < n; i++) {
        if (status == EST_OK && run->out != NULL) {
            run->out[i] = est_number_at(est_tensor_dtype(values[i]), est_tensor_data(values[i]), 0);
        }
        est_tensor_free(values[i]);
    }
    est_free(values);
    return status;
}

est_status est_network_function_reset(est_network *network, est_network_function *f)
{
    if (f->reset != NULL) return est_step_run(f->reset, NULL);
    return est_network_use_session(network, run_states, &(state_run){ f, NULL });
}

est_status est_network_function_read(est_network *network, est_network_function *f, double *out)
{
    if (f->read == NULL) return est_network_use_session(network, run_states, &(state_run){ f, out });
    EST_TRY(est_step_run(f->read, NULL));
    for (int i = 0; i < network->compiled->n_metrics; i++) out[i] = est_step_scalar(f->read, i);
    return EST_OK;
}
