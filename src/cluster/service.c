/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests that a server answers. "Parked" ones are answered when their condition holds.
 *
 * VARIABLES      -                                       -> READY; NAME, INITIALIZED, SIZE of each READ           NAME
 * -> a tensor WRITE          NAME, a tensor                          -> - TURN           LIMIT, STALENESS,
 * SYNC_REPLICAS         -> STEP, FINISHED; parked (cluster/gate.h). With SYNC_REPLICAS it is
 *                                                           answered at once, with TIMELINE
 * FINISH_STEP    STEP, TIMELINE, SYNC_REPLICAS           -> STEP, TIMELINE, COMMIT, FINISHED; parked
 * (cluster/sync_replicas.h) COMMIT         STEP, TIMELINE, FAILURE, BYTES (why)    -> -; with FAILURE the step is
 * dropped AWAIT_READY    BYTES (terms)                           -> -; parked AWAIT_ALONE    FINISHED (no further step
 * may begin)    -> -; parked until no other task trains DECLARE_READY  BYTES (terms), TIMELINE                 -> BYTES
 * (the process that it replaced), TIMELINE (from the clock) DONE           -                                       -> -
 * LEAVE          -                                       -> -; parked requests of the task fail with EST_ABORTED HOLD
 * HELD                                    -> COMMIT, STEP, TIMELINE (of a step to be committed first); parked until
 *                                                           no step is under way; variables do not change then
 * STATUS         -                                       -> BYTES (JSON)
 * COMPARE        -                                       -> BYTES (the cluster, as JSON)
 * ORIGIN         ORIGIN (of a coordinator)               -> - (cluster/call_records.h)
 * and those of cluster/service_segments.h, cluster/service_files.h, cluster/calls.h, cluster/rendezvous.h and
 * cluster/master.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/call_records.h"
#include "cluster/calls.h"
#include "cluster/service_calls.h"
#include "cluster/service_files.h"
#include "cluster/service_segments.h"
#include "cluster/sync_replicas.h"
#include "cluster/task_status.h"
#include "kernels/lazy_rows.h"

#define INLINE_BYTES (1 << 20) /* the network thread runs segments with smaller inputs than this */

/* --- answers ------------------------------------------------------------------------------------------------------ */

void est_service_answer(est_request *request, const est_packing *packing)
{
    est_payload payload;
    est_status  status = est_packing_payload(packing, &payload);

    if (status == EST_OK) {
        est_request_answer(request, payload);
    } else {
        est_request_fail(request, status, est_error_message());
    }
}

void est_service_finish(est_request *request, est_status status, est_packing *packing)
{
    est_packing nothing = { 0 };

    if (status == EST_OK) {
        est_service_answer(request, packing != NULL ? packing : &nothing);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    if (packing != NULL) est_packing_clear(packing);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static void list_variables(est_server *s, est_packing *out)
{
    est_store *store = est_host_store(s->host);

    pthread_mutex_lock(&s->lock);
    est_wire_put_bool(&out->head, EST_FIELD_READY, s->ready);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < est_store_size(store); i++) {
        est_wire_put_string(&out->head, EST_FIELD_NAME, est_store_at(store, i)->name);
        est_wire_put_bool(&out->head, EST_FIELD_INITIALIZED, est_store_at(store, i)->initialized);
        est_wire_put_u64(&out->head, EST_FIELD_SIZE,
                         (uint64_t)est_store_at(store, i)->value.count *
                             est_dtype_size(est_store_at(store, i)->value.dtype));
    }
}

static est_status variable_name(est_request *request, char name[512])
{
    est_str given = est_head_bytes(est_request_message(request), EST_FIELD_NAME);

    if (given.data == NULL || given.size >= 512) return est_fail(EST_INVALID_ARGUMENT, "the request names no variable");
    memcpy(name, given.data, given.size);
    name[given.size] = '\0';
    return EST_OK;
}

static est_status read_variable(est_server *s, est_request *request, est_packing *out)
{
    char     name[512];
    est_var *var;
    est_view stored;

    EST_TRY(variable_name(request, name));
    var = est_store_find(est_host_store(s->host), name);
    if (var == NULL || !var->initialized) {
        return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value yet", name);
    }
    est_lazy_draw_all(var, NULL); /* the network reads the elements from here */
    stored = est_var_stored(var);
    est_pack_view(out, &stored);
    return EST_OK;
}

/* WRITE without a value: a dynamic embedding loses all its keys. */
static est_status clear_rows(est_server *s, const char *name)
{
    const est_var *var = est_store_find(est_host_store(s->host), name);

    if (var == NULL || var->rows == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is written without a value, and is no dynamic embedding",
                        name);
    }
    est_store_clear_rows(est_host_store(s->host), var);
    return EST_OK;
}

static est_status write_variable(est_server *s, est_request *request)
{
    char            name[512];
    est_var        *var;
    const est_view *value;

    EST_TRY(variable_name(request, name));
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    if (s->inputs.n == 0) return clear_rows(s, name);
    if (s->inputs.n != 1)
        return est_fail(EST_INVALID_ARGUMENT, "variable '%s' is written with %d tensors; expected 1", name,
                        s->inputs.n);
    value = &s->inputs.views[0];
    EST_TRY(est_store_get(est_host_store(s->host), name, value->dtype, value->shape, &var));
    if (var->rows != NULL)
        return est_fail(EST_UNIMPLEMENTED,
                        "variable '%s' belongs to a dynamic embedding and cannot be written as a whole", name);
    EST_TRY(est_var_write(var, value->data));
    pthread_mutex_lock(&s->lock);
    est_service_look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* --- synchronous steps (cluster/sync_replicas.h) ------------------------------------------------------------------ */

/* SY3: the committer found that the step cannot be made. */
static void drop_step(est_server *s, est_request *request, est_step_id step, uint64_t failure)
{
    est_str why = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    char    text[512];

    snprintf(text, sizeof text, "%.*s", (int)(why.size < sizeof text ? why.size : sizeof text - 1),
             why.data != NULL ? why.data : "");
    est_sync_replicas_drop(s, step);
    pthread_mutex_lock(&s->lock);
    est_sync_replicas_fail_step(s, step, failure <= EST_UNAUTHENTICATED ? (est_status)failure : EST_UNKNOWN, text);
    pthread_mutex_unlock(&s->lock);
}

static est_status commit_step(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_step_id        step    = { est_head_u64(message, EST_FIELD_TIMELINE, 0),
                                   (int64_t)est_head_u64(message, EST_FIELD_STEP, 0) };
    uint64_t           failure = est_head_u64(message, EST_FIELD_FAILURE, EST_OK);
    const est_client  *client;
    bool               held;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    held   = est_server_is_held(s) && (client == NULL || client->holder == NULL);
    pthread_mutex_unlock(&s->lock);
    if (held) return est_fail(EST_ABORTED, "steps are held for a checkpoint: another worker will be asked to commit");
    if (failure != EST_OK) {
        drop_step(s, request, step, failure);
    } else {
        EST_TRY(est_sync_replicas_commit(s, step));
    }
    pthread_mutex_lock(&s->lock);
    if (strcmp(s->committer, est_link_peer(est_request_link(request))->task) == 0) s->committer[0] = '\0';
    s->committing = (est_step_id){ 0 }; /* the clock is asked last */
    est_service_look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static est_status set_origin(est_server *s, est_request *request, est_packing *out)
{
    uint64_t origin = est_head_u64(est_request_message(request), EST_FIELD_ORIGIN, 0);
    uint64_t first  = est_head_u64(est_request_message(request), EST_FIELD_CALL_FIRST, 0);

    if (origin != 0) EST_TRY(est_call_records_set_origin(&s->calls, origin, first));
    est_wire_put_u64(&out->head, EST_FIELD_ORIGIN, s->calls.origin);
    return EST_OK;
}

/* --- one request -------------------------------------------------------------------------------------------------- */

static void execute_packed(est_server *s, est_request *request, int method)
{
    est_packing out    = { 0 };
    est_status  status = EST_OK;

    if (method == EST_METHOD_ENTER) status = est_service_enter(s, request, &out);
    if (method == EST_METHOD_VARIABLES) list_variables(s, &out);
    if (method == EST_METHOD_READ) status = read_variable(s, request, &out);
    if (method == EST_METHOD_WRITE) status = write_variable(s, request);
    if (method == EST_METHOD_COMMIT) status = commit_step(s, request);
    if (method == EST_METHOD_LEAVE_SEGMENT) status = est_service_leave_segment(s, request);
    if (method == EST_METHOD_ORIGIN) status = set_origin(s, request, &out);
    est_service_finish(request, status, &out);
}

void est_service_execute(est_server *s, est_request *request)
{
    int method = est_request_method(request);

    pthread_mutex_lock(&s->host_lock);
    switch (method) {
    case EST_METHOD_RUN: est_service_run_segment(s, request); break;
    case EST_METHOD_SAVE: est_service_save(s, request); break;
    case EST_METHOD_VERIFY:
    case EST_METHOD_FIND_NAN: est_service_files(s, request); break;
    case EST_METHOD_RESTORE:
        est_service_files(s, request);
        pthread_mutex_lock(&s->lock);
        est_service_look_at_step(s, NULL);
        pthread_mutex_unlock(&s->lock);
        break;
    default: execute_packed(s, request, method); break;
    }
    pthread_mutex_unlock(&s->host_lock);
}

/* --- in the network thread ---------------------------------------------------------------------------------------- */

/* Whether a run is shorter than waking the executor for it would be. Takes host_lock when it is. */
static bool take_inline(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    uint64_t           segment = est_head_u64(message, EST_FIELD_SEGMENT, UINT64_MAX);
    size_t             bytes   = 0, size;
    bool               idle;

    for (int i = 0; i < est_message_parts(message); i++) {
        (void)est_message_part(message, i, &size);
        bytes += size;
    }
    pthread_mutex_lock(&s->lock);
    idle = s->first == NULL && !s->busy && !est_service_may_pause(s);
    pthread_mutex_unlock(&s->lock);
    if (!idle || bytes > INLINE_BYTES || pthread_mutex_trylock(&s->host_lock) != 0) return false;
    if (est_service_is_short(s, segment)) return true;
    pthread_mutex_unlock(&s->host_lock);
    return false;
}

void est_service_enqueue(est_server *s, est_request *request)
{
    est_queued *job = est_alloc(sizeof *job);

    if (job == NULL) {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory to queue a request");
        return;
    }
    *job = (est_queued){ .request = request };
    pthread_mutex_lock(&s->lock);
    if (s->stopping) {
        est_request_fail(request, EST_UNAVAILABLE, "the server is shutting down");
        est_free(job);
    } else {
        *s->last = job;
        s->last  = &job->next;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
}

/* The step at which the job is. */
static void answer_step(est_server *s, est_request *request)
{
    uint64_t    limit = est_head_u64(est_request_message(request), EST_FIELD_LIMIT, 0);
    est_packing out   = { 0 };

    est_wire_put_i64(&out.head, EST_FIELD_STEP, s->step);
    est_wire_put_u64(&out.head, EST_FIELD_TIMELINE, s->timeline);
    est_wire_put_bool(&out.head, EST_FIELD_FINISHED,
                      s->done || s->enough_made || (limit > 0 && s->step >= (int64_t)limit));
    est_service_finish(request, EST_OK, &out);
}

static est_status ask_turn(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_client        *client  = est_clients_get(s, est_request_link(request));

    if (client == NULL) return est_no_memory();
    est_client_end_hold(s, client);                              /* a task that begins a step has saved, or failed to */
    if (est_head_u64(message, EST_FIELD_SYNC_REPLICAS, 0) > 0) { /* synchronous steps wait at their end */
        est_sync_replicas_join(s, client);
        answer_step(s, request);
        return EST_OK;
    }
    client->gated     = true;
    client->limit     = (int64_t)est_head_u64(message, EST_FIELD_LIMIT, 0);
    client->staleness = (int64_t)est_head_u64(message, EST_FIELD_STALENESS, 0);
    return est_gate_ask(s->gate, client->who.task, client->limit, client->staleness, request);
}

static est_status hold_or_release(est_server *s, est_request *request)
{
    est_client *client = est_clients_get(s, est_request_link(request));

    if (client == NULL) return est_no_memory();
    if (est_head_u64(est_request_message(request), EST_FIELD_HELD, 0) == 0) {
        est_client_end_hold(s, client);
        est_service_finish(request, EST_OK, NULL);
        return EST_OK;
    }
    EST_TRY(est_server_park(s, request, EST_METHOD_HOLD));
    if (client->holder != est_request_link(request)) est_client_end_hold(s, client); /* over a link that it gave up */
    est_gate_leave(s->gate, client->who.task);          /* a turn is left over from a step that failed */
    if (client->holder == NULL) est_gate_hold(s->gate); /* a repeated request is no second hold */
    client->holder = est_request_link(request);
    return EST_OK;
}

/* The answer names the process that the chief replaced, once. */
static est_status declare_ready(est_server *s, est_request *request)
{
    est_str     terms  = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    est_client *client = est_clients_get(s, est_request_link(request));
    est_packing out    = { 0 };

    if (terms.data != NULL) EST_TRY(est_server_set_terms(s, terms));
    s->told_timeline = est_head_u64(est_request_message(request), EST_FIELD_TIMELINE, s->told_timeline);
    if (s->step >= 0) est_wire_put_u64(&out.head, EST_FIELD_TIMELINE, s->timeline);
    s->declarer    = est_link_peer(est_request_link(request))->incarnation;
    s->ready       = true;
    s->enough_made = false;
    est_gate_finish(s->gate, s->done);
    if (client != NULL && client->before[0] != '\0') {
        est_wire_put_string(&out.head, EST_FIELD_BYTES, client->before);
        client->before[0] = '\0';
    }
    est_service_finish(request, EST_OK, &out);
    return EST_OK;
}

/* The other task compares: it may have to look up names, which would block this thread. */
static void answer_cluster(const est_server *s, est_request *request)
{
    est_strbuf  text = { 0 };
    est_packing out  = { 0 };

    est_cluster_text(s->cluster, &text);
    est_wire_put_string(&out.head, EST_FIELD_BYTES, est_strbuf_text(&text));
    est_service_finish(request, est_strbuf_status(&text), &out);
    est_strbuf_clear(&text);
}

/* A task that waits for the others to end makes no further step, not even one that it has a turn for. */
static void stop_taking_part(est_server *s, est_request *request)
{
    est_client *client = est_clients_get(s, est_request_link(request));

    est_gate_leave(s->gate, est_link_peer(est_request_link(request))->task);
    if (client != NULL) client->sync_replicas = false;
    if (est_head_u64(est_request_message(request), EST_FIELD_FINISHED, 0) == 0) return;
    s->enough_made = true;
    est_gate_finish(s->gate, true);
}

/* Answers or parks a request that only changes flags, turns and holds. Under `lock`. */
static est_status coordinate(est_server *s, est_request *request, int method)
{
    switch (method) {
    case EST_METHOD_TURN: return ask_turn(s, request);
    case EST_METHOD_FINISH_STEP: return est_sync_replicas_finish_step(s, request);
    case EST_METHOD_AWAIT_ALONE: stop_taking_part(s, request); /* fall through */
    case EST_METHOD_AWAIT_READY: return est_server_park(s, request, (est_method)method);
    case EST_METHOD_DECLARE_READY: return declare_ready(s, request);
    case EST_METHOD_HOLD: return hold_or_release(s, request);
    case EST_METHOD_COMPARE: answer_cluster(s, request); return EST_OK;
    case EST_METHOD_LEAVE: est_clients_leave(s, est_request_link(request)); break;
    case EST_METHOD_DONE:
        s->done = true;
        est_gate_finish(s->gate, true);
        est_calls_wake(s, true);
        break;
    default: return est_fail(EST_UNIMPLEMENTED, "request %d is unknown to this version", method);
    }
    est_service_finish(request, EST_OK, NULL);
    return EST_OK;
}

static void serve_coordination(est_server *s, est_request *request, int method)
{
    est_status status;

    pthread_mutex_lock(&s->lock);
    status = s->stopping ? est_fail(EST_UNAVAILABLE, "the server is shutting down") : coordinate(s, request, method);
    if (status != EST_OK) est_request_fail(request, status, est_error_message());
    if (!s->stopping) est_server_wake(s);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void answer_status(est_server *s, est_request *request)
{
    est_packing out    = { 0 };
    char       *text   = NULL;
    est_status  status = est_server_status(s, &text);
    est_client *client;

    pthread_mutex_lock(&s->lock);
    client = est_clients_get(s, est_request_link(request));
    if (client != NULL) client->looks++;
    pthread_mutex_unlock(&s->lock);
    if (status == EST_OK) est_wire_put_string(&out.head, EST_FIELD_BYTES, text);
    est_service_finish(request, status, &out);
    est_free(text);
}

/* Whether the client agreed to the terms of an earlier chief: before the next step it has to compare again. */
static bool is_outdated(const est_server *s, const est_client *client, int method)
{
    if (client == NULL || client->agreed == 0 || client->agreed == s->n_terms) return false;
    return method == EST_METHOD_RUN || method == EST_METHOD_TURN || method == EST_METHOD_FINISH_STEP;
}

/* The first request of a coordinator to a ps task, and to a worker. */
static bool is_of_coordinator(int method)
{
    return method == EST_METHOD_ORIGIN || method == EST_METHOD_SETUP;
}

/* Whether a task that sent the request takes part by itself, and not only in steps that others drive. */
static bool asks_for_itself(int method)
{
    return method != EST_METHOD_SEND && method != EST_METHOD_FAIL_STEP;
}

/* Any process may ask for the status; all else is for the process that owns its task's name. */
static bool is_welcome(est_server *s, est_request *request)
{
    char        why[EST_NET_NAME_MAX + EST_NET_PLACE_MAX + 64];
    est_client *client;
    bool        known, reserved, outdated;

    if (est_request_method(request) == EST_METHOD_STATUS) return true;
    pthread_mutex_lock(&s->lock);
    known  = est_clients_knows(s, est_request_link(request));
    client = est_clients_get(s, est_request_link(request));
    if (client != NULL && est_request_method(request) == EST_METHOD_SEND) client->transfers = true;
    if (client != NULL && asks_for_itself(est_request_method(request))) client->asks = true;
    if (known && is_of_coordinator(est_request_method(request))) s->coordinated = true;
    reserved = client != NULL && est_client_is_reserved(s, client);
    outdated = is_outdated(s, client, est_request_method(request));
    snprintf(why, sizeof why, "a newer process has replaced %s: %s", est_link_peer(est_request_link(request))->task,
             client != NULL ? client->who.place : "");
    pthread_mutex_unlock(&s->lock);
    if (known && !outdated) return true;
    if (known) {
        est_request_fail(request, EST_ABORTED, "the chief was restarted with another program");
    } else if (reserved) { /* its link is being closed for the same reason, and it may try again */
        est_request_fail(request, EST_UNAVAILABLE, EST_NAME_RESERVED);
    } else {
        est_request_fail(request, EST_FAILED_PRECONDITION, why);
    }
    return false;
}

void est_service_resume(est_server *s, est_request *request)
{
    if (take_inline(s, request)) {
        est_service_run_segment(s, request);
        pthread_mutex_unlock(&s->host_lock);
    } else {
        est_service_enqueue(s, request);
    }
}

void est_service_serve(void *user, est_request *request)
{
    est_server *s      = user;
    int         method = est_request_method(request);

    if (est_clients_serve_extension(s, request) || !is_welcome(s, request)) return;
    if (method == EST_METHOD_RUN && !est_rendezvous_is_ready(s->rendezvous, request)) return;
    switch (method) {
    case EST_METHOD_RUN: est_service_resume(s, request); break;
    case EST_METHOD_ENTER:
    case EST_METHOD_VARIABLES:
    case EST_METHOD_READ:
    case EST_METHOD_WRITE:
    case EST_METHOD_SAVE:
    case EST_METHOD_VERIFY:
    case EST_METHOD_FIND_NAN:
    case EST_METHOD_COMMIT:
    case EST_METHOD_LEAVE_SEGMENT:
    case EST_METHOD_ORIGIN:
    case EST_METHOD_RESTORE: est_service_enqueue(s, request); break;
    case EST_METHOD_SETUP:
    case EST_METHOD_FUNCTION:
    case EST_METHOD_DATASET:
    case EST_METHOD_ITERATOR:
    case EST_METHOD_CALL:
    case EST_METHOD_SHARD:
    case EST_METHOD_RELEASE: est_calls_serve(s, request); break;
    case EST_METHOD_SEND:
    case EST_METHOD_FAIL_STEP:
    case EST_METHOD_ABORT_STEP: est_rendezvous_serve(s->rendezvous, request); break;
    case EST_METHOD_STATUS: answer_status(s, request); break;
    default:
        if (est_master_has(method)) {
            est_master_serve(s->master, request);
        } else {
            serve_coordination(s, request, method);
        }
        break;
    }
}
