/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping: results read back from event files, each rule at its edge, when it looks, and what it says. */
#include <limits.h>

#include "estoc/early_stopping.h"
#include "support/fault_loop.h"
#include "train/eval_results.h"
#include "train/events_test.h"
#include "train/loop_test.h"

static est_manual_clock clock_at;

static int set_up(void **state)
{
    est_manual_clock_init(&clock_at, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock_at.clock);
    return keep_log(state);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

/* A new event file in the directory with this value, and a loss unless the name is "loss". */
static void add_result(const char *dir, int64_t step, const char *name, double value)
{
    est_summary_writer *writer;

    assert_ok(est_summary_writer_create(dir, "", &writer));
    est_summary_begin(writer, step);
    if (strcmp(name, "loss") != 0) est_summary_add_scalar(writer, "loss", 0.5);
    est_summary_add_scalar(writer, name, value);
    est_summary_end(writer);
    assert_ok(est_summary_writer_status(writer));
    est_summary_writer_free(writer);
}

/* "step: name=value name=value; ..." */
static const char *results_text(const est_eval_results *results)
{
    static char text[4096];
    size_t      n = 0;

    text[0] = '\0';
    for (int i = 0; i < results->n; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d:", i > 0 ? "; " : "", (int)results->data[i].step);
        for (int k = 0; k < results->data[i].n; k++) {
            n += (size_t)snprintf(text + n, sizeof text - n, " %s=%g", results->data[i].metrics[k].name,
                                  results->data[i].metrics[k].value);
        }
    }
    return text;
}

static void expect_results(const char *dir, const char *want)
{
    est_eval_results results = { 0 };

    assert_ok(est_eval_results_read(&results, dir));
    assert_string_equal(results_text(&results), want);
    est_eval_results_clear(&results);
}

TEST(results, .setup_func = set_up)
{
    est_eval_results    results = { 0 };
    est_summary_writer *writer;
    est_wire_writer     w = { 0 };
    est_event_writer   *events;
    est_event           event = { .wall_time = 1, .step = 70, .kind = EST_EVENT_SUMMARY };

    expect_results(at("nowhere"), "");
    assert_ok(est_dir_create(at("results")));
    expect_results(at("results"), "");
    add_result(at("results"), 100, "accuracy", 0.25);
    add_result(at("results"), 300, "accuracy", 0.75);
    add_result(at("results"), 200, "accuracy", 0.5);   /* in the order of steps */
    add_result(at("results"), 100, "accuracy", 0.125); /* a later file wins */
    add_result(at("results"), 300, "rmse", 9);         /* and adds */
    put_bytes(at("results/other.txt"), "events", 6);
    expect_results(at("results"), "100: loss=0.5 accuracy=0.125; 200: loss=0.5 accuracy=0.5; "
                                  "300: loss=0.5 accuracy=0.75 rmse=9");

    /* Only scalars count; also those of the second form. */
    assert_ok(est_summary_writer_create(at("kinds"), "", &writer));
    est_summary_begin(writer, 5);
    est_summary_add_text(writer, "text", (est_str){ "x", 1 });
    est_summary_add_histogram(writer, "histogram", EST_F32, (float[]){ 1 }, 1);
    est_summary_end(writer);
    est_summary_session_log(writer, EST_SESSION_START, "", 9);
    est_summary_writer_free(writer);
    expect_results(at("kinds"), "");
    assert_ok(est_event_writer_create(at("kinds/events.out.tfevents.2000000000.x"), 1, &events));
    est_summary_put_scalar_v2(&w, "two", 2);
    est_summary_put_scalar(&w, "nan", NAN);
    event.bytes = (est_str){ (const char *)w.data, w.size };
    assert_ok(est_event_write(events, &event));
    assert_ok(est_event_writer_close(events));
    est_wire_writer_clear(&w);
    expect_results(at("kinds"), "70: two=2 nan=nan");
    assert_int_equal(est_eval_results_read(&results, at("results/other.txt")), EST_FAILED_PRECONDITION);
    est_eval_results_clear(&results);
}

TEST(damaged_results, .setup_func = set_up)
{
    const char         *path = at("damaged/events.out.tfevents.1700000002.x");
    char               *bytes;
    size_t              size;
    est_summary_writer *writer;

    assert_ok(est_summary_writer_create(at("damaged"), "", &writer));
    for (int step = 1; step <= 3; step++) {
        est_summary_begin(writer, step);
        est_summary_add_scalar(writer, "a", step);
        est_summary_end(writer);
    }
    est_summary_flush(writer);
    assert_ok(est_file_read(est_summary_writer_path(writer), &bytes, &size));
    assert_ok(est_file_remove(est_summary_writer_path(writer)));
    est_summary_writer_free(writer);
    put_bytes(path, bytes, size - 3); /* the last one is only half there: it is still being written */
    expect_results(at("damaged"), "1: a=1; 2: a=2");
    assert_false(log_has("skipping the rest of a damaged event file"));
    bytes[size - 50] ^= 1; /* within the second or third */
    put_bytes(path, bytes, size);
    add_result(at("damaged"), 9, "loss", 9); /* the others are still read */
    {
        est_eval_results results = { 0 };

        assert_ok(est_eval_results_read(&results, at("damaged")));
        log_expect("skipping the rest of a damaged event file");
        assert_true(results.n >= 2 && results.n < 4);
        assert_true(results.data[0].step == 1 && results.data[results.n - 1].step == 9);
        est_eval_results_clear(&results);
    }
    est_free(bytes);
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

/* Whether a training of a few steps is stopped by the hook, which is freed. */
static bool stops(est_hook *hook)
{
    trainer   t;
    est_loop *loop;
    bool      stopped;

    assert_non_null(hook);
    make_trainer(&t, 10, 1);
    t.spec.model_dir = at("run");
    t.spec.hooks     = EST_HOOKS(hook);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_ok(est_loop_run(loop));
    stopped = strcmp(est_loop_stop_reason(loop), "early stopping") == 0;
    assert_int_equal(est_loop_runs(loop), stopped ? 1 : 5);
    est_loop_free(loop);
    est_hook_free(hook);
    trainer_free(&t);
    return stopped;
}

TEST(thresholds, .setup_func = set_up)
{
    assert_false(stops(est_stop_if_higher_hook("accuracy", 0, NULL))); /* no evaluation yet */
    add_result(at("run/eval"), 100, "accuracy", 0.5);
    add_result(at("run/eval"), 200, "accuracy", 0.75);
    add_result(at("run/eval"), 300, "accuracy", 0.25);
    assert_true(stops(est_stop_if_higher_hook("accuracy", 0.7, NULL)));
    log_expect("At step 200, metric \"accuracy\" has value 0.75 which is higher than the configured threshold "
               "(0.7) for early stopping.");
    log_expect("Requesting early stopping at global step 1");
    assert_false(stops(est_stop_if_higher_hook("accuracy", 0.75, NULL))); /* above, not at */
    assert_true(stops(est_stop_if_lower_hook("accuracy", 0.26, NULL)));
    log_expect("is lower than the configured threshold (0.26)");
    assert_false(stops(est_stop_if_lower_hook("accuracy", 0.25, NULL)));
    assert_true(stops(est_stop_if_higher_hook("accuracy", 0.7, EST_EARLY_STOPPING(.min_steps = 200))));
    assert_false(stops(est_stop_if_higher_hook("accuracy", 0.7, EST_EARLY_STOPPING(.min_steps = 201))));
    assert_false(stops(est_stop_if_higher_hook("accuracy", 0.1, EST_EARLY_STOPPING(.eval_dir = at("other")))));
    add_result(at("other"), 1, "accuracy", 1);
    assert_true(stops(est_stop_if_higher_hook("accuracy", 0.9, EST_EARLY_STOPPING(.eval_dir = at("other")))));
}

TEST(no_progress, .setup_func = set_up)
{
    const char                       *dir     = at("progress");
    const est_early_stopping_options *options = EST_EARLY_STOPPING(.eval_dir = dir);

    add_result(dir, 100, "rmse", 5);
    add_result(dir, 200, "rmse", 3);
    add_result(dir, 300, "rmse", 3); /* the same is not better */
    add_result(dir, 450, "rmse", 4);
    assert_false(stops(est_stop_if_no_decrease_hook("rmse", 251, options)));
    assert_true(stops(est_stop_if_no_decrease_hook("rmse", 250, options)));
    assert_true(
        log_has("No decrease in metric \"rmse\" for 250 steps, which is greater than or equal to max steps (250) "
                "configured for early stopping."));
    assert_true(stops(est_stop_if_no_increase_hook("rmse", 350, options)));
    log_expect("No increase in metric \"rmse\" for 350 steps");
    assert_false(stops(est_stop_if_no_increase_hook("rmse", 351, options)));
    assert_false(
        stops(est_stop_if_no_increase_hook("rmse", 151, EST_EARLY_STOPPING(.eval_dir = dir, .min_steps = 300))));
    assert_true(
        stops(est_stop_if_no_decrease_hook("rmse", 150, EST_EARLY_STOPPING(.eval_dir = dir, .min_steps = 300))));
    add_result(dir, 460, "rmse", 2); /* a patience that was over once stays over */
    assert_true(stops(est_stop_if_no_decrease_hook("rmse", 250, options)));
}

TEST(missing_metric, .setup_func = set_up)
{
    trainer   t;
    est_hook *hook = est_stop_if_higher_hook("accuracy", 1, EST_EARLY_STOPPING(.eval_dir = at("missing")));

    add_result(at("missing"), 40, "rmse", 1);
    make_trainer(&t, 4, 1);
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_NOT_FOUND,
                 "looks for the metric 'accuracy', but the evaluation at step 40");
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_NOT_FOUND, "has 'loss', 'rmse'");
    est_hook_free(hook);
    hook = est_stop_if_higher_hook("accuracy", 1, EST_EARLY_STOPPING(.eval_dir = at("missing"), .min_steps = 41));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    est_hook_free(hook);
    trainer_free(&t);
}

/* --- when it looks ------------------------------------------------------------------------------------------------ */

static est_status ask(void *user, est_loop *loop, bool *stop)
{
    int *asks = user;

    note("%d ", (int)est_loop_global_step(loop));
    *stop = ++*asks == 3;
    return *asks == 100 ? est_fail(EST_INTERNAL, "no answer") : EST_OK;
}

static est_status pass_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    est_manual_clock_advance(&clock_at, 10 * EST_NS_PER_SEC);
    return EST_OK;
}

TEST(timing, .setup_func = set_up)
{
    trainer   t;
    est_hook  ticking = EST_HOOK(.before_run = pass_time);
    est_hook *hook;
    int       asks = 0;

    make_trainer(&t, 2, 50);
    hook = est_early_stopping_hook(ask, &asks, NULL); /* every minute */
    assert_ok(run_hooks(&t, EST_HOOKS(&ticking, hook)));
    expect_happened("init 1 7 13 ");
    est_hook_free(hook);
    asks = 0;
    hook = est_early_stopping_hook(ask, &asks, EST_EARLY_STOPPING(.run_every_secs = 20));
    assert_ok(run_hooks(&t, EST_HOOKS(&ticking, hook)));
    expect_happened("init 1 3 5 ");
    est_hook_free(hook);
    asks = 0;
    hook = est_early_stopping_hook(ask, &asks, EST_EARLY_STOPPING(.run_every_steps = 4));
    assert_ok(run_hooks(&t, EST_HOOKS(&ticking, hook)));
    expect_happened("init 1 5 9 ");
    asks = 99;
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_INTERNAL, "no answer");
    est_hook_free(hook);
    trainer_free(&t);
}

static void expect_refused(est_hook *hook, const char *text)
{
    assert_null(hook);
    if (strstr(est_error_message(), text) == NULL) fail_msg("'%s' does not say '%s'", est_error_message(), text);
}

TEST(refused, .setup_func = set_up)
{
    expect_refused(est_early_stopping_hook(NULL, NULL, NULL), "needs a should_stop function");
    expect_refused(est_stop_if_lower_hook(NULL, 1, NULL), "name of a metric");
    expect_refused(est_stop_if_lower_hook("", 1, NULL), "name of a metric");
    expect_refused(est_stop_if_no_increase_hook("a", 0, NULL), "after 0 steps");
    expect_refused(est_stop_if_no_increase_hook("a", 1, EST_EARLY_STOPPING(.run_every_secs = 1, .run_every_steps = 1)),
                   "set exactly one of them above 0");
    expect_refused(est_stop_if_higher_hook("a", 1, EST_EARLY_STOPPING(.run_every_secs = -1)), "run_every_secs -1");
    expect_refused(est_stop_if_higher_hook("a", 1, &(est_early_stopping_options){ .min_steps = 1 }),
                   "EST_EARLY_STOPPING");
}

TEST(memory, .setup_func = set_up)
{
    add_result(at("memory/eval"), 1, "accuracy", 0.5);
    add_result(at("memory/eval"), 2, "accuracy", 0.25);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        trainer    t;
        est_hook  *hook = NULL;
        est_status status;

        fault_arm(&f);
        status = trainer_try(&t, 2, 1);
        if (status == EST_OK) {
            t.spec.model_dir = at("memory");
            hook             = est_stop_if_no_increase_hook("accuracy", 1, NULL);
            status           = hook != NULL ? run_hooks(&t, EST_HOOKS(hook)) : EST_RESOURCE_EXHAUSTED;
        }
        est_hook_free(hook);
        trainer_free(&t);
        fault_check_lenient(&f, status);
        happened[0] = '\0';
    }
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
