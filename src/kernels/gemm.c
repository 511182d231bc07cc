/* SPDX-License-Identifier: Apache-2.0
 *
 * Float matrix products: from a shape to tasks, and from tasks to tiles.
 *
 * C is computed in tiles that fit the registers (gemm_tile.c). A tile needs a few rows of A and a few columns of B, k
 * entries each, k in blocks of K_BLOCK so that they stay in the caches. An operand is read in one of three ways:
 *
 *   in place   when it is used so few times, or is so small, that copying costs more than it saves
 *   shared     copied into the order the tiles read it, once, by all threads together, before the tasks start
 *   private    copied so by each task for itself; only for the operand whose parts belong to one task each
 *
 * A task is a range of C along its longer side; the operand of that side is the private one. When C is small and k
 * long, a task is a range of k instead: it leaves a partial C in scratch, and the partial ones are added up in order.
 *
 * All of it follows from the shape, never from the number of threads: every element is the sum of the same numbers in
 * the same order, however many threads there are. */
#include "kernels/gemm.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/gemm_parts.h"

#define K_BLOCK      256
#define TASK_FLOPS   1e6 /* about 10 microseconds: handing over a smaller task does not pay */
#define STORE_K      8   /* writing an element of C costs about as much as this much of k */
#define TASKS_WANTED 48  /* enough that the last one to end does not matter; more only when C is huge */
/* rows or columns: with K_BLOCK entries each they are at home in the second-level cache */
#define TASK_SIDE_MAX      192
#define TASK_SIDE_LARGE    64 /* at least so many when the other operand is read from the third level, once a task */
#define LARGE_OPERAND      131072    /* elements of one block of k: more than the second-level cache holds */
#define SHARED_FLOATS_MAX  (2 << 20) /* of one copy; a longer k is done in several rounds */
#define INLINE_PACK_FLOATS 16384     /* not worth waking the pool for */
#define LONG_K             1024      /* tasks are ranges of k from here on, if C has at most SMALL_C elements */
#define SMALL_C            16384
#define SHORT_K            64                    /* the time is that of writing C, best in whole rows */
#define ROWS_OF_TASKS      (4 * TASK_SIDE_LARGE) /* as long as that leaves a few tasks to share */
#define K_CHUNK_MIN        512
#define CACHED_FLOATS      32768 /* of B: small enough to be read again for every row of tiles */
#define LINE               16    /* floats in a cache line */

typedef enum reading { IN_PLACE, SHARED, PRIVATE } reading;

typedef struct operand {
    const float *x;
    int64_t      stride;
    est_layout   layout;
    int64_t      n;    /* rows of A or columns of B */
    int64_t      tile; /* of these in a tile; the last tile may have less */
    int64_t      n_tiles;
    int64_t      task_tiles; /* tiles in a task */
    int64_t      width;      /* floats between two p when packed */
    reading      reading;
    float       *shared; /* the copy: blocks of k, in each block the tiles, in each tile [k][width] */
} operand;

typedef struct plan {
    const est_gemm_isa *isa;
    const est_gemm     *g;
    operand             a, b;
    int64_t             k_block;
    int64_t             k_round; /* of k for which an operand is copied at once */
    int64_t             k_chunk; /* of k in a task; n_chunks > 1: tasks are ranges of k */
    int64_t             n_chunks;
    bool                is_small;       /* not worth waking the pool for */
    int64_t             private_floats; /* of each thread */

    /* Where the run is. */
    int64_t k_begin, k_end; /* the round */
    float *private;         /* [threads][private_floats] */
    float *partial;         /* [n_chunks][m][n] */
} plan;

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t b)
{
    return div_up(a, b) * b;
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

/* Tiles of equal size as far as possible, in multiples of `grain` and of at most tile_max. */
static void operand_tiles(operand *o, int64_t tile_max, int64_t grain)
{
    o->tile       = round_up(div_up(o->n, div_up(o->n, tile_max)), grain);
    o->n_tiles    = div_up(o->n, o->tile);
    o->task_tiles = o->n_tiles;
}

static operand *shared_operand(plan *p)
{
    return p->a.reading == SHARED ? &p->a : p->b.reading == SHARED ? &p->b : NULL;
}

/* Tasks along k: both operands are used by one task only, in each of their parts. */
static void plan_k_tasks(plan *p, int64_t n_tasks)
{
    const est_gemm *g = p->g;

    p->k_chunk   = round_up(div_up(g->k, min_of(n_tasks, g->k / K_CHUNK_MIN)), LINE);
    p->n_chunks  = div_up(g->k, p->k_chunk);
    p->k_block   = div_up(p->k_chunk, div_up(p->k_chunk, K_BLOCK));
    p->a.reading = p->b.reading = PRIVATE;
}

/* Tasks along the longer side of C. */
static void plan_side_tasks(plan *p, int64_t n_tasks)
{
    bool     rows  = p->g->m > p->g->n || (p->g->k <= SHORT_K && p->g->m >= ROWS_OF_TASKS);
    operand *cut   = rows ? &p->a : &p->b;
    operand *other = cut == &p->b ? &p->a : &p->b;
    int64_t  side  = div_up(cut->n, n_tasks);

    if (other->n * p->k_block > LARGE_OPERAND) side = max_of(side, TASK_SIDE_LARGE);
    side            = min_of(side, TASK_SIDE_MAX);
    cut->task_tiles = min_of(div_up(side, cut->tile), cut->n_tiles);
    cut->reading    = PRIVATE;
    other->reading  = SHARED;
}

static void plan_memory(plan *p)
{
    const operand *shared = shared_operand(p);

    p->k_round = p->g->k;
    if (shared != NULL) {
        int64_t block = shared->n_tiles * shared->width * p->k_block;

        p->k_round = min_of(p->k_round, p->k_block * max_of(1, SHARED_FLOATS_MAX / block));
    }
    if (p->a.reading == PRIVATE) p->private_floats += p->a.task_tiles * p->a.width * p->k_block;
    if (p->b.reading == PRIVATE) p->private_floats += p->b.task_tiles * p->b.width * p->k_block;
    p->private_floats = round_up(p->private_floats, LINE);
}

static plan make_plan(const est_gemm_isa *isa, const est_gemm *g)
{
    plan    p       = { .isa = isa, .g = g, .n_chunks = 1 };
    double  tasks   = 2.0 * (double)g->m * (double)g->n * (double)(g->k + STORE_K) / TASK_FLOPS;
    int64_t n_tasks = tasks < 1 ? 1 : tasks > TASKS_WANTED ? TASKS_WANTED : (int64_t)tasks;

    p.a = (operand){ .x = g->a, .stride = g->lda, .layout = est_gemm_layout_a(g), .n = g->m, .width = isa->row_width };
    p.b = (operand){ .x = g->b, .stride = g->ldb, .layout = est_gemm_layout_b(g), .n = g->n };
    operand_tiles(&p.a, isa->rows, 1);
    operand_tiles(&p.b, isa->cols, isa->lanes);
    p.b.width  = p.b.tile;
    p.k_block  = div_up(g->k, div_up(g->k, K_BLOCK));
    p.is_small = n_tasks == 1;
    if (n_tasks > 1 && g->k >= LONG_K && g->m * g->n <= SMALL_C) {
        plan_k_tasks(&p, n_tasks);
    } else {
        plan_side_tasks(&p, n_tasks);
    }
    if (g->n <= isa->direct_a_cols) p.a.reading = IN_PLACE;
    if (p.b.layout == EST_ACROSS && (g->m <= isa->direct_b_rows || g->n * g->k <= isa->direct_b_count)) {
        p.b.reading = IN_PLACE;
    }
    plan_memory(&p);
    return p;
}

/* Scratch: first the shared part, then one private part per thread. */
static int64_t shared_floats(plan *p)
{
    const operand *shared = shared_operand(p);

    if (p->n_chunks > 1) return round_up(p->n_chunks * p->g->m * p->g->n, LINE);
    return shared == NULL ? 0 : round_up(shared->n_tiles * shared->width * p->k_round, LINE);
}

static size_t scratch_bytes(plan *p, const est_pool *pool)
{
    return (size_t)(shared_floats(p) + est_pool_threads(pool) * p->private_floats) * sizeof(float);
}

/* --- tiles -------------------------------------------------------------------------------------------------------- */

static int64_t tile_length(const operand *o, int64_t tile)
{
    return min_of(o->tile, o->n - tile * o->tile);
}

static const float *tile_in_place(const operand *o, int64_t tile, int64_t k)
{
    int64_t i = tile * o->tile;

    return o->layout == EST_ACROSS ? o->x + k * o->stride + i : o->x + i * o->stride + k;
}

static void pack_tile(const plan *p, const operand *o, int64_t tile, int64_t k, int64_t k_count, float *dst)
{
    p->isa->pack(o->layout, tile_in_place(o, tile, k), o->stride, tile_length(o, tile), k_count, dst, o->width);
}

/* The tiles first .. of an operand for one block of k, wherever they are. */
typedef struct tiles {
    const float *x;
    int64_t      stride;
    int64_t      step; /* from one tile to the next */
    est_layout   layout;
} tiles;

/* Packs private tiles into *room, which moves on. */
static tiles find_tiles(const plan *p, const operand *o, int64_t first, int64_t end, int64_t k, int64_t k_count,
                        float **room)
{
    tiles t = { .stride = o->width, .step = k_count * o->width, .layout = EST_ACROSS };

    switch (o->reading) {
    case IN_PLACE:
        t = (tiles){ tile_in_place(o, first, k), o->stride, o->tile, o->layout };
        if (o->layout == EST_ALONG) t.step *= o->stride;
        break;
    case SHARED: t.x = o->shared + (k - p->k_begin) * o->n_tiles * o->width + first * t.step; break;
    case PRIVATE:
        t.x = *room;
        for (; first < end; first++, *room += t.step) pack_tile(p, o, first, k, k_count, *room);
        break;
    }
    return t;
}

/* --- blocks of C -------------------------------------------------------------------------------------------------- */

/* Tiles [row, row_end) x [col, col_end) of a matrix like C, for p in [k, k_end). */
typedef struct block {
    int64_t row, row_end, col, col_end;
    int64_t k, k_end;
    float  *c;
    int64_t ldc;
    bool    accumulate;
} block;

static void multiply_tile(const plan *p, const block *b, tiles at, tiles bt, int64_t row, int64_t col, int64_t k_count)
{
    est_gemm_tile t = {
        .k          = k_count,
        .a          = at.x + (row - b->row) * at.step,
        .a_stride   = at.stride,
        .b          = bt.x + (col - b->col) * bt.step,
        .b_stride   = bt.stride,
        .c          = b->c + row * p->a.tile * b->ldc + col * p->b.tile,
        .ldc        = b->ldc,
        .cols       = tile_length(&p->b, col),
        .accumulate = b->accumulate,
    };

    p->isa->tiles[at.layout][(t.cols - 1) / p->isa->lanes][tile_length(&p->a, row) - 1](&t);
}

/* Asks for a tile of A that is read in place, while the one before it is multiplied. (Packed ones lie in one piece,
 * which the processor sees by itself.) */
static void prefetch_a(const plan *p, tiles at, int64_t tile, int64_t k_count)
{
    const float *x = at.x + tile * at.step;

    if (at.layout == EST_ACROSS) {
        for (int64_t k = 0; k < k_count; k++) __builtin_prefetch(x + k * at.stride + p->a.tile - 1, 0, 2);
        return;
    }
    for (int64_t i = 0; i < p->a.tile; i++) {
        for (int64_t k = 0; k < k_count; k += LINE) __builtin_prefetch(x + i * at.stride + k, 0, 2);
    }
}

/* One block of k. The tiles of B that a row of C needs are read again for every row of tiles if they are few;
 * otherwise rows are taken TASK_SIDE_MAX at a time, and each tile of B stays in the first-level cache for them. */
static void multiply_block(const plan *p, const block *b, tiles at, tiles bt, int64_t k_count)
{
    int64_t row_step = max_of(1, TASK_SIDE_MAX / p->a.tile);

    if ((b->col_end - b->col) * p->b.tile * k_count <= CACHED_FLOATS) row_step = 1;
    for (int64_t row = b->row; row < b->row_end; row += row_step) {
        int64_t row_end = min_of(row + row_step, b->row_end);

        for (int64_t col = b->col; col < b->col_end; col++) {
            for (int64_t r = row; r < row_end; r++) {
                if (p->a.reading == IN_PLACE && col == b->col && r + 1 < b->row_end) {
                    prefetch_a(p, at, r + 1 - b->row, k_count);
                }
                multiply_tile(p, b, at, bt, r, col, k_count);
            }
        }
    }
}

static void multiply(const plan *p, block b, int thread)
{
    for (int64_t k_count; b.k < b.k_end; b.k += k_count) {
        float *room = p->private + thread * p->private_floats;

        k_count  = min_of(p->k_block, b.k_end - b.k);
        tiles at = find_tiles(p, &p->a, b.row, b.row_end, b.k, k_count, &room);
        tiles bt = find_tiles(p, &p->b, b.col, b.col_end, b.k, k_count, &room);
        multiply_block(p, &b, at, bt, k_count);
        b.accumulate = true;
    }
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static void side_task(void *arg, int64_t task, int thread)
{
    const plan     *p      = arg;
    const est_gemm *g      = p->g;
    int64_t         across = div_up(p->b.n_tiles, p->b.task_tiles);
    int64_t         row = task / across * p->a.task_tiles, col = task % across * p->b.task_tiles;
    int64_t         row_end    = min_of(row + p->a.task_tiles, p->a.n_tiles);
    int64_t         col_end    = min_of(col + p->b.task_tiles, p->b.n_tiles);
    bool            accumulate = g->accumulate || p->k_begin > 0;

    multiply(p, (block){ row, row_end, col, col_end, p->k_begin, p->k_end, g->c, g->ldc, accumulate }, thread);
    if (g->done != NULL && p->k_end == g->k) {
        row *= p->a.tile;
        col *= p->b.tile;
        g->done(g->done_arg, row, min_of(row_end * p->a.tile, g->m) - row, col,
                min_of(col_end * p->b.tile, g->n) - col);
    }
}

static void pack_task(void *arg, int64_t task, int thread)
{
    plan    *p       = arg;
    operand *o       = shared_operand(p);
    int64_t  tile    = task % o->n_tiles;
    int64_t  k       = p->k_begin + task / o->n_tiles * p->k_block;
    int64_t  k_count = min_of(p->k_block, p->k_end - k);

    (void)thread;
    pack_tile(p, o, tile, k, k_count, o->shared + ((k - p->k_begin) * o->n_tiles + tile * k_count) * o->width);
}

static void run_side_tasks(plan *p, est_pool *pool)
{
    operand *shared  = shared_operand(p);
    int64_t  n_tasks = div_up(p->a.n_tiles, p->a.task_tiles) * div_up(p->b.n_tiles, p->b.task_tiles);

    for (p->k_begin = 0; p->k_begin < p->g->k; p->k_begin = p->k_end) {
        p->k_end = min_of(p->k_begin + p->k_round, p->g->k);
        if (shared != NULL) {
            int64_t k = p->k_end - p->k_begin;

            est_pool_for(k * shared->n <= INLINE_PACK_FLOATS ? NULL : pool, shared->n_tiles * div_up(k, p->k_block),
                         pack_task, p);
        }
        est_pool_for(pool, n_tasks, side_task, p);
    }
}

static void k_task(void *arg, int64_t task, int thread)
{
    const plan     *p = arg;
    const est_gemm *g = p->g;
    int64_t         k = task * p->k_chunk;

    multiply(p,
             (block){ 0, p->a.n_tiles, 0, p->b.n_tiles, k, min_of(k + p->k_chunk, g->k),
                      p->partial + task * g->m * g->n, g->n, false },
             thread);
}

static void run_k_tasks(plan *p, est_pool *pool)
{
    const est_gemm *g = p->g;

    est_pool_for(pool, p->n_chunks, k_task, p);
    for (int64_t i = 0; i < g->m; i++) {
        float *restrict c = (float *)g->c + i * g->ldc;

        if (!g->accumulate) memset(c, 0, (size_t)g->n * sizeof *c);
        for (int64_t chunk = 0; chunk < p->n_chunks; chunk++) {
            const float *restrict x = p->partial + (chunk * g->m + i) * g->n;

            for (int64_t j = 0; j < g->n; j++) c[j] += x[j];
        }
    }
    if (g->done != NULL) g->done(g->done_arg, 0, g->m, 0, g->n);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static const est_gemm_isa *best_isa(void)
{
    const est_gemm_isa *const *isa = est_gemm_isas;

    while (!(*isa)->supported()) isa++;
    return *isa;
}

/* No tiles are needed: C is empty, a vector, or zero. */
static bool is_trivial(const est_gemm *g)
{
    return g->m <= 1 || g->n <= 1 || g->k == 0;
}

static void run_trivial(est_pool *pool, const est_gemm *g)
{
    if (g->m == 0 || g->n == 0) return;
    if (g->k > 0) {
        est_gemm_vector_f32(pool, g);
        return;
    }
    for (int64_t i = 0; i < g->m && !g->accumulate; i++) {
        memset((float *)g->c + i * g->ldc, 0, (size_t)g->n * sizeof(float));
    }
    if (g->done != NULL) g->done(g->done_arg, 0, g->m, 0, g->n);
}

static void run(plan *p, est_pool *pool, float *scratch)
{
    operand     *shared = shared_operand(p);
    static float none[1]; /* stands for scratch of no bytes, so that offsets have something to start from */

    if (p->is_small) pool = NULL;
    if (scratch == NULL) scratch = none;
    p->private = scratch + shared_floats(p);
    p->partial = scratch;
    if (shared != NULL) shared->shared = scratch;
    if (p->n_chunks > 1) {
        run_k_tasks(p, pool);
    } else {
        run_side_tasks(p, pool);
    }
}

void est_gemm_f32_isa(const est_gemm_isa *isa, est_pool *pool, const est_gemm *g)
{
    plan   p;
    size_t bytes;
    float *scratch;

    if (is_trivial(g)) {
        run_trivial(pool, g);
        return;
    }
    p       = make_plan(isa, g);
    bytes   = scratch_bytes(&p, pool);
    scratch = bytes > 0 ? est_alloc_aligned(bytes) : NULL;
    if (scratch == NULL && bytes > 0) {
        est_gemm_simple_f32(pool, g);
        return;
    }
    run(&p, pool, scratch);
    est_free_aligned(scratch);
}

size_t est_gemm_scratch_exact(const est_pool *pool, const est_gemm *g)
{
    plan p;

    if (is_trivial(g)) return 0;
    p = make_plan(best_isa(), g);
    return scratch_bytes(&p, pool);
}

/* Floats of an operand of n rows or columns when all of it is packed k deep: tiles are cut evenly, so there is at most
 * one more than full ones would need, and each is at most `width` wide. */
static int64_t packed_floats(int64_t n, int64_t tile, int64_t width, int64_t k)
{
    return (div_up(n, tile) + 1) * width * k;
}

/* The same, when it is shared: longer k come in rounds. */
static int64_t shared_floats_most(int64_t n, int64_t tile, int64_t width, int64_t k)
{
    int64_t one_block = packed_floats(n, tile, width, min_of(k, K_BLOCK));

    return min_of(packed_floats(n, tile, width, k), max_of(one_block, SHARED_FLOATS_MAX));
}

/* Floats of an operand that one task packs for itself: a task's side of it, or all of it when tasks are ranges of k. */
static int64_t private_floats_most(int64_t n, int64_t tile, int64_t width, int64_t k)
{
    int64_t side = k >= LONG_K ? SMALL_C : 2 * (TASK_SIDE_MAX + TASK_SIDE_LARGE); /* even tiles may be half as large */

    return packed_floats(min_of(n, side), tile, width, min_of(k, K_BLOCK));
}

/* The scratch bytes of any product of at most this size. The plan of a smaller one may differ, so its exact need may be
 * larger than that of the larger one; callers need a bound that is monotonic in every size. */
size_t est_gemm_scratch(const est_pool *pool, const est_gemm *g)
{
    const est_gemm_isa *isa    = best_isa();
    int64_t             shared = max_of(shared_floats_most(g->m, isa->rows, isa->row_width, g->k),
                                        shared_floats_most(g->n, isa->cols, isa->cols, g->k));
    int64_t private            = private_floats_most(g->m, isa->rows, isa->row_width, g->k) +
                      private_floats_most(g->n, isa->cols, isa->cols, g->k);

    if (g->k >= LONG_K) {
        int64_t chunks = min_of(TASKS_WANTED, g->k / K_CHUNK_MIN) + 1;
        shared         = max_of(shared, chunks * min_of(g->m * g->n, SMALL_C));
    }
    return (size_t)(round_up(shared, LINE) + est_pool_threads(pool) * round_up(private, LINE)) * sizeof(float);
}

void est_gemm_f32(est_pool *pool, const est_gemm *g)
{
    plan p;

    if (g->scratch == NULL || is_trivial(g)) {
        est_gemm_f32_isa(best_isa(), pool, g);
        return;
    }
    p = make_plan(best_isa(), g);
    run(&p, pool, g->scratch);
}

void est_gemm_f64(est_pool *pool, const est_gemm *g)
{
    est_gemm_simple_f64(pool, g);
}
