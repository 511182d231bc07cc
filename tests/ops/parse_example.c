/* SPDX-License-Identifier: Apache-2.0
 *
 * "ParseExampleV2": dense, padded, ragged and sparse features of a batch, whose sizes change from run to run. What is
 * expected was given by tf.io.parse_example for the same examples; tests/interop/export.c asks it every time. */
#include "base/alloc.h"
#include "estoc/example.h"
#include "graph/graph_export.h"
#include "graph/import.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "support/graph_test.h"
#include "support/test.h"

#define assert_ok(expr) assert_int_equal_msg_(expr, #expr)
static void assert_int_equal_msg_(est_status status, const char *what)
{
    if (status != EST_OK) fail_msg("%s: %s", what, est_error_message());
}

enum { PRICE = 0, CLICKS, WORDS, STEPS, N_SPECS };

static void make_specs(est_feature_spec specs[N_SPECS], est_tensor *seven, est_tensor *minus_one)
{
    specs[PRICE]  = (est_feature_spec){ .name = "price", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    specs[CLICKS] = (est_feature_spec){ .name = "clicks", .dtype = EST_I64, .default_value = seven };
    specs[WORDS]  = (est_feature_spec){ .name = "words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED };
    specs[STEPS]  = (est_feature_spec){
         .name = "steps", .dtype = EST_I64, .rows = EST_ROWS_PADDED, .shape = EST_SHAPE(2), .default_value = minus_one
    };
}

typedef struct fixture {
    est_graph       *graph;
    est_session     *session;
    est_tensor      *seven, *minus_one;
    est_feature_spec specs[N_SPECS];
    est_node         examples;
    est_parsed       parsed[N_SPECS];
} fixture;

static void fixture_make(fixture *f)
{
    *f = (fixture){ 0 };
    assert_ok(est_graph_create(1, &f->graph));
    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 7 }, &f->seven));
    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ -1 }, &f->minus_one));
    make_specs(f->specs, f->seven, f->minus_one);
    f->examples = est_placeholder(f->graph, "examples", EST_STRING, EST_SHAPE(-1));
    est_parse_examples(f->examples, (est_feature_specs){ f->specs, N_SPECS }, f->parsed);
    assert_ok(est_graph_status(f->graph));
    assert_ok(est_session_create(f->graph, EST_SESSION(.threads = 1), &f->session));
}

static void fixture_free(fixture *f)
{
    est_session_free(f->session);
    est_graph_free(f->graph);
    est_tensor_free(f->seven);
    est_tensor_free(f->minus_one);
}

/* --- examples ----------------------------------------------------------------------------------------------------- */

typedef struct row {
    float       price[2];
    int64_t     clicks; /* -1: missing */
    const char *words[3];
    int         n_words;
    int64_t     steps[4];
    int         n_steps; /* values */
} row;

static const row rows[3] = {
    { { 1.5F, 2.5F }, 3, { "a", "bb" }, 2, { 1, 2, 3, 4 }, 4 },
    { { -1, 0 }, -1, { NULL }, 0, { 9, 8 }, 2 },
    { { 0, 0.25F }, 4, { "c" }, 1, { 0 }, 0 },
};

static est_tensor *serialize(const row *const *list, int n)
{
    est_example *example = NULL;
    est_tensor  *out     = NULL;

    assert_ok(est_example_create(&example));
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(n), &out));
    for (int i = 0; i < n; i++) {
        est_str words[3], bytes;

        est_example_reset(example);
        for (int k = 0; k < list[i]->n_words; k++) words[k] = (est_str){ list[i]->words[k], strlen(list[i]->words[k]) };
        est_example_set_f32s(example, "price", list[i]->price, 2);
        if (list[i]->clicks >= 0) est_example_set_i64s(example, "clicks", &list[i]->clicks, 1);
        if (list[i]->n_words > 0) est_example_set_bytes(example, "words", words, (size_t)list[i]->n_words);
        if (list[i]->n_steps > 0) est_example_set_i64s(example, "steps", list[i]->steps, (size_t)list[i]->n_steps);
        assert_ok(est_example_serialize(example, &bytes));
        assert_ok(est_tensor_set_string(out, i, bytes.data, bytes.size));
    }
    est_example_free(example);
    return out;
}

static void expect(const est_tensor *got, est_shape shape, const void *values)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    assert_string_equal(est_shape_text(est_tensor_shape(got), a), est_shape_text(&shape, b));
    if (est_tensor_count(got) > 0) assert_memory_equal(est_tensor_data(got), values, est_tensor_bytes(got));
}

static void expect_words(const est_tensor *got, const char *const *words, int n)
{
    const est_str *text = est_tensor_data(got);

    assert_int_equal(est_tensor_count(got), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(text[i].size, strlen(words[i]));
        assert_memory_equal(text[i].data, words[i], text[i].size);
    }
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

TEST(features_become_tensors)
{
    const row  *list[3] = { &rows[0], &rows[1], &rows[2] };
    fixture     f;
    est_tensor *feed, *out[6];

    fixture_make(&f);
    feed = serialize(list, 3);
    assert_ok(est_session_run(f.session, EST_FEEDS({ f.examples, feed }),
                              EST_NODES(f.parsed[PRICE].values, f.parsed[CLICKS].values, f.parsed[WORDS].values,
                                        f.parsed[WORDS].splits, f.parsed[STEPS].values, f.parsed[STEPS].lengths),
                              EST_NO_NODES, out));
    expect(out[0], EST_SHAPE(3, 2), (const float[]){ 1.5F, 2.5F, -1, 0, 0, 0.25F });
    expect(out[1], EST_SHAPE(3), (const int64_t[]){ 3, 7, 4 });
    expect_words(out[2], (const char *const[]){ "a", "bb", "c" }, 3);
    expect(out[3], EST_SHAPE(4), (const int64_t[]){ 0, 2, 2, 3 });
    expect(out[4], EST_SHAPE(3, 2, 2), (const int64_t[]){ 1, 2, 3, 4, 9, 8, -1, -1, -1, -1, -1, -1 });
    expect(out[5], EST_SHAPE(3), (const int64_t[]){ 2, 1, 0 });
    for (int i = 0; i < 6; i++) est_tensor_free(out[i]);
    est_tensor_free(feed);
    fixture_free(&f);
}

/* One plan, batches of other sizes and with other numbers of values, and nodes behind it that follow. */
TEST(sizes_follow_the_contents)
{
    const row    *lists[4][5] = { { &rows[2] },
                                  { &rows[0], &rows[0], &rows[1], &rows[0], &rows[0] },
                                  { &rows[1], &rows[2] },
                                  { &rows[0], &rows[0] } };
    const int     n[4] = { 1, 5, 2, 2 }, words[4] = { 1, 8, 1, 4 }, longest[4] = { 0, 2, 1, 2 };
    const int64_t sums[4] = { 0, 55, 15, 20 }; /* of steps, -1 where one is missing */
    fixture       f;
    est_node      size, sum, pair;

    fixture_make(&f);
    size = est_size(f.parsed[WORDS].values);
    sum  = est_sum(est_reshape(f.parsed[STEPS].values, EST_I64S(-1)));
    pair = est_concat(EST_NODES(est_expand_dims(f.parsed[WORDS].values, 1), est_expand_dims(f.parsed[WORDS].values, 1)),
                      1);
    for (int i = 0; i < 4; i++) {
        est_tensor *feed = serialize(lists[i], n[i]), *out[4];

        assert_ok(est_session_run(f.session, EST_FEEDS({ f.examples, feed }),
                                  EST_NODES(size, sum, pair, f.parsed[STEPS].values), EST_NO_NODES, out));
        assert_int_equal(*(const int32_t *)est_tensor_data(out[0]), words[i]);
        assert_int_equal(*(const int64_t *)est_tensor_data(out[1]), sums[i]);
        assert_int_equal(est_tensor_shape(out[2])->dim[0], words[i]);
        assert_int_equal(est_tensor_shape(out[3])->dim[1], longest[i]);
        for (int k = 0; k < 4; k++) est_tensor_free(out[k]);
        est_tensor_free(feed);
    }
    fixture_free(&f);
}

/* Only how many values or rows there are is asked for: no value is read, and yet the Examples must be. */
TEST(only_sizes_are_asked_for)
{
    const row  *list[2] = { &rows[0], &rows[2] };
    fixture     f;
    est_node    words, batch;
    est_tensor *feed, *out[2];

    fixture_make(&f);
    words = est_size(f.parsed[WORDS].values);
    batch = est_shape_of(f.parsed[PRICE].values);
    feed  = serialize(list, 2);
    assert_ok(est_session_run(f.session, EST_FEEDS({ f.examples, feed }), EST_NODES(batch), EST_NO_NODES, out));
    assert_int_equal(((const int32_t *)est_tensor_data(out[0]))[0], 2);
    est_tensor_free(out[0]);
    assert_ok(est_session_run(f.session, EST_FEEDS({ f.examples, feed }), EST_NODES(words, batch), EST_NO_NODES, out));
    assert_int_equal(*(const int32_t *)est_tensor_data(out[0]), 3);
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_tensor_free(feed);
    fixture_free(&f);
}

TEST(no_examples)
{
    fixture     f;
    est_tensor *feed, *out[4];

    fixture_make(&f);
    feed = serialize(NULL, 0);
    assert_ok(est_session_run(
        f.session, EST_FEEDS({ f.examples, feed }),
        EST_NODES(f.parsed[PRICE].values, f.parsed[WORDS].values, f.parsed[WORDS].splits, f.parsed[STEPS].values),
        EST_NO_NODES, out));
    expect(out[0], EST_SHAPE(0, 2), NULL);
    expect(out[1], EST_SHAPE(0), NULL);
    expect(out[2], EST_SHAPE(1), (const int64_t[]){ 0 });
    expect(out[3], EST_SHAPE(0, 0, 2), NULL);
    for (int i = 0; i < 4; i++) est_tensor_free(out[i]);
    est_tensor_free(feed);
    fixture_free(&f);
}

static est_node strings(est_graph *graph, const char *const *text, int n)
{
    est_tensor *tensor = test_strings(EST_SHAPE(n), text);
    est_node    node   = est_const(graph, tensor);

    est_tensor_free(tensor);
    return node;
}

/* As TensorFlow's VarLenFeature has it, which no spec of ours asks for. */
TEST(sparse_outputs_and_int32_splits)
{
    const row   *list[3]  = { &rows[0], &rows[1], &rows[2] };
    est_graph   *graph    = test_graph();
    est_session *session  = NULL;
    est_node     examples = est_placeholder(graph, "examples", EST_STRING, EST_SHAPE(-1));
    est_node     none     = strings(graph, NULL, 0), parsed;
    est_tensor  *feed     = serialize(list, 3), *out[8];

    parsed = est_build(graph, &est_op_parse_example,
                       EST_NODES(examples, none, strings(graph, (const char *const[]){ "words", "none" }, 2), none,
                                 strings(graph, (const char *const[]){ "steps" }, 1)),
                       EST_ATTRS(est_attr_int("num_sparse", 2),
                                 est_attr_types("sparse_types", EST_I64S(EST_STRING, EST_F32)),
                                 est_attr_types("ragged_value_types", EST_I64S(EST_I64)),
                                 est_attr_types("ragged_split_types", EST_I64S(EST_I32)),
                                 est_attr_shapes("dense_shapes", (est_shapes){ 0 })));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    assert_ok(est_session_run(session, EST_FEEDS({ examples, feed }),
                              EST_NODES(parsed, est_output(parsed, 1), est_output(parsed, 2), est_output(parsed, 3),
                                        est_output(parsed, 4), est_output(parsed, 5), est_output(parsed, 6),
                                        est_output(parsed, 7)),
                              EST_NO_NODES, out));
    expect(out[0], EST_SHAPE(3, 2), (const int64_t[]){ 0, 0, 0, 1, 2, 0 });
    expect(out[1], EST_SHAPE(0, 2), NULL);
    expect_words(out[2], (const char *const[]){ "a", "bb", "c" }, 3);
    expect(out[3], EST_SHAPE(0), NULL);
    expect(out[4], EST_SHAPE(2), (const int64_t[]){ 3, 2 });
    expect(out[5], EST_SHAPE(2), (const int64_t[]){ 3, 0 });
    expect(out[6], EST_SHAPE(6), (const int64_t[]){ 1, 2, 3, 4, 9, 8 });
    expect(out[7], EST_SHAPE(4), (const int32_t[]){ 0, 4, 6, 6 });
    for (int i = 0; i < 8; i++) est_tensor_free(out[i]);
    est_tensor_free(feed);
    est_session_free(session);
    est_graph_free(graph);
}

/* Written as a GraphDef and read back it is the same op. */
TEST(goes_out_and_comes_back)
{
    const row    *list[2] = { &rows[0], &rows[1] };
    est_arena    *arena   = est_arena_create();
    est_graph_def def;
    fixture       f;
    est_graph    *again   = test_graph();
    est_session  *session = NULL;
    est_tensor   *feed    = serialize(list, 2), *out[2];
    est_node      parsed;

    fixture_make(&f);
    est_graph_def_init(&def, arena);
    assert_ok(est_graph_export(f.graph, &def));
    assert_ok(est_graph_import(&def, est_op_find, again));
    parsed = est_graph_find(again, est_node_name(f.parsed[PRICE].values));
    assert_ok(est_session_create(again, EST_SESSION(.threads = 1), &session));
    assert_ok(est_session_run(session, EST_FEEDS({ est_graph_find(again, "examples"), feed }),
                              EST_NODES(parsed, est_output(parsed, 1)), EST_NO_NODES, out));
    expect(out[0], EST_SHAPE(2, 2), (const float[]){ 1.5F, 2.5F, -1, 0 });
    expect(out[1], EST_SHAPE(2), (const int64_t[]){ 3, 7 });
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_tensor_free(feed);
    est_session_free(session);
    est_graph_free(again);
    est_arena_free(arena);
    fixture_free(&f);
}

static void expect_failure(fixture *f, const est_tensor *feed, est_status status, const char *says)
{
    est_tensor *out = NULL;

    assert_int_equal(est_session_run(f->session, EST_FEEDS({ f->examples, feed }), EST_NODES(f->parsed[PRICE].values),
                                     EST_NO_NODES, &out),
                     status);
    if (strstr(est_error_message(), says) == NULL) fail_msg("\"%s\" says nothing of %s", est_error_message(), says);
    assert_null(out);
}

TEST(bad_examples_are_named)
{
    est_example *example = NULL;
    est_str      bytes;
    est_tensor  *feed = NULL, *damaged;
    fixture      f;

    fixture_make(&f);
    assert_ok(est_example_create(&example));
    est_example_set_i64s(example, "clicks", (const int64_t[]){ 1 }, 1);
    assert_ok(est_example_serialize(example, &bytes));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &bytes, &feed));
    expect_failure(&f, feed, EST_INVALID_ARGUMENT, "price"); /* required */
    est_tensor_free(feed);
    est_example_set_i64s(example, "price", (const int64_t[]){ 1, 2 }, 2);
    assert_ok(est_example_serialize(example, &bytes));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &bytes, &feed));
    expect_failure(&f, feed, EST_INVALID_ARGUMENT, "price"); /* of another type */
    est_tensor_free(feed);
    damaged = test_strings(EST_SHAPE(1), (const char *const[]){ "\xff\xff" });
    expect_failure(&f, damaged, EST_DATA_LOSS, "example 0");
    est_tensor_free(damaged);
    est_example_free(example);
    fixture_free(&f);
}

static void refuse(est_attrs attrs, const char *key, est_shape default_shape, const char *says)
{
    est_graph *graph    = test_graph();
    est_node   examples = est_placeholder(graph, "examples", EST_STRING, EST_SHAPE(-1)), none = strings(graph, NULL, 0);
    est_tensor *value = NULL;

    assert_ok(est_tensor_create(EST_F32, default_shape, &value));
    memset(est_tensor_mutable_data(value), 0, est_tensor_bytes(value));
    (void)est_build(graph, &est_op_parse_example,
                    EST_NODES(examples, none, none, strings(graph, &key, key != NULL), none, est_const(graph, value)),
                    attrs);
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), says) == NULL) fail_msg("\"%s\" says nothing of %s", est_error_message(), says);
    est_tensor_free(value);
    est_graph_free(graph);
}

#define ATTRS(shape, n)                                                                                                \
    EST_ATTRS(est_attr_int("num_sparse", 0), est_attr_types("sparse_types", (est_i64s){ 0 }),                          \
              est_attr_types("ragged_value_types", (est_i64s){ 0 }),                                                   \
              est_attr_types("ragged_split_types", (est_i64s){ 0 }),                                                   \
              est_attr_shapes("dense_shapes", (est_shapes){ (const est_shape[]){ shape }, n }))

TEST(wrong_nodes_are_refused)
{
    refuse(ATTRS(EST_SHAPE(2), 1), NULL, EST_SHAPE(2), "0 dense keys for 1");
    refuse(ATTRS(EST_SHAPE(2), 0), "x", EST_SHAPE(2), "0 dense_shapes");
    refuse(ATTRS(EST_SHAPE(2), 1), "x", EST_SHAPE(3), "a default of shape [3]");
    refuse(ATTRS(EST_SHAPE(-1), 1), "x", EST_SHAPE(3), "a default of shape [3]");
    refuse(ATTRS(EST_SHAPE(2, -1), 1), "x", EST_SHAPE(2), "must be known");
}

TEST(every_allocation_may_fail)
{
    const row  *list[2] = { &rows[0], &rows[1] };
    est_tensor *feed    = serialize(list, 2);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_graph       *graph   = NULL;
        est_session     *session = NULL;
        est_tensor      *out = NULL, *one = NULL;
        est_feature_spec specs[N_SPECS];
        est_parsed       parsed[N_SPECS];
        est_status       status;

        assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 1 }, &one));
        make_specs(specs, one, one);
        fault_arm(&f);
        status = est_graph_create(1, &graph);
        if (status == EST_OK) {
            est_node examples = est_placeholder(graph, "examples", EST_STRING, EST_SHAPE(-1));

            est_parse_examples(examples, (est_feature_specs){ specs, N_SPECS }, parsed);
            status = est_graph_status(graph);
            if (status == EST_OK) status = est_session_create(graph, EST_SESSION(.threads = 1), &session);
            if (status == EST_OK) {
                status = est_session_run(session, EST_FEEDS({ examples, feed }), EST_NODES(parsed[WORDS].values),
                                         EST_NO_NODES, &out);
            }
        }
        fault_check_lenient(&f, status);
        est_tensor_free(out);
        est_session_free(session);
        est_graph_free(graph);
        est_tensor_free(one);
    }
    est_tensor_free(feed);
}

int main(void)
{
    return est_test_run(NULL, NULL) != 0 || graph_test_failures != 0;
}
