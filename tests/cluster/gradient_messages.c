/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose gradients travel in several messages, on loopback: the numbers of a session without a cluster, bit for
 * bit, also where links break again and again between the messages of a step, in either direction. An update that was
 * made twice, not at all or after the one that follows would change them. */
#include <pthread.h>

#include "base/clock.h"
#include "cluster/remote_internal.h"
#include "cluster/remote_tasks.h"
#include "cluster/sync_replicas.h"
#include "estoc/estoc.h"
#include "net/inject.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define LAYERS 6
#define UNITS  256 /* a kernel of UNITS x UNITS is 256 KB */
#define BATCH  16
#define VALUES (8 * UNITS + (LAYERS - 1) * UNITS * UNITS + LAYERS * UNITS + 4 * UNITS + 4) /* of all variables */
#define STEPS  4

typedef struct model {
    est_graph *graph;
    est_node   x, loss, train, step;
} model;

static model make_model(void)
{
    model    m = { 0 };
    est_node h;

    assert_ok(est_graph_create(3, &m.graph));
    m.x = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 8));
    h   = m.x;
    for (int i = 0; i < LAYERS; i++) h = est_dense(h, UNITS, EST_DENSE(.activation = est_relu));
    m.loss  = est_reduce_mean(est_square(est_dense(h, 4, NULL)), EST_I64S(0, 1), false);
    m.train = est_minimize(est_adam(0.01, NULL), m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    return m;
}

/* What is to be compared: the losses of some steps, and the sum of the bits of all variables afterwards. */
typedef struct outcome {
    double   losses[STEPS];
    uint64_t bits;
} outcome;

static uint64_t bits_of(est_session *session, const est_store *store)
{
    uint64_t bits = 0;

    for (int i = 0; i < est_session_variables(session); i++) {
        const est_var  *var = est_store_find(store, est_session_variable(session, i));
        const est_view *value;

        if (var == NULL) continue; /* another task has it */
        value = &var->value;
        for (size_t k = 0; k < (size_t)value->count * est_dtype_size(value->dtype); k++) {
            bits = bits * 31 + ((const uint8_t *)value->data)[k];
        }
    }
    return bits;
}

static est_tensor *batch(void)
{
    est_tensor *x = NULL;

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(BATCH, 8), &x));
    for (int i = 0; i < BATCH * 8; i++) ((float *)est_tensor_mutable_data(x))[i] = (float)(i % 13) / 13.0f - 0.4f;
    return x;
}

static outcome train(est_session *session, const model *m, est_remote *remote)
{
    outcome     o    = { 0 };
    est_step   *step = NULL;
    est_tensor *x    = batch();

    assert_ok(est_session_prepare(session, EST_NODES(m->x), EST_NODES(m->loss, m->step), EST_NODES(m->train), &step));
    for (int i = 0; i < STEPS; i++) {
        bool finished = false;

        if (remote != NULL) assert_ok(remote->ops->turn(remote, &finished));
        assert_false(finished);
        assert_ok(est_step_run(step, (const est_tensor *[]){ x }));
        o.losses[i] = est_step_scalar(step, 0);
        assert_int_equal(est_step_scalar(step, 1), i + 1);
    }
    est_tensor_free(x);
    return o;
}

static outcome train_whole(const model *m)
{
    est_session *session = nn_session(m->graph, NULL);
    est_store   *store;
    outcome      o;

    o = train(session, m, NULL);
    assert_ok(est_session_store(session, &store));
    o.bits = bits_of(session, store);
    est_session_free(session);
    return o;
}

/* Links break after n more bytes of the worker, or of the ps; 0: they do not. */
typedef struct network {
    const char *transport;
    uint64_t    worker_cut, ps_cut;
    int         sync_replicas;
} network;

static void compare(const model *m, const outcome *want, network how)
{
    servers      s       = servers_start(1, 1, how.transport);
    est_remote  *remote  = servers_remote(&s, 0,
                                          EST_REMOTE(.is_chief = true, .connect_secs = 20, .answer_secs = 20,
                                                     .step_limit = STEPS, .sync_replicas = how.sync_replicas));
    est_session *session = nn_session(m->graph, remote);
    outcome      got;

    if (how.worker_cut > 0) {
        assert_ok(est_net_inject(est_server_net(s.worker[0]), "ps:0", EST_INJECT_CUT, how.worker_cut));
    }
    if (how.ps_cut > 0) assert_ok(est_net_inject(est_server_net(s.ps[0]), "worker:0", EST_INJECT_CUT, how.ps_cut));
    got = train(session, m, remote);
    assert_memory_equal(got.losses, want->losses, sizeof got.losses);
    got.bits = bits_of(session, est_host_store(s.ps[0]->host)); /* nobody else asks it now */
    assert_true(got.bits == want->bits);
    if (how.worker_cut > 0 || how.ps_cut > 0) {
        assert_true(s.ps[0]->clients[0]->gone.requests_in > 0); /* it did break */
    }
    est_session_free(session);
    est_remote_free(remote);
    servers_stop(&s);
}

TEST(same_numbers)
{
    model   m    = make_model();
    outcome want = train_whole(&m);

    compare(&m, &want, (network){ .transport = "tcp" });
    compare(&m, &want, (network){ .transport = "tcp", .sync_replicas = 1 });
    est_graph_free(m.graph);
}

/* A step that was given to others is refused from its first push on by the task that counts steps, which may come long
 * before the count itself. */
static void refuse_without_turn(int n_ps)
{
    servers      s       = servers_start(n_ps, 1, "tcp");
    model        m       = make_model();
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20, .step_limit = STEPS));
    est_session *session = nn_session(m.graph, remote);
    est_step    *step    = NULL;
    est_tensor  *x       = batch();
    est_store   *clock;
    uint64_t     before;

    (void)train(session, &m, remote);
    clock = est_host_store(s.ps[0]->host);
    if (est_store_find(clock, "global_step") == NULL) clock = est_host_store(s.ps[1]->host);
    assert_true(est_store_size(clock) > 1); /* it trains some itself */
    before = bits_of(session, clock);
    assert_ok(est_session_prepare(session, EST_NODES(m.x), EST_NO_NODES, EST_NODES(m.train), &step));
    remote->has_turn = true; /* it believes so */
    assert_int_equal(est_step_run(step, (const est_tensor *[]){ x }), EST_ABORTED);
    assert_true(bits_of(session, clock) == before);
    est_tensor_free(x);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    servers_stop(&s);
}

TEST(without_turn)
{
    refuse_without_turn(1);
    refuse_without_turn(2);
}

/* --- steps that are made together --------------------------------------------------------------------------------- */

static void *run_step(void *arg)
{
    est_tensor *x      = batch();
    est_status  status = est_step_run(arg, (const est_tensor *[]){ x });

    est_tensor_free(x);
    return status == EST_OK ? arg : NULL;
}

static void hold(est_server *ps, bool held)
{
    pthread_mutex_lock(&ps->lock);
    if (held) {
        est_gate_hold(ps->gate);
    } else {
        est_gate_release(ps->gate);
        est_server_wake(ps);
    }
    pthread_mutex_unlock(&ps->lock);
}

static void await_parked(est_server *ps)
{
    int64_t deadline = est_now_ns() + 60 * EST_NS_PER_SEC;
    int     parked   = 0;

    while (parked == 0 && est_now_ns() < deadline) {
        pthread_mutex_lock(&ps->lock);
        parked = ps->n_parked;
        pthread_mutex_unlock(&ps->lock);
        if (parked == 0) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    assert_int_equal(parked, 1);
}

/* Makes a step whose commit ends after some pieces, as this variable, which another one changes, has no value then; and
 * so does its worker, which can have nothing dropped. */
static void fail_commit(servers *s, est_session *session, const model *m, est_remote *remote)
{
    est_var  *var  = est_store_find(est_host_store(s->ps[0]->host), "dense/kernel");
    est_step *step = NULL;
    pthread_t thread;
    void     *result;
    bool      finished;

    assert_non_null(var);
    assert_ok(est_session_prepare(session, EST_NODES(m->x), EST_NODES(m->loss, m->step), EST_NODES(m->train), &step));
    assert_ok(remote->ops->turn(remote, &finished));
    hold(s->ps[0], true);
    assert_int_equal(pthread_create(&thread, NULL, run_step, step), 0);
    await_parked(s->ps[0]);
    pthread_mutex_lock(&s->ps[0]->host_lock);
    var->initialized = false;
    assert_int_equal(est_sync_replicas_commit(s->ps[0], s->ps[0]->version), EST_FAILED_PRECONDITION);
    var->initialized = true;
    pthread_mutex_unlock(&s->ps[0]->host_lock);
    est_link_close(est_tasks_of(remote)->tasks[0].link, "it dies");
    pthread_join(thread, &result);
    assert_null(result);
    hold(s->ps[0], false);
}

/* A step that was made in part is finished when it is made again: what was applied is not applied again. */
TEST(commit_fails)
{
    model       m      = make_model();
    outcome     want   = train_whole(&m), got;
    servers     s      = servers_start(1, 1, "tcp");
    est_remote *remote = servers_remote(
        &s, 0,
        EST_REMOTE(.is_chief = true, .connect_secs = 20, .answer_secs = 20, .step_limit = STEPS, .sync_replicas = 1));
    est_session *session = nn_session(m.graph, remote);

    fail_commit(&s, session, &m, remote);
    assert_true(s.ps[0]->applied > 0);
    est_session_free(session);
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    got      = train(session, &m, remote);
    got.bits = bits_of(session, est_host_store(s.ps[0]->host));
    assert_true(got.bits == want.bits);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    servers_stop(&s);
}

/* One of two workers that make steps together. */
typedef struct worker {
    servers   *servers;
    int        index;
    bool       uses_twice; /* uses a kernel twice: its gradient is the last that is ready, and the pieces are others */
    est_status status;
    est_error  error;
} worker;

/* The chief looks at a kernel, too, which changes the order of its step. */
static void *work(void *arg)
{
    worker     *w      = arg;
    est_remote *remote = servers_remote(
        w->servers, w->index,
        EST_REMOTE(.is_chief = w->index == 0, .connect_secs = 20, .answer_secs = 20, .sync_replicas = 2));
    est_session *session = NULL;
    est_step    *step    = NULL;
    est_tensor  *x       = batch();
    model        m       = { 0 };
    est_node     h, first = EST_NO_NODE, kernel, more;
    bool         finished;

    assert_ok(est_graph_create(3, &m.graph));
    m.x = h = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 8));
    kernel  = est_read_variable(est_weight(m.graph, "w", EST_SHAPE(UNITS, 4), NULL));
    for (int i = 0; i < LAYERS; i++) {
        h = est_dense(h, UNITS, EST_DENSE(.activation = est_relu));
        if (i == 0) first = h;
    }
    m.loss = est_reduce_mean(est_square(est_matmul(h, kernel)), EST_I64S(0, 1), false);
    if (w->uses_twice) {
        m.loss = est_add(m.loss, est_reduce_mean(est_square(est_matmul(first, kernel)), EST_I64S(0, 1), false));
    }
    m.train = est_minimize(est_adam(0.01, NULL), m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    more    = w->index == 0 ? est_reduce_sum(kernel, EST_I64S(0, 1), false) : m.loss;
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    if (w->index == 0) {
        assert_ok(est_session_init(session));
        assert_ok(est_remote_declare_ready(remote));
    }
    assert_ok(est_session_prepare(session, EST_NODES(m.x), EST_NODES(m.loss, m.step, more), EST_NODES(m.train), &step));
    assert_ok(remote->ops->turn(remote, &finished));
    w->status = est_step_run(step, (const est_tensor *[]){ x });
    est_error_take(w->status, &w->error);
    est_tensor_free(x);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    return NULL;
}

/* Returns the step that the job is at then. */
static int64_t run_workers(servers *s, worker w[2])
{
    pthread_t thread[2];

    for (int i = 0; i < 2; i++) {
        w[i].servers = s;
        w[i].index   = i;
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    return *(const int64_t *)est_store_find(est_host_store(s->ps[0]->host), "global_step")->value.data;
}

/* Pieces are cut alike, whatever else a worker looks at. */
TEST(same_pieces)
{
    servers s    = servers_start(1, 2, "tcp");
    worker  w[2] = { 0 };

    assert_int_equal(run_workers(&s, w), 1);
    for (int i = 0; i < 2; i++) assert_int_equal(w[i].status, EST_OK);
    servers_stop(&s);
}

/* Pieces that were cut in two ways do not fit together: whoever comes second is told so, and the other makes the step.
 * Where each comes second with one of its pieces, both are told, and nobody does. */
TEST(other_pieces)
{
    servers s    = servers_start(1, 2, "tcp");
    worker  w[2] = { { .uses_twice = true } };
    int64_t made;

    made = run_workers(&s, w);
    assert_int_equal(made, (w[0].status == EST_OK) + (w[1].status == EST_OK));
    assert_in_range(made, 0, 1);
    for (int i = 0; i < 2; i++) {
        if (w[i].status == EST_OK) continue;
        assert_int_equal(w[i].status, EST_FAILED_PRECONDITION);
        assert_non_null(strstr(w[i].error.message, i == 0 ? "worker:1" : "worker:0"));
    }
    servers_stop(&s);
}

/* Whatever is lost, of the gradients of a step, of the answers or of both, is asked for again and not done again. */
TEST(links_break)
{
    model   m    = make_model();
    outcome want = train_whole(&m);
    size_t  pull = VALUES * sizeof(float);

    /* a piece and what goes before it fits into what a link lasts for, all of them do not */
    for (uint64_t n = 600000; n < pull + 200000; n += 150001) {
        compare(&m, &want, (network){ .transport = "tcp", .worker_cut = n });
    }
    /* somewhere among the small answers that follow the values, their heads and a hello */
    for (uint64_t n = pull + 1500; n < pull + 3000; n += 59) {
        compare(&m, &want, (network){ .transport = "tcp", .ps_cut = n });
    }
    est_graph_free(m.graph);
}

/* --- between two pieces ------------------------------------------------------------------------------------------- */

/* The segment that the step entered last. */
static est_remote_segment *enter(est_session *session, est_remote *remote, est_node update)
{
    est_step *step = NULL;

    assert_ok(est_session_prepare(session, EST_NO_NODES, EST_NO_NODES, EST_NODES(update), &step));
    return est_tasks_of(remote)->segments;
}

/* The first is lost with its link, before or after it was sent, and a new link is there when the second is to go out,
 * since a wait for another task looks for all that are missing: the second goes after the first nevertheless. */
static void start_over_a_new_link(bool sent)
{
    servers             s       = servers_start(1, 1, "tcp");
    est_remote         *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 60));
    est_remote_task    *ps      = &est_tasks_of(remote)->tasks[0];
    est_session        *session = NULL;
    est_graph          *graph;
    est_remote_segment *doubles, *adds;
    const est_view     *out;
    est_node            a, twice, more;

    assert_ok(est_graph_create(5, &graph));
    a     = est_weight(graph, "a", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    twice = est_assign_add(a, est_read_variable(a));
    more  = est_assign_add(a, est_const_f32(graph, EST_SHAPE(1), (const float[]){ 1 }));
    assert_ok(est_graph_status(graph));
    session = nn_session(graph, remote);
    doubles = enter(session, remote, twice);
    adds    = enter(session, remote, more);
    assert_ptr_not_equal(doubles, adds);
    assert_ok(est_net_inject(est_server_net(s.worker[0]), "ps:0", EST_INJECT_SILENCE, 0));
    if (!sent) est_link_close(ps->link, "cut");
    assert_ok(remote->ops->start(doubles, 0, NULL, 0));
    if (sent) est_link_close(ps->link, "cut");
    assert_ok(est_net_inject(est_server_net(s.worker[0]), "ps:0", EST_INJECT_NOTHING, 0));
    assert_ok(est_remote_task_reach(est_tasks_of(remote), ps, 60));
    assert_ok(remote->ops->start(adds, 0, NULL, 0));
    assert_ok(remote->ops->finish(doubles, &out));
    assert_ok(remote->ops->finish(adds, &out));
    assert_true(*(const float *)est_store_find(est_host_store(s.ps[0]->host), "a")->value.data == 3);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}

TEST(order_over_a_new_link)
{
    start_over_a_new_link(false);
    start_over_a_new_link(true);
}
