/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: admission control for training steps.
 *
 * The clock, the task that has the global step, keeps it. A worker asks for a turn before each step. It has the turn
 * until its step is counted, it asks again or it is gone. Turns are given in the order of requests, while
 *   G1  counted steps plus turns are below the limit: so training ends exactly at the limit, whatever the number of
 *       workers, and the turn of a lost worker goes to another;
 *   G2  no step under way is older than the staleness that was asked for, if any;
 *   G3  nobody holds the gate for a checkpoint.
 * A worker that asks after the last step is told that the job is finished.
 *
 * Bookkeeping only: the caller answers the requests. Threading: one thread at a time. */
#ifndef EST_CLUSTER_GATE_H
#define EST_CLUSTER_GATE_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct est_gate est_gate;

EST_MUST_CHECK est_status est_gate_create(est_gate **out);
void                      est_gate_free(est_gate *gate); /* NULL is fine; no request may be left */

typedef enum est_gate_answer { EST_GATE_BEGIN = 1, EST_GATE_FINISHED, EST_GATE_DROPPED } est_gate_answer;

/* `who` asks for a turn; est_gate_next returns `waiter`. This gives up an earlier turn or request of `who`, whose
 * waiter is returned as EST_GATE_DROPPED. limit, staleness: 0: none. */
EST_MUST_CHECK est_status est_gate_ask(est_gate *gate, const char *who, int64_t limit, int64_t staleness, void *waiter);

/* The next request that can be answered; false: none. Call it after every change. */
bool est_gate_next(est_gate *gate, void **waiter, est_gate_answer *answer);

/* Gives `who`, which has none, a turn if it would get one at once. Never with a staleness: a turn in advance would age,
 * and block others, while `who` saves, evaluates or runs hooks. */
bool est_gate_try(est_gate *gate, const char *who, int64_t limit, int64_t staleness);

bool est_gate_has_turn(const est_gate *gate, const char *who);

/* A step was counted: `who` (NULL: nobody) gives its turn back, and the global step is `step` now. */
void est_gate_count(est_gate *gate, const char *who, int64_t step);

/* Ends the request of `who`; ends its request and its turn. */
void est_gate_stop_waiting(est_gate *gate, const char *who);
void est_gate_leave(est_gate *gate, const char *who);

/* G3: gives no turn from hold until release. is_idle: nobody has a turn. */
void est_gate_hold(est_gate *gate);
void est_gate_release(est_gate *gate);
bool est_gate_is_idle(const est_gate *gate);
bool est_gate_is_held(const est_gate *gate);

/* Whether requests are answered with EST_GATE_FINISHED from now on. */
void est_gate_finish(est_gate *gate, bool finished);

/* Entry i of all turns and requests; false: there are no more. */
typedef struct est_gate_entry {
    const char *who;
    bool        waits;
    int64_t     begun_at; /* the global step when its turn began */
    int64_t     since_ns; /* est_now_ns() of the request, or of the turn */
    void       *waiter;   /* of the request */
} est_gate_entry;
bool est_gate_entry_at(const est_gate *gate, int i, est_gate_entry *out);

#endif
