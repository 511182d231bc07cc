/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of columns: names, and what making or taking columns refuses. */
#include <stdlib.h>
#include <unistd.h>

#include "support/feature_test.h"

static const char *const colors[] = { "red", "green", "blue" };

static const est_column *color(feature_test *t)
{
    return est_vocabulary_strings_column(t->columns, "color", (est_strings){ colors, 3 }, NULL);
}

TEST(names)
{
    feature_test      t     = feature_begin();
    const est_column *age   = est_numeric_column(t.columns, "age", NULL);
    const est_column *ages  = est_bucketized_column(age, EST_F32S(1, 2));
    const est_column *id    = est_identity_column(t.columns, "id", 5, NULL);
    const est_column *other = est_identity_column(t.columns, "Other", 5, NULL);
    const est_column *word  = est_hash_bucket_column(t.columns, "word", 10, NULL);
    const est_column *pair  = est_crossed_column(EST_COLUMN_LIST(id, ages, est_key_column(t.columns, "b")), 10, 0);
    const est_column *all   = est_crossed_column(EST_COLUMN_LIST(pair, color(&t)), 10, 0);
    const est_column *shared[2];
    const est_column *named[1];

    est_shared_embedding_columns(EST_COLUMN_LIST(id, other), 2, NULL, shared);
    est_shared_embedding_columns(EST_COLUMN_LIST(id), 2, EST_EMBEDDING_COLUMN(.collection_name = "mine"), named);
    assert_ok(est_columns_status(t.columns));
    assert_string_equal(est_column_name(age), "age");
    assert_string_equal(est_column_name(ages), "age_bucketized");
    assert_string_equal(est_column_name(pair), "age_bucketized_X_b_X_id");
    assert_string_equal(est_column_name(all), "age_bucketized_X_b_X_color_X_id");
    assert_string_equal(est_column_name(est_weighted_column(word, "w")), "word_weighted_by_w");
    assert_string_equal(est_column_name(est_indicator_column(pair)), "age_bucketized_X_b_X_id_indicator");
    assert_string_equal(est_column_name(est_embedding_column(word, 3, NULL)), "word_embedding");
    assert_string_equal(est_column_name(shared[0]), "id_shared_embedding");
    assert_string_equal(est_column_name(shared[1]), "Other_shared_embedding");
    assert_string_equal(est_column_name(named[0]), "id_shared_embedding");
    feature_end(&t);
}

/* --- what making refuses ------------------------------------------------------------------------------------------ */

TEST(bad_numbers)
{
    feature_test t     = feature_begin();
    const float  two[] = { 1, 2 }, half[] = { 0.5F };

    est_numeric_column(t.columns, "", NULL);
    feature_bad_column(&t, "needs the name of a feature");
    est_numeric_column(t.columns, NULL, NULL);
    feature_bad_column(&t, "needs the name of a feature");
    est_numeric_column(t.columns, "x", &(est_numeric_options){ .dtype = EST_F32 });
    feature_bad_column(&t, "EST_NUMERIC");
    est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2, 0)));
    feature_bad_column(&t, "has a dimension that is not above 0");
    est_numeric_column(t.columns, "x", EST_NUMERIC(.dtype = EST_STRING));
    feature_bad_column(&t, "is of type string, expected float32 or int64");
    est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(3), .default_value = { two, 2 }));
    feature_bad_column(&t, "has 2 default values for the shape [3]");
    est_numeric_column(t.columns, "x", EST_NUMERIC(.dtype = EST_I64, .default_value = { half, 1 }));
    feature_bad_column(&t, "its default value 0.5 is not");
    est_sequence_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2), .default_value = { two, 2 }));
    feature_bad_column(&t, "the padding is one number");
    est_bucketized_column(est_numeric_column(t.columns, "x", NULL), EST_F32S(1, 3, 3));
    feature_bad_column(&t, "do not ascend: 3 after 3");
    est_bucketized_column(est_numeric_column(t.columns, "x", NULL), EST_F32S(NAN));
    feature_bad_column(&t, "do not ascend");
    est_bucketized_column(est_numeric_column(t.columns, "x", NULL), (est_f32s){ 0 });
    feature_bad_column(&t, "has no boundaries");
    est_bucketized_column(est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2, 2))), EST_F32S(1));
    feature_bad_column(&t, "a numeric column of several");
    est_bucketized_column(est_identity_column(t.columns, "x", 3, NULL), EST_F32S(1));
    feature_bad_column(&t, "\"x\" is an identity column");
    feature_end(&t);
}

TEST(bad_categories)
{
    static const char *const twice[] = { "a", "b", "a" };
    feature_test             t       = feature_begin();
    est_tensor              *numbers = NULL;

    est_identity_column(t.columns, "x", 0, NULL);
    feature_bad_column(&t, "needs at least one bucket, not 0");
    est_identity_column(t.columns, "x", 3, EST_CATEGORICAL(.has_default = true, .default_value = 3));
    feature_bad_column(&t, "the default value 3 is not one of 3 buckets");
    est_identity_column(t.columns, "x", 3, EST_CATEGORICAL(.has_default = true, .default_value = -1));
    feature_bad_column(&t, "the default value -1");
    est_identity_column(t.columns, "x", 3, EST_CATEGORICAL(.dtype = EST_STRING));
    feature_bad_column(&t, "an identity column cannot have the type string");
    est_identity_column(t.columns, "x", 3, EST_CATEGORICAL(.num_oov_buckets = 1));
    feature_bad_column(&t, "has no option num_oov_buckets");
    est_hash_bucket_column(t.columns, "x", 3, EST_CATEGORICAL(.has_default = true));
    feature_bad_column(&t, "has no option a default value");
    est_hash_bucket_column(t.columns, "x", -1, NULL);
    feature_bad_column(&t, "needs at least one bucket, not -1");
    est_hash_bucket_column(t.columns, "x", 3, EST_CATEGORICAL(.dtype = EST_F32));
    feature_bad_column(&t, "cannot have the type float32");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ twice, 3 }, NULL);
    feature_bad_column(&t, "\"a\" is in the vocabulary twice");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ twice, 0 }, NULL);
    feature_bad_column(&t, "at least one entry");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ colors, 3 }, EST_CATEGORICAL(.vocabulary_size = 2));
    feature_bad_column(&t, "has no option vocabulary_size");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ colors, 3 },
                                  EST_CATEGORICAL(.has_default = true, .num_oov_buckets = 2));
    feature_bad_column(&t, "both num_oov_buckets and a default value");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ colors, 3 }, EST_CATEGORICAL(.num_oov_buckets = -2));
    feature_bad_column(&t, "cannot be negative");
    est_vocabulary_strings_column(t.columns, "x", (est_strings){ colors, 3 }, EST_CATEGORICAL(.dtype = EST_I64));
    feature_bad_column(&t, "is of int64, but its vocabulary is of string");
    assert_ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 7, 7 }, &numbers));
    est_vocabulary_list_column(t.columns, "x", numbers, NULL);
    feature_bad_column(&t, "7 is in the vocabulary twice");
    est_vocabulary_list_column(t.columns, "x", NULL, NULL);
    feature_bad_column(&t, "not NULL");
    est_tensor_free(numbers);
    feature_end(&t);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

TEST(bad_vocabulary_files)
{
    feature_test t      = feature_begin();
    char         path[] = "/tmp/estoc-columns-XXXXXX";
    int          fd     = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    est_vocabulary_file_column(t.columns, "x", path, NULL);
    feature_bad_column(&t, "is empty");
    write_file(path, "a\nb\nc"); /* the last line counts without its end */
    est_vocabulary_file_column(t.columns, "x", path, EST_CATEGORICAL(.vocabulary_size = 4));
    feature_bad_column(&t, "has 3 lines, fewer than the vocabulary_size 4");
    assert_non_null(est_vocabulary_file_column(t.columns, "x", path, EST_CATEGORICAL(.vocabulary_size = 3)));
    assert_ok(est_columns_status(t.columns));
    est_vocabulary_file_column(t.columns, "x", path, EST_CATEGORICAL(.has_default = true, .default_value = 3));
    feature_bad_column(&t, "the default value 3 is not one of 3 buckets");
    write_file(path, "a\nb\n\r\nc\n");
    est_vocabulary_file_column(t.columns, "x", path, NULL);
    feature_bad_column(&t, "\"x\": line 3 of the vocabulary file /tmp/");
    assert_non_null(est_vocabulary_file_column(t.columns, "x", path, EST_CATEGORICAL(.vocabulary_size = 2)));
    assert_ok(est_columns_status(t.columns)); /* nobody reads that far */
    unlink(path);
    est_vocabulary_file_column(t.columns, "x", path, NULL);
    feature_bad_column(&t, path);
    est_vocabulary_file_column(t.columns, "x", NULL, NULL);
    feature_bad_column(&t, "needs a file");
    feature_end(&t);
}

TEST(bad_crosses)
{
    feature_test t = feature_begin();

    est_crossed_column(EST_COLUMN_LIST(color(&t)), 10, 0);
    feature_bad_column(&t, "at least two columns, not 1");
    est_crossed_column(EST_COLUMN_LIST(color(&t), est_key_column(t.columns, "b")), 0, 0);
    feature_bad_column(&t, "at least one bucket");
    est_crossed_column(EST_COLUMN_LIST(color(&t), est_hash_bucket_column(t.columns, "h", 3, NULL)), 10, 0);
    feature_bad_column(&t, "cross est_key_column(\"h\")");
    est_crossed_column(EST_COLUMN_LIST(color(&t), est_numeric_column(t.columns, "n", NULL)), 10, 0);
    feature_bad_column(&t, "bucketize it");
    est_crossed_column(EST_COLUMN_LIST(color(&t), est_weighted_column(color(&t), "w")), 10, 0);
    feature_bad_column(&t, "has weights");
    est_crossed_column(
        EST_COLUMN_LIST(color(&t), est_identity_column(t.columns, "s", 3, EST_CATEGORICAL(.sequence = true))), 10, 0);
    feature_bad_column(&t, "of sequences, which cannot be crossed");
    feature_end(&t);
}

TEST(bad_embeddings)
{
    feature_test      t = feature_begin();
    const est_column *out[2];

    est_embedding_column(color(&t), 0, NULL);
    feature_bad_column(&t, "cannot have 0 dimensions");
    est_embedding_column(est_numeric_column(t.columns, "n", NULL), 2, NULL);
    feature_bad_column(&t, "\"n\" is a numeric column");
    est_embedding_column(est_key_column(t.columns, "k"), 2, NULL);
    feature_bad_column(&t, "\"k\" is a key column");
    est_embedding_column(color(&t), 2, EST_EMBEDDING_COLUMN(.checkpoint = "x"));
    feature_bad_column(&t, "needs both a checkpoint and the name");
    est_embedding_column(color(&t), 2, EST_EMBEDDING_COLUMN(.max_norm = -1));
    feature_bad_column(&t, "max_norm of -1");
    est_embedding_column(color(&t), 2, EST_EMBEDDING_COLUMN(.collection_name = "x"));
    feature_bad_column(&t, "which only shared embeddings use");
    est_indicator_column(est_numeric_column(t.columns, "n", NULL));
    feature_bad_column(&t, "an indicator column needs a categorical column");
    est_weighted_column(est_weighted_column(color(&t), "w"), "v");
    feature_bad_column(&t, "already has weights");
    est_weighted_column(color(&t), NULL);
    feature_bad_column(&t, "needs the name of a feature");
    est_shared_embedding_columns(EST_COLUMN_LIST(color(&t), est_identity_column(t.columns, "i", 3, NULL)), 2, NULL,
                                 out);
    feature_bad_column(&t, "one is a vocabulary list column, the other an identity column");
    est_shared_embedding_columns(
        EST_COLUMN_LIST(est_identity_column(t.columns, "i", 3, NULL), est_identity_column(t.columns, "j", 4, NULL)), 2,
        NULL, out);
    feature_bad_column(&t, "3 and 4 buckets");
    feature_end(&t);
}

/* The first failure is the one that is told, and everything made of it fails too. */
TEST(failures_pass_on)
{
    feature_test      t    = feature_begin();
    const est_column *bad  = est_identity_column(t.columns, "x", 0, NULL);
    const est_column *more = est_embedding_column(bad, 2, NULL);
    const est_column *good = est_numeric_column(t.columns, "n", NULL);
    const est_column *out[2];
    est_parse_spec   *spec = NULL;

    assert_ptr_equal(bad, more);
    assert_ptr_equal(est_crossed_column(EST_COLUMN_LIST(good, bad), 3, 0), bad);
    assert_ptr_equal(est_indicator_column(bad), bad);
    assert_ptr_equal(est_weighted_column(bad, "w"), bad);
    assert_ptr_equal(est_bucketized_column(bad, EST_F32S(1)), bad);
    est_shared_embedding_columns(EST_COLUMN_LIST(good, bad), 2, NULL, out);
    assert_ptr_equal(out[0], bad);
    assert_ptr_equal(out[1], bad);
    est_numeric_column(t.columns, "", NULL);
    assert_int_equal(est_parse_spec_create(EST_COLUMN_LIST(good), &spec), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "needs at least one bucket"));
    (void)est_input_layer(feature_features(&t), EST_COLUMN_LIST(good), NULL);
    feature_bad_graph(&t, "needs at least one bucket");
    assert_string_equal(est_column_name(bad), "");
    assert_null(est_column_name(NULL));
    feature_end(&t);
}

TEST(no_set)
{
    assert_null(est_numeric_column(NULL, "x", NULL));
    assert_null(est_embedding_column(est_identity_column(NULL, "x", 3, NULL), 2, NULL));
    assert_int_equal(est_columns_status(NULL), EST_RESOURCE_EXHAUSTED);
    est_columns_free(NULL);
}

/* --- what taking refuses ------------------------------------------------------------------------------------------ */

typedef est_node (*layer_fn)(feature_test *t, est_column_list columns);

static est_node input_layer(feature_test *t, est_column_list columns)
{
    return est_input_layer(feature_features(t), columns, NULL);
}

static est_node linear_model(feature_test *t, est_column_list columns)
{
    return est_linear_model(feature_features(t), columns, NULL);
}

static est_node sequence_layer(feature_test *t, est_column_list columns)
{
    est_node lengths;

    return est_sequence_input_layer(feature_features(t), columns, &lengths);
}

static void refuse(layer_fn layer, const char *text, const est_column *(*make)(est_columns *columns))
{
    feature_test      t    = feature_begin();
    const est_column *made = make != NULL ? make(t.columns) : NULL;

    (void)layer(&t, (est_column_list){ &made, 1 });
    feature_bad_graph(&t, text);
    feature_end(&t);
}

static const est_column *bare(est_columns *columns)
{
    return est_identity_column(columns, "x", 3, NULL);
}

static const est_column *key(est_columns *columns)
{
    return est_key_column(columns, "x");
}

static const est_column *steps(est_columns *columns)
{
    return est_embedding_column(est_identity_column(columns, "x", 3, EST_CATEGORICAL(.sequence = true)), 2, NULL);
}

static const est_column *numbers(est_columns *columns)
{
    return est_numeric_column(columns, "x", NULL);
}

TEST(layers_refuse)
{
    feature_test t = feature_begin();

    refuse(input_layer, "column 0 of 1 is NULL", NULL);
    refuse(input_layer, "wrap it in est_indicator_column or est_embedding_column", bare);
    refuse(input_layer, "is a sequence column; use est_sequence_input_layer", steps);
    refuse(linear_model, "\"x\" is a key column, which a linear model cannot take", key);
    refuse(linear_model, "of sequences, which a linear model cannot take", steps);
    refuse(sequence_layer, "which is not a sequence column", numbers);
    refuse(input_layer, "column \"x\" reads the feature \"x\", but there is no such feature", numbers);
    refuse(linear_model, "column \"x\" reads the feature \"x\", but there is no such feature", bare);
    (void)input_layer(&t, (est_column_list){ 0 });
    feature_bad_graph(&t, "an input layer needs at least one column");
    feature_end(&t);
}

TEST(two_of_a_name)
{
    feature_test      t      = feature_begin();
    est_columns      *second = est_columns_create();
    const est_column *mine   = est_numeric_column(t.columns, "x", NULL);
    const est_column *other  = est_numeric_column(second, "x", NULL);

    feature_f32(&t, "x", EST_SHAPE(2, 1), (const float[]){ 1, 2 });
    (void)input_layer(&t, EST_COLUMN_LIST(mine, other));
    feature_bad_graph(&t, "an input layer has two columns called \"x\"");
    est_columns_free(second);
    feature_end(&t);
}
