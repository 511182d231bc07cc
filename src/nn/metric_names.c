/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics that have a name. Most are Keras' MeanMetricWrapper: the mean over examples of a function of labels and
 * predictions. */
#include "base/argument.h"
#include "nn/loss.h"
#include "nn/metric.h"
#include "nn/names.h"

#define TOP_K 5

/* A row of the table; the spec has no name, which is that of the row. */
typedef struct metric_row {
    est_name        names;
    est_metric_spec spec;
} metric_row;

#define OPTIONS(self, w) EST_METRIC(.name = (self)->name, .weights = (w), .shared = (self)->shared)

static bool is_built(est_node predictions)
{
    return predictions.graph != NULL && !est_graph_poisoned(predictions.graph);
}

static est_node failed(est_node predictions)
{
    return est_graph_poison(predictions.graph, EST_INVALID_ARGUMENT);
}

/* --- means -------------------------------------------------------------------------------------------------------- */

/* user: the loss. */
static est_metric mean_of_loss(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    const est_loss *loss = self->user;

    if (!is_built(predictions)) return est_metric_none(predictions);
    if (loss == NULL || loss->each == NULL) {
        return est_metric_none(est_nn_fail(predictions.graph, "the metric '%s' has no loss", self->name));
    }
    return est_metric_mean(loss->each(loss, labels, predictions), OPTIONS(self, weights));
}

/* Class numbers without a last axis of 1. */
static est_node numbers_of(est_node labels, est_node predictions)
{
    return est_loss_numbers(&labels, predictions) ? labels : failed(predictions);
}

static est_node classes_match(est_node numbers, est_node predictions)
{
    return est_equal(numbers, est_cast(est_argmax(predictions, -1), est_node_dtype(numbers)));
}

/* Whether the class, an int64, is among the k first of its row: [batch, ...] without the last axis. */
static est_node is_in_top_k(est_node numbers, est_node predictions, int64_t k)
{
    int64_t  classes = est_node_dim(predictions, -1);
    est_node hit;

    if (est_node_shape(predictions)->rank == 2) return est_in_top_k(predictions, numbers, k);
    hit = est_in_top_k(est_reshape(predictions, EST_I64S(-1, classes)), est_reshape(numbers, EST_I64S(-1)), k);
    return est_reshape_to(hit, est_shape_of(numbers));
}

/* The values of metrics that are means of a function, [batch, ...] without the last axis; predictions float32. */
typedef est_node (*values_fn)(const est_metric_spec *self, est_node labels, est_node predictions);

static est_node binary_values(const est_metric_spec *self, est_node labels, est_node predictions)
{
    est_node above;

    labels = est_nn_align_weights(labels, predictions);
    above  = est_cast(est_greater(predictions, est_scalar(predictions.graph, EST_F32, self->a)), EST_F32);
    return est_reduce_mean(est_cast(est_equal(labels, above), EST_F32), EST_I64S(-1), false);
}

static est_node categorical_values(const est_metric_spec *self, est_node labels, est_node predictions)
{
    (void)self;
    return classes_match(est_argmax(est_metric_f32(labels), -1), predictions);
}

static est_node sparse_values(const est_metric_spec *self, est_node labels, est_node predictions)
{
    (void)self;
    return classes_match(numbers_of(labels, predictions), predictions);
}

static est_node top_k_values(const est_metric_spec *self, est_node labels, est_node predictions)
{
    return is_in_top_k(est_argmax(est_metric_f32(labels), -1), predictions, self->n);
}

static est_node sparse_top_k_values(const est_metric_spec *self, est_node labels, est_node predictions)
{
    return is_in_top_k(est_cast(numbers_of(labels, predictions), EST_I64), predictions, self->n);
}

static est_metric mean_of(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights,
                          values_fn values)
{
    if (!is_built(predictions)) return est_metric_none(predictions);
    predictions = est_metric_f32(predictions);
    if (est_node_shape(predictions)->rank == 1) predictions = est_expand_dims(predictions, -1);
    return est_metric_mean(values(self, labels, predictions), OPTIONS(self, weights));
}

/* Defines make_<name>: the mean of <name>_values. */
#define MEAN_OF(name)                                                                                                  \
    static est_metric make_##name(const est_metric_spec *self, est_node labels, est_node predictions,                  \
                                  est_node weights)                                                                    \
    {                                                                                                                  \
        return mean_of(self, labels, predictions, weights, name##_values);                                             \
    }
MEAN_OF(binary)
MEAN_OF(categorical)
MEAN_OF(sparse)
MEAN_OF(top_k)
MEAN_OF(sparse_top_k)

/* The mean of a loss that has another name than the metric, or another sign. */
static est_metric mean_of_named(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights,
                                const char *name, bool negated)
{
    est_loss loss;
    est_node each;

    if (!is_built(predictions)) return est_metric_none(predictions);
    if (est_loss_by_name(name, &loss) != EST_OK) return est_metric_none(failed(predictions));
    loss.from_logits = self->from_logits;
    each             = loss.each(&loss, labels, predictions);
    return est_metric_mean(negated ? est_neg(each) : each, OPTIONS(self, weights));
}

static est_metric make_cosine(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return mean_of_named(self, labels, predictions, weights, "cosine_similarity", true);
}

/* Keras' classes of the next two are logged under other names than their functions. */
static est_metric make_divergence(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return mean_of_named(self, labels, predictions, weights, "kl_divergence", false);
}

static est_metric make_log_cosh(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return mean_of_named(self, labels, predictions, weights, "log_cosh", false);
}

/* --- by the shapes ------------------------------------------------------------------------------------------------ */

typedef enum label_kind { BINARY, SPARSE, CATEGORICAL } label_kind;

/* The rule of Keras' compile. Predictions [batch] are binary here; Keras takes them for one row of classes. */
static label_kind kind_of(est_node labels, est_node predictions)
{
    int l = est_node_shape(labels)->rank, p = est_node_shape(predictions)->rank;

    if (p <= 1 || est_node_dim(predictions, -1) == 1) return BINARY;
    return l < p || est_node_dim(labels, -1) == 1 ? SPARSE : CATEGORICAL;
}

static est_metric make_accuracy(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    static const values_fn by_kind[] = { binary_values, sparse_values, categorical_values };

    if (!is_built(predictions)) return est_metric_none(predictions);
    return mean_of(self, labels, predictions, weights, by_kind[kind_of(labels, predictions)]);
}

static est_metric make_crossentropy(const est_metric_spec *self, est_node labels, est_node predictions,
                                    est_node weights)
{
    static const char *const by_kind[] = { "binary_crossentropy", "sparse_categorical_crossentropy",
                                           "categorical_crossentropy" };

    if (!is_built(predictions)) return est_metric_none(predictions);
    return mean_of_named(self, labels, predictions, weights, by_kind[kind_of(labels, predictions)], false);
}

/* --- counts and curves -------------------------------------------------------------------------------------------- */

static est_metric make_precision(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return est_metric_precision_at_threshold(labels, predictions, self->a, OPTIONS(self, weights));
}

static est_metric make_recall(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return est_metric_recall_at_threshold(labels, predictions, self->a, OPTIONS(self, weights));
}

/* Adds the weights of those for which both are 1: labels or their opposite, predictions or theirs. */
static est_metric make_count(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights,
                             bool positive_label, bool positive_prediction)
{
    est_metric_build m;
    est_node         both;

    if (!est_metric_begin(&m, predictions, self->name, OPTIONS(self, weights))) return est_metric_none(predictions);
    est_metric_align(&labels, &predictions);
    labels      = est_metric_truth(labels);
    predictions = est_metric_f32(predictions);
    predictions = est_cast(est_greater(predictions, est_scalar(m.graph, EST_F32, self->a)), EST_F32);
    both        = est_mul(positive_label ? labels : est_shift(est_neg(labels), 1),
                   positive_prediction ? predictions : est_shift(est_neg(predictions), 1));
    return est_metric_end(&m, est_metric_sum(&m, "accumulator", est_sum(est_mul(both, est_metric_weights(&m, both)))));
}

#define COUNT(name, positive_label, positive_prediction)                                                               \
    static est_metric make_##name(const est_metric_spec *self, est_node labels, est_node predictions,                  \
                                  est_node weights)                                                                    \
    {                                                                                                                  \
        return make_count(self, labels, predictions, weights, positive_label, positive_prediction);                    \
    }
COUNT(true_positives, true, true)
COUNT(true_negatives, false, false)
COUNT(false_positives, false, true)
COUNT(false_negatives, true, false)

/* a: the curve. */
static est_metric make_auc(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    return est_metric_auc(labels, predictions,
                          EST_METRIC(.name = self->name, .weights = weights, .shared = self->shared,
                                     .num_thresholds = (int)self->n, .curve = self->a != 0 ? EST_PR : EST_ROC));
}

static est_metric make_root_mean_squared_error(const est_metric_spec *self, est_node labels, est_node predictions,
                                               est_node weights)
{
    return est_metric_root_mean_squared_error(labels, predictions, OPTIONS(self, weights));
}

/* --- of values ---------------------------------------------------------------------------------------------------- */

static est_metric make_mean(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    (void)labels;
    return est_metric_mean(predictions, OPTIONS(self, weights));
}

static est_metric make_sum(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    est_metric_build m;
    est_node         values;

    (void)labels;
    if (!est_metric_begin(&m, predictions, self->name, OPTIONS(self, weights))) return est_metric_none(predictions);
    values = est_metric_f32(predictions);
    return est_metric_end(&m, est_metric_sum(&m, "total", est_sum(est_mul(values, est_metric_weights(&m, values)))));
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const metric_row rows[] = {
    { { "accuracy", { "acc", "Accuracy", "ACC" } }, { .make = make_accuracy, .a = 0.5 } },
    { { "crossentropy", { "ce" } }, { .make = make_crossentropy } },
    { { "binary_accuracy" }, { .make = make_binary, .a = 0.5 } },
    { { "categorical_accuracy" }, { .make = make_categorical } },
    { { "sparse_categorical_accuracy" }, { .make = make_sparse } },
    { { "top_k_categorical_accuracy" }, { .make = make_top_k, .n = TOP_K } },
    { { "sparse_top_k_categorical_accuracy" }, { .make = make_sparse_top_k, .n = TOP_K } },
    { { "precision" }, { .make = make_precision, .a = 0.5 } },
    { { "recall" }, { .make = make_recall, .a = 0.5 } },
    { { "auc" }, { .make = make_auc } },
    { { "true_positives" }, { .make = make_true_positives, .a = 0.5 } },
    { { "true_negatives" }, { .make = make_true_negatives, .a = 0.5 } },
    { { "false_positives" }, { .make = make_false_positives, .a = 0.5 } },
    { { "false_negatives" }, { .make = make_false_negatives, .a = 0.5 } },
    { { "root_mean_squared_error", { "rmse" } }, { .make = make_root_mean_squared_error } },
    { { "cosine_similarity" }, { .make = make_cosine } },
    { { "logcosh", { "log_cosh", "log_cosh_error" } }, { .make = make_log_cosh } },
    { { "kullback_leibler_divergence", { "kl_divergence", "kld", "KLD" } }, { .make = make_divergence } },
    { { "mean" }, { .make = make_mean } },
    { { "sum" }, { .make = make_sum } },
};
/* clang-format on */

est_status est_metric_by_name(const char *name, est_metric_spec *out)
{
    const est_name_table own       = EST_NAME_TABLE(rows);
    const est_name_table tables[2] = { own, est_loss_table };
    const char          *spelled   = NULL;
    const metric_row    *row;
    const est_loss_row  *loss;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(tables[0], name, &spelled);
    if (row != NULL) {
        *out      = row->spec;
        out->name = spelled;
        return EST_OK;
    }
    loss = est_name_find(tables[1], name, &spelled);
    if (loss == NULL) return est_name_unknown("metric", name, tables, 2);
    *out      = est_metric_value_of_loss(&loss->loss);
    out->name = spelled;
    return EST_OK;
}

/* --- values with options ------------------------------------------------------------------------------------------ */

est_metric_spec est_metric_value_binary_accuracy(double threshold)
{
    return (est_metric_spec){ .name = "binary_accuracy", .make = make_binary, .a = est_or(threshold, 0.5) };
}

est_metric_spec est_metric_value_precision(double threshold)
{
    return (est_metric_spec){ .name = "precision", .make = make_precision, .a = est_or(threshold, 0.5) };
}

est_metric_spec est_metric_value_recall(double threshold)
{
    return (est_metric_spec){ .name = "recall", .make = make_recall, .a = est_or(threshold, 0.5) };
}

est_metric_spec est_metric_value_top_k_categorical_accuracy(int64_t k)
{
    return (est_metric_spec){ .name = "top_k_categorical_accuracy",
                              .make = make_top_k,
                              .n    = (int64_t)est_or((double)k, TOP_K) };
}

est_metric_spec est_metric_value_sparse_top_k_categorical_accuracy(int64_t k)
{
    return (est_metric_spec){ .name = "sparse_top_k_categorical_accuracy",
                              .make = make_sparse_top_k,
                              .n    = (int64_t)est_or((double)k, TOP_K) };
}

est_metric_spec est_metric_value_auc(est_curve curve, int64_t num_thresholds)
{
    return (est_metric_spec){ .name = "auc", .make = make_auc, .a = curve == EST_PR, .n = num_thresholds };
}

est_metric_spec est_metric_value_of_loss(const est_loss *loss)
{
    return (est_metric_spec){ .name = loss != NULL && loss->name != NULL ? loss->name : "loss",
                              .make = mean_of_loss,
                              .user = loss };
}
