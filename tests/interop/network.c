/* SPDX-License-Identifier: Apache-2.0
 *
 * fit against Keras' fit: the same network with the same first values, data, weights and callbacks. This side trains
 * and says what from and what came of it; the other side has Keras do the same. */
#include "estoc/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estoc/callbacks.h"
#include "estoc/ops.h"
#include "support/interop.h"

#define ROWS   50
#define WIDTH  6
#define EPOCHS 8

static uint64_t drawn;

/* In [0, 1), the same in every run. */
static double draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 40) / (double)(1 << 24);
}

static est_tensor *numbers(est_dtype dtype, est_shape shape, double high)
{
    est_tensor *t = NULL;

    interop_check(est_tensor_create(dtype, shape, &t));
    for (int64_t i = 0; i < est_shape_count(&shape); i++) {
        double x = high * draw();

        if (dtype == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(t))[i] = (int64_t)x;
        } else {
            ((float *)est_tensor_mutable_data(t))[i] = (float)(x - high / 2);
        }
    }
    return t;
}

static const est_strings one_output = EST_STRINGS(
    "dense/kernel", "dense/bias", "batch_normalization/gamma", "batch_normalization/beta",
    "batch_normalization/moving_mean", "batch_normalization/moving_variance", "dense_1/kernel", "dense_1/bias");

static const est_strings two_outputs = EST_STRINGS("dense/kernel", "dense/bias", "price/kernel", "price/bias",
                                                   "kind/kernel", "kind/bias");

/* Variables by number, with a prefix. */
static void say_variables(est_strbuf *out, const char *prefix, est_network *network, est_strings names)
{
    for (int i = 0; i < names.n; i++) {
        char        name[96];
        est_tensor *value;

        snprintf(name, sizeof name, "%s/%d", prefix, i);
        interop_check(est_session_read(est_network_session(network), names.data[i], &value));
        interop_tensor(out, name, value);
        est_tensor_free(value);
    }
}

static void say_history(est_strbuf *out, const est_history *history)
{
    for (int k = 0; k < est_history_count(history); k++) {
        const char *column = est_history_name(history, k);
        double      values[EPOCHS];
        char        name[96];
        est_tensor *t;
        int         n = est_history_epochs(history);

        for (int i = 0; i < n; i++) values[i] = est_history_value(history, column, i);
        snprintf(name, sizeof name, "history/%s", column);
        interop_check(est_tensor_create_from(EST_F64, EST_SHAPE(n), values, &t));
        interop_tensor(out, name, t);
        est_tensor_free(t);
    }
}

static void say_scalar(est_strbuf *out, const char *name, double value)
{
    est_tensor *t;

    interop_check(est_tensor_create_from(EST_F64, EST_SHAPE_SCALAR, &value, &t));
    interop_tensor(out, name, t);
    est_tensor_free(t);
}

static void say_evaluation(est_strbuf *out, est_network *network, est_named_tensors all)
{
    est_metrics *metrics;

    interop_check(est_network_evaluate(network, EST_NETWORK_EVALUATE(.arrays = all, .batch_size = 8), &metrics));
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        char name[96];

        snprintf(name, sizeof name, "evaluate/%s", est_metrics_name(metrics, i));
        say_scalar(out, name, est_metrics_value(metrics, i));
    }
    est_metrics_free(metrics);
}

static est_node last_softmax(est_node x)
{
    return est_softmax(x, -1);
}

static est_network *make_network(const char *optimizer)
{
    est_network *network;

    interop_check(est_network_sequential(
        EST_LAYERS(
            est_layer_dense(8, EST_DENSE(.activation = est_relu, .kernel_regularizer = est_l2_regularizer(0.01))),
            est_layer_batch_norm(NULL), est_layer_dense(3, EST_DENSE(.activation = last_softmax))),
        EST_NETWORK(.seed = 5, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(WIDTH) })), &network));
    interop_check(
        est_network_compile(network, EST_COMPILE(.loss = "sparse_categorical_crossentropy", .optimizer = optimizer,
                                                 .learning_rate = 0.02, .metrics = EST_STRINGS("accuracy"),
                                                 .weighted_metrics = EST_STRINGS("sparse_categorical_crossentropy"))));
    interop_check(est_network_build(network, NULL));
    return network;
}

/* Trains with validation, sample weights, early stopping and a plateau, and evaluates and predicts. */
static void train(const char *file, const char *optimizer)
{
    est_tensor       *x = numbers(EST_F32, EST_SHAPE(ROWS, WIDTH), 2), *y = numbers(EST_I64, EST_SHAPE(ROWS), 3);
    est_tensor       *w       = numbers(EST_F32, EST_SHAPE(ROWS), 1), *predicted;
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w });
    est_network      *network = make_network(optimizer);
    est_hook         *slow    = est_reduce_on_plateau_callback(
                   "val_loss", EST_REDUCE_ON_PLATEAU(.factor = 0.5, .patience = 1, .min_delta = 0.02, .cooldown = 1));
    est_hook    *stop = est_early_stopping_callback("val_loss",
                                                    EST_EARLY_STOPPING_CALLBACK(.patience = 4, .min_delta = 0.01));
    est_history *history;
    est_strbuf   out = { 0 };

    for (int i = 0; i < ROWS; i++) ((float *)est_tensor_mutable_data(w))[i] += 1; /* 0.5 to 1.5 */
    interop_tensor(&out, "x", x);
    interop_tensor(&out, "y", y);
    interop_tensor(&out, "w", w);
    say_variables(&out, "before", network, one_output);
    interop_check(est_network_fit(network,
                                  EST_FIT(.arrays = all, .batch_size = 7, .epochs = EPOCHS, .no_shuffle = true,
                                          .validation_split = 0.2, .callbacks = EST_HOOKS(slow, stop),
                                          .verbose = EST_VERBOSE_NONE),
                                  &history));
    say_variables(&out, "after", network, one_output);
    say_history(&out, history);
    say_evaluation(&out, network, all);
    interop_check(
        est_network_predict(network, EST_NETWORK_PREDICT(.arrays = EST_NAMED_TENSORS({ "x", x })), &predicted));
    interop_tensor(&out, "predicted", predicted);
    interop_save(file, &out);
    est_strbuf_clear(&out);
    est_tensor_free(predicted);
    est_history_free(history);
    est_hook_free(slow);
    est_hook_free(stop);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
}

TEST(fit)
{
    train("adam", "adam");
    train("sgd", "sgd");
    interop_ask("check_fit");
}

/* --- callbacks ---------------------------------------------------------------------------------------------------- */

static double schedule(int64_t epoch, double rate, void *user)
{
    (void)user;
    return epoch < 2 ? 0.05 : rate * 0.9;
}

static est_status count_batch(est_loop *loop, void *user)
{
    (void)loop;
    ++*(int *)user;
    return EST_OK;
}

/* A schedule, a CSV file, the best checkpoints, batches that are counted, summaries, and early stopping that restores
 * the best epoch: the variables at the end are its. */
static void train_with_callbacks(void)
{
    est_tensor       *x = numbers(EST_F32, EST_SHAPE(ROWS, WIDTH), 2), *y = numbers(EST_I64, EST_SHAPE(ROWS), 3);
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network = make_network("adam");
    int               n       = 0;
    est_hook         *hooks[6];
    est_history      *history;
    est_strbuf        out = { 0 };

    hooks[0] = est_learning_rate_callback(schedule, NULL);
    hooks[1] = est_csv_callback(interop_path("log.csv"), false);
    hooks[2] = est_model_checkpoint_callback(interop_path("best-{epoch:02d}"),
                                             EST_MODEL_CHECKPOINT(.save_best_only = true, .save_weights_only = true));
    hooks[3] = est_lambda_callback(EST_LAMBDA_CALLBACK(.batch_end = count_batch, .user = &n));
    hooks[4] = est_early_stopping_callback("val_loss",
                                           EST_EARLY_STOPPING_CALLBACK(.patience = 2, .restore_best_weights = true));
    hooks[5] = est_tensorboard_callback(interop_path("board"));
    interop_tensor(&out, "x", x);
    interop_tensor(&out, "y", y);
    say_variables(&out, "before", network, one_output);
    interop_check(
        est_network_fit(network,
                        EST_FIT(.arrays = all, .batch_size = 7, .epochs = EPOCHS, .no_shuffle = true,
                                .validation_split = 0.2, .callbacks = { hooks, 6 }, .verbose = EST_VERBOSE_NONE),
                        &history));
    say_variables(&out, "after", network, one_output);
    say_history(&out, history);
    say_scalar(&out, "batches", n);
    interop_save("callbacks", &out);
    est_strbuf_clear(&out);
    for (int i = 0; i < 6; i++) est_hook_free(hooks[i]);
    est_history_free(history);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* The loss is not finite soon: how many batches there are until terminate-on-NaN ends the fit. */
static void train_to_nan(void)
{
    est_tensor  *x = numbers(EST_F32, EST_SHAPE(ROWS, WIDTH), 2), *y = numbers(EST_F32, EST_SHAPE(ROWS, 1), 2);
    est_hook    *nan = est_terminate_on_nan_callback(), *count;
    est_network *network;
    int          n   = 0;
    est_strbuf   out = { 0 };

    count = est_lambda_callback(EST_LAMBDA_CALLBACK(.batch_end = count_batch, .user = &n));
    interop_check(est_network_sequential(
        EST_LAYERS(est_layer_dense(1, EST_DENSE(.kernel_initializer = est_init_ones()))), NULL, &network));
    interop_check(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = 1e6)));
    interop_check(
        est_network_fit(network,
                        EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .batch_size = 7, .epochs = 3,
                                .no_shuffle = true, .callbacks = EST_HOOKS(count, nan), .verbose = EST_VERBOSE_NONE),
                        NULL));
    interop_tensor(&out, "x", x);
    interop_tensor(&out, "y", y);
    say_scalar(&out, "batches", n);
    interop_save("nan", &out);
    est_strbuf_clear(&out);
    est_hook_free(nan);
    est_hook_free(count);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

TEST(callbacks)
{
    train_with_callbacks();
    train_to_nan();
    interop_ask("check_callbacks");
}

/* --- weights of classes ------------------------------------------------------------------------------------------- */

/* Labels of three classes: their numbers, also as floats with an axis of 1, and one-hot rows. */
typedef struct class_case {
    const char *name, *loss;
    est_dtype   dtype;
    int64_t     width; /* of a row of labels; 0: a number */
    bool        samples, validates;
} class_case;

static est_tensor *classes_of(const class_case *c)
{
    est_tensor *numbers_of = numbers(EST_I64, EST_SHAPE(ROWS), 3), *t;
    int64_t    *at         = est_tensor_mutable_data(numbers_of);
    float      *values;

    if (c->dtype == EST_I64) return numbers_of;
    interop_check(est_tensor_create(EST_F32, EST_SHAPE(ROWS, c->width), &t));
    values = est_tensor_mutable_data(t);
    memset(values, 0, est_tensor_bytes(t));
    for (int64_t i = 0; i < ROWS; i++) {
        if (c->width == 1) values[i] = (float)at[i] - 0.4f; /* which is rounded */
        if (c->width > 1) values[i * c->width + at[i]] = 1;
    }
    est_tensor_free(numbers_of);
    return t;
}

static est_network *make_classes(const class_case *c)
{
    est_network *network;
    est_layer   *last = c->width == 1 ? est_layer_dense(1, NULL)
                                      : est_layer_dense(3, EST_DENSE(.activation = last_softmax));

    interop_check(est_network_sequential(
        EST_LAYERS(est_layer_dense(8, EST_DENSE(.activation = est_relu)), last),
        EST_NETWORK(.seed = 5, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(WIDTH) })), &network));
    interop_check(est_network_compile(network, EST_COMPILE(.loss = c->loss, .optimizer = "adam", .learning_rate = 0.02,
                                                           .metrics = EST_STRINGS(c->width == 1 ? "mae" : "accuracy"),
                                                           .weighted_metrics = EST_STRINGS(c->loss))));
    interop_check(est_network_build(network, NULL));
    return network;
}

static const est_strings two_layers = EST_STRINGS("dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias");

static void train_classes(const class_case *c)
{
    est_tensor       *x = numbers(EST_F32, EST_SHAPE(ROWS, WIDTH), 2), *y = classes_of(c);
    est_tensor       *w       = numbers(EST_F32, EST_SHAPE(ROWS), 1);
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w });
    est_network      *network = make_classes(c);
    est_history      *history;
    est_strbuf        out = { 0 };

    for (int i = 0; i < ROWS; i++) ((float *)est_tensor_mutable_data(w))[i] += 1;
    for (int i = 0; i < all.n; i++) interop_tensor(&out, all.data[i].name, all.data[i].tensor);
    if (!c->samples) all.n--;
    say_variables(&out, "before", network, two_layers);
    interop_check(est_network_fit(network,
                                  EST_FIT(.arrays = all, .batch_size = 7, .epochs = 4, .no_shuffle = true,
                                          .validation_split = c->validates ? 0.2 : 0,
                                          .class_weight = EST_F64S(0.5, 2, 1.25), .verbose = EST_VERBOSE_NONE),
                                  &history));
    say_variables(&out, "after", network, two_layers);
    say_history(&out, history);
    interop_save(c->name, &out);
    est_strbuf_clear(&out);
    est_history_free(history);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(w);
}

/* Of labels of each kind, with and without weights of rows; validation does not use them. */
TEST(class_weights)
{
    static const class_case cases[] = {
        { "sparse", "sparse_categorical_crossentropy", EST_I64, 0, false, true },
        { "samples", "sparse_categorical_crossentropy", EST_I64, 0, true, true },
        { "one_hot", "categorical_crossentropy", EST_F32, 3, false, false },
        { "column", "mse", EST_F32, 1, true, true },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) train_classes(&cases[i]);
    interop_ask("check_class_weights");
}

/* --- several outputs ---------------------------------------------------------------------------------------------- */

static est_node two_heads(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 8,
                           EST_DENSE(.activation = est_relu, .kernel_regularizer = est_l2_regularizer(0.01)));

    (void)graph, (void)training, (void)user;
    return est_outputs(EST_NODES(est_dense(x, 1, EST_DENSE(.name = "price")),
                                 est_dense(x, 3, EST_DENSE(.name = "kind", .activation = last_softmax))));
}

static est_network *make_two_heads(void)
{
    est_network *network;

    interop_check(est_network_create(two_heads,
                                     EST_NETWORK(.seed = 5, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(WIDTH) }),
                                                 .outputs = EST_STRINGS("price", "kind")),
                                     &network));
    interop_check(est_network_compile(
        network,
        EST_COMPILE(.optimizer = "adam", .learning_rate = 0.02,
                    .outputs = EST_COMPILE_OUTPUTS({ "price", .loss = "mse", .metrics = EST_STRINGS("mae"),
                                                     .weighted_metrics = EST_STRINGS("mse") },
                                                   { "kind", .loss = "sparse_categorical_crossentropy",
                                                     .loss_weight = 0.25, .metrics = EST_STRINGS("accuracy") }))));
    interop_check(est_network_build(network, NULL));
    return network;
}

/* 24 steps with sample weights and validation. */
TEST(outputs)
{
    est_tensor *x = numbers(EST_F32, EST_SHAPE(ROWS, WIDTH), 2), *price = numbers(EST_F32, EST_SHAPE(ROWS, 1), 4);
    est_tensor *kind = numbers(EST_I64, EST_SHAPE(ROWS), 3), *w = numbers(EST_F32, EST_SHAPE(ROWS), 1), *predicted[2];
    est_named_tensors all = EST_NAMED_TENSORS({ "x", x }, { "price", price }, { "kind", kind }, { "sample_weight", w });
    est_network      *network = make_two_heads();
    est_history      *history;
    est_strbuf        out = { 0 };

    for (int i = 0; i < ROWS; i++) ((float *)est_tensor_mutable_data(w))[i] += 1;
    for (int i = 0; i < all.n; i++) interop_tensor(&out, all.data[i].name, all.data[i].tensor);
    say_variables(&out, "before", network, two_outputs);
    interop_check(est_network_fit(network,
                                  EST_FIT(.arrays = all, .batch_size = 7, .epochs = 4, .no_shuffle = true,
                                          .validation_split = 0.2, .verbose = EST_VERBOSE_NONE),
                                  &history));
    say_variables(&out, "after", network, two_outputs);
    say_history(&out, history);
    say_evaluation(&out, network, all);
    interop_check(est_network_predict_outputs(network, EST_NETWORK_PREDICT(.arrays = all), predicted));
    for (int i = 0; i < 2; i++) {
        char name[64];

        snprintf(name, sizeof name, "predicted/%s", est_network_output_name(network, i));
        interop_tensor(&out, name, predicted[i]);
        est_tensor_free(predicted[i]);
    }
    interop_save("outputs", &out);
    interop_ask("check_outputs");
    est_strbuf_clear(&out);
    est_history_free(history);
    est_network_free(network);
    for (int i = 0; i < all.n; i++) est_tensor_free(all.data[i].tensor);
}

int main(void)
{
    return INTEROP_MAIN("network");
}
