/* SPDX-License-Identifier: Apache-2.0
 *
 * What est_network_fit costs, in turns (bench/support/turns.h), of which an amount is steps. bench/compare-fit prints
 * the table with Keras beside it.
 *
 *   fit MODEL [--way fit|step] [--threads 2] [--turns N] [--seconds S]
 *
 * MODEL is cnn, mlp or wide_deep, the reference models of bench/support/models.h, or line, the one dense layer of
 * examples/keras_fit. --way step is the bare prepared step of a session: the same graph without fit. A network has one
 * optimizer, so that Adagrad trains all of wide_deep here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/bench.h"
#include "support/models.h"
#include "support/options.h"
#include "support/turns.h"

#define SETS       8 /* different batches, used in turn */
#define WARM_STEPS 50
#define LINE_BATCH 10

typedef struct job {
    const char  *model, *way;
    int          threads, turns;
    double       seconds;
    est_network *network; /* --way fit */
    est_dataset *input;
    int64_t      steps; /* of a turn */
    est_step    *step;  /* --way step */
    est_tensor  *feeds[SETS][BENCH_FEEDS_MAX];
} job;

static bool is_line(const job *j)
{
    return strcmp(j->model, "line") == 0;
}

static bool is_wide_deep(const job *j)
{
    return strcmp(j->model, "wide_deep") == 0;
}

static est_tensor *ones(est_shape shape)
{
    est_tensor *t = NULL;

    bench_check(est_tensor_create(EST_F32, shape, &t));
    for (int64_t i = 0; i < est_tensor_count(t); i++) ((float *)est_tensor_mutable_data(t))[i] = 1;
    return t;
}

/* --- fit ---------------------------------------------------------------------------------------------------------- */

static est_node wide_deep(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node ids[BENCH_IDS];
    char     name[32];

    (void)graph, (void)training, (void)user;
    for (int i = 0; i < BENCH_IDS; i++) {
        (void)snprintf(name, sizeof name, "id_%d", i);
        ids[i] = est_network_input_node(inputs, name);
    }
    return bench_wide_deep(ids, est_network_input_node(inputs, "numeric"), 1, NULL);
}

/* The models of bench/support/models.c once more, as layers. */
static void make_network(job *j)
{
    const est_network_options *options = EST_NETWORK(.seed = 1, .threads = j->threads);

    if (is_line(j)) {
        bench_check(est_network_sequential(EST_LAYERS(est_layer_dense(1, NULL)), options, &j->network));
    } else if (is_wide_deep(j)) {
        bench_check(est_network_create(wide_deep, options, &j->network));
    } else if (strcmp(j->model, "cnn") == 0) {
        bench_check(est_network_sequential(EST_LAYERS(est_layer_conv2d(32, 3, EST_CONV2D(.activation = est_relu)),
                                                      est_layer_max_pool2d(2, NULL), est_layer_flatten(NULL),
                                                      est_layer_dense(64, EST_DENSE(.activation = est_relu)),
                                                      est_layer_dense(10, NULL)),
                                           options, &j->network));
    } else {
        bench_check(est_network_sequential(EST_LAYERS(est_layer_dense(1024, EST_DENSE(.activation = est_relu)),
                                                      est_layer_dense(512, EST_DENSE(.activation = est_relu)),
                                                      est_layer_dense(256, EST_DENSE(.activation = est_relu)),
                                                      est_layer_dense(10, NULL)),
                                           options, &j->network));
    }
}

static void compile(job *j)
{
    bool     adagrad = strcmp(j->model, "mlp") == 0 || is_wide_deep(j);
    est_loss loss    = est_loss_value_sparse_categorical_crossentropy(true);

    if (is_line(j)) bench_check(est_loss_by_name("mse", &loss));
    if (is_wide_deep(j)) loss = est_loss_value_binary_crossentropy(true, 0);
    bench_check(est_network_compile(j->network,
                                    EST_COMPILE(.loss_value = loss, .label = is_wide_deep(j) ? "click" : NULL,
                                                .optimizer_value = adagrad ? est_adagrad(0.01, NULL) : est_sgd(0.01))));
}

/* As in the Keras program: one row, repeated and batched. */
static void open_line_input(job *j)
{
    est_tensor  *one = ones(EST_SHAPE(1));
    est_dataset *d   = est_dataset_tensors(EST_NAMED_TENSORS({ "x", one }, { "y", one }));

    d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_batch(d, LINE_BATCH, NULL);
    est_tensor_free(one);
    bench_check(est_dataset_finish(d, &j->input));
}

static void fit(job *j, int64_t steps)
{
    bench_check(est_network_fit(
        j->network, EST_FIT(.input = j->input, .steps_per_epoch = steps, .verbose = EST_VERBOSE_NONE), NULL));
}

static bench_turn fit_turn(void *arg)
{
    job       *j     = arg;
    double     start = bench_now_secs(), used = bench_cpu_secs();
    bench_turn turn = { .amount = (double)j->steps };

    fit(j, j->steps);
    turn.secs     = bench_now_secs() - start;
    turn.cpu_secs = bench_cpu_secs() - used;
    return turn;
}

/* A turn is one fit, of as many steps as take its time. */
static void open_fit(job *j)
{
    double start;

    make_network(j);
    compile(j);
    if (is_line(j))
        open_line_input(j);
    else
        bench_check(bench_model_input(j->model, &j->input));
    fit(j, WARM_STEPS);
    for (j->steps = WARM_STEPS;; j->steps *= 2) {
        start = bench_now_secs();
        fit(j, j->steps);
        if (bench_now_secs() - start > j->seconds / 4) break;
    }
    j->steps = (int64_t)((double)j->steps * j->seconds / (bench_now_secs() - start)) + 1;
}

/* --- the bare step ------------------------------------------------------------------------------------------------ */

static void build_line(bench_model *m)
{
    bench_check(est_graph_create(1, &m->graph));
    m->feed[0] = est_placeholder(m->graph, "x", EST_F32, EST_SHAPE(-1, 1));
    m->feed[1] = est_placeholder(m->graph, "y", EST_F32, EST_SHAPE(-1, 1));
    m->n_feeds = 2;
    m->loss    = est_mean(est_square(est_sub(est_dense(m->feed[0], 1, NULL), m->feed[1])));
    m->train   = est_minimize(est_sgd(0.01), m->loss, NULL);
}

static void open_step(job *j)
{
    bench_model  m       = { 0 };
    est_session *session = NULL;

    if (is_line(j))
        build_line(&m);
    else
        m = bench_model_build(j->model, 0, 1);
    if (is_wide_deep(j)) m.train = est_minimize(est_adagrad(0.01, NULL), m.loss, NULL);
    bench_check(est_session_create(m.graph, EST_SESSION(.threads = j->threads), &session));
    bench_check(est_session_init(session));
    bench_check(est_session_prepare(session, (est_nodes){ m.feed, m.n_feeds }, EST_NODES(m.loss), EST_NODES(m.train),
                                    &j->step));
    for (int s = 0; s < SETS; s++) {
        if (is_line(j))
            j->feeds[s][0] = j->feeds[s][1] = ones(EST_SHAPE(LINE_BATCH, 1));
        else
            m.fill(&m, s, j->feeds[s]);
    }
}

static bench_turn step_turn(void *arg)
{
    job       *j     = arg;
    bench_turn turn  = { 0 };
    double     start = bench_now_secs(), used = bench_cpu_secs();

    while (turn.secs < j->seconds) {
        for (int i = 0; i < SETS; i++) {
            bench_check(est_step_run(j->step, (const est_tensor *const *)j->feeds[i]));
        }
        turn.amount += SETS;
        turn.secs = bench_now_secs() - start;
    }
    turn.cpu_secs = bench_cpu_secs() - used;
    return turn;
}

int main(int argc, char **argv)
{
    job j = { .model = argc > 1 ? argv[1] : "", .way = "fit", .threads = 2, .turns = 3, .seconds = 0.5 };

    BENCH_OPTIONS(argc, argv, 2, { "--way", BENCH_TO(&j.way) }, { "--threads", BENCH_TO(&j.threads) },
                  { "--turns", BENCH_TO(&j.turns) }, { "--seconds", BENCH_TO(&j.seconds) });
    if (!is_line(&j) && !is_wide_deep(&j) && strcmp(j.model, "cnn") != 0 && strcmp(j.model, "mlp") != 0) {
        (void)fprintf(stderr,
                      "usage: fit cnn|mlp|wide_deep|line [--way fit|step] [--threads 2] [--turns N] [--seconds S]\n");
        return 2;
    }
    est_log_set_level(EST_LOG_ERROR);
    if (strcmp(j.way, "step") == 0)
        open_step(&j);
    else
        open_fit(&j);
    bench_take_turns(j.step != NULL ? step_turn : fit_turn, &j, j.turns);
    return 0;
}
