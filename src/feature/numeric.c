/* SPDX-License-Identifier: Apache-2.0
 *
 * Numeric columns: numbers as float32, optionally passed through a function of the user. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "feature/column.h"

typedef struct numeric {
    est_column          column;
    est_numeric_options o;             /* shape and dtype filled in; default_value is in the tensor */
    est_tensor         *default_value; /* of the shape; NULL: none */
    double              padding;       /* of sequences */
} numeric;

static const numeric *numeric_of(const est_column *column)
{
    return (const numeric *)(const void *)column;
}

int est_numeric_rank(const est_column *column)
{
    return numeric_of(column)->o.shape.rank;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static est_status check_options(const char *key, const est_numeric_options *o)
{
    char    text[EST_SHAPE_TEXT_MAX];
    int64_t width = est_shape_count(&o->shape);

    for (int i = 0; i < o->shape.rank; i++) {
        if (o->shape.dim[i] > 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "numeric column \"%s\": the shape %s has a dimension that is not above 0",
                        key, est_shape_text(&o->shape, text));
    }
    if (o->shape.rank > EST_RANK_MAX - 1 || width > INT32_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "numeric column \"%s\": the shape %s is too large", key,
                        est_shape_text(&o->shape, text));
    }
    if (o->dtype != EST_F32 && o->dtype != EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "numeric column \"%s\" is of type %s, expected float32 or int64", key,
                        est_dtype_name(o->dtype));
    }
    if (!EST_LIST_OK(o->default_value) ||
        (o->default_value.n != 0 && o->default_value.n != 1 && o->default_value.n != width)) {
        return est_fail(EST_INVALID_ARGUMENT, "numeric column \"%s\" has %d default values for the shape %s", key,
                        o->default_value.n, est_shape_text(&o->shape, text));
    }
    for (int i = 0; i < o->default_value.n; i++) {
        /* 2^62: a float beyond it may not fit. */
        if (o->dtype == EST_F32 ||
            (o->default_value.data[i] == rintf(o->default_value.data[i]) && fabsf(o->default_value.data[i]) <= 0x1p62F))
            continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "numeric column \"%s\" is of int64, but its default value %g is not an "
                        "integer in range",
                        key, (double)o->default_value.data[i]);
    }
    return EST_OK;
}

static est_status make_default(const est_numeric_options *o, est_tensor **out)
{
    int64_t width = est_shape_count(&o->shape);

    if (o->default_value.n == 0) return EST_OK;
    EST_TRY(est_tensor_create(o->dtype, o->shape, out));
    for (int64_t i = 0; i < width; i++) {
        float value = o->default_value.data[o->default_value.n == 1 ? 0 : i];

        if (o->dtype == EST_F32)
            ((float *)est_tensor_mutable_data(*out))[i] = value;
        else
            ((int64_t *)est_tensor_mutable_data(*out))[i] = (int64_t)value;
    }
    return EST_OK;
}

static const est_column *make_numeric(est_columns *set, const est_column_kind *kind, const char *key,
                                      const est_numeric_options *options)
{
    est_numeric_options o;
    numeric            *made;
    est_status          status;

    if (!est_column_key_ok(set, key, kind->what)) return est_columns_fail(set, EST_INVALID_ARGUMENT);
    status = est_options_take(EST_STRUCT_SIZE(est_numeric_options), options, &o);
    if (status == EST_OK) {
        if (o.shape.rank == 0) o.shape = EST_SHAPE(1);
        if (o.dtype == EST_DTYPE_NONE) o.dtype = EST_F32;
        status = check_options(key, &o);
    }
    if (status != EST_OK) return est_columns_fail(set, status);
    made = est_column_new(set, kind, sizeof *made, key);
    if (made == NULL) return est_columns_fail(set, EST_RESOURCE_EXHAUSTED);
    made->column.key      = made->column.name;
    made->column.width    = est_shape_count(&o.shape);
    made->column.sequence = kind->steps != NULL;
    made->padding         = o.default_value.n > 0 ? (double)o.default_value.data[0] : 0;
    status                = make_default(&o, &made->default_value);
    o.default_value       = (est_f32s){ 0 }; /* borrowed only until now */
    made->o               = o;
    return status == EST_OK ? &made->column : est_columns_fail(set, status);
}

static void numeric_clear(const est_column *column)
{
    est_tensor_free(numeric_of(column)->default_value);
}

/* --- using -------------------------------------------------------------------------------------------------------- */

static est_status numeric_parse(const est_column *column, est_parse_spec *spec)
{
    const numeric *c = numeric_of(column);

    return est_parse_spec_want(
        spec, column,
        &(est_feature_spec){
            .name = column->key, .dtype = c->o.dtype, .shape = c->o.shape, .default_value = c->default_value });
}

/* The values after the user's function, as float32. */
static est_node normalized(const numeric *c, est_node x)
{
    if (est_graph_poisoned(x.graph)) return x;
    if (est_node_dtype(x) == EST_STRING || est_node_dtype(x) == EST_BOOL) {
        return est_nn_fail(x.graph, "column \"%s\" is of numbers, but the feature \"%s\" is of %s", c->column.name,
                           c->column.key, est_dtype_name(est_node_dtype(x)));
    }
    if (c->o.normalizer != NULL) x = c->o.normalizer(x, c->o.user);
    return est_node_dtype(x) == EST_F32 ? x : est_cast(x, EST_F32);
}

/* Numbers per row; -1: unknown before a step runs. */
static int64_t row_count(est_node x)
{
    est_shape row = *est_node_shape(x);

    if (row.rank > 0) row.dim[0] = 1;
    return est_shape_count(&row);
}

static est_node numeric_dense(const est_column *column, const est_features *features, est_layer_use use)
{
    const numeric *c = numeric_of(column);
    est_node       x = normalized(c, est_raw_dense(column, column->key, features));
    char           have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    (void)use; /* it has no variables */
    if (est_graph_poisoned(features->graph)) return x;
    if (row_count(x) >= 0 && row_count(x) != column->width) {
        return est_nn_fail(x.graph, "column \"%s\" has rows of shape %s, but the feature \"%s\" is %s", column->name,
                           est_shape_text(&c->o.shape, want), column->key, est_shape_text(est_node_shape(x), have));
    }
    if (est_node_shape(x)->rank == 2 && est_node_dim(x, 1) == column->width) return x;
    return est_reshape(x, EST_I64S(-1, column->width));
}

const est_column_kind est_numeric_kind = { .what  = "a numeric column",
                                           .parse = numeric_parse,
                                           .dense = numeric_dense,
                                           .clear = numeric_clear };

const est_column *est_numeric_column(est_columns *columns, const char *key, const est_numeric_options *options)
{
    return make_numeric(columns, &est_numeric_kind, key, options);
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

static est_status steps_parse(const est_column *column, est_parse_spec *spec)
{
    return est_parse_spec_want_any(spec, column, column->key, numeric_of(column)->o.dtype);
}

static est_node numeric_steps(const est_column *column, const est_features *features, est_node *lengths)
{
    const numeric  *c    = numeric_of(column);
    est_ragged_node rows = est_raw_steps(column, column->key, features);
    est_node        padded, width, n;

    if (est_graph_poisoned(features->graph)) return est_graph_poison(features->graph, EST_INVALID_ARGUMENT);
    rows.values = normalized(c, rows.values);
    padded      = est_ragged_to_dense(rows, c->padding);
    n           = est_ragged_lengths(rows);
    *lengths    = n;
    if (column->width == 1) return est_expand_dims(padded, -1);

    /* An incomplete last step counts, as in TensorFlow; padding completes it, or the reshape fails. */
    width    = est_scalar(n.graph, EST_I64, (double)column->width);
    *lengths = est_floor_div(est_add(n, est_scalar(n.graph, EST_I64, (double)(column->width - 1))), width);
    width    = est_scalar(n.graph, EST_I32, (double)column->width);
    return est_reshape_to(
        padded, est_pack(EST_NODES(est_nn_dim(padded, 0), est_floor_div(est_nn_dim(padded, 1), width), width), 0));
}

static const est_column_kind steps_kind = { .what  = "a sequence numeric column",
                                            .parse = steps_parse,
                                            .steps = numeric_steps,
                                            .clear = numeric_clear };

const est_column *est_sequence_numeric_column(est_columns *columns, const char *key, const est_numeric_options *options)
{
    est_numeric_options o;
    est_status          status = est_options_take(EST_STRUCT_SIZE(est_numeric_options), options, &o);

    if (status != EST_OK) return est_columns_fail(columns, status);
    if (o.default_value.n > 1) {
        return est_column_fail(columns,
                               "sequence numeric column \"%s\" has %d default values; the padding is one number",
                               key != NULL ? key : "", o.default_value.n);
    }
    return make_numeric(columns, &steps_kind, key, options);
}
