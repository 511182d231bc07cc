/* SPDX-License-Identifier: Apache-2.0
 *
 * Parse specs: the features that columns read from Examples and CSV files. A spec owns all its data, so that it
 * outlives the columns. */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"
#include "feature/column.h"

struct est_parse_spec {
    est_arena        *arena;
    est_feature_spec *features; /* [n] */
    est_csv_column   *csv;      /* [n]: the same for CSV */
    est_tensor      **defaults; /* [n]: owned, NULL: none */
    int               n, capacity;
};

/* --- one more ----------------------------------------------------------------------------------------------------- */

static bool grow_array(void **data, size_t item, int capacity)
{
    void *grown = est_realloc(*data, item * (size_t)capacity);

    if (grown != NULL) *data = grown;
    return grown != NULL;
}

static est_status reserve(est_parse_spec *spec)
{
    int capacity = spec->capacity > 0 ? 2 * spec->capacity : 16;

    if (spec->n < spec->capacity) return EST_OK;
    if (!grow_array((void **)&spec->features, sizeof *spec->features, capacity) ||
        !grow_array((void **)&spec->csv, sizeof *spec->csv, capacity) ||
        !grow_array((void **)&spec->defaults, sizeof *spec->defaults, capacity)) {
        return est_no_memory();
    }
    spec->capacity = capacity;
    return EST_OK;
}

/* The value of an empty CSV field, as text in the arena. */
static est_status csv_default(est_arena *arena, const est_feature_spec *feature, const char **out)
{
    const est_tensor *value = feature->default_value;

    if (feature->rows != EST_ROWS_FIXED) {
        *out = feature->dtype == EST_I64 ? "-1" : NULL; /* missing; NULL: "" */
        return EST_OK;
    }
    if (value == NULL || est_tensor_count(value) < 1) return EST_OK;
    switch (feature->dtype) {
    case EST_F32: *out = est_arena_printf(arena, "%.9g", (double)*(const float *)est_tensor_data(value)); break;
    case EST_I64: *out = est_arena_printf(arena, "%" PRId64, *(const int64_t *)est_tensor_data(value)); break;
    default: {
        const est_str *text = est_tensor_data(value);

        *out = est_arena_printf(arena, "%.*s", (int)text->size, text->data);
    }
    }
    return *out != NULL ? EST_OK : est_no_memory();
}

static est_status append(est_parse_spec *spec, const est_feature_spec *feature)
{
    est_feature_spec copy  = *feature;
    est_csv_column   csv   = { .dtype = feature->dtype };
    est_tensor      *value = NULL;

    EST_TRY(reserve(spec));
    copy.name = est_arena_strdup(spec->arena, feature->name);
    if (copy.name == NULL) return est_no_memory();
    csv.name     = copy.name;
    csv.required = feature->rows == EST_ROWS_FIXED && feature->default_value == NULL;
    EST_TRY(csv_default(spec->arena, feature, &csv.default_text));
    if (feature->default_value != NULL) {
        EST_TRY(est_tensor_create_from(est_tensor_dtype(feature->default_value),
                                       *est_tensor_shape(feature->default_value),
                                       est_tensor_data(feature->default_value), &value));
    }
    copy.default_value      = value;
    spec->features[spec->n] = copy;
    spec->csv[spec->n]      = csv;
    spec->defaults[spec->n] = value;
    spec->n++;
    return EST_OK;
}

/* --- what columns want -------------------------------------------------------------------------------------------- */

static const est_feature_spec *find_feature(const est_parse_spec *spec, const char *name)
{
    for (int i = 0; i < spec->n; i++) {
        if (strcmp(spec->features[i].name, name) == 0) return &spec->features[i];
    }
    return NULL;
}

/* Defaults of columns are numbers. */
static bool same_default(const est_tensor *a, const est_tensor *b)
{
    if (a == NULL || b == NULL) return a == b;
    return est_tensor_bytes(a) == est_tensor_bytes(b) &&
           memcmp(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a)) == 0;
}

static bool same_feature(const est_feature_spec *a, const est_feature_spec *b)
{
    return a->dtype == b->dtype && a->rows == b->rows && est_shape_equal(&a->shape, &b->shape) &&
           same_default(a->default_value, b->default_value);
}

/* "3 float32 a row", "any number of strings". */
static void describe(const est_feature_spec *feature, est_strbuf *out)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (feature->rows == EST_ROWS_FIXED) {
        est_strbuf_printf(out, "%s %s%s", est_dtype_name(feature->dtype), est_shape_text(&feature->shape, text),
                          feature->default_value != NULL ? " with a default" : "");
    } else {
        est_strbuf_printf(out, "any number of %s", est_dtype_name(feature->dtype));
    }
}

est_status est_parse_spec_want(est_parse_spec *spec, const est_column *column, const est_feature_spec *feature)
{
    const est_feature_spec *there = find_feature(spec, feature->name);
    est_strbuf              text  = { 0 };
    est_status              status;

    if (there == NULL) return append(spec, feature);
    if (same_feature(there, feature)) return EST_OK;
    describe(feature, &text);
    est_strbuf_append(&text, ", another one as ");
    describe(there, &text);
    status = est_fail(EST_INVALID_ARGUMENT, "the column \"%s\" needs the feature \"%s\" parsed as %s", column->name,
                      feature->name, est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return status;
}

est_status est_parse_spec_want_any(est_parse_spec *spec, const est_column *column, const char *key, est_dtype dtype)
{
    return est_parse_spec_want(spec, column,
                               &(est_feature_spec){ .name = key, .dtype = dtype, .rows = EST_ROWS_RAGGED });
}

/* --- the public half ---------------------------------------------------------------------------------------------- */

est_status est_parse_spec_create(est_column_list columns, est_parse_spec **out)
{
    const est_column **sorted = NULL;
    est_parse_spec    *spec;
    est_status         status;

    EST_REQUIRE(out);
    EST_TRY(est_columns_sorted(columns, "a parse spec", &sorted));
    spec = est_zalloc(sizeof *spec);
    if (spec != NULL) spec->arena = est_arena_create();
    status = spec != NULL && spec->arena != NULL ? EST_OK : est_no_memory();
    for (int i = 0; i < columns.n && status == EST_OK; i++) status = sorted[i]->kind->parse(sorted[i], spec);
    est_free(sorted);
    if (status != EST_OK) {
        est_parse_spec_free(spec);
        return status;
    }
    *out = spec;
    return EST_OK;
}

est_status est_parse_spec_add(est_parse_spec *spec, const est_feature_spec *feature)
{
    EST_REQUIRE(spec);
    EST_REQUIRE(feature);
    if (feature->name == NULL || feature->name[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "a feature to parse needs a name");
    }
    if (feature->dtype != EST_F32 && feature->dtype != EST_I64 && feature->dtype != EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT, "the feature \"%s\" is of %s; Examples hold float32, int64 and strings",
                        feature->name, est_dtype_name(feature->dtype));
    }
    if (find_feature(spec, feature->name) != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the feature \"%s\" is already parsed; it cannot also be a label or weight", feature->name);
    }
    return append(spec, feature);
}

est_feature_specs est_parse_spec_features(const est_parse_spec *spec)
{
    return spec != NULL ? (est_feature_specs){ spec->features, spec->n } : (est_feature_specs){ 0 };
}

est_csv_columns est_parse_spec_csv(const est_parse_spec *spec)
{
    return spec != NULL ? (est_csv_columns){ spec->csv, spec->n } : (est_csv_columns){ 0 };
}

void est_parse_spec_free(est_parse_spec *spec)
{
    if (spec == NULL) return;
    for (int i = 0; i < spec->n; i++) est_tensor_free(spec->defaults[i]);
    est_free(spec->features);
    est_free(spec->csv);
    est_free(spec->defaults);
    est_arena_free(spec->arena);
    est_free(spec);
}
