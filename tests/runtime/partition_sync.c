/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps that are made together: what is pushed to a task is the same, byte for byte, whatever else is fetched,
 * and what is fetched is what one process gets. All without a network, at tasks that do at once what they are sent. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "ops/array.h"
#include "ops/ops.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "support/nn_test.h"

#define ROWS   500
#define WIDTH  4
#define UNITS  256 /* a kernel of UNITS x UNITS is 256 KB: a piece of its own */
#define LAYERS 4
#define BATCH  16

/* What a worker may want to see besides what all do. */
enum {
    BEFORE,   /* a variable as it was; read before anything else does */
    AFTER,    /* the same as it is then */
    FAR,      /* rows of it as they were, ids of which depend on another variable */
    FAR_THEN, /* these rows as they are then */
    GRADIENT, /* of one variable; made before all others are */
    OTHER,    /* rows for which the spread variables are touched in another order */
    MIXED,    /* computed here of both */
    AT_TASK,  /* the same, computed at a task */
    N_WISHES
};

typedef struct model {
    est_graph *graph;
    est_node   ids, x, y, loss, train, step;
    est_node   wish[N_WISHES];
} model;

/* A few ids that depend on the values of a variable. */
static est_node ids_of(est_node variable)
{
    est_node few = est_slice(est_reshape(est_read_variable(variable), EST_I64S(-1)), EST_I64S(0), EST_I64S(3));

    return est_cast(est_scale(est_abs(few), 100), EST_I64);
}

static model make_model(est_optimizer optimizer)
{
    model        m = { 0 };
    est_node     table, more, first, h;
    est_gradient gradient;

    assert_ok(est_graph_create(5, &m.graph));
    m.ids          = est_placeholder(m.graph, "ids", EST_I64, EST_SHAPE(-1));
    m.x            = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, WIDTH));
    m.y            = est_placeholder(m.graph, "y", EST_F32, EST_SHAPE(-1, 1));
    table          = est_weight(m.graph, "table", EST_SHAPE(ROWS, WIDTH), NULL);
    more           = est_weight(m.graph, "more", EST_SHAPE(ROWS, WIDTH), NULL);
    first          = est_weight(m.graph, "first", EST_SHAPE(3 * WIDTH, UNITS), NULL);
    m.wish[BEFORE] = est_read_variable(first);
    m.wish[OTHER]  = est_resource_gather(more, est_add(m.ids, est_scalar(m.graph, EST_I64, 1)));
    m.wish[FAR]    = est_resource_gather(table, ids_of(first));
    h              = est_concat(EST_NODES(est_resource_gather(table, m.ids), est_resource_gather(more, m.ids), m.x), 1);
    h              = est_matmul(h, est_read_variable(first));
    for (int i = 0; i < LAYERS; i++) h = est_dense(h, UNITS, EST_DENSE(.activation = est_tanh));
    h      = est_dense(h, 1, EST_DENSE(.name = "logits"));
    m.loss = est_reduce_mean(est_square(est_sub(h, m.y)), EST_I64S(0, 1), false);
    est_gradients(m.loss, (est_nodes){ &first, 1 }, &gradient);
    m.wish[GRADIENT] = gradient.values;
    m.train          = est_minimize(optimizer, m.loss, NULL);
    m.step           = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    m.wish[AFTER]    = est_after(est_read_variable(first), m.train);
    m.wish[FAR_THEN] = est_after(est_resource_gather(table, ids_of(first)), m.train);
    m.wish[MIXED]    = est_sub(m.wish[AFTER], m.wish[BEFORE]);
    est_graph_device(m.graph, "/job:ps/task:0");
    m.wish[AT_TASK] = est_sub(est_after(est_read_variable(table), m.train), est_read_variable(table));
    est_graph_device(m.graph, NULL);
    assert_ok(est_graph_status(m.graph));
    return m;
}

static est_status prepare(est_session *session, const model *m, unsigned wishes, est_step **step)
{
    est_node fetches[N_WISHES + 2] = { m->loss };
    int      n                     = 1;

    for (int w = 0; w < N_WISHES; w++) {
        if ((wishes & 1u << w) != 0) fetches[n++] = m->wish[w];
    }
    if (wishes != 0) fetches[n++] = m->step;
    return est_session_prepare(session, EST_NODES(m->ids, m->x, m->y), (est_nodes){ fetches, n }, EST_NODES(m->train),
                               step);
}

static void run(est_step *step, int64_t first)
{
    est_tensor *in[3];

    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(BATCH), &in[0]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(BATCH, WIDTH), &in[1]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(BATCH, 1), &in[2]));
    for (int64_t i = 0; i < BATCH; i++) ((int64_t *)est_tensor_mutable_data(in[0]))[i] = (first + i) * 7 % (ROWS - 1);
    est_random_fill_normal_f32(&(est_random){ 1, 2, 0 }, first * WIDTH, BATCH * WIDTH, est_tensor_mutable_data(in[1]));
    est_random_fill_normal_f32(&(est_random){ 1, 3, 0 }, first, BATCH, est_tensor_mutable_data(in[2]));
    assert_ok(est_step_run(step, (const est_tensor *[]){ in[0], in[1], in[2] }));
    for (int i = 0; i < 3; i++) est_tensor_free(in[i]);
}

static est_remote *remote_sync_replicas(int n_tasks, const est_partitioner *partitioner)
{
    est_remote *remote = memory_remote_create(n_tasks);

    remote->sync_replicas = true;
    remote->partitioner   = partitioner;
    return remote;
}

/* --- the same bytes ----------------------------------------------------------------------------------------------- */

/* All segments of a step that change variables; *n: how many. */
static est_wire_writer pushed(est_step *step, int *n)
{
    const est_plan *plan = est_step_plan(step);
    est_wire_writer all  = { 0 };

    *n = 0;
    for (int i = 0; i < plan->n_segments; i++) {
        const est_segment *segment = &plan->segments[i];

        if (!segment->writes) continue;
        assert_int_equal(segment->io.n_fetches, 0);
        assert_false(segment->late);
        est_wire_put_i64(&all, 1, segment->task);
        est_wire_put_i64(&all, 2, segment->phase);
        est_wire_put_i64(&all, 3, segment->piece);
        assert_ok(est_segment_encode(segment, &all));
        ++*n;
    }
    return all;
}

/* No wish, each of them, all. */
static unsigned wishes_of(int round)
{
    return round == 0 ? 0 : round <= N_WISHES ? 1u << (round - 1) : (1u << N_WISHES) - 1;
}

static void compare_pushed(est_optimizer optimizer, int n_tasks, const est_partitioner *partitioner, int min)
{
    model           m       = make_model(optimizer);
    est_remote     *remote  = remote_sync_replicas(n_tasks, partitioner);
    est_session    *session = NULL;
    est_wire_writer want    = { 0 }, have;
    int             n_want  = 0, n;

    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    for (int round = 0; round <= N_WISHES + 1; round++) {
        est_step *step = NULL;

        assert_ok(prepare(session, &m, wishes_of(round), &step));
        have = pushed(step, &n);
        if (round == 0) {
            want   = have;
            n_want = n;
            assert_true(n >= min);
            continue;
        }
        if (n != n_want || have.size != want.size || memcmp(have.data, want.data, want.size) != 0)
            fail_msg("%d tasks, wishes %x: other updates are pushed", n_tasks, wishes_of(round));
        est_wire_writer_clear(&have);
    }
    est_wire_writer_clear(&want);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

TEST(same_bytes)
{
    est_partitioner spread = est_fixed_shards(2);

    compare_pushed(est_adagrad(0.1, NULL), 1, NULL, 3); /* in pieces */
    compare_pushed(est_adam(0.01, NULL), 2, NULL, 4);
    compare_pushed(est_adam(0.01, NULL), 2, &spread, 4);
    compare_pushed(est_adagrad(0.1, NULL), 2, &spread, 4);
}

/* --- the same values ---------------------------------------------------------------------------------------------- */

static void assert_same_results(est_step *a, est_step *b, unsigned wishes)
{
    const est_plan *x = est_step_plan(a), *y = est_step_plan(b);

    for (int i = 0; i < x->io.n_fetches; i++) {
        const est_view *have = est_plan_fetch(x, i), *want = est_plan_fetch(y, i);

        assert_int_equal(have->count, want->count);
        if (memcmp(have->data, want->data, (size_t)want->count * est_dtype_size(want->dtype)) != 0)
            fail_msg("wishes %x: result %d differs", wishes, i);
    }
}

static void compare_values(est_optimizer optimizer, int n_tasks, const est_partitioner *partitioner)
{
    model        m      = make_model(optimizer);
    est_remote  *remote = remote_sync_replicas(n_tasks, partitioner);
    est_session *cut = NULL, *whole = NULL;

    cut   = nn_session(m.graph, remote);
    whole = nn_session(m.graph, NULL);
    for (int round = 0; round <= N_WISHES + 1; round++) {
        est_step *a = NULL, *b = NULL;

        assert_ok(prepare(cut, &m, wishes_of(round), &a));
        assert_ok(prepare(whole, &m, wishes_of(round), &b));
        for (int i = 0; i < 2; i++) {
            run(a, (2 * round + i) * BATCH);
            run(b, (2 * round + i) * BATCH);
            assert_same_results(a, b, wishes_of(round));
        }
    }
    est_session_free(cut);
    est_session_free(whole);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}

TEST(same_values)
{
    est_partitioner spread = est_fixed_shards(2);

    compare_values(est_adagrad(0.1, NULL), 1, NULL);
    compare_values(est_adam(0.01, NULL), 2, NULL);
    compare_values(est_adam(0.01, NULL), 2, &spread);
    compare_values(est_adagrad(0.1, NULL), 2, &spread);
}

/* --- what it costs ------------------------------------------------------------------------------------------------ */

/* Messages of a step that fetches the loss, or the global step instead. */
static int count_messages(est_optimizer optimizer, int n_tasks, bool sync_replicas, bool step_fetched)
{
    model        m       = make_model(optimizer);
    est_remote  *remote  = memory_remote_create(n_tasks);
    est_session *session = NULL;
    est_step    *step    = NULL;
    int          n       = 0;

    remote->sync_replicas = sync_replicas;
    session               = nn_session(m.graph, remote);
    assert_ok(est_session_prepare(session, EST_NODES(m.ids, m.x, m.y), EST_NODES(step_fetched ? m.step : m.loss),
                                  EST_NODES(m.train), &step));
    memory_remote_reset(remote);
    run(step, 0);
    for (int t = 0; t < n_tasks; t++) n += memory_remote_starts(remote, t);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
    return n;
}

/* Updates need no more messages for being made together; the global step, which is not known before all have pushed,
 * one. */
TEST(messages)
{
    est_optimizer optimizers[] = { est_sgd(0.1), est_adagrad(0.1, NULL), est_adam(0.01, NULL), est_ftrl(0.1, NULL),
                                   est_momentum(0.1, NULL) };

    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        for (int n_tasks = 1; n_tasks <= 2; n_tasks++) {
            int n = count_messages(optimizers[i], n_tasks, false, false);

            assert_int_equal(count_messages(optimizers[i], n_tasks, true, false), n);
            assert_int_equal(count_messages(optimizers[i], n_tasks, false, true), n);
            assert_int_equal(count_messages(optimizers[i], n_tasks, true, true), n + 1);
        }
    }
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

/* An update that is computed here of what another one has left; at the task that has both it can be made. */
TEST(update_of_update)
{
    for (int here = 0; here < 2; here++) {
        est_remote  *remote  = remote_sync_replicas(1, NULL);
        est_session *session = NULL;
        est_graph   *graph;
        est_node     a, b, x, first, second, count;
        est_tensor  *feed = NULL, *out = NULL;
        est_status   status;

        assert_ok(est_graph_create(1, &graph));
        a      = est_weight(graph, "a", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
        b      = est_weight(graph, "b", EST_SHAPE(2), EST_WEIGHT(.initializer = est_init_ones()));
        x      = est_placeholder(graph, "x", EST_F32, EST_SHAPE(2));
        first  = est_assign_add(a, x);
        second = est_after(est_read_variable(a), first);
        second = est_assign_add(b, here ? est_tanh(second) : second);
        count  = est_assign_add(est_global_step(graph), est_scalar(graph, EST_I64, 1));
        assert_ok(est_graph_status(graph));
        assert_ok(est_session_create(graph, EST_SESSION(.remote = remote), &session));
        assert_ok(est_session_init(session));
        assert_ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 2, 3 }, &feed));
        status = est_session_run(session, EST_FEEDS({ x, feed }), EST_NO_NODES, EST_NODES(first, second, count), NULL);
        if (here) {
            assert_int_equal(status, EST_UNIMPLEMENTED);
            assert_non_null(strstr(est_error_message(), "depends on the result of an update"));
        } else {
            assert_ok(status);
            assert_ok(est_session_read(session, "b", &out));
            assert_true(((const float *)est_tensor_data(out))[1] == 5); /* 1 + (1 + 3) */
            est_tensor_free(out);
        }
        est_tensor_free(feed);
        est_session_free(session);
        memory_remote_free(remote);
        est_graph_free(graph);
    }
}

/* Every allocation of preparing such a step fails once; it is said, and the step can be prepared afterwards. */
TEST(without_memory)
{
    model        m       = make_model(est_adagrad(0.1, NULL));
    est_remote  *remote  = remote_sync_replicas(2, NULL);
    est_session *session = NULL;
    est_step    *step    = NULL;
    session              = nn_session(m.graph, remote);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = prepare(session, &m, wishes_of(N_WISHES + 1), &step);
        fault_check(&f, status);
    }
    run(step, 0);
    est_session_free(session);
    memory_remote_free(remote);
    est_graph_free(m.graph);
}
