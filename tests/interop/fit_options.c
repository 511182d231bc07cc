/* SPDX-License-Identifier: Apache-2.0
 *
 * What an epoch is and what it is validated with: fits of datasets and of arrays by their options, beside Keras' with
 * the same first values. This side trains, evaluates and predicts; fit_options.py has the same calls. */
#include <stdio.h>

#include "estoc/network.h"
#include "estoc/ops.h"
#include "support/interop.h"

#define ROWS       50
#define VALIDATION 20
#define WIDTH      6
#define BATCH      7
#define EPOCHS_MAX 8

/* The rows of both, each with a weight. */
static est_tensor *x, *y, *w, *vx, *vy, *vw;

static est_tensor *draw(est_shape shape, float low, uint64_t seed)
{
    est_tensor *t = NULL;

    interop_check(est_tensor_create(EST_F32, shape, &t));
    for (int64_t i = 0; i < est_tensor_count(t); i++) {
        seed                                     = seed * 6364136223846793005u + 1442695040888963407u;
        ((float *)est_tensor_mutable_data(t))[i] = low + (float)((double)(seed >> 40) / (double)(1 << 24));
    }
    return t;
}

static est_dataset *batches(bool validation, bool for_ever)
{
    est_dataset *d = validation ? est_dataset_slices(EST_NAMED_TENSORS({ "x", vx }, { "y", vy }))
                                : est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w }));

    d = est_dataset_batch(d, validation ? 6 : BATCH, NULL);
    if (for_ever) d = est_dataset_repeat(d, EST_FOREVER);
    interop_check(est_dataset_finish(d, &d));
    return d;
}

static est_network *make_network(void)
{
    est_network *network;

    interop_check(est_network_sequential(
        EST_LAYERS(est_layer_dense(4, EST_DENSE(.activation = est_tanh)), est_layer_dense(1, NULL)),
        EST_NETWORK(.seed = 5, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(WIDTH) })), &network));
    interop_check(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = 0.1,
                                                           .metrics          = EST_STRINGS("mae"),
                                                           .weighted_metrics = EST_STRINGS("mse"))));
    interop_check(est_network_build(network, NULL));
    return network;
}

static void say(est_strbuf *out, const char *prefix, const char *name, est_tensor *taken)
{
    char text[96];

    (void)snprintf(text, sizeof text, "%s/%s", prefix, name);
    interop_tensor(out, text, taken);
    est_tensor_free(taken);
}

static void say_variables(est_strbuf *out, const char *prefix, est_network *network)
{
    static const char *const names[] = { "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias" };

    for (int i = 0; i < 4; i++) {
        char        number[8];
        est_tensor *value;

        (void)snprintf(number, sizeof number, "%d", i);
        interop_check(est_session_read(est_network_session(network), names[i], &value));
        say(out, prefix, number, value);
    }
}

/* A log has no value, NaN, in an epoch that was not validated. */
static void say_history(est_strbuf *out, const est_history *history)
{
    double      values[EPOCHS_MAX];
    int         n = est_history_epochs(history);
    est_tensor *t;

    for (int k = 0; k <= est_history_count(history); k++) {
        const char *name = k > 0 ? est_history_name(history, k - 1) : "epoch";

        for (int i = 0; i < n; i++) {
            values[i] = k > 0 ? est_history_value(history, name, i) : (double)est_history_epoch(history, i);
        }
        interop_check(est_tensor_create_from(EST_F64, EST_SHAPE(n), values, &t));
        say(out, "history", name, t);
    }
}

/* The loss and the metrics over so many batches, and predictions. */
static void say_results(est_strbuf *out, est_network *network, int64_t steps)
{
    est_dataset *d = batches(false, steps > 0);
    est_metrics *metrics;
    est_tensor  *t;

    interop_check(est_network_evaluate(network, EST_NETWORK_EVALUATE(.input = d, .steps = steps), &metrics));
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        double value = est_metrics_value(metrics, i);

        interop_check(est_tensor_create_from(EST_F64, EST_SHAPE_SCALAR, &value, &t));
        say(out, "evaluate", est_metrics_name(metrics, i), t);
    }
    est_metrics_free(metrics);
    interop_check(est_network_predict(network, EST_NETWORK_PREDICT(.input = d, .steps = steps), &t));
    say(out, "predict", "0", t);
    est_dataset_free(d);
}

/* Fits a new network, and a second time with `again` unless it is NULL. */
static void train(const char *file, const est_fit_options *options, const est_fit_options *again, int64_t steps)
{
    est_network *network = make_network();
    est_history *history;
    est_strbuf   out = { 0 };

    say_variables(&out, "before", network);
    interop_check(est_network_fit(network, options, &history));
    if (again != NULL) {
        est_history_free(history);
        interop_check(est_network_fit(network, again, &history));
    }
    say_variables(&out, "after", network);
    say_history(&out, history);
    say_results(&out, network, steps);
    interop_save(file, &out);
    est_strbuf_clear(&out);
    est_history_free(history);
    est_network_free(network);
}

/* Rows in their order, without a word about it. */
#define FIT(...) EST_FIT(.no_shuffle = true, .verbose = EST_VERBOSE_NONE, __VA_ARGS__)

TEST(options)
{
    est_named_tensors rows, validation;
    est_dataset      *once, *endless, *held_out, *held_out_endless;
    est_strbuf        out = { 0 };

    x  = draw(EST_SHAPE(ROWS, WIDTH), -0.5f, 1);
    y  = draw(EST_SHAPE(ROWS, 1), -0.5f, 2);
    w  = draw(EST_SHAPE(ROWS), 0.5f, 3);
    vx = draw(EST_SHAPE(VALIDATION, WIDTH), -0.5f, 4);
    vy = draw(EST_SHAPE(VALIDATION, 1), -0.5f, 5);
    vw = draw(EST_SHAPE(VALIDATION), 0.5f, 6);

    rows             = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w });
    validation       = EST_NAMED_TENSORS({ "x", vx }, { "y", vy }, { "sample_weight", vw });
    once             = batches(false, false);
    endless          = batches(false, true);
    held_out         = batches(true, false);
    held_out_endless = batches(true, true);

    train("dataset", FIT(.input = once, .epochs = 5, .validation = held_out, .validation_freq = 2), NULL, 0);
    train(
        "endless",
        FIT(.input = endless, .epochs = 4, .steps_per_epoch = 5, .validation = held_out_endless, .validation_steps = 2),
        NULL, 3);
    train("too_short", FIT(.input = once, .epochs = 4, .steps_per_epoch = 3), NULL, 0);
    train("arrays", FIT(.arrays = rows, .batch_size = BATCH, .epochs = 3, .validation_arrays = validation), NULL, 0);
    train("arrays_steps", FIT(.arrays = rows, .batch_size = BATCH, .epochs = 3, .steps_per_epoch = 5), NULL, 0);
    train("arrays_too_short", FIT(.arrays = rows, .batch_size = 20, .epochs = 2, .steps_per_epoch = 5), NULL, 0);
    train("default_batch", FIT(.arrays = rows, .epochs = 2, .validation_split = 0.3), NULL, 0);
    train("two_fits", FIT(.arrays = rows, .batch_size = BATCH, .epochs = 2),
          FIT(.input = once, .initial_epoch = 2, .epochs = 5), 2);

    interop_tensor(&out, "x", x);
    interop_tensor(&out, "y", y);
    interop_tensor(&out, "w", w);
    interop_tensor(&out, "vx", vx);
    interop_tensor(&out, "vy", vy);
    interop_tensor(&out, "vw", vw);
    interop_save("rows", &out);
    interop_ask("check_options");
    est_strbuf_clear(&out);
    est_dataset_free(once);
    est_dataset_free(endless);
    est_dataset_free(held_out);
    est_dataset_free(held_out_endless);
    for (int i = 0; i < 3; i++) est_tensor_free(rows.data[i].tensor);
    for (int i = 0; i < 3; i++) est_tensor_free(validation.data[i].tensor);
}

int main(void)
{
    return INTEROP_MAIN("fit_options");
}
