/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts ranges into blocks for the pool. */
#include "kernels/parallel.h"

#define BLOCKS_MAX 64

typedef struct range_job {
    est_range_fn fn;
    void        *arg;
    int64_t      n;
    int64_t      per_block;
} range_job;

int64_t est_parallel_blocks(int64_t n, double ns_per_item)
{
    double  total  = (double)n * ns_per_item;
    int64_t blocks = (int64_t)(total / EST_BLOCK_NS);

    if (blocks > BLOCKS_MAX) blocks = BLOCKS_MAX;
    if (blocks > n) blocks = n;
    return blocks < 1 ? 1 : blocks;
}

static void run_block(void *arg, int64_t task, int thread)
{
    const range_job *job   = arg;
    int64_t          begin = task * job->per_block;
    int64_t          end   = begin + job->per_block;

    (void)thread;
    if (end > job->n) end = job->n;
    if (begin < end) job->fn(job->arg, begin, end, task);
}

void est_parallel_for(est_pool *pool, int64_t n, int64_t grain, double ns_per_item, est_range_fn fn, void *arg)
{
    int64_t   blocks = est_parallel_blocks(n, ns_per_item);
    range_job job    = { fn, arg, n, 0 };

    if (n <= 0) return;
    if (blocks == 1) {
        fn(arg, 0, n, 0);
        return;
    }
    job.per_block = (n + blocks - 1) / blocks;
    job.per_block = (job.per_block + grain - 1) / grain * grain;
    est_pool_for(pool, (n + job.per_block - 1) / job.per_block, run_block, &job);
}
