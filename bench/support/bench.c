/* SPDX-License-Identifier: Apache-2.0 */
#include "support/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Between two windows: threads of other libraries go on polling for some milliseconds after their last work, and must
 * not do so on the next contestant's time. */
#define REST_NS 6000000

double bench_now_secs(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_window(bench_fn fn, void *arg, double window_secs)
{
    return bench_window_of(&(bench_contestant){ .fn = fn, .arg = arg }, window_secs);
}

double bench_window_of(const bench_contestant *c, double window_secs)
{
    double start = bench_now_secs(), now = start;
    long   n_calls = 0;
    long   burst   = 1; /* calls between two looks at the clock: grows until a look costs nothing beside them */

    do {
        double before = now;

        for (long i = 0; i < burst; i++) c->fn(c->arg);
        n_calls += burst;
        now = bench_now_secs();
        if (now - before < 5e-6) burst *= 2;
    } while (now - start < window_secs);
    if (c->end != NULL) {
        c->end(c->arg);
        now = bench_now_secs();
    }
    return (now - start) / (double)n_calls;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

bench_stats bench_summary(double *samples, int n_samples)
{
    qsort(samples, (size_t)n_samples, sizeof *samples, compare_doubles);
    return (bench_stats){ samples[n_samples / 2], samples[0], samples[n_samples - 1] };
}

void bench_run(bench_contestant *contestants, int n_contestants, int n_rounds, double window_secs)
{
    double *samples = malloc((size_t)(n_contestants * n_rounds) * sizeof *samples);

    if (samples == NULL) {
        fprintf(stderr, "bench: no memory for %d samples\n", n_contestants * n_rounds);
        exit(1);
    }
    for (int round = -1; round < n_rounds; round++) {
        for (int i = 0; i < n_contestants; i++) {
            bench_contestant *c = &contestants[i];

            if (c->fn == NULL) continue;
            nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
            if (round < 0) {
                bench_window_of(c, window_secs);
            } else {
                samples[i * n_rounds + round] = bench_window_of(c, window_secs);
            }
        }
    }
    for (int i = 0; i < n_contestants; i++) {
        if (contestants[i].fn != NULL) contestants[i].secs = bench_summary(samples + i * n_rounds, n_rounds);
    }
    free(samples);
}
