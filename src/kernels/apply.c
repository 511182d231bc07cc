/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, checks and the parallel loop of the optimizer updates (kernels/apply.h). */
#include "kernels/apply.h"

#include "kernels/lazy_rows.h"

static est_status infer_slots(const est_infer *c, est_apply_form form, est_shape *var)
{
    *var = c->in[0];
    for (int i = 1; i < form.n_vars; i++) {
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
static est_status infer_rows(const est_infer *c, est_apply_form form, const est_shape *var)
{
    const est_shape *grad = &c->in[form.grad];
    est_shape        want = *var, merged;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, form.indices, 1));
    if (var->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar variable has no rows for a sparse gradient");
    if (var->rank > 0) want.dim[0] = est_infer_dim(&c->in[form.indices], 0);
    if (est_infer_merge(&want, grad, &merged) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "the gradient's rows are %s, the variable and the indices want %s",
                        est_shape_text(grad, a), est_shape_text(&want, b));
    }
    return EST_OK;
}

est_status est_apply_infer(est_infer *c, est_apply_form form)
{
    est_shape var, merged;

    EST_TRY(infer_slots(c, form, &var));
    for (int i = form.n_vars; i < c->n_in; i++) {
        if (i != form.grad && (form.indices == 0 || i != form.indices)) EST_TRY(est_infer_rank(c, i, 0));
    }
    if (form.indices != 0) return infer_rows(c, form, &var);
    if (est_infer_merge(&var, &c->in[form.grad], &merged) != EST_OK) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
        return est_fail(EST_INVALID_ARGUMENT, "the gradient is %s, the variable %s",
                        est_shape_text(&c->in[form.grad], a), est_shape_text(&var, b));
    }
    return EST_OK;
}

static double scalar_of(const est_view *v)
{
    return v->dtype == EST_F32 ? *(const float *)v->data : *(const double *)v->data;
}

est_status est_apply_open(const est_call *c, est_apply_form form, est_apply *out)
{
    const est_view *grad = c->in[form.grad];
    est_apply a = { .n_vars = form.n_vars, .dtype = grad->dtype, .grad = grad->data, .n = grad->count, .cols = 1 };
    int       n_scalars = 0;

    for (int i = 0; i < form.n_vars; i++) {
        EST_TRY(est_variable_ready(c, i, grad->dtype));
        a.var[i] = est_call_variable(c, i)->value.data;
    }
    for (int i = form.n_vars; i < EST_APPLY_VARS; i++) a.var[i] = a.var[0];
    for (int i = form.n_vars; i < c->n_in; i++) {
        if (i != form.grad && (form.indices == 0 || i != form.indices)) a.in[n_scalars++] = scalar_of(c->in[i]);
    }
    if (form.indices != 0) {
        const est_view *indices = c->in[form.indices];
        EST_TRY(est_rows_check(est_call_variable(c, 0), indices));
        for (int i = 0; i < form.n_vars; i++) est_lazy_draw(est_call_variable(c, i), c->pool, indices);
        a.indices = indices->data;
        a.wide    = indices->dtype == EST_I64;
        a.n       = indices->count;
        a.cols    = est_row_size(grad);
    }
    *out = a;
    return EST_OK;
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
