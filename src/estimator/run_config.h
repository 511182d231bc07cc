/* SPDX-License-Identifier: Apache-2.0
 *
 * RunConfig as the rest of the folder sees it: checked, every default filled in, the task known. */
#ifndef EST_ESTIMATOR_RUN_CONFIG_H
#define EST_ESTIMATOR_RUN_CONFIG_H

#include "base/alloc.h"
#include "base/strbuf.h"
#include "estoc/run_config.h"

/* Turns what the user gave (NULL: nothing) and the model_dir given beside it (NULL: none) into a complete `out`, whose
 * strings live in `arena`, and the task, which is the caller's, freed with est_resolver_free. Logs both as TensorFlow
 * does. Makes a directory only when no one named one.
 *
 * In `out` every field holds the value to use, EST_OFF what is off, so resolving it again gives the same. Left as given
 * are seed and threads: a checkpoint may know the first, the session finds the second. A resolver that was given is now
 * *resolver. */
EST_MUST_CHECK est_status est_run_config_resolve(const est_run_config *given, const char *model_dir, est_arena *arena,
                                                 est_resolver **resolver, est_run_config *out);

/* Appends a resolved configuration and its task as one line of JSON; what is off is null. */
void est_run_config_text(const est_run_config *config, const est_task *task, est_strbuf *out);

#endif
