/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments at other tasks.
 *
 * A run that is asked for and not answered, because the link broke or because the task took longer than answer_secs, is asked for
 * again with the same sequence number, as long as the task is the same process: it answers from memory what it has done already
 * (cluster/server.h), so that the run is applied once, however often it is asked for. A task that was started anew has lost its
 * variables, which is the session's business: EST_UNAVAILABLE. */
#include "cluster/tasks.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/task_status.h"

#define REPEATS_MAX 5 /* of one run: links that broke in a row, or times that the task did not answer */

/* --- segments ------------------------------------------------------------------------------------------------------------------- */

static est_status enter_at(est_remote_call *call, const est_segment *segment)
{
    const est_peer *p       = &call->remote->peers[call->task];
    est_wire_writer bytes   = { 0 };
    est_packing     packing = { 0 };
    est_message    *answer  = NULL;
    est_status      status  = est_segment_encode(segment, &bytes);

    if (status == EST_OK) {
        est_wire_put_bytes(&packing.head, EST_FIELD_BYTES, bytes.data, bytes.size);
        est_wire_put_i64(&packing.head, EST_FIELD_PHASE, segment->phase);
        status = est_peer_ask(p, EST_METHOD_ENTER, &packing, call->remote->options.answer_secs, &answer);
    }
    if (status == EST_OK) {
        call->part = (int)est_head_u64(answer, EST_FIELD_PART, 0);
        if (est_head_u64(answer, EST_FIELD_OUTPUTS, 0) != (uint64_t)segment->io.n_fetches) {
            status = est_fail(EST_INTERNAL, "%s gives other results than it was asked for", p->name);
        }
    }
    est_message_free(answer);
    est_wire_writer_clear(&bytes);
    est_packing_clear(&packing);
    return status;
}

est_status est_call_enter(est_remote *remote, const est_segment *segment, est_remote_call **out)
{
    est_remote_call *call = est_zalloc(sizeof *call);
    est_status       status;

    if (call == NULL) return est_no_memory();
    call->remote      = est_tasks_of(remote);
    call->task        = segment->task;
    call->phase       = segment->phase;
    call->n_out       = segment->io.n_fetches;
    call->piece       = segment->piece;
    call->counted     = segment->counted;
    call->collected   = segment->writes && segment->trains && remote->sync_replicas;
    call->late        = segment->late;
    call->incarnation = call->remote->peers[call->task].incarnation;
    status            = enter_at(call, segment);
    if (status != EST_OK) {
        est_free(call);
        return status;
    }
    call->next          = call->remote->calls;
    call->remote->calls = call;
    *out                = call;
    return EST_OK;
}

static void drop_ask(est_remote_call *call)
{
    est_message *answer;
    est_status   status;

    if (call->ask == NULL) return;
    status = est_peer_await(&call->remote->peers[call->task], call->ask, "a step that was given up", NULL,
                            EST_STOP_SECS, &answer);
    if (status == EST_OK) est_message_free(answer);
    call->ask = NULL;
}

void est_call_leave(est_remote_call *call)
{
    if (call == NULL) return;
    drop_ask(call);
    for (est_remote_call **at = &call->remote->calls; *at != NULL; at = &(*at)->next) {
        if (*at != call) continue;
        *at = call->next;
        break;
    }
    est_packing_clear(&call->in);
    est_message_free(call->answer);
    est_unpacked_clear(&call->out);
    est_free(call);
}

static est_status send(est_remote_call *call)
{
    const est_tasks *r = call->remote;
    const est_peer  *p = &r->peers[call->task];
    est_payload      payload;
    char             what[64];

    if (est_link_peer(p->link)->incarnation != call->incarnation) { /* the number of the part is another's */
        return est_fail(EST_UNAVAILABLE, "%s was started anew and has lost its variables", p->name);
    }
    snprintf(what, sizeof what, "phase %d of a step", call->phase);
    EST_TRY(est_packing_payload(&call->in, &payload));
    payload.behind = call->piece > 0;
    call->link     = p->link;
    return est_link_ask(p->link, EST_METHOD_RUN, what, payload, r->options.answer_secs, NULL, NULL, &call->ask);
}

static void write_ledger(const est_remote_call *call, const est_peer *p)
{
    FILE *ledger = call->remote->server->ledger;

    if (ledger == NULL) return;
    fprintf(ledger, "asks %s %016" PRIx64 " %" PRIu64 " %d\n", p->name, p->incarnation, call->sequence, call->part);
    (void)fflush(ledger);
}

/* What is pushed after the step was made is of no step. */
static est_status tag_run(est_remote_call *call)
{
    est_tasks *r = call->remote;

    if (r->tag < 0 || r->committed)
        return est_fail(EST_FAILED_PRECONDITION, "a step that is made together begins with a turn");
    r->pushed = true;
    est_wire_put_i64(&call->in.head, EST_FIELD_TAG, r->tag + 1);
    est_wire_put_u64(&call->in.head, EST_FIELD_ERA, r->era);
    return EST_OK;
}

/* Whether a run that was started before at the same task may have been lost with a link, and waits to be asked for again. */
static bool is_behind_lost(const est_remote_call *call)
{
    const est_link *link = call->remote->peers[call->task].link;

    for (const est_remote_call *c = call->remote->calls; c != NULL; c = c->next) {
        if (c != call && c->task == call->task && c->started && (c->ask == NULL || c->link != link)) return true;
    }
    return false;
}

/* The oldest run at the task whose answer is not here yet: it may be asked for again. */
static uint64_t first_unanswered(const est_remote_call *call)
{
    uint64_t first = call->sequence;

    for (const est_remote_call *c = call->remote->calls; c != NULL; c = c->next) {
        if (c->task == call->task && c->started && c->sequence < first) first = c->sequence;
    }
    return first;
}

est_status est_call_start(est_remote_call *call, uint64_t run_seed, est_view *const *in, int n_in)
{
    est_peer *p = &call->remote->peers[call->task];

    if (call->late) EST_TRY(est_tasks_complete_step(call->remote));
    est_message_free(call->answer);
    call->answer   = NULL;
    call->sequence = ++call->remote->server->sequence;
    call->started  = true;
    write_ledger(call, p);
    est_packing_reset(&call->in);
    est_wire_put_i64(&call->in.head, EST_FIELD_PART, call->part);
    est_wire_put_u64(&call->in.head, EST_FIELD_SEQUENCE, call->sequence);
    est_wire_put_u64(&call->in.head, EST_FIELD_FIRST, first_unanswered(call));
    est_wire_put_u64(&call->in.head, EST_FIELD_SEED, run_seed);
    if (call->counted) est_wire_put_bool(&call->in.head, EST_FIELD_COUNTED, true);
    if (call->collected) EST_TRY(tag_run(call));
    for (int i = 0; i < n_in; i++) est_pack_view(&call->in, in[i]);
    if (is_behind_lost(call)) return EST_OK; /* finish asks for one after the other */
    if (send(call) != EST_OK) {              /* it finds out what became of the task, and asks again if it can */
        est_error_clear();
        call->ask = NULL;
    }
    return EST_OK;
}

/* Over a new link, if the other is lost, to the same process, which may have done it already. */
static est_status ask_again(est_remote_call *call)
{
    est_tasks *r = call->remote;
    est_peer  *p = &r->peers[call->task];

    EST_TRY(est_peer_reach(r, p, r->server->silence_secs));
    return send(call);
}

/* EST_UNAVAILABLE: it is to be asked for again. */
static est_status await_answer(est_remote_call *call)
{
    est_server *server = call->remote->server;
    est_status  status;
    char        why[64];

    snprintf(why, sizeof why, "phase %d of a step", call->phase);
    status    = est_peer_await(&call->remote->peers[call->task], call->ask, why, "asks again", EST_STOP_SECS,
                               &call->answer);
    call->ask = NULL;
    if (status == EST_DEADLINE_EXCEEDED) {
        est_log_warn("%s: %s", server->task, est_error_message());
        status = est_fail_context(EST_UNAVAILABLE, "asked up to %d times", REPEATS_MAX + 1);
    }
    pthread_mutex_lock(&server->lock);
    est_server_sample(server);
    pthread_mutex_unlock(&server->lock);
    return status;
}

est_status est_call_finish(est_remote_call *call, const est_view **out)
{
    const est_peer *p = &call->remote->peers[call->task];
    est_status      status;

    if (!call->started) return est_fail(EST_INTERNAL, "a segment of %s was not started", p->name);
    call->started = false;
    status        = EST_UNAVAILABLE;
    if (call->ask != NULL) status = await_answer(call);
    for (int i = 0; status == EST_UNAVAILABLE && i < REPEATS_MAX; i++) {
        status = ask_again(call);
        if (status == EST_DEADLINE_EXCEEDED) return est_fail_context(EST_UNAVAILABLE, "%s is lost", p->name);
        EST_TRY(status);
        status = await_answer(call);
    }
    EST_TRY(status);
    EST_TRY(est_unpack_tensors(call->answer, &call->out));
    if (call->out.n != call->n_out) {
        return est_fail(EST_DATA_LOSS, "%s answered with %d tensors instead of %d", p->name, call->out.n, call->n_out);
    }
    if (est_head_u64(call->answer, EST_FIELD_TURN, 0) != 0) call->remote->has_turn = true;
    *out = call->out.views;
    return EST_OK;
}

/* A task that is stopped waits a moment for all that is under way, not for one after the other. */
static void give_up_when_stopped(est_remote_call *call, int64_t until_ns)
{
    if (call->ask == NULL || est_stop_signal() == 0) return;
    if (est_ask_await(call->ask, (double)(until_ns - est_machine_ns()) / (double)EST_NS_PER_SEC)) return;
    est_ask_give_up(call->ask, est_stop_signal_name());
}

void est_tasks_abandon(est_remote *remote)
{
    int64_t until_ns = est_machine_ns() + (int64_t)(EST_STOP_SECS * (double)EST_NS_PER_SEC);

    est_tasks_of(remote)->has_turn = false; /* the next step asks anew, which gives back whatever turn there is */
    est_tasks_of(remote)->pushed = est_tasks_of(remote)->committed = false;
    for (est_remote_call *call = est_tasks_of(remote)->calls; call != NULL; call = call->next) {
        give_up_when_stopped(call, until_ns);
        drop_ask(call);
        call->started = false;
    }
}
