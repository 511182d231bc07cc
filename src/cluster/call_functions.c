/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a coordinator at a worker.
 *
 * All workers must cut a function into the same segments, since ps tasks know runs of a call by them
 * (cluster/call_records.h). They do: the graph and its seed come from the coordinator, names of nodes stay, and
 * variables are where the ps tasks have them. A variable that no ps task has would be placed by each worker for itself,
 * so it is an error. */
#include "cluster/calling.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/remote_tasks.h"
#include "runtime/plan.h"

est_called_function *est_calling_function(const est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_functions; i++) {
        if (c->functions[i]->number == number) return c->functions[i];
    }
    return NULL;
}

static void drop_session(est_called_function *f)
{
    est_session_free(f->session);
    f->session = NULL;
    f->step = f->reset = f->states = NULL;
}

static void free_function(est_called_function *f)
{
    drop_session(f);
    est_segment_graph_clear(&f->cut);
    est_free(f->feeds);
    est_free(f->name);
    est_free(f);
}

void est_calling_release_function(est_calling *c, uint64_t number)
{
    for (int i = 0; i < c->n_functions; i++) {
        if (c->functions[i]->number != number) continue;
        free_function(c->functions[i]);
        c->functions[i] = c->functions[--c->n_functions];
        return;
    }
}

void est_calling_drop_functions(est_calling *c)
{
    while (c->n_functions > 0) free_function(c->functions[--c->n_functions]);
}

void est_calling_drop_sessions(est_calling *c)
{
    for (int i = 0; i < c->n_functions; i++) drop_session(c->functions[i]);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

static est_status check_variable(const est_calling *c, const est_store *store, const est_node_def *def)
{
    const char    *name = est_node_string(def, "shared_name");
    const est_var *var  = est_store_find(store, name);

    if (var == NULL || (!var->elsewhere && var->n_shards == 0)) return EST_OK;
    if (var->initialized) return EST_OK;
    if (def->op->has_rows && c->remote->ops->located(c->remote, name) >= 0) return EST_OK; /* rows come with keys */
    return est_fail(EST_FAILED_PRECONDITION,
                    "variable '%s' has no value at the ps tasks: the coordinator must initialize variables before it "
                    "sends functions that use them",
                    name);
}

static est_status check_values(const est_calling *c, const est_called_function *f)
{
    est_store *store;

    EST_TRY(est_session_look(f->session));
    EST_TRY(est_session_store(f->session, &store));
    for (int32_t id = 0; id < est_graph_size(f->cut.graph); id++) {
        const est_node_def *def = est_graph_node(f->cut.graph, id);

        if (def->op->source == EST_SOURCE_VARIABLE) EST_TRY(check_variable(c, store, def));
    }
    return EST_OK;
}

/* The states of an evaluation are the worker's: a call that is repeated begins with new ones. */
static est_status check_states(const est_called_function *f, est_step *step)
{
    const est_plan *plan = est_step_plan(step);

    for (int i = 0; i < plan->n_segments; i++) {
        if (!plan->segments[i].writes) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "function '%s' changes variables of ps tasks, which an evaluation by shards must not: its "
                        "metrics need local states",
                        f->name);
    }
    return EST_OK;
}

static est_status prepare_steps(est_called_function *f)
{
    const est_io *io      = &f->cut.io;
    est_nodes     nothing = { 0 }, feeds = { io->feeds, io->n_feeds }, fetches = { io->fetches, io->n_fetches };
    est_nodes     resets = { io->targets, f->n_resets };
    est_nodes     rest   = { io->targets + f->n_resets, io->n_targets - f->n_resets };

    if (!f->for_shards) return est_session_prepare(f->session, feeds, fetches, rest, &f->step);
    EST_TRY(est_session_prepare(f->session, nothing, nothing, resets, &f->reset));
    EST_TRY(est_session_prepare(f->session, feeds, nothing, rest, &f->step));
    EST_TRY(est_session_prepare(f->session, nothing, fetches, nothing, &f->states));
    EST_TRY(check_states(f, f->reset));
    return check_states(f, f->step);
}

est_status est_called_function_prepare(est_calling *c, est_called_function *f)
{
    est_status status;

    if (c->lost) est_calling_drop_sessions(c);
    c->lost = false;
    if (f->session != NULL) return EST_OK;
    EST_TRY(est_session_create_in(f->cut.graph, EST_SESSION(.remote = c->remote), c->pool, &f->session));
    status = check_values(c, f);
    if (status == EST_OK) status = prepare_steps(f);
    if (status != EST_OK) drop_session(f);
    return status;
}

/* --- FUNCTION ----------------------------------------------------------------------------------------------------- */

static est_status find_local(const est_graph *graph, est_str name, est_node *out)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (strlen(def->name) != name.size || memcmp(def->name, name.data, name.size) != 0) continue;
        if (def->op->source != EST_SOURCE_VARIABLE) break;
        *out = (est_node){ out->graph, id, 0 };
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "a function names the local variable '%.*s', and its graph has none",
                    est_text_precision(name), name.data);
}

/* Collections do not travel with a graph. */
static est_status mark_locals(est_graph *graph, const est_message *message)
{
    est_wire_reader r;
    est_wire_field  field;
    est_node        node = { .graph = graph };

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number != EST_FIELD_LOCAL) continue;
        EST_TRY(find_local(graph, est_wire_bytes(&r, &field), &node));
        est_graph_collect(graph, "local_variables", node);
    }
    EST_TRY(est_wire_finish(&r));
    return est_graph_status(graph);
}

static est_status read_function(const est_calling *c, const est_message *message, est_called_function *f)
{
    est_function_request request;

    EST_TRY(est_function_request_read(message, &request));
    if (est_calling_function(c, request.number) != NULL) {
        return est_fail(EST_ALREADY_EXISTS, "function %" PRIu64 " is here already", request.number);
    }
    f->number     = request.number;
    f->for_shards = request.has_resets;
    f->n_resets   = request.n_resets;
    f->name       = est_alloc(request.name.size + 1);
    if (f->name == NULL) return est_no_memory();
    if (request.name.size > 0) memcpy(f->name, request.name.data, request.name.size);
    f->name[request.name.size] = '\0';
    EST_TRY(est_segment_read(request.bytes, c->setup.seed, &f->cut));
    if (f->n_resets > f->cut.io.n_targets) {
        return est_fail(EST_INVALID_ARGUMENT, "function '%s' has %d resets of %d targets", f->name, f->n_resets,
                        f->cut.io.n_targets);
    }
    f->feeds = est_zalloc(sizeof(est_tensor *) * ((size_t)f->cut.io.n_feeds + 1));
    return f->feeds != NULL ? mark_locals(f->cut.graph, message) : est_no_memory();
}

static est_status reserve_function(est_calling *c)
{
    int                   max = c->max_functions == 0 ? 16 : 2 * c->max_functions;
    est_called_function **more;

    if (c->n_functions < c->max_functions) return EST_OK;
    more = est_realloc(c->functions, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    c->functions     = more;
    c->max_functions = max;
    return EST_OK;
}

/* Finds errors before the first call. A lost ps task is none, nor is the end of this worker: the calls, which come
 * already, make the session then, or fail. */
static est_status prepare_early(est_calling *c, est_called_function *f)
{
    est_status status = est_called_function_prepare(c, f);

    if (status != EST_UNAVAILABLE && status != EST_ABORTED && !est_calling_is_over(c)) return status;
    est_error_clear();
    c->lost = true;
    return EST_OK;
}

est_status est_calling_add_function(est_calling *c, const est_message *message)
{
    est_called_function *f;
    est_status           status;

    EST_TRY(reserve_function(c));
    f = est_zalloc(sizeof *f);
    if (f == NULL) return est_no_memory();
    status = read_function(c, message, f);
    if (status == EST_OK) status = prepare_early(c, f);
    if (status != EST_OK) {
        if (f->name != NULL && f->name[0] != '\0') status = est_fail_context(status, "function '%s'", f->name);
        free_function(f);
        return status;
    }
    c->functions[c->n_functions++] = f;
    return EST_OK;
}
