/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions by workers of a cluster in this process: schedule, join, done, values, and their misuse. */
#include <limits.h>
#include <math.h>

#include "base/clock.h"
#include "base/thread.h"
#include "estoc/initializers.h"
#include "support/coordinator_test.h"

/* Fetch 0 of a value, which must be float32; its first element. */
static double fetch(est_remote_value *value)
{
    est_tensor *result = NULL;
    double      first;

    assert_ok(est_remote_value_fetch(value, 0, &result));
    first = nn_element(result, 0);
    est_tensor_free(result);
    return first;
}

TEST(schedule_join_fetch)
{
    coordinated           t = coordinated_open(2, 2);
    est_remote_value     *values[20];
    est_coordinator_stats stats;
    bool                  done;

    assert_ok(est_coordinator_join(t.coordinator)); /* of nothing */
    for (int i = 0; i < 20; i++) assert_ok(coordinated_schedule(&t, i, &values[i]));
    assert_true(fetch(values[19]) == 38);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_done(t.coordinator, &done));
    assert_true(done);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(est_remote_value_status(values[i]), EST_VALUE_READY);
        assert_true(fetch(values[i]) == 2 * i);
        assert_true(fetch(values[i]) == 2 * i); /* again */
    }
    for (int ps = 0; ps < 2; ps++) {
        assert_true(coordinated_calls(&t, ps) == 20);
        assert_true(coordinated_total(&t, ps) == 190);
    }
    stats = est_coordinator_get_stats(t.coordinator);
    assert_int_equal(stats.completed, 20);
    assert_int_equal(stats.queued + stats.under_way + stats.retried + stats.workers_lost, 0);
    assert_int_equal(stats.workers, 2);
    for (int i = 0; i < 19; i++) est_remote_value_free(values[i]);
    coordinated_end(&t);
    assert_true(fetch(values[19]) == 38); /* it outlives the coordinator */
    est_remote_value_free(values[19]);
    est_remote_value_free(NULL);
}

TEST(many_calls)
{
    coordinated t = coordinated_open(1, 2);

    for (int i = 0; i < 5000; i++) assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 5000);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 5000);
    coordinated_end(&t);
}

/* No limit of the wait for ps tasks, here and at workers, and as many calls ahead as there can be. */
TEST(largest_options)
{
    coordinated t = coordinated_begin(1, 1, (est_worker_functions){ 0 });

    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = INFINITY,
                                          .lonely_secs = COORDINATOR_SECS, .ahead = INT_MAX));
    for (int i = 0; i < 100; i++) assert_ok(coordinated_schedule(&t, 1, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 100);
    coordinated_end(&t);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* A function of x that fails unless all of x is above 0. */
static est_function *make_failing(coordinated *t)
{
    est_function *f = NULL;
    est_node      checked;

    est_here("src/model.c", 31);
    checked = est_check_numerics(est_log(t->x), "x must be above 0");
    est_here(NULL, 0);
    assert_ok(est_coordinator_function(t->coordinator, "picky", EST_NODES(t->x), EST_NODES(checked),
                                       EST_NODES(t->count), &f));
    return f;
}

static est_status schedule_one(coordinated *t, const est_function *f, double value, est_remote_value **out)
{
    est_tensor *x      = coordinated_tensor(value);
    est_status  status = est_coordinator_schedule(t->coordinator, f, EST_ARGUMENTS({ .node = t->x, .value = x }), out);

    est_tensor_free(x);
    return status;
}

/* The error of a call comes once, when nothing is under way any more; then scheduling goes on. */
TEST(function_error)
{
    coordinated       t     = coordinated_open(1, 1);
    est_function     *picky = make_failing(&t);
    est_remote_value *good = NULL, *bad = NULL;
    est_tensor       *result = NULL;

    assert_ok(schedule_one(&t, picky, 2, &good));
    assert_ok(schedule_one(&t, picky, -1, &bad));
    assert_int_equal(est_coordinator_join(t.coordinator), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "of 'picky'"));
    assert_non_null(strstr(est_error_message(), "x must be above 0"));
    assert_non_null(strstr(est_error_message(), "CheckNumerics node 'CheckNumerics' (built at model.c:31): x must"));
    assert_ok(est_coordinator_join(t.coordinator)); /* once */
    assert_int_equal(est_remote_value_status(good), EST_VALUE_READY);
    assert_int_equal(est_remote_value_status(bad), EST_VALUE_FAILED);
    assert_int_equal(est_remote_value_fetch(bad, 0, &result), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "CheckNumerics node 'CheckNumerics' (built at model.c:31): x must"));
    assert_null(result);
    est_remote_value_free(good);
    est_remote_value_free(bad);

    assert_ok(coordinated_schedule(&t, 1, &good));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(fetch(good) == 2);
    est_remote_value_free(good);
    est_function_free(picky);
    coordinated_end(&t);
}

/* An operation that runs at a ps task is named as well. */
TEST(function_error_at_ps)
{
    coordinated   t     = coordinated_open(1, 1);
    est_node      table = est_weight(t.graph, "table", EST_SHAPE(4, 1), EST_WEIGHT(.initializer = est_init_zeros()));
    est_node      one   = est_reshape(est_scalar(t.graph, EST_F32, 1), EST_I64S(1, 1));
    est_function *add;

    est_here("src/model.c", 77);
    one = est_scatter_add(table, est_cast(t.x, EST_I64), one);
    est_here(NULL, 0);
    assert_ok(est_coordinator_function(t.coordinator, "add", EST_NODES(t.x), EST_NO_NODES, EST_NODES(one), &add));
    assert_ok(schedule_one(&t, add, 9, NULL));
    assert_int_equal(est_coordinator_join(t.coordinator), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "ps:0"));
    assert_non_null(strstr(est_error_message(), "(built at model.c:77)"));
    assert_null(strstr(est_error_message(), "EstFinish"));
    est_function_free(add);
    coordinated_end(&t);
}

/* Calls behind a failed one are cancelled; those that were under way have ended when the error comes. */
TEST(cancelled_calls)
{
    coordinated       t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_remote_value *values[200];
    est_function     *picky;
    est_tensor       *result = NULL;
    est_status        status = EST_OK;
    int               n = 0, cancelled = 0, ready = 0;

    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .ahead = 2));
    picky = make_failing(&t);
    assert_ok(schedule_one(&t, picky, -1, &values[n++]));
    while (n < 200 && status == EST_OK) {
        status = schedule_one(&t, picky, 1, &values[n]);
        n += status == EST_OK;
    }
    if (status == EST_OK) status = est_coordinator_join(t.coordinator);
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).under_way, 0);
    for (int i = 1; i < n; i++) {
        ready += est_remote_value_status(values[i]) == EST_VALUE_READY;
        cancelled += est_remote_value_status(values[i]) == EST_VALUE_CANCELLED;
        if (est_remote_value_status(values[i]) != EST_VALUE_CANCELLED) continue;
        assert_int_equal(est_remote_value_fetch(values[i], 0, &result), EST_CANCELLED);
        assert_non_null(strstr(est_error_message(), "x must be above 0"));
    }
    assert_int_equal(ready + cancelled, n - 1);
    assert_true(ready <= 2); /* those that were sent ahead */
    assert_true(coordinated_calls(&t, 0) >= ready && coordinated_calls(&t, 0) <= ready + 1);
    for (int i = 0; i < n; i++) est_remote_value_free(values[i]);
    est_function_free(picky);
    coordinated_end(&t);
}

/* done does not wait: it gives the error as soon as calls under way have ended. */
TEST(done_gives_error)
{
    coordinated   t     = coordinated_open(1, 2);
    est_function *picky = make_failing(&t);
    est_status    status;
    bool          done = false;

    assert_ok(schedule_one(&t, picky, -1, NULL));
    do {
        status = est_coordinator_done(t.coordinator, &done);
    } while (status == EST_OK && !done);
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_ok(est_coordinator_done(t.coordinator, &done));
    assert_true(done);
    est_function_free(picky);
    coordinated_end(&t);
}

/* --- misuse ------------------------------------------------------------------------------------------------------- */

#define assert_wrong(expr, text)                                                                                       \
    do {                                                                                                               \
        assert_int_equal((expr), EST_INVALID_ARGUMENT);                                                                \
        if (strstr(est_error_message(), (text)) == NULL) fail_msg("not \"%s\": %s", (text), est_error_message());      \
    } while (0)

TEST(wrong_arguments)
{
    coordinated       t = coordinated_open(1, 1);
    coordinated       other;
    est_remote_value *value   = NULL;
    est_tensor       *x       = coordinated_tensor(1), *result;
    est_per_worker   *numbers = NULL, *each = NULL;
    est_dataset      *dataset = NULL;
    est_coordinator  *c       = t.coordinator;
    est_function     *f       = NULL;

    assert_ok(est_dataset_finish(est_dataset_range(0, 3, 1), &dataset));
    assert_ok(est_coordinator_dataset(c, dataset, NULL, &numbers));
    assert_ok(est_coordinator_value(c, EST_TENSORS(x), &each));
    assert_wrong(est_coordinator_schedule(NULL, t.step, EST_NO_ARGUMENTS, NULL), "coordinator is NULL");
    assert_wrong(est_coordinator_schedule(c, NULL, EST_NO_ARGUMENTS, NULL), "function is NULL");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_NO_ARGUMENTS, NULL), "1 feeds, but the call has 0");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_ARGUMENTS({ .node = t.x }), NULL), "needs either .from");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_ARGUMENTS({ .node = t.doubled, .value = x }), NULL),
                 "no feed");
    assert_wrong(est_coordinator_schedule(
                     c, t.step, EST_ARGUMENTS({ .node = t.x, .value = x }, { .node = t.x, .value = x }), NULL),
                 "two arguments");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_ARGUMENTS({ t.x, numbers, "value" }), NULL), "an iterator");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_ARGUMENTS({ t.x, each, "value" }), NULL), "no components");
    assert_wrong(est_coordinator_schedule(c, t.step, EST_ARGUMENTS({ t.x, each, NULL, x }), NULL), "both");
    assert_wrong(est_coordinator_value(c, EST_TENSORS(x, x), &each), "2 tensors for 1 workers");
    assert_wrong(est_per_worker_iterator(each, &numbers), "dataset");
    assert_wrong(est_coordinator_function(c, "none", EST_NO_NODES, EST_NODES(t.doubled), EST_NO_NODES, &f),
                 "must be fed");
    assert_wrong(est_coordinator_function(c, "none", EST_NO_NODES, EST_NODES(EST_NO_NODE), EST_NO_NODES, &f),
                 "no node");
    assert_int_equal(est_coordinator_save(c, 1), EST_FAILED_PRECONDITION);

    assert_ok(coordinated_schedule(&t, 1, &value));
    assert_wrong(est_remote_value_fetch(value, 1, &result), "1 fetches");
    assert_wrong(est_remote_value_fetch(NULL, 0, &result), "value is NULL");
    other = coordinated_open(1, 1);
    assert_wrong(est_coordinator_schedule(c, other.step, EST_NO_ARGUMENTS, NULL), "another coordinator");
    coordinated_end(&other);
    assert_ok(est_coordinator_join(c)); /* nothing of this was an error of a call */

    est_remote_value_free(value);
    est_per_worker_free(each);
    est_per_worker_free(numbers);
    est_per_worker_free(NULL);
    est_function_free(NULL);
    est_dataset_free(dataset);
    est_tensor_free(x);
    coordinated_end(&t);
}

TEST(wrong_strategies)
{
    est_coordinator *c = NULL;
    est_strategy    *strategy;
    coordinated      t = coordinated_begin(1, 1, (est_worker_functions){ 0 });

    assert_wrong(est_coordinator_create(NULL, t.graph, NULL, &c), "strategy is NULL");
    assert_wrong(est_coordinator_create(t.strategy, NULL, NULL, &c), "graph is NULL");
    assert_wrong(est_coordinator_create(t.strategy, t.graph, EST_COORDINATOR(.queue_max = -1), &c), "queue_max");
    assert_ok(est_mirrored_strategy(NULL, &strategy));
    assert_wrong(est_coordinator_create(strategy, t.graph, NULL, &c), "est_parameter_server_strategy");
    est_strategy_free(strategy);
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.cluster_json = "{}"), &strategy));
    assert_wrong(est_coordinator_create(strategy, t.graph, NULL, &c), ".resolver");
    est_strategy_free(strategy);
    assert_ok(est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.cluster_json = "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"a:2\"], \"worker\": "
                                             "[\"a:3\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}"),
        &strategy));
    assert_int_equal(est_coordinator_create(strategy, t.graph, NULL, &c), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "est_server_join"));
    est_strategy_free(strategy);
    assert_ok(est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.sync_replicas = 1, .resolver = est_local_cluster_resolver(t.cluster)), &strategy));
    assert_wrong(est_coordinator_create(strategy, t.graph, EST_COORDINATOR(.transport = "tcp"), &c), "sync_replicas");
    est_strategy_free(strategy);
    assert_null(c);
    est_coordinator_free(NULL);
    coordinated_end(&t);
}

/* A worker has no local variables; the states of metrics are global ones with .shared. */
TEST(local_variables)
{
    coordinated   t = coordinated_open(1, 1);
    est_function *f = NULL;
    est_metric    metric;

    metric = est_metric_mean(t.x, NULL);
    assert_wrong(
        est_coordinator_function(t.coordinator, "mean", EST_NODES(t.x), EST_NO_NODES, EST_NODES(metric.update), &f),
        ".shared");
    metric = est_metric_mean(t.x, EST_METRIC(.shared = true));
    assert_ok(
        est_coordinator_function(t.coordinator, "mean", EST_NODES(t.x), EST_NO_NODES, EST_NODES(metric.update), &f));
    assert_ok(schedule_one(&t, f, 5, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    est_function_free(f);
    coordinated_end(&t);
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

/* A full queue makes schedule wait; memory is that of its calls, not of all that were scheduled. */
static void fill_queue(int64_t max, int n)
{
    coordinated t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    int64_t     longest = 0;

    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .queue_max = max));
    for (int i = 0; i < n; i++) {
        int64_t queued;

        assert_ok(coordinated_schedule(&t, 1, NULL));
        queued  = est_coordinator_get_stats(t.coordinator).queued;
        longest = queued > longest ? queued : longest;
    }
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(longest <= max);
    assert_true(coordinated_calls(&t, 0) == n);
    coordinated_end(&t);
}

TEST(full_queue)
{
    fill_queue(8, 1000);
    fill_queue(1, 200);
    fill_queue(1000, 6000);
}

/* Without a worker join fails after lonely_secs and names whom it waits for. */
TEST(no_worker)
{
    coordinated       t = coordinated_begin(1, 2, (est_worker_functions){ 0 });
    est_remote_value *value;
    est_tensor       *result = NULL;
    est_status        status;
    bool              done = true;

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    assert_ok(est_local_cluster_lose(t.cluster, "worker", 1));
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .lonely_secs = 0.3));
    assert_ok(coordinated_schedule(&t, 3, &value));
    assert_ok(est_coordinator_done(t.coordinator, &done));
    assert_false(done);
    do {
        status = est_coordinator_done(t.coordinator, &done); /* a loop over it is such a wait */
    } while (status == EST_OK && !done);
    assert_int_equal(status, EST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    assert_int_equal(est_coordinator_join(t.coordinator), EST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    assert_non_null(strstr(est_error_message(), "worker:1"));
    assert_int_equal(est_remote_value_fetch(value, 0, &result), EST_DEADLINE_EXCEEDED);
    assert_int_equal(est_remote_value_status(value), EST_VALUE_NOT_READY);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 1)); /* the call is still there */
    coordinated_await_completed(&t, 1);
    assert_true(fetch(value) == 6);
    est_remote_value_free(value);
    coordinated_end(&t);
}

/* What is queued when the coordinator is freed is cancelled. */
TEST(freed_early)
{
    coordinated       t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_remote_value *value;
    est_tensor       *result = NULL;

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1));
    assert_ok(coordinated_schedule(&t, 3, &value));
    coordinated_end(&t);
    assert_int_equal(est_remote_value_status(value), EST_VALUE_CANCELLED);
    assert_int_equal(est_remote_value_fetch(value, 0, &result), EST_CANCELLED);
    est_remote_value_free(value);
}

/* A dataset function that returns when the test says so. */
typedef struct held {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            begun, released;
} held;

static est_status make_held(const est_input_context *context, void *user, est_dataset **out)
{
    held *h = user;

    (void)context;
    pthread_mutex_lock(&h->lock);
    h->begun = true;
    pthread_cond_broadcast(&h->changed);
    while (!h->released) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return est_dataset_finish(est_dataset_range(0, 9, 1), out);
}

/* A call that is under way when the coordinator is freed is cancelled as well, with that reason. */
TEST(freed_while_under_way)
{
    held                 h         = { .begun = false };
    est_worker_functions functions = EST_WORKER_FUNCTIONS({ .name = "held", .input_fn = make_held, .user = &h });
    coordinated          t         = coordinated_begin(1, 1, functions);
    est_remote_value    *value     = NULL;
    est_tensor          *result    = NULL;
    est_per_worker      *rows = NULL, *batches = NULL;

    assert_ok(est_lock_init(&h.lock));
    assert_ok(est_cond_init(&h.changed));
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1));
    assert_ok(est_coordinator_dataset_by_name(t.coordinator, "held", NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &batches));
    assert_ok(est_coordinator_schedule(t.coordinator, t.step, EST_ARGUMENTS({ t.x, batches, "x" }), &value));
    pthread_mutex_lock(&h.lock);
    while (!h.begun) pthread_cond_wait(&h.changed, &h.lock);
    pthread_mutex_unlock(&h.lock);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).under_way, 1);
    est_per_worker_free(batches);
    est_per_worker_free(rows);
    coordinated_stop(&t);
    assert_int_equal(est_remote_value_status(value), EST_VALUE_CANCELLED);
    assert_int_equal(est_remote_value_fetch(value, 0, &result), EST_CANCELLED);
    assert_non_null(strstr(est_error_message(), "the coordinator was freed"));
    est_remote_value_free(value);
    pthread_mutex_lock(&h.lock);
    h.released = true;
    pthread_cond_broadcast(&h.changed);
    pthread_mutex_unlock(&h.lock);
    coordinated_end(&t);
    pthread_cond_destroy(&h.changed);
    pthread_mutex_destroy(&h.lock);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void *schedule_many(void *arg)
{
    coordinated *t = arg;

    for (int i = 0; i < 300; i++) {
        est_remote_value *value = NULL;

        if (coordinated_schedule(t, 1, i % 3 == 0 ? &value : NULL) != EST_OK) return NULL;
        if (i % 10 == 0 && value != NULL) (void)fetch(value);
        est_remote_value_free(value);
    }
    return NULL;
}

TEST(several_threads)
{
    coordinated t = coordinated_open(2, 2);
    est_thread  threads[3];

    for (int i = 0; i < 3; i++) assert_ok(est_thread_start(&threads[i], "scheduler", schedule_many, &t));
    for (int i = 0; i < 3; i++) est_thread_join(&threads[i]);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 900);
    assert_true(coordinated_calls(&t, 1) == 900);
    coordinated_end(&t);
}
