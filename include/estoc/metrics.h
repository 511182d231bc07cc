/* SPDX-License-Identifier: Apache-2.0
 *
 * Streaming metrics: state in variables, an update run with every batch, a value computed from the state.
 *
 * Fetching the value in the same run as the update gives the value before it. State is float32 and starts at 0.
 * Weights broadcast to the values; weights of one rank less get a last axis of size 1. A division by 0 gives 0 unless
 * noted. Names of variables are those of tf.compat.v1.metrics ("accuracy/total"), and like there they are local: each
 * session has its own, and no checkpoint keeps them.
 *
 * The state of a metric with .shared is global variables, as that of a tf.keras metric made under
 * ParameterServerStrategy: a session over a remote has it at a ps task, where all workers add to it and any program of
 * the job reads or resets it, and checkpoints keep it. All states of a metric are at one ps task, unless the program
 * pins those of its own metric apart: a lost task then takes all of them back to the checkpoint. A ps task adds each
 * update once. Run the reset while no update is under way. In a step of sync_replicas the mean of the workers'
 * increments is added, which leaves ratios as they are. With multi_worker_mirrored every worker has a copy and adds
 * only to that: use local states there. The scope of a strategy does not change the default.
 *
 * Threading: one thread at a time per graph. */
#ifndef ESTOC_METRICS_H
#define ESTOC_METRICS_H

#include "estoc/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_metric {
    est_node value;
    est_node update;      /* run as a target with every batch */
    est_node reset;       /* run as a target before the first batch */
    uint64_t reserved[4]; /* zeros: room for members to come */
} est_metric;

typedef enum est_curve { EST_ROC = 0, EST_PR } est_curve;
/* How the area under a curve is summed: 0 is the interpolation of v2, exact for PR; the others are v1's. */
typedef enum est_summation {
    EST_SUM_INTERPOLATION = 0,
    EST_SUM_TRAPEZOID,
    EST_SUM_CAREFUL_INTERPOLATION,
    EST_SUM_MINORING,
    EST_SUM_MAJORING
} est_summation;

typedef struct est_metric_options {
    size_t        struct_size;    /* filled by EST_METRIC */
    const char   *name;           /* NULL: the metric's */
    est_node      weights;        /* EST_NO_NODE: 1 */
    int           num_thresholds; /* auc: 0: 200 */
    est_curve     curve;          /* auc */
    est_summation summation;      /* auc */
    est_f64s      thresholds;     /* auc: numbers in (0, 1), in place of num_thresholds; copied */
    bool          v1;             /* thresholds: accuracy with >=, precision and recall with 1e-7 in the divisor */
    bool          shared;         /* the state is one for all sessions of the job, and in checkpoints; see above */
} est_metric_options;

#define EST_METRIC(...) (&(const est_metric_options){ .struct_size = EST_STRUCT_SIZE(est_metric_options), __VA_ARGS__ })

/* sum(w x) / sum(w). */
EST_API est_metric est_metric_mean(est_node values, const est_metric_options *options);
/* The part of predictions equal to labels, for classes; probabilities want est_metric_accuracy_at_threshold(). */
EST_API est_metric est_metric_accuracy(est_node labels, est_node predictions, const est_metric_options *options);
/* tp / (tp + fp) and tp / (tp + fn). Integers and bools are true when not 0, floats when above 0.5. */
EST_API est_metric est_metric_precision(est_node labels, est_node predictions, const est_metric_options *options);
EST_API est_metric est_metric_recall(est_node labels, est_node predictions, const est_metric_options *options);
/* Means of |p - l|, of (p - l)^2, and the root of the latter. */
EST_API est_metric est_metric_mean_absolute_error(est_node labels, est_node predictions,
                                                  const est_metric_options *options);
EST_API est_metric est_metric_mean_squared_error(est_node labels, est_node predictions,
                                                 const est_metric_options *options);
EST_API est_metric est_metric_root_mean_squared_error(est_node labels, est_node predictions,
                                                      const est_metric_options *options);
/* Mean of |p - l| / normalizer, 0 where the normalizer is 0. */
EST_API est_metric est_metric_mean_relative_error(est_node labels, est_node predictions, est_node normalizer,
                                                  const est_metric_options *options);
/* 1 - mean of sum(p l) over the axis; both should have length 1 along it. */
EST_API est_metric est_metric_mean_cosine_distance(est_node labels, est_node predictions, int axis,
                                                   const est_metric_options *options);
/* Mean over all classes of the part of each that was found; classes that never occur count as 0. */
EST_API est_metric est_metric_mean_per_class_accuracy(est_node labels, est_node predictions, int64_t n_classes,
                                                      const est_metric_options *options);
/* Mean over the classes that occur of tp / (tp + fp + fn). */
EST_API est_metric est_metric_mean_iou(est_node labels, est_node predictions, int64_t n_classes,
                                       const est_metric_options *options);
/* Of labels and probabilities, a prediction being true above the threshold. */
EST_API est_metric est_metric_accuracy_at_threshold(est_node labels, est_node predictions, double threshold,
                                                    const est_metric_options *options);
EST_API est_metric est_metric_precision_at_threshold(est_node labels, est_node predictions, double threshold,
                                                     const est_metric_options *options);
EST_API est_metric est_metric_recall_at_threshold(est_node labels, est_node predictions, double threshold,
                                                  const est_metric_options *options);
/* The area under the ROC or the precision-recall curve. Labels are positive when not 0. */
/* Predictions are probabilities in [0, 1]: est_sigmoid() of logits, not logits. */
EST_API est_metric est_metric_auc(est_node labels, est_node predictions, const est_metric_options *options);

/* --- metrics of your own ------------------------------------------------------------------------------------------ */

/* The state of a metric: a local variable called `name` in the current scope, of float32, float64 or int64, that starts
 * at 0. It belongs to one evaluation: each starts at 0, and checkpoints do not hold it. Returns the handle, for
 * est_assign_add(), est_scatter_add() and est_read_variable(). */
EST_API est_node est_metric_state(est_graph *graph, const char *name, est_dtype dtype, est_shape shape);
/* The same as a global variable, which all sessions of a job share (.shared of est_metric_options). */
EST_API est_node est_metric_shared_state(est_graph *graph, const char *name, est_dtype dtype, est_shape shape);

/* A metric of such states, for est_model_metric() or a loop of your own: `updates` change them with every batch,
 * `value`, one number, is computed from them with est_read_variable().
 *
 *     est_node hits  = est_metric_state(graph, "top3/hits", EST_F64, EST_SHAPE_SCALAR);
 *     est_node count = est_metric_state(graph, "top3/count", EST_F64, EST_SHAPE_SCALAR);
 *
 *     est_model_metric(m, "top3", est_metric_custom(
 *         EST_NODES(hits, count),
 *         EST_NODES(est_assign_add(hits, batch_hits), est_assign_add(count, batch_count)),
 *         est_div_no_nan(est_read_variable(hits), est_read_variable(count))));
 *
 * Replicas and workers of a distributed evaluation sum their states, as in tf.distribute (VariableAggregation.SUM). So
 * the state over all examples must be the sum of the states over parts of them: each update an est_assign_add(),
 * est_assign_sub(), est_scatter_add() or est_scatter_sub(). With any other update the metric works only with one
 * replica, and is an error with several. */
EST_API est_metric est_metric_custom(est_nodes states, est_nodes updates, est_node value);

/* --- without a graph ---------------------------------------------------------------------------------------------- */

/* The score and the label of a row. */
typedef struct est_scored {
    float score;
    float weight; /* weight of the row; usually 1 */
    bool  positive;
} est_scored;

/* The area under the ROC curve without thresholds: the probability that a positive row has a higher score than a
 * negative one, over all pairs; pairs of equal scores count half. Sorts the rows. NaN: only one kind of rows.
 * est_metric_auc, which stores no rows, approximates it. */
EST_API double est_exact_auc(est_scored *rows, size_t n);

/* est_metric_accuracy without options. */
EST_API est_metric est_accuracy(est_node labels, est_node predictions);

#ifdef __cplusplus
}
#endif
#endif
