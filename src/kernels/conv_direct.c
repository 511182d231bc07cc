/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct convolution; see the header for the idea. Vectors are GCC's, so the compiler picks the instructions.
 *
 * Words: a panel is LANES * 2 neighbouring output channels; a run is a stretch of taps that lie side by side in memory
 * (a whole row of the window when it is not dilated); a band is a few rows of output of one image, the unit of work. */
#include "kernels/conv_direct.h"

#include <string.h>

#include "kernels/parallel.h"

#define LANES              8
#define PANEL              (2 * LANES)
#define TILE_PIXELS        6  /* 6 x 2 accumulators + 2 filter vectors + 1 input = 15 of 16 registers */
#define TILE_ROWS          6  /* of the filter, for its gradient */
#define WIDE_ROWS_MAX      32 /* filters of few rows have tiles of 3 rows by two panels */
#define SHORT_RUN          24 /* taps */
#define SMALL_FILTER_BYTES (16 << 10)
#define BAND_BYTES         (64 << 10) /* of input under a band: stays in L2 beside the filter */
#define GRAD_BAND_BYTES    (20 << 10) /* of input and output gradient under a band: stays in L1 */
#define GRAD_CHANNELS_MAX  64
#define SLICES_MAX         16  /* partial filter gradients */
#define SLICE_FLOPS        4e6 /* worth a slice of its own */
#define SHARED_FLOPS       2e6 /* worth waking other threads for */

typedef float v8 __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t round64(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static double flops(const est_conv_geometry *g)
{
    return 2.0 * (double)(g->n * g->oh * g->ow) * (double)(g->kh * g->kw * g->c * g->k);
}

/* --- bands and padding -------------------------------------------------------------------------------------------- */

typedef struct layout {
    int64_t cols, rows;      /* input columns a row of windows spans; input rows a full band spans */
    int64_t band_rows;       /* output rows of a band */
    int64_t bands;           /* of one image */
    bool    padded;          /* bands are copied with their padding */
    int64_t row_step;        /* floats from one input row to the next, where windows look */
    int64_t n_runs, run_len; /* taps */
    int64_t panels;
    size_t  table_bytes, copy_bytes; /* of one thread's scratch */
} layout;

static int64_t span(int64_t out, int64_t stride, int64_t window, int64_t dilation)
{
    return (out - 1) * stride + (window - 1) * dilation + 1;
}

static layout lay_out(const est_conv_geometry *g, int64_t band_bytes, int64_t bytes_per_out_row)
{
    layout  l       = { 0 };
    int64_t per_row = 0;

    l.cols      = span(g->ow, g->sw, g->kw, g->dw);
    per_row     = g->sh * l.cols * g->c * (int64_t)sizeof(float) + bytes_per_out_row;
    l.band_rows = band_bytes / per_row;
    if (l.band_rows < 1) l.band_rows = 1;
    if (l.band_rows > g->oh) l.band_rows = g->oh;
    l.bands     = (g->oh + l.band_rows - 1) / l.band_rows;
    l.band_rows = (g->oh + l.bands - 1) / l.bands; /* even them out */
    l.rows      = span(l.band_rows, g->sh, g->kh, g->dh);
    l.padded    = g->top > 0 || g->left > 0 || l.cols > g->w || span(g->oh, g->sh, g->kh, g->dh) > g->h;
    l.row_step  = (l.padded ? l.cols : g->w) * g->c;
    l.n_runs    = g->dw == 1 ? g->kh : g->kh * g->kw;
    l.run_len   = g->dw == 1 ? g->kw * g->c : g->c;
    l.panels    = (g->k + PANEL - 1) / PANEL;

    l.table_bytes = round64((size_t)(l.band_rows * g->ow) * sizeof(int64_t));
    l.copy_bytes  = l.padded ? round64((size_t)(l.rows * l.cols * g->c) * sizeof(float)) : 0;
    return l;
}

static int64_t run_offset(const est_conv_geometry *g, const layout *l, int64_t run)
{
    if (g->dw == 1) return run * g->dh * l->row_step;
    return run / g->kw * g->dh * l->row_step + run % g->kw * g->dw * g->c;
}

/* The input under output rows [first, first + rows) of an image, padding included: where windows can look freely. */
static const float *band_input(const est_conv_geometry *g, const layout *l, const float *image, int64_t first,
                               int64_t rows, float *copy)
{
    int64_t top = first * g->sh - g->top, height = span(rows, g->sh, g->kh, g->dh);
    int64_t columns = min64(l->cols - g->left, g->w); /* of the image, that come into view */

    if (!l->padded) return image + top * l->row_step;
    for (int64_t r = 0; r < height; r++) {
        float  *to = copy + r * l->row_step;
        int64_t h  = top + r;

        if (h < 0 || h >= g->h || columns <= 0) {
            memset(to, 0, (size_t)l->row_step * sizeof(float));
            continue;
        }
        memset(to, 0, (size_t)(g->left * g->c) * sizeof(float));
        memcpy(to + g->left * g->c, image + h * g->w * g->c, (size_t)(columns * g->c) * sizeof(float));
        memset(to + (g->left + columns) * g->c, 0, (size_t)((l->cols - g->left - columns) * g->c) * sizeof(float));
    }
    return copy;
}

/* Where the window of each pixel of a band starts, from the band's first. */
static void fill_table(const est_conv_geometry *g, const layout *l, int64_t *table)
{
    for (int64_t r = 0; r < l->band_rows; r++) {
        for (int64_t col = 0; col < g->ow; col++) table[r * g->ow + col] = r * g->sh * l->row_step + col * g->sw * g->c;
    }
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

typedef struct forward {
    const est_conv_geometry *g;
    layout                   l;
    const float             *x, *filter;
    float                   *y;
    bool                     flipped;
    float                   *packed; /* [panels][taps * c][PANEL] */
    int64_t                 *taps;
    char                    *threads; /* each: table, copy */
    est_gemm_done_fn         done;
    void                    *done_arg;
} forward;

/* Lays one panel of the filter out as it is read: row after row of 16 channels, zeros beyond the last. */
static void pack_panel(const forward *f, int64_t panel)
{
    const est_conv_geometry *g    = f->g;
    int64_t                  k0   = panel * PANEL;
    int64_t                  n    = min64(PANEL, g->k - k0);
    int64_t                  taps = g->kh * g->kw;
    float                   *to   = f->packed + panel * taps * g->c * PANEL;

    for (int64_t tap = 0; tap < taps; tap++) {
        for (int64_t c = 0; c < g->c; c++, to += PANEL) {
            const float *from = f->flipped ? f->filter + ((taps - 1 - tap) * g->k + k0) * g->c + c
                                           : f->filter + (tap * g->c + c) * g->k + k0;
            int64_t      step = f->flipped ? g->c : 1;

            for (int64_t j = 0; j < n; j++) to[j] = from[j * step];
            for (int64_t j = n; j < PANEL; j++) to[j] = 0;
        }
    }
}

/* One tile: `n` pixels (the others repeat the last one and are dropped) by `cols` channels of one panel, NV vectors of
 * which are computed. Long runs are walked one after the other; the taps of short ones are looked up in a list. */
#define FORWARD_STEP(NV, at)                                                                                           \
    {                                                                                                                  \
        const float x[TILE_PIXELS] = { x0[at], x1[at], x2[at], x3[at], x4[at], x5[at] };                               \
        v8          row[NV];                                                                                           \
        for (int v = 0; v < NV; v++) row[v] = ((const v8 *)w)[v];                                                      \
        for (int p = 0; p < TILE_PIXELS; p++) {                                                                        \
            for (int v = 0; v < NV; v++) acc[p][v] += x[p] * row[v];                                                   \
        }                                                                                                              \
    }
#define FORWARD_TILE(NV)                                                                                               \
    static void forward_tile_##NV(const forward *f, const float *band, const int64_t *table, int64_t n,                \
                                  const float *w, float *y, int64_t cols)                                              \
    {                                                                                                                  \
        const float   *at[TILE_PIXELS];                                                                                \
        v8             acc[TILE_PIXELS][NV];                                                                           \
        const int64_t *taps = f->taps, n_runs = f->l.n_runs, len = f->l.run_len;                                       \
                                                                                                                       \
        for (int p = 0; p < TILE_PIXELS; p++) {                                                                        \
            at[p] = band + table[p < n ? p : n - 1];                                                                   \
            for (int v = 0; v < NV; v++) acc[p][v] = (v8){ 0 };                                                        \
        }                                                                                                              \
        const float *x0 = at[0], *x1 = at[1], *x2 = at[2], *x3 = at[3], *x4 = at[4], *x5 = at[5];                      \
        if (len < SHORT_RUN) {                                                                                         \
            for (int64_t i = 0; i < n_runs * len; i++, w += PANEL) FORWARD_STEP(NV, taps[i])                           \
        } else {                                                                                                       \
            for (int64_t run = 0; run < n_runs; run++) {                                                               \
                int64_t shift = taps[run], end = shift + len;                                                          \
                for (int64_t i = shift; i < end; i++, w += PANEL) FORWARD_STEP(NV, i)                                  \
            }                                                                                                          \
        }                                                                                                              \
        if (n == TILE_PIXELS && cols == NV * LANES) { /* apart, so that nothing but registers is used */               \
            for (int p = 0; p < TILE_PIXELS; p++, y += f->g->k) {                                                      \
                for (int v = 0; v < NV; v++) ((v8 *)y)[v] = acc[p][v];                                                 \
            }                                                                                                          \
        } else {                                                                                                       \
            float all[TILE_PIXELS][NV * LANES];                                                                        \
            for (int p = 0; p < TILE_PIXELS; p++) {                                                                    \
                for (int v = 0; v < NV; v++) ((v8 *)all[p])[v] = acc[p][v];                                            \
            }                                                                                                          \
            for (int p = 0; p < n; p++, y += f->g->k) memcpy(y, all[p], (size_t)cols * sizeof(float));                 \
        }                                                                                                              \
    }
FORWARD_TILE(1)
FORWARD_TILE(2)

/* Where taps lie in a window: every one when runs are short, else the first of every run. */
static void fill_taps(const est_conv_geometry *g, const layout *l, int64_t *taps)
{
    for (int64_t run = 0; run < l->n_runs; run++) {
        int64_t shift = run_offset(g, l, run);

        if (l->run_len >= SHORT_RUN) taps[run] = shift;
        for (int64_t i = 0; i < l->run_len && l->run_len < SHORT_RUN; i++) taps[run * l->run_len + i] = shift + i;
    }
}

static void forward_tile(const forward *f, const float *band, const int64_t *table, int64_t p, int64_t n, int64_t panel,
                         float *y)
{
    const est_conv_geometry *g    = f->g;
    const float             *w    = f->packed + panel * f->l.n_runs * f->l.run_len * PANEL;
    int64_t                  cols = min64(PANEL, g->k - panel * PANEL);

    n = min64(TILE_PIXELS, n - p);
    y += p * g->k + panel * PANEL;
    if (cols > LANES) {
        forward_tile_2(f, band, table + p, n, w, y, cols);
    } else {
        forward_tile_1(f, band, table + p, n, w, y, cols);
    }
}

/* All pixels of a band: a filter that fits into L1 is walked for every tile, so that output is written in order; a
 * larger one panel by panel. */
static void forward_tiles(const forward *f, const float *band, const int64_t *table, int64_t n, float *y)
{
    int64_t panels = f->l.panels;

    if (f->l.n_runs * f->l.run_len * panels * PANEL * (int64_t)sizeof(float) <= SMALL_FILTER_BYTES) {
        for (int64_t p = 0; p < n; p += TILE_PIXELS) {
            for (int64_t panel = 0; panel < panels; panel++) forward_tile(f, band, table, p, n, panel, y);
        }
        return;
    }
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t p = 0; p < n; p += TILE_PIXELS) forward_tile(f, band, table, p, n, panel, y);
    }
}

static void forward_band(void *arg, int64_t task, int thread)
{
    const forward           *f     = arg;
    const est_conv_geometry *g     = f->g;
    const layout            *l     = &f->l;
    int64_t                  image = task / l->bands, first = task % l->bands * l->band_rows;
    int64_t                  n = min64(l->band_rows, g->oh - first) * g->ow; /* pixels */
    int64_t     *table         = (int64_t *)(void *)(f->threads + (size_t)thread * (l->table_bytes + l->copy_bytes));
    float       *copy          = (float *)(void *)((char *)table + l->table_bytes);
    float       *y             = f->y + (image * g->oh + first) * g->ow * g->k;
    const float *band;

    if (n <= 0) return;
    fill_table(g, l, table);
    band = band_input(g, l, f->x + image * g->h * g->w * g->c, first, n / g->ow, copy);
    forward_tiles(f, band, table, n, y);
    if (f->done != NULL) f->done(f->done_arg, (image * g->oh + first) * g->ow, n, 0, g->k);
}

static size_t packed_bytes(const est_conv_geometry *g, const layout *l)
{
    return round64((size_t)(l->panels * g->kh * g->kw * g->c * PANEL) * sizeof(float));
}

static size_t taps_bytes(const layout *l)
{
    return round64((size_t)(l->n_runs * (l->run_len < SHORT_RUN ? l->run_len : 1)) * sizeof(int64_t));
}

size_t est_conv_direct_scratch(const est_conv_geometry *g, int threads)
{
    layout l = lay_out(g, BAND_BYTES, 0);

    return packed_bytes(g, &l) + taps_bytes(&l) + (size_t)threads * (l.table_bytes + l.copy_bytes);
}

void est_conv_direct_f32(est_pool *pool, const est_conv_geometry *g, const float *x, const float *filter, bool flipped,
                         float *y, void *scratch, est_gemm_done_fn done, void *done_arg)
{
    forward f = { .g = g, .x = x, .filter = filter, .y = y, .flipped = flipped, .done = done, .done_arg = done_arg };

    if (g->n * g->oh * g->ow * g->k == 0) return;
    f.l       = lay_out(g, BAND_BYTES, 0);
    f.packed  = scratch;
    f.taps    = (int64_t *)(void *)((char *)scratch + packed_bytes(g, &f.l));
    f.threads = (char *)f.taps + taps_bytes(&f.l);
    fill_taps(g, &f.l, f.taps);
    for (int64_t panel = 0; panel < f.l.panels; panel++) pack_panel(&f, panel);
    est_pool_for(flops(g) < SHARED_FLOPS ? NULL : pool, g->n * f.l.bands, forward_band, &f);
}

bool est_conv_direct_mirror(const est_conv_geometry *g, est_conv_geometry *mirror)
{
    *mirror = (est_conv_geometry){ .n    = g->n,
                                   .h    = g->oh,
                                   .w    = g->ow,
                                   .c    = g->k,
                                   .kh   = g->kh,
                                   .kw   = g->kw,
                                   .k    = g->c,
                                   .oh   = g->h,
                                   .ow   = g->w,
                                   .sh   = 1,
                                   .sw   = 1,
                                   .dh   = g->dh,
                                   .dw   = g->dw,
                                   .top  = (g->kh - 1) * g->dh - g->top,
                                   .left = (g->kw - 1) * g->dw - g->left };
    return g->sh == 1 && g->sw == 1 && mirror->top >= 0 && mirror->left >= 0;
}

bool est_conv_direct_suits(const est_conv_geometry *g)
{
    bool plain_product = g->kh == 1 && g->kw == 1 && g->sh == 1 && g->sw == 1 && g->top == 0 && g->left == 0;

    return g->k >= 6 && g->c > 0 && g->oh > 0 && g->ow > 0 && !(plain_product && g->c >= LANES);
}

bool est_conv_direct_suits_filter(const est_conv_geometry *g)
{
    return est_conv_direct_suits(g) && g->c <= GRAD_CHANNELS_MAX;
}

/* --- gradient of the filter --------------------------------------------------------------------------------------- */

typedef struct filter_grad {
    const est_conv_geometry *g;
    layout                   l;
    const float             *x, *dy;
    float                   *dfilter;
    float                   *partial; /* [slices][taps * c][panels * PANEL] */
    int64_t                  n_slices;
    char                    *threads; /* each: table, copy, tail */
    size_t                   thread_bytes;
} filter_grad;

static int64_t grad_slices(const est_conv_geometry *g, const layout *l)
{
    int64_t n = min64((int64_t)(flops(g) / SLICE_FLOPS), min64(SLICES_MAX, g->n * l->bands));

    return n < 1 ? 1 : n;
}

/* Sums x * dy over `n` pixels into R rows by NV vectors of the filter. at[] are the rows' places in a window. */
#define GRAD_TILE(R, NV)                                                                                               \
    static void grad_tile_##R##x##NV(const float *x, const int64_t *table, int64_t n, const int64_t *at,               \
                                     const float *dy, int64_t dy_step, float *sum, int64_t sum_step)                   \
    {                                                                                                                  \
        v8      acc[R][NV];                                                                                            \
        int64_t offset[R];                                                                                             \
                                                                                                                       \
        for (int r = 0; r < R; r++) {                                                                                  \
            offset[r] = at[r];                                                                                         \
            for (int v = 0; v < NV; v++) acc[r][v] = ((const v8 *)(sum + r * sum_step))[v];                            \
        }                                                                                                              \
        for (int64_t p = 0; p < n; p++, dy += dy_step) {                                                               \
            const float *window = x + table[p];                                                                        \
            v8           d[NV];                                                                                        \
            for (int v = 0; v < NV; v++) d[v] = ((const v8 *)dy)[v];                                                   \
            for (int r = 0; r < R; r++) {                                                                              \
                float value = window[offset[r]];                                                                       \
                for (int v = 0; v < NV; v++) acc[r][v] += value * d[v];                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < R; r++) {                                                                                  \
            for (int v = 0; v < NV; v++) ((v8 *)(sum + r * sum_step))[v] = acc[r][v];                                  \
        }                                                                                                              \
    }
GRAD_TILE(1, 2)
GRAD_TILE(2, 2)
GRAD_TILE(3, 2)
GRAD_TILE(4, 2)
GRAD_TILE(5, 2)
GRAD_TILE(6, 2)
GRAD_TILE(1, 4)
GRAD_TILE(2, 4)
GRAD_TILE(3, 4)

typedef void (*grad_tile_fn)(const float *, const int64_t *, int64_t, const int64_t *, const float *, int64_t, float *,
                             int64_t);
static const grad_tile_fn grad_tall[TILE_ROWS + 1]     = { NULL,          grad_tile_1x2, grad_tile_2x2, grad_tile_3x2,
                                                           grad_tile_4x2, grad_tile_5x2, grad_tile_6x2 };
static const grad_tile_fn grad_wide[TILE_ROWS / 2 + 1] = { NULL, grad_tile_1x4, grad_tile_2x4, grad_tile_3x4 };

/* All filter rows of one panel, or of two when `wide`, over the pixels of one band. */
static void grad_panel(const filter_grad *f, bool wide, const float *band, const int64_t *table, int64_t n,
                       const float *dy, int64_t dy_step, float *sum)
{
    const grad_tile_fn *grad_tile = wide ? grad_wide : grad_tall;
    int64_t             most      = wide ? TILE_ROWS / 2 : TILE_ROWS;
    const layout       *l         = &f->l;
    int64_t             sum_step  = l->panels * PANEL;
    int64_t             rows      = l->n_runs * l->run_len;
    int64_t             tiles     = (rows + most - 1) / most;
    int64_t             run = 0, in_run = 0, shift = 0;

    for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t first = tile * rows / tiles, count = (tile + 1) * rows / tiles - first; /* evened out: 9 is 4 + 5 */
        int64_t at[TILE_ROWS];

        for (int64_t r = 0; r < count; r++) {
            at[r] = shift + in_run;
            if (++in_run == l->run_len) {
                in_run = 0;
                shift  = run_offset(f->g, l, ++run);
            }
        }
        grad_tile[count](band, table, n, at, dy, dy_step, sum + first * sum_step, sum_step);
    }
}

/* Columns of dy beyond the last full panel, as a panel with zeros behind. */
static void tail_panel(const est_conv_geometry *g, const float *dy, int64_t n, int64_t cols, float *tail)
{
    for (int64_t p = 0; p < n; p++, dy += g->k, tail += PANEL) {
        for (int64_t j = 0; j < cols; j++) tail[j] = dy[j];
        for (int64_t j = cols; j < PANEL; j++) tail[j] = 0;
    }
}

static void grad_slice(void *arg, int64_t slice, int thread)
{
    const filter_grad       *f     = arg;
    const est_conv_geometry *g     = f->g;
    const layout            *l     = &f->l;
    int64_t                  bands = g->n * l->bands;
    size_t                   size  = (size_t)(l->n_runs * l->run_len * l->panels * PANEL);
    float                   *sum   = f->partial + (size_t)slice * size;
    int64_t                 *table = (int64_t *)(void *)(f->threads + (size_t)thread * f->thread_bytes);
    float                   *copy  = (float *)(void *)((char *)table + l->table_bytes);
    float                   *tail  = (float *)(void *)((char *)copy + l->copy_bytes);

    memset(sum, 0, size * sizeof(float));
    fill_table(g, l, table);
    for (int64_t b = slice * bands / f->n_slices; b < (slice + 1) * bands / f->n_slices; b++) {
        int64_t      image = b / l->bands, first = b % l->bands * l->band_rows;
        int64_t      n  = min64(l->band_rows, g->oh - first) * g->ow;
        const float *dy = f->dy + (image * g->oh + first) * g->ow * g->k;
        const float *band;

        if (n <= 0) continue;
        band = band_input(g, l, f->x + image * g->h * g->w * g->c, first, n / g->ow, copy);
        for (int64_t k0 = 0; k0 < g->k; k0 += PANEL) {
            bool wide = l->n_runs * l->run_len <= WIDE_ROWS_MAX && g->k - k0 >= 2 * PANEL;

            if (g->k - k0 < PANEL) {
                tail_panel(g, dy + k0, n, g->k - k0, tail);
                grad_panel(f, false, band, table, n, tail, PANEL, sum + k0);
            } else {
                grad_panel(f, wide, band, table, n, dy + k0, g->k, sum + k0);
                if (wide) k0 += PANEL;
            }
        }
    }
}

/* Adds the slices in order: the result does not depend on which thread computed them. */
static void add_slices(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const filter_grad *f    = arg;
    int64_t            step = f->l.panels * PANEL, k = f->g->k;
    int64_t            size = f->l.n_runs * f->l.run_len * step;

    (void)block;
    for (int64_t r = begin; r < end; r++) {
        float *restrict to = f->dfilter + r * k;

        memcpy(to, f->partial + r * step, (size_t)k * sizeof(float));
        for (int64_t s = 1; s < f->n_slices; s++) {
            const float *restrict from = f->partial + s * size + r * step;
            for (int64_t j = 0; j < k; j++) to[j] += from[j];
        }
    }
}

static filter_grad plan_filter_grad(const est_conv_geometry *g)
{
    filter_grad f = { .g = g, .l = lay_out(g, GRAD_BAND_BYTES, g->ow * PANEL * (int64_t)sizeof(float)) };

    f.n_slices     = grad_slices(g, &f.l);
    f.thread_bytes = f.l.table_bytes + f.l.copy_bytes;
    if (g->k % PANEL != 0) f.thread_bytes += round64((size_t)(f.l.band_rows * g->ow * PANEL) * sizeof(float));
    return f;
}

static size_t partial_bytes(const filter_grad *f)
{
    return round64((size_t)(f->n_slices * f->l.n_runs * f->l.run_len * f->l.panels * PANEL) * sizeof(float));
}

size_t est_conv_direct_filter_scratch(const est_conv_geometry *g, int threads)
{
    filter_grad f = plan_filter_grad(g);

    return partial_bytes(&f) + (size_t)threads * f.thread_bytes;
}

void est_conv_direct_filter_f32(est_pool *pool, const est_conv_geometry *g, const float *x, const float *dy,
                                float *dfilter, void *scratch)
{
    filter_grad f = plan_filter_grad(g);

    f.x       = x;
    f.dy      = dy;
    f.dfilter = dfilter;
    f.partial = scratch;
    f.threads = (char *)scratch + partial_bytes(&f);
    est_pool_for(pool, f.n_slices, grad_slice, &f);
    est_parallel_for(pool, f.l.n_runs * f.l.run_len, 1, 0.1 * (double)(g->k * f.n_slices), add_slices, &f);
}
