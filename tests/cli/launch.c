/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc launch`: what the tasks are told, what becomes of their output, how it ends, and that nothing stays behind.
 * Tasks are shell scripts, or this program with an argument. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "cli/tool.h"
#include "estoc/cluster.h"

#define DEADLINE_SECS 30

static char self[512]; /* this program */

/* --- as a task ---------------------------------------------------------------------------------------------------- */

/* Listens at the address that TF_CONFIG has for this task, as a server does. */
static bool can_listen(const est_task *task)
{
    const char        *text    = est_cluster_address(task->cluster, task->type, task->index);
    struct sockaddr_in address = { .sin_family = AF_INET };
    int                fd      = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (text == NULL || strncmp(text, "127.0.0.1:", 10) != 0) return false;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port        = htons((uint16_t)strtol(text + 10, NULL, 10));
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) == 0 &&
           bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0;
}

static int be_task(bool no_chief)
{
    est_resolver   *resolver;
    const est_task *task;

    if (est_resolve_tf_config(NULL, EST_TASK_RULES(.no_chief_ok = no_chief), &resolver) != EST_OK) {
        fprintf(stderr, "%s\n", est_error_message());
        return 1;
    }
    task = est_resolver_task(resolver);
    printf("%s %d, %s, %d workers, %d ps, %s\n", task->type, task->index, task->is_chief ? "chief" : "not chief",
           task->num_worker_replicas, task->num_ps_replicas, can_listen(task) ? "listens" : "does not listen");
    est_resolver_free(resolver);
    return 0;
}

/* Its variables in one line, however they are written. */
static int show_variables(void)
{
    const char *text   = getenv("TF_CONFIG");
    est_json   *config = json_loads(text != NULL ? text : "", 0, NULL);
    char       *line   = json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);

    printf("%s %s\n", getenv("ESTOC_PROTOCOL"), line);
    free(line);
    est_json_free(config);
    return 0;
}

/* --- helpers ------------------------------------------------------------------------------------------------------ */

/* A launcher that runs while the test goes on: its output is read from a pipe. */
typedef struct running {
    pid_t pid;
    FILE *out; /* standard output and standard error */
} running;

static running start(const char *const *argv)
{
    int     ends[2];
    running r;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    r.pid = fork();
    assert_true(r.pid >= 0);
    if (r.pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        signal(SIGINT, SIG_DFL); /* who runs the test in the background may have it ignored */
        tool_exec(argv);
    }
    close(ends[1]);
    r.out = fdopen(ends[0], "re");
    assert_non_null(r.out);
    return r;
}

/* Reads lines until one has this in it, which is returned; good until the next call. */
static const char *wait_line(running *r, const char *part)
{
    static char line[4096];

    while (fgets(line, sizeof line, r->out) != NULL) {
        if (strstr(line, part) != NULL) return strstr(line, part);
    }
    fail_msg("no line has: %s", part);
    return NULL;
}

/* Reads to the end and returns how it ended, as tool_run.code. */
static int wait_end(running *r, est_strbuf *rest)
{
    char line[4096];
    int  status;

    while (fgets(line, sizeof line, r->out) != NULL) {
        if (rest != NULL) est_strbuf_append(rest, line);
    }
    fclose(r->out);
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A process that runs now, to wait for its end. */
static int watch(long pid)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

    assert_true(fd >= 0);
    return fd;
}

static void wait_gone(int fd)
{
    struct pollfd event = { .fd = fd, .events = POLLIN };

    if (poll(&event, 1, DEADLINE_SECS * 1000) != 1) fail_msg("a process is still there");
    close(fd);
}

static int count_parts(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

/* --- what tasks are told ------------------------------------------------------------------------------------------ */

TEST(every_task_resolves)
{
    static const char *const expected[] = {
        "chief:0     | chief 0, chief, 4 workers, 2 ps, listens\n",
        "worker:0    | worker 0, not chief, 4 workers, 2 ps, listens\n",
        "worker:1    | worker 1, not chief, 4 workers, 2 ps, listens\n",
        "worker:2    | worker 2, not chief, 4 workers, 2 ps, listens\n",
        "ps:0        | ps 0, not chief, 4 workers, 2 ps, listens\n",
        "ps:1        | ps 1, not chief, 4 workers, 2 ps, listens\n",
        "evaluator:0 | evaluator 0, not chief, 0 workers, 0 ps, does not listen\n",
    };
    tool_run run = TOOL(0, "launch", "--ps", "2", "--workers", "3", "--evaluator", "--", self, "task");

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        tool_expect_part(run.out, expected[i], "standard output");
    }
    tool_expect_part(run.out, "\ntask         exit  restarts   time\nchief:0      0            0  ", "standard output");
    tool_run_free(&run);
}

TEST(no_chief)
{
    tool_run run = TOOL(0, "launch", "--no-chief", "--workers", "2", "--", self, "task-no-chief");

    tool_expect_part(run.out, "worker:0 | worker 0, chief, 2 workers, 0 ps, listens\n", "standard output");
    tool_expect_part(run.out, "worker:1 | worker 1, not chief, 2 workers, 0 ps, listens\n", "standard output");
    assert_null(strstr(run.out, "chief:0"));
    tool_run_free(&run);
}

/* The variables but for TF_CONFIG; what is inherited under their names is not passed on, everything else is. */
TEST(variables)
{
    static const char show[] = "echo \"$ESTOC_PROTOCOL,$ESTOC_JOB,$ESTOC_CERTS,$ESTOC_NUM_THREADS,$MINE\"";
    tool_run          run;

    setenv("ESTOC_JOB", "another", 1);
    setenv("ESTOC_NUM_THREADS", "3", 1);
    setenv("MINE", "kept", 1);
    run = TOOL(0, "launch", "--workers", "0", "--transport", "tcp", "--", "sh", "-c", show);
    tool_expect_part(run.out, "chief:0 | tcp,launch-", "standard output");
    tool_expect_part(run.out, ",,3,kept\n", "standard output");
    assert_null(strstr(run.out, "another"));
    tool_run_free(&run);
    setenv("ESTOC_CERTS", "/nowhere", 1);
    run = TOOL(0, "launch", "--workers", "0", "--", "sh", "-c", show);
    tool_expect_part(run.out, "chief:0 | tls,launch-", "standard output");
    tool_expect_part(run.out, ",/nowhere,3,kept\n", "standard output");
    tool_run_free(&run);
    unsetenv("ESTOC_CERTS");
    unsetenv("ESTOC_JOB");
    unsetenv("ESTOC_NUM_THREADS");
    unsetenv("MINE");
}

/* The user's certificates are made before the tasks start, and nobody else can read them. */
TEST(certificates_of_a_run)
{
    const char *was = getenv("XDG_STATE_HOME");
    tool_run    run;

    assert_int_equal(mkdir(tool_path("state"), 0700), 0);
    setenv("XDG_STATE_HOME", tool_path("state"), 1);
    run = TOOL(0, "launch", "--workers", "0", "--", "sh", "-c",
               "cd $XDG_STATE_HOME/estoc; stat -c %a .; cat certificates/*.pem");
    assert_int_equal(count_parts(run.out, "-----BEGIN "), 3);
    tool_expect_part(run.out, "chief:0 | 700\n", "standard output");
    tool_run_free(&run);
    assert_int_equal(chmod(tool_path("state/estoc"), 0755), 0);
    run = TOOL(1, "launch", "--workers", "0", "--", "true");
    tool_expect_part(run.err, "has mode 0755, but keys need a directory of user", "standard error");
    tool_run_free(&run);
    setenv("XDG_STATE_HOME", was, 1);
}

/* While a task does not listen, nobody else gets its port: not another launcher, and no connection. */
TEST(ports_are_held)
{
    running r = start(TOOL_ARGV("launch", "--workers", "3", "--", "sh", "-c", "echo $TF_CONFIG; sleep 1000"));
    int     n = 0;

    for (const char *at = wait_line(&r, "{\"cluster\""); (at = strstr(at, "127.0.0.1:")) != NULL; n++) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        int                fd      = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        at += 10;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port        = htons((uint16_t)strtol(at, NULL, 10));
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), -1);
        assert_int_equal(errno, EADDRINUSE);
        close(fd);
    }
    assert_int_equal(n, 4);
    kill(r.pid, SIGTERM);
    assert_int_equal(wait_end(&r, NULL), 128 + SIGTERM);
}

/* A port from which on some are free. */
static void find_ports(char *base, size_t size)
{
    for (int port = 20000 + getpid() % 20000; port < 60000; port += 10) {
        tool_run run;
        int      code;

        snprintf(base, size, "%d", port);
        run  = tool_start(TOOL_ARGV("launch", "--workers", "4", "--port", base, "--dry-run", "--", "true"), -1);
        code = run.code;
        tool_run_free(&run);
        if (code == 0) return;
    }
    fail_msg("no free ports");
}

/* What a dry run prints, run by a shell, gives each task what a real run gives it. */
TEST(dry_run)
{
    tool_run dry, real;
    char     base[16], command[256], line[1024];
    FILE    *shell;
    int      n = 0;

    find_ports(base, sizeof base);
    dry  = TOOL(0, "launch", "--ps", "1", "--workers", "2", "--evaluator", "--transport", "tcp", "--port", base,
                "--dry-run", "--", self, "show", "it's $HOME \"quoted\"", "");
    real = TOOL(0, "launch", "--ps", "1", "--workers", "2", "--evaluator", "--transport", "tcp", "--port", base, "--",
                self, "show");
    tool_expect_part(dry.out, "'it'\\''s $HOME \"quoted\"' ''\n", "standard output");
    tool_expect_part(dry.out, "\n  \"task\": {\"type\": \"worker\", \"index\": 1}\n}' ", "standard output");
    snprintf(command, sizeof command, "sh %s", tool_write_text("dry-run.sh", dry.out));
    shell = popen(command, "re");
    assert_non_null(shell);
    for (; fgets(line, sizeof line, shell) != NULL; n++) tool_expect_part(real.out, line, "standard output");
    assert_int_equal(pclose(shell), 0);
    assert_int_equal(n, 5);
    tool_run_free(&dry);
    tool_run_free(&real);
}

/* Tasks on one machine need no certificates of their own. */
TEST(dry_run_with_tls)
{
    tool_run    run = TOOL(0, "launch", "--dry-run", "--", "./train");
    est_json   *root;
    const char *text;

    tool_expect_part(run.out, "env ESTOC_PROTOCOL=tls ESTOC_JOB=launch-", "standard output");
    tool_run_free(&run);
    run  = TOOL(0, "launch", "--dry-run", "--json", "--", "./train", "-x");
    root = tool_json(run.out);
    tool_check(est_json_string(root, &text, "tasks[1].task"));
    assert_string_equal(text, "worker:0");
    tool_check(est_json_string(root, &text, "tasks[1].environment.ESTOC_PROTOCOL"));
    assert_string_equal(text, "tls");
    tool_check(est_json_string(root, &text, "tasks[1].command[1]"));
    assert_string_equal(text, "-x");
    est_json_free(root);
    tool_run_free(&run);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

TEST(output)
{
    tool_run run = TOOL(0, "launch", "--workers", "0", "--log-dir", tool_path("logs"), "--", "sh", "-c",
                        "echo one; printf '\\000\\377two\\r\\n'; echo oops >/dev/stderr; printf end");
    size_t   size;
    char    *log = tool_read_file(tool_path("logs/chief-0.log"), &size);

    assert_memory_equal(run.out, "chief:0 | one\nchief:0 | \0\377two\r\nchief:0 | end\ntask", 49);
    tool_expect_text(run.err, "chief:0 | oops\n", "standard error");
    assert_int_equal(size, 4 + 7 + 5 + 3);
    assert_int_equal(memcmp(log, "one\n\0\377two\r\n", 11), 0);
    est_free(log);
    tool_run_free(&run);
}

/* The first line is the call of `estoc status` that finds the run; it is by the ps, and the variables are those of the
 * tasks. */
TEST(how_to_look)
{
    tool_run run  = TOOL(0, "launch", "--ps", "1", "--", "sh", "-c", "echo \"ESTOC_JOB=$ESTOC_JOB $TF_CONFIG\"");
    char    *line = strstr(run.out, "ESTOC_JOB="), *ps = strstr(run.out, "\"ps\": [\""), port[32], want[512];

    assert_true(line != NULL && ps != NULL);
    assert_int_equal(sscanf(ps, "\"ps\": [\"%31[^\"]", port), 1);
    snprintf(want, sizeof want, "estoc launch: look at it: %.*s estoc status %s\n", (int)strcspn(line, "{") - 1, line,
             port);
    run.err[strcspn(run.err, "\n") + 1] = '\0';
    tool_expect_text(run.err, want, "the first line");
    tool_run_free(&run);
    run = TOOL(0, "launch", "--transport", "tcp", "--", "true");
    tool_expect_part(run.err, " ESTOC_PROTOCOL=tcp estoc status 127.0.0.1:", "standard error");
    tool_run_free(&run);
}

/* A line without end does not fill the memory: it is printed in pieces. */
TEST(long_line)
{
    tool_run run = TOOL(0, "launch", "--workers", "0", "--", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo");
    size_t   n   = 0;

    for (size_t i = 0; i < run.out_size; i++) n += run.out[i] == 'x';
    assert_int_equal(n, 200000 + 1); /* one in the table */
    assert_int_equal(count_parts(run.out, "chief:0 | x"), 4);
    tool_run_free(&run);
}

/* When nobody reads any more the tasks go on, and it is no failure. */
TEST(output_that_nobody_reads)
{
    int      ends[2];
    tool_run run;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    run = tool_start(TOOL_ARGV("launch", "--workers", "0", "--", "sh", "-c", "echo lost; echo seen >&2"), ends[1]);
    close(ends[1]);
    assert_int_equal(run.code, 0);
    tool_expect_text(run.err, "chief:0 | seen\n", "standard error");
    tool_run_free(&run);
}

TEST(log_dir_that_fails)
{
    tool_write_text("file", "");
    TOOL_OUT(1, "", "is not a directory", "launch", "--workers", "0", "--log-dir", tool_path("file/logs"), "--",
             "true");
}

/* Runs it with a terminal as its standard output and returns what came there: a line of each of two tasks. */
static void run_on_terminal(char *out, size_t size)
{
    int           master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
    struct pollfd output = { .fd = master, .events = POLLIN };
    tool_run      run;
    ssize_t       n;

    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    run = tool_start(TOOL_ARGV("launch", "--", "echo", "hello"), slave);
    assert_int_equal(run.code, 0);
    for (int lines = 0; lines < 2; out += n, size -= (size_t)n) {
        if (poll(&output, 1, DEADLINE_SECS * 1000) != 1) fail_msg("the terminal has %d lines", lines);
        n = read(master, out, size - 1);
        assert_true(n > 0);
        out[n] = '\0';
        for (const char *at = out; (at = strchr(at, '\n')) != NULL; at++) lines++;
    }
    tool_run_free(&run);
    close(slave);
    close(master);
}

TEST(colours)
{
    char out[4096];

    unsetenv("NO_COLOR");
    run_on_terminal(out, sizeof out);
    tool_expect_part(out, "\033[36mchief:0  | \033[0mhello\r\n", "the terminal");
    tool_expect_part(out, "\033[33mworker:0 | \033[0mhello\r\n", "the terminal");
    setenv("NO_COLOR", "1", 1);
    run_on_terminal(out, sizeof out);
    unsetenv("NO_COLOR");
    assert_null(strchr(out, '\033'));
    tool_expect_part(out, "chief:0  | hello\r\n", "the terminal");
}

TEST(as_json)
{
    tool_run    run  = TOOL(3, "launch", "--json", "--", "sh", "-c",
                            "case $TF_CONFIG in *worker\\\",*) echo bad; exit 3;; esac; sleep 1000");
    est_json   *root = tool_json(run.out);
    int64_t     code;
    const char *text;

    tool_check(est_json_i64(root, &code, "exit"));
    assert_int_equal(code, 3);
    tool_check(est_json_string(root, &text, "failed"));
    assert_string_equal(text, "worker:0");
    tool_check(est_json_string(root, &text, "tasks[0].signal"));
    assert_string_equal(text, "SIGTERM");
    tool_check(est_json_i64(root, &code, "tasks[1].exit"));
    assert_int_equal(code, 3);
    tool_expect_part(run.err, "worker:0 | bad\n", "standard error");
    est_json_free(root);
    tool_run_free(&run);
}

/* --- how it ends -------------------------------------------------------------------------------------------------- */

#define IF_WORKER "case $TF_CONFIG in *'\"type\": \"worker\"'*) "

TEST(exit_code_of_the_first)
{
    tool_run run = TOOL(7, "launch", "--ps", "1", "--", "sh", "-c",
                        IF_WORKER
                        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 7;; esac; sleep 1000");

    tool_expect_part(run.err, "estoc launch: worker:0 has failed; stopping the others\n", "standard error");
    tool_expect_part(run.err, "estoc launch: worker:0 ended with exit code 7; its last lines:\n  line 3\n  line 4\n",
                     "standard error");
    tool_expect_part(run.err, "  line 12\n", "standard error");
    tool_expect_part(run.out, "chief:0   SIGTERM, stopped by launch ", "standard output");
    tool_expect_part(run.out, "worker:0  7   ", "standard output");
    tool_run_free(&run);
    run = TOOL(128 + SIGKILL, "launch", "--", "sh", "-c", IF_WORKER "kill -9 $$;; esac; sleep 1000");
    tool_expect_part(run.err, "estoc launch: worker:0 was killed by SIGKILL\n", "standard error");
    tool_run_free(&run);
}

/* Who waits for whom is said when nobody trains any more. */
TEST(waits_for_all)
{
    char    script[512];
    running r;

    assert_int_equal(mkfifo(tool_path("serving"), 0600), 0);
    snprintf(
        script, sizeof script,
        "case $TF_CONFIG in *'\"type\": \"ps\"'*) trap 'exit 0' TERM; echo >%s; sleep 1000 & wait;; esac; read x <%s",
        tool_path("serving"), tool_path("serving"));
    r = start(TOOL_ARGV("launch", "--ps", "1", "--workers", "0", "--", "sh", "-c", script));
    wait_line(&r, "training has ended; waiting for ps:0\n");
    kill(r.pid, SIGTERM);
    assert_int_equal(wait_end(&r, NULL), 0);
}

TEST(restart)
{
    char     script[512];
    tool_run run;

    snprintf(script, sizeof script, IF_WORKER "echo run >>%s; [ $(wc -l <%s) = 3 ] || exit 5;; esac", tool_path("runs"),
             tool_path("runs"));
    run = TOOL(0, "launch", "--restart", "2", "--", "sh", "-c", script);
    tool_expect_part(run.err, "worker:0 ended with exit code 5; restart 1 of 2 in 0.2 s\n", "standard error");
    tool_expect_part(run.err, "worker:0 ended with exit code 5; restart 2 of 2 in 0.5 s\n", "standard error");
    tool_expect_part(run.out, "worker:0  0            2 ", "standard output");
    tool_run_free(&run);
    unlink(tool_path("runs"));
    run = TOOL(5, "launch", "--restart", "1", "--", "sh", "-c", script);
    tool_expect_part(run.out, "worker:0  5            1 ", "standard output");
    tool_run_free(&run);
    unlink(tool_path("runs"));
    run = TOOL(0, "launch", "--restart", "always", "--", "sh", "-c", script);
    tool_expect_part(run.err, "; restart 2 in 0.5 s\n", "standard error");
    tool_run_free(&run);
}

/* A task that is started again has the same TF_CONFIG, and its port is free although the launcher holds it. */
TEST(restart_has_the_same_port)
{
    char     script[1200];
    tool_run run;

    snprintf(script, sizeof script, "%s task; echo $TF_CONFIG >>%s; [ $(wc -l <%s) = 2 ]", self, tool_path("configs"),
             tool_path("configs"));
    run = TOOL(0, "launch", "--workers", "0", "--restart", "1", "--", "sh", "-c", script);
    assert_int_equal(count_parts(run.out, "listens\n"), 2);
    assert_int_equal(count_parts(run.out, "does not listen"), 0);
    tool_run_free(&run);
    snprintf(script, sizeof script, "test $(sort -u %s | wc -l) = 1", tool_path("configs"));
    assert_int_equal(system(script), 0);
}

/* A first signal is passed on, and tasks may end well. */
TEST(signal_is_passed_on)
{
    running r = start(
        TOOL_ARGV("launch", "--", "sh", "-c", "trap 'echo stopped; exit 0' INT; echo ready; sleep 1000 & wait"));
    est_strbuf rest = { 0 };

    wait_line(&r, "| ready");
    wait_line(&r, "| ready");
    kill(r.pid, SIGINT);
    assert_int_equal(wait_end(&r, &rest), 0);
    tool_expect_part(est_strbuf_text(&rest), "SIGINT: forwarded", "the output");
    assert_int_equal(count_parts(est_strbuf_text(&rest), "| stopped\n"), 2);
    assert_int_equal(count_parts(est_strbuf_text(&rest), "stopped by launch"), 0);
    est_strbuf_clear(&rest);
}

#define STUBBORN "trap '' TERM; echo ready; while :; do sleep 1000; done"

TEST(second_signal_kills)
{
    running r = start(TOOL_ARGV("launch", "--workers", "0", "--", "sh", "-c", STUBBORN));

    wait_line(&r, "| ready");
    kill(r.pid, SIGTERM);
    wait_line(&r, "SIGTERM: forwarded");
    kill(r.pid, SIGTERM);
    assert_int_equal(wait_end(&r, NULL), 128 + SIGKILL);
}

/* One that does not end when asked is killed after the grace. */
TEST(grace)
{
    char     script[512];
    tool_run run;

    assert_int_equal(mkfifo(tool_path("ready"), 0600), 0);
    snprintf(script, sizeof script,
             IF_WORKER "read x <%s; exit 9;; esac; trap '' TERM; echo >%s; while :; do sleep 1000; done",
             tool_path("ready"), tool_path("ready"));
    run = TOOL(9, "launch", "--grace", "1", "--", "sh", "-c", script);
    tool_expect_part(run.err, "tasks have not ended after 1 s; killing them\n", "standard error");
    tool_expect_part(run.out, "chief:0   SIGKILL, stopped by launch ", "standard output");
    tool_run_free(&run);
}

/* --- nothing stays behind ----------------------------------------------------------------------------------------- */

#define WITH_CHILD "sleep 1000 & echo pids $$ $!; "

/* Reads the two numbers that a task with a child prints. */
static void watch_pids(running *r, int *parent, int *child)
{
    char *at;
    long  first, second;

    at      = (char *)(uintptr_t)wait_line(r, "pids ") + 5;
    first   = strtol(at, &at, 10);
    second  = strtol(at, NULL, 10);
    *parent = watch(first);
    *child  = watch(second);
}

/* What a task has started goes with it, also when it is deaf to SIGTERM and when the task itself ends well. */
TEST(grandchildren)
{
    running r = start(
        TOOL_ARGV("launch", "--workers", "0", "--", "sh", "-c", "trap '' TERM; trap 'exit 0' INT; " WITH_CHILD "wait"));
    int task, child;

    watch_pids(&r, &task, &child);
    kill(r.pid, SIGINT);
    assert_int_equal(wait_end(&r, NULL), 0);
    wait_gone(task);
    wait_gone(child);
}

/* One that left the group is not ours, and does not keep us from ending though it holds the pipes. */
TEST(one_that_left)
{
    running r = start(TOOL_ARGV("launch", "--workers", "0", "--", "sh", "-c", "setsid sleep 1000 & echo pid $!"));
    long    pid;

    pid = strtol(wait_line(&r, "pid ") + 4, NULL, 10);
    assert_int_equal(wait_end(&r, NULL), 0);
    kill((pid_t)pid, SIGKILL);
}

/* A launcher that is killed leaves no process. */
TEST(killed_launcher)
{
    running r = start(TOOL_ARGV("launch", "--", "sh", "-c", "trap '' TERM INT HUP; " WITH_CHILD "wait"));
    int     pids[4];

    watch_pids(&r, &pids[0], &pids[1]);
    watch_pids(&r, &pids[2], &pids[3]);
    kill(r.pid, SIGKILL);
    assert_int_equal(wait_end(&r, NULL), 1000 + SIGKILL);
    for (int i = 0; i < 4; i++) wait_gone(pids[i]);
}

/* --- usage -------------------------------------------------------------------------------------------------------- */

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "write the program and its arguments after --\n", "launch", "--ps", "1");
    TOOL_OUT(2, "", "write the program and its arguments after --\n", "launch", "true", "--ps", "1");
    TOOL_OUT(2, "", "--no-chief with --workers 0 leaves no task that trains", "launch", "--no-chief", "--workers", "0",
             "--", "true");
    TOOL_OUT(2, "", "--transport takes tls, tcp or ucx, not \"grpc\"", "launch", "--transport", "grpc", "--", "true");
    TOOL_OUT(2, "", "--restart takes a number from 0 up, not \"never\"", "launch", "--restart", "never", "--", "true");
    TOOL_OUT(2, "", "--workers takes at most 512, not 513", "launch", "--workers", "513", "--", "true");
    TOOL_OUT(2, "", "that makes 603 tasks; at most 512 are possible", "launch", "--workers", "301", "--ps", "301", "--",
             "true");
    TOOL_OUT(2, "", "--port 65535 leaves no room for 2 ports", "launch", "--port", "65535", "--", "true");
    TOOL_OUT(3, "", "cannot run no-such-program: it is not in PATH", "launch", "--", "no-such-program");
    TOOL_OUT(3, "", "cannot run ./no-such-program: No such file", "launch", "--", "./no-such-program");
}

int main(int argc, char **argv)
{
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n < 0) return 1;
    if (argc > 1 && strcmp(argv[1], "task") == 0) return be_task(false);
    if (argc > 1 && strcmp(argv[1], "task-no-chief") == 0) return be_task(true);
    if (argc > 1 && strcmp(argv[1], "show") == 0) return show_variables();
    return est_test_run(est_test_root_make, est_test_root_remove);
}
