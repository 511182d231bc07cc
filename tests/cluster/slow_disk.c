/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter server whose disk hangs. When it is told to end it says what it still writes and for whom, waits for
 * minutes, and ends then, even if an update waits for the writer; what the writer needs stays until it is done. When
 * whoever asked for the checkpoint is lost, nobody waits for it any more. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cluster/remote_internal.h"
#include "cluster/service_files.h"
#include "estoc/estoc.h"
#include "support/estimator_test.h"
#include "support/log_test.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define DEADLINE_SECS 60

/* --- a disk that hangs -------------------------------------------------------------------------------------------- */

enum { NOWHERE, AT_WRITE, AT_SYNC };

static struct {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t  changed;
    int             hangs; /* where: one of these */
    bool            hung;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void set_hanging(int where)
{
    pthread_mutex_lock(&disk.lock);
    disk.hangs = where;
    disk.hung  = false;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_hanging(void)
{
    pthread_mutex_lock(&disk.lock);
    while (!disk.hung) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

static void hang(int fd, int where)
{
    bool part = est_test_is_open(fd, ".part0");

    pthread_mutex_lock(&disk.lock);
    disk.hung |= part && disk.hangs == where;
    pthread_cond_broadcast(&disk.changed);
    while (part && disk.hangs == where) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

/* In place of the C library's, as the next. */
int fsync(int fd)
{
    hang(fd, AT_SYNC);
    return (int)syscall(SYS_fsync, fd);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    hang(fd, AT_WRITE);
    return (ssize_t)syscall(SYS_write, fd, bytes, size);
}

static void *do_nothing(void *arg)
{
    return arg;
}

static int n_threads(void)
{
    DIR      *tasks;
    int       n = 0;
    pthread_t first; /* with which ThreadSanitizer starts one of its own */

    assert_int_equal(pthread_create(&first, NULL, do_nothing, NULL), 0);
    pthread_join(first, NULL);
    tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks) != NULL) n++;
    closedir(tasks);
    return n;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

#define STILL    "ps:0: is stopping and still writes /*part0 for worker:0, which began "
#define GIVEN_UP "ps:0: ends without having written /*part0 for worker:0, which began "

/* --- the job ------------------------------------------------------------------------------------------------------ */

#define BIG_ROWS 24 /* of 1 MiB: more than is kept for a snapshot */

/* A task with a session over the ps, in a thread of its own: the chief saves, the other one changes all of the
 * variable. */
typedef struct trainer {
    pthread_t    thread;
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_step    *step;
    est_saver   *saver;
    est_status   status;
} trainer;

typedef struct job {
    int              n_threads; /* before */
    servers          servers;
    trainer          chief, worker;
    char             folder[64];
    est_manual_clock manual;
    int64_t          until;
} job;

static trainer make_trainer(servers *s, int index, int64_t rows)
{
    trainer  t = { 0 };
    est_node b, ids, add;

    t.remote = servers_remote(s, index, EST_REMOTE(.is_chief = index == 0, .connect_secs = DEADLINE_SECS));
    assert_ok(est_graph_create(5, &t.graph));
    b   = est_weight(t.graph, "b", EST_SHAPE(rows, 1 << 18), EST_WEIGHT(.initializer = est_init_ones()));
    ids = est_range(est_scalar(t.graph, EST_I64, 0), est_scalar(t.graph, EST_I64, (double)rows),
                    est_scalar(t.graph, EST_I64, 1));
    add = est_scatter_add(b, ids, est_scalar(t.graph, EST_F32, 1));
    assert_ok(est_session_create(t.graph, EST_SESSION(.threads = 1, .remote = t.remote), &t.session));
    if (index == 0) {
        assert_ok(est_session_init(t.session));
        assert_ok(est_remote_declare_ready(t.remote));
    }
    assert_ok(est_session_prepare(t.session, EST_NO_NODES, EST_NO_NODES, EST_NODES(add), &t.step));
    return t;
}

static void free_trainer(trainer *t)
{
    est_session_free(t->session);
    est_saver_free(t->saver);
    est_remote_free(t->remote);
    est_graph_free(t->graph);
}

static void *save(void *arg)
{
    trainer *t = arg;

    t->status = est_saver_save(t->saver, t->session, 0, NULL, NULL);
    return NULL;
}

static void *update(void *arg)
{
    trainer *t = arg;

    t->status = est_step_run(t->step, NULL);
    return NULL;
}

/* The clock stands still. The chief saves, and the disk hangs. */
static void begin_job(job *j, int64_t rows, int where)
{
    *j = (job){ .n_threads = n_threads(), .until = est_machine_ns() + DEADLINE_SECS * EST_NS_PER_SEC };
    est_manual_clock_init(&j->manual, 1000 * EST_NS_PER_SEC, 0);
    est_clock_set(&j->manual.clock);
    est_test_dir(j->folder);
    j->servers = servers_start(1, 2, "tcp");
    j->chief   = make_trainer(&j->servers, 0, rows);
    j->worker  = make_trainer(&j->servers, 1, rows);
    assert_ok(est_saver_create(j->folder, NULL, &j->chief.saver));
    set_hanging(where);
    assert_int_equal(pthread_create(&j->chief.thread, NULL, save, &j->chief), 0);
    await_hanging();
}

/* The disk goes on, and every thread of the job ends; there is no checkpoint, nor a part of one. */
static void end_job(job *j)
{
    DIR           *folder;
    struct dirent *entry;

    free_trainer(&j->chief);
    free_trainer(&j->worker);
    servers_stop(&j->servers);
    set_hanging(NOWHERE);
    while (n_threads() > j->n_threads && est_machine_ns() < j->until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    assert_int_equal(n_threads(), j->n_threads);
    est_clock_set(NULL);
    folder = opendir(j->folder);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) assert_null(strstr(entry->d_name, ".index"));
    closedir(folder);
    est_test_dir_remove(j->folder);
}

/* For how long updates have waited for the writer at the ps. */
static int64_t paused_ns(est_server *ps)
{
    int64_t ns;
    size_t  bytes;

    pthread_mutex_lock(&ps->lock);
    ns = est_snapshot_paused_ns(ps->writing->snapshot, &bytes);
    pthread_mutex_unlock(&ps->lock);
    return ns;
}

static void begin_update(job *j)
{
    assert_int_equal(pthread_create(&j->worker.thread, NULL, update, &j->worker), 0);
    while (paused_ns(j->servers.ps[0]) == 0 && est_machine_ns() < j->until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    assert_true(paused_ns(j->servers.ps[0]) > 0);
    pthread_mutex_lock(&j->servers.ps[0]->lock);
    assert_true(est_service_may_pause(j->servers.ps[0]));
    pthread_mutex_unlock(&j->servers.ps[0]->lock);
}

static void *serve(void *server)
{
    est_status status = est_server_join(server);

    est_server_free(server);
    return status == EST_CANCELLED ? NULL : server;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* A signal, and minutes without a byte of the checkpoint: the ps ends. */
static void expect_end(job *j)
{
    pthread_t server;
    void     *failed;

    est_signals_catch();
    log_keep(EST_LOG_WARN);
    assert_int_equal(pthread_create(&server, NULL, serve, j->servers.ps[0]), 0);
    assert_int_equal(raise(SIGTERM), 0);
    while (!log_has(STILL) && est_machine_ns() < j->until) {
        est_manual_clock_advance(&j->manual, EST_NS_PER_SEC / 1000);
    }
    log_expect(STILL);
    est_manual_clock_advance(&j->manual, 301 * EST_NS_PER_SEC);
    pthread_join(server, &failed);
    assert_null(failed);
    j->servers.n_ps = 0;
    assert_int_equal(log_count(EST_LOG_WARN, STILL), 1);
    assert_int_equal(log_count(EST_LOG_WARN, GIVEN_UP), 1);
    pthread_join(j->chief.thread, NULL);
    assert_int_equal(j->chief.status, EST_UNAVAILABLE);
    log_release();
    est_signals_release(EST_CANCELLED);
}

TEST(disk_hangs)
{
    job j;

    begin_job(&j, 1, AT_SYNC);
    expect_end(&j);
    end_job(&j);
}

TEST(update_waits)
{
    job j;

    begin_job(&j, BIG_ROWS, AT_WRITE);
    begin_update(&j);
    expect_end(&j);
    pthread_join(j.worker.thread, NULL); /* made, or refused by a server that ends */
    end_job(&j);
}

TEST(chief_is_lost)
{
    job j;

    begin_job(&j, BIG_ROWS, AT_WRITE);
    begin_update(&j);
    est_link_close(est_tasks_of(j.chief.remote)->tasks[0].link, "it dies");
    pthread_join(j.chief.thread, NULL);
    assert_int_equal(j.chief.status, EST_UNAVAILABLE);
    pthread_join(j.worker.thread, NULL); /* while the disk hangs */
    assert_ok(j.worker.status);
    pthread_mutex_lock(
        &j.servers.ps[0]->lock); /* no run waits for the thread that hangs: short ones need no executor again */
    assert_non_null(j.servers.ps[0]->writing);
    assert_false(est_service_may_pause(j.servers.ps[0]));
    pthread_mutex_unlock(&j.servers.ps[0]->lock);
    set_hanging(NOWHERE);
    end_job(&j);
}
