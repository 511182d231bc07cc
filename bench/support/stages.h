/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a traced step went, by what is done rather than by op, and the least that each could take: the bytes
 * that its kernels must read and write over the bandwidth of the machine, or their operations over its peak, whichever
 * is more. A row of a table counts as the cache lines it lies in. */
#ifndef EST_BENCH_STAGES_H
#define EST_BENCH_STAGES_H

#include "runtime/plan.h"
#include "support/machine.h"

typedef enum bench_stage {
    BENCH_HASH = 0, /* words and pairs of words to ids */
    BENCH_LOOKUP,   /* rows of tables, combined */
    BENCH_DENSE,    /* layers, their gradients and updates */
    BENCH_SPARSE,   /* gradients of rows, summed, and their updates */
    BENCH_OTHER,
    BENCH_N_STAGES
} bench_stage;

typedef struct bench_stages {
    int64_t runs;
    double  secs[BENCH_N_STAGES], floor_secs[BENCH_N_STAGES]; /* sums over runs */
    int     kernels[BENCH_N_STAGES];                          /* of one run */
    double  whole_secs;                                       /* from begin to end: threads work side by side */
} bench_stages;

extern const char *const bench_stage_names[BENCH_N_STAGES];

/* Adds what the plan's trace recorded; the data of its last run must still be there. */
void bench_stages_add(bench_stages *stages, const est_plan *plan, bench_machine machine);

#endif
