/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporting: trained models as SavedModels, by hand or by exporters after evaluations.
 *
 * An export is a directory <base>/<seconds since 1970> with saved_model.pb, variables/ and assets/, as TensorFlow Serving
 * and tf.saved_model.load read it. It appears under its name only when it is complete and was checked: the exported graph
 * is read back, run by this library on rows, and must give the model's own numbers. The rows are some of the batch that
 * the estimator trained or evaluated with last; a model that refuses them is not exported. Features that had none, and
 * estimators that did neither, get made up ones. A model that takes none of these goes out unchecked, with a warning. Outputs
 * that depend on random numbers are run, but not compared, with a line in the log.
 *
 * A process that is killed leaves a directory temp-<seconds>-estoc, which no server looks at and the next export removes.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_EXPORTER_H
#define ESTOC_EXPORTER_H

#include "estoc/estimator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors that requests may feed in place of a receiver's own: features as model_fn sees them, behind the parsing. The
 * signatures that take them are called "<name>:<key>". */
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

/* What an exported model is fed. Parsing: one string vector "examples" of serialized tf.train.Examples. Raw: one
 * placeholder a feature, and "<name>/splits" for a ragged one. model_fn finds the features as in training; a graph to
 * train or to evaluate with is fed its labels in the same way, among the features. */
typedef struct est_serving_input {
    est_feature_specs         parse; /* a parsing receiver; zeroed: raw */
    est_components            raw;   /* shapes without the batch, which comes first */
    int64_t                   batch; /* 0: any */
    est_receiver_alternatives alternatives;
    uint64_t                  reserved[4]; /* zeros: room for members to come */
} est_serving_input;

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

/* How to export. An export has a graph for every input that is given, one at least: to serve, to train, to evaluate. */
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

/* Exports into a new directory below `base`, whose path goes into `path` (NULL: not wanted). The checkpoint is the one
 * given, the latest, or the one the estimator is warm-started from; EST_NOT_FOUND: there is none;
 * EST_FAILED_PRECONDITION: a variable of it is NaN, or the model has one that it lacks. A failure leaves the exports that
 * are there as they were; EST_DATA_LOSS: the check found that the export answers otherwise than the model.
 *
 * Signatures to serve: what model_fn gave by est_model_export_..., else all predictions as "serving_default". Those that
 * classify and regress need a parsing receiver (or one raw string) and are left out with any other, with a line in the log.
 * Graphs to train and to evaluate have one, "train" and "eval": the loss, "predictions/<key>", and for every metric
 * "metrics/<name>/value" and "/update_op".
 *
 * The variables are those of the first graph of train, eval and serve, so that slots of optimizers are only there with the
 * first. */
EST_API EST_MUST_CHECK est_status est_export_saved_model(est_estimator *estimator, const char *base,
                                                         const est_export_options *options,
                                                         char                      path[EST_CHECKPOINT_PATH_MAX]);

/* Finds before a training what est_export_saved_model would refuse after it: builds the same graphs and writes nothing. Called
 * by the check of an exporter, it also finds variables that the training does not have, or with other shapes. */
EST_API EST_MUST_CHECK est_status est_export_check_model(est_estimator *estimator, const est_export_options *options);

/* --- exporters ------------------------------------------------------------------------------------------------------- */

/* Who decides after an evaluation whether to export. One of your own is a struct that has this one in it, found again by
 * EST_CONTAINER_OF:
 *
 *     static est_status after_a_good_one(est_exporter *exporter, est_estimator *estimator, const char *export_path,
 *                                        const char *checkpoint_path, const est_metrics *metrics,
 *                                        bool is_the_final_export, char path[EST_CHECKPOINT_PATH_MAX])
 *     {
 *         if (est_metrics_get(metrics, "accuracy") < 0.9) return EST_OK;
 *         return est_export_saved_model(estimator, export_path, EST_EXPORT(..., .checkpoint_path = checkpoint_path), path);
 *     }
 *
 * The checkpoint has the values that were evaluated, and stays until the call returns, whatever the trainer removes: an
 * evaluator gives a path of links to its files. Where the file system has none it may vanish; an export that fails then
 * is skipped, with a warning. `path` is empty when it is called, and gets the directory of the export if there is one.
 *
 * The last two members are for what can be known before the first step of est_train_and_evaluate; zero leaves it out. */
struct est_exporter {
    size_t      struct_size; /* filled by EST_EXPORTER */
    const char *name;        /* of its directory, <model_dir>/export/<name>; borrowed as long as the exporter is used */
    est_status (*export_model)(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX]);
    void (*free)(est_exporter *exporter); /* NULL: nothing to free */
    const char *metric; /* that it compares: evaluations must have it; NULL: none, or whichever; borrowed as the name */
    est_status (*check)(est_exporter  *exporter,
                        est_estimator *estimator); /* whether it could; NULL: nothing to check */
};

#define EST_EXPORTER(...)                                                                                              \
    {                                                                                                                  \
        .struct_size = EST_STRUCT_SIZE(est_exporter), __VA_ARGS__                                                      \
    }

/* What train_and_evaluate calls after an evaluation, with <model_dir>/export/<name> as the export_path. `path` gets the
 * directory of the export, "" when there is none; NULL: not wanted. */
EST_API EST_MUST_CHECK est_status est_exporter_export(est_exporter *exporter, est_estimator *estimator,
                                                      const char *export_path, const char *checkpoint_path,
                                                      const est_metrics *metrics, bool is_the_final_export,
                                                      char path[EST_CHECKPOINT_PATH_MAX]);

/* Its name, borrowed until it is freed. */
EST_API const char *est_exporter_name(const est_exporter *exporter);
/* The directory that a latest, final or best exporter wrote last in this process, "" when there is none: of the best one
 * the best model, also when the last evaluation was not. Borrowed until the exporter is freed, and good until its next
 * export. One of your own has "". */
EST_API const char *est_exporter_last_path(const est_exporter *exporter);
EST_API void        est_exporter_free(est_exporter *exporter); /* NULL is fine */

/* current is better than best. */
typedef bool (*est_compare_fn)(void *user, const est_metrics *best, const est_metrics *current);

/* What Latest, Final and Best need to know. */
typedef struct est_exporter_options {
    size_t struct_size; /* filled by EST_EXPORTER_OPTIONS */
    const est_export_options
        *saved_model; /* EST_EXPORT(.input = ...); its checkpoint_path is not looked at; copied. required */

    /* 0: 5; EST_OFF: all. The newest count by name, of those with names of 10 digits; the one just made always stays. */
    int            exports_to_keep;
    est_compare_fn compare; /* best: NULL: by `metric` */
    void          *compare_user;

    /* best: event files below model_dir, looked at when none of the exports there says what its evaluation was, because something
     * else made them: the best result among them is taken to be that of an export. NULL: "eval/" "*.tfevents.*". "": what earlier
     * processes exported does not count, whatever it says. */
    const char *event_file_pattern;

    const char
        *metric; /* best: its smaller value is better; NULL: "loss"; with compare: only that there is such a metric */
    bool larger_is_better; /* best: of `metric`, its larger value */
} est_exporter_options;
#define EST_EXPORTER_OPTIONS(...)                                                                                      \
    (&(const est_exporter_options){ .struct_size = EST_STRUCT_SIZE(est_exporter_options), __VA_ARGS__ })

/* After every evaluation; at the end only; when the evaluation is better than those of all exports that are there. An export
 * of the best exporter holds its evaluation in assets.extra/estoc_evaluation.txt, a line "<value> <name>" for each metric, so that
 * the next process knows it; evaluations that were not exported do not count. TensorFlow's exports once in every process.
 * Made on the heap; NULL and an error when an argument is wrong or memory is out. */
EST_API EST_MUST_CHECK est_exporter *est_latest_exporter(const char *name, const est_exporter_options *options);
EST_API EST_MUST_CHECK est_exporter *est_final_exporter(const char *name, const est_exporter_options *options);
EST_API EST_MUST_CHECK est_exporter *est_best_exporter(const char *name, const est_exporter_options *options);

#ifdef __cplusplus
}
#endif
#endif
