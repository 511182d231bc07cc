/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as matrix products; see the header. Matrix rows are built and consumed by the same thread. */
#include "kernels/conv_im2col.h"

#include <string.h>

#include "kernels/parallel.h"

#define BLOCK_BYTES  (256 << 10) /* of the matrix of windows: stays in L2 */
#define SLICES_MAX   16          /* partial filter gradients */
#define SLICE_FLOPS  4e6         /* worth a slice of its own */
#define SHARED_FLOPS 2e6         /* worth waking other threads for */

typedef struct job {
    const est_conv_geometry *g;
    est_dtype                dtype;
    size_t                   size;   /* of an element */
    int64_t                  taps;   /* kh * kw * c: columns of the matrix */
    int64_t                  pixels; /* of one image's output */
    int64_t                  block;  /* pixels of a block */
    int64_t                  blocks; /* of one image */
    int64_t                  n_slices;
    double                   flops;
    const char              *x, *filter, *y; /* y is dy for the gradients */
    char                    *out, *partial, *threads;
    size_t                   matrix_bytes, gemm_bytes; /* of a thread: a block's windows, and scratch of its product */
    size_t                   thread_bytes;             /* of both */
    est_gemm_done_fn         done;
    void                    *done_arg;
} job;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t round64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* The image is its own matrix of windows. */
static bool is_plain_product(const est_conv_geometry *g)
{
    return g->kh == 1 && g->kw == 1 && g->sh == 1 && g->sw == 1 && g->oh == g->h && g->ow == g->w;
}

/* The product that makes up a part, for that many output pixels; pointers are set by the caller. With a plain product
 * it holds for all pixels of all images. */
static est_gemm product_of(const job *j, est_conv_part part, int64_t pixels)
{
    int64_t taps = j->taps, k = j->g->k;

    switch (part) {
    case EST_CONV_FORWARD: return (est_gemm){ .m = pixels, .n = k, .k = taps, .lda = taps, .ldb = k, .ldc = k };
    case EST_CONV_INPUT_GRAD:
        return (est_gemm){ .trans_b = true, .m = pixels, .n = taps, .k = k, .lda = k, .ldb = k, .ldc = taps };
    default: return (est_gemm){ .trans_a = true, .m = taps, .n = k, .k = pixels, .lda = taps, .ldb = k, .ldc = k };
    }
}

/* Scratch of the largest product of a block: a whole block, the last one of an image, adding to a sum or not. */
static size_t block_gemm_bytes(const job *j, est_conv_part part)
{
    int64_t last = j->pixels - (j->blocks - 1) * j->block;
    size_t  most = 0;

    if (j->dtype != EST_F32 || j->blocks == 0) return 0;
    for (int i = 0; i < 4; i++) {
        est_gemm m    = product_of(j, part, i % 2 == 0 ? j->block : last);
        m.accumulate  = i / 2 == 1;
        size_t needed = est_gemm_scratch(NULL, &m);
        if (needed > most) most = needed;
    }
    return most;
}

static job make_job(const est_conv_geometry *g, est_dtype dtype, est_conv_part part)
{
    job j = { .g = g, .dtype = dtype, .size = est_dtype_size(dtype) };

    j.flops  = 2.0 * (double)(g->n * g->oh * g->ow) * (double)(g->kh * g->kw * g->c * g->k);
    j.taps   = g->kh * g->kw * g->c;
    j.pixels = g->oh * g->ow;
    j.block  = BLOCK_BYTES / (int64_t)j.size / (j.taps > 0 ? j.taps : 1);
    j.block  = j.block < 16 ? 16 : j.block;
    j.block  = min64(j.block, j.pixels > 0 ? j.pixels : 1);
    j.blocks = (j.pixels + j.block - 1) / j.block;

    j.n_slices     = min64((int64_t)(j.flops / SLICE_FLOPS), min64(SLICES_MAX, g->n * j.blocks));
    j.n_slices     = j.n_slices < 1 ? 1 : j.n_slices;
    j.matrix_bytes = round64((size_t)(j.block * j.taps) * j.size);
    j.gemm_bytes   = round64(block_gemm_bytes(&j, part));
    j.thread_bytes = j.matrix_bytes + j.gemm_bytes;
    return j;
}

static void multiply(est_pool *pool, est_dtype dtype, const est_gemm *m)
{
    if (dtype == EST_F32) {
        est_gemm_f32(pool, m);
    } else {
        est_gemm_f64(pool, m);
    }
}

/* All of a plain product at once, packing into `scratch`. */
static void multiply_all(const job *j, est_pool *pool, est_gemm m, void *scratch)
{
    m.scratch = scratch;
    multiply(pool, j->dtype, &m);
}

/* --- images to windows and back ----------------------------------------------------------------------------------- */

/* Writes the windows of pixels [first, first + n) of an image, a row each. */
static void write_windows(const job *j, const char *image, int64_t first, int64_t n, char *matrix)
{
    const est_conv_geometry *g     = j->g;
    size_t                   pixel = (size_t)g->c * j->size;

    for (int64_t p = first; p < first + n; p++) {
        int64_t h0 = p / g->ow * g->sh - g->top, w0 = p % g->ow * g->sw - g->left;
        int64_t from, to;

        est_conv_taps(p % g->ow, g->sw, g->left, g->dw, g->kw, g->w, &from, &to);
        for (int64_t a = 0; a < g->kh; a++, matrix += (size_t)g->kw * pixel) {
            int64_t     h   = h0 + a * g->dh;
            const char *row = image + (h * g->w + w0) * (int64_t)pixel;

            if (h < 0 || h >= g->h) {
                memset(matrix, 0, (size_t)g->kw * pixel);
                continue;
            }
            memset(matrix, 0, (size_t)from * pixel);
            memset(matrix + (size_t)to * pixel, 0, (size_t)(g->kw - to) * pixel);
            if (g->dw == 1) {
                memcpy(matrix + (size_t)from * pixel, row + from * (int64_t)pixel, (size_t)(to - from) * pixel);
                continue;
            }
            for (int64_t b = from; b < to; b++) {
                memcpy(matrix + (size_t)b * pixel, row + b * g->dw * (int64_t)pixel, pixel);
            }
        }
    }
}

/* The transpose of that: adds every element of the windows to the place it came from. */
#define ADD_WINDOWS(T, suffix)                                                                                         \
    static void add_windows_##suffix(const est_conv_geometry *g, const T *matrix, int64_t first, int64_t n, T *image)  \
    {                                                                                                                  \
        for (int64_t p = first; p < first + n; p++) {                                                                  \
            int64_t h0 = p / g->ow * g->sh - g->top, w0 = p % g->ow * g->sw - g->left;                                 \
            int64_t from, to;                                                                                          \
                                                                                                                       \
            est_conv_taps(p % g->ow, g->sw, g->left, g->dw, g->kw, g->w, &from, &to);                                  \
            for (int64_t a = 0; a < g->kh; a++, matrix += g->kw * g->c) {                                              \
                int64_t h = h0 + a * g->dh;                                                                            \
                                                                                                                       \
                for (int64_t b = from; b < to && h >= 0 && h < g->h; b++) {                                            \
                    T *restrict sum        = image + (h * g->w + w0 + b * g->dw) * g->c;                               \
                    const T *restrict term = matrix + b * g->c;                                                        \
                    for (int64_t c = 0; c < g->c; c++) sum[c] += term[c];                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
ADD_WINDOWS(float, f32)
ADD_WINDOWS(double, f64)

static int64_t image_bytes(const job *j)
{
    return j->g->h * j->g->w * j->g->c * (int64_t)j->size;
}

static char *thread_matrix(const job *j, int thread)
{
    return j->threads + (size_t)thread * j->thread_bytes;
}

/* One block's product, by the thread that owns `matrix`. */
static void multiply_block(const job *j, char *matrix, est_gemm m)
{
    m.scratch = j->gemm_bytes > 0 ? matrix + j->matrix_bytes : NULL;
    multiply(NULL, j->dtype, &m);
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static void forward_block(void *arg, int64_t task, int thread)
{
    const job *j     = arg;
    int64_t    image = task / j->blocks, first = task % j->blocks * j->block;
    int64_t    n      = min64(j->block, j->pixels - first);
    int64_t    row    = image * j->pixels + first;
    char      *matrix = thread_matrix(j, thread);
    est_gemm   m      = product_of(j, EST_CONV_FORWARD, n);

    m.a = matrix;
    m.b = j->filter;
    m.c = j->out + row * j->g->k * (int64_t)j->size;
    write_windows(j, j->x + image * image_bytes(j), first, n, matrix);
    multiply_block(j, matrix, m);
    if (j->done != NULL) j->done(j->done_arg, row, n, 0, j->g->k);
}

void est_conv_im2col(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *x, const void *filter,
                     void *y, void *scratch, est_gemm_done_fn done, void *done_arg)
{
    job      j       = make_job(g, dtype, EST_CONV_FORWARD);
    est_gemm product = product_of(&j, EST_CONV_FORWARD, g->n * j.pixels);

    product.a        = x;
    product.b        = filter;
    product.c        = y;
    product.done     = done;
    product.done_arg = done_arg;
    if (is_plain_product(g) || j.taps == 0) {
        multiply_all(&j, pool, product, scratch);
        return;
    }
    j.x        = x;
    j.filter   = filter;
    j.out      = y;
    j.threads  = scratch;
    j.done     = done;
    j.done_arg = done_arg;
    if (g->k > 0) est_pool_for(j.flops < SHARED_FLOPS ? NULL : pool, g->n * j.blocks, forward_block, &j);
}

/* --- gradient of the input ---------------------------------------------------------------------------------------- */

/* Windows overlap, so an image is the smallest piece that one thread can own. */
static void input_image(void *arg, int64_t image, int thread)
{
    const job *j      = arg;
    char      *matrix = thread_matrix(j, thread);
    void      *dx     = j->out + image * image_bytes(j);

    memset(dx, 0, (size_t)image_bytes(j));
    for (int64_t first = 0; first < j->pixels; first += j->block) {
        int64_t  n = min64(j->block, j->pixels - first);
        est_gemm m = product_of(j, EST_CONV_INPUT_GRAD, n);

        m.a = j->y + (image * j->pixels + first) * j->g->k * (int64_t)j->size;
        m.b = j->filter;
        m.c = matrix;
        multiply_block(j, matrix, m);
        if (j->dtype == EST_F32) {
            add_windows_f32(j->g, (const float *)(void *)matrix, first, n, dx);
        } else {
            add_windows_f64(j->g, (const double *)(void *)matrix, first, n, dx);
        }
    }
}

void est_conv_im2col_input(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *dy,
                           const void *filter, void *dx, void *scratch)
{
    job      j       = make_job(g, dtype, EST_CONV_INPUT_GRAD);
    est_gemm product = product_of(&j, EST_CONV_INPUT_GRAD, g->n * j.pixels);

    product.a = dy;
    product.b = filter;
    product.c = dx;
    if (g->c == 0) return;
    if (is_plain_product(g)) {
        multiply_all(&j, pool, product, scratch);
        return;
    }
    j.y       = dy;
    j.filter  = filter;
    j.out     = dx;
    j.threads = scratch;
    est_pool_for(j.flops < SHARED_FLOPS ? NULL : pool, g->n, input_image, &j);
}

/* --- gradient of the filter --------------------------------------------------------------------------------------- */

static size_t filter_bytes(const job *j)
{
    return (size_t)(j->taps * j->g->k) * j->size;
}

static void filter_slice(void *arg, int64_t slice, int thread)
{
    const job *j      = arg;
    int64_t    n_all  = j->g->n * j->blocks;
    char      *matrix = thread_matrix(j, thread);
    char      *sum    = slice == 0 ? j->out : j->partial + (size_t)(slice - 1) * round64(filter_bytes(j));
    est_gemm   m      = product_of(j, EST_CONV_FILTER_GRAD, 0);

    m.a = matrix;
    m.c = sum;
    for (int64_t b = slice * n_all / j->n_slices; b < (slice + 1) * n_all / j->n_slices; b++) {
        int64_t image = b / j->blocks, first = b % j->blocks * j->block;

        m.k = min64(j->block, j->pixels - first);
        m.b = j->y + (image * j->pixels + first) * j->g->k * (int64_t)j->size;
        write_windows(j, j->x + image * image_bytes(j), first, m.k, matrix);
        multiply_block(j, matrix, m);
        m.accumulate = true;
    }
}

#define ADD_SLICES(T, suffix)                                                                                          \
    static void add_slices_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                              \
    {                                                                                                                  \
        const job *j    = arg;                                                                                         \
        T *restrict sum = (T *)(void *)j->out;                                                                         \
                                                                                                                       \
        (void)block;                                                                                                   \
        for (int64_t s = 1; s < j->n_slices; s++) {                                                                    \
            const T *restrict term = (const T *)(void *)(j->partial + (size_t)(s - 1) * round64(filter_bytes(j)));     \
            for (int64_t i = begin; i < end; i++) sum[i] += term[i];                                                   \
        }                                                                                                              \
    }
ADD_SLICES(float, f32)
ADD_SLICES(double, f64)

void est_conv_im2col_filter(est_pool *pool, const est_conv_geometry *g, est_dtype dtype, const void *x, const void *dy,
                            void *dfilter, void *scratch)
{
    job      j       = make_job(g, dtype, EST_CONV_FILTER_GRAD);
    est_gemm product = product_of(&j, EST_CONV_FILTER_GRAD, g->n * j.pixels);

    product.a = x;
    product.b = dy;
    product.c = dfilter;
    if (j.taps * g->k == 0) return;
    if (is_plain_product(g)) {
        multiply_all(&j, pool, product, scratch);
        return;
    }
    if (g->n * j.pixels == 0) {
        memset(dfilter, 0, filter_bytes(&j));
        return;
    }
    j.x       = x;
    j.y       = dy;
    j.out     = dfilter;
    j.partial = scratch;
    j.threads = (char *)scratch + (size_t)(j.n_slices - 1) * round64(filter_bytes(&j));
    est_pool_for(pool, j.n_slices, filter_slice, &j);
    if (j.n_slices > 1) {
        est_parallel_for(pool, j.taps * g->k, 16, 0.1 * (double)j.n_slices,
                         dtype == EST_F32 ? add_slices_f32 : add_slices_f64, &j);
    }
}

size_t est_conv_im2col_scratch(const est_pool *pool, const est_conv_geometry *g, est_dtype dtype, est_conv_part part)
{
    job      j       = make_job(g, dtype, part);
    est_gemm product = product_of(&j, part, g->n * j.pixels);
    size_t   bytes   = (size_t)est_pool_threads(pool) * j.thread_bytes;

    if (is_plain_product(g)) return dtype == EST_F32 ? est_gemm_scratch(pool, &product) : 0;
    if (part == EST_CONV_FILTER_GRAD) bytes += (size_t)(j.n_slices - 1) * round64(filter_bytes(&j));
    return bytes;
}
