/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers: squared errors, and two variants with a link between logits and predictions, logistic and Poisson. */
#include <inttypes.h>

#include "base/argument.h"
#include "estoc/ops.h"
#include "models/head.h"

static est_feature_spec parse(const est_head *head)
{
    return (est_feature_spec){ .dtype = EST_F32, .shape = EST_SHAPE(head->n) };
}

static est_node labels(est_head_use *u)
{
    est_node x = est_head_dense_labels(u, u->head->n);

    if (est_node_dtype(x) == EST_STRING) return est_head_fail(u, "labels are strings, expected numbers");
    return est_cast(x, EST_F32);
}

static est_node loss(est_head_use *u)
{
    return est_squared_difference(u->labels, u->logits);
}

static void predict(est_head_use *u)
{
    est_activation link = u->head->o.inverse_link;

    u->value = link != NULL ? link(u->logits) : u->logits;
    est_head_predict(u, "predictions", u->value);
    if (link != NULL) est_head_predict(u, "logits", u->logits);
}

static void metrics(est_head_use *u)
{
    est_head_mean(u, "prediction/mean", u->value);
    est_head_mean(u, "label/mean", u->labels);
}

static const est_head_kind regression = {
    .title           = "regression head",
    .takes           = EST_HEAD_TAKES_LOSS_FN | EST_HEAD_TAKES_INVERSE_LINK | EST_HEAD_TAKES_V1,
    .weighs_elements = true,
    .parse           = parse,
    .labels          = labels,
    .loss            = loss,
    .predict         = predict,
    .metrics         = metrics,
};

static est_status check_dimension(int64_t label_dimension)
{
    if (label_dimension >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "label_dimension must be at least 1, got %" PRId64, label_dimension);
}

est_status est_regression_head(int64_t label_dimension, const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    EST_TRY(check_dimension(label_dimension));
    return est_head_create(&regression, label_dimension > 0 ? label_dimension : 1, 0, options, out);
}

/* --- logistic ----------------------------------------------------------------------------------------------------- */

static est_node logistic_labels(est_head_use *u)
{
    return est_head_check_labels(u, labels(u), 0, 1);
}

static est_node logistic_loss(est_head_use *u)
{
    return est_sigmoid_xent(u->logits, u->labels);
}

static const est_head_kind logistic = {
    .title           = "logistic regression head",
    .weighs_elements = true,
    .parse           = parse,
    .labels          = logistic_labels,
    .loss            = logistic_loss,
    .predict         = predict,
    .metrics         = metrics,
};

est_status est_logistic_regression_head(const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    EST_TRY(est_head_create(&logistic, 1, 0, options, out));
    (*out)->o.inverse_link = est_sigmoid;
    return EST_OK;
}

/* --- Poisson ------------------------------------------------------------------------------------------------------ */

static est_node poisson_loss(est_head_use *u)
{
    return est_loss_log_poisson(u->labels, u->logits,
                                EST_LOSS(.reduction = EST_LOSS_NONE, .full = !u->head->o.no_full_loss));
}

static const est_head_kind poisson = {
    .title           = "Poisson head",
    .takes           = EST_HEAD_TAKES_NO_FULL_LOSS,
    .weighs_elements = true,
    .parse           = parse,
    .labels          = labels,
    .loss            = poisson_loss,
    .predict         = predict,
    .metrics         = metrics,
};

est_status est_poisson_head(int64_t label_dimension, const est_head_options *options, est_head **out)
{
    EST_REQUIRE(out);
    EST_TRY(check_dimension(label_dimension));
    EST_TRY(est_head_create(&poisson, label_dimension > 0 ? label_dimension : 1, 0, options, out));
    (*out)->o.inverse_link = est_exp;
    return EST_OK;
}
