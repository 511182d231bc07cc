/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: what a user relies on. Same bits with any number of threads, one plan for every batch size, nothing
 * allocated in a step, passes that change nothing but speed, and errors that say where to look. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/random.h"
#include "estoc/estoc.h"
#include "graph/graph.h"
#include "support/far_device.h"
#include "support/locale_test.h"
#include "support/test.h"

#define ok(expr) assert_int_equal_msg((expr), EST_OK, est_error_message())

static void assert_int_equal_msg(est_status got, est_status want, const char *message)
{
    if (got != want) print_error("%s: %s\n", est_status_name(got), message);
    assert_int_equal(got, want);
}

/* A model with most kinds of memory in it: convolution, dense layers, an embedding with sparse updates, dropout. */
typedef struct tiny {
    est_graph *g;
    est_node   image, id, label, loss, train;
} tiny;

static tiny build_tiny(uint64_t seed)
{
    tiny     m = { 0 };
    est_node x, e;

    ok(est_graph_create(seed, &m.g));
    m.image = est_placeholder(m.g, "image", EST_F32, EST_SHAPE(-1, 12, 12, 1));
    m.id    = est_placeholder(m.g, "id", EST_I64, EST_SHAPE(-1));
    m.label = est_placeholder(m.g, "label", EST_I32, EST_SHAPE(-1));
    x       = est_conv2d_layer(m.image, 8, 3, EST_CONV2D(.activation = est_relu));
    x       = est_flatten(est_max_pool2d(x, 2, NULL));
    e       = est_embedding(m.id, 50, 6, NULL);
    x       = est_concat(EST_NODES(x, e), 1);
    x       = est_dropout_layer(est_dense(x, 33, EST_DENSE(.activation = est_relu)), 0.25, true);
    x       = est_dense(x, 5, NULL);
    m.loss  = est_mean(est_sparse_softmax_xent(x, m.label));
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    ok(est_graph_status(m.g));
    return m;
}

static void fill_tiny(int64_t batch, uint64_t key, est_tensor *feeds[3])
{
    ok(est_tensor_create(EST_F32, EST_SHAPE(batch, 12, 12, 1), &feeds[0]));
    ok(est_tensor_create(EST_I64, EST_SHAPE(batch), &feeds[1]));
    ok(est_tensor_create(EST_I32, EST_SHAPE(batch), &feeds[2]));
    est_random_fill_normal_f32(&(est_random){ key, 0, 0 }, 0, batch * 144, est_tensor_mutable_data(feeds[0]));
    est_random_fill_int_i64(&(est_random){ key, 1, 0 }, 0, batch, 0, 50, est_tensor_mutable_data(feeds[1]));
    est_random_fill_int_i32(&(est_random){ key, 2, 0 }, 0, batch, 0, 5, est_tensor_mutable_data(feeds[2]));
}

static void free_feeds(est_tensor *feeds[3])
{
    for (int i = 0; i < 3; i++) est_tensor_free(feeds[i]);
}

#define STEPS 12

/* Losses of a few steps with batches of changing size, and a sum over all variables at the end. */
static void train_tiny(const est_session_options *options, float losses[STEPS], double *checksum)
{
    static const int64_t batches[] = { 32, 7, 32, 1, 19 };
    tiny                 m         = build_tiny(11);
    est_session         *s         = NULL;
    est_step            *step      = NULL;

    ok(est_session_create(m.g, options, &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(m.image, m.id, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    for (int i = 0; i < STEPS; i++) {
        est_tensor *feeds[3];
        fill_tiny(batches[i % 5], (uint64_t)i, feeds);
        ok(est_step_run(step, (const est_tensor *const *)feeds));
        losses[i] = *(const float *)est_step_data(step, 0);
        free_feeds(feeds);
    }
    *checksum = 0;
    for (int v = 0; v < est_session_variables(s); v++) {
        est_tensor *t = NULL;
        ok(est_session_read(s, est_session_variable(s, v), &t));
        for (int64_t i = 0; est_tensor_dtype(t) == EST_F32 && i < est_tensor_count(t); i++) {
            *checksum += (double)((const float *)est_tensor_data(t))[i] * (double)(i % 7 + 1);
        }
        est_tensor_free(t);
    }
    est_session_free(s);
    est_graph_free(m.g);
}

TEST(same_bits_with_any_number_of_threads)
{
    float  one[STEPS], many[STEPS];
    double sum_one, sum_many;

    train_tiny(EST_SESSION(.threads = 1), one, &sum_one);
    for (int threads = 2; threads <= 4; threads++) {
        train_tiny(EST_SESSION(.threads = threads), many, &sum_many);
        assert_memory_equal(one, many, sizeof one);
        assert_true(sum_one == sum_many);
    }
    assert_true(one[0] != one[1]);
}

TEST(same_seed_same_losses_other_seed_others)
{
    float  a[STEPS], b[STEPS];
    double sum_a, sum_b;

    train_tiny(NULL, a, &sum_a);
    train_tiny(NULL, b, &sum_b);
    assert_memory_equal(a, b, sizeof a);
    assert_true(sum_a == sum_b);
}

/* The first number of three operations in two runs of a new session: without a seed, with one, a dropout with one. */
static void draw(est_graph *graph, est_nodes nodes, float out[2][3])
{
    est_session *s = NULL;
    est_tensor  *t[3];

    ok(est_session_create(graph, EST_SESSION(.threads = 1), &s));
    for (int run = 0; run < 2; run++) {
        ok(est_session_run(s, EST_NO_FEEDS, nodes, EST_NO_NODES, t));
        for (int i = 0; i < 3; i++) {
            out[run][i] = 0;
            for (int k = 0; k < 32; k++) out[run][i] += (float)(k + 1) * ((const float *)est_tensor_data(t[i]))[k];
            est_tensor_free(t[i]);
        }
    }
    est_session_free(s);
}

static est_nodes build_random(est_graph *graph, est_node nodes[3])
{
    est_node shape = est_const_list(graph, EST_I64S(32));

    nodes[0] = est_random_uniform(shape, EST_F32, 0);
    nodes[1] = est_random_uniform(shape, EST_F32, 7);
    nodes[2] = est_dropout(est_fill(shape, est_scalar(graph, EST_F32, 1)), 0.5, 7);
    ok(est_graph_status(graph));
    return (est_nodes){ nodes, 3 };
}

TEST(operations_with_a_seed_draw_the_same_in_every_session)
{
    est_graph *graph = NULL;
    est_node   nodes[2][3];
    est_nodes  some;
    float      a[2][3], b[2][3];

    ok(est_graph_create(0, &graph));
    some = build_random(graph, nodes[0]);
    draw(graph, some, a);
    draw(graph, some, b);
    assert_true(a[0][0] != b[0][0] && a[1][0] != b[1][0]);
    for (int run = 0; run < 2; run++) {
        assert_true(a[run][1] == b[run][1] && a[run][2] == b[run][2]);
    }
    for (int i = 0; i < 3; i++) assert_true(a[0][i] != a[1][i]); /* but not in every run */
    est_graph_set_seed(graph, 5);
    some = build_random(graph, nodes[1]);
    draw(graph, some, a);
    draw(graph, some, b);
    assert_memory_equal(a, b, sizeof a);
    est_graph_set_seed(graph, 6);
    draw(graph, some, b);
    for (int i = 0; i < 3; i++) assert_true(a[0][i] != b[0][i]);
    est_graph_set_seed(NULL, 6);
    est_session_set_seed(NULL, 6);
    est_graph_free(graph);
}

/* Operations without a seed of their own, of two graphs: 0, 1, 2, ... in the order in which they are made. */
TEST(graphs_that_count_seeds_in_one_counter)
{
    est_seed_counter both = { .next = 1, .step = 1 }, same = { .next = 4 };
    est_graph       *one = NULL, *two = NULL;
    est_node         nodes[4][3];
    est_nodes        some[4];
    float            drawn[4][2][3];

    ok(est_graph_create(5, &one));
    ok(est_graph_create(5, &two));
    some[0] = build_random(one, nodes[0]); /* counts by itself: 1 */
    est_graph_count_seeds(one, &both);
    est_graph_count_seeds(two, &both);
    some[1] = build_random(two, nodes[1]); /* 1 */
    some[2] = build_random(one, nodes[2]); /* 2 */
    assert_int_equal(both.next, 3);
    est_graph_count_seeds(two, &same);
    some[3] = build_random(two, nodes[3]); /* 4 */
    assert_int_equal(same.next, 4);
    for (int i = 0; i < 4; i++) draw(i % 2 == 0 ? one : two, some[i], drawn[i]);
    assert_true(drawn[0][0][0] == drawn[1][0][0] && drawn[0][0][0] != drawn[2][0][0]);
    assert_true(drawn[2][0][0] != drawn[3][0][0] && drawn[2][0][1] == drawn[3][0][1]);
    est_graph_count_seeds(one, NULL);
    some[0] = build_random(one, nodes[0]); /* 2, of its own */
    draw(one, some[0], drawn[0]);
    assert_true(drawn[0][0][0] == drawn[2][0][0]);
    est_graph_count_seeds(NULL, &same);
    est_graph_free(one);
    est_graph_free(two);
}

TEST(a_seed_for_an_open_session)
{
    est_graph   *graph = NULL;
    est_session *s     = NULL;
    est_node     nodes[3];
    float        first[3];

    ok(est_graph_create(0, &graph));
    (void)build_random(graph, nodes);
    ok(est_session_create(graph, NULL, &s));
    for (int i = 0; i < 3; i++) {
        est_tensor *t = NULL;

        est_session_set_seed(s, i < 2 ? 9 : 10);
        est_session_set_run_count(s, 0);
        ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(nodes[0]), EST_NO_NODES, &t));
        first[i] = *(const float *)est_tensor_data(t);
        est_tensor_free(t);
    }
    assert_true(first[0] == first[1] && first[0] != first[2]);
    est_session_free(s);
    est_graph_free(graph);
}

/* 0 draws a seed also where the graph has one, another one each time. */
TEST(a_seed_drawn_for_an_open_session)
{
    est_graph   *graph = NULL;
    est_session *s     = NULL;
    est_node     nodes[3];
    float        first[3];

    ok(est_graph_create(7, &graph));
    (void)build_random(graph, nodes);
    ok(est_session_create(graph, NULL, &s));
    for (int i = 0; i < 3; i++) {
        est_tensor *t = NULL;

        if (i > 0) est_session_set_seed(s, 0);
        est_session_set_run_count(s, 0);
        ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(nodes[0]), EST_NO_NODES, &t));
        first[i] = *(const float *)est_tensor_data(t);
        est_tensor_free(t);
    }
    assert_true(first[0] != first[1] && first[1] != first[2]);
    est_session_free(s);
    est_graph_free(graph);
}

/* Fused kernels add in another order, so values may differ by rounding: a few float32 ulps grown over STEPS steps. */
TEST(passes_change_nothing_but_rounding)
{
    float  with[STEPS], without[STEPS];
    double sum_with, sum_without;

    train_tiny(NULL, with, &sum_with);
    train_tiny(EST_SESSION(.no_passes = true), without, &sum_without);
    for (int i = 0; i < STEPS; i++) assert_float_equal(with[i], without[i], 2e-5f * (1 + with[i]));
}

/* With one thread, so that all that a step looks up is looked up in this one. */
TEST(steps_allocate_and_look_up_nothing)
{
    tiny         m    = build_tiny(3);
    est_session *s    = NULL;
    est_step    *step = NULL;
    est_tensor  *feeds[4][3];
    uint64_t     allocated, looked_up;
    int          layouts;

    EST_CPU_ONLY();
    ok(est_session_create(m.g, EST_SESSION(.threads = 1), &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(m.image, m.id, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    for (int i = 0; i < 4; i++) fill_tiny(i == 0 ? 40 : 40 - 11 * i, (uint64_t)i, feeds[i]);
    for (int i = 0; i < 4; i++) ok(est_step_run(step, (const est_tensor *const *)feeds[i]));
    allocated = est_alloc_count();
    layouts   = est_step_layouts(step);
    for (int i = 0; i < 1000; i++) ok(est_step_run(step, (const est_tensor *const *)feeds[i % 4]));
    assert_int_equal(est_alloc_count(), allocated);
    looked_up = est_node_attr_count();
    for (int i = 0; i < 1000; i++) ok(est_step_run(step, (const est_tensor *const *)feeds[3]));
    assert_int_equal(est_node_attr_count(), looked_up);
    assert_int_equal(est_step_layouts(step), layouts);
    assert_true(layouts <= 2); /* smaller batches fit into what the largest needed, but for a kernel's scratch */
    for (int i = 0; i < 4; i++) free_feeds(feeds[i]);
    est_session_free(s);
    est_graph_free(m.g);
}

TEST(larger_batches_grow_the_plan_once)
{
    tiny         m    = build_tiny(3);
    est_session *s    = NULL;
    est_step    *step = NULL;
    est_tensor  *small[3], *large[3];

    fill_tiny(5, 1, small);
    fill_tiny(64, 2, large);
    ok(est_session_create(m.g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(m.image, m.id, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    for (int i = 0; i < 3; i++) {
        ok(est_step_run(step, (const est_tensor *const *)small));
        ok(est_step_run(step, (const est_tensor *const *)large));
    }
    assert_int_equal(est_step_layouts(step), 2);
    free_feeds(small);
    free_feeds(large);
    est_session_free(s);
    est_graph_free(m.g);
}

/* Counts of ids change every step: the largest so far must not be a new layout each time. */
TEST(sizes_that_creep_up_find_room)
{
    tiny         m    = build_tiny(3);
    est_session *s    = NULL;
    est_step    *step = NULL;

    ok(est_session_create(m.g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(m.image, m.id, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    for (int64_t batch = 100; batch <= 120; batch++) {
        est_tensor *feeds[3];

        fill_tiny(batch, (uint64_t)batch, feeds);
        ok(est_step_run(step, (const est_tensor *const *)feeds));
        free_feeds(feeds);
    }
    assert_true(est_step_layouts(step) <= 3); /* the third for a kernel's scratch, which grows in leaps */
    est_session_free(s);
    est_graph_free(m.g);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

TEST(reads_see_the_value_before_unordered_writes)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_node     v, old, twice, update, fresh;
    est_tensor  *out[3];

    ok(est_graph_create(1, &g));
    v = est_variable(g, "v", EST_F32, EST_SHAPE(3));
    est_variable_initializer(v, est_const_f32(g, EST_SHAPE(3), (const float[]){ 1, 2, 3 }));
    old    = est_read_variable(v);
    update = est_assign_add(v, est_const_f32(g, EST_SHAPE(3), (const float[]){ 10, 10, 10 }));
    twice  = est_scale(old, 2); /* built after the write, but does not depend on it */
    fresh  = est_after(est_read_variable(v), update);
    ok(est_session_create(g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(old, twice, fresh), EST_NODES(update), out));
    assert_memory_equal(est_tensor_data(out[0]), ((float[]){ 1, 2, 3 }), 12);
    assert_memory_equal(est_tensor_data(out[1]), ((float[]){ 2, 4, 6 }), 12);
    assert_memory_equal(est_tensor_data(out[2]), ((float[]){ 11, 12, 13 }), 12);
    for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
    est_session_free(s);
    est_graph_free(g);
}

static est_node draw_table(est_graph *g)
{
    return est_scale(est_random_normal(est_const_i32(g, EST_SHAPE(2), (const int32_t[]){ 300, 200 }), EST_F32, 7), 3);
}

/* Runs the assignment in a session of its own; whether its value lies where the variable does shows in the slab. */
static void run_assignment(est_graph *g, est_node assign, est_nodes fetches, bool in_place, est_tensor **out)
{
    const size_t bytes = 300 * 200 * sizeof(float);
    est_session *s     = NULL;
    est_step    *step  = NULL;

    ok(est_session_create(g, NULL, &s));
    ok(est_session_prepare(s, EST_NO_NODES, fetches, EST_NODES(assign), &step));
    ok(est_step_run(step, NULL));
    assert_true(in_place == (est_step_slab_bytes(step) < bytes));
    ok(est_session_read(s, "v", out));
    est_session_free(s);
}

TEST(first_values_are_made_where_they_stay)
{
    est_graph  *g    = NULL;
    est_tensor *here = NULL, *copied = NULL;
    est_node    v, value, assign;

    EST_CPU_ONLY();
    ok(est_graph_create(1, &g));
    v      = est_variable(g, "v", EST_F32, EST_SHAPE(300, 200));
    value  = draw_table(g);
    assign = est_assign(v, value);
    run_assignment(g, assign, EST_NO_NODES, true, &here);
    run_assignment(g, assign, EST_NODES(value), false, &copied); /* a fetch has memory of its own (P4) */
    assert_memory_equal(est_tensor_data(here), est_tensor_data(copied), est_tensor_bytes(here));
    assert_true(((const float *)est_tensor_data(here))[59999] != 0);
    est_tensor_free(here);
    est_tensor_free(copied);
    est_graph_free(g);
}

/* The value of the last assignment is there before the first one writes the variable. */
TEST(values_wait_while_others_write_the_variable)
{
    est_graph  *g   = NULL;
    est_tensor *out = NULL, *alone = NULL;
    est_node    v, value, first;

    EST_CPU_ONLY();
    ok(est_graph_create(1, &g));
    v     = est_variable(g, "v", EST_F32, EST_SHAPE(300, 200));
    value = draw_table(g);
    first = est_assign(v, est_neg(value));
    run_assignment(g, est_after(est_assign(v, value), first), EST_NO_NODES, false, &out);
    run_assignment(g, est_assign(v, value), EST_NO_NODES, true, &alone);
    assert_memory_equal(est_tensor_data(out), est_tensor_data(alone), est_tensor_bytes(out));
    est_tensor_free(out);
    est_tensor_free(alone);
    est_graph_free(g);
}

TEST(initializers_may_read_other_variables)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *t = NULL;
    est_node     v[4];

    ok(est_graph_create(1, &g));
    for (int i = 3; i >= 0; i--) {
        v[i] = est_variable(g, (const char *[]){ "a", "b", "c", "d" }[i], EST_F32, EST_SHAPE(1));
    }
    est_variable_initializer(v[0], est_const_f32(g, EST_SHAPE(1), (const float[]){ 1 }));
    for (int i = 1; i < 4; i++) est_variable_initializer(v[i], est_scale(est_read_variable(v[i - 1]), 3));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_read(s, "d", &t));
    assert_float_equal(*(const float *)est_tensor_data(t), 27, 0);
    est_tensor_free(t);
    est_session_free(s);
    est_graph_free(g);
}

TEST(initializers_in_a_circle_are_refused)
{
    est_graph   *g = NULL;
    est_session *s = NULL;

    ok(est_graph_create(1, &g));
    est_node a = est_variable(g, "a", EST_F32, EST_SHAPE(1));
    est_node b = est_variable(g, "b", EST_F32, EST_SHAPE(1));
    est_variable_initializer(a, est_neg(est_read_variable(b)));
    est_variable_initializer(b, est_neg(est_read_variable(a)));
    ok(est_session_create(g, NULL, &s));
    assert_int_equal(est_session_init(s), EST_FAILED_PRECONDITION);
    est_session_free(s);
    est_graph_free(g);
}

TEST(variables_are_read_and_written_by_name)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *t = NULL, *wrong = NULL;
    est_node     v;

    ok(est_graph_create(1, &g));
    v = est_variable(g, "a/b", EST_F32, EST_SHAPE(2));
    ok(est_session_create(g, NULL, &s));
    assert_int_equal(est_session_read(s, "a/b", &t), EST_FAILED_PRECONDITION);
    assert_int_equal(est_session_read(s, "nobody", &t), EST_NOT_FOUND);
    assert_int_equal(est_session_init(s), EST_FAILED_PRECONDITION); /* no initializer */
    ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 4, 5 }, &t));
    ok(est_tensor_f32(EST_SHAPE(1), (const float[]){ 4 }, &wrong));
    assert_int_equal(est_session_write(s, "a/b", wrong), EST_INVALID_ARGUMENT);
    ok(est_session_write(s, "a/b", t));
    est_tensor_free(t);
    ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(est_read_variable(v)), (est_nodes){ 0 }, &t));
    assert_memory_equal(est_tensor_data(t), ((float[]){ 4, 5 }), 8);
    est_tensor_free(t);
    est_tensor_free(wrong);
    est_session_free(s);
    est_graph_free(g);
}

TEST(uninitialised_variables_are_named)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *t = NULL;

    ok(est_graph_create(1, &g));
    est_node read = est_read_variable(est_variable(g, "lonely", EST_F32, EST_SHAPE(2)));
    ok(est_session_create(g, NULL, &s));
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NODES(est_neg(read)), (est_nodes){ 0 }, &t),
                     EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "'lonely'"));
    est_session_free(s);
    est_graph_free(g);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

TEST(wrong_feeds_are_refused_and_named)
{
    est_graph   *g   = NULL;
    est_session *s   = NULL;
    est_tensor  *ids = NULL, *wide = NULL, *fine = NULL, *t = NULL;

    ok(est_graph_create(1, &g));
    est_node x = est_placeholder(g, "x", EST_F32, EST_SHAPE(-1, 3));
    est_node y = est_neg(x);
    ok(est_tensor_i64(EST_SHAPE(2, 3), (const int64_t[6]){ 0 }, &ids));
    ok(est_tensor_f32(EST_SHAPE(2, 4), (const float[8]){ 0 }, &wide));
    ok(est_tensor_f32(EST_SHAPE(2, 3), (const float[6]){ 0 }, &fine));
    ok(est_session_create(g, NULL, &s));
    assert_int_equal(est_session_run(s, EST_FEEDS({ x, ids }), EST_NODES(y), (est_nodes){ 0 }, &t),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'x'"));
    assert_non_null(strstr(est_error_message(), "int64"));
    assert_int_equal(est_session_run(s, EST_FEEDS({ x, wide }), EST_NODES(y), (est_nodes){ 0 }, &t),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "[2,4]"));
    ok(est_session_run(s, EST_FEEDS({ x, fine }), EST_NODES(y), (est_nodes){ 0 }, &t)); /* still usable */
    est_tensor_free(t);
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NODES(y), (est_nodes){ 0 }, &t), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "must be fed"));
    est_tensor_free(ids);
    est_tensor_free(wide);
    est_tensor_free(fine);
    est_session_free(s);
    est_graph_free(g);
}

TEST(shapes_that_do_not_fit_name_node_shapes_and_line)
{
    est_graph *g = NULL;
    char       here[64];

    ok(est_graph_create(1, &g));
    est_node a = est_placeholder(g, "a", EST_F32, EST_SHAPE(-1, 3));
    est_node b = est_placeholder(g, "b", EST_F32, EST_SHAPE(4, 5));
    est_node c = est_matmul(a, b);
    (void)snprintf(here, sizeof here, "session.c:%d", __LINE__ - 1);
    (void)est_relu(c); /* poison passes through */
    assert_int_equal(est_graph_status(g), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), here));
    assert_non_null(strstr(est_error_message(), "[?,3]"));
    assert_non_null(strstr(est_error_message(), "[4,5]"));
    assert_non_null(strstr(est_error_message(), "MatMul"));
    est_graph_free(g);
}

TEST(a_nan_is_traced_to_the_node_that_made_it)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *x = NULL, *t = NULL;

    ok(est_graph_create(1, &g));
    est_node in   = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1));
    est_node root = est_named(est_sqrt(in), "root");
    est_node out  = est_sum(est_neg(root));
    ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 4, -1 }, &x));
    ok(est_session_create(g, EST_SESSION(.check_numerics = true), &s));
    assert_int_equal(est_session_run(s, EST_FEEDS({ in, x }), EST_NODES(out), (est_nodes){ 0 }, &t),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "'root'"));
    assert_non_null(strstr(est_error_message(), "session.c:"));
    est_tensor_free(x);
    est_session_free(s);
    est_graph_free(g);
}

/* --- shapes that only a running step knows ------------------------------------------------------------------------ */

TEST(sizes_decided_by_data_flow_on)
{
    est_graph   *g    = NULL;
    est_session *s    = NULL;
    est_tensor  *x    = NULL, *out[2];
    est_step    *step = NULL;

    ok(est_graph_create(1, &g));
    est_node in       = est_placeholder(g, "in", EST_I64, EST_SHAPE(-1));
    est_node distinct = est_unique(in, NULL);
    est_node doubled  = est_add(distinct, distinct);
    est_node tall     = est_reshape(doubled, EST_I64S(-1, 1));
    ok(est_session_create(g, NULL, &s));
    ok(est_tensor_i64(EST_SHAPE(6), (const int64_t[]){ 7, 7, 3, 7, 3, 9 }, &x));
    ok(est_session_run(s, EST_FEEDS({ in, x }), EST_NODES(tall, est_size(distinct)), (est_nodes){ 0 }, out));
    assert_true(est_shape_equal(est_tensor_shape(out[0]), &EST_SHAPE(3, 1)));
    assert_memory_equal(est_tensor_data(out[0]), ((int64_t[]){ 14, 6, 18 }), 24);
    assert_int_equal(*(const int32_t *)est_tensor_data(out[1]), 3);
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);

    /* Another count of distinct values uses the same plan and the same memory. */
    ok(est_session_prepare(s, EST_NODES(in), EST_NODES(tall), (est_nodes){ 0 }, &step));
    ok(est_step_run(step, (const est_tensor *[]){ x }));
    uint64_t before = est_alloc_count();
    for (int64_t n = 1; n <= 6; n++) {
        int64_t *ids = est_tensor_mutable_data(x);
        for (int64_t i = 0; i < 6; i++) ids[i] = i % n;
        ok(est_step_run(step, (const est_tensor *[]){ x }));
        assert_int_equal(est_step_shape(step, 0)->dim[0], n);
        for (int64_t i = 0; i < n; i++) assert_int_equal(((const int64_t *)est_step_data(step, 0))[i], 2 * i);
    }
    assert_int_equal(est_alloc_count(), before);
    est_tensor_free(x);
    est_session_free(s);
    est_graph_free(g);
}

TEST(shapes_fed_as_numbers_work)
{
    est_graph   *g    = NULL;
    est_session *s    = NULL;
    est_tensor  *dims = NULL, *t = NULL;

    ok(est_graph_create(1, &g));
    est_node shape = est_placeholder(g, "shape", EST_I64, EST_SHAPE(2));
    est_node ones  = est_fill(shape, est_scalar(g, EST_F32, 2));
    est_node sum   = est_sum(est_neg(ones));
    ok(est_session_create(g, NULL, &s));
    for (int64_t n = 3; n > 0; n--) {
        ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ n, 5 * n }, &dims));
        ok(est_session_run(s, EST_FEEDS({ shape, dims }), EST_NODES(sum), (est_nodes){ 0 }, &t));
        assert_float_equal(*(const float *)est_tensor_data(t), -10.0f * (float)(n * n), 0);
        est_tensor_free(t);
        est_tensor_free(dims);
    }
    est_session_free(s);
    est_graph_free(g);
}

TEST(a_batch_of_one_may_broadcast)
{
    est_graph   *g   = NULL;
    est_session *s   = NULL;
    est_tensor  *one = NULL, *four = NULL, *t = NULL;
    est_step    *step = NULL;

    ok(est_graph_create(1, &g));
    est_node a   = est_placeholder(g, "a", EST_F32, EST_SHAPE(-1, 2));
    est_node b   = est_placeholder(g, "b", EST_F32, EST_SHAPE(-1, 2));
    est_node sum = est_add(est_neg(a), est_neg(b)); /* either could be written over when sizes are equal */
    ok(est_tensor_f32(EST_SHAPE(1, 2), (const float[]){ 1, 2 }, &one));
    ok(est_tensor_f32(EST_SHAPE(4, 2), (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, &four));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_prepare(s, EST_NODES(a, b), EST_NODES(sum), (est_nodes){ 0 }, &step));
    ok(est_step_run(step, (const est_tensor *[]){ four, four }));
    assert_memory_equal(est_step_data(step, 0), ((float[]){ -2, -4, -6, -8, -10, -12, -14, -16 }), 32);
    ok(est_step_run(step, (const est_tensor *[]){ one, four }));
    assert_memory_equal(est_step_data(step, 0), ((float[]){ -2, -4, -4, -6, -6, -8, -8, -10 }), 32);
    ok(est_step_run(step, (const est_tensor *[]){ four, one }));
    assert_memory_equal(est_step_data(step, 0), ((float[]){ -2, -4, -4, -6, -6, -8, -8, -10 }), 32);
    est_tensor_free(one);
    est_tensor_free(four);
    est_tensor_free(t);
    est_session_free(s);
    est_graph_free(g);
}

TEST(after_a_failed_run_shapes_are_looked_at_again)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *t[3], *wrong = NULL;
    est_step    *step = NULL;

    ok(est_graph_create(1, &g));
    est_node a   = est_placeholder(g, "a", EST_F32, EST_SHAPE(-1));
    est_node b   = est_placeholder(g, "b", EST_F32, EST_SHAPE(-1));
    est_node sum = est_add(est_square(a), b);
    for (int i = 0; i < 3; i++) ok(est_tensor_f32(EST_SHAPE(i + 2), (const float[]){ 1, 2, 3, 4 }, &t[i]));
    ok(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 1, 2 }, &wrong));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_prepare(s, EST_NODES(a, b), EST_NODES(sum), (est_nodes){ 0 }, &step));
    ok(est_step_run(step, (const est_tensor *[]){ t[0], t[0] }));
    for (int i = 0; i < 2; i++) { /* the second time must fail too */
        assert_int_equal(est_step_run(step, (const est_tensor *[]){ t[1], t[2] }), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "AddV2"));
    }
    assert_int_equal(est_step_run(step, (const est_tensor *[]){ t[2], wrong }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_step_run(step, (const est_tensor *[]){ t[2], t[0] }), EST_INVALID_ARGUMENT);
    ok(est_step_run(step, (const est_tensor *[]){ t[2], t[2] }));
    assert_memory_equal(est_step_data(step, 0), ((float[]){ 2, 6, 12, 20 }), 16);
    for (int i = 0; i < 3; i++) est_tensor_free(t[i]);
    est_tensor_free(wrong);
    est_session_free(s);
    est_graph_free(g);
}

/* An item of which only the shape is wanted still reads the integers that tell it. */
TEST(integers_that_tell_a_shape_are_kept_for_it)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *f = NULL, *x = NULL, *out[2];

    ok(est_graph_create(1, &g));
    est_node fed  = est_placeholder(g, "fed", EST_I32, EST_SHAPE(2));
    est_node in   = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1));
    est_node dims = est_add(fed, est_const_i32(g, EST_SHAPE(2), (const int32_t[]){ 1, 1 }));
    est_node big  = est_exp(est_mul(in, in));
    est_node made = est_shape_of(est_fill(dims, est_sum(big)));
    ok(est_tensor_create_from(EST_I32, EST_SHAPE(2), (const int32_t[]){ 2, 3 }, &f));
    ok(est_tensor_f32(EST_SHAPE(64), (const float[64]){ 1, 2 }, &x));
    for (int passes = 0; passes < 2; passes++) {
        ok(est_session_create(g, EST_SESSION(.no_passes = passes == 0), &s));
        ok(est_session_run(s, EST_FEEDS({ fed, f }, { in, x }), EST_NODES(made, big), (est_nodes){ 0 }, out));
        assert_memory_equal(est_tensor_data(out[0]), ((int32_t[]){ 3, 4 }), 8);
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
        est_session_free(s);
    }
    est_tensor_free(f);
    est_tensor_free(x);
    est_graph_free(g);
}

TEST(a_fetched_reshape_outlives_the_feed)
{
    est_graph   *g    = NULL;
    est_session *s    = NULL;
    est_tensor  *x    = NULL;
    est_step    *step = NULL;

    ok(est_graph_create(1, &g));
    est_node in   = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1));
    est_node flat = est_reshape(in, EST_I64S(2, -1));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_prepare(s, EST_NODES(in), EST_NODES(flat), (est_nodes){ 0 }, &step));
    ok(est_tensor_f32(EST_SHAPE(4), (const float[]){ 1, 2, 3, 4 }, &x));
    ok(est_step_run(step, (const est_tensor *[]){ x }));
    est_tensor_free(x);
    assert_memory_equal(est_step_data(step, 0), ((float[]){ 1, 2, 3, 4 }), 16);
    est_step_free(step);
    est_session_free(s);
    est_graph_free(g);
}

/* Two that prepare the same nodes, and runs of the session, have one step: who frees it takes it from none of them. */
TEST(a_step_is_freed_by_the_last_that_prepared_it)
{
    est_graph   *g       = NULL;
    est_session *s       = NULL;
    est_step    *step[2] = { NULL };
    est_tensor  *t       = NULL;

    ok(est_graph_create(1, &g));
    est_node five = est_add(est_scalar(g, EST_F32, 2), est_scalar(g, EST_F32, 3));
    ok(est_session_create(g, NULL, &s));
    for (int i = 0; i < 2; i++) ok(est_session_prepare(s, EST_NO_NODES, EST_NODES(five), EST_NO_NODES, &step[i]));
    est_step_free(step[0]);
    ok(est_step_run(step[1], NULL));
    assert_true(est_step_scalar(step[1], 0) == 5);
    ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(five), EST_NO_NODES, &t));
    est_step_free(step[1]);
    est_tensor_free(t);
    ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(five), EST_NO_NODES, &t));
    assert_true(*(const float *)est_tensor_data(t) == 5);
    est_tensor_free(t);
    est_session_free(s);
    est_graph_free(g);
}

TEST(edges_added_after_a_run_are_seen)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *t = NULL;

    ok(est_graph_create(1, &g));
    est_node v = est_variable(g, "v", EST_F32, EST_SHAPE_SCALAR);
    est_variable_initializer(v, est_scalar(g, EST_F32, 1));
    est_node update = est_assign_add(v, est_scalar(g, EST_F32, 1));
    est_node q      = est_neg(est_scalar(g, EST_F32, 3));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_init(s));
    for (int i = 0; i < 2; i++) {
        ok(est_session_run(s, EST_NO_FEEDS, EST_NODES(q), (est_nodes){ 0 }, &t));
        est_tensor_free(t);
        if (i == 0) (void)est_after(q, update);
    }
    ok(est_session_read(s, "v", &t));
    assert_float_equal(*(const float *)est_tensor_data(t), 2, 0);
    est_tensor_free(t);
    est_session_free(s);
    est_graph_free(g);
}

TEST(misuse_is_refused_not_punished)
{
    est_graph   *g = NULL;
    est_session *s = NULL;
    est_tensor  *x = NULL, *t = NULL, *both[2];
    est_step    *step = NULL;

    assert_int_equal(est_session_create(NULL, NULL, &s), EST_INVALID_ARGUMENT);
    assert_int_equal(est_graph_status(NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_init(NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_read(NULL, "v", &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_run(NULL, EST_NO_FEEDS, EST_NO_NODES, EST_NO_NODES, NULL), EST_INVALID_ARGUMENT);
    ok(est_graph_create(1, &g));
    est_node in = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1));
    est_node y  = est_neg(in);
    ok(est_tensor_f32(EST_SHAPE(1), (const float[]){ 1 }, &x));
    ok(est_session_create(g, NULL, &s));
    assert_int_equal(est_session_run(s, EST_FEEDS({ in, x }), EST_NODES(y), (est_nodes){ 0 }, NULL),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_run(s, EST_FEEDS({ in, x }, { in, x }), EST_NODES(y), (est_nodes){ 0 }, &t),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "fed twice"));
    assert_int_equal(est_session_run(s, EST_NO_FEEDS, EST_NODES(((est_node){ g, 99, 0 })), (est_nodes){ 0 }, &t),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_read(s, NULL, &t), EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_write(s, "v", NULL), EST_INVALID_ARGUMENT);
    ok(est_session_prepare(s, EST_NODES(in), EST_NODES(y), (est_nodes){ 0 }, &step));
    assert_int_equal(est_step_run(step, NULL), EST_INVALID_ARGUMENT);
    assert_float_equal(est_step_scalar(step, 0), 0, 0);
    ok(est_session_run(s, EST_FEEDS({ in, x }), EST_NODES(in, in), EST_NODES(in), both));
    est_tensor_free(both[0]);
    est_tensor_free(both[1]);
    est_tensor_free(x);
    est_session_free(s);
    est_graph_free(g);
}

/* More independent small items than a stage has lanes. */
TEST(hundreds_of_features_share_the_threads)
{
    enum { N = 600 };
    static est_node parts[N];
    est_graph      *g = NULL;
    est_session    *s = NULL;
    est_tensor     *x = NULL, *t = NULL;

    ok(est_graph_create(1, &g));
    est_node in = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1));
    for (int i = 0; i < N; i++) parts[i] = est_square(est_shift(in, i));
    est_node sum = est_add_n((est_nodes){ parts, N });
    ok(est_tensor_f32(EST_SHAPE(100), (const float[100]){ 0 }, &x));
    ok(est_session_create(g, EST_SESSION(.threads = 3), &s));
    ok(est_session_run(s, EST_FEEDS({ in, x }), EST_NODES(sum), (est_nodes){ 0 }, &t));
    for (int i = 0; i < 100; i++) {
        double want = N * (N - 1.0) * (2 * N - 1) / 6; /* 7e7: float32 has 24 bits, and the sum has N terms */
        assert_true(fabs((double)((const float *)est_tensor_data(t))[i] - want) <= want * N * 6e-8);
    }
    est_tensor_free(t);
    est_tensor_free(x);
    est_session_free(s);
    est_graph_free(g);
}

TEST(timeline_and_report_show_every_kernel)
{
    tiny         m    = build_tiny(3);
    est_session *s    = NULL;
    est_step    *step = NULL;
    est_tensor  *feeds[3];
    char         path[] = "/tmp/estoc-timeline-XXXXXX";
    char        *text = NULL, *report = NULL;
    est_json    *json = NULL;
    size_t       size = 0;
    FILE        *f;

    EST_CPU_ONLY();
    fill_tiny(8, 1, feeds);
    ok(est_session_create(m.g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(m.image, m.id, m.label), EST_NODES(m.loss), EST_NODES(m.train), &step));
    assert_int_equal(est_step_write_timeline(step, path, NULL), EST_FAILED_PRECONDITION);
    ok(est_step_trace(step, 2));
    for (int i = 0; i < 3; i++) ok(est_step_run(step, (const est_tensor *const *)feeds));
    assert_true(mkstemp(path) >= 0);
    locale_comma(); /* JSON has a point all the same */
    ok(est_step_write_timeline(step, path, NULL));
    locale_point();
    f = fopen(path, "r");
    assert_non_null(f);
    text = calloc(1, 1 << 20);
    size = fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    (void)remove(path);
    assert_true(size > 100);
    ok(est_json_parse(text, size, path, &json));
    est_json_free(json);
    assert_non_null(strstr(text, "\"traceEvents\""));
    assert_non_null(strstr(text, "EstConvPool\""));
    assert_non_null(strstr(text, "ResourceSparseApplyAdagrad"));
    f = open_memstream(&report, &size);
    est_step_report(step, f);
    (void)fclose(f);
    assert_non_null(strstr(report, "EstMatMulBias"));
    assert_non_null(strstr(report, "memory:"));
    free(text);
    free(report);
    free_feeds(feeds);
    est_session_free(s);
    est_graph_free(m.g);
}

/* Shapes that depend on values of the step follow them also when all shapes are those of the step before. */
TEST(values_decide_shapes)
{
    static const int64_t ids[][4] = { { 1, 2, 3, 3 }, { 1, 2, 5, 5 }, { 1, 2, 5, 5 }, { 7, 7, 7, 7 }, { 1, 2, 3, 3 } };
    static const int     distinct[] = { 3, 3, 3, 1, 3 };
    est_graph           *g;
    est_session         *s = NULL;
    est_step            *step;
    est_node             in, unique, most, range, doubled;

    ok(est_graph_create(1, &g));
    in      = est_placeholder(g, "ids", EST_I64, EST_SHAPE(-1));
    unique  = est_unique(in, NULL);
    most    = est_reduce_max(unique, EST_I64S(0), false);
    range   = est_range(est_scalar(g, EST_I64, 0), most, est_scalar(g, EST_I64, 1));
    doubled = est_mul(est_cast(unique, EST_F32), est_scalar(g, EST_F32, 2));
    ok(est_session_create(g, NULL, &s));
    ok(est_session_prepare(s, EST_NODES(in), EST_NODES(range, doubled), EST_NO_NODES, &step));
    for (int i = 0; i < 5; i++) {
        int64_t           largest = ids[i][2];
        est_tensor       *fed     = NULL;
        const est_tensor *feeds[1];

        ok(est_tensor_i64(EST_SHAPE(4), ids[i], &fed));
        feeds[0] = fed;
        ok(est_step_run(step, feeds));
        assert_true(est_shape_equal(est_step_shape(step, 0), &EST_SHAPE(largest)));
        assert_int_equal(((const int64_t *)est_step_data(step, 0))[largest - 1], largest - 1);
        assert_true(est_shape_equal(est_step_shape(step, 1), &EST_SHAPE(distinct[i])));
        assert_true(((const float *)est_step_data(step, 1))[distinct[i] - 1] == 2 * (float)largest);
        est_tensor_free(fed);
    }
    est_session_free(s);
    est_graph_free(g);
}
