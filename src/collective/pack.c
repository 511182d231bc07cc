/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce of many tensors in few operations. A pack begins as soon as it is filled, so that it is sent while the
 * next is copied. */
#include <string.h>

#include "base/alloc.h"
#include "collective/collective.h"

/* Tensors from `first` down to `last`. */
typedef struct pack {
    int       first, last;
    size_t    count;
    uint8_t  *data; /* a copy; NULL: the one tensor itself */
    est_work *work;
} pack;

/* Divides the list, from the end; returns the number of packs. */
static int cut(const est_reduced *tensors, int n, size_t bytes_per_pack, pack *packs)
{
    int    n_packs = 0;
    size_t bytes   = 0;

    for (int i = n - 1; i >= 0; i--) {
        bool full  = bytes_per_pack > 0 && bytes > bytes_per_pack;
        bool other = i < n - 1 && tensors[i].dtype != tensors[i + 1].dtype;

        if (n_packs == 0 || full || other) {
            packs[n_packs++] = (pack){ .first = i };
            bytes            = 0;
        }
        packs[n_packs - 1].last = i;
        packs[n_packs - 1].count += tensors[i].count;
        bytes += tensors[i].count * est_dtype_size(tensors[i].dtype);
    }
    return n_packs;
}

static void copy(const pack *p, const est_reduced *tensors, bool in)
{
    uint8_t *at = p->data;

    for (int i = p->first; i >= p->last; i--) {
        size_t bytes = tensors[i].count * est_dtype_size(tensors[i].dtype);

        if (bytes > 0) memcpy(in ? at : tensors[i].data, in ? tensors[i].data : at, bytes);
        at += bytes;
    }
}

static est_status begin(est_rank_group *group, pack *p, const est_reduced *tensors, est_reduce_op reduction,
                        const est_collective_options *options)
{
    est_dtype dtype = tensors[p->first].dtype;
    void     *data  = tensors[p->first].data;

    if (p->first != p->last && p->count > 0) {
        p->data = est_alloc_aligned(p->count * est_dtype_size(dtype));
        if (p->data == NULL) {
            est_group_abort(group, "out of memory for a pack of gradients");
            return est_no_memory();
        }
        copy(p, tensors, true);
        data = p->data;
    }
    return est_all_reduce(group, data, p->count, dtype, reduction, options, &p->work);
}

est_status est_all_reduce_packed(est_rank_group *group, const est_reduced *tensors, int n, size_t bytes_per_pack,
                                 est_reduce_op reduction, const est_collective_options *options)
{
    pack      *packs  = n > 0 ? est_zalloc((size_t)n * sizeof *packs) : NULL;
    est_status status = EST_OK;
    est_error  error;
    int        n_packs;

    if (n == 0) return EST_OK;
    if (packs == NULL) {
        est_group_abort(group, "out of memory for packs of gradients");
        return est_no_memory();
    }
    n_packs = cut(tensors, n, bytes_per_pack, packs);
    for (int i = 0; i < n_packs && status == EST_OK; i++) status = begin(group, &packs[i], tensors, reduction, options);
    est_error_take(status, &error);
    for (int i = 0; i < n_packs; i++) {
        status = packs[i].work != NULL ? est_work_wait(packs[i].work) : EST_OK;
        if (error.status == EST_OK) est_error_take(status, &error);
        if (error.status == EST_OK && packs[i].data != NULL) copy(&packs[i], tensors, false);
        est_free_aligned(packs[i].data);
    }
    est_free(packs);
    return error.status == EST_OK ? EST_OK : est_error_raise(&error);
}
