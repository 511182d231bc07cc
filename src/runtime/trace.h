/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a step went: a record per item and run, written as a Chrome timeline or a table. A NULL trace or
 * one that has recorded enough costs a compare per item. */
#ifndef EST_RUNTIME_TRACE_H
#define EST_RUNTIME_TRACE_H

#include <stdio.h>

#include "base/clock.h"
#include "estoc/session.h"
#include "runtime/plan.h"

typedef struct est_span {
    int64_t start_ns, end_ns;
    int     thread; /* of the pool */
} est_span;

struct est_trace {
    int       runs_max, runs; /* wanted and complete */
    int32_t   n_steps;
    est_span *spans; /* [runs_max][n_steps] */
    est_span *whole; /* [runs_max] */
    bool      active;
};

/* Records the next `runs` runs of the plan. */
EST_MUST_CHECK est_status est_trace_start(est_plan *plan, int runs);
void                      est_trace_free(est_trace *trace);

EST_MUST_CHECK est_status est_trace_write_timeline(const est_plan *plan, const char *path,
                                                   const est_timeline_options *options);
void                      est_trace_report(const est_plan *plan, FILE *out);

/* Forgets what was recorded. */
static inline void est_trace_restart(est_trace *t)
{
    if (t != NULL) t->runs = 0;
}

/* Whether the next run will be recorded. */
static inline bool est_trace_is_on(const est_trace *t)
{
    return t != NULL && t->runs < t->runs_max;
}

static inline void est_trace_begin(est_trace *t)
{
    if (t == NULL || t->runs >= t->runs_max) return;
    t->active                  = true;
    t->whole[t->runs].start_ns = est_now_ns();
}

static inline int64_t est_trace_now(const est_trace *t)
{
    return t != NULL && t->active ? est_now_ns() : 0;
}

static inline void est_trace_item(est_trace *t, int32_t step, int64_t start, int thread)
{
    if (t == NULL || !t->active) return;
    t->spans[(int64_t)t->runs * t->n_steps + step] = (est_span){ start, est_now_ns(), thread };
}

static inline void est_trace_end(est_trace *t)
{
    if (t == NULL || !t->active) return;
    t->whole[t->runs++].end_ns = est_now_ns();
    t->active                  = false;
}

#endif
