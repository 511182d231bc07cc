/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls at a worker: the queue, the calling thread, and requests of a coordinator. */
#include "cluster/service_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/calling.h"
#include "cluster/remote_tasks.h"

#define LOOK_NS (EST_NS_PER_SEC / 10)

/* --- state -------------------------------------------------------------------------------------------------------- */

static void drop_state(est_calling *c)
{
    est_calling_drop_functions(c);
    est_calling_drop_datasets(c);
    est_remote_free(c->remote);
    est_pool_free(c->pool);
    est_link_free(c->link);
    c->remote = NULL;
    c->pool   = NULL;
    c->link   = NULL;
    c->lost   = false;
    pthread_mutex_lock(&c->lock);
    c->seen.coordinator[0] = '\0';
    c->seen.functions      = 0;
    pthread_mutex_unlock(&c->lock);
}

bool est_calling_is_over(est_calling *c)
{
    bool over;

    pthread_mutex_lock(&c->lock);
    over = c->stopping || c->done || est_stop_signal() != 0;
    pthread_mutex_unlock(&c->lock);
    return over || (c->link != NULL && est_link_is_lost(c->link));
}

static bool is_over(void *user)
{
    return est_calling_is_over(user);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static est_status set_up(est_calling *c, est_request *request)
{
    est_link  *link = est_request_link(request);
    est_setup  setup;
    est_status status;

    EST_TRY(est_setup_read(est_request_message(request), &setup));
    if (setup.origin < c->origin) {
        return est_fail(EST_ABORTED, "a newer coordinator has replaced this one: %016" PRIx64 " is before %016" PRIx64,
                        setup.origin, c->origin);
    }
    drop_state(c);
    c->origin = setup.origin;
    c->setup  = setup;
    if (c->setup.seed == 0) c->setup.seed = 1;
    EST_TRY(est_calling_check_names(c, est_request_message(request), &c->out));
    status = est_pool_create(c->server->threads, &c->pool);
    if (status == EST_OK) status = est_remote_create_for_calls(c->server, setup.connect_secs, &c->remote);
    if (status != EST_OK) {
        drop_state(c);
        return status;
    }
    est_remote_set_over(c->remote, is_over, c);
    c->link = est_link_ref(link);
    pthread_mutex_lock(&c->lock);
    snprintf(c->seen.coordinator, sizeof c->seen.coordinator, "%s", est_link_peer(link)->task);
    c->seen.origin = c->origin;
    pthread_mutex_unlock(&c->lock);
    est_log_info("%s executes calls of %s", c->server->task, est_link_peer(link)->task);
    return EST_OK;
}

static est_status release(est_calling *c, const est_message *message)
{
    est_wire_reader r;
    est_wire_field  field;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        uint64_t number = field.type == EST_WIRE_VARINT ? field.value : UINT64_MAX;

        if (field.number == EST_FIELD_FUNCTION) est_calling_release_function(c, number);
        if (field.number == EST_FIELD_ITERATOR) est_calling_release_iterator(c, number);
        if (field.number == EST_FIELD_DATASET) est_calling_release_dataset(c, number);
    }
    return est_wire_finish(&r);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Sets a feed to a value, which it takes. */
static est_status set_feed(est_called_function *f, const est_call_argument *argument, est_tensor *value)
{
    if (argument->feed < f->cut.io.n_feeds && f->feeds[argument->feed] == NULL) {
        f->feeds[argument->feed] = value;
        return EST_OK;
    }
    est_tensor_free(value);
    if (argument->feed < f->cut.io.n_feeds) {
        return est_fail(EST_INVALID_ARGUMENT, "feed %d ('%s') has two values", argument->feed,
                        est_node_name(f->cut.io.feeds[argument->feed]));
    }
    return est_fail(EST_INVALID_ARGUMENT, "the function has %d feeds, and the call has a value for feed %d",
                    f->cut.io.n_feeds, argument->feed);
}

/* The tensor in the message, without a copy but for strings. */
static est_status take_tensor(const est_calling *c, int i, est_tensor **out)
{
    const est_view *view;

    if (i >= c->inputs.n) return est_fail(EST_INVALID_ARGUMENT, "the call has more arguments than tensors");
    view = &c->inputs.views[i];
    if (view->dtype == EST_STRING) return est_tensor_create_from(view->dtype, view->shape, view->data, out);
    return est_tensor_wrap(view->dtype, view->shape, view->data, NULL, NULL, out);
}

static void drop_feeds(est_called_function *f)
{
    for (int i = 0; i < f->cut.io.n_feeds; i++) {
        est_tensor_free(f->feeds[i]);
        f->feeds[i] = NULL;
    }
}

static est_status check_feeds(const est_called_function *f)
{
    for (int i = 0; i < f->cut.io.n_feeds; i++) {
        if (f->feeds[i] != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "the call has no value for feed %d ('%s')", i,
                        est_node_name(f->cut.io.feeds[i]));
    }
    return EST_OK;
}

static est_status set_feeds(const est_calling *c, est_called_function *f)
{
    int used = 0;

    for (int i = 0; i < c->arguments.n; i++) {
        const est_call_argument *argument = &c->arguments.data[i];
        est_tensor              *value;

        if (argument->from_iterator) {
            EST_TRY(est_calling_element(c, argument->iterator, argument->component, &value));
            value = est_tensor_ref(value);
        } else {
            EST_TRY(take_tensor(c, used++, &value));
        }
        EST_TRY(set_feed(f, argument, value));
    }
    if (used != c->inputs.n)
        return est_fail(EST_INVALID_ARGUMENT, "the call has %d tensors and uses %d", c->inputs.n, used);
    return check_feeds(f);
}

static void pack_fetches(est_step *step, int n, est_packing *out)
{
    for (int i = 0; i < n; i++) est_pack_view(out, est_plan_fetch(est_step_plan(step), i));
}

static est_status run_step(est_calling *c, est_called_function *f, const est_call_request *call)
{
    bool       numbered = !c->setup.at_least_once;
    est_status status;

    est_session_set_run_count(f->session, call->call);
    est_remote_set_call(c->remote, c->origin, numbered ? call->call : 0, call->first);
    status = est_step_run(f->step, (const est_tensor *const *)f->feeds);
    est_remote_set_call(c->remote, 0, 0, 0);
    return status;
}

static est_status run_call(est_calling *c, est_called_function *f, const est_call_request *call,
                           const est_message *message)
{
    est_status status;

    EST_TRY(est_call_arguments_read(message, &c->arguments));
    EST_TRY(est_unpack_tensors(message, &c->inputs));
    EST_TRY(est_called_function_prepare(c, f));
    EST_TRY(est_calling_take_elements(c));
    status = set_feeds(c, f);
    if (status == EST_OK) status = run_step(c, f, call);
    if (status == EST_OK) pack_fetches(f->step, f->cut.io.n_fetches, &c->out);
    drop_feeds(f);
    return status;
}

typedef struct updating {
    est_calling         *calling;
    est_called_function *function;
} updating;

static est_status update(void *user, const est_dataset *dataset, const est_field *element)
{
    const updating      *u      = user;
    est_called_function *f      = u->function;
    est_status           status = EST_OK;

    for (int i = 0; i < u->calling->arguments.n && status == EST_OK; i++) {
        const est_call_argument *argument = &u->calling->arguments.data[i];
        est_tensor              *value;

        status = est_find_component(dataset, element, argument->component, &value);
        if (status == EST_OK) status = set_feed(f, argument, est_tensor_ref(value));
    }
    if (status == EST_OK) status = check_feeds(f);
    if (status == EST_OK) status = est_step_run(f->step, (const est_tensor *const *)f->feeds);
    drop_feeds(f);
    return status;
}

static est_status run_shard(est_calling *c, est_called_function *f, const est_call_request *call,
                            const est_message *message)
{
    updating u = { c, f };

    EST_TRY(est_called_function_prepare(c, f));
    EST_TRY(est_call_arguments_read(message, &c->arguments));
    for (int i = 0; i < c->arguments.n; i++) {
        if (c->arguments.data[i].component.data != NULL && !c->arguments.data[i].from_iterator) continue;
        return est_fail(EST_INVALID_ARGUMENT, "an argument of SHARD must be a component of its dataset");
    }
    est_session_set_run_count(f->session, call->call);
    EST_TRY(est_step_run(f->reset, NULL));
    EST_TRY(est_calling_each(c, call, update, &u));
    EST_TRY(est_step_run(f->states, NULL));
    pack_fetches(f->states, f->cut.io.n_fetches, &c->out);
    return EST_OK;
}

static void note_begin(est_calling *c, const est_called_function *f, uint64_t call)
{
    pthread_mutex_lock(&c->lock);
    c->seen.call     = call;
    c->seen.since_ns = est_now_ns();
    snprintf(c->seen.function, sizeof c->seen.function, "%s", f->name);
    pthread_mutex_unlock(&c->lock);
}

static void note_end(est_calling *c, est_status status)
{
    pthread_mutex_lock(&c->lock);
    c->seen.call = 0;
    c->seen.completed += status == EST_OK;
    c->seen.failed += status != EST_OK;
    pthread_mutex_unlock(&c->lock);
}

/* How the coordinator gets the error of a call. If this worker is being stopped, or a ps task was lost, another attempt
 * may succeed. */
static est_status answer_failure(est_calling *c, est_status status)
{
    if (est_calling_is_over(c)) return est_fail_context(EST_CANCELLED, "%s is being stopped", c->server->task);
    if (status == EST_UNAVAILABLE || status == EST_ABORTED) {
        c->lost = true;
        est_calling_keep_elements(c);
        return status;
    }
    if (!c->used) return status == EST_CANCELLED ? EST_INTERNAL : status;
    est_packing_reset(&c->out);
    est_call_failure_put(status, est_error_message(), &c->out);
    est_error_clear();
    return EST_OK;
}

static est_status execute_call(est_calling *c, const est_message *message, bool is_shard)
{
    est_call_request     call;
    est_called_function *f;
    est_status           status;

    EST_TRY(est_call_request_read(message, is_shard, &call));
    f = est_calling_function(c, call.function);
    if (f == NULL) return est_fail(EST_NOT_FOUND, "there is no function %" PRIu64, call.function);
    if (f->for_shards != is_shard) {
        return est_fail(EST_INVALID_ARGUMENT, "function '%s' is %sfor the evaluation of shards", f->name,
                        is_shard ? "not " : "");
    }
    c->serial++;
    c->used = false;
    note_begin(c, f, call.call);
    status = is_shard ? run_shard(c, f, &call, message) : run_call(c, f, &call, message);
    note_end(c, status);
    if (status == EST_OK) return EST_OK;
    status = est_fail_context(status, "%s, call %" PRIu64 " of '%s'", c->server->task, call.call, f->name);
    return answer_failure(c, status);
}

/* --- the calling thread ------------------------------------------------------------------------------------------- */

static est_status check_link(const est_calling *c, est_request *request)
{
    if (c->link == est_request_link(request)) return EST_OK;
    if (c->link == NULL)
        return est_fail(EST_FAILED_PRECONDITION, "%s needs a SETUP first, over the same link", c->server->task);
    return est_fail(EST_ABORTED, "%s executes calls of %s, which came later over another link", c->server->task,
                    est_link_peer(c->link)->task);
}

static est_status execute(est_calling *c, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_status         status;

    if (est_request_method(request) == EST_METHOD_SETUP) return set_up(c, request);
    EST_TRY(check_link(c, request));
    switch (est_request_method(request)) {
    case EST_METHOD_CALL: return execute_call(c, message, false);
    case EST_METHOD_SHARD: return execute_call(c, message, true);
    case EST_METHOD_DATASET: return est_calling_add_dataset(c, message, &c->out);
    case EST_METHOD_ITERATOR: return est_calling_add_iterator(c, message);
    case EST_METHOD_RELEASE: status = release(c, message); break;
    default: status = est_calling_add_function(c, message); break;
    }
    pthread_mutex_lock(&c->lock);
    c->seen.functions = c->n_functions;
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Waits while the coordinator does not read its answers. */
static void await_room(est_calling *c, const est_link *link)
{
    pthread_mutex_lock(&c->lock);
    while (est_link_is_full(link) && !est_link_is_lost(link) && !c->stopping)
        est_cond_wait_ns(&c->changed, &c->lock, LOOK_NS);
    pthread_mutex_unlock(&c->lock);
}

static void serve_one(est_calling *c, est_request *request)
{
    est_status status;

    if (est_link_is_lost(est_request_link(request))) {
        est_request_fail(request, EST_UNAVAILABLE, "the link is lost");
        return;
    }
    if (est_link_is_full(est_request_link(request))) await_room(c, est_request_link(request));
    est_packing_reset(&c->out);
    status = execute(c, request);
    if (status == EST_OK) {
        est_service_answer(request, &c->out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
}

/* Takes all requests that are queued; 0: none. Under `lock`. */
static int take_queue(est_calling *c)
{
    est_request **queue = c->queue;
    int           n = c->n_queued, max = c->max_queued;

    c->queue      = c->taken;
    c->max_queued = c->max_taken;
    c->n_queued   = 0;
    c->taken      = queue;
    c->max_taken  = max;
    return n;
}

static void serve_all(est_calling *c, int n)
{
    for (int i = 0; i < n; i++) {
        bool stopping;

        pthread_mutex_lock(&c->lock);
        stopping = c->stopping;
        pthread_mutex_unlock(&c->lock);
        if (stopping) {
            est_request_fail(c->taken[i], EST_CANCELLED, "the server is shutting down");
        } else {
            serve_one(c, c->taken[i]);
        }
    }
}

static void *run_calls(void *arg)
{
    est_calling *c = arg;
    int          n;

    pthread_mutex_lock(&c->lock);
    while (!c->stopping || c->n_queued > 0) {
        bool over = c->link != NULL && (c->done || est_link_is_lost(c->link));

        n = take_queue(c);
        if (n == 0 && !over) {
            c->idle = true;
            pthread_cond_wait(&c->changed, &c->lock);
            c->idle = false;
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        if (n > 0) {
            serve_all(c, n);
        } else {
            drop_state(c);
        }
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    drop_state(c);
    return NULL;
}

/* --- the server's side -------------------------------------------------------------------------------------------- */

static void free_calling(est_calling *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    est_free(c->queue);
    est_free(c->taken);
    est_free(c->functions);
    est_free(c->datasets);
    est_free(c->iterators);
    est_unpacked_clear(&c->inputs);
    est_call_arguments_clear(&c->arguments);
    est_packing_clear(&c->out);
    est_free(c);
}

static est_status make_calling(est_server *s, est_calling **out)
{
    est_calling *c = est_zalloc(sizeof *c);
    est_status   status;

    if (c == NULL) return est_no_memory();
    c->server = s;
    status    = est_lock_init(&c->lock);
    if (status != EST_OK) {
        est_free(c);
        return status;
    }
    status = est_cond_init(&c->changed);
    if (status != EST_OK) {
        pthread_mutex_destroy(&c->lock);
        est_free(c);
        return status;
    }
    status = est_thread_start(&c->thread, "est-calls", run_calls, c);
    if (status != EST_OK) {
        free_calling(c);
        return status;
    }
    *out = c;
    return EST_OK;
}

/* A worker that trains by itself does not let others run functions and datasets in its process. One that is about to
 * join may be asked again: EST_UNAVAILABLE has the coordinator try SETUP until the worker joins. Other requests meet a
 * worker that has left its join: EST_CANCELLED has the coordinator leave it. Under the server's lock. */
static est_status check_joined(const est_server *s, int method)
{
    if (s->stopping) return est_fail(EST_CANCELLED, "the server is shutting down");
    if (s->joined) return EST_OK;
    return est_fail(method == EST_METHOD_SETUP ? EST_UNAVAILABLE : EST_CANCELLED,
                    "%s is not in est_server_join, and executes calls only there", s->task);
}

static est_status start_calling(est_server *s, int method)
{
    est_status status;

    if (strncmp(s->task, "worker:", 7) != 0) {
        return est_fail(EST_FAILED_PRECONDITION, "%s executes no calls: only tasks of the job \"worker\" do", s->task);
    }
    pthread_mutex_lock(&s->lock);
    status = check_joined(s, method);
    if (status == EST_OK && s->calling == NULL) {
        status = method == EST_METHOD_SETUP ? make_calling(s, &s->calling)
                                            : est_fail(EST_FAILED_PRECONDITION, "%s needs a SETUP first", s->task);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static est_status queue_request(est_calling *c, est_request *request)
{
    if (c->stopping) return est_fail(EST_CANCELLED, "the server is shutting down");
    if (c->n_queued == c->max_queued) {
        int           max  = c->max_queued == 0 ? 64 : 2 * c->max_queued;
        est_request **more = est_realloc(c->queue, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        c->queue      = more;
        c->max_queued = max;
    }
    c->queue[c->n_queued++] = request;
    if (est_request_method(request) == EST_METHOD_SETUP) c->done = false; /* the next job */
    if (c->idle) pthread_cond_signal(&c->changed);
    return EST_OK;
}

void est_calls_serve(est_server *s, est_request *request)
{
    est_status status = start_calling(s, est_request_method(request));

    if (status == EST_OK) {
        pthread_mutex_lock(&s->calling->lock);
        status = queue_request(s->calling, request);
        pthread_mutex_unlock(&s->calling->lock);
    }
    if (status != EST_OK) est_request_fail(request, status, est_error_message());
}

void est_calls_wake(est_server *s, bool done)
{
    if (s->calling == NULL) return;
    pthread_mutex_lock(&s->calling->lock);
    s->calling->done = s->calling->done || done;
    pthread_cond_signal(&s->calling->changed);
    pthread_mutex_unlock(&s->calling->lock);
}

/* A call may wait for a ps task. */
void est_calls_stop(est_server *s)
{
    est_calling *c;

    pthread_mutex_lock(&s->lock);
    c = s->calling;
    pthread_mutex_unlock(&s->lock);
    if (c == NULL) return;
    pthread_mutex_lock(&c->lock);
    c->stopping = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    est_net_cancel(s->net, "the server is shutting down");
    est_thread_join(&c->thread);
}

void est_calls_free(est_server *s)
{
    if (s->calling != NULL) free_calling(s->calling);
    s->calling = NULL;
}

bool est_calls_look(const est_server *s, est_calls_seen *out)
{
    if (s->calling == NULL) return false;
    pthread_mutex_lock(&s->calling->lock);
    *out        = s->calling->seen;
    out->queued = s->calling->n_queued;
    pthread_mutex_unlock(&s->calling->lock);
    return true;
}
