/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear models: weights of ids and of numbers, combiners, units, names, gradients; and layers over sequences. */
#include "support/feature_test.h"

TEST(sum_of_columns)
{
    static const char *const colors[] = { "red", "green" };
    feature_test             t        = feature_begin();
    const est_column        *x        = est_numeric_column(t.columns, "x", EST_NUMERIC(.shape = EST_SHAPE(2)));
    const est_column        *in       = est_bucketized_column(x, EST_F32S(0));
    const est_column *color = est_vocabulary_strings_column(t.columns, "color", (est_strings){ colors, 2 }, NULL);
    const est_column *emb   = est_embedding_column(color, 2, NULL);
    est_node          y;

    feature_f32(&t, "x", EST_SHAPE(2, 2), (const float[]){ 1, 2, -3, 4 });
    feature_strings(&t, "color", EST_SHAPE(3), (const char *const[]){ "red", "red", "green" });
    feature_rows(&t, "color", 2, (const int64_t[]){ 0, 3, 3 });
    y = est_linear_model(feature_features(&t), EST_COLUMN_LIST(x, color, emb, in), NULL);
    feature_ready(&t);
    feature_expect(&t, y, 0, 0); /* weights begin at 0 */
    assert_int_equal(est_session_variables(t.nn.session), 6);
    assert_string_equal(est_session_variable(t.nn.session, 0), "linear_model/color/weights");
    assert_string_equal(est_session_variable(t.nn.session, 5), "linear_model/bias_weights");
    feature_set(&t, "linear_model/x/weights", EST_SHAPE(2, 1), (const float[]){ 1, 10 });
    feature_set(&t, "linear_model/color/weights", EST_SHAPE(2, 1), (const float[]){ 100, 1000 });
    feature_set(&t, "linear_model/color_embedding/weights", EST_SHAPE(2, 1), (const float[]){ 0.5F, 0.25F });
    feature_set(&t, "linear_model/color_embedding/embedding_weights", EST_SHAPE(2, 2), (const float[]){ 3, 6, 9, 12 });
    feature_set(&t, "linear_model/x_bucketized/weights", EST_SHAPE(4, 1), (const float[]){ 1e4F, 2e4F, 3e4F, 4e4F });
    feature_set(&t, "linear_model/bias_weights", EST_SHAPE(1), (const float[]){ 7 });
    feature_expect(&t, y, 21 + 1200 + (5 * 0.5 + 8 * 0.25) + 6e4 + 7, 37 + 5e4 + 7);
    feature_end(&t);
}

TEST(combiners_and_units)
{
    static const float weights[] = { 1, 2, 3, 4, 5, 6 };
    feature_test       t         = feature_begin();
    const est_column  *id        = est_identity_column(t.columns, "id", 3, NULL);
    const est_column  *heavy     = est_weighted_column(id, "w");
    est_node           sum, mean, weighted;

    feature_i64(&t, "id", EST_SHAPE(3), (const int64_t[]){ 0, 2, 1 });
    feature_rows(&t, "id", 2, (const int64_t[]){ 0, 2, 3 });
    feature_f32(&t, "w", EST_SHAPE(3), (const float[]){ 2, 4, -1 });
    feature_rows(&t, "w", 2, (const int64_t[]){ 0, 2, 3 });
    sum      = est_linear_model(feature_features(&t), EST_COLUMN_LIST(id), EST_LINEAR_MODEL(.name = "s", .units = 2));
    mean     = est_linear_model(feature_features(&t), EST_COLUMN_LIST(id),
                                EST_LINEAR_MODEL(.name = "m", .units = 2, .combiner = EST_COMBINE_MEAN));
    weighted = est_linear_model(feature_features(&t), EST_COLUMN_LIST(heavy),
                                EST_LINEAR_MODEL(.name = "w", .units = 2));
    feature_ready(&t);
    feature_set(&t, "s/id/weights", EST_SHAPE(3, 2), weights);
    feature_set(&t, "m/id/weights", EST_SHAPE(3, 2), weights);
    feature_set(&t, "w/id_weighted_by_w/weights", EST_SHAPE(3, 2), weights);
    feature_expect(&t, sum, 6, 8, 3, 4);
    feature_expect(&t, mean, 3, 4, 3, 4);
    feature_expect(&t, weighted, 22, 28, -3, -4); /* a sum keeps weights below 0 */
    feature_end(&t);
}

TEST(it_learns)
{
    feature_test      t  = feature_begin();
    const est_column *id = est_identity_column(t.columns, "id", 2, NULL), *x = est_numeric_column(t.columns, "x", NULL);
    est_node          y, train;
    double            w[2], v, b;

    feature_i64(&t, "id", EST_SHAPE(2), (const int64_t[]){ 1, -1 });
    feature_f32(&t, "x", EST_SHAPE(2), (const float[]){ 0, 3 });
    y     = est_linear_model(feature_features(&t), EST_COLUMN_LIST(id, x), NULL);
    train = est_minimize(est_sgd(0.5), est_sum(y), NULL);
    feature_ready(&t);
    feature_fetch(&t, est_after(est_identity(y), train), NULL, 0);
    nn_read(&t.nn, "linear_model/id/weights", w, 2);
    nn_read(&t.nn, "linear_model/x/weights", &v, 1);
    nn_read(&t.nn, "linear_model/bias_weights", &b, 1);
    assert_near(w[0], 0, 0); /* nobody had it */
    assert_near(w[1], -0.5, 0);
    assert_near(v, -1.5, 0);
    assert_near(b, -1, 0);
    feature_end(&t);
}

TEST(refuses)
{
    feature_test t = feature_begin();

    (void)est_linear_model(feature_features(&t), EST_COLUMN_LIST(est_numeric_column(t.columns, "x", NULL)),
                           EST_LINEAR_MODEL(.units = -1));
    feature_bad_graph(&t, "a linear model of -1 units");
    feature_end(&t);
}

/* --- sequences ---------------------------------------------------------------------------------------------------- */

TEST(sequences)
{
    static const char *const list[] = { "a", "b" };
    feature_test             t      = feature_begin();
    const float              pad[]  = { 9 };
    const est_column        *word   = est_vocabulary_strings_column(t.columns, "word", (est_strings){ list, 2 },
                                                                    EST_CATEGORICAL(.sequence = true));
    const est_column        *number = est_sequence_numeric_column(
               t.columns, "number", EST_NUMERIC(.shape = EST_SHAPE(2), .default_value = { pad, 1 }));
    est_node y, lengths = EST_NO_NODE;

    feature_strings(&t, "word", EST_SHAPE(3), (const char *const[]){ "b", "?", "a" });
    feature_rows(&t, "word", 3, (const int64_t[]){ 0, 2, 2, 3 });
    feature_f32(&t, "number", EST_SHAPE(6), (const float[]){ 1, 2, 3, 4, 5, 6 });
    feature_rows(&t, "number", 3, (const int64_t[]){ 0, 4, 4, 6 });
    y = est_sequence_input_layer(
        feature_features(&t), EST_COLUMN_LIST(est_embedding_column(word, 2, NULL), est_indicator_column(word), number),
        &lengths);
    assert_int_equal(est_node_dim(y, 2), 6);
    feature_ready(&t);
    feature_set(&t, "sequence_input_layer/word_embedding/embedding_weights", EST_SHAPE(2, 2),
                (const float[]){ 10, 20, 30, 40 });
    feature_expect(&t, lengths, 2, 0, 1);
    feature_expect(&t, y, 1, 2, 30, 40, 0, 1, /**/ 3, 4, 0, 0, 0, 0, /**/ 9, 9, 0, 0, 0, 0, /**/ 9, 9, 0, 0, 0, 0,
                   /**/ 5, 6, 10, 20, 1, 0, /**/ 9, 9, 0, 0, 0, 0);
    feature_end(&t);
}

TEST(context)
{
    feature_test      t    = feature_begin();
    const est_column *step = est_sequence_numeric_column(t.columns, "step", NULL);
    const est_column *row  = est_numeric_column(t.columns, "row", EST_NUMERIC(.shape = EST_SHAPE(2)));
    est_node          steps, context, y, lengths = EST_NO_NODE;

    feature_f32(&t, "step", EST_SHAPE(3), (const float[]){ 1, 2, 3 });
    feature_rows(&t, "step", 2, (const int64_t[]){ 0, 2, 3 });
    feature_f32(&t, "row", EST_SHAPE(2, 2), (const float[]){ 10, 20, 30, 40 });
    steps   = est_sequence_input_layer(feature_features(&t), EST_COLUMN_LIST(step), &lengths);
    context = est_input_layer(feature_features(&t), EST_COLUMN_LIST(row), NULL);
    y       = est_concat_context(steps, context);
    assert_int_equal(est_node_dim(y, 2), 3);
    feature_ready(&t);
    feature_expect(&t, y, 1, 10, 20, /**/ 2, 10, 20, /**/ 3, 30, 40, /**/ 0, 30, 40); /* after the end too */
    (void)est_concat_context(context, steps);
    feature_bad_graph(&t, "sequences are [batch, steps, n] and their context is [batch, m], not [?,2] and [?,?,1]");
    feature_end(&t);
}

TEST(sequences_of_other_lengths)
{
    feature_test      t = feature_begin();
    const est_column *a = est_sequence_numeric_column(t.columns, "a", NULL);
    const est_column *b = est_sequence_numeric_column(t.columns, "b", NULL);
    const est_column *c = est_sequence_numeric_column(t.columns, "c", NULL);
    est_node          y, lengths = EST_NO_NODE;

    feature_f32(&t, "a", EST_SHAPE(2), (const float[]){ 1, 2 });
    feature_rows(&t, "a", 2, (const int64_t[]){ 0, 1, 2 });
    feature_f32(&t, "b", EST_SHAPE(2), (const float[]){ 1, 2 });
    feature_rows(&t, "b", 2, (const int64_t[]){ 0, 1, 2 });
    feature_f32(&t, "c", EST_SHAPE(1), (const float[]){ 1 });
    feature_rows(&t, "c", 2, (const int64_t[]){ 0, 1, 1 });
    y = est_sequence_input_layer(feature_features(&t), EST_COLUMN_LIST(a, b), &lengths);
    (void)est_sequence_input_layer(feature_features(&t), EST_COLUMN_LIST(a, c), &lengths);
    feature_ready(&t);
    feature_expect(&t, y, 1, 1, 2, 2);
    feature_fails(&t, lengths, "column \"c\": the lengths of its sequences and those of other columns do not line up");
    feature_end(&t);
}

TEST(sequences_are_ragged)
{
    feature_test t = feature_begin();
    est_node     lengths;

    feature_f32(&t, "a", EST_SHAPE(1, 2), (const float[]){ 1, 2 });
    (void)est_sequence_input_layer(feature_features(&t),
                                   EST_COLUMN_LIST(est_sequence_numeric_column(t.columns, "a", NULL)), &lengths);
    feature_bad_graph(&t, "the feature \"a\" is dense");
    feature_end(&t);
}
