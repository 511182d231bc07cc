/* SPDX-License-Identifier: Apache-2.0
 *
 * Edges of the nn layer where TensorFlow has an opinion: shapes that must agree, empty batches, mixed dtypes, names of
 * second slots, names that are taken. */
#include "support/nn_test.h"

TEST(labels_and_predictions_have_one_shape)
{
    est_graph *g = NULL;

    assert_ok(est_graph_create(1, &g));
    est_node labels      = est_placeholder(g, "labels", EST_F32, EST_SHAPE(-1));
    est_node predictions = est_placeholder(g, "predictions", EST_F32, EST_SHAPE(-1, 3));
    (void)est_loss_mse(labels, predictions, NULL);
    assert_int_equal(est_graph_status(g), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "one shape"));
    est_graph_free(g);
}

TEST(smoothing_needs_the_classes)
{
    est_graph *g = NULL;

    assert_ok(est_graph_create(1, &g));
    est_node labels = est_placeholder(g, "labels", EST_F32, EST_SHAPE(-1, -1));
    est_node logits = est_placeholder(g, "logits", EST_F32, EST_SHAPE(-1, -1));
    (void)est_loss_softmax_xent(labels, logits, EST_LOSS(.label_smoothing = 0.1));
    assert_int_equal(est_graph_status(g), EST_INVALID_ARGUMENT);
    est_graph_free(g);
}

TEST(the_loss_of_nothing_is_zero)
{
    nn_test  t     = nn_begin(1);
    est_node empty = nn_const(t.graph, EST_SHAPE(0, 2), NN_VALUES(0));
    est_node loss  = est_loss_mse(empty, empty, NULL);

    nn_ready(&t);
    assert_near(nn_scalar(&t, loss), 0, 0);
    nn_end(&t);
}

/* Predictions are brought to the labels' dtype: 0.2, 0.7, 1.4 and 0.9 are the classes 0, 0, 1 and 0. */
TEST(accuracy_of_float_predictions)
{
    nn_test    t      = nn_begin(1);
    est_node   labels = est_const_i64(t.graph, EST_SHAPE(4), (const int64_t[]){ 0, 0, 1, 1 });
    est_metric m = est_metric_accuracy(labels, nn_const(t.graph, EST_SHAPE(4), NN_VALUES(0.2, 0.7, 1.4, 0.9)), NULL);

    nn_ready(&t);
    nn_run(&t, m.update);
    assert_near(nn_scalar(&t, m.value), 0.75, 1e-7);
    nn_end(&t);
}

TEST(slots_of_a_second_optimizer)
{
    static const char *const names[] = { "w/Adam", "w/Adam_1", "w/Adam_2", "w/Adam_3", "beta1_power", "beta1_power_1" };
    nn_test                  t       = nn_begin(1);
    double                   value[4];

    est_node w    = est_weight(t.graph, "w", EST_SHAPE(2), NULL);
    est_node loss = est_sum(est_square(est_read_variable(w)));
    (void)est_minimize(est_adam(0.1, NULL), loss, NULL);
    (void)est_minimize(est_adam(0.1, NULL), loss, NULL);
    nn_ready(&t);
    for (int i = 0; i < 6; i++) assert_true(nn_read(&t, names[i], value, 4) > 0);
    nn_end(&t);
}

TEST(a_taken_name_is_not_shared)
{
    nn_test t = nn_begin(1);
    double  value[1];

    est_node step  = est_global_step(t.graph);
    est_node other = est_variable(t.graph, "global_step", EST_I64, EST_SHAPE_SCALAR);
    est_variable_initializer(other, est_scalar(t.graph, EST_I64, 0));
    est_node add = est_assign_add(other, est_scalar(t.graph, EST_I64, 5));
    nn_ready(&t);
    nn_run(&t, add);
    assert_string_not_equal(est_node_name(step), est_node_name(other));
    assert_int_equal(nn_read(&t, "global_step", value, 1), 1);
    assert_near(value[0], 0, 0);
    nn_end(&t);
}

TEST(schedules_decay_over_some_steps)
{
    est_graph *g = NULL;

    assert_ok(est_graph_create(1, &g));
    (void)est_learning_rate(est_exponential_decay(0.1, 0, 0.5, false), est_scalar(g, EST_I64, 3));
    assert_int_equal(est_graph_status(g), EST_INVALID_ARGUMENT);
    est_graph_free(g);
}

/* Rows with one id count together: their sum is 2, which a norm of 1 halves. */
TEST(clipping_sums_rows_first)
{
    nn_test t = nn_begin(1);
    double  value[3];

    est_node w    = est_weight(t.graph, "w", EST_SHAPE(3, 1), EST_WEIGHT(.initializer = est_init_zeros()));
    est_node ids  = est_const_i64(t.graph, EST_SHAPE(2), (const int64_t[]){ 1, 1 });
    est_node loss = est_sum(est_resource_gather(w, ids));
    est_node op   = est_minimize(est_sgd(1), loss, EST_MINIMIZE(.clip_norm = 1));
    nn_ready(&t);
    nn_run(&t, op);
    assert_int_equal(nn_read(&t, "w", value, 3), 3);
    assert_near(value[0], 0, 0);
    assert_near(value[1], -1, 1e-6);
    nn_end(&t);
}

/* Here we refuse what TensorFlow takes: nobody means to climb, and a NaN is a mistake of the program. */
TEST(learning_rates_that_cannot_be)
{
    static const double rates[] = { -0.1, NAN, INFINITY };
    char                text[64];

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        nn_test  t = nn_begin(1);
        est_node w = est_weight(t.graph, "w", EST_SHAPE(1), NULL);

        (void)est_minimize(est_adam(rates[i], NULL), est_sum(est_read_variable(w)), NULL);
        assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
        snprintf(text, sizeof text, "Adam: the learning rate is %g; give a number above 0", rates[i]);
        assert_non_null(strstr(est_error_message(), text));
        nn_end(&t);
    }
}
