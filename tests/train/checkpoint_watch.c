/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching the checkpoints of a directory: what is given, when, and what ends the watch. Times are those of a clock
 * that moves only when someone waits. */
#include "estoc/checkpoint_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/signals.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "train/lock.h"
#include "train/saver_test.h"

static est_manual_clock standing;

static void stand(void)
{
    est_manual_clock_init(&standing, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&standing.clock);
}

/* A trainer that saves when its time comes: every wait of the watch looks at the clock. */
typedef struct trainer {
    model      m;
    est_saver *saver;
} trainer;

static trainer begin_trainer(const char *dir)
{
    trainer t = { .m = make_model(), .saver = open_saver(dir, NULL) };

    return t;
}

static void end_trainer(trainer *t)
{
    est_saver_free(t->saver);
    end_model(&t->m);
}

static est_checkpoint_watch *watch_of(const char *dir, const est_checkpoint_watch_options *options)
{
    est_checkpoint_watch *watch = NULL;

    assert_ok(est_checkpoint_watch_create(dir, options, &watch));
    return watch;
}

static void expect_next(est_checkpoint_watch *watch, const char *want)
{
    char path[EST_CHECKPOINT_PATH_MAX];

    assert_ok(est_checkpoint_watch_next(watch, path));
    assert_string_equal(path, want);
}

static void expect_end(est_checkpoint_watch *watch, est_status want, const char *text)
{
    char path[EST_CHECKPOINT_PATH_MAX] = "untouched";

    expect_error(est_checkpoint_watch_next(watch, path), want, text);
    assert_string_equal(path, "untouched");
}

static double now_secs(void)
{
    return (double)est_now_ns() / (double)EST_NS_PER_SEC;
}

/* The latest of those that were saved meanwhile, each once, and the end after the last. */
TEST(latest_and_end)
{
    trainer               t     = begin_trainer(at("latest"));
    est_checkpoint_watch *watch = watch_of(at("latest"), NULL);

    assert_ok(est_saver_mark_begin(t.saver));
    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("latest/model.ckpt-1"));
    assert_ok(save_step(t.saver, &t.m, 2));
    assert_ok(save_step(t.saver, &t.m, 3));
    expect_next(watch, at("latest/model.ckpt-3"));
    assert_ok(save_step(t.saver, &t.m, 4));
    assert_ok(est_saver_mark_end(t.saver, 4));
    expect_next(watch, at("latest/model.ckpt-4"));
    expect_end(watch, EST_OUT_OF_RANGE, "its last checkpoint was given");
    expect_end(watch, EST_OUT_OF_RANGE, "has ended");
    est_checkpoint_watch_free(watch);
    est_checkpoint_watch_free(NULL);
    end_trainer(&t);
}

TEST(timeout)
{
    trainer               t = begin_trainer(at("timeout"));
    est_checkpoint_watch *watch;

    stand();
    watch = watch_of(at("timeout"), EST_CHECKPOINT_WATCH(.timeout_secs = 7.5));
    expect_end(watch, EST_DEADLINE_EXCEEDED, "for 7.5 s");
    assert_near(now_secs(), 7.5, 1e-3);
    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("timeout/model.ckpt-1"));
    assert_near(now_secs(), 7.5, 1e-3); /* it was there */
    expect_end(watch, EST_DEADLINE_EXCEEDED, "for 7.5 s");
    assert_near(now_secs(), 15, 1e-3);
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

/* Every wait is logged, the first and later ones, and says when nobody is known to train. */
TEST(waits_are_logged)
{
    trainer               t    = begin_trainer(at("logged"));
    est_dir_lock         *lock = NULL;
    est_checkpoint_watch *watch;

    stand();
    log_keep(EST_LOG_INFO);
    watch = watch_of(at("logged"), EST_CHECKPOINT_WATCH(.timeout_secs = 60));
    expect_end(watch, EST_DEADLINE_EXCEEDED, "for 60 s");
    log_expect(
        "warn the evaluator has waited * s for a checkpoint: there is none in *; no Estimator trains there*60 s");
    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("logged/model.ckpt-1"));
    assert_ok(est_dir_lock_take(at("logged"), &lock));
    log_clear();
    expect_end(watch, EST_DEADLINE_EXCEEDED, "for 60 s");
    log_expect("warn the evaluator has waited * s for a checkpoint: there is no new one in *; gives up after 60 s");
    assert_false(log_has("no Estimator trains"));
    log_release();
    est_dir_lock_release(lock);
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

/* A training that starts over saves the same step again. */
TEST(started_over)
{
    const struct timespec later[2] = { { .tv_sec = 2000000000 }, { .tv_sec = 2000000000 } };
    trainer               t        = begin_trainer(at("over"));
    est_checkpoint_watch *watch    = watch_of(at("over"), EST_CHECKPOINT_WATCH(.timeout_secs = 2));

    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("over/model.ckpt-1"));
    end_trainer(&t);
    assert_ok(est_dir_remove(at("over")));
    t = begin_trainer(at("over"));
    assert_ok(save_step(t.saver, &t.m, 1));
    assert_int_equal(utimensat(AT_FDCWD, at("over/model.ckpt-1.index"), later, 0),
                     0); /* however fast this machine is */
    expect_next(watch, at("over/model.ckpt-1"));
    stand();
    expect_end(watch, EST_DEADLINE_EXCEEDED, "no new checkpoint");
    est_clock_set(NULL);
    est_checkpoint_watch_free(watch);
    end_trainer(&t);
}

/* The throttle bounds how often, but not how soon the last one is given. */
TEST(throttle)
{
    trainer               t = begin_trainer(at("throttle"));
    est_checkpoint_watch *watch;

    stand();
    watch = watch_of(at("throttle"), EST_CHECKPOINT_WATCH(.throttle_secs = 60));
    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("throttle/model.ckpt-1"));
    assert_ok(save_step(t.saver, &t.m, 2));
    expect_next(watch, at("throttle/model.ckpt-2"));
    assert_near(now_secs(), 60, 1e-3);
    assert_ok(save_step(t.saver, &t.m, 3));
    assert_ok(est_saver_mark_end(t.saver, 3));
    expect_next(watch, at("throttle/model.ckpt-3"));
    assert_near(now_secs(), 60, 1e-3);
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

/* A mark that was there before may be of an earlier training: it counts after the delay, a new one at once. */
TEST(old_mark)
{
    trainer               t = begin_trainer(at("old"));
    est_checkpoint_watch *watch;

    stand();
    assert_ok(save_step(t.saver, &t.m, 1));
    assert_ok(est_saver_mark_end(t.saver, 1));
    watch = watch_of(at("old"), NULL);
    expect_next(watch, at("old/model.ckpt-1"));
    assert_near(now_secs(), 0, 1e-3);
    expect_end(watch, EST_OUT_OF_RANGE, "has ended");
    assert_near(now_secs(), 120, 1e-3);
    est_checkpoint_watch_free(watch);

    watch = watch_of(at("old"), EST_CHECKPOINT_WATCH(.start_delay_secs = EST_OFF));
    expect_next(watch, at("old/model.ckpt-1"));
    expect_end(watch, EST_OUT_OF_RANGE, "has ended");
    est_checkpoint_watch_free(watch);

    watch = watch_of(at("old"), EST_CHECKPOINT_WATCH(.timeout_secs = 1));
    assert_ok(est_saver_mark_begin(t.saver)); /* the trainer starts again */
    expect_next(watch, at("old/model.ckpt-1"));
    expect_end(watch, EST_DEADLINE_EXCEEDED, "no new checkpoint");
    assert_ok(est_saver_mark_end(t.saver, 1));
    expect_end(watch, EST_OUT_OF_RANGE, "has ended");
    assert_near(now_secs(), 121, 1e-3);
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

/* A training that ended without a checkpoint; one that holds the directory has not ended. */
TEST(no_checkpoint)
{
    trainer               t     = begin_trainer(at("none"));
    est_dir_lock         *lock  = NULL;
    est_checkpoint_watch *watch = watch_of(at("none"), EST_CHECKPOINT_WATCH(.timeout_secs = 3));

    stand();
    assert_ok(est_saver_mark_end(t.saver, 0));
    assert_ok(est_dir_lock_take(at("none"), &lock));
    expect_end(watch, EST_DEADLINE_EXCEEDED, "no new checkpoint");
    est_dir_lock_release(lock);
    expect_end(watch, EST_OUT_OF_RANGE, "there is no checkpoint");
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

TEST(a_signal)
{
    est_checkpoint_watch *watch = watch_of(at("signal"), NULL);

    est_signals_catch();
    assert_int_equal(raise(SIGTERM), 0);
    expect_end(watch, EST_CANCELLED, "SIGTERM");
    est_signals_release(EST_CANCELLED);
    est_checkpoint_watch_free(watch);
}

/* Damage is not given twice, and the checkpoint before it is not given again. */
TEST(damaged)
{
    trainer               t = begin_trainer(at("damaged"));
    est_checkpoint_watch *watch;

    stand();
    watch = watch_of(at("damaged"), EST_CHECKPOINT_WATCH(.timeout_secs = 2));
    assert_ok(save_step(t.saver, &t.m, 1));
    expect_next(watch, at("damaged/model.ckpt-1"));
    assert_ok(save_step(t.saver, &t.m, 2));
    put_bytes(at("damaged/model.ckpt-2.index"), "x", 1);
    expect_end(watch, EST_DEADLINE_EXCEEDED, "no new checkpoint");
    assert_ok(save_step(t.saver, &t.m, 3));
    expect_next(watch, at("damaged/model.ckpt-3"));
    est_checkpoint_watch_free(watch);
    est_clock_set(NULL);
    end_trainer(&t);
}

TEST(bad_options)
{
    est_checkpoint_watch *watch = NULL;

    expect_error(est_checkpoint_watch_create(NULL, NULL, &watch), EST_INVALID_ARGUMENT, "dir");
    expect_error(est_checkpoint_watch_create("x", EST_CHECKPOINT_WATCH(.timeout_secs = -1), &watch),
                 EST_INVALID_ARGUMENT, "timeout_secs is -1");
    expect_error(est_checkpoint_watch_create("x", EST_CHECKPOINT_WATCH(.throttle_secs = NAN), &watch),
                 EST_INVALID_ARGUMENT, "throttle_secs is nan");
    expect_error(est_checkpoint_watch_create("x", EST_CHECKPOINT_WATCH(.start_delay_secs = -1), &watch),
                 EST_INVALID_ARGUMENT, "EST_OFF");
    assert_null(watch);
}

TEST(allocations)
{
    trainer t = begin_trainer(at("memory"));
    char    path[EST_CHECKPOINT_PATH_MAX];

    assert_ok(save_step(t.saver, &t.m, 1));
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_checkpoint_watch *watch = NULL;
        est_status            status;

        fault_arm(&f);
        status = est_checkpoint_watch_create(at("memory"), EST_CHECKPOINT_WATCH(.timeout_secs = 0.001), &watch);
        if (status == EST_OK) status = est_checkpoint_watch_next(watch, path);
        fault_check_lenient(&f, status);
        est_checkpoint_watch_free(watch);
    }
    end_trainer(&t);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
