/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run the built examples as a user would: starts one as a process, follows what it writes, sends it
 * signals, and keeps how it ended. Every test has a directory of its own, which is also its TMPDIR. */
#ifndef EST_TESTS_E2E_PROGRAM_H
#define EST_TESTS_E2E_PROGRAM_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "support/dir_test.h"
#include "support/test.h"

#define PROGRAM_DEADLINE_SECS 300 /* the system ends a run that takes longer, as one that hangs does */
#define FASHION_MNIST         "/usr/share/datasets/fashion-mnist"

static char program_dir[64]; /* made before every test, removed after it */

typedef struct program {
    pid_t  pid;
    int    n;    /* of the files with its output */
    int    code; /* exit code; 1000 + the signal that ended it */
    double secs; /* from start to end */
    char  *out, *err;
} program;

/* --- directories -------------------------------------------------------------------------------------------------- */

static inline int program_setup(void **state)
{
    (void)state;
    est_test_dir(program_dir);
    return setenv("TMPDIR", program_dir, 1);
}

static inline int program_teardown(void **state)
{
    (void)state;
    est_test_dir_remove(program_dir);
    return 0;
}

/* A path in the test's directory; good until eight more were asked for. */
static inline const char *program_path(const char *name)
{
    static char paths[8][256];
    static int  next;
    char       *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", program_dir, name);
    return path;
}

/* --- images ------------------------------------------------------------------------------------------------------- */

static inline void program_put(FILE *file, const uint8_t *bytes, size_t n)
{
    assert_int_equal(fwrite(bytes, 1, n, file), n);
}

/* Noise with a bright square whose place is the class: one of ten, nine on three lines and one in a corner. */
static inline void program_image(uint64_t *state, int class, uint8_t image[784])
{
    int top = class < 9 ? 3 + class / 3 * 8 : 0, left = class < 9 ? 3 + class % 3 * 8 : 22;

    for (int i = 0; i < 784; i++) {
        int  y = i / 28, x = i % 28;
        bool bright = y >= top && y < top + 6 && x >= left && x < left + 6;

        *state   = *state * 6364136223846793005u + 1442695040888963407u;
        image[i] = (uint8_t)((*state >> 33) % 160 + (bright ? 80 : 0));
    }
}

static inline void program_images_write(const char *which, int n)
{
    uint8_t  count[4] = { 0, 0, (uint8_t)(n >> 8), (uint8_t)n }, image[784];
    uint64_t state    = (uint64_t)n;
    char     name[64];
    FILE    *images, *labels;

    snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", which); /* the reader takes them unpacked, too */
    images = fopen(program_path(name), "wb");
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", which);
    labels = fopen(program_path(name), "wb");
    assert_true(images != NULL && labels != NULL);
    program_put(images, (const uint8_t[]){ 0, 0, 8, 3 }, 4);
    program_put(images, count, 4);
    program_put(images, (const uint8_t[]){ 0, 0, 0, 28, 0, 0, 0, 28 }, 8);
    program_put(labels, (const uint8_t[]){ 0, 0, 8, 1 }, 4);
    program_put(labels, count, 4);
    for (int i = 0; i < n; i++) {
        int class = i * 7 % 10;

        program_image(&state, class, image);
        program_put(images, image, sizeof image);
        program_put(labels, &(uint8_t){ (uint8_t) class }, 1);
    }
    assert_int_equal(fclose(images) | fclose(labels), 0);
}

/* A directory with generated images in the form of Fashion-MNIST, for what must run where there is no data set. */
static inline const char *program_images(void)
{
    program_images_write("train", 6000);
    program_images_write("t10k", 10000);
    return program_dir;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

#define PROGRAM_ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })

static inline void program_output(const program *p, const char *which, char path[96])
{
    snprintf(path, 96, "%s/program-%d.%s", program_dir, p->n, which);
}

static inline int program_open(const program *p, const char *which)
{
    char path[96];
    int  fd;

    program_output(p, which, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

/* Starts an example; argv[0] is its name. */
static inline program program_start(const char *const *argv)
{
    static int count;
    program    p   = { .n = count++, .secs = -(double)est_now_ns() / EST_NS_PER_SEC };
    int        out = program_open(&p, "out"), err = program_open(&p, "err");
    char       path[512];

    snprintf(path, sizeof path, EST_BUILD_DIR "/examples/%s", argv[0]);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        alarm(PROGRAM_DEADLINE_SECS);
        execv(path, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(out);
    close(err);
    return p;
}

static inline char *program_read(const program *p, const char *which)
{
    char   path[96];
    char  *text = NULL;
    size_t size;

    program_output(p, which, path);
    if (est_file_read(path, &text, &size) != EST_OK || text == NULL) fail_msg("%s: %s", path, est_error_message());
    return text;
}

/* Waits for its end and takes what it wrote. */
static inline void program_end(program *p)
{
    int status;

    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    p->secs += (double)est_now_ns() / EST_NS_PER_SEC;
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    p->out  = program_read(p, "out");
    p->err  = program_read(p, "err");
}

static inline void program_free(program *p)
{
    est_free(p->out);
    est_free(p->err);
}

/* Whether it has ended; it can still be waited for. */
static inline bool program_is_over(const program *p)
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == p->pid;
}

/* Follows its log until a text is there; fails when it ends without. */
static inline void program_wait_for(const program *p, const char *text)
{
    for (bool over = false, found = false; !found;) {
        char *log;

        over  = program_is_over(p); /* asked before reading: what it wrote last is then there */
        log   = program_read(p, "err");
        found = strstr(log, text) != NULL;
        if (over && !found) fail_msg("ended without \"%s\":\n%s", text, log);
        est_free(log);
        if (!found) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static inline program program_expect(int code, const char *const *argv)
{
    program p = program_start(argv);

    program_end(&p);
    if (p.code != code) fail_msg("%s: exit code %d, not %d:\n%s", argv[0], p.code, code, p.err);
    return p;
}

/* Runs an example to its end and checks the exit code: program p = PROGRAM(0, "xor"). */
#define PROGRAM(code, ...) program_expect(code, PROGRAM_ARGV(__VA_ARGS__))

/* Before the path of a program and its arguments: as chief, three workers, two parameter servers and an evaluator. */
#define PROGRAM_LAUNCH "../estoc", "launch", "--ps", "2", "--workers", "3", "--evaluator", "--"

/* --- what it wrote ------------------------------------------------------------------------------------------------ */

static inline void program_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in:\n%s", part, text);
}

static inline int program_count(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* The number after a text. */
static inline double program_number(const char *text, const char *before)
{
    const char *at = strstr(text, before);

    if (at == NULL) fail_msg("\"%s\" is not in:\n%s", before, text);
    return strtod(at + strlen(before), NULL);
}

/* How many exports are in a directory; each must have its saved_model.pb. */
static inline int program_exports(const char *dir)
{
    DIR           *handle = opendir(dir);
    struct dirent *item;
    int            n = 0;

    while (handle != NULL && (item = readdir(handle)) != NULL) {
        char path[512];

        if (item->d_name[0] < '0' || item->d_name[0] > '9') continue;
        snprintf(path, sizeof path, "%s/%s/saved_model.pb", dir, item->d_name);
        if (access(path, R_OK) != 0) fail_msg("%s: %s", path, strerror(errno));
        n++;
    }
    if (handle != NULL) closedir(handle);
    return n;
}

/* How many entries of the test's directory have names that begin with this. */
static inline int program_entries(const char *begin)
{
    DIR           *handle = opendir(program_dir);
    struct dirent *item;
    int            n = 0;

    while (handle != NULL && (item = readdir(handle)) != NULL) n += strncmp(item->d_name, begin, strlen(begin)) == 0;
    if (handle != NULL) closedir(handle);
    return n;
}

#endif
