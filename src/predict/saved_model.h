/* SPDX-License-Identifier: Apache-2.0
 *
 * What predictors and the check of exports know of a loaded SavedModel beyond <estoc/saved_model.h>. */
#ifndef EST_PREDICT_SAVED_MODEL_H
#define EST_PREDICT_SAVED_MODEL_H

#include "estoc/graph.h"
#include "estoc/saved_model.h"
#include "estoc/session.h"

#define EST_SERVING_DEFAULT "serving_default"

/* The graph that has what all usable signatures need, and its session. Borrowed until the model is freed. */
est_graph   *est_saved_model_graph(const est_saved_model *model);
est_session *est_saved_model_session(const est_saved_model *model);

/* Runs what initializes variables that the files do not hold, as the counters of metrics. Done once by the loader. */
EST_MUST_CHECK est_status est_saved_model_init(const est_saved_model *model);

/* A signature with the nodes of its inputs and outputs, in their order. */
typedef struct est_saved_signature_nodes {
    const est_saved_signature *signature;
    est_nodes                  inputs, outputs;
} est_saved_signature_nodes;

/* The signature of that name, NULL: "serving_default". EST_NOT_FOUND lists those there are; EST_UNIMPLEMENTED: it
 * cannot be run, and why. Borrowed until the model is freed. */
EST_MUST_CHECK est_status est_saved_model_find(const est_saved_model *model, const char *name,
                                               est_saved_signature_nodes *out);

/* The directory of the SavedModel that `path` is, or of the newest version below it; to be freed with est_free.
 * EST_NOT_FOUND when there is none. */
EST_MUST_CHECK est_status est_saved_model_find_dir(const char *path, char **out);

#endif
