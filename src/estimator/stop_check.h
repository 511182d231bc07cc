/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether early stopping can stop a run: it reads evaluations, and there may be none before the end. */
#ifndef EST_ESTIMATOR_STOP_CHECK_H
#define EST_ESTIMATOR_STOP_CHECK_H

#include "estimator/training.h"
#include "train/hooks.h"

/* Whether a rule reads the results that evaluations of this model directory write, under any evaluation name. */
bool est_stop_reads_own(const est_estimator *estimator, const est_stop_rule *rule);

/* Whether one of the hooks is early stopping by a metric. */
bool est_any_stop_rule(est_hooks hooks);

/* Warns about every rule that cannot stop the training, or only a long one, and says which setting to change. */
EST_MUST_CHECK est_status est_stop_check(const est_training *t);

#endif
