/* SPDX-License-Identifier: Apache-2.0
 *
 * Keras' names of losses, metrics, activations, initializers and regularizers, and what they stand for. Optimizers by
 * name are in <estoc/optimizers.h>.
 *
 * A name is that of a function or of a class of tf.keras 2.15 ("mean_squared_error", "MeanSquaredError"), or one of its
 * short names ("mse"); case and underscores do not matter. An unknown name is EST_INVALID_ARGUMENT, and the error
 * offers the nearest one. Results are plain values that need no graph. Formulas and defaults are those of Keras.
 *
 * Threading: any thread; building with them is one thread at a time per graph. */
#ifndef ESTOC_NAMES_H
#define ESTOC_NAMES_H

#include "estoc/layers.h"
#include "estoc/losses.h"
#include "estoc/metrics.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- losses ------------------------------------------------------------------------------------------------------- */

/* A loss as a value. For your own, fill name and `each`.
 *
 * `each` gives one value an example: [batch, ...] without the last axis of the predictions, over which Keras takes the
 * mean (crossentropies of classes and similar: the sum). est_loss_reduce() and est_compute_average_loss() weigh and
 * reduce it. Labels [batch] go with predictions [batch, 1]. Predictions [batch] are taken as [batch, 1], so that there
 * is a weight for each example. Labels are cast to the predictions' dtype. But for crossentropies, labels [batch] or
 * [batch, 1] also go with predictions [batch, n]: one value for all of a row, as in Keras.
 *
 * Crossentropies take probabilities, clipped to [1e-7, 1 - 1e-7], or logits with from_logits. As in Keras, the result
 * of est_softmax() or est_sigmoid() is not clipped: the loss is computed from its logits. */
typedef struct est_loss est_loss;
struct est_loss {
    const char *name; /* borrowed while the loss is used */
    est_node (*each)(const est_loss *self, est_node labels, est_node predictions);
    double      a, b; /* label_smoothing; delta; gamma and alpha */
    bool        from_logits;
    int         axis; /* cosine_similarity: 0: the last */
    const void *user; /* for your own; borrowed until the loss is built */
    uint64_t    reserved[4];
};

/* binary_crossentropy (bce), binary_focal_crossentropy, categorical_crossentropy, categorical_focal_crossentropy,
 * categorical_hinge, cosine_similarity, hinge, huber, kl_divergence (kld, kullback_leibler_divergence), log_cosh,
 * mean_absolute_error (mae), mean_absolute_percentage_error (mape), mean_squared_error (mse),
 * mean_squared_logarithmic_error (msle), poisson, sparse_categorical_crossentropy, squared_hinge. */
EST_API EST_MUST_CHECK est_status est_loss_by_name(const char *name, est_loss *out);

/* Those with options. Smoothing 0: none; towards 1/2, or 1 / classes. */
EST_API est_loss est_loss_value_binary_crossentropy(bool from_logits, double label_smoothing);
EST_API est_loss est_loss_value_categorical_crossentropy(bool from_logits, double label_smoothing);
EST_API est_loss est_loss_value_sparse_categorical_crossentropy(bool from_logits);
/* Times (1 - p of the right class)^gamma; alpha 0: binary without a balance of classes, categorical 0.25; gamma 0: 2;
 * either EST_OFF: 0. */
EST_API est_loss est_loss_value_binary_focal_crossentropy(bool from_logits, double gamma, double alpha);
EST_API est_loss est_loss_value_categorical_focal_crossentropy(bool from_logits, double gamma, double alpha);
/* delta 0: 1; EST_OFF: 0. */
EST_API est_loss est_loss_value_huber(double delta);

/* --- metrics ------------------------------------------------------------------------------------------------------ */

/* A metric as a value: make() builds its state, update, value and reset (<estoc/metrics.h>). For your own, fill name
 * and make. Weights are one an example, or EST_NO_NODE. The state is local unless `shared` is set before make(). */
typedef struct est_metric_spec est_metric_spec;
struct est_metric_spec {
    const char *name; /* of its variables and in logs; borrowed while the metric is used */
    est_metric (*make)(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights);
    double      a, b;        /* threshold; which curve */
    int64_t     n;           /* k; how many thresholds */
    bool        from_logits; /* crossentropy */
    bool        shared;      /* .shared of est_metric_options */
    const void *user;        /* for your own; borrowed until the metric is made */
    uint64_t    reserved[4];
};

/* accuracy (acc) and crossentropy (ce): the binary, sparse categorical or categorical one, by the shapes of labels and
 * predictions as in Keras' compile; auc, binary_accuracy, categorical_accuracy, cosine_similarity (1 when they point
 * the same way), false_negatives, false_positives, mean and sum (of the predictions), precision, recall,
 * root_mean_squared_error (rmse), sparse_categorical_accuracy, sparse_top_k_categorical_accuracy,
 * top_k_categorical_accuracy, true_negatives, true_positives; and the mean of every loss above. The name of the result
 * is the one that Keras logs: a short name as it was given, else that of the function. */
EST_API EST_MUST_CHECK est_status est_metric_by_name(const char *name, est_metric_spec *out);

/* Those with options. A threshold of 0: 0.5, k 0: 5; either EST_OFF: 0. */
EST_API est_metric_spec est_metric_value_binary_accuracy(double threshold);
EST_API est_metric_spec est_metric_value_precision(double threshold);
EST_API est_metric_spec est_metric_value_recall(double threshold);
EST_API est_metric_spec est_metric_value_top_k_categorical_accuracy(int64_t k);
EST_API est_metric_spec est_metric_value_sparse_top_k_categorical_accuracy(int64_t k);
EST_API est_metric_spec est_metric_value_auc(est_curve curve, int64_t num_thresholds); /* 0: 200 */
/* The mean of a loss, which is borrowed until the metric is made. */
EST_API est_metric_spec est_metric_value_of_loss(const est_loss *loss);

/* --- activations, initializers, regularizers ---------------------------------------------------------------------- */

/* elu, exponential, gelu, hard_sigmoid, leaky_relu (slope 0.2), linear, mish, relu, relu6, selu, sigmoid, softmax (of
 * the last axis), softplus, softsign, swish (silu), tanh. */
EST_API EST_MUST_CHECK est_status est_activation_by_name(const char *name, est_activation *out);

/* constant (0), glorot_normal, glorot_uniform, he_normal, he_uniform, identity (a matrix), lecun_normal, lecun_uniform,
 * ones, random_normal, random_uniform, truncated_normal (deviation or limit 0.05), variance_scaling, zeros. */
EST_API EST_MUST_CHECK est_status est_initializer_by_name(const char *name, est_initializer *out);

/* l1, l2, l1_l2, each with the factor 0.01. */
EST_API EST_MUST_CHECK est_status est_regularizer_by_name(const char *name, est_regularizer *out);

#ifdef __cplusplus
}
#endif
#endif
