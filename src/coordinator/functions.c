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

static bool is_in(est_nodes nodes, const char *variable)
{
    for (int i = 0; i < nodes.n; i++) {
        if (strcmp(est_node_string(est_def(nodes.data[i]), "shared_name"), variable) == 0) return true;
    }
    return false;
}

/* Variables that each worker has its own of: local ones, and the states of an exact evaluation. Calls have none: the
 * program could neither reset nor read those of workers. */
static est_status list_locals(est_function *f, const est_graph *graph, const est_graph *part, est_nodes states)
{
    est_nodes locals = est_graph_collection(graph, "local_variables");

    f->locals = est_zalloc(sizeof *f->locals * ((size_t)est_graph_size(part) + 1));
    if (f->locals == NULL) return est_no_memory();
    for (int32_t id = 0; id < est_graph_size(part); id++) {
        const est_node_def *def  = est_graph_node(part, id);
        const char         *name = def->op->source == EST_SOURCE_VARIABLE ? est_node_string(def, "shared_name") : NULL;

        if (name == NULL || (!is_in(locals, name) && !is_in(states, name))) continue;
        if (f->n_resets < 0) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "'%s' is a local variable, which no worker has a value of; if it is the state of a metric, "
                            "create the metric with .shared",
                            name);
        }
        f->locals[f->n_locals] = est_strdup(def->name);
        if (f->locals[f->n_locals++] == NULL) return est_no_memory();
    }
    return EST_OK;
}

/* The nodes of est_io are not const. */
static est_node *nodes_of(est_nodes nodes)
{
    est_node *out;

    memcpy(&out, &nodes.data, sizeof out);
    return out;
}

static est_status encode(est_function *f, const est_coordinator *c, const est_function_spec *spec)
{
    est_io      io = { .feeds     = nodes_of(spec->feeds),
                       .fetches   = nodes_of(spec->fetches),
                       .targets   = nodes_of(spec->targets),
                       .n_feeds   = spec->feeds.n,
                       .n_fetches = spec->fetches.n,
                       .n_targets = spec->targets.n };
    est_segment segment;
    est_status  status;

    EST_TRY(est_segment_extract(c->graph, &io, &segment));
    segment.writes = true;
    status         = list_locals(f, c->graph, segment.graph, spec->states);
    if (status == EST_OK) status = est_segment_encode(&segment, &f->bytes);
    est_segment_clear(&segment);
    return status;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void est_function_clear(est_function *f)
{
    est_coordinator *c = f->object.coordinator;

    for (int i = 0; i < f->n_locals; i++) est_free(f->locals[i]);
    est_free(f->locals);
    est_free(f->feeds);
    est_free(f->suited);
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
    f->suited      = est_zalloc(sizeof *f->suited * ((size_t)spec->feeds.n + 1));
    if (f->object.name == NULL || f->feeds == NULL || f->suited == NULL) return est_no_memory();
    if (spec->feeds.n > 0) memcpy(f->feeds, spec->feeds.data, sizeof *f->feeds * (size_t)spec->feeds.n);
    EST_TRY(encode(f, c, spec));
    return est_object_add(c, &f->object);
}

est_status est_function_make(est_coordinator *c, const est_function_spec *spec, est_function **out)
{
    est_function *f;
    est_status    status;

    EST_REQUIRE_LIST("feeds", spec->feeds);
    EST_REQUIRE_LIST("fetches", spec->fetches);
    EST_REQUIRE_LIST("targets", spec->targets);
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
