/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema of job files: every key, what it takes, where it goes, what it means. Reading, printing and help follow from
 * these tables; a new key is a member in job.h, a line here, and whoever uses it. */
#include <stddef.h>

#include "job.h"

/* clang-format off */

/* --- optimizers ----------------------------------------------------------------------------------------------------- */

static const job_word optimizer_names[] = {
    { "Adagrad" }, { "Adam" }, { "Ftrl" }, { "RMSProp" }, { "SGD" }, { "Momentum" }, { "Adadelta" }, { "LazyAdam" }, { NULL }
};

static const job_word rate_types[] = {
    { "constant" }, { "exponential_decay" }, { "natural_exp_decay" }, { "inverse_time_decay" }, { "polynomial_decay" },
    { "piecewise_constant" }, { "cosine_decay" }, { "cosine_decay_restarts" }, { "warmup" }, { NULL }
};

#define BIT(i)     (1u << (i))
#define AT(member) offsetof(job_rate, member)
#define POWERS     (BIT(JOB_EXPONENTIAL) | BIT(JOB_NATURAL_EXP) | BIT(JOB_INVERSE_TIME))
#define COSINES    (BIT(JOB_COSINE) | BIT(JOB_COSINE_RESTARTS))
#define DECAYS     (POWERS | COSINES | BIT(JOB_POLYNOMIAL))

static const job_field rate_fields[] = {
    { "type", JOB_CHOICE, AT(type), "how the rate changes with the steps of training", "constant", .words = rate_types },
    { "learning_rate", JOB_NUMBER, AT(rate), "the rate, or the first one", .only = ~BIT(JOB_PIECEWISE), .required = ~BIT(JOB_PIECEWISE),
      .above = true },
    { "decay_steps", JOB_INT, AT(decay_steps), "steps of a decay, or of the first one", .only = DECAYS, .required = DECAYS, .min = 1 },
    { "decay_rate", JOB_NUMBER, AT(decay_rate), "how much it falls in decay_steps", .only = POWERS, .required = POWERS, .above = true },
    { "staircase", JOB_BOOL, AT(staircase), "falls at once after every decay_steps", "false", .only = POWERS },
    { "end", JOB_NUMBER, AT(end), "the last rate", "0.0001", .only = BIT(JOB_POLYNOMIAL), .max = 1e9 },
    { "power", JOB_NUMBER, AT(power), "of the polynomial", "1", .only = BIT(JOB_POLYNOMIAL), .above = true },
    { "cycle", JOB_BOOL, AT(cycle), "starts anew past the end", "false", .only = BIT(JOB_POLYNOMIAL) },
    { "boundaries", JOB_INTS, AT(boundaries), "steps, ascending, up to and with which a value holds", .only = BIT(JOB_PIECEWISE),
      .required = BIT(JOB_PIECEWISE) },
    { "values", JOB_NUMBERS, AT(values), "the rates, one more than boundaries", .only = BIT(JOB_PIECEWISE), .required = BIT(JOB_PIECEWISE),
      .above = true },
    { "alpha", JOB_NUMBER, AT(alpha), "the smallest rate, as a part of the first", "0", .only = COSINES, .max = 1 },
    { "t_mul", JOB_NUMBER, AT(t_mul), "how periods grow", "2", .only = BIT(JOB_COSINE_RESTARTS), .above = true },
    { "m_mul", JOB_NUMBER, AT(m_mul), "how peaks shrink", "1", .only = BIT(JOB_COSINE_RESTARTS), .above = true },
    { "warmup_steps", JOB_INT, AT(warmup_steps), "rises in a line for so many steps first", .only = ~BIT(JOB_CONSTANT),
      .required = BIT(JOB_WARMUP), .min = 1 },
    { "warmup_start", JOB_NUMBER, AT(warmup_start), "the rate that the rise begins with", "0", .only = ~BIT(JOB_CONSTANT), .max = 1e9 },
    { NULL }
};

static const job_record rate = { "a learning rate", sizeof(job_rate), rate_fields, "learning_rate" };

#undef AT
#define AT(member) offsetof(job_optimizer, member)
#define ADAMS      (BIT(JOB_ADAM) | BIT(JOB_LAZY_ADAM))

static const job_field optimizer_fields[] = {
    { "name", JOB_CHOICE, AT(name), "the optimizer", .required = JOB_ALL, .words = optimizer_names },
    { "learning_rate", JOB_RECORD, AT(learning_rate), "a number, or how it changes; absent: the model's own, for the first five; "
      "given whenever another key is", .record = &rate },
    { "initial_accumulator", JOB_NUMBER, AT(initial_accumulator), "first value of the sums of squares; absent: 0.1",
      .only = BIT(JOB_ADAGRAD) | BIT(JOB_FTRL), .above = true },
    { "l1", JOB_NUMBER, AT(l1), "strength of L1 regularization; absent: 0", .only = BIT(JOB_FTRL), .max = 1e9 },
    { "l2", JOB_NUMBER, AT(l2), "strength of L2 regularization; absent: 0", .only = BIT(JOB_FTRL), .max = 1e9 },
    { "l2_shrinkage", JOB_NUMBER, AT(l2_shrinkage), "L2 as a penalty on the size of the weights; absent: 0",
      .only = BIT(JOB_FTRL), .max = 1e9 },
    { "learning_rate_power", JOB_NUMBER, AT(learning_rate_power), "how the rate falls, 0 or less; absent: -0.5", .only = BIT(JOB_FTRL) },
    { "beta", JOB_NUMBER, AT(beta), "adds beta / (2 learning_rate) to l2; absent: 0", .only = BIT(JOB_FTRL), .max = 1e9 },
    { "beta1", JOB_NUMBER, AT(beta1), "absent: 0.9", .only = ADAMS, .max = 1 },
    { "beta2", JOB_NUMBER, AT(beta2), "absent: 0.999", .only = ADAMS, .max = 1 },
    { "epsilon", JOB_NUMBER, AT(epsilon), "absent: 1e-7; with v1 1e-8, RMSProp 1e-10",
      .only = BIT(JOB_ADAGRAD) | ADAMS | BIT(JOB_RMS_PROP) | BIT(JOB_ADADELTA), .above = true },
    { "decay", JOB_NUMBER, AT(decay), "RMSProp absent: 0.9; Adadelta (rho) absent: 0.95",
      .only = BIT(JOB_RMS_PROP) | BIT(JOB_ADADELTA), .max = 1 },
    { "momentum", JOB_NUMBER, AT(momentum), "Momentum absent: 0.9; RMSProp absent: 0",
      .only = BIT(JOB_RMS_PROP) | BIT(JOB_MOMENTUM), .max = 1 },
    { "nesterov", JOB_BOOL, AT(nesterov), "looks ahead", "false", .only = BIT(JOB_MOMENTUM) },
    { "centered", JOB_BOOL, AT(centered), "divides by the variance instead of the mean square", "false",
      .only = BIT(JOB_RMS_PROP) },
    { NULL }
};

static const job_record optimizer = { "an optimizer", sizeof(job_optimizer), optimizer_fields, "name" };

#undef AT

/* --- model ---------------------------------------------------------------------------------------------------------- */

static const job_word model_types[] = {
    { "dnn_classifier" }, { "dnn_regressor" }, { "linear_classifier" }, { "linear_regressor" },
    { "dnn_linear_combined_classifier" }, { "dnn_linear_combined_regressor" }, { "baseline_classifier" },
    { "baseline_regressor" }, { "dnn_estimator" }, { "linear_estimator" }, { "dnn_linear_combined_estimator" },
    { "baseline_estimator" }, { NULL }
};

static const job_word activations[] = {
    { "relu" }, { "relu6" }, { "elu" }, { "selu" }, { "tanh" }, { "sigmoid" }, { "softplus" }, { "softsign" }, { NULL }
};

static const job_word combiners[] = { { "mean" }, { "sum" }, { "sqrtn" }, { NULL } };

static const job_word reductions[] = { { "sum_over_batch_size" }, { "sum" }, { "mean" }, { "sum_over_nonzero_weights" }, { NULL } };

/* --- heads ---------------------------------------------------------------------------------------------------------- */

static const job_word head_types[] = {
    { "binary" }, { "multi_class" }, { "multi_label" }, { "regression" }, { "logistic_regression" }, { "poisson" }, { "multi" },
    { NULL }
};

#define AT(member) offsetof(job_head, member)
#define CLASSES    (BIT(JOB_MULTI_CLASS) | BIT(JOB_MULTI_LABEL))
#define NUMBERS    (BIT(JOB_REGRESSION) | BIT(JOB_POISSON))
#define WORDS      (BIT(JOB_BINARY) | CLASSES)

#define HEAD_TYPE \
    { "type", JOB_CHOICE, AT(type), "what is predicted; multi: several things at once", .required = JOB_ALL, .words = head_types }

#define HEAD_FIELDS \
    { "n_classes", JOB_INT, AT(n_classes), "how many classes labels have", .only = CLASSES, .required = CLASSES, .min = 2, .max = 1e6 }, \
    { "label_dimension", JOB_INT, AT(label_dimension), "how many numbers a label has", "1", .only = NUMBERS, .min = 1, .max = 1e6 }, \
    { "thresholds", JOB_NUMBERS, AT(thresholds), "more metrics at these probabilities, between 0 and 1", \
      .only = BIT(JOB_BINARY) | BIT(JOB_MULTI_LABEL), .above = true }, \
    { "metric_classes", JOB_INTS, AT(metric_classes), "classes with metrics of their own", .only = BIT(JOB_MULTI_LABEL) }, \
    { "inverse_link", JOB_CHOICE, AT(inverse_link), "predictions are this of the logits; absent: the logits", \
      .only = BIT(JOB_REGRESSION), .words = activations }, \
    { "full_loss", JOB_BOOL, AT(full_loss), "with the term that does not depend on the model", "true", .only = BIT(JOB_POISSON) }, \
    { "loss_reduction", JOB_CHOICE, AT(loss_reduction), "absent: sum_over_batch_size; with v1 sum", .only = ~BIT(JOB_MULTI), \
      .words = reductions }

static const job_field one_head_fields[] = {
    HEAD_TYPE,
    HEAD_FIELDS,
    { "name", JOB_TEXT, AT(name), "comes before the names of its metrics and predictions", .required = JOB_ALL },
    { "label", JOB_TEXT, AT(label), "the field with the label; absent: the name" },
    { "vocabulary", JOB_TEXTS, AT(vocabulary), "labels are these words; absent: numbers", .only = WORDS },
    { "loss_weight", JOB_NUMBER, AT(loss_weight), "how much its loss counts", "1", .above = true },
    { NULL }
};

static const job_record one_head = { "a head", sizeof(job_head), one_head_fields };

static const job_field head_fields[] = {
    HEAD_TYPE,
    HEAD_FIELDS,
    { "heads", JOB_RECORDS, AT(heads), "its parts", .only = BIT(JOB_MULTI), .required = BIT(JOB_MULTI), .record = &one_head },
    { NULL }
};

static const job_record head = { "a head", sizeof(job_head), head_fields, "type" };

#undef AT
#define AT(member)  offsetof(job_model, member)
#define DNN         (BIT(JOB_DNN_CLASSIFIER) | BIT(JOB_DNN_REGRESSOR) | BIT(JOB_DNN_ESTIMATOR))
#define LINEAR      (BIT(JOB_LINEAR_CLASSIFIER) | BIT(JOB_LINEAR_REGRESSOR) | BIT(JOB_LINEAR_ESTIMATOR))
#define COMBINED    (BIT(JOB_COMBINED_CLASSIFIER) | BIT(JOB_COMBINED_REGRESSOR) | BIT(JOB_COMBINED_ESTIMATOR))
#define ESTIMATORS  (BIT(JOB_DNN_ESTIMATOR) | BIT(JOB_LINEAR_ESTIMATOR) | BIT(JOB_COMBINED_ESTIMATOR) | BIT(JOB_BASELINE_ESTIMATOR))
#define BASELINE    (BIT(JOB_BASELINE_CLASSIFIER) | BIT(JOB_BASELINE_REGRESSOR) | BIT(JOB_BASELINE_ESTIMATOR))
#define CLASSIFIERS (BIT(JOB_DNN_CLASSIFIER) | BIT(JOB_LINEAR_CLASSIFIER) | BIT(JOB_COMBINED_CLASSIFIER) | BIT(JOB_BASELINE_CLASSIFIER))
#define REGRESSORS  (BIT(JOB_DNN_REGRESSOR) | BIT(JOB_LINEAR_REGRESSOR) | BIT(JOB_COMBINED_REGRESSOR) | BIT(JOB_BASELINE_REGRESSOR))

static const job_field model_fields[] = {
    { "type", JOB_CHOICE, AT(type), "the canned model", .required = JOB_ALL, .words = model_types },
    { "columns", JOB_TEXTS, AT(columns), "names of features", .only = DNN | LINEAR, .required = DNN | LINEAR },
    { "linear_columns", JOB_TEXTS, AT(linear_columns), "features of the wide part; this or dnn_columns is needed",
      .only = COMBINED },
    { "dnn_columns", JOB_TEXTS, AT(dnn_columns), "features of the deep part", .only = COMBINED },
    { "hidden_units", JOB_INTS, AT(hidden_units), "sizes of the hidden layers", .only = DNN | COMBINED, .required = DNN, .min = 1,
      .max = 1e6 },
    { "activation", JOB_CHOICE, AT(activation), "of the hidden layers", "relu", .only = DNN | COMBINED, .words = activations },
    { "dropout", JOB_NUMBER, AT(dropout), "fraction of hidden values that is dropped in training", "0", .only = DNN | COMBINED,
      .max = 0.999 },
    { "batch_norm", JOB_BOOL, AT(batch_norm), "batch normalization after every hidden layer", "false", .only = DNN | COMBINED },
    { "sparse_combiner", JOB_CHOICE, AT(sparse_combiner), "how the wide part adds several values of a row", "sum",
      .only = LINEAR | COMBINED, .words = combiners },
    { "optimizer", JOB_RECORD, AT(optimizer), "absent: Adagrad for dnn, else Ftrl", .only = DNN | LINEAR | BASELINE,
      .record = &optimizer },
    { "dnn_optimizer", JOB_RECORD, AT(dnn_optimizer), "of the deep part; absent: Adagrad", .only = COMBINED, .record = &optimizer },
    { "linear_optimizer", JOB_RECORD, AT(linear_optimizer), "of the wide part; absent: Ftrl", .only = COMBINED, .record = &optimizer },
    { "n_classes", JOB_INT, AT(n_classes), "how many classes labels have", "2", .only = CLASSIFIERS, .min = 2, .max = 1e6 },
    { "label_dimension", JOB_INT, AT(label_dimension), "how many numbers a label has", "1", .only = REGRESSORS, .min = 1, .max = 1e6 },
    { "head", JOB_RECORD, AT(head), "what an estimator predicts; its type alone will do where no other key is needed",
      .only = ESTIMATORS, .required = ESTIMATORS, .record = &head },
    { "loss_reduction", JOB_CHOICE, AT(loss_reduction), "absent: sum_over_batch_size; with v1 sum", .only = ~ESTIMATORS,
      .words = reductions },
    { "v1", JOB_BOOL, AT(v1), "the formulas and names of tf.compat.v1.estimator", "false" },
    { NULL }
};

static const job_record model = { "a model", sizeof(job_model), model_fields };

#undef AT

/* --- features ------------------------------------------------------------------------------------------------------- */

static const job_word feature_types[] = {
    { "numeric" }, { "bucketized" }, { "identity" }, { "hash" }, { "vocabulary" }, { "cross" }, { "weighted" },
    { "indicator" }, { "embedding" }, { "shared" }, { "dynamic" }, { NULL }
};

static const job_word initializer_types[] = {
    { "zeros" }, { "ones" }, { "constant" }, { "random_uniform" }, { "random_normal" }, { "truncated_normal" }, { "glorot_uniform" },
    { "glorot_normal" }, { "he_uniform" }, { "he_normal" }, { "lecun_uniform" }, { "lecun_normal" }, { NULL }
};

#define AT(member) offsetof(job_initializer, member)
#define NORMALS    (BIT(JOB_INIT_NORMAL) | BIT(JOB_INIT_TRUNCATED_NORMAL))

static const job_field initializer_fields[] = {
    { "type", JOB_CHOICE, AT(type), "what is drawn", .required = JOB_ALL, .words = initializer_types },
    { "value", JOB_NUMBER, AT(value), "the constant", .only = BIT(JOB_INIT_CONSTANT), .required = BIT(JOB_INIT_CONSTANT) },
    { "low", JOB_NUMBER, AT(low), "the smallest number", "-0.05", .only = BIT(JOB_INIT_UNIFORM) },
    { "high", JOB_NUMBER, AT(high), "above the largest", "0.05", .only = BIT(JOB_INIT_UNIFORM) },
    { "mean", JOB_NUMBER, AT(mean), "of the numbers", "0", .only = NORMALS },
    { "stddev", JOB_NUMBER, AT(stddev), "their deviation", "0.05", .only = NORMALS, .above = true },
    { "seed", JOB_INT, AT(seed), "absent: of the run", .only = ~(BIT(JOB_INIT_ZEROS) | BIT(JOB_INIT_ONES) | BIT(JOB_INIT_CONSTANT)),
      .min = 1 },
    { NULL }
};

static const job_record initializer = { "an initializer", sizeof(job_initializer), initializer_fields, "type" };

#undef AT

static const job_word transforms[] = { { "none" }, { "log1p" }, { NULL } };
static const job_word dtypes[] = { { "float32" }, { "int64" }, { "string" }, { NULL } };

#define AT(member) offsetof(job_feature, member)
#define KEYED      (BIT(JOB_NUMERIC) | BIT(JOB_IDENTITY) | BIT(JOB_HASH) | BIT(JOB_VOCABULARY) | BIT(JOB_DYNAMIC))
#define TABLES     (BIT(JOB_EMBEDDING) | BIT(JOB_SHARED))
#define VECTORS    (TABLES | BIT(JOB_DYNAMIC))
#define OF_ONE     (BIT(JOB_BUCKETIZED) | BIT(JOB_WEIGHTED) | BIT(JOB_INDICATOR) | BIT(JOB_EMBEDDING))

static const job_field feature_fields[] = {
    { "type", JOB_CHOICE, AT(type), "numeric: numbers as they are; bucketized: which range a number is in; identity: integers from 0; "
      "hash, vocabulary: words; cross: combinations; weighted: words with weights; indicator: how often each id occurs; "
      "embedding: a trained vector for each id; shared: embeddings of several features with one table; "
      "dynamic: a trained vector for each word or number there is, as they come",
      .required = JOB_ALL, .words = feature_types },
    { "key", JOB_TEXT, AT(key), "the field of the data; absent: the feature's name", .only = KEYED },
    { "source", JOB_TEXT, AT(source), "the feature it is made of", .only = OF_ONE, .required = OF_ONE },
    { "sources", JOB_TEXTS, AT(sources), "the features it is made of; for a cross, a name that is none is a field of the data",
      .only = BIT(JOB_CROSS) | BIT(JOB_SHARED), .required = BIT(JOB_CROSS) | BIT(JOB_SHARED) },
    { "dtype", JOB_CHOICE, AT(dtype), "float32, int64 or string; absent: float32 for numeric, string for words",
      .only = BIT(JOB_NUMERIC) | BIT(JOB_HASH) | BIT(JOB_VOCABULARY) | BIT(JOB_DYNAMIC), .words = dtypes },
    { "shape", JOB_INTS, AT(shape), "of the numbers of a row", "1", .only = BIT(JOB_NUMERIC), .min = 1, .max = 1e9 },
    { "default", JOB_NUMBERS, AT(default_number), "numeric: what a row without the feature gets; absent: such a row is an error",
      .only = BIT(JOB_NUMERIC) },
    { "transform", JOB_CHOICE, AT(transform), "log1p: the logarithm of 1 + x, before anything below", "none", .only = BIT(JOB_NUMERIC),
      .words = transforms },
    { "mean", JOB_NUMBER, AT(mean), "is subtracted", "0", .only = BIT(JOB_NUMERIC) },
    { "stddev", JOB_NUMBER, AT(stddev), "is divided by", "1", .only = BIT(JOB_NUMERIC), .above = true },
    { "min", JOB_NUMBER, AT(low), "becomes 0, and max 1; in place of mean and stddev", .only = BIT(JOB_NUMERIC) },
    { "max", JOB_NUMBER, AT(high), "becomes 1", .only = BIT(JOB_NUMERIC) },
    { "boundaries", JOB_NUMBERS, AT(boundaries), "ascending, between the ranges", .only = BIT(JOB_BUCKETIZED),
      .required = BIT(JOB_BUCKETIZED) },
    { "buckets", JOB_INT, AT(buckets), "how many ids there are", .only = BIT(JOB_IDENTITY) | BIT(JOB_HASH) | BIT(JOB_CROSS),
      .required = BIT(JOB_IDENTITY) | BIT(JOB_HASH) | BIT(JOB_CROSS), .min = 1, .max = 1e12 },
    { "values", JOB_TEXTS, AT(values), "the words, in the order of their ids; this or file", .only = BIT(JOB_VOCABULARY) },
    { "file", JOB_TEXT, AT(file), "a text file with a word a line", .only = BIT(JOB_VOCABULARY) },
    { "size", JOB_INT, AT(size), "lines used of the file; absent: all", .only = BIT(JOB_VOCABULARY), .min = 1 },
    { "oov_buckets", JOB_INT, AT(oov_buckets), "ids for words that are not known, by hash; 0: such a word counts as missing", "0",
      .only = BIT(JOB_VOCABULARY) },
    { "default_id", JOB_INT, AT(default_id), "the id of what is not known or out of range", .only = BIT(JOB_IDENTITY) | BIT(JOB_VOCABULARY) },
    { "hash_key", JOB_INT, AT(hash_key), "of the hash; 0: the usual", "0", .only = BIT(JOB_CROSS) },
    { "weight", JOB_TEXT, AT(weight), "the field with the weights", .only = BIT(JOB_WEIGHTED), .required = BIT(JOB_WEIGHTED) },
    { "dimension", JOB_INT, AT(dimension), "length of the vectors", .only = VECTORS, .required = VECTORS, .min = 1, .max = 1e6 },
    { "combiner", JOB_CHOICE, AT(combiner), "how several vectors of a row become one", "mean", .only = VECTORS, .words = combiners },
    { "initializer", JOB_RECORD, AT(initializer), "of new vectors; absent: a truncated normal of deviation 1 / sqrt(dimension)",
      .only = VECTORS, .record = &initializer },
    { "checkpoint", JOB_TEXT, AT(checkpoint), "where the first vectors are from; with tensor_name", .only = TABLES },
    { "tensor_name", JOB_TEXT, AT(tensor_name), "the table in that checkpoint", .only = TABLES },
    { "max_norm", JOB_NUMBER, AT(max_norm), "vectors are cut to that length", .only = TABLES, .above = true },
    { "frozen", JOB_BOOL, AT(frozen), "vectors are not trained", "false", .only = TABLES },
    { "collection_name", JOB_TEXT, AT(collection_name), "of the table; absent: made of the sources' names", .only = BIT(JOB_SHARED) },
    { "max_rows", JOB_INT, AT(max_rows), "vectors there may be; then the one not seen for longest makes room", "16777216",
      .only = BIT(JOB_DYNAMIC), .min = 1, .max = 1e12 },
    { "admit_after", JOB_INT, AT(admit_after), "a word or number has its vector from this sighting on", "1", .only = BIT(JOB_DYNAMIC),
      .min = 1 },
    { "max_age", JOB_INT, AT(max_age), "steps without a sighting after which a vector goes; absent: none does", .only = BIT(JOB_DYNAMIC),
      .min = 1 },
    { NULL }
};

static const job_record feature = { "a feature", sizeof(job_feature), feature_fields };

#undef AT

/* --- data ----------------------------------------------------------------------------------------------------------- */

#define AT(member) offsetof(job_label, member)

static const job_field label_fields[] = {
    { "name", JOB_TEXT, AT(name), "the field with the label", .required = JOB_ALL },
    { "vocabulary", JOB_TEXTS, AT(vocabulary), "labels are words: these, in the order of their classes; absent: numbers" },
    { "strip", JOB_TEXT, AT(strip), "characters that are taken off the end of a label that is a word" },
    { NULL }
};

static const job_record label = { "a label", sizeof(job_label), label_fields, "name" };

#undef AT
#define AT(member) offsetof(job_csv, member)

static const job_field csv_fields[] = {
    { "header", JOB_BOOL, AT(header), "the first line of every file has the names of its fields; with fields it is false", "true" },
    { "delimiter", JOB_TEXT, AT(delimiter), "one character between fields", "," },
    { "na", JOB_TEXT, AT(na), "a text that means the same as an empty field" },
    { "trim", JOB_BOOL, AT(trim), "blanks around fields do not count", "false" },
    { "quotes", JOB_BOOL, AT(quotes), "fields may stand in double quotes", "true" },
    { "fields", JOB_TEXTS, AT(fields), "the names of all fields, for files without a header" },
    { NULL }
};

static const job_record csv = { "csv", sizeof(job_csv), csv_fields };

static const job_word formats[] = { { "csv" }, { "tfrecord" }, { "libsvm" }, { NULL } };
static const job_word for_ever[] = { { "forever", EST_FOREVER }, { NULL } };
static const job_word any[] = { { "any", EST_FOREVER }, { NULL } };
static const job_word autoshards[] = { { "auto" }, { "file" }, { "data" }, { "off" }, { NULL } };

#undef AT
#define AT(member) offsetof(job_data, member)

static const job_field data_fields[] = {
    { "format", JOB_CHOICE, AT(format), "of the files; libsvm has the fields index, value and label", "csv", .words = formats },
    { "train", JOB_TEXTS, AT(train), "files to train on: a pattern of the shell, or several" },
    { "eval", JOB_TEXTS, AT(eval), "files to evaluate on; absent: training does not evaluate" },
    { "label", JOB_RECORD, AT(label), "what is learnt; its name alone will do. Required unless model.head is multi", .record = &label },
    { "weight", JOB_TEXT, AT(weight), "the field with the weight of a row; absent: all count the same" },
    { "batch", JOB_INT, AT(batch), "rows of a step, of each replica", "128", .min = 1, .max = 1e9 },
    { "shuffle", JOB_INT, AT(shuffle), "rows of training that are held to draw from; 0: in order", "10000", .max = 1e9 },
    { "epochs", JOB_INT, AT(epochs), "passes of training over the files", "forever", .min = 1, .words = for_ever },
    { "bad_rows", JOB_INT, AT(bad_rows), "how many rows that cannot be read, or whose label, weight or id cannot be, are left out before that "
      "is an error", "0", .words = any },
    { "autoshard", JOB_CHOICE, AT(autoshard), "what workers of a cluster share: file: each reads every n-th file; data: each keeps every "
      "n-th row; off: nothing; auto: files if they train in step and there is one for each, else rows", "auto", .words = autoshards },
    { "csv", JOB_RECORD, AT(csv), "how CSV files are written", "{}", .record = &csv },
    { NULL }
};

static const job_record data = { "data", sizeof(job_data), data_fields };

#undef AT

/* --- run, train, eval, export, warm_start ----------------------------------------------------------------------------- */

static const job_word protocols[] = { { "tls" }, { "tcp" }, { "ucx" }, { NULL } };
static const job_word off[] = { { "off", EST_OFF }, { NULL } };
static const job_word all_kept[] = { { "all", EST_OFF }, { NULL } };
static const job_word all_rows[] = { { "all", EST_FOREVER }, { NULL } };

#define AT(member) offsetof(job_partitioner, member)

static const job_word partitioner_types[] = { { "fixed_shards" }, { "min_size" }, { "max_size" }, { NULL } };

static const job_field partitioner_fields[] = {
    { "type", JOB_CHOICE, AT(type), "fixed_shards: so many for every variable; min_size: no shard is smaller; max_size: none is larger",
      .required = JOB_ALL, .words = partitioner_types },
    { "shards", JOB_INT, AT(shards), "of a variable; absent: as many as ps tasks", .only = BIT(JOB_FIXED_SHARDS), .min = 1, .max = 1e6 },
    { "min_shard_bytes", JOB_INT, AT(min_shard_bytes), "of a shard, at least", "262144", .only = BIT(JOB_MIN_SIZE), .min = 1 },
    { "max_shard_bytes", JOB_INT, AT(max_shard_bytes), "of a shard, at most; no row is cut", .only = BIT(JOB_MAX_SIZE),
      .required = BIT(JOB_MAX_SIZE), .min = 1 },
    { "max_shards", JOB_INT, AT(max_shards), "of a variable, at most; absent: as many as ps tasks with min_size, any number with max_size",
      .only = BIT(JOB_MIN_SIZE) | BIT(JOB_MAX_SIZE), .min = 1, .max = 1e6 },
    { NULL }
};

static const job_record partitioner = { "a partitioner", sizeof(job_partitioner), partitioner_fields, "type" };

#undef AT
#define AT(member) offsetof(job_strategy, member)

static const job_word strategy_names[] = {
    { "parameter_server" }, { "mirrored" }, { "central_storage" }, { "one_device" }, { "multi_worker_mirrored" }, { NULL }
};
static const job_word placements[] = { { "by_size" }, { "round_robin" }, { NULL } };
static const job_word communications[] = {
    { "auto" }, { "ring" }, { "halving" }, { "direct" }, { "hierarchical" }, { "shared" }, { NULL }
};

#define SERVERS BIT(JOB_PARAMETER_SERVER)
#define WORKERS BIT(JOB_MULTI_WORKER_MIRRORED)

static const job_field strategy_fields[] = {
    { "name", JOB_CHOICE, AT(name), "which one: variables at ps tasks; mirrored, central_storage: several replicas in one process; one_device; "
      "multi_worker_mirrored: workers that make every step together", "parameter_server", .words = strategy_names },
    { "sync_replicas", JOB_INT, AT(sync_replicas), "a step is the mean of what so many trainers push; 0: each trains by itself", "0",
      .only = SERVERS, .max = 1e6 },
    { "max_staleness", JOB_INT, AT(max_staleness), "how many steps may be counted while another is under way; 0: any number", "0",
      .only = SERVERS },
    { "consistent_checkpoints", JOB_BOOL, AT(consistent_checkpoints), "no step is under way when the snapshots of a checkpoint are taken",
      "false", .only = SERVERS },
    { "placement", JOB_CHOICE, AT(placement), "by_size: a variable goes to the ps task with the fewest bytes; round_robin: to one after "
      "the other", "by_size", .only = SERVERS, .words = placements },
    { "partitioner", JOB_RECORD, AT(partitioner), "spreads the rows of large variables over ps tasks; absent: each is in one piece",
      .only = SERVERS, .record = &partitioner },
    { "replicas", JOB_INT, AT(replicas), "copies of the model in a process, each with a batch of its own in a step", "1",
      .only = BIT(JOB_MIRRORED) | BIT(JOB_CENTRAL_STORAGE) | WORKERS, .min = 1, .max = 256 },
    { "communication", JOB_CHOICE, AT(communication), "how workers sum; auto: by size, number of workers and hosts", "auto", .only = WORKERS,
      .words = communications },
    { "bytes_per_pack", JOB_INT, AT(bytes_per_pack), "gradients travel in packs, closed once they have more", "4194304", .only = WORKERS,
      .min = 1 },
    { "timeout_secs", JOB_NUMBER, AT(timeout_secs), "of one exchange between workers", "600", .only = WORKERS, .above = true,
      .words = for_ever },
    { "rejoin_secs", JOB_NUMBER, AT(rejoin_secs), "how long a worker that was lost is waited for", "600", .only = WORKERS, .above = true,
      .words = for_ever },
    { "elastic", JOB_BOOL, AT(elastic), "without it then; false: training fails", "false", .only = WORKERS },
    { NULL }
};

static const job_record strategy = { "a strategy", sizeof(job_strategy), strategy_fields, "name" };

#undef AT
#define AT(member) offsetof(job_run, member)

static const job_field run_fields[] = {
    { "model_dir", JOB_TEXT, AT(model_dir), "where everything is kept; absent: that of TF_CONFIG, else a temporary directory" },
    { "seed", JOB_INT, AT(seed), "of all that is random; absent: drawn", .min = 1 },
    { "save_summary_steps", JOB_INT, AT(save_summary_steps), "steps between summaries", "100", .min = 1, .words = off },
    { "save_checkpoints_steps", JOB_INT, AT(save_checkpoints_steps), "steps between checkpoints; absent: by time", .min = 1,
      .words = off },
    { "save_checkpoints_secs", JOB_NUMBER, AT(save_checkpoints_secs), "seconds between checkpoints; absent: 600, unless by steps",
      .above = true, .words = off },
    { "keep_checkpoint_max", JOB_INT, AT(keep_checkpoint_max), "checkpoints that are kept", "5", .min = 1, .max = 1e9,
      .words = all_kept },
    { "keep_checkpoint_every_n_hours", JOB_NUMBER, AT(keep_checkpoint_every_n_hours), "one every so often is kept for good", "10000",
      .above = true },
    { "log_step_count_steps", JOB_INT, AT(log_step_count_steps), "steps between lines of the log", "100", .min = 1, .words = off },
    { "session_creation_timeout_secs", JOB_NUMBER, AT(session_creation_timeout_secs), "how long a task waits for its cluster",
      "7200", .above = true },
    { "peer_silence_secs", JOB_NUMBER, AT(peer_silence_secs), "a task of the cluster that is silent so long is lost", "10", .above = true },
    { "max_worker_delay_secs", JOB_INT, AT(max_worker_delay_secs),
      "workers of a cluster start 5 seconds after each other, at most so late; 0: all at once", "60", .max = 1e6 },
    { "protocol", JOB_CHOICE, AT(protocol), "what tasks of a cluster talk over; absent: ESTOC_PROTOCOL, else tls",
      .words = protocols },
    { "strategy", JOB_RECORD, AT(strategy), "how training is spread; its name alone will do. One for ps tasks is not used without them",
      .record = &strategy },
    { "eval_strategy", JOB_RECORD, AT(eval_strategy), "the same for evaluations of a training; absent: one process evaluates",
      .record = &strategy },
    { "graph_def", JOB_BOOL, AT(graph_def), "write the graph beside checkpoints (.meta)", "true" },
    { "input_position", JOB_BOOL, AT(input_position), "a resumed run goes on with the next row of its input", "true" },
    { "check_numerics", JOB_BOOL, AT(check_numerics), "name what first makes a NaN or infinity", "false" },
    { "threads", JOB_INT, AT(threads), "absent: EST_NUM_THREADS, else the cores", .min = 1, .max = 1024 },
    { NULL }
};

static const job_record run = { "run", sizeof(job_run), run_fields };

#undef AT
#define AT(member) offsetof(job_stop, member)

static const job_word stop_types[] = { { "no_decrease" }, { "no_increase" }, { "higher" }, { "lower" }, { NULL } };

#define BY_STEPS     (BIT(JOB_NO_DECREASE) | BIT(JOB_NO_INCREASE))
#define BY_THRESHOLD (BIT(JOB_HIGHER) | BIT(JOB_LOWER))

static const job_field stop_fields[] = {
    { "type", JOB_CHOICE, AT(type), "no_decrease, no_increase: the best value of the metric is so many steps old; higher, lower: a value "
      "is beyond the threshold", .required = JOB_ALL, .words = stop_types },
    { "metric", JOB_TEXT, AT(metric), "of evaluations", .required = JOB_ALL },
    { "steps", JOB_INT, AT(steps), "without a better value", .only = BY_STEPS, .required = BY_STEPS, .min = 1 },
    { "threshold", JOB_NUMBER, AT(threshold), "above or below which training ends", .only = BY_THRESHOLD, .required = BY_THRESHOLD },
    { "min_steps", JOB_INT, AT(min_steps), "results of earlier steps do not count", "0" },
    { "run_every_steps", JOB_INT, AT(run_every_steps), "steps between looks at the results; absent: by time", .min = 1 },
    { "run_every_secs", JOB_NUMBER, AT(run_every_secs), "seconds between them; absent: 60, unless by steps", .above = true },
    { NULL }
};

static const job_record stop = { "an early stop", sizeof(job_stop), stop_fields };

#undef AT
#define AT(member) offsetof(job_train, member)

static const job_field train_fields[] = {
    { "max_steps", JOB_INT, AT(max_steps), "the step at which training ends; absent: when the input does", .min = 1 },
    { "early_stopping", JOB_RECORDS, AT(early_stopping), "what else ends it, by the results of evaluations", "[]", .record = &stop },
    { NULL }
};

static const job_record train = { "train", sizeof(job_train), train_fields };

#undef AT
#define AT(member) offsetof(job_eval, member)

static const job_field eval_fields[] = {
    { "steps", JOB_INT, AT(steps), "batches of an evaluation", "all", .min = 1, .words = all_rows },
    { "start_delay_secs", JOB_NUMBER, AT(start_delay_secs), "before the first evaluation of a task that only evaluates", "120",
      .max = 1e9 },
    { "throttle_secs", JOB_NUMBER, AT(throttle_secs), "least time between evaluations", "600", .max = 1e9 },
    { "name", JOB_TEXT, AT(name), "results go to the directory eval_<name>; absent: eval" },
    { NULL }
};

static const job_record eval = { "eval", sizeof(job_eval), eval_fields };

static const job_word directions[] = { { "smaller" }, { "larger" }, { NULL } };
static const job_word export_types[] = { { "latest" }, { "final" }, { "best" }, { NULL } };

#undef AT
#define AT(member) offsetof(job_export, member)

static const job_field export_fields[] = {
    { "type", JOB_CHOICE, AT(type), "latest: after every evaluation; final: at the end; best: when the metric was never better",
      .required = JOB_ALL, .words = export_types },
    { "name", JOB_TEXT, AT(name), "of the directory below export; absent: the type" },
    { "keep", JOB_INT, AT(keep), "exports that are kept", "5", .min = 1, .max = 1e9, .words = all_kept },
    { "metric", JOB_TEXT, AT(metric), "that is compared", "loss", .only = BIT(JOB_EXPORT_BEST) },
    { "better", JOB_CHOICE, AT(better), "which value of it is", "smaller", .only = BIT(JOB_EXPORT_BEST), .words = directions },
    { "as_text", JOB_BOOL, AT(as_text), "saved_model.pbtxt in place of .pb", "false" },
    { NULL }
};

static const job_record export = { "an export", sizeof(job_export), export_fields, "type" };

#undef AT
#define AT(member) offsetof(job_rename, member)

static const job_field rename_fields[] = {
    { "from", JOB_TEXT, AT(from), "the name in the checkpoint", .required = JOB_ALL },
    { NULL }
};

static const job_record renaming = { "a renaming", sizeof(job_rename), rename_fields, "from" };

#undef AT
#define AT(member) offsetof(job_vocabulary, member)

static const job_field vocabulary_fields[] = {
    { "file", JOB_TEXT, AT(file), "the new words, one a line", .required = JOB_ALL },
    { "old_file", JOB_TEXT, AT(old_file), "the words of the checkpoint", .required = JOB_ALL },
    { "size", JOB_INT, AT(size), "lines used of the file; absent: all", .min = 1 },
    { "old_size", JOB_INT, AT(old_size), "lines used of the old one; absent: all", .min = 1 },
    { "oov_buckets", JOB_INT, AT(oov_buckets), "ids for words that are not known", "0" },
    { "axis", JOB_INT, AT(axis), "0: words are rows of the variable; 1: columns, as of the last layer of a classifier", "0", .max = 1 },
    { "keep_initial", JOB_BOOL, AT(keep_initial), "new words begin as the variable does; false: with 0", "true" },
    { NULL }
};

static const job_record vocabulary = { "a vocabulary", sizeof(job_vocabulary), vocabulary_fields };

#undef AT
#define AT(member) offsetof(job_warm_start, member)

static const job_field warm_start_fields[] = {
    { "path", JOB_TEXT, AT(path), "a checkpoint, a model directory or a SavedModel", .required = JOB_ALL },
    { "variables", JOB_TEXT, AT(variables), "those whose names begin like this regular expression", ".*" },
    { "all", JOB_BOOL, AT(all), "slots of optimizers too, not only what is trained", "false" },
    { "renames", JOB_NAMED, AT(renames), "names of variables here, each with that in the checkpoint", "{}", .record = &renaming },
    { "vocabularies", JOB_NAMED, AT(vocabularies), "names of variables whose rows belong to words that have changed", "{}",
      .record = &vocabulary },
    { "only_vocabularies", JOB_BOOL, AT(only_vocabularies), "no variables but those", "false" },
    { NULL }
};

static const job_record warm_start = { "a warm start", sizeof(job_warm_start), warm_start_fields, "path" };

#undef AT
#define AT(member) offsetof(job_spec, member)

static const job_field job_fields[] = {
    { "model", JOB_RECORD, AT(model), "what is trained", .required = JOB_ALL, .record = &model },
    { "features", JOB_NAMED, AT(features), "feature columns, by names of your choice", "{}", .record = &feature },
    { "data", JOB_RECORD, AT(data), "what it is trained on", .required = JOB_ALL, .record = &data },
    { "run", JOB_RECORD, AT(run), "where the run keeps its state, how often it saves and tells", "{}", .record = &run },
    { "train", JOB_RECORD, AT(train), "how long to train", "{}", .record = &train },
    { "eval", JOB_RECORD, AT(eval), "how to evaluate", "{}", .record = &eval },
    { "export", JOB_RECORDS, AT(exports), "SavedModels that are made beside evaluations", "[]", .record = &export },
    { "warm_start", JOB_RECORD, AT(warm_start), "where the variables of a new run have their first values from", .record = &warm_start },
    { NULL }
};

const job_record job_schema = { "a job", sizeof(job_spec), job_fields };

/* --- TensorFlow's names --------------------------------------------------------------------------------------------- */

const job_alias job_aliases[] = {
    { "feature_columns", "columns" }, { "dnn_feature_columns", "dnn_columns" }, { "linear_feature_columns", "linear_columns" },
    { "dnn_hidden_units", "hidden_units" }, { "activation_fn", "activation" }, { "dnn_activation_fn", "activation" },
    { "dnn_dropout", "dropout" }, { "linear_sparse_combiner", "sparse_combiner" }, { "initial_accumulator_value", "initial_accumulator" },
    { "l1_regularization_strength", "l1" }, { "l2_regularization_strength", "l2" },
    { "l2_shrinkage_regularization_strength", "l2_shrinkage" }, { "rho", "decay" },

    { "DNNClassifier", "dnn_classifier" }, { "DNNRegressor", "dnn_regressor" }, { "LinearClassifier", "linear_classifier" },
    { "LinearRegressor", "linear_regressor" }, { "DNNLinearCombinedClassifier", "dnn_linear_combined_classifier" },
    { "DNNLinearCombinedRegressor", "dnn_linear_combined_regressor" }, { "wide_and_deep", "dnn_linear_combined_classifier" },
    { "BaselineClassifier", "baseline_classifier" }, { "BaselineRegressor", "baseline_regressor" },

    { "numeric_column", "numeric" }, { "bucketized_column", "bucketized" }, { "categorical_column_with_identity", "identity" },
    { "categorical_column_with_hash_bucket", "hash" }, { "categorical_column_with_vocabulary_list", "vocabulary" },
    { "categorical_column_with_vocabulary_file", "vocabulary" }, { "crossed_column", "cross" },
    { "weighted_categorical_column", "weighted" }, { "indicator_column", "indicator" }, { "embedding_column", "embedding" },
    { "shared_embeddings", "shared" },

    { "DNNEstimator", "dnn_estimator" }, { "LinearEstimator", "linear_estimator" },
    { "DNNLinearCombinedEstimator", "dnn_linear_combined_estimator" }, { "BaselineEstimator", "baseline_estimator" }, { "BinaryClassHead", "binary" },
    { "MultiClassHead", "multi_class" }, { "MultiLabelHead", "multi_label" }, { "RegressionHead", "regression" },
    { "LogisticRegressionHead", "logistic_regression" }, { "PoissonRegressionHead", "poisson" }, { "MultiHead", "multi" },
    { "classes_for_class_based_metrics", "metric_classes" }, { "inverse_link_fn", "inverse_link" },
    { "compute_full_loss", "full_loss" }, { "head_weights", "loss_weight" },

    { "ExponentialDecay", "exponential_decay" }, { "PolynomialDecay", "polynomial_decay" }, { "CosineDecay", "cosine_decay" },
    { "CosineDecayRestarts", "cosine_decay_restarts" }, { "InverseTimeDecay", "inverse_time_decay" },
    { "PiecewiseConstantDecay", "piecewise_constant" }, { "initial_learning_rate", "learning_rate" },
    { "end_learning_rate", "end" }, { "first_decay_steps", "decay_steps" },

    { "ckpt_to_load_from", "checkpoint" }, { "tensor_name_in_ckpt", "tensor_name" }, { "trainable", "frozen" },
    { "shared_embedding_collection_name", "collection_name" }, { "normalizer_fn", "transform" },
    { "compare_fn", "metric" }, { "metric_name", "metric" }, { "max_steps_without_decrease", "steps" },
    { "max_steps_without_increase", "steps" }, { "eval_metric", "metric" },

    { "hash_bucket_size", "buckets" }, { "num_buckets", "buckets" }, { "vocabulary_list", "values" }, { "vocabulary_file", "file" },
    { "vocabulary_size", "size" }, { "num_oov_buckets", "oov_buckets" }, { "default_value", "default" },
    { "default_value", "default_id" }, { "source_column", "source" }, { "categorical_column", "source" },
    { "categorical_columns", "sources" }, { "keys", "sources" }, { "weight_feature_key", "weight" },

    { "batch_size", "batch" }, { "num_epochs", "epochs" }, { "shuffle_buffer_size", "shuffle" }, { "field_delim", "delimiter" },
    { "na_value", "na" }, { "column_names", "fields" }, { "tf_random_seed", "seed" }, { "exports_to_keep", "keep" },
    { "train_distribute", "strategy" }, { "experimental_distribute", "strategy" }, { "eval_distribute", "eval_strategy" },
    { "ParameterServerStrategy", "parameter_server" }, { "MirroredStrategy", "mirrored" }, { "CentralStorageStrategy", "central_storage" },
    { "OneDeviceStrategy", "one_device" }, { "MultiWorkerMirroredStrategy", "multi_worker_mirrored" },
    { "CollectiveAllReduceStrategy", "multi_worker_mirrored" }, { "implementation", "communication" }, { "AUTO", "auto" }, { "RING", "ring" },
    { "NCCL", "ring", "it is for GPUs, and devices here are CPUs" }, { "nccl", "ring", "it is for GPUs, and devices here are CPUs" },
    { "timeout_seconds", "timeout_secs" }, { "auto_shard_policy", "autoshard" }, { "FILE", "file" }, { "DATA", "data" }, { "OFF", "off" },
    { "replicas_to_aggregate", "sync_replicas" },
    { "variable_partitioner", "partitioner" }, { "FixedShardsPartitioner", "fixed_shards" }, { "fixed_size_partitioner", "fixed_shards" },
    { "MinSizePartitioner", "min_size" }, { "min_max_variable_partitioner", "min_size" }, { "MaxSizePartitioner", "max_size" },
    { "variable_axis_size_partitioner", "max_size" }, { "num_shards", "shards" },
    { "ckpt_to_initialize_from", "path" }, { "vars_to_warm_start", "variables" },
    { "var_name_to_prev_var_name", "renames" }, { "var_name_to_vocab_info", "vocabularies" }, { "new_vocab", "file" },
    { "old_vocab", "old_file" }, { "new_vocab_size", "size" }, { "old_vocab_size", "old_size" }, { NULL }
};

/* clang-format on */
