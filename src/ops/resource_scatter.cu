/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceScatterAdd, Sub and Update on a GPU. Indices may repeat: rows of the same index are summed first (cuda/rows.cuh),
 * in their order; of an Update the last one counts. */
#include "cuda/apply.cuh"
#include "cuda/rows.cuh"

struct scatter_add {
    static constexpr int slots = 0;

    EST_RULE_STEP(w[i] += g[i]; (void)k;)
    EST_RULE_TAKES_ALL
    static __device__ void scalars(const double *, int, bool, double *) {}
};

struct scatter_sub {
    static constexpr int slots = 0;

    EST_RULE_STEP(w[i] -= g[i]; (void)k;)
    EST_RULE_TAKES_ALL
    static __device__ void scalars(const double *, int, bool, double *) {}
};

/* The call's rows: scratch is that of the sorting, the sums and their indices. */
template <typename T> static est_runs<T> runs_of(const est_call *c)
{
    est_runs<T> r    = {};
    char       *room = (char *)c->scratch;

    r.ids       = c->in[1]->data;
    r.wide      = c->in[1]->dtype == EST_I64;
    r.rows.n    = c->in[1]->count;
    r.rows.dy   = est_data<T>(c->in[2]);
    r.rows.cols = (int)est_row_size(&est_call_variable(c, 0)->value);
    r.rows.step = r.rows.cols;
    r.sums      = (T *)(room + EST_SCATTER_SUMS(r.rows.n));
    r.indices   = (void *)(room + (size_t)r.rows.n * EST_RUNS_BYTES);
    r.packed    = sizeof(T) == 4 && r.rows.cols % 4 == 0 && est_aligned(r.rows.dy) && est_aligned(r.sums);
    est_runs_scratch(&r, room);
    return r;
}

template <typename Rule, typename T> static int launch_sums(const est_call *c)
{
    est_runs<T>       r = runs_of<T>(c);
    est_apply_args<T> a = est_apply_args_of<T>(c);
    int               error;

    if (r.rows.n == 0 || r.rows.cols == 0) return 0;
    error = est_runs_launch(c, &r, 1);
    if (error != 0) return error;
    a.g       = r.sums;
    a.indices = r.indices;
    a.packed  = sizeof(T) == 4 && a.cols % EST_APPLY_EACH == 0 && est_aligned(a.w) && est_aligned(a.g);
    return est_apply_launch_many<Rule, T>(c, &a, 1);
}

EST_DEFINE_LAUNCHER(resource_scatter_add)
{
    return c->in[2]->dtype == EST_F32 ? launch_sums<scatter_add, float>(c) : launch_sums<scatter_add, double>(c);
}

EST_DEFINE_LAUNCHER(resource_scatter_sub)
{
    return c->in[2]->dtype == EST_F32 ? launch_sums<scatter_sub, float>(c) : launch_sums<scatter_sub, double>(c);
}

/* --- the last one counts -------------------------------------------------------------------------------------------- */

static __global__ void forget_last(int32_t *last, int64_t rows)
{
    int64_t i = est_thread();

    if (i < rows) last[i] = 0;
}

template <typename T> static __global__ void note_last(est_apply_args<T> a, int64_t n, int32_t *last)
{
    int64_t i = est_thread(), row;

    if (i >= n) return;
    row = est_index_at(a.indices, a.wide, i);
    if (row >= 0 && row < a.rows) {
        atomicMax(&last[row], (int32_t)i + 1);
    } else {
        est_report(a.reporter, i, row, 0);
    }
}

/* A scalar goes to every row named. */
template <typename T>
static __global__ void write_last(est_apply_args<T> a, int64_t n, const int32_t *last, bool scalar)
{
    int64_t i = est_thread(), at = est_divide(i, a.cols), row;

    if (i >= n * a.cols || est_has_failed(a.reporter)) return;
    row = est_index_at(a.indices, a.wide, at);
    if (last[row] == at + 1) a.w[row * a.cols + i - at * a.cols] = a.g[scalar ? 0 : i];
}

template <typename T> static int launch_update(const est_call *c)
{
    est_apply_args<T> a    = est_apply_args_of<T>(c);
    int64_t           n    = c->in[1]->count;
    int32_t          *last = (int32_t *)c->scratch;
    int               error;

    error = est_launch(c, forget_last, dim3(est_blocks(a.rows)), EST_BLOCK, last, a.rows);
    if (error == 0) error = est_launch(c, note_last<T>, dim3(est_blocks(n)), EST_BLOCK, a, n, last);
    if (error != 0) return error;
    return est_launch(c, write_last<T>, dim3(est_blocks(n * est_row_size(&est_call_variable(c, 0)->value))), EST_BLOCK,
                      a, n, (const int32_t *)last, c->in[2]->shape.rank == 0);
}

EST_DEFINE_LAUNCHER(resource_scatter_update)
{
    return c->in[2]->dtype == EST_F32 ? launch_update<float>(c) : launch_update<double>(c);
}
