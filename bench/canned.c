/* SPDX-License-Identifier: Apache-2.0
 *
 * The canned wide & deep classifier from Examples on disk to updated variables, through est_train. The clicks are those
 * of bench/synth (bench/compare-canned runs it): 13 numbers, 26 words. One run answers one question in turns of
 * --seconds (bench/support/turns.h); an amount is examples.
 *
 *   canned [--hidden 64,32] [--batch N] [--folder FOLDER] [--threads N] [--workers N] [--device /gpu:0] [--turns N]
 *          [--seconds S] [--rows N] [--stages RUNS] [--report 1] [--placement]
 *
 * --workers threads parse. On a GPU steps run ahead of the host, and a turn ends when all of them are done. --placement
 * logs where each operation runs.
 *
 * --rows makes the tables of the word C4 that long, to see what grows with a table. --stages traces that many steps
 * after the last turn and prints where their time went, beside the least time that the machine could do it in; --report
 * prints the last of them op by op. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/canned.h"
#include "estoc/dataset.h"
#include "estoc/estoc.h"
#include "runtime/trace.h"
#include "support/bench.h"
#include "support/clicks.h"
#include "support/machine.h"
#include "support/options.h"
#include "support/stages.h"
#include "support/turns.h"
#include "train/loop.h"

#define BUFFER       10000
#define PREFETCH     2
#define HIDDEN_MAX   8
#define N_CROSSES    3
#define WARM_UP_SECS 0.3
#define INPUT_SECS   0.5

typedef enum phase { WAITING = 0, WARMING_UP, MEASURING, TRACING } phase;

typedef struct job {
    est_hook    hook; /* what the training sees */
    const char *folder, *device;
    int         threads, workers, turns, stages;
    bool        report, placement;
    double      seconds;
    int64_t     batch, rows, hidden[HIDDEN_MAX];
    int         n_hidden;

    est_columns      *columns;
    const est_column *wide[CLICKS_N_CAT + CLICKS_N_NUM + N_CROSSES], *deep[CLICKS_N_CAT + CLICKS_N_NUM];
    est_parse_spec   *parse;

    phase         phase;
    int           taken; /* turns */
    double        rss_mb, created_secs, first_step_secs, start, waited, used;
    bench_turn    turn;
    bench_machine machine;
    bench_stages  traced;
} job;

/* --- the model ---------------------------------------------------------------------------------------------------- */

/* Counts have long tails. */
static est_node log1p_of(est_node counts, const void *user)
{
    (void)user;
    return est_log1p(est_maximum(counts, est_scalar(counts.graph, EST_F32, 0)));
}

static int64_t buckets_of(const job *j, int k)
{
    if (k == 3 && j->rows > 0) return j->rows;
    return k % 5 == 3 ? 1000000 : 100000;
}

static const char *word(int k)
{
    return clicks_name(1 + CLICKS_N_NUM + k);
}

static void make_columns(job *j)
{
    static const int   pairs[N_CROSSES][2] = { { 0, 1 }, { 2, 4 }, { 5, 9 } };
    static const float missing             = 0;
    int                n_wide = 0, n_deep = 0;

    j->columns = est_columns_create();
    for (int k = 0; k < CLICKS_N_NUM; k++) {
        const est_column *number = est_numeric_column(
            j->columns, clicks_name(1 + k), EST_NUMERIC(.default_value = { &missing, 1 }, .normalizer = log1p_of));

        j->wide[n_wide++] = j->deep[n_deep++] = number;
    }
    for (int k = 0; k < CLICKS_N_CAT; k++) {
        const est_column *id = est_hash_bucket_column(j->columns, word(k), buckets_of(j, k), NULL);

        j->wide[n_wide++] = id;
        j->deep[n_deep++] = est_embedding_column(id, k % 2 == 1 ? 8 : 16, NULL);
    }
    for (int k = 0; k < N_CROSSES; k++) {
        const est_column *a = est_key_column(j->columns, word(pairs[k][0]));
        const est_column *b = est_key_column(j->columns, word(pairs[k][1]));

        j->wide[n_wide++] = est_crossed_column(EST_COLUMN_LIST(a, b), 1000000, 0);
    }
    bench_check(est_columns_status(j->columns));
}

static est_dataset *records(const job *j)
{
    char pattern[512];

    (void)snprintf(pattern, sizeof pattern, "%s/clicks-*.tfrecord", j->folder);
    return est_dataset_tfrecords(est_dataset_files(pattern), EST_INTERLEAVE(.cycle = 4));
}

static est_dataset *parsed(const job *j, est_dataset *d, int workers)
{
    return est_dataset_parse_examples(d, est_parse_spec_features(j->parse), j->batch, EST_PARSE(.workers = workers));
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = est_dataset_shuffle(records(user), BUFFER, context->seed);

    d = parsed(user, est_dataset_repeat(d, EST_FOREVER), ((const job *)user)->workers);
    return est_dataset_finish(est_dataset_prefetch(d, PREFETCH), out);
}

/* --- turns, inside the training ----------------------------------------------------------------------------------- */

static est_status job_session(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, job, hook)->created_secs = bench_now_secs();
    return EST_OK;
}

static double input_wait(est_loop *loop)
{
    return est_iterator_get_stats(est_loop_input(loop)).wait_secs;
}

static est_status job_before_run(est_hook *hook, est_loop *loop)
{
    job *j = EST_CONTAINER_OF(hook, job, hook);

    if (j->phase == WAITING && est_loop_runs(loop) > 0) {
        j->phase = bench_turn_wanted(j->turns, j->taken) ? WARMING_UP : TRACING;
        j->start = bench_now_secs();
    }
    if (j->phase == TRACING && j->stages > 0) est_loop_trace(loop);
    return EST_OK;
}

static void trace_run(job *j, est_loop *loop)
{
    if (j->stages > 0) {
        if (j->traced.runs == 0) {
            est_pool *pool = NULL;

            j->rss_mb = bench_max_rss_mb(); /* measuring the machine takes memory */
            bench_check(est_pool_create(j->threads, &pool));
            j->machine = bench_machine_measure(pool);
            est_pool_free(pool);
        }
        bench_stages_add(&j->traced, est_loop_plan(loop), j->machine);
    }
    if (j->traced.runs >= j->stages) {
        if (j->stages == 0) j->rss_mb = bench_max_rss_mb();
        if (j->report) est_trace_report(est_loop_plan(loop), stderr);
        est_loop_request_stop(loop, "measured");
    }
}

static est_status job_after_run(est_hook *hook, est_loop *loop)
{
    job   *j   = EST_CONTAINER_OF(hook, job, hook);
    double now = bench_now_secs();

    if (est_loop_runs(loop) == 1) j->first_step_secs = now - j->created_secs;
    if (j->phase == TRACING) trace_run(j, loop);
    if (j->phase == MEASURING) {
        j->turn.amount += (double)est_loop_batch_rows(loop);
        j->turn.secs = now - j->start;
        if (j->turn.secs >= j->seconds) {
            j->turn.waited_secs = input_wait(loop) - j->waited;
            j->turn.cpu_secs    = bench_cpu_secs() - j->used;
            bench_turn_print(j->turn);
            j->taken++;
            j->phase = WAITING;
        }
    }
    if (j->phase == WARMING_UP && now - j->start >= WARM_UP_SECS) {
        j->phase  = MEASURING;
        j->turn   = (bench_turn){ 0 };
        j->waited = input_wait(loop);
        j->used   = bench_cpu_secs();
        j->start  = bench_now_secs();
    }
    return EST_OK;
}

/* --- stages ------------------------------------------------------------------------------------------------------- */

/* Processor seconds that a chain takes for the rows of a batch, on its own and without threads. */
static double input_secs(est_dataset *d, double rows_each, int64_t batch)
{
    est_dataset  *dataset = NULL;
    est_iterator *rows    = NULL;
    est_field     element[CLICKS_N_ALL];
    double        n = 0, start, secs;

    bench_check(est_dataset_finish(d, &dataset));
    bench_check(est_iterator_create(dataset, &rows));
    start = bench_cpu_secs();
    do {
        for (double end = n + (double)batch; n < end; n += rows_each) {
            bench_check(est_iterator_next(rows, element));
            est_element_clear(element, est_dataset_components(dataset));
        }
        secs = bench_cpu_secs() - start;
    } while (secs < INPUT_SECS);
    est_iterator_free(rows);
    est_dataset_free(dataset);
    return secs * (double)batch / n;
}

/* What a stage of the input took, and the least it could: every byte of a record read and written once. */
static void print_input(const char *name, double secs, double bytes, const job *j)
{
    (void)printf("{\"stage\":\"%s\",\"us\":%.1f,\"floor_us\":%.1f,\"kernels\":0}\n", name, 1e6 * secs,
                 1e6 * bytes / j->machine.bytes_per_sec);
}

static double record_bytes(const job *j)
{
    est_dataset  *dataset = NULL;
    est_iterator *rows    = NULL;
    est_field     element[1];
    double        bytes = 0;

    bench_check(est_dataset_finish(records(j), &dataset));
    bench_check(est_iterator_create(dataset, &rows));
    for (int64_t i = 0; i < j->batch; i++) {
        bench_check(est_iterator_next(rows, element));
        bytes += (double)((const est_str *)est_tensor_data(element[0].values))->size;
        est_element_clear(element, 1);
    }
    est_iterator_free(rows);
    est_dataset_free(dataset);
    return bytes;
}

static void print_stages(job *j)
{
    double bytes    = record_bytes(j);
    double read     = input_secs(est_dataset_repeat(records(j), EST_FOREVER), 1, j->batch);
    double shuffled = input_secs(est_dataset_repeat(est_dataset_shuffle(records(j), BUFFER, 1), EST_FOREVER), 1,
                                 j->batch);
    double batches  = input_secs(parsed(j, est_dataset_repeat(records(j), EST_FOREVER), 0), (double)j->batch, j->batch);

    print_input("read", read, 2 * bytes, j);
    print_input("shuffle", shuffled - read, 0, j);
    print_input("parse", batches - read, 2 * bytes, j);
    for (int s = 0; s < BENCH_N_STAGES; s++) {
        bench_stats stats = bench_summary(j->traced.secs[s], j->traced.runs);

        (void)printf("{\"stage\":\"%s\",\"us\":%.1f,\"least_us\":%.1f,\"floor_us\":%.1f,\"kernels\":%d}\n",
                     bench_stage_names[s], 1e6 * stats.median, 1e6 * stats.min, 1e6 * j->traced.floor_secs[s],
                     j->traced.kernels[s]);
    }
    bench_stats whole = bench_summary(j->traced.whole_secs, j->traced.runs);
    (void)printf("{\"stage\":\"step\",\"us\":%.1f,\"least_us\":%.1f,\"gb_per_sec\":%.1f,\"gflops\":%.1f}\n",
                 1e6 * whole.median, 1e6 * whole.min, j->machine.bytes_per_sec / 1e9, j->machine.flops / 1e9);
}

/* --- main --------------------------------------------------------------------------------------------------------- */

static void take_hidden(job *j, const char *list)
{
    char *end = NULL;

    for (j->n_hidden = 0; j->n_hidden < HIDDEN_MAX && *list != '\0'; list = *end == ',' ? end + 1 : end) {
        j->hidden[j->n_hidden++] = strtoll(list, &end, 10);
        if (end == list) break;
    }
}

static void take_options(job *j, int argc, char **argv)
{
    const char *hidden = "64,32";

    BENCH_OPTIONS(argc, argv, 1, { "--folder", BENCH_TO(&j->folder) }, { "--hidden", BENCH_TO(&hidden) },
                  { "--batch", BENCH_TO(&j->batch) }, { "--rows", BENCH_TO(&j->rows) },
                  { "--threads", BENCH_TO(&j->threads) }, { "--workers", BENCH_TO(&j->workers) },
                  { "--device", BENCH_TO(&j->device) }, { "--placement", BENCH_TO(&j->placement) },
                  { "--turns", BENCH_TO(&j->turns) }, { "--seconds", BENCH_TO(&j->seconds) },
                  { "--stages", BENCH_TO(&j->stages) }, { "--report", BENCH_TO(&j->report) });
    take_hidden(j, hidden);
    if (j->stages > BENCH_RUNS_MAX) j->stages = BENCH_RUNS_MAX;
}

int main(int argc, char **argv)
{
    job            j     = { .hook    = EST_HOOK(.after_create_session = job_session, .before_run = job_before_run,
                                                 .after_run = job_after_run),
                             .folder  = "build/canned",
                             .device  = "/cpu:0",
                             .threads = 1,
                             .workers = 1,
                             .turns   = 5,
                             .seconds = 1,
                             .batch   = 512 };
    est_estimator *model = NULL;
    double         start = bench_now_secs();

    take_options(&j, argc, argv);
    make_columns(&j);
    const est_canned_options *options = EST_CANNED(
            .linear_columns = { j.wide, (int)(sizeof j.wide / sizeof j.wide[0]) },
            .dnn_columns    = { j.deep, (int)(sizeof j.deep / sizeof j.deep[0]) },
            .hidden_units   = { j.hidden, j.n_hidden },
            .config         = EST_RUN_CONFIG(.seed = 1, .threads = j.threads, .devices = EST_STRINGS(j.device),
                                             .log_device_placement = j.placement, .save_summary_steps = EST_OFF,
                                             .save_checkpoints_secs = EST_OFF, .log_step_count_steps = EST_OFF, .quiet = true));

    bench_check(est_classifier_parse_spec(options, &j.parse));
    bench_check(est_dnn_linear_combined_classifier(options, &model));
    bench_check(est_train(model, EST_TRAIN_OPTIONS(.input_fn = input, .input_user = &j, .hooks = EST_HOOKS(&j.hook))));
    (void)printf("{\"max_rss_mb\":%.1f,\"start_secs\":%.3f,\"first_step_secs\":%.4f}\n", j.rss_mb,
                 j.created_secs - start, j.first_step_secs);
    if (j.stages > 0) print_stages(&j);
    est_estimator_free(model);
    est_parse_spec_free(j.parse);
    est_columns_free(j.columns);
    return 0;
}
