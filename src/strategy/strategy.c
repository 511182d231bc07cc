/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous strategies: what they are made of. What they do to a graph is strategy/run.c. */
#include "strategy/strategy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "cluster/cluster.h"
#include "collective/collective.h"
#include "estoc/input.h"
#include "graph/device_name.h"
#include "strategy/workers.h"

const char *est_strategy_name(const est_strategy *strategy)
{
    static const char *const names[] = { [EST_STRATEGY_DEFAULT]               = "default",
                                         [EST_STRATEGY_PARAMETER_SERVER]      = "parameter_server",
                                         [EST_STRATEGY_ONE_DEVICE]            = "one_device",
                                         [EST_STRATEGY_MIRRORED]              = "mirrored",
                                         [EST_STRATEGY_CENTRAL_STORAGE]       = "central_storage",
                                         [EST_STRATEGY_MULTI_WORKER_MIRRORED] = "multi_worker_mirrored" };

    return names[strategy != NULL ? strategy->kind : EST_STRATEGY_DEFAULT];
}

bool est_strategy_needs_no_chief(const est_strategy *strategy)
{
    /* With parameter servers somebody has to give their variables values. */
    return strategy != NULL && strategy->kind == EST_STRATEGY_MULTI_WORKER_MIRRORED;
}

static void workers_text(const est_strategy *s, est_strbuf *out)
{
    const est_multi_worker_mirrored_options *o = &s->workers;

    est_strbuf_printf(out,
                      ", \"workers\": %d, \"communication\": \"%s\", \"bytes_per_pack\": %" PRId64
                      ", \"timeout_secs\": %g, \"rejoin_secs\": %g, \"elastic\": %s",
                      s->n_workers, est_communication_name(o->communication), o->bytes_per_pack, o->timeout_secs,
                      o->rejoin_secs, o->elastic ? "true" : "false");
}

void est_strategy_text(const est_strategy *strategy, est_strbuf *out)
{
    if (strategy->kind == EST_STRATEGY_PARAMETER_SERVER) {
        est_parameter_server_text(strategy, out);
        return;
    }
    est_strbuf_printf(out, "{\"name\": \"%s\", \"replicas\": %d", est_strategy_name(strategy), strategy->replicas);
    if (strategy->kind == EST_STRATEGY_MULTI_WORKER_MIRRORED) workers_text(strategy, out);
    est_strbuf_append(out, "}");
}

void est_strategy_free(est_strategy *strategy)
{
    if (strategy == NULL) return;
    est_resolver_free(strategy->resolver);
    est_free(strategy);
}

/* --- devices --------------------------------------------------------------------------------------------------------- */

/* The number of a CPU. */
static est_status cpu_number(const char *strategy, const char *device, int *out)
{
    est_device_task d;

    if (device == NULL || device[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "%s: a device is missing; write \"/cpu:0\"", strategy);
    }
    EST_TRY(est_device_name_check(device));
    d = est_device_name_task(device);
    if (strcasecmp(d.kind, "cpu") != 0 || d.number < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: there is no device \"%s\" here; this build computes on CPUs: write \"/cpu:0\", \"/cpu:1\"",
                        strategy, device);
    }
    *out = d.number;
    return EST_OK;
}

static est_status check_devices(const char *strategy, est_strings devices)
{
    for (int i = 0; i < devices.n; i++) {
        int mine, other;

        EST_TRY(cpu_number(strategy, devices.data[i], &mine));
        for (int k = 0; k < i; k++) {
            EST_TRY(cpu_number(strategy, devices.data[k], &other));
            if (mine != other) continue;
            return est_fail(EST_INVALID_ARGUMENT, "%s: no duplicates are allowed among devices: \"%s\" and \"%s\"",
                            strategy, devices.data[k], devices.data[i]);
        }
    }
    return EST_OK;
}

/* How many replicas a list of devices and a number of replicas say together. */
static est_status count_replicas(const char *strategy, est_strings devices, int replicas, int *out)
{
    if (!EST_LIST_OK(devices) || (devices.n == 0 && devices.data != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: devices.n is %d, and devices.data is %s; name at least one, or none",
                        strategy, devices.n, devices.data != NULL ? "given" : "NULL");
    }
    if (replicas < 0 || replicas > EST_STRATEGY_REPLICAS_MAX || devices.n > EST_STRATEGY_REPLICAS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %d replicas; write a number from 1 to %d", strategy,
                        replicas != 0 ? replicas : devices.n, EST_STRATEGY_REPLICAS_MAX);
    }
    if (devices.n > 0 && replicas > 0 && replicas != devices.n) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: %d replicas on %d devices; a device has one, leave out replicas",
                        strategy, replicas, devices.n);
    }
    EST_TRY(check_devices(strategy, devices));
    *out = devices.n > 0 ? devices.n : replicas > 0 ? replicas : 1;
    return EST_OK;
}

/* TensorFlow makes a replica of every GPU it finds; here somebody has to ask for more than one. */
static void say_if_one(const char *strategy, int n_devices, int n)
{
    if (n == 1 && n_devices == 0) est_log_info("%s: 1 replica; set replicas to have more", strategy);
}

/* --- constructors ---------------------------------------------------------------------------------------------------- */

static est_status make(est_strategy_kind kind, int replicas, est_strategy **out)
{
    est_strategy *s = est_zalloc(sizeof *s);

    if (s == NULL) return est_no_memory();
    s->kind     = kind;
    s->replicas = replicas;
    *out        = s;
    return EST_OK;
}

est_status est_one_device_strategy(const char *device, est_strategy **out)
{
    est_strategy *s;
    int           number;

    EST_REQUIRE(out);
    EST_TRY(cpu_number("one_device", device, &number));
    EST_TRY(make(EST_STRATEGY_ONE_DEVICE, 1, &s));
    (void)snprintf(s->device, sizeof s->device, "/device:CPU:%d", number);
    *out = s;
    return EST_OK;
}

est_status est_mirrored_strategy(const est_mirrored_options *options, est_strategy **out)
{
    est_mirrored_options o;
    int                  n;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_mirrored_options), options, &o));
    EST_TRY(count_replicas("mirrored", o.devices, o.replicas, &n));
    EST_TRY(make(EST_STRATEGY_MIRRORED, n, out));
    say_if_one("mirrored", o.devices.n, n);
    return EST_OK;
}

est_status est_central_storage_strategy(const est_central_storage_options *options, est_strategy **out)
{
    est_central_storage_options o;
    int                         n, number;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_central_storage_options), options, &o));
    EST_TRY(count_replicas("central_storage", o.compute_devices, o.replicas, &n));
    if (o.parameter_device != NULL) EST_TRY(cpu_number("central_storage", o.parameter_device, &number));
    EST_TRY(make(EST_STRATEGY_CENTRAL_STORAGE, n, out));
    say_if_one("central_storage", o.compute_devices.n, n);
    return EST_OK;
}

/* Not a number of seconds, and not what stands for none. */
static bool bad_secs(double secs)
{
    return !(secs >= 0) && secs != EST_FOREVER;
}

static est_status check_workers(const est_multi_worker_mirrored_options *o)
{
    if (o->communication == EST_COMMUNICATION_NCCL) {
        return est_fail(EST_UNIMPLEMENTED, "multi_worker_mirrored: NCCL is for GPUs, and this build computes on CPUs; "
                                           "leave out communication, or use EST_COMMUNICATION_RING");
    }
    if (o->communication < EST_COMMUNICATION_AUTO || o->communication > EST_COMMUNICATION_NCCL) {
        return est_fail(EST_INVALID_ARGUMENT, "multi_worker_mirrored: communication is %d", (int)o->communication);
    }
    if (o->bytes_per_pack < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "multi_worker_mirrored: bytes_per_pack is %" PRId64 "; write a number above 0, or 0",
                        o->bytes_per_pack);
    }
    if (bad_secs(o->timeout_secs) || bad_secs(o->rejoin_secs)) {
        bool timeout = bad_secs(o->timeout_secs);
        return est_fail(EST_INVALID_ARGUMENT,
                        "multi_worker_mirrored: %s is %g; write a number above 0, 0 for 600 or EST_FOREVER",
                        timeout ? "timeout_secs" : "rejoin_secs", timeout ? o->timeout_secs : o->rejoin_secs);
    }
    if (o->resolver != NULL && o->cluster_json != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "multi_worker_mirrored: resolver and cluster_json are both set; leave one out");
    }
    return EST_OK;
}

static est_status place_worker(est_strategy *s)
{
    const est_task *task = est_resolver_task(s->resolver);
    int             n    = est_count_ranks(task->cluster);

    s->evaluates = strcmp(task->type, "evaluator") == 0;
    s->n_workers = s->evaluates || n == 0 ? 1 : n;
    if (s->n_workers == 1) return EST_OK;
    s->worker = est_rank_of(task);
    if (s->worker >= 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "multi_worker_mirrored: this task is a %s; its tasks are chief (or master), worker and evaluator",
                    task->type);
}

static est_status fill_workers(est_strategy *s, const est_multi_worker_mirrored_options *o)
{
    s->workers              = *o;
    s->workers.resolver     = NULL;
    s->workers.cluster_json = NULL;
    if (o->resolver != NULL) {
        EST_TRY(est_resolver_copy(o->resolver, &s->resolver));
    } else {
        EST_TRY(est_resolve_quietly(o->cluster_json, EST_TASK_RULES(.no_chief_ok = true), &s->resolver));
    }
    return place_worker(s);
}

est_status est_multi_worker_mirrored_strategy(const est_multi_worker_mirrored_options *options, est_strategy **out)
{
    est_multi_worker_mirrored_options o;
    est_strategy                     *s;
    est_status                        status;
    int                               n;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_multi_worker_mirrored_options), options, &o));
    EST_TRY(check_workers(&o));
    EST_TRY(count_replicas("multi_worker_mirrored", (est_strings){ 0 }, o.replicas, &n));
    EST_TRY(make(EST_STRATEGY_MULTI_WORKER_MIRRORED, n, &s));
    status = fill_workers(s, &o);
    if (status != EST_OK) {
        est_strategy_free(s);
        return status;
    }
    if (s->n_workers == 1 && !s->evaluates) est_log_info("multi_worker_mirrored: single-worker mode");
    *out = s;
    return EST_OK;
}

/* --- what it means for a graph --------------------------------------------------------------------------------------- */

est_replicas est_strategy_replicas(const est_strategy *strategy)
{
    int n       = strategy != NULL && strategy->replicas > 0 ? strategy->replicas : 1;
    int workers = strategy != NULL && strategy->n_workers > 0 ? strategy->n_workers : 1;

    return (est_replicas){ .n              = n,
                           .current        = -1,
                           .first_global   = workers > 1 ? strategy->worker * n : 0,
                           .total          = workers * n,
                           .across_workers = workers > 1,
                           .gradients      = EST_REDUCE_OP_SUM,
                           .owner          = strategy };
}

int est_strategy_num_replicas_in_sync(const est_strategy *strategy)
{
    return est_strategy_replicas(strategy).total;
}

void est_strategy_input_context(const est_strategy *strategy, est_input_context *context)
{
    bool workers = strategy != NULL && strategy->n_workers > 1;

    if (context == NULL) return;
    context->n_pipelines          = workers ? strategy->n_workers : 1;
    context->pipeline             = workers ? strategy->worker : 0;
    context->num_replicas_in_sync = est_strategy_num_replicas_in_sync(strategy);
}
