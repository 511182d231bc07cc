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

/* Adds a copy to the batch. Parts of one result write beside each other. */
static int add(const est_call *c, const est_lookup_rows &part, const est_view *from, const est_view *indices)
{
    est_touched touched = {};

    if (part.count == 0) return 0;
    touched.owner = c->node;
    (void)est_touch(&touched, &c->out[0], true);
    if (from != NULL) (void)est_touch(&touched, from, false);
    if (indices != NULL) (void)est_touch(&touched, indices, false);
    return est_batch_push(c, est_batch_run_as<est_lookup_rows>, (void (*)(void))est_lookup_launch, &part, sizeof part,
                          &touched);
}

EST_DEFINE_LAUNCHER(gather_concat)
{
    int            n = (int)c->param[EST_JOIN_LOOKUPS].i, error = 0;
    const int64_t *columns = (const int64_t *)(intptr_t)c->param[EST_JOIN_COLUMNS].i;
    int64_t        end = 0, width = c->out[0].shape.dim[1];

    for (int k = 0; k < c->n_in - n && error == 0; k++) {
        bool            looked_up = k < n;
        const est_view *from      = looked_up ? &est_call_variable(c, 2 * k)->value : c->in[n + k];
        const est_view *indices   = looked_up ? c->in[2 * k + 1] : NULL;
        est_lookup_rows part      = part_of(c, from, indices, columns[k], est_row_size(from));

        part.place = (int64_t)k << EST_JOIN_PLACE_BITS;
        error      = add(c, part, from, indices);
        if (columns[k] + est_row_size(from) > end) end = columns[k] + est_row_size(from);
    }
    if (error != 0 || end >= width) return error;
    return add(c, part_of(c, NULL, NULL, end, width - end), NULL, NULL);
}

EST_DEFINE_LAUNCHER(dedup_slice)
{
    est_runs<float> r = {};

    r.ids       = c->in[1]->data;
    r.wide      = c->in[1]->dtype == EST_I64;
    r.rows.n    = c->in[1]->count;
    r.rows.dy   = est_data<float>(c->in[0]) + c->param[EST_SLICE_COLUMN].i;
    r.rows.cols = (int)c->out[0].shape.dim[1];
    r.rows.step = c->in[0]->shape.dim[1];
    r.sums      = est_data<float>(&c->out[0]);
    r.indices   = c->out[1].data;
    r.packed    = r.rows.cols % 4 == 0 && r.rows.step % 4 == 0 && est_aligned(r.rows.dy) && est_aligned(r.sums);
    est_runs_scratch(&r, c->scratch);
    return est_batch_add(c, est_runs_launch<float>, r, (size_t)r.rows.n * EST_RUNS_BYTES);
}

/* Words of the matrix, then of zeros, in the same launch as lookups. */
EST_DEFINE_LAUNCHER(pad_rows)
{
    const est_view *x = c->in[0], *y = &c->out[0];
    est_lookup_rows l = {};
    int             error;

    l.from     = est_data<char>(x);
    l.to       = est_data<char>(y);
    l.rows     = x->shape.dim[0];
    l.step     = est_row_size(x) * (int64_t)sizeof(float);
    l.bytes    = est_word_bytes(l.step, l.step, l.from, l.to);
    l.words    = l.step / l.bytes;
    l.count    = l.rows * l.words;
    l.reporter = est_reporter_of(c);
    error      = add(c, l, x, NULL);
    l.to += l.rows * l.step;
    l.from  = NULL;
    l.count = (y->shape.dim[0] - l.rows) * l.words;
    return error != 0 ? error : add(c, l, NULL, NULL);
}
