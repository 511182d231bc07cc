/* SPDX-License-Identifier: Apache-2.0
 *
 * The status of a task as JSON. */
#include "cluster/task_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cluster/clients.h"
#include "cluster/service_calls.h"
#include "cluster/wait_table.h"
#include "kernels/key_rows.h"

#define SAMPLE_NS      (5 * EST_NS_PER_SEC)
#define RATE_NS_MIN    EST_NS_PER_SEC /* rates of shorter times would be exaggerated */
#define TEXT_BYTES_MAX 512

static double secs_since(int64_t ns)
{
    return (double)(est_now_ns() - ns) / (double)EST_NS_PER_SEC;
}

/* A JSON string, which must be UTF-8: texts of peers may not be, and truncated ones may end inside a character. */
static est_json *text_of(const char *text)
{
    est_json *value = json_string(text);
    char      plain[TEXT_BYTES_MAX];
    size_t    n = 0;

    if (value != NULL) return value;
    for (; n < sizeof plain - 1 && text[n] != '\0'; n++) plain[n] = (unsigned char)text[n] < 0x80 ? text[n] : '?';
    return json_stringn(plain, n);
}

static est_json *incarnation_of(const est_task_id *who)
{
    return json_sprintf("%016" PRIx64, who->incarnation); /* a number of JSON cannot hold it */
}

/* --- numbers per second ------------------------------------------------------------------------------------------- */

static est_sample client_now(const est_client *client, int64_t now)
{
    est_link_counters n = client->link != NULL ? est_link_count(client->link) : (est_link_counters){ 0 };

    return (est_sample){ now, client->steps, client->gone.bytes_in + n.bytes_in, client->gone.bytes_out + n.bytes_out };
}

static void push_sample(est_sample samples[2], est_sample now)
{
    samples[0] = samples[1];
    samples[1] = now;
}

void est_server_sample(est_server *s)
{
    int64_t now = est_now_ns();

    if (now - s->samples[1].at_ns < SAMPLE_NS) return;
    push_sample(s->samples, (est_sample){ .at_ns = now, .steps = s->steps });
    for (int i = 0; i < s->n_clients; i++) push_sample(s->clients[i]->samples, client_now(s->clients[i], now));
}

void est_server_note_step(est_server *s, int64_t step)
{
    pthread_mutex_lock(&s->lock);
    if (step != s->step) s->steps++; /* else the step was repeated */
    s->step = step;
    est_server_sample(s);
    pthread_mutex_unlock(&s->lock);
}

static double rate(uint64_t before, uint64_t now, int64_t ns)
{
    return (double)(now - before) * (double)EST_NS_PER_SEC / (double)(ns > RATE_NS_MIN ? ns : RATE_NS_MIN);
}

/* Totals and rates. */
static est_json *traffic(const est_sample *before, const est_sample *now)
{
    int64_t ns = now->at_ns - before->at_ns;

    return json_pack("{s:I, s:f, s:I, s:I, s:f, s:f}", "steps", (json_int_t)now->steps, "steps_per_sec",
                     rate(before->steps, now->steps, ns), "bytes_in", (json_int_t)now->bytes_in, "bytes_out",
                     (json_int_t)now->bytes_out, "bytes_in_per_sec", rate(before->bytes_in, now->bytes_in, ns),
                     "bytes_out_per_sec", rate(before->bytes_out, now->bytes_out, ns));
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* Under host_lock and `lock`. */
static void look_at_variables(est_server *s)
{
    est_store     *store = est_host_store(s->host);
    est_store_seen seen  = { .at_ns = est_now_ns(), .n_variables = est_store_size(store), .applied = s->applied };

    for (int i = 0; i < seen.n_variables; i++) {
        est_view stored = est_var_stored(est_store_at(store, i));

        seen.bytes += (uint64_t)stored.count * est_dtype_size(stored.dtype);
    }
    for (int i = 0; est_store_keys(store, i) != NULL; i += 2) { /* odd ones are keys without rows */
        seen.rows += (uint64_t)est_store_keys(store, i)->n;
    }
    s->seen = seen;
}

void est_server_sample_run(est_server *s)
{
    if (s->seen.at_ns == 0 || est_now_ns() - s->seen.at_ns >= SAMPLE_NS) look_at_variables(s);
    est_server_sample(s);
}

/* Skipped during a run: the last numbers are good enough. */
static void try_to_look(est_server *s)
{
    if (pthread_mutex_trylock(&s->host_lock) != 0) return;
    pthread_mutex_lock(&s->lock);
    look_at_variables(s);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&s->host_lock);
}

static est_json *variables_of(const est_server *s)
{
    return json_pack("{s:i, s:I, s:I, s:f}", "count", s->seen.n_variables, "bytes", (json_int_t)s->seen.bytes, "rows",
                     (json_int_t)s->seen.rows, "age_secs",
                     secs_since(s->seen.at_ns != 0 ? s->seen.at_ns : s->start_ns));
}

/* --- the process -------------------------------------------------------------------------------------------------- */

/* Resident memory; 0: not known. */
static json_int_t memory_bytes(void)
{
    FILE *file  = fopen("/proc/self/statm", "re");
    long  pages = 0;

    if (file == NULL) return 0;
    if (fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    fclose(file);
    return (json_int_t)pages * sysconf(_SC_PAGESIZE);
}

static est_json *host_name(void)
{
    char name[256] = "";

    if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
    return text_of(name);
}

/* NULL: out of memory. */
static est_json *cluster_of(const est_server *s)
{
    est_strbuf text  = { 0 };
    est_json  *value = NULL;

    est_cluster_text(s->cluster, &text);
    if (est_strbuf_status(&text) == EST_OK) value = json_loads(est_strbuf_text(&text), 0, NULL);
    est_strbuf_clear(&text);
    return value;
}

static est_json *process_of(const est_server *s)
{
    const char *address   = strstr(s->target, "://");
    int         transport = address != NULL ? (int)(address - s->target) : 0;

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:f, s:I, s:o}", "task", text_of(s->task), "job",
                     text_of(s->self.job), "incarnation", incarnation_of(&s->self), "transport",
                     json_sprintf("%.*s", transport, s->target), "address", text_of(address != NULL ? address + 3 : ""),
                     "pid", (int)getpid(), "host", host_name(), "up_secs", secs_since(s->start_ns), "memory_bytes",
                     memory_bytes(), "cluster", cluster_of(s));
}

/* --- others ------------------------------------------------------------------------------------------------------- */

static est_json *client_of(const est_client *client, const est_sample *now)
{
    bool      here   = client->link != NULL;
    est_json *object = traffic(&client->samples[0], now);
    est_json *more   = json_pack(
          "{s:o, s:o, s:b, s:f, s:f, s:o, s:I, s:I, s:o}", "task", text_of(client->who.task), "incarnation",
          incarnation_of(&client->who), "here", here, "since_secs", secs_since(client->since_ns), "silent_secs",
        here ? est_link_count(client->link).silent_secs : secs_since(client->since_ns), "lost_why",
        here ? json_null() : text_of(client->lost_why), "runs", (json_int_t)client->runs, "repeats",
          (json_int_t)client->repeats, "step", client->steps > 0 ? json_integer(client->step) : json_null());

    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

/* All clients; adds their traffic to `sum` and `before`. NULL: out of memory. */
static est_json *clients_of(const est_server *s, est_sample *before, est_sample *sum)
{
    est_json *list = json_array();

    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];
        est_sample        now    = client_now(client, sum->at_ns);

        sum->bytes_in += now.bytes_in;
        sum->bytes_out += now.bytes_out;
        before->bytes_in += client->samples[0].bytes_in;
        before->bytes_out += client->samples[0].bytes_out;
        if (json_array_append_new(list, client_of(client, &now)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static est_json *turns_of(const est_server *s)
{
    est_json      *list = json_array();
    est_gate_entry e;

    for (int i = 0; est_gate_entry_at(s->gate, i, &e); i++) {
        if (e.waits) continue;
        if (json_array_append_new(list, json_pack("{s:o, s:f, s:I}", "task", text_of(e.who), "since_secs",
                                                  secs_since(e.since_ns), "step", (json_int_t)e.begun_at)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

/* Appends to "worker:0, worker:2", truncated when there are many. */
static void add_name(char names[TEXT_BYTES_MAX], const char *name)
{
    size_t used = strlen(names);

    snprintf(names + used, TEXT_BYTES_MAX - used, "%s%s", used > 0 ? ", " : "", name);
}

static void turn_holders(const est_server *s, char out[TEXT_BYTES_MAX])
{
    est_gate_entry e;

    out[0] = '\0';
    for (int i = 0; est_gate_entry_at(s->gate, i, &e); i++) {
        if (!e.waits) add_name(out, e.who);
    }
}

/* Tasks other than `who` that train, or may come back with a step. */
static void others_training(const est_server *s, const char *who, char out[TEXT_BYTES_MAX])
{
    out[0] = '\0';
    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];
        const char       *task   = client->who.task;

        if (est_is_external(task) || strcmp(task, who) == 0) continue;
        if (client->link != NULL || est_gate_has_turn(s->gate, task)) add_name(out, task);
    }
}

static bool has_pushed(const est_server *s, const char *task)
{
    for (int i = 0; i < s->n_parked; i++) {
        if (s->parked[i].method == EST_METHOD_FINISH_STEP &&
            strcmp(est_link_peer(est_request_link(s->parked[i].request))->task, task) == 0)
            return true;
    }
    return false;
}

/* Workers of sync_replicas that have not finished the current step. */
static void others_pushing(const est_server *s, char out[TEXT_BYTES_MAX])
{
    out[0] = '\0';
    for (int i = 0; i < s->n_clients; i++) {
        const est_client *client = s->clients[i];

        if (client->sync_replicas && client->link != NULL && !has_pushed(s, client->who.task))
            add_name(out, client->who.task);
    }
}

static bool add_wait(est_json *list, const char *who, const char *for_whom, const char *why, int64_t since_ns)
{
    return json_array_append_new(list,
                                 json_pack("{s:o, s:o, s:o, s:f}", "who", text_of(who), "for_whom", text_of(for_whom),
                                           "why", text_of(why), "since_secs", secs_since(since_ns))) == 0;
}

/* For whom and why a worker waits after its pushes of a synchronous step. */
static const char *explain_finish(const est_server *s, char for_whom[TEXT_BYTES_MAX])
{
    if (s->committer[0] != '\0') {
        snprintf(for_whom, TEXT_BYTES_MAX, "%s", s->committer);
        return "it commits the step";
    }
    if (est_gate_is_held(s->gate)) {
        snprintf(for_whom, TEXT_BYTES_MAX, "%s", est_server_chief(s, NULL));
        return "it holds steps for a checkpoint";
    }
    others_pushing(s, for_whom);
    if (for_whom[0] != '\0') return "they have not pushed all of the step yet";
    snprintf(for_whom, TEXT_BYTES_MAX, "workers that have not come yet");
    return "a step needs their pushes";
}

static const char *explain_parked(const est_server *s, const est_parked *p, const char *who,
                                  char for_whom[TEXT_BYTES_MAX])
{
    switch (p->method) {
    case EST_METHOD_FINISH_STEP: return explain_finish(s, for_whom);
    case EST_METHOD_HOLD:
        turn_holders(s, for_whom);
        if (s->committer[0] != '\0') add_name(for_whom, s->committer);
        return "their steps are under way, and a checkpoint waits for them";
    case EST_METHOD_AWAIT_ALONE:
        others_training(s, who, for_whom);
        if (for_whom[0] != '\0') return "they still train";
        snprintf(for_whom, TEXT_BYTES_MAX, "tasks that have not come yet");
        return "they may still train";
    default:
        snprintf(for_whom, TEXT_BYTES_MAX, "%s", est_server_chief(s, NULL));
        return "it has not initialized the variables here";
    }
}

static bool add_parked(est_json *list, const est_server *s)
{
    char for_whom[TEXT_BYTES_MAX];

    for (int i = 0; i < s->n_parked; i++) {
        const est_parked *p   = &s->parked[i];
        const char       *who = est_link_peer(est_request_link(p->request))->task;
        const char       *why = explain_parked(s, p, who, for_whom);

        if (!add_wait(list, who, for_whom, why, p->since_ns)) return false;
    }
    return true;
}

/* When nobody has a turn, a hold is what blocks the requests. */
static bool add_turn_requests(est_json *list, const est_server *s, const char *holders)
{
    est_gate_entry e;

    for (int i = 0; est_gate_entry_at(s->gate, i, &e); i++) {
        bool held = holders[0] == '\0';

        if (e.waits && !add_wait(list, e.who, held ? est_server_chief(s, NULL) : holders,
                                 held ? "it holds steps for a checkpoint" : "their steps are under way", e.since_ns)) {
            return false;
        }
    }
    return true;
}

/* Waits of this task itself. */
static bool add_own(est_json *list, const est_server *s)
{
    est_wait waits[EST_WAITS_MAX];
    int      n = est_waits_of(s->task, waits, EST_WAITS_MAX);

    for (int i = 0; i < n; i++) {
        if (!add_wait(list, waits[i].who, waits[i].for_whom, waits[i].why, waits[i].since_ns)) return false;
    }
    return true;
}

static est_json *waits_of(const est_server *s)
{
    est_json *list = json_array();
    char      holders[TEXT_BYTES_MAX];

    turn_holders(s, holders);
    if (add_parked(list, s) && add_turn_requests(list, s, holders) && add_own(list, s)) return list;
    json_decref(list);
    return NULL;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int n_queued(const est_server *s)
{
    int n = 0;

    for (const est_queued *job = s->first; job != NULL; job = job->next) n++;
    return n;
}

/* Calls of a coordinator at a worker; null: none came. */
static est_json *calls_of(const est_server *s)
{
    est_calls_seen seen;
    est_json      *call = json_null();

    if (!est_calls_look(s, &seen)) return json_null();
    if (seen.call != 0) {
        call = json_pack("{s:I, s:o, s:f}", "call", (json_int_t)seen.call, "function", text_of(seen.function),
                         "since_secs", secs_since(seen.since_ns));
    }
    return json_pack("{s:o, s:o, s:i, s:i, s:I, s:I, s:o}", "coordinator",
                     seen.coordinator[0] != '\0' ? text_of(seen.coordinator) : json_null(), "origin",
                     json_sprintf("%016" PRIx64, seen.origin), "functions", seen.functions, "queued", seen.queued,
                     "completed", (json_int_t)seen.completed, "failed", (json_int_t)seen.failed, "under_way", call);
}

/* The fields that `lock` guards. NULL: out of memory. */
static est_json *state_of(est_server *s)
{
    est_sample now    = { .at_ns = est_now_ns(), .steps = s->steps };
    est_sample before = s->samples[0];
    est_json  *state  = json_pack("{s:b, s:b, s:o, s:I, s:b, s:i, s:o, s:o, s:o, s:o, s:o}", "ready", s->ready, "done",
                                  s->done, "step", s->step >= 0 ? json_integer(s->step) : json_null(), "runs_applied",
                                  (json_int_t)s->seen.applied, "busy", s->busy, "queued", n_queued(s), "variables",
                                  variables_of(s), "clients", clients_of(s, &before, &now), "turns", turns_of(s), "waits",
                                  waits_of(s), "calls", calls_of(s));
    est_json  *sums   = traffic(&before, &now);

    if (state != NULL && json_object_update(state, sums) != 0) {
        json_decref(state);
        state = NULL;
    }
    json_decref(sums);
    est_server_sample(s);
    return state;
}

/* Copied: memory of jansson is not for est_free. */
static est_status write_text(const est_json *value, char **out)
{
    char *text = json_dumps(value, JSON_REAL_PRECISION(6));

    *out = text != NULL ? est_strdup(text) : NULL;
    free(text);
    return *out != NULL ? EST_OK : est_no_memory();
}

est_status est_server_status(est_server *s, char **out)
{
    est_json  *all = process_of(s), *state;
    est_status status;

    try_to_look(s);
    pthread_mutex_lock(&s->lock);
    state = state_of(s);
    pthread_mutex_unlock(&s->lock);
    if (all == NULL || state == NULL || json_object_update(all, state) != 0) {
        status = est_no_memory();
    } else {
        est_clients_extend_status(s, all);
        status = write_text(all, out);
    }
    json_decref(all);
    json_decref(state);
    return status;
}
