/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports and checkpoints on a file system that is full. It is a small one in memory, which this process mounts for
 * itself alone: in a mount namespace of its own, with the rights of root there that a user namespace gives to anybody.
 * Where the system allows neither, CTest says that the test was skipped. */
#include "fault/export_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/clock.h"
#include "train/saver_test.h"

#define SKIPPED 77 /* as CTest was told */

static est_manual_clock standing; /* moves only when someone sleeps */

static bool put(const char *path, const char *text)
{
    int  fd   = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0) close(fd);
    return done;
}

/* Whether from now on this process may mount, seen by itself alone. For one thread only, as the system has it. */
static bool may_mount(void)
{
    char uid[64], gid[64];

    snprintf(uid, sizeof uid, "%d %d 1", (int)getuid(), (int)getuid()); /* asked before: inside nobody is known */
    snprintf(gid, sizeof gid, "%d %d 1", (int)getgid(), (int)getgid());
    if (unshare(CLONE_NEWNS) != 0 && (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !put("/proc/self/uid_map", uid) ||
                                      !put("/proc/self/setgroups", "deny") || !put("/proc/self/gid_map", gid))) {
        return false;
    }
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void mount_small(const char *dir, const char *size)
{
    if (mount("none", dir, "tmpfs", 0, size) != 0) fail_msg("cannot mount: %s", strerror(errno));
}

/* Writes a file until there is no room for another byte. */
static void fill(const char *path)
{
    char bytes[1024] = { 0 };
    int  fd          = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    assert_true(fd >= 0);
    for (size_t size = sizeof bytes; size > 0; size /= 2) {
        while (write(fd, bytes, size) > 0) {}
        assert_int_equal(errno, ENOSPC);
    }
    close(fd);
}

/* The error says so, what was there stays, and nothing else. With room again the next export is whole. */
TEST(exports)
{
    char    filler[256], list[1024], before[1024];
    fixture f;

    set_up(&f);
    ok(est_dir_create(f.base));
    mount_small(f.base, "size=256k");
    ok(export(&f, f.estimator));
    snprintf(filler, sizeof filler, "%s/filler", f.base);
    fill(filler);
    shop_list(f.base, before);
    assert_int_equal(export(&f, f.estimator), EST_RESOURCE_EXHAUSTED);
    est_test_error_has(f.base);
    est_test_error_has(strerror(ENOSPC));
    assert_string_equal(shop_list(f.base, list), before);
    assert_int_equal(assert_whole(f.base), 1);
    assert_int_equal(unlink(filler), 0);
    ok(export(&f, f.estimator));
    assert_int_equal(assert_whole(f.base), 2);
    assert_int_equal(umount(f.base), 0);
    tear_down(&f);
}

TEST(checkpoints, .setup_func = est_test_root_make, .teardown_func = est_test_root_remove)
{
    assert_ok(est_dir_create(at("tiny")));
    mount_small(at("tiny"), "size=1m");
    save_small(at("tiny"));
    refuse_large(at("tiny"), EST_RESOURCE_EXHAUSTED);
    assert_int_equal(umount(at("tiny")), 0);
}

int main(void)
{
    if (!may_mount()) {
        print_message(
            "full_disk: SKIPPED: no small file system can be mounted here, not even in a user namespace: %s\n",
            strerror(errno));
        return SKIPPED;
    }
    est_log_set_level(EST_LOG_ERROR);
    est_manual_clock_init(&standing, EST_NS_PER_SEC, INT64_C(1600000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
    return est_test_run(NULL, NULL);
}
