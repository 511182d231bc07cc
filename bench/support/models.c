/* SPDX-License-Identifier: Apache-2.0 */
#include "support/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/turns.h"

#define N_CAT   BENCH_IDS
#define N_NUM   13
#define BUCKETS 100000
#define DIM     16
#define SETS    8 /* different batches of bench_model_input, used in turn */

static est_tensor *new_tensor(est_dtype dtype, est_shape shape)
{
    est_tensor *t = NULL;

    bench_check(est_tensor_create(dtype, shape, &t));
    return t;
}

static est_tensor *random_f32(est_shape shape, uint64_t key)
{
    est_tensor *t = new_tensor(EST_F32, shape);

    est_random_fill_normal_f32(&(est_random){ key, 0, 0 }, 0, est_tensor_count(t), est_tensor_mutable_data(t));
    return t;
}

static est_tensor *random_labels(int64_t n, int32_t classes, uint64_t key)
{
    est_tensor *t = new_tensor(EST_I32, EST_SHAPE(n));

    est_random_fill_int_i32(&(est_random){ key, 1, 0 }, 0, n, 0, classes, est_tensor_mutable_data(t));
    return t;
}

static int64_t scaled(int64_t units, double width)
{
    return (int64_t)((double)units * width + 0.5);
}

/* Operations of a dense layer for a batch: forward, the kernel's gradient, and the input's unless it is the first. */
static double dense_flops(int64_t batch, int64_t in, int64_t out, bool first)
{
    return (first ? 4.0 : 6.0) * (double)batch * (double)in * (double)out;
}

/* Input i of the model: a placeholder, unless the caller has brought one along. */
static est_node feed(bench_model *m, int i, const char *name, est_dtype dtype, est_shape shape)
{
    if (m->feed[i].graph == NULL) m->feed[i] = est_placeholder(m->graph, name, dtype, shape);
    return m->feed[i];
}

static void fill_images(bench_model *m, int set, est_tensor **feeds)
{
    const est_shape *shape = est_node_shape(m->feed[0]);
    est_shape        x     = *shape;

    x.dim[0] = m->batch;
    feeds[0] = random_f32(x, (uint64_t)set + 1);
    feeds[1] = random_labels(m->batch, 10, (uint64_t)set + 1);
}

static void build_cnn(bench_model *m, double width)
{
    est_node image = feed(m, 0, "image", EST_F32, EST_SHAPE(-1, 28, 28, 1));
    est_node label = feed(m, 1, "label", EST_I32, EST_SHAPE(-1));
    est_node x, logits;
    int64_t  units = scaled(64, width), filters = scaled(32, width), flat = 13 * 13 * filters;

    m->n_feeds = 2;
    m->fill    = fill_images;
    x          = est_conv2d_layer(image, filters, 3, EST_CONV2D(.activation = est_relu));
    x          = est_max_pool2d(x, 2, NULL);
    x          = est_dense(est_flatten(x), units, EST_DENSE(.activation = est_relu));
    logits     = est_dense(x, 10, NULL);
    m->loss    = est_mean(est_sparse_softmax_xent(logits, label));
    m->train   = est_minimize(est_sgd(0.01), m->loss, NULL);
    m->flops   = 4.0 * (double)m->batch * 26 * 26 * (double)filters * 9 + dense_flops(m->batch, flat, units, false) +
               dense_flops(m->batch, units, 10, false);
    m->bytes = 4.0 * ((double)m->batch * 28 * 28 + 2.0 * (double)(flat * units + units * 10));
}

static void build_mlp(bench_model *m, double width)
{
    int64_t  widths[] = { 784, scaled(1024, width), scaled(512, width), scaled(256, width), 10 };
    est_node x        = feed(m, 0, "image", EST_F32, EST_SHAPE(-1, 784));
    est_node label    = feed(m, 1, "label", EST_I32, EST_SHAPE(-1));

    m->n_feeds = 2;
    m->fill    = fill_images;
    m->bytes   = 4.0 * (double)m->batch * 784;
    for (int i = 0; i < 4; i++) {
        x = est_dense(x, widths[i + 1], EST_DENSE(.activation = i < 3 ? est_relu : NULL));
        m->flops += dense_flops(m->batch, widths[i], widths[i + 1], i == 0);
        m->bytes += 4.0 * 4.0 * (double)(widths[i] * widths[i + 1]); /* weight and accumulator, read and written */
    }
    m->loss  = est_mean(est_sparse_softmax_xent(x, label));
    m->train = est_minimize(est_adagrad(0.01, NULL), m->loss, NULL);
}

/* Ids with a long tail, as hashed click logs have: u^3 puts half the draws in an eighth of the table. Or uniform, as
 * peers on GPUs have them. */
static void fill_clicks(bench_model *m, int set, est_tensor **feeds)
{
    float *u = malloc(sizeof *u * (size_t)m->batch);

    if (u == NULL) abort();
    for (int f = 0; f < N_CAT; f++) {
        int64_t *ids;
        feeds[f] = new_tensor(EST_I64, EST_SHAPE(m->batch));
        ids      = est_tensor_mutable_data(feeds[f]);
        est_random_fill_uniform_f32(&(est_random){ (uint64_t)set + 1, (uint64_t)f + 2, 0 }, 0, m->batch, u);
        for (int64_t i = 0; i < m->batch; i++) {
            ids[i] = (int64_t)((m->uniform ? u[i] : u[i] * u[i] * u[i]) * BUCKETS);
        }
    }
    free(u);
    feeds[N_CAT]     = random_f32(EST_SHAPE(m->batch, N_NUM), (uint64_t)set + 1);
    feeds[N_CAT + 1] = new_tensor(EST_F32, EST_SHAPE(m->batch, 1));
    for (int64_t i = 0; i < m->batch; i++)
        ((float *)est_tensor_mutable_data(feeds[N_CAT + 1]))[i] = (float)((i + set) % 2);
}

static const int64_t deep_units[] = { 256, 128, 64 };

est_node bench_wide_deep(const est_node *ids, est_node numeric, double width, int *n_wide)
{
    est_node deep[N_CAT + 1], wide[N_CAT + 1], x;
    char     name[32];

    for (int f = 0; f < N_CAT; f++) {
        (void)snprintf(name, sizeof name, "linear_%d", f);
        wide[f] = est_embedding(ids[f], BUCKETS, 1, EST_EMBEDDING(.name = name, .initializer = est_init_zeros()));
    }
    wide[N_CAT] = est_dense(numeric, 1, EST_DENSE(.name = "linear_numeric"));
    if (n_wide != NULL) *n_wide = est_trainable_variables(numeric.graph).n;
    for (int f = 0; f < N_CAT; f++) deep[f] = est_embedding(ids[f], BUCKETS, DIM, NULL);
    deep[N_CAT] = numeric;
    x           = est_concat((est_nodes){ deep, N_CAT + 1 }, 1);
    for (int i = 0; i < 4; i++) {
        int64_t units = i < 3 ? scaled(deep_units[i], width) : 1;

        x = est_dense(x, units, EST_DENSE(.activation = i < 3 ? est_relu : NULL));
    }
    return est_add(x, est_add_n((est_nodes){ wide, N_CAT + 1 }));
}

static void build_wide_deep(bench_model *m, double width)
{
    int64_t  from = N_CAT * DIM + N_NUM;
    est_node vars[128], num, click;
    int      n_wide = 0, n_vars;
    char     name[32];

    m->fill    = fill_clicks;
    m->n_feeds = N_CAT + 2;
    for (int f = 0; f < N_CAT; f++) {
        (void)snprintf(name, sizeof name, "id_%d", f);
        (void)feed(m, f, name, EST_I64, EST_SHAPE(-1));
    }
    num      = feed(m, N_CAT, "numeric", EST_F32, EST_SHAPE(-1, N_NUM));
    click    = feed(m, N_CAT + 1, "click", EST_F32, EST_SHAPE(-1, 1));
    m->bytes = 4.0 * (double)m->batch * N_CAT * (2 + 4 * DIM + 6); /* ids; rows with accumulator; rows with two slots */
    for (int i = 0; i < 4; i++) {
        int64_t to = i < 3 ? scaled(deep_units[i], width) : 1;

        m->flops += dense_flops(m->batch, from, to, false);
        m->bytes += 4.0 * 4.0 * (double)(from * to);
        from = to;
    }
    m->loss = est_mean(est_sigmoid_xent(bench_wide_deep(m->feed, num, width, &n_wide), click));
    n_vars  = est_trainable_variables(m->graph).n;
    memcpy(vars, est_trainable_variables(m->graph).data, sizeof *vars * (size_t)n_vars);
    m->train = est_group(m->graph,
                         EST_NODES(est_minimize(est_ftrl(0.01, NULL), m->loss,
                                                EST_MINIMIZE(.variables = { vars, n_wide }, .no_global_step = true)),
                                   est_minimize(est_adagrad(0.01, NULL), m->loss,
                                                EST_MINIMIZE(.variables = { vars + n_wide, n_vars - n_wide }))));
}

static const struct {
    const char *name;
    int64_t     batch;
    void (*build)(bench_model *m, double width);
} models[] = { { "cnn", 64, build_cnn }, { "mlp", 128, build_mlp }, { "wide_deep", 512, build_wide_deep } };

static void build(const char *name, bench_model *m, double width)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(name, models[i].name) != 0) continue;
        m->name = models[i].name;
        if (m->batch <= 0) m->batch = models[i].batch;
        models[i].build(m, width);
        return;
    }
    (void)fprintf(stderr, "bench: no model \"%s\"; there are cnn, mlp and wide_deep\n", name);
    exit(2);
}

static est_precision precision;

void bench_models_precision(est_precision of)
{
    precision = of;
}

bench_model bench_model_build(const char *name, int64_t batch, double width)
{
    bench_model m = { .batch = batch };

    bench_check(est_graph_create(1, &m.graph));
    (void)est_graph_precision(m.graph, precision);
    build(name, &m, width);
    return m;
}

bench_model bench_model_join(const char *name, const est_node *feeds, int n_feeds)
{
    bench_model m = { .graph = feeds[0].graph };

    memcpy(m.feed, feeds, sizeof *feeds * (size_t)n_feeds);
    build(name, &m, 1);
    return m;
}

est_status bench_model_estimate(est_model *model, const char *name)
{
    bench_model shape = bench_model_build(name, 0, 1), built; /* for the names */
    est_node    feeds[BENCH_FEEDS_MAX];

    for (int i = 0; i < shape.n_feeds; i++) feeds[i] = est_model_feature(model, est_node_name(shape.feed[i]));
    EST_TRY(est_model_status(model));
    built = bench_model_join(name, feeds, shape.n_feeds);
    est_graph_free(shape.graph);
    est_model_loss(model, built.loss);
    est_model_train_op(model, built.train);
    return est_model_status(model);
}

typedef struct batches {
    est_tensor *sets[SETS][BENCH_FEEDS_MAX];
    int         n_feeds;
    int64_t     next;
} batches;

static est_status next_batch(void *state, est_field *element)
{
    batches *b = state;

    for (int i = 0; i < b->n_feeds; i++) element[i].values = est_tensor_ref(b->sets[b->next % SETS][i]);
    b->next++;
    return EST_OK;
}

est_status bench_model_input(const char *name, est_dataset **out)
{
    static batches b     = { 0 };
    bench_model    shape = bench_model_build(name, 0, 1);
    est_component  components[BENCH_FEEDS_MAX];
    est_dataset   *d;

    b.n_feeds = shape.n_feeds;
    for (int s = 0; s < SETS; s++) shape.fill(&shape, s, b.sets[s]);
    for (int i = 0; i < b.n_feeds; i++) {
        components[i] = (est_component){ est_node_name(shape.feed[i]), est_tensor_dtype(b.sets[0][i]),
                                         *est_tensor_shape(b.sets[0][i]), false };
    }
    d = est_dataset_generator((est_components){ components, b.n_feeds }, EST_GENERATOR(.next = next_batch, .user = &b));
    est_graph_free(shape.graph);
    return est_dataset_finish(d, out);
}
