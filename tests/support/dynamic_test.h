/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of estimators with dynamic embeddings share: a model over raw keys, numbers and words, and its
 * input. */
#ifndef EST_TESTS_DYNAMIC_TEST_H
#define EST_TESTS_DYNAMIC_TEST_H

#include "estoc/feature_column.h"
#include "support/estimator_test.h"

#define DYNAMIC_USERS "input_layer/user_dynamic_embedding/embedding_weights"
#define DYNAMIC_WORDS "input_layer/word_dynamic_embedding/embedding_weights"

typedef struct dynamic_params {
    const est_column *user, *word;
} dynamic_params;

/* Columns for it, in a set of the caller's. */
dynamic_params dynamic_columns(est_columns *columns, const est_dynamic_options *options);

/* Embeddings of the features "user", int64, and "word" into a number that is to be the label "y"; prediction
 * "score". */
est_status dynamic_model(est_model *model, est_mode mode, const void *params);

/* What receivers take. */
#define DYNAMIC_FEATURES 2
extern const est_component dynamic_raw[DYNAMIC_FEATURES];

/* 200 rows of 60 users, spread over 64 bits, and 40 words, one in eight missing; batches of 8, shuffled and repeated in
 * training, in one batch otherwise. */
est_status dynamic_input(const est_input_context *context, void *user, est_dataset **out);

/* An estimator that saves every 10 steps; all keys are admitted at their nth sighting. The columns are put into a new
 * set, freed by the caller after the estimator. */
est_estimator *dynamic_estimator(const char *dir, int threads, const est_dynamic_options *options,
                                 est_columns **columns);

#endif
