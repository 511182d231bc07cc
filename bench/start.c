/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a program with many variables takes from its start to the end of its first step, and whether that time is
 * linear in the number of variables.
 *
 *   start [--weights N] [--way session|ps|estimator]
 *
 * The model has N weights of four elements and a slot for each (Adagrad), so 2 N variables. The ways: a session in this
 * process; a session whose variables are at two parameter servers on loopback (tcp); est_train for one step, which also
 * writes graph.pbtxt and two checkpoints. Without options: all ways at 2,500, 5,000 and 10,000 weights. Each row is
 * measured in a process of its own; seconds are wall time, the phases in the order they happen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/bench.h"
#include "support/options.h"
#include "support/tasks.h"
#include "support/turns.h"

#define WIDTH 4

/* Every weight reaches the loss by itself: gradients, updates and slots are all per weight. */
static est_node build_loss(est_graph *graph, est_node x, int n)
{
    est_node *parts = malloc(sizeof *parts * (size_t)n);
    est_node  loss;
    char      name[32];

    if (parts == NULL) abort();
    for (int i = 0; i < n; i++) {
        est_node w;

        (void)snprintf(name, sizeof name, "feature_%d/weights", i);
        w        = est_weight(graph, name, EST_SHAPE(WIDTH), NULL);
        parts[i] = est_sum(est_square(est_mul(est_read_variable(w), x)));
    }
    loss = est_add_n((est_nodes){ parts, n });
    free(parts);
    return loss;
}

static void phase(const char *name, double *since)
{
    double now = bench_now_secs();

    printf("  %s %.2f", name, now - *since);
    *since = now;
}

static void start_session(int n, est_remote *remote)
{
    static const float half[WIDTH] = { 0.5f, 0.5f, 0.5f, 0.5f };
    double             since       = bench_now_secs();
    est_graph         *graph       = NULL;
    est_session       *session     = NULL;
    est_step          *step        = NULL;
    est_node           loss, train;

    bench_check(est_graph_create(1, &graph));
    loss  = build_loss(graph, est_const_f32(graph, EST_SHAPE(WIDTH), half), n);
    train = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
    bench_check(est_graph_status(graph));
    phase("build", &since);
    bench_check(est_session_create(graph, EST_SESSION(.remote = remote), &session));
    phase("create", &since);
    bench_check(est_session_init(session));
    phase("initialize", &since);
    bench_check(est_session_prepare(session, EST_NO_NODES, EST_NODES(loss), EST_NODES(train), &step));
    phase("prepare", &since);
    bench_check(est_step_run(step, NULL));
    phase("first step", &since);
}

static est_status train_input(const est_input_context *context, void *user, est_dataset **out)
{
    static const float half[WIDTH] = { 0.5f, 0.5f, 0.5f, 0.5f };
    est_tensor        *x           = NULL;
    est_dataset       *d;

    (void)context;
    (void)user;
    EST_TRY(est_tensor_f32(EST_SHAPE(1, WIDTH), half, &x));
    d = est_dataset_repeat(est_dataset_slices(EST_NAMED_TENSORS({ "x", x })), EST_FOREVER);
    est_tensor_free(x);
    return est_dataset_finish(d, out);
}

static est_status train_model(est_model *m, est_mode mode, const void *params)
{
    est_node loss = build_loss(est_model_graph(m), est_model_feature(m, "x"), *(const int *)params);

    (void)mode;
    est_model_loss(m, loss);
    est_model_minimize(m, est_adagrad(0.1, NULL), loss);
    return est_model_status(m);
}

static void start_estimator(int n)
{
    char           folder[] = "/tmp/estoc-bench-XXXXXX";
    double         since    = bench_now_secs();
    est_estimator *e        = NULL;

    if (mkdtemp(folder) == NULL) abort();
    bench_check(est_estimator_create(
        train_model,
        EST_ESTIMATOR(.params = &n, .params_size = sizeof n, .config = EST_RUN_CONFIG(.model_dir = folder, .seed = 1)),
        &e));
    bench_check(est_train(e, EST_TRAIN_OPTIONS(.input_fn = train_input, .steps = 1)));
    phase("train, one step", &since);
    est_estimator_free(e);
    bench_check(est_dir_remove(folder));
}

static void start_ps(int n)
{
    bench_tasks tasks  = bench_tasks_make(2, 0, "tcp");
    est_server *server = NULL;

    bench_tasks_serve(&tasks);
    start_session(n, bench_tasks_connect(&tasks, &server));
    bench_tasks_stop(&tasks);
}

static int run(const char *way, int n)
{
    double start = bench_now_secs();

    printf("%-9s %6d weights", way, n);
    if (strcmp(way, "session") == 0) {
        start_session(n, NULL);
    } else if (strcmp(way, "ps") == 0) {
        start_ps(n);
    } else if (strcmp(way, "estimator") == 0) {
        start_estimator(n);
    } else {
        (void)fprintf(stderr, "start: --way %s; session, ps or estimator\n", way);
        return 2;
    }
    printf("  in all %.2f s, %.0f MB\n", bench_now_secs() - start, bench_max_rss_mb());
    return 0;
}

/* In a process of its own, so that neither memory nor threads of one row are in the next. */
static int run_apart(const char *way, int n)
{
    pid_t child;
    int   how = 0;

    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        int code = run(way, n);
        (void)fflush(stdout);
        _exit(code);
    }
    if (child < 0 || waitpid(child, &how, 0) != child) abort();
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}

int main(int argc, char **argv)
{
    static const char *const ways[]  = { "session", "ps", "estimator" };
    static const int         sizes[] = { 2500, 5000, 10000 };
    const char              *way     = NULL;
    int                      n = 0, code = 0;

    BENCH_OPTIONS(argc, argv, 1, { "--way", BENCH_TO(&way) }, { "--weights", BENCH_TO(&n) });
    est_log_set_level(EST_LOG_ERROR);
    for (size_t w = 0; w < 3 && code == 0; w++) {
        if (way != NULL && strcmp(way, ways[w]) != 0) continue;
        for (size_t s = 0; s < 3 && code == 0; s++) {
            if (n == 0 || s == 0) code = run_apart(ways[w], n != 0 ? n : sizes[s]);
        }
    }
    return code;
}
