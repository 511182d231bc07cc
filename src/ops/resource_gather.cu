/* SPDX-License-Identifier: Apache-2.0
 *
 * ResourceGather on a GPU (cuda/lookups.cuh). Lookups of many tables are one launch (cuda/batch.cuh). */
#include "cuda/lookups.cuh"
#include "kernels/variable_access.h"

EST_DEFINE_LAUNCHER(resource_gather)
{
    const est_view *table = &est_call_variable(c, 0)->value, *indices = c->in[1];
    int64_t         row_bytes = est_row_size(table) * (int64_t)est_element_bytes(table->dtype);
    est_lookup_rows l         = {};

    if (row_bytes == 0) return 0;
    l.from     = est_data<char>(table);
    l.indices  = indices->data;
    l.to       = est_data<char>(&c->out[0]);
    l.bytes    = est_word_bytes(row_bytes, row_bytes, l.from, l.to);
    l.words    = row_bytes / l.bytes;
    l.count    = indices->count * l.words;
    l.rows     = est_row_count(table);
    l.step     = row_bytes;
    l.reporter = est_reporter_of(c);
    l.wide     = indices->dtype == EST_I64;
    return est_batch_add(c, est_lookup_launch, l);
}
