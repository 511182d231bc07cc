/* SPDX-License-Identifier: Apache-2.0 */
#include "support/turns.h"

#include <stdio.h>
#include <stdlib.h>

void bench_check(est_status status)
{
    if (status == EST_OK) return;
    (void)fprintf(stderr, "bench: %s: %s\n", est_status_name(status), est_error_message());
    exit(1);
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

void bench_take_turns(bench_turn_fn fn, void *arg, int turns)
{
    char line[64];

    for (int i = 0; turns > 0 ? i < turns : fgets(line, sizeof line, stdin) != NULL; i++) {
        bench_turn turn = fn(arg);
        (void)printf("{\"amount\":%.0f,\"secs\":%.6f,\"waited_secs\":%.6f}\n", turn.amount, turn.secs,
                     turn.waited_secs);
        (void)fflush(stdout);
    }
    (void)printf("{\"max_rss_mb\":%.1f}\n", bench_max_rss_mb());
}
