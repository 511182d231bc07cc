/* SPDX-License-Identifier: Apache-2.0
 *
 * StringLower, StringUpper, StringStrip, StringJoin, StringLength, Substr, StringToNumber and the words of texts. */
#include <stdlib.h>

#include "graph/graph.h"
#include "ops/ops.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static est_node texts(est_graph *graph, est_shape shape, const char *const *data)
{
    est_str     items[8];
    est_tensor *tensor = NULL;
    est_node    node;
    int64_t     n = est_shape_count(&shape);

    for (int64_t i = 0; i < n; i++) items[i] = (est_str){ data[i], strlen(data[i]) };
    CHECK(est_tensor_create_from(EST_STRING, shape, items, &tensor) == EST_OK, "%s", est_error_message());
    node = est_const(graph, tensor);
    est_tensor_free(tensor);
    return node;
}

#define TEXTS(graph, ...)                                                                                              \
    texts(graph, EST_SHAPE(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)),                             \
          (const char *const[]){ __VA_ARGS__ })
#define WANT(node, ...)                                                                                                \
    check_strings(node, EST_SHAPE(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)),                      \
                  (const char *const[]){ __VA_ARGS__ })

/* Numbers of any dtype against these. */
static void check_numbers(est_node node, est_shape shape, const double *expected)
{
    est_tensor *out = test_run(est_cast(node, EST_F64), EST_NO_FEEDS);

    if (out == NULL) return;
    CHECK(est_shape_equal(est_tensor_shape(out), &shape), "%s", est_node_name(node));
    for (int64_t i = 0; i < est_tensor_count(out) && i < est_shape_count(&shape); i++) {
        double got = ((const double *)est_tensor_data(out))[i];

        CHECK(got == expected[i], "%s element %d is %g instead of %g", est_node_name(node), (int)i, got, expected[i]);
    }
    est_tensor_free(out);
}

static void test_texts(void)
{
    est_graph *graph  = test_graph();
    est_node   x      = TEXTS(graph, " Ab\t", "", "xYZ! \xc3\x84"),
             one      = texts(graph, EST_SHAPE_SCALAR, &(const char *){ "-" });
    est_node parts[3] = { x, one, x };

    WANT(est_string_lower(x), " ab\t", "", "xyz! \xc3\x84");
    WANT(est_string_upper(x), " AB\t", "", "XYZ! \xc3\x84");
    WANT(est_string_strip(x), "Ab", "", "xYZ! \xc3\x84");
    WANT(est_string_join((est_nodes){ parts, 3 }, NULL), " Ab\t- Ab\t", "-", "xYZ! \xc3\x84-xYZ! \xc3\x84");
    WANT(est_string_join((est_nodes){ parts, 2 }, ", "), " Ab\t, -", ", -", "xYZ! \xc3\x84, -");
    check_strings(est_string_join((est_nodes){ parts + 1, 1 }, "+"), EST_SHAPE_SCALAR, (const char *const[]){ "-" });
    check_numbers(est_string_length(x, false), EST_SHAPE(3), (const double[]){ 4, 0, 7 });
    check_numbers(est_string_length(x, true), EST_SHAPE(3), (const double[]){ 4, 0, 6 });
    est_graph_free(graph);
}

static void test_parts(void)
{
    est_graph *graph = test_graph();
    est_node   x     = TEXTS(graph, "abcd", "\xc3\x84xy", "qr");
    est_node   two = est_scalar(graph, EST_I32, 2), back = est_scalar(graph, EST_I32, -2);
    est_node   each  = est_const_i64(graph, EST_SHAPE(3), (const int64_t[]){ 1, 2, 0 });
    est_node   sizes = est_const_i64(graph, EST_SHAPE(3), (const int64_t[]){ 9, 1, 0 });

    WANT(est_substr(x, two, two, false), "cd", "xy", "");
    WANT(est_substr(x, back, two, true), "cd", "xy", "qr");
    WANT(est_substr(x, est_scalar(graph, EST_I32, 0), two, true), "ab", "\xc3\x84x", "qr");
    WANT(est_substr(x, each, sizes, true), "bcd", "y", "");
    WANT(est_substr(x, two, back, false), "cd", "xy", ""); /* below 0: the rest, and of characters none */
    WANT(est_substr(x, two, back, true), "", "", "");
    est_graph_free(graph);
}

static void test_numbers(void)
{
    est_graph *graph = test_graph();
    est_node   x     = TEXTS(graph, "1.5", "-2", " 3e2 ");

    check_numbers(est_string_to_number(x, EST_F32), EST_SHAPE(3), (const double[]){ 1.5, -2, 300 });
    check_numbers(est_string_to_number(TEXTS(graph, "7", "-8"), EST_I32), EST_SHAPE(2), (const double[]){ 7, -8 });
    est_graph_free(graph);
}

/* The values and the splits of words. */
static void check_words(est_ragged_node rows, int64_t n, const char *const *values, int64_t n_splits,
                        const double *splits)
{
    check_strings(rows.values, EST_SHAPE(n), values);
    check_numbers(rows.splits, EST_SHAPE(n_splits), splits);
}

static void test_words(void)
{
    est_graph *graph = test_graph();
    est_node   x     = TEXTS(graph, " The cat, THE dog. ", "", "a'b\tc");

    check_words(est_words(x, EST_WORDS(.lower = true, .no_punctuation = true)), 6,
                (const char *const[]){ "the", "cat", "the", "dog", "ab", "c" }, 4, (const double[]){ 0, 4, 4, 6 });
    check_words(est_words(x, NULL), 6, (const char *const[]){ "The", "cat,", "THE", "dog.", "a'b", "c" }, 4,
                (const double[]){ 0, 4, 4, 6 });
    check_words(est_words(x, EST_WORDS(.splits_max = 1)), 4,
                (const char *const[]){ "The", "cat, THE dog. ", "a'b", "c" }, 4, (const double[]){ 0, 2, 2, 4 });
    check_words(est_words(x, EST_WORDS(.split = EST_SPLIT_NOT, .no_punctuation = true)), 3,
                (const char *const[]){ " The cat THE dog ", "", "ab\tc" }, 4, (const double[]){ 0, 1, 2, 3 });
    check_words(est_words(TEXTS(graph, "a, b, , c", ", "), EST_WORDS(.separator = ", ")), 6,
                (const char *const[]){ "a", "b", "", "c", "", "" }, 3, (const double[]){ 0, 4, 6 });
    check_words(est_words(TEXTS(graph, "a,b,c"), EST_WORDS(.separator = ",", .splits_max = 1)), 2,
                (const char *const[]){ "a", "b,c" }, 2, (const double[]){ 0, 2 });
    check_words(est_words(TEXTS(graph, "x\xc3\x84\xff"), EST_WORDS(.split = EST_SPLIT_CHARACTERS)), 3,
                (const char *const[]){ "x", "\xc3\x84", "\xef\xbf\xbd" }, 2, (const double[]){ 0, 3 });
    check_words(est_words(TEXTS(graph, "\xf0\x9f\x98z", "\xed\xa0\xe2\x82"), EST_WORDS(.split = EST_SPLIT_CHARACTERS)),
                5, (const char *const[]){ "\xef\xbf\xbd", "z", "\xef\xbf\xbd", "\xef\xbf\xbd", "\xef\xbf\xbd" }, 3,
                (const double[]){ 0, 2, 5 });
    check_words(est_words(TEXTS(graph, "xy", "z"), EST_WORDS(.split = EST_SPLIT_BYTES)), 3,
                (const char *const[]){ "x", "y", "z" }, 3, (const double[]){ 0, 2, 3 });
    check_words(est_words(TEXTS(graph, "a b c", "d"), EST_WORDS(.ngrams = EST_I64S(1, 2))), 6,
                (const char *const[]){ "a", "b", "c", "a b", "b c", "d" }, 3, (const double[]){ 0, 5, 6 });
    check_words(est_words(TEXTS(graph, "a b c", "d"), EST_WORDS(.ngrams = EST_I64S(3))), 1,
                (const char *const[]){ "a b c" }, 3, (const double[]){ 0, 1, 1 });
    est_graph_free(graph);
}

/* Batches of other sizes: memory grows, and the texts are those of the batch. */
static void test_batches(void)
{
    static const int64_t sizes[] = { 3, 400, 1, 0, 900 };
    est_graph           *graph   = test_graph();
    est_node             x = est_placeholder(graph, "x", EST_I64, EST_SHAPE(-1)), text = est_as_string(x);
    est_node             parts[2] = { text, text }, y = est_string_join((est_nodes){ parts, 2 }, " ");
    est_ragged_node      words   = est_words(y, NULL);
    est_session         *session = NULL;

    CHECK(est_session_create(graph, EST_SESSION(.threads = 2), &session) == EST_OK, "%s", est_error_message());
    for (int s = 0; s < 5; s++) {
        est_tensor *in = NULL, *out[2] = { NULL, NULL };
        int64_t    *values;

        CHECK(est_tensor_create(EST_I64, EST_SHAPE(sizes[s]), &in) == EST_OK);
        values = est_tensor_mutable_data(in);
        for (int64_t i = 0; i < sizes[s]; i++) values[i] = (i - 50) * (s + 1);
        CHECK(est_session_run(session, EST_FEEDS({ x, in }), EST_NODES(words.values, words.splits), EST_NO_NODES,
                              out) == EST_OK,
              "%s", est_error_message());
        for (int64_t i = 0; out[0] != NULL && i < 2 * sizes[s]; i++) {
            est_str got = ((const est_str *)est_tensor_data(out[0]))[i];
            char    want[32];

            snprintf(want, sizeof want, "%lld", (long long)values[i / 2]);
            CHECK(got.size == strlen(want) && memcmp(got.data, want, got.size) == 0, "%.*s instead of %s",
                  (int)got.size, got.data, want);
        }
        est_tensor_free(in);
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
    }
    est_session_free(session);
    est_graph_free(graph);
}

#define STRINGS(...)                                                                                                   \
    .dtype = EST_STRING, .strings = (const char *const[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "StringLower", { { EST_SHAPE(3), STRINGS("Ab", "", "C D") } } },
        { "StringUpper", { { EST_SHAPE(2, 1), STRINGS("Ab", "") } } },
        { "StringLower",
          { { EST_SHAPE(1), STRINGS("a") } },
          .attrs = EST_ATTRS(est_attr_string("encoding", "utf-8")),
          .fails = EST_UNIMPLEMENTED,
          .says  = "ASCII" },
        { "StringStrip", { { EST_SHAPE(2), STRINGS(" a ", "\n") } } },
        { "StringJoin",
          { { EST_SHAPE(2), STRINGS("a", "b") }, { EST_SHAPE_SCALAR, STRINGS("c") } },
          .n_in  = 2,
          .attrs = EST_ATTRS(est_attr_string("separator", "--")) },
        { "StringJoin",
          { { EST_SHAPE(2), STRINGS("a", "b") }, { EST_SHAPE(3), STRINGS("c", "d", "e") } },
          .n_in  = 2,
          .fails = EST_INVALID_ARGUMENT },
        { "StringLength", { { EST_SHAPE(2), STRINGS("a", "bc") } } },
        { "StringLength",
          { { EST_SHAPE(2), STRINGS("a", "bc") } },
          .attrs = EST_ATTRS(est_attr_string("unit", "WORD")),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "UTF8_CHAR" },
        { "Substr",
          { { EST_SHAPE(2), STRINGS("abc", "de") },
            { EST_SHAPE_SCALAR, EST_I32, .values = (const double[]){ 1 } },
            { EST_SHAPE(2), EST_I32, .values = (const double[]){ 1, 5 } } } },
        { "Substr",
          { { EST_SHAPE(2), STRINGS("abc", "de") },
            { EST_SHAPE_SCALAR, EST_I64, .values = (const double[]){ 3 } },
            { EST_SHAPE_SCALAR, EST_I64, .values = (const double[]){ 1 } } },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "pos 3 out of range for string of length 2 at index 1" },
        { "StringToNumber",
          { { EST_SHAPE(2), STRINGS("1.5", "-2") } },
          .attrs = EST_ATTRS(est_attr_type("out_type", EST_F64)) },
        { "StringToNumber",
          { { EST_SHAPE(2), STRINGS("1", "a1") } },
          .fails = EST_INVALID_ARGUMENT,
          .says  = "could not correctly convert string: a1" },
        { "EstTextWords",
          { { EST_SHAPE(2), STRINGS("a b, c", "") } },
          .attrs = EST_ATTRS(est_attr_bool("lower", true)) },
        { "EstTextWords", { { EST_SHAPE(2, 1), STRINGS("a b", "") } }, .fails = EST_INVALID_ARGUMENT },
        { "EstTextWords",
          { { EST_SHAPE(1), STRINGS("a b") } },
          .attrs = EST_ATTRS(est_attr_ints("ngrams", EST_I64S(0))),
          .fails = EST_INVALID_ARGUMENT,
          .says  = "n-grams of 0 words" },
    };

    test_texts();
    test_parts();
    test_numbers();
    test_words();
    test_batches();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
