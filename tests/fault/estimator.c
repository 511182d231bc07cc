/* SPDX-License-Identifier: Apache-2.0
 *
 * A short training and evaluation while things fail: every fault point in turn, allocations in turn, a full disk, a
 * directory that cannot be written, input that fails, signals. Each time the call says what was wrong or goes on
 * without what it could not have, and the directory still leads to the variables of a run that was never disturbed. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/estimator_test.h"
#include "support/fault_loop.h"
#include "support/sanitized.h"
#include "train/eval_results.h"

#define STEPS 3 /* of the disturbed run; the one after it makes one more */

static const est_run_config config = { .struct_size            = sizeof config,
                                       .seed                   = 5,
                                       .save_checkpoints_steps = 1,
                                       .save_summary_steps     = 1,
                                       .threads                = 1,
                                       .quiet                  = true,
                                       .cluster_json           = "{}" };

static est_status make(est_model_fn model_fn, const char *dir, est_estimator **out)
{
    return est_estimator_create(model_fn, EST_ESTIMATOR(.model_dir = dir, .config = &config), out);
}

static est_status train(const char *dir, int64_t max_steps)
{
    est_estimator *e      = NULL;
    est_status     status = make(est_test_model, dir, &e);

    if (status == EST_OK) {
        status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = max_steps));
    }
    est_estimator_free(e);
    return status;
}

/* Trains, evaluates and predicts, one call after the other. */
static est_status run_all(const char *dir)
{
    est_estimator   *e           = NULL;
    est_metrics     *metrics     = NULL;
    est_predictions *predictions = NULL;
    est_status       status;

    status = make(est_test_model, dir, &e);
    if (status == EST_OK) {
        status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = STEPS));
    }
    if (status == EST_OK)
        status = est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .steps = 2), &metrics);
    if (status == EST_OK) { /* the checkpoint before the last, when reading the last one failed */
        assert_in_range(est_metrics_global_step(metrics), STEPS - 1, STEPS);
    }
    if (status != EST_OK) assert_null(metrics);
    if (status == EST_OK) status = est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &predictions);
    if (status == EST_OK) status = est_predictions_next(predictions);
    est_predictions_free(predictions);
    est_metrics_free(metrics);
    est_estimator_free(e);
    return status;
}

static void assert_ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* The directory goes on to one step more, as `reference` did. */
static void assert_goes_on(const char *dir, const char *reference)
{
    assert_ok(train(dir, STEPS + 1));
    est_test_same_checkpoint(reference, dir);
}

static void make_reference(char dir[64])
{
    est_test_dir(dir);
    assert_ok(train(dir, STEPS + 1));
}

static void disturb(fault_kind kind)
{
    char reference[64];

    make_reference(reference);
    FAULT_LOOP(f, kind, .depth = EST_TEST_SANITIZED ? 4 : 0) { /* sanitizers are slow */
        char       dir[64];
        est_status status;

        est_test_dir(dir);
        fault_arm(&f);
        status = run_all(dir);
        if (!fault_end(&f)) assert_ok(status);
        if (status != EST_OK) assert_true(strlen(est_error_message()) > 0);
        assert_goes_on(dir, reference);
        est_test_dir_remove(dir);
    }
    est_test_dir_remove(reference);
}

TEST(fault_points)
{
    disturb(FAULT_POINTS);
}

TEST(allocations)
{
    disturb(FAULT_PLACES);
}

/* --- the disk ----------------------------------------------------------------------------------------------------- */

/* A hook that does something once, after a step. */
typedef struct once {
    est_hook hook;
    int64_t  step;
    void (*act)(void);
} once;

static est_status once_after_run(est_hook *hook, est_loop *loop)
{
    once *o = EST_CONTAINER_OF(hook, once, hook);

    if (est_loop_global_step(loop) == o->step) o->act();
    return EST_OK;
}

#define ONCE(at, what) ((once){ .hook = EST_HOOK(.after_run = once_after_run), .step = (at), .act = (what) })

static est_status train_with(est_model_fn model_fn, const char *dir, est_input_fn input_fn, est_hook *hook)
{
    est_estimator *e = NULL;
    est_status     status;

    assert_ok(make(model_fn, dir, &e));
    status = est_train(
        e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .max_steps = STEPS, .hooks = { &hook, hook != NULL ? 1 : 0 }));
    est_estimator_free(e);
    return status;
}

static void assert_error(est_status status, est_status want, const char *text)
{
    if (status != want) fail_msg("%s: %s", est_status_name(status), status == EST_OK ? "" : est_error_message());
    est_test_error_has(text);
}

/* The whole text, which has the directory where `text` has %s. */
static void assert_text(est_status status, est_status want, const char *text, const char *dir)
{
    const char *place = strstr(text, "%s");
    char        all[1200];

    if (place == NULL) place = text + strlen(text);
    snprintf(all, sizeof all, "%.*s%s%s", (int)(place - text), text, *place != '\0' ? dir : "",
             *place != '\0' ? place + 2 : "");
    assert_int_equal(status, want);
    assert_string_equal(est_error_message(), all);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes != 0 ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void no_more_room(void)
{
    limit_files(16);
}

/* Files cannot grow any more after step 2: the save of step 3 fails, that of step 2 is there. */
TEST(full_disk)
{
    char       dir[64], reference[64];
    once       fill = ONCE(2, no_more_room);
    est_status status;

    signal(SIGXFSZ, SIG_IGN);
    make_reference(reference);
    est_test_dir(dir);
    status = train_with(est_test_model, dir, est_test_input, &fill.hook);
    limit_files(0);
    assert_error(status, EST_RESOURCE_EXHAUSTED, "cannot write ");
    est_test_error_has(dir);
    est_test_error_has("/model.ckpt-3.");
    est_test_error_has(": File too large");
    assert_goes_on(dir, reference);
    est_test_dir_remove(dir);

    est_test_dir(dir); /* from the start on */
    limit_files(16);
    status = run_all(dir);
    limit_files(0);
    assert_error(status, EST_RESOURCE_EXHAUSTED, dir);
    assert_goes_on(dir, reference);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

/* Stand in for the C library's, on a disk with so many bytes left; -1: as many as one likes. */
static int64_t room = -1;

static bool is_full(size_t *size)
{
    if (room < 0 || *size == 0) return false;
    if (room == 0) {
        errno = ENOSPC;
        return true;
    }
    if ((int64_t)*size > room) *size = (size_t)room;
    room -= (int64_t)*size;
    return false;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    return is_full(&size) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return is_full(&size) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, offset);
}

/* Runs until the disk is full, and says what was wrong then; whether it failed. */
static bool run_until_full(const char *dir)
{
    est_status status = run_all(dir);

    if (status == EST_OK) return false;
    assert_error(status, EST_RESOURCE_EXHAUSTED, dir);
    est_test_error_has(": No space left on device");
    return true;
}

/* A disk with more and more room, until all files fit. */
TEST(little_room)
{
    char reference[64];
    int  n_failed = 0;
    bool failed   = true;

    make_reference(reference);
    for (int64_t bytes = 0; failed; bytes += 1500) {
        char dir[64];

        est_test_dir(dir);
        room   = bytes;
        failed = run_until_full(dir);
        room   = -1;
        n_failed += failed;
        assert_goes_on(dir, reference);
        est_test_dir_remove(dir);
    }
    assert_true(n_failed > 5);
    est_test_dir_remove(reference);
}

/* The same with a real file system, which is full at other places, too, and then grows. Only root can make one. */
TEST(full_file_system)
{
    char dir[64], reference[64];
    bool failed = false;

    make_reference(reference);
    est_test_dir(dir);
    if (mount("none", dir, "tmpfs", 0, "size=4k") != 0) {
        print_message("NOT RUN: a small file system cannot be mounted (%s); test_little_room stands for it\n",
                      strerror(errno));
        est_test_dir_remove(dir);
        est_test_dir_remove(reference);
        skip();
    }
    for (int pages = 2; pages < 100; pages += 3) { /* full at one file after the other, until all fit */
        char size[32];

        failed = run_until_full(dir) || failed;
        snprintf(size, sizeof size, "size=%dk", 4 * pages);
        assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, size), 0);
    }
    assert_true(failed);
    assert_int_equal(mount("none", dir, "tmpfs", MS_REMOUNT, "size=4m"), 0);
    assert_goes_on(dir, reference);
    assert_int_equal(umount(dir), 0);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

/* Runs in a process of its own, as nobody when this one is root, whom no permission stops. */
static int in_child(int (*body)(const char *dir), const char *dir)
{
    pid_t pid = fork();
    int   status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(99);
        _exit(body(dir));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define NOT_WRITABLE " cannot be written to: Permission denied; name another directory, or change its permissions"

static int train_refused(const char *dir)
{
    char       there[300], new[300];
    est_status status = train(dir, 1);

    snprintf(there, sizeof there, "train: model_dir: %s" NOT_WRITABLE, dir);
    snprintf(new, sizeof new, "train: model_dir: cannot create directory %s: Permission denied", dir);
    if (status != EST_PERMISSION_DENIED) return 1;
    return strcmp(est_error_message(), est_dir_exists(dir) ? there : new) == 0 ? 0 : 2;
}

static int train_and_evaluate_refused(const char *dir)
{
    est_estimator *e = NULL;
    est_status     status;

    if (make(est_test_model, dir, &e) != EST_OK) return 2;
    status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = 1),
                                    EST_EVAL_SPEC(.input_fn = est_test_input), NULL);
    est_estimator_free(e);
    return status == EST_PERMISSION_DENIED && strstr(est_error_message(), dir) != NULL ? 0 : 1;
}

TEST(not_writable)
{
    char  dir[64], path[96];
    FILE *file;

    est_test_dir(dir);
    assert_int_equal(chmod(dir, 0555), 0);
    assert_int_equal(in_child(train_refused, dir), 0); /* the directory is there, nothing can be made in it */
    assert_int_equal(in_child(train_and_evaluate_refused, dir), 0);
    snprintf(path, sizeof path, "%s/run", dir);
    assert_int_equal(in_child(train_refused, path), 0); /* the directory cannot be made */
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(rmdir(dir), 0); /* so nothing was */

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/file", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_text(train(path, 1), EST_ALREADY_EXISTS,
                "train: model_dir: %s is not a directory; name another path, or remove it", path);
    est_test_dir_remove(dir);
}

/* --- another model's checkpoint ----------------------------------------------------------------------------------- */

/* est_test_model with other names, and with another width. */
static est_status renamed_model(est_model *model, est_mode mode, const void *params)
{
    est_node y    = est_dense(est_dense(est_model_feature(model, "x"), 4, EST_DENSE(.name = "hidden")), 1,
                              EST_DENSE(.name = "out"));
    est_node loss = est_mean(est_square(est_sub(y, est_model_feature(model, "y"))));

    (void)params;
    est_model_predict(model, "y", y);
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_adam(0.02, NULL), loss);
    return est_model_status(model);
}

static est_status wide_model(est_model *model, est_mode mode, const void *params)
{
    est_node y    = est_dense(est_dense(est_model_feature(model, "x"), 9, NULL), 1, EST_DENSE(.name = "out"));
    est_node loss = est_mean(est_square(est_sub(y, est_model_feature(model, "y"))));

    (void)params;
    est_model_predict(model, "y", y);
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_adam(0.02, NULL), loss);
    return est_model_status(model);
}

/* That of est_test_model but for its optimizer. */
static est_status other_optimizer_model(est_model *model, est_mode mode, const void *params)
{
    est_node x    = est_dense(est_model_feature(model, "x"), 4, EST_DENSE(.activation = est_tanh));
    est_node y    = est_dense(x, 1, EST_DENSE(.name = "out"));
    est_node loss = est_mean(est_square(est_sub(y, est_model_feature(model, "y"))));

    (void)params;
    est_model_predict(model, "y", y);
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_ftrl(0.1, NULL), loss);
    return est_model_status(model);
}

/* What to do stands at the end, whole. */
static void assert_advised(void)
{
    static const char advice[] = "; it belongs to another model; name another model_dir, or warm-start from it";
    const char       *text     = est_error_message();

    if (strlen(text) < strlen(advice) || strcmp(text + strlen(text) - strlen(advice), advice) != 0) {
        fail_msg("\"%s\" does not end with \"%s\"", text, advice);
    }
    assert_null(strstr(text, ".partial"));
}

static void refuse_model(const char *dir, est_model_fn model_fn, est_status want, const char *first, const char *second)
{
    est_estimator   *e           = NULL;
    est_metrics     *metrics     = NULL;
    est_predictions *predictions = NULL;

    assert_ok(make(model_fn, dir, &e));
    assert_error(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), want, first);
    est_test_error_has(second);
    assert_advised();
    assert_error(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics), want, first);
    est_test_error_has(second);
    assert_advised();
    assert_null(metrics);
    assert_ok(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = est_test_input), &predictions));
    assert_error(est_predictions_next(predictions), want, first);
    est_predictions_free(predictions);
    est_estimator_free(e);
}

TEST(other_model)
{
    char dir[64], reference[64];

    make_reference(reference);
    est_test_dir(dir);
    assert_ok(train(dir, 2));
    refuse_model(dir, renamed_model, EST_FAILED_PRECONDITION, "\"hidden/kernel\"", "\"hidden/bias\"");
    refuse_model(dir, wide_model, EST_INVALID_ARGUMENT, "variable 'dense/kernel' is float32 [2,9]",
                 "variable 'out/kernel' is float32 [9,1]");
    est_test_error_has("model.ckpt-2");
    assert_goes_on(dir, reference);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

/* The model is the same; only what the optimizer keeps is missing, and that is said. */
TEST(other_optimizer)
{
    est_estimator *e = NULL;
    char           dir[64];

    est_test_dir(dir);
    assert_ok(train(dir, 2));
    assert_ok(make(other_optimizer_model, dir, &e));
    assert_error(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_FAILED_PRECONDITION,
                 "all of them are the optimizer's, and the model itself fits: train with the optimizer that");
    assert_null(strstr(est_error_message(), "it belongs to another model"));
    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), NULL)); /* which needs none of it */
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- the input ---------------------------------------------------------------------------------------------------- */

static est_status failing_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return est_fail(EST_NOT_FOUND, "the moon is not there");
}

static est_status no_input(const est_input_context *context, void *user, est_dataset **out)
{
    (void)context;
    (void)user;
    (void)out;
    return EST_OK;
}

static est_status empty_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_take(d, 0), out);
}

static void evaluate_refused(const char *dir, est_input_fn input_fn, est_status want, const char *text)
{
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;

    assert_ok(make(est_test_model, dir, &e));
    assert_text(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn), &metrics), want, text, dir);
    assert_null(metrics);
    est_estimator_free(e);
}

TEST(input_fn)
{
    char dir[64], reference[64];

    make_reference(reference);
    est_test_dir(dir);
    assert_text(train_with(est_test_model, dir, failing_input, NULL), EST_NOT_FOUND,
                "train: input_fn: the moon is not there", dir);
    assert_text(train_with(est_test_model, dir, no_input, NULL), EST_INVALID_ARGUMENT,
                "train: input_fn: it returned EST_OK but no dataset; set *out", dir);
    evaluate_refused(dir, failing_input, EST_NOT_FOUND, "evaluate: input_fn: the moon is not there");
    evaluate_refused(dir, no_input, EST_INVALID_ARGUMENT,
                     "evaluate: input_fn: it returned EST_OK but no dataset; set *out");
    evaluate_refused(dir, empty_input, EST_INVALID_ARGUMENT,
                     "evaluate: the input of the evaluation has no batch; see its input_fn");
    assert_text(train_with(est_test_model, dir, empty_input, NULL), EST_INVALID_ARGUMENT,
                "train: input_fn: its dataset has no batch to train with", dir);
    assert_goes_on(dir, reference);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

#define ROWS      32
#define BATCH     4
#define NAN_ROW   (2 * BATCH + 1)
#define WRONG_ROW (3 * BATCH + 2)

/* a, b and 2 a - b as CSV; one row may have something else for b. */
static void write_rows(const char *path, int odd_row, const char *odd)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (int i = 0; i < ROWS; i++) {
        if (i == odd_row) {
            fprintf(file, "%d,%s,1\n", i % 5, odd);
        } else {
            fprintf(file, "%d,%d,%d\n", i % 5, i % 3, 2 * (i % 5) - i % 3);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static est_status csv_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = est_dataset_csv(est_dataset_files(user),
                                     EST_CSV_COLUMNS({ "a", EST_F32 }, { "b", EST_F32 }, { "y", EST_F32 }), NULL, BATCH,
                                     NULL);

    (void)context;
    return est_dataset_finish(est_dataset_prefetch(d, 2), out);
}

static est_status csv_model(est_model *model, est_mode mode, const void *params)
{
    est_node a    = est_expand_dims(est_model_feature(model, "a"), 1);
    est_node b    = est_expand_dims(est_model_feature(model, "b"), 1);
    est_node y    = est_squeeze(est_dense(est_concat(EST_NODES(a, b), 1), 1, NULL), EST_I64S(1));
    est_node loss = est_mean(est_square(est_sub(y, est_model_label(model, "y"))));

    (void)params;
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_adagrad(0.05, NULL), loss);
    return est_model_status(model);
}

static est_status train_csv(const char *dir, const char *path)
{
    est_estimator *e = NULL;
    est_status     status;

    assert_ok(make(csv_model, dir, &e));
    status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = csv_input, .input_user = (void *)(uintptr_t)path));
    est_estimator_free(e);
    return status;
}

/* A row that cannot be read ends the run with its file and line; mended, the run goes on as if nothing had been. */
TEST(bad_row)
{
    char dir[64], reference[64], path[96], where[128];

    est_test_dir(reference);
    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/rows.csv", reference);
    write_rows(path, -1, "");
    assert_ok(train_csv(reference, path));
    write_rows(path, WRONG_ROW, "many");
    snprintf(where, sizeof where, "%s", path);
    assert_error(train_csv(dir, path), EST_INVALID_ARGUMENT, where);
    est_test_error_has("many");
    est_test_error_has("15"); /* the line, counted from 1 */
    write_rows(path, -1, "");
    assert_ok(train_csv(dir, path));
    est_test_same_checkpoint(reference, dir);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

/* A NaN ends the run. Its step is not saved, and the checkpoints before it are still there. */
TEST(nan)
{
    char           dir[64], path[96], before[96], latest[EST_CHECKPOINT_PATH_MAX];
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/rows.csv", dir);
    write_rows(path, NAN_ROW, "nan");
    assert_text(
        train_csv(dir, path), EST_INVALID_ARGUMENT,
        "train: NaN loss during training: at step 3 feature or label b is nan in row 1 of the batch; see its input_fn",
        dir);
    write_rows(path, -1, "");
    assert_ok(est_checkpoint_latest(dir, latest));
    snprintf(before, sizeof before, "%s/model.ckpt-2", dir);
    assert_string_equal(latest, before);
    assert_ok(make(csv_model, dir, &e));
    assert_ok(est_evaluate(
        e, EST_EVALUATE_OPTIONS(.input_fn = csv_input, .input_user = path, .checkpoint_path = before), &metrics));
    assert_false(isnan(est_metrics_get(metrics, "loss")));
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- others ------------------------------------------------------------------------------------------------------- */

static int says[2], waits[2]; /* pipes: the first trainer has begun; it may go on */

static void say_and_wait(void)
{
    char byte = 0;

    if (write(says[1], &byte, 1) != 1 || read(waits[0], &byte, 1) != 1) _exit(98);
}

TEST(two_trainers)
{
    char  dir[64], reference[64], who[200], host[256] = "", byte;
    pid_t pid;
    int   status;

    make_reference(reference);
    est_test_dir(dir);
    assert_int_equal(pipe(says) | pipe(waits), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        once pause = ONCE(2, say_and_wait);

        _exit(train_with(est_test_model, dir, est_test_input, &pause.hook) == EST_OK ? 0 : 1);
    }
    assert_int_equal(read(says[0], &byte, 1), 1);
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(
        who, sizeof who,
        "train: %%s is in use by another trainer: %.64s, process %ld; stop it first, or use another model directory",
        host, (long)pid);
    assert_text(train(dir, STEPS + 1), EST_FAILED_PRECONDITION, who, dir);
    assert_int_equal(write(waits[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) assert_int_equal(close(says[i]) | close(waits[i]), 0);
    assert_goes_on(dir, reference);
    est_test_dir_remove(dir);
    est_test_dir_remove(reference);
}

/* --- signals ------------------------------------------------------------------------------------------------------ */

static void terminate(void)
{
    raise(SIGTERM);
}

TEST(sigterm_in_evaluation)
{
    char           dir[64], path[96];
    once           stop    = ONCE(STEPS, terminate);
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;
    est_status     status;

    est_test_dir(dir);
    assert_ok(train(dir, STEPS));
    assert_ok(make(est_test_model, dir, &e));
    status = est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input, .hooks = EST_HOOKS(&stop.hook)),
                          &metrics);
    assert_error(status, EST_CANCELLED, "evaluate: SIGTERM: the evaluation was stopped; start it again");
    assert_int_equal(est_exit_code(status), 75);
    assert_null(metrics);
    snprintf(path, sizeof path, "%s/eval", dir);
    assert_false(est_file_exists(path)); /* half an evaluation is none */
    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = est_test_input), &metrics));
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* train_and_evaluate, disturbed when its log says `when`; a process of its own, because an uncaught signal ends it. */
static const char *when;

static void raise_at_line(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    (void)user;
    (void)level;
    (void)wall_ns;
    if (when == NULL || strstr(line, when) == NULL) return;
    when = NULL;
    raise(SIGTERM);
}

static int run_to_end(const char *dir)
{
    est_estimator *e = NULL;
    est_status     status;

    if (make(est_test_model, dir, &e) != EST_OK) return 2;
    est_log_set_level(EST_LOG_INFO);
    est_log_set_sink(raise_at_line, NULL);
    status = est_train_and_evaluate(e, EST_TRAIN_SPEC(.input_fn = est_test_input, .max_steps = STEPS + 1),
                                    EST_EVAL_SPEC(.input_fn = est_test_input, .throttle_secs = EST_OFF), NULL);
    est_log_set_sink(NULL, NULL);
    est_log_set_level(EST_LOG_OFF);
    est_estimator_free(e);
    return est_exit_code(status);
}

static int64_t last_evaluated(const char *dir)
{
    char             path[96];
    est_eval_results results = { 0 };
    int64_t          step;

    snprintf(path, sizeof path, "%s/eval", dir);
    assert_ok(est_eval_results_read(&results, path));
    step = results.n > 0 ? results.data[results.n - 1].step : -1;
    est_eval_results_clear(&results);
    return step;
}

TEST(sigterm_between_phases)
{
    static const char *const lines[] = {
        "Running training and evaluation locally", /* before the training */
        "Calling model_fn",                        /* of the training */
        "Graph was finalized",                     /* variables have no values yet */
        "before saving checkpoint 0",
        "after saving checkpoint 2", /* before the evaluation of a checkpoint */
        "Starting evaluation",       /* in it */
        "Saving dict for global step 2",
        "after saving checkpoint 4", /* the last one */
        "Loss for final step",       /* all is done */
    };
    const size_t n = sizeof lines / sizeof lines[0];
    char         reference[64];

    make_reference(reference);
    for (size_t i = 0; i < n; i++) {
        char dir[64], done[96];
        bool last = i == n - 1;
        int  code;

        est_test_dir(dir);
        assert_int_equal(chmod(dir, 0777), 0);
        snprintf(done, sizeof done, "%s/training_done", dir);
        when = lines[i];
        code = in_child(run_to_end, dir);
        if (code != (last ? 0 : 75)) fail_msg("%s: exit code %d", lines[i], code);
        assert_int_equal(est_file_exists(done), last);
        when = NULL;
        assert_int_equal(run_to_end(dir), 0);
        if (!est_file_exists(done)) fail_msg("%s: no training_done", lines[i]);
        if (last_evaluated(dir) != STEPS + 1) fail_msg("%s: the end is not evaluated", lines[i]);
        est_test_same_checkpoint(reference, dir);
        est_test_dir_remove(dir);
    }
    est_test_dir_remove(reference);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(NULL, NULL);
}
