/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of n classes at once: a logit each. Labels are rows of 0 and 1, or ragged lists of classes. */
#include <inttypes.h>

#include "base/argument.h"
#include "estoc/ops.h"
#include "models/head.h"

static est_feature_spec parse(const est_head *head)
{
    return (est_feature_spec){ .dtype = head->o.label_vocabulary.n > 0 ? EST_STRING : EST_I64,
                               .rows  = EST_ROWS_RAGGED };
}

/* A list of classes as a row of 0 and 1. */
static est_node listed_labels(est_head_use *u)
{
    est_ragged_node x     = est_model_ragged(u->model, u->head->o.label);
    est_dtype       dtype = est_node_dtype(x.values);

    if (u->head->o.label_vocabulary.n > 0) {
        x.values = est_head_look_up(u, x.values);
    } else if (dtype != EST_I64) {
        return est_head_fail(u, "lists of labels are %s, expected int64 or, with a vocabulary, strings",
                             est_dtype_name(dtype));
    }
    x.values = est_head_check_labels(u, x.values, 0, (double)(u->head->n - 1));
    return est_clip_by_value(est_multi_hot(x, EST_NO_NODE, u->head->n), 0, 1); /* one listed twice is there once */
}

static bool is_ragged(const est_head_use *u)
{
    int i = u->model->input != NULL ? est_dataset_find(u->model->input, u->head->o.label) : -1;

    return i >= 0 && est_dataset_component(u->model->input, i)->ragged;
}

static est_node labels(est_head_use *u)
{
    est_node x;

    if (is_ragged(u)) return listed_labels(u);
    x = est_head_dense_labels(u, u->head->n);
    if (est_node_dtype(x) == EST_STRING) {
        return est_head_fail(u, "string labels are dense, expected ragged lists of classes");
    }
    return est_head_check_labels(u, est_cast(x, EST_F32), 0, 1);
}

static est_node loss(est_head_use *u)
{
    return est_reduce_mean(est_sigmoid_xent(u->logits, u->labels), EST_I64S(-1), true);
}

static void predict(est_head_use *u)
{
    u->scores  = est_sigmoid(u->logits);
    u->classes = est_head_all_classes(u, u->logits);
    est_head_predict(u, "logits", u->logits);
    est_head_predict(u, "probabilities", u->scores);
    est_head_predict(u, "classes", u->classes);
}

/* The metrics of one class. */
static void class_metrics(est_head_use *u, int64_t id)
{
    est_node    probability = est_gather(u->scores, est_const_i64(u->graph, EST_SHAPE(1), &id), -1); /* [..., 1] */
    est_node    label       = est_gather(u->labels, est_const_i64(u->graph, EST_SHAPE(1), &id), -1);
    const char *suffix;

    suffix = u->head->o.label_vocabulary.n > 0
                 ? est_arena_printf(u->model->arena, "/%s", u->head->o.label_vocabulary.data[id])
                 : est_arena_printf(u->model->arena, "/class%" PRId64, id);
    if (suffix == NULL) {
        (void)est_graph_poison(u->graph, est_no_memory());
        return;
    }
    est_head_metric(u, est_metric_mean(probability, EST_METRIC(.name = "probability_mean", .weights = u->weights)),
                    "probability_mean%s", suffix);
    est_head_auc(u, label, probability, suffix);
}

static void metrics(est_head_use *u)
{
    est_head_auc(u, u->labels, u->scores, "");
    est_head_thresholds(u, u->labels, u->scores);
    for (int i = 0; i < u->head->o.metric_classes.n; i++) class_metrics(u, u->head->o.metric_classes.data[i]);
}

static const est_head_kind multi_label = {
    .title = "multi-label head",
    .takes = EST_HEAD_TAKES_VOCABULARY | EST_HEAD_TAKES_THRESHOLDS | EST_HEAD_TAKES_LOSS_FN |
             EST_HEAD_TAKES_METRIC_CLASSES,
    .parse   = parse,
    .labels  = labels,
    .loss    = loss,
    .predict = predict,
    .metrics = metrics,
};

est_status est_multi_label_head(int64_t n_classes, const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    if (n_classes < 2) {
        return est_fail(EST_INVALID_ARGUMENT, "a multi-label head needs at least 2 classes, got %" PRId64, n_classes);
    }
    return est_head_create(&multi_label, n_classes, n_classes, options, out);
}
