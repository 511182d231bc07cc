/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of calls, and of shards of an exact evaluation. Threading: one thread at a time. */
#ifndef EST_COORDINATOR_FUNCTIONS_H
#define EST_COORDINATOR_FUNCTIONS_H

#include "coordinator/coordinator.h"

typedef struct est_function_spec {
    const char *name;
    est_nodes   feeds, fetches, targets;
    est_nodes   states;   /* variables that each worker has its own of, besides local ones */
    int         n_resets; /* -1: for calls; else for shards: the first targets reset the states */
} est_function_spec;

EST_MUST_CHECK est_status est_function_make(est_coordinator *c, const est_function_spec *spec, est_function **out);

/* A dataset as an object of workers; `name` is for errors. */
EST_MUST_CHECK est_status est_per_worker_dataset_make(est_coordinator *c, const est_dataset *dataset, const char *name,
                                                      bool shard, est_per_worker **out);

/* Whether the dataset has a component of this name that the feed of the function takes. EST_NOT_FOUND, or
 * EST_INVALID_ARGUMENT: another type or shape. */
EST_MUST_CHECK est_status est_component_check(const est_dataset *dataset, const char *component, const char *function,
                                              est_node feed);

#endif
