/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a small convolutional network on Fashion-MNIST through train_and_evaluate and exports it.
 *
 *   fashion_mnist_cnn [--epochs N] [--steps N] [--model-dir DIR] [--strategy NAME] [--quiet] [data-directory]
 *
 * Started again with the same --model-dir, it goes on where it stopped, also after a kill or Ctrl-C. It trains on a
 * cluster, too: `estoc launch --ps 1 --workers 1 --evaluator -- fashion_mnist_cnn --model-dir DIR`; and, step by step,
 * with several workers that have all variables each: `estoc launch --no-chief --workers 2 -- fashion_mnist_cnn
 * --model-dir DIR --strategy multi_worker_mirrored`. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_DIR      "/usr/share/datasets/fashion-mnist" /* of Debian's package dataset-fashion-mnist */
#define BUFFER_SIZE   10000
#define BATCH_SIZE    64
#define LEARNING_RATE 3e-3
#define EPOCH         (60000 / BATCH_SIZE) /* steps */

/* What model_fn and input_fn are told. */
typedef struct settings {
    const char *data_dir;
    int64_t     max_steps;
} settings;

/* The images and classes of a mode in batches. */
static est_status input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    const settings *s      = ctx->params;
    const char     *which  = ctx->mode == EST_TRAIN ? "train" : "t10k";
    est_tensor     *images = NULL, *labels = NULL; /* uint8 [n, 28, 28] and [n] */
    est_dataset    *d;
    est_status      status;
    char            path[512];

    (void)user;
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", s->data_dir, which);
    status = est_idx_read(path, &images);
    if (status == EST_OK) {
        snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", s->data_dir, which);
        status = est_idx_read(path, &labels);
    }
    if (status == EST_OK) {
        d = est_dataset_slices(EST_NAMED_TENSORS({ "image", images }, { "label", labels }));
        d = est_dataset_shard(d, ctx->n_pipelines, ctx->pipeline);
        if (ctx->mode == EST_TRAIN) {
            d = est_dataset_shuffle(d, BUFFER_SIZE, ctx->seed);
            d = est_dataset_repeat(d, EST_FOREVER);
        }
        d      = est_dataset_batch(d, BATCH_SIZE, NULL);
        d      = est_dataset_prefetch(d, 2);
        status = est_dataset_finish(d, out);
    }
    est_tensor_free(images); /* the dataset shares them */
    est_tensor_free(labels);
    return status;
}

static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    const settings *s = params;

    est_node image = est_cast(est_model_feature(m, "image"), EST_F32);
    est_node x     = est_expand_dims(est_scale(image, 1.0 / 255), -1);
    x              = est_conv2d_layer(x, 32, 3, EST_CONV2D(.activation = est_relu));
    x              = est_max_pool2d(x, 2, NULL);
    x              = est_flatten(x);
    x              = est_dense(x, 64, EST_DENSE(.activation = est_relu));

    est_node logits = est_dense(x, 10, EST_DENSE(.name = "logits"));
    est_node class  = est_argmax(logits, -1);
    est_model_predict(m, "class", class);
    est_model_predict(m, "probabilities", est_softmax(logits, -1));
    if (mode == EST_PREDICT) return est_model_status(m); /* there are no labels */

    est_node label = est_cast(est_model_label(m, "label"), EST_I64);
    est_node loss  = est_mean(est_sparse_softmax_xent(logits, label));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_accuracy(label, class));
    if (mode == EST_TRAIN) {
        est_schedule rate = est_cosine_decay(LEARNING_RATE, s->max_steps, 0);
        est_model_minimize(m, est_with_schedule(est_adam(0, NULL), rate), loss);
    }
    return est_model_status(m);
}

/* Whether nobody evaluated because there was nothing left to train. In a cluster that is the evaluator's business. */
static bool was_trained(const est_estimator *classifier, const est_metrics *metrics)
{
    return metrics == NULL && est_cluster_jobs(est_estimator_task(classifier)->cluster) == 0;
}

/* Workers that evaluate together all have the metrics; one tells them. */
static bool tells_metrics(const est_task *task)
{
    return task->is_chief || strcmp(task->type, "worker") != 0;
}

/* Trains, evaluates after every epoch and exports at the end. */
static est_status run(est_estimator *classifier, const settings *s)
{
    const est_component served   = { .name = "image", .dtype = EST_U8, .shape = EST_SHAPE(28, 28) };
    est_metrics        *metrics  = NULL;
    est_exporter       *exporter = est_final_exporter(
              "final", EST_EXPORTER_OPTIONS(.saved_model = EST_EXPORT(.input = { .raw = { &served, 1 } })));
    est_status status;

    status = est_train_and_evaluate(classifier, EST_TRAIN_SPEC(.input_fn = input_fn, .max_steps = s->max_steps),
        EST_EVAL_SPEC(.input_fn = input_fn, .steps = EST_FOREVER, .start_delay_secs = EST_OFF, .throttle_secs = EST_OFF,
            .exporters = EST_EXPORTERS(exporter)),
        &metrics);
    if (status == EST_OK && was_trained(classifier, metrics)) {
        status = est_evaluate(classifier, EST_EVALUATE_OPTIONS(.input_fn = input_fn), &metrics);
    }
    if (status == EST_OK && metrics != NULL && tells_metrics(est_estimator_task(classifier))) {
        printf("test accuracy %.4f after %" PRId64 " steps\n", est_metrics_get(metrics, "accuracy"),
            est_metrics_global_step(metrics));
        printf("curves:         tensorboard --logdir %s\n", est_estimator_model_dir(classifier));
        printf("exported model: %s/export/final/\n", est_estimator_model_dir(classifier));
    }
    est_metrics_free(metrics);
    est_exporter_free(exporter);
    return status;
}

/* How the gradients of several replicas are reduced; NULL: there is one, or parameter servers if TF_CONFIG has some. */
static est_status make_strategy(const char *name, est_strategy **out)
{
    if (strcmp(name, "") == 0) return EST_OK;
    if (strcmp(name, "mirrored") == 0) return est_mirrored_strategy(EST_MIRRORED(.replicas = 2), out);
    return est_multi_worker_mirrored_strategy(NULL, out);
}

int main(int argc, char **argv)
{
    settings       s          = { .data_dir = DATA_DIR, .max_steps = 5 * EPOCH };
    const char    *model_dir  = NULL; /* a new temporary directory */
    const char    *name       = "";
    est_strategy  *strategy   = NULL;
    est_estimator *classifier = NULL;
    est_status     status;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--epochs") == 0) {
            s.max_steps = strtol(argv[++i], NULL, 10) * EPOCH;
        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            s.max_steps = strtol(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--strategy") == 0) {
            name = argv[++i];
            if (strcmp(name, "mirrored") != 0 && strcmp(name, "multi_worker_mirrored") != 0) s.max_steps = 0;
        } else if (strcmp(argv[i], "--quiet") == 0) {
            est_log_set_level(EST_LOG_WARN); /* no progress, no news */
        } else if (argv[i][0] != '-' && i + 1 == argc) {
            s.data_dir = argv[i];
        } else {
            s.max_steps = 0;
        }
    }
    if (s.max_steps < 1) {
        fprintf(stderr, "usage: fashion_mnist_cnn [--epochs N | --steps N] [--model-dir DIR] [--quiet]\n"
                        "           [--strategy mirrored | multi_worker_mirrored] [data-directory]\n");
        return 2;
    }
    status = make_strategy(name, &strategy);
    if (status == EST_OK) {
        status = est_estimator_create(model_fn,
            EST_ESTIMATOR(.params = &s, .params_size = sizeof s,
                .config = EST_RUN_CONFIG(.model_dir = model_dir, .seed = 1, .save_checkpoints_steps = EPOCH,
                    .max_worker_delay_secs = EST_OFF, .train_distribute = strategy, .eval_distribute = strategy)),
            &classifier);
    }
    if (status == EST_OK) status = run(classifier, &s);
    if (status != EST_OK) fprintf(stderr, "fashion_mnist_cnn: %s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(classifier);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
