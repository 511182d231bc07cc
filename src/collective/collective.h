/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that all ranks of a group do together.
 *
 * Every rank begins the same operations in the same order; an operation is known by its place in that order, so that several may be
 * under way. One that is begun goes on by itself, in the network thread. Ranks that begin different operations are told so: the group is aborted.
 *
 * Results have the same bits on all ranks, and in every run with the same number of ranks, sizes, hosts and algorithm: every sum is added up by
 * one rank in an order that follows from its place alone, and copied from there, or by all in order of rank. The mean is that sum
 * divided by the number of ranks; of integers the quotient is cut off towards zero.
 *
 * Every operation has a deadline, after which its wait fails with EST_DEADLINE_EXCEEDED, naming the rank that it waited for, and
 * aborts the group. */
#ifndef EST_COLLECTIVE_COLLECTIVE_H
#define EST_COLLECTIVE_COLLECTIVE_H

#include "collective/group.h"
#include "estoc/tensor.h"

/* An operation under way: to be waited for once, which frees it. */
typedef struct est_work est_work;

typedef struct est_collective_options {
    double            deadline_secs; /* 0: the group's; from the begin of the operation to the end of its wait */
    est_communication communication; /* auto: the group's */
} est_collective_options;

/* Waits for the end of an operation. Its memory is the caller's again then, whatever came of it. */
EST_MUST_CHECK est_status est_work_wait(est_work *work);

/* --- operations: memory is borrowed until the wait is over; options may be NULL ----------------------------------------- */

/* Replaces `count` elements by the sum or mean over all ranks. F32, F64 or I64. */
EST_MUST_CHECK est_status est_all_reduce(est_rank_group *group, void *data, size_t count, est_dtype dtype,
                                         est_reduce_op reduction, const est_collective_options *options,
                                         est_work **out);

/* The same, but of the result a rank gets only its segment, where it lies in `data`; the rest of data has no meaning. */
EST_MUST_CHECK est_status est_reduce_scatter(est_rank_group *group, void *data, size_t count, est_dtype dtype,
                                             est_reduce_op reduction, const est_collective_options *options,
                                             est_work **out);

/* Where the segment of a rank begins; of rank n: the end. The first count % n segments have one element more. */
size_t est_segment_begin(size_t count, int n, int rank);

/* `bytes` of every rank, by rank, into `all`: n * bytes. `mine` may lie in its place there. */
EST_MUST_CHECK est_status est_all_gather(est_rank_group *group, const void *mine, size_t bytes, void *all,
                                         const est_collective_options *options, est_work **out);

/* What was gathered where lengths differ: rank i's bytes are from begins[i] to begins[i + 1]. */
typedef struct est_gathered {
    void   *data;
    size_t *begins; /* [n + 1] */
} est_gathered;

/* The same where the ranks have different lengths, which none knows of the others. *all, which is filled by a wait that succeeds,
 * is given back with est_gathered_clear. */
EST_MUST_CHECK est_status est_all_gather_uneven(est_rank_group *group, const void *mine, size_t bytes,
                                                est_gathered *all, const est_collective_options *options,
                                                est_work **out);
void                      est_gathered_clear(est_gathered *gathered); /* a zeroed one is fine */

/* The bytes of rank `root` to all. */
EST_MUST_CHECK est_status est_broadcast(est_rank_group *group, void *data, size_t bytes, int root,
                                        const est_collective_options *options, est_work **out);

/* Ends when all ranks have begun it. */
EST_MUST_CHECK est_status est_barrier(est_rank_group *group, const est_collective_options *options, est_work **out);

/* --- many tensors ------------------------------------------------------------------------------------------------------ */

typedef struct est_reduced {
    void     *data;
    size_t    count;
    est_dtype dtype;
} est_reduced;

/* Reduces n tensors in packs, and waits. The last tensor goes first, since its gradient is there first; a pack is closed once it
 * has more than bytes_per_pack, or when the dtype changes. 0: one pack of all. A pack of one tensor is not copied. */
EST_MUST_CHECK est_status est_all_reduce_packed(est_rank_group *group, const est_reduced *tensors, int n,
                                                size_t bytes_per_pack, est_reduce_op reduction,
                                                const est_collective_options *options);

/* Rows by index, for sparse gradients. */
typedef struct est_indexed_rows {
    int64_t *indices; /* [n] */
    void    *values;  /* [n, row_count] */
    int64_t  n;
} est_indexed_rows;

/* Sums rows that have the same index, over all ranks and within each, and waits. Every index comes once in *out, which is the same
 * on all ranks: in order of rank, then of first sight. Ranks may have any number of rows, and none. The mean divides by the
 * number of ranks, whether or not each had the row. *out is given back with est_indexed_rows_clear. */
EST_MUST_CHECK est_status est_all_reduce_rows(est_rank_group *group, const est_indexed_rows *rows, size_t row_count,
                                              est_dtype dtype, est_reduce_op reduction,
                                              const est_collective_options *options, est_indexed_rows *out);
void                      est_indexed_rows_clear(est_indexed_rows *rows); /* a zeroed one is fine */

/* What a rank has of a table. */
typedef struct est_sparse_sum_table {
    est_indexed_rows rows; /* only read */
    size_t           row_count;
    est_dtype        dtype;
    double           factor;   /* what values are multiplied by, unless they are integers */
    bool             distinct; /* no index comes twice */
} est_sparse_sum_table;

/* The same in two halves, so that others may be begun in between, and of n tables at once, which travel as one. Begin sums this
 * rank's rows by index, which copies them: the caller's memory is free after it. End waits, sums those of all ranks and frees the
 * work, whatever came of it; it is called once for every begin that succeeded, and out[n] is written only on success. */
typedef struct est_sparse_sum_work est_sparse_sum_work;

EST_MUST_CHECK est_status est_sparse_sum_begin(est_rank_group *group, const est_sparse_sum_table *tables, int n,
                                               const est_collective_options *options, est_sparse_sum_work **out);
EST_MUST_CHECK est_status est_sparse_sum_end(est_sparse_sum_work *work, est_reduce_op reduction, est_indexed_rows *out);

/* --- which algorithm ---------------------------------------------------------------------------------------------------- */

/* A line of the table of sums that est_collective_choose looks into: the first that fits is taken. */
typedef struct est_collective_rule {
    int               n_max;     /* ranks; 0: any number */
    size_t            bytes_max; /* of the whole; 0: any */
    est_topology      topology;
    est_communication choice;
} est_collective_rule;

const est_collective_rule *est_collective_rules(int *n);
est_communication          est_collective_choose(int n, size_t bytes, est_topology topology);
const char                *est_communication_name(est_communication communication); /* "ring" */
const char                *est_communication_text(est_communication communication); /* what it is, in words */

const char *est_topology_text(est_topology topology); /* "one host" */

/* From the name that the option has: auto, ring, halving, direct, hierarchical, shared, nccl. */
EST_MUST_CHECK est_status est_communication_find(const char *name, est_communication *out);

#endif
