/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, checks and the parallel loop of the optimizer updates (kernels/apply.h). */
#include "kernels/apply.h"

#include <string.h>

#include "kernels/copy_on_write.h"
#include "kernels/lazy_rows.h"
#include "kernels/sorted_ids.h"

static int count_variables(const est_op *op)
{
    return __builtin_popcount(op->writes);
}

static bool is_scalar(const est_op *op, int input)
{
    return input >= count_variables(op) && input != op->update->gradient && input != op->update->indices &&
           (input != op->update->sorted || input == 0);
}

static est_status infer_slots(const est_infer *c, est_shape *var)
{
    *var = c->in[0];
    for (int i = 1; i < count_variables(c->node->op); i++) {
        est_shape merged;
        if (est_infer_merge(var, &c->in[i], &merged) != EST_OK) {
            char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
            return est_fail(EST_INVALID_ARGUMENT, "slot %d is %s, its variable %s", i, est_shape_text(&c->in[i], b),
                            est_shape_text(var, a));
        }
        *var = merged;
    }
    return EST_OK;
}

/* The gradient must be [indices, row of the variable]. */
static est_status infer_rows(const est_infer *c, const est_shape *grad, int indices, const est_shape *var)
{
    est_shape want = *var, merged;
    char      a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, indices, 1));
    if (var->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar variable has no rows for a sparse gradient");
    if (var->rank > 0) want.dim[0] = est_infer_dim(&c->in[indices], 0);
    if (est_infer_merge(&want, grad, &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "the gradient's rows are %s, the variable and the indices want %s",
                        est_shape_text(grad, a), est_shape_text(&want, b));
    }
    return EST_OK;
}

/* The gradient is [indices, columns], some of which are those of the variable. */
static est_status infer_sums(const est_infer *c, const est_shape *grad, const est_shape *var)
{
    const est_update_inputs *update = c->node->op->update;
    int64_t                  column = est_node_int(c->node, "column"), cols, have;
    est_shape                rows   = c->in[update->indices];
    char                     a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, update->gradient, 2));
    EST_TRY(est_infer_rank(c, update->indices, 1));
    EST_TRY(est_infer_rank(c, 0, 2));
    if (est_infer_merge(&rows, &c->in[update->sorted], &rows) != EST_OK ||
        est_infer_merge(&rows, &EST_SHAPE(est_infer_dim(grad, 0)), &rows) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "the gradient is %s, the indices %s", est_shape_text(grad, a),
                        est_shape_text(&rows, b));
    }
    cols = est_infer_dim(var, 1);
    have = est_infer_dim(grad, 1);
    if (column >= 0 && (cols < 0 || have < 0 || column + cols <= have)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the gradient is %s, and has no %lld columns from %lld on",
                    est_shape_text(grad, a), (long long)cols, (long long)column);
}

est_status est_apply_infer(est_infer *c)
{
    const est_op    *op   = c->node->op;
    const est_shape *grad = &c->in[op->update->gradient];
    est_shape        var, merged;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(infer_slots(c, &var));
    for (int i = 0; i < c->n_in; i++) {
        if (is_scalar(op, i)) EST_TRY(est_infer_rank(c, i, 0));
    }
    if (op->update->sorted != 0) return infer_sums(c, grad, &var);
    if (op->update->indices != 0) return infer_rows(c, grad, op->update->indices, &var);
    if (est_infer_merge(&var, grad, &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the gradient is %s, the variable %s", est_shape_text(grad, a),
                    est_shape_text(&var, b));
}

static double scalar_of(const est_view *v)
{
    return v->dtype == EST_F32 ? *(const float *)v->data : *(const double *)v->data;
}

/* --- updates that sum --------------------------------------------------------------------------------------------- */

void est_apply_prepare(est_call *c)
{
    if (c->node->op->update->sorted != 0) c->param[EST_APPLY_COLUMN].i = est_node_int(c->node, "column");
}

/* Distinct indices, then the sums. */
size_t est_apply_sums_scratch(const est_call *c)
{
    const est_update_inputs *update = c->node->op->update;
    int64_t                  n      = c->in[update->sorted]->count;

    return (size_t)n *
           (sizeof(int64_t) + (size_t)est_row_size(c->in[0]) * est_dtype_size(c->in[update->gradient]->dtype));
}

#define SUM_ROWS(T, suffix)                                                                                            \
    static int64_t sum_rows_##suffix(const uint64_t *keys, int64_t n, const T *grad, int64_t step, int64_t cols,       \
                                     int64_t *indices, T *sums)                                                        \
    {                                                                                                                  \
        int64_t n_sums = 0;                                                                                            \
                                                                                                                       \
        for (int64_t i = 0; i < n && est_sorted_row(keys[i]) != EST_ID_DROPPED; i++) {                                 \
            const T *row   = grad + est_sorted_place(keys[i]) * step;                                                  \
            bool     first = i == 0 || est_sorted_row(keys[i - 1]) != est_sorted_row(keys[i]);                         \
                                                                                                                       \
            n_sums += first;                                                                                           \
            indices[n_sums - 1] = (int64_t)est_sorted_row(keys[i]);                                                    \
            for (int64_t j = 0; j < cols; j++) {                                                                       \
                T *sum = &sums[(n_sums - 1) * cols + j];                                                               \
                *sum   = first ? row[j] : *sum + row[j];                                                               \
            }                                                                                                          \
        }                                                                                                              \
        return n_sums;                                                                                                 \
    }
SUM_ROWS(float, f32)
SUM_ROWS(double, f64)

/* Puts the sums where the gradient was. */
static void sum_rows(const est_call *c, est_apply *a)
{
    const est_update_inputs *update = c->node->op->update;
    int64_t                  n = c->in[update->sorted]->count, step = est_row_size(c->in[update->gradient]);
    const uint64_t          *keys    = c->in[update->sorted]->data;
    int64_t                 *indices = c->scratch, column = c->param[EST_APPLY_COLUMN].i;
    void                    *sums;

    a->cols = est_row_size(&est_call_variable(c, 0)->value);
    a->n    = 0;
    if (n == 0) return; /* then neither the gradient nor the scratch need have memory */
    sums    = indices + n;
    a->n    = a->dtype == EST_F32 ? sum_rows_f32(keys, n, (const float *)a->grad + column, step, a->cols, indices, sums)
                                  : sum_rows_f64(keys, n, (const double *)a->grad + column, step, a->cols, indices, sums);
    a->grad = sums;
    a->indices = indices;
    a->wide    = true;
}

est_status est_apply_open(const est_call *c, est_apply *out)
{
    const est_op   *op      = c->node->op;
    const est_view *grad    = c->in[op->update->gradient];
    const est_view *indices = op->update->indices != 0 ? c->in[op->update->indices] : NULL;
    est_apply       a       = { .n_vars = count_variables(op), .dtype = grad->dtype, .grad = grad->data, .cols = 1 };

    for (int i = 0; i < a.n_vars; i++) {
        EST_TRY(est_variable_ready(c, i, grad->dtype));
        a.var[i] = est_call_variable(c, i)->value.data;
    }
    for (int i = a.n_vars; i < EST_APPLY_VARS; i++) a.var[i] = a.var[0];
    for (int i = 0; i < c->n_in; i++) {
        if (is_scalar(op, i)) a.in[a.n_in++] = scalar_of(c->in[i]);
    }
    a.n = grad->count;
    if (indices != NULL) {
        EST_TRY(est_variable_check_rows(est_call_variable(c, 0), indices));
        for (int i = 0; i < a.n_vars; i++) {
            est_lazy_draw(est_call_variable(c, i), c->pool, indices);
            est_cow_keep_indices(est_call_variable(c, i), indices);
        }
        a.indices = indices->data;
        a.wide    = indices->dtype == EST_I64;
        a.n       = indices->count;
        a.cols    = est_row_size(grad);
        if (op->update->sorted != 0) sum_rows(c, &a);
    }
    *out = a;
    return EST_OK;
}

est_status est_apply_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return est_variable_not_a_row(est_call_variable(c, 0), place, value[0]);
}

/* Beyond the caches an element costs the bytes it moves, and a row a part of a memory access for each variable. */
#define CACHE_BYTES 1e6
#define BYTE_NS     0.08
#define ROW_MISS_NS 8.0

void est_apply_run(est_pool *pool, est_apply *a, const est_apply_loops *loops)
{
    bool   wide  = a->dtype == EST_F64;
    double ns    = wide ? 2 * loops->ns : loops->ns;
    double bytes = (wide ? 8.0 : 4.0) * (a->n_vars + 1);

    if (a->indices == NULL) {
        if (bytes * (double)a->n > CACHE_BYTES) ns += BYTE_NS * bytes;
        est_parallel_for(pool, a->n, 64, ns, loops->dense[wide], a);
    } else if (a->cols > 0) {
        est_parallel_for(pool, a->n, 1, ns * (double)a->cols + ROW_MISS_NS * a->n_vars, loops->rows[wide], a);
    }
}

/* --- sparse gradients for rules that move every row --------------------------------------------------------------- */

typedef struct all_rows {
    const est_apply *a;
    est_range_fn     loop; /* of a dense gradient */
    size_t           size; /* of an element */
    uint8_t         *saved;
} all_rows;

static const double zeros[512];

static uint8_t *row_in_table(const all_rows *all, int v, int64_t i)
{
    return (uint8_t *)all->a->var[v] +
           (size_t)(est_row_at(all->a->indices, all->a->wide, i) * all->a->cols) * all->size;
}

static uint8_t *row_in_saved(const all_rows *all, int v, int64_t i)
{
    return all->saved + (size_t)((v * all->a->n + i) * all->a->cols) * all->size;
}

static void save_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const all_rows *all  = arg;
    size_t          size = (size_t)all->a->cols * all->size;

    (void)block;
    for (int v = 0; v < all->a->n_vars; v++) {
        for (int64_t i = begin; i < end; i++) memcpy(row_in_saved(all, v, i), row_in_table(all, v, i), size);
    }
}

static void restore_rows(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const all_rows *all  = arg;
    size_t          size = (size_t)all->a->cols * all->size;

    (void)block;
    for (int v = 0; v < all->a->n_vars; v++) {
        for (int64_t i = begin; i < end; i++) memcpy(row_in_table(all, v, i), row_in_saved(all, v, i), size);
    }
}

static void move_without_gradient(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const all_rows *all   = arg;
    est_apply       piece = *all->a;
    int64_t         most  = (int64_t)(sizeof zeros / all->size);

    (void)block;
    piece.grad = zeros;
    for (int64_t at = begin; at < end; at += most) {
        for (int v = 0; v < EST_APPLY_VARS; v++) piece.var[v] = (uint8_t *)all->a->var[v] + (size_t)at * all->size;
        all->loop(&piece, 0, end - at < most ? end - at : most, 0);
    }
}

size_t est_apply_all_scratch(const est_call *c)
{
    const est_view *gradient = c->in[c->node->op->update->gradient];

    return (size_t)__builtin_popcount(c->node->op->writes) * (size_t)gradient->count * est_dtype_size(gradient->dtype);
}

size_t est_apply_places_scratch(const est_call *c)
{
    return (size_t)(c->in[0]->shape.rank > 0 ? c->in[0]->shape.dim[0] : 1) * sizeof(int32_t);
}

/* The update with zero gradients also changes rows with a gradient, which are then restored: so the kernel need not
 * know which rows those are. */
void est_apply_run_all(const est_call *c, est_apply *a, const est_apply_loops *loops)
{
    bool      wide     = a->dtype == EST_F64;
    double    ns       = wide ? 2 * loops->ns : loops->ns;
    all_rows  all      = { a, loops->dense[wide], wide ? 8 : 4, c->scratch };
    double    copy     = BYTE_NS * (double)all.size * (double)a->cols * a->n_vars + ROW_MISS_NS * a->n_vars;
    int64_t   elements = est_call_variable(c, 0)->value.count;
    est_pool *pool     = c->pool;

    if (elements == 0) return;
    if ((double)all.size * (double)elements * a->n_vars > CACHE_BYTES) ns += BYTE_NS * (double)all.size * a->n_vars;
    est_parallel_for(pool, a->n, 1, copy, save_rows, &all);
    est_parallel_for(pool, elements, 64, ns, move_without_gradient, &all);
    est_parallel_for(pool, a->n, 1, copy, restore_rows, &all);
    est_apply_run(pool, a, loops);
}
