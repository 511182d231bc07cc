/* SPDX-License-Identifier: Apache-2.0
 *
 * Features of a batch in the form that columns need: dense rows, or ragged rows without missing values. */
#include "feature/column.h"

static const est_ragged_node no_rows; /* of a graph that has failed */

est_feature est_raw_feature(const est_column *column, const char *key, const est_features *features)
{
    char        there[512] = "";
    est_feature found;

    if (est_graph_poisoned(features->graph)) {
        return (est_feature){ .values = est_graph_poison(features->graph, EST_INVALID_ARGUMENT) };
    }
    found = features->find(features->user, key);
    if (found.values.graph == NULL) {
        if (features->list != NULL) features->list(features->user, there, sizeof there);
        found.values = est_nn_fail(features->graph,
                                   "column \"%s\" reads the feature \"%s\", but there is no such feature%s%s",
                                   column->name, key, there[0] != '\0' ? "; there are: " : "", there);
    }
    return found;
}

/* [batch] as [batch, 1]. */
static est_node at_least_rank_2(const est_column *column, const char *key, est_node x)
{
    int rank = est_node_shape(x)->rank;

    if (rank >= 2) return x;
    if (rank == 1) return est_expand_dims(x, -1);
    return est_nn_fail(x.graph, "column \"%s\": the feature \"%s\" %s; it must have a row for every example",
                       column->name, key, rank == 0 ? "is a scalar" : "has an unknown rank");
}

est_node est_raw_dense(const est_column *column, const char *key, const est_features *features)
{
    est_feature found = est_raw_feature(column, key, features);

    if (est_graph_poisoned(features->graph)) return found.values;
    if (found.splits.graph != NULL) {
        return est_nn_fail(features->graph,
                           "column \"%s\" is %s and needs the same number of values in every row, but the feature "
                           "\"%s\" is ragged; parse it with a fixed shape",
                           column->name, column->kind->what, key);
    }
    return at_least_rank_2(column, key, found.values);
}

est_ragged_node est_raw_ragged(const est_column *column, const char *key, const est_features *features)
{
    est_feature found = est_raw_feature(column, key, features);
    est_node    x;

    if (est_graph_poisoned(features->graph)) return no_rows;
    if (found.splits.graph != NULL) return (est_ragged_node){ found.values, found.splits };
    x = at_least_rank_2(column, key, found.values);
    return est_graph_poisoned(features->graph) ? no_rows : est_ragged_from_dense(x);
}

est_ragged_node est_raw_steps(const est_column *column, const char *key, const est_features *features)
{
    est_feature found = est_raw_feature(column, key, features);

    if (!est_graph_poisoned(features->graph) && found.splits.graph == NULL) {
        (void)est_nn_fail(features->graph,
                          "column \"%s\" is a sequence column, but the feature \"%s\" is dense, so that the "
                          "lengths of its rows are unknown; parse it as ragged",
                          column->name, key);
    }
    return est_graph_poisoned(features->graph) ? no_rows : (est_ragged_node){ found.values, found.splits };
}

est_ragged_node est_ragged_all(est_node x)
{
    est_node zero = est_scalar(x.graph, EST_I64, 0), one = est_scalar(x.graph, EST_I64, 1), rows;
    char     text[EST_SHAPE_TEXT_MAX];

    if (est_node_shape(x)->rank != 2) {
        (void)est_nn_fail(x.graph, "'%s' has shape %s; categories and their weights are [batch] or [batch, n]",
                          est_node_name(x), est_shape_text(est_node_shape(x), text));
        return no_rows;
    }
    rows = est_range(zero, est_add(est_cast(est_nn_dim(x, 0), EST_I64), one), one);
    return (est_ragged_node){ est_reshape(x, EST_I64S(-1)), est_mul(rows, est_cast(est_nn_dim(x, 1), EST_I64)) };
}

est_node est_splits_agree(const est_column *column, est_node a, est_node b, const char *names)
{
    est_graph  *graph   = a.graph;
    const char *message = est_arena_printf(est_graph_arena(graph), "column \"%s\": %s do not line up", column->name,
                                           names);

    if (message == NULL) return est_graph_poison(graph, est_no_memory());
    return est_add(a,
                   est_check_range(est_sub(b, a), 0, 0, message)); /* adding zeros makes the check part of the value */
}

est_node est_raw_present(est_node values)
{
    est_tensor *empty = NULL;
    est_node    nothing;
    est_status  status;

    if (est_node_dtype(values) != EST_STRING) {
        return est_not_equal(values, est_scalar(values.graph, est_node_dtype(values), -1));
    }
    status = est_tensor_string("", 0, &empty);
    if (status != EST_OK) return est_graph_poison(values.graph, status);
    nothing = est_const(values.graph, empty);
    est_tensor_free(empty);
    return est_not_equal(values, nothing);
}
