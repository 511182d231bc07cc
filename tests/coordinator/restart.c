/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a coordinator, and coordinators that replace others: variables, epoch and positions return together,
 * workers and ps tasks keep running. */
#include "base/clock.h"
#include "cluster/call_records.h"
#include "coordinator/coordinator.h"
#include "estoc/checkpoint_watch.h"
#include "estoc/feature_column.h"
#include "support/coordinator_test.h"
#include "support/dir_test.h"
#include "train/done_mark.h"

#define OPTIONS(dir)                                                                                                   \
    EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS,                                \
                    .lonely_secs = COORDINATOR_SECS, .model_dir = (dir))

static void schedule(coordinated *t, int n)
{
    for (int i = 0; i < n; i++) assert_ok(coordinated_schedule(t, 1, NULL));
}

/* A job that is started again continues from its checkpoint. */
TEST(job_again)
{
    coordinated t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(dir));
    assert_int_equal(est_coordinator_epoch(t.coordinator), 0);
    schedule(&t, 30);
    assert_ok(est_coordinator_save(t.coordinator, 3)); /* not all calls need to have completed */
    assert_ok(est_coordinator_join(t.coordinator));
    coordinated_end(&t);

    t = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    coordinated_start(&t, OPTIONS(dir));
    assert_int_equal(est_coordinator_epoch(t.coordinator), 3);
    assert_true((double)t.coordinator->queue.given >= coordinated_calls(&t, 0)); /* calls are numbered on */
    assert_true(coordinated_calls(&t, 0) <= 30);
    assert_true(coordinated_calls(&t, 0) == coordinated_calls(&t, 1)); /* each call completely, or not at all */
    assert_true(coordinated_total(&t, 0) == coordinated_total(&t, 1));
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* step -1: there is no mark. */
static void check_mark(const char *dir, int64_t step)
{
    est_done_mark mark;

    assert_ok(est_done_mark_read(dir, &mark));
    assert_int_equal(mark.there, step >= 0);
    if (step >= 0) assert_int_equal(mark.step, step);
}

/* An evaluator beside the job gets its checkpoints and ends with it, not with a coordinator that only leaves. */
TEST(side_car_evaluator)
{
    coordinated           t     = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_checkpoint_watch *watch = NULL;
    char                  dir[64], path[EST_CHECKPOINT_PATH_MAX];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(dir));
    schedule(&t, 3);
    assert_ok(est_coordinator_save(t.coordinator, 7));
    coordinated_stop(&t);
    check_mark(dir, -1);
    coordinated_start(&t, OPTIONS(dir)); /* no save: the end has the step of the checkpoint that was restored */
    assert_ok(est_coordinator_end(t.coordinator));
    check_mark(dir, 7);
    coordinated_end(&t);

    assert_ok(est_checkpoint_watch_create(dir, EST_CHECKPOINT_WATCH(.start_delay_secs = EST_OFF), &watch));
    assert_ok(est_checkpoint_watch_next(watch, path));
    assert_int_equal(est_checkpoint_watch_next(watch, path), EST_OUT_OF_RANGE);
    est_checkpoint_watch_free(watch);

    t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    coordinated_start(&t, OPTIONS(dir)); /* the next job is under way */
    check_mark(dir, -1);
    assert_ok(est_coordinator_save(t.coordinator, 8));
    assert_ok(est_coordinator_end(t.coordinator));
    check_mark(dir, 8);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* The clock of the host where the first coordinator ran was ahead of that of the next. */
TEST(clock_behind)
{
    coordinated t     = coordinated_begin(2, 1, (est_worker_functions){ 0 });
    est_server *ps    = est_local_cluster_server(t.cluster, "ps", 1);
    uint64_t    ahead = (uint64_t)est_wall_ns() + (uint64_t)est_secs_to_ns(3600);

    pthread_mutex_lock(&ps->host_lock);
    assert_ok(est_call_records_set_origin(&ps->calls, ahead, 0));
    pthread_mutex_unlock(&ps->host_lock);
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS));
    assert_true(t.coordinator->origin == ahead + 1);
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 1) == 10);
    coordinated_end(&t);
}

/* All variables return to the checkpoint, though the ps tasks still have later values. */
TEST(lost_coordinator)
{
    coordinated t = coordinated_begin(2, 2, (est_worker_functions){ 0 });
    char        dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(dir));
    schedule(&t, 100);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_coordinator_save(t.coordinator, 1));
    for (int i = 0; i < 3; i++) {
        schedule(&t, 2000);
        coordinated_await_completed(&t, i == 0 ? 120 : 20);
        coordinated_kill(&t);
        coordinated_start(&t, OPTIONS(dir));
        assert_int_equal(est_coordinator_epoch(t.coordinator), 1);
        assert_true(coordinated_calls(&t, 0) == 100 && coordinated_calls(&t, 1) == 100);
        assert_true(coordinated_total(&t, 0) == 100 && coordinated_total(&t, 1) == 100);
    }
    schedule(&t, 50);
    assert_ok(est_coordinator_join(t.coordinator));
    for (int ps = 0; ps < 2; ps++) assert_true(coordinated_calls(&t, ps) == 150);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* Without a checkpoint it begins again with initial values. */
TEST(lost_coordinator_without_checkpoint)
{
    coordinated t = coordinated_open(1, 1);

    schedule(&t, 100);
    assert_ok(est_coordinator_join(t.coordinator));
    coordinated_kill(&t);
    coordinated_start(&t, OPTIONS(NULL));
    assert_int_equal(est_coordinator_epoch(t.coordinator), 0);
    assert_true(coordinated_calls(&t, 0) == 0);
    schedule(&t, 10);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 10);
    coordinated_end(&t);
}

/* The one that was started last wins; the other gets an error that says so, and does not end the job. */
TEST(two_coordinators)
{
    coordinated      t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_coordinator *old;
    est_function    *old_step;
    est_status       status;

    coordinated_start(&t, OPTIONS(NULL));
    schedule(&t, 5);
    assert_ok(est_coordinator_join(t.coordinator));
    old      = t.coordinator;
    old_step = t.step;
    coordinated_start(&t, OPTIONS(NULL));
    schedule(&t, 5);
    assert_ok(est_coordinator_join(t.coordinator));
    do {
        est_tensor *x = coordinated_tensor(1);

        status = est_coordinator_schedule(old, old_step, EST_ARGUMENTS({ .node = t.x, .value = x }), NULL);
        est_tensor_free(x);
        if (status == EST_OK) status = est_coordinator_join(old);
    } while (status == EST_OK);
    assert_int_equal(status, EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "newer coordinator"));
    assert_int_equal(est_coordinator_end(old), EST_ABORTED);
    est_function_free(old_step);
    est_coordinator_free(old);
    schedule(&t, 5);
    assert_ok(est_coordinator_join(t.coordinator));
    assert_true(coordinated_calls(&t, 0) == 10);
    coordinated_end(&t);
}

/* Also one that has not noticed that it was replaced does not end the job of the newer one. */
TEST(end_by_replaced_coordinator)
{
    coordinated      t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_coordinator *old;
    est_function    *old_step;

    coordinated_start(&t, OPTIONS(NULL));
    old      = t.coordinator;
    old_step = t.step;
    coordinated_start(&t, OPTIONS(NULL));
    assert_int_equal(est_coordinator_end(old), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "newer coordinator"));
    est_function_free(old_step);
    est_coordinator_free(old);
    schedule(&t, 5);
    assert_ok(est_coordinator_join(t.coordinator));
    coordinated_end(&t);
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static est_dataset *count_to(int n)
{
    float        values[64];
    est_tensor  *tensor  = NULL;
    est_dataset *dataset = NULL;

    for (int i = 0; i < n; i++) values[i] = (float)i;
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(n, 1), values, &tensor));
    assert_ok(est_dataset_finish(est_dataset_slices(EST_NAMED_TENSORS({ "x", tensor })), &dataset));
    est_tensor_free(tensor);
    return dataset;
}

static est_per_worker *make_iterator(coordinated *t)
{
    est_dataset    *dataset = count_to(20);
    est_per_worker *rows = NULL, *iterator = NULL;

    assert_ok(est_coordinator_dataset(t->coordinator, dataset, NULL, &rows));
    assert_ok(est_per_worker_iterator(rows, &iterator));
    est_per_worker_free(rows);
    est_dataset_free(dataset);
    return iterator;
}

static void take(coordinated *t, const est_per_worker *iterator, int n)
{
    for (int i = 0; i < n; i++)
        assert_ok(est_coordinator_schedule(t->coordinator, t->step, EST_ARGUMENTS({ t->x, iterator, "x" }), NULL));
    assert_ok(est_coordinator_join(t->coordinator));
}

/* Iterators continue where they were at the save, by the order in which the program makes them. */
TEST(positions)
{
    coordinated     t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_per_worker *freed, *first, *second;
    char            dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(dir));
    freed = make_iterator(&t);
    take(&t, freed, 2); /* 0, 1 */
    est_per_worker_free(freed);
    first  = make_iterator(&t);
    second = make_iterator(&t);
    take(&t, first, 5);  /* 0 to 4 */
    take(&t, second, 3); /* 0 to 2 */
    assert_ok(est_coordinator_save(t.coordinator, 1));
    take(&t, first, 10); /* of no checkpoint */
    est_per_worker_free(first);
    est_per_worker_free(second);
    coordinated_kill(&t);

    coordinated_start(&t, OPTIONS(dir));
    assert_true(coordinated_total(&t, 0) == 1 + 10 + 3);
    freed = make_iterator(&t);
    take(&t, freed, 2); /* 0, 1: a freed one begins again */
    est_per_worker_free(freed);
    first = make_iterator(&t);
    take(&t, first, 2); /* 5, 6 */
    assert_true(coordinated_total(&t, 0) == 14 + 1 + 11);
    assert_ok(est_coordinator_save(t.coordinator, 2)); /* before the second one is made again */
    est_per_worker_free(first);
    coordinated_kill(&t);

    coordinated_start(&t, OPTIONS(dir));
    freed  = make_iterator(&t);
    first  = make_iterator(&t);
    second = make_iterator(&t);
    take(&t, first, 1);  /* 7 */
    take(&t, second, 1); /* 3 */
    assert_true(coordinated_total(&t, 0) == 26 + 7 + 3);
    est_per_worker_free(freed);
    est_per_worker_free(first);
    est_per_worker_free(second);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* --- graphs that grow --------------------------------------------------------------------------------------------- */

/* A variable that came after the checkpoint starts with its initial value again. */
TEST(grown_graph)
{
    coordinated   t = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_node      late;
    est_function *more  = NULL;
    est_tensor   *value = NULL;
    char          dir[64];

    est_test_dir(dir);
    coordinated_start(&t, OPTIONS(dir));
    late = est_variable(t.graph, "late", EST_F32, EST_SHAPE_SCALAR);
    est_variable_initializer(late, est_scalar(t.graph, EST_F32, 7));
    assert_ok(est_coordinator_function(t.coordinator, "more", EST_NO_NODES, EST_NO_NODES,
                                       EST_NODES(est_assign_add(late, est_scalar(t.graph, EST_F32, 1))), &more));
    for (int i = 0; i < 5; i++) assert_ok(est_coordinator_schedule(t.coordinator, more, EST_NO_ARGUMENTS, NULL));
    assert_ok(est_coordinator_join(t.coordinator));
    assert_ok(est_session_read(est_coordinator_session(t.coordinator), "late", &value));
    assert_true(nn_element(value, 0) == 12);
    est_tensor_free(value);
    est_function_free(more);
    coordinated_kill(&t);
    coordinated_start(&t, OPTIONS(dir));
    assert_ok(est_session_read(est_coordinator_session(t.coordinator), "late", &value));
    assert_true(nn_element(value, 0) == 7);
    est_tensor_free(value);
    coordinated_end(&t);
    est_test_dir_remove(dir);
}

/* --- dynamic embeddings ------------------------------------------------------------------------------------------- */

#define KEYS "input_layer/key_dynamic_embedding/embedding_weights/keys"

static est_feature find_key(void *user, const char *name)
{
    (void)name;
    return (est_feature){ *(const est_node *)user, EST_NO_NODE };
}

static est_node train_embedding(est_graph *graph, const est_column *column, est_node key)
{
    est_node layer = est_input_layer((est_features){ .graph = graph, .find = find_key, .user = &key },
                                     EST_COLUMN_LIST(column), NULL);

    return est_minimize(est_sgd(0.1), est_reduce_mean(est_square(layer), EST_I64S(0, 1), false), NULL);
}

static void train_keys(const coordinated *t, est_node key, est_node train, int first, int n)
{
    est_function *step = NULL;

    assert_ok(est_coordinator_function(t->coordinator, "keys", EST_NODES(key), EST_NO_NODES, EST_NODES(train), &step));
    for (int i = 0; i < n; i++) {
        int64_t     value  = first + i;
        est_tensor *tensor = NULL;

        assert_ok(est_tensor_create_from(EST_I64, EST_SHAPE(1, 1), &value, &tensor));
        assert_ok(
            est_coordinator_schedule(t->coordinator, step, EST_ARGUMENTS({ .node = key, .value = tensor }), NULL));
        est_tensor_free(tensor);
    }
    assert_ok(est_coordinator_join(t->coordinator));
    est_function_free(step);
}

static int64_t count_keys(const coordinated *t)
{
    est_tensor *keys = NULL;
    int64_t     n;

    assert_ok(est_session_read(est_coordinator_session(t->coordinator), KEYS, &keys));
    n = est_tensor_count(keys);
    est_tensor_free(keys);
    return n;
}

/* The keys return with the other variables: to those of the checkpoint, or to none. */
static void restart_with_keys(const char *dir)
{
    coordinated       t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    est_columns      *columns = est_columns_create();
    const est_column *column  = est_dynamic_embedding_column(columns, "key", EST_I64, 2, NULL);
    est_node          key     = est_placeholder(t.graph, "key", EST_I64, EST_SHAPE(-1, 1));
    est_node          train   = train_embedding(t.graph, column, key);

    coordinated_start(&t, OPTIONS(dir));
    train_keys(&t, key, train, 0, 3);
    if (dir != NULL) assert_ok(est_coordinator_save(t.coordinator, 1));
    train_keys(&t, key, train, 10, 4);
    assert_int_equal(count_keys(&t), 7);
    coordinated_kill(&t);
    coordinated_start(&t, OPTIONS(dir));
    assert_int_equal(count_keys(&t), dir != NULL ? 3 : 0);
    train_keys(&t, key, train, 10, 2);
    assert_int_equal(count_keys(&t), dir != NULL ? 5 : 2);
    coordinated_end(&t);
    est_columns_free(columns);
}

TEST(embedding_without_checkpoint)
{
    restart_with_keys(NULL);
}

TEST(embedding_with_checkpoint)
{
    char dir[64];

    est_test_dir(dir);
    restart_with_keys(dir);
    est_test_dir_remove(dir);
}
