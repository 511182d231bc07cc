/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of every test of failures: its body runs with the first allocation (or fault point) failing, then with the
 * second, until it runs untouched.
 *
 *     FAULT_LOOP(f, FAULT_ALLOCATIONS) {
 *         est_status status;
 *
 *         (set up)
 *         fault_arm(&f);
 *         status = (what may fail);
 *         fault_check(&f, status);
 *         (clean up)
 *     }
 *
 * Leaks and wild accesses are for the sanitizers to find. One thread at a time. */
#ifndef EST_TESTS_FAULT_LOOP_H
#define EST_TESTS_FAULT_LOOP_H

#include <stdbool.h>

#include "base/fault.h"
#include "estoc/status.h"
#include "support/test.h"

typedef enum fault_kind {
    FAULT_ALLOCATIONS, /* each one in turn */
    FAULT_POINTS,      /* EST_FAULT_POINT, each one in turn; a build without them runs the body once */
    FAULT_PLACES,      /* of allocations with the same call stack only the first: for long bodies */
} fault_kind;

typedef struct fault_loop {
    fault_kind kind;
    int64_t    more_than; /* the test fails without more failures than this */
    int        depth;     /* of FAULT_PLACES: how many calls tell a place from others; 0: all of the stack */
    int64_t    n;         /* which one fails, from 1 on; FAULT_PLACES: 0 in the first run, which looks for the places */
    int64_t    failures;
    bool       started, armed, fired;
} fault_loop;

#define FAULT_LOOP(f, kind_, ...) for (fault_loop f = { .kind = (kind_), __VA_ARGS__ }; fault_next(&(f));)

/* Two loops, each over one kind: first the allocations fail, then the fault points. */
#define FAULT_LOOPS(f)                                                                                                 \
    for (fault_kind kind_ = FAULT_ALLOCATIONS; kind_ <= FAULT_POINTS; kind_++)                                         \
        FAULT_LOOP(f, kind_)

bool fault_next(fault_loop *f);

void fault_arm(fault_loop *f);

/* Disarms; whether something failed since fault_arm. */
bool fault_end(fault_loop *f);

/* fault_end, and a status that must be EST_OK if nothing failed. If something did: that of the kind,
 * EST_RESOURCE_EXHAUSTED or EST_UNKNOWN. */
void fault_check(fault_loop *f, est_status status);

/* The same where some failures do no harm, as in a line of the log. */
void fault_check_lenient(fault_loop *f, est_status status);

/* The whole loop of a body without a set-up. */
void fault_allocations(est_status (*body)(void));

#endif
