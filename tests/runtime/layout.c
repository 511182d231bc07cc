/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and order of real models: the invariants of a plan hold for training steps with convolutions, sparse updates
 * and dozens of small lookups in lanes, at every batch size; the slab stays close to what must live at one time; and
 * the number of threads changes no bit of a trained variable. */
#include "base/random.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/nn_test.h"
#include "support/plan_check.h"

#define FEATURES 24

typedef struct model {
    est_graph *g;
    est_node   ids, x, label, train, loss;
} model;

typedef est_node (*body)(model *m);

/* Many features, each with a table of its own: hundreds of small operations that do not depend on each other. */
static est_node many_tables(model *m)
{
    est_node parts[FEATURES + 1], columns[FEATURES];

    est_unpack(m->ids, FEATURES, 1, columns);
    for (int f = 0; f < FEATURES; f++) parts[f] = est_embedding(columns[f], 50 + f, 4 + f % 3, NULL);
    parts[FEATURES] = est_reshape(m->x, EST_I64S(-1, 144));
    return est_dense(est_concat((est_nodes){ parts, FEATURES + 1 }, 1), 17, EST_DENSE(.activation = est_relu));
}

static est_node convolution(model *m)
{
    est_node x = est_conv2d_layer(m->x, 8, 3, EST_CONV2D(.activation = est_relu));

    x = est_max_pool2d(x, 2, NULL);
    x = est_conv2d_layer(x, 12, 3, EST_CONV2D(.padding = EST_SAME));
    x = est_relu(est_batch_norm(x, true, NULL));
    return est_flatten(est_avg_pool2d(x, 2, NULL));
}

static est_node replica(model *m)
{
    est_node x = est_reshape(m->x, EST_I64S(-1, 144));

    for (int i = 0; i < 4; i++) {
        est_node y = est_dense(x, 144, EST_DENSE(.activation = est_tanh));
        x          = est_add(x, est_dropout_layer(y, 0.1, true)); /* kept for the way back, and added to */
    }
    return x;
}

/* More small results of one size than are placed one by one. */
static est_node many_scales(model *m)
{
    enum { SCALES = 150 };
    static est_node parts[SCALES];
    est_node        x = est_dense(est_flatten(m->x), 16, NULL);

    for (int i = 0; i < SCALES; i++) {
        char name[16];

        snprintf(name, sizeof name, "scale_%d", i);
        parts[i] = est_tanh(est_mul(x, est_read_variable(est_weight(m->g, name, EST_SHAPE(16), NULL))));
    }
    return est_add_n((est_nodes){ parts, SCALES });
}

static model build(body make, est_optimizer optimizer)
{
    model m = { 0 };

    assert_ok(est_graph_create(9, &m.g));
    m.ids   = est_placeholder(m.g, "ids", EST_I64, EST_SHAPE(-1, FEATURES));
    m.x     = est_placeholder(m.g, "x", EST_F32, EST_SHAPE(-1, 12, 12, 1));
    m.label = est_placeholder(m.g, "label", EST_I32, EST_SHAPE(-1));
    m.loss  = est_mean(est_sparse_softmax_xent(est_dense(make(&m), 5, NULL), m.label));
    m.train = est_minimize(optimizer, m.loss, EST_MINIMIZE(.clip_norm = 10));
    assert_ok(est_graph_status(m.g));
    return m;
}

static void make_feeds(int64_t batch, uint64_t key, est_tensor *feeds[3])
{
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(batch, FEATURES), &feeds[0]));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(batch, 12, 12, 1), &feeds[1]));
    assert_ok(est_tensor_create(EST_I32, EST_SHAPE(batch), &feeds[2]));
    est_random_fill_int_i64(&(est_random){ key, 1, 0 }, 0, batch * FEATURES, 0, 50, est_tensor_mutable_data(feeds[0]));
    est_random_fill_normal_f32(&(est_random){ key, 2, 0 }, 0, batch * 144, est_tensor_mutable_data(feeds[1]));
    est_random_fill_int_i32(&(est_random){ key, 3, 0 }, 0, batch, 0, 5, est_tensor_mutable_data(feeds[2]));
}

/* Bytes that must be there at one time, the most over all moments: no layout can need less. */
static size_t least_slab(const est_plan *plan)
{
    size_t most = 0;

    for (int32_t k = 0; k < plan->n_items; k++) {
        size_t now = plan->items[k].late ? 0 : plan->items[k].scratch_bytes;
        for (int32_t b = 0; b < plan->n_buffers; b++) {
            const est_buffer *buffer = &plan->buffers[b];
            if (buffer->kind == EST_BUFFER_SLAB && buffer->first <= k && k <= buffer->last) now += buffer->bytes;
        }
        if (now > most) most = now;
    }
    return most;
}

/* A checksum of every bit of every variable. */
static uint64_t sum_variables(est_session *s)
{
    uint64_t sum = 0;

    for (int v = 0; v < est_session_variables(s); v++) {
        est_tensor *t = NULL;
        assert_ok(est_session_read(s, est_session_variable(s, v), &t));
        for (size_t i = 0; i < est_tensor_bytes(t); i++) {
            sum = sum * 1099511628211u + ((const uint8_t *)est_tensor_data(t))[i];
        }
        est_tensor_free(t);
    }
    return sum;
}

static uint64_t train(body make, est_optimizer optimizer, int threads, double slack, const char *label,
                      plan_facts *facts)
{
    static const int64_t batches[] = { 64, 7, 200, 1, 64 };
    model                m         = build(make, optimizer);
    est_session         *s         = NULL;
    est_step            *step      = NULL;
    uint64_t             sum;

    assert_ok(est_session_create(m.g, EST_SESSION(.threads = threads), &s));
    assert_ok(est_session_init(s));
    assert_ok(est_session_prepare(s, EST_NODES(m.ids, m.x, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    for (int i = 0; i < 5; i++) {
        est_tensor     *feeds[3];
        const est_plan *plan = est_step_plan(step);
        make_feeds(batches[i], (uint64_t)i, feeds);
        assert_ok(est_step_run(step, (const est_tensor *const *)feeds));
        plan_check(plan, label, facts);
        if ((double)plan->slab_bytes > slack * (double)least_slab(plan)) {
            fail_msg("%s: the slab has %zu bytes, %zu live at one time", label, plan->slab_bytes, least_slab(plan));
        }
        for (int f = 0; f < 3; f++) est_tensor_free(feeds[f]);
    }
    sum = sum_variables(s);
    est_session_free(s);
    est_graph_free(m.g);
    return sum;
}

static void check_slab(body make, est_optimizer optimizer, double slack, const char *label, plan_facts *facts)
{
    uint64_t one = train(make, optimizer, 1, slack, label, facts);

    assert_true(train(make, optimizer, 3, slack, label, facts) == one);
}

static void check_model(body make, est_optimizer optimizer, const char *label, plan_facts *facts)
{
    check_slab(make, optimizer, 1.15, label, facts);
}

TEST(tables_share_the_threads)
{
    plan_facts facts = { 0 };

    check_model(many_tables, est_adagrad(0.1, NULL), "tables, Adagrad", &facts);
    check_model(many_tables, est_ftrl(0.1, NULL), "tables, Ftrl", &facts);
    check_model(many_tables, est_adam(0.01, NULL), "tables, Adam", &facts);
    check_model(many_tables, est_rms_prop(0.01, EST_RMS_PROP(.keras = true)), "tables, RMSprop", &facts);
    assert_true(facts.lanes > 0);
}

TEST(convolutions_reuse_their_memory)
{
    plan_facts facts = { 0 };

    check_model(convolution, est_momentum(0.01, NULL), "convolution, momentum", &facts);
    check_model(convolution, est_sgd(0.01), "convolution, gradient descent", &facts);
    assert_true(facts.inplace > 0);
}

TEST(replicas_reuse_their_memory)
{
    plan_facts facts = { 0 };

    check_model(replica, est_adam(0.01, EST_ADAM(.keras = true)), "replica, Adam", &facts);
    check_model(replica, est_adadelta(1, NULL), "replica, Adadelta", &facts);
    assert_true(facts.inplace > 0 && facts.fused > 0);
}

TEST(hundreds_of_small_results_share_memory)
{
    plan_facts facts = { 0 };

    check_slab(many_scales, est_adagrad(0.1, NULL), 1.5, "scales, Adagrad", &facts); /* sizes share no memory */
    assert_true(facts.inplace > 0);
}
