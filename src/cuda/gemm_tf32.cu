/* SPDX-License-Identifier: Apache-2.0
 *
 * Products in TF32 by a kernel of our own, for results that are small for their sums: the gradient of a layer's kernel,
 * whose sum goes over the batch, and long sums of a small batch (shorter ones gain by themselves, but not in a step).
 * cuBLASLt uses few processors for those, and for factors that are both stored along the result its slower units.
 *
 * A block makes BM x BN elements of y from a part of the sum. Factors go through registers, where 4 x 4 numbers are turned
 * if they have to be, to shared memory, where tensor cores read them (cuda/wgmma.cuh); what comes next is on its way
 * meanwhile. With several parts a second kernel adds them in order, so the bits are always the same. */
#include "cuda/gemm_parts.cuh"
#include "cuda/wgmma.cuh"

#define DEPTH  32 /* of the sum that is in shared memory at once; a stage */
#define STAGES 3
#define ACROSS (128 + 16) /* bytes to the next 8 rows: neighbours are in other banks */
#define BLOCKS 128        /* that sums are cut for */
#define LONG   2048       /* sums for which larger tiles pay */
#define SMALL  (1 << 18)  /* gradients of kernels that this is for */

struct alignas(16) four {
    float v[4];
};

struct tf32_product {
    const float    *a, *b;
    float          *y; /* parts: m x n for each */
    int64_t         m, n, k;
    int64_t         part; /* of k, of a block */
    est_product_end end;
};

/* What a block reads of a factor for a stage: ROWS of the result (or columns) by DEPTH. ALONG_ROWS: neighbours in memory
 * are of neighbouring rows, else of neighbouring places of the sum. A thread has EACH times 4 x 4 numbers, or none. */
template <int ROWS, int THREADS, bool ALONG_ROWS> struct tf32_factor {
    static const int ALONG = (ROWS / 8 * ACROSS + 127) / 128 * 128 + 16; /* bytes to the next 4 of the sum, as ACROSS */
    static const int BYTES = ALONG * (DEPTH / 4);
    static const int UNITS = ROWS * DEPTH / 16, EACH = UNITS > THREADS ? UNITS / THREADS : 1;

    const float *from[EACH]; /* where each unit is read next */
    int64_t      line;       /* from one line of memory to the next */
    int          rows, left; /* in memory from the block's first row on; of the sum from the next stage on */
    four         v[EACH][4];

    static __device__ int unit(int e)
    {
        return e * THREADS + (int)threadIdx.x;
    }

    /* The place of 4 x 4 numbers in a stage, line i of which is at row + i or depth + i, or, not ALONG_ROWS, further. */
    static __device__ int row_of(int e)
    {
        return ALONG_ROWS ? unit(e) % (ROWS / 4) * 4 : unit(e) / (DEPTH / 4);
    }

    static __device__ int depth_of(int e)
    {
        return ALONG_ROWS ? unit(e) / (ROWS / 4) * 4 : unit(e) % (DEPTH / 4) * 4;
    }

    __device__ void begin(const float *all, int64_t n_rows, int64_t k, int64_t row, int64_t depth, int64_t end)
    {
        line = ALONG_ROWS ? n_rows : k;
        rows = (int)(n_rows - row < ROWS ? n_rows - row : ROWS);
        left = (int)(end - depth);
        EST_UNROLL(EACH)
        for (int e = 0; e < EACH; e++) {
            int64_t r = row + row_of(e), l = depth + depth_of(e);

            from[e] = all + (ALONG_ROWS ? l * line + r : r * line + l);
        }
    }

    /* Reads a stage, zeros beyond the factor, and goes on to the next. */
    __device__ void load(void)
    {
        const int STEP = ALONG_ROWS ? 1 : ROWS / 4; /* lines between those of 4 x 4 numbers */
        bool      all  = rows == ROWS && left >= DEPTH;

        if ((int)threadIdx.x >= UNITS) return;
        EST_UNROLL(EACH)
        for (int e = 0; e < EACH; e++) {
            EST_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                bool there = row_of(e) + (ALONG_ROWS ? 0 : i * STEP) < rows &&
                             depth_of(e) + (ALONG_ROWS ? i : 0) < left;

                if (all || there) {
                    v[e][i] = *(const four *)(from[e] + i * STEP * line);
                } else {
                    v[e][i] = four{};
                }
            }
            from[e] += ALONG_ROWS ? DEPTH * line : DEPTH;
        }
        left -= DEPTH;
    }

    __device__ void store(char *to) const
    {
        if ((int)threadIdx.x >= UNITS) return;
        EST_UNROLL(EACH)
        for (int e = 0; e < EACH; e++) {
            EST_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                int  r = row_of(e) + (ALONG_ROWS ? i : i * (ROWS / 4));
                four w;

                EST_UNROLL(4)
                for (int j = 0; j < 4; j++) w.v[j] = est_tf32(ALONG_ROWS ? v[e][j].v[i] : v[e][i].v[j]);
                *(four *)(to + depth_of(e) / 4 * ALONG + r / 8 * ACROSS + r % 8 * 16) = w;
            }
        }
    }
};

/* GROUPS warpgroups, 64 rows each. */
template <int GROUPS, int BN, bool TRANS_A, bool TRANS_B>
static __global__ void __launch_bounds__(GROUPS *EST_WARPGROUP) multiply_tf32(tf32_product p)
{
    const int                                  BM = 64 * GROUPS, THREADS = GROUPS * EST_WARPGROUP;
    typedef tf32_factor<BM, THREADS, TRANS_A>  left;
    typedef tf32_factor<BN, THREADS, !TRANS_B> right;
    const int                                  BYTES = left::BYTES + right::BYTES;

    EST_ROOM(room);
    left    a;
    right   b;
    float   sum[BN / 2] = {};
    int64_t row = (int64_t)blockIdx.y * BM, column = (int64_t)blockIdx.x * BN;
    int64_t begin = (int64_t)blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    int     group = (int)threadIdx.x / EST_WARPGROUP, steps = (int)((end - begin + DEPTH - 1) / DEPTH);
    float  *y = p.y + (int64_t)blockIdx.z * p.m * p.n;

    a.begin(p.a, p.m, p.k, row, begin, end);
    b.begin(p.b, p.n, p.k, column, begin, end);
    a.load();
    b.load();
    for (int s = 0; s < steps; s++) {
        char *at = room + s % STAGES * BYTES; /* the product of STAGES steps ago, which read it, is done */

        a.store(at);
        b.store(at + left::BYTES);
        if (s + 1 < steps) {
            a.load();
            b.load();
        }
        est_show_to_products();
        __syncthreads();
        est_multiply<BN, DEPTH / 8>(sum, est_pieces{ at + group * 8 * ACROSS, left::ALONG, ACROSS },
                                    est_pieces{ at + left::BYTES, right::ALONG, ACROSS });
        est_products_wait<STAGES - 2>();
    }
    est_products_wait<0>();
    EST_UNROLL(BN / 4)
    for (int i = 0; i < BN / 4; i++) { /* two neighbours of a row each */
        int                warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        int64_t            r = row + 16 * warp + lane / 4 + i % 2 * 8, c = column + i / 2 * 8 + lane % 4 * 2;
        est_pack<float, 2> two = { { sum[2 * i], sum[2 * i + 1] } };

        if (r >= p.m || c >= p.n) continue;
        *(est_pack<float, 2> *)(y + r * p.n + c) = gridDim.z == 1 ? est_finish(p.end, two, r, c) : two;
    }
}

/* --- which products, and how cut ---------------------------------------------------------------------------------- */

template <int GROUPS, int BN, bool TRANS_A, bool TRANS_B> static int launch_as(const est_call *c, const tf32_product &p)
{
    const int THREADS = GROUPS * EST_WARPGROUP;
    const int BYTES   = STAGES *
                      (tf32_factor<64 * GROUPS, THREADS, TRANS_A>::BYTES + tf32_factor<BN, THREADS, !TRANS_B>::BYTES);

    return est_launch_shared(c, multiply_tf32<GROUPS, BN, TRANS_A, TRANS_B>,
                             dim3(est_blocks(p.n, BN), est_blocks(p.m, 64 * GROUPS), est_blocks(p.k, p.part)), THREADS,
                             BYTES, p);
}

template <int GROUPS, int BN> static int launch_tiles(const est_call *c, const est_product *product, int64_t parts)
{
    tf32_product p = { (const float *)product->a,
                       (const float *)product->b,
                       (float *)product->y,
                       product->m,
                       product->n,
                       product->k,
                       0,
                       est_end_of(product) };
    int          error;

    p.part = ((p.k + parts - 1) / parts + DEPTH - 1) / DEPTH * DEPTH;
    parts  = est_blocks(p.k, p.part);
    if (parts > 1) p.y = (float *)product->scratch;
    error = product->trans_a   ? launch_as<GROUPS, BN, true, false>(c, p)
            : product->trans_b ? launch_as<GROUPS, BN, false, true>(c, p)
                               : launch_as<GROUPS, BN, false, false>(c, p);
    if (error != 0 || parts == 1) return error;
    return est_join_launch<2>(c, product, p.y, (int)parts);
}

/* Factors are read 16 bytes at a time, results written 8. */
static bool is_even(const est_product *p)
{
    int64_t along_a = p->trans_a ? p->m : p->k, along_b = p->trans_b ? p->k : p->n;

    return along_a % 4 == 0 && along_b % 4 == 0 && p->n % 2 == 0 && est_aligned(p->a) && est_aligned(p->b) &&
           (uintptr_t)p->y % 8 == 0;
}

static int64_t tiles_of(const est_product *p, int64_t rows, int64_t columns)
{
    return est_blocks(p->m, rows) * (int64_t)est_blocks(p->n, columns);
}

/* As many parts as give each of so many blocks one, if those are long enough and there is room for them. */
static int64_t parts_of(const est_product *p, int64_t tiles, int64_t blocks)
{
    int64_t parts = blocks / tiles, most = (int64_t)(EST_GEMM_WORKSPACE / sizeof(float)) / (p->m * p->n);

    if (parts > p->k / (2 * DEPTH)) parts = p->k / (2 * DEPTH);
    if (parts > most) parts = most;
    return parts > 1 ? parts : 1;
}

/* Where cuBLASLt takes longer, as measured on an H200. */
static bool pays(const est_product *p)
{
    if (p->trans_a) return p->m * p->n <= SMALL && (p->k >= 256 || p->k <= 64);
    if (p->trans_b) return p->k <= 64 && tiles_of(p, 64, 64) <= BLOCKS;
    return p->k >= LONG / 2 && tiles_of(p, 64, 64) <= BLOCKS;
}

bool est_tf32_launch(const est_call *c, const est_product *p, int *error)
{
    if (p->dtype != EST_F32 || est_precision_of(p) != EST_PRODUCT_TF32 || p->batch > 0 || (p->trans_a && p->trans_b) ||
        p->m == 0 || p->n == 0 || p->k < DEPTH || !is_even(p) || !pays(p)) {
        return false;
    }
    if (p->k >= LONG && p->m > 64 && p->n > 64) {
        *error = launch_tiles<2, 128>(c, p, parts_of(p, tiles_of(p, 128, 128), BLOCKS));
    } else if (p->k <= 128 || p->n <= 32) {
        *error = launch_tiles<1, 32>(c, p, parts_of(p, tiles_of(p, 64, 32), BLOCKS));
    } else {
        *error = launch_tiles<1, 64>(c, p, parts_of(p, tiles_of(p, 64, 64), 2 * BLOCKS));
    }
    return true;
}
