/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a plan on a device that runs by itself (device/device.h): its inputs come from the host or lie on the device,
 * its items are recorded once for each set of shapes and then replayed, its outputs go to memory of the host. */
#ifndef EST_RUNTIME_RECORD_H
#define EST_RUNTIME_RECORD_H

#include "runtime/plan.h"

/* The recorder of a plan that is built: uploads its constants. options->queue is borrowed until the plan is freed. */
EST_MUST_CHECK est_status est_recorder_create(est_plan *plan, const est_plan_options *options);
void                      est_recorder_free(est_plan *plan); /* waits for the device */

/* From now on a fetch, a float, is watched when the plan has run (est_device_runs.watch). */
void est_recorder_watch(est_plan *plan, int fetch);

/* A value for a feed of the plan. */
typedef struct est_plan_input {
    const est_view   *view;
    const est_device *on; /* whose memory it is in; NULL: the host's */
} est_plan_input;

/* Enqueues a run with values for the plan's feeds. Those of the host have been read when it returns; those in the
 * device's memory stay as they are until the run is done. */
EST_MUST_CHECK est_status est_plan_start(est_plan *plan, const est_plan_input *in, uint64_t run_seed);

/* Where the plan's fetches will be when est_plan_bring was called and what it enqueues is done: in memory of the host,
 * until the next start. */
const est_view           *est_plan_expect(est_plan *plan);
EST_MUST_CHECK est_status est_plan_bring(est_plan *plan);

/* Brings the fetches and waits. After a failure nothing that came later in the step has changed a variable. */
EST_MUST_CHECK est_status est_plan_finish(est_plan *plan, const est_view **out);

#endif
