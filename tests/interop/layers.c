/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers beside Keras: for each kind a small network, 20 steps of gradient descent on one batch from the same weights.
 * This side draws batch, labels and weights, trains, and tells the losses and the variables before and after;
 * layers.py has the same networks, compares, and checks the names of variables. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/interop.h"

#define ROWS  8
#define STEPS 20

static uint64_t drawn;

static uint64_t draw(uint64_t n) /* below n */
{
    drawn = drawn * 6364136223846793005U + 1442695040888963407U;
    return (drawn >> 33) % n;
}

static est_tensor *draw_floats(est_shape shape)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create(EST_F32, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        ((float *)est_tensor_mutable_data(tensor))[i] = (float)draw(4000) / 1000 - 2;
    }
    return tensor;
}

static est_tensor *draw_ids(est_shape shape, uint64_t n)
{
    est_tensor *tensor = NULL;

    interop_check(est_tensor_create(EST_I64, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        ((int64_t *)est_tensor_mutable_data(tensor))[i] = (int64_t)draw(n);
    }
    return tensor;
}

/* --- networks ----------------------------------------------------------------------------------------------------- */

static bool training; /* of calls */

/* Calls a layer once and frees it. */
static est_node use(est_layer *layer, est_node x)
{
    est_node y = est_layer_call(layer, x, training);

    est_layer_free(layer);
    return y;
}

static est_node use_two(est_layer *layer, est_node a, est_node b, const est_call_options *options)
{
    est_node y = est_layer_call_with(layer, EST_NODES(a, b), options);

    est_layer_free(layer);
    return y;
}

static est_node dense(est_node x, int64_t units)
{
    return use(est_layer_dense(units, NULL), x);
}

static est_node flat(est_node x)
{
    return use(est_layer_flatten(NULL), x);
}

static est_node conv(est_node x)
{
    return use(est_layer_conv2d(3, 3, EST_CONV2D(.padding = EST_SAME, .activation = est_relu)), x);
}

static est_node build_dense(est_node x)
{
    return dense(use(est_layer_dense(4, EST_DENSE(.activation = est_relu)), x), 3);
}

static est_node build_shared(est_node x)
{
    est_layer *d = est_layer_dense(4,
                                   EST_DENSE(.activation = est_tanh, .kernel_regularizer = est_l2_regularizer(0.01)));
    est_node   a = est_layer_call(d, x, true), b = est_layer_call(d, est_square(x), true);

    est_layer_free(d);
    return dense(use_two(est_layer_concatenate(-1, NULL), a, b, NULL), 2);
}

static est_node build_conv2d(est_node x)
{
    return dense(flat(conv(x)), 2);
}

static est_node build_depthwise(est_node x)
{
    return dense(flat(use(est_layer_depthwise_conv2d(2, 3, EST_CONV2D(.activation = est_relu)), x)), 2);
}

static est_node build_separable(est_node x)
{
    return dense(
        flat(use(est_layer_separable_conv2d(4, 3,
                                            EST_SEPARABLE_CONV2D(.padding = EST_SAME, .stride = 2,
                                                                 .depth_multiplier = 2, .activation = est_relu)),
                 x)),
        2);
}

static est_node build_max_pool(est_node x)
{
    return dense(flat(use(est_layer_max_pool2d(2, NULL), conv(x))), 2);
}

static est_node build_average_pool(est_node x)
{
    return dense(flat(use(est_layer_avg_pool2d(2, EST_POOL2D(.stride = 1, .padding = EST_SAME)), conv(x))), 2);
}

static est_node build_global_max(est_node x)
{
    return dense(use(est_layer_global_max_pool2d(NULL), conv(x)), 2);
}

static est_node build_global_average(est_node x)
{
    return dense(use(est_layer_global_avg_pool2d(NULL), conv(x)), 2);
}

static est_node build_batch_norm(est_node x)
{
    return dense(use(est_layer_batch_norm(EST_BATCH_NORM(.momentum = 0.9)), dense(x, 4)), 2);
}

static est_node build_batch_norm_images(est_node x)
{
    x = use(est_layer_batch_norm(EST_BATCH_NORM(.momentum = 0.9)), use(est_layer_conv2d(3, 3, NULL), x));
    return dense(use(est_layer_global_avg_pool2d(NULL), use(est_layer_activation(est_relu, NULL), x)), 2);
}

static est_node build_layer_norm(est_node x)
{
    return dense(flat(use(est_layer_layer_norm(NULL), x)), 2);
}

static est_node build_dropout(est_node x)
{
    return dense(use(est_layer_dropout(0.5, NULL), dense(x, 4)), 2);
}

static est_node build_embedding(est_node ids)
{
    return dense(flat(use(est_layer_embedding(10, 4, NULL), ids)), 2);
}

static est_node build_reshape(est_node x)
{
    return dense(use(est_layer_reshape(EST_I64S(3, -1), NULL), dense(x, 12)), 2);
}

static est_node build_merge(est_node x)
{
    est_node a = dense(x, 4), b = dense(x, 4);

    return dense(use_two(est_layer_concatenate(1, NULL), use_two(est_layer_add(NULL), a, b, NULL),
                         use_two(est_layer_multiply(NULL), a, b, NULL), NULL),
                 2);
}

/* A row of each example with all of its rows. */
static est_node build_merge_ranks(est_node x)
{
    est_node row = dense(flat(x), 3);

    return dense(flat(use_two(est_layer_multiply(NULL), use_two(est_layer_add(NULL), row, x, NULL), row, NULL)), 2);
}

static est_node build_dot(est_node x)
{
    est_node a = dense(x, 4), b = dense(x, 4);

    return dense(use_two(est_layer_dot(1, EST_DOT(.normalize = true)), a, b, NULL), 2);
}

static est_node build_dot_of_rows(est_node x)
{
    return dense(flat(use_two(est_layer_dot(2, EST_DOT(.second_axis = 2)), x, dense(x, 3), NULL)), 2);
}

/* Ids that are not 0 count. */
static est_node mask_of(est_node ids)
{
    return est_not_equal(ids, est_scalar(ids.graph, EST_I64, 0));
}

static est_node build_attention(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids), mask = mask_of(ids);

    x = use_two(est_layer_attention(EST_ATTENTION(.use_scale = true)), x, x,
                EST_CALL(.mask = mask, .query_mask = mask));
    return dense(flat(x), 2);
}

static est_node build_attention_concat(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids);

    return dense(flat(use_two(est_layer_attention(EST_ATTENTION(.use_scale = true, .concat = true)), x, x, NULL)), 2);
}

static est_node build_additive_attention(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids);

    return dense(flat(use_two(est_layer_additive_attention(EST_ATTENTION(.causal = true)), x, dense(x, 4), NULL)), 2);
}

static est_node build_multi_head(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids);

    x = use_two(est_layer_multi_head_attention(2, 3, EST_MULTI_HEAD(.value_dim = 2)), x, x,
                EST_CALL(.mask = mask_of(ids)));
    return dense(flat(x), 2);
}

static est_node build_multi_head_causal(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids);

    x = use_two(est_layer_multi_head_attention(2, 3, EST_MULTI_HEAD(.causal = true, .units = 5)), x, x, NULL);
    return dense(flat(x), 2);
}

/* --- the same with other options ---------------------------------------------------------------------------------- */

static est_node use_three(est_layer *layer, est_node query, est_node value, est_node key)
{
    est_node y = est_layer_call_with(layer, EST_NODES(query, value, key), EST_CALL(.training = training));

    est_layer_free(layer);
    return y;
}

static est_node build_conv_options(est_node x)
{
    x = use(est_layer_conv2d(3, 3,
                             EST_CONV2D(.kernel_width = 2, .stride = 2, .stride_width = 1, .padding = EST_SAME,
                                        .activation = est_elu)),
            x);
    x = use(est_layer_depthwise_conv2d(2, 2, EST_CONV2D(.stride = 2, .padding = EST_SAME, .no_bias = true)), x);
    return dense(flat(x), 2);
}

static est_node build_pool_options(est_node x)
{
    x = use(est_layer_max_pool2d(3, EST_POOL2D(.width = 2, .stride = 2, .stride_width = 1, .padding = EST_SAME)),
            conv(x));
    return dense(flat(use(est_layer_avg_pool2d(2, EST_POOL2D(.width = 3, .stride = 1)), x)), 2);
}

static est_node build_norm_options(est_node x)
{
    x = use(est_layer_batch_norm(EST_BATCH_NORM(.momentum = 0.8, .epsilon = 0.01, .no_center = true)), dense(x, 4));
    return dense(flat(use(est_layer_layer_norm(EST_LAYER_NORM(.epsilon = 0.1, .no_scale = true)), x)), 2);
}

static est_node build_attention_keys(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids), value = dense(x, 3), key = dense(x, 4);

    return dense(flat(use_three(est_layer_attention(NULL), x, value, key)), 2);
}

static est_node build_multi_head_keys(est_node ids)
{
    est_node x = use(est_layer_embedding(10, 4, NULL), ids), value = dense(x, 3), key = dense(x, 5);

    x = use_three(est_layer_multi_head_attention(2, 3, EST_MULTI_HEAD(.no_bias = true)), x, value, key);
    return dense(flat(x), 2);
}

/* Layers that are not trained: a batch normalisation then normalises by its averages. */
static est_node build_frozen(est_node x)
{
    est_layer *first = est_layer_dense(4, NULL), *norm = est_layer_batch_norm(NULL);

    est_layer_set_trainable(first, false);
    est_layer_set_trainable(norm, false);
    return dense(use(norm, use(first, x)), 2);
}

static est_node scaled(est_nodes in, bool is_training, void *user)
{
    est_node w = est_weight(in.data[0].graph, "w", EST_SHAPE(4), EST_WEIGHT(.initializer = est_init_constant(0.5)));

    (void)is_training;
    (void)user;
    return est_mul(in.data[0], est_read_variable(w));
}

static est_node build_own(est_node x)
{
    return dense(use(est_layer_lambda(scaled, EST_LAMBDA(.name = "scaled")), dense(x, 4)), 2);
}

/* What layers adapt to; told beside the batch. */
static est_tensor *data;
static est_tensor *boundaries; /* found by a discretization; NULL: none yet */

static est_layer *adapted(est_layer *layer)
{
    est_dataset *d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "x", data })), 7, NULL);

    interop_check(est_dataset_finish(d, &d));
    interop_check(est_layer_adapt(layer, d, "x"));
    est_dataset_free(d);
    return layer;
}

static est_node build_normalization(est_node x)
{
    return dense(use(adapted(est_layer_normalization(NULL)), x), 2);
}

static est_node build_discretization(est_node x)
{
    est_layer *layer = adapted(est_layer_discretization(EST_DISCRETIZATION(.num_bins = 5, .epsilon = 0.05)));
    est_f32s   found = est_layer_boundaries(layer);

    interop_check(est_tensor_f32(EST_SHAPE(found.n), found.data, &boundaries));
    x = use(layer, x);
    return dense(use(est_layer_category_encoding(5, NULL), x), 2);
}

static est_node build_category_count(est_node ids)
{
    return dense(use(est_layer_category_encoding(10, EST_CATEGORY_ENCODING(.mode = EST_COUNTS)), ids), 2);
}

static est_node build_category_one_hot(est_node ids)
{
    return dense(use(est_layer_category_encoding(10, EST_CATEGORY_ENCODING(.mode = EST_ONE_HOT)), ids), 2);
}

static est_node build_hashed(est_node ids, est_layer *first, est_layer *second)
{
    est_node a = use(est_layer_embedding(7, 4, NULL), use(first, ids));
    est_node b = use(est_layer_embedding(7, 4, NULL), use(second, ids));

    return dense(flat(use_two(est_layer_add(NULL), a, b, NULL)), 2);
}

static est_node build_hashing(est_node ids)
{
    return build_hashed(ids, est_layer_hashing(7, NULL), est_layer_hashing(7, EST_HASHING(.mask_value = "0")));
}

static est_node build_hashing_salt(est_node ids)
{
    return build_hashed(ids, est_layer_hashing(7, EST_HASHING(.salt = EST_I64S(133))),
                        est_layer_hashing(7, EST_HASHING(.salt = EST_I64S(133, 137), .mask_value = "0")));
}

static est_node build_string_lookup(est_node ids)
{
    est_node words = est_as_string(ids);

    words = use(
        est_layer_string_lookup(EST_STRING_LOOKUP(.vocabulary = EST_STRINGS("3", "5", "1"), .mask_token = "0"), NULL),
        words);
    return dense(flat(use(est_layer_embedding(5, 4, NULL), words)), 2);
}

/* --- training ----------------------------------------------------------------------------------------------------- */

static void say_variables(est_strbuf *out, est_session *session, const char *when)
{
    for (int i = 0; i < est_session_variables(session); i++) {
        est_tensor *value = NULL;
        char        name[256];

        if (strcmp(est_session_variable(session, i), "global_step") == 0) continue;
        snprintf(name, sizeof name, "%s %s", when, est_session_variable(session, i));
        interop_check(est_session_read(session, est_session_variable(session, i), &value));
        interop_tensor(out, name, value);
        est_tensor_free(value);
    }
}

static void train(est_session *session, est_node x, est_tensor *batch, est_node loss, est_node step, float *losses)
{
    for (int i = 0; i < STEPS; i++) {
        est_tensor *value = NULL;

        interop_check(est_session_run(session, EST_FEEDS({ x, batch }), EST_NODES(loss), EST_NODES(step), &value));
        losses[i] = *(const float *)est_tensor_data(value);
        est_tensor_free(value);
    }
}

static est_tensor *draw_labels(est_node y)
{
    est_shape shape = *est_node_shape(y);

    shape.dim[0] = ROWS;
    return draw_floats(shape);
}

static void say_training(const char *name, est_tensor *batch, est_node (*build)(est_node x))
{
    est_shape    shape   = *est_tensor_shape(batch);
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_strbuf   out     = { 0 };
    est_tensor  *labels, *told = NULL;
    est_node     x, y, loss, step;
    float        losses[STEPS];

    shape.dim[0] = -1;
    interop_check(est_graph_create(1, &graph));
    x = est_placeholder(graph, "x", est_tensor_dtype(batch), shape);
    y = build(x);
    interop_check(est_graph_status(graph));
    labels = draw_labels(y);
    loss   = est_add(est_mean(est_square(est_sub(y, est_const(graph, labels)))), est_regularization_loss(graph));
    step   = est_minimize(est_sgd(0.02), loss, NULL);
    interop_check(est_graph_status(graph));
    interop_check(est_session_create(graph, EST_SESSION(.threads = 1), &session));
    interop_check(est_session_init(session));
    interop_tensor(&out, "x", batch);
    interop_tensor(&out, "labels", labels);
    interop_tensor(&out, "data", data);
    if (boundaries != NULL) interop_tensor(&out, "boundaries", boundaries);
    say_variables(&out, session, "before");
    train(session, x, batch, loss, step, losses);
    say_variables(&out, session, "after");
    interop_check(est_tensor_f32(EST_SHAPE(STEPS), losses, &told));
    interop_tensor(&out, "losses", told);
    interop_save(name, &out);
    est_tensor_free(told);
    est_tensor_free(labels);
    est_tensor_free(batch);
    est_session_free(session);
    est_graph_free(graph);
}

TEST(training)
{
    est_shape rows = EST_SHAPE(ROWS, 5), images = EST_SHAPE(ROWS, 6, 6, 2), sequences = EST_SHAPE(ROWS, 4, 3);

    data     = draw_floats(EST_SHAPE(100, 5));
    training = true;
    say_training("dense", draw_floats(rows), build_dense);
    say_training("shared", draw_floats(rows), build_shared);
    say_training("conv2d", draw_floats(images), build_conv2d);
    say_training("depthwise", draw_floats(images), build_depthwise);
    say_training("separable", draw_floats(images), build_separable);
    say_training("max_pool", draw_floats(images), build_max_pool);
    say_training("average_pool", draw_floats(images), build_average_pool);
    say_training("global_max", draw_floats(images), build_global_max);
    say_training("global_average", draw_floats(images), build_global_average);
    say_training("batch_norm", draw_floats(rows), build_batch_norm);
    say_training("batch_norm_images", draw_floats(images), build_batch_norm_images);
    say_training("layer_norm", draw_floats(sequences), build_layer_norm);
    say_training("reshape", draw_floats(rows), build_reshape);
    say_training("merge", draw_floats(rows), build_merge);
    say_training("merge_ranks", draw_floats(sequences), build_merge_ranks);
    say_training("dot", draw_floats(rows), build_dot);
    say_training("dot_of_rows", draw_floats(sequences), build_dot_of_rows);
    say_training("embedding", draw_ids(EST_SHAPE(ROWS, 3), 10), build_embedding);
    say_training("attention", draw_ids(EST_SHAPE(ROWS, 5), 4), build_attention);
    say_training("attention_concat", draw_ids(EST_SHAPE(ROWS, 5), 10), build_attention_concat);
    say_training("additive_attention", draw_ids(EST_SHAPE(ROWS, 5), 10), build_additive_attention);
    say_training("multi_head", draw_ids(EST_SHAPE(ROWS, 5), 4), build_multi_head);
    say_training("multi_head_causal", draw_ids(EST_SHAPE(ROWS, 5), 10), build_multi_head_causal);
    say_training("conv_options", draw_floats(images), build_conv_options);
    say_training("pool_options", draw_floats(images), build_pool_options);
    say_training("norm_options", draw_floats(sequences), build_norm_options);
    say_training("attention_keys", draw_ids(EST_SHAPE(ROWS, 5), 10), build_attention_keys);
    say_training("multi_head_keys", draw_ids(EST_SHAPE(ROWS, 5), 10), build_multi_head_keys);
    say_training("frozen", draw_floats(rows), build_frozen);
    say_training("own", draw_floats(rows), build_own);
    say_training("normalization", draw_floats(rows), build_normalization);
    say_training("discretization", draw_floats(rows), build_discretization);
    say_training("category_count", draw_ids(EST_SHAPE(ROWS, 3), 10), build_category_count);
    say_training("category_one_hot", draw_ids(EST_SHAPE(ROWS, 1), 10), build_category_one_hot);
    say_training("hashing", draw_ids(EST_SHAPE(ROWS, 3), 10), build_hashing);
    say_training("hashing_salt", draw_ids(EST_SHAPE(ROWS, 3), 10), build_hashing_salt);
    say_training("string_lookup", draw_ids(EST_SHAPE(ROWS, 3), 7), build_string_lookup);
    training = false; /* random numbers differ: dropout that does not train */
    say_training("dropout", draw_floats(rows), build_dropout);
    interop_ask("check_training");
    est_tensor_free(data);
    est_tensor_free(boundaries);
}

int main(void)
{
    return INTEROP_MAIN("layers");
}
