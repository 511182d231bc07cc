/* SPDX-License-Identifier: Apache-2.0
 *
 * Two classes, one logit: the logarithm of the odds of the second. Labels may lie between 0 and 1. */
#include "base/argument.h"
#include "estoc/ops.h"
#include "models/head.h"

static est_feature_spec parse(const est_head *head)
{
    return (est_feature_spec){ .dtype = head->o.label_vocabulary.n > 0 ? EST_STRING : EST_I64, .shape = EST_SHAPE(1) };
}

static est_node labels(est_head_use *u)
{
    est_node x = est_head_dense_labels(u, 1);

    if (u->head->o.label_vocabulary.n > 0) x = est_head_look_up(u, x);
    return est_head_check_labels(u, est_cast(x, EST_F32), 0, 1);
}

static est_node loss(est_head_use *u)
{
    return est_sigmoid_xent(u->logits, u->labels);
}

static void predict(est_head_use *u)
{
    est_node logistic = est_sigmoid(u->logits);
    est_node both     = est_concat(EST_NODES(est_zeros_like(u->logits), u->logits), -1); /* [..., 2] */
    est_node ids      = est_expand_dims(est_argmax(both, -1), -1);                       /* [..., 1] */

    u->scores  = est_softmax(both, -1);
    u->classes = est_head_all_classes(u, both);
    u->value   = logistic;
    est_head_predict(u, "logits", u->logits);
    est_head_predict(u, "logistic", logistic);
    est_head_predict(u, "probabilities", u->scores);
    est_head_predict(u, "class_ids", ids);
    est_head_predict(u, "classes", est_head_class_names(u, ids));
    est_head_predict(u, "all_class_ids", est_head_all_class_ids(u, both));
    est_head_predict(u, "all_classes", u->classes);
}

static void metrics(est_head_use *u)
{
    est_node   logistic = u->value;
    est_node   both     = est_concat(EST_NODES(est_zeros_like(u->logits), u->logits), -1);
    est_node   ids      = est_expand_dims(est_argmax(both, -1), -1);
    est_node   positive = est_cast(u->labels, EST_BOOL); /* a label between 0 and 1 counts as 1 here */
    est_metric mean     = est_metric_mean(u->labels, EST_METRIC(.name = "label_mean", .weights = u->weights));
    est_metric baseline = mean; /* shares the state, the update and the reset */

    if (u->head->o.v1) {
        baseline.value = est_maximum(mean.value, est_shift(est_neg(mean.value), 1));
    } else { /* the mean of ones is 0 where all weights are 0, as in TensorFlow's v2 */
        baseline       = est_metric_mean(est_ones_like(u->labels), EST_METRIC(.name = "any", .weights = u->weights));
        baseline.value = est_maximum(mean.value, est_sub(baseline.value, mean.value));
    }
    est_head_metric(u, est_metric_accuracy(u->labels, ids, EST_METRIC(.weights = u->weights)), "accuracy");
    est_head_metric(u, est_metric_precision(positive, ids, EST_METRIC(.weights = u->weights)), "precision");
    est_head_metric(u, est_metric_recall(positive, ids, EST_METRIC(.weights = u->weights)), "recall");
    est_head_mean(u, "prediction/mean", logistic);
    est_head_metric(u, mean, "label/mean");
    est_head_metric(u, baseline, "accuracy_baseline");
    est_head_auc(u, u->labels, logistic, "");
    est_head_thresholds(u, u->labels, logistic);
}

static const est_head_kind binary = {
    .title   = "binary head",
    .takes   = EST_HEAD_TAKES_VOCABULARY | EST_HEAD_TAKES_THRESHOLDS | EST_HEAD_TAKES_LOSS_FN | EST_HEAD_TAKES_V1,
    .parse   = parse,
    .labels  = labels,
    .loss    = loss,
    .predict = predict,
    .metrics = metrics,
};

est_status est_binary_head(const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    return est_head_create(&binary, 1, 2, options, out);
}
