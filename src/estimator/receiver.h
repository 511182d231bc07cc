/* SPDX-License-Identifier: Apache-2.0
 *
 * What a served model is fed: placeholders for its requests, and the features that model_fn sees made of them. */
#ifndef EST_ESTIMATOR_RECEIVER_H
#define EST_ESTIMATOR_RECEIVER_H

#include "estimator/model.h"
#include "estoc/exporter.h"

#define EST_RECEIVER_EXAMPLES "examples" /* the key of a parsing receiver's only input */

typedef struct est_receiver {
    const est_serving_input *input;  /* borrowed */
    est_named_node          *inputs; /* [n_inputs] in the model's arena: the key in requests, the placeholder */
    int                      n_inputs;
} est_receiver;

/* Adds placeholders to the model's graph and gives the model its features. */
EST_MUST_CHECK est_status est_receiver_build(const est_serving_input *input, est_model *model, est_receiver *out);

/* Gives the placeholders the names of their features, as far as model_fn has left them free: a feature must not take the
 * name of a variable, by which that is found in the checkpoint. */
EST_MUST_CHECK est_status est_receiver_name(const est_receiver *receiver, est_model *model);

#endif
