/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise loops: a functor of one element, or of two or three broadcast ones.
 *
 * Contiguous elements are taken 16 bytes of the result at a time. Broadcast shapes are brought down to as few axes as
 * possible; then every thread finds where its element comes from. */
#ifndef EST_CUDA_LOOPS_CUH
#define EST_CUDA_LOOPS_CUH

#include "cuda/launch.cuh"

template <typename T, int N> struct alignas(sizeof(T) * N) est_pack {
    T v[N];
};

#define EST_PACK(T) (16 / (int)sizeof(T)) /* elements of 16 bytes */

static inline bool est_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* y[i] = f(x[i]). */
template <int N, typename X, typename Y, typename F>
static __global__ void est_map1(const X *x, Y *y, int64_t count, F f)
{
    int64_t at = est_thread() * N;

    if (at + N <= count) {
        est_pack<X, N> a = *(const est_pack<X, N> *)(x + at);
        est_pack<Y, N> z;
        for (int i = 0; i < N; i++) z.v[i] = f(a.v[i]);
        *(est_pack<Y, N> *)(y + at) = z;
    } else {
        for (; at < count; at++) y[at] = f(x[at]);
    }
}

/* Elements a thread takes when all have to be read and written whole: 4 of the larger type, less of the largest. */
template <typename X, typename Y, typename F> int est_map1_launch(const est_call *c, F f)
{
    const X      *x     = est_data<X>(c->in[0]);
    Y            *y     = est_data<Y>(&c->out[0]);
    int64_t       count = c->out[0].count;
    constexpr int N     = EST_PACK(X) < EST_PACK(Y) ? EST_PACK(X) : EST_PACK(Y);

    if (est_aligned(x) && est_aligned(y)) {
        return est_launch(c, est_map1<N, X, Y, F>, dim3(est_blocks(count, EST_BLOCK * N)), EST_BLOCK, x, y, count, f);
    }
    return est_launch(c, est_map1<1, X, Y, F>, dim3(est_blocks(count)), EST_BLOCK, x, y, count, f);
}

/* --- broadcast ---------------------------------------------------------------------------------------------------- */

#define EST_BROADCAST_MAX 3

/* Where element i of the result comes from: axes from the innermost out, steps in elements of each input. */
typedef struct est_places {
    int     rank;
    int64_t dim[EST_RANK_MAX];
    int64_t step[EST_BROADCAST_MAX][EST_RANK_MAX];
} est_places;

/* The first n_in inputs of the call against its first output. Neighbouring axes along which every input goes on, or
 * stands still, are one. */
static inline est_places est_places_of(const est_shape *const *in, int n_in, const est_shape *out)
{
    est_places p                         = {};
    int64_t    stride[EST_BROADCAST_MAX] = { 1, 1, 1 };

    for (int a = 0; a < out->rank; a++) { /* from the end */
        int64_t dim = out->dim[out->rank - 1 - a], step[EST_BROADCAST_MAX] = {};
        bool    join = p.rank > 0;

        if (dim == 1) continue;
        for (int i = 0; i < n_in; i++) {
            int64_t own = a < in[i]->rank ? in[i]->dim[in[i]->rank - 1 - a] : 1;

            step[i] = own == 1 ? 0 : stride[i];
            stride[i] *= own;
            join = join && step[i] == p.step[i][p.rank - 1] * p.dim[p.rank - 1];
        }
        if (join) {
            p.dim[p.rank - 1] *= dim;
            continue;
        }
        for (int i = 0; i < n_in; i++) p.step[i][p.rank] = step[i];
        p.dim[p.rank++] = dim;
    }
    return p;
}

static inline __device__ void est_find_places(const est_places &p, int n_in, int64_t i, int64_t *at)
{
    for (int k = 0; k < n_in; k++) at[k] = 0;
    for (int a = 0; a < p.rank; a++) {
        int64_t next = a + 1 < p.rank ? i / p.dim[a] : 0, here = i - next * p.dim[a];

        for (int k = 0; k < n_in; k++) at[k] += here * p.step[k][a];
        i = next;
    }
}

template <typename X, typename Y, typename F>
static __global__ void est_map2(const X *a, const X *b, Y *y, int64_t count, est_places p, F f)
{
    int64_t i = est_thread(), at[2];

    if (i >= count) return;
    est_find_places(p, 2, i, at);
    y[i] = f(a[at[0]], b[at[1]]);
}

/* Both as large as the result. */
template <int N, typename X, typename Y, typename F>
static __global__ void est_map2_same(const X *a, const X *b, Y *y, int64_t count, F f)
{
    int64_t at = est_thread() * N;

    if (at + N <= count) {
        est_pack<X, N> u = *(const est_pack<X, N> *)(a + at), v = *(const est_pack<X, N> *)(b + at);
        est_pack<Y, N> z;
        for (int i = 0; i < N; i++) z.v[i] = f(u.v[i], v.v[i]);
        *(est_pack<Y, N> *)(y + at) = z;
    } else {
        for (; at < count; at++) y[at] = f(a[at], b[at]);
    }
}

template <typename X, typename Y, typename F> int est_map2_launch(const est_call *c, F f)
{
    const est_shape *shapes[2] = { &c->in[0]->shape, &c->in[1]->shape };
    const X         *a = est_data<X>(c->in[0]), *b = est_data<X>(c->in[1]);
    Y               *y     = est_data<Y>(&c->out[0]);
    int64_t          count = c->out[0].count;
    constexpr int    N     = EST_PACK(X) < EST_PACK(Y) ? EST_PACK(X) : EST_PACK(Y);

    if (c->in[0]->count == count && c->in[1]->count == count && est_aligned(a) && est_aligned(b) && est_aligned(y)) {
        return est_launch(c, est_map2_same<N, X, Y, F>, dim3(est_blocks(count, EST_BLOCK * N)), EST_BLOCK, a, b, y,
                          count, f);
    }
    return est_launch(c, est_map2<X, Y, F>, dim3(est_blocks(count)), EST_BLOCK, a, b, y, count,
                      est_places_of(shapes, 2, &c->out[0].shape), f);
}

#endif
