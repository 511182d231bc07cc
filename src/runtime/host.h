/* SPDX-License-Identifier: Apache-2.0
 *
 * A task's side of runtime/remote.h: variables for other tasks, and the segments that those have entered.
 *
 * A segment travels as bytes (est_segment_encode): a GraphDef and the names of its feeds, fetches and targets. Equal
 * segments, as the workers of one job enter them, are one hosted segment with one plan.
 *
 * Threading: one thread at a time. */
#ifndef EST_RUNTIME_HOST_H
#define EST_RUNTIME_HOST_H

#include "base/pool.h"
#include "runtime/segment.h"

typedef struct est_host est_host;

/* threads: as in est_session_options. */
EST_MUST_CHECK est_status est_host_create(int threads, est_host **out);
void                      est_host_free(est_host *host); /* NULL is fine */

est_store *est_host_store(est_host *host);
est_pool  *est_host_pool(est_host *host);

/* Creates a segment from its bytes, or finds the one with the same bytes; *segment is its slot, from 0 up. A graph that
 * cannot be read, or that does not fit existing variables, is an error that changes nothing. */
EST_MUST_CHECK est_status est_host_enter(est_host *host, const void *bytes, size_t size, int *segment);

/* Frees a segment, not the variables. Its slot may get another segment, with another number. */
void est_host_leave(est_host *host, int segment);

/* The number of the segment in a slot, which no other segment of this host ever has; the slot of a number, -1: the
 * segment was left, or never was here. */
uint64_t est_host_number(const est_host *host, int segment);
int      est_host_find(const est_host *host, uint64_t number);

/* The fingerprint of its bytes, which is the same in all hosts. */
uint64_t est_host_print(const est_host *host, int segment);

/* The segments: slots, free ones included; inputs, outputs, effects. */
int              est_host_segments(const est_host *host);
int              est_host_inputs(const est_host *host, int segment);
int              est_host_outputs(const est_host *host, int segment);
const est_graph *est_host_graph(const est_host *host, int segment);        /* borrowed */
est_node         est_host_input(const est_host *host, int segment, int i); /* a Placeholder of its graph */
bool             est_host_writes(const est_host *host, int segment);
bool             est_host_counts(const est_host *host, int segment,
                                 const char *variable); /* whether it updates the variable from its value */
bool             est_host_share(const est_host *host, int a, int b); /* whether both change one variable */

/* Runs a segment. Outputs (est_host_output), which may be variables, are not copied: valid until the next run of any
 * segment. */
EST_MUST_CHECK est_status est_host_run(est_host *host, int segment, uint64_t run_seed, const est_tensor *const *inputs);
const est_view           *est_host_output(const est_host *host, int segment, int i);

#endif
