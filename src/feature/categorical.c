/* SPDX-License-Identifier: Apache-2.0
 *
 * Categorical columns of one feature: identity, hash buckets, vocabularies. Each maps every value of a row to an id
 * independently of the others. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "base/options.h"
#include "feature/column.h"

typedef struct categorical {
    est_column              column;
    est_categorical_options o;          /* dtype filled in */
    est_tensor             *vocabulary; /* of a list; else NULL */
    const char             *path;       /* of a vocabulary file; else NULL */
} categorical;

static const categorical *categorical_of(const est_column *column)
{
    return (const categorical *)(const void *)column;
}

/* --- from values to ids ------------------------------------------------------------------------------------------- */

static est_status categorical_parse(const est_column *column, est_parse_spec *spec)
{
    return est_parse_spec_want_any(spec, column, column->key, categorical_of(column)->o.dtype);
}

/* Whether the feature is of the column's type; if so, integers as int64. */
static bool check_values(const categorical *c, est_node *values)
{
    est_dtype have = est_node_dtype(*values);
    bool      fits = c->o.dtype == EST_STRING ? have == EST_STRING : have == EST_I64 || have == EST_I32;

    if (est_graph_poisoned(values->graph)) return false;
    if (!fits) {
        *values = est_nn_fail(values->graph, "column \"%s\" is of %s, but the feature \"%s\" is of %s", c->column.name,
                              est_dtype_name(c->o.dtype), c->column.key, est_dtype_name(have));
    } else if (have == EST_I32) {
        *values = est_cast(*values, EST_I64);
    }
    return fits;
}

/* Replaces ids out of range by the default, if the column has one. */
static est_node identity_hashed(const est_column *column, est_node values)
{
    const categorical *c     = categorical_of(column);
    est_graph         *graph = values.graph;
    est_node           n     = est_scalar(graph, EST_I64, (double)column->n_buckets), known;

    if (!check_values(c, &values) || !c->o.has_default) return values;
    known = est_logical_and(est_greater_equal(values, est_scalar(graph, EST_I64, 0)), est_less(values, n));
    return est_select(known, values, est_scalar(graph, EST_I64, (double)c->o.default_value));
}

static est_node identity_map(const est_column *column, est_node values)
{
    est_graph  *graph = values.graph;
    const char *message;

    values = identity_hashed(column, values);
    if (categorical_of(column)->o.has_default || est_graph_poisoned(graph)) return values;
    message = est_arena_printf(est_graph_arena(graph),
                               "column \"%s\" has %" PRId64 " buckets, so its ids are below that", column->name,
                               column->n_buckets);
    if (message == NULL) return est_graph_poison(graph, est_no_memory());
    return est_check_range(values, -0x1p63, (double)(column->n_buckets - 1), message);
}

static est_node hash_map(const est_column *column, est_node values)
{
    const categorical *c = categorical_of(column);

    if (!check_values(c, &values)) return values;
    if (c->o.dtype == EST_I64) values = est_as_string(values);
    return est_string_to_hash_bucket(values, column->n_buckets);
}

/* The vocabulary as a table of the graph. Every call of a builder creates another table; so the graph keeps the first
 * one under a key of everything that makes tables differ, and equal lookups of columns can be merged. */
static est_node table_of(const categorical *c, est_graph *graph)
{
    const est_table_options *options = EST_TABLE(.size = c->o.vocabulary_size, .num_oov_buckets = c->o.num_oov_buckets,
                                                 .has_default = c->o.has_default, .default_id = c->o.default_value);
    const char              *name;
    est_nodes                made;
    est_node                 table;

    /* The key of a list is its address: the graph keeps the list alive. */
    name = est_arena_printf(est_graph_arena(graph), "vocabulary/%p/%s/%d/%" PRId64 "/%" PRId64 "/%d/%" PRId64,
                            (void *)c->vocabulary, c->path != NULL ? c->path : "", (int)c->o.dtype,
                            c->o.vocabulary_size, c->o.num_oov_buckets, (int)c->o.has_default, c->o.default_value);
    if (name == NULL) return est_graph_poison(graph, est_no_memory());
    made = est_graph_collection(graph, name);
    if (made.n > 0) return made.data[0];
    table = c->path != NULL ? est_vocabulary_file(graph, c->path, c->o.dtype, options)
                            : est_vocabulary_list(graph, c->vocabulary, options);
    if (!est_graph_poisoned(graph)) est_graph_collect(graph, name, table);
    return table;
}

static est_node vocabulary_map(const est_column *column, est_node values)
{
    const categorical *c = categorical_of(column);

    return check_values(c, &values) ? est_lookup(table_of(c, values.graph), values) : values;
}

static est_ids ids_by(const est_column *column, const est_features *features,
                      est_node (*map)(const est_column *column, est_node values))
{
    est_ids ids = { .rows = column->sequence ? est_raw_steps(column, column->key, features)
                                             : est_raw_ragged(column, column->key, features) };

    if (!est_graph_poisoned(features->graph)) ids.rows.values = map(column, ids.rows.values);
    return ids;
}

static est_ids categorical_ids(const est_column *column, const est_features *features)
{
    return ids_by(column, features, column->kind->map);
}

/* A cross hashes ids without a lookup, so that an id out of range is a value like any other, as in TensorFlow. */
static est_ids identity_cross(const est_column *column, const est_features *features)
{
    return ids_by(column, features, identity_hashed);
}

est_node est_column_step_ids(const est_column *column, const est_features *features, est_node *lengths)
{
    est_ids ids = column->kind->ids(column, features);

    if (est_graph_poisoned(features->graph)) return est_graph_poison(features->graph, EST_INVALID_ARGUMENT);
    *lengths = est_ragged_lengths(ids.rows);
    return est_ragged_to_dense(ids.rows, -1);
}

static void categorical_clear(const est_column *column)
{
    est_tensor_free(categorical_of(column)->vocabulary);
}

static const est_column_kind identity_kind        = { .what  = "an identity column",
                                                      .parse = categorical_parse,
                                                      .map   = identity_map,
                                                      .ids   = categorical_ids,
                                                      .cross = identity_cross };
const est_column_kind        est_hash_bucket_kind = { .what  = "a hash bucket column",
                                                      .parse = categorical_parse,
                                                      .map   = hash_map,
                                                      .ids   = categorical_ids };
static const est_column_kind list_kind            = { .what  = "a vocabulary list column",
                                                      .parse = categorical_parse,
                                                      .map   = vocabulary_map,
                                                      .ids   = categorical_ids,
                                                      .clear = categorical_clear };
static const est_column_kind file_kind            = { .what  = "a vocabulary file column",
                                                      .parse = categorical_parse,
                                                      .map   = vocabulary_map,
                                                      .ids   = categorical_ids };

/* --- making ------------------------------------------------------------------------------------------------------- */

/* Fails for options that this kind does not have, and for those that exclude each other. */
static est_status check_options(const est_column_kind *kind, const char *key, const est_categorical_options *o)
{
    const char *wrong = NULL;
    bool        words = kind == &list_kind || kind == &file_kind;

    if (o->has_default && kind == &est_hash_bucket_kind) wrong = "a default value";
    if (o->num_oov_buckets != 0 && !words) wrong = "num_oov_buckets";
    if (o->vocabulary_size != 0 && kind != &file_kind) wrong = "vocabulary_size";
    if (wrong != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": %s has no option %s; leave it out", key, kind->what, wrong);
    }
    if (o->dtype != EST_I64 && (o->dtype != EST_STRING || kind == &identity_kind)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": %s cannot have the type %s", key, kind->what,
                        est_dtype_name(o->dtype));
    }
    if (o->num_oov_buckets < 0 || o->vocabulary_size < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "\"%s\": num_oov_buckets %" PRId64 " and vocabulary_size %" PRId64 " cannot be negative", key,
                        o->num_oov_buckets, o->vocabulary_size);
    }
    if (o->num_oov_buckets > 0 && o->has_default) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "\"%s\" has both num_oov_buckets and a default value; unknown entries get one", key);
    }
    return EST_OK;
}

static est_status check_default(const est_column_kind *kind, const char *key, const est_categorical_options *o,
                                int64_t n_buckets)
{
    int64_t low = kind == &identity_kind ? 0 : -1; /* -1: unknown entries are missing */

    if (n_buckets < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": %s needs at least one bucket, not %" PRId64, key, kind->what,
                        n_buckets);
    }
    if (o->has_default && (o->default_value < low || o->default_value >= n_buckets)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": the default value %" PRId64 " is not one of %" PRId64 " buckets",
                        key, o->default_value, n_buckets);
    }
    return EST_OK;
}

static est_status take_options(const est_column_kind *kind, const char *key, const est_categorical_options *options,
                               est_dtype dtype, est_categorical_options *o)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_categorical_options), options, o));
    if (o->dtype == EST_DTYPE_NONE) o->dtype = dtype;
    return check_options(kind, key, o);
}

static const est_column *make_categorical(est_columns *set, const est_column_kind *kind, const char *key,
                                          const est_categorical_options *o, int64_t n_buckets, categorical **out)
{
    est_status   status = check_default(kind, key, o, n_buckets);
    categorical *made;

    if (status != EST_OK) return est_columns_fail(set, status);
    made = est_column_new(set, kind, sizeof *made, key);
    if (made == NULL) return est_columns_fail(set, EST_RESOURCE_EXHAUSTED);
    made->column.key       = made->column.name;
    made->column.n_buckets = n_buckets;
    made->column.sequence  = o->sequence;
    made->o                = *o;
    if (out != NULL) *out = made;
    return &made->column;
}

const est_column *est_identity_column(est_columns *columns, const char *key, int64_t num_buckets,
                                      const est_categorical_options *options)
{
    est_categorical_options o;
    est_status              status;

    if (!est_column_key_ok(columns, key, identity_kind.what)) return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    status = take_options(&identity_kind, key, options, EST_I64, &o);
    if (status != EST_OK) return est_columns_fail(columns, status);
    return make_categorical(columns, &identity_kind, key, &o, num_buckets, NULL);
}

const est_column *est_hash_bucket_column(est_columns *columns, const char *key, int64_t num_buckets,
                                         const est_categorical_options *options)
{
    est_categorical_options o;
    est_status              status;

    if (!est_column_key_ok(columns, key, est_hash_bucket_kind.what))
        return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    status = take_options(&est_hash_bucket_kind, key, options, EST_STRING, &o);
    if (status != EST_OK) return est_columns_fail(columns, status);
    return make_categorical(columns, &est_hash_bucket_kind, key, &o, num_buckets, NULL);
}

/* --- vocabulary lists --------------------------------------------------------------------------------------------- */

static est_status check_unique(const char *key, const est_tensor *list)
{
    const est_str *words   = est_tensor_data(list);
    const int64_t *numbers = est_tensor_data(list);
    bool           strings = est_tensor_dtype(list) == EST_STRING;
    est_map        seen    = { 0 };
    est_status     status  = EST_OK;

    for (int64_t i = 0; i < est_tensor_count(list) && status == EST_OK; i++) {
        const void *entry = strings ? (const void *)words[i].data : &numbers[i];
        size_t      size  = strings ? words[i].size : sizeof numbers[i];

        if (est_map_get_bytes(&seen, entry, size) != NULL) {
            status = strings ? est_fail(EST_INVALID_ARGUMENT, "\"%s\": \"%.*s\" is in the vocabulary twice", key,
                                        size < 100 ? (int)size : 100, words[i].data)
                             : est_fail(EST_INVALID_ARGUMENT, "\"%s\": %" PRId64 " is in the vocabulary twice", key,
                                        numbers[i]);
        } else {
            status = est_map_put_bytes(&seen, entry, size, &seen);
        }
    }
    est_map_clear(&seen);
    return status;
}

static est_status check_list(const char *key, const est_tensor *list, const est_categorical_options *options)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (list == NULL || est_tensor_shape(list)->rank != 1 || est_tensor_count(list) < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": a vocabulary is a vector of at least one entry, not %s", key,
                        list != NULL ? est_shape_text(est_tensor_shape(list), text) : "NULL");
    }
    if (options != NULL && options->dtype != EST_DTYPE_NONE && options->dtype != est_tensor_dtype(list)) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is of %s, but its vocabulary is of %s", key,
                        est_dtype_name(options->dtype), est_dtype_name(est_tensor_dtype(list)));
    }
    return EST_OK;
}

const est_column *est_vocabulary_list_column(est_columns *columns, const char *key, est_tensor *vocabulary,
                                             const est_categorical_options *options)
{
    est_categorical_options o;
    const est_column       *column;
    categorical            *made = NULL;
    est_status              status;

    if (!est_column_key_ok(columns, key, list_kind.what)) return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    status = check_list(key, vocabulary, options);
    if (status == EST_OK) status = take_options(&list_kind, key, options, est_tensor_dtype(vocabulary), &o);
    if (status == EST_OK) status = check_unique(key, vocabulary);
    if (status != EST_OK) return est_columns_fail(columns, status);
    column = make_categorical(columns, &list_kind, key, &o, est_tensor_count(vocabulary) + o.num_oov_buckets, &made);
    if (made != NULL) made->vocabulary = est_tensor_ref(vocabulary);
    return column;
}

const est_column *est_vocabulary_strings_column(est_columns *columns, const char *key, est_strings vocabulary,
                                                const est_categorical_options *options)
{
    est_tensor       *list   = NULL;
    est_status        status = est_tensor_create(EST_STRING, EST_SHAPE(vocabulary.n > 0 ? vocabulary.n : 0), &list);
    const est_column *column;

    for (int i = 0; i < vocabulary.n && status == EST_OK; i++) {
        status = vocabulary.data != NULL && vocabulary.data[i] != NULL
                     ? est_tensor_set_string(list, i, vocabulary.data[i], strlen(vocabulary.data[i]))
                     : est_fail(EST_INVALID_ARGUMENT, "\"%s\": entry %d of the vocabulary is NULL",
                                key != NULL ? key : "", i);
    }
    column = status == EST_OK ? est_vocabulary_list_column(columns, key, list, options)
                              : est_columns_fail(columns, status);
    est_tensor_free(list);
    return column;
}

/* --- vocabulary files --------------------------------------------------------------------------------------------- */

/* Counts the lines. *empty receives the number of the first empty line; 0: none. */
static est_status count_lines(const char *path, int64_t *out, int64_t *empty)
{
    char   *bytes = NULL;
    size_t  size  = 0;
    int64_t n     = 0;

    EST_TRY(est_file_read(path, &bytes, &size));
    *empty = 0;
    for (const char *at = bytes, *end = bytes + size; at < end; n++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));

        if (*empty == 0 && (line_end == at || (line_end == at + 1 && *at == '\r'))) *empty = n + 1;
        at = line_end != NULL ? line_end + 1 : end;
    }
    est_free(bytes);
    *out = n;
    return EST_OK;
}

/* The number of entries of the file that are used. */
static est_status file_entries(const char *key, const char *path, int64_t wanted, int64_t *out)
{
    int64_t lines = 0, empty = 0;

    if (path == NULL || path[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": a vocabulary file column needs a file", key);
    }
    EST_TRY(count_lines(path, &lines, &empty));
    if (lines == 0) return est_fail(EST_INVALID_ARGUMENT, "\"%s\": the vocabulary file %s is empty", key, path);
    if (wanted > lines) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "\"%s\": the vocabulary file %s has %" PRId64 " lines, fewer than the vocabulary_size %" PRId64,
                        key, path, lines, wanted);
    }
    *out = wanted > 0 ? wanted : lines;
    if (empty > 0 && empty <= *out) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\": line %" PRId64 " of the vocabulary file %s is empty", key, empty,
                        path);
    }
    return EST_OK;
}

const est_column *est_vocabulary_file_column(est_columns *columns, const char *key, const char *path,
                                             const est_categorical_options *options)
{
    est_categorical_options o;
    const est_column       *column;
    categorical            *made = NULL;
    est_status              status;

    if (!est_column_key_ok(columns, key, file_kind.what)) return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    status = take_options(&file_kind, key, options, EST_STRING, &o);
    /* The number of lines at this moment is the size of the variables, even if the file grows later. */
    if (status == EST_OK) status = file_entries(key, path, o.vocabulary_size, &o.vocabulary_size);
    if (status != EST_OK) return est_columns_fail(columns, status);
    column = make_categorical(columns, &file_kind, key, &o, o.vocabulary_size + o.num_oov_buckets, &made);
    if (made == NULL) return column;
    made->path = est_arena_strdup(est_columns_arena(columns), path);
    if (made->path != NULL) return column;
    return est_columns_fail(columns, est_no_memory());
}
