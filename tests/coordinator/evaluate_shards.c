/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact evaluation: all workers together get what one process gets, also when workers are lost. */
#include "base/clock.h"
#include "base/thread.h"
#include "estoc/metrics.h"
#include "graph/graph.h"
#include "support/coordinator_test.h"

#define ROWS    1000
#define OPTIONS EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS, .fail_after = 100)

typedef struct evaluated {
    est_node    label, predicted;
    est_metric  metrics[2]; /* accuracy, mean */
    est_tensor *labels, *predictions;
    double      expected[2];
} evaluated;

/* A prediction is right in two of three rows. */
static evaluated make_metrics(coordinated *t)
{
    evaluated e = { 0 };
    float     labels[ROWS], predictions[ROWS];
    double    right = 0, sum = 0;

    for (int i = 0; i < ROWS; i++) {
        labels[i]      = (float)(i % 7);
        predictions[i] = (float)(i % 3 == 0 ? 8 : i % 7);
        right += i % 3 != 0;
        sum += predictions[i];
    }
    e.expected[0] = right / ROWS;
    e.expected[1] = sum / ROWS;
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(ROWS), labels, &e.labels));
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(ROWS), predictions, &e.predictions));
    e.label      = est_placeholder(t->graph, "label", EST_F32, EST_SHAPE(-1));
    e.predicted  = est_placeholder(t->graph, "predicted", EST_F32, EST_SHAPE(-1));
    e.metrics[0] = est_accuracy(e.label, e.predicted);
    e.metrics[1] = est_metric_mean(e.predicted, NULL);
    return e;
}

static est_dataset *make_dataset(const evaluated *e, int64_t batch)
{
    est_dataset *dataset = NULL;

    assert_ok(est_dataset_finish(
        est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "label", e->labels }, { "p", e->predictions })), batch,
                          NULL),
        &dataset));
    return dataset;
}

static est_status evaluate(coordinated *t, const evaluated *e, const est_dataset *dataset,
                           const est_exact_options *options, double values[2])
{
    return est_coordinator_evaluate(
        t->coordinator, dataset,
        EST_ARGUMENTS({ .node = e->label, .component = "label" }, { .node = e->predicted, .component = "p" }),
        e->metrics, 2, options, values);
}

static void clear(evaluated *e)
{
    est_tensor_free(e->labels);
    est_tensor_free(e->predictions);
}

TEST(same_as_one_process)
{
    static const int64_t batches[] = { 1, 7, 32, 2000 };
    static const int     shards[]  = { 0, 1, 3, 50 };
    coordinated          t         = coordinated_begin(1, 3, (est_worker_functions){ 0 });
    evaluated            e         = make_metrics(&t);
    int32_t              size      = 0;

    coordinated_start(&t, OPTIONS);
    for (int i = 0; i < 4; i++) {
        est_dataset *dataset   = make_dataset(&e, batches[i]);
        double       values[2] = { 0 };

        assert_ok(evaluate(&t, &e, dataset, EST_EXACT(.shards = shards[i]), values));
        assert_near(values[0], e.expected[0], 1e-6);
        assert_near(values[1], e.expected[1], 1e-6);
        if (i == 0) size = est_graph_size(t.graph);
        assert_int_equal(est_graph_size(t.graph), size); /* evaluations do not make it grow */
        est_dataset_free(dataset);
    }
    clear(&e);
    coordinated_end(&t);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

typedef struct losing {
    coordinated    *t;
    bool            stop;
    pthread_mutex_t lock;
} losing;

static bool is_over(losing *l)
{
    bool stop;

    pthread_mutex_lock(&l->lock);
    stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop;
}

static void *lose_workers(void *arg)
{
    losing *l = arg;

    for (int i = 0; !is_over(l); i++) {
        if (est_local_cluster_restart(l->t->cluster, "worker", i % 2) != EST_OK) return NULL;
        est_sleep_ns(20000000);
    }
    return NULL;
}

TEST(workers_lost_meanwhile)
{
    coordinated  t = coordinated_begin(1, 2, (est_worker_functions){ 0 });
    evaluated    e = make_metrics(&t);
    losing       l = { .t = &t };
    est_dataset *dataset;
    est_thread   thread;

    coordinated_start(&t, OPTIONS);
    coordinated_await_here(&t, 2);
    dataset = make_dataset(&e, 1);
    assert_ok(est_lock_init(&l.lock));
    assert_ok(est_thread_start(&thread, "loser", lose_workers, &l));
    for (int i = 0; i < 3; i++) {
        double values[2] = { 0 };

        assert_ok(evaluate(&t, &e, dataset, EST_EXACT(.shards = 20), values));
        assert_near(values[0], e.expected[0], 1e-6);
        assert_near(values[1], e.expected[1], 1e-6);
    }
    pthread_mutex_lock(&l.lock);
    l.stop = true;
    pthread_mutex_unlock(&l.lock);
    est_thread_join(&thread);
    pthread_mutex_destroy(&l.lock);
    est_dataset_free(dataset);
    clear(&e);
    coordinated_end(&t);
}

/* An evaluation that ends early cancels its shards: a worker that comes later gets none of them. */
TEST(evaluation_without_worker)
{
    coordinated  t         = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    evaluated    e         = make_metrics(&t);
    est_dataset *dataset   = make_dataset(&e, 10);
    double       values[2] = { 0 };

    assert_ok(est_local_cluster_lose(t.cluster, "worker", 0));
    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .lonely_secs = 0.3));
    assert_int_equal(evaluate(&t, &e, dataset, EST_EXACT(.shards = 5), values), EST_DEADLINE_EXCEEDED);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).queued, 0);
    assert_ok(est_local_cluster_restart(t.cluster, "worker", 0));
    coordinated_await_here(&t, 1);
    assert_ok(evaluate(&t, &e, dataset, EST_EXACT(.shards = 5), values));
    assert_near(values[0], e.expected[0], 1e-6);
    assert_int_equal(est_coordinator_get_stats(t.coordinator).completed, 5); /* none of the first evaluation */
    est_dataset_free(dataset);
    clear(&e);
    coordinated_end(&t);
}

/* --- misuse ------------------------------------------------------------------------------------------------------- */

TEST(misuse)
{
    coordinated  t       = coordinated_begin(1, 1, (est_worker_functions){ 0 });
    evaluated    e       = make_metrics(&t);
    est_dataset *dataset = make_dataset(&e, 10), *endless = NULL;
    est_node     id = est_placeholder(t.graph, "id", EST_I64, EST_SHAPE(-1));
    double       values[2];

    coordinated_start(&t, OPTIONS);
    assert_int_equal(est_coordinator_evaluate(t.coordinator, dataset, EST_NO_ARGUMENTS, e.metrics, 0, NULL, values),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_coordinator_evaluate(t.coordinator, dataset, EST_ARGUMENTS({ .node = e.label }), e.metrics, 2,
                                              NULL, values),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_coordinator_evaluate(t.coordinator, dataset,
                                              EST_ARGUMENTS({ .node = e.label, .component = "label" },
                                                            { .node = e.predicted, .component = "none" }),
                                              e.metrics, 2, NULL, values),
                     EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "none"));
    assert_int_equal(est_coordinator_evaluate(
                         t.coordinator, dataset,
                         EST_ARGUMENTS({ .node = e.label, .component = "label" }, { .node = id, .component = "p" }),
                         e.metrics, 2, NULL, values),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "float32"));
    assert_ok(est_dataset_finish(est_dataset_repeat(make_dataset(&e, 10), EST_FOREVER), &endless));
    assert_int_equal(evaluate(&t, &e, endless, NULL, values), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no end"));
    est_dataset_free(endless);
    assert_int_equal(evaluate(&t, &e, dataset, EST_EXACT(.shards = -1), values), EST_INVALID_ARGUMENT);
    assert_ok(evaluate(&t, &e, dataset, NULL, values)); /* and it goes on */
    assert_near(values[0], e.expected[0], 1e-6);
    est_dataset_free(dataset);
    clear(&e);
    coordinated_end(&t);
}
