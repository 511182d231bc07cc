/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcasting loops: collapse the axes once, then walk rows of the innermost one. */
#include "kernels/broadcast.h"

#include "kernels/parallel.h"

typedef struct walk {
    est_broadcast_fn fn;
    int              n_in;
    int              rank; /* after collapsing, at least 1 */
    int64_t          dim[EST_RANK_MAX];
    int64_t          stride[EST_BROADCAST_IN_MAX][EST_RANK_MAX]; /* in elements; 0 along broadcast axes */
    const char      *in[EST_BROADCAST_IN_MAX];
    int64_t          in_size[EST_BROADCAST_IN_MAX]; /* bytes of an element */
    char            *out;
    int64_t          out_size;
} walk;

/* The strides of an input seen with the output's axes. */
static void input_strides(const est_shape *in, const est_shape *out, int64_t *stride)
{
    int     missing = out->rank - in->rank;
    int64_t step    = 1;

    for (int a = out->rank - 1; a >= 0; a--) {
        int64_t d = a >= missing ? in->dim[a - missing] : 1;

        stride[a] = d == 1 ? 0 : step;
        step *= d;
    }
}

/* Drops axes of size 1 and joins neighbours that every input walks through as if they were one. */
static void collapse(walk *w, const est_shape *out, int64_t stride[][EST_RANK_MAX])
{
    int r = 0; /* axes so far; the last of them is r - 1 */

    for (int a = 0; a < out->rank; a++) {
        bool joins = r > 0;

        if (out->dim[a] == 1) continue;
        for (int i = 0; i < w->n_in && joins; i++) joins = w->stride[i][r - 1] == stride[i][a] * out->dim[a];
        if (!joins) r++;
        w->dim[r - 1] = joins ? w->dim[r - 1] * out->dim[a] : out->dim[a];
        for (int i = 0; i < w->n_in; i++) w->stride[i][r - 1] = stride[i][a];
    }
    if (r == 0) { /* a single element */
        w->dim[0] = 1;
        for (int i = 0; i < w->n_in; i++) w->stride[i][0] = 1;
        r = 1;
    }
    w->rank = r;
}

static void walk_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const walk *w     = arg;
    int         last  = w->rank - 1;
    int64_t     inner = w->dim[last];
    int64_t     step[EST_BROADCAST_IN_MAX], index[EST_RANK_MAX];
    int64_t     col = begin % inner, rest = begin / inner;
    int64_t     row[EST_BROADCAST_IN_MAX] = { 0 }; /* where the current row starts in each input */

    (void)block;
    for (int i = 0; i < w->n_in; i++) step[i] = w->stride[i][last];
    for (int a = last - 1; a >= 0; a--) {
        index[a] = rest % w->dim[a];
        rest /= w->dim[a];
        for (int i = 0; i < w->n_in; i++) row[i] += index[a] * w->stride[i][a];
    }
    for (int64_t at = begin; at < end;) {
        int64_t     n = inner - col < end - at ? inner - col : end - at;
        const void *in[EST_BROADCAST_IN_MAX];

        for (int i = 0; i < w->n_in; i++) in[i] = w->in[i] + (row[i] + col * step[i]) * w->in_size[i];
        w->fn(w->out + at * w->out_size, in, step, n);
        at += n;
        col = 0;
        for (int a = last - 1; a >= 0; a--) { /* the next row */
            for (int i = 0; i < w->n_in; i++) row[i] += w->stride[i][a];
            if (++index[a] < w->dim[a]) break;
            for (int i = 0; i < w->n_in; i++) row[i] -= w->stride[i][a] * w->dim[a];
            index[a] = 0;
        }
    }
}

void est_broadcast_run(est_call *c, int n_in, est_broadcast_fn fn, double ns_per_item)
{
    const est_view *out = &c->out[0];
    int64_t         stride[EST_BROADCAST_IN_MAX][EST_RANK_MAX];
    walk            w = { .fn = fn, .n_in = n_in, .out = out->data, .out_size = (int64_t)est_dtype_size(out->dtype) };

    if (out->count == 0) return;
    for (int i = 0; i < n_in; i++) {
        w.in[i]      = c->in[i]->data;
        w.in_size[i] = (int64_t)est_dtype_size(c->in[i]->dtype);
        input_strides(&c->in[i]->shape, &out->shape, stride[i]);
    }
    collapse(&w, &out->shape, stride);
    est_parallel_for(c->pool, out->count, 64, ns_per_item, walk_range, &w);
}
