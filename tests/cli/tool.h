/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the estoc tool: starts the built program as a user would and keeps what it wrote and how it ended; a
 * temporary directory for its files. EST_TOOL is the path of the program. */
#ifndef EST_TESTS_CLI_TOOL_H
#define EST_TESTS_CLI_TOOL_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "support/dir_test.h"
#include "support/test.h"

#define TOOL_DEADLINE_SECS 60 /* the system ends a run that takes longer */
#define TOOL_NOBODY        65534

typedef struct tool_run {
    int    code; /* exit code; 1000 + the signal that ended it */
    char  *out;
    char  *err;
    size_t out_size;
} tool_run;

static bool tool_as_nobody; /* root runs the tool as a user who may not read everything */

/* --- files -------------------------------------------------------------------------------------------------------- */

/* A path in the temporary directory; good until eight more were asked for. */
static inline const char *tool_path(const char *name)
{
    static char paths[8][256];
    static int  next;
    char       *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", est_test_root, name);
    return path;
}

static inline void tool_check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static inline void tool_put(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    tool_check(est_file_write_all(fd, path, bytes, size));
    assert_int_equal(close(fd), 0);
}

static inline const char *tool_write_file(const char *name, const void *bytes, size_t size)
{
    const char *path = tool_path(name);

    tool_put(path, bytes, size);
    return path;
}

static inline const char *tool_write_text(const char *name, const char *text)
{
    return tool_write_file(name, text, strlen(text));
}

/* Not inline: gcc 12 would take what callers find in the bytes for pointers to the local variable. */
__attribute__((noinline, unused)) static char *tool_read_file(const char *path, size_t *size)
{
    char  *bytes = NULL;
    size_t n     = 0;

    tool_check(est_file_read(path, &bytes, &n));
    if (bytes == NULL) abort();
    if (size != NULL) *size = n;
    return bytes;
}

/* How many files are in the temporary directory whose names begin like this. */
static inline int tool_count_files(const char *beginning)
{
    DIR           *handle = opendir(est_test_root);
    struct dirent *item;
    int            n = 0;

    assert_non_null(handle);
    while ((item = readdir(handle)) != NULL) n += strncmp(item->d_name, beginning, strlen(beginning)) == 0;
    closedir(handle);
    return n;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static inline int tool_open_new(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

/* Becomes the tool, as nobody when that is wanted: then its file is opened before, for nobody may have no way to it. */
static inline void tool_exec(const char *const *argv)
{
    int program = open(EST_TOOL, O_RDONLY | O_CLOEXEC);

    alarm(TOOL_DEADLINE_SECS);
    if (!tool_as_nobody || getuid() != 0) {
        execv(EST_TOOL, (char *const *)(uintptr_t)argv);
    } else if (setgid(TOOL_NOBODY) == 0 && setuid(TOOL_NOBODY) == 0) {
        fexecve(program, (char *const *)(uintptr_t)argv, environ);
    }
    _exit(127);
}

/* Runs the tool with these arguments. Standard output goes to out_fd, which is left open, or is kept when it is -1. */
static inline tool_run tool_start(const char *const *argv, int out_fd)
{
    char     out_path[80], err_path[80];
    int      status, out, err;
    pid_t    child;
    tool_run run = { 0 };

    snprintf(out_path, sizeof out_path, "%s.out", est_test_root);
    snprintf(err_path, sizeof err_path, "%s.err", est_test_root);
    out   = tool_open_new(out_path);
    err   = tool_open_new(err_path);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(out_fd >= 0 ? out_fd : out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        tool_exec(argv);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    close(out);
    close(err);
    run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    run.out  = tool_read_file(out_path, &run.out_size);
    run.err  = tool_read_file(err_path, NULL);
    unlink(out_path);
    unlink(err_path);
    return run;
}

static inline void tool_run_free(tool_run *run)
{
    est_free(run->out);
    est_free(run->err);
}

#define TOOL_ARGV(...) ((const char *const[]){ "estoc", __VA_ARGS__, NULL })

/* Runs it and checks the exit code; messages are shown when it is another. */
#define TOOL(expected, ...) tool_expect(expected, TOOL_ARGV(__VA_ARGS__))

static inline tool_run tool_expect(int expected, const char *const *argv)
{
    tool_run run  = tool_start(argv, -1);
    size_t   size = strlen(run.err);

    /* of a long text the end, which is where the reason is */
    if (run.code != expected)
        fail_msg("exit code %d, not %d: %s", run.code, expected, run.err + (size > 900 ? size - 900 : 0));
    return run;
}

/* --- what it wrote ------------------------------------------------------------------------------------------------ */

static inline void tool_expect_text(const char *got, const char *want, const char *what)
{
    if (strcmp(got, want) != 0) fail_msg("%s is:\n%s\nand should be:\n%s", what, got, want);
}

static inline void tool_expect_part(const char *got, const char *part, const char *what)
{
    if (strstr(got, part) == NULL) fail_msg("%s is:\n%s\nwhich lacks: %s", what, got, part);
}

/* Exit code, exact standard output, and a part of standard error ("": nothing there). */
#define TOOL_OUT(expected, out, err_part, ...) tool_expect_both(TOOL(expected, __VA_ARGS__), out, err_part)

static inline void tool_expect_both(tool_run run, const char *out, const char *err_part)
{
    tool_expect_text(run.out, out, "standard output");
    if (err_part[0] == '\0') {
        tool_expect_text(run.err, "", "standard error");
    } else {
        tool_expect_part(run.err, err_part, "standard error");
    }
    tool_run_free(&run);
}

/* Every line of standard output is JSON; returns how many there are. */
static inline int tool_json_lines(const char *out)
{
    int n = 0;

    for (const char *at = out; *at != '\0'; n++) {
        size_t    size = strcspn(at, "\n");
        est_json *value;

        tool_check(est_json_parse(at, size, "a line of output", &value));
        est_json_free(value);
        assert_int_equal(at[size], '\n');
        at += size + 1;
    }
    return n;
}

/* All of standard output is one JSON value, which is the caller's. */
static inline est_json *tool_json(const char *out)
{
    est_json *value = NULL;

    tool_check(est_json_parse(out, strlen(out), "the output", &value));
    return value;
}

/* Runs the tool on each version of a file with one byte changed; `argv` names it. The exit code must be 0 or 1. Returns
 * how many were 0. */
static inline int tool_flip_bytes(const char *path, const char *const *argv)
{
    size_t size;
    char  *bytes    = tool_read_file(path, &size);
    int    accepted = 0;

    for (size_t i = 0; i < size; i++) {
        tool_run run;

        bytes[i] ^= 0x55;
        tool_put(path, bytes, size);
        bytes[i] ^= 0x55;
        run = tool_start(argv, -1);
        if (run.code != 0 && run.code != 1) fail_msg("byte %zu: exit code %d: %s", i, run.code, run.err);
        if (run.code == 1 && run.err[0] == '\0') fail_msg("byte %zu: no message", i);
        accepted += run.code == 0;
        tool_run_free(&run);
    }
    tool_put(path, bytes, size);
    est_free(bytes);
    return accepted;
}

#endif
