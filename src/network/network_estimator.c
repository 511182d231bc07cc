/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as the model_fn of an Estimator, for training, evaluation, prediction and exports. */
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "estoc/ops.h"
#include "graph/graph.h"
#include "graph/reuse.h"
#include "network/network.h"
#include "nn/nn.h"
#include "ops/ops.h"

/* --- model_fn ----------------------------------------------------------------------------------------------------- */

/* The name of a prediction: its own, or that of the layer called last. */
static const char *output_name(const est_network *network, const est_graph *graph, int i)
{
    int                    n;
    const est_reuse_layer *layers = est_reuse_layers(graph, network, &n);

    if (network->output_names[i] != NULL) return network->output_names[i];
    return n > 0 ? layers[n - 1].name : "output_1";
}

static est_node label_of(const est_compiled_output *output, est_model *m)
{
    const char *name = output->label;

    if (name == NULL) name = est_model_has(m, "label") || !est_model_has(m, "y") ? "label" : "y";
    return est_model_label(m, name);
}

static est_node rows_of(est_node label)
{
    return est_cast(est_nn_dim(label, 0), EST_F32);
}

static est_node weight_of(const est_compiled *c, est_model *m)
{
    const char *name = c->weight != NULL ? c->weight : "sample_weight";

    return est_model_has(m, name) ? est_model_feature(m, name) : EST_NO_NODE;
}

/* Those of one output; the loss of all is what every evaluation has. */
static void add_metrics(const est_compiled *c, int output, est_model *m, est_node labels, est_node predictions,
                        est_node weight, est_node loss)
{
    for (int i = 0; i < c->n_metrics; i++) {
        const est_network_metric_item *item = &c->metrics[i];

        if (item->output != output) continue;
        if (item->spec.make == NULL) {
            est_model_metric(
                m, item->name,
                est_metric_mean(est_stop_gradient(loss), EST_METRIC(.name = item->name, .weights = rows_of(labels))));
        } else {
            est_node counts = est_network_mask_weight(predictions, item->weighted ? weight : EST_NO_NODE);

            est_model_metric(m, item->name, item->spec.make(&item->spec, labels, predictions, counts));
        }
    }
}

/* Loss, metrics and training. */
static void add_rest(const est_compiled *c, est_model *m, est_mode mode, const est_node *predictions, int first_loss)
{
    est_node *losses = est_arena_alloc(m->arena, ((size_t)c->n_outputs + 1) * sizeof *losses);
    est_node  given  = weight_of(c, m), each, loss;

    if (losses == NULL) {
        (void)est_graph_poison(m->graph, est_no_memory());
        return;
    }
    for (int i = 0; i < c->n_outputs; i++) {
        const est_compiled_output *output = &c->outputs[i];
        est_node                   label = label_of(output, m), prediction = predictions[output->output], weight;

        if (est_model_status(m) != EST_OK) return;
        label     = est_network_match_label(label, prediction);
        weight    = given;
        losses[i] = est_network_loss(c, i, label, prediction, &weight, &each);
        if (est_model_status(m) != EST_OK) return;
        add_metrics(c, i, m, label, prediction, weight, losses[i]);
    }
    loss = est_network_total_loss(c, m->graph, losses, first_loss);
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, c->optimizer, loss);
}

est_status est_network_model_fn(est_model *model, est_mode mode, const void *params)
{
    est_network *network     = *(est_network *const *)params;
    int          first_loss  = est_losses(model->graph).n;
    est_node    *predictions = est_arena_alloc(model->arena, (size_t)network->n_outputs * sizeof *predictions);

    if (predictions == NULL) return est_no_memory();
    if (network->n_inputs == 0 && model->input != NULL) EST_TRY(est_network_build(network, model->input));
    est_network_call(network, est_model_features(model), mode == EST_TRAIN, predictions);
    EST_TRY(est_model_status(model));
    for (int i = 0; i < network->n_outputs; i++) {
        est_model_predict(model, output_name(network, model->graph, i), predictions[i]);
    }
    if (mode != EST_PREDICT) add_rest(network->compiled, model, mode, predictions, first_loss);
    return est_model_status(model);
}

/* --- est_network_to_estimator ------------------------------------------------------------------------------------- */

/* The names of the variables as a regular expression that no other name matches. */
static void put_names(est_strbuf *out, const est_network *network)
{
    est_nodes made = est_reuse_nodes(network->graph, network);

    est_strbuf_append(out, "(");
    for (int i = 0, n = 0; i < made.n; i++) {
        if (est_variable_dtype(made.data[i]) == EST_DTYPE_NONE) continue;
        est_strbuf_printf(out, "%s%s", n++ > 0 ? "|" : "", est_node_name(made.data[i]));
    }
    est_strbuf_append(out, ")$");
}

/* The values of the network, as a checkpoint that the estimator is warm-started from. */
static est_status start_from(est_network *network, est_estimator *estimator)
{
    est_warm_start *start = est_arena_alloc(estimator->arena, sizeof *start);
    est_strbuf      names = { 0 };
    est_status      status;

    if (start == NULL) return est_no_memory();
    put_names(&names, network);
    *start = (est_warm_start){ .struct_size = EST_STRUCT_SIZE(est_warm_start),
                               .path        = est_arena_printf(estimator->arena, "%s/keras/keras_model.ckpt",
                                                               estimator->model_dir),
                               .variables   = est_arena_strdup(estimator->arena, est_strbuf_text(&names)),
                               .all         = true };
    status = est_strbuf_status(&names);
    est_strbuf_clear(&names);
    if (status != EST_OK) return status;
    if (start->path == NULL || start->variables == NULL) return est_no_memory();
    estimator->warm_start = start;
    return estimator->self.is_chief ? est_network_save_weights(network, start->path) : EST_OK;
}

est_status est_network_to_estimator(est_network *network, const est_estimator_options *options, est_estimator **out)
{
    est_estimator_options o;
    est_estimator        *estimator;
    est_status            status = EST_OK;

    EST_REQUIRE(network);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_estimator_options), options, &o));
    EST_TRY(est_network_need_compiled(network, "est_network_to_estimator"));
    if (o.params != NULL || o.params_size != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "est_network_to_estimator: params is set; the network takes its place");
    }
    o.params      = &network;
    o.params_size = sizeof(est_network *);
    EST_TRY(est_estimator_create(est_network_model_fn, &o, &estimator));
    if (estimator->config.precision == EST_PRECISION_FLOAT32) estimator->config.precision = network->precision;
    if (network->session != NULL && o.warm_start == NULL) status = start_from(network, estimator);
    if (status != EST_OK) {
        est_estimator_free(estimator);
        return est_fail_context(status, "est_network_to_estimator");
    }
    *out = estimator;
    return EST_OK;
}
