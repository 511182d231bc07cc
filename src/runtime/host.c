/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments as bytes, and as a host keeps them. The bytes are a private protobuf message: 1 the GraphDef, 2 feeds, 3
 * fetches, 4 targets, as "name:output", 5 whether it writes. */
#include "runtime/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "base/map.h"
#include "format/graph_def.h"
#include "graph/graph_export.h"
#include "graph/import.h"
#include "ops/ops.h"
#include "runtime/plan.h"

enum { GRAPH = 1, FED, FETCHED, RUN, WRITES };

typedef struct hosted {
    uint64_t   print; /* of its bytes */
    size_t     size;
    est_graph *graph;
    est_io     io;
    est_node  *nodes; /* of io, all three lists */
    est_plan  *plan;
    bool       writes;
} hosted;

struct est_host {
    est_store *store;
    est_pool  *pool;
    hosted    *segments;
    int        n, max;
};

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static void put_nodes(est_wire_writer *out, uint32_t field, const est_node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        const char *name = est_node_name(nodes[i]);
        size_t      mark = est_wire_begin(out, field);
        char        output[16];

        snprintf(output, sizeof output, ":%d", (int)nodes[i].output);
        est_wire_put_raw(out, name, strlen(name));
        est_wire_put_raw(out, output, strlen(output));
        est_wire_end(out, mark);
    }
}

est_status est_segment_encode(const est_segment *segment, est_wire_writer *out)
{
    est_arena      *arena = est_arena_create();
    est_wire_writer bytes = { 0 };
    est_graph_def   def;
    est_status      status;

    if (arena == NULL) return est_no_memory();
    est_graph_def_init(&def, arena);
    status = est_graph_export(segment->graph, &def);
    if (status == EST_OK) status = est_graph_def_put(&bytes, &def);
    if (status == EST_OK) {
        est_wire_put_bytes(out, GRAPH, bytes.data, bytes.size);
        put_nodes(out, FED, segment->io.feeds, segment->io.n_feeds);
        put_nodes(out, FETCHED, segment->io.fetches, segment->io.n_fetches);
        put_nodes(out, RUN, segment->io.targets, segment->io.n_targets);
        est_wire_put_bool(out, WRITES, segment->writes);
        if (out->failed) status = est_no_memory();
    }
    est_wire_writer_clear(&bytes);
    est_arena_free(arena);
    return status;
}

/* --- reading them ------------------------------------------------------------------------------------------------- */

/* "name:output" as a node of the graph; a target without outputs is called "name:0". */
static est_status find_node(const hosted *p, const est_map *names, est_str text, bool is_run, est_node *out)
{
    const char         *colon = text.size > 0 ? memrchr(text.data, ':', text.size) : NULL;
    const est_node_def *def   = colon != NULL ? est_map_get_bytes(names, text.data, (size_t)(colon - text.data)) : NULL;
    long                output;
    char                digits[12] = { 0 }, *end;
    size_t              n          = colon != NULL ? text.size - (size_t)(colon + 1 - text.data) : 0;

    if (def == NULL || n == 0 || n >= sizeof digits) {
        return est_fail(EST_INVALID_ARGUMENT, "a segment names '%.*s', which is not in its graph",
                        (int)(text.size < 200 ? text.size : 200), text.data);
    }
    memcpy(digits, colon + 1, n);
    output = strtol(digits, &end, 10);
    if (*end != '\0' || output < 0 || (output >= def->n_out && !(is_run && output == 0))) {
        return est_fail(EST_INVALID_ARGUMENT, "a segment names '%.*s', and the node has no such output",
                        (int)(text.size < 200 ? text.size : 200), text.data);
    }
    *out = (est_node){ p->graph, def->id, (int32_t)output };
    return EST_OK;
}

typedef struct counts {
    int fed, fetched, run;
} counts;

static counts count_nodes(est_str bytes)
{
    est_wire_reader r;
    est_wire_field  field;
    counts          n = { 0 };

    est_wire_reader_init(&r, "Segment", bytes.data, bytes.size);
    while (est_wire_next(&r, &field)) {
        n.fed += field.number == FED;
        n.fetched += field.number == FETCHED;
        n.run += field.number == RUN;
    }
    return n;
}

static est_status read_nodes(hosted *p, est_str bytes, const est_map *names)
{
    est_wire_reader r;
    est_wire_field  field;
    counts          n      = count_nodes(bytes);
    est_status      status = EST_OK;

    p->nodes = est_zalloc(sizeof *p->nodes * ((size_t)n.fed + (size_t)n.fetched + (size_t)n.run + 1));
    if (p->nodes == NULL) return est_no_memory();
    p->io = (est_io){ .feeds = p->nodes, .fetches = p->nodes + n.fed, .targets = p->nodes + n.fed + n.fetched };
    est_wire_reader_init(&r, "Segment", bytes.data, bytes.size);
    while (status == EST_OK && est_wire_next(&r, &field)) {
        if (field.number == WRITES) p->writes = est_wire_bool(&r, &field);
        if (field.number == FED) {
            status = find_node(p, names, est_wire_bytes(&r, &field), false, &p->io.feeds[p->io.n_feeds++]);
        } else if (field.number == FETCHED) {
            status = find_node(p, names, est_wire_bytes(&r, &field), false, &p->io.fetches[p->io.n_fetches++]);
        } else if (field.number == RUN) {
            status = find_node(p, names, est_wire_bytes(&r, &field), true, &p->io.targets[p->io.n_targets++]);
        }
    }
    return status == EST_OK ? est_wire_finish(&r) : status;
}

static est_status read_graph(hosted *p, est_str bytes)
{
    est_arena      *arena = est_arena_create();
    est_wire_reader r;
    est_wire_field  field;
    est_graph_def   def;
    est_status      status = arena != NULL ? EST_OK : est_no_memory();

    est_wire_reader_init(&r, "Segment", bytes.data, bytes.size);
    while (status == EST_OK && est_wire_next(&r, &field)) {
        if (field.number != GRAPH) continue;
        est_graph_def_init(&def, arena);
        status = est_graph_def_parse_bytes(est_wire_bytes(&r, &field), arena, &def);
        if (status == EST_OK) status = est_graph_import(&def, est_op_find, p->graph);
    }
    if (status == EST_OK) status = est_wire_finish(&r);
    est_arena_free(arena);
    return status;
}

static est_status read_hosted(hosted *p, est_str bytes)
{
    est_map    names = { 0 };
    est_status status;

    EST_TRY(est_graph_create(1, &p->graph)); /* seeds are attributes by now */
    status = read_graph(p, bytes);
    for (int32_t id = 0; status == EST_OK && id < est_graph_size(p->graph); id++) {
        status = est_map_put(&names, est_graph_node(p->graph, id)->name, est_graph_node(p->graph, id));
    }
    if (status == EST_OK) status = read_nodes(p, bytes, &names);
    est_map_clear(&names);
    return status;
}

/* --- the host ----------------------------------------------------------------------------------------------------- */

est_status est_host_create(int threads, est_host **out)
{
    est_host  *host = est_zalloc(sizeof *host);
    est_status status;

    if (host == NULL) return est_no_memory();
    status = est_store_create(&est_device_cpu, &host->store);
    if (status == EST_OK) status = est_pool_create(threads, &host->pool);
    if (status != EST_OK) {
        est_host_free(host);
        return status;
    }
    *out = host;
    return EST_OK;
}

static void clear_hosted(hosted *p)
{
    est_plan_free(p->plan);
    est_graph_free(p->graph);
    est_free(p->nodes);
}

est_status est_segment_decode(est_str bytes, est_segment_read *out)
{
    hosted     p      = { 0 };
    est_status status = read_hosted(&p, bytes);

    if (status != EST_OK) {
        clear_hosted(&p);
        return status;
    }
    *out = (est_segment_read){ p.graph, p.io, p.nodes };
    return EST_OK;
}

void est_segment_read_clear(est_segment_read *read)
{
    est_graph_free(read->graph);
    est_free(read->nodes);
    *read = (est_segment_read){ 0 };
}

void est_host_free(est_host *host)
{
    if (host == NULL) return;
    for (int i = 0; i < host->n; i++) clear_hosted(&host->segments[i]);
    est_free(host->segments);
    est_store_free(host->store);
    est_pool_free(host->pool);
    est_free(host);
}

est_store *est_host_store(est_host *host)
{
    return host->store;
}

est_pool *est_host_pool(est_host *host)
{
    return host->pool;
}

static est_status host_reserve(est_host *host)
{
    int     max = host->max == 0 ? 16 : 2 * host->max;
    hosted *more;

    if (host->n < host->max) return EST_OK;
    more = est_realloc(host->segments, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    host->segments = more;
    host->max      = max;
    return EST_OK;
}

est_status est_host_enter(est_host *host, const void *bytes, size_t size, int *out)
{
    uint64_t         print   = est_fingerprint64(bytes, size);
    est_plan_options options = { .device = &est_device_cpu, .pool = host->pool, .passes = true };
    hosted           p       = { .print = print, .size = size };
    est_status       status;

    for (int i = 0; i < host->n; i++) {
        if (host->segments[i].print != print || host->segments[i].size != size) continue;
        *out = i;
        return EST_OK;
    }
    EST_TRY(host_reserve(host));
    status = read_hosted(&p, (est_str){ bytes, size });
    if (status == EST_OK) status = est_plan_create(p.graph, &p.io, host->store, &options, &p.plan);
    if (status != EST_OK) {
        clear_hosted(&p);
        return status;
    }
    host->segments[host->n] = p;
    *out                    = host->n++;
    return EST_OK;
}

int est_host_segments(const est_host *host)
{
    return host->n;
}

int est_host_inputs(const est_host *host, int at)
{
    return host->segments[at].io.n_feeds;
}

int est_host_outputs(const est_host *host, int at)
{
    return host->segments[at].io.n_fetches;
}

const est_graph *est_host_graph(const est_host *host, int at)
{
    return host->segments[at].graph;
}

est_node est_host_input(const est_host *host, int at, int i)
{
    return host->segments[at].io.feeds[i];
}

bool est_host_writes(const est_host *host, int at)
{
    return host->segments[at].writes;
}

/* The variable that a node changes by its input i; NULL: none. */
static const char *changed_by(const est_graph *graph, const est_node_def *def, int32_t i)
{
    const est_node_def *handle = est_graph_node(graph, def->in[i].node);

    if (i >= 32 || (def->op->writes & 1u << i) == 0 || handle->op->source != EST_SOURCE_VARIABLE) return NULL;
    return est_node_string(handle, "shared_name");
}

static bool graph_changes(const est_graph *graph, const char *variable, bool by_filling)
{
    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (def->op->fills_var && !by_filling) continue;
        for (int32_t i = 0; i < def->n_in; i++) {
            const char *changed = changed_by(graph, def, i);

            if (changed != NULL && strcmp(changed, variable) == 0) return true;
        }
    }
    return false;
}

bool est_host_counts(const est_host *host, int at, const char *variable)
{
    return graph_changes(host->segments[at].graph, variable, false);
}

bool est_host_share(const est_host *host, int a, int b)
{
    const est_graph *graph = host->segments[a].graph;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        for (int32_t i = 0; i < def->n_in; i++) {
            const char *changed = changed_by(graph, def, i);

            if (changed != NULL && graph_changes(host->segments[b].graph, changed, true)) return true;
        }
    }
    return false;
}

est_status est_host_run(est_host *host, int at, uint64_t run_seed, const est_tensor *const *inputs)
{
    return est_plan_run(host->segments[at].plan, inputs, run_seed);
}

const est_view *est_host_output(const est_host *host, int at, int i)
{
    return est_plan_fetch(host->segments[at].plan, i);
}
