/* SPDX-License-Identifier: Apache-2.0
 *
 * Device functions of graphs: when they are asked, with which names, and what becomes of the answers. */
#include <string.h>

#include "estoc/nn.h"
#include "graph/graph.h"
#include "support/nn_test.h"

typedef struct asked {
    const char *answer;    /* for variables */
    int         n;         /* questions */
    char        name[64];  /* of the last operation */
    char        given[64]; /* the device of est_graph_device */
} asked;

static const char *answer(est_node node, const char *op, const char *device, void *user)
{
    asked *a = user;

    a->n++;
    snprintf(a->name, sizeof a->name, "%s", est_node_name(node));
    snprintf(a->given, sizeof a->given, "%s", device);
    return strcmp(op, "VarHandleOp") == 0 ? a->answer : NULL;
}

static const char *device_of(est_node node)
{
    return est_def(node)->device;
}

TEST(asked)
{
    est_graph *graph = NULL;
    asked      a     = { .answer = "/job:ps/task:1" };
    est_node   before, v, sum, later;

    assert_ok(est_graph_create(1, &graph));
    before = est_scalar(graph, EST_F32, 1);
    est_graph_device(graph, "/job:worker");
    est_graph_device_fn(graph, answer, &a);
    v = est_variable(graph, "v", EST_F32, EST_SHAPE_SCALAR);
    assert_int_equal(a.n, 1);
    assert_string_equal(a.name, "v");
    assert_string_equal(a.given, "/job:worker");
    assert_string_equal(device_of(v), "/job:ps/task:1");
    a.n = 0;
    sum = est_named(est_add(before, before), "sum");
    assert_int_equal(a.n, 1);
    assert_string_equal(a.name, "sum");
    assert_string_equal(device_of(sum), "");
    a.n = 0;
    (void)est_named(before, "first"); /* made before it was set, and long ago */
    assert_int_equal(a.n, 0);
    later = est_neg(sum); /* nobody names it */
    est_graph_device(graph, "/job:worker/task:1");
    assert_ok(est_graph_status(graph));
    assert_int_equal(a.n, 1);
    assert_string_equal(a.given, "/job:worker"); /* as when it was made */
    (void)est_named(later, "later");
    assert_int_equal(a.n, 1);
    assert_string_equal(device_of(later), "");
    a.n = 0;
    est_graph_device_fn(graph, NULL, NULL);
    later = est_neg(sum);
    assert_int_equal(a.n, 0);
    assert_string_equal(device_of(later), "/job:worker/task:1");
    assert_ok(est_graph_status(graph));
    est_graph_free(graph);
    est_graph_device_fn(NULL, answer, &a);
}

TEST(invalid)
{
    est_graph *graph = NULL;
    asked      a     = { .answer = "ps 1" };

    assert_ok(est_graph_create(1, &graph));
    est_graph_device_fn(graph, answer, &a);
    (void)est_variable(graph, "v", EST_F32, EST_SHAPE_SCALAR);
    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "device function, operation v: the device is \"ps 1\""));
    est_graph_free(graph);
}

/* A slot is where its variable is, whatever the function or the graph say by then. */
TEST(slots)
{
    est_graph *graph = NULL;
    asked      a     = { .answer = "/job:ps/task:2" };
    est_node   w;

    assert_ok(est_graph_create(1, &graph));
    est_graph_device_fn(graph, answer, &a);
    w        = est_weight(graph, "w", EST_SHAPE(2), NULL);
    a.answer = "/job:ps/task:0";
    (void)est_global_step(graph);
    (void)est_minimize(est_adam(0.1, NULL), est_reduce_sum(est_read_variable(w), EST_I64S(0), false), NULL);
    assert_ok(est_graph_status(graph));
    assert_string_equal(device_of(est_graph_find(graph, "w/Adam")), "/job:ps/task:2");
    assert_string_equal(device_of(est_graph_find(graph, "w/Adam_1")), "/job:ps/task:2");
    assert_string_equal(device_of(est_graph_find(graph, "global_step")), "/job:ps/task:0");
    est_graph_free(graph);
}
