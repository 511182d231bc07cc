/* SPDX-License-Identifier: Apache-2.0
 *
 * est_train_and_evaluate with an exporter while things fail: every fault point in turn (files that cannot be made, written,
 * synced, renamed or read, directories, threads), and allocations. The call says what was wrong or goes on without what it
 * could not have; no half export is ever served; and the next start ends where an undisturbed run does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "support/export_test.h"

#define STEPS 3 /* saved and evaluated after 2 and 3 */

/* A run has eight thousand allocations. A prime, as est_test_stride says. */
#define STRIDE 7

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

static bool disturb(const char *reference, int64_t n, void (*arm)(int64_t))
{
    char         dir[64], why[300];
    est_metrics *metrics = NULL;
    bool         fired;
    est_status   status;

    est_test_dir(dir);
    arm(n);
    status = run(dir, &metrics);
    fired  = est_fault_fired();
    snprintf(why, sizeof why, "%s", fired ? est_fault_name() : "");
    arm(0);
    if (status == EST_OK) {
        assert_int_equal(est_metrics_global_step(metrics), STEPS);
    } else {
        if (!fired) fail_msg("%" PRId64 ": nothing failed, and yet: %s", n, est_error_message());
        assert_true(strlen(est_error_message()) > 0);
        assert_null(metrics);
        (void)count_exports(dir);
        status = run(dir, NULL);
        if (status != EST_OK) fail_msg("%" PRId64 ", after %s failed: %s", n, why, est_error_message());
    }
    est_metrics_free(metrics);
    assert_ended(dir, reference);
    est_test_dir_remove(dir);
    return fired;
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

static void test_fault_points(void **state)
{
    char    reference[64];
    int64_t n = 1;

    (void)state;
    make_reference(reference);
    while (disturb(reference, n, est_fault_arm)) n++;
    assert_true(n > 100); /* each of two evaluations and two exports writes, syncs and renames many files */
    est_test_dir_remove(reference);
}

static void test_allocations(void **state)
{
    char reference[64];

    (void)state;
    make_reference(reference);
    for (int64_t n = 1; disturb(reference, n, est_fault_arm_alloc); n += est_test_stride(STRIDE)) continue;
    est_test_dir_remove(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fault_points),
        cmocka_unit_test(test_allocations),
    };

    est_log_set_level(EST_LOG_OFF);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
