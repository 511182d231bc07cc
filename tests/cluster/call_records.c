/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of calls: found by call and segment, freed when calls are over, refused when they are old. */
#include "cluster/call_records.h"

#include <string.h>

#include "base/alloc.h"
#include "cluster/calls.h"
#include "support/fault_loop.h"
#include "support/message_test.h"
#include "support/nn_test.h"

static void add(est_call_records *records, uint64_t call, uint64_t print)
{
    est_answered *run = est_zalloc(sizeof *run);

    assert_non_null(run);
    run->sequence = call;
    run->by       = print;
    est_call_records_add(records, run);
}

TEST(found)
{
    est_call_records records = { 0 };

    assert_ok(est_call_records_admit(&records, 1, 3, 1));
    add(&records, 3, 100);
    add(&records, 3, 101);
    add(&records, 3 + EST_CALL_CHAINS, 100); /* of the same chain */
    assert_int_equal(est_call_records_find(&records, 3, 101)->by, 101);
    assert_int_equal(est_call_records_find(&records, 3 + EST_CALL_CHAINS, 100)->sequence, 3 + EST_CALL_CHAINS);
    assert_null(est_call_records_find(&records, 4, 100));
    assert_null(est_call_records_find(&records, 3, 102));
    assert_ok(est_call_records_admit(&records, 1, 9, 4));
    assert_null(est_call_records_find(&records, 3, 100));
    assert_int_equal(records.n, 1);
    assert_int_equal(est_call_records_admit(&records, 1, 3, 1), EST_ABORTED);
    assert_ok(est_call_records_admit(&records, 1, 4, 1)); /* an old `first` changes nothing */
    est_call_records_clear(&records);
}

/* `first` may be any number: records are freed in bounded time. */
TEST(far)
{
    est_call_records records = { 0 };

    assert_ok(est_call_records_set_origin(&records, 1, 0));
    for (uint64_t call = 1; call <= 3 * EST_CALL_CHAINS; call++) add(&records, call, 7);
    assert_ok(est_call_records_admit(&records, 1, 2 * EST_CALL_CHAINS + 5, 2 * EST_CALL_CHAINS + 5));
    assert_int_equal(records.n, EST_CALL_CHAINS - 4);
    assert_ok(est_call_records_admit(&records, 1, UINT64_MAX, UINT64_MAX - 1));
    assert_int_equal(records.n, 0);
}

/* However many there are (CR5): the oldest is found while its call is not over, and refused from then on. */
TEST(none_is_dropped)
{
    est_call_records records = { 0 };
    uint64_t         n       = 40 * EST_CALL_CHAINS;

    assert_ok(est_call_records_set_origin(&records, 1, 1));
    for (uint64_t call = 1; call <= n; call++) {
        assert_ok(est_call_records_admit(&records, 1, call, 1));
        add(&records, call, 7);
    }
    assert_int_equal(records.n, n);
    assert_ok(est_call_records_admit(&records, 1, 1, 1));
    assert_non_null(est_call_records_find(&records, 1, 7));
    assert_ok(est_call_records_admit(&records, 1, n, 2)); /* the oldest is over */
    assert_int_equal(est_call_records_admit(&records, 1, 1, 1), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "call 1 is over"));
    assert_non_null(est_call_records_find(&records, 2, 7));
    est_call_records_clear(&records);
}

TEST(origins)
{
    est_call_records records = { 0 };

    assert_ok(est_call_records_admit(&records, 5, 3, 3));
    add(&records, 3, 7);
    assert_int_equal(est_call_records_admit(&records, 4, 9, 9), EST_ABORTED);
    assert_int_equal(est_call_records_admit(&records, 5, 3, 4), EST_INVALID_ARGUMENT);
    assert_int_equal(records.n, 1);
    assert_ok(est_call_records_admit(&records, 6, 1, 1)); /* numbers begin again */
    assert_int_equal(records.n, 0);
    assert_ok(est_call_records_set_origin(&records, 6, 0));
    assert_int_equal(est_call_records_set_origin(&records, 5, 0), EST_ABORTED);
    assert_ok(est_call_records_set_origin(&records, 6, 8)); /* calls below 8 are over, also those without a record */
    assert_ok(est_call_records_set_origin(&records, 6, 2));
    assert_int_equal(est_call_records_admit(&records, 6, 7, 1), EST_ABORTED);
    assert_ok(est_call_records_admit(&records, 6, 8, 1));
}

TEST(arguments_without_memory)
{
    est_packing  packing = { 0 };
    est_blocks  *blocks  = NULL;
    est_message *message = NULL;
    est_payload  payload;

    est_call_request_put(&(est_call_request){ .call = 1, .function = 1 }, false, &packing);
    for (int i = 0; i < 20; i++) est_call_argument_put(&(est_call_argument){ .feed = i }, &packing);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_blocks_create(&blocks));
    assert_ok(message_make(blocks, payload, &message));
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_call_arguments arguments = { 0 };
        est_status         status;

        fault_arm(&f);
        status = est_call_arguments_read(message, &arguments);
        fault_check(&f, status);
        if (status == EST_OK) assert_int_equal(arguments.data[19].feed, 19);
        est_call_arguments_clear(&arguments);
    }
    est_message_free(message);
    est_blocks_free(blocks);
    est_packing_clear(&packing);
}
