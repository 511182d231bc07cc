/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas: the order in which they are built and merged, what they share, what each owns, and that an error of one
 * of them ends all of them with a text that names it. */
#include "strategy/replicas_build.h"
#include "nn/nn.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

typedef struct plan plan;
struct plan {
    est_graph *graph;
    est_status (*build)(plan *p, int replica);
    est_node node[8];
    char     order[64]; /* who did what */
};

static void note(plan *p, const char *what)
{
    size_t n = strlen(p->order);

    snprintf(p->order + n, sizeof p->order - n, "%s", what);
}

static est_status build_one(int replica, void *user)
{
    plan *p = user;

    return p->build(p, replica);
}

static est_status build_all(plan *p, int n)
{
    return est_replicas_build(p->graph, (est_replicas){ .n = n, .total = n }, build_one, p);
}

static plan begin(est_status (*build)(plan *p, int replica))
{
    plan p = { .build = build };

    assert_ok(est_graph_create(7, &p.graph));
    return p;
}

/* The plan fails on n replicas with this text. */
static void expect(est_status (*build)(plan *p, int replica), int n, est_status code, const char *text)
{
    plan p = begin(build);

    assert_int_equal(build_all(&p, n), code);
    if (strstr(est_error_message(), text) == NULL) fail_msg("%s", est_error_message());
    assert_null(est_graph_replicas(p.graph));
    est_graph_free(p.graph);
}

/* --- turns and merges --------------------------------------------------------------------------------------------- */

static est_node sum_brought(est_graph *graph, void *const *brought, int n)
{
    est_node nodes[8];

    assert_int_equal(est_graph_replicas(graph)->current, -1);
    for (int i = 0; i < n; i++) nodes[i] = *(const est_node *)brought[i];
    return est_named(est_add_n((est_nodes){ nodes, n }), "met");
}

static est_status build_turns(plan *p, int replica)
{
    char     text[8];
    est_node x = est_scalar(p->graph, EST_F32, replica + 1);

    for (int round = 0; round < 3; round++) {
        snprintf(text, sizeof text, "%d%c ", replica, 'a' + round);
        note(p, text);
        est_scope_push(p->graph, "layer");
        x = est_named(est_neg(x), "x");
        if (round < 2) x = est_replicas_merge(p->graph, sum_brought, &x);
        est_scope_pop(p->graph);
    }
    p->node[replica] = x;
    return EST_OK;
}

TEST(turns)
{
    plan    p = begin(build_turns);
    nn_test t = { 0 };

    est_scope_push(p.graph, "model");
    assert_ok(build_all(&p, 3));
    assert_string_equal(p.order, "0a 1a 2a 0b 1b 2b 0c 1c 2c ");
    assert_non_null(est_graph_find(p.graph, "model/layer/x").graph);
    assert_non_null(est_graph_find(p.graph, "model/replica_2/layer_1/x").graph);
    assert_non_null(est_graph_find(p.graph, "model/layer/met").graph); /* as if there were one replica */
    assert_string_equal(est_node_name(est_named(est_scalar(p.graph, EST_F32, 0), "after")), "model/after");
    t.graph = p.graph;
    nn_ready(&t);
    /* -(1 + 2 + 3) for all, then three times 6, then its negative */
    for (int i = 0; i < 3; i++) assert_near(nn_scalar(&t, p.node[i]), -18, 0);
    nn_end(&t);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static est_status build_too_few(plan *p, int replica)
{
    est_node x = est_scalar(p->graph, EST_F32, 1);

    for (int i = 0; i < 3 - replica; i++) x = est_replicas_merge(p->graph, sum_brought, &x);
    return EST_OK;
}

static est_status build_too_many(plan *p, int replica)
{
    est_node x = est_scalar(p->graph, EST_F32, 1);

    for (int i = 0; i < replica; i++) x = est_replicas_merge(p->graph, sum_brought, &x);
    return EST_OK;
}

static est_node first_brought(est_graph *graph, void *const *brought, int n)
{
    (void)graph;
    (void)n;
    return *(const est_node *)brought[0];
}

static est_status build_other_kind(plan *p, int replica)
{
    est_node x = est_scalar(p->graph, EST_F32, 1);

    (void)est_replicas_merge(p->graph, replica == 1 ? first_brought : sum_brought, &x);
    return EST_OK;
}

static est_status build_failing(plan *p, int replica)
{
    est_node x = est_scalar(p->graph, EST_F32, 1);

    x = est_replicas_merge(p->graph, sum_brought, &x);
    if (replica == 1) return est_fail(EST_NOT_FOUND, "replica 1 found nothing");
    (void)est_replicas_merge(p->graph, sum_brought, &x);
    return EST_OK;
}

static est_status build_poisoned(plan *p, int replica)
{
    est_node x = est_scalar(p->graph, EST_F32, 1);

    if (replica == 1) x = est_add(x, est_scalar(p->graph, EST_I64, 1));
    (void)est_replicas_merge(p->graph, sum_brought, &x);
    return EST_OK;
}

static est_node fail_merge(est_graph *graph, void *const *brought, int n)
{
    (void)brought;
    return est_nn_fail(graph, "%d replicas were too many", n);
}

static est_status build_bad_merge(plan *p, int replica)
{
    (void)replica;
    assert_null(est_def(est_replicas_merge(p->graph, fail_merge, NULL)));
    assert_null(est_def(est_replicas_merge(p->graph, fail_merge, NULL)));
    return EST_OK;
}

TEST(failures)
{
    expect(build_too_few, 3, EST_INVALID_ARGUMENT, "replica 0 has merged 2 times and replica 2 1 times");
    expect(build_too_many, 2, EST_INVALID_ARGUMENT, "replica 0 has merged 0 times and replica 1 1 times");
    expect(build_other_kind, 3, EST_INVALID_ARGUMENT, "merge 1 of replica 1 is of another kind");
    expect(build_failing, 3, EST_NOT_FOUND, "replica 1 found nothing");
    expect(build_poisoned, 4, EST_INVALID_ARGUMENT, "int64");
    expect(build_bad_merge, 2, EST_INVALID_ARGUMENT, "2 replicas were too many");
}

/* --- what is shared ----------------------------------------------------------------------------------------------- */

/* A vocabulary. */
static est_tensor *letters(void)
{
    est_tensor *keys = NULL;

    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(2), &keys));
    assert_ok(est_tensor_set_string(keys, 0, "a", 1));
    assert_ok(est_tensor_set_string(keys, 1, "b", 1));
    return keys;
}

static est_status build_variables(plan *p, int replica)
{
    est_tensor *keys = letters();
    est_node    w, own;

    own = est_variable(p->graph, "own", EST_F64, EST_SHAPE(2));
    est_variable_initializer(own, est_cast(nn_const(p->graph, EST_SHAPE(2), NN_VALUES(1, 2)), EST_F64));
    p->node[replica] = est_dense(nn_const(p->graph, EST_SHAPE(1, 1), NN_VALUES(1)), 1, NULL);
    p->node[replica] = est_dense(p->node[replica], 1, EST_DENSE(.kernel_regularizer = est_l2_regularizer(1)));
    w                = est_weight(p->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.regularizer = est_l1_regularizer(2)));
    (void)est_global_step(p->graph);
    (void)est_nn_absolute_variable(p->graph, "top", EST_I64, EST_SHAPE(3), est_init_ones(), "local_variables");
    assert_int_equal(est_losses(p->graph).n, 2); /* of this replica alone */
    p->node[replica + 4] = est_regularization_loss(p->graph);
    (void)est_lookup_entry(est_vocabulary_list(p->graph, keys, NULL),
                           est_const_i64(p->graph, EST_SHAPE(1), (int64_t[]){ 1 }), NULL);
    est_tensor_free(keys);
    if (replica > 0) assert_string_equal(est_node_name(w), "w");
    return est_graph_status(p->graph);
}

static int count_ops(const est_graph *graph, const char *op)
{
    int n = 0;

    for (int32_t i = 0; i < est_graph_size(graph); i++) n += strcmp(est_graph_node(graph, i)->op->name, op) == 0;
    return n;
}

TEST(shared)
{
    plan    p = begin(build_variables);
    nn_test t = { 0 };
    double  w, kernel;

    (void)est_named(est_scalar(p.graph, EST_F32, 0),
                    "dense"); /* what was there before changes names of the first only */
    assert_ok(build_all(&p, 3));
    assert_int_equal(count_ops(p.graph, "VarHandleOp"), 8);
    assert_int_equal(count_ops(p.graph, "AssignVariableOp"), 8);
    assert_int_equal(count_ops(p.graph, "LookupTableImportV2"), 2);
    assert_int_equal(est_trainable_variables(p.graph).n, 5);
    assert_int_equal(est_global_variables(p.graph).n, 6);
    assert_int_equal(est_local_variables(p.graph).n, 1);
    assert_int_equal(est_graph_collection(p.graph, "table_initializer").n, 2);
    t.graph = p.graph;
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "w", &w, 1), 1);
    assert_int_equal(nn_read(&t, "dense_2/kernel", &kernel, 1), 1); /* "dense" was taken */
    for (int i = 0; i < 3; i++) {
        assert_near(nn_scalar(&t, p.node[i]), nn_scalar(&t, p.node[0]), 0);
        assert_near(nn_scalar(&t, p.node[i + 4]), 2 * fabs(w) + kernel * kernel, 1e-6);
    }
    nn_end(&t);
}

static est_status build_other_shape(plan *p, int replica)
{
    (void)est_weight(p->graph, "w", EST_SHAPE(2, replica + 3), NULL);
    return EST_OK;
}

static est_status build_other_dtype(plan *p, int replica)
{
    (void)est_variable(p->graph, "w", replica > 0 ? EST_F64 : EST_F32, EST_SHAPE(2));
    return EST_OK;
}

static est_status build_missing(plan *p, int replica)
{
    (void)est_weight(p->graph, replica > 0 ? "weights" : "w", EST_SHAPE(2), NULL);
    return EST_OK;
}

static est_status build_more(plan *p, int replica)
{
    for (int i = 0; i <= replica; i++) (void)est_weight(p->graph, "w", EST_SHAPE(2), NULL);
    return EST_OK;
}

static est_status build_other_table(plan *p, int replica)
{
    est_tensor *keys = letters();

    (void)est_vocabulary_list(p->graph, keys, EST_TABLE(.num_oov_buckets = replica));
    est_tensor_free(keys);
    return EST_OK;
}

TEST(not_shared)
{
    expect(build_other_shape, 2, EST_INVALID_ARGUMENT,
           "variable 'w' is float32 [2,3] in replica 0 and float32 [2,4] in replica 1");
    expect(build_other_dtype, 2, EST_INVALID_ARGUMENT, "is float32 [2] in replica 0 and float64 [2]");
    expect(build_missing, 2, EST_INVALID_ARGUMENT,
           "replica 1 requests 'weights' (VarHandleOp), which replica 0 did not");
    expect(build_more, 2, EST_INVALID_ARGUMENT, "or not as often");
    expect(build_other_table, 2, EST_INVALID_ARGUMENT, "vocabulary 'vocabulary' has other keys or another default");
}

/* --- random numbers ----------------------------------------------------------------------------------------------- */

static est_node four(est_graph *graph)
{
    return est_const_i64(graph, EST_SHAPE(1), (int64_t[]){ 4 });
}

static est_status build_random(plan *p, int replica)
{
    p->node[2 * replica]     = est_random_uniform(four(p->graph), EST_F32, 99);
    p->node[2 * replica + 1] = est_random_uniform(four(p->graph), EST_F32, 0);
    return EST_OK;
}

TEST(random)
{
    plan    p = begin(build_random);
    nn_test t = { 0 };
    double  drawn[6][4];

    assert_ok(build_all(&p, 3));
    t.graph = p.graph;
    nn_ready(&t);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(nn_fetch(&t, p.node[i], drawn[i], 4), 4);
        for (int k = 0; k < i; k++) assert_memory_not_equal(drawn[i], drawn[k], sizeof drawn[i]);
    }
    nn_end(&t);
}

/* The first replica of the second worker draws other numbers, but variables begin with the same. */
static est_status build_worker(plan *p, int replica)
{
    est_node w = est_weight(p->graph, "w", EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_random_uniform(0, 1, 3)));

    (void)replica;
    p->node[0] = est_read_variable(w);
    p->node[1] = est_random_uniform(four(p->graph), EST_F32, 3);
    return EST_OK;
}

TEST(workers_draw)
{
    double drawn[2][2][4];

    for (int worker = 0; worker < 2; worker++) {
        plan         p = begin(build_worker);
        nn_test      t = { .graph = p.graph };
        est_replicas r = { .n = 1, .first_global = worker, .total = 2 };

        assert_ok(est_replicas_build(p.graph, r, build_one, &p));
        nn_ready(&t);
        for (int i = 0; i < 2; i++) assert_int_equal(nn_fetch(&t, p.node[i], drawn[worker][i], 4), 4);
        nn_end(&t);
    }
    assert_memory_equal(drawn[0][0], drawn[1][0], sizeof drawn[0][0]);
    assert_memory_not_equal(drawn[0][1], drawn[1][1], sizeof drawn[0][1]);
}

/* --- the same graph each time, and memory that is out ------------------------------------------------------------- */

static est_status build_model(plan *p, int replica)
{
    est_node x  = nn_const(p->graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_node id = est_const_i64(p->graph, EST_SHAPE(2), (int64_t[]){ 0, replica }), y;

    y                = est_concat(EST_NODES(x, est_embedding(id, 4, 2, NULL)), 1);
    y                = est_batch_norm(est_dense(y, 3, NULL), true, NULL);
    y                = est_sum(est_square(est_dropout(y, 0.5, 0)));
    p->node[replica] = est_minimize(est_adam(0, NULL), y, NULL);
    return est_graph_status(p->graph);
}

static est_status build_small(void)
{
    plan       p = { .build = build_model };
    est_node   weight[2];
    est_status status = est_graph_create(7, &p.graph);

    if (status != EST_OK) return status;
    for (int i = 0; i < 2; i++) weight[i] = est_scalar(p.graph, EST_F32, i + 1);
    status = est_replicas_build(p.graph,
                                (est_replicas){ .n = 2, .total = 2, .weight = weight, .gradients = EST_REDUCE_OP_MEAN },
                                build_one, &p);
    est_graph_free(p.graph);
    return status;
}

static bool same_def(const est_node_def *a, const est_node_def *b)
{
    return a->op == b->op && strcmp(a->name, b->name) == 0 && a->n_in == b->n_in && a->n_control == b->n_control &&
           (a->n_in == 0 || memcmp(a->in, b->in, sizeof *a->in * (size_t)a->n_in) == 0) &&
           (a->n_control == 0 || memcmp(a->control, b->control, sizeof *a->control * (size_t)a->n_control) == 0);
}

static void expect_same(const est_graph *a, const est_graph *b)
{
    assert_int_equal(est_graph_size(a), est_graph_size(b));
    for (int32_t i = 0; i < est_graph_size(a); i++) {
        assert_true(same_def(est_graph_node(a, i), est_graph_node(b, i)));
    }
}

TEST(same_graph)
{
    plan first = begin(build_model), again = begin(build_model), one = begin(build_model), plain = begin(build_model);

    assert_ok(build_all(&first, 3));
    assert_ok(build_all(&again, 3));
    expect_same(first.graph, again.graph);

    /* One replica is no replica. */
    assert_ok(build_all(&one, 1));
    assert_ok(plain.build(&plain, 0));
    expect_same(one.graph, plain.graph);
    est_graph_free(first.graph);
    est_graph_free(again.graph);
    est_graph_free(one.graph);
    est_graph_free(plain.graph);
}

TEST(memory_is_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 99) {
        est_status status;

        fault_arm(&f);
        status = build_small();
        fault_check(&f, status);
    }
}
