/* SPDX-License-Identifier: Apache-2.0
 *
 * "EstRowVariable", "EstFindRows", "EstFillRowTable", and "EstPullRows" and "EstAdmitRows" of tables that are
 * elsewhere: which steps give rows to keys, and that the operations they are lowered to find the same rows. What
 * becomes of keys is tested in tests/kernels/row_table.c. */
#include <math.h>
#include <string.h>

#include "graph/lower.h"
#include "ops/ops.h"
#include "support/graph_test.h"
#include "support/test.h"

static const est_row_policy policy = { .draw = { .a = 1 }, .admit_after = 1 };

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* Runs with keys fed and must find these rows. */
static void expect_rows(est_session *session, est_node keys, est_node rows, est_nodes targets, const int64_t given[4],
                        const int64_t want[4])
{
    est_tensor *batch = NULL, *out = NULL;

    ok(est_tensor_i64(EST_SHAPE(4), given, &batch));
    ok(est_session_run(session, EST_FEEDS({ keys, batch }), EST_NODES(rows), targets, &out));
    for (int i = 0; i < 4; i++) assert_int_equal(((const int64_t *)est_tensor_data(out))[i], want[i]);
    est_tensor_free(batch);
    est_tensor_free(out);
}

TEST(only_a_step_that_trains_admits)
{
    const int64_t given[4] = { 70, -3, 70, INT64_MAX }, none[4] = { -1, -1, -1, -1 }, rows[4] = { 0, 1, 0, 2 };
    est_graph    *graph   = NULL;
    est_session  *session = NULL;
    est_node      variable, keys, found, again, update;

    ok(est_graph_create(1, &graph));
    variable = est_row_variable(graph, "w", EST_SHAPE(5, 2), &policy);
    keys     = est_placeholder(graph, "keys", EST_I64, EST_SHAPE(-1));
    found    = est_find_rows(variable, keys);
    again    = est_find_rows(variable, keys);
    update   = est_scatter_add(variable, found, est_const_f32(graph, EST_SHAPE(4, 2), (const float[8]){ 1 }));
    ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    ok(est_session_init(session));                                    /* has nothing to do: the variable has values */
    expect_rows(session, keys, found, EST_NODES(again), given, none); /* finding twice is no training */
    expect_rows(session, keys, found, EST_NODES(update), given, rows);
    expect_rows(session, keys, again, EST_NO_NODES, (const int64_t[4]){ 1, -3, 70, 0 },
                (const int64_t[4]){ -1, 1, 0, -1 });
    est_session_free(session);

    (void)est_read_variable(variable);
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "looked up, not read"));
    est_graph_free(graph);
}

static int read_all(est_session *session, est_tensor *out[16])
{
    int n = est_session_variables(session);

    assert_true(n <= 16);
    for (int i = 0; i < n; i++) ok(est_session_read(session, est_session_variable(session, i), &out[i]));
    return n;
}

/* A step with an infinite number fails, in front of the update of rows or behind it. */
typedef struct failing {
    est_graph   *graph;
    est_session *session;
    est_node     keys, number, found, update;
} failing;

static failing open_failing(int64_t max_age, bool behind)
{
    est_row_policy ages = { .draw = { .a = 1 }, .admit_after = 1, .max_age = max_age };
    est_node       variable, sum;
    failing        f;

    ok(est_graph_create(1, &f.graph));
    variable = est_row_variable(f.graph, "w", EST_SHAPE(3, 1), &ages);
    f.keys   = est_placeholder(f.graph, "keys", EST_I64, EST_SHAPE(4));
    f.number = est_placeholder(f.graph, "x", EST_F32, EST_SHAPE(4, 1));
    f.found  = est_find_rows(variable, f.keys);
    sum      = est_add(f.number, est_reshape(est_cast(f.found, EST_F32), EST_I64S(4, 1)));
    f.update = est_scatter_add(variable, f.found, behind ? sum : est_check_numerics(sum, "x"));
    if (behind) f.update = est_after(est_check_numerics(sum, "x"), f.update);
    ok(est_session_create(f.graph, EST_SESSION(.threads = 1), &f.session));
    ok(est_session_init(f.session));
    return f;
}

static est_status step(const failing *f, const int64_t given[4], float second)
{
    est_tensor *keys, *x;
    est_status  status;

    ok(est_tensor_i64(EST_SHAPE(4), given, &keys));
    ok(est_tensor_f32(EST_SHAPE(4, 1), (const float[4]){ 1, second, 3, 4 }, &x));
    status = est_session_run(f->session, EST_FEEDS({ f->keys, keys }, { f->number, x }), EST_NO_NODES,
                             EST_NODES(f->update), NULL);
    est_tensor_free(keys);
    est_tensor_free(x);
    return status;
}

static void expect_same(est_tensor *before[16], est_tensor *after[16], int n)
{
    for (int i = 0; i < n; i++) {
        assert_int_equal(est_tensor_bytes(before[i]), est_tensor_bytes(after[i]));
        assert_memory_equal(est_tensor_data(before[i]), est_tensor_data(after[i]), est_tensor_bytes(before[i]));
        est_tensor_free(before[i]);
        est_tensor_free(after[i]);
    }
}

/* A step that fails after its keys were found leaves no trace of them, and gives back the rows that they took from
 * others, be it from keys that made room or from keys that left for their age, also after its update has written
 * them. */
TEST(a_step_that_fails_admits_nothing)
{
    static const int64_t first[4] = { 1, 2, 3, 3 }, second[4] = { 2, 2, 2, 2 }, third[4] = { 7, 8, 7, 8 };
    static const int64_t sought[4] = { 1, 7, 8, 2 };

    for (int kind = 0; kind < 4; kind++) {
        bool           aging = kind % 2 == 1;
        failing        f     = open_failing(aging ? 1 : 0, kind >= 2);
        const int64_t *rows  = aging ? (const int64_t[4]){ -1, 1, 2, 0 } : (const int64_t[4]){ -1, 0, 2, 1 };
        est_tensor    *before[16], *after[16];
        int            n;

        ok(step(&f, first, 2));
        ok(step(&f, second, 2));
        n = read_all(f.session, before);
        assert_int_equal(step(&f, third, INFINITY), EST_INVALID_ARGUMENT);
        assert_int_equal(read_all(f.session, after), n);
        expect_same(before, after, n);
        ok(step(&f, third, 2));
        expect_rows(f.session, f.keys, f.found, EST_NO_NODES, sought, rows);
        est_session_free(f.session);
        est_graph_free(f.graph);
    }
}

TEST(other_variables_have_no_rows)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_tensor  *out     = NULL;
    est_node     variable, rows;

    ok(est_graph_create(1, &graph));
    variable = est_variable(graph, "v", EST_F32, EST_SHAPE(2, 2));
    est_variable_initializer(variable, est_const_f32(graph, EST_SHAPE(2, 2), (const float[4]){ 0 }));
    rows = est_find_rows(variable, est_const_i64(graph, EST_SHAPE(1), (const int64_t[]){ 1 }));
    ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    ok(est_session_init(session));
    assert_int_equal(est_session_run(session, EST_NO_FEEDS, EST_NODES(rows), EST_NO_NODES, &out), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "has no rows for keys"));
    est_session_free(session);
    est_graph_free(graph);
}

TEST(lowered)
{
    const int64_t given[4] = { 9, 8, 7, -1 };
    est_graph    *graph = NULL, *lowered = NULL;
    est_session  *session = NULL;
    est_tensor   *stored  = NULL;
    est_node      variable, nodes[3];

    ok(est_graph_create(1, &graph));
    variable = est_row_variable(graph, "w", EST_SHAPE(3, 2), &policy);
    nodes[0] = est_placeholder(graph, "keys", EST_I64, EST_SHAPE(-1));
    nodes[1] = est_find_rows(variable, nodes[0]);
    nodes[2] = est_graph_collection(graph, "table_initializer").data[0];
    ok(est_graph_lower(graph, nodes, 3, &lowered));
    est_graph_free(graph);
    ok(est_session_create(lowered, EST_SESSION(.threads = 1), &session));
    ok(est_tensor_i64(EST_SHAPE(3), (const int64_t[]){ 7, -1, 9 }, &stored));
    ok(est_session_write(session, "w/keys", stored));
    expect_rows(session, nodes[0], nodes[1], EST_NO_NODES, given, (const int64_t[4]){ 2, -1, 0, 1 });
    est_tensor_free(stored);
    est_session_free(session);
    est_graph_free(lowered);
}

static void expect_i64(const est_tensor *tensor, const int64_t *want, int64_t n)
{
    assert_int_equal(est_tensor_count(tensor), n);
    assert_memory_equal(est_tensor_data(tensor), want, (size_t)n * sizeof *want);
}

/* A lookup for another task shows the rows that a training step would give its keys, and gives none. The push of that
 * step does, and drops the gradient of a key that has no row by then. */
TEST(rows_for_another_task)
{
    const int64_t given[4] = { 70, -3, 70, 9 }, distinct[3] = { 70, -3, 9 }, none[4] = { -1, -1, -1, -1 };
    const int64_t rows[4] = { 0, 1, 0, 2 }, pushed[3] = { 9, 5, 70 };
    const float   grads[6] = { 1, 2, 3, 4, 5, 6 }, kept[4] = { 1, 2, 5, 6 };
    est_graph    *graph   = NULL;
    est_session  *session = NULL;
    est_tensor   *keys = NULL, *ids = NULL, *out[2] = { NULL };
    est_node      variable, key, id, pull, admit, found;

    ok(est_graph_create(1, &graph));
    variable = est_row_variable(graph, "w", EST_SHAPE(5, 2), &policy);
    key      = est_placeholder(graph, "keys", EST_I64, EST_SHAPE(-1));
    id       = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
    found    = est_find_rows(variable, key);
    pull  = est_build(graph, &est_op_pull_rows, EST_NODES(variable, key, id), EST_ATTRS(est_attr_bool("trains", true)));
    admit = est_build(graph, &est_op_admit_rows,
                      EST_NODES(variable, key, id, est_const_f32(graph, EST_SHAPE(3, 2), grads)), EST_NO_ATTRS);
    ok(est_graph_status(graph));
    ok(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    ok(est_session_init(session));
    ok(est_tensor_i64(EST_SHAPE(4), given, &keys));
    for (int i = 0; i < 2; i++) { /* the second time as the first: nothing was given */
        ok(est_tensor_i64(EST_SHAPE(3), distinct, &ids));
        ok(est_session_run(session, EST_FEEDS({ key, keys }, { id, ids }), EST_NODES(pull, est_output(pull, 1)),
                           EST_NO_NODES, out));
        assert_int_equal(est_tensor_count(out[0]), 6);
        for (int k = 0; k < 6; k++) assert_true(((const float *)est_tensor_data(out[0]))[k] == 1);
        expect_i64(out[1], rows, 4);
        est_tensor_free(out[0]);
        est_tensor_free(out[1]);
        est_tensor_free(ids);
        expect_rows(session, key, found, EST_NO_NODES, given, none);
    }
    ok(est_tensor_i64(EST_SHAPE(3), pushed, &ids));
    ok(est_session_run(session, EST_FEEDS({ key, keys }, { id, ids }), EST_NODES(admit, est_output(admit, 1)),
                       EST_NO_NODES, out));
    expect_i64(out[0], (const int64_t[]){ 2, 0 }, 2);
    assert_int_equal(est_tensor_count(out[1]), 4);
    assert_memory_equal(est_tensor_data(out[1]), kept, sizeof kept);
    expect_rows(session, key, found, EST_NO_NODES, given, rows);
    est_tensor_free(out[0]);
    est_tensor_free(out[1]);
    est_tensor_free(ids);
    est_tensor_free(keys);
    est_session_free(session);
    est_graph_free(graph);
}
