/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitored sessions: the loop that est_train runs, for a graph and steps of your own
 * (tf.train.MonitoredTrainingSession of TensorFlow 1).
 *
 *     est_monitored_session_create(graph, EST_MONITORED(.checkpoint_dir = "runs/x", .hooks = EST_HOOKS(stop)), &s);
 *     do {
 *         ... the next batch ...
 *         status = est_monitored_session_run(s, EST_FEEDS({ x, batch }), EST_NODES(loss), EST_NODES(train), &value);
 *     } while (status == EST_OK);
 *     if (status == EST_OUT_OF_RANGE) status = est_monitored_session_end(s);
 *     est_monitored_session_free(s);
 *
 * What it does around these runs:
 *
 * - Variables are restored from the newest checkpoint of checkpoint_dir, or get their initial values where there is
 *   none. A run count is saved with them, so that random operations go on where they were.
 * - Hooks are called (estoc/hooks.h): begin in create, before and after every run, end in end. The chief also saves
 *   checkpoints, writes summaries and logs steps per second, by the options below.
 * - After a run that failed with EST_UNAVAILABLE or EST_ABORTED, because a task was lost, a new session is made as soon
 *   as the task is back, and the same run is made again, hooks included. What the tasks that were not lost had applied
 *   of it stays, as in TensorFlow. After eight new sessions without a new step it gives up.
 *
 * Between-graph replication: every worker has a monitored session over its remote, .session = EST_SESSION(.remote =
 * remote), see est_strategy_remote. The remote says which of them is the chief (est_remote_options.is_chief, is_chief
 * in TensorFlow), how long to wait for tasks and for the chief (connect_secs, there max_wait_secs, both 7200) and at
 * which global step all end (step_limit). The chief restores or initializes variables; the others wait for that. When a
 * ps task comes back without its variables, the chief restores these, and the ps tasks that were not lost keep theirs.
 * The chief may come back as well: it takes nothing back. With EST_SESSION(.target = ...) this program is the chief.
 *
 * There is no stop_grace_period_secs: a session has no threads of the program that have to stop. Programs that catch
 * signals themselves leave their loop and call est_monitored_session_end, which saves.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_MONITORED_H
#define ESTOC_MONITORED_H

#include "estoc/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_monitored_session est_monitored_session;

typedef struct est_monitored_options {
    size_t struct_size; /* filled by EST_MONITORED */

    /* Where the chief saves and restores, and writes summaries; made if it does not exist; copied. One process at a
     * time uses it. Tasks of a remote must see it by this path. NULL: none, and a ps task that is lost ends the
     * training. */
    const char *checkpoint_dir;
    double      save_checkpoint_secs;  /* 0: 600, unless the next is set; EST_OFF: none by time */
    int64_t     save_checkpoint_steps; /* 0: by time. One more is saved in create and one in end. The latest 5 are kept;
                                        * an est_checkpoint_saver_hook among the hooks replaces all of this */
    int64_t     save_summaries_steps;  /* 0: 100; EST_OFF: none */
    int64_t     log_step_count_steps;  /* 0: 100; EST_OFF: none. Logs "global_step/sec" */

    /* What summaries show, with the tags they get: one number as a scalar, one string as text, other numbers as a
     * histogram, by their shapes in the graph. Nodes must be computable in every run. Copied. Without a checkpoint_dir
     * save_summaries_steps is EST_OFF, and an est_summary_saver_hook with an output_dir writes them. */
    est_named_nodes summaries;

    /* Computed in every run, for hooks (est_loop_loss); est_nan_hook needs it. EST_NO_NODE: there is none. */
    est_node loss;

    /* Called in this order, those of the chief only by the chief, behind what the options above make. Errors number
     * them from 0 in this order. Borrowed until the session is freed, the lists are copied. */
    est_hooks chief_only_hooks;
    est_hooks hooks;

    /* Threads, seed, remote and others of the sessions that are made; NULL: all defaults. Texts in it are copied,
     * remote is borrowed until this session is freed. Not with a communicator: those workers join by themselves
     * (estoc/workers.h). */
    const est_session_options *session;
} est_monitored_options;

#define EST_MONITORED(...)                                                                                             \
    (&(const est_monitored_options){ .struct_size = EST_STRUCT_SIZE(est_monitored_options), __VA_ARGS__ })

/* Lets the hooks begin, makes a session, gives its variables values or waits until the chief has done so. The graph is
 * borrowed until the session is freed; it gets a global step (est_global_step) if it has none, and hooks may add to it.
 * options NULL: all defaults. EST_FAILED_PRECONDITION: another process trains in checkpoint_dir. EST_DATA_LOSS: a
 * training had begun, variables are lost, and there is no checkpoint to restore them from. */
EST_API EST_MUST_CHECK est_status est_monitored_session_create(est_graph *graph, const est_monitored_options *options,
                                                               est_monitored_session **out);

/* Ends without the hooks' end and without a checkpoint, as after an error. NULL is fine. */
EST_API void est_monitored_session_free(est_monitored_session *session);

/* est_session_run with all of the above around it. The global step that hooks see is the one after the run. Feeds are
 * shared until the next run: hooks may compute more with them at the end. A fetch or target that was not asked for
 * before is planned first; a loop should ask for the same ones again and again. A run for which a hook, the loss or a
 * summary needs a feed that is not given fails: use est_monitored_session_raw for these.
 *
 * EST_OUT_OF_RANGE: it is the end, and nothing was run. A hook requested a stop, a signal came (if the program has them
 * caught), or all steps were made: step_limit is reached, or the chief has stopped. The message says which. An
 * operation that reads to an end fails with the same code. */
EST_API EST_MUST_CHECK est_status est_monitored_session_run(est_monitored_session *session, est_feeds feeds,
                                                            est_nodes fetches, est_nodes targets, est_tensor **out);

/* Whether the next run would say that it is the end; it may find that out only when it is made. */
EST_API bool est_monitored_session_should_stop(const est_monitored_session *session);

/* The global step after the last run; before the first, the one it begins at. */
EST_API int64_t est_monitored_session_global_step(const est_monitored_session *session);

/* The session of now, for runs without hooks and without recovery (raw_session and run_step_fn in TensorFlow). Borrowed
 * until the next run or end, which may replace it. */
EST_API est_session *est_monitored_session_raw(est_monitored_session *session);

/* Lets the hooks end and saves the last checkpoint, then marks the end of the training for those who watch the
 * directory (estoc/checkpoint_watch.h). Called when the program has enough, or after EST_OUT_OF_RANGE. The chief first
 * waits until no other task trains, unless step_limit is reached; where a hook of it requested a stop, the others stop
 * as well. The ps tasks go on: est_remote_end_job ends them. A second call does nothing.
 *
 * EST_ABORTED: a task was lost before its variables were saved. The session is usable again, at an earlier step: go on
 * with est_monitored_session_run. */
EST_API EST_MUST_CHECK est_status est_monitored_session_end(est_monitored_session *session);

#ifdef __cplusplus
}
#endif
#endif
