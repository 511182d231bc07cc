/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors: run a signature of a model on named tensors, in any number of threads at once.
 *
 *     est_predictor_create(model, "serving_default", NULL, &predictor);
 *     est_predictor_run(predictor, EST_NAMED_TENSORS({ "age", ages }, { "job", jobs }), outputs);
 *
 * The borrowed form copies nothing and, for batches of sizes that it has seen, allocates nothing. Each thread has an
 * est_prediction of its own:
 *
 *     est_prediction_create(predictor, &prediction);
 *     while (...) {
 *         est_prediction_run(prediction, EST_NAMED_TENSORS({ "age", ages }, { "job", jobs }));
 *         const float *p = est_prediction_data(prediction, est_predictor_output(predictor, "probabilities"));
 *     }
 *
 * Predictions read the variables of the model, which all of them share and none of them changes; a signature that
 * changes variables is refused.
 *
 * Threading: est_predictor_run, est_prediction_create and est_prediction_free are called by any thread, with one
 * predictor of the model or several; an est_prediction belongs to one thread at a time; create and free a predictor
 * while nothing else uses it or its model. */
#ifndef ESTOC_PREDICTOR_H
#define ESTOC_PREDICTOR_H

#include "estoc/dataset.h"
#include "estoc/saved_model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_predictor  est_predictor;
typedef struct est_prediction est_prediction;

typedef struct est_predictor_options {
    size_t      struct_size; /* filled by EST_PREDICTOR */
    int         threads;     /* of one call; 0: 1, since calls run beside each other; EST_AUTO: the cores */
    est_strings outputs;     /* only these are computed, in this order; empty: all; copied */
} est_predictor_options;
#define EST_PREDICTOR(...)                                                                                             \
    (&(const est_predictor_options){ .struct_size = EST_STRUCT_SIZE(est_predictor_options), __VA_ARGS__ })

/* A predictor of a signature; NULL: "serving_default". The model is borrowed until the predictor is freed. options
 * NULL: all defaults. EST_NOT_FOUND: there is no such signature; EST_UNIMPLEMENTED: it cannot be run
 * (estoc/saved_model.h). EST_INVALID_ARGUMENT: it changes variables, or an output that is asked for does not exist. */
EST_API EST_MUST_CHECK est_status est_predictor_create(const est_saved_model *model, const char *signature,
                                                       const est_predictor_options *options, est_predictor **out);

/* Frees the predictor; its est_predictions must be freed before. NULL is fine. */
EST_API void est_predictor_free(est_predictor *predictor);

/* What it takes and gives: names, dtypes and shapes, in the order of the signature. Borrowed until it is freed. */
EST_API est_components est_predictor_inputs(const est_predictor *predictor);
EST_API est_components est_predictor_outputs(const est_predictor *predictor);

/* The number of an output; -1: there is none of this name. */
EST_API int est_predictor_output(const est_predictor *predictor, const char *name);

/* Computes the outputs into outputs[n], new tensors that the caller owns; written only on success. `inputs` has one
 * tensor for every input, in any order, borrowed during the call. EST_INVALID_ARGUMENT: a name that the signature does
 * not have, a missing input, another dtype or shape, a batch without rows. */
EST_API EST_MUST_CHECK est_status est_predictor_run(est_predictor *predictor, est_named_tensors inputs,
                                                    est_tensor **outputs);

/* Memory for one call at a time: a plan for each range of batch sizes (1, 2 to 4, 5 to 16, ...), made when a batch of
 * such a size comes first. The predictor is borrowed until it is freed. */
EST_API EST_MUST_CHECK est_status est_prediction_create(est_predictor *predictor, est_prediction **out);
EST_API void                      est_prediction_free(est_prediction *prediction); /* NULL is fine */

/* As est_predictor_run, but the outputs stay in the memory of the prediction. */
EST_API EST_MUST_CHECK est_status est_prediction_run(est_prediction *prediction, est_named_tensors inputs);

/* Output i of the last run that succeeded, borrowed until the next run. An output that is an input is that tensor's
 * memory, and texts that come from one are its texts: keep the inputs as long. NULL: there is no such output, or no run
 * yet. */
EST_API const void      *est_prediction_data(const est_prediction *prediction, int i);
EST_API const est_shape *est_prediction_shape(const est_prediction *prediction, int i);

/* --- predictions for a whole input -------------------------------------------------------------------------------- */

/* An iterator over predictions, by example or by batch; est_predict and est_predictor_predict give one. */
typedef struct est_predictions est_predictions;

/* Advances to the next prediction; EST_OUT_OF_RANGE at the end. */
EST_API EST_MUST_CHECK est_status est_predictions_next(est_predictions *predictions);
/* The values of the current prediction, borrowed until the next one; NULL: no such key. For a ragged prediction an
 * example has its own row; a batch has the values of all rows, and their splits under "<key>/splits". */
EST_API const est_tensor *est_predictions_get(const est_predictions *predictions, const char *key);
EST_API int               est_predictions_count(const est_predictions *predictions);
EST_API const char       *est_predictions_key(const est_predictions *predictions, int i);
EST_API void              est_predictions_free(est_predictions *predictions); /* NULL is fine */

/* Predictions for the elements of `input`, which are batches: the components have the names of the inputs, and the
 * splits of a ragged component are the input "<name>/splits"; components that are no input are ignored. `keys` and
 * `batches` are those of est_predict_options. Predictor and dataset are borrowed until the predictions are freed. */
EST_API EST_MUST_CHECK est_status est_predictor_predict(est_predictor *predictor, const est_dataset *input,
                                                        est_strings keys, bool batches, est_predictions **out);

#ifdef __cplusplus
}
#endif
#endif
