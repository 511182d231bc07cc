/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of evaluations, read back from the event files that evaluations leave in their directory.
 *
 * Threading: one thread at a time. */
#ifndef EST_TRAIN_EVAL_RESULTS_H
#define EST_TRAIN_EVAL_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "estoc/status.h"

typedef struct est_eval_metric {
    const char *name;
    double      value;
} est_eval_metric;

/* The metrics of one step. */
typedef struct est_eval_result {
    int64_t          step;
    est_eval_metric *metrics; /* [n] in the order they were first written */
    int              n, max;
} est_eval_result;

/* A zeroed struct is an empty list; clear it also after a failure. */
typedef struct est_eval_results {
    est_arena       *arena;
    est_eval_result *data; /* [n] by rising step */
    int              n, max;
} est_eval_results;

/* Reads all scalars of all event files of `dir`; a later value replaces an earlier one of the same step and name. A
 * damaged file is logged as a warning and read up to the damage. A file that ends within an event is still being
 * written and is read up to there. A directory that does not exist has no results. */
EST_MUST_CHECK est_status est_eval_results_read(est_eval_results *results, const char *dir);

/* The same for the files of `dir` that match a shell pattern ("eval/" and "*.tfevents.*"); `dir` is not a pattern. */
EST_MUST_CHECK est_status est_eval_results_glob(est_eval_results *results, const char *dir, const char *pattern);
void                      est_eval_results_clear(est_eval_results *results);

/* The metric of that name; NULL: the result has none. */
const est_eval_metric *est_eval_result_find(const est_eval_result *result, const char *name);

#endif
