/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress line, on a terminal that is ours: what is drawn, that log lines are whole beside it, colours, width, and
 * that nothing is drawn elsewhere. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include "base/log.h"
#include "base/signals.h"
#include "support/terminal_test.h"
#include "train/loop_test.h"

/* --- a training that takes its time ------------------------------------------------------------------------------- */

static est_manual_clock clock_at;
static double           step_secs;
static int64_t          passes = 1;

static est_status take_time(est_hook *hook, est_loop *loop)
{
    (void)hook;
    (void)loop;
    est_manual_clock_advance(&clock_at, (int64_t)(step_secs * (double)EST_NS_PER_SEC));
    return EST_OK;
}

static est_status log_third(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_runs(loop) == 3) est_log_info("an ordinary line");
    return EST_OK;
}

static est_hook slow    = EST_HOOK(.before_run = take_time);
static est_hook talking = EST_HOOK(.after_run = log_third);

static int train(int64_t max_steps)
{
    trainer    t;
    est_hook  *progress = est_progress_hook(0, max_steps);
    est_status status;

    est_manual_clock_init(&clock_at, 0, 0);
    est_clock_set(&clock_at.clock);
    make_trainer(&t, 10, passes);
    status = run_hooks(&t, EST_HOOKS(&slow, progress, &talking));
    est_hook_free(progress);
    trainer_free(&t);
    return status == EST_OK ? 0 : 1;
}

static int train_slowly(void)
{
    step_secs = 2;
    return train(100);
}

TEST(line)
{
    on_terminal(120, train_slowly);
    expect_on_screen(DRAWN("step 0/100  waiting for the first step"));
    expect_on_screen(DRAWN("step 1/100  loss 10"));
    expect_on_screen(DRAWN("step 2/100  1 examples/s  loss 45.12  3:16 left"));
    expect_on_screen(DRAWN("step 5/100  1 examples/s  loss 0.4724  3:10 left"));

    /* The ordinary line takes the place of the progress line, which is drawn again below it. */
    expect_on_screen("info an ordinary line\r\n\033[2mstep 3/100  1 examples/s  loss 61.93  3:14 left\033[0m");
    assert_memory_equal(strstr(screen, "info an ordinary line") - sizeof "1970-01-01 00:00:06.000" - 4, "\r\033[K", 4);
    assert_string_equal(screen + strlen(screen) - 4, "\r\033[K"); /* gone in the end */
}

static int train_some_steps(void)
{
    trainer    t;
    est_hook  *progress[] = { est_progress_hook(5, 0), est_progress_hook(5, 0), est_eval_progress_hook(5),
                              est_eval_progress_hook(0) };
    est_hook  *saver;
    est_status status;

    step_secs = 2;
    est_manual_clock_init(&clock_at, 0, 0);
    est_clock_set(&clock_at.clock);
    make_trainer(&t, 10, passes);
    status = est_saver_create(at("steps"), NULL, &t.saver);
    saver  = est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = 100, .saver = t.saver));
    for (int i = 0; i < 4 && status == EST_OK; i++) status = run_hooks(&t, EST_HOOKS(&slow, saver, progress[i]));
    for (int i = 0; i < 4; i++) est_hook_free(progress[i]);
    est_hook_free(saver);
    est_saver_free(t.saver);
    trainer_free(&t);
    return status == EST_OK ? 0 : 1;
}

/* The end of a number of steps, and the batches of an evaluation. */
TEST(ends)
{
    on_terminal(120, train_some_steps);
    expect_on_screen(DRAWN("step 0/5  waiting for the first step"));
    expect_on_screen(DRAWN("step 2/5  1 examples/s  loss 45.12  0:06 left"));
    expect_on_screen(DRAWN("step 5/10  waiting for the first step")); /* five more, from where the first loop ended */
    expect_on_screen("\033[2mstep 7/10  1 examples/s  loss ");
    expect_on_screen(DRAWN("evaluation 0/5  waiting for the first step"));
    expect_on_screen("\033[2mevaluation 2/5  1 examples/s  loss ");
    expect_on_screen("\033[2mevaluation 2  1 examples/s  loss ");
}

static int train_fast(void)
{
    step_secs = 0.04;
    return train(0);
}

/* Ten lines a second at most: of five steps of 40 ms the first and the fourth are drawn. */
TEST(fast)
{
    on_terminal(120, train_fast);
    expect_on_screen(DRAWN("step 1  loss 10"));
    assert_false(screen_has("step 2 "));
    assert_false(screen_has("step 3 "));
    expect_on_screen(DRAWN("step 4  50 examples/s  loss 17.45"));
    assert_false(screen_has("step 5 "));
    assert_false(screen_has("left"));
}

static int train_at_rate(void)
{
    return train(0);
}

/* Three digits, whatever the speed. */
TEST(rates)
{
    static const struct {
        double      step_secs; /* for 2 rows */
        int64_t     passes;
        const char *text;
    } rates[] = {
        { 800, 1, "  0.0025 examples/s" }, { 8, 1, "  0.25 examples/s" },           { 2.4e-3, 20, "  833 examples/s" },
        { 2e-3, 20, "  1k examples/s" },   { 86.65e-6, 400, "  23.1k examples/s" },
    };

    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        step_secs = rates[i].step_secs;
        passes    = rates[i].passes;
        on_terminal(120, train_at_rate);
        expect_on_screen(rates[i].text);
    }
    passes = 1;
}

static int train_plain(void)
{
    setenv("NO_COLOR", "1", 1);
    return train_slowly();
}

TEST(no_color)
{
    on_terminal(120, train_plain);
    expect_on_screen("\r\033[Kstep 2/100  1 examples/s  loss 45.12  3:16 left");
    assert_false(screen_has("\033[2m"));
    assert_false(screen_has("\033[0m"));
}

TEST(narrow)
{
    on_terminal(20, train_slowly);
    expect_on_screen(DRAWN("step 2/100  1 examp")); /* 19 columns: the last would wrap */
    assert_false(screen_has("examples"));
}

static int train_dumb(void)
{
    setenv("TERM", "dumb", 1);
    return train_slowly();
}

static int train_at_warn(void)
{
    est_log_set_level(EST_LOG_WARN);
    return train_slowly();
}

static int train_with_sink(void)
{
    log_keep(EST_LOG_INFO);
    return train_slowly();
}

static int train_into_file(void)
{
    int fd = open("/dev/null", O_WRONLY);

    return fd >= 0 && dup2(fd, STDERR_FILENO) >= 0 ? train_slowly() : 2;
}

/* It is no line of the log. */
TEST(level)
{
    on_terminal(80, train_at_warn);
    assert_true(screen_has("step") && !screen_has("an ordinary line"));
}

TEST(nothing)
{
    on_terminal(80, train_dumb);
    assert_true(screen_has("an ordinary line") && !screen_has("step") && !screen_has("\033"));
    on_terminal(80, train_with_sink);
    assert_string_equal(screen, "");
    on_terminal(80, train_into_file);
    assert_string_equal(screen, "");
}

/* --- input, ends and failures ------------------------------------------------------------------------------------- */

static est_status slow_row(void *user, const est_field *in, est_field *out)
{
    (void)user;
    est_manual_clock_advance(&clock_at, EST_NS_PER_SEC);
    for (int i = 0; i < 2; i++) out[i] = (est_field){ .values = est_tensor_ref(in[i].values) };
    return EST_OK;
}

static int train_hungry(void)
{
    trainer    t;
    est_hook  *progress = est_progress_hook(0, 4000);
    est_status status;

    step_secs = 0.25;
    est_manual_clock_init(&clock_at, 0, 0);
    est_clock_set(&clock_at.clock);
    make_trainer(&t, 10, 1);
    if (est_dataset_finish(est_dataset_map(t.input, slow_row, NULL), &t.input) != EST_OK) return 2;
    t.spec.input = t.input;
    status       = run_hooks(&t, EST_HOOKS(&slow, progress));
    est_hook_free(progress);
    trainer_free(&t);
    return status == EST_OK ? 0 : 1;
}

TEST(input)
{
    on_terminal(120, train_hungry);
    expect_on_screen(DRAWN("step 2/4000  1.6 examples/s  loss 45.12  1:23:18 left  waiting for input"));
}

static int train_and_fail(void)
{
    trainer   t;
    recorder  r        = make_recorder("r");
    est_hook *progress = est_progress_hook(0, 10);

    make_trainer(&t, 10, 1);
    r.failure = EST_INTERNAL, r.fail_after = 2;
    if (run_hooks(&t, EST_HOOKS(progress, &r.hook)) != EST_INTERNAL) return 1;
    est_hook_free(progress);
    trainer_free(&t);
    est_log_info("after it");
    return 0;
}

/* A loop that failed leaves no line behind either. */
TEST(failure)
{
    on_terminal(80, train_and_fail);
    expect_on_screen("step 1/10");
    assert_null(strstr(strstr(screen, "after it"), "step"));
    assert_non_null(strstr(screen, "\r\033[K"));
}

static est_status raise_third(est_hook *hook, est_loop *loop)
{
    (void)hook;
    if (est_loop_runs(loop) == 3) raise(SIGINT);
    return EST_OK;
}

static int train_and_stop(void)
{
    trainer    t;
    est_hook   stopping = EST_HOOK(.after_run = raise_third);
    est_hook  *progress = est_progress_hook(0, 10);
    est_status status;

    step_secs = 1;
    est_manual_clock_init(&clock_at, 0, 0);
    est_clock_set(&clock_at.clock);
    make_trainer(&t, 10, 1);
    est_signals_catch();
    status = run_hooks(&t, EST_HOOKS(&slow, &stopping, progress));
    est_signals_release(EST_CANCELLED);
    est_hook_free(progress);
    trainer_free(&t);
    return status == EST_OK ? 0 : 1;
}

TEST(stopping)
{
    on_terminal(80, train_and_stop);
    expect_on_screen("step 3/10  2 examples/s  loss 61.93  0:07 left  stopping");
}

/* --- many threads ------------------------------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_LINES = 50 };

static void *log_lines(void *arg)
{
    for (int i = 0; i < N_LINES; i++) est_log_info("thread %d line %d", *(int *)arg, i);
    return NULL;
}

static int log_from_threads(void)
{
    pthread_t threads[N_THREADS];
    int       numbers[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, log_lines, &numbers[i]) != 0) return 1;
    }
    for (int i = 0; i < N_LINES; i++) est_log_status(i % 10 == 9 ? NULL : "the status line");
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    est_log_status(NULL);
    return 0;
}

/* Every line is whole: what is left of it after the last erasure is a stamp, the level and the text. */
TEST(threads)
{
    int seen[N_THREADS] = { 0 };

    on_terminal(80, log_from_threads);
    for (char *at_line = screen, *line; (line = strsep(&at_line, "\n")) != NULL;) {
        const char *rest;
        int         thread, number;

        rest = strrchr(line, 'K') != NULL ? strrchr(line, 'K') + 1 : line;
        if (strchr(line, '\r') == NULL || *rest == '\0') continue; /* the last erasure has no line */
        if (sscanf(rest, "%*d-%*d-%*d %*d:%*d:%*d.%*d info thread %d line %d\r", &thread, &number) != 2) {
            fail_msg("torn: '%s'", line);
        }
        assert_int_equal(number, seen[thread]++);
    }
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(seen[i], N_LINES);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
