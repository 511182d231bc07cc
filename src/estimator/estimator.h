/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimator's private struct, and the functions that train, evaluate, predict and export share. The public half is
 * estoc/estimator.h. */
#ifndef EST_ESTIMATOR_ESTIMATOR_H
#define EST_ESTIMATOR_ESTIMATOR_H

#include "base/alloc.h"
#include "estimator/model.h"
#include "estimator/sample_rows.h"
#include "estoc/estimator.h"
#include "train/lock.h"
#include "train/loop.h"
#include "train/pin.h"

/* Extras that a checkpoint holds beside the variables, so that training resumes bit-exactly. */
#define EST_EXTRA_INPUT "estoc/input_position" /* uint8 [n]: est_iterator_save */
#define EST_EXTRA_RUNS  "estoc/run_count"      /* int64: est_session_run_count */
#define EST_EXTRA_SEED  "estoc/seed"           /* int64: of the graph's random operations */

/* The end mark in a model directory (estimator/done_mark.h). */
#define EST_DONE_FILE "training_done"

typedef struct est_metric_extender {
    est_metric_fn               fn;
    void                       *user;
    struct est_metric_extender *next; /* called after this one */
} est_metric_extender;

struct est_estimator {
    est_arena            *arena;
    est_model_fn          model_fn;
    const void           *params; /* a copy */
    size_t                params_size;
    est_run_config        config; /* resolved: all defaults are filled in, disabled settings are EST_OFF */
    est_resolver         *resolver;
    const est_task       *task;
    const char           *model_dir;
    bool                  dir_is_temporary; /* a temporary directory, which no other task knows */
    const est_warm_start *warm_start;       /* a copy in the arena; NULL: none */
    est_metric_extender  *extenders;
    est_sample_rows       rows; /* of the last input; exports are checked with them */
    /* while exporters are checked: the graph with the variables of checkpoints; NULL: unknown */
    const est_model *known;
    /* while exporters are called: the pin of the evaluated checkpoint; NULL: nothing is pinned */
    const est_pin *pin;
    void          *owned; /* freed with the estimator; NULL: nothing */
    void (*free_owned)(void *owned);
};

/* Gives a canned estimator the params of its model_fn: takes `object` and calls free_fn(object) when the estimator is
 * freed. Call it once, for an estimator that was created without params. */
void est_estimator_own(est_estimator *estimator, void *object, void (*free_fn)(void *object));

/* The strategy of the configuration for a mode; NULL: none. */
const est_strategy *est_estimator_strategy(const est_estimator *estimator, est_mode mode);

/* The dataset that input_fn makes for a mode. */
EST_MUST_CHECK est_status est_estimator_input(est_estimator *estimator, est_mode mode, est_input_fn input_fn,
                                              void *user, uint64_t seed, uint64_t job_seed, est_dataset **out);

/* Builds the model of a mode over an input. */
EST_MUST_CHECK est_status est_estimator_build(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* The same, with TensorFlow's log lines before and after. */
EST_MUST_CHECK est_status est_estimator_model(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* Creates the model directory if it does not exist, and fails if it is not writable. */
EST_MUST_CHECK est_status est_estimator_make_dir(const est_estimator *estimator);

/* The model directory as an absolute path, for processes with another working directory. */
#define EST_DIR_TEXT_MAX (2 * EST_CHECKPOINT_PATH_MAX)
void est_estimator_full_dir(const est_estimator *estimator, char *out, size_t size);

/* Returns the status of a restore. When the checkpoint does not fit the model, appends advice to the saver's error. */
est_status est_estimator_blame_checkpoint(est_status status);

/* The global step of the latest checkpoint; -1: no checkpoint exists. */
EST_MUST_CHECK est_status est_estimator_saved_step(est_estimator *estimator, int64_t *out);

/* Logs TensorFlow's line when there is no checkpoint (path NULL: no latest one) to `verb` with. */
void est_estimator_say_untrained(const est_estimator *estimator, const char *checkpoint_path, const char *verb);

/* Restores the variables of a session from a checkpoint (NULL: the latest). Without a checkpoint they get the values of
 * the warm start or of their initializers. Checkpoints do not hold local variables (the state of metrics):
 * est_session_init initializes them. `path` (may be NULL) receives the restored prefix, "" for none. */
EST_MUST_CHECK est_status est_estimator_restore(est_estimator *estimator, const est_model *model, est_session *session,
                                                const char *checkpoint_path, char path[EST_CHECKPOINT_PATH_MAX]);

/* Copies the variables, except local ones, from one session to another. `partial`: the source may lack variables. */
EST_MUST_CHECK est_status est_estimator_copy_variables(est_session *from, est_session *to, bool partial);

/* Applies the warm start to variables that have their initial values. */
EST_MUST_CHECK est_status est_warm_start_apply(const est_warm_start *warm_start, const est_graph *graph,
                                               est_session *session);

/* Settings that est_train_and_evaluate adds to a training; all but `spec` may be zero. */
typedef struct est_train_call {
    const char *spec; /* name of the caller's options struct in errors about the input; "": none */
    /* How the training is evaluated, here or elsewhere; checked before the first step. NULL: not (est_train). */
    const est_eval_spec *eval;
    const est_dir_lock  *held; /* the lock of the model directory if the caller holds it; NULL: training takes it */

    /* Called after the training, for the final evaluation. The chief calls it when the job has ended for all other
     * tasks; the session is freed, the lock of the directory is held. If the process dies in it, a restart calls it
     * again without training. `done`: this call of train made no step, and the previous one had finished everything.
     * NULL: nothing follows. */
    est_status (*finish)(void *user, bool done);
    void *user;
} est_train_call;
EST_MUST_CHECK est_status est_estimator_train(est_estimator *estimator, const est_train_options *options,
                                              const est_train_call *call);

/* Whether a hook is an est_in_memory_evaluator_hook. */
bool est_is_in_memory_evaluator(const est_hook *hook);

/* Variants of an evaluation; zeroed: as est_evaluate. */
typedef struct est_evaluate_call {
    est_session *from; /* a training session of the same model: evaluates its variables instead of a checkpoint */
    est_pin     *pin;  /* checkpoint_path is a directory; pins the checkpoint that is evaluated */

    /* Called after the metrics are saved, only by the worker that publishes them. In a multi-worker evaluation the
     * other workers wait until it has returned; if the publisher is lost, they evaluate again when it is back. The
     * metrics are borrowed. NULL: nothing is left to do. */
    est_status (*then)(void *user, est_metrics *metrics);
    void *user;
} est_evaluate_call;

/* est_evaluate, but failing to save the result is an error, because other tasks read the saved results. *out is NULL in
 * a multi-worker evaluation when the chief has no checkpoint or all other workers have finished. */
EST_MUST_CHECK est_status est_estimator_evaluate(est_estimator *estimator, const est_evaluate_options *options,
                                                 const est_evaluate_call *call, est_metrics **out);

/* Builds the list of metrics of an evaluation. */
EST_MUST_CHECK est_status est_metrics_create(int n, est_metrics **out);
EST_MUST_CHECK est_status est_metrics_set(est_metrics *metrics, int i, const char *name, double value);
void                      est_metrics_sort(est_metrics *metrics);

/* Records the export directory of exporter i of n, for est_metrics_export_path. */
EST_MUST_CHECK est_status est_metrics_set_export(est_metrics *metrics, int i, int n, const char *path);

#endif
