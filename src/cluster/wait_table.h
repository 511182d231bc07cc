/* SPDX-License-Identifier: Apache-2.0
 *
 * The waits under way in this process: who waits for whom, why and since when, for the status view and for the log.
 *
 * A step begins and ends one or two, so the table has a fixed size, copies what it is told and allocates nothing. A process may be
 * several tasks (tests are), so a wait names the one that waits.
 *
 * Whoever waits calls est_wait_report, every second or so. A wait is in the log after 10 seconds or a quarter of its limit, then at
 * growing distances of at most 30 seconds: who waits for whom, since when, why, and until when. From 10 seconds on it is a warning,
 * which --quiet does not hide.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_WAIT_TABLE_H
#define EST_CLUSTER_WAIT_TABLE_H

#include "net/net.h"

#define EST_WAITS_MAX        64   /* at once; more are not shown */
#define EST_WAIT_REPORT_SECS 10.0 /* before the log is told first */
#define EST_WAIT_AGAIN_SECS  30.0 /* between two times that it is told, at most */

typedef struct est_wait {
    char    who[64], for_whom[64], why[128]; /* longer texts are cut */
    int64_t since_ns;                        /* est_now_ns() */
} est_wait;

/* One of them, for whoever waits. */
typedef struct est_waiting {
    const char *who, *for_whom, *why; /* borrowed until it ends */
    int64_t     since_ns;
    double      limit_secs;  /* after which it ends; INFINITY: none */
    const char *then;        /* what follows then; NULL: "gives up" */
    double      report_secs; /* above 0: the log is told when it has lasted so long */
    bool        reported;
    int         place; /* in the table; -1: it was full, or the wait is not shown */
} est_waiting;

/* `who` waits for `for_whom` from now on until est_wait_end, for `limit_secs` at most. */
est_waiting est_wait_begin(const char *who, const char *for_whom, const char *why, double limit_secs);
void        est_wait_set_why(est_waiting *w, const char *why); /* it goes on for another reason */
void        est_wait_end(const est_waiting *w);

/* The same of a wait that is not in the table: for the log alone. */
est_waiting est_wait_make(const char *who, const char *for_whom, const char *why, double limit_secs);

double est_wait_secs(const est_waiting *w); /* so far */

/* Tells the log when it is time to. `detail`: what was seen last, or "". To be called every second or so. */
void est_wait_report(est_waiting *w, const char *detail);
bool est_wait_is_due(const est_waiting *w); /* whether it is time to */

/* When the log is told next, after it was told at `secs` or before. */
double est_wait_next_secs(double report_secs, double secs);

/* est_ask_wait that reports. A signal ends it with EST_CANCELLED, `stop_secs` after it was seen; INFINITY: it does not. */
EST_MUST_CHECK est_status est_wait_answer(est_waiting *w, est_ask *ask, double stop_secs, est_message **answer);

/* Copies the waits of `who`, `max` of them at most; returns how many. */
int est_waits_of(const char *who, est_wait *out, int max);

#endif
