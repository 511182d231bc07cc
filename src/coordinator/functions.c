/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions: the part of the graph that computes the fetches and runs the targets, as bytes. */
#include "coordinator/functions.h"
#include "base/argument.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "kernels/lookup_table.h"
#include "runtime/host.h"

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static est_status check_nodes(const est_coordinator *c, const char *name, const char *what, est_nodes nodes)
{
    EST_REQUIRE_LIST(what, nodes);
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].graph == c->graph) continue;
        return est_fail(EST_INVALID_ARGUMENT, "'%s': %s %d is %s", name, what, i,
                        nodes.data[i].graph == NULL ? "no node" : "a node of another graph than the coordinator's");
    }
    return EST_OK;
}

/* The operation that fills the table of a handle; EST_NO_NODE: none. */
static est_node find_filler(const est_graph *graph, const est_node_def *handle)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def   = est_graph_node(graph, id);
        const est_node_def *table = def->op->fills_var && def->n_in > 0 ? est_graph_node(graph, def->in[0].node) : NULL;
        est_node            found = { NULL, id, 0 };

        if (table == NULL || table->op->source != EST_SOURCE_TABLE) continue;
        if (strcmp(est_lookup_table_name(table), est_lookup_table_name(handle)) != 0) continue;
        memcpy(&found.graph, &graph, sizeof graph);
        return found;
    }
    return EST_NO_NODE;
}

/* Feeds, fetches and targets in one array, with room for `more` targets. */
static est_status copy_io(const est_function_spec *spec, int more, est_io *out)
{
    int       n   = spec->feeds.n + spec->fetches.n + spec->targets.n;
    est_node *all = est_zalloc(sizeof *all * ((size_t)n + (size_t)more + 1));

    if (all == NULL) return est_no_memory();
    *out = (est_io){ all,           all + spec->feeds.n, all + spec->feeds.n + spec->fetches.n,
                     spec->feeds.n, spec->fetches.n,     spec->targets.n };
    if (spec->feeds.n > 0) memcpy(out->feeds, spec->feeds.data, sizeof *all * (size_t)spec->feeds.n);
    if (spec->fetches.n > 0) memcpy(out->fetches, spec->fetches.data, sizeof *all * (size_t)spec->fetches.n);
    if (spec->targets.n > 0) memcpy(out->targets, spec->targets.data, sizeof *all * (size_t)spec->targets.n);
    return EST_OK;
}

/* Nothing that is run needs the operations that fill tables, but a session looks for them in its graph. */
static est_status add_fillers(const est_graph *graph, const est_graph *part, est_io *io)
{
    for (int32_t id = 0; id < est_graph_size(part); id++) {
        const est_node_def *def    = est_graph_node(part, id);
        est_node            filler = def->op->source == EST_SOURCE_TABLE ? find_filler(graph, def) : EST_NO_NODE;

        if (filler.graph != NULL) io->targets[io->n_targets++] = filler;
    }
    return EST_OK;
}

static bool is_in(est_nodes nodes, const char *variable)
{
    for (int i = 0; i < nodes.n; i++) {
        if (strcmp(est_node_string(est_def(nodes.data[i]), "shared_name"), variable) == 0) return true;
    }
    return false;
}

/* Variables that each worker has its own of: local ones, and the states of an exact evaluation. */
static est_status list_locals(est_function *f, const est_graph *graph, const est_graph *part, est_nodes states)
{
    est_nodes locals = est_graph_collection(graph, "local_variables");

    f->locals = est_zalloc(sizeof *f->locals * ((size_t)est_graph_size(part) + 1));
    if (f->locals == NULL) return est_no_memory();
    for (int32_t id = 0; id < est_graph_size(part); id++) {
        const est_node_def *def = est_graph_node(part, id);

        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        if (!is_in(locals, est_node_string(def, "shared_name")) && !is_in(states, est_node_string(def, "shared_name")))
            continue;
        f->locals[f->n_locals] = est_strdup(def->name);
        if (f->locals[f->n_locals++] == NULL) return est_no_memory();
    }
    return EST_OK;
}

static est_status encode(est_function *f, const est_coordinator *c, const est_function_spec *spec)
{
    est_segment segment = { .writes = true };
    est_graph  *part    = NULL;
    est_io      io      = { 0 };
    est_status  status  = copy_io(spec, 0, &io);
    int         n_tables;

    if (status == EST_OK) status = est_pass_extract(c->graph, &io, &part);
    n_tables = part != NULL ? est_graph_size(part) : 0;
    est_free(io.feeds);
    io = (est_io){ 0 };
    if (status == EST_OK) status = copy_io(spec, n_tables, &io);
    if (status == EST_OK) status = add_fillers(c->graph, part, &io);
    est_graph_free(part);
    part = NULL;
    if (status == EST_OK) status = est_pass_extract(c->graph, &io, &part);
    if (status == EST_OK) status = list_locals(f, c->graph, part, spec->states);
    if (status == EST_OK) {
        io.n_targets  = spec->targets.n; /* fillers are in the graph, and run when a table is needed */
        segment.graph = part;
        segment.io    = io;
        status        = est_segment_encode(&segment, &f->bytes);
    }
    est_graph_free(part);
    est_free(io.feeds);
    return status;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void est_function_clear(est_function *f)
{
    est_coordinator *c = f->object.coordinator;

    for (int i = 0; i < f->n_locals; i++) est_free(f->locals[i]);
    est_free(f->locals);
    est_free(f->feeds);
    est_wire_writer_clear(&f->bytes);
    est_free(f);
    if (c != NULL) est_coordinator_unref(c);
}

static est_status fill(est_function *f, est_coordinator *c, const est_function_spec *spec)
{
    f->object.kind = EST_OBJECT_FUNCTION;
    f->object.name = est_strdup(spec->name);
    f->n_fetches   = spec->fetches.n;
    f->n_feeds     = spec->feeds.n;
    f->n_resets    = spec->n_resets;
    f->feeds       = est_zalloc(sizeof *f->feeds * ((size_t)spec->feeds.n + 1));
    if (f->object.name == NULL || f->feeds == NULL) return est_no_memory();
    if (spec->feeds.n > 0) memcpy(f->feeds, spec->feeds.data, sizeof *f->feeds * (size_t)spec->feeds.n);
    EST_TRY(encode(f, c, spec));
    return est_object_add(c, &f->object);
}

est_status est_function_make(est_coordinator *c, const est_function_spec *spec, est_function **out)
{
    est_function *f;
    est_status    status;

    EST_TRY(est_graph_status(c->graph));
    EST_TRY(check_nodes(c, spec->name, "feed", spec->feeds));
    EST_TRY(check_nodes(c, spec->name, "fetch", spec->fetches));
    EST_TRY(check_nodes(c, spec->name, "target", spec->targets));
    EST_TRY(est_coordinator_init_variables(c));
    f = est_zalloc(sizeof *f);
    if (f == NULL) return est_no_memory();
    status = fill(f, c, spec);
    if (status != EST_OK) {
        est_free(f->object.name);
        est_function_clear(f);
        return est_fail_context(status, "function '%s'", spec->name);
    }
    *out = f;
    return EST_OK;
}

est_status est_coordinator_function(est_coordinator *coordinator, const char *name, est_nodes feeds, est_nodes fetches,
                                    est_nodes targets, est_function **out)
{
    EST_REQUIRE(coordinator);
    EST_REQUIRE(name);
    EST_REQUIRE(out);
    return est_function_make(
        coordinator,
        &(est_function_spec){ .name = name, .feeds = feeds, .fetches = fetches, .targets = targets, .n_resets = -1 },
        out);
}

void est_function_free(est_function *function)
{
    if (function != NULL) est_object_release(&function->object);
}
