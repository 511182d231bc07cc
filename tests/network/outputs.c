/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks with several outputs: a loss, metrics and a label for each, by name, under strategies and as Estimators. */
#include "network/network_test.h"

#define ROWS 10

typedef struct data {
    est_tensor *x, *price, *kind, *w;
} data;

static data make_data(void)
{
    data    d = { .x = noise(ROWS, 3, 1), .price = noise(ROWS, 1, 2), .w = noise(ROWS, 1, 3) };
    int64_t kinds[ROWS];

    for (int i = 0; i < ROWS; i++) {
        kinds[i] = i * 5 % 3;
        ((float *)est_tensor_mutable_data(d.w))[i] += 2;
    }
    assert_ok(est_tensor_i64(EST_SHAPE(ROWS), kinds, &d.kind));
    return d;
}

static void drop_data(data *d)
{
    est_tensor_free(d->x);
    est_tensor_free(d->price);
    est_tensor_free(d->kind);
    est_tensor_free(d->w);
}

/* A regularized layer for both. */
static est_node two_heads(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4,
                           EST_DENSE(.activation = est_relu, .kernel_regularizer = est_l2_regularizer(0.01)));

    (void)graph, (void)training, (void)user;
    return est_outputs(EST_NODES(est_dense(x, 1, EST_DENSE(.name = "price")),
                                 est_softmax(est_dense(x, 3, EST_DENSE(.name = "kind")), -1)));
}

static est_network *make(const est_strategy *strategy)
{
    est_network *network;

    assert_ok(est_network_create(
        two_heads, EST_NETWORK(.seed = 2, .strategy = strategy, .outputs = EST_STRINGS("price", "kind")), &network));
    return network;
}

/* Not in the order of the outputs. */
static est_network *make_compiled(const est_strategy *strategy)
{
    est_network *network = make(strategy);

    assert_ok(est_network_compile(
        network, EST_COMPILE(.optimizer = "adam",
                             .outputs   = EST_COMPILE_OUTPUTS({ "kind", .loss = "sparse_categorical_crossentropy",
                                                                .loss_weight = 0.5, .metrics = EST_STRINGS("accuracy") },
                                                              { "price", .loss = "mse", .metrics = EST_STRINGS("mae"),
                                                                .weighted_metrics = EST_STRINGS("mse") }))));
    return network;
}

static void expect_names(const est_network *network, const char *const *names, int n)
{
    assert_int_equal(est_network_metrics(network), n);
    for (int i = 0; i < n; i++) assert_string_equal(est_network_metric(network, i), names[i]);
}

/* Names as Keras has them; the loss is the weighted sum and the regularization. */
TEST(named)
{
    static const char *const names[] = { "loss", "kind_loss", "price_loss", "kind_accuracy", "price_mae", "price_mse" };

    data              d       = make_data();
    est_network      *network = make_compiled(NULL);
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", d.x }, { "kind", d.kind }, { "price", d.price });
    est_history      *history;
    est_metrics      *metrics;
    est_tensor       *out[2], *kernel;
    double            squares = 0, error = 0, cross = 0;

    assert_int_equal(est_network_outputs(network), 2);
    assert_string_equal(est_network_output_name(network, 1), "kind");
    assert_null(est_network_output_name(network, 2));
    assert_null(est_network_output_at(network, 1).graph); /* it is not built yet */
    expect_names(network, names, 6);
    assert_ok(est_network_fit(
        network,
        EST_FIT(.arrays = all, .epochs = 3, .batch_size = 4, .validation_split = 0.3, .verbose = EST_VERBOSE_NONE),
        &history));
    assert_int_equal(est_history_count(history), 12);
    assert_true(isfinite(est_history_value(history, "val_kind_accuracy", 2)));
    assert_ok(est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = all, .batch_size = 4), &metrics));
    assert_ok(est_network_predict_outputs(network, EST_NETWORK_PREDICT(.arrays = all, .batch_size = 4), out));
    assert_int_equal(est_tensor_count(out[0]), ROWS);
    assert_int_equal(est_tensor_count(out[1]), 3 * ROWS);
    assert_int_equal(est_node_shape(est_network_output_at(network, 1))->dim[1], 3);
    for (int i = 0; i < ROWS; i++) {
        double off = (double)((const float *)est_tensor_data(out[0]))[i] -
                     (double)((const float *)est_tensor_data(d.price))[i];

        error += off * off / ROWS;
        cross -= log((double)((const float *)est_tensor_data(out[1]))[3 * i + i * 5 % 3]) / ROWS;
    }
    assert_ok(est_session_read(est_network_session(network), "dense/kernel", &kernel));
    for (int i = 0; i < 12; i++) squares += pow((double)((const float *)est_tensor_data(kernel))[i], 2);
    assert_near(est_metrics_get(metrics, "price_loss"), error, 1e-6);
    assert_near(est_metrics_get(metrics, "kind_loss"), cross, 1e-6);
    assert_near(est_metrics_get(metrics, "loss"), error + cross / 2 + 0.01 * squares, 2e-6);
    assert_near(est_metrics_get(metrics, "price_mse"), error, 1e-6);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_tensor_free(kernel);
    est_metrics_free(metrics);
    est_history_free(history);
    est_network_free(network);
    drop_data(&d);
}

/* The metrics of an evaluation with these weights. */
static est_metrics *weighed(const data *d, est_tensor *weights, bool by_output)
{
    est_network *network = make(NULL);
    est_metrics *metrics;

    assert_ok(est_network_compile(
        network, EST_COMPILE(.weights_by_output = by_output,
                             .outputs           = EST_COMPILE_OUTPUTS(
                                           { "kind", .loss = "sparse_categorical_crossentropy" },
                                           { "price", .loss = "mse", .weighted_metrics = EST_STRINGS("mae") }))));
    assert_ok(est_network_evaluate(
        network,
        EST_NETWORK_EVALUATE(.batch_size = 4, .verbose = EST_VERBOSE_NONE,
                             .arrays = EST_NAMED_TENSORS({ "x", d->x }, { "kind", d->kind }, { "price", d->price },
                                                         { "sample_weight", weights })),
        &metrics));
    est_network_free(network);
    return metrics;
}

/* A column of the sample weights for each output, in the order of compile. */
TEST(weights_by_output)
{
    data         d = make_data();
    est_tensor  *columns, *of_kind, *of_price;
    est_metrics *both, *kind, *price;
    float        pairs[2 * ROWS], kinds[ROWS], prices[ROWS];

    for (int i = 0; i < ROWS; i++) {
        pairs[2 * i] = kinds[i] = (float)i;
        pairs[2 * i + 1] = prices[i] = (float)(ROWS - i) / 4;
    }
    assert_ok(est_tensor_f32(EST_SHAPE(ROWS, 2), pairs, &columns));
    assert_ok(est_tensor_f32(EST_SHAPE(ROWS), kinds, &of_kind));
    assert_ok(est_tensor_f32(EST_SHAPE(ROWS), prices, &of_price));
    both  = weighed(&d, columns, true);
    kind  = weighed(&d, of_kind, true);
    price = weighed(&d, of_price, false);
    assert_near(est_metrics_get(both, "kind_loss"), est_metrics_get(kind, "kind_loss"), 1e-6);
    assert_near(est_metrics_get(both, "price_loss"), est_metrics_get(price, "price_loss"), 1e-6);
    assert_near(est_metrics_get(both, "price_mae"), est_metrics_get(price, "price_mae"), 1e-6);
    assert_true(fabs(est_metrics_get(kind, "price_loss") - est_metrics_get(price, "price_loss")) > 0.01);
    est_metrics_free(both);
    est_metrics_free(kind);
    est_metrics_free(price);
    est_tensor_free(columns);
    est_tensor_free(of_kind);
    est_tensor_free(of_price);
    drop_data(&d);
}

/* Weights of the shape [?,?]. */
static est_dataset *with_unknown_columns(const data *d, est_tensor *weights)
{
    est_graph      *graph;
    est_dataset    *out;
    est_named_nodes all;

    assert_ok(est_graph_create(1, &graph));
    all = EST_NAMED_NODES({ "x", est_placeholder(graph, "x", EST_F32, EST_SHAPE(3)) },
                          { "kind", est_placeholder(graph, "kind", EST_I64, EST_SHAPE_SCALAR) },
                          { "price", est_placeholder(graph, "price", EST_F32, EST_SHAPE(1)) },
                          { "sample_weight", est_placeholder(graph, "w", EST_F32, EST_SHAPE(-1)) });
    out = est_dataset_slices(
        EST_NAMED_TENSORS({ "x", d->x }, { "kind", d->kind }, { "price", d->price }, { "sample_weight", weights }));
    out = est_dataset_map_graph(out, all, all, NULL);
    assert_ok(est_dataset_finish(est_dataset_batch(out, 4, NULL), &out));
    est_graph_free(graph);
    return out;
}

/* Columns whose number is not known are of the outputs too, and another number is refused. */
TEST(unknown_columns)
{
    data         d   = make_data();
    est_tensor  *two = noise(ROWS, 2, 4), *three = noise(ROWS, 3, 4);
    est_dataset *unknown = with_unknown_columns(&d, two);
    est_metrics *known   = weighed(&d, two, true), *metrics;
    est_network *network = make(NULL);

    assert_ok(est_network_compile(
        network, EST_COMPILE(.weights_by_output = true,
                             .outputs           = EST_COMPILE_OUTPUTS(
                                           { "kind", .loss = "sparse_categorical_crossentropy" },
                                           { "price", .loss = "mse", .weighted_metrics = EST_STRINGS("mae") }))));
    assert_int_equal(est_dataset_component(unknown, est_dataset_find(unknown, "sample_weight"))->shape.dim[1], -1);
    assert_ok(
        est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = unknown, .verbose = EST_VERBOSE_NONE), &metrics));
    for (int i = 0; i < est_metrics_count(known); i++) {
        const char *name = est_metrics_name(known, i);

        assert_near(est_metrics_get(metrics, name), est_metrics_get(known, name), 1e-6);
    }
    est_metrics_free(metrics);
    est_network_free(network);
    network = make_compiled(NULL);
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .weights_by_output = true)));
    expect_error(est_network_train_on_batch(network,
                                            EST_NAMED_TENSORS({ "x", d.x }, { "kind", d.price }, { "price", d.price },
                                                              { "sample_weight", three }),
                                            NULL),
                 EST_INVALID_ARGUMENT,
                 "sample weights [?,3] do not go with losses [?]; give one an example, or a column for each output");
    est_network_free(network);
    est_metrics_free(known);
    est_dataset_free(unknown);
    est_tensor_free(two);
    est_tensor_free(three);
    drop_data(&d);
}

/* Outputs of which the rows count whose first input is above 0. */
static est_node masked_heads(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x    = est_network_input_node(inputs, "x");
    est_node mask = est_greater(est_squeeze(est_slice(x, EST_I64S(0, 0), EST_I64S(-1, 1)), EST_I64S(1)),
                                est_scalar(graph, EST_F32, 0));

    (void)training, (void)user;
    return est_outputs(EST_NODES(est_masked(est_dense(x, 1, EST_DENSE(.name = "price")), mask),
                                 est_softmax(est_dense(x, 3, EST_DENSE(.name = "kind")), -1)));
}

/* The loss is the mean over those, and metrics ignore the others; the output without a mask has all. */
TEST(masks)
{
    data              d      = make_data();
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", d.x }, { "price", d.price }, { "kind", d.kind });
    const float      *x = est_tensor_data(d.x), *price = est_tensor_data(d.price), *p;
    double            squares = 0, off = 0, cross = 0;
    int               n = 0;
    est_network      *network;
    est_metrics      *metrics;
    est_tensor       *out[2];

    assert_ok(
        est_network_create(masked_heads, EST_NETWORK(.seed = 2, .outputs = EST_STRINGS("price", "kind")), &network));
    assert_ok(est_network_compile(
        network,
        EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "kind", .loss = "sparse_categorical_crossentropy" },
                                                   { "price", .loss = "mse", .metrics = EST_STRINGS("mae") }))));
    assert_ok(
        est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = arrays, .verbose = EST_VERBOSE_NONE), &metrics));
    assert_ok(est_network_predict_outputs(network, EST_NETWORK_PREDICT(.arrays = arrays), out));
    p = est_tensor_data(out[0]);
    for (int i = 0; i < ROWS; i++) {
        cross -= log((double)((const float *)est_tensor_data(out[1]))[3 * i + i * 5 % 3]) / ROWS;
        if (x[3 * i] <= 0) continue;
        n++;
        squares += pow((double)(p[i] - price[i]), 2);
        off += fabs((double)(p[i] - price[i]));
    }
    assert_true(n > 1 && n < ROWS);
    assert_near(est_metrics_get(metrics, "price_loss"), squares / n, 1e-6);
    assert_near(est_metrics_get(metrics, "price_mae"), off / n, 1e-6);
    assert_near(est_metrics_get(metrics, "kind_loss"), cross, 1e-6);
    assert_ok(est_network_fit(network, EST_FIT(.arrays = arrays, .verbose = EST_VERBOSE_NONE), NULL));
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_metrics_free(metrics);
    est_network_free(network);
    drop_data(&d);
}

/* [examples, steps, 1], masked where a value is 0, or, with a user, where the first of a row is. */
static est_node masked_steps(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x    = est_network_input_node(inputs, "x");
    est_node mask = est_greater(x, est_scalar(graph, est_node_dtype(x), 0));

    (void)training;
    if (user != NULL) mask = est_slice(mask, EST_I64S(0, 0), EST_I64S(-1, 1));
    return est_masked(est_expand_dims(x, -1), mask);
}

/* The values are those of TensorFlow 2.15.1 for this model with y._keras_mask. */
static void expect_masked(est_dtype dtype, bool by_row)
{
    static const double value[] = { 1, 2, 3, 4, 0, 6, 7, 8 };

    est_tensor       *x, *y;
    est_named_tensors arrays;
    est_network      *network;
    est_metrics      *metrics;
    double            mse = by_row ? 7.5 : 179.0 / 7;

    assert_ok(est_tensor_create(dtype, EST_SHAPE(2, 4), &x));
    assert_ok(est_tensor_create(dtype, EST_SHAPE(2, 4, 1), &y));
    for (int i = 0; i < 8; i++) {
        if (dtype == EST_F64) ((double *)est_tensor_mutable_data(x))[i] = value[i];
        if (dtype == EST_F32) ((float *)est_tensor_mutable_data(x))[i] = (float)value[i];
    }
    memset(est_tensor_mutable_data(y), 0, est_tensor_bytes(y));
    arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    assert_ok(est_network_create(
        masked_steps, EST_NETWORK(.inputs = EST_INPUTS({ "x", dtype, EST_SHAPE(4) }), .user = by_row ? &dtype : NULL),
        &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mse"))));
    assert_ok(
        est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = arrays, .verbose = EST_VERBOSE_NONE), &metrics));
    assert_near(est_metrics_get(metrics, "loss"), mse, 1e-5);
    assert_near(est_metrics_get(metrics, "mse"), mse, 1e-5);
    est_metrics_free(metrics);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

TEST(masks_of_steps)
{
    expect_masked(EST_F32, false);
    expect_masked(EST_F32, true);
    expect_masked(EST_F64, false);
    expect_masked(EST_F64, true);
}

/* One loss for all outputs, and a loss for one of two. */
TEST(some)
{
    data              d   = make_data();
    est_named_tensors all = EST_NAMED_TENSORS({ "x", d.x }, { "price", d.price }, { "kind", d.price });
    est_network      *network;
    double            values[3];

    network = make(NULL);
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae"))));
    expect_names(network, (const char *const[]){ "loss", "price_loss", "kind_loss", "price_mae", "kind_mae" }, 5);
    est_network_free(network);
    network = make(NULL);
    assert_ok(est_network_compile(
        network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "price", .loss = "mse", .label = "cost" }))));
    expect_names(network, (const char *const[]){ "loss", "price_loss" }, 2);
    expect_error(est_network_train_on_batch(network, all, values), EST_INVALID_ARGUMENT,
                 "no component cost, the label of an output");
    assert_ok(est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", d.x }, { "cost", d.price }), values));
    assert_true(values[0] > values[1]); /* regularization */
    est_network_free(network);
    drop_data(&d);
}

/* Replicas, and sample weights, which are those of all outputs. */
TEST(replicas)
{
    data          d = make_data();
    est_strategy *two;
    est_network  *one  = make_compiled(NULL), *many;
    est_dataset  *rows = batches(
         EST_NAMED_TENSORS({ "x", d.x }, { "kind", d.kind }, { "price", d.price }, { "sample_weight", d.w }), 4);
    est_history *a, *b;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &two));
    many = make_compiled(two);
    assert_ok(est_network_fit(one, EST_FIT(.input = rows, .epochs = 3, .verbose = EST_VERBOSE_NONE), &a));
    assert_ok(est_network_fit(many, EST_FIT(.input = rows, .epochs = 3, .verbose = EST_VERBOSE_NONE), &b));
    for (int i = 0; i < est_network_metrics(one); i++) {
        const char *name = est_network_metric(one, i);

        for (int k = 0; k < 3; k++) assert_near(est_history_value(b, name, k), est_history_value(a, name, k), 2e-6);
    }
    assert_true(fabs(est_history_value(a, "price_mse", 0) - est_history_value(a, "price_loss", 0)) > 1e-3);
    est_history_free(a);
    est_history_free(b);
    est_network_free(one);
    est_network_free(many);
    est_strategy_free(two);
    est_dataset_free(rows);
    drop_data(&d);
}

static est_status rows_of(const est_input_context *context, void *user, est_dataset **out)
{
    const data *d = user;

    (void)context;
    *out = batches(EST_NAMED_TENSORS({ "x", d->x }, { "kind", d->kind }, { "price", d->price }), ROWS);
    return EST_OK;
}

/* Losses and predictions have the names of the outputs. */
TEST(estimator)
{
    data           d       = make_data();
    est_network   *network = make_compiled(NULL);
    est_estimator *estimator;
    est_metrics   *want, *have;
    est_dataset   *rows;

    assert_ok(rows_of(NULL, &d, &rows));
    assert_ok(est_network_build(network, rows));
    assert_ok(est_network_to_estimator(
        network, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = test_path("estimator"))), &estimator));
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = rows_of, .input_user = &d, .max_steps = 1)));
    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = rows_of, .input_user = &d), &have));
    assert_ok(est_network_fit(network, EST_FIT(.input = rows, .verbose = EST_VERBOSE_NONE), NULL));
    assert_ok(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = rows), &want));
    for (int i = 0; i < est_metrics_count(want); i++) {
        const char *name = est_metrics_name(want, i);

        assert_near(est_metrics_get(have, name), est_metrics_get(want, name), 1e-6);
    }
    est_metrics_free(want);
    est_metrics_free(have);
    est_estimator_free(estimator);
    est_network_free(network);
    est_dataset_free(rows);
    drop_data(&d);
}

static est_node one_head(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)training, (void)user;
    return est_dense(est_network_input_node(inputs, "x"), 1, NULL);
}

/* An autoencoder: its loss is one that the model adds, and it has no label. */
static est_node reconstruct(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_network_input_node(inputs, "x");
    est_node y = est_dense(est_dense(x, 2, EST_DENSE(.name = "code")), 3, EST_DENSE(.name = "back"));

    (void)graph, (void)training;
    if (user == NULL) est_add_loss(est_mean(est_square(est_sub(x, y))));
    return y;
}

/* The same with a loss by compile: the numbers must be those. */
static double last_loss(est_network *network, est_named_tensors arrays)
{
    est_history *history = NULL;
    double       last;

    assert_ok(est_network_fit(
        network,
        EST_FIT(.arrays = arrays, .epochs = 3, .no_shuffle = true, .batch_size = 4, .verbose = EST_VERBOSE_NONE),
        &history));
    last = est_history_value(history, "loss", 2);
    est_history_free(history);
    return last;
}

TEST(own_losses)
{
    est_tensor  *x = noise(ROWS, 3, 1);
    est_network *own, *told;
    est_metrics *metrics = NULL;
    double       a, b;

    assert_ok(est_network_create(reconstruct, EST_NETWORK(.seed = 3), &own));
    expect_error(
        est_network_compile(own, EST_COMPILE(.optimizer = "sgd", .own_losses = true, .metrics = EST_STRINGS("mae"))),
        EST_INVALID_ARGUMENT, "there are metrics, and no loss");
    assert_ok(est_network_compile(own, EST_COMPILE(.optimizer = "sgd", .own_losses = true)));
    assert_ok(est_network_create(reconstruct, EST_NETWORK(.seed = 3, .user = &(int){ 0 }), &told));
    assert_ok(est_network_compile(told, EST_COMPILE(.optimizer = "sgd", .loss = "mse")));
    a = last_loss(own, EST_NAMED_TENSORS({ "x", x }));
    b = last_loss(told, EST_NAMED_TENSORS({ "x", x }, { "y", x }));
    assert_near(a, b, 1e-6);
    assert_ok(est_network_evaluate(
        own, EST_NETWORK_EVALUATE(.arrays = EST_NAMED_TENSORS({ "x", x }), .verbose = EST_VERBOSE_NONE), &metrics));
    assert_int_equal(est_metrics_count(metrics), 1);
    est_metrics_free(metrics);
    expect_error(
        est_network_fit(own, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }), .class_weight = EST_F64S(1, 2)), NULL),
        EST_INVALID_ARGUMENT, "has 0 losses");
    assert_ok(est_network_compile(told, EST_COMPILE(.optimizer = "sgd", .own_losses = true)));
    expect_error(est_network_fit(told, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x })), NULL), EST_INVALID_ARGUMENT,
                 "there is nothing to minimize");
    est_network_free(own);
    est_network_free(told);
    est_tensor_free(x);
}

TEST(wrong_use)
{
    data              d       = make_data();
    est_network      *network = make(NULL), *broken;
    est_tensor       *out     = NULL;
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", d.x }, { "kind", d.kind }, { "price", d.price });

    expect_error(est_network_compile(network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "prise", .loss = "mse" }))),
                 EST_INVALID_ARGUMENT, "no output prise; did you mean price?; its outputs are: price, kind");
    expect_error(est_network_compile(network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "price" }))),
                 EST_INVALID_ARGUMENT, "price: there is no loss");
    expect_error(est_network_compile(network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "price", .loss = "mze" }))),
                 EST_INVALID_ARGUMENT, "price: loss: unknown loss 'mze'; did you mean");
    expect_error(est_network_compile(network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "price", .loss = "mse" },
                                                                                         { "price", .loss = "mae" }))),
                 EST_INVALID_ARGUMENT, "outputs has price twice");
    expect_error(est_network_compile(
                     network, EST_COMPILE(.loss = "mse", .outputs = EST_COMPILE_OUTPUTS({ "price", .loss = "mse" }))),
                 EST_INVALID_ARGUMENT, "outputs is set, and so is the loss");
    expect_error(est_network_compile(network, EST_COMPILE(.loss = "mse", .label = "y")), EST_INVALID_ARGUMENT,
                 "label is set, and model has 2 outputs");
    expect_error(est_network_compile(network, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS(
                                                              { "price", .loss = "mse", .loss_weight = NAN }))),
                 EST_INVALID_ARGUMENT, "loss_weight is nan");
    expect_error(est_network_predict(network, EST_NETWORK_PREDICT(.arrays = all), &out), EST_INVALID_ARGUMENT,
                 "call est_network_predict_outputs");
    expect_error(est_network_predict_on_batch(network, all, &out), EST_INVALID_ARGUMENT,
                 "call est_network_predict_outputs");
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse")));
    expect_error(est_network_fit(network, EST_FIT(.arrays = all, .class_weight = EST_F64S(1, 2)), NULL),
                 EST_INVALID_ARGUMENT, "class_weight is set, and model has 2 losses");
    est_network_free(network);
    assert_ok(est_network_create(one_head, EST_NETWORK(.outputs = EST_STRINGS("a", "b")), &broken));
    assert_ok(est_network_compile(broken, EST_COMPILE(.loss = "mse")));
    expect_error(
        est_network_train_on_batch(broken, EST_NAMED_TENSORS({ "x", d.x }, { "a", d.price }, { "b", d.price }), NULL),
        EST_INVALID_ARGUMENT, "model has 2 outputs; return est_outputs of as many nodes");
    est_network_free(broken);
    assert_ok(est_network_create(one_head, NULL, &broken));
    expect_error(est_network_compile(broken, EST_COMPILE(.outputs = EST_COMPILE_OUTPUTS({ "a", .loss = "mse" }))),
                 EST_INVALID_ARGUMENT, "one output without a name");
    est_network_free(broken);
    expect_error(est_network_create(one_head, EST_NETWORK(.outputs = EST_STRINGS("a", "a")), &broken),
                 EST_INVALID_ARGUMENT, "two outputs of the network are called a");
    expect_error(est_network_sequential(EST_LAYERS(est_layer_dense(1, NULL)),
                                        EST_NETWORK(.outputs = EST_STRINGS("a", "b")), &broken),
                 EST_INVALID_ARGUMENT, "the last layer has one output");
    drop_data(&d);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
