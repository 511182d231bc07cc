/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that only the library makes; the public ones are in estoc/hooks.h. */
#ifndef EST_TRAIN_HOOKS_H
#define EST_TRAIN_HOOKS_H

#include "estoc/hooks.h"
#include "train/loop.h"
#include "train/summary_writer.h"
#include "train/timer.h"

/* --- shared by the hooks ------------------------------------------------------------------------------------------ */

/* A zeroed hook of that many bytes; NULL with the error set. */
void *est_hook_alloc(size_t size);

/* Frees a hook that owns only its struct and is the first member of it. */
void est_hook_free_struct(est_hook *hook);

/* Fails for a hook or exporter that is NULL because its constructor failed, with the error that the thread recorded
 * then: "<what> <i> is NULL: <why>". */
est_status est_refuse_null(const char *what, int i);

/* Fails for a list with a NULL in it, or with a struct that its macro did not make; errors name "<what> <i>". */
EST_MUST_CHECK est_status est_hooks_check(const char *what, est_hooks hooks);
EST_MUST_CHECK est_status est_listeners_check(const char *what, est_saving_listeners listeners);

/* The same for one hook that is not NULL. */
EST_MUST_CHECK est_status est_hook_check(const est_hook *hook);

/* Fails for a node whose dtype, or known part of the shape, does not fit this kind of summary. */
EST_MUST_CHECK est_status est_model_summary_check(est_summary_what what, const char *tag, est_dtype dtype,
                                                  const est_shape *shape);

/* A timer by steps or by seconds. Fails unless exactly one of them is set; the error names `hook`. */
EST_MUST_CHECK est_status est_every_take(const char *hook, int64_t steps, double secs, est_timer *out);

/* --- hooks -------------------------------------------------------------------------------------------------------- */

/* "loss = 0.31, step = 100 (0.123 sec)" at run 0, n, 2n, ... of the loop. The step is the one before the run. */
est_hook *est_loss_log_hook(int64_t every_n);

/* One live line on the terminal: step, examples a second, loss, time left. Nothing when stderr is not a terminal, see
 * est_log_status in base/log.h. The end is num_steps from the start, or max_steps; both 0: unknown. */
est_hook *est_progress_hook(int64_t num_steps, int64_t max_steps);

/* The same for the batches of an evaluation; steps 0: the end is unknown. */
est_hook *est_eval_progress_hook(int64_t steps);

/* Ends a loop whose model has diverged: `what` ("variable 'w'") is NaN. The NaN hook of the loop decides between an
 * error and a warning with a stop; without such a hook it is an error. */
EST_MUST_CHECK est_status est_loop_diverged(est_loop *loop, const char *what);

/* --- kinds of hooks; NULL is no kind ------------------------------------------------------------------------------ */

bool est_is_nan_hook(const est_hook *hook);
bool est_is_checkpoint_saver(const est_hook *hook);

/* The schedule of a checkpoint saver. */
const est_timer *est_checkpoint_saver_timer(const est_hook *checkpoint_saver);

/* Saves now, unless this step is saved or the model has diverged. */
EST_MUST_CHECK est_status est_checkpoint_saver_save(est_hook *checkpoint_saver, est_loop *loop);

/* The settings of early stopping by a metric; the hook owns the texts. */
typedef struct est_stop_rule {
    const char *metric;
    const char *eval_dir;        /* NULL: "eval" in the model directory */
    int64_t     min_steps;       /* results of earlier steps do not count */
    int64_t     patience;        /* steps without a better result; 0: the rule is a threshold */
    int64_t     run_every_steps; /* 0: by time */
} est_stop_rule;

/* True if the hook is early stopping by a metric. */
bool est_early_stopping_rule(const est_hook *hook, est_stop_rule *out);

/* Gives a checkpoint saver listeners to call after its own; a listener that it already has is called once. The list and
 * its listeners are borrowed until the next call. */
void est_checkpoint_saver_lend(est_hook *checkpoint_saver, est_saving_listeners listeners);

#endif
