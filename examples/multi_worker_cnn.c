/* SPDX-License-Identifier: Apache-2.0
 *
 * An Estimator whose workers train one model step by step: a small convolutional network under the strategy
 * multi_worker_mirrored. Above each part, the TensorFlow calls that it stands for.
 *
 *   multi_worker_cnn [--model-dir DIR] [data-directory]
 *   estoc launch --no-chief --workers 2 -- multi_worker_cnn --model-dir DIR
 *
 * Every worker is a process with TF_CONFIG in its environment, which `estoc launch` sets:
 *
 *   TF_CONFIG='{"cluster": {"worker": ["localhost:12345", "localhost:23456"]}, "task": {"type": "worker", "index": 0}}'
 *
 * Without it there is one worker. The images are those of Fashion-MNIST, once. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DATA_DIR      "/usr/share/datasets/fashion-mnist" /* of Debian's package dataset-fashion-mnist */
#define BUFFER_SIZE   10000
#define BATCH_SIZE    64 /* of each worker */
#define LEARNING_RATE 0.2

/* --- input function ----------------------------------------------------------------------------------------------- */

/* tfds.load(name='mnist', as_supervised=True): uint8 images [n, 28, 28] and classes [n] */
static est_status load(const char *dir, est_mode mode, est_tensor **images, est_tensor **labels)
{
    const char *which = mode == EST_TRAIN ? "train" : "t10k";
    char        path[512];

    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", dir, which);
    EST_TRY(est_idx_read(path, images));
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", dir, which);
    return est_idx_read(path, labels);
}

/* def scale(image, label):
 *     return tf.cast(image, tf.float32) / 255, label */
static est_status map_scale(est_dataset **dataset)
{
    est_graph *graph = NULL;

    EST_TRY(est_graph_create(0, &graph));
    est_node image  = est_placeholder(graph, "image", EST_U8, EST_SHAPE(28, 28));
    est_node label  = est_placeholder(graph, "label", EST_U8, EST_SHAPE_SCALAR);
    est_node scaled = est_expand_dims(est_scale(est_cast(image, EST_F32), 1.0 / 255), -1); /* [28, 28, 1] */
    *dataset        = est_dataset_map_graph(*dataset, EST_NAMED_NODES({ "image", image }, { "label", label }),
               EST_NAMED_NODES({ "image", scaled }, { "label", est_cast(label, EST_I64) }), NULL);
    est_graph_free(graph);
    return EST_OK;
}

/* def input_fn(mode, input_context=None):
 *     dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
 *     return dataset.map(scale).shuffle(BUFFER_SIZE).batch(BATCH_SIZE) */
static est_status input_fn(const est_input_context *ctx, void *user, est_dataset **out)
{
    est_tensor  *images = NULL, *labels = NULL;
    est_dataset *d;
    est_status   status = load(user, ctx->mode, &images, &labels);

    if (status == EST_OK) {
        d      = est_dataset_slices(EST_NAMED_TENSORS({ "image", images }, { "label", labels }));
        d      = est_dataset_shard(d, ctx->n_pipelines, ctx->pipeline);
        d      = est_dataset_shuffle(d, BUFFER_SIZE, ctx->seed); /* before the map: bytes are smaller than floats */
        status = map_scale(&d);
        d      = est_dataset_batch(d, BATCH_SIZE, NULL);
        d      = est_dataset_prefetch(d, 2);
        if (status == EST_OK) status = est_dataset_finish(d, out);
    }
    est_tensor_free(images); /* the dataset shares them */
    est_tensor_free(labels);
    return status;
}

/* --- model -------------------------------------------------------------------------------------------------------- */

/* tf.keras.Sequential of Conv2D(32, 3, relu), MaxPooling2D, Flatten, Dense(64, relu) and Dense(10): layers that model_fn
 * builds into the graph of each mode */
static est_status make_layers(est_network **out)
{
    return est_network_sequential(
        EST_LAYERS(est_layer_conv2d(32, 3, EST_CONV2D(.activation = est_relu)), est_layer_max_pool2d(2, NULL),
            est_layer_flatten(NULL), est_layer_dense(64, EST_DENSE(.activation = est_relu)), est_layer_dense(10, NULL)),
        EST_NETWORK(.inputs = EST_INPUTS({ .name = "image", .dtype = EST_F32, .shape = EST_SHAPE(28, 28, 1) })), out);
}

/* def model_fn(features, labels, mode):
 *     logits = model(features, training=False)
 *     SparseCategoricalCrossentropy(from_logits=True, reduction=NONE), its sum divided by BATCH_SIZE
 *     tf.estimator.EstimatorSpec of each mode, with GradientDescentOptimizer(LEARNING_RATE).minimize to train */
static est_status model_fn(est_model *m, est_mode mode, const void *params)
{
    est_network *model  = *(est_network *const *)params;
    est_node     logits = est_network_apply(model, est_model_features(m), false);

    est_model_predict(m, "logits", logits);
    if (mode == EST_PREDICT) return est_model_status(m); /* there are no labels */

    est_node label = est_model_label(m, "label");
    est_node loss  = est_scale(est_sum(est_sparse_softmax_xent(logits, label)), 1.0 / BATCH_SIZE);
    est_model_loss(m, loss);
    est_model_metric(m, "accuracy", est_accuracy(label, est_argmax(logits, -1)));
    if (mode == EST_TRAIN) est_model_minimize(m, est_sgd(LEARNING_RATE), loss);
    return est_model_status(m);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* tf.estimator.train_and_evaluate(
 *     classifier,
 *     train_spec=tf.estimator.TrainSpec(input_fn=input_fn),
 *     eval_spec=tf.estimator.EvalSpec(input_fn=input_fn)) */
static est_status run(est_estimator *classifier, char *data_dir)
{
    est_metrics *metrics = NULL;
    est_status status = est_train_and_evaluate(classifier, EST_TRAIN_SPEC(.input_fn = input_fn, .input_user = data_dir),
        EST_EVAL_SPEC(.input_fn = input_fn, .input_user = data_dir), &metrics);

    if (status == EST_OK && metrics != NULL) {
        printf("worker %d: loss %.4f, accuracy %.4f after %" PRId64 " steps\n", est_estimator_task(classifier)->index,
            est_metrics_get(metrics, "loss"), est_metrics_get(metrics, "accuracy"), est_metrics_global_step(metrics));
    }
    est_metrics_free(metrics);
    return status;
}

int main(int argc, char **argv)
{
    static char    default_dir[] = DATA_DIR;
    char          *data_dir      = default_dir;
    const char    *model_dir     = NULL; /* a new temporary directory */
    est_strategy  *strategy      = NULL;
    est_network   *model         = NULL;
    est_estimator *classifier    = NULL;

    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--model-dir") == 0) {
            model_dir = argv[++i];
        } else if (argv[i][0] != '-' && i + 1 == argc) {
            data_dir = argv[i];
        } else {
            fprintf(stderr, "usage: multi_worker_cnn [--model-dir DIR] [data-directory]\n");
            return 2;
        }
    }

    /* strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(): the cluster is in TF_CONFIG */
    est_status status = est_multi_worker_mirrored_strategy(NULL, &strategy);

    if (status == EST_OK) status = make_layers(&model);

    /* config = tf.estimator.RunConfig(train_distribute=strategy)
     * classifier = tf.estimator.Estimator(model_fn=model_fn, model_dir=..., config=config) */
    if (status == EST_OK) {
        status = est_estimator_create(model_fn,
            EST_ESTIMATOR(.params = &model, .params_size = sizeof model, .model_dir = model_dir,
                .config = EST_RUN_CONFIG(.seed = 1, .train_distribute = strategy)),
            &classifier);
    }
    if (status == EST_OK) status = run(classifier, data_dir);
    if (status != EST_OK) fprintf(stderr, "multi_worker_cnn: %s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(classifier);
    est_network_free(model);
    est_strategy_free(strategy);
    return est_exit_code(status);
}
