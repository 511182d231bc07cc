/* SPDX-License-Identifier: Apache-2.0
 *
 * n workers with batches of b examples train as one process with batches of n b, through the estimator: dense variables
 * and rows of a table, SGD and Adam, losses that are means and losses that are sums. And they evaluate together: every
 * example counts once, so that what is counted is exactly what one process counts.
 *
 * Variables are float32 of order 1. A gradient is a sum of 24 terms, which in another order differs by at most 24 *
 * 2^-24 of them; 20 steps with rates up to 0.1 add up 20 of these differences times the rate: below 3e-6. One example
 * too many or too few would move a variable by more than 1e-3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/head.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "support/estimator_test.h"
#include "support/multi_worker_test.h"

#define ROWS         480
#define MULTI_WORKER 24 /* examples of a step */
#define STEPS        20
#define IDS          7
#define TOLERANCE    1e-5

typedef struct variant {
    const char *name;
    bool        adam, rows, sum;
} variant;

static const variant variants[] = {
    { "sgd, dense", false, false, false },
    { "sgd, rows", false, true, false },
    { "adam, dense", true, false, false },
    { "adam, rows", true, true, false },
    { "sgd, rows, sum of losses", false, true, true },
};

typedef struct job {
    const variant *variant;
    est_head      *head;
    int64_t        batch;
    int64_t        replicas;
} job;

/* --- the model ---------------------------------------------------------------------------------------------------- */

static est_status make_data(est_tensor **x, est_tensor **ids, est_tensor **labels)
{
    static float   xs[ROWS * 3], ys[ROWS];
    static int64_t is[ROWS];
    uint32_t       r = 12345;

    for (int i = 0; i < ROWS * 3; i++) {
        r     = r * 1664525u + 1013904223u;
        xs[i] = (float)(r >> 16) / 65536.0f - 0.5f;
    }
    for (int i = 0; i < ROWS; i++) {
        is[i] = (i * i + 3) % IDS;
        ys[i] = xs[3 * i] + xs[3 * i + 1] * 0.5f + 0.1f * (float)is[i] > 0.3f;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(ROWS, 3), xs, x));
    EST_TRY(est_tensor_i64(EST_SHAPE(ROWS), is, ids));
    return est_tensor_f32(EST_SHAPE(ROWS, 1), ys, labels);
}

/* Batch k of all goes to task k mod n; with r replicas each takes r of them a step. */
static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    const job   *j = user;
    est_tensor  *x = NULL, *ids = NULL, *labels = NULL;
    est_dataset *d;
    est_status   status = make_data(&x, &ids, &labels);

    assert_int_equal(status, EST_OK);
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "id", ids }, { "y", labels }));
    est_tensor_free(x);
    est_tensor_free(ids);
    est_tensor_free(labels);
    d = est_dataset_batch(d, context->mode == EST_TRAIN ? j->batch : 7, NULL); /* 7: the last one is smaller */
    d = est_dataset_shard(d, context->n_pipelines, context->pipeline);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(d, out);
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const job     *j  = params;
    const variant *v  = j->variant;
    est_node       in = est_model_feature(model, "x");
    est_optimizer  by = v->adam ? est_adam(0.02, NULL) : est_sgd(v->sum ? 0.1 / MULTI_WORKER : 0.1);

    if (v->rows) {
        est_node pair[] = { in, est_embedding(est_model_feature(model, "id"), IDS, 2, NULL) };

        in = est_concat((est_nodes){ pair, 2 }, 1);
    }
    return est_head_finish(j->head, model, mode, est_dense(in, 1, NULL), EST_HEAD_FINISH(.optimizer = by));
}

/* A metric with states of its own: the sum of x of the rows with an odd id, and how many there are, kept by parity. */
static est_status add_odd_mean(est_model *model, void *user)
{
    est_graph *graph  = est_model_graph(model);
    est_node   sums   = est_metric_state(graph, "odd/sums", EST_F64, EST_SHAPE(2, 3));
    est_node   counts = est_metric_state(graph, "odd/counts", EST_I64, EST_SHAPE(2)), id, x, odd, ones, mean;

    (void)user;
    id   = est_model_feature(model, "id");
    x    = est_cast(est_model_feature(model, "x"), EST_F64);
    odd  = est_sub(id, est_mul(est_floor_div(id, est_scalar(graph, EST_I64, 2)), est_scalar(graph, EST_I64, 2)));
    ones = est_ones_like(id);
    mean = est_div(est_sum(est_gather(est_read_variable(sums), est_scalar(graph, EST_I32, 1), 0)),
                   est_cast(est_gather(est_read_variable(counts), est_scalar(graph, EST_I32, 1), 0), EST_F64));
    est_model_metric(model, "odd_mean",
                     est_metric_custom(EST_NODES(sums, counts),
                                       EST_NODES(est_scatter_add(sums, odd, x), est_scatter_add(counts, odd, ones)),
                                       mean));
    return est_model_status(model);
}

/* Trains in `dir`, alone or as the environment says, and evaluates; with metrics it only evaluates. */
static est_status run(const char *dir, const job *given, bool alone, est_metrics **metrics)
{
    job            j         = *given;
    est_estimator *estimator = NULL;
    est_strategy  *strategy  = NULL;
    est_status     status    = EST_OK;

    EST_TRY(est_binary_head(EST_HEAD(.label = "y", .loss_reduction = j.variant->sum ? EST_LOSS_SUM : EST_LOSS_DEFAULT),
                            &j.head));
    if (!alone) {
        status = est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.replicas = (int)j.replicas), &strategy);
    }
    if (status == EST_OK) {
        status = est_estimator_create(
            model_fn,
            EST_ESTIMATOR(.model_dir = dir, .params = &j, .params_size = sizeof j,
                          .config = EST_RUN_CONFIG(.seed = 5, .cluster_json = alone ? "{}" : NULL,
                                                   .train_distribute = strategy, .eval_distribute = strategy,
                                                   .session_creation_timeout_secs = 60)),
            &estimator);
    }
    if (status == EST_OK) status = est_estimator_add_metrics(estimator, add_odd_mean, NULL);
    if (status == EST_OK && metrics != NULL) {
        status = est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input, .input_user = &j), metrics);
    } else if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator, EST_TRAIN_SPEC(.input_fn = input, .input_user = &j, .max_steps = STEPS),
            EST_EVAL_SPEC(.input_fn = input, .input_user = &j, .steps = EST_FOREVER, .start_delay_secs = EST_OFF),
            NULL);
    }
    est_estimator_free(estimator);
    est_strategy_free(strategy);
    est_head_free(j.head);
    return status;
}

/* argv: the model directory, the number of the variant, the batch, the replicas. */
static int task(int argc, char **argv)
{
    job        j = { .replicas = 1 };
    est_status status;

    assert_int_equal(argc, 4);
    j.variant  = &variants[strtol(argv[1], NULL, 10)];
    j.batch    = strtol(argv[2], NULL, 10);
    j.replicas = strtol(argv[3], NULL, 10);
    status     = run(argv[0], &j, false, NULL);
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    return status != EST_OK;
}

/* --- what is compared --------------------------------------------------------------------------------------------- */

static void compare_variables(const char *a, const char *b)
{
    est_checkpoint *first = NULL, *second = NULL;

    assert_int_equal(est_checkpoint_open(a, &first), EST_OK);
    assert_int_equal(est_checkpoint_open(b, &second), EST_OK);
    for (int i = 0; i < est_checkpoint_count(first); i++) {
        const char *name = est_checkpoint_at(first, i)->name;
        est_tensor *x = NULL, *y = NULL;

        if (strncmp(name, "estoc/", 6) == 0) continue;
        assert_int_equal(est_checkpoint_read(first, name, &x), EST_OK);
        assert_int_equal(est_checkpoint_read(second, name, &y), EST_OK);
        assert_int_equal(est_tensor_bytes(x), est_tensor_bytes(y));
        for (int64_t k = 0; k < est_tensor_count(x) && est_tensor_dtype(x) == EST_F32; k++) {
            double p = (double)((const float *)est_tensor_data(x))[k],
                   q = (double)((const float *)est_tensor_data(y))[k];

            if (!(fabs(p - q) <= TOLERANCE)) fail_msg("%s[%lld] is %.9g and %.9g", name, (long long)k, p, q);
        }
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_checkpoint_close(first);
    est_checkpoint_close(second);
}

/* What the chief said of its evaluation: exactly what one process finds for the same checkpoint. */
static void compare_evaluation(cluster *c, const job *j)
{
    static const char *const counted[] = { "accuracy", "auc",     "auc_precision_recall", "label/mean", "precision",
                                           "recall",   "odd_mean" };
    est_metrics             *metrics   = NULL;
    char                     text[64];

    assert_int_equal(run(c->model, j, true, &metrics), EST_OK);
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        snprintf(text, sizeof text, " %s = %.9g", counted[i], est_metrics_get(metrics, counted[i]));
        if (cluster_count_log(multi_worker_worker(c, 0), text) != 1) fail_msg("the workers do not say%s", text);
    }
    est_metrics_free(metrics);
}

static void check(const job *j, const char *reference, int workers, int replicas)
{
    cluster c = cluster_make(0, workers, 0, 0);
    char    number[16], batch[16], each[16];

    snprintf(number, sizeof number, "%d", (int)(j->variant - variants));
    snprintf(batch, sizeof batch, "%d", MULTI_WORKER / workers / replicas);
    snprintf(each, sizeof each, "%d", replicas);
    CLUSTER_SET(&c, number, batch, each);
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    compare_variables(reference, c.model);
    compare_evaluation(&c, j);
    multi_worker_end(&c, STEPS);
}

static void test_same(void **state)
{
    job     j = { .variant = *state, .batch = MULTI_WORKER, .replicas = 1 };
    cluster c = cluster_make(0, 1, 0, 0); /* for its directory */

    assert_int_equal(run(c.model, &j, true, NULL), EST_OK);
    for (int n = 2; n <= 4; n++) check(&j, c.model, n, 1);
    check(&j, c.model, 2, 2);
    cluster_free(&c);
}

#define N_VARIANTS (sizeof variants / sizeof variants[0])

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, task);
    for (size_t i = 0; i < N_VARIANTS; i++) est_test_row(variants[i].name, test_same, &variants[i]);
    return est_test_run(NULL, NULL);
}
