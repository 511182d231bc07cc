/* SPDX-License-Identifier: Apache-2.0
 *
 * A device: its memory, the kernels of an op that run on it, and, for one that runs by itself, its queue.
 *
 * The CPU computes where a kernel is called, in the memory of the process. Another device has memory that the host
 * must not touch, and works through a queue: the host enqueues copies and launches, all of which run in that order, and
 * waits for a mark that it has set. What is enqueued between `begin` and `end` does not run but becomes a recording,
 * which `replay` enqueues as one, any number of times. A plan on such a device is recorded (runtime/record.c): the
 * addresses of its memory are constants.
 *
 * Failures of kernels: what a kernel finds wrong while it runs (an id out of range) is known later. From then on no
 * kernel of an op that writes variables changes anything, also in what was enqueued after it, until a `wait` reports
 * the failure: so the host may enqueue several runs ahead. est_error_word is how kernels of a GPU do that; a device
 * whose kernels are the CPU's has no need of it.
 *
 * Threading: a device, any thread; a queue and its recordings, one thread at a time. */
#ifndef EST_DEVICE_DEVICE_H
#define EST_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"
#include "estoc/tensor.h"

typedef struct est_device    est_device;
typedef struct est_queue     est_queue;     /* the device's own */
typedef struct est_recording est_recording; /* likewise */

struct est_op;     /* graph/op.h */
struct est_kernel; /* likewise */
struct est_call;   /* likewise */
struct est_node_def;

#define EST_SIDES 8

/* What a device does that runs by itself. Nothing here waits for it but `wait`, `close` and `drop`. */
typedef struct est_device_runs {
    EST_MUST_CHECK est_status (*open)(const est_device *device, est_queue **out);
    void (*close)(est_queue *queue); /* waits for what was enqueued; NULL is fine */

    /* One kernel of est_device.kernels. The call and what it points to are read before launch returns. */
    EST_MUST_CHECK est_status (*launch)(est_queue *queue, const struct est_kernel *kernel, const struct est_call *call);

    /* Within the device's memory. */
    EST_MUST_CHECK est_status (*copy)(est_queue *queue, void *to, const void *from, size_t bytes);

    /* From the host, never recorded. Memory of alloc_staging must stay as it is until a later mark is done; any other
     * has been read when send returns. */
    EST_MUST_CHECK est_status (*send)(est_queue *queue, void *to, const void *from, size_t bytes);

    /* To the host, into memory of alloc_staging, never recorded: there when a later mark is done. */
    EST_MUST_CHECK est_status (*fetch)(est_queue *queue, void *to, const void *from, size_t bytes);

    /* A recording: launch, copy and watch between begin and end. After a failure of one of them `end` is still called,
     * and fails. With `once` nothing is recorded: all runs as it comes, in a row, and *out of `end` is NULL. */
    EST_MUST_CHECK est_status (*begin)(est_queue *queue, bool once);
    EST_MUST_CHECK est_status (*end)(est_queue *queue, est_recording **out);
    EST_MUST_CHECK est_status (*replay)(est_queue *queue, est_recording *recording);
    void (*drop)(est_recording *recording); /* waits for its replays; NULL is fine */

    /* Between begin and end, once: when all of it is done, looks at a float32 or float64 of the device. NaN is a
     * failure of `node`: EST_ABORTED, which no kernel gives. What the recording itself has changed stays changed. */
    EST_MUST_CHECK est_status (*watch)(est_queue *queue, const void *value, bool is_double,
                                       const struct est_node_def *node);

    /* In a recording: what follows `fork` is split into n_lanes lanes that may run at the same time, each in its order;
     * `lane` chooses that of the next launches, from 0 up; `join` waits for all. NULL: one after the other. */
    EST_MUST_CHECK est_status (*fork)(est_queue *queue, int n_lanes);
    EST_MUST_CHECK est_status (*lane)(est_queue *queue, int lane);
    EST_MUST_CHECK est_status (*join)(est_queue *queue);

    /* In a recording, outside of forks: `aside` begins one of EST_SIDES side lanes, or goes on with it; the lane waits
     * for what was enqueued before, and what follows goes there; -1: back again. `meet` makes what follows wait for all
     * of a lane. Every lane is met before `end`. NULL: there are none. */
    EST_MUST_CHECK est_status (*aside)(est_queue *queue, int lane);
    EST_MUST_CHECK est_status (*meet)(est_queue *queue, int lane);

    /* A moment: when all that was enqueued before is done. Marks count up from 1; mark 0 is always done. */
    EST_MUST_CHECK est_status (*mark)(est_queue *queue, uint64_t *out);

    /* Waits until a mark is done. Fails when a kernel has failed before it, with the text of the CPU's kernel: *failed
     * is the node of that call (est_call.node), all that was enqueued until now is done and has changed no variable
     * since the failure, and the device can be used again. *failed is NULL when the device
     * itself fails: EST_INTERNAL. */
    EST_MUST_CHECK est_status (*wait)(est_queue *queue, uint64_t mark, const struct est_node_def **failed);
} est_device_runs;

/* Sums over processes, each with a device of its own, by a library of the device's maker (NCCL). All ranks call `sum`
 * for the same in the same order. `abort`: any thread, until close; the others: one thread at a time. */
typedef struct est_sum_group est_sum_group; /* the device's own */
typedef struct est_sum_work  est_sum_work;  /* likewise */

#define EST_SUM_ID_BYTES 128

typedef struct est_device_sums {
    const char *name; /* "NCCL" */

    /* Opens the library; fails with what is missing. id[EST_SUM_ID_BYTES]: of a new group, which one of its ranks makes
     * and all open; NULL: makes none. */
    EST_MUST_CHECK est_status (*make_id)(const est_device *device, void *id);

    /* Begins to open the group, for one of n ranks. */
    EST_MUST_CHECK est_status (*open)(const est_device *device, const void *id, int n, int rank, est_sum_group **out);

    /* Waits for a while, at most so long; *done: all n ranks have opened it. After a failure: abort, close. */
    EST_MUST_CHECK est_status (*opened)(est_sum_group *group, double secs, bool *done);
    void (*close)(est_sum_group *group); /* after all works; NULL is fine */

    /* Begins to replace `count` elements (F32, F64), in memory of the host, by their sums; `data` is in use until the
     * work has ended. */
    EST_MUST_CHECK est_status (*sum)(est_sum_group *group, void *data, size_t count, est_dtype dtype,
                                     est_sum_work **out);

    /* Waits for a while, at most so long; *done: the work has ended and is freed, as it is on failure. */
    EST_MUST_CHECK est_status (*wait)(est_sum_group *group, est_sum_work *work, double secs, bool *done);

    /* Returns at once: what is under way, and all that follows, fails with EST_ABORTED. */
    void (*abort)(est_sum_group *group);
} est_device_sums;

struct est_device {
    const char *kind;        /* "CPU", "GPU": as in "/device:GPU:0" */
    int         number;      /* from 0 up, of its kind */
    const char *description; /* "NVIDIA H200, compute capability 9.0" */
    size_t      alignment;   /* of everything that plans lay out in its memory; a power of two, 64 at least */

    /* The kernels of an op for this device, as EST_KERNELS lists them; NULL: none. NULL instead of the function: those
     * of the CPU (est_op_kernels, graph/op.h). */
    const struct est_kernel *(*kernels)(const struct est_op *op);

    /* Memory, aligned; NULL when there is none left. zalloc: all zeros. free accepts NULL, and waits for all that was
     * enqueued on the device, which may still use the memory. */
    void *(*alloc)(const est_device *device, size_t bytes);
    void *(*zalloc)(const est_device *device, size_t bytes);
    void (*free)(const est_device *device, void *p);

    /* Memory of the host that is copied fast to and from the device. */
    void *(*alloc_staging)(const est_device *device, size_t bytes);
    void (*free_staging)(const est_device *device, void *p);

    /* Done when they return, and ordered with nothing: the caller has waited for what touches the memory. */
    EST_MUST_CHECK est_status (*copy_in)(const est_device *device, void *to, const void *from, size_t bytes);
    EST_MUST_CHECK est_status (*copy_out)(const est_device *device, void *to, const void *from, size_t bytes);

    /* Bytes that are free and all there are. */
    void (*memory)(const est_device *device, size_t *free, size_t *total);

    /* From now on alloc and zalloc fail where more than so many bytes would be allocated at a time. NULL: never. */
    void (*limit)(const est_device *device, size_t bytes);

    const est_device_runs *runs; /* NULL: its memory is the process's own, and kernels compute where they are called */
    const est_device_sums *sums; /* NULL: none */
};

extern const est_device est_device_cpu;

/* --- failures on a GPU -------------------------------------------------------------------------------------------- */

/* One for each queue, in the device's memory. A kernel that finds something wrong takes the lock, and writes run, item,
 * place and values if nothing has failed yet or (run, item, place) is less than what has: the same failure is reported
 * whichever thread comes first. Kernels of ops that write variables return at once when `failed` is set. */
typedef struct est_error_word {
    uint32_t lock;
    uint32_t failed;
    uint64_t now;      /* the replay under way, counted by the device */
    uint64_t run;      /* `now` of the failure */
    int64_t  item;     /* est_call.item */
    int64_t  place;    /* in the op's own terms: which id */
    int64_t  value[2]; /* what was found there, for est_kernel.fail */
} est_error_word;

#endif
