/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses: labels and predictions in, a scalar out (or one value per element with EST_LOSS_NONE).
 *
 * l is computed element by element, weighted, and reduced. Weights broadcast to l; weights of one rank less than l get
 * a last axis of size 1. Formulas are TensorFlow's. Labels are cast to the predictions' dtype where they are numbers.
 *
 * Threading: one thread at a time per graph.
 *
 * Labels come first, as in TensorFlow's losses; the raw ops of <estoc/ops.h> (est_sigmoid_xent ...) take logits first.
 * Labels [batch] go with predictions [batch, 1]. */
#ifndef ESTOC_LOSSES_H
#define ESTOC_LOSSES_H

#include "estoc/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum est_reduction {
    EST_LOSS_DEFAULT = 0,             /* the default of the function: here EST_LOSS_SUM_OVER_BATCH_SIZE */
    EST_LOSS_SUM_OVER_BATCH_SIZE,     /* sum(w l) / number of elements of l */
    EST_LOSS_SUM,                     /* sum(w l) */
    EST_LOSS_MEAN,                    /* sum(w l) / sum(w); 0 when sum(w) is */
    EST_LOSS_NONE,                    /* w l */
    EST_LOSS_SUM_OVER_NONZERO_WEIGHTS /* sum(w l) / number of elements whose weight is not 0 */
} est_reduction;

typedef struct est_loss_options {
    size_t        struct_size; /* filled by EST_LOSS */
    est_node      weights;     /* EST_NO_NODE: 1 */
    est_reduction reduction;
    double        label_smoothing; /* softmax, sigmoid and binary cross entropy; 0: none */
    double        delta;           /* huber: where it turns from square to line; 0: 1; EST_OFF: 0 */
    double        epsilon;         /* log_loss, poisson, binary_xent: added inside logarithms; 0: 1e-7; EST_OFF: 0 */
    int           axis;            /* cosine: 0: the last */
    bool          full;            /* log_poisson: true: with Stirling's term for labels above 1 */
} est_loss_options;

#define EST_LOSS(...) (&(const est_loss_options){ .struct_size = EST_STRUCT_SIZE(est_loss_options), __VA_ARGS__ })

/* -sum(labels log softmax(logits)) of each row; labels are distributions, smoothed towards 1 / classes. */
EST_API est_node est_loss_softmax_xent(est_node labels, est_node logits, const est_loss_options *options);
/* The same with class numbers; labels may have a last axis of size 1. */
EST_API est_node est_loss_sparse_softmax_xent(est_node labels, est_node logits, const est_loss_options *options);
/* max(x, 0) - x z + log(1 + exp(-|x|)) of each element, smoothed towards 1/2. */
EST_API est_node est_loss_sigmoid_xent(est_node labels, est_node logits, const est_loss_options *options);
/* The mean over the last axis of -l log(p + epsilon) - (1 - l) log(1 - p + epsilon) for probabilities p, which are
 * clipped to [epsilon, 1 - epsilon], smoothed towards 1/2: tf.keras.losses.BinaryCrossentropy. As in Keras, the result
 * of est_sigmoid is not clipped: the loss is computed from its logits. Weights are one a row. */
EST_API est_node est_loss_binary_xent(est_node labels, est_node probabilities, const est_loss_options *options);
/* (p - l)^2, |p - l|. */
EST_API est_node est_loss_mse(est_node labels, est_node predictions, const est_loss_options *options);
EST_API est_node est_loss_mae(est_node labels, est_node predictions, const est_loss_options *options);
/* e^2 / 2 up to delta, delta |e| - delta^2 / 2 beyond. */
EST_API est_node est_loss_huber(est_node labels, est_node predictions, const est_loss_options *options);
/* max(0, 1 - l p); labels -1 and 1, or all of them 0 and 1, which then stand for those. */
EST_API est_node est_loss_hinge(est_node labels, est_node predictions, const est_loss_options *options);
/* -l log(p + epsilon) - (1 - l) log(1 - p + epsilon). */
EST_API est_node est_loss_log(est_node labels, est_node predictions, const est_loss_options *options);
/* -sum over the axis of the two normalised to length 1: -1 when they point the same way. */
EST_API est_node est_loss_cosine(est_node labels, est_node predictions, const est_loss_options *options);
/* p - l log(p + epsilon). */
EST_API est_node est_loss_poisson(est_node labels, est_node predictions, const est_loss_options *options);
/* exp(x) - l x for x the logarithm of the prediction. */
EST_API est_node est_loss_log_poisson(est_node labels, est_node log_predictions, const est_loss_options *options);

/* Weights and reduces l, for a loss of your own. */
EST_API est_node est_loss_reduce(est_node l, const est_loss_options *options);

#ifdef __cplusplus
}
#endif
#endif
