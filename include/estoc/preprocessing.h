/* SPDX-License-Identifier: Apache-2.0
 *
 * Preprocessing: what turns features into numbers before a model, as Keras' preprocessing layers do. StringLookup maps
 * words to ids, with output_mode "int" of Keras; it is also a layer, as are the others (see <estoc/layers.h>):
 *
 *     est_string_lookup_create(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("avenger", "batman", "hulk"),
 *                                                .mask_token = ""), &lookup);
 *     ids = est_string_lookup_apply(lookup, words);                  "batman" is 3, "" is 0, any other word is 1
 *     est_embedding(ids, est_string_lookup_size(lookup), 20, NULL);  a row for each of 5 ids
 *
 * The mask token, if there is one, has id 0. The ids of unknown words (out of vocabulary) follow, then those of the
 * words. The graph has the words as constants, so that a graph that is sent to another task, runs in a stage of a
 * dataset or is exported needs no file.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_PREPROCESSING_H
#define ESTOC_PREPROCESSING_H

#include "estoc/dataset.h"
#include "estoc/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_string_lookup est_string_lookup;

typedef struct est_string_lookup_options {
    size_t struct_size; /* filled by EST_STRING_LOOKUP */
    /* the words in the order of their ids, each once; copied. They may begin with the mask token and "[UNK]" for every
     * id of unknown words, as get_vocabulary() of Keras returns them; elsewhere "[UNK]" is a word like any other, as in
     * Keras. Empty: those of the file */
    est_strings vocabulary;
    const char *file;            /* a word a line, read now under the rules of est_vocabulary_file; NULL: no file */
    const char *mask_token;      /* the word that has id 0, often ""; NULL: none; copied */
    int64_t     num_oov_indices; /* ids of unknown words, which share them by hash; 0: 1; EST_OFF: none */
    int64_t     max_tokens;      /* most ids in all, those of mask and unknown words included; 0: no bound */
} est_string_lookup_options;

#define EST_STRING_LOOKUP(...)                                                                                         \
    (&(const est_string_lookup_options){ .struct_size = EST_STRUCT_SIZE(est_string_lookup_options), __VA_ARGS__ })

/* A lookup with the words of the vocabulary or of the file. With neither it has no words before
 * est_string_lookup_adapt. A word twice, the mask token among the words, and more ids than max_tokens are errors. */
EST_API EST_MUST_CHECK est_status est_string_lookup_create(const est_string_lookup_options *options,
                                                           est_string_lookup              **out);
/* Frees the lookup; graphs keep the words. NULL is fine. */
EST_API void est_string_lookup_free(est_string_lookup *lookup);

/* Takes the words from all elements of a dataset, from a component of strings of any shape: by falling count, words of
 * equal count by falling bytes, as adapt() of Keras does. The mask token and "[UNK]" do not count. With max_tokens the
 * rarest words are left out. Words of an earlier call are replaced; graphs that have them keep them.
 * EST_FAILED_PRECONDITION: the lookup was created with a vocabulary or a file. EST_INVALID_ARGUMENT: the dataset is
 * endless or has no word. */
EST_API EST_MUST_CHECK est_status est_string_lookup_adapt(est_string_lookup *lookup, const est_dataset *dataset,
                                                          const char *component);

/* How many ids there are: mask, unknown and words, as vocabulary_size() of Keras; 0: no words yet. */
EST_API int64_t est_string_lookup_size(const est_string_lookup *lookup);
/* The word of an id, the mask token or "[UNK]": get_vocabulary()[id] of Keras. Borrowed until the next adapt; data is
 * NULL: there is no such id. */
EST_API est_str est_string_lookup_word(const est_string_lookup *lookup, int64_t id);

/* The ids of words of any shape, int64. With several ids for unknown words a word has the first of them plus its
 * Fingerprint64 modulo their number. With EST_OFF an unknown word is EST_INVALID_ARGUMENT when the step runs; the error
 * names it. For ragged rows apply it to their values. */
EST_API est_node est_string_lookup_apply(const est_string_lookup *lookup, est_node words);

/* --- layers ------------------------------------------------------------------------------------------------------- */

/* Has a layer take what it needs from a component of all elements of a dataset: the words of a string lookup, the mean
 * and variance of a normalization, the boundaries of a discretization. What an earlier call took is replaced; graphs in
 * which the layer was called keep it. EST_FAILED_PRECONDITION: it was given that when it was made, or needs nothing.
 * EST_INVALID_ARGUMENT: the dataset is endless or empty, or the component is not of such values. */
EST_API EST_MUST_CHECK est_status est_layer_adapt(est_layer *layer, const est_dataset *dataset, const char *component);

/* A StringLookup as a layer: words of any shape to int64 ids. name NULL: "string_lookup". */
EST_API EST_MUST_CHECK est_layer *est_layer_string_lookup(const est_string_lookup_options *options, const char *name);
/* The lookup of such a layer, for its size and words. Borrowed until the layer is freed; NULL: another kind. */
EST_API const est_string_lookup *est_layer_vocabulary(const est_layer *layer);

typedef struct est_normalization_options {
    size_t      struct_size;    /* filled by EST_NORMALIZATION */
    const char *name;           /* NULL: "normalization" */
    est_f32s    mean, variance; /* of each element of the last axis, or one number of all; copied. Empty: by adapt */
    bool        over_all;       /* true: adapt takes one mean and variance of all elements (axis=None in Keras) */
    bool        invert;         /* true: x sqrt(variance) + mean */
} est_normalization_options;

#define EST_NORMALIZATION(...)                                                                                         \
    (&(const est_normalization_options){ .struct_size = EST_STRUCT_SIZE(est_normalization_options), __VA_ARGS__ })

/* (x - mean) / sqrt(variance), float32, for each element of the last axis; x may have integers. With numbers from adapt
 * it has the variables mean, variance and count, which are not trained, else constants. A component of one number a row
 * is [batch], and its last axis the batch: it takes over_all, else adapt is EST_INVALID_ARGUMENT. */
EST_API EST_MUST_CHECK est_layer *est_layer_normalization(const est_normalization_options *options);

typedef struct est_discretization_options {
    size_t      struct_size; /* filled by EST_DISCRETIZATION */
    const char *name;        /* NULL: "discretization" */
    est_f32s    boundaries;  /* ascending; copied. Empty: by adapt */
    int64_t     num_bins;    /* with adapt: how many bins, of about as many values each */
    double      epsilon;     /* the error of adapt's quantiles; 0: 0.01 */
} est_discretization_options;

#define EST_DISCRETIZATION(...)                                                                                        \
    (&(const est_discretization_options){ .struct_size = EST_STRUCT_SIZE(est_discretization_options), __VA_ARGS__ })

/* The bin of each number, int64: how many boundaries are not greater than it (est_bucketize). */
EST_API EST_MUST_CHECK est_layer *est_layer_discretization(const est_discretization_options *options);
/* The boundaries of such a layer. Borrowed until the next adapt; empty: none yet, or another kind of layer. */
EST_API est_f32s est_layer_boundaries(const est_layer *layer);

typedef struct est_hashing_options {
    size_t      struct_size; /* filled by EST_HASHING */
    const char *name;        /* NULL: "hashing" */
    const char *mask_value;  /* the value that has bin 0 for itself, a number as it is printed; NULL: none; copied */
    est_i64s    salt; /* one number, or two: SipHash with this key in place of Fingerprint64; empty: none; copied */
} est_hashing_options;

#define EST_HASHING(...)                                                                                               \
    (&(const est_hashing_options){ .struct_size = EST_STRUCT_SIZE(est_hashing_options), __VA_ARGS__ })

/* Fingerprint64, or SipHash, of strings, or of integers as they are printed, modulo num_bins: int64. */
EST_API EST_MUST_CHECK est_layer *est_layer_hashing(int64_t num_bins, const est_hashing_options *options);

/* What a category encoding makes of ids. */
typedef enum est_category_mode {
    EST_MULTI_HOT = 0, /* [..., n] to [..., num_tokens]: 1 for every id that is there */
    EST_ONE_HOT,       /* [...] or [..., 1] to [..., num_tokens]: 1 for the id */
    EST_COUNTS         /* [..., n] to [..., num_tokens]: how often each id is there, or the sum of its weights */
} est_category_mode;

typedef struct est_category_encoding_options {
    size_t            struct_size; /* filled by EST_CATEGORY_ENCODING */
    const char       *name;        /* NULL: "category_encoding" */
    est_category_mode mode;
} est_category_encoding_options;

#define EST_CATEGORY_ENCODING(...)                                                                                     \
    (&(const est_category_encoding_options){ .struct_size = EST_STRUCT_SIZE(est_category_encoding_options),            \
                                             __VA_ARGS__ })

/* Ids, int32 or int64, to float32. An id that is not in [0, num_tokens) is an error when the step runs. A second input,
 * with EST_COUNTS: weights of the ids. */
EST_API EST_MUST_CHECK est_layer *est_layer_category_encoding(int64_t                              num_tokens,
                                                              const est_category_encoding_options *options);

#ifdef __cplusplus
}
#endif
#endif
