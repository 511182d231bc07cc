/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations under way: taking the steps of a list, sending within the window, waiting. */
#include "collective/work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cluster/wait_table.h"

#define WAIT_NS_MAX EST_NS_PER_SEC /* of one sleep, so that the log can be written */
#define LATE_NS     (EST_NS_PER_SEC / 100)

_Static_assert(sizeof(est_block_head) % 8 == 0, "elements follow it");

static void lock(est_work *w)
{
    pthread_mutex_lock(&w->group->mailbox->lock);
}

static void unlock(est_work *w)
{
    pthread_mutex_unlock(&w->group->mailbox->lock);
}

/* --- create and finish -------------------------------------------------------------------------------------------- */

est_status est_work_create(est_rank_group *group, const char *name, est_block_head head,
                           const est_collective_options *options, est_work **out)
{
    est_work  *w = est_zalloc(sizeof *w + (size_t)group->n * sizeof *w->lanes);
    est_status status;

    if (w == NULL) return est_no_memory();
    status = est_cond_init(&w->changed);
    if (status != EST_OK) {
        est_free(w);
        return status;
    }
    w->lanes = (est_lane *)(w + 1);
    for (int i = 0; i < group->n; i++) w->lanes[i].work = w;
    w->group         = group;
    w->name          = name;
    w->head          = head;
    w->refs          = 1;
    w->wait.place    = -1;
    w->deadline_secs = options != NULL && options->deadline_secs != 0 ? options->deadline_secs : group->deadline_secs;
    w->moves         = (est_moves){ .n = group->n, .rank = group->rank };
    lock(w);
    est_group_ref(group);
    unlock(w);
    *out = w;
    return EST_OK;
}

void est_work_unref(est_work *w)
{
    if (--w->refs > 0) return;
    est_group_unref(w->group);
    pthread_cond_destroy(&w->changed);
    est_gathered_clear(&w->result);
    est_free(w->lengths);
    est_free_aligned(w->scratch);
    est_free(w->moves.steps);
    est_free(w);
}

static bool has_failed(const est_work *w)
{
    return w->error.status != EST_OK || w->group->failed;
}

/* Finishes the work if nothing is left to do and its memory is not in use. Blocks that were copied need no answer for
 * that. */
static void settle(est_work *w)
{
    est_rank_group *g = w->group;

    if (w->finished || w->running) return;
    if (w->n_out > 0 && w->moves.send_max > EST_COPIED_BYTES) return;
    if (!has_failed(w) && (w->at < w->moves.n_steps || w->n_unsent > 0)) return;
    if (g->failed && w->error.status == EST_OK) {
        w->error.status = est_group_raise(g);
        est_error_take(w->error.status, &w->error);
    }
    w->finished = true;
    if (w->moves.shared.used && !has_failed(w)) g->commons.pieces += w->moves.shared.n_pieces;
    for (est_work **at = &g->works; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    for (int i = 0; i < g->n; i++) {
        est_parcels_drop(w->lanes[i].first, EST_ABORTED, g->failed ? g->why : "the operation has ended");
        w->lanes[i].first = NULL;
    }
    pthread_cond_broadcast(&w->changed);
}

void est_work_abort(est_work *w)
{
    settle(w);
}

/* Fails the work with this thread's failure, and the group with it: the other ranks cannot know how far this one
 * got. */
static void fail(est_work *w, est_status status)
{
    char why[EST_WHY_BYTES], name[EST_NET_NAME_MAX + 32];

    if (has_failed(w)) return;
    est_error_take(status, &w->error);
    snprintf(why, sizeof why, "%s: %.280s", est_rank_name(w->group, w->group->rank, name), w->error.message);
    est_group_fail(w->group, why);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void run(est_work *w, bool poll);

/* The peer has used a block, or never will. */
static void on_answer(void *user, est_status status, const char *error, est_message *answer)
{
    est_lane       *lane    = user;
    est_work       *w       = lane->work;
    est_rank_group *g       = w->group;
    est_mailbox    *mailbox = g->mailbox; /* outlives both */

    (void)answer;
    lock(w);
    lane->n_out--;
    w->n_out--;
    g->n_asks--;
    /* Cancelled: the peer's group has ended, and the link is about to be closed with the reason. */
    if (status != EST_OK && status != EST_CANCELLED) est_group_lose(g, (int)(lane - w->lanes), error);
    if (lane->n_unsent == 0 || has_failed(w)) {
        settle(w);
    } else {
        run(w, false);
    }
    pthread_cond_broadcast(&g->changed);
    est_work_unref(w);
    pthread_mutex_unlock(&mailbox->lock);
}

/* Sends one block; releases the lock meanwhile. */
static void send_block(est_work *w, int to, est_move step)
{
    struct {
        est_block_head head;
        uint8_t        data[EST_COPIED_BYTES];
    } copied;
    est_lane   *lane    = &w->lanes[to];
    est_link   *link    = w->group->peers[to].link;
    est_part    part    = { step.data, step.bytes };
    est_payload payload = { .head = &copied, .head_size = sizeof copied.head, .parts = &part, .n_parts = 1 };
    char        what[64];
    est_status  status;

    lane->n_unsent--;
    w->n_unsent--;
    lane->n_out++;
    w->n_out++;
    w->group->n_asks++;
    w->refs++;
    unlock(w);
    copied.head = w->head;
    if (step.bytes <= EST_COPIED_BYTES) {
        if (step.bytes > 0) memcpy(copied.data, step.data, step.bytes);
        payload = (est_payload){ .head = &copied, .head_size = sizeof copied.head + step.bytes };
    }
    snprintf(what, sizeof what, "%s %" PRIu64, w->name, w->head.number);
    status = est_link_ask(link, EST_GROUP_BLOCK, what, payload, EST_FOREVER, on_answer, lane, NULL);
    lock(w);
    if (status != EST_OK) {
        lane->n_out--;
        w->n_out--;
        w->group->n_asks--;
        w->refs--; /* the running thread has another */
        if (status == EST_UNAVAILABLE ||
            status == EST_CANCELLED) { /* the peer is lost; or this rank, if its net ends */
            est_group_lose(w->group, status == EST_CANCELLED ? w->group->rank : to, est_error_message());
        } else {
            fail(w, status);
        }
    }
}

/* Sends queued blocks to a peer, as far as the window allows. */
static void flush_lane(est_work *w, int to)
{
    est_lane *lane = &w->lanes[to];

    while (lane->n_unsent > 0 && lane->n_out < EST_WINDOW && !has_failed(w)) {
        est_move step;

        do step = w->moves.steps[lane->cursor++];
        while (step.kind != EST_MOVE_SEND || step.peer != to);
        send_block(w, to, step);
    }
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Whether a block is what the step expects. */
static est_status check_block(const est_work *w, const est_parcel *p, size_t bytes)
{
    const est_block_head *a = &w->head, *b = &p->head;
    char                  name[EST_NET_NAME_MAX + 32];

    if (a->bytes == b->bytes && a->kind == b->kind && a->dtype == b->dtype && a->reduction == b->reduction &&
        a->communication == b->communication && a->root == b->root && p->bytes == bytes) {
        return EST_OK;
    }
    return est_fail(EST_FAILED_PRECONDITION,
                    "operation %" PRIu64 " is %s of %" PRIu64
                    " bytes here, and something else at %s, which sent a block of %zu "
                    "bytes instead of %zu; all ranks must begin the same operations in the same order",
                    a->number, w->name, a->bytes, est_rank_name(w->group, p->from, name), p->bytes, bytes);
}

/* Without the lock. The parcel, if any, stays the caller's. */
static est_status take(est_work *w, const est_move *step, const est_parcel *parcel)
{
    est_dtype dtype = (est_dtype)w->head.dtype;

    if (parcel != NULL) EST_TRY(check_block(w, parcel, step->bytes));
    switch (step->kind) {
    case EST_MOVE_RECEIVE:
        if (step->bytes > 0) memcpy(step->data, parcel->data, step->bytes);
        return EST_OK;
    case EST_MOVE_ADD: est_elements_add(step->data, parcel->data, step->bytes, dtype); return EST_OK;
    case EST_MOVE_COPY: memcpy(step->data, step->from, step->bytes); return EST_OK;
    case EST_MOVE_SUM: est_elements_add(step->data, step->from, step->bytes, dtype); return EST_OK;
    case EST_MOVE_DIVIDE: est_elements_divide(step->data, step->bytes, dtype, w->group->n); return EST_OK;
    case EST_MOVE_CALL: return w->then(w);
    case EST_MOVE_SEND: break;
    }
    return EST_OK;
}

static bool receives(const est_move *step)
{
    return step->kind == EST_MOVE_RECEIVE || step->kind == EST_MOVE_ADD;
}

static void fail_left(est_work *w, int peer)
{
    char name[EST_NET_NAME_MAX + 32];

    fail(w, est_fail(EST_ABORTED, "%s left the group before %s %" PRIu64, est_rank_name(w->group, peer, name), w->name,
                     w->head.number));
}

/* The oldest operation that goes through shared memory: the one that is under way there (SM3). */
static est_work *find_shared(const est_rank_group *g)
{
    est_work *oldest = NULL;

    for (est_work *w = g->works; w != NULL; w = w->next) { /* the newest is first */
        if (w->moves.shared.used) oldest = w;
    }
    return oldest;
}

/* Wakes the ranks that sleep: this rank has set a mark. */
static void ring_bells(est_rank_group *g)
{
    for (int i = 0; i < g->n; i++) {
        est_mark *asleep = &g->commons.ranks[i].asleep;

        if (i == g->rank || est_mark_get(asleep) == 0 || g->peers[i].left) continue;
        if (est_mark_swap(asleep, 0) != 0) est_group_tell(g, i, EST_GROUP_BELL, "a bell");
    }
}

/* Takes the next step in shared memory, as take_next. */
static bool take_shared(est_work *w, bool poll)
{
    est_rank_group *g      = w->group;
    est_status      status = EST_OK;
    int             behind;

    for (int i = 0; i < g->n && status == EST_OK; i++) { /* a block means that a rank is in another operation */
        if (w->lanes[i].first != NULL) status = check_block(w, w->lanes[i].first, SIZE_MAX);
    }
    if (status == EST_OK && find_shared(g) != w) return false;
    unlock(w);
    behind = status == EST_OK ? est_shared_await(w, poll) : -1;
    if (status == EST_OK && behind < 0) status = est_shared_take(w);
    lock(w);
    if (status != EST_OK) fail(w, status);
    if (behind >= 0) {
        if (g->peers[behind].left) fail_left(w, behind);
        return false;
    }
    w->at++;
    if (status == EST_OK) ring_bells(g);
    return true;
}

/* Takes the next step; false: it has to wait, or there is none. `poll`: the caller has nothing else to do. */
static bool take_next(est_work *w, bool poll)
{
    est_parcel *parcel = NULL;
    est_move    step;
    est_status  status;

    if (w->at == w->moves.n_steps || has_failed(w)) return false;
    if (w->moves.shared.used) return take_shared(w, poll);
    step = w->moves.steps[w->at];
    if (step.kind == EST_MOVE_SEND) {
        w->at++;
        w->n_unsent++;
        w->lanes[step.peer].n_unsent++;
        flush_lane(w, step.peer);
        return true;
    }
    if (receives(&step)) {
        est_lane *lane = &w->lanes[step.peer];

        parcel = lane->first;
        if (parcel == NULL && w->group->peers[step.peer].left) fail_left(w, step.peer);
        if (parcel == NULL) return false;
        lane->first = parcel->next;
    }
    unlock(w);
    status = take(w, &step, parcel);
    if (parcel != NULL && status == EST_OK) {
        est_request_answer(parcel->request, (est_payload){ 0 });
        est_free(parcel);
    } else if (parcel != NULL) {
        parcel->next = NULL;
        est_parcels_drop(parcel, status, est_error_message());
    }
    lock(w);
    if (status != EST_OK) fail(w, status);
    w->at++;
    return true;
}

/* The rank that the work waits for: for its block, or for its answer to one of this rank's; -1: none. */
static int waits_for(const est_work *w)
{
    const est_move *step;

    if (w->moves.shared.used) return est_shared_behind(find_shared(w->group));
    step = w->at < w->moves.n_steps ? &w->moves.steps[w->at] : NULL;
    if (step != NULL && receives(step)) return step->peer;
    for (int i = 0; i < w->group->n; i++) {
        if (w->lanes[i].n_unsent > 0 || w->lanes[i].n_out > 0) return i;
    }
    return -1;
}

/* Shows in the status view which rank an operation waits for, once a thread waits for the operation. */
static void show_wait(est_work *w)
{
    est_rank_group *g    = w->group;
    int             peer = w->awaited && !w->finished ? waits_for(w) : -1;

    if (w->wait.place >= 0 && peer == w->wait_peer) return;
    est_wait_end(&w->wait);
    w->wait.place = -1;
    if (peer < 0) return;
    snprintf(w->wait_why, sizeof w->wait_why, "%s %" PRIu64 " of generation %" PRIu64, w->name, w->head.number,
             g->generation);
    w->wait      = est_wait_begin(g->peers[g->rank].task, g->peers[peer].task, w->wait_why,
                             w->deadline_secs == EST_FOREVER ? INFINITY : w->deadline_secs);
    w->wait_peer = peer;
}

/* Takes all steps that can be taken. The lock is held, and released in between; the caller has a reference. */
static void run(est_work *w, bool poll)
{
    w->again = true;
    if (w->running || w->finished) return; /* the running thread sees `again` */
    w->running = true;
    while (w->again) {
        w->again = false;
        while (take_next(w, poll)) continue;
        for (int i = 0; i < w->group->n; i++) flush_lane(w, i);
    }
    w->running = false;
    settle(w);
    show_wait(w);
}

static void append(est_work *w, est_parcel *parcel)
{
    est_lane *lane = &w->lanes[parcel->from];

    parcel->next = NULL;
    if (lane->first != NULL) {
        lane->last->next = parcel;
    } else {
        lane->first = parcel;
    }
    lane->last = parcel;
}

void est_work_deliver(est_work *w, est_parcel *parcel)
{
    append(w, parcel);
    w->refs++;
    run(w, false);
    est_work_unref(w);
}

void est_work_peer_left(est_work *w)
{
    const est_move *step;
    int             behind;

    /* A thread that takes steps finds out by itself. */
    if (w->running || w->at == w->moves.n_steps) return;
    if (w->moves.shared.used) {
        behind = find_shared(w->group) == w ? est_shared_behind(w) : -1;
        if (behind >= 0 && w->group->peers[behind].left) fail_left(w, behind);
        return;
    }
    step = &w->moves.steps[w->at];
    if (!receives(step)) return;
    if (w->lanes[step->peer].first == NULL && w->group->peers[step->peer].left) fail_left(w, step->peer);
    settle(w);
}

/* --- begin and wait ----------------------------------------------------------------------------------------------- */

/* Runs the operations in shared memory, one after the other. */
static void run_shared(est_rank_group *g, bool poll)
{
    bool finished = true;

    while (finished) {
        est_work *w = find_shared(g);

        if (w == NULL) return;
        w->refs++;
        run(w, poll);
        finished = w->finished;
        est_work_unref(w);
    }
}

void est_group_wake(est_rank_group *g)
{
    est_work *oldest = find_shared(g);

    if (oldest != NULL) oldest->again = true; /* the running thread may have looked before the mark was set */
    for (est_work *w = g->works; w != NULL; w = w->next) {
        if (w->moves.shared.used && w->awaited) { /* the waiting thread can afford to poll */
            pthread_cond_broadcast(&w->changed);
            return;
        }
    }
    run_shared(g, false);
}

/* Takes the blocks that arrived before the work began. */
static void take_early(est_work *w)
{
    est_parcel **at = &w->group->early;

    while (*at != NULL) {
        est_parcel *parcel = *at;

        if (parcel->head.number != w->head.number) {
            at = &parcel->next;
            continue;
        }
        *at = parcel->next;
        append(w, parcel);
    }
}

est_status est_work_begin(est_work *w, est_work **out)
{
    est_rank_group *g       = w->group;
    est_mailbox    *mailbox = g->mailbox;
    est_status      status  = EST_OK;

    if (w->moves.failed) status = est_no_memory();
    pthread_mutex_lock(&mailbox->lock);
    if (status != EST_OK) {
        fail(w, status); /* the others have begun it, or will */
    } else if (g->failed) {
        status = est_group_raise(g);
    }
    if (status != EST_OK) {
        est_work_unref(w);
        pthread_mutex_unlock(&mailbox->lock);
        return status;
    }
    w->deadline_ns = w->deadline_secs == EST_FOREVER ? INT64_MAX : est_machine_ns() + est_secs_to_ns(w->deadline_secs);
    w->head.generation = g->generation;
    w->head.number     = g->next++;
    w->next            = g->works;
    g->works           = w;
    take_early(w);
    if (w->moves.shared.used) {
        run_shared(g, false);
    } else {
        run(w, false);
    }
    pthread_mutex_unlock(&mailbox->lock);
    *out = w;
    return EST_OK;
}

static void expire(est_work *w)
{
    int  peer = waits_for(w);
    char name[EST_NET_NAME_MAX + 32];

    fail(w, est_fail(EST_DEADLINE_EXCEEDED, "%s %" PRIu64 " of generation %" PRIu64 " waited for %s for %g s", w->name,
                     w->head.number, w->head.generation,
                     peer >= 0 ? est_rank_name(w->group, peer, name) : "its own steps", w->deadline_secs));
}

/* Logs the wait, without the lock: another thread may change the awaited rank meanwhile. */
static void report_wait(est_work *w)
{
    est_mailbox *mailbox = w->group->mailbox;
    est_waiting  wait    = w->wait;
    char         why[sizeof w->wait_why];

    if (wait.place < 0 || !est_wait_is_due(&wait)) return;
    memcpy(why, w->wait_why, sizeof why);
    wait.why            = why;
    w->wait.report_secs = est_wait_next_secs(wait.report_secs, est_wait_secs(&wait));
    pthread_mutex_unlock(&mailbox->lock);
    est_wait_report(&wait, "");
    pthread_mutex_lock(&mailbox->lock);
}

est_status est_work_wait(est_work *w)
{
    est_mailbox *mailbox = w->group->mailbox;
    est_error    error;

    pthread_mutex_lock(&mailbox->lock);
    w->awaited = true;
    while (!w->finished) {
        int64_t left;

        if (w->moves.shared.used) run_shared(w->group, true);
        if (w->finished) break;
        if (!w->running) show_wait(w); /* the running thread does so at its end */
        report_wait(w);
        if (w->finished) break;
        left = w->deadline_ns - est_machine_ns();
        if (left <= 0 && !has_failed(w) && !w->running) {
            expire(w);
            settle(w);
        } else {
            /* Past the deadline while another thread takes steps, which does not signal when it is done. */
            if (left <= 0) left = LATE_NS;
            est_cond_wait_ns(&w->changed, &mailbox->lock, left < WAIT_NS_MAX ? left : WAIT_NS_MAX);
        }
    }
    est_wait_end(&w->wait);
    w->wait.place = -1;
    error.status  = w->error.status;
    if (error.status != EST_OK) error = w->error; /* a large struct */
    if (error.status == EST_OK && w->gathered != NULL) {
        *w->gathered = w->result;
        w->result    = (est_gathered){ 0 };
    }
    est_work_unref(w);
    pthread_mutex_unlock(&mailbox->lock);
    return error.status == EST_OK ? EST_OK : est_error_raise(&error);
}
