/* SPDX-License-Identifier: Apache-2.0
 *
 * The baseline model ignores the features and trains a bias for every logit. It learns the mean of the labels, which
 * any other model should beat. It uses a feature only for the number of rows. */
#include <string.h>

#include "estoc/layers.h"
#include "estoc/ops.h"
#include "models/canned.h"

/* Whether a component is the label or the weight of a head. */
static bool belongs_to(const est_head *head, const char *name)
{
    const char *weight;

    for (int i = 0; i < head->n_heads; i++) {
        if (belongs_to(head->heads[i], name)) return true;
    }
    if (head->kind == NULL) return false;
    weight = head->o.weight_numeric != NULL ? est_column_name(head->o.weight_numeric) : head->o.weight_column;
    return strcmp(name, head->o.label) == 0 || (weight != NULL && strcmp(name, weight) == 0);
}

/* The name of any feature; that of the label when there is no feature. NULL: the input is empty. */
static const char *any_feature(const est_model *model, const est_head *head)
{
    const char *name, *last = NULL;
    void       *node;

    for (int i = 0; model->input != NULL && i < est_dataset_components(model->input); i++) {
        last = est_dataset_component(model->input, i)->name;
        if (!belongs_to(head, last)) return last;
    }
    for (uint32_t at = 0; est_map_next(&model->receiver, &at, &name, &node);) {
        last = name;
        if (!belongs_to(head, name)) return name;
    }
    return last;
}

/* How many rows the batch has: int32 [1]. */
static est_node rows_of(est_model *model, const est_head *head)
{
    const char  *name     = any_feature(model, head);
    est_features features = est_model_features(model);
    est_feature  x;
    est_node     size;

    if (name == NULL) {
        return est_graph_poison(est_model_graph(model), est_fail(EST_INVALID_ARGUMENT, "the input has no features"));
    }
    x    = features.find(features.user, name);
    size = est_slice(est_shape_of(x.splits.graph != NULL ? x.splits : x.values), EST_I64S(0), EST_I64S(1));
    return x.splits.graph != NULL ? est_sub(size, est_const_list(size.graph, EST_I64S(1))) : size;
}

est_status est_baseline_model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_canned *canned = params;
    est_graph        *graph  = est_model_graph(model);
    int64_t           units  = est_head_logits(canned->o.head);
    est_node          bias, zeros;

    est_scope_push(graph, "baseline");
    bias  = est_weight(graph, "bias", EST_SHAPE(units), EST_WEIGHT(.initializer = est_init_zeros()));
    zeros = est_fill(est_concat(EST_NODES(rows_of(model, canned->o.head), est_const_list(graph, EST_I64S(units))), 0),
                     est_scalar(graph, EST_F32, 0));
    est_scope_pop(graph);
    zeros = est_reshape(zeros, EST_I64S(-1, units)); /* gives the last axis a known size */
    return est_canned_finish(canned, model, mode, est_bias_add(zeros, est_read_variable(bias)), NULL);
}
