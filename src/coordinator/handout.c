/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls on their way to workers, and their answers.
 *
 * A worker has calls ahead of the one that it runs, so that it does not wait for the network: as many as it completes
 * in about a millisecond, so that a slow function is still balanced between workers. It is sent new ones when half of
 * them have completed, several in one go. */
#include "coordinator/coordinator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tensor/tensor.h"

#define AHEAD_NS       1000000.0 /* of work that a worker is sent in advance, when its length is chosen here */
#define PACE_SHARE     (1.0 / 16)
#define REPEATS_MAX    100 /* attempts of one call that ended with a lost ps task or a stopped worker */
#define ERROR_TEXT_MAX 1200

/* --- the end of a call -------------------------------------------------------------------------------------------- */

void est_scheduled_free(est_coordinator *c, est_scheduled *call)
{
    for (int i = 0; i < call->n_feeds; i++) {
        if (call->feeds[i].from != NULL) est_object_unref(&call->feeds[i].from->object);
        est_tensor_free(call->feeds[i].value);
    }
    if (call->shard != NULL) est_object_unref(&call->shard->dataset->object);
    est_free(call->shard);
    est_remote_value_free(call->value);
    est_object_unref(&call->function->object);
    est_call_queue_recycle(&c->queue, call);
}

static void settle_value(est_remote_value *value, est_value_state state, est_message *answer, est_call_error *error)
{
    if (value == NULL) return;
    if (answer != NULL) value->answer = est_message_ref(answer);
    value->error = est_call_error_ref(error);
    value->state = state;
}

/* A call that was handed out completes once (Q1), with or without a result. */
static void finish_call(est_coordinator *c, est_scheduled *call)
{
    if (call->number != 0) est_call_queue_finish(&c->queue, call->number);
    if (call->value != NULL && call->value->n_waiting > 0) est_coordinator_wake(c);
    est_scheduled_free(c, call);
}

void est_call_cancel(est_coordinator *c, est_scheduled *call, est_call_error *why)
{
    settle_value(call->value, EST_VALUE_CANCELLED, NULL, why);
    finish_call(c, call);
}

void est_calls_cancel_queued(est_coordinator *c, est_status status, const char *why)
{
    est_call_error *error = est_call_error_make(status, why);
    est_scheduled  *call;

    while ((call = est_call_queue_drop(&c->queue)) != NULL) est_call_cancel(c, call, error);
    est_call_error_free(error);
    est_coordinator_wake(c);
}

/* The others keep their order. */
void est_calls_cancel_shards(est_coordinator *c, const est_per_worker *dataset, est_status status, const char *why)
{
    est_call_error *error = est_call_error_make(status, why);

    for (int64_t n = c->queue.n; n > 0; n--) {
        est_scheduled *call = est_call_queue_drop(&c->queue);

        if (call->shard != NULL && call->shard->dataset == dataset) {
            est_call_cancel(c, call, error);
        } else {
            est_call_queue_append(&c->queue, call);
        }
    }
    est_call_error_free(error);
    est_coordinator_wake(c);
}

void est_coordinator_fail(est_coordinator *c, est_status status, const char *why)
{
    if (c->failed || c->closing) return; /* the first one counts */
    c->failed = true;
    c->error  = est_call_error_make(status, why);
    est_calls_cancel_queued(c, status, why);
}

void est_coordinator_halt(est_coordinator *c, est_status status, const char *why)
{
    if (c->halted) return;
    c->halted = true;
    c->over   = est_call_error_make(status, why);
    est_calls_cancel_queued(c, status, why);
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

static int limit_of(const est_call_worker *w)
{
    int    ahead = w->coordinator->options.ahead;
    double chosen;

    if (ahead == EST_OFF) return 1;
    if (ahead > 0) return ahead + 1;
    chosen = w->pace_ns > 0 ? AHEAD_NS / w->pace_ns : 1;
    if (chosen < 1) chosen = 1;
    return chosen < EST_AHEAD_MAX ? 1 + (int)chosen : 1 + EST_AHEAD_MAX;
}

static bool wants_calls(const est_call_worker *w)
{
    return w->state == EST_WORKER_HERE && !w->sending && w->under_way <= limit_of(w) / 2;
}

/* The one with the fewest calls, beginning with another each time. */
static est_call_worker *choose_worker(est_coordinator *c)
{
    est_call_worker *best = NULL;

    for (int i = 0; i < c->n_workers; i++) {
        est_call_worker *w = &c->workers[(c->next_worker + i) % c->n_workers];

        if (wants_calls(w) && (best == NULL || w->under_way < best->under_way)) best = w;
    }
    if (best != NULL) c->next_worker = best->rank + 1;
    return best;
}

/* The call that the worker runs; 0: none. */
static uint64_t running(const est_call_worker *w)
{
    return w->first != NULL ? w->first->number : 0;
}

/* The link of a worker is lost, and `ran` may be the reason. Its calls come back by themselves: their requests fail.
 * `lock` is released for the log, so every call must be in its place (Q1). */
static void lose_worker(est_call_worker *w, const est_link *link, uint64_t ran, const char *why)
{
    est_coordinator *c = w->coordinator;
    int              under_way;

    if (w->link != link || link == NULL) return;
    est_link_free(w->link);
    w->link  = NULL;
    w->state = EST_WORKER_MISSING;
    w->ran   = ran;
    snprintf(w->why, sizeof w->why, "%s", why);
    if (--c->n_here == 0) c->alone_ns = est_now_ns();
    pthread_cond_signal(&c->missing);
    est_coordinator_wake(c);
    if (c->closing) return;
    w->lost++;
    c->workers_lost++;
    under_way = w->under_way;
    pthread_mutex_unlock(&c->lock);
    est_log_info("%s: %s is lost with %d calls under way: %s", c->server->task, w->name, under_way, why);
    pthread_mutex_lock(&c->lock);
}

/* The worker has answered, so none of its calls has ended it. */
void est_worker_abandon(est_call_worker *w, const char *why)
{
    est_link *link = w->link;

    if (link == NULL) return;
    est_link_close(link, why);
    lose_worker(w, link, 0, why);
}

void est_coordinator_link_lost(void *user, est_link *link, const char *why)
{
    est_coordinator *c = user;
    bool             is_ps;

    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->n_workers; i++) lose_worker(&c->workers[i], link, running(&c->workers[i]), why);
    is_ps = !c->closing && strncmp(est_link_peer(link)->task, "ps:", 3) == 0;
    if (is_ps) est_coordinator_note_ps_loss(c);
    pthread_mutex_unlock(&c->lock);
    if (is_ps) est_log_info("%s: the link to %s is lost: %s", c->server->task, est_link_peer(link)->task, why);
}

static void attach(est_call_worker *w, est_scheduled *call)
{
    call->worker = w;
    call->next   = NULL;
    call->before = w->last;
    if (w->last != NULL) {
        w->last->next = call;
    } else {
        w->first = call;
    }
    w->last = call;
    w->under_way++;
    w->coordinator->under_way++;
    if (call->attempts++ > 0) w->coordinator->retried++;
    if (call->value != NULL) call->value->call = call->number;
}

static void detach(est_scheduled *call)
{
    est_call_worker *w = call->worker;

    if (call->before != NULL) {
        call->before->next = call->next;
    } else {
        w->first = call->next;
    }
    if (call->next != NULL) {
        call->next->before = call->before;
    } else {
        w->last = call->before;
    }
    call->worker = NULL;
    w->under_way--;
    w->coordinator->under_way--;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Elements that the call has used: one of each iterator. */
static void count_elements(const est_scheduled *call, int rank)
{
    for (int i = 0; i < call->n_feeds; i++) {
        est_per_worker *from = call->feeds[i].from;
        bool new             = from != NULL && from->object.kind == EST_OBJECT_ITERATOR;

        for (int k = 0; k < i && new; k++) new = call->feeds[k].from != from;
        if (new) from->consumed[rank]++;
    }
}

static void complete(est_coordinator *c, est_call_worker *w, est_scheduled *call, est_message *answer)
{
    c->completed++;
    w->completed++;
    settle_value(call->value, EST_VALUE_READY, answer, NULL);
    finish_call(c, call);
}

static void fail_call(est_coordinator *c, est_scheduled *call, est_status status, const char *why)
{
    char            text[ERROR_TEXT_MAX];
    est_call_error *error;

    snprintf(text, sizeof text, "%s", why); /* it may be the error message of this thread */
    error = est_call_error_make(status, text);
    settle_value(call->value, EST_VALUE_FAILED, NULL, error);
    est_call_error_free(error);
    finish_call(c, call);
    est_coordinator_fail(c, status, text);
}

/* A call that is made again. Behind an error it would wait for nothing. */
static void give_back(est_coordinator *c, est_scheduled *call)
{
    if (c->halted || c->failed || c->closing) {
        est_call_cancel(c, call, c->halted || c->closing ? c->over : c->error);
    } else {
        est_call_queue_return(&c->queue, call);
    }
}

static void fail_lost(est_coordinator *c, est_scheduled *call)
{
    char   text[EST_CALL_LOSSES_SHOWN * (EST_NET_NAME_MAX + 2) + 400] = "";
    size_t used                                                       = 0;
    int    shown = call->losses < EST_CALL_LOSSES_SHOWN ? call->losses : EST_CALL_LOSSES_SHOWN;

    used = (size_t)snprintf(text, sizeof text, "call %" PRIu64 " of '%.64s': ", call->number,
                            call->function->object.name);
    for (int i = 0; i < shown; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                                 c->workers[call->lost[i]].name);
    }
    snprintf(
        text + used, sizeof text - used,
        ": lost while they ran it, %d time%s in all (fail_after); it may end its process, as by using too much memory",
        call->losses, call->losses > 1 ? "s" : "");
    fail_call(c, call, EST_UNAVAILABLE, text);
}

/* Calls that the worker was sent ahead are not to blame. */
static void note_loss(est_coordinator *c, est_call_worker *w, est_scheduled *call)
{
    if (call->number != w->ran) {
        give_back(c, call);
        return;
    }
    call->lost[call->losses++ % EST_CALL_LOSSES_SHOWN] = (int16_t)w->rank;
    if (call->losses >= c->options.fail_after && !c->failed && !c->closing && !c->halted) {
        fail_lost(c, call);
    } else {
        give_back(c, call);
    }
}

/* The function ran, with or without success. */
static void take_answer(est_coordinator *c, est_call_worker *w, est_scheduled *call, est_message *answer)
{
    est_status status = est_call_failure_read(answer);

    count_elements(call, w->rank);
    if (status == EST_OK) {
        complete(c, w, call, answer);
    } else {
        fail_call(c, call, status, est_error_message());
        est_error_clear();
    }
}

/* An answer that says that the worker is being stopped, or that a ps task is lost and the worker is fine. `lock` is
 * released for the log. */
static void make_again(est_coordinator *c, est_call_worker *w, est_scheduled *call, est_status status, const char *why)
{
    uint64_t number = call->number;

    if (++call->repeats > REPEATS_MAX) {
        fail_call(c, call, status, why);
        return;
    }
    if (status != EST_CANCELLED) est_coordinator_note_ps_loss(c);
    give_back(c, call);
    if (status == EST_CANCELLED) est_worker_abandon(w, why);
    pthread_mutex_unlock(&c->lock);
    est_log_debug("%s: call %" PRIu64 " is made again: %s", c->server->task, number, why);
    pthread_mutex_lock(&c->lock);
}

static void settle(est_coordinator *c, est_call_worker *w, est_scheduled *call, bool lost, est_status status,
                   const char *why, est_message *answer)
{
    if (status == EST_OK) {
        take_answer(c, w, call, answer);
    } else if (lost) {
        note_loss(c, w, call);
    } else if (status == EST_CANCELLED || status == EST_UNAVAILABLE || status == EST_ABORTED) {
        make_again(c, w, call, status, why);
    } else {
        fail_call(c, call, status, why);
    }
}

/* The text of an answer begins with the worker's name, and so does the text that the worker has sent. */
static const char *without_name(const est_call_worker *w, const char *error)
{
    size_t n = strlen(w->name);

    if (strncmp(error, w->name, n) != 0 || strncmp(error + n, ": ", 2) != 0) return error;
    return strncmp(error + n + 2, w->name, n) == 0 ? error + n + 2 : error;
}

static void note_pace(est_call_worker *w, const est_scheduled *call)
{
    int64_t now   = est_machine_ns();
    int64_t since = w->answered_ns > call->sent_ns ? w->answered_ns : call->sent_ns;
    double  ns    = (double)(now - since);

    w->answered_ns = now;
    w->pace_ns     = w->pace_ns > 0 ? w->pace_ns + (ns - w->pace_ns) * PACE_SHARE : ns;
}

/* Threads that wait for the end of calls or for room in the queue; others were woken already. */
static void wake_for_progress(est_coordinator *c)
{
    int64_t max = c->options.queue_max;

    if (c->under_way == 0) est_coordinator_wake(c);
    if (c->full && c->queue.n <= max - 1 - max / 8) {
        c->full = false;
        est_coordinator_wake(c);
    }
}

/* In the network thread. */
static void call_answered(void *user, est_status status, const char *error, est_message *answer)
{
    est_scheduled   *call = user;
    est_call_worker *w    = call->worker;
    est_coordinator *c    = w->coordinator;
    bool             lost;

    pthread_mutex_lock(&c->lock);
    lost = status == EST_UNAVAILABLE && (w->link == NULL || est_link_is_lost(w->link));
    if (lost) lose_worker(w, w->link, running(w), error);
    note_pace(w, call);
    detach(call);
    settle(c, w, call, lost, status, status != EST_OK ? without_name(w, error) : "", answer);
    if (lost || c->under_way == 0 || wants_calls(w)) est_handout(c);
    wake_for_progress(c);
    pthread_mutex_unlock(&c->lock);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void pack_feed(est_scheduled *call, int i, int rank)
{
    const est_call_feed *feed     = &call->feeds[i];
    const est_tensor    *value    = feed->value;
    est_call_argument    argument = { .feed = i };

    if (feed->component != NULL) {
        argument.component = (est_str){ feed->component, strlen(feed->component) };
        if (feed->from != NULL) {
            argument.from_iterator = true;
            argument.iterator      = feed->from->object.number;
        }
    } else if (feed->from != NULL) {
        value = feed->from->values[rank];
    }
    est_call_argument_put(&argument, &call->packing);
    if (feed->component == NULL) {
        est_view view = { est_tensor_view_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                          est_tensor_count(value) };

        est_pack_view(&call->packing, &view);
    }
}

/* Without `lock`. After EST_OK the call may be gone. */
static est_status send_call(est_link *link, est_scheduled *call, int rank, uint64_t first)
{
    est_call_request request = { .call = call->number, .first = first, .function = call->function->object.number };
    bool             shard   = call->shard != NULL;
    est_method       method  = shard ? EST_METHOD_SHARD : EST_METHOD_CALL;
    est_payload      payload;

    if (shard) {
        request.dataset  = call->shard->dataset->object.number;
        request.n_shards = call->shard->n_shards;
        request.shard    = call->shard->shard;
    }
    est_packing_reset(&call->packing);
    est_call_request_put(&request, shard, &call->packing);
    for (int i = 0; i < call->n_feeds; i++) pack_feed(call, i, rank);
    EST_TRY(est_packing_payload(&call->packing, &payload));
    call->sent_ns = est_machine_ns();
    return est_link_ask(link, (uint16_t)method, est_method_text(method), payload, EST_FOREVER, call_answered, call,
                        NULL);
}

/* A call that could not be sent: it was no attempt. */
static void take_back(est_call_worker *w, est_link *link, est_scheduled *call, est_status status)
{
    est_coordinator *c = w->coordinator;

    if (status == EST_UNAVAILABLE || status == EST_CANCELLED) {
        lose_worker(w, link, running(w), est_error_message());
        detach(call);
        if (--call->attempts > 0) c->retried--;
        give_back(c, call);
    } else {
        detach(call);
        fail_call(c, call, status, est_error_message());
    }
    est_error_clear();
}

static bool may_hand_out(const est_coordinator *c)
{
    if (c->stops > 0 && !est_call_queue_has_returned(&c->queue)) return false; /* Q3 */
    return !c->failed && !c->ps_lost && !c->recovering && !c->closing && !c->halted;
}

/* Sends the worker as many calls as it has room for, and no more than its part of the queue; returns whether any. */
static bool serve_worker(est_coordinator *c, est_call_worker *w)
{
    int64_t   share = c->queue.n / (c->n_here > 0 ? c->n_here : 1);
    int64_t   room  = limit_of(w) - w->under_way;
    est_link *link  = est_link_ref(w->link);
    bool      any   = false;

    if (room > share) room = share > 0 ? share : 1;
    w->sending = true;
    while (room-- > 0 && w->link == link && may_hand_out(c)) {
        est_scheduled *call = est_call_queue_take(&c->queue);
        uint64_t       first;
        est_status     status;

        if (call == NULL) break;
        any   = true;
        first = c->queue.oldest;
        attach(w, call);
        status = est_objects_send(w, link, call);
        if (status == EST_OK) {
            pthread_mutex_unlock(&c->lock);
            status = send_call(link, call, w->rank, first);
            pthread_mutex_lock(&c->lock);
        }
        if (status != EST_OK) take_back(w, link, call, status);
    }
    w->sending = false;
    est_link_free(link);
    return any;
}

void est_handout(est_coordinator *c)
{
    est_call_worker *w;

    while (may_hand_out(c) && c->queue.n > 0 && (w = choose_worker(c)) != NULL) {
        if (!serve_worker(c, w)) return;
    }
}
