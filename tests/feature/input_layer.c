/* SPDX-License-Identifier: Apache-2.0
 *
 * Input layers: values of every kind of column, the order of columns, names and shapes of variables; the ids of
 * categorical columns are looked at through indicators. */
#include <stdlib.h>
#include <unistd.h>

#include "estoc/saver.h"
#include "runtime/session.h"
#include "support/dir_test.h"
#include "support/feature_test.h"

static est_node layer(feature_test *t, est_column_list columns)
{
    return est_input_layer(feature_features(t), columns, NULL);
}

/* One column alone, as a layer. */
static est_node alone(feature_test *t, const est_column *column)
{
    return layer(t, EST_COLUMN_LIST(column));
}

static est_node indicated(feature_test *t, const est_column *categorical)
{
    return alone(t, est_indicator_column(categorical));
}

static void check_shape(est_node node, est_shape want)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    assert_ok(est_graph_status(node.graph));
    assert_string_equal(est_shape_text(est_node_shape(node), a), est_shape_text(&want, b));
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static est_node halve(est_node x, const void *user)
{
    return est_scale(est_cast(x, EST_F32), *(const double *)user);
}

TEST(numeric)
{
    const double      half    = 0.5;
    feature_test      t       = feature_begin();
    const est_column *flat    = est_numeric_column(t.columns, "flat", NULL);
    const est_column *wide    = est_numeric_column(t.columns, "wide", EST_NUMERIC(.shape = EST_SHAPE(2, 2)));
    const est_column *half_of = est_numeric_column(t.columns, "int",
                                                   EST_NUMERIC(.dtype = EST_I64, .normalizer = halve, .user = &half));
    est_node          all;

    feature_f32(&t, "flat", EST_SHAPE(2), (const float[]){ 1, NAN }); /* [batch] is [batch, 1] */
    feature_f32(&t, "wide", EST_SHAPE(2, 2, 2), (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
    feature_i64(&t, "int", EST_SHAPE(2, 1), (const int64_t[]){ 3, -5 });
    all = layer(&t, EST_COLUMN_LIST(wide, half_of, flat));
    check_shape(all, EST_SHAPE(-1, 6));
    feature_ready(&t);
    {
        double out[12];

        assert_int_equal(feature_fetch(&t, all, out, 12), 12);
        assert_true(isnan(out[6])); /* what is not a number is passed on */
        assert_near(out[0], 1, 0);
        assert_near(out[1], 1.5, 0);
        assert_near(out[7], -2.5, 0);
        for (int i = 0; i < 4; i++) assert_near(out[2 + i], 1 + i, 0);
        for (int i = 0; i < 4; i++) assert_near(out[8 + i], 5 + i, 0);
    }
    feature_end(&t);
}

static void refuse_numeric(const char *text, void (*add)(feature_test *t), est_shape shape)
{
    feature_test t = feature_begin();

    add(&t);
    (void)alone(&t, est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = shape)));
    feature_bad_graph(&t, text);
    feature_end(&t);
}

static void add_ragged(feature_test *t)
{
    feature_f32(t, "x", EST_SHAPE(2), (const float[]){ 1, 2 });
    feature_rows(t, "x", 2, (const int64_t[]){ 0, 1, 2 });
}

static void add_strings(feature_test *t)
{
    feature_strings(t, "x", EST_SHAPE(2), (const char *const[]){ "1", "2" });
}

static void add_three(feature_test *t)
{
    feature_f32(t, "x", EST_SHAPE(1, 3), (const float[]){ 1, 2, 3 });
}

static void add_scalar(feature_test *t)
{
    feature_f32(t, "x", EST_SHAPE_SCALAR, (const float[]){ 1 });
}

TEST(numeric_refuses)
{
    refuse_numeric("the feature \"x\" is ragged; parse it with a fixed shape", add_ragged, EST_SHAPE(1));
    refuse_numeric("is of numbers, but the feature \"x\" is of string", add_strings, EST_SHAPE(1));
    refuse_numeric("has rows of shape [2], but the feature \"x\" is [?,3]", add_three, EST_SHAPE(2));
    refuse_numeric("is a scalar; it must have a row for every example", add_scalar, EST_SHAPE(1));
}

TEST(bucketized)
{
    feature_test      t    = feature_begin();
    const est_column *x    = est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2)));
    const est_column *x_in = est_bucketized_column(x, EST_F32S(0, 10));
    est_node          dense, ids;

    feature_f32(&t, "x", EST_SHAPE(3, 2), (const float[]){ -1, 0, 5, 10, NAN, 9.5F });
    dense = alone(&t, x_in);
    ids   = indicated(&t, x_in);
    check_shape(dense, EST_SHAPE(-1, 6));
    check_shape(ids, EST_SHAPE(-1, 6));
    feature_ready(&t);
    feature_expect(&t, dense, 1, 0, 0, 0, 1, 0, /**/ 0, 1, 0, 0, 0, 1, /**/ 0, 0, 1, 0, 1, 0);
    feature_expect(&t, ids, 1, 0, 0, 0, 1, 0, /**/ 0, 1, 0, 0, 0, 1, /**/ 0, 0, 1, 0, 1, 0);
    feature_end(&t);
}

/* --- categories --------------------------------------------------------------------------------------------------- */

TEST(identity)
{
    feature_test      t     = feature_begin();
    const est_column *plain = est_identity_column(t.columns, "id", 3, NULL);
    const est_column *known = est_identity_column(t.columns, "odd", 3,
                                                  EST_CATEGORICAL(.has_default = true, .default_value = 1));
    est_node          a, b;

    feature_i64(&t, "id", EST_SHAPE(3, 2), (const int64_t[]){ 0, 0, -1, 2, -7, -1 }); /* what is below 0 is missing */
    feature_i64(&t, "odd", EST_SHAPE(4), (const int64_t[]){ 2, 3, -4, 0 });
    feature_rows(&t, "odd", 3, (const int64_t[]){ 0, 2, 2, 4 });
    a = indicated(&t, plain);
    b = indicated(&t, known);
    feature_ready(&t);
    feature_expect(&t, a, 2, 0, 0, /**/ 0, 0, 1, /**/ 0, 0, 0);
    feature_expect(&t, b, 0, 1, 1, /**/ 0, 0, 0, /**/ 1, 1, 0);
    feature_end(&t);
}

TEST(identity_out_of_range)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 3, NULL);
    est_node          a, b;

    feature_i64(&t, "id", EST_SHAPE(2, 1), (const int64_t[]){ 1, 3 });
    a = indicated(&t, id);
    b = alone(&t, est_embedding_column(id, 2, NULL));
    feature_ready(&t);
    feature_fails(&t, a, "column \"id\" has 3 buckets");
    feature_fails(&t, a, "element 1 is 3");
    feature_fails(&t, b, "column \"id\" has 3 buckets");
    feature_end(&t);
}

TEST(hash_buckets)
{
    feature_test      t     = feature_begin();
    const est_column *word  = est_hash_bucket_column(t.columns, "word", 1000, NULL);
    const est_column *count = est_hash_bucket_column(t.columns, "count", 1000, EST_CATEGORICAL(.dtype = EST_I64));
    est_node          words, counts;
    double            out[3000];

    feature_strings(&t, "word", EST_SHAPE(3), (const char *const[]){ "abc", "", "feature column" });
    feature_i64(&t, "count", EST_SHAPE(3), (const int64_t[]){ 7, -1, -3 });
    words  = indicated(&t, word);
    counts = indicated(&t, count);
    feature_ready(&t);
    assert_int_equal(feature_fetch(&t, words, out, 3000), 3000);
    assert_near(out[385], 1, 0);
    for (int i = 0; i < 1000; i++) assert_near(out[1000 + i], 0, 0); /* "" is missing */
    assert_near(out[2903], 1, 0);
    assert_int_equal(feature_fetch(&t, counts, out, 3000), 3000);
    assert_near(out[88], 1, 0);
    for (int i = 0; i < 1000; i++) assert_near(out[1000 + i], 0, 0); /* -1 is missing */
    assert_near(out[2699], 1, 0);
    feature_end(&t);
}

TEST(vocabularies)
{
    static const char *const list[] = { "red", "green" };
    feature_test             t      = feature_begin();
    est_tensor              *years  = NULL;
    char                     path[] = "/tmp/estoc-vocabulary-XXXXXX";
    int                      fd     = mkstemp(path);
    const est_column        *plain, *oov, *fallback, *year, *file, *part;
    est_node                 nodes[6];

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "blue\nred\ngreen\n", 15), 15);
    close(fd);
    assert_ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 1999, -1 }, &years));
    feature_strings(&t, "color", EST_SHAPE(4, 1), (const char *const[]){ "green", "", "blue", "red" });
    feature_i64(&t, "year", EST_SHAPE(3), (const int64_t[]){ -1, 1999, 5 });
    feature_rows(&t, "year", 4, (const int64_t[]){ 0, 1, 2, 3, 3 });
    plain    = est_vocabulary_strings_column(t.columns, "color", (est_strings){ list, 2 }, NULL);
    oov      = est_vocabulary_strings_column(t.columns, "color", (est_strings){ list, 2 },
                                             EST_CATEGORICAL(.num_oov_buckets = 1));
    fallback = est_vocabulary_strings_column(t.columns, "color", (est_strings){ list, 2 },
                                             EST_CATEGORICAL(.has_default = true, .default_value = 1));
    year     = est_vocabulary_list_column(t.columns, "year", years, NULL);
    file     = est_vocabulary_file_column(t.columns, "color", path, NULL);
    part     = est_vocabulary_file_column(t.columns, "color", path, EST_CATEGORICAL(.vocabulary_size = 2));
    nodes[0] = indicated(&t, plain);
    nodes[1] = indicated(&t, oov);
    nodes[2] = indicated(&t, fallback);
    nodes[3] = indicated(&t, year);
    nodes[4] = indicated(&t, file);
    nodes[5] = indicated(&t, part);
    feature_ready(&t);
    est_tensor_free(years); /* columns and graph have it */
    feature_expect(&t, nodes[0], 0, 1, /**/ 0, 0, /**/ 0, 0, /**/ 1, 0);
    feature_expect(&t, nodes[1], 0, 1, 0, /**/ 0, 0, 0, /**/ 0, 0, 1, /**/ 1, 0, 0);
    feature_expect(&t, nodes[2], 0, 1, /**/ 0, 0, /**/ 0, 1, /**/ 1, 0);
    feature_expect(&t, nodes[3], 0, 1, /**/ 1, 0, /**/ 0, 0, /**/ 0, 0); /* -1 of a ragged feature is a value */
    feature_expect(&t, nodes[4], 0, 0, 1, /**/ 0, 0, 0, /**/ 1, 0, 0, /**/ 0, 1, 0);
    feature_expect(&t, nodes[5], 0, 0, /**/ 0, 0, /**/ 1, 0, /**/ 0, 1);
    unlink(path);
    feature_end(&t);
}

/* How many operations of that name a step that fetches these two runs. */
static int count_ops(feature_test *t, est_node a, est_node b, const char *name)
{
    est_node        feeds[2 * FEATURES_MAX];
    est_step       *step = NULL;
    const est_plan *plan;
    int             n = 0;

    for (int i = 0; i < t->n; i++) {
        feeds[n++] = t->features[i].feature.values;
        if (t->features[i].splits != NULL) feeds[n++] = t->features[i].feature.splits;
    }
    assert_ok(est_session_prepare(t->nn.session, (est_nodes){ feeds, n }, EST_NODES(a, b), EST_NO_NODES, &step));
    plan = est_step_plan(step);
    n    = 0;
    for (int32_t k = 0; k < plan->n_items; k++) n += strcmp(plan->items[k].call.node->op->name, name) == 0;
    return n;
}

/* However many columns and layers are made of a column, its ids are computed once. */
TEST(ids_are_computed_once)
{
    static const char *const list[] = { "red", "green" };
    feature_test             t      = feature_begin();
    const est_column        *color  = est_vocabulary_strings_column(t.columns, "color", (est_strings){ list, 2 }, NULL);
    const est_column        *id     = est_identity_column(t.columns, "id", 3, NULL);
    const est_column        *word   = est_hash_bucket_column(t.columns, "word", 9, NULL);
    const est_column        *cross  = est_crossed_column(EST_COLUMN_LIST(color, id), 9, 0);
    est_node                 wide, deep;

    feature_strings(&t, "color", EST_SHAPE(1), (const char *const[]){ "green" });
    feature_strings(&t, "word", EST_SHAPE(1), (const char *const[]){ "green" });
    feature_i64(&t, "id", EST_SHAPE(1), (const int64_t[]){ 2 });
    deep = layer(&t, EST_COLUMN_LIST(est_indicator_column(color), est_embedding_column(color, 2, NULL),
                                     est_indicator_column(id), est_indicator_column(word),
                                     est_embedding_column(word, 2, NULL), est_embedding_column(cross, 2, NULL)));
    wide = est_linear_model(feature_features(&t), EST_COLUMN_LIST(color, id, word, cross), NULL);
    feature_ready(&t);
    assert_int_equal(count_ops(&t, wide, deep, "LookupTableFindV2"), 1);
    assert_int_equal(count_ops(&t, wide, deep, "EstCheckRange"), 1);
    assert_int_equal(count_ops(&t, wide, deep, "StringToHashBucketFast"), 1);
    assert_int_equal(count_ops(&t, wide, deep, "RaggedCross"), 1);
    assert_int_equal(count_ops(&t, wide, deep, "EstEmbeddingBag"),
                     4); /* the wide ones; the deep ones are in the next */
    assert_int_equal(count_ops(&t, wide, deep, "EstEmbeddingBagConcat"), 1);
    feature_end(&t);
}

static void refuse_values(const char *text, const est_column *(*make)(est_columns *columns), bool strings)
{
    feature_test t = feature_begin();

    if (strings)
        feature_strings(&t, "x", EST_SHAPE(1), (const char *const[]){ "a" });
    else
        feature_f32(&t, "x", EST_SHAPE(1), (const float[]){ 1 });
    (void)indicated(&t, make(t.columns));
    feature_bad_graph(&t, text);
    feature_end(&t);
}

static const est_column *make_identity(est_columns *columns)
{
    return est_identity_column(columns, "x", 3, NULL);
}

static const est_column *make_hash(est_columns *columns)
{
    return est_hash_bucket_column(columns, "x", 3, NULL);
}

static const est_column *make_cross(est_columns *columns)
{
    return est_crossed_column(EST_COLUMN_LIST(est_key_column(columns, "x"), est_key_column(columns, "x")), 3, 0);
}

TEST(high_ranks)
{
    feature_test t = feature_begin();

    feature_strings(&t, "x", EST_SHAPE(1, 1, 2), (const char *const[]){ "a", "b" });
    (void)indicated(&t, make_cross(t.columns));
    feature_bad_graph(&t, "has shape [?,1,2]; categories and their weights are [batch] or [batch, n]");
    feature_end(&t);
}

TEST(other_types)
{
    refuse_values("column \"x\" is of int64, but the feature \"x\" is of string", make_identity, true);
    refuse_values("column \"x\" is of string, but the feature \"x\" is of float32", make_hash, false);
}

/* --- crosses ------------------------------------------------------------------------------------------------------ */

static void expect_bucket(feature_test *t, est_node node, int64_t row, int64_t n, int64_t id)
{
    static double out[6000];

    assert_true(feature_fetch(t, node, out, 6000) >= (row + 1) * n);
    for (int64_t i = 0; i < n; i++) {
        if (out[row * n + i] != (i == id)) fail_msg("row %d: id %d counts %g", (int)row, (int)i, out[row * n + i]);
    }
}

TEST(crosses)
{
    feature_test      t     = feature_begin();
    const est_column *color = est_key_column(t.columns, "color"), *size = est_key_column(t.columns, "size");
    const est_column *dense = est_key_column(t.columns, "dense");
    const est_column *three = est_identity_column(t.columns, "three", 5, NULL);
    est_node          plain, other_key, mixed, dense_first, nested;

    feature_strings(&t, "color", EST_SHAPE(1), (const char *const[]){ "red" });
    feature_rows(&t, "color", 2, (const int64_t[]){ 0, 1, 1 });
    feature_strings(&t, "size", EST_SHAPE(2), (const char *const[]){ "large", "large" });
    feature_rows(&t, "size", 2, (const int64_t[]){ 0, 1, 2 });
    feature_strings(&t, "dense", EST_SHAPE(2), (const char *const[]){ "red", "" });
    feature_i64(&t, "three", EST_SHAPE(2), (const int64_t[]){ 3, 3 });
    plain       = indicated(&t, est_crossed_column(EST_COLUMN_LIST(color, size), 1000, 0));
    other_key   = indicated(&t, est_crossed_column(EST_COLUMN_LIST(color, size), 1000, 42));
    mixed       = indicated(&t, est_crossed_column(EST_COLUMN_LIST(color, three), 1000, 0));
    dense_first = indicated(&t, est_crossed_column(EST_COLUMN_LIST(dense, three), 1000, 0));
    nested      = indicated(
             &t,
             est_crossed_column(EST_COLUMN_LIST(three, est_crossed_column(EST_COLUMN_LIST(color, size), 7, 0)), 1000, 0));
    feature_ready(&t);
    expect_bucket(&t, plain, 0, 1000, 245);
    expect_bucket(&t, plain, 1, 1000, -1); /* a row without a color has no combination */
    expect_bucket(&t, other_key, 0, 1000, 536);
    expect_bucket(&t, mixed, 0, 1000, 945);
    expect_bucket(&t, dense_first, 0, 1000, 9); /* 3, "red": dense keys come last */
    {
        double all[2000];
        int    in_row_1 = 0;

        assert_int_equal(feature_fetch(&t, dense_first, all, 2000), 2000);
        for (int i = 0; i < 1000; i++) in_row_1 += all[1000 + i] == 1;
        assert_int_equal(in_row_1, 1);                                /* "" of a dense key is a value */
        assert_int_equal(feature_fetch(&t, nested, all, 2000), 2000); /* three values at once, not a hash of a hash */
    }
    feature_end(&t);
}

/* The buckets of TensorFlow for 15, 30 and 55, whatever their fractions. */
TEST(crossed_floats)
{
    feature_test t = feature_begin();
    est_node     node;

    feature_f32(&t, "age", EST_SHAPE(3), (const float[]){ 15, 30.25F, 55.75F });
    feature_strings(&t, "city", EST_SHAPE(3), (const char *const[]){ "Rome", "Oslo", "Bonn" });
    node = indicated(
        &t, est_crossed_column(EST_COLUMN_LIST(est_key_column(t.columns, "age"), est_key_column(t.columns, "city")), 20,
                               0));
    feature_ready(&t);
    expect_bucket(&t, node, 0, 20, 15);
    expect_bucket(&t, node, 1, 20, 6);
    expect_bucket(&t, node, 2, 20, 19);
    feature_end(&t);
}

/* Ids of a cross are hashed, not looked up, so those out of range are values too; a default still replaces them. */
TEST(crossed_ids_out_of_range)
{
    feature_test                   t     = feature_begin();
    const est_categorical_options *three = EST_CATEGORICAL(.has_default = true, .default_value = 3);
    const est_column              *a     = est_identity_column(t.columns, "a", 2, NULL);
    const est_column              *b     = est_identity_column(t.columns, "b", 2, NULL);
    const est_column              *c     = est_identity_column(t.columns, "c", 2, NULL);
    const est_column              *far   = est_identity_column(t.columns, "far", 4, three);
    est_node                       open, with_default;

    feature_i64(&t, "a", EST_SHAPE(1), (const int64_t[]){ 3 });
    feature_i64(&t, "b", EST_SHAPE(1), (const int64_t[]){ 7 });
    feature_i64(&t, "c", EST_SHAPE(1), (const int64_t[]){ 11 });
    feature_i64(&t, "far", EST_SHAPE(1), (const int64_t[]){ 99 });
    open         = indicated(&t, est_crossed_column(EST_COLUMN_LIST(a, b, c), 1000, 0));
    with_default = indicated(&t, est_crossed_column(EST_COLUMN_LIST(far, b, c), 1000, 0));
    feature_ready(&t);
    expect_bucket(&t, open, 0, 1000, 715); /* 3, 7, 11 by TensorFlow */
    expect_bucket(&t, with_default, 0, 1000, 715);
    feature_end(&t);
}

/* --- weights ------------------------------------------------------------------------------------------------------ */

TEST(weights)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 3, NULL);
    const est_column *in = est_identity_column(t.columns, "dense", 3, NULL);
    const est_column *of = est_crossed_column(EST_COLUMN_LIST(id, est_key_column(t.columns, "key")), 1, 0);
    est_node          ragged, dense, crossed;

    feature_i64(&t, "id", EST_SHAPE(4), (const int64_t[]){ 0, 2, 2, 1 });
    feature_rows(&t, "id", 3, (const int64_t[]){ 0, 3, 3, 4 });
    feature_f32(&t, "w", EST_SHAPE(4), (const float[]){ 0.5F, 2, 3, -1 });
    feature_rows(&t, "w", 3, (const int64_t[]){ 0, 3, 3, 4 });
    feature_i64(&t, "dense", EST_SHAPE(3, 2), (const int64_t[]){ 0, 1, -1, 2, -1, -1 });
    feature_i64(&t, "wi", EST_SHAPE(3, 2), (const int64_t[]){ 4, 5, 6, 7, 8, 0 }); /* integers are cast */
    feature_strings(&t, "key", EST_SHAPE(3), (const char *const[]){ "a", "b", "c" });
    ragged  = indicated(&t, est_weighted_column(id, "w"));
    dense   = indicated(&t, est_weighted_column(in, "wi"));
    crossed = indicated(&t, est_weighted_column(of, "w"));
    feature_ready(&t);
    feature_expect(&t, ragged, 0.5, 0, 5, /**/ 0, 0, 0, /**/ 0, -1, 0);
    feature_expect(&t, dense, 4, 5, 0, /**/ 0, 0, 7, /**/ 0, 0, 0); /* the 6 goes with the missing value */
    feature_expect(&t, crossed, 5.5, 0, -1);
    feature_end(&t);
}

static void refuse_weights(const char *weights, const char *text)
{
    feature_test      t     = feature_begin();
    const est_column *id    = est_identity_column(t.columns, "id", 3, NULL);
    const est_column *words = est_hash_bucket_column(t.columns, "word", 3, NULL);
    est_node          a, b;

    feature_i64(&t, "id", EST_SHAPE(2), (const int64_t[]){ 0, 2 });
    feature_rows(&t, "id", 2, (const int64_t[]){ 0, 1, 2 });
    feature_f32(&t, "w", EST_SHAPE(2), (const float[]){ 0.5F, 2 });
    feature_rows(&t, "w", 2, (const int64_t[]){ 0, 2, 2 });
    feature_strings(&t, "word", EST_SHAPE(2, 2), (const char *const[]){ "a", "b", "", "c" });
    feature_f32(&t, "few", EST_SHAPE(2, 1), (const float[]){ 1, 2 });
    feature_f32(&t, "more", EST_SHAPE(3), (const float[]){ 1, 2, 3 });
    feature_rows(&t, "more", 2, (const int64_t[]){ 0, 1, 3 });
    a = alone(&t, est_embedding_column(est_weighted_column(id, "w"), 2, NULL));
    b = indicated(&t, est_weighted_column(id, "more"));
    feature_ready(&t);
    feature_fails(&t, a, "column \"id_weighted_by_w\": row 0 has 1 values and 2 weights");
    feature_fails(&t, b, "column \"id_weighted_by_more\": row 1 has 1 values and 2 weights");
    (void)indicated(&t, est_weighted_column(words, weights));
    feature_bad_graph(&t, text);
    feature_end(&t);
}

TEST(weights_that_do_not_line_up)
{
    refuse_weights("w", "is dense, the other ragged");
    refuse_weights("few", "column \"word_weighted_by_few\": every row has 2 values and 1 weights");
    refuse_weights("word", "the weights \"word\" are strings");
}

/* --- embeddings --------------------------------------------------------------------------------------------------- */

TEST(embeddings)
{
    static const float table[] = { 1, 2, 10, 20, 100, 200 };
    feature_test       t       = feature_begin();
    const est_column  *id      = est_identity_column(t.columns, "id", 3, NULL);
    const est_column  *heavy   = est_weighted_column(id, "w");
    est_node           mean, sum, sqrtn, weighted;
    double             first[6];

    feature_i64(&t, "id", EST_SHAPE(4), (const int64_t[]){ 0, 2, 1, -1 });
    feature_rows(&t, "id", 3, (const int64_t[]){ 0, 2, 2, 4 });
    feature_f32(&t, "w", EST_SHAPE(4), (const float[]){ 1, 3, 2, 5 });
    feature_rows(&t, "w", 3, (const int64_t[]){ 0, 2, 2, 4 });
    mean     = alone(&t, est_embedding_column(id, 2, NULL));
    sum      = alone(&t, est_embedding_column(id, 2, EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SUM)));
    sqrtn    = alone(&t, est_embedding_column(id, 2, EST_EMBEDDING_COLUMN(.combiner = EST_COMBINE_SQRTN)));
    weighted = alone(&t, est_embedding_column(heavy, 2, NULL));
    check_shape(mean, EST_SHAPE(-1, 2));
    feature_ready(&t);
    assert_int_equal(nn_read(&t.nn, "input_layer/id_embedding/embedding_weights", first, 6), 6);
    for (int i = 0; i < 6; i++) assert_true(first[i] != 0 && fabs(first[i]) <= 2 / sqrt(2)); /* within two deviations */
    feature_set(&t, "input_layer/id_embedding/embedding_weights", EST_SHAPE(3, 2), table);
    feature_set(&t, "input_layer_1/id_embedding/embedding_weights", EST_SHAPE(3, 2), table);
    feature_set(&t, "input_layer_2/id_embedding/embedding_weights", EST_SHAPE(3, 2), table);
    feature_set(&t, "input_layer_3/id_weighted_by_w_embedding/embedding_weights", EST_SHAPE(3, 2), table);
    feature_expect(&t, mean, 50.5, 101, /**/ 0, 0, /**/ 10, 20);
    feature_expect(&t, sum, 101, 202, /**/ 0, 0, /**/ 10, 20);
    feature_expect(&t, sqrtn, 101 / sqrt(2), 202 / sqrt(2), /**/ 0, 0, /**/ 10, 20);
    feature_expect(&t, weighted, 301.0 / 4, 602.0 / 4, /**/ 0, 0, /**/ 10, 20);
    feature_end(&t);
}

TEST(max_norm_and_initializer)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 2, NULL);
    est_node          y;

    feature_i64(&t, "id", EST_SHAPE(1), (const int64_t[]){ 1 });
    y = alone(&t,
              est_embedding_column(id, 2, EST_EMBEDDING_COLUMN(.initializer = est_init_constant(3), .max_norm = 1)));
    feature_ready(&t);
    feature_expect(&t, y, sqrt(0.5), sqrt(0.5));
    feature_end(&t);
}

/* Two shared columns in a deep and a linear layer: which names have the table and the linear weights. */
static void check_shared(bool v1, const char *table, const char *weights_a, const char *weights_b)
{
    static const float rows[] = { 1, 2, 3 };
    feature_test       t      = feature_begin();
    const est_column  *a      = est_identity_column(t.columns, "a", 3, NULL);
    const est_column  *b      = est_identity_column(t.columns, "b", 3, NULL);
    const est_column  *shared[2], *odd[1];
    est_node           both, linear;

    feature_i64(&t, "a", EST_SHAPE(2), (const int64_t[]){ 0, 2 });
    feature_i64(&t, "b", EST_SHAPE(2), (const int64_t[]){ 1, 0 });
    est_shared_embedding_columns(EST_COLUMN_LIST(b, a), 1, NULL, shared);
    both   = est_input_layer(feature_features(&t), EST_COLUMN_LIST(shared[0], shared[1]), EST_INPUT_LAYER(.v1 = v1));
    linear = est_linear_model(feature_features(&t), EST_COLUMN_LIST(shared[0], shared[1]), EST_LINEAR_MODEL(.v1 = v1));
    assert_int_equal(est_trainable_variables(t.nn.graph).n, 4); /* the table, two weights and a bias */
    feature_ready(&t);
    assert_int_equal(est_session_variables(t.nn.session), 4);
    feature_set(&t, table, EST_SHAPE(3, 1), rows);
    feature_set(&t, weights_a, EST_SHAPE(1, 1), (const float[]){ 10 });
    feature_set(&t, weights_b, EST_SHAPE(1, 1), (const float[]){ 100 });
    feature_expect(&t, both, 1, 2, /**/ 3, 1);
    feature_expect(&t, linear, 210, 130);
    est_shared_embedding_columns(EST_COLUMN_LIST(a), 2, EST_EMBEDDING_COLUMN(.collection_name = "a_b_shared_embedding"),
                                 odd);
    (void)alone(&t, odd[0]);
    feature_bad_graph(
        &t, "needs a table of shape [3,2], but the table of its collection \"a_b_shared_embedding\" has shape [3,1]");
    feature_end(&t);
}

TEST(shared_embeddings)
{
    check_shared(false, "a_b_shared_embedding", "linear_model/a_shared_embedding/weights",
                 "linear_model/b_shared_embedding/weights");
    check_shared(true, "input_layer/a_b_shared_embedding/embedding_weights",
                 "linear_model/a_b_shared_embedding/weights", "linear_model/a_b_shared_embedding_1/weights");
}

/* A table of three rows, "weights", as a checkpoint below a new directory. */
static void save_table(char *dir, const float *values)
{
    nn_test    t     = nn_begin(1);
    est_saver *saver = NULL;
    est_node   table = est_weight(t.graph, "weights", EST_SHAPE(3, 2), NULL);

    est_test_dir(dir);
    est_variable_initializer(table, est_const_f32(t.graph, EST_SHAPE(3, 2), values));
    nn_ready(&t);
    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(est_saver_save(saver, t.session, 5, NULL, NULL));
    est_saver_free(saver);
    nn_end(&t);
}

static est_node stored(feature_test *t, int64_t n_buckets, const char *dir, const char *tensor)
{
    return alone(t, est_embedding_column(est_identity_column(t->columns, "id", n_buckets, NULL), 2,
                                         EST_EMBEDDING_COLUMN(.checkpoint = dir, .tensor_name = tensor)));
}

static void refuse_stored(int64_t n_buckets, const char *dir, const char *tensor, const char *text)
{
    feature_test t = feature_begin();

    feature_i64(&t, "id", EST_SHAPE(1), (const int64_t[]){ 1 });
    (void)stored(&t, n_buckets, dir, tensor);
    feature_bad_graph(&t, text);
    feature_end(&t);
}

TEST(first_values_from_a_checkpoint)
{
    static const float values[] = { 1, 2, 3, 4, 5, 6 };
    feature_test       t        = feature_begin();
    char               dir[64];
    est_node           y;

    save_table(dir, values);
    feature_i64(&t, "id", EST_SHAPE(2), (const int64_t[]){ 2, 0 });
    y = stored(&t, 3, dir, "weights");
    feature_ready(&t);
    feature_expect(&t, y, 5, 6, 1, 2);
    refuse_stored(4, dir, "weights",
                  "embedding column \"id_embedding\" is float32 [4,2], but weights in the checkpoint");
    refuse_stored(3, dir, "other", "embedding column \"id_embedding\"");
    refuse_stored(3, "/nowhere", "weights", "/nowhere");
    est_test_dir_remove(dir);
    feature_end(&t);
}

TEST(frozen)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 2, NULL);

    feature_i64(&t, "id", EST_SHAPE(1), (const int64_t[]){ 1 });
    (void)alone(&t, est_embedding_column(id, 2, EST_EMBEDDING_COLUMN(.frozen = true)));
    (void)est_input_layer(feature_features(&t), EST_COLUMN_LIST(est_embedding_column(id, 2, NULL)),
                          EST_INPUT_LAYER(.name = "given", .frozen = true));
    (void)est_linear_model(feature_features(&t), EST_COLUMN_LIST(id), EST_LINEAR_MODEL(.frozen = true));
    assert_int_equal(est_trainable_variables(t.nn.graph).n, 0);
    assert_int_equal(est_global_variables(t.nn.graph).n, 4);
    (void)alone(&t, est_embedding_column(id, 2, NULL));
    assert_int_equal(est_trainable_variables(t.nn.graph).n, 1);
    assert_ok(est_graph_status(t.nn.graph));
    assert_non_null(est_graph_find(t.nn.graph, "given/id_embedding/embedding_weights").graph);
    feature_end(&t);
}

/* --- together ----------------------------------------------------------------------------------------------------- */

TEST(order_is_by_name)
{
    feature_test      t      = feature_begin();
    est_columns      *second = est_columns_create();
    const est_column *b      = est_numeric_column(t.columns, "b", NULL);
    const est_column *upper  = est_numeric_column(second, "Z", NULL); /* another set is fine */
    const est_column *a      = est_numeric_column(t.columns, "a b/c", NULL);
    const est_column *id     = est_embedding_column(est_identity_column(t.columns, "a:id", 2, NULL), 1,
                                                    EST_EMBEDDING_COLUMN(.initializer = est_init_constant(9)));
    est_node          y;
    double            value;

    feature_f32(&t, "b", EST_SHAPE(1), (const float[]){ 2 });
    feature_f32(&t, "Z", EST_SHAPE(1), (const float[]){ 0 });
    feature_f32(&t, "a b/c", EST_SHAPE(1), (const float[]){ 1 });
    feature_i64(&t, "a:id", EST_SHAPE(1), (const int64_t[]){ 1 });
    y = layer(&t, EST_COLUMN_LIST(b, upper, id, a));
    check_shape(y, EST_SHAPE(-1, 4));
    feature_ready(&t);
    feature_expect(&t, y, 0, 1, 9, 2);
    nn_read(&t.nn, "input_layer/a_id_embedding/embedding_weights", &value, 1); /* scopes have no ":" */
    est_columns_free(second);
    feature_end(&t);
}

TEST(empty_batch)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 2, NULL), *x = est_numeric_column(t.columns, "x", NULL);
    est_node          y;

    feature_i64(&t, "id", EST_SHAPE(0, 1), NULL);
    feature_f32(&t, "x", EST_SHAPE(0, 1), NULL);
    y = layer(&t, EST_COLUMN_LIST(est_indicator_column(id), est_embedding_column(id, 3, NULL), x,
                                  est_bucketized_column(x, EST_F32S(1))));
    feature_ready(&t);
    assert_int_equal(feature_fetch(&t, y, NULL, 0), 0);
    feature_end(&t);
}

/* Rows, but not one value in them, of every kind of category. */
TEST(rows_without_values)
{
    static const char *const vocabulary[] = { "a", "b" };
    feature_test             t            = feature_begin();
    const est_column        *word         = est_hash_bucket_column(t.columns, "word", 3, NULL);
    const est_column *known = est_vocabulary_strings_column(t.columns, "known", (est_strings){ vocabulary, 2 }, NULL);
    const est_column *cross = est_crossed_column(
        EST_COLUMN_LIST(est_key_column(t.columns, "word"), est_key_column(t.columns, "known")), 4, 0);
    est_node y;

    feature_strings(&t, "word", EST_SHAPE(0), NULL);
    feature_rows(&t, "word", 2, (const int64_t[]){ 0, 0, 0 });
    feature_strings(&t, "known", EST_SHAPE(0), NULL);
    feature_rows(&t, "known", 2, (const int64_t[]){ 0, 0, 0 });
    y = layer(&t,
              EST_COLUMN_LIST(est_indicator_column(word), est_indicator_column(known), est_indicator_column(cross)));
    feature_ready(&t);
    feature_expect_values(&t, y, (const double[18]){ 0 }, 18);
    feature_end(&t);
}
