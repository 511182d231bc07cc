/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions, checkpoints and values of variables of a coordinator. Threading: by the thread that has the session. */
#ifndef EST_COORDINATOR_RECOVERY_H
#define EST_COORDINATOR_RECOVERY_H

#include "coordinator/coordinator.h"

/* Tells the ps tasks the origin, and that calls below the oldest one are over: runs of them are refused, which workers
 * that this coordinator cannot reach may still make. Not under `lock`. */
EST_MUST_CHECK est_status est_coordinator_tell_origin(est_coordinator *c);

/* A new session over the ps tasks, which are told the origin. */
EST_MUST_CHECK est_status est_coordinator_open_session(est_coordinator *c);

/* At the start: gives all variables the values of the newest checkpoint, or initial ones, and writes the first
 * checkpoint if there is none. */
EST_MUST_CHECK est_status est_coordinator_start_variables(est_coordinator *c);

/* While no call is under way. */
EST_MUST_CHECK est_status est_coordinator_write_checkpoint(est_coordinator *c, int64_t epoch);

/* Gives the variables of lost ps tasks the values of the newest checkpoint. EST_UNAVAILABLE: one is lost again. */
EST_MUST_CHECK est_status est_coordinator_recover(est_coordinator *c);

#endif
