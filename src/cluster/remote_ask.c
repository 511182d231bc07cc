/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to other tasks, and waits for them: every wait names a task, a reason and a limit, and is logged. */
#include "cluster/remote_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "cluster/sync_replicas.h"
#include "cluster/wait_table.h"

#define SLICE_SECS 0.5 /* between two looks at signals while waiting */

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* A wait with a limit, which also ends with the job. */
typedef struct waiting waiting;
struct waiting {
    est_waiting      base;
    const est_tasks *remote;
    double           stop_secs;                     /* left after a signal */
    double           end_secs;                      /* when the wait ends after a signal; INFINITY: no signal */
    void (*add)(const waiting *w, est_strbuf *out); /* details for the log; NULL: none */
};

/* A limit below connect_secs is not the end: the next session goes on waiting. */
static waiting begin_wait(const est_tasks *r, const char *for_whom, const char *why, double limit_secs)
{
    waiting w = { est_wait_begin(r->server->task, for_whom, why, limit_secs), r, 0, INFINITY, NULL };

    if (limit_secs < r->options.connect_secs) w.base.then = "makes a new session";
    return w;
}

/* "chief:0 (host:port)", which initializes variables; nothing if this task is the chief. */
static void append_chief(const waiting *w, const char *word, est_strbuf *out)
{
    const char *address, *chief = est_server_chief(w->remote->server, &address);

    if (w->remote->options.is_chief || address == NULL) return;
    est_strbuf_printf(out, "%s%s%s (%s)", out->size > 0 ? "; " : "", word, chief, address);
}

static void add_chief(const waiting *w, est_strbuf *out)
{
    append_chief(w, "", out);
}

/* What the clock does about workers that have not come yet. */
static void add_gathering(const waiting *w, est_strbuf *out)
{
    (void)w;
    est_strbuf_printf(out, "%ssteps go on without workers that have not come %g s after the first",
                      out->size > 0 ? "; " : "", EST_GATHER_SECS);
}

static bool is_linked(const est_remote_task *p)
{
    return p->link != NULL && !est_link_is_lost(p->link);
}

static void take_link(est_remote_task *p, est_link *link)
{
    est_link_free(p->link); /* not earlier: a request over the lost link must fail */
    p->link = link;
}

static est_status try_to_reach(const est_tasks *r, est_remote_task *p, double secs)
{
    est_link *link;

    if (is_linked(p)) return EST_OK;
    EST_TRY(est_net_connect(est_server_net(r->server), p->address, p->name, secs, &link));
    take_link(p, link);
    return EST_OK;
}

/* All missing tasks; a task that turns out to be there gets its link early. The look at all of them takes no longer
 * than one more attempt at the awaited task, and does not make a short wait long. */
static void add_missing(const waiting *w, est_strbuf *out)
{
    const est_tasks *r      = w->remote;
    const char      *before = out->size > 0 ? "; missing: " : "missing: ";
    int              n      = 0;

    for (int i = 0; i < r->base.n_tasks; i++) n += !is_linked(&r->tasks[i]);
    for (int i = 0; i < r->base.n_tasks; i++) {
        est_remote_task *p    = &r->tasks[i];
        double           secs = fmin(SLICE_SECS, w->base.limit_secs / 20) / n;

        if (strcmp(p->name, w->base.for_whom) != 0 && try_to_reach(r, p, secs) == EST_OK) continue;
        est_strbuf_printf(out, "%s%s (%s)", before, p->name, p->address);
        before = ", ";
    }
    append_chief(w, "then ", out);
}

/* Whether to go on waiting; logs the wait when due. `detail`: the last observation, or "". */
static est_status keep_waiting(void *user, const char *detail)
{
    waiting    *w        = user;
    const char *for_whom = w->base.for_whom, *why = w->base.why;
    double      secs   = est_wait_secs(&w->base);
    bool        late   = secs > w->base.limit_secs;
    est_strbuf  more   = { 0 };
    est_status  status = EST_OK;

    if (est_stop_signal() != 0) w->end_secs = fmin(w->end_secs, secs + w->stop_secs);
    if (secs >= w->end_secs) {
        return est_fail(EST_CANCELLED, "%s while waiting for %s (%s)", est_stop_signal_name(), for_whom, why);
    }
    if (w->remote->over != NULL && w->remote->over(w->remote->over_user)) {
        return est_fail(EST_OUT_OF_RANGE, "the job has ended while waiting for %s", for_whom);
    }
    if (!late && !est_wait_is_due(&w->base)) return EST_OK;
    est_strbuf_append(&more, detail);
    if (w->add != NULL) w->add(w, &more);
    if (late) {
        status = est_fail(EST_DEADLINE_EXCEEDED, "waited %.0f s for %s (%s)%s%s", secs, for_whom, why,
                          more.size > 0 ? ": " : "", est_strbuf_text(&more));
    } else {
        est_wait_report(&w->base, est_strbuf_text(&more));
    }
    est_strbuf_clear(&more);
    return status;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static est_status check_step(void *user)
{
    const est_tasks *r = user;

    return r->base.direct ? est_rendezvous_check_step(r->server->rendezvous, r->base.step) : EST_OK;
}

/* The link notices a lost task. A connected task that does not answer is logged after silence_secs, like a lost one. */
est_status est_remote_task_await(const est_remote_task *p, est_ask *ask, const char *why, est_tasks *run_of,
                                 double stop_secs, est_message **answer)
{
    est_waiting w = est_wait_begin(p->server->task, p->name, why, est_ask_limit_secs(ask));
    est_status  status;

    if (run_of != NULL) {
        w.then  = "asks again";
        w.check = check_step;
        w.user  = run_of;
    }
    w.report_secs = fmin(w.report_secs, p->server->silence_secs);
    status        = est_wait_answer(&w, ask, stop_secs, answer);
    est_wait_end(&w);
    return status;
}

est_status est_tasks_await_all(const est_tasks *r, est_ask *const *asks, est_method method, double stop_secs,
                               est_message **out)
{
    est_status status = EST_OK;
    est_error  error;

    for (int task = 0; task < r->base.n_tasks; task++) {
        est_message *answer;
        est_status   own;

        if (asks[task] == NULL) continue;
        own = est_remote_task_await(&r->tasks[task], asks[task], est_method_text(method), NULL, stop_secs, &answer);
        if (own == EST_CANCELLED) stop_secs = 0;
        if (own == EST_OK && out != NULL) {
            out[task] = answer;
        } else if (own == EST_OK) {
            est_message_free(answer);
        } else if (status == EST_OK) {
            est_error_take(status = own, &error);
        }
    }
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

est_status est_remote_task_ask(const est_remote_task *p, est_method method, const est_packing *packing, double secs,
                               est_message **answer)
{
    est_payload payload;
    est_ask    *ask;

    EST_TRY(est_packing_payload(packing, &payload));
    EST_TRY(est_link_ask(p->link, (uint16_t)method, est_method_text(method), payload, secs, NULL, NULL, &ask));
    return est_remote_task_await(p, ask, est_method_text(method), NULL, INFINITY, answer);
}

est_status est_remote_task_tell(const est_remote_task *p, est_method method, const est_packing *packing, double secs)
{
    est_message *answer;

    EST_TRY(est_remote_task_ask(p, method, packing, secs, &answer));
    est_message_free(answer);
    return EST_OK;
}

/* The answer to a parked request. */
typedef struct slow_answer {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            done;
    est_status      status;
    char            error[512];
    est_message    *answer;
} slow_answer;

static void take_answer(void *user, est_status status, const char *error, est_message *answer)
{
    slow_answer *p = user;

    pthread_mutex_lock(&p->lock);
    p->done   = true;
    p->status = status;
    if (status == EST_OK) {
        p->answer = est_message_ref(answer);
    } else {
        snprintf(p->error, sizeof p->error, "%s", error);
    }
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* A task whose link broke may have lost its variables. The chief must restore them before training goes on, so waiting
 * for another task is pointless. */
static est_status check_links(const est_tasks *r)
{
    for (int i = 0; i < r->base.n_tasks; i++) {
        const est_remote_task *p = &r->tasks[i];

        if (p->link != NULL && est_link_is_lost(p->link)) return est_fail(EST_UNAVAILABLE, "%s is lost", p->name);
    }
    return EST_OK;
}

/* Ends a wait so that no answer comes later: LEAVE fails the parked request, and keeps the link for what a stopped task
 * still has to do. A link over which even that fails is closed. */
static void give_up(const est_remote_task *p, est_status status)
{
    est_packing nothing = { 0 };
    est_error   error;

    est_error_take(status, &error);
    if (est_remote_task_tell(p, EST_METHOD_LEAVE, &nothing, EST_LEAVE_SECS) != EST_OK)
        est_link_close(p->link, "gave up waiting");
    (void)est_error_raise(&error);
}

static est_status wait_patiently(const est_tasks *r, const est_remote_task *p, est_method method, slow_answer *got,
                                 const char *why, double limit_secs)
{
    waiting    w      = begin_wait(r, p->name, why, limit_secs);
    est_status status = EST_OK;

    if (method == EST_METHOD_AWAIT_READY) w.add = add_chief;
    if (method == EST_METHOD_FINISH_STEP) w.add = add_gathering;
    if (method == EST_METHOD_HOLD) w.stop_secs = est_tasks_save_secs(r);
    pthread_mutex_lock(&got->lock);
    while (!got->done) {
        est_cond_wait_ns(&got->changed, &got->lock, (int64_t)(SLICE_SECS * (double)EST_NS_PER_SEC));
        if (got->done || status != EST_OK) continue;
        /* The network thread takes the lock; disks and logs below may block. */
        pthread_mutex_unlock(&got->lock);
        status = keep_waiting(&w, "");
        if (status == EST_OK) status = check_links(r);
        if (status != EST_OK) give_up(p, status);
        pthread_mutex_lock(&got->lock);
    }
    pthread_mutex_unlock(&got->lock);
    est_wait_end(&w.base);
    return status;
}

est_status est_remote_task_ask_patiently(const est_tasks *r, const est_remote_task *p, est_method method,
                                         const est_packing *packing, const char *why, double limit_secs,
                                         est_message **answer)
{
    slow_answer got = { 0 };
    est_payload payload;
    est_status  status;

    EST_TRY(est_packing_payload(packing, &payload));
    EST_TRY(est_lock_init(&got.lock));
    status = est_cond_init(&got.changed);
    if (status != EST_OK) {
        pthread_mutex_destroy(&got.lock);
        return status;
    }
    status = est_link_ask(p->link, (uint16_t)method, est_method_text(method), payload,
                          isfinite(limit_secs) ? limit_secs + EST_LEAVE_SECS : EST_FOREVER, take_answer, &got, NULL);
    if (status == EST_OK) {
        status = wait_patiently(r, p, method, &got, why, limit_secs);
        if (status == EST_OK && got.status != EST_OK) status = est_fail(got.status, "%s", got.error);
    }
    if (status == EST_OK) {
        *answer = got.answer;
    } else {
        est_message_free(got.answer);
    }
    pthread_mutex_destroy(&got.lock);
    pthread_cond_destroy(&got.changed);
    return status;
}

/* --- links -------------------------------------------------------------------------------------------------------- */

est_status est_remote_task_reach(const est_tasks *r, est_remote_task *p, double limit_secs)
{
    waiting    w;
    est_link  *link;
    est_status status;

    if (is_linked(p)) return EST_OK;
    w      = begin_wait(r, p->name, "it is not there", limit_secs);
    w.add  = add_missing;
    status = est_net_connect_while(est_server_net(r->server), p->address, p->name, keep_waiting, &w, &link);
    est_wait_end(&w.base);
    EST_TRY(status);
    take_link(p, link);
    if (w.base.reported) est_log_info("%s is there", p->name);
    return EST_OK;
}
