/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers and sessions over them, on loopback: the numbers of a session without a cluster, bit for bit; variables that
 * outlive sessions; runs that are repeated because the link broke and must not be done twice; turns. */
#include "estoc/server.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/clients.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/port_test.h"

#define PS 2

typedef struct fixture {
    est_cluster *cluster;
    est_server  *ps[PS], *worker;
    est_remote  *remote;
    int          ports[PS + 1]; /* sockets that keep them */
} fixture;

static fixture set_up(int64_t limit)
{
    fixture     f = { 0 };
    char        address[PS + 1][32];
    const char *ps[PS], *worker[1];

    for (int i = 0; i <= PS; i++) snprintf(address[i], sizeof address[i], "127.0.0.1:%d", port_take(&f.ports[i]));
    for (int i = 0; i < PS; i++) ps[i] = address[i];
    worker[0] = address[PS];
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { ps, PS } },
                                                                { .name = "worker", .addresses = { worker, 1 } } },
                                             2 },
                                 &f.cluster));
    for (int i = 0; i < PS; i++) {
        assert_ok(est_server_create(f.cluster, "ps", i, EST_SERVER(.transport = "tcp", .threads = 1), &f.ps[i]));
    }
    assert_ok(est_server_create(f.cluster, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &f.worker));
    assert_ok(est_remote_create(
        f.worker, EST_REMOTE(.is_chief = true, .connect_secs = 20, .answer_secs = 20, .step_limit = limit), &f.remote));
    return f;
}

static void tear_down(fixture *f)
{
    est_remote_free(f->remote);
    est_server_free(f->worker);
    for (int i = 0; i < PS; i++) est_server_free(f->ps[i]);
    for (int i = 0; i <= PS; i++) close(f->ports[i]);
    est_cluster_free(f->cluster);
}

typedef struct model {
    est_graph *graph;
    est_node   x, loss, train, step;
} model;

static model make_model(void)
{
    model m = { 0 };

    assert_ok(est_graph_create(3, &m.graph));
    m.x     = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 8));
    m.loss  = est_reduce_mean(est_square(est_dense(est_dense(m.x, 32, EST_DENSE(.activation = est_relu)), 4, NULL)),
                              EST_I64S(0, 1), false);
    m.train = est_minimize(est_adam(0.01, NULL), m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static est_tensor *batch(void)
{
    est_tensor *x = NULL;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(16, 8), &x));
    for (int i = 0; i < 128; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)(i % 13) / 13.0f - 0.4f;
    return x;
}

static void train(est_session *session, const model *m, int steps, double *losses)
{
    est_step   *step;
    est_tensor *x = batch();

    assert_ok(est_session_prepare(session, EST_NODES(m->x), EST_NODES(m->loss, m->step), EST_NODES(m->train), &step));
    for (int i = 0; i < steps; i++) {
        assert_ok(est_step_run(step, (const est_tensor *[]){ x }));
        losses[i] = est_step_scalar(step, 0);
    }
    est_tensor_free(x);
}

TEST(same_numbers)
{
    fixture      f     = set_up(0);
    model        m     = make_model();
    est_session *whole = NULL, *cut = NULL;
    double       want[20], got[20];

    whole = nn_session(m.graph, NULL);
    cut   = nn_session(m.graph, f.remote);
    train(whole, &m, 20, want);
    train(cut, &m, 20, got);
    assert_memory_equal(want, got, sizeof want);
    est_session_free(cut); /* variables stay */
    cut = nn_session(m.graph, f.remote);
    train(whole, &m, 3, want);
    train(cut, &m, 3, got);
    assert_memory_equal(want, got, 3 * sizeof *want);
    est_session_free(whole);
    est_session_free(cut);
    est_graph_free(m.graph);
    tear_down(&f);
}

/* Turns end at the limit. */
TEST(turns)
{
    fixture      f        = set_up(5);
    model        m        = make_model();
    est_session *session  = nn_session(m.graph, f.remote);
    bool         finished = false;
    double       loss;

    for (int i = 0; i < 5; i++) {
        assert_ok(f.remote->ops->turn(f.remote, &finished));
        assert_false(finished);
        train(session, &m, 1, &loss);
    }
    assert_ok(f.remote->ops->turn(f.remote, &finished));
    assert_true(finished);
    est_session_free(session);
    est_graph_free(m.graph);
    tear_down(&f);
}

/* Asks for the last run of the step again, the one that counted it; whether the answer brings a turn along. */
static bool repeat_brings_turn(const fixture *f, uint64_t want_step)
{
    const est_tasks          *r    = est_tasks_of(f->remote);
    const est_remote_segment *last = r->segments;
    est_unpacked              out  = { 0 };
    est_payload               payload;
    est_message              *answer;
    est_ask                  *ask;
    bool                      turn;

    for (const est_remote_segment *segment = r->segments; segment != NULL; segment = segment->next) {
        if (segment->sequence > last->sequence) last = segment;
    }
    assert_ok(est_packing_payload(&last->in, &payload));
    assert_ok(est_link_ask(r->tasks[last->task].link, EST_METHOD_RUN, "again", payload, 20, NULL, NULL, &ask));
    assert_ok(est_ask_wait(ask, &answer));
    turn = est_head_u64(answer, EST_FIELD_TURN, 0) != 0;
    assert_ok(est_unpack_tensors(answer, &out));
    assert_int_equal(out.n, 1);
    assert_int_equal(*(const int64_t *)out.views[0].data, want_step);
    est_unpacked_clear(&out);
    est_message_free(answer);
    return turn;
}

/* An answer that comes again brings the turn of the first along only as long as nobody else may have got it. */
TEST(turn_comes_again)
{
    fixture          f        = set_up(5);
    model            m        = make_model();
    est_session     *session  = nn_session(m.graph, f.remote);
    est_packing      nothing  = { 0 };
    bool             finished = false;
    est_remote_task *clock;
    est_step        *step;
    est_tensor      *x = batch();

    assert_ok(f.remote->ops->turn(f.remote, &finished));
    assert_ok(est_session_prepare(session, EST_NODES(m.x), EST_NODES(m.step), EST_NODES(m.train), &step));
    assert_ok(est_step_run(step, (const est_tensor *[]){ x }));
    assert_true(repeat_brings_turn(&f, 1));
    assert_ok(est_tasks_clock(est_tasks_of(f.remote), &clock));
    assert_ok(est_remote_task_tell(clock, EST_METHOD_LEAVE, &nothing, 20));
    assert_false(repeat_brings_turn(&f, 1));
    est_tensor_free(x);
    est_session_free(session);
    est_graph_free(m.graph);
    tear_down(&f);
}

/* Who holds steps for a checkpoint and leaves holds nothing any more. */
TEST(hold_ends)
{
    fixture      f        = set_up(5);
    model        m        = make_model();
    est_session *session  = nn_session(m.graph, f.remote);
    bool         finished = true;

    assert_ok(est_remote_hold(f.remote));
    est_session_free(session);
    est_remote_free(f.remote);
    assert_ok(est_remote_create(f.worker, EST_REMOTE(.is_chief = true, .connect_secs = 5, .step_limit = 5), &f.remote));
    session = nn_session(m.graph, f.remote);
    assert_ok(f.remote->ops->turn(f.remote, &finished));
    assert_false(finished);
    est_session_free(session);
    est_graph_free(m.graph);
    tear_down(&f);
}

/* A task that does not hear the goodbye is not the reason why the program failed. */
TEST(free_keeps_error)
{
    fixture      f       = set_up(0);
    model        m       = make_model();
    est_session *session = nn_session(m.graph, f.remote); /* connects */

    est_session_free(session);
    est_graph_free(m.graph);
    est_net_cancel(est_server_net(f.worker), "the test");
    (void)est_fail(EST_INTERNAL, "the error of the program");
    est_remote_free(f.remote);
    assert_string_equal(est_error_message(), "the error of the program");
    f.remote = NULL;
    tear_down(&f);
}

/* A process is known by its server, so two remotes of one would take each other's answers. */
TEST(one_remote)
{
    fixture     f     = set_up(0);
    est_remote *other = NULL;

    assert_int_equal(est_remote_create(f.worker, EST_REMOTE(.is_chief = true), &other), EST_FAILED_PRECONDITION);
    est_remote_free(f.remote);
    assert_ok(est_remote_create(f.worker, EST_REMOTE(.is_chief = true, .connect_secs = 20), &f.remote));
    tear_down(&f);
}

#define REMOTES 500

typedef struct remotes {
    est_server *server;
    atomic_int  live, made;
} remotes;

/* Makes remotes until enough were made by all threads. Each drives one step, as far as its number says. */
static void *make_remotes(void *arg)
{
    remotes *r = arg;

    while (atomic_load(&r->made) < REMOTES) {
        est_remote *remote = NULL;

        if (est_remote_create(r->server, EST_REMOTE(.is_chief = true), &remote) != EST_OK) continue;
        assert_int_equal(atomic_fetch_add(&r->live, 1), 0);
        assert_int_equal(remote->step++, atomic_fetch_add(&r->made, 1));
        atomic_fetch_sub(&r->live, 1);
        est_remote_free(remote);
    }
    return NULL;
}

/* Also when threads ask for one at the same time: the numbers of steps go on, and none is used twice. */
TEST(one_remote_of_many_threads)
{
    fixture   f = set_up(0);
    remotes   r = { .server = f.worker };
    pthread_t threads[3];

    est_remote_free(f.remote);
    f.remote = NULL;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, make_remotes, &r), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(f.worker->driven, atomic_load(&r.made));
    tear_down(&f);
}

/* A worker that comes when the job has ended: the ps tasks are gone, or were never there. */
TEST(after_the_end)
{
    fixture      f       = set_up(0);
    model        m       = make_model();
    est_session *session = NULL;

    est_remote_free(f.remote);
    for (int i = 0; i < PS; i++) {
        est_server_free(f.ps[i]);
        f.ps[i] = NULL;
    }
    assert_ok(est_remote_create(f.worker, EST_REMOTE(.connect_secs = 0.2), &f.remote));
    assert_int_equal(est_session_create(m.graph, EST_SESSION(.remote = f.remote), &session), EST_DEADLINE_EXCEEDED);
    assert_non_null(strstr(est_error_message(), "not started, or the job has ended already: waited"));
    est_graph_free(m.graph);
    tear_down(&f);
}

/* A port that nobody has at any address of this machine, and holds it: port_take asks only for that at 127.0.0.1. */
static int take_port_everywhere(int *held)
{
    struct sockaddr_in at   = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    socklen_t          size = sizeof at;

    *held = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(*held, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
    assert_int_equal(bind(*held, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(*held, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

/* A task may know itself by the address that it listens at, which is not the one that others find it at. */
TEST(listens_elsewhere)
{
    char         at[32], listens[32], worker[32];
    const char  *its_worker[] = { worker };
    est_cluster *mine = NULL, *its = NULL;
    est_server  *ps = NULL, *server = NULL;
    est_remote  *remote = NULL;
    int          ports[2], port = take_port_everywhere(&ports[0]);

    snprintf(at, sizeof at, "127.0.0.1:%d", port);
    snprintf(listens, sizeof listens, "0.0.0.0:%d", port);
    snprintf(worker, sizeof worker, "127.0.0.1:%d", port_take(&ports[1]));
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(at) },
                                                                { .name = "worker", .addresses = { its_worker, 1 } } },
                                             2 },
                                 &mine));
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(listens) },
                                                                { .name = "worker", .addresses = { its_worker, 1 } } },
                                             2 },
                                 &its));
    assert_ok(est_server_create(its, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &ps));
    assert_ok(est_server_create(mine, "worker", 0, EST_SERVER(.transport = "tcp", .threads = 1), &server));
    assert_ok(est_remote_create(server, EST_REMOTE(.is_chief = true, .connect_secs = 20), &remote));
    assert_ok(remote->ops->connect(remote));
    est_remote_free(remote);
    est_server_free(server);
    est_server_free(ps);
    est_cluster_free(mine);
    est_cluster_free(its);
    for (int i = 0; i < 2; i++) close(ports[i]);
}

/* A task that is started again is the later one of the two, however soon that is: others refuse the earlier one. */
TEST(later_starts)
{
    uint64_t before = 0;

    for (int i = 0; i < 50; i++) {
        est_server *server = NULL;

        assert_ok(
            est_server_create(NULL, NULL, 0, EST_SERVER(.job = "test", .transport = "tcp", .threads = 1), &server));
        assert_true(server->self.incarnation > before);
        before = server->self.incarnation;
        est_server_free(server);
    }
}

/* Names of jobs are compared whole: one that does not fit is refused, and so is one that would mislead people. */
/* What a program has that is started without TF_CONFIG. */
TEST(no_cluster)
{
    est_cluster *cluster = NULL;
    est_server  *server  = NULL;

    assert_ok(est_cluster_parse("{}", "TF_CONFIG", &cluster));
    assert_int_equal(est_server_create(cluster, "worker", 0, NULL, &server), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "is TF_CONFIG not set? Start the tasks of the cluster with"));
    est_cluster_free(cluster);
}

TEST(job_names)
{
    char         name[80] = "";
    est_cluster *cluster  = NULL;
    est_server  *server   = NULL;
    int          held;
    char         at[32];

    snprintf(at, sizeof at, "127.0.0.1:%d", port_take(&held));
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(at) } }, 1 },
                                 &cluster));
    for (int size = 63; size <= 64; size++) {
        est_status status;

        memset(name, 'j', (size_t)size);
        status = est_server_create(cluster, "ps", 0, EST_SERVER(.transport = "tcp", .job = name, .threads = 1),
                                   &server);
        assert_int_equal(status, size == 63 ? EST_OK : EST_INVALID_ARGUMENT);
        if (status == EST_OK) est_server_free(server);
    }
    assert_non_null(strstr(est_error_message(), "has 64 bytes; choose one of at most 63"));
    setenv("ESTOC_JOB", "ads\nrefused", 1);
    assert_int_equal(est_server_create(cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &server),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "(ESTOC_JOB), \"ads\\x0arefused\", has a control character"));
    unsetenv("ESTOC_JOB");
    est_cluster_free(cluster);
    close(held);
}

/* All tasks train in the same way, or are told what differs. */
TEST(different_strategy)
{
    fixture      f       = set_up(0);
    model        m       = make_model();
    est_session *session = nn_session(m.graph, f.remote);

    assert_ok(est_remote_declare_ready(f.remote));
    est_session_free(session);
    est_remote_free(f.remote);
    assert_ok(est_remote_create(f.worker, EST_REMOTE(.connect_secs = 20, .sync_replicas = 2), &f.remote));
    assert_int_equal(est_session_create(m.graph, EST_SESSION(.remote = f.remote), &session), EST_FAILED_PRECONDITION);
    assert_non_null(
        strstr(est_error_message(), "sync_replicas is 2 at worker:0 and 0 at worker:0: all workers need the same"));
    est_graph_free(m.graph);
    tear_down(&f);
}

static void ignore_answer(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user, (void)status, (void)error, (void)answer;
}

/* A server that ends under load answers or refuses all that still comes. */
TEST(end_under_load)
{
    for (int round = 0; round < 8; round++) {
        fixture   f    = set_up(0);
        est_link *link = NULL;

        assert_ok(
            est_net_connect(est_server_net(f.worker), strstr(est_server_target(f.ps[0]), "//") + 2, "ps:0", 20, &link));
        for (int i = 0; i < 3000; i++) {
            if (est_link_ask(link, EST_METHOD_VARIABLES, "a list", (est_payload){ 0 }, 20, ignore_answer, NULL, NULL) !=
                EST_OK)
                break;
        }
        est_server_free(f.ps[0]);
        f.ps[0] = NULL;
        est_link_free(link);
        tear_down(&f);
    }
}

/* A client that waits in its network thread, which so fetches nothing, until it is let go. */
typedef struct stuck {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            free;
    int             n_good;
    est_link       *link;
} stuck;

enum { READS = 40, READ_MB = 8 };

static void get_stuck(void *user, est_status status, const char *error, est_message *answer)
{
    stuck *c = user;

    (void)error, (void)answer;
    pthread_mutex_lock(&c->lock);
    while (!c->free) pthread_cond_wait(&c->changed, &c->lock);
    c->n_good += status == EST_OK;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* All reads at once, before the answer to one of them makes the network thread wait. */
static void read_sync_replicas(void *user, est_status status, const char *error, est_message *answer)
{
    est_packing name = { 0 };
    est_payload payload;

    (void)error, (void)answer;
    assert_int_equal(status, EST_OK);
    est_wire_put_string(&name.head, EST_FIELD_NAME, "large");
    assert_ok(est_packing_payload(&name, &payload));
    for (int i = 0; i < READS; i++) {
        assert_ok(
            est_link_ask(((stuck *)user)->link, EST_METHOD_READ, "a value", payload, 1000, get_stuck, user, NULL));
    }
    est_packing_clear(&name);
}

/* Requests of a client that does not fetch the answers wait in the executor, in their order, and nobody waits for
 * them. */
TEST(stuck_client)
{
    fixture          f       = set_up(0);
    est_session     *session = NULL;
    est_graph       *graph   = NULL;
    est_packing      nothing = { 0 };
    est_payload      payload;
    est_link        *link = NULL, *served;
    est_server      *client;
    est_remote_task *peer;
    stuck            c  = { 0 };
    int              ps = 0;
    int64_t          until;

    assert_ok(est_graph_create(1, &graph));
    (void)est_weight(graph, "large", EST_SHAPE(READ_MB << 18), EST_WEIGHT(.initializer = est_init_ones()));
    session = nn_session(graph, f.remote);
    while (est_store_find(est_host_store(f.ps[ps]->host), "large") == NULL) ps++;
    peer = &est_tasks_of(f.remote)->tasks[ps];
    assert_ok(est_lock_init(&c.lock));
    assert_ok(est_cond_init(&c.changed));
    assert_ok(est_server_create(f.cluster, NULL, 0, EST_SERVER(.transport = "tcp"), &client));
    assert_ok(est_net_connect(est_server_net(client), strstr(est_server_target(f.ps[ps]), "//") + 2, NULL, 20, &link));
    c.link = link;
    assert_ok(est_packing_payload(&nothing, &payload));
    assert_ok(est_link_ask(link, EST_METHOD_VARIABLES, "names", payload, 20, read_sync_replicas, &c, NULL));
    /* the worker is served while the other's reads wait, of which only some have been answered */
    served = NULL;
    until  = est_now_ns() + 60 * EST_NS_PER_SEC;
    while (served == NULL && est_now_ns() < until) {
        assert_ok(est_remote_task_tell(peer, EST_METHOD_VARIABLES, &nothing, 20));
        pthread_mutex_lock(&f.ps[ps]->lock);
        for (int i = 0; i < f.ps[ps]->n_clients; i++) {
            est_link *one = f.ps[ps]->clients[i]->link;
            if (one != NULL && est_link_is_full(one)) served = one;
        }
        pthread_mutex_unlock(&f.ps[ps]->lock);
    }
    assert_non_null(served);
    assert_ok(est_remote_task_tell(peer, EST_METHOD_VARIABLES, &nothing, 20));
    assert_true(est_link_count(served).bytes_out < (uint64_t)(READS / 2 * READ_MB) << 20);
    pthread_mutex_lock(&c.lock);
    c.free = true;
    pthread_cond_broadcast(&c.changed);
    until = est_now_ns() + 120 * EST_NS_PER_SEC; /* 320 MB over loopback, perhaps with a sanitizer */
    while (c.n_good < READS && est_now_ns() < until) est_cond_wait_ns(&c.changed, &c.lock, EST_NS_PER_SEC);
    assert_int_equal(c.n_good, READS);
    pthread_mutex_unlock(&c.lock);
    est_link_free(link);
    est_server_free(client);
    pthread_mutex_destroy(&c.lock);
    pthread_cond_destroy(&c.changed);
    est_session_free(session);
    est_graph_free(graph);
    tear_down(&f);
}
