/* SPDX-License-Identifier: Apache-2.0
 *
 * A feature column as the library sees it: a name, what it reads, and one struct of functions a kind.
 *
 * A kind embeds est_column as its first member. What it cannot do it leaves NULL: a kind without `ids` is not categorical,
 * one without `dense` cannot stand in an input layer, one without `steps` in no sequence layer. Functions that build nodes
 * do so in the scope that the layer has opened, and fail by poisoning the graph. Columns never change once they are made. */
#ifndef EST_FEATURE_COLUMN_H
#define EST_FEATURE_COLUMN_H

#include "base/alloc.h"
#include "estoc/feature_column.h"
#include "nn/nn.h"

typedef struct est_column_kind est_column_kind;

struct est_column {
    const est_column_kind *kind;
    est_columns           *set;   /* that owns it */
    const est_column      *older; /* made before it in the same set */
    const char            *name;
    const char            *scope;     /* of its variables: the name with what no scope may have replaced */
    const char            *v1_scope;  /* the same in layers of tf.compat.v1: of a shared embedding the collection's */
    const char            *key;       /* the feature it reads; NULL: it reads through other columns */
    int64_t                n_buckets; /* categorical: ids are below it */
    int64_t                width;     /* dense: numbers a row, or a step */
    bool                   sequence;  /* rows are steps in order */
};

/* The ids of a batch, int64, -1 for what is unknown; and a float32 for each, or EST_NO_NODE. */
typedef struct est_ids {
    est_ragged_node rows;
    est_node        weights;
} est_ids;

/* What a layer asks of all its columns. */
typedef struct est_layer_use {
    bool frozen; /* what they make is not trained */
    bool v1;     /* shared embeddings are those of tf.compat.v1 */
} est_layer_use;

struct est_column_kind {
    const char *what; /* "a numeric column" */

    /* Adds the features it reads. */
    est_status (*parse)(const est_column *column, est_parse_spec *spec);

    /* The id of every value of the feature `key`: set only by columns that look at one value at a time. */
    est_node (*map)(const est_column *column, est_node values);
    /* Categorical: the ids of a batch. */
    est_ids (*ids)(const est_column *column, const est_features *features);
    /* The same for a cross, of ids that need not be below n_buckets; NULL: `ids`. */
    est_ids (*cross)(const est_column *column, const est_features *features);
    /* Dense: float32 [batch, width]. */
    est_node (*dense)(const est_column *column, const est_features *features, est_layer_use use);
    /* Sequences: float32 [batch, longest, width] and int64 lengths [batch]. */
    est_node (*steps)(const est_column *column, const est_features *features, est_node *lengths);

    void (*clear)(const est_column *column); /* gives back what is not in the arena of the set */
};

extern const est_column_kind est_numeric_kind, est_hash_bucket_kind, est_weighted_kind;

/* --- sets (columns.c) ------------------------------------------------------------------------------------------------- */

est_arena *est_columns_arena(est_columns *set);

/* Keeps the thread's last failure if it is the set's first; returns the column that stands for it. NULL for no set. */
const est_column *est_columns_fail(est_columns *set, est_status status);

/* Fails a set; used as `return est_column_fail(set, "text", ...)`. */
#define est_column_fail(set, ...) est_columns_fail(set, est_fail(EST_INVALID_ARGUMENT, __VA_ARGS__))

/* Whether there is such a column and making it did not fail. Who makes a column of one that is not returns that one. */
bool est_column_usable(const est_column *column);

/* A zeroed struct of `size` bytes that begins with an est_column, in the set and called `name` (copied); NULL when memory
 * is out, which the set then reports. */
void *est_column_new(est_columns *set, const est_column_kind *kind, size_t size, const char *name);

/* The same, called "<name of source><suffix>". */
void *est_column_new_from(const est_column *source, const est_column_kind *kind, size_t size, const char *suffix);

/* A name as a scope can have it, in the arena; NULL when memory is out. */
const char *est_scope_name(est_arena *arena, const char *name);

/* Whether a set is there and a feature's name is one; the set is told. `what` is the kind that wants it. */
bool est_column_key_ok(est_columns *set, const char *key, const char *what);

/* The columns in the order of their names, to be freed with est_free. Fails for columns that failed. `what` is who takes
 * them. */
EST_MUST_CHECK est_status est_columns_sorted(est_column_list columns, const char *what, const est_column ***out);

/* The same for what makes a variable of each: fails for none, and for two of one name. */
EST_MUST_CHECK est_status est_columns_distinct(est_column_list columns, const char *what, const est_column ***out);

/* The same for a layer, which can take what `check` says. The error names the line that made the column, if that failed, else the
 * line of the layer. */
EST_MUST_CHECK est_status est_columns_for_layer(est_column_list columns, const char                               *what,
                                                est_status (*check)(const est_column *column), const est_column ***out);

/* Whether est_input_layer and est_linear_model can take these columns; the error is the one that they would fail with. */
EST_MUST_CHECK est_status est_input_layer_check(est_column_list columns);
EST_MUST_CHECK est_status est_linear_model_check(est_column_list columns);

/* --- features of a batch (raw.c) ------------------------------------------------------------------------------------- */

/* The feature that `column` knows as `key`. Values that are not there poison the graph. */
est_feature est_raw_feature(const est_column *column, const char *key, const est_features *features);

/* The same as rows of numbers or strings [batch, ...], at least of rank 2; ragged rows are an error. */
est_node est_raw_dense(const est_column *column, const char *key, const est_features *features);

/* The same as ragged rows without what stands for missing values. */
est_ragged_node est_raw_ragged(const est_column *column, const char *key, const est_features *features);

/* The same for sequences: dense rows are an error, as nothing says where they end. */
est_ragged_node est_raw_steps(const est_column *column, const char *key, const est_features *features);

/* All elements of x [batch, n] as ragged rows of n; another rank is an error. */
est_ragged_node est_ragged_all(est_node x);

/* The splits of `a`, or an error when those of `b` are others; both are called in it what `names` says. */
est_node est_splits_agree(const est_column *column, est_node a, est_node b, const char *names);

/* Which values are not missing ones, "" and -1; for est_ragged_keep. */
est_node est_raw_present(est_node values);

/* --- numeric columns ------------------------------------------------------------------------------------------------- */

/* How many axes a row of a numeric column has. */
int est_numeric_rank(const est_column *column);

/* --- categorical columns --------------------------------------------------------------------------------------------- */

/* Whether a column is one that an indicator, an embedding or a weight can be for; if not, its set is told. `what` is the
 * kind that wants it. */
bool est_column_is_categorical(const est_column *column, const char *what);

/* What a weighted column weighs. */
const est_column *est_weighted_source(const est_column *column);

/* The ids of sequences: int64 [batch, longest], -1 after the end; and lengths. */
est_node est_column_step_ids(const est_column *column, const est_features *features, est_node *lengths);

/* --- parse specs (parse_spec.c) -------------------------------------------------------------------------------------- */

/* Adds a feature; the same one twice is fine, another of the same name is an error. `column` is who asks. */
EST_MUST_CHECK est_status est_parse_spec_want(est_parse_spec *spec, const est_column *column,
                                              const est_feature_spec *feature);

/* The same for any number of values of the column's key. */
EST_MUST_CHECK est_status est_parse_spec_want_any(est_parse_spec *spec, const est_column *column, const char *key,
                                                  est_dtype dtype);

#endif
