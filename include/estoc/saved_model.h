/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModels read back: those that est_export_saved_model writes, and TensorFlow's, as far as their signatures need
 * only operations that Estoc has. TensorFlow's may be of Estimators and other programs of TensorFlow 1 (a graph, a
 * restore operation, tables with their files), or of TensorFlow 2 (objects whose functions call each other: Keras
 * models, tf.Module).
 *
 *     est_saved_model *model;
 *
 *     EST_TRY(est_saved_model_load("exports/digits", NULL, &model));
 *     for (int i = 0; i < est_saved_model_signatures(model); i++) puts(est_saved_model_signature(model, i)->name);
 *
 * Functions are inlined into one graph, which has what the signatures need; it has one session, whose variables are
 * restored from the model's files and shared by all signatures. Nothing changes them afterwards.
 *
 * Variables of 64 KiB and more are not copied but mapped from variables/variables.data-*, unless the file has them in
 * slices or at an odd offset: they are pages of the system's page cache, which processes that load the same model
 * share. So the files must stay as they are while the model is loaded (to remove or to rename them is fine; a file that
 * is truncated ends the process with SIGBUS). By default loading reads every byte once and checks it against its
 * checksum, as TensorFlow does.
 *
 * Threading: threads may load models, also the same one, at the same time. A model may be read by any thread; free it
 * when nothing uses it. */
#ifndef ESTOC_SAVED_MODEL_H
#define ESTOC_SAVED_MODEL_H

#include "estoc/graph.h"
#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_saved_model est_saved_model;

typedef struct est_saved_model_options {
    size_t      struct_size; /* filled by EST_SAVED_MODEL */
    est_strings tags;        /* of the graph: all that it has, in any order; empty: "serve" */
    int         threads;     /* 0: ESTOC_NUM_THREADS, else the cores this process may use */
    bool        no_verify;   /* checksums of variables that are mapped are not checked: loading does not read them */
    est_strings devices;     /* that compute beside the CPU: "/gpu:0"; copied; zeroed: none */
} est_saved_model_options;

#define EST_SAVED_MODEL(...)                                                                                           \
    (&(const est_saved_model_options){ .struct_size = EST_STRUCT_SIZE(est_saved_model_options), __VA_ARGS__ })

/* Loads the SavedModel in `dir` or, if `dir` has none, in the newest of the directories below it whose names are
 * numbers. options NULL: all defaults.
 *
 * A signature that needs an operation which Estoc does not have, or that has sparse tensors, is listed but cannot be
 * run; when that holds for all of them the model cannot be loaded, and the error (EST_UNIMPLEMENTED) names the
 * signature, the node and the operation. EST_NOT_FOUND: no such directory, no SavedModel in it, or no graph with these
 * tags. EST_DATA_LOSS: a file is damaged, or lacks a variable. EST_INVALID_ARGUMENT: the graph is wrong. */
EST_API EST_MUST_CHECK est_status est_saved_model_load(const char *dir, const est_saved_model_options *options,
                                                       est_saved_model **out);

/* NULL is fine. */
EST_API void est_saved_model_free(est_saved_model *model);

/* The directory that it was loaded from, with the version; borrowed until the model is freed. */
EST_API const char *est_saved_model_dir(const est_saved_model *model);

/* An input or output of a signature. */
typedef struct est_signature_tensor {
    const char *name;
    est_dtype   dtype; /* EST_DTYPE_NONE: one that tensors here do not have; the signature cannot be run then */
    est_shape   shape;
    const char *tensor;      /* its name in the graph, "x:0"; NULL: it is no dense tensor */
    uint64_t    reserved[3]; /* zeros: room for members to come */
} est_signature_tensor;

typedef struct est_saved_signature {
    const char                 *name;   /* "serving_default" */
    const char                 *method; /* "tensorflow/serving/predict" */
    const est_signature_tensor *inputs, *outputs;
    int                         n_inputs, n_outputs;
    const char                 *error;       /* why it cannot be run; NULL: it can */
    uint64_t                    reserved[4]; /* zeros: room for members to come */
} est_saved_signature;

/* The signatures, sorted by name, as are their inputs and outputs; borrowed until the model is freed. NULL when there
 * is no signature i. */
EST_API int                        est_saved_model_signatures(const est_saved_model *model);
EST_API const est_saved_signature *est_saved_model_signature(const est_saved_model *model, int i);

/* Builds the operations of a signature in another graph, which differentiates and trains them as its own: over inputs
 * in the order of the signature, and over handles of variables of that graph, by the names that they have in the files.
 * The outputs go to outputs[n_outputs]; *writes (NULL: not wanted) are the operations that change variables, without
 * which no output that needs them is computed, borrowed until the graph is freed. Operations that a signature orders
 * stay in order. Each call has tables of its own, filled as those of the model. EST_INVALID_ARGUMENT: another number or
 * type of inputs, or a variable is missing. Errors poison the graph. */
EST_API EST_MUST_CHECK est_status est_saved_model_call(const est_saved_model *model, const char *signature,
                                                       est_graph *graph, est_nodes inputs, est_named_nodes variables,
                                                       est_node *outputs, est_nodes *writes);

#ifdef __cplusplus
}
#endif
#endif
