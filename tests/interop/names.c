/* SPDX-License-Identifier: Apache-2.0
 *
 * Keras' names against Keras: losses with their gradients, metrics over several batches, optimizers over 20 steps,
 * activations. This side computes and says what from; the other side hands the same to Keras' compile. */
#include "estoc/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estoc/optimizers.h"
#include "estoc/session.h"
#include "nn/names.h"
#include "support/interop.h"

#define BATCH   16
#define CLASSES 7
#define BATCHES 3
#define STEPS   20

/* --- data --------------------------------------------------------------------------------------------------------- */

static uint64_t drawn;

/* In [0, 1), the same in every run. */
static double draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (double)(drawn >> 40) / (double)(1 << 24);
}

/* What labels and predictions of a case are. */
typedef enum data_kind {
    NUMBERS,  /* labels and predictions between -2 and 2 */
    POSITIVE, /* between 0 and 2 */
    SIGNS,    /* labels 0 and 1, predictions between -2 and 2 */
    BITS,     /* labels 0 and 1, predictions probabilities */
    ONE_HOT,  /* rows with one 1, predictions distributions, nearly */
    NUMBERED, /* class numbers, int64 */
    SHARES,   /* both are distributions */
} data_kind;

typedef enum data_shape {
    FLAT,     /* [batch, classes] */
    SEQUENCE, /* [batch / 4, 4, classes] */
    COLUMN,   /* labels [batch], predictions [batch, 1] */
} data_shape;

static const char *const shape_names[] = { "flat", "sequence", "column" };

static est_tensor *filled(est_dtype dtype, est_shape shape, double low, double high)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create(dtype, shape, &tensor));
    for (int64_t i = 0; i < est_shape_count(&shape); i++) {
        double x = low + (high - low) * draw();

        if (dtype == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(tensor))[i] = (int64_t)x;
        } else {
            ((float *)est_tensor_mutable_data(tensor))[i] = (float)x;
        }
    }
    return tensor;
}

static void round_all(est_tensor *tensor)
{
    float *x = est_tensor_mutable_data(tensor);

    for (int64_t i = 0; i < est_tensor_count(tensor); i++) x[i] = x[i] < 0.5f ? 0 : 1;
}

static void normalize_rows(est_tensor *tensor, bool one_hot)
{
    float *x = est_tensor_mutable_data(tensor);

    for (int64_t r = 0; r < est_tensor_count(tensor) / CLASSES; r++, x += CLASSES) {
        float sum = 0;
        int   one = (int)(draw() * CLASSES);

        for (int i = 0; i < CLASSES; i++) sum += x[i];
        for (int i = 0; i < CLASSES; i++) x[i] = one_hot ? (float)(i == one) : x[i] / sum;
    }
}

static est_shape prediction_shape(data_shape shape)
{
    if (shape == FLAT) return EST_SHAPE(BATCH, CLASSES);
    return shape == SEQUENCE ? EST_SHAPE(BATCH / 4, 4, CLASSES) : EST_SHAPE(BATCH, 1);
}

static est_shape label_shape(data_kind kind, data_shape shape)
{
    if (shape == COLUMN || (kind == NUMBERED && shape == FLAT)) return EST_SHAPE(BATCH);
    return kind == NUMBERED ? EST_SHAPE(BATCH / 4, 4) : prediction_shape(shape);
}

static est_tensor *labels_of(data_kind kind, data_shape shape)
{
    est_tensor *l = filled(kind == NUMBERED ? EST_I64 : EST_F32, label_shape(kind, shape), kind == NUMBERS ? -2 : 0,
                           kind == NUMBERS || kind == POSITIVE ? 2
                           : kind == NUMBERED                  ? CLASSES
                                                               : 1);

    if (kind == SIGNS || kind == BITS) round_all(l);
    if (kind == ONE_HOT || kind == SHARES) normalize_rows(l, kind == ONE_HOT);
    return l;
}

static est_tensor *predictions_of(data_kind kind, data_shape shape, bool logits)
{
    bool        wide = kind == NUMBERS || kind == SIGNS;
    est_tensor *p    = filled(EST_F32, prediction_shape(shape),
                           logits ? -20
                              : wide ? -2
                                     : 0,
                           logits                     ? 20
                              : wide || kind == POSITIVE ? 2
                                                         : 1);

    if (!logits && kind == SHARES) normalize_rows(p, false);
    return p;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct program {
    est_graph   *graph;
    est_session *session;
} program;

static program program_begin(void)
{
    program p = { 0 };

    interop_check(est_graph_create(1, &p.graph));
    return p;
}

static void program_ready(program *p)
{
    interop_check(est_graph_status(p->graph));
    interop_check(est_session_create(p->graph, NULL, &p->session));
    interop_check(est_session_init(p->session));
}

static void program_end(program *p)
{
    est_session_free(p->session);
    est_graph_free(p->graph);
}

static est_node fed(program *p, const char *name, const est_tensor *like)
{
    return est_placeholder(p->graph, name, est_tensor_dtype(like), *est_tensor_shape(like));
}

/* Appends a tensor called "<key>|<what>". */
static void say(est_strbuf *out, const char *key, const char *what, const est_tensor *tensor)
{
    char name[160];

    snprintf(name, sizeof name, "%s|%s", key, what);
    interop_tensor(out, name, tensor);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

/* How the predictions are made. */
typedef enum made_by { PLAIN, LOGITS, SOFTMAX, SIGMOID } made_by;

static const char *const made_names[] = { "plain", "logits", "softmax", "sigmoid" };

static void say_loss(est_strbuf *out, const est_loss *loss, data_kind kind, data_shape shape, made_by how)
{
    program      p = program_begin();
    est_tensor  *l = labels_of(kind, shape), *x = predictions_of(kind, shape, how != PLAIN), *got[3] = { 0 };
    est_shape    weight_shape = EST_SHAPE(est_tensor_shape(x)->dim[0]);
    est_tensor  *w            = filled(EST_F32, weight_shape, 0, 3);
    est_node     label = fed(&p, "l", l), input = fed(&p, "x", x), weight = fed(&p, "w", w), prediction, each, mean;
    est_gradient g;
    char         key[120];

    prediction = how == SOFTMAX ? est_softmax(input, -1) : how == SIGMOID ? est_sigmoid(input) : input;
    each       = loss->each(loss, label, prediction);
    mean       = est_loss_reduce(each, EST_LOSS(.weights = weight));
    est_gradients(mean, EST_NODES(input), &g);
    program_ready(&p);
    interop_check(est_session_run(p.session, EST_FEEDS({ label, l }, { input, x }, { weight, w }),
                                  EST_NODES(each, mean, g.values), EST_NO_NODES, got));
    snprintf(key, sizeof key, "%s|%s|%s|%g|%g", loss->name, shape_names[shape], made_names[how], loss->a, loss->b);
    say(out, key, "l", l);
    say(out, key, "x", x);
    say(out, key, "w", w);
    say(out, key, "each", got[0]);
    say(out, key, "mean", got[1]);
    say(out, key, "gradient", got[2]);
    for (int i = 0; i < 3; i++) est_tensor_free(got[i]);
    est_tensor_free(l);
    est_tensor_free(x);
    est_tensor_free(w);
    program_end(&p);
}

static const struct {
    const char *name;
    data_kind   kind;
} losses[] = {
    { "mean_squared_error", NUMBERS },
    { "mean_absolute_error", NUMBERS },
    { "mean_absolute_percentage_error", POSITIVE },
    { "mean_squared_logarithmic_error", POSITIVE },
    { "huber", NUMBERS },
    { "log_cosh", NUMBERS },
    { "binary_crossentropy", BITS },
    { "binary_focal_crossentropy", BITS },
    { "categorical_crossentropy", ONE_HOT },
    { "categorical_focal_crossentropy", ONE_HOT },
    { "sparse_categorical_crossentropy", NUMBERED },
    { "hinge", SIGNS },
    { "squared_hinge", SIGNS },
    { "categorical_hinge", ONE_HOT },
    { "poisson", POSITIVE },
    { "kl_divergence", SHARES },
    { "cosine_similarity", NUMBERS },
};

TEST(losses)
{
    est_strbuf out = { 0 };

    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        data_kind kind = losses[i].kind;
        est_loss  loss;

        interop_check(est_loss_by_name(losses[i].name, &loss));
        say_loss(&out, &loss, kind, FLAT, PLAIN);
        say_loss(&out, &loss, kind, SEQUENCE, PLAIN);
        if (kind != ONE_HOT && kind != NUMBERED && kind != SHARES && strcmp(loss.name, "cosine_similarity") != 0) {
            say_loss(&out, &loss, kind, COLUMN, PLAIN);
        }
        if (strstr(losses[i].name, "crossentropy") == NULL) continue;
        say_loss(&out, &loss, kind, FLAT, kind == BITS ? SIGMOID : SOFTMAX);
        loss.from_logits = true;
        say_loss(&out, &loss, kind, SEQUENCE, LOGITS);
    }
    interop_save("losses", &out);
    interop_ask("check_losses");
}

TEST(losses_with_options)
{
    const est_loss  values[]       = { est_loss_value_binary_crossentropy(false, 0.2),
                                       est_loss_value_categorical_crossentropy(false, 0.1), est_loss_value_huber(0.3),
                                       est_loss_value_binary_focal_crossentropy(false, 1.5, 0.3),
                                       est_loss_value_categorical_focal_crossentropy(false, 1.5, 0.4) };
    const est_loss  logits[]       = { est_loss_value_binary_crossentropy(true, 0.2),
                                       est_loss_value_categorical_crossentropy(true, 0.1),
                                       est_loss_value_sparse_categorical_crossentropy(true),
                                       est_loss_value_binary_focal_crossentropy(true, 1.5, 0.3) };
    const data_kind kinds[]        = { BITS, ONE_HOT, NUMBERS, BITS, ONE_HOT };
    const data_kind logits_kinds[] = { BITS, ONE_HOT, NUMBERED, BITS };
    est_strbuf      out            = { 0 };

    for (int i = 0; i < 5; i++) say_loss(&out, &values[i], kinds[i], FLAT, PLAIN);
    for (int i = 0; i < 4; i++) say_loss(&out, &logits[i], logits_kinds[i], FLAT, LOGITS);
    interop_save("losses", &out);
    interop_ask("check_losses");
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

/* The value after each batch. Keys: the word that was given, and how it is logged. */
static void say_metric(est_strbuf *out, const char *word, data_kind kind, data_shape shape, bool weighted)
{
    program         p = program_begin();
    est_tensor     *l[BATCHES], *x[BATCHES], *w[BATCHES], *value = NULL, *values = NULL;
    est_metric_spec spec;
    est_metric      metric;
    est_node        label, prediction, weight;
    char            key[120], what[16];

    for (int b = 0; b < BATCHES; b++) {
        l[b] = labels_of(kind, shape);
        x[b] = predictions_of(kind, shape, false);
        w[b] = filled(EST_F32, EST_SHAPE(est_tensor_shape(x[b])->dim[0]), 0, 3);
    }
    label      = fed(&p, "l", l[0]);
    prediction = fed(&p, "x", x[0]);
    weight     = fed(&p, "w", w[0]);
    interop_check(est_metric_by_name(word, &spec));
    metric = spec.make(&spec, label, prediction, weighted ? weight : EST_NO_NODE);
    program_ready(&p);
    interop_check(est_tensor_create(EST_F32, EST_SHAPE(BATCHES), &values));
    snprintf(key, sizeof key, "%s|%s|%s|%s", word, spec.name, shape_names[shape], weighted ? "weighted" : "plain");
    for (int b = 0; b < BATCHES; b++) {
        interop_check(est_session_run(p.session, EST_FEEDS({ label, l[b] }, { prediction, x[b] }, { weight, w[b] }),
                                      EST_NO_NODES, EST_NODES(metric.update), NULL));
        interop_check(est_session_run(p.session, EST_NO_FEEDS, EST_NODES(metric.value), EST_NO_NODES, &value));
        ((float *)est_tensor_mutable_data(values))[b] = *(const float *)est_tensor_data(value);
        est_tensor_free(value);
        snprintf(what, sizeof what, "l%d", b);
        say(out, key, what, l[b]);
        what[0] = 'x';
        say(out, key, what, x[b]);
        what[0] = 'w';
        say(out, key, what, w[b]);
        est_tensor_free(l[b]);
        est_tensor_free(x[b]);
        est_tensor_free(w[b]);
    }
    say(out, key, "values", values);
    est_tensor_free(values);
    program_end(&p);
}

TEST(metrics)
{
    static const struct {
        const char *word;
        data_kind   kind;
        data_shape  shape;
    } cases[] = {
        { "accuracy", BITS, COLUMN },
        { "accuracy", ONE_HOT, FLAT },
        { "acc", NUMBERED, FLAT },
        { "accuracy", NUMBERED, SEQUENCE },
        { "Accuracy", ONE_HOT, SEQUENCE },
        { "crossentropy", BITS, COLUMN },
        { "ce", NUMBERED, FLAT },
        { "crossentropy", ONE_HOT, FLAT },
        { "binary_accuracy", BITS, FLAT },
        { "BinaryAccuracy", BITS, COLUMN },
        { "categorical_accuracy", ONE_HOT, FLAT },
        { "CategoricalAccuracy", ONE_HOT, SEQUENCE },
        { "sparse_categorical_accuracy", NUMBERED, FLAT },
        { "SparseCategoricalAccuracy", NUMBERED, SEQUENCE },
        { "top_k_categorical_accuracy", ONE_HOT, FLAT },
        { "TopKCategoricalAccuracy", ONE_HOT, SEQUENCE },
        { "sparse_top_k_categorical_accuracy", NUMBERED, FLAT },
        { "SparseTopKCategoricalAccuracy", NUMBERED, SEQUENCE },
        { "Precision", BITS, COLUMN },
        { "Precision", BITS, FLAT },
        { "Recall", BITS, COLUMN },
        { "Recall", BITS, FLAT },
        { "AUC", BITS, COLUMN },
        { "AUC", BITS, FLAT },
        { "TruePositives", BITS, COLUMN },
        { "TrueNegatives", BITS, FLAT },
        { "FalsePositives", BITS, COLUMN },
        { "FalseNegatives", BITS, FLAT },
        { "RootMeanSquaredError", NUMBERS, COLUMN },
        { "RootMeanSquaredError", NUMBERS, FLAT },
        { "cosine_similarity", NUMBERS, FLAT },
        { "CosineSimilarity", NUMBERS, SEQUENCE },
        { "mse", NUMBERS, COLUMN },
        { "MSE", NUMBERS, FLAT },
        { "MeanSquaredError", NUMBERS, SEQUENCE },
        { "mae", NUMBERS, COLUMN },
        { "MeanAbsoluteError", NUMBERS, FLAT },
        { "mape", POSITIVE, FLAT },
        { "MeanAbsolutePercentageError", POSITIVE, COLUMN },
        { "msle", POSITIVE, FLAT },
        { "MeanSquaredLogarithmicError", POSITIVE, COLUMN },
        { "logcosh", NUMBERS, FLAT },
        { "LogCoshError", NUMBERS, COLUMN },
        { "KLDivergence", SHARES, FLAT },
        { "kullback_leibler_divergence", SHARES, SEQUENCE },
        { "Poisson", POSITIVE, FLAT },
        { "Hinge", SIGNS, FLAT },
        { "squared_hinge", SIGNS, COLUMN },
        { "CategoricalHinge", ONE_HOT, FLAT },
        { "BinaryCrossentropy", BITS, COLUMN },
        { "CategoricalCrossentropy", ONE_HOT, FLAT },
        { "SparseCategoricalCrossentropy", NUMBERED, FLAT },
    };
    est_strbuf out = { 0 };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        say_metric(&out, cases[i].word, cases[i].kind, cases[i].shape, false);
        say_metric(&out, cases[i].word, cases[i].kind, cases[i].shape, true);
    }
    interop_save("metrics", &out);
    interop_ask("check_metrics");
}

/* --- optimizers --------------------------------------------------------------------------------------------------- */

/* 20 steps towards a target, whose gradients have many magnitudes, of a variable that is read whole or row by row. */
static void say_optimizer(est_strbuf *out, const char *name, double rate, bool sparse)
{
    static const int64_t picked[] = { 4, 1, 4, 5 };
    program              p        = program_begin();
    est_shape            shape    = EST_SHAPE(6, 4);
    est_tensor          *first = filled(EST_F32, shape, -1, 1), *target = filled(EST_F32, shape, -1, 1), *value = NULL;
    est_tensor          *scale = filled(EST_F32, shape, -10, 1);
    est_node             w     = est_weight(p.graph, "w", shape, NULL), error, train;
    est_optimizer        optimizer;
    char                 key[80];

    for (int i = 0; i < 24; i++) {
        float *s = (float *)est_tensor_mutable_data(scale) + i;

        *s = expf(*s);
    }
    error = est_mul(est_square(est_sub(est_read_variable(w), est_const(p.graph, target))), est_const(p.graph, scale));
    if (sparse) {
        est_node rows = est_const_i64(p.graph, EST_SHAPE(4), picked);

        error = est_mul(
            est_square(est_sub(est_resource_gather(w, rows), est_gather(est_const(p.graph, target), rows, 0))),
            est_gather(est_const(p.graph, scale), rows, 0));
    }
    interop_check(est_optimizer_by_name(name, rate, true, &optimizer));
    train = est_minimize(optimizer, est_sum(error), NULL);
    program_ready(&p);
    interop_check(est_session_write(p.session, "w", first));
    for (int i = 0; i < STEPS; i++) {
        interop_check(est_session_run(p.session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(train), NULL));
    }
    interop_check(est_session_read(p.session, "w", &value));
    snprintf(key, sizeof key, "%s|%g|%s", name, rate, sparse ? "sparse" : "dense");
    say(out, key, "first", first);
    say(out, key, "target", target);
    say(out, key, "scale", scale);
    say(out, key, "value", value);
    est_tensor_free(first);
    est_tensor_free(target);
    est_tensor_free(scale);
    est_tensor_free(value);
    program_end(&p);
}

TEST(optimizers)
{
    static const char *const names[] = { "sgd",   "adam",    "Adagrad", "adadelta", "Adamax",
                                         "nadam", "rmsprop", "Ftrl",    "AdamW",    "Lion" };
    est_strbuf               out     = { 0 };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            say_optimizer(&out, names[i], 0, sparse != 0);
            say_optimizer(&out, names[i], 0.05, sparse != 0);
        }
    }
    interop_save("optimizers", &out);
    interop_ask("check_optimizers");
}

/* --- activations -------------------------------------------------------------------------------------------------- */

TEST(activations)
{
    est_tensor *x   = filled(EST_F32, EST_SHAPE(8, 5), -4, 4);
    est_strbuf  out = { 0 };

    interop_tensor(&out, "x", x);
    for (int i = 0; i < est_activation_table.n; i++) {
        program         p     = program_begin();
        const est_name *names = (const est_name *)((const char *)est_activation_table.rows +
                                                   (size_t)i * est_activation_table.size);
        est_tensor     *y     = NULL;
        est_node        input = fed(&p, "x", x), output;
        est_activation  f;

        interop_check(est_activation_by_name(names->name, &f));
        output = f(input);
        program_ready(&p);
        interop_check(est_session_run(p.session, EST_FEEDS({ input, x }), EST_NODES(output), EST_NO_NODES, &y));
        interop_tensor(&out, names->name, y);
        est_tensor_free(y);
        program_end(&p);
    }
    est_tensor_free(x);
    interop_save("activations", &out);
    interop_ask("check_activations");
}

int main(void)
{
    return INTEROP_MAIN("names");
}
