/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server does for others, request by request.
 *
 * ENTER      BYTES (a segment)                       -> PART, INPUTS, OUTPUTS
 * RUN        PART, SEQUENCE, FIRST, SEED, TAG, ERA, COUNTED, tensors -> tensors
 * VARIABLES  -                                       -> NAME, INITIALIZED, SIZE for each
 * READ       NAME                                    -> a tensor
 * WRITE      NAME, a tensor                          -> -
 * TURN       LIMIT, STALENESS, TOGETHER              -> STEP, FINISHED; waits (cluster/gate.h) unless TOGETHER, then ERA, too
 * FINISH_STEP STEP, ERA, TOGETHER                    -> STEP, ERA, COMMIT, FINISHED; waits (cluster/sync.h)
 * COMMIT     STEP, ERA                               -> -
 * COLLECTED  PART                                    -> tensors
 * AWAIT_READY -                                      -> -; waits
 * AWAIT_ALONE -                                      -> -; waits until no other task is here or has a turn
 * DECLARE_READY BYTES (how it trains), ERA           -> BYTES (whom it put out), ERA (of the clock, from there)
 * DONE       -                                       -> -
 * LEAVE      -                                       -> -; what the task waits for is answered with EST_ABORTED
 * HOLD       HELD                                    -> -; waits until no step is under way; variables stay as they are then
 * STATUS     -                                       -> BYTES (JSON)
 * COMPARE    BYTES (a cluster)                       -> -; EST_FAILED_PRECONDITION: it is not that of this task
 * and those of cluster/service_files.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/server.h"
#include "cluster/service_files.h"
#include "cluster/status.h"
#include "cluster/sync.h"
#include "kernels/lazy_rows.h"

#define PHASE_MAX    1000      /* of a step; a graph has a few */
#define INLINE_NS    200000    /* runs that take longer are not for the network thread */
#define INLINE_BYTES (1 << 20) /* nor are those of larger messages */

/* --- answers -------------------------------------------------------------------------------------------------------------- */

static void answer_packed(est_request *request, const est_packing *packing)
{
    est_payload payload;
    est_status  status = est_packing_payload(packing, &payload);

    if (status == EST_OK) {
        est_request_answer(request, payload);
    } else {
        est_request_fail(request, status, est_error_message());
    }
}

/* --- segments --------------------------------------------------------------------------------------------------------------- */

static est_status reserve_parts(est_server *s)
{
    int             max = s->max_parts == 0 ? 16 : 2 * s->max_parts;
    est_part_state *more;

    if (est_host_parts(s->host) < s->max_parts) return EST_OK;
    more = est_realloc(s->parts, sizeof *more * (size_t)max);
    if (more == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a segment");
    s->parts     = more;
    s->max_parts = max;
    return EST_OK;
}

static est_status enter(est_server *s, est_request *request, est_packing *out)
{
    uint64_t phase = est_head_u64(est_request_message(request), EST_FIELD_PHASE, 0);
    est_str  bytes = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    int      part, before = est_host_parts(s->host);

    if (bytes.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "a segment without bytes");
    if (phase > PHASE_MAX) return est_fail(EST_INVALID_ARGUMENT, "a segment of phase %" PRIu64, phase);
    EST_TRY(reserve_parts(s));
    EST_TRY(est_host_enter(s->host, bytes.data, bytes.size, &part));
    if (part == before) { /* its first run lays out memory: not in the network thread */
        s->parts[part] = (est_part_state){ .ns     = INLINE_NS + 1,
                                           .counts = est_host_counts(s->host, part, "global_step"),
                                           .phase  = (int)est_head_u64(est_request_message(request), EST_FIELD_PHASE,
                                                                       0) };
    }
    est_wire_put_i64(&out->head, EST_FIELD_PART, part);
    est_wire_put_i64(&out->head, EST_FIELD_INPUTS, est_host_inputs(s->host, part));
    est_wire_put_i64(&out->head, EST_FIELD_OUTPUTS, est_host_outputs(s->host, part));
    return EST_OK;
}

/* The tensors of the message as feeds; they point into it. */
static est_status take_inputs(est_server *s, est_request *request, int part, int *n)
{
    *n = 0;
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    if (s->inputs.n != est_host_inputs(s->host, part)) {
        return est_fail(EST_INVALID_ARGUMENT, "segment %d takes %d tensors, got %d", part,
                        est_host_inputs(s->host, part), s->inputs.n);
    }
    if (s->inputs.n > s->max_feeds) {
        est_tensor **more = est_realloc(s->feeds, sizeof(est_tensor *) * (size_t)s->inputs.n);

        if (more == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for %d tensors", s->inputs.n);
        s->feeds     = more;
        s->max_feeds = s->inputs.n;
    }
    for (; *n < s->inputs.n; ++*n) {
        const est_view *view = &s->inputs.views[*n];

        if (view->dtype == EST_STRING) {
            EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &s->feeds[*n]));
        } else {
            EST_TRY(est_tensor_wrap(view->dtype, view->shape, view->data, NULL, NULL, &s->feeds[*n]));
        }
    }
    return EST_OK;
}

static est_status run_part(est_server *s, est_request *request, int part)
{
    int        n;
    int64_t    start  = est_now_ns(), took;
    est_status status = take_inputs(s, request, part, &n);

    if (status == EST_OK) {
        status = est_host_run(s->host, part, est_head_u64(est_request_message(request), EST_FIELD_SEED, 0),
                              (const est_tensor *const *)s->feeds);
    }
    while (n > 0) est_tensor_free(s->feeds[--n]);
    EST_TRY(status);
    est_packing_reset(&s->outputs);
    for (int i = 0; i < est_host_outputs(s->host, part); i++)
        est_pack_view(&s->outputs, est_host_output(s->host, part, i));
    took              = est_now_ns() - start;
    s->parts[part].ns = took < s->parts[part].ns / 4 ? took
                                                     : (3 * s->parts[part].ns + took) / 4; /* the first run is none */
    return EST_OK;
}

/* --- runs that change variables: once -------------------------------------------------------------------------------------------- */

/* Keeps the answer, in case the link breaks before it has arrived. */
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
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to keep an answer of %zu bytes", bytes);
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

/* The turn that came with it may have been given to others since. */
static void answer_again(est_request *request, const est_answered *run, bool has_turn)
{
    size_t         head  = has_turn ? run->head_size : run->head_size - run->turn_size;
    est_part      *parts = est_alloc(sizeof *parts * ((size_t)run->n_parts + 1));
    const uint8_t *at    = run->answer;

    if (parts == NULL) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory to answer again");
        return;
    }
    if (at != NULL) at += run->head_size;
    for (int i = 0; i < run->n_parts; i++) {
        parts[i] = (est_part){ at, run->part_sizes[i] };
        at += run->part_sizes[i];
    }
    est_request_answer(request, (est_payload){ run->answer, head, parts, run->n_parts });
    est_free(parts);
}

/* The global step as it is here, after something may have changed it. Under `lock`. */
static void look_at_step(est_server *s, const char *who)
{
    const est_var *var = est_store_find(est_host_store(s->host), "global_step");
    int64_t        step;

    if (var == NULL || !var->initialized || var->value.dtype != EST_I64 || var->value.count != 1) return;
    step = *(const int64_t *)var->value.data;
    if (step < s->step) s->era++;
    s->step = step;
    est_gate_count(s->gate, who, s->step);
    est_server_wake(s);
}

/* A task that confirmed a hold lets nobody change variables until the release: whoever has a turn has been waited for, so this is
 * one whose step was given to others, or one that needs no turns. Whoever holds and makes a step has copied, or failed to. */
static est_status check_hold(est_server *s, est_client *client, const est_request *request)
{
    if (client->holds > 0) {
        est_server_end_holds(s, client);
        est_server_wake(s);
    }
    if (!est_server_is_held(s) || est_head_u64(est_request_message(request), EST_FIELD_TAG, 0) > 0) return EST_OK;
    return est_fail(EST_ABORTED, "a checkpoint is being made, and no step of %s is under way: try again",
                    client->who.task);
}

/* Whether the client may run it now; takes the client along. */
static est_status admit(est_server *s, est_request *request, int part, est_client **out)
{
    const est_task_id *who = est_link_peer(est_request_link(request));
    est_client        *client;
    est_status         status = EST_OK;
    bool               in_turn;

    in_turn = s->parts[part].counts || est_head_u64(est_request_message(request), EST_FIELD_COUNTED, 0) != 0;
    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, est_request_link(request));
    if (client == NULL) {
        status = est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a client");
    } else if (client->who.incarnation != who->incarnation) {
        status = est_fail(EST_FAILED_PRECONDITION, "another process has taken the place of %s: %s", who->task,
                          client->who.place);
    } else if (client->gated && in_turn && !est_gate_has_turn(s->gate, who->task)) {
        status = est_fail(EST_ABORTED, "%s was silent for too long: the step that it had begun was given to others",
                          who->task);
    }
    if (status == EST_OK && est_host_writes(s->host, part)) status = check_hold(s, client, request);
    *out = client;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void write_ledger(est_server *s, const est_task_id *who, uint64_t sequence, int part)
{
    s->applied++;
    if (s->ledger == NULL) return;
    fprintf(s->ledger, "%s %016" PRIx64 " %" PRIu64 " %d\n", who->task, who->incarnation, sequence, part);
    (void)fflush(s->ledger);
}

/* What a run that wrote means for the gate; a step that was counted may bring the next turn along, which saves asking. */
static void count(est_server *s, est_client *client, int part)
{
    int64_t before;

    pthread_mutex_lock(&s->lock);
    before = s->step;
    look_at_step(s, s->parts[part].counts ? client->who.task : NULL);
    if (before >= 0 && s->step > before) { /* and not just its first value */
        s->steps++;
        client->steps++;
        client->step = s->step;
    }
    est_server_sample_run(s);
    if (client->gated && s->parts[part].counts &&
        est_gate_try(s->gate, client->who.task, client->limit, client->staleness)) {
        est_wire_put_bool(&s->outputs.head, EST_FIELD_TURN, true);
    }
    pthread_mutex_unlock(&s->lock);
}

/* One more of something that the status view reads. */
static void tally(est_server *s, uint64_t *counter)
{
    pthread_mutex_lock(&s->lock);
    (*counter)++;
    pthread_mutex_unlock(&s->lock);
}

/* Whether the run was done before: then it is answered, and not repeated. */
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
        answer_again(request, run, has_turn);
        return true;
    }
    if (sequence >= client->first) return false;
    est_request_fail(request, EST_FAILED_PRECONDITION, "a run that was answered long ago");
    return true;
}

/* What the client has the answers to need not be remembered. */
static void take_first(est_client *client, const est_request *request, uint64_t sequence)
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

static est_status run_or_collect(est_server *s, est_request *request, int part)
{
    uint64_t tag = est_head_u64(est_request_message(request), EST_FIELD_TAG, 0);

    if (tag == 0) return run_part(s, request, part);
    est_packing_reset(&s->outputs);
    return est_sync_add(s, request, part,
                        (est_tag){ est_head_u64(est_request_message(request), EST_FIELD_ERA, 0), (int64_t)tag - 1 });
}

/* A run that changes variables. The place to remember it in comes first: memory may be out when it has been applied, and then
 * the answer is all that can be lost. */
static est_status run_once(est_server *s, est_request *request, int part, uint64_t sequence, est_client *client)
{
    est_answered *run = est_zalloc(sizeof *run);
    est_status    status;
    size_t        head;

    if (run == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to remember a run");
    status = run_or_collect(s, request, part);
    if (status != EST_OK) {
        est_free(run);
        return status;
    }
    write_ledger(s, est_link_peer(est_request_link(request)), sequence, part);
    head = s->outputs.head.size;
    if (est_head_u64(est_request_message(request), EST_FIELD_TAG, 0) == 0) count(s, client, part);
    run->by          = client->asked_by;
    run->sequence    = sequence;
    run->next        = client->answered;
    client->answered = run;
    if (remember(run, &s->outputs) == EST_OK) {
        run->turn_size = s->outputs.head.size - head;
    } else {
        est_log_warn("%s: %s", s->task, est_error_message());
    }
    return EST_OK;
}

/* Under host_lock. */
static void run(est_server *s, est_request *request)
{
    uint64_t    part     = est_head_u64(est_request_message(request), EST_FIELD_PART, UINT64_MAX);
    uint64_t    sequence = est_head_u64(est_request_message(request), EST_FIELD_SEQUENCE, 0);
    est_client *client;
    est_status  status;
    bool        writes, known;

    if (part >= (uint64_t)est_host_parts(s->host)) {
        est_request_fail(request, EST_ABORTED, "there is no such segment here: was the task started anew?");
        return;
    }
    writes = est_host_writes(s->host, (int)part);
    if (writes && sequence == 0) {
        est_request_fail(request, EST_INVALID_ARGUMENT, "a run that changes variables and has no number");
        return;
    }
    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, est_request_link(request));
    known  = client != NULL && client->who.incarnation == est_link_peer(est_request_link(request))->incarnation;
    pthread_mutex_unlock(&s->lock);
    if (known && writes) {
        take_first(client, request, sequence);
        if (was_done(s, request, client, sequence)) return;
    }
    status = admit(s, request, (int)part, &client);
    if (status == EST_OK) {
        status = writes ? run_once(s, request, (int)part, sequence, client) : run_part(s, request, (int)part);
    }
    if (status != EST_OK) {
        est_request_fail(request, status, est_error_message());
        return;
    }
    tally(s, &client->runs);
    answer_packed(request, &s->outputs);
}

/* --- variables ----------------------------------------------------------------------------------------------------------------- */

static void list_variables(est_server *s, est_packing *out)
{
    est_store *store = est_host_store(s->host);

    for (int i = 0; i < est_store_size(store); i++) {
        est_wire_put_string(&out->head, EST_FIELD_NAME, est_store_at(store, i)->name);
        est_wire_put_bool(&out->head, EST_FIELD_INITIALIZED, est_store_at(store, i)->initialized);
        est_wire_put_u64(&out->head, EST_FIELD_SIZE,
                         (uint64_t)est_store_at(store, i)->value.count *
                             est_dtype_size(est_store_at(store, i)->value.dtype));
    }
}

static est_status name_of(est_request *request, char name[512])
{
    est_str given = est_head_bytes(est_request_message(request), EST_FIELD_NAME);

    if (given.data == NULL || given.size >= 512) return est_fail(EST_INVALID_ARGUMENT, "a request without a name");
    memcpy(name, given.data, given.size);
    name[given.size] = '\0';
    return EST_OK;
}

static est_status read_variable(est_server *s, est_request *request, est_packing *out)
{
    char     name[512];
    est_var *var;
    est_view stored;

    EST_TRY(name_of(request, name));
    var = est_store_find(est_host_store(s->host), name);
    if (var == NULL || !var->initialized) {
        return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value yet", name);
    }
    est_lazy_draw_all(var, NULL); /* what is sent is sent from where it lies */
    stored = est_var_stored(var);
    est_pack_view(out, &stored);
    return EST_OK;
}

static est_status write_variable(est_server *s, est_request *request)
{
    char            name[512];
    est_var        *var;
    const est_view *value;

    EST_TRY(name_of(request, name));
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    if (s->inputs.n != 1)
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is written with %d tensors", name, s->inputs.n);
    value = &s->inputs.views[0];
    EST_TRY(est_store_get(est_host_store(s->host), name, value->dtype, value->shape, &var));
    if (var->rows != NULL) return est_fail(EST_UNIMPLEMENTED, "variable '%s' belongs to a dynamic embedding", name);
    est_var_write(var, value->data);
    pthread_mutex_lock(&s->lock);
    look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* --- synchronous steps (cluster/sync.h) ------------------------------------------------------------------------------------------ */

static est_status commit(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    bool               held;

    pthread_mutex_lock(&s->lock);
    held = est_server_is_held(s);
    pthread_mutex_unlock(&s->lock);
    if (held) return est_fail(EST_ABORTED, "a checkpoint is made, and it is late: another will be asked to commit");
    EST_TRY(est_sync_commit(
        s, (est_tag){ est_head_u64(message, EST_FIELD_ERA, 0), (int64_t)est_head_u64(message, EST_FIELD_STEP, 0) }));
    pthread_mutex_lock(&s->lock);
    if (strcmp(s->committer, est_link_peer(est_request_link(request))->task) == 0) s->committer[0] = '\0';
    look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* What the last step that was made of this part gave. */
static est_status say_collected(est_server *s, est_request *request, est_packing *out)
{
    uint64_t part = est_head_u64(est_request_message(request), EST_FIELD_PART, UINT64_MAX);

    if (part >= (uint64_t)est_host_parts(s->host) || !s->parts[part].has_run) {
        return est_fail(EST_ABORTED, "no step was made with that segment yet: was the task started anew?");
    }
    for (int i = 0; i < est_host_outputs(s->host, (int)part); i++)
        est_pack_view(out, est_host_output(s->host, (int)part, i));
    return EST_OK;
}

/* --- one request ------------------------------------------------------------------------------------------------------------------ */

static void run_packed(est_server *s, est_request *request, int method)
{
    est_packing out    = { 0 };
    est_status  status = EST_OK;

    if (method == EST_METHOD_ENTER) status = enter(s, request, &out);
    if (method == EST_METHOD_VARIABLES) list_variables(s, &out);
    if (method == EST_METHOD_READ) status = read_variable(s, request, &out);
    if (method == EST_METHOD_WRITE) status = write_variable(s, request);
    if (method == EST_METHOD_COMMIT) status = commit(s, request);
    if (method == EST_METHOD_COLLECTED) status = say_collected(s, request, &out);
    if (status == EST_OK) {
        answer_packed(request, &out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    est_packing_clear(&out);
}

void est_service_run(est_server *s, est_request *request)
{
    int method = est_request_method(request);

    pthread_mutex_lock(&s->host_lock);
    switch (method) {
    case EST_METHOD_RUN: run(s, request); break;
    case EST_METHOD_SAVE: est_service_save(s, request); break;
    case EST_METHOD_VERIFY:
    case EST_METHOD_FIND_NAN: est_service_files(s, request); break;
    case EST_METHOD_RESTORE:
        est_service_files(s, request);
        pthread_mutex_lock(&s->lock);
        look_at_step(s, NULL);
        pthread_mutex_unlock(&s->lock);
        break;
    default: run_packed(s, request, method); break;
    }
    pthread_mutex_unlock(&s->host_lock);
}

/* --- in the network thread ---------------------------------------------------------------------------------------------------------- */

/* Whether a run is so short that it is over before anybody else could have been woken for it. Takes host_lock when it is. */
static bool take_inline(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    uint64_t           part    = est_head_u64(message, EST_FIELD_PART, UINT64_MAX);
    size_t             bytes   = 0, size;
    bool               idle;

    if (est_request_method(request) != EST_METHOD_RUN) return false;
    for (int i = 0; i < est_message_parts(message); i++) {
        (void)est_message_part(message, i, &size);
        bytes += size;
    }
    pthread_mutex_lock(&s->lock);
    idle = s->first == NULL && !s->busy;
    pthread_mutex_unlock(&s->lock);
    if (!idle || bytes > INLINE_BYTES || pthread_mutex_trylock(&s->host_lock) != 0) return false;
    if (part < (uint64_t)est_host_parts(s->host) && s->parts[part].ns <= INLINE_NS) return true;
    pthread_mutex_unlock(&s->host_lock);
    return false;
}

static void enqueue(est_server *s, est_request *request)
{
    est_queued *job = est_alloc(sizeof *job);

    if (job == NULL) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory to queue a request");
        return;
    }
    *job = (est_queued){ .request = request };
    pthread_mutex_lock(&s->lock);
    if (s->stopping) {
        est_request_fail(request, EST_UNAVAILABLE, "the server ends");
        est_free(job);
    } else {
        *s->last = job;
        s->last  = &job->next;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

static est_status ask_turn(est_server *s, est_request *request, bool *waits)
{
    const est_message *message = est_request_message(request);
    est_client        *client  = est_server_client(s, est_request_link(request));

    if (client == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a client");
    est_server_end_holds(s, client);                        /* whoever begins a step has saved, or failed to */
    if (est_head_u64(message, EST_FIELD_TOGETHER, 0) > 0) { /* nobody has to wait to begin, but to finish */
        *waits = false;
        est_sync_join(s, client);
        return EST_OK;
    }
    client->gated     = true;
    client->limit     = (int64_t)est_head_u64(message, EST_FIELD_LIMIT, 0);
    client->staleness = (int64_t)est_head_u64(message, EST_FIELD_STALENESS, 0);
    return est_gate_ask(s->gate, client->who.task, client->limit, client->staleness, request);
}

static est_status hold(est_server *s, est_request *request, bool *waits)
{
    est_client *client = est_server_client(s, est_request_link(request));

    if (client == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a client");
    *waits = est_head_u64(est_request_message(request), EST_FIELD_HELD, 0) != 0;
    if (*waits) {
        EST_TRY(est_server_park(s, request, EST_METHOD_HOLD));
        if (client->holder != est_request_link(request))
            est_server_end_holds(s, client);       /* of a link that it gave up */
        est_gate_leave(s->gate, client->who.task); /* whoever saves makes no step: a turn is left of one that failed */
        est_gate_hold(s->gate);
        client->holder = est_request_link(request);
        client->holds++;
    } else if (client->holds > 0) {
        est_gate_release(s->gate);
        client->holds--;
    }
    return EST_OK;
}

/* Where the job is. */
static void answer_step(est_server *s, est_request *request)
{
    uint64_t    limit = est_head_u64(est_request_message(request), EST_FIELD_LIMIT, 0);
    est_packing out   = { 0 };

    est_wire_put_i64(&out.head, EST_FIELD_STEP, s->step);
    est_wire_put_u64(&out.head, EST_FIELD_ERA, s->era);
    est_wire_put_bool(&out.head, EST_FIELD_FINISHED, s->done || (limit > 0 && s->step >= (int64_t)limit));
    answer_packed(request, &out);
    est_packing_clear(&out);
}

/* The answer says whom the chief has put out, once. */
static void declare_ready(est_server *s, est_request *request)
{
    est_str     how    = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    est_client *client = est_server_client(s, est_request_link(request));
    est_packing out    = { 0 };

    s->told_era = est_head_u64(est_request_message(request), EST_FIELD_ERA, s->told_era);
    if (s->step >= 0) est_wire_put_u64(&out.head, EST_FIELD_ERA, s->era);
    if (how.data != NULL) snprintf(s->agreed, sizeof s->agreed, "%.*s", (int)how.size, how.data);
    s->ready = true;
    if (client != NULL && client->before[0] != '\0') {
        est_wire_put_string(&out.head, EST_FIELD_BYTES, client->before);
        client->before[0] = '\0';
    }
    answer_packed(request, &out);
    est_packing_clear(&out);
}

static est_status report_difference(const char *first, const char *second, const est_cluster_difference *d)
{
    const char *has[] = { first, second }, *at[] = { d->first, d->second };
    char        text[2][EST_NET_NAME_MAX + 320];

    for (int i = 0; i < 2; i++) {
        if (at[i] != NULL) {
            snprintf(text[i], sizeof text[i], "%s has %s:%d at %s", has[i], d->job, d->index, at[i]);
        } else {
            snprintf(text[i], sizeof text[i], "%s has no %s:%d", has[i], d->job, d->index);
        }
    }
    return est_fail(EST_FAILED_PRECONDITION, "%s, %s: all tasks need the same cluster in TF_CONFIG", text[0], text[1]);
}

/* Where the two tasks themselves are does not count: the asking one may have been moved, and nobody looks for it there; this one
 * was found, and may know itself by the address that it listens at. */
static est_status compare(const est_server *s, const est_request *request)
{
    est_str                text   = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    const char            *asker  = est_link_peer(est_request_link(request))->task;
    char                  *json   = text.data != NULL ? est_alloc(text.size + 1) : NULL;
    est_cluster           *theirs = NULL;
    est_cluster_difference found;
    est_status             status;

    if (text.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "a comparison without a cluster");
    if (json == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a cluster");
    memcpy(json, text.data, text.size);
    json[text.size] = '\0';
    status          = est_cluster_parse(json, asker, &theirs);
    if (status == EST_OK && est_cluster_differ(theirs, s->cluster, (const char *const[]){ asker, s->task }, &found)) {
        status = report_difference(asker, s->task, &found);
    }
    est_cluster_free(theirs);
    est_free(json);
    return status;
}

/* Who waits for the others to end makes no more steps with them. */
static void stop_taking_part(est_server *s, est_request *request)
{
    est_client *client = est_server_client(s, est_request_link(request));

    if (client != NULL) client->together = false;
}

/* Requests that are about who may go on: bookkeeping only. */
static void coordinate(est_server *s, est_request *request, int method)
{
    est_status status = EST_OK;
    bool       waits  = false;

    pthread_mutex_lock(&s->lock);
    if (s->stopping) {
        est_request_fail(request, EST_UNAVAILABLE, "the server ends");
        pthread_mutex_unlock(&s->lock);
        return;
    }
    switch (method) {
    case EST_METHOD_TURN:
        waits  = true;
        status = ask_turn(s, request, &waits);
        break;
    case EST_METHOD_FINISH_STEP:
        waits  = true;
        status = est_sync_finish_step(s, request);
        break;
    case EST_METHOD_AWAIT_ALONE: stop_taking_part(s, request); /* fall through */
    case EST_METHOD_AWAIT_READY:
        status = est_server_park(s, request, (est_method)method);
        waits  = true;
        break;
    case EST_METHOD_DECLARE_READY:
        waits = true; /* it is answered there */
        declare_ready(s, request);
        break;
    case EST_METHOD_COMPARE: status = compare(s, request); break;
    case EST_METHOD_HOLD: status = hold(s, request, &waits); break;
    case EST_METHOD_LEAVE: est_server_leave(s, est_request_link(request)); break;
    case EST_METHOD_DONE:
        s->done = true;
        est_gate_finish(s->gate);
        break;
    default: status = est_fail(EST_UNIMPLEMENTED, "request %d is not one of this version", method); break;
    }
    if (status != EST_OK) {
        est_request_fail(request, status, est_error_message());
    } else if (method == EST_METHOD_TURN && !waits) {
        answer_step(s, request);
    } else if (!waits) {
        est_request_answer(request, (est_payload){ 0 });
    }
    est_server_wake(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void answer_how_things_are(est_server *s, est_request *request)
{
    est_packing out    = { 0 };
    char       *text   = NULL;
    est_status  status = est_server_status(s, &text);
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, est_request_link(request));
    if (client != NULL) client->looks++;
    pthread_mutex_unlock(&s->lock);
    if (status == EST_OK) {
        est_wire_put_string(&out.head, EST_FIELD_BYTES, text);
        answer_packed(request, &out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    est_free(text);
    est_packing_clear(&out);
}

/* Whoever may look at how things are; the rest is for the process that has its task's place. */
static bool is_welcome(est_server *s, est_request *request)
{
    char              why[EST_NET_NAME_MAX + EST_NET_PLACE_MAX + 64];
    const est_client *client;
    bool              known, kept;

    if (est_request_method(request) == EST_METHOD_STATUS) return true;
    pthread_mutex_lock(&s->lock);
    known  = est_server_knows(s, est_request_link(request));
    client = est_server_client(s, est_request_link(request));
    kept   = client != NULL && est_client_is_kept(s, client);
    snprintf(why, sizeof why, "another process has taken the place of %s: %s",
             est_link_peer(est_request_link(request))->task, client != NULL ? client->who.place : "");
    pthread_mutex_unlock(&s->lock);
    if (known) return true;
    if (kept) { /* its link is being closed for the same reason, and it may try again */
        est_request_fail(request, EST_UNAVAILABLE, EST_PLACE_KEPT);
    } else {
        est_request_fail(request, EST_FAILED_PRECONDITION, why);
    }
    return false;
}

void est_service_serve(void *user, est_request *request)
{
    est_server *s      = user;
    int         method = est_request_method(request);

    if (est_server_serve_extension(s, request) || !is_welcome(s, request)) return;
    if (take_inline(s, request)) {
        run(s, request);
        pthread_mutex_unlock(&s->host_lock);
        return;
    }
    switch (method) {
    case EST_METHOD_ENTER:
    case EST_METHOD_RUN:
    case EST_METHOD_VARIABLES:
    case EST_METHOD_READ:
    case EST_METHOD_WRITE:
    case EST_METHOD_SAVE:
    case EST_METHOD_VERIFY:
    case EST_METHOD_FIND_NAN:
    case EST_METHOD_COMMIT:
    case EST_METHOD_COLLECTED:
    case EST_METHOD_RESTORE: enqueue(s, request); break;
    case EST_METHOD_STATUS: answer_how_things_are(s, request); break;
    default: coordinate(s, request, method); break;
    }
}
