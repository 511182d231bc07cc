/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan looked at from outside: the invariants of runtime/plan.h, derived again from the plan's own items and views
 * and not from the numbers the planner noted while it worked.
 *
 *   whatever an item needs is made before it runs, and nothing touches a variable while it is written (P2, P5)
 *   no two results, nor a result and scratch, that are needed at the same time share a byte (P1, P5) */
#ifndef EST_TESTS_PLAN_CHECK_H
#define EST_TESTS_PLAN_CHECK_H

#include "runtime/plan.h"

/* What the plans checked so far have made use of: a test of nothing proves nothing. */
typedef struct plan_facts {
    int lanes;   /* stages that run in lanes */
    int inplace; /* results written over an input */
    int heap;    /* results whose size only the step knows */
    int copies;  /* aliases that had to be copies */
    int fused, dynamic;
} plan_facts;

/* Checks a plan that has run, inside a cmocka test; `label` says which in a failure. Adds to facts. */
void plan_check(const est_plan *plan, const char *label, plan_facts *facts);

#endif
