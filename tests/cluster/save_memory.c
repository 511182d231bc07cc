/* SPDX-License-Identifier: Apache-2.0
 *
 * What saving costs a parameter server in memory, while nothing changes, while few rows do, and while more do than it
 * keeps; and that the checkpoint is of one moment in each case. The ps is a process of its own, whose disk hangs when
 * the test says so. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "estoc/estoc.h"
#include "format/bundle.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"
#include "support/nn_test.h"
#include "support/sanitized.h"

#define DEADLINE_SECS 60
#define WIDTH         16
#define ROWS          INT64_C(1500000) /* of 64 bytes, in the table and in its slot */
#define TABLES_BYTES  (2 * ROWS * WIDTH * (int64_t)sizeof(float))
#define BUFFER_BYTES  (TABLES_BYTES / 10) /* docs/cluster.md */
#define REST_BYTES    (INT64_C(8) << 20)  /* a piece of 1 MiB, marks of 1/512, a stack, messages of 2.4 MB */
#define MANY          INT64_C(300000) /* rows of a run: more than are kept of one table; a line of 64 bytes takes 72 */

/* --- the parameter server ----------------------------------------------------------------------------------------- */

static char hang_path[128], hung_path[128]; /* of a ps: its disk hangs while there is the one, and makes the other */

/* In place of the C library's. */
ssize_t write(int fd, const void *bytes, size_t size)
{
    if (hang_path[0] != '\0' && est_file_exists(hang_path) && est_test_is_open(fd, ".part0")) {
        int made = open(hung_path, O_CREAT | O_WRONLY, 0600);

        if (made >= 0) close(made);
        while (est_file_exists(hang_path)) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    return (ssize_t)syscall(SYS_write, fd, bytes, size);
}

static est_cluster *cluster_of(const char *address)
{
    est_cluster *made;

    assert_ok(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { &address, 1 } } }, 1 },
                                 &made));
    return made;
}

/* argv: the model directory, the address, the folder of the test. */
static int run_ps(int argc, char **argv)
{
    est_cluster *tasks  = cluster_of(argv[1]);
    est_server  *server = NULL;
    est_status   status;

    (void)argc;
    snprintf(hang_path, sizeof hang_path, "%s/hang", argv[2]);
    snprintf(hung_path, sizeof hung_path, "%s/hung", argv[2]);
    status = est_server_create(tasks, "ps", 0, EST_SERVER(.transport = "tcp", .threads = 1), &server);
    if (status == EST_OK) status = est_server_join(server);
    est_server_free(server);
    est_cluster_free(tasks);
    return status == EST_OK ? 0 : 1;
}

/* --- its memory --------------------------------------------------------------------------------------------------- */

/* A line of /proc/<pid>/status, in bytes. */
static int64_t memory(const cluster_task *ps, const char *what)
{
    char      path[64], line[128];
    long long kilobytes = -1;
    FILE     *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)ps->pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (kilobytes < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, what, strlen(what)) == 0)
            assert_int_equal(sscanf(line + strlen(what), ": %lld", &kilobytes), 1);
    }
    fclose(file);
    assert_true(kilobytes >= 0);
    return (int64_t)kilobytes << 10;
}

/* The most that it has had is what it has from now on. */
static int64_t begin_measuring(const cluster_task *ps)
{
    char  path[64];
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/clear_refs", (int)ps->pid);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("5", file) > 0);
    assert_int_equal(fclose(file), 0);
    return memory(ps, "VmRSS");
}

/* Sanitizers have memory of their own beside all of it. */
static void expect_at_most(const cluster_task *ps, int64_t before, int64_t more, const char *when)
{
    int64_t most = memory(ps, "VmHWM");

    if (most > before + more && !EST_TEST_SANITIZED) {
        fail_msg("%s: %lld MB became %lld, more than %lld were not expected", when, (long long)before >> 20,
                 (long long)most >> 20, (long long)(before + more) >> 20);
    }
}

/* --- clients of it ------------------------------------------------------------------------------------------------ */

/* Adds 1 to rows of a table and of its slot. */
typedef struct client {
    est_server  *server;
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     ids, train;
    est_step    *step;
} client;

static client make_client(const est_cluster *tasks, bool is_chief)
{
    client   c = { 0 };
    est_node table, slot, one, first;

    assert_ok(
        est_server_create(tasks, NULL, 0, EST_SERVER(.transport = "tcp", .threads = 1, .job = "test"), &c.server));
    assert_ok(est_remote_create(c.server, EST_REMOTE(.type = "*", .is_chief = is_chief, .connect_secs = DEADLINE_SECS),
                                &c.remote));
    assert_ok(est_graph_create(5, &c.graph));
    table   = est_weight(c.graph, "table", EST_SHAPE(ROWS, WIDTH), EST_WEIGHT(.initializer = est_init_zeros()));
    slot    = est_weight(c.graph, "slot", EST_SHAPE(ROWS, WIDTH), EST_WEIGHT(.initializer = est_init_zeros()));
    c.ids   = est_placeholder(c.graph, "ids", EST_I64, EST_SHAPE(-1));
    one     = est_scalar(c.graph, EST_F32, 1);
    first   = est_scatter_add(table, c.ids, one);
    c.train = est_after(est_scatter_add(slot, c.ids, one), first);
    assert_ok(est_graph_status(c.graph));
    assert_ok(est_session_create(c.graph, EST_SESSION(.threads = 1, .remote = c.remote), &c.session));
    if (is_chief) {
        assert_ok(est_session_init(c.session));
        assert_ok(est_remote_declare_ready(c.remote));
    }
    assert_ok(est_session_prepare(c.session, EST_NODES(c.ids), (est_nodes){ 0 }, EST_NODES(c.train), &c.step));
    return c;
}

static void free_client(client *c)
{
    est_step_free(c->step);
    est_session_free(c->session);
    est_remote_free(c->remote);
    est_server_free(c->server);
    est_graph_free(c->graph);
}

/* Rows first, first + every, ... below `end`. */
typedef struct update {
    client    *by;
    float     *want; /* [ROWS] */
    int64_t    first, end, every;
    est_status status;
} update;

static void *run_update(void *arg)
{
    update     *u = arg;
    int64_t     n = (u->end - u->first + u->every - 1) / u->every;
    est_tensor *ids;

    u->status = est_tensor_create(EST_I64, EST_SHAPE(n), &ids);
    if (u->status != EST_OK) return NULL;
    for (int64_t i = 0; i < n; i++) {
        ((int64_t *)est_tensor_mutable_data(ids))[i] = u->first + i * u->every;
        u->want[u->first + i * u->every] += 1;
    }
    u->status = est_step_run(u->by->step, (const est_tensor *[]){ ids });
    est_tensor_free(ids);
    return NULL;
}

static void update_rows(client *by, float *want, int64_t first, int64_t end, int64_t every)
{
    update u = { by, want, first, end, every, EST_OK };

    (void)run_update(&u);
    assert_ok(u.status);
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

typedef struct saving {
    pthread_t    thread;
    est_saver   *saver;
    est_session *session;
    int64_t      step;
    est_status   status;
    char         path[EST_CHECKPOINT_PATH_MAX];
} saving;

static void *run_saving(void *arg)
{
    saving *s = arg;

    s->status = est_saver_save(s->saver, s->session, s->step++, NULL, s->path);
    return NULL;
}

static void await(bool (*is_so)(const char *path), const char *path)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * EST_NS_PER_SEC;

    while (!is_so(path)) {
        if (est_machine_ns() > until) fail_msg("%s: nothing has happened for %d s", path, DEADLINE_SECS);
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* A save whose disk hangs at the first byte: the snapshot is taken, and all of it is still to be written. */
static void begin_saving(saving *s, const cluster *c)
{
    char hang[128], hung[128];

    snprintf(hang, sizeof hang, "%s/hang", c->dir);
    snprintf(hung, sizeof hung, "%s/hung", c->dir);
    (void)unlink(hung);
    assert_ok(est_file_create(hang, "", 0));
    assert_int_equal(pthread_create(&s->thread, NULL, run_saving, s), 0);
    await(est_file_exists, hung);
}

static void let_disk_go(const cluster *c)
{
    char hang[128];

    snprintf(hang, sizeof hang, "%s/hang", c->dir);
    assert_int_equal(unlink(hang), 0);
}

static void end_saving(saving *s)
{
    pthread_join(s->thread, NULL);
    assert_ok(s->status);
}

/* As /proc/<pid>/task/<thread>/stat says. */
static bool thread_sleeps(const cluster_task *ps, int thread)
{
    char        path[64], line[256];
    const char *name_end = NULL;
    FILE       *file;

    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)ps->pid, thread);
    file = fopen(path, "r");
    if (file == NULL) return true; /* it has ended */
    if (fgets(line, sizeof line, file) != NULL) name_end = strrchr(line, ')');
    fclose(file);
    return name_end == NULL || name_end[2] == 'S';
}

static bool all_threads_sleep(const cluster_task *ps)
{
    bool           sleep = true;
    char           path[64];
    struct dirent *entry;
    DIR           *dir;

    snprintf(path, sizeof path, "/proc/%d/task", (int)ps->pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        int thread = (int)strtol(entry->d_name, NULL, 10);

        if (thread > 0 && !thread_sleeps(ps, thread)) sleep = false;
    }
    closedir(dir);
    return sleep;
}

/* The disk hangs and an update changes more than is kept. Once most of the buffer is in use one thread does nothing but
 * fill the rest, so it sleeps only when it waits for the reader. */
static void await_full_buffer(const cluster_task *ps, int64_t before)
{
    int64_t until = est_machine_ns() + DEADLINE_SECS * EST_NS_PER_SEC;

    while (memory(ps, "VmRSS") < before + BUFFER_BYTES / 4 * 3 || !all_threads_sleep(ps)) {
        if (est_machine_ns() > until) {
            fail_msg("the update does not wait after %d s: %lld MB were kept, room is for %lld", DEADLINE_SECS,
                     (long long)(memory(ps, "VmRSS") - before) >> 20, (long long)BUFFER_BYTES >> 20);
        }
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
}

/* Both tables of the checkpoint are `want`, as they were when it was asked for. */
static void expect_saved(const saving *s, const float *want)
{
    static const char *const names[] = { "table", "slot" };
    est_bundle              *bundle;

    assert_ok(est_bundle_open(s->path, &bundle));
    for (int k = 0; k < 2; k++) {
        est_tensor  *value;
        const float *x;

        assert_ok(est_bundle_read(bundle, names[k], NULL, &value));
        x = est_tensor_data(value);
        for (int64_t i = 0; i < ROWS * WIDTH; i++) {
            if (x[i] != want[i / WIDTH])
                fail_msg("row %lld of '%s' is of another moment", (long long)(i / WIDTH), names[k]);
        }
        est_tensor_free(value);
    }
    est_bundle_close(bundle);
}

TEST(memory)
{
    cluster       c    = cluster_make(0, 0, 1, 0);
    cluster_task *ps   = cluster_find(&c, "ps", 0);
    est_cluster  *all  = cluster_of(ps->address);
    float        *want = calloc((size_t)ROWS, sizeof *want), *then = calloc((size_t)ROWS, sizeof *then);
    client        chief, worker;
    update        many;
    pthread_t     updater;
    saving        s = { 0 };
    int64_t       before;

    assert_true(want != NULL && then != NULL);
    CLUSTER_SET(&c, ps->address, c.dir);
    cluster_start(&c, ps);
    chief  = make_client(all, true);
    worker = make_client(all, false);
    assert_ok(est_saver_create(c.dir, NULL, &s.saver));
    s.session = chief.session;
    for (int64_t i = 0; i < ROWS; i += MANY) update_rows(&worker, want, i, i + MANY < ROWS ? i + MANY : ROWS, 1);

    before = begin_measuring(ps);
    assert_true(before > TABLES_BYTES);
    (void)run_saving(&s);
    assert_ok(s.status);
    expect_at_most(ps, before, REST_BYTES, "nothing changes");
    expect_saved(&s, want);

    memcpy(then, want, (size_t)ROWS * sizeof *then);
    before = begin_measuring(ps);
    begin_saving(&s, &c);
    update_rows(&worker, want, 0, ROWS, 20); /* nobody waits: a row in 20 takes 0.05 * 72 / 64 of the tables */
    update_rows(&worker, want, 0, ROWS, 20);
    let_disk_go(&c);
    end_saving(&s);
    expect_at_most(ps, before, TABLES_BYTES / 10, "a row in 20 changes");
    expect_saved(&s, then);
    assert_int_equal(cluster_count_log(ps, "waited"), 0);

    memcpy(then, want, (size_t)ROWS * sizeof *then);
    before = begin_measuring(ps);
    begin_saving(&s, &c);
    many = (update){ &worker, want, 5, 5 + MANY, 1, EST_OK };
    assert_int_equal(pthread_create(&updater, NULL, run_update, &many), 0);
    await_full_buffer(ps, before);
    let_disk_go(&c);
    pthread_join(updater, NULL);
    assert_ok(many.status);
    end_saving(&s);
    expect_at_most(ps, before, BUFFER_BYTES + REST_BYTES, "more rows change than are kept");
    expect_saved(&s, then);
    cluster_wait_log(&c, ps,
                     "s until its part of a checkpoint was written: updates touched more than the 19 MB that are", 1);
    assert_int_equal(cluster_count_log(ps, "waited"), 1);

    assert_ok(est_remote_end_job(chief.remote));
    free_client(&worker);
    free_client(&chief);
    cluster_wait_all(&c, DEADLINE_SECS);
    est_saver_free(s.saver);
    est_cluster_free(all);
    free(want);
    free(then);
    cluster_free(&c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_ps);
    return est_test_run(NULL, NULL);
}
