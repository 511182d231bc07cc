/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDistinctIds: the ids of a tensor that are not negative, each once and in order of first sight, and for every
 * element its place among them, -1 where it is negative. What a task asks another for, and how it then finds what it
 * got. */
#include <inttypes.h>

#include "kernels/distinct.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"
#include "tensor/shape.h"

static est_status distinct_infer(est_infer *c)
{
    int64_t n = est_shape_is_known(&c->in[0]) ? est_shape_count(&c->in[0]) : -1;

    c->out[0] = EST_SHAPE(n < 0 ? -1 : est_infer_at_most(c, n));
    c->out[1] = c->in[0];
    return EST_OK;
}

/* Scratch: the ids that count, their places, the table. */
static size_t distinct_scratch(const est_call *c)
{
    int64_t n = c->in[0]->count;

    return (size_t)n * (sizeof(int64_t) + sizeof(int32_t)) + est_distinct_table_bytes(n);
}

#define SPREAD(T, suffix)                                                                                              \
    static int64_t keep_##suffix(const T *ids, int64_t n, T *kept)                                                     \
    {                                                                                                                  \
        int64_t found = 0;                                                                                             \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            kept[found] = ids[i];                                                                                      \
            found += ids[i] >= 0;                                                                                      \
        }                                                                                                              \
        return found;                                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    static void spread_##suffix(const T *ids, int64_t n, const int32_t *place, T *out)                                 \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) out[i] = ids[i] >= 0 ? *place++ : -1;                                          \
    }
SPREAD(int32_t, i32)
SPREAD(int64_t, i64)

static est_status distinct_cpu(est_call *c)
{
    const est_view *ids   = c->in[0];
    bool            wide  = ids->dtype == EST_I64;
    void           *kept  = c->scratch;
    int32_t        *place = (int32_t *)((int64_t *)c->scratch + ids->count);
    int64_t         n;

    if (ids->count > EST_DISTINCT_MAX) {
        return est_fail(EST_UNIMPLEMENTED, "too many ids: %" PRId64, ids->count);
    }
    n = wide ? keep_i64(ids->data, ids->count, kept) : keep_i32(ids->data, ids->count, kept);
    n = est_distinct(kept, wide, n, c->out[0].data, place, place + ids->count);
    if (wide) {
        spread_i64(ids->data, ids->count, place, c->out[1].data);
    } else {
        spread_i32(ids->data, ids->count, place, c->out[1].data);
    }
    c->out[0].shape.dim[0] = n;
    c->out[0].count        = n;
    return EST_OK;
}

const est_op est_op_distinct_ids = {
    .name      = "EstDistinctIds",
    .signature = "ids: T -> distinct: T, place: T; T: {int32, int64}",
    .infer     = distinct_infer,
    .cpu       = EST_KERNELS({ .run = distinct_cpu, .scratch = distinct_scratch }),
    .planned   = true,
    .shrinks   = true,
    .distinct  = 1u << 0,
};
