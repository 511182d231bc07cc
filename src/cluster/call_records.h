/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of calls that changed variables here, with their answers, so that a call changes each variable once, however
 * many attempts are made and by whichever workers.
 *
 *   CR1  A record has the number of the call and the fingerprint of the segment's bytes. Workers cut the same function
 *        into the same segments, so that a run of another attempt, or of a segment that was left and entered again, has
 *        the same key.
 *   CR2  A run and its record are made under host_lock: attempts that race are made one after the other, and the second
 *        is answered from memory.
 *   CR3  A record is freed when its call is over: completed, failed or cancelled. From then on runs of that call are
 *        refused, so no run is ever made without a look at the records that matter. A task that was restarted has no
 *        records, and a call that was given up leaves none, while a worker that only the coordinator cannot reach may
 *        still run them. So the coordinator tells the ps tasks which calls are over (ORIGIN): before it restores
 *        variables, before each checkpoint, and before the program gets the error of a call.
 *   CR4  Records are those of the highest origin. Runs of lower ones are refused: the variables were restored since
 *        those calls were scheduled, and an attempt of them would change a state that they do not belong to. So a
 *        coordinator sends ORIGIN to all ps tasks, and to one that was restarted, before it restores variables there.
 *   CR5  The number of records has no bound of its own, so none is dropped before its call is over. The coordinator
 *        bounds it: it hands out no call that is EST_CALL_WINDOW or more above the lowest one that is not over
 *        (coordinator/call_queue.c). A run of a call from `first` on finds its record, however old it is; one below is
 *        refused (CR3). Where memory for the record is out, the run is not made.
 *
 * Runs that only read are not remembered: a second attempt may see newer values. Neither are runs that failed, whose
 * calls are not tried again: the error is the function's. Threading: under host_lock. */
#ifndef EST_CLUSTER_CALL_RECORDS_H
#define EST_CLUSTER_CALL_RECORDS_H

#include "cluster/clients.h"

/* For ORIGIN, and for runs of calls that may be made twice: refuses a lower origin; a higher one frees all records.
 * Calls below `first` are over. */
EST_MUST_CHECK est_status est_call_records_set_origin(est_call_records *records, uint64_t origin, uint64_t first);

/* Whether a run of the call may be made. Frees the records of calls below `first`. */
EST_MUST_CHECK est_status est_call_records_admit(est_call_records *records, uint64_t origin, uint64_t call,
                                                 uint64_t first);

/* The record of a run; NULL: it was not made. */
const est_answered *est_call_records_find(const est_call_records *records, uint64_t call, uint64_t print);

/* Adds a record, which it takes: `by` is the fingerprint, `sequence` the call. */
void est_call_records_add(est_call_records *records, est_answered *run);

void est_call_records_clear(est_call_records *records);

#endif
