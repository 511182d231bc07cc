/* SPDX-License-Identifier: Apache-2.0
 *
 * EstGatherConcat, EstDedupSlice and EstPadRows on a GPU. */
#include "ops/gather_concat.h"

#include "cuda/lookups.cuh"
#include "cuda/rows.cuh"
#include "kernels/variable_access.h"

/* Rows of `from` to a column of the result. NULL: zeros, `columns` of them. */
static est_lookup_rows part_of(const est_call *c, const est_view *from, const est_view *indices, int64_t column,
                               int64_t columns)
{
    const est_view *whole = &c->out[0];
    int64_t         size  = (int64_t)est_element_bytes(whole->dtype);
    est_lookup_rows l     = {};

    l.from     = from != NULL ? est_data<char>(from) : NULL;
    l.indices  = indices != NULL ? indices->data : NULL;
    l.to       = est_data<char>(whole) + column * size;
    l.step     = whole->shape.dim[1] * size;
    l.bytes    = est_word_bytes(columns * size, l.step, l.from, l.to);
    l.words    = columns * size / l.bytes;
    l.count    = whole->shape.dim[0] * l.words;
    l.rows     = from != NULL ? est_row_count(from) : 0;
    l.reporter = est_reporter_of(c);
    l.wide     = indices != NULL && indices->dtype == EST_I64;
    return l;
}

typedef struct list {
    const est_call *c;
    est_lookup_rows all[EST_BATCH_MAX];
    int             n;
} list;

static int flush(list *l)
{
    int n = l->n;

    l->n = 0;
    return n > 0 ? est_lookup_launch(l->c, l->all, n) : 0;
}

static int add(list *l, const est_lookup_rows &part)
{
    int error = l->n == EST_BATCH_MAX ? flush(l) : 0;

    if (part.count > 0) l->all[l->n++] = part;
    return error;
}

EST_DEFINE_LAUNCHER(gather_concat)
{
    int            n = (int)c->param[EST_JOIN_LOOKUPS].i, error = 0;
    const int64_t *columns = (const int64_t *)(intptr_t)c->param[EST_JOIN_COLUMNS].i;
    int64_t        end = 0, width = c->out[0].shape.dim[1];
    list           parts = { c, {}, 0 };

    for (int k = 0; k < c->n_in - n && error == 0; k++) {
        bool            looked_up = k < n;
        const est_view *from      = looked_up ? &est_call_variable(c, 2 * k)->value : c->in[n + k];
        est_lookup_rows part = part_of(c, from, looked_up ? c->in[2 * k + 1] : NULL, columns[k], est_row_size(from));

        part.place = (int64_t)k << EST_JOIN_PLACE_BITS;
        error      = add(&parts, part);
        if (columns[k] + est_row_size(from) > end) end = columns[k] + est_row_size(from);
    }
    if (error == 0 && end < width) error = add(&parts, part_of(c, NULL, NULL, end, width - end));
    return error != 0 ? error : flush(&parts);
}

EST_DEFINE_LAUNCHER(dedup_slice)
{
    est_runs<float> r = {};

    r.ids     = c->in[1]->data;
    r.wide    = c->in[1]->dtype == EST_I64;
    r.n       = c->in[1]->count;
    r.dy      = est_data<float>(c->in[0]) + c->param[EST_SLICE_COLUMN].i;
    r.cols    = (int)c->out[0].shape.dim[1];
    r.step    = c->in[0]->shape.dim[1];
    r.sums    = est_data<float>(&c->out[0]);
    r.indices = c->out[1].data;
    r.packed  = r.cols % 4 == 0 && r.step % 4 == 0 && est_aligned(r.dy) && est_aligned(r.sums);
    est_runs_scratch(&r, c->scratch);
    return est_batch_add(c, est_runs_launch<float>, r, (size_t)r.n * EST_RUNS_BYTES);
}

static __global__ void pad_with_zeros(const float *x, float *y, int64_t have, int64_t want)
{
    int64_t i = est_thread();

    if (i < want) y[i] = i < have ? x[i] : 0.0f;
}

EST_DEFINE_LAUNCHER(pad_rows)
{
    return est_launch(c, pad_with_zeros, dim3(est_blocks(c->out[0].count)), EST_BLOCK, est_data<float>(c->in[0]),
                      est_data<float>(&c->out[0]), c->in[0]->count, c->out[0].count);
}
