/* SPDX-License-Identifier: Apache-2.0
 *
 * Canned estimators: whole models from feature columns.
 *
 *     status = est_dnn_linear_combined_classifier(EST_CANNED(
 *         .linear_columns = EST_COLUMN_LIST(occupation, age_x_education),
 *         .dnn_columns    = EST_COLUMN_LIST(age, occupation_embedding),
 *         .hidden_units   = EST_I64S(100, 50),
 *         .config         = EST_RUN_CONFIG(.model_dir = "runs/census")), &estimator);
 *
 * Computation, variable names, initial values, summaries and default learning rates are those of tf.estimator 2.15, so
 * training can resume from a model directory that TensorFlow's class of the same name wrote; .v1 gives those of
 * tf.compat.v1.estimator (loss summed over the batch, other learning rates, slot names and metrics).
 *
 * One struct serves all of them; an argument that a class does not have is an error. The constructor also fails for a
 * column whose construction failed or that does not suit the model. Errors that only training can find name the line of
 * the constructor.
 *
 * Threading: as estimators. */
#ifndef ESTOC_CANNED_H
#define ESTOC_CANNED_H

#include "estoc/estimator.h"
#include "estoc/head.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An optimizer: a value, { .value = est_adagrad(0.1, NULL) }, or a name with the model's default learning rate,
 * { .name = "Adagrad" }. Zeroed: the model's default. */
typedef struct est_canned_optimizer {
    est_optimizer value;
    /* "Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"; for Linear also "None", TensorFlow's optimizer=None: Ftrl with the
     * learning rate min(0.2, 1 / sqrt(number of columns)) */
    const char *name;
    uint64_t    reserved[2]; /* zeros: room for members to come */
} est_canned_optimizer;

typedef struct est_canned_options {
    size_t struct_size; /* filled by EST_CANNED */

    /* features; borrowed columns stay alive until the estimator is freed */
    est_column_list columns;        /* DNN and Linear */
    est_column_list dnn_columns;    /* combined */
    est_column_list linear_columns; /* combined */

    /* the deep part */
    est_i64s             hidden_units;
    est_activation       activation; /* NULL: est_relu */
    double               dropout;    /* 0: none; the fraction that is dropped */
    bool                 batch_norm;
    est_canned_optimizer dnn_optimizer; /* combined; zeroed: Adagrad */

    /* the wide part */
    est_combiner         sparse_combiner;  /* 0: sum */
    est_canned_optimizer linear_optimizer; /* combined; zeroed: Ftrl */

    est_canned_optimizer optimizer; /* DNN, Linear and Baseline; zeroed: Adagrad for DNN, else Ftrl */

    /* the label */
    const est_head   *head;            /* for the ..._estimator functions; borrowed until the estimator is freed */
    int64_t           n_classes;       /* classifiers; 0: 2 */
    int64_t           label_dimension; /* regressors; 0: 1 */
    const char       *label;           /* the component with the labels; NULL: "label" */
    est_dtype         label_dtype;     /* in Examples, for parse specs; as in estoc/head.h */
    est_tensor       *label_default;   /* the same */
    const char       *weight_column;   /* NULL: none */
    const est_column *weight_numeric;  /* the same as a numeric column, with its normalizer and default; not both */
    est_strings       label_vocabulary;
    est_reduction     loss_reduction; /* as in estoc/head.h */

    /* the run */
    const char           *model_dir;
    const est_run_config *config;
    const est_warm_start *warm_start;
    bool                  v1;
} est_canned_options;
#define EST_CANNED(...) (&(const est_canned_options){ .struct_size = EST_STRUCT_SIZE(est_canned_options), __VA_ARGS__ })

/* Each creates an estimator: a classifier, a regressor, or one with the head of the options. Lists are copied.
 *
 * Deep: an input layer of all columns and hidden layers. */
EST_API EST_MUST_CHECK est_status est_dnn_classifier(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_dnn_regressor(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_dnn_estimator(const est_canned_options *options, est_estimator **out);

/* Wide: a weighted sum of all columns plus a bias. The summary fraction_of_zero_weights reads all weights, only in runs
 * that write summaries. */
EST_API EST_MUST_CHECK est_status est_linear_classifier(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_linear_regressor(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_linear_estimator(const est_canned_options *options, est_estimator **out);

/* The sum of a deep and a wide model, or one of them, each with an optimizer of its own. */
EST_API EST_MUST_CHECK est_status est_dnn_linear_combined_classifier(const est_canned_options *options,
                                                                     est_estimator           **out);
EST_API EST_MUST_CHECK est_status est_dnn_linear_combined_regressor(const est_canned_options *options,
                                                                    est_estimator           **out);
EST_API EST_MUST_CHECK est_status est_dnn_linear_combined_estimator(const est_canned_options *options,
                                                                    est_estimator           **out);

/* Only a bias: it learns the mean of the labels, a baseline for other models. */
EST_API EST_MUST_CHECK est_status est_baseline_classifier(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_baseline_regressor(const est_canned_options *options, est_estimator **out);
EST_API EST_MUST_CHECK est_status est_baseline_estimator(const est_canned_options *options, est_estimator **out);

/* --- their parts, for model_fns of your own ----------------------------------------------------------------------- */

/* The logits [batch, units] of the deep and of the wide part, with the same variable names as in the estimators. */
EST_API est_node est_dnn_logits(est_model *model, est_mode mode, int64_t units, const est_canned_options *options);
EST_API est_node est_linear_logits(est_model *model, int64_t units, const est_canned_options *options);

/* The parse spec of these columns, the label and the weight, as tf.estimator.classifier_parse_example_spec and
 * regressor_parse_example_spec. */
EST_API EST_MUST_CHECK est_status est_classifier_parse_spec(const est_canned_options *options, est_parse_spec **out);
EST_API EST_MUST_CHECK est_status est_regressor_parse_spec(const est_canned_options *options, est_parse_spec **out);

#ifdef __cplusplus
}
#endif
#endif
