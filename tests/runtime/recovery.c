/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that fail leave a session that works: the same mistake is found again, and the next good step is right. And
 * sizes that nobody knows before the step: memory and scratch are found while it runs. */
#include "base/alloc.h"
#include "estoc/estoc.h"
#include "ops/ops.h"
#include "support/nn_test.h"

static est_tensor *f32(est_shape shape, double first)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_create(EST_F32, shape, &t));
    for (int64_t i = 0; i < est_tensor_count(t); i++)
        ((float *)est_tensor_mutable_data(t))[i] = (float)(first + (double)i);
    return t;
}

static est_tensor *i64(int64_t value)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_i64(EST_SHAPE(1), &value, &t));
    return t;
}

/* --- mistakes ----------------------------------------------------------------------------------------------------- */

typedef struct pair {
    nn_test   t;
    est_step *step; /* relu(a) + b, both [?, 2] */
} pair;

static pair begin_pair(void)
{
    pair     p = { .t = nn_begin(1) };
    est_node a = est_placeholder(p.t.graph, "a", EST_F32, EST_SHAPE(-1, 2));
    est_node b = est_placeholder(p.t.graph, "b", EST_F32, EST_SHAPE(-1, 2));

    est_node sum = est_add(est_relu(a), b);
    nn_ready(&p.t);
    assert_ok(est_session_prepare(p.t.session, EST_NODES(a, b), EST_NODES(sum), (est_nodes){ 0 }, &p.step));
    return p;
}

static est_status run_pair(pair *p, const est_tensor *a, const est_tensor *b)
{
    return est_step_run(p->step, (const est_tensor *[]){ a, b });
}

static void check_pair(pair *p, const est_tensor *a, const est_tensor *b)
{
    assert_ok(run_pair(p, a, b));
    for (int64_t i = 0; i < est_tensor_count(a); i++) {
        assert_near(((const float *)est_step_data(p->step, 0))[i], nn_element(a, i) + nn_element(b, i), 1e-6);
    }
}

TEST(shapes_that_contradict_are_found_every_time)
{
    pair        p   = begin_pair();
    est_tensor *two = f32(EST_SHAPE(2, 2), 1), *five = f32(EST_SHAPE(5, 2), 3);

    for (int round = 0; round < 2; round++) { /* before any plan was laid out, and after */
        for (int i = 0; i < 3; i++) assert_int_equal(run_pair(&p, two, five), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), "[2,2]"));
        assert_non_null(strstr(est_error_message(), "[5,2]"));
        check_pair(&p, five, five);
        check_pair(&p, two, two);
    }
    est_tensor_free(two);
    est_tensor_free(five);
    nn_end(&p.t);
}

/* The first feed is new and fine, the second is refused: the next step must not take the first for known. */
TEST(a_refused_feed_hides_nothing)
{
    pair        p   = begin_pair();
    est_tensor *two = f32(EST_SHAPE(2, 2), 1), *five = f32(EST_SHAPE(5, 2), 3), *wide = f32(EST_SHAPE(5, 3), 3);

    check_pair(&p, two, two);
    assert_int_equal(run_pair(&p, five, wide), EST_INVALID_ARGUMENT);
    assert_int_equal(run_pair(&p, five, NULL), EST_INVALID_ARGUMENT);
    check_pair(&p, five, five);
    assert_int_equal(run_pair(&p, two, wide), EST_INVALID_ARGUMENT);
    check_pair(&p, two, two);
    est_tensor_free(two);
    est_tensor_free(five);
    est_tensor_free(wide);
    nn_end(&p.t);
}

TEST(a_kernel_that_fails_leaves_a_usable_step)
{
    nn_test     t     = nn_begin(1);
    est_node    table = est_variable(t.graph, "table", EST_F32, EST_SHAPE(4, 1));
    est_node    at    = est_placeholder(t.graph, "at", EST_I64, EST_SHAPE(-1));
    est_tensor *good = i64(2), *bad = i64(9), *out = NULL;

    est_variable_initializer(table, nn_const(t.graph, EST_SHAPE(4, 1), NN_VALUES(1, 2, 3, 4)));
    est_node row = est_named(est_resource_gather(table, at), "row");
    nn_ready(&t);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(est_session_run(t.session, EST_FEEDS({ at, bad }), EST_NODES(row), (est_nodes){ 0 }, &out),
                             EST_OK);
        assert_non_null(strstr(est_error_message(), "'row'"));
        assert_non_null(strstr(est_error_message(), "9"));
        assert_ok(est_session_run(t.session, EST_FEEDS({ at, good }), EST_NODES(row), (est_nodes){ 0 }, &out));
        assert_near(nn_element(out, 0), 3, 0);
        est_tensor_free(out);
    }
    est_tensor_free(good);
    est_tensor_free(bad);
    nn_end(&t);
}

TEST(wrong_fetches_are_named)
{
    nn_test     t = nn_begin(1), other = nn_begin(1);
    est_node    v = est_variable(t.graph, "v", EST_F32, EST_SHAPE(1)), stranger = est_scalar(other.graph, EST_F32, 1);
    est_node    write = est_assign(v, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)));
    est_tensor *out   = NULL;

    assert_ok(est_session_create(t.graph, NULL, &t.session));
    assert_int_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(stranger), (est_nodes){ 0 }, &out),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(EST_NO_NODE), (est_nodes){ 0 }, &out),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(v), (est_nodes){ 0 }, &out),
                     EST_INVALID_ARGUMENT);
    assert_int_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(write), (est_nodes){ 0 }, &out),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "target"));
    nn_run(&t, write);
    nn_end(&t);
    nn_end(&other);
}

/* What a variable has before is asked, not read: asking must not hide that somebody else reads. */
TEST(asking_whether_a_variable_has_a_value_is_not_filling_it)
{
    nn_test     t    = nn_begin(1);
    est_node    v    = est_variable(t.graph, "v", EST_F32, EST_SHAPE(2));
    est_node    has  = est_variable_is_initialized(v);
    est_node    read = est_neg(est_read_variable(v));
    est_tensor *out[2], *two = f32(EST_SHAPE(2), 5);

    assert_ok(est_session_create(t.graph, NULL, &t.session));
    assert_int_equal(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(has, read), (est_nodes){ 0 }, out),
                     EST_FAILED_PRECONDITION);
    assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(has), (est_nodes){ 0 }, out));
    assert_near(nn_element(out[0], 0), 0, 0);
    est_tensor_free(out[0]);
    assert_ok(est_session_write(t.session, "v", two));
    assert_ok(est_session_run(t.session, EST_NO_FEEDS, EST_NODES(has, read), (est_nodes){ 0 }, out));
    assert_near(nn_element(out[0], 0), 1, 0);
    assert_near(nn_element(out[1], 1), -6, 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_tensor_free(two);
    nn_end(&t);
}

/* --- sizes that only the step knows ------------------------------------------------------------------------------- */

/* Scratch of operations that cut up their work grows with what they get: from nothing to a lot, and back. */
TEST(late_sizes_get_the_scratch_they_need)
{
    nn_test              t     = nn_begin(1);
    est_node             n     = est_placeholder(t.graph, "n", EST_I64, EST_SHAPE(1));
    est_node             three = est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ 3 });
    est_node             tall  = est_fill(est_concat(EST_NODES(n, three), 0), est_scalar(t.graph, EST_F32, 2));
    est_node             count = est_range(est_scalar(t.graph, EST_I64, 0), est_reshape(n, (est_i64s){ 0 }),
                                           est_scalar(t.graph, EST_I64, 1));
    est_node             fetches[6], square = est_matmul_t(tall, tall, true, false);
    static const int64_t sizes[] = { 1, 100000, 7, 300000, 2 };

    fetches[0] = est_sum(tall);
    fetches[1] = est_reduce_sum(tall, EST_I64S(0), false);
    fetches[2] = square;
    fetches[3] = est_l2_loss(est_check_numerics(tall, "fine"));
    fetches[4] = est_size(est_unique(count, NULL));
    fetches[5] = est_reduce_max(est_log_softmax(tall, -1), EST_I64S(0), false);
    nn_ready(&t);
    for (int k = 0; k < 5; k++) {
        est_tensor *in = i64(sizes[k]), *out[6];
        assert_ok(est_session_run(t.session, EST_FEEDS({ n, in }), (est_nodes){ fetches, 6 }, (est_nodes){ 0 }, out));
        assert_near(nn_element(out[0], 0), 6.0 * (double)sizes[k], 1e-6);
        for (int i = 0; i < 3; i++) assert_near(nn_element(out[1], i), 2.0 * (double)sizes[k], 1e-6);
        for (int i = 0; i < 9; i++) assert_near(nn_element(out[2], i), 4.0 * (double)sizes[k], 1e-6);
        assert_near(nn_element(out[3], 0), 6.0 * (double)sizes[k], 1e-6);
        assert_near(nn_element(out[4], 0), (double)sizes[k], 0);
        assert_near(nn_element(out[5], 0), -log(3), 1e-5);
        for (int i = 0; i < 6; i++) est_tensor_free(out[i]);
        est_tensor_free(in);
    }
    nn_end(&t);
}

/* Only the shape is asked for, but the shape depends on numbers that must be computed. */
TEST(shapes_made_of_computed_numbers)
{
    nn_test  t    = nn_begin(1);
    est_node n    = est_placeholder(t.graph, "n", EST_I64, EST_SHAPE(1));
    est_node more = est_add(est_mul(n, n), n); /* nobody fetches it */
    est_node big  = est_fill(more, est_scalar(t.graph, EST_F32, 1));
    est_node size = est_size(est_neg(big));

    nn_ready(&t);
    for (int64_t k = 1; k < 5; k++) {
        est_tensor *in = i64(k), *out = NULL;
        assert_ok(est_session_run(t.session, EST_FEEDS({ n, in }), EST_NODES(size), (est_nodes){ 0 }, &out));
        assert_near(nn_element(out, 0), (double)(k * k + k), 0);
        est_tensor_free(in);
        est_tensor_free(out);
    }
    nn_end(&t);
}

TEST(empty_batches_work)
{
    pair        p    = begin_pair();
    est_tensor *none = f32(EST_SHAPE(0, 2), 1), *two = f32(EST_SHAPE(2, 2), 1);

    check_pair(&p, none, none);
    assert_int_equal(est_step_shape(p.step, 0)->dim[0], 0);
    check_pair(&p, two, two);
    check_pair(&p, none, none);
    est_tensor_free(none);
    est_tensor_free(two);
    nn_end(&p.t);
}

/* A feed may stand for any node, not only a placeholder, and a fetch may be a feed. */
TEST(any_node_may_be_fed_and_feeds_fetched)
{
    nn_test     t = nn_begin(1);
    est_node    x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2)), y = est_neg(x), z = est_scale(y, 10);
    est_tensor *in = f32(EST_SHAPE(2), 1), *out[2];

    nn_ready(&t);
    assert_ok(est_session_run(t.session, EST_FEEDS({ y, in }), EST_NODES(z, y), (est_nodes){ 0 }, out));
    assert_near(nn_element(out[0], 1), 20, 0);
    assert_near(nn_element(out[1], 1), 2, 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    assert_ok(
        est_session_run(t.session, EST_FEEDS({ x, in }), EST_NODES(z, z), (est_nodes){ 0 }, out)); /* twice the same */
    assert_near(nn_element(out[0], 1), -20, 0);
    assert_near(nn_element(out[1], 1), -20, 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
    est_tensor_free(in);
    nn_end(&t);
}

/* Groups of groups: as many paths as rabbits, but not as much work. */
TEST(nested_groups_are_planned_at_once)
{
    nn_test  t   = nn_begin(1);
    est_node v   = est_variable(t.graph, "v", EST_F32, EST_SHAPE(1)), a, b;
    double   got = 0;

    est_variable_initializer(v, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(0)));
    a = b = est_assign_add(v, nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1)));
    for (int i = 0; i < 200; i++) {
        est_node both = est_group(t.graph, EST_NODES(a, b));
        a             = b;
        b             = both;
    }
    est_node after = est_neg(est_after(est_read_variable(v), b));
    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, after, &got, 1), 1);
    assert_true(got == -1);
    nn_end(&t);
}
