/* SPDX-License-Identifier: Apache-2.0
 *
 * Preflight: finds errors of the first evaluation before the first training step. Graphs are built and discarded; no
 * variable is allocated, and one row of the input's files is read.
 *
 * Errors: an unreadable evaluation input, a model_fn that fails in mode EST_EVAL or for a receiver, variables that no
 * checkpoint of the training will have, unknown metrics. Warnings: early stopping that cannot stop this run. */
#ifndef EST_ESTIMATOR_PREFLIGHT_H
#define EST_ESTIMATOR_PREFLIGHT_H

#include "estimator/training.h"

/* Checks a training whose model is built; called in the chief. A process that does not evaluate need not have the files
 * of evaluations. */
EST_MUST_CHECK est_status est_preflight_training(const est_training *t);

/* Checks an evaluator task. `hooks` are those of the training that it watches. */
EST_MUST_CHECK est_status est_preflight_evaluator(est_estimator *estimator, est_hooks hooks, const est_eval_spec *eval);

/* Fails unless all variables of `model` that checkpoints keep are in `trained`, with their dtypes and shapes. */
EST_MUST_CHECK est_status est_preflight_variables(const est_model *model, const est_model *trained);

#endif
