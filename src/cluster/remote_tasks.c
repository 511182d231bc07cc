/* SPDX-License-Identifier: Apache-2.0
 *
 * The remote of a cluster (runtime/remote.h over the network): its tasks, and where variables are. */
#include "base/argument.h"
#include "cluster/remote_internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "net/socket.h"
#include "tensor/tensor.h"

#define CONNECT_SECS_DEFAULT 7200.0
#define ANSWER_SECS_DEFAULT  600.0
#define LOOK_UP_SECS         INT64_C(10) /* to resolve addresses that are written differently */
#define ADDRESSES_MAX        16          /* of a host */

static void forget_variables(est_remote_task *p)
{
    est_map_clear(&p->variables);
    est_arena_free(p->names);
    p->names = NULL;
    p->load  = 0;
    p->ready = false;
}

static est_status take_variables(est_remote_task *p, const est_message *message)
{
    est_wire_reader r;
    est_wire_field  field;
    const char     *name = NULL;

    p->names = est_arena_create();
    if (p->names == NULL) return est_no_memory();
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_NAME) {
            est_str text = est_wire_bytes(&r, &field);

            name = est_arena_printf(p->names, "%.*s", est_text_precision(text), text.data);
            if (name == NULL) return est_no_memory();
        } else if (field.number == EST_FIELD_INITIALIZED && name != NULL) {
            bool *has_value = est_arena_alloc(p->names, sizeof *has_value);

            if (has_value == NULL) return est_no_memory();
            *has_value = est_wire_bool(&r, &field);
            EST_TRY(est_map_put(&p->variables, name, has_value));
        } else if (field.number == EST_FIELD_SIZE) {
            p->load += est_wire_u64(&r, &field);
        } else if (field.number == EST_FIELD_READY) {
            p->ready = est_wire_bool(&r, &field);
        }
    }
    return est_wire_finish(&r);
}

est_status est_remote_task_list_variables(est_remote_task *p)
{
    est_packing  nothing = { 0 };
    est_message *message;
    est_status   status;

    forget_variables(p);
    EST_TRY(est_remote_task_ask(p, EST_METHOD_VARIABLES, &nothing, EST_ASK_SECS, &message));
    status = take_variables(p, message);
    est_message_free(message);
    return status;
}

/* The terms of the strategy, then those of the program. */
void est_tasks_pack_terms(const est_tasks *r, est_packing *out)
{
    const est_partitioner *by   = r->base.partitioner;
    est_strbuf             text = { 0 };

    est_strbuf_printf(&text, "tasks with variables=%d\nsync_replicas=%d\npartitioner=", r->base.n_keepers,
                      r->options.sync_replicas);
    if (by != NULL) {
        est_strbuf_printf(&text, "%d shards, %lld bytes\n", by->n, (long long)by->bytes);
    } else {
        est_strbuf_append(&text, "none\n");
    }
    est_strbuf_append(&text, r->terms != NULL ? r->terms : "");
    if (est_strbuf_status(&text) != EST_OK) out->failed = true;
    est_wire_put_string(&out->head, EST_FIELD_BYTES, est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

est_status est_remote_set_terms(est_remote *remote, const char *terms)
{
    est_tasks *r    = est_tasks_of(remote);
    char      *copy = est_strdup(terms);

    if (copy == NULL) return est_no_memory();
    est_free(r->terms);
    r->terms = copy;
    return EST_OK;
}

static est_status await_ready(const est_tasks *r, const est_remote_task *p)
{
    est_packing  terms = { 0 };
    est_message *message;
    est_status   status;

    if (!r->calls) est_tasks_pack_terms(r, &terms);
    status = est_remote_task_ask_patiently(r, p, EST_METHOD_AWAIT_READY, &terms,
                                           r->calls ? "the coordinator has not initialized its variables"
                                                    : "the chief has not initialized its variables",
                                           r->options.connect_secs, &message);
    est_packing_clear(&terms);
    EST_TRY(status);
    est_message_free(message);
    return EST_OK;
}

static est_status report_difference(const char *first, const char *second, const est_cluster_difference *d)
{
    const char *has[] = { first, second }, *at[] = { d->first, d->second };
    char        text[2][EST_NET_NAME_MAX + 320];

    for (int i = 0; i < 2; i++) {
        if (at[i] != NULL) {
            snprintf(text[i], sizeof text[i], "%s has %s:%d at %s", has[i], d->job, d->index, at[i]);
        } else {
            snprintf(text[i], sizeof text[i], "%s has no %s:%d", has[i], d->job, d->index);
        }
    }
    return est_fail(EST_FAILED_PRECONDITION, "%s, %s: all tasks need the same cluster in TF_CONFIG", text[0], text[1]);
}

/* Whether two addresses resolve to a common one, as far as is known by `until_ns`. */
static bool are_one(void *until_ns, const char *first, const char *second)
{
    est_socket_address a[ADDRESSES_MAX], b[ADDRESSES_MAX];
    int                n_a, n_b;

    if (est_machine_ns() > *(const int64_t *)until_ns) return false;
    if (est_socket_resolve(first, a, ADDRESSES_MAX, &n_a) != EST_OK ||
        est_socket_resolve(second, b, ADDRESSES_MAX, &n_b) != EST_OK) {
        est_error_clear();
        return false;
    }
    for (int i = 0; i < n_a * n_b; i++) {
        const est_socket_address *x = &a[i / n_b], *y = &b[i % n_b];

        if (x->size == y->size && memcmp(&x->at, &y->at, x->size) == 0) return true;
    }
    return false;
}

/* The addresses of the two tasks themselves do not count: this one may have moved, and nobody connects to it; the other
 * was reached, and may know itself by the address that it listens at. */
static est_status compare_with(const est_tasks *r, const est_remote_task *p, const est_message *answer)
{
    const char            *both[] = { r->server->task, p->name };
    est_str                text   = est_head_bytes(answer, EST_FIELD_BYTES);
    char                  *json   = est_alloc(text.size + 1);
    int64_t                until  = est_machine_ns() + LOOK_UP_SECS * EST_NS_PER_SEC;
    est_cluster           *theirs = NULL;
    est_cluster_difference found;
    est_status             status;

    if (json == NULL) return est_no_memory();
    if (text.size > 0) memcpy(json, text.data, text.size);
    json[text.size] = '\0';
    status          = est_cluster_parse(json, p->name, &theirs);
    if (status == EST_OK && est_cluster_differ(r->server->cluster, theirs, both, are_one, &until, &found)) {
        status = report_difference(both[0], both[1], &found);
    }
    est_cluster_free(theirs);
    est_free(json);
    return status;
}

/* Tasks with different clusters would wait for different tasks, or divide rows differently. External clients may know
 * only a part of the cluster. */
static est_status compare_clusters(const est_tasks *r, const est_remote_task *p)
{
    est_packing  nothing = { 0 };
    est_message *answer;
    est_status   status;

    EST_TRY(est_remote_task_ask(p, EST_METHOD_COMPARE, &nothing, EST_ASK_SECS, &answer));
    status = compare_with(r, p, answer);
    est_message_free(answer);
    return status;
}

static est_status connect_task(est_tasks *r, est_remote_task *p)
{
    est_status status = est_remote_task_reach(r, p, r->options.connect_secs);
    uint64_t   incarnation;

    if (status == EST_DEADLINE_EXCEEDED && p->incarnation == 0)
        return est_fail_context(status, "tasks were not started, or the job has ended already");
    EST_TRY(status);
    incarnation = est_link_peer(p->link)->incarnation;
    if (incarnation != p->incarnation && r->server->target[0] != '\0') EST_TRY(compare_clusters(r, p));
    p->incarnation = incarnation;
    return EST_OK;
}

static est_status connect_all(est_remote *remote)
{
    est_tasks *r = est_tasks_of(remote);

    r->base.has_turn = r->next_turn = r->pushed = r->committed = false;
    r->step                                                    = -1;
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(connect_task(r, &r->tasks[i]));
    for (int i = 0; i < remote->n_tasks && !r->options.is_chief; i++) EST_TRY(await_ready(r, &r->tasks[i]));
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(est_remote_task_list_variables(&r->tasks[i]));
    return EST_OK;
}

/* --- names and places --------------------------------------------------------------------------------------------- */

static const char *name_of(const est_remote *remote, int task)
{
    return est_tasks_of(remote)->tasks[task].name;
}

static int find_task(const est_remote *remote, const char *job, int index)
{
    char name[EST_NET_NAME_MAX];

    snprintf(name, sizeof name, "%.40s:%d", job, index);
    for (int i = 0; i < remote->n_tasks; i++) {
        if (strcmp(est_tasks_of(remote)->tasks[i].name, name) == 0) return i;
    }
    return -1;
}

static bool is_here(const est_remote *remote, const char *job, int index)
{
    char name[EST_NET_NAME_MAX];

    snprintf(name, sizeof name, "%.40s:%d", job, index);
    return strcmp(est_tasks_of(remote)->server->task, name) == 0;
}

int est_tasks_located(const est_remote *remote, const char *variable)
{
    for (int i = 0; i < remote->n_tasks; i++) {
        if (est_map_get(&est_tasks_of(remote)->tasks[i].variables, variable) != NULL) return i;
    }
    return -1;
}

/* A variable that was lost with its task goes there again, so that segments stay what they were: other tasks know runs
 * of calls by them (cluster/call_records.h). */
static int find_home(const est_remote *remote, const char *variable)
{
    const est_tasks *r  = est_tasks_of(remote);
    int              at = est_tasks_located(remote, variable);

    return at >= 0 || r->calls ? at : (int)(uintptr_t)est_map_get(&r->homes, variable) - 1;
}

static est_status note_homes(est_tasks *r)
{
    for (int i = 0; i < r->base.n_tasks; i++) {
        const char *name;
        void       *value;

        for (uint32_t at = 0; est_map_next(&r->tasks[i].variables, &at, &name, &value);)
            EST_TRY(est_map_put(&r->homes, name, (void *)(uintptr_t)(i + 1)));
    }
    return EST_OK;
}

static int place(est_remote *remote, uint64_t bytes, const bool *taken)
{
    est_tasks       *r     = est_tasks_of(remote);
    est_remote_task *tasks = r->tasks;
    int              best  = -1;

    for (int i = 0; i < remote->n_keepers; i++) {
        int at = r->options.round_robin ? (r->placed + i) % remote->n_keepers : i;

        if (taken != NULL && taken[at]) continue;
        if (best < 0 || (!r->options.round_robin && tasks[at].load < tasks[best].load)) best = at;
    }
    r->placed = best + 1;
    tasks[best].load += bytes;
    return best;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static est_status initialized(est_remote *remote, est_var *const *vars, int n, bool *flags)
{
    est_tasks *r = est_tasks_of(remote);

    for (int i = 0; i < remote->n_tasks; i++) {
        uint64_t load = r->tasks[i].load; /* includes variables that were placed and not created yet */

        EST_TRY(est_remote_task_list_variables(&r->tasks[i]));
        if (r->tasks[i].load < load) r->tasks[i].load = load;
    }
    EST_TRY(note_homes(r));
    for (int i = 0; i < n; i++) {
        const bool *has_value = est_map_get(&r->tasks[vars[i]->task].variables, vars[i]->name);

        flags[i] = has_value != NULL && *has_value;
    }
    return EST_OK;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    const est_remote_task *p       = &est_tasks_of(remote)->tasks[var->task];
    est_packing            packing = { 0 };
    est_message           *answer  = NULL;
    est_status             status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    status = est_remote_task_ask(p, EST_METHOD_READ, &packing, est_tasks_of(remote)->options.answer_secs, &answer);
    if (status == EST_OK) status = est_unpack_variable(answer, p->name, var->name, out);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    est_packing packing = { 0 };
    est_status  status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    if (value != NULL) {
        est_view view = { est_tensor_view_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                          est_tensor_count(value) };

        est_pack_view(&packing, &view);
    }
    status = est_remote_task_tell(&est_tasks_of(remote)->tasks[var->task], EST_METHOD_WRITE, &packing,
                                  est_tasks_of(remote)->options.answer_secs);
    est_packing_clear(&packing);
    return status;
}

bool est_remote_is_chief(const est_remote *remote)
{
    return est_tasks_of(remote)->options.is_chief;
}

int64_t est_remote_step_limit(const est_remote *remote)
{
    return est_tasks_of(remote)->options.step_limit;
}

bool est_remote_has_begun(const est_remote *remote)
{
    if (est_tasks_of(remote)->declared) return true;
    for (int i = 0; i < remote->n_tasks; i++) {
        if (est_tasks_of(remote)->tasks[i].ready) return true;
    }
    return false;
}

void est_remote_set_over(est_remote *remote, bool (*over)(void *user), void *user)
{
    est_tasks_of(remote)->over      = over;
    est_tasks_of(remote)->over_user = user;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static const est_remote_ops cluster_ops = {
    .connect     = connect_all,
    .name        = name_of,
    .find        = find_task,
    .is_here     = is_here,
    .located     = find_home,
    .place       = place,
    .enter       = est_remote_segment_enter,
    .leave       = est_remote_segment_leave,
    .start       = est_remote_segment_start,
    .finish      = est_remote_segment_finish,
    .abandon     = est_tasks_abandon,
    .initialized = initialized,
    .read        = read_variable,
    .write       = write_variable,
    .find_nan    = est_tasks_find_nan,
    .save        = est_tasks_save,
    .verify      = est_tasks_verify,
    .restore     = est_tasks_restore,
    .turn        = est_tasks_turn,
    .complete    = est_tasks_complete,
};

/* The tasks of a job, but for this one. */
static est_status add_tasks(est_tasks *r, const char *type)
{
    for (int i = 0; i < est_cluster_tasks(r->server->cluster, type); i++) {
        const char      *address = est_cluster_address(r->server->cluster, type, i);
        est_remote_task *p       = &r->tasks[r->base.n_tasks];

        if (address == NULL || is_here(&r->base, type, i)) continue;
        p->address = est_strdup(address);
        if (p->address == NULL) return est_no_memory();
        snprintf(p->name, sizeof p->name, "%.40s:%d", type, i);
        p->server = r->server;
        r->base.n_tasks++;
    }
    return EST_OK;
}

/* Those that keep variables come first. */
static est_status list_tasks(est_tasks *r)
{
    const est_cluster *cluster = r->server->cluster;
    const char        *type    = r->options.type != NULL ? r->options.type : "ps";
    bool               all     = strcmp(type, "*") == 0;
    const char        *keepers = all ? "ps" : type;
    int                n       = 0;

    for (int i = 0; i < est_cluster_jobs(cluster); i++) n += est_cluster_tasks(cluster, est_cluster_job(cluster, i));
    r->tasks = est_zalloc(sizeof *r->tasks * ((size_t)n + 1));
    if (r->tasks == NULL) return est_no_memory();
    EST_TRY(add_tasks(r, keepers));
    r->base.n_keepers = r->base.n_tasks;
    r->base.direct    = all && r->options.sync_replicas == 0;
    for (int i = 0; all && i < est_cluster_jobs(cluster); i++) {
        if (strcmp(est_cluster_job(cluster, i), keepers) != 0) EST_TRY(add_tasks(r, est_cluster_job(cluster, i)));
    }
    if (r->base.n_keepers == 0) r->base.n_keepers = r->base.n_tasks;
    if (r->base.n_tasks > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the cluster has no %s task to keep variables", all ? "other" : type);
}

/* A server has one remote at a time, which counts sequences and steps on from where the last one was: other tasks know
 * this process by its server, and take runs and tensors of steps by these numbers. The calling thread of a worker may
 * ask while the program does. */
static est_status claim_server(est_tasks *r)
{
    est_server *server = r->server;
    bool        taken;

    pthread_mutex_lock(&server->lock);
    taken              = server->has_remote;
    server->has_remote = true;
    r->base.step       = server->driven;
    pthread_mutex_unlock(&server->lock);
    if (!taken) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION,
                    "%s has a remote already, and a server can have only one: free it first, or create another server",
                    server->task);
}

static void leave_server(const est_tasks *r)
{
    pthread_mutex_lock(&r->server->lock);
    r->server->has_remote = false;
    r->server->driven     = r->base.step;
    pthread_mutex_unlock(&r->server->lock);
}

est_status est_remote_create(est_server *server, const est_remote_options *options, est_remote **out)
{
    est_tasks *r;
    est_status status;

    EST_REQUIRE(server);
    EST_REQUIRE(out);
    r = est_zalloc(sizeof *r);
    if (r == NULL) return est_no_memory();
    r->base.ops = &cluster_ops;
    r->server   = server;
    status      = est_options_take(EST_STRUCT_SIZE(est_remote_options), options, &r->options);
    if (status == EST_OK && r->options.connect_secs <= 0) r->options.connect_secs = CONNECT_SECS_DEFAULT;
    if (status == EST_OK && r->options.answer_secs <= 0) r->options.answer_secs = ANSWER_SECS_DEFAULT;
    if (status == EST_OK && r->options.partitioner != NULL) {
        r->partitioner      = *r->options.partitioner;
        r->base.partitioner = &r->partitioner;
    }
    r->base.in_turn       = r->options.round_robin;
    r->base.sync_replicas = r->options.sync_replicas > 0;
    r->base.takes_turns   = r->options.step_limit > 0 || r->options.max_staleness > 0 || r->base.sync_replicas ||
                          r->options.consistent_saves;
    if (status == EST_OK) status = list_tasks(r);
    if (status == EST_OK) status = claim_server(r);
    if (status != EST_OK) {
        r->server = NULL; /* it belongs to the other remote */
        est_remote_free(&r->base);
        return status;
    }
    *out = &r->base;
    return EST_OK;
}

/* How many shards of a variable the tasks have. */
static int count_shards(const est_partitioner *self, const char *name, est_dtype dtype, const est_shape *shape,
                        int n_tasks)
{
    char shard[512];
    int  n = 0;

    (void)dtype;
    (void)n_tasks;
    for (; n < shape->dim[0]; n++) {
        int size = snprintf(shard, sizeof shard, EST_SHARD_NAME, name, n);

        if (size >= (int)sizeof shard || est_tasks_located(self->user, shard) < 0) break;
    }
    return n;
}

est_status est_remote_create_for_calls(est_server *server, double connect_secs, est_remote **out)
{
    est_tasks *r;

    EST_TRY(est_remote_create(server, EST_REMOTE(.connect_secs = connect_secs), out));
    r                   = est_tasks_of(*out);
    r->calls            = true;
    r->partitioner      = (est_partitioner){ .shards = count_shards, .user = &r->base };
    r->base.partitioner = &r->partitioner;
    return EST_OK;
}

void est_remote_set_call(est_remote *remote, uint64_t origin, uint64_t call, uint64_t first)
{
    est_tasks *r = est_tasks_of(remote);

    r->origin = origin;
    r->call   = call;
    r->first  = first;
}

/* Frees a turn that was given in advance at once. */
static void say_goodbye(const est_remote_task *p)
{
    est_packing nothing = { 0 };

    if (est_remote_task_tell(p, EST_METHOD_LEAVE, &nothing, EST_LEAVE_SECS) != EST_OK) est_error_clear();
    est_link_close(p->link, EST_GOODBYE);
}

void est_remote_free(est_remote *remote)
{
    est_tasks *r = est_tasks_of(remote);
    est_error  error;

    if (remote == NULL) return;
    est_error_take(EST_OK, &error);                              /* the program may still want to report it */
    if (est_remote_release(remote) != EST_OK) est_error_clear(); /* before the clock hears of the goodbye */
    for (int i = 0; i < r->base.n_tasks && r->tasks != NULL; i++) {
        est_remote_task *p = &r->tasks[i];

        if (p->link != NULL && !est_link_is_lost(p->link)) say_goodbye(p);
        est_link_free(p->link);
        forget_variables(p);
        est_free(p->address);
    }
    if (r->server != NULL) leave_server(r);
    est_map_clear(&r->homes);
    est_free(r->terms);
    est_free(r->tasks);
    est_free(r);
    (void)est_error_raise(&error);
}
