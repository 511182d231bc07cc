/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporting: trained models as SavedModels, by hand or by exporters after evaluations.
 *
 * An export is a directory <base>/<seconds since 1970> with saved_model.pb, variables/ and assets/, as TensorFlow
 * Serving and tf.saved_model.load read it. It appears under its name only when it is complete and was checked: the
 * exported graph is read back, run by this library on rows, and must give the model's own numbers. The rows come from
 * the batch that the estimator trained or evaluated with last; a model that fails on them is not exported. Without such
 * rows the check generates values. A model that accepts no generated rows is exported unchecked, with a warning.
 * Outputs that depend on random numbers are run but not compared, with a line in the log.
 *
 * A killed process leaves a directory temp-<seconds>-estoc, which servers ignore and the next export removes.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_EXPORTER_H
#define ESTOC_EXPORTER_H

#include "estoc/estimator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors that requests may feed in place of the receiver's placeholders: features as model_fn sees them, after
 * parsing. The signatures that take them are called "<name>:<key>". */
typedef struct est_receiver_alternative {
    const char *name;
    est_strings features;    /* with their "<feature>/splits" or "/lengths"; zeroed: all */
    uint64_t    reserved[4]; /* zeros: room for members to come */
} est_receiver_alternative;

typedef struct est_receiver_alternatives {
    const est_receiver_alternative *data;
    int                             n;
} est_receiver_alternatives;

#define EST_RECEIVER_ALTERNATIVES(...) EST_SPAN(est_receiver_alternatives, const est_receiver_alternative, __VA_ARGS__)

/* A serving input while its function builds it. */
typedef struct est_serving est_serving;

/* Builds a serving input of any kind, as a serving_input_receiver_fn of TensorFlow does: makes the placeholders of
 * requests, and of them, by any operations, the features:
 *
 *     static est_status serving_input(est_serving *serving, void *user)
 *     {
 *         est_node age = est_serving_placeholder(serving, "age", EST_F32, EST_SHAPE(-1));
 *
 *         est_serving_feature(serving, "age", est_expand_dims(age, -1));
 *         return est_serving_status(serving);
 *     }
 *
 * Called once for every graph. */
typedef est_status (*est_serving_fn)(est_serving *serving, void *user);

/* The input of an exported model, of one of three kinds. Parsing: one string vector "examples" of serialized
 * tf.train.Examples. Raw: one placeholder per feature, and "<name>/splits" for a ragged one. By a function: what it
 * builds. model_fn finds the features as in training; graphs to train or evaluate get their labels in the same way,
 * among the features. */
typedef struct est_serving_input {
    est_feature_specs         parse; /* a parsing receiver; zeroed: another kind */
    est_components            raw;   /* shapes without the batch, which comes first */
    int64_t                   batch; /* 0: any; not with build */
    est_receiver_alternatives alternatives;
    est_serving_fn            build;       /* NULL: another kind */
    void                     *user;        /* of build; borrowed as long as the input is used */
    uint64_t                  reserved[2]; /* zeros: room for members to come */
} est_serving_input;

/* In an est_serving_fn: the graph; a new placeholder that requests fill under the name `key`, whose shape includes the
 * batch; a feature of the model, a ragged one with its splits. A name that is used twice is an error. The status is
 * EST_OK or the first error of the graph or of one of these calls. */
EST_API est_graph *est_serving_graph(est_serving *serving);
EST_API est_node   est_serving_placeholder(est_serving *serving, const char *key, est_dtype dtype, est_shape shape);
EST_API void       est_serving_feature(est_serving *serving, const char *name, est_node value);
EST_API void       est_serving_ragged(est_serving *serving, const char *name, est_ragged_node value);
EST_API EST_MUST_CHECK est_status est_serving_status(const est_serving *serving);

/* A file to copy into an export. */
typedef struct est_asset {
    const char *name; /* under assets.extra/ */
    const char *path; /* of the file */
} est_asset;

typedef struct est_assets {
    const est_asset *data;
    int              n;
} est_assets;

#define EST_ASSETS(...) EST_SPAN(est_assets, const est_asset, __VA_ARGS__)

/* How to export. An export has a graph for every given input, at least one of: serving, training, evaluation. */
typedef struct est_export_options {
    size_t            struct_size;     /* filled by EST_EXPORT */
    est_serving_input input;           /* tag "serve" */
    const char       *checkpoint_path; /* NULL: the latest */
    bool              as_text;         /* saved_model.pbtxt in place of .pb */
    est_assets        assets_extra;
    est_serving_input train_input; /* tag "train"; the operation to run is in the collection saved_model_train_op */
    est_serving_input eval_input;  /* tag "eval" */
} est_export_options;
#define EST_EXPORT(...) (&(const est_export_options){ .struct_size = EST_STRUCT_SIZE(est_export_options), __VA_ARGS__ })

/* Exports into a new directory below `base` and writes its path into `path` (may be NULL). The checkpoint is the given
 * one, the latest, or that of the warm start; EST_NOT_FOUND: there is none; EST_FAILED_PRECONDITION: it has a NaN or
 * lacks a variable of the model. EST_DATA_LOSS: the check found that the outputs of the export differ from the model's.
 * A failure leaves existing exports unchanged.
 *
 * Serving signatures: the outputs that model_fn registered with est_model_export_..., else all predictions as
 * "serving_default". Classify and regress signatures need a parsing receiver (or one raw string); with any other they
 * are excluded, with a line in the log. Graphs to train and to evaluate have one signature each, "train" and "eval":
 * the loss, "predictions/<key>", and for every metric "metrics/<name>/value" and "/update_op".
 *
 * The exported variables are those of the first graph in the order train, eval, serve, so that only a train graph
 * brings the optimizer's slots. */
EST_API EST_MUST_CHECK est_status est_export_saved_model(est_estimator *estimator, const char *base,
                                                         const est_export_options *options,
                                                         char                      path[EST_CHECKPOINT_PATH_MAX]);

/* Checks before training whether est_export_saved_model would succeed: builds the same graphs and writes nothing.
 * Called by the check of an exporter, it also finds variables that the training does not have, or with other shapes. */
EST_API EST_MUST_CHECK est_status est_export_check_model(est_estimator *estimator, const est_export_options *options);

/* A predictor of a model without an export: its graph over the serving input, in mode EST_PREDICT, with the variables
 * of a checkpoint (NULL: the latest; without any, initial values, with a warning). Inputs are those of the receiver,
 * outputs are all predictions; est_predictor_options.outputs selects. Free it before the estimator. */
EST_API EST_MUST_CHECK est_status est_estimator_predictor(est_estimator *estimator, const est_serving_input *input,
                                                          const char                  *checkpoint_path,
                                                          const est_predictor_options *options, est_predictor **out);

/* --- exporters ---------------------------------------------------------------------------------------------------- */

/* An exporter decides after an evaluation whether to export. To write your own, embed this struct in yours and find it
 * again with EST_CONTAINER_OF:
 *
 *     static est_status after_a_good_one(est_exporter *exporter, est_estimator *estimator, const char *export_path,
 *                                        const char *checkpoint_path, const est_metrics *metrics,
 *                                        bool is_the_final_export, char path[EST_CHECKPOINT_PATH_MAX])
 *     {
 *         if (est_metrics_get(metrics, "accuracy") < 0.9) return EST_OK;
 *         return est_export_saved_model(estimator, export_path, EST_EXPORT(..., .checkpoint_path = checkpoint_path),
 *                                       path);
 *     }
 *
 * The checkpoint has the evaluated values and exists until the call returns, even if the trainer removes it: an
 * evaluator passes a path of hard links to its files. Where the file system has no hard links it may vanish; an export
 * that fails then is skipped, with a warning. `path` is empty at the call and receives the directory of the export, if
 * any.
 *
 * The last two members are for checks before the first step of est_train_and_evaluate; zero skips them. */
struct est_exporter {
    size_t      struct_size; /* filled by EST_EXPORTER */
    const char *name;        /* of its directory, <model_dir>/export/<name>; borrowed as long as the exporter is used */
    est_status (*export_model)(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX]);
    void (*free)(est_exporter *exporter); /* NULL: nothing to free */
    /* the metric that it compares, which evaluations must have; NULL: no check; borrowed like the name */
    const char *metric;
    est_status (*check)(est_exporter *exporter, est_estimator *estimator); /* whether it could export; NULL: no check */
};

#define EST_EXPORTER(...)                                                                                              \
    {                                                                                                                  \
        .struct_size = EST_STRUCT_SIZE(est_exporter), __VA_ARGS__                                                      \
    }

/* Calls an exporter, as est_train_and_evaluate does after an evaluation with <model_dir>/export/<name> as export_path.
 * `path` (may be NULL) receives the directory of the export, "" when there is none. */
EST_API EST_MUST_CHECK est_status est_exporter_export(est_exporter *exporter, est_estimator *estimator,
                                                      const char *export_path, const char *checkpoint_path,
                                                      const est_metrics *metrics, bool is_the_final_export,
                                                      char path[EST_CHECKPOINT_PATH_MAX]);

/* Its name, borrowed until it is freed. */
EST_API const char *est_exporter_name(const est_exporter *exporter);
/* The last directory that a latest, final or best exporter wrote in this process, "" when there is none; for the best
 * exporter that of the best model, even if the last evaluation was not the best. Borrowed until the exporter is freed,
 * valid until its next export. "" for your own exporters. */
EST_API const char *est_exporter_last_path(const est_exporter *exporter);
EST_API void        est_exporter_free(est_exporter *exporter); /* NULL is fine */

/* Returns whether current is better than best. */
typedef bool (*est_compare_fn)(void *user, const est_metrics *best, const est_metrics *current);

/* Options of the latest, final and best exporter. */
typedef struct est_exporter_options {
    size_t struct_size; /* filled by EST_EXPORTER_OPTIONS */
    /* EST_EXPORT(.input = ...); its checkpoint_path is ignored; copied. required */
    const est_export_options *saved_model;

    /* 0: 5; EST_OFF: all. The newest by name are kept, among names of 10 digits; the one just written always stays. */
    int            exports_to_keep;
    est_compare_fn compare; /* best: NULL: by `metric` */
    void          *compare_user;

    /* best: event files below model_dir, read when no existing export has a record of its evaluation, because another
     * program made them: the best result in the files is assumed to be that of an export. NULL: "eval/" "*.tfevents.*".
     * "": exports of earlier processes are ignored. */
    const char *event_file_pattern;

    const char *metric; /* best: its smaller value is better; NULL: "loss"; with compare: only checked for existence */
    bool        larger_is_better; /* best: the larger value of `metric` is better */
} est_exporter_options;
#define EST_EXPORTER_OPTIONS(...)                                                                                      \
    (&(const est_exporter_options){ .struct_size = EST_STRUCT_SIZE(est_exporter_options), __VA_ARGS__ })

/* Export after every evaluation; only at the end; when the evaluation is better than those of all existing exports. The
 * best exporter writes the evaluation to assets.extra/estoc_evaluation.txt, a line "<value> <name>" for each metric, so
 * that a later process knows it; evaluations without an export do not count. (TensorFlow's exports once in every
 * process.) Allocated on the heap; NULL and an error for a wrong argument or when out of memory. */
EST_API EST_MUST_CHECK est_exporter *est_latest_exporter(const char *name, const est_exporter_options *options);
EST_API EST_MUST_CHECK est_exporter *est_final_exporter(const char *name, const est_exporter_options *options);
EST_API EST_MUST_CHECK est_exporter *est_best_exporter(const char *name, const est_exporter_options *options);

/* --- graphs of your own ------------------------------------------------------------------------------------------- */

/* A signature of a SavedModel: what a request gives and gets, by name. Inputs are placeholders. */
typedef struct est_graph_signature {
    const char     *name; /* "serving_default" */
    est_named_nodes inputs, outputs;
    uint64_t        reserved[4]; /* zeros: room for members to come */
} est_graph_signature;

typedef struct est_graph_signatures {
    const est_graph_signature *data;
    int                        n;
} est_graph_signatures;

#define EST_GRAPH_SIGNATURES(...) EST_SPAN(est_graph_signatures, const est_graph_signature, __VA_ARGS__)

/* Writes the graph of a session, with the values of its variables, as the SavedModel `dir`: tf.saved_model.save for
 * graphs. Signatures need not have inputs in common. Tables get an operation that fills them, which joins the graph.
 * Checked and replaced as est_network_save does it. */
EST_API EST_MUST_CHECK est_status est_export_graph(est_session *session, est_graph_signatures signatures,
                                                   const char *dir);

#ifdef __cplusplus
}
#endif
#endif
