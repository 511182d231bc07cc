/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of exports with vocabularies share: a model that looks words and numbers up, trained a step, and a
 * SavedModel run here as a loader would run it. */
#ifndef EST_TESTS_VOCABULARY_TEST_H
#define EST_TESTS_VOCABULARY_TEST_H

#include "support/estimator_test.h"

typedef struct word_params {
    char                     first[128], second[128]; /* paths of vocabularies */
    const est_string_lookup *lookup;
} word_params;

/* Features "word" and "number". Predictions:
 *   ids      of the words, by the first file with 3 buckets behind it
 *   more     of the words, by the second file, -1 for others
 *   numbers  of the numbers, by the list 10, 20 with 4 buckets behind it
 *   names    entries of the first file at the numbers
 *   known    of the words, by a StringLookup of cat and dog with mask "" and 3 ids for others
 *   score    a number learnt from ids */
est_status word_model(est_model *model, est_mode mode, const void *params);

#define WORD_OUTPUTS 6
extern const char *const word_outputs[WORD_OUTPUTS];

/* What receivers take. */
#define WORD_FEATURES 2
extern const est_component word_raw[WORD_FEATURES];

/* Words and numbers that are in the vocabularies, and others; one batch. */
est_status word_input(const est_input_context *context, void *user, est_dataset **out);

/* Writes <dir>/a/words.txt (cat, dog) and <dir>/b/words.txt (dog, cow, hen) and trains a step in <dir>/model. The lookup
 * in params lives until the program ends. */
est_estimator *word_trained(const char *dir, word_params *params);

/* Loads a SavedModel of ours or of TensorFlow's with what its variables and assets hold, feeds the rows of word_input
 * to its serving_default, and puts the outputs of these names into out[n]. Only nodes that save and restore are left
 * out. */
void word_serve(const char *dir, const char *const *names, int n, est_tensor **out);

#endif
