/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies: "HashTableV2" and "EstVocabulary", filled by "InitializeTableFromTextFileV2" or "LookupTableImportV2",
 * asked by "LookupTableFindV2", "LookupTableSizeV2" and "EstLookupOrHash". What files are refused is what TensorFlow
 * refuses; tests/interop/vocabulary.c asks it. "StringToHashBucketFast" and "AsString" are what hashing lowers to. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "graph/graph_export.h"
#include "graph/import.h"
#include "graph/lower.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/graph_test.h"
#include "support/test.h"

static char folder[64];

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void says(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", est_error_message(), text);
}

/* The path of a file with these bytes; good until the next call. */
static const char *file_of(const char *bytes, size_t size)
{
    static char path[96];

    snprintf(path, sizeof path, "%s/words.txt", folder);
    ok(est_file_replace(path, bytes, size));
    return path;
}

static const char *file_with(const char *text)
{
    return file_of(text, strlen(text));
}

static est_tensor *strings(int64_t n, const char *const *text)
{
    return test_strings(EST_SHAPE(n), text);
}

static est_tensor *ints(int64_t n, const int64_t *values)
{
    est_tensor *tensor = NULL;

    ok(est_tensor_i64(EST_SHAPE(n), values, &tensor));
    return tensor;
}

/* Looks up in a new session: the ids of these keys, taken, must be these. */
static void expect_ids(est_node table, est_tensor *keys, const int64_t *want)
{
    est_node     node    = est_lookup(table, est_const(table.graph, keys));
    est_session *session = NULL;
    est_tensor  *out     = NULL;

    ok(est_graph_status(table.graph));
    ok(est_session_create(table.graph, EST_SESSION(.threads = 2), &session));
    ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(node), EST_NO_NODES, &out));
    assert_true(est_shape_equal(est_tensor_shape(out), est_tensor_shape(keys)));
    for (int64_t i = 0; i < est_tensor_count(keys); i++) {
        assert_int_equal(((const int64_t *)est_tensor_data(out))[i], want[i]);
    }
    est_tensor_free(out);
    est_session_free(session);
    est_tensor_free(keys);
}

/* --- what is found ------------------------------------------------------------------------------------------------ */

TEST(words_get_the_numbers_of_their_lines)
{
    est_graph *g = test_graph();
    est_node   t = est_vocabulary_file(g, file_with("red\r\ngreen\nb\rlue\nwhite\r"), EST_STRING, NULL);

    expect_ids(t, strings(7, (const char *const[]){ "green", "red", "b\rlue", "white", "black", "", "red\r" }),
               (const int64_t[]){ 1, 0, 2, 3, -1, -1, -1 });
    expect_ids(t, strings(0, NULL), NULL);
    est_graph_free(g);
}

/* Numbers of lines may begin elsewhere than at 0: a StringLookup of Keras has ids of its own before those of a file. */
TEST(numbers_of_lines_begin_at_the_offset)
{
    est_graph  *g    = test_graph();
    est_tensor *path = strings(1, (const char *const[]){ file_with("red\ngreen\n") });
    est_node    name = est_reshape(est_const(g, path), (est_i64s){ 0 });
    est_node    t    = est_build0(g, &est_op_hash_table,
                                  EST_ATTRS(est_attr_string("shared_name", "words"), est_attr_type("key_dtype", EST_STRING),
                                            est_attr_type("value_dtype", EST_I64)));

    est_build2(&est_op_initialize_table_from_text_file, t, name,
               EST_ATTRS(est_attr_int("key_index", -2), est_attr_int("value_index", -1), est_attr_int("offset", 3)));
    expect_ids(t, strings(3, (const char *const[]){ "green", "red", "black" }), (const int64_t[]){ 4, 3, -1 });
    est_tensor_free(path);
    est_graph_free(g);
}

/* A byte order mark and a zero byte belong to the key, as in TensorFlow. */
TEST(every_byte_but_the_end_of_a_line_counts)
{
    est_graph    *g      = test_graph();
    est_node      t      = est_vocabulary_file(g,
                                               file_of("\xef\xbb\xbf"
                                                                 "a\na\0b\n",
                                                       8),
                                               EST_STRING, NULL);
    est_tensor   *key    = NULL;
    const est_str two[2] = { { "a\0b", 3 },
                             { "\xef\xbb\xbf"
                               "a",
                               4 } };

    ok(est_tensor_create_from(EST_STRING, EST_SHAPE(2), two, &key));
    expect_ids(t, key, (const int64_t[]){ 1, 0 });
    est_graph_free(g);
}

TEST(lines_behind_size_are_not_looked_at)
{
    est_graph *g = test_graph();
    est_node   t = est_vocabulary_file(g, file_with("a\nb\nb\n\n"), EST_STRING, EST_TABLE(.size = 2));

    expect_ids(t, strings(2, (const char *const[]){ "b", "a" }), (const int64_t[]){ 1, 0 });
    est_graph_free(g);
}

TEST(integers_have_vocabularies_too)
{
    est_graph  *g    = test_graph();
    est_tensor *list = ints(3, (const int64_t[]){ 40, -7, INT64_MIN });
    est_node    file = est_vocabulary_file(g, file_with(" 7 \n-3\n"), EST_I64, NULL);
    est_node    t    = est_vocabulary_list(g, list, EST_TABLE(.has_default = true, .default_id = 9));

    expect_ids(file, ints(3, (const int64_t[]){ -3, 7, 0 }), (const int64_t[]){ 1, 0, -1 });
    expect_ids(t, ints(4, (const int64_t[]){ INT64_MIN, 40, -7, 0 }), (const int64_t[]){ 2, 0, 1, 9 });
    est_tensor_free(list);
    est_graph_free(g);
}

static int64_t bucket(const char *text, int64_t size, uint64_t n)
{
    return size + (int64_t)(est_fingerprint64(text, strlen(text)) % n);
}

TEST(unknown_keys_share_buckets_by_their_hash)
{
    est_graph  *g     = test_graph();
    est_tensor *words = strings(2, (const char *const[]){ "a", "b" }), *numbers = ints(2, (const int64_t[]){ 5, 6 });
    est_node    t = est_vocabulary_list(g, words, EST_TABLE(.num_oov_buckets = 5));
    est_node    u = est_vocabulary_list(g, numbers, EST_TABLE(.num_oov_buckets = 1000));

    expect_ids(t, strings(4, (const char *const[]){ "x", "b", "", "longer words" }),
               (const int64_t[]){ bucket("x", 2, 5), 1, bucket("", 2, 5), bucket("longer words", 2, 5) });
    expect_ids(
        u, ints(4, (const int64_t[]){ -12, 6, 0, INT64_MIN }),
        (const int64_t[]){ bucket("-12", 2, 1000), 1, bucket("0", 2, 1000), bucket("-9223372036854775808", 2, 1000) });
    est_tensor_free(words);
    est_tensor_free(numbers);
    est_graph_free(g);
}

TEST(integers_are_found_among_strings)
{
    est_graph *g = test_graph();
    est_node   t = est_vocabulary_file(g, file_with("12\n-7\n"), EST_STRING, EST_TABLE(.num_oov_buckets = 9));

    expect_ids(t, ints(3, (const int64_t[]){ -7, 12, 7 }), (const int64_t[]){ 1, 0, bucket("7", 2, 9) });
    est_graph_free(g);
}

TEST(ids_give_their_entries_back)
{
    est_graph  *g    = test_graph();
    est_tensor *list = strings(2, (const char *const[]){ "", "two" });
    est_node    file = est_vocabulary_file(g, file_with("cat\ndog\r\n"), EST_STRING, EST_TABLE(.name = "classes"));
    est_node    t    = est_vocabulary_list(g, list, NULL);
    est_node    ids  = est_const_i64(g, EST_SHAPE(2, 2), (const int64_t[]){ 1, 0, 2, -1 });

    check_strings(est_lookup_entry(file, ids, NULL), EST_SHAPE(2, 2),
                  (const char *const[]){ "dog", "cat", "UNK", "UNK" });
    check_strings(est_lookup_entry(t, ids, "?"), EST_SHAPE(2, 2), (const char *const[]){ "two", "", "?", "?" });
    assert_int_equal(graph_test_failures, 0);
    est_tensor_free(list);
    est_graph_free(g);
}

/* More keys than a batch, than a block of a thread, and than fit into a cache; half of them are not there. */
TEST(many_keys_are_found)
{
    enum { N = 100003 };
    est_graph  *g     = test_graph();
    est_tensor *words = NULL, *keys = NULL;
    int64_t    *want = malloc(N * sizeof *want);
    char        text[32];

    assert_non_null(want);
    ok(est_tensor_create(EST_STRING, EST_SHAPE(N), &words));
    ok(est_tensor_create(EST_STRING, EST_SHAPE(N), &keys));
    for (int64_t i = 0; i < N; i++) {
        int64_t k = i * 7919 % N * 2;

        snprintf(text, sizeof text, "word %" PRId64, i);
        ok(est_tensor_set_string(words, i, text, strlen(text)));
        snprintf(text, sizeof text, "word %" PRId64, k);
        ok(est_tensor_set_string(keys, i, text, strlen(text)));
        want[i] = k < N ? k : -1;
    }
    expect_ids(est_vocabulary_list(g, words, NULL), keys, want);
    est_tensor_free(words);
    est_graph_free(g);
    free(want);
}

/* Two keys in one chain of slots whose hashes look the same: what differs is not found, and what lies behind it is. */
TEST(keys_of_one_hash_are_told_apart)
{
    est_lookup_table  t   = { .name = "t", .key_dtype = EST_I64, .value_dtype = EST_I64 };
    est_lookup_column key = { .ints = est_alloc(2 * sizeof(int64_t)) }, number = { 0 };
    const int64_t     keys[3] = { 6, 5, 7 };
    int64_t           twice[2], found[3];
    uint64_t          at = 0, hash;

    assert_non_null(key.ints);
    memcpy(key.ints, keys, 2 * sizeof(int64_t));
    ok(est_lookup_table_fill(&t, key, number, 2, twice));
    while ((t.slots[at] & UINT32_MAX) != 1) at++; /* where key 6 is looked for first */
    hash = t.slots[at] & ~(uint64_t)UINT32_MAX;
    memset(t.slots, 0, (size_t)(t.mask + 1) * sizeof *t.slots);
    t.slots[at]                = hash | 2; /* as if key 5 had its hash and had come first */
    t.slots[(at + 1) & t.mask] = hash | 1;
    est_lookup_table_find(&t, keys, 3, found);
    assert_int_equal(found[0], 0);
    assert_int_equal(found[2], -1);
    est_lookup_table_clear(&t);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void expect_refused(est_node table, est_tensor *keys, est_status want, const char *text)
{
    est_node     node    = est_lookup(table, est_const(table.graph, keys));
    est_session *session = NULL;
    est_tensor  *out     = NULL;

    ok(est_graph_status(table.graph));
    ok(est_session_create(table.graph, EST_SESSION(.threads = 1), &session));
    for (int again = 0; again < 2; again++) { /* a table that was not filled stays so */
        assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(node), EST_NO_NODES, &out), want);
        says(text);
    }
    est_session_free(session);
    est_tensor_free(keys);
}

TEST(bad_files_are_refused_by_name_and_line)
{
    static const struct {
        const char *text;
        int64_t     size;
        est_dtype   key;
        est_status  status;
        const char *says;
    } cases[] = {
        { "a\nb\na\n", 0, EST_STRING, EST_FAILED_PRECONDITION, "words.txt: line 3 says the same as line 1" },
        { "a\n\nb\n", 0, EST_STRING, EST_INVALID_ARGUMENT, "words.txt, line 2 is empty" },
        { "a\nb\n\r\n", 0, EST_STRING, EST_INVALID_ARGUMENT, "words.txt, line 3 is empty" },
        { "", 0, EST_STRING, EST_INVALID_ARGUMENT, "words.txt is empty" },
        { "a\nb", 3, EST_STRING, EST_INVALID_ARGUMENT, "words.txt has 2 lines, expected 3" },
        { "7\nx\n", 0, EST_I64, EST_INVALID_ARGUMENT, "words.txt, line 2: \"x\" is no int64" },
        { "7\n 7\n", 0, EST_I64, EST_FAILED_PRECONDITION, "line 2 says the same as line 1" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_graph *g = test_graph();
        est_node   t = est_vocabulary_file(g, file_with(cases[i].text), cases[i].key, EST_TABLE(.size = cases[i].size));

        expect_refused(
            t, cases[i].key == EST_I64 ? ints(1, (const int64_t[]){ 7 }) : strings(1, (const char *const[]){ "a" }),
            cases[i].status, cases[i].says);
        est_graph_free(g);
    }
}

TEST(the_keys_of_a_file_are_counted)
{
    static const struct {
        const char *text;
        int64_t     n;
        const char *says; /* NULL: nothing is wrong */
    } cases[] = {
        { "a\n", 1, NULL },
        { "a\nb\r\nc", 3, NULL },
        { "", 0, "words.txt is empty" },
        { "a\n\nb\n", 0, "words.txt, line 2 is empty" },
    };
    const char *path;
    int64_t     n;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        est_status status;

        n      = -7;
        status = est_vocabulary_count(file_with(cases[i].text), &n);
        assert_int_equal(status, cases[i].says == NULL ? EST_OK : EST_INVALID_ARGUMENT);
        assert_int_equal(n, cases[i].says == NULL ? cases[i].n : -7);
        if (cases[i].says != NULL) says(cases[i].says);
    }
    assert_int_equal(est_vocabulary_count("/nowhere/words.txt", &n), EST_NOT_FOUND);
    says("/nowhere/words.txt");
    path = file_with("a\n");
    est_fault_arm_alloc(1);
    assert_int_equal(est_vocabulary_count(path, &n), EST_RESOURCE_EXHAUSTED);
    est_fault_arm_alloc(0);
}

TEST(a_file_that_cannot_be_read_is_named)
{
    est_graph *g = test_graph();

    expect_refused(est_vocabulary_file(g, "/nowhere/words.txt", EST_STRING, NULL),
                   strings(1, (const char *const[]){ "a" }), EST_NOT_FOUND, "/nowhere/words.txt");
    est_graph_free(g);
}

TEST(a_list_with_a_key_twice_is_refused)
{
    est_graph  *g       = test_graph();
    est_tensor *words   = strings(3, (const char *const[]){ "a", "b", "a" }),
               *numbers = ints(2, (const int64_t[]){ 4, 4 });

    expect_refused(est_vocabulary_list(g, words, NULL), strings(1, (const char *const[]){ "b" }),
                   EST_FAILED_PRECONDITION, "the key \"a\" is there twice, as entries 0 and 2");
    expect_refused(est_vocabulary_list(g, numbers, NULL), ints(1, (const int64_t[]){ 4 }), EST_FAILED_PRECONDITION,
                   "the key 4 is there twice, as entries 0 and 1");
    est_tensor_free(words);
    est_tensor_free(numbers);
    est_graph_free(g);
}

/* Building fails with this; `make` gets a string table, a string key and an integer key. */
static void expect_poison(est_node (*make)(est_graph *, est_tensor *words), const char *text)
{
    est_graph  *g     = test_graph();
    est_tensor *words = strings(2, (const char *const[]){ "a", "b" });

    (void)make(g, words);
    assert_int_equal(est_graph_status(g), EST_INVALID_ARGUMENT);
    says(text);
    est_tensor_free(words);
    est_graph_free(g);
}

static est_node make_both(est_graph *g, est_tensor *words)
{
    return est_vocabulary_list(g, words, EST_TABLE(.num_oov_buckets = 3, .has_default = true));
}

static est_node make_default(est_graph *g, est_tensor *words)
{
    return est_vocabulary_list(g, words, EST_TABLE(.default_id = 3));
}

static est_node make_negative(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_vocabulary_file(g, "words.txt", EST_STRING, EST_TABLE(.size = -3));
}

static est_node make_float(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_vocabulary_file(g, "words.txt", EST_F32, NULL);
}

static est_node make_without_path(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_vocabulary_file(g, NULL, EST_STRING, NULL);
}

static est_node make_part(est_graph *g, est_tensor *words)
{
    return est_vocabulary_list(g, words, EST_TABLE(.size = 1));
}

static est_node make_without_keys(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_vocabulary_list(g, NULL, NULL);
}

static est_node make_other_keys(est_graph *g, est_tensor *words)
{
    return est_lookup(est_vocabulary_list(g, words, EST_TABLE(.name = "words")), est_scalar(g, EST_F32, 3));
}

static est_node make_no_table(est_graph *g, est_tensor *words)
{
    return est_lookup(est_named(est_const(g, words), "no_table"), est_const(g, words));
}

static est_node make_of_variable(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_build1(&est_op_lookup_table_size, est_variable(g, "v", EST_F32, EST_SHAPE(2)), EST_NO_ATTRS);
}

static est_node make_read_of_table(est_graph *g, est_tensor *words)
{
    return est_build1(&est_op_read_variable, est_vocabulary_list(g, words, NULL),
                      EST_ATTRS(est_attr_type("dtype", EST_I64)));
}

static est_node make_of_feed(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_build1(&est_op_lookup_table_size, est_placeholder(g, "p", EST_RESOURCE, EST_SHAPE_SCALAR), EST_NO_ATTRS);
}

static est_node make_nothing(est_graph *g, est_tensor *words)
{
    return est_lookup(est_vocabulary_list(g, words, NULL), EST_NO_NODE);
}

static est_node make_entries_of_integers(est_graph *g, est_tensor *words)
{
    (void)words;
    return est_lookup_entry(est_vocabulary_file(g, "words.txt", EST_I64, NULL), est_scalar(g, EST_I64, 3), NULL);
}

static est_node make_entries_of_nothing(est_graph *g, est_tensor *words)
{
    return est_lookup_entry(est_const(g, words), est_const(g, words), NULL);
}

TEST(builders_say_what_is_wrong)
{
    expect_poison(make_both, "not both");
    expect_poison(make_default, "default_id is 3 without has_default");
    expect_poison(make_negative, "size -3");
    expect_poison(make_float, "not of float32");
    expect_poison(make_without_path, "needs a path");
    expect_poison(make_part, "it has 2 keys, size is 1");
    expect_poison(make_without_keys, "at least one key");
    expect_poison(make_other_keys, "table 'words' is from string to int64");
    expect_poison(make_no_table, "'no_table' (Const) is no vocabulary");
    expect_poison(make_of_variable, "must be the handle of a table, got the output of VarHandleOp");
    expect_poison(make_read_of_table, "must be the handle of a variable, got the output of EstVocabulary");
    expect_poison(make_of_feed, "must be the handle of a table, got the output of Placeholder");
    expect_poison(make_nothing, "input");
    expect_poison(make_entries_of_integers, "no vocabulary of strings");
    expect_poison(make_entries_of_nothing, "is no vocabulary");
}

/* Keys of another type are refused when the step is made: a handle that was read from a file does not tell its type. */
TEST(types_are_checked_when_a_step_runs)
{
    est_graph   *g       = test_graph();
    est_tensor  *words   = strings(2, (const char *const[]){ "a", "b" });
    est_node     t       = est_vocabulary_list(g, words, EST_TABLE(.name = "words"));
    est_node     none    = est_scalar(g, EST_I64, -1);
    est_node     node    = est_build3(&est_op_lookup_table_find, t, none, none, EST_NO_ATTRS);
    est_session *session = NULL;
    est_tensor  *out     = NULL;

    ok(est_graph_status(g));
    ok(est_session_create(g, EST_SESSION(.threads = 1), &session));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(node), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    says("table 'words' is from string to int64, not from int64 to int64");
    est_session_free(session);
    est_tensor_free(words);
    est_graph_free(g);
}

/* --- graphs that travel ------------------------------------------------------------------------------------------- */

/* A graph over keys that are fed: lookups of every kind. */
typedef struct kinds {
    est_graph *g;
    est_node   words, numbers, out[4];
} kinds;

static void kinds_make(kinds *k, const char *path)
{
    est_tensor *list = ints(2, (const int64_t[]){ 3, 4 });

    k->g       = test_graph();
    k->words   = est_placeholder(k->g, "words", EST_STRING, EST_SHAPE(-1));
    k->numbers = est_placeholder(k->g, "numbers", EST_I64, EST_SHAPE(-1));
    est_scope_push(k->g, "model");
    est_node file = est_vocabulary_file(k->g, path, EST_STRING, EST_TABLE(.num_oov_buckets = 7));
    est_node more = est_vocabulary_list(k->g, list, EST_TABLE(.num_oov_buckets = 7, .name = "numbers"));
    est_scope_pop(k->g);
    k->out[0] = est_named(est_lookup(file, k->words), "ids");
    k->out[1] = est_named(est_lookup(more, k->numbers), "more_ids");
    k->out[2] = est_named(est_lookup_entry(file, k->numbers, "none"), "entries");
    k->out[3] = est_named(est_build1(&est_op_lookup_table_size, file, EST_NO_ATTRS), "size");
    ok(est_graph_status(k->g));
    est_tensor_free(list);
}

/* The same four results of a graph, by name. */
static void kinds_check(est_graph *g)
{
    est_tensor *words      = strings(3, (const char *const[]){ "dog", "cow", "cat" }),
               *numbers    = ints(3, (const int64_t[]){ 4, 1, 9 });
    est_session   *session = NULL;
    est_tensor    *out[4]  = { 0 };
    const est_str *entry;

    ok(est_session_create(g, EST_SESSION(.threads = 1), &session));
    ok(est_session_run(session,
                       EST_FEEDS({ est_graph_find(g, "words"), words }, { est_graph_find(g, "numbers"), numbers }),
                       EST_NODES(est_graph_find(g, "ids"), est_graph_find(g, "more_ids"), est_graph_find(g, "entries"),
                                 est_graph_find(g, "size")),
                       EST_NO_NODES, out));
    assert_memory_equal(est_tensor_data(out[0]), ((int64_t[]){ 1, bucket("cow", 2, 7), 0 }), 3 * sizeof(int64_t));
    assert_memory_equal(est_tensor_data(out[1]), ((int64_t[]){ 1, bucket("1", 2, 7), bucket("9", 2, 7) }),
                        3 * sizeof(int64_t));
    entry = est_tensor_data(out[2]);
    assert_true(entry[0].size == 4 && memcmp(entry[0].data, "none", 4) == 0);
    assert_true(entry[1].size == 3 && memcmp(entry[1].data, "dog", 3) == 0);
    assert_int_equal(*(const int64_t *)est_tensor_data(out[3]), 2);
    for (int i = 0; i < 4; i++) est_tensor_free(out[i]);
    est_session_free(session);
    est_tensor_free(words);
    est_tensor_free(numbers);
}

static bool has_op(const est_graph *g, const char *op)
{
    for (int32_t id = 0; id < est_graph_size(g); id++) {
        if (strcmp(est_graph_node(g, id)->op->name, op) == 0) return true;
    }
    return false;
}

/* Through the message and back, as it is or in TensorFlow's ops. */
static void kinds_travel(const est_graph *g)
{
    est_arena    *arena = est_arena_create();
    est_graph    *back  = test_graph();
    est_graph_def def;

    assert_non_null(arena);
    est_graph_def_init(&def, arena);
    ok(est_graph_export(g, &def));
    ok(est_graph_import(&def, est_op_find, back));
    kinds_check(back);
    est_graph_free(back);
    est_arena_free(arena);
}

TEST(graphs_with_tables_travel)
{
    static const char *const theirs[] = { "HashTableV2",
                                          "LookupTableFindV2",
                                          "LookupTableSizeV2",
                                          "LookupTableImportV2",
                                          "InitializeTableFromTextFileV2",
                                          "StringToHashBucketFast",
                                          "AsString" };
    est_graph               *lowered  = NULL;
    est_node                 nodes[7];
    kinds                    k;

    kinds_make(&k, file_with("cat\ndog\n"));
    kinds_check(k.g);
    kinds_travel(k.g);
    memcpy(nodes, k.out, sizeof k.out);
    for (int i = 0; i < 3; i++) nodes[4 + i] = est_graph_collection(k.g, EST_TABLE_INITIALIZERS).data[i];
    assert_int_equal(est_graph_collection(k.g, EST_TABLE_INITIALIZERS).n, 3);
    ok(est_graph_lower(k.g, nodes, 7, &lowered));
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) assert_true(has_op(lowered, theirs[i]));
    assert_int_equal(est_graph_collection(lowered, EST_TABLE_INITIALIZERS).n, 3);
    assert_int_equal(est_graph_collection(lowered, EST_ASSET_FILEPATHS).n, 1);
    assert_string_equal(est_node_name(est_graph_collection(lowered, EST_ASSET_FILEPATHS).data[0]),
                        "model/vocabulary/filename");
    est_node handle = est_graph_find(lowered, "model/vocabulary");
    assert_string_equal(est_def(handle)->op->name, "HashTableV2");
    assert_string_equal(est_node_string(est_def(handle), "shared_name"), "model/vocabulary");
    kinds_check(lowered);
    kinds_travel(lowered);
    est_graph_free(lowered);
    est_graph_free(k.g);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

TEST(a_table_is_filled_once_a_session)
{
    char         path[96];
    est_graph   *g;
    est_session *session = NULL;
    est_tensor  *out = NULL, *key = strings(1, (const char *const[]){ "b" });
    est_node     t, ids, more;
    uint64_t     runs;

    snprintf(path, sizeof path, "%s", file_with("a\nb\n"));
    g   = test_graph();
    t   = est_vocabulary_file(g, path, EST_STRING, NULL);
    ids = est_lookup(t, est_const(g, key));
    ok(est_session_create(g, EST_SESSION(.threads = 1), &session));
    ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(ids), EST_NO_NODES, &out));
    est_tensor_free(out);
    runs = est_session_run_count(session);
    assert_int_equal(runs, 1); /* filling is none that counts: random ops would give something else after a restart */

    ok(est_file_remove(path));
    more = est_add(est_lookup(t, est_const(g, key)), est_scalar(g, EST_I64, 10)); /* another step */
    ok(est_session_run(session, EST_NO_FEEDS, EST_NODES(more), EST_NO_NODES, &out));
    assert_int_equal(*(const int64_t *)est_tensor_data(out), 11);
    est_tensor_free(out);
    est_tensor_free(key);
    est_session_free(session);
    est_graph_free(g);
}

/* The operation that fills a table may be run by hand, as TensorFlow's programs do: the same entries are fine, others
 * not. */
TEST(filling_again_changes_nothing)
{
    char         path[96];
    est_graph   *g       = test_graph();
    est_session *session = NULL;
    est_node     t, init;

    snprintf(path, sizeof path, "%s", file_with("a\nb\n"));
    t    = est_vocabulary_file(g, path, EST_STRING, EST_TABLE(.name = "words"));
    init = est_graph_collection(g, EST_TABLE_INITIALIZERS).data[0];
    ok(est_graph_status(g));
    ok(est_session_create(g, EST_SESSION(.threads = 1), &session));
    ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(init), NULL));
    ok(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(init), NULL));
    (void)file_with("b\na\n");
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(init), NULL),
                     EST_FAILED_PRECONDITION);
    says("table 'words' was filled with other entries before");
    est_session_free(session);
    (void)t;
    est_graph_free(g);
}

TEST(a_table_that_nothing_fills_is_an_error)
{
    est_graph *g = test_graph();
    est_node   t = est_named(
          est_build0(g, &est_op_hash_table,
                     EST_ATTRS(est_attr_type("key_dtype", EST_STRING), est_attr_type("value_dtype", EST_I64))),
          "bare");

    expect_refused(t, strings(1, (const char *const[]){ "a" }), EST_FAILED_PRECONDITION,
                   "table 'bare' has no entries, and nothing in the graph fills it");
    est_graph_free(g);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status make_and_run(const char *path)
{
    est_graph   *g       = NULL;
    est_session *session = NULL;
    est_tensor  *list = NULL, *out[3] = { 0 };
    est_status   status;

    EST_TRY(est_graph_create(1, &g));
    status = est_tensor_create_from(EST_STRING, EST_SHAPE(2), (const est_str[]){ { "a", 1 }, { "b", 1 } }, &list);
    if (status == EST_OK) {
        est_node keys = est_const(g, list);
        est_node file = est_vocabulary_file(g, path, EST_STRING, EST_TABLE(.num_oov_buckets = 2));
        est_node ids = est_lookup(file, keys), more = est_lookup(est_vocabulary_list(g, list, NULL), keys);
        est_node names = est_lookup_entry(file, more, NULL);

        status = est_graph_status(g);
        if (status == EST_OK) status = est_session_create(g, EST_SESSION(.threads = 1), &session);
        if (status == EST_OK)
            status = est_session_run(session, EST_NO_FEEDS, EST_NODES(ids, more, names), EST_NO_NODES, out);
    }
    for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
    est_session_free(session);
    est_tensor_free(list);
    est_graph_free(g);
    return status;
}

TEST(failed_allocations_are_reported)
{
    char path[96];
    snprintf(path, sizeof path, "%s", file_with("a\nb\n"));
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = make_and_run(path);
        fault_check(&f, status);
    }
}

static int make_folder(void **state)
{
    (void)state;
    est_test_dir(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return est_dir_remove(folder) == EST_OK ? 0 : -1;
}

int main(void)
{
    return est_test_run(make_folder, remove_folder);
}
