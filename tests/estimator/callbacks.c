/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the user gives and that fail without a word: the error names them and is never that of something that
 * went wrong before. Lists with a NULL in them. */
#include <stdio.h>

#include "base/clock.h"
#include "estimator/estimator.h"
#include "support/export_test.h"

#define STALE  "an older failure"
#define SILENT "returned INTERNAL and no message (est_fail gives one)"

static est_estimator *make_of(est_model_fn model_fn, const char *dir)
{
    return EST_TEST_ESTIMATOR(model_fn, dir, "{}", .save_checkpoints_steps = 2);
}

/* --- without a word ----------------------------------------------------------------------------------------------- */

static void refused(est_status status, const char *text)
{
    assert_int_equal(status, EST_INTERNAL);
    est_test_error_has(text);
    assert_null(strstr(est_error_message(), STALE));
}

static est_status silent_hook(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    return EST_INTERNAL;
}

static est_status silent_model(est_model *model, est_mode mode, const void *params)
{
    (void)model;
    (void)mode;
    (void)params;
    return EST_INTERNAL;
}

static est_status hooked_model(est_model *model, est_mode mode, const void *params)
{
    static est_hook own = EST_HOOK(.end = silent_hook);

    est_model_training_hook(model, &own);
    return est_test_model(model, mode, params);
}

static est_status silent_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return EST_INTERNAL;
}

static est_status silent_metrics(est_model *model, void *user)
{
    (void)model;
    (void)user;
    return EST_INTERNAL;
}

static est_status silent_listener(est_saving_listener *listener, est_session *session, int64_t step, bool *stop)
{
    (void)listener;
    (void)session;
    (void)step;
    (void)stop;
    return EST_INTERNAL;
}

static est_status silent_export(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                char path[EST_CHECKPOINT_PATH_MAX])
{
    (void)exporter;
    (void)estimator;
    (void)export_path;
    (void)checkpoint_path;
    (void)metrics;
    (void)is_the_final_export;
    (void)path;
    return EST_INTERNAL;
}

static est_status train(est_estimator *e, est_hooks hooks, est_saving_listeners listeners)
{
    (void)est_fail(EST_NOT_FOUND, STALE);
    return est_train(
        e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = hooks, .saving_listeners = listeners));
}

TEST(silent_train)
{
    est_hook            hook = EST_HOOK(.after_run = silent_hook), quiet = EST_HOOK();
    est_saving_listener listener = EST_SAVING_LISTENER(.after_save = silent_listener);
    char                dir[64];
    est_estimator      *e;

    est_test_dir(dir);
    e = make_of(est_test_model, dir);
    refused(train(e, EST_HOOKS(&quiet, &hook), (est_saving_listeners){ 0 }), "hook 1: after_run " SILENT);
    hook = (est_hook)EST_HOOK(.begin = silent_hook);
    refused(train(e, EST_HOOKS(&hook), (est_saving_listeners){ 0 }), "hook 0: begin " SILENT);
    refused(train(e, (est_hooks){ 0 }, EST_SAVING_LISTENERS(&listener)), "saving listener 0: after_save " SILENT);
    (void)est_fail(EST_NOT_FOUND, STALE);
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = silent_input, .steps = 1)), "input_fn: it " SILENT);
    est_estimator_free(e);
    e = make_of(silent_model, dir);
    refused(train(e, (est_hooks){ 0 }, (est_saving_listeners){ 0 }), "model_fn, mode train: it " SILENT);
    est_estimator_free(e);
    e = make_of(hooked_model, dir);
    refused(train(e, EST_HOOKS(&quiet), (est_saving_listeners){ 0 }), "a hook of the model: end " SILENT);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(silent_rest)
{
    est_hook         hook     = EST_HOOK(.before_run = silent_hook);
    est_exporter     exporter = EST_EXPORTER(.name = "mine", .export_model = silent_export);
    est_exporter    *mine     = &exporter;
    est_predictions *p        = NULL;
    est_metrics     *metrics  = NULL;
    char             dir[64];
    est_estimator   *e;

    est_test_dir(dir);
    e = make_of(est_test_model, dir);
    refused(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&hook)), &metrics),
            "evaluate: hook 0: before_run " SILENT);
    assert_int_equal(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&hook)), &p),
                     EST_OK);
    refused(est_predictions_next(p), "hook 0: before_run " SILENT);
    est_predictions_free(p);
    refused(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 2),
                                   EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = { &mine, 1 }), NULL),
            "exporter mine: export_model " SILENT);
    assert_int_equal(est_estimator_add_metrics(e, silent_metrics, NULL), EST_OK);
    refused(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics),
            "a function of est_estimator_add_metrics " SILENT);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- codes that mean something to the loop ------------------------------------------------------------------------ */

static est_status cancelling(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    return EST_CANCELLED;
}

/* Only a signal makes 75, "start me again". */
TEST(cancelled_by_hook)
{
    est_hook       hook = EST_HOOK(.after_run = cancelling);
    char           dir[64];
    est_estimator *e;
    est_status     status;

    est_test_dir(dir);
    e      = make_of(est_test_model, dir);
    status = train(e, EST_HOOKS(&hook), (est_saving_listeners){ 0 });
    assert_int_equal(status, EST_CANCELLED);
    est_test_error_has("hook 0: after_run returned CANCELLED");
    assert_int_equal(est_exit_code(status), 1);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

typedef struct quitter {
    est_hook hook;
    int      calls;
} quitter;

/* Always at the same step, behind the last checkpoint. */
static est_status quit_at_step_2(est_hook *hook, est_loop *loop)
{
    if (est_loop_global_step(loop) != 2) return EST_OK;
    EST_CONTAINER_OF(hook, quitter, hook)->calls++;
    return EST_ABORTED;
}

TEST(aborted_for_ever)
{
    quitter          q = { .hook = EST_HOOK(.after_run = quit_at_step_2) };
    est_manual_clock clock;
    char             dir[64];
    est_estimator   *e = NULL;

    est_test_dir(dir);
    e = EST_TEST_ESTIMATOR(est_test_model, dir, "{}", .save_checkpoints_steps = 100);
    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5, .hooks = EST_HOOKS(&q.hook))),
        EST_ABORTED);
    est_test_error_has("8 new sessions in a row brought no new step: hook 0: after_run returned ABORTED");
    assert_int_equal(q.calls, 9);
    est_clock_set(NULL);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static void null_in_list(est_status status, const char *text)
{
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    est_test_error_has(text);
}

/* The number is the caller's and the reason is why the hook could not be made. */
TEST(null_hooks)
{
    est_hook         quiet = EST_HOOK();
    est_exporter    *none;
    est_predictions *p       = NULL;
    est_metrics     *metrics = NULL;
    char             dir[64];
    est_estimator   *e;

    est_test_dir(dir);
    e = make_of(est_test_model, dir);
    null_in_list(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1,
                                                .hooks = EST_HOOKS(&quiet, est_stop_at_secs_hook(-1)))),
                 "train: hook 1 is NULL: a stop after -1 seconds");
    null_in_list(est_evaluate(e,
                              EST_EVALUATE_OPTIONS(.input_fn = est_test_input,
                                                   .hooks    = EST_HOOKS(&quiet, est_stop_at_secs_hook(-1))),
                              &metrics),
                 "evaluate: hook 1 is NULL: a stop after -1 seconds");
    null_in_list(est_predict(e,
                             EST_PREDICT_OPTIONS(.input_fn = est_test_input,
                                                 .hooks    = EST_HOOKS(&quiet, est_stop_at_secs_hook(-1))),
                             &p),
                 "predict: hook 1 is NULL: a stop after -1 seconds");
    none = est_latest_exporter("x/y", NULL);
    null_in_list(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 1),
                                        EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = { &none, 1 }), NULL),
                 "eval spec: exporter 0 is NULL: exporter x/y");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- structs of functions that their macros did not make ---------------------------------------------------------- */

static int hook_calls;

static est_status count_call(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    hook_calls++;
    return EST_OK;
}

static est_status model_of_unmade_hook(est_model *model, est_mode mode, const void *params)
{
    static est_hook unmade = { .end = silent_hook };

    est_model_training_hook(model, &unmade);
    return est_test_model(model, mode, params);
}

static void refused_struct(est_status status, const char *error)
{
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), error);
}

TEST(unmade_structs)
{
    est_hook            made = EST_HOOK(.after_run = count_call), unmade = { .after_run = count_call };
    est_saving_listener listener = { .after_save = silent_listener }, other = EST_SAVING_LISTENER();
    est_exporter        exporter = { .name = "mine", .export_model = silent_export }, *mine = &exporter;
    char                dir[64];
    est_estimator      *e;

    est_test_dir(dir);
    e = make_of(est_test_model, dir);
    refused_struct(train(e, EST_HOOKS(&made, &unmade), (est_saving_listeners){ 0 }),
                   "train: hook 1: est_hook: struct_size is 0; make it with EST_HOOK(...)");
    refused_struct(
        train(e, EST_HOOKS((est_hook *)(void *)&other), (est_saving_listeners){ 0 }),
        "train: hook 0: est_saving_listener of 40 bytes found, est_hook of at most 88 bytes expected; make it with "
        "EST_HOOK(...)");
    refused_struct(
        train(e, (est_hooks){ 0 }, EST_SAVING_LISTENERS(&listener)),
        "train: saving listener 0: est_saving_listener: struct_size is 0; make it with EST_SAVING_LISTENER(...)");
    refused_struct(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 2),
                                          EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = { &mine, 1 }), NULL),
                   "eval spec: exporter 0: est_exporter: struct_size is 0; make it with EST_EXPORTER(...)");
    refused_struct(train(e, (est_hooks){ NULL, 1 }, (est_saving_listeners){ 0 }),
                   "train: hook: n is 1 and data is NULL");
    assert_int_equal(hook_calls, 0);
    est_estimator_free(e);
    e = make_of(model_of_unmade_hook, dir);
    assert_int_equal(train(e, (est_hooks){ 0 }, (est_saving_listeners){ 0 }), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "make it with EST_HOOK(...)"));
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A hook of a header that ended with after_run: what lies behind it is not read. */
TEST(older_hook)
{
    struct {
        est_hook hook;
        double   own;
    } older = { .hook = EST_HOOK(.after_run = count_call, .end = silent_hook, .idle = true) };
    char           dir[64];
    est_estimator *e;

    older.hook.struct_size -= sizeof(est_hook) - offsetof(est_hook, end);
    est_test_dir(dir);
    e          = make_of(est_test_model, dir);
    hook_calls = 0;
    assert_int_equal(train(e, EST_HOOKS(&older.hook), (est_saving_listeners){ 0 }), EST_OK);
    assert_int_equal(hook_calls, 2);
    est_hook_free(&older.hook);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}
