/* SPDX-License-Identifier: Apache-2.0
 *
 * The updates of optimizers from end to end: rows gathered from a table (some of them twice), a loss, its sparse
 * gradient, duplicates summed, an update. A second table gets the dense gradient of the same loss. Rows that were
 * gathered must come out the same in both; in the first table the others must not have moved, unless the optimizer
 * moves all. */
#include "apply.h"
#include "estoc/session.h"

enum { ROWS = 6, COLS = 3 };

typedef struct table {
    est_node var, slot[3];
} table;

static int failures;

static void check(bool ok, const char *name, const char *what)
{
    if (ok) return;
    printf("FAIL %s, %s: %s\n", name, what, est_error_message());
    failures++;
}

static est_node number(est_node like, double x)
{
    return est_scalar(like.graph, EST_F32, x);
}
#define K(x) number(t->var, x)

#define APPLY(dense, sparse, attrs, ...)                                                                               \
    est_build_apply(&est_op_apply_##dense, &est_op_##sparse, EST_NODES(t->var, __VA_ARGS__), g, attrs)
#define NESTEROV(x) EST_ATTRS(est_attr_bool("use_nesterov", x))

static est_node momentum(const table *t, est_gradient g)
{
    return APPLY(momentum, sparse_apply_momentum, NESTEROV(true), t->slot[0], K(0.5), K(0.9));
}
static est_node keras_momentum(const table *t, est_gradient g)
{
    return APPLY(keras_momentum, sparse_apply_keras_momentum, NESTEROV(false), t->slot[0], K(0.5), K(0.9));
}
static est_node adagrad(const table *t, est_gradient g)
{
    return APPLY(adagrad, sparse_apply_adagrad, EST_NO_ATTRS, t->slot[0], K(0.5));
}
static est_node adagrad_v2(const table *t, est_gradient g)
{
    return APPLY(adagrad_v2, sparse_apply_adagrad_v2, EST_NO_ATTRS, t->slot[0], K(0.5), K(0.01));
}
static est_node adam(const table *t, est_gradient g)
{
    return APPLY(adam, sparse_adam, NESTEROV(false), t->slot[0], t->slot[1], K(0.9), K(0.99), K(0.1), K(0.9), K(0.99),
                 K(0.01));
}
static est_node lazy_adam(const table *t, est_gradient g)
{
    return APPLY(adam, lazy_adam, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.9), K(0.99), K(0.1), K(0.9), K(0.99),
                 K(0.01));
}
/* Those for rows written in TensorFlow's ops must do the same. */
static est_node lower(est_node node, est_gradient g)
{
    const est_node_def *def = est_def(node);
    est_node            in[12];

    if (def == NULL || g.indices.graph == NULL) return node;
    for (int i = 0; i < def->n_in; i++) in[i] = (est_node){ node.graph, def->in[i].node, def->in[i].output };
    def->op->lower(def, node.graph, in, &node);
    return node;
}
static est_node lowered_lazy_adam(const table *t, est_gradient g)
{
    return lower(lazy_adam(t, g), g);
}
static est_node lowered_adam(const table *t, est_gradient g)
{
    return lower(adam(t, g), g);
}
static est_node rms_prop(const table *t, est_gradient g)
{
    return APPLY(rms_prop, sparse_apply_rms_prop, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.1), K(0.9), K(0.5),
                 K(0.01));
}
static est_node centered(const table *t, est_gradient g)
{
    return APPLY(centered_rms_prop, sparse_apply_centered_rms_prop, EST_NO_ATTRS, t->slot[2], t->slot[0], t->slot[1],
                 K(0.1), K(0.9), K(0.5), K(0.3));
}
static est_node ftrl(const table *t, est_gradient g)
{
    return APPLY(ftrl_v2, sparse_apply_ftrl_v2, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.2), K(0.1), K(0.05), K(0.01),
                 K(-0.5));
}
static est_node adamax(const table *t, est_gradient g)
{
    return APPLY(adamax, sparse_adamax, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.9), K(0.1), K(0.9), K(0.99), K(0.01));
}
static est_node nadam(const table *t, est_gradient g)
{
    return APPLY(nadam, sparse_nadam, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.9), K(0.2), K(0.99), K(0.1), K(0.9),
                 K(0.99), K(0.01));
}
static est_node lazy_adamax(const table *t, est_gradient g)
{
    return APPLY(adamax, lazy_adamax, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.9), K(0.1), K(0.9), K(0.99), K(0.01));
}
static est_node lowered_lazy_adamax(const table *t, est_gradient g)
{
    return lower(lazy_adamax(t, g), g);
}
static est_node lowered_adamax(const table *t, est_gradient g)
{
    return lower(adamax(t, g), g);
}
static est_node lowered_nadam(const table *t, est_gradient g)
{
    return lower(nadam(t, g), g);
}
static est_node adadelta(const table *t, est_gradient g)
{
    return APPLY(adadelta, sparse_apply_adadelta, EST_NO_ATTRS, t->slot[0], t->slot[1], K(0.5), K(0.9), K(0.01));
}

typedef struct update {
    const char *name;
    est_node (*build)(const table *t, est_gradient g);
    bool moves_all; /* also rows without a gradient */
} update;

static est_node filled(est_graph *graph, double first, double step)
{
    float values[ROWS * COLS];

    for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)(first + step * i);
    return est_const_f32(graph, EST_SHAPE(ROWS, COLS), values);
}

static table make_table(est_graph *graph, const char *scope)
{
    static const char *const names[] = { "s0", "s1", "s2" };
    table                    t;

    est_scope_push(graph, scope);
    t.var = est_variable(graph, "w", EST_F32, EST_SHAPE(ROWS, COLS));
    est_variable_initializer(t.var, filled(graph, -0.5, 0.13));
    for (int i = 0; i < 3; i++) {
        t.slot[i] = est_variable(graph, names[i], EST_F32, EST_SHAPE(ROWS, COLS));
        est_variable_initializer(t.slot[i], filled(graph, 0.1 * (i + 1), 0.01));
    }
    est_scope_pop(graph);
    return t;
}

static est_gradient gradient_of(est_node rows, est_node variable)
{
    static const float weight[] = { 1, -2, 3, 0.5f };
    est_node           w        = est_const_f32(rows.graph, EST_SHAPE(2, 2, 1), weight);
    est_gradient       g;

    est_gradients(est_sum(est_mul(est_square(rows), w)), (est_nodes){ &variable, 1 }, &g);
    return g;
}

static void compare(const update *u, est_session *session)
{
    est_tensor *sparse = NULL, *dense = NULL;

    check(est_session_read(session, "sparse/w", &sparse) == EST_OK, u->name, "read");
    check(est_session_read(session, "dense/w", &dense) == EST_OK, u->name, "read");
    for (int i = 0; i < ROWS * COLS && sparse != NULL && dense != NULL; i++) {
        double s = ((const float *)est_tensor_data(sparse))[i], d = ((const float *)est_tensor_data(dense))[i];
        int    row     = i / COLS;
        bool   touched = row == 1 || row == 4 || row == 5;
        double before  = -0.5 + 0.13 * i;

        if (touched || u->moves_all) check(fabs(s - d) < 1e-5, u->name, "sparse and dense differ");
        if (!touched && !u->moves_all) check(fabs(s - before) < 1e-6, u->name, "a row without gradient moved");
        if (touched) check(fabs(s - before) > 1e-4, u->name, "a row with gradient did not move");
    }
    est_tensor_free(sparse);
    est_tensor_free(dense);
}

static void run_update(const update *u)
{
    static const int64_t wanted[] = { 4, 1, 4, 5 };
    est_graph           *graph    = NULL;
    est_session         *session  = NULL;

    check(est_graph_create(3, &graph) == EST_OK, u->name, "graph");
    table    a = make_table(graph, "sparse"), b = make_table(graph, "dense");
    est_node indices = est_const_i64(graph, EST_SHAPE(2, 2), wanted);

    est_gradient g = gradient_of(est_resource_gather(a.var, indices), a.var);
    check(g.indices.graph != NULL, u->name, "the gradient of a gather is sparse");
    est_node first = u->build(&a, est_dedup(g));

    est_gradient d = gradient_of(est_gather(est_read_variable(b.var), indices, 0), b.var);
    if (d.indices.graph != NULL) {
        d = (est_gradient){ .values = est_unsorted_segment_sum(d.values, d.indices, est_scalar(graph, EST_I32, ROWS)) };
    }
    est_node second = u->build(&b, d);

    check(est_graph_status(graph) == EST_OK, u->name, "build");
    check(est_session_create(graph, NULL, &session) == EST_OK, u->name, "session");
    if (session != NULL) {
        check(est_session_init(session) == EST_OK, u->name, "init");
        check(est_session_run(session, EST_NO_FEEDS, (est_nodes){ 0 }, EST_NODES(first, second), NULL) == EST_OK,
              u->name, "run");
        compare(u, session);
    }
    est_session_free(session);
    est_graph_free(graph);
}

int main(void)
{
    static const update updates[] = {
        { "momentum", momentum, false },
        { "keras momentum", keras_momentum, false },
        { "adagrad", adagrad, false },
        { "adagrad v2", adagrad_v2, false },
        { "adam", adam, true },
        { "lazy adam", lazy_adam, false },
        { "lowered adam", lowered_adam, true },
        { "lowered lazy adam", lowered_lazy_adam, false },
        { "rms prop", rms_prop, false },
        { "centered rms prop", centered, false },
        { "ftrl", ftrl, false },
        { "adadelta", adadelta, false },
        { "adamax", adamax, true },
        { "lazy adamax", lazy_adamax, false },
        { "lowered lazy adamax", lowered_lazy_adamax, false },
        { "nadam", nadam, true },
        { "lowered adamax", lowered_adamax, true },
        { "lowered nadam", lowered_nadam, true },
    };

    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) run_update(&updates[i]);
    printf("%d failures\n", failures);
    return failures != 0;
}
