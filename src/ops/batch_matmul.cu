/* SPDX-License-Identifier: Apache-2.0
 *
 * BatchMatMulV2 on a GPU.
 *
 * A right-hand matrix for all makes one tall product. Where each side has a matrix for every index, or one for all,
 * cuBLASLt takes them in one call. For other broadcasts, other types and without that library a plain tile kernel does
 * the same: a block makes 64 x 64 elements of one product, as in cuda/gemm.cu. */
#include "cuda/gemm.cuh"
#include "cuda/loops.cuh"

#define TILE     64
#define DEPTH    16
#define EACH     4     /* rows and columns of a thread */
#define GRID_MAX 65535 /* of the third dimension */

template <typename T> struct batch_operands {
    const T   *a, *b;
    T         *y;
    int64_t    batch, m, n, k;
    int64_t    row_a, next_a; /* a[i, l] is at i * row_a + l * next_a */
    int64_t    next_b, col_b; /* b[l, j] is at l * next_b + j * col_b */
    est_places place;         /* of the matrices of both sides */
};

template <typename T> static __device__ void multiply_tile(const batch_operands<T> &p, const T *a, const T *b, T *y)
{
    __shared__ T   tile_a[DEPTH][TILE + 1], tile_b[DEPTH][TILE + 1];
    est_grid_place at        = est_find_block((unsigned)((p.n + TILE - 1) / TILE));
    int64_t        first_row = (int64_t)at.down * TILE, first_col = (int64_t)at.across * TILE;
    int            row = (int)threadIdx.x / 16, col = (int)threadIdx.x % 16;
    T              sum[EACH][EACH] = {};

    for (int64_t depth = 0; depth < p.k; depth += DEPTH) {
        for (int e = (int)threadIdx.x; e < TILE * DEPTH; e += (int)blockDim.x) {
            /* neighbouring threads read neighbours in memory */
            int     da = p.next_a == 1 ? e % DEPTH : e / TILE, ra = p.next_a == 1 ? e / DEPTH : e % TILE;
            int     db = p.col_b == 1 ? e / TILE : e % DEPTH, cb = p.col_b == 1 ? e % TILE : e / DEPTH;
            int64_t l = depth + da, i = first_row + ra, lb = depth + db, j = first_col + cb;

            tile_a[da][ra] = l < p.k && i < p.m ? a[i * p.row_a + l * p.next_a] : (T)0;
            tile_b[db][cb] = lb < p.k && j < p.n ? b[lb * p.next_b + j * p.col_b] : (T)0;
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
            int64_t r = first_row + row + 16 * i, s = first_col + col + 16 * j;

            if (r < p.m && s < p.n) y[r * p.n + s] = sum[i][j];
        }
    }
}

template <typename T> static __global__ void batch_tile(const __grid_constant__ batch_operands<T> p)
{
    for (int64_t i = blockIdx.z; i < p.batch; i += gridDim.z) {
        int64_t at[2];

        est_find_places(p.place, 2, i, at);
        multiply_tile(p, p.a + at[0] * p.m * p.k, p.b + at[1] * p.k * p.n, p.y + i * p.m * p.n);
    }
}

static est_shape batch_axes(const est_shape &s)
{
    est_shape axes = s;

    axes.rank -= 2;
    return axes;
}

template <typename T> static int launch_tiles(const est_call *c, const est_product *p)
{
    est_shape x = batch_axes(c->in[0]->shape), y = batch_axes(c->in[1]->shape), out = batch_axes(c->out[0].shape);
    const est_shape  *shapes[2] = { &x, &y };
    batch_operands<T> o         = { (const T *)p->a,
                                    (const T *)p->b,
                                    (T *)p->y,
                                    p->batch,
                                    p->m,
                                    p->n,
                                    p->k,
                            p->trans_a ? 1 : p->k,
                            p->trans_a ? p->m : 1,
                            p->trans_b ? 1 : p->n,
                            p->trans_b ? p->k : 1,
                                    est_places_of(shapes, 2, &out) };

    return est_launch(
        c, batch_tile<T>,
        est_grid(est_blocks(p->n, TILE), est_blocks(p->m, TILE), (unsigned)(p->batch < GRID_MAX ? p->batch : GRID_MAX)),
        EST_BLOCK, o);
}

/* The products of the call; how far apart the matrices of a side are, -1: that is no single number. */
static est_product products_of(const est_call *c)
{
    const est_shape &x = c->in[0]->shape, &out = c->out[0].shape;
    est_product      p       = {};
    bool             trans_a = c->param[0].i != 0, trans_b = c->param[1].i != 0; /* kept by prepare() */

    p.dtype   = c->out[0].dtype;
    p.trans_a = trans_a;
    p.trans_b = trans_b;
    p.m       = out.dim[out.rank - 2];
    p.n       = out.dim[out.rank - 1];
    p.k       = x.dim[x.rank - (trans_a ? 2 : 1)];
    p.batch   = p.m * p.n > 0 ? c->out[0].count / (p.m * p.n) : 0;
    p.step_a  = c->in[0]->count == p.batch * p.m * p.k ? p.m * p.k : c->in[0]->count == p.m * p.k ? 0 : -1;
    p.step_b  = c->in[1]->count == p.batch * p.k * p.n ? p.k * p.n : c->in[1]->count == p.k * p.n ? 0 : -1;
    p.a       = c->in[0]->data;
    p.b       = c->in[1]->data;
    p.y       = c->out[0].data;
    p.scratch = c->scratch;
    p.full    = c->no_tf32;
    return p;
}

EST_DEFINE_LAUNCHER(batch_matmul)
{
    est_product p = products_of(c);
    int         error;

    if (p.batch == 0) return 0;
    if (p.batch == 1 || (p.step_b == 0 && p.step_a > 0 && !p.trans_a)) {
        p.m *= p.batch;
        p.batch = 0;
        return est_product_launch(c, &p);
    }
    error = est_batch_flush();
    if (error != 0) return error;
    if (p.dtype == EST_F32 && p.k > 0 && p.step_a >= 0 && p.step_b >= 0 && est_cublaslt_launch(c, &p, &error)) {
        return error;
    }
    switch (p.dtype) {
    case EST_F32: return launch_tiles<float>(c, &p);
    case EST_F64: return launch_tiles<double>(c, &p);
    case EST_I32: return launch_tiles<uint32_t>(c, &p); /* unsigned: an overflow wraps */
    default: return launch_tiles<uint64_t>(c, &p);
    }
}
