/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that build a small graph with the public builders and look at what comes out: checks that count, and one
 * run in a new session. */
#ifndef EST_TESTS_GRAPH_TEST_H
#define EST_TESTS_GRAPH_TEST_H

#include <stdio.h>
#include <string.h>

#include "estoc/ops.h"
#include "estoc/session.h"

static int graph_test_failures;

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            graph_test_failures++;                                                                                     \
            printf("FAIL %s:%d: %s:", __FILE__, __LINE__, #condition);                                                 \
            printf(" " __VA_ARGS__);                                                                                   \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

static inline est_graph *test_graph(void)
{
    est_graph *graph = NULL;

    CHECK(est_graph_create(1, &graph) == EST_OK, "%s", est_error_message());
    return graph;
}

/* The value of `node`, or NULL (and a failed check). Owned by the caller. */
static inline est_tensor *test_run(est_node node, est_feeds feeds)
{
    est_session *session = NULL;
    est_tensor  *out     = NULL;
    est_status   status  = est_graph_status(node.graph);

    if (status == EST_OK) status = est_session_create(node.graph, EST_SESSION(.threads = 1), &session);
    if (status == EST_OK) status = est_session_run(session, feeds, EST_NODES(node), (est_nodes){ 0 }, &out);
    CHECK(status == EST_OK, "%s", est_error_message());
    est_session_free(session);
    return out;
}

/* A string tensor from C strings. */
static inline est_tensor *test_strings(est_shape shape, const char *const *text)
{
    est_tensor *tensor = NULL;

    CHECK(est_tensor_create(EST_STRING, shape, &tensor) == EST_OK, "%s", est_error_message());
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        CHECK(est_tensor_set_string(tensor, i, text[i], strlen(text[i])) == EST_OK, "%s", est_error_message());
    }
    return tensor;
}

/* Runs `node` and compares the strings that come out; gives back nothing. */
static inline void check_strings(est_node node, est_shape shape, const char *const *expected)
{
    est_tensor    *out = test_run(node, EST_NO_FEEDS);
    const est_str *got;
    char           a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (out == NULL) return;
    got = est_tensor_data(out);
    CHECK(est_shape_equal(est_tensor_shape(out), &shape), "%s is %s instead of %s", est_node_name(node),
          est_shape_text(est_tensor_shape(out), a), est_shape_text(&shape, b));
    for (int64_t i = 0; i < est_tensor_count(out) && i < est_shape_count(&shape); i++) {
        CHECK(got[i].size == strlen(expected[i]) && memcmp(got[i].data, expected[i], got[i].size) == 0,
              "%s element %d is \"%.*s\" instead of \"%s\"", est_node_name(node), (int)i, (int)got[i].size, got[i].data,
              expected[i]);
    }
    est_tensor_free(out);
}

#endif
