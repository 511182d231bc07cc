/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments at other tasks.
 *
 * A run that is not answered, because the link broke or the task took longer than answer_secs, is requested again with
 * the same sequence number while the task is the same process. The task answers a run that it has made from memory
 * (cluster/clients.h), so that the run is applied once. A restarted task has lost its variables; the session has to
 * handle that: EST_UNAVAILABLE. */
#include "cluster/remote_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/calls.h"
#include "cluster/sender.h"
#include "cluster/task_status.h"

#define REPEATS_MAX 5 /* of one run, after a broken link or a timeout */

/* --- segments ----------------------------------------------------------------------------------------------------- */

static est_status enter_at(est_remote_segment *segment, const est_segment *cut)
{
    const est_remote_task *p       = &segment->remote->tasks[segment->task];
    est_wire_writer        bytes   = { 0 };
    est_packing            packing = { 0 };
    est_message           *answer  = NULL;
    uint64_t               n_out;
    est_status             status = est_segment_encode(cut, &bytes);

    if (status == EST_OK) {
        est_wire_put_bytes(&packing.head, EST_FIELD_BYTES, bytes.data, bytes.size);
        est_wire_put_i64(&packing.head, EST_FIELD_PHASE, cut->phase);
        status = est_remote_task_ask(p, EST_METHOD_ENTER, &packing, segment->remote->options.answer_secs, &answer);
    }
    if (status == EST_OK) {
        segment->number = est_head_u64(answer, EST_FIELD_SEGMENT, 0);
        n_out           = est_head_u64(answer, EST_FIELD_OUTPUTS, 0);
        if (n_out != (uint64_t)cut->io.n_fetches) {
            status = est_fail(EST_INTERNAL, "%s returns %" PRIu64 " outputs of a segment, expected %d", p->name, n_out,
                              cut->io.n_fetches);
        }
    }
    est_message_free(answer);
    est_wire_writer_clear(&bytes);
    est_packing_clear(&packing);
    return status;
}

est_status est_remote_segment_enter(est_remote *remote, const est_segment *cut, est_remote_segment **out)
{
    est_remote_segment *segment = est_zalloc(sizeof *segment);
    est_status          status;

    if (segment == NULL) return est_no_memory();
    segment->remote      = est_tasks_of(remote);
    segment->task        = cut->task;
    segment->phase       = cut->phase;
    segment->cut         = cut;
    segment->n_out       = cut->n_out;
    segment->piece       = cut->piece;
    segment->counted     = cut->counted;
    segment->accumulated = cut->writes && cut->trains && remote->sync_replicas;
    segment->late        = cut->late;
    segment->incarnation = segment->remote->tasks[segment->task].incarnation;
    status               = enter_at(segment, cut);
    if (status != EST_OK) {
        est_free(segment);
        return status;
    }
    segment->next             = segment->remote->segments;
    segment->remote->segments = segment;
    *out                      = segment;
    return EST_OK;
}

static void drop_ask(est_remote_segment *segment)
{
    est_message *answer;
    est_status   status;

    if (segment->ask == NULL) return;
    status = est_remote_task_await(&segment->remote->tasks[segment->task], segment->ask, "a step that was given up",
                                   NULL, EST_STOP_SECS, &answer);
    if (status == EST_OK) est_message_free(answer);
    segment->ask = NULL;
}

static void ignore_answer(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user;
    (void)status;
    (void)error;
    (void)answer;
}

/* Nobody waits for the answer: a task that does not get the request forgets the segment with this client. */
static void tell_left(const est_remote_segment *segment)
{
    const est_remote_task *p       = &segment->remote->tasks[segment->task];
    est_packing            packing = { 0 };
    est_payload            payload;

    if (p->link == NULL || est_link_is_lost(p->link)) return;
    if (est_link_peer(p->link)->incarnation != segment->incarnation) return;
    est_wire_put_u64(&packing.head, EST_FIELD_SEGMENT, segment->number);
    if (est_packing_payload(&packing, &payload) != EST_OK ||
        est_link_ask(p->link, EST_METHOD_LEAVE_SEGMENT, est_method_text(EST_METHOD_LEAVE_SEGMENT), payload,
                     EST_ASK_SECS, ignore_answer, NULL, NULL) != EST_OK) {
        est_error_clear();
    }
    est_packing_clear(&packing);
}

void est_remote_segment_leave(est_remote_segment *segment)
{
    if (segment == NULL) return;
    drop_ask(segment);
    tell_left(segment);
    for (est_remote_segment **at = &segment->remote->segments; *at != NULL; at = &(*at)->next) {
        if (*at != segment) continue;
        *at = segment->next;
        break;
    }
    est_packing_clear(&segment->in);
    est_message_free(segment->answer);
    est_unpacked_clear(&segment->out);
    est_free(segment);
}

static est_status send_run(est_remote_segment *segment)
{
    const est_tasks       *r = segment->remote;
    const est_remote_task *p = &r->tasks[segment->task];
    est_payload            payload;
    char                   what[64];

    if (est_link_peer(p->link)->incarnation != segment->incarnation) { /* segment numbers are those of a process */
        return est_fail(EST_UNAVAILABLE, "%s was restarted and has lost its variables", p->name);
    }
    snprintf(what, sizeof what, "phase %d of a step", segment->phase);
    EST_TRY(est_packing_payload(&segment->in, &payload));
    payload.behind = segment->piece > 0;
    segment->link  = p->link;
    return est_link_ask(p->link, EST_METHOD_RUN, what, payload, r->options.answer_secs, NULL, NULL, &segment->ask);
}

static void write_ledger(const est_remote_segment *segment, const est_remote_task *p)
{
    FILE *ledger = segment->remote->server->ledger;

    if (ledger == NULL) return;
    fprintf(ledger, "asks %s %016" PRIx64 " %" PRIu64 " %" PRIu64 "\n", p->name, p->incarnation, segment->sequence,
            segment->number);
    (void)fflush(ledger);
}

/* A push after the commit would belong to no step. */
static est_status put_sync_step(est_remote_segment *segment)
{
    est_tasks *r = segment->remote;

    if (r->step < 0 || r->committed)
        return est_fail(EST_FAILED_PRECONDITION, "a synchronous step must begin with a turn");
    r->pushed = true;
    est_wire_put_i64(&segment->in.head, EST_FIELD_SYNC_STEP, r->step + 1);
    est_wire_put_u64(&segment->in.head, EST_FIELD_TIMELINE, r->timeline);
    return EST_OK;
}

static void put_call(est_remote_segment *segment)
{
    est_wire_put_u64(&segment->in.head, EST_FIELD_ORIGIN, segment->remote->origin);
    if (segment->remote->call == 0) return;
    est_wire_put_u64(&segment->in.head, EST_FIELD_CALL, segment->remote->call);
    est_wire_put_u64(&segment->in.head, EST_FIELD_CALL_FIRST, segment->remote->first);
}

/* What the run receives from other tasks and sends to them (cluster/rendezvous.h). */
static void put_transfers(est_remote_segment *segment)
{
    const est_segment *cut  = segment->cut;
    const est_tasks   *r    = segment->remote;
    est_wire_writer   *head = &segment->in.head;

    if (!r->base.direct) return;
    est_wire_put_u64(head, EST_FIELD_DRIVEN_STEP, r->base.step);
    est_wire_put_i64(head, EST_FIELD_RETURNED, cut->n_out);
    for (int i = cut->n_in; i < cut->io.n_feeds; i++) {
        est_wire_put_i64(head, EST_FIELD_RECEIVE, cut->edges[i - cut->n_in]);
    }
    for (int i = 0; i < cut->n_sends; i++) {
        const est_remote_task *to = &r->tasks[cut->sends[i].task];

        est_sends_put(head, &cut->sends[i], to->name, to->incarnation);
    }
}

/* Whether an earlier run at the same task may have been lost with a link, and will be requested again. */
static bool is_behind_lost(const est_remote_segment *segment)
{
    const est_link *link = segment->remote->tasks[segment->task].link;

    for (const est_remote_segment *c = segment->remote->segments; c != NULL; c = c->next) {
        if (c != segment && c->task == segment->task && c->started && (c->ask == NULL || c->link != link)) return true;
    }
    return false;
}

/* The oldest run at the task that has no answer yet and may be requested again. */
static uint64_t first_unanswered(const est_remote_segment *segment)
{
    uint64_t first = segment->sequence;

    for (const est_remote_segment *c = segment->remote->segments; c != NULL; c = c->next) {
        if (c->task == segment->task && c->started && c->sequence < first) first = c->sequence;
    }
    return first;
}

est_status est_remote_segment_start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in)
{
    est_remote_task *p = &segment->remote->tasks[segment->task];

    if (segment->late) EST_TRY(est_tasks_complete_step(segment->remote));
    est_message_free(segment->answer);
    segment->answer   = NULL;
    segment->sequence = ++segment->remote->server->sequence;
    segment->started  = true;
    write_ledger(segment, p);
    est_packing_reset(&segment->in);
    est_wire_put_u64(&segment->in.head, EST_FIELD_SEGMENT, segment->number);
    est_wire_put_u64(&segment->in.head, EST_FIELD_SEQUENCE, segment->sequence);
    est_wire_put_u64(&segment->in.head, EST_FIELD_FIRST, first_unanswered(segment));
    est_wire_put_u64(&segment->in.head, EST_FIELD_SEED, run_seed);
    if (segment->remote->origin != 0) put_call(segment);
    if (segment->counted) est_wire_put_bool(&segment->in.head, EST_FIELD_COUNTED, true);
    if (segment->accumulated) EST_TRY(put_sync_step(segment));
    put_transfers(segment);
    for (int i = 0; i < n_in; i++) est_pack_view(&segment->in, in[i]);
    if (is_behind_lost(segment)) return EST_OK; /* finish sends one after the other */
    if (send_run(segment) != EST_OK) {          /* finish looks at the task, and asks again if it can */
        est_error_clear();
        segment->ask = NULL;
    }
    return EST_OK;
}

/* Over a new link, if the old one is lost, to the same process, which may have made the run already. */
static est_status ask_again(est_remote_segment *segment)
{
    est_tasks       *r = segment->remote;
    est_remote_task *p = &r->tasks[segment->task];

    EST_TRY(est_remote_task_reach(r, p, r->server->silence_secs));
    return send_run(segment);
}

/* EST_UNAVAILABLE: ask again. */
static est_status await_answer(est_remote_segment *segment)
{
    est_server *server = segment->remote->server;
    est_status  status;
    char        why[64];

    snprintf(why, sizeof why, "phase %d of a step", segment->phase);
    status       = est_remote_task_await(&segment->remote->tasks[segment->task], segment->ask, why, segment->remote,
                                         EST_STOP_SECS, &segment->answer);
    segment->ask = NULL;
    if (status == EST_DEADLINE_EXCEEDED) {
        est_log_warn("%s: %s", server->task, est_error_message());
        status = est_fail_context(EST_UNAVAILABLE, "asked up to %d times", REPEATS_MAX + 1);
    }
    pthread_mutex_lock(&server->lock);
    est_server_sample(server);
    pthread_mutex_unlock(&server->lock);
    return status;
}

est_status est_remote_segment_finish(est_remote_segment *segment, const est_view **out)
{
    const est_remote_task *p = &segment->remote->tasks[segment->task];
    est_status             status;

    if (!segment->started) return est_fail(EST_INTERNAL, "a segment of %s was not started", p->name);
    segment->started = false;
    status           = EST_UNAVAILABLE;
    if (segment->ask != NULL) status = await_answer(segment);
    for (int i = 0; status == EST_UNAVAILABLE && i < REPEATS_MAX; i++) {
        status = ask_again(segment);
        if (status == EST_DEADLINE_EXCEEDED) return est_fail_context(EST_UNAVAILABLE, "%s is lost", p->name);
        EST_TRY(status);
        status = await_answer(segment);
    }
    EST_TRY(status);
    EST_TRY(est_unpack_tensors(segment->answer, &segment->out));
    if (segment->out.n != segment->n_out) {
        return est_fail(EST_DATA_LOSS, "%s answered with %d tensors instead of %d", p->name, segment->out.n,
                        segment->n_out);
    }
    if (est_head_u64(segment->answer, EST_FIELD_TURN, 0) != 0) segment->remote->next_turn = true;
    *out = segment->out.views;
    return EST_OK;
}

/* A stopped task waits a moment for all runs together, not for each. */
static void give_up_when_stopped(est_remote_segment *segment, int64_t until_ns)
{
    if (segment->ask == NULL || est_stop_signal() == 0) return;
    if (est_ask_await(segment->ask, (double)(until_ns - est_machine_ns()) / (double)EST_NS_PER_SEC)) return;
    est_ask_give_up(segment->ask, est_stop_signal_name());
}

/* Runs that wait for tensors of a failed step are not awaited but ended, at all tasks. */
static void abort_step(const est_tasks *r)
{
    est_packing packing = { 0 };
    est_payload payload;

    est_wire_put_u64(&packing.head, EST_FIELD_DRIVEN_STEP, r->base.step);
    for (int i = 0; i < r->base.n_tasks; i++) {
        if (r->tasks[i].link == NULL || est_link_is_lost(r->tasks[i].link)) continue;
        if (est_packing_payload(&packing, &payload) != EST_OK ||
            est_link_ask(r->tasks[i].link, EST_METHOD_ABORT_STEP, est_method_text(EST_METHOD_ABORT_STEP), payload,
                         EST_ASK_SECS, ignore_answer, NULL, NULL) != EST_OK) {
            est_error_clear(); /* a lost task has no runs that wait */
        }
    }
    est_packing_clear(&packing);
}

void est_tasks_abandon(est_remote *remote)
{
    int64_t until_ns = est_machine_ns() + (int64_t)(EST_STOP_SECS * (double)EST_NS_PER_SEC);

    if (remote->direct) abort_step(est_tasks_of(remote));
    est_tasks_of(remote)->next_turn = false; /* the next step asks again, which gives back any turn */
    est_tasks_of(remote)->pushed = est_tasks_of(remote)->committed = false;
    for (est_remote_segment *segment = est_tasks_of(remote)->segments; segment != NULL; segment = segment->next) {
        give_up_when_stopped(segment, until_ns);
        drop_ask(segment);
        segment->started = false;
    }
}
