/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of `estoc launch`, over libuv. Every task leads a process group, and signals go to the group, so that
 * they reach what the task has started.
 *
 * The life of a task: spawned; its process ends, and what is left of its group is killed; its two pipes end or are
 * given up; then it is settled: done, or started again after a pause. All is over when every task is done. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "launch.h"

#define PIPES_MS 1000 /* how long pipes may stay open after the process: one that left its group may hold them */

static const int pauses_ms[] = { 200, 500, 1000, 2000, 5000 }; /* before the first restart, the second, ... */

#define N_PAUSES ((int)(sizeof pauses_ms / sizeof pauses_ms[0]))

static const int caught[] = { SIGINT, SIGTERM, SIGHUP };

/* Tells the keeper its number, then becomes the program, which does not get that pipe. */
static const char enter[] = "echo $$ >&3 && exec \"$@\" 3>&-";

static void spawn(launch_task *task);
static void stop(launch *l, int signal_number);

/* --- the end of a task -------------------------------------------------------------------------------------------- */

static bool has_failed(const launch_task *task)
{
    return task->exit_code != 0 || task->exit_signal != 0;
}

void launch_append_end(const launch_task *task, est_strbuf *out)
{
    if (task->exit_signal != 0) {
        est_strbuf_printf(out, "was killed by SIG%s", sigabbrev_np(task->exit_signal));
    } else {
        est_strbuf_printf(out, "ended with exit code %d", task->exit_code);
    }
}

static void close_signals(launch *l)
{
    for (int i = 0; i < 3; i++) uv_close((uv_handle_t *)&l->signals[i], NULL);
    uv_close((uv_handle_t *)&l->grace, NULL);
}

/* Tasks that train end by themselves; others may wait forever. So the tasks that are waited for are named. */
static void say_who_is_left(const launch *l)
{
    est_strbuf names = { 0 };

    for (int i = 0; i < l->n_tasks; i++) {
        if (l->tasks[i].is_done) continue;
        if (l->tasks[i].trains) goto clear_names;
        est_strbuf_printf(&names, "%s%s", names.size > 0 ? ", " : "", l->tasks[i].name);
    }
    tool_note(&tool_launch, "training has ended; waiting for %s", est_strbuf_text(&names));
clear_names:
    est_strbuf_clear(&names);
}

static void finish(launch_task *task)
{
    launch *l = task->owner;

    task->is_done = true;
    uv_close((uv_handle_t *)&task->timer, NULL);
    l->n_live--;
    if (has_failed(task) && l->failed == NULL) l->failed = task;
    if (l->n_live == 0) {
        close_signals(l);
    } else if (has_failed(task) && !l->is_stopping) {
        tool_note(&tool_launch, "%s has failed; stopping the others", task->name);
        stop(l, SIGTERM);
    } else if (task->trains && !l->is_stopping) {
        say_who_is_left(l);
    }
}

static void on_pause_over(uv_timer_t *timer)
{
    launch_task *task = timer->data;

    task->n_restarts++;
    spawn(task);
}

static void restart(launch_task *task)
{
    const launch *l    = task->owner;
    int           nth  = task->n_restarts < N_PAUSES ? (int)task->n_restarts : N_PAUSES - 1;
    est_strbuf    text = { 0 };

    est_strbuf_printf(&text, "%s ", task->name);
    launch_append_end(task, &text);
    est_strbuf_printf(&text, "; restart %" PRId64, task->n_restarts + 1);
    if (l->restarts_max != LAUNCH_ALWAYS) est_strbuf_printf(&text, " of %" PRId64, l->restarts_max);
    tool_note(&tool_launch, "%s in %g s", est_strbuf_text(&text), pauses_ms[nth] / 1e3);
    est_strbuf_clear(&text);
    uv_timer_start(&task->timer, on_pause_over, (uint64_t)pauses_ms[nth], 0);
}

static void on_closed(uv_handle_t *handle)
{
    launch_task  *task = handle->data;
    const launch *l    = task->owner;

    if (--task->n_handles > 0) return;
    uv_timer_stop(&task->timer);
    launch_output_end(&task->output);
    task->ran_ns += est_now_ns() - task->started_ns;
    if (has_failed(task) && !l->is_stopping && task->n_restarts < l->restarts_max) {
        restart(task);
    } else {
        finish(task);
    }
}

static void close_once(uv_handle_t *handle)
{
    if (!uv_is_closing(handle)) uv_close(handle, on_closed);
}

static void give_up_pipes(uv_timer_t *timer)
{
    launch_task *task = timer->data;

    for (int i = 0; i < 2; i++) close_once((uv_handle_t *)&task->pipes[i]);
}

static void on_exit(uv_process_t *process, int64_t exit_code, int exit_signal)
{
    launch_task *task = process->data;

    task->is_running  = false;
    task->exit_code   = (int)exit_code;
    task->exit_signal = exit_signal;
    kill(-process->pid, SIGKILL);
    launch_keeper_forget(task->owner->keeper_fd, process->pid);
    uv_timer_start(&task->timer, give_up_pipes, PIPES_MS, 0);
    close_once((uv_handle_t *)process);
}

/* --- the start of a task ------------------------------------------------------------------------------------------ */

static void lend_chunk(uv_handle_t *handle, size_t size, uv_buf_t *out)
{
    static char chunk[65536]; /* emptied before the next read */

    (void)handle, (void)size;
    *out = uv_buf_init(chunk, sizeof chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
    launch_task *task = stream->data;

    if (n > 0) launch_output_put(&task->output, stream == (uv_stream_t *)&task->pipes[1], chunk->base, (size_t)n);
    if (n < 0) close_once((uv_handle_t *)stream);
}

static bool is_ours(const char *variable)
{
    for (int i = 0; i < LAUNCH_VARIABLES; i++) {
        size_t size = strlen(launch_variable_names[i]);

        if (strncmp(variable, launch_variable_names[i], size) == 0 && variable[size] == '=') return true;
    }
    return false;
}

/* What is inherited, then our own; ends in NULL. To be freed with free_environment. */
static est_status make_environment(const launch_task *task, char ***out)
{
    size_t     n = 0, used = 0;
    char     **list;
    est_status status = EST_OK;

    while (environ[n] != NULL) n++;
    list = est_zalloc((n + LAUNCH_VARIABLES + 1) * sizeof *list);
    if (list == NULL) return est_no_memory();
    for (int i = 0; i < LAUNCH_VARIABLES && status == EST_OK; i++) {
        est_strbuf text = { 0 };

        est_strbuf_printf(&text, "%s=", launch_variable_names[i]);
        launch_append_variable(task, i, false, &text);
        status = est_strbuf_take(&text, &list[used++]);
    }
    for (size_t i = 0; i < n && status == EST_OK; i++) {
        if (is_ours(environ[i])) continue;
        list[used] = est_strdup(environ[i]);
        if (list[used++] == NULL) status = est_no_memory();
    }
    *out = list;
    return status;
}

static void free_environment(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) est_free(list[i]);
    est_free(list);
}

/* "sh -c <enter> sh <program> <arguments>" */
static est_status make_arguments(const launch *l, char ***out)
{
    static const char *const first[] = { "sh", "-c", enter, "sh" };
    size_t                   n       = 0;

    while (l->argv[n] != NULL) n++;
    *out = est_zalloc((n + 5) * sizeof **out);
    if (*out == NULL) return est_no_memory();
    memcpy(*out, first, sizeof first);
    memcpy(*out + 4, l->argv, n * sizeof **out);
    return EST_OK;
}

/* Pipes of our own, since libuv would make sockets, and those cannot be opened again as /dev/stderr. */
static est_status open_pipes(launch_task *task, int far_ends[2])
{
    for (int i = 0; i < 2; i++) {
        uv_file ends[2];
        int     error = uv_pipe(ends, UV_NONBLOCK_PIPE, 0);

        if (error == 0) {
            far_ends[i] = ends[1];
            error       = uv_pipe_open(&task->pipes[i], ends[0]);
            if (error != 0) close(ends[0]);
        }
        if (error != 0) return est_fail(EST_UNAVAILABLE, "no pipe for %s: %s", task->name, uv_strerror(error));
    }
    return EST_OK;
}

static est_status start_process(launch_task *task, char **arguments, char **environment, const int far_ends[2])
{
    launch              *l        = task->owner;
    uv_stdio_container_t files[4] = {
        { .flags = UV_IGNORE },
        { .flags = UV_INHERIT_FD, .data.fd = far_ends[0] },
        { .flags = UV_INHERIT_FD, .data.fd = far_ends[1] },
        { .flags = UV_INHERIT_FD, .data.fd = l->keeper_fd },
    };
    uv_process_options_t options = {
        .file        = "/bin/sh",
        .args        = arguments,
        .env         = environment,
        .flags       = UV_PROCESS_DETACHED,
        .exit_cb     = on_exit,
        .stdio       = files,
        .stdio_count = 4,
    };
    int error = uv_spawn(&l->loop, &task->process, &options);

    if (error == 0) return EST_OK;
    return est_fail(EST_UNAVAILABLE, "%s cannot be started: %s", task->name, uv_strerror(error));
}

static est_status try_spawn(launch_task *task)
{
    char     **environment = NULL, **arguments = NULL;
    int        far_ends[2] = { -1, -1 };
    est_status status      = make_environment(task, &environment);

    if (status == EST_OK) status = make_arguments(task->owner, &arguments);
    if (status == EST_OK) status = open_pipes(task, far_ends);
    if (status == EST_OK) status = start_process(task, arguments, environment, far_ends);
    for (int i = 0; i < 2; i++) {
        if (far_ends[i] >= 0) close(far_ends[i]);
    }
    free_environment(environment);
    est_free(arguments);
    return status;
}

/* A task that cannot be started has failed like one that was. */
static void spawn(launch_task *task)
{
    launch *l = task->owner;

    task->process    = (uv_process_t){ .data = task };
    task->n_handles  = 3;
    task->started_ns = est_now_ns();
    for (int i = 0; i < 2; i++) {
        uv_pipe_init(&l->loop, &task->pipes[i], 0);
        task->pipes[i].data = task;
    }
    if (try_spawn(task) == EST_OK) {
        task->is_running = true;
        for (int i = 0; i < 2; i++) uv_read_start((uv_stream_t *)&task->pipes[i], lend_chunk, on_read);
        return;
    }
    tool_note(&tool_launch, "%s", est_error_message());
    task->exit_code   = TOOL_FAILED;
    task->exit_signal = 0;
    if (task->process.type != UV_PROCESS) { /* it did not come that far */
        task->n_handles--;
    } else {
        close_once((uv_handle_t *)&task->process);
    }
    for (int i = 0; i < 2; i++) close_once((uv_handle_t *)&task->pipes[i]);
}

/* --- the end of all ----------------------------------------------------------------------------------------------- */

static void signal_all(const launch *l, int signal_number)
{
    for (int i = 0; i < l->n_tasks; i++) {
        if (l->tasks[i].is_running) kill(-l->tasks[i].process.pid, signal_number);
    }
}

static void on_grace_over(uv_timer_t *timer)
{
    launch *l = timer->data;

    tool_note(&tool_launch, "tasks have not ended after %" PRId64 " s; killing them", l->grace_secs);
    signal_all(l, SIGKILL);
}

/* Asks all to end. Those that wait for their restart are done at once, with the failure that they had. */
static void stop(launch *l, int signal_number)
{
    l->is_stopping = true;
    signal_all(l, signal_number);
    uv_timer_start(&l->grace, on_grace_over, (uint64_t)l->grace_secs * 1000, 0);
    for (int i = 0; i < l->n_tasks; i++) {
        launch_task *task = &l->tasks[i];

        task->was_stopped = task->is_running && !l->is_interrupted;
        if (!task->is_done && task->n_handles == 0) finish(task);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    launch *l = handle->data;

    if (l->is_stopping) {
        tool_note(&tool_launch, "SIG%s: killing the tasks", sigabbrev_np(number));
        signal_all(l, SIGKILL);
        return;
    }
    tool_note(&tool_launch, "SIG%s: forwarded to the tasks; a second one kills them", sigabbrev_np(number));
    l->is_interrupted = true;
    stop(l, number);
}

/* One that is ignored, as nohup has it, stays ignored. */
static void catch_signals(launch *l)
{
    for (int i = 0; i < 3; i++) {
        struct sigaction now;

        uv_signal_init(&l->loop, &l->signals[i]);
        l->signals[i].data = l;
        if (sigaction(caught[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) continue;
        uv_signal_start(&l->signals[i], on_signal, caught[i]);
    }
}

est_status launch_run(launch *l)
{
    int error = uv_loop_init(&l->loop);

    if (error != 0) return est_fail(EST_UNAVAILABLE, "cannot wait for processes: %s", uv_strerror(error));
    uv_timer_init(&l->loop, &l->grace);
    l->grace.data = l;
    catch_signals(l);
    l->n_live = l->n_tasks;
    for (int i = 0; i < l->n_tasks; i++) {
        uv_timer_init(&l->loop, &l->tasks[i].timer);
        l->tasks[i].timer.data = &l->tasks[i];
    }
    for (int i = 0; i < l->n_tasks; i++) spawn(&l->tasks[i]);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    uv_loop_close(&l->loop);
    return EST_OK;
}
