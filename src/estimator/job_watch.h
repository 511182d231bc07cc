/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the job of an evaluator is still running, for an evaluator that finds no checkpoint in its directory. Such an
 * evaluator would not find the chief's end mark either and would wait forever.
 *
 * It holds a connection to any one ps task and sends no request: the handshake already tells which task it is and where
 * its checkpoints are. Threading: one thread at a time. */
#ifndef EST_ESTIMATOR_JOB_WATCH_H
#define EST_ESTIMATOR_JOB_WATCH_H

#include "cluster/remote_tasks.h"
#include "estimator/estimator.h"

/* Zeroed: no task was checked yet. */
typedef struct est_job_watch {
    est_server *client;
    est_link   *link; /* link to one of the ps tasks; NULL: none */
    bool        failed;
    bool        seen;     /* a ps task was present */
    int64_t     gone_ns;  /* est_now_ns() when the last one vanished; 0: one is present */
    int         n_missed; /* tasks checked since then */
    est_task_id last;     /* the last one present; zeroed: none */
} est_job_watch;

/* Checks one of the ps tasks, the next one with each call; takes half a second if nothing listens, peer_silence_secs if
 * nothing answers. Returns true if a ps task was present before and none has been for three times peer_silence_secs,
 * long enough for a lost task to restart. */
bool est_job_watch_is_gone(est_job_watch *watch, const est_estimator *estimator);

/* Whether the last ps task that was present keeps its checkpoints outside of `folder`, as far as visible from here. */
bool est_job_watch_is_elsewhere(const est_job_watch *watch, const char *folder);

void est_job_watch_clear(est_job_watch *watch);

#endif
