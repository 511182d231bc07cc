/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors that have come for runs of this task, and the runs that wait for them. */
#include "cluster/rendezvous.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/refcount.h"
#include "cluster/server.h"

struct est_arrival {
    est_refcount    refs;
    est_transfer_id id;
    est_view        view;
    est_message    *message; /* that it came with; NULL: a run of this task sent it */
    est_unpacked    tensors;
    est_sends      *sends;
    est_arrival    *next;
};

/* A run that waits for tensors. */
typedef struct waiter {
    est_request   *request;
    uint64_t       driver, step;
    uint64_t      *missing; /* transfers */
    int            n_missing;
    struct waiter *next;
} waiter;

struct est_rendezvous {
    est_server     *server;
    pthread_mutex_t lock; /* guards what follows */
    est_arrival    *arrived;
    waiter         *waiting;
    bool            stopping;
    uint64_t        failed_step; /* of this process, as another task has reported, */
    est_error       failure;     /* and why; EST_OK: none */
};

/* --- life --------------------------------------------------------------------------------------------------------- */

est_status est_rendezvous_create(est_server *server, est_rendezvous **out)
{
    est_rendezvous *r = est_zalloc(sizeof *r);
    est_status      status;

    if (r == NULL) return est_no_memory();
    r->server = server;
    status    = est_lock_init(&r->lock);
    if (status != EST_OK) {
        est_free(r);
        return status;
    }
    *out = r;
    return EST_OK;
}

void est_arrival_free(est_arrival *a)
{
    if (a == NULL || !est_refcount_drop(&a->refs)) return;
    est_unpacked_clear(&a->tensors);
    est_message_free(a->message);
    est_sends_free(a->sends);
    est_free(a);
}

/* Fails the runs of waiters that were taken off the list. */
static void end_waits(waiter *list, est_status status, const char *why)
{
    while (list != NULL) {
        waiter *w = list;

        list = w->next;
        est_request_fail(w->request, status, why);
        est_free(w->missing);
        est_free(w);
    }
}

/* Resumes the runs of waiters that were taken off the list; in the network thread, or by the executor. */
static void resume(est_rendezvous *r, waiter *list, bool in_network_thread)
{
    while (list != NULL) {
        waiter *w = list;

        list = w->next;
        if (in_network_thread) {
            est_service_resume(r->server, w->request);
        } else {
            est_service_enqueue(r->server, w->request);
        }
        est_free(w->missing);
        est_free(w);
    }
}

void est_rendezvous_stop(est_rendezvous *r)
{
    waiter *list;

    if (r == NULL) return;
    pthread_mutex_lock(&r->lock);
    r->stopping = true;
    list        = r->waiting;
    r->waiting  = NULL;
    pthread_mutex_unlock(&r->lock);
    end_waits(list, EST_UNAVAILABLE, "the server is shutting down");
}

void est_rendezvous_free(est_rendezvous *r)
{
    if (r == NULL) return;
    while (r->arrived != NULL) {
        est_arrival *a = r->arrived;

        r->arrived = a->next;
        est_arrival_free(a);
    }
    pthread_mutex_destroy(&r->lock);
    est_free(r);
}

/* --- dropping ----------------------------------------------------------------------------------------------------- */

/* Which tensors and waiting runs a drop is about. */
typedef struct selection {
    uint64_t        driver;
    uint64_t        before;                       /* steps below this one */
    const est_link *link;                         /* of waiting runs, and of no tensor; NULL: any */
    bool (*is_gone)(void *user, uint64_t driver); /* drivers; NULL: `driver` */
    void *user;
} selection;

static bool is_selected(const selection *s, uint64_t driver, uint64_t step)
{
    return step < s->before && (s->is_gone != NULL ? s->is_gone(s->user, driver) : driver == s->driver);
}

/* Takes the selected waiters off the list and drops the selected tensors. */
static waiter *drop(est_rendezvous *r, const selection *s)
{
    waiter *taken = NULL;

    for (waiter **at = &r->waiting; *at != NULL;) {
        waiter *w = *at;

        if (s->link != NULL ? est_request_link(w->request) != s->link : !is_selected(s, w->driver, w->step)) {
            at = &w->next;
            continue;
        }
        *at     = w->next;
        w->next = taken;
        taken   = w;
    }
    for (est_arrival **at = &r->arrived; *at != NULL;) {
        est_arrival *a = *at;

        if (s->link != NULL || !is_selected(s, a->id.driver, a->id.step)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        est_arrival_free(a);
    }
    return taken;
}

static void drop_and_fail(est_rendezvous *r, const selection *s, est_status status, const char *why)
{
    waiter *list;

    pthread_mutex_lock(&r->lock);
    list = drop(r, s);
    pthread_mutex_unlock(&r->lock);
    end_waits(list, status, why);
}

void est_rendezvous_lose_link(est_rendezvous *r, const est_link *link, const char *why)
{
    drop_and_fail(r, &(selection){ .link = link }, EST_UNAVAILABLE, why);
}

void est_rendezvous_forget(est_rendezvous *r, uint64_t driver)
{
    drop_and_fail(r, &(selection){ .driver = driver, .before = UINT64_MAX }, EST_ABORTED, "it has left");
}

void est_rendezvous_sweep(est_rendezvous *r, bool (*is_gone)(void *user, uint64_t driver), void *user)
{
    drop_and_fail(r, &(selection){ .before = UINT64_MAX, .is_gone = is_gone, .user = user }, EST_ABORTED,
                  "it did not come back");
}

est_rendezvous_counts est_rendezvous_count(est_rendezvous *r)
{
    est_rendezvous_counts counts = { 0 };

    pthread_mutex_lock(&r->lock);
    for (const est_arrival *a = r->arrived; a != NULL; a = a->next) counts.arrived++;
    for (const waiter *w = r->waiting; w != NULL; w = w->next) counts.waiting++;
    pthread_mutex_unlock(&r->lock);
    return counts;
}

/* --- tensors that come -------------------------------------------------------------------------------------------- */

static est_arrival *find(const est_rendezvous *r, uint64_t driver, uint64_t step, uint64_t transfer)
{
    est_arrival *a = r->arrived;

    while (a != NULL && (a->id.driver != driver || a->id.step != step || a->id.transfer != transfer)) a = a->next;
    return a;
}

static est_status make_arrival(est_transfer_id id, est_arrival **out)
{
    est_arrival *a = est_zalloc(sizeof *a);

    if (a == NULL) return est_no_memory();
    est_refcount_init(&a->refs);
    a->id = id;
    *out  = a;
    return EST_OK;
}

est_status est_arrival_read(est_message *message, est_arrival **out)
{
    est_transfer_id id = { est_head_u64(message, EST_FIELD_DRIVER, 0), est_head_u64(message, EST_FIELD_DRIVEN_STEP, 0),
                           est_head_u64(message, EST_FIELD_TRANSFER, 0) };
    est_arrival    *a;
    est_status      status;

    EST_TRY(make_arrival(id, &a));
    a->message = est_message_ref(message);
    status     = est_unpack_tensors(message, &a->tensors);
    if (status == EST_OK && a->tensors.n != 1) {
        status = est_fail(EST_DATA_LOSS, "a transfer between tasks has %d tensors, expected 1", a->tensors.n);
    }
    if (status != EST_OK) {
        est_arrival_free(a);
        return status;
    }
    a->view = a->tensors.views[0];
    *out    = a;
    return EST_OK;
}

/* Takes the transfer off what the waiting runs miss; returns those that miss nothing more. */
static waiter *take_complete(est_rendezvous *r, const est_arrival *a)
{
    waiter *complete = NULL;

    for (waiter **at = &r->waiting; *at != NULL;) {
        waiter *w = *at;

        for (int i = w->n_missing - 1; i >= 0 && w->driver == a->id.driver && w->step == a->id.step; i--) {
            if (w->missing[i] == a->id.transfer) w->missing[i] = w->missing[--w->n_missing];
        }
        if (w->n_missing > 0) {
            at = &w->next;
            continue;
        }
        *at      = w->next;
        w->next  = complete;
        complete = w;
    }
    return complete;
}

/* Takes the arrival over. */
static void add_arrival(est_rendezvous *r, est_arrival *a, bool in_network_thread)
{
    waiter *older, *complete = NULL;

    pthread_mutex_lock(&r->lock);
    older = drop(r, &(selection){ .driver = a->id.driver, .before = a->id.step });
    if (find(r, a->id.driver, a->id.step, a->id.transfer) == NULL) {
        complete   = take_complete(r, a);
        a->next    = r->arrived;
        r->arrived = a;
        a          = NULL;
    }
    pthread_mutex_unlock(&r->lock);
    est_arrival_free(a); /* RV1 */
    end_waits(older, EST_ABORTED, "a later step has begun");
    resume(r, complete, in_network_thread);
}

est_status est_rendezvous_put(est_rendezvous *r, est_transfer_id id, const est_view *view, est_sends *sends)
{
    est_arrival *a;

    EST_TRY(make_arrival(id, &a));
    a->view  = *view;
    a->sends = est_sends_ref(sends);
    add_arrival(r, a, false);
    return EST_OK;
}

static void abort_step(est_rendezvous *r, const est_request *request)
{
    uint64_t step = est_head_u64(est_request_message(request), EST_FIELD_DRIVEN_STEP, 0);

    drop_and_fail(r,
                  &(selection){ .driver = est_link_peer(est_request_link(request))->incarnation,
                                .before = step < UINT64_MAX ? step + 1 : step },
                  EST_ABORTED, "the step failed at another task");
}

/* Reports of earlier steps may come late, and the driver looks only now and then. */
static void note_failure(est_rendezvous *r, const est_request *request)
{
    const est_message *message = est_request_message(request);
    uint64_t           failure = est_head_u64(message, EST_FIELD_FAILURE, EST_UNKNOWN);
    uint64_t           step    = est_head_u64(message, EST_FIELD_DRIVEN_STEP, 0);
    est_str            why     = est_head_bytes(message, EST_FIELD_BYTES);

    pthread_mutex_lock(&r->lock);
    if (step >= r->failed_step) {
        r->failed_step    = step;
        r->failure.status = failure > EST_OK && failure <= EST_UNAUTHENTICATED ? (est_status)failure : EST_UNKNOWN;
        snprintf(r->failure.message, sizeof r->failure.message, "%s: %.*s",
                 est_link_peer(est_request_link(request))->task, est_text_precision(why),
                 why.data != NULL ? why.data : "");
    }
    pthread_mutex_unlock(&r->lock);
}

est_status est_rendezvous_check_step(est_rendezvous *r, uint64_t step)
{
    est_error failure = { 0 };

    pthread_mutex_lock(&r->lock);
    if (r->failed_step == step) failure = r->failure;
    pthread_mutex_unlock(&r->lock);
    return failure.status == EST_OK ? EST_OK : est_error_raise(&failure);
}

void est_rendezvous_serve(est_rendezvous *r, est_request *request)
{
    est_arrival *a;
    est_status   status;

    if (est_request_method(request) != EST_METHOD_SEND) {
        if (est_request_method(request) == EST_METHOD_ABORT_STEP) abort_step(r, request);
        if (est_request_method(request) == EST_METHOD_FAIL_STEP) note_failure(r, request);
        est_service_finish(request, EST_OK, NULL);
        return;
    }
    status = est_arrival_read(est_request_message(request), &a);
    est_service_finish(request, status, NULL);
    if (status == EST_OK) add_arrival(r, a, true);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* The transfers of a RUN, to be freed; *n is 0 without memory. */
static est_status list_transfers(const est_request *request, uint64_t **out, int *n)
{
    est_wire_reader reader;
    est_wire_field  field;
    int             max = 0;

    *n   = 0;
    *out = NULL;
    est_head_open(est_request_message(request), &reader);
    while (est_wire_next(&reader, &field)) max += field.number == EST_FIELD_RECEIVE;
    if (max == 0) return EST_OK;
    *out = est_alloc(sizeof **out * (size_t)max);
    if (*out == NULL) return est_no_memory();
    est_head_open(est_request_message(request), &reader);
    while (est_wire_next(&reader, &field)) {
        if (field.number == EST_FIELD_RECEIVE) (*out)[(*n)++] = est_wire_u64(&reader, &field);
    }
    return EST_OK;
}

/* Takes the list over. Whether the request waits. */
static bool wait_for(est_rendezvous *r, waiter *w)
{
    waiter *older;
    bool    waits;

    pthread_mutex_lock(&r->lock);
    older = drop(r, &(selection){ .driver = w->driver, .before = w->step });
    for (int i = w->n_missing - 1; i >= 0; i--) {
        if (find(r, w->driver, w->step, w->missing[i]) != NULL) w->missing[i] = w->missing[--w->n_missing];
    }
    waits = w->n_missing > 0 && !r->stopping;
    if (waits) {
        w->next    = r->waiting;
        r->waiting = w;
    }
    pthread_mutex_unlock(&r->lock);
    end_waits(older, EST_ABORTED, "a later step has begun");
    return waits;
}

bool est_rendezvous_is_ready(est_rendezvous *r, est_request *request)
{
    waiter    *w;
    uint64_t  *transfers;
    int        n;
    est_status status = list_transfers(request, &transfers, &n);

    if (status == EST_OK && n == 0) return true;
    w = est_zalloc(sizeof *w);
    if (w == NULL || status != EST_OK) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory for a run that waits for tensors");
        est_free(transfers);
        est_free(w);
        return false;
    }
    *w = (waiter){ .request   = request,
                   .driver    = est_link_peer(est_request_link(request))->incarnation,
                   .step      = est_head_u64(est_request_message(request), EST_FIELD_DRIVEN_STEP, 0),
                   .missing   = transfers,
                   .n_missing = n };
    if (wait_for(r, w)) return false;
    est_free(transfers);
    est_free(w);
    return true;
}

est_status est_rendezvous_inputs(est_rendezvous *r, const est_request *request, est_arrival ***out, int *n)
{
    uint64_t      driver = est_link_peer(est_request_link(request))->incarnation;
    uint64_t      step   = est_head_u64(est_request_message(request), EST_FIELD_DRIVEN_STEP, 0);
    uint64_t     *transfers;
    est_arrival **list   = NULL;
    est_status    status = list_transfers(request, &transfers, n);

    *out = NULL;
    if (status == EST_OK && *n == 0) return EST_OK;
    if (status == EST_OK) list = est_zalloc(sizeof(est_arrival *) * (size_t)*n);
    if (status == EST_OK && list == NULL) status = est_no_memory();
    if (status == EST_OK) {
        bool all = true;

        pthread_mutex_lock(&r->lock);
        for (int i = 0; i < *n; i++) {
            list[i] = find(r, driver, step, transfers[i]);
            if (list[i] != NULL) est_refcount_add(&list[i]->refs);
            all = all && list[i] != NULL;
        }
        pthread_mutex_unlock(&r->lock);
        if (!all) status = est_fail(EST_ABORTED, "the step has ended, and its tensors are gone");
    }
    est_free(transfers);
    if (status != EST_OK) {
        est_arrivals_free(list, *n);
        *n = 0;
        return status;
    }
    *out = list;
    return EST_OK;
}

est_transfer_id est_arrival_id(const est_arrival *arrival)
{
    return arrival->id;
}

const est_view *est_arrival_view(const est_arrival *arrival)
{
    return &arrival->view;
}

void est_arrivals_free(est_arrival **list, int n)
{
    if (list == NULL) return;
    for (int i = 0; i < n; i++) est_arrival_free(list[i]);
    est_free(list);
}
