/* SPDX-License-Identifier: Apache-2.0
 *
 * Links to workers. A few threads try to reach those that are missing, each another one, so that a host that does not
 * answer delays nobody. A worker that was reached gets SETUP, which resets all that an earlier link has left there. */
#include "coordinator/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define ATTEMPT_SECS 1.0  /* of one attempt */
#define PAUSE_SECS   0.25 /* between two attempts at one worker */
#define SETUP_SECS   60.0

/* --- one worker --------------------------------------------------------------------------------------------------- */

/* With the names of dataset functions that are used so far. Under `lock`. */
static est_status pack_setup(const est_coordinator *c, est_packing *out)
{
    est_setup    setup = { c->origin, c->seed, c->options.connect_secs, c->options.at_least_once };
    const char **names;
    int          n = 0;

    for (const est_call_object *o = c->objects; o != NULL; o = o->next) n++;
    names = est_alloc(sizeof *names * ((size_t)n + 1));
    if (names == NULL) return est_no_memory();
    n = 0;
    for (est_call_object *o = c->objects; o != NULL; o = o->next) {
        if (o->kind == EST_OBJECT_DATASET && EST_CONTAINER_OF(o, est_per_worker, object)->bytes.size == 0)
            names[n++] = o->name;
    }
    est_setup_put(&setup, names, n, out);
    est_free(names);
    return EST_OK;
}

static est_status set_up(est_coordinator *c, est_link *link)
{
    est_packing  packing = { 0 };
    est_message *answer  = NULL;
    est_payload  payload;
    est_ask     *ask;
    est_status   status;

    pthread_mutex_lock(&c->lock);
    status = pack_setup(c, &packing);
    pthread_mutex_unlock(&c->lock);
    if (status == EST_OK) status = est_packing_payload(&packing, &payload);
    if (status == EST_OK)
        status = est_link_ask(link, EST_METHOD_SETUP, est_method_text(EST_METHOD_SETUP), payload, SETUP_SECS, NULL,
                              NULL, &ask);
    if (status == EST_OK) status = est_ask_wait(ask, &answer);
    if (status == EST_OK) est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status reach(est_coordinator *c, const est_call_worker *w, est_link **out)
{
    est_link  *link;
    est_status status;

    EST_TRY(est_net_connect(est_server_net(c->server), w->address, w->name, ATTEMPT_SECS, &link));
    status = set_up(c, link);
    *out   = link;
    return status;
}

/* The worker is there. Not if the link was lost meanwhile: that is reported once, and the report found no worker with
 * this link. Takes the link. `lock` is released for the log. */
static void welcome(est_coordinator *c, est_call_worker *w, est_link *link)
{
    uint64_t    incarnation = est_link_peer(link)->incarnation;
    const char *how = w->incarnation == 0 ? "here" : w->incarnation == incarnation ? "back" : "back, as a new process";

    if (c->closing || c->halted || est_link_is_lost(link)) {
        w->state = EST_WORKER_MISSING;
        est_link_close(link, "the coordinator ends"); /* without effect on a link that is lost */
        est_link_free(link);
        return;
    }
    w->incarnation = incarnation;
    w->link        = link;
    w->state       = EST_WORKER_HERE;
    w->pace_ns     = 0;
    w->why[0]      = '\0';
    memset(w->sent, 0, sizeof *w->sent * (size_t)(c->n_objects / 64 + 1));
    c->n_here++;
    pthread_mutex_unlock(&c->lock);
    est_log_info("%s: %s is %s", c->server->task, w->name, how);
    pthread_mutex_lock(&c->lock);
    est_handout(c);
    est_coordinator_wake(c);
}

/* A worker that does not suit is an error of the job, once for each process; one that is not there is waited for. */
static void note_refusal(est_coordinator *c, est_call_worker *w, est_link *link, est_status status)
{
    bool known = link != NULL && est_link_peer(link)->incarnation == w->refused;

    w->state = EST_WORKER_MISSING;
    snprintf(w->why, sizeof w->why, "%s", est_error_message());
    if (link == NULL || known || c->closing) return;
    if (status == EST_ABORTED) {
        est_coordinator_halt(c, status, est_error_message());
    } else if (status != EST_UNAVAILABLE && status != EST_DEADLINE_EXCEEDED && status != EST_CANCELLED) {
        w->refused = est_link_peer(link)->incarnation;
        est_coordinator_fail(c, status, est_error_message());
    }
}

/* Under `lock`, which is released meanwhile. */
static void try_to_reach(est_coordinator *c, est_call_worker *w)
{
    est_link  *link = NULL;
    est_status status;

    w->state    = EST_WORKER_CONNECTING;
    w->tried_ns = est_machine_ns();
    pthread_mutex_unlock(&c->lock);
    status = reach(c, w, &link);
    pthread_mutex_lock(&c->lock);
    w->tried_ns = est_machine_ns();
    if (status == EST_OK) {
        welcome(c, w, link);
        return;
    }
    note_refusal(c, w, link, status);
    if (link != NULL) est_link_close(link, "its setup failed");
    est_link_free(link);
    est_error_clear();
}

/* --- lost ps tasks ------------------------------------------------------------------------------------------------ */

/* The session and the graph are the program's, so this thread does not recover: it says what the program has to do.
 * Under `lock`, which is released for the log. */
static void look_at_ps(est_coordinator *c)
{
    double secs = (double)(est_now_ns() - c->ps_lost_ns) / (double)EST_NS_PER_SEC;

    if (!c->ps_lost || c->halted || c->recovering || c->session_used || c->ps_reported || c->n_waiting > 0) return;
    if (secs < EST_WAIT_REPORT_SECS) return;
    c->ps_reported = true;
    pthread_mutex_unlock(&c->lock);
    est_log_warn(
        "%s: a ps task has been lost for %.0f s, and calls wait: the next est_coordinator_schedule, _join, _done, "
        "_save or est_remote_value_fetch recovers it",
        c->server->task, secs);
    pthread_mutex_lock(&c->lock);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* The missing worker whose last attempt was the longest ago; NULL: none is due. */
static est_call_worker *choose_missing(const est_coordinator *c)
{
    est_call_worker *best = NULL;
    int64_t          now  = est_machine_ns();

    for (int i = 0; i < c->n_workers; i++) {
        est_call_worker *w = &c->workers[i];

        if (w->state != EST_WORKER_MISSING || w->sending) continue;
        if (w->tried_ns > 0 && now - w->tried_ns < (int64_t)(PAUSE_SECS * (double)EST_NS_PER_SEC)) continue;
        if (best == NULL || w->tried_ns < best->tried_ns) best = w;
    }
    return best;
}

static void *connect_workers(void *arg)
{
    est_coordinator *c = arg;

    pthread_mutex_lock(&c->lock);
    while (!c->closing) {
        est_call_worker *w;

        look_at_ps(c);
        w = !c->halted ? choose_missing(c) : NULL;
        if (w != NULL) {
            try_to_reach(c, w);
        } else {
            est_cond_wait_ns(&c->missing, &c->lock, (int64_t)(PAUSE_SECS * (double)EST_NS_PER_SEC));
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

est_status est_connectors_start(est_coordinator *c)
{
    while (c->n_connectors < EST_CONNECTORS_MAX && c->n_connectors < c->n_workers) {
        EST_TRY(est_thread_start(&c->connectors[c->n_connectors], "est-connector", connect_workers, c));
        c->n_connectors++;
    }
    return EST_OK;
}

void est_connectors_stop(est_coordinator *c)
{
    while (c->n_connectors > 0) est_thread_join(&c->connectors[--c->n_connectors]);
}

void est_workers_missing(const est_coordinator *c, est_strbuf *out)
{
    const char *before = "missing: ";

    for (int i = 0; i < c->n_workers; i++) {
        const est_call_worker *w = &c->workers[i];

        if (w->state == EST_WORKER_HERE) continue;
        est_strbuf_printf(out, "%s%s (%s)", before, w->name, w->address);
        before = ", ";
    }
    for (int i = 0; i < c->n_workers && out->size > 0; i++) {
        if (c->workers[i].state == EST_WORKER_HERE || c->workers[i].why[0] == '\0') continue;
        est_strbuf_printf(out, "; %s: %s", c->workers[i].name, c->workers[i].why);
        return; /* one reason is enough to see what is wrong */
    }
}
