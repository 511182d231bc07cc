/* SPDX-License-Identifier: Apache-2.0
 *
 * The far device: what a GPU is to the runtime, without one. Its kernels are the CPU's; its memory is at addresses that
 * fault when the host touches them; a thread of its own runs what is enqueued, a little later. */
#ifndef EST_TESTS_FAR_DEVICE_H
#define EST_TESTS_FAR_DEVICE_H

#include "device/device.h"

/* Two of them, "/device:GPU:0" and "/device:GPU:1". */
extern const est_device *const est_far_devices[2];

/* With ESTOC_TEST_DEVICE=far the devices of this process are the CPU and these, of which sessions use the first by
 * default. Called by est_test_run. */
void est_far_device_use(void);

/* Whether they are. */
bool est_far_device_is_used(void);

/* Skips a cmocka test that looks at how the CPU runs a step: at its plan, its memory or its timeline. */
#define EST_CPU_ONLY()                                                                                                 \
    do {                                                                                                               \
        if (est_far_device_is_used()) skip();                                                                          \
    } while (0)

/* What the far devices have done so far, for tests of the runtime. */
typedef struct est_far_counts {
    int64_t opened;   /* queues that are open */
    int64_t blocks;   /* of memory, staging included, that are allocated */
    int64_t recorded; /* recordings that were made */
    int64_t replayed;
    int64_t single;   /* runs that were not recorded */
    int64_t launched; /* kernels that ran */
    int64_t sent;     /* bytes from the host in a queue */
    int64_t fetched;  /* bytes to the host in a queue */
} est_far_counts;
est_far_counts est_far_device_counts(void);

#endif
