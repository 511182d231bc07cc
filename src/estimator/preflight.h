/* SPDX-License-Identifier: Apache-2.0
 *
 * Preflight: what would end or mislead a run at its first evaluation, found before the first step. Graphs are built and
 * thrown away; no variable gets memory, and of the input's files one row is read.
 *
 * Errors: an evaluation's input that cannot be read, a model_fn that fails in mode EST_EVAL or for a receiver, variables
 * that no checkpoint of the training will have, names of metrics that no evaluation has. Warnings: early stopping that
 * cannot stop this run. */
#ifndef EST_ESTIMATOR_PREFLIGHT_H
#define EST_ESTIMATOR_PREFLIGHT_H

#include "estimator/training.h"

/* Of a training whose model is built, in the process that leads it. One that does not evaluate itself need not see the files
 * of evaluations. */
EST_MUST_CHECK est_status est_preflight_training(const est_training *t);

/* Of an evaluator task. `hooks` are those of the training that it watches. */
EST_MUST_CHECK est_status est_preflight_evaluator(est_estimator *estimator, est_hooks hooks, const est_eval_spec *eval);

/* Fails unless all variables of `model` that checkpoints keep are in `trained`, with their dtypes and shapes. */
EST_MUST_CHECK est_status est_preflight_variables(const est_model *model, const est_model *trained);

#endif
