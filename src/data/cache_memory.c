/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache in memory. Every iterator that begins before a pass is complete collects for itself; the first that comes to
 * the end gives its elements to the dataset, for all iterators that begin later. */
#include <inttypes.h>
#include <string.h>

#include "base/thread.h"
#include "data/cache.h"
#include "data/element_list.h"
#include "data/encode.h"

typedef struct kept {
    est_element_list elements; /* shared tensors; the paths of their origins are of `paths` */
    est_pass        *paths;
} kept;

typedef struct cache_memory {
    est_dataset     base;
    pthread_mutex_t lock; /* guards `whole` until it is set; what it points to never changes */
    bool            has_lock;
    kept           *whole; /* NULL: no pass is complete yet */
} cache_memory;

typedef struct memory_iter {
    est_cache_iter base;
    const kept    *whole;   /* to hand out; NULL: */
    kept          *filling; /* elements read from the input so far */
    const char    *path;    /* of the last element's origin, */
    const char    *copy;    /* and in the other pass */
} memory_iter;

static void kept_free(kept *all)
{
    if (all == NULL) return;
    est_element_list_clear(&all->elements);
    est_pass_free(all->paths);
    est_free(all);
}

static est_status kept_create(int n_fields, kept **out)
{
    kept      *all = est_zalloc(sizeof *all);
    est_status status;

    if (all == NULL) return est_no_memory();
    est_element_list_init(&all->elements, n_fields);
    status = est_pass_create(&all->paths);
    if (status != EST_OK) {
        est_free(all);
        return status;
    }
    *out = all;
    return EST_OK;
}

static est_status memory_open(est_iter *it)
{
    memory_iter  *iter = (memory_iter *)it;
    cache_memory *own  = (cache_memory *)(uintptr_t)it->dataset; /* only the lock and the data it guards change */

    pthread_mutex_lock(&own->lock);
    iter->whole = own->whole;
    pthread_mutex_unlock(&own->lock);
    if (iter->whole != NULL) return EST_OK;
    EST_TRY(kept_create(it->dataset->n_components, &iter->filling));
    return est_iter_open(it->dataset->input[0], it->pass, it->bad_rows, EST_CACHE_TURN, &iter->base.input);
}

static void memory_close(est_iter *it)
{
    memory_iter *iter = (memory_iter *)it;

    est_iter_close(iter->base.input);
    kept_free(iter->filling);
}

/* Shares `from` into `to`; the path of its origin is copied into `pass`, unless it is the one before. */
static est_status share_into(memory_iter *iter, est_pass *pass, est_element *to, const est_element *from)
{
    const char *path = from->origin.path;

    if (path != NULL && path != iter->path) {
        const char *copy = est_pass_intern(pass, path, strlen(path));

        if (copy == NULL) return est_no_memory();
        iter->path = path;
        iter->copy = copy;
    }
    est_element_share(to, from, iter->base.base.dataset->n_components);
    if (path != NULL) to->origin.path = iter->copy;
    return EST_OK;
}

static est_status keep(memory_iter *iter, const est_element *element)
{
    est_element *room = est_element_list_room(&iter->filling->elements);

    if (room == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(share_into(iter, iter->filling->paths, room, element));
    est_element_list_push(&iter->filling->elements);
    return EST_OK;
}

/* The pass is complete: gives its elements to the dataset, unless another iterator was first. */
static void hand_over(memory_iter *iter)
{
    cache_memory *own = (cache_memory *)(uintptr_t)iter->base.base.dataset;

    pthread_mutex_lock(&own->lock);
    if (own->whole == NULL) {
        own->whole    = iter->filling;
        iter->filling = NULL;
    }
    pthread_mutex_unlock(&own->lock);
}

static est_status memory_next(est_iter *it, est_element *out)
{
    memory_iter *iter = (memory_iter *)it;
    est_status   status;

    if (iter->whole != NULL) {
        if (iter->base.at == iter->whole->elements.n) return EST_OUT_OF_RANGE;
        EST_TRY(share_into(iter, it->pass, out, est_element_list_at(&iter->whole->elements, iter->base.at)));
        iter->base.at++;
        return EST_OK;
    }
    status = est_iter_next(iter->base.input, out);
    if (status == EST_OUT_OF_RANGE) hand_over(iter);
    if (status != EST_OK) return status;
    status = keep(iter, out);
    if (status != EST_OK) {
        est_element_clear(out->field, it->dataset->n_components);
        return status;
    }
    iter->base.at++;
    return EST_OK;
}

static void memory_free(est_dataset *dataset)
{
    cache_memory *own = (cache_memory *)dataset;

    kept_free(own->whole);
    if (own->has_lock) pthread_mutex_destroy(&own->lock);
}

static est_dataset *memory_copy(const est_dataset *dataset, est_dataset *input, const char *suffix)
{
    (void)dataset;
    (void)suffix;
    return est_cache_memory(input);
}

const est_stage est_stage_cache = {
    .name      = "cache",
    .n_inputs  = 1,
    .iter_size = sizeof(memory_iter),
    .open      = memory_open,
    .next      = memory_next,
    .close     = memory_close,
    .save      = est_cache_save,
    .restore   = est_cache_restore,
    .free      = memory_free,
    .copy      = memory_copy,
    .passes    = true,
    .reorders  = true,
    .decode    = est_cache_decode,
};

est_dataset *est_cache_memory(est_dataset *dataset)
{
    cache_memory *own = est_dataset_new(&est_stage_cache, sizeof *own, dataset, NULL);
    est_status    status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    status = est_lock_init(&own->lock);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    own->has_lock = true;
    return est_dataset_like(&own->base, dataset);
}
