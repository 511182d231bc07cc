/* SPDX-License-Identifier: Apache-2.0
 *
 * Early stopping that cannot stop a run is warned of before the first step, with what to set; early stopping that can
 * is not. */
#include <string.h>

#include "estimator/runs_test.h"
#include "estoc/early_stopping.h"
#include "support/log_test.h"

/* --- the log ------------------------------------------------------------------------------------------------------ */

/* One warning, other than that of the end, that has the text; NULL: none. */
static void expect(const char *text)
{
    int n = log_count(EST_LOG_WARN, "early stopping") -
            log_count(EST_LOG_WARN, "early stopping*found no evaluation result");

    if (n != (text != NULL)) fail_msg("%d warnings of early stopping:\n%s", n, log_text());
    if (text != NULL) log_expect(text);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

typedef struct run {
    const char *cluster, *name;        /* of the evaluation; NULL: none */
    int64_t     max_steps, save_steps; /* save_steps 0: the default, by time */
    double      save_secs, throttle_secs;
    bool        own_saver; /* a hook saves every 2 steps */
} run;

static est_estimator *make_for(const run *r, const char *dir)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, r->cluster != NULL ? r->cluster : "{}",
                              .save_checkpoints_steps = r->save_steps, .save_checkpoints_secs = r->save_secs);
}

/* Trains with the hook, which is freed, and expects a warning with this text; NULL: none. */
static void warns(run r, est_hook *stop, const char *text)
{
    est_hook      *hooks[] = { stop, NULL };
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    if (r.own_saver) hooks[1] = est_checkpoint_saver_hook(dir, EST_CHECKPOINT_SAVER(.steps = 2));
    e = make_for(&r, dir);
    log_clear();
    assert_int_equal(
        est_train_and_evaluate(
            e,
            EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = r.max_steps, .hooks = { hooks, 1 + r.own_saver }),
            EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = r.throttle_secs, .name = r.name), NULL),
        EST_OK);
    expect(text);
    est_hook_free(hooks[1]);
    est_hook_free(stop);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

#define OFTEN EST_EARLY_STOPPING(.run_every_steps = 1)

static est_hook *patient(int64_t steps)
{
    return est_stop_if_no_decrease_hook("mae", steps, OFTEN);
}

static est_hook *low(void)
{
    return est_stop_if_lower_hook("mae", -1, OFTEN);
}

TEST(by_steps)
{
    const run often = { .max_steps = 10, .save_steps = 2, .throttle_secs = EST_OFF };
    const run never = { .max_steps = 10, .save_steps = 10, .throttle_secs = EST_OFF };

    warns(often, patient(6), NULL); /* evaluations of steps 2 to 8 */
    warns(often, low(), NULL);
    warns(
        never, low(),
        "early stopping by \"mae\" cannot stop this run: it ends at step 10, and checkpoints, which are evaluated, are saved "
        "every 10 steps; set save_checkpoints_steps below 10");
    warns(never, patient(1), "set save_checkpoints_steps below 10");
    warns(often, patient(7), "it waits 7 steps for a better value, and evaluations before the end are of steps 2 to 8");
    warns(often, est_stop_if_lower_hook("mae", -1, EST_EARLY_STOPPING(.run_every_steps = 1, .min_steps = 9)),
          "its last evaluation before the end is of step 8, and results count from min_steps 9");
    warns(often, est_stop_if_lower_hook("mae", -1, EST_EARLY_STOPPING(.run_every_steps = 10)),
          "it checks results every 10 steps, and 10 are made; set run_every_steps below that");
}

/* How long a run is, is not known: intervals as long as the defaults are mentioned. */
TEST(by_time)
{
    warns(
        (run){ .max_steps = 3, .throttle_secs = EST_OFF }, low(),
        "early stopping by \"mae\" reads evaluations, which take place every 600 s (save_checkpoints_secs): a shorter "
        "run is not stopped; set save_checkpoints_steps");
    warns((run){ .max_steps = 3 }, low(), "set save_checkpoints_steps and a smaller throttle_secs");
    warns((run){ .max_steps = 3, .save_secs = 30, .throttle_secs = 30 }, low(), NULL);
    warns((run){ .max_steps = 8, .save_steps = 2 }, patient(2), "every 600 s (throttle_secs)");
    warns((run){ .max_steps = 8, .save_steps = 2 }, low(), NULL); /* the first checkpoint is evaluated at once */
    warns((run){ .max_steps = 8, .throttle_secs = EST_OFF, .own_saver = true }, low(), NULL);
}

TEST(other_directory)
{
    const run named = { .max_steps = 8, .save_steps = 2, .throttle_secs = EST_OFF, .name = "holdout" };

    warns(named, low(), "/eval, but evaluations write to ");
    expect("/eval_holdout; set eval_dir to the latter");
}

/* A directory may be written in several ways. */
TEST(same_directory)
{
    static const char *const ends[] = { "/eval", "//eval/", "/eval/" };

    for (int i = 0; i < 3; i++) {
        char           dir[64], eval[96];
        est_hook      *stop;
        est_estimator *e;

        est_test_dir(dir);
        snprintf(eval, sizeof eval, "%s%s", dir, ends[i]);
        stop = est_stop_if_lower_hook("mae", -1, EST_EARLY_STOPPING(.run_every_steps = 1, .eval_dir = eval));
        e    = make_for(&(run){ .save_steps = 2 }, dir);
        log_clear();
        assert_int_equal(est_train_and_evaluate(
                             e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 8, .hooks = EST_HOOKS(stop)),
                             EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF), NULL),
                         EST_OK);
        expect(NULL);
        est_hook_free(stop);
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

#define CHIEF "{\"cluster\": {\"chief\": [\"127.0.0.1:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}"

/* A chief says the same of the evaluations that another task makes. */
TEST(chief)
{
    warns((run){ .max_steps = 10, .save_steps = 10, .throttle_secs = EST_OFF, .cluster = CHIEF }, low(),
          "set save_checkpoints_steps below 10");
    warns((run){ .max_steps = 10, .save_steps = 2, .throttle_secs = EST_OFF, .cluster = CHIEF }, low(), NULL);
}

/* est_train evaluates with a hook, or goes by what others have left. */
TEST(train_alone)
{
    est_hook      *stop = low(), *in_memory;
    est_metrics   *m    = NULL;
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    e         = make_for(&(run){ .save_steps = 2 }, dir);
    in_memory = est_in_memory_evaluator_hook(e, EST_IN_MEMORY(.input_fn = est_test_input, .name = "memory"));
    log_clear();
    assert_int_equal(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = EST_HOOKS(stop, in_memory))),
        EST_OK);
    expect(NULL);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = EST_HOOKS(stop))),
                     EST_OK);
    expect("est_train does not evaluate, and ");
    assert_int_equal(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &m), EST_OK);
    est_metrics_free(m);
    log_clear();
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 2, .hooks = EST_HOOKS(stop))),
                     EST_OK);
    expect(NULL);
    est_hook_free(stop);
    est_hook_free(in_memory);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A run that goes on counts from where it is, and has the results of before. */
TEST(resumed)
{
    const run      r    = { .save_steps = 4 };
    est_hook      *stop = patient(8);
    est_estimator *e;
    char           dir[64];

    est_test_dir(dir);
    e = make_for(&r, dir);
    for (int64_t end = 8; end <= 16; end += 8) {
        log_clear();
        assert_int_equal(est_train_and_evaluate(
                             e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = end, .hooks = EST_HOOKS(stop)),
                             EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF), NULL),
                         EST_OK);
        expect(end == 8 ? "evaluations before the end are of steps 4 to 4" : NULL); /* then 4 to 12 */
    }
    est_hook_free(stop);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    log_keep(EST_LOG_WARN);
    return est_test_run(NULL, NULL);
}
