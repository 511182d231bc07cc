/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that travel: a graph with feeds, fetches and targets as bytes, as tasks send segments of steps and functions
 * to each other. Threading: one thread at a time. */
#ifndef EST_RUNTIME_SEGMENT_H
#define EST_RUNTIME_SEGMENT_H

#include "format/wire.h"
#include "runtime/remote.h"

/* Appends a segment as bytes. */
EST_MUST_CHECK est_status est_segment_encode(const est_segment *segment, est_wire_writer *out);

/* The part of a graph that `io` needs, with the operations that fill its tables: what a segment needs in order to run
 * elsewhere. Sets out->graph and out->io, to be freed with est_segment_clear. The original must outlive the part. */
EST_MUST_CHECK est_status est_segment_extract(const est_graph *graph, const est_io *io, est_segment *out);
void                      est_segment_clear(est_segment *segment); /* a zeroed struct is fine */

/* What the bytes contain. */
typedef struct est_segment_graph {
    est_graph *graph;
    est_io     io;
    est_node  *nodes; /* of io, all three lists */
    bool       writes;
} est_segment_graph;

/* seed: of the graph, for random operations without one. After a failure *out is unchanged. */
EST_MUST_CHECK est_status est_segment_read(est_str bytes, uint64_t seed, est_segment_graph *out);
void                      est_segment_graph_clear(est_segment_graph *segment); /* a zeroed struct is fine */

#endif
