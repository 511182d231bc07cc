/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate: a list of requests and turns in the order of the requests. A job has hundreds of workers at most, so lists
 * are scanned. */
#include "cluster/gate.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define NAME_MAX 64

typedef struct entry {
    char    who[NAME_MAX];
    bool    waits;
    bool    dropped; /* the waiter has to be told */
    int64_t limit, staleness, begun_at, since_ns;
    void   *waiter;
} entry;

struct est_gate {
    entry  *entries;
    int     n, max;
    int64_t step;
    int     holds;
    bool    finished;
};

est_status est_gate_create(est_gate **out)
{
    est_gate *gate = est_zalloc(sizeof *gate);

    if (gate == NULL) return est_no_memory();
    *out = gate;
    return EST_OK;
}

void est_gate_free(est_gate *gate)
{
    if (gate == NULL) return;
    est_free(gate->entries);
    est_free(gate);
}

static int gate_find(const est_gate *gate, const char *who)
{
    for (int i = 0; i < gate->n; i++) {
        if (!gate->entries[i].dropped && strcmp(gate->entries[i].who, who) == 0) return i;
    }
    return -1;
}

static void gate_remove(est_gate *gate, int i)
{
    gate->n--;
    memmove(&gate->entries[i], &gate->entries[i + 1], sizeof *gate->entries * (size_t)(gate->n - i));
}

void est_gate_leave(est_gate *gate, const char *who)
{
    int i = gate_find(gate, who);

    if (i < 0) return;
    if (gate->entries[i].waits) {
        gate->entries[i].dropped = true;
    } else {
        gate_remove(gate, i);
    }
}

static est_status gate_add(est_gate *gate, entry e, const char *who)
{
    if (gate->n == gate->max) {
        int    max  = gate->max == 0 ? 16 : 2 * gate->max;
        entry *more = est_realloc(gate->entries, sizeof *more * (size_t)max);

        if (more == NULL) return est_no_memory();
        gate->entries = more;
        gate->max     = max;
    }
    snprintf(e.who, sizeof e.who, "%s", who);
    e.since_ns               = est_now_ns();
    gate->entries[gate->n++] = e;
    return EST_OK;
}

est_status est_gate_ask(est_gate *gate, const char *who, int64_t limit, int64_t staleness, void *waiter)
{
    est_gate_leave(gate, who);
    return gate_add(gate, (entry){ .waits = true, .limit = limit, .staleness = staleness, .waiter = waiter }, who);
}

static int64_t turns(const est_gate *gate)
{
    int64_t n = 0;

    for (int i = 0; i < gate->n; i++) n += !gate->entries[i].waits;
    return n;
}

/* G2 */
static bool is_fresh(const est_gate *gate, int64_t staleness)
{
    for (int i = 0; staleness > 0 && i < gate->n; i++) {
        const entry *e = &gate->entries[i];

        if (!e->waits && gate->step - e->begun_at >= staleness) return false;
    }
    return true;
}

static bool is_finished(const est_gate *gate, const entry *e)
{
    return gate->finished || (e->limit > 0 && gate->step >= e->limit);
}

static bool may_begin(const est_gate *gate, const entry *e)
{
    if (gate->holds > 0 || !is_fresh(gate, e->staleness)) return false;
    return e->limit <= 0 || gate->step + turns(gate) < e->limit; /* G1 */
}

bool est_gate_next(est_gate *gate, void **waiter, est_gate_answer *answer)
{
    for (int i = 0; i < gate->n; i++) {
        entry *e = &gate->entries[i];

        if (!e->waits) continue;
        *waiter = e->waiter;
        if (e->dropped || is_finished(gate, e)) {
            *answer = e->dropped ? EST_GATE_DROPPED : EST_GATE_FINISHED;
            gate_remove(gate, i);
            return true;
        }
        if (may_begin(gate, e)) {
            e->waits    = false;
            e->begun_at = gate->step;
            e->since_ns = est_now_ns();
            *answer     = EST_GATE_BEGIN;
            return true;
        }
    }
    return false;
}

/* Waiting requests come first. */
bool est_gate_try(est_gate *gate, const char *who, int64_t limit, int64_t staleness)
{
    entry e = { .limit = limit, .begun_at = gate->step };

    if (staleness > 0) return false;
    for (int i = 0; i < gate->n; i++) {
        if (gate->entries[i].waits) return false;
    }
    return !is_finished(gate, &e) && may_begin(gate, &e) && gate_add(gate, e, who) == EST_OK;
}

bool est_gate_has_turn(const est_gate *gate, const char *who)
{
    int i = gate_find(gate, who);

    return i >= 0 && !gate->entries[i].waits;
}

void est_gate_count(est_gate *gate, const char *who, int64_t step)
{
    gate->step = step;
    if (who != NULL && est_gate_has_turn(gate, who)) gate_remove(gate, gate_find(gate, who));
}

void est_gate_stop_waiting(est_gate *gate, const char *who)
{
    if (!est_gate_has_turn(gate, who)) est_gate_leave(gate, who);
}

void est_gate_hold(est_gate *gate)
{
    gate->holds++;
}

void est_gate_release(est_gate *gate)
{
    if (gate->holds > 0) gate->holds--;
}

bool est_gate_is_idle(const est_gate *gate)
{
    return turns(gate) == 0;
}

bool est_gate_is_held(const est_gate *gate)
{
    return gate->holds > 0;
}

void est_gate_finish(est_gate *gate, bool finished)
{
    gate->finished = finished;
}

bool est_gate_entry_at(const est_gate *gate, int i, est_gate_entry *out)
{
    if (i >= gate->n) return false;
    *out = (est_gate_entry){ gate->entries[i].who, gate->entries[i].waits, gate->entries[i].begun_at,
                             gate->entries[i].since_ns, gate->entries[i].waiter };
    return true;
}
