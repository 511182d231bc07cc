/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDedup on a GPU: cuda/rows.cuh. */
#include "cuda/rows.cuh"
#include "kernels/variable_access.h"

template <typename T> static int launch(const est_call *c)
{
    est_runs<T> r = {};

    r.ids       = c->in[1]->data;
    r.wide      = c->in[1]->dtype == EST_I64;
    r.rows.n    = c->in[1]->count;
    r.rows.dy   = est_data<T>(c->in[0]);
    r.rows.cols = (int)est_row_size(c->in[0]);
    r.rows.step = r.rows.cols;
    r.sums      = est_data<T>(&c->out[0]);
    r.indices   = c->out[1].data;
    r.packed    = sizeof(T) == 4 && r.rows.cols % 4 == 0 && est_aligned(r.rows.dy) && est_aligned(r.sums);
    est_runs_scratch(&r, c->scratch);
    return est_batch_add(c, est_runs_launch<T>, r, (size_t)r.rows.n * EST_RUNS_BYTES);
}

EST_DEFINE_LAUNCHER(dedup)
{
    return c->out[0].dtype == EST_F32 ? launch<float>(c) : launch<double>(c);
}
