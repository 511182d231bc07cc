/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session asks of the other workers of multi-worker training: the contract that collective/membership.h
 * implements with a group, and tests with threads.
 *
 * A graph names the values to reduce across workers: EstReduce (a tensor) and EstReduceRows (rows by index), and those
 * to gather: EstGather. They are placeholders without kernels: est_pass_reduce replaces them by EstReduceBegin and
 * EstReduceEnd in the private graph of a step. Values are all-reduced in packs, which are sent as soon as their last
 * value is computed, while the rest of the step still runs, and awaited at the end. No variable is written before all
 * exchanges of the step have ended: a step that fails on the way leaves the variables as they were. Only keys of
 * dynamic embeddings are counted and get rows earlier, since their gradients are by row: a step that is repeated counts
 * its keys twice.
 *
 * Weights: every value has one (its number of examples). A mean is that of all examples; a worker with weight 0
 * contributes nothing, not even a NaN. When the weights of all workers are 0, the step fails with EST_OUT_OF_RANGE on
 * all of them before anything is written: for good when all are idle (est_communicator.ended is set), else only this
 * step, since a worker may have an empty batch and examples after it (est_communicator.empty is set).
 *
 * All workers begin the same packs in the same order, whatever else each of them fetches. Threading: one thread at a
 * time. */
#ifndef EST_RUNTIME_COMMUNICATOR_H
#define EST_RUNTIME_COMMUNICATOR_H

#include "graph/op.h"
#include "runtime/pass.h"

/* Recoveries from a lost worker or task in a row, without a completed step between them, before a run fails. */
#define EST_RECOVERIES_MAX 100

typedef struct est_communicator est_communicator;
typedef struct est_comm_work    est_comm_work; /* an operation under way */

/* Rows of a table by index, of one worker or of all. */
typedef struct est_comm_rows {
    const int64_t *indices; /* [n] */
    const void    *values;  /* [n, row_count] */
    int64_t        n;
    size_t         row_count;
    est_dtype      dtype;
    double         factor;   /* of one worker: multiplies the values, unless they are integers */
    bool           distinct; /* no index is repeated */
} est_comm_rows;

typedef struct est_communicator_ops {
    /* Begins an all-reduce: replaces `count` elements (F32, F64, I64) by the sum over all workers. `data` is in use
     * until the wait has ended, which frees the work, also on failure. */
    EST_MUST_CHECK est_status (*sum)(est_communicator *communicator, void *data, size_t count, est_dtype dtype,
                                     est_comm_work **out);
    EST_MUST_CHECK est_status (*wait)(est_communicator *communicator, est_comm_work *work);

    /* Begins an all-reduce of rows by index, of n tables at once; `tables` and their rows are copied. The wait returns,
     * in out[n], each index of a table once with the sum of its values, the same on all workers; borrowed, writable,
     * until the next `rows` of the same `slot` (from 0 up, one for each `rows` of a step). */
    EST_MUST_CHECK est_status (*rows)(est_communicator *communicator, int slot, const est_comm_rows *tables, int n,
                                      est_comm_work **out);
    EST_MUST_CHECK est_status (*wait_rows)(est_communicator *communicator, est_comm_work *work, est_comm_rows *out);

    /* Begins an all-gather of bytes, whose numbers may differ; the wait returns those of worker i at data + begins[i]
     * to data + begins[i + 1], borrowed until the next gather of the same slot. */
    EST_MUST_CHECK est_status (*gather)(est_communicator *communicator, int slot, const void *mine, size_t bytes,
                                        est_comm_work **out);
    EST_MUST_CHECK est_status (*wait_gather)(est_communicator *communicator, est_comm_work *work, const void **data,
                                             const size_t **begins);

    /* Ends everything under way: all waits, here and at the others, fail with EST_ABORTED and this reason. */
    void (*abort)(est_communicator *communicator, const char *why);
} est_communicator_ops;

#define EST_BYTES_PER_PACK ((size_t)4 << 20)

struct est_communicator {
    const est_communicator_ops *ops;
    int                         n, rank;        /* size and rank */
    size_t                      bytes_per_pack; /* 0: EST_BYTES_PER_PACK; a pack is closed once it has more */
    bool                        idle;           /* set by the caller for the next step: the input here has ended */
    bool ended;   /* set by EstReduceEnd: the last step had no example, as all workers were idle, which ends with it; */
    bool empty;   /* or although some were not */
    bool stop;    /* set by the caller for all steps from the next on: this worker requests a stop */
    bool stopped; /* set by EstReduceEnd: a worker did so in the last step, the same on all of them */
};

/* --- the exchange of a step (runtime/reduce_packs.c) -------------------------------------------------------------- */

/* The exchanges of a step, and their state. */
typedef struct est_exchange est_exchange;

/* Replaces EstReduce, EstReduceRows and EstGather by their exchange, in a graph that was extracted from `program`.
 * Without a communicator (NULL) they are removed, and *out is NULL. */
EST_MUST_CHECK est_status est_pass_reduce(est_graph *graph, const est_graph *program, est_io *io,
                                          est_communicator *communicator, est_arena *arena, est_exchange **out);

/* Adds to the targets of a step the exchanges that feeds would cut off, and the updates that use their results, as far
 * as they can be computed. So a worker that feeds est_reduce_inputs begins what all others begin, and updates what they
 * update. Its targets that need a batch are removed, except for the updates in them that need none. */
EST_MUST_CHECK est_status est_reduce_add_targets(const est_graph *program, est_io *io, est_arena *arena);

/* The inputs of all exchanges of the graph, values and weights, in order and none twice: writes at most `max` of them,
 * returns their number. A worker without a batch feeds these instead of computing them. */
int est_reduce_inputs(const est_graph *graph, est_node *out, int max);

/* The state of a kernel of the exchange; NULL: the node has none. */
void *est_exchange_state(est_exchange *exchange, const est_node_def *node);

/* After a failed run: aborts the others, if they cannot know, and waits for exchanges under way, whose memory is the
 * step's again afterwards. NULL is fine. */
void est_exchange_abandon(est_exchange *exchange, const char *why);
void est_exchange_free(est_exchange *exchange); /* NULL is fine */

#endif
