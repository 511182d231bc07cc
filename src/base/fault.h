/* SPDX-License-Identifier: Apache-2.0
 *
 * Fault points: places where a test can make the library fail on purpose.
 *
 * Code asks `if (EST_FAULT_POINT("ckpt.rename")) <fail as if the rename had>`. In ordinary builds the answer is a
 * constant false and the question costs nothing; with -DEST_FAULT_POINTS=1 every question is counted and a test can
 * make the n-th one come out true. Allocation failures need no such build: est_fault_arm_alloc works always.
 *
 * A test loops over n = 1, 2, 3, ...: arm, run the body, stop when est_fault_fired() says that the body had fewer than
 * n points. Any thread may hit a point; arming is for one thread at a time, while the code under test is quiet. */
#ifndef EST_BASE_FAULT_H
#define EST_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
#define EST_FAULT_POINT(name) est_fault_hit(name)
#else
#define EST_FAULT_POINT(name) false
#endif

/* Makes the n-th fault point hit from now on fail, once; 0: none. Resets the hit count. */
void est_fault_arm(int64_t n);

/* Makes the n-th allocation from now on return NULL, once; 0: none. */
void est_fault_arm_alloc(int64_t n);

/* Calls `seen` at every allocation from now on, in the thread that makes it, with whether it fails; NULL: no longer. */
void est_fault_watch_alloc(void (*seen)(bool fails));

/* Fault points hit since the last est_fault_arm. */
int64_t est_fault_hits(void);

/* Whether an armed point or allocation has failed since the last arming of either kind. */
bool est_fault_fired(void);

/* The name of the fault point that failed last; "" when none did. */
const char *est_fault_name(void);

/* Called by EST_FAULT_POINT and the allocator: true when this point must fail. `name` is a string literal. */
bool est_fault_hit(const char *name);
bool est_fault_hit_alloc(void);

#endif
