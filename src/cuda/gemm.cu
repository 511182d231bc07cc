/* SPDX-License-Identifier: Apache-2.0
 *
 * The tile kernel of matrix products, and the choice between it and cuBLASLt (cuda/gemm.cuh).
 *
 * A block of 16 x 16 threads makes 64 x 64 elements of y, 4 x 4 a thread, from tiles of a and b in shared memory.
 *
 * Layers of few units have kernels of their own, in cuda/narrow.cuh and cuda/columns.cuh; results that are small for their
 * sums those of cuda/gemm_tf32.cu and cuda/gemm_tiles.cu. */
#include "cuda/bfloat16.h"
#include "cuda/columns.cuh"
#include "cuda/gemm.cuh"
#include "cuda/narrow.cuh"

#define TILE  64
#define DEPTH 16
#define EACH  4 /* rows and columns of a thread */

struct bfloat16 {
    uint16_t bits;

    __device__ operator float() const
    {
        return est_of_bfloat16_bits(bits);
    }
};

template <typename T, typename F = T> struct operands { /* F: what the factors are */
    const F *a, *b;
    const T *with;
    T       *y;
    int64_t  m, n, k;
    int64_t  row_a, next_a; /* a[i, l] is at i * row_a + l * next_a */
    int64_t  next_b, col_b; /* b[l, j] is at l * next_b + j * col_b */
    int      epilogue;
};

template <typename T, typename F> static __device__ T finish(const operands<T, F> &p, T y, int64_t at, int64_t column)
{
    switch (p.epilogue) {
    case EST_EPILOGUE_BIAS: return y + p.with[column];
    case EST_EPILOGUE_BIAS_RELU: y += p.with[column]; return y <= 0 ? (T)0 : y; /* a NaN stays one */
    case EST_EPILOGUE_MASK: return p.with[at] > 0 ? y : (T)0;
    default: return y;
    }
}

template <typename T, typename F> static __global__ void product_tile(operands<T, F> p)
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

            tile_a[da][ra] = l < p.k && i < p.m ? (T)p.a[i * p.row_a + l * p.next_a] : (T)0;
            tile_b[db][cb] = lb < p.k && j < p.n ? (T)p.b[lb * p.next_b + j * p.col_b] : (T)0;
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
            int64_t r = first_row + row + 16 * i, c = first_col + col + 16 * j;

            if (r < p.m && c < p.n) p.y[r * p.n + c] = finish(p, sum[i][j], r * p.n + c, c);
        }
    }
}

template <typename T, typename F = T> static operands<T, F> operands_of(const est_product *p)
{
    operands<T, F> o = { (const F *)p->a,
                         (const F *)p->b,
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

    return o;
}

template <typename T, typename F = T> static int launch_tile(const est_call *c, const est_product *p)
{
    return est_launch(c, product_tile<T, F>, est_grid(est_blocks(p->n, TILE), est_blocks(p->m, TILE)), EST_BLOCK,
                      operands_of<T, F>(p));
}

/* --- few columns -------------------------------------------------------------------------------------------------- */

/* y = a' b for b of few columns: what each column of a, weighted by b, sums up to. */
static int launch_narrow_kernel(const est_call *c, const est_product *p)
{
    est_columns<float> s = est_columns_of((const float *)p->a, (const float *)NULL, (float *)p->y, p->k, p->m,
                                          p->scratch);

    s.by = (const float *)p->b;
    s.n  = (int)p->n;
    return est_columns_launch(c, s);
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* y = 0 where the mask is not above 0. */
template <int N> static __global__ void mask_dead(float *y, const float *mask, int64_t count)
{
    int64_t at = est_thread() * N;

    if (at + N <= count) {
        est_pack<float, N> m = *(const est_pack<float, N> *)(mask + at), v = *(est_pack<float, N> *)(y + at);

        for (int e = 0; e < N; e++) v.v[e] = m.v[e] > 0 ? v.v[e] : 0;
        *(est_pack<float, N> *)(y + at) = v;
    } else {
        for (; at < count; at++) y[at] = mask[at] > 0 ? y[at] : 0;
    }
}

static int launch_mask(const est_call *c, float *y, const float *mask, int64_t count)
{
    if (est_aligned(y) && est_aligned(mask)) {
        return est_launch(c, mask_dead<4>, dim3(est_blocks(count, 4 * EST_BLOCK)), EST_BLOCK, y, mask, count);
    }
    return est_launch(c, mask_dead<1>, dim3(est_blocks(count)), EST_BLOCK, y, mask, count);
}

/* --- transposed first --------------------------------------------------------------------------------------------- */

#define TURN 32 /* rows and columns that a block transposes */

static __global__ void turn(const float *in, float *out, int64_t rows, int64_t cols)
{
    __shared__ float tile[TURN][TURN + 1];
    int              x = (int)threadIdx.x % TURN, y = (int)threadIdx.x / TURN, lines = EST_BLOCK / TURN;
    int64_t          col = (int64_t)blockIdx.x * TURN, row = (int64_t)blockIdx.y * TURN;

    for (int j = y; j < TURN; j += lines) {
        if (row + j < rows && col + x < cols) tile[j][x] = in[(row + j) * cols + col + x];
    }
    __syncthreads();
    for (int j = y; j < TURN; j += lines) {
        if (col + j < cols && row + x < rows) out[(col + j) * rows + row + x] = tile[x][j];
    }
}

static int launch_turn(const est_call *c, est_product *p)
{
    float *turned = (float *)((char *)p->scratch + EST_GEMM_WORKSPACE);
    int    error  = est_launch(c, turn, dim3(est_blocks(p->m, TURN), est_blocks(p->k, TURN)), EST_BLOCK,
                               (const float *)p->a, turned, p->k, p->m);

    p->a       = turned;
    p->trans_a = false;
    return error;
}

/* --- which way ---------------------------------------------------------------------------------------------------- */

static const struct {
    est_precision_used precision;
    bool               trans_a, trans_b;
    est_epilogue       epilogue;
    int64_t            m, n, k;
    int                choice;
    bool               turn;
} choices[] = {
#define EST_GEMM_CHOICE(precision, trans_a, trans_b, epilogue, m, n, k, choice, turn)                                  \
    { EST_PRODUCT_##precision, trans_a, trans_b, EST_EPILOGUE_##epilogue, m, n, k, choice, turn },
#include "cuda/gemm_choices.def"
#undef EST_GEMM_CHOICE
};

/* As the table says; false: nothing. */
static bool choose(est_product *p)
{
    est_epilogue epilogue = p->epilogue == EST_EPILOGUE_MASK ? EST_EPILOGUE_NONE : p->epilogue;

    for (size_t i = 0; i < sizeof choices / sizeof choices[0] && p->dtype == EST_F32; i++) {
        if (choices[i].m != p->m || choices[i].n != p->n || choices[i].k != p->k ||
            choices[i].precision != est_precision_of(p) || choices[i].trans_a != p->trans_a ||
            choices[i].trans_b != p->trans_b || choices[i].epilogue != epilogue) {
            continue;
        }
        p->choice = choices[i].choice;
        p->turn   = choices[i].turn && est_product_can_turn(p);
        return true;
    }
    return false;
}

static bool launch_tf32(const est_call *c, const est_product *p, int *error)
{
    est_product plain = *p;

    if (p->epilogue == EST_EPILOGUE_MASK) plain.epilogue = EST_EPILOGUE_NONE;
    if (!est_tf32_launch(c, &plain, error)) return false;
    if (*error == 0 && p->epilogue == EST_EPILOGUE_MASK) {
        *error = launch_mask(c, (float *)p->y, (const float *)p->with, p->m * p->n);
    }
    return true;
}

int est_product_launch(const est_call *c, const est_product *p)
{
    est_product chosen = *p;
    bool        listed = choose(&chosen);
    int         error  = 0;
    est_narrow  narrow = p->dtype == EST_F32 && !p->bfloat16
                             ? est_product_narrow(p->trans_a, p->trans_b, p->m, p->n, p->k)
                             : EST_NARROW_NOT;

    if (p->m > 0 && narrow == EST_NARROW_FORWARD) return est_narrow_launch(c, p);
    if (p->m > 0 && narrow == EST_NARROW_KERNEL && p->epilogue == EST_EPILOGUE_NONE) return launch_narrow_kernel(c, p);
    if (!listed && (est_tiles_launch(c, p, &error) || launch_tf32(c, p, &error))) return error;
    return est_product_launch_as(c, &chosen);
}

/* The mask and the sums in one pass of ours after the product: cuBLASLt's own take longer. */
int est_product_launch_masked_sums(const est_call *c, const est_product *p, float *sums)
{
    est_product        plain = *p;
    est_columns<float> s = est_columns_of((const float *)p->y, (const float *)p->with, sums, p->m, p->n, p->scratch);
    operands<float>    o = operands_of<float>(p);
    int                error = 0;

    if (p->n == 0) return 0;
    plain.epilogue = EST_EPILOGUE_NONE;
    if (!p->bfloat16 && !p->trans_a && p->k > 0 && p->k <= EST_NARROW) {
        s.a      = o.a;
        s.b      = o.b;
        s.k      = (int)p->k;
        s.next_b = o.next_b;
        s.col_b  = o.col_b;
    } else {
        error = est_product_launch(c, &plain);
    }
    return error != 0 ? error : est_columns_launch(c, s);
}

int est_product_launch_as(const est_call *c, const est_product *p)
{
    est_product plain = *p;
    int         error;

    if (p->m == 0 || p->n == 0) return 0;
    error = est_batch_flush();
    if (error == 0 && p->turn && p->k > 0) error = launch_turn(c, &plain);
    if (error != 0) return error;
    if (p->epilogue == EST_EPILOGUE_MASK) plain.epilogue = EST_EPILOGUE_NONE;
    if (p->dtype == EST_F32 && p->k > 0 && est_cublaslt_launch(c, &plain, &error)) {
        if (error != 0 || p->epilogue != EST_EPILOGUE_MASK) return error;
        return launch_mask(c, (float *)p->y, (const float *)p->with, p->m * p->n);
    }
    plain.epilogue = p->epilogue;
    p              = &plain;
    switch (p->dtype) {
    case EST_F32: return p->bfloat16 ? launch_tile<float, bfloat16>(c, p) : launch_tile<float>(c, p);
    case EST_F64: return launch_tile<double>(c, p);
    case EST_I32: return launch_tile<uint32_t>(c, p); /* unsigned: an overflow wraps */
    default: return launch_tile<uint64_t>(c, p);
    }
}
