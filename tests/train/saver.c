/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: names and bytes of the files, which are kept, and that no failure and no kill at any system call loses the
 * checkpoint of before. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "format/bundle.h"
#include "support/memory_remote.h"
#include "train/saver.h"
#include "train/saver_test.h"

/* --- system calls that kill ------------------------------------------------------------------------------------- */

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

/* --- files ------------------------------------------------------------------------------------------------------ */

static est_saver *make_saver(const char *dir, const est_saver_options *options)
{
    est_saver *saver;

    assert_ok(est_saver_create(dir, options, &saver));
    return saver;
}

static void test_files(void **state)
{
    model       m     = make_model();
    est_saver  *saver = make_saver(at("a/files"), NULL); /* makes both directories */
    est_tensor *extra;
    char        path[EST_CHECKPOINT_PATH_MAX];
    int64_t     position[2] = { 17, -4 };

    (void)state;
    assert_string_equal(names_in(at("a/files")), "");
    set_tag(&m, 7);
    assert_ok(est_tensor_i64(EST_SHAPE(2), position, &extra));
    assert_ok(est_saver_save(
        saver, m.session, 7,
        EST_SAVE(.extras = EST_EXTRAS({ "input/position", extra }), .meta = "graph", .meta_size = 5), path));
    assert_string_equal(path, at("a/files/model.ckpt-7"));
    assert_string_equal(names_in(at("a/files")), "checkpoint model.ckpt-7.data-00000-of-00001 model.ckpt-7.index "
                                                 "model.ckpt-7.meta");
    expect_text(at("a/files/model.ckpt-7.meta"), "graph");
    assert_ok(save_step(saver, &m, 12));
    expect_text(at("a/files/checkpoint"), "model_checkpoint_path: \"model.ckpt-12\"\n"
                                          "all_model_checkpoint_paths: \"model.ckpt-7\"\n"
                                          "all_model_checkpoint_paths: \"model.ckpt-12\"\n");
    assert_ok(est_checkpoint_latest(at("a/files"), path));
    assert_string_equal(path, at("a/files/model.ckpt-12"));
    assert_int_equal(restored_tag(at("a/files")), 12);
    assert_int_equal(restored_tag(at("a/files/model.ckpt-7")), 7);
    est_tensor_free(extra);
    est_saver_free(saver);
    end_model(&m);
}

/* Metrics count anew in every session. */
static void test_local_variables(void **state)
{
    nn_test         t     = nn_begin(1);
    est_node        four  = nn_const(t.graph, EST_SHAPE(1), NN_VALUES(4));
    est_saver      *saver = make_saver(at("local"), NULL);
    est_checkpoint *checkpoint;

    (void)state;
    est_metric_mean(four, NULL);
    est_variable_initializer(est_variable(t.graph, "w", EST_F32, EST_SHAPE(1)), four);
    nn_ready(&t);
    assert_true(est_session_variables(t.session) > 1);
    assert_ok(est_saver_save(saver, t.session, 1, NULL, NULL));
    assert_ok(est_checkpoint_open(at("local"), &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 1);
    assert_string_equal(est_checkpoint_at(checkpoint, 0)->name, "w");
    est_checkpoint_close(checkpoint);
    est_saver_free(saver);
    nn_end(&t);
}

static void test_errors(void **state)
{
    model       m = make_model();
    est_saver  *saver;
    est_tensor *extra;
    char        path[EST_CHECKPOINT_PATH_MAX] = "untouched";

    (void)state;
    expect_error(est_saver_create(NULL, NULL, &saver), EST_INVALID_ARGUMENT, "needs a directory");
    expect_error(est_saver_create(at("e"), EST_SAVER(.keep_max = -7), &saver), EST_INVALID_ARGUMENT, "keep_max is -7");
    expect_error(est_saver_create(at("e"), EST_SAVER(.keep_every_n_hours = -1), &saver), EST_INVALID_ARGUMENT,
                 "keep_every_n_hours is -1");
    expect_error(est_saver_create(at("e"), EST_SAVER(.name = "a/b"), &saver), EST_INVALID_ARGUMENT, "\"a/b\"");
    expect_error(est_saver_create(at("e"), &(est_saver_options){ .keep_max = 1 }, &saver), EST_INVALID_ARGUMENT,
                 "EST_SAVER");
    put_bytes(at("plain"), "x", 1);
    expect_error(est_saver_create(at("plain/dir"), NULL, &saver), EST_ALREADY_EXISTS, "plain");

    saver = make_saver(at("e"), NULL);
    expect_error(est_saver_save(saver, m.session, 1, NULL, path), EST_FAILED_PRECONDITION,
                 "'global_step' has no value");
    set_tag(&m, 1);
    expect_error(est_saver_save(saver, m.session, -1, NULL, path), EST_INVALID_ARGUMENT, "-1");
    expect_error(est_saver_save(NULL, m.session, 1, NULL, path), EST_INVALID_ARGUMENT, "saver");
    expect_error(est_saver_save(saver, NULL, 1, NULL, path), EST_INVALID_ARGUMENT, "session");
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 1 }, &extra));
    expect_error(est_saver_save(saver, m.session, 1, EST_SAVE(.extras = EST_EXTRAS({ "layer/bias", extra })), path),
                 EST_ALREADY_EXISTS, "layer/bias");
    expect_error(est_saver_save(saver, m.session, 1, EST_SAVE(.extras = EST_EXTRAS({ "x", NULL })), path),
                 EST_INVALID_ARGUMENT, "no value");
    assert_string_equal(path, "untouched");
    assert_string_equal(names_in(at("e")), "");
    est_tensor_free(extra);
    est_saver_free(saver);
    est_saver_free(NULL);
    end_model(&m);
}

/* The data gets another name each time, so that the old one is whole until the index changes. */
static void test_same_step(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("same"), NULL);

    (void)state;
    for (int i = 0; i < 4; i++) {
        set_tag(&m, 50 + i);
        assert_ok(est_saver_save(saver, m.session, 3, NULL, NULL));
        assert_int_equal(restored_tag(at("same")), 50 + i);
        assert_string_equal(names_in(at("same")),
                            i % 2 == 0 ? "checkpoint model.ckpt-3.data-00000-of-00001 model.ckpt-3.index"
                                       : "checkpoint model.ckpt-3.data-00000-of-00002 model.ckpt-3.index");
    }
    expect_text(at("same/checkpoint"), "model_checkpoint_path: \"model.ckpt-3\"\n"
                                       "all_model_checkpoint_paths: \"model.ckpt-3\"\n");
    assert_ok(save_step(saver, &m, 4));
    set_tag(&m, 60);
    assert_ok(est_saver_save(saver, m.session, 3, NULL, NULL)); /* older, but the latest to be made */
    assert_int_equal(restored_tag(at("same")), 60);

    put_bytes(at("same/model.ckpt-3.index"), "not an index", 12); /* replacing a damaged one */
    set_tag(&m, 61);
    assert_ok(est_saver_save(saver, m.session, 3, NULL, NULL));
    assert_int_equal(restored_tag(at("same")), 61);
    est_saver_free(saver);
    end_model(&m);
}

/* What belongs together stays together: the old `.meta` with the old checkpoint, none with one saved without it. */
static void test_meta_of_same_step(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("meta"), NULL);

    (void)state;
    set_tag(&m, 1);
    assert_ok(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = "old", .meta_size = 3), NULL));
    assert_ok(est_dir_create(at("meta/model.ckpt-1.data-00000-of-00002"))); /* where the new data would go */
    set_tag(&m, 2);
    assert_int_not_equal(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = "new", .meta_size = 3), NULL), EST_OK);
    expect_text(at("meta/model.ckpt-1.meta"), "old");
    assert_int_equal(restored_tag(at("meta")), 1);
    assert_int_equal(rmdir(at("meta/model.ckpt-1.data-00000-of-00002")), 0);
    assert_ok(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = "new", .meta_size = 3), NULL));
    expect_text(at("meta/model.ckpt-1.meta"), "new");
    assert_ok(est_saver_save(saver, m.session, 1, NULL, NULL));
    assert_string_equal(names_in(at("meta")), "checkpoint model.ckpt-1.data-00000-of-00001 model.ckpt-1.index");
    est_saver_free(saver);
    end_model(&m);
}

/* Data and index are on disk before they get their names (S1). Of what is removed the index goes, then that is on disk,
 * then the data goes (S4). A damaged index goes before data of its name comes. */
static void test_order_of_calls(void **state)
{
    model       m     = make_model();
    est_saver  *saver = make_saver(at("removal"), EST_SAVER(.keep_max = 1));
    const char *index, *sync;

    (void)state;
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
    assert_true(index > call("rename checkpoint")); /* S3 */

    put_bytes(at("removal/model.ckpt-2.index"), "not an index", 12);
    calls[0] = '\0';
    assert_ok(save_step(saver, &m, 2));
    assert_true(call("unlink model.ckpt-2.index") < call("rename model.ckpt-2.data-00000-of-00001"));
    est_saver_free(saver);
    end_model(&m);
}

/* --- retention -------------------------------------------------------------------------------------------------- */

static void test_keep_max(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("max"), EST_SAVER(.keep_max = 3, .name = "x"));

    (void)state;
    for (int i = 1; i <= 7; i++) {
        set_tag(&m, i);
        assert_ok(est_saver_save(saver, m.session, i, EST_SAVE(.meta = "m", .meta_size = 1), NULL));
    }
    assert_string_equal(names_in(at("max")),
                        "checkpoint x-5.data-00000-of-00001 x-5.index x-5.meta x-6.data-00000-of-00001 x-6.index "
                        "x-6.meta x-7.data-00000-of-00001 x-7.index x-7.meta");
    est_saver_free(saver);

    /* The next process goes on where this one stopped, and may keep fewer. */
    saver = make_saver(at("max"), EST_SAVER(.keep_max = 2, .name = "x"));
    assert_ok(save_step(saver, &m, 8));
    assert_string_equal(names_in(at("max")),
                        "checkpoint x-7.data-00000-of-00001 x-7.index x-7.meta x-8.data-00000-of-00001 x-8.index");
    expect_text(at("max/checkpoint"), "model_checkpoint_path: \"x-8\"\n"
                                      "all_model_checkpoint_paths: \"x-7\"\n"
                                      "all_model_checkpoint_paths: \"x-8\"\n");
    est_saver_free(saver);

    saver = make_saver(at("max"), EST_SAVER(.keep_max = EST_OFF, .name = "x"));
    for (int i = 9; i < 20; i++) assert_ok(save_step(saver, &m, i));
    for (int i = 7; i < 20; i++) {
        char name[64];

        snprintf(name, sizeof name, "max/x-%d.index", i);
        assert_true(est_file_exists(at(name)));
    }
    expect_text(at("max/checkpoint"), "model_checkpoint_path: \"x-19\"\nall_model_checkpoint_paths: \"x-19\"\n");
    est_saver_free(saver);
    saver = make_saver(at("default"), NULL);
    for (int i = 1; i <= 6; i++) assert_ok(save_step(saver, &m, i));
    assert_false(est_file_exists(at("default/model.ckpt-1.index")));
    assert_true(est_file_exists(at("default/model.ckpt-2.index")));
    est_saver_free(saver);
    end_model(&m);
}

/* One that leaves the list stays if it was made more than an hour after the last moment; that moment then moves on by
 * one hour. Saves at 0, 25, 50, ... minutes with one kept: 75 is past 60, 125 past 120, 200 past 180, 250 past 240. */
/* Saved every 4000 hours: that of hour 12000 is the first after the 10000 that are the default. */
static void test_default_keep_hours(void **state)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;

    (void)state;
    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    saver = make_saver(at("long"), EST_SAVER(.keep_max = 1));
    for (int hour = 0; hour <= 16000; hour += 4000) {
        assert_ok(save_step(saver, &m, hour));
        est_manual_clock_advance(&clock, INT64_C(4000) * 3600 * EST_NS_PER_SEC);
    }
    for (int hour = 0; hour <= 16000; hour += 4000) {
        char name[64];

        snprintf(name, sizeof name, "long/model.ckpt-%d.index", hour);
        assert_int_equal(est_file_exists(at(name)), hour >= 12000);
    }
    est_saver_free(saver);
    est_clock_set(NULL);
    end_model(&m);
}

static void test_keep_every_n_hours(void **state)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;

    (void)state;
    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    saver = make_saver(at("hours"), EST_SAVER(.keep_max = 1, .keep_every_n_hours = 1));
    for (int minute = 0; minute <= 300; minute += 25) {
        assert_ok(save_step(saver, &m, minute));
        est_manual_clock_advance(&clock, INT64_C(25) * 60 * EST_NS_PER_SEC);
    }
    for (int minute = 0; minute <= 300; minute += 25) {
        bool stays = minute == 75 || minute == 125 || minute == 200 || minute == 250 || minute == 300;
        char name[64];

        snprintf(name, sizeof name, "hours/model.ckpt-%d.index", minute);
        assert_int_equal(est_file_exists(at(name)), stays);
    }
    expect_text(at("hours/checkpoint"), "model_checkpoint_path: \"model.ckpt-300\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-300\"\n");
    est_saver_free(saver);
    est_clock_set(NULL);
    end_model(&m);
}

/* After a restart a checkpoint's time is that of its index file. */
static void test_seed_times(void **state)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;
    const int64_t    start = 1700000000;

    (void)state;
    saver = make_saver(at("times"), NULL);
    assert_ok(save_step(saver, &m, 1));
    assert_ok(save_step(saver, &m, 2));
    est_saver_free(saver);
    for (int i = 1; i <= 2; i++) {
        char            name[64];
        struct timespec times[2] = { { .tv_sec = start + (i == 1 ? 3601 : 3599) }, { 0 } };

        times[1] = times[0];
        snprintf(name, sizeof name, "times/model.ckpt-%d.index", i);
        assert_int_equal(utimensat(AT_FDCWD, at(name), times, 0), 0);
    }
    est_manual_clock_init(&clock, 0, start * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    saver = make_saver(at("times"), EST_SAVER(.keep_max = 1, .keep_every_n_hours = 1));
    assert_ok(save_step(saver, &m, 3));
    assert_true(est_file_exists(at("times/model.ckpt-1.index")));
    assert_false(est_file_exists(at("times/model.ckpt-2.index")));
    est_saver_free(saver);
    est_clock_set(NULL);
    end_model(&m);
}

/* Paths of a state file that TensorFlow may have written: absolute ones count when they lie in the directory, and
 * nothing outside of it is ever removed. */
static void test_seed_paths(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("other"), NULL);
    char       text[4096];

    (void)state;
    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    saver = make_saver(at("seeds"), NULL);
    for (int i = 1; i <= 3; i++) assert_ok(save_step(saver, &m, i));
    est_saver_free(saver);
    snprintf(text, sizeof text,
             "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: [\"../other/model.ckpt-1\", "
             "\"%s\", \"model.ckpt-99\", \"%s\", \"model.ckpt-2\", \"%s\"]",
             at("seeds/model.ckpt-3"), at("other/model.ckpt-1"), at("seeds/model.ckpt-1"), at("seeds/model.ckpt-3"));
    put_bytes(at("seeds/checkpoint"), text, strlen(text));
    saver = make_saver(at("seeds"), EST_SAVER(.keep_max = 2));
    assert_ok(save_step(saver, &m, 4));
    assert_true(est_file_exists(at("other/model.ckpt-1.index")));
    expect_text(at("seeds/checkpoint"), "model_checkpoint_path: \"model.ckpt-4\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-3\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-4\"\n");
    assert_string_equal(names_in(at("seeds")), "checkpoint model.ckpt-3.data-00000-of-00001 model.ckpt-3.index "
                                               "model.ckpt-4.data-00000-of-00001 model.ckpt-4.index");
    est_saver_free(saver);
    end_model(&m);
}

/* However often and in whatever way the state file names a checkpoint, it is one. */
static void test_seed_twice(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("twice"), NULL);
    char       text[4096];

    (void)state;
    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    assert_int_equal(symlink(at("twice"), at("link")), 0);
    snprintf(text, sizeof text,
             "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: [\"model.ckpt-1\", \"%s\", \"%s\"]",
             at("twice/model.ckpt-1"), at("twice/model.ckpt-1"), at("link/model.ckpt-1"));
    put_bytes(at("twice/checkpoint"), text, strlen(text));
    saver = make_saver(at("twice"), EST_SAVER(.keep_max = 2));
    assert_ok(save_step(saver, &m, 2));
    expect_text(at("twice/checkpoint"), "model_checkpoint_path: \"model.ckpt-2\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-2\"\n");
    assert_int_equal(restored_tag(at("twice/model.ckpt-1")), 1);
    est_saver_free(saver);
    end_model(&m);
}

/* A path into another directory that exists is not ours, though we have a checkpoint of that name. */
static void test_seed_elsewhere(void **state)
{
    model      m = make_model();
    est_saver *saver;
    char       text[4096];

    (void)state;
    assert_ok(est_dir_create(at("elsewhere")));
    saver = make_saver(at("mine"), EST_SAVER(.keep_max = EST_OFF));
    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    snprintf(text, sizeof text, "model_checkpoint_path: \"%s\" all_model_checkpoint_paths: \"%s\"",
             at("elsewhere/model.ckpt-1"), at("elsewhere/model.ckpt-1"));
    put_bytes(at("mine/checkpoint"), text, strlen(text));
    saver = make_saver(at("mine"), EST_SAVER(.keep_max = 1));
    assert_ok(save_step(saver, &m, 2));
    assert_ok(save_step(saver, &m, 3));
    assert_int_equal(restored_tag(at("mine/model.ckpt-1")), 1);
    assert_false(est_file_exists(at("mine/model.ckpt-2.index")));
    est_saver_free(saver);
    end_model(&m);
}

/* A directory whose state file has the absolute paths of where it was before it was moved. */
static void test_moved_directory(void **state)
{
    static const char text[] = "model_checkpoint_path: \"/no such folder/run/model.ckpt-2\"\n"
                               "all_model_checkpoint_paths: \"/no such folder/run/model.ckpt-1\"\n"
                               "all_model_checkpoint_paths: \"/no such folder/run/model.ckpt-2\"\n";
    model             m      = make_model();
    est_saver        *saver  = make_saver(at("moved"), NULL);
    est_restored      done;

    (void)state;
    watch_log();
    assert_ok(save_step(saver, &m, 1));
    assert_ok(save_step(saver, &m, 2));
    est_saver_free(saver);
    put_bytes(at("moved/checkpoint"), text, strlen(text));
    saver = make_saver(at("moved"), EST_SAVER(.keep_max = 2));
    assert_ok(est_saver_restore(saver, m.session, NULL, &done));
    assert_string_equal(done.path, at("moved/model.ckpt-2"));
    assert_ok(save_step(saver, &m, 3)); /* that 2 was not where the file said does not make it unusable */
    assert_string_equal(names_in(at("moved")), "checkpoint model.ckpt-2.data-00000-of-00001 model.ckpt-2.index "
                                               "model.ckpt-3.data-00000-of-00001 model.ckpt-3.index");
    est_saver_free(saver);
    end_model(&m);
    est_log_set_sink(NULL, NULL);
}

/* What processes that were killed have left goes with the first save; what others have put there stays. */
static void test_leftovers(void **state)
{
    static const char *const gone[]   = { "model.ckpt-5.data-00000-of-00001",
                                          "model.ckpt-5.meta",
                                          "model.ckpt-5.index.tmp-77-1",
                                          "checkpoint.tmp-1-2",
                                          "model.ckpt-1.data-00000-of-00001.tempstate12",
                                          "model.ckpt-5.index.tempstate7" };
    static const char *const stays[]  = { "model.ckpt-6",
                                          "model.ckpt-6.meta",
                                          "model.ckpt-x.data-00000-of-00001",
                                          "other-5.data-00000-of-00001",
                                          "model.ckpt-5.txt",
                                          "notes.tmp-1",
                                          "notes.tempstate1",
                                          "model.ckpt-5.tempstate1.txt" };
    static const char        listed[] = "model_checkpoint_path: \"model.ckpt-1\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-1\"\n";
    model                    m        = make_model();
    est_saver               *saver    = make_saver(at("leftovers"), NULL);
    char                     path[96];

    (void)state;
    assert_ok(save_step(saver, &m, 1));
    assert_ok(save_step(saver, &m,
                        7)); /* a kill before the state file, or a user, can leave a whole one that is not listed */
    est_saver_free(saver);
    put_bytes(at("leftovers/checkpoint"), listed, strlen(listed));
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        snprintf(path, sizeof path, "leftovers/%s", gone[i]);
        put_bytes(at(path), "x", 1);
    }
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++) {
        snprintf(path, sizeof path, "leftovers/%s", stays[i]);
        put_bytes(at(path), "x", 1);
    }
    saver = make_saver(at("leftovers"), NULL);
    assert_ok(save_step(saver, &m, 2));
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        assert_null(strstr(names_in(at("leftovers")), gone[i]));
    }
    for (size_t i = 0; i < sizeof stays / sizeof *stays; i++) {
        assert_non_null(strstr(names_in(at("leftovers")), stays[i]));
    }
    assert_int_equal(restored_tag(at("leftovers/model.ckpt-1")), 1);
    assert_int_equal(restored_tag(at("leftovers/model.ckpt-7")), 7);
    est_saver_free(saver);
    end_model(&m);
}

static void spoil(const char *path)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "xxxx", 4, 0), 4);
    close(fd);
}

/* 200 and 300 are damaged, training goes on from 100: that one stays while they fill the list. */
static void test_unusable_go_first(void **state)
{
    const struct timespec future[2] = { { .tv_sec = INT64_C(4000000000) }, { .tv_sec = INT64_C(4000000000) } };
    model                 m         = make_model();
    est_saver            *saver     = make_saver(at("unusable"), EST_SAVER(.keep_max = 3));
    est_restored          done;

    (void)state;
    watch_log();
    for (int i = 1; i <= 3; i++) assert_ok(save_step(saver, &m, 100 * i));
    est_saver_free(saver);
    spoil(at("unusable/model.ckpt-200.data-00000-of-00001"));
    spoil(at("unusable/model.ckpt-300.data-00000-of-00001"));
    assert_int_equal(utimensat(AT_FDCWD, at("unusable/model.ckpt-200.index"), future, 0), 0);
    saver = make_saver(at("unusable"),
                       EST_SAVER(.keep_max = 3, .keep_every_n_hours = 1)); /* 200 is not kept for that */
    assert_ok(est_saver_restore(saver, m.session, NULL, &done));
    assert_string_equal(done.path, at("unusable/model.ckpt-100"));
    assert_ok(save_step(saver, &m, 150));
    assert_false(est_file_exists(at("unusable/model.ckpt-200.index")));
    assert_true(est_file_exists(at("unusable/model.ckpt-300.index")));
    expect_text(at("unusable/checkpoint"), "model_checkpoint_path: \"model.ckpt-150\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-100\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-300\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-150\"\n");
    assert_ok(save_step(saver, &m, 300)); /* a good one now */
    assert_ok(save_step(saver, &m, 350));
    expect_text(at("unusable/checkpoint"), "model_checkpoint_path: \"model.ckpt-350\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-150\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-300\"\n"
                                           "all_model_checkpoint_paths: \"model.ckpt-350\"\n");
    assert_int_equal(restored_tag(at("unusable/model.ckpt-300")), 300);

    assert_ok(est_dir_create(at("another"))); /* a damaged one elsewhere says nothing about ours of that name */
    put_bytes(at("another/model.ckpt-350.index"), "x", 1);
    expect_error(est_saver_restore(saver, m.session, EST_RESTORE(.path = at("another/model.ckpt-350")), NULL),
                 EST_DATA_LOSS, "another");
    assert_ok(save_step(saver, &m, 400));
    assert_int_equal(restored_tag(at("unusable/model.ckpt-350")), 350);
    est_saver_free(saver);
    end_model(&m);
    est_log_set_sink(NULL, NULL);
}

/* --- failures --------------------------------------------------------------------------------------------------- */

/* Saves step 1 with the tag 1 and a `.meta` that says so. */
static void save_first(const model *m, const char *dir)
{
    est_saver *saver = make_saver(dir, NULL);

    set_tag(m, 1);
    assert_ok(est_saver_save(saver, m->session, 1, EST_SAVE(.meta = "1", .meta_size = 1), NULL));
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

/* Step 1 was saved. Saves `step` with the n-th call failing, as a process that keeps one checkpoint; returns whether the
 * save reported success. */
static bool save_failing(const model *m, int kind, int64_t n, int step, bool *fired)
{
    est_saver *saver = NULL;
    est_status status;

    set_tag(m, 2);
    if (kind == 0) est_fault_arm_alloc(n);
    if (kind == 1) est_fault_arm(n);
    status = est_saver_create(at("faults"), EST_SAVER(.keep_max = 1), &saver);
    if (status == EST_OK) {
        status = est_saver_save(saver, m->session, step, EST_SAVE(.meta = "2", .meta_size = 1), NULL);
    }
    *fired = est_fault_fired();
    est_fault_arm_alloc(0);
    est_fault_arm(0);
    if (status != EST_OK) assert_true(strlen(est_error_message()) > 0);
    if (status != EST_OK && kind == 0) assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
    if (status != EST_OK && kind == 1) assert_non_null(strstr(est_error_message(), test_root)); /* which file */
    est_saver_free(saver);
    return status == EST_OK;
}

/* Every allocation and every system call fails once, for a new step and for one that exists. */
static void fail_everywhere(est_remote *remote)
{
    model m     = make_model_at(remote);
    int   kinds = 1;

    watch_log();
#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
    kinds = 2;
#endif
    for (int kind = 0; kind < 2 * kinds; kind++) {
        int  step  = kind % 2 == 0 ? 2 : 1;
        bool fired = true;

        for (int64_t n = 1; fired; n++) {
            char path[EST_CHECKPOINT_PATH_MAX];
            bool saved;
            int  tag;

            remove_dir(at("faults"));
            save_first(&m, at("faults"));
            saved = save_failing(&m, kind / 2, n, step, &fired);
            assert_null(strstr(names_in(at("faults")), ".tmp-"));
            assert_ok(est_checkpoint_latest(at("faults"), path)); /* the state file names one that is there */
            tag = restored_tag(at("faults"));
            assert_int_equal(restored_tag(path), tag);
            assert_true(saved ? tag == 2 : tag == 1 || tag == 2);
            expect_meta(at("faults"), tag == 1 ? 1 : step, tag, !saved && tag == 2 && step == 1);
            if (tag == 1) assert_null(strstr(names_in(at("faults")), "-2."));
            assert_true(n < 1000);
        }
    }
    est_log_set_sink(NULL, NULL);
    end_model(&m);
}

static void test_every_failure(void **state)
{
    est_remote *remote = memory_remote_create(2);

    (void)state;
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
    if (est_saver_save(saver, m.session, step, EST_SAVE(.meta = "2", .meta_size = 1), NULL) != EST_OK) _exit(3);
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

            remove_dir(at("killed"));
            save_first(&m, at("killed"));
            child = fork();
            if (child == 0) save_until_killed(remote, 1 + kind, n);
            assert_int_equal(waitpid(child, &status, 0), child);
            if (!WIFSIGNALED(status)) assert_int_equal(status, 0);
            tag = restored_tag(at("killed"));
            assert_true(status == 0 ? tag == 2 : tag == 1 || tag == 2);
            expect_meta(at("killed"), tag == 1 ? 1 : 1 + kind, tag, status != 0 && kind == 0);
            saver = make_saver(at("killed"), EST_SAVER(.keep_max = 1));
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

static void test_kill_at_every_call(void **state)
{
    est_remote *remote = memory_remote_create(2);

    (void)state;
    kill_everywhere(NULL);
    kill_everywhere(remote);
    memory_remote_free(remote);
}

/* A file system that takes no more: the error says so, what was there stays. */
static void fill_up(const char *dir, est_status want)
{
    model         m = { 0 };
    est_saver    *saver;
    const int64_t big = 4 << 20;
    est_tensor   *value;
    char          before[4096];

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "big", EST_F32, EST_SHAPE(big));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(big), &value));
    memset(est_tensor_data(value), 0, est_tensor_bytes(value));
    assert_ok(est_session_write(m.session, "big", value));
    saver = make_saver(dir, NULL);
    snprintf(before, sizeof before, "%s", names_in(dir));
    expect_error(est_saver_save(saver, m.session, 2, NULL, NULL), want, dir);
    assert_string_equal(names_in(dir), before);
    assert_int_equal(restored_tag(dir), 1);
    est_tensor_free(value);
    est_saver_free(saver);
    end_model(&m);
}

static void test_full_disk(void **state)
{
    model         m = make_model();
    est_saver    *saver;
    struct rlimit old, small = { .rlim_cur = 1 << 20 };
    bool          mounted;

    (void)state;
    saver = make_saver(at("full"), NULL);
    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill_up(at("full"), EST_OUT_OF_RANGE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

    assert_ok(est_dir_create(at("tiny")));
    mounted = mount("none", at("tiny"), "tmpfs", 0, "size=1m") == 0; /* needs root */
    if (mounted) {
        saver = make_saver(at("tiny"), NULL);
        assert_ok(save_step(saver, &m, 1));
        est_saver_free(saver);
        fill_up(at("tiny"), EST_RESOURCE_EXHAUSTED);
        assert_int_equal(umount(at("tiny")), 0);
    } else {
        print_message("a full file system is not tested: mounting a small one needs root (%s)\n", strerror(errno));
    }
    end_model(&m);
}

/* A directory that disappeared, and one where nothing can be removed. */
static void test_lost_directory(void **state)
{
    model      m     = make_model();
    est_saver *saver = make_saver(at("lost"), EST_SAVER(.keep_max = 1));

    (void)state;
    watch_log();
    assert_ok(save_step(saver, &m, 1));
    unlink(at("lost/model.ckpt-1.index"));
    assert_ok(est_dir_create(at("lost/model.ckpt-1.index"))); /* cannot be unlinked, not even by root */
    assert_ok(save_step(saver, &m, 2));
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, "model.ckpt-1.index"));
    assert_true(est_file_exists(at("lost/model.ckpt-1.data-00000-of-00001"))); /* S4 */
    remove_dir(at("lost"));
    expect_error(save_step(saver, &m, 3), EST_NOT_FOUND, at("lost"));
    est_saver_free(saver);
    est_log_set_sink(NULL, NULL);
    end_model(&m);
}

/* A NaN is found wherever it is in floats of both sizes; an infinity is none. */
static void test_nan(void **state)
{
    static const int64_t places[] = { 0, 1, 4095, 4096, 9999 };
    est_graph           *graph    = NULL;
    est_session         *session  = NULL;
    const char          *name;

    (void)state;
    assert_ok(est_graph_create(1, &graph));
    est_weight(graph, "small", EST_SHAPE(10000), EST_WEIGHT(.initializer = est_init_constant(INFINITY)));
    est_weight(graph, "wide", EST_SHAPE(10000),
               EST_WEIGHT(.dtype = EST_F64, .initializer = est_init_constant(-INFINITY)));
    est_weight(graph, "number", EST_SHAPE(4), EST_WEIGHT(.dtype = EST_I64, .initializer = est_init_constant(-1)));
    assert_ok(est_session_create(graph, NULL, &session));
    assert_ok(est_saved_nan(session, &name)); /* what has no value has no NaN */
    assert_null(name);
    assert_ok(est_session_init(session));
    assert_ok(est_saved_nan(session, &name));
    assert_null(name);
    for (int i = 0; i < 10; i++) {
        bool        wide = i >= 5;
        est_tensor *value, *good;

        assert_ok(est_session_read(session, wide ? "wide" : "small", &value));
        assert_ok(est_session_read(session, wide ? "wide" : "small", &good));
        if (wide) {
            ((double *)est_tensor_data(value))[places[i % 5]] = NAN;
        } else {
            ((float *)est_tensor_data(value))[places[i % 5]] = NAN;
        }
        assert_ok(est_session_write(session, wide ? "wide" : "small", value));
        assert_ok(est_saved_nan(session, &name));
        assert_string_equal(name, wide ? "wide" : "small");
        assert_ok(est_session_write(session, wide ? "wide" : "small", good));
        est_tensor_free(value);
        est_tensor_free(good);
    }
    est_session_free(session);
    est_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_local_variables),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_same_step),
        cmocka_unit_test(test_keep_max),
        cmocka_unit_test(test_keep_every_n_hours),
        cmocka_unit_test(test_default_keep_hours),
        cmocka_unit_test(test_seed_times),
        cmocka_unit_test(test_seed_paths),
        cmocka_unit_test(test_meta_of_same_step),
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_seed_twice),
        cmocka_unit_test(test_seed_elsewhere),
        cmocka_unit_test(test_moved_directory),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_unusable_go_first),
        cmocka_unit_test(test_every_failure),
        cmocka_unit_test(test_kill_at_every_call),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_lost_directory),
    };

    return cmocka_run_group_tests(tests, make_root, remove_root);
}
