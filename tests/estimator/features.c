/* SPDX-License-Identifier: Apache-2.0
 *
 * Feature columns in a model_fn: what est_model_features finds, and a wide and deep model over them that is trained
 * from CSV, evaluated, exported, and refused a vocabulary of another size. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimator/model.h"
#include "support/estimator_test.h"

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- finding ------------------------------------------------------------------------------------------------------ */

static est_status nothing(void *state, est_field *element)
{
    (void)state;
    (void)element;
    return EST_OUT_OF_RANGE;
}

TEST(finds_what_is_asked_for)
{
    static const est_component components[] = {
        { .name = "x", .dtype = EST_F32, .shape = { 2, { -1, 3 } } },
        { .name = "ids", .dtype = EST_I64, .shape = { 1, { -1 } }, .ragged = true },
        { .name = "unused", .dtype = EST_STRING, .shape = { 1, { -1 } } }
    };
    static const est_run_config config;
    static est_task             task;
    est_dataset                *input = NULL;
    est_model                  *model = NULL;
    est_features                features;
    est_feature                 x, ids;

    ok(est_dataset_finish(est_dataset_generator((est_components){ components, 3 }, EST_GENERATOR(.next = nothing)),
                          &input));
    ok(est_model_create(EST_TRAIN, &config, &task, input, 1, &model));
    features = est_model_features(model);
    assert_ptr_equal(features.graph, est_model_graph(model));
    x   = features.find(features.user, "x");
    ids = features.find(features.user, "ids");
    assert_int_equal(est_node_dim(x.values, 1), 3);
    assert_null(x.splits.graph);
    assert_int_equal(est_node_dtype(ids.values), EST_I64);
    assert_int_equal(est_node_dtype(ids.splits), EST_I64);
    assert_null(features.find(features.user, "y").values.graph); /* not there: no failure, the column tells */
    assert_int_equal(features.find(features.user, "x").values.id, x.values.id);
    assert_int_equal(model->feeds.n, 3); /* x, ids and their splits: "unused" is not fed */
    ok(est_model_status(model));
    est_model_free(model);
    est_dataset_free(input);
}

TEST(finds_what_is_served)
{
    static const est_run_config config;
    static est_task             task;
    est_model                  *model = NULL;
    est_features                features;
    est_node                    values, splits;

    ok(est_model_create(EST_PREDICT, &config, &task, NULL, 1, &model));
    values = est_placeholder(est_model_graph(model), "a", EST_I64, EST_SHAPE(-1));
    splits = est_placeholder(est_model_graph(model), "b", EST_I64, EST_SHAPE(-1));
    ok(est_model_receive(model, "dense", values));
    ok(est_model_receive(model, "ids", values));
    ok(est_model_receive(model, "ids/splits", splits));
    features = est_model_features(model);
    assert_null(features.find(features.user, "dense").splits.graph);
    assert_int_equal(features.find(features.user, "dense").values.id, values.id);
    assert_int_equal(features.find(features.user, "ids").splits.id, splits.id);
    assert_null(features.find(features.user, "y").values.graph);
    est_model_free(model);
}

/* --- a wide and deep model ---------------------------------------------------------------------------------------- */

typedef struct wide_and_deep {
    est_column_list wide, deep;
    est_csv_columns csv;
    const char     *rows; /* path */
} wide_and_deep;

static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    const wide_and_deep *p      = params;
    est_node             wide   = est_linear_model(est_model_features(m), p->wide, NULL);
    est_node             deep   = est_input_layer(est_model_features(m), p->deep, NULL);
    est_node             hidden = est_dense(deep, 8, EST_DENSE(.activation = est_relu));
    est_node             logits = est_add(wide, est_dense(hidden, 1, EST_DENSE(.name = "logits")));
    est_node             label, loss;

    est_model_predict(m, "probability", est_sigmoid(logits));
    if (mode == EST_PREDICT) return est_model_status(m);
    label = est_expand_dims(est_cast(est_model_label(m, "label"), EST_F32), -1);
    loss  = est_loss_sigmoid_xent(label, logits, NULL);
    est_model_loss(m, loss);
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(0.05, NULL), loss);
    return est_model_status(m);
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    const wide_and_deep *p = user;
    est_dataset         *d = est_dataset_csv(est_dataset_files(p->rows), p->csv,
                                             EST_CSV(.header = true, .trim = true, .na_value = "?"), 20, NULL);

    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(d, out);
}

static void write_rows(const char *path)
{
    static const char *const kinds[] = { "Private", "State-gov", "?", "Never-worked" };
    FILE                    *file    = fopen(path, "w");

    assert_non_null(file);
    fputs("age,work,unused,label\n", file);
    for (int i = 0; i < 100; i++) {
        int age = 17 + i * 7 % 60, kind = i % 4;

        fprintf(file, "%d, %s, %d, %d\n", age, kinds[kind], i, age > 40 && kind != 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void write_words(const char *path, const char *words)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(words, file);
    assert_int_equal(fclose(file), 0);
}

typedef struct census {
    est_columns      *columns;
    const est_column *wide[2], *deep[2];
    est_parse_spec   *features, *all; /* without the label, and with it */
    wide_and_deep     params;
    est_estimator    *estimator;
} census;

static void census_open(census *c, const char *dir, const char *rows, const char *words)
{
    const est_feature_spec label = { .name = "label", .dtype = EST_I64, .shape = { 1, { 1 } } };
    const est_column      *age, *ages, *work;

    c->columns = est_columns_create();
    age        = est_numeric_column(c->columns, "age", NULL);
    ages       = est_bucketized_column(age, EST_F32S(30, 40, 50));
    work       = est_vocabulary_file_column(c->columns, "work", words, NULL);
    c->wide[0] = work;
    c->wide[1] = est_crossed_column(EST_COLUMN_LIST(ages, work), 50, 0);
    c->deep[0] = ages;
    c->deep[1] = est_embedding_column(work, 3, NULL);
    ok(est_parse_spec_create((est_column_list){ c->wide, 2 }, &c->features));
    ok(est_parse_spec_create((est_column_list){ c->wide, 2 }, &c->all));
    ok(est_parse_spec_add(c->all, &label));
    c->params = (wide_and_deep){
        .wide = { c->wide, 2 }, .deep = { c->deep, 2 }, .csv = est_parse_spec_csv(c->all), .rows = rows
    };
    c->estimator = est_test_make(
        model_fn, EST_ESTIMATOR(.model_dir = dir, .params = &c->params, .params_size = sizeof c->params,
                                .config = EST_RUN_CONFIG(.seed = 3, .quiet = true, .cluster_json = "{}")));
}

static void census_close(census *c)
{
    est_estimator_free(c->estimator);
    est_parse_spec_free(c->features);
    est_parse_spec_free(c->all);
    est_columns_free(c->columns);
}

static double loss_of(census *c)
{
    est_metrics *metrics = NULL;
    double       loss;

    ok(est_evaluate(c->estimator, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = &c->params), &metrics));
    loss = est_metrics_get(metrics, "loss");
    est_metrics_free(metrics);
    return loss;
}

TEST(wide_and_deep_from_csv)
{
    char              dir[64], rows[96], words[96], path[EST_CHECKPOINT_PATH_MAX];
    census            c;
    est_serving_input served = { 0 };
    est_train_options train;
    double            before;

    est_test_dir(dir);
    snprintf(rows, sizeof rows, "%s/rows.csv", dir);
    snprintf(words, sizeof words, "%s/words.txt", dir);
    write_rows(rows);
    write_words(words, "Private\nState-gov\n");
    census_open(&c, dir, rows, words);
    train = *EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &c.params, .max_steps = 1);
    ok(est_train(c.estimator, &train));
    before          = loss_of(&c);
    train.max_steps = 60;
    ok(est_train(c.estimator, &train));
    assert_true(loss_of(&c) < before / 2);

    served.parse = est_parse_spec_features(c.features);
    ok(est_export_saved_model(c.estimator, dir, EST_EXPORT(.input = served), path)); /* which runs what it wrote */
    census_close(&c);

    write_words(words, "Private\nState-gov\nNever-worked\n");
    census_open(&c, dir, rows, words);
    train.input_user = &c.params;
    train.max_steps  = 61;
    assert_int_equal(est_train(c.estimator, &train), EST_INVALID_ARGUMENT);
    est_test_error_has("variable 'input_layer/work_embedding/embedding_weights' is float32 [3,3], but");
    est_test_error_has("is float32 [2,3]");
    est_test_error_has("has a vocabulary or a number of buckets changed?");
    census_close(&c);
    est_test_dir_remove(dir);
}
