/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact area under the ROC curve of an evaluation: a hook that keeps the score and the label of every row.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_EXACT_AUC_H
#define EST_CLI_EXACT_AUC_H

#include "estoc/hooks.h"
#include "estoc/metrics.h"
#include "job.h"

typedef struct exact_auc {
    est_hook        hook;
    const job_spec *job;
    est_node        score, label, weight; /* of the model at hand; weight EST_NO_NODE: rows count the same */
    int             fetches[3];
    est_scored     *rows; /* [n] of n_room */
    size_t          n, n_room;
} exact_auc;

/* Whether a job's model has one: of two classes, and not more than one label. */
bool exact_auc_applies(const job_model *model);

/* Adds itself to the next evaluations of the estimator; the hook must be among theirs. */
EST_MUST_CHECK est_status exact_auc_init(exact_auc *auc, const job_spec *job, est_estimator *estimator);

/* Of the rows since then; NaN: no rows of one kind, or too many to keep. */
double exact_auc_value(exact_auc *auc);
void   exact_auc_clear(exact_auc *auc);

#endif
