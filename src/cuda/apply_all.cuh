/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of every row of a variable by a sparse gradient on a GPU: rows that the gradient has not get one of zeros. The
 * rules are those of cuda/apply.cuh.
 *
 * First every row of the gradient notes where it is, in a word of each row of the variable; then one pass over the
 * variable. Scratch: est_apply_places_scratch (kernels/apply.h). */
#ifndef EST_CUDA_APPLY_ALL_CUH
#define EST_CUDA_APPLY_ALL_CUH

#include "cuda/apply.cuh"

template <typename T> struct est_apply_all_args {
    est_apply_args<T> a;
    int32_t          *place;    /* per row of the variable: 1 + its row of the gradient; 0: none */
    int64_t           elements; /* of the variable */
};

template <typename T>
static __global__ void est_forget_places(const __grid_constant__ est_many<est_apply_all_args<T>> m)
{
    unsigned                     block;
    const est_apply_all_args<T> &all = m.call[est_own_call(m, &block)];
    int64_t                      i   = (int64_t)block * blockDim.x + threadIdx.x;

    if (i < all.a.rows) all.place[i] = 0;
}

/* A row that does not exist is reported. */
template <typename T> static __global__ void est_note_places(const __grid_constant__ est_many<est_apply_all_args<T>> m)
{
    unsigned                     block;
    const est_apply_all_args<T> &all = m.call[est_own_call(m, &block)];
    const est_apply_args<T>     &a   = all.a;
    int64_t                      i   = (int64_t)block * blockDim.x + threadIdx.x, row;

    if (i * a.cols >= a.count) return;
    row = est_index_at(a.indices, a.wide, i);
    if (row >= 0 && row < a.rows) {
        all.place[row] = (int32_t)i + 1;
    } else if (!est_is_pad(row, a.wide)) {
        est_report(a.reporter, i, row, 0);
    }
}

template <typename T> static __device__ T *est_from(T *p, int64_t i)
{
    return p != NULL ? p + i : p;
}

template <typename Rule, typename T>
static __global__ void est_apply_all_kernel(const __grid_constant__ est_many<est_apply_all_args<T>> m)
{
    __shared__ est_apply_shared<T> shared;
    unsigned                       block;
    const est_apply_all_args<T>   &all = m.call[est_own_call(m, &block)];
    const est_apply_args<T>       &a   = all.a;
    int64_t                        i   = (int64_t)block * blockDim.x + threadIdx.x, row, place;
    T                              g;

    if (threadIdx.x == 0) est_apply_scalars<Rule>(a, block == 0, &shared);
    __syncthreads();
    if (i >= all.elements || !shared.fine) return;
    row   = est_divide(i, a.cols);
    place = all.place[row];
    g     = place > 0 ? a.g[(place - 1) * a.cols + i - row * a.cols] : (T)0;
    Rule::step(a.w + i, est_from(a.s1, i), est_from(a.s2, i), est_from(a.s3, i), &g, 0, shared.k);
}

template <typename Rule, typename T>
int est_apply_all_launch_many(const est_call *c, const est_apply_all_args<T> *calls, int n)
{
    typedef est_apply_all_args<T> args;
    int                           error;

    error = est_launch_many(c, est_forget_places<T>,
                            est_many_of(calls, n, [](const args &u) { return est_blocks(u.a.rows); }), EST_BLOCK);
    if (error != 0) return error;
    error = est_launch_many(c, est_note_places<T>,
                            est_many_of(calls, n, [](const args &u) { return est_blocks(u.a.count / u.a.cols); }),
                            EST_BLOCK);
    if (error != 0) return error;
    return est_launch_many(c, est_apply_all_kernel<Rule, T>,
                           est_many_of(calls, n, [](const args &u) { return est_blocks(u.elements); }), EST_BLOCK);
}

template <typename Rule, typename T> int est_apply_all_launch_as(const est_call *c)
{
    est_apply_all_args<T> all = { est_apply_args_of<T>(c), (int32_t *)c->scratch,
                                  est_call_variable(c, 0)->value.count };

    return est_batch_add(c, est_apply_all_launch_many<Rule, T>, all, (size_t)all.a.rows * sizeof(int32_t));
}

template <typename Rule> int est_apply_all_launch(const est_call *c)
{
    return c->in[c->node->op->update->gradient]->dtype == EST_F32 ? est_apply_all_launch_as<Rule, float>(c)
                                                                  : est_apply_all_launch_as<Rule, double>(c);
}

#endif
