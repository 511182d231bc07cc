/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving elements on a GPU: results whose elements come from a tensor along other axes, or lie in a box of the result.
 *
 * Where that is may be in memory of the device (a permutation, where a slice begins), which only kernels can look at:
 * one thread of each block finds out and tells the others. */
#ifndef EST_CUDA_STRIDED_CUH
#define EST_CUDA_STRIDED_CUH

#include "cuda/launch.cuh"

#define EST_MOVE_EACH 4 /* elements of a thread */

/* Calls launch<W>(...) with W as wide as the elements. */
#define EST_BY_WIDTH(dtype, launch, ...)                                                                               \
    (est_element_bytes(dtype) == 8   ? launch<uint64_t>(__VA_ARGS__)                                                   \
     : est_element_bytes(dtype) == 4 ? launch<uint32_t>(__VA_ARGS__)                                                   \
                                     : launch<uint8_t>(__VA_ARGS__))

static inline __device__ int64_t est_stride_of(const est_shape &shape, int axis)
{
    int64_t stride = 1;

    for (int a = axis + 1; a < shape.rank; a++) stride *= shape.dim[a];
    return stride;
}

/* --- from a tensor along other axes -------------------------------------------------------------------------------- */

/* Axes of the result, which is dense, from the innermost out, and the steps along them in the tensor: element i of the
 * result is at `first` plus those. An axis that is cut in two, as Tile does, is two. */
typedef struct est_sources {
    int     n;
    int64_t first;
    int64_t dim[2 * EST_RANK_MAX], step[2 * EST_RANK_MAX];
} est_sources;

/* Appends an axis outside those there are. */
static inline __device__ void est_sources_push(est_sources *s, int64_t dim, int64_t step)
{
    if (dim == 1) return;
    if (s->n > 0 && step == s->step[s->n - 1] * s->dim[s->n - 1]) {
        s->dim[s->n - 1] *= dim;
        return;
    }
    s->dim[s->n]    = dim;
    s->step[s->n++] = step;
}

static inline __device__ int64_t est_source_of(const est_sources &s, int64_t i)
{
    int64_t at = s.first;

    for (int a = 0; a < s.n; a++) {
        int64_t next = a + 1 < s.n ? est_divide(i, s.dim[a]) : 0;

        at += (i - next * s.dim[a]) * s.step[a];
        i = next;
    }
    return at;
}

#define EST_TURN      32 /* rows and columns of a tile */
#define EST_TURN_FROM 8  /* of a shorter axis tiles would be empty for the most part */

/* The axis along which the tensor goes on, if that is not the innermost of the result and both are long; 0: none. */
static inline __device__ int est_turned_axis(const est_sources &s)
{
    for (int a = 1; a < s.n; a++) {
        if (s.step[a] == 1 && s.dim[a] >= EST_TURN_FROM && s.dim[0] >= EST_TURN_FROM) return a;
    }
    return 0;
}

/* Tiles of axes 0 and `axis`: read along one, written along the other. */
template <typename W>
static __device__ void est_turn_tiles(const est_sources &s, int axis, const W *in, W *out, int64_t count)
{
    __shared__ W tile[EST_TURN][EST_TURN + 1];
    int64_t      wide = (s.dim[0] + EST_TURN - 1) / EST_TURN, high = (s.dim[axis] + EST_TURN - 1) / EST_TURN;
    int64_t      tiles = count / (s.dim[0] * s.dim[axis]) * wide * high, stride = 1;
    int          x = (int)threadIdx.x % EST_TURN, y = (int)threadIdx.x / EST_TURN, lines = EST_BLOCK / EST_TURN;

    for (int a = 0; a < axis; a++) stride *= s.dim[a];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t rest = est_divide(t, wide), col = (t - rest * wide) * EST_TURN, other = est_divide(rest, high);
        int64_t row = (rest - other * high) * EST_TURN, from = s.first, to = 0, place = s.dim[0];

        for (int a = 1; a < s.n; place *= s.dim[a], a++) {
            int64_t next, here;

            if (a == axis) continue;
            next = est_divide(other, s.dim[a]);
            here = other - next * s.dim[a];
            from += here * s.step[a];
            to += here * place;
            other = next;
        }
        for (int j = y; j < EST_TURN; j += lines) {
            if (col + j < s.dim[0] && row + x < s.dim[axis]) tile[j][x] = in[from + (col + j) * s.step[0] + row + x];
        }
        __syncthreads();
        for (int j = y; j < EST_TURN; j += lines) {
            if (row + j < s.dim[axis] && col + x < s.dim[0]) out[to + (row + j) * stride + col + x] = tile[x][j];
        }
        __syncthreads();
    }
}

/* find(&sources) says where elements come from; false: it has reported a failure. */
template <typename W, typename F>
static __global__ void est_take_elements(const W *in, W *out, int64_t count, const __grid_constant__ F find)
{
    __shared__ est_sources s;
    __shared__ bool        fine;
    __shared__ int         axis;

    if (threadIdx.x == 0) {
        s.n     = 0;
        s.first = 0;
        fine    = find(&s);
        axis    = est_turned_axis(s);
    }
    __syncthreads();
    if (!fine) return;
    if (axis > 0) {
        est_turn_tiles(s, axis, in, out, count);
        return;
    }
    EST_UNROLL(EST_MOVE_EACH)
    for (int k = 0; k < EST_MOVE_EACH; k++) {
        int64_t i = ((int64_t)blockIdx.x * EST_MOVE_EACH + k) * EST_BLOCK + threadIdx.x;

        if (i < count) out[i] = in[est_source_of(s, i)];
    }
}

template <typename W, typename F> int est_take_launch(const est_call *c, const est_view *in, F find)
{
    int64_t count = c->out[0].count;

    return est_launch(c, est_take_elements<W, F>, dim3(est_blocks(count, EST_MOVE_EACH * EST_BLOCK)), EST_BLOCK,
                      est_data<W>(in), est_data<W>(&c->out[0]), count, find);
}

/* --- in a box of the result ----------------------------------------------------------------------------------------- */

/* Axes of the result from the innermost out: elements first, first + stride, ... of each come from the tensor, which is
 * dense, `length` of them; all others have one value. */
typedef struct est_box {
    int     n;
    int64_t dim[EST_RANK_MAX], first[EST_RANK_MAX], stride[EST_RANK_MAX], length[EST_RANK_MAX];
} est_box;

/* Appends an axis outside those there are. Axes that are taken whole are one. */
static inline __device__ void est_box_push(est_box *b, int64_t dim, int64_t first, int64_t stride, int64_t length)
{
    bool whole = b->n > 0 && b->length[b->n - 1] == b->dim[b->n - 1] && b->stride[b->n - 1] == 1;

    if (whole && length == dim && stride == 1) {
        b->dim[b->n - 1] *= dim;
        b->length[b->n - 1] *= dim;
        return;
    }
    b->dim[b->n]      = dim;
    b->first[b->n]    = first;
    b->stride[b->n]   = stride;
    b->length[b->n++] = length;
}

/* Where in the tensor element i of the result comes from; below 0: from nowhere. */
static inline __device__ int64_t est_box_source(const est_box &b, int64_t i)
{
    int64_t at = 0, place = 1;

    for (int a = 0; a < b.n; place *= b.length[a], a++) {
        int64_t next = a + 1 < b.n ? est_divide(i, b.dim[a]) : 0, off = i - next * b.dim[a] - b.first[a], k = off;

        if (b.stride[a] != 1) k = off / b.stride[a];
        if (k < 0 || k >= b.length[a] || k * b.stride[a] != off) return -1;
        at += k * place;
        i = next;
    }
    return at;
}

/* find(&box) as above; value: NULL: zero. */
template <typename W, typename F>
static __global__ void est_fill_box(const W *in, W *out, int64_t count, const W *value, const __grid_constant__ F find)
{
    __shared__ est_box b;
    __shared__ bool    fine;
    W                  other = value != NULL ? *value : (W)0;

    if (threadIdx.x == 0) {
        b.n  = 0;
        fine = find(&b);
    }
    __syncthreads();
    if (!fine) return;
    EST_UNROLL(EST_MOVE_EACH)
    for (int k = 0; k < EST_MOVE_EACH; k++) {
        int64_t i = ((int64_t)blockIdx.x * EST_MOVE_EACH + k) * EST_BLOCK + threadIdx.x, at;

        if (i >= count) continue;
        at     = est_box_source(b, i);
        out[i] = at >= 0 ? in[at] : other;
    }
}

template <typename W, typename F>
int est_box_launch(const est_call *c, const est_view *in, const est_view *value, F find)
{
    int64_t count = c->out[0].count;

    return est_launch(c, est_fill_box<W, F>, dim3(est_blocks(count, EST_MOVE_EACH * EST_BLOCK)), EST_BLOCK,
                      est_data<W>(in), est_data<W>(&c->out[0]), count,
                      value != NULL ? est_data<W>(value) : (const W *)NULL, find);
}

#endif
