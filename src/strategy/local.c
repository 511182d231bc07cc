/* SPDX-License-Identifier: Apache-2.0
 *
 * The strategies of one process: default, one_device, mirrored and central_storage. All CPUs of a process share one
 * memory, where variables have one copy; over several GPUs mirrored has one on each, central_storage one on the host.
 * The strategies differ in how many replicas they have, and in where those and their variables are pinned. A run needs
 * nothing beyond what strategy/run.c does by itself. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "device/devices.h"
#include "graph/device_name.h"
#include "strategy/run.h"

#define EST_EVERY_GPU "/device:GPU:*"

/* --- devices ------------------------------------------------------------------------------------------------------ */

/* A device of this process: its kind, in capitals, and its number. CPUs have any number, GPUs must be there. */
static est_status find_device(const char *strategy, const char *device, const char **kind, int *number)
{
    est_device_task   d;
    const est_device *found;

    if (device == NULL || device[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "%s: a device is missing; write \"/cpu:0\"", strategy);
    }
    EST_TRY(est_device_name_check(device));
    d     = est_device_name_task(device);
    found = strcasecmp(d.kind, "cpu") == 0 ? &est_device_cpu : est_device_find(d.kind, d.number);
    if (found == NULL || d.number < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: there is no device \"%s\" here%s%s; write \"/cpu:0\", \"/cpu:1\"",
                        strategy, device, est_device_missing()[0] != '\0' ? ": " : "", est_device_missing());
    }
    *kind   = found->kind;
    *number = d.number;
    return EST_OK;
}

static est_status check_devices(const char *strategy, est_strings devices)
{
    for (int i = 0; i < devices.n; i++) {
        const char *kind, *other_kind;
        int         mine, other;

        EST_TRY(find_device(strategy, devices.data[i], &kind, &mine));
        for (int k = 0; k < i; k++) {
            EST_TRY(find_device(strategy, devices.data[k], &other_kind, &other));
            if (mine != other || kind != other_kind) continue;
            return est_fail(EST_INVALID_ARGUMENT, "%s: no duplicates are allowed among devices: \"%s\" and \"%s\"",
                            strategy, devices.data[k], devices.data[i]);
        }
    }
    return EST_OK;
}

/* Keeps those that run by themselves; all are, or none is. */
static est_status take_devices(est_strategy *s, const char *strategy, est_strings devices)
{
    for (int i = 0; i < devices.n; i++) {
        const char *kind;
        int         number;

        EST_TRY(find_device(strategy, devices.data[i], &kind, &number));
        if (strcmp(kind, "CPU") == 0 ? s->n_devices > 0 : s->n_devices < i || i == EST_DEVICES_MAX) {
            return est_fail(EST_INVALID_ARGUMENT, "%s: \"%s\" beside \"%s\"; name CPUs alone, or up to %d GPUs alone",
                            strategy, devices.data[i], devices.data[0], EST_DEVICES_MAX);
        }
        if (strcmp(kind, "CPU") == 0) continue;
        s->device_list[i] = s->devices[i];
        (void)snprintf(s->devices[s->n_devices++], sizeof s->devices[0], "/device:%s:%d", kind, number);
    }
    return EST_OK;
}

est_strings est_strategy_devices(const est_strategy *strategy)
{
    if (strategy == NULL || strategy->n_devices == 0) return (est_strings){ 0 };
    return (est_strings){ strategy->device_list, strategy->n_devices };
}

/* What holds a variable, or is asked for the place of one, is the host's. */
static const char *keep_variables(est_node node, const char *op, const char *device, void *user)
{
    (void)node;
    (void)user;
    return strcmp(op, "VarHandleOp") == 0 ? "/device:CPU:0" : device;
}

/* Variables of replicas on several devices have a copy on each, unless the program pins them elsewhere. */
static const char *mirror_variables(est_node node, const char *op, const char *device, void *user)
{
    (void)node;
    (void)user;
    if (strcmp(op, "VarHandleOp") != 0 || strcasecmp(est_device_name_task(device).kind, "GPU") != 0) return device;
    return EST_EVERY_GPU;
}

const char *est_strategy_merge_device(const est_strategy *strategy)
{
    return strategy != NULL && strategy->n_devices > 1 && !strategy->host_variables ? EST_EVERY_GPU : NULL;
}

void est_strategy_pin_variables(const est_strategy *strategy, est_graph *graph)
{
    if (strategy == NULL) return;
    if (strategy->host_variables && strategy->n_devices > 0) est_graph_device_fn(graph, keep_variables, NULL);
    if (est_strategy_merge_device(strategy) != NULL) est_graph_device_fn(graph, mirror_variables, NULL);
}

void est_strategy_pin(const est_strategy *strategy, est_graph *graph, int replica)
{
    if (strategy == NULL) return;
    if (strategy->device[0] != '\0') est_graph_device(graph, strategy->device);
    if (strategy->n_devices > 1) est_graph_device(graph, strategy->devices[replica % strategy->n_devices]);
    est_strategy_pin_variables(strategy, graph);
}

/* How many replicas a list of devices and a number of replicas say together. */
est_status est_count_replicas(const char *strategy, est_strings devices, int replicas, int *out)
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

void est_devices_text(est_strings devices, int n, const char *task, est_strbuf *out)
{
    est_strbuf_append(out, "(");
    for (int i = 0; i < n; i++) {
        const char *kind   = "CPU";
        int         number = i;

        if (i < devices.n && find_device("", devices.data[i], &kind, &number) != EST_OK) number = i;
        est_strbuf_printf(out, "%s'%s/device:%s:%d'", i > 0 ? ", " : "", task, kind, number);
    }
    est_strbuf_append(out, n == 1 ? ",)" : ")");
}

/* As TensorFlow logs it. */
static void log_devices(est_strings devices, int n)
{
    est_strbuf text = { 0 };

    if (!est_log_on(EST_LOG_INFO)) return;
    est_devices_text(devices, n, "/job:localhost/replica:0/task:0", &text);
    est_log_info("Using MirroredStrategy with devices %s", est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

/* TensorFlow makes a replica for every GPU that it finds; here a program asks for more than one. */
static void say_if_one(const char *strategy, int n_devices, int n)
{
    if (n == 1 && n_devices == 0) est_log_info("%s: 1 replica; set replicas to have more", strategy);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Whether other tasks train as well. The evaluator, which some clusters list, does not. */
static bool trains_with_others(const est_task *task)
{
    const est_cluster *cluster = task->cluster;

    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job = est_cluster_job(cluster, i);

        if (strcmp(job, "evaluator") == 0) continue;
        if (strcmp(job, task->type) != 0 || est_cluster_tasks(cluster, job) > 1) return true;
    }
    return false;
}

est_status est_local_check(const est_run *run)
{
    const est_task *task = run->self.task;

    if (run->purpose != EST_RUN_TRAIN || !trains_with_others(task)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "task %s %d of a cluster of several without \"ps\" tasks: no strategy is set; "
                    "set train_distribute to an est_multi_worker_mirrored_strategy (in a job file run.strategy to "
                    "multi_worker_mirrored), add ps tasks, or leave the others out",
                    task->type, task->index);
}

const est_strategy_ops est_default_ops = {
    .name  = "default",
    .about = "one replica in this process",
    .check = est_local_check,
};

const est_strategy_ops est_one_device_ops = {
    .name  = "one_device",
    .about = "one replica, every operation on one device",
    .check = est_local_check,
};

const est_strategy_ops est_mirrored_ops = {
    .name  = "mirrored",
    .about = "several replicas in this process, gradients all-reduced",
    .check = est_local_check,
};

const est_strategy_ops est_central_storage_ops = {
    .name  = "central_storage",
    .about = "several replicas in this process, variables in one place",
    .check = est_local_check,
};

const est_strategy est_default_strategy = { .ops  = &est_default_ops,
                                            .self = { .size = 1, .replicas = 1, .is_chief = true } };

/* --- constructors ------------------------------------------------------------------------------------------------- */

static est_status make_local(const est_strategy_ops *ops, int replicas, est_strings devices, est_strategy **out)
{
    est_strategy *s = est_zalloc(sizeof *s);
    est_status    status;

    if (s == NULL) return est_no_memory();
    est_strategy_init(s, ops, replicas);
    status = take_devices(s, ops->name, devices);
    if (status != EST_OK) {
        est_strategy_free(s);
        return status;
    }
    *out = s;
    return EST_OK;
}

est_status est_one_device_strategy(const char *device, est_strategy **out)
{
    est_strategy *s;
    const char   *kind;
    int           number;

    EST_REQUIRE(out);
    EST_TRY(find_device("one_device", device, &kind, &number));
    EST_TRY(make_local(&est_one_device_ops, 1, EST_STRINGS(device), &s));
    (void)snprintf(s->device, sizeof s->device, "/device:%s:%d", kind, number);
    *out = s;
    return EST_OK;
}

est_status est_mirrored_strategy(const est_mirrored_options *options, est_strategy **out)
{
    est_mirrored_options o;
    int                  n;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_mirrored_options), options, &o));
    EST_TRY(est_count_replicas("mirrored", o.devices, o.replicas, &n));
    EST_TRY(make_local(&est_mirrored_ops, n, o.devices, out));
    log_devices(o.devices, n);
    say_if_one("mirrored", o.devices.n, n);
    return EST_OK;
}

est_status est_central_storage_strategy(const est_central_storage_options *options, est_strategy **out)
{
    est_central_storage_options o;
    const char                 *kind;
    int                         n, number;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_central_storage_options), options, &o));
    EST_TRY(est_count_replicas("central_storage", o.compute_devices, o.replicas, &n));
    if (o.parameter_device != NULL) {
        EST_TRY(find_device("central_storage", o.parameter_device, &kind, &number));
        if (strcmp(kind, "CPU") != 0) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "central_storage: parameter_device is \"%s\"; the host keeps the variables: \"/cpu:0\"",
                            o.parameter_device);
        }
    }
    EST_TRY(make_local(&est_central_storage_ops, n, o.compute_devices, out));
    (*out)->host_variables = true;
    say_if_one("central_storage", o.compute_devices.n, n);
    return EST_OK;
}

/* --- devices that there are none of ------------------------------------------------------------------------------- */

est_status est_tpu_strategy(est_strategy **out)
{
    EST_REQUIRE(out);
    return est_fail(EST_UNIMPLEMENTED,
                    "est_tpu_strategy: Estoc has no device for TPUs and computes on CPUs; use "
                    "est_multi_worker_mirrored_strategy on several machines, or no strategy on one, whose cores an "
                    "operation uses anyway (docs/strategies.md)");
}
