/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: entered once and run many times. A run that changes variables is made once per sequence number of its
 * sender; one that belongs to a coordinator's call is made once per call (cluster/call_records.h).
 *
 * Runs of calls need no turn: the coordinator decides which calls are under way. A hold refuses them as any other; it
 * meets only attempts that the coordinator has given up, since it saves when no call is under way. */
#include "cluster/service_segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/call_records.h"
#include "cluster/calls.h"
#include "cluster/sync_replicas.h"
#include "cluster/task_status.h"

#define PHASE_MAX 1000   /* of a step; a graph has a few */
#define SHORT_NS  200000 /* for the network thread */

static est_status reserve_segments(est_server *s)
{
    int                max = s->max_segments == 0 ? 16 : 2 * s->max_segments;
    est_segment_state *more;

    if (est_host_segments(s->host) < s->max_segments) return EST_OK;
    more = est_realloc(s->segments, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    memset(more + s->max_segments, 0, sizeof *more * (size_t)(max - s->max_segments));
    s->segments     = more;
    s->max_segments = max;
    return EST_OK;
}

/* --- who uses a segment ------------------------------------------------------------------------------------------- */

void est_service_clear_segment(est_segment_state *state)
{
    est_accumulator_free(state->accumulator);
    est_free(state->came);
    *state = (est_segment_state){ 0 };
}

/* Frees the segments that no client uses any more, but for those of a synchronous step that is not complete (SY2). */
static void free_unused(est_server *s)
{
    for (int i = 0; i < est_host_segments(s->host); i++) {
        if (est_host_graph(s->host, i) == NULL || s->segments[i].users > 0) continue;
        if (est_sync_replicas_needs(s, i)) continue;
        est_service_clear_segment(&s->segments[i]);
        est_host_leave(s->host, i);
    }
}

static void give_back(est_server *s, est_client *client, int i)
{
    int segment = est_host_find(s->host, client->entered[i].number);

    client->entered[i] = client->entered[--client->n_entered];
    if (segment >= 0) s->segments[segment].users--;
}

void est_service_give_back_all(est_server *s, est_client *client)
{
    if (client->n_entered == 0) return;
    while (client->n_entered > 0) give_back(s, client, client->n_entered - 1);
    free_unused(s);
}

/* The segments of the process before the last are given back; the last one may come back to repeat a run. */
static void take_incarnation(est_server *s, est_client *client, uint64_t by)
{
    if (by == client->entered_by || by == client->entered_before) return;
    for (int i = client->n_entered - 1; i >= 0; i--) {
        if (client->entered[i].by != client->entered_by) give_back(s, client, i);
    }
    free_unused(s);
    client->entered_before = client->entered_by;
    client->entered_by     = by;
}

/* Room for another segment of the client. */
static est_status reserve_entered(est_server *s, est_request *request, est_client **out)
{
    uint64_t    by = est_link_peer(est_request_link(request))->incarnation;
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    pthread_mutex_unlock(&s->lock);
    if (client == NULL) return est_no_memory();
    take_incarnation(s, client, by);
    *out = client;
    if (client->n_entered == client->max_entered) {
        int        max  = client->max_entered == 0 ? 16 : 2 * client->max_entered;
        est_entry *more = est_realloc(client->entered, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        client->entered     = more;
        client->max_entered = max;
    }
    return EST_OK;
}

est_status est_service_leave_segment(est_server *s, est_request *request)
{
    uint64_t    number = est_head_u64(est_request_message(request), EST_FIELD_SEGMENT, UINT64_MAX);
    uint64_t    by     = est_link_peer(est_request_link(request))->incarnation;
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    pthread_mutex_unlock(&s->lock);
    if (client == NULL) return est_no_memory();
    for (int i = 0; i < client->n_entered; i++) {
        if (client->entered[i].number != number || client->entered[i].by != by) continue;
        give_back(s, client, i);
        free_unused(s);
        break;
    }
    return EST_OK;
}

/* --- entering and running ----------------------------------------------------------------------------------------- */

est_status est_service_enter(est_server *s, est_request *request, est_packing *out)
{
    uint64_t    phase = est_head_u64(est_request_message(request), EST_FIELD_PHASE, 0);
    est_str     bytes = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    int         segment;
    est_client *client;

    if (bytes.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "the request to enter a segment has none");
    if (phase > PHASE_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a segment has phase %" PRIu64 "; at most %d is allowed", phase,
                        PHASE_MAX);
    }
    EST_TRY(reserve_segments(s));
    EST_TRY(reserve_entered(s, request, &client));
    EST_TRY(est_host_enter(s->host, bytes.data, bytes.size, &segment));
    if (!s->segments[segment].known) { /* the network thread must not make the first run, which lays out memory */
        s->segments[segment] = (est_segment_state){ .known  = true,
                                                    .ns     = SHORT_NS + 1,
                                                    .counts = est_host_counts(s->host, segment, "global_step"),
                                                    .phase  = (int)est_head_u64(est_request_message(request),
                                                                                EST_FIELD_PHASE, 0) };
    }
    s->segments[segment].users++;
    client->entered[client->n_entered++] = (est_entry){ .number = est_host_number(s->host, segment),
                                                        .by = est_link_peer(est_request_link(request))->incarnation };
    est_wire_put_u64(&out->head, EST_FIELD_SEGMENT, est_host_number(s->host, segment));
    est_wire_put_i64(&out->head, EST_FIELD_INPUTS, est_host_inputs(s->host, segment));
    est_wire_put_i64(&out->head, EST_FIELD_OUTPUTS, est_host_outputs(s->host, segment));
    return EST_OK;
}

bool est_service_is_short(const est_server *s, uint64_t segment)
{
    int at = est_host_find(s->host, segment);

    return at >= 0 && s->segments[at].ns <= SHORT_NS;
}

/* Feeds that point into the message, and into those of other tasks. */
static est_status take_inputs(est_server *s, est_request *request, int segment, est_arrival *const *received,
                              int n_received, int *n)
{
    int n_in;

    *n = 0;
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    n_in = s->inputs.n + n_received;
    if (n_in != est_host_inputs(s->host, segment)) {
        return est_fail(EST_INVALID_ARGUMENT, "segment %d takes %d tensors, got %d", segment,
                        est_host_inputs(s->host, segment), n_in);
    }
    if (n_in > s->max_feeds) {
        est_tensor **more = est_realloc(s->feeds, sizeof(est_tensor *) * (size_t)n_in);

        if (more == NULL) return est_no_memory();
        s->feeds     = more;
        s->max_feeds = n_in;
    }
    for (; *n < n_in; ++*n) {
        const est_view *view = *n < s->inputs.n ? &s->inputs.views[*n] : est_arrival_view(received[*n - s->inputs.n]);

        if (view->dtype == EST_STRING) {
            EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &s->feeds[*n]));
        } else {
            EST_TRY(est_tensor_wrap(view->dtype, view->shape, view->data, NULL, NULL, &s->feeds[*n]));
        }
    }
    return EST_OK;
}

static est_status run_segment(est_server *s, est_request *request, int segment)
{
    uint64_t      returned = est_head_u64(est_request_message(request), EST_FIELD_RETURNED, UINT64_MAX);
    est_arrival **received;
    int           n, n_received;
    int64_t       start = est_now_ns(), took;
    est_status    status;

    EST_TRY(est_rendezvous_inputs(s->rendezvous, request, &received, &n_received));
    status = take_inputs(s, request, segment, received, n_received, &n);
    if (status == EST_OK) {
        status = est_host_run(s->host, segment, est_head_u64(est_request_message(request), EST_FIELD_SEED, 0),
                              (const est_tensor *const *)s->feeds);
    }
    while (n > 0) est_tensor_free(s->feeds[--n]);
    est_arrivals_free(received, n_received);
    EST_TRY(status);
    est_packing_reset(&s->outputs);
    for (int i = 0; i < est_host_outputs(s->host, segment) && (uint64_t)i < returned; i++)
        est_pack_view(&s->outputs, est_host_output(s->host, segment, i));
    took                    = est_now_ns() - start;
    s->segments[segment].ns = took < s->segments[segment].ns / 4
                                  ? took
                                  : (3 * s->segments[segment].ns + took) / 4; /* the first run does not count */
    return EST_OK;
}

/* --- runs that change variables: once ----------------------------------------------------------------------------- */

/* Keeps the answer in case the link breaks before it arrives. */
static est_status remember(est_answered *run, const est_packing *answer)
{
    size_t   bytes = 0;
    uint8_t *block, *at;
    size_t  *sizes;
    int      n = answer->n_parts;

    for (int i = 0; i < n; i++) bytes += answer->parts[i].size;
    if (answer->head.size + bytes == 0) return EST_OK;
    block = est_alloc(answer->head.size + bytes);
    sizes = est_alloc(sizeof *sizes * ((size_t)n + 1));
    if (block == NULL || sizes == NULL) {
        est_free(block);
        est_free(sizes);
        return est_no_memory();
    }
    if (answer->head.size > 0) memcpy(block, answer->head.data, answer->head.size);
    at = block + answer->head.size;
    for (int i = 0; i < n; i++) {
        sizes[i] = answer->parts[i].size;
        if (sizes[i] > 0) memcpy(at, answer->parts[i].data, sizes[i]);
        at += sizes[i];
    }
    run->answer     = block;
    run->part_sizes = sizes;
    run->head_size  = answer->head.size;
    run->n_parts    = n;
    return EST_OK;
}

/* Without the turn that the answer included, if another worker has got it since. */
static void answer_again(est_server *s, est_request *request, const est_answered *run, bool has_turn)
{
    size_t         head   = has_turn ? run->head_size : run->head_size - run->turn_size;
    est_part      *parts  = est_alloc(sizeof *parts * ((size_t)run->n_parts + 1));
    const uint8_t *at     = run->answer;
    est_status     status = EST_OK;

    if (parts == NULL) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory to answer again");
        return;
    }
    if (at != NULL) at += run->head_size;
    for (int i = 0; i < run->n_parts; i++) {
        parts[i] = (est_part){ at, run->part_sizes[i] };
        at += run->part_sizes[i];
    }
    if (run->sends != NULL) status = est_sender_send(s->sender, run->sends);
    if (status != EST_OK) {
        est_request_fail(request, status, est_error_message());
    } else {
        est_request_answer(request, (est_payload){ run->answer, head, parts, run->n_parts });
    }
    est_free(parts);
}

void est_service_look_at_step(est_server *s, const char *who)
{
    const est_var *var = est_store_find(est_host_store(s->host), "global_step");
    int64_t        step;

    if (var == NULL || !var->initialized || var->value.dtype != EST_I64 || var->value.count != 1) return;
    step = *(const int64_t *)var->value.data;
    if (step < s->step) s->timeline++;
    s->step = step;
    est_gate_count(s->gate, who, s->step);
    est_server_wake(s);
}

/* After a hold was confirmed nothing may change variables until its release. The hold waited for all turns, so this
 * client has lost its turn or needs none. A client that holds and makes a step has its snapshots, or failed to get
 * them. */
static est_status check_hold(est_server *s, est_client *client, const est_request *request)
{
    if (client->holder != NULL) {
        est_client_end_hold(s, client);
        est_server_wake(s);
    }
    if (!est_server_is_held(s) || est_head_u64(est_request_message(request), EST_FIELD_SYNC_STEP, 0) > 0) return EST_OK;
    return est_fail(EST_ABORTED, "steps are held for a checkpoint, and no step of %s is under way: try again",
                    client->who.task);
}

/* Whether the client may run the segment now; returns the client. */
static est_status admit_run(est_server *s, est_request *request, int segment, uint64_t call, est_client **out)
{
    const est_task_id *who = est_link_peer(est_request_link(request));
    est_client        *client;
    est_status         status = EST_OK;
    bool               in_turn;

    in_turn = s->segments[segment].counts || est_head_u64(est_request_message(request), EST_FIELD_COUNTED, 0) != 0;
    in_turn = in_turn && call == 0;
    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    if (client == NULL) {
        status = est_no_memory();
    } else if (client->who.incarnation != who->incarnation) {
        status = est_fail(EST_FAILED_PRECONDITION, "a newer process has replaced %s: %s", who->task, client->who.place);
    } else if (client->gated && in_turn && !est_gate_has_turn(s->gate, who->task)) {
        status = est_fail(EST_ABORTED, "%s was silent for too long, and its turn went to another worker", who->task);
    }
    if (status == EST_OK && est_host_writes(s->host, segment)) status = check_hold(s, client, request);
    *out = client;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* "worker:0 INCARNATION SEQUENCE SEGMENT", and of a call also " call ORIGIN CALL FINGERPRINT". */
static void write_ledger(est_server *s, const est_task_id *who, uint64_t sequence, int segment, uint64_t call)
{
    s->applied++;
    if (s->ledger == NULL) return;
    fprintf(s->ledger, "%s %016" PRIx64 " %" PRIu64 " %" PRIu64, who->task, who->incarnation, sequence,
            est_host_number(s->host, segment));
    if (call != 0) {
        fprintf(s->ledger, " call %016" PRIx64 " %" PRIu64 " %016" PRIx64, s->calls.origin, call,
                est_host_print(s->host, segment));
    }
    fprintf(s->ledger, "\n");
    (void)fflush(s->ledger);
}

/* Updates step, counters and gate after a run that wrote. The answer to a run that counted a step may include the next
 * turn, which saves a request. */
static void count_run(est_server *s, est_client *client, int segment, uint64_t call)
{
    bool    in_turn = s->segments[segment].counts && call == 0;
    int64_t before;

    pthread_mutex_lock(&s->lock);
    before = s->step;
    est_service_look_at_step(s, in_turn ? client->who.task : NULL);
    if (before >= 0 && s->step > before) { /* not its initial value */
        s->steps++;
        client->steps++;
        client->step = s->step;
    }
    est_server_sample_run(s);
    if (client->gated && in_turn && est_gate_try(s->gate, client->who.task, client->limit, client->staleness)) {
        est_wire_put_bool(&s->outputs.head, EST_FIELD_TURN, true);
    }
    pthread_mutex_unlock(&s->lock);
}

/* Whether the run was made before, by any attempt of the call; then it is answered and not repeated. */
static bool was_called(est_server *s, est_request *request, est_client *client, uint64_t call, int segment)
{
    const est_answered *run = est_call_records_find(&s->calls, call, est_host_print(s->host, segment));

    if (run == NULL) return false;
    pthread_mutex_lock(&s->lock);
    client->repeats++;
    pthread_mutex_unlock(&s->lock);
    answer_again(s, request, run, false);
    return true;
}

/* Whether the run was made before; then it is answered and not repeated. */
static bool was_done(est_server *s, est_request *request, est_client *client, uint64_t sequence)
{
    const est_answered *run = client->answered;
    bool                has_turn;

    while (run != NULL && (run->by != client->asked_by || run->sequence != sequence)) run = run->next;
    if (run != NULL) {
        pthread_mutex_lock(&s->lock);
        client->repeats++;
        has_turn = est_gate_has_turn(s->gate, client->who.task);
        pthread_mutex_unlock(&s->lock);
        answer_again(s, request, run, has_turn);
        return true;
    }
    if (sequence >= client->first) return false;
    est_request_fail(request, EST_FAILED_PRECONDITION, "this run was answered, and its answer confirmed");
    return true;
}

/* Forgets the runs whose answers the client has confirmed. */
static void take_confirmed(est_client *client, const est_request *request, uint64_t sequence)
{
    uint64_t by    = est_link_peer(est_request_link(request))->incarnation;
    uint64_t first = est_head_u64(est_request_message(request), EST_FIELD_FIRST, sequence);

    if (client->asked_by != by) {
        client->asked_before = client->asked_by;
        client->asked_by     = by;
        client->first        = 0;
    }
    if (first > client->first) client->first = first;
    est_client_forget(client, by, client->first, client->asked_before);
}

static est_status run_or_accumulate(est_server *s, est_request *request, int segment)
{
    uint64_t step = est_head_u64(est_request_message(request), EST_FIELD_SYNC_STEP, 0);

    if (step == 0) return run_segment(s, request, segment);
    est_packing_reset(&s->outputs);
    return est_sync_replicas_add(
        s, request, segment,
        (est_step_id){ est_head_u64(est_request_message(request), EST_FIELD_TIMELINE, 0), (int64_t)step - 1 });
}

/* Makes a run that changes variables. The record of it is allocated first: if memory runs out after the run, only the
 * kept answer is lost. */
static est_status run_once(est_server *s, est_request *request, int segment, uint64_t sequence, uint64_t call,
                           est_client *client, est_answered **out)
{
    est_answered *run = est_zalloc(sizeof *run);
    est_status    status;
    size_t        head;

    if (run == NULL) return est_no_memory();
    status = run_or_accumulate(s, request, segment);
    if (status != EST_OK) {
        est_free(run);
        return status;
    }
    write_ledger(s, est_link_peer(est_request_link(request)), sequence, segment, call);
    head = s->outputs.head.size;
    if (est_head_u64(est_request_message(request), EST_FIELD_SYNC_STEP, 0) == 0) count_run(s, client, segment, call);
    if (call != 0) {
        run->by       = est_host_print(s->host, segment);
        run->sequence = call;
        est_call_records_add(&s->calls, run);
    } else {
        run->by          = client->asked_by;
        run->sequence    = sequence;
        run->next        = client->answered;
        client->answered = run;
    }
    if (remember(run, &s->outputs) == EST_OK) {
        run->turn_size = s->outputs.head.size - head;
    } else {
        est_log_warn("%s: %s", s->task, est_error_message());
    }
    *out = run;
    return EST_OK;
}

/* Sends what the run has to send to other tasks, then answers. `run`: the record of a run that changed variables (RV4);
 * NULL: it changed none. */
static void send_and_answer(est_server *s, est_request *request, int segment, est_answered *run)
{
    est_sends *sends;
    est_status status = est_sends_pack(s->host, segment, est_request_message(request),
                                       est_link_peer(est_request_link(request))->incarnation, &sends);

    if (status == EST_OK && sends != NULL) {
        if (run != NULL) run->sends = est_sends_ref(sends);
        status = est_sender_send(s->sender, sends);
        est_sends_free(sends);
    }
    if (status == EST_OK) {
        est_service_answer(request, &s->outputs);
    } else {
        est_request_fail(request, status, est_error_message());
    }
}

/* Answers a run that was made before; *done: it did, or refused the run. */
static est_status repeat_run(est_server *s, est_request *request, int segment, uint64_t sequence, uint64_t call,
                             bool *done)
{
    est_client *client;
    bool        known;

    *done = false;
    if (!est_host_writes(s->host, segment)) return EST_OK;
    if (sequence == 0) return est_fail(EST_INVALID_ARGUMENT, "a run that changes variables needs a sequence number");
    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    known  = client != NULL && client->who.incarnation == est_link_peer(est_request_link(request))->incarnation;
    pthread_mutex_unlock(&s->lock);
    if (!known) return EST_OK;
    if (call != 0) {
        *done = was_called(s, request, client, call, segment);
        return EST_OK;
    }
    take_confirmed(client, request, sequence);
    *done = was_done(s, request, client, sequence);
    return EST_OK;
}

/* A run that was made: its segment, and its record if it changed variables. */
typedef struct made_run {
    int           segment;
    est_answered *record; /* NULL: it changed none */
    bool          done;   /* it was answered from memory */
} made_run;

/* A run of a call that may be made twice has an origin and no number. */
static est_status admit_call(est_server *s, const est_message *message, uint64_t call)
{
    uint64_t origin = est_head_u64(message, EST_FIELD_ORIGIN, 0);

    if (call != 0)
        return est_call_records_admit(&s->calls, origin, call, est_head_u64(message, EST_FIELD_CALL_FIRST, 0));
    return origin != 0 ? est_call_records_set_origin(&s->calls, origin, 0) : EST_OK;
}

static est_status make_run(est_server *s, est_request *request, made_run *out)
{
    const est_message *message  = est_request_message(request);
    uint64_t           segment  = est_head_u64(message, EST_FIELD_SEGMENT, UINT64_MAX);
    uint64_t           sequence = est_head_u64(message, EST_FIELD_SEQUENCE, 0);
    uint64_t           call     = est_head_u64(message, EST_FIELD_CALL, 0);
    est_client        *client;
    int                at = est_host_find(s->host, segment);

    *out = (made_run){ .segment = at };
    if (at < 0) return est_fail(EST_ABORTED, "there is no such segment here: the task was restarted");
    EST_TRY(admit_call(s, message, call));
    EST_TRY(repeat_run(s, request, at, sequence, call, &out->done));
    if (out->done) return EST_OK;
    EST_TRY(admit_run(s, request, at, call, &client));
    if (est_host_writes(s->host, at)) {
        EST_TRY(run_once(s, request, at, sequence, call, client, &out->record));
    } else {
        EST_TRY(run_segment(s, request, at));
    }
    pthread_mutex_lock(&s->lock);
    client->runs++;
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

void est_service_run_segment(est_server *s, est_request *request)
{
    made_run   run;
    est_status status = make_run(s, request, &run);

    if (status != EST_OK) {
        est_request_fail(request, status, est_error_message());
    } else if (!run.done) {
        send_and_answer(s, request, run.segment, run.record);
    }
}
