/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments as bytes: a private protobuf message with 1 the GraphDef, 2 feeds, 3 fetches, 4 targets, as "name:output",
 * 5 whether it writes. */
#include "runtime/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "format/graph_def.h"
#include "graph/graph_export.h"
#include "graph/import.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"

enum { GRAPH = 1, FED, FETCHED, RUN, WRITES };

/* --- extracting --------------------------------------------------------------------------------------------------- */

/* A copy of `io` in one array, with room for `more` targets. */
static est_status copy_io(const est_io *io, int more, est_io *out)
{
    size_t    n   = (size_t)io->n_feeds + (size_t)io->n_fetches + (size_t)io->n_targets;
    est_node *all = est_zalloc(sizeof *all * (n + (size_t)more + 1));

    if (all == NULL) return est_no_memory();
    *out         = *io;
    out->feeds   = all;
    out->fetches = all + io->n_feeds;
    out->targets = all + io->n_feeds + io->n_fetches;
    if (io->n_feeds > 0) memcpy(out->feeds, io->feeds, sizeof *all * (size_t)io->n_feeds);
    if (io->n_fetches > 0) memcpy(out->fetches, io->fetches, sizeof *all * (size_t)io->n_fetches);
    if (io->n_targets > 0) memcpy(out->targets, io->targets, sizeof *all * (size_t)io->n_targets);
    return EST_OK;
}

/* Adds the operations that fill the tables of `part` to the targets. */
static void add_fillers(const est_graph *graph, const est_graph *part, est_io *io)
{
    for (int32_t id = 0; id < est_graph_size(part); id++) {
        const est_node_def *def    = est_graph_node(part, id);
        est_node            filler = { NULL, -1, 0 };

        if (def->op->source == EST_SOURCE_TABLE) filler.id = est_lookup_table_filler(graph, est_lookup_table_name(def));
        if (filler.id < 0) continue;
        memcpy(&filler.graph, &graph, sizeof graph); /* nodes have graphs that are not const */
        io->targets[io->n_targets++] = filler;
    }
}

/* Nothing that is run needs the fillers, but a session looks for them in its graph. Two copies: the first shows which
 * tables there are. */
est_status est_segment_extract(const est_graph *graph, const est_io *io, est_segment *out)
{
    est_segment made = { 0 };
    est_graph  *part = NULL;
    est_io      first;
    est_status  status;

    EST_TRY(copy_io(io, 0, &first));
    status = est_pass_extract(graph, &first, &part);
    est_free(first.feeds);
    if (status == EST_OK) status = copy_io(io, est_graph_size(part), &made.io);
    if (status == EST_OK) add_fillers(graph, part, &made.io);
    est_graph_free(part);
    if (status == EST_OK) status = est_pass_extract(graph, &made.io, &made.graph);
    if (status != EST_OK) {
        est_segment_clear(&made);
        return status;
    }
    made.io.n_targets = io->n_targets;
    *out              = made;
    return EST_OK;
}

void est_segment_clear(est_segment *segment)
{
    est_graph_free(segment->graph);
    est_free(segment->io.feeds); /* all three lists */
    *segment = (est_segment){ 0 };
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

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

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* "name:output" as a node of the graph; a target without outputs is called "name:0". */
static est_status find_node(const est_segment_graph *p, const est_map *names, est_str text, bool is_run, est_node *out)
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

static est_status read_nodes(est_segment_graph *p, est_str bytes, const est_map *names)
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

static est_status read_graph(est_segment_graph *p, est_str bytes)
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

static est_status read_segment(est_segment_graph *p, est_str bytes)
{
    est_map    names  = { 0 };
    est_status status = read_graph(p, bytes);

    for (int32_t id = 0; status == EST_OK && id < est_graph_size(p->graph); id++) {
        status = est_map_put(&names, est_graph_node(p->graph, id)->name, est_graph_node(p->graph, id));
    }
    if (status == EST_OK) status = read_nodes(p, bytes, &names);
    est_map_clear(&names);
    return status;
}

est_status est_segment_read(est_str bytes, uint64_t seed, est_segment_graph *out)
{
    est_segment_graph p = { 0 };
    est_status        status;

    EST_TRY(est_graph_create(seed, &p.graph));
    status = read_segment(&p, bytes);
    if (status != EST_OK) {
        est_segment_graph_clear(&p);
        return status;
    }
    *out = p;
    return EST_OK;
}

void est_segment_graph_clear(est_segment_graph *segment)
{
    est_graph_free(segment->graph);
    est_free(segment->nodes);
    *segment = (est_segment_graph){ 0 };
}
