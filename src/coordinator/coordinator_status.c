/* SPDX-License-Identifier: Apache-2.0
 *
 * What a coordinator shows of itself: statistics, and its part of the status of its task (`estoc status`). */
#include "coordinator/coordinator.h"

#include "base/json.h"

est_coordinator_stats est_coordinator_get_stats(const est_coordinator *coordinator)
{
    est_coordinator_stats out = { 0 };
    pthread_mutex_t      *lock;

    if (coordinator == NULL) return out;
    memcpy(&lock, &(const pthread_mutex_t *){ &coordinator->lock }, sizeof lock);
    pthread_mutex_lock(lock);
    out.queued       = coordinator->queue.n;
    out.under_way    = coordinator->under_way;
    out.completed    = coordinator->completed;
    out.retried      = coordinator->retried;
    out.workers      = coordinator->n_workers;
    out.workers_here = coordinator->n_here;
    out.workers_lost = coordinator->workers_lost;
    out.ps_lost      = coordinator->ps_losses;
    pthread_mutex_unlock(lock);
    return out;
}

static est_json *worker_of(const est_call_worker *w)
{
    return json_pack("{s:s, s:b, s:i, s:I, s:I, s:s}", "task", w->name, "here", w->state == EST_WORKER_HERE,
                     "under_way", w->under_way, "completed", (json_int_t)w->completed, "lost", (json_int_t)w->lost,
                     "why", w->why);
}

/* NULL: out of memory. */
static est_json *workers_of(const est_coordinator *c)
{
    est_json *list = json_array();

    for (int i = 0; i < c->n_workers; i++) {
        if (json_array_append_new(list, worker_of(&c->workers[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* A status without it, when memory is out, is better than none. */
void est_coordinator_add_status(void *user, est_json *status)
{
    est_coordinator *c = user;
    est_json        *own;

    pthread_mutex_lock(&c->lock);
    own = json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "queued", (json_int_t)c->queue.n, "under_way",
                    (json_int_t)c->under_way, "completed", (json_int_t)c->completed, "retried", (json_int_t)c->retried,
                    "workers_lost", (json_int_t)c->workers_lost, "ps_lost", c->ps_lost || c->recovering, "workers",
                    workers_of(c));
    pthread_mutex_unlock(&c->lock);
    if (own != NULL) (void)json_object_set_new(status, "coordinator", own);
}
