/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: l element by element, then weights, then the reduction. */
#include <math.h>

#include "graph/replicas.h"
#include "nn/loss.h"

#define HALF_LOG_2PI 0.91893853320467274178

/* sum(w l) / n with n from the reduction. */
static est_node reduce(est_node l, const est_loss_options *o)
{
    bool     weighted = o->weights.graph != NULL;
    est_node w        = weighted ? est_nn_align_weights(o->weights, l) : EST_NO_NODE;
    est_node total    = weighted ? est_mul(l, w) : l;
    est_node n;

    est_replicas_set_loss(l.graph, o->reduction == EST_LOSS_SUM ? EST_REDUCE_OP_SUM : EST_REDUCE_OP_MEAN);
    if (o->reduction == EST_LOSS_NONE) return total;
    if (o->reduction == EST_LOSS_SUM) return est_sum(total);
    if (!weighted) return est_div_no_nan(est_sum(l), est_cast(est_size(l), est_node_dtype(l))); /* of nothing: 0 */
    if (o->reduction == EST_LOSS_DEFAULT || o->reduction == EST_LOSS_SUM_OVER_BATCH_SIZE) {
        n = est_cast(est_size(l), est_node_dtype(l));
    } else {
        if (o->reduction == EST_LOSS_SUM_OVER_NONZERO_WEIGHTS) {
            w = est_cast(est_not_equal(w, est_zeros_like(w)), est_node_dtype(l));
        }
        n = est_sum(est_mul(est_ones_like(l), w)); /* a weight counts once for every element that it is broadcast to */
    }
    return est_div_no_nan(est_sum(total), n);
}

est_node est_loss_reduce(est_node l, const est_loss_options *options)
{
    est_loss_options o;

    if (l.graph == NULL || est_graph_poisoned(l.graph)) return l;
    if (!EST_OPTIONS(l.graph, est_loss_options, options, o)) return est_graph_poison(l.graph, EST_INVALID_ARGUMENT);
    return reduce(l, &o);
}

static bool are_numbers(est_node labels, est_node predictions)
{
    if (est_node_dtype(labels) != EST_STRING) return true;
    (void)est_nn_fail(
        predictions.graph,
        "labels are strings, where numbers are needed: a StringLookup (est_string_lookup_apply) maps them, "
        "for instance in the dataset (est_dataset_map_graph)");
    return false;
}

bool est_loss_numbers(est_node *labels, est_node predictions)
{
    int  rank = est_node_shape(predictions)->rank;
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (!are_numbers(*labels, predictions)) return false;
    if (rank <= 0 || est_node_shape(*labels)->rank != rank) return true;
    if (est_node_dim(*labels, -1) > 1) {
        (void)est_nn_fail(
            predictions.graph,
            "labels %s are no class numbers for predictions %s; if they are one-hot rows, use the loss or metric "
            "that is called categorical, not sparse",
            est_shape_text(est_node_shape(*labels), a), est_shape_text(est_node_shape(predictions), b));
        return false;
    }
    *labels = est_squeeze(*labels, EST_I64S(-1));
    return true;
}

bool est_loss_align(est_node *labels, est_node predictions)
{
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (!are_numbers(*labels, predictions)) return false;
    *labels = est_nn_align_weights(*labels, predictions);
    if (est_def(*labels) == NULL) return !est_graph_poisoned(predictions.graph);
    if (est_infer_merge(est_node_shape(*labels), est_node_shape(predictions), &merged) == EST_OK) return true;
    (void)est_nn_fail(predictions.graph, "a loss needs labels and predictions of one shape, got %s and %s",
                      est_shape_text(est_node_shape(*labels), a), est_shape_text(est_node_shape(predictions), b));
    return false;
}

/* The usual loss: labels cast to the predictions' dtype and brought to their rank, l computed, reduced. */
static est_node elementwise_loss(est_node labels, est_node predictions, const est_loss_options *options,
                                 est_loss_element l)
{
    est_loss_options o;

    if (predictions.graph == NULL || est_graph_poisoned(predictions.graph)) return predictions;
    if (!EST_OPTIONS(predictions.graph, est_loss_options, options, o)) {
        return est_graph_poison(predictions.graph, EST_INVALID_ARGUMENT);
    }
    if (!est_loss_align(&labels, predictions)) return est_graph_poison(predictions.graph, EST_INVALID_ARGUMENT);
    return reduce(l(labels, predictions, &o), &o);
}

/* --- cross entropies ---------------------------------------------------------------------------------------------- */

est_node est_loss_smoothed_classes(est_node labels, est_node predictions, double smoothing)
{
    int64_t classes = est_node_dim(predictions, -1);

    if (smoothing <= 0) return labels;
    if (classes < 1)
        return est_nn_fail(predictions.graph, "label smoothing needs a known number of classes, but the "
                                              "last axis of the logits is unknown");
    return est_shift(est_scale(labels, 1 - smoothing), smoothing / (double)classes);
}

est_node est_loss_softmax_xent_of(est_node labels, est_node logits, const est_loss_options *o)
{
    return est_softmax_xent(logits, est_loss_smoothed_classes(labels, logits, o->label_smoothing));
}

static est_node smoothed(est_node labels, const est_loss_options *o)
{
    double s = o->label_smoothing;

    return s > 0 ? est_shift(est_scale(labels, 1 - s), 0.5 * s) : labels;
}

est_node est_loss_sigmoid_xent_of(est_node labels, est_node logits, const est_loss_options *o)
{
    return est_sigmoid_xent(logits, smoothed(labels, o));
}

est_node est_loss_softmax_xent(est_node labels, est_node logits, const est_loss_options *options)
{
    return elementwise_loss(labels, logits, options, est_loss_softmax_xent_of);
}

est_node est_loss_sigmoid_xent(est_node labels, est_node logits, const est_loss_options *options)
{
    return elementwise_loss(labels, logits, options, est_loss_sigmoid_xent_of);
}

/* What the op made p of; EST_NO_NODE: p is the result of another op. */
static est_node made_by(est_node p, const est_op *op)
{
    const est_node_def *def = est_def(p);

    if (def == NULL || def->op != op) return EST_NO_NODE;
    return (est_node){ p.graph, def->in[0].node, def->in[0].output };
}

est_node est_logits_of_softmax(est_node p)
{
    return made_by(p, &est_op_softmax);
}

est_node est_logits_of_sigmoid(est_node p)
{
    return made_by(p, &est_op_sigmoid);
}

/* -l log(p + e) - (1 - l) log(1 - p + e) of p in [e, 1 - e]. */
est_node est_loss_log_xent_of(est_node labels, est_node p, const est_loss_options *o)
{
    double   epsilon = est_or(o->epsilon, 1e-7);
    est_node kept    = est_minimum(est_maximum(p, est_scalar(p.graph, est_node_dtype(p), epsilon)),
                                   est_scalar(p.graph, est_node_dtype(p), 1 - epsilon));
    est_node rest    = est_shift(est_neg(kept), 1); /* before epsilon is added: 1 + epsilon would round */

    labels = smoothed(labels, o);
    return est_neg(est_add(est_mul(labels, est_log(est_shift(kept, epsilon))),
                           est_mul(est_shift(est_neg(labels), 1), est_log(est_shift(rest, epsilon)))));
}

/* The mean of each row. Logits that a sigmoid made p of say more than p where it is 0 or 1: then they are used, as
 * Keras does. */
static est_node binary_xent(est_node labels, est_node p, const est_loss_options *o)
{
    est_node logits = est_logits_of_sigmoid(p);

    return est_reduce_mean(logits.graph != NULL ? est_loss_sigmoid_xent_of(labels, logits, o)
                                                : est_loss_log_xent_of(labels, p, o),
                           EST_I64S(-1), false);
}

est_node est_loss_binary_xent(est_node labels, est_node probabilities, const est_loss_options *options)
{
    return elementwise_loss(labels, probabilities, options, binary_xent);
}

est_node est_loss_sparse_softmax_xent(est_node labels, est_node logits, const est_loss_options *options)
{
    est_loss_options o;
    int              rank = est_node_shape(logits)->rank;

    if (logits.graph == NULL || est_graph_poisoned(logits.graph)) return logits;
    if (!EST_OPTIONS(logits.graph, est_loss_options, options, o))
        return est_graph_poison(logits.graph, EST_INVALID_ARGUMENT);
    if (rank > 0 && est_node_shape(labels)->rank == rank && est_node_dim(labels, -1) == 1) {
        labels = est_squeeze(labels, EST_I64S(-1));
    }
    return reduce(est_sparse_softmax_xent(logits, labels), &o);
}

/* --- regression and the rest -------------------------------------------------------------------------------------- */

est_node est_loss_squared_of(est_node labels, est_node predictions, const est_loss_options *o)
{
    (void)o;
    return est_squared_difference(predictions, labels);
}

est_node est_loss_absolute_of(est_node labels, est_node predictions, const est_loss_options *o)
{
    (void)o;
    return est_abs(est_sub(predictions, labels));
}

/* With q = min(|e|, delta): q^2 / 2 + delta (|e| - q). */
est_node est_loss_huber_of(est_node labels, est_node predictions, const est_loss_options *o)
{
    double   delta = est_or(o->delta, 1);
    est_node error = est_abs(est_sub(predictions, labels));
    est_node near  = est_minimum(error, est_scalar(error.graph, est_node_dtype(error), delta));

    return est_add(est_scale(est_square(near), 0.5), est_scale(est_sub(error, near), delta));
}

est_node est_loss_hinge_of(est_node labels, est_node predictions, const est_loss_options *o)
{
    est_node one    = est_ones_like(labels);
    est_node binary = est_reduce_all(est_logical_or(est_equal(labels, est_zeros_like(labels)), est_equal(labels, one)),
                                     EST_ALL_AXES, false);

    (void)o;
    labels = est_select(binary, est_sub(est_scale(labels, 2), one), labels);
    return est_relu(est_sub(est_ones_like(predictions), est_mul(labels, predictions)));
}

static est_node log_loss(est_node labels, est_node p, const est_loss_options *o)
{
    double   epsilon = est_or(o->epsilon, 1e-7);
    est_node yes     = est_mul(labels, est_log(est_shift(p, epsilon)));
    est_node no      = est_mul(est_shift(est_neg(labels), 1), est_log(est_shift(est_neg(p), 1 + epsilon)));

    return est_neg(est_add(yes, no));
}

est_node est_nn_unit_length(est_node x, int axis)
{
    est_node square = est_reduce_sum(est_square(x), EST_I64S(axis), true);

    return est_mul(x, est_rsqrt(est_maximum(square, est_scalar(x.graph, est_node_dtype(x), 1e-12))));
}

est_node est_loss_cosine_of(est_node labels, est_node predictions, const est_loss_options *o)
{
    int axis = o->axis != 0 ? o->axis : -1;

    return est_neg(est_reduce_sum(est_mul(est_nn_unit_length(labels, axis), est_nn_unit_length(predictions, axis)),
                                  EST_I64S(axis), false));
}

est_node est_loss_poisson_of(est_node labels, est_node p, const est_loss_options *o)
{
    return est_sub(p, est_mul(labels, est_log(est_shift(p, est_or(o->epsilon, 1e-7)))));
}

/* exp(x) - l x, and for .full plus l ln l - l + ln(2 pi l) / 2 where l > 1. */
static est_node log_poisson(est_node labels, est_node x, const est_loss_options *o)
{
    est_node l = est_sub(est_exp(x), est_mul(labels, x));

    if (o->full) {
        est_node one  = est_scalar(x.graph, est_node_dtype(x), 1);
        est_node z    = est_maximum(labels, one); /* keeps the logarithm finite where it is not used */
        est_node logz = est_log(z);
        est_node more = est_add(est_sub(est_mul(z, logz), z), est_shift(est_scale(logz, 0.5), HALF_LOG_2PI));
        l             = est_add(l, est_select(est_greater(labels, one), more, est_zeros_like(more)));
    }
    return l;
}

est_node est_loss_mse(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_squared_of);
}

est_node est_loss_mae(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_absolute_of);
}

est_node est_loss_huber(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_huber_of);
}

est_node est_loss_hinge(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_hinge_of);
}

est_node est_loss_log(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, log_loss);
}

est_node est_loss_cosine(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_cosine_of);
}

est_node est_loss_poisson(est_node labels, est_node predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, predictions, options, est_loss_poisson_of);
}

est_node est_loss_log_poisson(est_node labels, est_node log_predictions, const est_loss_options *options)
{
    return elementwise_loss(labels, log_predictions, options, log_poisson);
}
