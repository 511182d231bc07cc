/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps whose gradients travel in several messages, on loopback: the numbers of a session without a cluster, bit for bit, also where
 * links break again and again between the messages of a step, in either direction. An update that was made twice, not at
 * all or after the one that follows would change them. */
#include "cluster/remote.h"
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
    for (int i = 0; i < BATCH * 8; i++) ((float *)est_tensor_data(x))[i] = (float)(i % 13) / 13.0f - 0.4f;
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
    est_session *session = NULL;
    est_store   *store;
    outcome      o;

    assert_ok(est_session_create(m->graph, EST_SESSION(.threads = 1), &session));
    assert_ok(est_session_init(session));
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
    est_session *session = NULL;
    outcome      got;

    assert_ok(est_session_create(m->graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    assert_ok(est_session_init(session));
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

static void test_same_numbers(void **state)
{
    model   m    = make_model();
    outcome want = train_whole(&m);

    (void)state;
    compare(&m, &want, (network){ .transport = "tcp" });
    compare(&m, &want, (network){ .transport = "tcp", .sync_replicas = 1 });
    est_graph_free(m.graph);
}

/* A step that was given to others is refused from its first push on by the task that counts steps, which may come long before the
 * count itself. */
static void refuse_without_turn(int n_ps)
{
    servers      s       = servers_start(n_ps, 1, "tcp");
    model        m       = make_model();
    est_remote  *remote  = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20, .step_limit = STEPS));
    est_session *session = NULL;
    est_step    *step    = NULL;
    est_tensor  *x       = batch();
    est_store   *clock;
    uint64_t     before;

    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    assert_ok(est_session_init(session));
    (void)train(session, &m, remote);
    clock = est_host_store(s.ps[0]->host);
    if (est_store_find(clock, "global_step") == NULL) clock = est_host_store(s.ps[1]->host);
    assert_true(est_store_size(clock) > 1); /* it trains some itself */
    before = bits_of(session, clock);
    assert_ok(est_session_prepare(session, EST_NODES(m.x), EST_NO_NODES, EST_NODES(m.train), &step));
    assert_int_equal(est_step_run(step, (const est_tensor *[]){ x }), EST_ABORTED);
    assert_true(bits_of(session, clock) == before);
    est_tensor_free(x);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(m.graph);
    servers_stop(&s);
}

static void test_without_turn(void **state)
{
    (void)state;
    refuse_without_turn(1);
    refuse_without_turn(2);
}

/* Whatever is lost, of the gradients of a step, of the answers or of both, is asked for again and not done again. */
static void test_links_break(void **state)
{
    model   m    = make_model();
    outcome want = train_whole(&m);
    size_t  pull = VALUES * sizeof(float);

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_numbers), cmocka_unit_test(test_without_turn), cmocka_unit_test(test_links_break),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
