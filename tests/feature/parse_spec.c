/* SPDX-License-Identifier: Apache-2.0
 *
 * Parse specs: what columns ask for, what is refused, and files that are read by them. */
#include <stdlib.h>
#include <unistd.h>

#include "support/fault_loop.h"
#include "support/feature_test.h"

static const char *const work[] = { "Private", "State-gov" };

static const est_feature_spec *find(const est_parse_spec *spec, const char *name)
{
    est_feature_specs features = est_parse_spec_features(spec);

    for (int i = 0; i < features.n; i++) {
        if (strcmp(features.data[i].name, name) == 0) return &features.data[i];
    }
    fail_msg("no feature %s", name);
    return NULL;
}

static const est_csv_column *find_csv(const est_parse_spec *spec, const char *name)
{
    est_csv_columns csv = est_parse_spec_csv(spec);

    for (int i = 0; i < csv.n; i++) {
        if (strcmp(csv.data[i].name, name) == 0) return &csv.data[i];
    }
    fail_msg("no column %s", name);
    return NULL;
}

static void expect_ragged(const est_parse_spec *spec, const char *name, est_dtype dtype)
{
    const est_feature_spec *f = find(spec, name);

    assert_int_equal(f->rows, EST_ROWS_RAGGED);
    assert_int_equal(f->dtype, dtype);
    assert_null(f->default_value);
}

TEST(what_columns_ask_for)
{
    feature_test      t     = feature_begin();
    const float       two[] = { 1.5F, -2 }, seven[] = { 7 };
    const est_column *age   = est_numeric_column(t.columns, "age", NULL);
    const est_column *pair  = est_numeric_column(t.columns, "pair",
                                                 EST_NUMERIC(.shape = EST_SHAPE(2), .default_value = { two, 2 }));
    const est_column *count = est_numeric_column(t.columns, "count",
                                                 EST_NUMERIC(.dtype = EST_I64, .default_value = { seven, 1 }));
    const est_column *kind  = est_vocabulary_strings_column(t.columns, "work", (est_strings){ work, 2 }, NULL);
    const est_column *id    = est_identity_column(t.columns, "id", 5, NULL);
    est_parse_spec   *spec  = NULL;

    assert_ok(est_parse_spec_create(
        EST_COLUMN_LIST(est_bucketized_column(age, EST_F32S(1)), age, pair, count,
                        est_crossed_column(EST_COLUMN_LIST(kind, est_key_column(t.columns, "town")), 9, 0),
                        est_embedding_column(est_weighted_column(id, "weight"), 2, NULL), est_indicator_column(kind),
                        est_hash_bucket_column(t.columns, "zip", 5, EST_CATEGORICAL(.dtype = EST_I64)),
                        est_sequence_numeric_column(t.columns, "steps", EST_NUMERIC(.shape = EST_SHAPE(2)))),
        &spec));
    est_columns_free(t.columns); /* the spec keeps what it needs */
    t.columns = NULL;
    assert_int_equal(est_parse_spec_features(spec).n, 9);
    assert_int_equal(find(spec, "age")->rows, EST_ROWS_FIXED);
    assert_int_equal(find(spec, "age")->dtype, EST_F32);
    assert_int_equal(find(spec, "age")->shape.rank, 1);
    assert_null(find(spec, "age")->default_value);
    assert_near(nn_element(find(spec, "pair")->default_value, 0), 1.5, 0);
    assert_near(nn_element(find(spec, "pair")->default_value, 1), -2, 0);
    assert_int_equal(find(spec, "count")->dtype, EST_I64);
    assert_near(nn_element(find(spec, "count")->default_value, 0), 7, 0);
    expect_ragged(spec, "work", EST_STRING);
    expect_ragged(spec, "town", EST_STRING);
    expect_ragged(spec, "id", EST_I64);
    expect_ragged(spec, "weight", EST_F32);
    expect_ragged(spec, "zip", EST_I64);
    expect_ragged(spec, "steps", EST_F32);

    assert_true(find_csv(spec, "age")->required);
    assert_false(find_csv(spec, "count")->required);
    assert_string_equal(find_csv(spec, "count")->default_text, "7");
    assert_string_equal(find_csv(spec, "pair")->default_text, "1.5");
    assert_null(find_csv(spec, "work")->default_text);
    assert_false(find_csv(spec, "work")->required);
    assert_string_equal(find_csv(spec, "zip")->default_text, "-1");
    est_parse_spec_free(spec);
    feature_end(&t);
}

/* A column may stand in the list twice, as it does where those of a deep and of a wide model are put together. */
TEST(the_same_column_twice)
{
    feature_test      t    = feature_begin();
    const est_column *x    = est_numeric_column(t.columns, "x", NULL);
    const est_column *k    = est_hash_bucket_column(t.columns, "k", 5, NULL);
    est_parse_spec   *spec = NULL;

    assert_ok(est_parse_spec_create(EST_COLUMN_LIST(x, k, x, est_numeric_column(t.columns, "x", NULL)), &spec));
    assert_int_equal(est_parse_spec_features(spec).n, 2);
    est_parse_spec_free(spec);
    feature_end(&t);
}

TEST(refusals)
{
    feature_test      t     = feature_begin();
    const est_column *x     = est_numeric_column(t.columns, "x", NULL);
    const est_column *other = est_bucketized_column(
        est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2))), EST_F32S(1));
    const est_column      *words = est_hash_bucket_column(t.columns, "k", 5, EST_CATEGORICAL(.dtype = EST_I64));
    const est_column      *cross = est_crossed_column(EST_COLUMN_LIST(est_key_column(t.columns, "k"), other), 5, 0);
    const est_feature_spec label = { .name = "label", .dtype = EST_I64 }, again = { .name = "x", .dtype = EST_F32 },
                           nameless = { .dtype = EST_F32 }, odd = { .name = "odd", .dtype = EST_BOOL };
    est_parse_spec *spec = NULL;

    assert_ok(est_parse_spec_create((est_column_list){ 0 }, &spec)); /* labels may be all there is */
    assert_int_equal(est_parse_spec_features(spec).n, 0);
    assert_int_equal(est_parse_spec_csv(spec).n, 0);
    assert_ok(est_parse_spec_add(spec, &(est_feature_spec){ .name = "y", .dtype = EST_I64, .shape = EST_SHAPE(1) }));
    assert_int_equal(est_parse_spec_features(spec).n, 1);
    est_parse_spec_free(spec);
    spec = NULL;
    assert_int_equal(est_parse_spec_create(EST_COLUMN_LIST(x, other), &spec), EST_INVALID_ARGUMENT);
    assert_non_null(
        strstr(est_error_message(),
               "the column \"x\" needs the feature \"x\" parsed as float32 [2], another one as float32 [1]"));
    assert_int_equal(est_parse_spec_create(EST_COLUMN_LIST(words, cross), &spec), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "any number of string, another one as any number of int64"));
    assert_null(spec);

    assert_ok(est_parse_spec_create(EST_COLUMN_LIST(x), &spec));
    assert_ok(est_parse_spec_add(spec, &label));
    assert_int_equal(est_parse_spec_add(spec, &label), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"label\" is already parsed"));
    assert_int_equal(est_parse_spec_add(spec, &again), EST_INVALID_ARGUMENT);
    assert_int_equal(est_parse_spec_add(spec, &nameless), EST_INVALID_ARGUMENT);
    assert_int_equal(est_parse_spec_add(spec, &odd), EST_INVALID_ARGUMENT);
    assert_int_equal(est_parse_spec_features(spec).n, 2);
    est_parse_spec_free(spec);
    est_parse_spec_free(NULL);
    feature_end(&t);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Rows in the manner of the census file: blanks after commas, "?" for what is not known, empty fields, no header. */
static const char *const census   = "39, State-gov, 13, 2174, 1\n"
                                    "50, ?, , , 0\n"
                                    "38, Private, 9, 0, 0\n";
static const char *const fields[] = { "age", "work", "education", "gain", "label" };

static est_parse_spec *census_spec(est_columns *columns)
{
    static const float            zero[] = { 0 };
    static const est_feature_spec label  = { .name = "label", .dtype = EST_I64, .shape = { 1, { 1 } } };
    est_parse_spec               *spec   = NULL;

    assert_ok(est_parse_spec_create(
        EST_COLUMN_LIST(est_numeric_column(columns, "age", NULL),
                        est_numeric_column(columns, "gain", EST_NUMERIC(.default_value = { zero, 1 })),
                        est_vocabulary_strings_column(columns, "work", (est_strings){ work, 2 }, NULL),
                        est_identity_column(columns, "education", 17, NULL)),
        &spec));
    assert_ok(est_parse_spec_add(spec, &label));
    return spec;
}

static est_status read_census(est_csv_columns csv, const char *text, est_iterator **rows, est_dataset **dataset)
{
    static char path[64];
    int         fd;
    est_status  status;

    snprintf(path, sizeof path, "/tmp/estoc-census-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    status = est_dataset_finish(est_dataset_csv(est_dataset_files(path), csv,
                                                EST_CSV(.trim = true, .na_value = "?", .field_names = { fields, 5 }), 3,
                                                NULL),
                                dataset);
    assert_ok(status);
    assert_ok(est_iterator_create(*dataset, rows));
    return EST_OK;
}

TEST(census_rows)
{
    feature_test    t    = feature_begin();
    est_parse_spec *spec = census_spec(t.columns);
    est_dataset    *d    = NULL;
    est_iterator   *rows = NULL;
    est_field       element[5];
    const est_str  *words;

    assert_ok(read_census(est_parse_spec_csv(spec), census, &rows, &d));
    assert_ok(est_iterator_next(rows, element));
    assert_near(nn_element(element[est_dataset_find(d, "age")].values, 1), 50, 0);
    assert_near(nn_element(element[est_dataset_find(d, "gain")].values, 0), 2174, 0);
    assert_near(nn_element(element[est_dataset_find(d, "gain")].values, 1), 0, 0);
    assert_near(nn_element(element[est_dataset_find(d, "education")].values, 1), -1, 0);
    words = est_tensor_data(element[est_dataset_find(d, "work")].values);
    assert_int_equal(words[1].size, 0);
    assert_int_equal(words[0].size, strlen("State-gov"));
    est_element_clear(element, 5);
    est_iterator_free(rows);
    est_dataset_free(d);

    assert_ok(read_census(est_parse_spec_csv(spec), ", Private, 9, 0, 0\n", &rows, &d)); /* no age, and no default */
    assert_int_equal(est_iterator_next(rows, element), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "age"));
    est_iterator_free(rows);
    est_dataset_free(d);
    est_parse_spec_free(spec);
    feature_end(&t);
}

TEST(examples)
{
    feature_test        t        = feature_begin();
    est_parse_spec     *spec     = census_spec(t.columns);
    est_feature_specs   features = est_parse_spec_features(spec);
    est_example        *example  = NULL;
    est_example_parser *parser   = NULL;
    est_feature_batch   batch[5];
    est_str             bytes;

    assert_int_equal(features.n, 5);
    assert_ok(est_example_create(&example));
    est_example_set_f32s(example, "age", (const float[]){ 39 }, 1);
    est_example_set_i64s(example, "label", (const int64_t[]){ 1 }, 1);
    est_example_set_bytes(example, "work", &(est_str){ "Private", 7 }, 1);
    assert_ok(est_example_serialize(example, &bytes));
    assert_ok(est_example_parser_create(features, &parser));
    assert_ok(est_example_parse(parser, &bytes, 1, batch));
    for (int i = 0; i < features.n; i++) {
        if (strcmp(features.data[i].name, "education") == 0) assert_int_equal(est_tensor_count(batch[i].values), 0);
        if (strcmp(features.data[i].name, "gain") == 0) assert_near(nn_element(batch[i].values, 0), 0, 0);
        if (strcmp(features.data[i].name, "work") == 0) assert_near(nn_element(batch[i].splits, 1), 1, 0);
    }
    est_feature_batch_clear(batch, (size_t)features.n);
    est_example_parser_free(parser);
    est_example_free(example);
    est_parse_spec_free(spec);
    feature_end(&t);
}

/* --- failed allocations ------------------------------------------------------------------------------------------- */

/* All kinds of columns, a spec, and layers of them over features that are placeholders. */
static est_feature placeholder(void *user, const char *name)
{
    est_graph *graph = user;
    est_dtype  dtype = strcmp(name, "x") == 0 || strcmp(name, "w") == 0 || strcmp(name, "s") == 0 ? EST_F32
                       : strcmp(name, "id") == 0                                                  ? EST_I64
                                                                                                  : EST_STRING;
    bool       dense = strcmp(name, "x") == 0;

    return (est_feature){ .values = est_placeholder(graph, NULL, dtype, dense ? EST_SHAPE(-1, 1) : EST_SHAPE(-1)),
                          .splits = dense ? EST_NO_NODE : est_placeholder(graph, NULL, EST_I64, EST_SHAPE(-1)) };
}

static est_status make_all(est_columns *c, est_graph *graph, est_parse_spec **spec)
{
    const est_column *x         = est_numeric_column(c, "x", EST_NUMERIC(.default_value = { (const float[]){ 1 }, 1 }));
    const est_column *id        = est_identity_column(c, "id", 4, NULL);
    const est_column *steps     = est_identity_column(c, "id", 4, EST_CATEGORICAL(.sequence = true));
    const est_column *ages      = est_bucketized_column(x, EST_F32S(1, 2));
    const est_column *kind      = est_vocabulary_strings_column(c, "word", (est_strings){ work, 2 }, NULL);
    const est_column *cross     = est_crossed_column(EST_COLUMN_LIST(ages, id, est_key_column(c, "key")), 9, 0);
    const est_column *heavy     = est_weighted_column(id, "w");
    const est_column *shared[1] = { NULL };
    est_features      features  = { .graph = graph, .find = placeholder, .user = graph };
    est_node          lengths;

    est_shared_embedding_columns(EST_COLUMN_LIST(heavy), 2, NULL, shared);
    EST_TRY(est_columns_status(c));
    EST_TRY(est_parse_spec_create(EST_COLUMN_LIST(x, heavy, kind, cross), spec));
    (void)est_input_layer(
        features, EST_COLUMN_LIST(x, ages, shared[0], est_indicator_column(kind), est_embedding_column(cross, 2, NULL)),
        NULL);
    (void)est_linear_model(features, EST_COLUMN_LIST(x, heavy, kind, cross), NULL);
    (void)est_sequence_input_layer(
        features, EST_COLUMN_LIST(est_embedding_column(steps, 2, NULL), est_sequence_numeric_column(c, "s", NULL)),
        &lengths);
    EST_TRY(est_columns_status(c));
    return est_graph_status(graph);
}

TEST(every_allocation)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_columns    *columns = est_columns_create();
        est_graph      *graph   = NULL;
        est_parse_spec *spec    = NULL;
        est_status      status;

        assert_ok(est_graph_create(1, &graph));
        fault_arm(&f);
        status = make_all(columns, graph, &spec);
        fault_check(&f, status);
        est_parse_spec_free(spec);
        est_graph_free(graph);
        est_columns_free(columns);
    }
}
