/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixed precision: layers multiply numbers that are rounded to bfloat16, forwards and backwards, and nothing else is
 * rounded. Bits are compared with graphs that round by themselves. */
#include "estoc/predictor.h"
#include "estoc/saved_model.h"
#include "network/network_test.h"
#include "ops/ops.h"

#define ROWS 64

static int count_ops(const est_graph *graph, const est_op *op)
{
    int n = 0;

    for (int32_t i = 0; i < est_graph_size(graph); i++) n += est_graph_node(graph, i)->op == op;
    return n;
}

static void expect_same_nodes(nn_test *t, est_node a, est_node b)
{
    double  x[64], y[64];
    int64_t n = nn_fetch(t, a, x, 64);

    assert_int_equal(nn_fetch(t, b, y, 64), n);
    assert_true(n > 0 && n <= 64);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
}

/* Of rank 2, or of rank 3, which is a product of rows. */
static void check_dense(est_shape shape)
{
    nn_test      t = nn_begin(3);
    double       values[15];
    est_node     x, y, kernel, product, dy, dx, dk;
    est_gradient got[2];

    for (int i = 0; i < 15; i++) values[i] = sin(i);
    x = nn_const(t.graph, shape, values);
    (void)est_graph_precision(t.graph, EST_PRECISION_MIXED_BFLOAT16);
    y      = est_dense(x, 4, EST_DENSE(.no_bias = true));
    kernel = est_graph_find(t.graph, "dense/kernel");
    est_gradients(est_reduce_sum(est_square(est_reshape(y, EST_I64S(3, 4))), EST_I64S(0, 1), false),
                  EST_NODES(x, kernel), got);
    x = est_reshape(x, EST_I64S(3, 5));

    (void)est_graph_precision(t.graph, EST_PRECISION_FLOAT32);
    product = est_matmul(est_round_bfloat16(x), est_round_bfloat16(est_read_variable(kernel)));
    dy      = est_round_bfloat16(est_scale(product, 2));
    dx      = est_matmul_t(dy, est_round_bfloat16(est_read_variable(kernel)), false, true);
    dk      = est_matmul_t(est_round_bfloat16(x), dy, true, false);
    nn_ready(&t);
    expect_same_nodes(&t, y, product);
    expect_same_nodes(&t, got[0].values, dx);
    expect_same_nodes(&t, got[1].values, dk);
    nn_end(&t);
}

TEST(dense_is_a_product_of_rounded_numbers)
{
    check_dense(EST_SHAPE(3, 5));
    check_dense(EST_SHAPE(1, 3, 5));
}

/* Each layer that multiplies rounds both factors; in float32, and on float64, none does. */
static int roundings_of(est_layer *layer, est_precision precision, est_dtype dtype, est_shape shape, int n_in)
{
    nn_test  t    = nn_begin(1);
    est_node x    = est_placeholder(t.graph, "x", dtype, shape), y;
    est_node in[] = { x, x };
    int      n;

    (void)est_graph_precision(t.graph, precision);
    y = est_layer_call_with(layer, (est_nodes){ in, n_in }, NULL);
    assert_ok(est_graph_status(t.graph));
    assert_int_equal(est_node_dtype(y), dtype);
    n = count_ops(t.graph, &est_op_round_bfloat16);
    est_layer_free(layer);
    nn_end(&t);
    return n;
}

TEST(layers_that_multiply)
{
    const est_shape image = EST_SHAPE(2, 6, 6, 3), rows = EST_SHAPE(2, 4, 6);

    assert_int_equal(roundings_of(est_layer_dense(4, NULL), EST_PRECISION_FLOAT32, EST_F32, rows, 1), 0);
    assert_int_equal(roundings_of(est_layer_dense(4, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F64, rows, 1), 0);
    assert_int_equal(roundings_of(est_layer_dense(4, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, rows, 1), 2);
    assert_int_equal(roundings_of(est_layer_conv2d(4, 3, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, image, 1), 2);
    assert_int_equal(
        roundings_of(est_layer_depthwise_conv2d(2, 3, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, image, 1), 2);
    assert_int_equal(
        roundings_of(est_layer_separable_conv2d(4, 3, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, image, 1), 4);
    assert_int_equal(roundings_of(est_layer_attention(NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, rows, 2), 4);
    assert_int_equal(
        roundings_of(est_layer_multi_head_attention(2, 3, NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, rows, 2), 12);
    assert_int_equal(roundings_of(est_layer_batch_norm(NULL), EST_PRECISION_MIXED_BFLOAT16, EST_F32, rows, 1), 0);
}

static est_network *make(est_precision precision)
{
    est_network *network;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_conv2d(4, 3, EST_CONV2D(.activation = est_relu)),
                                                est_layer_batch_norm(NULL), est_layer_flatten(NULL),
                                                est_layer_dense(16, EST_DENSE(.activation = est_relu)),
                                                est_layer_dense(2, NULL)),
                                     EST_NETWORK(.seed = 1, .precision = precision), &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "sgd")));
    return network;
}

static est_tensor *images(void)
{
    est_tensor *flat = noise(ROWS, 36, 3), *image;

    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(ROWS, 6, 6, 1), est_tensor_data(flat), &image));
    est_tensor_free(flat);
    return image;
}

/* Rounding a factor changes it by at most 2^-9 of itself, so that losses differ by about that. Variables keep all
 * their bits. */
TEST(fit_agrees_with_float32)
{
    est_network *exact = make(EST_PRECISION_FLOAT32), *mixed = make(EST_PRECISION_MIXED_BFLOAT16);
    est_tensor  *image = images(), *y = noise(ROWS, 2, 4);
    int          fine = 0;

    for (int step = 0; step < 20; step++) {
        double a, b;

        assert_ok(est_network_train_on_batch(exact, EST_NAMED_TENSORS({ "image", image }, { "y", y }), &a));
        assert_ok(est_network_train_on_batch(mixed, EST_NAMED_TENSORS({ "image", image }, { "y", y }), &b));
        assert_true(a != b);
        if (!(fabs(a - b) <= 0x1p-7 * a)) fail_msg("step %d: loss %g in float32, %g in mixed precision", step, a, b);
    }
    for (int i = 0; i < 36; i++) {
        float    value = (float)variable_at(mixed, "conv2d/kernel", i);
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        fine += (bits & 0xffff) != 0;
    }
    assert_true(fine > 18);
    est_network_free(exact);
    est_network_free(mixed);
    est_tensor_free(image);
    est_tensor_free(y);
}

/* What is exported computes in float32, with the values that were trained. */
TEST(export_is_float32)
{
    est_network     *exact = make(EST_PRECISION_FLOAT32), *mixed = make(EST_PRECISION_MIXED_BFLOAT16);
    est_tensor      *image = images(), *y = noise(ROWS, 2, 4), *want, *rough, *got;
    est_saved_model *saved;
    est_predictor   *predictor;

    assert_ok(est_network_fit(
        mixed, EST_FIT(.arrays = EST_NAMED_TENSORS({ "image", image }, { "y", y }), .verbose = EST_VERBOSE_NONE),
        NULL));
    assert_ok(est_network_save(mixed, test_path("mixed")));
    assert_ok(est_network_save_weights(mixed, test_path("weights")));
    assert_ok(est_network_predict_on_batch(exact, EST_NAMED_TENSORS({ "image", image }), &want));
    est_tensor_free(want);
    assert_ok(est_network_load_weights(exact, test_path("weights"), NULL));
    assert_ok(est_network_predict_on_batch(exact, EST_NAMED_TENSORS({ "image", image }), &want));
    assert_ok(est_network_predict_on_batch(mixed, EST_NAMED_TENSORS({ "image", image }), &rough));
    assert_ok(est_saved_model_load(test_path("mixed"), NULL, &saved));
    assert_ok(est_predictor_create(saved, NULL, NULL, &predictor));
    assert_ok(est_predictor_run(predictor, EST_NAMED_TENSORS({ "image", image }), &got));
    for (int i = 0; i < ROWS * 2; i++) assert_near(nn_element(got, i), nn_element(want, i), 1e-6);
    assert_memory_not_equal(est_tensor_data(rough), est_tensor_data(want), est_tensor_bytes(want));
    est_predictor_free(predictor);
    est_saved_model_free(saved);
    est_tensor_free(got);
    est_tensor_free(want);
    est_tensor_free(rough);
    est_tensor_free(image);
    est_tensor_free(y);
    est_network_free(exact);
    est_network_free(mixed);
}

TEST(unknown_precision)
{
    est_network *network;
    est_tensor  *image = images(), *y;
    est_graph   *graph;

    assert_ok(est_graph_create(1, &graph));
    (void)est_graph_precision(NULL, EST_PRECISION_MIXED_BFLOAT16);
    (void)est_graph_precision(graph, (est_precision)7);
    expect_error(est_graph_status(graph), EST_INVALID_ARGUMENT, "no precision 7");
    est_graph_free(graph);
    network = make((est_precision)7);
    expect_error(est_network_predict_on_batch(network, EST_NAMED_TENSORS({ "image", image }), &y), EST_INVALID_ARGUMENT,
                 "no precision 7");
    est_network_free(network);
    est_tensor_free(image);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
