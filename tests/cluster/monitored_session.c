/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitored sessions whose variables ps tasks have: a lost ps task comes back and training goes on, workers wait for
 * the chief and end at one step, a session at a target. */
#include "estoc/monitored.h"

#include <pthread.h>

#include "estoc/local_cluster.h"
#include "estoc/strategy.h"
#include "support/dir_test.h"
#include "support/log_test.h"
#include "support/nn_test.h"

#define TCP EST_SERVER(.transport = "tcp", .silence_secs = 2)

/* A worker: w and v are at different ps tasks, and each step adds 1 to both. */
typedef struct worker {
    est_server            *server;
    est_remote            *remote;
    est_graph             *graph;
    est_node               train;
    est_monitored_session *session;
} worker;

static est_local_cluster *start_cluster(int workers)
{
    est_local_cluster *cluster = NULL;

    log_keep(EST_LOG_INFO);
    assert_ok(est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 2, .workers = workers, .server = TCP), &cluster));
    return cluster;
}

static void build(worker *w)
{
    est_node one, w0, v, step;

    assert_ok(est_graph_create(3, &w->graph));
    est_graph_device(w->graph, "/job:ps/task:0");
    step = est_global_step(w->graph);
    w0   = est_weight(w->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_graph_device(w->graph, "/job:ps/task:1");
    v = est_weight(w->graph, "v", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    est_graph_device(w->graph, NULL);
    one      = est_scalar(w->graph, EST_F32, 1);
    w->train = est_assign_add(step, est_scalar(w->graph, EST_I64, 1));
    w->train = est_group(w->graph, EST_NODES(w->train, est_assign_add(w0, one), est_assign_add(v, one)));
    assert_ok(est_graph_status(w->graph));
}

static worker make_worker(est_local_cluster *cluster, const est_remote_options *options)
{
    worker w = { 0 };

    assert_ok(
        est_server_create(est_resolver_task(est_local_cluster_resolver(cluster))->cluster, NULL, 0, TCP, &w.server));
    assert_ok(est_remote_create(w.server, options, &w.remote));
    build(&w);
    return w;
}

static void free_worker(worker *w)
{
    est_monitored_session_free(w->session);
    est_remote_free(w->remote);
    est_server_free(w->server);
    est_graph_free(w->graph);
}

static est_status open_worker(worker *w, const char *dir, int64_t save_steps, est_hooks hooks)
{
    return est_monitored_session_create(w->graph,
                                        EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_steps = save_steps,
                                                      .hooks   = hooks,
                                                      .session = EST_SESSION(.threads = 1, .remote = w->remote)),
                                        &w->session);
}

static est_status train_once(worker *w)
{
    return est_monitored_session_run(w->session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(w->train), NULL);
}

static double value_of(worker *w, const char *name)
{
    est_tensor *value = NULL;
    double      number;

    assert_ok(est_session_read(est_monitored_session_raw(w->session), name, &value));
    number = nn_element(value, 0);
    est_tensor_free(value);
    return number;
}

/* Every ps task is lost and started again, in turn: with a checkpoint of every step nothing is lost. What the other
 * task had applied of the run that failed stays, so that it counts there twice. */
TEST(lost_ps)
{
    est_local_cluster *cluster = start_cluster(0);
    worker             chief   = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30));
    int64_t            step;
    char               dir[64];

    est_test_dir(dir);
    assert_ok(open_worker(&chief, dir, 1, (est_hooks){ 0 }));
    for (int i = 0; i < 6; i++) {
        if (i == 2 || i == 4) assert_ok(est_local_cluster_restart(cluster, "ps", i / 4));
        assert_ok(train_once(&chief));
        assert_true(est_monitored_session_global_step(chief.session) >= i + 1);
    }
    log_expect("info Restoring the variables of ps:0 from *model.ckpt-2; all others keep the values they have.");
    log_expect("info Restoring the variables of ps:1 from *model.ckpt-4; all others keep the values they have.");
    assert_ok(est_monitored_session_end(chief.session));
    step = est_monitored_session_global_step(chief.session);
    assert_in_range(step, 6, 7);
    assert_near(value_of(&chief, "w"), (double)step, 0);
    assert_in_range((int64_t)value_of(&chief, "v"), 6, 7);
    free_worker(&chief);

    chief = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30)); /* a chief that comes back */
    assert_ok(open_worker(&chief, dir, 1000, (est_hooks){ 0 }));
    log_expect("info All variables have values already: going on with them.");
    assert_int_equal(est_monitored_session_global_step(chief.session), step);
    assert_ok(train_once(&chief));
    free_worker(&chief);
    est_local_cluster_free(cluster);

    cluster = start_cluster(0); /* all tasks come back */
    chief   = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30));
    assert_ok(open_worker(&chief, dir, 1000, (est_hooks){ 0 }));
    assert_int_equal(est_monitored_session_global_step(chief.session), step);
    assert_near(value_of(&chief, "w"), (double)step, 0);
    free_worker(&chief);
    est_local_cluster_free(cluster);
    est_test_dir_remove(dir);
}

TEST(lost_ps_without_directory)
{
    est_local_cluster *cluster = start_cluster(0);
    worker             chief   = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30));

    assert_ok(open_worker(&chief, NULL, 0, (est_hooks){ 0 }));
    assert_ok(train_once(&chief));
    assert_ok(est_local_cluster_restart(cluster, "ps", 1));
    assert_int_equal(train_once(&chief), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), ", and the variables of ps:1 are lost: no checkpoint_dir was given"));
    free_worker(&chief);
    est_local_cluster_free(cluster);
}

/* The task that counts the steps is lost after the last run, before the last checkpoint. */
TEST(lost_ps_at_the_end)
{
    est_local_cluster *cluster = start_cluster(0);
    worker             chief   = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30));
    char               dir[64];

    est_test_dir(dir);
    assert_ok(open_worker(&chief, dir, 2, (est_hooks){ 0 }));
    for (int i = 0; i < 3; i++) assert_ok(train_once(&chief)); /* saved: 0 and 1, then every second */
    assert_ok(est_local_cluster_restart(cluster, "ps", 0));
    assert_int_equal(est_monitored_session_end(chief.session), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "go on with est_monitored_session_run"));
    assert_false(est_monitored_session_should_stop(chief.session));
    while (est_monitored_session_global_step(chief.session) < 3) assert_ok(train_once(&chief));
    assert_ok(est_monitored_session_end(chief.session));
    assert_near(value_of(&chief, "w"), 3, 0);
    free_worker(&chief);
    est_local_cluster_free(cluster);
    est_test_dir_remove(dir);
}

typedef struct other {
    worker     w;
    int        steps;
    est_status status;
} other;

/* A worker to its end. It is created before the chief, and waits for it. */
static void *run_other(void *user)
{
    other *o = user;

    o->status = open_worker(&o->w, NULL, 0, (est_hooks){ 0 });
    for (o->steps = 0; o->status == EST_OK; o->steps++) o->status = train_once(&o->w);
    o->steps--;
    if (o->status == EST_OUT_OF_RANGE) o->status = est_monitored_session_end(o->w.session);
    est_monitored_session_free(o->w.session);
    est_remote_free(o->w.remote);
    o->w.session = NULL;
    o->w.remote  = NULL;
    return NULL;
}

/* Two workers end at the limit together, and the last checkpoint has the steps of both. */
TEST(workers_and_chief)
{
    est_local_cluster *cluster = start_cluster(0);
    worker     chief = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30, .step_limit = 200));
    other      o     = { .w = make_worker(cluster, EST_REMOTE(.connect_secs = 30, .step_limit = 200)) };
    est_status status;
    pthread_t  thread;
    int        steps = 0;
    char       dir[64], name[128];

    est_test_dir(dir);
    assert_int_equal(pthread_create(&thread, NULL, run_other, &o), 0);
    assert_ok(open_worker(&chief, dir, 1000, (est_hooks){ 0 }));
    while ((status = train_once(&chief)) == EST_OK) steps++;
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_non_null(strstr(est_error_message(), "all steps were made"));
    assert_true(est_monitored_session_should_stop(chief.session));
    assert_ok(est_monitored_session_end(chief.session));
    pthread_join(thread, NULL);
    assert_int_equal(o.status, EST_OK);
    assert_int_equal(steps + o.steps, 200);
    assert_int_equal(est_monitored_session_global_step(chief.session), 200);
    assert_near(value_of(&chief, "v"), 200, 0);
    snprintf(name, sizeof name, "info Saving checkpoints for 200 into %s/model.ckpt.", dir);
    log_expect(name);
    free_worker(&o.w);
    free_worker(&chief);
    est_local_cluster_free(cluster);
    est_test_dir_remove(dir);
}

/* A stop that a hook of the chief requests holds for all: the other worker has no limit of its own. */
TEST(stop_for_all)
{
    est_local_cluster *cluster = start_cluster(0);
    worker             chief   = make_worker(cluster, EST_REMOTE(.is_chief = true, .connect_secs = 30));
    other              o       = { .w = make_worker(cluster, EST_REMOTE(.connect_secs = 30)) };
    est_hook          *stop    = est_stop_at_step_hook(0, 50);
    est_status         status;
    pthread_t          thread;

    assert_int_equal(pthread_create(&thread, NULL, run_other, &o), 0);
    assert_ok(open_worker(&chief, NULL, 0, EST_HOOKS(stop)));
    do status = train_once(&chief);
    while (status == EST_OK);
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_ok(est_monitored_session_end(chief.session));
    pthread_join(thread, NULL);
    assert_int_equal(o.status, EST_OK);
    assert_true(est_monitored_session_global_step(chief.session) >= 50);
    free_worker(&o.w);
    free_worker(&chief);
    est_hook_free(stop);
    est_local_cluster_free(cluster);
}

/* A session at a server, whose master drives the steps: it saves, and restores after a loss. */
TEST(at_a_target)
{
    est_local_cluster *cluster = start_cluster(1);
    worker             w       = { 0 };
    char               dir[64];

    est_test_dir(dir);
    build(&w);
    assert_ok(est_monitored_session_create(
        w.graph,
        EST_MONITORED(.checkpoint_dir = dir, .save_checkpoint_steps = 1,
                      .session = EST_SESSION(.target = est_server_target(
                                                 est_local_cluster_server(cluster, "worker", 0)),
                                             .connect_secs = 30)),
        &w.session));
    for (int i = 0; i < 4; i++) {
        if (i == 2) assert_ok(est_local_cluster_restart(cluster, "ps", 1));
        assert_ok(train_once(&w));
        assert_true(est_monitored_session_global_step(w.session) >= i + 1);
    }
    assert_ok(est_monitored_session_end(w.session));
    assert_near(value_of(&w, "w"), (double)est_monitored_session_global_step(w.session), 0);
    assert_near(value_of(&w, "v"), 4, 0); /* what ps:1 had applied of the run that failed is lost with it */
    free_worker(&w);
    est_local_cluster_free(cluster);
    est_test_dir_remove(dir);
}
