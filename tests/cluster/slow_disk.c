/* SPDX-License-Identifier: Apache-2.0
 *
 * A parameter server whose disk hangs and that is told to end: it says what it still writes and for whom, waits for minutes, and
 * ends then. What the writer needs stays until it is done. */
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
#include "estoc/estoc.h"
#include "support/estimator_test.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define DEADLINE_SECS 60

/* --- a disk that hangs ---------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t  changed;
    bool            hangs, hung;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void set_hanging(bool hangs)
{
    pthread_mutex_lock(&disk.lock);
    disk.hangs = hangs;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_hanging(void)
{
    pthread_mutex_lock(&disk.lock);
    while (!disk.hung) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

/* What the server writes is a part of the checkpoint. */
static bool is_part(int fd)
{
    char    link[32], path[256];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n                   = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, ".part0") != NULL;
}

/* In place of the C library's. */
int fsync(int fd)
{
    bool part = is_part(fd);

    pthread_mutex_lock(&disk.lock);
    disk.hung |= part && disk.hangs;
    pthread_cond_broadcast(&disk.changed);
    while (part && disk.hangs) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
    return (int)syscall(SYS_fsync, fd);
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

/* --- the log ------------------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* guards the rest */
    int             still, given_up;
} told = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note(void *user, est_log_level level, int64_t wall_ns, const char *line)
{
    (void)user;
    (void)wall_ns;
    if (level != EST_LOG_WARN || strstr(line, "part0 for worker:0, which began ") == NULL) return;
    pthread_mutex_lock(&told.lock);
    told.still += strstr(line, "ps:0: is to end, and still writes /") != NULL;
    told.given_up += strstr(line, "ps:0: ends, and has not written /") != NULL;
    pthread_mutex_unlock(&told.lock);
}

static bool is_told_still(void)
{
    bool is;

    pthread_mutex_lock(&told.lock);
    is = told.still > 0;
    pthread_mutex_unlock(&told.lock);
    return is;
}

/* --- the test ------------------------------------------------------------------------------------------------------------- */

typedef struct saving {
    est_saver   *saver;
    est_session *session;
    est_status   status;
} saving;

static void *save(void *arg)
{
    saving *s = arg;

    s->status = est_saver_save(s->saver, s->session, 0, NULL, NULL);
    return NULL;
}

static void *serve(void *server)
{
    est_status status = est_server_join(server);

    est_server_free(server);
    return status == EST_CANCELLED ? NULL : server;
}

static void test_disk_hangs(void **state)
{
    int              before = n_threads();
    servers          s      = servers_start(1, 1, "tcp");
    est_remote      *remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = DEADLINE_SECS));
    saving           saved  = { 0 };
    est_graph       *graph  = NULL;
    char             folder[64];
    est_manual_clock manual;
    pthread_t        saver, server;
    int64_t          until;
    void            *failed;

    (void)state;
    est_manual_clock_init(&manual, 1000 * EST_NS_PER_SEC, 0);
    est_clock_set(&manual.clock);
    est_test_dir(folder);
    assert_ok(est_graph_create(5, &graph));
    (void)est_weight(graph, "b", EST_SHAPE(1), EST_WEIGHT(.initializer = est_init_ones()));
    assert_ok(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &saved.session));
    assert_ok(est_session_init(saved.session));
    assert_ok(est_saver_create(folder, NULL, &saved.saver));
    set_hanging(true);
    assert_int_equal(pthread_create(&saver, NULL, save, &saved), 0);
    await_hanging();

    est_signals_catch();
    est_log_set_sink(note, NULL);
    assert_int_equal(pthread_create(&server, NULL, serve, s.ps[0]), 0);
    assert_int_equal(raise(SIGTERM), 0);
    until = est_machine_ns() + DEADLINE_SECS * EST_NS_PER_SEC;
    while (!is_told_still() && est_machine_ns() < until) est_manual_clock_advance(&manual, EST_NS_PER_SEC / 1000);
    assert_true(is_told_still());
    est_manual_clock_advance(&manual, 301 * EST_NS_PER_SEC);
    pthread_join(server, &failed);
    assert_null(failed);
    s.n_ps = 0;
    assert_int_equal(told.still, 1);
    assert_int_equal(told.given_up, 1);
    pthread_join(saver, NULL);
    assert_int_equal(saved.status, EST_UNAVAILABLE);
    est_log_set_sink(NULL, NULL);
    est_signals_release(EST_CANCELLED);

    est_session_free(saved.session);
    est_saver_free(saved.saver);
    est_remote_free(remote);
    servers_stop(&s);
    est_graph_free(graph);
    set_hanging(false);
    while (n_threads() > before && est_machine_ns() < until) est_sleep_ns(EST_NS_PER_SEC / 1000);
    assert_int_equal(n_threads(), before);
    est_clock_set(NULL);
    est_test_dir_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_disk_hangs) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
