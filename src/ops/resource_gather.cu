/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceGather on a GPU: a thread copies a word of a row. A row that does not exist is reported. */
#include "cuda/launch.cuh"
#include "kernels/variable_access.h"

/* W: 16, 4 or 1 bytes; a row is `words` of them. */
template <typename W>
static __global__ void gather_words(const W *table, const void *indices, bool wide, W *out, int64_t count,
                                    int64_t words, int64_t rows, est_reporter reporter)
{
    int64_t i = est_thread(), at, row;

    if (i >= count) return;
    at  = i / words;
    row = est_index_at(indices, wide, at);
    if (row >= 0 && row < rows) {
        out[i] = table[row * words + i % words];
    } else if (i % words == 0) {
        est_report(reporter, at, row, 0);
    }
}

template <typename W> static int launch(const est_call *c, int64_t row_bytes)
{
    const est_view *table = &est_call_variable(c, 0)->value, *indices = c->in[1];
    int64_t         words = row_bytes / (int64_t)sizeof(W), count = indices->count * words;

    return est_launch(c, gather_words<W>, dim3(est_blocks(count)), EST_BLOCK, est_data<W>(table), indices->data,
                      indices->dtype == EST_I64, est_data<W>(&c->out[0]), count, words, est_row_count(table),
                      est_reporter_of(c));
}

EST_DEFINE_LAUNCHER(resource_gather)
{
    const est_view *table = &est_call_variable(c, 0)->value;
    int64_t         bytes = est_row_size(table) * (int64_t)est_element_bytes(table->dtype);

    if (bytes % 16 == 0 && bytes > 0) return launch<uint4>(c, bytes);
    if (bytes % 4 == 0 && bytes > 0) return launch<uint32_t>(c, bytes);
    return bytes > 0 ? launch<uint8_t>(c, bytes) : 0;
}
