# SPDX-License-Identifier: Apache-2.0
"""Keras' side of layers.c; the networks are the same there."""
import sys
import traceback

import interop
import numpy as np
import tensorflow as tf

L = tf.keras.layers


# --- networks --------------------------------------------------------------------------------------------------------

def conv(x):
    return L.Conv2D(3, 3, padding="same", activation="relu")(x)


def last(x, units=2):
    """Made after what is before it: Keras counts the names of layers when they are made, Estoc when they are called."""
    return L.Dense(units)(x)


def out(x):
    return last(L.Flatten()(x))


def dense(x, _):
    return last(L.Dense(4, activation="relu")(x), 3)


def shared(x, _):
    layer = L.Dense(4, activation="tanh", kernel_regularizer=tf.keras.regularizers.l2(0.01))
    return last(L.Concatenate()([layer(x), layer(tf.square(x))]))


def conv2d(x, _):
    return out(conv(x))


def depthwise(x, _):
    return out(L.DepthwiseConv2D(3, depth_multiplier=2, activation="relu")(x))


def separable(x, _):
    return out(L.SeparableConv2D(4, 3, strides=2, padding="same", depth_multiplier=2, activation="relu")(x))


def max_pool(x, _):
    return out(L.MaxPooling2D(2)(conv(x)))


def average_pool(x, _):
    return out(L.AveragePooling2D(2, strides=1, padding="same")(conv(x)))


def global_max(x, _):
    return last(L.GlobalMaxPooling2D()(conv(x)))


def global_average(x, _):
    return last(L.GlobalAveragePooling2D()(conv(x)))


def batch_norm(x, _):
    return last(L.BatchNormalization(momentum=0.9)(L.Dense(4)(x)))


def batch_norm_images(x, _):
    x = L.BatchNormalization(momentum=0.9)(L.Conv2D(3, 3)(x))
    return last(L.GlobalAveragePooling2D()(L.Activation("relu")(x)))


def layer_norm(x, _):
    return out(L.LayerNormalization()(x))


def reshape(x, _):
    return last(L.Reshape((3, -1))(L.Dense(12)(x)))


def merge(x, _):
    a, b = L.Dense(4)(x), L.Dense(4)(x)
    return last(L.Concatenate(axis=1)([L.Add()([a, b]), L.Multiply()([a, b])]))


def merge_ranks(x, _):
    row = L.Dense(3)(L.Flatten()(x))
    return out(L.Multiply()([L.Add()([row, x]), row]))


def dot(x, _):
    return last(L.Dot(axes=1, normalize=True)([L.Dense(4)(x), L.Dense(4)(x)]))


def dot_of_rows(x, _):
    return out(L.Dot(axes=(2, 2))([x, L.Dense(3)(x)]))


def embedding(x, _):
    return out(L.Embedding(10, 4)(x))


def attention(x, _):
    x = L.Embedding(10, 4, mask_zero=True)(x)  # its mask is that of queries and values
    return out(L.Attention(use_scale=True)([x, x]))


def attention_concat(x, _):
    x = L.Embedding(10, 4)(x)
    return out(L.Attention(use_scale=True, score_mode="concat")([x, x]))


def additive_attention(x, _):
    x = L.Embedding(10, 4)(x)
    return out(L.AdditiveAttention()([x, L.Dense(4)(x)], use_causal_mask=True))


def multi_head(x, _):
    mask = tf.not_equal(x, 0)[:, tf.newaxis, :]
    x = L.Embedding(10, 4)(x)
    return out(L.MultiHeadAttention(2, 3, value_dim=2)(x, x, attention_mask=mask))


def multi_head_causal(x, _):
    x = L.Embedding(10, 4)(x)
    return out(L.MultiHeadAttention(2, 3, output_shape=5)(x, x, use_causal_mask=True))


def conv_options(x, _):
    x = L.Conv2D(3, (3, 2), strides=(2, 1), padding="same", activation="elu")(x)
    return out(L.DepthwiseConv2D(2, strides=2, depth_multiplier=2, padding="same", use_bias=False)(x))


def pool_options(x, _):
    x = L.MaxPooling2D((3, 2), strides=(2, 1), padding="same")(conv(x))
    return out(L.AveragePooling2D((2, 3), strides=1)(x))


def norm_options(x, _):
    x = L.BatchNormalization(momentum=0.8, epsilon=0.01, center=False)(L.Dense(4)(x))
    return out(L.LayerNormalization(epsilon=0.1, scale=False)(x))


def attention_keys(x, _):
    x = L.Embedding(10, 4)(x)
    return out(L.Attention()([x, L.Dense(3)(x), L.Dense(4)(x)]))


def multi_head_keys(x, _):
    x = L.Embedding(10, 4)(x)
    return out(L.MultiHeadAttention(2, 3, use_bias=False)(x, L.Dense(3)(x), L.Dense(5)(x)))


def frozen(x, _):
    first, norm = L.Dense(4), L.BatchNormalization()
    first.trainable = norm.trainable = False
    return last(norm(first(x)))


class Scaled(L.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", shape[-1:], initializer="ones")

    def call(self, x):
        return x * self.w


def own(x, _):
    return last(Scaled()(L.Dense(4)(x)))


def adapted(layer, data):
    layer.adapt(tf.data.Dataset.from_tensor_slices(data).batch(7))
    return layer


def normalization(x, data):
    return last(adapted(L.Normalization(), data)(x))


def discretization(x, data):
    return last(L.CategoryEncoding(5)(adapted(L.Discretization(num_bins=5, epsilon=0.05), data)(x)))


def category_count(x, _):
    return last(L.CategoryEncoding(10, output_mode="count")(x))


def category_one_hot(x, _):
    return last(L.CategoryEncoding(10, output_mode="one_hot")(x))


def hashing_salt(x, _):
    return out(L.Add()([L.Embedding(7, 4)(L.Hashing(7, salt=133)(x)),
                        L.Embedding(7, 4)(L.Hashing(7, salt=[133, 137], mask_value=0)(x))]))


def hashing(x, _):
    return out(L.Add()([L.Embedding(7, 4)(L.Hashing(7)(x)), L.Embedding(7, 4)(L.Hashing(7, mask_value=0)(x))]))


def string_lookup(x, _):
    words = L.StringLookup(vocabulary=["3", "5", "1"], mask_token="0")(tf.strings.as_string(x))
    return out(L.Embedding(5, 4)(words))


def dropout(x, _):
    return last(L.Dropout(0.5)(L.Dense(4)(x)))


KINDS = (dense, shared, conv2d, depthwise, separable, max_pool, average_pool, global_max, global_average, batch_norm,
         batch_norm_images, layer_norm, reshape, merge, merge_ranks, dot, dot_of_rows, embedding, attention,
         attention_concat, additive_attention, multi_head, multi_head_causal, conv_options, pool_options, norm_options,
         attention_keys, multi_head_keys, frozen, own, normalization, discretization, category_count, category_one_hot,
         hashing, hashing_salt, string_lookup, dropout)


# --- training --------------------------------------------------------------------------------------------------------

def variables_of(model):
    """By the names that this side uses. Keras builds Normalization outside of its scope; the summary from which a
    Discretization has its boundaries is no variable here."""
    found = {}
    for variable in model.weights:
        name = variable.name.removesuffix(":0")
        if name != "summary":
            found["normalization/" + name if name in ("mean", "variance", "count") else name] = variable
    return found


def train(model, told, training):
    optimizer = tf.keras.optimizers.SGD(0.02)
    x, labels, losses = tf.constant(told["x"]), told["labels"], []
    for _ in range(len(told["losses"])):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=training) - labels)) + sum(model.losses)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights))
        losses.append(float(loss))
    return losses


def check_kind(kind, told):
    tf.keras.backend.clear_session()
    x = tf.keras.Input(told["x"].shape[1:], dtype=told["x"].dtype)
    model = tf.keras.Model(x, kind(x, told["data"]))
    before = {name.removeprefix("before "): value for name, value in told.items() if name.startswith("before ")}
    variables = variables_of(model)
    assert sorted(variables) == sorted(before), (sorted(variables), sorted(before))
    for name, variable in variables.items():
        assert tuple(variable.shape) == before[name].shape, (name, variable.shape, before[name].shape)
        if name.startswith("normalization/"):
            assert np.allclose(variable.numpy(), before[name], rtol=1e-6, atol=1e-7), (name, variable, before[name])
        else:
            variable.assign(before[name])
    for layer in model.layers:
        if isinstance(layer, L.Discretization):
            assert np.allclose(layer.bin_boundaries, told["boundaries"], rtol=1e-6, atol=1e-6), layer.bin_boundaries
    losses = train(model, told, kind is not dropout)
    assert np.allclose(told["losses"], losses, rtol=1e-5, atol=0), (told["losses"], losses)
    largest = max(np.abs(v.numpy()).max() for v in variables.values() if v.dtype == tf.float32)
    for name, variable in variables.items():
        off = np.abs(variable.numpy() - told["after " + name]).max()
        assert off <= 1e-5 * largest, (name, off, largest)


def check_training(folder):
    wrong = []
    for kind in KINDS:
        try:
            check_kind(kind, interop.read_tensors(f"{folder}/{kind.__name__}"))
        except Exception:
            traceback.print_exc()
            wrong.append(kind.__name__)
    assert not wrong, wrong


interop.serve(sys.modules[__name__])
