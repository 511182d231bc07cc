/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducers of kernels/reduction.h, one paragraph each, and the walk over blocks. */
#include "kernels/reduction.h"

#include <math.h>
#include <string.h>

#include "kernels/parallel.h"

/* --- reducers ----------------------------------------------------------------------------------------------------- */

#define PLUS(a, b)               ((a) + (b))
#define TIMES(a, b)              ((a) * (b))
#define PLUS_SQUARE(acc, v)      ((acc) + (v) * (v))
#define LARGER(a, b)             ((((b) > (a)) | ((b) != (b))) ? (b) : (a)) /* a NaN stays */
#define SMALLER(a, b)            ((((b) < (a)) | ((b) != (b))) ? (b) : (a))
#define LARGER_INT(a, b)         ((b) > (a) ? (b) : (a))
#define SMALLER_INT(a, b)        ((b) < (a) ? (b) : (a))
#define BOTH(a, b)               ((a) & (b))
#define EITHER(a, b)             ((a) | (b))
#define AS_IS(total, n)          (total)
#define OVER_COUNT(total, n)     ((total) / (n))
#define OVER_COUNT_INT(total, n) ((n) == 0 ? 0 : (total) / (n)) /* truncated, as TensorFlow does */
#define HALF(total, n)           ((total) / 2)

#define FN(x)      sum_f32_##x
#define T          float
#define LANE       float
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      sum_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      sum_i32_##x
#define T          int32_t
#define LANE       int32_t
#define TOTAL      int32_t
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      sum_i64_##x
#define T          int64_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      mean_f32_##x
#define T          float
#define LANE       float
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     OVER_COUNT
#include "kernels/reduce_fn.def"

#define FN(x)      mean_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     OVER_COUNT
#include "kernels/reduce_fn.def"

#define FN(x)      mean_i32_##x
#define T          int32_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     OVER_COUNT_INT
#include "kernels/reduce_fn.def"

#define FN(x)      mean_i64_##x
#define T          int64_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START 0
#define ADD        PLUS
#define MERGE      PLUS
#define FINISH     OVER_COUNT_INT
#include "kernels/reduce_fn.def"

#define FN(x)      max_f32_##x
#define T          float
#define LANE       float
#define TOTAL      float
#define LANE_START -INFINITY
#define ADD        LARGER
#define MERGE      LARGER
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      max_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START -INFINITY
#define ADD        LARGER
#define MERGE      LARGER
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      max_i32_##x
#define T          int32_t
#define LANE       int32_t
#define TOTAL      int32_t
#define LANE_START INT32_MIN
#define ADD        LARGER_INT
#define MERGE      LARGER_INT
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      max_i64_##x
#define T          int64_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START INT64_MIN
#define ADD        LARGER_INT
#define MERGE      LARGER_INT
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      min_f32_##x
#define T          float
#define LANE       float
#define TOTAL      float
#define LANE_START INFINITY
#define ADD        SMALLER
#define MERGE      SMALLER
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      min_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START INFINITY
#define ADD        SMALLER
#define MERGE      SMALLER
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      min_i32_##x
#define T          int32_t
#define LANE       int32_t
#define TOTAL      int32_t
#define LANE_START INT32_MAX
#define ADD        SMALLER_INT
#define MERGE      SMALLER_INT
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      min_i64_##x
#define T          int64_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START INT64_MAX
#define ADD        SMALLER_INT
#define MERGE      SMALLER_INT
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      prod_f32_##x
#define T          float
#define LANE       double
#define TOTAL      double
#define LANE_START 1
#define ADD        TIMES
#define MERGE      TIMES
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      prod_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START 1
#define ADD        TIMES
#define MERGE      TIMES
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      prod_i32_##x
#define T          int32_t
#define LANE       int32_t
#define TOTAL      int32_t
#define LANE_START 1
#define ADD        TIMES
#define MERGE      TIMES
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      prod_i64_##x
#define T          int64_t
#define LANE       int64_t
#define TOTAL      int64_t
#define LANE_START 1
#define ADD        TIMES
#define MERGE      TIMES
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      all_##x
#define T          uint8_t
#define LANE       uint8_t
#define TOTAL      uint8_t
#define LANE_START 1
#define ADD        BOTH
#define MERGE      BOTH
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      any_##x
#define T          uint8_t
#define LANE       uint8_t
#define TOTAL      uint8_t
#define LANE_START 0
#define ADD        EITHER
#define MERGE      EITHER
#define FINISH     AS_IS
#include "kernels/reduce_fn.def"

#define FN(x)      half_squares_f32_##x
#define T          float
#define LANE       float
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS_SQUARE
#define MERGE      PLUS
#define FINISH     HALF
#include "kernels/reduce_fn.def"

#define FN(x)      half_squares_f64_##x
#define T          double
#define LANE       double
#define TOTAL      double
#define LANE_START 0
#define ADD        PLUS_SQUARE
#define MERGE      PLUS
#define FINISH     HALF
#include "kernels/reduce_fn.def"

const est_reducer *est_reducer_find(est_reduce_kind kind, est_dtype dtype)
{
    static const est_reducer *const numbers[][4] = {
        [EST_REDUCE_SUM]          = { &sum_f32_reducer, &sum_f64_reducer, &sum_i32_reducer, &sum_i64_reducer },
        [EST_REDUCE_MEAN]         = { &mean_f32_reducer, &mean_f64_reducer, &mean_i32_reducer, &mean_i64_reducer },
        [EST_REDUCE_MAX]          = { &max_f32_reducer, &max_f64_reducer, &max_i32_reducer, &max_i64_reducer },
        [EST_REDUCE_MIN]          = { &min_f32_reducer, &min_f64_reducer, &min_i32_reducer, &min_i64_reducer },
        [EST_REDUCE_PROD]         = { &prod_f32_reducer, &prod_f64_reducer, &prod_i32_reducer, &prod_i64_reducer },
        [EST_REDUCE_HALF_SQUARES] = { &half_squares_f32_reducer, &half_squares_f64_reducer },
    };

    switch (dtype) {
    case EST_F32: return numbers[kind][0];
    case EST_F64: return numbers[kind][1];
    case EST_I32: return numbers[kind][2];
    case EST_I64: return numbers[kind][3];
    case EST_BOOL: return kind == EST_REDUCE_ALL ? &all_reducer : kind == EST_REDUCE_ANY ? &any_reducer : NULL;
    default: return NULL;
    }
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

#define TOTAL_BYTES    8     /* of one column, at most */
#define PART_ELEMENTS  32768 /* a long reduction is cut into parts of about this many */
#define PARTS_MAX      64
#define SHORT_RUN      1024 /* runs up to here are done by est_reducer.runs */
#define NS_PER_ELEMENT 0.15

/* The shape as blocks: [outer axes..., rows, width]. Outer axes alternate between kept and reduced. */
typedef struct layout {
    int     n_outer;
    int64_t dim[EST_RANK_MAX], stride[EST_RANK_MAX];
    bool    kept[EST_RANK_MAX];
    int64_t n_kept;    /* combinations of the kept outer axes */
    int64_t n_reduced; /* combinations of the reduced outer axes */
    int64_t rows, width;
    int64_t n_tiles; /* of the width */
    int64_t n_parts; /* of the n_reduced * rows rows that go into a result */
} layout;

typedef struct job {
    const est_reducer *reducer;
    layout             l;
    const char        *x;
    char              *out;
    char              *partial; /* [n_kept * n_tiles][n_parts][EST_REDUCE_WIDTH] totals */
} job;

/* Joins neighbours of one kind and leaves axes of size 1 out. Returns how many axes remain. */
static int join_axes(const est_shape *shape, uint32_t axes, int64_t *dim, bool *kept)
{
    int n = 0;

    for (int a = 0; a < shape->rank; a++) {
        bool keep = (axes >> a & 1) == 0;

        if (shape->dim[a] == 1) continue;
        if (n > 0 && kept[n - 1] == keep) {
            dim[n - 1] *= shape->dim[a];
        } else {
            dim[n]    = shape->dim[a];
            kept[n++] = keep;
        }
    }
    return n;
}

static layout make_layout(const est_shape *shape, uint32_t axes)
{
    layout  l = { .n_kept = 1, .n_reduced = 1, .rows = 1, .width = 1 };
    int64_t units, elements, step;
    int     n = join_axes(shape, axes, l.dim, l.kept);

    if (n > 0 && l.kept[n - 1]) l.width = l.dim[--n];
    if (n > 0 && !l.kept[n - 1]) l.rows = l.dim[--n];
    step = l.rows * l.width;
    for (int a = n - 1; a >= 0; a--) {
        l.stride[a] = step;
        step *= l.dim[a];
        if (l.kept[a]) {
            l.n_kept *= l.dim[a];
        } else {
            l.n_reduced *= l.dim[a];
        }
    }
    l.n_outer = n;
    l.n_tiles = (l.width + EST_REDUCE_WIDTH - 1) / EST_REDUCE_WIDTH;
    units     = l.n_kept * l.n_tiles;
    elements  = l.n_reduced * l.rows * (l.width < EST_REDUCE_WIDTH ? l.width : EST_REDUCE_WIDTH); /* in a unit */
    l.n_parts = 1;
    if (units > 0 && units < PARTS_MAX) { /* too few results to share out: share out their parts */
        l.n_parts = elements / PART_ELEMENTS;
        if (l.n_parts > PARTS_MAX / units) l.n_parts = PARTS_MAX / units;
        if (l.n_parts < 1) l.n_parts = 1;
    }
    return l;
}

/* Where the block starts: the kept outer axes count `kept`, the reduced ones `reduced`. */
static int64_t block_offset(const layout *l, int64_t kept, int64_t reduced)
{
    int64_t at = 0;

    for (int a = l->n_outer - 1; a >= 0; a--) {
        int64_t *index = l->kept[a] ? &kept : &reduced;

        at += *index % l->dim[a] * l->stride[a];
        *index /= l->dim[a];
    }
    return at;
}

/* Takes rows [begin, end) of the n_reduced * rows that belong to a tile into its totals. */
static void take_rows(const job *j, int64_t kept, int64_t col, int64_t n_cols, int64_t begin, int64_t end, void *total)
{
    const layout *l = &j->l;

    j->reducer->init(total, n_cols);
    while (begin < end) {
        int64_t row = begin % l->rows;
        int64_t n   = l->rows - row < end - begin ? l->rows - row : end - begin;
        int64_t at  = block_offset(l, kept, begin / l->rows) + row * l->width + col;

        j->reducer->take(total, j->x + at * j->reducer->size, n, l->width, n_cols);
        begin += n;
    }
}

static int64_t tile_columns(const layout *l, int64_t tile)
{
    int64_t left = l->width - tile * EST_REDUCE_WIDTH;

    return left < EST_REDUCE_WIDTH ? left : EST_REDUCE_WIDTH;
}

static void finish_tile(const job *j, int64_t unit, const void *total)
{
    const layout *l    = &j->l;
    int64_t       tile = unit % l->n_tiles, kept = unit / l->n_tiles;
    char         *out = j->out + (kept * l->width + tile * EST_REDUCE_WIDTH) * j->reducer->size;

    j->reducer->finish(out, total, tile_columns(l, tile), l->n_reduced * l->rows);
}

/* Whole results: units [begin, end), a unit being one tile of one kept combination. */
static void reduce_units(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const job    *j = arg;
    const layout *l = &j->l;
    double        total[EST_REDUCE_WIDTH];

    (void)block;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t tile = unit % l->n_tiles;

        take_rows(j, unit / l->n_tiles, tile * EST_REDUCE_WIDTH, tile_columns(l, tile), 0, l->n_reduced * l->rows,
                  total);
        finish_tile(j, unit, total);
    }
}

/* Parts of results: item unit * n_parts + part. */
static void reduce_parts(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const job    *j     = arg;
    const layout *l     = &j->l;
    int64_t       total = l->n_reduced * l->rows;

    (void)block;
    for (int64_t item = begin; item < end; item++) {
        int64_t unit = item / l->n_parts, part = item % l->n_parts, tile = unit % l->n_tiles;

        take_rows(j, unit / l->n_tiles, tile * EST_REDUCE_WIDTH, tile_columns(l, tile), total * part / l->n_parts,
                  total * (part + 1) / l->n_parts, j->partial + item * EST_REDUCE_WIDTH * TOTAL_BYTES);
    }
}

static void reduce_runs(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const job *j    = arg;
    int64_t    size = j->reducer->size;

    (void)block;
    j->reducer->runs(j->out + begin * size, j->x + begin * j->l.rows * size, end - begin, j->l.rows);
}

size_t est_reduce_scratch(int64_t count)
{
    return count < 2 * PART_ELEMENTS ? 0 : (size_t)PARTS_MAX * EST_REDUCE_WIDTH * TOTAL_BYTES;
}

void est_reduce_run(est_pool *pool, const est_reducer *reducer, const est_shape *shape, uint32_t axes, const void *x,
                    void *out, void *scratch)
{
    job           j     = { reducer, make_layout(shape, axes), x, out, scratch };
    const layout *l     = &j.l;
    int64_t       units = l->n_kept * l->n_tiles;
    double        ns    = NS_PER_ELEMENT * (double)(l->n_reduced * l->rows) *
                (double)(l->width < EST_REDUCE_WIDTH ? l->width : EST_REDUCE_WIDTH);

    if (l->n_parts > 1) {
        est_parallel_for(pool, units * l->n_parts, 1, ns / (double)l->n_parts, reduce_parts, &j);
        for (int64_t unit = 0; unit < units; unit++) {
            char *total = j.partial + unit * l->n_parts * EST_REDUCE_WIDTH * TOTAL_BYTES;

            for (int64_t part = 1; part < l->n_parts; part++) {
                reducer->join(total, total + part * EST_REDUCE_WIDTH * TOTAL_BYTES, tile_columns(l, unit % l->n_tiles));
            }
            finish_tile(&j, unit, total);
        }
    } else if (l->width == 1 && l->n_reduced == 1 && l->rows <= SHORT_RUN) {
        est_parallel_for(pool, units, 16, 2 + ns, reduce_runs, &j);
    } else {
        est_parallel_for(pool, units, 1, 10 + ns, reduce_units, &j);
    }
}
