/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports that are killed, and disks that are full: what servers see is whole, and the next export cleans up. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "support/export_test.h"

#define INPUT                                                                                                          \
    {                                                                                                                  \
        .raw = shop_raw, .n_raw = 1                                                                                    \
    }

static const shop_params plain = { .plain = true };
static est_manual_clock  standing; /* moves only when someone sleeps */

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

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char   path[2][EST_CHECKPOINT_PATH_MAX + 64], *bytes[2];
    size_t size[2];

    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", i == 0 ? a : b, name);
        ok(est_file_read(path[i], &bytes[i], &size[i]));
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    est_free(bytes[0]);
    est_free(bytes[1]);
}

/* Every export that a server would take is the same as the first: all are of one checkpoint. Says how many there are. */
static int assert_whole(const char *base)
{
    char list[1024], first[256] = "", path[256], *rest = list;
    int  n = 0;

    shop_list(base, list);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        if (strspn(name, "0123456789") != strlen(name)) continue;
        snprintf(path, sizeof path, "%s/%s", base, name);
        if (n++ == 0) snprintf(first, sizeof first, "%s", path);
        assert_same_file(first, path, "saved_model.pb");
        assert_same_file(first, path, "variables/variables.index");
        assert_same_file(first, path, "variables/variables.data-00000-of-00001");
        assert_same_file(first, path, "assets.extra/notes");
    }
    return n;
}

typedef struct fixture {
    char           dir[64], base[128], notes[128];
    const char    *extra[2];
    est_estimator *estimator;
} fixture;

static void set_up(fixture *f)
{
    est_test_dir(f->dir);
    snprintf(f->base, sizeof f->base, "%s/out", f->dir);
    snprintf(f->notes, sizeof f->notes, "%s/notes", f->dir);
    ok(est_file_replace(f->notes, "hello", 5));
    f->extra[0]  = "notes";
    f->extra[1]  = f->notes;
    f->estimator = shop_trained(f->dir, &plain);
}

static void tear_down(fixture *f)
{
    est_estimator_free(f->estimator);
    est_test_dir_remove(f->dir);
}

static est_status export(fixture *f, est_estimator *estimator)
{
    return est_export_saved_model(estimator, f->base,
                                  EST_EXPORT(.input = INPUT, .assets_extra = f->extra, .n_assets_extra = 1), NULL);
}

/* In a child: exports until it is killed or done. */
static void export_until_killed(fixture *f, int n)
{
    est_estimator *estimator = shop_estimator(f->dir, &plain);

    kill_at = n;
    _exit(export(f, estimator) == EST_OK ? 0 : 1);
}

/* kill -9 before every system call that changes files: exports that were there stay, half a one is never served, and the
 * next export removes what is left. */
static void a_kill_at_every_call(void **state)
{
    char    list[1024];
    fixture f;
    int     status = 1, n_left = 0;

    (void)state;
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
static void only_what_nobody_has_is_removed(void **state)
{
    static const char *const names[] = { "temp-1500000000-estoc", "temp-1500000001-estoc",
                                         "temp-1500000002",       "temp-estoc",
                                         "temp-x-estoc",          "temporary" };
    char                     path[256], list[1024];
    fixture                  f;
    int                      held;

    (void)state;
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
static void a_second_in_use(void **state)
{
    char    path[256], list[1024], want[64];
    fixture f;
    int64_t now = est_wall_ns() / EST_NS_PER_SEC;
    int     held;

    (void)state;
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

/* A file system that takes no more: the error says so, what was there stays, and nothing else. */
static void a_full_disk(void **state)
{
    char    filler[256], list[1024], before[1024];
    fixture f;
    int     fd;

    (void)state;
    set_up(&f);
    ok(est_dir_create(f.base));
    if (mount("none", f.base, "tmpfs", 0, "size=256k") != 0) {
        print_message("a full file system is not tested: mounting a small one needs root (%s)\n", strerror(errno));
        tear_down(&f);
        return;
    }
    ok(export(&f, f.estimator));
    snprintf(filler, sizeof filler, "%s/filler", f.base);
    fd = open(filler, O_WRONLY | O_CREAT | O_EXCL, 0666);
    assert_true(fd >= 0);
    while (write(fd, before, sizeof before) > 0) {}
    assert_int_equal(errno, ENOSPC);
    close(fd);
    shop_list(f.base, before);
    assert_int_equal(export(&f, f.estimator), EST_RESOURCE_EXHAUSTED);
    est_test_error_has(f.base);
    assert_string_equal(shop_list(f.base, list), before);
    assert_int_equal(assert_whole(f.base), 1);
    assert_int_equal(unlink(filler), 0);
    ok(export(&f, f.estimator));
    assert_int_equal(assert_whole(f.base), 2);
    assert_int_equal(umount(f.base), 0);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_every_call),
        cmocka_unit_test(only_what_nobody_has_is_removed),
        cmocka_unit_test(a_second_in_use),
        cmocka_unit_test(a_full_disk),
    };

    est_log_set_level(EST_LOG_ERROR);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
