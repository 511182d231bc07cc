/* SPDX-License-Identifier: Apache-2.0
 *
 * The serving input of an exported model: placeholders for requests, and the features that are computed from them. */
#ifndef EST_ESTIMATOR_RECEIVER_H
#define EST_ESTIMATOR_RECEIVER_H

#include "estimator/model.h"
#include "estoc/exporter.h"

#define EST_RECEIVER_EXAMPLES "examples" /* the key of a parsing receiver's only input */

/* One way to feed a model. */
typedef struct est_feed_group {
    const char     *name;   /* of an alternative; "": the receiver's placeholders */
    est_named_node *inputs; /* [n_inputs] in the model's arena: the key in requests, the tensor it is for */
    int             n_inputs;
} est_feed_group;

typedef struct est_receiver {
    const est_serving_input *input;  /* borrowed */
    est_feed_group          *groups; /* [n_groups] in the model's arena: the placeholders, then the alternatives */
    int                      n_groups;
    const char             **features; /* [n_features] in the model's arena: names, without those of splits */
    int                      n_features;
} est_receiver;

/* A receiver while its function builds it. */
struct est_serving {
    est_model    *model;
    est_receiver *receiver;
    int           n_room; /* of inputs */
    est_error     failed; /* of the first call that failed */
};

/* Whether the input describes any features. */
bool est_receiver_given(const est_serving_input *input);

/* Adds placeholders to the model's graph and sets the model's features. */
EST_MUST_CHECK est_status est_receiver_build(const est_serving_input *input, est_model *model, est_receiver *out);

/* Renames the placeholders to the names of their features where model_fn left these free: a placeholder must not take
 * the name of a variable, which checkpoints are keyed by. */
EST_MUST_CHECK est_status est_receiver_name(const est_receiver *receiver, est_model *model);

#endif
