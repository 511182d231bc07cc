/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of models: a graph with a session over it, numbers in and numbers out, inside cmocka tests. */
#ifndef EST_TESTS_NN_TEST_H
#define EST_TESTS_NN_TEST_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "estoc/nn.h"
#include "estoc/session.h"
#include "support/test.h"

typedef struct nn_test {
    est_graph   *graph;
    est_session *session;
} nn_test;

#define assert_ok(expr)                                                                                                \
    do {                                                                                                               \
        est_status assert_ok_ = (expr);                                                                                \
        if (assert_ok_ != EST_OK) fail_msg("%s: %s: %s", #expr, est_status_name(assert_ok_), est_error_message());     \
    } while (0)

#define assert_near(got, expected, tol)                                                                                \
    do {                                                                                                               \
        double near_got_ = (got), near_want_ = (expected);                                                             \
        if (!(fabs(near_got_ - near_want_) <= (tol)*fmax(1, fabs(near_want_)))) {                                      \
            fail_msg("%s is %.9g, expected %.9g", #got, near_got_, near_want_);                                        \
        }                                                                                                              \
    } while (0)

nn_test nn_begin(uint64_t seed);
void    nn_ready(nn_test *t); /* opens the session and gives variables their first values: the graph is complete now */
void    nn_end(nn_test *t);

/* A session of one thread over a graph, at `remote` unless that is NULL, whose variables have their first values. */
est_session *nn_session(est_graph *graph, struct est_remote *remote);

/* A variable has the same shape and bytes in two sessions; or all variables. */
bool nn_is_same(est_session *a, est_session *b, const char *name);
void nn_assert_same(est_session *a, est_session *b);

/* The largest difference of two elements of the float variables of two sessions; NaN when one is. */
double nn_difference(est_session *a, est_session *b);

/* A file of tests/golden. */
est_json *nn_golden(const char *name);

double nn_element(const est_tensor *tensor, int64_t i);

/* Fetches a node (nothing fed) into at most n doubles; returns how many elements it has. */
int64_t nn_fetch(nn_test *t, est_node node, double *out, int64_t n);
double  nn_scalar(nn_test *t, est_node node);
void    nn_run(nn_test *t, est_node target);

/* A variable's contents by name; fails the test when there is none. */
int64_t nn_read(nn_test *t, const char *name, double *out, int64_t n);

/* A constant of at most 256 doubles as float32. */
est_node nn_const(est_graph *graph, est_shape shape, const double *values);

#define NN_VALUES(...) ((const double[]){ __VA_ARGS__ })

#endif
