/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceScatterAdd, Sub, Update: variable[indices[i], ...] += (-=, =) updates[i, ...]; a scalar update goes to every
 * row named.
 *
 * Indices may repeat, and rows are taken in order, so the result is the same whatever the number of threads. Large
 * calls are cut by target: every lane walks all indices and takes the rows that are its own. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/apply.h"
#include "kernels/copy_on_write.h"
#include "kernels/distinct.h"
#include "kernels/lazy_rows.h"
#include "kernels/parallel.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"

static est_status scatter_infer(est_infer *c)
{
    const est_shape *var = &c->in[0], *indices = &c->in[1], *updates = &c->in[2];
    est_shape        want, merged;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (var->rank == 0) return est_fail(EST_INVALID_ARGUMENT, "a scalar variable has no rows");
    if (var->rank < 0 || indices->rank < 0 || updates->rank == 0) return EST_OK;
    if (indices->rank + var->rank - 1 > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "indices %s are of too high a rank", est_shape_text(indices, a));
    }
    want = *indices;
    for (int i = 1; i < var->rank; i++) want.dim[want.rank++] = var->dim[i];
    if (est_infer_merge(&want, updates, &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the updates are %s, the variable and the indices want %s",
                    est_shape_text(updates, a), est_shape_text(&want, b));
}

/* Rows that share a cache line belong to one lane. */
#define LANES        4
#define LANE_COLS    8 /* narrower rows are no more work than looking whose they are */
#define LANE_OF(row) ((row) >> 4 & (LANES - 1))

typedef struct scatter {
    void       *var;
    const void *indices;
    const void *updates;
    bool        wide;
    bool        scalar; /* one update for all */
    bool        lanes;  /* more than one */
    int64_t     n, cols;
} scatter;

static inline bool in_lanes(const scatter *s, int64_t row, int64_t begin, int64_t end)
{
    return !s->lanes || (LANE_OF(row) >= begin && LANE_OF(row) < end);
}

#define SCATTER(T, suffix, name, statement)                                                                            \
    static inline __attribute__((always_inline)) void name##_rows_##suffix(const scatter *s, int64_t begin,            \
                                                                           int64_t end, int64_t cols)                  \
    {                                                                                                                  \
        for (int64_t i = 0; i < s->n; i++) {                                                                           \
            int64_t row = est_row_at(s->indices, s->wide, i);                                                          \
            if (i + EST_PREFETCH_AHEAD < s->n) {                                                                       \
                int64_t next = est_row_at(s->indices, s->wide, i + EST_PREFETCH_AHEAD);                                \
                if (in_lanes(s, next, begin, end)) EST_PREFETCH_ROW(s->var, next, (size_t)cols * sizeof(T), 1);        \
            }                                                                                                          \
            if (!in_lanes(s, row, begin, end)) continue;                                                               \
            T *restrict w       = (T *)s->var + row * cols;                                                            \
            const T *restrict x = (const T *)s->updates + (s->scalar ? 0 : i * cols);                                  \
            if (s->scalar) {                                                                                           \
                for (int64_t j = 0; j < cols; j++) w[j] statement x[0];                                                \
            } else {                                                                                                   \
                for (int64_t j = 0; j < cols; j++) w[j] statement x[j];                                                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void name##_lanes_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                            \
    {                                                                                                                  \
        const scatter *s = arg;                                                                                        \
                                                                                                                       \
        (void)block;                                                                                                   \
        switch (s->cols) {                                                                                             \
        case 1: name##_rows_##suffix(s, begin, end, 1); break;                                                         \
        case 16: name##_rows_##suffix(s, begin, end, 16); break;                                                       \
        default: name##_rows_##suffix(s, begin, end, s->cols); break;                                                  \
        }                                                                                                              \
    }
#define SCATTER_TYPES(name, statement)                                                                                 \
    SCATTER(float, f32, name, statement)                                                                               \
    SCATTER(double, f64, name, statement)                                                                              \
    SCATTER(uint32_t, i32, name, statement)                                                                            \
    SCATTER(uint64_t, i64, name, statement)                                                                            \
                                                                                                                       \
    static est_status name##_cpu(est_call *c)                                                                          \
    {                                                                                                                  \
        static const est_range_fn fn[] = { name##_lanes_f32, name##_lanes_f64, name##_lanes_i32, name##_lanes_i64 };   \
        return scatter_run(c, fn);                                                                                     \
    }

/* fn: for float32, float64, int32, int64. */
static est_status scatter_run(est_call *c, const est_range_fn fn[4])
{
    est_var  *v     = est_call_variable(c, 0);
    est_dtype dtype = v->value.dtype;
    int       type  = dtype == EST_F32 ? 0 : dtype == EST_F64 ? 1 : dtype == EST_I32 ? 2 : 3;
    scatter   s     = { .var     = v->value.data,
                        .indices = c->in[1]->data,
                        .updates = c->in[2]->data,
                        .wide    = c->in[1]->dtype == EST_I64,
                        .scalar  = c->in[2]->shape.rank == 0,
                        .n       = c->in[1]->count,
                        .cols    = est_row_size(&v->value) };
    double    ns    = (double)s.n * (15.0 + 0.3 * (double)s.cols) / LANES; /* of a lane */

    EST_TRY(est_variable_ready(c, 0, c->in[2]->dtype));
    EST_TRY(est_variable_check_rows(v, c->in[1]));
    est_lazy_draw(v, c->pool, c->in[1]);
    est_cow_keep_indices(v, c->in[1]);
    if (s.cols == 0) return EST_OK;
    s.lanes = s.cols >= LANE_COLS && est_parallel_blocks(LANES, ns) > 1;
    est_parallel_for(c->pool, s.lanes ? LANES : 1, 1, ns, fn[type], &s);
    return EST_OK;
}

SCATTER_TYPES(add, +=)
SCATTER_TYPES(sub, -=)
SCATTER_TYPES(update, =)

/* On a GPU, where variables of integers never are. */
static bool sum_cuda_accepts(const est_call *c)
{
    return (c->in[2]->dtype == EST_F32 || c->in[2]->dtype == EST_F64) && c->in[2]->shape.rank > 0 &&
           c->in[1]->count <= EST_DISTINCT_MAX;
}

static size_t sum_cuda_scratch(const est_call *c)
{
    return EST_SCATTER_SUMS(c->in[1]->count) + (size_t)c->in[2]->count * est_dtype_size(c->in[2]->dtype);
}

static bool update_cuda_accepts(const est_call *c)
{
    return c->in[2]->dtype == EST_F32 || c->in[2]->dtype == EST_F64;
}

#define SUM_CUDA(name)                                                                                                 \
    EST_KERNELS({ .launch  = EST_LAUNCH(name),                                                                         \
                  .accepts = sum_cuda_accepts,                                                                         \
                  .scratch = sum_cuda_scratch,                                                                         \
                  .fail    = est_apply_fail })

#define SIGNATURE                                                                                                      \
    "resource: resource, indices: Tindices, updates: dtype -> (); dtype: {float32, float64, int32, int64}; "           \
    "Tindices: {int32, int64}"

const est_op est_op_resource_scatter_add = {
    .name      = "ResourceScatterAdd",
    .signature = SIGNATURE,
    .infer     = scatter_infer,
    .cpu       = EST_KERNELS({ .run = add_cpu }),
    .cuda      = SUM_CUDA(resource_scatter_add),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 2, .indices = 1),
};

const est_op est_op_resource_scatter_sub = {
    .name      = "ResourceScatterSub",
    .signature = SIGNATURE,
    .infer     = scatter_infer,
    .cpu       = EST_KERNELS({ .run = sub_cpu }),
    .cuda      = SUM_CUDA(resource_scatter_sub),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 2, .indices = 1),
};

const est_op est_op_resource_scatter_update = {
    .name      = "ResourceScatterUpdate",
    .signature = SIGNATURE,
    .infer     = scatter_infer,
    .cpu       = EST_KERNELS({ .run = update_cpu }),
    .cuda      = EST_KERNELS({ .launch  = EST_LAUNCH(resource_scatter_update),
                               .accepts = update_cuda_accepts,
                               .scratch = est_apply_places_scratch,
                               .fail    = est_apply_fail }),
    .stateful  = true,
    .by_rows   = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 2, .indices = 1),
};

est_node est_scatter_add(est_node variable, est_node indices, est_node updates)
{
    return est_build_update(&est_op_resource_scatter_add, EST_NODES(variable, indices, updates), EST_NO_ATTRS);
}

est_node est_scatter_sub(est_node variable, est_node indices, est_node updates)
{
    return est_build_update(&est_op_resource_scatter_sub, EST_NODES(variable, indices, updates), EST_NO_ATTRS);
}

est_node est_scatter_update(est_node variable, est_node indices, est_node updates)
{
    return est_build_update(&est_op_resource_scatter_update, EST_NODES(variable, indices, updates), EST_NO_ATTRS);
}
