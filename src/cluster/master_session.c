/* SPDX-License-Identifier: Apache-2.0
 *
 * A session at a master. Each step of the client is a plan over the remote of all tasks, made from the part of the
 * client's graph that the step needs. */
#include "cluster/master_session.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/placement.h"
#include "runtime/plan.h"
#include "tensor/tensor.h"

struct est_planned_step {
    uint64_t          number;
    est_segment_graph read;
    est_plan         *plan;
    est_planned_step *next;
};

/* --- life --------------------------------------------------------------------------------------------------------- */

est_status est_master_session_open(est_master_session *s, est_server *client, double connect_secs)
{
    EST_TRY(
        est_remote_create(client, EST_REMOTE(.type = "*", .is_chief = true, .connect_secs = connect_secs), &s->remote));
    s->client = client;
    return s->remote->ops->connect(s->remote);
}

static void free_step(est_planned_step *step)
{
    est_plan_free(step->plan);
    est_segment_graph_clear(&step->read);
    est_free(step);
}

void est_master_session_close(est_master_session *s)
{
    while (s->steps != NULL) {
        est_planned_step *step = s->steps;

        s->steps = step->next;
        free_step(step);
    }
    est_segment_graph_clear(&s->graph);
    est_packing_clear(&s->out);
    if (s->remote != NULL) est_remote_free(s->remote);
    s->remote = NULL;
}

/* --- graphs and steps --------------------------------------------------------------------------------------------- */

static est_status read_segment(const est_message *message, est_segment_graph *out)
{
    est_str bytes = est_head_bytes(message, EST_FIELD_BYTES);

    if (bytes.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "the request has no graph");
    EST_TRY(est_segment_read(bytes, 1, out));
    return EST_OK;
}

static est_status take_graph(est_master_session *s, const est_message *message)
{
    est_segment_graph read;

    EST_TRY(read_segment(message, &read));
    est_segment_graph_clear(&s->graph);
    s->graph = read;
    return est_place_variables(read.graph, s->remote, est_host_store(s->client->host));
}

static est_status enter(est_master_session *s, const est_message *message)
{
    est_plan_options options = {
        .device = &est_device_cpu, .pool = est_host_pool(s->client->host), .passes = true, .remote = s->remote
    };
    est_store        *store = est_host_store(s->client->host);
    est_planned_step *step  = est_zalloc(sizeof *step);
    est_status        status;

    if (step == NULL) return est_no_memory();
    status = read_segment(message, &step->read);
    if (status == EST_OK) status = est_place_variables(step->read.graph, s->remote, store);
    if (status == EST_OK) status = est_plan_create(step->read.graph, &step->read.io, store, &options, &step->plan);
    if (status != EST_OK) {
        free_step(step);
        return status;
    }
    step->number = ++s->n_steps;
    step->next   = s->steps;
    s->steps     = step;
    est_wire_put_u64(&s->out.head, EST_FIELD_SEGMENT, step->number);
    est_wire_put_i64(&s->out.head, EST_FIELD_OUTPUTS, step->read.io.n_fetches);
    return EST_OK;
}

static est_status find_step(est_master_session *s, const est_message *message, est_planned_step ***out)
{
    uint64_t number = est_head_u64(message, EST_FIELD_SEGMENT, 0);

    for (est_planned_step **at = &s->steps; *at != NULL; at = &(*at)->next) {
        if ((*at)->number != number) continue;
        *out = at;
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "the session has no step %" PRIu64, number);
}

static est_status leave(est_master_session *s, const est_message *message)
{
    est_planned_step **at, *step;

    EST_TRY(find_step(s, message, &at));
    step = *at;
    *at  = step->next;
    free_step(step);
    return EST_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Feeds that point into the message. */
static est_status make_feeds(const est_unpacked *in, est_tensor **feeds, int *n)
{
    for (*n = 0; *n < in->n; ++*n) {
        const est_view *view = &in->views[*n];

        if (view->dtype == EST_STRING) {
            EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &feeds[*n]));
        } else {
            EST_TRY(est_tensor_wrap(view->dtype, view->shape, view->data, NULL, NULL, &feeds[*n]));
        }
    }
    return EST_OK;
}

static est_status run_plan(est_master_session *s, const est_planned_step *step, est_tensor *const *feeds, uint64_t seed)
{
    est_status status = est_plan_run(step->plan, (const est_tensor *const *)feeds, seed);
    est_error  error;

    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error); /* failures while abandoning the step are not the reason */
    s->remote->ops->abandon(s->remote);
    return est_error_raise(&error);
}

/* Answers by itself: fetched values may be feeds, which are freed after that. */
static est_status run_step(est_master_session *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_unpacked       in      = { 0 };
    est_planned_step **step;
    est_tensor       **feeds = NULL;
    int                n     = 0;
    est_status         status;

    EST_TRY(find_step(s, message, &step));
    status = est_unpack_tensors(message, &in);
    if (status == EST_OK && in.n != (*step)->read.io.n_feeds) {
        status = est_fail(EST_INVALID_ARGUMENT, "the step takes %d feeds, got %d", (*step)->read.io.n_feeds, in.n);
    }
    if (status == EST_OK) {
        feeds  = est_zalloc(sizeof(est_tensor *) * ((size_t)in.n + 1));
        status = feeds != NULL ? make_feeds(&in, feeds, &n) : est_no_memory();
    }
    if (status == EST_OK) status = run_plan(s, *step, feeds, est_head_u64(message, EST_FIELD_SEED, 0));
    if (status == EST_OK) {
        for (int i = 0; i < (*step)->read.io.n_fetches; i++) est_pack_view(&s->out, est_plan_fetch((*step)->plan, i));
        est_service_answer(request, &s->out);
    }
    while (n > 0) est_tensor_free(feeds[--n]);
    est_free(feeds);
    est_unpacked_clear(&in);
    return status;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* All of the store are elsewhere. */
static est_status list_variables(est_master_session *s)
{
    est_store *store = est_host_store(s->client->host);
    int        n     = est_store_size(store);
    est_var  **vars  = est_alloc(sizeof(est_var *) * ((size_t)n + 1));
    bool      *has   = est_zalloc((size_t)n + 1);
    est_status status;

    for (int i = 0; i < n && vars != NULL; i++) vars[i] = est_store_at(store, i);
    status = vars != NULL && has != NULL ? s->remote->ops->initialized(s->remote, vars, n, has) : est_no_memory();
    for (int i = 0; i < n && status == EST_OK; i++) {
        est_wire_put_string(&s->out.head, EST_FIELD_NAME, vars[i]->name);
        est_wire_put_bool(&s->out.head, EST_FIELD_INITIALIZED, has[i]);
    }
    est_free(vars);
    est_free(has);
    return status;
}

static est_status find_variable(est_master_session *s, const est_message *message, est_var **out)
{
    est_str    name  = est_head_bytes(message, EST_FIELD_NAME);
    est_store *store = est_host_store(s->client->host);

    for (int i = 0; i < est_store_size(store); i++) {
        est_var *var = est_store_at(store, i);

        if (name.data == NULL || strlen(var->name) != name.size || memcmp(var->name, name.data, name.size) != 0)
            continue;
        *out = var;
        return EST_OK;
    }
    return est_fail(EST_NOT_FOUND, "the graph of the session has no variable '%.*s'", est_text_precision(name),
                    name.data != NULL ? name.data : "");
}

static est_status read_variable(est_master_session *s, est_request *request)
{
    est_var    *var;
    est_tensor *value;
    est_view    view;

    EST_TRY(find_variable(s, est_request_message(request), &var));
    EST_TRY(s->remote->ops->read(s->remote, var, &value));
    view = (est_view){ est_tensor_view_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                       est_tensor_count(value) };
    est_pack_view(&s->out, &view);
    est_service_answer(request, &s->out);
    est_tensor_free(value);
    return EST_OK;
}

static est_status write_variable(est_master_session *s, const est_message *message)
{
    est_unpacked in    = { 0 };
    est_tensor  *value = NULL;
    est_var     *var;
    est_status   status;

    EST_TRY(find_variable(s, message, &var));
    status = est_unpack_tensors(message, &in);
    if (status == EST_OK && in.n != 1) {
        status = est_fail(EST_INVALID_ARGUMENT, "variable '%s' is written with %d tensors, expected 1", var->name,
                          in.n);
    }
    if (status == EST_OK) {
        status = est_tensor_create_from(in.views[0].dtype, in.views[0].shape, in.views[0].data, &value);
    }
    if (status == EST_OK) status = s->remote->ops->write(s->remote, var, value);
    est_tensor_free(value);
    est_unpacked_clear(&in);
    return status;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

void est_master_session_execute(est_master_session *s, est_request *request)
{
    const est_message *message  = est_request_message(request);
    bool               answered = false; /* by a function that has to do it itself */
    est_status         status;

    est_packing_reset(&s->out);
    switch (est_request_method(request)) {
    case EST_METHOD_SESSION_GRAPH: status = take_graph(s, message); break;
    case EST_METHOD_SESSION_ENTER: status = enter(s, message); break;
    case EST_METHOD_SESSION_LEAVE: status = leave(s, message); break;
    case EST_METHOD_SESSION_VARIABLES: status = list_variables(s); break;
    case EST_METHOD_SESSION_WRITE: status = write_variable(s, message); break;
    case EST_METHOD_SESSION_READ:
        status   = read_variable(s, request);
        answered = status == EST_OK;
        break;
    default:
        status   = run_step(s, request);
        answered = status == EST_OK;
        break;
    }
    if (answered) return;
    if (status == EST_OK) {
        est_service_answer(request, &s->out);
    } else {
        est_request_fail(request, status, est_error_message());
    }
}
