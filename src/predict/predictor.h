/* SPDX-License-Identifier: Apache-2.0
 *
 * A predictor is a session with named feeds and named fetches. Its plans are its own: one for each est_prediction and
 * range of batch sizes, over the variables and tables of the session, which no plan changes. SavedModels, estimators
 * and networks predict by it; est_predict from within a loop, since hooks may add to each of its runs.
 *
 * Threading: as in estoc/predictor.h. Plans are made one at a time in a session, whichever of its predictors they are
 * of; making one changes nothing that others run with, since the first plan, made with the predictor, has bound all
 * variables and filled all tables. */
#ifndef EST_PREDICT_PREDICTOR_H
#define EST_PREDICT_PREDICTOR_H

#include "base/alloc.h"
#include "estoc/predictor.h"
#include "estoc/session.h"
#include "train/loop.h"

/* A predictor over nodes of the session's graph. The variables have their values; the session is borrowed until the
 * predictor is freed, runs beside predictions only what changes no variable, and has no other tasks. Lists and names
 * are copied. */
EST_MUST_CHECK est_status est_predictor_over(est_session *session, est_named_nodes feeds, est_named_nodes fetches,
                                             const est_predictor_options *options, est_predictor **out);

/* A predictor for the owner of a session, which changes variables between predictions and may have other tasks: one
 * thread at a time predicts, while nothing else runs in the session. Calls have the session's threads. */
EST_MUST_CHECK est_status est_predictor_within(est_session *session, est_named_nodes feeds, est_named_nodes fetches,
                                               est_predictor **out);

/* Has a predictor within the session compute the runs of a loop, one for each set of nodes that its hooks ask for. */
extern const est_loop_engine est_predictor_engine;

/* est_prediction_run with the values in the order of the inputs, recorded if `traced`. *out: the plan that has run. */
EST_MUST_CHECK est_status est_prediction_run_values(est_prediction *prediction, const est_tensor *const *values,
                                                    bool traced, est_plan **out);

/* Calls release(user) when the predictor is freed: whoever makes a session for it hands the session over. */
void est_predictor_own(est_predictor *predictor, void (*release)(void *user), void *user);

/* The features that the graph parses from serialized Examples, where the only input is a vector of them; n 0: it has
 * other inputs. In the arena, defaults borrowed until the session's graph is freed. */
EST_MUST_CHECK est_status est_predictor_features(const est_predictor *predictor, est_arena *arena,
                                                 est_feature_specs *out);

#endif
