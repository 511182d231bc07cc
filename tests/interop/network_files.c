/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of networks against Keras: weights both ways, layer by layer, for the kinds of layers that have some; the table
 * of layers; and SavedModels that TensorFlow runs. */
#include <stdio.h>
#include <string.h>

#include "estoc/network.h"
#include "estoc/ops.h"
#include "estoc/preprocessing.h"
#include "support/interop.h"

#define ROWS 5

static est_node relu(est_node x)
{
    return est_relu(x);
}

/* A model that both sides have. */
typedef struct same_model {
    const char *name;
    est_status (*make)(const est_network_options *options, est_network **out);
    est_network_input input;
} same_model;

static est_status make_dense(const est_network_options *options, est_network **out)
{
    return est_network_sequential(EST_LAYERS(est_layer_dense(6, EST_DENSE(.activation = relu)),
                                             est_layer_batch_norm(NULL), est_layer_dropout(0.5, NULL),
                                             est_layer_layer_norm(NULL), est_layer_dense(2, EST_DENSE(.name = "head"))),
                                  options, out);
}

static est_status make_image(const est_network_options *options, est_network **out)
{
    return est_network_sequential(EST_LAYERS(est_layer_conv2d(4, 3, EST_CONV2D(.activation = relu)),
                                             est_layer_batch_norm(NULL), est_layer_depthwise_conv2d(1, 3, NULL),
                                             est_layer_separable_conv2d(5, 3, NULL), est_layer_max_pool2d(2, NULL),
                                             est_layer_flatten(NULL), est_layer_dense(3, NULL)),
                                  options, out);
}

static est_status make_embedding(const est_network_options *options, est_network **out)
{
    return est_network_sequential(
        EST_LAYERS(est_layer_embedding(20, 4, NULL), est_layer_flatten(NULL), est_layer_dense(2, NULL)), options, out);
}

/* Layers that are no objects; in Keras a functional model. */
static est_node function(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4, EST_DENSE(.activation = relu)), y;

    (void)graph, (void)user;
    y = est_batch_norm(x, training, NULL);
    return est_dense(est_add(x, y), 2, NULL);
}

static est_status make_function(const est_network_options *options, est_network **out)
{
    return est_network_create(function, options, out);
}

/* Attention of a sequence to itself. */
static est_node heads(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node   x     = est_network_input_node(inputs, "x");
    est_layer *layer = user;

    (void)graph;
    x = est_layer_call_with(layer, EST_NODES(x, x), EST_CALL(.training = training));
    return est_dense(x, 2, NULL);
}

static est_layer *attention; /* of the last network of make_heads */

static est_status make_heads(const est_network_options *options, est_network **out)
{
    est_network_options o = *options;

    est_layer_free(attention);
    attention = est_layer_multi_head_attention(2, 3, NULL);
    o.user    = attention;
    return est_network_create(heads, &o, out);
}

/* A network that is a part of another. */
static est_node with_part(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 3, EST_DENSE(.activation = relu));

    (void)graph;
    return est_dense(est_add(x, est_network_apply(user, inputs, training)), 2, NULL);
}

static est_network *part; /* of the last network of make_nested */

static est_status make_nested(const est_network_options *options, est_network **out)
{
    est_network_options o = *options;

    est_network_free(part);
    o.name = "part";
    interop_check(est_network_sequential(EST_LAYERS(est_layer_dense(5, EST_DENSE(.activation = est_tanh)),
                                                    est_layer_dropout(0.5, NULL), est_layer_batch_norm(NULL),
                                                    est_layer_dense(3, NULL)),
                                         &o, &part));
    o      = *options;
    o.user = part;
    return est_network_create(with_part, &o, out);
}

/* An encoder and a layer that two networks share; the layer is also one of the outer network. */
static struct shared {
    est_network *encoder, *parts[2];
    est_layer   *both;
} shared; /* of the last network of make_shared */

static est_node shared_part(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)user;
    return est_dense(est_layer_call(shared.both, est_network_apply(shared.encoder, inputs, training), training), 2,
                     NULL);
}

static est_node two_parts(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node left = est_network_apply(shared.parts[0], inputs, training);
    est_node h    = est_dense(est_add(left, est_network_apply(shared.parts[1], inputs, training)), 3, NULL);

    (void)graph, (void)user;
    return est_dense(est_layer_call(shared.both, h, training), 2, NULL);
}

static void free_shared(void)
{
    for (int i = 0; i < 2; i++) est_network_free(shared.parts[i]);
    est_network_free(shared.encoder);
    est_layer_free(shared.both);
}

static est_status make_shared(const est_network_options *options, est_network **out)
{
    est_network_options o = *options;

    free_shared();
    shared.both = est_layer_dense(3, NULL);
    o.name      = "encoder";
    interop_check(est_network_sequential(
        EST_LAYERS(est_layer_dense(3, EST_DENSE(.activation = est_tanh)), est_layer_batch_norm(NULL)), &o,
        &shared.encoder));
    for (int i = 0; i < 2; i++) {
        o.name = i == 0 ? "left" : "right";
        interop_check(est_network_create(shared_part, &o, &shared.parts[i]));
    }
    return est_network_create(two_parts, options, out);
}

/* A layer that Keras counts among those with weights, for the words that adapt has counted. */
static est_status make_words(const est_network_options *options, est_network **out)
{
    est_layer   *lookup = est_layer_string_lookup(NULL, NULL);
    est_tensor  *data   = NULL;
    est_dataset *rows   = NULL;

    interop_check(est_tensor_create_from(EST_STRING, EST_SHAPE(3),
                                         (const est_str[]){ { "b", 1 }, { "a", 1 }, { "b", 1 } }, &data));
    interop_check(est_dataset_finish(est_dataset_slices(EST_NAMED_TENSORS({ "x", data })), &rows));
    interop_check(est_layer_adapt(lookup, rows, "x"));
    est_dataset_free(rows);
    est_tensor_free(data);
    return est_network_sequential(
        EST_LAYERS(lookup, est_layer_embedding(3, 2, NULL), est_layer_dense(2, NULL), est_layer_dense(2, NULL)),
        options, out);
}

static const same_model models[] = {
    { "dense", make_dense, { "x", EST_F32, EST_SHAPE(4) } },
    { "image", make_image, { "x", EST_F32, EST_SHAPE(12, 12, 2) } },
    { "embedding", make_embedding, { "x", EST_I64, EST_SHAPE(3) } },
    { "words", make_words, { "x", EST_STRING, EST_SHAPE(3) } },
    { "function", make_function, { "x", EST_F32, EST_SHAPE(4) } },
    { "heads", make_heads, { "x", EST_F32, EST_SHAPE(5, 6) } },
    { "nested", make_nested, { "x", EST_F32, EST_SHAPE(4) } },
    { "shared", make_shared, { "x", EST_F32, EST_SHAPE(4) } },
};
#define MODELS ((int)(sizeof models / sizeof models[0]))

static est_network *make(const same_model *model, uint64_t seed)
{
    est_network *network = NULL;

    interop_check(
        model->make(EST_NETWORK(.name = model->name, .seed = seed, .inputs = { &model->input, 1 }), &network));
    interop_check(est_network_build(network, NULL));
    return network;
}

static est_tensor *input_of(const same_model *model)
{
    est_shape   shape = { .rank = model->input.shape.rank + 1, .dim = { ROWS } };
    est_tensor *x     = NULL;
    uint32_t    seed  = 7;

    for (int i = 1; i < shape.rank; i++) shape.dim[i] = model->input.shape.dim[i - 1];
    interop_check(est_tensor_create(model->input.dtype, shape, &x));
    for (int64_t i = 0; i < est_shape_count(&shape); i++) {
        seed = seed * 1664525u + 1013904223u;
        if (model->input.dtype == EST_STRING) {
            interop_check(est_tensor_set_string(x, i, &"abc"[(seed >> 8) % 3], 1));
        } else if (model->input.dtype == EST_I64) {
            ((int64_t *)est_tensor_mutable_data(x))[i] = (int64_t)(seed >> 8) % 20;
        } else {
            ((float *)est_tensor_mutable_data(x))[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
        }
    }
    return x;
}

/* Appends the input and what the network predicts for it. */
static void put_prediction(est_strbuf *out, const same_model *model, est_network *network, const char *what)
{
    est_tensor *x = input_of(model), *y = NULL;
    char        name[64];

    interop_check(est_network_predict_on_batch(network, EST_NAMED_TENSORS({ "x", x }), &y));
    (void)snprintf(name, sizeof name, "%s|x", what);
    interop_tensor(out, name, x);
    (void)snprintf(name, sizeof name, "%s|y", what);
    interop_tensor(out, name, y);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Moving averages are not at their beginning. */
static void train(const same_model *model, est_network *network)
{
    est_tensor *x = input_of(model), *y = NULL;

    interop_check(est_network_predict_on_batch(network, EST_NAMED_TENSORS({ "x", x }), &y));
    memset(est_tensor_mutable_data(y), 0, est_tensor_bytes(y));
    interop_check(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "sgd")));
    for (int i = 0; i < 3; i++) {
        interop_check(est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }), NULL));
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Ours: weights, the whole model, and the table; the other side loads all and compares. */
TEST(ours)
{
    est_strbuf out = { 0 };

    for (int i = 0; i < MODELS; i++) {
        est_network *network = make(&models[i], 1);
        char         name[64];
        FILE        *file;

        train(&models[i], network);
        (void)snprintf(name, sizeof name, "ours_%s", models[i].name);
        interop_check(est_network_save_weights(network, interop_path(name)));
        (void)snprintf(name, sizeof name, "saved_%s", models[i].name);
        interop_check(est_network_save(network, interop_path(name)));
        (void)snprintf(name, sizeof name, "summary_%s", models[i].name);
        file = fopen(interop_path(name), "w");
        assert_non_null(file);
        interop_check(est_network_summary(network, file));
        assert_int_equal(fclose(file), 0);
        put_prediction(&out, &models[i], network, models[i].name);
        est_network_free(network);
    }
    interop_save("predictions", &out);
    interop_ask("check_ours");
}

/* Theirs: save_weights, tf.train.Checkpoint, and a model that was not the first of its process. */
TEST(theirs)
{
    static const char *const kinds[] = { "weights", "checkpoint" };
    est_strbuf               out     = { 0 };

    interop_ask("write");
    for (int i = 0; i < MODELS; i++) {
        for (int k = 0; k < 2; k++) {
            est_network *network = make(&models[i], 2);
            char         name[64];

            (void)snprintf(name, sizeof name, "%s_%s", kinds[k], models[i].name);
            interop_check(est_network_load_weights(network, interop_path(name), NULL));
            put_prediction(&out, &models[i], network, name);
            est_network_free(network);
        }
    }
    interop_save("loaded", &out);
    interop_ask("check_loaded");
}

int main(void)
{
    int failed = INTEROP_MAIN("network_files");

    est_layer_free(attention);
    est_network_free(part);
    free_shared();
    return failed;
}
