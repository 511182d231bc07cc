/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceGather on a GPU: a thread copies a word of a row. A row that does not exist is reported. Lookups of many tables
 * are one launch (cuda/batch.cuh). */
#include "cuda/batch.cuh"
#include "kernels/variable_access.h"

/* W: 16, 4 or 1 bytes; a row is `words` of them. */
template <typename W> struct gather {
    const W     *table;
    const void  *indices;
    W           *out;
    int64_t      count; /* words of the result */
    int64_t      words;
    int64_t      rows;
    est_reporter reporter;
    bool         wide;
};

template <typename W> static __global__ void gather_words(const __grid_constant__ est_many<gather<W>> m)
{
    unsigned         block;
    const gather<W> &g = m.call[est_own_call(m, &block)];
    int64_t          i = (int64_t)block * blockDim.x + threadIdx.x, at, row, word;

    if (i >= g.count) return;
    at   = est_divide(i, g.words);
    word = i - at * g.words;
    row  = est_index_at(g.indices, g.wide, at);
    if (row >= 0 && row < g.rows) {
        g.out[i] = g.table[row * g.words + word];
    } else if (word == 0) {
        est_report(g.reporter, at, row, 0);
    }
}

template <typename W> static int launch_many(const est_call *c, const gather<W> *calls, int n)
{
    return est_launch_many(c, gather_words<W>,
                           est_many_of(calls, n, [](const gather<W> &g) { return est_blocks(g.count); }), EST_BLOCK);
}

template <typename W> static int launch(const est_call *c, int64_t row_bytes)
{
    const est_view *table = &est_call_variable(c, 0)->value, *indices = c->in[1];
    int64_t         words = row_bytes / (int64_t)sizeof(W);
    gather<W> g = { est_data<W>(table),   indices->data,      est_data<W>(&c->out[0]),  indices->count * words, words,
                    est_row_count(table), est_reporter_of(c), indices->dtype == EST_I64 };

    return est_batch_add(c, launch_many<W>, g);
}

EST_DEFINE_LAUNCHER(resource_gather)
{
    const est_view *table = &est_call_variable(c, 0)->value;
    int64_t         bytes = est_row_size(table) * (int64_t)est_element_bytes(table->dtype);

    if (bytes % 16 == 0 && bytes > 0) return launch<uint4>(c, bytes);
    if (bytes % 4 == 0 && bytes > 0) return launch<uint32_t>(c, bytes);
    return bytes > 0 ? launch<uint8_t>(c, bytes) : 0;
}
