/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear models: a weight for every id or number of a column, summed over columns, and a bias. */
#include "base/options.h"
#include "feature/column.h"

static est_status check_linear(const est_column *column)
{
    if (!column->sequence && (column->kind->ids != NULL || column->kind->dense != NULL)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is %s%s, which a linear model cannot take", column->name,
                    column->kind->what, column->sequence ? " of sequences" : "");
}

/* A bucketized column, which is both dense and categorical, is looked up as in TensorFlow: no one-hot rows are created,
 * and the combiner applies. */
static est_node weighted_sum(const est_features *features, const est_column *column, const est_linear_model_options *o)
{
    bool     lookup = column->kind->ids != NULL;
    est_ids  ids    = { 0 };
    est_node x      = EST_NO_NODE, weights;

    weights = est_weight(features->graph, "weights", EST_SHAPE(lookup ? column->n_buckets : column->width, o->units),
                         EST_WEIGHT(.initializer = est_init_zeros(), .frozen = o->frozen));
    if (lookup)
        ids = column->kind->ids(column, features);
    else
        x = column->kind->dense(column, features, (est_layer_use){ o->frozen, o->v1 });
    if (est_graph_poisoned(features->graph)) return weights;
    return lookup ? est_embedding_bag(weights, ids.rows, ids.weights, o->combiner, 0)
                  : est_matmul(x, est_read_variable(weights));
}

static est_node sum_of_columns(const est_features *features, const est_column **columns, est_node *parts, int n,
                               const est_linear_model_options *o)
{
    est_graph *graph = features->graph;
    est_node   sum, bias;

    for (int i = 0; i < n; i++) {
        est_scope_push(graph, o->v1 ? columns[i]->v1_scope : columns[i]->scope);
        parts[i] = weighted_sum(features, columns[i], o);
        est_scope_pop(graph);
        if (est_graph_poisoned(graph)) return parts[i];
    }
    sum  = n == 1 ? parts[0] : est_add_n((est_nodes){ parts, n });
    bias = est_weight(graph, "bias_weights", EST_SHAPE(o->units),
                      EST_WEIGHT(.initializer = est_init_zeros(), .frozen = o->frozen));
    return est_graph_poisoned(graph) ? bias : est_bias_add(sum, est_read_variable(bias));
}

est_node est_linear_model(est_features features, est_column_list columns, const est_linear_model_options *options)
{
    est_linear_model_options o;
    const est_column       **sorted = NULL;
    est_node                *parts, sum;
    est_status               status;

    if (!EST_OPTIONS(features.graph, est_linear_model_options, options, o)) {
        return est_graph_poison(features.graph, EST_INVALID_ARGUMENT);
    }
    if (o.units == 0) o.units = 1;
    if (o.combiner == EST_COMBINE_DEFAULT) o.combiner = EST_COMBINE_SUM;
    status = est_columns_for_layer(columns, "a linear model", check_linear, &sorted);
    if (status == EST_OK && o.units < 1) {
        status = est_graph_blame(est_fail(EST_INVALID_ARGUMENT, "a linear model of %lld units", (long long)o.units));
    }
    parts = status == EST_OK ? est_alloc((size_t)columns.n * sizeof *parts) : NULL;
    if (status == EST_OK && parts == NULL) status = est_no_memory();
    if (status != EST_OK) {
        sum = est_graph_poison(features.graph, status);
    } else {
        est_scope_push(features.graph, o.name != NULL ? o.name : "linear_model");
        sum = sum_of_columns(&features, sorted, parts, columns.n, &o);
        est_scope_pop(features.graph);
    }
    est_free(parts);
    est_free(sorted);
    return sum;
}

est_status est_linear_model_check(est_column_list columns)
{
    const est_column **sorted = NULL;

    EST_TRY(est_columns_for_layer(columns, "a linear model", check_linear, &sorted));
    est_free(sorted);
    return EST_OK;
}
