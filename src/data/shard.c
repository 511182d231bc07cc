/* SPDX-License-Identifier: Apache-2.0
 *
 * shard: the elements whose number modulo the number of shards is the shard's. */
#include <inttypes.h>

#include "data/state.h"

typedef struct shard {
    est_dataset base;
    int64_t     n, own;
} shard;

typedef struct shard_iter {
    est_iter base;
    int64_t  at; /* number of the next element, modulo n */
} shard_iter;

static est_status shard_next(est_iter *it, est_element *out)
{
    shard_iter  *iter = (shard_iter *)it;
    const shard *all  = (const shard *)it->dataset;

    for (;;) {
        bool mine = iter->at == all->own;

        EST_TRY(est_iter_next(it->input[0], out));
        iter->at = iter->at + 1 == all->n ? 0 : iter->at + 1;
        if (mine) return EST_OK;
        est_element_clear(out->field, all->base.n_components);
    }
}

static est_status shard_save(est_iter *it, est_wire_writer *w)
{
    est_state_put(w, &((shard_iter *)it)->at, 1);
    return EST_OK;
}

static est_status shard_restore(est_iter *it, est_str state)
{
    const shard *all = (const shard *)it->dataset;
    int64_t      at;

    EST_TRY(est_state_parse(it, state, &at, 1));
    if (at >= all->n) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "it was saved at shard %" PRId64 ", and the dataset has %" PRId64 " shards", at, all->n);
    }
    ((shard_iter *)it)->at = at;
    return EST_OK;
}

static const est_stage shard_stage = {
    .name      = "shard",
    .n_inputs  = 1,
    .iter_size = sizeof(shard_iter),
    .next      = shard_next,
    .save      = shard_save,
    .restore   = shard_restore,
};

est_dataset *est_dataset_shard(est_dataset *dataset, int64_t n_shards, int64_t shard_number)
{
    shard *own = est_dataset_new(&shard_stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n_shards < 1 || shard_number < 0 || shard_number >= n_shards) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT,
                                                     "shard %" PRId64 " of %" PRId64
                                                     "; shards are numbered from 0 to below their number",
                                                     shard_number, n_shards));
    }
    own->n   = n_shards;
    own->own = shard_number;
    return est_dataset_like(&own->base, dataset);
}
