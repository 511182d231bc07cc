/* SPDX-License-Identifier: Apache-2.0
 *
 * The waits under way in this process: who waits for whom, why and since when, for the status view and for the log.
 *
 * A step begins and ends one or two, so the table has a fixed size, copies what it is told and allocates nothing. A process may be
 * several tasks (tests are), so a wait names the one that waits. The log is told of a wait that has lasted long, and again
 * after each doubling.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_WAITS_H
#define EST_CLUSTER_WAITS_H

#include "net/net.h"

#define EST_WAITS_MAX        64   /* at once; more are not shown */
#define EST_WAIT_REPORT_SECS 10.0 /* for who has no better time to tell the log */

typedef struct est_wait {
    char    who[64], for_whom[64], why[128]; /* longer texts are cut */
    int64_t since_ns;                        /* est_now_ns() */
} est_wait;

/* One of them, for whoever waits. */
typedef struct est_waiting {
    const char *who, *for_whom, *why; /* borrowed until it ends */
    int64_t     since_ns;
    double      report_secs; /* above 0: the log is told when it has lasted so long; doubles each time */
    bool        reported;
    int         place; /* in the table; -1: it was full */
} est_waiting;

/* `who` waits for `for_whom` from now on until est_wait_end. */
est_waiting est_wait_begin(const char *who, const char *for_whom, const char *why, double report_secs);
void        est_wait_end(const est_waiting *w);

double est_wait_secs(const est_waiting *w); /* so far */

/* Tells the log when it is time to. `detail`: what was seen last, or "". To be called now and then. */
void est_wait_report(est_waiting *w, const char *detail);

/* est_ask_wait that reports. A signal ends it with EST_CANCELLED, `stop_secs` after it was seen; INFINITY: it does not. */
EST_MUST_CHECK est_status est_wait_answer(est_waiting *w, est_ask *ask, double stop_secs, est_message **answer);

/* Copies the waits of `who`, `max` of them at most; returns how many. */
int est_waits_of(const char *who, est_wait *out, int max);

#endif
