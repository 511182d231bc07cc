/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSortIds: a list of ids in order, each with its place (kernels/sorted_ids.h). What sums rows of the same id goes
 * along it; it needs nothing but the ids, so that a device sorts them while it computes something else. Made only by
 * runtime/fuse_joins.c, in private copies of a graph. */
#include "kernels/sorted_ids.h"

#include <string.h>

#include "kernels/variable_access.h"
#include "ops/ops.h"

#include "cuda/launchers.h"

static est_status sort_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 0, 1));
    c->out[0] = EST_SHAPE(est_infer_dim(&c->in[0], 0));
    return EST_OK;
}

/* Room for as many keys again. */
static size_t sort_scratch(const est_call *c)
{
    return (size_t)c->in[0]->count * sizeof(uint64_t);
}

/* Merges [begin, middle) and [middle, end). */
static void merge(const uint64_t *from, uint64_t *to, int64_t begin, int64_t middle, int64_t end)
{
    int64_t a = begin, b = middle;

    for (int64_t i = begin; i < end; i++) {
        bool left = a < middle && (b == end || from[a] < from[b]);

        to[i] = left ? from[a++] : from[b++];
    }
}

static est_status sort_cpu(est_call *c)
{
    int64_t   n = c->in[0]->count, least = c->in[0]->dtype == EST_I64 ? INT64_MIN : INT32_MIN;
    uint64_t *keys = c->out[0].data, *other = c->scratch;

    for (int64_t i = 0; i < n; i++) {
        int64_t id = est_row_at(c->in[0]->data, c->in[0]->dtype == EST_I64, i);

        keys[i] = est_sorted_key(id, id == least, i);
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t middle = at + width < n ? at + width : n, end = middle + width < n ? middle + width : n;

            merge(keys, other, at, middle, end);
        }
        memcpy(keys, other, (size_t)n * sizeof *keys);
    }
    return EST_OK;
}

/* What has many bits takes longer than its size suggests, but lists of many tables are sorted as one. */
static bool is_light(const est_call *c)
{
    (void)c;
    return true;
}

static bool sort_accepts(const est_call *c)
{
    return c->in[0]->count <= (int64_t)1 << EST_PLACE_BITS;
}

const est_op est_op_sort_ids = {
    .name      = "EstSortIds",
    .signature = "ids: Tids -> sorted: int64; Tids: {int32, int64}",
    .infer     = sort_infer,
    .cpu       = EST_KERNELS({ .run = sort_cpu, .accepts = sort_accepts, .scratch = sort_scratch }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(sort_ids), .accepts = sort_accepts, .scratch = sort_scratch, .light = is_light }),
    .heavy   = true,
    .planned = true,
};
