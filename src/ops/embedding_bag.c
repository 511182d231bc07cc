/* SPDX-License-Identifier: Apache-2.0
 *
 * EstEmbeddingBag: rows of a table picked by ragged ids and combined, y_r = sum_i w_i e_i / c_r over the ids of row r,
 * with c_r = sum_i w_i (mean), 1 (sum) or sqrt(sum_i w_i^2) (sqrtn). Ids below 0 are dropped, and so are those of a
 * weight that is not above 0, but for sum. With max_norm > 0 each e_i is first scaled down to that l2 norm.
 *
 * The rows of the table are read where they lie and added into the row of the result: nothing of [n, width] is made in
 * between. Where the table is at another task, EstRowsBag and its gradient do the same with a tensor of the rows that
 * are needed. The gradient (EstEmbeddingBagGrad) is w_i / c_r dy_r for each id, summed where an id occurs more than
 * once: ids get their place as in EstDedup, and every row of dy is scaled and added there in one go. Weights are seldom
 * trained: their gradient is made of other ops.
 *
 * What a model joins bags into need not be joined: EstEmbeddingBagConcat writes each bag into its columns of the whole,
 * and EstEmbeddingBagSliceGrad reads dy from its columns of the whole's gradient. The planner makes both. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/distinct.h"
#include "kernels/lazy_rows.h"
#include "kernels/parallel.h"
#include "kernels/ragged.h"
#include "kernels/strided.h"
#include "kernels/variable_access.h"
#include "ops/array.h"
#include "ops/embedding_bag.h"

/* Inputs; the gradient has dy before them. */
enum { TABLE = 0, IDS, SPLITS, WEIGHTS };

#define ATTRIBUTES "combiner: int; max_norm: float = 0.0; N: int; dtype: {float32, float64}; Tids: {int32, int64}"

/* --- shapes ------------------------------------------------------------------------------------------------------- */

static est_status infer_inputs(const est_infer *c, int first, int64_t *rows)
{
    est_shape merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, first + TABLE, 2));
    EST_TRY(est_infer_ragged(c, first + IDS, first + SPLITS, rows));
    if (c->n_in > first + WEIGHTS && est_infer_merge(&c->in[first + IDS], &c->in[first + WEIGHTS], &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "ids %s need a weight each, got %s",
                        est_shape_text(&c->in[first + IDS], a), est_shape_text(&c->in[first + WEIGHTS], b));
    }
    return EST_OK;
}

static est_status bag_infer(est_infer *c)
{
    int64_t rows, combiner = est_node_int(c->node, "combiner");

    EST_TRY(infer_inputs(c, 0, &rows));
    if (combiner < EST_COMBINE_MEAN || combiner > EST_COMBINE_SQRTN) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " is no est_combiner", combiner);
    }
    c->out[0] = EST_SHAPE(rows, est_infer_dim(&c->in[TABLE], 1));
    return EST_OK;
}

/* dy [rows, dy_cols]. */
static est_status infer_grad(est_infer *c, int64_t dy_cols)
{
    int64_t   rows, n;
    est_shape want, merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(infer_inputs(c, 1, &rows));
    want = EST_SHAPE(rows, dy_cols);
    if (est_infer_merge(&c->in[0], &want, &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "dy is %s instead of %s", est_shape_text(&c->in[0], a),
                        est_shape_text(&want, b));
    }
    n         = est_infer_at_most(c, est_infer_dim(&c->in[1 + IDS], 0));
    c->out[0] = EST_SHAPE(n, est_infer_dim(&c->in[1 + TABLE], 1));
    c->out[1] = EST_SHAPE(n);
    return EST_OK;
}

static est_status bag_grad_infer(est_infer *c)
{
    return infer_grad(c, est_infer_dim(&c->in[1 + TABLE], 1));
}

static est_status slice_grad_infer(est_infer *c)
{
    int64_t all = est_infer_dim(&c->in[0], 1), first = est_node_int(c->node, "column");
    int64_t cols = est_infer_dim(&c->in[1 + TABLE], 1);

    if (first < 0 || (all >= 0 && cols > all - first)) {
        return est_fail(EST_INVALID_ARGUMENT, "dy has %" PRId64 " columns, none for %" PRId64 " from %" PRId64 " on",
                        all, cols, first);
    }
    return infer_grad(c, all);
}

/* --- what both kernels look at ------------------------------------------------------------------------------------ */

typedef struct bag {
    const void    *table;
    const void    *ids;
    bool           wide; /* ids are int64 */
    const int64_t *splits;
    const void    *weights; /* NULL: all 1 */
    int64_t        n, rows, cols;
    est_combiner   combiner;
    double         max_norm; /* 0: none */
    const void    *dy;
    void          *out;
    int64_t        step; /* elements from a row of y or dy to the next: more than cols in a slice of something wider */
} bag;

static est_status bag_prepare(est_call *c)
{
    c->param[0].i = est_node_int(c->node, "combiner");
    c->param[1].f = est_node_float(c->node, "max_norm");
    /* for a GPU, whose code does not see est_combiner */
    c->param[EST_BAG_PARAM].i = c->param[0].i == EST_COMBINE_SUM    ? EST_BAG_SUM
                                : c->param[0].i == EST_COMBINE_MEAN ? EST_BAG_MEAN
                                                                    : EST_BAG_SQRTN;
    return EST_OK;
}

static est_status slice_grad_prepare(est_call *c)
{
    c->param[2].i = est_node_int(c->node, "column");
    return bag_prepare(c);
}

#define FIRST_TOO_LARGE(T, suffix)                                                                                     \
    static int64_t first_too_large_##suffix(const T *ids, int64_t n, int64_t rows)                                     \
    {                                                                                                                  \
        int bad = 0;                                                                                                   \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) bad |= (int64_t)ids[i] >= rows;                                                \
        for (int64_t i = 0; bad && i < n; i++) {                                                                       \
            if ((int64_t)ids[i] >= rows) return i;                                                                     \
        }                                                                                                              \
        return -1;                                                                                                     \
    }
FIRST_TOO_LARGE(int32_t, i32)
FIRST_TOO_LARGE(int64_t, i64)

static est_status not_in_table(const est_call *c, int first, int64_t i, int64_t id)
{
    bool            is_var = c->in[first + TABLE]->dtype == EST_RESOURCE;
    const est_view *table  = is_var ? &est_call_variable(c, first + TABLE)->value : c->in[first + TABLE];

    return est_fail(EST_INVALID_ARGUMENT,
                    "ids[%" PRId64 "] = %" PRId64 " is not in the table '%s', which has %" PRId64 " rows", i, id,
                    is_var ? est_call_variable(c, first + TABLE)->name : "rows", est_row_count(table));
}

/* What a GPU has found, in the words of est_splits_check and of the above. */
static est_status bag_fails(const est_call *c, int first, int64_t place, const int64_t value[2])
{
    int64_t n = c->in[first + IDS]->count;

    if (place >= 0) return not_in_table(c, first, place, value[0]);
    return est_splits_wrong(place == EST_BAG_BAD_START ? EST_SPLITS_START
                            : place == EST_BAG_BAD_END ? EST_SPLITS_END
                                                       : place - EST_BAG_BAD_ROW,
                            value[0], value[1], n);
}

static est_status bag_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return bag_fails(c, 0, place, value);
}

static est_status bag_grad_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return bag_fails(c, 1, place, value);
}

/* `reads`: the rows of the table, not only its shape. */
static est_status bag_open(const est_call *c, int first, bool weighted, bool reads, est_dtype dtype, bag *out)
{
    bool            is_var = c->in[first + TABLE]->dtype == EST_RESOURCE;
    const est_view *table  = is_var ? &est_call_variable(c, first + TABLE)->value : c->in[first + TABLE];
    const est_view *ids = c->in[first + IDS], *splits = c->in[first + SPLITS];
    int64_t         bad;
    bag             b = { .table    = table->data,
                          .ids      = ids->data,
                          .wide     = ids->dtype == EST_I64,
                          .splits   = splits->data,
                          .weights  = weighted ? c->in[first + WEIGHTS]->data : NULL,
                          .n        = ids->count,
                          .rows     = splits->count - 1,
                          .cols     = est_row_size(table),
                          .combiner = (est_combiner)c->param[0].i,
                          .max_norm = c->param[1].f,
                          .step     = est_row_size(table) };

    if (is_var) EST_TRY(est_variable_ready(c, first + TABLE, dtype));
    EST_TRY(est_splits_check(splits, b.n));
    bad = b.wide ? first_too_large_i64(b.ids, b.n, est_row_count(table))
                 : first_too_large_i32(b.ids, b.n, est_row_count(table));
    if (bad >= 0) return not_in_table(c, first, bad, est_row_at(b.ids, b.wide, bad));
    if (is_var && reads) est_lazy_draw(est_call_variable(c, first + TABLE), c->pool, ids);
    *out = b;
    return EST_OK;
}

/* Common widths become constants, which leaves nothing of the loop over a row. */
#define SWITCH_WIDTH(cols, call)                                                                                       \
    switch (cols) {                                                                                                    \
    case 1: call(1); break;                                                                                            \
    case 8: call(8); break;                                                                                            \
    case 16: call(16); break;                                                                                          \
    case 32: call(32); break;                                                                                          \
    default: call(cols); break;                                                                                        \
    }

#define SHARED(T, suffix, sqrt_fn)                                                                                     \
    static inline T weight_##suffix(const bag *b, int64_t i)                                                           \
    {                                                                                                                  \
        return b->weights != NULL ? ((const T *)b->weights)[i] : 1;                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static inline bool keeps_##suffix(const bag *b, int64_t id, T weight)                                              \
    {                                                                                                                  \
        return id >= 0 && (weight > 0 || b->combiner == EST_COMBINE_SUM);                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* What the sum of a row is divided by; `total` is that of the weights or their squares. */                        \
    static inline T divisor_##suffix(const bag *b, T total)                                                            \
    {                                                                                                                  \
        return b->combiner == EST_COMBINE_SUM ? 1 : b->combiner == EST_COMBINE_MEAN ? total : sqrt_fn(total);          \
    }                                                                                                                  \
                                                                                                                       \
    static inline T square_norm_##suffix(const T *e, int64_t cols)                                                     \
    {                                                                                                                  \
        T sum = 0;                                                                                                     \
                                                                                                                       \
        for (int64_t j = 0; j < cols; j++) sum += e[j] * e[j];                                                         \
        return sum;                                                                                                    \
    }                                                                                                                  \
                                                                                                                       \
    /* y = w e for the first of a sum, y += w e for the others. */                                                     \
    static inline __attribute__((always_inline)) void add_row_##suffix(T *restrict y, const T *restrict e, T w,        \
                                                                       int64_t cols, bool first)                       \
    {                                                                                                                  \
        if (first) {                                                                                                   \
            for (int64_t j = 0; j < cols; j++) y[j] = w * e[j];                                                        \
        } else {                                                                                                       \
            for (int64_t j = 0; j < cols; j++) y[j] += w * e[j];                                                       \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* What makes a row of that square norm as short as max_norm wants it. */                                          \
    static inline T shrink_##suffix(const bag *b, T square_norm)                                                       \
    {                                                                                                                  \
        T norm = sqrt_fn(square_norm), most = (T)b->max_norm;                                                          \
                                                                                                                       \
        return norm > most ? most / norm : 1;                                                                          \
    }
SHARED(float, f32, __builtin_sqrtf)
SHARED(double, f64, __builtin_sqrt)

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* `plain`: int64 ids, no weights and no max_norm, which is what most bags are; a constant, as cols of the usual
 * widths. */
#define FORWARD(T, suffix)                                                                                             \
    static inline __attribute__((always_inline)) void combine_of_##suffix(const bag *b, int64_t begin, int64_t end,    \
                                                                          int64_t cols, bool plain)                    \
    {                                                                                                                  \
        int64_t last = b->splits[b->rows]; /* the next block's rows are asked for, too */                              \
        bool    wide = plain || b->wide;                                                                               \
                                                                                                                       \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            T   *y     = (T *)b->out + r * b->step;                                                                    \
            T    total = 0, divisor;                                                                                   \
            bool empty = true;                                                                                         \
                                                                                                                       \
            for (int64_t i = b->splits[r]; i < b->splits[r + 1]; i++) {                                                \
                int64_t  id = est_row_at(b->ids, wide, i);                                                             \
                T        w  = plain ? 1 : weight_##suffix(b, i);                                                       \
                const T *e;                                                                                            \
                                                                                                                       \
                if (i + EST_PREFETCH_AHEAD < last) {                                                                   \
                    int64_t soon = est_row_at(b->ids, wide, i + EST_PREFETCH_AHEAD);                                   \
                    if (soon >= 0) EST_PREFETCH_ROW(b->table, soon, (size_t)cols * sizeof(T), 0);                      \
                }                                                                                                      \
                if (!keeps_##suffix(b, id, w)) continue;                                                               \
                e = (const T *)b->table + id * cols;                                                                   \
                total += b->combiner == EST_COMBINE_SQRTN ? w * w : w;                                                 \
                if (!plain && b->max_norm > 0) w *= shrink_##suffix(b, square_norm_##suffix(e, cols));                 \
                add_row_##suffix(y, e, w, cols, empty);                                                                \
                empty = false;                                                                                         \
            }                                                                                                          \
            if (plain && total == 1) continue; /* divided by 1 whatever the combiner */                                \
            divisor = divisor_##suffix(b, total);                                                                      \
            if (empty || divisor == 0) {                                                                               \
                for (int64_t j = 0; j < cols; j++) y[j] = 0;                                                           \
            } else if (divisor != 1) {                                                                                 \
                for (int64_t j = 0; j < cols; j++) y[j] /= divisor;                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void combine_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                 \
    {                                                                                                                  \
        const bag *b = arg;                                                                                            \
                                                                                                                       \
        (void)block;                                                                                                   \
        if (b->wide && b->weights == NULL && b->max_norm <= 0) {                                                       \
            SWITCH_WIDTH(b->cols, PLAIN_##suffix)                                                                      \
        } else {                                                                                                       \
            SWITCH_WIDTH(b->cols, ANY_##suffix)                                                                        \
        }                                                                                                              \
    }
#define PLAIN_f32(cols) combine_of_f32(b, begin, end, cols, true)
#define PLAIN_f64(cols) combine_of_f64(b, begin, end, cols, true)
#define ANY_f32(cols)   combine_of_f32(b, begin, end, cols, false)
#define ANY_f64(cols)   combine_of_f64(b, begin, end, cols, false)
FORWARD(float, f32)
FORWARD(double, f64)

/* Nanoseconds that a row takes, about. */
static double row_ns(const bag *b)
{
    double ids = b->rows > 0 ? (double)b->n / (double)b->rows : 0;

    return 3.0 + ids * (10.0 + 0.4 * (double)b->cols);
}

static est_status bag_cpu(est_call *c)
{
    est_dtype dtype = c->out[0].dtype;
    bag       b;

    EST_TRY(bag_open(c, 0, c->n_in > WEIGHTS, true, dtype, &b));
    b.out = c->out[0].data;
    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, b.rows, 8, row_ns(&b), dtype == EST_F32 ? combine_f32 : combine_f64, &b);
    return EST_OK;
}

/* --- forward, into columns of a whole ----------------------------------------------------------------------------- */

/* Three inputs a bag, then the other parts. */
enum { BAG_INPUTS = WEIGHTS };

static est_status concat_infer(est_infer *c)
{
    int       n_bags = est_node_ints(c->node, "combiners").n;
    int64_t   cols   = 0;
    est_shape whole  = EST_SHAPE(-1, -1);
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < c->n_in; i += i < BAG_INPUTS * n_bags ? BAG_INPUTS : 1) {
        est_shape part = c->in[i], rows;

        EST_TRY(est_infer_rank(c, i, 2));
        if (i < BAG_INPUTS * n_bags) EST_TRY(est_infer_ragged(c, i + IDS, i + SPLITS, &part.dim[0]));
        rows = EST_SHAPE(est_infer_dim(&part, 0), -1);
        if (est_infer_merge(&rows, &whole, &whole) != EST_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "a part is %s, those before it %s", est_shape_text(&rows, a),
                            est_shape_text(&whole, b));
        }
        cols = cols < 0 || est_infer_dim(&part, 1) < 0 ? -1 : cols + est_infer_dim(&part, 1);
    }
    c->out[0] = EST_SHAPE(whole.dim[0], cols);
    return EST_OK;
}

/* What a run needs of the attributes. */
typedef struct concat_state {
    const int64_t *combiners; /* of each bag; both are the node's */
    const int64_t *columns;   /* where each bag and then each part begins */
    int            n_bags;
} concat_state;

static est_status concat_prepare(est_call *c)
{
    concat_state *state = c->state;

    if (state != NULL) return EST_OK;
    c->state = state = est_alloc(sizeof *state);
    if (state == NULL) return est_no_memory();
    state->combiners = est_node_ints(c->node, "combiners").data;
    state->columns   = est_node_ints(c->node, "columns").data;
    state->n_bags    = est_node_ints(c->node, "combiners").n;
    return EST_OK;
}

static void concat_release(est_call *c)
{
    est_free(c->state);
}

static size_t concat_scratch(const est_call *c)
{
    return sizeof(bag) * (size_t)est_node_ints(c->node, "combiners").n;
}

/* Few rows at a time through all parts, so that they stay in the cache until all of their columns are there. */
#define CONCAT_ROWS 64

static void concat_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call     *c     = arg;
    const concat_state *state = c->state;
    bag                *bags  = c->scratch;
    int64_t             size  = (int64_t)est_dtype_size(c->out[0].dtype);
    int64_t             step  = c->out[0].shape.dim[1] * size;
    est_range_fn        fn    = c->out[0].dtype == EST_F32 ? combine_f32 : combine_f64;

    for (int64_t row = begin; row < end; row += CONCAT_ROWS) {
        int64_t rows = end - row < CONCAT_ROWS ? end - row : CONCAT_ROWS;
        char   *y    = (char *)c->out[0].data + row * step;

        for (int k = 0; k < state->n_bags; k++) fn(&bags[k], row, row + rows, block);
        for (int k = state->n_bags, i = BAG_INPUTS * state->n_bags; i < c->n_in; i++, k++) {
            int64_t bytes = c->in[i]->shape.dim[1] * size;

            est_copy_rows(y + state->columns[k] * size, step, (char *)c->in[i]->data + row * bytes, bytes,
                          (size_t)bytes, rows);
        }
    }
}

static est_status concat_cpu(est_call *c)
{
    const concat_state *state = c->state;
    bag                *bags  = c->scratch;
    int64_t             size  = (int64_t)est_dtype_size(c->out[0].dtype);
    double              ns    = 5.0 * (c->n_in - BAG_INPUTS * state->n_bags);

    for (int k = 0; k < state->n_bags; k++) {
        EST_TRY(bag_open(c, BAG_INPUTS * k, false, true, c->out[0].dtype, &bags[k]));
        bags[k].combiner = (est_combiner)state->combiners[k];
        bags[k].max_norm = 0;
        bags[k].step     = c->out[0].shape.dim[1];
        bags[k].out      = (char *)c->out[0].data + state->columns[k] * size;
        ns += row_ns(&bags[k]);
    }
    if (c->out[0].count > 0) est_parallel_for(c->pool, c->out[0].shape.dim[0], 8, ns, concat_rows, c);
    return EST_OK;
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

/* The ids that were kept: scratch memory of the gradient. */
typedef struct kept {
    bag     *bag;
    void    *ids;    /* as wide as the bag's */
    void    *factor; /* w / c, of the bag's dtype */
    int32_t *row;    /* of dy */
    int32_t *place;  /* of the sum in the result */
    int32_t *table;  /* est_distinct()'s */
    int64_t  n;
    bool     lanes; /* sums are cut into more than one lane */
} kept;

static size_t bag_grad_scratch(const est_call *c)
{
    int64_t n = c->in[1 + IDS]->count;

    return (size_t)n * (2 * sizeof(int64_t) + 2 * sizeof(int32_t)) + est_distinct_table_bytes(n);
}

static void kept_init(kept *k, bag *b, char *scratch)
{
    size_t n = (size_t)b->n;

    k->bag    = b;
    k->ids    = scratch;
    k->factor = scratch + n * sizeof(int64_t);
    k->row    = (int32_t *)(void *)(scratch + 2 * n * sizeof(int64_t));
    k->place  = k->row + n;
    k->table  = k->place + n;
}

/* Sums that share a cache line belong to one lane; narrower rows are no more work than looking whose they are. */
#define LANES          4
#define LANE_COLS      8
#define LANE_OF(place) ((place) >> 4 & (LANES - 1))

static inline bool in_lanes(const kept *k, int32_t place, int64_t begin, int64_t end)
{
    return !k->lanes || (LANE_OF(place) >= begin && LANE_OF(place) < end);
}

/* Rows of a slice are far apart: no hardware guesses the next one. */
#define DY_AHEAD 16

#define BACKWARD(T, suffix)                                                                                            \
    static void keep_##suffix(kept *k)                                                                                 \
    {                                                                                                                  \
        const bag *b      = k->bag;                                                                                    \
        T         *factor = k->factor;                                                                                 \
        int64_t    n      = 0;                                                                                         \
                                                                                                                       \
        for (int64_t r = 0; r < b->rows; r++) {                                                                        \
            int64_t first = n;                                                                                         \
            T       total = 0, divisor;                                                                                \
                                                                                                                       \
            for (int64_t i = b->splits[r]; i < b->splits[r + 1]; i++) {                                                \
                int64_t id = est_row_at(b->ids, b->wide, i);                                                           \
                T       w  = weight_##suffix(b, i);                                                                    \
                                                                                                                       \
                if (!keeps_##suffix(b, id, w)) continue;                                                               \
                total += b->combiner == EST_COMBINE_SQRTN ? w * w : w;                                                 \
                factor[n] = w;                                                                                         \
                k->row[n] = (int32_t)r;                                                                                \
                if (b->wide) {                                                                                         \
                    ((int64_t *)k->ids)[n] = id;                                                                       \
                } else {                                                                                               \
                    ((int32_t *)k->ids)[n] = (int32_t)id;                                                              \
                }                                                                                                      \
                n++;                                                                                                   \
            }                                                                                                          \
            divisor = divisor_##suffix(b, total);                                                                      \
            if (divisor == 1) continue;                                                                                \
            for (int64_t i = first; i < n; i++) factor[i] = divisor != 0 ? factor[i] / divisor : 0;                    \
        }                                                                                                              \
        k->n = n;                                                                                                      \
    }                                                                                                                  \
                                                                                                                       \
    /* The gradient of s e, s = max_norm / |e|, towards e is s (g - e (e g) / |e|^2). */                               \
    static inline void add_shrunk_##suffix(const bag *b, int64_t id, const T *restrict dy, T factor, T *restrict sum,  \
                                           int64_t cols)                                                               \
    {                                                                                                                  \
        const T *restrict e = (const T *)b->table + id * cols;                                                         \
        T square = square_norm_##suffix(e, cols), shrink = shrink_##suffix(b, square), along = 0;                      \
                                                                                                                       \
        if (shrink < 1) {                                                                                              \
            for (int64_t j = 0; j < cols; j++) along += e[j] * dy[j];                                                  \
            along /= square;                                                                                           \
        }                                                                                                              \
        for (int64_t j = 0; j < cols; j++) sum[j] += factor * shrink * (dy[j] - e[j] * along);                         \
    }                                                                                                                  \
                                                                                                                       \
    static inline __attribute__((always_inline)) void scatter_of_##suffix(const kept *k, int64_t begin, int64_t end,   \
                                                                          int64_t cols)                                \
    {                                                                                                                  \
        const bag *b      = k->bag;                                                                                    \
        const T   *factor = k->factor;                                                                                 \
        int32_t    next   = 0; /* the place of the next id not seen before */                                          \
        bool       sliced = b->step != b->cols;                                                                        \
        int64_t    ahead  = k->n > EST_DISTINCT_CACHED ? k->n - EST_DISTINCT_AHEAD : 0;                                \
                                                                                                                       \
        for (int64_t i = 0; i < k->n; i++) {                                                                           \
            const T *dy    = (const T *)b->dy + (int64_t)k->row[i] * b->step;                                          \
            T       *sum   = (T *)b->out + (int64_t)k->place[i] * cols;                                                \
            bool     first = k->place[i] == next;                                                                      \
                                                                                                                       \
            next += first;                                                                                             \
            if (i < ahead && in_lanes(k, k->place[i + EST_DISTINCT_AHEAD], begin, end)) {                              \
                EST_PREFETCH_ROW(b->out, k->place[i + EST_DISTINCT_AHEAD], (size_t)cols * sizeof(T), 1);               \
            }                                                                                                          \
            if (sliced && i + DY_AHEAD < k->n) {                                                                       \
                const char *soon = (const char *)((const T *)b->dy + (int64_t)k->row[i + DY_AHEAD] * b->step);         \
                __builtin_prefetch(soon);                                                                              \
                __builtin_prefetch(soon + (size_t)cols * sizeof(T) - 1);                                               \
            }                                                                                                          \
            if (!in_lanes(k, k->place[i], begin, end)) continue;                                                       \
            if (b->max_norm > 0) {                                                                                     \
                for (int64_t j = 0; first && j < cols; j++) sum[j] = 0;                                                \
                add_shrunk_##suffix(b, est_row_at(k->ids, b->wide, i), dy, factor[i], sum, cols);                      \
            } else {                                                                                                   \
                add_row_##suffix(sum, dy, factor[i], cols, first);                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void scatter_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                 \
    {                                                                                                                  \
        const kept *k = arg;                                                                                           \
                                                                                                                       \
        (void)block;                                                                                                   \
        SWITCH_WIDTH(k->bag->cols, SCATTER_OF_##suffix)                                                                \
    }
#define SCATTER_OF_f32(cols) scatter_of_f32(k, begin, end, cols)
#define SCATTER_OF_f64(cols) scatter_of_f64(k, begin, end, cols)
BACKWARD(float, f32)
BACKWARD(double, f64)

/* dy begins at `column` and has rows of `step` elements, 0: the table's. */
static est_status sum_slices(est_call *c, int64_t column, int64_t step)
{
    est_dtype dtype = c->out[0].dtype;
    bag       b;
    kept      k = { 0 };
    int32_t   n_unique;
    double    ns;

    EST_TRY(bag_open(c, 1, c->n_in > 1 + WEIGHTS, c->param[1].f > 0, dtype, &b));
    if (b.n > EST_DISTINCT_MAX || b.rows > INT32_MAX) {
        return est_fail(EST_UNIMPLEMENTED, "too many ids to sum: %" PRId64 " in %" PRId64 " rows", b.n, b.rows);
    }
    b.dy  = (const char *)c->in[0]->data + (size_t)column * est_dtype_size(dtype);
    b.out = c->out[0].data;
    if (step > 0) b.step = step;
    kept_init(&k, &b, c->scratch);
    if (dtype == EST_F32) {
        keep_f32(&k);
    } else {
        keep_f64(&k);
    }
    n_unique = est_distinct(k.ids, b.wide, k.n, c->out[1].data, k.place, k.table);
    ns       = (double)k.n * (3.0 + 0.3 * (double)b.cols) / LANES; /* of a lane */
    k.lanes  = b.cols >= LANE_COLS && est_parallel_blocks(LANES, ns) > 1;
    est_parallel_for(c->pool, k.lanes ? LANES : 1, 1, ns, dtype == EST_F32 ? scatter_f32 : scatter_f64, &k);
    c->out[0].shape = EST_SHAPE(n_unique, b.cols);
    c->out[0].count = n_unique * b.cols;
    c->out[1].shape = EST_SHAPE(n_unique);
    c->out[1].count = n_unique;
    return EST_OK;
}

static est_status bag_grad_cpu(est_call *c)
{
    return sum_slices(c, 0, 0);
}

static est_status slice_grad_cpu(est_call *c)
{
    return sum_slices(c, c->param[2].i, c->in[0]->shape.dim[1]);
}

/* --- on a GPU ----------------------------------------------------------------------------------------------------- */

static bool bag_cuda_accepts(const est_call *c)
{
    return est_node_float(c->node, "max_norm") <= 0;
}

static size_t bag_grad_cuda_scratch(const est_call *c)
{
    return (size_t)c->in[1 + IDS]->count * (EST_RUNS_BYTES + est_dtype_size(c->out[0].dtype) + sizeof(int32_t));
}

/* --- in TensorFlow's ops ------------------------------------------------------------------------------------------ */

/* The ids that are kept, as nodes. */
typedef struct picked {
    est_node places;             /* [n], among all ids */
    est_node ids, rows, weights; /* [n] */
    est_node e;                  /* rows of the table [n, width], and how long each is [n, 1] */
    est_node norm;
    est_node divisor; /* [batch], or EST_NO_NODE for 1 */
    est_node n_rows;
    est_node max_norm; /* EST_NO_NODE: none */
} picked;

static picked pick(const est_node_def *node, est_graph *graph, const est_node *in, bool weighted)
{
    int64_t   combiner = est_node_int(node, "combiner");
    est_dtype dtype    = est_node_type(node, "dtype");
    double    most     = est_node_float(node, "max_norm");
    est_node  keep     = est_greater_equal(in[IDS], est_scalar(graph, est_node_dtype(in[IDS]), 0));
    est_node  total;
    picked    p = { 0 };

    if (weighted && combiner != EST_COMBINE_SUM) {
        keep = est_logical_and(keep, est_greater(in[WEIGHTS], est_scalar(graph, dtype, 0)));
    }
    p.places  = est_squeeze(est_where(keep), EST_I64S(1));
    p.ids     = est_gather(in[IDS], p.places, 0);
    p.rows    = est_gather(est_row_ids(in[SPLITS], in[IDS]), p.places, 0);
    p.weights = weighted ? est_gather(in[WEIGHTS], p.places, 0) : est_cast(est_ones_like(p.ids), dtype);
    p.e       = est_resource_gather(in[TABLE], p.ids);
    p.n_rows  = est_sub(est_size(in[SPLITS]), est_scalar(graph, EST_I32, 1));
    if (most > 0) {
        p.norm     = est_sqrt(est_reduce_sum(est_square(p.e), EST_I64S(1), true));
        p.max_norm = est_scalar(graph, dtype, most);
    }
    if (combiner == EST_COMBINE_SUM) return p;
    total     = combiner == EST_COMBINE_MEAN ? p.weights : est_square(p.weights);
    p.divisor = est_unsorted_segment_sum(total, p.rows, p.n_rows);
    if (combiner == EST_COMBINE_SQRTN) p.divisor = est_sqrt(p.divisor);
    return p;
}

/* max_norm / |e| of rows that are longer, else 1. */
static est_node shrink_of(const picked *p)
{
    return est_div(p->max_norm, est_maximum(p->norm, p->max_norm));
}

static void bag_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    picked   p      = pick(node, graph, in, node->n_in > WEIGHTS);
    est_node scaled = est_mul(p.e, est_expand_dims(p.weights, 1));

    if (p.max_norm.graph != NULL) scaled = est_mul(scaled, shrink_of(&p));
    out[0] = est_unsorted_segment_sum(scaled, p.rows, p.n_rows);
    if (p.divisor.graph != NULL) out[0] = est_div_no_nan(out[0], est_expand_dims(p.divisor, 1));
}

static void bag_grad_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    picked       p      = pick(node, graph, in + 1, node->n_in > 1 + WEIGHTS);
    est_node     factor = p.weights, g;
    est_gradient sums;

    if (p.divisor.graph != NULL) factor = est_div_no_nan(factor, est_gather(p.divisor, p.rows, 0));
    g = est_mul(est_gather(in[0], p.rows, 0), est_expand_dims(factor, 1));
    if (p.max_norm.graph != NULL) {
        est_node along = est_div_no_nan(est_reduce_sum(est_mul(p.e, g), EST_I64S(1), true), est_square(p.norm));
        est_node less  = est_mul(shrink_of(&p), est_sub(g, est_mul(p.e, along)));

        g = est_select(est_greater(p.norm, p.max_norm), less, g);
    }
    sums   = est_dedup((est_gradient){ g, p.ids });
    out[0] = sums.values;
    out[1] = sums.indices;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

/* Towards w_i: e_i dy_r for sum, (e_i - y_r) dy_r / c_r for mean, e_i dy_r / c_r - w_i (y_r dy_r) / c_r^2 for sqrtn. */
static est_node weights_grad(const est_grad *g)
{
    picked   p  = pick(g->node, g->dout[0].graph, g->in, true);
    est_node e  = p.max_norm.graph != NULL ? est_mul(p.e, shrink_of(&p)) : p.e;
    est_node dw = est_reduce_sum(est_mul(e, est_gather(g->dout[0], p.rows, 0)), EST_I64S(1), false);

    if (p.divisor.graph != NULL) {
        est_node own = est_gather(p.divisor, p.rows, 0);
        est_node all = est_gather(est_reduce_sum(est_mul(g->out[0], g->dout[0]), EST_I64S(1), false), p.rows, 0);

        if (est_node_int(g->node, "combiner") == EST_COMBINE_SQRTN) all = est_div_no_nan(est_mul(p.weights, all), own);
        dw = est_div_no_nan(est_sub(dw, all), own);
    }
    return est_unsorted_segment_sum(dw, p.places, est_size(g->in[IDS]));
}

/* Everything the gradient is told but dy. */
static est_attrs attrs_of(const est_node_def *node, est_attr attrs[4])
{
    attrs[0] = est_attr_int("combiner", est_node_int(node, "combiner"));
    attrs[1] = est_attr_float("max_norm", est_node_float(node, "max_norm"));
    attrs[2] = est_attr_int("N", est_node_int(node, "N"));
    attrs[3] = est_attr_type("dtype", est_node_type(node, "dtype"));
    return (est_attrs){ attrs, 4 };
}

static void bag_grad(est_grad *g)
{
    est_node in[WEIGHTS + 2] = { g->dout[0] }, values;
    est_attr attrs[4];

    for (int i = 0; i < g->n_in; i++) in[i + 1] = g->in[i];
    values    = est_build(g->dout[0].graph, &est_op_embedding_bag_grad, (est_nodes){ in, g->n_in + 1 },
                          attrs_of(g->node, attrs));
    g->din[0] = (est_gradient){ .values = values, .indices = est_output(values, 1) };
    if (g->n_in > WEIGHTS) g->din[WEIGHTS].values = weights_grad(g);
}

const est_op est_op_embedding_bag = {
    .name      = "EstEmbeddingBag",
    .signature = "resource: resource, ids: Tids, splits: int64, weights: N*dtype -> output: dtype; " ATTRIBUTES,
    .infer     = bag_infer,
    .grad      = bag_grad,
    .cpu       = EST_KERNELS({ .run = bag_cpu, .prepare = bag_prepare }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(embedding_bag), .accepts = bag_cuda_accepts, .prepare = bag_prepare, .fail = bag_fail }),
    .lower    = bag_lower,
    .stateful = true,
    .by_rows  = true,
};

const est_op est_op_embedding_bag_grad = {
    .name      = "EstEmbeddingBagGrad",
    .signature = "dy: dtype, resource: resource, ids: Tids, splits: int64, weights: N*dtype -> unique_values: dtype, "
                 "unique_ids: Tids; " ATTRIBUTES,
    .infer     = bag_grad_infer,
    .cpu       = EST_KERNELS({ .run = bag_grad_cpu, .prepare = bag_prepare, .scratch = bag_grad_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(embedding_bag_grad),
                               .accepts = bag_cuda_accepts,
                               .prepare = bag_prepare,
                               .scratch = bag_grad_cuda_scratch,
                               .fail    = bag_grad_fail }),
    .lower     = bag_grad_lower,
    .stateful  = true,
    .by_rows   = true,
    .shrinks   = true,
    .distinct  = 1u << 1,
};

const est_op est_op_rows_bag = {
    .name      = "EstRowsBag",
    .signature = "rows: dtype, ids: Tids, splits: int64, weights: N*dtype -> output: dtype; " ATTRIBUTES,
    .infer     = bag_infer,
    .cpu       = EST_KERNELS({ .run = bag_cpu, .prepare = bag_prepare }),
    .planned   = true,
};

const est_op est_op_rows_bag_grad = {
    .name      = "EstRowsBagGrad",
    .signature = "dy: dtype, rows: dtype, ids: Tids, splits: int64, weights: N*dtype -> unique_values: dtype, "
                 "unique_ids: Tids; " ATTRIBUTES,
    .infer     = bag_grad_infer,
    .cpu       = EST_KERNELS({ .run = bag_grad_cpu, .prepare = bag_prepare, .scratch = bag_grad_scratch }),
    .planned   = true,
    .shrinks   = true,
    .distinct  = 1u << 1,
};

const est_op est_op_embedding_bag_slice_grad = {
    .name      = "EstEmbeddingBagSliceGrad",
    .signature = "dy: dtype, resource: resource, ids: Tids, splits: int64, weights: N*dtype -> unique_values: dtype, "
                 "unique_ids: Tids; column: int; " ATTRIBUTES,
    .infer     = slice_grad_infer,
    .cpu       = EST_KERNELS({ .run = slice_grad_cpu, .prepare = slice_grad_prepare, .scratch = bag_grad_scratch }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(embedding_bag_slice_grad),
                               .accepts = bag_cuda_accepts,
                               .prepare = slice_grad_prepare,
                               .scratch = bag_grad_cuda_scratch,
                               .fail    = bag_grad_fail }),
    .planned   = true,
    .stateful  = true,
    .by_rows   = true,
    .shrinks   = true,
    .distinct  = 1u << 1,
};

const est_op est_op_embedding_bag_concat = {
    .name      = "EstEmbeddingBagConcat",
    .signature = "bags: Tbags, parts: N*dtype -> output: dtype; Tbags: types; N: int; dtype: {float32, float64}; "
                 "combiners: ints; columns: ints",
    .infer     = concat_infer,
    .cpu       = EST_KERNELS(
              { .run = concat_cpu, .prepare = concat_prepare, .scratch = concat_scratch, .release = concat_release }),
    .planned  = true,
    .stateful = true,
    .by_rows  = true,
};

est_node est_embedding_bag(est_node table, est_ragged_node ids, est_node weights, est_combiner combiner,
                           double max_norm)
{
    bool      weighted = weights.graph != NULL;
    est_dtype dtype    = est_variable_dtype(table);

    if (combiner == EST_COMBINE_DEFAULT) combiner = EST_COMBINE_MEAN;
    if (weighted) weights = est_cast(weights, dtype);
    return est_build(table.graph, &est_op_embedding_bag,
                     (est_nodes){ (const est_node[]){ table, ids.values, ids.splits, weights }, weighted ? 4 : 3 },
                     EST_ATTRS(est_attr_int("combiner", combiner), est_attr_float("max_norm", max_norm),
                               est_attr_int("N", weighted), est_attr_type("dtype", dtype)));
}
