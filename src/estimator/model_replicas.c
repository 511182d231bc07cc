/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of several replicas: model_fn is called for each of them, in one graph, each with batches of its own
 * (strategy/replicas_build.h). est_minimize reduces their gradients across replicas; this file combines losses, feeds
 * and metrics. Predictions, summaries and hooks are those of the first replica, as in TensorFlow. */
#include "base/callback.h"
#include "estimator/model.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "graph/replicas.h"
#include "nn/replicas_reduce.h"
#include "strategy/replicas_build.h"
#include "strategy/strategy.h"

typedef struct replica_models {
    est_model         **models; /* [n]: the first is the caller's */
    int                 n;
    est_model_fn        model_fn;
    const void         *params;
    const est_strategy *strategy;
    est_node            loss; /* of all */
} replica_models;

/* The mean of the replicas' losses weighted by examples, or their sum, as the strategy reduces gradients. */
static est_node join_losses(est_graph *graph, void *const *brought, int n)
{
    const est_replicas   *replicas  = est_graph_replicas(graph);
    est_replica_reduction reduction = est_replica_reduction_begin(graph, replicas->gradients, replicas->weight);
    est_node              losses[EST_STRATEGY_REPLICAS_MAX];

    for (int i = 0; i < n; i++) losses[i] = ((const est_model *)brought[i])->loss;
    return est_replica_reduce_value(&reduction, losses);
}

static est_status build_replica(int replica, void *user)
{
    replica_models *t     = user;
    est_model      *model = t->models[replica];
    est_node        loss;

    est_strategy_pin(t->strategy, model->graph, replica);
    EST_TRY(est_model_build(model, t->model_fn, t->params));
    loss = est_replicas_merge(model->graph, join_losses, model);
    if (replica == 0) t->loss = loss;
    return est_graph_status(model->graph);
}

/* The number of rows of a replica's batch, which the loop feeds. */
static est_node add_weight(est_model *model, int replica)
{
    est_node node = est_named(est_placeholder(model->graph, NULL, EST_F32, EST_SHAPE_SCALAR), "IteratorGetNext/rows");
    est_loop_feed *feed = est_model_list_add(model, &model->feeds);

    if (feed != NULL) *feed = (est_loop_feed){ .node = node, .rows = true, .replica = replica };
    return node;
}

static est_status take_feeds(est_model *model, const est_model *from)
{
    const est_loop_feed *feeds = from->feeds.data;

    for (int i = 0; i < from->feeds.n; i++) {
        est_loop_feed *feed = est_model_list_add(model, &model->feeds);

        if (feed == NULL) return est_model_status(model);
        *feed = feeds[i];
    }
    return EST_OK;
}

static est_status build_replicas(replica_models *t, est_replicas replicas)
{
    est_model *first = t->models[0];

    (void)est_global_step(first->graph); /* before the replicas, which share it */
    EST_TRY(est_replicas_build(first->graph, replicas, build_replica, t));
    first->loss = t->loss;
    for (int i = 1; i < t->n; i++) EST_TRY(take_feeds(first, t->models[i]));
    return est_model_status(first);
}

est_status est_model_build_replicas(est_model *model, est_model_fn model_fn, const void *params,
                                    const est_strategy *strategy)
{
    est_replicas   replicas = est_strategy_replicas(strategy);
    est_node      *weight   = est_arena_alloc(model->arena, (size_t)replicas.n * sizeof *weight);
    replica_models t        = { .n = replicas.n, .model_fn = model_fn, .params = params, .strategy = strategy };
    est_status     status   = EST_OK;

    t.models = est_arena_alloc(model->arena, (size_t)replicas.n * sizeof(est_model *));
    if (weight == NULL || t.models == NULL) return est_no_memory();
    t.models[0] = model;
    for (int i = 0; i < t.n; i++) weight[i] = add_weight(model, i);
    replicas.weight    = weight;
    replicas.gradients = replicas.last_loss = EST_REDUCE_OP_MEAN;
    replicas.by_loss                        = true;
    for (int i = 1; i < t.n && status == EST_OK; i++) status = est_model_create_replica(model, i, &t.models[i]);
    if (status == EST_OK) status = build_replicas(&t, replicas);
    for (int i = 1; i < t.n; i++) est_model_free(t.models[i]);
    return status;
}
