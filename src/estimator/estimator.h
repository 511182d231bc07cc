/* SPDX-License-Identifier: Apache-2.0
 *
 * The struct of an estimator, and functions that train, evaluate, predict and export share. The public part is
 * estoc/estimator.h. */
#ifndef EST_ESTIMATOR_ESTIMATOR_H
#define EST_ESTIMATOR_ESTIMATOR_H

#include "base/alloc.h"
#include "estimator/model.h"
#include "estimator/sample_rows.h"
#include "estoc/estimator.h"
#include "strategy/run.h"
#include "train/pin.h"

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
    est_run_config        config; /* resolved: defaults are filled in; EST_OFF: off */
    est_resolver         *resolver;
    est_self              self; /* this task, in the cluster of the resolver */
    const char           *model_dir;
    bool                  dir_is_temporary; /* the user named none, so other tasks do not know it */
    const est_warm_start *warm_start;       /* a copy in the arena; NULL: none */
    est_metric_extender  *extenders;
    est_sample_rows       rows; /* of the last input; exports are tried with them */
    const est_model *known; /* while exporters are checked: the model whose variables checkpoints have; NULL: unknown */
    const est_pin   *pin;   /* while exporters are called: the evaluated checkpoint; NULL: none is pinned */
    void            *owned; /* freed with it; NULL: nothing */
    void (*free_owned)(void *owned);
};

/* Makes `object` the params of an estimator that was created without any, as canned estimators do; free_fn(object) is
 * called when the estimator is freed. Once. */
void est_estimator_own(est_estimator *estimator, void *object, void (*free_fn)(void *object));

/* The strategy of the configuration for a mode; NULL: none. */
const est_strategy *est_estimator_strategy(const est_estimator *estimator, est_mode mode);

/* The options of its sessions. */
est_session_options est_estimator_session(const est_estimator *estimator);

/* A run of the strategy for training or for evaluation, filled from the configuration. */
est_run est_estimator_run(const est_estimator *estimator, est_run_purpose purpose);

/* Calls input_fn for a mode and returns its dataset. */
EST_MUST_CHECK est_status est_estimator_input(est_estimator *estimator, est_mode mode, est_input_fn input_fn,
                                              void *user, uint64_t seed, uint64_t job_seed, est_dataset **out);

/* Logs, in TensorFlow's words, that the input_fn of a run gets the context of a strategy; nothing without one. */
void est_estimator_log_input(const est_estimator *estimator, est_mode mode);

/* Builds the model for a mode and an input. */
EST_MUST_CHECK est_status est_estimator_build(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* The same, and logs TensorFlow's lines before and after. */
EST_MUST_CHECK est_status est_estimator_model(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* Creates the model directory if it does not exist, and checks that files can be created in it. */
EST_MUST_CHECK est_status est_estimator_make_dir(const est_estimator *estimator);

/* Returns the status of a restore; if the checkpoint does not fit the model, appends advice to the error. */
est_status est_estimator_blame_checkpoint(est_status status);

/* Logs that there is no checkpoint (NULL: no latest one) to `verb` with. */
void est_estimator_say_untrained(const est_estimator *estimator, const char *checkpoint_path, const char *verb);

/* Restores the variables of a session from a checkpoint (NULL: the latest); without one, initializes them and applies
 * the warm start. Checkpoints do not contain local variables (the state of metrics): est_session_init does those.
 * `path` (may be NULL) receives the prefix of the restored checkpoint, "": none. */
EST_MUST_CHECK est_status est_estimator_restore(est_estimator *estimator, const est_model *model, est_session *session,
                                                const char *checkpoint_path, char path[EST_CHECKPOINT_PATH_MAX]);

/* Copies the variables of one session, except local ones, to another. `partial`: variables that `from` lacks keep their
 * values; else they are an error. */
EST_MUST_CHECK est_status est_estimator_copy_variables(est_session *from, est_session *to, bool partial);

/* Applies the warm start to initialized variables. */
EST_MUST_CHECK est_status est_warm_start_apply(const est_warm_start *warm_start, const est_graph *graph,
                                               est_session *session);

/* What est_train_and_evaluate adds to a training. All but `spec` may be zero. */
typedef struct est_train_call {
    const char *spec; /* the caller's name of its options, for errors about the input; "": none */
    /* The evaluation of this training, in this or another task; it is checked before the first step. NULL: none, as
     * with est_train. */
    const est_eval_spec *eval;
    est_dataset        **checked; /* gets the input of evaluations that was checked; NULL: it is freed */
    const est_dir_lock  *held;    /* the caller's lock of the model directory; NULL: the training takes it */

    /* Called after the training by the task that leads, for its final evaluation: the job has ended for all others, the
     * memory of the training is freed, and the directory is still locked. If the process dies in it, its next start
     * does not train but calls it again. `done`: the training had ended before this call, which made no step. NULL:
     * nothing follows. */
    est_status (*finish)(void *user, bool done);
    void *user;
} est_train_call;
EST_MUST_CHECK est_status est_estimator_train(est_estimator *estimator, const est_train_options *options,
                                              const est_train_call *call);

/* Whether a hook is an est_in_memory_evaluator_hook. */
bool est_is_in_memory_evaluator(const est_hook *hook);

/* Options of an evaluation; zeroed: as est_evaluate. */
typedef struct est_evaluate_call {
    est_session *from; /* of the training of this model: supplies the variables instead of a checkpoint */
    est_pin     *pin;  /* checkpoint_path is a directory; pins the checkpoint that is evaluated */
    /* An input to take, which is NULL afterwards. NULL, or one that is NULL: input_fn is called. */
    est_dataset **input;

    /* Called after the metrics are saved. Of several workers that evaluate one model only the first calls it, and the
     * others wait until it returns: if the first is lost, they evaluate again with it. The metrics are borrowed. NULL:
     * nothing. */
    est_status (*then)(void *user, est_metrics *metrics);
    void *user;
} est_evaluate_call;

/* est_evaluate, except that failing to save the result is an error: other processes depend on it. *out NULL: several
 * workers evaluate, and the chief has no checkpoint or the others have ended. */
EST_MUST_CHECK est_status est_estimator_evaluate(est_estimator *estimator, const est_evaluate_options *options,
                                                 const est_evaluate_call *call, est_metrics **out);

/* Builds the list of metrics of an evaluation. */
EST_MUST_CHECK est_status est_metrics_create(int n, est_metrics **out);
EST_MUST_CHECK est_status est_metrics_set(est_metrics *metrics, int i, const char *name, double value);
void                      est_metrics_sort(est_metrics *metrics);

/* Stores the directory that exporter i of n wrote, for est_metrics_export_path. */
EST_MUST_CHECK est_status est_metrics_set_export(est_metrics *metrics, int i, int n, const char *path);

#endif
