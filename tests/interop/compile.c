/* SPDX-License-Identifier: Apache-2.0
 *
 * Each loss and each metric that has a name, in a fit of 20 steps beside Keras' with the same first values: a network
 * of two layers whose labels and last activation go with the loss. Rows have weights, which the loss and the second
 * half of the metrics use. This side trains and says what from and what came of it; the other has Keras do the same. */
#include <stdio.h>
#include <string.h>

#include "estoc/network.h"
#include "nn/names.h"
#include "support/interop.h"

#define ROWS   40
#define WIDTH  5
#define UNITS  7
#define BATCH  8
#define EPOCHS 4

static uint64_t drawn;

/* In [0, 1), the same in every run. */
static double draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 40) / (double)(1 << 24);
}

/* --- data --------------------------------------------------------------------------------------------------------- */

/* What labels are. */
typedef enum label_kind {
    NUMBERS,  /* between -2 and 2 */
    POSITIVE, /* between 0 and 2 */
    BITS,     /* 0 and 1 */
    ONE_HOT,  /* rows with one 1 */
    NUMBERED, /* class numbers */
    SHARES    /* rows whose sum is 1 */
} label_kind;

static est_tensor *draw_floats(est_shape shape, double low, double high)
{
    est_tensor *t = NULL;

    interop_check(est_tensor_create(EST_F32, shape, &t));
    for (int64_t i = 0; i < est_tensor_count(t); i++) {
        ((float *)est_tensor_mutable_data(t))[i] = (float)(low + (high - low) * draw());
    }
    return t;
}

static est_tensor *draw_numbers(void)
{
    int64_t     classes[ROWS];
    est_tensor *t = NULL;

    for (int i = 0; i < ROWS; i++) classes[i] = (int64_t)(UNITS * draw());
    interop_check(est_tensor_i64(EST_SHAPE(ROWS), classes, &t));
    return t;
}

/* Makes a row one that has a 1, or whose sum is 1. */
static void fill_row(float *row, bool one_hot)
{
    int   one = (int)(UNITS * draw());
    float sum = 0;

    for (int i = 0; i < UNITS; i++) sum += row[i];
    for (int i = 0; i < UNITS; i++) row[i] = one_hot ? (float)(i == one) : row[i] / sum;
}

static est_tensor *draw_labels(label_kind kind)
{
    est_tensor *t;
    float      *at;

    if (kind == NUMBERED) return draw_numbers();
    t  = draw_floats(EST_SHAPE(ROWS, UNITS), kind == NUMBERS ? -2 : 0, kind == NUMBERS || kind == POSITIVE ? 2 : 1);
    at = est_tensor_mutable_data(t);
    for (int i = 0; i < ROWS * UNITS && kind == BITS; i++) at[i] = at[i] < 0.5f ? 0 : 1;
    for (int i = 0; i < ROWS && (kind == ONE_HOT || kind == SHARES); i++, at += UNITS) fill_row(at, kind == ONE_HOT);
    return t;
}

/* --- networks ----------------------------------------------------------------------------------------------------- */

typedef struct trained_case {
    const char *loss, *activation; /* of the last layer */
    label_kind  kind;
    const char *metrics[10]; /* NULL behind the last */
} trained_case;

/* All but "mean" and "sum", which are of the predictions alone: Keras' compile has no such names. */
static const trained_case cases[] = {
    { "mean_squared_error", "linear", NUMBERS, { "mse", "mae", "RootMeanSquaredError", "cosine_similarity" } },
    { "mean_absolute_error", "linear", NUMBERS, { "MeanAbsoluteError", "logcosh" } },
    { "huber", "linear", NUMBERS, { "huber", "MeanSquaredError" } },
    { "log_cosh", "linear", NUMBERS, { "log_cosh", "CosineSimilarity" } },
    { "cosine_similarity", "linear", NUMBERS, { "cosine_similarity", "mse" } },
    { "mean_absolute_percentage_error", "softplus", POSITIVE, { "mape", "MeanAbsolutePercentageError" } },
    { "mean_squared_logarithmic_error", "softplus", POSITIVE, { "msle", "MeanSquaredLogarithmicError" } },
    { "poisson", "softplus", POSITIVE, { "poisson", "mse" } },
    { "hinge", "tanh", BITS, { "hinge", "squared_hinge" } },
    { "squared_hinge", "tanh", BITS, { "SquaredHinge", "Hinge" } },
    { "binary_crossentropy",
      "sigmoid",
      BITS,
      { "binary_accuracy", "Precision", "AUC", "TruePositives", "FalseNegatives", "accuracy", "Recall",
        "BinaryCrossentropy", "TrueNegatives", "FalsePositives" } },
    { "binary_focal_crossentropy", "sigmoid", BITS, { "binary_focal_crossentropy", "BinaryAccuracy" } },
    { "categorical_crossentropy",
      "softmax",
      ONE_HOT,
      { "accuracy", "CategoricalCrossentropy", "categorical_accuracy", "top_k_categorical_accuracy" } },
    { "categorical_focal_crossentropy", "softmax", ONE_HOT, { "categorical_focal_crossentropy", "crossentropy" } },
    { "categorical_hinge", "linear", ONE_HOT, { "CategoricalHinge", "categorical_accuracy" } },
    { "sparse_categorical_crossentropy",
      "softmax",
      NUMBERED,
      { "acc", "sparse_top_k_categorical_accuracy", "crossentropy", "sparse_categorical_accuracy" } },
    { "kl_divergence", "softmax", SHARES, { "cosine_similarity", "KLDivergence" } },
};

#define CASES ((int)(sizeof cases / sizeof cases[0]))

static est_network *make_network(const trained_case *c)
{
    est_activation last = NULL;
    est_network   *network;
    int            n = 0;

    while (n < 10 && c->metrics[n] != NULL) n++;
    interop_check(est_activation_by_name(c->activation, &last));
    interop_check(est_network_sequential(
        EST_LAYERS(est_layer_dense(6, EST_DENSE(.activation = est_tanh)),
                   est_layer_dense(UNITS, EST_DENSE(.activation = last))),
        EST_NETWORK(.seed = 3, .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(WIDTH) })), &network));
    interop_check(est_network_compile(network, EST_COMPILE(.loss = c->loss, .optimizer = "adam", .learning_rate = 0.02,
                                                           .metrics          = { c->metrics, n / 2 },
                                                           .weighted_metrics = { c->metrics + n / 2, n - n / 2 })));
    interop_check(est_network_build(network, NULL));
    return network;
}

static void say_variables(est_strbuf *out, const char *prefix, est_network *network)
{
    static const char *const names[] = { "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias" };

    for (int i = 0; i < 4; i++) {
        char        name[96];
        est_tensor *value;

        snprintf(name, sizeof name, "%s/%d", prefix, i);
        interop_check(est_session_read(est_network_session(network), names[i], &value));
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

        for (int i = 0; i < EPOCHS; i++) values[i] = est_history_value(history, column, i);
        snprintf(name, sizeof name, "history/%s", column);
        interop_check(est_tensor_create_from(EST_F64, EST_SHAPE(EPOCHS), values, &t));
        interop_tensor(out, name, t);
        est_tensor_free(t);
    }
}

/* The names of loss, activation and metrics. */
static void say_words(est_strbuf *out, const trained_case *c)
{
    est_strbuf  text = { 0 };
    est_tensor *t;

    est_strbuf_printf(&text, "%s %s", c->loss, c->activation);
    for (int i = 0; i < 10 && c->metrics[i] != NULL; i++) est_strbuf_printf(&text, " %s", c->metrics[i]);
    interop_check(est_tensor_string(est_strbuf_text(&text), strlen(est_strbuf_text(&text)), &t));
    interop_tensor(out, "words", t);
    est_tensor_free(t);
    est_strbuf_clear(&text);
}

static void train(const trained_case *c)
{
    est_tensor       *x = draw_floats(EST_SHAPE(ROWS, WIDTH), -2, 2), *y = draw_labels(c->kind);
    est_tensor       *w       = draw_floats(EST_SHAPE(ROWS), 0.5, 1.5);
    est_named_tensors all     = EST_NAMED_TENSORS({ "x", x }, { "y", y }, { "sample_weight", w });
    est_network      *network = make_network(c);
    est_history      *history;
    est_strbuf        out = { 0 };

    say_words(&out, c);
    for (int i = 0; i < all.n; i++) interop_tensor(&out, all.data[i].name, all.data[i].tensor);
    say_variables(&out, "before", network);
    interop_check(est_network_fit(
        network,
        EST_FIT(.arrays = all, .batch_size = BATCH, .epochs = EPOCHS, .no_shuffle = true, .verbose = EST_VERBOSE_NONE),
        &history));
    say_variables(&out, "after", network);
    say_history(&out, history);
    interop_save(c->loss, &out);
    est_strbuf_clear(&out);
    est_history_free(history);
    est_network_free(network);
    for (int i = 0; i < all.n; i++) est_tensor_free(all.data[i].tensor);
}

TEST(fit)
{
    /* No loss of the table is left out. */
    assert_int_equal(est_loss_table.n, CASES);
    for (int i = 0; i < CASES; i++) train(&cases[i]);
    interop_ask("check_fit");
}

int main(void)
{
    return INTEROP_MAIN("compile");
}
