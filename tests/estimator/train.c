/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: limits, resuming bit for bit, the log and the files of a run, what is refused. */
#include <inttypes.h>
#include <math.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "support/estimator_test.h"
#include "support/log_test.h"

static est_estimator *make_task(const char *dir, int64_t save_steps, const char *cluster)
{
    return EST_TEST_ESTIMATOR(est_test_model, dir, cluster, .save_checkpoints_steps = save_steps,
                              .save_summary_steps = 10);
}

static est_estimator *make(const char *dir, int64_t save_steps)
{
    return make_task(dir, save_steps, "{}");
}

static int64_t saved_step(const char *dir)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *step       = NULL;
    int64_t         value;

    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, "global_step", &step), EST_OK);
    value = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    est_checkpoint_close(checkpoint);
    return value;
}

TEST(steps_and_max_steps)
{
    char           dir[64];
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 50);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 12)), EST_OK);
    assert_int_equal(saved_step(dir), 12);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5)), EST_OK);
    assert_int_equal(saved_step(dir), 17);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20)), EST_OK);
    assert_int_equal(saved_step(dir), 20);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20)), EST_OK);
    assert_int_equal(saved_step(dir), 20);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(input_ends)
{
    char           dir[64];
    int64_t        passes = 2;
    est_estimator *e;

    est_test_dir(dir);
    e = make(dir, 50);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .input_user = &passes)), EST_OK);
    assert_int_equal(saved_step(dir), 16); /* 2 passes of 64 rows in batches of 8 */
    /* The next call begins the input again, */
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .input_user = &passes)), EST_OK);
    assert_int_equal(saved_step(dir), 32);
    /* also when the last step had been saved before the end was known. */
    est_estimator_free(e);
    e = make(dir, 8);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .input_user = &passes)), EST_OK);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .input_user = &passes)), EST_OK);
    assert_int_equal(saved_step(dir), 64);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* New rows under the old name every day: they are read from the first one on, and the log says why. */
static est_status csv_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = est_dataset_lines(est_dataset_files(user), NULL);

    (void)context;
    d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_decode_csv(d, EST_CSV_COLUMNS({ .name = "x", .dtype = EST_F32 }, { .name = "y", .dtype = EST_F32 }),
                               NULL, 2, NULL);
    return est_dataset_finish(d, out);
}

static est_status line_model(est_model *m, est_mode mode, const void *params)
{
    est_node y    = est_dense(est_expand_dims(est_model_feature(m, "x"), -1), 1, NULL);
    est_node loss = est_mean(est_square(est_sub(y, est_expand_dims(est_model_label(m, "y"), -1))));

    (void)mode;
    est_model_loss(m, loss);
    est_model_minimize(
        m, params != NULL ? est_adam(*(const double *)params, EST_ADAM(.keras = true)) : est_adam(0.001, NULL), loss);
    return est_model_status(m);
}

/* More rows than are read ahead. */
static void write_rows(const char *path, int n, const char *row)
{
    est_strbuf text = { 0 };

    for (int i = 0; i < n; i++) est_strbuf_append(&text, row);
    assert_int_equal(est_file_replace(path, est_strbuf_text(&text), text.size), EST_OK);
    est_strbuf_clear(&text);
}

static void train_rows(est_estimator *e, char *path, int64_t max_steps)
{
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = csv_input, .input_user = path, .max_steps = max_steps)),
                     EST_OK);
}

TEST(new_data)
{
    char           dir[64], path[96];
    est_estimator *e = NULL;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/rows.csv", dir);
    e = EST_TEST_ESTIMATOR(line_model, dir, "{}");
    log_keep(EST_LOG_WARN);
    write_rows(path, 1000, "1,2\n");
    train_rows(e, path, 4);
    write_rows(path, 1001, "1,2\n");
    train_rows(e, path, 5);
    assert_string_equal(log_text(), "");
    write_rows(path, 1002, "111,222\n");
    train_rows(e, path, 6);
    log_release();
    assert_non_null(strstr(log_line(-1), "the input starts from its beginning: "));
    assert_non_null(strstr(log_line(-1), path));
    assert_non_null(strstr(log_line(-1), "has changed since"));
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* The learning rate of a Keras optimizer is a variable; another one in the program changes nothing, and the log says
 * so. */
TEST(new_learning_rate)
{
    static const double rates[] = { 0.125, 0.125, 100 };
    char                dir[64], path[96], wanted[256];

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/rows.csv", dir);
    write_rows(path, 1000, "1,2\n");
    log_keep(EST_LOG_WARN);
    for (int i = 0; i < 3; i++) {
        est_estimator *e = NULL;

        assert_string_equal(log_text(), "");
        e = est_test_make(line_model, EST_ESTIMATOR(.config = EST_TEST_CONFIG(dir, "{}"), .params = &rates[i],
                                                    .params_size = sizeof rates[i]));
        train_rows(e, path, i + 1);
        est_estimator_free(e);
    }
    log_release();
    snprintf(wanted, sizeof wanted, "learning rate 100 is not used: %s/model.ckpt-2 has 0.125 in training/Adam/", dir);
    log_expect(wanted);
    est_test_dir_remove(dir);
}

/* The end mark is there when training has ended and while no other has begun. */
typedef struct mark_watcher {
    est_hook    hook;
    const char *path;
    int         runs;
} mark_watcher;

static est_status watch_mark(est_hook *hook, est_loop *loop)
{
    mark_watcher *w = EST_CONTAINER_OF(hook, mark_watcher, hook);

    (void)loop;
    assert_false(est_file_exists(w->path));
    w->runs++;
    return EST_OK;
}

static est_status refuse_to_begin(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    return est_fail(EST_FAILED_PRECONDITION, "not today");
}

static est_status empty_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_take(d, 0), out);
}

TEST(end_mark)
{
    char           dir[64], path[96];
    mark_watcher   w = { .hook = EST_HOOK(.before_run = watch_mark), .path = path };
    est_estimator *e;
    char          *text = NULL;
    size_t         size;

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/training_done", dir);
    e = make(dir, 50);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3, .hooks = EST_HOOKS(&w.hook))),
            EST_OK);
        assert_true(est_file_exists(path));
    }
    assert_int_equal(w.runs, 6);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.steps = 3)), EST_INVALID_ARGUMENT); /* it did not begin */
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3,
                                                    .hooks = EST_HOOKS(&(est_hook)EST_HOOK(.begin = refuse_to_begin)))),
                     EST_FAILED_PRECONDITION); /* nor here */
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = empty_input, .steps = 3)),
                     EST_INVALID_ARGUMENT); /* nor without a batch */
    est_test_error_has("no batch to train with");
    assert_int_equal(est_file_read(path, &text, &size), EST_OK);
    assert_int_equal(size, 2);
    assert_memory_equal(text, "6\n", 2);
    est_free(text);
    assert_int_equal(est_file_remove(path), EST_OK);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 6)), EST_OK); /* skipped */
    assert_true(est_file_exists(path));
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(clusters)
{
    static const char *const alone[] = {
        "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
        "{\"cluster\": {\"master\": [\"a:1\"]}, \"task\": {\"type\": \"master\", \"index\": 0}}",
        "{\"cluster\": {\"chief\": [\"a:1\"], \"evaluator\": [\"b:1\"]}, \"task\": {\"type\": \"chief\", \"index\":0}}",
    };
    static const char *const several[] = {
        "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\"]}, "
        "\"task\": {\"type\": \"chief\", \"index\": 0}}",
        "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\", \"c:1\"]}, "
        "\"task\": {\"type\": \"worker\", \"index\": 1}}",
    };
    char           dir[64];
    est_estimator *e;

    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        est_test_dir(dir);
        e = make_task(dir, 50, alone[i]);
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3)), EST_OK);
        assert_int_equal(saved_step(dir), 3);
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
    for (size_t i = 0; i < sizeof several / sizeof several[0]; i++) {
        est_test_dir(dir);
        e = make_task(dir, 50, several[i]);
        assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 3)), EST_INVALID_ARGUMENT);
        est_test_error_has("of a cluster of several");
        est_estimator_free(e);
        est_test_dir_remove(dir);
    }
}

static est_status note_context(const est_input_context *context, void *user, est_dataset **out)
{
    *(est_input_context *)user = *context;
    return est_test_input(context, NULL, out);
}

/* A worker's place has no gaps even where the cluster's indices do, and jobs that do not train do not count. */
TEST(pipeline)
{
    char              dir[64];
    est_input_context context = { 0 };
    est_dataset      *input   = NULL;
    est_estimator    *e;

    est_test_dir(dir);
    e = make_task(dir, 50,
                  "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": {\"1\": \"b:1\", \"4\": \"c:1\"}, "
                  "\"ps\": [\"d:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 4}}");
    assert_int_equal(est_estimator_input(e, EST_TRAIN, note_context, &context, 1, 1, &input), EST_OK);
    assert_int_equal(context.n_pipelines, 3);
    assert_int_equal(context.pipeline, 2);
    assert_ptr_equal(context.config, est_estimator_config(e));
    assert_int_equal(context.mode, EST_TRAIN);
    assert_int_equal(context.seed, 1);
    est_dataset_free(input);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* In one go, and in pieces that end anywhere: the same variables, slots, input position and random numbers. */
TEST(resume_is_exact)
{
    char           whole[64], pieces[64];
    est_estimator *e;

    est_test_dir(whole);
    est_test_dir(pieces);
    e = make(whole, 1000);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100)), EST_OK);
    est_estimator_free(e);
    for (int i = 0; i < 3; i++) {
        e = make(pieces, 1000);
        assert_int_equal(
            est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = (int64_t[]){ 37, 61, 100 }[i])),
            EST_OK);
        est_estimator_free(e);
    }
    est_test_same_checkpoint(whole, pieces);
    est_test_dir_remove(whole);
    est_test_dir_remove(pieces);
}

typedef struct stalled {
    int asks, rows; /* ends of pipes: a byte for every row that is asked for, and one that brings it */
} stalled;

static est_status next_stalled(void *state, est_field *element)
{
    const stalled *s       = state;
    const float    zero[2] = { 0 };
    char           byte    = 'x';

    if (write(s->asks, &byte, 1) != 1 || read(s->rows, &byte, 1) != 1) return est_fail(EST_INTERNAL, "a broken pipe");
    EST_TRY(est_tensor_f32(EST_SHAPE(1, 2), zero, &element[0].values));
    return est_tensor_f32(EST_SHAPE(1, 1), zero, &element[1].values);
}

static est_status stalled_input(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component row[] = { { .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(1, 2) },
                                  { .name = "y", .dtype = EST_F32, .shape = EST_SHAPE(1, 1) } };

    (void)context;
    return est_dataset_finish(
        est_dataset_generator((est_components){ row, 2 }, EST_GENERATOR(.next = next_stalled, .user = user)), out);
}

/* Reads what was said until `text` is in it; the test's own time limit ends an endless wait. */
static void await_text(int from, const char *text)
{
    static char said[1 << 16];
    size_t      n = 0;

    do {
        ssize_t got = read(from, said + n, sizeof said - 1 - n);

        assert_true(got > 0);
        n += (size_t)got;
        said[n] = '\0';
    } while (strstr(said, text) == NULL);
}

/* The signal is answered while the input stalls; the run ends in good order when the row is there. */
TEST(signal_while_input_stalls)
{
    int     asks[2], rows[2], errors[2], status;
    char    dir[64], byte = 'x';
    pid_t   pid;
    stalled s;

    est_test_dir(dir);
    assert_true(pipe(asks) == 0 && pipe(rows) == 0 && pipe(errors) == 0);
    s   = (stalled){ .asks = asks[1], .rows = rows[0] };
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        est_estimator *e;

        if (dup2(errors[1], STDERR_FILENO) < 0) _exit(1);
        est_log_set_level(EST_LOG_INFO);
        e = make(dir, 1000);
        _exit(est_exit_code(est_train(e, EST_TRAIN_OPTIONS(.input_fn = stalled_input, .input_user = &s))));
    }
    close(errors[1]);
    assert_int_equal(read(asks[0], &byte, 1), 1);
    assert_int_equal(write(rows[1], &byte, 1), 1);
    assert_int_equal(read(asks[0], &byte, 1), 1); /* the first step is made, and the second row is awaited */
    assert_int_equal(kill(pid, SIGTERM), 0);
    await_text(errors[0], "estoc: SIGTERM: stopping in good order; once more to stop at once\n");
    assert_int_equal(write(rows[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 75);
    assert_int_equal(saved_step(dir), 2);
    close(asks[0]), close(asks[1]), close(rows[0]), close(rows[1]), close(errors[0]);
    est_test_dir_remove(dir);
}

static void train_and_die(const char *dir, int64_t step)
{
    est_test_killer k   = EST_TEST_KILLER(step);
    pid_t           pid = fork();
    int             status;

    assert_true(pid >= 0);
    if (pid == 0) {
        est_estimator *e = make(dir, 10);
        (void)!est_train(e,
                         EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100, .hooks = EST_HOOKS(&k.hook)));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(killed_and_resumed_is_exact)
{
    char           whole[64], killed[64];
    est_estimator *e;

    est_test_dir(whole);
    est_test_dir(killed);
    train_and_die(killed, 27);
    assert_int_equal(saved_step(killed), 20);
    train_and_die(killed, 55);
    assert_int_equal(saved_step(killed), 50);
    e = make(killed, 10);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100)), EST_OK);
    est_estimator_free(e);
    e = make(whole, 1000);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100)), EST_OK);
    est_estimator_free(e);
    est_test_same_checkpoint(whole, killed);
    est_test_dir_remove(whole);
    est_test_dir_remove(killed);
}

/* SIGTERM: the step is finished, the state saved, the status says so; started again, it ends as if nothing was. */
typedef struct terminator {
    est_hook hook;
    int64_t  step;
} terminator;

static est_status terminator_run(est_hook *hook, est_loop *loop)
{
    if (est_loop_global_step(loop) == EST_CONTAINER_OF(hook, terminator, hook)->step) raise(SIGTERM);
    return EST_OK;
}

static void check_sigterm(terminator t, int64_t saved)
{
    char           whole[64], stopped[64];
    est_estimator *e;
    est_status     status;

    est_test_dir(whole);
    est_test_dir(stopped);
    e      = make(stopped, 1000);
    status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100, .hooks = EST_HOOKS(&t.hook)));
    assert_int_equal(status, EST_CANCELLED);
    est_test_error_has("SIGTERM");
    assert_int_equal(est_exit_code(status), 75);
    assert_int_equal(saved_step(stopped), saved);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100)), EST_OK);
    est_estimator_free(e);
    e = make(whole, 1000);
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 100)), EST_OK);
    est_estimator_free(e);
    est_test_same_checkpoint(whole, stopped);
    est_test_dir_remove(whole);
    est_test_dir_remove(stopped);
}

/* Behind the last step there is nothing to start again for: what is left of the run is done, and it succeeds. */
TEST(sigterm_after_the_last_step)
{
    const terminator last[] = {
        { .hook = EST_HOOK(.after_run = terminator_run), .step = 20 }, /* in the run that made it */
        { .hook = EST_HOOK(.end = terminator_run), .step = 20 },       /* behind it */
    };

    for (int i = 0; i < 2; i++) {
        terminator     t = last[i];
        char           dir[64], done[96];
        est_estimator *e;
        pid_t          pid;
        int            status;

        est_test_dir(dir);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            e = make(dir, 1000);
            _exit(est_exit_code(est_train(
                e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 20, .hooks = EST_HOOKS(&t.hook)))));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(saved_step(dir), 20);
        snprintf(done, sizeof done, "%s/training_done", dir);
        assert_true(est_file_exists(done));
        est_test_dir_remove(dir);
    }
}

TEST(sigterm)
{
    check_sigterm((terminator){ .hook = EST_HOOK(.after_run = terminator_run), .step = 33 }, 33);
    check_sigterm((terminator){ .hook = EST_HOOK(.before_run = terminator_run), .step = 33 },
                  34); /* its batch was read */
}

static void refused(est_status status, est_status want, const char *text)
{
    assert_int_equal(status, want);
    est_test_error_has(text);
}

static est_status no_loss_model(est_model *model, est_mode mode, const void *params)
{
    (void)mode;
    (void)params;
    est_model_predict(model, "x", est_model_feature(model, "x"));
    return est_model_status(model);
}

static est_status wrong_feature_model(est_model *model, est_mode mode, const void *params)
{
    (void)mode;
    (void)params;
    est_model_predict(model, "x", est_model_feature(model, "colour"));
    return est_model_status(model);
}

static est_status nan_model(est_model *model, est_mode mode, const void *params)
{
    est_node x    = est_model_feature(model, "x");
    est_node y    = est_dense(x, 1, NULL);
    est_node loss = est_mean(est_log(est_sub(y, est_add(y, est_square(y)))));

    (void)mode;
    (void)params;
    est_model_loss(model, loss);
    est_model_minimize(model, est_sgd(0.1), loss);
    return est_model_status(model);
}

TEST(refused)
{
    char                 dir[64];
    est_estimator       *e      = NULL;
    const est_run_config config = {
        .struct_size = sizeof config, .model_dir = dir, .quiet = true, .cluster_json = "{}"
    };

    est_test_dir(dir);
    refused(est_estimator_create(NULL, NULL, &e), EST_INVALID_ARGUMENT, "model_fn");
    e = est_test_make(no_loss_model, EST_ESTIMATOR(.config = &config));
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1, .max_steps = 2)),
            EST_INVALID_ARGUMENT, "steps (1) and max_steps (2)");
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = -1)), EST_INVALID_ARGUMENT,
            "train: steps is -1");
    refused(est_train(e, EST_TRAIN_OPTIONS(.max_steps = 1)), EST_INVALID_ARGUMENT, "train: input_fn is required");
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_INVALID_ARGUMENT,
            "no loss in mode train");
    est_estimator_free(e);
    e = est_test_make(wrong_feature_model, EST_ESTIMATOR(.config = &config));
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 1)), EST_INVALID_ARGUMENT,
            "the feature \"colour\", but the input has no such component; it has: x, y");
    est_estimator_free(e);
    e = est_test_make(nan_model, EST_ESTIMATOR(.config = &config));
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5)), EST_INVALID_ARGUMENT, "NaN loss");
    est_estimator_free(e);
    e = make(dir, 10);
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .steps = 5)), EST_INVALID_ARGUMENT, "dense");
    est_estimator_free(e);
    est_test_dir_remove(dir);
    est_test_dir(dir);
    e = make(dir, 10);
    refused(est_train(e, EST_TRAIN_OPTIONS(.input_fn = empty_input, .steps = 5)), EST_INVALID_ARGUMENT, "no batch");
    assert_int_equal(saved_step(dir), 0);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* --- on a terminal ------------------------------------------------------------------------------------------------ */

/* Whether a training shows the progress line, and news, on a terminal. */
static void train_on_terminal(bool quiet, est_log_level level, bool progress, bool news)
{
    static char screen[1 << 16];
    char        dir[64];
    size_t      n = 0;
    ssize_t     got;
    int         terminal, status;
    pid_t       child;

    est_test_dir(dir);
    child = forkpty(&terminal, NULL, NULL, &(struct winsize){ .ws_row = 25, .ws_col = 100 });
    assert_true(child >= 0);
    if (child == 0) {
        est_estimator *e = NULL;

        setenv("TERM", "xterm", 1);
        est_log_set_level(level);
        if (est_estimator_create(
                est_test_model,
                EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .quiet = quiet, .cluster_json = "{}")),
                &e) != EST_OK) {
            _exit(1);
        }
        _exit(est_train(e, EST_TRAIN_OPTIONS(.input_fn = est_test_input, .max_steps = 3)) == EST_OK ? 0 : 2);
    }
    while ((got = read(terminal, screen + n, sizeof screen - 1 - n)) > 0) n += (size_t)got;
    screen[n] = '\0';
    assert_int_equal(close(terminal), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    if ((strstr(screen, "step 0/3  ") != NULL) != progress ||
        (strstr(screen, "Done calling model_fn.") != NULL) != news) {
        fail_msg("quiet %d, level %d: %s", quiet, (int)level, screen);
    }
    est_test_dir_remove(dir);
}

TEST(quiet)
{
    train_on_terminal(false, EST_LOG_INFO, true, true);
    train_on_terminal(true, EST_LOG_INFO, false, true);
    train_on_terminal(false, EST_LOG_WARN, true, false); /* the line is none of the log */
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
