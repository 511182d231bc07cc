/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of a model directory: one process has it, another is refused and told who, and a killed one leaves
 * nothing. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "support/fault_loop.h"
#include "train/lock.h"
#include "train/saver_test.h"

static const char *make_dir(const char *name)
{
    assert_ok(est_dir_create(at(name)));
    return at(name);
}

static const char *who(pid_t pid)
{
    static char text[HOST_NAME_MAX + 64];
    char        host[HOST_NAME_MAX + 1] = "";

    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%s, process %ld", host, (long)pid);
    return text;
}

static void expect_holder(const char *dir, const char *want)
{
    char got[256] = "untouched";

    assert_ok(est_dir_lock_holder(dir, got, sizeof got));
    assert_string_equal(got, want);
}

TEST(one_process)
{
    const char   *dir = make_dir("one");
    est_dir_lock *lock, *second = NULL;
    struct stat   info;

    expect_holder(dir, "");
    for (int i = 0; i < 2; i++) {
        assert_ok(est_dir_lock_take(dir, &lock));
        expect_holder(dir, who(getpid()));
        assert_false(est_dir_lock_was_left(lock));
        expect_error(est_dir_lock_take(dir, &second), EST_FAILED_PRECONDITION, who(getpid()));
        expect_error(est_dir_lock_take(dir, &second), EST_FAILED_PRECONDITION, "use another model directory");
        assert_null(second);
        est_dir_lock_release(lock);
        expect_holder(dir, "");
    }
    assert_int_not_equal(stat(at("one/trainer.lock"), &info), 0); /* nothing is left */
    est_dir_lock_release(NULL);
    expect_error(est_dir_lock_take(at("nowhere"), &lock), EST_NOT_FOUND, "nowhere/trainer.lock");
    expect_holder(at("nowhere"), "");
    put_bytes(at("file"), "x", 1);
    assert_int_not_equal(est_dir_lock_holder(at("file"), (char[8]){ "" }, 8), EST_OK);
}

/* Processes in different roles are not in each other's way. */
TEST(roles)
{
    const char   *dir = make_dir("roles");
    est_dir_lock *trainer, *evaluator, *second = NULL;
    char          got[256];

    assert_ok(est_dir_lock_take(dir, &trainer));
    assert_ok(est_dir_lock_take_as("evaluator", dir, &evaluator));
    expect_error(est_dir_lock_take_as("evaluator", dir, &second), EST_FAILED_PRECONDITION, "by another evaluator: ");
    est_dir_lock_release(trainer);
    expect_holder(dir, "");
    assert_ok(est_dir_lock_holder_as("evaluator", dir, got, sizeof got));
    assert_string_equal(got, who(getpid()));
    est_dir_lock_release(evaluator);
    assert_ok(est_dir_lock_holder_as("evaluator", dir, got, sizeof got));
    assert_string_equal(got, "");
}

/* A child takes the lock, says so, and waits to be killed. */
static pid_t start_holder(const char *dir)
{
    int   ready[2];
    char  byte;
    pid_t child;

    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        est_dir_lock *lock;

        if (est_dir_lock_take(dir, &lock) != EST_OK || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

TEST(two_processes)
{
    const char   *dir   = make_dir("two");
    pid_t         child = start_holder(dir);
    est_dir_lock *lock;

    expect_holder(dir, who(child));
    expect_error(est_dir_lock_take(dir, &lock), EST_FAILED_PRECONDITION, who(child));
    expect_holder(dir, who(child)); /* asking and trying took nothing away */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    expect_holder(dir, ""); /* though the file still names it */
    assert_ok(est_dir_lock_take(dir, &lock));
    expect_holder(dir, who(getpid()));
    est_dir_lock_release(lock);
}

/* Takes and releases over and over; whoever has the lock is the only one to make a file. */
static int take_turns(const char *dir, const char *mark)
{
    for (int done = 0; done < 200;) {
        est_dir_lock *lock;
        est_status    status = est_dir_lock_take(dir, &lock);
        int           fd;

        if (status == EST_FAILED_PRECONDITION) continue;
        if (status != EST_OK) return 1;
        fd = open(mark, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0 || close(fd) != 0 || unlink(mark) != 0) return 2;
        est_dir_lock_release(lock);
        done++;
    }
    return 0;
}

/* The file goes with every release, and two who find different files of that name never both have the lock. */
TEST(turns)
{
    char  dir[PATH_MAX], mark[PATH_MAX];
    pid_t children[3];

    snprintf(dir, sizeof dir, "%s", make_dir("turns"));
    snprintf(mark, sizeof mark, "%s", at("turns/mark"));
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) _exit(take_turns(dir, mark));
    }
    for (int i = 0; i < 3; i++) {
        int status;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* What the trainer has forked outlives it and has its files open, but does not keep the lock. */
TEST(forked)
{
    const char   *dir = make_dir("forked");
    est_dir_lock *lock, *next;
    pid_t         child;

    assert_ok(est_dir_lock_take(dir, &lock));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;) pause();
    }
    est_dir_lock_release(lock);
    expect_holder(dir, "");
    assert_ok(est_dir_lock_take(dir, &next));
    est_dir_lock_release(next);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Text that no trainer wrote. */
TEST(strange_text)
{
    static const char *const texts[] = { "", "host", "host\n", "host\nabc\n", "\n\n" };
    const char              *dir     = make_dir("strange");
    est_dir_lock            *lock;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_ok(est_dir_lock_take(dir, &lock));
        put_bytes(at("strange/trainer.lock"), texts[i], strlen(texts[i]));
        expect_holder(dir, "an unknown process");
        est_dir_lock_release(lock);
    }
}

TEST(memory)
{
    const char *dir = make_dir("memory");

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_dir_lock *lock = NULL;
        char          text[64];
        est_status    status;

        fault_arm(&f);
        status = est_dir_lock_take(dir, &lock);
        if (status == EST_OK) status = est_dir_lock_holder(dir, text, sizeof text);
        fault_check(&f, status);
        est_dir_lock_release(lock);
        expect_holder(dir, "");
    }
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
