/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights: what is in them, layer by layer and by name, what a checkpoint may lack, and wrong ones.
 * tests/interop/network_files.c exchanges them with Keras. */
#include "estoc/callbacks.h"
#include "estoc/checkpoint.h"
#include "estoc/preprocessing.h"
#include "format/checkpoint.h"
#include "network/network_test.h"

#define INPUTS EST_INPUTS({ "x", EST_F32, EST_SHAPE(4) })

/* Dense, batch normalisation, dense. */
static est_network *make(uint64_t seed, const char *first, const char *last, int64_t units)
{
    est_network *network;

    assert_ok(
        est_network_sequential(EST_LAYERS(est_layer_dense(3, EST_DENSE(.name = first, .activation = est_relu)),
                                          est_layer_batch_norm(NULL), est_layer_dense(units, EST_DENSE(.name = last))),
                               EST_NETWORK(.inputs = INPUTS, .seed = seed), &network));
    return network;
}

static est_network *trained(uint64_t seed)
{
    est_network *network = make(seed, NULL, NULL, 2);
    est_tensor  *x = noise(16, 4, 1), *y = noise(16, 2, 2);

    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam")));
    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .verbose = EST_VERBOSE_NONE), NULL));
    est_tensor_free(x);
    est_tensor_free(y);
    return network;
}

static void expect_same_predictions(est_network *a, est_network *b, bool same)
{
    est_tensor *x = noise(5, 4, 9), *p, *q;

    assert_ok(est_network_predict_on_batch(a, EST_NAMED_TENSORS({ "x", x }), &p));
    assert_ok(est_network_predict_on_batch(b, EST_NAMED_TENSORS({ "x", x }), &q));
    assert_int_equal(est_tensor_bytes(p), est_tensor_bytes(q));
    assert_true((memcmp(est_tensor_data(p), est_tensor_data(q), est_tensor_bytes(p)) == 0) == same);
    est_tensor_free(x);
    est_tensor_free(p);
    est_tensor_free(q);
}

/* The variables of the layers and nothing else, as Keras calls them. */
TEST(file)
{
    static const char *const names[][2] = {
        { "layer_with_weights-0/bias", "dense/bias" },
        { "layer_with_weights-0/kernel", "dense/kernel" },
        { "layer_with_weights-1/beta", "batch_normalization/beta" },
        { "layer_with_weights-1/gamma", "batch_normalization/gamma" },
        { "layer_with_weights-1/moving_mean", "batch_normalization/moving_mean" },
        { "layer_with_weights-1/moving_variance", "batch_normalization/moving_variance" },
        { "layer_with_weights-2/bias", "dense_1/bias" },
        { "layer_with_weights-2/kernel", "dense_1/kernel" },
    };
    const char     *path    = test_path("weights");
    est_network    *network = trained(1);
    est_checkpoint *checkpoint;

    assert_ok(est_network_save_weights(network, path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), sizeof names / sizeof names[0]);
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        char key[128];

        (void)snprintf(key, sizeof key, "%s/.ATTRIBUTES/VARIABLE_VALUE", names[i][0]);
        assert_string_equal(est_checkpoint_at(checkpoint, i)->name, key);
        assert_string_equal(est_checkpoint_at(checkpoint, i)->full_name, names[i][1]);
    }
    est_checkpoint_close(checkpoint);
    est_network_free(network);
}

TEST(round_trip)
{
    const char  *path = test_path("weights");
    est_network *a = trained(1), *b = make(2, NULL, NULL, 2), *renamed = make(2, "first", "last", 2);

    assert_ok(est_network_save_weights(a, path));
    expect_same_predictions(a, b, false);
    assert_ok(est_network_load_weights(b, path, NULL));
    expect_same_predictions(a, b, true);

    /* layers of other names: in their order, not by name */
    expect_error(est_network_load_weights(renamed, path, EST_LOAD_WEIGHTS(.by_name = true)), EST_FAILED_PRECONDITION,
                 "it lacks 4 of 8 variables: \"first/bias\"");
    expect_same_predictions(a, renamed, false);
    assert_ok(est_network_load_weights(renamed, path, NULL));
    expect_same_predictions(a, renamed, true);

    /* from the directory: the latest */
    assert_ok(est_network_save_weights(renamed, test_path("later")));
    assert_ok(est_network_load_weights(b, test_path("."), EST_LOAD_WEIGHTS(.partial = true, .skip_mismatch = true)));
    expect_same_predictions(a, b, true);
    est_network_free(a);
    est_network_free(b);
    est_network_free(renamed);
}

/* Bins of numbers, taken from data or given, an embedding and a dense layer. */
static est_network *with_bins(const est_discretization_options *options, const est_dataset *data)
{
    est_layer   *bins = est_layer_discretization(options);
    est_network *network;

    if (data != NULL) assert_ok(est_layer_adapt(bins, data, "x"));
    assert_ok(est_network_sequential(EST_LAYERS(bins, est_layer_embedding(2, 3, NULL), est_layer_dense(2, NULL)),
                                     EST_NETWORK(.inputs = INPUTS), &network));
    return network;
}

/* Keras counts a layer that has adapted among those with weights. Files are read with and without it. */
TEST(adapted)
{
    const char     *path   = test_path("weights");
    est_tensor     *x      = noise(8, 4, 1);
    est_dataset    *data   = batches(EST_NAMED_TENSORS({ "x", x }), 8);
    est_network    *bins   = with_bins(EST_DISCRETIZATION(.num_bins = 2), data);
    est_network    *given  = with_bins(EST_DISCRETIZATION(.boundaries = EST_F32S(0)), NULL);
    est_network    *others = with_bins(EST_DISCRETIZATION(.num_bins = 2), data);
    est_checkpoint *checkpoint;

    assert_ok(est_network_save_weights(bins, path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 3);
    assert_string_equal(est_checkpoint_at(checkpoint, 0)->name,
                        "layer_with_weights-1/embeddings/.ATTRIBUTES/VARIABLE_VALUE");
    assert_string_equal(est_checkpoint_at(checkpoint, 1)->name, "layer_with_weights-2/bias/.ATTRIBUTES/VARIABLE_VALUE");
    est_checkpoint_close(checkpoint);
    assert_ok(est_network_load_weights(others, path, NULL));
    expect_same_variable(bins, others, "dense/kernel");
    assert_ok(est_network_load_weights(given, path, NULL));
    expect_same_variable(bins, given, "dense/kernel");
    expect_same_variable(bins, given, "embedding/embeddings");

    assert_ok(est_network_build(given, NULL));
    assert_ok(est_network_save_weights(given, path));
    assert_ok(est_network_load_weights(others, path, NULL));
    expect_same_variable(given, others, "embedding/embeddings");
    est_network_free(bins);
    est_network_free(given);
    est_network_free(others);
    est_dataset_free(data);
    est_tensor_free(x);
}

/* A checkpoint of a saver has names only. */
TEST(by_name)
{
    est_network *a = trained(1), *b = make(2, NULL, NULL, 2), *other = make(3, NULL, "head", 2), *untouched;
    est_saver   *saver;

    untouched = make(3, NULL, "head", 2);
    assert_ok(est_saver_create(test_path("saver"), NULL, &saver));
    assert_ok(est_saver_save(saver, est_network_session(a), 7, NULL, NULL));
    assert_ok(est_network_load_weights(b, test_path("saver"), NULL));
    expect_same_predictions(a, b, true);
    expect_error(est_network_load_weights(other, test_path("saver"), NULL), EST_FAILED_PRECONDITION,
                 "it lacks 2 of 8 variables: \"head/bias\"");
    assert_ok(est_network_build(untouched, NULL));
    expect_same_variable(other, untouched, "dense/kernel");
    assert_ok(est_network_load_weights(other, test_path("saver"), EST_LOAD_WEIGHTS(.partial = true)));
    expect_same_variable(other, a, "dense/kernel");
    expect_same_variable(other, untouched, "head/kernel");
    est_saver_free(saver);
    est_network_free(a);
    est_network_free(b);
    est_network_free(other);
    est_network_free(untouched);
}

TEST(mismatch)
{
    const char  *path = test_path("weights");
    est_network *a = trained(1), *wide = make(2, NULL, NULL, 5), *untouched = make(2, NULL, NULL, 5);

    assert_ok(est_network_save_weights(a, path));
    assert_ok(est_network_build(untouched, NULL));
    expect_error(est_network_load_weights(wide, path, NULL), EST_INVALID_ARGUMENT,
                 "variable 'dense_1/kernel' is float32 [3,5]");
    expect_same_variable(wide, untouched, "dense/kernel");
    log_keep(EST_LOG_WARN);
    assert_ok(est_network_load_weights(wide, path, EST_LOAD_WEIGHTS(.skip_mismatch = true)));
    log_expect("lacks 0 variables, and 2 have another dtype or shape there");
    log_release();
    expect_same_variable(wide, a, "dense/kernel");
    expect_same_variable(wide, untouched, "dense_1/kernel");
    est_network_free(a);
    est_network_free(wide);
    est_network_free(untouched);
}

/* Layers that are no objects, one that is shared, variables of no layer and of layers within a scope, one of which is
 * called as that. */
static est_node model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4, NULL);

    x = est_layer_call(user, est_layer_call(user, x, training), training);
    est_scope_push(graph, "block");
    x = est_dense(est_dense(x, 3, EST_DENSE(.name = "block")), 2, NULL);
    est_scope_pop(graph);
    return est_mul(x, est_read_variable(est_weight(graph, "out/scale", EST_SHAPE(2), NULL)));
}

TEST(functional)
{
    static const char *const keys[] = {
        "layer_with_weights-0/bias",   "layer_with_weights-0/kernel", "layer_with_weights-1/bias",
        "layer_with_weights-1/kernel", "layer_with_weights-2/bias",   "layer_with_weights-2/kernel",
        "layer_with_weights-3/bias",   "layer_with_weights-3/kernel", "out/scale"
    };
    const char     *path     = test_path("weights");
    est_layer      *shared[] = { est_layer_dense(4, NULL), est_layer_dense(4, NULL) };
    est_network    *network[2];
    est_checkpoint *checkpoint;

    for (int i = 0; i < 2; i++) {
        assert_ok(est_network_create(model, EST_NETWORK(.inputs = INPUTS, .user = shared[i], .seed = (uint64_t)i + 1),
                                     &network[i]));
    }
    assert_ok(est_network_save_weights(network[0], path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), sizeof keys / sizeof keys[0]);
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        size_t n = strlen(keys[i]);

        assert_memory_equal(est_checkpoint_at(checkpoint, i)->name, keys[i], n);
        assert_string_equal(est_checkpoint_at(checkpoint, i)->name + n, "/.ATTRIBUTES/VARIABLE_VALUE");
    }
    assert_string_equal(est_checkpoint_at(checkpoint, 4)->full_name, "block/block/bias");
    assert_string_equal(est_checkpoint_at(checkpoint, 6)->full_name, "block/dense/bias");
    est_checkpoint_close(checkpoint);
    assert_ok(est_network_load_weights(network[1], path, NULL));
    expect_same_predictions(network[0], network[1], true);
    for (int i = 0; i < 2; i++) {
        est_network_free(network[i]);
        est_layer_free(shared[i]);
    }
}

/* A network in a network in a network; the one between has a variable of no layer. */
typedef struct nested {
    est_network *inner, *middle, *outer;
} nested;

static est_node middle_model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_apply(user, inputs, training), 2, NULL);

    return est_mul(x, est_read_variable(est_weight(graph, "scale", EST_SHAPE(2), NULL)));
}

static est_node outer_model(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 2, NULL);

    (void)graph;
    return est_dense(est_add(x, est_network_apply(user, inputs, training)), 1, NULL);
}

static nested make_nested(uint64_t seed)
{
    nested n;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dropout(0.5, NULL), est_layer_dense(3, NULL)),
                                     EST_NETWORK(.name = "inner", .inputs = INPUTS), &n.inner));
    assert_ok(est_network_create(middle_model, EST_NETWORK(.name = "middle", .user = n.inner), &n.middle));
    assert_ok(est_network_create(outer_model, EST_NETWORK(.inputs = INPUTS, .user = n.middle, .seed = seed), &n.outer));
    assert_ok(est_network_build(n.outer, NULL));
    return n;
}

static void free_nested(nested n)
{
    est_network_free(n.outer);
    est_network_free(n.middle);
    est_network_free(n.inner);
}

/* Layers of a part are counted for themselves, as in Keras. */
TEST(parts)
{
    static const char *const names[][2] = {
        { "layer_with_weights-0/bias", "dense/bias" },
        { "layer_with_weights-0/kernel", "dense/kernel" },
        { "layer_with_weights-1/layer_with_weights-0/layer_with_weights-0/bias", "dense_1/bias" },
        { "layer_with_weights-1/layer_with_weights-0/layer_with_weights-0/kernel", "dense_1/kernel" },
        { "layer_with_weights-1/layer_with_weights-1/bias", "dense_2/bias" },
        { "layer_with_weights-1/layer_with_weights-1/kernel", "dense_2/kernel" },
        { "layer_with_weights-1/scale", "scale" },
        { "layer_with_weights-2/bias", "dense_3/bias" },
        { "layer_with_weights-2/kernel", "dense_3/kernel" },
    };
    const char     *path = test_path("weights");
    nested          a = make_nested(1), b = make_nested(2);
    est_checkpoint *checkpoint;

    assert_ok(est_network_save_weights(a.outer, path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), sizeof names / sizeof names[0]);
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        char key[128];

        (void)snprintf(key, sizeof key, "%s/.ATTRIBUTES/VARIABLE_VALUE", names[i][0]);
        assert_string_equal(est_checkpoint_at(checkpoint, i)->name, key);
        assert_string_equal(est_checkpoint_at(checkpoint, i)->full_name, names[i][1]);
    }
    est_checkpoint_close(checkpoint);
    expect_same_predictions(a.outer, b.outer, false);
    assert_ok(est_network_load_weights(b.outer, path, NULL));
    expect_same_predictions(a.outer, b.outer, true);
    free_nested(a);
    free_nested(b);
}

/* An encoder and a layer that two parts have. */
typedef struct sharing {
    est_network *encoder, *a, *b, *outer;
    est_layer   *layer;
} sharing;

static est_node sharing_part(est_graph *graph, est_features inputs, bool training, void *user)
{
    const sharing *s = user;
    est_node       x = est_network_apply(s->encoder, inputs, training);

    (void)graph;
    return est_dense(est_layer_call(s->layer, x, training), 2, NULL);
}

/* The layer that both parts have comes again, and is counted before the last. */
static est_node sharing_outer(est_graph *graph, est_features inputs, bool training, void *user)
{
    const sharing *s = user;
    est_node       x = est_add(est_network_apply(s->a, inputs, training), est_network_apply(s->b, inputs, training));

    (void)graph;
    return est_dense(est_layer_call(s->layer, est_dense(x, 3, NULL), training), 1, NULL);
}

enum { SHARED = 40 }; /* more variables than all others together */

static void make_sharing(uint64_t seed, sharing *s)
{
    est_layer *layers[SHARED];

    for (int i = 0; i < SHARED; i++) layers[i] = est_layer_dense(3, NULL);
    s->layer = est_layer_dense(3, NULL);
    assert_ok(est_network_sequential((est_layers){ layers, SHARED }, EST_NETWORK(.name = "encoder", .inputs = INPUTS),
                                     &s->encoder));
    assert_ok(est_network_create(sharing_part, EST_NETWORK(.name = "a", .user = s), &s->a));
    assert_ok(est_network_create(sharing_part, EST_NETWORK(.name = "b", .user = s), &s->b));
    assert_ok(est_network_create(sharing_outer, EST_NETWORK(.inputs = INPUTS, .user = s, .seed = seed), &s->outer));
    assert_ok(est_network_build(s->outer, NULL));
}

static void free_sharing(sharing *s)
{
    est_network_free(s->outer);
    est_network_free(s->a);
    est_network_free(s->b);
    est_network_free(s->encoder);
    est_layer_free(s->layer);
}

/* The object at the end of a path of names. */
static int32_t object_at(const est_object_graph *graph, const char *path)
{
    int32_t node = 0;

    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        char   part[64];

        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        node = est_object_graph_child(graph, node, part);
        path += n + (path[n] == '/');
    }
    return node;
}

/* What two parts share is written once, and found in both. */
TEST(shared)
{
    static const char *const same[][2] = {
        { "layer_with_weights-0/layer_with_weights-0", "layer_with_weights-1/layer_with_weights-0" },
        { "layer_with_weights-0/encoder", "model/b/encoder" },
        { "layer_with_weights-0/layer_with_weights-1", "layer_with_weights-1/layer_with_weights-1" },
        { "layer_with_weights-0/layer_with_weights-1", "layer_with_weights-3" },
    };
    static const char *const keys[] = { "layer_with_weights-0/layer_with_weights-0/layer_with_weights-39/kernel",
                                        "layer_with_weights-0/layer_with_weights-1/kernel",
                                        "layer_with_weights-1/layer_with_weights-2/kernel",
                                        "layer_with_weights-4/kernel" };
    const char              *path   = test_path("weights");
    sharing                  a, b;
    est_checkpoint          *checkpoint;
    const est_object_graph  *objects;

    make_sharing(1, &a);
    make_sharing(2, &b);
    assert_ok(est_network_save_weights(a.outer, path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 2 * (SHARED + 1 + 2 + 2));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[128];

        (void)snprintf(key, sizeof key, "%s/.ATTRIBUTES/VARIABLE_VALUE", keys[i]);
        assert_non_null(est_checkpoint_find(checkpoint, key));
    }
    objects = est_checkpoint_objects(checkpoint);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        assert_true(object_at(objects, same[i][0]) > 0);
        assert_int_equal(object_at(objects, same[i][0]), object_at(objects, same[i][1]));
    }
    est_checkpoint_close(checkpoint);
    expect_same_predictions(a.outer, b.outer, false);
    assert_ok(est_network_load_weights(b.outer, path, NULL));
    expect_same_predictions(a.outer, b.outer, true);
    free_sharing(&a);
    free_sharing(&b);
}

static est_node direct_part(est_graph *graph, est_features inputs, bool training, void *user)
{
    const sharing *s = user;

    (void)graph;
    return est_dense(est_layer_call(s->layer, est_network_input_node(inputs, "x"), training), 2, NULL);
}

static est_node direct_outer(est_graph *graph, est_features inputs, bool training, void *user)
{
    const sharing *s = user;
    est_node       x = est_layer_call(s->layer, est_network_input_node(inputs, "x"), training);

    (void)graph;
    return est_dense(est_concat(EST_NODES(x, est_network_apply(s->a, inputs, training)), -1), 1, NULL);
}

/* A layer that the network calls before a part that has it. */
TEST(shared_with_part)
{
    const char     *path = test_path("weights");
    sharing         s    = { .layer = est_layer_dense(3, NULL) };
    est_checkpoint *checkpoint;

    assert_ok(est_network_create(direct_part, EST_NETWORK(.name = "a", .user = &s), &s.a));
    assert_ok(est_network_create(direct_outer, EST_NETWORK(.inputs = INPUTS, .user = &s, .seed = 1), &s.outer));
    assert_ok(est_network_build(s.outer, NULL));
    assert_ok(est_network_save_weights(s.outer, path));
    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 2 * 3);
    assert_true(object_at(est_checkpoint_objects(checkpoint), "layer_with_weights-0") > 0);
    assert_int_equal(object_at(est_checkpoint_objects(checkpoint), "layer_with_weights-1/layer_with_weights-0"),
                     object_at(est_checkpoint_objects(checkpoint), "layer_with_weights-0"));
    est_checkpoint_close(checkpoint);
    assert_ok(est_network_load_weights(s.outer, path, NULL));
    free_sharing(&s);
}

/* What diverged is not written. */
TEST(nan)
{
    est_tensor  *bad = floats(EST_SHAPE(3, 1), (const float[]){ 1, NAN, 1 });
    est_network *network;

    assert_ok(try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), &network));
    assert_ok(est_network_build(network, NULL));
    assert_ok(est_session_write(est_network_session(network), "dense/kernel", bad));
    expect_error(est_network_save_weights(network, test_path("diverged")), EST_FAILED_PRECONDITION,
                 "the variable 'dense/kernel' is NaN");
    expect_error(est_network_save(network, test_path("model")), EST_FAILED_PRECONDITION,
                 "the variable 'dense/kernel' is NaN");
    expect_error(est_network_load_weights(network, test_path("diverged"), NULL), EST_NOT_FOUND, "diverged");
    est_network_free(network);
    est_tensor_free(bad);
}

/* Whatever may be left alone, something must be read. */
TEST(unrelated)
{
    est_tensor       *other = noise(3, 5, 1), *bias = noise(1, 1, 2);
    est_named_tensors tensors = EST_NAMED_TENSORS({ "dense/kernel", other }, { "more/bias", bias });
    est_network      *network;

    assert_ok(try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(3) })), &network));
    assert_ok(est_checkpoint_write(test_path("unrelated"), tensors, NULL));
    expect_error(est_network_load_weights(network, test_path("unrelated"),
                                          EST_LOAD_WEIGHTS(.partial = true, .skip_mismatch = true)),
                 EST_FAILED_PRECONDITION, "it lacks 1 of them, and 1 have another dtype or shape there");
    expect_error(est_network_load_weights(network, test_path("unrelated"), EST_LOAD_WEIGHTS(.skip_mismatch = true)),
                 EST_FAILED_PRECONDITION, "\"dense/bias\". Set .partial to leave them as they are");
    est_network_free(network);
    est_tensor_free(other);
    est_tensor_free(bias);
}

#define RESUMED_EPOCHS 8

/* A compiled network that is built for a dataset with labels has the variables of its optimizer, so that a checkpoint
 * restores them. */
TEST(resume)
{
    est_tensor  *x = noise(32, 3, 1), *y = noise(32, 1, 2);
    est_dataset *d = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 8);
    est_network *network[3];
    est_history *history[3];
    est_restored restored;
    est_saver   *saver;

    for (int i = 0; i < 3; i++) network[i] = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "adam"));
    assert_ok(est_saver_create(test_path("resume"), NULL, &saver));
    assert_ok(est_network_fit(network[0], EST_FIT(.input = d, .epochs = RESUMED_EPOCHS, .verbose = EST_VERBOSE_NONE),
                              &history[0]));
    assert_ok(est_network_fit(network[1], EST_FIT(.input = d, .epochs = 5, .verbose = EST_VERBOSE_NONE), &history[1]));
    assert_ok(est_saver_save(saver, est_network_session(network[1]), 20, NULL, NULL));
    assert_ok(est_network_build(network[2], d));
    assert_ok(est_saver_restore(saver, est_network_session(network[2]), NULL, &restored));
    assert_int_equal(restored.n_restored, est_global_variables(est_network_graph(network[1])).n);
    assert_ok(est_network_fit(
        network[2], EST_FIT(.input = d, .initial_epoch = 5, .epochs = RESUMED_EPOCHS, .verbose = EST_VERBOSE_NONE),
        &history[2]));
    assert_int_equal(est_history_epochs(history[2]), RESUMED_EPOCHS - 5);
    for (int i = 0; i < RESUMED_EPOCHS; i++) {
        const est_history *of = i < 5 ? history[1] : history[2];

        assert_true(est_history_value(of, "loss", i < 5 ? i : i - 5) == est_history_value(history[0], "loss", i));
    }
    expect_same_variable(network[0], network[2], "dense/kernel");
    for (int i = 0; i < 3; i++) {
        est_history_free(history[i]);
        est_network_free(network[i]);
    }
    est_saver_free(saver);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

TEST(refuses)
{
    est_network *network = make(1, NULL, NULL, 2), *line;

    expect_error(est_network_load_weights(network, test_path("nowhere"), NULL), EST_NOT_FOUND, "nowhere");
    expect_error(est_network_save_weights(network, NULL), EST_INVALID_ARGUMENT, "path is NULL");
    expect_error(est_network_save_weights(network, "/proc/none/weights"), EST_NOT_FOUND, "/proc/none");
    expect_error(est_network_save_weights(network, test_path("weights.h5")), EST_UNIMPLEMENTED, "leave the ending out");
    expect_error(est_network_save(network, test_path("model.keras")), EST_UNIMPLEMENTED, "not as .keras files");
    assert_null(est_model_checkpoint_callback("weights-{epoch}.hdf5", NULL));
    assert_ok(try_line(NULL, &line));
    expect_error(est_network_save_weights(line, test_path("w")), EST_FAILED_PRECONDITION, "does not know its inputs");
    expect_error(est_network_load_weights(line, test_path("w"), NULL), EST_FAILED_PRECONDITION,
                 "does not know its inputs");
    est_network_free(line);
    est_network_free(network);
}

TEST(memory)
{
    nested       n       = make_nested(1);
    est_network *network = n.outer;
    const char  *path    = test_path("weights");

    FAULT_LOOPS(f) {
        est_status status;

        assert_ok(est_session_init(est_network_session(network))); /* a failed load may leave some without */
        fault_arm(&f);
        status = est_network_save_weights(network, path);
        if (status == EST_OK) status = est_network_load_weights(network, path, NULL);
        fault_check_lenient(&f, status);
    }
    free_nested(n);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
