/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the requests of a session at a master (cluster/master_session.h), several in a row: one byte is the method,
 * two are the size of the head, two that of a part; head and part follow. The remote of the session accepts every
 * segment, fails every run and writes no file, so that no task is needed. A refused request leaves a session that can
 * be closed. */
#include <stdlib.h>
#include <string.h>

#include "../support/message_test.h"
#include "cluster/master_session.h"
#include "net/link.h"
#include "runtime/remote.h"
#include "tensor/tensor.h"

int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name is the sanitizer's */

/* A graph may ask for any amount of memory, and then it gets none, as on a machine that has not so much. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

#define FRONT_BYTES 5 /* of a request */

static void require(bool holds)
{
    if (!holds) abort();
}

/* --- a remote of one task ----------------------------------------------------------------------------------------- */

struct est_remote_segment {
    int n_out;
};

static const char *name_of(const est_remote *remote, int task)
{
    (void)remote, (void)task;
    return "worker:0";
}

static int find_task(const est_remote *remote, const char *job, int index)
{
    (void)remote, (void)job;
    return index == 0 ? 0 : -1;
}

static bool is_here(const est_remote *remote, const char *job, int index)
{
    (void)remote, (void)job, (void)index;
    return false;
}

static int located(const est_remote *remote, const char *variable)
{
    (void)remote, (void)variable;
    return 0;
}

static int place(est_remote *remote, uint64_t bytes, const bool *taken)
{
    (void)remote, (void)bytes, (void)taken;
    return 0;
}

static est_status enter(est_remote *remote, const est_segment *cut, est_remote_segment **out)
{
    est_wire_writer bytes = { 0 };
    est_status      status;

    (void)remote;
    status = est_segment_encode(cut, &bytes); /* as for a task */
    est_wire_writer_clear(&bytes);
    EST_TRY(status);
    *out = est_zalloc(sizeof **out);
    return *out != NULL ? EST_OK : est_no_memory();
}

static void leave(est_remote_segment *segment)
{
    est_free(segment);
}

static est_status start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in)
{
    (void)segment, (void)run_seed, (void)in, (void)n_in;
    return EST_OK;
}

static est_status finish(est_remote_segment *segment, const est_view **out)
{
    (void)segment, (void)out;
    return est_fail(EST_UNAVAILABLE, "no task runs anything here");
}

static void abandon(est_remote *remote)
{
    (void)remote;
}

static est_status initialized(est_remote *remote, est_var *const *vars, int n, bool *flags)
{
    (void)remote, (void)vars;
    for (int i = 0; i < n; i++) flags[i] = i % 2 == 0;
    return EST_OK;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    (void)remote;
    return est_tensor_f32(EST_SHAPE_SCALAR, &(float){ var->name[0] }, out);
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    (void)remote;
    require(var->name != NULL && value != NULL);
    return EST_OK;
}

/* What a task would be sent. */
static void check_entries(const est_remote *remote, const est_remote_entry *entries, int n)
{
    for (int i = 0; i < n; i++) {
        require(entries[i].task >= 0 && entries[i].task < remote->n_tasks);
        require(entries[i].entry.name != NULL && entries[i].entry.key != NULL);
    }
}

static est_status find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    check_entries(remote, entries, n);
    *out = n - 1;
    return EST_OK;
}

static est_status save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    check_entries(remote, files->entries, files->n);
    (void)parts;
    return est_fail(EST_UNAVAILABLE, "no task writes '%s' here", files->prefix);
}

static est_status use_files(est_remote *remote, const est_remote_files *files)
{
    check_entries(remote, files->entries, files->n);
    return strlen(files->prefix) % 2 == 0 ? EST_OK : est_fail(EST_NOT_FOUND, "there is no '%s'", files->prefix);
}

static const est_remote_ops ops = {
    .name        = name_of,
    .find        = find_task,
    .is_here     = is_here,
    .located     = located,
    .place       = place,
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
    .verify      = use_files,
    .restore     = use_files,
};

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* A request over a link that was never opened: its answer goes nowhere. */
static est_request *make_request(est_link *link, int method, est_payload payload)
{
    est_request *request = est_block_alloc(link->blocks, sizeof *request);

    require(request != NULL);
    *request = (est_request){ .link = est_link_ref(link), .id = 1, .method = (uint16_t)method };
    require(message_make(link->blocks, payload, &request->message) == EST_OK);
    return request;
}

static void execute(est_master_session *s, est_request *request)
{
    est_status status = est_master_session_execute(s, request);

    if (status != EST_OK) est_request_fail(request, status, est_error_message());
}

/* All requests of a session; the first byte is the index. */
static const int methods[] = { EST_METHOD_SESSION_GRAPH,   EST_METHOD_SESSION_ENTER,     EST_METHOD_SESSION_LEAVE,
                               EST_METHOD_SESSION_RUN,     EST_METHOD_SESSION_VARIABLES, EST_METHOD_SESSION_READ,
                               EST_METHOD_SESSION_WRITE,   EST_METHOD_SESSION_SAVE,      EST_METHOD_SESSION_VERIFY,
                               EST_METHOD_SESSION_RESTORE, EST_METHOD_SESSION_FIND_NAN };

static void serve(est_master_session *s, est_link *link, const uint8_t *data, size_t size)
{
    while (size >= FRONT_BYTES) {
        int      method = methods[data[0] % (sizeof methods / sizeof methods[0])];
        size_t   head = (size_t)(data[1] | data[2] << 8), bytes = (size_t)(data[3] | data[4] << 8);
        est_part part;

        data += FRONT_BYTES;
        size -= FRONT_BYTES;
        if (head > size) head = size;
        if (bytes > size - head) bytes = size - head;
        part = (est_part){ data + head, bytes };
        execute(s, make_request(link, method, (est_payload){ data, head, &part, bytes > 0 }));
        data += head + bytes;
        size -= head + bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static est_net    *net;
    static est_link   *link;
    est_server         client  = { .task = "client:fuzz" };
    est_remote         remote  = { .ops = &ops, .n_tasks = 1, .n_keepers = 1, .direct = true };
    est_master_session session = { .client = &client, .remote = &remote };

    if (net == NULL) {
        require(est_net_create(&(est_net_options){ .transport = "tcp", .self = { .task = "client:fuzz" } }, &net) ==
                EST_OK);
        require(est_link_create(net, "nowhere", "", &link) == EST_OK);
    }
    require(est_host_create(1, &client.host) == EST_OK);
    serve(&session, link, data, size);
    session.remote = NULL; /* it is not from est_remote_create */
    est_master_session_close(&session);
    est_host_free(client.host);
    return 0;
}
