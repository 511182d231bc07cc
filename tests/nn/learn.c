/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny models that must learn, whole: layers, loss, optimizer, session. */
#include "support/nn_test.h"

/* y = 3 x - 2 from 8 points by gradient descent. */
TEST(linear_regression)
{
    nn_test  t = nn_begin(1);
    double   xs[8], ys[8], w, b, steps;
    est_node loss, train;

    for (int i = 0; i < 8; i++) {
        xs[i] = i / 4.0 - 1;
        ys[i] = 3 * xs[i] - 2;
    }
    loss  = est_loss_mse(nn_const(t.graph, EST_SHAPE(8, 1), ys),
                         est_dense(nn_const(t.graph, EST_SHAPE(8, 1), xs), 1, NULL), NULL);
    train = est_minimize(est_sgd(0.5), loss, NULL);
    nn_ready(&t);
    for (int i = 0; i < 200; i++) nn_run(&t, train);
    assert_true(nn_scalar(&t, loss) < 1e-8);
    nn_read(&t, "dense/kernel", &w, 1);
    nn_read(&t, "dense/bias", &b, 1);
    nn_read(&t, "global_step", &steps, 1);
    assert_near(w, 3, 1e-4);
    assert_near(b, -2, 1e-4);
    assert_near(steps, 200, 0);
    nn_end(&t);
}

TEST(xor)
{
    const est_optimizer optimizers[] = { est_adam(0.05, NULL), est_momentum(0.2, NULL), est_rms_prop(0.01, NULL),
                                         est_adagrad(0.5, NULL), est_adam(0.05, EST_ADAM(.keras = true)) };

    for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
        nn_test    t      = nn_begin(4);
        est_node   x      = nn_const(t.graph, EST_SHAPE(4, 2), NN_VALUES(0, 0, 0, 1, 1, 0, 1, 1));
        est_node   y      = nn_const(t.graph, EST_SHAPE(4, 1), NN_VALUES(0, 1, 1, 0));
        est_node   logits = est_dense(est_dense(x, 8, EST_DENSE(.activation = est_tanh)), 1, NULL);
        est_node   loss   = est_loss_sigmoid_xent(y, logits, NULL);
        est_metric right  = est_metric_accuracy_at_threshold(y, est_sigmoid(logits), 0.5, NULL);
        est_node   train  = est_minimize(optimizers[o], loss, NULL);
        double     last;

        nn_ready(&t);
        for (int i = 0; i < 500; i++) nn_run(&t, train);
        last = nn_scalar(&t, loss);
        if (!(last < 0.05)) fail_msg("optimizer %d leaves a loss of %g", (int)o, last);
        nn_run(&t, right.update);
        assert_near(nn_scalar(&t, right.value), 1, 0);
        nn_end(&t);
    }
}

/* A word is told by the mean of the embeddings of its letters: sparse gradients through ragged rows. */
TEST(ragged_model)
{
    nn_test  t      = nn_begin(2);
    est_node ids    = est_const_i64(t.graph, EST_SHAPE(7), (const int64_t[]){ 0, 1, 1, 2, 3, 3, 4 });
    est_node splits = est_const_i64(t.graph, EST_SHAPE(5), (const int64_t[]){ 0, 2, 3, 5, 7 });
    est_node label  = est_const_i64(t.graph, EST_SHAPE(4), (const int64_t[]){ 0, 0, 1, 1 });
    est_node words  = est_embedding(ids, 100, 4, EST_EMBEDDING(.splits = splits));
    est_node loss   = est_loss_sparse_softmax_xent(label, est_dense(words, 2, NULL), NULL);
    est_node train  = est_minimize(est_adam(0.05, EST_ADAM(.lazy = true)), loss, NULL);
    double   before[400], after[400];

    nn_ready(&t);
    nn_read(&t, "embedding/embeddings", before, 400);
    for (int i = 0; i < 150; i++) nn_run(&t, train);
    nn_read(&t, "embedding/embeddings", after, 400);
    assert_true(nn_scalar(&t, loss) < 0.02);
    assert_true(memcmp(before, after, 4 * sizeof *before) != 0);
    assert_memory_equal(before + 20, after + 20, 380 * sizeof *before); /* ids 5 .. 99 never occur */
    nn_end(&t);
}

/* Batch norm and dropout in training; the moving averages follow because est_minimize runs the update ops. */
TEST(batch_norm_in_training)
{
    nn_test  t     = nn_begin(1);
    est_node x     = nn_const(t.graph, EST_SHAPE(4, 2), NN_VALUES(1, 10, 2, 20, 3, 30, 4, 40));
    est_node h     = est_dropout_layer(est_batch_norm(x, true, EST_BATCH_NORM(.momentum = 0.5)), 0.1, true);
    est_node y     = nn_const(t.graph, EST_SHAPE(4, 1), NN_VALUES(1, 2, 3, 4));
    est_node train = est_minimize(est_adam(0.01, NULL), est_loss_mse(y, est_dense(h, 1, NULL), NULL), NULL);
    double   mean[2];

    nn_ready(&t);
    for (int i = 0; i < 20; i++) nn_run(&t, train);
    nn_read(&t, "batch_normalization/moving_mean", mean, 2);
    assert_near(mean[0], 2.5, 1e-4);
    assert_near(mean[1], 25, 1e-4);
    nn_end(&t);
}
