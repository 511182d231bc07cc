/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors over a session: the numbers of the session in any number of threads, nothing allocated, and errors that
 * say which input is wrong. */
#include "predict/predictor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/thread.h"
#include "estoc/estoc.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define ok(expr) assert_int_equal_msg((expr), EST_OK, est_error_message())

#define N_THREADS 4
#define N_CALLS   50

static void assert_int_equal_msg(est_status got, est_status want, const char *message)
{
    if (got != want) print_error("%s: %s\n", est_status_name(got), message);
    assert_int_equal(got, want);
}

#define refused(expr, text)                                                                                            \
    do {                                                                                                               \
        assert_int_equal((expr), EST_INVALID_ARGUMENT);                                                                \
        if (strstr(est_error_message(), (text)) == NULL) fail_msg("%s", est_error_message());                          \
    } while (0)

/* A wide and deep model: words that a table turns into ids, embedded; ragged weights; numbers; dense layers. */
typedef struct tiny {
    est_graph   *g;
    est_session *s;
    est_node     x, word, tags, splits, sums, scores, echo, count;
} tiny;

static tiny build_tiny(void)
{
    tiny               m = { 0 };
    est_string_lookup *lookup;
    est_node           counter;

    ok(est_graph_create(7, &m.g));
    ok(est_string_lookup_create(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("red", "green", "blue")), &lookup));
    m.x      = est_placeholder(m.g, "x", EST_F32, EST_SHAPE(-1, 6));
    m.word   = est_placeholder(m.g, "word", EST_STRING, EST_SHAPE(-1));
    m.tags   = est_placeholder(m.g, "tags", EST_F32, EST_SHAPE(-1));
    m.splits = est_placeholder(m.g, "tag_splits", EST_I64, EST_SHAPE(-1));
    m.sums   = est_concat(EST_NODES(m.x, est_embedding(est_string_lookup_apply(lookup, m.word), 4, 5, NULL)), 1);
    m.sums   = est_dense(m.sums, 40, EST_DENSE(.activation = est_relu));
    m.scores = est_softmax(est_dense(m.sums, 3, NULL), -1);
    m.echo   = est_scale(m.tags, 2);
    counter  = est_variable(m.g, "counter", EST_F32, EST_SHAPE_SCALAR);
    est_variable_initializer(counter, est_scalar(m.g, EST_F32, 0));
    counter = est_assign_add(counter, est_scalar(m.g, EST_F32, 1));
    m.count = est_after(est_scalar(m.g, EST_F32, 1), counter);
    est_string_lookup_free(lookup);
    ok(est_graph_status(m.g));
    ok(est_session_create(m.g, EST_SESSION(.threads = 1), &m.s));
    ok(est_session_init(m.s));
    return m;
}

static void free_tiny(tiny *m)
{
    est_session_free(m->s);
    est_graph_free(m->g);
}

#define INPUTS(m)  EST_NAMED_NODES({ "x", (m)->x }, { "word", (m)->word })
#define OUTPUTS(m) EST_NAMED_NODES({ "scores", (m)->scores }, { "hidden", (m)->sums })

static est_predictor *over(const tiny *m, const est_predictor_options *options)
{
    est_predictor *p;

    ok(est_predictor_over(m->s, INPUTS(m), OUTPUTS(m), options, &p));
    return p;
}

/* The inputs of one batch, and what the session gives for them. */
typedef struct batch {
    est_tensor *x, *word, *want[2];
} batch;

static batch make_batch(const tiny *m, int64_t rows, uint64_t key)
{
    static const char *const words[] = { "red", "green", "blue", "pink" };
    batch                    b;

    ok(est_tensor_create(EST_F32, EST_SHAPE(rows, 6), &b.x));
    ok(est_tensor_create(EST_STRING, EST_SHAPE(rows), &b.word));
    est_random_fill_normal_f32(&(est_random){ key, 0, 0 }, 0, rows * 6, est_tensor_mutable_data(b.x));
    for (int64_t i = 0; i < rows; i++) {
        const char *word = words[(key + (uint64_t)i) % 4];

        ok(est_tensor_set_string(b.word, i, word, strlen(word)));
    }
    ok(est_session_run(m->s, EST_FEEDS({ m->x, b.x }, { m->word, b.word }), EST_NODES(m->scores, m->sums), EST_NO_NODES,
                       b.want));
    return b;
}

static void free_batch(batch *b)
{
    est_tensor_free(b->x);
    est_tensor_free(b->word);
    est_tensor_free(b->want[0]);
    est_tensor_free(b->want[1]);
}

#define NAMED(b) EST_NAMED_TENSORS({ "x", (b)->x }, { "word", (b)->word })

static bool same(const est_tensor *want, const est_shape *shape, const void *data)
{
    return est_shape_equal(est_tensor_shape(want), shape) &&
           memcmp(est_tensor_data(want), data, est_tensor_bytes(want)) == 0;
}

static bool same_as_session(const batch *b, const est_prediction *p)
{
    return same(b->want[0], est_prediction_shape(p, 0), est_prediction_data(p, 0)) &&
           same(b->want[1], est_prediction_shape(p, 1), est_prediction_data(p, 1));
}

TEST(a_predictor_gives_what_its_session_gives)
{
    static const int64_t rows[] = { 1, 16, 3, 256, 1, 17, 4 };
    tiny                 m      = build_tiny();
    est_predictor       *p      = over(&m, NULL);
    est_prediction      *one;

    assert_int_equal(est_predictor_inputs(p).n, 2);
    assert_string_equal(est_predictor_inputs(p).data[1].name, "word");
    assert_int_equal(est_predictor_inputs(p).data[1].dtype, EST_STRING);
    assert_int_equal(est_predictor_outputs(p).n, 2);
    assert_int_equal(est_predictor_output(p, "hidden"), 1);
    assert_int_equal(est_predictor_output(p, "nothing"), -1);
    ok(est_prediction_create(p, &one));
    assert_null(est_prediction_data(one, 0));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        batch       b = make_batch(&m, rows[i], i);
        est_tensor *out[2];

        ok(est_predictor_run(p, EST_NAMED_TENSORS({ "word", b.word }, { "x", b.x }), out)); /* in any order */
        assert_true(same(b.want[0], est_tensor_shape(out[0]), est_tensor_data(out[0])));
        assert_true(same(b.want[1], est_tensor_shape(out[1]), est_tensor_data(out[1])));
        ok(est_prediction_run(one, NAMED(&b)));
        assert_true(same_as_session(&b, one));
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
        free_batch(&b);
    }
    assert_null(est_prediction_data(one, 2));
    assert_null(est_prediction_shape(one, -1));
    est_prediction_free(one);
    est_predictor_free(p);
    free_tiny(&m);
}

/* Batches of sizes seen before, of several ranges, one after the other. */
TEST(borrowed_predictions_allocate_nothing)
{
    static const int64_t rows[] = { 1, 16, 12, 200 };
    tiny                 m      = build_tiny();
    est_predictor       *p      = over(&m, NULL);
    est_prediction      *one;
    batch                b[4];
    uint64_t             allocated;

    ok(est_prediction_create(p, &one));
    for (int i = 0; i < 4; i++) b[i] = make_batch(&m, rows[i], (uint64_t)i);
    for (int i = 0; i < 4; i++) ok(est_prediction_run(one, NAMED(&b[i])));
    allocated = est_alloc_count();
    for (int i = 0; i < 400; i++) ok(est_prediction_run(one, NAMED(&b[i % 4])));
    assert_int_equal(est_alloc_count(), allocated);
    for (int i = 0; i < 4; i++) free_batch(&b[i]);
    est_prediction_free(one);
    est_predictor_free(p);
    free_tiny(&m);
}

typedef struct caller {
    est_thread     thread;
    est_predictor *predictor;
    const batch   *batches; /* [N_THREADS] */
    int            first;
    bool           borrowed;
    int            wrong;
} caller;

static void *call(void *arg)
{
    caller         *c   = arg;
    est_prediction *own = NULL;

    if (c->borrowed && est_prediction_create(c->predictor, &own) != EST_OK) c->wrong++;
    for (int i = 0; i < N_CALLS && c->wrong == 0; i++) {
        const batch *b = &c->batches[(c->first + i) % N_THREADS];
        est_tensor  *out[2];

        if (c->borrowed) {
            if (est_prediction_run(own, NAMED(b)) != EST_OK || !same_as_session(b, own)) c->wrong++;
            continue;
        }
        if (est_predictor_run(c->predictor, NAMED(b), out) != EST_OK) {
            c->wrong++;
            continue;
        }
        c->wrong += !same(b->want[0], est_tensor_shape(out[0]), est_tensor_data(out[0]));
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
    }
    est_prediction_free(own);
    return NULL;
}

/* Threads with calls of several threads and of one, half of them of another predictor of the model: the plans are made
 * while others run, and others are made. */
static void run_callers(int threads)
{
    tiny           m     = build_tiny();
    est_predictor *p     = over(&m, EST_PREDICTOR(.threads = threads)),
                  *other = over(&m, EST_PREDICTOR(.threads = threads));
    batch  b[N_THREADS];
    caller callers[N_THREADS] = { 0 };

    for (int i = 0; i < N_THREADS; i++) b[i] = make_batch(&m, (int64_t)1 << (2 * i), (uint64_t)i);
    for (int i = 0; i < N_THREADS; i++) {
        callers[i] = (caller){ .predictor = i < 2 ? p : other, .batches = b, .first = i, .borrowed = i % 2 == 0 };
        ok(est_thread_start(&callers[i].thread, "caller", call, &callers[i]));
    }
    for (int i = 0; i < N_THREADS; i++) est_thread_join(&callers[i].thread);
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(callers[i].wrong, 0);
    for (int i = 0; i < N_THREADS; i++) free_batch(&b[i]);
    est_predictor_free(p);
    est_predictor_free(other);
    free_tiny(&m);
}

TEST(four_threads_predict_at_once)
{
    run_callers(0);
}

TEST(four_threads_with_two_threads_each_predict_at_once)
{
    run_callers(2);
}

TEST(wrong_inputs_are_errors_that_name_them)
{
    tiny            m = build_tiny();
    est_predictor  *p = over(&m, NULL);
    est_prediction *one;
    batch           b = make_batch(&m, 2, 1);
    est_tensor     *narrow, *whole, *none, *more, *out[2];

    ok(est_tensor_create(EST_F32, EST_SHAPE(2, 5), &narrow));
    ok(est_tensor_create(EST_F32, EST_SHAPE(3, 6), &more));
    ok(est_tensor_create(EST_I64, EST_SHAPE(2, 6), &whole));
    ok(est_tensor_create(EST_F32, EST_SHAPE(0, 6), &none));
    ok(est_prediction_create(p, &one));
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", b.x }, { "wort", b.word }), out),
            "there is no input \"wort\"; did you mean \"word\"?");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", b.x }), out), "the input \"word\" is missing");
    refused(est_predictor_run(p, (est_named_tensors){ 0 }, out), "the input \"x\" is missing");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", b.x }, { "x", b.x }), out), "\"x\" is given twice");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", NULL }, { "word", b.word }), out), "\"x\" is NULL");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ NULL, b.x }), out), "input 0 has no name");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", narrow }, { "word", b.word }), out),
            "the input \"x\" is float32 [2,5]; expected float32 [?,6]");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", whole }, { "word", b.word }), out), "expected float32 [?,6]");
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "x", more }, { "word", b.word }), out),
            "the input \"x\" has 3 rows, and \"word\" has 2: ");
    refused(est_prediction_run(one, EST_NAMED_TENSORS({ "x", none }, { "word", b.word })), "\"x\" has no rows");
    assert_null(est_prediction_data(one, 0));
    ok(est_prediction_run(one, NAMED(&b))); /* none of it does harm */
    assert_true(same_as_session(&b, one));
    est_prediction_free(one);
    est_tensor_free(narrow);
    est_tensor_free(more);
    est_tensor_free(whole);
    est_tensor_free(none);
    free_batch(&b);
    est_predictor_free(p);
    free_tiny(&m);
}

TEST(what_is_no_predictor_is_refused)
{
    tiny           m = build_tiny();
    est_predictor *p = NULL;

    refused(est_predictor_over(m.s, INPUTS(&m), EST_NAMED_NODES({ "n", m.count }), NULL, &p), "changes a variable");
    refused(est_predictor_over(m.s, INPUTS(&m), (est_named_nodes){ 0 }, NULL, &p), "at least one output");
    refused(est_predictor_over(m.s, EST_NAMED_NODES({ "x", m.x }, { "x", m.word }), OUTPUTS(&m), NULL, &p),
            "two inputs are called \"x\"");
    refused(est_predictor_over(m.s, EST_NAMED_NODES({ "", m.x }), OUTPUTS(&m), NULL, &p), "input 0 has no name");
    refused(est_predictor_over(m.s, EST_NAMED_NODES({ "x", EST_NO_NODE }), OUTPUTS(&m), NULL, &p), "no node of");
    refused(est_predictor_over(m.s, INPUTS(&m), OUTPUTS(&m), EST_PREDICTOR(.threads = -5), &p), "threads is -5");
    refused(est_predictor_over(m.s, INPUTS(&m), OUTPUTS(&m), EST_PREDICTOR(.outputs = EST_STRINGS("score")), &p),
            "there is no output \"score\"; did you mean \"scores\"?");
    assert_null(p);
    free_tiny(&m);
}

TEST(only_the_outputs_asked_for_are_computed)
{
    tiny           m = build_tiny();
    est_predictor *p = over(&m, EST_PREDICTOR(.outputs = EST_STRINGS("hidden")));
    batch          b = make_batch(&m, 3, 9);
    est_tensor    *out;

    assert_int_equal(est_predictor_outputs(p).n, 1);
    ok(est_predictor_run(p, NAMED(&b), &out));
    assert_true(same(b.want[1], est_tensor_shape(out), est_tensor_data(out)));
    est_tensor_free(out);
    free_batch(&b);
    est_predictor_free(p);
    free_tiny(&m);
}

/* Predictions see what training has made of the variables since. */
TEST(a_predictor_follows_the_variables_of_its_session)
{
    tiny            m = build_tiny();
    est_predictor  *p = over(&m, NULL);
    est_prediction *one;
    batch           b = make_batch(&m, 2, 1), after;
    est_tensor     *kernel;

    ok(est_prediction_create(p, &one));
    ok(est_prediction_run(one, NAMED(&b)));
    ok(est_session_read(m.s, "dense/kernel", &kernel));
    for (int64_t i = 0; i < est_tensor_count(kernel); i++) ((float *)est_tensor_mutable_data(kernel))[i] += 0.5f;
    ok(est_session_write(m.s, "dense/kernel", kernel));
    after = make_batch(&m, 2, 1);
    ok(est_prediction_run(one, NAMED(&after)));
    assert_true(same_as_session(&after, one));
    assert_false(same_as_session(&b, one));
    est_tensor_free(kernel);
    free_batch(&b);
    free_batch(&after);
    est_prediction_free(one);
    est_predictor_free(p);
    free_tiny(&m);
}

/* --- features ----------------------------------------------------------------------------------------------------- */

static est_node text_of(est_graph *g, const char *text)
{
    est_tensor *tensor;
    est_node    node;

    ok(est_tensor_create(EST_STRING, EST_SHAPE(text != NULL), &tensor));
    if (text != NULL) ok(est_tensor_set_string(tensor, 0, text, strlen(text)));
    node = est_const(g, tensor);
    est_tensor_free(tensor);
    return node;
}

/* TensorFlow brings a default into the shape of its feature before it parses with it. */
TEST(a_feature_has_the_default_that_a_graph_reshapes)
{
    est_graph        *g;
    est_session      *session;
    est_predictor    *p;
    est_arena        *arena = est_arena_create();
    est_feature_specs found;

    ok(est_graph_create(1, &g));
    est_node  examples = est_placeholder(g, "examples", EST_STRING, EST_SHAPE(-1)), none = text_of(g, NULL);
    est_node  filler = est_reshape(est_scalar(g, EST_F32, 4), EST_I64S(1));
    est_shape shapes = EST_SHAPE(1);
    est_node  parsed = est_build(
         g, &est_op_parse_example, EST_NODES(examples, none, none, text_of(g, "k"), none, filler),
         EST_ATTRS(est_attr_int("num_sparse", 0), est_attr_types("sparse_types", (est_i64s){ 0 }),
                   est_attr_types("ragged_value_types", (est_i64s){ 0 }),
                   est_attr_types("ragged_split_types", (est_i64s){ 0 }),
                   est_attr_shapes("dense_shapes", (est_shapes){ &shapes, 1 })));
    ok(est_graph_status(g));
    ok(est_session_create(g, EST_SESSION(.threads = 1), &session));
    ok(est_predictor_over(session, EST_NAMED_NODES({ "examples", examples }), EST_NAMED_NODES({ "k", parsed }), NULL,
                          &p));
    ok(est_predictor_features(p, arena, &found));
    assert_int_equal(found.n, 1);
    assert_string_equal(found.data[0].name, "k");
    assert_non_null(found.data[0].default_value);
    assert_float_equal(*(const float *)est_tensor_data(found.data[0].default_value), 4, 0);
    est_predictor_free(p);
    est_session_free(session);
    est_graph_free(g);
    est_arena_free(arena);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static est_dataset *rows_dataset(int64_t n, int64_t batch_size)
{
    est_tensor  *x, *word;
    est_dataset *d;

    ok(est_tensor_create(EST_F32, EST_SHAPE(n, 6), &x));
    ok(est_tensor_create(EST_STRING, EST_SHAPE(n), &word));
    est_random_fill_normal_f32(&(est_random){ 3, 0, 0 }, 0, n * 6, est_tensor_mutable_data(x));
    for (int64_t i = 0; i < n; i++) ok(est_tensor_set_string(word, i, "blue", 4));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "label", x }, { "word", word }, { "x", x }));
    d = est_dataset_batch(d, batch_size, NULL);
    ok(est_dataset_finish(d, &d));
    est_tensor_free(x);
    est_tensor_free(word);
    return d;
}

TEST(predictions_for_a_dataset_come_by_row_or_by_batch)
{
    tiny             m = build_tiny();
    est_predictor   *p = over(&m, NULL);
    est_dataset     *d = rows_dataset(7, 3);
    est_predictions *rows, *batches;
    est_status       status;
    int              n = 0, n_batches = 0;

    ok(est_predictor_predict(p, d, (est_strings){ 0 }, false, &rows));
    ok(est_predictor_predict(p, d, (est_strings){ 0 }, true, &batches));
    for (; (status = est_predictions_next(rows)) == EST_OK; n++) {
        const est_tensor *batch_scores, *scores = est_predictions_get(rows, "scores");

        if (n % 3 == 0) ok(est_predictions_next(batches));
        n_batches += n % 3 == 0;
        batch_scores = est_predictions_get(batches, "scores");
        assert_int_equal(est_tensor_shape(scores)->rank, 1);
        assert_memory_equal(est_tensor_data(scores), (const float *)est_tensor_data(batch_scores) + n % 3 * 3,
                            3 * sizeof(float));
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    assert_int_equal(n, 7);
    assert_int_equal(n_batches, 3);
    assert_int_equal(est_predictions_next(rows), EST_OUT_OF_RANGE);
    assert_int_equal(est_predictions_count(rows), 2);
    assert_string_equal(est_predictions_key(rows, 1), "hidden");
    est_predictions_free(rows);
    est_predictions_free(batches);
    ok(est_predictor_predict(p, d, EST_STRINGS("hidden", "nothing"), false, &rows));
    ok(est_predictions_next(rows));
    assert_int_equal(est_predictions_count(rows), 1);
    est_predictions_free(rows);
    ok(est_predictor_predict(p, d, EST_STRINGS("nothing"), false, &rows));
    refused(est_predictions_next(rows), "write some of \"scores\", \"hidden\"");
    est_predictions_free(rows);
    est_dataset_free(d);
    est_predictor_free(p);
    free_tiny(&m);
}

/* A ragged output has its own row in each example; its input may have no values at all. */
TEST(ragged_outputs_are_split_by_their_splits)
{
    static const int64_t splits[] = { 0, 2, 2, 3 };
    static const float   values[] = { 1, 2, 3 };
    tiny                 m        = build_tiny();
    est_tensor          *v, *s, *empty, *out[2];
    est_predictor       *p;
    est_dataset         *d;
    est_predictions     *rows;

    ok(est_predictor_over(m.s, EST_NAMED_NODES({ "tags", m.tags }, { "tags/splits", m.splits }),
                          EST_NAMED_NODES({ "twice", m.echo }, { "twice/splits", m.splits }), NULL, &p));
    assert_true(est_predictor_inputs(p).data[0].ragged);
    ok(est_tensor_create_from(EST_F32, EST_SHAPE(3), values, &v));
    ok(est_tensor_create_from(EST_I64, EST_SHAPE(4), splits, &s));
    ok(est_tensor_create(EST_F32, EST_SHAPE(0), &empty));
    ok(est_dataset_finish(est_dataset_tensors(EST_NAMED_TENSORS({ "tags", v }, { "tags/splits", s })), &d));
    ok(est_predictor_predict(p, d, (est_strings){ 0 }, false, &rows));
    for (int i = 0; i < 3; i++) {
        ok(est_predictions_next(rows));
        assert_int_equal(est_predictions_count(rows), 1);
        assert_int_equal(est_tensor_count(est_predictions_get(rows, "twice")), splits[i + 1] - splits[i]);
    }
    assert_float_equal(((const float *)est_tensor_data(est_predictions_get(rows, "twice")))[0], 6, 0);
    assert_int_equal(est_predictions_next(rows), EST_OUT_OF_RANGE);
    est_tensor_free(s);
    ok(est_tensor_create_from(EST_I64, EST_SHAPE(3), (const int64_t[]){ 0, 0, 0 }, &s));
    ok(est_predictor_run(p, EST_NAMED_TENSORS({ "tags", empty }, { "tags/splits", s }), out));
    assert_int_equal(est_tensor_count(out[0]), 0);
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_tensor_free(s);
    ok(est_tensor_create_from(EST_I64, EST_SHAPE(1), (const int64_t[]){ 0 }, &s));
    refused(est_predictor_run(p, EST_NAMED_TENSORS({ "tags", empty }, { "tags/splits", s }), out),
            "\"tags/splits\" has no rows");
    est_predictions_free(rows);
    est_dataset_free(d);
    est_tensor_free(v);
    est_tensor_free(s);
    est_tensor_free(empty);
    est_predictor_free(p);
    free_tiny(&m);
}

TEST(a_dataset_without_an_input_is_refused)
{
    tiny             m = build_tiny();
    est_predictor   *p = over(&m, NULL);
    est_predictions *rows;
    est_tensor      *x;
    est_dataset     *d;

    ok(est_tensor_create(EST_F32, EST_SHAPE(2, 6), &x));
    ok(est_dataset_finish(est_dataset_tensors(EST_NAMED_TENSORS({ "x", x })), &d));
    refused(est_predictor_predict(p, d, (est_strings){ 0 }, false, &rows), "the input \"word\" is missing");
    est_dataset_free(d);
    est_tensor_free(x);
    est_predictor_free(p);
    free_tiny(&m);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status make_and_run(const tiny *m, const batch *b)
{
    est_predictor *p;
    est_tensor    *out[2];
    est_status     status;

    EST_TRY(est_predictor_over(m->s, INPUTS(m), OUTPUTS(m), NULL, &p));
    status = est_predictor_run(p, NAMED(b), out);
    if (status == EST_OK) {
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
    }
    est_predictor_free(p);
    return status;
}

TEST(failed_allocations_are_reported)
{
    tiny  m = build_tiny();
    batch b = make_batch(&m, 3, 1);

    FAULT_LOOP(f, FAULT_PLACES) {
        est_status status;

        fault_arm(&f);
        status = make_and_run(&m, &b);
        fault_check(&f, status);
    }
    free_batch(&b);
    free_tiny(&m);
}

static est_status predict_rows(est_predictor *p, const est_dataset *d)
{
    est_predictions *rows;
    est_status       status;

    EST_TRY(est_predictor_predict(p, d, (est_strings){ 0 }, false, &rows));
    while ((status = est_predictions_next(rows)) == EST_OK) continue;
    est_predictions_free(rows);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

TEST(failed_allocations_of_rows_are_reported)
{
    tiny           m = build_tiny();
    est_predictor *p = over(&m, NULL);
    est_dataset   *d = rows_dataset(3, 2);

    FAULT_LOOP(f, FAULT_PLACES) {
        est_status status;

        fault_arm(&f);
        status = predict_rows(p, d);
        fault_check(&f, status);
    }
    est_dataset_free(d);
    est_predictor_free(p);
    free_tiny(&m);
}
