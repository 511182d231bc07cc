/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions at a target: the master of a server drives the steps of clients that know only its address. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "cluster/wait_table.h"
#include "estoc/estoc.h"
#include "estoc/local_cluster.h"
#include "runtime/session.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"
#include "support/servers_test.h"
#include "train/saver.h"

#define WORKERS 2
#define STEPS   10

/* Variables at ps:0 and at worker:0, losses at two workers. */
typedef struct model {
    est_graph *graph;
    est_node   x[WORKERS], b, loss, train;
} model;

static model make_model(bool pinned)
{
    model    m = { 0 };
    est_node w, losses[WORKERS];

    assert_ok(est_graph_create(3, &m.graph));
    if (pinned) est_graph_device(m.graph, "/job:ps/task:0");
    w = est_weight(m.graph, "w", EST_SHAPE(4, 3), NULL);
    if (pinned) est_graph_device(m.graph, "/job:worker/task:0");
    m.b = est_weight(m.graph, "b", EST_SHAPE(3), NULL);
    for (int i = 0; i < WORKERS; i++) {
        char name[16], device[32];

        snprintf(name, sizeof name, "x%d", i);
        snprintf(device, sizeof device, "/job:worker/task:%d", i);
        est_graph_device(m.graph, NULL);
        m.x[i] = est_placeholder(m.graph, name, EST_F32, EST_SHAPE(-1, -1));
        if (pinned) est_graph_device(m.graph, device);
        losses[i] = est_reduce_mean(
            est_square(est_add(est_matmul(m.x[i], est_read_variable(w)), est_read_variable(m.b))), EST_I64S(0, 1),
            false);
    }
    est_graph_device(m.graph, NULL);
    m.loss  = est_mul(est_add(losses[0], losses[1]), est_scalar(m.graph, EST_F32, 0.5));
    m.train = est_minimize(est_momentum(0.1, NULL), m.loss, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static est_tensor *make_x(int seed, int columns)
{
    est_tensor *x = NULL;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(5, columns), &x));
    for (int j = 0; j < 5 * columns; j++) ((float *)est_tensor_mutable_data(x))[j] = (float)((seed + j) % 11) / 11.0F;
    return x;
}

static est_status train(est_session *session, const model *m, int columns, double losses[STEPS])
{
    est_step  *step;
    est_status status = EST_OK;

    EST_TRY(est_session_prepare(session, EST_NODES(m->x[0], m->x[1]), EST_NODES(m->loss), EST_NODES(m->train), &step));
    for (int i = 0; i < STEPS && status == EST_OK; i++) {
        est_tensor *x[WORKERS] = { make_x(i, columns), make_x(i + 7, columns) };

        status    = est_step_run(step, (const est_tensor *[]){ x[0], x[1] });
        losses[i] = est_step_scalar(step, 0);
        for (int k = 0; k < WORKERS; k++) est_tensor_free(x[k]);
    }
    return status;
}

static est_session *session_at(est_graph *graph, est_server *server)
{
    est_session *session = NULL;

    assert_ok(est_session_create(
        graph, EST_SESSION(.threads = 1, .target = est_server_target(server), .connect_secs = 60), &session));
    return session;
}

static void await_sessions(est_server *server, int n)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (est_master_sessions(server->master) != n) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* The master of any task can drive the steps: of the ps task, of the worker with variables, and of the other worker. */
TEST(same_numbers)
{
    model        m     = make_model(false);
    est_session *alone = nn_session(m.graph, NULL);
    double       want[STEPS], got[STEPS];

    assert_ok(train(alone, &m, 4, want));
    for (int at = 0; at < 3; at++) {
        servers      s       = servers_start(1, WORKERS, "tcp");
        est_server  *master  = at == 0 ? s.ps[0] : s.worker[at - 1];
        model        pinned  = make_model(true);
        est_session *session = session_at(pinned.graph, master);
        est_tensor  *w[2]    = { 0 };

        assert_ok(est_session_init(session));
        assert_ok(train(session, &pinned, 4, got));
        assert_memory_equal(want, got, sizeof want);
        assert_non_null(est_store_find(est_host_store(s.ps[0]->host), "w/Momentum"));
        assert_non_null(est_store_find(est_host_store(s.worker[0]->host), "b"));
        assert_int_equal(est_store_size(est_host_store(s.worker[1]->host)), 0);
        assert_ok(est_session_read(alone, "w", &w[0]));
        assert_ok(est_session_read(session, "w", &w[1]));
        assert_memory_equal(est_tensor_data(w[0]), est_tensor_data(w[1]), est_tensor_bytes(w[0]));
        assert_int_equal(est_master_sessions(master->master), 1);
        est_session_free(session);
        await_sessions(master, 0);
        for (int i = 0; i < 2; i++) est_tensor_free(w[i]);
        est_graph_free(pinned.graph);
        servers_stop(&s);
    }
    est_session_free(alone);
    est_graph_free(m.graph);
}

/* Variables outlive the client; a graph that grows is sent again; values are written and saved. */
TEST(come_back)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[1]);
    est_tensor  *b = NULL, *zeros = NULL, *out = NULL;
    est_node     late;
    double       losses[STEPS];
    est_saver   *saver = NULL;
    char         dir[64];

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    assert_ok(est_session_read(session, "b", &b));
    assert_ok(est_saver_save(saver, session, 1, NULL, NULL));
    est_session_free(session);

    session = session_at(m.graph, s.ps[0]);
    assert_ok(est_session_init(session)); /* all variables have values: it changes nothing */
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(est_read_variable(m.b)), EST_NO_NODES, &out));
    assert_memory_equal(est_tensor_data(b), est_tensor_data(out), est_tensor_bytes(b));
    est_tensor_free(out);
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(3), (float[3]){ 0 }, &zeros));
    assert_ok(est_session_write(session, "b", zeros));
    est_graph_device(m.graph, "/job:worker/task:1");
    late = est_weight(m.graph, "late", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_ones()));
    late = est_add(est_read_variable(late), est_read_variable(m.b));
    assert_ok(est_session_init(session));
    assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(late), EST_NO_NODES, &out));
    assert_true(nn_element(out, 2) == 1);
    est_tensor_free(out);
    assert_non_null(est_store_find(est_host_store(s.worker[1]->host), "late"));
    assert_ok(est_saver_restore(saver, session, EST_RESTORE(.partial = true), NULL));
    assert_ok(est_session_read(session, "b", &out));
    assert_memory_equal(est_tensor_data(b), est_tensor_data(out), est_tensor_bytes(b));
    est_tensor_free(out);
    est_tensor_free(zeros);
    est_tensor_free(b);
    est_saver_free(saver);
    est_test_dir_remove(dir);
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

static void check_device(est_session *session, const char *variable, const char *want)
{
    est_variable_part part;

    assert_int_equal(est_session_variable_parts(session, variable), 1);
    assert_ok(est_session_variable_part(session, variable, 0, &part));
    assert_string_equal(part.device, want);
}

/* The master says where a variable is. */
TEST(devices)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[1]);
    est_tensor  *b       = NULL;

    check_device(session, "w", "/job:ps/replica:0/task:0/device:CPU:0");
    check_device(session, "w/Momentum", "/job:ps/replica:0/task:0/device:CPU:0");
    check_device(session, "b", "/job:worker/replica:0/task:0/device:CPU:0");
    assert_ok(est_session_init(session));
    assert_ok(est_session_read_part(session, "b", 0, &b));
    assert_int_equal(est_tensor_count(b), 3);
    est_tensor_free(b);
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* Two variables at ps:0 that each step changes together. */
typedef struct pair {
    est_graph *graph;
    est_node   more[2];
} pair;

static pair make_pair(void)
{
    static const char *const names[] = { "first", "second" };
    pair                     p       = { 0 };

    assert_ok(est_graph_create(1, &p.graph));
    est_graph_device(p.graph, "/job:ps/task:0");
    for (int i = 0; i < 2; i++) {
        est_node v = est_weight(p.graph, names[i], EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_zeros()));

        p.more[i] = est_assign_add(v, est_ones_like(est_read_variable(v)));
    }
    assert_ok(est_graph_status(p.graph));
    return p;
}

typedef struct stepping {
    est_server *at;
    atomic_bool stop;
} stepping;

static void *step_on(void *user)
{
    stepping    *run     = user;
    pair         p       = make_pair();
    est_session *session = session_at(p.graph, run->at);

    while (!atomic_load(&run->stop))
        assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(p.more[0], p.more[1]), NULL));
    est_session_free(session);
    est_graph_free(p.graph);
    return NULL;
}

static void check_pair(const char *dir)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *value[2]   = { 0 };

    assert_ok(est_checkpoint_open(dir, &checkpoint));
    assert_ok(est_checkpoint_read(checkpoint, "first", &value[0]));
    assert_ok(est_checkpoint_read(checkpoint, "second", &value[1]));
    assert_true(nn_element(value[0], 0) == nn_element(value[1], 0));
    for (int i = 0; i < 2; i++) est_tensor_free(value[i]);
    est_checkpoint_close(checkpoint);
}

/* A checkpoint has the variables of a task as they are between two steps, while another client makes some. */
TEST(consistent_save)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    pair         p       = make_pair();
    est_session *session = session_at(p.graph, s.worker[0]);
    stepping     run     = { .at = s.worker[1] };
    est_saver   *saver   = NULL;
    char         dir[64];
    pthread_t    thread;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_session_init(session));
    assert_int_equal(pthread_create(&thread, NULL, step_on, &run), 0);
    for (int i = 0; i < 20; i++) {
        assert_ok(est_saver_save(saver, session, i, NULL, NULL));
        check_pair(dir);
    }
    atomic_store(&run.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    est_saver_free(saver);
    est_test_dir_remove(dir);
    est_session_free(session);
    est_graph_free(p.graph);
    servers_stop(&s);
}

/* A NaN is found at the task that has it, and is not saved. */
TEST(nan)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[1]);
    const char  *name    = NULL;
    est_tensor  *value   = NULL;
    est_saver   *saver   = NULL;
    char         dir[64];

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_session_init(session));
    assert_ok(est_saved_nan(session, &name));
    assert_null(name);
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(3), (float[3]){ 0, NAN, 0 }, &value));
    assert_ok(est_session_write(session, "b", value));
    assert_ok(est_saved_nan(session, &name));
    assert_string_equal(name, "b");
    assert_int_equal(est_saver_save(saver, session, 1, NULL, NULL), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'b'"));
    est_tensor_free(value);
    est_saver_free(saver);
    est_test_dir_remove(dir);
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A variable at ps:0, and one more. */
typedef struct counting {
    est_graph *graph;
    est_node   more;
} counting;

static counting make_counting(void)
{
    counting c = { 0 };
    est_node n;

    assert_ok(est_graph_create(1, &c.graph));
    n      = est_weight(c.graph, "n", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_zeros()));
    c.more = est_assign_add(n, est_ones_like(est_read_variable(n)));
    assert_ok(est_graph_status(c.graph));
    return c;
}

static void *count_at(void *server)
{
    counting     c       = make_counting();
    est_session *session = session_at(c.graph, server);

    for (int i = 0; i < STEPS; i++) {
        assert_ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(c.more), NULL));
    }
    est_session_free(session);
    est_graph_free(c.graph);
    return NULL;
}

/* Several clients at one master at the same time: no update is lost or made twice. */
TEST(clients)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    counting     c       = make_counting();
    est_session *session = session_at(c.graph, s.worker[0]);
    est_server  *at[3]   = { s.worker[0], s.worker[0], s.worker[1] };
    est_tensor  *n       = NULL;
    pthread_t    threads[3];

    assert_ok(est_session_init(session));
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_at, at[i]), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(est_session_read(session, "n", &n));
    assert_true(nn_element(n, 1) == 3 * STEPS);
    est_tensor_free(n);
    est_session_free(session);
    est_graph_free(c.graph);
    servers_stop(&s);
}

/* A lost client's session ends; a lost session is an error, and a new one finds the variables. */
TEST(lost)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[0]);
    double       losses[STEPS];

    assert_ok(est_session_init(session));
    pthread_mutex_lock(&s.worker[0]->lock);
    for (int i = 0; i < s.worker[0]->n_clients; i++) {
        const est_client *of = s.worker[0]->clients[i];

        if (est_is_external(of->who.task) && of->link != NULL) est_link_close(of->link, "a test");
    }
    pthread_mutex_unlock(&s.worker[0]->lock);
    await_sessions(s.worker[0], 0);
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    est_session_free(session);
    session = session_at(m.graph, s.worker[0]);
    assert_ok(train(session, &m, 4, losses));

    /* a server that ends loses its sessions as well */
    est_server_free(s.worker[0]);
    s.worker[0] = NULL;
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    est_session_free(session);

    /* when the master loses a task, the error at the client names that task */
    assert_ok(est_server_create(s.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[0]));
    session = session_at(m.graph, s.worker[1]);
    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    est_server_free(s.worker[0]);
    s.worker[0] = NULL;
    assert_ok(est_server_create(s.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[0]));
    assert_int_equal(train(session, &m, 4, losses), EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

TEST(errors)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true));
    model        m       = make_model(true);
    est_session *session = NULL;
    est_graph   *graph;
    est_node     nowhere;
    est_step    *step = NULL;
    double       losses[STEPS];

    assert_int_equal(est_session_create(m.graph, EST_SESSION(.target = "nonsense"), &session), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "expected tls://host:port"));
    assert_int_equal(est_session_create(m.graph, EST_SESSION(.target = "smoke://a:1"), &session), EST_INVALID_ARGUMENT);
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = est_server_target(s.ps[0]), .remote = remote), &session),
        EST_INVALID_ARGUMENT);
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = "tcp://127.0.0.1:1", .connect_secs = 0.1), &session),
        EST_UNAVAILABLE);
    assert_non_null(strstr(est_error_message(), "no server answers at the target tcp://127.0.0.1:1"));
    for (int i = 0; i < 4; i++) {
        const double secs[] = { NAN, -1, INFINITY, 1e300 };

        assert_int_equal(est_session_create(m.graph,
                                            EST_SESSION(.target = est_server_target(s.ps[0]), .connect_secs = secs[i]),
                                            &session),
                         EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "connect_secs"));
    }

    session = session_at(m.graph, s.ps[0]);
    assert_int_equal(train(session, &m, 4, losses), EST_FAILED_PRECONDITION); /* no variable has a value */
    assert_ok(est_session_init(session));
    assert_int_equal(train(session, &m, 3, losses), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "worker:0"));
    assert_ok(train(session, &m, 4, losses));
    est_session_free(session);

    assert_ok(est_graph_create(1, &graph));
    est_graph_device(graph, "/job:worker/task:7");
    nowhere = est_placeholder(graph, "x", EST_F32, EST_SHAPE(1));
    session = session_at(graph, s.ps[0]);
    assert_int_equal(
        est_session_prepare(session, EST_NODES(nowhere), EST_NODES(est_square(nowhere)), EST_NO_NODES, &step),
        EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "the cluster has no such task"));
    est_session_free(session);
    est_graph_free(graph);
    est_graph_free(m.graph);
    est_remote_free(remote);
    servers_stop(&s);
}

static void find_wait(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    (void)level;
    (void)wall_ns;
    if (strncmp(line, "client:", 7) == 0 && strstr(line, "it waits for worker:1") != NULL)
        atomic_store((atomic_bool *)user, true);
}

/* The tasks of a cluster are missing: the client waits for them no longer than it said, and hears which meanwhile. */
TEST(missing_task)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = NULL;
    atomic_bool  told    = false;

    est_server_free(s.worker[1]);
    s.worker[1] = NULL;
    est_log_set_sink(find_wait, &told);
    assert_int_equal(
        est_session_create(m.graph, EST_SESSION(.target = est_server_target(s.ps[0]), .connect_secs = 2), &session),
        EST_DEADLINE_EXCEEDED);
    est_log_set_sink(NULL, NULL);
    assert_non_null(strstr(est_error_message(), "worker:1"));
    assert_true(atomic_load(&told));
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A copy of the only client of a task from outside the cluster. */
static est_client find_external(est_server *server)
{
    est_client found = { 0 };

    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients; i++) {
        if (est_is_external(server->clients[i]->who.task)) found = *server->clients[i];
    }
    pthread_mutex_unlock(&server->lock);
    return found;
}

static est_ask *ask_session(est_link *link, est_method method, uint64_t session)
{
    est_packing packing = { 0 };
    est_payload payload;
    est_ask    *ask = NULL;

    est_wire_put_u64(&packing.head, EST_FIELD_SESSION, session);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_link_ask(link, (uint16_t)method, "a test", payload, 30, NULL, NULL, &ask));
    est_packing_clear(&packing);
    return ask;
}

static int count_external(est_server *server)
{
    int n = 0;

    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients; i++) n += est_is_external(server->clients[i]->who.task);
    pthread_mutex_unlock(&server->lock);
    return n;
}

/* Opens and closes sessions that wait for a missing task until one is refused; `other` is a task that they meet. */
static int open_and_close(est_link *link, est_server *other, est_ask **opened, int max)
{
    for (int i = 0; i < max; i++) {
        est_message *answer = NULL;

        opened[i] = ask_session(link, EST_METHOD_OPEN_SESSION, 0);
        while (count_external(other) <= i) {
            if (est_ask_await(opened[i], 0.001)) return i;
        }
        assert_ok(est_ask_wait(ask_session(link, EST_METHOD_CLOSE_SESSION, (uint64_t)i + 1), &answer));
        est_message_free(answer);
    }
    return max;
}

/* Sessions that are ending have their threads still: they count. */
TEST(too_many)
{
    servers      s      = servers_start(1, WORKERS, "tcp");
    model        m      = make_model(true);
    est_server  *client = NULL;
    est_session *session;
    est_link    *link   = NULL;
    est_message *answer = NULL;
    est_ask     *opened[100];
    int          n;

    est_server_free(s.worker[1]);
    s.worker[1] = NULL;
    assert_ok(est_server_create(s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    assert_ok(est_net_connect(est_server_net(client), est_cluster_address(s.cluster, "ps", 0), "ps:0", 30, &link));
    n = open_and_close(link, s.worker[0], opened, 100);
    assert_true(n < 100);
    assert_int_equal(est_master_sessions(s.ps[0]->master), n);
    assert_int_equal(est_ask_wait(opened[n], &answer), EST_RESOURCE_EXHAUSTED);
    est_link_close(link, "a test");
    for (int i = 0; i < n; i++) assert_int_equal(est_ask_wait(opened[i], &answer), EST_UNAVAILABLE);
    await_sessions(s.ps[0], 0);
    est_link_free(link);
    est_server_free(client);

    assert_ok(est_server_create(s.cluster, "worker", 1, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[1]));
    session = session_at(m.graph, s.ps[0]);
    est_session_free(session);
    est_graph_free(m.graph);
    servers_stop(&s);
}

typedef struct training {
    est_session *session;
    model        m;
    est_status   status;
} training;

static void *train_on(void *user)
{
    training *run = user;
    double    losses[STEPS];

    run->status = train(run->session, &run->m, 4, losses);
    return NULL;
}

static void await_wait_for(const char *who, const char *for_whom)
{
    int64_t  until = est_now_ns() + 60 * EST_NS_PER_SEC;
    est_wait wait;

    while (est_waits_of(who, &wait, 1) == 0 || strcmp(wait.for_whom, for_whom) != 0) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

static void await_lost(est_server *server)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (find_external(server).link != NULL) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* A master that is lost says nothing to the tasks of the step under way, as when its process is killed. */
TEST(lost_master)
{
    est_local_cluster *cluster = NULL;
    training           run     = { .m = make_model(true) };
    est_server        *other;
    est_client         driver;
    pthread_t          thread;
    double             losses[STEPS];

    assert_ok(est_local_cluster_create(
        EST_LOCAL_CLUSTER(.ps = 1, .workers = WORKERS, .server = EST_SERVER(.transport = "tcp")), &cluster));
    other       = est_local_cluster_server(cluster, "worker", 1);
    run.session = session_at(run.m.graph, est_local_cluster_server(cluster, "worker", 0));
    assert_ok(est_session_init(run.session));
    assert_ok(train(run.session, &run.m, 4, losses));
    driver = find_external(other);
    assert_non_null(driver.link);

    pthread_mutex_lock(&other->host_lock);
    assert_int_equal(pthread_create(&thread, NULL, train_on, &run), 0);
    await_wait_for(driver.who.task, "worker:1");
    assert_ok(est_local_cluster_lose(cluster, "worker", 0));
    pthread_mutex_unlock(&other->host_lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run.status, EST_UNAVAILABLE);
    await_lost(other);
    driver = find_external(other);
    assert_false(driver.left);
    assert_null(strstr(driver.lost_why, "closed by")); /* no farewell of its network */
    est_session_free(run.session);
    est_graph_free(run.m.graph);
    est_local_cluster_free(cluster);
}

/* A server forgets what a killed client left, also when its program is not in est_server_join. */
TEST(killed_client)
{
    servers      s      = servers_start(1, WORKERS, "tcp");
    model        m      = make_model(true);
    est_server  *client = NULL;
    est_remote  *remote = NULL;
    est_session *session;
    int64_t      until;
    double       losses[STEPS];

    assert_ok(est_server_create(s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    assert_ok(est_remote_create(client, EST_REMOTE(.type = "*", .is_chief = true), &remote));
    session = nn_session(m.graph, remote);
    assert_ok(train(session, &m, 4, losses));
    assert_true(find_external(s.worker[0]).n_entered > 0);
    assert_true(est_rendezvous_count(s.worker[0]->rendezvous).arrived > 0);
    est_net_abort(est_server_net(client), "a test");
    await_lost(s.worker[0]);
    pthread_mutex_lock(&s.worker[0]->lock); /* long ago */
    est_clients_find(s.worker[0], client->task)->since_ns -= (int64_t)(4 * s.worker[0]->silence_secs * 1e9);
    pthread_mutex_unlock(&s.worker[0]->lock);
    until = est_now_ns() + 60 * EST_NS_PER_SEC;
    while (find_external(s.worker[0]).who.task[0] != '\0' ||
           est_rendezvous_count(s.worker[0]->rendezvous).arrived > 0) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    est_session_free(session);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* Without memory at any place of a step, in the client, the master or a task, the step fails or not; the next session
 * is good. So it is when a session is opened. */
TEST(memory)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[0]);
    est_tensor  *x[2]    = { make_x(0, 4), make_x(7, 4) };
    double       losses[STEPS];

    assert_ok(est_session_init(session));
    assert_ok(train(session, &m, 4, losses));
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 10) {
        est_tensor *loss = NULL;
        est_status  status;

        fault_arm(&f);
        status = est_session_run(session, EST_FEEDS({ m.x[0], x[0] }, { m.x[1], x[1] }), EST_NODES(m.loss),
                                 EST_NODES(m.train), &loss);
        if (!fault_end(&f)) assert_ok(status);
        est_tensor_free(loss);
        if (status == EST_OK) continue;
        est_session_free(session);
        session = session_at(m.graph, s.worker[0]);
        assert_ok(train(session, &m, 4, losses));
    }
    est_session_free(session);
    FAULT_LOOP(f, FAULT_PLACES, .more_than = 20, .depth = 1) {
        est_status status;

        session = NULL;
        fault_arm(&f);
        status = est_session_create(
            m.graph, EST_SESSION(.threads = 1, .target = est_server_target(s.worker[0]), .connect_secs = 60), &session);
        if (!fault_end(&f)) assert_ok(status);
        est_session_free(session);
        await_sessions(s.worker[0], 0);
    }
    for (int i = 0; i < 2; i++) est_tensor_free(x[i]);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* The same of a checkpoint: it is written completely or not at all, and after a restore the variables have its values.
 * A session that has failed is replaced. */
TEST(memory_of_checkpoints)
{
    servers      s       = servers_start(1, WORKERS, "tcp");
    model        m       = make_model(true);
    est_session *session = session_at(m.graph, s.worker[0]);
    est_saver   *saver   = NULL;
    char         dir[64];

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_session_init(session));
    for (int restores = 0; restores < 2; restores++) {
        FAULT_LOOP(f, FAULT_PLACES, .more_than = 20, .depth = 2) {
            est_status status;

            fault_arm(&f);
            status = restores ? est_saver_restore(saver, session, EST_RESTORE(.partial = true), NULL)
                              : est_saver_save(saver, session, 1, NULL, NULL);
            if (!fault_end(&f)) assert_ok(status);
            if (status == EST_OK) continue;
            est_session_free(session);
            session = session_at(m.graph, s.worker[0]);
        }
    }
    assert_ok(est_saver_restore(saver, session, EST_RESTORE(.partial = true), NULL));
    est_session_free(session);
    est_saver_free(saver);
    est_graph_free(m.graph);
    servers_stop(&s);
    est_test_dir_remove(dir);
}
