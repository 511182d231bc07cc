/* SPDX-License-Identifier: Apache-2.0
 *
 * Feature columns beside TensorFlow's: the same columns over the same features with the same variables give the same
 * layers, variables have the same names and shapes, and an exported model of them gives the same answers. This side
 * makes the features, runs, and tells all of it; feature.py has the same columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/interop.h"

#define ROWS 40

/* --- features: ROWS random rows each ------------------------------------------------------------------------------ */

typedef struct raw {
    const char *name;
    est_tensor *values, *splits; /* splits NULL: dense */
    est_feature feature;
} raw;

static raw      raws[32];
static int      n_raws;
static uint64_t drawn;

static uint64_t draw(uint64_t n) /* below n */
{
    drawn = drawn * 6364136223846793005U + 1442695040888963407U;
    return (drawn >> 33) % n;
}

static raw *add_raw(const char *name, est_tensor *values, est_tensor *splits)
{
    raws[n_raws] = (raw){ .name = name, .values = values, .splits = splits };
    return &raws[n_raws++];
}

/* Splits of rows of 0 to 3 values; a `like` shares those of another feature. */
static est_tensor *make_splits(const char *like)
{
    int64_t     splits[ROWS + 1] = { 0 };
    est_tensor *out              = NULL;

    for (int i = 0; i < n_raws && like != NULL; i++) {
        if (strcmp(raws[i].name, like) == 0) return est_tensor_ref(raws[i].splits);
    }
    for (int i = 0; i < ROWS; i++) splits[i + 1] = splits[i] + (int64_t)draw(4);
    interop_check(est_tensor_i64(EST_SHAPE(ROWS + 1), splits, &out));
    return out;
}

static void add_floats(const char *name, est_shape shape, bool ragged, const char *like, bool nan)
{
    est_tensor *splits = ragged ? make_splits(like) : NULL, *values = NULL;

    if (ragged) shape = EST_SHAPE(((const int64_t *)est_tensor_data(splits))[ROWS]);
    interop_check(est_tensor_create(EST_F32, shape, &values));
    for (int64_t i = 0; i < est_tensor_count(values); i++) {
        ((float *)est_tensor_mutable_data(values))[i] = nan && draw(5) == 0 ? NAN : (float)draw(4000) / 1000 - 1;
    }
    add_raw(name, values, splits);
}

static void add_ints(const char *name, est_shape shape, bool ragged, int64_t low, int64_t high)
{
    est_tensor *splits = ragged ? make_splits(NULL) : NULL, *values = NULL;

    if (ragged) shape = EST_SHAPE(((const int64_t *)est_tensor_data(splits))[ROWS]);
    interop_check(est_tensor_create(EST_I64, shape, &values));
    for (int64_t i = 0; i < est_tensor_count(values); i++) {
        ((int64_t *)est_tensor_mutable_data(values))[i] = low + (int64_t)draw((uint64_t)(high - low));
    }
    add_raw(name, values, splits);
}

static void add_words(const char *name, est_shape shape, bool ragged)
{
    static const char *const words[] = { "red", "green", "blue", "", "a longer word, with a comma", "x", "yellow" };
    est_tensor              *splits = ragged ? make_splits(NULL) : NULL, *values = NULL;

    if (ragged) shape = EST_SHAPE(((const int64_t *)est_tensor_data(splits))[ROWS]);
    interop_check(est_tensor_create(EST_STRING, shape, &values));
    for (int64_t i = 0; i < est_tensor_count(values); i++) {
        const char *word = words[draw(7)];

        interop_check(est_tensor_set_string(values, i, word, strlen(word)));
    }
    add_raw(name, values, splits);
}

static void make_features(void)
{
    add_floats("num", EST_SHAPE(ROWS, 1), false, NULL, false);
    add_floats("flat", EST_SHAPE(ROWS), false, NULL, false);
    add_floats("square", EST_SHAPE(ROWS, 2, 2), false, NULL, false);
    add_floats("nans", EST_SHAPE(ROWS, 2), false, NULL, true);
    add_ints("int", EST_SHAPE(ROWS, 1), false, -5, 5);
    add_ints("id", EST_SHAPE(0), true, -1, 6);
    add_ints("odd_id", EST_SHAPE(ROWS, 2), false, -4, 12);
    add_ints("hash_int", EST_SHAPE(ROWS, 2), false, -4, 9);
    add_ints("year", EST_SHAPE(0), true, 1990, 2000);
    add_words("word", EST_SHAPE(0), true);
    add_words("dense_word", EST_SHAPE(ROWS, 2), false);
    add_words("color", EST_SHAPE(ROWS), false);
    add_words("key", EST_SHAPE(0), true);
    add_words("dense_key", EST_SHAPE(ROWS, 1), false);
    add_floats("weight", EST_SHAPE(0), true, "id", false); /* some are not above 0 */
    add_ints("step_id", EST_SHAPE(0), true, -1, 4);
    add_floats("step_num", EST_SHAPE(0), true, "step_id", false);
}

static est_feature find(void *user, const char *name)
{
    est_graph *graph = user;

    for (int i = 0; i < n_raws; i++) {
        est_shape shape = *est_tensor_shape(raws[i].values);

        if (strcmp(raws[i].name, name) != 0) continue;
        shape.dim[0] = -1;
        if (raws[i].feature.values.graph != graph) {
            raws[i].feature        = (est_feature){ 0 };
            raws[i].feature.values = est_named(est_placeholder(graph, NULL, est_tensor_dtype(raws[i].values), shape),
                                               name);
            if (raws[i].splits != NULL) raws[i].feature.splits = est_placeholder(graph, NULL, EST_I64, EST_SHAPE(-1));
        }
        return raws[i].feature;
    }
    return (est_feature){ 0 };
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

#define COLUMNS_MAX 64

typedef struct lists {
    const est_column *dense[COLUMNS_MAX], *linear[COLUMNS_MAX], *steps[COLUMNS_MAX];
    int               n_dense, n_linear, n_steps;
} lists;

static est_node shifted(est_node x, const void *user)
{
    (void)user;
    return est_shift(est_scale(x, 0.5), 1);
}

static void categorical(lists *l, const est_column *column, int64_t dimension,
                        const est_embedding_column_options *options)
{
    l->linear[l->n_linear++] = column;
    l->dense[l->n_dense++]   = est_indicator_column(column);
    l->dense[l->n_dense++]   = est_embedding_column(column, dimension, options);
}

static void numbers(lists *l, est_columns *c)
{
    static const float seven[] = { 7 };
    const est_column  *num     = est_numeric_column(c, "num", NULL);
    const est_column  *square  = est_numeric_column(c, "square",
                                                    EST_NUMERIC(.shape = EST_SHAPE(2, 2), .normalizer = shifted));
    const est_column  *flat    = est_numeric_column(c, "flat", EST_NUMERIC(.default_value = { seven, 1 }));
    const est_column  *ints    = est_numeric_column(c, "int", EST_NUMERIC(.dtype = EST_I64));
    const est_column  *nans    = est_numeric_column(c, "nans", EST_NUMERIC(.shape = EST_SHAPE(2)));
    const est_column  *in[]    = { num,
                                   square,
                                   flat,
                                   ints,
                                   est_bucketized_column(num, EST_F32S(-0.5F, 0, 1)),
                                   est_bucketized_column(nans, EST_F32S(0, 2)) };

    for (int i = 0; i < 6; i++) l->dense[l->n_dense++] = l->linear[l->n_linear++] = in[i];
    categorical(l, est_crossed_column(EST_COLUMN_LIST(in[4], in[5]), 30, 0), 2, NULL);
}

static void categories(lists *l, est_columns *c)
{
    static const char *const colors[] = { "red", "green", "blue" };
    static const int64_t     years[]  = { 1993, 1990, 1999 };
    est_tensor              *list     = NULL;
    const est_column        *id       = est_identity_column(c, "id", 6, NULL);
    const est_column        *odd      = est_identity_column(c, "odd_id", 6,
                                                            EST_CATEGORICAL(.has_default = true, .default_value = 2));
    const est_column        *color    = est_vocabulary_strings_column(c, "color", (est_strings){ colors, 3 }, NULL);
    const est_column        *key = est_key_column(c, "key"), *dense_key = est_key_column(c, "dense_key");
    const est_column        *file = est_vocabulary_file_column(c, "dense_word", interop_path("vocabulary.txt"),
                                                               EST_CATEGORICAL(.vocabulary_size = 4, .num_oov_buckets = 3));
    const est_column        *year, *pair;

    interop_check(est_tensor_i64(EST_SHAPE(3), years, &list));
    year = est_vocabulary_list_column(c, "year", list, EST_CATEGORICAL(.has_default = true, .default_value = 1));
    est_tensor_free(list);
    categorical(l, id, 3, EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SQRTN));
    categorical(l, odd, 1, EST_EMBEDDING_COLUMN(.max_norm = 0.5));
    categorical(l, est_hash_bucket_column(c, "word", 10, NULL), 4, EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SUM));
    categorical(l, est_hash_bucket_column(c, "hash_int", 7, EST_CATEGORICAL(.dtype = EST_I64)), 2, NULL);
    categorical(l, color, 2, NULL);
    categorical(l, year, 2, NULL);
    categorical(l, file, 2, NULL);
    pair = est_crossed_column(EST_COLUMN_LIST(key, color), 50, 0);
    categorical(l, pair, 2, NULL);
    categorical(l, est_crossed_column(EST_COLUMN_LIST(dense_key, id, year), 50, 42), 2, NULL);
    categorical(l, est_crossed_column(EST_COLUMN_LIST(odd, pair), 50, 0), 2, NULL);
    categorical(l, est_crossed_column(EST_COLUMN_LIST(est_identity_column(c, "odd_id", 6, NULL), year), 50, 0), 2,
                NULL);
    categorical(l, est_weighted_column(id, "weight"), 2, NULL);
}

static void shared(lists *l, est_columns *c)
{
    const est_column *out[2];

    est_shared_embedding_columns(
        EST_COLUMN_LIST(est_identity_column(c, "odd_id", 12, EST_CATEGORICAL(.has_default = true)),
                        est_identity_column(c, "id", 12, NULL)),
        3, NULL, out);
    for (int i = 0; i < 2; i++) l->dense[l->n_dense++] = l->linear[l->n_linear++] = out[i];
}

static void sequences(lists *l, est_columns *c)
{
    static const float pad[] = { -3 };
    const est_column  *id    = est_identity_column(c, "step_id", 4, EST_CATEGORICAL(.sequence = true));

    l->steps[l->n_steps++] = est_embedding_column(id, 3, NULL);
    l->steps[l->n_steps++] = est_indicator_column(id);
    l->steps[l->n_steps++] = est_sequence_numeric_column(c, "step_num", EST_NUMERIC(.default_value = { pad, 1 }));
}

static est_columns *make_columns(lists *l, bool with_shared)
{
    est_columns *c = est_columns_create();

    assert_non_null(c);
    memset(l, 0, sizeof *l);
    numbers(l, c);
    categories(l, c);
    if (with_shared) shared(l, c);
    sequences(l, c);
    interop_check(est_columns_status(c));
    return c;
}

/* --- running and telling ------------------------------------------------------------------------------------------ */

static void say_features(est_strbuf *out)
{
    char name[128];

    for (int i = 0; i < n_raws; i++) {
        snprintf(name, sizeof name, "feature/%s/values", raws[i].name);
        interop_tensor(out, name, raws[i].values);
        snprintf(name, sizeof name, "feature/%s/splits", raws[i].name);
        if (raws[i].splits != NULL) interop_tensor(out, name, raws[i].splits);
    }
}

/* Gives every variable random values and tells them. */
static void say_variables(est_strbuf *out, est_session *session)
{
    for (int i = 0; i < est_session_variables(session); i++) {
        est_tensor *value = NULL;
        char        name[256];

        interop_check(est_session_read(session, est_session_variable(session, i), &value));
        for (int64_t k = 0; k < est_tensor_count(value); k++) {
            ((float *)est_tensor_mutable_data(value))[k] = (float)draw(2000) / 1000 - 1;
        }
        interop_check(est_session_write(session, est_session_variable(session, i), value));
        snprintf(name, sizeof name, "variable/%s", est_session_variable(session, i));
        interop_tensor(out, name, value);
        est_tensor_free(value);
    }
}

static void say_results(est_strbuf *out, est_session *session, const est_node *nodes, const char *const *names, int n)
{
    est_feed    feeds[64];
    est_tensor *results[8];
    int         n_feeds = 0;

    for (int i = 0; i < n_raws; i++) {
        if (raws[i].feature.values.graph != nodes[0].graph) continue;
        feeds[n_feeds++] = (est_feed){ raws[i].feature.values, raws[i].values };
        if (raws[i].splits != NULL) feeds[n_feeds++] = (est_feed){ raws[i].feature.splits, raws[i].splits };
    }
    interop_check(
        est_session_run(session, (est_feeds){ feeds, n_feeds }, (est_nodes){ nodes, n }, EST_NO_NODES, results));
    for (int i = 0; i < n; i++) {
        char name[128];

        snprintf(name, sizeof name, "result/%s", names[i]);
        interop_tensor(out, name, results[i]);
        est_tensor_free(results[i]);
    }
}

TEST(layers)
{
    static const char *const names[] = { "input_layer", "linear_sum", "linear_mean", "linear_sqrtn",
                                         "steps",       "lengths",    "context" };
    est_graph               *graph   = NULL;
    est_session             *session = NULL;
    est_strbuf               out     = { 0 };
    est_features             features;
    est_node                 nodes[7];
    est_columns             *c;
    lists                    l;

    c = make_columns(&l, true);
    interop_check(est_graph_create(1, &graph));
    features = (est_features){ .graph = graph, .find = find, .user = graph };
    nodes[0] = est_input_layer(features, (est_column_list){ l.dense, l.n_dense }, EST_INPUT_LAYER(.v1 = true));
    for (int i = 0; i < 3; i++) {
        static const est_combiner combiners[] = { EST_COMBINE_DEFAULT, EST_COMBINE_MEAN, EST_COMBINE_SQRTN };

        nodes[1 + i] = est_linear_model(features, (est_column_list){ l.linear, l.n_linear },
                                        EST_LINEAR_MODEL(.units = 2, .combiner = combiners[i], .v1 = true));
    }
    nodes[4] = est_sequence_input_layer(features, (est_column_list){ l.steps, l.n_steps }, &nodes[5]);
    nodes[6] = est_concat_context(nodes[4], nodes[0]);
    interop_check(est_graph_status(graph));
    interop_check(est_session_create(graph, NULL, &session));
    interop_check(est_session_init(session));
    say_features(&out);
    say_variables(&out, session);
    say_results(&out, session, nodes, names, 7);
    interop_save("layers", &out);
    est_session_free(session);
    est_graph_free(graph);
    est_columns_free(c);
    interop_ask("layers");
}

/* The scopes of canned estimators, whose checkpoints have these variables. */
TEST(names)
{
    est_graph   *graph = NULL;
    est_strbuf   out   = { 0 };
    est_features features;
    est_columns *c;
    lists        l;

    c = make_columns(&l, false);
    interop_check(est_graph_create(1, &graph));
    features = (est_features){ .graph = graph, .find = find, .user = graph };
    est_scope_push(graph, "dnn");
    est_scope_push(graph, "input_from_feature_columns");
    (void)est_input_layer(features, (est_column_list){ l.dense, l.n_dense }, EST_INPUT_LAYER(.v1 = true));
    est_scope_pop(graph);
    est_scope_pop(graph);
    est_scope_push(graph, "linear");
    (void)est_linear_model(features, (est_column_list){ l.linear, l.n_linear }, EST_LINEAR_MODEL(.v1 = true));
    est_scope_pop(graph);
    interop_check(est_graph_status(graph));
    say_features(&out);
    for (int i = 0; i < est_global_variables(graph).n; i++) {
        est_node    variable = est_global_variables(graph).data[i];
        est_tensor *shape    = NULL;
        char        name[256];

        snprintf(name, sizeof name, "shape/%s", est_node_name(variable));
        interop_check(est_tensor_i64(EST_SHAPE(est_node_shape(variable)->rank), est_node_shape(variable)->dim, &shape));
        interop_tensor(&out, name, shape);
        est_tensor_free(shape);
    }
    interop_save("names", &out);
    est_graph_free(graph);
    est_columns_free(c);
    interop_ask("names");
}

TEST(specs)
{
    const est_column       *all[2 * COLUMNS_MAX];
    est_strbuf              out  = { 0 };
    est_parse_spec         *spec = NULL;
    const est_feature_spec *features;
    est_columns            *c;
    lists                   l;
    int                     n = 0;

    c = make_columns(&l, false);
    memcpy(all, l.dense, sizeof l.dense);
    memcpy(all + l.n_dense, l.steps, sizeof l.steps);
    interop_check(est_parse_spec_create((est_column_list){ all, l.n_dense + l.n_steps }, &spec));
    features = est_parse_spec_features(spec).data;
    n        = est_parse_spec_features(spec).n;
    for (int i = 0; i < n; i++) {
        est_tensor *shape = NULL;
        char        name[256];

        snprintf(name, sizeof name, "%s/%s/%s", features[i].name, est_dtype_name(features[i].dtype),
                 features[i].rows == EST_ROWS_RAGGED ? "var" : "fixed");
        interop_check(est_tensor_i64(EST_SHAPE(features[i].shape.rank), features[i].shape.dim, &shape));
        interop_tensor(&out, name, shape);
        est_tensor_free(shape);
        snprintf(name, sizeof name, "%s/default", features[i].name);
        if (features[i].default_value != NULL) interop_tensor(&out, name, features[i].default_value);
    }
    interop_save("specs", &out);
    est_parse_spec_free(spec);
    est_columns_free(c);
    interop_ask("specs");
}

/* --- a model over them, exported ---------------------------------------------------------------------------------- */

static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    const lists *l      = params;
    est_node     wide   = est_linear_model(est_model_features(m), (est_column_list){ l->linear, l->n_linear }, NULL);
    est_node     deep   = est_input_layer(est_model_features(m), (est_column_list){ l->dense, l->n_dense }, NULL);
    est_node     logits = est_add(wide, est_dense(deep, 1, NULL));
    est_node     loss;

    est_model_predict(m, "logits", logits);
    if (mode == EST_PREDICT) return est_model_status(m);
    loss = est_mean(est_square(est_shift(logits, -1)));
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adagrad(0.1, NULL), loss);
    return est_model_status(m);
}

typedef struct rows {
    est_tensor             *examples; /* strings [ROWS] */
    const est_feature_spec *specs;
    int                     n_specs;
} rows;

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const rows  *r = user;
    est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "example", r->examples }));

    d = est_dataset_parse_examples(d, (est_feature_specs){ r->specs, r->n_specs }, 8, NULL);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(d, out);
}

/* The features of one row as an Example: what is dense becomes as many values as a row has. */
static void set_row(est_example *example, int row)
{
    for (int i = 0; i < n_raws; i++) {
        const int64_t *splits = raws[i].splits != NULL ? est_tensor_data(raws[i].splits) : NULL;
        int64_t        width  = est_tensor_count(raws[i].values) / ROWS;
        int64_t        first  = splits != NULL ? splits[row] : row * width,
                n             = splits != NULL ? splits[row + 1] - first : width;

        switch (est_tensor_dtype(raws[i].values)) {
        case EST_F32:
            est_example_set_f32s(example, raws[i].name, (const float *)est_tensor_data(raws[i].values) + first,
                                 (size_t)n);
            break;
        case EST_I64:
            est_example_set_i64s(example, raws[i].name, (const int64_t *)est_tensor_data(raws[i].values) + first,
                                 (size_t)n);
            break;
        default:
            est_example_set_bytes(example, raws[i].name, (const est_str *)est_tensor_data(raws[i].values) + first,
                                  (size_t)n);
        }
    }
}

static est_tensor *make_examples(void)
{
    est_tensor  *out     = NULL;
    est_example *example = NULL;
    est_str      bytes;

    interop_check(est_tensor_create(EST_STRING, EST_SHAPE(ROWS), &out));
    interop_check(est_example_create(&example));
    for (int row = 0; row < ROWS; row++) {
        est_example_reset(example);
        set_row(example, row);
        interop_check(est_example_serialize(example, &bytes));
        interop_check(est_tensor_set_string(out, row, bytes.data, bytes.size));
    }
    est_example_free(example);
    return out;
}

static void say_predictions(est_strbuf *out, est_estimator *e, rows *r)
{
    est_predictions *predictions = NULL;
    est_tensor      *all         = NULL;
    float            logits[ROWS];

    interop_check(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = input_fn, .input_user = r), &predictions));
    for (int row = 0; row < ROWS; row++) {
        interop_check(est_predictions_next(predictions));
        logits[row] = *(const float *)est_tensor_data(est_predictions_get(predictions, "logits"));
    }
    est_predictions_free(predictions);
    interop_check(est_tensor_f32(EST_SHAPE(ROWS, 1), logits, &all));
    interop_tensor(out, "examples", r->examples);
    interop_tensor(out, "logits", all);
    est_tensor_free(all);
}

/* A trained model with all columns but sequences answers in TensorFlow as it does here. */
TEST(export)
{
    est_strbuf      out  = { 0 };
    est_parse_spec *spec = NULL;
    est_estimator  *e    = NULL;
    rows            r;
    est_columns    *c;
    lists           l;

    c = make_columns(&l, true);
    interop_check(est_parse_spec_create((est_column_list){ l.dense, l.n_dense }, &spec));
    r.examples = make_examples();
    r.specs    = est_parse_spec_features(spec).data;
    r.n_specs  = est_parse_spec_features(spec).n;
    interop_check(
        est_estimator_create(model_fn,
                             EST_ESTIMATOR(.model_dir = interop_path("run"), .params = &l, .params_size = sizeof l,
                                           .config = EST_RUN_CONFIG(.seed = 1, .quiet = true, .cluster_json = "{}")),
                             &e));
    interop_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &r, .max_steps = 20)));
    say_predictions(&out, e, &r);
    interop_save("answers", &out);
    interop_check(est_export_saved_model(e, interop_path("export"),
                                         EST_EXPORT(.input = { .parse = { r.specs, r.n_specs } }), NULL));
    est_estimator_free(e);
    est_tensor_free(r.examples);
    est_parse_spec_free(spec);
    est_columns_free(c);
    interop_ask("export");
}

static int start(void **state)
{
    int   status = interop_start(state);
    FILE *file   = fopen(interop_path("vocabulary.txt"), "w");

    if (file == NULL || fputs("x\nred\na longer word, with a comma\nblue\nyellow\n", file) < 0 || fclose(file) != 0)
        return -1;
    make_features();
    return status;
}

static int stop(void **state)
{
    for (int i = 0; i < n_raws; i++) {
        est_tensor_free(raws[i].values);
        est_tensor_free(raws[i].splits);
    }
    return interop_stop(state);
}

int main(void)
{
    interop_side = "feature";
    return est_test_run(start, stop);
}
