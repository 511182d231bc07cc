/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a gigabyte of variables is saved and restored, and the limits of both: one question a run, answered in turns
 * (bench/support/turns.h).
 *
 *   input_checkpoint QUESTION [--folder FOLDER] [--threads N] [--turns N] [--variables N]
 *
 *   save            est_saver_save, which returns when the checkpoint is on disk
 *   restore         est_saver_restore of files that the system has in memory
 *   restore_cold    the same of files that it has not
 *   disk_write      as many bytes written to one file and synced
 *   disk_read       as many bytes read from a file that the system has not in memory
 *   copy_read       the same of one that it has
 *   crc             the checksum of as many bytes in memory, on one core
 *
 * Files are made in FOLDER/<question> and removed at the end. Variables have 64 MiB each (16 of them unless said). */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "estoc/estoc.h"
#include "estoc/saver.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/turns.h"

#define VARIABLE_BYTES ((size_t)64 << 20)
#define CHUNK          ((size_t)1 << 20)
#define VARIABLES_MAX  256

typedef struct job {
    const char  *question;
    char         folder[512], file[600];
    int          threads, turns, n_variables;
    bool         cold;
    char        *bytes; /* VARIABLE_BYTES that are no zeros, for what knows no variables */
    est_graph   *graph;
    est_session *session;
    est_saver   *saver;
    int64_t      step;
} job;

static void fail(const char *path)
{
    perror(path);
    exit(1);
}

static double total_bytes(const job *j)
{
    return (double)j->n_variables * (double)VARIABLE_BYTES;
}

/* For every file of the folder: on disk, and no longer in memory. */
static void forget_files(const job *j)
{
    char   pattern[600];
    glob_t found;

    (void)snprintf(pattern, sizeof pattern, "%s/*", j->folder);
    if (glob(pattern, 0, NULL, &found) != 0) fail(pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int fd = open(found.gl_pathv[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) fail(found.gl_pathv[i]);
        (void)close(fd);
    }
    globfree(&found);
}

static void remove_files(const job *j)
{
    char   pattern[600];
    glob_t found;

    (void)snprintf(pattern, sizeof pattern, "%s/*", j->folder);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) (void)unlink(found.gl_pathv[i]);
        globfree(&found);
    }
    (void)rmdir(j->folder);
}

/* --- Estoc -------------------------------------------------------------------------------------------------------- */

static void open_session(job *j)
{
    est_shape shape = EST_SHAPE((int64_t)(VARIABLE_BYTES / sizeof(float) / 1024), 1024);
    char      name[32];

    bench_check(est_graph_create(1, &j->graph));
    for (int i = 0; i < j->n_variables; i++) {
        est_node v;
        (void)snprintf(name, sizeof name, "table_%02d", i);
        v = est_variable(j->graph, name, EST_F32, shape);
        est_variable_initializer(v, est_initial_value(est_init_constant(0.5 + i), j->graph, EST_F32, shape));
    }
    bench_check(est_session_create(j->graph, EST_SESSION(.threads = j->threads), &j->session));
    bench_check(est_saver_create(j->folder, EST_SAVER(.keep_max = 1), &j->saver));
}

static void open_save(job *j)
{
    open_session(j);
    bench_check(est_session_init(j->session));
}

static bench_turn save(void *arg)
{
    job   *j     = arg;
    double start = bench_now_secs();

    bench_check(est_saver_save(j->saver, j->session, ++j->step, NULL, NULL));
    return (bench_turn){ total_bytes(j), bench_now_secs() - start, 0 };
}

/* The session of a program that has just started: the variables have no values yet. */
static void open_restore(job *j)
{
    open_save(j);
    (void)save(j);
    est_session_free(j->session);
    j->session = NULL;
}

static bench_turn restore(void *arg)
{
    job   *j = arg;
    double start;

    if (j->cold) forget_files(j);
    est_session_free(j->session);
    bench_check(est_session_create(j->graph, EST_SESSION(.threads = j->threads), &j->session));
    start = bench_now_secs();
    bench_check(est_saver_restore(j->saver, j->session, NULL, NULL));
    return (bench_turn){ total_bytes(j), bench_now_secs() - start, 0 };
}

/* --- the limits --------------------------------------------------------------------------------------------------- */

static void open_bytes(job *j)
{
    j->bytes = malloc(VARIABLE_BYTES);
    if (j->bytes == NULL) fail("64 MiB");
    for (size_t i = 0; i < VARIABLE_BYTES; i++) j->bytes[i] = (char)(i * 2654435761u >> 13);
}

/* The file of before goes when the new one is there, as a checkpoint does: a disk may take longer for new blocks. */
static bench_turn disk_write(void *arg)
{
    job   *j = arg;
    double start, secs;
    char   old[sizeof j->file];
    int    fd;

    memcpy(old, j->file, sizeof old);
    (void)snprintf(j->file, sizeof j->file, "%s/bytes-%d", j->folder, (int)++j->step);
    start = bench_now_secs();
    fd    = open(j->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) fail(j->file);
    for (int i = 0; i < j->n_variables; i++) {
        for (size_t at = 0; at < VARIABLE_BYTES; at += CHUNK) {
            bench_check(est_file_write_all(fd, j->file, j->bytes + at, CHUNK));
        }
    }
    if (fsync(fd) != 0 || close(fd) != 0) fail(j->file);
    secs = bench_now_secs() - start;
    if (old[0] != '\0') (void)unlink(old);
    return (bench_turn){ total_bytes(j), secs, 0 };
}

static void open_read(job *j)
{
    open_bytes(j);
    (void)disk_write(j);
}

/* Into new memory as a session has it, since a restore has to. */
static bench_turn disk_read(void *arg)
{
    job   *j = arg;
    char  *tables[VARIABLES_MAX];
    double start, secs;
    int    fd;

    if (j->cold) forget_files(j);
    start = bench_now_secs();
    fd    = open(j->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(j->file);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (int i = 0; i < j->n_variables; i++) {
        tables[i] = est_alloc_aligned(VARIABLE_BYTES);
        if (tables[i] == NULL) fail("64 MiB");
        for (size_t at = 0; at < VARIABLE_BYTES; at += CHUNK) {
            if (read(fd, tables[i] + at, CHUNK) != (ssize_t)CHUNK) fail(j->file);
        }
    }
    (void)close(fd);
    secs = bench_now_secs() - start;
    for (int i = 0; i < j->n_variables; i++) est_free_aligned(tables[i]);
    return (bench_turn){ total_bytes(j), secs, 0 };
}

static bench_turn crc(void *arg)
{
    const job               *j     = arg;
    double                   start = bench_now_secs();
    static volatile uint32_t sink;

    for (int i = 0; i < j->n_variables; i++) sink = est_crc32c_extend(sink, j->bytes, VARIABLE_BYTES);
    return (bench_turn){ total_bytes(j), bench_now_secs() - start, 0 };
}

/* --- choosing ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*open)(job *j);
    bench_turn_fn run;
    bool          cold;
} questions[] = {
    { "save", open_save, save, false },
    { "restore", open_restore, restore, false },
    { "restore_cold", open_restore, restore, true },
    { "disk_write", open_bytes, disk_write, false },
    { "disk_read", open_read, disk_read, true },
    { "copy_read", open_read, disk_read, false },
    { "crc", open_bytes, crc, false },
};

static job parse_options(int argc, char **argv)
{
    job         j      = { .question = argc > 1 ? argv[1] : "", .threads = 1, .turns = 5, .n_variables = 16 };
    const char *folder = "build/input";

    BENCH_OPTIONS(argc, argv, 2, { "--folder", BENCH_TO(&folder) }, { "--threads", BENCH_TO(&j.threads) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--variables", BENCH_TO(&j.n_variables) });
    if (j.n_variables < 1 || j.n_variables > VARIABLES_MAX) {
        (void)fprintf(stderr, "input_checkpoint: 1 to %d variables\n", VARIABLES_MAX);
        exit(2);
    }
    (void)snprintf(j.folder, sizeof j.folder, "%s/%s", folder, j.question);
    return j;
}

int main(int argc, char **argv)
{
    job j = parse_options(argc, argv);

    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (strcmp(j.question, questions[i].name) != 0) continue;
        j.cold = questions[i].cold;
        bench_check(est_dir_create(j.folder));
        questions[i].open(&j);
        bench_take_turns(questions[i].run, &j, j.turns);
        est_saver_free(j.saver);
        est_session_free(j.session);
        est_graph_free(j.graph);
        free(j.bytes);
        remove_files(&j);
        return 0;
    }
    (void)fprintf(stderr, "input_checkpoint: no question \"%s\"; the top of bench/input_checkpoint.c lists them\n",
                  j.question);
    return 2;
}
