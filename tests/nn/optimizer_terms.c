/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimizers as text: two that train differently differ in it. */
#include "support/nn_test.h"

#include "estoc/layers.h"
#include "estoc/optimizers.h"
#include "estoc/schedules.h"
#include "graph/graph.h"

static void check_terms(est_optimizer optimizer, const est_minimize_options *options, const char *expected)
{
    est_graph *graph = NULL;
    est_node   w, loss;

    assert_ok(est_graph_create(1, &graph));
    w    = est_weight(graph, "w", EST_SHAPE(2), NULL);
    loss = est_mean(est_square(est_read_variable(w)));
    assert_string_equal(est_graph_terms(graph), "");
    (void)est_minimize(optimizer, loss, options);
    assert_int_equal(est_graph_status(graph), EST_OK);
    assert_string_equal(est_graph_terms(graph), expected);
    est_graph_free(graph);
}

TEST(terms)
{
    static const int64_t boundaries[] = { 10, 20 };
    static const double  values[]     = { 1, 0.5, 0.25 };

    check_terms(est_sgd(0.5), NULL, "learning_rate=0.5 (SGD)\noptimizer=SGD\n");
    check_terms(est_adam(0.001, EST_ADAM(.epsilon = 1e-8)), NULL,
                "learning_rate=0.001 (Adam)\noptimizer=Adam, beta_1 0.9, beta_2 0.999, 1e-08\n");
    check_terms(est_momentum(0.1, EST_MOMENTUM(.nesterov = true)), EST_MINIMIZE(.clip_global_norm = 5),
                "learning_rate=0.1 (Momentum)\noptimizer=Momentum, 0.9, nesterov, clip_global_norm 5\n");
    check_terms(est_with_schedule(est_sgd(0), est_exponential_decay(0.1, 100, 0.5, false)), NULL,
                "learning_rate=a schedule from 0.1, decay_steps 100, decay_rate 0.5 (SGD)\noptimizer=SGD\n");
    check_terms(
        est_with_schedule(est_sgd(0), est_piecewise_constant((est_i64s){ boundaries, 2 }, (est_f64s){ values, 3 })),
        NULL, "learning_rate=a schedule from 0, 1 until 10, 0.5 until 20, then 0.25 (SGD)\noptimizer=SGD\n");
}

/* Of a model with several all count. */
TEST(two)
{
    est_graph *graph = NULL;
    est_node   w, v, loss;

    assert_ok(est_graph_create(1, &graph));
    w    = est_weight(graph, "w", EST_SHAPE(2), NULL);
    v    = est_weight(graph, "v", EST_SHAPE(2), NULL);
    loss = est_add(est_mean(est_square(est_read_variable(w))), est_mean(est_read_variable(v)));
    (void)est_minimize(est_sgd(0.5), loss, EST_MINIMIZE(.variables = EST_NODES(w)));
    (void)est_minimize(est_sgd(0.25), loss, EST_MINIMIZE(.variables = EST_NODES(v), .no_global_step = true));
    assert_string_equal(est_graph_terms(graph), "learning_rate=0.5 (SGD)\noptimizer=SGD\n"
                                                "learning_rate=0.25 (SGD)\noptimizer=SGD\n");
    est_graph_free(graph);
}
