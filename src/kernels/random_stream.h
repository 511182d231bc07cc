/* SPDX-License-Identifier: Apache-2.0
 *
 * Random streams of ops: which numbers a node draws in a run.
 *
 * Element i of a random op is a function of its two seeds, the run and i. So an op may be split among threads, run
 * twice or run again for a gradient and draws the same. */
#ifndef EST_KERNELS_RANDOM_STREAM_H
#define EST_KERNELS_RANDOM_STREAM_H

#include "base/random.h"
#include "graph/op.h"

static inline uint64_t est_stream_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* For prepare(): the key of the attributes seed and seed2. */
static inline int64_t est_stream_key(const est_node_def *node)
{
    uint64_t seed = (uint64_t)est_node_int(node, "seed"), seed2 = (uint64_t)est_node_int(node, "seed2");

    return (int64_t)est_stream_mix(est_stream_mix(seed + UINT64_C(0x9E3779B97F4A7C15)) + seed2);
}

/* For run(): the stream under that key in this run. */
static inline est_random est_stream(const est_call *c, int64_t key)
{
    return (est_random){ .key = (uint64_t)key, .stream = c->run_seed != NULL ? *c->run_seed : 0 };
}

#endif
