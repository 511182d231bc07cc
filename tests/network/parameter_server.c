/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks over parameter servers, in a cluster of this process: one worker trains as the default strategy does, two
 * learn as well, steps are made once whatever is lost, evaluation counts every example once, and a program that is
 * started again goes on. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "data/stage.h"
#include "estoc/local_cluster.h"
#include "network/network.h"
#include "network/network_test.h"

#define ROWS   24
#define BATCH  6
#define STEPS  3 /* of 4 batches: the next epoch begins in the middle of the rows */
#define EPOCHS 3

typedef struct job {
    est_local_cluster *cluster;
    est_strategy      *strategy;
    est_tensor        *x, *y;
    est_dataset       *rows; /* batches, once */
} job;

/* Labels that can be learned from the inputs. */
static job begin(int ps, int workers)
{
    job          j = { .x = noise(ROWS, 3, 1), .y = noise(ROWS, 1, 2) };
    const float *x = est_tensor_data(j.x);
    float       *y = est_tensor_mutable_data(j.y);

    for (int i = 0; i < ROWS; i++) y[i] = x[3 * i] - 2 * x[3 * i + 1] + x[3 * i + 2] / 2;
    assert_ok(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = ps, .workers = workers), &j.cluster));
    assert_ok(est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(j.cluster), .round_robin = true), &j.strategy));
    j.rows = batches(EST_NAMED_TENSORS({ "x", j.x }, { "y", j.y }), BATCH);
    return j;
}

static void end(job *j)
{
    est_strategy_free(j->strategy);
    est_local_cluster_free(j->cluster);
    est_dataset_free(j->rows);
    est_tensor_free(j->x);
    est_tensor_free(j->y);
}

/* Two layers and an optimizer with slots. */
static est_network *make(const est_strategy *strategy, const char *dir)
{
    est_network *network;

    assert_ok(est_network_sequential(
        EST_LAYERS(est_layer_dense(5, EST_DENSE(.activation = est_relu)), est_layer_dense(1, NULL)),
        EST_NETWORK(.strategy = strategy, .seed = 3, .model_dir = dir, .threads = 1), &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam", .learning_rate = 0.05,
                                                       .metrics = EST_STRINGS("mae"))));
    return network;
}

static est_history *fit_from(est_network *network, const job *j, int64_t first, int64_t epochs, est_hooks callbacks)
{
    est_history *history = NULL;
    est_dataset *forever;

    assert_ok(est_dataset_finish(est_dataset_repeat(est_dataset_ref(j->rows), EST_FOREVER), &forever));
    assert_ok(
        est_network_fit(network,
                        EST_FIT(.input = forever, .initial_epoch = first, .epochs = epochs, .steps_per_epoch = STEPS,
                                .validation = j->rows, .callbacks = callbacks, .verbose = EST_VERBOSE_NONE),
                        &history));
    est_dataset_free(forever);
    return history;
}

static est_history *fit(est_network *network, const job *j, int64_t epochs, est_hooks callbacks)
{
    return fit_from(network, j, 0, epochs, callbacks);
}

static void expect_same_variables(est_network *a, est_network *b)
{
    expect_same_variable(a, b, "dense/kernel");
    expect_same_variable(a, b, "dense/bias");
    expect_same_variable(a, b, "dense_1/kernel");
    expect_same_variable(a, b, "dense_1/bias");
}

static int64_t global_step(est_network *network)
{
    est_tensor *value;
    int64_t     step;

    assert_ok(est_session_read(est_network_session(network), "global_step", &value));
    step = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    return step;
}

/* With one worker calls are made in their order: variables, logs and predictions are those of one process, bit for
 * bit; validation adds the same sums. */
TEST(one_worker)
{
    job          j = begin(2, 1);
    est_network *a = make(NULL, NULL), *b = make(j.strategy, NULL);
    est_history *want = fit(a, &j, EPOCHS, (est_hooks){ 0 }), *have = fit(b, &j, EPOCHS, (est_hooks){ 0 });
    est_tensor  *p, *q;

    assert_int_equal(est_history_epochs(have), EPOCHS);
    assert_int_equal(est_history_count(have), est_history_count(want));
    for (int k = 0; k < est_history_count(want); k++) {
        const char *name = est_history_name(want, k);

        for (int i = 0; i < EPOCHS; i++) {
            assert_true(est_history_value(have, name, i) == est_history_value(want, name, i));
        }
    }
    expect_same_variables(a, b);
    assert_int_equal(global_step(b), EPOCHS * STEPS);
    assert_ok(est_network_predict(a, EST_NETWORK_PREDICT(.input = j.rows), &p));
    assert_ok(est_network_predict(b, EST_NETWORK_PREDICT(.input = j.rows), &q));
    assert_int_equal(est_tensor_count(q), ROWS);
    assert_memory_equal(est_tensor_data(p), est_tensor_data(q), est_tensor_bytes(p));
    est_tensor_free(p);
    est_tensor_free(q);
    est_history_free(want);
    est_history_free(have);
    est_network_free(a);
    est_network_free(b);
    end(&j);
}

/* A network leaves the cluster to another one, with which all begins again. */
TEST(left)
{
    job          j = begin(1, 1);
    est_network *a = make(j.strategy, NULL), *b = make(j.strategy, NULL);

    est_network_leave(NULL);
    est_history_free(fit(a, &j, EPOCHS, (est_hooks){ 0 }));
    est_network_leave(a);
    est_history_free(fit(b, &j, 1, (est_hooks){ 0 }));
    assert_int_equal(global_step(b), STEPS);
    est_network_leave(b);
    assert_int_equal(global_step(a), 0); /* connected again */
    est_network_free(b);                 /* ends nothing */
    est_history_free(fit(a, &j, 1, (est_hooks){ 0 }));
    assert_int_equal(global_step(a), STEPS);
    est_network_free(a);
    end(&j);
}

static void use_weights(const job *j, const est_strategy *strategy, double *out, est_network **network)
{
    float             half[ROWS];
    est_tensor       *w;
    est_named_tensors all;
    est_dataset      *d, *forever;
    est_history      *history;
    int               n = 0;

    for (int i = 0; i < ROWS; i++) half[i] = i % 2 == 0 ? 1 : 0.5f;
    w   = floats(EST_SHAPE(ROWS), half);
    all = EST_NAMED_TENSORS({ "x", j->x }, { "y", j->y }, { "sample_weight", w });
    d   = batches(all, BATCH);
    assert_ok(est_dataset_finish(est_dataset_repeat(est_dataset_ref(d), EST_FOREVER), &forever));
    *network = make(strategy, NULL);
    for (int i = 0; i < 2; i++) {
        assert_ok(est_network_compile(*network, EST_COMPILE(.loss = "mae", .optimizer = i == 0 ? "adagrad" : "sgd",
                                                            .metrics          = EST_STRINGS("mse"),
                                                            .weighted_metrics = EST_STRINGS("mae"))));
        assert_ok(est_network_fit(*network,
                                  EST_FIT(.input = forever, .epochs = 2, .steps_per_epoch = STEPS, .validation = d,
                                          .verbose = EST_VERBOSE_NONE),
                                  &history));
        for (int k = 0; k < est_history_count(history); k++) {
            out[n++] = est_history_value(history, est_history_name(history, k), 1);
        }
        est_history_free(history);
        assert_ok(est_network_train_on_batch(*network, all, &out[n]));
        n += est_network_metrics(*network);
        assert_ok(est_network_test_on_batch(*network, all, &out[n]));
        n += est_network_metrics(*network);
    }
    est_dataset_free(d);
    est_dataset_free(forever);
    est_tensor_free(w);
}

/* Sample weights, weighted metrics and batches of the program's own, also bit for bit; a second compile, too. */
TEST(weights)
{
    job          j = begin(2, 1);
    double       want[2 * (6 + 3 + 3)], have[2 * (6 + 3 + 3)];
    est_network *a, *b;

    use_weights(&j, NULL, want, &a);
    use_weights(&j, j.strategy, have, &b);
    for (int i = 0; i < (int)(sizeof want / sizeof want[0]); i++) assert_true(have[i] == want[i]);
    expect_same_variables(a, b);
    est_network_free(a);
    est_network_free(b);
    end(&j);
}

/* An embedding, whose gradients are sparse, a network that is a part of another, moving averages, a loss of the model's
 * own, and two outputs. */
static est_node many_parts(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_flatten(est_embedding(est_network_input_node(inputs, "id"), 9, 2, NULL)), one, two;

    (void)graph;
    x = est_concat(EST_NODES(x, est_network_apply(user, inputs, training)), -1);
    x = est_batch_norm(est_dense(x, 5, EST_DENSE(.activation = est_relu)), training, NULL);
    est_add_loss(est_scale(est_mean(est_square(x)), 0.01));
    one = est_dense(x, 1, EST_DENSE(.name = "one"));
    two = est_dense(x, 1, EST_DENSE(.name = "two", .kernel_regularizer = est_l2_regularizer(0.01)));
    return est_outputs(EST_NODES(one, two));
}

static est_history *fit_many_parts(const job *j, const est_strategy *strategy, est_network **part, est_network **out)
{
    est_history *history;
    est_tensor  *id;
    est_dataset *d, *forever;
    int64_t      ids[2 * ROWS];

    for (int i = 0; i < 2 * ROWS; i++) ids[i] = i * 5 % 9;
    assert_ok(est_tensor_i64(EST_SHAPE(ROWS, 2), ids, &id));
    d = batches(EST_NAMED_TENSORS({ "id", id }, { "x", j->x }, { "one", j->y }, { "two", j->y }), BATCH);
    assert_ok(est_dataset_finish(est_dataset_repeat(est_dataset_ref(d), EST_FOREVER), &forever));
    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, EST_DENSE(.activation = est_tanh))),
                                     EST_NETWORK(.name = "part", .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })),
                                     part));
    assert_ok(est_network_create(
        many_parts,
        EST_NETWORK(.strategy = strategy, .seed = 3, .threads = 1, .user = *part, .outputs = EST_STRINGS("one", "two")),
        out));
    assert_ok(est_network_compile(
        *out, EST_COMPILE(.optimizer = "adam",
                          .outputs   = EST_COMPILE_OUTPUTS({ "one", .loss = "mse", .metrics = EST_STRINGS("mae") },
                                                           { "two", .loss = "huber", .loss_weight = 0.5 }))));
    assert_ok(est_network_fit(*out,
                              EST_FIT(.input = forever, .epochs = EPOCHS, .steps_per_epoch = STEPS, .validation = d,
                                      .verbose = EST_VERBOSE_NONE),
                              &history));
    est_dataset_free(d);
    est_dataset_free(forever);
    est_tensor_free(id);
    return history;
}

TEST(many_parts)
{
    static const char *const names[] = { "embedding/embeddings",           "dense/kernel", "dense_1/kernel",
                                         "batch_normalization/gamma",      "one/kernel",   "two/kernel",
                                         "batch_normalization/moving_mean" };

    job          j = begin(2, 1);
    est_network *network[2], *part[2];
    est_history *a = fit_many_parts(&j, NULL, &part[0], &network[0]),
                *b = fit_many_parts(&j, j.strategy, &part[1], &network[1]);

    assert_int_equal(est_history_count(b), 8);
    for (int k = 0; k < est_history_count(a); k++) {
        const char *name = est_history_name(a, k);

        for (int i = 0; i < EPOCHS; i++) assert_true(est_history_value(b, name, i) == est_history_value(a, name, i));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) expect_same_variable(network[0], network[1], names[i]);
    est_history_free(a);
    est_history_free(b);
    for (int i = 0; i < 2; i++) {
        est_network_free(network[i]);
        est_network_free(part[i]);
    }
    end(&j);
}

/* Rows with a class, which a worker makes with its own function: they could not travel. */
typedef struct classes {
    est_tensor *x, *y;
} classes;

static est_status keep_rows(void *user, const est_field *in, est_field *out)
{
    (void)user;
    for (int i = 0; i < 2; i++) out[i].values = est_tensor_ref(in[i].values);
    return EST_OK;
}

static est_status make_rows(const est_input_context *context, void *user, est_dataset **out)
{
    const classes *c = user;
    est_dataset   *d = est_dataset_slices(EST_NAMED_TENSORS({ "x", c->x }, { "y", c->y }));

    assert_memory_equal(context->params, "abc", 3);
    d = est_dataset_map(d, keep_rows,
                        EST_MAP(.components = EST_COMPONENTS({ "x", EST_F32, EST_SHAPE(3) }, { "y", EST_I64 })));
    return est_dataset_finish(est_dataset_repeat(est_dataset_batch(d, BATCH, NULL), EST_FOREVER), out);
}

static est_network *fit_classes(const est_strategy *strategy, const classes *c, est_f64s weights, bool by_name,
                                est_history **history)
{
    est_dataset *rows = batches(EST_NAMED_TENSORS({ "x", c->x }, { "y", c->y }), BATCH);
    est_network *network;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, NULL)),
                                     EST_NETWORK(.strategy = strategy, .seed = 3, .threads = 1), &network));
    assert_ok(est_network_compile(
        network, EST_COMPILE(.loss_value = est_loss_value_sparse_categorical_crossentropy(true), .optimizer = "adam",
                             .weighted_metrics = EST_STRINGS("sparse_categorical_accuracy"))));
    if (strategy == NULL) assert_ok(est_dataset_finish(est_dataset_repeat(rows, EST_FOREVER), &rows));
    assert_ok(
        est_network_fit(network,
                        EST_FIT(.input = rows, .epochs = EPOCHS, .steps_per_epoch = STEPS, .class_weight = weights,
                                .verbose = EST_VERBOSE_NONE, .input_function = by_name ? "rows" : NULL,
                                .input_params = by_name ? "abc" : NULL, .input_params_size = by_name ? 3 : 0),
                        history));
    est_dataset_free(rows);
    return network;
}

/* Weights of classes, and datasets by name: one worker trains as one process does. */
TEST(classes_by_name)
{
    classes            c = { .x = noise(ROWS, 3, 1) };
    int64_t            y[ROWS];
    est_local_cluster *cluster;
    est_strategy      *strategy;
    est_network       *a, *b;
    est_history       *want, *have;

    for (int i = 0; i < ROWS; i++) y[i] = i * 7 % 3;
    assert_ok(est_tensor_i64(EST_SHAPE(ROWS), y, &c.y));
    assert_ok(est_local_cluster_create(
        EST_LOCAL_CLUSTER(.ps = 1, .workers = 1,
                          .server = EST_SERVER(.functions = EST_WORKER_FUNCTIONS(
                                                   { .name = "rows", .input_fn = make_rows, .user = &c }))),
        &cluster));
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(cluster)),
                                            &strategy));
    for (int by_name = 0; by_name < 2; by_name++) {
        a = fit_classes(NULL, &c, EST_F64S(1, 0.25, 3), false, &want);
        b = fit_classes(strategy, &c, EST_F64S(1, 0.25, 3), by_name == 1, &have);
        for (int i = 0; i < EPOCHS; i++) {
            assert_true(est_history_value(have, "loss", i) == est_history_value(want, "loss", i));
            assert_true(est_history_value(have, "sparse_categorical_accuracy", i) ==
                        est_history_value(want, "sparse_categorical_accuracy", i));
        }
        expect_same_variable(a, b, "dense/kernel");
        est_history_free(want);
        est_history_free(have);
        est_network_free(a);
        b->failed = by_name == 0; /* the other tasks are needed once more */
        est_network_free(b);
    }
    est_strategy_free(strategy);
    est_local_cluster_free(cluster);
    est_tensor_free(c.x);
    est_tensor_free(c.y);
}

/* Two make them in any order, each with all rows in an order of its own. */
TEST(two_workers)
{
    job               j       = begin(2, 2);
    est_named_tensors arrays  = EST_NAMED_TENSORS({ "x", j.x }, { "y", j.y });
    est_network      *network = make(j.strategy, NULL);
    est_history      *history;

    assert_ok(est_network_fit(network,
                              EST_FIT(.arrays = arrays, .batch_size = BATCH, .epochs = 60, .steps_per_epoch = STEPS,
                                      .verbose = EST_VERBOSE_NONE),
                              &history));
    assert_int_equal(est_history_epochs(history), 60);
    assert_true(est_history_value(history, "loss", 59) < 0.1 * est_history_value(history, "loss", 0));
    assert_int_equal(global_step(network), 60 * STEPS);
    est_history_free(history);
    est_network_free(network);
    end(&j);
}

/* By two workers, in shards: the values of one process, but for the order of sums. */
TEST(evaluation)
{
    job          j = begin(1, 2);
    est_network *a = make(NULL, NULL), *b = make(j.strategy, NULL);
    est_metrics *want, *have;

    for (int64_t steps = 0; steps <= 3; steps += 3) { /* all; three of four batches */
        assert_ok(est_network_evaluate(a, EST_NETWORK_EVALUATE(.input = j.rows, .steps = steps), &want));
        assert_ok(est_network_evaluate(b, EST_NETWORK_EVALUATE(.input = j.rows, .steps = steps), &have));
        assert_near(est_metrics_get(have, "loss"), est_metrics_get(want, "loss"), 1e-6);
        assert_near(est_metrics_get(have, "mae"), est_metrics_get(want, "mae"), 1e-6);
        est_metrics_free(want);
        est_metrics_free(have);
    }
    assert_ok(est_network_evaluate(b,
                                   EST_NETWORK_EVALUATE(.arrays     = EST_NAMED_TENSORS({ "x", j.x }, { "y", j.y }),
                                                        .batch_size = 7, .verbose = EST_VERBOSE_NONE),
                                   &have));
    assert_ok(est_network_evaluate(a, EST_NETWORK_EVALUATE(.input = j.rows), &want));
    assert_near(est_metrics_get(have, "loss"), est_metrics_get(want, "loss"), 1e-6);
    est_metrics_free(want);
    est_metrics_free(have);
    est_network_free(a);
    est_network_free(b);
    end(&j);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

/* A callback that starts another thread at the beginning of epoch 1, which loses a task. */
typedef struct thief {
    est_hook     hook;
    const job   *job;
    est_network *network;
    bool         worker_first; /* the worker is lost before the thread starts */
    void *(*steal)(void *user);
    pthread_t    thread;
    _Atomic bool holds; /* the epoch may begin */
    est_status   status;
} thief;

static bool await(const thief *own, bool (*there)(est_coordinator_stats stats))
{
    int64_t until = est_now_ns() + est_secs_to_ns(20);

    while (!there(est_coordinator_get_stats(own->network->coordinator)) && est_now_ns() < until) est_sleep_ns(100000);
    return there(est_coordinator_get_stats(own->network->coordinator));
}

static bool is_under_way(est_coordinator_stats stats)
{
    return stats.under_way >= stats.workers;
}

static bool is_lost(est_coordinator_stats stats)
{
    return stats.workers_lost > 0;
}

/* Holds a ps task, so that calls are under way for long, and loses a worker meanwhile. */
static void *steal_worker(void *user)
{
    thief      *own = user;
    est_server *ps  = est_local_cluster_server(own->job->cluster, "ps", 0);

    pthread_mutex_lock(&ps->host_lock);
    own->holds  = true;
    own->status = EST_DEADLINE_EXCEEDED;
    if (await(own, is_under_way)) own->status = est_local_cluster_lose(own->job->cluster, "worker", 0);
    if (own->status == EST_OK && !await(own, is_lost)) own->status = EST_DEADLINE_EXCEEDED;
    pthread_mutex_unlock(&ps->host_lock);
    if (own->status == EST_OK) own->status = est_local_cluster_restart(own->job->cluster, "worker", 0);
    return NULL;
}

static est_status start_thief(est_hook *hook, est_loop *loop)
{
    thief *own = EST_CONTAINER_OF(hook, thief, hook);

    if (est_loop_epoch(loop) != 1) return EST_OK;
    if (own->worker_first) assert_ok(est_local_cluster_lose(own->job->cluster, "worker", 0));
    assert_int_equal(pthread_create(&own->thread, NULL, own->steal, own), 0);
    while (!own->holds) est_sleep_ns(100000);
    return EST_OK;
}

/* A worker is lost while it runs a step: every step is applied once. */
TEST(lost_worker)
{
    job          j       = begin(2, 2);
    est_network *network = make(j.strategy, NULL);
    thief t = { .hook = EST_HOOK(.epoch_begin = start_thief), .job = &j, .network = network, .steal = steal_worker };
    est_history *history;

    assert_ok(est_network_fit(network,
                              EST_FIT(.input = j.rows, .epochs = 3, .steps_per_epoch = 100,
                                      .callbacks = EST_HOOKS(&t.hook), .verbose = EST_VERBOSE_LINES),
                              &history));
    assert_int_equal(pthread_join(t.thread, NULL), 0);
    assert_int_equal(t.status, EST_OK);
    assert_true(est_coordinator_get_stats(network->coordinator).retried > 0);
    assert_int_equal(global_step(network), 3 * 100);
    assert_true(est_history_value(history, "loss", 2) < est_history_value(history, "loss", 0));
    est_history_free(history);
    est_network_free(network);
    end(&j);
}

/* A ps task is lost between two fits: its variables return to the checkpoint at the end of the first, and everything is
 * as without the loss. */
TEST(lost_ps)
{
    job          j = begin(1, 1);
    char         dir[64];
    est_network *a = make(NULL, NULL), *b;
    est_history *want, *have;

    est_test_dir(dir);
    b = make(j.strategy, dir);
    est_history_free(fit(a, &j, EPOCHS - 1, (est_hooks){ 0 }));
    est_history_free(fit(b, &j, EPOCHS - 1, (est_hooks){ 0 }));
    assert_ok(est_local_cluster_restart(j.cluster, "ps", 0));
    want = fit_from(a, &j, EPOCHS - 1, EPOCHS, (est_hooks){ 0 });
    have = fit_from(b, &j, EPOCHS - 1, EPOCHS, (est_hooks){ 0 });
    assert_int_equal(est_coordinator_get_stats(b->coordinator).ps_lost, 1);
    assert_true(est_history_value(have, "loss", 0) == est_history_value(want, "loss", 0));
    assert_true(est_history_value(have, "val_loss", 0) == est_history_value(want, "val_loss", 0));
    expect_same_variables(a, b);
    est_history_free(want);
    est_history_free(have);
    est_network_free(a);
    est_network_free(b);
    est_test_dir_remove(dir);
    end(&j);
}

static bool is_queued(est_coordinator_stats stats)
{
    return stats.queued >= STEPS;
}

/* Without a worker no step of the epoch is made before the ps task is lost. */
static void *steal_ps(void *user)
{
    thief *own = user;

    own->holds  = true;
    own->status = await(own, is_queued) ? est_local_cluster_restart(own->job->cluster, "ps", 0) : EST_DEADLINE_EXCEEDED;
    if (own->status == EST_OK) own->status = est_local_cluster_restart(own->job->cluster, "worker", 0);
    return NULL;
}

/* It is lost in an epoch: all variables, those of metrics as well, return to the checkpoint at its beginning. */
TEST(lost_ps_in_an_epoch)
{
    job          j = begin(1, 1);
    char         dir[64];
    est_network *a = make(NULL, NULL), *b;
    est_history *want, *have;
    thief t = { .hook = EST_HOOK(.epoch_begin = start_thief), .job = &j, .steal = steal_ps, .worker_first = true };

    est_test_dir(dir);
    b = t.network = make(j.strategy, dir);
    want          = fit(a, &j, EPOCHS, (est_hooks){ 0 });
    have          = fit(b, &j, EPOCHS, EST_HOOKS(&t.hook));
    assert_int_equal(pthread_join(t.thread, NULL), 0);
    assert_int_equal(t.status, EST_OK);
    assert_int_equal(est_coordinator_get_stats(b->coordinator).ps_lost, 1);
    assert_int_equal(global_step(b), EPOCHS * STEPS);
    for (int i = 0; i < EPOCHS; i++) {
        assert_true(est_history_value(have, "loss", i) == est_history_value(want, "loss", i));
        assert_true(est_history_value(have, "mae", i) == est_history_value(want, "mae", i));
    }
    expect_same_variables(a, b);
    est_history_free(want);
    est_history_free(have);
    est_network_free(a);
    est_network_free(b);
    est_test_dir_remove(dir);
    end(&j);
}

/* Without checkpoints there is nothing to go on from. */
TEST(lost_ps_without_checkpoints)
{
    job          j       = begin(1, 1);
    est_network *network = make(j.strategy, NULL);

    est_history_free(fit(network, &j, 1, (est_hooks){ 0 }));
    assert_ok(est_local_cluster_restart(j.cluster, "ps", 0));
    expect_error(
        est_network_fit(network, EST_FIT(.input = j.rows, .steps_per_epoch = 1, .verbose = EST_VERBOSE_NONE), NULL),
        EST_FAILED_PRECONDITION, "ps:0 lost the values of its variables");
    est_network_free(network);
    end(&j);
}

/* A program that ends in the middle of an epoch and is started again: it goes on with that epoch, from the variables,
 * the state of the optimizer and the positions of the input at its beginning, also when it asks for its session before
 * the fit. Then it has nothing left to do. */
static est_status give_up(est_hook *hook, est_loop *loop)
{
    (void)hook;
    return est_loop_epoch(loop) == 1 ? est_fail(EST_ABORTED, "the test ends the program") : EST_OK;
}

/* As a machine does that is to be switched off. */
static est_status stop_by_signal(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_epoch(loop) == 1) (void)raise(SIGTERM);
    return EST_OK;
}

static void resume_after(bool early, est_hook quits, est_status code, const char *text)
{
    job          j = begin(2, 1);
    char         dir[64];
    est_network *a    = make(NULL, NULL), *b;
    est_history *want = fit(a, &j, EPOCHS, (est_hooks){ 0 }), *have = NULL;

    est_test_dir(dir);
    b = make(j.strategy, dir);
    expect_error(est_network_fit(b,
                                 EST_FIT(.input = j.rows, .epochs = EPOCHS, .steps_per_epoch = STEPS,
                                         .callbacks = EST_HOOKS(&quits), .verbose = EST_VERBOSE_NONE),
                                 &have),
                 code, text);
    assert_null(have);
    est_network_free(b); /* the tasks keep running */
    b = make(j.strategy, dir);
    if (early) {
        assert_ok(est_network_build(b, j.rows));
        assert_non_null(est_network_session(b));
    }
    have = fit(b, &j, EPOCHS, (est_hooks){ 0 });
    assert_int_equal(est_history_epochs(have), EPOCHS - 1);
    assert_int_equal(est_history_epoch(have, 0), 1);
    for (int i = 1; i < EPOCHS; i++) {
        assert_true(est_history_value(have, "loss", i - 1) == est_history_value(want, "loss", i));
        assert_true(est_history_value(have, "val_mae", i - 1) == est_history_value(want, "val_mae", i));
    }
    expect_same_variables(a, b);
    est_history_free(have);
    b->failed = true; /* as if the program were killed */
    est_network_free(b);
    b    = make(j.strategy, dir);
    have = fit(b, &j, EPOCHS, (est_hooks){ 0 });
    assert_int_equal(est_history_epochs(have), 0);
    expect_same_variables(a, b);
    est_history_free(have);
    est_history_free(want);
    est_network_free(a);
    est_network_free(b);
    est_test_dir_remove(dir);
    end(&j);
}

TEST(started_again)
{
    resume_after(false, (est_hook)EST_HOOK(.epoch_end = give_up), EST_ABORTED, "the test ends the program");
}

TEST(started_again_and_asked_early)
{
    resume_after(true, (est_hook)EST_HOOK(.epoch_end = give_up), EST_ABORTED, "the test ends the program");
}

TEST(signalled)
{
    resume_after(false, (est_hook)EST_HOOK(.epoch_begin = stop_by_signal), EST_CANCELLED, "SIGTERM");
}

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

static double third(int64_t epoch, double rate, void *user)
{
    (void)epoch, (void)user;
    return rate / 3;
}

typedef struct counter {
    est_hook hook;
    int      begins, ends, runs, over;
    double   loss;
} counter;

static est_status count_begin(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, counter, hook)->begins++;
    return EST_OK;
}

static est_status count_run(est_hook *hook, est_loop *loop)
{
    counter *own = EST_CONTAINER_OF(hook, counter, hook);

    own->runs++;
    own->loss = est_loop_loss(loop);
    assert_int_equal(est_loop_runs(loop), own->runs * STEPS);
    assert_int_equal(est_loop_global_step(loop), own->runs * STEPS);
    return EST_OK;
}

static est_status count_end(est_hook *hook, est_loop *loop)
{
    counter *own = EST_CONTAINER_OF(hook, counter, hook);

    assert_true(est_loop_log(loop, "loss") == own->loss);
    own->ends++;
    return EST_OK;
}

static est_status count_over(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, counter, hook)->over++;
    return EST_OK;
}

/* A schedule changes the variable at the ps task; a hook sees epochs, and after_run once in each. */
TEST(callbacks)
{
    job          j = begin(1, 1);
    est_network *a = make(NULL, NULL), *b = make(j.strategy, NULL);
    est_hook    *rate = est_learning_rate_callback(third, NULL), *nan = est_terminate_on_nan_callback();
    est_history *want = fit(a, &j, EPOCHS, EST_HOOKS(rate)), *have;
    counter      c    = { .hook = EST_HOOK(.epoch_begin = count_begin, .after_run = count_run, .epoch_end = count_end,
                                           .end = count_over) };

    have = fit(b, &j, EPOCHS, EST_HOOKS(rate, nan, &c.hook));
    assert_int_equal(c.begins, EPOCHS);
    assert_int_equal(c.runs, EPOCHS);
    assert_int_equal(c.ends, EPOCHS);
    assert_int_equal(c.over, 1);
    assert_near(est_network_learning_rate(b), 0.05 / 27, 1e-8);
    for (int i = 0; i < EPOCHS; i++) {
        assert_true(est_history_value(have, "loss", i) == est_history_value(want, "loss", i));
        assert_true(est_history_value(have, "lr", i) == est_history_value(want, "lr", i) ||
                    isnan(est_history_value(want, "lr", i)));
    }
    expect_same_variables(a, b);
    est_hook_free(rate);
    est_hook_free(nan);
    est_history_free(want);
    est_history_free(have);
    est_network_free(a);
    est_network_free(b);
    end(&j);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

TEST(refused)
{
    job               j       = begin(1, 1);
    est_named_tensors arrays  = EST_NAMED_TENSORS({ "x", j.x }, { "y", j.y });
    est_network      *network = make(j.strategy, NULL);
    est_hook         *backup  = est_backup_callback("nowhere", NULL);
    est_hook          seen    = EST_HOOK(.after_run = NULL);
    est_strategy     *alone;

    expect_error(est_network_fit(network, EST_FIT(.input = j.rows), NULL), EST_INVALID_ARGUMENT,
                 "steps_per_epoch is not set");
    expect_error(est_network_fit(network, EST_FIT(.arrays = arrays), NULL), EST_INVALID_ARGUMENT,
                 "steps_per_epoch is not set");
    expect_error(
        est_network_fit(network, EST_FIT(.input = j.rows, .steps_per_epoch = 2, .callbacks = EST_HOOKS(backup)), NULL),
        EST_INVALID_ARGUMENT, "leave out est_backup_callback");
    expect_error(est_network_fit(network,
                                 EST_FIT(.input = j.rows, .steps_per_epoch = 2, .validation = j.rows,
                                         .validation_callbacks = EST_HOOKS(&seen)),
                                 NULL),
                 EST_INVALID_ARGUMENT, "leave out validation_callbacks");
    est_network_free(network);
    network = make(NULL, NULL);
    expect_error(
        est_network_fit(network, EST_FIT(.input = j.rows, .steps_per_epoch = 2, .input_function = "rows"), NULL),
        EST_INVALID_ARGUMENT, "which workers of parameter servers call");
    expect_error(est_network_fit(network, EST_FIT(.arrays = arrays, .input_function = "rows"), NULL),
                 EST_INVALID_ARGUMENT, "input is NULL; set it to a dataset of the same components");
    est_network_free(network);
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.cluster_json = "{}"), &alone));
    network = make(alone, NULL);
    expect_error(est_network_fit(network, EST_FIT(.input = j.rows, .steps_per_epoch = 2), NULL), EST_INVALID_ARGUMENT,
                 "a coordinator needs a parameter_server strategy with a cluster");
    assert_null(est_network_session(network));
    est_network_free(network);
    est_strategy_free(alone);
    est_hook_free(backup);
    end(&j);
}

/* Opening a fit, up to its first step, and a prediction. There is no worker. */
static est_status quit(est_hook *hook, est_loop *loop)
{
    (void)hook, (void)loop;
    return est_fail(EST_CANCELLED, "enough");
}

static est_status use_all(const job *j)
{
    est_hook     quits   = EST_HOOK(.epoch_begin = quit);
    est_network *network = NULL;
    est_tensor  *out     = NULL;
    est_status   status  = try_line(EST_NETWORK(.strategy = j->strategy), &network);

    if (status == EST_OK) status = est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
    if (status == EST_OK) {
        status = est_network_fit(network,
                                 EST_FIT(.input = j->rows, .steps_per_epoch = 1, .callbacks = EST_HOOKS(&quits),
                                         .verbose = EST_VERBOSE_NONE),
                                 NULL);
        if (status == EST_CANCELLED) status = EST_OK;
    }
    if (status == EST_OK) status = est_network_predict(network, EST_NETWORK_PREDICT(.input = j->rows), &out);
    est_tensor_free(out);
    est_network_free(network);
    return status;
}

TEST(failed_allocations)
{
    job j = begin(1, 1);

    assert_ok(est_local_cluster_lose(j.cluster, "worker", 0));
    FAULT_LOOP(f, FAULT_PLACES, .depth = 2) {
        est_status status;

        fault_arm(&f);
        status = use_all(&j);
        if (!fault_end(&f)) assert_ok(status);
    }
    end(&j);
}

int main(void)
{
    (void)setenv("ESTOC_PROTOCOL", "tcp", 1);
    return est_test_run(NULL, NULL);
}
