/* SPDX-License-Identifier: Apache-2.0
 *
 * First values that are drawn when their rows are first touched (kernels/lazy_rows.h). */
#include "kernels/lazy_rows.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/marks.h"
#include "base/thread.h"
#include "kernels/parallel.h"
#include "kernels/variable_access.h"

/* A block is as many rows as fit in so many bytes, a power of two of them, but at least one: drawing a row that was not
 * requested costs more than its mark. */
#define BLOCK_BYTES 256

/* A region is a large page. Where rows wait pages are small, since rows in use may lie anywhere; a region of which a
 * quarter was touched becomes a large page, which makes rows in it cheaper to find. */
#define PAGE_BYTES   4096
#define REGION_BYTES ((int64_t)2 << 20)
#define MANY_PAGES   (REGION_BYTES / PAGE_BYTES / 4)

#define LOCKS 16 /* the one of a region is the one of its number, modulo LOCKS */

struct est_lazy_rows {
    est_first_values values;
    int              shift; /* 1 << shift rows are a block */
    int64_t          n_blocks;
    est_marks        drawn;       /* of blocks */
    int64_t          page_blocks; /* blocks that are about a page: a power of two, at most a word of marks */
    int64_t          block_pages; /* pages of a block, at least 1 */
    uint32_t        *touched;     /* pages of each region, under its lock */
    int              n_locks;
    pthread_mutex_t  locks[LOCKS];
};

/* --- values ------------------------------------------------------------------------------------------------------- */

/* Each in a function of its own: a product and a sum that the compiler sees together are rounded once. */
#define AFFINE(T, suffix)                                                                                              \
    static __attribute__((noinline)) void scale_##suffix(T *x, int64_t n, T factor)                                    \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) x[i] *= factor;                                                                \
    }                                                                                                                  \
                                                                                                                       \
    static __attribute__((noinline)) void shift_##suffix(T *x, int64_t n, T term)                                      \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) x[i] += term;                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    static void draw_##suffix(const est_first_values *v, int64_t first, int64_t n, T *out)                             \
    {                                                                                                                  \
        first += v->first;                                                                                             \
        switch (v->distribution) {                                                                                     \
        case EST_ROW_UNIFORM: est_random_fill_uniform_##suffix(&v->stream, first, n, out); break;                      \
        case EST_ROW_NORMAL: est_random_fill_normal_##suffix(&v->stream, first, n, out); break;                        \
        case EST_ROW_TRUNCATED: est_random_fill_truncated_##suffix(&v->stream, first, n, out); break;                  \
        default:                                                                                                       \
            for (int64_t i = 0; i < n; i++) out[i] = (T)v->term;                                                       \
            return;                                                                                                    \
        }                                                                                                              \
        scale_##suffix(out, n, (T)v->factor);                                                                          \
        shift_##suffix(out, n, (T)v->term);                                                                            \
    }
AFFINE(float, f32)
AFFINE(double, f64)

/* Elements [first, first + n) to out[0 .. n). */
static void draw_elements(const est_first_values *values, est_dtype dtype, int64_t first, int64_t n, void *out)
{
    if (dtype == EST_F32) {
        draw_f32(values, first, n, out);
    } else {
        draw_f64(values, first, n, out);
    }
}

/* Of an element. */
static double draw_ns(const est_first_values *values)
{
    switch (values->distribution) {
    case EST_ROW_UNIFORM: return 1.5;
    case EST_ROW_NORMAL: return 15;
    case EST_ROW_TRUNCATED: return 40;
    default: return 0.2;
    }
}

static bool are_zeros(const est_first_values *values)
{
    return values->distribution == EST_ROW_CONSTANT && values->term == 0 && !signbit(values->term);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static est_status init_blocks(est_lazy_rows *rows, const est_view *value)
{
    int64_t n           = est_row_count(value);
    int64_t block_bytes = est_row_size(value) * (int64_t)est_dtype_size(value->dtype);
    int64_t n_regions   = n * block_bytes / REGION_BYTES + 1;

    for (; 2 * block_bytes <= BLOCK_BYTES; block_bytes *= 2) rows->shift++;
    rows->n_blocks    = (n + (INT64_C(1) << rows->shift) - 1) >> rows->shift;
    rows->block_pages = block_bytes > PAGE_BYTES ? block_bytes / PAGE_BYTES : 1;
    rows->page_blocks = 1;
    while (2 * rows->page_blocks * block_bytes <= PAGE_BYTES && rows->page_blocks < EST_MARKS_OF_WORD) {
        rows->page_blocks *= 2;
    }
    rows->drawn.words = est_zalloc(sizeof *rows->drawn.words * (size_t)est_marks_words(rows->n_blocks));
    rows->touched     = est_zalloc(sizeof *rows->touched * (size_t)n_regions);
    if (rows->drawn.words == NULL || rows->touched == NULL) {
        return est_no_memory();
    }
    for (; rows->n_locks < LOCKS; rows->n_locks++) EST_TRY(est_lock_init(&rows->locks[rows->n_locks]));
    return EST_OK;
}

void est_lazy_rows_free(est_lazy_rows *rows)
{
    if (rows == NULL) return;
    for (int i = 0; i < rows->n_locks; i++) pthread_mutex_destroy(&rows->locks[i]);
    est_free(rows->drawn.words);
    est_free(rows->touched);
    est_free(rows);
}

est_status est_lazy_rows_create(est_var *var)
{
    est_status status;

    var->lazy = est_zalloc(sizeof *var->lazy);
    if (var->lazy == NULL) return est_no_memory();
    status = init_blocks(var->lazy, &var->value);
    if (status != EST_OK) {
        est_lazy_rows_free(var->lazy);
        var->lazy = NULL;
    }
    return status;
}

/* The first element of a block; of the one after the last, the end. */
static int64_t block_start(const est_var *var, int64_t block)
{
    int64_t row = block << var->lazy->shift, rows = est_row_count(&var->value);

    return (row < rows ? row : rows) * est_row_size(&var->value);
}

static char *element(const est_var *var, int64_t i)
{
    return (char *)var->value.data + (size_t)i * est_dtype_size(var->value.dtype);
}

static size_t bytes_of(const est_var *var)
{
    return (size_t)var->value.count * est_dtype_size(var->value.dtype);
}

/* Blocks [first, first + n). Memory that waits is all zeros. */
static void fill_blocks(const est_var *var, int64_t first, int64_t n)
{
    int64_t from = block_start(var, first), to = block_start(var, first + n);

    if (are_zeros(&var->lazy->values)) return;
    draw_elements(&var->lazy->values, var->value.dtype, from, to - from, element(var, from));
}

/* Bits [from, from + n), n at least 1. */
static uint64_t run_of_bits(int from, int n)
{
    return UINT64_MAX >> (EST_MARKS_OF_WORD - n) << from;
}

/* Pages of a word that blocks of the mask are the first to touch. */
static uint32_t new_pages(const est_lazy_rows *rows, uint64_t drawn, uint64_t mask)
{
    int64_t n = 0;

    for (int64_t from = 0; from < EST_MARKS_OF_WORD; from += rows->page_blocks) {
        uint64_t page = run_of_bits((int)from, (int)rows->page_blocks);

        n += (mask & page) != 0 && (drawn & page) == 0;
    }
    return (uint32_t)(n * rows->block_pages);
}

static int64_t region_of(const est_var *var, int64_t word)
{
    return block_start(var, word * EST_MARKS_OF_WORD) * (int64_t)est_dtype_size(var->value.dtype) / REGION_BYTES;
}

/* Under the region's lock. */
static void count_pages(const est_var *var, int64_t region, uint32_t pages)
{
    uint32_t *touched = &var->lazy->touched[region], before = *touched;
    size_t    from = (size_t)(region * REGION_BYTES), bytes = bytes_of(var) - from;

    *touched += pages;
    if (before < MANY_PAGES && *touched >= MANY_PAGES) {
        est_pages_large((char *)var->value.data + from, bytes < REGION_BYTES ? bytes : REGION_BYTES);
    }
}

/* Draws those blocks of a word that are in the mask and have not been drawn. */
static void draw_blocks(est_var *var, int64_t word, uint64_t mask)
{
    est_lazy_rows   *rows   = var->lazy;
    int64_t          region = region_of(var, word);
    pthread_mutex_t *lock   = &rows->locks[region % LOCKS];
    uint64_t         drawn;

    pthread_mutex_lock(lock);
    drawn = est_marks_word(&rows->drawn, word);
    mask &= ~drawn;
    for (uint64_t todo = mask; todo != 0;) {
        int from = __builtin_ctzll(todo), n = 1;

        while (from + n < EST_MARKS_OF_WORD && (todo >> (from + n) & 1) != 0) n++;
        fill_blocks(var, word * EST_MARKS_OF_WORD + from, n);
        todo &= ~run_of_bits(from, n);
    }
    if (mask != 0) {
        count_pages(var, region, new_pages(rows, drawn, mask));
        est_marks_set(&rows->drawn, word, mask);
    }
    pthread_mutex_unlock(lock);
}

/* --- when a variable begins --------------------------------------------------------------------------------------- */

/* The arguments of a loop over rows or elements. */
typedef struct draw_job {
    est_var                *var;
    const est_first_values *values;
    const est_view         *indices;
    int64_t                 first;
    char                   *out;
} draw_job;

static void draw_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const draw_job *job = arg;

    (void)block;
    draw_elements(job->values, job->var->value.dtype, begin, end - begin, element(job->var, begin));
}

void est_lazy_begin(est_var *var, est_pool *pool, const est_first_values *values)
{
    draw_job job = { .var = var, .values = values };

    if (var->lazy != NULL && var->blank && !var->initialized) {
        var->lazy->values = *values;
        est_pages_small(var->value.data, bytes_of(var));
        est_marks_start(&var->lazy->drawn, var->lazy->n_blocks);
    } else {
        est_lazy_overwritten(var);
        est_parallel_for(pool, var->value.count, 64, draw_ns(values), draw_range, &job);
    }
    var->blank       = false; /* at most once in a variable's life do its rows wait */
    var->initialized = true;
}

bool est_lazy_wait(const est_var *var)
{
    return var->lazy != NULL && est_marks_left(&var->lazy->drawn) > 0;
}

void est_lazy_overwritten(est_var *var)
{
    if (!est_lazy_wait(var)) return;
    est_pages_large(var->value.data, bytes_of(var));
    est_marks_fill(&var->lazy->drawn);
}

/* --- when rows are touched ---------------------------------------------------------------------------------------- */

/* The first index from `i` on whose row was not drawn; n: none. Once all rows in use are drawn, only this runs. */
#define FIRST_WAITING(T, suffix)                                                                                       \
    static int64_t first_waiting_##suffix(const est_lazy_rows *rows, const T *indices, int64_t i, int64_t n)           \
    {                                                                                                                  \
        while (i < n && (indices[i] < 0 || est_marks_has(&rows->drawn, (int64_t)indices[i] >> rows->shift))) i++;      \
        return i;                                                                                                      \
    }
FIRST_WAITING(int32_t, i32)
FIRST_WAITING(int64_t, i64)

static int64_t first_waiting(const est_lazy_rows *rows, const est_view *indices, int64_t i, int64_t n)
{
    return indices->dtype == EST_I64 ? first_waiting_i64(rows, indices->data, i, n)
                                     : first_waiting_i32(rows, indices->data, i, n);
}

static void draw_named(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const draw_job      *job  = arg;
    const est_lazy_rows *rows = job->var->lazy;

    (void)block;
    end += job->first;
    for (int64_t i = begin + job->first; (i = first_waiting(rows, job->indices, i, end)) < end; i++) {
        int64_t at = est_row_at(job->indices->data, job->indices->dtype == EST_I64, i) >> rows->shift;

        draw_blocks(job->var, at / EST_MARKS_OF_WORD, UINT64_C(1) << at % EST_MARKS_OF_WORD);
    }
}

#define PAGE_NS 1000 /* of a page that is touched for the first time */

void est_lazy_draw(est_var *var, est_pool *pool, const est_view *indices)
{
    draw_job job = { .var = var, .indices = indices };
    double   ns;

    if (!est_lazy_wait(var)) return;
    job.first = first_waiting(var->lazy, indices, 0, indices->count);
    ns        = PAGE_NS + draw_ns(&var->lazy->values) * (double)block_start(var, 1);
    est_parallel_for(pool, indices->count - job.first, 1, ns, draw_named, &job);
}

static void draw_words(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const draw_job *job = arg;
    int64_t         n   = job->var->lazy->n_blocks;

    (void)block;
    for (int64_t word = begin; word < end; word++) {
        int64_t of_word = n - word * EST_MARKS_OF_WORD;

        draw_blocks(job->var, word, run_of_bits(0, of_word < EST_MARKS_OF_WORD ? (int)of_word : EST_MARKS_OF_WORD));
    }
}

void est_lazy_draw_all(est_var *var, est_pool *pool)
{
    draw_job job = { .var = var };
    double   ns;

    if (!est_lazy_wait(var)) return;
    est_pages_large(var->value.data, bytes_of(var));
    ns = draw_ns(&var->lazy->values) * (double)block_start(var, EST_MARKS_OF_WORD);
    if (are_zeros(&var->lazy->values)) {
        est_marks_fill(&var->lazy->drawn);
    } else {
        est_parallel_for(pool, est_marks_words(var->lazy->n_blocks), 1, ns, draw_words, &job);
    }
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* The blocks from `block` on, before `end`, that are drawn or wait like it. Other threads may draw some at the same
 * time; *drawn is the state that the run was built from. */
static int64_t same_blocks(const est_lazy_rows *rows, int64_t block, int64_t end, bool *drawn)
{
    int64_t next = block + 1;

    *drawn = est_marks_has(&rows->drawn, block);
    while (next < end && est_marks_has(&rows->drawn, next) == *drawn) next++;
    return next;
}

static void copy_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const draw_job      *job  = arg;
    const est_var       *var  = job->var;
    const est_lazy_rows *rows = var->lazy;
    size_t               size = est_dtype_size(var->value.dtype);
    char                *out  = job->out + (size_t)begin * size;
    int64_t              from = job->first + begin, to = job->first + end;

    (void)block;
    while (from < to) {
        int64_t at   = from / est_row_size(&var->value) >> rows->shift;
        int64_t last = ((to - 1) / est_row_size(&var->value) >> rows->shift) + 1, next, n;
        bool    drawn;

        next = block_start(var, same_blocks(rows, at, last, &drawn));
        n    = (next < to ? next : to) - from;
        if (drawn) {
            memcpy(out, element(var, from), (size_t)n * size);
        } else {
            draw_elements(&rows->values, var->value.dtype, from, n, out);
        }
        from += n;
        out += (size_t)n * size;
    }
}

void est_lazy_copy(const est_var *var, est_pool *pool, int64_t first, int64_t n, void *out)
{
    draw_job job = { .var = (est_var *)(uintptr_t)var, .first = first, .out = out };

    if (est_lazy_wait(var)) {
        est_parallel_for(pool, n, 64, draw_ns(&var->lazy->values), copy_range, &job);
    } else if (n > 0) {
        memcpy(out, element(var, first), (size_t)n * est_dtype_size(var->value.dtype));
    }
}
