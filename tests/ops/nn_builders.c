/* SPDX-License-Identifier: Apache-2.0
 *
 * Builders that do more than add their op: other axes, other ranks, the lowered form, and unknown batch sizes with
 * gradients through them. */
#include <math.h>

#include "ops/ops.h"
#include "support/graph_test.h"

static const float numbers[] = { 0.5f, -1.0f, 2.0f, 0.25f, 1.5f, -0.75f, 3.0f, -2.0f, 0.0f, 1.0f, -0.5f, 0.125f };

/* Runs both and compares; gives back nothing. */
static void check_same(est_node got, est_node expected, double tolerance)
{
    est_tensor *a = test_run(got, EST_NO_FEEDS), *b = test_run(expected, EST_NO_FEEDS);
    char        at[EST_SHAPE_TEXT_MAX], bt[EST_SHAPE_TEXT_MAX];

    if (a != NULL && b != NULL) {
        CHECK(est_shape_equal(est_tensor_shape(a), est_tensor_shape(b)), "%s is %s, not %s", est_node_name(got),
              est_shape_text(est_tensor_shape(a), at), est_shape_text(est_tensor_shape(b), bt));
        for (int64_t i = 0; i < est_tensor_count(a) && i < est_tensor_count(b); i++) {
            double x = ((const float *)est_tensor_data(a))[i], y = ((const float *)est_tensor_data(b))[i];
            CHECK(fabs(x - y) <= tolerance * fmax(1, fabs(y)), "%s: element %d is %g, not %g", est_node_name(got),
                  (int)i, x, y);
        }
    }
    est_tensor_free(a);
    est_tensor_free(b);
}

static void test_softmax_axis(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_const_f32(graph, EST_SHAPE(2, 3, 2), numbers);

    check_same(est_softmax(x, 1), est_div(est_exp(x), est_reduce_sum(est_exp(x), EST_I64S(1), true)), 1e-6);
    check_same(est_softmax_last(x), est_softmax(x, -1), 0);
    check_same(est_log_softmax(x, -2), est_log(est_softmax(x, 1)), 1e-6);
    est_graph_free(graph);
}

/* Three axes of logits: one loss for each leading index. */
static void test_cross_entropy_ranks(void)
{
    static const int64_t class_of[] = { 1, 0, 0, 1, 1, 0 };
    est_graph           *graph      = test_graph();
    est_node             x          = est_const_f32(graph, EST_SHAPE(2, 3, 2), numbers);
    est_node             labels     = est_const_i64(graph, EST_SHAPE(2, 3), class_of);
    est_node             hot        = est_one_hot(labels, 2, 1, 0, -1);
    est_node             expected = est_neg(est_reduce_sum(est_mul(hot, est_log_softmax(x, -1)), EST_I64S(-1), false));

    check_same(est_sparse_softmax_xent(x, labels), expected, 1e-6);
    check_same(est_softmax_xent(x, hot), expected, 1e-6);
    check_same(
        est_softmax_xent(est_reshape(x, EST_I64S(12)), est_one_hot(est_scalar(graph, EST_I64, 3), 12, 1, 0, -1)),
        est_neg(est_reshape(est_slice(est_log_softmax(est_reshape(x, EST_I64S(12)), 0), EST_I64S(3), EST_I64S(1)),
                            EST_ALL_AXES)),
        1e-6);
    est_graph_free(graph);
}

static void test_sigmoid_lowered(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_const_f32(graph, EST_SHAPE(3, 4), numbers);
    est_node   in[2] = { x, est_sigmoid(x) };
    est_node   loss  = est_sigmoid_xent(in[0], in[1]);

    est_node lowered = EST_NO_NODE;
    est_op_sigmoid_xent.lower(est_def(loss), graph, in, &lowered);
    check_same(loss, lowered, 1e-6);
    est_graph_free(graph);
}

/* A matrix is normalised as images of one pixel. */
static void test_batch_norm_of_matrix(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_const_f32(graph, EST_SHAPE(4, 3), numbers);
    est_node   scale = est_const_f32(graph, EST_SHAPE(3), numbers),
             offset  = est_const_f32(graph, EST_SHAPE(3), numbers + 3);
    est_node zero    = est_zeros_like(scale), out[3], mean, variance;

    est_fused_batch_norm(x, scale, offset, zero, zero, 0.01, true, out);
    mean     = est_reduce_mean(x, EST_I64S(0), false);
    variance = est_reduce_mean(est_squared_difference(x, mean), EST_I64S(0), false);
    check_same(out[0], est_add(est_mul(est_mul(est_sub(x, mean), est_rsqrt(est_shift(variance, 0.01))), scale), offset),
               1e-5);
    check_same(out[1], mean, 1e-6);
    check_same(out[2], est_scale(variance, 4.0 / 3.0), 1e-6);
    est_graph_free(graph);
}

/* Convolution, pooling and bias over a batch whose size is not known, with gradients; twice, the second time larger. */
static void test_unknown_batch(void)
{
    est_graph   *graph  = test_graph();
    est_node     x      = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 6, 6, 2));
    est_node     filter = est_variable(graph, "filter", EST_F32, EST_SHAPE(3, 3, 2, 8));
    est_node     bias   = est_variable(graph, "bias", EST_F32, EST_SHAPE(8));
    est_node     y, wrt[3] = { x, filter, bias };
    est_gradient grad[3];
    est_session *session = NULL;

    est_variable_initializer(filter, est_scale(est_ones_like(est_read_variable(filter)), 0.5));
    est_variable_initializer(bias, est_zeros_like(est_read_variable(bias)));
    y = est_bias_add(est_conv2d(x, est_read_variable(filter), 1, 1, EST_SAME), est_read_variable(bias));
    y = est_max_pool(est_avg_pool(y, 2, 2, 1, 1, EST_SAME), 2, 2, 2, 2, EST_VALID);
    CHECK(est_node_dim(y, 0) == -1 && est_node_dim(y, 1) == 3 && est_node_dim(y, 3) == 8);
    est_gradients(est_sum(y), (est_nodes){ wrt, 3 }, grad);
    CHECK(est_node_dim(grad[0].values, 1) == 6 && est_node_dim(grad[0].values, 3) == 2);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(est_session_create(graph, EST_SESSION(.threads = 2), &session) == EST_OK, "%s", est_error_message());
    for (int batch = 3; session != NULL && batch <= 7; batch += 4) {
        est_tensor *images = NULL, *out[3] = { NULL, NULL, NULL }, *ones = NULL;
        CHECK(est_tensor_create(EST_F32, EST_SHAPE(batch, 6, 6, 2), &images) == EST_OK);
        for (int64_t i = 0; i < est_tensor_count(images); i++)
            ((float *)est_tensor_mutable_data(images))[i] = numbers[i % 12];
        CHECK(est_tensor_create(EST_F32, EST_SHAPE(3, 3, 2, 8), &ones) == EST_OK);
        for (int i = 0; i < 144; i++) ((float *)est_tensor_mutable_data(ones))[i] = numbers[i % 11];
        CHECK(est_session_write(session, "filter", ones) == EST_OK, "%s", est_error_message());
        est_tensor_free(ones);
        CHECK(est_tensor_create(EST_F32, EST_SHAPE(8), &ones) == EST_OK);
        memset(est_tensor_mutable_data(ones), 0, 8 * sizeof(float));
        CHECK(est_session_write(session, "bias", ones) == EST_OK, "%s", est_error_message());
        CHECK(est_session_run(session, EST_FEEDS({ x, images }),
                              EST_NODES(grad[0].values, grad[1].values, grad[2].values), (est_nodes){ 0 },
                              out) == EST_OK,
              "%s", est_error_message());
        for (int i = 0; i < 8 && out[2] != NULL; i++) { /* each of the 9 windows passes its whole gradient on */
            CHECK(fabs(((const float *)est_tensor_data(out[2]))[i] - 9.0 * batch) < 1e-4);
        }
        CHECK(out[0] != NULL && est_tensor_shape(out[0])->dim[0] == batch);
        for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
        est_tensor_free(images);
        est_tensor_free(ones);
    }
    est_session_free(session);
    est_graph_free(graph);
}

/* The sum of y conv(x) is that of conv_transpose(y) x, for all x and y. */
static void test_conv2d_transpose(void)
{
    est_graph *graph  = test_graph();
    est_node   x      = est_const_f32(graph, EST_SHAPE(1, 4, 3, 1), numbers);
    est_node   filter = est_const_f32(graph, EST_SHAPE(2, 2, 1, 2), numbers + 3);
    est_node   y      = est_const_f32(graph, EST_SHAPE(1, 2, 2, 2), numbers + 1);
    est_node   back   = est_conv2d_transpose(y, filter, est_shape_of(x), 2, 2, EST_SAME);

    check_same(est_sum(est_mul(x, back)), est_sum(est_mul(y, est_conv2d(x, filter, 2, 2, EST_SAME))), 1e-6);
    est_graph_free(graph);
}

int main(void)
{
    test_softmax_axis();
    test_cross_entropy_ranks();
    test_sigmoid_lowered();
    test_batch_norm_of_matrix();
    test_unknown_batch();
    test_conv2d_transpose();
    return graph_test_failures != 0;
}
