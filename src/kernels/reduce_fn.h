/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of one reducer, made by including this file (no include guard) with these defined; it undefines them:
 *   FN(x)          the name of function x of this reducer
 *   T              the element
 *   LANE, TOTAL    what short runs and whole columns are accumulated in
 *   LANE_START     the value before the first element, of either
 *   ADD(acc, v)    acc with the element v taken in
 *   MERGE(a, b)    two accumulators as one
 *   FINISH(t, n)   the result of a column from its total and its number of elements
 *
 * Narrow blocks are read as if several rows were one wide row, so that every loop is over many neighbouring elements
 * that have nothing to do with each other: the compiler makes vectors of that without reordering anything. */

#define LANES EST_REDUCE_WIDTH
#define RUN   32 /* rows a lane takes in before it goes into the total */

static void FN(init)(void *total, int64_t width)
{
    TOTAL *t = total;

    for (int64_t i = 0; i < width; i++) t[i] = LANE_START;
}

static void FN(join)(void *total, const void *other, int64_t width)
{
    TOTAL       *t = total;
    const TOTAL *o = other;

    for (int64_t i = 0; i < width; i++) t[i] = MERGE(t[i], o[i]);
}

static void FN(finish)(void *out, const void *total, int64_t width, int64_t count)
{
    T           *y = out;
    const TOTAL *t = total;

    (void)count;
    for (int64_t i = 0; i < width; i++) y[i] = (T)(FINISH(t[i], count));
}

/* At most LANES columns, kept in lanes for RUN rows at a time. `fold` columns further on are the same column again. */
static inline void FN(columns)(TOTAL *restrict total, const T *restrict x, int64_t rows, int64_t stride, int64_t width,
                               int64_t fold)
{
    for (int64_t first = 0; first < rows; first += RUN) {
        int64_t n = rows - first < RUN ? rows - first : RUN;
        LANE    lane[LANES];

        for (int64_t i = 0; i < width; i++) lane[i] = LANE_START;
        for (int64_t r = 0; r < n; r++) {
            const T *row = x + (first + r) * stride;

            for (int64_t i = 0; i < width; i++) lane[i] = ADD(lane[i], row[i]);
        }
        for (int64_t at = 0; at < width; at += fold) {
            for (int64_t i = 0; i < fold; i++) total[i] = MERGE(total[i], lane[at + i]);
        }
    }
}

static void FN(take)(void *total, const void *block, int64_t rows, int64_t stride, int64_t width)
{
    const T *x = block;

    if (stride == width && width <= LANES / 2) {
        int64_t wide = LANES / width; /* rows read as one */
        int64_t n    = rows / wide;

        if (width == 1) { /* the fold is a tree: with a constant length, and a shorter chain of additions */
            TOTAL sum[LANES];

            FN(init)(sum, LANES);
            FN(columns)(sum, x, n, LANES, LANES, LANES);
            for (int64_t half = LANES / 2; n > 0 && half > 0; half /= 2) {
                for (int64_t i = 0; i < half; i++) sum[i] = MERGE(sum[i], sum[i + half]);
            }
            if (n > 0) *(TOTAL *)total = MERGE(*(TOTAL *)total, sum[0]);
        } else {
            FN(columns)(total, x, n, wide * width, wide * width, width);
        }
        x += n * wide * width;
        rows -= n * wide;
    }
    FN(columns)(total, x, rows, stride, width, width);
}

/* One short run, of at most RUN * SPREAD elements: SPREAD lanes, so that one step need not wait for the one before, and
 * too many to be unrolled, which keeps the loop one that vectorises. Very short runs do without. */
#define SPREAD 32
static inline TOTAL FN(run)(const T *x, int64_t length)
{
    TOTAL   t = LANE_START, u = LANE_START;
    int64_t i = 0;

    if (length >= SPREAD) {
        LANE lane[SPREAD];

        for (int j = 0; j < SPREAD; j++) lane[j] = LANE_START;
        for (; i + SPREAD <= length; i += SPREAD) {
            for (int j = 0; j < SPREAD; j++) lane[j] = ADD(lane[j], x[i + j]);
        }
        for (int half = SPREAD / 2; half >= 4; half /= 2) {
            for (int j = 0; j < half; j++) lane[j] = MERGE(lane[j], lane[j + half]);
        }
        t = MERGE((TOTAL)lane[0], (TOTAL)lane[2]);
        u = MERGE((TOTAL)lane[1], (TOTAL)lane[3]);
    }
    for (; i + 2 <= length; i += 2) {
        t = ADD(t, x[i]);
        u = ADD(u, x[i + 1]);
    }
    if (i < length) t = ADD(t, x[i]);
    return MERGE(t, u);
}

static void FN(runs)(void *out, const void *runs, int64_t n, int64_t length)
{
    T       *y = out;
    const T *x = runs;

    for (int64_t k = 0; k < n; k++) y[k] = (T)(FINISH(FN(run)(x + k * length, length), length));
}

static const est_reducer FN(reducer) = {
    .init   = FN(init),
    .take   = FN(take),
    .join   = FN(join),
    .finish = FN(finish),
    .runs   = FN(runs),
    .size   = sizeof(T),
};

#undef LANES
#undef RUN
#undef SPREAD
#undef FN
#undef T
#undef LANE
#undef TOTAL
#undef LANE_START
#undef ADD
#undef MERGE
#undef FINISH
