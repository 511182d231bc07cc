/* SPDX-License-Identifier: Apache-2.0
 *
 * train_and_evaluate: when it evaluates in local mode, what comes out, what it refuses. tests/estimator/evaluator.c has
 * the evaluator. */
#include "estimator/runs_test.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "support/log_test.h"
#include "train/lock.h"

/* As TensorFlow logs it: input functions of a strategy get its context; the training has one here, evaluations none. */
TEST(strategy_is_logged)
{
    char           dir[64];
    est_estimator *e;
    est_strategy  *s = NULL;

    est_test_dir(dir);
    log_keep(EST_LOG_INFO);
    assert_int_equal(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &s), EST_OK);
    e = EST_TEST_ESTIMATOR(est_test_model, dir, "{}", .train_distribute = s);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 4),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_OK);
    log_release();
    assert_int_equal(log_count(EST_LOG_INFO, "The `input_fn` accepts an `input_context` which will be given by "
                                             "DistributionStrategy"),
                     1);
    assert_int_equal(log_count(EST_LOG_INFO, "Not using Distribute Coordinator."), 2); /* of the config, and here */
    est_estimator_free(e);
    est_strategy_free(s);
    est_test_dir_remove(dir);
}

TEST(after_every_checkpoint)
{
    char           dir[64];
    est_estimator *e;
    est_metrics   *m = NULL;

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                         EST_EVAL_SPEC(.input_fn = est_test_input, .steps = EST_FOREVER, .throttle_secs = EST_OFF), &m),
                     EST_OK);
    assert_int_equal(est_metrics_global_step(m), 35);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 10, 20, 30, 35 }, 4); /* not the one of step 0 */

    /* Nothing to train: no evaluation, no result. */
    m = (est_metrics *)dir;
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), &m),
                     EST_OK);
    assert_null(m);

    /* Resumed: the save at its beginning is not evaluated again. */
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 45),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF), &m),
                     EST_OK);
    est_metrics_free(m);
    assert_steps(dir, (int64_t[]){ 10, 20, 30, 35, 45 }, 5);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(throttled)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL), /* 600 s */
                     EST_OK);
    assert_steps(dir, (int64_t[]){ 10, 35 }, 2); /* the first always, and the last always */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- defaults, by a clock that moves only when someone sleeps ----------------------------------------------------- */

static est_status long_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_repeat(d, 13), out); /* of 8 batches */
}

static est_status endless_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(context->mode == EST_EVAL ? est_dataset_repeat(d, EST_FOREVER) : d, out);
}

/* 0 is all of the input, as for est_evaluate; of an input without an end it is refused before the first step. */
TEST(steps)
{
    static const struct {
        int64_t steps, batches;
    } cases[] = { { 0, 104 }, { EST_FOREVER, 104 }, { 100, 100 } };
    char           dir[64];
    est_estimator *e;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        watcher w = WATCHER(.n = 0);

        est_test_dir(dir);
        e = make(dir, 10, "{}");
        assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                                EST_EVAL_SPEC(.input_fn = long_input, .steps = cases[i].steps,
                                                              .hooks = EST_HOOKS(&w.hook)),
                                                NULL),
                         EST_OK);
        assert_int_equal(w.n, 1);
        assert_int_equal(w.batches, cases[i].batches);
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = endless_input), NULL),
                     EST_INVALID_ARGUMENT);
    est_test_error_has("eval spec: steps is 0, until the input ends, and the input repeats for ever; set steps");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_manual_clock standing;

/* Just below 600 s pass before the save of step 20, and the rest before that of step 30. */
static est_status pass_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_global_step(loop) == 15) est_manual_clock_advance(&standing, 600 * EST_NS_PER_SEC - 1);
    if (est_loop_global_step(loop) == 25) est_manual_clock_advance(&standing, 1);
    return EST_OK;
}

TEST(default_throttle)
{
    char           dir[64];
    est_hook       pass = EST_HOOK(.after_run = pass_time);
    est_estimator *e;

    est_test_dir(dir);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 35, .hooks = EST_HOOKS(&pass)),
                         EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_OK);
    est_clock_set(NULL);
    assert_steps(dir, (int64_t[]){ 10, 30, 35 }, 3);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_status missing_files(const est_input_context *context, void *user, est_dataset **out)
{
    (void)user;
    if (context->mode != EST_TRAIN) return est_test_input(context, NULL, out);
    return est_dataset_finish(est_dataset_tfrecords(est_dataset_files("/no/such/file"), NULL), out);
}

/* Files that are not there are told with the spec that names them, and before anything is made of them. */
TEST(missing_train_files)
{
    char           dir[64], lock[128];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = missing_files),
                                            EST_EVAL_SPEC(.input_fn = est_test_input), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("train spec: no file matches /no/such/file");
    snprintf(lock, sizeof lock, "%s/trainer.lock", dir);
    assert_false(est_file_exists(lock));
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* The directories of an exporter. */
static int exports(const char *dir, const char *name)
{
    char           path[128];
    struct dirent *entry;
    DIR           *open;
    int            n = 0;

    snprintf(path, sizeof path, "%s/export/%s", dir, name);
    open = opendir(path);
    if (open == NULL) return 0;
    while ((entry = readdir(open)) != NULL) n += entry->d_name[0] != '.';
    closedir(open);
    return n;
}

/* The last step is evaluated when it is saved, before anyone knows that the input ends there. The final exporter is
 * asked again then; one that has exported this checkpoint already is not. */
TEST(final_export_after_the_end_of_input)
{
    char                dir[64];
    int64_t             passes = 2;
    const est_component raw[]  = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *final  = est_final_exporter(
               "final", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_exporter *latest = est_latest_exporter(
        "latest", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_estimator *e;

    assert_non_null(final);
    assert_non_null(latest);
    est_test_dir(dir);
    e = make(dir, 8, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &passes),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF,
                                                          .exporters = EST_EXPORTERS(final, latest)),
                                            NULL),
                     EST_OK);
    assert_steps(dir, (int64_t[]){ 8, 16 }, 2);
    assert_int_equal(exports(dir, "final"), 1);
    assert_int_equal(exports(dir, "latest"), 2); /* one a checkpoint */
    est_exporter_free(final);
    est_exporter_free(latest);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A master evaluates after checkpoints, a chief without an evaluator at the end alone, and once: a finished job that is
 * started again has been evaluated. */
TEST(alone_in_a_cluster)
{
    static const char *const tasks[] = {
        "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
        "{\"cluster\": {\"master\": [\"a:1\"]}, \"task\": {\"type\": \"master\", \"index\": 0}}",
    };
    static const int64_t steps[] = { 12, 10, 12 };

    for (int i = 0; i < 2; i++) {
        char           dir[64];
        est_estimator *e;
        est_metrics   *m = NULL;

        est_test_dir(dir);
        e = make(dir, 10, tasks[i]);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 12),
                                                    EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF),
                                                    &m),
                             EST_OK);
            assert_int_equal(est_metrics_global_step(m), again == 0 ? 12 : -1);
            est_metrics_free(m);
        }
        assert_steps(dir, i == 0 ? steps : steps + 1, i == 0 ? 1 : 2);
        await_file(dir, "training_done");
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

/* A training without a batch is an error, and its model is not published as if it were trained. */
TEST(no_batch)
{
    char                dir[64], eval[128];
    int64_t             none  = 0;
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *final = est_final_exporter(
              "final", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_estimator *e;

    est_test_dir(dir);
    snprintf(eval, sizeof eval, "%s/eval", dir);
    e = make(dir, 10, "{}");
    assert_int_equal(
        est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &none, .max_steps = 10),
                               EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(final)), NULL),
        EST_INVALID_ARGUMENT);
    est_test_error_has("no batch to train with");
    assert_false(est_file_exists(eval));
    assert_int_equal(exports(dir, "final"), 0);
    est_exporter_free(final);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A second trainer is refused before it publishes anything, also when only an evaluation was left to be made. */
TEST(second_trainer)
{
    char                dir[64], eval[128];
    const est_component raw[]  = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *latest = est_latest_exporter(
              "latest", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_dir_lock  *lock = NULL;
    est_estimator *e;

    est_test_dir(dir);
    snprintf(eval, sizeof eval, "%s/eval", dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 10)), EST_OK);
    remove_mark(dir); /* as if stopped in the last evaluation */
    for (int i = 0; i < 2; i++) {
        est_status status;

        if (i == 0) assert_int_equal(est_dir_lock_take(dir, &lock), EST_OK);
        status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                        EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(latest)),
                                        NULL);
        assert_int_equal(status, i == 0 ? EST_FAILED_PRECONDITION : EST_OK);
        assert_int_equal(est_file_exists(eval), i == 1);
        assert_int_equal(exports(dir, "latest"), i);
        est_dir_lock_release(lock);
        lock = NULL;
    }
    est_exporter_free(latest);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A signal during an evaluation: the hooks are told of the end, and the status says that the step is saved. */
typedef struct end_counter {
    est_hook hook;
    int      ends;
} end_counter;

static est_status count_end(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, end_counter, hook)->ends++;
    return EST_OK;
}

static est_status raise_term(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    raise(SIGTERM);
    return EST_OK;
}

TEST(signal_in_evaluation)
{
    char           dir[64];
    end_counter    ends = { .hook = EST_HOOK(.end = count_end) };
    est_hook       term = EST_HOOK(.after_run = raise_term);
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(
                         e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 50, .hooks = EST_HOOKS(&ends.hook)),
                         EST_EVAL_SPEC(.input_fn = est_test_input, .hooks = EST_HOOKS(&term)), NULL),
                     EST_CANCELLED);
    est_test_error_has("stopped and saved at step 10");
    assert_int_equal(ends.ends, 1);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- what comes out ----------------------------------------------------------------------------------------------- */

TEST(export_paths)
{
    const est_component        raw[]   = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    const est_exporter_options options = { .struct_size = sizeof options,
                                           .saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } }) };
    est_exporter              *final   = est_final_exporter("final", &options), *best;
    est_metrics               *m       = NULL;
    est_estimator             *e;
    char                       dir[64], want[100];

    est_test_dir(dir);
    best = est_best_exporter("best", &options);
    assert_true(final != NULL && best != NULL);
    e = make(dir, 10, "{}");
    assert_int_equal(
        est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                               EST_EVAL_SPEC(.input_fn = est_test_input, .exporters = EST_EXPORTERS(final, best)), &m),
        EST_OK);
    for (int i = 0; i < 2; i++) {
        snprintf(want, sizeof want, "%s/export/%s/", dir, i == 0 ? "final" : "best");
        assert_non_null(est_metrics_export_path(m, i));
        assert_memory_equal(est_metrics_export_path(m, i), want, strlen(want));
        assert_true(est_dir_exists(est_metrics_export_path(m, i)));
    }
    assert_null(est_metrics_export_path(m, -1));
    assert_null(est_metrics_export_path(m, 2));
    assert_null(est_metrics_export_path(NULL, 0));
    est_metrics_free(m);

    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_OK);
    assert_null(est_metrics_export_path(m, 0)); /* an evaluation exports nothing */
    est_metrics_free(m);
    est_exporter_free(final);
    est_exporter_free(best);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static bool never(void *user, const est_metrics *best, const est_metrics *current)
{
    (void)user;
    (void)best;
    (void)current;
    return false;
}

/* An exporter that has nothing to say after the last evaluation has no path, whatever it did before. */
TEST(no_export_path)
{
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *best  = est_best_exporter(
               "best", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } }), .compare = never));
    est_metrics   *m = NULL;
    est_estimator *e;
    char           dir[64];

    assert_non_null(best);
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 20),
                                            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF,
                                                          .exporters = EST_EXPORTERS(best)),
                                            &m),
                     EST_OK);
    assert_int_equal(exports(dir, "best"), 1); /* of step 10 */
    assert_int_equal(est_metrics_global_step(m), 20);
    assert_null(est_metrics_export_path(m, 0));
    est_metrics_free(m);
    est_exporter_free(best);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- found before training ---------------------------------------------------------------------------------------- */

static est_status missing_file_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    return est_dataset_finish(est_dataset_lines(est_dataset_files(user), NULL), out);
}

static est_status broken_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_NOT_FOUND, "the moon is not there");
}

typedef struct pulls {
    int made, pulled;
} pulls;

static est_status pull(void *state, est_field *element)
{
    const float zeros[2] = { 0 };

    if (++((pulls *)state)->pulled > 1) return EST_OUT_OF_RANGE;
    EST_TRY(est_tensor_f32(EST_SHAPE(1, 2), zeros, &element[0].values));
    return est_tensor_f32(EST_SHAPE(1, 1), zeros, &element[1].values);
}

static est_status generated_input(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component components[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(1, 2) },
                                         { .name = "y", .dtype = EST_F32, .shape = EST_SHAPE(1, 1) } };

    (void)context;
    ((pulls *)user)->made++;
    return est_dataset_finish(
        est_dataset_generator((est_components){ components, 2 }, EST_GENERATOR(.next = pull, .user = user)), out);
}

/* The first step: by then the input of evaluations has been looked at, and nothing has been pulled from it. */
typedef struct first_step {
    est_hook     hook;
    const pulls *pulls;
} first_step;

static est_status look_at_first_step(est_hook *hook, est_loop *loop)
{
    const pulls *p = EST_CONTAINER_OF(hook, first_step, hook)->pulls;

    if (est_loop_runs(loop) > 0) return EST_OK;
    assert_int_equal(p->made, 1);
    assert_int_equal(p->pulled, 0);
    return EST_OK;
}

TEST(eval_input_is_looked_at_first)
{
    pulls          p     = { 0 };
    first_step     first = { .hook = EST_HOOK(.before_run = look_at_first_step), .pulls = &p };
    char           dir[64], missing[100], lock[100];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 10, "{}");
    snprintf(lock, sizeof lock, "%s/trainer.lock", dir);
    snprintf(missing, sizeof missing, "%s/test-*.txt", dir);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = missing_file_input, .input_user = missing), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("eval spec: no file matches");
    est_test_error_has(missing);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = broken_input), NULL),
                     EST_NOT_FOUND);
    est_test_error_has("eval spec: input_fn: the moon is not there");
    assert_int_equal(est_file_remove(lock), EST_OK);
    assert_int_equal(rmdir(dir), 0); /* nothing else was done */
    assert_int_equal(est_train_and_evaluate(
                         e,
                         EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 10, .hooks = EST_HOOKS(&first.hook)),
                         EST_EVAL_SPEC(.input_fn = generated_input, .input_user = &p), NULL),
                     EST_OK);
    assert_int_equal(p.made, 1); /* the first evaluation reads what was looked at */
    assert_true(p.pulled > 0);
    assert_int_equal(est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = broken_input, .max_steps = 10),
                                            EST_EVAL_SPEC(.input_fn = broken_input), NULL),
                     EST_OK); /* all steps are made: nothing is asked for */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void refused(est_estimator *e, const est_train_spec *train, const est_eval_spec *eval, const char *text)
{
    assert_int_equal(est_train_and_evaluate(e, train, eval, NULL), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), text);
}

#define EVAL_SPEC(...)                                                                                                 \
    {                                                                                                                  \
        .struct_size = sizeof(est_eval_spec), .input_fn = est_test_input, __VA_ARGS__                                  \
    }
#define WRITE_SECS(n) "; write a number of seconds, 0 for " n " or EST_OFF for none"

TEST(refused_specs)
{
    const est_component raw[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2) } };
    est_exporter       *one   = est_final_exporter(
                "one", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_exporter *two = est_final_exporter(
        "one", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { raw, 1 } })));
    est_exporter *const same[] = { one, two }, *const none[] = { NULL };
    est_exporter *const empty[] = { &(est_exporter)EST_EXPORTER(.name = "empty") };
    est_hook nothing = EST_HOOK(), *const no_hook[] = { NULL };
    est_saving_listener *const no_listener[] = { NULL };
    const est_train_spec      *train         = EST_TRAIN_SPEC(.input_fn = est_test_input);
    const struct {
        est_eval_spec spec;
        const char   *error;
    } evals[] = {
        { EVAL_SPEC(.steps = -7), "eval spec: steps is -7; write a number of batches, or 0 for all of the input" },
        { EVAL_SPEC(.name = "a/b"), "eval spec: name is a/b; it is part of a directory's: leave out the /" },
        { EVAL_SPEC(.throttle_secs = -7), "eval spec: throttle_secs is -7" WRITE_SECS("600") },
        { EVAL_SPEC(.throttle_secs = NAN), "eval spec: throttle_secs is nan" WRITE_SECS("600") },
        { EVAL_SPEC(.start_delay_secs = -0.5), "eval spec: start_delay_secs is -0.5" WRITE_SECS("120") },
        { EVAL_SPEC(.start_delay_secs = INFINITY), "eval spec: start_delay_secs is inf" WRITE_SECS("120") },
        { EVAL_SPEC(.hooks = { no_hook, 1 }), "eval spec: hook 0 is NULL" },
        { EVAL_SPEC(.exporters = { none, 1 }), "eval spec: exporter 0 is NULL" },
        { EVAL_SPEC(.exporters = { empty, 1 }), "eval spec: exporter 0 has no export_model" },
        { EVAL_SPEC(.exporters = { same, 2 }),
          "eval spec: two exporters are called one; give each a name of its own, as its directory has" },
    };
    char           dir[64];
    est_estimator *e;

    assert_true(one != NULL && two != NULL);
    est_test_dir(dir);
    e = make(dir, 10, "{}");
    refused(e, NULL, EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: input_fn is required");
    refused(e, train, NULL, "eval spec: input_fn is required");
    assert_int_equal(est_train_and_evaluate(e, train, &(est_eval_spec){ 0 }, NULL), EST_INVALID_ARGUMENT);
    est_test_error_has("make it with EST_EVAL_SPEC(...)");
    refused(e, EST_TRAIN_SPEC(.max_steps = 1), EST_EVAL_SPEC(.input_fn = est_test_input),
            "train spec: input_fn is required");
    refused(e, train, EST_EVAL_SPEC(.steps = 1), "eval spec: input_fn is required");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = -1), EST_EVAL_SPEC(.input_fn = est_test_input),
            "train spec: max_steps is -1; write a number above 0, or 0 for no limit");
    assert_int_equal(est_fail(EST_INVALID_ARGUMENT, "it was not made"), EST_INVALID_ARGUMENT);
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .hooks = EST_HOOKS(&nothing, NULL)),
            EST_EVAL_SPEC(.input_fn = est_test_input),
            "train spec: hook 1 is NULL: it was not made (the last error of this thread before this call)");
    refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .saving_listeners = { no_listener, 1 }),
            EST_EVAL_SPEC(.input_fn = est_test_input), "train spec: saving listener 0 is NULL");
    for (size_t i = 0; i < sizeof evals / sizeof evals[0]; i++) {
        est_error_clear();
        refused(e, train, &evals[i].spec, evals[i].error);
    }
    est_exporter_free(one);
    est_exporter_free(two);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(refused_tasks)
{
    const est_train_spec *train = EST_TRAIN_SPEC(.input_fn = est_test_input);
    char                  dir[64];
    est_estimator        *e;

    est_test_dir(dir);
    e = make(dir, 10, "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"evaluator\", \"index\": 1}}");
    refused(e, train, EST_EVAL_SPEC(.input_fn = est_test_input),
            "TF_CONFIG: task.index is 1; there is only one evaluator, number 0");
    est_estimator_free(e);
    e = make(dir, 10,
             "{\"cluster\": {\"chief\": [\"a:1\"], \"zoo\": [\"b:1\"]}, \"task\": {\"type\": \"zoo\", \"index\": 0}}");
    refused(
        e, train, EST_EVAL_SPEC(.input_fn = est_test_input),
        "TF_CONFIG: task.type is \"zoo\"; train_and_evaluate knows what to do as \"chief\", \"evaluator\", \"master\", "
        "\"ps\" and \"worker\"");
    est_estimator_free(e);
    e = make(dir, 10,
             "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}");
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input)), EST_FAILED_PRECONDITION);
    est_test_error_has("this process is a ps task, which does not train");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* Tasks that do not know each other's directory do not begin. */
TEST(refused_without_directory)
{
    static const char *const types[] = { "chief", "ps", "evaluator" };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        est_estimator *e = NULL;
        char           config[256], error[256];

        snprintf(config, sizeof config,
                 "{\"cluster\": {\"chief\": [\"a:1\"], \"ps\": [\"b:1\"]}, \"task\": {\"type\": \"%s\", \"index\": 0}}",
                 types[i]);
        snprintf(error, sizeof error,
                 "%s 0 has no model_dir; set it, for all tasks of the cluster, to one directory that all of them see",
                 types[i]);
        e = est_test_make(est_test_model, EST_ESTIMATOR(.config = EST_RUN_CONFIG(.cluster_json = config)));
        refused(e, EST_TRAIN_SPEC(.input_fn = est_test_input), EST_EVAL_SPEC(.input_fn = est_test_input), error);
        est_test_dir_remove(est_estimator_model_dir(e));
        est_estimator_free(e);
    }
}
