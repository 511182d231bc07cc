/* SPDX-License-Identifier: Apache-2.0
 *
 * An Estimator with parameter servers: a convolutional network on Fashion-MNIST, whose variables are at the ps tasks.
 * Chief and workers train it asynchronously, each with batches of its own. Above each part, the TensorFlow calls that it
 * stands for.
 *
 *   estoc launch --ps 2 --workers 2 -- fashion_mnist_ps [--steps N] --model-dir DIR [data-directory]
 *
 * Every task, also a ps, is a process of this one program; TF_CONFIG, which `estoc launch` sets, says which it is:
 *
 *   TF_CONFIG='{"cluster": {"chief": [...], "worker": [...], "ps": [...]}, "task": {"type": "ps", "index": 0}}' */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_DIR   "/usr/share/datasets/fashion-mnist" /* of Debian's package dataset-fashion-mnist */
#define BATCH_SIZE 64

/* --- data --------------------------------------------------------------------------------------------------------- */

/* keras.datasets.fashion_mnist.load_data(): uint8 images [n, 28, 28] and classes [n] */
static est_status load_data(const char *dir, const char *which, est_tensor **images, est_tensor **labels)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", dir, which);
    EST_TRY(est_idx_read(path, images));
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", dir, which);
    return est_idx_read(path, labels);
}

/* def input_fn(X, y, shuffle, batch_size):
 *     dataset = tf.data.Dataset.from_tensor_slices((X, y))
 *     if shuffle:
 *         dataset = dataset.shuffle(buffer_size=100000)
 *     return dataset.repeat().batch(batch_size)
 *
 * An evaluation reads its images once, so that its steps need no number. */
static est_status input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    bool        shuffle = ctx->mode == EST_TRAIN;
    est_tensor *x = NULL, *y = NULL;
    est_status  status = load_data(user, shuffle ? "train" : "t10k", &x, &y);

    if (status == EST_OK) {
        est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "image", x }, { "label", y }));
        if (shuffle) d = est_dataset_shuffle(d, 100000, ctx->seed); /* another order at every worker */
        if (shuffle) d = est_dataset_repeat(d, EST_FOREVER);
        d      = est_dataset_batch(d, BATCH_SIZE, NULL);
        d      = est_dataset_prefetch(d, 2);
        status = est_dataset_finish(d, out);
    }
    est_tensor_free(x); /* the dataset shares them */
    est_tensor_free(y);
    return status;
}

/* --- model -------------------------------------------------------------------------------------------------------- */

/* def model_fn(features, labels, mode):
 *     keras.layers.Conv2D, MaxPooling2D, Flatten and Dense; tf.estimator.EstimatorSpec of each mode
 *
 * train_images[..., None] / 255 is part of it, so that bytes are kept, shuffled and fed. */
static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    est_node image = est_cast(est_model_feature(m, "image"), EST_F32);
    est_node x     = est_expand_dims(est_scale(image, 1.0 / 255), -1); /* [batch, 28, 28, 1] */

    (void)params;
    x               = est_conv2d_layer(x, 16, 3, EST_CONV2D(.activation = est_relu));
    x               = est_max_pool2d(x, 2, NULL);
    x               = est_flatten(x);
    x               = est_dense(x, 32, EST_DENSE(.activation = est_relu));
    est_node logits = est_dense(x, 10, EST_DENSE(.name = "logits"));
    est_node class  = est_argmax(logits, -1);

    est_model_predict(m, "class", class);
    if (mode == EST_PREDICT) return est_model_status(m); /* there are no labels */

    est_node label = est_cast(est_model_label(m, "label"), EST_I64);
    est_node loss  = est_mean(est_sparse_softmax_xent(logits, label));
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_accuracy(label, class));
    if (mode == EST_TRAIN) est_model_minimize(m, est_adam(1e-3, NULL), loss);
    return est_model_status(m);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* tf.estimator.train_and_evaluate(estimator, TrainSpec(input_fn, max_steps), EvalSpec(input_fn)): a ps serves variables
 * until the end, chief and workers train; an evaluator, or else the chief at the end, evaluates */
static est_status run(est_estimator *classifier, char *data_dir, int64_t max_steps)
{
    est_metrics *metrics = NULL;
    est_status   status  = est_train_and_evaluate(classifier,
           EST_TRAIN_SPEC(.input_fn = input_fn, .input_user = data_dir, .max_steps = max_steps),
           EST_EVAL_SPEC(.input_fn = input_fn, .input_user = data_dir), &metrics);

    if (status == EST_OK && metrics != NULL) {
        printf("%s: accuracy %.4f after %" PRId64 " steps\n", est_estimator_task(classifier)->type,
            est_metrics_get(metrics, "accuracy"), est_metrics_global_step(metrics));
    }
    est_metrics_free(metrics);
    return status;
}

int main(int argc, char **argv)
{
    static char    default_dir[] = DATA_DIR;
    char          *data_dir      = default_dir;
    const char    *model_dir     = NULL;
    int64_t        max_steps     = 2000;
    est_strategy  *strategy      = NULL;
    est_estimator *classifier    = NULL;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            max_steps = strtol(argv[++i], NULL, 10);
        } else if (argv[i][0] != '-' && i + 1 == argc) {
            data_dir = argv[i];
        } else {
            max_steps = 0;
        }
    }
    if (max_steps < 1) {
        fprintf(stderr, "usage: fashion_mnist_ps [--steps N] [--model-dir DIR] [data-directory]\n");
        return 2;
    }

    /* strategy = tf.compat.v1.distribute.experimental.ParameterServerStrategy(): the cluster is in TF_CONFIG
     * config = tf.estimator.RunConfig(model_dir=..., train_distribute=strategy) */
    est_status status = est_parameter_server_strategy(NULL, &strategy);
    if (status == EST_OK) {
        status = est_estimator_create(model_fn,
            EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = model_dir, .seed = 1, .max_worker_delay_secs = EST_OFF,
                              .train_distribute = strategy)),
            &classifier);
    }
    if (status == EST_OK) status = run(classifier, data_dir, max_steps);
    if (status != EST_OK) fprintf(stderr, "fashion_mnist_ps: %s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(classifier);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
