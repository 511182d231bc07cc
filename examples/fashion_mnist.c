/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a small convolutional network on Fashion-MNIST and prints progress, speed and test accuracy.
 *
 *   fashion_mnist [epochs [data-directory]]
 *
 * The network: 28x28x1 -> 32 filters 3x3, relu -> 2x2 max pooling -> dense 64, relu -> dense 10, trained by plain SGD.
 * It shows the layers of the library that everything else stands on: a dataset yields batches, a graph is built once, a
 * session runs it. */
#include <estoc/dataset.h>
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DATA_DIR "/usr/share/datasets/fashion-mnist"
#define BATCH    64

/* Images and their classes as bytes, as the files have them. */
typedef struct images {
    est_tensor *pixels; /* [n, 28, 28] */
    est_tensor *labels; /* [n] */
    int64_t     n;
} images;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static est_status load(const char *dir, const char *which, images *out)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", dir, which);
    EST_TRY(est_idx_read(path, &out->pixels));
    snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte.gz", dir, which);
    EST_TRY(est_idx_read(path, &out->labels));
    out->n = est_tensor_count(out->labels);
    return EST_OK;
}

static void unload(images *data)
{
    est_tensor_free(data->pixels);
    est_tensor_free(data->labels);
}

/* Batches of the images: in ever new orders without end, or once as they stand. */
static est_status open_batches(const images *data, int64_t batch, bool shuffled, est_iterator **out)
{
    est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "image", data->pixels }, { "label", data->labels }));
    est_status   status;

    if (shuffled) {
        d = est_dataset_shuffle(d, data->n, 1);
        d = est_dataset_repeat(d, EST_FOREVER);
    }
    d = est_dataset_batch(d, batch, NULL);
    d = est_dataset_prefetch(d, 2);
    EST_TRY(est_dataset_finish(d, &d));
    status = est_iterator_create(d, out);
    est_dataset_free(d); /* the iterator keeps it */
    return status;
}

/* Runs a step on the next batch; EST_OUT_OF_RANGE when there is none. */
static est_status run_step(est_step *step, est_iterator *batches)
{
    est_field  batch[2] = { 0 };
    est_status status   = est_iterator_next(batches, batch);

    if (status == EST_OK) status = est_step_run(step, (const est_tensor *[]){ batch[0].values, batch[1].values });
    est_element_clear(batch, 2);
    return status;
}

/* What the loops below need of the graph. */
typedef struct model {
    est_node image, label; /* fed */
    est_node loss, train;  /* of one batch */
    est_node right;        /* how many of the batch are classified rightly */
} model;

static model build_model(est_graph *g)
{
    model    m;
    est_node x, label, logits;

    m.image = est_placeholder(g, "image", EST_U8, EST_SHAPE(-1, 28, 28));
    m.label = est_placeholder(g, "label", EST_U8, EST_SHAPE(-1));

    label  = est_cast(m.label, EST_I32);
    x      = est_expand_dims(est_scale(est_cast(m.image, EST_F32), 1.0 / 255), -1);
    x      = est_conv2d_layer(x, 32, 3, EST_CONV2D(.activation = est_relu));
    x      = est_max_pool2d(x, 2, NULL);
    x      = est_dense(est_flatten(x), 64, EST_DENSE(.activation = est_relu));
    logits = est_dense(x, 10, EST_DENSE(.name = "logits"));

    m.loss  = est_mean(est_sparse_softmax_xent(logits, label));
    m.train = est_minimize(est_sgd(0.1), m.loss, NULL);
    m.right = est_sum(est_cast(est_equal(est_argmax(logits, -1), est_cast(label, EST_I64)), EST_F32));
    return m;
}

static est_status train_epoch(est_step *step, est_iterator *batches, int64_t steps)
{
    double start = now(), loss = 0;

    for (int64_t s = 0; s < steps; s++) {
        EST_TRY(run_step(step, batches));
        loss += est_step_scalar(step, 0);
        if ((s + 1) % 200 == 0 || s + 1 == steps) {
            printf("%s  step %4" PRId64 "/%" PRId64 "  loss %.4f  %.0f steps/s%s", isatty(1) ? "\r" : "", s + 1, steps,
                loss / (double)(s + 1), (double)(s + 1) / (now() - start), isatty(1) ? "" : "\n");
            fflush(stdout);
        }
    }
    return EST_OK;
}

static est_status evaluate(est_step *step, const images *data, double *accuracy)
{
    est_iterator *batches = NULL;
    double        right   = 0;
    est_status    status  = open_batches(data, 1000, false, &batches);

    while (status == EST_OK) {
        status = run_step(step, batches);
        if (status == EST_OK) right += est_step_scalar(step, 0);
    }
    est_iterator_free(batches);
    if (status != EST_OUT_OF_RANGE) return status; /* the end is not an error */
    *accuracy = right / (double)data->n;
    return EST_OK;
}

static est_status run(est_graph *g, const images *train, const images *test, int epochs)
{
    est_session  *session = NULL;
    est_iterator *batches = NULL;
    est_step     *train_step, *test_step;
    double        accuracy = 0;
    model         m        = build_model(g);
    est_status    status   = est_session_create(g, NULL, &session);

    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = open_batches(train, BATCH, true, &batches);
    if (status == EST_OK) {
        status = est_session_prepare(
            session, EST_NODES(m.image, m.label), EST_NODES(m.loss), EST_NODES(m.train), &train_step);
    }
    if (status == EST_OK) {
        status = est_session_prepare(
            session, EST_NODES(m.image, m.label), EST_NODES(m.right), (est_nodes){ 0 }, &test_step);
    }
    for (int e = 0; e < epochs && status == EST_OK; e++) {
        printf("epoch %d/%d\n", e + 1, epochs);
        status = train_epoch(train_step, batches, train->n / BATCH);
        if (status == EST_OK) status = evaluate(test_step, test, &accuracy);
        if (status == EST_OK) printf("%s  test accuracy %.4f\n", isatty(1) ? "\n" : "", accuracy);
    }
    est_iterator_free(batches);
    est_session_free(session);
    return status;
}

int main(int argc, char **argv)
{
    int         epochs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;
    const char *dir    = argc > 2 ? argv[2] : DATA_DIR;
    images      train = { 0 }, test = { 0 };
    est_graph  *g      = NULL;
    est_status  status = load(dir, "train", &train);

    if (status == EST_OK) status = load(dir, "t10k", &test);
    if (status == EST_NOT_FOUND) fprintf(stderr, "Debian's package dataset-fashion-mnist has the files.\n");
    if (status == EST_OK) status = est_graph_create(1, &g);
    if (status == EST_OK) {
        printf("%s: %" PRId64 " images to train on, %" PRId64
               " to test; conv 32 3x3, max-pool, dense 64, dense 10; SGD\n",
            dir, train.n, test.n);
        status = run(g, &train, &test, epochs);
    }
    if (status != EST_OK) fprintf(stderr, "fashion_mnist: %s: %s\n", est_status_name(status), est_error_message());
    est_graph_free(g);
    unload(&train);
    unload(&test);
    return status == EST_OK ? 0 : 1;
}
