# SPDX-License-Identifier: Apache-2.0
"""Names of the variables of Keras models in a model_fn and in graphs of TensorFlow 1.x, as TensorFlow 2.15 has them."""
import numpy as np
import pytest

import estoc.tf as tf
from estoc import checkpoint

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


def test_names_of_variables_in_a_model_fn_are_those_of_tensors(tmp_path):
    v1, found = tf.compat.v1, {}

    def model_fn(features, labels, mode):
        with v1.variable_scope("s"):
            own = v1.get_variable("a", [3, 1])
        y = v1.layers.dense(features, 1) + tf.matmul(features, own) + (other := tf.Variable(2.0, name="c"))
        loss = tf.reduce_mean((y - labels) ** 2)
        optimizer, step = v1.train.MomentumOptimizer(0.1, 0.9), v1.train.get_or_create_global_step()
        pairs = optimizer.compute_gradients(loss)
        train_op = optimizer.apply_gradients(pairs, step)
        average = v1.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train_op]):
            train_op = average.apply([own])
        found["own"] = [own.name, own.op.name, other.name, other.op.name, step.name, average.average_name(own)]
        found["trained"] = [v.name for v in v1.trainable_variables()]
        found["pairs"] = [v.name for _, v in pairs]
        found["all"] = sorted(v.name for v in v1.global_variables())
        found["ops"] = sorted(v.op.name for v in v1.global_variables())
        found["restored"] = sorted(average.variables_to_restore())
        v1.summary.histogram(own.op.name, own)
        v1.train.init_from_checkpoint(str(tmp_path / "before"), {"w": own})
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[
            v1.train.LoggingTensorHook([own], every_n_iter=1)])

    checkpoint.save_checkpoint(str(tmp_path / "before"), {"w": np.full((3, 1), 7.0, "f")})
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(lambda: tf.data.Dataset.from_tensors((np.zeros((2, 3), "f"), np.ones((2, 1), "f"))), steps=1)
    trained = ["s/a", "dense/kernel", "dense/bias", "c"]
    all_names = sorted([*trained, *(name + "/Momentum" for name in trained), "global_step", "s/a/ExponentialMovingAverage"])
    assert found == {
        "own": ["s/a:0", "s/a", "c:0", "c", "global_step:0", "s/a/ExponentialMovingAverage"],
        "trained": [name + ":0" for name in trained], "pairs": [name + ":0" for name in trained],
        "all": sorted(name + ":0" for name in all_names), "ops": all_names,
        "restored": sorted([name for name in all_names if name not in trained and "Exp" not in name] +
                           [name + "/ExponentialMovingAverage" for name in trained])}
    assert set(all_names) <= set(estimator.get_variable_names())
    np.testing.assert_array_equal(estimator.get_variable_value("s/a"), np.full((3, 1), 7.0, "f"))


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
