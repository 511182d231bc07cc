/* SPDX-License-Identifier: Apache-2.0
 *
 * Feature columns: how the features of a row become the inputs of a model.
 *
 *     est_columns *c = est_columns_create();
 *
 *     const est_column *age     = est_numeric_column(c, "age", NULL);
 *     const est_column *ages    = est_bucketized_column(age, EST_F32S(18, 25, 30, 35, 40, 45, 50, 55, 60, 65));
 *     const est_column *work    = est_hash_bucket_column(c, "occupation", 1000, NULL);
 *     const est_column *crossed = est_crossed_column(EST_COLUMN_LIST(ages, est_key_column(c, "occupation")), 50000, 0);
 *     const est_column *vectors = est_embedding_column(work, 8, NULL);
 *     ...
 *     est_columns_free(c);
 *
 * A column is a description without a graph: the same columns define how rows are parsed, and the inputs of a linear
 * and of a deep model. A column belongs to the set it was created in (one made of others: to the set of the first) and
 * is freed with it; lists of columns may mix sets. Constructors do not fail visibly: the set keeps the first error,
 * later columns pass it on, and functions that use columns (or est_columns_status) report it.
 *
 * Names, ids, hashes, variables and their shapes are TensorFlow's, so that a checkpoint means the same in both. A layer
 * goes through its columns in the order of their names, not in the order given.
 *
 * Missing values: a row may have no value, or several, in any column but a numeric one. In dense features "" (strings)
 * and -1 (integers) stand for none. Values that a vocabulary does not have, and ids below 0, also count as missing.
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

/* A new set without columns. NULL only when out of memory. */
EST_API EST_MUST_CHECK est_columns *est_columns_create(void);

/* EST_OK, or the first failure of any column of the set. */
EST_API EST_MUST_CHECK est_status est_columns_status(const est_columns *columns);

/* Frees the set and its columns, after the estimators that were given them. Parse specs and graphs keep what they need.
 * NULL is fine. */
EST_API void est_columns_free(est_columns *columns);

/* The name of a column, as it is in variables; borrowed until the set is freed. */
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
    /* the value of a row without the feature: one number for all elements, or one for each; empty: such a row is an
     * error. Copied */
    est_f32s default_value;
    /* Applied to the values before they are used, for instance to scale them; it keeps their shape. NULL: none. `user`
     * is borrowed as long as the column is used. */
    est_node (*normalizer)(est_node values, const void *user);
    const void *user;
} est_numeric_options;
#define EST_NUMERIC(...)                                                                                               \
    (&(const est_numeric_options){ .struct_size = EST_STRUCT_SIZE(est_numeric_options), __VA_ARGS__ })

/* Numbers as they are, as float32. */
EST_API const est_column *est_numeric_column(est_columns *columns, const char *key, const est_numeric_options *options);

/* The range between the (ascending) boundaries that a number lies in; a number equal to a boundary belongs to the range
 * above it, NaN to the last. `source` is a numeric column of one dimension. Both dense (one-hot) and categorical. */
EST_API const est_column *est_bucketized_column(const est_column *source, est_f32s boundaries);

/* --- categories --------------------------------------------------------------------------------------------------- */

typedef struct est_categorical_options {
    size_t    struct_size; /* filled by EST_CATEGORICAL */
    est_dtype dtype;       /* hash buckets and vocabularies: string (0) or int64; a list: that of its entries */
    /* identity, vocabularies: an id that is out of range, or an unknown entry, becomes default_value; without it
     * unknown entries are missing, and an id that is too large is an error */
    bool    has_default;
    int64_t default_value;
    /* vocabularies: unknown entries are hashed into that many ids after the known ones; not together with a default */
    int64_t num_oov_buckets;
    int64_t vocabulary_size; /* vocabulary file: entries used; 0: all lines */
    bool    sequence;        /* one of the sequence columns: rows keep their order and length */
} est_categorical_options;
#define EST_CATEGORICAL(...)                                                                                           \
    (&(const est_categorical_options){ .struct_size = EST_STRUCT_SIZE(est_categorical_options), __VA_ARGS__ })

/* Integers in [0, num_buckets) as they are. */
EST_API const est_column *est_identity_column(est_columns *columns, const char *key, int64_t num_buckets,
                                              const est_categorical_options *options);

/* Strings (or integers, by their decimal text) hashed into that many buckets. */
EST_API const est_column *est_hash_bucket_column(est_columns *columns, const char *key, int64_t num_buckets,
                                                 const est_categorical_options *options);

/* The index of a value in a list: a string or int64 vector without duplicates, shared. */
EST_API const est_column *est_vocabulary_list_column(est_columns *columns, const char *key, est_tensor *vocabulary,
                                                     const est_categorical_options *options);
/* The same for a list of C strings. */
EST_API const est_column *est_vocabulary_strings_column(est_columns *columns, const char *key, est_strings vocabulary,
                                                        const est_categorical_options *options);

/* The line number of a value in a text file. The lines are counted now, since they determine the size of variables; the
 * file must not change while the column is used. */
EST_API const est_column *est_vocabulary_file_column(est_columns *columns, const char *key, const char *path,
                                                     const est_categorical_options *options);

/* A feature of strings (or integers) as it is: only for crosses. In a dense feature "" is a value, not missing. */
EST_API const est_column *est_key_column(est_columns *columns, const char *key);

/* Combinations of the values of two or more columns (categorical but for hash buckets, bucketized, keys, crosses),
 * hashed into num_buckets. hash_key 0: TensorFlow's default. */
EST_API const est_column *est_crossed_column(est_column_list sources, int64_t num_buckets, uint64_t hash_key);

/* A categorical column whose values are weighted by the numbers of another feature, one for each value. */
EST_API const est_column *est_weighted_column(const est_column *categorical, const char *weight_key);

/* --- categories as dense vectors ---------------------------------------------------------------------------------- */

/* How often each id occurs in the row, or the sum of its weights. */
EST_API const est_column *est_indicator_column(const est_column *categorical);

typedef struct est_embedding_column_options {
    size_t          struct_size; /* filled by EST_EMBEDDING_COLUMN */
    est_combiner    combiner;    /* 0: mean */
    est_initializer initializer; /* make NULL: truncated normal of deviation 1 / sqrt(dimension) */
    const char     *checkpoint;  /* NULL: none; with tensor_name: source of the initial values */
    const char     *tensor_name;
    double          max_norm;        /* 0: none */
    bool            frozen;          /* true: not trained */
    const char     *collection_name; /* shared embeddings; NULL: built from the columns' names */
} est_embedding_column_options;
#define EST_EMBEDDING_COLUMN(...)                                                                                      \
    (&(const est_embedding_column_options){ .struct_size = EST_STRUCT_SIZE(est_embedding_column_options), __VA_ARGS__ })

/* A trained vector for every id, combined over the ids of a row. */
EST_API const est_column *est_embedding_column(const est_column *categorical, int64_t dimension,
                                               const est_embedding_column_options *options);

/* The same with one table for several columns (of one kind and number of buckets); out receives a new column for each.
 * All layers of a graph that use one of them use the same table. Its variable is "<collection>", outside of all scopes,
 * as that of tf.feature_column.shared_embeddings; in layers with .v1 it is "<collection>/embedding_weights" within the
 * first of them, as that of tf.compat.v1. The estimators of TensorFlow 2 never train such a table; Estoc's do. */
EST_API void est_shared_embedding_columns(est_column_list categorical, int64_t dimension,
                                          const est_embedding_column_options *options, const est_column **out);

/* --- rows for keys as they come ----------------------------------------------------------------------------------- */

typedef struct est_dynamic_options {
    size_t       struct_size; /* filled by EST_DYNAMIC */
    est_combiner combiner;    /* 0: mean */
    /* of a new row, one of est_init_...; make NULL: truncated normal of deviation 1 / sqrt(dimension). The values
     * depend only on the seed, the variable and the key */
    est_initializer initializer;
    int64_t         admit_after; /* a key gets its row at its n-th occurrence in training; 0: 1, at once */
    /* 0: 16 777 216. Address space is reserved for all of them, memory is used by existing rows. When all are in use, a
     * new key evicts the least recently seen one */
    int64_t max_rows;
    int64_t max_age; /* a key that training has not seen for so many steps loses its row; 0: never */
} est_dynamic_options;
#define EST_DYNAMIC(...)                                                                                               \
    (&(const est_dynamic_options){ .struct_size = EST_STRUCT_SIZE(est_dynamic_options), __VA_ARGS__ })

/* A dynamic embedding: a trained vector for every key that occurs, combined over the keys of a row. Keys are raw 64-bit
 * integers, without a vocabulary or a number of buckets. dtype: EST_I64, or EST_STRING, for which a key is
 * Fingerprint64 of the string modulo 2^63 - 1. Every integer is a key, except -1 in dense features, which means
 * missing.
 *
 * A step that trains the embedding counts its keys and assigns rows to them; all other steps only look rows up. These
 * changes are part of the step: a failed step is rolled back. A key without a row counts as missing. The latest million
 * of keys without a row are remembered for admission. A checkpoint has the existing rows as
 * "<column>/embedding_weights" [rows, dimension], the keys as ".../keys" and the state that training needs; a
 * checkpoint with keys of the other dtype does not fit. Optimizers must change only the rows of a gradient:
 * est_adam only with .lazy. */
EST_API const est_column *est_dynamic_embedding_column(est_columns *columns, const char *key, est_dtype dtype,
                                                       int64_t dimension, const est_dynamic_options *options);

/* --- sequences ---------------------------------------------------------------------------------------------------- */

/* Any number of numbers per row, in steps of `shape`. For sequences of categories use EST_CATEGORICAL(.sequence = true)
 * with est_embedding_column or est_indicator_column on top. Both read ragged features. options->default_value: the
 * padding, 0 by default. */
EST_API const est_column *est_sequence_numeric_column(est_columns *columns, const char *key,
                                                      const est_numeric_options *options);

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* The features that columns read from tf.train.Examples, for est_dataset_parse_examples and exports; more can be added.
 * Several columns may read a feature, but all in the same form. */
typedef struct est_parse_spec est_parse_spec;

/* A new spec of the features of these columns, which it does not reference. The list may be empty, as for a
 * baseline. */
EST_API EST_MUST_CHECK est_status est_parse_spec_create(est_column_list columns, est_parse_spec **out);
/* Adds another feature, such as a label or a weight. Adding a feature twice is an error. */
EST_API EST_MUST_CHECK est_status est_parse_spec_add(est_parse_spec *spec, const est_feature_spec *feature);
/* The features to parse; borrowed until the spec grows or is freed. */
EST_API est_feature_specs est_parse_spec_features(const est_parse_spec *spec);
EST_API void              est_parse_spec_free(est_parse_spec *spec); /* NULL is fine */

/* The same as columns of CSV files, for est_dataset_csv: borrowed until the spec grows or is freed. An empty field is a
 * missing value, or the default; of a number without a default it is an error. (libsvm files have the features "index"
 * and "value": an identity column weighted by the other.) */
EST_API est_csv_columns est_parse_spec_csv(const est_parse_spec *spec);

/* --- using them --------------------------------------------------------------------------------------------------- */

/* A feature of a batch: dense, or ragged when splits are set. */
typedef struct est_feature {
    est_node values; /* EST_NO_NODE: no such feature */
    est_node splits;
} est_feature;

/* A lookup of the features of a batch by name: est_model_features() of a model_fn, or your own. */
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

/* Concatenates dense columns in the order of their names: float32 [batch, sum of widths]. */
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

/* The weighted sum of all columns plus a bias: float32 [batch, units]; weights start at 0. */
EST_API est_node est_linear_model(est_features features, est_column_list columns,
                                  const est_linear_model_options *options);

/* Concatenates sequence columns: float32 [batch, longest, sum of widths], and the length of every row, int64 [batch],
 * which must be the same in all columns. The scope is "sequence_input_layer". */
EST_API est_node est_sequence_input_layer(est_features features, est_column_list columns, est_node *lengths);

/* Appends the context of a row, [batch, m], to each step of its sequence, [batch, steps, n]: [batch, steps, n + m].
 * context is an est_input_layer of other columns. TensorFlow's concatenate_context_input. */
EST_API est_node est_concat_context(est_node sequence, est_node context);

#ifdef __cplusplus
}
#endif
#endif
