/* SPDX-License-Identifier: Apache-2.0
 *
 * prefetch_to_device: the elements of its input, pulled ahead by a thread that copies them to a device.
 *
 * Memory of a component is used again when its tensor goes, so that batches come at a few addresses only: a session
 * records a step for each (runtime/record.c), and freeing memory would wait for the device. A tensor goes when the step
 * that it was fed to is done (runtime/run_ahead.h). */
#include <inttypes.h>
#include <pthread.h>

#include "base/argument.h"
#include "base/thread.h"
#include "data/ahead.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "tensor/tensor.h"

#define AHEAD_MAX 1000 /* elements that a device has at once; more would be a mistake */

/* --- memory of the device ----------------------------------------------------------------------------------------- */

typedef struct block block;

/* Outlives the iterator while there are tensors in its blocks. */
typedef struct block_pool {
    const est_device *device;
    est_refcount      refs; /* of the iterator and of each block in use */
    pthread_mutex_t   lock; /* guards all below */
    block            *unused;
} block_pool;

struct block {
    block_pool *pool;
    block      *next;
    void       *data;
    size_t      capacity;
    int         component;
};

static void block_free(block *b, const est_device *device)
{
    device->free(device, b->data);
    est_free(b);
}

static void pool_drop(block_pool *pool)
{
    if (!est_refcount_drop(&pool->refs)) return;
    while (pool->unused != NULL) {
        block *b = pool->unused;

        pool->unused = b->next;
        block_free(b, pool->device);
    }
    pthread_mutex_destroy(&pool->lock);
    est_free(pool);
}

static est_status pool_create(const est_device *device, block_pool **out)
{
    block_pool *pool = est_zalloc(sizeof *pool);
    est_status  status;

    if (pool == NULL) return est_no_memory();
    pool->device = device;
    est_refcount_init(&pool->refs);
    status = est_lock_init(&pool->lock);
    if (status != EST_OK) {
        est_free(pool);
        return status;
    }
    *out = pool;
    return EST_OK;
}

/* An unused block of the component; NULL: there is none. */
static block *take_unused(block_pool *pool, int component)
{
    block *found = NULL;

    pthread_mutex_lock(&pool->lock);
    for (block **at = &pool->unused; *at != NULL && found == NULL; at = &(*at)->next) {
        if ((*at)->component != component) continue;
        found = *at;
        *at   = found->next;
        break;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

static est_status take_block(block_pool *pool, int component, size_t bytes, block **out)
{
    block *b = take_unused(pool, component);

    if (b != NULL && b->capacity < bytes) {
        block_free(b, pool->device);
        b = NULL;
    }
    if (b == NULL) {
        b = est_alloc(sizeof *b);
        if (b == NULL) return est_no_memory();
        *b = (block){ pool, NULL, pool->device->alloc(pool->device, bytes > 0 ? bytes : 1), bytes, component };
        if (b->data == NULL) {
            est_free(b);
            return est_fail(EST_RESOURCE_EXHAUSTED, "no memory left on the device %s:%d for %zu bytes",
                            pool->device->kind, pool->device->number, bytes);
        }
    }
    est_refcount_add(&pool->refs);
    *out = b;
    return EST_OK;
}

static void give_back(void *user)
{
    block      *b    = user;
    block_pool *pool = b->pool;

    pthread_mutex_lock(&pool->lock);
    b->next      = pool->unused;
    pool->unused = b;
    pthread_mutex_unlock(&pool->lock);
    pool_drop(pool);
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

typedef struct to_device {
    est_dataset       base;
    int64_t           n;
    const est_device *device;
} to_device;

typedef struct to_device_iter {
    est_ahead   ahead; /* first */
    block_pool *pool;
} to_device_iter;

/* Replaces the tensor by its copy. */
static est_status move_tensor(block_pool *pool, int component, est_tensor **tensor)
{
    const est_device *device = pool->device;
    size_t            bytes  = est_tensor_bytes(*tensor);
    est_tensor       *far;
    block            *b;
    est_status        status;

    EST_TRY(take_block(pool, component, bytes, &b));
    status = device->copy_in(device, b->data, est_tensor_data(*tensor), bytes);
    if (status == EST_OK) {
        status = est_tensor_wrap_far(device, est_tensor_dtype(*tensor), *est_tensor_shape(*tensor), b->data, give_back,
                                     b, &far);
    }
    if (status != EST_OK) {
        give_back(b);
        return status;
    }
    est_tensor_free(*tensor);
    *tensor = far;
    return EST_OK;
}

/* Integers may be shapes, or be looked up, and stay with the host, as splits of rows do. */
static bool goes_to_device(const est_component *component)
{
    return !component->ragged && component->dtype != EST_STRING && component->dtype != EST_I32 &&
           component->dtype != EST_I64;
}

static est_status to_device_pull(est_ahead *it, est_ahead_job *job)
{
    const est_dataset *dataset = it->base.dataset;
    block_pool        *pool    = ((to_device_iter *)it)->pool;
    est_status         status  = est_iter_next(it->base.input[0], job->out);

    EST_TRY(status);
    for (int i = 0; i < dataset->n_components && status == EST_OK; i++) {
        if (!goes_to_device(&dataset->components[i])) continue;
        status = move_tensor(pool, i, &job->out->field[i].values);
    }
    job->filled = status == EST_OK;
    if (!job->filled) est_element_clear(job->out->field, dataset->n_components);
    return status;
}

static est_status to_device_open(est_iter *it)
{
    const to_device     *own  = (const to_device *)it->dataset;
    const est_ahead_spec spec = {
        .name = "to device", .workers = 1, .capacity = own->n, .job_size = sizeof(est_ahead_job), .pull = to_device_pull
    };

    EST_TRY(pool_create(own->device, &((to_device_iter *)it)->pool));
    return est_ahead_open((est_ahead *)it, &spec);
}

static void to_device_close(est_iter *it)
{
    est_ahead_close(it);
    if (((to_device_iter *)it)->pool != NULL) pool_drop(((to_device_iter *)it)->pool);
}

static const est_stage stage = {
    .name      = "prefetch_to_device",
    .n_inputs  = 1,
    .iter_size = sizeof(to_device_iter),
    .open      = to_device_open,
    .close     = to_device_close,
    EST_AHEAD_FUNCTIONS,
    .passes   = true,
    .reorders = true,
    .last     = true,
};

est_dataset *est_dataset_prefetch_to_device(est_dataset *dataset, const char *device, int64_t n)
{
    to_device        *own = est_dataset_new(&stage, sizeof *own, dataset, NULL);
    const est_device *found;
    est_status        status;

    if (!est_dataset_sound(&own->base)) return &own->base;
    if (device == NULL) return est_dataset_fail(&own->base, est_fail(EST_INVALID_ARGUMENT, "the device is NULL"));
    if (n < 1 || n > AHEAD_MAX) {
        return est_dataset_fail(
            &own->base, est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " elements ahead; expected 1 to %d", n, AHEAD_MAX));
    }
    status = est_device_named(device, &found);
    if (status != EST_OK) return est_dataset_fail(&own->base, status);
    if (found->runs == NULL) { /* the CPU */
        est_dataset *plain = est_dataset_prefetch(est_dataset_ref(dataset), n);

        est_dataset_free(&own->base);
        return plain;
    }
    own->n      = n;
    own->device = found;
    return est_dataset_like(&own->base, dataset);
}
