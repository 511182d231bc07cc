/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of calls: chains by the low bits of the call's number, so that the records of consecutive calls are freed
 * without a search. */
#include "cluster/call_records.h"

#include <inttypes.h>

#include "base/alloc.h"

static est_answered **chain_of(est_call_records *records, uint64_t call)
{
    return &records->chains[call % EST_CALL_CHAINS];
}

static void free_below(est_call_records *records, est_answered **at, uint64_t first)
{
    while (*at != NULL) {
        est_answered *run = *at;

        if (run->sequence >= first) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        est_answered_free(run);
        records->n--;
    }
}

static void advance(est_call_records *records, uint64_t first)
{
    uint64_t n = first - records->first;

    if (first <= records->first) return;
    if (n > EST_CALL_CHAINS) n = EST_CALL_CHAINS;
    for (uint64_t i = 0; i < n && records->n > 0; i++) free_below(records, chain_of(records, first - 1 - i), first);
    records->first = first;
}

est_status est_call_records_set_origin(est_call_records *records, uint64_t origin, uint64_t first)
{
    if (origin < records->origin) {
        return est_fail(EST_ABORTED, "a newer coordinator has replaced this one: %016" PRIx64 " is before %016" PRIx64,
                        origin, records->origin);
    }
    if (origin > records->origin) est_call_records_clear(records);
    records->origin = origin;
    advance(records, first);
    return EST_OK;
}

est_status est_call_records_admit(est_call_records *records, uint64_t origin, uint64_t call, uint64_t first)
{
    if (first > call) {
        return est_fail(EST_INVALID_ARGUMENT, "call %" PRIu64 " is below the first call that is not over, %" PRIu64,
                        call, first);
    }
    EST_TRY(est_call_records_set_origin(records, origin, first));
    if (call >= records->first) return EST_OK;
    return est_fail(EST_ABORTED, "call %" PRIu64 " is over: another attempt of it has completed, or it was given up",
                    call);
}

const est_answered *est_call_records_find(const est_call_records *records, uint64_t call, uint64_t print)
{
    const est_answered *run = records->chains[call % EST_CALL_CHAINS];

    while (run != NULL && (run->sequence != call || run->by != print)) run = run->next;
    return run;
}

void est_call_records_add(est_call_records *records, est_answered *run)
{
    est_answered **chain = chain_of(records, run->sequence);

    run->next = *chain;
    *chain    = run;
    records->n++;
}

void est_call_records_clear(est_call_records *records)
{
    for (uint64_t i = 0; i < EST_CALL_CHAINS && records->n > 0; i++)
        free_below(records, &records->chains[i], UINT64_MAX);
    *records = (est_call_records){ 0 };
}
