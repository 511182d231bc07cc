/* SPDX-License-Identifier: Apache-2.0
 *
 * Parked requests of a server: when each may be answered, and with what. Everything here runs under the server's
 * `lock`. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cluster/clients.h"
#include "cluster/sync_replicas.h"
#include "cluster/terms.h"

#define LATE_SECS INT64_C(120) /* in which tasks of a job are expected to come for the first time */

static void answer_turn(const est_server *s, est_request *request, est_gate_answer answer)
{
    est_packing packing = { 0 };

    if (answer == EST_GATE_DROPPED) {
        est_request_fail(request, EST_ABORTED, "replaced by a later request of the same task");
        return;
    }
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, s->step);
    est_wire_put_bool(&packing.head, EST_FIELD_FINISHED, answer == EST_GATE_FINISHED);
    est_service_finish(request, EST_OK, &packing);
}

/* Whether tasks of the job may still come for the first time. */
static bool may_others_come(const est_server *s, const char *task)
{
    static const char *const types[] = { "chief", "master", "worker" };
    char                     name[EST_NET_NAME_MAX];

    if (est_now_ns() - s->start_ns > LATE_SECS * EST_NS_PER_SEC) return false;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int i = 0; i < est_cluster_tasks(s->cluster, types[t]); i++) {
            snprintf(name, sizeof name, "%s:%d", types[t], i);
            if (est_cluster_address(s->cluster, types[t], i) == NULL || strcmp(name, task) == 0) continue;
            if (est_clients_find(s, name) == NULL) return true;
        }
    }
    return false;
}

/* Whether no other task trains. A lost task with a turn may come back with its step. */
static bool is_alone(const est_server *s, const char *task)
{
    if (may_others_come(s, task)) return false;
    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];

        if (est_is_external(client->who.task) || strcmp(client->who.task, task) == 0) continue;
        if (client->link != NULL || est_gate_has_turn(s->gate, client->who.task)) return false;
    }
    return true;
}

static bool is_at_rest(const est_server *s)
{
    return est_gate_is_idle(s->gate) && s->committer[0] == '\0';
}

bool est_server_is_held(const est_server *s)
{
    return est_gate_is_held(s->gate) && is_at_rest(s);
}

/* Whether the chief that declared the variables ready is connected. The terms of a lost chief may be out of date: all
 * tasks may have been restarted with another program, whose terms the next chief declares. */
static bool is_declarer_here(const est_server *s)
{
    for (int i = 0; i < s->n_clients; i++) {
        if (s->clients[i]->link != NULL && s->clients[i]->who.incarnation == s->declarer) return true;
    }
    return false;
}

static est_status compare_terms(const est_server *s, const est_request *request)
{
    est_str terms = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);

    if (terms.data == NULL || s->terms == NULL) return EST_OK;
    return est_terms_same(terms, est_link_peer(est_request_link(request))->task, est_terms_text(s->terms),
                          est_server_chief(s, NULL));
}

/* Whether a waiting task can be answered. One whose terms differ from those of a lost chief waits for the next
 * chief. */
static bool may_compare(const est_server *s, const est_request *request)
{
    if (is_declarer_here(s) || compare_terms(s, request) == EST_OK) return true;
    est_error_clear();
    return false;
}

static bool may_answer(const est_server *s, const est_parked *parked)
{
    switch (parked->method) {
    case EST_METHOD_FINISH_STEP: return false; /* left to est_sync_replicas_wake */
    case EST_METHOD_HOLD: return is_at_rest(s);
    case EST_METHOD_AWAIT_ALONE: return is_alone(s, est_link_peer(est_request_link(parked->request))->task);
    default: return s->done || (s->ready && may_compare(s, parked->request));
    }
}

est_status est_server_park(est_server *s, est_request *request, est_method method)
{
    if (s->n_parked == s->max_parked) {
        int         max  = s->max_parked == 0 ? 16 : 2 * s->max_parked;
        est_parked *more = est_realloc(s->parked, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        s->parked     = more;
        s->max_parked = max;
    }
    s->parked[s->n_parked++] = (est_parked){ .request = request, .method = method, .since_ns = est_now_ns() };
    return EST_OK;
}

static est_status check_terms(est_server *s, const est_request *request)
{
    est_client *client = est_clients_get(s, est_request_link(request));

    EST_TRY(compare_terms(s, request));
    if (client != NULL && est_head_bytes(est_request_message(request), EST_FIELD_BYTES).data != NULL) {
        client->agreed = s->n_terms;
    }
    return EST_OK;
}

est_status est_server_set_terms(est_server *s, est_str terms)
{
    bool  same = s->terms != NULL && strlen(s->terms) == terms.size && memcmp(s->terms, terms.data, terms.size) == 0;
    char *copy;

    if (same) return EST_OK;
    copy = est_alloc(terms.size + 1);
    if (copy == NULL) return est_no_memory();
    if (terms.size > 0) memcpy(copy, terms.data, terms.size);
    copy[terms.size] = '\0';
    est_free(s->terms);
    s->terms = copy;
    s->n_terms++;
    return EST_OK;
}

/* A lost committer may have reached some tasks and not others: the holder finishes the commit. */
static void answer_hold(const est_server *s, est_request *request)
{
    est_packing out = { 0 };

    if (s->committing.timeline == s->timeline && s->committing.step == s->step) {
        est_wire_put_bool(&out.head, EST_FIELD_COMMIT, true);
        est_wire_put_i64(&out.head, EST_FIELD_STEP, s->step);
        est_wire_put_u64(&out.head, EST_FIELD_TIMELINE, s->timeline);
    }
    est_service_finish(request, EST_OK, &out);
}

/* Answers a parked request whose condition holds. */
static void answer_parked(est_server *s, int parked)
{
    est_request *request = s->parked[parked].request;
    est_method   method  = s->parked[parked].method;
    est_status   status  = method == EST_METHOD_AWAIT_READY && s->ready ? check_terms(s, request) : EST_OK;

    s->parked[parked] = s->parked[--s->n_parked];
    if (method == EST_METHOD_HOLD) {
        answer_hold(s, request);
    } else {
        est_service_finish(request, status, NULL);
    }
}

void est_server_wake(est_server *s)
{
    void           *waiter;
    est_gate_answer answer;

    while (est_gate_next(s->gate, &waiter, &answer)) answer_turn(s, waiter, answer);
    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (may_answer(s, &s->parked[i])) answer_parked(s, i);
    }
    est_sync_replicas_wake(s);
}
