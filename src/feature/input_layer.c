/* SPDX-License-Identifier: Apache-2.0
 *
 * Input layers: concatenate columns in the order of their names. Variables are in a scope of the column's name. */
#include "base/options.h"
#include "feature/column.h"

/* --- rows --------------------------------------------------------------------------------------------------------- */

static est_status check_dense(const est_column *column)
{
    if (column->kind->dense != NULL) return EST_OK;
    if (column->sequence) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is a sequence column; use est_sequence_input_layer",
                        column->name);
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "\"%s\" is %s, which is not dense; wrap it in est_indicator_column or "
                    "est_embedding_column",
                    column->name, column->kind->what);
}

static est_node dense_parts(const est_features *features, const est_column **columns, est_node *parts, int n,
                            est_layer_use use)
{
    est_graph *graph = features->graph;

    for (int i = 0; i < n; i++) {
        est_scope_push(graph, use.v1 ? columns[i]->v1_scope : columns[i]->scope);
        parts[i] = columns[i]->kind->dense(columns[i], features, use);
        est_scope_pop(graph);
        if (est_graph_poisoned(graph)) return parts[i];
    }
    return n == 1 ? parts[0] : est_concat((est_nodes){ parts, n }, 1);
}

est_node est_input_layer(est_features features, est_column_list columns, const est_input_layer_options *options)
{
    est_input_layer_options o;
    const est_column      **sorted = NULL;
    est_node               *parts, layer;
    est_status              status;

    if (!EST_OPTIONS(features.graph, est_input_layer_options, options, o)) {
        return est_graph_poison(features.graph, EST_INVALID_ARGUMENT);
    }
    status = est_columns_for_layer(columns, "an input layer", check_dense, &sorted);
    parts  = status == EST_OK ? est_alloc((size_t)columns.n * sizeof *parts) : NULL;
    if (status == EST_OK && parts == NULL) status = est_no_memory();
    if (status != EST_OK) {
        layer = est_graph_poison(features.graph, status);
    } else {
        est_scope_push(features.graph, o.name != NULL ? o.name : "input_layer");
        layer = dense_parts(&features, sorted, parts, columns.n, (est_layer_use){ o.frozen, o.v1 });
        est_scope_pop(features.graph);
    }
    est_free(parts);
    est_free(sorted);
    return layer;
}

est_status est_input_layer_check(est_column_list columns)
{
    const est_column **sorted = NULL;

    EST_TRY(est_columns_for_layer(columns, "an input layer", check_dense, &sorted));
    est_free(sorted);
    return EST_OK;
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

static est_status check_steps(const est_column *column)
{
    if (column->kind->steps != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "\"%s\" is %s, which is not a sequence column; sequence columns are numeric, indicators or "
                    "embeddings",
                    column->name, column->kind->what);
}

static est_node step_parts(const est_features *features, const est_column **columns, est_node *parts, int n,
                           est_node *lengths)
{
    est_graph *graph = features->graph;

    for (int i = 0; i < n; i++) {
        est_node each = EST_NO_NODE;

        est_scope_push(graph, columns[i]->scope);
        parts[i] = columns[i]->kind->steps(columns[i], features, &each);
        if (i == 0)
            *lengths = each;
        else if (!est_graph_poisoned(graph)) {
            *lengths = est_splits_agree(columns[i], *lengths, each,
                                        "the lengths of its sequences and those of other columns");
        }
        est_scope_pop(graph);
        if (est_graph_poisoned(graph)) return parts[i];
    }
    return n == 1 ? parts[0] : est_concat((est_nodes){ parts, n }, 2);
}

est_node est_sequence_input_layer(est_features features, est_column_list columns, est_node *lengths)
{
    const est_column **sorted = NULL;
    est_node          *parts, layer;
    est_status         status = est_columns_for_layer(columns, "a sequence input layer", check_steps, &sorted);

    if (status == EST_OK && lengths == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "est_sequence_input_layer: lengths is NULL");
    }
    parts = status == EST_OK ? est_alloc((size_t)columns.n * sizeof *parts) : NULL;
    if (status == EST_OK && parts == NULL) status = est_no_memory();
    if (status != EST_OK) {
        layer = est_graph_poison(features.graph, status);
        if (lengths != NULL) *lengths = layer;
    } else {
        est_scope_push(features.graph, "sequence_input_layer");
        layer = step_parts(&features, sorted, parts, columns.n, lengths);
        est_scope_pop(features.graph);
    }
    est_free(parts);
    est_free(sorted);
    return layer;
}

est_node est_concat_context(est_node sequence, est_node context)
{
    est_graph *graph = sequence.graph;
    char       a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
    est_node   shape;

    if (graph == NULL) return EST_NO_NODE;
    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    if (est_node_shape(sequence)->rank != 3 || est_node_shape(context)->rank != 2) {
        return est_nn_fail(graph, "sequences are [batch, steps, n] and their context is [batch, m], not %s and %s",
                           est_shape_text(est_node_shape(sequence), a), est_shape_text(est_node_shape(context), b));
    }
    shape = est_pack(EST_NODES(est_nn_dim(sequence, 0), est_nn_dim(sequence, 1), est_nn_dim(context, 1)), 0);
    return est_concat(EST_NODES(sequence, est_broadcast_to(est_expand_dims(context, 1), shape)), 2);
}
