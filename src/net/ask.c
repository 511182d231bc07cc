/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests, those of this process and those of its peers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "net/link.h"

#define WAIT_NS_MAX (3600 * EST_NS_PER_SEC) /* of one sleep */
#define SLOTS_FIRST 16

/* --- asks under way: the lock is held ----------------------------------------------------------------------------- */

static est_status take_slot(est_link *link, est_ask *ask)
{
    est_ask_slot *slot;

    if (link->free_slot == link->n_slots) {
        uint32_t      n     = link->n_slots > 0 ? 2 * link->n_slots : SLOTS_FIRST;
        est_ask_slot *slots = est_realloc(link->slots, n * sizeof *slots);

        if (slots == NULL) return est_no_memory();
        for (uint32_t i = link->n_slots; i < n; i++) slots[i] = (est_ask_slot){ .next_free = i + 1 };
        link->slots   = slots;
        link->n_slots = n;
    }
    slot            = &link->slots[link->free_slot];
    slot->ask       = ask;
    ask->id         = (uint64_t)++slot->uses << 32 | link->free_slot;
    link->free_slot = slot->next_free;
    return EST_OK;
}

static void free_slot(est_link *link, est_ask *ask)
{
    uint32_t      i    = (uint32_t)ask->id;
    est_ask_slot *slot = &link->slots[i];

    slot->ask = NULL;
    /* The list ends at n_slots, so that a list that is used up continues with new slots. */
    slot->next_free = link->free_slot;
    link->free_slot = i;
}

static est_ask *find_ask(est_link *link, uint64_t id)
{
    uint32_t i   = (uint32_t)id;
    est_ask *ask = i < link->n_slots ? link->slots[i].ask : NULL;

    return ask != NULL && ask->id == id ? ask : NULL;
}

/* Ends an ask, with an answer, which is taken, or with an error. Its parts are not read afterwards. */
static void finish(est_link *link, est_ask *ask, est_status status, const char *error, est_message *answer)
{
    bool wake = false;

    free_slot(link, ask);
    if (link->wire != NULL) link->transport->forget(link->wire, ask, &wake);
    if (wake) est_net_flag(link->net, link);
    ask->status   = status;
    ask->answer   = answer;
    ask->finished = true;
    snprintf(ask->error, sizeof ask->error, "%s", error != NULL ? error : "");
    if (ask->done != NULL) {
        ask->next     = link->to_call;
        link->to_call = ask;
    } else {
        pthread_cond_signal(&ask->finished_cond);
    }
}

static void finish_late(est_link *link, est_ask *ask)
{
    char text[sizeof ask->error];

    snprintf(text, sizeof text, "%s did not answer %s within %g s", est_link_name(link), ask->what, ask->deadline_secs);
    finish(link, ask, EST_DEADLINE_EXCEEDED, text, NULL);
}

static void finish_failed(est_link *link, est_ask *ask, est_status status, const char *why)
{
    char text[sizeof ask->error];

    snprintf(text, sizeof text, "%s was asked for %s: %s", est_link_name(link), ask->what, why);
    finish(link, ask, status, text, NULL);
}

void est_asks_fail_all(est_link *link, est_status status, const char *why, bool waited_only)
{
    for (uint32_t i = 0; i < link->n_slots; i++) {
        est_ask *ask = link->slots[i].ask;

        if (ask != NULL && !(waited_only && ask->done != NULL)) finish_failed(link, ask, status, why);
    }
}

void est_asks_expire(est_link *link, int64_t now_ns)
{
    for (uint32_t i = 0; i < link->n_slots; i++) {
        est_ask *ask = link->slots[i].ask;

        if (ask != NULL && ask->done != NULL && now_ns > ask->deadline_ns) finish_late(link, ask);
    }
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* Without the lock: freeing the link may need it. */
static void free_ask(est_ask *ask)
{
    est_link   *link   = ask->link;
    est_blocks *blocks = est_blocks_ref(link->blocks);

    pthread_cond_destroy(&ask->finished_cond);
    est_block_free(blocks, ask);
    est_link_free(link);
    est_blocks_free(blocks);
}

void est_asks_call(est_link *link)
{
    for (;;) {
        est_ask *ask;

        pthread_mutex_lock(&link->lock);
        ask = link->to_call;
        if (ask != NULL) link->to_call = ask->next;
        pthread_mutex_unlock(&link->lock);
        if (ask == NULL) return;
        ask->done(ask->user, ask->status, ask->error, ask->answer);
        est_message_free(ask->answer);
        free_ask(ask);
    }
}

/* The lock is held. */
static est_status send_ask(est_link *link, est_ask *ask, uint16_t method, est_payload payload)
{
    est_status status;

    if (link->cancelled)
        return est_fail(EST_CANCELLED, "%s was not asked for %s: cancelled", est_link_name(link), ask->what);
    if (link->state != EST_LINK_OPEN || link->close_wanted) {
        return est_fail(EST_UNAVAILABLE, "%s cannot be asked for %s: %s", est_link_name(link), ask->what, link->why);
    }
    EST_TRY(take_slot(link, ask));
    status = est_link_send(link, EST_FRAME_REQUEST, ask->id, method, payload, ask);
    if (status != EST_OK) {
        free_slot(link, ask);
    } else {
        link->counters.requests_out++;
    }
    return status;
}

est_status est_link_ask(est_link *link, uint16_t method, const char *what, est_payload payload, double deadline_secs,
                        est_ask_done done, void *user, est_ask **out)
{
    est_ask   *ask     = EST_FAULT_POINT("net.ask") ? NULL : est_block_alloc(link->blocks, sizeof *ask);
    bool       forever = deadline_secs == EST_FOREVER;
    est_status status;

    if (ask == NULL) return est_no_memory();
    memset(ask, 0, offsetof(est_ask, error) + 1);
    ask->done          = done;
    ask->user          = user;
    ask->deadline_secs = deadline_secs;
    ask->deadline_ns   = forever ? INT64_MAX : est_machine_ns() + est_secs_to_ns(deadline_secs);
    snprintf(ask->what, sizeof ask->what, "%s", what);
    status = est_cond_init(&ask->finished_cond);
    if (status != EST_OK) {
        est_block_free(link->blocks, ask);
        return status;
    }
    ask->link = est_link_ref(link);
    pthread_mutex_lock(&link->lock);
    status = send_ask(link, ask, method, payload);
    pthread_mutex_unlock(&link->lock);
    if (status != EST_OK) {
        free_ask(ask);
    } else if (out != NULL) {
        *out = done == NULL ? ask : NULL;
    }
    return status;
}

/* Waits until the ask has finished, at most until `until_ns`. The lock is held. */
static void await_finish(est_link *link, est_ask *ask, int64_t until_ns)
{
    while (!ask->finished) {
        int64_t now = est_machine_ns(), left = (ask->deadline_ns < until_ns ? ask->deadline_ns : until_ns) - now;

        if (now >= ask->deadline_ns) {
            finish_late(link, ask);
        } else if (left > 0) {
            est_cond_wait_ns(&ask->finished_cond, &link->lock, left < WAIT_NS_MAX ? left : WAIT_NS_MAX);
        } else {
            return;
        }
    }
}

double est_ask_limit_secs(const est_ask *ask)
{
    return ask->deadline_ns == INT64_MAX ? INFINITY : ask->deadline_secs;
}

bool est_ask_await(est_ask *ask, double secs)
{
    bool finished;

    pthread_mutex_lock(&ask->link->lock);
    await_finish(ask->link, ask, est_machine_ns() + est_secs_to_ns(secs));
    finished = ask->finished;
    pthread_mutex_unlock(&ask->link->lock);
    return finished;
}

void est_ask_give_up(est_ask *ask, const char *why)
{
    pthread_mutex_lock(&ask->link->lock);
    if (!ask->finished) finish_failed(ask->link, ask, EST_CANCELLED, why);
    pthread_mutex_unlock(&ask->link->lock);
}

est_status est_ask_wait(est_ask *ask, est_message **answer)
{
    est_link  *link = ask->link;
    est_status status;

    pthread_mutex_lock(&link->lock);
    await_finish(link, ask, INT64_MAX);
    if (link->cancelled && ask->status == EST_OK) {
        ask->status = EST_CANCELLED;
        snprintf(ask->error, sizeof ask->error, "%s was asked for %s: cancelled", est_link_name(link), ask->what);
    }
    pthread_mutex_unlock(&link->lock);
    status = ask->status;
    if (status == EST_OK) {
        *answer = ask->answer;
    } else {
        status = est_fail(status, "%s", ask->error);
        est_message_free(ask->answer);
    }
    free_ask(ask);
    return status;
}

void est_asks_answered(est_link *link, const est_frame *frame, est_message *message)
{
    est_ask    *ask;
    est_status  code, status = EST_OK;
    char        text[EST_FAREWELL_MAX], named[sizeof ask->error];
    size_t      size;
    const void *head = est_message_head(message, &size);

    if (frame->kind == EST_FRAME_FAILURE) {
        status = est_farewell_decode(head, size, &code, text);
        est_message_free(message);
        message = NULL;
        if (status != EST_OK) {
            est_link_lose(link, status, est_error_message());
            return;
        }
        snprintf(named, sizeof named, "%s: %s", est_link_name(link), text);
    }
    pthread_mutex_lock(&link->lock);
    ask = find_ask(link, frame->id);
    if (ask != NULL && frame->kind == EST_FRAME_FAILURE) {
        finish(link, ask, code, named, NULL);
    } else if (ask != NULL) {
        finish(link, ask, EST_OK, NULL, message);
        message = NULL;
    }
    pthread_mutex_unlock(&link->lock);
    est_message_free(message); /* the ask has ended */
    est_asks_call(link);
}

/* --- being asked -------------------------------------------------------------------------------------------------- */

void est_asks_serve(est_link *link, const est_frame *frame, est_message *message)
{
    est_net     *net     = link->net;
    est_request *request = est_block_alloc(link->blocks, sizeof *request);

    if (request == NULL) {
        est_message_free(message);
        pthread_mutex_lock(&link->lock);
        est_link_send_text(link, EST_FRAME_FAILURE, frame->id, EST_RESOURCE_EXHAUSTED, "no memory for a request");
        pthread_mutex_unlock(&link->lock);
        return;
    }
    *request = (est_request){
        .link = est_link_ref(link), .id = frame->id, .method = frame->method, .message = message
    };
    pthread_mutex_lock(&link->lock);
    link->counters.requests_in++;
    pthread_mutex_unlock(&link->lock);
    if (net->options.serve != NULL) {
        net->options.serve(net->options.user, request);
    } else {
        est_request_fail(request, EST_UNIMPLEMENTED, "it answers no requests");
    }
}

uint16_t est_request_method(const est_request *request)
{
    return request->method;
}

est_link *est_request_link(const est_request *request)
{
    return request->link;
}

est_message *est_request_message(const est_request *request)
{
    return request->message;
}

static void free_request(est_request *request)
{
    est_link   *link   = request->link;
    est_blocks *blocks = est_blocks_ref(link->blocks);

    est_message_free(request->message);
    est_block_free(blocks, request);
    est_link_free(link);
    est_blocks_free(blocks);
}

void est_request_answer(est_request *request, est_payload payload)
{
    est_link  *link = request->link;
    est_status status;

    pthread_mutex_lock(&link->lock);
    if (link->state == EST_LINK_OPEN && !link->muted) {
        status = est_link_send(link, EST_FRAME_ANSWER, request->id, 0, payload, NULL);
        if (status != EST_OK) {
            est_link_send_text(link, EST_FRAME_FAILURE, request->id, status, est_error_message());
        }
    }
    pthread_mutex_unlock(&link->lock);
    free_request(request);
}

void est_request_fail(est_request *request, est_status status, const char *message)
{
    est_link *link = request->link;

    pthread_mutex_lock(&link->lock);
    if (link->state == EST_LINK_OPEN && !link->muted)
        est_link_send_text(link, EST_FRAME_FAILURE, request->id, status, message);
    pthread_mutex_unlock(&link->lock);
    free_request(request);
}
