/* SPDX-License-Identifier: Apache-2.0
 *
 * EstSortIds on a GPU: cuda/sort.cu. */
#include "cuda/sort.cuh"

EST_DEFINE_LAUNCHER(sort_ids)
{
    est_sort s = {};

    s.ids    = c->in[0]->data;
    s.wide   = c->in[0]->dtype == EST_I64;
    s.n      = c->in[0]->count;
    s.key[0] = est_data<uint64_t>(&c->out[0]);
    s.key[1] = (uint64_t *)c->scratch;
    return est_batch_add(c, est_sort_launch, s, (size_t)s.n * sizeof(uint64_t));
}
