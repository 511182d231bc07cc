/* SPDX-License-Identifier: Apache-2.0
 *
 * The waits under way in this process, for the status view and the log: who waits for whom, why and since when.
 *
 * A step begins and ends one or two waits, so the table has a fixed size, copies its texts and allocates nothing. A
 * process may be several tasks (in tests), so a wait names the task that waits.
 *
 * A waiting thread calls est_wait_report about every second. A wait is logged after 10 seconds or a quarter of its
 * limit, then at growing intervals of at most 30 seconds. From 10 seconds on it is a warning, which --quiet does not
 * hide.
 *
 * Threading: any thread. */
#ifndef EST_CLUSTER_WAIT_TABLE_H
#define EST_CLUSTER_WAIT_TABLE_H

#include "net/net.h"

#define EST_WAITS_MAX        64   /* size of the table; further waits are not shown */
#define EST_WAIT_REPORT_SECS 10.0 /* before the first log message */
#define EST_WAIT_AGAIN_SECS  30.0 /* longest interval between log messages */

typedef struct est_wait {
    char    who[64], for_whom[64], why[128]; /* truncated */
    int64_t since_ns;                        /* est_now_ns() */
} est_wait;

/* A wait, held by the thread that waits. */
typedef struct est_waiting {
    const char *who, *for_whom, *why; /* borrowed until it ends */
    int64_t     since_ns;
    double      limit_secs;  /* INFINITY: none */
    const char *then;        /* what follows the limit; NULL: "gives up" */
    double      report_secs; /* when the next log message is due */
    bool        reported;
    /* For est_wait_answer; NULL: none. `check` is asked every half second, and its failure ends the wait; `look` writes
     * a detail for a log message that is due. */
    est_status (*check)(void *user);
    void (*look)(void *user, char *detail, size_t size);
    void *user;
    int   place; /* in the table; -1: not in it */
} est_waiting;

/* `who` waits for `for_whom` from now until est_wait_end, at most `limit_secs`. */
est_waiting est_wait_begin(const char *who, const char *for_whom, const char *why, double limit_secs);
void        est_wait_set_why(est_waiting *w, const char *why); /* the reason has changed */
void        est_wait_end(const est_waiting *w);

/* A wait for the log only, not in the table. */
est_waiting est_wait_make(const char *who, const char *for_whom, const char *why, double limit_secs);

double est_wait_secs(const est_waiting *w); /* so far */

/* Logs the wait when that is due. `detail`: the last observation, or "". */
void est_wait_report(est_waiting *w, const char *detail);
bool est_wait_is_due(const est_waiting *w); /* whether a log message is due */

/* When the next message is due, after one at `secs`. */
double est_wait_next_secs(double report_secs, double secs);

/* est_ask_wait that reports. A signal ends it with EST_CANCELLED, `stop_secs` later; INFINITY: it does not. */
EST_MUST_CHECK est_status est_wait_answer(est_waiting *w, est_ask *ask, double stop_secs, est_message **answer);

/* Copies at most `max` waits of `who`; returns how many. */
int est_waits_of(const char *who, est_wait *out, int max);

#endif
