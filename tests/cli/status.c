/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc status` against tasks that are processes of their own: what it shows of them, of one that is not there, and of
 * one that waits; and certificates of another job. */
#include <signal.h>

#include "base/thread.h"
#include "cli/tool.h"
#include "cluster/remote_tasks.h"
#include "cluster/task_status.h"
#include "estoc/estoc.h"
#include "net/certificates.h"
#include "support/calls_test.h"
#include "support/port_test.h"

#define WAIT_NS (INT64_C(30) * 1000000000) /* for what should be at once, on a busy machine */

/* --- tasks -------------------------------------------------------------------------------------------------------- */

typedef struct job {
    est_cluster *cluster;
    char         ps[32], worker[32];
    int          ports[2]; /* sockets that keep them */
    const char  *transport, *certificates;
} job;

/* A process that is a task until its end of the pipe is closed. */
typedef struct task {
    pid_t pid;
    int   stop;
} task;

static job make_job_of(const char *second, const char *transport, const char *certificates)
{
    job         j  = { .transport = transport, .certificates = certificates };
    const char *ps = j.ps, *worker = j.worker;

    snprintf(j.ps, sizeof j.ps, "127.0.0.1:%d", port_take(&j.ports[0]));
    snprintf(j.worker, sizeof j.worker, "127.0.0.1:%d", port_take(&j.ports[1]));
    tool_check(est_cluster_create((est_jobs){ (const est_job[]){ { .name = "ps", .addresses = { &ps, 1 } },
                                                                 { .name = second, .addresses = { &worker, 1 } } },
                                              2 },
                                  &j.cluster));
    return j;
}

static job make_job(const char *transport, const char *certificates)
{
    return make_job_of("worker", transport, certificates);
}

static void free_job(job *j)
{
    for (int i = 0; i < 2; i++) close(j->ports[i]);
    est_cluster_free(j->cluster);
}

static void *wait_for_the_chief(void *arg)
{
    est_remote *remote = arg;

    if (remote->ops->connect(remote) == EST_OK) _exit(2); /* the process ends before */
    return NULL;
}

/* Three steps over a weight of 40 bytes. */
static est_status train(est_server *server)
{
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     loss, step;

    EST_TRY(est_remote_create(server, EST_REMOTE(.is_chief = true), &remote));
    EST_TRY(est_graph_create(5, &graph));
    loss = est_mean(est_square(est_read_variable(est_weight(graph, "w", EST_SHAPE(10), NULL))));
    step = est_minimize(est_sgd(0.1), loss, NULL);
    EST_TRY(est_session_create(graph, EST_SESSION(.threads = 1, .remote = remote), &session));
    EST_TRY(est_session_init(session));
    for (int i = 0; i < 3; i++) {
        EST_TRY(est_session_run(session, (est_feeds){ 0 }, EST_NO_NODES, EST_NODES(step), NULL));
    }
    return EST_OK; /* and all of it stays until the process ends */
}

/* Never returns. A worker waits for a chief, and there is none; a chief trains; a master trains with other workers. */
static void be_task(const job *j, const char *type, int ready, int stop)
{
    est_server *server;
    est_remote *remote;
    est_thread  thread;
    char        byte = 0;

    if (est_server_create(j->cluster, type, 0,
                          EST_SERVER(.transport = j->transport, .certificates = j->certificates, .threads = 1),
                          &server) != EST_OK) {
        _exit(1);
    }
    if (strcmp(type, "worker") == 0 && (est_remote_create(server, NULL, &remote) != EST_OK ||
                                        est_thread_start(&thread, "worker", wait_for_the_chief, remote) != EST_OK)) {
        _exit(1);
    }
    if (strcmp(type, "chief") == 0 && train(server) != EST_OK) _exit(1);
    if (strcmp(type, "master") == 0) est_server_note_step(server, 7);
    if (write(ready, &byte, 1) != 1) _exit(1);
    while (read(stop, &byte, 1) > 0) continue;
    _exit(0);
}

static task start_task(const job *j, const char *type)
{
    int  ready[2], stop[2];
    task t = { 0 };
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    t.pid = fork();
    assert_true(t.pid >= 0);
    if (t.pid == 0) {
        close(ready[0]);
        close(stop[1]);
        be_task(j, type, ready[1], stop[0]);
    }
    close(ready[1]);
    close(stop[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* it listens */
    close(ready[0]);
    t.stop = stop[1];
    return t;
}

static void stop_task(task t)
{
    int status;

    close(t.stop);
    assert_int_equal(waitpid(t.pid, &status, 0), t.pid);
    assert_int_equal(status, 0);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* Runs the tool until `text` is in its output. */
static tool_run await_output(const char *const *argv, int code, const char *text)
{
    int64_t until = est_machine_ns() + WAIT_NS;

    for (;;) {
        tool_run run = tool_expect(code, argv);

        if (strstr(run.out, text) != NULL) return run;
        if (est_machine_ns() > until) fail_msg("standard output is:\n%s\nwhich lacks: %s", run.out, text);
        tool_run_free(&run);
    }
}

TEST(table)
{
    job      j  = make_job("tcp", NULL);
    task     ps = start_task(&j, "ps"), worker = start_task(&j, "worker");
    tool_run run;

    run = await_output(TOOL_ARGV("status", "--transport", "tcp", j.ps), 0,
                       ": the chief has not initialized its variables\n");
    tool_expect_part(run.out, "Task      Incarnation ", "standard output");
    tool_expect_part(run.out, "\nps:0      ", "standard output");
    tool_expect_part(run.out, "\nworker:0  ", "standard output");
    tool_expect_part(run.out, "/s  ", "standard output");
    tool_expect_part(run.out, "here\n", "standard output");
    tool_expect_part(run.out, "waits\n", "standard output");
    tool_expect_part(run.out, "\nWaits\n", "standard output");
    tool_expect_part(run.out, "worker:0 has waited ", "standard output");
    assert_null(strstr(run.out, " has waited 0 s")); /* who waits for less than a second is not held up */
    tool_expect_text(run.err, "", "standard error");
    tool_run_free(&run);
    stop_task(worker);
    stop_task(ps);
    free_job(&j);
}

/* The row of a task: its step, and the bytes of its variables. */
static void expect_row(const char *out, const char *name, long want_step, const char *want_bytes)
{
    const char *row = strstr(out, name);
    char        number[16], unit[16], bytes[40];
    long        step = -1;

    assert_non_null(row);
    row += strlen(name);
    assert_int_equal(sscanf(row, "%*s %*s %*s %ld %*s %*s %*s %*s %*s %15s %15s", &step, number, unit), 3);
    assert_int_equal(step, want_step);
    snprintf(bytes, sizeof bytes, "%s %s", number, unit);
    assert_string_equal(bytes, want_bytes);
}

/* The ps has the global step and knows which of them the chief has counted. */
TEST(training)
{
    job      j  = make_job_of("chief", "tcp", NULL);
    task     ps = start_task(&j, "ps"), chief = start_task(&j, "chief");
    tool_run run;

    run = await_output(TOOL_ARGV("status", "--transport", "tcp", j.ps), 0, " 48 B ");
    expect_row(run.out, "\nps:0 ", 3, "48 B"); /* the weight and the global step */
    expect_row(run.out, "\nchief:0 ", 3, "0 B");
    tool_expect_part(run.out, "trains\n", "standard output");
    assert_null(strstr(run.out, "Waits"));
    tool_run_free(&run);
    stop_task(chief);
    stop_task(ps);
    free_job(&j);
}

/* Tasks of multi-worker training count their own steps. */
TEST(training_multi_worker)
{
    job      j  = make_job_of("master", "tcp", NULL);
    task     ps = start_task(&j, "ps"), master = start_task(&j, "master");
    tool_run run;

    run = await_output(TOOL_ARGV("status", "--transport", "tcp", j.worker), 0, "trains\n");
    expect_row(run.out, "\nmaster:0 ", 7, "0 B");
    tool_run_free(&run);
    stop_task(master);
    stop_task(ps);
    est_cluster_free(j.cluster);
}

/* Servers of this process: a worker that executes calls. */
TEST(calls)
{
    calls_job   j  = calls_start(servers_start(1, 1, "tcp"), NULL);
    const char *at = est_cluster_address(j.s.cluster, "ps", 0);
    tool_run    run;

    assert_ok(calls_set_up(j.link[0], 1));
    calls_send_functions(&j, j.link[0]);
    for (uint64_t i = 1; i <= 3; i++) assert_ok(calls_call(j.link[0], i, i, CALLS_ADD, calls_ones, NULL));
    run = tool_expect(0, TOOL_ARGV("status", "--transport", "tcp", at));
    tool_expect_part(run.out, "\nCalls\nworker:0: 3 calls of client:", "standard output");
    tool_expect_part(run.out, ", 0 failed, 4 functions, 0 queued\n", "standard output");
    tool_run_free(&run);
    calls_stop(&j);
}

/* A coordinator, the chief of a cluster in this process. */
TEST(coordinator)
{
    est_local_cluster *cluster  = NULL;
    est_strategy      *strategy = NULL;
    est_graph         *graph    = NULL;
    est_coordinator   *c        = NULL;
    est_function      *nothing  = NULL;
    tool_run           run;

    assert_ok(est_local_cluster_create(
        EST_LOCAL_CLUSTER(.ps = 1, .workers = 1, .chief = true, .server = EST_SERVER(.transport = "tcp")), &cluster));
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(cluster)),
                                            &strategy));
    assert_ok(est_graph_create(1, &graph));
    assert_ok(est_coordinator_create(strategy, graph, EST_COORDINATOR(.transport = "tcp", .threads = 1), &c));
    assert_ok(est_coordinator_function(c, "nothing", EST_NO_NODES, EST_NO_NODES,
                                       EST_NODES(est_group(graph, EST_NO_NODES)), &nothing));
    for (int i = 0; i < 3; i++) assert_ok(est_coordinator_schedule(c, nothing, EST_NO_ARGUMENTS, NULL));
    assert_ok(est_coordinator_join(c));
    run = tool_expect(0, TOOL_ARGV("status", "--transport", "tcp",
                                   est_cluster_address(est_strategy_task(strategy)->cluster, "ps", 0)));
    tool_expect_part(run.out, "\nCalls\nchief:0: 3 calls completed, 0 queued, 0 under way (worker:0 0), 0 retried, ",
                     "standard output");
    tool_run_free(&run);
    est_function_free(nothing);
    est_coordinator_free(c);
    est_strategy_free(strategy);
    est_graph_free(graph);
    est_local_cluster_free(cluster);
}

TEST(json)
{
    job         j  = make_job("tcp", NULL);
    task        ps = start_task(&j, "ps"), worker = start_task(&j, "worker");
    tool_run    run;
    est_json   *root;
    const char *text;
    int64_t     pid;

    run  = await_output(TOOL_ARGV("status", "--transport=tcp", "--json", j.worker), 0, "\"told_by\": \"worker:0\"");
    root = tool_json(run.out);
    tool_check(est_json_string(root, &text, "tasks[0].task"));
    assert_string_equal(text, "ps:0");
    tool_check(est_json_string(root, &text, "tasks[1].address"));
    assert_string_equal(text, j.worker);
    tool_check(est_json_i64(root, &pid, "tasks[1].status.pid"));
    assert_int_equal(pid, worker.pid);
    tool_check(est_json_string(root, &text, "waits[0].who"));
    assert_string_equal(text, "worker:0");
    assert_int_equal(tool_json_lines(run.out), 1);
    est_json_free(root);
    tool_run_free(&run);
    stop_task(worker);
    stop_task(ps);
    free_job(&j);
}

/* A task that is not there is shown, and makes the exit code 1. */
TEST(task_that_is_not_there)
{
    job       j  = make_job("tcp", NULL);
    task      ps = start_task(&j, "ps");
    tool_run  run;
    est_json *root;
    bool      answered;

    run = TOOL(1, "status", "--transport", "tcp", j.ps);
    tool_expect_part(run.out, "no answer: not reached within 3 s: Connection refused\n", "standard output");
    tool_expect_part(run.out, "here\n", "standard output");
    tool_expect_text(run.err, "", "standard error");
    tool_run_free(&run);
    run  = TOOL(1, "status", "--transport", "tcp", "--json", j.ps);
    root = tool_json(run.out);
    tool_check(est_json_bool(root, &answered, "tasks[0].answered"));
    assert_true(answered);
    tool_check(est_json_bool(root, &answered, "tasks[1].answered"));
    assert_false(answered);
    assert_non_null(est_json_get(root, "tasks[1].error"));
    est_json_free(root);
    tool_run_free(&run);
    TOOL_OUT(1, "", j.worker, "status", "--transport", "tcp", j.worker); /* nobody to ask for the cluster */
    stop_task(ps);
    free_job(&j);
}

/* By options or by the environment; another job's do not open the door. */
TEST(certificates)
{
    char     own[256], others[256];
    tool_run run;
    task     ps, worker;
    job      j;

    snprintf(own, sizeof own, "%s", tool_path("own"));
    snprintf(others, sizeof others, "%s", tool_path("others"));
    tool_check(est_certificates_make(own, "ads", 1));
    tool_check(est_certificates_make(others, "other", 1));
    j      = make_job("tls", own);
    ps     = start_task(&j, "ps");
    worker = start_task(&j, "worker");
    run    = TOOL(0, "status", "--transport", "tls", "--certs", own, j.ps);
    tool_expect_part(run.out, "\nworker:0  ", "standard output");
    tool_run_free(&run);
    assert_int_equal(setenv("ESTOC_CERTS", own, 1), 0);
    run = TOOL(0, "status", j.worker);
    tool_expect_part(run.out, "\nps:0      ", "standard output");
    tool_run_free(&run);
    assert_int_equal(unsetenv("ESTOC_CERTS"), 0);
    TOOL_OUT(1, "", "All tasks need the same folder", "status", "--certs", others, j.ps);
    TOOL_OUT(1, "", "All tasks need the same folder", "status", j.ps); /* on this machine: the user's own ones */
    TOOL_OUT(1, "", "Run `estoc certificates certs` once, copy the folder", "status", "elsewhere.invalid:2222");
    stop_task(worker);
    stop_task(ps);
    free_job(&j);
}

/* The job uses tcp, and the question comes over tls. */
TEST(other_transport)
{
    char certs[256], start[80];
    task ps;
    job  j = make_job("tcp", NULL);

    snprintf(certs, sizeof certs, "%s", tool_path("for_tls"));
    tool_check(est_certificates_make(certs, "ads", 1));
    ps = start_task(&j, "ps");
    snprintf(start, sizeof start, "estoc status: connecting to %s: ", j.ps);
    TOOL_OUT(1, "", start, "status", "--transport", "tls", "--certs", certs, j.ps);
    TOOL_OUT(1, "", "(does one side use tls and the other tcp?)", "status", "--transport", "tls", "--certs", certs,
             j.ps);
    stop_task(ps);
    free_job(&j);
}

/* Tasks answer nobody of another job. The name is an option, or in the environment. */
TEST(job)
{
    tool_run run;
    task     ps;
    job      j = make_job("tcp", NULL);

    assert_int_equal(setenv("ESTOC_JOB", "ads", 1), 0);
    ps = start_task(&j, "ps");
    assert_int_equal(unsetenv("ESTOC_JOB"), 0);
    run = TOOL(1, "status", "--transport", "tcp", "--job", "ads", j.ps); /* the worker is not there */
    tool_expect_part(run.out, "\nps:0      ", "standard output");
    tool_run_free(&run);
    TOOL_OUT(1, "", "belongs to job clicks, this task to job ads", "status", "--transport", "tcp", "--job", "clicks",
             j.ps);
    TOOL_OUT(1, "", "belongs to no job (set ESTOC_JOB), this task to job ads", "status", "--transport", "tcp", j.ps);
    stop_task(ps);
    free_job(&j);
}

/* Shows it again and again; a reader that goes away is the end of it. */
TEST(watch)
{
    const char *argv[] = { "estoc", "status", "--transport", "tcp", "--json", "--watch", "1", NULL, NULL };
    job         j      = make_job("tcp", NULL);
    task        ps = start_task(&j, "ps"), worker = start_task(&j, "worker");
    int         out[2], status, lines = 0;
    pid_t       tool;
    char        byte;

    argv[7] = j.ps;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    tool = fork();
    assert_true(tool >= 0);
    if (tool == 0) {
        dup2(out[1], STDOUT_FILENO);
        tool_exec(argv);
    }
    close(out[1]);
    while (lines < 2) {
        assert_int_equal(read(out[0], &byte, 1), 1);
        lines += byte == '\n';
    }
    close(out[0]);
    assert_int_equal(waitpid(tool, &status, 0), tool);
    assert_int_equal(status, 0);
    stop_task(worker);
    stop_task(ps);
    free_job(&j);
}

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "it takes the address of one task, HOST:PORT, and 0 are given", "status");
    TOOL_OUT(2, "", "it takes the address of one task, HOST:PORT, and 2 are given", "status", "a:1", "b:1");
    TOOL_OUT(2, "", "--watch takes a number from 1 to 86400, not 0", "status", "--watch", "0", "a:1");
    TOOL_OUT(2, "", "udp", "status", "--transport", "udp", "a:1");
    TOOL_OUT(1, "", "nonsense", "status", "--transport", "tcp", "nonsense");
}

int main(void)
{
    return est_test_run_apart(est_test_root_make, est_test_root_remove);
}
