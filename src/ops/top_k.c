/* SPDX-License-Identifier: Apache-2.0
 *
 * TopKV2: the k largest entries of every row (last axis), largest first, and where they are; of equals the lower index
 * comes first. Backwards, dy goes to the places the values came from.
 *
 * Each row keeps the best k seen so far in a heap with the worst on top, made of indices in the output itself; the heap
 * is then sorted in place. */
#include <inttypes.h>

#include "kernels/parallel.h"
#include "ops/array.h"

static est_status top_k_infer(est_infer *c)
{
    const est_value *k   = est_infer_value(c, 1);
    est_shape        out = c->in[0];
    char             text[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, 1, 0));
    if (out.rank == 0) return est_fail(EST_INVALID_ARGUMENT, "the input must have at least one axis, got a scalar");
    if (out.rank > 0) {
        int64_t *last = &out.dim[out.rank - 1], n = *last;

        *last = k != NULL && k->v[0] != EST_VALUE_UNKNOWN ? k->v[0] : -1;
        if (k != NULL && k->v[0] != EST_VALUE_UNKNOWN && (k->v[0] < 0 || (n >= 0 && k->v[0] > n))) {
            return est_fail(EST_INVALID_ARGUMENT, "cannot take the top %" PRId64 " of the last axis of %s", k->v[0],
                            est_shape_text(&c->in[0], text));
        }
    }
    c->out[0] = c->out[1] = out;
    return EST_OK;
}

/* TopK is a gather along the last axis whose indices were computed. */
static void top_k_grad(est_grad *g)
{
    if (g->dout[0].graph == NULL) return;
    g->din[0].values = est_gather_grad(g->in[0], g->out[1], g->dout[0], est_scalar(g->in[0].graph, EST_I32, -1), -1);
}

/* a before b: larger, or equal and earlier. */
#define BEFORE(x, a, b) ((x)[a] > (x)[b] || ((x)[a] == (x)[b] && (a) < (b)))

#define TOP_K(T, suffix)                                                                                               \
    /* Moves heap[at] down until neither child is worse than it. */                                                    \
    static void sift_down_##suffix(const T *x, int32_t *heap, int64_t n, int64_t at)                                   \
    {                                                                                                                  \
        for (;;) {                                                                                                     \
            int64_t worst = at, child = 2 * at + 1;                                                                    \
            if (child < n && BEFORE(x, heap[worst], heap[child])) worst = child;                                       \
            if (child + 1 < n && BEFORE(x, heap[worst], heap[child + 1])) worst = child + 1;                           \
            if (worst == at) return;                                                                                   \
            int32_t moved = heap[at];                                                                                  \
            heap[at]      = heap[worst];                                                                               \
            heap[worst]   = moved;                                                                                     \
            at            = worst;                                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void top_k_row_##suffix(const T *x, int64_t n, int64_t k, T *values, int32_t *heap)                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)i;                                                          \
        for (int64_t i = k / 2 - 1; i >= 0; i--) sift_down_##suffix(x, heap, k, i);                                    \
        for (int64_t i = k; i < n; i++) {                                                                              \
            if (!(x[i] > x[heap[0]])) continue; /* an equal one is later: not better */                                \
            heap[0] = (int32_t)i;                                                                                      \
            sift_down_##suffix(x, heap, k, 0);                                                                         \
        }                                                                                                              \
        for (int64_t last = k - 1; last > 0; last--) { /* the worst goes to the end of what is left */                 \
            int32_t worst = heap[0];                                                                                   \
            heap[0]       = heap[last];                                                                                \
            heap[last]    = worst;                                                                                     \
            sift_down_##suffix(x, heap, last, 0);                                                                      \
        }                                                                                                              \
        for (int64_t i = 0; i < k; i++) values[i] = x[heap[i]];                                                        \
    }                                                                                                                  \
                                                                                                                       \
    static void top_k_rows_##suffix(void *arg, int64_t begin, int64_t end, int64_t block)                              \
    {                                                                                                                  \
        const est_call *c = arg;                                                                                       \
        int64_t         n = c->in[0]->shape.dim[c->in[0]->shape.rank - 1];                                             \
        int64_t         k = c->out[0].shape.dim[c->out[0].shape.rank - 1];                                             \
        (void)block;                                                                                                   \
        for (int64_t r = begin; r < end; r++) {                                                                        \
            top_k_row_##suffix((const T *)c->in[0]->data + r * n, n, k, (T *)c->out[0].data + r * k,                   \
                               (int32_t *)c->out[1].data + r * k);                                                     \
        }                                                                                                              \
    }
TOP_K(float, f32)
TOP_K(double, f64)
TOP_K(int32_t, i32)
TOP_K(int64_t, i64)

static est_status top_k_cpu(est_call *c)
{
    int64_t      n     = c->in[0]->shape.dim[c->in[0]->shape.rank - 1];
    int64_t      k     = c->out[0].shape.dim[c->out[0].shape.rank - 1];
    est_dtype    dtype = c->in[0]->dtype;
    est_range_fn rows  = dtype == EST_F32   ? top_k_rows_f32
                         : dtype == EST_F64 ? top_k_rows_f64
                         : dtype == EST_I32 ? top_k_rows_i32
                                            : top_k_rows_i64;

    if (c->out[0].count == 0) return EST_OK;
    est_parallel_for(c->pool, c->out[0].count / k, 1, (double)(n + 20 * k), rows, c);
    return EST_OK;
}

/* `sorted` = false leaves the order open; ours is sorted all the same. */
const est_op est_op_top_k_v2 = {
    .name      = "TopKV2",
    .signature = "input: T, k: int32 -> values: T, indices: int32; sorted: bool = true; "
                 "T: {float32, float64, int32, int64}",
    .infer     = top_k_infer,
    .grad      = top_k_grad,
    .cpu       = EST_KERNELS({ .run = top_k_cpu }),
};

est_node est_top_k(est_node x, int64_t k, est_node *indices)
{
    est_node values = est_build2(&est_op_top_k_v2, x, est_scalar(x.graph, EST_I32, (double)k), EST_NO_ATTRS);

    if (indices != NULL) *indices = est_output(values, 1);
    return values;
}
