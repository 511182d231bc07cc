/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of GPUs, of several threads and of several GPUs. Runs on the stand-in with two GPUs (cuda_gpu_queues in
 * ctest), or on a machine with a GPU, where what needs a second one is left out. */
#include <string.h>

#include "base/thread.h"
#include "device/devices.h"
#include "support/nn_test.h"
#include "support/test.h"

#define BYTES      4096
#define RECORDINGS 200
#define COPIES     500 /* of a recording */

static const est_device *gpu(int number)
{
    return est_device_find("GPU", number);
}

static est_queue *open_queue(const est_device *device)
{
    est_queue *queue;

    assert_ok(device->runs->open(device, &queue));
    return queue;
}

/* To the GPU and back, by its queue. */
static void send_and_fetch(const est_device *device, est_queue *queue, void *far, unsigned char *back, int filled)
{
    unsigned char              here[BYTES];
    const struct est_node_def *failed;
    uint64_t                   mark;

    memset(here, filled, sizeof here);
    assert_ok(device->runs->send(queue, far, here, sizeof here));
    assert_ok(device->runs->fetch(queue, back, far, sizeof here));
    assert_ok(device->runs->mark(queue, &mark));
    assert_ok(device->runs->wait(queue, mark, &failed));
    assert_memory_equal(back, here, sizeof here);
}

/* One thread has the queues of two GPUs, and nothing but their use says which of them comes next. */
TEST(two_gpus)
{
    est_queue     *queues[2];
    void          *far[2];
    unsigned char *back[2];

    assert_non_null(gpu(0));
    if (gpu(1) == NULL) skip();
    for (int i = 0; i < 2; i++) {
        queues[i] = open_queue(gpu(i));
        far[i]    = gpu(i)->alloc(gpu(i), BYTES);
        back[i]   = gpu(i)->alloc_staging(gpu(i), BYTES);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) send_and_fetch(gpu(i), queues[i], far[i], back[i], 10 * round + i + 1);
    }
    for (int i = 0; i < 2; i++) {
        gpu(i)->free(gpu(i), far[i]);
        gpu(i)->free_staging(gpu(i), back[i]);
        gpu(i)->runs->close(queues[i]);
    }
}

typedef struct freeing {
    pthread_mutex_t lock; /* guards ends */
    bool            ends;
} freeing;

static bool has_ended(freeing *f)
{
    bool ends;

    pthread_mutex_lock(&f->lock);
    ends = f->ends;
    pthread_mutex_unlock(&f->lock);
    return ends;
}

static void *free_blocks(void *arg)
{
    while (!has_ended(arg)) gpu(0)->free(gpu(0), gpu(0)->alloc(gpu(0), BYTES));
    return NULL;
}

/* To free memory is to wait for the GPU, which ends the recordings of other threads if it comes between. */
TEST(memory_is_freed_beside_a_recording)
{
    est_queue    *queue = open_queue(gpu(0));
    unsigned char fresh[BYTES], *far = gpu(0)->alloc(gpu(0), 2 * BYTES);
    freeing       other = { .lock = PTHREAD_MUTEX_INITIALIZER };
    est_thread    thread;

    memset(fresh, 7, sizeof fresh);
    assert_ok(gpu(0)->copy_in(gpu(0), far, fresh, sizeof fresh));
    assert_ok(est_thread_start(&thread, "frees", free_blocks, &other));
    for (int i = 0; i < RECORDINGS; i++) {
        est_recording *recording;

        assert_ok(gpu(0)->runs->begin(queue, false));
        for (int k = 0; k < COPIES; k++) assert_ok(gpu(0)->runs->copy(queue, far + BYTES, far, BYTES));
        assert_ok(gpu(0)->runs->end(queue, &recording));
        assert_ok(gpu(0)->runs->replay(queue, recording));
        gpu(0)->runs->drop(recording);
    }
    pthread_mutex_lock(&other.lock);
    other.ends = true;
    pthread_mutex_unlock(&other.lock);
    est_thread_join(&thread);
    gpu(0)->free(gpu(0), far);
    gpu(0)->runs->close(queue);
}
