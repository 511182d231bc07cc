/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a model_fn builds: its inputs, and the outputs that model_fn registers.
 *
 *     static est_status digits(est_model *m, est_mode mode, const void *params)
 *     {
 *         est_node image  = est_model_feature(m, "image");
 *         est_node logits = est_dense(image, 10, NULL);
 *
 *         est_model_predict(m, "digit", est_argmax(logits, -1));
 *         if (mode == EST_PREDICT) return est_model_status(m);
 *         ...
 *         est_model_loss(m, loss);
 *         if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0, NULL), loss);
 *         return est_model_status(m);
 *     }
 *
 * A model_fn is called once for every graph: for training, for each evaluation, for prediction, for an export. Modes
 * require: train a loss and a training operation, eval a loss, predict a prediction. The model keeps the first error;
 * return est_model_status from model_fn.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_MODEL_H
#define ESTOC_MODEL_H

#include "estoc/feature_column.h"
#include "estoc/hooks.h"
#include "estoc/input.h"
#include "estoc/metrics.h"
#include "estoc/optimizers.h"
#include "estoc/run_config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_model est_model;

typedef est_status (*est_model_fn)(est_model *model, est_mode mode, const void *params);

/* EST_OK, or the first error of the graph or of one of the calls below. */
EST_API EST_MUST_CHECK est_status est_model_status(const est_model *model);

/* The context of the model; borrowed until model_fn returns. */
EST_API est_graph            *est_model_graph(est_model *model);
EST_API const est_run_config *est_model_config(const est_model *model); /* resolved: all defaults are filled in */
EST_API const est_task       *est_model_task(const est_model *model);
EST_API est_node              est_model_global_step(est_model *model); /* its handle */

/* --- input -------------------------------------------------------------------------------------------------------- */

/* A component of the dataset of input_fn, by name; the two functions differ only in the error for a missing one. In
 * EST_PREDICT a label is an error. A ragged component is a list of values and splits. */
EST_API est_node est_model_feature(est_model *model, const char *name);
EST_API est_node est_model_label(est_model *model, const char *name);
EST_API bool     est_model_has(const est_model *model, const char *name); /* whether there is such a component */

/* A ragged component. */
EST_API est_ragged_node est_model_ragged(est_model *model, const char *name);

/* All components by name, for the layers of <estoc/feature_column.h>: only the components that they use are fed.
 * Borrowed until model_fn returns. */
EST_API est_features est_model_features(est_model *model);

/* --- output ------------------------------------------------------------------------------------------------------- */

/* Predictions, the loss, and metrics by name (a later one of the same name replaces it). */
EST_API void est_model_predict(est_model *model, const char *key, est_node value);
/* Rows of unequal length: `key` and "<key>/splits". est_predict makes rows of them. */
EST_API void     est_model_predict_ragged(est_model *model, const char *key, est_ragged_node value);
EST_API est_node est_model_prediction(est_model *model, const char *key); /* registered before; EST_NO_NODE: none */
EST_API void     est_model_loss(est_model *model, est_node loss);         /* one element, see est_mean */
EST_API void     est_model_metric(est_model *model, const char *name, est_metric metric);

/* The training operation: an optimizer on a loss, or any node that is run for a step and advances the global step. */
EST_API void est_model_minimize(est_model *model, est_optimizer optimizer, est_node loss);
EST_API void est_model_train_op(est_model *model, est_node train_op);

/* Outputs of an exported model. Default: all predictions under "serving_default". */
EST_API void est_model_export_predict(est_model *model, const char *key, est_named_nodes outputs);
EST_API void est_model_export_classify(est_model *model, const char *key, est_node scores, est_node classes);
EST_API void est_model_export_regress(est_model *model, const char *key, est_node value);

/* Summaries, written every save_summary_steps. A scalar is one number; text is one string; an image is [n, height,
 * width, 1, 3 or 4] of uint8, or of floats, of which the first max_images are shown. Anything else is an error; if the
 * shape is unknown, the error comes when the summary is written. */
EST_API void est_model_scalar(est_model *model, const char *tag, est_node value);
EST_API void est_model_histogram(est_model *model, const char *tag, est_node values);
EST_API void est_model_text(est_model *model, const char *tag, est_node text);
EST_API void est_model_image(est_model *model, const char *tag, est_node images, int max_images);

/* Hooks of this model: for training on all tasks, for training on the chief, for evaluation, for prediction. Taken:
 * freed after the loop. */
EST_API void est_model_training_hook(est_model *model, est_hook *hook);
EST_API void est_model_chief_hook(est_model *model, est_hook *hook);
EST_API void est_model_evaluation_hook(est_model *model, est_hook *hook);
EST_API void est_model_prediction_hook(est_model *model, est_hook *hook);

#ifdef __cplusplus
}
#endif
#endif
