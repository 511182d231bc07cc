/* SPDX-License-Identifier: Apache-2.0
 *
 * What fit shows of its progress, where no terminal is. */
#include "network/network_test.h"

static void fit_at(double rate, est_verbose verbose)
{
    est_tensor  *one     = floats(EST_SHAPE(8, 1), (const float[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
    est_network *network = make_line(
        NULL, EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = rate, .metrics = EST_STRINGS("mae")));
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", one }, { "y", one });

    log_keep(EST_LOG_INFO);
    assert_ok(est_network_fit(
        network,
        EST_FIT(.arrays = arrays, .batch_size = 2, .epochs = 2, .validation_arrays = arrays, .verbose = verbose),
        NULL));
    est_network_free(network);
    est_tensor_free(one);
}

static void fit(est_verbose verbose)
{
    fit_at(0, verbose);
}

/* Losses are 0.9216^k: the mean of k = 0 to 3 is 0.8884, of 4 to 7 0.6409; after 4 and 8 steps they are 0.7214 and
 * 0.5204. */
TEST(lines)
{
    fit(EST_VERBOSE_AUTO);
    assert_int_equal(log_count(EST_LOG_INFO, "*"), 4);
    assert_string_equal(log_line(0), "info Epoch 1/2");
    log_expect("4/4 - *s - loss: 0.8884 - mae: 0.9416 - val_loss: 0.7214 - val_mae: 0.8493 - *s/step");
    assert_string_equal(log_line(2), "info Epoch 2/2");
    log_expect("4/4 - *s - loss: 0.6409 - mae: 0.7997 - val_loss: 0.5204 - val_mae: 0.7214 - *s/step");
}

TEST(bar)
{
    fit(EST_VERBOSE_BAR);
    log_expect("4/4 [==============================] - *s *s/step - loss: 0.6409 - mae: 0.7997 - val_loss: 0.5204");
}

/* Without the sign that the difference of two infinities has on this machine. */
TEST(not_a_number)
{
    fit_at(1e30, EST_VERBOSE_LINES);
    log_expect("4/4 - *s - loss: nan - mae: nan - val_loss: nan - val_mae: nan - *s/step");
}

TEST(none)
{
    fit(EST_VERBOSE_NONE);
    assert_int_equal(log_count(EST_LOG_OFF, "*"), 0);
}
