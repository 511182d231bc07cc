/* SPDX-License-Identifier: Apache-2.0
 *
 * Reuse: a function that is built again gets the variables and tables of its first build, also where builds nest and in
 * replicas; what it may not request; regularization losses; state of metrics. */
#include "graph/reuse.h"

#include "graph/op.h"
#include "strategy/replicas_build.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static const int first_key, second_key;

static est_node input(est_graph *graph)
{
    return nn_const(graph, EST_SHAPE(2, 3), NN_VALUES(1, 2, 3, 4, 5, 6));
}

/* Two layers of one name, a weight, a table, and what is made once in a graph. */
static est_node model(est_graph *graph, bool training)
{
    est_node    x    = est_dense(input(graph), 4, EST_DENSE(.kernel_regularizer = est_l2_regularizer(1)));
    est_tensor *keys = NULL;

    x = est_batch_norm(x, training, NULL);
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(1), &keys));
    assert_ok(est_tensor_set_string(keys, 0, "a", 1));
    (void)est_vocabulary_list(graph, keys, NULL);
    est_tensor_free(keys);
    x = est_dense(x, 4, NULL);
    (void)est_global_step(graph);
    return est_mul(x, est_read_variable(est_weight(graph, "w", EST_SHAPE(4), NULL)));
}

static est_node built(est_graph *graph, const void *key, bool training)
{
    est_node y;

    (void)est_reuse_begin(graph, key);
    y = model(graph, training);
    est_reuse_end(graph);
    return y;
}

static int count_ops(const est_graph *graph, const char *op)
{
    int n = 0;

    for (int32_t i = 0; i < est_graph_size(graph); i++) n += strcmp(est_graph_node(graph, i)->op->name, op) == 0;
    return n;
}

TEST(second_build)
{
    nn_test  t = nn_begin(1);
    est_node a = built(t.graph, &first_key, false), b, c;
    double   x[8], y[8], z[8];

    assert_int_equal(est_global_variables(t.graph).n, 10);
    assert_int_equal(est_update_ops(t.graph).n, 0);
    assert_int_equal(est_losses(t.graph).n, 1);
    est_scope_push(t.graph, "evaluate");
    b = built(t.graph, &first_key, false);
    est_scope_pop(t.graph);
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_global_variables(t.graph).n, 10);
    assert_int_equal(est_trainable_variables(t.graph).n, 7);
    assert_int_equal(count_ops(t.graph, "EstVocabulary"), 1);
    assert_int_equal(est_losses(t.graph).n, 2); /* once for each build */
    assert_int_equal(est_reuse_nodes(t.graph, &first_key).n, 11);
    (void)built(t.graph, &first_key, true);
    assert_int_equal(est_update_ops(t.graph).n, 2);

    c = built(t.graph, &second_key, false); /* another model: variables of its own, with names of their own */
    assert_int_equal(est_global_variables(t.graph).n, 19);
    nn_ready(&t);
    nn_fetch(&t, a, x, 8);
    nn_fetch(&t, b, y, 8);
    nn_fetch(&t, c, z, 8);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_not_equal(x, z, sizeof x);
    nn_end(&t);
}

static void expect_error(est_graph *graph, const char *text)
{
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

/* A weight made `times` in each build. */
static void weights(est_graph *graph, int64_t size, int times, const char *name)
{
    (void)est_reuse_begin(graph, &first_key);
    for (int i = 0; i < times; i++) (void)est_weight(graph, name, EST_SHAPE(size), NULL);
    est_reuse_end(graph);
}

TEST(refusals)
{
    static const struct {
        int64_t     size;
        int         times;
        const char *name, *text;
    } rows[] = {
        { 3, 1, "w", "variable 'w' is float32 [2] in the first build and float32 [3] in this one" },
        { 2, 1, "v", "'v' (VarHandleOp) is requested, which the first build of the model in this graph did not" },
        { 2, 2, "w", "or not as often" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        nn_test t = nn_begin(1);

        weights(t.graph, 2, 1, "w");
        weights(t.graph, 2, 1, "w");
        assert_ok(est_graph_status(t.graph));
        weights(t.graph, rows[i].size, rows[i].times, rows[i].name);
        expect_error(t.graph, rows[i].text);
        nn_end(&t);
    }
}

/* In the scope of the first build, where all names are taken. */
TEST(names_with_numbers)
{
    nn_test  t = nn_begin(1);
    est_node made[2][3];

    for (int i = 0; i < 2; i++) {
        (void)est_reuse_begin(t.graph, &first_key);
        for (int k = 0; k < 3; k++) made[i][k] = est_weight(t.graph, k == 1 ? "w" : "w_1", EST_SHAPE(2), NULL);
        est_reuse_end(t.graph);
    }
    assert_ok(est_graph_status(t.graph));
    for (int k = 0; k < 3; k++) assert_int_equal(made[0][k].id, made[1][k].id);
    nn_end(&t);
}

/* Builds inside builds: the inner one is shared, and what it found is not found by the outer one again. */
static void nested(est_graph *graph, const void *inner, est_node *of_inner, est_node *own)
{
    (void)est_reuse_begin(graph, &first_key);
    (void)est_reuse_begin_call(graph, inner);
    *of_inner = est_weight(graph, "w", EST_SHAPE(2), EST_WEIGHT(.regularizer = est_l2_regularizer(1)));
    est_reuse_end(graph);
    *own = est_weight(graph, "w", EST_SHAPE(2), NULL);
    (void)est_reuse_begin_call(graph, inner);
    assert_int_equal(est_weight(graph, "w", EST_SHAPE(2), EST_WEIGHT(.regularizer = est_l2_regularizer(1))).id,
                     of_inner->id);
    est_reuse_end(graph);
    est_reuse_end(graph);
}

TEST(nested_builds)
{
    nn_test  t = nn_begin(1);
    est_node a[2], b[2], c[2];
    int      fresh;

    nested(t.graph, &second_key, &a[0], &a[1]);
    assert_int_equal(est_losses(t.graph).n, 1); /* of two calls in one build */
    nested(t.graph, &second_key, &b[0], &b[1]);
    nested(t.graph, &fresh, &c[0], &c[1]); /* a key that the first build did not have: found by name and order */
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_losses(t.graph).n, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a[i].id, b[i].id);
        assert_int_equal(a[i].id, c[i].id);
    }
    assert_int_not_equal(a[0].id, a[1].id);
    nn_end(&t);
}

/* A metric in the function has a state of its own in each build; slots of an optimizer are found again. */
TEST(metrics_and_slots)
{
    nn_test  t = nn_begin(1);
    est_node train[2];

    for (int i = 0; i < 2; i++) {
        est_node y, label = nn_const(t.graph, EST_SHAPE(2, 4), NN_VALUES(0, 0, 0, 0, 0, 0, 0, 0));

        (void)est_reuse_begin(t.graph, &first_key);
        y = model(t.graph, true);
        (void)est_metric_mean_squared_error(label, y, NULL);
        train[i] = est_minimize(est_adam(0.1, NULL), est_mean(y), NULL);
        est_reuse_end(t.graph);
    }
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_local_variables(t.graph).n, 4);               /* total and count, twice */
    assert_int_equal(est_global_variables(t.graph).n, 10 + 2 * 7 + 2); /* slots and powers, once */
    nn_ready(&t);
    nn_run(&t, train[0]);
    nn_run(&t, train[1]);
    nn_end(&t);
}

/* --- replicas ----------------------------------------------------------------------------------------------------- */

typedef struct plan {
    est_graph *graph;
    est_node   trained[3], evaluated[3];
} plan;

/* Merges happen inside of builds (batch normalisation), so that builds of replicas overlap. */
static est_status build_replica(int replica, void *user)
{
    plan *p = user;

    p->trained[replica]   = built(p->graph, &first_key, true);
    p->evaluated[replica] = built(p->graph, &first_key, false);
    assert_true(est_graph_poisoned(p->graph) || est_losses(p->graph).n == 2); /* of this replica: one for each build */
    return est_graph_status(p->graph);
}

TEST(in_replicas)
{
    nn_test t = nn_begin(1);
    plan    p = { t.graph };
    double  want[8], got[8];

    assert_ok(est_replicas_build(t.graph, (est_replicas){ .n = 3, .total = 3 }, build_replica, &p));
    assert_int_equal(est_global_variables(t.graph).n, 10);
    assert_int_equal(count_ops(t.graph, "VarHandleOp"), 10);
    assert_int_equal(count_ops(t.graph, "EstVocabulary"), 1);
    (void)built(t.graph, &first_key, false); /* outside of them as well */
    assert_int_equal(count_ops(t.graph, "VarHandleOp"), 10);
    nn_ready(&t);
    nn_fetch(&t, p.evaluated[0], want, 8);
    for (int i = 1; i < 3; i++) {
        nn_fetch(&t, p.evaluated[i], got, 8);
        assert_memory_equal(got, want, sizeof want);
    }
    nn_end(&t);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void drop(void *object)
{
    ++*(int *)object;
}

TEST(kept_objects)
{
    nn_test t = nn_begin(1);
    int     n = 0;

    est_graph_keep(t.graph, drop, &n);
    est_graph_keep(t.graph, drop, &n);
    assert_int_equal(n, 0);
    nn_end(&t);
    assert_int_equal(n, 2);
}

static est_status reuse_twice(void)
{
    est_graph *graph = NULL;
    est_status status;
    int        n = 0;

    EST_TRY(est_graph_create(1, &graph));
    est_graph_keep(graph, drop, &n);
    for (int i = 0; i < 2; i++) {
        (void)est_reuse_begin(graph, &first_key);
        (void)est_reuse_begin_call(graph, &second_key);
        for (int k = 0; k < 10; k++) (void)est_weight(graph, "w", EST_SHAPE(2), NULL);
        est_reuse_end(graph);
        est_reuse_begin_new(graph);
        (void)est_weight(graph, "state", EST_SHAPE(2), NULL);
        est_reuse_end(graph);
        est_reuse_end(graph);
    }
    status = est_graph_status(graph);
    est_graph_free(graph);
    assert_int_equal(n, 1);
    return status;
}

TEST(allocations)
{
    fault_allocations(reuse_twice);
}

/* Two functions of a graph count in one metric, and a third reads it after both. */
TEST(shared_metric)
{
    nn_test    t = nn_begin(1);
    est_metric metrics[2];
    est_node   both;
    double     value;

    for (int i = 0; i < 2; i++) {
        est_share_begin(t.graph, &first_key);
        metrics[i] = est_metric_mean(nn_const(t.graph, EST_SHAPE(2), NN_VALUES(i, i + 3)), NULL);
        est_share_end(t.graph);
    }
    assert_int_equal(est_local_variables(t.graph).n, 2); /* total and count, once */
    both = est_read_after(metrics[0].value, EST_NODES(metrics[0].update, metrics[1].update));
    nn_ready(&t);
    (void)nn_fetch(&t, both, &value, 1);
    assert_near(value, 2, 1e-6); /* (0 + 3 + 1 + 4) / 4 */
    (void)nn_fetch(&t, metrics[1].value, &value, 1);
    assert_near(value, 2, 1e-6);
    nn_run(&t, metrics[0].reset);
    (void)nn_fetch(&t, est_read_after(metrics[1].value, EST_NODES(metrics[1].update)), &value, 1);
    assert_near(value, 2.5, 1e-6);
    nn_end(&t);
}

TEST(recovery)
{
    nn_test  t = nn_begin(1);
    est_node x = input(t.graph);
    double   value[6];

    (void)est_matmul(x, x);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    est_graph_recover(t.graph);
    x = est_neg(x);
    assert_ok(est_graph_status(t.graph));
    nn_ready(&t);
    (void)nn_fetch(&t, x, value, 6);
    assert_near(value[5], -6, 0);
    nn_end(&t);
    est_graph_recover(NULL);
}
