/* SPDX-License-Identifier: Apache-2.0
 *
 * The linear (wide) model: a weighted sum of all columns plus a bias. */
#include <string.h>

#include "base/options.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "models/canned.h"
#include "ops/ops.h"

#define BIAS "bias_weights"

static bool is_bias(est_node variable)
{
    const char *name = est_node_name(variable);
    size_t      size = strlen(name);

    return size >= strlen(BIAS) && strcmp(name + size - strlen(BIAS), BIAS) == 0;
}

/* Adds summaries of the bias, and of the fraction of zeros among all other weights. Dynamic embeddings are left out,
 * since they are never read as a whole. Tables are read only in runs that write summaries. `first`: the first variable
 * of the linear model. */
static void summarize(est_model *model, const est_canned_options *o, int64_t units, int first)
{
    est_nodes variables = est_trainable_variables(est_model_graph(model));
    est_node  zeros     = EST_NO_NODE;
    int64_t   count     = 0;

    for (int i = first; i < variables.n; i++) {
        est_node variable = est_trainable_variables(est_model_graph(model)).data[i]; /* the list may move */
        est_node value;

        if (est_has_rows(variable)) continue;
        value = est_read_variable(variable);
        if (is_bias(variable)) {
            if (units == 1) {
                est_model_scalar(model, o->v1 ? "linear/bias" : "bias", est_reshape(value, (est_i64s){ 0 }));
            } else {
                est_model_histogram(model, o->v1 ? "linear/bias" : "bias", value);
            }
        } else {
            est_node n = est_count_zeros(value);

            zeros = zeros.graph != NULL ? est_add(zeros, n) : n;
            count += est_shape_count(est_node_shape(value));
        }
    }
    if (count > 0) {
        est_model_scalar(model, o->v1 ? "linear/fraction_of_zero_weights" : "fraction_of_zero_weights",
                         est_scale(est_cast(zeros, EST_F32), 1.0 / (double)count));
    }
}

est_node est_linear_part(est_model *model, int64_t units, const est_canned_options *o)
{
    est_column_list columns = o->linear_columns.n > 0 ? o->linear_columns : o->columns;
    int             first   = est_trainable_variables(est_model_graph(model)).n;
    est_node        logits  = est_linear_model(est_model_features(model), columns,
                                               EST_LINEAR_MODEL(.units = units, .combiner = o->sparse_combiner, .v1 = o->v1));

    if (est_model_status(model) == EST_OK) summarize(model, o, units, first);
    return logits;
}

est_node est_linear_logits(est_model *model, int64_t units, const est_canned_options *options)
{
    est_graph         *graph = est_model_graph(model);
    est_canned_options o;
    est_node           logits;
    est_status         status = est_options_take(EST_STRUCT_SIZE(est_canned_options), options, &o);

    if (status != EST_OK || graph == NULL) return est_graph_poison(graph, status);
    est_scope_push(graph, "linear");
    logits = est_linear_part(model, units, &o);
    est_scope_pop(graph);
    return logits;
}

est_status est_linear_model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_canned *canned = params;
    est_graph        *graph  = est_model_graph(model);
    est_node          logits;
    est_status        status;

    est_scope_push(graph, "linear");
    logits = est_linear_part(model, est_head_logits(canned->o.head), &canned->o);
    if (!canned->o.v1) est_scope_pop(graph);
    status = est_canned_finish(canned, model, mode, logits, "part_0");
    if (canned->o.v1) est_scope_pop(graph);
    return status;
}
