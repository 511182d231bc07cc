/* SPDX-License-Identifier: Apache-2.0
 *
 * The client of a master (cluster/master.h): a remote with one task, which has all variables and runs all operations.
 *
 * Checkpoints are written and read by this process: values travel through the master, and tasks and client need no
 * common file system. */
#include "runtime/session_target.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"
#include "cluster/server.h"
#include "cluster/wait_table.h"
#include "tensor/tensor.h"

#define CONNECT_SECS_DEFAULT 7200.0
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

static est_status await(const target *t, est_ask *ask, int method, est_message **answer)
{
    est_waiting w      = est_wait_begin(t->server->task, est_link_peer(t->link)->task, est_method_text(method),
                                        est_ask_limit_secs(ask));
    est_status  status = est_wait_answer(&w, ask, STOP_SECS, answer);

    est_wait_end(&w);
    return status;
}

/* Adds the session to the packing, sends it and waits. */
static est_status ask_master(const target *t, est_method method, est_packing *packing, double secs,
                             est_message **answer)
{
    est_payload payload;
    est_ask    *ask;

    est_wire_put_u64(&packing->head, EST_FIELD_SESSION, t->session);
    EST_TRY(est_packing_payload(packing, &payload));
    EST_TRY(est_link_ask(t->link, (uint16_t)method, est_method_text(method), payload, secs, NULL, NULL, &ask));
    return await(t, ask, method, answer);
}

/* The same without an answer. Clears the packing. */
static est_status tell_master(const target *t, est_method method, est_packing *packing, double secs)
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
    est_status   status;

    est_wire_put_u64(&packing.head, EST_FIELD_CONNECT_MS, (uint64_t)(t->connect_secs * 1000));
    status = ask_master(t, EST_METHOD_OPEN_SESSION, &packing, EST_FOREVER, &answer);
    est_packing_clear(&packing);
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
    if (await(segment->of, segment->ask, EST_METHOD_SESSION_RUN, &answer) != EST_OK) est_error_clear();
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
    EST_TRY(await(segment->of, ask, EST_METHOD_SESSION_RUN, &segment->answer));
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

static est_status read_named(est_remote *remote, const char *name, est_tensor **out)
{
    const target *t       = target_of(remote);
    est_packing   packing = { 0 };
    est_unpacked  got     = { 0 };
    est_message  *answer  = NULL;
    est_status    status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, name);
    status = ask_master(t, EST_METHOD_SESSION_READ, &packing, EST_FOREVER, &answer);
    if (status == EST_OK) status = est_unpack_tensors(answer, &got);
    if (status == EST_OK && got.n != 1)
        status = est_fail(EST_DATA_LOSS, "%s sent %d tensors for variable '%s', expected 1", t->text, got.n, name);
    if (status == EST_OK)
        status = est_tensor_create_from(got.views[0].dtype, got.views[0].shape, got.views[0].data, out);
    est_unpacked_clear(&got);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    return read_named(remote, var->name, out);
}

static est_status write_view(est_remote *remote, const char *name, const est_view *view)
{
    est_packing packing = { 0 };

    est_wire_put_string(&packing.head, EST_FIELD_NAME, name);
    est_pack_view(&packing, view);
    return tell_master(target_of(remote), EST_METHOD_SESSION_WRITE, &packing, EST_FOREVER);
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    est_view view = { est_tensor_view_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                      est_tensor_count(value) };

    return write_view(remote, var->name, &view);
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* The variables of entries, in this process. */
typedef struct copies {
    est_store       *store;
    est_store_entry *entries;
    int              n;
} copies;

static void free_copies(copies *c)
{
    est_store_free(c->store);
    est_free(c->entries);
}

static est_status make_copies(const est_remote_entry *entries, int n, copies *out)
{
    *out = (copies){ .entries = est_alloc(sizeof *out->entries * ((size_t)n + 1)), .n = n };
    if (out->entries == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        out->entries[i] = entries[i].entry;
        if (entries[i].entry.rows_spec.name == NULL) continue;
        return est_fail(EST_UNIMPLEMENTED,
                        "'%s' belongs to a dynamic embedding, which a session at a target does not save or restore: "
                        "use a session with a remote (docs/cluster.md)",
                        entries[i].entry.name);
    }
    return est_store_create(&est_device_cpu, &out->store);
}

static est_status read_copies(est_remote *remote, const copies *c)
{
    for (int i = 0; i < c->n; i++) {
        est_tensor *value;
        est_var    *var;
        est_status  status;

        EST_TRY(read_named(remote, c->entries[i].name, &value));
        status = est_store_get(c->store, c->entries[i].name, est_tensor_dtype(value), *est_tensor_shape(value), &var);
        if (status == EST_OK) est_var_write(var, est_tensor_data(value));
        est_tensor_free(value);
        EST_TRY(status);
    }
    return EST_OK;
}

static est_status find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    copies     c;
    est_status status = make_copies(entries, n, &c);

    if (status == EST_OK) status = read_copies(remote, &c);
    if (status == EST_OK) *out = est_store_find_nan(c.store, c.entries, n);
    free_copies(&c);
    return status;
}

static est_status save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    est_snapshot *snapshot = NULL;
    char         *path     = NULL;
    copies        c;
    est_status    status = make_copies(files->entries, files->n, &c);

    parts[0] = files->n > 0;
    if (status == EST_OK) status = read_copies(remote, &c);
    if (status == EST_OK) status = est_part_prefix(files->prefix, 0, &path);
    if (status == EST_OK) status = est_store_snapshot(c.store, c.entries, c.n, &snapshot);
    if (status == EST_OK) status = est_snapshot_write(snapshot, path);
    est_snapshot_free(snapshot);
    free_copies(&c);
    est_free(path);
    return status;
}

static est_status write_copies(est_remote *remote, const copies *c)
{
    for (int i = 0; i < c->n; i++) {
        est_view view = est_var_stored(est_store_find(c->store, c->entries[i].name));

        EST_TRY(write_view(remote, c->entries[i].name, &view));
    }
    return EST_OK;
}

static est_status read_files(est_remote *remote, const est_remote_files *files, bool verify_only)
{
    est_bundle *bundle = NULL;
    copies      c;
    est_status  status = make_copies(files->entries, files->n, &c);

    if (status == EST_OK) status = est_bundle_open(files->prefix, &bundle);
    if (status == EST_OK && verify_only) {
        status = est_store_verify(bundle, c.entries, c.n);
    } else if (status == EST_OK) {
        status = est_store_restore(c.store, bundle, c.entries, c.n);
        if (status == EST_OK) status = write_copies(remote, &c);
    }
    est_bundle_close(bundle);
    free_copies(&c);
    return status;
}

static est_status verify(est_remote *remote, const est_remote_files *files)
{
    return read_files(remote, files, true);
}

static est_status restore(est_remote *remote, const est_remote_files *files)
{
    return read_files(remote, files, false);
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
    target    *t = est_zalloc(sizeof *t);
    char       transport[16];
    est_status status;

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

    if (remote == NULL) return;
    if (t->session != 0 && !est_link_is_lost(t->link) &&
        tell_master(t, EST_METHOD_CLOSE_SESSION, &nothing, CLOSE_SECS) != EST_OK) {
        est_error_clear(); /* the session ends with the link as well */
    }
    if (t->link != NULL) est_link_free(t->link);
    est_server_free(t->server);
    est_free(t->text);
    est_free(t);
}
