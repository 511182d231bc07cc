/* SPDX-License-Identifier: Apache-2.0
 *
 * fit under strategies of one process: n replicas with a batch b are one with n b, however the rows divide. */
#include "network/network_test.h"

static est_node model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4, EST_DENSE(.activation = est_relu));

    (void)graph, (void)training, (void)user;
    return est_dense(x, 1, EST_DENSE(.kernel_regularizer = est_l2_regularizer(0.01)));
}

typedef struct result {
    est_network *network;
    est_history *history;
} result;

static result train(const est_strategy *strategy, const char *optimizer, int64_t rows, int64_t batch, bool whole)
{
    est_tensor  *x, *y, *w;
    float       *ws;
    result       r;
    est_dataset *d;

    x = noise(rows, 3, 1);
    y = noise(rows, 1, 2);
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows), &w));
    ws = est_tensor_mutable_data(w);
    for (int64_t i = 0; i < rows; i++) {
        ws[i] = i % 2 == 0 ? 1 : 0.5f;
        if (whole) { /* all sums are exact */
            for (int k = 0; k < 3; k++) ((float *)est_tensor_mutable_data(x))[3 * i + k] = (float)((i + k) % 3);
            ((float *)est_tensor_mutable_data(y))[i] = (float)(i % 4);
        }
    }
    d = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w }), batch);
    if (whole) {
        r.network = make_line(
            EST_NETWORK(.strategy = strategy, .seed = 3, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })),
            EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = 0.125));
    } else {
        assert_ok(est_network_create(model, EST_NETWORK(.strategy = strategy, .seed = 3), &r.network));
        assert_ok(est_network_compile(r.network,
                                      EST_COMPILE(.loss = "mse", .optimizer = optimizer, .metrics = EST_STRINGS("mae"),
                                                  .weighted_metrics = EST_STRINGS("mse"))));
    }
    assert_ok(est_network_fit(r.network, EST_FIT(.input = d, .epochs = whole ? 1 : 3, .verbose = EST_VERBOSE_NONE),
                              &r.history));
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
    return r;
}

static void forget(result r)
{
    est_history_free(r.history);
    est_network_free(r.network);
}

static void expect_near(result a, result b, double tolerance)
{
    est_tensor *x, *y;

    assert_int_equal(est_history_count(a.history), est_history_count(b.history));
    for (int k = 0; k < est_history_count(a.history); k++) {
        const char *name = est_history_name(a.history, k);

        for (int i = 0; i < est_history_epochs(a.history); i++) {
            assert_near(est_history_value(a.history, name, i), est_history_value(b.history, name, i), tolerance);
        }
    }
    assert_ok(est_session_read(est_network_session(a.network), "dense/kernel", &x));
    assert_ok(est_session_read(est_network_session(b.network), "dense/kernel", &y));
    for (int64_t i = 0; i < est_tensor_count(x); i++) {
        assert_near((double)((const float *)est_tensor_data(x))[i], (double)((const float *)est_tensor_data(y))[i],
                    tolerance);
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

static est_strategy *mirrored(int replicas)
{
    est_strategy *s;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = replicas), &s));
    return s;
}

/* 40 rows in batches of 16, 16 and 8 for 2, 3 and 4 replicas; batches of 7, and a last one of 1 row, which leaves
 * replicas without any. */
TEST(divides)
{
    static const struct {
        int     replicas;
        int64_t rows, batch;
    } cases[] = { { 2, 40, 16 }, { 3, 40, 16 }, { 4, 40, 16 }, { 3, 22, 7 }, { 4, 9, 2 } };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_strategy *s    = mirrored(cases[i].replicas);
        result        one  = train(NULL, "adam", cases[i].rows, cases[i].batch, false);
        result        many = train(s, "adam", cases[i].rows, cases[i].batch, false);

        expect_near(one, many, 2e-6);
        forget(one);
        forget(many);
        est_strategy_free(s);
    }
}

/* Epochs of 3 steps over passes of 4, whose last batch is short: replicas see the batches that one process sees, in the
 * order of the pass. A dataset that is repeated is the same. */
TEST(passes)
{
    est_tensor       *x = noise(22, 3, 1), *y = noise(22, 1, 2);
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_strategy     *two    = mirrored(2);
    result            r[2];

    for (int dataset = 0; dataset < 2; dataset++) {
        for (int i = 0; i < 2; i++) {
            est_dataset *d = NULL;

            r[i].network = make_line(EST_NETWORK(.strategy = i == 0 ? NULL : two, .seed = 3),
                                     EST_COMPILE(.loss = "mse", .optimizer = "adam"));
            if (dataset == 1) {
                d = est_dataset_batch(est_dataset_slices(arrays), 7, NULL);
                assert_ok(est_dataset_finish(est_dataset_repeat(d, EST_FOREVER), &d));
            }
            assert_ok(est_network_fit(r[i].network,
                                      EST_FIT(.arrays = dataset == 1 ? (est_named_tensors){ 0 } : arrays, .input = d,
                                              .batch_size = dataset == 1 ? 0 : 7, .epochs = 3, .steps_per_epoch = 3,
                                              .verbose = EST_VERBOSE_NONE),
                                      &r[i].history));
            est_dataset_free(d);
        }
        expect_near(r[0], r[1], 2e-6);
        forget(r[0]);
        forget(r[1]);
    }
    est_strategy_free(two);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Where all sums are exact the variables are the same bit for bit. */
TEST(bit_for_bit)
{
    est_strategy *two = mirrored(2), *four = mirrored(4), *central, *device;
    result        one, other;

    assert_ok(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2), &central));
    assert_ok(est_one_device_strategy("/cpu:0", &device));
    one = train(NULL, "sgd", 32, 16, true);
    {
        const est_strategy *all[] = { two, four, central, device };

        for (int i = 0; i < 4; i++) {
            other = train(all[i], "sgd", 32, 16, true);
            expect_same_variable(one.network, other.network, "dense/kernel");
            expect_same_variable(one.network, other.network, "dense/bias");
            assert_true(est_history_value(one.history, "loss", 0) == est_history_value(other.history, "loss", 0));
            forget(other);
        }
    }
    forget(one);
    est_strategy_free(two);
    est_strategy_free(four);
    est_strategy_free(central);
    est_strategy_free(device);
}

/* Weights of classes, in steps whose rows do not divide, and one of which leaves a replica without any. */
TEST(class_weights)
{
    est_strategy *s[3];
    est_tensor   *x          = noise(9, 3, 1), *y;
    int64_t       classes[9] = { 0, 1, 2, 1, 0, 2, 2, 1, 0 };
    est_network  *network[4] = { NULL };
    est_history  *histories[4];

    s[0] = mirrored(2);
    s[1] = mirrored(3);
    assert_ok(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2), &s[2]));
    assert_ok(est_tensor_i64(EST_SHAPE(9), classes, &y));
    for (int i = 0; i < 4; i++) {
        assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, EST_DENSE(.activation = est_softmax_last))),
                                         EST_NETWORK(.seed = 3, .strategy = i > 0 ? s[i - 1] : NULL), &network[i]));
        assert_ok(est_network_compile(network[i], EST_COMPILE(.loss             = "sparse_categorical_crossentropy",
                                                              .weighted_metrics = EST_STRINGS("accuracy"))));
        assert_ok(
            est_network_fit(network[i],
                            EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .batch_size = 4, .epochs = 2,
                                    .class_weight = EST_F64S(0.5, 2, 1.25), .verbose = EST_VERBOSE_NONE),
                            &histories[i]));
        for (int k = 0; k < 2; k++) {
            assert_near(est_history_value(histories[i], "loss", k), est_history_value(histories[0], "loss", k), 2e-6);
            assert_near(est_history_value(histories[i], "accuracy", k), est_history_value(histories[0], "accuracy", k),
                        2e-6);
        }
        for (int k = 0; k < 9; k++) {
            assert_near(variable_at(network[i], "dense/kernel", k), variable_at(network[0], "dense/kernel", k), 2e-6);
        }
    }
    for (int i = 0; i < 4; i++) {
        est_history_free(histories[i]);
        est_network_free(network[i]);
        if (i > 0) est_strategy_free(s[i - 1]);
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Steps with batches of the caller's, which replicas divide: 5 rows, and 1, which leaves replicas without any. */
TEST(on_batch)
{
    est_strategy *s[3];
    est_tensor   *x[2] = { noise(5, 3, 1), noise(1, 3, 3) }, *y[2] = { noise(5, 1, 2), noise(1, 1, 4) };
    double        want[3][2], have[3][2];
    est_tensor   *p, *q;

    s[0] = mirrored(2);
    s[1] = mirrored(3);
    assert_ok(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2), &s[2]));
    for (int i = 0; i < 3; i++) {
        const est_compile_options *compile = EST_COMPILE(.loss = "mse", .optimizer = "adam",
                                                         .metrics = EST_STRINGS("mae"));
        est_network               *one     = make_line(EST_NETWORK(.seed = 1), compile);
        est_network               *many    = make_line(EST_NETWORK(.seed = 1, .strategy = s[i]), compile);

        for (int k = 0; k < 2; k++) {
            est_named_tensors batch = EST_NAMED_TENSORS({ "x", x[k] }, { "y", y[k] });

            assert_ok(est_network_train_on_batch(one, batch, want[k]));
            assert_ok(est_network_train_on_batch(many, batch, have[k]));
        }
        assert_ok(est_network_test_on_batch(one, EST_NAMED_TENSORS({ "x", x[0] }, { "y", y[0] }), want[2]));
        assert_ok(est_network_test_on_batch(many, EST_NAMED_TENSORS({ "x", x[0] }, { "y", y[0] }), have[2]));
        for (int k = 0; k < 6; k++) assert_near(have[k / 2][k % 2], want[k / 2][k % 2], 2e-6);
        assert_ok(est_network_predict_on_batch(one, EST_NAMED_TENSORS({ "x", x[0] }), &p));
        assert_ok(est_network_predict_on_batch(many, EST_NAMED_TENSORS({ "x", x[0] }), &q));
        for (int k = 0; k < 5; k++) {
            assert_near((double)((const float *)est_tensor_data(q))[k], (double)((const float *)est_tensor_data(p))[k],
                        2e-6);
        }
        est_tensor_free(p);
        est_tensor_free(q);
        est_network_free(one);
        est_network_free(many);
        est_strategy_free(s[i]);
    }
    for (int k = 0; k < 2; k++) {
        est_tensor_free(x[k]);
        est_tensor_free(y[k]);
    }
}

/* Evaluation, prediction and a second fit with replicas; arrays, too. */
TEST(whole_life)
{
    est_strategy     *s = mirrored(2);
    est_tensor       *x = noise(10, 3, 1), *y = noise(10, 1, 2), *out;
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network *one  = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    est_network *many = make_line(EST_NETWORK(.seed = 1, .strategy = s),
                                  EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    est_metrics *a, *b;

    for (int i = 0; i < 2; i++) {
        est_network *network = i == 0 ? one : many;

        assert_ok(est_network_fit(network,
                                  EST_FIT(.arrays = arrays, .batch_size = 4, .epochs = 2, .validation_split = 0.2,
                                          .verbose = EST_VERBOSE_NONE),
                                  NULL));
        assert_ok(
            est_network_fit(network, EST_FIT(.arrays = arrays, .batch_size = 3, .verbose = EST_VERBOSE_NONE), NULL));
        assert_ok(est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = arrays), i == 0 ? &a : &b));
    }
    assert_near(est_metrics_get(a, "loss"), est_metrics_get(b, "loss"), 1e-6);
    assert_near(est_metrics_get(a, "mae"), est_metrics_get(b, "mae"), 1e-6);
    assert_ok(est_network_predict(many, EST_NETWORK_PREDICT(.arrays = arrays), &out));
    assert_int_equal(est_tensor_count(out), 10);
    est_tensor_free(out);
    est_metrics_free(a);
    est_metrics_free(b);
    est_network_free(one);
    est_network_free(many);
    est_strategy_free(s);
    est_tensor_free(x);
    est_tensor_free(y);
}
