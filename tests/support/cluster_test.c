/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters of real processes. */
#include "support/cluster_test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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
#include "support/port_test.h"

#define LOOK_NS 10000000 /* between two looks at a condition */

/* --- making ------------------------------------------------------------------------------------------------------- */

static void add_tasks(cluster *c, const char *dir, const char *type, int n, bool listens)
{
    for (int i = 0; i < n; i++) {
        cluster_task *task = &c->tasks[c->n++];

        assert_true(c->n <= CLUSTER_TASKS_MAX);
        snprintf(task->type, sizeof task->type, "%s", type);
        task->index = i;
        snprintf(task->log, sizeof task->log, "%s/%s-%d.log", dir, type, i);
        if (listens) snprintf(task->address, sizeof task->address, "127.0.0.1:%d", port_take(&c->ports[c->n_ports++]));
    }
}

cluster cluster_make(int chief, int workers, int ps, int evaluator)
{
    cluster c = { .transport = "tcp" };
    char    dir[64];

    est_test_dir(dir);
    memcpy(c.dir, dir, sizeof dir);
    snprintf(c.model, sizeof c.model, "%s/model", dir);
    add_tasks(&c, dir, "ps", ps, true);
    add_tasks(&c, dir, "chief", chief, true);
    add_tasks(&c, dir, "worker", workers, true);
    add_tasks(&c, dir, "evaluator", evaluator, false);
    return c;
}

cluster_task *cluster_add_twin(cluster *c, const char *type, int index)
{
    char                dir[64];
    const cluster_task *original = cluster_find(c, type, index);

    memcpy(dir, c->dir, sizeof dir);
    add_tasks(c, dir, type, 1, true);
    c->tasks[c->n - 1].index = index;
    c->tasks[c->n - 1].twin  = (int)(original - c->tasks) + 1;
    snprintf(c->tasks[c->n - 1].log, sizeof c->tasks[0].log, "%s/%s-%d-twin.log", dir, type, index);
    return &c->tasks[c->n - 1];
}

/* Where a word with the key of this one is, or would be. */
static int place_of(const cluster *c, const char *word)
{
    size_t n     = strcspn(word, "=");
    int    place = 0;

    while (c->args[place] != NULL && (word[n] == '\0' || strncmp(c->args[place], word, n + 1) != 0)) {
        assert_true(++place < CLUSTER_ARGS_MAX);
    }
    return place;
}

void cluster_set(cluster *c, const char *const *words)
{
    for (; *words != NULL; words++) c->args[place_of(c, *words)] = *words;
}

const char *cluster_word(const cluster *c, const char *word)
{
    return c->args[place_of(c, word)];
}

cluster_task *cluster_find(cluster *c, const char *type, int index)
{
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->tasks[i].type, type) == 0 && c->tasks[i].index == index) return &c->tasks[i];
    }
    fail_msg("the cluster has no %s %d", type, index);
    return NULL;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static void put_job(const cluster *c, const cluster_task *self, const char *type, char *out, size_t size, bool *first)
{
    size_t at   = strlen(out);
    bool   none = true;

    for (int i = 0; i < c->n; i++) {
        const cluster_task *task = &c->tasks[i];

        if (strcmp(task->type, type) != 0 || task->address[0] == '\0' || task->twin > 0) continue;
        if (self->twin == i + 1) task = self;
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
    put_job(c, task, "ps", out, size, &first);
    put_job(c, task, "chief", out, size, &first);
    put_job(c, task, "master", out, size, &first);
    put_job(c, task, "worker", out, size, &first);
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

/* Processes that were not waited for yet, for the end of a program whose test failed: what they write would stay. */
static pid_t running[CLUSTER_STARTS_MAX];
static pid_t starter; /* 0: none */

static void kill_running(void)
{
    for (int i = 0; i < CLUSTER_STARTS_MAX && starter == getpid(); i++) {
        if (running[i] == 0) continue;
        (void)kill(running[i], SIGKILL);
        (void)waitpid(running[i], NULL, 0);
    }
}

/* Puts `now` where `before` is; 0: none. */
static void replace_running(pid_t before, pid_t now)
{
    int i = 0;

    if (starter == 0) assert_int_equal(atexit(kill_running), 0); /* after that of est_test_dir, so called before it */
    starter = getpid();
    while (i < CLUSTER_STARTS_MAX && running[i] != before) i++;
    assert_true(i < CLUSTER_STARTS_MAX);
    running[i] = now;
}

void cluster_start(cluster *c, cluster_task *task)
{
    static char config[8192];
    char        certs[128], certs_env[160], transport[64], ledger[160], temporary[160], segments[160], program[512];
    const char *argv[CLUSTER_ARGS_MAX + 4], *env[24];
    int         n = 0, e = 0;
    ssize_t     size = readlink("/proc/self/exe", program, sizeof program - 1);

    assert_true(size > 0);
    program[size] = '\0';
    assert_int_equal(task->pid, 0);
    put_config(c, task, config, sizeof config);
    snprintf(transport, sizeof transport, "ESTOC_PROTOCOL=%s", c->transport);
    snprintf(ledger, sizeof ledger, "ESTOC_LEDGER=%s", c->dir);
    snprintf(temporary, sizeof temporary, "TMPDIR=%s/tmp", c->dir);
    (void)mkdir(temporary + strlen("TMPDIR="), 0700);
    env[e++] = config;
    env[e++] = transport;
    env[e++] = ledger;
    snprintf(segments, sizeof segments, "UCX_POSIX_DIR=%s/tmp", c->dir); /* where they are seen when they stay */
    env[e++] = temporary;
    env[e++] = segments;
    env[e++] = "ESTOC_JOB=test";
    env[e++] = "ESTOC_NUM_THREADS=1";
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
    (void)signal(SIGUSR1, SIG_IGN); /* inherited: a new process ignores both until it has something to do with them */
    (void)signal(SIGUSR2, SIG_IGN);
    task->pid = fork();
    assert_true(task->pid >= 0);
    if (task->pid > 0) {
        assert_true(c->n_started < CLUSTER_STARTS_MAX);
        c->started[c->n_started++] = task->pid;
        replace_running(0, task->pid);
    }
    if (task->pid == 0) {
        int out = open(task->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nobody */
        if (task->network[0] != '\0') {
            int network = open(task->network, O_RDONLY | O_CLOEXEC);

            if (network < 0 || setns(network, CLONE_NEWNET) != 0) _exit(125);
        }
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
        execve(program, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
        _exit(127);
    }
}

void cluster_start_all(cluster *c)
{
    for (int i = 0; i < c->n; i++) cluster_start(c, &c->tasks[i]);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

bool cluster_look(cluster_task *task)
{
    if (task->pid == 0) return true;
    if (waitpid(task->pid, &task->status, WNOHANG) != task->pid) return false;
    replace_running(task->pid, 0);
    task->pid   = 0;
    task->ended = true;
    return true;
}

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

static int64_t deadline_in(double secs)
{
    if (SANITIZED) secs *= 4;
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

    while (!cluster_look(task)) {
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

void cluster_wait_code(cluster *c, cluster_task *task, int code, double secs)
{
    cluster_wait(c, task, secs);
    if (WIFEXITED(task->status) && WEXITSTATUS(task->status) == code) return;
    cluster_dump(c);
    fail_msg("%s:%d ended with status %#x, not with exit code %d", task->type, task->index, (unsigned)task->status,
             code);
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

/* --- what is left ------------------------------------------------------------------------------------------------- */

/* One line of a ledger: a run, by who asked for it, of whom, and its number there. */
typedef struct ledger_run {
    char               asker[32], asked[32];
    unsigned long long asker_start, asked_start, sequence, part;
} ledger_run;

typedef struct ledger_runs {
    ledger_run *runs;
    size_t      n, max;
} ledger_runs;

static int compare_runs(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(ledger_run));
}

static ledger_run *add_run(ledger_runs *runs)
{
    if (runs->n == runs->max) {
        runs->max  = runs->max == 0 ? 1024 : 2 * runs->max;
        runs->runs = realloc(runs->runs, runs->max * sizeof *runs->runs);
        assert_non_null(runs->runs);
    }
    memset(&runs->runs[runs->n], 0, sizeof *runs->runs); /* they are compared by bytes */
    return &runs->runs[runs->n++];
}

/* A run of a coordinator's call, which no other run of the same process may equal: origin, call and segment. */
static void add_call(ledger_runs *calls, const char *line, const char *self, unsigned long long start)
{
    unsigned long long origin, call, print;
    const char        *at = strstr(line, " call ");
    ledger_run        *run;

    if (at == NULL) return;
    assert_int_equal(sscanf(at, " call %llx %llu %llx", &origin, &call, &print), 3);
    run = add_run(calls);
    memcpy(run->asked, self, strlen(self));
    run->asked_start = start;
    run->asker_start = origin;
    run->sequence    = call;
    run->part        = print;
}

/* A task that was killed may have left half a line at the end. lists: done, asked for, calls */
static void read_ledger(const char *path, const char *name, ledger_runs lists[3])
{
    FILE              *file = fopen(path, "r");
    char               line[256], self[32], other[32];
    unsigned long long start, other_start, sequence, part;

    assert_non_null(file);
    assert_int_equal(sscanf(name, "%31[^-]-%llx.ledger", self, &start), 2);
    while (fgets(line, sizeof line, file) != NULL) {
        bool        asks = strncmp(line, "asks ", 5) == 0;
        ledger_run *run;

        if (strchr(line, '\n') == NULL) break;
        assert_int_equal(sscanf(line + (asks ? 5 : 0), "%31s %llx %llu %llu", other, &other_start, &sequence, &part),
                         4);
        run = add_run(asks ? &lists[1] : &lists[0]);
        memcpy(run->asker, asks ? self : other, strlen(asks ? self : other));
        memcpy(run->asked, asks ? other : self, strlen(asks ? other : self));
        run->asker_start = asks ? start : other_start;
        run->asked_start = asks ? other_start : start;
        run->sequence    = sequence;
        run->part        = part;
        if (!asks) add_call(&lists[2], line, self, start);
    }
    fclose(file);
}

/* Calls back for each entry of a folder. */
static void each_file(const char *folder, void (*call)(const char *path, const char *name, void *user), void *user)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    char           path[512];

    if (dir == NULL) return;
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        call(path, entry->d_name, user);
    }
    closedir(dir);
}

static void take_ledger(const char *path, const char *name, void *user)
{
    if (strstr(name, ".ledger") != NULL) read_ledger(path, name, user);
}

static void expect_once(ledger_runs *calls)
{
    if (calls->n > 0) qsort(calls->runs, calls->n, sizeof(ledger_run), compare_runs);
    for (size_t i = 1; i < calls->n; i++) {
        const ledger_run *run = &calls->runs[i];

        if (compare_runs(run, run - 1) == 0)
            fail_msg("%s applied call %llu of %016llx twice", run->asked, run->sequence, run->asker_start);
    }
    free(calls->runs);
}

long cluster_check_ledgers(const cluster *c)
{
    ledger_runs lists[3] = { 0 }; /* done, asked for, calls */
    long        n;

    each_file(c->dir, take_ledger, lists);
    expect_once(&lists[2]);
    if (lists[0].n > 0) qsort(lists[0].runs, lists[0].n, sizeof(ledger_run), compare_runs);
    if (lists[1].n > 0) qsort(lists[1].runs, lists[1].n, sizeof(ledger_run), compare_runs);
    for (size_t i = 0; i < lists[0].n; i++) {
        const ledger_run *run = &lists[0].runs[i];

        if (i > 0 && compare_runs(run, run - 1) == 0) {
            fail_msg("%s did run %llu of %s twice", run->asked, run->sequence, run->asker);
        }
        if (lists[1].n == 0 || bsearch(run, lists[1].runs, lists[1].n, sizeof *run, compare_runs) == NULL) {
            fail_msg("%s did run %llu of %s, which it had not asked for", run->asked, run->sequence, run->asker);
        }
    }
    n = (long)lists[0].n;
    free(lists[0].runs);
    free(lists[1].runs);
    return n;
}

static void expect_finished(const char *path, const char *name, void *user)
{
    (void)user;
    if (strstr(name, ".part") != NULL || strstr(name, ".temp") != NULL || strstr(name, ".tmp") != NULL) {
        fail_msg("%s was left", path);
    }
}

static void expect_nothing(const char *path, const char *name, void *user)
{
    (void)user;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) fail_msg("%s was left", path);
}

/* Shared memory of System V outlives those who made it. */
static void expect_no_segment(const cluster *c)
{
    FILE *file = fopen("/proc/sysvipc/shm", "re");
    char  line[512];
    long  pid;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "%*s %*s %*s %*s %ld", &pid) != 1) continue;
        for (int i = 0; i < c->n_started; i++) {
            if (c->started[i] == (pid_t)pid) fail_msg("process %ld left a segment of shared memory: %s", pid, line);
        }
    }
    fclose(file);
}

void cluster_check_clean(const cluster *c)
{
    char temporary[160];

    for (int i = 0; i < c->n; i++) {
        struct sockaddr_in at  = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int                one = 1, fd;

        assert_int_equal(c->tasks[i].pid, 0);
        if (c->tasks[i].address[0] == '\0') continue;
        at.sin_port = htons((uint16_t)strtol(strchr(c->tasks[i].address, ':') + 1, NULL, 10));
        fd          = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0) fail_msg("somebody listens at %s", c->tasks[i].address);
        close(fd);
    }
    expect_no_segment(c);
    each_file(c->model, expect_finished, NULL);
    snprintf(temporary, sizeof temporary, "%s/tmp", c->dir);
    each_file(temporary, expect_nothing, NULL);
}

void cluster_free(cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->tasks[i].pid == 0) continue;
        (void)kill(c->tasks[i].pid, SIGKILL);
        (void)waitpid(c->tasks[i].pid, NULL, 0);
        replace_running(c->tasks[i].pid, 0);
    }
    for (int i = 0; i < c->n_ports; i++) close(c->ports[i]);
    est_test_dir_remove(c->dir);
}

void cluster_task_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    if (argc > 1 && strcmp(argv[1], "--task") == 0) exit(run(argc - 2, argv + 2));
}
