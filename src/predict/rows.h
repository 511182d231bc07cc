/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of predictions, and their rows: est_predictions without a model. Whoever computes batches embeds the struct
 * as its first member, and gives it three functions.
 *
 * A prediction "key" with another one "key/splits" is ragged: example i has the values splits[i] to splits[i + 1]. By
 * example the splits are no prediction of their own, by batch they are.
 *
 * Threading: one thread at a time. */
#ifndef EST_PREDICT_ROWS_H
#define EST_PREDICT_ROWS_H

#include "base/alloc.h"
#include "estoc/predictor.h"

#define EST_SPLITS_SUFFIX "/splits"

/* Whether `splits` is the name of the splits of `name`. */
bool est_is_splits_of(const char *splits, const char *name);

/* One result of a batch; borrowed until the next one. */
typedef struct est_batch_value {
    est_dtype        dtype;
    const est_shape *shape;
    const void      *data;
} est_batch_value;

struct est_predictions {
    /* Computes the next batch; *ended: there is none. The first call also calls est_predictions_choose. */
    est_status (*compute)(est_predictions *self, bool *ended);
    /* Result i of the batch, in the order that est_predictions_choose gave. */
    est_batch_value (*value)(const est_predictions *self, int i);
    /* Frees the struct and what its maker added to it. */
    void (*destroy)(est_predictions *self);

    /* The rest belongs to rows.c. */
    est_arena   *arena;
    bool         batches;
    est_strings  wanted; /* data NULL: all; copied */
    const char **keys;   /* [n]: predictions that the caller gets */
    int          n;
    /* [n]: index in `batch` of the splits that delimit the examples; -1: examples are rows of axis 0 */
    int         *splits;
    est_tensor **batch; /* [n_batch]: of the last run; splits follow the values */
    int          n_batch;
    est_tensor **rows; /* [n]: the current values */
    int64_t      row, n_rows;
    bool         ended;
    est_error    failed; /* the first failure; every later call returns it again */
};

/* Fills a zeroed struct; `wanted` as in est_predict_options.keys. On failure est_predictions_free frees it. */
EST_MUST_CHECK est_status est_predictions_init(est_predictions *self, est_strings wanted, bool batches);

/* Names all predictions, borrowed until it is freed, and says which of them each batch must have, in this order:
 * fetches[*n_fetches], in room for n. */
EST_MUST_CHECK est_status est_predictions_choose(est_predictions *self, const char *const *names, int n, int *fetches,
                                                 int *n_fetches);

#endif
