/* SPDX-License-Identifier: Apache-2.0
 *
 * Failed allocations at the coordinator, the status that it shows, and signals. */
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/signals.h"
#include "cluster/task_status.h"
#include "coordinator/coordinator.h"
#include "support/coordinator_test.h"
#include "support/fault_loop.h"
#include "support/log_test.h"

#define OPTIONS EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS)

/* Functions, datasets, iterators, values and calls; there is no worker, so that the test's allocations fail. */
static est_status use_all(coordinated *t, const est_dataset *dataset, est_tensor *x)
{
    est_function     *f    = NULL;
    est_per_worker   *rows = NULL, *batches = NULL, *each = NULL;
    est_remote_value *value  = NULL;
    est_status        status = est_coordinator_function(t->coordinator, "f", EST_NODES(t->x), EST_NODES(t->doubled),
                                                        EST_NODES(t->count), &f);

    if (status == EST_OK) status = est_coordinator_dataset(t->coordinator, dataset, NULL, &rows);
    if (status == EST_OK) status = est_per_worker_iterator(rows, &batches);
    if (status == EST_OK) status = est_coordinator_value(t->coordinator, EST_TENSORS(x), &each);
    if (status == EST_OK)
        status = est_coordinator_schedule(t->coordinator, f, EST_ARGUMENTS({ t->x, batches, "x" }), &value);
    if (status == EST_OK)
        status = est_coordinator_schedule(t->coordinator, f, EST_ARGUMENTS({ .node = t->x, .from = each }), NULL);
    est_function_free(f);
    est_per_worker_free(rows);
    est_per_worker_free(batches);
    est_per_worker_free(each);
    est_remote_value_free(value);
    return status;
}

TEST(failed_allocations)
{
    coordinated  t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_tensor  *x       = coordinated_tensor(1);
    est_dataset *dataset = NULL;

    assert_ok(
        est_dataset_finish(est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x })), 1, NULL), &dataset));
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_start(&t, OPTIONS);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = use_all(&t, dataset, x);
        if (!fault_end(&f)) assert_ok(status);
    }
    est_dataset_free(dataset);
    est_tensor_free(x);
    coordinated_end(&t);
}

TEST(failed_allocations_of_create)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    FAULT_LOOP(f, FAULT_PLACES, .depth = 2) {
        est_coordinator *c = NULL;
        est_status       status;

        fault_arm(&f);
        status = est_coordinator_create(t.strategy, t.graph, OPTIONS, &c);
        if (!fault_end(&f)) assert_ok(status);
        est_coordinator_free(c);
    }
    coordinated_end(&t);
}

/* --- status ------------------------------------------------------------------------------------------------------- */

TEST(status)
{
    coordinated     t    = coordinated_begin(1, 2, (est_worker_functions){ 0 });
    char           *text = NULL;
    est_json       *all;
    const est_json *own, *worker;

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 1));
    coordinated_start(&t, OPTIONS);
    coordinated_await_here(&t, 1);
    for (int i = 0; i < 7; i++) assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_server_status(t.coordinator->server, &text));
    all = json_loads(text, 0, NULL);
    own = json_object_get(all, "coordinator");
    assert_non_null(own);
    assert_int_equal(json_integer_value(json_object_get(own, "completed")), 7);
    assert_int_equal(json_integer_value(json_object_get(own, "queued")), 0);
    assert_int_equal(json_integer_value(json_object_get(own, "under_way")), 0);
    assert_int_equal(json_array_size(json_object_get(own, "workers")), 2);
    worker = json_array_get(json_object_get(own, "workers"), 0);
    assert_string_equal(json_string_value(json_object_get(worker, "task")), "worker:0");
    assert_true(json_is_true(json_object_get(worker, "here")));
    worker = json_array_get(json_object_get(own, "workers"), 1);
    assert_true(json_is_false(json_object_get(worker, "here")));
    assert_true(strlen(json_string_value(json_object_get(worker, "why"))) > 0);
    json_decref(all);
    est_free(text);
    coordinated_end(&t);
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

/* A signal ends a wait; the job is left to the next coordinator. */
TEST(signal_ends_wait)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    bool        done;

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_start(&t, OPTIONS);
    assert_ok(coordinated_schedule(&t, 1, NULL));
    est_signals_catch(); /* calls nest: a training beside it, which is not ended by the signal */
    assert_int_equal(raise(SIGTERM), 0);
    est_signals_release(EST_OK);
    assert_false(est_signals_told());
    assert_int_equal(est_coordinator_join(t.coordinator), EST_CANCELLED);
    assert_non_null(strstr(est_error_message(), "SIGTERM"));
    assert_int_equal(coordinated_schedule(&t, 1, NULL), EST_CANCELLED);
    assert_int_equal(est_coordinator_done(t.coordinator, &done), EST_CANCELLED);
    assert_true(est_signals_told());
    coordinated_stop(&t);
    assert_true(est_signals_told());
    assert_int_equal(est_stop_signal(), 0);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0)); /* ps:0 still serves */
    coordinated_start(&t, OPTIONS);
    assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 1);
    coordinated_end(&t);
}
