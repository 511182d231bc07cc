/* SPDX-License-Identifier: Apache-2.0
 *
 * Timing for the benchmarks. One sample is the mean time of a call over a short window; many samples give a median with
 * its spread, which a busy machine disturbs less than a mean. Contestants are timed in turns, window by window, so that
 * whatever else the machine does meets all of them alike. */
#ifndef EST_BENCH_BENCH_H
#define EST_BENCH_BENCH_H

typedef void (*bench_fn)(void *arg);

typedef struct bench_stats {
    double median, min, max;
} bench_stats;

typedef struct bench_contestant {
    bench_fn    fn;  /* NULL: not here today, its stats stay zero */
    bench_fn    end; /* called before a window is over: waits for what fn has only begun; NULL: nothing is */
    void       *arg;
    bench_stats secs; /* of one call; filled by bench_run */
} bench_contestant;

double bench_now_secs(void);

/* Seconds per call of fn, called until window_secs are over (at least once). */
double bench_window(bench_fn fn, void *arg, double window_secs);

/* The same of a contestant, with its end. */
double bench_window_of(const bench_contestant *contestant, double window_secs);

/* Sorts the samples. */
bench_stats bench_summary(double *samples, int n_samples);

/* Times all contestants in n_rounds turns of window_secs each, after one unmeasured window, with a short rest
 * before each. */
void bench_run(bench_contestant *contestants, int n_contestants, int n_rounds, double window_secs);

#endif
