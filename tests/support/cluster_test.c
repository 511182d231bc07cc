/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of real processes. */
#include "support/cluster_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "estoc/checkpoint.h"
#include "net/certificates.h"
#include "support/estimator_test.h"

#define LOOK_NS 10000000 /* between two looks at a condition */

/* --- making ------------------------------------------------------------------------------------------------------------ */

/* A port that is free now; the socket stays open in *fd until all have one, so that none is given twice. */
static int free_port(int *fd)
{
    struct sockaddr_in at   = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          size = sizeof at;
    int                one  = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0);
    assert_int_equal(setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static void add_tasks(cluster *c, const char *dir, const char *type, int n, bool listens, int *fds, int *n_fds)
{
    for (int i = 0; i < n; i++) {
        cluster_task *task = &c->tasks[c->n++];

        assert_true(c->n <= CLUSTER_TASKS_MAX);
        snprintf(task->type, sizeof task->type, "%s", type);
        task->index = i;
        snprintf(task->log, sizeof task->log, "%s/%s-%d.log", dir, type, i);
        if (listens) snprintf(task->address, sizeof task->address, "127.0.0.1:%d", free_port(&fds[(*n_fds)++]));
    }
}

cluster cluster_make(int chief, int workers, int ps, int evaluator)
{
    cluster c = { .transport = "tcp" };
    int     fds[CLUSTER_TASKS_MAX], n_fds = 0;

    char dir[64];

    est_test_dir(dir);
    memcpy(c.dir, dir, sizeof dir);
    snprintf(c.model, sizeof c.model, "%s/model", dir);
    add_tasks(&c, dir, "ps", ps, true, fds, &n_fds);
    add_tasks(&c, dir, "chief", chief, true, fds, &n_fds);
    add_tasks(&c, dir, "worker", workers, true, fds, &n_fds);
    add_tasks(&c, dir, "evaluator", evaluator, false, fds, &n_fds);
    for (int i = 0; i < n_fds; i++) close(fds[i]);
    return c;
}

cluster_task *cluster_find(cluster *c, const char *type, int index)
{
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->tasks[i].type, type) == 0 && c->tasks[i].index == index) return &c->tasks[i];
    }
    fail_msg("the cluster has no %s %d", type, index);
    return NULL;
}

/* --- starting ------------------------------------------------------------------------------------------------------------ */

static void put_job(const cluster *c, const char *type, char *out, size_t size, bool *first)
{
    size_t at   = strlen(out);
    bool   none = true;

    for (int i = 0; i < c->n; i++) {
        const cluster_task *task = &c->tasks[i];

        if (strcmp(task->type, type) != 0 || task->address[0] == '\0') continue;
        at += (size_t)snprintf(out + at, size - at, "%s\"%s\"", none ? (*first ? "" : ", ") : ", ",
                               none ? type : task->address);
        if (none) at += (size_t)snprintf(out + at, size - at, ": [\"%s\"", task->address);
        none   = false;
        *first = false;
    }
    if (!none) snprintf(out + at, size - at, "]");
}

static void put_config(const cluster *c, const cluster_task *task, char *out, size_t size)
{
    bool   first = true;
    size_t at;

    snprintf(out, size, "TF_CONFIG={\"cluster\": {");
    put_job(c, "ps", out, size, &first);
    put_job(c, "chief", out, size, &first);
    put_job(c, "worker", out, size, &first);
    at = strlen(out);
    snprintf(out + at, size - at, "}, \"task\": {\"type\": \"%s\", \"index\": %d}}", task->type, task->index);
}

static void make_certificates(const cluster *c, char *folder, size_t size)
{
    struct stat info;

    snprintf(folder, size, "%s/certs", c->dir);
    if (stat(folder, &info) == 0) return;
    if (est_certificates_make(folder, "test", 1) != EST_OK) fail_msg("no certificates: %s", est_error_message());
}

void cluster_start(cluster *c, cluster_task *task)
{
    static char config[8192];
    char        certs[128], certs_env[160], transport[64], ledger[160], program[512];
    const char *argv[CLUSTER_ARGS_MAX + 4], *env[24];
    int         n = 0, e = 0;
    ssize_t     size = readlink("/proc/self/exe", program, sizeof program - 1);

    assert_true(size > 0);
    program[size] = '\0';
    assert_int_equal(task->pid, 0);
    put_config(c, task, config, sizeof config);
    snprintf(transport, sizeof transport, "ESTOC_PROTOCOL=%s", c->transport);
    snprintf(ledger, sizeof ledger, "ESTOC_LEDGER=%s", c->dir);
    env[e++] = config;
    env[e++] = transport;
    env[e++] = ledger;
    env[e++] = "ESTOC_JOB=test";
    env[e++] = "EST_NUM_THREADS=1";
    if (strcmp(c->transport, "tls") == 0) {
        make_certificates(c, certs, sizeof certs);
        snprintf(certs_env, sizeof certs_env, "ESTOC_CERTS=%s", certs);
        env[e++] = certs_env;
    }
    for (char **inherited = environ; *inherited != NULL && e < 23; inherited++) { /* of the sanitizers, mostly */
        if (strncmp(*inherited, "PATH=", 5) == 0 || strstr(*inherited, "SAN_OPTIONS=") != NULL) env[e++] = *inherited;
    }
    env[e]    = NULL;
    argv[n++] = program;
    argv[n++] = "--task";
    argv[n++] = c->model;
    for (int i = 0; i < CLUSTER_ARGS_MAX && c->args[i] != NULL; i++) argv[n++] = c->args[i];
    argv[n]     = NULL;
    task->ended = false;
    task->starts++;
    task->pid = fork();
    assert_true(task->pid >= 0);
    if (task->pid == 0) {
        int out = open(task->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nobody */
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
        execve(program, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
        _exit(127);
    }
}

void cluster_start_all(cluster *c)
{
    for (int i = 0; i < c->n; i++) cluster_start(c, &c->tasks[i]);
}

/* --- waiting ------------------------------------------------------------------------------------------------------------- */

static bool look(cluster_task *task)
{
    if (task->pid == 0) return true;
    if (waitpid(task->pid, &task->status, WNOHANG) != task->pid) return false;
    task->pid   = 0;
    task->ended = true;
    return true;
}

static int64_t deadline_in(double secs)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    secs *= 4;
#endif
    return est_now_ns() + (int64_t)(secs * (double)EST_NS_PER_SEC);
}

static void dump_log(const char *path)
{
    FILE *file = fopen(path, "r");
    char  line[512];
    long  size;

    if (file == NULL) return;
    fprintf(stderr, "--- %s\n", path);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    fseek(file, size > 3000 ? size - 3000 : 0, SEEK_SET);
    while (fgets(line, sizeof line, file) != NULL) fputs(line, stderr);
    fclose(file);
}

void cluster_dump(const cluster *c)
{
    for (int i = 0; i < c->n; i++) dump_log(c->tasks[i].log);
}

void cluster_signal(const cluster_task *task, int signal)
{
    assert_true(task->pid > 0);
    assert_int_equal(kill(task->pid, signal), 0);
}

void cluster_wait(cluster *c, cluster_task *task, double secs)
{
    int64_t until = deadline_in(secs);

    while (!look(task)) {
        if (est_now_ns() > until) {
            cluster_dump(c);
            fail_msg("%s:%d has not ended within %g s", task->type, task->index, secs);
        }
        est_sleep_ns(LOOK_NS);
    }
}

void cluster_wait_all(cluster *c, double secs)
{
    int64_t until = deadline_in(secs);

    for (int i = 0; i < c->n; i++) {
        cluster_task *task = &c->tasks[i];

        cluster_wait(c, task, (double)(until - est_now_ns()) / (double)EST_NS_PER_SEC);
        if (!WIFEXITED(task->status) || WEXITSTATUS(task->status) != 0) {
            cluster_dump(c);
            fail_msg("%s:%d ended with status %#x", task->type, task->index, (unsigned)task->status);
        }
    }
}

int cluster_count_log(const cluster_task *task, const char *text)
{
    char  *bytes;
    size_t size;
    int    n = 0;

    if (!est_file_exists(task->log) || est_file_read(task->log, &bytes, &size) != EST_OK) return 0;
    for (const char *at = bytes;
         at != NULL && (at = memmem(at, size - (size_t)(at - bytes), text, strlen(text))) != NULL; at++) {
        n++;
    }
    est_free(bytes);
    return n;
}

void cluster_wait_log(cluster *c, const cluster_task *task, const char *text, double secs)
{
    int64_t until = deadline_in(secs);

    while (cluster_count_log(task, text) == 0) {
        if (est_now_ns() > until) {
            cluster_dump(c);
            fail_msg("%s:%d has not said \"%s\" within %g s", task->type, task->index, text, secs);
        }
        est_sleep_ns(LOOK_NS);
    }
}

long cluster_saved_step(const cluster *c)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *step       = NULL;
    long            out        = -1;

    if (est_checkpoint_open(c->model, &checkpoint) != EST_OK) return -1;
    if (est_checkpoint_read(checkpoint, "global_step", &step) == EST_OK)
        out = (long)*(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    est_checkpoint_close(checkpoint);
    return out;
}

void cluster_wait_step(cluster *c, long step, double secs)
{
    int64_t until = deadline_in(secs);

    while (cluster_saved_step(c) < step) {
        if (est_now_ns() > until) {
            cluster_dump(c);
            fail_msg("no checkpoint of step %ld within %g s", step, secs);
        }
        est_sleep_ns(LOOK_NS);
    }
}

void cluster_free(cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->tasks[i].pid == 0) continue;
        (void)kill(c->tasks[i].pid, SIGKILL);
        (void)waitpid(c->tasks[i].pid, NULL, 0);
    }
    est_test_dir_remove(c->dir);
}

void cluster_task_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    if (argc > 1 && strcmp(argv[1], "--task") == 0) exit(run(argc - 2, argv + 2));
}
