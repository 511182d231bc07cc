/* SPDX-License-Identifier: Apache-2.0
 *
 * Differentiation of graphs: how contributions meet, what is left unset, and gradients of gradients. That each op's own
 * gradient is right is proven by tests/ops against differences. */
#include "graph/graph.h"

#include "support/nn_test.h"

static est_gradient gradient(est_node y, est_node wrt)
{
    est_gradient g;

    est_gradients(y, (est_nodes){ &wrt, 1 }, &g);
    return g;
}

/* The dense form of a gradient towards a variable of `rows` rows. */
static est_node dense(est_gradient g, int64_t rows)
{
    if (g.indices.graph == NULL) return g.values;
    return est_unsorted_segment_sum(g.values, g.indices, est_scalar(g.values.graph, EST_I32, (double)rows));
}

static void expect(nn_test *t, est_node node, int64_t n, const double *want)
{
    double got[64];

    assert_true(n <= 64);
    assert_ok(est_graph_status(t->graph));
    if (t->session == NULL) nn_ready(t);
    assert_int_equal(nn_fetch(t, node, got, 64), n);
    for (int64_t i = 0; i < n; i++) assert_near(got[i], want[i], 1e-5);
}

#define EXPECT(t, node, ...)                                                                                           \
    expect(t, node, (int64_t)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), (const double[]){ __VA_ARGS__ })

/* --- accumulation ------------------------------------------------------------------------------------------------- */

TEST(every_use_adds_its_part)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, -3));
    est_node y = est_sum(est_add(est_mul(x, x), est_add(est_scale(x, 3), x))); /* x^2 + 3x + x */

    EXPECT(&t, gradient(y, x).values, 6, 8, -2);
    nn_end(&t);
}

TEST(a_hundred_uses_are_one_sum)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), y = x;

    for (int i = 0; i < 100; i++) y = est_add(y, est_scale(x, i));
    est_gradient g = gradient(est_sum(y), x);
    assert_int_equal(est_def(g.values)->n_in, 101); /* AddN of all, not a chain */
    EXPECT(&t, g.values, 4951, 4951);
    nn_end(&t);
}

TEST(what_is_not_a_scalar_counts_by_its_sum)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2, 1), NN_VALUES(1, 2));
    est_node b = nn_const(t.graph, EST_SHAPE(1, 3), NN_VALUES(1, 2, 3));

    EXPECT(&t, gradient(est_mul(x, b), x).values, 6, 6);
    nn_end(&t);
    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(5, 6));
    EXPECT(&t, gradient(x, x).values, 1, 1); /* of itself */
    nn_end(&t);
}

/* --- rows of variables -------------------------------------------------------------------------------------------- */

typedef struct table {
    nn_test  t;
    est_node v; /* [4, 2] */
} table;

static table begin_table(void)
{
    table k = { .t = nn_begin(1) };

    k.v = est_variable(k.t.graph, "v", EST_F32, EST_SHAPE(4, 2));
    est_variable_initializer(k.v, nn_const(k.t.graph, EST_SHAPE(4, 2), NN_VALUES(1, 2, 3, 4, 5, 6, 7, 8)));
    return k;
}

static est_node rows(const table *k, int64_t n, const int64_t *ids)
{
    return est_resource_gather(k->v, est_const_i64(k->t.graph, EST_SHAPE(n), ids));
}

TEST(one_lookup_gives_rows)
{
    table        k = begin_table();
    est_gradient g = gradient(est_sum(est_square(rows(&k, 3, (int64_t[]){ 2, 0, 2 }))), k.v);

    assert_non_null(g.indices.graph);
    EXPECT(&k.t, dense(g, 4), 2, 4, 0, 0, 20, 24, 0, 0);
    EXPECT(&k.t, g.indices, 2, 0, 2);
    nn_end(&k.t);
}

TEST(two_lookups_are_concatenated)
{
    table        k = begin_table();
    est_node     a = rows(&k, 2, (int64_t[]){ 3, 1 });
    est_node     b = est_resource_gather(k.v, est_const_i32(k.t.graph, EST_SHAPE(2), (int32_t[]){ 1, 0 }));
    est_gradient g = gradient(est_add(est_sum(a), est_scale(est_sum(b), 10)), k.v);

    assert_non_null(g.indices.graph);
    assert_int_equal(est_node_dtype(g.indices), EST_I64); /* whatever the lookups used */
    EXPECT(&k.t, dense(g, 4), 10, 10, 11, 11, 0, 0, 1, 1);
    assert_int_equal(nn_fetch(&k.t, g.indices, (double[4]){ 0 }, 4), 4);
    nn_end(&k.t);
}

/* Also of a copy of what was read. */
TEST(rows_of_a_read_are_rows)
{
    table        k    = begin_table();
    est_node     read = est_read_variable(k.v), ids = est_const_i32(k.t.graph, EST_SHAPE(2), (int32_t[]){ 2, 2 });
    est_node     a = est_gather(read, ids, 0), b = est_gather(est_identity(read), ids, 0);
    est_gradient g = gradient(est_add(est_sum(a), est_scale(est_sum(b), 10)), k.v);

    assert_non_null(g.indices.graph);
    assert_int_equal(est_node_dtype(g.indices), EST_I32);
    EXPECT(&k.t, g.indices, 2, 2, 2, 2);
    EXPECT(&k.t, g.values, 1, 1, 1, 1, 10, 10, 10, 10);
    g = gradient(est_add(est_sum(a), est_sum(est_read_variable(k.v))), k.v);
    assert_null(g.indices.graph);
    EXPECT(&k.t, g.values, 1, 1, 1, 1, 3, 3, 1, 1);
    nn_end(&k.t);
}

TEST(a_lookup_and_a_read_are_made_dense)
{
    table        k = begin_table();
    est_node     a = rows(&k, 2, (int64_t[]){ 3, 3 });
    est_gradient g = gradient(est_add(est_sum(a), est_sum(est_scale(est_read_variable(k.v), 2))), k.v);

    assert_null(g.indices.graph);
    EXPECT(&k.t, g.values, 2, 2, 2, 2, 2, 2, 4, 4);
    nn_end(&k.t);
}

TEST(rows_are_made_dense_where_they_flow_on)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(3, 1), NN_VALUES(1, 2, 3));
    est_node y = est_gather(est_square(x), est_const_i64(t.graph, EST_SHAPE(2), (int64_t[]){ 2, 2 }), 0);

    EXPECT(&t, dense(gradient(est_sum(y), x), 3), 0, 0, 12);
    nn_end(&t);
}

TEST(several_reads_of_one_variable_meet)
{
    table        k = begin_table();
    est_node     a = est_read_variable(k.v), b = est_read_variable(k.v);
    est_gradient g = gradient(est_sum(est_mul(a, b)), k.v);

    assert_null(g.indices.graph);
    EXPECT(&k.t, g.values, 2, 4, 6, 8, 10, 12, 14, 16);
    nn_end(&k.t);
}

/* --- where nothing flows ------------------------------------------------------------------------------------------ */

TEST(no_path_leaves_the_gradient_unset)
{
    nn_test  t     = nn_begin(1);
    est_node x     = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)),
             other = nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1));
    est_node     wrt[5];
    est_gradient g[5];
    est_node     y     = est_sum(est_add(est_stop_gradient(est_mul(x, x)), x));
    est_node     late  = est_neg(x);
    est_node     whole = est_cast(est_cast(x, EST_I32), EST_F32);

    wrt[0] = x;
    wrt[1] = other;
    wrt[2] = late;
    est_gradients(y, (est_nodes){ wrt, 3 }, g);
    assert_null(g[1].values.graph);
    assert_null(g[2].values.graph);
    EXPECT(&t, g[0].values, 1, 1); /* only around the stop */
    nn_end(&t);

    t     = nn_begin(1);
    x     = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2));
    whole = est_cast(est_cast(x, EST_I32), EST_F32);
    assert_null(gradient(est_sum(whole), x).values.graph); /* integers have none */
    assert_null(gradient(est_sum(est_stop_gradient(x)), x).values.graph);
    assert_ok(est_graph_status(t.graph));
    nn_end(&t);
}

TEST(integers_and_strangers_are_refused)
{
    nn_test      t = nn_begin(1), other = nn_begin(1);
    est_node     n = est_scalar(t.graph, EST_I32, 1), y;
    est_gradient g;

    est_gradients(n, (est_nodes){ &n, 1 }, &g);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "int32"));
    nn_end(&t);

    t = nn_begin(1);
    n = est_scalar(other.graph, EST_F32, 1);
    y = est_scalar(t.graph, EST_F32, 1);
    est_gradients(y, (est_nodes){ &n, 1 }, &g);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    assert_ok(est_graph_status(other.graph));
    assert_null(g.values.graph);
    nn_end(&t);
    nn_end(&other);
}

/* --- gradients of gradients --------------------------------------------------------------------------------------- */

TEST(second_derivatives)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(0.5, 1, -2)), g;

    g = gradient(est_sum(est_mul(est_mul(x, x), x)), x).values; /* 3 x^2 */
    EXPECT(&t, gradient(est_sum(g), x).values, 3, 6, -12);
    nn_end(&t);

    t         = nn_begin(1);
    x         = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0.3, -0.7));
    g         = gradient(est_sum(est_sigmoid(x)), x).values;
    double s0 = 1 / (1 + exp(-0.3)), s1 = 1 / (1 + exp(0.7));
    EXPECT(&t, gradient(est_sum(g), x).values, s0 * (1 - s0) * (1 - 2 * s0), s1 * (1 - s1) * (1 - 2 * s1));
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(0.3, -0.7));
    g = gradient(est_sum(est_tanh(est_exp(x))), x).values;
    g = gradient(est_sum(g), x).values;
    double want[2], at[2] = { 0.3, -0.7 };
    for (int i = 0; i < 2; i++) {
        double e = exp(at[i]), h = tanh(e);
        want[i] = e * (1 - h * h) - 2 * h * (1 - h * h) * e * e;
    }
    EXPECT(&t, g, want[0], want[1]);
    nn_end(&t);

    t = nn_begin(1); /* |w|^2 of a product: d/dw sum((x w)^2) = 2 x' x w, and once more 2 x' x summed by columns */
    x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_node w = nn_const(t.graph, EST_SHAPE(2, 1), NN_VALUES(1, -1));
    g          = gradient(est_sum(est_square(est_matmul(x, w))), w).values;
    EXPECT(&t, gradient(est_sum(g), w).values, 2 * (10 + 14), 2 * (14 + 20));
    nn_end(&t);
}

/* --- several outputs, unknown sizes ------------------------------------------------------------------------------- */

TEST(parts_get_their_own_gradients)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4)), part[2];

    est_split(x, 2, 1, part);
    est_node y = est_sum(est_square(part[1])); /* the other one is not looked at */
    EXPECT(&t, gradient(y, x).values, 0, 4, 0, 8);
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_unpack(x, 2, 0, part);
    y = est_sum(est_mul(part[0], part[1]));
    EXPECT(&t, gradient(y, x).values, 3, 4, 1, 2);
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2, 2), NN_VALUES(1, 2, 3, 4));
    est_split(x, 2, 0, part);
    y = est_add(est_sum(est_square(part[0])), est_scale(est_sum(part[1]), 5));
    est_gradient g[2];
    est_gradients(y, (est_nodes){ part, 2 }, g); /* towards the parts themselves */
    EXPECT(&t, g[0].values, 2, 4);
    EXPECT(&t, g[1].values, 5, 5);
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(1, 4), NN_VALUES(1, 4, 3, 2));
    y = est_sum(est_square(est_top_k(x, 2, NULL)));
    EXPECT(&t, gradient(y, x).values, 0, 8, 6, 0);
    nn_end(&t);
}

TEST(unknown_batches_have_gradients)
{
    nn_test  t          = nn_begin(1);
    est_node x          = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 2));
    est_node w          = est_variable(t.graph, "w", EST_F32, EST_SHAPE(2, 3)),
             b          = est_variable(t.graph, "b", EST_F32, EST_SHAPE(3));
    est_node     wrt[3] = { w, b, x };
    est_gradient g[3];

    est_variable_initializer(w, nn_const(t.graph, EST_SHAPE(2, 3), NN_VALUES(1, 2, 3, 4, 5, 6)));
    est_variable_initializer(b, nn_const(t.graph, EST_SHAPE(3), NN_VALUES(0, 1, 2)));
    est_node y = est_sum(est_add(est_matmul(x, est_read_variable(w)), est_read_variable(b))); /* b is broadcast */
    est_gradients(y, (est_nodes){ wrt, 3 }, g);
    nn_ready(&t);
    for (int64_t n = 1; n <= 3; n++) {
        est_tensor *in     = NULL, *out[3];
        double      sum[2] = { 0, 0 };
        assert_ok(est_tensor_f32(EST_SHAPE(n, 2), (const float[]){ 1, 2, 3, 4, 5, 6 }, &in));
        assert_ok(est_session_run(t.session, EST_FEEDS({ x, in }), EST_NODES(g[0].values, g[1].values, g[2].values),
                                  (est_nodes){ 0 }, out));
        for (int64_t i = 0; i < 2 * n; i++) sum[i % 2] += (double)(i + 1);
        for (int64_t i = 0; i < 6; i++) assert_near(nn_element(out[0], i), sum[i / 3], 1e-6);
        for (int64_t i = 0; i < 3; i++) assert_near(nn_element(out[1], i), (double)n, 1e-6);
        assert_int_equal(est_tensor_shape(out[2])->dim[0], n);
        for (int64_t i = 0; i < 2 * n; i++) assert_near(nn_element(out[2], i), i % 2 == 0 ? 6 : 15, 1e-6);
        est_tensor_free(in);
        for (int i = 0; i < 3; i++) est_tensor_free(out[i]);
    }
    nn_end(&t);
}

/* Names differ, numbers do not: the same gradient asked for twice. */
TEST(asking_twice_gives_the_same)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), y = est_sum(est_exp(x));

    est_node a = gradient(y, x).values, b = gradient(y, x).values;
    assert_int_not_equal(a.id, b.id);
    EXPECT(&t, est_sub(a, b), 0, 0);
    nn_end(&t);
}

/* --- gradients of the program's own ------------------------------------------------------------------------------- */

/* dx[0] = dy[0] * 10, dx[1] = dy[1] * 100, whatever y was computed from. */
static est_status tens(est_nodes dy, est_gradient *dx, void *user)
{
    int *calls = user;

    (*calls)++;
    dx[0].values = est_scale(dy.data[0], 10);
    if (dy.n > 1) dx[1].values = est_scale(dy.data[1], 100);
    return EST_OK;
}

TEST(a_function_builds_gradients_in_place_of_those_of_operations)
{
    int      calls = 0;
    nn_test  t     = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), y = est_square(x), out;

    est_custom_gradient(EST_NODES(y), EST_NODES(x), tens, &calls, &out);
    est_node sum = est_sum(est_mul(out, x)); /* d = out + 10 x */
    EXPECT(&t, out, 1, 4);
    EXPECT(&t, gradient(sum, x).values, 11, 24);
    assert_int_equal(calls, 1);
    EXPECT(&t, gradient(sum, out).values, 1, 2);
    assert_int_equal(calls, 1);                 /* nothing of x was asked for */
    assert_null(gradient(sum, y).values.graph); /* what lies between x and the copy */
    nn_end(&t);
}

TEST(a_function_is_given_zeros_for_outputs_without_gradient)
{
    int      calls = 0;
    nn_test  t     = nn_begin(1);
    est_node x[2] = { nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), nn_const(t.graph, EST_SHAPE(1), NN_VALUES(3)) };
    est_node out[2];

    est_custom_gradient(EST_NODES(est_neg(x[0]), est_exp(x[1])), (est_nodes){ x, 2 }, tens, &calls, out);
    est_gradient g[2];
    est_gradients(est_sum(out[0]), (est_nodes){ x, 2 }, g); /* the walk begins between the two copies */
    EXPECT(&t, g[0].values, 10, 10);
    EXPECT(&t, g[1].values, 0);
    assert_int_equal(calls, 1);
    nn_end(&t);
}

/* The gradient is more graph: y = x^3 with dy/dx built as 3 x^2, whose own gradient is 6 x. */
static est_status cube(est_nodes dy, est_gradient *dx, void *user)
{
    const est_node *x = user;

    dx[0].values = est_mul(dy.data[0], est_scale(est_square(*x), 3));
    return EST_OK;
}

TEST(gradients_that_a_function_builds_have_gradients)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), out;

    est_custom_gradient(EST_NODES(est_mul(est_square(x), x)), EST_NODES(x), cube, &x, &out);
    est_node first = gradient(est_sum(out), x).values;
    EXPECT(&t, gradient(est_sum(first), x).values, 6, 12);
    nn_end(&t);
}

static est_status fails(est_nodes dy, est_gradient *dx, void *user)
{
    (void)dy;
    (void)dx;
    (void)user;
    return est_fail(EST_UNIMPLEMENTED, "no gradient today");
}

TEST(a_function_that_fails_poisons_the_graph)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2)), out;

    est_custom_gradient(EST_NODES(est_neg(x)), EST_NODES(x), fails, NULL, &out);
    (void)gradient(est_sum(out), x);
    assert_int_equal(est_graph_status(t.graph), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "no gradient today"));
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2));
    est_custom_gradient(EST_NODES(x), EST_NODES(x), NULL, NULL, &out);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2));
    est_custom_gradient(EST_NODES(x), EST_NODES(EST_NO_NODE), fails, NULL, &out);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
}

static est_status gives(est_nodes dy, est_gradient *dx, void *user)
{
    (void)dy;
    dx[1] = *(const est_gradient *)user;
    return EST_OK;
}

/* What `given` is refused with as the gradient of x[1]. */
static void refused(nn_test *t, est_node x1, est_gradient given, const char *text)
{
    est_node x[2] = { nn_const(t->graph, EST_SHAPE(2), NN_VALUES(1, 2)), x1 }, out;

    est_custom_gradient(EST_NODES(est_neg(x[0])), (est_nodes){ x, 2 }, gives, &given, &out);
    assert_null(gradient(est_sum(out), x1).values.graph);
    assert_int_equal(est_graph_status(t->graph), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\", expected \"%s\"", est_error_message(), text);
    nn_end(t);
}

TEST(what_a_function_gives_is_checked)
{
    nn_test  t = nn_begin(1), other = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3));

    refused(&t, x, (est_gradient){ .values = nn_const(other.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3)) },
            "the gradient for x[1] ('Const') is not a node of the graph");
    nn_end(&other);
    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3));
    refused(&t, x, (est_gradient){ .values = est_cast(x, EST_F64) }, "x[1] ('Const'), float32, is float64");
    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(3), NN_VALUES(1, 2, 3));
    refused(&t, x, (est_gradient){ .values = est_sum(x) }, "x[1] ('Const'), of shape [3], has the shape []");
    t = nn_begin(1);
    x = est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 2));
    refused(&t, x, (est_gradient){ .values = nn_const(t.graph, EST_SHAPE(2, 3), NN_VALUES(1, 2, 3, 4, 5, 6)) },
            "x[1] ('v'), of shape [3,2], has the shape [2,3]");
    t = nn_begin(1);
    x = est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 2));
    refused(&t, x, (est_gradient){ est_scalar(t.graph, EST_F32, 1), est_scalar(t.graph, EST_I64, 0) },
            "x[1] ('v'), of shape [3,2], has the shape []");
    t = nn_begin(1);
    x = est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 2));
    refused(&t, x,
            (est_gradient){ nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 2)),
                            nn_const(t.graph, EST_SHAPE(1), NN_VALUES(0)) },
            "the rows of the gradient for x[1] ('v') are numbered by float32");
}

/* Rows of a variable, and what is known only later. */
TEST(a_function_gives_rows_and_unknown_shapes)
{
    nn_test      t    = nn_begin(1);
    est_node     x[2] = { est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1)),
                          est_variable(t.graph, "v", EST_F32, EST_SHAPE(3, 2)) };
    est_gradient rows = { nn_const(t.graph, EST_SHAPE(1, 2), NN_VALUES(1, 2)),
                          est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ 2 }) };
    est_node     out;

    est_custom_gradient(EST_NODES(est_neg(x[0])), (est_nodes){ x, 2 }, gives, &rows, &out);
    assert_non_null(gradient(est_sum(out), x[1]).indices.graph);
    assert_ok(est_graph_status(t.graph));
    nn_end(&t);
}

/* --- several targets ---------------------------------------------------------------------------------------------- */

TEST(targets_have_gradients_of_their_own)
{
    nn_test      t = nn_begin(1);
    est_node     x = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 2));
    est_node     a = est_square(x), b = est_mul(a, x); /* x^2, x^3 */
    est_gradient g, h;

    est_gradients_from(EST_NODES(a, b), EST_NODES(nn_const(t.graph, EST_SHAPE(2), NN_VALUES(10, 1))),
                       (est_nodes){ &x, 1 }, &g);
    EXPECT(&t, g.values, 23, 16); /* 10 * 2 + 3, 1 * 4 + 12 */
    /* a gradient that is given is no constant: d(w 2x)/dw with w = x */
    est_gradients_from(EST_NODES(a), EST_NODES(x), (est_nodes){ &x, 1 }, &g);
    EXPECT(&t, g.values, 2, 8);
    est_gradients_from(EST_NODES(g.values), EST_NO_NODES, (est_nodes){ &x, 1 }, &h);
    EXPECT(&t, h.values, 4, 8);
    nn_end(&t);

    t = nn_begin(1);
    x = nn_const(t.graph, EST_SHAPE(1), NN_VALUES(3));
    est_gradients_from(EST_NODES(est_square(x), EST_NO_NODE), EST_NO_NODES, (est_nodes){ &x, 1 }, &g);
    assert_int_equal(est_graph_status(t.graph), EST_INVALID_ARGUMENT);
    nn_end(&t);
}
