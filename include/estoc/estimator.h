/* SPDX-License-Identifier: Apache-2.0
 *
 * The Estimator: a model_fn and a model directory, to train, evaluate, predict and export.
 *
 *     status = est_estimator_create(digits_model, EST_ESTIMATOR(
 *         .config = EST_RUN_CONFIG(.model_dir = "runs/digits", .save_checkpoints_steps = 500)), &digits);
 *     if (status == EST_OK) status = est_train_and_evaluate(digits,
 *         EST_TRAIN_SPEC(.input_fn = digits_input, .input_user = "train-*.tfrecord", .max_steps = 10000),
 *         EST_EVAL_SPEC (.input_fn = digits_input, .input_user = "test-*.tfrecord"), NULL);
 *     est_estimator_free(digits);
 *
 * All state is in the model directory: a restarted program resumes from the last checkpoint, with the same variables,
 * the same random numbers and the next row of its input. Only one trainer at a time may use a directory.
 *
 * SIGINT and SIGTERM stop a run cleanly: the step is finished, a checkpoint saved, and the call returns EST_CANCELLED,
 * which est_exit_code maps to 75 ("start again"). Evaluations, exports and predictions stop at the end of a batch. If
 * the log goes to standard error, a line acknowledges the signal, because a step that waits for input continues to
 * wait. A second signal, of either kind, ends the process at once; a restart resumes from the last checkpoint. If the
 * call has nothing left to stop when the signal arrives, it returns EST_OK; the signal then stops the next call, and a
 * log line says so, or it is raised again on return if the program has its own handler. Between two predictions, and
 * always with no_signals, the program handles signals itself.
 *
 * Threading: one thread at a time for each estimator. */
#ifndef ESTOC_ESTIMATOR_H
#define ESTOC_ESTIMATOR_H

#include "estoc/checkpoint.h"
#include "estoc/input.h"
#include "estoc/model.h"
#include "estoc/predictor.h"
#include "estoc/saver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_estimator est_estimator;

/* --- warm start --------------------------------------------------------------------------------------------------- */

/* A variable whose rows (or columns) belong to the entries of a vocabulary that has changed, as TensorFlow's VocabInfo.
 * Entries of both vocabularies keep their values. New entries and out-of-vocabulary buckets start with the value of
 * `backup`, or with the variable's initial value (`initial`), or with 0. Linear weights, whose initial value is always
 * 0, need `backup` for anything else. */
typedef struct est_vocab_info {
    const char *variable;       /* of the new model */
    const char *new_vocab;      /* a text file, an entry a line */
    const char *old_vocab;      /* that of the checkpoint */
    int64_t     new_vocab_size; /* entries used; 0: all */
    int64_t     old_vocab_size; /* 0: all */
    int64_t     num_oov_buckets;
    int         axis;    /* 0: rows; 1: columns */
    bool        initial; /* true: new entries keep the variable's initial value; not together with `backup` */
    /* backup_initializer: est_init_constant(0.1); .make NULL: none. It is called with the shape of the whole variable;
     * its `user` is borrowed until the estimator is freed */
    est_initializer backup;
    uint64_t        reserved[4]; /* zeros: room for members to come */
} est_vocab_info;

typedef struct est_vocab_infos {
    const est_vocab_info *data;
    int                   n;
} est_vocab_infos;

#define EST_VOCAB_INFOS(...) EST_SPAN(est_vocab_infos, const est_vocab_info, __VA_ARGS__)

/* The source of the initial values of a new run's variables. */
typedef struct est_warm_start {
    size_t      struct_size; /* filled by EST_WARM_START */
    const char *path;        /* a checkpoint, a model directory or a SavedModel directory; required */
    const char *variables;   /* an extended regular expression from the start of the name, "a|b"; NULL: ".*" */
    /* true: all variables and slots except the global step; false: trainable variables */
    bool            all;
    bool            only_vocabs; /* true: only those in `vocabs`; excludes the two above */
    est_renames     renames;     /* new name, name in the checkpoint; copied */
    est_vocab_infos vocabs;      /* copied */
} est_warm_start;
#define EST_WARM_START(...) (&(const est_warm_start){ .struct_size = EST_STRUCT_SIZE(est_warm_start), __VA_ARGS__ })

/* --- making one --------------------------------------------------------------------------------------------------- */

typedef struct est_estimator_options {
    size_t                struct_size; /* filled by EST_ESTIMATOR */
    const char           *model_dir;   /* NULL: that of config; must not differ from it */
    const est_run_config *config;      /* NULL: all defaults; copied */
    const void           *params;      /* passed to model_fn; copied, params_size bytes */
    size_t                params_size; /* 0: params is not copied, but borrowed until the estimator is freed */
    const est_warm_start *warm_start;  /* NULL: none; copied */
} est_estimator_options;

#define EST_ESTIMATOR(...)                                                                                             \
    (&(const est_estimator_options){ .struct_size = EST_STRUCT_SIZE(est_estimator_options), __VA_ARGS__ })

/* Creates an estimator; the first training creates its directory. options NULL: all defaults. */
EST_API EST_MUST_CHECK est_status est_estimator_create(est_model_fn model_fn, const est_estimator_options *options,
                                                       est_estimator **out);
EST_API void                      est_estimator_free(est_estimator *estimator); /* NULL is fine */

/* Its arguments, borrowed until it is freed. In the configuration all defaults are filled in and disabled settings are
 * EST_OFF, so that a modified copy can be used for another estimator. */
EST_API const char           *est_estimator_model_dir(const est_estimator *estimator);
EST_API const est_run_config *est_estimator_config(const est_estimator *estimator);
EST_API const est_task       *est_estimator_task(const est_estimator *estimator);

/* Adds metrics to those of model_fn in evaluations: fn gets features and labels from the model, predictions by
 * est_model_prediction, and calls est_model_metric; a metric of the same name is replaced. */
typedef est_status (*est_metric_fn)(est_model *model, void *user);
EST_API EST_MUST_CHECK est_status est_estimator_add_metrics(est_estimator *estimator, est_metric_fn fn, void *user);

/* In place of latest_checkpoint, get_variable_names and get_variable_value: est_checkpoint_latest(model_dir, path),
 * est_checkpoint_at and est_checkpoint_read after est_checkpoint_open(model_dir, &checkpoint). */

/* --- train, evaluate, predict ------------------------------------------------------------------------------------- */

typedef struct est_train_options {
    size_t               struct_size; /* filled by EST_TRAIN_OPTIONS */
    est_input_fn         input_fn;
    void                *input_user;
    int64_t              steps;            /* additional steps; 0: no limit */
    int64_t              max_steps;        /* global step to stop at; 0: no limit; not both */
    est_hooks            hooks;            /* borrowed until the call returns */
    est_saving_listeners saving_listeners; /* of the first checkpoint saver; borrowed until the call returns */
} est_train_options;
#define EST_TRAIN_OPTIONS(...)                                                                                         \
    (&(const est_train_options){ .struct_size = EST_STRUCT_SIZE(est_train_options), __VA_ARGS__ })

/* Trains from the latest checkpoint, or from the start, until a limit, the end of the input or a stop. Before that it
 * decodes the first row of the input's files as a check. With early stopping among the hooks, model_fn is called once
 * more, in mode EST_EVAL over the same input: an unknown metric is an error before the first step. */
EST_API EST_MUST_CHECK est_status est_train(est_estimator *estimator, const est_train_options *options);

/* The results of an evaluation: metrics in the order of their names, including "loss" and "global_step". The functions
 * accept NULL (no evaluation): NaN, and step -1. */
typedef struct est_metrics est_metrics;
EST_API int                est_metrics_count(const est_metrics *metrics);
EST_API const char        *est_metrics_name(const est_metrics *metrics, int i);
EST_API double             est_metrics_value(const est_metrics *metrics, int i);
EST_API double             est_metrics_get(const est_metrics *metrics, const char *name); /* NaN: no such metric */
EST_API int64_t            est_metrics_global_step(const est_metrics *metrics);
/* After est_train_and_evaluate: the directory into which exporter i of the eval spec exported the evaluated checkpoint;
 * NULL: it did not export, for example because the evaluation was not the best (est_exporter_last_path has the best
 * one). Borrowed until the metrics are freed. */
EST_API const char *est_metrics_export_path(const est_metrics *metrics, int i);
EST_API void        est_metrics_free(est_metrics *metrics); /* NULL is fine */

typedef struct est_evaluate_options {
    size_t       struct_size; /* filled by EST_EVALUATE_OPTIONS */
    est_input_fn input_fn;
    void        *input_user;
    int64_t      steps;           /* 0 or EST_FOREVER: until the input ends */
    const char  *name;            /* NULL: the results go to model_dir/eval; else to model_dir/eval_<name> */
    const char  *checkpoint_path; /* NULL: the latest */
    est_hooks    hooks;
} est_evaluate_options;
#define EST_EVALUATE_OPTIONS(...)                                                                                      \
    (&(const est_evaluate_options){ .struct_size = EST_STRUCT_SIZE(est_evaluate_options), __VA_ARGS__ })

/* Evaluates a checkpoint over the input; the caller owns the metrics (out may be NULL). They are also written to the
 * event files of the evaluation; if these cannot be written, as in a read-only directory, it logs a warning. */
EST_API EST_MUST_CHECK est_status est_evaluate(est_estimator *estimator, const est_evaluate_options *options,
                                               est_metrics **out);

typedef struct est_predict_options {
    size_t       struct_size; /* filled by EST_PREDICT_OPTIONS */
    est_input_fn input_fn;
    void        *input_user;
    /* empty: all predictions; keys that the model does not have are ignored, at least one must exist */
    est_strings keys;
    bool        batches;         /* true: a batch at a time; else one example */
    const char *checkpoint_path; /* NULL: the latest */
    est_hooks   hooks;
} est_predict_options;
#define EST_PREDICT_OPTIONS(...)                                                                                       \
    (&(const est_predict_options){ .struct_size = EST_STRUCT_SIZE(est_predict_options), __VA_ARGS__ })

/* Starts predictions (estoc/predictor.h). Options are checked now; nothing is computed before the first call of
 * est_predictions_next. */
EST_API EST_MUST_CHECK est_status est_predict(est_estimator *estimator, const est_predict_options *options,
                                              est_predictions **out);

/* --- hooks that need the estimator -------------------------------------------------------------------------------- */

/* Each is allocated on the heap and freed with est_hook_free, as those of estoc/hooks.h. They borrow the estimator. */

typedef struct est_in_memory_options {
    size_t       struct_size; /* filled by EST_IN_MEMORY */
    est_input_fn input_fn;
    void        *input_user;   /* borrowed until the hook is freed */
    int64_t      steps;        /* 0 or EST_FOREVER: until the input ends */
    const char  *name;         /* NULL: the results go to model_dir/eval; else to model_dir/eval_<name>; copied */
    int64_t      every_n_iter; /* 0: 100 */
    est_hooks    hooks;        /* of the evaluations; borrowed until the hook is freed, the list is copied */
} est_in_memory_options;
#define EST_IN_MEMORY(...)                                                                                             \
    (&(const est_in_memory_options){ .struct_size = EST_STRUCT_SIZE(est_in_memory_options), __VA_ARGS__ })

/* Evaluates during training without a checkpoint: copies the variables into a second graph, in mode EST_EVAL, after the
 * session is created, every n runs, and at the end. Training waits meanwhile. Only for training in one process. */
EST_API EST_MUST_CHECK est_hook *est_in_memory_evaluator_hook(est_estimator               *estimator,
                                                              const est_in_memory_options *options);

/* Stops at a global step; workers other than the chief stop only after a checkpoint of that step is saved, so that they
 * stay as long as the chief. They check every wait_secs; 0: 30. */
EST_API EST_MUST_CHECK est_hook *est_stop_at_checkpoint_step_hook(est_estimator *estimator, int64_t last_step,
                                                                  double wait_secs);

/* --- train_and_evaluate ------------------------------------------------------------------------------------------- */

typedef struct est_train_spec {
    size_t               struct_size; /* filled by EST_TRAIN_SPEC */
    est_input_fn         input_fn;
    void                *input_user;
    int64_t              max_steps; /* 0: until the input ends */
    est_hooks            hooks;
    est_saving_listeners saving_listeners;
} est_train_spec;
#define EST_TRAIN_SPEC(...) (&(const est_train_spec){ .struct_size = EST_STRUCT_SIZE(est_train_spec), __VA_ARGS__ })

typedef struct est_exporter est_exporter; /* estoc/exporter.h */

typedef struct est_exporters {
    est_exporter *const *data;
    int                  n;
} est_exporters;

#define EST_EXPORTERS(...) EST_SPAN(est_exporters, est_exporter *const, __VA_ARGS__)

typedef struct est_eval_spec {
    size_t       struct_size; /* filled by EST_EVAL_SPEC */
    est_input_fn input_fn;
    void        *input_user;

    /* Batches; 0 or EST_FOREVER: until the input ends, as in est_evaluate_options. The EvalSpec of TensorFlow has 100
     * as its default. 0 is refused when the input is known to have no end. */
    int64_t steps;

    const char   *name;
    est_hooks     hooks;
    est_exporters exporters;
    double        start_delay_secs; /* 0: 120; EST_OFF: none; for a separate evaluator */
    double        throttle_secs;    /* 0: 600; EST_OFF: none */
} est_eval_spec;
#define EST_EVAL_SPEC(...) (&(const est_eval_spec){ .struct_size = EST_STRUCT_SIZE(est_eval_spec), __VA_ARGS__ })

/* Trains, and evaluates and exports after checkpoints, in the role that TF_CONFIG gives this process. *out (may be
 * NULL) receives the last evaluation, NULL if there was none; est_metrics_export_path has the exports made after it.
 *
 * In a cluster an evaluator task evaluates. Without an evaluator the chief evaluates the last checkpoint and exports
 * after training has ended and all other tasks have left, unlike in TensorFlow. If it is killed or stopped during that,
 * a restart repeats only the evaluation and export. With eval_distribute all workers evaluate.
 *
 * Preflight: a single process, the chief of a cluster and its evaluator find errors of the first evaluation before the
 * first step. They call the evaluation's input_fn once more and free its dataset without iterating it; the first row of
 * files that its stages read is decoded, except from pipes. model_fn is called once more in mode EST_EVAL and once for
 * every input of an exporter. These graphs never run. Errors are:
 *
 *  - an input_fn that fails, files that are missing, have no row, or whose first row lacks a column (a chief without
 *    access to the files continues);
 *  - a model_fn that fails in mode EST_EVAL or for the input of an exporter; variables that the training does not have,
 *    or with other shapes;
 *  - a metric of an exporter or of early stopping (estoc/early_stopping.h) that evaluations do not have;
 *  - directories for results and exports that cannot be written to.
 *
 * A warning is logged for early stopping that cannot stop the run, because no evaluation takes place before its end. */
EST_API EST_MUST_CHECK est_status est_train_and_evaluate(est_estimator *estimator, const est_train_spec *train,
                                                         const est_eval_spec *eval, est_metrics **out);

/* The exit code of a program for the status of its run: 0 for EST_OK, 75 for EST_CANCELLED when a signal ended its last
 * call of the library (start it again to resume), else 1. */
EST_API int est_exit_code(est_status status);

#ifdef __cplusplus
}
#endif
#endif
