/* SPDX-License-Identifier: Apache-2.0
 *
 * A feature column as the library sees it: a name, the features it reads, and one struct of functions per kind.
 *
 * A kind embeds est_column as its first member. Functions that it does not support are NULL: a kind without `ids` is
 * not categorical, a kind without `dense` cannot be used in an input layer, a kind without `steps` not in a sequence
 * layer. Functions build nodes in the scope that the layer has opened, and poison it on failure. Columns are
 * immutable. */
#ifndef EST_FEATURE_COLUMN_H
#define EST_FEATURE_COLUMN_H

#include "base/alloc.h"
#include "estoc/feature_column.h"
#include "nn/nn.h"

typedef struct est_column_kind est_column_kind;

struct est_column {
    const est_column_kind *kind;
    est_columns           *set;   /* that owns it */
    const est_column      *older; /* the previous column of the set */
    const char            *name;
    /* scope of its variables: the name, with characters replaced that scopes cannot have */
    const char *scope;
    /* the same in layers of tf.compat.v1; for a shared embedding that of its collection */
    const char *v1_scope;
    const char *key;       /* the feature it reads; NULL: it reads through other columns */
    int64_t     n_buckets; /* categorical: ids are below it */
    int64_t     width;     /* dense: numbers a row, or a step */
    bool        sequence;  /* rows are steps in order */
};

/* The ids of a batch, int64, -1 for unknown values; and a float32 weight for each, or EST_NO_NODE. */
typedef struct est_ids {
    est_ragged_node rows;
    est_node        weights;
} est_ids;

/* Settings of a layer for all its columns. */
typedef struct est_layer_use {
    bool frozen; /* their variables are not trained */
    bool v1;     /* shared embeddings are those of tf.compat.v1 */
} est_layer_use;

struct est_column_kind {
    const char *what; /* "a numeric column" */

    /* Adds the features it reads. */
    est_status (*parse)(const est_column *column, est_parse_spec *spec);

    /* The id of every value of the feature `key`; NULL for columns that need more than one value at a time. */
    est_node (*map)(const est_column *column, est_node values);
    /* Categorical: the ids of a batch. */
    est_ids (*ids)(const est_column *column, const est_features *features);
    /* The same for a cross, of ids that need not be below n_buckets; NULL: `ids`. */
    est_ids (*cross)(const est_column *column, const est_features *features);
    /* Dense: float32 [batch, width]. */
    est_node (*dense)(const est_column *column, const est_features *features, est_layer_use use);
    /* Sequences: float32 [batch, longest, width] and int64 lengths [batch]. */
    est_node (*steps)(const est_column *column, const est_features *features, est_node *lengths);

    void (*clear)(const est_column *column); /* frees memory outside of the arena of the set */
};

extern const est_column_kind est_numeric_kind, est_hash_bucket_kind, est_weighted_kind;

/* --- sets (columns.c) --------------------------------------------------------------------------------------------- */

est_arena *est_columns_arena(est_columns *set);

/* Records the thread's last failure if it is the set's first; returns the set's failed column. NULL for no set. */
const est_column *est_columns_fail(est_columns *set, est_status status);

/* Fails a set; used as `return est_column_fail(set, "text", ...)`. */
#define est_column_fail(set, ...) est_columns_fail(set, est_fail(EST_INVALID_ARGUMENT, __VA_ARGS__))

/* Whether the column exists and its construction succeeded. A constructor that gets a failed column returns it. */
bool est_column_usable(const est_column *column);

/* A zeroed struct of `size` bytes that begins with an est_column, in the set and called `name` (copied); NULL when
 * memory is out; the set then reports the error. */
void *est_column_new(est_columns *set, const est_column_kind *kind, size_t size, const char *name);

/* The same, called "<name of source><suffix>". */
void *est_column_new_from(const est_column *source, const est_column_kind *kind, size_t size, const char *suffix);

/* A name as a valid scope, in the arena; NULL when out of memory. */
const char *est_scope_name(est_arena *arena, const char *name);

/* Whether the set and the name of a feature are valid; else the set records the error. `what` is the kind of column. */
bool est_column_key_ok(est_columns *set, const char *key, const char *what);

/* The columns in the order of their names, freed with est_free. Fails for failed columns. `what` names the caller. */
EST_MUST_CHECK est_status est_columns_sorted(est_column_list columns, const char *what, const est_column ***out);

/* The same for layers that create variables per column: also fails for an empty list and for duplicate names. */
EST_MUST_CHECK est_status est_columns_distinct(est_column_list columns, const char *what, const est_column ***out);

/* The same for a layer that accepts the columns that pass `check`. The error names the line of a failed column, else
 * the line of the layer. */
EST_MUST_CHECK est_status est_columns_for_layer(est_column_list columns, const char                               *what,
                                                est_status (*check)(const est_column *column), const est_column ***out);

/* Checks whether est_input_layer and est_linear_model accept these columns; fails with their error. */
EST_MUST_CHECK est_status est_input_layer_check(est_column_list columns);
EST_MUST_CHECK est_status est_linear_model_check(est_column_list columns);

/* --- features of a batch (raw.c) ---------------------------------------------------------------------------------- */

/* The feature that `column` reads as `key`. A missing feature poisons the graph. */
est_feature est_raw_feature(const est_column *column, const char *key, const est_features *features);

/* The same as rows of numbers or strings [batch, ...], at least of rank 2; ragged rows are an error. */
est_node est_raw_dense(const est_column *column, const char *key, const est_features *features);

/* The same as ragged rows without placeholders of missing values. */
est_ragged_node est_raw_ragged(const est_column *column, const char *key, const est_features *features);

/* The same for sequences: dense rows are an error, because their lengths are unknown. */
est_ragged_node est_raw_steps(const est_column *column, const char *key, const est_features *features);

/* All elements of x [batch, n] as ragged rows of n; another rank is an error. */
est_ragged_node est_ragged_all(est_node x);

/* The splits of `a`; fails at run time if those of `b` differ. `names` names both in the error. */
est_node est_splits_agree(const est_column *column, est_node a, est_node b, const char *names);

/* The mask of values that are not missing ("" or -1), for est_ragged_keep. */
est_node est_raw_present(est_node values);

/* --- numeric columns ---------------------------------------------------------------------------------------------- */

/* How many axes a row of a numeric column has. */
int est_numeric_rank(const est_column *column);

/* --- categorical columns ------------------------------------------------------------------------------------------ */

/* Whether a column is categorical, as indicators, embeddings and weights need; if not, its set records the error.
 * `what` is the kind that needs it. */
bool est_column_is_categorical(const est_column *column, const char *what);

/* What a weighted column weighs. */
const est_column *est_weighted_source(const est_column *column);

/* The ids of sequences: int64 [batch, longest], -1 after the end; and lengths. */
est_node est_column_step_ids(const est_column *column, const est_features *features, est_node *lengths);

/* --- parse specs (parse_spec.c) ----------------------------------------------------------------------------------- */

/* Adds a feature; the same feature twice is fine, a different one of the same name is an error. `column` names the
 * column in the error. */
EST_MUST_CHECK est_status est_parse_spec_want(est_parse_spec *spec, const est_column *column,
                                              const est_feature_spec *feature);

/* The same for any number of values of the column's key. */
EST_MUST_CHECK est_status est_parse_spec_want_any(est_parse_spec *spec, const est_column *column, const char *key,
                                                  est_dtype dtype);

#endif
