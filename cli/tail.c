/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc tail`: the state of a run, from the files of its directory alone. Nothing is locked or written, so it is
 * safe at any time, from any machine that sees the directory. Files that cannot be read are reported, and the rest
 * is shown. */
#include "tail.h"

#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "command.h"
#include "format/checkpoint.h"
#include "inspect.h"
#include "train/lock.h"

#define DONE_NAME "training_done"

static const tool_option options[] = { TOOL_COMMON_OPTIONS };

/* Reports a file that could not be read, unless it does not exist. */
static void note_failure(tail_standing *s, est_status status)
{
    if (status == EST_OK || status == EST_NOT_FOUND) return;
    tool_note(&tool_tail, "%s", est_error_message());
    s->is_damaged = true;
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* The number after the last "-" of a prefix; -1: none. */
static int64_t step_of_name(const char *prefix)
{
    const char *dash = strrchr(prefix, '-');
    int64_t     step;
    int         end = 0;

    if (dash == NULL || !isdigit((unsigned char)dash[1])) return -1;
    return sscanf(dash + 1, "%" SCNd64 "%n", &step, &end) == 1 && dash[1 + end] == '\0' ? step : -1;
}

static int64_t step_of(const est_checkpoint *checkpoint)
{
    est_tensor *tensor;
    int64_t     step = -1;

    if (est_checkpoint_find(checkpoint, "global_step") != NULL &&
        est_checkpoint_read(checkpoint, "global_step", &tensor) == EST_OK) {
        if (est_tensor_dtype(tensor) == EST_I64 && est_tensor_count(tensor) == 1) {
            step = *(const int64_t *)est_tensor_data(tensor);
        }
        est_tensor_free(tensor);
    }
    return step >= 0 ? step : step_of_name(est_checkpoint_path(checkpoint));
}

/* When the files were last changed, for a checkpoint without a time in the state file. */
static double time_of_index(const char *prefix)
{
    est_strbuf  path = { 0 };
    struct stat info = { 0 };

    est_strbuf_printf(&path, "%s.index", prefix);
    if (stat(est_strbuf_text(&path), &info) != 0) info.st_mtim = (struct timespec){ 0 };
    est_strbuf_clear(&path);
    return (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec * 1e-9;
}

static est_status find_latest(tail_standing *s, const char *dir)
{
    est_checkpoint *checkpoint;
    est_status      status;

    EST_TRY(est_checkpoint_open(dir, &checkpoint));
    status = est_checkpoint_put_path(est_checkpoint_path(checkpoint), s->latest);
    if (status == EST_OK) {
        s->latest_step  = step_of(checkpoint);
        s->latest_saved = time_of_index(s->latest);
    }
    est_checkpoint_close(checkpoint);
    return status;
}

/* The checkpoints of the state file: which of them exist, and when the latest one was saved. */
static est_status look_at_kept(tail_standing *s, const char *dir)
{
    est_strbuf path = { 0 };
    est_status status;

    est_strbuf_printf(&path, "%s/checkpoint", dir);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_checkpoint_state_read(&s->state, est_strbuf_text(&path));
    est_strbuf_clear(&path);
    EST_TRY(status);
    s->kept_exist = est_zalloc((size_t)s->state.n_paths + 1);
    if (s->kept_exist == NULL) return est_no_memory();
    for (int i = 0; i < s->state.n_paths; i++) {
        char *prefix;

        EST_TRY(est_checkpoint_join(dir, s->state.paths[i], &prefix));
        status = est_checkpoint_exists(prefix, &s->kept_exist[i]);
        if (status == EST_OK && i < s->state.n_timestamps && strcmp(prefix, s->latest) == 0) {
            s->latest_saved = s->state.timestamps[i];
        }
        est_free(prefix);
        EST_TRY(status);
    }
    return EST_OK;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static est_status find_end(tail_standing *s, const char *dir)
{
    est_strbuf path = { 0 };
    char      *text = NULL;
    est_status status;
    size_t     size;

    est_strbuf_printf(&path, "%s/" DONE_NAME, dir);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_file_read(est_strbuf_text(&path), &text, &size);
    est_strbuf_clear(&path);
    EST_TRY(status);
    s->is_done = true;
    if (sscanf(text, "%" SCNd64, &s->done_step) != 1) s->done_step = -1;
    est_free(text);
    return EST_OK;
}

static bool is_eval_name(const char *name)
{
    return strcmp(name, "eval") == 0 || strncmp(name, "eval_", 5) == 0;
}

static est_status read_scalars(tail_standing *s, const char *dir, const char *name)
{
    tail_scalars *scalars = &s->scalars[s->n_scalars++];
    est_strbuf    path    = { 0 };
    est_status    status;

    scalars->name = name != NULL ? name : "training";
    est_strbuf_append(&path, dir);
    if (name != NULL) est_strbuf_printf(&path, "/%s", name);
    status = est_strbuf_status(&path);
    if (status == EST_OK && est_dir_exists(est_strbuf_text(&path))) {
        status = tail_scalars_read(scalars, est_strbuf_text(&path));
    }
    est_strbuf_clear(&path);
    return status;
}

static est_status find_scalars(tail_standing *s, const char *dir)
{
    int n = 0;

    EST_TRY(inspect_names(dir, is_eval_name, &s->eval_names));
    while (s->eval_names[n] != NULL) n++;
    s->scalars = est_zalloc((size_t)(n + 1) * sizeof *s->scalars);
    if (s->scalars == NULL) return est_no_memory();
    note_failure(s, read_scalars(s, dir, NULL));
    for (int i = 0; i < n; i++) note_failure(s, read_scalars(s, dir, s->eval_names[i]));
    return EST_OK;
}

static bool is_visible(const char *name)
{
    return name[0] != '.';
}

static bool is_time_stamp(const char *name)
{
    return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* The exports of one exporter; none is added when there are none. */
static est_status add_export(tail_standing *s, const char *dir, const char *exporter)
{
    tail_export *to   = &s->exports[s->n_exports];
    est_strbuf   path = { 0 };
    char       **names;
    est_status   status;

    est_strbuf_printf(&path, "%s/%s", dir, exporter);
    status = est_strbuf_status(&path);
    if (status == EST_OK && !est_dir_exists(est_strbuf_text(&path))) {
        est_strbuf_clear(&path);
        return EST_OK;
    }
    if (status == EST_OK) status = inspect_names(est_strbuf_text(&path), is_time_stamp, &names);
    est_strbuf_clear(&path);
    EST_TRY(status);
    while (names[to->n] != NULL) to->n++;
    if (to->n > 0) {
        s->n_exports++;
        to->exporter = est_strdup(exporter);
        to->newest   = est_strdup(names[to->n - 1]);
        if (to->exporter == NULL || to->newest == NULL) {
            status = est_no_memory();
        }
    }
    inspect_names_free(names);
    return status;
}

static est_status find_exports(tail_standing *s, const char *dir)
{
    est_strbuf path  = { 0 };
    char     **names = NULL;
    int        n     = 0;
    est_status status;

    est_strbuf_printf(&path, "%s/export", dir);
    status = est_strbuf_status(&path);
    if (status == EST_OK && est_dir_exists(est_strbuf_text(&path))) {
        status = inspect_names(est_strbuf_text(&path), is_visible, &names);
        while (status == EST_OK && names[n] != NULL) n++;
        s->exports = est_zalloc((size_t)(n + 1) * sizeof *s->exports);
        if (s->exports == NULL) status = est_no_memory();
        for (int i = 0; i < n && status == EST_OK; i++) status = add_export(s, est_strbuf_text(&path), names[i]);
        inspect_names_free(names);
    }
    est_strbuf_clear(&path);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* Each part on its own: one that cannot be read does not hide the others. */
static void find_standing(tail_standing *s, const char *dir)
{
    note_failure(s, est_dir_lock_holder(dir, s->trainer, sizeof s->trainer));
    note_failure(s, find_end(s, dir));
    note_failure(s, find_latest(s, dir));
    note_failure(s, look_at_kept(s, dir));
    note_failure(s, find_scalars(s, dir));
    note_failure(s, find_exports(s, dir));
}

/* Nothing of a run is there, not even one that has just begun. */
static bool is_nothing(const tail_standing *s)
{
    int n_files = 0;

    for (int i = 0; i < s->n_scalars; i++) n_files += s->scalars[i].n_files;
    return s->trainer[0] == '\0' && !s->is_done && s->latest[0] == '\0' && s->state.n_paths == 0 && n_files == 0 &&
           s->n_exports == 0 && !s->is_damaged;
}

static void clear(tail_standing *s)
{
    est_checkpoint_state_clear(&s->state);
    est_free(s->kept_exist);
    for (int i = 0; i < s->n_scalars; i++) tail_scalars_clear(&s->scalars[i]);
    est_free(s->scalars);
    inspect_names_free(s->eval_names);
    for (int i = 0; i < s->n_exports; i++) {
        est_free(s->exports[i].exporter);
        est_free(s->exports[i].newest);
    }
    est_free(s->exports);
}

static tool_exit print(const tail_standing *s, const char *dir, bool json)
{
    double     now = est_wall_secs();
    est_status status;

    if (is_nothing(s)) {
        tool_note(&tool_tail,
                  "%s has no run: there is no trainer at work, no " DONE_NAME
                  ", checkpoint or model.ckpt-* file, no event "
                  "file in it or in eval*, and nothing in export",
                  dir);
        return TOOL_NO_FILE;
    }
    status = json ? tail_print_json(s, dir, now) : tail_print_text(s, dir, now);
    if (status != EST_OK) return tool_failed(&tool_tail, status);
    return s->is_damaged ? TOOL_FAILED : TOOL_OK;
}

static tool_exit tail_run(int argc, char **argv)
{
    tail_standing s = { .done_step = -1, .latest_step = -1 };
    bool          json;
    tool_exit     code = tool_read_common(&tool_tail, argc, argv, 1, "one model directory", &json);

    if (code == TOOL_OK) code = tool_check_input(&tool_tail, argv[optind]);
    if (code != TOOL_OK) return code;
    if (!est_dir_exists(argv[optind])) {
        tool_note(&tool_tail, "%s is not a directory; `estoc inspect` shows files", argv[optind]);
        return TOOL_NO_FILE;
    }
    find_standing(&s, argv[optind]);
    code = print(&s, argv[optind], json);
    clear(&s);
    return code;
}

const tool_command tool_tail = {
    .name      = "tail",
    .summary   = "show the state of a run: its step, losses, metrics, checkpoints, exports",
    .arguments = "[options] MODEL_DIR",
    .description =
        "Reads the files of a model directory, of Estoc or of TensorFlow's Estimator, and prints which process\n"
        "trains in it, whether training has ended, the latest and the kept checkpoints, the last value of every\n"
        "scalar of training and of each evaluation with its step and age, and the exports. Of each directory only\n"
        "the newest event file with scalars is read. Nothing is locked or written, so it is safe during a run.\n"
        "\n"
        "Damaged files are reported, the rest is shown, and the exit code is 1. A directory without a run is an\n"
        "error, exit code 3.\n",
    .options  = options,
    .examples = "  estoc tail runs/digits\n"
                "  watch -n 10 estoc tail runs/digits\n"
                "  estoc tail runs/digits --json\n",
    .takes    = TOOL_TAKES_DIRECTORIES,
    .run      = tail_run,
};
