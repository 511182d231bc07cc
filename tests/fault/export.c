/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports that are killed, and files that may not grow: what servers see is whole, and the next export cleans up.
 * tests/fault/full_disk.c fills a whole file system. */
#include "fault/export_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static est_manual_clock standing; /* moves only when someone sleeps */

/* Stand in for the C library's: the n-th call of any of them kills the process before it is made. 0: never. */
static int kill_at;

static void count_call(void)
{
    if (kill_at > 0 && --kill_at == 0) kill(getpid(), SIGKILL);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    count_call();
    return syscall(SYS_write, fd, bytes, size);
}

int fsync(int fd)
{
    count_call();
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    count_call();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    count_call();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* In a child: exports until it is killed or done. */
static void export_until_killed(fixture *f, int n)
{
    est_estimator *estimator = shop_estimator(f->dir, &plain);

    kill_at = n;
    _exit(export(f, estimator) == EST_OK ? 0 : 1);
}

/* kill -9 before every system call that changes files: exports that were there stay, half a one is never served, and
 * the next export removes what is left. */
TEST(a_kill_at_every_call)
{
    char    list[1024];
    fixture f;
    int     status = 1, n_left = 0;

    set_up(&f);
    ok(export(&f, f.estimator));
    for (int n = 1; status != 0; n++) {
        int   before = assert_whole(f.base), after;
        pid_t child  = fork();

        assert_true(child >= 0);
        if (child == 0) export_until_killed(&f, n);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status)) assert_int_equal(status, 0);
        after = assert_whole(f.base);
        assert_true(status == 0 ? after == before + 1 : after == before || after == before + 1);
        n_left += strstr(shop_list(f.base, list), "temp-") != NULL;
        if (n % 8 == 0 || status == 0) {
            ok(export(&f, f.estimator));
            assert_null(strstr(shop_list(f.base, list), "temp-"));
        }
        est_manual_clock_advance(&standing, EST_NS_PER_SEC);
        assert_true(n < 200);
    }
    assert_true(n_left > 10);
    tear_down(&f);
}

/* What another export is writing, and what others made, is left alone. */
TEST(only_what_nobody_has_is_removed)
{
    static const char *const names[] = { "temp-1500000000-estoc", "temp-1500000001-estoc",
                                         "temp-1500000002",       "temp-estoc",
                                         "temp-x-estoc",          "temporary" };
    char                     path[256], list[1024];
    fixture                  f;
    int                      held;

    set_up(&f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s/variables", f.base, names[i]);
        ok(est_dir_create(path));
    }
    snprintf(path, sizeof path, "%s/%s", f.base, names[1]);
    held = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(held, LOCK_EX), 0); /* as an export does while it writes */
    ok(export(&f, f.estimator));
    assert_null(strstr(shop_list(f.base, list), "temp-1500000000-estoc"));
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s ", names[i]);
        assert_non_null(strstr(list, path));
    }
    close(held);
    ok(export(&f, f.estimator));
    assert_null(strstr(shop_list(f.base, list), "temp-1500000001-estoc"));
    tear_down(&f);
}

/* Two processes in the same second: the later one takes the next. */
TEST(a_second_in_use)
{
    char    path[256], list[1024], want[64];
    fixture f;
    int64_t now = est_wall_ns() / EST_NS_PER_SEC;
    int     held;

    set_up(&f);
    snprintf(path, sizeof path, "%s/temp-%" PRId64 "-estoc", f.base, now);
    ok(est_dir_create(path));
    held = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(held, LOCK_EX), 0);
    ok(export(&f, f.estimator));
    snprintf(want, sizeof want, "%" PRId64 " temp-%" PRId64 "-estoc ", now + 1, now);
    assert_string_equal(shop_list(f.base, list), want);
    close(held);
    tear_down(&f);
}

/* No file may become longer than so many bytes, whatever the system has room for: with each limit another write fails.
 * The error says so, what was there stays, and nothing else. */
TEST(files_that_may_not_grow)
{
    struct rlimit before;
    char          list[1024], left[1024];
    fixture       f;
    int           n = 0;

    set_up(&f);
    ok(export(&f, f.estimator));
    shop_list(f.base, left);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN); /* else it ends the process */
    for (rlim_t bytes = 1;; bytes *= 2, n++) {
        est_status status;

        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ bytes, before.rlim_max }), 0);
        status = export(&f, f.estimator);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (status == EST_OK) break;
        assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
        est_test_error_has(f.base);
        est_test_error_has(strerror(EFBIG));
        assert_string_equal(shop_list(f.base, list), left);
        assert_int_equal(assert_whole(f.base), 1);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_true(n > 8); /* up to a few hundred bytes, and further */
    assert_int_equal(assert_whole(f.base), 2);
    tear_down(&f);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return est_test_run(NULL, NULL);
}
