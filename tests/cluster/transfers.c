/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that travel directly between tasks within a step (cluster/rendezvous.h). */
#include <pthread.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define ROWS  256
#define WIDE  1024 /* ROWS * WIDE floats are 1 MB */
#define STEPS 5

static est_server *make_client(const servers *s)
{
    est_server *client = NULL;

    assert_ok(est_server_create(s->cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1), &client));
    return client;
}

static est_remote *drive(est_server *server)
{
    est_remote *remote = NULL;

    assert_ok(est_remote_create(
        server, EST_REMOTE(.type = "*", .is_chief = true, .connect_secs = 60, .answer_secs = 20), &remote));
    return remote;
}

/* x * w at worker:0 is large. worker:1 uses it twice: for a mean, which worker:0 squares, and with that square. */
typedef struct model {
    est_graph *graph;
    est_node   x, y, first, second;
} model;

static model make_model(void)
{
    model    m = { 0 };
    est_node w, wide, back;

    assert_ok(est_graph_create(3, &m.graph));
    est_graph_device(m.graph, "/job:worker/task:0");
    w = est_weight(m.graph, "w", EST_SHAPE(4, WIDE), EST_WEIGHT(.initializer = est_init_ones()));
    est_graph_device(m.graph, NULL);
    m.x = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, -1));
    est_graph_device(m.graph, "/job:worker/task:0");
    wide = est_matmul(m.x, est_read_variable(w));
    est_graph_device(m.graph, "/job:worker/task:1");
    m.first = est_reduce_mean(wide, EST_I64S(0, 1), false);
    est_graph_device(m.graph, "/job:worker/task:0");
    back = est_square(m.first);
    est_graph_device(m.graph, "/job:worker/task:1");
    m.second = est_reduce_mean(est_mul(wide, back), EST_I64S(0, 1), false);
    est_graph_device(m.graph, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static est_tensor *make_x(int64_t columns)
{
    est_tensor *x = NULL;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(ROWS, columns), &x));
    for (int64_t i = 0; i < ROWS * columns; i++) ((float *)est_tensor_mutable_data(x))[i] = 0.5F;
    return x;
}

static est_status run(est_session *session, const model *m, int64_t columns, double out[2])
{
    est_tensor *x = make_x(columns), *got[2] = { 0 };
    est_status  status = est_session_run(session, EST_FEEDS({ m->x, x }), EST_NODES(m->first, m->second), EST_NO_NODES,
                                         got);

    for (int i = 0; i < 2 && status == EST_OK; i++) out[i] = nn_element(got[i], 0);
    for (int i = 0; i < 2; i++) est_tensor_free(got[i]);
    est_tensor_free(x);
    return status;
}

/* Bytes over the driver's links. */
static uint64_t driven_bytes(const est_remote *remote)
{
    uint64_t bytes = 0;

    for (int i = 0; i < remote->n_tasks; i++) {
        est_link_counters c = est_link_count(est_tasks_of(remote)->tasks[i].link);

        bytes += c.bytes_in + c.bytes_out;
    }
    return bytes;
}

static const est_client *client_of(est_server *server, const char *task)
{
    const est_client *client;

    pthread_mutex_lock(&server->lock);
    client = est_clients_find(server, task);
    pthread_mutex_unlock(&server->lock);
    return client;
}

static est_rendezvous_counts counts_of(const servers *s)
{
    est_rendezvous_counts sum = { 0 };

    for (int i = 0; i < s->n_workers; i++) {
        est_rendezvous_counts c = est_rendezvous_count(s->worker[i]->rendezvous);

        sum.arrived += c.arrived;
        sum.waiting += c.waiting;
    }
    return sum;
}

static void await_counts(const servers *s, int arrived, int waiting)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    for (;;) {
        est_rendezvous_counts c = counts_of(s);

        if ((arrived < 0 || c.arrived == arrived) && c.waiting == waiting) return;
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* The large tensor goes from worker:0 to worker:1 once in a step, and never through the driver. */
TEST(bytes)
{
    servers      s      = servers_start(0, 2, "tcp");
    est_server  *client = make_client(&s);
    model        m      = make_model();
    est_remote  *remote = drive(client);
    est_session *session;
    uint64_t     before, direct, through, sends;
    double       got[2], same[2];

    session = nn_session(m.graph, remote);
    assert_ok(run(session, &m, 4, got));
    assert_true(got[0] == 2 && got[1] == 8);
    before = driven_bytes(remote);
    sends  = est_link_count(client_of(s.worker[1], "worker:0")->link).requests_in;
    for (int i = 0; i < STEPS; i++) assert_ok(run(session, &m, 4, got));
    direct = driven_bytes(remote) - before;
    /* the wide tensor, and the square that worker:0 sends back */
    assert_int_equal(est_link_count(client_of(s.worker[1], "worker:0")->link).requests_in - sends, 2 * STEPS);
    assert_int_equal(counts_of(&s).arrived, 3); /* in the last step; the third is the mean, at worker:0 */
    est_session_free(session);

    remote->direct = false; /* now all tensors go through the driver */
    session        = nn_session(m.graph, remote);
    assert_ok(run(session, &m, 4, same));
    before = driven_bytes(remote);
    for (int i = 0; i < STEPS; i++) assert_ok(run(session, &m, 4, same));
    through = driven_bytes(remote) - before;
    assert_memory_equal(got, same, sizeof got);
    printf("bytes of a step through the driver: %llu, before: %llu\n", (unsigned long long)direct / STEPS,
           (unsigned long long)through / STEPS);
    assert_true(direct < STEPS * 16384);
    assert_true(through > STEPS * 2 * sizeof(float) * ROWS * WIDE);
    est_session_free(session);
    est_remote_free(remote);
    await_counts(&s, 0, 0); /* the tasks drop the tensors of a driver that leaves */
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A step that fails at one task fails as a whole, and the error names the task. The next step succeeds. */
TEST(failure)
{
    servers      s      = servers_start(0, 2, "tcp");
    est_server  *client = make_client(&s);
    model        m      = make_model();
    est_remote  *remote = drive(client);
    est_session *session;
    double       got[2];

    session = nn_session(m.graph, remote);
    assert_ok(run(session, &m, 4, got));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(session, &m, 3, got), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "worker:0"));
        await_counts(&s, 0, 0);
        assert_ok(run(session, &m, 4, got));
        assert_true(got[0] == 2 && got[1] == 8);
    }
    est_session_free(session);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* Tensors for a task do not reach its restarted process. */
TEST(restart)
{
    servers      s      = servers_start(0, 2, "tcp");
    est_server  *client = make_client(&s);
    model        m      = make_model();
    est_remote  *remote = drive(client);
    est_session *session;
    est_status   status;
    double       got[2];

    session = nn_session(m.graph, remote);
    assert_ok(run(session, &m, 4, got));
    est_server_free(s.worker[1]);
    s.worker[1] = NULL;
    assert_ok(est_server_create(s.cluster, "worker", 1, EST_SERVER(.transport = "tcp", .threads = 1), &s.worker[1]));
    status = run(session, &m, 4, got);
    assert_true(status == EST_UNAVAILABLE || status == EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "worker:1"));
    est_session_free(session);
    session = nn_session(m.graph, remote);
    assert_ok(run(session, &m, 4, got));
    assert_true(got[0] == 2 && got[1] == 8);
    est_session_free(session);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* A segment at worker:1 that doubles what it receives by transfer 7. */
typedef struct receiver {
    est_segment         cut;
    est_node            in, out;
    int                 edge;
    est_remote_segment *entered;
} receiver;

static void make_receiver(receiver *r, est_remote *remote)
{
    *r = (receiver){ .edge = 7 };
    assert_ok(est_graph_create(1, &r->cut.graph));
    r->in        = est_placeholder(r->cut.graph, "in", EST_F32, EST_SHAPE(2));
    r->out       = est_add(r->in, r->in);
    r->cut.task  = remote->ops->find(remote, "worker", 1);
    r->cut.phase = 1;
    r->cut.io    = (est_io){ .feeds = &r->in, .fetches = &r->out, .n_feeds = 1, .n_fetches = 1 };
    r->cut.edges = &r->edge;
    r->cut.n_out = 1;
    assert_ok(remote->ops->enter(remote, &r->cut, &r->entered));
}

/* Sends the transfer as worker:0 would. */
static est_status send_to(est_link *link, uint64_t driver, uint64_t step, int n_tensors)
{
    float        data[2] = { 1, 2 };
    est_view     view    = { .data = data, .dtype = EST_F32, .shape = EST_SHAPE(2), .count = 2 };
    est_packing  packing = { 0 };
    est_payload  payload;
    est_message *answer = NULL;
    est_ask     *ask;
    est_status   status;

    est_wire_put_u64(&packing.head, EST_FIELD_DRIVER, driver);
    est_wire_put_u64(&packing.head, EST_FIELD_DRIVEN_STEP, step);
    est_wire_put_u64(&packing.head, EST_FIELD_TRANSFER, 7);
    for (int i = 0; i < n_tensors; i++) est_pack_view(&packing, &view);
    assert_ok(est_packing_payload(&packing, &payload));
    assert_ok(est_link_ask(link, EST_METHOD_SEND, "a tensor", payload, 60, NULL, NULL, &ask));
    status = est_ask_wait(ask, &answer);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

/* A run that waits for tensors does not block other runs at the executor. It ends with its tensors, its step or
 * its driver. */
TEST(waiting)
{
    servers         s      = servers_start(0, 2, "tcp");
    est_server     *client = make_client(&s), *other = make_client(&s);
    model           m      = make_model();
    est_remote     *remote = drive(client), *beside = drive(other);
    est_session    *session = nn_session(m.graph, beside);
    const est_view *out;
    est_link       *link;
    receiver        r;
    double          got[2];

    assert_ok(remote->ops->connect(remote));
    make_receiver(&r, remote);
    link = est_tasks_of(remote)->tasks[r.cut.task].link;

    remote->step = 1; /* the tensor arrives after the run has started */
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    await_counts(&s, -1, 1);
    assert_ok(run(session, &m, 4, got));
    assert_int_equal(send_to(link, client->self.incarnation, 1, 2), EST_DATA_LOSS);
    assert_ok(send_to(link, client->self.incarnation, 1, 1));
    assert_ok(send_to(link, client->self.incarnation, 1, 1)); /* a repeated transfer is ignored */
    assert_ok(remote->ops->finish(r.entered, &out));
    assert_true(((const float *)out->data)[1] == 4);

    remote->step = 2; /* the tensor arrives before the run starts */
    assert_ok(send_to(link, client->self.incarnation, 2, 1));
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    assert_ok(remote->ops->finish(r.entered, &out));

    remote->step = 3; /* the tensor never arrives, and the driver abandons the step */
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    await_counts(&s, -1, 1);
    remote->ops->abandon(remote);
    assert_int_equal(counts_of(&s).waiting, 0);

    remote->step = 4; /* the tensor never arrives, and the link of the driver ends */
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    await_counts(&s, -1, 1);
    est_link_close(link, "a test");
    await_counts(&s, -1, 0);
    remote->ops->abandon(remote);
    remote->ops->leave(r.entered);
    est_session_free(session);
    est_remote_free(remote);
    est_remote_free(beside);
    est_server_free(client);
    est_server_free(other);
    est_graph_free(r.cut.graph);
    est_graph_free(m.graph);
    servers_stop(&s);
}

static est_status ask_run(est_link *link, const est_packing *packing)
{
    est_payload  payload;
    est_message *answer = NULL;
    est_ask     *ask;
    est_status   status;

    assert_ok(est_packing_payload(packing, &payload));
    assert_ok(est_link_ask(link, EST_METHOD_RUN, "a run", payload, 60, NULL, NULL, &ask));
    status = est_ask_wait(ask, &answer);
    est_message_free(answer);
    return status;
}

/* A segment at worker:0 that adds 3 to n and sends the 3. */
typedef struct sender {
    est_segment         cut;
    est_node            io[2];
    est_remote_segment *entered;
    est_link           *link;
} sender;

static void make_sender(sender *d, est_remote *remote)
{
    est_tensor *zero   = NULL;
    char        name[] = "n";

    *d = (sender){ .cut = { .phase = 1, .writes = true } };
    assert_ok(est_graph_create(1, &d->cut.graph));
    d->io[0] = est_scalar(d->cut.graph, EST_F32, 3);
    d->io[1] = est_assign_add(est_weight(d->cut.graph, "n", EST_SHAPE(), EST_WEIGHT(.initializer = est_init_zeros())),
                              d->io[0]);
    d->cut.task = remote->ops->find(remote, "worker", 0);
    d->cut.io   = (est_io){ .fetches = &d->io[0], .n_fetches = 1, .targets = &d->io[1], .n_targets = 1 };
    d->link     = est_tasks_of(remote)->tasks[d->cut.task].link;
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 0 }, &zero));
    assert_ok(remote->ops->write(remote, &(est_var){ .name = name, .task = d->cut.task }, zero));
    assert_ok(remote->ops->enter(remote, &d->cut, &d->entered));
    est_tensor_free(zero);
}

/* Asks for a run of it, as transfer `edge` of the step, to the process of a task. */
static est_status run_sender(const sender *d, uint64_t sequence, uint64_t step, int edge, const char *task,
                             uint64_t incarnation)
{
    est_packing packing = { 0 };
    est_status  status;

    est_wire_put_u64(&packing.head, EST_FIELD_SEGMENT, d->entered->number);
    est_wire_put_u64(&packing.head, EST_FIELD_SEQUENCE, sequence);
    est_wire_put_u64(&packing.head, EST_FIELD_DRIVEN_STEP, step);
    est_wire_put_i64(&packing.head, EST_FIELD_RETURNED, 0);
    est_sends_put(&packing.head, &(est_segment_send){ .output = 0, .edge = edge }, task, incarnation);
    status = ask_run(d->link, &packing);
    est_packing_clear(&packing);
    return status;
}

/* A run that changes variables is executed once. A repeated request sends its tensors again. */
TEST(repeated)
{
    servers                s      = servers_start(0, 2, "tcp");
    est_server            *client = make_client(&s);
    est_remote            *remote = drive(client);
    const est_remote_task *to;
    sender                 d;

    assert_ok(remote->ops->connect(remote));
    make_sender(&d, remote);
    to = &est_tasks_of(remote)->tasks[remote->ops->find(remote, "worker", 1)];
    assert_ok(run_sender(&d, 1, 1, 5, to->name, to->incarnation));
    await_counts(&s, 1, 0);
    est_rendezvous_forget(s.worker[1]->rendezvous, client->self.incarnation);
    assert_ok(run_sender(&d, 1, 1, 5, to->name, to->incarnation));
    await_counts(&s, 1, 0);
    assert_true(*(const float *)est_store_find(est_host_store(s.worker[0]->host), "n")->value.data == 3);
    remote->ops->leave(d.entered);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(d.cut.graph);
    servers_stop(&s);
}

/* A tensor that cannot be sent: its run is answered, and then the driver hears that the step fails, also while it waits
 * for the receiver. A failure that is known at once fails the run. */
TEST(undeliverable)
{
    servers                s      = servers_start(0, 2, "tcp");
    est_server            *client = make_client(&s);
    est_remote            *remote = drive(client);
    const est_remote_task *to;
    const est_view        *out;
    int64_t                until = est_now_ns() + 60 * EST_NS_PER_SEC;
    uint64_t               reports;
    receiver               r;
    sender                 d;

    assert_ok(remote->ops->connect(remote));
    make_sender(&d, remote);
    make_receiver(&r, remote);
    to = &est_tasks_of(remote)->tasks[r.cut.task];

    remote->step = 1; /* no such task */
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    await_counts(&s, -1, 1);
    assert_ok(run_sender(&d, 1, 1, 7, "worker:9", 1));
    assert_int_equal(remote->ops->finish(r.entered, &out), EST_INVALID_ARGUMENT);
    assert_non_null(
        strstr(est_error_message(), "worker:0: a tensor for worker:9 was not sent: the cluster has no task"));
    remote->ops->abandon(remote);
    await_counts(&s, -1, 0);

    remote->step = 2; /* another process, as is found when the link is made, */
    assert_ok(remote->ops->start(r.entered, 0, NULL, 0));
    assert_ok(run_sender(&d, 2, 2, 7, to->name, to->incarnation + 1));
    assert_int_equal(remote->ops->finish(r.entered, &out), EST_ABORTED);
    assert_non_null(
        strstr(est_error_message(), "worker:0: a tensor for worker:1 was not sent: worker:1 was restarted"));
    remote->ops->abandon(remote);

    remote->step = 3; /* and at once from then on; later steps are not concerned */
    assert_int_equal(run_sender(&d, 3, 3, 7, to->name, to->incarnation + 1), EST_ABORTED);
    assert_ok(est_rendezvous_check_step(client->rendezvous, 3));

    reports = est_link_count(d.link).requests_in; /* a report of an earlier step that comes late hides none */
    assert_ok(run_sender(&d, 4, 1, 7, "worker:9", 1));
    while (est_link_count(d.link).requests_in == reports && est_now_ns() < until) est_sleep_ns(1000000);
    assert_int_equal(run_sender(&d, 5, 3, 7, to->name, to->incarnation + 1), EST_ABORTED); /* answered after it */
    assert_int_equal(est_rendezvous_check_step(client->rendezvous, 2), EST_ABORTED);
    remote->ops->leave(d.entered);
    remote->ops->leave(r.entered);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(d.cut.graph);
    est_graph_free(r.cut.graph);
    servers_stop(&s);
}

#define MANY 30 /* tensors */

/* Many tensors for a process that is gone fail after one attempt to reach it: those for others do not wait behind
 * them. */
TEST(undeliverable_many)
{
    servers                s      = servers_start_with(0, 3, "tcp", 2);
    est_server            *client = NULL;
    est_remote            *remote;
    const est_remote_task *gone, *to;
    int64_t                until;
    sender                 d;

    assert_ok(est_server_create(s.cluster, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1, .silence_secs = 2),
                                &client));
    remote = drive(client);
    assert_ok(remote->ops->connect(remote));
    make_sender(&d, remote);
    to   = &est_tasks_of(remote)->tasks[remote->ops->find(remote, "worker", 1)];
    gone = &est_tasks_of(remote)->tasks[remote->ops->find(remote, "worker", 2)];
    est_server_free(s.worker[2]);
    s.worker[2] = NULL;
    for (int i = 0; i < MANY; i++) assert_ok(run_sender(&d, (uint64_t)i + 1, 1, i, gone->name, gone->incarnation));
    assert_ok(run_sender(&d, MANY + 1, 2, 0, to->name, to->incarnation));
    until = est_now_ns() + est_secs_to_ns(MANY / 2); /* one attempt takes 2 s */
    while (est_rendezvous_count(s.worker[1]->rendezvous).arrived == 0 && est_now_ns() < until) est_sleep_ns(1000000);
    assert_int_equal(est_rendezvous_count(s.worker[1]->rendezvous).arrived, 1);
    while (est_rendezvous_check_step(client->rendezvous, 1) == EST_OK && est_now_ns() < until) est_sleep_ns(1000000);
    assert_int_equal(est_rendezvous_check_step(client->rendezvous, 1), EST_ABORTED);
    assert_non_null(strstr(est_error_message(), "a tensor for worker:2 was not sent: it cannot be reached"));
    remote->ops->leave(d.entered);
    est_remote_free(remote);
    est_server_free(client);
    est_graph_free(d.cut.graph);
    servers_stop(&s);
}

#define SILENCE_SECS 0.4

static void *join_server(void *server)
{
    assert_int_equal(est_server_join(server), EST_CANCELLED);
    return NULL;
}

/* RV2: tensors of a driver that was lost are kept until it cannot come back, and those of others longer. */
TEST(lost_driver)
{
    servers     s      = servers_start_with(0, 2, "tcp", SILENCE_SECS);
    est_server *client = make_client(&s), *other = make_client(&s);
    est_remote *remote = drive(client), *beside = drive(other);
    int         at = remote->ops->find(remote, "worker", 1);
    pthread_t   thread;
    int64_t     lost_ns;

    assert_ok(remote->ops->connect(remote));
    assert_ok(beside->ops->connect(beside));
    assert_ok(send_to(est_tasks_of(remote)->tasks[at].link, client->self.incarnation, 1, 1));
    assert_ok(send_to(est_tasks_of(beside)->tasks[at].link, other->self.incarnation, 1, 1));
    assert_int_equal(counts_of(&s).arrived, 2);
    assert_int_equal(pthread_create(&thread, NULL, join_server, s.worker[1]), 0);
    lost_ns = est_now_ns();
    est_net_abort(est_server_net(client), "a test"); /* no goodbye */
    await_counts(&s, 1, 0);
    assert_true((double)(est_now_ns() - lost_ns) >= 3 * SILENCE_SECS * (double)EST_NS_PER_SEC);
    est_server_stop(s.worker[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    est_remote_free(beside);
    est_remote_free(remote);
    est_server_free(other);
    est_server_free(client);
    servers_stop(&s);
}

/* Without memory at any place of a step, in any of its tasks, the step fails or not; the next session is good. */
TEST(memory)
{
    servers      s       = servers_start(0, 2, "tcp");
    est_server  *client  = make_client(&s);
    model        m       = make_model();
    est_remote  *remote  = drive(client);
    est_session *session = nn_session(m.graph, remote);
    double       got[2];

    assert_ok(run(session, &m, 4, got));
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 10) {
        est_tensor *x = make_x(4), *out[2] = { 0 };
        est_status  status;

        fault_arm(&f);
        status = est_session_run(session, EST_FEEDS({ m.x, x }), EST_NODES(m.first, m.second), EST_NO_NODES, out);
        if (!fault_end(&f)) assert_ok(status);
        if (status == EST_OK) assert_true(nn_element(out[0], 0) == 2 && nn_element(out[1], 0) == 8);
        for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
        est_tensor_free(x);
        if (status == EST_OK) continue;
        est_session_free(session);
        session = nn_session(m.graph, remote);
        assert_ok(run(session, &m, 4, got));
        assert_true(got[0] == 2 && got[1] == 8);
    }
    est_session_free(session);
    est_remote_free(remote);
    await_counts(&s, 0, 0);
    est_server_free(client);
    est_graph_free(m.graph);
    servers_stop(&s);
}
