/* SPDX-License-Identifier: Apache-2.0
 *
 * Crossed columns: a hash of every combination of the values of other columns. Crosses of crosses are one flat cross.
 *
 * The hash depends on the order of the values: that of the sources as given, but for keys whose feature is dense, which
 * come last, since TensorFlow hands the sparse ones and the dense ones to its kernel as two lists. In dense features an
 * empty string is a value like any other. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"
#include "feature/column.h"

typedef struct crossed {
    est_column         column;
    const est_column **leaves; /* [n]: none of them a cross */
    int                n;
    uint64_t           hash_key;
} crossed;

static const crossed *crossed_of(const est_column *column)
{
    return (const crossed *)(const void *)column;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static est_status key_parse(const est_column *column, est_parse_spec *spec)
{
    return est_parse_spec_want_any(spec, column, column->key, EST_STRING);
}

static const est_column_kind key_kind = { .what = "a key column", .parse = key_parse };

const est_column *est_key_column(est_columns *columns, const char *key)
{
    est_column *made;

    if (!est_column_key_ok(columns, key, key_kind.what)) return est_columns_fail(columns, EST_INVALID_ARGUMENT);
    made = est_column_new(columns, &key_kind, sizeof *made, key);
    if (made == NULL) return est_columns_fail(columns, EST_RESOURCE_EXHAUSTED);
    made->key = made->name;
    return made;
}

/* The values of a key as they are; *dense: from a dense feature. */
static est_ragged_node key_values(const est_column *column, const est_features *features, bool *dense)
{
    est_feature     found = est_raw_feature(column, column->key, features);
    est_ragged_node rows  = { found.values, found.splits };
    est_dtype       dtype;

    *dense = found.splits.graph == NULL;
    if (*dense) {
        est_node x = est_raw_dense(column, column->key, features);

        if (!est_graph_poisoned(features->graph)) rows = est_ragged_all(x);
    }
    if (est_graph_poisoned(features->graph)) return rows;
    dtype = est_node_dtype(rows.values);
    if (dtype == EST_STRING || dtype == EST_I64) return rows;
    rows.values = est_cast(rows.values, EST_I64); /* drops the fractions of floats, as TensorFlow does */
    return rows;
}

/* --- crosses ------------------------------------------------------------------------------------------------------ */

static est_status crossed_parse(const est_column *column, est_parse_spec *spec)
{
    const crossed *c = crossed_of(column);

    for (int i = 0; i < c->n; i++) EST_TRY(c->leaves[i]->kind->parse(c->leaves[i], spec));
    return EST_OK;
}

static est_ragged_node leaf_values(const est_column *leaf, const est_features *features, bool *dense)
{
    *dense = false;
    if (leaf->kind == &key_kind) return key_values(leaf, features, dense);
    return (leaf->kind->cross != NULL ? leaf->kind->cross : leaf->kind->ids)(leaf, features).rows;
}

static est_ids crossed_ids(const est_column *column, const est_features *features)
{
    const crossed  *c = crossed_of(column);
    est_ragged_node sparse[EST_CROSS_MAX], dense[EST_CROSS_MAX];
    int             n_sparse = 0, n_dense = 0;
    est_ids         ids = { 0 };

    for (int i = 0; i < c->n; i++) {
        bool            is_dense;
        est_ragged_node rows = leaf_values(c->leaves[i], features, &is_dense);

        if (is_dense)
            dense[n_dense++] = rows;
        else
            sparse[n_sparse++] = rows;
    }
    if (est_graph_poisoned(features->graph)) return ids;
    memcpy(sparse + n_sparse, dense, (size_t)n_dense * sizeof *dense);
    ids.rows = est_ragged_cross((est_ragged_nodes){ sparse, c->n }, column->n_buckets, c->hash_key);
    return ids;
}

static const est_column_kind crossed_kind = { .what = "a crossed column", .parse = crossed_parse, .ids = crossed_ids };

/* --- making ------------------------------------------------------------------------------------------------------- */

static est_status check_source(const est_column *source)
{
    if (source->kind == &key_kind) return EST_OK;
    if (source->kind == &est_hash_bucket_kind) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a hash bucket column cannot be crossed, as its values would be hashed twice; cross "
                        "est_key_column(\"%s\") instead of \"%s\"",
                        source->key, source->name);
    }
    if (source->kind == &est_weighted_kind) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" has weights, which a cross cannot keep; cross what it weighs",
                        source->name);
    }
    if (source->kind->ids == NULL || source->sequence) {
        return est_fail(EST_INVALID_ARGUMENT, "\"%s\" is %s%s, which cannot be crossed", source->name,
                        source->kind->what,
                        source->sequence                    ? " of sequences"
                        : source->kind == &est_numeric_kind ? " (bucketize it)"
                                                            : "");
    }
    return EST_OK;
}

/* Appends the leaves of a source. */
static est_status add_leaves(crossed *c, const est_column *source)
{
    bool                     nested = source->kind == &crossed_kind;
    int                      n      = nested ? crossed_of(source)->n : 1;
    const est_column *const *from   = nested ? crossed_of(source)->leaves : &source;

    EST_TRY(check_source(source));
    if (c->n + n > EST_CROSS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a cross can have at most %d columns", EST_CROSS_MAX);
    }
    for (int i = 0; i < n; i++) c->leaves[c->n++] = from[i];
    return EST_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of the leaves in order, joined by _X_; in the arena. NULL when out of memory. */
static const char *crossed_name(est_arena *arena, const crossed *c)
{
    const char *names[EST_CROSS_MAX];
    est_strbuf  joined = { 0 };
    const char *name;

    for (int i = 0; i < c->n; i++) names[i] = c->leaves[i]->name;
    qsort(names, (size_t)c->n, sizeof *names, by_name);
    for (int i = 0; i < c->n; i++) est_strbuf_printf(&joined, "%s%s", i > 0 ? "_X_" : "", names[i]);
    name = joined.failed ? NULL : est_arena_strdup(arena, est_strbuf_text(&joined));
    est_strbuf_clear(&joined);
    return name;
}

const est_column *est_crossed_column(est_column_list sources, int64_t num_buckets, uint64_t hash_key)
{
    const est_column *leaves[EST_CROSS_MAX];
    crossed           plan   = { .leaves = leaves, .hash_key = hash_key }, *made;
    est_columns      *set    = NULL;
    est_status        status = EST_OK;
    const char       *name;

    if (!EST_LIST_OK(sources)) sources.n = 0;
    if (sources.n > 0 && sources.data[0] != NULL) set = sources.data[0]->set;
    for (int i = 0; i < sources.n; i++) {
        if (!est_column_usable(sources.data[i])) return sources.data[i];
    }
    if (sources.n < 2) status = est_fail(EST_INVALID_ARGUMENT, "a cross needs at least two columns, not %d", sources.n);
    if (num_buckets < 1) {
        status = est_fail(EST_INVALID_ARGUMENT, "a cross needs at least one bucket, not %" PRId64, num_buckets);
    }
    for (int i = 0; i < sources.n && status == EST_OK; i++) status = add_leaves(&plan, sources.data[i]);
    if (status != EST_OK) return est_columns_fail(set, status);

    name        = crossed_name(est_columns_arena(set), &plan);
    made        = name != NULL ? est_column_new(set, &crossed_kind, sizeof *made, name) : NULL;
    plan.leaves = est_arena_alloc(est_columns_arena(set), (size_t)plan.n * sizeof *plan.leaves);
    if (made == NULL || plan.leaves == NULL) {
        return est_columns_fail(set, est_no_memory());
    }
    memcpy(plan.leaves, leaves, (size_t)plan.n * sizeof *plan.leaves);
    plan.column           = made->column;
    plan.column.n_buckets = num_buckets;
    *made                 = plan;
    return &made->column;
}
