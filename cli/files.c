/* SPDX-License-Identifier: Apache-2.0
 *
 * Files under temporary names, and signals that remove them. */
#include "files.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "output.h"

#define SHARDS_MAX 10000

/* --- signals ------------------------------------------------------------------------------------------------------ */

static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP };

#define N_STOP_SIGNALS ((int)(sizeof stop_signals / sizeof stop_signals[0]))

/* What a signal has to remove and say; changed only before signals are caught and while they are blocked. */
static const tool_file *temporaries;
static int              n_temporaries;
static char             stop_text[80];

/* Removes the temporary files, wherever the command is, and ends the process as the signal would have. */
static void stop(int signal_number)
{
    for (int i = 0; i < n_temporaries; i++) {
        if (temporaries[i].temp != NULL) unlink(temporaries[i].temp);
    }
    if (n_temporaries > 0) (void)!write(STDERR_FILENO, stop_text, strlen(stop_text)); /* best effort */
    raise(signal_number); /* its old action is back; it comes when this function returns */
}

void tool_files_catch_signals(const tool_files *files, const tool_command *command, bool progress)
{
    struct sigaction action = { .sa_handler = stop, .sa_flags = (int)SA_RESETHAND }, old;

    temporaries   = files->list;
    n_temporaries = files->n;
    snprintf(stop_text, sizeof stop_text, "%sestoc %s: stopped; nothing was written\n", progress ? "\n" : "",
             command->name);
    for (int i = 0; i < N_STOP_SIGNALS; i++) sigaddset(&action.sa_mask, stop_signals[i]);
    for (int i = 0; i < N_STOP_SIGNALS; i++) {
        if (sigaction(stop_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            sigaction(stop_signals[i], &action, NULL);
        }
    }
}

/* SIG_BLOCK: signals wait until SIG_UNBLOCK. */
static void hold_signals(int how)
{
    sigset_t set;

    sigemptyset(&set);
    for (int i = 0; i < N_STOP_SIGNALS; i++) sigaddset(&set, stop_signals[i]);
    pthread_sigmask(how, &set, NULL);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

bool tool_has_ending(const char *path, const char *ending)
{
    size_t size = strlen(path), n = strlen(ending);

    if (size > 3 && strcmp(path + size - 3, ".gz") == 0) size -= 3;
    return size >= n && memcmp(path + size - n, ending, n) == 0;
}

bool tool_shards(const tool_command *command, const char *value, int64_t *out)
{
    if (!tool_count(command, "shards", value, out)) return false;
    if (*out >= 1 && *out <= SHARDS_MAX) return true;
    tool_usage(command, "--shards takes a number from 1 to %d, not %s", SHARDS_MAX, value);
    return false;
}

/* Where the ending of a name begins that stays behind the number of a shard. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash : path;
    const char *ending = strstr(name, ".tfrecord");

    if (ending == NULL) ending = strstr(name, ".csv");
    return ending != NULL ? ending : path + strlen(path);
}

/* "a/train.tfrecord" to "a/train-00003-of-00010.tfrecord". */
static est_status shard_path(const char *path, int i, int64_t n_shards, char **out)
{
    const char *ending = ending_of(path);
    est_strbuf  text   = { 0 };

    if (n_shards == 0) {
        est_strbuf_append(&text, path);
    } else {
        est_strbuf_printf(&text, "%.*s-%05d-of-%05d%s", (int)(ending - path), path, i, (int)n_shards, ending);
    }
    return est_strbuf_take(&text, out);
}

static bool is_same_file(const struct stat *a, const char *b)
{
    struct stat info;

    return stat(b, &info) == 0 && a->st_dev == info.st_dev && a->st_ino == info.st_ino;
}

/* Makes sure that what is at *path may be replaced. A symbolic link is followed, so that its target is replaced. */
static est_status check_output(char **path, char *const *inputs, int n_inputs)
{
    struct stat info, target;
    char       *real;

    if (lstat(*path, &info) != 0) return EST_OK; /* not there; any other reason creating the file will tell */
    if (stat(*path, &target) != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: is a symbolic link to nothing; remove it, or name its target",
                        *path);
    }
    if (!S_ISREG(target.st_mode)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: exists and is not a regular file; name another output", *path);
    }
    for (int i = 0; i < n_inputs; i++) {
        if (is_same_file(&target, inputs[i])) {
            return est_fail(EST_INVALID_ARGUMENT, "%s is both input and output; name another output", *path);
        }
    }
    if (!S_ISLNK(info.st_mode)) return EST_OK;
    real = realpath(*path, NULL);
    if (real == NULL) {
        return est_fail(est_status_from_errno(errno), "%s: cannot resolve the symbolic link: %s", *path,
                        strerror(errno));
    }
    est_free(*path);
    *path = est_strdup(real);
    free(real); /* not est_free: it came from the C library */
    return *path != NULL ? EST_OK : est_no_memory();
}

est_status tool_files_name(tool_files *files, const char *path, int64_t n_shards, char *const *inputs, int n_inputs)
{
    int n = n_shards > 0 ? (int)n_shards : 1;

    files->list = est_zalloc((size_t)n * sizeof *files->list);
    if (files->list == NULL) return est_no_memory();
    while (files->n < n) {
        tool_file *file = &files->list[files->n++]; /* counted first, so that it is freed on failure */

        EST_TRY(shard_path(path, files->n - 1, n_shards, &file->path));
        EST_TRY(check_output(&file->path, inputs, n_inputs));
        EST_TRY(est_file_temp_name(file->path, &file->temp));
    }
    return EST_OK;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static est_status rename_all(tool_files *files)
{
    for (int i = 0; i < files->n; i++) {
        EST_TRY(est_file_commit(files->list[i].temp, files->list[i].path));
        est_free(files->list[i].temp);
        files->list[i].temp = NULL;
    }
    return EST_OK;
}

est_status tool_files_commit(tool_files *files)
{
    est_status status;

    hold_signals(SIG_BLOCK);
    status = rename_all(files);
    if (status == EST_OK) n_temporaries = 0;
    hold_signals(SIG_UNBLOCK);
    return status;
}

void tool_files_close(tool_files *files)
{
    hold_signals(SIG_BLOCK);
    for (int i = 0; i < files->n; i++) {
        tool_file *file = &files->list[i];

        if (file->temp != NULL) unlink(file->temp);
        est_free(file->temp);
        est_free(file->path);
    }
    est_free(files->list);
    *files        = (tool_files){ 0 };
    n_temporaries = 0;
    hold_signals(SIG_UNBLOCK);
}

void tool_files_append_text(const tool_files *files, est_strbuf *out)
{
    if (files->n > 1) est_strbuf_printf(out, "%d files, the first is ", files->n);
    est_strbuf_append(out, files->list[0].path);
}

void tool_files_append_json(const tool_files *files, est_strbuf *out)
{
    est_strbuf_append(out, "[");
    for (int i = 0; i < files->n; i++) {
        if (i > 0) est_strbuf_append(out, ", ");
        tool_append_json_text(out, files->list[i].path);
    }
    est_strbuf_append(out, "]");
}
