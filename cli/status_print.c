/* SPDX-License-Identifier: Apache-2.0
 *
 * How a running job is, as a table or as JSON. What tasks tell is of other processes and perhaps of other versions: a
 * field that is not there is shown as nothing, and no text of theirs reaches the terminal as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "status.h"

#define WAIT_SECS_MIN 1 /* shorter waits are a part of every step */

static est_str str_of(const char *text)
{
    return (est_str){ text, strlen(text) };
}

/* The text at a path; "": none. */
static const char *text_at(const est_json *value, const char *path)
{
    const char *text = json_string_value(est_json_get(value, "%s", path));

    return text != NULL ? text : "";
}

static double number_at(const est_json *value, const char *path)
{
    return json_number_value(est_json_get(value, "%s", path));
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

static void add_bytes(tool_table *table, double bytes, const char *per)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int                      unit    = 0;

    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    tool_table_cell(table, unit == 0 ? "%.0f %s%s" : "%.1f %s%s", bytes, units[unit], per);
}

static void add_duration(tool_table *table, double secs)
{
    if (secs < 120) {
        tool_table_cell(table, "%.0f s", secs);
    } else if (secs < 7200) {
        tool_table_cell(table, "%.0f min", secs / 60);
    } else {
        tool_table_cell(table, "%.1f h", secs / 3600);
    }
}

/* A task of multi-worker training counts its own steps; a ps counts those of others. */
static bool counts_alone(const status_view *view, int i)
{
    return json_is_integer(json_object_get(view->told[i], "step")) && strncmp(view->names[i], "ps:", 3) != 0;
}

/* The entry of a worker at the task that counts steps, which knows more than the worker; NULL: none. */
static const est_json *steps_of(const status_view *view, const char *name)
{
    for (int i = 0; i < view->n; i++) {
        est_json *client;
        size_t    k;

        json_array_foreach(json_object_get(view->told[i], "clients"), k, client)
        {
            if (strcmp(text_at(client, "task"), name) == 0 && json_is_integer(json_object_get(client, "step"))) {
                return client;
            }
        }
    }
    return NULL;
}

static void add_steps(tool_table *table, const status_view *view, int i)
{
    const est_json *from = view->told[i];

    if (!json_is_integer(json_object_get(from, "step"))) from = steps_of(view, view->names[i]);
    if (from != NULL) {
        tool_table_cell(table, "%.0f", number_at(from, "step"));
        tool_table_cell(table, "%.1f", number_at(from, "steps_per_sec"));
    } else {
        tool_table_cell(table, "-");
        tool_table_cell(table, "-");
    }
}

static bool is_long(const est_json *wait)
{
    return number_at(wait, "since_secs") >= WAIT_SECS_MIN;
}

static bool is_waiting(const status_view *view, const char *name)
{
    for (int i = 0; i < view->n; i++) {
        est_json *wait;
        size_t    k;

        json_array_foreach(json_object_get(view->told[i], "waits"), k, wait)
        {
            if (is_long(wait) && strcmp(text_at(wait, "who"), name) == 0) return true;
        }
    }
    return false;
}

static const char *state_of(const status_view *view, int i)
{
    if (json_is_true(json_object_get(view->told[i], "done"))) return "done";
    if (is_waiting(view, view->names[i])) return "waits";
    return steps_of(view, view->names[i]) != NULL || counts_alone(view, i) ? "trains" : "here";
}

static void add_task(tool_table *table, const status_view *view, int i)
{
    const est_json *told = view->told[i];

    tool_table_text(table, str_of(text_at(told, "incarnation")), 16);
    add_duration(table, number_at(told, "up_secs"));
    add_steps(table, view, i);
    add_bytes(table, number_at(told, "bytes_in_per_sec"), "/s");
    add_bytes(table, number_at(told, "bytes_out_per_sec"), "/s");
    add_bytes(table, number_at(told, "variables.bytes"), "");
    tool_table_cell(table, "%.0f", number_at(told, "variables.rows"));
    add_bytes(table, number_at(told, "memory_bytes"), "");
    tool_table_cell(table, "%s", state_of(view, i));
}

/* Why there is no answer. The row has the name and the reason needs no address: the text before it is dropped. */
static void add_silence(tool_table *table, const est_task_asked *asked)
{
    const char *why = asked->text != NULL ? asked->text : "no memory";
    const char *at  = strstr(why, asked->address);
    est_strbuf  out = { 0 };

    if (at != NULL && strncmp(at + strlen(asked->address), ": ", 2) == 0) why = at + strlen(asked->address) + 2;
    for (int c = 0; c < 9; c++) tool_table_cell(table, "-");
    est_strbuf_printf(&out, "no answer: %s", why);
    tool_table_text(table, str_of(est_strbuf_text(&out)), 0);
    est_strbuf_clear(&out);
}

/* --- text --------------------------------------------------------------------------------------------------------- */

static est_status print_tasks(const status_view *view)
{
    static const char *const names[] = { "Task", "Incarnation", "Up",   "Step",   "Steps/s", "In",
                                         "Out",  "Variables",   "Rows", "Memory", "State" };
    tool_table               table   = { .right = 0x3fc }; /* Up to Memory */
    est_status               status  = EST_OK;

    tool_table_begin(&table, names, (int)(sizeof names / sizeof names[0]));
    for (int i = 0; i < view->n && status == EST_OK; i++) {
        tool_table_text(&table, str_of(view->names[i]), 0);
        if (view->told[i] != NULL) {
            add_task(&table, view, i);
        } else {
            add_silence(&table, &view->asked[i]);
        }
        status = tool_table_row(&table);
    }
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    return status;
}

static void append_wait(est_strbuf *out, const est_json *wait)
{
    tool_append_printable(out, str_of(text_at(wait, "who")), 0);
    est_strbuf_printf(out, " has waited %.0f s for ", number_at(wait, "since_secs"));
    tool_append_printable(out, str_of(text_at(wait, "for_whom")), 0);
    est_strbuf_append(out, ": ");
    tool_append_printable(out, str_of(text_at(wait, "why")), 0);
    est_strbuf_append(out, "\n");
}

/* "worker:0: 812 calls of client:1-a, 1 failed, 3 functions, 2 queued; call 814 of 'step' since 0.2 s" */
static void append_calls(est_strbuf *out, const char *task, const est_json *calls)
{
    const est_json *call = json_object_get(calls, "under_way");

    tool_append_printable(out, str_of(task), 0);
    est_strbuf_printf(out, ": %.0f calls of ", number_at(calls, "completed"));
    tool_append_printable(out, str_of(text_at(calls, "coordinator")), 0);
    est_strbuf_printf(out, ", %.0f failed, %.0f functions, %.0f queued", number_at(calls, "failed"),
                      number_at(calls, "functions"), number_at(calls, "queued"));
    if (json_is_object(call)) {
        est_strbuf_printf(out, "; call %.0f of '", number_at(call, "call"));
        tool_append_printable(out, str_of(text_at(call, "function")), 0);
        est_strbuf_printf(out, "' since %.1f s", number_at(call, "since_secs"));
    }
    est_strbuf_append(out, "\n");
}

/* "chief:0: 812 calls completed, 30 queued, 4 under way (worker:0 2, worker:1 not here), 2 retried, 1 worker lost" */
static void append_coordinator(est_strbuf *out, const char *task, const est_json *own)
{
    const char *before = " (";
    est_json   *worker;
    size_t      i;

    tool_append_printable(out, str_of(task), 0);
    est_strbuf_printf(out, ": %.0f calls completed, %.0f queued, %.0f under way", number_at(own, "completed"),
                      number_at(own, "queued"), number_at(own, "under_way"));
    json_array_foreach(json_object_get(own, "workers"), i, worker)
    {
        est_strbuf_append(out, before);
        before = ", ";
        tool_append_printable(out, str_of(text_at(worker, "task")), 0);
        if (json_is_true(json_object_get(worker, "here"))) {
            est_strbuf_printf(out, " %.0f", number_at(worker, "under_way"));
        } else {
            est_strbuf_append(out, " not here");
        }
    }
    est_strbuf_printf(out, "%s, %.0f retried, %.0f workers lost%s\n", i > 0 ? ")" : "", number_at(own, "retried"),
                      number_at(own, "workers_lost"),
                      json_is_true(json_object_get(own, "ps_lost")) ? "; waits for ps tasks" : "");
}

static void append_all_calls(est_strbuf *out, const status_view *view)
{
    bool any = false;

    for (int i = 0; i < view->n; i++) {
        const est_json *own = json_object_get(view->told[i], "coordinator");

        if (!json_is_object(own)) continue;
        if (!any) est_strbuf_append(out, "\nCalls\n");
        any = true;
        append_coordinator(out, view->names[i], own);
    }

    for (int i = 0; i < view->n; i++) {
        const est_json *calls = json_object_get(view->told[i], "calls");

        if (!json_is_string(json_object_get(calls, "coordinator"))) continue;
        if (!any) est_strbuf_append(out, "\nCalls\n");
        any = true;
        append_calls(out, view->names[i], calls);
    }
}

est_status status_print_text(const status_view *view)
{
    est_strbuf out = { 0 };
    est_status status;
    bool       any = false;

    EST_TRY(print_tasks(view));
    append_all_calls(&out, view);
    for (int i = 0; i < view->n; i++) {
        est_json *wait;
        size_t    k;

        json_array_foreach(json_object_get(view->told[i], "waits"), k, wait)
        {
            if (!is_long(wait)) continue;
            if (!any) est_strbuf_append(&out, "\nWaits\n");
            any = true;
            append_wait(&out, wait);
        }
    }
    status = tool_write(&out);
    est_strbuf_clear(&out);
    return status;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

/* Text of any bytes as a string, which must be UTF-8. */
static est_json *printable(const char *text)
{
    est_strbuf out = { 0 };
    est_json  *value;

    tool_append_printable(&out, str_of(text), 0);
    value = json_string(est_strbuf_text(&out));
    est_strbuf_clear(&out);
    return value;
}

static est_json *task_json(const status_view *view, int i)
{
    const est_task_asked *asked = &view->asked[i];
    est_json *task = json_pack("{s:o, s:o, s:b}", "task", printable(asked->task), "address", printable(asked->address),
                               "answered", view->told[i] != NULL);
    int       failed;

    if (view->told[i] != NULL) {
        failed = json_object_set(task, "status", view->told[i]);
    } else {
        failed = json_object_set_new(task, "error", printable(asked->text != NULL ? asked->text : "no memory"));
    }
    if (failed == 0) return task;
    json_decref(task);
    return NULL;
}

/* Adds the waits of a task to the list, with its name. */
static int add_waits(est_json *list, const est_json *told, const char *name)
{
    est_json *wait;
    size_t    k;

    json_array_foreach(json_object_get(told, "waits"), k, wait)
    {
        est_json *copy = json_is_object(wait) ? json_copy(wait) : json_object();

        if (json_object_set_new(copy, "told_by", printable(name)) != 0) {
            json_decref(copy);
            return -1;
        }
        if (json_array_append_new(list, copy) != 0) return -1;
    }
    return 0;
}

static est_json *all_json(const status_view *view)
{
    est_json *tasks = json_array(), *waits = json_array();

    for (int i = 0; i < view->n; i++) {
        if (json_array_append_new(tasks, task_json(view, i)) != 0 ||
            add_waits(waits, view->told[i], view->names[i]) != 0) {
            json_decref(tasks);
            json_decref(waits);
            return NULL;
        }
    }
    return json_pack("{s:o, s:o}", "tasks", tasks, "waits", waits);
}

est_status status_print_json(const status_view *view)
{
    est_json  *all  = all_json(view);
    char      *text = all != NULL ? json_dumps(all, JSON_REAL_PRECISION(6)) : NULL;
    est_strbuf out  = { 0 };
    est_status status;

    if (text != NULL) {
        est_strbuf_printf(&out, "%s\n", text);
        status = tool_write(&out);
    } else {
        status = est_no_memory();
    }
    est_strbuf_clear(&out);
    free(text);
    json_decref(all);
    return status;
}
