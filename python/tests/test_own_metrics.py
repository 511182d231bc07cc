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


def functional(metrics, **named):
    x = K.Input((4,))
    made = K.Model(x, K.layers.Dense(1, kernel_initializer="ones", name="b")(x))
    made.compile(K.optimizers.SGD(0.0001), "mse", metrics=metrics, **named)
    return made


@pytest.mark.parametrize("metrics, first, second, third, fresh", [
    (lambda: ["mae"], [86.2, 9.0], [87.545, 8.651], [88.771, 8.706], [92.273, 8.864]),
    (lambda: [Product(), "mae"], [86.2, 158.0, 9.0], [87.545, 740.803, 8.651], [88.771, 1003.828, 8.706],
     [92.273, 263.024, 8.864]),
], ids=["the library's", "own"])
def test_metrics_that_go_on(metrics, first, second, third, fresh):
    m = functional(metrics())
    assert m.train_on_batch(X[:5], Y[:5], reset_metrics=False) == pytest.approx(first, abs=2e-3)
    assert m.train_on_batch(X[5:], Y[5:], reset_metrics=False) == pytest.approx(second, abs=2e-3)
    assert m.test_on_batch(X[:7], Y[:7], reset_metrics=False) == pytest.approx(third, abs=2e-3)
    m.reset_metrics()
    assert m.test_on_batch(X[:7], Y[:7], reset_metrics=False) == pytest.approx(fresh, abs=2e-3)
    assert m.test_on_batch(X[:7], Y[:7]) == pytest.approx(fresh, abs=2e-3)


def test_metrics_that_cannot_go_on():
    m = functional(["mae"])
    m.train_on_batch(X, Y)
    with pytest.raises(NotImplementedError, match="call reset_metrics"):
        m.train_on_batch(X, Y, reset_metrics=False)
    with pytest.raises(NotImplementedError, match="reset_state before update_state"):
        m.metrics[1].update_state(Y, Y)
    m.reset_metrics()
    m.metrics[1].update_state(Y, Y + 1)
    assert float(m.metrics[1].result()) == 1


def results(m):
    return {metric.name: float(metric.result()) for metric in m.metrics}


@pytest.mark.parametrize("metrics", [lambda: ["mae"], lambda: [K.metrics.MeanAbsoluteError("mae")]], ids=["name", "object"])
def test_metrics_have_what_was_measured(metrics):
    m, seen = functional(metrics()), []
    found = m.train_on_batch(X, Y, return_dict=True)
    assert results(m) == pytest.approx(found)
    found = m.evaluate(X, Y, verbose=0, return_dict=True)
    assert results(m) == pytest.approx(found)

    class See(K.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((results(self.model), dict(logs)))

    history = m.fit(X, Y, verbose=0, epochs=2, validation_data=(X[:5], Y[:5]), callbacks=[See()]).history
    assert results(m) == pytest.approx({name: history[f"val_{name}"][-1] for name in ("loss", "mae")})
    assert all(has == pytest.approx({name: logs[f"val_{name}"] for name in has}) for has, logs in seen) and len(seen) == 2
    history = m.fit(X, Y, verbose=0).history
    assert results(m) == pytest.approx({name: values[-1] for name, values in history.items()})
    m.reset_metrics()
    assert results(m) == {"loss": 0, "mae": 0}


def test_weights_of_classes_and_of_metrics():
    m = functional(None)
    m.compile("sgd", "mse")
    assert m.train_on_batch(X, (Y > 3).astype("f"), class_weight={0: 1.0, 1: 2.0}) == pytest.approx(196.5)

    def mine(y, predicted):
        return tf.reduce_mean(tf.abs(y - predicted), axis=-1)

    m, weights = functional(None, weighted_metrics=[mine]), (np.arange(20) % 3).astype("f")
    assert m.train_on_batch(X, Y, sample_weight=weights) == pytest.approx([77.25, 8.368], abs=1e-3)
    assert m.evaluate(X, Y, sample_weight=weights, verbose=0) == pytest.approx([76.24, 8.311], abs=1e-3)
    assert functional([Product()]).train_on_batch([X], [Y]) == pytest.approx([88.5, 744.0])


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
