/* SPDX-License-Identifier: Apache-2.0
 *
 * StringToHashBucketFast: out[i] = Fingerprint64(bytes of element i) mod num_buckets.
 * StringToHashBucketStrong: the same of SipHash with a key, for strings that somebody may choose to collide. */
#include <inttypes.h>

#include "base/fingerprint.h"
#include "base/siphash.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

static est_status hash_infer(est_infer *c)
{
    int64_t n = est_node_int(c->node, "num_buckets");

    if (n < 1) return est_fail(EST_INVALID_ARGUMENT, "num_buckets is %" PRId64 "; at least 1 is needed", n);
    return est_infer_same_as_input(c);
}

static est_status hash_prepare(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "num_buckets");
    return EST_OK;
}

static void hash_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c  = arg;
    const est_str  *in = c->in[0]->data;
    int64_t        *to = c->out[0].data;
    uint64_t        n  = (uint64_t)c->param[0].i;

    (void)block;
    for (int64_t i = begin; i < end; i++) to[i] = (int64_t)(est_fingerprint64(in[i].data, in[i].size) % n);
}

static est_status hash_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[0]->count, 8, 20.0, hash_range, c);
    return EST_OK;
}

const est_op est_op_string_to_hash_bucket = {
    .name      = "StringToHashBucketFast",
    .signature = "input: string -> output: int64; num_buckets: int",
    .infer     = hash_infer,
    .cpu       = EST_KERNELS({ .run = hash_cpu, .prepare = hash_prepare }),
};

est_node est_string_to_hash_bucket(est_node strings, int64_t n_buckets)
{
    return est_build1(&est_op_string_to_hash_bucket, strings, EST_ATTRS(est_attr_int("num_buckets", n_buckets)));
}

/* --- StringToHashBucketStrong ------------------------------------------------------------------------------------- */

enum { N_BUCKETS, KEY_0, KEY_1 }; /* in param[]; the first as above */

static est_status strong_infer(est_infer *c)
{
    int n = est_node_ints(c->node, "key").n;

    if (n != 2) return est_fail(EST_INVALID_ARGUMENT, "key has %d numbers; expected 2", n);
    return hash_infer(c);
}

static est_status strong_prepare(est_call *c)
{
    est_i64s key = est_node_ints(c->node, "key");

    c->param[KEY_0].i = key.data[0];
    c->param[KEY_1].i = key.data[1];
    return hash_prepare(c);
}

static void strong_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c      = arg;
    const est_str  *in     = c->in[0]->data;
    int64_t        *to     = c->out[0].data;
    uint64_t        n      = (uint64_t)c->param[N_BUCKETS].i;
    uint64_t        key[2] = { (uint64_t)c->param[KEY_0].i, (uint64_t)c->param[KEY_1].i };

    (void)block;
    for (int64_t i = begin; i < end; i++) to[i] = (int64_t)(est_siphash(key, in[i].data, in[i].size) % n);
}

static est_status strong_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[0]->count, 8, 40.0, strong_range, c);
    return EST_OK;
}

const est_op est_op_string_to_hash_bucket_strong = {
    .name      = "StringToHashBucketStrong",
    .signature = "input: string -> output: int64; num_buckets: int; key: ints",
    .infer     = strong_infer,
    .cpu       = EST_KERNELS({ .run = strong_cpu, .prepare = strong_prepare }),
};
