/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of est_minimize: gradients that the program looks at or changes before they are applied. */
#include "support/nn_test.h"

/* loss = 3 a + 4 b; no gradient reaches c. */
typedef struct line {
    nn_test      t;
    est_node     variables[3];
    est_nodes    list;
    est_gradient gradients[3];
} line;

static void make_line(line *l, const est_minimize_options *options)
{
    static const char *const names[] = { "a", "b", "c" };
    est_graph               *g;
    est_node                 loss;

    l->t = nn_begin(1);
    g    = l->t.graph;
    for (int i = 0; i < 3; i++) {
        l->variables[i] = est_weight(g, names[i], EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_ones()));
    }
    l->list = (est_nodes){ l->variables, 3 };
    loss = est_add(est_scale(est_read_variable(l->variables[0]), 3), est_scale(est_read_variable(l->variables[1]), 4));
    est_compute_gradients(loss, l->list, l->gradients, options);
}

static void assert_variables(line *l, double a, double b)
{
    double value;

    (void)nn_read(&l->t, "a", &value, 1);
    assert_near(value, a, 1e-6);
    (void)nn_read(&l->t, "b", &value, 1);
    assert_near(value, b, 1e-6);
    (void)nn_read(&l->t, "c", &value, 1);
    assert_near(value, 1, 0); /* left alone */
}

static void apply(line *l, est_optimizer optimizer)
{
    est_node op = est_apply_gradients(optimizer, l->list, l->gradients, NULL);

    nn_ready(&l->t);
    nn_run(&l->t, op);
}

TEST(halves)
{
    line l;

    make_line(&l, NULL);
    assert_null(l.gradients[2].values.graph);
    apply(&l, est_sgd(0.1));
    assert_variables(&l, 0.7, 0.6);
    nn_end(&l.t);
}

TEST(clipped)
{
    line l;

    make_line(&l, EST_MINIMIZE(.clip_global_norm = 1)); /* of (3, 4): the norm is 5 */
    apply(&l, est_sgd(1));
    assert_variables(&l, 1 - 0.6, 1 - 0.8);
    nn_end(&l.t);

    make_line(&l, NULL);
    est_clip_gradients_by_value(l.gradients, 3, 3.5);
    apply(&l, est_sgd(1));
    assert_variables(&l, 1 - 3, 1 - 3.5);
    nn_end(&l.t);

    make_line(&l, NULL);
    est_clip_gradients_by_norm(l.gradients, 3, 2); /* each by itself */
    apply(&l, est_sgd(1));
    assert_variables(&l, 1 - 2, 1 - 2);
    nn_end(&l.t);
}

TEST(global_norm)
{
    line     l;
    est_node norm;

    make_line(&l, NULL);
    norm = est_global_norm(l.gradients, 2);
    nn_ready(&l.t);
    assert_near(nn_scalar(&l.t, norm), 5, 1e-6);
    nn_end(&l.t);
}

TEST(learning_node)
{
    line     l;
    est_node rate;

    make_line(&l, NULL);
    rate = est_scale(est_scalar(l.t.graph, EST_F32, 0.5), 0.5);
    apply(&l, est_with_learning_node(est_sgd(7), rate));
    assert_variables(&l, 1 - 0.75, 1 - 1);
    nn_end(&l.t);
}

/* Two training operations of one optimizer: the second continues with the slots and the counter of the first. */
TEST(shared_slots)
{
    line     l;
    est_node ops[2], rate;
    int      n = 0;

    make_line(&l, NULL);
    rate = est_scalar(l.t.graph, EST_F32, 0.1);
    for (int i = 0; i < 2; i++) {
        ops[i] = est_apply_gradients(est_with_learning_node(est_adam(0, EST_ADAM(.keras = true)), rate), l.list,
                                     l.gradients, EST_MINIMIZE(.share_slots = true, .slot_scope = "mine"));
        if (i == 0) n = est_global_variables(l.t.graph).n;
    }
    assert_int_equal(est_global_variables(l.t.graph).n, n);
    nn_ready(&l.t);
    nn_run(&l.t, ops[0]);
    nn_run(&l.t, ops[1]);
    assert_variables(&l, 0.8, 0.8); /* equal gradients: Adam moves by the learning rate */
    nn_end(&l.t);
}

/* Clipping that an optimizer brings: gradients 3 and 4 have the norm 5. */
TEST(clipping_of_an_optimizer)
{
    static const double expected[3][2] = { { 0.8, 0.8 }, { 0.9, 0.9 }, { 0.94, 0.92 } };

    for (int i = 0; i < 3; i++) {
        line     l;
        est_node loss, op;

        make_line(&l, NULL);
        loss = est_add(est_scale(est_read_variable(l.variables[0]), 3),
                       est_scale(est_read_variable(l.variables[1]), 4));
        op = est_minimize(est_with_clipping(est_sgd(0.1), i == 0 ? 2 : 0, i == 1 ? 1 : 0, i == 2 ? 1 : 0), loss, NULL);
        nn_ready(&l.t);
        nn_run(&l.t, op);
        assert_variables(&l, expected[i][0], expected[i][1]);
        nn_end(&l.t);
    }
}
