/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans against plain evaluation, on random graphs.
 *
 * A seed makes a program of a few dozen operations: arithmetic, reshapes, products, concatenation and splitting, rows
 * picked by distinct ids, sizes that only the step knows, and variables that are read, written and read again. It is
 * built twice. The first graph has variables and runs as users run it: passes, threads, memory shared by many results,
 * batches that grow and shrink. The second has none: every version of a variable is a node of its own, and every single
 * result is fetched, so that nothing shares memory and there is nothing to order. Both must give the same numbers.
 *
 * Each plan is also inspected: see support/plan_check.h. */
#include "runtime/session.h"

#include <stdlib.h>

#include "base/random.h"
#include "estoc/ops.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/plan_check.h"
#include "support/sanitized.h"

#define VALUES_MAX 128
#define VARS       3
#define WRITES_MAX 5
#define UNIQUES    2
#define ID_ROWS    7 /* ids are in [0, ID_ROWS) */

/* Rows of a value: a number, or one of these. */
enum { BATCH = -1, LATE = -2, DISTINCT = -10 /* and below: one per Unique */ };

typedef struct value {
    est_node node;
    int      rows, cols;
    bool     rough; /* goes through what passes may round differently */
} value;

typedef struct variable {
    est_node handle;
    int      rows, cols, n_writes;
    est_node write[WRITES_MAX];       /* in the graph with variables */
    est_node version[WRITES_MAX + 1]; /* in the other; 0 is what is fed */
    bool     rough;
} variable;

typedef struct program {
    est_graph *g;
    bool       functional;
    bool       fusible; /* uses ops that passes fuse: equal up to rounding only */
    uint64_t   rng;
    value      v[VALUES_MAX];
    int        n;
    variable   var[VARS];
    est_node   x, ids, late; /* feeds: [batch, 3], int64 [batch], int64 [1] */
    est_node   distinct[UNIQUES], place[UNIQUES];
    int        n_distinct;
} program;

/* Every third program has batches large enough for lanes, and something to put into them. */
static bool is_wide(uint64_t seed)
{
    return seed % 3 == 0;
}

static uint64_t draw(uint64_t *rng)
{
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int pick(program *p, int n)
{
    return (int)(draw(&p->rng) % (uint64_t)n);
}

/* --- writing a program -------------------------------------------------------------------------------------------- */

static void add_value(program *p, est_node node, int rows, int cols, bool rough)
{
    if (p->n < VALUES_MAX) p->v[p->n++] = (value){ node, rows, cols, rough };
}

static value any_value(program *p)
{
    return p->v[pick(p, p->n)];
}

/* A value with these rows and (unless 0) columns, tried for a while; .node.graph NULL when none was met. */
static value value_like(program *p, int rows, int cols)
{
    for (int i = 0; i < 20; i++) {
        value v = any_value(p);
        if (v.rows == rows && (cols == 0 || v.cols == cols)) return v;
    }
    return (value){ 0 };
}

static est_node reading(program *p, variable *v, int version)
{
    est_node read;

    if (p->functional) return est_identity(v->version[version]);
    read = est_read_variable(v->handle);
    return version > 0 ? est_after(read, v->write[version - 1]) : read;
}

static void op_read(program *p)
{
    variable *v = &p->var[pick(p, VARS)];

    add_value(p, reading(p, v, pick(p, v->n_writes + 1)), v->rows, v->cols, v->rough);
}

/* Rows of a variable, without reading the whole. */
static void op_lookup(program *p)
{
    variable *v       = &p->var[0]; /* the one with ID_ROWS rows */
    int       version = pick(p, v->n_writes + 1), which = pick(p, p->n_distinct + 1);
    est_node  at = which == p->n_distinct ? p->ids : p->distinct[which], rows;

    if (p->functional) {
        rows = est_gather(v->version[version], at, 0);
    } else {
        rows = est_resource_gather(v->handle, at);
        if (version > 0) rows = est_after(rows, v->write[version - 1]);
    }
    add_value(p, rows, which == p->n_distinct ? BATCH : DISTINCT - which, v->cols, v->rough);
}

static void keep_write(program *p, variable *v, est_node write, est_node version, bool rough)
{
    v->write[v->n_writes]     = write;
    v->version[++v->n_writes] = version;
    v->rough                  = v->rough || rough;
    (void)p;
}

static void op_write(program *p)
{
    variable *v    = &p->var[pick(p, VARS)];
    value     x    = value_like(p, v->rows, v->cols);
    int       kind = pick(p, 3);
    est_node  now;

    if (x.node.graph == NULL || v->n_writes == WRITES_MAX) return;
    now = v->version[v->n_writes];
    if (p->functional) {
        now = kind == 0 ? est_identity(x.node) : kind == 1 ? est_add(now, x.node) : est_sub(now, x.node);
        keep_write(p, v, EST_NO_NODE, now, x.rough);
    } else {
        now = kind == 0   ? est_assign(v->handle, x.node)
              : kind == 1 ? est_assign_add(v->handle, x.node)
                          : est_assign_sub(v->handle, x.node);
        keep_write(p, v, now, EST_NO_NODE, x.rough);
    }
}

/* Adds to rows, or puts rows in place of others, even rows of the variable itself. */
static void op_scatter(program *p)
{
    variable *v     = &p->var[0];
    int       which = pick(p, UNIQUES);
    bool      whole = pick(p, 3) == 0;
    value     x     = whole ? value_like(p, ID_ROWS, v->cols) : value_like(p, DISTINCT - which, v->cols);
    est_node  now;

    if (x.node.graph == NULL || v->n_writes == WRITES_MAX || (!whole && which >= p->n_distinct)) return;
    if (whole) { /* all rows backwards */
        est_node at = est_const_i64(p->g, EST_SHAPE(ID_ROWS), (const int64_t[]){ 6, 5, 4, 3, 2, 1, 0 });
        now         = p->functional ? est_gather(x.node, at, 0) : est_scatter_update(v->handle, at, x.node);
    } else if (p->functional) {
        est_node rows = est_scalar(p->g, EST_I32, ID_ROWS);
        now           = est_add(v->version[v->n_writes], est_unsorted_segment_sum(x.node, p->distinct[which], rows));
    } else {
        now = est_scatter_add(v->handle, p->distinct[which], x.node);
    }
    keep_write(p, v, p->functional ? EST_NO_NODE : now, p->functional ? now : EST_NO_NODE, x.rough);
}

static void op_unary(program *p)
{
    static est_node (*const unary[])(est_node) = { est_neg,     est_tanh, est_relu,    est_abs,
                                                   est_sigmoid, est_sin,  est_softplus };
    value x                                    = any_value(p);

    add_value(p, unary[pick(p, 7)](x.node), x.rows, x.cols, x.rough);
}

/* The other operand is of the same shape, one row, one column, or (late) one element. */
static void op_binary(program *p)
{
    static est_node (*const binary[])(est_node, est_node) = { est_add,     est_sub,     est_mul,
                                                              est_maximum, est_minimum, est_squared_difference };
    value x = any_value(p), y = { 0 };
    int   how = pick(p, 4);

    if (how <= 1) y = value_like(p, x.rows, x.cols);
    if (how == 2) y = value_like(p, 1, x.cols);
    if (how == 3) y = value_like(p, x.rows, 1);
    if (y.node.graph == NULL) y = x;
    if (pick(p, 2) == 0) {
        add_value(p, est_tanh(binary[pick(p, 6)](x.node, y.node)), x.rows, x.cols, x.rough || y.rough);
    } else {
        add_value(p, est_tanh(binary[pick(p, 6)](y.node, x.node)), x.rows, x.cols, x.rough || y.rough);
    }
}

static void op_matmul(program *p)
{
    value    x = any_value(p), w = value_like(p, x.cols, 0), b;
    est_node y;
    bool     rough = x.rough || w.rough;

    if (w.node.graph == NULL || x.rows == LATE) return;
    y = est_matmul(x.node, w.node);
    b = value_like(p, 1, w.cols);
    if (p->fusible && b.node.graph != NULL) {
        rough = true;
        y     = est_bias_add(y, est_reshape(b.node, EST_I64S(-1)));
        if (pick(p, 2) == 0) y = est_relu(y);
    }
    add_value(p, est_scale(y, 0.5), x.rows, w.cols, rough);
}

static void op_reshape(program *p)
{
    value    x = any_value(p);
    est_node y = x.node;

    switch (pick(p, 4)) {
    case 0: y = est_reshape(est_reshape(y, EST_I64S(-1)), EST_I64S(-1, x.cols)); break;
    case 1: y = est_squeeze(est_expand_dims(y, 1), EST_I64S(1)); break;
    case 2: y = est_reshape_to(est_neg(y), est_shape_of(x.node)); break;
    default: y = est_identity(y); break;
    }
    add_value(p, y, x.rows, x.cols, x.rough);
}

static void op_concat(program *p)
{
    value    x = any_value(p), y = value_like(p, x.rows, 0);
    est_node part[2];

    if (y.node.graph == NULL || x.cols + y.cols > 12) return;
    if (x.rows > 0 && x.cols == y.cols && pick(p, 2) == 0 && 2 * x.rows < 30) {
        add_value(p, est_concat(EST_NODES(x.node, y.node), 0), 2 * x.rows, x.cols, x.rough || y.rough);
    } else if (pick(p, 2) == 0 || (x.cols + y.cols) % 2 != 0) {
        add_value(p, est_concat(EST_NODES(x.node, y.node), 1), x.rows, x.cols + y.cols, x.rough || y.rough);
    } else {
        est_split(est_concat(EST_NODES(x.node, y.node), 1), 2, 1, part);
        add_value(p, part[0], x.rows, (x.cols + y.cols) / 2, x.rough || y.rough);
        add_value(p, part[1], x.rows, (x.cols + y.cols) / 2, x.rough || y.rough);
    }
}

static void op_columns(program *p)
{
    value x    = any_value(p);
    int   from = pick(p, x.cols), n = 1 + pick(p, x.cols - from);

    add_value(p,
              est_strided_slice(x.node, EST_I64S(0, from), EST_I64S(0, from + n), EST_I64S(1, 1),
                                (est_strided_slice_options){ .begin_mask = 1, .end_mask = 1 }),
              x.rows, n, x.rough);
}

static void op_reduce(program *p)
{
    value x = any_value(p);

    switch (pick(p, 4)) {
    case 0: add_value(p, est_tanh(est_reduce_mean(x.node, EST_I64S(0), true)), 1, x.cols, x.rough); break;
    case 1: add_value(p, est_reduce_max(x.node, EST_I64S(1), true), x.rows, 1, x.rough); break;
    case 2: add_value(p, est_tanh(est_reshape(est_mean(x.node), EST_I64S(1, 1))), 1, 1, x.rough); break;
    default: add_value(p, est_softmax(x.node, -1), x.rows, x.cols, x.rough); break;
    }
}

static void op_select(program *p)
{
    value x = any_value(p), y = value_like(p, x.rows, x.cols);

    if (y.node.graph == NULL || (p->fusible && (x.rough || y.rough))) return; /* a comparison may tip */
    add_value(p, est_select(est_greater(x.node, y.node), est_neg(y.node), x.node), x.rows, x.cols, x.rough || y.rough);
}

static void op_rows(program *p)
{
    int      which = pick(p, UNIQUES);
    value    x;
    est_node rows = est_scalar(p->g, EST_I32, ID_ROWS);

    if (which >= p->n_distinct) {
        est_node from              = p->n_distinct == 0 ? p->ids : est_floor_div(p->ids, est_scalar(p->g, EST_I64, 2));
        p->distinct[p->n_distinct] = est_unique(from, &p->place[p->n_distinct]);
        p->n_distinct++;
        return;
    }
    switch (pick(p, 3)) {
    case 0:
        x = value_like(p, DISTINCT - which, 0);
        if (x.node.graph != NULL) add_value(p, est_gather(x.node, p->place[which], 0), BATCH, x.cols, x.rough);
        break;
    case 1:
        x = value_like(p, BATCH, 0);
        if (x.node.graph == NULL) break;
        add_value(p, est_tanh(est_unsorted_segment_sum(x.node, p->ids, rows)), ID_ROWS, x.cols, x.rough);
        break;
    default:
        x = value_like(p, ID_ROWS, 0);
        if (x.node.graph != NULL)
            add_value(p, est_gather(x.node, p->distinct[which], 0), DISTINCT - which, x.cols, x.rough);
        break;
    }
}

/* As many rows as a number that is fed says: known to nobody before the step. */
static void op_late(program *p)
{
    int      cols = 1 + pick(p, 4);
    value    x = value_like(p, 1, cols), y = value_like(p, LATE, 0);
    est_node shape = est_concat(EST_NODES(p->late, est_const_i64(p->g, EST_SHAPE(1), (const int64_t[]){ cols })), 0);

    if (x.node.graph != NULL && pick(p, 2) == 0) {
        add_value(p, est_broadcast_to(x.node, shape), LATE, cols, x.rough);
    } else {
        add_value(p, est_fill(shape, est_scalar(p->g, EST_F32, 0.25)), LATE, cols, false);
    }
    if (y.node.graph != NULL) {
        value w = value_like(p, y.cols, 0);
        if (w.node.graph != NULL) add_value(p, est_matmul(y.node, w.node), LATE, w.cols, y.rough || w.rough);
        add_value(p, est_transpose(est_transpose(y.node, EST_I64S(1, 0)), EST_I64S(1, 0)), LATE, y.cols, y.rough);
    }
}

static void op_sum(program *p)
{
    value x = any_value(p), y = value_like(p, x.rows, x.cols), z = value_like(p, x.rows, x.cols);

    if (y.node.graph == NULL || z.node.graph == NULL) return;
    add_value(p, est_tanh(est_add_n(EST_NODES(x.node, y.node, z.node))), x.rows, x.cols, x.rough || y.rough || z.rough);
}

/* The same operation again: what merging looks for. And what depends on constants alone: folding. */
static void op_twice(program *p)
{
    value    x = any_value(p);
    float    few[12];
    est_node c;

    add_value(p, est_add(est_exp(est_neg(est_abs(x.node))), est_exp(est_neg(est_abs(x.node)))), x.rows, x.cols,
              x.rough);
    for (int i = 0; i < x.cols; i++) few[i] = (float)(pick(p, 9) - 4) / 8;
    c = est_const_f32(p->g, EST_SHAPE(1, x.cols), few);
    c = est_tanh(est_add(est_neg(c), est_scale(c, 3)));
    add_value(p, c, 1, x.cols, false);
    add_value(p, est_mul(x.node, c), x.rows, x.cols, x.rough);
}

/* Lets the newest value wait for a write; its number stays what it is. */
static void op_wait(program *p)
{
    const variable *v = &p->var[pick(p, VARS)];
    value           x = any_value(p);
    est_node        y = est_neg(x.node);

    if (v->n_writes > 0 && !p->functional) y = est_after(y, v->write[pick(p, v->n_writes)]);
    if (v->n_writes > 0 && p->functional) (void)pick(p, v->n_writes);
    add_value(p, y, x.rows, x.cols, x.rough);
}

/* Chains side by side that have nothing to do with each other: what lanes are for. Only their ends are values. */
static void op_chains(program *p)
{
    static est_node (*const unary[])(est_node) = { est_neg, est_tanh, est_sigmoid, est_sin, est_softplus };
    value end[8];

    for (int c = 0; c < 8; c++) end[c] = any_value(p);
    for (int length = 1 + pick(p, 5); length > 0; length--) {
        for (int c = 0; c < 8; c++) {
            end[c].node = unary[pick(p, 5)](end[c].node);
            if (length == 1) end[c].node = est_sub(end[c].node, est_sin(end[c].node)); /* needs two at a time */
        }
    }
    for (int c = 0; c < 8; c++) add_value(p, end[c].node, end[c].rows, end[c].cols, end[c].rough);
}

static void begin_program(program *p, bool functional, uint64_t seed)
{
    static const int shape[VARS][2] = { { ID_ROWS, 4 }, { 1, 3 }, { 3, 4 } };

    *p = (program){ .functional = functional, .rng = seed, .fusible = seed % 4 == 0 };
    assert_ok(est_graph_create(77, &p->g));
    p->x    = est_placeholder(p->g, "x", EST_F32, EST_SHAPE(-1, 3));
    p->ids  = est_placeholder(p->g, "ids", EST_I64, EST_SHAPE(-1));
    p->late = est_placeholder(p->g, "late", EST_I64, EST_SHAPE(1));
    for (int i = 0; i < VARS; i++) {
        char      name[8];
        variable *v = &p->var[i];
        (void)snprintf(name, sizeof name, "v%d", i);
        v->rows = shape[i][0];
        v->cols = shape[i][1];
        if (functional) {
            v->version[0] = est_placeholder(p->g, name, EST_F32, EST_SHAPE(v->rows, v->cols));
        } else {
            v->handle = est_variable(p->g, name, EST_F32, EST_SHAPE(v->rows, v->cols));
        }
    }
    add_value(p, est_identity(p->x), BATCH, 3, false);
}

static void write_program(program *p, bool functional, uint64_t seed)
{
    static void (*const ops[])(program *) = { op_read,    op_read,   op_lookup,  op_write,  op_write,  op_scatter,
                                              op_unary,   op_unary,  op_binary,  op_binary, op_matmul, op_matmul,
                                              op_reshape, op_concat, op_columns, op_reduce, op_select, op_rows,
                                              op_rows,    op_late,   op_sum,     op_twice,  op_wait };
    int n;

    begin_program(p, functional, seed);
    for (int i = 0; i < 4; i++) op_read(p);
    n = 20 + pick(p, 60);
    for (int i = 0; i < n; i++) ops[pick(p, (int)(sizeof ops / sizeof ops[0]))](p);
    for (int i = 0; is_wide(seed) && i < 3; i++) op_chains(p);
    assert_ok(est_graph_status(p->g));
}

/* --- running it --------------------------------------------------------------------------------------------------- */

typedef struct feeds {
    est_tensor *x, *ids, *late;
} feeds;

static feeds make_feeds(uint64_t key, int64_t batch)
{
    feeds   f;
    int64_t late = 1 + (int64_t)(key % 9);

    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(batch, 3), &f.x));
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(batch), &f.ids));
    assert_ok(est_tensor_i64(EST_SHAPE(1), &late, &f.late));
    est_random_fill_normal_f32(&(est_random){ key, 0, 0 }, 0, 3 * batch, est_tensor_mutable_data(f.x));
    est_random_fill_int_i64(&(est_random){ key, 1, 0 }, 0, batch, 0, 1 + (int64_t)(key % ID_ROWS),
                            est_tensor_mutable_data(f.ids));
    return f;
}

static void free_feeds(feeds *f)
{
    est_tensor_free(f->x);
    est_tensor_free(f->ids);
    est_tensor_free(f->late);
}

static void compare(const value *v, int index, const char *what, uint64_t seed, const est_tensor *want,
                    const float *got, const est_shape *shape)
{
    const float *w = est_tensor_data(want);

    if (!est_shape_equal(est_tensor_shape(want), shape)) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
        fail_msg("seed %d: %s %d is %s, should be %s", (int)seed, what, index, est_shape_text(shape, a),
                 est_shape_text(est_tensor_shape(want), b));
    }
    for (int64_t i = 0; i < est_tensor_count(want); i++) {
        bool fine = v->rough ? fabsf(got[i] - w[i]) <= 1e-3f * (1 + fabsf(w[i])) : got[i] == w[i];
        if (!fine) {
            fail_msg("seed %d: %s %d (%s) element %d is %.9g, should be %.9g", (int)seed, what, index,
                     est_node_name(v->node), (int)i, (double)got[i], (double)w[i]);
        }
    }
}

/* --- one seed ----------------------------------------------------------------------------------------------------- */

typedef struct trial {
    program      live, plain;
    est_session *session, *reference;
    est_step    *step;
    int          fetched[VALUES_MAX], n_fetched;
    est_tensor  *vars[VARS]; /* as they should be now */
} trial;

static void begin_trial(trial *t, uint64_t seed, const est_session_options *options)
{
    est_node fetches[VALUES_MAX], targets[VARS * WRITES_MAX];
    int      n_targets = 0;
    uint64_t rng       = seed + 1000;

    *t = (trial){ 0 };
    write_program(&t->live, false, seed);
    write_program(&t->plain, true, seed);
    assert_int_equal(t->live.n, t->plain.n);
    assert_ok(est_session_create(t->live.g, options, &t->session));
    assert_ok(est_session_create(t->plain.g, EST_SESSION(.threads = 1, .no_passes = true), &t->reference));
    for (int i = 0; i < t->live.n; i++) {
        if (draw(&rng) % 8 != 0 && i + 1 < t->live.n) continue;
        fetches[t->n_fetched]      = t->live.v[i].node;
        t->fetched[t->n_fetched++] = i;
    }
    for (int v = 0; v < VARS; v++) {
        const variable *var = &t->live.var[v];
        char            name[8];
        (void)snprintf(name, sizeof name, "v%d", v);
        for (int w = 0; w < var->n_writes; w++) targets[n_targets++] = var->write[w];
        assert_ok(est_tensor_create(EST_F32, EST_SHAPE(var->rows, var->cols), &t->vars[v]));
        est_random_fill_normal_f32(&(est_random){ seed, 7 + (uint64_t)v, 0 }, 0, var->rows * var->cols,
                                   est_tensor_mutable_data(t->vars[v]));
        assert_ok(est_session_write(t->session, name, t->vars[v]));
    }
    assert_ok(est_session_prepare(t->session, EST_NODES(t->live.x, t->live.ids, t->live.late),
                                  (est_nodes){ fetches, t->n_fetched }, (est_nodes){ targets, n_targets }, &t->step));
}

static void end_trial(trial *t)
{
    for (int v = 0; v < VARS; v++) est_tensor_free(t->vars[v]);
    est_session_free(t->session);
    est_session_free(t->reference);
    est_graph_free(t->live.g);
    est_graph_free(t->plain.g);
}

static void run_reference(trial *t, const feeds *f, est_tensor **out)
{
    est_feed in[3 + VARS] = { { t->plain.x, f->x }, { t->plain.ids, f->ids }, { t->plain.late, f->late } };
    est_node all[VALUES_MAX + VARS];
    int      n = 0;

    for (int v = 0; v < VARS; v++) in[3 + v] = (est_feed){ t->plain.var[v].version[0], t->vars[v] };
    for (int i = 0; i < t->plain.n; i++) all[n++] = t->plain.v[i].node;
    for (int v = 0; v < VARS; v++) all[n++] = t->plain.var[v].version[t->plain.var[v].n_writes];
    assert_ok(est_session_run(t->reference, (est_feeds){ in, 3 + VARS }, (est_nodes){ all, n }, (est_nodes){ 0 }, out));
}

static void check_variables(trial *t, est_tensor **want, uint64_t seed)
{
    for (int v = 0; v < VARS; v++) {
        est_tensor *got = NULL;
        char        name[8];
        value       as = { .node = t->live.var[v].handle, .rough = t->live.fusible };
        (void)snprintf(name, sizeof name, "v%d", v);
        assert_ok(est_session_read(t->session, name, &got));
        compare(&as, v, "variable", seed, want[v], est_tensor_data(got), est_tensor_shape(got));
        est_tensor_free(t->vars[v]);
        t->vars[v] = got; /* rough values may drift apart: both sides go on from here */
        est_tensor_free(want[v]);
    }
}

static void run_trial(trial *t, uint64_t seed, int64_t batch, uint64_t key)
{
    feeds       f = make_feeds(key, batch);
    est_tensor *want[VALUES_MAX + VARS];

    run_reference(t, &f, want);
    assert_ok(est_step_run(t->step, (const est_tensor *[]){ f.x, f.ids, f.late }));
    for (int i = 0; i < t->n_fetched; i++) {
        const value *v = &t->live.v[t->fetched[i]];
        compare(v, t->fetched[i], "value", seed, want[t->fetched[i]], est_step_data(t->step, i),
                est_step_shape(t->step, i));
    }
    for (int i = 0; i < t->live.n; i++) est_tensor_free(want[i]);
    check_variables(t, want + t->live.n, seed);
    free_feeds(&f);
}

static void try_seed(uint64_t seed, const est_session_options *options, plan_facts *s)
{
    static const int64_t small[] = { 3, 8, 1, 5, 21, 2 }, large[] = { 700, 5, 1, 900, 64, 700 };
    trial                t;
    char                 label[32];

    (void)snprintf(label, sizeof label, "seed %d", (int)seed);
    begin_trial(&t, seed, options);
    for (int i = 0; i < 6; i++) {
        run_trial(&t, seed, is_wide(seed) ? large[i] : small[i], seed * 31 + (uint64_t)i);
        plan_check(est_step_plan(t.step), label, s);
    }
    end_trial(&t);
}

static void try_seeds(uint64_t begin, uint64_t end, const est_session_options *options, plan_facts *s)
{
    for (uint64_t seed = begin; seed < end; seed++) try_seed(seed, options, s);
}

#define SEEDS (EST_TEST_SANITIZED ? 60 : 120) /* the others, as long a search as one likes: main */

/* Whether the plans made use of something as often as more than n times in 120 programs. */
static bool often(int used, int n)
{
    return used * 120 > n * SEEDS;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

TEST(plans_compute_what_the_program_says)
{
    plan_facts s = { 0 };

    try_seeds(1, SEEDS, EST_SESSION(.threads = 1), &s);
    if (est_far_device_is_used()) return; /* what they make use of is in the plans of the device */
    assert_true(often(s.inplace, 50) && often(s.heap, 10) && often(s.copies, 10) && often(s.dynamic, 50));
    assert_true(often(s.fused, 10));
}

TEST(with_threads_too)
{
    plan_facts s = { 0 };

    try_seeds(1, SEEDS, EST_SESSION(.threads = 3), &s);
    if (est_far_device_is_used()) return;
    assert_true(often(s.lanes, 100));
}

TEST(without_passes_too)
{
    plan_facts s = { 0 };

    try_seeds(SEEDS, SEEDS * 5 / 3, EST_SESSION(.threads = 3, .no_passes = true), &s);
    assert_int_equal(s.fused, 0);
}

int main(int argc, char **argv)
{
    if (argc == 3) { /* a range of seeds, for a long search */
        plan_facts s = { 0 };
        try_seeds(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), EST_SESSION(.threads = 3), &s);
        printf("lanes %d inplace %d heap %d copies %d fused %d dynamic %d\n", s.lanes, s.inplace, s.heap, s.copies,
               s.fused, s.dynamic);
        return 0;
    }
    return est_test_run(NULL, NULL);
}
