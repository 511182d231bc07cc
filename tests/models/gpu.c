/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole models on a GPU, against the CPU: what of their steps is left on the host, and that they learn the same. Runs
 * on the GPU kernels compiled for the CPU (cuda_gpu in ctest), or on a GPU; without a plug-in it is skipped. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/dir_test.h"
#include "support/log_test.h"
#include "support/nn_test.h"
#include "support/test.h"

/* The operations on the host, by their ops, each once with a blank behind it: of the lines from `first` on. */
static const char *host_ops(int first)
{
    static char found[4096];

    found[0] = '\0';
    for (int i = first; log_line(i)[0] != '\0'; i++) {
        char        op[64] = "";
        const char *at     = strstr(log_line(i), ": (");

        if (at == NULL || strstr(log_line(i), "device:CPU:0") == NULL || sscanf(at, ": (%62[^)])", op) != 1) continue;
        (void)snprintf(op + strlen(op), sizeof op - strlen(op), " ");
        if (strstr(found, op) == NULL) (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s", op);
    }
    return found;
}

/* --- networks ----------------------------------------------------------------------------------------------------- */

typedef struct small_net {
    est_graph   *graph;
    est_session *session;
    est_node     feed, loss;
    est_step    *step;
} small_net;

static est_node call(est_layer *layer, est_node x)
{
    est_node y = est_layer_call(layer, x, true);

    est_layer_free(layer);
    return y;
}

/* Separable and depthwise convolutions, padding, and normalisation of a layer. */
static est_node images(small_net *net)
{
    est_node x = net->feed = est_placeholder(net->graph, "x", EST_F32, EST_SHAPE(-1, 7, 6, 3));

    x = est_pad(x, EST_I64S(0, 0, 1, 1, 1, 1, 0, 0), 0);
    x = call(est_layer_separable_conv2d(8, 3, EST_SEPARABLE_CONV2D(.activation = est_relu)), x);
    x = call(est_layer_depthwise_conv2d(2, 3, EST_CONV2D(.padding = EST_SAME, .stride = 2)), x);
    x = call(est_layer_layer_norm(NULL), x);
    return call(est_layer_global_avg_pool2d(NULL), x);
}

/* Attention over embeddings. */
static est_node sentences(small_net *net)
{
    est_node   ids = net->feed = est_placeholder(net->graph, "ids", EST_I64, EST_SHAPE(-1, 9));
    est_node   x               = call(est_layer_embedding(23, 8, NULL), ids);
    est_layer *attention       = est_layer_multi_head_attention(2, 5, EST_MULTI_HEAD(.causal = true));
    est_node   heads           = est_layer_call_with(attention, EST_NODES(x, x), EST_CALL(.training = true));

    est_layer_free(attention);
    x         = call(est_layer_layer_norm(NULL), est_add(x, heads));
    attention = est_layer_attention(EST_ATTENTION(.use_scale = true));
    x         = est_layer_call_with(attention, EST_NODES(x, x), EST_CALL(.training = true));
    est_layer_free(attention);
    return x;
}

/* pinned: all of the graph is, and the session refuses what cannot run there. */
static small_net make_net(est_node (*layers)(small_net *), est_optimizer optimizer, const char *device, bool pinned)
{
    small_net net = { 0 };
    est_node  train;

    assert_ok(est_graph_create(5, &net.graph));
    if (pinned) est_graph_device(net.graph, device);
    net.loss = est_mean(est_square(est_dense(est_flatten(layers(&net)), 1, NULL)));
    train    = est_minimize(optimizer, net.loss, NULL);
    assert_ok(est_graph_status(net.graph));
    assert_ok(est_session_create(
        net.graph,
        EST_SESSION(.devices = EST_STRINGS(device), .no_soft_placement = pinned, .log_device_placement = true),
        &net.session));
    assert_ok(est_session_init(net.session));
    log_clear();
    assert_ok(est_session_prepare(net.session, EST_NODES(net.feed), EST_NODES(net.loss), EST_NODES(train), &net.step));
    return net;
}

static void free_net(small_net *net)
{
    est_session_free(net->session);
    est_graph_free(net->graph);
}

static est_tensor *make_batch(est_node feed, int64_t rows, int seed)
{
    est_shape   shape = *est_node_shape(feed);
    est_tensor *batch;

    shape.dim[0] = rows;
    assert_ok(est_tensor_create(est_node_dtype(feed), shape, &batch));
    for (int64_t i = 0; i < est_tensor_count(batch); i++) {
        if (est_node_dtype(feed) == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(batch))[i] = (i * i + seed) % 23;
        } else {
            ((float *)est_tensor_mutable_data(batch))[i] = (float)((i * 7 + seed * 5) % 17) / 17 - 0.5f;
        }
    }
    return batch;
}

/* Products of numbers of two bytes, and the last of few columns. */
static est_node mixed(small_net *net)
{
    est_node x = net->feed = est_placeholder(net->graph, "x", EST_F32, EST_SHAPE(-1, 37));

    (void)est_graph_precision(net->graph, EST_PRECISION_MIXED_BFLOAT16);
    x = est_dense(x, 40, EST_DENSE(.activation = est_relu));
    x = est_dense(x, 24, EST_DENSE(.activation = est_relu));
    return est_dense(x, 17, EST_DENSE(.activation = est_tanh));
}

/* A convolution that is fused with its pooling, and one that is not. */
static est_node mixed_images(small_net *net)
{
    est_node x = net->feed = est_placeholder(net->graph, "x", EST_F32, EST_SHAPE(-1, 9, 10, 1));

    (void)est_graph_precision(net->graph, EST_PRECISION_MIXED_BFLOAT16);
    x = call(est_layer_conv2d(8, 3, EST_CONV2D(.activation = est_relu)), x);
    x = call(est_layer_max_pool2d(2, NULL), x);
    return call(est_layer_conv2d(5, 2, EST_CONV2D(.activation = est_relu)), x);
}

/* Trains on the CPU and on the GPU, with sizes that come again, which are recorded, and if there are more than 7 steps
 * with such that do not. Of the step one phase is on the GPU, and all operations but those of `on_host`. */
static void compare_with(bool pinned, est_node (*layers)(small_net *), est_optimizer optimizer, int steps,
                         double tolerance, const char *on_host)
{
    small_net here, there;

    log_keep(EST_LOG_INFO);
    here  = make_net(layers, optimizer, "/cpu:0", false);
    there = make_net(layers, optimizer, "/gpu:0", pinned);
    log_release();
    if (log_count(EST_LOG_INFO, "GPU:0: phase") != 1 || strcmp(host_ops(0), on_host) != 0) {
        fail_msg("%d phases; on the host: %s", log_count(EST_LOG_INFO, "GPU:0: phase"), host_ops(0));
    }
    for (int s = 0; s < steps; s++) {
        est_tensor *batch = make_batch(here.feed, s < 3 ? 3 + s % 2 : 3 + s, s);

        assert_ok(est_step_run(here.step, (const est_tensor *const[]){ batch }));
        assert_ok(est_step_run(there.step, (const est_tensor *const[]){ batch }));
        assert_true(fabs(est_step_scalar(here.step, 0) / est_step_scalar(there.step, 0) - 1) <= tolerance);
        est_tensor_free(batch);
    }
    assert_true(nn_difference(here.session, there.session) <= tolerance);
    free_net(&here);
    free_net(&there);
}

static void compare(est_node (*layers)(small_net *), est_optimizer optimizer, int steps, double tolerance,
                    const char *on_host)
{
    compare_with(false, layers, optimizer, steps, tolerance, on_host);
}

TEST(image_layers)
{
    compare(images, est_sgd(0.01), 8, 2e-6, "Placeholder Const VarHandleOp AssignAddVariableOp NoOp ");
}

TEST(sentence_layers)
{
    compare(sentences, est_sgd(0.01), 3, 2e-6, "Placeholder Const Reshape VarHandleOp AssignAddVariableOp NoOp ");
}

/* Without soft placement the host still draws initial values and makes integers. */
TEST(pinned_layers)
{
    compare_with(true, images, est_sgd(0.01), 2, 2e-6, "Placeholder Const VarHandleOp AssignAddVariableOp NoOp ");
    compare_with(true, sentences, est_sgd(0.01), 2, 2e-6,
                 "Placeholder Const Reshape VarHandleOp AssignAddVariableOp NoOp ");
}

/* A sum in another order may round the other way: an activation then differs by 2^-8 of itself. */
TEST(mixed_layers)
{
    compare(mixed, est_sgd(0.01), 10, 1e-4, "Placeholder Const VarHandleOp AssignAddVariableOp NoOp ");
    compare(mixed_images, est_sgd(0.01), 3, 1e-4, "Placeholder Const VarHandleOp AssignAddVariableOp NoOp ");
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

#define HALF 4200000

/* Two tensors one after the other: a copy with more columns than a grid has blocks along its second axis. */
TEST(long_tensors)
{
    est_graph   *graph;
    est_session *session;
    est_node     part[2], whole;
    est_tensor  *fed[2], *out;

    assert_ok(est_graph_create(1, &graph));
    for (int i = 0; i < 2; i++) {
        part[i] = est_placeholder(graph, i == 0 ? "a" : "b", EST_BOOL, EST_SHAPE(-1));
        assert_ok(est_tensor_create(EST_BOOL, EST_SHAPE(HALF), &fed[i]));
        for (int k = 0; k < HALF; k++) ((bool *)est_tensor_mutable_data(fed[i]))[k] = k % (3 + i) == 0;
    }
    whole = est_concat(EST_NODES(part[0], part[1]), 0);
    assert_ok(est_session_create(graph, EST_SESSION(.devices = EST_STRINGS("/gpu:0")), &session));
    assert_ok(est_session_run(session, EST_FEEDS({ part[0], fed[0] }, { part[1], fed[1] }), EST_NODES(whole),
                              EST_NO_NODES, &out));
    for (int i = 0; i < 2; i++) {
        assert_memory_equal((const bool *)est_tensor_data(out) + i * HALF, est_tensor_data(fed[i]), HALF);
        est_tensor_free(fed[i]);
    }
    est_tensor_free(out);
    est_session_free(session);
    est_graph_free(graph);
}

/* --- the canned wide & deep model --------------------------------------------------------------------------------- */

#define PEOPLE 24

static est_status people(const est_input_context *context, void *user, est_dataset **out)
{
    static const char *const jobs[]  = { "cook", "smith", "clerk", "pilot", "baker" };
    static const char *const towns[] = { "ulm", "bonn", "kiel" };
    est_tensor              *age, *job, *town, *label;
    est_dataset             *d;

    (void)user;
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(PEOPLE, 1), &age));
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(PEOPLE, 1), &job));
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(PEOPLE, 1), &town));
    assert_ok(est_tensor_create(EST_I64, EST_SHAPE(PEOPLE, 1), &label));
    for (int i = 0; i < PEOPLE; i++) {
        ((float *)est_tensor_mutable_data(age))[i]     = (float)(20 + i * 7 % 50);
        ((int64_t *)est_tensor_mutable_data(label))[i] = i % 5 == 0 || i % 7 == 2;
        assert_ok(est_tensor_set_string(job, i, jobs[i % 5], strlen(jobs[i % 5])));
        assert_ok(est_tensor_set_string(town, i, towns[i % 3], strlen(towns[i % 3])));
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "age", age }, { "job", job }, { "town", town }, { "label", label }));
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    d = est_dataset_batch(d, 8, NULL);
    est_tensor_free(age);
    est_tensor_free(job);
    est_tensor_free(town);
    est_tensor_free(label);
    return est_dataset_finish(d, out);
}

static est_estimator *wide_and_deep(const est_columns *set, const char *dir, const char *device)
{
    est_columns      *c     = (est_columns *)(uintptr_t)set;
    const est_column *age   = est_numeric_column(c, "age", NULL);
    const est_column *ages  = est_bucketized_column(age, EST_F32S(30, 40, 50, 60));
    const est_column *town  = est_vocabulary_strings_column(c, "town", EST_STRINGS("ulm", "bonn", "kiel"), NULL);
    const est_column *job   = est_hash_bucket_column(c, "job", 10, NULL);
    const est_column *cross = est_crossed_column(EST_COLUMN_LIST(est_key_column(c, "job"), ages), 40, 0);
    est_estimator    *e;

    assert_ok(est_dnn_linear_combined_classifier(
        EST_CANNED(.linear_columns = EST_COLUMN_LIST(town, job, cross),
                   .dnn_columns  = EST_COLUMN_LIST(age, est_indicator_column(town), est_embedding_column(job, 4, NULL)),
                   .hidden_units = EST_I64S(6, 4),
                   .config = EST_RUN_CONFIG(.model_dir = dir, .seed = 3, .quiet = true, .log_device_placement = true,
                                            .devices = EST_STRINGS(device))),
        &e));
    return e;
}

/* The lines from the last "Calling model_fn." on. */
static int last_model(void)
{
    int first = 0;

    for (int i = 0; log_line(i)[0] != '\0'; i++) {
        if (strstr(log_line(i), "Calling model_fn.") != NULL) first = i;
    }
    return first;
}

/* First values; what is fed; where rows begin and which values count, which are integers; hashes, lookups, buckets and
 * crosses; counters of steps. */
static const char wide_and_deep_host[] =
    "VarHandleOp Const AssignVariableOp TruncatedNormal RandomUniform Placeholder Shape StridedSlice AddV2 Range Mul "
    "Reshape NotEqual EstRaggedKeep StringToHashBucketFast EstVocabulary LookupTableFindV2 Cast UpperBound RaggedCross "
    "AssignAddVariableOp NoOp ReadVariableOp LookupTableImportV2 ";

/* The steps go to the GPU once each. */
TEST(wide_and_deep_model)
{
    est_columns   *set;
    est_estimator *here, *there;
    est_metrics   *a, *b;
    char           base[64], dir[2][160];
    const char    *ops;

    est_test_dir(base);
    for (int i = 0; i < 2; i++) (void)snprintf(dir[i], sizeof dir[i], "%s/%d", base, i);
    set   = est_columns_create();
    here  = wide_and_deep(set, dir[0], "/cpu:0");
    there = wide_and_deep(set, dir[1], "/gpu:0");
    assert_ok(est_train(here, EST_TRAIN_OPTIONS(.input_fn = people, .steps = 5)));
    log_keep(EST_LOG_INFO);
    assert_ok(est_train(there, EST_TRAIN_OPTIONS(.input_fn = people, .steps = 5)));
    log_release();
    ops = host_ops(last_model());
    if (log_count(EST_LOG_INFO, "GPU:0: phase 1") == 0 || log_has("GPU:0: phase 2") ||
        strcmp(ops, wide_and_deep_host) != 0) {
        fail_msg("on the host: %s", ops);
    }
    assert_ok(est_evaluate(here, EST_EVALUATE_OPTIONS(.input_fn = people), &a));
    assert_ok(est_evaluate(there, EST_EVALUATE_OPTIONS(.input_fn = people), &b));
    assert_true(fabs(est_metrics_get(a, "loss") - est_metrics_get(b, "loss")) < 1e-5);
    est_metrics_free(a);
    est_metrics_free(b);
    est_estimator_free(here);
    est_estimator_free(there);
    est_columns_free(set);
    est_test_dir_remove(base);
}
