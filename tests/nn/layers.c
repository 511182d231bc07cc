/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: shapes, names of variables, values against plain loops, and what their options refuse. */
#include "support/nn_test.h"

static void check_shape(est_node node, est_shape want)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    assert_ok(est_graph_status(node.graph));
    assert_string_equal(est_shape_text(est_node_shape(node), a), est_shape_text(&want, b));
}

TEST(dense)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2, 3), NN_VALUES(1, 2, 3, -1, 0, 1));
    est_node h = est_dense(x, 4, EST_DENSE(.activation = est_relu));
    est_node y = est_dense(h, 2, EST_DENSE(.no_bias = true));
    est_node z = est_dense(y, 1, EST_DENSE(.name = "logits", .bias_initializer = est_init_constant(0.5)));
    double   k[12], out[8];

    check_shape(h, EST_SHAPE(2, 4));
    check_shape(z, EST_SHAPE(2, 1));
    assert_int_equal(est_trainable_variables(t.graph).n, 5);
    assert_string_equal(est_node_name(est_trainable_variables(t.graph).data[2]), "dense_1/kernel");
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "dense/kernel", k, 12), 12);
    assert_int_equal(nn_read(&t, "dense/bias", out, 8), 4);
    assert_int_equal(nn_read(&t, "logits/kernel", out, 8), 2);
    assert_int_equal(nn_read(&t, "logits/bias", out, 8), 1);
    assert_near(out[0], 0.5, 0);
    nn_fetch(&t, h, out, 8);
    for (int j = 0; j < 4; j++) {
        assert_near(out[j], fmax(0, k[j] + 2 * k[4 + j] + 3 * k[8 + j]), 1e-6);
        assert_near(out[4 + j], fmax(0, -k[j] + k[8 + j]), 1e-6);
    }
    nn_end(&t);
}

/* Higher ranks, with a batch that is known only when run. */
TEST(dense_of_rank_3)
{
    nn_test     t = nn_begin(1);
    est_node    x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 2, 3));
    est_node    y = est_dense(x, 5, EST_DENSE(.kernel_initializer = est_init_ones()));
    est_tensor *in, *out = NULL;
    float       values[24];

    check_shape(y, EST_SHAPE(-1, 2, 5));
    nn_ready(&t);
    for (int i = 0; i < 24; i++) values[i] = (float)i;
    assert_ok(est_tensor_f32(EST_SHAPE(4, 2, 3), values, &in));
    assert_ok(est_session_run(t.session, EST_FEEDS({ x, in }), EST_NODES(y), (est_nodes){ 0 }, &out));
    assert_int_equal(est_tensor_shape(out)->rank, 3);
    assert_near(nn_element(out, 39), 21 + 22 + 23, 1e-6);
    est_tensor_free(in);
    est_tensor_free(out);
    nn_end(&t);
}

TEST(images)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 28, 28, 3));
    est_node a = est_conv2d_layer(x, 8, 5, EST_CONV2D(.activation = est_relu, .padding = EST_SAME));
    est_node b = est_max_pool2d(a, 2, NULL);
    est_node c = est_conv2d_layer(b, 4, 3, EST_CONV2D(.stride = 2, .kernel_width = 5));
    est_node d = est_avg_pool2d(c, 3, EST_POOL2D(.stride = 1));
    est_node e = est_depthwise_conv2d_layer(d, 2, 2, NULL);
    double   few[4];

    check_shape(a, EST_SHAPE(-1, 28, 28, 8));
    check_shape(b, EST_SHAPE(-1, 14, 14, 8));
    check_shape(c, EST_SHAPE(-1, 6, 5, 4));
    check_shape(d, EST_SHAPE(-1, 4, 3, 4));
    check_shape(e, EST_SHAPE(-1, 3, 2, 8));
    check_shape(est_flatten(e), EST_SHAPE(-1, 48));
    nn_ready(&t);
    assert_int_equal(nn_read(&t, "conv2d/kernel", few, 4), 5 * 5 * 3 * 8);
    assert_int_equal(nn_read(&t, "conv2d/bias", few, 4), 8);
    assert_int_equal(nn_read(&t, "conv2d_1/kernel", few, 4), 3 * 5 * 8 * 4);
    assert_int_equal(nn_read(&t, "depthwise_conv2d/depthwise_kernel", few, 4), 2 * 2 * 4 * 2);
    assert_int_equal(nn_read(&t, "depthwise_conv2d/bias", few, 4), 8);
    nn_end(&t);
}

/* Mean and variance over the batch while training; the moving averages otherwise. */
static void check_batch_norm(est_shape shape, double moved_variance)
{
    static const double values[8] = { 1, 10, 2, 20, 3, 30, 4, 40 };
    nn_test             t         = nn_begin(1);
    est_node            x         = nn_const(t.graph, shape, values), y, z;
    double              out[8], average[2];

    y = est_batch_norm(x, true, EST_BATCH_NORM(.momentum = 0.9));
    z = est_batch_norm(x, false, NULL);
    assert_int_equal(est_update_ops(t.graph).n, 2);
    assert_int_equal(est_trainable_variables(t.graph).n, 4);
    assert_int_equal(est_global_variables(t.graph).n, 8);
    nn_ready(&t);
    nn_fetch(&t, y, out, 8);
    assert_near(out[0], (1 - 2.5) / sqrt(1.25 + 1e-3), 1e-5);
    assert_near(out[7], (40 - 25) / sqrt(125 + 1e-3), 1e-5);
    nn_fetch(&t, z, out, 8);
    assert_near(out[7], 40 / sqrt(1 + 1e-3), 1e-5);
    nn_run(&t, est_update_ops(t.graph).data[0]);
    nn_run(&t, est_update_ops(t.graph).data[1]);
    nn_read(&t, "batch_normalization/moving_mean", average, 2);
    assert_near(average[0], 0.25, 1e-6);
    assert_near(average[1], 2.5, 1e-6);
    nn_read(&t, "batch_normalization/moving_variance", average, 2);
    assert_near(average[0], 0.9 + 0.1 * moved_variance, 1e-5);
    nn_read(&t, "batch_normalization_1/moving_mean", average, 2);
    assert_near(average[0], 0, 0);
    nn_end(&t);
}

TEST(batch_norm)
{
    check_batch_norm(EST_SHAPE(4, 2), 1.25);                 /* rows: the plain variance */
    check_batch_norm(EST_SHAPE(2, 1, 2, 2), 1.25 * 4.0 / 3); /* images: the unbiased one */
}

TEST(dropout)
{
    nn_test  t = nn_begin(3);
    double   ones[200], out[200], sum = 0;
    est_node x, y;

    for (int i = 0; i < 200; i++) ones[i] = 1;
    x = nn_const(t.graph, EST_SHAPE(200), ones);
    y = est_dropout_layer(x, 0.25, true);
    assert_int_equal(est_dropout_layer(x, 0.25, false).id, x.id);
    nn_ready(&t);
    nn_fetch(&t, y, out, 200);
    for (int i = 0; i < 200; i++) {
        assert_true(out[i] == 0 || fabs(out[i] - 1 / 0.75) < 1e-6);
        sum += out[i];
    }
    assert_true(sum > 160 && sum < 240);
    nn_end(&t);
}

/* --- embeddings --------------------------------------------------------------------------------------------------- */

/* Row i of the table is (i, 10 i). */
static est_node table_values(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    double values[64];

    (void)self;
    (void)dtype;
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        values[2 * i]     = (double)i;
        values[2 * i + 1] = 10 * (double)i;
    }
    return nn_const(graph, shape, values);
}

TEST(embedding)
{
    nn_test         t     = nn_begin(1);
    est_initializer init  = { .make = table_values };
    est_node        ids   = est_const_i64(t.graph, EST_SHAPE(2, 2), (const int64_t[]){ 3, 1, 1, 0 });
    est_node        plain = est_embedding(ids, 5, 2, EST_EMBEDDING(.initializer = init));
    double          out[8];

    check_shape(plain, EST_SHAPE(2, 2, 2));
    nn_ready(&t);
    nn_fetch(&t, plain, out, 8);
    assert_near(out[1], 30, 0);
    assert_near(out[4], 1, 0);
    assert_int_equal(nn_read(&t, "embedding/embeddings", out, 8), 10);
    nn_end(&t);
}

TEST(embedding_of_strings)
{
    nn_test  t     = nn_begin(1);
    est_node words = est_placeholder(t.graph, "words", EST_STRING, EST_SHAPE(-1));

    (void)est_embedding(words, 5, 2, NULL);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "embedding: ids are string, expected int32 or int64"));
    nn_end(&t);
}

TEST(ragged_embedding)
{
    static const struct {
        est_combiner combiner;
        bool         weighted;
        double       row0, row2; /* column 0 of rows {1, 3} and {4, 4, 2} */
    } cases[] = {
        { EST_COMBINE_SUM, false, 4, 10 },
        { EST_COMBINE_MEAN, false, 2, 10.0 / 3 },
        { EST_COMBINE_SQRTN, false, 4 / 1.4142135623730951, 10 / 1.7320508075688772 },
        { EST_COMBINE_SUM, true, 1 + 2 * 3, 3 * 4 + 0.5 * 4 + 2 },
        { EST_COMBINE_MEAN, true, 7.0 / 3, 16 / 4.5 },
        { EST_COMBINE_SQRTN, true, 7 / 2.23606797749979, 16 / 3.2015621187164243 },
    };

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        nn_test         t      = nn_begin(1);
        est_initializer init   = { .make = table_values };
        est_node        ids    = est_const_i64(t.graph, EST_SHAPE(5), (const int64_t[]){ 1, 3, 4, 4, 2 });
        est_node        splits = est_const_i64(t.graph, EST_SHAPE(4), (const int64_t[]){ 0, 2, 2, 5 });
        est_node        w      = nn_const(t.graph, EST_SHAPE(5), NN_VALUES(1, 2, 3, 0.5, 1));
        est_node        y      = est_embedding(ids, 5, 2,
                                               EST_EMBEDDING(.initializer = init, .splits = splits,
                                                             .weights  = cases[c].weighted ? w : EST_NO_NODE,
                                                             .combiner = cases[c].combiner));
        est_gradient    g;
        est_node        table = est_trainable_variables(t.graph).data[0];
        double          out[6];

        est_gradients(est_sum(y), (est_nodes){ &table, 1 }, &g);
        assert_non_null(g.indices.graph); /* only the rows that occur */
        nn_ready(&t);
        assert_int_equal(nn_fetch(&t, y, out, 6), 6);
        assert_near(out[0], cases[c].row0, 1e-6);
        assert_near(out[1], 10 * cases[c].row0, 1e-6);
        assert_near(out[2], 0, 0); /* the empty row */
        assert_near(out[4], cases[c].row2, 1e-6);
        nn_end(&t);
    }
}

/* --- weights, regularizers, refusals ------------------------------------------------------------------------------ */

TEST(regularizers)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 1));

    assert_int_equal(est_losses(t.graph).n, 0);
    (void)est_dense(x, 3,
                    EST_DENSE(.kernel_initializer = est_init_constant(-2),
                              .kernel_regularizer = est_l2_regularizer(0.1),
                              .bias_regularizer   = est_l1_regularizer(1)));
    (void)est_dense(
        x, 1,
        EST_DENSE(.kernel_initializer = est_init_constant(-2), .kernel_regularizer = est_l1_l2_regularizer(0.5, 0.25)));
    est_node loss = est_regularization_loss(t.graph);
    assert_int_equal(est_losses(t.graph).n, 3);
    nn_ready(&t);
    assert_near(nn_scalar(&t, loss), 0.1 * 6 * 4 + 0 + 0.5 * 2 * 2 + 0.25 * 2 * 4, 1e-6);
    nn_end(&t);
}

TEST(frozen_and_scopes)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 1)), w;

    (void)est_dense(x, 3, EST_DENSE(.frozen = true));
    assert_int_equal(est_trainable_variables(t.graph).n, 0);
    assert_int_equal(est_global_variables(t.graph).n, 2);
    est_scope_push(t.graph, "dnn");
    w = est_weight(t.graph, "w", EST_SHAPE(3), EST_WEIGHT(.initializer = est_init_ones()));
    est_scope_pop(t.graph);
    assert_string_equal(est_node_name(w), "dnn/w");
    assert_string_equal(est_node_name(est_global_step(t.graph)), "global_step");
    assert_int_equal(est_global_step(t.graph).id, est_global_step(t.graph).id);
    nn_ready(&t);
    nn_end(&t);
}

/* The graph must be poisoned with a text that says `words`. */
static void check_refused(nn_test *t, const char *words)
{
    assert_int_equal(est_graph_status(t->graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), words) == NULL) fail_msg("\"%s\" does not say \"%s\"", est_error_message(), words);
    nn_end(t);
}

TEST(refusals)
{
    est_dense_options no_size = { .name = "x" };
    nn_test           t       = nn_begin(1);

    (void)est_dense(nn_const(t.graph, EST_SHAPE(1, 1), NN_VALUES(1)), 2, &no_size);
    check_refused(&t, "EST_DENSE");

    t = nn_begin(1);
    (void)est_dense(est_const_i64(t.graph, EST_SHAPE(1, 1), (const int64_t[]){ 1 }), 2, NULL);
    check_refused(&t, "int64");

    t = nn_begin(1);
    (void)est_dense(est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2, -1)), 2, NULL);
    check_refused(&t, "[2,?]");

    t = nn_begin(1);
    (void)est_dense(nn_const(t.graph, EST_SHAPE(1, 1), NN_VALUES(1)), 0, NULL);
    check_refused(&t, "0 units");

    t = nn_begin(1);
    (void)est_dropout_layer(nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)), 1, true);
    check_refused(&t, "rate of 1");
}
