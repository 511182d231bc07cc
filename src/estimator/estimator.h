/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimator's own struct, and what train, evaluate, predict and export share. The public half is
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
    est_run_config        config; /* resolved: no field is "default" any more, what is off is EST_OFF */
    est_resolver         *resolver;
    est_self              self; /* who this process is, in the cluster of the resolver */
    const char           *model_dir;
    bool                  dir_is_temporary; /* nobody named one, so that no other task knows it */
    const est_warm_start *warm_start;       /* a copy in the arena; NULL: none */
    est_metric_extender  *extenders;
    est_sample_rows       rows;  /* of the input seen last; exports are tried on them */
    const est_model      *known; /* while exporters are checked: has the variables of checkpoints; NULL: not known */
    const est_pin        *pin;   /* while exporters are called: of what was evaluated; NULL: nothing is pinned */
    void                 *owned; /* freed with it; NULL: nothing */
    void (*free_owned)(void *owned);
};

/* Hands over what the model_fn of a canned estimator works from: `object` becomes its params, and free_fn(object) is
 * called when the estimator goes. Once, for an estimator that was made without params. */
void est_estimator_own(est_estimator *estimator, void *object, void (*free_fn)(void *object));

/* What the configuration says for a mode; NULL: nothing. */
const est_strategy *est_estimator_strategy(const est_estimator *estimator, est_mode mode);

/* A run of the strategy of a training, or of an evaluation, with all that the configuration says about it. */
est_run est_estimator_run(const est_estimator *estimator, est_run_purpose purpose);

/* The dataset that input_fn makes for a mode. */
EST_MUST_CHECK est_status est_estimator_input(est_estimator *estimator, est_mode mode, est_input_fn input_fn,
                                              void *user, uint64_t seed, uint64_t job_seed, est_dataset **out);

/* The model of a mode over an input, built. */
EST_MUST_CHECK est_status est_estimator_build(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* The same with the log lines around it. */
EST_MUST_CHECK est_status est_estimator_model(est_estimator *estimator, est_mode mode, const est_dataset *input,
                                              uint64_t seed, est_model **out);

/* Makes the model directory, unless it is there; whether anything can be made in it is known then. */
EST_MUST_CHECK est_status est_estimator_make_dir(const est_estimator *estimator);

/* What restoring gave; when the checkpoint does not fit the model, with what to do after the saver's words. */
est_status est_estimator_blame_checkpoint(est_status status);

/* Says so when there is no checkpoint (NULL: no latest one) to `verb` with. */
void est_estimator_say_untrained(const est_estimator *estimator, const char *checkpoint_path, const char *verb);

/* Gives the variables of a session the values of a checkpoint (NULL: the latest), or, where there is none, of the warm
 * start or of their initializers. Local variables, the state of metrics, are no part of a checkpoint: they are left to
 * est_session_init. `path` (may be NULL) gets the prefix that was restored, "" for none. */
EST_MUST_CHECK est_status est_estimator_restore(est_estimator *estimator, const est_model *model, est_session *session,
                                                const char *checkpoint_path, char path[EST_CHECKPOINT_PATH_MAX]);

/* Gives the variables of a session, but for local ones, the values that they have in another; `partial`: those that the
 * other has not are left as they are. */
EST_MUST_CHECK est_status est_estimator_copy_variables(est_session *from, est_session *to, bool partial);

/* Applies the warm start to variables that have their initial values. */
EST_MUST_CHECK est_status est_warm_start_apply(const est_warm_start *warm_start, const est_graph *graph,
                                               est_session *session);

/* What est_train_and_evaluate adds to a training; zeroed but for `spec`: nothing. */
typedef struct est_train_call {
    const char *spec; /* what the caller knows its options as, for errors of the input; "": nothing of his */
    /* How the training is evaluated, here or elsewhere, which is checked before the first step; NULL: not, as by
     * est_train. */
    const est_eval_spec *eval;
    const est_dir_lock  *held; /* the lock of the model directory, which the caller has; NULL: it is taken */

    /* What follows the training, as its final evaluation. The task that leads calls it when the job has ended for all
     * others and nothing of it is in memory, but with the directory's lock. A process that dies in it calls it again
     * when it is started again, and trains no more then. `done`: this call has made no step, and the one before had
     * come to its end. NULL: nothing follows. */
    est_status (*finish)(void *user, bool done);
    void *user;
} est_train_call;
EST_MUST_CHECK est_status est_estimator_train(est_estimator *estimator, const est_train_options *options,
                                              const est_train_call *call);

/* Whether a hook is an est_in_memory_evaluator_hook. */
bool est_is_in_memory_evaluator(const est_hook *hook);

/* What an evaluation is for; zeroed: as est_evaluate. */
typedef struct est_evaluate_call {
    est_session *from; /* that trains the same model: its variables, in place of a checkpoint */
    est_pin     *pin;  /* the checkpoint_path is a directory, and the checkpoint of it that was evaluated is pinned */

    /* Called when the metrics are saved. Workers that evaluate together stay until it has returned at the one that
     * publishes, the only one that calls it: if that one is lost they evaluate again when it is back. The metrics are
     * borrowed. NULL: nothing is left to do. */
    est_status (*then)(void *user, est_metrics *metrics);
    void *user;
} est_evaluate_call;

/* est_evaluate, but a result that cannot be saved is an error: others go by what evaluations have saved. *out NULL: of
 * several that evaluate together the chief has no checkpoint, or all others are done. */
EST_MUST_CHECK est_status est_estimator_evaluate(est_estimator *estimator, const est_evaluate_options *options,
                                                 const est_evaluate_call *call, est_metrics **out);

/* Builds the list of metrics of an evaluation. */
EST_MUST_CHECK est_status est_metrics_create(int n, est_metrics **out);
EST_MUST_CHECK est_status est_metrics_set(est_metrics *metrics, int i, const char *name, double value);
void                      est_metrics_sort(est_metrics *metrics);

/* Notes where exporter i of n put its export, for est_metrics_export_path. */
EST_MUST_CHECK est_status est_metrics_set_export(est_metrics *metrics, int i, int n, const char *path);

#endif
