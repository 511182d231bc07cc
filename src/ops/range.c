/* SPDX-License-Identifier: Apache-2.0
 *
 * Range: start, start + delta, ... before limit. Integers only: how many there are follows from the three values, and
 * shape functions see those of integers. */
#include "ops/array.h"

/* Element 0 of a known value; false when it is not known. */
static bool known(const est_infer *c, int input, int64_t *out)
{
    const est_value *value = est_infer_value(c, input);

    if (value == NULL || value->n != 1 || value->v[0] == EST_VALUE_UNKNOWN) return false;
    *out = value->v[0];
    return true;
}

static est_status range_infer(est_infer *c)
{
    int64_t start, limit, delta, n;

    for (int i = 0; i < 3; i++) EST_TRY(est_infer_rank(c, i, 0));
    c->out[0] = est_shape_of_rank(1);
    if (!known(c, 0, &start) || !known(c, 1, &limit) || !known(c, 2, &delta)) return EST_OK;
    if (delta == 0) return est_fail(EST_INVALID_ARGUMENT, "range needs a delta other than 0");
    if ((delta > 0 && start > limit) || (delta < 0 && start < limit)) {
        return est_fail(EST_INVALID_ARGUMENT, "range cannot go from %lld to %lld by %lld", (long long)start,
                        (long long)limit, (long long)delta);
    }
    n                = delta > 0 ? (limit - start + delta - 1) / delta : (start - limit - delta - 1) / -delta;
    c->out[0].dim[0] = n;
    if (n <= EST_VALUE_MAX) {
        c->out_value[0].n = (int32_t)n;
        for (int64_t i = 0; i < n; i++) c->out_value[0].v[i] = start + i * delta;
    }
    return EST_OK;
}

static est_status range_cpu(est_call *c)
{
    int64_t start = est_view_int(c->in[0], 0), delta = est_view_int(c->in[2], 0), n = c->out[0].count;

    if (c->out[0].dtype == EST_I32) {
        int32_t *y = c->out[0].data;
        for (int64_t i = 0; i < n; i++) y[i] = (int32_t)(start + i * delta);
    } else {
        int64_t *y = c->out[0].data;
        for (int64_t i = 0; i < n; i++) y[i] = start + i * delta;
    }
    return EST_OK;
}

const est_op est_op_range = {
    .name      = "Range",
    .signature = "start: Tidx, limit: Tidx, delta: Tidx -> output: Tidx; Tidx: {int32, int64} = int32",
    .infer     = range_infer,
    .cpu       = EST_KERNELS({ .run = range_cpu }),
};

est_node est_range(est_node start, est_node limit, est_node delta)
{
    est_node  in[3] = { start, limit, delta };
    est_dtype dtype;

    for (int i = 0; i < 3; i++) {
        dtype = est_node_dtype(in[i]);
        if (dtype == EST_F32 || dtype == EST_F64) {
            return est_graph_poison(in[i].graph, est_fail(EST_INVALID_ARGUMENT,
                                                          "est_range counts in int32 or int64, not in %s: make a range "
                                                          "of integers, then est_cast and est_scale it",
                                                          est_dtype_name(dtype)));
        }
    }
    return est_build3(&est_op_range, start, limit, delta, EST_NO_ATTRS);
}
