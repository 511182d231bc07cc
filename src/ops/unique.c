/* SPDX-License-Identifier: Apache-2.0
 *
 * Unique: the distinct values of a vector in order of first sight, and for every element which of them it is.
 *
 * One pass with an open-addressing hash table that lives in the plan's scratch memory: a slot holds 1 + the place of a
 * value in y, 0 when it is free. At most half of the slots are taken, so probes are short. */
#include <inttypes.h>
#include <string.h>

#include "ops/ops.h"

static est_status unique_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 1));
    c->out[0] = EST_SHAPE(est_infer_at_most(c, est_infer_dim(&c->in[0], 0)));
    c->out[1] = EST_SHAPE(est_infer_dim(&c->in[0], 0));
    return EST_OK;
}

static uint64_t n_slots(int64_t count)
{
    uint64_t slots = 16;

    while (slots < 2 * (uint64_t)count) slots *= 2;
    return slots;
}

static size_t unique_scratch(const est_call *c)
{
    return n_slots(c->in[0]->count) * sizeof(uint32_t);
}

static inline uint64_t mix(uint64_t x)
{
    x *= UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 32;
}

static inline uint64_t hash_string(est_str s)
{
    uint64_t hash = s.size, part;
    size_t   i    = 0;

    for (; i + 8 <= s.size; i += 8) {
        memcpy(&part, s.data + i, 8);
        hash = mix(hash ^ part);
    }
    part = 0;
    if (s.size > i) memcpy(&part, s.data + i, s.size - i);
    return mix(hash ^ part);
}

static inline bool same_string(est_str a, est_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

#define HASH_INT(x)    mix((uint64_t)(x))
#define SAME_INT(a, b) ((a) == (b))

/* Returns how many distinct values there are. */
#define UNIQUE(T, suffix, hash, same)                                                                                  \
    static int64_t unique_##suffix(const T *x, int64_t n, T *y, est_view *index, uint32_t *slots)                      \
    {                                                                                                                  \
        uint64_t mask  = n_slots(n) - 1;                                                                               \
        int64_t  found = 0;                                                                                            \
        memset(slots, 0, (size_t)(mask + 1) * sizeof *slots);                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            uint64_t at = hash(x[i]) & mask;                                                                           \
            while (slots[at] != 0 && !same(y[slots[at] - 1], x[i])) at = (at + 1) & mask;                              \
            if (slots[at] == 0) {                                                                                      \
                y[found]  = x[i];                                                                                      \
                slots[at] = (uint32_t)++found;                                                                         \
            }                                                                                                          \
            if (index->dtype == EST_I64) {                                                                             \
                ((int64_t *)index->data)[i] = (int64_t)slots[at] - 1;                                                  \
            } else {                                                                                                   \
                ((int32_t *)index->data)[i] = (int32_t)(slots[at] - 1);                                                \
            }                                                                                                          \
        }                                                                                                              \
        return found;                                                                                                  \
    }
UNIQUE(int32_t, i32, HASH_INT, SAME_INT)
UNIQUE(int64_t, i64, HASH_INT, SAME_INT)
UNIQUE(est_str, string, hash_string, same_string)

static est_status unique_cpu(est_call *c)
{
    const est_view *x = c->in[0];
    est_view       *y = &c->out[0];
    int64_t         n;

    if (x->count > INT32_MAX) {
        return est_fail(EST_UNIMPLEMENTED, "Unique takes up to 2^31 - 1 elements, got %" PRId64, x->count);
    }
    switch (x->dtype) {
    case EST_I32: n = unique_i32(x->data, x->count, y->data, &c->out[1], c->scratch); break;
    case EST_I64: n = unique_i64(x->data, x->count, y->data, &c->out[1], c->scratch); break;
    default: n = unique_string(x->data, x->count, y->data, &c->out[1], c->scratch); break;
    }
    y->shape.dim[0] = n;
    y->count        = n;
    return EST_OK;
}

const est_op est_op_unique = {
    .name      = "Unique",
    .signature = "x: T -> y: T, idx: out_idx; T: {int32, int64, string}; out_idx: {int32, int64} = int32",
    .infer     = unique_infer,
    .cpu       = EST_KERNELS({ .run = unique_cpu, .scratch = unique_scratch }),
    .shrinks   = true,
};

est_node est_unique(est_node x, est_node *index)
{
    est_node y = est_build1(&est_op_unique, x, EST_NO_ATTRS);

    if (index != NULL) *index = est_output(y, 1);
    return y;
}
