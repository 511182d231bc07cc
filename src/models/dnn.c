/* SPDX-License-Identifier: Apache-2.0
 *
 * The deep model: an input layer of all columns, hidden layers, logits.
 *
 * A hidden layer is dense with activation, then dropout, then batch normalisation, in this order. Scopes are
 * TensorFlow's, since a checkpoint knows variables by them. */
#include <stdio.h>

#include "base/options.h"
#include "estoc/ops.h"
#include "models/canned.h"

static est_node hidden_layer(est_node x, int i, est_mode mode, const est_canned_options *o)
{
    char name[32], norm[64];

    (void)snprintf(name, sizeof name, "hiddenlayer_%d", i);
    (void)snprintf(norm, sizeof norm, "hiddenlayer_%d/batchnorm_%d", i, i);
    x = est_dense(x, o->hidden_units.data[i],
                  EST_DENSE(.name = name, .activation = o->activation != NULL ? o->activation : est_relu));
    if (o->dropout > 0) x = est_dropout_layer(x, o->dropout, mode == EST_TRAIN);
    if (o->batch_norm) {
        x = est_batch_norm(x, mode == EST_TRAIN, EST_BATCH_NORM(.name = norm, .momentum = 0.999, .epsilon = 0.001));
    }
    return x;
}

est_node est_dnn_part(est_model *model, est_mode mode, int64_t units, const est_canned_options *o)
{
    est_graph      *graph   = est_model_graph(model);
    est_column_list columns = o->dnn_columns.n > 0 ? o->dnn_columns : o->columns;
    est_node        x;
    char            layer[32];

    est_scope_push(graph, "input_from_feature_columns");
    x = est_input_layer(est_model_features(model), columns, EST_INPUT_LAYER(.v1 = o->v1));
    est_scope_pop(graph);
    for (int i = 0; i < o->hidden_units.n; i++) {
        x = hidden_layer(x, i, mode, o);
        (void)snprintf(layer, sizeof layer, "hiddenlayer_%d", i);
        est_canned_summarize(model, o, "dnn", layer, x);
    }
    x = est_dense(x, units, EST_DENSE(.name = "logits"));
    est_canned_summarize(model, o, "dnn", "logits", x);
    return x;
}

est_node est_dnn_logits(est_model *model, est_mode mode, int64_t units, const est_canned_options *options)
{
    est_graph         *graph = est_model_graph(model);
    est_canned_options o;
    est_node           logits;
    est_status         status = est_options_take(EST_STRUCT_SIZE(est_canned_options), options, &o);

    if (status != EST_OK || graph == NULL) return est_graph_poison(graph, status);
    est_scope_push(graph, "dnn");
    logits = est_dnn_part(model, mode, units, &o);
    est_scope_pop(graph);
    return logits;
}

/* v1 calls its head within the scope of the model, which becomes part of the names of optimizer slots. */
est_status est_dnn_model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_canned *canned = params;
    est_graph        *graph  = est_model_graph(model);
    est_node          logits;
    est_status        status;

    est_scope_push(graph, "dnn");
    logits = est_dnn_part(model, mode, est_head_logits(canned->o.head), &canned->o);
    if (!canned->o.v1) est_scope_pop(graph);
    status = est_canned_finish(canned, model, mode, logits, "t_0");
    if (canned->o.v1) est_scope_pop(graph);
    return status;
}
