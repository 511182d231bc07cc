/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters without an evaluator: the task that leads evaluates and exports what was trained, at the end, and whatever
 * happens to it then. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "estoc/estoc.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"

#define STEPS  100
#define PASSES 3 /* of 8 batches, where the input ends the training */

/* Sends its process a signal in the evaluation, or in the export after it, once in a job. */
typedef struct sender {
    est_hook     hook;
    est_exporter exporter;
    const char  *model_dir;
    int          signal;    /* 0: none */
    bool         in_export; /* else in the evaluation */
} sender;

static void send_once(const sender *s)
{
    char path[160];
    int  fd;

    if (s->signal == 0) return;
    snprintf(path, sizeof path, "%s.sent", s->model_dir);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) return;
    close(fd);
    (void)kill(getpid(), s->signal);
}

static est_status after_batch(est_hook *hook, est_loop *loop)
{
    const sender *s = EST_CONTAINER_OF(hook, sender, hook);

    (void)loop;
    if (!s->in_export) send_once(s);
    return EST_OK;
}

static const char *gate; /* a file that some things in this process wait for; NULL: none */

static void await_gate(void)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (gate != NULL && !est_file_exists(gate) && est_now_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 100);
}

static void open_gate(const cluster *c)
{
    char path[160];

    snprintf(path, sizeof path, "%s.gate", c->model);
    assert_int_equal(est_file_replace(path, "", 0), EST_OK);
}

/* A hook of the training. */
static est_status pause_training(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_global_step(loop) >= STEPS / 2) await_gate();
    return EST_OK;
}

static est_status tell(est_exporter *exporter, est_estimator *estimator, const char *path, const char *checkpoint,
                       const est_metrics *metrics, bool is_final, char *out)
{
    const sender   *s     = EST_CONTAINER_OF(exporter, sender, exporter);
    est_checkpoint *there = NULL;

    (void)estimator, (void)path;
    out[0] = '\0';
    printf("exporter at work\n");
    if (s->in_export) send_once(s);
    await_gate();
    EST_TRY(est_checkpoint_open(checkpoint, &there));
    est_checkpoint_close(there);
    printf("%s at %lld\n", is_final ? "last export" : "export", (long long)est_metrics_global_step(metrics));
    return EST_OK;
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) return true;
    }
    return false;
}

/* argv: the model directory; "mirrored": multi-worker training; "multi_worker": all workers evaluate; "passes": the
 * input ends the training, also before it has made max_steps with "limit"; "kill", "term": what happens in the
 * evaluation, with "export" after it; "first": to the first worker alone; "pause": the training, "slow": the exporter
 * waits for the gate. */
static int run_task(int argc, char **argv)
{
    bool           other = has_word(argc, argv, "first") && strstr(getenv("TF_CONFIG"), "\"index\": 0") == NULL;
    bool           kills = has_word(argc, argv, "kill") && !other, terms = has_word(argc, argv, "term");
    bool           ends      = has_word(argc, argv, "passes");
    int64_t        passes    = ends ? PASSES : EST_FOREVER;
    int64_t        max_steps = ends && !has_word(argc, argv, "limit") ? 0 : STEPS;
    sender         sends     = { .hook      = EST_HOOK(.after_run = after_batch),
                                 .exporter  = EST_EXPORTER(.name = "teller", .export_model = tell),
                                 .model_dir = argv[0],
                                 .signal    = kills   ? SIGKILL
                                              : terms ? SIGTERM
                                                      : 0,
                                 .in_export = has_word(argc, argv, "export") };
    est_hook       pauses    = EST_HOOK(.after_run = has_word(argc, argv, "pause") ? pause_training : NULL);
    char           path[160];
    est_strategy  *strategy  = NULL;
    est_estimator *estimator = NULL;
    est_metrics   *metrics   = NULL;
    est_status     status    = EST_OK;

    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(path, sizeof path, "%s.gate", argv[0]);
    if (has_word(argc, argv, "pause") || has_word(argc, argv, "slow")) gate = path;
    if (has_word(argc, argv, "mirrored")) {
        status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = 1), &strategy);
    }
    if (status == EST_OK) {
        status = est_estimator_create(
            est_test_model,
            EST_ESTIMATOR(.model_dir = argv[0],
                          .config    = EST_RUN_CONFIG(.save_checkpoints_steps = 20, .seed = 11,
                                                      .train_distribute = strategy,
                                                      .eval_distribute  = has_word(argc, argv, "multi_worker") ? strategy
                                                                                                               : NULL,
                                                      .max_worker_delay_secs = EST_OFF)),
            &estimator);
    }
    if (status == EST_OK) {
        status = est_train_and_evaluate(estimator,
                                        EST_TRAIN_SPEC(.input_fn = est_test_input, .input_user = &passes,
                                                       .max_steps = max_steps, .hooks = EST_HOOKS(&pauses)),
                                        EST_EVAL_SPEC(.input_fn = est_test_input, .start_delay_secs = EST_OFF,
                                                      .throttle_secs = EST_OFF, .hooks = EST_HOOKS(&sends.hook),
                                                      .exporters = EST_EXPORTERS(&sends.exporter)),
                                        &metrics);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    if (metrics != NULL) printf("metrics of step %lld\n", (long long)est_metrics_global_step(metrics));
    est_metrics_free(metrics);
    est_estimator_free(estimator);
    est_strategy_free(strategy);
    return est_exit_code(status);
}

/* The leader has evaluated the last checkpoint once, and no other; nobody else has any. */
static void check_evaluated(cluster *c, const cluster_task *leader)
{
    char exported[64], told[64];

    snprintf(exported, sizeof exported, "last export at %ld\n", cluster_saved_step(c));
    snprintf(told, sizeof told, "metrics of step %ld\n", cluster_saved_step(c));
    for (int i = 0; i < c->n; i++) {
        bool leads = &c->tasks[i] == leader;

        assert_int_equal(cluster_count_log(&c->tasks[i], exported), leads);
        assert_int_equal(cluster_count_log(&c->tasks[i], "export at "), leads);
        assert_int_equal(cluster_count_log(&c->tasks[i], told), leads);
        if (strcmp(c->tasks[i].type, "evaluator") == 0) continue;
        assert_int_equal(cluster_count_log(&c->tasks[i], "No evaluator is there yet"), leads ? leader->starts : 0);
    }
}

static void start_again(cluster *c)
{
    for (int i = 0; i < c->n; i++) cluster_start(c, &c->tasks[i]);
    cluster_wait_all(c, 60);
}

/* Evaluated once: who is started again after the end finds nothing to do. */
TEST(chief)
{
    cluster       c     = cluster_make(1, 1, 1, 0);
    cluster_task *chief = cluster_find(&c, "chief", 0);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), STEPS);
    check_evaluated(&c, chief);
    start_again(&c);
    check_evaluated(&c, chief);
    cluster_free(&c);
}

TEST(workers_in_step)
{
    cluster       c     = cluster_make(0, 2, 0, 0);
    cluster_task *first = cluster_find(&c, "worker", 0);

    CLUSTER_SET(&c, "mirrored");
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_saved_step(&c), STEPS);
    check_evaluated(&c, first);
    start_again(&c);
    check_evaluated(&c, first);
    cluster_free(&c);
}

/* The leader is killed, or told to stop, in the final evaluation. The others have left by then and are not needed any
 * more; it evaluates when it is back, also where only the end of the input says that there is nothing to train. */
static void leader_is_lost(cluster *c, cluster_task *leader)
{
    bool killed = false;
    int  i      = 0;

    while (c->args[i] != NULL) killed = strcmp(c->args[i++], "kill") == 0 || killed;
    cluster_start_all(c);
    for (i = 0; i < c->n; i++) {
        if (&c->tasks[i] != leader) cluster_wait_code(c, &c->tasks[i], 0, 60);
    }
    if (killed) {
        cluster_wait(c, leader, 60);
        assert_true(WIFSIGNALED(leader->status) && WTERMSIG(leader->status) == SIGKILL);
    } else {
        cluster_wait_code(c, leader, 75, 60);
    }
    assert_int_equal(cluster_count_log(leader, "last export"), 0);
    cluster_start(c, leader);
    cluster_wait_code(c, leader, 0, 60);
    assert_int_equal(cluster_count_log(leader, "Training had ended at step"), 1);
    check_evaluated(c, leader);
    cluster_free(c);
}

TEST(chief_killed)
{
    cluster c = cluster_make(1, 1, 1, 0);

    CLUSTER_SET(&c, "kill", "passes", "limit");
    leader_is_lost(&c, cluster_find(&c, "chief", 0));
}

TEST(chief_stopped)
{
    cluster c = cluster_make(1, 1, 1, 0);

    CLUSTER_SET(&c, "term");
    leader_is_lost(&c, cluster_find(&c, "chief", 0));
}

TEST(worker_killed)
{
    cluster c = cluster_make(0, 2, 0, 0);

    CLUSTER_SET(&c, "kill", "mirrored", "passes");
    leader_is_lost(&c, cluster_find(&c, "worker", 0));
}

/* Workers that evaluate together wait for the first of them, which has trained no more when it is back. */
static void first_of_all_killed(const char *when)
{
    cluster       c     = cluster_make(0, 2, 0, 0);
    cluster_task *first = cluster_find(&c, "worker", 0);

    CLUSTER_SET(&c, "kill", "mirrored", "passes", "multi_worker");
    CLUSTER_SET(&c, "first"); /* alone is killed */
    CLUSTER_SET(&c, when);
    cluster_start_all(&c);
    cluster_wait(&c, first, 60);
    assert_true(WIFSIGNALED(first->status) && WTERMSIG(first->status) == SIGKILL);
    cluster_start(&c, first);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(first, "Training had ended at step"), 1);
    assert_int_equal(cluster_count_log(first, "last export at "), 1);
    for (int i = 0; i < c.n; i++) assert_int_equal(cluster_count_log(&c.tasks[i], "metrics of step "), 1);
    cluster_free(&c);
}

TEST(multi_worker_killed)
{
    first_of_all_killed(NULL);
}

/* The others stay until the first has exported, too. */
TEST(multi_worker_killed_exporting)
{
    first_of_all_killed("export");
}

/* Waits until a task that is started for the second time is at work. */
static void await_second(const cluster_task *task)
{
    int64_t until = est_now_ns() + 60 * EST_NS_PER_SEC;

    while (cluster_count_log(task, " listens at ") < 2) {
        assert_true(est_now_ns() < until);
        est_sleep_ns(EST_NS_PER_SEC / 100);
    }
}

/* Others that were started again, too, and wait for the chief learn that there is nothing to train. */
TEST(all_started_again)
{
    cluster       c     = cluster_make(1, 1, 1, 0);
    cluster_task *chief = cluster_find(&c, "chief", 0);

    CLUSTER_SET(&c, "kill", "passes");
    cluster_start_all(&c);
    cluster_wait(&c, chief, 60);
    for (int i = 0; i < c.n; i++) cluster_wait(&c, &c.tasks[i], 60);
    for (int i = 0; i < c.n; i++) {
        if (&c.tasks[i] != chief) cluster_start(&c, &c.tasks[i]);
    }
    await_second(cluster_find(&c, "ps", 0));
    await_second(cluster_find(&c, "worker", 0));
    cluster_start(&c, chief);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(chief, "last export at "), 1);
    cluster_free(&c);
}

/* An evaluator, which TensorFlow's form of TF_CONFIG does not list, is found by its lock: nothing is evaluated
 * twice. */
TEST(evaluator_there)
{
    cluster       c         = cluster_make(1, 0, 1, 1);
    cluster_task *evaluator = cluster_find(&c, "evaluator", 0), *chief = cluster_find(&c, "chief", 0);

    assert_int_equal(est_dir_create(c.model), EST_OK);
    cluster_start(&c, evaluator);
    cluster_wait_log(&c, evaluator, "Estimator is not trained yet", 30);
    cluster_start(&c, chief);
    cluster_start(&c, cluster_find(&c, "ps", 0));
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(evaluator, "metrics of step 100\n"), 1);
    assert_int_equal(cluster_count_log(chief, "metrics of step"), 0);
    assert_int_equal(cluster_count_log(chief, "No evaluator is there yet"), 0);
    assert_int_equal(cluster_count_log(chief, "The final evaluation is left to the evaluator.") +
                         cluster_count_log(chief, "The evaluator has made the final evaluation."),
                     1);
    cluster_free(&c);
}

/* An evaluator that was there and is lost during the training, without a chance to say so or in good order, has made no
 * final evaluation: the chief does. */
static void evaluator_is_lost(int signal)
{
    cluster       c         = cluster_make(1, 0, 1, 1);
    cluster_task *evaluator = cluster_find(&c, "evaluator", 0), *chief = cluster_find(&c, "chief", 0);

    CLUSTER_SET(&c, "pause");
    assert_int_equal(est_dir_create(c.model), EST_OK);
    cluster_start(&c, evaluator);
    cluster_wait_log(&c, evaluator, "Estimator is not trained yet", 30);
    cluster_start(&c, chief);
    cluster_start(&c, cluster_find(&c, "ps", 0));
    cluster_wait_step(&c, STEPS / 5, 60);
    cluster_signal(evaluator, signal);
    cluster_wait(&c, evaluator, 60);
    open_gate(&c);
    cluster_wait_code(&c, chief, 0, 60);
    cluster_wait_code(&c, cluster_find(&c, "ps", 0), 0, 60);
    assert_int_equal(cluster_count_log(evaluator, "last export at "), 0);
    assert_int_equal(cluster_count_log(chief, "last export at 100\n"), 1);
    assert_int_equal(cluster_count_log(chief, "metrics of step 100\n"), 1);
    cluster_free(&c);
}

TEST(evaluator_lost)
{
    evaluator_is_lost(SIGKILL);
    evaluator_is_lost(SIGTERM);
}

#define WAITS "This evaluator waits, and evaluates nothing meanwhile: "

/* An evaluator that is started while the chief exports does not write to the same directories, and has nothing left to
 * do after that. */
TEST(evaluator_late)
{
    cluster       c         = cluster_make(1, 0, 1, 1);
    cluster_task *evaluator = cluster_find(&c, "evaluator", 0), *chief = cluster_find(&c, "chief", 0);

    CLUSTER_SET(&c, "slow");
    cluster_start(&c, chief);
    cluster_start(&c, cluster_find(&c, "ps", 0));
    cluster_wait_log(&c, chief, "exporter at work", 60);
    cluster_start(&c, evaluator);
    cluster_wait_log(&c, evaluator, WAITS, 60);
    open_gate(&c);
    cluster_wait_all(&c, 60);
    assert_int_equal(cluster_count_log(chief, "last export at 100\n"), 1);
    assert_int_equal(cluster_count_log(evaluator, "exporter at work"), 0);
    cluster_free(&c);
}

/* Of two evaluators the second waits. It takes over when the first is killed, and not when that has done all. */
static void two_evaluators(bool killed)
{
    cluster       c     = cluster_make(1, 0, 1, 1);
    cluster_task *first = cluster_find(&c, "evaluator", 0), *second = cluster_add_twin(&c, "evaluator", 0);

    CLUSTER_SET(&c, "slow");
    assert_int_equal(est_dir_create(c.model), EST_OK);
    cluster_start(&c, first);
    cluster_wait_log(&c, first, "Estimator is not trained yet", 30);
    cluster_start(&c, second);
    cluster_wait_log(&c, second, WAITS, 60);
    assert_int_equal(cluster_count_log(second, "is in use by another evaluator: "), 1);
    cluster_start(&c, cluster_find(&c, "chief", 0));
    cluster_start(&c, cluster_find(&c, "ps", 0));
    cluster_wait_log(&c, first, "exporter at work", 60);
    cluster_wait_code(&c, cluster_find(&c, "chief", 0), 0, 60); /* it leaves the final evaluation to the first */
    assert_int_equal(cluster_count_log(second, "exporter at work"), 0);
    if (killed) {
        cluster_signal(first, SIGKILL);
        cluster_wait(&c, first, 60);
    }
    open_gate(&c);
    for (int i = 0; i < c.n; i++) {
        if (!killed || &c.tasks[i] != first) cluster_wait_code(&c, &c.tasks[i], 0, 60);
    }
    assert_int_equal(cluster_count_log(first, "last export at 100\n"), !killed);
    assert_int_equal(cluster_count_log(second, "exporter at work") > 0, killed);
    assert_int_equal(cluster_count_log(second, "last export at 100\n"), killed);
    cluster_free(&c);
}

TEST(two_evaluators)
{
    two_evaluators(true);
    two_evaluators(false);
}

/* --- a chief alone ------------------------------------------------------------------------------------------------ */

#define CHIEF "{\"cluster\": {\"chief\": [\"127.0.0.1:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}"

/* Whether the files of evaluations are missing. */
static est_status lost_input(const est_input_context *context, void *user, est_dataset **out)
{
    const bool *missing = user;

    if (*missing) return est_fail(EST_NOT_FOUND, "the files of evaluations are missing");
    return est_test_input(context, NULL, out);
}

static est_status train_chief(const char *dir, int64_t max_steps, bool missing, est_metrics **out)
{
    est_estimator *e = EST_TEST_ESTIMATOR(est_test_model, dir, CHIEF, .save_checkpoints_steps = 20);
    est_status     status;

    status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = max_steps),
                                    EST_EVAL_SPEC(.input_fn = lost_input, .input_user = &missing), out);
    est_estimator_free(e);
    return status;
}

/* A final evaluation that is due does not keep a chief from training on to a larger max_steps. */
TEST(trains_on)
{
    est_metrics *metrics = NULL;
    cluster      c       = { 0 };

    est_test_dir(c.model);
    assert_int_equal(train_chief(c.model, 20, true, NULL), EST_NOT_FOUND);
    assert_int_equal(cluster_saved_step(&c), 20);
    assert_int_equal(train_chief(c.model, 40, true, NULL), EST_NOT_FOUND);
    assert_int_equal(cluster_saved_step(&c), 40);
    assert_int_equal(train_chief(c.model, 60, false, &metrics), EST_OK);
    assert_int_equal(cluster_saved_step(&c), 60);
    assert_int_equal(est_metrics_global_step(metrics), 60);
    est_metrics_free(metrics);
    est_test_dir_remove(c.model);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_task);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return est_test_run_apart(NULL, NULL);
}
