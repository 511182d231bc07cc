/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping: hooks that stop training according to the results of evaluations. They check in the first run and
 * then periodically; results are read from the event files of the evaluation, in the order of their steps. The last
 * evaluation of a run comes too late: a rule needs evaluations, and thus checkpoints, before the end
 * (save_checkpoints_steps, throttle_secs). The start of the training warns about a rule without any.
 *
 * Each is allocated on the heap and freed with est_hook_free; NULL when out of memory or for a wrong argument, as the
 * hooks of estoc/hooks.h. */
#ifndef ESTOC_EARLY_STOPPING_H
#define ESTOC_EARLY_STOPPING_H

#include "estoc/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_early_stopping_options {
    size_t      struct_size;    /* filled by EST_EARLY_STOPPING */
    const char *eval_dir;       /* NULL: "eval" in the model directory; another for an evaluation with a name; copied */
    int64_t     min_steps;      /* results of earlier steps are ignored */
    double      run_every_secs; /* 0: 60, unless run_every_steps is set */
    int64_t     run_every_steps; /* 0: by time */
} est_early_stopping_options;
#define EST_EARLY_STOPPING(...)                                                                                        \
    (&(const est_early_stopping_options){ .struct_size = EST_STRUCT_SIZE(est_early_stopping_options), __VA_ARGS__ })

/* Stop when a result is above, or below, the threshold. A directory that does not exist has no results; a result
 * without the metric (a name, copied) is an error that lists those it has. est_train and est_train_and_evaluate fail
 * before the first step for a metric that the model does not have in mode EST_EVAL, unless eval_dir is outside of the
 * model directory. options NULL: all defaults, as below. */
EST_API EST_MUST_CHECK est_hook *est_stop_if_higher_hook(const char *metric, double threshold,
                                                         const est_early_stopping_options *options);
EST_API EST_MUST_CHECK est_hook *est_stop_if_lower_hook(const char *metric, double threshold,
                                                        const est_early_stopping_options *options);

/* Stop when the best result (the first of equal ones) is that many steps old. */
EST_API EST_MUST_CHECK est_hook *est_stop_if_no_increase_hook(const char *metric, int64_t max_steps_without_increase,
                                                              const est_early_stopping_options *options);
EST_API EST_MUST_CHECK est_hook *est_stop_if_no_decrease_hook(const char *metric, int64_t max_steps_without_decrease,
                                                              const est_early_stopping_options *options);

/* Stop when should_stop sets *stop; ignores the options eval_dir and min_steps. `user` is borrowed as long as the
 * hook. */
typedef est_status (*est_should_stop_fn)(void *user, est_loop *loop, bool *stop);
EST_API EST_MUST_CHECK est_hook *est_early_stopping_hook(est_should_stop_fn should_stop, void *user,
                                                         const est_early_stopping_options *options);

#ifdef __cplusplus
}
#endif
#endif
