/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of steps that the host does not wait for: it enqueues up to EST_RUNS_AHEAD of them on a device, and looks at
 * results when somebody asks.
 *
 *   RA1  A plan runs ahead only if nothing in its host part depends on what its device part computes but the order: its
 *        results are fetched, not used, and the variables that the host part changes are few and small (global_step).
 *   RA2  When a run fails on the device, no variable there has been changed by it after the failure, nor by later runs
 *        (device/device.h). Those of the host are set back to before the run, and later runs never were.
 *   RA3  A watched value that is NaN (est_plan_watch) fails its run as RA2 says, but the run itself counts: as on the
 *        CPU, where the loss is looked at when the step is made.
 *   RA4  A failure is reported once: by the next function of the session that can fail. Whoever reads or writes
 *        variables, or runs something else, waits first. */
#ifndef EST_RUNTIME_RUN_AHEAD_H
#define EST_RUNTIME_RUN_AHEAD_H

#include "runtime/plan.h"

#define EST_RUNS_AHEAD 4

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* Finds out whether the plan may run ahead (RA1), and what of it: fills plan->ahead, or leaves it NULL. */
EST_MUST_CHECK est_status est_plan_find_ahead(est_plan *plan);

/* From now on fetch i, a float of a device, is watched (RA3). False: it is not one, or the plan does not run ahead. */
bool est_plan_watch(est_plan *plan, int fetch);

/* Whether the value of a fetch is still on its device (est_flights_look); after a run that was waited for none is. */
bool est_plan_is_unseen(const est_plan *plan, int fetch);
void est_plan_ran(const est_plan *plan);

/* --- runs in flight ----------------------------------------------------------------------------------------------- */

/* What has failed. */
typedef struct est_flight_failure {
    bool         failed; /* false: nothing has */
    bool         is_nan; /* RA3 */
    uint64_t     run;    /* that the session has to go on with */
    est_tensor **feeds;  /* [n_feeds]: of the run that has failed; references */
    int          n_feeds;
} est_flight_failure;

typedef struct est_flights est_flights;

EST_MUST_CHECK est_status est_flights_create(est_local_devices *devices, est_flights **out);
void                      est_flights_free(est_flights *flights); /* NULL is fine; after all plans */

/* A run of a plan with `ahead`, numbered by the caller: waits until there is room for it, keeps what RA2 needs and
 * references to the feeds, runs the host part and enqueues the rest. */
EST_MUST_CHECK est_status est_flights_run(est_flights *flights, est_plan *plan, const est_tensor *const *feeds,
                                          uint64_t run, uint64_t run_seed);

/* Waits for all runs. Reports a failure that was found before (RA4). */
EST_MUST_CHECK est_status est_flights_settle(est_flights *flights);

/* Brings the results of the last run of a plan to the host; false: it has failed, which is still to be reported. */
bool est_flights_look(est_flights *flights, est_plan *plan);

/* Of the failure that was reported last; borrowed until the next run, which forgets it. */
const est_flight_failure *est_flights_failure(const est_flights *flights);
void                      est_flights_forget(est_flights *flights);

#endif
