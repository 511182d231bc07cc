/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals that the saver and restoring share. */
#ifndef EST_TRAIN_SAVER_H
#define EST_TRAIN_SAVER_H

#include "base/strbuf.h"
#include "estoc/saver.h"
#include "graph/variable.h"
#include "runtime/remote.h"
#include "runtime/session.h"

/* The last sentence of the error about missing variables; the second is used when all of them are the optimizer's. */
#define EST_RESTORE_ADVICE ". Give .renames, or .partial to leave them as they are"
#define EST_OPTIMIZER_ADVICE                                                                                           \
    ". All of them belong to the optimizer: the checkpoint was trained with another one. Give .partial to "            \
    "leave them as they are"

/* Appends the tasks whose variables have no values: "ps:0, ps:2". Sets *all if no variable of the session has a value.
 * Only for sessions with other tasks. */
EST_MUST_CHECK est_status est_tasks_without_values(est_session *session, est_strbuf *out, bool *all);

/* The first of est_saved_variables that has a NaN, borrowed until the session goes; *name is NULL when none has.
 * Infinities do not count: a variable may have one on purpose. */
EST_MUST_CHECK est_status est_saved_nan(est_session *session, const char **name);

/* The remote parts of some variables. A zeroed struct is an empty list; free its data with est_free. */
typedef struct est_remote_list {
    est_remote_entry *data;
    int               n, max;
    bool              missing_only; /* shards that have a value are left out */
} est_remote_list;

/* Adds a remote variable, with its name `key` in the checkpoint; both are borrowed. */
EST_MUST_CHECK est_status est_remote_list_add(est_remote_list *list, const est_store *store, const est_var *var,
                                              const char *key);

/* Adds those of the variables that are remote, under their own names. */
EST_MUST_CHECK est_status est_remote_list_fill(est_remote_list *list, est_session *session, est_var *const *vars,
                                               int n);

/* The prefix as an absolute path, since other tasks have other working directories; freed with est_free. */
EST_MUST_CHECK est_status est_absolute_prefix(const char *prefix, char **out);

const char *est_saver_dir(const est_saver *saver);
const char *est_saver_name(const est_saver *saver);

/* Records that a checkpoint cannot be restored; the saver then removes it before good ones. */
void est_saver_mark_unusable(est_saver *saver, const char *prefix);

#endif
