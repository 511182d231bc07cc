/* SPDX-License-Identifier: Apache-2.0
 *
 * What a strategy does to a graph: contexts and scopes, sums, means and gathers of per-replica values as TensorFlow has
 * them, merges, losses, and what it says to whoever calls them in the wrong place. */
#include "strategy/scope.h"
#include "nn/nn.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "support/memory_communicator.h"
#include "support/nn_test.h"

static est_strategy *mirrored(int n)
{
    est_strategy *s = NULL;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = n), &s));
    return s;
}

/* The graph failed with this text; frees it. */
static void expect(est_graph *graph, const char *text)
{
    assert_true(est_graph_status(graph) != EST_OK);
    if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
    est_graph_free(graph);
}

/* --- contexts ----------------------------------------------------------------------------------------------------- */

typedef struct seen {
    int replica[4], id[4], total[4];
} seen;

static est_node look(const est_replica_context *c, void *user)
{
    seen *s = user;

    s->replica[c->replica] = c->replica + 1;
    s->id[c->replica]      = c->replica_id_in_sync_group;
    s->total[c->replica]   = c->num_replicas_in_sync;
    return est_scalar(c->graph, EST_F32, c->replica_id_in_sync_group);
}

TEST(contexts)
{
    est_strategy   *s   = NULL;
    nn_test         t   = nn_begin(1);
    seen            all = { 0 };
    est_per_replica values;

    assert_ok(est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.replicas = 3, .cluster_json = "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, "
                                                                 "\"task\": {\"type\": \"worker\", \"index\": 1}}"),
        &s));
    values = est_strategy_run(s, t.graph, look, &all);
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(values.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(all.replica[i], i + 1);
        assert_int_equal(all.id[i], 3 + i);
        assert_int_equal(all.total[i], 6);
    }
    assert_int_equal(est_strategy_values_from_function(s, t.graph, look, &all).n, 3);
    values = est_strategy_run(NULL, t.graph, look, &all); /* the default: one replica, here */
    assert_int_equal(values.n, 1);
    assert_int_equal(all.id[0], 0);
    assert_int_equal(all.total[0], 1);
    nn_end(&t);
    est_strategy_free(s);
}

static est_node pinned(const est_replica_context *c, void *user)
{
    (void)user;
    return est_scalar(c->graph, EST_F32, 1);
}

TEST(one_device)
{
    est_strategy   *s = NULL;
    nn_test         t = nn_begin(1);
    est_per_replica v;

    assert_ok(est_one_device_strategy("/cpu:0", &s));
    v = est_strategy_run(s, t.graph, pinned, NULL);
    assert_string_equal(est_def(v.data[0])->device, "/device:CPU:0");
    assert_string_equal(est_def(est_scalar(t.graph, EST_F32, 1))->device, ""); /* only there */
    nn_end(&t);
    est_strategy_free(s);
}

/* --- scopes ------------------------------------------------------------------------------------------------------- */

static est_node run_inside(const est_replica_context *c, void *user)
{
    (void)est_strategy_run(user, c->graph, pinned, NULL);
    return EST_NO_NODE;
}

TEST(scopes)
{
    est_strategy *s = mirrored(2), *other = mirrored(2);
    nn_test       t = nn_begin(1);

    est_strategy_scope(s, t.graph);
    est_strategy_scope(s, t.graph); /* the same again */
    (void)est_strategy_run(s, t.graph, pinned, NULL);
    est_strategy_scope_end(s, t.graph);
    est_strategy_scope_end(s, t.graph);
    assert_null(est_graph_replicas(t.graph));
    est_strategy_scope(other, t.graph);
    est_strategy_scope_end(other, t.graph);
    nn_ready(&t);
    nn_end(&t);

    t = nn_begin(1);
    est_strategy_scope(s, t.graph);
    est_strategy_scope(other, t.graph);
    expect(t.graph, "mixing different strategies: the graph is in the scope of mirrored");
    t = nn_begin(1);
    est_strategy_scope(s, t.graph);
    (void)est_strategy_run(NULL, t.graph, pinned, NULL);
    expect(t.graph, "this is another one, default");
    t = nn_begin(1);
    est_strategy_scope_end(s, t.graph);
    expect(t.graph, "est_strategy_scope_end without est_strategy_scope");
    t = nn_begin(1);
    (void)est_strategy_run(s, t.graph, run_inside, s);
    expect(t.graph, "est_strategy_run is called in a replica");
    est_strategy_free(s);
    est_strategy_free(other);
}

/* A merge is across replicas: it may open the scope, and build replicas within. */
static est_node merge_scope(const est_strategy *strategy, est_per_replica values, void *user)
{
    est_graph      *graph = values.data[0].graph;
    est_per_replica inner;

    (void)user;
    est_strategy_scope(strategy, graph);
    inner = est_strategy_run(strategy, graph, pinned, NULL);
    est_strategy_scope_end(strategy, graph);
    return est_add(est_strategy_reduce(strategy, EST_REDUCE_OP_SUM, values, EST_NO_AXIS),
                   est_strategy_reduce(strategy, EST_REDUCE_OP_SUM, inner, EST_NO_AXIS));
}

static est_node scope_inside(const est_replica_context *c, void *user)
{
    est_node x = est_replica_merge_call(c, merge_scope, est_scalar(c->graph, EST_F32, 10), user);

    return est_replica_all_reduce(c, EST_REDUCE_OP_MEAN, x); /* still in the replica */
}

TEST(scope_in_merge)
{
    est_strategy   *s = mirrored(2);
    nn_test         t = nn_begin(1);
    est_per_replica v = est_strategy_run(s, t.graph, scope_inside, NULL);

    nn_ready(&t);
    assert_near(nn_scalar(&t, v.data[1]), 22, 0);
    nn_end(&t);
    est_strategy_free(s);
}

/* --- sums, means and gathers -------------------------------------------------------------------------------------- */

/* Replica 0 has [[1, 2], [3, 4], [5, 6]], replica 1 [[7, 8]]. */
static est_node uneven(const est_replica_context *c, void *user)
{
    (void)user;
    return c->replica == 0 ? nn_const(c->graph, EST_SHAPE(3, 2), NN_VALUES(1, 2, 3, 4, 5, 6))
                           : nn_const(c->graph, EST_SHAPE(1, 2), NN_VALUES(7, 8));
}

/* Replica i has [[1 + 4 i, 2 + 4 i], [3 + 4 i, 4 + 4 i]]. */
static est_node even(const est_replica_context *c, void *user)
{
    double i = 4 * c->replica;

    (void)user;
    return nn_const(c->graph, EST_SHAPE(2, 2), NN_VALUES(1 + i, 2 + i, 3 + i, 4 + i));
}

typedef struct reduction {
    est_replica_fn fn;
    est_reduce_op  op;
    int            axis, n;
    double         want[8];
} reduction;

static const reduction reductions[] = {
    { even, EST_REDUCE_OP_SUM, EST_NO_AXIS, 4, { 6, 8, 10, 12 } },
    { even, EST_REDUCE_OP_MEAN, EST_NO_AXIS, 4, { 3, 4, 5, 6 } },
    { even, EST_REDUCE_OP_SUM, 0, 2, { 16, 20 } },
    { even, EST_REDUCE_OP_MEAN, 0, 2, { 4, 5 } },
    { even, EST_REDUCE_OP_SUM, 1, 2, { 14, 22 } },
    { even, EST_REDUCE_OP_MEAN, -1, 2, { 3.5, 5.5 } },
    { uneven, EST_REDUCE_OP_SUM, 0, 2, { 16, 20 } },
    { uneven, EST_REDUCE_OP_MEAN, 0, 2, { 4, 5 } }, /* of all four rows: not the mean of means */
};

TEST(reduce)
{
    est_strategy *s = mirrored(2);
    double        got[8];

    for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++) {
        const reduction *r = &reductions[i];
        nn_test          t = nn_begin(1);
        est_node         y = est_strategy_reduce(s, r->op, est_strategy_run(s, t.graph, r->fn, NULL), r->axis);

        nn_ready(&t);
        assert_int_equal(nn_fetch(&t, y, got, 8), r->n);
        for (int k = 0; k < r->n; k++) assert_near(got[k], r->want[k], 0);
        nn_end(&t);
    }
    est_strategy_free(s);
}

TEST(default_reduce)
{
    nn_test         t = nn_begin(1);
    double          got[8];
    est_per_replica v = est_strategy_run(NULL, t.graph, even, NULL);
    est_node        y = est_strategy_reduce(NULL, EST_REDUCE_OP_MEAN, v, EST_NO_AXIS);

    assert_int_equal(y.id, v.data[0].id); /* nothing is built */
    y = est_strategy_gather(NULL, v, 1);
    assert_int_equal(y.id, v.data[0].id);
    y = est_strategy_reduce(NULL, EST_REDUCE_OP_MEAN, v, 0);
    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, y, got, 8), 2);
    assert_near(got[0], 2, 0);
    nn_end(&t);
}

static est_node counts(const est_replica_context *c, void *user)
{
    (void)user;
    return est_const_i32(c->graph, EST_SHAPE(2), (int32_t[]){ c->replica + 1, 10 });
}

TEST(integers)
{
    est_strategy *s = mirrored(3);
    nn_test       t = nn_begin(1);
    est_node y = est_strategy_reduce(s, EST_REDUCE_OP_SUM, est_strategy_run(s, t.graph, counts, NULL), EST_NO_AXIS);
    double   got[2];

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, y, got, 2), 2);
    assert_true(got[0] == 6 && got[1] == 30);
    nn_end(&t);
    est_strategy_free(s);
}

TEST(gather)
{
    est_strategy *s = mirrored(2);
    nn_test       t = nn_begin(1);
    double        got[8];
    est_node      rows    = est_strategy_gather(s, est_strategy_run(s, t.graph, uneven, NULL), 0);
    est_node      columns = est_strategy_gather(s, est_strategy_run(s, t.graph, even, NULL), -1);

    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, rows, got, 8), 8);
    for (int i = 0; i < 8; i++) assert_near(got[i], i + 1, 0);
    assert_int_equal(nn_fetch(&t, columns, got, 8), 8);
    for (int i = 0; i < 8; i++) assert_near(got[i], NN_VALUES(1, 2, 5, 6, 3, 4, 7, 8)[i], 0);
    nn_end(&t);
    est_strategy_free(s);
}

static est_node scalar(const est_replica_context *c, void *user)
{
    (void)user;
    return est_scalar(c->graph, EST_F32, c->replica + 1);
}

static est_node only_first(const est_replica_context *c, void *user)
{
    (void)user;
    return c->replica == 0 ? est_scalar(c->graph, EST_F32, 1) : EST_NO_NODE;
}

static est_node reduce_inside(const est_replica_context *c, void *user)
{
    est_node x = est_scalar(c->graph, EST_F32, 1);

    (void)user;
    return est_strategy_reduce(c->strategy, EST_REDUCE_OP_SUM, (est_per_replica){ (const est_node[]){ x, x }, 2 },
                               EST_NO_AXIS);
}

static est_node keep_largest(const est_replica_context *c, void *user)
{
    est_node state = est_metric_state(c->graph, "largest", EST_F32, EST_SHAPE_SCALAR), read = est_read_variable(state);
    est_node update = est_assign(state, est_maximum(read, est_scalar(c->graph, EST_F32, c->replica)));

    (void)user;
    return est_metric_custom(EST_NODES(state), EST_NODES(update), read).value;
}

TEST(refused)
{
    est_strategy   *s = mirrored(2);
    est_per_replica v;
    nn_test         t;

    t = nn_begin(1);
    (void)est_strategy_gather(s, est_strategy_run(s, t.graph, scalar, NULL), 0);
    expect(t.graph, "est_strategy_gather: axis 0 of values []");
    t = nn_begin(1);
    (void)est_strategy_reduce(s, EST_REDUCE_OP_SUM, est_strategy_run(s, t.graph, even, NULL), 2);
    expect(t.graph, "est_strategy_reduce: axis 2 of values [2,2]");
    t = nn_begin(1);
    (void)est_strategy_gather(s, est_strategy_run(s, t.graph, uneven, NULL), 1);
    expect(t.graph, "ConcatV2");
    t = nn_begin(1);
    (void)est_strategy_reduce(s, 7, est_strategy_run(s, t.graph, scalar, NULL), EST_NO_AXIS);
    expect(t.graph, "operation 7");
    t = nn_begin(1);
    (void)est_strategy_reduce(s, EST_REDUCE_OP_SUM, est_strategy_run(s, t.graph, only_first, NULL), EST_NO_AXIS);
    expect(t.graph, "replica 1 has no value");
    t   = nn_begin(1);
    v   = est_strategy_run(s, t.graph, scalar, NULL);
    v.n = 1;
    (void)est_strategy_reduce(s, EST_REDUCE_OP_SUM, v, EST_NO_AXIS);
    expect(t.graph, "got 1 values, but mirrored has 2 replicas here");
    t = nn_begin(1);
    (void)est_strategy_run(s, t.graph, reduce_inside, NULL);
    expect(t.graph, "est_strategy_reduce is called in a replica");
    t = nn_begin(1);
    (void)est_strategy_run(s, t.graph, keep_largest, NULL);
    expect(t.graph, "update 0 of the metric is AssignVariableOp; in several replicas a state can only be added to");
    assert_null(est_strategy_reduce(s, EST_REDUCE_OP_SUM, (est_per_replica){ 0 }, 0).graph);
    est_strategy_free(s);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

static est_node add_up(const est_replica_context *c, void *user)
{
    est_node    state  = est_metric_state(c->graph, "sum", EST_F64, EST_SHAPE_SCALAR);
    est_metric *metric = (est_metric *)user + c->replica;

    *metric = est_metric_custom(EST_NODES(state),
                                EST_NODES(est_assign_add(state, est_scalar(c->graph, EST_F64, c->replica + 1))),
                                est_read_variable(state));
    return metric->value;
}

/* Replicas add to one state. */
TEST(metric_states)
{
    est_strategy *s = mirrored(2);
    nn_test       t = nn_begin(1);
    est_metric    m[2];

    (void)est_strategy_run(s, t.graph, add_up, m);
    assert_int_equal(est_local_variables(t.graph).n, 1);
    nn_ready(&t);
    for (int i = 0; i < 3; i++) nn_run(&t, est_group(t.graph, EST_NODES(m[0].update, m[1].update)));
    assert_near(nn_scalar(&t, m[0].value), 9, 0);
    assert_near(nn_scalar(&t, m[1].value), 9, 0);
    nn_run(&t, m[0].reset);
    assert_near(nn_scalar(&t, m[1].value), 0, 0);
    nn_end(&t);
    est_strategy_free(s);
}

/* --- in replicas -------------------------------------------------------------------------------------------------- */

static est_node biggest(const est_strategy *strategy, est_per_replica values, void *user)
{
    int *calls = user;

    (void)strategy;
    ++*calls;
    return est_maximum(values.data[0], values.data[1]);
}

typedef struct inside {
    int      calls;
    est_node sum[2], mean[2], all[2], most[2];
} inside;

static est_node reduce(const est_replica_context *c, void *user)
{
    inside  *i = user;
    est_node x = nn_const(c->graph, EST_SHAPE(1), NN_VALUES(c->replica + 1));

    i->sum[c->replica]  = est_replica_all_reduce(c, EST_REDUCE_OP_SUM, x);
    i->mean[c->replica] = est_replica_all_reduce(c, EST_REDUCE_OP_MEAN, x);
    i->all[c->replica]  = est_replica_all_gather(c, x, 0);
    i->most[c->replica] = est_replica_merge_call(c, biggest, x, &i->calls);
    return est_replica_merge_call(c, biggest, est_add(x, i->sum[c->replica]), &i->calls);
}

TEST(merge_call)
{
    est_strategy   *s = mirrored(2);
    nn_test         t = nn_begin(1);
    inside          i = { 0 };
    double          got[2];
    est_per_replica v = est_strategy_run(s, t.graph, reduce, &i);

    nn_ready(&t);
    assert_int_equal(i.calls, 2);
    assert_near(nn_scalar(&t, i.sum[0]), 3, 0);
    assert_near(nn_scalar(&t, i.mean[1]), 1.5, 0);
    assert_int_equal(i.sum[0].id, i.sum[1].id); /* one for all */
    assert_int_equal(nn_fetch(&t, i.all[1], got, 2), 2);
    assert_true(got[0] == 1 && got[1] == 2);
    assert_near(nn_scalar(&t, i.most[0]), 2, 0);
    assert_near(nn_scalar(&t, v.data[1]), 5, 0);
    nn_end(&t);
    est_strategy_free(s);
}

static est_node smallest(const est_strategy *strategy, est_per_replica values, void *user)
{
    (void)strategy;
    (void)user;
    return est_minimum(values.data[0], values.data[1]);
}

static est_node merge_otherwise(const est_replica_context *c, void *user)
{
    return est_replica_merge_call(c, c->replica > 0 ? smallest : biggest, est_scalar(c->graph, EST_F32, 1), user);
}

static est_node merge_once_more(const est_replica_context *c, void *user)
{
    est_node x = est_scalar(c->graph, EST_F32, 1);

    for (int i = 0; i <= c->replica; i++) x = est_replica_merge_call(c, biggest, x, user);
    return x;
}

TEST(merge_refused)
{
    est_strategy       *s     = mirrored(2);
    nn_test             t     = nn_begin(1);
    int                 calls = 0;
    est_replica_context context;

    (void)est_strategy_run(s, t.graph, merge_otherwise, &calls);
    expect(t.graph, "replica 1 merges with another function than replica 0");
    t = nn_begin(1);
    (void)est_strategy_run(s, t.graph, merge_once_more, &calls);
    expect(t.graph, "replica 0 has merged 1 times and replica 1 2 times");
    t       = nn_begin(1);
    context = (est_replica_context){ .strategy = s, .graph = t.graph };
    (void)est_replica_merge_call(&context, biggest, est_scalar(t.graph, EST_F32, 1), &calls);
    expect(t.graph, "est_replica_merge_call is for replicas");
    est_strategy_free(s);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

static est_node losses(const est_replica_context *c, void *user)
{
    est_node  each  = nn_const(c->graph, EST_SHAPE(2), NN_VALUES(1, 5));
    est_node *found = (est_node *)user + (size_t)4 * (size_t)c->replica;

    found[0] = est_compute_average_loss(each, EST_NO_NODE, 8);
    found[1] = est_compute_average_loss(each, EST_NO_NODE, 0); /* 2 here times 2 replicas */
    found[2] = est_compute_average_loss(each, nn_const(c->graph, EST_SHAPE(2), NN_VALUES(1, 0.5)), 0);
    found[3] = est_scale_regularization_loss(est_scalar(c->graph, EST_F32, 3));
    return EST_NO_NODE;
}

static est_node scalar_loss(const est_replica_context *c, void *user)
{
    (void)user;
    return est_compute_average_loss(est_scalar(c->graph, EST_F32, 3), EST_NO_NODE, 0);
}

TEST(losses)
{
    est_strategy *s = mirrored(2);
    nn_test       t = nn_begin(1);
    est_node      found[8], alone;

    (void)est_strategy_run(s, t.graph, losses, found);
    alone = est_scale_regularization_loss(est_scalar(t.graph, EST_F32, 3)); /* no strategy, one replica */
    nn_ready(&t);
    for (int i = 0; i < 8; i++) assert_near(nn_scalar(&t, found[i]), NN_VALUES(0.75, 1.5, 0.875, 1.5)[i % 4], 0);
    assert_near(nn_scalar(&t, alone), 3, 0);
    nn_end(&t);

    t = nn_begin(1);
    (void)est_strategy_run(s, t.graph, scalar_loss, NULL);
    expect(t.graph, "losses of rank 0");
    t = nn_begin(1);
    est_strategy_scope(s, t.graph);
    (void)est_scale_regularization_loss(est_scalar(t.graph, EST_F32, 3));
    expect(t.graph, "est_scale_regularization_loss is called across replicas");
    est_strategy_free(s);
}

/* --- workers ------------------------------------------------------------------------------------------------------ */

typedef struct worker {
    nn_test       t;
    est_strategy *s;
    est_node      fetch[4];
    est_tensor   *got[4];
    est_status    status;
} worker;

static void fetch_all(void *user, int rank)
{
    worker *w = (worker *)user + rank;

    w->status = est_session_run(w->t.session, EST_NO_FEEDS, (est_nodes){ w->fetch, 4 }, EST_NO_NODES, w->got);
}

/* Worker w has the replicas 2 w and 2 w + 1, replica r the rows [r, 2 r] (r + 1 times). */
static est_node grown(const est_replica_context *c, void *user)
{
    int    r = c->replica_id_in_sync_group;
    double rows[8];

    (void)user;
    for (int i = 0; i <= r; i++) {
        rows[2 * i]     = r;
        rows[2 * i + 1] = 2 * r;
    }
    return nn_const(c->graph, EST_SHAPE(r + 1, 2), rows);
}

static est_node row_sum(const est_replica_context *c, void *user)
{
    (void)user;
    return est_scalar(c->graph, EST_F32, c->replica_id_in_sync_group);
}

TEST(workers)
{
    static const char *const tasks[2] = {
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
    };
    memory_communicator *communicator = memory_communicator_create(2);
    worker               all[2]       = { 0 };

    for (int i = 0; i < 2; i++) {
        worker         *w = &all[i];
        est_per_replica rows, numbers;

        assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 2, .cluster_json = tasks[i]),
                                                     &w->s));
        w->t        = nn_begin(1);
        rows        = est_strategy_run(w->s, w->t.graph, grown, NULL);
        numbers     = est_strategy_run(w->s, w->t.graph, row_sum, NULL);
        w->fetch[0] = est_strategy_reduce(w->s, EST_REDUCE_OP_SUM, numbers, EST_NO_AXIS);
        w->fetch[1] = est_strategy_reduce(w->s, EST_REDUCE_OP_MEAN, numbers, EST_NO_AXIS);
        w->fetch[2] = est_strategy_reduce(w->s, EST_REDUCE_OP_MEAN, rows, 0);
        w->fetch[3] = est_strategy_gather(w->s, rows, 0);
        assert_ok(est_graph_status(w->t.graph));
        assert_ok(est_session_create(w->t.graph,
                                     EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, i)),
                                     &w->t.session));
    }
    memory_communicator_run(2, fetch_all, all);
    for (int i = 0; i < 2; i++) {
        worker *w = &all[i];

        assert_int_equal(w->status, EST_OK);
        assert_near(nn_element(w->got[0], 0), 6, 0);
        assert_near(nn_element(w->got[1], 0), 1.5, 0);
        assert_near(nn_element(w->got[2], 0), 2, 0); /* (0 + 2 * 1 + 3 * 2 + 4 * 3) / 10 */
        assert_near(nn_element(w->got[2], 1), 4, 0);
        assert_int_equal(est_tensor_count(w->got[3]), 20);
        for (int k = 0; k < 10; k++)
            assert_near(nn_element(w->got[3], 2 * k), NN_VALUES(0, 1, 1, 2, 2, 2, 3, 3, 3, 3)[k], 0);
        for (int k = 0; k < 4; k++) est_tensor_free(w->got[k]);
        nn_end(&w->t);
        est_strategy_free(w->s);
    }
    memory_communicator_free(communicator);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* Of three workers the first is lost: the ranks are those of the other two. */
typedef struct key_worker {
    nn_test       t;
    est_strategy *s;
    est_node      rows, update;
    est_tensor   *got;
    est_status    status;
} key_worker;

/* The keys of replica 1 are 5 and 6, that of replica 2 is 7. */
static est_node look_up(const est_replica_context *c, void *user)
{
    static const est_row_policy policy = { .draw = { .a = 1 }, .admit_after = 1 };
    key_worker                 *w      = user;
    int                         n      = 3 - c->replica_id_in_sync_group;
    est_node                    table  = est_row_variable(c->graph, "table", EST_SHAPE(8, 1), &policy);

    w->rows = est_find_rows(
        table, est_const_i64(c->graph, EST_SHAPE(n), n == 2 ? (const int64_t[]){ 5, 6 } : (const int64_t[]){ 7, 0 }));
    w->update = est_scatter_add(table, w->rows, nn_const(c->graph, EST_SHAPE(n, 1), NN_VALUES(1, 1)));
    return w->rows;
}

static void train_keys(void *user, int rank)
{
    key_worker *w = (key_worker *)user + rank;

    w->status = est_session_run(w->t.session, EST_NO_FEEDS, EST_NODES(w->rows), EST_NODES(w->update), &w->got);
}

TEST(keys_after_a_loss)
{
    static const char *const tasks[2] = {
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\", \"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
        "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\", \"c:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 2}}",
    };
    memory_communicator *communicator = memory_communicator_create(2);
    key_worker           all[2]       = { 0 };

    for (int i = 0; i < 2; i++) {
        key_worker *w = &all[i];

        assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 1, .cluster_json = tasks[i]),
                                                     &w->s));
        w->t = nn_begin(1);
        (void)est_strategy_run(w->s, w->t.graph, look_up, w);
        assert_ok(est_graph_status(w->t.graph));
        assert_ok(est_session_create(w->t.graph,
                                     EST_SESSION(.threads = 1, .communicator = memory_communicator_of(communicator, i)),
                                     &w->t.session));
        assert_ok(est_session_init(w->t.session));
    }
    memory_communicator_run(2, train_keys, all);
    for (int i = 0; i < 2; i++) {
        key_worker *w = &all[i];

        assert_int_equal(w->status, EST_OK);
        assert_int_equal(est_tensor_count(w->got), 2 - i);
        for (int k = 0; k < 2 - i; k++) assert_near(nn_element(w->got, k), 2 * i + k, 0);
        est_tensor_free(w->got);
        nn_end(&w->t);
        est_strategy_free(w->s);
    }
    memory_communicator_free(communicator);
}

static est_node draw_rows(const est_replica_context *c, void *user)
{
    est_initializer normal = est_init_random_normal(0, 1, 0);

    assert_true(est_nn_row_draw(&normal, c->graph, 4, user));
    return est_scalar(c->graph, EST_F32, 0);
}

/* What row a key gets depends on the seed of the job, which all workers build their graphs with, and on nothing of the
 * worker. */
TEST(rows_of_workers)
{
    for (int i = 0; i < 4; i++) {
        est_strategy *s;
        est_row_draw  draw;
        char          task[128];
        uint64_t      seed = (uint64_t)(i / 2) + 7;
        nn_test       t    = nn_begin(seed);

        snprintf(task, sizeof task,
                 "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
                 i % 2);
        assert_ok(est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = task), &s));
        (void)est_strategy_run(s, t.graph, draw_rows, &draw);
        assert_ok(est_graph_status(t.graph));
        assert_int_equal(draw.seed, seed);
        est_graph_free(t.graph);
        est_strategy_free(s);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

TEST(memory_is_out)
{
    est_strategy *s = mirrored(2);

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_graph *graph = NULL;
        inside     i     = { 0 };
        est_status status;

        assert_ok(est_graph_create(1, &graph));
        fault_arm(&f);
        est_strategy_scope(s, graph);
        (void)est_strategy_run(s, graph, reduce, &i);
        (void)est_strategy_gather(s, est_strategy_values_from_function(s, graph, even, NULL), 1);
        (void)est_strategy_reduce(s, EST_REDUCE_OP_MEAN, est_strategy_run(s, graph, even, NULL), 0);
        est_strategy_scope_end(s, graph);
        status = est_graph_status(graph);
        fault_check(&f, status);
        est_graph_free(graph);
    }
    est_strategy_free(s);
}
