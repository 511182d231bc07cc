/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: caught and told, nested, put back; a second one ends the process. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "support/log_test.h"
#include "support/test.h"

static int n_own;

static void own_handler(int number)
{
    (void)number;
    n_own++;
}

TEST(caught)
{
    struct sigaction now;

    signal(SIGINT, own_handler);
    est_signals_catch();
    assert_int_equal(est_stop_signal(), 0);
    assert_string_equal(est_stop_signal_name(), "");
    est_signals_catch(); /* nested */
    raise(SIGTERM);
    assert_int_equal(est_stop_signal(), SIGTERM);
    assert_string_equal(est_stop_signal_name(), "SIGTERM");
    est_signals_release(EST_CANCELLED);
    assert_int_equal(est_stop_signal(), SIGTERM);
    est_signals_release(EST_CANCELLED);
    assert_int_equal(est_stop_signal(), 0); /* the next one begins afresh */
    raise(SIGINT);
    assert_int_equal(n_own, 1); /* what was there is there again */
    sigaction(SIGTERM, NULL, &now);
    assert_true(now.sa_handler == SIG_DFL);

    est_signals_catch();
    raise(SIGINT);
    assert_string_equal(est_stop_signal_name(), "SIGINT");
    assert_int_equal(n_own, 1);
    est_signals_release(EST_CANCELLED);
    signal(SIGINT, SIG_DFL);
}

/* A program with a handler of its own hears of the signal as if it had come after the call. */
TEST(untold_is_raised_again)
{
    n_own = 0;
    signal(SIGINT, own_handler);
    est_signals_catch();
    est_signals_catch();
    raise(SIGINT);
    est_signals_release(EST_OK); /* the outer one may still tell */
    assert_int_equal(n_own, 0);
    assert_int_equal(est_stop_signal(), SIGINT);
    est_signals_release(EST_OK);
    assert_int_equal(n_own, 1);
    assert_int_equal(est_stop_signal(), 0);
    est_signals_catch();
    assert_int_equal(est_stop_signal(), 0);
    est_signals_release(EST_OK); /* there was none */
    assert_int_equal(n_own, 1);

    log_keep(EST_LOG_INFO); /* the handler may not return */
    est_signals_catch();
    raise(SIGINT);
    est_signals_release(est_fail(EST_DATA_LOSS, "the disk is full"));
    assert_int_equal(n_own, 2);
    assert_string_equal(log_line(-1), "error DATA_LOSS: the disk is full");
    log_release();
    signal(SIGINT, SIG_DFL);
}

/* In a child: what a call leaves behind that a signal did not end. */
static int succeed_in_spite(bool once_more)
{
    log_keep(EST_LOG_INFO);
    est_signals_catch();
    raise(SIGTERM);
    est_signals_release(EST_OK);
    if (strcmp(log_line(-1), "info SIGTERM came too late to stop this call; the next one will be stopped") != 0)
        return 4;
    if (once_more) raise(SIGINT); /* between two calls */
    est_signals_catch();
    if (est_stop_signal() != SIGTERM) return 1; /* the next call begins with it */
    est_signals_release(EST_CANCELLED);
    if (!est_signals_told()) return 2;
    est_signals_catch();
    if (est_stop_signal() != 0) return 3; /* once told, it is forgotten */
    est_signals_release(EST_OK);
    return 0;
}

TEST(untold_is_kept)
{
    for (int once_more = 0; once_more < 2; once_more++) {
        int   status;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) _exit(succeed_in_spite(once_more == 1));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (once_more == 0) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (once_more == 1) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    }
}

/* The second signal ends the process in the call that began with the first, too. */
TEST(second_after_a_kept_one)
{
    int   status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        est_signals_catch();
        raise(SIGTERM);
        est_signals_release(EST_OK);
        est_signals_catch();
        raise(SIGTERM);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(check)
{
    est_signals_catch();
    assert_int_equal(est_signals_check("work"), EST_OK);
    raise(SIGTERM);
    assert_int_equal(est_signals_check("work"), EST_CANCELLED);
    assert_string_equal(est_error_message(), "SIGTERM: the work was stopped; start it again");
    est_signals_release(EST_CANCELLED);
    assert_int_equal(est_signals_check("work"), EST_OK);
}

TEST(ignored_stays_ignored)
{
    signal(SIGINT, SIG_IGN); /* as under nohup */
    est_signals_catch();
    raise(SIGINT);
    assert_int_equal(est_stop_signal(), 0);
    raise(SIGTERM);
    raise(SIGINT); /* still, when the other has been caught */
    assert_int_equal(est_stop_signal(), SIGTERM);
    est_signals_release(EST_CANCELLED);
    signal(SIGINT, SIG_DFL);
}

/* A second one, of either kind. */
TEST(second_ends)
{
    static const int kinds[] = { SIGTERM, SIGINT };

    for (int i = 0; i < 4; i++) {
        int   status, first = kinds[i / 2], second = kinds[i % 2];
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            est_signals_catch();
            raise(first);
            if (est_stop_signal() != first) _exit(3);
            raise(second);
            _exit(4);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == second);
    }
}

/* What standard error gets when a signal comes while the log is as `set_log` has it. */
static void expect_answer(void (*set_log)(void), int number, const char *want)
{
    int     ends[2], kept = dup(STDERR_FILENO);
    char    got[256];
    ssize_t n;

    set_log();
    assert_int_equal(pipe(ends), 0);
    assert_true(kept >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    est_signals_catch();
    raise(number);
    est_signals_release(EST_CANCELLED);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(ends[1]);
    n = read(ends[0], got, sizeof got - 1);
    assert_true(n >= 0);
    got[n] = '\0';
    close(ends[0]);
    log_release();
    est_log_set_level(EST_LOG_INFO);
    assert_string_equal(got, want);
}

static void log_plainly(void)
{
    est_log_set_level(EST_LOG_INFO);
}

static void log_errors(void)
{
    est_log_set_level(EST_LOG_ERROR);
}

static void log_elsewhere(void)
{
    log_keep(EST_LOG_INFO);
}

TEST(answer)
{
    expect_answer(log_plainly, SIGTERM, "estoc: SIGTERM: stopping in good order; once more to stop at once\n");
    expect_answer(log_plainly, SIGINT, "estoc: SIGINT: stopping in good order; once more to stop at once\n");
    expect_answer(log_errors, SIGTERM, "");
    expect_answer(log_elsewhere, SIGTERM, "");
}

/* A clock whose third sleep brings the signal. */
typedef struct bringing_clock {
    est_manual_clock manual;
    est_clock        clock;
    int              sleeps;
} bringing_clock;

static void sleep_and_bring(void *user, int64_t ns)
{
    bringing_clock *own = user;

    est_manual_clock_advance(&own->manual, ns);
    if (++own->sleeps == 3) raise(SIGTERM);
}

static int64_t bringing_now(void *user)
{
    return atomic_load(&((bringing_clock *)user)->manual.now_ns);
}

TEST(wait)
{
    bringing_clock own = { .clock = { .now_ns = bringing_now, .wall_ns = bringing_now, .sleep_ns = sleep_and_bring } };

    est_manual_clock_init(&own.manual, 0, 0);
    own.clock.user = &own;
    own.sleeps     = 10;
    est_clock_set(&own.clock);
    est_signals_catch();
    assert_false(est_signals_wait(0));
    assert_int_equal(est_now_ns(), 0);
    assert_false(est_signals_wait(2.5));
    assert_int_equal(est_now_ns(), 5 * EST_NS_PER_SEC / 2);
    own.sleeps = 0;
    assert_true(est_signals_wait(1000));
    assert_int_equal(own.sleeps, 3);
    assert_true(est_now_ns() < 3 * EST_NS_PER_SEC);
    assert_true(est_signals_wait(1000)); /* at once */
    assert_int_equal(own.sleeps, 3);
    est_signals_release(EST_CANCELLED);
    est_clock_set(NULL);
}

/* Only a call that a signal ended has told of it, until the next one. */
TEST(told)
{
    est_signals_catch();
    est_signals_release(EST_CANCELLED);
    assert_false(est_signals_told());
    est_signals_catch();
    raise(SIGTERM);
    est_signals_release(EST_CANCELLED);
    assert_true(est_signals_told());
    est_signals_catch();
    assert_false(est_signals_told());
    est_signals_release(EST_OK);
}

/* Of an object during whose life signals are caught: its last call that was stopped, or a call inside of its life. */
TEST(told_by_an_object)
{
    for (int inside = 0; inside < 2; inside++) {
        est_signals_catch();
        raise(SIGTERM);
        est_signals_tell(EST_OK);
        assert_false(est_signals_told());
        if (inside) {
            est_signals_catch();
            est_signals_release(EST_CANCELLED);
        } else {
            est_signals_tell(EST_CANCELLED);
        }
        est_signals_release_object();
        assert_true(est_signals_told());
        assert_int_equal(est_stop_signal(), 0);
    }
    est_signals_catch();
    assert_int_equal(est_stop_signal(), 0); /* none is kept */
    est_signals_release(EST_OK);
}
