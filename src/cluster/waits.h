/* SPDX-License-Identifier: Apache-2.0
 *
 * The waits under way in this process: who waits for whom, why and since when, for the status view.
 *
 * A step begins and ends one or two, so the table has a fixed size, copies what it is told and allocates nothing. A process may be
 * several tasks (tests are), so a wait names the one that waits.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_WAITS_H
#define EST_CLUSTER_WAITS_H

#include <stdint.h>

#define EST_WAITS_MAX 64 /* at once; more are not shown */

typedef struct est_wait {
    char    who[64], for_whom[64], why[128]; /* longer texts are cut */
    int64_t since_ns;                        /* est_now_ns() */
} est_wait;

/* `who` waits for `for_whom` from now on until est_wait_end is called with what this returns. */
int  est_wait_begin(const char *who, const char *for_whom, const char *why);
void est_wait_end(int wait);

/* Copies the waits of `who`, `max` of them at most; returns how many. */
int est_waits_of(const char *who, est_wait *out, int max);

#endif
