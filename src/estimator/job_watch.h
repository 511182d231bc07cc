/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the job of an evaluator is still there, for one that finds nothing in its directory: then the end mark of the chief
 * would not be there either, and waiting for it would have no end.
 *
 * It holds a connection to any one ps task, and asks nothing over it: who a task is, and where it has its checkpoints, is said
 * with the first words. Threading: one thread at a time. */
#ifndef EST_ESTIMATOR_JOB_WATCH_H
#define EST_ESTIMATOR_JOB_WATCH_H

#include "cluster/remote_tasks.h"
#include "estimator/estimator.h"

/* Zeroed: nothing was looked at yet. */
typedef struct est_job_watch {
    est_server *client;
    est_link   *link; /* to one of the ps tasks; NULL: none */
    bool        failed;
    bool        seen;     /* one was there */
    int64_t     gone_ns;  /* est_now_ns() since when none is; 0: one is */
    int         n_missed; /* looked for since, one after the other */
    est_task_id last;     /* the one that was there last; zeroed: none */
} est_job_watch;

/* Looks for one of the ps tasks, the next each time: for half a second where nobody listens, for peer_silence_secs where nobody
 * answers. True: some were there, and for three times peer_silence_secs, in which one that was lost would have come back, none is
 * any more. */
bool est_job_watch_is_gone(est_job_watch *watch, const est_estimator *estimator);

/* Whether the last ps task that was there has its checkpoints elsewhere than in `folder`, by what can be seen from here. */
bool est_job_watch_is_elsewhere(const est_job_watch *watch, const char *folder);

void est_job_watch_clear(est_job_watch *watch);

#endif
