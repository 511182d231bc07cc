/* SPDX-License-Identifier: Apache-2.0
 *
 * Training speed of the reference models, as JSON lines (bench/compare prints the table with the peers beside it).
 *
 *   models [--models cnn,mlp,wide_deep] [--threads 2] [--batch N] [--width-mult M] [--seconds S] [--windows N]
 *          [--report] [--timeline FILE]
 *
 * For every model: steps a second; the kernel floor, which is the same planned kernels called back to back with nothing
 * around them; the machine floor, which is operations over the measured multiply-add peak or bytes over the measured
 * bandwidth, whichever takes longer; resident memory; and the time from process start to the end of the first step. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "estoc/estoc.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/bench.h"
#include "support/machine.h"

#define SETS      8 /* different batches, used in turn: nothing is served from one hot buffer */
#define FEEDS_MAX 32
#define N_CAT     26
#define N_NUM     13
#define BUCKETS   100000
#define DIM       16

/* A model ready to be trained, and what a step of it must at least cost. */
typedef struct model {
    const char *name;
    int64_t     batch;
    est_graph  *graph;
    est_node    feed[FEEDS_MAX];
    int         n_feeds;
    est_node    loss, train;
    double      flops; /* of a step: forward, and back towards every variable */
    double      bytes; /* of a step: inputs read, variables and their slots read and written */
    void (*fill)(struct model *m, int set, est_tensor **feeds);
} model;

typedef struct options {
    const char *models, *timeline;
    int         threads, windows;
    int64_t     batch;
    double      width, seconds;
    bool        report;
} options;

static void die(const char *what)
{
    (void)fprintf(stderr, "models: %s: %s\n", what, est_error_message());
    exit(1);
}

static est_tensor *new_tensor(est_dtype dtype, est_shape shape)
{
    est_tensor *t = NULL;

    if (est_tensor_create(dtype, shape, &t) != EST_OK) die("tensor");
    return t;
}

static est_tensor *random_f32(est_shape shape, uint64_t key)
{
    est_tensor *t = new_tensor(EST_F32, shape);

    est_random_fill_normal_f32(&(est_random){ key, 0, 0 }, 0, est_tensor_count(t), est_tensor_data(t));
    return t;
}

static est_tensor *random_labels(int64_t n, int32_t classes, uint64_t key)
{
    est_tensor *t = new_tensor(EST_I32, EST_SHAPE(n));

    est_random_fill_int_i32(&(est_random){ key, 1, 0 }, 0, n, 0, classes, est_tensor_data(t));
    return t;
}

static int64_t scaled(int64_t units, double width)
{
    return (int64_t)((double)units * width + 0.5);
}

/* Operations of a dense layer for a batch: forward, the kernel's gradient, and the input's unless it is the first. */
static double dense_flops(int64_t batch, int64_t in, int64_t out, bool first)
{
    return (first ? 4.0 : 6.0) * (double)batch * (double)in * (double)out;
}

/* --- the models ----------------------------------------------------------------------------------------------------- */

static void fill_images(model *m, int set, est_tensor **feeds)
{
    const est_shape *shape = est_node_shape(m->feed[0]);
    est_shape        x     = *shape;

    x.dim[0] = m->batch;
    feeds[0] = random_f32(x, (uint64_t)set + 1);
    feeds[1] = random_labels(m->batch, 10, (uint64_t)set + 1);
}

static void build_cnn(model *m, const options *o)
{
    est_node x, logits;
    int64_t  units = scaled(64, o->width), filters = scaled(32, o->width), flat = 13 * 13 * filters;

    m->n_feeds = 2;
    m->fill    = fill_images;
    m->feed[0] = est_placeholder(m->graph, "image", EST_F32, EST_SHAPE(-1, 28, 28, 1));
    m->feed[1] = est_placeholder(m->graph, "label", EST_I32, EST_SHAPE(-1));
    x          = est_conv2d_layer(m->feed[0], filters, 3, EST_CONV2D(.activation = est_relu));
    x          = est_max_pool2d(x, 2, NULL);
    x          = est_dense(est_flatten(x), units, EST_DENSE(.activation = est_relu));
    logits     = est_dense(x, 10, NULL);
    m->loss    = est_mean(est_sparse_softmax_xent(logits, m->feed[1]));
    m->train   = est_minimize(est_sgd(0.01), m->loss, NULL);
    m->flops   = 4.0 * (double)m->batch * 26 * 26 * (double)filters * 9 + dense_flops(m->batch, flat, units, false) +
               dense_flops(m->batch, units, 10, false);
    m->bytes = 4.0 * ((double)m->batch * 28 * 28 + 2.0 * (double)(flat * units + units * 10));
}

static void build_mlp(model *m, const options *o)
{
    int64_t  widths[] = { 784, scaled(1024, o->width), scaled(512, o->width), scaled(256, o->width), 10 };
    est_node x;

    m->n_feeds = 2;
    m->fill    = fill_images;
    m->feed[0] = x = est_placeholder(m->graph, "image", EST_F32, EST_SHAPE(-1, 784));
    m->feed[1]     = est_placeholder(m->graph, "label", EST_I32, EST_SHAPE(-1));
    m->bytes       = 4.0 * (double)m->batch * 784;
    for (int i = 0; i < 4; i++) {
        x = est_dense(x, widths[i + 1], EST_DENSE(.activation = i < 3 ? est_relu : NULL));
        m->flops += dense_flops(m->batch, widths[i], widths[i + 1], i == 0);
        m->bytes += 4.0 * 4.0 * (double)(widths[i] * widths[i + 1]); /* weight and accumulator, read and written */
    }
    m->loss  = est_mean(est_sparse_softmax_xent(x, m->feed[1]));
    m->train = est_minimize(est_adagrad(0.01, NULL), m->loss, NULL);
}

/* Ids with a long tail, as hashed click logs have: u^3 puts half the draws in an eighth of the table. */
static void fill_clicks(model *m, int set, est_tensor **feeds)
{
    float *u = malloc(sizeof *u * (size_t)m->batch);

    if (u == NULL) die("memory");
    for (int f = 0; f < N_CAT; f++) {
        int64_t *ids;
        feeds[f] = new_tensor(EST_I64, EST_SHAPE(m->batch));
        ids      = est_tensor_data(feeds[f]);
        est_random_fill_uniform_f32(&(est_random){ (uint64_t)set + 1, (uint64_t)f + 2, 0 }, 0, m->batch, u);
        for (int64_t i = 0; i < m->batch; i++) ids[i] = (int64_t)(u[i] * u[i] * u[i] * BUCKETS);
    }
    free(u);
    feeds[N_CAT]     = random_f32(EST_SHAPE(m->batch, N_NUM), (uint64_t)set + 1);
    feeds[N_CAT + 1] = new_tensor(EST_F32, EST_SHAPE(m->batch, 1));
    for (int64_t i = 0; i < m->batch; i++) ((float *)est_tensor_data(feeds[N_CAT + 1]))[i] = (float)((i + set) % 2);
}

static void build_wide_deep(model *m, const options *o)
{
    int64_t  widths[] = { N_CAT * DIM + N_NUM, scaled(256, o->width), scaled(128, o->width), scaled(64, o->width), 1 };
    est_node deep[N_CAT + 1], wide[N_CAT + 1], x, logits;
    est_node vars[128], num;
    int      n_wide = 0, n_vars;
    char     name[32];

    m->fill    = fill_clicks;
    m->n_feeds = N_CAT + 2;
    for (int f = 0; f < N_CAT; f++) {
        (void)snprintf(name, sizeof name, "id_%d", f);
        m->feed[f] = est_placeholder(m->graph, name, EST_I64, EST_SHAPE(-1));
        wide[f]    = est_embedding(m->feed[f], BUCKETS, 1,
                                   EST_EMBEDDING(.name = "linear", .initializer = est_init_zeros()));
    }
    m->feed[N_CAT] = num = est_placeholder(m->graph, "numeric", EST_F32, EST_SHAPE(-1, N_NUM));
    m->feed[N_CAT + 1]   = est_placeholder(m->graph, "click", EST_F32, EST_SHAPE(-1, 1));
    wide[N_CAT]          = est_dense(num, 1, EST_DENSE(.name = "linear_numeric"));
    n_wide               = est_trainable_variables(m->graph).n;
    for (int f = 0; f < N_CAT; f++) deep[f] = est_embedding(m->feed[f], BUCKETS, DIM, NULL);
    deep[N_CAT] = num;
    x           = est_concat((est_nodes){ deep, N_CAT + 1 }, 1);
    m->bytes = 4.0 * (double)m->batch * N_CAT * (2 + 4 * DIM + 6); /* ids; rows with accumulator; rows with two slots */
    for (int i = 0; i < 4; i++) {
        x = est_dense(x, widths[i + 1], EST_DENSE(.activation = i < 3 ? est_relu : NULL));
        m->flops += dense_flops(m->batch, widths[i], widths[i + 1], false);
        m->bytes += 4.0 * 4.0 * (double)(widths[i] * widths[i + 1]);
    }
    logits  = est_add(x, est_add_n((est_nodes){ wide, N_CAT + 1 }));
    m->loss = est_mean(est_sigmoid_xent(logits, m->feed[N_CAT + 1]));
    n_vars  = est_trainable_variables(m->graph).n;
    memcpy(vars, est_trainable_variables(m->graph).data, sizeof *vars * (size_t)n_vars);
    m->train = est_group(m->graph,
                         EST_NODES(est_minimize(est_ftrl(0.01, NULL), m->loss,
                                                EST_MINIMIZE(.variables = { vars, n_wide }, .no_global_step = true)),
                                   est_minimize(est_adagrad(0.01, NULL), m->loss,
                                                EST_MINIMIZE(.variables = { vars + n_wide, n_vars - n_wide }))));
}

static const struct {
    const char *name;
    int64_t     batch;
    void (*build)(model *m, const options *o);
} models[] = { { "cnn", 64, build_cnn }, { "mlp", 128, build_mlp }, { "wide_deep", 512, build_wide_deep } };

/* --- measuring ------------------------------------------------------------------------------------------------------- */

typedef struct runner {
    est_step   *step;
    est_tensor *feeds[SETS][FEEDS_MAX];
    int64_t     next;
} runner;

static void run_step(void *arg)
{
    runner *r = arg;

    if (est_step_run(r->step, (const est_tensor *const *)r->feeds[r->next++ % SETS]) != EST_OK) die("step");
}

static void run_kernel_steps(const est_plan *plan, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        est_item *item = &plan->items[plan->steps[i]];
        if (item->kernel != NULL && item->kernel->run(&item->call) != EST_OK) die("kernel");
    }
}

typedef struct lanes {
    const est_plan  *plan;
    const est_stage *stage;
} lanes;

static void run_kernel_lane(void *arg, int64_t task, int thread)
{
    const lanes *l = arg;

    (void)thread;
    run_kernel_steps(l->plan, task == 0 ? l->stage->first : l->stage->lane_end[task - 1], l->stage->lane_end[task]);
}

/* The kernels of the last step once more, side by side where the plan has them so, and nothing else. */
static void run_kernels(void *arg)
{
    est_plan *plan = est_step_plan(((runner *)arg)->step);

    for (int32_t s = 0; s < plan->n_stages; s++) {
        const est_stage *stage = &plan->stages[s];
        if (stage->n_lanes > 1) {
            est_pool_for(plan->pool, stage->n_lanes, run_kernel_lane, &(lanes){ plan, stage });
        } else {
            run_kernel_steps(plan, stage->first, stage->end);
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

static double max_rss_mb(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

static void print_rate(const char *key, bench_stats secs)
{
    (void)printf("\"%s\":{\"median\":%.2f,\"min\":%.2f,\"max\":%.2f},", key, 1 / secs.median, 1 / secs.max,
                 1 / secs.min);
}

static void measure(model *m, const options *o, est_session *session)
{
    runner           r = { 0 };
    bench_contestant contest[2];
    est_pool        *pool = NULL;
    bench_machine    machine;
    double           first_loss, loss_50, first_secs, rss, floor;

    for (int s = 0; s < SETS; s++) m->fill(m, s, r.feeds[s]);
    if (est_session_prepare(session, (est_nodes){ m->feed, m->n_feeds }, EST_NODES(m->loss), EST_NODES(m->train),
                            &r.step) != EST_OK) {
        die(m->name);
    }
    run_step(&r);
    first_secs = process_age();
    first_loss = est_step_scalar(r.step, 0);
    for (int i = 1; i < 50; i++) run_step(&r);
    loss_50    = est_step_scalar(r.step, 0);
    rss        = max_rss_mb();
    contest[0] = (bench_contestant){ .fn = run_step, .arg = &r };
    contest[1] = (bench_contestant){ .fn = run_kernels, .arg = &r };
    bench_run(contest, 2, o->windows, o->seconds);
    if (o->report || o->timeline != NULL) {
        if (est_step_trace(r.step, 50) != EST_OK) die("trace");
        for (int i = 0; i < 50; i++) run_step(&r);
        if (o->report) est_step_report(r.step, stderr);
        if (o->timeline != NULL && est_step_write_timeline(r.step, o->timeline) != EST_OK) die("timeline");
    }
    if (est_pool_create(o->threads, &pool) != EST_OK) die("pool");
    machine = bench_machine_measure(pool);
    floor   = m->flops / machine.flops > m->bytes / machine.bytes_per_sec ? m->flops / machine.flops
                                                                          : m->bytes / machine.bytes_per_sec;
    (void)printf("{\"peer\":\"estoc\",\"model\":\"%s\",\"threads\":%d,\"mode\":\"session\",\"batch\":%" PRId64 ",",
                 m->name, est_pool_threads(pool), m->batch);
    print_rate("steps_per_sec", contest[0].secs);
    print_rate("kernel_floor", contest[1].secs);
    (void)printf("\"machine_floor\":%.2f,\"gflops_peak\":%.1f,\"gb_per_sec\":%.1f,"
                 "\"start_to_first_step_sec\":%.4f,\"max_rss_mb\":%.1f,\"loss_first\":%.5f,\"loss_50\":%.5f,"
                 "\"loss_last\":%.5f}\n",
                 1 / floor, machine.flops / 1e9, machine.bytes_per_sec / 1e9, first_secs, rss, first_loss, loss_50,
                 est_step_scalar(r.step, 0));
    (void)fflush(stdout);
    est_pool_free(pool);
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < m->n_feeds; i++) est_tensor_free(r.feeds[s][i]);
    }
}

static void run_model(int which, const options *o)
{
    model        m       = { .name = models[which].name, .batch = o->batch > 0 ? o->batch : models[which].batch };
    est_session *session = NULL;

    if (est_graph_create(1, &m.graph) != EST_OK) die("graph");
    models[which].build(&m, o);
    if (est_session_create(m.graph, EST_SESSION(.threads = o->threads), &session) != EST_OK) die(m.name);
    if (est_session_init(session) != EST_OK) die(m.name);
    measure(&m, o, session);
    est_session_free(session);
    est_graph_free(m.graph);
}

static options parse(int argc, char **argv)
{
    options o = { .models = "cnn,mlp,wide_deep", .width = 1, .seconds = 0.3, .windows = 9 };

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--report") == 0) {
            o.report = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--models") == 0) {
            o.models = value;
        } else if (strcmp(argv[i - 1], "--threads") == 0) {
            o.threads = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--batch") == 0) {
            o.batch = strtoll(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--width-mult") == 0) {
            o.width = strtod(value, NULL);
        } else if (strcmp(argv[i - 1], "--seconds") == 0) {
            o.seconds = strtod(value, NULL);
        } else if (strcmp(argv[i - 1], "--windows") == 0) {
            o.windows = (int)strtol(value, NULL, 10);
        } else if (strcmp(argv[i - 1], "--timeline") == 0) {
            o.timeline = value;
        } else {
            (void)fprintf(stderr, "models: unknown option %s; the top of bench/models.c lists them\n", argv[i - 1]);
            exit(2);
        }
    }
    return o;
}

int main(int argc, char **argv)
{
    options o = parse(argc, argv);

    for (int i = 0; i < (int)(sizeof models / sizeof models[0]); i++) {
        if (strstr(o.models, models[i].name) != NULL) run_model(i, &o);
    }
    return 0;
}
