/* SPDX-License-Identifier: Apache-2.0
 *
 * EstMultiHot on a GPU: zeros, then a thread a row. Wrong splits are reported. */
#include "cuda/launch.cuh"

struct multi_hot_call {
    const void    *ids;
    const int64_t *splits;
    const float   *weights; /* NULL: 1 each */
    float         *out;
    bool           wide;
    int64_t        n, rows, depth;
    est_reporter   reporter;
};

static __global__ void clear_rows(multi_hot_call m)
{
    int64_t i = est_thread();

    if (i < m.rows * m.depth) m.out[i] = 0;
}

/* The thread behind those of the rows looks at the end. */
static __global__ void count_ids(multi_hot_call m)
{
    int64_t r = est_thread(), from, to;

    if (r > m.rows) return;
    from = m.splits[r];
    if (r == 0 && from != 0) est_report(m.reporter, -1, from, 0);
    if (r == m.rows) {
        if (from != m.n) est_report(m.reporter, m.rows, from, 0);
        return;
    }
    to = m.splits[r + 1];
    if (to < from || to > m.n) est_report(m.reporter, r, from, to);
    if (from < 0 || to > m.n) return;
    for (int64_t i = from; i < to; i++) {
        int64_t id = est_index_at(m.ids, m.wide, i);

        if (id >= 0 && id < m.depth) m.out[r * m.depth + id] += m.weights != NULL ? m.weights[i] : 1.0f;
    }
}

EST_DEFINE_LAUNCHER(multi_hot)
{
    multi_hot_call m     = { c->in[0]->data,
                             est_data<int64_t>(c->in[1]),
                         c->n_in > 2 ? est_data<float>(c->in[2]) : NULL,
                             est_data<float>(&c->out[0]),
                             c->in[0]->dtype == EST_I64,
                             c->in[0]->count,
                             c->out[0].shape.dim[0],
                             c->out[0].shape.dim[1],
                             est_reporter_of(c) };
    int            error = est_launch(c, clear_rows, dim3(est_blocks(m.rows * m.depth)), EST_BLOCK, m);

    return error != 0 ? error : est_launch(c, count_ids, dim3(est_blocks(m.rows + 1)), EST_BLOCK, m);
}
