/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving: names and bytes of the files, and which are kept. tests/train/saver_faults.c has what goes wrong. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "format/bundle.h"
#include "train/saver.h"
#include "train/saver_test.h"

/* --- files -------------------------------------------------------------------------------------------------------- */

TEST(files)
{
    model       m     = make_model();
    est_saver  *saver = open_saver(at("a/files"), NULL); /* makes both directories */
    est_tensor *extra;
    char        path[EST_CHECKPOINT_PATH_MAX];
    int64_t     position[2] = { 17, -4 };

    assert_string_equal(names_in(at("a/files")), "");
    set_tag(&m, 7);
    assert_ok(est_tensor_i64(EST_SHAPE(2), position, &extra));
    assert_ok(est_saver_save(saver, m.session, 7,
                             EST_SAVE(.extras = EST_EXTRAS({ "input/position", extra }), .meta = { "graph", 5 }),
                             path));
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

/* Metrics count from 0 in every session. */
TEST(local_variables)
{
    nn_test         t     = nn_begin(1);
    est_node        four  = nn_const(t.graph, EST_SHAPE(1), NN_VALUES(4));
    est_saver      *saver = open_saver(at("local"), NULL);
    est_checkpoint *checkpoint;

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

TEST(errors)
{
    model       m = make_model();
    est_saver  *saver;
    est_tensor *extra;
    char        path[EST_CHECKPOINT_PATH_MAX] = "untouched";

    expect_error(est_saver_create(NULL, NULL, &saver), EST_INVALID_ARGUMENT, "needs a directory");
    expect_error(est_saver_create(at("e"), EST_SAVER(.keep_max = -7), &saver), EST_INVALID_ARGUMENT, "keep_max is -7");
    expect_error(est_saver_create(at("e"), EST_SAVER(.keep_every_n_hours = -1), &saver), EST_INVALID_ARGUMENT,
                 "keep_every_n_hours is -1");
    expect_error(est_saver_create(at("e"), EST_SAVER(.name = "a/b"), &saver), EST_INVALID_ARGUMENT, "\"a/b\"");
    expect_error(est_saver_create(at("e"), &(est_saver_options){ .keep_max = 1 }, &saver), EST_INVALID_ARGUMENT,
                 "EST_SAVER");
    put_bytes(at("plain"), "x", 1);
    expect_error(est_saver_create(at("plain/dir"), NULL, &saver), EST_ALREADY_EXISTS, "plain");

    saver = open_saver(at("e"), NULL);
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
TEST(same_step)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("same"), NULL);

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
TEST(meta_of_same_step)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("meta"), NULL);

    set_tag(&m, 1);
    assert_ok(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = { "old", 3 }), NULL));
    assert_ok(est_dir_create(at("meta/model.ckpt-1.data-00000-of-00002"))); /* where the new data would go */
    set_tag(&m, 2);
    assert_int_not_equal(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = { "new", 3 }), NULL), EST_OK);
    expect_text(at("meta/model.ckpt-1.meta"), "old");
    assert_int_equal(restored_tag(at("meta")), 1);
    assert_int_equal(rmdir(at("meta/model.ckpt-1.data-00000-of-00002")), 0);
    assert_ok(est_saver_save(saver, m.session, 1, EST_SAVE(.meta = { "new", 3 }), NULL));
    expect_text(at("meta/model.ckpt-1.meta"), "new");
    assert_ok(est_saver_save(saver, m.session, 1, NULL, NULL));
    assert_string_equal(names_in(at("meta")), "checkpoint model.ckpt-1.data-00000-of-00001 model.ckpt-1.index");
    est_saver_free(saver);
    end_model(&m);
}

/* --- retention ---------------------------------------------------------------------------------------------------- */

TEST(keep_max)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("max"), EST_SAVER(.keep_max = 3, .name = "x"));

    for (int i = 1; i <= 7; i++) {
        set_tag(&m, i);
        assert_ok(est_saver_save(saver, m.session, i, EST_SAVE(.meta = { "m", 1 }), NULL));
    }
    assert_string_equal(names_in(at("max")),
                        "checkpoint x-5.data-00000-of-00001 x-5.index x-5.meta x-6.data-00000-of-00001 x-6.index "
                        "x-6.meta x-7.data-00000-of-00001 x-7.index x-7.meta");
    est_saver_free(saver);

    /* The next process goes on where this one stopped, and may keep fewer. */
    saver = open_saver(at("max"), EST_SAVER(.keep_max = 2, .name = "x"));
    assert_ok(save_step(saver, &m, 8));
    assert_string_equal(names_in(at("max")),
                        "checkpoint x-7.data-00000-of-00001 x-7.index x-7.meta x-8.data-00000-of-00001 x-8.index");
    expect_text(at("max/checkpoint"), "model_checkpoint_path: \"x-8\"\n"
                                      "all_model_checkpoint_paths: \"x-7\"\n"
                                      "all_model_checkpoint_paths: \"x-8\"\n");
    est_saver_free(saver);

    saver = open_saver(at("max"), EST_SAVER(.keep_max = EST_OFF, .name = "x"));
    for (int i = 9; i < 20; i++) assert_ok(save_step(saver, &m, i));
    for (int i = 7; i < 20; i++) {
        char name[64];

        snprintf(name, sizeof name, "max/x-%d.index", i);
        assert_true(est_file_exists(at(name)));
    }
    expect_text(at("max/checkpoint"), "model_checkpoint_path: \"x-19\"\nall_model_checkpoint_paths: \"x-19\"\n");
    est_saver_free(saver);
    saver = open_saver(at("default"), NULL);
    for (int i = 1; i <= 6; i++) assert_ok(save_step(saver, &m, i));
    assert_false(est_file_exists(at("default/model.ckpt-1.index")));
    assert_true(est_file_exists(at("default/model.ckpt-2.index")));
    est_saver_free(saver);
    end_model(&m);
}

/* One that leaves the list stays if it was made more than an hour after the last moment; that moment then moves on by
 * one hour. Saves at 0, 25, 50, ... minutes with one kept: 75 is past 60, 125 past 120, 200 past 180, 250 past 240. */
/* Saved every 4000 hours: that of hour 12000 is the first after the 10000 that are the default. */
TEST(default_keep_hours)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;

    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    saver = open_saver(at("long"), EST_SAVER(.keep_max = 1));
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

TEST(keep_every_n_hours)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;

    est_manual_clock_init(&clock, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock.clock);
    saver = open_saver(at("hours"), EST_SAVER(.keep_max = 1, .keep_every_n_hours = 1));
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
TEST(seed_times)
{
    est_manual_clock clock;
    model            m = make_model();
    est_saver       *saver;
    const int64_t    start = 1700000000;

    saver = open_saver(at("times"), NULL);
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
    saver = open_saver(at("times"), EST_SAVER(.keep_max = 1, .keep_every_n_hours = 1));
    assert_ok(save_step(saver, &m, 3));
    assert_true(est_file_exists(at("times/model.ckpt-1.index")));
    assert_false(est_file_exists(at("times/model.ckpt-2.index")));
    est_saver_free(saver);
    est_clock_set(NULL);
    end_model(&m);
}

/* Paths of a state file that TensorFlow may have written: absolute ones count when they lie in the directory, and
 * nothing outside of it is ever removed. */
TEST(seed_paths)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("other"), NULL);
    char       text[4096];

    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    saver = open_saver(at("seeds"), NULL);
    for (int i = 1; i <= 3; i++) assert_ok(save_step(saver, &m, i));
    est_saver_free(saver);
    snprintf(text, sizeof text,
             "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: [\"../other/model.ckpt-1\", "
             "\"%s\", \"model.ckpt-99\", \"%s\", \"model.ckpt-2\", \"%s\"]",
             at("seeds/model.ckpt-3"), at("other/model.ckpt-1"), at("seeds/model.ckpt-1"), at("seeds/model.ckpt-3"));
    put_bytes(at("seeds/checkpoint"), text, strlen(text));
    saver = open_saver(at("seeds"), EST_SAVER(.keep_max = 2));
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
TEST(seed_twice)
{
    model      m     = make_model();
    est_saver *saver = open_saver(at("twice"), NULL);
    char       text[4096];

    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    assert_int_equal(symlink(at("twice"), at("link")), 0);
    snprintf(text, sizeof text,
             "model_checkpoint_path: \"%s\"\nall_model_checkpoint_paths: [\"model.ckpt-1\", \"%s\", \"%s\"]",
             at("twice/model.ckpt-1"), at("twice/model.ckpt-1"), at("link/model.ckpt-1"));
    put_bytes(at("twice/checkpoint"), text, strlen(text));
    saver = open_saver(at("twice"), EST_SAVER(.keep_max = 2));
    assert_ok(save_step(saver, &m, 2));
    expect_text(at("twice/checkpoint"), "model_checkpoint_path: \"model.ckpt-2\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-2\"\n");
    assert_int_equal(restored_tag(at("twice/model.ckpt-1")), 1);
    est_saver_free(saver);
    end_model(&m);
}

/* A path into another directory that exists is not ours, though we have a checkpoint of that name. */
TEST(seed_elsewhere)
{
    model      m = make_model();
    est_saver *saver;
    char       text[4096];

    assert_ok(est_dir_create(at("elsewhere")));
    saver = open_saver(at("mine"), EST_SAVER(.keep_max = EST_OFF));
    assert_ok(save_step(saver, &m, 1));
    est_saver_free(saver);
    snprintf(text, sizeof text, "model_checkpoint_path: \"%s\" all_model_checkpoint_paths: \"%s\"",
             at("elsewhere/model.ckpt-1"), at("elsewhere/model.ckpt-1"));
    put_bytes(at("mine/checkpoint"), text, strlen(text));
    saver = open_saver(at("mine"), EST_SAVER(.keep_max = 1));
    assert_ok(save_step(saver, &m, 2));
    assert_ok(save_step(saver, &m, 3));
    assert_int_equal(restored_tag(at("mine/model.ckpt-1")), 1);
    assert_false(est_file_exists(at("mine/model.ckpt-2.index")));
    est_saver_free(saver);
    end_model(&m);
}

/* A directory whose state file has the absolute paths of where it was before it was moved. */
TEST(moved_directory)
{
    static const char text[] = "model_checkpoint_path: \"/no such folder/run/model.ckpt-2\"\n"
                               "all_model_checkpoint_paths: \"/no such folder/run/model.ckpt-1\"\n"
                               "all_model_checkpoint_paths: \"/no such folder/run/model.ckpt-2\"\n";
    model             m      = make_model();
    est_saver        *saver  = open_saver(at("moved"), NULL);
    est_restored      done;

    log_keep(EST_LOG_WARN);
    assert_ok(save_step(saver, &m, 1));
    assert_ok(save_step(saver, &m, 2));
    est_saver_free(saver);
    put_bytes(at("moved/checkpoint"), text, strlen(text));
    saver = open_saver(at("moved"), EST_SAVER(.keep_max = 2));
    assert_ok(est_saver_restore(saver, m.session, NULL, &done));
    assert_string_equal(done.path, at("moved/model.ckpt-2"));
    assert_ok(save_step(saver, &m, 3)); /* that 2 was not where the file said does not make it unusable */
    assert_string_equal(names_in(at("moved")), "checkpoint model.ckpt-2.data-00000-of-00001 model.ckpt-2.index "
                                               "model.ckpt-3.data-00000-of-00001 model.ckpt-3.index");
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* What processes that were killed have left goes with the first save; what others have put there stays. */
TEST(leftovers)
{
    static const char *const gone[]   = { "model.ckpt-5.data-00000-of-00001",
                                          "model.ckpt-5.meta",
                                          "model.ckpt-5.index.tmp-77-1",
                                          "checkpoint.tmp-1-2",
                                          "graph.pbtxt.tmp-1-2-3",
                                          "training_done.tmp-1-2-3",
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
    est_saver               *saver    = open_saver(at("leftovers"), NULL);
    char                     path[96];

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
    saver = open_saver(at("leftovers"), NULL);
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
TEST(unusable_go_first)
{
    const struct timespec future[2] = { { .tv_sec = INT64_C(4000000000) }, { .tv_sec = INT64_C(4000000000) } };
    model                 m         = make_model();
    est_saver            *saver     = open_saver(at("unusable"), EST_SAVER(.keep_max = 3));
    est_restored          done;

    log_keep(EST_LOG_WARN);
    for (int i = 1; i <= 3; i++) assert_ok(save_step(saver, &m, 100 * i));
    est_saver_free(saver);
    spoil(at("unusable/model.ckpt-200.data-00000-of-00001"));
    spoil(at("unusable/model.ckpt-300.data-00000-of-00001"));
    assert_int_equal(utimensat(AT_FDCWD, at("unusable/model.ckpt-200.index"), future, 0), 0);
    saver = open_saver(at("unusable"),
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
    log_release();
}

/* A NaN is found wherever it is in floats of both sizes; an infinity is none. */
TEST(nan)
{
    static const int64_t places[] = { 0, 1, 4095, 4096, 9999 };
    est_graph           *graph    = NULL;
    est_session         *session  = NULL;
    const char          *name;

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
            ((double *)est_tensor_mutable_data(value))[places[i % 5]] = NAN;
        } else {
            ((float *)est_tensor_mutable_data(value))[places[i % 5]] = NAN;
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
    return est_test_run(est_test_root_make, est_test_root_remove);
}
