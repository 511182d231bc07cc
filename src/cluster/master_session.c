/* SPDX-License-Identifier: Apache-2.0
 *
 * A session at a master. Each step of the client is a plan over the remote of all tasks, made from the part of the
 * client's graph that the step needs. */
#include "cluster/master_session.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/checkpoint_entries.h"
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
    char       device[128];
    est_status status;

    for (int i = 0; i < n && vars != NULL; i++) vars[i] = est_store_at(store, i);
    status = vars != NULL && has != NULL ? s->remote->ops->initialized(s->remote, vars, n, has) : est_no_memory();
    for (int i = 0; i < n && status == EST_OK; i++) {
        est_wire_put_string(&s->out.head, EST_FIELD_NAME, vars[i]->name);
        est_wire_put_bool(&s->out.head, EST_FIELD_INITIALIZED, has[i]);
        status = est_remote_device(s->remote, vars[i], device, sizeof device);
        if (status == EST_OK) est_wire_put_string(&s->out.head, EST_FIELD_DEVICE, device);
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

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* The entries with their tasks. The remote has no partitioner, so that each variable is at one task. */
static est_status locate_entries(const est_master_session *s, const est_store_entry *entries, int n,
                                 est_remote_entry *out)
{
    for (int i = 0; i < n; i++) {
        const est_var *var = est_store_find(est_host_store(s->client->host), entries[i].name);

        if (var == NULL) {
            return est_fail(EST_NOT_FOUND, "the graph of the session has no variable '%s'", entries[i].name);
        }
        out[i] = (est_remote_entry){ var->task, entries[i] };
    }
    return EST_OK;
}

static est_status read_request(const est_master_session *s, const est_message *message, est_arena *arena,
                               est_remote_files *out)
{
    est_str           prefix = est_head_bytes(message, EST_FIELD_PREFIX);
    est_store_entry  *entries;
    est_remote_entry *located;

    EST_TRY(est_checkpoint_entries_unpack(message, arena, &entries, &out->n));
    located      = est_arena_alloc(arena, sizeof *located * ((size_t)out->n + 1));
    out->prefix  = est_arena_printf(arena, "%.*s", est_text_precision(prefix), prefix.data != NULL ? prefix.data : "");
    out->entries = located;
    if (located == NULL || out->prefix == NULL) return est_no_memory();
    return locate_entries(s, entries, out->n, located);
}

/* Makes one checkpoint of the parts that tasks wrote. */
static est_status merge_parts(const est_master_session *s, const est_remote_files *files, const bool *wrote)
{
    char     **parts  = est_zalloc(sizeof *parts * ((size_t)s->remote->n_tasks + 1));
    int        n      = 0;
    est_status status = parts != NULL ? EST_OK : est_no_memory();

    for (int i = 0; i < s->remote->n_tasks && status == EST_OK; i++) {
        if (wrote[i]) status = est_part_prefix(files->prefix, i, &parts[n++]);
    }
    if (status == EST_OK) status = est_bundle_merge((const char *const *)parts, n, files->prefix);
    while (n > 0) est_free(parts[--n]);
    est_free(parts);
    return status;
}

static est_status save(est_master_session *s, const est_remote_files *files)
{
    bool      *wrote = est_zalloc((size_t)s->remote->n_tasks + 1);
    est_status status;

    if (wrote == NULL) return est_no_memory();
    status = s->remote->ops->save(s->remote, files, wrote);
    if (status == EST_OK) status = merge_parts(s, files, wrote);
    est_free(wrote);
    return status;
}

static est_status find_nan(est_master_session *s, const est_remote_files *files)
{
    int found;

    EST_TRY(s->remote->ops->find_nan(s->remote, files->entries, files->n, &found));
    est_wire_put_i64(&s->out.head, EST_FIELD_STEP, found);
    return EST_OK;
}

static est_status use_files(est_master_session *s, const est_request *request)
{
    est_arena       *arena = est_arena_create();
    est_remote_files files = { 0 };
    est_status       status;

    if (arena == NULL) return est_no_memory();
    status = read_request(s, est_request_message(request), arena, &files);
    if (status == EST_OK) {
        switch (est_request_method(request)) {
        case EST_METHOD_SESSION_SAVE: status = save(s, &files); break;
        case EST_METHOD_SESSION_VERIFY: status = s->remote->ops->verify(s->remote, &files); break;
        case EST_METHOD_SESSION_RESTORE: status = s->remote->ops->restore(s->remote, &files); break;
        default: status = find_nan(s, &files); break;
        }
    }
    est_arena_free(arena);
    return status;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

est_status est_master_session_execute(est_master_session *s, est_request *request)
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
    case EST_METHOD_SESSION_SAVE:
    case EST_METHOD_SESSION_VERIFY:
    case EST_METHOD_SESSION_RESTORE:
    case EST_METHOD_SESSION_FIND_NAN: status = use_files(s, request); break;
    case EST_METHOD_SESSION_READ:
        status   = read_variable(s, request);
        answered = status == EST_OK;
        break;
    default:
        status   = run_step(s, request);
        answered = status == EST_OK;
        break;
    }
    if (status == EST_OK && !answered) est_service_answer(request, &s->out);
    return status;
}
