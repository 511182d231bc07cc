/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for the variables of a new session, and the end of a loop whose variables other tasks have. */
#include "train/loop_recovery.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "cluster/remote_tasks.h"
#include "train/saver.h"

/* How far the training had come, as far as the ps tasks know. */
static est_status find_reached(est_loop *loop, const est_remote *remote, est_reached *out)
{
    bool       counted = false;
    int64_t    step    = 0;
    est_status status;

    if (!out->all) {
        status  = est_loop_read_step(loop, &step);
        counted = status != EST_FAILED_PRECONDITION;
        if (counted) EST_TRY(status);
    }
    if (step > out->step) out->step = step;
    out->unknown = !counted && remote != NULL && est_remote_has_begun(remote);
    return EST_OK;
}

static bool has_checkpoint(const char *dir)
{
    char latest[EST_CHECKPOINT_PATH_MAX];
    bool has = dir[0] != '\0' && est_checkpoint_latest(dir, latest) == EST_OK;

    est_error_clear();
    return has;
}

est_status est_recovery_join(est_loop *loop, est_remote *remote, est_recovery_restore restore, void *user)
{
    est_strbuf  tasks   = { 0 };
    est_reached reached = { .step = est_loop_global_step(loop), .missing_only = true };
    est_status  status;

    status        = est_tasks_without_values(est_loop_session(loop), &tasks, &reached.all);
    reached.tasks = est_strbuf_text(&tasks);
    if (status == EST_OK) status = find_reached(loop, remote, &reached);
    if (status == EST_OK) status = restore(user, loop, &reached);
    est_strbuf_clear(&tasks);
    EST_TRY(status);
    EST_TRY(est_session_init(est_loop_session(loop))); /* variables that no checkpoint has */
    return has_checkpoint(est_loop_model_dir(loop)) ? est_loop_declare(loop) : EST_OK;
}

/* Some tasks may have lost their variables; the line says that the others keep theirs. */
void est_recovery_log(const est_reached *had, const est_recovery_names *names, const char *path)
{
    const char *tasks = had->all ? "" : had->tasks;
    const char *dash  = strrchr(path, '-');
    char       *end   = NULL;
    int64_t     step  = dash != NULL ? strtoll(dash + 1, &end, 10) : had->step;

    if (tasks[0] == '\0') {
        est_log_info("Restoring parameters from %s", path);
    } else {
        est_log_info("Restoring the variables of %s from %s; all others keep the values they have.", tasks, path);
    }
    if (step >= had->step || end == dash + 1 || *end != '\0') return;
    est_log_warn("training had come to step %" PRId64 ", and %s%s go back to step %" PRId64
                 ", the last checkpoint; save more often (%s) to lose less",
                 had->step, tasks[0] != '\0' ? "the variables of " : "all variables", tasks, step, names->save);
}

est_status est_recovery_check_beginning(const est_reached *had, const est_recovery_names *names)
{
    const char *of     = had->tasks[0] != '\0' ? " of " : "";
    char        at[64] = "training had begun";

    if (!had->unknown && had->step <= 0) return EST_OK;
    if (had->step > 0) snprintf(at, sizeof at, "training had come to step %" PRId64, had->step);
    if (names->path == NULL) {
        return est_fail(EST_DATA_LOSS,
                        "%s, and the variables%s%s are lost: no %s was given to restore them from; restart all tasks "
                        "to train from the beginning",
                        at, of, had->tasks, names->dir);
    }
    return est_fail(EST_DATA_LOSS,
                    "%s, the variables%s%s are lost, and %s %s has no checkpoint to restore them from; bring "
                    "its checkpoint files back and start this task again, or restart all tasks with an empty %s "
                    "to train from the beginning",
                    at, of, had->tasks, names->dir, names->path, names->dir);
}

/* A chief that a signal stopped leaves the others to themselves. */
est_status est_recovery_settle(est_loop *loop, est_remote *remote, int64_t max_steps, bool *unfinished)
{
    int64_t step;
    bool    last;

    EST_TRY(est_loop_read_step(loop, &step));
    last        = max_steps > 0 && step >= max_steps;
    *unfinished = !last && est_stop_signal() != 0;
    if (!last && !*unfinished) {
        est_status status;

        est_log_info("Waiting for the other workers before writing the final checkpoint.");
        status = est_remote_await_others(remote, est_loop_should_stop(loop));
        if (status != EST_OK && est_stop_signal() == 0) return status;
        *unfinished = status != EST_OK;
        EST_TRY(est_loop_read_step(loop, &step));
    }
    est_loop_set_global_step(loop, step);
    return EST_OK;
}
