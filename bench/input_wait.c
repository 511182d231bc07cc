/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether training waits for its input: a reference model fed by a real pipeline, and the same model fed with batches
 * that are already there. One question a run, answered in turns of --seconds (bench/support/turns.h).
 *
 *   input_wait MODEL [--resident 1] [--folder FOLDER] [--threads N] [--turns N] [--seconds S]
 *
 * cnn and mlp: 60000 images in memory, shuffled, batched and prefetched. wide_deep: Examples in TFRecord files (what
 * bench/input_files wrote), shuffled, parsed and prefetched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "estoc/dataset.h"
#include "estoc/estoc.h"
#include "support/bench.h"
#include "support/clicks.h"
#include "support/models.h"
#include "support/options.h"
#include "support/turns.h"

#define SETS         8
#define N_IMAGES     60000
#define N_PIXELS     784
#define N_DIGITS     10
#define BUFFER       10000
#define PREFETCH     4
#define WARM_UP_SECS 0.3

typedef struct job {
    const char *name, *folder;
    int         threads, turns;
    bool        resident;
    double      seconds;

    bench_model   model;
    est_session  *session;
    est_step     *step;
    est_tensor   *sets[SETS][BENCH_FEEDS_MAX]; /* resident */
    int64_t       next;
    est_dataset  *dataset; /* otherwise */
    est_iterator *rows;
    double        waited_secs;
} job;

/* --- the pipelines ------------------------------------------------------------------------------------------------ */

static est_dataset *images(const job *j)
{
    est_shape    shape  = *est_node_shape(j->model.feed[0]);
    est_tensor  *pixels = NULL, *digits = NULL;
    est_dataset *d;

    shape.dim[0] = N_IMAGES;
    bench_check(est_tensor_create(EST_F32, shape, &pixels));
    bench_check(est_tensor_create(EST_I32, EST_SHAPE(N_IMAGES), &digits));
    est_random_fill_normal_f32(&(est_random){ 1, 0, 0 }, 0, est_tensor_count(pixels), est_tensor_mutable_data(pixels));
    est_random_fill_int_i32(&(est_random){ 1, 1, 0 }, 0, N_IMAGES, 0, N_DIGITS, est_tensor_mutable_data(digits));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "image", pixels }, { "label", digits }));
    est_tensor_free(pixels);
    est_tensor_free(digits);
    d = est_dataset_shuffle(d, BUFFER, 1);
    d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_batch(d, j->model.batch, NULL);
    return est_dataset_prefetch(d, PREFETCH);
}

/* Components in the order of the model's feeds: 26 ids, the numbers, the label. */
static est_dataset *clicks(const job *j)
{
    est_feature_spec specs[CLICKS_N_CAT + 2] = { 0 };
    est_dataset     *d;
    char             pattern[512];

    for (int k = 0; k < CLICKS_N_CAT; k++) {
        specs[k] = (est_feature_spec){ .name = clicks_name(1 + CLICKS_N_NUM + k), .dtype = EST_I64 };
    }
    specs[CLICKS_N_CAT]     = (est_feature_spec){ "numeric", EST_F32, .shape = EST_SHAPE(CLICKS_N_NUM) };
    specs[CLICKS_N_CAT + 1] = (est_feature_spec){ clicks_name(0), EST_F32, .shape = EST_SHAPE(1) };
    (void)snprintf(pattern, sizeof pattern, "%s/ids-*.tfrecord", j->folder);
    d = est_dataset_files(pattern);
    d = est_dataset_tfrecords(d, EST_INTERLEAVE(.cycle = 4));
    d = est_dataset_shuffle(d, BUFFER, 1);
    d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_parse_examples(d, (est_feature_specs){ specs, CLICKS_N_CAT + 2 }, j->model.batch,
                                   EST_PARSE(.workers = 1));
    return est_dataset_prefetch(d, PREFETCH);
}

/* --- training ----------------------------------------------------------------------------------------------------- */

static void open_job(job *j)
{
    j->model = bench_model_build(j->name, 0, 1);
    bench_check(est_session_create(j->model.graph, EST_SESSION(.threads = j->threads), &j->session));
    bench_check(est_session_init(j->session));
    bench_check(est_session_prepare(j->session, (est_nodes){ j->model.feed, j->model.n_feeds },
                                    EST_NODES(j->model.loss), EST_NODES(j->model.train), &j->step));
    if (j->resident) {
        for (int s = 0; s < SETS; s++) j->model.fill(&j->model, s, j->sets[s]);
    } else {
        bench_check(est_dataset_finish(strcmp(j->name, "wide_deep") == 0 ? clicks(j) : images(j), &j->dataset));
        bench_check(est_iterator_create(j->dataset, &j->rows));
    }
}

static void train_step(job *j)
{
    const est_tensor *feeds[BENCH_FEEDS_MAX];
    est_field         element[BENCH_FEEDS_MAX];
    double            start = bench_now_secs();

    if (j->resident) {
        bench_check(est_step_run(j->step, (const est_tensor *const *)j->sets[j->next++ % SETS]));
        return;
    }
    bench_check(est_iterator_next(j->rows, element));
    j->waited_secs += bench_now_secs() - start;
    for (int i = 0; i < j->model.n_feeds; i++) feeds[i] = element[i].values;
    bench_check(est_step_run(j->step, feeds));
    est_element_clear(element, j->model.n_feeds);
}

static bench_turn train(void *arg)
{
    job       *j    = arg;
    bench_turn turn = { 0 };
    double     start;

    for (start = bench_now_secs(); bench_now_secs() - start < WARM_UP_SECS;) train_step(j);
    j->waited_secs = 0;
    start          = bench_now_secs();
    do {
        train_step(j);
        turn.amount++;
        turn.secs = bench_now_secs() - start;
    } while (turn.secs < j->seconds);
    turn.waited_secs = j->waited_secs;
    return turn;
}

static void close_job(job *j)
{
    est_iterator_free(j->rows);
    est_dataset_free(j->dataset);
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < j->model.n_feeds; i++) est_tensor_free(j->sets[s][i]);
    }
    est_session_free(j->session);
    est_graph_free(j->model.graph);
}

int main(int argc, char **argv)
{
    job j = { .name = argc > 1 ? argv[1] : "", .folder = "build/input", .threads = 1, .turns = 5, .seconds = 1 };

    BENCH_OPTIONS(argc, argv, 2, { "--folder", BENCH_TO(&j.folder) }, { "--threads", BENCH_TO(&j.threads) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--seconds", BENCH_TO(&j.seconds) },
                  { "--resident", BENCH_TO(&j.resident) });
    open_job(&j);
    bench_take_turns(train, &j, j.turns);
    close_job(&j);
    return 0;
}
