/* SPDX-License-Identifier: Apache-2.0
 *
 * shard: the elements whose number modulo the number of shards is the shard's. Files: at least one for every shard. */
#include "data/shard_stage.h"

#include <inttypes.h>

#include "data/encode.h"
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

static est_status shard_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const shard *own = (const shard *)dataset;

    est_state_put(w, (const int64_t[]){ own->n, own->own, dataset->stage != &est_stage_shard }, 3);
    return EST_OK;
}

static est_dataset *shard_decode(const est_encoded *from)
{
    return from->number[2] != 0 ? est_dataset_shard_files(from->input[0], from->number[0], from->number[1])
                                : est_dataset_shard(from->input[0], from->number[0], from->number[1]);
}

const est_stage est_stage_shard = {
    .name      = "shard",
    .n_inputs  = 1,
    .iter_size = sizeof(shard_iter),
    .next      = shard_next,
    .save      = shard_save,
    .restore   = shard_restore,
    .passes    = true,
    .counts    = true,
    .encode    = shard_encode,
    .decode    = shard_decode,
};

/* Checks that there are at least as many elements as shards, and restarts the input. */
static est_status shard_files_open(est_iter *it)
{
    const shard *all      = (const shard *)it->dataset;
    int          n_fields = it->dataset->n_components;
    int64_t      bad_rows = *it->bad_rows, n = 0; /* skipped rows are read again */
    est_status   status = EST_OK;
    est_element *path   = est_element_new(n_fields);

    if (path == NULL) return est_no_memory();
    status = est_iter_open_input(it, 0, it->turn);
    while (status == EST_OK && n < all->n) {
        status = est_iter_next(it->input[0], path);
        est_element_clear(path->field, n_fields);
        if (status == EST_OK) n++;
    }
    est_element_free(path, n_fields);
    *it->bad_rows = bad_rows;
    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%" PRId64 " files for %" PRId64
                        " workers, and each must read its own files: provide at least %" PRId64
                        " files, or divide the rows with EST_AUTO_SHARD_DATA",
                        n, all->n, all->n);
    }
    return status == EST_OK ? est_iter_open_input(it, 0, it->turn) : status;
}

static const est_stage shard_files_stage = {
    .name      = "shard",
    .n_inputs  = 1,
    .iter_size = sizeof(shard_iter),
    .open      = shard_files_open,
    .next      = shard_next,
    .save      = shard_save,
    .restore   = shard_restore,
    .passes    = true,
    .counts    = true,
    .encode    = shard_encode,
    .decode    = shard_decode,
};

static est_dataset *shard_create(const est_stage *stage, est_dataset *dataset, int64_t n, int64_t number)
{
    shard *own = est_dataset_new(stage, sizeof *own, dataset, NULL);

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (n < 1 || number < 0 || number >= n) {
        return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT,
                                                     "shard %" PRId64 " of %" PRId64
                                                     "; shards are numbered from 0 to below their number",
                                                     number, n));
    }
    own->n   = n;
    own->own = number;
    return est_dataset_like(&own->base, dataset);
}

est_dataset *est_dataset_shard(est_dataset *dataset, int64_t n_shards, int64_t shard_number)
{
    return shard_create(&est_stage_shard, dataset, n_shards, shard_number);
}

est_dataset *est_dataset_shard_files(est_dataset *paths, int64_t n, int64_t number)
{
    return shard_create(&shard_files_stage, paths, n, number);
}
