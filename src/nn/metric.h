/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of metrics: a scope, variables that start at zero, and one update and one reset for all of them. */
#ifndef EST_NN_METRIC_H
#define EST_NN_METRIC_H

#include "nn/nn.h"

#define EST_METRIC_STATES 4

/* A collection: states with updates other than additions, which cannot be summed across workers. */
#define EST_UNSUMMED_STATES "unsummed_states"

/* A collection: states that have the sum over all workers after every step (est_metric_add). */
#define EST_SUMMED_STATES "summed_states"

/* A collection: states that are global variables, for all sessions of a job. */
#define EST_SHARED_STATES "shared_states"

/* A metric under construction: begin, some states, end. */
typedef struct est_metric_build {
    est_graph         *graph;
    est_metric_options o;
    int                n;
    est_node           state[EST_METRIC_STATES]; /* handles */
    est_node           update[EST_METRIC_STATES], reset[EST_METRIC_STATES];
} est_metric_build;

/* Opens the scope; false: the graph is poisoned, return est_metric_none(). */
bool       est_metric_begin(est_metric_build *m, est_node of, const char *name, const est_metric_options *options);
est_metric est_metric_none(est_node of);

/* A state called `name` to which `value` (its shape known) is added with every batch; returns its current value. */
est_node est_metric_sum(est_metric_build *m, const char *name, est_node value);

/* Adds a value to a state; where replicas share states (est_replicas.shares_states), those of all of them. */
est_node est_metric_add(est_node state, est_node value);

/* The same of an update that adds to a state or subtracts from it; where they share none, the update itself. */
est_node est_metric_share(est_node update);

/* Closes the scope. */
est_metric est_metric_end(est_metric_build *m, est_node value);

/* float32, as the state is. */
est_node est_metric_f32(est_node x);

/* The weights to go with `values` (float32), broadcast to their shape; ones without weights. */
est_node est_metric_weights(const est_metric_build *m, est_node values);

/* Labels and predictions as they are compared: predictions lose a last axis of 1 that labels do not have, or the other
 * way round. Then they must have one shape, or the graph fails. */
void est_metric_align(est_node *labels, est_node *predictions);

/* As 0 or 1 in float32: integers and bools when not 0, floats when above 0.5. */
est_node est_metric_truth(est_node x);

#endif
