/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic embedding columns: keys get rows of a variable when they are first seen (kernels/row_table.h). The row
 * numbers are then looked up as in any embedding; -1 means no row. */
#include <inttypes.h>
#include <math.h>

#include "base/options.h"
#include "feature/column.h"
#include "kernels/row_table.h"

#define MAX_ROWS_DEFAULT ((int64_t)1 << 24)

typedef struct dynamic {
    est_column          column;
    est_dtype           dtype;
    est_dynamic_options o; /* defaults filled in */
} dynamic;

static const dynamic *dynamic_of(const est_column *column)
{
    return (const dynamic *)(const void *)column;
}

static est_status dynamic_parse(const est_column *column, est_parse_spec *spec)
{
    return est_parse_spec_want_any(spec, column, column->key, dynamic_of(column)->dtype);
}

/* Values of the feature as keys, int64. */
static est_node keys_of(const dynamic *c, est_node values)
{
    est_dtype have = est_node_dtype(values);

    if (c->dtype == EST_STRING ? have != EST_STRING : have != EST_I64 && have != EST_I32) {
        return est_nn_fail(values.graph, "column \"%s\" is of %s, but the feature \"%s\" is of %s", c->column.name,
                           est_dtype_name(c->dtype), c->column.key, est_dtype_name(have));
    }
    if (have == EST_STRING) return est_string_to_hash_bucket(values, INT64_MAX);
    return have == EST_I64 ? values : est_cast(values, EST_I64);
}

static est_node make_rows(const dynamic *c, est_graph *graph, bool frozen)
{
    est_row_policy policy = { .admit_after = c->o.admit_after, .max_age = c->o.max_age };
    est_node       handle, mark;

    if (!est_nn_row_draw(&c->o.initializer, graph, c->column.width, &policy.draw)) {
        return est_nn_fail(graph,
                           "column \"%s\": a custom initializer cannot initialize single rows; use one of "
                           "est_init_...",
                           c->column.name);
    }
    handle = est_row_variable(graph, "embedding_weights", EST_SHAPE(c->o.max_rows, c->column.width), &policy);
    if (est_graph_poisoned(graph)) return handle;
    est_graph_collect(graph, "global_variables", handle);
    if (!frozen) est_graph_collect(graph, "trainable_variables", handle);
    mark = est_nn_variable(graph, "embedding_weights" EST_KEY_DTYPE_PART, c->dtype == EST_STRING ? EST_U8 : EST_I64,
                           EST_SHAPE_SCALAR, est_init_zeros(), "global_variables");
    if (est_graph_poisoned(graph)) return mark;
    est_graph_collect(graph, EST_OPTIONAL_VARIABLES, mark);
    return handle;
}

static est_node dynamic_dense(const est_column *column, const est_features *features, est_layer_use use)
{
    const dynamic  *c     = dynamic_of(column);
    est_graph      *graph = features->graph;
    est_ragged_node rows  = est_raw_ragged(column, column->key, features);
    est_node        table;

    if (est_graph_poisoned(graph)) return est_graph_poison(graph, EST_INVALID_ARGUMENT);
    rows.values = keys_of(c, rows.values);
    table       = make_rows(c, graph, use.frozen);
    if (est_graph_poisoned(graph)) return table;
    rows.values = est_find_rows(table, rows.values);
    return est_embedding_bag(table, rows, EST_NO_NODE, c->o.combiner, 0);
}

static const est_column_kind dynamic_kind = { .what  = "a dynamic embedding column",
                                              .parse = dynamic_parse,
                                              .dense = dynamic_dense };

static est_status check(const char *key, est_dtype dtype, int64_t dimension, const est_dynamic_options *o)
{
    if (dtype != EST_I64 && dtype != EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the dynamic embedding of \"%s\" has keys of type %s, expected int64 or "
                        "string",
                        key, est_dtype_name(dtype));
    }
    if (dimension < 1 || dimension > INT32_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the embedding of \"%s\" cannot have %" PRId64 " dimensions", key,
                        dimension);
    }
    if (o->admit_after < 0 || o->max_age < 0 || o->max_rows < 0 || o->max_rows > EST_KEY_ROWS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the dynamic embedding of \"%s\" has admit_after %" PRId64 ", max_rows %" PRId64
                        " and max_age %" PRId64 "; none is below 0, and max_rows at most %" PRId32,
                        key, o->admit_after, o->max_rows, o->max_age, EST_KEY_ROWS_MAX);
    }
    return EST_OK;
}

const est_column *est_dynamic_embedding_column(est_columns *columns, const char *key, est_dtype dtype,
                                               int64_t dimension, const est_dynamic_options *options)
{
    est_dynamic_options o;
    dynamic            *made;
    const char         *name;
    est_status          status;

    if (!est_column_key_ok(columns, key, dynamic_kind.what)) return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    status = est_options_take(EST_STRUCT_SIZE(est_dynamic_options), options, &o);
    if (status == EST_OK) status = check(key, dtype, dimension, &o);
    if (status != EST_OK) return est_columns_fail(columns, status);
    if (o.initializer.make == NULL) o.initializer = est_init_truncated_normal(0, 1 / sqrt((double)dimension), 0);
    if (o.admit_after == 0) o.admit_after = 1;
    if (o.max_rows == 0) o.max_rows = MAX_ROWS_DEFAULT;
    name = est_arena_printf(est_columns_arena(columns), "%s_dynamic_embedding", key);
    made = name != NULL ? est_column_new(columns, &dynamic_kind, sizeof *made, name) : NULL;
    if (made == NULL) {
        return est_columns_fail(columns, est_no_memory());
    }
    made->column.key   = est_arena_strdup(est_columns_arena(columns), key);
    made->column.width = dimension;
    made->dtype        = dtype;
    made->o            = o;
    if (made->column.key != NULL) return &made->column;
    return est_columns_fail(columns, est_no_memory());
}
