/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of feature columns: a set of columns, a graph, and features by name that are fed, with a batch size that
 * the graph does not know. */
#ifndef EST_TESTS_FEATURE_TEST_H
#define EST_TESTS_FEATURE_TEST_H

#include "estoc/feature_column.h"
#include "support/nn_test.h"

#define FEATURES_MAX 32

typedef struct feature_test {
    nn_test      nn;
    est_columns *columns;
    struct {
        const char *name;
        est_feature feature;
        est_tensor *values, *splits;
    } features[FEATURES_MAX];
    int n;
} feature_test;

feature_test feature_begin(void);
void         feature_end(feature_test *t);

/* What layers are given. */
est_features feature_features(feature_test *t);

/* Adds a feature: all its elements, and for a ragged one the n + 1 splits of its n rows. Names are borrowed. */
void feature_f32(feature_test *t, const char *name, est_shape shape, const float *values);
void feature_i64(feature_test *t, const char *name, est_shape shape, const int64_t *values);
void feature_strings(feature_test *t, const char *name, est_shape shape, const char *const *values);
void feature_rows(feature_test *t, const char *name, int n, const int64_t *splits); /* makes the last one ragged */

/* A column's features are complete: opens the session. */
void feature_ready(feature_test *t);

/* Runs with all features fed, into at most n doubles; returns how many elements there are. fails: the run must, with
 * this text in its message. */
int64_t feature_fetch(feature_test *t, est_node node, double *out, int64_t n);
void    feature_fails(feature_test *t, est_node node, const char *text);

/* Gives a variable its values. */
void feature_set(feature_test *t, const char *variable, est_shape shape, const float *values);

/* Asserts that a node's elements are these. */
#define feature_expect(t, node, ...)                                                                                   \
    do {                                                                                                               \
        const double expect_[] = { __VA_ARGS__ };                                                                      \
        feature_expect_values(t, node, expect_, (int64_t)(sizeof expect_ / sizeof *expect_));                          \
    } while (0)
void feature_expect_values(feature_test *t, est_node node, const double *want, int64_t n);

/* Asserts that the set of columns, or the graph, has failed with this text. */
void feature_bad_column(feature_test *t, const char *text);
void feature_bad_graph(feature_test *t, const char *text);

#endif
