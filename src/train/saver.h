/* SPDX-License-Identifier: Apache-2.0
 *
 * What saving and restoring share. */
#ifndef EST_TRAIN_SAVER_H
#define EST_TRAIN_SAVER_H

#include "estoc/saver.h"
#include "graph/variable.h"

/* How the error ends when variables are missing. */
#define EST_RESTORE_ADVICE ". Give .renames, or .partial to leave them as they are"

/* The variables of a session that checkpoints hold, by name: all but the local ones. The list is to be freed with
 * est_free, the variables are borrowed until the session goes. */
EST_MUST_CHECK est_status est_saved_variables(est_session *session, est_var ***out, int *n);

/* The first of them, by name, that has a NaN, borrowed until the session goes; *name is NULL when none has. An infinity is
 * no NaN: a variable may be meant to have one. */
EST_MUST_CHECK est_status est_saved_nan(est_session *session, const char **name);

const char *est_saver_dir(const est_saver *saver);
const char *est_saver_name(const est_saver *saver);

/* Notes that a checkpoint cannot be restored; of those of the saver's directory it goes before good ones do. */
void est_saver_mark_unusable(est_saver *saver, const char *prefix);

#endif
