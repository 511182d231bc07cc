/* SPDX-License-Identifier: Apache-2.0
 *
 * StringLookup: ids of mask, unknown and known words, words from files and from data, and what is refused.
 * tests/interop/preprocessing.c compares with Keras. */
#include "base/file.h"
#include "estoc/preprocessing.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static est_tensor *strings(int64_t n, const char *const *words)
{
    est_tensor *tensor;

    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(n), &tensor));
    for (int64_t i = 0; i < n; i++) assert_ok(est_tensor_set_string(tensor, i, words[i], strlen(words[i])));
    return tensor;
}

#define WORDS(...)                                                                                                     \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static est_string_lookup *lookup_of(const est_string_lookup_options *options)
{
    est_string_lookup *lookup = NULL;

    assert_ok(est_string_lookup_create(options, &lookup));
    return lookup;
}

/* The ids of n words in a session; the status of the run. */
static est_status look_up(const est_string_lookup *lookup, int n, const char *const *words, int64_t *out)
{
    nn_test     t     = nn_begin(1);
    est_tensor *given = strings(n, words), *ids;
    est_node    fed   = est_placeholder(t.graph, "words", EST_STRING, EST_SHAPE(-1));
    est_node    node  = est_string_lookup_apply(lookup, fed);
    est_status  status;

    nn_ready(&t);
    status = est_session_run(t.session, EST_FEEDS({ fed, given }), EST_NODES(node), EST_NO_NODES, &ids);
    if (status == EST_OK) {
        memcpy(out, est_tensor_data(ids), (size_t)n * sizeof *out);
        est_tensor_free(ids);
    }
    est_tensor_free(given);
    nn_end(&t);
    return status;
}

static void expect_ids(const est_string_lookup *lookup, int n, const char *const *words, const int64_t *want)
{
    int64_t got[16];

    assert_ok(look_up(lookup, n, words, got));
    for (int i = 0; i < n; i++) {
        if (got[i] != want[i]) fail_msg("\"%s\" has id %d, expected %d", words[i], (int)got[i], (int)want[i]);
    }
}

static void expect_words(const est_string_lookup *lookup, int n, const char *const *words)
{
    assert_int_equal(est_string_lookup_size(lookup), n);
    for (int i = 0; i < n; i++) {
        est_str got = est_string_lookup_word(lookup, i);

        if (got.size != strlen(words[i]) || memcmp(got.data, words[i], got.size) != 0) {
            fail_msg("word %d is \"%.*s\", expected \"%s\"", i, (int)got.size, got.data, words[i]);
        }
    }
    assert_null(est_string_lookup_word(lookup, n).data);
    assert_null(est_string_lookup_word(lookup, -1).data);
}

/* 7 words, mask and one unknown: 9 rows of an embedding. */
TEST(mask_and_unknown)
{
    est_string_lookup *l = lookup_of(
        EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("avenger", "ironman", "batman", "hulk", "spiderman", "kingkong",
                                                    "wonder_woman"),
                          .mask_token = ""));

    expect_words(l, 9,
                 WORDS("", "[UNK]", "avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"));
    expect_ids(l, 4, WORDS("avenger", "", "nobody", "wonder_woman"), (const int64_t[]){ 2, 0, 1, 8 });
    est_string_lookup_free(l);
    est_string_lookup_free(NULL);
}

static void refused(const est_string_lookup_options *options, const char *text)
{
    est_string_lookup *lookup = NULL;

    assert_int_equal(est_string_lookup_create(options, &lookup), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
    assert_null(lookup);
}

/* Ids that Keras gives. */
TEST(several_unknown)
{
    est_string_lookup *l = lookup_of(
        EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b", "c"), .mask_token = "", .num_oov_indices = 3));

    expect_words(l, 7, WORDS("", "[UNK]", "[UNK]", "[UNK]", "a", "b", "c"));
    expect_ids(l, 8, WORDS("a", "x", "y", "z", "", "c", "[UNK]", "hello"), (const int64_t[]){ 4, 3, 3, 2, 0, 6, 1, 2 });
    est_string_lookup_free(l);
    l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("[UNK]", "[UNK]", "a"), .num_oov_indices = 2));
    expect_words(l, 3, WORDS("[UNK]", "[UNK]", "a")); /* the list had the tokens */
    expect_ids(l, 3, WORDS("a", "", "[UNK]"), (const int64_t[]){ 2, 1, 0 });
    est_string_lookup_free(l);
}

/* "[UNK]" behind the leading tokens is a word with an id of its own. Ids that Keras gives. */
TEST(unknown_among_words)
{
    static const int64_t inside[] = { 1, 3, 2, 0 }, second[] = { 2, 3, 1, 0 }, fewer[] = { 3, 4, 2, 0 },
                         last[] = { 2, 1, 3, 1 };
    const char *const *words    = WORDS("a", "b", "[UNK]", "zz");
    est_string_lookup *l        = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "[UNK]", "b")));

    expect_words(l, 4, WORDS("[UNK]", "a", "[UNK]", "b"));
    expect_ids(l, 4, words, inside);
    est_string_lookup_free(l);
    l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("[UNK]", "[UNK]", "a", "b")));
    expect_words(l, 4, WORDS("[UNK]", "[UNK]", "a", "b"));
    expect_ids(l, 4, words, second);
    est_string_lookup_free(l);
    l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("[UNK]", "a", "b"), .num_oov_indices = 2));
    expect_words(l, 5, WORDS("[UNK]", "[UNK]", "[UNK]", "a", "b"));
    expect_ids(l, 4, words, fewer);
    est_string_lookup_free(l);
    l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("", "[UNK]", "a", "[UNK]"), .mask_token = ""));
    expect_words(l, 4, WORDS("", "[UNK]", "a", "[UNK]"));
    expect_ids(l, 4, words, last);
    est_string_lookup_free(l);
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("", "a", "[UNK]"), .mask_token = ""), "is the mask token");
}

TEST(no_unknown)
{
    est_string_lookup *l = lookup_of(
        EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b"), .mask_token = "", .num_oov_indices = EST_OFF));
    int64_t ids[3];

    expect_words(l, 3, WORDS("", "a", "b"));
    expect_ids(l, 3, WORDS("b", "", "a"), (const int64_t[]){ 2, 0, 1 });
    assert_int_equal(look_up(l, 3, WORDS("a", "", "zz"), ids), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"zz\""));
    est_string_lookup_free(l);
}

TEST(file)
{
    char               dir[64], path[80];
    est_string_lookup *l;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/words", dir);
    assert_ok(est_file_replace(path, "red\r\ngreen\n", 11));
    l = lookup_of(EST_STRING_LOOKUP(.file = path));
    assert_ok(est_file_remove(path)); /* the words are in the lookup, and in its graphs */
    expect_words(l, 3, WORDS("[UNK]", "red", "green"));
    expect_ids(l, 3, WORDS("red", "blue", "green"), (const int64_t[]){ 1, 0, 2 });
    est_string_lookup_free(l);
    assert_ok(est_file_replace(path, "red\nred\n", 8));
    assert_int_equal(est_string_lookup_create(EST_STRING_LOOKUP(.file = path), &l), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"red\" is in the vocabulary twice"));
    assert_non_null(strstr(est_error_message(), path));
    est_test_dir_remove(dir);
}

/* Uses of one lookup in a graph share its table. */
TEST(one_table)
{
    nn_test            t = nn_begin(1);
    est_string_lookup *l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b")));
    est_node           a, b, words = est_placeholder(t.graph, "words", EST_STRING, EST_SHAPE(-1, 2));

    a = est_string_lookup_apply(l, words);
    b = est_string_lookup_apply(l, words);
    assert_int_equal(est_node_dtype(a), EST_I64);
    assert_int_equal(est_node_shape(a)->rank, 2);
    assert_true(est_graph_find(t.graph, "string_lookup").graph != NULL);
    assert_true(est_graph_find(t.graph, "string_lookup_1").graph == NULL);
    assert_ok(est_graph_status(t.graph));
    assert_true(a.id != b.id);
    est_string_lookup_free(l); /* the graph keeps the words */
    nn_ready(&t);
    nn_end(&t);
}

/* --- adapt -------------------------------------------------------------------------------------------------------- */

static est_dataset *dataset_of(int64_t n, const char *const *words, int64_t batch)
{
    est_tensor  *tensor = strings(n, words);
    est_dataset *d      = est_dataset_slices(EST_NAMED_TENSORS({ "word", tensor }));

    est_tensor_free(tensor);
    assert_ok(est_dataset_finish(est_dataset_batch(d, batch, NULL), &d));
    return d;
}

/* The orders that Keras gives. */
TEST(adapt)
{
    est_dataset       *d = dataset_of(8, WORDS("b", "a", "c", "a", "\303\251", "Z", "", " "), 2);
    est_string_lookup *l = lookup_of(NULL);

    assert_int_equal(est_string_lookup_size(l), 0);
    assert_null(est_string_lookup_word(l, 0).data);
    assert_ok(est_string_lookup_adapt(l, d, "word"));
    expect_words(l, 8, WORDS("[UNK]", "a", "\303\251", "c", "b", "Z", " ", ""));
    est_dataset_free(d);
    d = dataset_of(3, WORDS("n", "m", "n"), 3); /* replaces */
    assert_ok(est_string_lookup_adapt(l, d, "word"));
    expect_words(l, 3, WORDS("[UNK]", "n", "m"));
    expect_ids(l, 2, WORDS("m", "a"), (const int64_t[]){ 2, 0 });
    est_dataset_free(d);
    est_string_lookup_free(l);

    d = dataset_of(8, WORDS("b", "a", "c", "a", "", "m", "[UNK]", "[UNK]"), 3);
    l = lookup_of(EST_STRING_LOOKUP(.mask_token = "m", .num_oov_indices = 2, .max_tokens = 5));
    assert_ok(est_string_lookup_adapt(l, d, "word"));
    expect_words(l, 5, WORDS("m", "[UNK]", "[UNK]", "a", "c"));
    est_string_lookup_free(l);
    est_dataset_free(d);
}

TEST(adapt_refused)
{
    est_dataset       *d = dataset_of(2, WORDS("a", "b"), 1), *endless, *numbers;
    est_string_lookup *l = lookup_of(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a"))), *free_one = lookup_of(NULL);

    assert_int_equal(est_string_lookup_adapt(l, d, "word"), EST_FAILED_PRECONDITION);
    assert_int_equal(est_string_lookup_adapt(free_one, d, "other"), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "\"other\""));
    assert_ok(est_dataset_finish(est_dataset_range(0, 3, 1), &numbers));
    assert_int_equal(est_string_lookup_adapt(free_one, numbers, est_dataset_component(numbers, 0)->name),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "int64"));
    assert_ok(est_dataset_finish(est_dataset_repeat(d, EST_FOREVER), &endless));
    assert_int_equal(est_string_lookup_adapt(free_one, endless, "word"), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "endless"));
    est_dataset_free(endless);
    d = dataset_of(1, WORDS("[UNK]"), 1);
    assert_int_equal(est_string_lookup_adapt(free_one, d, "word"), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no word"));
    est_dataset_free(d);
    est_dataset_free(numbers);
    est_string_lookup_free(l);
    est_string_lookup_free(free_one);
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

TEST(options_refused)
{
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b", "a")), "\"a\" is in the vocabulary twice");
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", ""), .mask_token = ""), "word 1 of the vocabulary is the");
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("[UNK]")), "no word");
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", NULL)), "word 1 of the vocabulary is NULL");
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b"), .max_tokens = 2), "3 ids; max_tokens is 2");
    refused(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a"), .file = "words"), "not both");
    refused(EST_STRING_LOOKUP(.num_oov_indices = -1), "num_oov_indices is -1");
    refused(EST_STRING_LOOKUP(.mask_token = "", .max_tokens = 2), "max_tokens is 2");
    refused(EST_STRING_LOOKUP(.max_tokens = -1), "max_tokens is -1");
}

static void refused_apply(const est_string_lookup *lookup, est_dtype dtype, const char *text)
{
    nn_test t = nn_begin(1);

    (void)est_string_lookup_apply(lookup, est_placeholder(t.graph, "x", dtype, EST_SHAPE(2)));
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in: %s", text, est_error_message());
    nn_end(&t);
}

TEST(apply_refused)
{
    est_string_lookup *empty = lookup_of(NULL);

    refused_apply(NULL, EST_STRING, "the lookup is NULL");
    refused_apply(empty, EST_STRING, "est_string_lookup_adapt");
    refused_apply(empty, EST_I64, "takes strings");
    est_string_lookup_free(empty);
}

TEST(allocations)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_dataset       *d     = dataset_of(3, WORDS("n", "m", "n"), 2);
        est_string_lookup *given = NULL, *adapted = NULL;
        est_status         status;

        fault_arm(&f);
        status = est_string_lookup_create(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("a", "b"), .mask_token = ""),
                                          &given);
        if (status == EST_OK) status = est_string_lookup_create(NULL, &adapted);
        if (status == EST_OK) status = est_string_lookup_adapt(adapted, d, "word");
        fault_check(&f, status);
        est_string_lookup_free(given);
        est_string_lookup_free(adapted);
        est_dataset_free(d);
    }
}
