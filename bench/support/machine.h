/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do at most, measured: multiply-adds per second and bytes per second to and from memory, with a
 * given number of threads. The floor that a training step is held against. */
#ifndef EST_BENCH_MACHINE_H
#define EST_BENCH_MACHINE_H

#include "base/pool.h"

typedef struct bench_machine {
    double flops;         /* float32 operations a second, a multiply-add counted as two */
    double bytes_per_sec; /* read plus written, arrays far larger than the caches */
} bench_machine;

/* The best of several short windows. */
bench_machine bench_machine_measure(est_pool *pool);

#endif
