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

/* Checked options; those that ask for neither get default_steps. `hook` is named in errors. */
EST_MUST_CHECK est_status est_every_take(const char *hook, const est_every_options *given, int64_t default_steps,
                                         est_every_options *out);

/* --- hooks ----------------------------------------------------------------------------------------------------------- */

/* "loss = 0.31, step = 100 (0.123 sec)" at run 0, n, 2n, ... of the loop. The step is the one before the run. */
est_hook *est_loss_log_hook(int64_t every_n);

typedef enum est_summary_what {
    EST_MODEL_SCALAR = 0,
    EST_MODEL_HISTOGRAM,
    EST_MODEL_TEXT,
    EST_MODEL_IMAGE
} est_summary_what;

/* One summary of a model. */
typedef struct est_model_summary {
    est_summary_what what;
    const char      *tag;
    est_node         node;
    int              max_images;
} est_model_summary;

/* Writes these summaries to the loop's writer in the first run and then every so many steps; the list is copied, the
 * tags are borrowed until the hook is freed. */
est_hook *est_summary_saver_hook(const est_model_summary *summaries, int n, int64_t every_steps);

/* One live line on the terminal: step, examples a second, loss, time left. Nothing when stderr is not a terminal, see
 * est_log_status in base/log.h. max_steps 0: no end is known. */
est_hook *est_progress_hook(int64_t max_steps);

#endif
