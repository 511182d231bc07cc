/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads: the loss, predictions, metrics and export signatures for a kind of label. With a head, a model_fn only
 * computes logits:
 *
 *     static est_status my_model(est_model *m, est_mode mode, const void *params)
 *     {
 *         est_node logits = est_dense(est_model_feature(m, "x"), est_head_logits(head), NULL);
 *
 *         return est_head_finish(head, m, mode, logits, EST_HEAD_FINISH(.optimizer = est_adam(0, NULL)));
 *     }
 *
 * Keys of predictions and metrics and the formulas are those of tf.estimator's heads; with .v1 those of tf.compat.v1
 * where the two differ. A named head appends its name to the keys of its metrics and summaries: "auc/clicked".
 *
 * Threading: a head is immutable; any thread. */
#ifndef ESTOC_HEAD_H
#define ESTOC_HEAD_H

#include "estoc/feature_column.h"
#include "estoc/losses.h"
#include "estoc/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_head est_head;

/* A loss of your own: one value for each example [batch, 1], or each element (regression), before weights and
 * reduction. */
typedef est_node (*est_head_loss_fn)(est_node labels, est_node logits, est_features features, void *user);

typedef struct est_head_options {
    size_t      struct_size; /* filled by EST_HEAD */
    const char *name;        /* NULL: none; required within a multi-head */
    const char *label;       /* the component that holds the labels; NULL: the head's name, else "label" */
    est_dtype   label_dtype; /* of labels in Examples; 0: float32 of a regression, strings of a vocabulary, int64 */
    /* the label of an Example without one, a scalar or all elements; NULL: such an Example is an error. Shared */
    est_tensor       *label_default;
    const char       *weight_column;    /* a numeric feature with the weights of examples; NULL: equal weights */
    const est_column *weight_numeric;   /* the same as a numeric column, normalizer included; not both */
    est_strings       label_vocabulary; /* labels are these strings; empty: numbers */
    est_f64s          thresholds;       /* binary, multi-label: more metrics at these probabilities, in (0, 1) */
    est_reduction     loss_reduction;   /* 0: sum over batch size, v1: sum; not EST_LOSS_NONE */
    est_head_loss_fn  loss_fn;          /* NULL: the head's own */
    void             *loss_user;        /* borrowed as long as the head */
    est_activation    inverse_link;     /* regression: predictions are this of the logits; NULL: the logits */
    bool              no_full_loss;     /* Poisson: leave out the term that does not depend on the logits */
    est_i64s          metric_classes;   /* multi-label: classes with metrics of their own */
    bool              v1;
} est_head_options;
#define EST_HEAD(...) (&(const est_head_options){ .struct_size = EST_STRUCT_SIZE(est_head_options), __VA_ARGS__ })

/* All are allocated on the heap; options are copied and may be NULL. An option of another kind of head is an error. */
EST_API EST_MUST_CHECK est_status est_binary_head(const est_head_options *options, est_head **out);
EST_API EST_MUST_CHECK est_status est_multi_class_head(int64_t n_classes, const est_head_options *options,
                                                       est_head **out); /* n_classes > 2 */
EST_API EST_MUST_CHECK est_status est_multi_label_head(int64_t n_classes, const est_head_options *options,
                                                       est_head **out);
EST_API EST_MUST_CHECK est_status est_regression_head(int64_t label_dimension, const est_head_options *options,
                                                      est_head **out); /* label_dimension 0: 1 */
EST_API EST_MUST_CHECK est_status est_logistic_regression_head(const est_head_options *options, est_head **out);
EST_API EST_MUST_CHECK est_status est_poisson_head(int64_t label_dimension, const est_head_options *options,
                                                   est_head **out);
typedef struct est_heads {
    est_head *const *data;
    int              n;
} est_heads;

#define EST_HEADS(...) EST_SPAN(est_heads, est_head *const, __VA_ARGS__)

/* Several named heads on one model, each with its part of the logits in order; their losses are summed, weighted
 * (weights: one a head, finite numbers; empty: 1). The heads are shared with it. */
EST_API EST_MUST_CHECK est_status est_multi_head(est_heads heads, est_f64s weights, est_head **out);

EST_API void        est_head_free(est_head *head);         /* NULL is fine */
EST_API const char *est_head_name(const est_head *head);   /* NULL: none */
EST_API int64_t     est_head_logits(const est_head *head); /* number of logits that the model must compute */

typedef struct est_head_finish_options {
    size_t        struct_size; /* filled by EST_HEAD_FINISH */
    est_optimizer optimizer;   /* EST_TRAIN needs this or train_op_fn, not both */
    est_node (*train_op_fn)(est_node loss, void *user);
    void *user;
} est_head_finish_options;
#define EST_HEAD_FINISH(...)                                                                                           \
    (&(const est_head_finish_options){ .struct_size = EST_STRUCT_SIZE(est_head_finish_options), __VA_ARGS__ })

/* Registers with the model everything that follows from logits [batch, est_head_logits]: predictions, and depending on
 * the mode loss, training operation, metrics, summaries and export signatures. Regularization losses are added to the
 * loss. Return its result from model_fn. Logits may have more axes between the two, as [batch, steps, est_head_logits]
 * of a sequence; labels and weights have them as well. */
EST_API EST_MUST_CHECK est_status est_head_finish(const est_head *head, est_model *model, est_mode mode,
                                                  est_node logits, const est_head_finish_options *options);

/* Adds the features a head reads from Examples (label and weight) to a parse spec, as classifier_parse_example_spec and
 * regressor_parse_example_spec do. */
EST_API EST_MUST_CHECK est_status est_head_parse_spec(const est_head *head, est_parse_spec *spec);

#ifdef __cplusplus
}
#endif
#endif
