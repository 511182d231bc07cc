/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of a master (cluster/master.h): a remote with one task, which has all variables and runs all operations.
 *
 * Checkpoints are written and read by the tasks, as in a session with a remote: each takes one snapshot of its
 * variables, and values do not travel. */
#include "runtime/session_target.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"
#include "cluster/checkpoint_entries.h"
#include "cluster/server.h"
#include "cluster/wait_table.h"
#include "tensor/tensor.h"

#define CONNECT_SECS_DEFAULT 7200.0
#define CONNECT_SECS_MAX     1e9
#define WAITS_SECS           1.0 /* for the master to say what it waits for */
#define CLOSE_SECS           2.0
#define STOP_SECS            1.0 /* for an answer after a signal */

typedef struct target {
    est_remote          base;
    char               *text; /* as the user gave it */
    const char         *address;
    double              connect_secs;
    est_server         *server; /* of this process: its network */
    est_link           *link;
    uint64_t            session;
    est_remote_segment *segments;
} target;

struct est_remote_segment {
    target             *of;
    uint64_t            number;
    int                 n_out;
    est_ask            *ask; /* under way; NULL: none */
    est_packing         in;
    est_message        *answer;
    est_unpacked        out;
    est_remote_segment *next;
};

static target *target_of(const est_remote *remote)
{
    target *t;

    memcpy(&t, &remote, sizeof t); /* the first member of a struct that is not const */
    return t;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Asks the master which tasks it waits for: a log message here names them. */
static void look_at_master(void *user, char *detail, size_t size)
{
    const target *t      = user;
    est_packing   none   = { 0 };
    est_message  *answer = NULL;
    est_payload   payload;
    est_ask      *ask;
    est_str       text;
    est_status    status = est_packing_payload(&none, &payload);

    if (status == EST_OK) {
        status = est_link_ask(t->link, EST_METHOD_SESSION_WAITS, est_method_text(EST_METHOD_SESSION_WAITS), payload,
                              WAITS_SECS, NULL, NULL, &ask);
    }
    if (status == EST_OK) status = est_ask_wait(ask, &answer);
    if (status == EST_OK) {
        text = est_head_bytes(answer, EST_FIELD_BYTES);
        if (text.size > 0) snprintf(detail, size, "it waits for %.*s", est_text_precision(text), text.data);
    } else {
        est_error_clear(); /* a wait without the detail */
    }
    est_message_free(answer);
}

/* limit_secs: after which the master answers, for the log; INFINITY: none is known. */
static est_status await(target *t, est_ask *ask, int method, double limit_secs, est_message **answer)
{
    est_waiting w = est_wait_begin(t->server->task, est_link_peer(t->link)->task, est_method_text(method), limit_secs);
    est_status  status;

    w.look = look_at_master;
    w.user = t;
    status = est_wait_answer(&w, ask, STOP_SECS, answer);
    est_wait_end(&w);
    return status;
}

/* Adds the session to the packing and sends it. */
static est_status send_master(const target *t, est_method method, est_packing *packing, double secs, est_ask **ask)
{
    est_payload payload;

    est_wire_put_u64(&packing->head, EST_FIELD_SESSION, t->session);
    EST_TRY(est_packing_payload(packing, &payload));
    return est_link_ask(t->link, (uint16_t)method, est_method_text(method), payload, secs, NULL, NULL, ask);
}

/* The same, and waits. */
static est_status ask_master(target *t, est_method method, est_packing *packing, double secs, est_message **answer)
{
    est_ask *ask;

    EST_TRY(send_master(t, method, packing, secs, &ask));
    return await(t, ask, method, est_ask_limit_secs(ask), answer);
}

/* The same without an answer. Clears the packing. */
static est_status tell_master(target *t, est_method method, est_packing *packing, double secs)
{
    est_message *answer = NULL;
    est_status   status = ask_master(t, method, packing, secs, &answer);

    est_message_free(answer);
    est_packing_clear(packing);
    return status;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

typedef struct looking {
    est_waiting wait;
    const char *text;
} looking;

static est_status look(void *user, const char *why)
{
    looking *l = user;

    if (est_wait_secs(&l->wait) > l->wait.limit_secs) {
        return est_fail(EST_UNAVAILABLE,
                        "no server answers at the target %s after %.0f s%s%s: start it, or correct the address",
                        l->text, l->wait.limit_secs, why[0] != '\0' ? ": " : "", why);
    }
    est_wait_report(&l->wait, why);
    return EST_OK;
}

static est_status open_session(target *t)
{
    est_packing  packing = { 0 };
    est_message *answer;
    est_ask     *ask;
    est_status   status;

    est_wire_put_u64(&packing.head, EST_FIELD_CONNECT_MS, (uint64_t)ceil(t->connect_secs * 1000)); /* 0: the default */
    status = send_master(t, EST_METHOD_OPEN_SESSION, &packing, EST_FOREVER, &ask); /* the master keeps the time */
    est_packing_clear(&packing);
    if (status == EST_OK) status = await(t, ask, EST_METHOD_OPEN_SESSION, t->connect_secs, &answer);
    if (status == EST_UNIMPLEMENTED) return est_fail_context(status, "%s has no master", t->text);
    EST_TRY(status);
    t->session = est_head_u64(answer, EST_FIELD_SESSION, 0);
    est_message_free(answer);
    return EST_OK;
}

static est_status connect(est_remote *remote)
{
    target    *t = target_of(remote);
    looking    l = { est_wait_begin(t->server->task, t->text, "nobody answers there", t->connect_secs), t->text };
    est_status status;

    status = est_net_connect_while(est_server_net(t->server), t->address, NULL, look, &l, &t->link);
    est_wait_end(&l.wait);
    EST_TRY(status);
    return open_session(t);
}

static est_status grow(est_remote *remote, const est_graph *graph)
{
    est_segment     whole   = { 0 };
    est_wire_writer bytes   = { 0 };
    est_packing     packing = { 0 };
    est_status      status;

    memcpy(&whole.graph, &graph, sizeof graph); /* it is only read */
    status = est_segment_encode(&whole, &bytes);
    if (status == EST_OK) {
        est_wire_put_bytes(&packing.head, EST_FIELD_BYTES, bytes.data, bytes.size);
        status = tell_master(target_of(remote), EST_METHOD_SESSION_GRAPH, &packing, EST_FOREVER);
    }
    est_wire_writer_clear(&bytes);
    return status;
}

/* --- names and places --------------------------------------------------------------------------------------------- */

static const char *name_of(const est_remote *remote, int task)
{
    (void)task;
    return target_of(remote)->text;
}

/* The master knows its tasks. */
static int find_task(const est_remote *remote, const char *job, int index)
{
    (void)remote;
    (void)job;
    (void)index;
    return 0;
}

static bool is_here(const est_remote *remote, const char *job, int index)
{
    (void)remote;
    (void)job;
    (void)index;
    return false;
}

static int located(const est_remote *remote, const char *variable)
{
    (void)remote;
    (void)variable;
    return 0;
}

static int place(est_remote *remote, uint64_t bytes, const bool *taken)
{
    (void)remote;
    (void)bytes;
    (void)taken;
    return 0;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static est_status enter_at(est_remote_segment *segment, const est_segment *cut)
{
    est_wire_writer bytes   = { 0 };
    est_packing     packing = { 0 };
    est_message    *answer  = NULL;
    est_status      status  = est_segment_encode(cut, &bytes);

    if (status == EST_OK) {
        est_wire_put_bytes(&packing.head, EST_FIELD_BYTES, bytes.data, bytes.size);
        status = ask_master(segment->of, EST_METHOD_SESSION_ENTER, &packing, EST_FOREVER, &answer);
    }
    if (status == EST_OK) {
        segment->number = est_head_u64(answer, EST_FIELD_SEGMENT, 0);
        if (est_head_u64(answer, EST_FIELD_OUTPUTS, 0) != (uint64_t)segment->n_out)
            status = est_fail(EST_INTERNAL, "%s returns another number of fetches than %d", segment->of->text,
                              segment->n_out);
    }
    est_message_free(answer);
    est_wire_writer_clear(&bytes);
    est_packing_clear(&packing);
    return status;
}

static est_status enter(est_remote *remote, const est_segment *cut, est_remote_segment **out)
{
    est_remote_segment *segment = est_zalloc(sizeof *segment);
    est_status          status;

    if (segment == NULL) return est_no_memory();
    segment->of    = target_of(remote);
    segment->n_out = cut->n_out;
    status         = enter_at(segment, cut);
    if (status != EST_OK) {
        est_free(segment);
        return status;
    }
    segment->next         = segment->of->segments;
    segment->of->segments = segment;
    *out                  = segment;
    return EST_OK;
}

/* Gives up a step whose answer is no longer wanted: it is awaited, unless a signal came. */
static void drop_ask(est_remote_segment *segment)
{
    est_message *answer = NULL;

    if (segment->ask == NULL) return;
    if (await(segment->of, segment->ask, EST_METHOD_SESSION_RUN, INFINITY, &answer) != EST_OK) est_error_clear();
    est_message_free(answer);
    segment->ask = NULL;
}

static void leave(est_remote_segment *segment)
{
    est_packing packing = { 0 };

    if (segment == NULL) return;
    drop_ask(segment);
    for (est_remote_segment **at = &segment->of->segments; *at != NULL; at = &(*at)->next) {
        if (*at != segment) continue;
        *at = segment->next;
        break;
    }
    est_wire_put_u64(&packing.head, EST_FIELD_SEGMENT, segment->number);
    if (est_link_is_lost(segment->of->link)) { /* the master has forgotten all */
        est_packing_clear(&packing);
    } else if (tell_master(segment->of, EST_METHOD_SESSION_LEAVE, &packing, EST_FOREVER) != EST_OK) {
        est_error_clear();
    }
    est_packing_clear(&segment->in);
    est_message_free(segment->answer);
    est_unpacked_clear(&segment->out);
    est_free(segment);
}

static est_status start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in)
{
    const target *t = segment->of;
    est_payload   payload;

    est_message_free(segment->answer);
    segment->answer = NULL;
    est_packing_reset(&segment->in);
    est_wire_put_u64(&segment->in.head, EST_FIELD_SESSION, t->session);
    est_wire_put_u64(&segment->in.head, EST_FIELD_SEGMENT, segment->number);
    est_wire_put_u64(&segment->in.head, EST_FIELD_SEED, run_seed);
    for (int i = 0; i < n_in; i++) est_pack_view(&segment->in, in[i]);
    EST_TRY(est_packing_payload(&segment->in, &payload));
    return est_link_ask(t->link, EST_METHOD_SESSION_RUN, est_method_text(EST_METHOD_SESSION_RUN), payload, EST_FOREVER,
                        NULL, NULL, &segment->ask);
}

static est_status finish(est_remote_segment *segment, const est_view **out)
{
    est_ask *ask = segment->ask;

    if (ask == NULL) return est_fail(EST_INTERNAL, "a step at %s was not started", segment->of->text);
    segment->ask = NULL;
    EST_TRY(await(segment->of, ask, EST_METHOD_SESSION_RUN, INFINITY, &segment->answer));
    EST_TRY(est_unpack_tensors(segment->answer, &segment->out));
    if (segment->out.n != segment->n_out) {
        return est_fail(EST_DATA_LOSS, "%s answered with %d tensors instead of %d", segment->of->text, segment->out.n,
                        segment->n_out);
    }
    *out = segment->out.views;
    return EST_OK;
}

static void abandon(est_remote *remote)
{
    for (est_remote_segment *s = target_of(remote)->segments; s != NULL; s = s->next) drop_ask(s);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static est_status take_initialized(const est_message *answer, est_map *names)
{
    est_wire_reader r;
    est_wire_field  field;
    est_str         name = { 0 };

    est_head_open(answer, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_NAME) name = est_wire_bytes(&r, &field);
        if (field.number != EST_FIELD_INITIALIZED || name.data == NULL || !est_wire_bool(&r, &field)) continue;
        EST_TRY(est_map_put_bytes(names, name.data, name.size, names));
    }
    return est_wire_finish(&r);
}

static est_status initialized(est_remote *remote, est_var *const *vars, int n, bool *flags)
{
    est_packing  packing = { 0 };
    est_map      names   = { 0 };
    est_message *answer  = NULL;
    est_status   status;

    status = ask_master(target_of(remote), EST_METHOD_SESSION_VARIABLES, &packing, EST_FOREVER, &answer);
    if (status == EST_OK) status = take_initialized(answer, &names);
    for (int i = 0; i < n && status == EST_OK; i++) flags[i] = est_map_get(&names, vars[i]->name) != NULL;
    est_map_clear(&names);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

/* The answer of the master has the name of a variable, then its device. */
static est_status take_device(const est_message *answer, const char *name, char *out, size_t size)
{
    est_wire_reader r;
    est_wire_field  field;
    bool            found = false;

    out[0] = '\0';
    est_head_open(answer, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number != EST_FIELD_NAME && (field.number != EST_FIELD_DEVICE || !found)) continue;

        est_str text = est_wire_bytes(&r, &field);

        if (field.number == EST_FIELD_NAME) {
            found = text.size == strlen(name) && memcmp(text.data, name, text.size) == 0;
        } else {
            snprintf(out, size, "%.*s", est_text_precision(text), text.data);
        }
    }
    return est_wire_finish(&r);
}

static est_status find_device(est_remote *remote, const est_var *var, char *out, size_t size)
{
    target      *t       = target_of(remote);
    est_packing  packing = { 0 };
    est_message *answer  = NULL;
    est_status   status  = ask_master(t, EST_METHOD_SESSION_VARIABLES, &packing, EST_FOREVER, &answer);

    if (status == EST_OK) status = take_device(answer, var->name, out, size);
    if (status == EST_OK && out[0] == '\0')
        status = est_fail(EST_DATA_LOSS, "%s did not say where variable '%s' is", t->text, var->name);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    target      *t       = target_of(remote);
    est_packing  packing = { 0 };
    est_message *answer  = NULL;
    est_status   status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    status = ask_master(t, EST_METHOD_SESSION_READ, &packing, EST_FOREVER, &answer);
    if (status == EST_OK) status = est_unpack_variable(answer, t->text, var->name, out);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    est_packing packing = { 0 };
    est_view    view;

    if (value == NULL)
        return est_fail(EST_UNIMPLEMENTED, "'%s' at a target: only a coordinator clears embeddings", var->name);
    view = (est_view){ est_tensor_view_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                       est_tensor_count(value) };
    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    est_pack_view(&packing, &view);
    return tell_master(target_of(remote), EST_METHOD_SESSION_WRITE, &packing, EST_FOREVER);
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* The master knows at which task each entry is. */
static est_status ask_files(est_remote *remote, est_method method, const char *prefix, const est_remote_entry *entries,
                            int n, est_message **answer)
{
    est_packing packing = { 0 };
    est_status  status;

    if (prefix != NULL) est_wire_put_string(&packing.head, EST_FIELD_PREFIX, prefix);
    for (int i = 0; i < n; i++) est_checkpoint_entry_pack(&packing, &entries[i].entry);
    status = ask_master(target_of(remote), method, &packing, EST_FOREVER, answer);
    est_packing_clear(&packing);
    return status;
}

static est_status use_files(est_remote *remote, est_method method, const char *prefix, const est_remote_files *files)
{
    est_message *answer = NULL;
    est_status   status = ask_files(remote, method, prefix, files->entries, files->n, &answer);

    est_message_free(answer);
    return status;
}

static est_status find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    est_message *answer = NULL;
    est_status   status = ask_files(remote, EST_METHOD_SESSION_FIND_NAN, NULL, entries, n, &answer);
    int64_t      found  = status == EST_OK ? (int64_t)est_head_u64(answer, EST_FIELD_STEP, UINT64_MAX) : -1;

    *out = found >= 0 && found < n ? (int)found : -1;
    est_message_free(answer);
    return status;
}

/* To the session the master is one task, so that it leaves one part. */
static est_status save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    char      *path = NULL;
    est_status status;

    parts[0] = files->n > 0;
    EST_TRY(est_part_prefix(files->prefix, 0, &path));
    status = use_files(remote, EST_METHOD_SESSION_SAVE, path, files);
    est_free(path);
    return status;
}

static est_status verify(est_remote *remote, const est_remote_files *files)
{
    return use_files(remote, EST_METHOD_SESSION_VERIFY, files->prefix, files);
}

static est_status restore(est_remote *remote, const est_remote_files *files)
{
    return use_files(remote, EST_METHOD_SESSION_RESTORE, files->prefix, files);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static const est_remote_ops target_ops = {
    .connect     = connect,
    .name        = name_of,
    .find        = find_task,
    .is_here     = is_here,
    .located     = located,
    .place       = place,
    .grow        = grow,
    .enter       = enter,
    .leave       = leave,
    .start       = start,
    .finish      = finish,
    .abandon     = abandon,
    .initialized = initialized,
    .read        = read_variable,
    .write       = write_variable,
    .device      = find_device,
    .find_nan    = find_nan,
    .save        = save,
    .verify      = verify,
    .restore     = restore,
};

/* "tls://host:port": the transport and the address. */
static est_status read_target(const char *text, char transport[16], const char **address)
{
    const char *end  = strstr(text, "://");
    size_t      size = end != NULL ? (size_t)(end - text) : 0;

    if (size == 0 || size >= 16 || end[3] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the target \"%.200s\" is no address: expected tls://host:port, as est_server_target gives it",
                        text);
    }
    memcpy(transport, text, size);
    transport[size] = '\0';
    *address        = end + 3;
    return EST_OK;
}

/* A network of this process, as that of a client of a cluster of which only this address is known. */
static est_status make_network(target *t, const char *transport)
{
    est_cluster *cluster;
    est_status   status;

    EST_TRY(est_cluster_create(
        (est_jobs){ (const est_job[]){ { .name = "target", .addresses = { &t->address, 1 } } }, 1 }, &cluster));
    status = est_server_create(cluster, NULL, 0, EST_SERVER(.transport = transport, .threads = 1), &t->server);
    est_cluster_free(cluster);
    return status;
}

est_status est_target_create(const char *text, double connect_secs, est_remote **out)
{
    target    *t;
    char       transport[16];
    est_status status;

    if (!(connect_secs >= 0 && connect_secs <= CONNECT_SECS_MAX)) { /* NaN as well */
        return est_fail(EST_INVALID_ARGUMENT,
                        "connect_secs of a session is %g; expected seconds, from 0 (the default, %g) to %g",
                        connect_secs, CONNECT_SECS_DEFAULT, CONNECT_SECS_MAX);
    }
    t = est_zalloc(sizeof *t);
    if (t == NULL) return est_no_memory();
    t->base         = (est_remote){ .ops = &target_ops, .n_tasks = 1, .n_keepers = 1, .runs_all = true };
    t->connect_secs = connect_secs > 0 ? connect_secs : CONNECT_SECS_DEFAULT;
    t->text         = est_strdup(text);
    status          = t->text != NULL ? read_target(t->text, transport, &t->address) : est_no_memory();
    if (status == EST_OK) status = make_network(t, transport);
    if (status != EST_OK) {
        est_target_free(&t->base);
        return status;
    }
    *out = &t->base;
    return EST_OK;
}

void est_target_free(est_remote *remote)
{
    target     *t       = target_of(remote);
    est_packing nothing = { 0 };
    est_error   error;

    if (remote == NULL) return;
    est_error_take(EST_OK, &error); /* the program may still want to report it */
    if (t->session != 0 && !est_link_is_lost(t->link) &&
        tell_master(t, EST_METHOD_CLOSE_SESSION, &nothing, CLOSE_SECS) != EST_OK) {
        (void)est_error_raise(&error); /* the session ends with the link as well */
    }
    if (t->link != NULL) est_link_free(t->link);
    est_server_free(t->server);
    est_free(t->text);
    est_free(t);
}
