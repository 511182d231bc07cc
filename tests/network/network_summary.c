/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of layers, line by line as Keras 2.15 prints it, for the three kinds of networks, and what it refuses. */
#include "estoc/feature_column.h"
#include "network/network_test.h"

/* The text that a summary writes; to be freed with free. */
static char *summary(est_network *network)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *file = open_memstream(&text, &size);

    assert_non_null(file);
    assert_ok(est_network_summary(network, file));
    assert_int_equal(fclose(file), 0);
    return text;
}

#define LINE   "_________________________________________________________________\n"
#define DOUBLE "=================================================================\n"
#define SPACE  "                                                                 \n"

TEST(sequential)
{
    est_network *network;
    char        *text;

    assert_ok(est_network_sequential(
        EST_LAYERS(est_layer_conv2d(32, 3, EST_CONV2D(.activation = est_relu)), est_layer_max_pool2d(2, NULL),
                   est_layer_flatten(NULL), est_layer_batch_norm(NULL), est_layer_dropout(0.5, NULL),
                   est_layer_dense(10, EST_DENSE(.name = "a_name_that_is_longer_than_its_column"))),
        EST_NETWORK(.inputs = EST_INPUTS({ "image", EST_F32, EST_SHAPE(28, 28, 1) })), &network));
    assert_int_equal(est_network_count_params(network), 0);
    text = summary(network);
    assert_string_equal(text, "Model: \"sequential\"\n" LINE
                              " Layer (type)                Output Shape              Param #   \n" DOUBLE
                              " conv2d (Conv2D)             (None, 26, 26, 32)        320       \n" SPACE
                              " max_pooling2d (MaxPooling2  (None, 13, 13, 32)        0         \n"
                              " D)                                                              \n" SPACE
                              " flatten (Flatten)           (None, 5408)              0         \n" SPACE
                              " batch_normalization (Batch  (None, 5408)              21632     \n"
                              " Normalization)                                                  \n" SPACE
                              " dropout (Dropout)           (None, 5408)              0         \n" SPACE
                              " a_name_that_is_longer_than  (None, 10)                54090     \n"
                              " _its_column (Dense)                                             \n" SPACE DOUBLE
                              "Total params: 76042 (297.04 KB)\n"
                              "Trainable params: 65226 (254.79 KB)\n"
                              "Non-trainable params: 10816 (42.25 KB)\n" LINE);
    assert_int_equal(est_network_count_params(network), 76042);
    free(text);
    est_network_free(network);
}

/* Layers that are no objects, one that is called twice, one that calls others, a variable of no layer, and a network
 * as a part of another. */
typedef struct parts {
    est_layer   *shared, *lambda;
    est_network *inner;
} parts;

static est_node twice(est_nodes in, bool training, void *user)
{
    (void)training, (void)user;
    return est_dense(est_dense(in.data[0], 3, NULL), 3, NULL);
}

static est_node model(est_graph *graph, est_features inputs, bool training, void *user)
{
    parts   *p = user;
    est_node x = est_dense(est_network_input_node(inputs, "x"), 4, NULL);

    x = est_layer_call(p->shared, est_layer_call(p->shared, x, training), training);
    x = est_dense(x, 3, NULL);
    x = est_layer_call(p->lambda, x, training);
    x = est_add(x, est_network_apply(p->inner, inputs, training));
    return est_mul(x, est_read_variable(est_weight(graph, "scale", EST_SHAPE(3), NULL)));
}

TEST(functional)
{
    parts p = { .shared = est_layer_dense(4, EST_DENSE(.name = "shared")), .lambda = est_layer_lambda(twice, NULL) };
    est_network *network;
    char        *text;

    assert_ok(est_network_sequential(EST_LAYERS(est_layer_dense(3, NULL), est_layer_dense(3, NULL)),
                                     EST_NETWORK(.name = "inner", .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) })),
                                     &p.inner));
    assert_ok(est_network_create(model, EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) }), .user = &p),
                                 &network));
    text = summary(network);
    assert_string_equal(text, "Model: \"model\"\n" LINE
                              " Layer (type)                Output Shape              Param #   \n" DOUBLE
                              " dense (Dense)               (None, 4)                 12        \n" SPACE
                              " shared (Dense)              (None, 4)                 20        \n" SPACE
                              " dense_1 (Dense)             (None, 3)                 15        \n" SPACE
                              " lambda (Lambda)             (None, 3)                 24        \n" SPACE
                              " inner (Sequential)          (None, 3)                 21        \n" SPACE DOUBLE
                              "Total params: 95 (380.00 Byte)\n"
                              "Trainable params: 95 (380.00 Byte)\n"
                              "Non-trainable params: 0 (0.00 Byte)\n" LINE);
    free(text);
    est_network_free(network);
    est_network_free(p.inner);
    est_layer_free(p.shared);
    est_layer_free(p.lambda);
}

static est_node subclass_call(est_network_class *own, est_graph *graph, est_features inputs, bool training)
{
    (void)own, (void)graph, (void)training;
    return est_reshape(est_network_input_node(inputs, "x"), EST_I64S(-1));
}

TEST(subclass)
{
    est_network_class own = EST_NETWORK_CLASS(.call = subclass_call);
    est_network      *network;
    char             *text;

    assert_ok(est_network_subclass(
        &own, EST_NETWORK(.name = "none", .inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) })), &network));
    text = summary(network);
    assert_non_null(strstr(text, "Total params: 0 (0.00 Byte)\n"));
    free(text);
    est_network_free(network);
}

static est_node embedded(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)training;
    return est_dense(est_input_layer(inputs, EST_COLUMN_LIST(user), NULL), 1, NULL);
}

/* The rows of a dynamic embedding come with its keys: it has none yet, whatever room there is. */
TEST(dynamic_embedding)
{
    est_columns      *columns = est_columns_create();
    const est_column *column  = est_dynamic_embedding_column(columns, "id", EST_I64, 2, NULL);
    est_network      *network;

    assert_ok(est_network_create(
        embedded, EST_NETWORK(.user = (void *)(uintptr_t)column, .inputs = EST_INPUTS({ "id", EST_I64, EST_SHAPE(1) })),
        &network));
    assert_ok(est_network_build(network, NULL));
    assert_int_equal(est_network_count_params(network), 4); /* kernel, bias, and the type of the keys */
    est_network_free(network);
    est_columns_free(columns);
}

TEST(refuses)
{
    est_network *network;

    assert_ok(try_line(NULL, &network));
    expect_error(est_network_summary(network, stdout), EST_FAILED_PRECONDITION, "does not know its inputs");
    expect_error(est_network_summary(NULL, stdout), EST_INVALID_ARGUMENT, "network is NULL");
    expect_error(est_network_summary(network, NULL), EST_INVALID_ARGUMENT, "file is NULL");
    assert_int_equal(est_network_count_params(NULL), 0);
    est_network_free(network);
}

TEST(memory)
{
    FAULT_LOOP(f, FAULT_PLACES) {
        est_network *network = NULL;
        FILE        *null    = fopen("/dev/null", "w");
        est_status   status;

        assert_non_null(null);
        fault_arm(&f);
        status = try_line(EST_NETWORK(.inputs = EST_INPUTS({ "x", EST_F32, EST_SHAPE(2) }), .seed = 1), &network);
        if (status == EST_OK) status = est_network_summary(network, null);
        fault_check(&f, status);
        est_network_free(network);
        fclose(null);
    }
}
