/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions that saving and restoring share, and functions of the saver for the layers above. */
#ifndef EST_TRAIN_SAVER_H
#define EST_TRAIN_SAVER_H

#include "base/strbuf.h"
#include "estoc/saver.h"
#include "graph/variable.h"
#include "runtime/remote.h"
#include "runtime/session.h"

/* Tensors that a training saves beside its variables in order to resume exactly. */
#define EST_EXTRA_INPUT     "estoc/input_position"  /* uint8 [n]: est_iterator_save */
#define EST_EXTRA_POSITIONS "estoc/input_positions" /* uint8 [n]: of all workers (strategy/multi_worker_input.c) */
#define EST_EXTRA_RUNS      "estoc/run_count"       /* int64: est_session_run_count */
#define EST_EXTRA_SEED      "estoc/seed"            /* int64: of the graph's random operations */

/* The global step of the latest checkpoint of a directory; -1: there is none. */
EST_MUST_CHECK est_status est_saved_step(const char *model_dir, int64_t *out);

/* Advice at the end of an error about missing variables; the second when all of them are slots of the optimizer. */
#define EST_RESTORE_ADVICE ". Give .renames, or .partial to leave them as they are"
#define EST_OPTIMIZER_ADVICE                                                                                           \
    ". All of them are the optimizer's: the checkpoint is from another one. Give .partial to leave them as they are"

/* An error of est_saver_restore with other advice, for users who cannot give these options. */
EST_MUST_CHECK est_status est_restore_advise(est_status status, const char *advice);

/* Appends the tasks whose variables have no values: "ps:0, ps:2". *all: no variable of the session has one. Of a
 * session with other tasks. */
EST_MUST_CHECK est_status est_tasks_without_values(est_session *session, est_strbuf *out, bool *all);

/* The first of est_saved_variables that contains a NaN, borrowed until the session is freed; *name NULL: none. An
 * infinity is allowed: some variables contain one on purpose. */
EST_MUST_CHECK est_status est_saved_nan(est_session *session, const char **name);

/* The variables and shards of a session that other tasks hold. A zeroed struct is an empty list; free its data with
 * est_free. */
typedef struct est_remote_list {
    est_remote_entry *data;
    int               n, max;
    bool              missing_only; /* shards with a value are left out */
} est_remote_list;

/* Adds a variable of another task, called `key` in the checkpoint; both are borrowed. */
EST_MUST_CHECK est_status est_remote_list_add(est_remote_list *list, const est_store *store, const est_var *var,
                                              const char *key);

/* Adds those of the variables that other tasks hold, under their own names. */
EST_MUST_CHECK est_status est_remote_list_fill(est_remote_list *list, est_session *session, est_var *const *vars,
                                               int n);

/* The prefix as an absolute path, for tasks with other working directories; free it with est_free. */
EST_MUST_CHECK est_status est_absolute_prefix(const char *prefix, char **out);

const char *est_saver_dir(const est_saver *saver);
const char *est_saver_name(const est_saver *saver);

/* Marks a checkpoint of the saver's directory as damaged: it is removed before good ones. */
void est_saver_mark_unusable(est_saver *saver, const char *prefix);

#endif
