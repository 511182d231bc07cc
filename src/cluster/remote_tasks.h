/* SPDX-License-Identifier: Apache-2.0
 *
 * What training asks of the tasks that have its variables, beyond estoc/server.h and runtime/remote.h. */
#ifndef EST_CLUSTER_REMOTE_TASKS_H
#define EST_CLUSTER_REMOTE_TASKS_H

#include "cluster/server.h"

/* While it waits for tasks or for its turn, `over(user)` is asked now and then whether that is still worth while: when it says
 * no, the wait ends with EST_OUT_OF_RANGE. */
void est_remote_set_over(est_remote *remote, bool (*over)(void *user), void *user);

/* The terms of the program (cluster/terms.h), behind those of the strategy: a task whose terms differ from the chief's is refused with
 * EST_FAILED_PRECONDITION when it makes a session. Before the first session; copied. */
EST_MUST_CHECK est_status est_remote_set_terms(est_remote *remote, const char *terms);

/* Whether this chief has declared the job ready, or one before it a task that is still there, as far as was known when variables were
 * last listed: steps may have been made since. */
bool est_remote_has_begun(const est_remote *remote);

/* The chief: nobody begins a step, none is under way, and no variable changes, from the return of hold until release. A push of a
 * task that was lost with its step under way is refused meanwhile, so what is copied is of one moment at all tasks; of such a step
 * it may have the pushes that had come before. A step that is made together and whose committer was lost is finished before. To
 * hold again is no second hold, and to release what is not held does nothing. */
EST_MUST_CHECK est_status est_remote_hold(est_remote *remote);
EST_MUST_CHECK est_status est_remote_release(est_remote *remote);

/* The chief: waits until no other task trains, however long that takes: a task that is lost does not. enough: the steps under way
 * are the last, whatever max_steps is. EST_UNAVAILABLE: a task was lost that has variables, which others wait for. */
EST_MUST_CHECK est_status est_remote_await_others(est_remote *remote, bool enough);

#endif
