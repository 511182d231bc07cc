/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of float32 by a kernel of our own, for results that are small for their sums: layers of a small batch, and in
 * full float32 sums over a batch. cuBLASLt uses few processors for those, or a second kernel that joins parts of a sum.
 *
 * A block makes 64 x 64 elements of y from a part of the sum. What it needs of both factors is copied to shared memory as
 * it lies in global memory, several stages ahead, so that a short part is under way as a whole. The blocks that share a
 * sum are a cluster: each then adds up some elements of all of them, in order. Longer sums have several clusters, whose
 * results a second kernel adds. So the bits are always the same.
 *
 * Numbers are multiplied by tensor cores in TF32, or with all their bits by threads. */
#include "cuda/gemm_parts.cuh"
#include "cuda/tiles.cuh"

#define SIDE    64 /* of a tile */
#define DEPTH   32 /* of the sum that a stage holds */
#define STAGES  6  /* with which two blocks fit a processor */
#define THREADS 256

typedef est_pack<float, 4> four;

struct tile_product {
    const float    *a, *b;
    float          *y; /* of several clusters: m x n for each */
    int64_t         m, n, k;
    int64_t         part;   /* of k, of a block */
    int             shared; /* blocks of a cluster */
    est_product_end end;
};

/* A factor in a stage: SIDE rows of the result (or columns) by DEPTH. ALONG: neighbours in memory are of neighbouring
 * rows, else of neighbouring places of the sum. Lines have a few floats more, so that those that a warp reads together are
 * in different banks. */
template <bool ALONG_ROWS> struct tile_factor {
    static const bool ALONG = ALONG_ROWS;
    static const int  LINES = ALONG ? DEPTH : SIDE, LINE = ALONG ? SIDE : DEPTH, STEP = LINE + (ALONG ? 8 : 4);
    static const int  FLOATS = LINES * STEP, EACH = LINES * LINE / 4 / THREADS;

    const float *from[EACH]; /* where each unit of 16 bytes is read next; not beyond the factor */
    int64_t      step;       /* floats to the next stage */
    int          left[EACH]; /* of the sum, from there on; 0 or less: none */

    static __device__ int line_of(int e)
    {
        return (e * THREADS + (int)threadIdx.x) / (LINE / 4);
    }

    static __device__ int at_of(int e)
    {
        return (e * THREADS + (int)threadIdx.x) % (LINE / 4) * 4;
    }

    __device__ void begin(const float *all, int64_t rows, int64_t k, int64_t row, int64_t depth, int64_t end)
    {
        step = ALONG ? DEPTH * rows : DEPTH;
        EST_UNROLL(EACH)
        for (int e = 0; e < EACH; e++) {
            int64_t r = row + (ALONG ? at_of(e) : line_of(e)), d = depth + (ALONG ? line_of(e) : at_of(e));

            left[e] = r < rows ? (int)(end - d) : 0;
            from[e] = left[e] > 0 ? all + (ALONG ? d * rows + r : r * k + d) : all;
        }
    }

    /* Begins to copy a stage, with zeros beyond the factor, and goes on to the next. */
    __device__ void load(float *to)
    {
        EST_UNROLL(EACH)
        for (int e = 0; e < EACH; e++) {
            est_copy_16(to + line_of(e) * STEP + at_of(e), from[e], left[e] > 0);
            left[e] -= DEPTH;
            if (left[e] > 0) from[e] += step;
        }
    }

    static __device__ int place(int r, int d)
    {
        return ALONG ? d * STEP + r : r * STEP + d;
    }
};

/* The sums of a thread, and how they grow by a stage: by tensor cores. Warps stand in two rows of four. */
template <typename A, typename B> struct tf32_sums {
    static const int GROUPS = 1, WM = SIDE / 2, WN = SIDE / 4, ROWS = WM / 16, COLUMNS = WN / 8;

    float sum[ROWS][COLUMNS][4] = {};

    static __device__ int group(void)
    {
        return 0;
    }

    static __device__ int row(void)
    {
        return (int)threadIdx.x / 128 * WM + (int)threadIdx.x % 32 / 4;
    }

    static __device__ int column(void)
    {
        return (int)threadIdx.x / 32 % 4 * WN;
    }

    /* Of each eight columns of its sums a thread has two from there on. */
    static __device__ int pair(void)
    {
        return (int)threadIdx.x % 4 * 2;
    }

#ifdef __CUDACC__
    __device__ void add(const float *a, const float *b)
    {
        int g = row(), t = (int)threadIdx.x % 4, h = column() + (int)threadIdx.x % 32 / 4;

        EST_UNROLL(4)
        for (int d = 0; d < DEPTH; d += 8) {
            uint32_t left[ROWS][4], right[COLUMNS][2];

            EST_UNROLL(ROWS)
            for (int i = 0; i < ROWS; i++) {
                EST_UNROLL(4)
                for (int e = 0; e < 4; e++) {
                    left[i][e] = est_tf32(a[A::place(g + 16 * i + e % 2 * 8, d + t + e / 2 * 4)]);
                }
            }
            EST_UNROLL(COLUMNS)
            for (int j = 0; j < COLUMNS; j++) {
                EST_UNROLL(2)
                for (int e = 0; e < 2; e++) right[j][e] = est_tf32(b[B::place(h + 8 * j, d + t + e * 4)]);
            }
            EST_UNROLL(ROWS)
            for (int i = 0; i < ROWS; i++) {
                EST_UNROLL(COLUMNS)
                for (int j = 0; j < COLUMNS; j++) est_multiply_16x8x8(sum[i][j], left[i], right[j]);
            }
        }
    }
#else
    void add(const float *a, const float *b)
    {
        for (int e = 0; e < ROWS * COLUMNS * 4; e++) {
            int r = row() + e / 4 / COLUMNS * 16 + e / 2 % 2 * 8, c = column() + e / 4 % COLUMNS * 8 + pair() + e % 2;

            for (int d = 0; d < DEPTH; d++) {
                sum[e / 4 / COLUMNS][e / 4 % COLUMNS][e % 4] += a[A::place(r, d)] * b[B::place(c, d)];
            }
        }
    }
#endif

    __device__ void store(float *to, int step) const
    {
        EST_UNROLL(ROWS * COLUMNS * 2)
        for (int e = 0; e < ROWS * COLUMNS * 2; e++) { /* two neighbours of a row each */
            int i = e / 2 / COLUMNS, j = e / 2 % COLUMNS;

            *(est_pack<float, 2> *)(to + (row() + 16 * i + e % 2 * 8) * step + column() + 8 * j +
                                    pair()) = est_pack<float, 2>{ { sum[i][j][e % 2 * 2], sum[i][j][e % 2 * 2 + 1] } };
        }
    }
};

/* The same of numbers with all their bits: two groups, 64 x 64, 8 x 4 a thread. Rows and columns of a thread are
 * neighbours by fours where they are so in memory, else apart: it reads 16 bytes at a time. */
template <typename A, typename B> struct full_sums {
    static const int ROWS = 8, COLUMNS = 4, GROUPS = 2;

    float sum[ROWS][COLUMNS] = {};

    static __device__ int group(void)
    {
        return (int)threadIdx.x / 128;
    }

    static __device__ int row(int i)
    {
        int first = (int)threadIdx.x / 64 % 2 * 4 + (int)threadIdx.x % 32 / 8;

        return A::ALONG ? 4 * first + i % 4 + i / 4 * 32 : first + 8 * i;
    }

    static __device__ int column(int j)
    {
        int first = (int)threadIdx.x / 32 % 2 * 8 + (int)threadIdx.x % 8;

        return B::ALONG ? 4 * first + j : first + 16 * j;
    }

    /* N rows of a factor by 4 from place d of the sum on; rows as place_of has them. */
    template <typename F, int N>
    static __device__ void read(const float *from, int (*place_of)(int), int d, float (&v)[N][4])
    {
        EST_UNROLL(N)
        for (int i = 0; i < N; i++) {
            int  at = F::ALONG ? F::place(place_of(i / 4 * 4), d + i % 4) : F::place(place_of(i), d);
            four p  = *(const four *)(from + at);

            EST_UNROLL(4)
            for (int e = 0; e < 4; e++) (F::ALONG ? v[i / 4 * 4 + e][i % 4] : v[i][e]) = p.v[e];
        }
    }

    __device__ void add(const float *a, const float *b)
    {
        int first = group() * (DEPTH / 2);

        EST_UNROLL(4)
        for (int d = first; d < first + DEPTH / 2; d += 4) {
            float left[ROWS][4], right[COLUMNS][4];

            read<A>(a, row, d, left);
            read<B>(b, column, d, right);
            EST_UNROLL(4)
            for (int l = 0; l < 4; l++) {
                EST_UNROLL(32)
                for (int e = 0; e < ROWS * COLUMNS; e++) {
                    sum[e / COLUMNS][e % COLUMNS] += left[e / COLUMNS][l] * right[e % COLUMNS][l];
                }
            }
        }
    }

    __device__ void store(float *to, int step) const
    {
        EST_UNROLL(32)
        for (int e = 0; e < ROWS * COLUMNS; e++) {
            to[row(e / COLUMNS) * step + column(e % COLUMNS)] = sum[e / COLUMNS][e % COLUMNS];
        }
    }
};

/* --- the kernel --------------------------------------------------------------------------------------------------- */

static __device__ four add_fours(four a, four b)
{
    EST_UNROLL(4)
    for (int e = 0; e < 4; e++) a.v[e] += b.v[e];
    return a;
}

/* Adds up the tiles of all groups of the cluster's blocks: each block has some elements of y. */
template <int GROUPS>
static __device__ void tile_join(const tile_product &p, const float *tile, int step, int64_t row, int64_t column)
{
    int    rank = (int)blockIdx.z % p.shared;
    bool   last = (int)gridDim.z == p.shared;
    float *y    = p.y + (int64_t)((int)blockIdx.z / p.shared) * p.m * p.n;

    for (int unit = rank * THREADS + (int)threadIdx.x; unit < SIDE * SIDE / 4; unit += p.shared * THREADS) {
        const float *own = tile + unit / (SIDE / 4) * step + unit % (SIDE / 4) * 4;
        int64_t      r = row + unit / (SIDE / 4), c = column + unit % (SIDE / 4) * 4;
        four         part[GROUPS * EST_CLUSTER_MAX];

        if (r >= p.m || c >= p.n) continue;
        EST_UNROLL(GROUPS * EST_CLUSTER_MAX)
        for (int i = 0; i < GROUPS * EST_CLUSTER_MAX; i++) {
            const float *from = own + i % GROUPS * SIDE * step;

            if (i < GROUPS * p.shared) part[i] = *(const four *)(p.shared > 1 ? est_of_rank(from, i / GROUPS) : from);
        }
        EST_UNROLL(GROUPS * EST_CLUSTER_MAX)
        for (int i = 1; i < GROUPS * EST_CLUSTER_MAX; i++) {
            if (i < GROUPS * p.shared) part[0] = add_fours(part[0], part[i]);
        }
        *(four *)(y + r * p.n + c) = last ? est_finish(p.end, part[0], r, c) : part[0];
    }
}

template <typename A, typename B, typename Sums>
static __global__ void __launch_bounds__(THREADS) multiply_tiles(tile_product p)
{
    const int STAGE = A::FLOATS + B::FLOATS, STEP = SIDE + 8;

    EST_ROOM(room);
    float  *stages = (float *)room;
    A       a;
    B       b;
    Sums    sums;
    int64_t row = (int64_t)blockIdx.y * SIDE, column = (int64_t)blockIdx.x * SIDE;
    int64_t begin = (int64_t)blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    int     steps = end > begin ? (int)((end - begin + DEPTH - 1) / DEPTH) : 0;

    static_assert(Sums::GROUPS * SIDE * STEP <= STAGES * STAGE, "the sums have room where the stages were");
    a.begin(p.a, p.m, p.k, row, begin, end);
    b.begin(p.b, p.n, p.k, column, begin, end);
    EST_UNROLL(STAGES)
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            a.load(stages + s * STAGE);
            b.load(stages + s * STAGE + A::FLOATS);
        }
        est_copies_end();
    }
    for (int s = 0; s < steps; s++) {
        float *at = stages + s % STAGES * STAGE;

        est_copies_wait<STAGES - 2>();
        __syncthreads(); /* what all have copied; the stage that is copied to next has been read */
        if (s + STAGES - 1 < steps) {
            float *next = stages + (s + STAGES - 1) % STAGES * STAGE;

            a.load(next);
            b.load(next + A::FLOATS);
        }
        est_copies_end();
        sums.add(at, at + A::FLOATS);
    }
    __syncthreads();
    sums.store(stages + Sums::group() * SIDE * STEP, STEP);
    if (p.shared > 1) {
        est_meet_cluster();
    } else {
        __syncthreads();
    }
    tile_join<Sums::GROUPS>(p, stages, STEP, row, column);
    if (p.shared > 1) est_meet_cluster(); /* until then others read this block's memory */
}

/* --- which products, and how cut ---------------------------------------------------------------------------------- */

/* Into parts of a sum, `shared` of which are those of a cluster. */
struct tile_cut {
    int parts, shared;
};

template <typename A, typename B, typename Sums>
static int launch_as(const est_call *c, const tile_product &p, const tile_cut &cut)
{
    return est_launch_clusters(c, multiply_tiles<A, B, Sums>,
                               dim3(est_blocks(p.n, SIDE), est_blocks(p.m, SIDE), (unsigned)cut.parts), THREADS,
                               STAGES * (int)sizeof(float) * (A::FLOATS + B::FLOATS), cut.shared, p);
}

template <bool TRANS_A, bool TRANS_B>
static int launch_either(const est_call *c, const tile_product &p, const tile_cut &cut, bool full)
{
    typedef tile_factor<TRANS_A>  left;
    typedef tile_factor<!TRANS_B> right;

    return full ? launch_as<left, right, full_sums<left, right>>(c, p, cut)
                : launch_as<left, right, tf32_sums<left, right>>(c, p, cut);
}

static int launch_tiles(const est_call *c, const est_product *product, const tile_cut &cut)
{
    bool         full = est_precision_of(product) == EST_PRODUCT_FLOAT32;
    tile_product p    = { (const float *)product->a,
                          (const float *)product->b,
                          (float *)product->y,
                          product->m,
                          product->n,
                          product->k,
                          ((product->k + cut.parts - 1) / cut.parts + 7) / 8 * 8,
                          cut.shared,
                          est_end_of(product) };
    int          error;

    if (cut.parts > cut.shared) p.y = (float *)product->scratch;
    error = product->trans_a   ? launch_either<true, false>(c, p, cut, full)
            : product->trans_b ? launch_either<false, true>(c, p, cut, full)
                               : launch_either<false, false>(c, p, cut, full);
    if (error != 0 || cut.parts == cut.shared) return error;
    return est_join_launch<4>(c, product, p.y, cut.parts / cut.shared);
}

/* Factors are read 16 bytes at a time, results written so. */
static bool is_even(const est_product *p)
{
    int64_t along_a = p->trans_a ? p->m : p->k, along_b = p->trans_b ? p->k : p->n;

    return along_a % 4 == 0 && along_b % 4 == 0 && p->n % 4 == 0 && est_aligned(p->a) && est_aligned(p->b) &&
           est_aligned(p->y) && (p->epilogue == EST_EPILOGUE_NONE || est_aligned(p->with));
}

static int64_t tiles_of(const est_product *p)
{
    return est_blocks(p->m, SIDE) * (int64_t)est_blocks(p->n, SIDE);
}

#define LONG     2048 /* sums that several clusters share */
#define SHORT    128  /* parts of a sum that a cluster has at most */
#define BLOCKS   128  /* that other sums are cut for; long ones, twice as many */
#define CLUSTERS 120  /* blocks of an H200's clusters of four or eight that run at the same time, one a processor */

/* The largest power of two, at most `most`, of parts of 32 and more that make at most so many blocks. */
static int parts_of(const est_product *p, int64_t blocks, int most)
{
    int parts = 1;

    while (2 * parts * tiles_of(p) <= blocks && p->k >= 2 * DEPTH * parts && parts < most) parts *= 2;
    return parts;
}

static tile_cut cut_of(const est_product *p)
{
    int parts = parts_of(p, CLUSTERS, EST_CLUSTER_MAX);

    if (p->k < LONG && p->k <= SHORT * parts) return tile_cut{ parts, parts };
    if (p->k < LONG) return tile_cut{ parts_of(p, BLOCKS, EST_CLUSTER_MAX), 1 };
    parts = parts_of(p, 2 * BLOCKS, BLOCKS / 2);
    if (tiles_of(p) == 1) return tile_cut{ parts, parts < EST_CLUSTER_MAX ? parts : EST_CLUSTER_MAX };
    return tile_cut{ parts, parts < 2 ? parts : 2 };
}

/* Where others take longer in a step, as measured on an H200 (docs/gpu.md). */
static bool pays(const est_product *p)
{
    int64_t tiles = tiles_of(p), work = tiles * p->k;

    if (est_precision_of(p) == EST_PRODUCT_TF32) {
        return !p->trans_a && !p->trans_b && p->m <= 2 * SIDE && work <= 1 << 13 && p->k >= 128;
    }
    if (tiles > 32 || work > 1 << 17) return false;
    if (p->trans_a) return p->k >= LONG && tiles >= 16;
    return p->k >= LONG || (p->m <= 2 * SIDE && p->k >= (tiles <= 8 ? 128 : 256));
}

bool est_tiles_launch(const est_call *c, const est_product *p, int *error)
{
    if (p->dtype != EST_F32 || p->bfloat16 || p->batch > 0 || (p->trans_a && p->trans_b) || p->m == 0 || p->n == 0 ||
        !is_even(p) || !pays(p)) {
        return false;
    }
    *error = launch_tiles(c, p, cut_of(p));
    return true;
}
