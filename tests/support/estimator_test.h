/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of estimators share: a small regression with a hidden layer and dropout, its input, a directory of its
 * own, and the values of a checkpoint. */
#ifndef EST_TESTS_ESTIMATOR_TEST_H
#define EST_TESTS_ESTIMATOR_TEST_H

#include "estoc/estoc.h"
#include "support/dir_test.h"
#include "support/test.h"

/* y = 2 a - b + noise over 64 rows, batches of 8; shuffled and repeated in training, once otherwise. `user` may point
 * to an int64 that limits the passes in training. */
est_status est_test_input(const est_input_context *context, void *user, est_dataset **out);

/* Dense 4 tanh, dropout, dense 1; mean squared error; Adam; predictions "y", metrics "mae" and "rmse". */
est_status est_test_model(est_model *model, est_mode mode, const void *params);

/* est_estimator_create, which must not fail; and with what most tests set. */
est_estimator *est_test_make(est_model_fn model_fn, const est_estimator_options *options);
#define EST_TEST_CONFIG(dir, cluster, ...)                                                                             \
    EST_RUN_CONFIG(.model_dir = (dir), .cluster_json = (cluster), .seed = 5, .quiet = true, __VA_ARGS__)
#define EST_TEST_ESTIMATOR(model_fn, dir, ...)                                                                         \
    est_test_make(model_fn, EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, __VA_ARGS__)))

/* A hook that kills the process at a step, as nobody can catch. */
typedef struct est_test_killer {
    est_hook hook;
    int64_t  step;
} est_test_killer;
est_status est_test_kill(est_hook *hook, est_loop *loop);
#define EST_TEST_KILLER(at) ((est_test_killer){ .hook = EST_HOOK(.after_run = est_test_kill), .step = (at) })

/* Asserts that two model directories have the same latest checkpoint, bit for bit but for rows read ahead. */
void est_test_same_checkpoint(const char *a, const char *b);

/* Asserts that the thread's error text has this in it. */
void est_test_error_has(const char *text);

#endif
