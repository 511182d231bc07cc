/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema of the model of a job: optimizers and their learning rates, heads, canned models. */
#include "job_schema.h"

#include "nn/names.h"

/* clang-format off */

/* --- optimizers --------------------------------------------------------------------------------------------------- */

#define SCHEDULE(name, ...) static est_schedule name(const job_rate *r) { return __VA_ARGS__; }

SCHEDULE(exponential_decay, est_exponential_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase))
SCHEDULE(natural_exp_decay, est_natural_exp_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase))
SCHEDULE(inverse_time_decay, est_inverse_time_decay(r->rate, r->decay_steps, r->decay_rate, r->staircase))
SCHEDULE(polynomial_decay, est_polynomial_decay(r->rate, r->decay_steps, r->end, r->power, r->cycle))
SCHEDULE(piecewise_constant, est_piecewise_constant(r->boundaries, r->values))
SCHEDULE(cosine_decay, est_cosine_decay(r->rate, r->decay_steps, r->alpha))
SCHEDULE(cosine_decay_restarts, est_cosine_decay_restarts(r->rate, r->decay_steps, r->t_mul, r->m_mul, r->alpha))
SCHEDULE(warmup, est_constant_rate(r->rate))

static const job_word rate_types[] = {
    { "constant" },
    { "exponential_decay", .make.schedule = exponential_decay },
    { "natural_exp_decay", .make.schedule = natural_exp_decay },
    { "inverse_time_decay", .make.schedule = inverse_time_decay },
    { "polynomial_decay", .make.schedule = polynomial_decay },
    { "piecewise_constant", .make.schedule = piecewise_constant },
    { "cosine_decay", .make.schedule = cosine_decay },
    { "cosine_decay_restarts", .make.schedule = cosine_decay_restarts },
    { "warmup", .make.schedule = warmup },
    { NULL }
};

#define RECORD     job_rate
#define POWERS     "exponential_decay natural_exp_decay inverse_time_decay"
#define POLYNOMIAL "polynomial_decay"
#define PIECEWISE  "piecewise_constant"
#define RESTARTS   "cosine_decay_restarts"
#define COSINES    "cosine_decay " RESTARTS
#define DECAYS     POWERS " " COSINES " " POLYNOMIAL

static const job_field rate_fields[] = {
    { "type", JOB_WORD, AT(type), "how the rate changes with the steps of training", "constant", .words = rate_types },
    { "learning_rate", JOB_NUMBER, AT(rate), "the rate, or the initial rate", .only = "!" PIECEWISE,
      .required = "!" PIECEWISE, .above = true },
    { "decay_steps", JOB_INT, AT(decay_steps), "steps of a decay, or of the first one", .only = DECAYS,
      .required = DECAYS, .min = 1 },
    { "decay_rate", JOB_NUMBER, AT(decay_rate), "how much the rate falls in decay_steps", .only = POWERS,
      .required = POWERS, .above = true },
    { "staircase", JOB_BOOL, AT(staircase), "the rate falls at once after every decay_steps", "false", .only = POWERS },
    { "end", JOB_NUMBER, AT(end), "the final rate", "0.0001", .only = POLYNOMIAL, .max = 1e9 },
    { "power", JOB_NUMBER, AT(power), "of the polynomial", "1", .only = POLYNOMIAL, .above = true },
    { "cycle", JOB_BOOL, AT(cycle), "a longer decay starts when one has ended", "false", .only = POLYNOMIAL },
    { "boundaries", JOB_INTS, AT(boundaries), "steps, ascending; a value holds up to and including its boundary",
      .only = PIECEWISE, .required = PIECEWISE },
    { "values", JOB_NUMBERS, AT(values), "the rates, one more than boundaries", .only = PIECEWISE,
      .required = PIECEWISE, .above = true },
    { "alpha", JOB_NUMBER, AT(alpha), "the smallest rate, as a fraction of the initial rate", "0", .only = COSINES,
      .max = 1 },
    { "t_mul", JOB_NUMBER, AT(t_mul), "factor by which periods grow", "2", .only = RESTARTS, .above = true },
    { "m_mul", JOB_NUMBER, AT(m_mul), "factor by which peaks shrink", "1", .only = RESTARTS, .above = true },
    { "warmup_steps", JOB_INT, AT(warmup_steps), "steps of a linear rise before the schedule", .only = "!constant",
      .required = "warmup", .min = 1 },
    { "warmup_start", JOB_NUMBER, AT(warmup_start), "the rate at which the rise begins", "0", .only = "!constant",
      .max = 1e9 },
    { NULL }
};

static const job_record rate = { "a learning rate", sizeof(job_rate), rate_fields, "learning_rate" };

#define OPTIMIZER(name, ...) \
    static est_optimizer name(double rate0, const job_optimizer *o) { (void)o; return __VA_ARGS__; }

OPTIMIZER(adadelta, est_adadelta(rate0, &o->adadelta))
OPTIMIZER(adagrad, est_adagrad(rate0, &o->adagrad))
OPTIMIZER(adam, est_adam(rate0, &o->adam))
OPTIMIZER(adamax, est_adamax(rate0, &o->adamax))
OPTIMIZER(nadam, est_nadam(rate0, &o->nadam))
OPTIMIZER(lion, est_lion(rate0, &o->lion))
OPTIMIZER(ftrl, est_ftrl(rate0, &o->ftrl))
OPTIMIZER(momentum, est_momentum(rate0, &o->momentum))
OPTIMIZER(rms_prop, est_rms_prop(rate0, &o->rms_prop))
OPTIMIZER(sgd, est_sgd(rate0))

static est_optimizer lazy_adam(double rate0, const job_optimizer *o)
{
    est_adam_options lazy = o->adam;

    lazy.lazy = true;
    return est_adam(rate0, &lazy);
}

/* Value 1: models have a learning rate of their own for it (est_canned_optimizer.name). */
static const job_word optimizer_names[] = {
    { "Adagrad", 1, { adagrad } },
    { "Adam", 1, { adam } },
    { "Ftrl", 1, { ftrl } },
    { "RMSProp", 1, { rms_prop } },
    { "SGD", 1, { sgd } },
    { "Momentum", 0, { momentum } },
    { "Adadelta", 0, { adadelta } },
    { "LazyAdam", 0, { lazy_adam } },
    { "Adamax", 0, { adamax } },
    { "Nadam", 0, { nadam } },
    { "Lion", 0, { lion } },
    { NULL }
};

#undef RECORD
#define RECORD job_optimizer
#define ADAMS  "Adam LazyAdam"

static const job_field optimizer_fields[] = {
    { "name", JOB_WORD, AT(name), "the optimizer", .required = ALWAYS, .words = optimizer_names },
    { "learning_rate", JOB_RECORD, AT(learning_rate), "a number, or a schedule; absent: that of the model, for a plain "
      "Adagrad, Adam, Ftrl, RMSProp or SGD; required with any other key", .record = &rate },
    { "initial_accumulator", JOB_NUMBER, AT(adagrad.initial_accumulator), "initial value of the accumulators of "
      "squared gradients; absent: 0.1", .only = "Adagrad", .above = true },
    { "initial_accumulator", JOB_NUMBER, AT(ftrl.initial_accumulator), .only = "Ftrl", .above = true },
    { "l1", JOB_NUMBER, AT(ftrl.l1), "strength of L1 regularization; absent: 0", .only = "Ftrl", .max = 1e9 },
    { "l2", JOB_NUMBER, AT(ftrl.l2), "strength of L2 regularization; absent: 0", .only = "Ftrl", .max = 1e9 },
    { "l2_shrinkage", JOB_NUMBER, AT(ftrl.l2_shrinkage), "L2 as a penalty on the size of the weights; absent: 0",
      .only = "Ftrl", .max = 1e9 },
    { "learning_rate_power", JOB_NUMBER, AT(ftrl.learning_rate_power), "how the rate falls, 0 or less; absent: -0.5",
      .only = "Ftrl", .zero_is_off = true },
    { "beta", JOB_NUMBER, AT(ftrl.beta), "adds beta / (2 learning_rate) to l2; absent: 0", .only = "Ftrl", .max = 1e9 },
    { "beta1", JOB_NUMBER, AT(adam.beta1), "decay of the mean of gradients; absent: 0.9", .only = ADAMS, .max = 1,
      .zero_is_off = true },
    { "beta1", JOB_NUMBER, AT(adamax.beta1), .only = "Adamax", .max = 1, .zero_is_off = true },
    { "beta1", JOB_NUMBER, AT(nadam.beta1), .only = "Nadam", .max = 1, .zero_is_off = true },
    { "beta1", JOB_NUMBER, AT(lion.beta1), .only = "Lion", .max = 1, .zero_is_off = true },
    { "beta2", JOB_NUMBER, AT(adam.beta2), "decay of the mean of squared gradients, with Lion of its momentum; absent: "
      "0.999, Lion 0.99", .only = ADAMS, .max = 1, .zero_is_off = true },
    { "beta2", JOB_NUMBER, AT(adamax.beta2), .only = "Adamax", .max = 1, .zero_is_off = true },
    { "beta2", JOB_NUMBER, AT(nadam.beta2), .only = "Nadam", .max = 1, .zero_is_off = true },
    { "beta2", JOB_NUMBER, AT(lion.beta2), .only = "Lion", .max = 1, .zero_is_off = true },
    { "epsilon", JOB_NUMBER, AT(adam.epsilon), "added to denominators; absent: 1e-7; with v1 1e-8, RMSProp 1e-10",
      .only = ADAMS, .above = true },
    { "epsilon", JOB_NUMBER, AT(adagrad.epsilon), .only = "Adagrad", .above = true },
    { "epsilon", JOB_NUMBER, AT(rms_prop.epsilon), .only = "RMSProp", .above = true },
    { "epsilon", JOB_NUMBER, AT(adadelta.epsilon), .only = "Adadelta", .above = true },
    { "epsilon", JOB_NUMBER, AT(adamax.epsilon), .only = "Adamax", .above = true },
    { "epsilon", JOB_NUMBER, AT(nadam.epsilon), .only = "Nadam", .above = true },
    { "decay", JOB_NUMBER, AT(rms_prop.decay), "of the mean of squared gradients; RMSProp absent: 0.9; Adadelta (rho) "
      "absent: 0.95", .only = "RMSProp", .max = 1, .zero_is_off = true },
    { "decay", JOB_NUMBER, AT(adadelta.rho), .only = "Adadelta", .max = 1, .zero_is_off = true },
    { "momentum", JOB_NUMBER, AT(momentum.momentum), "Momentum absent: 0.9; RMSProp absent: 0", .only = "Momentum",
      .max = 1, .zero_is_off = true },
    { "momentum", JOB_NUMBER, AT(rms_prop.momentum), .only = "RMSProp", .max = 1 },
    { "nesterov", JOB_BOOL, AT(momentum.nesterov), "Nesterov's momentum", "false", .only = "Momentum" },
    { "centered", JOB_BOOL, AT(rms_prop.centered), "divides by the variance instead of the mean square", "false",
      .only = "RMSProp" },
    { NULL }
};

static const job_record optimizer = {
    "an optimizer", sizeof(job_optimizer), optimizer_fields, "name",
    &(const job_optimizer){ .adadelta.struct_size = EST_STRUCT_SIZE(est_adadelta_options),
                            .adagrad.struct_size  = EST_STRUCT_SIZE(est_adagrad_options),
                            .adam.struct_size     = EST_STRUCT_SIZE(est_adam_options),
                            .adamax.struct_size   = EST_STRUCT_SIZE(est_adamax_options),
                            .lion.struct_size     = EST_STRUCT_SIZE(est_lion_options),
                            .ftrl.struct_size     = EST_STRUCT_SIZE(est_ftrl_options),
                            .momentum.struct_size = EST_STRUCT_SIZE(est_momentum_options),
                            .nadam.struct_size    = EST_STRUCT_SIZE(est_nadam_options),
                            .rms_prop.struct_size = EST_STRUCT_SIZE(est_rms_prop_options) }
};

/* --- heads -------------------------------------------------------------------------------------------------------- */

static const job_word *activations(void)
{
    static job_word           words[32]; /* the last stays { NULL } */
    const est_activation_row *rows = est_activation_table.rows;

    for (int i = 0; i < est_activation_table.n && i < 31; i++) {
        words[i] = (job_word){ rows[i].names.name, .make.activation = rows[i].function };
    }
    return words;
}

static const job_word reductions[] = {
    { "sum_over_batch_size", EST_LOSS_SUM_OVER_BATCH_SIZE }, { "sum", EST_LOSS_SUM }, { "mean", EST_LOSS_MEAN },
    { "sum_over_nonzero_weights", EST_LOSS_SUM_OVER_NONZERO_WEIGHTS }, { NULL }
};

static est_status binary_head(int64_t n, const est_head_options *options, est_head **out)
{
    (void)n;
    return est_binary_head(options, out);
}

static est_status logistic_head(int64_t n, const est_head_options *options, est_head **out)
{
    (void)n;
    return est_logistic_regression_head(options, out);
}

static const job_word head_types[] = {
    { "multi", JOB_MULTI }, /* the first: a part of a head has no parts */
    { "binary", JOB_BINARY, { .head = binary_head } },
    { "multi_class", JOB_MULTI_CLASS, { .head = est_multi_class_head } },
    { "multi_label", JOB_MULTI_LABEL, { .head = est_multi_label_head } },
    { "regression", JOB_REGRESSION, { .head = est_regression_head } },
    { "logistic_regression", JOB_REGRESSION, { .head = logistic_head } },
    { "poisson", JOB_REGRESSION, { .head = est_poisson_head } },
    { NULL }
};

#undef RECORD
#define RECORD  job_head
#define CLASSES "multi_class multi_label"
#define NUMBERS "regression poisson"

#define HEAD_FIELDS(types) \
    { "type", JOB_WORD, AT(type), "what is predicted; multi: several things at once", .required = ALWAYS, \
      .words = (types) }, \
    { "n_classes", JOB_INT, AT(n), "number of classes of labels", .only = CLASSES, .required = CLASSES, .min = 2, \
      .max = 1e6 }, \
    { "label_dimension", JOB_INT, AT(n), "numbers of a label", "1", .only = NUMBERS, .min = 1, .max = 1e6 }, \
    { "thresholds", JOB_NUMBERS, AT(options.thresholds), "more metrics at these probabilities, between 0 and 1", \
      .only = "binary multi_label", .above = true }, \
    { "metric_classes", JOB_INTS, AT(options.metric_classes), "classes with metrics of their own", \
      .only = "multi_label" }, \
    { "inverse_link", JOB_FUNCTION, AT(options.inverse_link), "the function that makes predictions of logits; " \
      "absent: none", .only = "regression", .words_of = activations }, \
    { "full_loss", JOB_BOOL, AT(options.no_full_loss), "with the term that does not depend on the model", "true", \
      .only = "poisson", .negated = true }, \
    { "loss_reduction", JOB_ENUM, AT(options.loss_reduction), "absent: sum_over_batch_size; with v1 sum", \
      .only = "!multi", .words = reductions }

static const job_field one_head_fields[] = {
    HEAD_FIELDS(head_types + 1),
    { "name", JOB_TEXT, AT(options.name), "part of the names of its metrics and predictions", .required = ALWAYS },
    { "label", JOB_TEXT, AT(options.label), "the field with the label; absent: the name", "$name" },
    { "vocabulary", JOB_TEXTS, AT(options.label_vocabulary), "labels are these words; absent: numbers",
      .only = "binary " CLASSES },
    { "loss_weight", JOB_NUMBER, AT(loss_weight), "the factor of its loss in the sum", "1", .above = true },
    { NULL }
};

static const job_head   no_head  = { .options.struct_size = EST_STRUCT_SIZE(est_head_options) };
static const job_record one_head = { "a head", sizeof(job_head), one_head_fields, NULL, &no_head };

static const job_field head_fields[] = {
    HEAD_FIELDS(head_types),
    { "heads", JOB_RECORDS, AT(heads), "its parts", .only = "multi", .required = "multi", .record = &one_head },
    { NULL }
};

static const job_record head = { "a head", sizeof(job_head), head_fields, "type", &no_head };

/* --- model -------------------------------------------------------------------------------------------------------- */

const job_word job_combiners[] = {
    { "mean", EST_COMBINE_MEAN }, { "sum", EST_COMBINE_SUM }, { "sqrtn", EST_COMBINE_SQRTN }, { NULL }
};

static const job_word model_types[] = {
    { "dnn_classifier", JOB_DEEP | JOB_CLASSIFIER, { .model = est_dnn_classifier } },
    { "dnn_regressor", JOB_DEEP, { .model = est_dnn_regressor } },
    { "linear_classifier", JOB_WIDE | JOB_CLASSIFIER, { .model = est_linear_classifier } },
    { "linear_regressor", JOB_WIDE, { .model = est_linear_regressor } },
    { "dnn_linear_combined_classifier", JOB_DEEP | JOB_WIDE | JOB_CLASSIFIER,
      { .model = est_dnn_linear_combined_classifier } },
    { "dnn_linear_combined_regressor", JOB_DEEP | JOB_WIDE, { .model = est_dnn_linear_combined_regressor } },
    { "baseline_classifier", JOB_CLASSIFIER, { .model = est_baseline_classifier } },
    { "baseline_regressor", 0, { .model = est_baseline_regressor } },
    { "dnn_estimator", JOB_DEEP | JOB_ESTIMATOR, { .model = est_dnn_estimator } },
    { "linear_estimator", JOB_WIDE | JOB_ESTIMATOR, { .model = est_linear_estimator } },
    { "dnn_linear_combined_estimator", JOB_DEEP | JOB_WIDE | JOB_ESTIMATOR,
      { .model = est_dnn_linear_combined_estimator } },
    { "baseline_estimator", JOB_ESTIMATOR, { .model = est_baseline_estimator } },
    { NULL }
};

#undef RECORD
#define RECORD      job_model
#define DNN         "dnn_classifier dnn_regressor dnn_estimator"
#define LINEAR      "linear_classifier linear_regressor linear_estimator"
#define COMBINED    "dnn_linear_combined_classifier dnn_linear_combined_regressor dnn_linear_combined_estimator"
#define BASELINE    "baseline_classifier baseline_regressor baseline_estimator"
#define ESTIMATORS  "dnn_estimator linear_estimator dnn_linear_combined_estimator baseline_estimator"
#define CLASSIFIERS "dnn_classifier linear_classifier dnn_linear_combined_classifier baseline_classifier"
#define REGRESSORS  "dnn_regressor linear_regressor dnn_linear_combined_regressor baseline_regressor"

static const job_field model_fields[] = {
    { "type", JOB_WORD, AT(type), "the canned model", .required = ALWAYS, .words = model_types },
    { "columns", JOB_TEXTS, AT(columns), "names of features", .only = DNN " " LINEAR, .required = DNN " " LINEAR },
    { "linear_columns", JOB_TEXTS, AT(linear_columns), "features of the wide part; this or dnn_columns is needed",
      .only = COMBINED },
    { "dnn_columns", JOB_TEXTS, AT(dnn_columns), "features of the deep part", .only = COMBINED },
    { "hidden_units", JOB_INTS, AT(options.hidden_units), "sizes of the hidden layers", .only = DNN " " COMBINED,
      .required = DNN, .min = 1, .max = 1e6 },
    { "activation", JOB_FUNCTION, AT(options.activation), "of the hidden layers", "relu", .only = DNN " " COMBINED,
      .words_of = activations },
    { "dropout", JOB_NUMBER, AT(options.dropout), "fraction of hidden values that is dropped in training", "0",
      .only = DNN " " COMBINED, .max = 0.999 },
    { "batch_norm", JOB_BOOL, AT(options.batch_norm), "batch normalization after every hidden layer", "false",
      .only = DNN " " COMBINED },
    { "sparse_combiner", JOB_ENUM, AT(options.sparse_combiner), "how the wide part adds several values of a row", "sum",
      .only = LINEAR " " COMBINED, .words = job_combiners },
    { "optimizer", JOB_RECORD, AT(optimizer), "absent: Adagrad for dnn, else Ftrl", .only = DNN " " LINEAR " " BASELINE,
      .record = &optimizer },
    { "dnn_optimizer", JOB_RECORD, AT(dnn_optimizer), "of the deep part; absent: Adagrad", .only = COMBINED,
      .record = &optimizer },
    { "linear_optimizer", JOB_RECORD, AT(linear_optimizer), "of the wide part; absent: Ftrl", .only = COMBINED,
      .record = &optimizer },
    { "n_classes", JOB_INT, AT(options.n_classes), "number of classes of labels", "2", .only = CLASSIFIERS, .min = 2,
      .max = 1e6 },
    { "label_dimension", JOB_INT, AT(options.label_dimension), "numbers of a label", "1", .only = REGRESSORS, .min = 1,
      .max = 1e6 },
    { "head", JOB_RECORD, AT(head), "what an estimator predicts; its type alone is enough where no other key is needed",
      .only = ESTIMATORS, .required = ESTIMATORS, .record = &head },
    { "loss_reduction", JOB_ENUM, AT(options.loss_reduction), "absent: sum_over_batch_size; with v1 sum",
      .only = "!" ESTIMATORS, .words = reductions },
    { "v1", JOB_BOOL, AT(options.v1), "the formulas and names of tf.compat.v1.estimator", "false" },
    { NULL }
};

const job_record job_model_record = {
    "a model", sizeof(job_model), model_fields, NULL,
    &(const job_model){ .options.struct_size = EST_STRUCT_SIZE(est_canned_options) }
};

/* clang-format on */
