/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of waits. A wait takes the first free place, nearly always one at the start of the table. */
#include "cluster/wait_table.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"

#define SLICE_SECS 0.5 /* between two looks at the clock */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `table` */
static est_wait        table[EST_WAITS_MAX];             /* since_ns 0: free */

static void wait_copy(char *to, size_t max, const char *text)
{
    size_t size = strnlen(text, max - 1);

    memcpy(to, text, size);
    to[size] = '\0';
}

est_waiting est_wait_make(const char *who, const char *for_whom, const char *why, double limit_secs)
{
    assert(limit_secs > 0);
    return (est_waiting){ .who         = who,
                          .for_whom    = for_whom,
                          .why         = why,
                          .since_ns    = est_now_ns(),
                          .limit_secs  = limit_secs,
                          .report_secs = fmin(EST_WAIT_REPORT_SECS, limit_secs / 4),
                          .place       = -1 };
}

est_waiting est_wait_begin(const char *who, const char *for_whom, const char *why, double limit_secs)
{
    est_waiting w = est_wait_make(who, for_whom, why, limit_secs);
    int         i = 0;

    pthread_mutex_lock(&lock);
    while (i < EST_WAITS_MAX && table[i].since_ns != 0) i++;
    if (i < EST_WAITS_MAX) {
        wait_copy(table[i].who, sizeof table[i].who, who);
        wait_copy(table[i].for_whom, sizeof table[i].for_whom, for_whom);
        wait_copy(table[i].why, sizeof table[i].why, why);
        table[i].since_ns = w.since_ns != 0 ? w.since_ns : 1;
        w.place           = i;
    }
    pthread_mutex_unlock(&lock);
    return w;
}

void est_wait_set_why(est_waiting *w, const char *why)
{
    w->why = why;
    if (w->place < 0) return;
    pthread_mutex_lock(&lock);
    wait_copy(table[w->place].why, sizeof table[w->place].why, why);
    pthread_mutex_unlock(&lock);
}

void est_wait_end(const est_waiting *w)
{
    if (w->place < 0) return;
    pthread_mutex_lock(&lock);
    table[w->place].since_ns = 0;
    pthread_mutex_unlock(&lock);
}

double est_wait_secs(const est_waiting *w)
{
    return (double)(est_now_ns() - w->since_ns) / (double)EST_NS_PER_SEC;
}

bool est_wait_is_due(const est_waiting *w)
{
    return est_wait_secs(w) >= w->report_secs;
}

double est_wait_next_secs(double report_secs, double secs)
{
    while (report_secs <= secs) report_secs += fmin(report_secs, EST_WAIT_AGAIN_SECS);
    return report_secs;
}

void est_wait_report(est_waiting *w, const char *detail)
{
    double        secs  = est_wait_secs(w);
    est_log_level level = secs < EST_WAIT_REPORT_SECS ? EST_LOG_INFO : EST_LOG_WARN;
    char          until[96];

    if (secs < w->report_secs) return;
    if (isfinite(w->limit_secs)) {
        snprintf(until, sizeof until, "%s after %g s", w->then != NULL ? w->then : "gives up", w->limit_secs);
    } else {
        snprintf(until, sizeof until, "without a limit");
    }
    EST_LOG_AT(level, "%s has waited %.0f s for %s: %s%s%s; %s", w->who, secs, w->for_whom, w->why,
               detail[0] != '\0' ? "; " : "", detail, until);
    w->report_secs = est_wait_next_secs(w->report_secs, secs);
    w->reported    = true;
}

/* Ends an ask with the last error. */
static est_status end_ask(est_ask *ask, est_status status)
{
    est_message *answer = NULL;
    est_error    error;

    est_error_take(status, &error);
    est_ask_give_up(ask, error.message);
    if (est_ask_wait(ask, &answer) == EST_OK) est_message_free(answer);
    return est_error_raise(&error);
}

est_status est_wait_answer(est_waiting *w, est_ask *ask, double stop_secs, est_message **answer)
{
    double end_secs = INFINITY;

    while (!est_ask_await(ask, SLICE_SECS)) {
        double     secs        = est_wait_secs(w);
        est_status status      = w->check != NULL ? w->check(w->user) : EST_OK;
        char       detail[320] = "";

        if (status != EST_OK) return end_ask(ask, status);
        if (w->look != NULL && est_wait_is_due(w)) w->look(w->user, detail, sizeof detail);
        est_wait_report(w, detail);
        if (est_stop_signal() != 0) end_secs = fmin(end_secs, secs + stop_secs);
        if (secs >= end_secs) est_ask_give_up(ask, est_stop_signal_name());
    }
    return est_ask_wait(ask, answer);
}

int est_waits_of(const char *who, est_wait *out, int max)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < EST_WAITS_MAX && n < max; i++) {
        if (table[i].since_ns != 0 && strcmp(table[i].who, who) == 0) out[n++] = table[i];
    }
    pthread_mutex_unlock(&lock);
    return n;
}
