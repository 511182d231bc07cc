/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks and Estimators: a network as an Estimator trains, evaluates and predicts as the network itself does, from
 * its values and under strategies, and is exported; and a model_fn that uses a network. */
#include "data/stage.h"
#include "estoc/exporter.h"
#include "estoc/predictor.h"
#include "estoc/saved_model.h"
#include "network/network_test.h"
#include "support/estimator_test.h"

#define ROWS  48
#define BATCH 12

/* What the input is like. */
typedef struct kind {
    bool    weights;
    int64_t batch; /* 0: BATCH */
} kind;

/* Rows of x [6, 6, 1], a class and perhaps a weight; `user` is a kind, or NULL. */
static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *x = noise(ROWS, 36, 1), *image, *label, *weight;
    const kind  *k = user != NULL ? user : &(const kind){ 0 };
    est_dataset *d;
    int64_t      labels[ROWS];
    float        weights[ROWS];

    for (int i = 0; i < ROWS; i++) {
        const float *at = (const float *)est_tensor_data(x) + (ptrdiff_t)36 * i;

        labels[i]  = (at[0] > 0) + (at[7] > 0);
        weights[i] = i % 2 == 0 ? 1 : 0.5f;
    }
    EST_TRY(est_tensor_create_from(EST_F32, EST_SHAPE(ROWS, 6, 6, 1), est_tensor_data(x), &image));
    EST_TRY(est_tensor_i64(EST_SHAPE(ROWS), labels, &label));
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS), weights, &weight));
    if (k->weights) {
        d = est_dataset_slices(EST_NAMED_TENSORS({ "image", image }, { "label", label }, { "sample_weight", weight }));
    } else {
        d = est_dataset_slices(EST_NAMED_TENSORS({ "image", image }, { "label", label }));
    }
    d = est_dataset_batch(d, k->batch > 0 ? k->batch : BATCH, NULL);
    if (context != NULL && context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    est_tensor_free(x);
    est_tensor_free(image);
    est_tensor_free(label);
    est_tensor_free(weight);
    return est_dataset_finish(d, out);
}

static est_status given(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    *out = est_dataset_ref(user);
    return EST_OK;
}

static est_node softmax(est_node x)
{
    return est_softmax(x, -1);
}

static est_network *make(uint64_t seed, est_network_inputs inputs)
{
    est_network *network;

    assert_ok(est_network_sequential(
        EST_LAYERS(
            est_layer_conv2d(4, 3, EST_CONV2D(.activation = est_relu)), est_layer_batch_norm(NULL),
            est_layer_flatten(NULL),
            est_layer_dense(3, EST_DENSE(.activation = softmax, .kernel_regularizer = est_l2_regularizer(0.01)))),
        EST_NETWORK(.seed = seed, .inputs = inputs), &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "sparse_categorical_crossentropy", .optimizer = "adam",
                                                       .metrics = EST_STRINGS("accuracy"))));
    return network;
}

#define IMAGE EST_INPUTS({ "image", EST_F32, EST_SHAPE(6, 6, 1) })

static est_estimator *convert(est_network *network, const char *dir, const est_strategy *strategy)
{
    est_estimator *estimator;

    assert_ok(est_network_to_estimator(
        network, EST_ESTIMATOR(.config = EST_TEST_CONFIG(test_path(dir), NULL, .train_distribute = strategy)),
        &estimator));
    return estimator;
}

/* Variables of the latest checkpoint are those of the network, the errors below `tolerance`. */
static void expect_checkpoint(const char *dir, est_network *network, double tolerance)
{
    static const char *const names[] = { "conv2d/kernel", "batch_normalization/moving_mean",
                                         "batch_normalization/gamma", "dense/kernel", "dense/bias" };
    est_checkpoint          *checkpoint;

    assert_ok(est_checkpoint_open(test_path(dir), &checkpoint));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        est_tensor *a, *b;

        assert_ok(est_checkpoint_read(checkpoint, names[i], &a));
        assert_ok(est_session_read(est_network_session(network), names[i], &b));
        assert_int_equal(est_tensor_count(a), est_tensor_count(b));
        for (int64_t k = 0; k < est_tensor_count(a); k++) {
            assert_near(((const float *)est_tensor_data(a))[k], ((const float *)est_tensor_data(b))[k], tolerance);
        }
        est_tensor_free(a);
        est_tensor_free(b);
    }
    est_checkpoint_close(checkpoint);
}

static void expect_predictions(est_estimator *estimator, est_network *network)
{
    est_predictions *predictions;
    est_dataset     *d;
    est_tensor      *all;
    int              n = 0;

    assert_ok(input(NULL, NULL, &d));
    assert_ok(est_network_predict(network, EST_NETWORK_PREDICT(.input = d), &all));
    assert_ok(est_predict(estimator, EST_PREDICT_OPTIONS(.input_fn = input), &predictions));
    while (est_predictions_next(predictions) == EST_OK) {
        const est_tensor *row = est_predictions_get(predictions, "dense");

        assert_non_null(row);
        for (int k = 0; k < 3; k++) {
            assert_near(((const float *)est_tensor_data(row))[k], ((const float *)est_tensor_data(all))[3 * n + k],
                        1e-6);
        }
        n++;
    }
    assert_int_equal(n, ROWS);
    est_predictions_free(predictions);
    est_tensor_free(all);
    est_dataset_free(d);
}

/* From the same values and over the same batches the Estimator and the network do the same. */
static void same_as_fit(kind *weights)
{
    const char    *dir     = weights->weights ? "weighted" : "plain";
    est_network   *network = make(7, IMAGE), *fitted = make(7, IMAGE);
    est_estimator *estimator;
    est_dataset   *d;
    est_metrics   *ours, *theirs;

    assert_ok(est_network_build(network, NULL));
    estimator = convert(network, dir, NULL);
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .input_user = weights, .steps = 8)));
    assert_ok(input(NULL, weights, &d));
    assert_ok(est_network_fit(fitted, EST_FIT(.input = d, .epochs = 2, .verbose = EST_VERBOSE_NONE), NULL));
    expect_checkpoint(dir, fitted, 1e-6);
    expect_predictions(estimator, fitted);
    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input, .input_user = weights), &ours));
    assert_ok(est_network_evaluate(fitted, EST_NETWORK_EVALUATE(.input = d, .verbose = EST_VERBOSE_NONE), &theirs));
    assert_near(est_metrics_get(ours, "accuracy"), est_metrics_get(theirs, "accuracy"), 1e-6);
    assert_near(est_metrics_get(ours, "loss"), est_metrics_get(theirs, "loss"), 1e-6);
    est_metrics_free(ours);
    est_metrics_free(theirs);
    est_dataset_free(d);
    est_estimator_free(estimator);
    est_network_free(network);
    est_network_free(fitted);
}

TEST(trains)
{
    same_as_fit(&(kind){ 0 });
}

TEST(weights)
{
    same_as_fit(&(kind){ .weights = true });
}

/* Two outputs of which the rows count whose first input is above 0. */
static est_node masked_heads(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x    = est_network_input_node(inputs, "x");
    est_node mask = est_greater(est_squeeze(est_slice(x, EST_I64S(0, 0), EST_I64S(-1, 1)), EST_I64S(1)),
                                est_scalar(graph, EST_F32, 0));

    (void)training, (void)user;
    return est_outputs(EST_NODES(est_masked(est_dense(x, 1, EST_DENSE(.name = "a")), mask),
                                 est_masked(est_dense(x, 1, EST_DENSE(.name = "b")), mask)));
}

/* Masks, and weights of the examples, a column for each output or one for all, in the loss and in the metrics. */
TEST(masks_and_weights_by_output)
{
    est_tensor *x = noise(ROWS, 3, 1), *a = noise(ROWS, 1, 2), *b = noise(ROWS, 1, 3);

    for (int columns = 1; columns <= 2; columns++) {
        est_tensor    *weights = noise(ROWS, columns, 4);
        float         *w       = est_tensor_mutable_data(weights);
        est_network   *network;
        est_estimator *estimator;
        est_dataset   *d;
        est_metrics   *ours, *theirs;

        for (int i = 0; i < ROWS * columns; i++) w[i] = fabsf(w[i]) + 0.1f;
        d = batches(EST_NAMED_TENSORS({ "x", x }, { "a", a }, { "b", b }, { "sample_weight", weights }), ROWS);
        assert_ok(est_network_create(masked_heads,
                                     EST_NETWORK(.seed = 2, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) }),
                                                 .outputs = EST_STRINGS("a", "b")),
                                     &network));
        assert_ok(est_network_compile(
            network, EST_COMPILE(.weights_by_output = true, .optimizer_value = est_sgd(1e-30),
                                 .outputs = EST_COMPILE_OUTPUTS(
                                     { "b", .loss = "mse", .metrics = EST_STRINGS("mae") },
                                     { "a", .loss = "mse", .weighted_metrics = EST_STRINGS("mse") }))));
        assert_ok(est_network_build(network, NULL));
        estimator = convert(network, columns == 1 ? "one_column" : "columns", NULL);
        assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = given, .input_user = d, .steps = 1)));
        assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = given, .input_user = d), &ours));
        assert_ok(
            est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = d, .verbose = EST_VERBOSE_NONE), &theirs));
        for (int i = 0; i < est_metrics_count(theirs); i++) {
            const char *name = est_metrics_name(theirs, i);

            assert_near(est_metrics_get(ours, name), est_metrics_get(theirs, name), 1e-6);
        }
        est_metrics_free(ours);
        est_metrics_free(theirs);
        est_estimator_free(estimator);
        est_network_free(network);
        est_dataset_free(d);
        est_tensor_free(weights);
    }
    est_tensor_free(x);
    est_tensor_free(a);
    est_tensor_free(b);
}

/* Inputs from the dataset, variables of its own. */
TEST(unbuilt)
{
    est_network   *network   = make(7, (est_network_inputs){ 0 });
    est_estimator *estimator = convert(network, "unbuilt", NULL);
    est_metrics   *before, *after;

    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .steps = 1)));
    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input), &before));
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .steps = 60)));
    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input), &after));
    assert_true(est_metrics_get(after, "loss") < est_metrics_get(before, "loss"));
    est_metrics_free(before);
    est_metrics_free(after);
    est_estimator_free(estimator);
    est_network_free(network);
}

/* Trains a network without batch normalisation, which has statistics of its own in each replica. */
static void train_plain(const char *dir, const est_strategy *strategy, int64_t batch)
{
    est_network   *network;
    est_estimator *estimator;

    assert_ok(est_network_sequential(
        EST_LAYERS(est_layer_conv2d(4, 3, EST_CONV2D(.activation = est_relu)), est_layer_flatten(NULL),
                   est_layer_dense(3, EST_DENSE(.kernel_regularizer = est_l2_regularizer(0.01)))),
        EST_NETWORK(.seed = 7, .inputs = IMAGE), &network));
    assert_ok(
        est_network_compile(network, EST_COMPILE(.loss_value = est_loss_value_sparse_categorical_crossentropy(true),
                                                 .optimizer = "sgd", .learning_rate = 0.1)));
    assert_ok(est_network_build(network, NULL));
    estimator = convert(network, dir, strategy);
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .steps = 12,
                                                     .input_user = &(kind){ .weights = true, .batch = batch })));
    est_estimator_free(estimator);
    est_network_free(network);
}

/* Each replica takes a batch: two of 6 rows are one of 12. */
TEST(strategies)
{
    est_strategy   *strategies[3];
    est_checkpoint *one, *other;

    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &strategies[0]));
    assert_ok(est_central_storage_strategy(EST_CENTRAL_STORAGE(.replicas = 2), &strategies[1]));
    assert_ok(est_one_device_strategy("/cpu:0", &strategies[2]));
    train_plain("one", NULL, 12);
    assert_ok(est_checkpoint_open(test_path("one"), &one));
    for (int i = 0; i < 3; i++) {
        char        dir[16];
        est_tensor *a, *b;

        (void)snprintf(dir, sizeof dir, "strategy%d", i);
        train_plain(dir, strategies[i], i < 2 ? 6 : 12);
        assert_ok(est_checkpoint_open(test_path(dir), &other));
        assert_ok(est_checkpoint_read(one, "conv2d/kernel", &a));
        assert_ok(est_checkpoint_read(other, "conv2d/kernel", &b));
        for (int64_t k = 0; k < est_tensor_count(a); k++) {
            assert_near(((const float *)est_tensor_data(a))[k], ((const float *)est_tensor_data(b))[k], 1e-6);
        }
        est_tensor_free(a);
        est_tensor_free(b);
        est_checkpoint_close(other);
        est_strategy_free(strategies[i]);
    }
    est_checkpoint_close(one);
}

/* An export of what was not trained has the values of the network. */
TEST(exports)
{
    est_network     *network = make(3, IMAGE);
    est_estimator   *estimator;
    est_saved_model *saved;
    est_predictor   *predictor;
    est_tensor      *x = noise(2, 36, 8), *image, *want, *got;
    char             path[EST_CHECKPOINT_PATH_MAX];

    assert_ok(est_network_build(network, NULL));
    estimator = convert(network, "export", NULL);
    assert_ok(est_export_saved_model(
        estimator, test_path("exports"),
        EST_EXPORT(.input.raw = EST_COMPONENTS({ .name = "image", .dtype = EST_F32, .shape = EST_SHAPE(6, 6, 1) })),
        path));
    assert_ok(est_saved_model_load(path, NULL, &saved));
    assert_ok(est_predictor_create(saved, NULL, NULL, &predictor));
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(2, 6, 6, 1), est_tensor_data(x), &image));
    assert_ok(est_predictor_run(predictor, EST_NAMED_TENSORS({ "image", image }), &got));
    assert_ok(est_network_predict_on_batch(network, EST_NAMED_TENSORS({ "image", image }), &want));
    assert_memory_equal(est_tensor_data(got), est_tensor_data(want), est_tensor_bytes(want));
    est_tensor_free(x);
    est_tensor_free(image);
    est_tensor_free(got);
    est_tensor_free(want);
    est_predictor_free(predictor);
    est_saved_model_free(saved);
    est_estimator_free(estimator);
    est_network_free(network);
}

/* A model_fn of one's own over a network: logits, a loss and an optimizer that are not the network's. */
static est_status cnn(est_model *m, est_mode mode, const void *params)
{
    est_network *network = *(est_network *const *)params;
    est_node     logits  = est_network_apply(network, est_model_features(m), mode == EST_TRAIN), label, loss;

    est_model_predict(m, "class", est_argmax(logits, -1));
    if (mode == EST_PREDICT) return est_model_status(m);
    label = est_model_label(m, "label");
    loss  = est_mean(est_sparse_softmax_xent(logits, label));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_metric_accuracy(label, est_argmax(logits, -1), NULL));
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.01, NULL), loss);
    return est_model_status(m);
}

TEST(model_fn)
{
    est_network     *network;
    est_estimator   *estimator;
    est_strategy    *two;
    est_metrics     *metrics;
    est_predictions *predictions;
    est_checkpoint  *checkpoint;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_conv2d(8, 3, EST_CONV2D(.activation = est_relu)),
                                                est_layer_max_pool2d(2, NULL), est_layer_flatten(NULL),
                                                est_layer_dense(16, EST_DENSE(.activation = est_relu)),
                                                est_layer_dense(3, NULL)),
                                     EST_NETWORK(.inputs = IMAGE), &network));
    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &two));
    estimator = est_test_make(
        cnn, EST_ESTIMATOR(.params = &network, .params_size = sizeof network,
                           .config = EST_TEST_CONFIG(test_path("cnn"), NULL, .train_distribute = two)));
    assert_ok(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .steps = 100)));
    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input), &metrics));
    assert_true(est_metrics_get(metrics, "accuracy") > 0.9);
    assert_ok(est_predict(estimator, EST_PREDICT_OPTIONS(.input_fn = input), &predictions));
    assert_ok(est_predictions_next(predictions));
    assert_non_null(est_predictions_get(predictions, "class"));
    assert_ok(est_checkpoint_open(test_path("cnn"), &checkpoint));
    assert_non_null(est_checkpoint_find(checkpoint, "conv2d/kernel"));
    assert_non_null(est_checkpoint_find(checkpoint, "dense_1/bias"));
    est_checkpoint_close(checkpoint);
    est_predictions_free(predictions);
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    est_strategy_free(two);
    est_network_free(network);
}

TEST(refuses)
{
    est_network   *network;
    est_estimator *estimator;
    int            param = 1;

    assert_ok(try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) })), &network));
    expect_error(est_network_to_estimator(network, NULL, &estimator), EST_FAILED_PRECONDITION, "is not compiled");
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse")));
    expect_error(
        est_network_to_estimator(network, EST_ESTIMATOR(.params = &param, .params_size = sizeof param), &estimator),
        EST_INVALID_ARGUMENT, "params is set");
    expect_error(est_network_to_estimator(NULL, NULL, &estimator), EST_INVALID_ARGUMENT, "network is NULL");
    expect_error(est_network_to_estimator(network, NULL, NULL), EST_INVALID_ARGUMENT, "out is NULL");
    estimator = convert(network, "wrong", NULL);
    expect_error(est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = input, .steps = 1)), EST_INVALID_ARGUMENT,
                 "there is no input x");
    est_estimator_free(estimator);
    est_network_free(network);
}

TEST(memory)
{
    est_network *network = make(7, IMAGE);
    est_dataset *d;

    assert_ok(input(NULL, NULL, &d));

    assert_ok(est_network_build(network, NULL));
    FAULT_LOOP(f, FAULT_PLACES) {
        est_estimator *estimator = NULL;
        est_status     status;

        fault_arm(&f);
        status = est_network_to_estimator(network, EST_ESTIMATOR(.config = EST_TEST_CONFIG(test_path("memory"), NULL)),
                                          &estimator);
        if (status == EST_OK)
            status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = given, .input_user = d, .steps = 1));
        fault_check_lenient(&f, status);
        est_estimator_free(estimator);
        est_test_dir_remove(test_path("memory"));
    }
    est_dataset_free(d);
    est_network_free(network);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
