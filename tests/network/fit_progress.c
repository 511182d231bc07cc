/* SPDX-License-Identifier: Apache-2.0
 *
 * What fit shows of its progress: lines where no terminal is, and the bar on one. */
#include "base/clock.h"
#include "network/network_test.h"
#include "support/terminal_test.h"

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

/* --- on a terminal ------------------------------------------------------------------------------------------------ */

static est_manual_clock hands;

/* A step takes a second. */
static est_status take_a_second(est_loop *loop, void *user)
{
    (void)loop, (void)user;
    est_manual_clock_advance(&hands, EST_NS_PER_SEC);
    return EST_OK;
}

/* Two epochs of 12 steps: of arrays, of which it is known, or of a dataset. */
static int fit_slowly(bool arrays)
{
    est_tensor       *one  = noise(12, 1, 1);
    est_named_tensors rows = EST_NAMED_TENSORS({ "x", one }, { "y", one });
    est_dataset      *d    = arrays ? NULL : batches(rows, 1);
    est_hook         *slow = est_lambda_callback(EST_LAMBDA_CALLBACK(.batch_begin = take_a_second));
    est_network      *network;
    est_status        status;

    est_manual_clock_init(&hands, 0, 0);
    est_clock_set(&hands.clock);
    network = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
    status  = est_network_fit(network,
                              EST_FIT(.arrays = arrays ? rows : (est_named_tensors){ 0 }, .input = d,
                                      .batch_size = arrays ? 1 : 0, .epochs = 2, .callbacks = EST_HOOKS(slow)),
                              NULL);
    est_network_free(network);
    est_hook_free(slow);
    est_dataset_free(d);
    est_tensor_free(one);
    return status == EST_OK ? 0 : 1;
}

static int fit_arrays(void)
{
    return fit_slowly(true);
}

static int fit_dataset(void)
{
    return fit_slowly(false);
}

/* As Keras draws it: steps, the bar, what is left, the logs; then the line of the epoch in its place. */
TEST(bar_on_a_terminal)
{
    on_terminal(120, fit_arrays);
    expect_on_screen("info Epoch 1/2\r\n");
    expect_on_screen("\r\033[K\033[2m 1/12 [=>............................] - ETA: 11s - loss: ");
    expect_on_screen("\r\033[K\033[2m10/12 [========================>.....] - ETA: 2s - loss: ");
    expect_on_screen("\r\033[K\033[2m12/12 [==============================] - loss: ");
    expect_on_screen("info 12/12 [==============================] - 12s 1s/step - loss: ");
    expect_on_screen("info Epoch 2/2\r\n");
    assert_string_equal(strrchr(screen, '\n'), "\n"); /* nothing is left behind the last line */
}

/* The length of a dataset is known after an epoch. */
TEST(length_of_a_dataset)
{
    on_terminal(120, fit_dataset);
    expect_on_screen("\r\033[K\033[2m     10/Unknown - 10s 1s/step - loss: ");
    expect_on_screen("info 12/12 [==============================] - 12s 1s/step - loss: ");
    expect_on_screen("\r\033[K\033[2m10/12 [========================>.....] - ETA: 2s - loss: ");
}
