/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving when things go wrong: the order of the system calls, and that no failure and no kill at any of them loses the
 * checkpoint of before. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "format/bundle.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "train/saver.h"
#include "train/saver_test.h"

/* --- system calls that kill --------------------------------------------------------------------------------------- */

/* Stand in for the C library's: the n-th call of any of them kills the process before it is made. 0: never. What they
 * were is written down too, a line each: "rename model.ckpt-3.index". */
static int  kill_at;
static char calls[8192];

static void count_call(const char *what, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t      n     = strlen(calls);

    if (kill_at > 0 && --kill_at == 0) kill(getpid(), SIGKILL);
    snprintf(calls + n, sizeof calls - n, "%s %s\n", what, slash != NULL ? slash + 1 : path);
}

/* Where a call stands among those written down; fails when it was not made. */
static const char *call(const char *what)
{
    const char *found = strstr(calls, what);

    if (found == NULL) fail_msg("no %s among\n%s", what, calls);
    return found;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    count_call("write", "");
    return syscall(SYS_write, fd, bytes, size);
}

int fsync(int fd)
{
    count_call("sync", "");
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    count_call("rename", to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    count_call("unlink", path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int fd, const char *path, int flags)
{
    count_call("unlink", path);
    return (int)syscall(SYS_unlinkat, fd, path, flags);
}

/* The last call of that kind before another one. */
static const char *last_before(const char *end, const char *what)
{
    const char *last = NULL;

    for (const char *p = calls; (p = strstr(p, what)) != NULL && p < end; p++) last = p;
    assert_non_null(last);
    return last;
}

/* Data and index are on disk before they get their names (SV1). Of what is removed the index goes, then that is on
 * disk, then the data goes (SV4). A damaged index goes before data of its name comes. */
TEST(order_of_calls)
{
    model       m     = make_model();
    est_saver  *saver = open_saver(at("removal"), EST_SAVER(.keep_max = 1));
    const char *index, *sync;

    assert_ok(save_step(saver, &m, 1));
    calls[0] = '\0';
    assert_ok(save_step(saver, &m, 2));
    assert_true(last_before(call("rename model.ckpt-2.data-"), "sync") >
                last_before(call("rename model.ckpt-2.data-"), "write"));
    assert_true(last_before(call("rename model.ckpt-2.index"), "sync") >
                last_before(call("rename model.ckpt-2.index"), "write"));
    index = call("unlink model.ckpt-1.index");
    sync  = strstr(index, "sync");
    assert_non_null(sync);
    assert_true(sync < call("unlink model.ckpt-1.data-00000-of-00001"));
    assert_true(index > call("rename checkpoint")); /* SV3 */

    put_bytes(at("removal/model.ckpt-2.index"), "not an index", 12);
    calls[0] = '\0';
    assert_ok(save_step(saver, &m, 2));
    assert_true(call("unlink model.ckpt-2.index") < call("rename model.ckpt-2.data-00000-of-00001"));
    est_saver_free(saver);
    end_model(&m);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Saves step 1 with the tag 1 and a `.meta` that says so. */
static void save_first(const model *m, const char *dir)
{
    est_saver *saver = open_saver(dir, NULL);

    set_tag(m, 1);
    assert_ok(est_saver_save(saver, m->session, 1, EST_SAVE(.meta = { "1", 1 }), NULL));
    est_saver_free(saver);
}

/* The `.meta` of the step is that of the tag it has now, or is missing where it may be. */
static void expect_meta(const char *dir, int step, int tag, bool may_miss)
{
    char path[256], want[16];

    snprintf(path, sizeof path, "%s/model.ckpt-%d.meta", dir, step);
    snprintf(want, sizeof want, "%d", tag);
    if (!may_miss || est_file_exists(path)) expect_text(path, want);
}

static void expect_index_with_data(const char *dir, int step)
{
    char path[256], data[64];

    snprintf(path, sizeof path, "%s/model.ckpt-%d.index", dir, step);
    snprintf(data, sizeof data, "model.ckpt-%d.data-", step);
    assert_int_equal(est_file_exists(path), strstr(names_in(dir), data) != NULL);
}

/* Step 1 was saved. Saves `step` with one call failing, as a process that keeps one checkpoint; returns whether
 * the save reported success. */
static bool save_failing(const model *m, fault_loop *f, int step)
{
    est_saver *saver = NULL;
    est_status status;

    set_tag(m, 2);
    fault_arm(f);
    status = est_saver_create(at("faults"), EST_SAVER(.keep_max = 1), &saver);
    if (status == EST_OK) {
        status = est_saver_save(saver, m->session, step, EST_SAVE(.meta = { "2", 1 }), NULL);
    }
    assert_true(fault_end(f) || status == EST_OK);
    if (status != EST_OK) assert_true(strlen(est_error_message()) > 0);
    if (status != EST_OK && f->kind == FAULT_ALLOCATIONS) assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
    if (status != EST_OK && f->kind == FAULT_POINTS && strstr(est_error_message(), est_test_root) == NULL) {
        fail_msg("no file is named: %s", est_error_message());
    }
    est_saver_free(saver);
    return status == EST_OK;
}

/* Every allocation and every system call fails once, for a new step and for one that exists. */
static void fail_everywhere(est_remote *remote)
{
    model m = make_model_at(remote);

    log_keep(EST_LOG_WARN);
    for (int step = 1; step <= 2; step++) {
        FAULT_LOOPS(f) {
            char path[EST_CHECKPOINT_PATH_MAX];
            bool saved;
            int  tag;

            est_test_dir_remove(at("faults"));
            save_first(&m, at("faults"));
            saved = save_failing(&m, &f, step);
            assert_null(strstr(names_in(at("faults")), ".tmp-"));
            assert_ok(est_checkpoint_latest(at("faults"), path)); /* the state file names one that is there */
            tag = restored_tag(at("faults"));
            assert_int_equal(restored_tag(path), tag);
            assert_true(saved ? tag == 2 : tag == 1 || tag == 2);
            expect_meta(at("faults"), tag == 1 ? 1 : step, tag,
                        (!saved && tag == 2 && step == 1) || log_has(".meta could not be written"));
            log_clear();
            if (tag == 1) assert_null(strstr(names_in(at("faults")), "-2."));
        }
    }
    log_release();
    end_model(&m);
}

TEST(every_failure)
{
    est_remote *remote = memory_remote_create(2);

    fail_everywhere(NULL);
    fail_everywhere(remote);
    memory_remote_free(remote);
}

/* In a child: saves steps into the directory until it is killed or done. */
static void save_until_killed(est_remote *remote, int step, int n)
{
    model      m = make_model_at(remote);
    est_saver *saver;

    if (est_saver_create(at("killed"), EST_SAVER(.keep_max = 1), &saver) != EST_OK) _exit(2);
    set_tag(&m, 2);
    kill_at = n;
    if (est_saver_save(saver, m.session, step, EST_SAVE(.meta = { "2", 1 }), NULL) != EST_OK) _exit(3);
    _exit(0);
}

/* kill -9 before every system call that changes files, with one checkpoint kept: one is always there, and the next
 * process cleans up. */
static void kill_everywhere(est_remote *remote)
{
    model m = make_model_at(remote);

    for (int kind = 0; kind < 2; kind++) {
        int status = 1;

        for (int n = 1; status != 0; n++) {
            est_saver *saver;
            pid_t      child;
            int        tag;

            est_test_dir_remove(at("killed"));
            save_first(&m, at("killed"));
            child = fork();
            if (child == 0) save_until_killed(remote, 1 + kind, n);
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFSIGNALED(status)) assert_int_equal(status, 0);
            tag = restored_tag(at("killed"));
            assert_true(status == 0 ? tag == 2 : tag == 1 || tag == 2);
            expect_meta(at("killed"), tag == 1 ? 1 : 1 + kind, tag, status != 0 && kind == 0);
            saver = open_saver(at("killed"), EST_SAVER(.keep_max = 1));
            assert_ok(save_step(saver, &m, 3));
            assert_null(strstr(names_in(at("killed")), ".tmp-"));
            for (int step = 1; step <= 2; step++) expect_index_with_data(at("killed"), step);
            assert_int_equal(restored_tag(at("killed")), 3);
            est_saver_free(saver);
            assert_true(n < 200);
        }
    }
    end_model(&m);
}

TEST(kill_at_every_call)
{
    est_remote *remote = memory_remote_create(2);

    kill_everywhere(NULL);
    kill_everywhere(remote);
    memory_remote_free(remote);
}

/* No file may become longer than that. tests/fault/full_disk.c has a whole file system that is full. */
TEST(long_file)
{
    struct rlimit old, small = { .rlim_cur = 1 << 20 };

    save_small(at("full"));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    refuse_large(at("full"), EST_RESOURCE_EXHAUSTED);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

/* A `.meta` that finds no room is left out, with one warning, and so is the old one of the step; the checkpoint is
 * saved. */
TEST(no_room_for_meta)
{
    static const char large[(1 << 20) + 1];
    struct rlimit     old, small = { .rlim_cur = 1 << 20 };
    model             m     = make_model();
    est_saver        *saver = open_saver(at("meta"), NULL);

    log_keep(EST_LOG_WARN);
    set_tag(&m, 1);
    assert_ok(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = { "1", 1 }), NULL));
    assert_true(est_file_exists(at("meta/model.ckpt-1.meta")));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    set_tag(&m, 2);
    for (int step = 1; step <= 2; step++) {
        assert_ok(est_saver_save(saver, m.session, step, EST_SAVE(.meta = { large, sizeof large }), NULL));
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    assert_non_null(strstr(log_line(-1), "meta/model.ckpt-1.meta could not be written"));
    assert_null(strstr(names_in(at("meta")), ".meta"));
    assert_int_equal(restored_tag(at("meta/model.ckpt-1")), 2);
    assert_int_equal(restored_tag(at("meta/model.ckpt-2")), 2);
    est_saver_free(saver);
    log_release();
    end_model(&m);
}

/* A directory that disappeared, and one where nothing can be removed. */
TEST(lost_directory)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("lost"), EST_SAVER(.keep_max = 1));

    log_keep(EST_LOG_WARN);
    assert_ok(save_step(saver, &m, 1));
    unlink(at("lost/model.ckpt-1.index"));
    assert_ok(est_dir_create(at("lost/model.ckpt-1.index"))); /* cannot be unlinked, not even by root */
    assert_ok(save_step(saver, &m, 2));
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    assert_non_null(strstr(log_line(-1), "model.ckpt-1.index"));
    assert_true(est_file_exists(at("lost/model.ckpt-1.data-00000-of-00001"))); /* SV4 */
    est_test_dir_remove(at("lost"));
    expect_error(save_step(saver, &m, 3), EST_NOT_FOUND, at("lost"));
    est_saver_free(saver);
    log_release();
    end_model(&m);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
