/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of a plan on a device that runs by itself (device/device.h): its inputs come from the host, its items are
 * recorded once for each set of shapes and then replayed, its outputs go to memory of the host. */
#ifndef EST_RUNTIME_RECORD_H
#define EST_RUNTIME_RECORD_H

#include "runtime/plan.h"

/* The recorder of a plan that is built: uploads its constants. The queue is borrowed until the plan is freed. */
EST_MUST_CHECK est_status est_recorder_create(est_plan *plan, est_queue *queue);
void                      est_recorder_free(est_plan *plan); /* waits for the device */

/* Starts a run with values for the plan's feeds, which have been read when it returns. */
EST_MUST_CHECK est_status est_plan_start(est_plan *plan, est_view *const *in, uint64_t run_seed);

/* Waits for it. *out: the plan's fetches, in memory of the host until the next start. After a failure nothing that came
 * later in the step has changed a variable. */
EST_MUST_CHECK est_status est_plan_finish(est_plan *plan, const est_view **out);

#endif
