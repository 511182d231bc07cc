/* SPDX-License-Identifier: Apache-2.0
 *
 * The tile kernel of matrix products, and the choice between it and cuBLASLt (cuda/gemm.cuh).
 *
 * A block of 16 x 16 threads makes 64 x 64 elements of y, 4 x 4 a thread, from tiles of a and b in shared memory. */
#include "cuda/gemm.cuh"

#define TILE  64
#define DEPTH 16
#define EACH  4 /* rows and columns of a thread */

template <typename T> struct operands {
    const T *a, *b, *with;
    T       *y;
    int64_t  m, n, k;
    int64_t  row_a, next_a; /* a[i, l] is at i * row_a + l * next_a */
    int64_t  next_b, col_b; /* b[l, j] is at l * next_b + j * col_b */
    int      epilogue;
};

template <typename T> static __device__ T finish(const operands<T> &p, T y, int64_t at, int64_t column)
{
    switch (p.epilogue) {
    case EST_EPILOGUE_BIAS: return y + p.with[column];
    case EST_EPILOGUE_BIAS_RELU: y += p.with[column]; return y <= 0 ? (T)0 : y; /* a NaN stays one */
    case EST_EPILOGUE_MASK: return p.with[at] > 0 ? y : (T)0;
    default: return y;
    }
}

template <typename T> static __global__ void product_tile(operands<T> p)
{
    __shared__ T tile_a[DEPTH][TILE + 1], tile_b[DEPTH][TILE + 1];
    int64_t      first_row = (int64_t)blockIdx.y * TILE, first_col = (int64_t)blockIdx.x * TILE;
    int          row = (int)threadIdx.x / 16, col = (int)threadIdx.x % 16;
    T            sum[EACH][EACH] = {};

    for (int64_t depth = 0; depth < p.k; depth += DEPTH) {
        for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += (int)blockDim.x) {
            int64_t l = depth + e % DEPTH, i = first_row + e / DEPTH;
            int64_t lb = depth + e / TILE, j = first_col + e % TILE;

            tile_a[e % DEPTH][e / DEPTH] = l < p.k && i < p.m ? p.a[i * p.row_a + l * p.next_a] : (T)0;
            tile_b[e / TILE][e % TILE]   = lb < p.k && j < p.n ? p.b[lb * p.next_b + j * p.col_b] : (T)0;
        }
        __syncthreads();
        for (int l = 0; l < DEPTH; l++) {
            for (int i = 0; i < EACH; i++) {
                for (int j = 0; j < EACH; j++) sum[i][j] += tile_a[l][row + 16 * i] * tile_b[l][col + 16 * j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            int64_t r = first_row + row + 16 * i, at = r * p.n + first_col + col + 16 * j;

            if (r < p.m && first_col + col + 16 * j < p.n) p.y[at] = finish(p, sum[i][j], at, first_col + col + 16 * j);
        }
    }
}

template <typename T> static int launch_tile(const est_call *c, const est_product *p)
{
    operands<T> o = { (const T *)p->a,
                      (const T *)p->b,
                      (const T *)p->with,
                      (T *)p->y,
                      p->m,
                      p->n,
                      p->k,
                      p->trans_a ? 1 : p->k,
                      p->trans_a ? p->m : 1,
                      p->trans_b ? 1 : p->n,
                      p->trans_b ? p->k : 1,
                      p->epilogue };

    return est_launch(c, product_tile<T>, dim3(est_blocks(p->n, TILE), est_blocks(p->m, TILE)), EST_BLOCK, o);
}

static __global__ void mask_dead(float *y, const float *mask, int64_t count)
{
    int64_t i = est_thread();

    if (i < count && !(mask[i] > 0)) y[i] = 0;
}

int est_product_launch(const est_call *c, const est_product *p)
{
    est_product plain = *p;
    int         error;

    if (p->m == 0 || p->n == 0) return 0;
    if (p->epilogue == EST_EPILOGUE_MASK) plain.epilogue = EST_EPILOGUE_NONE;
    if (p->dtype == EST_F32 && p->k > 0 && est_cublaslt_launch(c, &plain, &error)) {
        if (error != 0 || p->epilogue != EST_EPILOGUE_MASK) return error;
        return est_launch(c, mask_dead, dim3(est_blocks(p->m * p->n)), EST_BLOCK, (float *)p->y, (const float *)p->with,
                          p->m * p->n);
    }
    switch (p->dtype) {
    case EST_F32: return launch_tile<float>(c, p);
    case EST_F64: return launch_tile<double>(c, p);
    case EST_I32: return launch_tile<uint32_t>(c, p); /* unsigned: an overflow wraps */
    default: return launch_tile<uint64_t>(c, p);
    }
}
