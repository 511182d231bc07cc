/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator over a cluster in this process, and a graph whose variables count its calls. */
#ifndef EST_TESTS_COORDINATOR_TEST_H
#define EST_TESTS_COORDINATOR_TEST_H

#include "estoc/coordinator.h"
#include "estoc/local_cluster.h"
#include "support/nn_test.h"

#define COORDINATOR_SECS 20.0 /* for what should be at once, on a busy machine */

typedef struct coordinated {
    est_local_cluster *cluster;
    est_strategy      *strategy;
    est_graph         *graph;
    est_coordinator   *coordinator;
    est_node           x;       /* [n] float32, fed */
    est_node           doubled; /* 2 x */
    est_node           calls;   /* a variable at each ps task, to which `count` adds 1; float64 */
    est_node           total;   /* and one to which it adds the sum of x */
    est_node           count;
    est_node           fails; /* an error, unless x is above 0 */
    est_function      *step;  /* of x: fetches `doubled`, runs `count` */
} coordinated;

/* The cluster, the strategy and the graph. */
coordinated coordinated_begin(int ps, int workers, est_worker_functions functions);

/* The coordinator, and the function `step`. */
void coordinated_start(coordinated *t, const est_coordinator_options *options);

/* Both, with defaults. */
coordinated coordinated_open(int ps, int workers);

void coordinated_stop(coordinated *t); /* the function and the coordinator, which leaves the tasks running */
void coordinated_end(coordinated *t);  /* all of it */
void coordinated_kill(coordinated *t); /* as stop, but as kill -9 does: its links break, and it tells nobody */

/* Schedules a call of `step` with x = { value }. out NULL: its value is not wanted. */
est_status coordinated_schedule(coordinated *t, double value, est_remote_value **out);

est_tensor *coordinated_tensor(double value); /* float32 [1] */

/* Of "calls_<i>" and "total_<i>", of ps task i. */
double coordinated_calls(coordinated *t, int ps);
double coordinated_total(coordinated *t, int ps);

/* Waits until `here` workers are connected, or so many losses were seen. */
void coordinated_await_here(const coordinated *t, int here);
void coordinated_await_losses(const coordinated *t, int64_t losses);
void coordinated_await_completed(const coordinated *t, int64_t completed);

#endif
