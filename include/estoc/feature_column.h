/* SPDX-License-Identifier: Apache-2.0
 *
 * Feature columns: from the features of a row to what a model computes with.
 *
 *     est_columns *c = est_columns_create();
 *
 *     const est_column *age      = est_numeric_column(c, "age", NULL);
 *     const est_column *ages     = est_bucketized_column(age, EST_F32S(18, 25, 30, 35, 40, 45, 50, 55, 60, 65));
 *     const est_column *work     = est_hash_bucket_column(c, "occupation", 1000, NULL);
 *     const est_column *crossed  = est_crossed_column(EST_COLUMN_LIST(ages, est_key_column(c, "occupation")), 50000, 0);
 *     const est_column *embedded = est_embedding_column(work, 8, NULL);
 *     ...
 *     est_columns_free(c);
 *
 * A column is a plan that knows no graph: the same columns say how rows are parsed, what a linear model weighs and what a
 * deep one is fed. Columns belong to the set they were made in (one made of others: to that of the first) and go with it;
 * who takes columns may mix sets. None of these fail visibly: a bad argument is kept by the set, later columns pass it on,
 * and whoever takes columns (or est_columns_status) reports it.
 *
 * Names, ids, hashes, variables and their shapes are TensorFlow's, so that a checkpoint means the same in both. A layer goes
 * through its columns in the order of their names, not in the order given.
 *
 * Missing values: a row may have no value, or several, in any column but a numeric one. In dense features "" (strings) and
 * -1 (integers) stand for none. What is unknown to a vocabulary, and ids below 0, count as missing too.
 *
 * Threading: one thread at a time while a set grows; afterwards any. */
#ifndef ESTOC_FEATURE_COLUMN_H
#define ESTOC_FEATURE_COLUMN_H

#include "estoc/dataset.h"
#include "estoc/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_columns est_columns; /* owns columns */
typedef struct est_column  est_column;

/* A new set without columns. NULL only when memory is out. */
EST_API EST_MUST_CHECK est_columns *est_columns_create(void);

/* EST_OK, or the first failure of any column of the set. */
EST_API EST_MUST_CHECK est_status est_columns_status(const est_columns *columns);

/* Frees the set and its columns, after the estimators that were given them. Parse specs and graphs keep what they need.
 * NULL is fine. */
EST_API void est_columns_free(est_columns *columns);

/* The name of a column, as it is in variables; borrowed until the set goes. */
EST_API const char *est_column_name(const est_column *column);

/* A list of columns as one argument. */
typedef struct est_column_list {
    const est_column *const *data;
    int                      n;
} est_column_list;

#define EST_COLUMN_LIST(...) EST_SPAN(est_column_list, const est_column *const, __VA_ARGS__)

/* --- numbers ------------------------------------------------------------------------------------------------------ */

typedef struct est_numeric_options {
    size_t    struct_size; /* filled by EST_NUMERIC */
    est_shape shape;       /* of a row; zeroed: [1] */
    est_dtype dtype;       /* 0: float32; also int64 */
    est_f32s
        default_value; /* of a row without the feature: one number, or one for each element; empty: an error. Copied */
    /* Applied to the values before they are used, for instance to scale them; it keeps their shape. NULL: none. `user` is
     * borrowed as long as the column is used. */
    est_node (*normalizer)(est_node values, const void *user);
    const void *user;
} est_numeric_options;
#define EST_NUMERIC(...)                                                                                               \
    (&(const est_numeric_options){ .struct_size = EST_STRUCT_SIZE(est_numeric_options), __VA_ARGS__ })

/* Numbers as they are, as float32. */
EST_API const est_column *est_numeric_column(est_columns *columns, const char *key, const est_numeric_options *options);

/* Which of the ranges between the boundaries (ascending) a number is in; one equal to a boundary belongs to the range above
 * it, NaN to the last. `source` is a numeric column of one dimension. Both dense (one-hot) and categorical. */
EST_API const est_column *est_bucketized_column(const est_column *source, est_f32s boundaries);

/* --- categories --------------------------------------------------------------------------------------------------- */

typedef struct est_categorical_options {
    size_t    struct_size; /* filled by EST_CATEGORICAL */
    est_dtype dtype;       /* hash buckets and vocabularies: string (0) or int64; a list: that of its entries */
    bool      has_default; /* identity, vocabularies: an id that is out of range, or an unknown entry, becomes
                            * default_value; without it unknown entries are missing, and an id that is too large is an
                            * error */
    int64_t   default_value;
    int64_t   num_oov_buckets; /* vocabularies: unknown entries are hashed into that many ids after the known ones; not
                                * together with a default */
    int64_t   vocabulary_size; /* vocabulary file: entries used; 0: all lines */
    bool      sequence;        /* one of the sequence columns: rows keep their order and length */
} est_categorical_options;
#define EST_CATEGORICAL(...)                                                                                           \
    (&(const est_categorical_options){ .struct_size = EST_STRUCT_SIZE(est_categorical_options), __VA_ARGS__ })

/* Integers in [0, num_buckets) as they are. */
EST_API const est_column *est_identity_column(est_columns *columns, const char *key, int64_t num_buckets,
                                              const est_categorical_options *options);

/* Strings (or integers, by their decimal text) hashed into that many buckets. */
EST_API const est_column *est_hash_bucket_column(est_columns *columns, const char *key, int64_t num_buckets,
                                                 const est_categorical_options *options);

/* The place of a value in a list: a string or int64 vector without duplicates, shared. */
EST_API const est_column *est_vocabulary_list_column(est_columns *columns, const char *key, est_tensor *vocabulary,
                                                     const est_categorical_options *options);
/* The same for a list of C strings. */
EST_API const est_column *est_vocabulary_strings_column(est_columns *columns, const char *key, est_strings vocabulary,
                                                        const est_categorical_options *options);

/* The line of a text file that a value stands in. The lines are counted now, for that is how large variables will be; the
 * file must not change while the column is used. */
EST_API const est_column *est_vocabulary_file_column(est_columns *columns, const char *key, const char *path,
                                                     const est_categorical_options *options);

/* A feature of strings (or integers) as it is: only for crosses. Where it is dense, "" is a value and not a missing one. */
EST_API const est_column *est_key_column(est_columns *columns, const char *key);

/* Combinations of the values of two or more columns (categorical but for hash buckets, bucketized, keys, crosses), hashed
 * into num_buckets. hash_key 0: TensorFlow's default. */
EST_API const est_column *est_crossed_column(est_column_list sources, int64_t num_buckets, uint64_t hash_key);

/* A categorical column whose values count as much as the numbers of another feature say: one for each value. */
EST_API const est_column *est_weighted_column(const est_column *categorical, const char *weight_key);

/* --- categories as dense vectors ---------------------------------------------------------------------------------- */

/* How often each id occurs in the row, or the sum of its weights. */
EST_API const est_column *est_indicator_column(const est_column *categorical);

typedef struct est_embedding_column_options {
    size_t          struct_size; /* filled by EST_EMBEDDING_COLUMN */
    est_combiner    combiner;    /* 0: mean */
    est_initializer initializer; /* make NULL: truncated normal of deviation 1 / sqrt(dimension) */
    const char     *checkpoint;  /* NULL: none; with tensor_name: where the first values are from */
    const char     *tensor_name;
    double          max_norm;        /* 0: none */
    bool            frozen;          /* true: not trained */
    const char     *collection_name; /* shared embeddings: NULL: made of the columns' names */
} est_embedding_column_options;
#define EST_EMBEDDING_COLUMN(...)                                                                                      \
    (&(const est_embedding_column_options){ .struct_size = EST_STRUCT_SIZE(est_embedding_column_options), __VA_ARGS__ })

/* A trained vector for every id, combined over the ids of a row. */
EST_API const est_column *est_embedding_column(const est_column *categorical, int64_t dimension,
                                               const est_embedding_column_options *options);

/* The same with one table for several columns (of one kind and number of buckets), one new column for each into out. All
 * layers of a graph that use one of them use the same table. Its variable is "<collection>", outside of all scopes, as that of
 * tf.feature_column.shared_embeddings; in layers with .v1 it is "<collection>/embedding_weights" within the first of them, as
 * that of tf.compat.v1. The estimators of TensorFlow 2 never train such a table; ours do. */
EST_API void est_shared_embedding_columns(est_column_list categorical, int64_t dimension,
                                          const est_embedding_column_options *options, const est_column **out);

/* --- rows for keys as they come ----------------------------------------------------------------------------------- */

typedef struct est_dynamic_options {
    size_t          struct_size; /* filled by EST_DYNAMIC */
    est_combiner    combiner;    /* 0: mean */
    est_initializer initializer; /* of a new row, one of est_init_...; make NULL: truncated normal of deviation
                                  * 1 / sqrt(dimension). What is drawn depends on the seed, the variable and the key only */
    int64_t         admit_after; /* a key gets its row at this sighting in training; 0: 1, at once */
    int64_t         max_rows; /* 0: 16 777 216. Address space is set aside for as many, memory is taken by those there
                                  * are. When all are taken a new key gets the row of the one not seen for longest */
    int64_t         max_age;  /* steps of training without a sighting after which a key loses its row; 0: none does */
} est_dynamic_options;
#define EST_DYNAMIC(...)                                                                                               \
    (&(const est_dynamic_options){ .struct_size = EST_STRUCT_SIZE(est_dynamic_options), __VA_ARGS__ })

/* A trained vector for every key there is, combined over the keys of a row: an embedding of raw 64-bit keys that needs no
 * vocabulary and no number of buckets. dtype: EST_I64, or EST_STRING, for which a key is Fingerprint64 of the string modulo
 * 2^63 - 1. Every integer is a key, but for -1 in dense features, which stands for none.
 *
 * A step that trains the embedding counts its keys and gives them rows; all others only look. What a step does to keys and rows
 * is part of the step: one that fails is rolled back. A key without a row is missing. Keys that are seen but have no row yet are remembered too, the latest million of them. A checkpoint has the rows
 * there are as "<column>/embedding_weights" [rows, dimension], beside it ".../keys" and what else training goes on from; one
 * that was made of keys of the other dtype does not fit.
 * Optimizers must change only the rows of a gradient: est_lazy_adam, not est_adam. */
EST_API const est_column *est_dynamic_embedding_column(est_columns *columns, const char *key, est_dtype dtype,
                                                       int64_t dimension, const est_dynamic_options *options);

/* --- sequences ---------------------------------------------------------------------------------------------------- */

/* Numbers of any count a row, in steps of `shape`. Sequence categories are made with EST_CATEGORICAL(.sequence = true), and
 * est_embedding_column or est_indicator_column on top. Both read ragged features. options->default_value: the padding, 0 by
 * default. */
EST_API const est_column *est_sequence_numeric_column(est_columns *columns, const char *key,
                                                      const est_numeric_options *options);

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* What tf.train.Examples must be parsed for to feed these columns, for est_dataset_parse_examples and exports; a growing
 * list. A key may be wanted by several columns, but in one way. */
typedef struct est_parse_spec est_parse_spec;

/* A new spec of what these columns read; it needs them no longer. None is fine: a baseline reads a label only. */
EST_API EST_MUST_CHECK est_status est_parse_spec_create(est_column_list columns, est_parse_spec **out);
/* Adds another feature, as a label or a weight. One that is there already is an error. */
EST_API EST_MUST_CHECK est_status est_parse_spec_add(est_parse_spec *spec, const est_feature_spec *feature);
/* What is to be parsed; borrowed until the spec grows or is freed. */
EST_API est_feature_specs est_parse_spec_features(const est_parse_spec *spec);
EST_API void              est_parse_spec_free(est_parse_spec *spec); /* NULL is fine */

/* The same as columns of CSV files, for est_dataset_csv: borrowed until the spec grows or is freed. An empty field is a
 * missing value, or the default; of a number without a default it is an error. (libsvm files have the features "index" and
 * "value": an identity column weighted by the other.) */
EST_API est_csv_columns est_parse_spec_csv(const est_parse_spec *spec);

/* --- using them --------------------------------------------------------------------------------------------------- */

/* A feature of a batch: dense, or ragged when splits are set. */
typedef struct est_feature {
    est_node values; /* EST_NO_NODE: there is no such feature */
    est_node splits;
} est_feature;

/* Where the features of a batch are found by name: est_model_features() of a model_fn, or your own. */
typedef struct est_features {
    est_graph *graph;
    est_feature (*find)(void *user, const char *name);
    void *user;
    void (*list)(void *user, char *text, size_t size); /* writes the names of all features, for errors; NULL: unknown */
    uint64_t reserved[4];                              /* zeros: room for members to come */
} est_features;

typedef struct est_input_layer_options {
    size_t      struct_size; /* filled by EST_INPUT_LAYER */
    const char *name;        /* the scope; NULL: "input_layer" */
    bool        frozen;      /* true: no variable of it is trained */
    bool        v1;          /* true: shared embeddings have the names of tf.compat.v1 */
} est_input_layer_options;
#define EST_INPUT_LAYER(...)                                                                                           \
    (&(const est_input_layer_options){ .struct_size = EST_STRUCT_SIZE(est_input_layer_options), __VA_ARGS__ })

/* All dense columns side by side, float32 [batch, sum of widths], in the order of their names. */
EST_API est_node est_input_layer(est_features features, est_column_list columns,
                                 const est_input_layer_options *options);

typedef struct est_linear_model_options {
    size_t       struct_size; /* filled by EST_LINEAR_MODEL */
    const char  *name;        /* the scope; NULL: "linear_model" */
    int64_t      units;       /* 0: 1 */
    est_combiner combiner;    /* of categorical columns; 0: sum */
    bool         frozen;
    bool         v1; /* as in est_input_layer_options */
} est_linear_model_options;
#define EST_LINEAR_MODEL(...)                                                                                          \
    (&(const est_linear_model_options){ .struct_size = EST_STRUCT_SIZE(est_linear_model_options), __VA_ARGS__ })

/* The sum over the columns of what each weighs, plus a bias: float32 [batch, units]; weights start at 0. */
EST_API est_node est_linear_model(est_features features, est_column_list columns,
                                  const est_linear_model_options *options);

/* Sequence columns side by side, float32 [batch, longest, sum of widths], and the length of every row, int64 [batch], which
 * must be the same in all of them. The scope is "sequence_input_layer". */
EST_API est_node est_sequence_input_layer(est_features features, est_column_list columns, est_node *lengths);

/* Sequences [batch, steps, n] with what is the same in all steps of a row, [batch, m], behind each of them: [batch, steps, n + m].
 * context is what est_input_layer makes of other columns; TensorFlow calls it concatenate_context_input. */
EST_API est_node est_concat_context(est_node sequence, est_node context);

#ifdef __cplusplus
}
#endif
#endif
