/* SPDX-License-Identifier: Apache-2.0
 *
 * <estoc/locate.h>: graph errors name the line of this file that built the node, and every builder has its macro. */
#include <stdlib.h>

#include "support/nn_test.h"

#include "estoc/locate.h"

static void check_blamed(est_graph *graph, int line)
{
    char where[64];

    assert_int_equal(est_graph_status(graph), EST_INVALID_ARGUMENT);
    snprintf(where, sizeof where, "locate.c:%d", line);
    if (strstr(est_error_message(), where) == NULL) fail_msg("\"%s\" does not name %s", est_error_message(), where);
}

TEST(line_is_named)
{
    nn_test  t = nn_begin(1);
    est_node a = est_placeholder(t.graph, "a", EST_F32, EST_SHAPE(2, 3));
    est_node b = est_placeholder(t.graph, "b", EST_F32, EST_SHAPE(4, 5));
    int      line;

    line = __LINE__ + 1;
    (void)est_matmul(a, b);
    (void)est_add(a, b); /* too late: the first failure counts */
    check_blamed(t.graph, line);
    nn_end(&t);
}

/* The name without arguments is still the function. */
TEST(names_are_pointers)
{
    nn_test        t   = nn_begin(1);
    est_activation act = est_relu;
    est_node       x   = est_scalar(t.graph, EST_F32, -1);
    est_node       y   = act(x);

    nn_ready(&t);
    assert_near(nn_scalar(&t, y), 0, 0);
    nn_end(&t);
}

TEST(every_builder_is_there)
{
    if (system("command -v python3 >/dev/null") != 0) skip();
    assert_int_equal(system("python3 '" EST_SOURCE_DIR "/scripts/locate' --check"), 0);
}
