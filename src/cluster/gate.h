/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: who may begin a training step.
 *
 * The task that has the global step keeps it. A worker asks for a turn before each step and has it until its step was counted, it
 * asks again or it is gone. Turns are given in the order they were asked for, while
 *   G1  steps counted plus turns out are below the limit: so the global step ends at the limit exactly, however many workers
 *       there are, and a turn that was lost with its worker is given to another;
 *   G2  no step under way is older than the staleness that was asked for (when one was);
 *   G3  nobody holds the gate for a checkpoint.
 * A worker that asks when all steps were counted is told that the job is finished.
 *
 * Only bookkeeping: the caller answers those whose waiting ended. Threading: one thread at a time. */
#ifndef EST_CLUSTER_GATE_H
#define EST_CLUSTER_GATE_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct est_gate est_gate;

EST_MUST_CHECK est_status est_gate_create(est_gate **out);
void                      est_gate_free(est_gate *gate); /* NULL is fine; nobody may wait any more */

typedef enum est_gate_answer { EST_GATE_BEGIN = 1, EST_GATE_FINISHED, EST_GATE_DROPPED } est_gate_answer;

/* `who` asks to begin a step; `waiter` comes back from est_gate_next. A turn or a wait that it had before is given up (that
 * waiter comes back as EST_GATE_DROPPED). limit, staleness: 0: none. */
EST_MUST_CHECK est_status est_gate_ask(est_gate *gate, const char *who, int64_t limit, int64_t staleness, void *waiter);

/* Those who need wait no longer, one by one; false: all others must. To be called after every change. */
bool est_gate_next(est_gate *gate, void **waiter, est_gate_answer *answer);

/* A turn for `who`, who has none, if it need not wait for one. With a staleness it asks when it begins: a turn that it had before
 * would age, and others would wait, while it saves, evaluates or runs hooks. */
bool est_gate_try(est_gate *gate, const char *who, int64_t limit, int64_t staleness);

bool est_gate_has_turn(const est_gate *gate, const char *who);

/* The step was counted: `who` (NULL: nobody in particular) gives its turn back, and this is the global step now. */
void est_gate_count(est_gate *gate, const char *who, int64_t step);

/* It waits no longer; a turn that it has stays its own. And: it is gone, with its turn and its wait. */
void est_gate_stop_waiting(est_gate *gate, const char *who);
void est_gate_leave(est_gate *gate, const char *who);

/* Nobody begins from now on until release. est_gate_is_idle: no turn is out. */
void est_gate_hold(est_gate *gate);
void est_gate_release(est_gate *gate);
bool est_gate_is_idle(const est_gate *gate);
bool est_gate_is_held(const est_gate *gate);

/* Whether whoever asks is told from now on that the job is finished. */
void est_gate_finish(est_gate *gate, bool finished);

/* Entry i of all that have a turn or wait; false: there are no more. */
typedef struct est_gate_entry {
    const char *who;
    bool        waits;
    int64_t     begun_at; /* the global step when its turn began */
    int64_t     since_ns; /* est_now_ns() when it began to wait, or got its turn */
    void       *waiter;   /* while it waits */
} est_gate_entry;
bool est_gate_entry_at(const est_gate *gate, int i, est_gate_entry *out);

#endif
