/* SPDX-License-Identifier: Apache-2.0
 *
 * An evaluator that watches a job: tasks that are far away are there, too, and one directory may have two names. The
 * end of a job: tests/cluster/evaluator.c. */
#include "estimator/job_watch.h"

#include <stdlib.h>
#include <unistd.h>

#include "support/estimator_test.h"
#include "support/nn_test.h"
#include "support/port_test.h"
#include "support/relay_test.h"

#define HELLO_SECS 0.8

static bool is_held(void *user, double secs)
{
    (void)user;
    return secs < HELLO_SECS;
}

TEST(far_away)
{
    relay          r = { .holds = is_held };
    char           dir[64], near[32], config[256];
    est_cluster   *cluster   = NULL;
    est_server    *ps        = NULL;
    est_estimator *estimator = NULL;
    est_job_watch  watch     = { 0 };
    int            held;

    est_test_dir(dir);
    r.to_port = port_take(&held);
    relay_start(&r);
    snprintf(near, sizeof near, "127.0.0.1:%d", r.to_port);
    snprintf(config, sizeof config,
             "{\"cluster\": {\"chief\": [\"127.0.0.1:1\"], \"ps\": [\"127.0.0.1:%d\"]}, "
             "\"task\": {\"type\": \"evaluator\", \"index\": 0}}",
             r.port);
    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = EST_STRINGS(near) } }, 1 },
                                 &cluster));
    assert_ok(est_server_create(cluster, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &ps));
    estimator = est_test_make(
        est_test_model,
        EST_ESTIMATOR(.model_dir = dir, .config = EST_RUN_CONFIG(.cluster_json = config, .protocol = "tcp")));
    assert_false(est_job_watch_is_gone(&watch, estimator));
    assert_true(watch.seen);
    assert_int_equal(atomic_load(&r.n_connections), 1);
    est_job_watch_clear(&watch);
    est_estimator_free(estimator);
    est_server_free(ps);
    relay_stop(&r);
    close(held);
    est_cluster_free(cluster);
    est_test_dir_remove(dir);
}

static bool is_elsewhere(const char *theirs, const char *ours)
{
    est_job_watch watch = { 0 };

    snprintf(watch.last.folder, sizeof watch.last.folder, "%s", theirs);
    return est_job_watch_is_elsewhere(&watch, ours);
}

TEST(folders)
{
    char dir[64], name[96], missing[96];

    est_test_dir(dir);
    snprintf(name, sizeof name, "%s/name", dir);
    snprintf(missing, sizeof missing, "%s/missing", dir);
    assert_int_equal(symlink(dir, name), 0);
    assert_true(is_elsewhere("/", dir));
    assert_true(is_elsewhere(missing, dir));
    assert_true(is_elsewhere(dir, missing));
    assert_false(is_elsewhere(missing, missing)); /* each machine may have one of that name: nothing is known */
    assert_false(is_elsewhere(name, dir));
    assert_false(is_elsewhere("", dir)); /* it was not said */
    assert_int_equal(unlink(name), 0);
    est_test_dir_remove(dir);
}
