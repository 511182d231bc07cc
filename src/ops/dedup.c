/* SPDX-License-Identifier: Apache-2.0
 *
 * EstDedup: sums the rows of a sparse gradient that have the same index, so that every index is left once, in order of
 * first sight.
 *
 * One pass over the indices gives every row its place in the result (kernels/distinct.h). A second pass copies first
 * rows and adds later ones in order; when large it is cut by place, so that sums do not depend on the number of
 * threads. Without duplicates it is one copy. */
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/distinct.h"
#include "kernels/parallel.h"
#include "kernels/variable_access.h"
#include "ops/ops.h"

static est_status dedup_infer(est_infer *c)
{
    const est_shape *values = &c->in[0], *indices = &c->in[1];
    int64_t          n = est_infer_dim(indices, 0);
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 1));
    if (values->rank == 0 || (values->rank > 0 && n >= 0 && values->dim[0] >= 0 && values->dim[0] != n)) {
        return est_fail(EST_INVALID_ARGUMENT, "values %s need one row for each of the indices %s",
                        est_shape_text(values, a), est_shape_text(indices, b));
    }
    if (n < 0) n = est_infer_dim(values, 0);
    c->out[0] = *values;
    if (values->rank > 0) c->out[0].dim[0] = est_infer_at_most(c, n);
    c->out[1] = EST_SHAPE(est_infer_at_most(c, n));
    return EST_OK;
}

/* Scratch: the place of every row, then the table. */
static size_t dedup_scratch(const est_call *c)
{
    int64_t n = c->in[1]->count;

    return (size_t)n * sizeof(int32_t) + est_distinct_table_bytes(n);
}

/* Rows that share a cache line belong to one lane. */
#define LANES          4
#define LANE_COLS      8 /* narrower rows are no more work than looking whose they are */
#define LANE_OF(place) ((place) >> 4 & (LANES - 1))

typedef struct sums {
    const void    *values;
    void          *out;
    const int32_t *place;
    int64_t        n, cols;
    bool           lanes; /* more than one */
} sums;

static inline bool in_lanes(const sums *s, int32_t place, int64_t begin, int64_t end)
{
    return !s->lanes || (LANE_OF(place) >= begin && LANE_OF(place) < end);
}

#define SUMS(T, suffix)                                                                                                \
    static inline __attribute__((always_inline)) void sum_rows_of_##suffix(const sums *s, int64_t begin, int64_t end,  \
                                                                           int64_t cols)                               \
    {                                                                                                                  \
        int32_t next  = 0; /* the place of the next index not seen before */                                           \
        int64_t ahead = s->n > EST_DISTINCT_CACHED ? s->n - EST_DISTINCT_AHEAD : 0;                                    \
                                                                                                                       \
        for (int64_t i = 0; i < s->n; i++) {                                                                           \
            const T *restrict row = (const T *)s->values + i * cols;                                                   \
            T *restrict sum       = (T *)s->out + (int64_t)s->place[i] * cols;                                         \
            bool first            = s->place[i] == next;                                                               \
            next += first;                                                                                             \
            if (i < ahead && in_lanes(s, s->place[i + EST_DISTINCT_AHEAD], begin, end)) {                              \
                EST_PREFETCH_ROW(s->out, s->place[i + EST_DISTINCT_AHEAD], (size_t)cols * sizeof(T), 1);               \
            }                                                                                                          \
            if (!in_lanes(s, s->place[i], begin, end)) continue;                                                       \
            if (first) {                                                                                               \
                for (int64_t j = 0; j < cols; j++) sum[j] = row[j];                                                    \
            } else {                                                                                                   \
                for (int64_t j = 0; j < cols; j++) sum[j] += row[j];                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void sum_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                                \
    {                                                                                                                  \
        const sums *s = arg;                                                                                           \
                                                                                                                       \
        (void)block;                                                                                                   \
        switch (s->cols) {                                                                                             \
        case 1: sum_rows_of_##suffix(s, begin, end, 1); break;                                                         \
        case 16: sum_rows_of_##suffix(s, begin, end, 16); break;                                                       \
        default: sum_rows_of_##suffix(s, begin, end, s->cols); break;                                                  \
        }                                                                                                              \
    }
SUMS(float, f32)
SUMS(double, f64)

static est_status dedup_cpu(est_call *c)
{
    const est_view *values = c->in[0], *indices = c->in[1];
    int64_t         n     = indices->count;
    int32_t        *place = c->scratch, *table = place + n;
    int32_t         n_unique;
    sums            s = { values->data, c->out[0].data, place, n, est_row_size(values), false };
    double          ns;

    if (n > EST_DISTINCT_MAX) return est_fail(EST_UNIMPLEMENTED, "too many rows to sum: %lld", (long long)n);
    n_unique = est_distinct(indices->data, indices->dtype == EST_I64, n, c->out[1].data, place, table);
    if (n_unique == n) {
        if (values->count > 0) memcpy(s.out, s.values, (size_t)values->count * est_dtype_size(values->dtype));
    } else {
        ns      = (double)n * (3.0 + 0.3 * (double)s.cols) / LANES; /* of a lane */
        s.lanes = s.cols >= LANE_COLS && est_parallel_blocks(LANES, ns) > 1;
        est_parallel_for(c->pool, s.lanes ? LANES : 1, 1, ns, values->dtype == EST_F32 ? sum_rows_f32 : sum_rows_f64,
                         &s);
    }
    c->out[0].shape        = values->shape;
    c->out[0].shape.dim[0] = n_unique;
    c->out[0].count        = n_unique * s.cols;
    c->out[1].shape        = EST_SHAPE(n_unique);
    c->out[1].count        = n_unique;
    return EST_OK;
}

/* On a GPU: cuda/rows.cuh. */
static size_t dedup_cuda_scratch(const est_call *c)
{
    return (size_t)c->in[1]->count * EST_RUNS_BYTES;
}

static bool dedup_cuda_accepts(const est_call *c)
{
    return c->in[0]->shape.rank > 0 && c->in[1]->count <= EST_DISTINCT_MAX;
}

/* Output 0; output 1 would be the Unique. */
static void dedup_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node place, unique = est_unique(in[1], &place);

    (void)node;
    (void)graph;
    out[0] = est_unsorted_segment_sum(in[0], place, est_size(unique));
    out[1] = unique;
}

const est_op est_op_dedup = {
    .name      = "EstDedup",
    .signature = "values: T, indices: Tindices -> unique_values: T, unique_indices: Tindices; T: {float32, float64}; "
                 "Tindices: {int32, int64}",
    .infer     = dedup_infer,
    .cpu       = EST_KERNELS({ .run = dedup_cpu, .scratch = dedup_scratch }),
    .cuda  = EST_KERNELS({ .launch = EST_LAUNCH(dedup), .accepts = dedup_cuda_accepts, .scratch = dedup_cuda_scratch }),
    .lower = dedup_lower,
    .shrinks  = true,
    .distinct = 1u << 1,
};

est_gradient est_dedup(est_gradient slices)
{
    const est_node_def *indices = est_def(slices.indices);
    est_node            values;

    if (slices.indices.graph == NULL || est_node_dim(slices.indices, 0) == 1) return slices; /* nothing can repeat */
    if (indices != NULL && (indices->op->distinct >> slices.indices.output & 1u) != 0) return slices;
    values = est_build2(&est_op_dedup, slices.values, slices.indices, EST_NO_ATTRS);
    return (est_gradient){ .values = values, .indices = est_output(values, 1) };
}
