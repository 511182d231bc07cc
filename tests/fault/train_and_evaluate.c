/* SPDX-License-Identifier: Apache-2.0
 *
 * est_train_and_evaluate with an exporter while things fail: every fault point in turn (files that cannot be made,
 * written, synced, renamed or read, directories, threads), and allocations. The call says what was wrong or goes on
 * without what it could not have; no half export is ever served; and the next start ends where an undisturbed run
 * does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/export_test.h"
#include "support/fault_loop.h"

#define STEPS 3 /* saved and evaluated after 2 and 3 */

static est_manual_clock standing; /* exports of the same second would wait */

static void assert_ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_status run(const char *dir, est_metrics **metrics)
{
    const est_component raw      = { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) };
    est_exporter       *exporter = est_latest_exporter(
              "latest", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { &raw, 1 } })));
    est_estimator *e = NULL;
    est_status     status;

    if (exporter == NULL) return EST_RESOURCE_EXHAUSTED;
    status = est_estimator_create(
        est_test_model,
        EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .threads = 1, .save_checkpoints_steps = 2,
                                               .save_summary_steps = 1, .quiet = true, .cluster_json = "{}")),
        &e);
    if (status == EST_OK) {
        status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = STEPS),
                                        EST_EVAL_SPEC(.input_fn = est_test_input, .steps = 2, .throttle_secs = EST_OFF,
                                                      .exporters = EST_EXPORTERS(exporter)),
                                        metrics);
    }
    est_estimator_free(e);
    est_exporter_free(exporter);
    return status;
}

/* Every export that has a name is whole; how many there are. */
static int count_exports(const char *dir)
{
    static const char *const parts[] = { "saved_model.pb", "variables/variables.index",
                                         "variables/variables.data-00000-of-00001" };
    char                     base[128], list[1024], path[300], *rest = list;
    int                      n = 0;

    snprintf(base, sizeof base, "%s/export/latest", dir);
    shop_list(base, list);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        if (strspn(name, "0123456789") != strlen(name)) continue;
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            snprintf(path, sizeof path, "%s/%s/%s", base, name, parts[i]);
            if (!est_file_exists(path)) fail_msg("%s is not there", path);
        }
        n++;
    }
    return n;
}

static void assert_ended(const char *dir, const char *reference)
{
    char path[128];

    snprintf(path, sizeof path, "%s/training_done", dir);
    assert_true(est_file_exists(path));
    assert_true(count_exports(dir) >= 1);
    est_test_same_checkpoint(reference, dir);
}

static void make_reference(char dir[64])
{
    est_metrics *metrics = NULL;

    est_test_dir(dir);
    assert_ok(run(dir, &metrics));
    assert_int_equal(est_metrics_global_step(metrics), STEPS);
    assert_int_equal(count_exports(dir), 2);
    est_metrics_free(metrics);
}

static void disturb(fault_kind kind, int64_t more_than)
{
    char reference[64];

    make_reference(reference);
    FAULT_LOOP(f, kind, .more_than = more_than, .depth = 4) { /* tests/fault/estimator.c tells whole stacks apart */
        char         dir[64], why[300];
        est_metrics *metrics = NULL;
        est_status   status;

        est_test_dir(dir);
        fault_arm(&f);
        status = run(dir, &metrics);
        snprintf(why, sizeof why, "%s", est_fault_name());
        if (!fault_end(&f)) assert_ok(status);
        if (status == EST_OK) {
            assert_int_equal(est_metrics_global_step(metrics), STEPS);
        } else {
            assert_true(strlen(est_error_message()) > 0);
            assert_null(metrics);
            (void)count_exports(dir);
            status = run(dir, NULL);
            if (status != EST_OK) fail_msg("%" PRId64 ", after %s failed: %s", f.n, why, est_error_message());
        }
        est_metrics_free(metrics);
        assert_ended(dir, reference);
        est_test_dir_remove(dir);
    }
    est_test_dir_remove(reference);
}

TEST(fault_points)
{
    disturb(FAULT_POINTS, 100); /* each of two evaluations and two exports writes, syncs and renames many files */
}

TEST(allocations)
{
    disturb(FAULT_PLACES, 800); /* gcc tells 1750 apart, clang with sanitizers 970 */
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return est_test_run(NULL, NULL);
}
