/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc launch`: a cluster on this machine. This file makes the tasks of the cluster and their variables, prints or
 * runs them, and reports the result. */
#include "launch.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "cluster/ports.h"
#include "net/certificates.h"
#include "output.h"

#define TASKS_MAX   512
#define HOST        "127.0.0.1"
#define PORT_MAX    65535
#define SECS_MAX    1000000000
#define SIGNAL_EXIT 128 /* a shell's exit code for a signal, less its number */

enum {
    OPTION_PS = TOOL_OPTION_OWN,
    OPTION_WORKERS,
    OPTION_NO_CHIEF,
    OPTION_EVALUATOR,
    OPTION_RESTART,
    OPTION_GRACE,
    OPTION_TRANSPORT,
    OPTION_PORT,
    OPTION_LOG_DIR,
    OPTION_DRY_RUN
};

static const tool_option options[] = {
    { "ps", OPTION_PS, "N", "parameter servers (0)" },
    { "workers", OPTION_WORKERS, "N", "workers besides the chief (1)" },
    { "no-chief", OPTION_NO_CHIEF, NULL, "no chief: worker 0 acts as one, as in MultiWorkerMirroredStrategy" },
    { "evaluator", OPTION_EVALUATOR, NULL, "an evaluator, which is not part of the cluster" },
    { "restart", OPTION_RESTART, "N|always", "restart a failed task, at most N times each (0)" },
    { "grace", OPTION_GRACE, "SECS", "time between SIGTERM and SIGKILL (30)" },
    { "transport", OPTION_TRANSPORT, "NAME",
      "between tasks: tls (encrypted, the default), tcp (not\n"
      "encrypted), or ucx (shared memory and RDMA, for trusted machines)",
      .choices_of = tool_transports },
    { "port", OPTION_PORT, "BASE", "ports BASE, BASE+1, ... instead of free ones" },
    { "log-dir", OPTION_LOG_DIR, "DIR", "also write the output of a task to DIR/<type>-<index>.log" },
    { "dry-run", OPTION_DRY_RUN, NULL, "print the command line of every task, start nothing" },
    TOOL_COMMON_OPTIONS,
};

const char *const launch_variable_names[LAUNCH_VARIABLES] = { "TF_CONFIG", "ESTOC_JOB", "ESTOC_PROTOCOL" };

/* --- what was asked for ------------------------------------------------------------------------------------------- */

static bool read_number(const char *option, const char *value, int64_t max, int64_t *out)
{
    if (!tool_count(&tool_launch, option, value, out)) return false;
    if (*out <= max) return true;
    tool_usage(&tool_launch, "--%s takes at most %" PRId64 ", not %s", option, max, value);
    return false;
}

static bool read_restart(const char *value, int64_t *out)
{
    if (strcmp(value, "always") != 0) return read_number("restart", value, INT32_MAX, out);
    *out = LAUNCH_ALWAYS;
    return true;
}

/* One option; false when its value is wrong, which has been reported then. */
static bool read_option(launch *l, int id, const char *value)
{
    switch (id) {
    case OPTION_PS: return read_number("ps", value, TASKS_MAX, &l->n_ps);
    case OPTION_WORKERS: return read_number("workers", value, TASKS_MAX, &l->n_workers);
    case OPTION_NO_CHIEF: l->no_chief = true; return true;
    case OPTION_EVALUATOR: l->has_evaluator = true; return true;
    case OPTION_RESTART: return read_restart(value, &l->restarts_max);
    case OPTION_GRACE: return read_number("grace", value, SECS_MAX, &l->grace_secs);
    case OPTION_TRANSPORT: l->transport = value; return tool_option_choice(&tool_launch, id, value) >= 0;
    case OPTION_PORT: return read_number("port", value, PORT_MAX, &l->port_base);
    case OPTION_LOG_DIR: l->log_dir = value; return true;
    case OPTION_DRY_RUN: l->dry_run = true; return true;
    default: l->json = true; return true;
    }
}

static tool_exit read_options(int argc, char **argv, launch *l)
{
    const char *value;
    int         id;
    int64_t     n_in_cluster;

    while ((id = tool_next_option(&tool_launch, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id < TOOL_OPTION_JSON) return tool_other_option(&tool_launch, id);
        if (!read_option(l, id, value)) return TOOL_USAGE;
    }
    if (optind == argc || strcmp(argv[optind - 1], "--") != 0) { /* or its options would be taken for ours */
        return tool_usage(&tool_launch, "write the program and its arguments after --");
    }
    if (l->no_chief && l->n_workers == 0) {
        return tool_usage(&tool_launch, "--no-chief with --workers 0 leaves no task that trains");
    }
    n_in_cluster = l->n_ps + l->n_workers + !l->no_chief;
    if (n_in_cluster > TASKS_MAX) {
        return tool_usage(&tool_launch, "that makes %" PRId64 " tasks; at most %d are possible", n_in_cluster,
                          TASKS_MAX);
    }
    if (l->port_base > PORT_MAX - n_in_cluster + 1) {
        return tool_usage(&tool_launch, "--port %" PRId64 " leaves no room for %" PRId64 " ports; they end at %d",
                          l->port_base, n_in_cluster, PORT_MAX);
    }
    l->argv = argv + optind;
    return TOOL_OK;
}

/* As execvp would find it; TOOL_OK when it does. One error here replaces one of every task. */
static tool_exit check_program(const char *name)
{
    const char *at = getenv("PATH");
    char        path[4096];

    if (strchr(name, '/') != NULL) {
        if (access(name, X_OK) == 0) return TOOL_OK;
        tool_note(&tool_launch, "cannot run %s: %s", name, strerror(errno));
        return TOOL_NO_FILE;
    }
    while (at != NULL) {
        size_t size = strcspn(at, ":");
        int    n    = snprintf(path, sizeof path, "%.*s/%s", (int)size, size > 0 ? at : ".", name);

        if (n > 0 && (size_t)n < sizeof path && access(path, X_OK) == 0) return TOOL_OK;
        at = at[size] == ':' ? at + size + 1 : NULL;
    }
    tool_note(&tool_launch, "cannot run %s: it is not in PATH", name);
    return TOOL_NO_FILE;
}

/* --- tasks -------------------------------------------------------------------------------------------------------- */

static void add_tasks(launch *l, const char *type, int64_t n)
{
    for (int i = 0; i < (int)n; i++) {
        launch_task *task = &l->tasks[l->n_tasks++];

        task->owner      = l;
        task->type       = type;
        task->index      = i;
        task->trains     = strcmp(type, "chief") == 0 || strcmp(type, "worker") == 0;
        task->socket     = -1;
        task->output.log = -1;
        snprintf(task->name, sizeof task->name, "%s:%d", type, i);
    }
}

static est_status make_tasks(launch *l)
{
    static const int colours[] = { 36, 33, 32, 35, 34, 96, 93, 92, 95, 94 }; /* not red, which is for errors */
    uint64_t         name;
    int              width = 0;

    if (getrandom(&name, sizeof name, 0) != (ssize_t)sizeof name) name = (uint64_t)est_wall_ns();
    snprintf(l->job, sizeof l->job, "launch-%016" PRIx64, name);
    l->tasks = est_zalloc((size_t)(l->n_ps + l->n_workers + 2) * sizeof *l->tasks);
    if (l->tasks == NULL) return est_no_memory();
    add_tasks(l, "chief", !l->no_chief);
    add_tasks(l, "worker", l->n_workers);
    add_tasks(l, "ps", l->n_ps);
    add_tasks(l, "evaluator", l->has_evaluator);
    for (int i = 0; i < l->n_tasks; i++) {
        int size = (int)strlen(l->tasks[i].name);

        if (size > width) width = size;
    }
    for (int i = 0; i < l->n_tasks; i++) {
        launch_output *output = &l->tasks[i].output;

        snprintf(output->prefix, sizeof output->prefix, "%-*s | ", width, l->tasks[i].name);
        output->colour    = colours[(size_t)i % (sizeof colours / sizeof colours[0])];
        output->to_stderr = l->json;
    }
    return EST_OK;
}

/* Ports are held to the end, so that a restarted task finds its port free. */
static est_status hold_ports(launch *l)
{
    for (int i = 0; i < l->n_tasks; i++) {
        launch_task *task   = &l->tasks[i];
        int          wanted = l->port_base > 0 ? (int)l->port_base + i : 0;
        est_status   status;

        if (strcmp(task->type, "evaluator") == 0) continue;
        status = est_port_hold(wanted, &task->socket, &task->port);
        if (status == EST_OK) continue;
        return est_fail_context(status, "%s%s", task->name, wanted > 0 ? " (choose another --port, or none)" : "");
    }
    return EST_OK;
}

static void free_tasks(launch *l)
{
    for (int i = 0; i < l->n_tasks; i++) {
        if (l->tasks[i].socket >= 0) close(l->tasks[i].socket);
        launch_output_close(&l->tasks[i].output);
    }
    est_free(l->tasks);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static void break_line(est_strbuf *out, bool is_pretty, int depth)
{
    if (is_pretty) est_strbuf_printf(out, "\n%*s", 2 * depth, "");
}

/* The addresses of one job, which follow each other. */
static void append_job(const launch *l, const char *type, est_strbuf *out)
{
    bool is_first = true;

    est_strbuf_printf(out, "\"%s\": [", type);
    for (int i = 0; i < l->n_tasks; i++) {
        if (strcmp(l->tasks[i].type, type) != 0) continue;
        est_strbuf_printf(out, "%s\"" HOST ":%d\"", is_first ? "" : ", ", l->tasks[i].port);
        is_first = false;
    }
    est_strbuf_append(out, "]");
}

/* TensorFlow's form. The evaluator is no part of the cluster, not even for itself. */
static void append_tf_config(const launch_task *task, bool is_pretty, est_strbuf *out)
{
    const launch *l    = task->owner;
    const char   *type = NULL;

    est_strbuf_append(out, "{");
    break_line(out, is_pretty, 1);
    est_strbuf_append(out, "\"cluster\": {");
    for (int i = 0; i < l->n_tasks; i++) {
        if (l->tasks[i].port == 0 || l->tasks[i].type == type) continue;
        if (type != NULL) est_strbuf_append(out, is_pretty ? "," : ", ");
        type = l->tasks[i].type;
        break_line(out, is_pretty, 2);
        append_job(l, type, out);
    }
    break_line(out, is_pretty, 1);
    est_strbuf_append(out, is_pretty ? "}," : "}, ");
    break_line(out, is_pretty, 1);
    est_strbuf_printf(out, "\"task\": {\"type\": \"%s\", \"index\": %d}", task->type, task->index);
    break_line(out, is_pretty, 0);
    est_strbuf_append(out, "}");
}

void launch_append_variable(const launch_task *task, int variable, bool is_pretty, est_strbuf *out)
{
    switch (variable) {
    case LAUNCH_TF_CONFIG: append_tf_config(task, is_pretty, out); break;
    case LAUNCH_JOB: est_strbuf_append(out, task->owner->job); break;
    default: est_strbuf_append(out, task->owner->transport); break;
    }
}

/* --- dry run ------------------------------------------------------------------------------------------------------ */

/* A word as a shell reads it back. */
static void append_quoted(est_strbuf *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@%+";

    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        est_strbuf_append(out, text);
        return;
    }
    est_strbuf_append(out, "'");
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            est_strbuf_append(out, "'\\''");
        } else {
            est_strbuf_append_bytes(out, text, 1);
        }
    }
    est_strbuf_append(out, "'");
}

static void append_command_line(const launch_task *task, est_strbuf *out)
{
    const launch *l = task->owner;

    est_strbuf_printf(out, "\n# %s\nenv", task->name);
    for (int i = LAUNCH_VARIABLES - 1; i >= 0; i--) {
        est_strbuf value = { 0 };

        launch_append_variable(task, i, true, &value);
        est_strbuf_printf(out, " %s=", launch_variable_names[i]);
        append_quoted(out, est_strbuf_text(&value));
        if (value.failed) out->failed = true;
        est_strbuf_clear(&value);
    }
    for (int i = 0; l->argv[i] != NULL; i++) {
        est_strbuf_append(out, " ");
        append_quoted(out, l->argv[i]);
    }
    est_strbuf_append(out, "\n");
}

static void append_command_json(const launch_task *task, est_strbuf *out)
{
    const launch *l = task->owner;

    est_strbuf_printf(out, "{\"task\": \"%s\", \"environment\": {", task->name);
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        est_strbuf value = { 0 };

        launch_append_variable(task, i, false, &value);
        est_strbuf_printf(out, "%s\"%s\": ", i > 0 ? ", " : "", launch_variable_names[i]);
        tool_append_json_text(out, est_strbuf_text(&value));
        if (value.failed) out->failed = true;
        est_strbuf_clear(&value);
    }
    est_strbuf_append(out, "}, \"command\": [");
    for (int i = 0; l->argv[i] != NULL; i++) {
        est_strbuf_append(out, i > 0 ? ", " : "");
        tool_append_json_text(out, l->argv[i]);
    }
    est_strbuf_append(out, "]}");
}

static est_status show_tasks(launch *l)
{
    est_strbuf out = { 0 };
    est_status status;

    if (l->json) est_strbuf_append(&out, "{\"tasks\": [");
    for (int i = 0; i < l->n_tasks; i++) {
        if (!l->json) {
            append_command_line(&l->tasks[i], &out);
        } else {
            est_strbuf_append(&out, i > 0 ? ", " : "");
            append_command_json(&l->tasks[i], &out);
        }
    }
    if (l->json) est_strbuf_append(&out, "]}\n");
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static est_status open_logs(launch *l)
{
    if (l->log_dir != NULL) EST_TRY(est_dir_create(l->log_dir));
    for (int i = 0; i < l->n_tasks; i++) {
        char name[48];

        snprintf(name, sizeof name, "%s-%d", l->tasks[i].type, l->tasks[i].index);
        EST_TRY(launch_output_open(&l->tasks[i].output, l->log_dir, name));
    }
    return EST_OK;
}

/* The folder that tasks inherit; NULL: they use the user's own certificates. */
static const char *named_certificates(void)
{
    const char *named = getenv("ESTOC_CERTS");

    return named != NULL && named[0] != '\0' ? named : NULL;
}

/* Makes the user's certificates before the tasks do, so that a failure is one error, and not one of every task. */
static est_status make_certificates(const launch *l)
{
    char folder[PATH_MAX];

    if (strcmp(l->transport, "tls") != 0 || named_certificates() != NULL) return EST_OK;
    return est_certificates_of_user(folder, sizeof folder);
}

/* Says how `estoc status` finds this run: by the last task of the cluster, which is a ps where there are some, and
 * these are the last to leave. A lone chief does not listen. */
static void say_how_to_look(const launch *l)
{
    const launch_task *task = NULL;
    est_strbuf         text = { 0 };

    for (int i = 1; i < l->n_tasks; i++) {
        if (l->tasks[i].port != 0) task = &l->tasks[i];
    }
    if (task == NULL) return;
    est_strbuf_printf(&text, "look at it: ESTOC_JOB=%s", l->job);
    if (strcmp(l->transport, "tls") != 0) {
        est_strbuf_printf(&text, " ESTOC_PROTOCOL=%s", l->transport);
    } else if (named_certificates() != NULL) {
        est_strbuf_append(&text, " ESTOC_CERTS=");
        append_quoted(&text, named_certificates());
    }
    est_strbuf_printf(&text, " estoc status " HOST ":%d", task->port);
    tool_note(&tool_launch, "%s", est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

static est_status run_tasks(launch *l)
{
    pid_t      keeper;
    est_status status;

    EST_TRY(open_logs(l));
    EST_TRY(make_certificates(l));
    EST_TRY(launch_keeper_start(&l->keeper_fd, &keeper));
    say_how_to_look(l);
    status = launch_run(l);
    launch_keeper_end(l->keeper_fd, keeper);
    return status;
}

static int exit_code(const launch *l)
{
    if (l->failed == NULL) return TOOL_OK;
    return l->failed->exit_signal != 0 ? SIGNAL_EXIT + l->failed->exit_signal : l->failed->exit_code;
}

static est_status print_table(const launch *l)
{
    static const char *const names[] = { "task", "exit", "restarts", "time" };
    tool_table               table   = { .right = 0xc };
    est_status               status  = EST_OK;

    tool_table_begin(&table, names, 4);
    for (int i = 0; i < l->n_tasks && status == EST_OK; i++) {
        const launch_task *task = &l->tasks[i];
        const char        *why  = task->was_stopped ? ", stopped by launch" : "";

        tool_table_cell(&table, "%s", task->name);
        if (task->exit_signal != 0) {
            tool_table_cell(&table, "SIG%s%s", sigabbrev_np(task->exit_signal), why);
        } else {
            tool_table_cell(&table, "%d%s", task->exit_code, why);
        }
        tool_table_cell(&table, "%" PRId64, task->n_restarts);
        tool_table_cell(&table, "%.1f s", (double)task->ran_ns / EST_NS_PER_SEC);
        status = tool_table_row(&table);
    }
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    return status;
}

static est_status print_json(const launch *l)
{
    est_strbuf out = { 0 };
    est_status status;

    est_strbuf_printf(&out, "{\"exit\": %d, \"failed\": ", exit_code(l));
    est_strbuf_printf(&out, l->failed != NULL ? "\"%s\"" : "null", l->failed != NULL ? l->failed->name : "");
    est_strbuf_append(&out, ", \"tasks\": [");
    for (int i = 0; i < l->n_tasks; i++) {
        const launch_task *task = &l->tasks[i];

        est_strbuf_printf(&out, "%s{\"task\": \"%s\", ", i > 0 ? ", " : "", task->name);
        if (task->exit_signal != 0) {
            est_strbuf_printf(&out, "\"exit\": null, \"signal\": \"SIG%s\"", sigabbrev_np(task->exit_signal));
        } else {
            est_strbuf_printf(&out, "\"exit\": %d, \"signal\": null", task->exit_code);
        }
        est_strbuf_printf(&out, ", \"restarts\": %" PRId64 ", \"secs\": %.3f}", task->n_restarts,
                          (double)task->ran_ns / EST_NS_PER_SEC);
    }
    est_strbuf_append(&out, "]}\n");
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}

/* The last message: the task that failed, and its last output. */
static void say_failure(const launch *l)
{
    est_strbuf text = { 0 };

    launch_append_end(l->failed, &text);
    if (l->failed->output.n_lines > 0) {
        est_strbuf_append(&text, "; its last lines:");
        launch_output_append_last(&l->failed->output, &text);
    }
    tool_note(&tool_launch, "%s %s", l->failed->name, est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

static tool_exit launch_command_run(int argc, char **argv)
{
    launch     l    = { .n_workers = 1, .grace_secs = 30, .transport = "tls" };
    tool_exit  code = read_options(argc, argv, &l);
    est_status status;

    if (code == TOOL_OK && !l.dry_run) code = check_program(l.argv[0]);
    if (code != TOOL_OK) return code;
    status = make_tasks(&l);
    if (status == EST_OK) status = hold_ports(&l);
    if (status == EST_OK && l.dry_run) status = show_tasks(&l);
    if (status == EST_OK && !l.dry_run) {
        status = run_tasks(&l);
        if (status == EST_OK) {
            code   = (tool_exit)exit_code(&l);
            status = l.json ? print_json(&l) : print_table(&l);
        }
        if (l.failed != NULL && !l.is_interrupted) say_failure(&l);
    }
    free_tasks(&l);
    if (status != EST_OK && code == TOOL_OK) code = tool_failed(&tool_launch, status);
    return code;
}

const tool_command tool_launch = {
    .name      = "launch",
    .summary   = "start a cluster on this machine: chief, workers, parameter servers, evaluator",
    .arguments = "[options] -- PROGRAM [ARGUMENT ...]",
    .description =
        "Starts PROGRAM once for every task of a cluster, each with its own TF_CONFIG, on free ports of the\n"
        "loopback interface, which talk over TLS with the user's own certificates, unless ESTOC_CERTS names others.\n"
        "The output of the tasks appears line by line, each with the name of its task.\n"
        "\n"
        "The command ends when all tasks have ended, with exit code 0 if all of them succeeded. When a task fails\n"
        "and is not restarted (--restart), the others get SIGTERM, and SIGKILL after --grace seconds; the exit code\n"
        "is that of the task that failed first, or 128 + the number of its signal. SIGINT, SIGTERM and SIGHUP are\n"
        "forwarded to the tasks; a second one kills them. All processes that the tasks have started are killed at\n"
        "the end, even if estoc itself is killed.\n"
        "\n"
        "With --json the last line is a JSON object on standard output, and the output of the tasks goes to\n"
        "standard error.\n",
    .options = options,
    .examples =
        "  estoc launch --ps 2 --workers 3 --evaluator -- ./train --model-dir runs/ads\n"
        "  estoc launch --no-chief --workers 4 --restart 3 --log-dir logs -- ./train\n"
        "  estoc launch --no-chief --workers 2 -- estoc train job.yaml --set run.strategy=multi_worker_mirrored\n"
        "  estoc launch --ps 1 --dry-run -- ./train              shows TF_CONFIG of every task\n",
    .takes = TOOL_TAKES_FILES,
    .run   = launch_command_run,
};
