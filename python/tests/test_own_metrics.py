# SPDX-License-Identifier: Apache-2.0
"""Metrics and steps that are written in Python, in all calls of a model; the values are those of TensorFlow 2.15."""
import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras
X = (np.arange(80).reshape(20, 4) % 7).astype("f")
Y = X[:, :1]


class Product(K.metrics.Metric):
    def __init__(self, name="product", **named):
        super().__init__(name=name, **named)
        self.total = self.add_weight("total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_sum(y_true * y_pred))

    def result(self):
        return self.total


def model(**named):
    made = K.Sequential([K.layers.Dense(1, kernel_initializer="ones", **named)])
    made.compile(K.optimizers.SGD(0.001), "mse", metrics=[Product(), "mae"])
    return made


@pytest.mark.parametrize("named", [{}, {"input_shape": (4,)}], ids=["built later", "built"])
def test_a_metric_of_ones_own_in_compile(named):
    m = model(**named)
    history = m.fit(X, Y, epochs=2, batch_size=5, shuffle=False, verbose=0, validation_split=0.5).history
    assert history["product"] == pytest.approx([326.252, 290.585], abs=2e-3)
    assert history["val_mae"] == pytest.approx([7.187, 6.068], abs=2e-3)
    assert m.evaluate(X, Y, verbose=0) == pytest.approx([47.878, 594.090, 6.280], abs=2e-3)
    assert m.train_on_batch(X, Y) == pytest.approx([47.878, 594.090, 6.280], abs=2e-3)
    assert m.test_on_batch(X, Y, return_dict=True) == pytest.approx(
        {"loss": 41.257, "product": 563.820, "mae": 5.792}, abs=2e-3)
    assert m.predict(X, verbose=0).shape == (20, 1) and m.metrics_names == ["loss", "product", "mae"]

    m = model(**named)
    assert m.predict(X[:2], verbose=0).ravel().tolist() == [6, 15]
    assert m.train_on_batch(X, Y) == pytest.approx([88.5, 744, 8.7])
    m.compile(K.optimizers.SGD(0.001), "mse", metrics=["mae"])
    assert list(m.fit(X, Y, verbose=0).history) == ["loss", "mae"]
    m.compile(K.optimizers.SGD(0.001), "mse", weighted_metrics=[Product()])
    assert list(m.fit(X, Y, verbose=0).history) == ["loss", "product"]


class Tenfold(K.Model):
    def __init__(self):
        super().__init__()
        self.dense = K.layers.Dense(1, kernel_initializer="ones")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2) * 10.0
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"tenfold": loss}


def test_train_on_batch_calls_a_train_step_of_ones_own():
    m = Tenfold()
    m.compile(K.optimizers.SGD(0.0001), "mse")
    assert m.train_on_batch(X, Y, return_dict=True) == pytest.approx({"tenfold": 885})
    assert m.train_on_batch(X[:3], Y[:3]) == pytest.approx(682.958, abs=1e-2)
    assert m.get_weights()[0].ravel() == pytest.approx([0.919, 0.892, 0.873, 0.910], abs=1e-3)
    m.fit(X, Y, verbose=0)
    assert m.train_on_batch(X, Y) == pytest.approx(571.138, abs=1e-2)
    assert m.predict(X[:2], verbose=0).ravel() == pytest.approx([4.720, 11.899], abs=1e-3)


def test_an_input_that_is_missing_is_named():
    a, b = K.Input((1,), name="a"), K.Input((1,), name="b")
    m = K.Model([a, b], a + b)
    m.compile("sgd", "mse")
    for call in (m.predict, lambda x: m.fit(x, np.ones(4))):
        with pytest.raises(ValueError, match=r"""Missing data for input "b".*keys \['a'\].*\['a', 'b'\]"""):
            call({"a": np.ones((4, 1))})
