/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as an object, with replicas: compiled, fitted over a dataset and over arrays, and evaluated. Every row says
 * that 1 is 1, so that the loss shows how the training goes and nothing else. Above each part, the TensorFlow 2 calls
 * that it stands for.
 *
 *   keras_fit [--replicas 1|2] */
#include <estoc/estoc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS              100
#define EPOCHS            2
#define BATCH_PER_REPLICA 5

/* --- data --------------------------------------------------------------------------------------------------------- */

/* tf.data.Dataset.from_tensors(([1.], [1.])).repeat(ROWS).batch(batch_size) */
static est_status make_dataset(int64_t batch_size, est_dataset **out)
{
    est_tensor *one = NULL;

    EST_TRY(est_tensor_f32(EST_SHAPE(1), (const float[]){ 1 }, &one));
    est_dataset *d = est_dataset_tensors(EST_NAMED_TENSORS({ "x", one }, { "y", one }));
    d              = est_dataset_repeat(d, ROWS);
    d              = est_dataset_batch(d, batch_size, NULL);
    est_tensor_free(one); /* the dataset shares it */
    return est_dataset_finish(d, out);
}

/* np.ones((ROWS, 1)) */
static est_status make_ones(est_tensor **out)
{
    float ones[ROWS];

    for (int i = 0; i < ROWS; i++) ones[i] = 1;
    return est_tensor_f32(EST_SHAPE(ROWS, 1), ones, out);
}

/* --- model -------------------------------------------------------------------------------------------------------- */

/* with mirrored_strategy.scope():
 *     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
 * model.compile(loss='mse', optimizer='sgd') */
static est_status make_model(const est_strategy *strategy, est_network **out)
{
    EST_TRY(est_network_sequential(EST_LAYERS(est_layer_dense(1, NULL)),
        EST_NETWORK(.strategy = strategy, .seed = 1,
            .inputs = EST_INPUTS({ .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(1) })),
        out));
    return est_network_compile(*out, EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
}

static void print_history(const char *what, est_history *history)
{
    printf("%s: loss", what);
    for (int i = 0; i < est_history_epochs(history); i++) printf(" %.6g", est_history_value(history, "loss", i));
    printf("\n");
    est_history_free(history);
}

/* --- training ----------------------------------------------------------------------------------------------------- */

/* model.fit(dataset, epochs=EPOCHS)
 * model.evaluate(dataset) */
static est_status fit_dataset(est_network *model)
{
    est_dataset *dataset = NULL;
    est_history *history = NULL;
    est_metrics *metrics = NULL;

    EST_TRY(make_dataset(10, &dataset));
    est_status status = est_network_fit(model, EST_FIT(.input = dataset, .epochs = EPOCHS), &history);
    if (status == EST_OK) status = est_network_evaluate(model, EST_NETWORK_EVALUATE(.input = dataset), &metrics);
    print_history("dataset", history);
    if (status == EST_OK) printf("evaluated: loss %.6g\n", est_metrics_get(metrics, "loss"));
    est_metrics_free(metrics);
    est_dataset_free(dataset);
    return status;
}

/* inputs, targets = np.ones((ROWS, 1)), np.ones((ROWS, 1))
 * model.fit(inputs, targets, epochs=EPOCHS, batch_size=10) */
static est_status fit_arrays(est_network *model)
{
    est_tensor  *inputs = NULL, *targets = NULL;
    est_history *history = NULL;

    est_status status = make_ones(&inputs);
    if (status == EST_OK) status = make_ones(&targets);
    if (status == EST_OK) {
        status = est_network_fit(model,
            EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", inputs }, { "y", targets }), .batch_size = 10, .epochs = EPOCHS),
            &history);
    }
    print_history("arrays", history);
    est_tensor_free(inputs);
    est_tensor_free(targets);
    return status;
}

/* LEARNING_RATES_BY_BATCH_SIZE = {5: 0.1, 10: 0.15}
 * learning_rate = LEARNING_RATES_BY_BATCH_SIZE[global_batch_size] */
static double learning_rate_of(int64_t global_batch_size)
{
    static const struct {
        int64_t batch_size;
        double  learning_rate;
    } rates[] = { { 5, 0.1 }, { 10, 0.15 } };

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (rates[i].batch_size == global_batch_size) return rates[i].learning_rate;
    }
    return NAN;
}

/* global_batch_size = BATCH_SIZE_PER_REPLICA * mirrored_strategy.num_replicas_in_sync
 * dataset = tf.data.Dataset.from_tensors(([1.], [1.])).repeat(ROWS).batch(global_batch_size)
 *
 * and a fit of a new model with the learning rate that goes with it. */
static est_status fit_by_batch_size(const est_strategy *strategy)
{
    int64_t      global_batch_size = BATCH_PER_REPLICA * est_strategy_num_replicas_in_sync(strategy);
    double       learning_rate     = learning_rate_of(global_batch_size);
    est_dataset *dataset           = NULL;
    est_network *model             = NULL;
    est_history *history           = NULL;

    printf("global batch %d, learning rate %g\n", (int)global_batch_size, learning_rate);
    est_status status = make_dataset(global_batch_size, &dataset);
    if (status == EST_OK) status = make_model(strategy, &model);
    if (status == EST_OK) {
        status = est_network_compile(
            model, EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = learning_rate));
    }
    if (status == EST_OK) status = est_network_fit(model, EST_FIT(.input = dataset, .epochs = EPOCHS), &history);
    print_history("by batch size", history);
    est_network_free(model);
    est_dataset_free(dataset);
    return status;
}

int main(int argc, char **argv)
{
    est_strategy *strategy = NULL;
    est_network  *model    = NULL;
    int           replicas = 2;

    if (argc == 3 && strcmp(argv[1], "--replicas") == 0) replicas = (int)strtol(argv[2], NULL, 10);
    if ((argc != 1 && argc != 3) || replicas < 1 || replicas > 2) {
        fprintf(stderr, "usage: keras_fit [--replicas 1|2]\n");
        return 2;
    }

    /* mirrored_strategy = tf.distribute.MirroredStrategy() */
    est_status status = est_mirrored_strategy(EST_MIRRORED(.replicas = replicas), &strategy);
    if (status == EST_OK) printf("replicas in sync: %d\n", est_strategy_num_replicas_in_sync(strategy));

    if (status == EST_OK) status = make_model(strategy, &model);
    if (status == EST_OK) status = fit_dataset(model);
    if (status == EST_OK) status = fit_arrays(model);
    if (status == EST_OK) status = fit_by_batch_size(strategy);
    if (status != EST_OK) fprintf(stderr, "keras_fit: %s: %s\n", est_status_name(status), est_error_message());
    est_network_free(model);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
