/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that have a name: Keras' formulas, one value an example. */
#include <math.h>

#include "base/argument.h"
#include "base/log.h"
#include "nn/loss.h"
#include "nn/names.h"

#define EPSILON 1e-7 /* tf.keras.backend.epsilon() */

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* Predictions [batch] as [batch, 1]: every example has a row. */
static est_node rows_of(est_node x)
{
    return est_node_shape(x)->rank == 1 ? est_expand_dims(x, -1) : x;
}

static bool is_built(est_node predictions)
{
    return predictions.graph != NULL && !est_graph_poisoned(predictions.graph);
}

static est_node failed(est_node predictions)
{
    return est_graph_poison(predictions.graph, EST_INVALID_ARGUMENT);
}

static est_node row_mean(est_node x)
{
    return est_reduce_mean(x, EST_I64S(-1), false);
}

static est_node row_sum(est_node x)
{
    return est_reduce_sum(x, EST_I64S(-1), false);
}

static est_node at_least(est_node x, double low)
{
    return est_maximum(x, est_scalar(x.graph, est_node_dtype(x), low));
}

/* A formula of labels and predictions. */
typedef est_node (*formula_fn)(const est_loss *self, est_node labels, est_node predictions);

/* Whether numbers of the predictions' rank have one value where those have several, which Keras broadcasts. */
static bool broadcasts(est_node labels, est_node predictions)
{
    const est_shape *from = est_node_shape(labels), *to = est_node_shape(predictions);
    bool             fits = est_node_dtype(labels) != EST_STRING && from->rank > 0 && from->rank == to->rank;

    for (int i = 0; fits && i < from->rank; i++) {
        fits = from->dim[i] < 0 || to->dim[i] < 0 || from->dim[i] == to->dim[i] || from->dim[i] == 1;
    }
    return fits;
}

static est_node each_of(const est_loss *self, est_node labels, est_node predictions, formula_fn formula)
{
    if (!is_built(predictions)) return predictions;
    predictions = rows_of(predictions);
    if (est_node_dtype(labels) != EST_STRING) labels = est_nn_align_weights(labels, predictions);
    if (!is_built(predictions)) return predictions;
    if (!broadcasts(labels, predictions) && !est_loss_align(&labels, predictions)) return failed(predictions);
    return formula(self, labels, predictions);
}

/* Defines each_<name>, which brings labels to the shape of the predictions, from the formula. */
#define EACH(name, ...)                                                                                                \
    static est_node name##_rows(const est_loss *self, est_node labels, est_node predictions)                           \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        return __VA_ARGS__;                                                                                            \
    }                                                                                                                  \
    static est_node each_##name(const est_loss *self, est_node labels, est_node predictions)                           \
    {                                                                                                                  \
        return each_of(self, labels, predictions, name##_rows);                                                        \
    }

/* --- regression and margins --------------------------------------------------------------------------------------- */

static est_node relative_error(est_node labels, est_node predictions)
{
    return est_abs(est_div(est_sub(labels, predictions), at_least(est_abs(labels), EPSILON)));
}

static est_node log_of_one_more(est_node x)
{
    return est_log(est_shift(at_least(x, EPSILON), 1));
}

/* log(cosh(x)) = x + log(1 + exp(-2 x)) - log 2. */
static est_node log_cosh(est_node x)
{
    return est_shift(est_add(x, est_softplus(est_scale(x, -2))), -M_LN2);
}

/* max(0, 1 + the largest wrong one - the right one). */
static est_node class_margin(est_node labels, est_node predictions)
{
    est_node right = row_sum(est_mul(labels, predictions));
    est_node wrong = est_reduce_max(est_mul(est_shift(est_neg(labels), 1), predictions), EST_I64S(-1), false);

    return est_relu(est_shift(est_sub(wrong, right), 1));
}

static est_node divergence(est_node labels, est_node predictions)
{
    est_node l = est_clip_by_value(labels, EPSILON, 1), p = est_clip_by_value(predictions, EPSILON, 1);

    return row_sum(est_mul(l, est_log(est_div(l, p))));
}

EACH(mean_squared_error, row_mean(est_loss_squared_of(labels, predictions, NULL)))
EACH(mean_absolute_error, row_mean(est_loss_absolute_of(labels, predictions, NULL)))
EACH(mean_absolute_percentage_error, est_scale(row_mean(relative_error(labels, predictions)), 100))
EACH(mean_squared_logarithmic_error,
     row_mean(est_squared_difference(log_of_one_more(predictions), log_of_one_more(labels))))
EACH(huber, row_mean(est_loss_huber_of(labels, predictions, EST_LOSS(.delta = self->a))))
EACH(log_cosh, row_mean(log_cosh(est_sub(predictions, labels))))
EACH(hinge, row_mean(est_loss_hinge_of(labels, predictions, NULL)))
EACH(squared_hinge, row_mean(est_square(est_loss_hinge_of(labels, predictions, NULL))))
EACH(categorical_hinge, class_margin(labels, predictions))
EACH(poisson, row_mean(est_loss_poisson_of(labels, predictions, EST_LOSS(.epsilon = EPSILON))))
EACH(kl_divergence, divergence(labels, predictions))
EACH(cosine_similarity, est_loss_cosine_of(labels, predictions, EST_LOSS(.axis = self->axis)))

/* --- cross entropies ---------------------------------------------------------------------------------------------- */

/* What a crossentropy is computed from: logits if there are any, else probabilities. */
typedef struct xent_input {
    est_node x;
    bool     logits;
} xent_input;

static xent_input xent_input_of(const est_loss *self, est_node predictions, est_node (*logits_of)(est_node))
{
    est_node logits = logits_of(predictions);
    bool     found  = logits.graph != NULL;

    if (found && self->from_logits) {
        est_log_warn("%s has from_logits, but a %s made the output, which is no logits; what it was given is taken",
                     self->name, est_node_op(predictions));
    }
    return (xent_input){ rows_of(found ? logits : predictions), found || self->from_logits };
}

/* Probabilities of what a focal loss weighs: with from_logits of the output itself, whatever made it, as in Keras. */
static est_node focal_p(const est_loss *self, est_node predictions, xent_input in, est_node (*activation)(est_node))
{
    if (self->from_logits) return activation(rows_of(predictions));
    return in.logits ? activation(in.x) : in.x;
}

static est_node softmax(est_node x)
{
    return est_softmax(x, -1);
}

/* Of each element. */
static est_node binary_of(xent_input in, est_node labels, double smoothing)
{
    const est_loss_options *o = EST_LOSS(.label_smoothing = smoothing);

    return in.logits ? est_loss_sigmoid_xent_of(labels, in.x, o) : est_loss_log_xent_of(labels, in.x, o);
}

static est_node each_binary_crossentropy(const est_loss *self, est_node labels, est_node predictions)
{
    xent_input in;

    if (!is_built(predictions)) return predictions;
    in = xent_input_of(self, predictions, est_logits_of_sigmoid);
    if (!est_loss_align(&labels, in.x)) return failed(predictions);
    return row_mean(binary_of(in, labels, self->a));
}

static est_node power(est_node x, double exponent)
{
    return est_pow(x, est_scalar(x.graph, est_node_dtype(x), exponent));
}

/* y x + (1 - y) z */
static est_node mixed(est_node y, est_node x, est_node z)
{
    return est_add(est_mul(y, x), est_mul(est_shift(est_neg(y), 1), z));
}

static est_node each_binary_focal(const est_loss *self, est_node labels, est_node predictions)
{
    xent_input in;
    est_node   p, right, l;

    if (!is_built(predictions)) return predictions;
    in = xent_input_of(self, predictions, est_logits_of_sigmoid);
    if (!est_loss_align(&labels, in.x)) return failed(predictions);
    p     = focal_p(self, predictions, in, est_sigmoid);
    right = mixed(labels, p, est_shift(est_neg(p), 1));
    l     = est_mul(power(est_shift(est_neg(right), 1), est_or(self->a, 2)), binary_of(in, labels, 0));
    if (self->b != 0) {
        double alpha = est_or(self->b, 0);

        l = est_mul(est_shift(est_scale(labels, 2 * alpha - 1), 1 - alpha), l); /* alpha for 1, 1 - alpha for 0 */
    }
    return row_mean(l);
}

/* p with rows that sum to 1, within [epsilon, 1 - epsilon]. */
static est_node distribution(est_node p)
{
    return est_clip_by_value(est_div(p, est_reduce_sum(p, EST_I64S(-1), true)), EPSILON, 1 - EPSILON);
}

/* Labels of classes: one number a class. */
static bool align_classes(est_node *labels, est_node predictions)
{
    int64_t classes = est_node_dim(predictions, -1);
    int     l = est_node_shape(*labels)->rank, p = est_node_shape(predictions)->rank;
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (classes > 1 && l > 0 && p > 0 && (l == p - 1 || (l == p && est_node_dim(*labels, -1) == 1))) {
        (void)est_nn_fail(predictions.graph,
                          "labels %s do not go with predictions %s; if they are class numbers, use "
                          "sparse_categorical_crossentropy",
                          est_shape_text(est_node_shape(*labels), a), est_shape_text(est_node_shape(predictions), b));
        return false;
    }
    return est_loss_align(labels, predictions);
}

static est_node each_categorical_crossentropy(const est_loss *self, est_node labels, est_node predictions)
{
    xent_input in;

    if (!is_built(predictions)) return predictions;
    in = xent_input_of(self, predictions, est_logits_of_softmax);
    if (!align_classes(&labels, in.x)) return failed(predictions);
    if (in.logits) return est_loss_softmax_xent_of(labels, in.x, EST_LOSS(.label_smoothing = self->a));
    labels = est_loss_smoothed_classes(labels, in.x, self->a);
    return est_neg(row_sum(est_mul(labels, est_log(distribution(in.x)))));
}

static est_node each_categorical_focal(const est_loss *self, est_node labels, est_node predictions)
{
    xent_input in;
    est_node   p, l;

    if (!is_built(predictions)) return predictions;
    in = xent_input_of(self, predictions, est_logits_of_softmax);
    if (!align_classes(&labels, in.x)) return failed(predictions);
    p = distribution(focal_p(self, predictions, in, softmax));
    l = est_neg(est_mul(labels, est_log(p)));
    return row_sum(est_scale(est_mul(power(est_shift(est_neg(p), 1), est_or(self->a, 2)), l), est_or(self->b, 0.25)));
}

static est_node each_sparse_crossentropy(const est_loss *self, est_node labels, est_node predictions)
{
    xent_input in;

    if (!is_built(predictions)) return predictions;
    in = xent_input_of(self, predictions, est_logits_of_softmax);
    if (!est_loss_numbers(&labels, in.x)) return failed(predictions);
    if (est_node_dtype(labels) != EST_I32 && est_node_dtype(labels) != EST_I64) labels = est_cast(labels, EST_I64);
    /* log p are logits of p, normalised */
    return est_sparse_softmax_xent(in.logits ? in.x : est_log(est_clip_by_value(in.x, EPSILON, 1 - EPSILON)), labels);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* clang-format off */
static const est_loss_row rows[] = {
    { { "mean_squared_error", { "mse", "MSE" } }, { .each = each_mean_squared_error } },
    { { "mean_absolute_error", { "mae", "MAE" } }, { .each = each_mean_absolute_error } },
    { { "mean_absolute_percentage_error", { "mape", "MAPE" } }, { .each = each_mean_absolute_percentage_error } },
    { { "mean_squared_logarithmic_error", { "msle", "MSLE" } }, { .each = each_mean_squared_logarithmic_error } },
    { { "huber", { "huber_loss" } }, { .each = each_huber, .a = 1 } },
    { { "log_cosh", { "logcosh" } }, { .each = each_log_cosh } },
    { { "binary_crossentropy", { "bce", "BCE" } }, { .each = each_binary_crossentropy } },
    { { "binary_focal_crossentropy" }, { .each = each_binary_focal } },
    { { "categorical_crossentropy" }, { .each = each_categorical_crossentropy } },
    { { "categorical_focal_crossentropy" }, { .each = each_categorical_focal } },
    { { "sparse_categorical_crossentropy" }, { .each = each_sparse_crossentropy } },
    { { "hinge" }, { .each = each_hinge } },
    { { "squared_hinge" }, { .each = each_squared_hinge } },
    { { "categorical_hinge" }, { .each = each_categorical_hinge } },
    { { "poisson" }, { .each = each_poisson } },
    { { "kl_divergence", { "kld", "KLD", "kullback_leibler_divergence" } }, { .each = each_kl_divergence } },
    { { "cosine_similarity" }, { .each = each_cosine_similarity } },
};
/* clang-format on */

const est_name_table est_loss_table = EST_NAME_TABLE(rows);

est_status est_loss_by_name(const char *name, est_loss *out)
{
    const est_loss_row *row;

    EST_REQUIRE(name);
    EST_REQUIRE(out);
    row = est_name_find(est_loss_table, name, NULL);
    if (row == NULL) return est_name_unknown("loss", name, &est_loss_table, 1);
    *out      = row->loss;
    out->name = row->names.name;
    return EST_OK;
}

est_loss est_loss_value_binary_crossentropy(bool from_logits, double label_smoothing)
{
    return (est_loss){ .name        = "binary_crossentropy",
                       .each        = each_binary_crossentropy,
                       .a           = label_smoothing,
                       .from_logits = from_logits };
}

est_loss est_loss_value_categorical_crossentropy(bool from_logits, double label_smoothing)
{
    return (est_loss){ .name        = "categorical_crossentropy",
                       .each        = each_categorical_crossentropy,
                       .a           = label_smoothing,
                       .from_logits = from_logits };
}

est_loss est_loss_value_sparse_categorical_crossentropy(bool from_logits)
{
    return (est_loss){ .name        = "sparse_categorical_crossentropy",
                       .each        = each_sparse_crossentropy,
                       .from_logits = from_logits };
}

est_loss est_loss_value_binary_focal_crossentropy(bool from_logits, double gamma, double alpha)
{
    return (est_loss){ .name        = "binary_focal_crossentropy",
                       .each        = each_binary_focal,
                       .a           = gamma,
                       .b           = alpha,
                       .from_logits = from_logits };
}

est_loss est_loss_value_categorical_focal_crossentropy(bool from_logits, double gamma, double alpha)
{
    return (est_loss){ .name        = "categorical_focal_crossentropy",
                       .each        = each_categorical_focal,
                       .a           = gamma,
                       .b           = alpha,
                       .from_logits = from_logits };
}

est_loss est_loss_value_huber(double delta)
{
    return (est_loss){ .name = "huber", .each = each_huber, .a = delta };
}
