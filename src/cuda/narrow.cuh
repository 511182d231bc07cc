/* SPDX-License-Identifier: Apache-2.0
 *
 * y = a op(b) of float32 for few columns, as the last layer of a model has. A warp makes a row of y, or a few: it reads
 * those of a once, and b from shared memory, where it is turned, so that threads with neighbouring parts of a row read
 * neighbours. */
#ifndef EST_CUDA_NARROW_CUH
#define EST_CUDA_NARROW_CUH

#include "cuda/gemm.cuh"
#include "cuda/loops.cuh"
#include "cuda/reduce.cuh"

#define EST_NARROW_BLOCK 128
#define EST_NARROW_PAD   4    /* floats behind each column of b in shared memory */
#define EST_NARROW_MANY  2048 /* rows of a, of which a warp then has EST_NARROW_ROWS */
#define EST_NARROW_ROWS  4

struct est_narrow_call {
    const float *a, *b;
    const float *bias, *mask; /* [n], [m, n]; may be NULL */
    float       *y;
    int64_t      m;
    int          n, k, next_b, col_b; /* b[l, j] is at l * next_b + j * col_b */
    bool         relu;
};

/* Adds up the first V sums over the warp. At each step a thread gives half of what it has away: it ends with the totals
 * [*first, *end), in sum[0] and on. */
template <int V, int HALF, int ALL> static __device__ void est_share_sums(float (&sum)[ALL], int *first, int *end)
{
    constexpr int own   = (V + 1) / 2;
    bool          upper = ((int)threadIdx.x & HALF) != 0;

    for (int i = 0; i < own; i++) {
        float low = sum[i], high = i + own < V ? sum[i + own < V ? i + own : 0] : 0;

        sum[i] = (upper ? high : low) + __shfl_xor_sync(0xFFFFFFFFu, upper ? low : high, HALF);
    }
    if (upper) {
        *first += own;
    } else if (*end > *first + own) {
        *end = *first + own;
    }
    if constexpr (HALF > 1) est_share_sums<own, HALF / 2>(sum, first, end);
}

#define EST_NARROW_STAGED 8 /* loads of a thread that are under way together */

/* Brings b to shared memory, where b[l, j] is at j * column + l, and B elements that are neighbours come together. */
template <int B> static __device__ void est_turn_narrow(const est_narrow_call &p, int column, float *to)
{
    typedef est_pack<float, B> pack;
    int                        length = p.next_b == 1 ? p.k : p.n; /* of a row of b as it lies there */
    int                        step = EST_NARROW_STAGED * EST_NARROW_BLOCK * B, count = p.k * p.n;

    for (int first = (int)threadIdx.x * B; first < count; first += step) {
        pack own[EST_NARROW_STAGED];

        for (int q = 0; q < EST_NARROW_STAGED; q++) {
            int i = first + q * EST_NARROW_BLOCK * B;

            if (i < count) own[q] = *(const pack *)(p.b + i);
        }
        for (int q = 0; q < EST_NARROW_STAGED; q++) {
            int i = first + q * EST_NARROW_BLOCK * B, outer = i / length, inner = i - outer * length;

            for (int e = 0; e < B && i < count; e++) {
                to[p.next_b == 1 ? outer * column + inner : inner * column + outer] = own[q].v[e];
                if (++inner < length) continue;
                inner = 0;
                outer++;
            }
        }
    }
}

/* At most N columns; a thread takes P elements of a row at a time, of R rows, and B of b. */
template <int N, int P, int R, int B> static __global__ void est_narrow_product(est_narrow_call p)
{
    typedef est_pack<float, P>   pack;
    alignas(16) __shared__ float b[EST_NARROW_WEIGHTS + EST_NARROW * EST_NARROW_PAD];
    int                          lane = (int)threadIdx.x % EST_WARP, column = p.k + EST_NARROW_PAD;
    int                          first = 0, end = R * N, q = lane * P;
    int64_t                      row        = est_thread() / EST_WARP * R;
    float                        sum[R * N] = {};
    pack                         x[R]       = {};

    for (int r = 0; r < R; r++) {
        if (q < p.k && row + r < p.m) x[r] = *(const pack *)(p.a + (row + r) * p.k + q);
    }
    est_turn_narrow<B>(p, column, b);
    __syncthreads();
    for (; q < p.k; q += EST_WARP * P) {
        pack next[R] = {};

        for (int r = 0; r < R; r++) {
            if (q + EST_WARP * P < p.k && row + r < p.m) {
                next[r] = *(const pack *)(p.a + (row + r) * p.k + q + EST_WARP * P);
            }
        }
        for (int j = 0; j < N; j++) {
            pack w = {};

            if (j < p.n) w = *(const pack *)&b[j * column + q];
            for (int r = 0; r < R; r++) {
                for (int e = 0; e < P; e++) sum[r * N + j] += x[r].v[e] * w.v[e];
            }
        }
        for (int r = 0; r < R; r++) x[r] = next[r];
    }
    __syncwarp();
    est_share_sums<R * N, EST_WARP / 2>(sum, &first, &end);
    for (int i = 0; i < (R * N + EST_WARP - 1) / EST_WARP; i++) {
        int   r = (first + i) / N, j = (first + i) % N;
        float y = sum[i];

        if (first + i >= end || row + r >= p.m || j >= p.n) continue;
        if (p.bias != NULL) y += p.bias[j];
        if (p.relu && y <= 0) y = 0; /* a NaN stays one */
        if (p.mask != NULL && !(p.mask[(row + r) * p.n + j] > 0)) y = 0;
        p.y[(row + r) * p.n + j] = y;
    }
}

template <int N> static int est_narrow_launch_as(const est_call *c, const est_narrow_call &p)
{
    bool many = p.m >= EST_NARROW_MANY, aligned = est_aligned(p.a) && est_aligned(p.b) && p.k % 4 == 0;
    void (*kernel)(est_narrow_call) = est_narrow_product<N, 1, 1, 1>;

    if (aligned && p.k >= 4 * EST_WARP) {
        kernel = many ? est_narrow_product<N, 4, EST_NARROW_ROWS, 4> : est_narrow_product<N, 4, 1, 4>;
    } else if (aligned && p.k >= 2 * EST_WARP) {
        kernel = many ? est_narrow_product<N, 2, EST_NARROW_ROWS, 4> : est_narrow_product<N, 2, 1, 4>;
    } else {
        many = false;
    }
    return est_launch(c, kernel, dim3(est_blocks(p.m, EST_NARROW_BLOCK / EST_WARP * (many ? EST_NARROW_ROWS : 1))),
                      EST_NARROW_BLOCK, p);
}

/* EST_NARROW_FORWARD. */
static inline int est_narrow_launch(const est_call *c, const est_product *p)
{
    bool            bias = p->epilogue == EST_EPILOGUE_BIAS || p->epilogue == EST_EPILOGUE_BIAS_RELU;
    est_narrow_call n    = { (const float *)p->a,
                             (const float *)p->b,
                          bias ? (const float *)p->with : NULL,
                          p->epilogue == EST_EPILOGUE_MASK ? (const float *)p->with : NULL,
                             (float *)p->y,
                             p->m,
                             (int)p->n,
                             (int)p->k,
                          p->trans_b ? 1 : (int)p->n,
                          p->trans_b ? (int)p->k : 1,
                             p->epilogue == EST_EPILOGUE_BIAS_RELU };

    return n.n == 1    ? est_narrow_launch_as<1>(c, n)
           : n.n <= 4  ? est_narrow_launch_as<4>(c, n)
           : n.n <= 10 ? est_narrow_launch_as<10>(c, n)
                       : est_narrow_launch_as<EST_NARROW>(c, n);
}

#endif
