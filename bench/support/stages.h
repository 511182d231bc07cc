/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a traced step went, by what is done rather than by op, and the least that each could take: the
 * bytes that its kernels must read and write over the bandwidth of the machine, or their operations over its peak,
 * whichever is more. A row of a table counts as the cache lines it lies in. */
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

#define BENCH_RUNS_MAX 256

typedef struct bench_stages {
    int    runs;
    double secs[BENCH_N_STAGES][BENCH_RUNS_MAX];
    double whole_secs[BENCH_RUNS_MAX]; /* from begin to end: threads work side by side */
    double floor_secs[BENCH_N_STAGES]; /* of the last run, as all below */
    int    kernels[BENCH_N_STAGES];
} bench_stages;

extern const char *const bench_stage_names[BENCH_N_STAGES];

/* Adds the run that the plan's trace recorded last; its data must still be there. No more than BENCH_RUNS_MAX. */
void bench_stages_add(bench_stages *stages, const est_plan *plan, bench_machine machine);

#endif
