/* SPDX-License-Identifier: Apache-2.0
 *
 * What a server does for others, request by request.
 *
 * VARIABLES  -                                       -> READY; NAME, INITIALIZED, SIZE for each
 * READ       NAME                                    -> a tensor
 * WRITE      NAME, a tensor                          -> -
 * TURN       LIMIT, STALENESS, TOGETHER              -> STEP, FINISHED; waits (cluster/gate.h) unless TOGETHER, then ERA, too
 * FINISH_STEP STEP, ERA, TOGETHER                    -> STEP, ERA, COMMIT, FINISHED; waits (cluster/sync_replicas.h)
 * COMMIT     STEP, ERA, FAILURE, BYTES (why, if so)  -> -; with FAILURE the step is dropped
 * AWAIT_READY BYTES (its terms)                      -> -; waits
 * AWAIT_ALONE FINISHED (nobody is to begin a step)   -> -; waits until no other task is here or has a turn
 * DECLARE_READY BYTES (its terms), ERA               -> BYTES (whom it put out), ERA (of the clock, from there)
 * DONE       -                                       -> -
 * LEAVE      -                                       -> -; what the task waits for is answered with EST_ABORTED
 * HOLD       HELD                                    -> COMMIT, STEP, ERA (of a step to be finished first); waits until none is under
 *                                                       way; variables stay as they are then, but for that one
 * STATUS     -                                       -> BYTES (JSON)
 * COMPARE    -                                       -> BYTES (the cluster, as JSON)
 * and those of cluster/service_segments.h and cluster/service_files.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/server.h"
#include "cluster/service_files.h"
#include "cluster/service_segments.h"
#include "cluster/status.h"
#include "cluster/sync_replicas.h"
#include "kernels/lazy_rows.h"

#define INLINE_BYTES (1 << 20) /* larger messages are not for the network thread, nor are runs that take long */

/* --- answers -------------------------------------------------------------------------------------------------------------- */

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

/* --- variables ----------------------------------------------------------------------------------------------------------------- */

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
    est_service_look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* --- synchronous steps (cluster/sync_replicas.h) ------------------------------------------------------------------------------------------ */

/* S3: the committer says that the step cannot be made. */
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

static est_status commit(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_step_id        step    = { est_head_u64(message, EST_FIELD_TIMELINE, 0),
                                   (int64_t)est_head_u64(message, EST_FIELD_STEP, 0) };
    uint64_t           failure = est_head_u64(message, EST_FIELD_FAILURE, EST_OK);
    const est_client  *client;
    bool               held;

    pthread_mutex_lock(&s->lock);
    client = est_server_client(s, est_request_link(request));
    held   = est_server_is_held(s) && (client == NULL || client->holder == NULL);
    pthread_mutex_unlock(&s->lock);
    if (held) return est_fail(EST_ABORTED, "a checkpoint is made, and it is late: another will be asked to commit");
    if (failure != EST_OK) {
        drop_step(s, request, step, failure);
    } else {
        EST_TRY(est_sync_replicas_commit(s, step));
    }
    pthread_mutex_lock(&s->lock);
    if (strcmp(s->committer, est_link_peer(est_request_link(request))->task) == 0) s->committer[0] = '\0';
    s->committing = (est_step_id){ 0 }; /* all others were asked before the clock */
    est_service_look_at_step(s, NULL);
    pthread_mutex_unlock(&s->lock);
    return EST_OK;
}

/* --- one request ------------------------------------------------------------------------------------------------------------------ */

static void run_packed(est_server *s, est_request *request, int method)
{
    est_packing out    = { 0 };
    est_status  status = EST_OK;

    if (method == EST_METHOD_ENTER) status = est_service_enter(s, request, &out);
    if (method == EST_METHOD_VARIABLES) list_variables(s, &out);
    if (method == EST_METHOD_READ) status = read_variable(s, request, &out);
    if (method == EST_METHOD_WRITE) status = write_variable(s, request);
    if (method == EST_METHOD_COMMIT) status = commit(s, request);
    if (status == EST_OK) {
        est_service_answer(request, &out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    est_packing_clear(&out);
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
    default: run_packed(s, request, method); break;
    }
    pthread_mutex_unlock(&s->host_lock);
}

/* --- in the network thread ---------------------------------------------------------------------------------------------------------- */

/* Whether a run is so short that it is over before anybody else could have been woken for it. Takes host_lock when it is. */
static bool take_inline(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    uint64_t           segment = est_head_u64(message, EST_FIELD_SEGMENT, UINT64_MAX);
    size_t             bytes   = 0, size;
    bool               idle;

    if (est_request_method(request) != EST_METHOD_RUN) return false;
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

    if (client == NULL) return est_no_memory();
    est_server_end_holds(s, client);                             /* whoever begins a step has saved, or failed to */
    if (est_head_u64(message, EST_FIELD_SYNC_REPLICAS, 0) > 0) { /* nobody has to wait to begin, but to finish */
        *waits = false;
        est_sync_replicas_join(s, client);
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

    if (client == NULL) return est_no_memory();
    *waits = est_head_u64(est_request_message(request), EST_FIELD_HELD, 0) != 0;
    if (*waits) {
        EST_TRY(est_server_park(s, request, EST_METHOD_HOLD));
        if (client->holder != est_request_link(request))
            est_server_end_holds(s, client);       /* of a link that it gave up */
        est_gate_leave(s->gate, client->who.task); /* whoever saves makes no step: a turn is left of one that failed */
        if (client->holder == NULL) est_gate_hold(s->gate); /* one that asks again holds once */
        client->holder = est_request_link(request);
    } else {
        est_server_end_holds(s, client);
    }
    return EST_OK;
}

/* Where the job is. */
static void answer_step(est_server *s, est_request *request)
{
    uint64_t    limit = est_head_u64(est_request_message(request), EST_FIELD_LIMIT, 0);
    est_packing out   = { 0 };

    est_wire_put_i64(&out.head, EST_FIELD_STEP, s->step);
    est_wire_put_u64(&out.head, EST_FIELD_TIMELINE, s->timeline);
    est_wire_put_bool(&out.head, EST_FIELD_FINISHED,
                      s->done || s->enough_made || (limit > 0 && s->step >= (int64_t)limit));
    est_service_answer(request, &out);
    est_packing_clear(&out);
}

/* The answer says whom the chief has put out, once. */
static est_status declare_ready(est_server *s, est_request *request)
{
    est_str     terms  = est_head_bytes(est_request_message(request), EST_FIELD_BYTES);
    est_client *client = est_server_client(s, est_request_link(request));
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
    est_service_answer(request, &out);
    est_packing_clear(&out);
    return EST_OK;
}

/* Whoever asks compares: names may have to be looked up, and nobody is to wait for that here. */
static void tell_cluster(const est_server *s, est_request *request)
{
    est_strbuf  text = { 0 };
    est_packing out  = { 0 };
    est_status  status;

    est_cluster_text(s->cluster, &text);
    status = est_strbuf_status(&text);
    if (status == EST_OK) {
        est_wire_put_string(&out.head, EST_FIELD_BYTES, est_strbuf_text(&text));
        est_service_answer(request, &out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    est_strbuf_clear(&text);
    est_packing_clear(&out);
}

/* Who waits for the others to end makes no more steps: neither with them, nor the one that it could have begun. */
static void stop_taking_part(est_server *s, est_request *request)
{
    est_client *client = est_server_client(s, est_request_link(request));

    est_gate_leave(s->gate, est_link_peer(est_request_link(request))->task);
    if (client != NULL) client->sync_replicas = false;
    if (est_head_u64(est_request_message(request), EST_FIELD_FINISHED, 0) == 0) return;
    s->enough_made = true;
    est_gate_finish(s->gate, true);
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
        status = est_sync_replicas_finish_step(s, request);
        break;
    case EST_METHOD_AWAIT_ALONE: stop_taking_part(s, request); /* fall through */
    case EST_METHOD_AWAIT_READY:
        status = est_server_park(s, request, (est_method)method);
        waits  = true;
        break;
    case EST_METHOD_DECLARE_READY:
        waits  = true; /* it is answered there */
        status = declare_ready(s, request);
        break;
    case EST_METHOD_COMPARE:
        waits = true; /* it is answered there */
        tell_cluster(s, request);
        break;
    case EST_METHOD_HOLD: status = hold(s, request, &waits); break;
    case EST_METHOD_LEAVE: est_server_leave(s, est_request_link(request)); break;
    case EST_METHOD_DONE:
        s->done = true;
        est_gate_finish(s->gate, true);
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
        est_service_answer(request, &out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
    est_free(text);
    est_packing_clear(&out);
}

/* Whether it is of a step of a task that agreed with a chief of another program: it has to compare again. */
static bool is_outdated(const est_server *s, const est_client *client, int method)
{
    if (client == NULL || client->agreed == 0 || client->agreed == s->n_terms) return false;
    return method == EST_METHOD_RUN || method == EST_METHOD_TURN || method == EST_METHOD_FINISH_STEP;
}

/* Whoever may look at how things are; the rest is for the process that has its task's place. */
static bool is_welcome(est_server *s, est_request *request)
{
    char              why[EST_NET_NAME_MAX + EST_NET_PLACE_MAX + 64];
    const est_client *client;
    bool              known, kept, outdated;

    if (est_request_method(request) == EST_METHOD_STATUS) return true;
    pthread_mutex_lock(&s->lock);
    known    = est_server_knows(s, est_request_link(request));
    client   = est_server_client(s, est_request_link(request));
    kept     = client != NULL && est_client_is_kept(s, client);
    outdated = is_outdated(s, client, est_request_method(request));
    snprintf(why, sizeof why, "another process has taken the place of %s: %s",
             est_link_peer(est_request_link(request))->task, client != NULL ? client->who.place : "");
    pthread_mutex_unlock(&s->lock);
    if (known && !outdated) return true;
    if (known) {
        est_request_fail(request, EST_ABORTED, "the chief was started anew with another program");
    } else if (kept) { /* its link is being closed for the same reason, and it may try again */
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
        est_service_run_segment(s, request);
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
    case EST_METHOD_RESTORE: enqueue(s, request); break;
    case EST_METHOD_STATUS: answer_how_things_are(s, request); break;
    default: coordinate(s, request, method); break;
    }
}
