/* SPDX-License-Identifier: Apache-2.0
 *
 * One of more than two classes: a logit each, the label is the number of the class or its name. */
#include <inttypes.h>

#include "base/argument.h"
#include "estoc/ops.h"
#include "models/head.h"

static est_feature_spec parse(const est_head *head)
{
    return (est_feature_spec){ .dtype = head->o.label_vocabulary.n > 0 ? EST_STRING : EST_I64, .shape = EST_SHAPE(1) };
}

static est_node labels(est_head_use *u)
{
    est_node  x     = est_head_dense_labels(u, 1);
    est_dtype dtype = est_node_dtype(x);

    if (u->head->o.label_vocabulary.n > 0) {
        x = est_head_look_up(u, x);
    } else if (dtype != EST_I64 && dtype != EST_I32) {
        return est_head_fail(u, "labels are %s, expected class numbers of type int64 or int32", est_dtype_name(dtype));
    }
    return est_head_check_labels(u, x, 0, (double)(u->head->n - 1));
}

static est_node loss(est_head_use *u)
{
    est_node l = est_loss_sparse_softmax_xent(u->labels, u->logits, EST_LOSS(.reduction = EST_LOSS_NONE));

    return est_expand_dims(l, -1);
}

static void predict(est_head_use *u)
{
    est_node ids = est_expand_dims(est_argmax(u->logits, -1), -1); /* [..., 1] */

    u->scores  = est_softmax(u->logits, -1);
    u->classes = est_head_all_classes(u, u->logits);
    est_head_predict(u, "logits", u->logits);
    est_head_predict(u, "probabilities", u->scores);
    est_head_predict(u, "class_ids", ids);
    est_head_predict(u, "classes", est_head_class_names(u, ids));
    est_head_predict(u, "all_class_ids", est_head_all_class_ids(u, u->logits));
    est_head_predict(u, "all_classes", u->classes);
}

static void metrics(est_head_use *u)
{
    est_node ids = est_expand_dims(est_argmax(u->logits, -1), -1);

    est_head_metric(u, est_metric_accuracy(u->labels, ids, EST_METRIC(.weights = u->weights)), "accuracy");
}

static const est_head_kind multi_class = {
    .title   = "multi-class head",
    .takes   = EST_HEAD_TAKES_VOCABULARY | EST_HEAD_TAKES_LOSS_FN | EST_HEAD_TAKES_V1,
    .parse   = parse,
    .labels  = labels,
    .loss    = loss,
    .predict = predict,
    .metrics = metrics,
};

est_status est_multi_class_head(int64_t n_classes, const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    if (n_classes <= 2) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a multi-class head needs more than 2 classes, got %" PRId64 "; for 2 use est_binary_head",
                        n_classes);
    }
    return est_head_create(&multi_class, n_classes, n_classes, options, out);
}
