/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a model_fn built, as the estimator reads it. The public half is estoc/model.h. */
#ifndef EST_ESTIMATOR_MODEL_H
#define EST_ESTIMATOR_MODEL_H

#include "base/alloc.h"
#include "base/map.h"
#include "estoc/dataset.h"
#include "estoc/model.h"
#include "predict/rows.h"
#include "train/hooks.h"
#include "train/loop.h"

/* A list in the model's arena, in the order of the calls. */
typedef struct est_model_list {
    void  *data;
    int    n, capacity;
    size_t item; /* bytes of one */
} est_model_list;

typedef struct est_model_metric_item {
    const char *name;
    est_metric  metric;
} est_model_metric_item;

typedef enum est_export_method {
    EST_EXPORT_CLASSIFY = 0,
    EST_EXPORT_REGRESS,
    EST_EXPORT_PREDICT,
    EST_EXPORT_TRAIN,
    EST_EXPORT_EVAL
} est_export_method;

typedef struct est_model_export {
    est_export_method method;
    const char       *key;
    est_named_node   *outputs; /* [n_outputs], in the arena */
    int               n_outputs;
} est_model_export;

typedef enum est_hook_kind {
    EST_HOOK_TRAINING = 0,
    EST_HOOK_CHIEF,
    EST_HOOK_EVALUATION,
    EST_HOOK_PREDICTION
} est_hook_kind;

typedef struct est_model_hook {
    est_hook_kind kind;
    est_hook     *hook; /* owned */
} est_model_hook;

struct est_model {
    est_arena            *arena;
    est_graph            *graph;   /* owned by replica 0 */
    int                   replica; /* index among those that share the graph */
    est_mode              mode;
    const est_run_config *config; /* borrowed */
    const est_task       *task;   /* borrowed */

    const est_dataset *input;    /* borrowed; NULL: `receiver` has the features */
    est_map            receiver; /* name -> est_node of the graph, in the arena; of an export */
    est_map            nodes;    /* requested names -> est_node, in the arena */
    est_model_list     feeds;    /* est_loop_feed */

    est_node       loss, train_op;
    est_model_list predictions; /* est_named_node */
    est_model_list metrics;     /* est_model_metric_item */
    est_model_list exports;     /* est_model_export */
    est_model_list summaries;   /* est_model_summary */
    est_model_list hooks;       /* est_model_hook */

    est_status failed; /* the first failure of a call that cannot fail visibly */
    est_error  error;
};

/* An empty model over a new graph with this seed. `input` may be NULL. */
EST_MUST_CHECK est_status est_model_create(est_mode mode, const est_run_config *config, const est_task *task,
                                           const est_dataset *input, uint64_t seed, est_model **out);
void                      est_model_free(est_model *model); /* NULL is fine */

/* Calls model_fn and checks that it registered everything that the mode requires. */
EST_MUST_CHECK est_status est_model_build(est_model *model, est_model_fn model_fn, const void *params);

/* The same for every replica of the strategy (estimator/model_replicas.c). The model becomes the first replica, with
 * the feeds of all replicas, the mean of their losses, and the training operation that they share. */
EST_MUST_CHECK est_status est_model_build_replicas(est_model *model, est_model_fn model_fn, const void *params,
                                                   const est_strategy *strategy);

/* The model of another replica in the same graph, with its own lists; free it before `first`. */
EST_MUST_CHECK est_status est_model_create_replica(const est_model *first, int replica, est_model **out);

/* Appends a zeroed element to a list of the model. NULL: out of memory; the model reports the error. */
void *est_model_list_add(est_model *model, est_model_list *list);

/* Calls the configuration's device_fn, if set, for the device of each operation. */
EST_MUST_CHECK est_status est_model_place(est_model *model);

/* Sets features by node, in place of an input. */
EST_MUST_CHECK est_status est_model_receive(est_model *model, const char *name, est_node node);

#endif
