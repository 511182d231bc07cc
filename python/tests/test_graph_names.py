# SPDX-License-Identifier: Apache-2.0
"""Names of the variables of Keras models in a model_fn and in graphs of TensorFlow 1.x, as TensorFlow 2.15 has them."""
import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras


class Scaled(K.layers.Layer):
    def __init__(self, **named):
        super().__init__(**named)
        self.dense = K.layers.Dense(1)

    def build(self, shape):
        self.w = self.add_weight("w", (3,), initializer="ones")
        super().build(shape)

    def call(self, x):
        return self.dense(x * self.w)


def two(**named):
    return K.Sequential([K.layers.Dense(4), K.layers.Dense(1)], **named)


def functional(*layers):
    x = y = K.Input((3,))
    for layer in layers:
        y = layer(y)
    return K.Model(x, y)


def built():
    model = two()
    model.build((None, 3))
    return model


NAMES = {
    "without a shape": (two, ["sequential/dense", "sequential/dense_1"]),
    "with a name": (lambda: two(name="tower"), ["tower/dense", "tower/dense_1"]),
    "with a shape": (lambda: K.Sequential([K.layers.Dense(4, input_shape=(3,)), K.layers.Dense(1)]), ["dense", "dense_1"]),
    "built": (built, ["dense", "dense_1"]),
    "in another one": (lambda: K.Sequential([two(), K.layers.Dense(1)]),
                       ["sequential_1/dense_2", "sequential_1/sequential/dense", "sequential_1/sequential/dense_1"]),
    "in a functional model": (lambda: functional(two()), ["sequential/dense", "sequential/dense_1"]),
    "of layers in layers": (lambda: K.Sequential([Scaled(), K.layers.Dense(1)]),
                            ["sequential/dense_1", "sequential/scaled", "sequential/scaled/dense"]),
    "functional": (lambda: functional(Scaled(name="s"), K.layers.Dense(1)), ["dense_1", "s", "s/dense"]),
}


@pytest.mark.parametrize("make, names", NAMES.values(), ids=NAMES)
def test_names_in_a_model_fn(tmp_path, make, names):
    def model_fn(features, labels, mode):
        loss = tf.reduce_mean((make()(features) - labels) ** 2)
        step = tf.compat.v1.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.compat.v1.train.GradientDescentOptimizer(
            0.01).minimize(loss, step))

    tf.estimator.Estimator(model_fn, str(tmp_path)).train(
        lambda: tf.data.Dataset.from_tensors((np.ones((2, 3), "f"), np.ones((2, 1), "f"))), steps=1)
    found = [name for name, _ in tf.train.list_variables(str(tmp_path)) if "/" in name and not name.startswith("estoc")]
    assert sorted({name.rsplit("/", 1)[0] for name in found}) == names


@pytest.mark.parametrize("make, names", NAMES.values(), ids=NAMES)
def test_names_in_a_graph(make, names):
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, (None, 3))
        y = make()(x)
        found = [variable.name for variable in tf.compat.v1.trainable_variables()]
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            assert session.run(y, {x: np.ones((2, 3))}).shape == (2, 1)
    assert sorted({name.rsplit("/", 1)[0] for name in found}) == names
