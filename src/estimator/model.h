/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model_fn has said, as the estimator reads it. The public half is estoc/model.h. */
#ifndef EST_ESTIMATOR_MODEL_H
#define EST_ESTIMATOR_MODEL_H

#include "base/alloc.h"
#include "base/map.h"
#include "estoc/dataset.h"
#include "estoc/model.h"
#include "train/hooks.h"
#include "train/loop.h"

/* A list in the model's arena, in the order things were said. */
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
    int                   replica; /* of those that share the graph */
    est_mode              mode;
    const est_run_config *config; /* borrowed */
    const est_task       *task;   /* borrowed */

    const est_dataset *input;    /* borrowed; NULL: `receiver` has the features */
    est_map            receiver; /* name -> est_node of the graph, in the arena; of an export */
    est_map            nodes;    /* names asked for -> est_node, in the arena */
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

/* What the splits of a ragged feature or prediction are called after its name. */
#define EST_SPLITS_SUFFIX "/splits"

/* Calls model_fn and checks that the mode got what it requires. */
EST_MUST_CHECK est_status est_model_build(est_model *model, est_model_fn model_fn, const void *params);

/* The same for every replica that the strategy has (estimator/model_replicas.c): the model is the first, with all of their feeds, the
 * mean of their losses, and the one training operation that they share. */
EST_MUST_CHECK est_status est_model_build_replicas(est_model *model, est_model_fn model_fn, const void *params,
                                                   const est_strategy *strategy);

/* A model of another replica in the same graph; its own lists, to be freed before `first`. */
EST_MUST_CHECK est_status est_model_create_replica(const est_model *first, int replica, est_model **out);

/* Room for one more at the end of a list of the model, zeroed; NULL when memory is out, which the model then reports. */
void *est_model_list_add(est_model *model, est_model_list *list);

/* Asks the configuration's device_fn, if there is one, where each operation is to run. */
EST_MUST_CHECK est_status est_model_place(est_model *model);

/* Gives features by node, in place of an input. */
EST_MUST_CHECK est_status est_model_receive(est_model *model, const char *name, est_node node);

#endif
