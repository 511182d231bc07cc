/* SPDX-License-Identifier: Apache-2.0 */
#include "support/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void bench_check(est_status status)
{
    if (status == EST_OK) return;
    (void)fprintf(stderr, "bench: %s: %s\n", est_status_name(status), est_error_message());
    exit(1);
}

double bench_cpu_secs(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Not getrusage: what that says of a process that was started by another one includes the other's memory. */
double bench_max_rss_mb(void)
{
    FILE *f  = fopen("/proc/self/status", "r");
    long  kb = 0;
    char  line[256];

    while (f != NULL && kb == 0 && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "VmHWM: %ld", &kb) != 1) kb = 0;
    }
    if (f != NULL) (void)fclose(f);
    return (double)kb / 1024;
}

bool bench_turn_wanted(int turns, int taken)
{
    char line[64];

    return turns > 0 ? taken < turns : fgets(line, sizeof line, stdin) != NULL;
}

void bench_turn_print(bench_turn turn)
{
    (void)printf("{\"amount\":%.0f,\"secs\":%.6f,\"waited_secs\":%.6f,\"cpu_secs\":%.6f}\n", turn.amount, turn.secs,
                 turn.waited_secs, turn.cpu_secs);
    (void)fflush(stdout);
}

void bench_take_turns(bench_turn_fn fn, void *arg, int turns)
{
    for (int i = 0; bench_turn_wanted(turns, i); i++) bench_turn_print(fn(arg));
    (void)printf("{\"max_rss_mb\":%.1f}\n", bench_max_rss_mb());
}
