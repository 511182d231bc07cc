/* SPDX-License-Identifier: Apache-2.0
 *
 * Training speed of the reference models, as JSON lines (bench/compare prints the table with the peers beside it).
 *
 *   models [--models cnn,mlp,wide_deep] [--threads 2] [--batch N[,N...]] [--width-mult M] [--seconds S] [--windows N]
 *          [--device /gpu:0] [--from-host] [--no-tf32 | --bfloat16] [--ids uniform|tail] [--loss] [--report]
 *          [--timeline FILE] [--steps N]
 *
 * On a device the batches lie in its memory, and steps run ahead of the host, which waits at the end of a window; with
 * --from-host the batches are fed from memory of the host, with --loss the loss of every step is looked at.
 *
 * With --steps N steps run and only the first is timed; what is printed is the losses of the first 50, a hash of all
 * variables after the last, and the memory of the device: what is in use beside its context when variables have values,
 * when the batches lie there, and at the end, and what of it is variables, batches and slabs.
 *
 * For every model: steps a second; the kernel floor, which is the same planned kernels called back to back with nothing
 * around them; the machine floor, which is operations over the measured multiply-add peak or bytes over the measured
 * bandwidth, whichever takes longer; resident memory; and the time from process start to the end of the first step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/devices.h"
#include "estoc/estoc.h"
#include "runtime/local_devices.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/bench.h"
#include "support/machine.h"
#include "support/models.h"
#include "support/options.h"
#include "support/turns.h"

#define SETS 8 /* different batches, used in turn: nothing is served from one hot buffer */

typedef struct options {
    const char *models, *timeline, *device, *ids, *batches;
    int         threads, windows, steps;
    double      width, seconds;
    bool        report, from_host, no_tf32, bfloat16, loss;
} options;

static void die(const char *what)
{
    (void)fprintf(stderr, "models: %s: %s\n", what, est_error_message());
    exit(1);
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

typedef struct runner {
    est_step   *step;
    est_tensor *feeds[SETS][BENCH_FEEDS_MAX];
    int64_t     next;
    bool        looks; /* at the loss of every step */
} runner;

static void run_step(void *arg)
{
    runner *r = arg;

    if (est_step_start(r->step, (const est_tensor *const *)r->feeds[r->next++ % SETS]) != EST_OK) die("step");
    if (r->looks && !(est_step_scalar(r->step, 0) > -1e30)) die("loss");
}

static void wait_for_steps(void *arg)
{
    if (est_step_wait(((runner *)arg)->step) != EST_OK) die("step");
}

static void run_kernel_steps(const est_plan *plan, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        est_item *item = &plan->items[plan->steps[i]];
        if (item->kernel != NULL && item->kernel->run(&item->call) != EST_OK) die("kernel");
    }
}

typedef struct lanes {
    const est_plan      *plan;
    const est_plan_wave *wave;
} lanes;

static void run_kernel_lane(void *arg, int64_t task, int thread)
{
    const lanes *l = arg;

    (void)thread;
    run_kernel_steps(l->plan, task == 0 ? l->wave->first : l->wave->lane_end[task - 1], l->wave->lane_end[task]);
}

/* The kernels of the last step once more, side by side where the plan has them so, and nothing else. */
static void run_kernels(void *arg)
{
    est_plan *plan = est_step_plan(((runner *)arg)->step);

    for (int32_t s = 0; s < plan->n_waves; s++) {
        const est_plan_wave *wave = &plan->waves[s];
        if (wave->n_lanes > 1) {
            est_pool_for(plan->pool, wave->n_lanes, run_kernel_lane, &(lanes){ plan, wave });
        } else {
            run_kernel_steps(plan, wave->first, wave->end);
        }
    }
}

/* Seconds since the process was started, by the kernel's clock. */
static double process_age(void)
{
    FILE              *f     = fopen("/proc/self/stat", "r");
    unsigned long long start = 0;
    char               line[1024];
    struct timespec    now;

    if (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *at = strrchr(line, ')');
        for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
        if (at != NULL) start = strtoull(at, NULL, 10);
    }
    if (f != NULL) (void)fclose(f);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - (double)start / (double)sysconf(_SC_CLK_TCK);
}

static void print_rate(const char *key, bench_stats secs)
{
    (void)printf("\"%s\":{\"median\":%.2f,\"min\":%.2f,\"max\":%.2f},", key, 1 / secs.median, 1 / secs.max,
                 1 / secs.min);
}

static const char *mode_of(const options *o)
{
    if (o->loss) return o->from_host ? "gpu_from_host_loss" : "gpu_loss";
    return o->from_host ? "gpu_from_host" : o->bfloat16 ? "gpu_bf16" : o->no_tf32 ? "gpu_f32" : "gpu";
}

static void move_to_device(const bench_model *m, const char *device, runner *r)
{
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < m->n_feeds; i++) {
            est_tensor *there = NULL;

            bench_check(est_tensor_to_device(r->feeds[s][i], device, &there));
            est_tensor_free(r->feeds[s][i]);
            r->feeds[s][i] = there;
        }
    }
}

/* Of the bytes of all variables. */
static uint64_t hash_variables(est_session *session)
{
    uint64_t hash = 14695981039346656037u;

    for (int i = 0; i < est_session_variables(session); i++) {
        est_tensor          *value = NULL;
        const unsigned char *bytes;

        if (est_session_read(session, est_session_variable(session, i), &value) != EST_OK) die("variable");
        bytes = est_tensor_data(value);
        for (size_t b = 0; b < est_tensor_bytes(value); b++) hash = (hash ^ bytes[b]) * 1099511628211u;
        est_tensor_free(value);
    }
    return hash;
}

#define MIB (1.0 / (1 << 20))

/* Memory of the device that is in use, of all processes; 0 on the CPU. */
static double device_mib(const options *o)
{
    const est_device *gpu  = o->device != NULL ? est_device_find("GPU", 0) : NULL;
    size_t            free = 0, total = 0;

    if (gpu != NULL) gpu->memory(gpu, &free, &total);
    return (double)(total - free) * MIB;
}

static double variables_mib(est_session *session)
{
    double bytes = 0;

    for (int i = 0; i < est_session_variables(session); i++) {
        est_tensor *value = NULL;

        if (est_session_read(session, est_session_variable(session, i), &value) != EST_OK) die("variable");
        bytes += (double)est_tensor_bytes(value);
        est_tensor_free(value);
    }
    return bytes * MIB;
}

static double batches_mib(const bench_model *m, const runner *r)
{
    double bytes = 0;

    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < m->n_feeds; i++) bytes += (double)est_tensor_bytes(r->feeds[s][i]);
    }
    return bytes * MIB;
}

/* Of the parts of the step that run on devices. */
static double slabs_mib(const est_plan *plan)
{
    double bytes = 0;

    for (int i = 0; i < plan->n_parts; i++) {
        bytes += (double)est_local_devices_plan(plan->part_bindings[i].segment)->slab_bytes;
    }
    return bytes * MIB;
}

static void run_steps(bench_model *m, const options *o, est_session *session, runner *r, const double mib[3])
{
    double first_secs = 0;

    (void)printf("{\"model\":\"%s\",\"mode\":\"%s\",\"batch\":%" PRId64 ",\"steps\":%d,\"losses\":[", m->name,
                 o->device == NULL ? "session" : mode_of(o), m->batch, o->steps);
    for (int i = 0; i < o->steps; i++) {
        run_step(r);
        if (i < 50) (void)printf("%s%.7g", i > 0 ? "," : "", est_step_scalar(r->step, 0));
        if (i == 0) first_secs = process_age();
    }
    wait_for_steps(r);
    (void)printf(
        "],\"start_to_first_step_sec\":%.4f,\"mib\":{\"initialised\":%.1f,\"with_batches\":%.1f,\"in_use\":%.1f,",
        first_secs, mib[1] - mib[0], mib[2] - mib[0], device_mib(o) - mib[0]);
    (void)printf("\"variables\":%.1f,\"batches\":%.1f,\"slabs\":%.1f},\"hash\":\"%016" PRIx64 "\"}\n",
                 variables_mib(session), batches_mib(m, r), slabs_mib(est_step_plan(r->step)), hash_variables(session));
    (void)fflush(stdout);
}

static void free_feeds(const bench_model *m, runner *r)
{
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < m->n_feeds; i++) est_tensor_free(r->feeds[s][i]);
    }
}

/* before_mib: of the device, with nothing but its context. */
static void measure(bench_model *m, const options *o, est_session *session, double before_mib)
{
    runner           r      = { .looks = o->loss };
    double           mib[3] = { before_mib, device_mib(o) };
    bench_contestant contest[2];
    est_pool        *pool = NULL;
    bench_machine    machine;
    double           first_loss, loss_50, first_secs, rss, floor;

    for (int s = 0; s < SETS; s++) m->fill(m, s, r.feeds[s]);
    if (o->device != NULL && !o->from_host) move_to_device(m, o->device, &r);
    mib[2] = device_mib(o);
    if (est_session_prepare(session, (est_nodes){ m->feed, m->n_feeds }, EST_NODES(m->loss), EST_NODES(m->train),
                            &r.step) != EST_OK) {
        die(m->name);
    }
    if (o->steps > 0) {
        run_steps(m, o, session, &r, mib);
        free_feeds(m, &r);
        return;
    }
    run_step(&r);
    first_secs = process_age();
    first_loss = est_step_scalar(r.step, 0);
    for (int i = 1; i < 50; i++) run_step(&r);
    loss_50    = est_step_scalar(r.step, 0);
    rss        = bench_max_rss_mb();
    contest[0] = (bench_contestant){ .fn = run_step, .end = wait_for_steps, .arg = &r };
    contest[1] = (bench_contestant){ .fn = o->device == NULL ? run_kernels : NULL, .arg = &r };
    bench_run(contest, 2, o->windows, o->seconds);
    if (o->report || o->timeline != NULL) {
        if (est_step_trace(r.step, 50) != EST_OK) die("trace");
        for (int i = 0; i < 50; i++) run_step(&r);
        if (o->report) est_step_report(r.step, stderr);
        if (o->timeline != NULL && est_step_write_timeline(r.step, o->timeline, NULL) != EST_OK) die("timeline");
    }
    if (est_pool_create(o->threads, &pool) != EST_OK) die("pool");
    machine = bench_machine_measure(pool);
    floor   = m->flops / machine.flops > m->bytes / machine.bytes_per_sec ? m->flops / machine.flops
                                                                          : m->bytes / machine.bytes_per_sec;
    (void)printf("{\"peer\":\"estoc\",\"model\":\"%s\",\"threads\":%d,\"mode\":\"%s\",\"batch\":%" PRId64 ",", m->name,
                 est_pool_threads(pool), o->device == NULL ? "session" : mode_of(o), m->batch);
    print_rate("steps_per_sec", contest[0].secs);
    if (o->device == NULL) print_rate("kernel_floor", contest[1].secs);
    (void)printf("\"machine_floor\":%.2f,\"gflops_peak\":%.1f,\"gb_per_sec\":%.1f,"
                 "\"start_to_first_step_sec\":%.4f,\"max_rss_mb\":%.1f,\"loss_first\":%.5f,\"loss_50\":%.5f,"
                 "\"loss_last\":%.5f}\n",
                 1 / floor, machine.flops / 1e9, machine.bytes_per_sec / 1e9, first_secs, rss, first_loss, loss_50,
                 est_step_scalar(r.step, 0));
    (void)fflush(stdout);
    est_pool_free(pool);
    free_feeds(m, &r);
}

static void run_model(const char *name, int64_t batch, const options *o)
{
    bench_model  m          = bench_model_build(name, batch, o->width);
    est_session *session    = NULL;
    const char  *device     = o->device != NULL ? o->device : "/cpu:0";
    double       before_mib = device_mib(o);

    m.uniform = o->ids != NULL && strcmp(o->ids, "uniform") == 0;
    if (est_session_create(m.graph,
                           EST_SESSION(.threads = o->threads, .devices = EST_STRINGS(device), .no_tf32 = o->no_tf32),
                           &session) != EST_OK) {
        die(m.name);
    }
    if (est_session_init(session) != EST_OK) die(m.name);
    measure(&m, o, session, before_mib);
    est_session_free(session);
    est_graph_free(m.graph);
}

static options parse(int argc, char **argv)
{
    options o = { .models = "cnn,mlp,wide_deep", .width = 1, .seconds = 0.3, .windows = 9 };

    BENCH_OPTIONS(argc, argv, 1, { "--report", BENCH_TO(&o.report) }, { "--models", BENCH_TO(&o.models) },
                  { "--threads", BENCH_TO(&o.threads) }, { "--batch", BENCH_TO(&o.batches) },
                  { "--device", BENCH_TO(&o.device) }, { "--from-host", BENCH_TO(&o.from_host) },
                  { "--no-tf32", BENCH_TO(&o.no_tf32) }, { "--bfloat16", BENCH_TO(&o.bfloat16) },
                  { "--ids", BENCH_TO(&o.ids) }, { "--loss", BENCH_TO(&o.loss) },
                  { "--width-mult", BENCH_TO(&o.width) }, { "--seconds", BENCH_TO(&o.seconds) },
                  { "--windows", BENCH_TO(&o.windows) }, { "--timeline", BENCH_TO(&o.timeline) },
                  { "--steps", BENCH_TO(&o.steps) });
    return o;
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "cnn", "mlp", "wide_deep" };
    options                  o       = parse(argc, argv);

    if (o.bfloat16) bench_models_precision(EST_PRECISION_MIXED_BFLOAT16);
    for (int i = 0; i < 3; i++) {
        const char *batches = o.batches != NULL ? o.batches : "0";

        if (strstr(o.models, names[i]) == NULL) continue;
        while (batches != NULL) {
            run_model(names[i], strtoll(batches, NULL, 10), &o);
            batches = strchr(batches, ',');
            if (batches != NULL) batches++;
        }
    }
    return 0;
}
