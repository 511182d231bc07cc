/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets, iterators and values of which every worker has its own. */
#include "base/clock.h"
#include "support/coordinator_test.h"
#include "support/data_test.h"

#define OPTIONS EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS)

/* Elements { "x": [1] float32 } with 0, 1, ... n - 1, `times` times over. */
static est_dataset *numbers(int n, int64_t times)
{
    float        values[64];
    est_tensor  *tensor  = NULL;
    est_dataset *dataset = NULL;

    assert_true(n <= 64);
    for (int i = 0; i < n; i++) values[i] = (float)i;
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(n, 1), values, &tensor));
    assert_ok(est_dataset_finish(est_dataset_repeat(est_dataset_slices(EST_NAMED_TENSORS({ "x", tensor })), times),
                                 &dataset));
    est_tensor_free(tensor);
    return dataset;
}

static est_status schedule_from(coordinated *t, const est_per_worker *from, const char *component, int n)
{
    for (int i = 0; i < n; i++)
        EST_TRY(est_coordinator_schedule(t->coordinator, t->step, EST_ARGUMENTS({ t->x, from, component }), NULL));
    return est_coordinator_join(t->coordinator);
}

/* Each worker has the whole dataset; with .shard its part. */
TEST(datasets)
{
    coordinated     t       = coordinated_begin(1, 2, (est_worker_functions){ 0 });
    est_dataset    *dataset = numbers(10, EST_FOREVER), *once = numbers(10, 1);
    est_per_worker *rows = NULL, *batches = NULL, *parts = NULL;

    coordinated_start(&t, OPTIONS);
    coordinated_await_here(&t, 2);
    assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_ok(schedule_from(&t, batches, "x", 40));
    assert_true(coordinated_calls(&t, 0) == 40);
    est_per_worker_free(batches);
    est_per_worker_free(rows);

    assert_ok(est_coordinator_dataset(t.coordinator, once, EST_PER_WORKER(.shard = true), &rows));
    assert_ok(est_per_worker_iterator(rows, &parts));
    est_per_worker_free(rows); /* the iterator keeps it */
    est_dataset_free(once);
    est_dataset_free(dataset);
    assert_int_equal(schedule_from(&t, parts, "x", 11), EST_OUT_OF_RANGE); /* there are 10 at all workers together */
    assert_non_null(strstr(est_error_message(), "est_dataset_repeat"));
    est_per_worker_free(parts);
    coordinated_end(&t);
}

/* All elements of one worker, in their order; a second iterator begins again. */
TEST(elements_in_order)
{
    coordinated       t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset      *dataset = numbers(5, 1);
    est_per_worker   *rows = NULL, *batches = NULL;
    est_remote_value *values[5];

    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
    for (int pass = 0; pass < 2; pass++) {
        assert_ok(est_per_worker_iterator(rows, &batches));
        for (int i = 0; i < 5; i++)
            assert_ok(
                est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches, "x" }), &values[i]));
        for (int i = 0; i < 5; i++) {
            est_tensor *got = NULL;

            assert_ok(est_remote_value_fetch(values[i], 0, &got));
            assert_true(nn_element(got, 0) == 2 * i);
            est_tensor_free(got);
            est_remote_value_free(values[i]);
        }
        est_per_worker_free(batches);
    }
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_int_equal(schedule_from(&t, batches, "y", 1), EST_NOT_FOUND); /* no such component */
    assert_non_null(strstr(est_error_message(), "'y'"));
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    est_dataset_free(dataset);
    coordinated_end(&t);
}

/* An argument that does not suit is refused when it is scheduled: nothing is queued, and what is queued goes on. */
TEST(wrong_component)
{
    coordinated     t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset    *dataset = numbers(4, EST_FOREVER);
    est_per_worker *rows = NULL, *batches = NULL;
    est_node        feeds[2];
    est_function   *wrong;

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0)); /* no worker can say it */
    feeds[0] = est_placeholder(t.graph, "ids", EST_I64, EST_SHAPE(-1));
    feeds[1] = est_placeholder(t.graph, "pairs", EST_F32, EST_SHAPE(2));
    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_ok(est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches, "x" }), NULL));
    assert_int_equal(est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches, "features" }), NULL),
                     EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "'features'"));
    assert_non_null(strstr(est_error_message(), "'x'"));
    for (int i = 0; i < 2; i++) {
        assert_ok(est_coordinator_function(t.coordinator, "wrong", EST_NODES(feeds[i]),
                                           EST_NODES(est_identity(feeds[i])), EST_NO_NODES, &wrong));
        assert_int_equal(
            est_coordinator_schedule(t.coordinator, wrong, EST_ARGUMENTS({ feeds[i], batches, "x" }), NULL),
            EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), i == 0 ? "takes int64" : "takes float32 [2]"));
        est_function_free(wrong);
    }
    assert_int_equal(est_coordinator_get_stats(t.coordinator).queued, 1);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    assert_ok(schedule_from(&t, batches, "x", 1));
    assert_true(coordinated_calls(&t, 0) == 2);
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    est_dataset_free(dataset);
    coordinated_end(&t);
}

/* Two iterators in one call: each advances once, and a worker that is lost reads over both. */
TEST(two_iterators)
{
    coordinated     t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset    *dataset = numbers(20, 1);
    est_per_worker *rows = NULL, *a = NULL, *b = NULL;
    est_node        y;
    est_function   *f = NULL;

    coordinated_start(&t, OPTIONS);
    y = est_placeholder(t.graph, "y", EST_F32, EST_SHAPE(-1));
    assert_ok(est_coordinator_function(t.coordinator, "two", EST_NODES(t.x, y), EST_NODES(est_sub(t.x, y)),
                                       EST_NODES(t.count), &f));
    assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &a));
    assert_ok(est_per_worker_iterator(rows, &b));
    assert_ok(schedule_from(&t, b, "x", 3)); /* b is ahead of a by 3 */
    for (int i = 0; i < 10; i++) {
        est_remote_value *value = NULL;
        est_tensor       *got   = NULL;

        if (i == 5) assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
        assert_ok(est_coordinator_schedule(t.coordinator, f, EST_ARGUMENTS({ y, a, "x" }, { t.x, b, "x" }), &value));
        assert_ok(est_remote_value_fetch(value, 0, &got));
        assert_true(nn_element(got, 0) == 3);
        est_tensor_free(got);
        est_remote_value_free(value);
    }
    est_function_free(f);
    est_per_worker_free(a);
    est_per_worker_free(b);
    est_per_worker_free(rows);
    est_dataset_free(dataset);
    coordinated_end(&t);
}

/* A worker shuffles in an order of its own unless the program gave a seed. */
TEST(own_order)
{
    coordinated     t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset    *dataset = NULL;
    est_per_worker *rows = NULL, *batches = NULL;
    int             n_same[2] = { 0 };

    coordinated_start(&t, OPTIONS);
    for (int seeded = 0; seeded < 2; seeded++) {
        est_iterator *here = NULL;

        assert_ok(est_dataset_finish(est_dataset_shuffle(numbers(64, 1), 64, seeded ? 7 : 0), &dataset));
        assert_ok(est_iterator_create(dataset, &here));
        assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
        assert_ok(est_per_worker_iterator(rows, &batches));
        for (int i = 0; i < 50; i++) {
            est_remote_value *value = NULL;
            est_tensor       *got   = NULL;
            est_field         mine  = { 0 };

            assert_ok(est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches, "x" }), &value));
            assert_ok(est_remote_value_fetch(value, 0, &got));
            assert_ok(est_iterator_next(here, &mine));
            n_same[seeded] += nn_element(got, 0) == 2 * nn_element(mine.values, 0);
            est_element_clear(&mine, 1);
            est_tensor_free(got);
            est_remote_value_free(value);
        }
        est_iterator_free(here);
        est_per_worker_free(batches);
        est_per_worker_free(rows);
        est_dataset_free(dataset);
    }
    assert_true(n_same[0] < 50);
    assert_int_equal(n_same[1], 50);
    coordinated_end(&t);
}

/* A worker that was lost reads over what its completed calls have used. */
TEST(lost_worker_reads_over)
{
    coordinated     t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset    *dataset = numbers(10, 1);
    est_per_worker *rows = NULL, *batches = NULL;

    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_ok(schedule_from(&t, batches, "x", 4));
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    assert_ok(schedule_from(&t, batches, "x", 6));
    assert_true(coordinated_total(&t, 0) == 45); /* each of 0 to 9 once */
    assert_int_equal(schedule_from(&t, batches, "x", 1), EST_OUT_OF_RANGE);
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    est_dataset_free(dataset);
    coordinated_end(&t);
}

/* A call that fails because one of its datasets has ended has used no element of the other, also as a worker that was
 * lost since sees it. */
TEST(ended_dataset_uses_nothing)
{
    coordinated       t        = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset      *long_one = numbers(10, 1), *short_one = numbers(2, 1);
    est_per_worker   *rows[2] = { NULL }, *batches[2] = { NULL };
    est_node          y     = est_placeholder(t.graph, "y", EST_F32, EST_SHAPE(-1));
    est_node          sum   = est_add(t.x, y);
    est_function     *both  = NULL;
    est_remote_value *value = NULL;
    est_tensor       *got   = NULL;

    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_function(t.coordinator, "both", EST_NODES(t.x, y), EST_NODES(sum), EST_NO_NODES, &both));
    assert_ok(est_coordinator_dataset(t.coordinator, long_one, NULL, &rows[0]));
    assert_ok(est_coordinator_dataset(t.coordinator, short_one, NULL, &rows[1]));
    for (int i = 0; i < 2; i++) assert_ok(est_per_worker_iterator(rows[i], &batches[i]));
    for (int i = 0; i < 5; i++) { /* the last three fail */
        assert_ok(est_coordinator_schedule(t.coordinator, both,
                                           EST_ARGUMENTS({ t.x, batches[0], "x" }, { y, batches[1], "x" }), NULL));
        assert_int_equal(est_coordinator_join(t.coordinator), i < 2 ? EST_OK : EST_OUT_OF_RANGE);
    }
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    assert_ok(est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches[0], "x" }), &value));
    assert_ok(est_remote_value_fetch(value, 0, &got));
    assert_true(nn_element(got, 0) == 2 * 2);
    est_tensor_free(got);
    est_remote_value_free(value);
    est_function_free(both);
    for (int i = 0; i < 2; i++) {
        est_per_worker_free(batches[i]);
        est_per_worker_free(rows[i]);
    }
    est_dataset_free(long_one);
    est_dataset_free(short_one);
    coordinated_end(&t);
}

/* --- functions of workers ----------------------------------------------------------------------------------------- */

static est_status make_numbers(const est_input_context *context, void *user, est_dataset **out)
{
    int64_t n;

    assert_string_equal(user, "mine");
    memcpy(&n, context->params, sizeof n);
    *out = numbers((int)n, EST_FOREVER);
    return EST_OK;
}

TEST(datasets_by_name)
{
    coordinated t = coordinated_begin(
        1, 2, EST_WORKER_FUNCTIONS({ .name = "numbers", .input_fn = make_numbers, .user = "mine" }));
    est_per_worker *rows = NULL, *batches = NULL;
    int64_t         n = 1; /* element 0 only */

    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_dataset_by_name(t.coordinator, "numbers",
                                              EST_PER_WORKER(.params = &n, .params_size = sizeof n), &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_ok(schedule_from(&t, batches, "x", 20));
    assert_true(coordinated_calls(&t, 0) == 20);
    assert_true(coordinated_total(&t, 0) == 0);
    est_per_worker_free(batches);
    est_per_worker_free(rows);

    assert_ok(est_coordinator_dataset_by_name(t.coordinator, "letters", NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_int_not_equal(schedule_from(&t, batches, "x", 1), EST_OK);
    assert_non_null(strstr(est_error_message(), "letters"));
    assert_non_null(strstr(est_error_message(), "worker:"));
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    coordinated_end(&t);
}

static est_status make_numbers_later(const est_input_context *context, void *user, est_dataset **out)
{
    bool *there = user;

    (void)context;
    if (!*there) return est_fail(EST_NOT_FOUND, "the file is not there yet");
    *out = numbers(1, EST_FOREVER);
    return EST_OK;
}

/* A dataset that could not be made is made again with the next call. */
TEST(dataset_that_failed)
{
    bool        there = false;
    coordinated t     = coordinated_begin(
            1, 1, EST_WORKER_FUNCTIONS({ .name = "later", .input_fn = make_numbers_later, .user = &there }));
    est_per_worker *rows = NULL, *batches = NULL;

    coordinated_start(&t, OPTIONS);
    assert_ok(est_coordinator_dataset_by_name(t.coordinator, "later", NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_int_equal(schedule_from(&t, batches, "x", 1), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "not there yet"));
    there = true;
    assert_ok(schedule_from(&t, batches, "x", 3));
    assert_true(coordinated_calls(&t, 0) == 3);
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    coordinated_end(&t);
}

/* A worker that lacks a function is not taken, and the error says so; without that dataset it suits again. */
TEST(worker_without_function)
{
    coordinated     t    = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_per_worker *rows = NULL;

    coordinated_start(&t, OPTIONS);
    coordinated_await_here(&t, 1);
    assert_ok(est_coordinator_dataset_by_name(t.coordinator, "letters", NULL, &rows));
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    coordinated_await_losses(&t, 1);
    assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_int_not_equal(est_coordinator_join(t.coordinator), EST_OK);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    assert_non_null(strstr(est_error_message(), "letters"));
    est_per_worker_free(rows);
    coordinated_await_here(&t, 1);
    assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 1);
    coordinated_end(&t);
}

static est_status pass_on(void *user, const est_field *in, est_field *out)
{
    (void)user;
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

/* A stage with a function of this process cannot travel. */
TEST(dataset_with_callback)
{
    coordinated     t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_dataset    *dataset = NULL;
    est_per_worker *rows    = NULL;

    coordinated_start(&t, OPTIONS);
    assert_ok(est_dataset_finish(est_dataset_map(est_dataset_range(0, 9, 1), pass_on, NULL), &dataset));
    assert_int_equal(est_coordinator_dataset(t.coordinator, dataset, NULL, &rows), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "est_coordinator_dataset_by_name"));
    est_dataset_free(dataset);
    coordinated_end(&t);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

TEST(values)
{
    coordinated       t       = coordinated_begin(1, 2, (est_worker_functions){ 0 });
    est_tensor       *mine[2] = { coordinated_tensor(1), coordinated_tensor(100) };
    est_per_worker   *each    = NULL;
    est_remote_value *values[30];
    double            sum = 0;

    coordinated_start(&t, OPTIONS);
    coordinated_await_here(&t, 2);
    assert_ok(est_coordinator_value(t.coordinator, EST_TENSORS(mine[0], mine[1]), &each));
    for (int i = 0; i < 30; i++)
        assert_ok(
            est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ .node = t.x, .from = each }), &values[i]));
    assert_ok(est_coordinator_join(t.coordinator));
    for (int i = 0; i < 30; i++) {
        est_tensor *got = NULL;

        assert_ok(est_remote_value_fetch(values[i], 0, &got));
        assert_true(nn_element(got, 0) == 2 || nn_element(got, 0) == 200);
        sum += nn_element(got, 0) / 2;
        est_tensor_free(got);
        est_remote_value_free(values[i]);
    }
    assert_true(coordinated_total(&t, 0) == sum);
    est_per_worker_free(each);
    est_tensor_free(mine[0]);
    est_tensor_free(mine[1]);
    coordinated_end(&t);
}

/* Strings as arguments and results. */
TEST(strings)
{
    coordinated       t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_node          words;
    est_function     *echo  = NULL;
    est_tensor       *given = NULL, *got = NULL;
    est_remote_value *values[50];
    est_str           text[2] = { { "one", 3 }, { "three", 5 } };

    coordinated_start(&t, OPTIONS);
    words = est_placeholder(t.graph, "words", EST_STRING, EST_SHAPE(2));
    assert_ok(est_coordinator_function(t.coordinator, "echo", EST_NODES(words), EST_NODES(est_identity(words)),
                                       EST_NO_NODES, &echo));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(2), text, &given));
    for (int i = 0; i < 50; i++)
        assert_ok(est_coordinator_schedule(t.coordinator, echo, EST_ARGUMENTS({ .node = words, .value = given }),
                                           &values[i]));
    est_tensor_free(given); /* shared */
    for (int i = 0; i < 50; i++) {
        assert_ok(est_remote_value_fetch(values[i], 0, &got));
        assert_int_equal(((const est_str *)est_tensor_data(got))[1].size, 5);
        assert_memory_equal(((const est_str *)est_tensor_data(got))[1].data, "three", 5);
        est_tensor_free(got);
        est_remote_value_free(values[i]);
    }
    est_function_free(echo);
    coordinated_end(&t);
}
