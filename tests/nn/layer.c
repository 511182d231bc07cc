/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers as objects: names, shared calls, several graphs, replicas, training or not, what they refuse, and for each
 * kind its values, worked out by hand, its variables and its number of parameters. tests/interop/layers.c compares
 * training with Keras. */
#include "nn/layer.h"
#include "strategy/replicas_build.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static void check_shape(est_node node, est_shape want)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    assert_ok(est_graph_status(node.graph));
    assert_string_equal(est_shape_text(est_node_shape(node), a), est_shape_text(&want, b));
}

static void check_values(nn_test *t, est_node node, int n, const double *want)
{
    double got[64];

    assert_int_equal(nn_fetch(t, node, got, 64), n);
    for (int i = 0; i < n; i++) assert_near(got[i], want[i], 1e-6);
}

static void check_params(const est_layer *layer, const est_graph *graph, int64_t trainable, int64_t frozen)
{
    int64_t a, b;

    est_layer_count_params(layer, graph, &a, &b);
    assert_int_equal(a, trainable);
    assert_int_equal(b, frozen);
}

/* --- objects ------------------------------------------------------------------------------------------------------ */

TEST(shared_calls)
{
    nn_test    t = nn_begin(1);
    est_layer *a = est_layer_dense(
        2, EST_DENSE(.kernel_initializer = est_init_ones(), .kernel_regularizer = est_l2_regularizer(1)));
    est_layer *b = est_layer_dense(1, NULL), *named = est_layer_dense(1, EST_DENSE(.name = "head"));
    est_node   x = nn_const(t.graph, EST_SHAPE(1, 3), NN_VALUES(1, 2, 3)), y, z;

    assert_string_equal(est_layer_name(a), "");
    assert_string_equal(est_layer_name(named), "head");
    y = est_layer_call(a, x, true);
    z = est_layer_call(a, est_neg(x), false);
    assert_string_equal(est_layer_name(a), "dense");
    assert_string_equal(est_node_name(y), "dense/BiasAdd");
    assert_string_equal(est_node_name(z), "dense/BiasAdd_1");
    (void)est_layer_call(b, y, true);
    (void)est_layer_call(named, z, true);
    assert_string_equal(est_layer_name(b), "dense_1"); /* the second call of the other has used up no name */
    assert_string_equal(est_layer_class_name(b), "Dense");
    check_shape(est_dense(x, 1, NULL), EST_SHAPE(1, 1));
    assert_int_equal(est_trainable_variables(t.graph).n, 8);
    assert_string_equal(est_node_name(est_trainable_variables(t.graph).data[2]), "dense_1/kernel");
    assert_string_equal(est_node_name(est_trainable_variables(t.graph).data[4]), "head/kernel");
    assert_string_equal(est_node_name(est_trainable_variables(t.graph).data[6]), "dense_2/kernel");
    assert_int_equal(est_losses(t.graph).n, 1);
    check_params(a, t.graph, 8, 0);
    assert_int_equal(est_layer_output_shape(a)->dim[1], 2);
    est_layer_free(a);
    est_layer_free(b);
    est_layer_free(named);
    nn_ready(&t);
    check_values(&t, y, 2, NN_VALUES(6, 6));
    check_values(&t, z, 2, NN_VALUES(-6, -6));
    nn_end(&t);
}

/* A layer has variables in each graph, of the same names. */
TEST(two_graphs)
{
    est_layer *a = est_layer_dense(2, NULL), *b = est_layer_dense(3, NULL), *other;
    nn_test    t[2];

    for (int i = 0; i < 2; i++) {
        est_node x;

        t[i] = nn_begin(1);
        x    = nn_const(t[i].graph, EST_SHAPE(1, 3), NN_VALUES(1, 2, 3));
        x    = est_layer_call(i == 0 ? a : b, x, false);
        x    = est_layer_call(i == 0 ? b : a, x, false);
        assert_ok(est_graph_status(t[i].graph));
        assert_non_null(est_graph_find(t[i].graph, "dense/kernel").graph);
        assert_non_null(est_graph_find(t[i].graph, "dense_1/kernel").graph);
    }
    assert_int_equal(est_node_dim(est_graph_find(t[1].graph, "dense_1/kernel"), 1), 3);
    assert_int_equal(est_node_dim(est_graph_find(t[1].graph, "dense/kernel"), 1), 2);
    nn_end(&t[0]);
    check_params(a, t[1].graph, 8, 0);
    est_layer_free(a);
    other = est_layer_dense(5, NULL); /* not where the freed one was: the graph has it still */
    assert_ptr_not_equal(other, a);
    check_params(other, t[1].graph, 0, 0);
    est_layer_free(other);
    est_layer_free(b);
    nn_end(&t[1]);
}

/* A name that is taken, and ends as names do that were made unique. */
TEST(taken_name)
{
    nn_test    t = nn_begin(1);
    est_node   x = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 2));
    est_layer *a = est_layer_dense(2, EST_DENSE(.name = "block_1")),
              *b = est_layer_dense(2, EST_DENSE(.name = "block_1"));

    for (int i = 0; i < 2; i++) x = est_layer_call(b, est_layer_call(a, x, true), true);
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_trainable_variables(t.graph).n, 4);
    assert_non_null(est_graph_find(t.graph, "block_1_1/kernel").graph);
    est_layer_free(a);
    est_layer_free(b);
    nn_end(&t);
}

TEST(references)
{
    est_layer *a = est_layer_flatten("flat");

    assert_ptr_equal(est_layer_share(a), a);
    est_layer_free(a);
    assert_string_equal(est_layer_name(a), "flat");
    est_layer_free(a);
    est_layer_free(NULL);
    assert_null(est_layer_share(NULL));
    est_layer_set_trainable(NULL, false);
}

TEST(not_trained)
{
    nn_test    t = nn_begin(1);
    est_layer *d = est_layer_dense(2, NULL), *n = est_layer_batch_norm(NULL);
    est_node   x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4)), y;

    x = est_layer_call(d, x, true);
    est_layer_set_trainable(n, false);
    y = est_layer_call(n, x, true);
    assert_int_equal(est_update_ops(t.graph).n, 0);
    assert_int_equal(est_trainable_variables(t.graph).n, 2);
    check_params(n, t.graph, 0, 8);
    est_layer_set_trainable(n, true);
    est_layer_set_trainable(d, false);
    y = est_layer_call(n, est_layer_call(d, y, true), true); /* as last called */
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_update_ops(t.graph).n, 2);
    assert_int_equal(est_trainable_variables(t.graph).n, 2);
    check_params(d, t.graph, 0, 6);
    check_params(n, t.graph, 4, 4);
    (void)y;
    est_layer_free(d);
    est_layer_free(n);
    nn_end(&t);
}

/* --- replicas ----------------------------------------------------------------------------------------------------- */

typedef struct plan {
    est_graph *graph;
    est_layer *layer;
    est_node   out[2];
    bool       own; /* each replica makes its layers */
} plan;

static est_status build_replica(int replica, void *user)
{
    plan      *p     = user;
    est_layer *layer = p->own ? est_layer_dense(2, NULL) : est_layer_share(p->layer);
    est_layer *norm  = est_layer_batch_norm(NULL);
    est_node   x     = nn_const(p->graph, EST_SHAPE(1, 2), NN_VALUES(1, 2));

    x               = est_layer_call(norm, est_layer_call(layer, x, true), true);
    x               = est_dense(x, 2, NULL);
    p->out[replica] = est_layer_call(layer, x, true);
    est_layer_free(layer);
    est_layer_free(norm);
    return est_graph_status(p->graph);
}

TEST(in_replicas)
{
    for (int own = 0; own < 2; own++) {
        nn_test t = nn_begin(1);
        plan    p = { t.graph, est_layer_dense(2, NULL), .own = own };
        double  a[2], b[2];

        assert_ok(est_replicas_build(t.graph, (est_replicas){ .n = 2, .total = 2 }, build_replica, &p));
        assert_int_equal(est_global_variables(t.graph).n, 8);
        assert_int_equal(est_update_ops(t.graph).n, 2);
        assert_non_null(est_graph_find(t.graph, "dense/kernel").graph);
        assert_non_null(est_graph_find(t.graph, "dense_1/kernel").graph);
        assert_non_null(est_graph_find(t.graph, "replica_1/dense/MatMul_1").graph);
        nn_ready(&t);
        nn_fetch(&t, p.out[0], a, 2);
        nn_fetch(&t, p.out[1], b, 2);
        assert_memory_equal(a, b, sizeof a);
        est_layer_free(p.layer);
        nn_end(&t);
    }
}

/* --- functions of the user ---------------------------------------------------------------------------------------- */

/* x w + inner(x), with a weight and a layer of its own. */
static est_node own_layer(est_nodes inputs, bool training, void *user)
{
    est_node x = inputs.data[0], w;

    w = est_weight(x.graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_constant(training ? 3 : 5)));
    return est_add(est_mul(x, est_read_variable(w)), est_layer_call(user, x, training));
}

static void free_layer(void *layer)
{
    est_layer_free(layer);
}

TEST(lambda)
{
    nn_test    t     = nn_begin(1);
    est_layer *inner = est_layer_dense(2, EST_DENSE(.kernel_initializer = est_init_ones()));
    est_layer *l     = est_layer_lambda(own_layer, EST_LAMBDA(.user = inner, .user_free = free_layer));
    est_node   x     = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 2)), y, z;

    y = est_layer_call(l, x, true);
    z = est_layer_call(l, x, false);
    assert_int_equal(est_global_variables(t.graph).n, 3);
    assert_non_null(est_graph_find(t.graph, "lambda/w").graph);
    assert_non_null(est_graph_find(t.graph, "lambda/dense/kernel").graph);
    check_params(l, t.graph, 7, 0);
    est_layer_set_trainable(l, false);
    (void)est_layer_call(l, x, true);
    check_params(l, t.graph, 0, 7);
    est_layer_free(l);
    nn_ready(&t);
    check_values(&t, y, 2, NN_VALUES(6, 9));
    check_values(&t, z, 2, NN_VALUES(6, 9));
    nn_end(&t);
}

/* --- kinds -------------------------------------------------------------------------------------------------------- */

/* One call of a layer on a constant; frees the layer. */
static est_node call(nn_test *t, est_layer *layer, est_shape shape, const double *values)
{
    est_node y = est_layer_call(layer, nn_const(t->graph, shape, values), true);

    est_layer_free(layer);
    return y;
}

TEST(images)
{
    static const double image[18] = { 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70, 8, 80, 9, 90 };
    nn_test             t         = nn_begin(1);
    est_shape           shape     = EST_SHAPE(1, 3, 3, 2);
    est_initializer     ones      = est_init_ones();
    est_node            y[6];

    y[0] = call(&t, est_layer_conv2d(1, 2, EST_CONV2D(.kernel_initializer = ones, .stride = 2)), shape, image);
    y[1] = call(&t, est_layer_depthwise_conv2d(1, 3, EST_CONV2D(.kernel_initializer = ones)), shape, image);
    y[2] = call(
        &t,
        est_layer_separable_conv2d(2, 2,
                                   EST_SEPARABLE_CONV2D(.depthwise_initializer = ones, .pointwise_initializer = ones,
                                                        .bias_initializer = ones, .depth_multiplier = 3, .stride = 2)),
        shape, image);
    y[3] = call(&t, est_layer_max_pool2d(2, EST_POOL2D(.stride = 1)), shape, image);
    y[4] = call(&t, est_layer_global_max_pool2d(NULL), shape, image);
    y[5] = call(&t, est_layer_global_avg_pool2d(NULL), shape, image);
    check_shape(y[2], EST_SHAPE(1, 1, 1, 2));
    assert_non_null(est_graph_find(t.graph, "separable_conv2d/depthwise_kernel").graph);
    assert_int_equal(est_node_dim(est_graph_find(t.graph, "separable_conv2d/pointwise_kernel"), 2), 6);
    nn_ready(&t);
    check_values(&t, y[0], 1, NN_VALUES(12 * 11));
    check_values(&t, y[1], 2, NN_VALUES(45, 450));
    check_values(&t, y[2], 2, NN_VALUES(12 * 11 * 3 + 1, 12 * 11 * 3 + 1));
    check_values(&t, y[3], 8, NN_VALUES(5, 50, 6, 60, 8, 80, 9, 90));
    check_values(&t, y[4], 2, NN_VALUES(9, 90));
    check_values(&t, y[5], 2, NN_VALUES(5, 50));
    nn_end(&t);
}

TEST(average_pool)
{
    nn_test  t = nn_begin(1);
    est_node y = call(&t, est_layer_avg_pool2d(2, NULL), EST_SHAPE(1, 2, 2, 1), NN_VALUES(1, 2, 3, 4));

    assert_string_equal(est_node_name(y), "average_pooling2d/AvgPool");
    nn_ready(&t);
    check_values(&t, y, 1, NN_VALUES(2.5));
    nn_end(&t);
}

TEST(shapes)
{
    nn_test    t    = nn_begin(1);
    est_node   x    = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 4, 3));
    est_layer *flat = est_layer_flatten(NULL), *open = est_layer_reshape(EST_I64S(2, -1, 2), NULL),
              *full = est_layer_reshape(EST_I64S(6, 2), NULL), *cat = est_layer_concatenate(-1, NULL);

    check_shape(est_layer_call(flat, x, false), EST_SHAPE(-1, 12));
    check_shape(est_layer_call(open, x, false), EST_SHAPE(-1, 2, 3, 2));
    check_shape(est_layer_call(full, nn_const(t.graph, EST_SHAPE(2, 3, 4), (double[24]){ 0 }), false),
                EST_SHAPE(2, 6, 2));
    check_shape(est_layer_call_with(cat, EST_NODES(x, x, x), NULL), EST_SHAPE(-1, 4, 9));
    assert_string_equal(est_layer_name(cat), "concatenate");
    assert_string_equal(est_layer_class_name(open), "Reshape");
    (void)est_layer_call(full, est_placeholder(t.graph, "y", EST_F32, EST_SHAPE(-1, 5)), false);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "has 5 elements; 12 are needed"));
    est_layer_free(flat);
    est_layer_free(open);
    est_layer_free(full);
    est_layer_free(cat);
    nn_end(&t);
}

static est_node call_two(nn_test *t, est_layer *layer, est_node a, est_node b)
{
    est_node y = est_layer_call_with(layer, EST_NODES(a, b), NULL);

    assert_ok(est_graph_status(t->graph));
    est_layer_free(layer);
    return y;
}

/* A row that is merged with rows of rows goes with each of them, however many examples there are. */
TEST(two_inputs)
{
    nn_test  t = nn_begin(1);
    est_node a = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_node b = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(5, 6, 7, 8));
    est_node c = nn_const(t.graph, EST_SHAPE(2, 2, 3), NN_VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)), y[9];

    y[0] = call_two(&t, est_layer_add(NULL), a, b);
    y[1] = call_two(&t, est_layer_multiply(NULL), a, b);
    y[2] = call_two(&t, est_layer_dot(1, NULL), a, b);
    y[3] = call_two(&t, est_layer_dot(-1, EST_DOT(.normalize = true)), a, est_scale(a, 7));
    y[4] = call_two(&t, est_layer_dot(1, NULL), c, c);
    y[5] = call_two(&t, est_layer_dot(2, NULL), c, c);
    y[6] = call_two(&t, est_layer_dot(1, EST_DOT(.second_axis = 1)), a, c);
    y[7] = call_two(&t, est_layer_add(NULL), a, est_reshape(c, EST_I64S(2, 3, 2)));
    y[8] = call_two(&t, est_layer_multiply(NULL), est_reshape(c, EST_I64S(2, 3, 2)), a);
    check_shape(y[4], EST_SHAPE(2, 3, 3));
    check_shape(y[6], EST_SHAPE(2, 3));
    nn_ready(&t);
    check_values(&t, y[0], 4, NN_VALUES(6, 8, 10, 12));
    check_values(&t, y[1], 4, NN_VALUES(5, 12, 21, 32));
    check_values(&t, y[2], 2, NN_VALUES(17, 53));
    check_values(&t, y[3], 2, NN_VALUES(1, 1));
    check_values(&t, y[4], 18,
                 NN_VALUES(17, 22, 27, 22, 29, 36, 27, 36, 45, 149, 166, 183, 166, 185, 204, 183, 204, 225));
    check_values(&t, y[5], 8, NN_VALUES(14, 32, 32, 77, 194, 266, 266, 365));
    check_values(&t, y[6], 6, NN_VALUES(9, 12, 15, 61, 68, 75));
    check_values(&t, y[7], 12, NN_VALUES(2, 4, 4, 6, 6, 8, 10, 12, 12, 14, 14, 16));
    check_values(&t, y[8], 12, NN_VALUES(1, 4, 3, 8, 5, 12, 21, 32, 27, 40, 33, 48));
    nn_end(&t);
}

TEST(normalisation)
{
    nn_test    t    = nn_begin(1);
    est_layer *norm = est_layer_layer_norm(EST_LAYER_NORM(.epsilon = 0.25, .beta_initializer = est_init_ones())),
              *bare = est_layer_layer_norm(EST_LAYER_NORM(.no_center = true, .no_scale = true)),
              *drop = est_layer_dropout(0.5, NULL), *act = est_layer_activation(est_relu, NULL);
    est_node x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 3, -4, 4)), y[4];

    y[0] = est_layer_call(norm, x, true);
    y[1] = est_layer_call(bare, x, true);
    y[2] = est_layer_call(drop, x, false);
    y[3] = est_layer_call(act, x, false);
    assert_int_equal(y[2].id, x.id);
    assert_int_not_equal(est_layer_call(drop, x, true).id, x.id);
    assert_string_equal(est_layer_name(norm), "layer_normalization");
    check_params(norm, t.graph, 4, 0);
    check_params(bare, t.graph, 0, 0);
    nn_ready(&t);
    check_values(&t, y[0], 4,
                 NN_VALUES(1 - 1 / sqrt(1.25), 1 + 1 / sqrt(1.25), 1 - 4 / sqrt(16.25), 1 + 4 / sqrt(16.25)));
    check_values(&t, y[1], 4, NN_VALUES(-1 / sqrt(1.001), 1 / sqrt(1.001), -4 / sqrt(16.001), 4 / sqrt(16.001)));
    check_values(&t, y[3], 4, NN_VALUES(1, 3, 0, 4));
    est_layer_free(norm);
    est_layer_free(bare);
    est_layer_free(drop);
    est_layer_free(act);
    nn_end(&t);
}

TEST(embedding)
{
    nn_test    t = nn_begin(1);
    est_layer *l = est_layer_embedding(
        3, 2, EST_EMBEDDING(.initializer = est_init_ones(), .table_name = "rows", .combiner = EST_COMBINE_SUM));
    est_node ids    = est_const_i64(t.graph, EST_SHAPE(3), (int64_t[]){ 0, 2, 1 });
    est_node splits = est_const_i64(t.graph, EST_SHAPE(3), (int64_t[]){ 0, 1, 3 });
    est_node weight = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3)), y[3];

    y[0] = est_layer_call(l, ids, false);
    y[1] = est_layer_call_with(l, EST_NODES(ids, splits), NULL);
    y[2] = est_layer_call_with(l, EST_NODES(ids, splits, weight), NULL);
    check_shape(y[0], EST_SHAPE(3, 2));
    check_params(l, t.graph, 6, 0);
    assert_non_null(est_graph_find(t.graph, "embedding/rows").graph);
    est_layer_free(l);
    nn_ready(&t);
    check_values(&t, y[1], 4, NN_VALUES(1, 1, 2, 2));
    check_values(&t, y[2], 4, NN_VALUES(1, 1, 5, 5));
    nn_end(&t);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* Scores are the sum of tanh(query + key), both weights being 1: 0 and tanh(1) of the first query. */
TEST(attention_concat)
{
    nn_test    t = nn_begin(1);
    est_node   q = nn_const(t.graph, EST_SHAPE(1, 1, 2), NN_VALUES(0, 0)), y;
    est_node   v = nn_const(t.graph, EST_SHAPE(1, 2, 1), NN_VALUES(1, 3));
    est_node   k = nn_const(t.graph, EST_SHAPE(1, 2, 2), NN_VALUES(0, 0, 0, 1));
    est_layer *l = est_layer_attention(EST_ATTENTION(.use_scale = true, .concat = true));
    double     a = 1 / (1 + exp(-tanh(1)));

    y = est_layer_call_with(l, EST_NODES(q, v, k), NULL);
    check_params(l, t.graph, 2, 0);
    assert_non_null(est_graph_find(t.graph, "attention/scale").graph);
    assert_non_null(est_graph_find(t.graph, "attention/concat_score_weight").graph);
    nn_ready(&t);
    check_values(&t, y, 1, NN_VALUES(1 + 2 * a));
    assert_null(est_layer_additive_attention(EST_ATTENTION(.concat = true)));
    assert_non_null(strstr(est_error_message(), "concat is of est_layer_attention"));
    est_layer_free(l);
    nn_end(&t);
}

/* Two queries, three values of which the mask leaves two. With scores 0 the result is their mean. */
TEST(attention)
{
    static const uint8_t counts[3] = { 1, 1, 0 }, rows[2] = { 1, 0 }, each[6] = { 0, 1, 0, 1, 0, 0 };
    nn_test              t = nn_begin(1);
    est_node             q = nn_const(t.graph, EST_SHAPE(1, 2, 2), NN_VALUES(0, 0, 1, 1));
    est_node             v = nn_const(t.graph, EST_SHAPE(1, 3, 2), NN_VALUES(1, 2, 3, 4, 90, 90));
    est_node             k = nn_const(t.graph, EST_SHAPE(1, 3, 2), NN_VALUES(0, 0, 0, 1, 0, 9)), mask, keep, seen, y[6];
    est_tensor          *bits = NULL;
    est_layer *dot = est_layer_attention(NULL), *scaled = est_layer_attention(EST_ATTENTION(.use_scale = true)),
              *causal = est_layer_attention(EST_ATTENTION(.causal = true)), *sum = est_layer_additive_attention(NULL);
    double e = exp(1), a;

    assert_ok(est_tensor_create_from(EST_BOOL, EST_SHAPE(1, 3), counts, &bits));
    mask = est_const(t.graph, bits);
    est_tensor_free(bits);
    assert_ok(est_tensor_create_from(EST_BOOL, EST_SHAPE(1, 2), rows, &bits));
    keep = est_const(t.graph, bits);
    est_tensor_free(bits);
    assert_ok(est_tensor_create_from(EST_BOOL, EST_SHAPE(1, 2, 3), each, &bits));
    seen = est_const(t.graph, bits);
    est_tensor_free(bits);
    y[0] = est_layer_call_with(dot, EST_NODES(q, v, k), EST_CALL(.mask = mask));
    y[1] = est_layer_call_with(scaled, EST_NODES(q, v, k), EST_CALL(.mask = mask, .query_mask = keep));
    y[2] = est_layer_call_with(causal, EST_NODES(q, v, k), NULL);
    y[3] = est_layer_call_with(sum, EST_NODES(q, v), EST_CALL(.mask = mask));
    y[4] = est_layer_call_with(dot, EST_NODES(q, v, k), EST_CALL(.mask = seen));
    y[5] = est_layer_call_with(causal, EST_NODES(q, v, k), EST_CALL(.mask = seen, .query_mask = keep));
    check_params(scaled, t.graph, 1, 0);
    check_params(sum, t.graph, 2, 0);
    assert_non_null(est_graph_find(t.graph, "attention_1/scale").graph);
    assert_non_null(est_graph_find(t.graph, "additive_attention/scale").graph);
    nn_ready(&t);
    a = e / (1 + e); /* the second query has scores 0 and 1 */
    check_values(&t, y[0], 4, NN_VALUES(2, 3, 1 + 2 * a, 2 + 2 * a));
    check_values(&t, y[1], 4, NN_VALUES(2, 3, 0, 0));
    check_values(&t, y[2], 4, NN_VALUES(1, 2, 1 + 2 * a, 2 + 2 * a));
    check_shape(y[3], EST_SHAPE(1, 2, 2));
    check_values(&t, y[4], 4, NN_VALUES(3, 4, 1, 2)); /* each query sees one value */
    check_shape(y[5], EST_SHAPE(1, 2, 2));
    est_layer_free(dot);
    est_layer_free(scaled);
    est_layer_free(causal);
    est_layer_free(sum);
    nn_end(&t);
}

/* All kernels 0: the heads are the biases, here 0 as well, and so is the result. */
TEST(multi_head_attention)
{
    nn_test    t = nn_begin(1);
    est_layer *l = est_layer_multi_head_attention(3, 2, EST_MULTI_HEAD(.units = 5, .value_dim = 4));
    est_node   x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, -1, 6)), y;

    y = est_layer_call_with(l, EST_NODES(x, x), NULL);
    y = est_add(y, est_layer_call_with(l, EST_NODES(x, x), EST_CALL(.training = true)));
    check_shape(y, EST_SHAPE(-1, -1, 5));
    check_params(l, t.graph, 2 * (6 * 3 * 2 + 3 * 2) + 6 * 3 * 4 + 3 * 4 + 3 * 4 * 5 + 5, 0);
    assert_int_equal(est_node_dim(est_graph_find(t.graph, "multi_head_attention/query/kernel"), 1), 3);
    assert_int_equal(est_node_dim(est_graph_find(t.graph, "multi_head_attention/attention_output/kernel"), 2), 5);
    est_layer_free(l);
    nn_end(&t);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void refused(est_layer *layer, const char *text)
{
    assert_null(layer);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
}

static est_node no_graph(est_nodes inputs, bool training, void *user)
{
    (void)training;
    (void)user;
    return inputs.data[0];
}

TEST(refused_arguments)
{
    nn_test  t      = nn_begin(1);
    est_node splits = est_const_i64(t.graph, EST_SHAPE(1), (int64_t[]){ 0 });

    refused(est_layer_dense(0, NULL), "dense layer: 0 units");
    refused(est_layer_conv2d(1, 0, NULL), "conv2d layer: 1 filters of size 0");
    refused(est_layer_depthwise_conv2d(-1, 1, NULL), "depthwise_conv2d layer: -1 filters");
    refused(est_layer_separable_conv2d(0, 1, NULL), "separable_conv2d layer: 0 filters");
    refused(est_layer_separable_conv2d(1, 1, EST_SEPARABLE_CONV2D(.depth_multiplier = -2)), "-2 filters");
    refused(est_layer_max_pool2d(0, NULL), "windows of size 0");
    refused(est_layer_dropout(1, NULL), "a rate of 1");
    refused(est_layer_embedding(0, 1, NULL), "[0, 1]");
    refused(est_layer_embedding(1, 1, EST_EMBEDDING(.splits = splits)), "inputs of a call");
    refused(est_layer_reshape(EST_I64S(-1, -1), NULL), "one may be -1");
    refused(est_layer_reshape((est_i64s){ NULL, 3 }, NULL), "a shape of 3 axes");
    refused(est_layer_activation(NULL, NULL), "activation is NULL");
    refused(est_layer_lambda(NULL, NULL), "fn is NULL");
    refused(est_layer_attention(EST_ATTENTION(.dropout = 1)), "a dropout of 1");
    refused(est_layer_multi_head_attention(0, 1, NULL), "0 heads of size 1");
    refused(est_layer_dense(1, (const est_dense_options *)EST_CONV2D(.name = NULL)), "est_conv2d_options");
    nn_end(&t);
}

/* A call that fails; frees the layer. */
static void refuses(est_layer *layer, est_nodes inputs, const char *text)
{
    est_graph *graph = inputs.data[0].graph;

    (void)est_layer_call_with(layer, inputs, NULL);
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
    est_layer_free(layer);
    est_graph_free(graph);
}

static est_node input_of(est_shape shape)
{
    nn_test t = nn_begin(1);

    return est_placeholder(t.graph, "x", EST_F32, shape);
}

TEST(refused_calls)
{
    est_node a = input_of(EST_SHAPE(2, 3)), b = input_of(EST_SHAPE(2, 3));

    refuses(est_layer_dense(1, NULL), EST_NODES(input_of(EST_SHAPE(2, -1))), "needs rank 2 to 8");
    refuses(est_layer_conv2d(1, 1, NULL), EST_NODES(input_of(EST_SHAPE(2, 3))), "conv2d layer: input 'x' has shape");
    refuses(est_layer_global_avg_pool2d(NULL), EST_NODES(input_of(EST_SHAPE(2, 3))), "needs rank 4 and");
    refuses(est_layer_embedding(1, 1, NULL), EST_NODES(input_of(EST_SHAPE(2))), "ids are float32");
    refuses(est_layer_add(NULL), EST_NODES(input_of(EST_SHAPE(2))), "add layer: 1 inputs");
    refuses(NULL, EST_NODES(input_of(EST_SHAPE(2))), "a layer that is NULL");
    refuses(est_layer_add(NULL), EST_NODES(a, b), "input 1 is no node of the graph of the first");
    est_graph_free(b.graph);
    a = input_of(EST_SHAPE(2, 3));
    refuses(est_layer_attention(NULL), EST_NODES(a, a), "attention layer: input 'x' has shape [2,3]");
    a = input_of(EST_SHAPE(2, 3));
    refuses(est_layer_dot(2, NULL), EST_NODES(a, a), "dot layer: axis 2 of 'x', which has rank 2");
}

/* The second call may not need other variables. */
TEST(another_shape)
{
    nn_test    t = nn_begin(1);
    est_layer *l = est_layer_dense(1, NULL);

    (void)est_layer_call(l, nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 2)), false);
    (void)est_layer_call(l, nn_const(t.graph, EST_SHAPE(1, 3), NN_VALUES(1, 2, 3)), false);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(
        strstr(est_error_message(), "variable 'dense/kernel' is float32 [2,1] in the first build and float32 [3,1]"));
    est_layer_free(l);
    nn_end(&t);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_status make_and_call(void)
{
    est_layer *layer[4] = { est_layer_dense(2, NULL), est_layer_embedding(2, 2, EST_EMBEDDING(.table_name = "rows")),
                            est_layer_batch_norm(NULL), est_layer_lambda(no_graph, EST_LAMBDA(.name = "mine")) };
    est_graph *graph    = NULL;
    est_status status   = EST_OK;
    est_node   x;

    for (int i = 0; i < 4; i++) status = layer[i] == NULL ? EST_RESOURCE_EXHAUSTED : status;
    if (status == EST_OK) status = est_graph_create(1, &graph);
    if (status == EST_OK) {
        x = est_const_i64(graph, EST_SHAPE(1), (int64_t[]){ 0 });
        x = est_layer_call(layer[1], x, true);
        for (int i = 0; i < 2; i++) x = est_layer_call(layer[0], x, true);
        x      = est_layer_call(layer[3], est_layer_call(layer[2], x, true), true);
        status = est_graph_status(graph);
    }
    for (int i = 0; i < 4; i++) est_layer_free(layer[i]);
    est_graph_free(graph);
    return status;
}

TEST(allocations)
{
    fault_allocations(make_and_call);
}
