/* SPDX-License-Identifier: Apache-2.0
 *
 * fit: numbers worked out by hand, a loop of the test's own bit for bit, inputs, validation, weights, and wrong use. */
#include "network/network_test.h"

/* --- by hand ------------------------------------------------------------------------------------------------------ */

/* Dense(1) from 0 on x = 1, y = 1, with sgd 0.01: the error is multiplied by 1 - 2 * 2 * 0.01 in each step. */
TEST(ones)
{
    est_tensor  *one = floats(EST_SHAPE(1, 1), (const float[]){ 1 });
    est_dataset *d;
    est_network *network = make_line(NULL,
                                     EST_COMPILE(.loss = "mse", .optimizer = "sgd", .metrics = EST_STRINGS("mae")));
    est_history *history;
    double       error = 1;

    d = est_dataset_repeat(est_dataset_slices(EST_NAMED_TENSORS({ "x", one }, { "y", one })), 100);
    assert_ok(est_dataset_finish(est_dataset_batch(d, 10, NULL), &d));
    assert_ok(est_network_fit(network, EST_FIT(.input = d, .epochs = 3, .verbose = EST_VERBOSE_NONE), &history));
    assert_int_equal(est_history_epochs(history), 3);
    assert_int_equal(est_history_count(history), 2);
    assert_string_equal(est_history_name(history, 0), "loss");
    assert_string_equal(est_history_name(history, 1), "mae");
    for (int epoch = 0; epoch < 3; epoch++) {
        double loss = 0, mae = 0;

        for (int step = 0; step < 10; step++) {
            loss += error * error / 10;
            mae += error / 10;
            error *= 0.96;
        }
        assert_near(est_history_value(history, "loss", epoch), loss, 1e-6);
        assert_near(est_history_value(history, "mae", epoch), mae, 1e-6);
        assert_int_equal(est_history_epoch(history, epoch), epoch);
    }
    assert_near(variable_at(network, "dense/kernel", 0), (1 - error) / 2, 1e-6);
    assert_near(variable_at(network, "dense/bias", 0), (1 - error) / 2, 1e-6);
    est_history_free(history);
    est_network_free(network);
    est_dataset_free(d);
    est_tensor_free(one);
}

/* --- a loop of one's own ------------------------------------------------------------------------------------------ */

#define ROWS  64
#define WIDTH 5

/* The losses of 2 epochs with est_minimize, as fit has them: means over the batches of an epoch. */
static void train_by_hand(const est_tensor *x, const est_tensor *y, int64_t batch, double losses[2],
                          est_tensor **kernel)
{
    est_graph   *graph;
    est_session *session;
    est_step    *step;
    est_node     in, label, out, loss, train;
    est_tensor  *xs, *ys;

    assert_ok(est_graph_create(7, &graph));
    in    = est_placeholder(graph, "in", EST_F32, EST_SHAPE(-1, WIDTH));
    label = est_placeholder(graph, "label", EST_F32, EST_SHAPE(-1, 1));
    out   = est_dense(est_dense(in, 4, EST_DENSE(.activation = est_tanh)), 1, NULL);
    loss  = est_mean(est_squared_difference(out, label));
    train = est_minimize(est_adam(0, EST_ADAM(.keras = true)), loss, NULL);
    assert_ok(est_session_create(graph, NULL, &session));
    assert_ok(est_session_init(session));
    assert_ok(est_session_prepare(session, EST_NODES(in, label), EST_NODES(loss), EST_NODES(train), &step));
    for (int epoch = 0; epoch < 2; epoch++) {
        float sum = 0;

        for (int64_t i = 0; i < ROWS; i += batch) {
            xs = floats(EST_SHAPE(batch, WIDTH), (const float *)est_tensor_data(x) + i * WIDTH);
            ys = floats(EST_SHAPE(batch, 1), (const float *)est_tensor_data(y) + i);
            assert_ok(est_step_run(step, (const est_tensor *[]){ xs, ys }));
            sum += (float)est_step_scalar(step, 0) * (float)batch;
            est_tensor_free(xs);
            est_tensor_free(ys);
        }
        losses[epoch] = (double)(sum / ROWS);
    }
    assert_ok(est_session_read(session, "dense/kernel", kernel));
    est_session_free(session);
    est_graph_free(graph);
}

static est_node two_layers(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)training, (void)user;
    return est_dense(est_dense(est_network_input_node(inputs, "x"), 4, EST_DENSE(.activation = est_tanh)), 1, NULL);
}

typedef struct two_dense {
    est_network_class class;
    est_layer *a, *b;
    int        builds;
} two_dense;

static est_status two_build(est_network_class *class, est_graph *graph, est_features inputs)
{
    two_dense *own = EST_CONTAINER_OF(class, two_dense, class);

    (void)graph;
    assert_int_equal(est_node_dim(est_network_input_node(inputs, "x"), -1), WIDTH);
    own->builds++;
    own->a = est_layer_dense(4, EST_DENSE(.activation = est_tanh));
    own->b = est_layer_dense(1, NULL);
    return EST_OK;
}

static est_node two_call(est_network_class *class, est_graph *graph, est_features inputs, bool training)
{
    two_dense *own = EST_CONTAINER_OF(class, two_dense, class);

    (void)graph;
    return est_layer_call(own->b, est_layer_call(own->a, est_network_input_node(inputs, "x"), training), training);
}

static void two_free(est_network_class *class)
{
    two_dense *own = EST_CONTAINER_OF(class, two_dense, class);

    est_layer_free(own->a);
    est_layer_free(own->b);
}

static void expect_by_hand(est_network *network, const est_tensor *x, const est_tensor *y, const est_dataset *d)
{
    est_history *history;
    est_tensor  *want, *have;
    double       losses[2];

    train_by_hand(x, y, 8, losses, &want);
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam")));
    assert_ok(est_network_fit(network, EST_FIT(.input = d, .epochs = 2, .verbose = EST_VERBOSE_NONE), &history));
    for (int i = 0; i < 2; i++) assert_true(est_history_value(history, "loss", i) == losses[i]);
    assert_ok(est_session_read(est_network_session(network), "dense/kernel", &have));
    assert_memory_equal(est_tensor_data(have), est_tensor_data(want), est_tensor_bytes(want));
    est_tensor_free(have);
    est_tensor_free(want);
    est_history_free(history);
    est_network_free(network);
}

/* Sequential, functional and subclass: the same numbers as without a network, bit for bit. */
TEST(same_as_by_hand)
{
    est_tensor  *x = noise(ROWS, WIDTH, 1), *y = noise(ROWS, 1, 2);
    est_dataset *d = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 8);
    est_network *network;
    two_dense    own = { .class = EST_NETWORK_CLASS(.build = two_build, .call = two_call, .free = two_free) };

    assert_ok(est_network_sequential(
        EST_LAYERS(est_layer_dense(4, EST_DENSE(.activation = est_tanh)), est_layer_dense(1, NULL)),
        EST_NETWORK(.seed = 7), &network));
    assert_string_equal(est_network_name(network), "sequential");
    expect_by_hand(network, x, y, d);
    assert_ok(est_network_create(two_layers, EST_NETWORK(.seed = 7, .name = "two"), &network));
    assert_string_equal(est_network_name(network), "two");
    expect_by_hand(network, x, y, d);
    assert_ok(est_network_subclass(&own.class, EST_NETWORK(.seed = 7), &network));
    expect_by_hand(network, x, y, d);
    assert_int_equal(own.builds, 1);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Every epoch has another order, also when each is a fit: those are one fit of as many epochs. The same holds for the
 * shuffle of a dataset. */
TEST(orders)
{
    est_tensor       *x = noise(32, 3, 1), *y = noise(32, 1, 2);
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_dataset      *d      = est_dataset_batch(est_dataset_shuffle(est_dataset_slices(arrays), 32, 5), 4, NULL);

    assert_ok(est_dataset_finish(d, &d));
    for (int dataset = 0; dataset < 2; dataset++) {
        est_network    *network[3]; /* one fit; three; three that name their epochs */
        est_fit_options fit = *EST_FIT(.verbose = EST_VERBOSE_NONE);

        if (dataset == 1) fit.input = d;
        if (dataset == 0) fit.arrays = arrays;
        fit.batch_size = dataset == 0 ? 4 : 0;
        for (int i = 0; i < 3; i++) {
            network[i] = make_line(EST_NETWORK(.seed = 3), EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
            for (int k = 0; k < (i == 0 ? 1 : 3); k++) {
                fit.epochs        = i == 0 ? 3 : i == 1 ? 1 : k + 1;
                fit.initial_epoch = i == 2 ? k : 0;
                assert_ok(est_network_fit(network[i], &fit, NULL));
            }
        }
        for (int i = 1; i < 3; i++) expect_same_variable(network[0], network[i], "dense/kernel");
        for (int i = 0; i < 3; i++) est_network_free(network[i]);
    }
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Where epochs are counted in steps, another fit begins with other rows: the losses of the first step, with variables
 * that do not move. */
TEST(orders_of_steps)
{
    est_tensor  *x = noise(32, 3, 1), *y = noise(32, 1, 2);
    est_network *network = make_line(EST_NETWORK(.seed = 3),
                                     EST_COMPILE(.loss = "mse", .optimizer_value = est_sgd(1e-30)));
    double       loss[2];

    for (int i = 0; i < 2; i++) {
        est_history *history;

        assert_ok(est_network_fit(network,
                                  EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .batch_size = 2,
                                          .steps_per_epoch = 1, .verbose = EST_VERBOSE_NONE),
                                  &history));
        loss[i] = est_history_value(history, "loss", 0);
        est_history_free(history);
    }
    assert_true(loss[0] != loss[1]);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Steps with batches of the caller's use the functions that a fit and an evaluation use before and after them. */
TEST(on_batch_between)
{
    est_tensor       *x = noise(8, 3, 1), *y = noise(8, 1, 2);
    est_named_tensors batch   = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    est_metrics      *metrics = NULL;
    double            before, after;

    for (int i = 0; i < 2; i++) {
        assert_ok(est_network_train_on_batch(network, batch, NULL));
        assert_ok(est_network_fit(network, EST_FIT(.arrays = batch, .verbose = EST_VERBOSE_NONE), NULL));
        assert_ok(est_network_test_on_batch(network, batch, &before));
        assert_ok(est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = batch, .verbose = EST_VERBOSE_NONE),
                                       &metrics));
        assert_ok(est_network_test_on_batch(network, batch, &after));
        assert_true(est_metrics_get(metrics, "loss") == before && before == after);
        est_metrics_free(metrics);
    }
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* A second fit goes on where the first ended, and evaluate sees what it has trained. */
TEST(goes_on)
{
    est_tensor  *x = noise(ROWS, WIDTH, 1), *y = noise(ROWS, 1, 2);
    est_dataset *d     = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 8);
    est_network *whole = make_line(NULL, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    est_network *parts = make_line(NULL, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    est_history *history;
    est_metrics *before, *after;

    assert_ok(est_network_fit(whole, EST_FIT(.input = d, .epochs = 4, .verbose = EST_VERBOSE_NONE), NULL));
    assert_ok(est_network_evaluate(parts, EST_NETWORK_EVALUATE(.input = d), &before));
    assert_ok(est_network_fit(parts, EST_FIT(.input = d, .epochs = 1, .verbose = EST_VERBOSE_NONE), NULL));
    assert_ok(est_network_fit(parts, EST_FIT(.input = d, .epochs = 4, .initial_epoch = 1, .verbose = EST_VERBOSE_NONE),
                              &history));
    assert_int_equal(est_history_epochs(history), 3);
    assert_int_equal(est_history_epoch(history, 0), 1);
    assert_ok(est_network_evaluate(parts, EST_NETWORK_EVALUATE(.input = d), &after));
    expect_same_variable(whole, parts, "dense/kernel");
    assert_int_equal(est_metrics_count(after), 2);
    assert_true(est_metrics_get(after, "loss") < est_metrics_get(before, "loss"));
    assert_true(est_metrics_get(after, "loss") < est_history_value(history, "loss", 2));
    est_metrics_free(before);
    est_metrics_free(after);
    est_history_free(history);
    est_network_free(whole);
    est_network_free(parts);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

static est_history *fit_ok(est_network *network, const est_fit_options *options)
{
    est_history *history;

    assert_ok(est_network_fit(network, options, &history));
    return history;
}

/* Without shuffling arrays are the same as their batches; with it every epoch has another order. */
TEST(arrays)
{
    est_tensor                *x = noise(50, 3, 1), *y = noise(50, 1, 2);
    est_named_tensors          both = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_dataset               *d    = batches(both, 32);
    est_network               *network[4];
    est_history               *a, *b, *c, *again;
    const est_compile_options *compile = EST_COMPILE(.loss = "mse", .optimizer = "sgd");

    for (int i = 0; i < 4; i++) network[i] = make_line(EST_NETWORK(.seed = 3), compile);
    a     = fit_ok(network[0], EST_FIT(.input = d, .epochs = 3, .verbose = EST_VERBOSE_NONE));
    b     = fit_ok(network[1], EST_FIT(.arrays = both, .no_shuffle = true, .epochs = 3, .verbose = EST_VERBOSE_NONE));
    c     = fit_ok(network[2], EST_FIT(.arrays = both, .epochs = 3, .verbose = EST_VERBOSE_NONE));
    again = fit_ok(network[3], EST_FIT(.arrays = both, .epochs = 3, .verbose = EST_VERBOSE_NONE));
    for (int i = 0; i < 3; i++) {
        assert_true(est_history_value(a, "loss", i) == est_history_value(b, "loss", i));
        assert_true(est_history_value(a, "loss", i) != est_history_value(c, "loss", i));
        assert_true(est_history_value(c, "loss", i) == est_history_value(again, "loss", i));
    }
    expect_same_variable(network[0], network[1], "dense/kernel");
    expect_same_variable(network[2], network[3], "dense/kernel");
    est_history_free(a);
    est_history_free(b);
    est_history_free(c);
    est_history_free(again);
    for (int i = 0; i < 4; i++) est_network_free(network[i]);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* A part of the rows at the end is for validation: as if they were given apart. */
TEST(validation)
{
    est_tensor       *x = noise(40, 3, 1), *y = noise(40, 1, 2);
    const float      *xs = est_tensor_data(x), *ys = est_tensor_data(y);
    est_tensor       *x1 = floats(EST_SHAPE(30, 3), xs), *y1 = floats(EST_SHAPE(30, 1), ys);
    est_tensor       *x2 = floats(EST_SHAPE(10, 3), xs + 90), *y2 = floats(EST_SHAPE(10, 1), ys + 30);
    est_named_tensors later = EST_NAMED_TENSORS({ "x", x2 }, { "y", y2 });
    est_dataset      *d     = batches(later, 4);
    est_network      *split, *apart, *dataset;
    est_history      *a, *b, *c;
    est_metrics      *metrics;

    split   = make_line(EST_NETWORK(.seed = 3), EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    apart   = make_line(EST_NETWORK(.seed = 3), EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    dataset = make_line(EST_NETWORK(.seed = 3), EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    a       = fit_ok(split, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .validation_split = 0.25,
                                    .epochs = 3, .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    b       = fit_ok(apart, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x1 }, { "y", y1 }), .validation_arrays = later,
                                    .epochs = 3, .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    c = fit_ok(dataset, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x1 }, { "y", y1 }), .validation = d, .epochs = 3,
                                .validation_freq = 2, .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    for (int i = 0; i < 3; i++) {
        assert_true(est_history_value(a, "val_loss", i) == est_history_value(b, "val_loss", i));
        assert_true(est_history_value(a, "val_mae", i) == est_history_value(b, "val_mae", i));
        assert_true(est_history_value(a, "loss", i) == est_history_value(c, "loss", i));
        assert_true(est_history_value(a, "val_loss", i) != est_history_value(a, "loss", i));
    }
    assert_true(isnan(est_history_value(c, "val_loss", 0)));
    assert_true(est_history_value(c, "val_loss", 1) == est_history_value(a, "val_loss", 1));
    assert_true(isnan(est_history_value(c, "val_loss", 2)));
    assert_ok(est_network_evaluate(apart, EST_NETWORK_EVALUATE(.input = d), &metrics));
    assert_true(est_metrics_get(metrics, "loss") == est_history_value(a, "val_loss", 2));
    est_metrics_free(metrics);
    est_history_free(a);
    est_history_free(b);
    est_history_free(c);
    est_network_free(split);
    est_network_free(apart);
    est_network_free(dataset);
    est_dataset_free(d);
    est_tensor_free(x), est_tensor_free(y), est_tensor_free(x1), est_tensor_free(y1), est_tensor_free(x2);
    est_tensor_free(y2);
}

/* With steps_per_epoch an epoch goes on where the last one ended. */
TEST(steps_per_epoch)
{
    est_tensor  *x = noise(12, 3, 1), *y = noise(12, 1, 2);
    est_dataset *d, *once                = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 2);
    est_network *network[2];
    est_history *a, *b;

    for (int i = 0; i < 2; i++) network[i] = make_line(NULL, EST_COMPILE(.loss = "mse"));
    d = est_dataset_repeat(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), EST_FOREVER);
    assert_ok(est_dataset_finish(est_dataset_batch(d, 2, NULL), &d));
    a = fit_ok(network[0], EST_FIT(.input = once, .epochs = 1, .verbose = EST_VERBOSE_NONE));
    b = fit_ok(network[1], EST_FIT(.input = d, .epochs = 2, .steps_per_epoch = 3, .verbose = EST_VERBOSE_NONE));
    expect_same_variable(network[0], network[1], "dense/kernel");
    assert_near(est_history_value(a, "loss", 0),
                (est_history_value(b, "loss", 0) + est_history_value(b, "loss", 1)) / 2, 1e-6);
    est_history_free(b);
    log_keep(EST_LOG_WARN);
    b = fit_ok(network[1], EST_FIT(.input = once, .epochs = 5, .steps_per_epoch = 4, .verbose = EST_VERBOSE_NONE));
    assert_int_equal(est_history_epochs(b), 2); /* 4 and 2 steps */
    assert_non_null(strstr(log_line(0), "the input ended after 2 of 4 steps of epoch 2"));
    est_history_free(a);
    est_history_free(b);
    est_network_free(network[0]);
    est_network_free(network[1]);
    est_dataset_free(d);
    est_dataset_free(once);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Arrays have as many passes as there are epochs, as in Keras: steps of a pass, the half of it, and too many. */
TEST(steps_of_arrays)
{
    est_tensor                *x = noise(12, 3, 1), *y = noise(12, 1, 2);
    est_named_tensors          both    = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    const est_compile_options *compile = EST_COMPILE(.loss = "mse");
    est_network               *network[2];
    est_history               *history;

    for (int i = 0; i < 2; i++) network[i] = make_line(EST_NETWORK(.seed = 3), compile);
    for (int i = 0; i < 2; i++) {
        history = fit_ok(network[i],
                         EST_FIT(.arrays = both, .no_shuffle = true, .batch_size = 2, .epochs = i == 0 ? 2 : 4,
                                 .steps_per_epoch = i == 0 ? 6 : 3, .verbose = EST_VERBOSE_NONE));
        assert_int_equal(est_history_epochs(history), i == 0 ? 2 : 4);
        est_history_free(history);
    }
    expect_same_variable(network[0], network[1], "dense/kernel");
    log_keep(EST_LOG_WARN);
    history = fit_ok(network[0], EST_FIT(.arrays = both, .batch_size = 2, .epochs = 2, .steps_per_epoch = 9,
                                         .verbose = EST_VERBOSE_NONE));
    assert_int_equal(est_history_epochs(history), 2);
    assert_non_null(strstr(log_line(0), "the input ended after 3 of 9 steps of epoch 2"));
    est_history_free(history);
    est_network_free(network[0]);
    est_network_free(network[1]);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

/* One step from 0 with weights 1 and 3: sum(w l) / 2, not / 4; metrics without and with the weights. */
TEST(sample_weights)
{
    est_tensor *x        = floats(EST_SHAPE(2, 1), (const float[]){ 1, 1 }),
               *y        = floats(EST_SHAPE(2), (const float[]){ 1, 2 });
    est_tensor  *w       = floats(EST_SHAPE(2), (const float[]){ 1, 3 });
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = 0.5,
                                                       .metrics          = EST_STRINGS("mae"),
                                                       .weighted_metrics = EST_STRINGS("mean_absolute_error")));
    double       values[3];

    assert_ok(
        est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w }), values));
    assert_near(values[0], (1 + 3 * 4) / 2.0, 1e-6);
    assert_near(values[1], 1.5, 1e-6);
    assert_near(values[2], (1 + 3 * 2) / 4.0, 1e-6);
    /* the gradient of the kernel is (2 * 1 * -1 + 2 * 3 * -2) / 2 = -7 */
    assert_near(variable_at(network, "dense/kernel", 0), 3.5, 1e-6);
    /* without weights the same variables and the same optimizer: predictions are 7 */
    assert_ok(est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }), values));
    assert_near(values[0], (36 + 25) / 2.0, 1e-5);
    assert_near(variable_at(network, "dense/kernel", 0), 3.5 - 0.5 * (2 * 6 + 2 * 5) / 2, 1e-5);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
}

/* Weights may have an axis of 1, as labels have, and be of any number type; all of a network's are alike. */
TEST(kinds_of_weights)
{
    est_tensor       *x = noise(4, 3, 1), *y = noise(4, 1, 2), *w[3];
    const float       one[4] = { 1, 3, 0, 2 };
    const double      two[4] = { 1, 3, 0, 2 };
    est_network      *networks[3];
    est_named_tensors wrong;

    w[0] = floats(EST_SHAPE(4), one);
    w[1] = floats(EST_SHAPE(4, 1), one);
    assert_ok(est_tensor_create_from(EST_F64, EST_SHAPE(4), two, &w[2]));
    for (int i = 0; i < 3; i++) {
        networks[i] = make_line(NULL, EST_COMPILE(.loss = "mse", .weighted_metrics = EST_STRINGS("mae")));
        assert_ok(est_network_train_on_batch(
            networks[i], EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w[i] }), NULL));
        expect_same_variable(networks[0], networks[i], "dense/kernel");
    }
    wrong = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w[2] });
    expect_error(est_network_train_on_batch(networks[0], wrong, NULL), EST_INVALID_ARGUMENT,
                 "component sample_weight of the dataset is float64");
    for (int i = 0; i < 3; i++) {
        est_network_free(networks[i]);
        est_tensor_free(w[i]);
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

static est_node last_softmax(est_node x)
{
    return est_softmax(x, -1);
}

/* Weights of classes are those of their rows. */
TEST(class_weights)
{
    est_tensor  *x          = noise(8, 2, 5), *y, *w;
    int64_t      classes[8] = { 0, 1, 2, 1, 0, 2, 2, 1 };
    double       of[3]      = { 1, 0.5, 3 };
    float        weights[8];
    est_network *a, *b;
    est_history *ha, *hb;

    for (int i = 0; i < 8; i++) weights[i] = (float)of[classes[i]];
    assert_ok(est_tensor_i64(EST_SHAPE(8), classes, &y));
    w = floats(EST_SHAPE(8), weights);
    for (int i = 0; i < 2; i++) {
        est_network **network = i == 0 ? &a : &b;

        assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, NULL), est_layer_activation(last_softmax, NULL)),
                                         EST_NETWORK(.seed = 2), network));
        assert_ok(est_network_compile(
            *network, EST_COMPILE(.loss = "sparse_categorical_crossentropy", .metrics = EST_STRINGS("accuracy"))));
    }
    ha = fit_ok(a, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "label", y }, { "sample_weight", w }), .epochs = 2,
                           .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    hb = fit_ok(b, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "label", y }), .class_weight = EST_F64S(1, 0.5, 3),
                           .epochs = 2, .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    for (int i = 0; i < 2; i++) assert_true(est_history_value(ha, "loss", i) == est_history_value(hb, "loss", i));
    assert_true(est_history_value(ha, "accuracy", 0) >= 0);
    expect_same_variable(a, b, "dense/kernel");
    expect_error(
        est_network_fit(b,
                        EST_FIT(.arrays       = EST_NAMED_TENSORS({ "x", x }, { "label", y }),
                                .class_weight = EST_F64S(1, 0.5), .no_shuffle = true, .verbose = EST_VERBOSE_NONE),
                        NULL),
        EST_INVALID_ARGUMENT, "class_weight_of_label': indices[2] = 2 is not in [0, 2)");
    expect_error(est_network_fit(b,
                                 EST_FIT(.arrays       = EST_NAMED_TENSORS({ "x", x }, { "label", y }),
                                         .class_weight = EST_F64S(1, NAN, 1), .verbose = EST_VERBOSE_NONE),
                                 NULL),
                 EST_INVALID_ARGUMENT, "class_weight of class 1 is nan");
    est_history_free(ha);
    est_history_free(hb);
    /* that of a class without rows changes nothing; other weights of the same network do */
    ha = fit_ok(a, EST_FIT(.arrays     = EST_NAMED_TENSORS({ "x", x }, { "label", y }, { "sample_weight", w }),
                           .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    hb = fit_ok(b, EST_FIT(.arrays       = EST_NAMED_TENSORS({ "x", x }, { "label", y }),
                           .class_weight = EST_F64S(1, 0.5, 3, 7, 7), .batch_size = 4, .verbose = EST_VERBOSE_NONE));
    assert_true(est_history_value(ha, "loss", 0) == est_history_value(hb, "loss", 0));
    expect_same_variable(a, b, "dense/kernel");
    est_history_free(ha);
    est_history_free(hb);
    est_network_free(a);
    est_network_free(b);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
}

/* --- wrong use ---------------------------------------------------------------------------------------------------- */

static est_status fit_arrays(est_network *network, est_named_tensors arrays)
{
    return est_network_fit(network, EST_FIT(.arrays = arrays, .verbose = EST_VERBOSE_NONE), NULL);
}

TEST(wrong_use)
{
    est_tensor  *x = noise(4, 3, 1), *y = noise(4, 1, 2), *wide = noise(4, 5, 1), *few = noise(3, 1, 1), *ints;
    est_network *network, *broken;
    est_dataset *empty, *endless;

    assert_ok(est_tensor_i64(EST_SHAPE(4, 3), (const int64_t[12]){ 0 }, &ints));
    assert_ok(try_line(NULL, &network));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y })), EST_FAILED_PRECONDITION,
                 "sequential is not compiled; call est_network_compile before est_network_fit");
    expect_error(
        est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y })), NULL),
        EST_FAILED_PRECONDITION, "is not compiled");
    expect_error(est_network_compile(network, EST_COMPILE(.optimizer = "adam")), EST_INVALID_ARGUMENT,
                 "there is no loss");
    expect_error(est_network_compile(network, EST_COMPILE(.loss = "mean_squared_eror")), EST_INVALID_ARGUMENT,
                 "mean_squared_error");
    expect_error(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adm")), EST_INVALID_ARGUMENT,
                 "adam");
    expect_error(est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("acuracy"))),
                 EST_INVALID_ARGUMENT, "accuracy");
    expect_error(est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae", "mae"))),
                 EST_INVALID_ARGUMENT, "two metrics are called mae");
    assert_int_equal(est_network_metrics(network), 0);
    assert_null(est_network_session(network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse")));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "z", y })), EST_INVALID_ARGUMENT,
                 "the dataset has no component label or y, which is to be predicted");
    est_network_free(network);

    network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    expect_error(est_network_build(network, NULL), EST_FAILED_PRECONDITION, "does not know its inputs");
    expect_error(fit_arrays(network, (est_named_tensors){ 0 }), EST_INVALID_ARGUMENT,
                 "set input or arrays, one of them");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "a", x }, { "b", x }, { "y", y })), EST_INVALID_ARGUMENT,
                 "a sequential network takes one input, and this one has 2 inputs");
    assert_null(est_network_session(network));
    est_network_free(network);

    network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    assert_ok(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y })));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", few })),
                 EST_INVALID_ARGUMENT, "sample_weight");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", wide }, { "y", y })), EST_INVALID_ARGUMENT,
                 "component x of the dataset is float32 [?,5], and the network was built for float32 [?,3]");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", ints }, { "y", y })), EST_INVALID_ARGUMENT,
                 "component x of the dataset is int64");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "u", x }, { "y", y })), EST_INVALID_ARGUMENT,
                 "the dataset has no component x, an input of the network; it has: u, y");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", wide })), EST_INVALID_ARGUMENT,
                 "component y of the dataset is float32 [?,5], and the network was built for float32 [?,1]");
    assert_ok(est_dataset_finish(
        est_dataset_take(est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), 2, NULL), 0),
        &empty));
    expect_error(est_network_fit(network, EST_FIT(.input = empty, .verbose = EST_VERBOSE_NONE), NULL),
                 EST_INVALID_ARGUMENT, "fit: the input has no batch to train with");
    expect_error(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = empty), NULL), EST_INVALID_ARGUMENT,
                 "the input of the evaluation has no batch");
    assert_ok(est_dataset_finish(
        est_dataset_repeat(est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), 2, NULL),
                           EST_FOREVER),
        &endless));
    expect_error(est_network_fit(network, EST_FIT(.input = endless, .verbose = EST_VERBOSE_NONE), NULL),
                 EST_INVALID_ARGUMENT, "the input repeats for ever; set steps_per_epoch");
    expect_error(est_network_fit(network, EST_FIT(.input = endless, .epochs = -1), NULL), EST_INVALID_ARGUMENT,
                 "epochs is -1");
    expect_error(est_network_fit(network, EST_FIT(.input = endless, .verbose = (est_verbose)7), NULL),
                 EST_INVALID_ARGUMENT, "verbose is 7; use a value of est_verbose");
    expect_error(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = endless, .verbose = (est_verbose)7), NULL),
                 EST_INVALID_ARGUMENT, "verbose is 7; use a value of est_verbose");
    expect_error(est_network_fit(network, EST_FIT(.input = endless, .batch_size = 8, .steps_per_epoch = 1), NULL),
                 EST_INVALID_ARGUMENT, "batch_size is 8, and the input is a dataset");
    expect_error(est_network_predict(network, EST_NETWORK_PREDICT(.input = empty, .batch_size = 8), &wide),
                 EST_INVALID_ARGUMENT, "batch_size is 8, and the input is a dataset");
    assert_ok(est_network_fit(network,
                              EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .batch_size = 2,
                                      .validation = endless, .validation_steps = 1, .verbose = EST_VERBOSE_NONE),
                              NULL));
    expect_error(est_network_fit(network, EST_FIT(.input = endless, .validation_split = 0.5), NULL),
                 EST_INVALID_ARGUMENT, "validation_split divides arrays");
    expect_error(
        est_network_fit(network,
                        EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .validation_split = 1e-20), NULL),
        EST_INVALID_ARGUMENT, "validation_split is 1e-20, which leaves none of the rows of arrays for validation");
    expect_error(
        est_network_fit(network,
                        EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .validation_split = 0.999), NULL),
        EST_INVALID_ARGUMENT, "validation_split is 0.999, which leaves none of the rows of arrays for training");
    expect_error(
        est_network_fit(network, EST_FIT(.input = endless, .callbacks = EST_HOOKS(est_csv_callback(NULL, 0))), NULL),
        EST_INVALID_ARGUMENT, "the path is missing");
    expect_error(est_network_sequential(EST_LAYERS(est_layer_dense(1, NULL), est_layer_dense(-1, NULL)), NULL, &broken),
                 EST_INVALID_ARGUMENT, "est_network_sequential: layer 1 is NULL");
    expect_error(est_network_sequential((est_layers){ 0 }, NULL, &broken), EST_INVALID_ARGUMENT, "there are no layers");
    est_dataset_free(empty);
    est_dataset_free(endless);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(few);
    est_tensor_free(wide);
    est_tensor_free(ints);
}

/* A classifier of three classes, over arrays of x and one label. */
static est_status fit_classes(const char *loss, const char *metric, est_tensor *x, est_tensor *label)
{
    est_network *network;
    est_status   status;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, EST_DENSE(.activation = est_softmax_last))), NULL,
                                     &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = loss, .metrics = EST_STRINGS(metric))));
    status = fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", label }));
    est_network_free(network);
    return status;
}

TEST(labels_of_another_kind)
{
    est_tensor *x = noise(2, 4, 1), *one_hot = noise(2, 3, 2), *numbers, *words, *column, *ids;

    assert_ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 0, 2 }, &numbers));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(2), (const est_str[]){ { "a", 1 }, { "b", 1 } }, &words));
    assert_ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 0, 1 }, &column));
    assert_ok(est_tensor_i64(EST_SHAPE(2, 1), (const int64_t[]){ 0, 1 }, &ids));
    expect_error(fit_classes("sparse_categorical_crossentropy", "accuracy", x, one_hot), EST_INVALID_ARGUMENT,
                 "labels [?,3] are no class numbers for predictions [?,3]; if they are one-hot rows");
    expect_error(fit_classes("categorical_crossentropy", "sparse_categorical_accuracy", x, one_hot),
                 EST_INVALID_ARGUMENT, "if they are one-hot rows, use the loss or metric that is called categorical");
    expect_error(fit_classes("sparse_categorical_crossentropy", "accuracy", x, words), EST_INVALID_ARGUMENT,
                 "labels are strings");
    expect_error(fit_classes("mse", "mae", x, words), EST_INVALID_ARGUMENT, "labels are strings");
    expect_error(fit_classes("sparse_categorical_crossentropy", "auc", x, numbers), EST_INVALID_ARGUMENT,
                 "the metric needs labels and predictions of one shape, got [?,1] and [?,3]");
    expect_error(fit_classes("sparse_categorical_crossentropy", "precision", x, numbers), EST_INVALID_ARGUMENT,
                 "the metric needs labels and predictions of one shape, got [?,1] and [?,3]");
    expect_error(fit_classes("mse", "mae", column, column), EST_INVALID_ARGUMENT, "est_expand_dims(x, -1)");
    expect_error(fit_classes("mse", "mae", ids, column), EST_INVALID_ARGUMENT, "est_cast");
    est_tensor_free(x);
    est_tensor_free(one_hot);
    est_tensor_free(numbers);
    est_tensor_free(words);
    est_tensor_free(column);
    est_tensor_free(ids);
}

/* A dataset that the network cannot be built for does not decide its inputs. */
TEST(other_dataset)
{
    est_tensor  *x = noise(4, 3, 1), *y = noise(4, 1, 2);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));

    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "z", x }, { "y", y })), EST_INVALID_ARGUMENT,
                 "has 2 inputs");
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "z", x })), EST_INVALID_ARGUMENT, "label or y");
    assert_ok(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y })));
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* A dataset of single rows is refused with advice, and leaves nothing behind. */
TEST(unbatched)
{
    est_tensor  *x = noise(4, 3, 1), *y = noise(4, 1, 2), *three = noise(4, 3, 3);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse")), *other;
    est_dataset *rows, *alike;

    assert_ok(est_dataset_finish(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), &rows));
    assert_ok(est_dataset_finish(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", three })), &alike));
    expect_error(est_network_fit(network, EST_FIT(.input = rows), NULL), EST_INVALID_ARGUMENT,
                 "x [3] and y [1] of the dataset differ in their first axis, the rows of a batch; if the dataset has "
                 "single rows, see est_dataset_batch");
    assert_int_equal(est_network_fit(network, EST_FIT(.input = alike), NULL), EST_INVALID_ARGUMENT);
    assert_ok(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y })));
    other = make_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), EST_COMPILE(.loss = "mse"));
    expect_error(est_network_fit(other, EST_FIT(.input = rows), NULL), EST_INVALID_ARGUMENT,
                 "float32 [3], and the network was built for float32 [?,3]; if the dataset has single rows");
    est_network_free(network);
    est_network_free(other);
    est_dataset_free(rows);
    est_dataset_free(alike);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(three);
}

/* Nothing waits for the end of an input that has none. */
TEST(endless)
{
    est_tensor  *x = noise(4, 3, 1), *y = noise(4, 1, 2), *out = NULL;
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    est_dataset *d;

    d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y })), 2, NULL);
    assert_ok(est_dataset_finish(est_dataset_repeat(d, EST_FOREVER), &d));
    expect_error(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = d), NULL), EST_INVALID_ARGUMENT,
                 "evaluate: the input repeats for ever; set .steps");
    expect_error(est_network_predict(network, EST_NETWORK_PREDICT(.input = d), &out), EST_INVALID_ARGUMENT,
                 "predict: the input repeats for ever; set .steps");
    assert_ok(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = d, .steps = 3), NULL));
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.input = d, .steps = 3), &out));
    est_tensor_free(out);
    est_network_free(network);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Errors name arrays as they were given, and the call once. */
TEST(names_in_errors)
{
    est_tensor  *x = noise(4, 3, 1), *y = noise(4, 1, 2), *flat;
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));

    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(4), est_tensor_data(y), &flat));
    assert_ok(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y })));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "label", flat })), EST_INVALID_ARGUMENT,
                 "component label of the dataset is float32 [?], and the network was built for float32 [?,1]");
    assert_int_equal(
        est_network_fit(network, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .batch_size = -1), NULL),
        EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "fit: batch_size is -1; write a number above 0, or 0 for 32");
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(flat);
}

/* Names that are no names of nodes, and two layers of one name. */
TEST(names_of_layers)
{
    static const char *const bad[] = { "", "a/b c", "_a", "a/", "\xc3\xa4" };

    est_network *network = NULL;
    est_layer   *twice   = est_layer_dense(3, EST_DENSE(.name = "twice"));

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_null(est_layer_dense(1, EST_DENSE(.name = bad[i])));
        assert_non_null(strstr(est_error_message(), "dense layer: its name is"));
    }
    expect_error(est_network_sequential(
                     EST_LAYERS(est_layer_dense(1, EST_DENSE(.name = "a")), est_layer_dense(1, EST_DENSE(.name = "a"))),
                     NULL, &network),
                 EST_ALREADY_EXISTS, "layers 0 and 1 are both called a");
    assert_ok(est_network_sequential(EST_LAYERS(est_layer_share(twice), est_layer_share(twice)), NULL, &network));
    est_network_free(network);
    est_layer_free(twice);
}

/* What can be done with a network whose inputs are known, before it is compiled. */
static void use_before_compile(est_network *network, est_tensor *x)
{
    est_tensor *out;
    FILE       *file = tmpfile();

    assert_int_equal(est_network_count_params(network), 4);
    assert_non_null(file);
    assert_ok(est_network_summary(network, file));
    assert_int_equal(fclose(file), 0);
    assert_ok(est_network_save_weights(network, test_path("unlabelled")));
    assert_ok(est_network_load_weights(network, test_path("unlabelled"), NULL));
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.arrays = EST_NAMED_TENSORS({ "x", x })), &out));
    est_tensor_free(out);
}

/* A network is built from its inputs alone: those of the options, or of a dataset without labels, before it is compiled
 * or after that. It then trains as one that its first fit has built. */
TEST(built_without_labels)
{
    est_tensor       *x = noise(8, 3, 1), *y = noise(8, 1, 2);
    est_named_tensors all    = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_dataset      *inputs = batches(EST_NAMED_TENSORS({ "x", x }), 4);
    est_network      *network[4];

    for (int i = 0; i < 4; i++) {
        est_network_inputs named = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) });

        assert_ok(try_line(EST_NETWORK(.seed = 3, .inputs = i == 1 ? named : (est_network_inputs){ 0 }), &network[i]));
        if (i == 1) assert_ok(est_network_build(network[i], NULL));
        if (i == 2) assert_ok(est_network_build(network[i], inputs));
        if (i == 1 || i == 2) use_before_compile(network[i], x);
        assert_ok(est_network_compile(network[i], EST_COMPILE(.loss = "mse", .optimizer = "adam")));
        if (i == 3) assert_ok(est_network_build(network[i], inputs));
        assert_ok(fit_arrays(network[i], all));
        expect_same_variable(network[0], network[i], "dense/kernel");
    }
    for (int i = 0; i < 4; i++) est_network_free(network[i]);
    est_dataset_free(inputs);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Layers that a function makes: 0 and 1 as values, 2 and 3 as they are called. */
typedef struct layer_names {
    est_layer  *object[2];
    const char *name[4];
    bool        scoped; /* the last layer is in a scope of its own */
} layer_names;

static est_node named_layers(est_graph *graph, est_features inputs, bool training, void *user)
{
    layer_names *n = user;
    est_node     x = est_network_input_node(inputs, "x");

    for (int i = 0; i < 2; i++) x = est_layer_call(n->object[i], est_layer_call(n->object[i], x, training), training);
    x = est_dense(x, 2, EST_DENSE(.name = n->name[2]));
    if (n->scoped) est_scope_push(graph, "block");
    x = est_dense(x, 2, EST_DENSE(.name = n->name[3]));
    if (n->scoped) est_scope_pop(graph);
    return x;
}

static est_status build_named(layer_names n, est_network **out)
{
    est_status status;

    for (int i = 0; i < 2; i++) n.object[i] = est_layer_dense(2, EST_DENSE(.name = n.name[i]));
    assert_ok(est_network_create(named_layers,
                                 EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) }), .user = &n), out));
    status = est_network_build(*out, NULL);
    for (int i = 0; i < 2; i++) est_layer_free(n.object[i]);
    return status;
}

/* Names that were given to layers of a function differ, as in Keras; a layer that is called twice is one, and generated
 * names are made so that they do. */
TEST(names_in_functions)
{
    static const struct {
        layer_names n;
        const char *error; /* NULL: it is fine */
    } cases[] = {
        { { .name = { "a", "a", "b", "c" } },
          "the name a is used 2 times in model, by its layers 0 (Dense) and 1 (De" },
        { { .name = { "a", "b", "c", "c" } },
          "the name c is used 2 times in model, by its layers 2 (Dense) and 3 (De" },
        { { .name = { "a", "b", "b", NULL } }, "the name b is used 2 times in model" },
        { { .name = { NULL, "dense", NULL, NULL } }, "the name dense is used 2 times in model" },
        { { .name = { "a", "b", "c", "a" }, .scoped = true }, NULL },
        { { .name = { "dense", NULL, NULL, NULL } }, NULL },
        { { .name = { NULL, NULL, NULL, NULL } }, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_network *network;
        est_status   status = build_named(cases[i].n, &network);

        if (cases[i].error != NULL) {
            expect_error(status, EST_ALREADY_EXISTS, cases[i].error);
        } else {
            assert_ok(status);
        }
        est_network_free(network);
    }
}

static est_node two_parts(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_network *const *parts = user;

    (void)graph;
    return est_add(est_network_apply(parts[0], inputs, training), est_network_apply(parts[1], inputs, training));
}

/* The same for networks that are parts of one. */
TEST(names_of_parts)
{
    static const char *const names[3][2] = { { "part", "part" }, { "part", "other" }, { NULL, NULL } };

    est_network_inputs inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) });

    for (int i = 0; i < 3; i++) {
        est_network *parts[2], *network;

        for (int k = 0; k < 2; k++) assert_ok(try_line(EST_NETWORK(.name = names[i][k], .inputs = inputs), &parts[k]));
        assert_ok(est_network_create(two_parts, EST_NETWORK(.inputs = inputs, .user = parts), &network));
        if (i == 0) {
            expect_error(est_network_build(network, NULL), EST_ALREADY_EXISTS,
                         "the name part is used 2 times in model, by its layers 0 (Sequential) and 1 (Sequential)");
        } else {
            assert_ok(est_network_build(network, NULL));
        }
        est_network_free(network);
        for (int k = 0; k < 2; k++) est_network_free(parts[k]);
    }
}

/* Labels, weights and losses that do not go with the network leave it as it was, and can be mended. */
TEST(after_errors)
{
    est_tensor       *x = noise(4, 3, 1), *y = noise(4, 1, 2), *wide = noise(4, 5, 1), *out = NULL;
    est_named_tensors right   = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "sgd"));

    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", wide })), EST_INVALID_ARGUMENT, "one shape");
    assert_ok(fit_arrays(network, right));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", wide })),
                 EST_INVALID_ARGUMENT, "sample weights [?,5] do not go with losses [?]");
    assert_ok(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", y })));
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.arrays = EST_NAMED_TENSORS({ "x", x })), &out));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "categorical_crossentropy")));
    expect_error(fit_arrays(network, EST_NAMED_TENSORS({ "x", x }, { "y", wide })), EST_INVALID_ARGUMENT, "[?,5]");
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse")));
    assert_ok(fit_arrays(network, right));
    est_tensor_free(out);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(wide);
}

/* As in Keras a NaN does not end a fit by itself: it is in the history. */
TEST(nan_loss)
{
    est_tensor  *x = floats(EST_SHAPE(2, 1), (const float[]){ 1, NAN }), *y = noise(2, 1, 1);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    est_history *history = fit_ok(network, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .epochs = 2,
                                                   .verbose = EST_VERBOSE_NONE));

    assert_int_equal(est_history_epochs(history), 2);
    assert_true(isnan(est_history_value(history, "loss", 0)));
    est_history_free(history);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- prediction --------------------------------------------------------------------------------------------------- */

TEST(predict)
{
    est_tensor       *x      = noise(7, 3, 1), *all, *batch;
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x });
    est_network      *network;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(2, NULL)), EST_NETWORK(.seed = 4), &network));
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.arrays = arrays, .batch_size = 3), &all));
    assert_ok(est_network_predict_on_batch(network, arrays, &batch));
    assert_true(est_shape_equal(est_tensor_shape(all), &EST_SHAPE(7, 2)));
    assert_memory_equal(est_tensor_data(all), est_tensor_data(batch), est_tensor_bytes(all));
    assert_true(est_node_dim(est_network_output(network), -1) == 2);
    est_tensor_free(all);
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.arrays = arrays, .batch_size = 3, .steps = 2), &all));
    assert_int_equal(est_tensor_shape(all)->dim[0], 6);
    est_tensor_free(all);
    est_tensor_free(batch);
    est_tensor_free(x);
    est_network_free(network);
}

/* --- in another graph --------------------------------------------------------------------------------------------- */

static est_feature only_x(void *user, const char *name)
{
    return strcmp(name, "x") == 0 ? (est_feature){ .values = *(est_node *)user } : (est_feature){ 0 };
}

/* A network as a part of any graph has variables of its own there, the same in each call. */
TEST(apply)
{
    est_network *network;
    est_graph   *graph;
    est_node     x, a, b;
    est_features features = { .find = only_x, .user = &x };

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(2, NULL)),
                                     EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), &network));
    assert_ok(est_graph_create(1, &graph));
    features.graph = graph;
    x              = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 3));
    a              = est_network_apply(network, features, true);
    b              = est_network_apply(network, features, false);
    assert_ok(est_graph_status(graph));
    assert_int_equal(est_trainable_variables(graph).n, 2);
    assert_int_not_equal(a.id, b.id);
    assert_null(est_network_graph(network));
    assert_ok(est_network_build(network, NULL));
    assert_int_equal(est_trainable_variables(est_network_graph(network)).n, 2);
    assert_null(est_network_metric(network, 0));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae"))));
    assert_string_equal(est_network_metric(network, 0), "loss");
    assert_string_equal(est_network_metric(network, 1), "mae");
    assert_null(est_network_metric(network, 2));
    est_graph_free(graph);
    est_network_free(network);
}

/* Compiled again: another optimizer with a state of its own, the same variables of the model; slots of both forms of
 * the training function are the same. */
TEST(compiled_again)
{
    est_tensor *x = noise(8, 3, 1), *y = noise(8, 1, 2),
               *w           = floats(EST_SHAPE(8), (const float[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
    est_network      *a     = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "adam"));
    est_network      *b     = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "adam"));
    est_named_tensors plain = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_named_tensors ones  = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w });
    int               n;

    for (int i = 0; i < 4; i++) {
        assert_ok(est_network_train_on_batch(a, plain, NULL));
        assert_ok(est_network_train_on_batch(b, i % 2 == 0 ? plain : ones, NULL));
        expect_same_variable(a, b, "dense/kernel");
    }
    n = est_session_variables(est_network_session(a));
    for (int i = 0; i < 2; i++) {
        assert_ok(
            est_network_compile(i == 0 ? a : b, EST_COMPILE(.loss = "mae", .optimizer = "sgd", .learning_rate = 0.5)));
        assert_ok(est_network_train_on_batch(i == 0 ? a : b, plain, NULL));
    }
    expect_same_variable(a, b, "dense/kernel");
    assert_near(est_network_learning_rate(a), 0.5, 0);
    assert_true(est_session_variables(est_network_session(a)) > n);
    est_network_free(a);
    est_network_free(b);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_status whole(est_named_tensors arrays)
{
    est_network *network = NULL;
    est_history *history = NULL;
    est_metrics *metrics = NULL;
    est_tensor  *out     = NULL;
    est_status   status  = try_line(EST_NETWORK(.seed = 1), &network);

    if (status == EST_OK) {
        status = est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    }
    if (status == EST_OK) {
        status = est_network_fit(network,
                                 EST_FIT(.arrays = arrays, .validation_split = 0.5, .batch_size = 2, .epochs = 2,
                                         .verbose = EST_VERBOSE_NONE),
                                 &history);
    }
    if (status == EST_OK) status = est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = arrays), &metrics);
    if (status == EST_OK) status = est_network_predict(network, EST_NETWORK_PREDICT(.arrays = arrays), &out);
    if (status == EST_OK) status = est_network_test_on_batch(network, arrays, NULL);
    est_tensor_free(out);
    est_metrics_free(metrics);
    est_history_free(history);
    est_network_free(network);
    return status;
}

TEST(memory)
{
    est_tensor       *x = noise(8, 3, 1), *y = noise(8, 1, 2);
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });

    log_keep(EST_LOG_ERROR);
    FAULT_LOOP(f, FAULT_PLACES, .depth = 8, .more_than = 100) {
        fault_arm(&f);
        fault_check_lenient(&f, whole(arrays));
    }
    assert_ok(whole(arrays));
    est_tensor_free(x);
    est_tensor_free(y);
}

/* One step after an attempt that found no memory updates the variables once. */
TEST(memory_then_again)
{
    est_tensor       *x = noise(8, 3, 1), *y = noise(8, 1, 2), *want = NULL;
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network;

    network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
    assert_ok(est_network_train_on_batch(network, arrays, NULL));
    assert_ok(est_session_read(est_network_session(network), "dense/kernel", &want));
    est_network_free(network);
    log_keep(EST_LOG_ERROR);
    FAULT_LOOP(f, FAULT_PLACES, .depth = 8, .more_than = 20) {
        est_tensor *got = NULL, *step = NULL;
        est_status  status;

        network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
        fault_arm(&f);
        status = est_network_train_on_batch(network, arrays, NULL);
        fault_check_lenient(&f, status);
        if (status != EST_OK && est_network_train_on_batch(network, arrays, NULL) == EST_OK) {
            assert_ok(est_session_read(est_network_session(network), "global_step", &step));
            assert_ok(est_session_read(est_network_session(network), "dense/kernel", &got));
            assert_int_equal(*(const int64_t *)est_tensor_data(step), 1);
            assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
        }
        est_tensor_free(step);
        est_tensor_free(got);
        est_network_free(network);
    }
    est_tensor_free(want);
    est_tensor_free(x);
    est_tensor_free(y);
}
