/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporters: after which evaluations they export, and what they keep. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "estimator/estimator.h"
#include "support/export_test.h"
#include "support/fault_loop.h"

#define OPTIONS(...) EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { shop_raw, 1 } }), __VA_ARGS__)

typedef struct fixture {
    char             dir[64], base[128], list[1024];
    est_estimator   *estimator;
    est_manual_clock clock;
} fixture;

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void set_up(fixture *f)
{
    shop_params plain = { .plain = true };

    est_test_dir(f->dir);
    snprintf(f->base, sizeof f->base, "%s/export/it", f->dir);
    f->estimator = shop_trained(f->dir, &plain);
    est_manual_clock_init(&f->clock, EST_NS_PER_SEC, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&f->clock.clock);
}

static void tear_down(fixture *f, est_exporter *exporter)
{
    est_clock_set(NULL);
    est_exporter_free(exporter);
    est_estimator_free(f->estimator);
    est_test_dir_remove(f->dir);
}

static est_metrics *metrics_with(const char *name, double value, int64_t step)
{
    est_metrics *metrics = NULL;

    ok(est_metrics_create(2, &metrics));
    ok(est_metrics_set(metrics, 0, "global_step", (double)step));
    ok(est_metrics_set(metrics, 1, name, value));
    est_metrics_sort(metrics);
    return metrics;
}

/* Exports with that loss of a step; a second passes. What was said to be written is there. */
static void after_step(fixture *f, est_exporter *exporter, double loss, int64_t step, bool final)
{
    est_metrics *metrics = metrics_with("loss", loss, step);
    char         path[EST_CHECKPOINT_PATH_MAX], before[1024];

    shop_list(f->base, before);
    ok(est_exporter_export(exporter, f->estimator, f->base, NULL, metrics, final, path));
    assert_int_equal(strcmp(shop_list(f->base, f->list), before) != 0, path[0] != '\0');
    if (path[0] != '\0') assert_true(est_dir_exists(path));
    est_manual_clock_advance(&f->clock, EST_NS_PER_SEC);
    est_metrics_free(metrics);
}

static void after(fixture *f, est_exporter *exporter, double loss, bool final)
{
    after_step(f, exporter, loss, 3, final);
}

/* --- latest and final --------------------------------------------------------------------------------------------- */

TEST(latest_exports_always_and_keeps_some)
{
    static const char *const others[] = { "temp-1600000000", "123", "16000000000", "160000000x" };
    char                     path[256];
    est_exporter            *exporter;
    fixture                  f;

    set_up(&f);
    exporter = est_latest_exporter("it", OPTIONS(.exports_to_keep = 2));
    assert_non_null(exporter);
    assert_string_equal(est_exporter_name(exporter), "it");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) { /* no names of ten digits: none of its business */
        snprintf(path, sizeof path, "%s/%s", f.base, others[i]);
        ok(est_dir_create(path));
    }
    snprintf(path, sizeof path, "%s/1500000000/variables", f.base);
    ok(est_dir_create(path));
    after(&f, exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list), "123 1500000000 16000000000 160000000x 1700000000 temp-1600000000 ");
    after(&f, exporter, 5, false);
    after(&f, exporter, 5, true);
    assert_string_equal(shop_list(f.base, f.list), "123 16000000000 160000000x 1700000001 1700000002 temp-1600000000 ");
    tear_down(&f, exporter);
}

TEST(how_many_are_kept)
{
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = est_latest_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    for (int i = 0; i < 7; i++) after(&f, exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000002 1700000003 1700000004 1700000005 1700000006 ");
    est_exporter_free(exporter);
    exporter = est_latest_exporter("it", OPTIONS(.exports_to_keep = EST_OFF));
    assert_non_null(exporter);
    after(&f, exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list),
                        "1700000002 1700000003 1700000004 1700000005 1700000006 1700000007 ");
    tear_down(&f, exporter);
}

TEST(final_exports_at_the_end)
{
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = est_final_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    after(&f, exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list), "");
    after(&f, exporter, 2, true);
    assert_string_equal(shop_list(f.base, f.list), "1700000001 ");
    tear_down(&f, exporter);
}

/* The clock is set back: nothing is overwritten, and the new export is not taken for the oldest at once. */
TEST(a_clock_that_was_set_back)
{
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = est_latest_exporter("it", OPTIONS(.exports_to_keep = 2));
    assert_non_null(exporter);
    for (int i = 0; i < 3; i++) after(&f, exporter, 1, false);
    est_manual_clock_init(&f.clock, EST_NS_PER_SEC, INT64_C(1650000000) * EST_NS_PER_SEC);
    after(&f, exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list), "1650000000 1700000001 1700000002 ");
    tear_down(&f, exporter);
}

/* --- an exporter of one's own ------------------------------------------------------------------------------------- */

typedef struct every_other {
    est_exporter exporter;
    int          n_called, n_freed;
} every_other;

static est_status export_every_other(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                     const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                     char path[EST_CHECKPOINT_PATH_MAX])
{
    every_other *x = EST_CONTAINER_OF(exporter, every_other, exporter);

    (void)is_the_final_export;
    assert_string_equal(path, "");
    assert_true(est_metrics_global_step(metrics) == 3);
    if (x->n_called++ % 2 == 0) return EST_OK;
    return est_export_saved_model(estimator, export_path,
                                  EST_EXPORT(.input = { .raw = { shop_raw, 1 } }, .checkpoint_path = checkpoint_path),
                                  path);
}

static void free_every_other(est_exporter *exporter)
{
    EST_CONTAINER_OF(exporter, every_other, exporter)->n_freed++;
}

TEST(one_of_your_own)
{
    every_other x = { .exporter = EST_EXPORTER(.name = "it", .export_model = export_every_other,
                                               .free = free_every_other) };
    fixture     f;

    set_up(&f);
    for (int i = 0; i < 4; i++) after(&f, &x.exporter, 1, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000001 1700000003 ");
    assert_string_equal(est_exporter_name(&x.exporter), "it");
    assert_string_equal(est_exporter_last_path(&x.exporter), "");
    tear_down(&f, &x.exporter);
    assert_int_equal(x.n_freed, 1);
}

/* --- best --------------------------------------------------------------------------------------------------------- */

TEST(best_exports_what_is_better)
{
    char          path[256];
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = est_best_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    assert_string_equal(est_exporter_last_path(exporter), "");
    after(&f, exporter, 2, false);
    after(&f, exporter, 2, false); /* not better */
    after(&f, exporter, 3, false);
    snprintf(path, sizeof path, "%s/1700000000", f.base);
    assert_string_equal(est_exporter_last_path(exporter), path); /* the best, not the last evaluated */
    after(&f, exporter, 1, false);
    after(&f, exporter, 1.5, true);
    snprintf(path, sizeof path, "%s/1700000003", f.base);
    assert_string_equal(est_exporter_last_path(exporter), path);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 1700000003 ");
    tear_down(&f, exporter);
}

/* The loss of an evaluation of step 3, which is in the event files then. */
static double evaluate(fixture *f)
{
    est_metrics *evaluated = NULL;
    double       loss;

    ok(est_evaluate(f->estimator, EST_EVALUATE_OPTIONS(.input_fn = shop_input), &evaluated));
    loss = est_metrics_get(evaluated, "loss");
    est_metrics_free(evaluated);
    return loss;
}

static est_exporter *restarted(est_exporter *exporter, const est_exporter_options *options)
{
    est_exporter_free(exporter);
    exporter = est_best_exporter("it", options);
    assert_non_null(exporter);
    return exporter;
}

/* The best of an earlier process stays: with exports_to_keep = 1 a worse one would take its place. No event file is
 * needed for that: the export says what it was worth. */
TEST(best_after_a_restart)
{
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = restarted(NULL, OPTIONS(.exports_to_keep = 1));
    after_step(&f, exporter, 7, 3, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 ");
    exporter = restarted(exporter, OPTIONS(.exports_to_keep = 1));
    after_step(&f, exporter, 8, 4, false);
    after_step(&f, exporter, 7, 5, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 ");
    assert_string_equal(est_exporter_last_path(exporter), ""); /* of this process */
    after_step(&f, exporter, 6, 6, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000003 ");
    exporter = restarted(exporter, OPTIONS(.event_file_pattern = "")); /* looks nowhere */
    after_step(&f, exporter, 8, 7, false);
    exporter = restarted(exporter, OPTIONS(0)); /* of several exports the best counts, not the newest */
    after_step(&f, exporter, 7, 8, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000003 1700000004 ");
    tear_down(&f, exporter);
}

/* A process that is killed in an export has written the result of the evaluation, as has an evaluation by hand. */
TEST(best_of_what_was_exported)
{
    est_exporter *exporter;
    double        loss;
    fixture       f;

    set_up(&f);
    exporter = restarted(NULL, OPTIONS(0));
    after_step(&f, exporter, 1e6, 2, false);
    loss     = evaluate(&f); /* of step 3, better, and not exported */
    exporter = restarted(exporter, OPTIONS(0));
    after_step(&f, exporter, loss + 1, 4, false);
    after_step(&f, exporter, loss + 2, 5, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 1700000001 ");
    tear_down(&f, exporter);
}

/* An export as TensorFlow leaves it does not say what it was worth. */
static void make_plain_export(fixture *f)
{
    char path[256];

    snprintf(path, sizeof path, "%s/1500000000", f->base);
    ok(est_dir_create(path));
}

/* A name of the shell's patterns is a directory's like any other. */
TEST(best_in_a_directory_with_brackets)
{
    shop_params   plain = { .plain = true };
    char          dir[128];
    est_exporter *exporter;
    double        loss;
    fixture       f;

    set_up(&f);
    est_estimator_free(f.estimator);
    snprintf(dir, sizeof dir, "%s/hr[E]*\\", f.dir);
    f.estimator = shop_trained(dir, &plain);
    loss        = evaluate(&f);
    make_plain_export(&f);
    exporter = restarted(NULL, OPTIONS(0));
    after_step(&f, exporter, loss + 1, 4, false);
    assert_string_equal(shop_list(f.base, f.list), "1500000000 ");
    after_step(&f, exporter, loss - 1, 5, false);
    assert_string_equal(shop_list(f.base, f.list), "1500000000 1700000001 ");
    tear_down(&f, exporter);
}

/* A directory without an export gets one, even of a model that is worse than one that was only evaluated. */
TEST(best_of_an_empty_directory)
{
    est_exporter *exporter;
    double        loss;
    fixture       f;

    set_up(&f);
    loss     = evaluate(&f);
    exporter = est_best_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    after_step(&f, exporter, loss + 2, 4, false);
    after_step(&f, exporter, loss + 1, 5, false); /* better than what is there */
    after_step(&f, exporter, loss + 1, 6, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 1700000001 ");
    tear_down(&f, exporter);
}

/* A loss that is NaN is worse than any other. */
TEST(best_after_nan)
{
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    exporter = est_best_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    after(&f, exporter, (double)NAN, false);
    after(&f, exporter, 2, false);
    after(&f, exporter, (double)NAN, false);
    after(&f, exporter, 3, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 1700000001 ");
    tear_down(&f, exporter);
}

/* What the event files hold is what `compare` is asked about, once for every further result. */
typedef struct asked {
    double best[4], current[4];
    int    n;
} asked;

static bool larger_mae(void *user, const est_metrics *best, const est_metrics *current)
{
    asked *a = user;

    assert_true(a->n < 4);
    a->best[a->n]      = est_metrics_get(best, "loss");
    a->current[a->n++] = est_metrics_get(current, "loss");
    return a->current[a->n - 1] > a->best[a->n - 1];
}

TEST(best_reads_event_files)
{
    asked         a = { 0 };
    est_exporter *exporter;
    est_metrics  *first = NULL, *second = NULL;
    fixture       f;

    set_up(&f);
    ok(est_evaluate(f.estimator, EST_EVALUATE_OPTIONS(.input_fn = shop_input, .name = "x"), &first));
    ok(est_train(f.estimator, EST_TRAIN_OPTIONS(.input_fn = shop_input, .steps = 2)));
    est_manual_clock_advance(&f.clock, EST_NS_PER_SEC);
    ok(est_evaluate(f.estimator, EST_EVALUATE_OPTIONS(.input_fn = shop_input, .name = "x"), &second));
    exporter = est_best_exporter(
        "it", OPTIONS(.compare = larger_mae, .compare_user = &a, .event_file_pattern = "eval_x/*.tfevents.*"));
    assert_non_null(exporter);
    make_plain_export(&f);
    after_step(&f, exporter, 1e6, 8, false);
    assert_int_equal(a.n, 2); /* the two results against each other, the better one against this one */
    assert_true((float)est_metrics_get(first, "loss") == (float)a.best[0]);
    assert_true((float)est_metrics_get(second, "loss") == (float)a.current[0]);
    assert_true(a.current[1] == 1e6);
    after_step(&f, exporter, 0.25, 9, false);
    assert_int_equal(a.n, 3);
    assert_true(a.best[2] == 1e6 && a.current[2] == 0.25);
    est_metrics_free(first);
    est_metrics_free(second);
    tear_down(&f, exporter);
}

/* An evaluation with a name writes elsewhere than the default pattern looks. */
TEST(best_does_not_see_named_evaluations)
{
    asked         a = { 0 };
    est_exporter *exporter;
    fixture       f;

    set_up(&f);
    for (int i = 0; i < 2; i++) {
        est_metrics *metrics = NULL;

        ok(est_evaluate(f.estimator, EST_EVALUATE_OPTIONS(.input_fn = shop_input, .name = "x"), &metrics));
        est_metrics_free(metrics);
        ok(est_train(f.estimator, EST_TRAIN_OPTIONS(.input_fn = shop_input, .steps = 1)));
        est_manual_clock_advance(&f.clock, EST_NS_PER_SEC);
    }
    exporter = est_best_exporter("it", OPTIONS(.compare = larger_mae, .compare_user = &a));
    assert_non_null(exporter);
    make_plain_export(&f);
    after(&f, exporter, 0.5, false);
    assert_int_equal(a.n, 0);
    tear_down(&f, exporter);
}

TEST(best_needs_a_loss)
{
    est_exporter *exporter;
    est_metrics  *other = metrics_with("mae", 1, 3);
    fixture       f;

    set_up(&f);
    exporter = est_best_exporter(NULL, OPTIONS(.event_file_pattern = ""));
    assert_non_null(exporter);
    assert_string_equal(est_exporter_name(exporter), "best_exporter");
    after(&f, exporter, 2, false);
    assert_int_equal(est_exporter_export(exporter, f.estimator, f.base, NULL, other, false, NULL),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("the evaluation has no metric loss");
    est_metrics_free(other);
    tear_down(&f, exporter);
}

/* Exports after evaluations with these values of "mae", or not. */
static void after_mae(fixture *f, est_exporter *exporter, double mae, bool exports)
{
    est_metrics *metrics = metrics_with("mae", mae, 4);
    char         path[EST_CHECKPOINT_PATH_MAX];

    ok(est_exporter_export(exporter, f->estimator, f->base, NULL, metrics, false, path));
    assert_int_equal(path[0] != '\0', exports);
    est_manual_clock_advance(&f->clock, EST_NS_PER_SEC);
    est_metrics_free(metrics);
}

/* Of another metric than the loss, in both directions; a number is better than none. The results of evaluations that
 * did not have the metric do not count. */
TEST(best_by_another_metric)
{
    est_exporter *small, *large;
    est_metrics  *evaluated = NULL;
    fixture       f;

    set_up(&f);
    ok(est_evaluate(f.estimator, EST_EVALUATE_OPTIONS(.input_fn = shop_input), &evaluated));
    assert_true(isnan(est_metrics_get(evaluated, "mae")));
    est_metrics_free(evaluated);
    small = est_best_exporter("small", OPTIONS(.metric = "mae"));
    large = est_best_exporter("large", OPTIONS(.metric = "mae", .larger_is_better = true));
    assert_string_equal(large->metric, "mae");
    after_mae(&f, small, NAN, true); /* the first always */
    after_mae(&f, small, 2, true);
    after_mae(&f, small, 3, false);
    after_mae(&f, small, NAN, false);
    after_mae(&f, small, 1, true);
    snprintf(f.base, sizeof f.base, "%s/export/large", f.dir);
    after_mae(&f, large, 2, true);
    after_mae(&f, large, 1, false);
    after_mae(&f, large, 3, true);
    est_exporter_free(small);
    tear_down(&f, large);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

TEST(a_failed_export_is_not_the_best)
{
    est_exporter *exporter;
    est_metrics  *metrics = metrics_with("loss", 1, 3);
    fixture       f;

    set_up(&f);
    exporter = est_best_exporter("it", OPTIONS(0));
    assert_non_null(exporter);
    assert_int_not_equal(
        est_exporter_export(exporter, f.estimator, f.base, "/nowhere/model.ckpt-1", metrics, false, NULL), EST_OK);
    assert_string_equal(shop_list(f.base, f.list), "");
    after(&f, exporter, 2, false);
    assert_string_equal(shop_list(f.base, f.list), "1700000000 ");
    est_metrics_free(metrics);
    tear_down(&f, exporter);
}

TEST(bad_options_are_refused)
{
    assert_null(est_latest_exporter(NULL, OPTIONS(0)));
    est_test_error_has("needs a name");
    assert_null(est_latest_exporter("a/b", OPTIONS(0)));
    est_test_error_has("a/b");
    assert_null(est_final_exporter("it", OPTIONS(.exports_to_keep = -7)));
    est_test_error_has("exports_to_keep is -7");
    assert_null(est_best_exporter("it", NULL));
    est_test_error_has("describe the features of requests");
    est_exporter_free(NULL);
}

TEST(every_allocation_of_making_one_may_fail)
{
    const est_asset                extra = { "a", "b" };
    const est_receiver_alternative other = { .name = "other", .features = EST_STRINGS("a", "b") };
    est_feature_spec               specs[2];
    est_tensor                    *one  = NULL;
    est_exporter                  *made = NULL;

    ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 1 }, &one));
    specs[0]               = shop_specs[0];
    specs[1]               = shop_specs[1];
    specs[1].default_value = one;
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        fault_arm(&f);
        made = est_best_exporter(
            "it", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input        = { .parse        = { specs, 2 },
                                                                                   .alternatives = { &other, 1 } },
                                                                 .eval_input   = { .parse = { specs, 2 } },
                                                                 .train_input  = { .raw = { shop_raw, 3 } },
                                                                 .assets_extra = { &extra, 1 })));
        assert_int_equal(made == NULL, fault_end(&f));
    }
    est_exporter_free(made);
    est_tensor_free(one);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
