/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide and deep: adds the logits of both parts and trains each with its own optimizer. Both optimizers minimize the
 * same loss; the deep part's increments the global step, or the optimizer of the only part. */
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "graph/replicas.h"
#include "models/canned.h"

/* The trainable variables of each part: the deep ones come first. */
typedef struct parts {
    const est_canned *canned;
    int               n_dnn, n_linear;
} parts;

static est_node apply(const est_head *head, est_optimizer optimizer, est_nodes variables, const est_gradient *gradients,
                      bool counts)
{
    return est_apply_gradients(optimizer, variables, gradients,
                               EST_MINIMIZE(.no_global_step = !counts, .no_update_ops = !counts,
                                            .slot_scope = optimizer.keras ? head->training_scope : NULL));
}

static est_node step(const parts *p, est_node loss, est_node *variables, est_gradient *gradients)
{
    const est_canned *c    = p->canned;
    est_nodes         list = est_trainable_variables(loss.graph);
    est_nodes         dnn = { variables, p->n_dnn }, linear = { variables + p->n_dnn, p->n_linear };
    est_node          deep, wide;

    for (int i = 0; i < list.n; i++) variables[i] = list.data[i]; /* the list moves when slots join the graph */
    est_compute_gradients(loss, (est_nodes){ variables, list.n }, gradients, NULL);
    if (dnn.n == 0) return apply(c->o.head, c->linear_optimizer, linear, gradients, true);
    deep = apply(c->o.head, c->dnn_optimizer, dnn, gradients, true);
    if (linear.n == 0) return deep;
    wide = apply(c->o.head, c->linear_optimizer, linear, gradients + p->n_dnn, false);
    return est_group(loss.graph, EST_NODES(deep, wide));
}

static est_node train_op(est_node loss, void *user)
{
    size_t        n         = (size_t)est_trainable_variables(loss.graph).n + 1;
    est_node     *variables = est_alloc(n * sizeof *variables), train;
    est_gradient *gradients = est_alloc(n * sizeof *gradients);

    if (variables == NULL || gradients == NULL) {
        train = est_graph_poison(loss.graph, est_no_memory());
    } else {
        train = step(user, loss, variables, gradients);
    }
    est_free(variables);
    est_free(gradients);
    return train;
}

/* Later replicas create no variables, so they use the counts of the first. */
static est_node take_first(est_graph *graph, void *const *brought, int n)
{
    (void)graph;
    for (int i = 1; i < n; i++) *(parts *)brought[i] = *(const parts *)brought[0];
    return EST_NO_NODE;
}

est_status est_combined_model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_canned *canned = params;
    est_graph        *graph  = est_model_graph(model);
    int64_t           units  = est_head_logits(canned->o.head);
    parts             p      = { .canned = canned };
    est_node          deep = EST_NO_NODE, wide = EST_NO_NODE, logits;

    if (canned->o.dnn_columns.n > 0) deep = est_dnn_logits(model, mode, units, &canned->o);
    p.n_dnn = est_trainable_variables(graph).n;
    if (canned->o.linear_columns.n > 0) {
        wide = est_linear_logits(model, units, &canned->o);
        est_canned_summarize(model, &canned->o, "linear", NULL, wide);
    }
    p.n_linear = est_trainable_variables(graph).n - p.n_dnn;
    if (est_in_replica(graph)) (void)est_replicas_merge(graph, take_first, &p);
    logits = deep.graph == NULL ? wide : wide.graph == NULL ? deep : est_add(deep, wide);
    return est_head_finish(canned->o.head, model, mode, logits, EST_HEAD_FINISH(.train_op_fn = train_op, .user = &p));
}
