/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous training with parameter servers through the estimator, by tasks that do not look at the same: the worker
 * has hooks that see a variable before and after every step and log it every second one, the chief writes summaries of
 * it every third step. Losses are those of one process with as many examples a step.
 *
 * A loss is of order 1, and the gradient a sum of 24 terms, which in another order differs by at most 24 * 2^-24 of
 * them; STEPS steps with a rate of 0.1 carry that on: below 3e-6. An update that is missed moves a loss by more than
 * 1e-3. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/layers.h"
#include "estoc/ops.h"
#include "support/cluster_test.h"
#include "support/estimator_test.h"

#define ROWS          480
#define SYNC_REPLICAS 24 /* examples of a step */
#define STEPS         12
#define IDS           7
#define TOLERANCE     1e-5

/* --- the model ---------------------------------------------------------------------------------------------------- */

/* Batch k of all goes to task k mod n. */
static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    static float   xs[ROWS * 3], ys[ROWS];
    static int64_t ids[ROWS];
    const int64_t *batch = user;
    est_tensor    *x = NULL, *id = NULL, *y = NULL;
    est_dataset   *d;
    uint32_t       r = 12345;

    for (int i = 0; i < ROWS * 3; i++) {
        r     = r * 1664525u + 1013904223u;
        xs[i] = (float)(r >> 16) / 65536.0f - 0.5f;
    }
    for (int i = 0; i < ROWS; i++) {
        ids[i] = (i * i + 3) % IDS;
        ys[i]  = xs[3 * i] + xs[3 * i + 1] * 0.5f + 0.1f * (float)ids[i];
    }
    assert_int_equal(est_tensor_f32(EST_SHAPE(ROWS, 3), xs, &x), EST_OK);
    assert_int_equal(est_tensor_i64(EST_SHAPE(ROWS), ids, &id), EST_OK);
    assert_int_equal(est_tensor_f32(EST_SHAPE(ROWS, 1), ys, &y), EST_OK);
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "id", id }, { "y", y }));
    est_tensor_free(x);
    est_tensor_free(id);
    est_tensor_free(y);
    d = est_dataset_batch(d, *batch, NULL);
    d = est_dataset_shard(d, context->n_pipelines, context->pipeline);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(d, out);
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    est_node table = est_embedding(est_model_feature(model, "id"), IDS, 2, NULL);
    est_node x     = est_concat(EST_NODES(est_model_feature(model, "x"), table), 1);
    est_node y     = est_dense(est_dense(x, 8, EST_DENSE(.activation = est_tanh, .name = "hidden")), 1, NULL);
    est_node loss  = est_mean(est_square(est_sub(y, est_model_label(model, "y"))));
    est_node kernel, train, after;

    (void)params;
    est_model_loss(model, loss);
    if (mode != EST_TRAIN) return est_model_status(model);
    kernel = est_graph_find(est_model_graph(model), "hidden/kernel");
    train  = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
    after  = est_named(est_after(est_read_variable(kernel), train), "kernel_after");
    est_model_train_op(model, train);
    est_model_histogram(model, "kernel", est_read_variable(kernel));
    est_model_histogram(model, "kernel_after", after);
    est_model_histogram(model, "kernel_moves", est_sub(after, est_read_variable(kernel)));
    if (!est_model_task(model)->is_chief) {
        est_model_training_hook(
            model, est_logging_hook((est_named_nodes){ &(est_named_node){ "kernel", est_read_variable(kernel) }, 1 },
                                    EST_LOGGING(.every_n_iter = 2)));
    }
    return est_model_status(model);
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

/* Keeps or says the losses. */
typedef struct teller {
    est_hook hook;
    double  *losses; /* [STEPS]; NULL: says them */
} teller;

static est_status tell_loss(est_hook *hook, est_loop *loop)
{
    const teller *t = EST_CONTAINER_OF(hook, teller, hook);

    if (t->losses != NULL) {
        t->losses[est_loop_global_step(loop) - 1] = est_loop_loss(loop);
    } else {
        fprintf(stderr, "after %" PRId64 " steps: loss %.9g\n", est_loop_global_step(loop), est_loop_loss(loop));
    }
    return EST_OK;
}

/* Every step begins with what the one before has left. */
typedef struct watcher {
    est_hook hook;
    int      before, after;
    float    left;
    bool     has_left;
} watcher;

static est_status watch_begin(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    w->before = est_loop_fetch(loop, est_read_variable(est_graph_find(est_loop_graph(loop), "hidden/kernel")));
    w->after  = est_loop_fetch(loop, est_graph_find(est_loop_graph(loop), "kernel_after"));
    return EST_OK;
}

static est_status watch_before(est_hook *hook, est_loop *loop)
{
    watcher *w = EST_CONTAINER_OF(hook, watcher, hook);

    est_loop_want(loop, w->before);
    est_loop_want(loop, w->after);
    return EST_OK;
}

static est_status watch_after(est_hook *hook, est_loop *loop)
{
    watcher *w      = EST_CONTAINER_OF(hook, watcher, hook);
    float    before = *(const float *)est_loop_data(loop, w->before);

    if (!w->has_left || before == w->left) fprintf(stderr, "the kernel is what it was\n");
    w->left     = *(const float *)est_loop_data(loop, w->after);
    w->has_left = true;
    if (w->left != before) fprintf(stderr, "the kernel has moved\n");
    return EST_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Trains in `dir`: alone, keeping the losses, or as the environment says. */
static est_status run(const char *dir, int64_t batch, double *losses)
{
    const char *config  = getenv("TF_CONFIG");
    bool        alone   = losses != NULL;
    bool        watched = !alone && strstr(config, "\"type\": \"worker\"") != NULL;
    teller      tells   = { .hook = EST_HOOK(.after_run = tell_loss), .losses = losses };
    watcher watches = { .hook = EST_HOOK(.begin = watch_begin, .before_run = watch_before, .after_run = watch_after) };
    est_hook      *hooks[]   = { &tells.hook, &watches.hook };
    est_estimator *estimator = NULL;
    est_strategy  *strategy  = NULL;
    est_status     status    = est_parameter_server_strategy(EST_PARAMETER_SERVER(.sync_replicas = 2), &strategy);

    if (status == EST_OK) {
        status = est_estimator_create(
            model_fn,
            EST_ESTIMATOR(.model_dir = dir,
                          .config    = EST_RUN_CONFIG(.seed = 5, .cluster_json = alone ? "{}" : NULL,
                                                      .save_summary_steps = 3, .max_worker_delay_secs = EST_OFF,
                                                      .train_distribute              = alone ? NULL : strategy,
                                                      .session_creation_timeout_secs = 60)),
            &estimator);
    }
    if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator,
            EST_TRAIN_SPEC(.input_fn = input, .input_user = &batch, .max_steps = STEPS,
                           .hooks = { hooks, watched ? 2 : 1 }),
            EST_EVAL_SPEC(.input_fn = input, .input_user = &batch, .start_delay_secs = EST_OFF), NULL);
    }
    est_estimator_free(estimator);
    est_strategy_free(strategy);
    return status;
}

/* argv: the model directory. */
static int task(int argc, char **argv)
{
    est_status status;

    assert_int_equal(argc, 1);
    status = run(argv[0], SYNC_REPLICAS / 2, NULL);
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    return status != EST_OK;
}

/* What a task said of its losses. */
static void read_losses(const cluster_task *of, double losses[STEPS])
{
    FILE *log = fopen(of->log, "r");
    char  line[512];

    assert_non_null(log);
    for (int i = 0; i < STEPS; i++) losses[i] = NAN;
    while (fgets(line, sizeof line, log) != NULL) {
        long long step;
        double    loss;

        if (sscanf(line, "after %lld steps: loss %lf", &step, &loss) == 2) losses[step - 1] = loss;
    }
    (void)fclose(log);
}

static void compare(int n_ps)
{
    cluster             c = cluster_make(1, 1, n_ps, 0), whole = cluster_make(0, 1, 0, 0); /* for its directory */
    const cluster_task *worker = cluster_find(&c, "worker", 0);
    double              one[STEPS], chief[STEPS], other[STEPS];

    assert_int_equal(run(whole.model, SYNC_REPLICAS, one), EST_OK);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    read_losses(cluster_find(&c, "chief", 0), chief);
    read_losses(worker, other);
    for (int i = 0; i < STEPS; i++) {
        double mean = (chief[i] + other[i]) / 2;

        if (!(fabs(mean - one[i]) <= TOLERANCE)) fail_msg("step %d: loss %.9g instead of %.9g", i, mean, one[i]);
    }
    assert_int_equal(cluster_saved_step(&c), STEPS);
    assert_int_equal(cluster_count_log(worker, "the kernel is what it was"), STEPS);
    assert_int_equal(cluster_count_log(worker, "the kernel has moved"), STEPS);
    assert_int_equal(cluster_count_log(worker, "kernel = "), STEPS / 2);
    cluster_free(&whole);
    cluster_free(&c);
}

TEST(one_ps)
{
    compare(1);
}

TEST(two_ps)
{
    compare(2);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, task);
    return est_test_run(NULL, NULL);
}
