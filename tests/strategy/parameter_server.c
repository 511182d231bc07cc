/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameter_server strategy: what it refuses, and what each of its options does to sessions over real servers on
 * loopback. The rules of RunConfig about it are in tests/estimator/run_config.c, synchronous steps in
 * tests/cluster/sync_replicas.c. */
#include <pthread.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/wait_table.h"
#include "runtime/session.h"
#include "strategy/strategy.h"
#include "support/servers_test.h"
#include "train/saver_test.h"

/* --- options ------------------------------------------------------------------------------------------------------ */

static void expect_strategy_text(const est_strategy *s, const char *want)
{
    est_strbuf text = { 0 };

    est_strategy_text(s, &text);
    assert_string_equal(est_strbuf_text(&text), want);
    est_strbuf_clear(&text);
}

TEST(options)
{
    est_strategy   *s           = NULL;
    est_partitioner partitioner = est_fixed_shards(3);

    assert_ok(est_parameter_server_strategy(NULL, &s));
    assert_string_equal(est_strategy_name(s), "parameter_server");
    assert_false(est_strategy_needs_no_chief(s));
    expect_strategy_text(s, "{\"name\": \"parameter_server\", \"sync_replicas\": 0, \"max_staleness\": 0, "
                            "\"consistent_checkpoints\": false, \"round_robin\": false, \"partitioner\": null}");
    est_strategy_free(s);
    s = NULL;
    assert_ok(est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.partitioner = &partitioner, .round_robin = true, .max_staleness = 4), &s));
    partitioner.n = 7; /* it was copied */
    expect_strategy_text(
        s, "{\"name\": \"parameter_server\", \"sync_replicas\": 0, \"max_staleness\": 4, "
           "\"consistent_checkpoints\": false, \"round_robin\": true, \"partitioner\": {\"bytes\": 0, \"n\": 3}}");
    est_strategy_free(s);
    est_strategy_free(NULL);
}

TEST(refused)
{
    est_strategy *s = NULL;

    assert_int_equal(est_parameter_server_strategy(EST_PARAMETER_SERVER(.sync_replicas = -1), &s),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "sync_replicas is -1"));
    assert_int_equal(est_parameter_server_strategy(EST_PARAMETER_SERVER(.max_staleness = -2), &s),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "max_staleness is -2"));
    assert_int_equal(est_parameter_server_strategy(EST_PARAMETER_SERVER(.sync_replicas = 2, .max_staleness = 2), &s),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "never stale"));
    assert_int_equal(est_parameter_server_strategy(&(const est_parameter_server_options){ 0 }, &s),
                     EST_INVALID_ARGUMENT);
    assert_null(s);
    est_fault_arm_alloc(1);
    assert_int_equal(est_parameter_server_strategy(NULL, &s), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(0);
    assert_null(s);
}

/* --- its cluster -------------------------------------------------------------------------------------------------- */

#define CLUSTER "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"], \"ps\": [\"c:1\"]}, \"task\": "

TEST(cluster)
{
    est_strategy *s        = NULL;
    est_resolver *resolver = NULL;

    assert_ok(est_parameter_server_strategy(NULL, &s));
    assert_null(est_strategy_task(s)); /* none is described: that of a RunConfig counts */
    est_strategy_free(s);
    setenv("TF_CONFIG", CLUSTER "{\"type\": \"ps\", \"index\": 0}}", 1);
    assert_ok(est_parameter_server_strategy(NULL, &s));
    assert_string_equal(est_strategy_task(s)->type, "ps");
    est_strategy_free(s);
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.cluster_json = "{}"), &s));
    assert_null(est_strategy_task(s));
    est_strategy_free(s);
    assert_ok(est_resolve_tf_config(CLUSTER "{\"type\": \"worker\", \"index\": 0}}", NULL, &resolver));
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver), &s));
    assert_int_equal(
        est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver, .cluster_json = "{}"), &s),
        EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "parameter_server: resolver and cluster_json are both set; leave one out");
    est_resolver_free(resolver); /* it was copied */
    assert_string_equal(est_strategy_task(s)->type, "worker");
    assert_string_equal(est_cluster_address(est_strategy_task(s)->cluster, "ps", 0), "c:1");
    assert_int_equal(est_strategy_num_replicas_in_sync(s), 1);
    est_strategy_free(s);
    setenv("TF_CONFIG", "{\"cluster\": 7}", 1);
    assert_int_equal(est_parameter_server_strategy(NULL, &s), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "TF_CONFIG: cluster is 7"));
    unsetenv("TF_CONFIG");
    assert_null(est_strategy_task(NULL));
}

/* A remote with the options of the strategy, and those that are no strategy's. */
TEST(remote)
{
    est_partitioner  two      = est_fixed_shards(2);
    servers          s        = servers_start(2, 1, "tcp");
    est_strategy    *strategy = NULL, *other = NULL;
    est_remote      *remote = NULL;
    const est_tasks *r;

    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.partitioner = &two, .round_robin = true,
                                                                 .sync_replicas = 1, .consistent_checkpoints = true),
                                            &strategy));
    assert_ok(est_strategy_remote(strategy, s.worker[0], EST_REMOTE(.is_chief = true, .step_limit = 7), &remote));
    r = est_tasks_of(remote);
    assert_true(r->options.is_chief && r->options.round_robin && r->options.consistent_saves);
    assert_int_equal(r->options.step_limit, 7);
    assert_int_equal(r->options.sync_replicas, 1);
    assert_int_equal(remote->partitioner->n, 2);
    est_remote_free(remote);
    remote = NULL;
    assert_int_equal(est_strategy_remote(strategy, s.worker[0], EST_REMOTE(.max_staleness = 2), &remote),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "are the strategy's; set them there"));
    assert_ok(est_mirrored_strategy(NULL, &other));
    assert_int_equal(est_strategy_remote(other, s.worker[0], NULL, &remote), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the mirrored strategy"));
    assert_null(remote);
    assert_ok(est_strategy_remote(NULL, s.worker[0], NULL, &remote));
    est_remote_free(remote);
    est_strategy_free(strategy);
    est_strategy_free(other);
    servers_stop(&s);
}

/* --- where variables go ------------------------------------------------------------------------------------------- */

#define ROWS  600
#define WIDTH 4
#define STEPS 6

typedef struct embedded {
    est_graph *graph;
    est_node   ids, loss, train, step;
} embedded;

static embedded make_embedded(void)
{
    embedded m = { 0 };
    est_node h;

    assert_ok(est_graph_create(5, &m.graph));
    (void)est_global_step(m.graph); /* as an estimator does, before the model */
    m.ids   = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    h       = est_resource_gather(est_weight(m.graph, "table", EST_SHAPE(ROWS, WIDTH), NULL), m.ids);
    h       = est_dense(est_dense(h, 3, EST_DENSE(.name = "hidden")), 1, EST_DENSE(.name = "logits"));
    m.loss  = est_reduce_mean(est_square(h), EST_I64S(0, 1), false);
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static void train(est_session *session, const embedded *m, int steps, double *losses)
{
    est_step *step;

    assert_ok(est_session_prepare(session, EST_NODES(m->ids), EST_NODES(m->loss), EST_NODES(m->train), &step));
    for (int i = 0; i < steps; i++) {
        est_tensor *ids = NULL;

        assert_ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 7 * i, ROWS - 1 - i, 300 }, &ids));
        assert_ok(est_step_run(step, (const est_tensor *[]){ ids }));
        losses[i] = est_step_scalar(step, 0);
        est_tensor_free(ids);
    }
}

TEST(placement)
{
    static const char *const names[] = { "global_step", "table", "hidden/kernel", "hidden/bias", "logits/kernel" };
    static const int         turn[] = { 0, 1, 0, 1, 0 }, size[] = { 1, 0, 1, 1, 1 };

    for (int round = 0; round < 2; round++) {
        servers     s      = servers_start(2, 1, "tcp");
        est_remote *remote = servers_remote(
            &s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20, .round_robin = round != 0));
        est_session *session = NULL;
        embedded     m       = make_embedded();
        est_store   *store;

        assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
        assert_ok(est_session_store(session, &store));
        for (int i = 0; i < 5; i++) {
            if (est_store_find(store, names[i])->task != (round ? turn : size)[i]) {
                fail_msg("'%s' is at ps:%d", names[i], est_store_find(store, names[i])->task);
            }
        }
        assert_int_equal(est_store_find(store, "table/Adagrad")->task, est_store_find(store, "table")->task);
        est_session_free(session);
        est_remote_free(remote);
        est_graph_free(m.graph);
        servers_stop(&s);
    }
}

/* --- a table in shards -------------------------------------------------------------------------------------------- */

static est_session *open_over(est_remote *remote, const embedded *m)
{
    est_session *session = nn_session(m->graph, remote);

    return session;
}

/* Trained over two servers as in one process, bit for bit; saved there, it goes on in one process and over two
 * others. */
TEST(shards)
{
    est_partitioner partitioner = est_min_size_partitioner(ROWS * WIDTH * 2, 0); /* the table, in two */
    servers         first = servers_start(2, 1, "tcp"), second = servers_start(2, 1, "tcp");
    est_remote     *remote, *other;
    est_session    *whole, *cut, *again, *alone;
    embedded        m     = make_embedded();
    est_saver      *saver = NULL;
    est_store      *store;
    double          want[STEPS], got[STEPS];

    remote = servers_remote(&first, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20, .partitioner = &partitioner));
    other  = servers_remote(&second, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20));
    whole  = open_over(NULL, &m);
    cut    = open_over(remote, &m);
    assert_ok(est_session_store(cut, &store));
    assert_int_equal(est_store_find(store, "table")->n_shards, 2);
    assert_int_equal(est_store_find(store, "table/Adagrad")->n_shards, 2);
    assert_int_equal(est_store_find(store, "hidden/kernel")->n_shards, 0);
    assert_int_not_equal(est_store_find(store, "table")->shards[0]->task,
                         est_store_find(store, "table")->shards[1]->task);
    train(whole, &m, STEPS, want);
    train(cut, &m, STEPS, got);
    assert_memory_equal(want, got, sizeof want);
    nn_assert_same(whole, cut);
    assert_ok(est_saver_create(at("shards"), NULL, &saver));
    assert_ok(est_saver_save(saver, cut, STEPS, NULL, NULL));
    alone = open_over(NULL, &m);
    again = open_over(other, &m); /* without shards */
    assert_ok(est_saver_restore(saver, alone, NULL, NULL));
    assert_ok(est_saver_restore(saver, again, NULL, NULL));
    nn_assert_same(whole, alone);
    nn_assert_same(whole, again);
    assert_ok(est_saver_save(saver, again, STEPS + 1, NULL, NULL));
    train(cut, &m, 1, got);
    assert_ok(est_saver_restore(saver, cut, NULL, NULL)); /* and back into shards */
    nn_assert_same(whole, cut);
    est_saver_free(saver);
    est_session_free(whole);
    est_session_free(cut);
    est_session_free(again);
    est_session_free(alone);
    est_remote_free(remote);
    est_remote_free(other);
    est_graph_free(m.graph);
    servers_stop(&first);
    servers_stop(&second);
}

/* --- workers that step by themselves ------------------------------------------------------------------------------ */

/* Every step adds 1 to two variables at two tasks, and to the global step. */
typedef struct counter {
    est_graph *graph;
    est_node   train, step;
} counter;

static counter make_counter(void)
{
    counter  c = { 0 };
    est_node a, b, one, both[2];

    assert_ok(est_graph_create(5, &c.graph));
    est_graph_device(c.graph, "/job:ps/task:0");
    a = est_weight(c.graph, "a", EST_SHAPE(1000), EST_WEIGHT(.initializer = est_init_zeros()));
    (void)est_global_step(c.graph);
    est_graph_device(c.graph, "/job:ps/task:1");
    b = est_weight(c.graph, "b", EST_SHAPE(1000), EST_WEIGHT(.initializer = est_init_zeros()));
    est_graph_device(c.graph, NULL);
    one     = est_ones_like(est_read_variable(a));
    both[0] = est_assign_add(a, one);
    both[1] = est_assign_add(b, one);
    c.train = est_assign_add(est_global_step(c.graph), est_scalar(c.graph, EST_I64, 1));
    c.train = est_after(est_after(c.train, both[0]), both[1]);
    c.step  = est_after(est_read_variable(est_global_step(c.graph)), c.train);
    assert_ok(est_graph_status(c.graph));
    return c;
}

typedef struct worker {
    servers    *servers;
    int         index;
    int64_t     limit, staleness;
    int64_t     seen[8]; /* the global step after each of its first steps */
    int64_t     steps;
    pthread_t   thread;
    est_remote *remote;
} worker;

/* A loop of its own: steps take their turns by themselves, until all were made. */
static void *work(void *arg)
{
    worker      *w       = arg;
    counter      c       = make_counter();
    est_session *session = NULL;
    est_step    *step;
    est_status   status;

    w->remote = servers_remote(
        w->servers, w->index,
        EST_REMOTE(.connect_secs = 60, .answer_secs = 60, .step_limit = w->limit, .max_staleness = w->staleness));
    assert_ok(est_session_create(c.graph, EST_SESSION(.threads = 1, .remote = w->remote), &session));
    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NODES(c.step), EST_NODES(c.train), &step));
    while ((status = est_step_run(step, NULL)) == EST_OK) {
        if (w->steps < 8) w->seen[w->steps] = (int64_t)est_step_scalar(step, 0);
        w->steps++;
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_non_null(strstr(est_error_message(), "all training steps were made"));
    est_session_free(session);
    est_remote_free(w->remote);
    est_graph_free(c.graph);
    return NULL;
}

static double first_of(est_session *session, const char *name)
{
    est_tensor *value = NULL;
    double      x;

    assert_ok(est_session_read(session, name, &value));
    x = nn_element(value, 0);
    for (int64_t i = 0; i < est_tensor_count(value); i++) assert_true(nn_element(value, i) == x);
    est_tensor_free(value);
    return x;
}

/* While two workers step as fast as they can, every checkpoint is of one step. */
TEST(consistent_saves)
{
    servers      s      = servers_start(2, 3, "tcp");
    est_remote  *remote = servers_remote(&s, 0,
                                         EST_REMOTE(.is_chief = true, .connect_secs = 60, .consistent_saves = true));
    counter      c      = make_counter();
    est_session *chief = NULL, *copy = NULL;
    est_saver   *saver = NULL;
    worker       workers[2];
    double       before = -1;

    chief = nn_session(c.graph, remote);
    assert_ok(est_remote_declare_ready(remote));
    assert_ok(est_session_create(c.graph, EST_SESSION(.threads = 1), &copy));
    assert_ok(est_saver_create(at("consistent"), NULL, &saver));
    for (int i = 0; i < 2; i++) {
        workers[i] = (worker){ .servers = &s, .index = i + 1, .limit = 3000 };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int64_t i = 0; before < 2000; i++) {
        assert_ok(est_saver_save(saver, chief, i, NULL, NULL));
        assert_ok(est_saver_restore(saver, copy, NULL, NULL));
        assert_true(first_of(copy, "a") == first_of(copy, "b"));
        assert_true(first_of(copy, "a") == first_of(copy, "global_step"));
        assert_true(first_of(copy, "a") >= before);
        before = first_of(copy, "a");
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_int_equal(workers[0].steps + workers[1].steps, 3000);
    assert_true(first_of(chief, "a") == 3000 && first_of(chief, "b") == 3000);
    est_saver_free(saver);
    est_session_free(copy);
    est_session_free(chief);
    est_remote_free(remote);
    est_graph_free(c.graph);
    servers_stop(&s);
}

typedef struct saving {
    est_remote *remote;
    est_status  status;
} saving;

/* Of what the second ps has only. */
static void *save_b(void *arg)
{
    static const est_remote_entry b = {
        1, { .key = "b", .name = "b", .dtype = EST_F32, .full = { 1, { 1000 } }, .rows = -1 }
    };
    saving *s = arg;
    bool    parts[2];

    s->status = s->remote->ops->save(s->remote, &(est_remote_files){ at("lost/model.ckpt-1"), &b, 1 }, parts);
    return NULL;
}

static void await_wait(const char *who, const char *for_whom, const char *why)
{
    int64_t  deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    est_wait wait     = { 0 };

    while (est_now_ns() < deadline) {
        if (est_waits_of(who, &wait, 1) == 1 && strcmp(wait.for_whom, for_whom) == 0 && strcmp(wait.why, why) == 0)
            return;
    }
    fail_msg("%s does not wait for %s: %s", who, for_whom, why);
}

/* When the link to the clock breaks nobody holds steps any more: what is copied then may be of several, and is no
 * checkpoint. */
TEST(hold_is_lost)
{
    servers      s       = servers_start(2, 1, "tcp");
    est_remote  *remote  = servers_remote(&s, 0,
                                          EST_REMOTE(.is_chief = true, .connect_secs = 60, .consistent_saves = true));
    counter      c       = make_counter();
    est_session *session = NULL;
    saving       save    = { .remote = remote };
    pthread_t    thread;

    assert_int_equal(mkdir(at("lost"), 0700), 0);
    session = nn_session(c.graph, remote);
    pthread_mutex_lock(&s.ps[1]->host_lock);
    assert_int_equal(pthread_create(&thread, NULL, save_b, &save), 0);
    await_wait("worker:0", "ps:1", "the list of its variables"); /* until it has copied */
    est_link_close(est_tasks_of(remote)->tasks[0].link, "cut");
    pthread_mutex_unlock(&s.ps[1]->host_lock);
    pthread_join(thread, NULL);
    assert_int_equal(save.status, EST_UNAVAILABLE);
    est_session_free(session);
    assert_ok(est_session_create(c.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    save_b(&save);
    assert_int_equal(save.status, EST_OK);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* Waits until a task waits for its turn. */
static void await_waiting(est_server *server, const char *who)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    bool    waits    = false;

    pthread_mutex_lock(&server->lock);
    while (!waits && est_now_ns() < deadline) {
        est_gate_entry entry;

        for (int i = 0; est_gate_entry_at(server->gate, i, &entry); i++) {
            waits = waits || (entry.waits && strcmp(entry.who, who) == 0);
        }
        if (!waits) est_cond_wait_ns(&server->changed, &server->lock, EST_NS_PER_SEC / 100);
    }
    pthread_mutex_unlock(&server->lock);
    assert_true(waits);
}

/* The session of a chief that may make the step. */
static est_session *begin_step(const counter *c, est_remote *remote, est_step **step)
{
    est_session *chief    = nn_session(c->graph, remote);
    bool         finished = false;

    assert_ok(est_remote_declare_ready(remote));
    assert_ok(est_session_prepare(chief, EST_NO_NODES, EST_NODES(c->step), EST_NODES(c->train), step));
    assert_ok(remote->ops->turn(remote, &finished));
    return chief;
}

/* One that is in the middle of its step holds up another once two were counted meanwhile. */
TEST(staleness)
{
    servers      s      = servers_start(2, 2, "tcp");
    est_remote  *remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 60, .max_staleness = 2));
    counter      c      = make_counter();
    est_step    *step   = NULL;
    est_session *chief  = begin_step(&c, remote, &step);
    worker       other  = { .servers = &s, .index = 1, .limit = 4, .staleness = 2 };

    assert_int_equal(pthread_create(&other.thread, NULL, work, &other), 0);
    await_waiting(s.ps[0], "worker:1");
    assert_ok(est_step_run(step, NULL));
    assert_int_equal(est_step_scalar(step, 0), 3); /* two were counted, and no more */
    est_session_free(chief);
    est_remote_free(remote);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(other.steps, 3);
    assert_int_equal(other.seen[0], 1);
    assert_int_equal(other.seen[1], 2);
    assert_int_equal(other.seen[2], 4);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* One that is between two steps, saving perhaps, holds up nobody. */
TEST(between_steps)
{
    servers      s      = servers_start(2, 2, "tcp");
    est_remote  *remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 60, .max_staleness = 2));
    counter      c      = make_counter();
    est_step    *step   = NULL;
    est_session *chief  = begin_step(&c, remote, &step);
    worker       other  = { .servers = &s, .index = 1, .limit = 8, .staleness = 2 };

    assert_ok(est_step_run(step, NULL));
    assert_int_equal(pthread_create(&other.thread, NULL, work, &other), 0);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(other.steps, 7);
    est_session_free(chief);
    est_remote_free(remote);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* Whoever held steps for a checkpoint and left, or begins a step itself, holds them no longer. */
TEST(hold_ends)
{
    servers      s      = servers_start(2, 2, "tcp");
    est_remote  *remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 60));
    counter      c      = make_counter();
    est_session *chief  = nn_session(c.graph, remote);
    est_step    *step;
    worker       other    = { .servers = &s, .index = 1, .limit = 5 };
    bool         finished = false;

    assert_ok(est_remote_declare_ready(remote));
    assert_ok(est_session_prepare(chief, EST_NO_NODES, EST_NODES(c.step), EST_NODES(c.train), &step));
    for (int i = 0; i < 2; i++) {
        assert_ok(est_remote_hold(remote));
        assert_ok(est_remote_hold(remote)); /* again, as after an answer that was lost */
        if (i == 0) assert_ok(est_remote_release(remote));
        assert_ok(remote->ops->turn(remote, &finished));
        assert_ok(est_step_run(step, NULL));
    }
    assert_ok(est_remote_hold(remote));
    assert_int_equal(pthread_create(&other.thread, NULL, work, &other), 0);
    await_waiting(s.ps[0], "worker:1");
    est_session_free(chief);
    est_remote_free(remote);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(other.steps, 3);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* A process that takes the place of worker 0 and holds steps; the ask under way. */
typedef struct holder {
    est_net  *net;
    est_link *link;
    est_ask  *ask;
} holder;

static holder begin_hold(const servers *s, uint64_t incarnation)
{
    est_net_options options = { .transport    = "tcp",
                                .silence_secs = 10,
                                .self         = { .task = "worker:0", .incarnation = incarnation } };
    est_packing     packing = { 0 };
    est_payload     payload;
    holder          h = { 0 };

    assert_ok(est_net_create(&options, &h.net));
    assert_ok(est_net_connect(h.net, est_cluster_address(s->cluster, "ps", 0), "ps:0", 20, &h.link));
    est_wire_put_bool(&packing.head, EST_FIELD_HELD, true);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_link_ask(h.link, EST_METHOD_HOLD, "a hold", payload, 20, NULL, NULL, &h.ask));
    est_packing_clear(&packing);
    return h;
}

/* As when it is killed: it says nothing. */
static void die(holder *h)
{
    est_link_free(h->link);
    est_net_free(h->net);
}

static bool is_held(est_server *server)
{
    bool held;

    pthread_mutex_lock(&server->lock);
    held = est_gate_is_held(server->gate);
    pthread_mutex_unlock(&server->lock);
    return held;
}

/* Waits until steps are held at the server, or no longer. */
static void await_held(est_server *server, bool held)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (is_held(server) != held && est_now_ns() < deadline) est_sleep_ns(EST_NS_PER_SEC / 1000);
    assert_int_equal(is_held(server), held);
}

/* A holder that dies before it was told so, or with the steps held, holds up nobody. */
TEST(holder_dies)
{
    servers      s       = servers_start(2, 2, "tcp");
    est_remote  *remote  = servers_remote(&s, 1, EST_REMOTE(.is_chief = true, .connect_secs = 60));
    counter      c       = make_counter();
    est_session *session = nn_session(c.graph, remote);
    est_step    *step;
    est_message *answer;
    holder       h;
    bool         finished = false;

    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NODES(c.step), EST_NODES(c.train), &step));
    assert_ok(remote->ops->turn(remote, &finished));
    h = begin_hold(&s, 1); /* waits for the step that has begun */
    await_held(s.ps[0], true);
    est_link_close(h.link, "killed");
    assert_int_equal(est_ask_wait(h.ask, &answer), EST_UNAVAILABLE);
    die(&h);
    await_held(s.ps[0], false);
    assert_ok(est_step_run(step, NULL));
    assert_ok(remote->ops->turn(remote, &finished));
    h = begin_hold(&s, 2);
    await_held(s.ps[0], true);
    assert_ok(est_step_run(step, NULL));
    assert_ok(est_ask_wait(h.ask, &answer));
    est_message_free(answer);
    die(&h);
    await_held(s.ps[0], false); /* what it was to save has failed with the link */
    h = begin_hold(&s, 3);
    assert_ok(est_ask_wait(h.ask, &answer));
    est_message_free(answer);
    assert_ok(est_link_ask(h.link, EST_METHOD_HOLD, "a release", (est_payload){ 0 }, 20, NULL, NULL, &h.ask));
    assert_ok(est_ask_wait(h.ask, &answer));
    est_message_free(answer);
    assert_false(is_held(s.ps[0]));
    assert_ok(remote->ops->turn(remote, &finished));
    die(&h);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* --- synchronous steps of loops of one's own ---------------------------------------------------------------------- */

typedef struct pusher {
    servers  *servers;
    int       index;
    float     gradient;
    double    after[3]; /* w after each step */
    int       steps;
    pthread_t thread;
} pusher;

/* Nothing is fetched: a step has been made when est_session_run returns. */
static void *push(void *arg)
{
    pusher       *p        = arg;
    est_strategy *strategy = NULL;
    est_remote   *remote   = NULL;
    est_session  *session  = NULL;
    est_graph    *graph    = NULL;
    est_tensor   *x        = NULL;
    est_node      feed, train;
    est_status    status;

    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.sync_replicas = 2), &strategy));
    assert_ok(est_strategy_remote(strategy, p->servers->worker[p->index],
                                  EST_REMOTE(.is_chief = p->index == 0, .connect_secs = 60, .step_limit = 3), &remote));
    assert_ok(est_graph_create(1, &graph));
    feed  = est_placeholder(graph, "x", EST_F32, EST_SHAPE_SCALAR);
    train = est_weight(graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    train = est_minimize(est_sgd(1), est_mul(est_read_variable(train), feed), NULL);
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    if (p->index == 0) {
        assert_ok(est_session_init(session));
        assert_ok(est_remote_declare_ready(remote));
    }
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &p->gradient, &x));
    while ((status = est_session_run(session, EST_FEEDS({ feed, x }), EST_NO_NODES, EST_NODES(train), NULL)) ==
           EST_OK) {
        assert_true(p->steps < 3);
        p->after[p->steps++] = first_of(session, "w");
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    est_tensor_free(x);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    est_strategy_free(strategy);
    return NULL;
}

TEST(mean_of_two_loops)
{
    servers s          = servers_start(1, 2, "tcp");
    pusher  pushers[2] = { { .servers = &s, .index = 0, .gradient = 1 }, { .servers = &s, .index = 1, .gradient = 3 } };

    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&pushers[i].thread, NULL, push, &pushers[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(pushers[i].thread, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pushers[i].steps, 3);
        for (int k = 0; k < 3; k++) assert_true(pushers[i].after[k] <= -2 * (k + 1)); /* the other may be ahead */
        assert_true(pushers[i].after[2] == -6);
    }
    servers_stop(&s);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
