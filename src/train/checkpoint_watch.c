/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches the checkpoints of a directory (see estoc/checkpoint_watch.h). */
#include "train/checkpoint_watch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/signals.h"
#include "cluster/wait_table.h"
#include "train/done_mark.h"
#include "train/lock.h"
#include "train/saver.h"

/* --- the directory of a trainer ----------------------------------------------------------------------------------- */

static bool has_mark(const char *dir)
{
    est_done_mark mark;

    return est_done_mark_read(dir, &mark) == EST_OK && mark.there;
}

/* Whether no trainer is at work; also where that cannot be found out. */
static bool is_free(const char *dir)
{
    char holder[EST_LOCK_HOLDER_MAX];

    return est_dir_lock_holder(dir, holder, sizeof holder) != EST_OK || holder[0] == '\0';
}

est_dir_watch est_dir_watch_begin(const char *dir, double start_delay_secs)
{
    return (est_dir_watch){ dir, has_mark(dir) ? est_now_ns() + est_secs_to_ns(start_delay_secs) : 0 };
}

bool est_dir_watch_is_done(est_dir_watch *w)
{
    if (!has_mark(w->dir)) {
        w->counts_ns = 0; /* the next mark is of the training that has begun */
        return false;
    }
    return est_now_ns() >= w->counts_ns && is_free(w->dir);
}

bool est_dir_watch_is_abandoned(const est_dir_watch *w)
{
    return is_free(w->dir) && !has_mark(w->dir);
}

est_status est_dir_watch_pause(double left_secs)
{
    if (!est_signals_wait(left_secs > 0 ? fmin(left_secs, EST_WATCH_SECS) : EST_WATCH_SECS)) return EST_OK;
    return est_fail(EST_CANCELLED, "%s: the evaluator leaves; start it again to go on", est_stop_signal_name());
}

est_status est_latest_usable_checkpoint(const char *dir, char out[EST_CHECKPOINT_PATH_MAX])
{
    est_checkpoint *checkpoint = NULL;
    est_status      status     = EST_OK;
    int             n;

    EST_TRY(est_checkpoint_open(dir, &checkpoint));
    n = snprintf(out, EST_CHECKPOINT_PATH_MAX, "%s", est_checkpoint_path(checkpoint));
    if (n >= EST_CHECKPOINT_PATH_MAX) {
        status = est_fail(EST_INVALID_ARGUMENT, "the path of a checkpoint in %s has %d bytes; at most %d can be used",
                          dir, n, EST_CHECKPOINT_PATH_MAX - 1);
    }
    est_checkpoint_close(checkpoint);
    return status;
}

/* --- the watch of a program --------------------------------------------------------------------------------------- */

/* Tells a checkpoint from one of the same name that replaced it: a training that starts over saves the same steps. */
typedef struct identity {
    dev_t           device;
    ino_t           inode;
    struct timespec modified;
} identity;

struct est_checkpoint_watch {
    char                        *dir;
    est_checkpoint_watch_options o;
    est_dir_watch                seen;
    char                         given[EST_CHECKPOINT_PATH_MAX]; /* the last one; "": none yet */
    identity                     given_id;
    int64_t                      given_ns;
};

/* Of the index file, which is written last. A file that vanished has none. */
static identity identify(const char *prefix)
{
    char        path[EST_CHECKPOINT_PATH_MAX + sizeof ".index"];
    struct stat info;

    snprintf(path, sizeof path, "%s.index", prefix);
    if (stat(path, &info) != 0) return (identity){ 0 };
    return (identity){ info.st_dev, info.st_ino, info.st_mtim };
}

static bool is_same(identity a, identity b)
{
    return a.device == b.device && a.inode == b.inode && a.modified.tv_sec == b.modified.tv_sec &&
           a.modified.tv_nsec == b.modified.tv_nsec;
}

static est_status check_secs(const char *name, double value, bool off)
{
    if (isfinite(value) && (value >= 0 || (off && value == EST_OFF))) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s is %g; write a number of seconds%s", name, value,
                    off ? ", or EST_OFF for none" : ", or 0 for none");
}

est_status est_checkpoint_watch_create(const char *dir, const est_checkpoint_watch_options *options,
                                       est_checkpoint_watch **out)
{
    est_checkpoint_watch_options o;
    est_checkpoint_watch        *w;
    double                       delay;

    EST_REQUIRE(dir);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_checkpoint_watch_options), options, &o));
    EST_TRY(check_secs("timeout_secs", o.timeout_secs, false));
    EST_TRY(check_secs("throttle_secs", o.throttle_secs, false));
    EST_TRY(check_secs("start_delay_secs", o.start_delay_secs, true));
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_no_memory();
    w->dir = est_strdup(dir);
    if (w->dir == NULL) {
        est_free(w);
        return est_no_memory();
    }
    delay   = o.start_delay_secs == EST_OFF ? 0 : o.start_delay_secs == 0 ? EST_WATCH_DELAY_SECS : o.start_delay_secs;
    w->o    = o;
    w->seen = est_dir_watch_begin(w->dir, delay);
    *out    = w;
    return EST_OK;
}

void est_checkpoint_watch_free(est_checkpoint_watch *watch)
{
    if (watch == NULL) return;
    est_free(watch->dir);
    est_free(watch);
}

static double secs_since(int64_t ns)
{
    return (double)(est_now_ns() - ns) / (double)EST_NS_PER_SEC;
}

/* Looks once; *found: there is a new checkpoint, and its time has come. */
static est_status look(est_checkpoint_watch *w, bool done, char path[EST_CHECKPOINT_PATH_MAX], bool *found)
{
    char       latest[EST_CHECKPOINT_PATH_MAX];
    est_status status = est_latest_usable_checkpoint(w->dir, latest);
    identity   id;

    *found = false;
    if (status == EST_NOT_FOUND) return EST_OK;
    EST_TRY(status);
    id = identify(latest);
    if (strcmp(latest, w->given) == 0 && is_same(id, w->given_id)) return EST_OK;
    if (!done && w->given[0] != '\0' && secs_since(w->given_ns) < w->o.throttle_secs) return EST_OK;
    memcpy(w->given, latest, sizeof latest);
    memcpy(path, latest, sizeof latest);
    w->given_id = id;
    w->given_ns = est_now_ns();
    *found      = true;
    return EST_OK;
}

/* A training loop that is not an Estimator's takes no lock, so that nobody can tell whether it runs. */
static void report(const est_checkpoint_watch *w, est_waiting *waiting)
{
    if (!est_wait_is_due(waiting)) return;
    est_wait_report(waiting,
                    est_dir_watch_is_abandoned(&w->seen)
                        ? "no Estimator trains there, and no training has marked its end: check that the trainer runs"
                        : "");
}

static est_status wait_for_next(est_checkpoint_watch *w, est_waiting *waiting, char path[EST_CHECKPOINT_PATH_MAX])
{
    for (;;) {
        bool   done = est_dir_watch_is_done(&w->seen); /* asked before: what is saved now is then the last */
        bool   found;
        double left = waiting->limit_secs - est_wait_secs(waiting);

        EST_TRY(look(w, done, path, &found));
        if (found) return EST_OK;
        if (done) {
            return est_fail(EST_OUT_OF_RANGE, "the training in %s has ended, and %s", w->dir,
                            w->given[0] != '\0' ? "its last checkpoint was given" : "there is no checkpoint");
        }
        if (left <= 0) {
            return est_fail(EST_DEADLINE_EXCEEDED, "there was no new checkpoint in %s for %g s (timeout_secs)", w->dir,
                            w->o.timeout_secs);
        }
        report(w, waiting);
        EST_TRY(est_dir_watch_pause(left));
    }
}

est_status est_checkpoint_watch_next(est_checkpoint_watch *watch, char path[EST_CHECKPOINT_PATH_MAX])
{
    char        why[EST_CHECKPOINT_PATH_MAX + 32];
    est_waiting waiting;

    EST_REQUIRE(watch);
    EST_REQUIRE(path);
    snprintf(why, sizeof why, watch->given[0] != '\0' ? "there is no new one in %s" : "there is none in %s",
             watch->dir);
    waiting = est_wait_make("the evaluator", "a checkpoint", why,
                            watch->o.timeout_secs > 0 ? watch->o.timeout_secs : INFINITY);
    return wait_for_next(watch, &waiting, path);
}

/* --- marks of a program that trains ------------------------------------------------------------------------------- */

est_status est_saver_mark_begin(est_saver *saver)
{
    EST_REQUIRE(saver);
    return est_done_mark_write(est_saver_dir(saver), &(est_done_mark){ .there = false });
}

est_status est_saver_mark_end(est_saver *saver, int64_t global_step)
{
    EST_REQUIRE(saver);
    return est_done_mark_write(est_saver_dir(saver), &(est_done_mark){ .there = true, .step = global_step });
}
