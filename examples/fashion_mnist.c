/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains a small convolutional network on Fashion-MNIST and prints progress, speed and test accuracy.
 *
 *   fashion_mnist [epochs [data-directory]]
 *
 * The network: 28x28x1 -> 32 filters 3x3, relu -> 2x2 max pooling -> dense 64, relu -> dense 10, trained by plain SGD.
 * It shows the layers of the library that everything else stands on: a graph is built once, a session runs it. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define DATA_DIR "/usr/share/datasets/fashion-mnist"
#define BATCH    64
#define PIXELS   (28 * 28)

/* Images as bytes and their classes, as the files have them. */
typedef struct images {
    unsigned char *pixels; /* [n, 28, 28] */
    unsigned char *labels; /* [n] */
    int64_t        n;
} images;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads one gzipped IDX file: a magic number, one count per axis (big-endian), then bytes. */
static unsigned char *read_idx(const char *dir, const char *name, int n_axes, int64_t *n)
{
    char           path[512];
    unsigned char  head[16];
    unsigned char *bytes = NULL;
    int64_t        size  = 1;
    gzFile         file;

    snprintf(path, sizeof path, "%s/%s-idx%d-ubyte.gz", dir, name, n_axes);
    file = gzopen(path, "rb");
    if (file == NULL || gzread(file, head, 4 + 4 * (unsigned)n_axes) != 4 + 4 * n_axes || head[3] != n_axes) {
        fprintf(stderr, "%s: no such IDX file (Debian package dataset-fashion-mnist has it)\n", path);
    } else {
        for (int i = 0; i < n_axes; i++) {
            const unsigned char *b = head + 4 + 4 * i;
            size *= (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
            if (i == 0) *n = size;
        }
        bytes = malloc((size_t)size);
        if (bytes != NULL && gzread(file, bytes, (unsigned)size) != size) {
            fprintf(stderr, "%s: cut short\n", path);
            free(bytes);
            bytes = NULL;
        }
    }
    if (file != NULL) gzclose(file);
    return bytes;
}

static int load(const char *dir, const char *which, images *out)
{
    char name[64];

    snprintf(name, sizeof name, "%s-images", which);
    out->pixels = read_idx(dir, name, 3, &out->n);
    snprintf(name, sizeof name, "%s-labels", which);
    out->labels = read_idx(dir, name, 1, &out->n);
    return out->pixels != NULL && out->labels != NULL;
}

/* Pixels of rows order[first ..] scaled to [0, 1], and their classes. order NULL: as they stand. */
static void fill_batch(const images *from, const int32_t *order, int64_t first, int64_t n, est_tensor *x, est_tensor *y)
{
    float   *pixels = est_tensor_data(x);
    int32_t *labels = est_tensor_data(y);

    for (int64_t i = 0; i < n; i++) {
        int64_t row = order != NULL ? order[first + i] : first + i;
        for (int p = 0; p < PIXELS; p++) pixels[i * PIXELS + p] = (float)from->pixels[row * PIXELS + p] / 255.0f;
        labels[i] = from->labels[row];
    }
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
    est_node x, logits;

    m.image = est_placeholder(g, "image", EST_F32, EST_SHAPE(-1, 28, 28, 1));
    m.label = est_placeholder(g, "label", EST_I32, EST_SHAPE(-1));

    x      = est_conv2d_layer(m.image, 32, 3, EST_CONV2D(.activation = est_relu));
    x      = est_max_pool2d(x, 2, NULL);
    x      = est_dense(est_flatten(x), 64, EST_DENSE(.activation = est_relu));
    logits = est_dense(x, 10, EST_DENSE(.name = "logits"));

    m.loss  = est_mean(est_sparse_softmax_xent(logits, m.label));
    m.train = est_minimize(est_sgd(0.1), m.loss, NULL);
    m.right = est_sum(est_cast(est_equal(est_argmax(logits, -1), est_cast(m.label, EST_I64)), EST_F32));
    return m;
}

static void shuffle(int32_t *order, int64_t n, uint64_t *state)
{
    for (int64_t i = n - 1; i > 0; i--) {
        *state    = *state * 6364136223846793005u + 1442695040888963407u;
        int64_t j = (int64_t)((*state >> 33) % (uint64_t)(i + 1));
        int32_t t = order[i];
        order[i]  = order[j];
        order[j]  = t;
    }
}

static est_status train_epoch(est_step *step, const images *data, const int32_t *order, est_tensor *x, est_tensor *y)
{
    double  start = now(), loss = 0;
    int64_t steps = data->n / BATCH;

    for (int64_t s = 0; s < steps; s++) {
        fill_batch(data, order, s * BATCH, BATCH, x, y);
        EST_TRY(est_step_run(step, (const est_tensor *[]){ x, y }));
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
    double right = 0;

    for (int64_t first = 0; first < data->n; first += 1000) {
        int64_t     n = data->n - first < 1000 ? data->n - first : 1000;
        est_tensor *x = NULL, *y = NULL;
        est_status  status = est_tensor_create(EST_F32, EST_SHAPE(n, 28, 28, 1), &x);
        if (status == EST_OK) status = est_tensor_create(EST_I32, EST_SHAPE(n), &y);
        if (status == EST_OK) {
            fill_batch(data, NULL, first, n, x, y);
            status = est_step_run(step, (const est_tensor *[]){ x, y });
        }
        if (status == EST_OK) right += est_step_scalar(step, 0);
        est_tensor_free(x);
        est_tensor_free(y);
        EST_TRY(status);
    }
    *accuracy = right / (double)data->n;
    return EST_OK;
}

static est_status run(est_graph *g, const images *train, const images *test, int32_t *order, int epochs)
{
    est_session *session = NULL;
    est_step    *train_step, *test_step;
    est_tensor  *x = NULL, *y = NULL;
    uint64_t     state    = 1;
    double       accuracy = 0;
    model        m        = build_model(g);
    est_status   status   = est_session_create(g, NULL, &session);

    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_tensor_create(EST_F32, EST_SHAPE(BATCH, 28, 28, 1), &x);
    if (status == EST_OK) status = est_tensor_create(EST_I32, EST_SHAPE(BATCH), &y);
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
        shuffle(order, train->n, &state);
        status = train_epoch(train_step, train, order, x, y);
        if (status == EST_OK) status = evaluate(test_step, test, &accuracy);
        if (status == EST_OK) printf("%s  test accuracy %.4f\n", isatty(1) ? "\n" : "", accuracy);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    est_session_free(session);
    return status;
}

int main(int argc, char **argv)
{
    int         epochs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;
    const char *dir    = argc > 2 ? argv[2] : DATA_DIR;
    images      train = { 0 }, test = { 0 };
    est_graph  *g      = NULL;
    int32_t    *order  = NULL;
    est_status  status = EST_NOT_FOUND;

    if (load(dir, "train", &train) && load(dir, "t10k", &test)) {
        printf("%s: %" PRId64 " images to train on, %" PRId64
               " to test; conv 32 3x3, max-pool, dense 64, dense 10; SGD\n",
            dir, train.n, test.n);
        order = malloc(sizeof *order * (size_t)train.n);
        for (int64_t i = 0; order != NULL && i < train.n; i++) order[i] = (int32_t)i;
        status = order != NULL ? est_graph_create(1, &g) : est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the order");
        if (status == EST_OK) status = run(g, &train, &test, order, epochs);
        if (status != EST_OK) fprintf(stderr, "fashion_mnist: %s: %s\n", est_status_name(status), est_error_message());
    }
    est_graph_free(g);
    free(order);
    free(train.pixels);
    free(train.labels);
    free(test.pixels);
    free(test.labels);
    return status == EST_OK ? 0 : 1;
}
