/* SPDX-License-Identifier: Apache-2.0
 *
 * Preprocessing: what turns features into numbers before a model. StringLookup maps words to ids, as
 * tf.keras.layers.StringLookup does with output_mode "int":
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
#include "estoc/graph.h"

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

#ifdef __cplusplus
}
#endif
#endif
