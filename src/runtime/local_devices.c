/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a session that run by themselves, as tasks of a remote. */
#include "runtime/local_devices.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "runtime/record.h"

struct est_local_devices {
    est_remote        remote; /* first */
    est_device_choice choice;
    int64_t           memory_limit; /* est_session_options */
    const est_device *devices[EST_DEVICES_MAX];
    est_queue        *queues[EST_DEVICES_MAX];
    char              names[EST_DEVICES_MAX][EST_DEVICE_NAME_MAX];
};

struct est_remote_segment {
    est_plan                 *plan;
    est_plan_input           *in;     /* [plan->io.n_feeds]: of the run under way */
    const est_device *const **fed_on; /* [plan->io.n_feeds]: where a fed tensor lies that is the input; NULL: no such */
};

static const est_local_devices *of(const est_remote *remote)
{
    return (const est_local_devices *)remote;
}

static const char *name(const est_remote *remote, int task)
{
    return of(remote)->names[task];
}

static est_status assign(const est_remote *remote, const struct est_partition_step *step, int32_t *task)
{
    return est_device_place_nodes(&of(remote)->choice, step, task);
}

static void leave(est_remote_segment *segment)
{
    if (segment == NULL) return;
    est_plan_free(segment->plan);
    est_free(segment->in);
    est_free(segment->fed_on);
    est_free(segment);
}

static est_status start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        segment->in[i] = (est_plan_input){ in[i], segment->fed_on[i] != NULL ? *segment->fed_on[i] : NULL };
    }
    return est_plan_start(segment->plan, segment->in, run_seed);
}

static est_status expect(est_remote_segment *segment, const est_view **out)
{
    *out = est_plan_expect(segment->plan);
    return EST_OK;
}

static est_status finish(est_remote_segment *segment, const est_view **out)
{
    return est_plan_finish(segment->plan, out);
}

/* A failure that nobody has seen is of the step that has failed already. */
void est_local_devices_abandon(est_local_devices *d)
{
    for (int i = 0; i < d->choice.n; i++) {
        const est_device_runs     *runs = d->devices[i]->runs;
        const struct est_node_def *failed;
        uint64_t                   mark;
        est_status                 status = runs->mark(d->queues[i], &mark);

        if (status == EST_OK) status = runs->wait(d->queues[i], mark, &failed);
        if (status != EST_OK) est_log_debug("%s after the step had failed: %s", d->names[i], est_error_message());
    }
}

static const est_remote_ops device_ops = {
    .name   = name,
    .assign = assign,
    .leave  = leave,
    .start  = start,
    .finish = finish,
    .expect = expect,
};

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status add_device(est_local_devices *d, const est_device *device)
{
    int i = d->choice.n;

    if (d->memory_limit > 0 && device->limit != NULL) device->limit(device, (size_t)d->memory_limit);
    EST_TRY(device->runs->open(device, &d->queues[i]));
    d->devices[i] = device;
    (void)est_device_name(device, d->names[i], sizeof d->names[i]);
    d->choice.n = d->remote.n_tasks = i + 1;
    return EST_OK;
}

static est_status add_named(est_local_devices *d, const char *text)
{
    const est_device *device;

    if (text == NULL) return est_fail(EST_INVALID_ARGUMENT, "a device of a session is NULL");
    EST_TRY(est_device_named(text, &device));
    if (device->runs == NULL) return EST_OK; /* the CPU, which every session has */
    for (int i = 0; i < d->choice.n; i++) {
        if (d->devices[i] == device) return est_fail(EST_INVALID_ARGUMENT, "the device \"%s\" is named twice", text);
    }
    return add_device(d, device);
}

/* By default the first device that is not the CPU, as TensorFlow has it. */
static est_status add_default(est_local_devices *d)
{
    const est_device *const *devices;

    return est_devices(&devices) > 1 ? add_device(d, devices[1]) : EST_OK;
}

est_status est_local_devices_create(const est_session_options *options, est_local_devices **out)
{
    est_local_devices *d;
    est_status         status;

    EST_REQUIRE_LIST("session devices", options->devices);
    if (options->device_memory_limit < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "device_memory_limit is %" PRId64 "; write a number of bytes, or 0",
                        options->device_memory_limit);
    }
    d = est_zalloc(sizeof *d);
    if (d == NULL) return est_no_memory();
    d->memory_limit             = options->device_memory_limit;
    d->remote.ops               = &device_ops;
    d->remote.whole_phases      = true;
    d->choice.devices           = d->devices;
    d->choice.no_soft_placement = options->no_soft_placement;
    d->choice.log_placement     = options->log_device_placement;
    status                      = options->devices.n == 0 ? add_default(d) : EST_OK;
    for (int i = 0; i < options->devices.n && status == EST_OK; i++) status = add_named(d, options->devices.data[i]);
    if (status != EST_OK || (d->choice.n == 0 && !d->choice.no_soft_placement && !d->choice.log_placement)) {
        est_local_devices_free(d);
        d = NULL;
    }
    EST_TRY(status);
    *out = d;
    return EST_OK;
}

est_status est_local_devices_again(const est_local_devices *like, est_local_devices **out)
{
    est_local_devices *d;
    est_status         status = EST_OK;

    *out = NULL;
    if (like == NULL) return EST_OK;
    d = est_zalloc(sizeof *d);
    if (d == NULL) return est_no_memory();
    d->remote         = like->remote;
    d->choice         = like->choice;
    d->choice.devices = d->devices;
    d->choice.n       = 0;
    for (int i = 0; i < like->choice.n && status == EST_OK; i++) status = add_device(d, like->devices[i]);
    if (status != EST_OK) {
        est_local_devices_free(d);
        return status;
    }
    *out = d;
    return EST_OK;
}

void est_local_devices_free(est_local_devices *devices)
{
    if (devices == NULL) return;
    for (int i = 0; i < devices->choice.n; i++) devices->devices[i]->runs->close(devices->queues[i]);
    est_free(devices);
}

est_remote *est_local_devices_remote(est_local_devices *devices)
{
    return &devices->remote;
}

est_status est_local_devices_copies(const est_local_devices *devices, est_graph *graph, est_io *io,
                                    const est_store *store, est_arena *arena)
{
    return devices->choice.n > 1 ? est_pass_copies(graph, io, store, &devices->choice, arena) : EST_OK;
}

est_status est_local_devices_variables(const est_local_devices *devices, const est_graph *graph, est_store *store,
                                       bool may_move)
{
    return est_device_place_variables(&devices->choice, graph, store, may_move);
}

const est_device *est_local_devices_queue(const est_local_devices *devices, int task, est_queue **out)
{
    *out = devices->queues[task];
    return devices->devices[task];
}

est_plan *est_local_devices_plan(const est_remote_segment *segment)
{
    return segment->plan;
}

void est_local_devices_feed(est_remote_segment *segment, int input, const est_device *const *fed_on)
{
    segment->fed_on[input] = fed_on;
}

void est_local_devices_log(const est_local_devices *devices, const est_graph *graph, const char *task)
{
    const char *colon = strrchr(task, ':');
    int         job   = colon != NULL ? (int)(colon - task) : (int)strlen(task);

    for (int32_t id = 0; id < est_graph_size(graph) && devices->choice.log_placement; id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (def->op->source == EST_SOURCE_FEED || def->op->source == EST_SOURCE_CONST) continue;
        est_log_info("%s: (%s): /job:%.*s/replica:0/task:%s/device:CPU:0", def->name, def->op->name, job, task,
                     colon != NULL ? colon + 1 : "0");
    }
}

est_status est_local_devices_enter(est_local_devices *devices, const est_segment *segment, est_store *store,
                                   const est_plan_options *options, est_remote_segment **out)
{
    est_plan_options    own = { .device         = devices->devices[segment->task],
                                .queue          = devices->queues[segment->task],
                                .passes         = options->passes,
                                .check_numerics = options->check_numerics,
                                .no_tf32        = options->no_tf32 };
    size_t              n   = (size_t)segment->io.n_feeds + 1;
    est_remote_segment *s   = est_zalloc(sizeof *s);
    est_status          status;

    if (s == NULL) return est_no_memory();
    s->in     = est_zalloc(sizeof *s->in * n);
    s->fed_on = est_zalloc(sizeof *s->fed_on * n);
    status = s->in != NULL && s->fed_on != NULL ? est_plan_create(segment->graph, &segment->io, store, &own, &s->plan)
                                                : est_no_memory();
    if (status != EST_OK) {
        leave(s);
        return status;
    }
    if (devices->choice.log_placement) {
        est_log_info("%s: phase %d of a step, %d values from the host, %d to it", devices->names[segment->task],
                     (segment->phase + 1) / 2, segment->io.n_feeds, segment->io.n_fetches);
    }
    *out = s;
    return EST_OK;
}
