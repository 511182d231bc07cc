/* SPDX-License-Identifier: Apache-2.0
 *
 * ResNet-50 as a network made by a function, trained on images made up here: each class has a tint, under noise. Its
 * layers, their names and the number of parameters are those of tf.keras.applications.ResNet50. Above each part, the
 * TensorFlow calls that it stands for.
 *
 *   resnet50 [--size 32] [--classes 10] [--images 64] [--batch 16] [--epochs 3]
 *
 * --size 224 --classes 1000 is the shape of ImageNet. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    int64_t size, classes, images, batch, epochs;
} settings;

/* --- model -------------------------------------------------------------------------------------------------------- */

/* Conv2D(filters, kernel, strides, name=name + '_conv'), BatchNormalization(epsilon=1.001e-5, name=name + '_bn') */
static est_node conv_bn(est_node x, int64_t filters, int kernel, int stride, bool training, const char *name)
{
    char        conv[64], bn[64];
    est_padding padding = kernel == 3 ? EST_SAME : EST_VALID;

    (void)snprintf(conv, sizeof conv, "%s_conv", name);
    (void)snprintf(bn, sizeof bn, "%s_bn", name);
    x = est_conv2d_layer(x, filters, kernel, EST_CONV2D(.name = conv, .stride = stride, .padding = padding));
    return est_batch_norm(x, training, EST_BATCH_NORM(.name = bn, .epsilon = 1.001e-5));
}

/* A residual block: 1x1 to fewer channels, 3x3, 1x1 to four times as many, added to what came in. The first block of a
 * stage changes the shape, so that its shortcut is a 1x1 convolution. */
static est_node block(est_node x, int64_t filters, int stride, bool first, bool training, const char *name)
{
    est_node shortcut = x;
    char     part[4][32];

    for (int i = 0; i < 4; i++) (void)snprintf(part[i], sizeof part[i], "%s_%d", name, i);
    if (first) shortcut = conv_bn(x, 4 * filters, 1, stride, training, part[0]);
    x = est_relu(conv_bn(x, filters, 1, stride, training, part[1]));
    x = est_relu(conv_bn(x, filters, 3, 1, training, part[2]));
    x = conv_bn(x, 4 * filters, 1, 1, training, part[3]);
    return est_relu(est_add(shortcut, x));
}

/* tf.keras.applications.ResNet50(weights=None, input_shape=(size, size, 3), classes=classes): a function from the
 * input to the output, as tf.keras.Model(inputs, outputs) has it. */
static est_node resnet50(est_graph *graph, est_features inputs, bool training, void *user)
{
    static const int blocks[] = { 3, 4, 6, 3 };
    const settings  *s        = user;
    est_node         x        = est_network_input_node(inputs, "image");

    (void)graph;
    x = est_pad(x, EST_I64S(0, 0, 3, 3, 3, 3, 0, 0), 0);
    x = est_relu(conv_bn(x, 64, 7, 2, training, "conv1"));
    x = est_pad(x, EST_I64S(0, 0, 1, 1, 1, 1, 0, 0), 0);
    x = est_max_pool2d(x, 3, EST_POOL2D(.stride = 2));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            char name[24];

            (void)snprintf(name, sizeof name, "conv%d_block%d", stage + 2, i + 1);
            x = block(x, INT64_C(64) << stage, stage > 0 && i == 0 ? 2 : 1, i == 0, training, name);
        }
    }
    x = est_reduce_mean(x, EST_I64S(1, 2), false); /* GlobalAveragePooling2D */
    return est_dense(x, s->classes, EST_DENSE(.name = "predictions", .activation = est_softmax_last));
}

static est_status make_model(settings *s, est_network **out)
{
    return est_network_create(resnet50,
        EST_NETWORK(.name = "resnet50", .seed = 1, .user = s,
            .inputs = EST_INPUTS({ .name = "image", .dtype = EST_F32, .shape = EST_SHAPE(s->size, s->size, 3) })),
        out);
}

/* model.count_params() */
static int64_t count_params(est_network *model)
{
    est_nodes variables = est_global_variables(est_network_graph(model));
    int64_t   n         = 0;

    for (int i = 0; i < variables.n; i++) n += est_shape_count(est_node_shape(variables.data[i]));
    return n - 1; /* the global step is no parameter */
}

/* --- data --------------------------------------------------------------------------------------------------------- */

/* Noise in [-1, 1), plus a tint in [-1, 1) for each class and channel. */
static est_status make_images(const settings *s, est_tensor **images, est_tensor **labels)
{
    int64_t  pixels = s->size * s->size;
    uint64_t state  = 1;

    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE(s->images, s->size, s->size, 3), images));
    EST_TRY(est_tensor_create(EST_I64, EST_SHAPE(s->images), labels));
    float   *at    = est_tensor_mutable_data(*images);
    int64_t *label = est_tensor_mutable_data(*labels);
    for (int64_t i = 0; i < s->images; i++) {
        label[i] = i % s->classes;
        for (int64_t k = 0; k < 3 * pixels; k++) {
            uint64_t tint = (uint64_t)(label[i] * 3 + k % 3 + 1) * 0x9e3779b97f4a7c15u;

            state = state * 6364136223846793005u + 1442695040888963407u;
            *at++ = (float)(state >> 40) / 8388608.0f - 1 + (float)(tint >> 40) / 8388608.0f - 1;
        }
    }
    return EST_OK;
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

/* model.compile(loss='sparse_categorical_crossentropy', optimizer=SGD(0.001, momentum=0.9), metrics=['accuracy'])
 * model.fit(images, labels, batch_size=batch, epochs=epochs) */
static est_status train(est_network *model, const settings *s)
{
    est_tensor  *images = NULL, *labels = NULL;
    est_history *history = NULL;

    est_status status = make_images(s, &images, &labels);
    if (status == EST_OK) {
        status = est_network_compile(
            model, EST_COMPILE(.loss = "sparse_categorical_crossentropy", .metrics = EST_STRINGS("accuracy"),
                       .optimizer_value = est_momentum(0.001, EST_MOMENTUM(.momentum = 0.9))));
    }
    if (status == EST_OK) {
        status = est_network_fit(model,
            EST_FIT(.arrays = EST_NAMED_TENSORS({ "image", images }, { "label", labels }), .batch_size = s->batch,
                .epochs = s->epochs),
            &history);
    }
    for (int i = 0; i < est_history_epochs(history); i++) {
        printf("epoch %d  loss %.4f  accuracy %.4f\n", i + 1, est_history_value(history, "loss", i),
            est_history_value(history, "accuracy", i));
    }
    est_history_free(history);
    est_tensor_free(images);
    est_tensor_free(labels);
    return status;
}

/* False: not an option, or not a number from 1 on. */
static bool read_option(settings *s, const char *name, const char *value)
{
    const struct {
        const char *name;
        int64_t    *to;
    } options[] = { { "--size", &s->size }, { "--classes", &s->classes }, { "--images", &s->images },
        { "--batch", &s->batch }, { "--epochs", &s->epochs } };

    for (size_t i = 0; value != NULL && i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(name, options[i].name) == 0) return (*options[i].to = strtoll(value, NULL, 10)) > 0;
    }
    return false;
}

int main(int argc, char **argv)
{
    settings     s     = { .size = 32, .classes = 10, .images = 64, .batch = 16, .epochs = 3 };
    est_network *model = NULL;

    for (int i = 1; i < argc; i += 2) {
        if (read_option(&s, argv[i], i + 1 < argc ? argv[i + 1] : NULL)) continue;
        fprintf(stderr, "usage: resnet50 [--size 32] [--classes 10] [--images 64] [--batch 16] [--epochs 3]\n");
        return 2;
    }
    est_status status = make_model(&s, &model);
    if (status == EST_OK) status = est_network_build(model, NULL);
    if (status == EST_OK) {
        printf("%" PRId64 " parameters, images of %" PRId64 "x%" PRId64 "\n", count_params(model), s.size, s.size);
        status = train(model, &s);
    }
    if (status != EST_OK) fprintf(stderr, "resnet50: %s: %s\n", est_status_name(status), est_error_message());
    est_network_free(model);
    return est_exit_code(status);
}
