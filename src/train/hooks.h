/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that only the library makes; the public ones are in estoc/hooks.h. */
#ifndef EST_TRAIN_HOOKS_H
#define EST_TRAIN_HOOKS_H

#include "estoc/hooks.h"
#include "train/loop.h"
#include "train/summary_writer.h"
#include "train/timer.h"

/* --- what hooks share ------------------------------------------------------------------------------------------------ */

/* A zeroed hook of that many bytes; NULL with the error set. */
void *est_hook_alloc(size_t size);

/* A hook or exporter that could not be made is NULL, and the thread still knows why: "<what> <i> is NULL: <why>". */
est_status est_refuse_null(const char *what, int i);

/* Refuses a list with a NULL in it, or with a struct that its macro did not make; errors name "<what> <i>". */
EST_MUST_CHECK est_status est_hooks_check(const char *what, est_hooks hooks);
EST_MUST_CHECK est_status est_listeners_check(const char *what, est_saving_listeners listeners);

/* The same for one hook that is not NULL. */
EST_MUST_CHECK est_status est_hook_check(const est_hook *hook);

/* Refuses what cannot be such a summary: by its dtype, or by its shape as far as it is known. */
EST_MUST_CHECK est_status est_model_summary_check(est_summary_what what, const char *tag, est_dtype dtype,
                                                  const est_shape *shape);

/* A timer for these steps or seconds; `hook` is named in the error when they are not exactly one of them. */
EST_MUST_CHECK est_status est_every_take(const char *hook, int64_t steps, double secs, est_timer *out);

/* --- hooks ----------------------------------------------------------------------------------------------------------- */

/* "loss = 0.31, step = 100 (0.123 sec)" at run 0, n, 2n, ... of the loop. The step is the one before the run. */
est_hook *est_loss_log_hook(int64_t every_n);

/* One live line on the terminal: step, examples a second, loss, time left. Nothing when stderr is not a terminal, see
 * est_log_status in base/log.h. The end is num_steps from the start, or max_steps; both 0: none is known. */
est_hook *est_progress_hook(int64_t num_steps, int64_t max_steps);

/* The same for the batches of an evaluation; steps 0: no end is known. */
est_hook *est_eval_progress_hook(int64_t steps);

/* Ends a loop whose model has diverged: `what` ("variable 'w'") is NaN. As its NaN hook has it, with an error, as without
 * such a hook, or with a warning and a stop. */
EST_MUST_CHECK est_status est_loop_diverged(est_loop *loop, const char *what);

/* --- what kind a hook is; NULL is none ------------------------------------------------------------------------------- */

bool est_is_nan_hook(const est_hook *hook);
bool est_is_checkpoint_saver(const est_hook *hook);

/* When it saves; of a checkpoint saver. */
const est_timer *est_checkpoint_saver_timer(const est_hook *checkpoint_saver);

/* What early stopping by a metric looks at; texts are the hook's. */
typedef struct est_stop_rule {
    const char *metric;
    const char *eval_dir;        /* NULL: "eval" in the model directory */
    int64_t     min_steps;       /* results of earlier steps do not count */
    int64_t     patience;        /* steps without a better result; 0: one beyond a threshold will do */
    int64_t     run_every_steps; /* 0: by time */
} est_stop_rule;

/* Whether a hook is that. */
bool est_early_stopping_rule(const est_hook *hook, est_stop_rule *out);

/* Listeners that a checkpoint saver tells after its own until the next call; those that it has are told once. Borrowed
 * until then, the list too. */
void est_checkpoint_saver_lend(est_hook *checkpoint_saver, est_saving_listeners listeners);

#endif
