/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session asks of the other workers of synchronous training: the contract that strategy/ keeps with collectives and
 * tests keep with threads.
 *
 * A graph says what is to meet: EstReduce (a tensor) and EstReduceRows (rows by index). Both are placeholders, which no kernel
 * runs: est_pass_reduce puts EstReduceBegin and EstReduceEnd in their places, in the private graph of a step. Values travel
 * in packs, which leave as soon as the last value in them is made, while the rest of the step is still computed, and are
 * waited for at the end. No variable is written before everything that meets in the step has met: a step that
 * fails on the way leaves the variables as they were. Only keys of dynamic embeddings are counted and get rows before, since
 * their gradients are by row: a step that is repeated counts its keys twice.
 *
 * Weights: every value comes with one (the number of examples it is of). A mean is that of all examples; whoever has weight 0
 * contributes nothing, not even a NaN. When the weights of all workers are 0 the step has nobody to learn from and
 * fails with EST_OUT_OF_RANGE on all of them before anything is written: for good when all are idle (est_communicator.ended is set),
 * else only this one, since a worker may have an empty batch and examples behind it (est_communicator.empty is set).
 *
 * All workers begin the same packs in the same order, whatever else each of them fetches. Threading: one thread at a time. */
#ifndef EST_RUNTIME_COMMUNICATOR_H
#define EST_RUNTIME_COMMUNICATOR_H

#include "graph/op.h"
#include "runtime/pass.h"

/* How often in a row those who lost a worker, or a task, try again without a new step between. */
#define EST_RECOVERIES_MAX 100

typedef struct est_communicator est_communicator;
typedef struct est_comm_work    est_comm_work; /* something under way */

/* Rows of a table by index, of one worker or of all. */
typedef struct est_comm_rows {
    const int64_t *indices; /* [n] */
    const void    *values;  /* [n, row_count] */
    int64_t        n;
    size_t         row_count;
    est_dtype      dtype;
    double         factor;   /* of one worker: what values are multiplied by, unless they are integers */
    bool           distinct; /* no index comes twice */
} est_comm_rows;

typedef struct est_communicator_ops {
    /* Begins to replace `count` elements (F32, F64, I64) by the sum over all workers; data is theirs until the wait is over. */
    EST_MUST_CHECK est_status (*sum)(est_communicator *communicator, void *data, size_t count, est_dtype dtype,
                                     est_comm_work **out);
    EST_MUST_CHECK est_status (*wait)(est_communicator *communicator,
                                      est_comm_work    *work); /* and frees it, whatever comes of it */

    /* Begins to bring the rows of all workers together, those of n tables at once; `tables` and what they point to are copied. The
     * wait gives each index of a table once, values summed, the same on all workers; borrowed, to be written to as well, until the
     * next `rows` of the same `slot` (a number from 0 up, a slot for each `rows` of a step). */
    EST_MUST_CHECK est_status (*rows)(est_communicator *communicator, int slot, const est_comm_rows *tables, int n,
                                      est_comm_work **out);
    EST_MUST_CHECK est_status (*wait_rows)(est_communicator *communicator, est_comm_work *work,
                                           est_comm_rows *out); /* [n]: indices, values, n */

    /* Begins to bring together the bytes of all workers, whose numbers may differ; the wait gives those of worker i at
     * data + begins[i] .. data + begins[i + 1]; borrowed until the next gather of the same slot. */
    EST_MUST_CHECK est_status (*gather)(est_communicator *communicator, int slot, const void *mine, size_t bytes,
                                        est_comm_work **out);
    EST_MUST_CHECK est_status (*wait_gather)(est_communicator *communicator, est_comm_work *work, const void **data,
                                             const size_t **begins);

    /* Ends everything under way: the others' waits fail with EST_ABORTED and this reason, those here fail, too. */
    void (*abort)(est_communicator *communicator, const char *why);
} est_communicator_ops;

#define EST_BYTES_PER_PACK ((size_t)4 << 20)

struct est_communicator {
    const est_communicator_ops *ops;
    int                         n, rank;        /* workers, and which of them this is */
    size_t                      bytes_per_pack; /* 0: EST_BYTES_PER_PACK; a pack is closed once it has more */
    bool                        idle;           /* for the next step, set by who runs it: the input here has ended */
    bool                        ended; /* set by EstReduceEnd: the last step was none, as all workers were idle; */
    bool                        empty; /* or as none had an example, and not all were */
};

/* --- the exchange of a step (runtime/reduce_packs.c) ------------------------------------------------------------------------ */

/* What a step brings together, and what of that is under way. */
typedef struct est_exchange est_exchange;

/* Puts what brings values together in the place of EstReduce, EstReduceRows and EstGather, in a graph that was taken out of
 * `program`. Without peers (NULL) they are taken out, and *out is NULL. */
EST_MUST_CHECK est_status est_pass_reduce(est_graph *graph, const est_graph *program, est_io *io,
                                          est_communicator *communicator, est_arena *arena, est_exchange **out);

/* Adds to the targets of a step what it would bring together if nothing were fed, and what writes variables with that, as far as
 * the feeds let it be computed. So a worker that feeds est_reduce_inputs begins what all others begin, and changes what they change. Of
 * its targets those are left out that need a batch, but for what they write without one. */
EST_MUST_CHECK est_status est_reduce_unhide(const est_graph *program, est_io *io, est_arena *arena);

/* What the graph brings together, values and weights, in order and none twice: at most `max` of them, and how many there are. A worker that
 * has nothing to bring feeds these and need not compute them. */
int est_reduce_inputs(const est_graph *graph, est_node *out, int max);

/* What a kernel of the exchange finds as its call's state; NULL: the node is of none. */
void *est_exchange_state(est_exchange *exchange, const est_node_def *node);

/* After a run that failed: tells the others why, if they cannot know, and waits for what was begun and not ended, whose memory
 * is the step's again. NULL is fine. */
void est_exchange_abandon(est_exchange *exchange, const char *why);
void est_exchange_free(est_exchange *exchange); /* NULL is fine */

#endif
