# SPDX-License-Identifier: Apache-2.0
"""Behaviour of functions, Keras models and strategies that values alone do not show: failures, lifetimes, clusters."""
import contextlib
import gc
import json
import os
import pickle
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from estoc.cluster import LocalCluster

from cases import data, dense_model, set_weights


class Broken(Exception):
    pass


def broken(*_, **__):
    raise Broken("mine")


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_trace_names_the_line_and_leaves_the_world_usable():
    v = tf.Variable(np.ones((2, 2), np.float32))

    @tf.function
    def wrong(x):
        return tf.matmul(x, v)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"test_keras\.py"):
        wrong(tf.ones([2, 3]))
    assert wrong(tf.ones([3, 2])).shape == (3, 2) and v.numpy().sum() == 4


def test_a_layer_can_be_called_again_after_a_wrong_call():
    layer = tf.keras.layers.Dense(2)
    with pytest.raises(tf.errors.InvalidArgumentError):
        layer(np.float32(1.0))
    assert layer(np.ones((1, 3), np.float32)).shape == (1, 2)


def test_python_cannot_branch_on_a_tensor_of_a_function():
    with pytest.raises(TypeError, match="cannot branch"):
        tf.function(lambda x: 1 if x > 0 else 2, autograph=False)(tf.constant(1.0))
    with pytest.raises(TypeError, match="iterate outside"):
        tf.function(lambda: [x for x in tf.data.Dataset.range(2)], autograph=False)()
    with pytest.raises(NotImplementedError, match="AutoGraph|reads|read variables"):
        v = tf.Variable(1.0)
        tf.data.Dataset.range(2).map(lambda n: tf.cast(n, tf.float32) * v)


class Raising(tf.keras.Model):
    def call(self, x):
        raise Broken("mine")


@pytest.mark.parametrize("call", [
    lambda m, x, y: m.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.LambdaCallback(on_epoch_end=broken)]),
    lambda m, x, y: m.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.LambdaCallback(on_train_begin=broken)]),
    lambda m, x, y: m.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.LambdaCallback(on_batch_end=broken)]),
    lambda m, x, y: m.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.LearningRateScheduler(broken)]),
    lambda m, x, y: (m.compile("sgd", broken), m.fit(x, y, verbose=0)),
    lambda m, x, y: (m.compile("sgd", "mse", metrics=[broken]), m.fit(x, y, verbose=0)),
    lambda m, x, y: (tf.keras.Sequential([tf.keras.layers.Lambda(broken)])(x)),
    lambda m, x, y: tf.function(broken)(x),
    lambda m, x, y: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).run(broken),
    lambda m, x, y: Raising()(x),
    lambda m, x, y: tf.keras.layers.Dense(1, kernel_initializer=broken)(x),
])
def test_exceptions_come_out_whole(call):
    x, y = data()
    model = dense_model(tf)
    model.compile("sgd", "mse")
    with pytest.raises(Broken, match="mine") as caught:
        call(model, x, y)
    assert "broken" in str(caught.traceback[-1]) or "call" in str(caught.traceback[-1])
    fresh = dense_model(tf)
    fresh.compile("sgd", "mse")
    fresh.fit(x, y, verbose=0)


@pytest.mark.parametrize("call, text", [
    (lambda: tf.keras.Sequential().fit(np.ones((2, 2))), "compile"),
    (lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]).summary(), "not yet been built"),
    (lambda: tf.keras.Input(), "shape"), (lambda: tf.keras.layers.Dense(0), "units"),
    (lambda: tf.keras.optimizers.get("adamm"), "Unknown optimizer"), (lambda: tf.keras.losses.get("msee"), "mse"),
    (lambda: tf.keras.Model(tf.keras.Input((2,)), tf.keras.layers.Dense(1)(tf.keras.Input((2,)))), "disconnected"),
    (lambda: tf.keras.optimizers.SGD(clipnorm=1.0, global_clipnorm=1.0), "At most one"),
    (lambda: tf.keras.optimizers.Adam().apply_gradients([(None, tf.Variable(1.0))]), "No gradients"),
    (lambda: tf.Variable(tf.function), "initial|object|tensor|argument"),
    (lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:0"]), "cpu"),
    (lambda: tf.distribute.coordinator.ClusterCoordinator(tf.distribute.MirroredStrategy()), "Only"),
])
def test_wrong_calls_say_what_is_wrong(call, text):
    with pytest.raises((ValueError, RuntimeError, TypeError, tf.errors.InvalidArgumentError), match=text):
        call()


def dense_model_of_two():
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, [tf.keras.layers.Dense(1, name=name)(inputs) for name in ("a", "b")])
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("call", [
    lambda: tf.keras.layers.Conv2D(1, 1, data_format="channels_first"),
    lambda: dense_model_of_two().fit(np.ones((2, 4)), [np.ones(2)] * 2, sample_weight=[np.ones((2, 3))] * 2),
    lambda: tf.keras.layers.LSTM(2)((np.ones((1, 2, 3)), np.ones((1, 2)))), lambda: tf.keras.layers.Conv1D(1, 2, groups=2),
    lambda: tf.keras.callbacks.TensorBoard(write_images=True), lambda: tf.keras.layers.StringLookup(sparse=True),
])
def test_what_does_not_exist_is_refused(call):
    with pytest.raises(NotImplementedError):
        call()


def test_several_outputs_need_several_labels():
    a = tf.keras.Input((2,))
    model = tf.keras.Model(a, [tf.keras.layers.Dense(1)(a), tf.keras.layers.Dense(2)(a)])
    assert [tuple(item.shape) for item in model(np.ones((3, 2), np.float32))] == [(3, 1), (3, 2)]
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="one array for each"):
        model.fit(np.ones((4, 2), np.float32), np.ones((4, 1), np.float32), verbose=0)


class OwnStep(tf.keras.Model):
    """A model whose loop is Python's; `seen` has what its step could see of its batches."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(1)
        self.seen = []

    def call(self, x):
        return self.dense(x)

    def train_step(self, batch):
        self.seen.append(tf.executing_eagerly())
        return super().train_step(batch)


class Order(tf.keras.callbacks.Callback):
    def __init__(self):
        self.calls = []

    def on_train_batch_begin(self, batch, logs=None):
        self.calls.append(("begin", batch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("end", batch))


@pytest.mark.parametrize("given", [{"validation_data": slice(48, None)}, {"validation_split": 0.25}])
def test_held_out_rows_in_a_loop_of_python(given):
    x, y = data(64)
    model, order = OwnStep(), Order()
    model.compile("sgd", "mse")
    held = slice(48, None)
    rows, more = ((x, y), given) if "validation_split" in given else (
        (x[:48], y[:48]), {"validation_data": (x[held], y[held])})
    history = model.fit(*rows, batch_size=16, epochs=4, verbose=0, validation_freq=2, callbacks=[order], **more).history
    assert {name: len(values) for name, values in history.items()} == {"loss": 4, "val_loss": 2}
    assert order.calls == [(when, n) for n in range(3) for when in ("begin", "end")] * 4
    assert history["val_loss"][1] == pytest.approx(
        np.mean(np.square(model.predict(x[held], verbose=0) - y[held])), rel=1e-4)


def test_steps_run_eagerly():
    x, y = data(64)
    model, traced = OwnStep(), OwnStep()
    model.compile("sgd", "mse", run_eagerly=True)
    traced.compile("sgd", "mse")
    model(x[:1]), traced(x[:1])
    traced.set_weights(model.get_weights())
    losses = [each.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"] for each in (model, traced)]
    assert model.seen == [True] * 2 * len(x[::16]) and traced.seen == [False]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    with pytest.warns(UserWarning, match="run_eagerly"):
        plain = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        plain.compile("sgd", "mse", run_eagerly=True)
        plain.fit(x, y, verbose=0)


@pytest.mark.parametrize("given", [{}, {"mean": [2.0], "variance": [1.0]}])
def test_a_normalization_in_a_file(tmp_path, given):
    x = np.float32([[1], [2], [6]])
    layer = tf.keras.layers.Normalization(axis=-1, **given)
    if not given:
        layer.adapt(x)
    model = tf.keras.Sequential([tf.keras.Input((1,)), layer, tf.keras.layers.Dense(1)])
    model.save(str(tmp_path / "m.keras"))
    again = tf.keras.models.load_model(str(tmp_path / "m.keras"))
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))


def test_save_spec(tmp_path):
    x, y = data()
    model = OwnStep()
    assert model.save_spec() is None
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    (spec,), named = model.save_spec()
    assert spec == tf.TensorSpec([None, 4], tf.float32) and named == {}
    model.save(str(tmp_path / "m"), options=tf.saved_model.SaveOptions(experimental_io_device="/job:localhost"))
    with pytest.raises(TypeError, match="SaveOptions"):
        model.save(str(tmp_path / "m"), options=3)


def test_files_of_this_package_say_so(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    with pytest.warns(UserWarning, match="w.h5 is an archive of this package"):
        model.save_weights(str(tmp_path / "w.h5"))


def test_arguments_that_a_loop_does_not_have():
    x, y = data(64)
    model = OwnStep()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="no weight for the class -"):
        model.fit(x, y, class_weight={0: 1.0}, verbose=0)


def test_a_history_has_what_was_measured():
    """Nothing for epochs without a validation, and NaN where that was measured."""
    x, y = data()
    for rate, finite in ((0.01, True), (1e30, False)):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(rate), "mse", metrics=["mae"])
        history = model.fit(x, y, epochs=5, verbose=0, validation_data=(x, y), validation_freq=2).history
        assert {name: len(values) for name, values in history.items()} == {
            "loss": 5, "mae": 5, "val_loss": 2, "val_mae": 2}
        assert np.isfinite(history["val_mae"][1]) == finite


# --- one model, several graphs ----------------------------------------------------------------------------------------


def test_fit_loops_and_calls_share_variables():
    x, y = data()
    model = dense_model(tf)
    optimizer = tf.keras.optimizers.SGD(0.02, momentum=0.5)
    model.compile(optimizer, "mse")

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    losses = [model.evaluate(x, y, verbose=0)]
    for _ in range(3):
        before = float(step())
        assert np.isclose(before, losses[-1], rtol=1e-5)
        model.fit(x, y, batch_size=32, verbose=0)
        losses.append(model.evaluate(x, y, verbose=0))
        assert np.isclose(losses[-1], float(tf.reduce_mean(tf.square(model(x) - y))), rtol=1e-5)
        assert np.allclose(model.predict(x, verbose=0), model(x).numpy(), rtol=1e-5, atol=1e-6)
    assert losses == sorted(losses, reverse=True)
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    assert not model.predict(x, verbose=0).any()


STAY_IN_THE_NETWORK = """
import numpy as np
import estoc.tf as tf
from estoc.tf.keras._network import Network

copied = []
copy_back = Network._copy_back
Network._copy_back = lambda *arguments: copied.append(1) or copy_back(*arguments)

class Each(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        assert self.model.optimizer.learning_rate.numpy() == np.float32(0.1)

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")
x = np.ones((40, 1), np.float32)
for _ in range(3):
    model.fit(x, 2 * x, verbose=0, callbacks=[Each()])
assert not copied
assert model.optimizer.iterations.numpy() == 6 and len(copied) == 1
model.fit(x, 2 * x, verbose=0)
assert model.optimizer.iterations.numpy() == 8
"""


def test_variables_stay_in_the_network_until_they_are_read():
    """In a process of its own: what other tests have left is given back at times of its own."""
    subprocess.run([sys.executable, "-c", STAY_IN_THE_NETWORK], check=True, timeout=120)


def test_a_callback_may_change_weights_and_the_learning_rate():
    x, y = data()
    model = dense_model(tf)
    model.compile(tf.keras.optimizers.SGD(0.5), "mse")
    rates = []

    class Own(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate.assign(0.0)
            self.model.set_weights([np.zeros_like(w) for w in self.model.get_weights()])

        def on_epoch_end(self, epoch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))
            logs["mine"] = 7.0 + epoch

    history = model.fit(x, y, epochs=2, verbose=0, callbacks=[Own()])
    assert rates == [0.0, 0.0] and history.history["mine"] == [7.0, 8.0]
    assert not any(w.any() for w in model.get_weights())
    assert np.allclose(history.history["loss"], np.mean(y**2), rtol=1e-5)


def test_a_model_in_a_model_fn_and_as_an_estimator(tmp_path):
    x, y = data()

    def model_fn(features, labels, mode):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
        predictions = model(features, training=mode == tf.estimator.ModeKeys.TRAIN)
        loss = tf.reduce_mean(tf.keras.losses.MeanSquaredError(reduction="none")(labels, predictions))
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf.compat.v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, predictions={"p": predictions}, loss=loss, train_op=train)

    def rows():
        return tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

    own = tf.estimator.Estimator(model_fn, str(tmp_path / "a"))
    own.train(lambda: rows().repeat(), steps=50)
    assert own.evaluate(rows)["loss"] < 0.01 and "dense/kernel" in own.get_variable_names()
    model = dense_model(tf)
    model.compile("sgd", "mse")
    before = model.evaluate(x, y, verbose=0)
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "b"))
    estimator.train(lambda: rows().repeat(), steps=20)
    assert estimator.evaluate(rows)["loss"] < before and model.evaluate(x, y, verbose=0) == before


def test_a_layer_of_python_in_a_model_fn(tmp_path):
    class Own(tf.keras.layers.Layer):
        def build(self, shape):
            self.w = self.add_weight(name="w", shape=(shape[-1], 1), initializer="zeros")

        def call(self, x):
            return tf.matmul(x, self.w)

    def model_fn(features, labels, mode):
        predictions = Own()(features)
        loss = tf.reduce_mean(tf.square(predictions - labels))
        train = tf.compat.v1.train.AdamOptimizer(0.1).minimize(loss, tf.compat.v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    x, y = data()
    own = tf.estimator.Estimator(model_fn, str(tmp_path))
    own.train(lambda: tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat(), steps=60)
    assert own.get_variable_value("own/w").shape == (4, 1)


def test_saving(tmp_path):
    x, _ = data()
    model = dense_model(tf)
    model.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "saved_model.pb").exists()
    before = model(x).numpy()
    model.set_weights([w + 1 for w in model.get_weights()])
    model.load_weights(tmp_path / "saved")
    assert np.allclose(model(x).numpy(), before)
    lines = []
    model.summary(print_fn=lines.append)
    assert any("dense" in line for line in lines) and any("Total params: 49" in line for line in lines)


def test_names_of_counted_layers():
    tf.keras.backend.clear_session()
    names = [tf.keras.layers.Dense(1).name for _ in range(3)] + [tf.keras.layers.MaxPooling2D().name]
    assert names == ["dense", "dense_1", "dense_2", "max_pooling2d"]


def test_metrics_of_several_traces_and_models_are_apart():
    first, second = tf.keras.metrics.Mean(), tf.keras.metrics.Mean()

    @tf.function
    def step(x):
        first.update_state(x)
        second.update_state(x * 10.0)

    step(tf.constant([1.0, 2.0]))
    step(tf.constant([3.0]))
    step(tf.constant(6.0))
    assert float(first.result()) == 3.0 and float(second.result()) == 30.0
    first.reset_state()
    step(tf.constant([4.0]))
    assert float(first.result()) == 4.0 and float(second.result()) == 32.0


def test_nadam_follows_its_formula():
    v, nadam = tf.Variable([1.0, -2.0]), tf.keras.optimizers.Nadam(0.1)
    w, m, s, product = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2), 1.0
    for t in range(1, 4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        nadam.apply_gradients([(tape.gradient(loss, v), v)])
        g = 2 * w
        u, u1 = 0.9 * (1 - 0.5 * 0.96**t), 0.9 * (1 - 0.5 * 0.96 ** (t + 1))
        product *= u
        m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
        hat = u1 * m / (1 - product * u1) + (1 - u) * g / (1 - product)
        w = w - 0.1 * hat / (np.sqrt(s / (1 - 0.999**t)) + 1e-7)
        assert np.allclose(v.numpy(), w, rtol=1e-4)


# --- parts of a model -------------------------------------------------------------------------------------------------


class Parts(tf.keras.Model):
    """A model that is called layer by layer, of what `base` has at that time."""

    def __init__(self, *layers):
        super().__init__()
        self.base = list(layers)

    def call(self, x):
        for layer in self.base:
            x = layer(x)
        return x


def weighed(units=1):
    return tf.keras.layers.Dense(units, kernel_initializer="ones", kernel_regularizer=tf.keras.regularizers.L2(0.5))


def test_losses_are_those_of_the_regularizers_that_a_model_has_now():
    model, x = Parts(weighed()), np.ones((2, 4), np.float32)
    assert model.losses == []  # no variable yet
    model(x)
    assert [float(loss) for loss in model.losses] == [2.0]
    model.base.append(weighed(3))
    model.base[1](np.ones((2, 1), np.float32))
    assert [float(loss) for loss in model.losses] == [2.0, 1.5]


def test_losses_that_were_read_before_the_first_call_are_trained():
    model, x, optimizer = Parts(weighed()), np.zeros((2, 4), np.float32), tf.keras.optimizers.SGD(0.1)
    seen = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            penalty = sum(model.losses)
            loss = penalty + tf.reduce_mean(model(x))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        seen.append(float(penalty))
    assert seen == pytest.approx([0, 2, 2 * 0.9 ** 2])


def test_the_loss_of_a_shared_layer_counts_once():
    class Twice(tf.keras.Model):
        def __init__(self):
            super().__init__()
            shared = weighed(4)
            self.first, self.second = Parts(shared), Parts(shared)

        def call(self, x):
            return self.second(self.first(x))

    model = Twice()
    model(np.ones((2, 4), np.float32))
    assert [float(loss) for loss in model.losses] == [8.0]
    assert len(model.submodules) == 3


def test_layers_that_are_replaced_in_a_list_or_a_dict_are_found():
    dense = tf.keras.layers.Dense
    first, second, third = dense(4), dense(5), dense(6)
    model = Parts(first, second)
    assert model.layers == [first, second]
    model.base[1] = third
    assert model.layers == [first, third]
    model.base.pop()
    model.base.append(second)
    assert model.layers == [first, second]
    model.named = {"b": first, "a": third}
    assert model.layers == [first, second, third]
    model.named["a"] = last = dense(7)
    assert model.layers == [first, second, last]
    model.deep = ([first], {"x": [third]})
    model.deep[1]["x"][0] = inner = dense(8)
    assert model.layers == [first, second, last, inner]
    model.deep[1]["x"].clear()
    assert model.layers == [first, second, last]
    model.base += [third]  # in its place, and another list comes last
    assert model.layers == [first, second, third, last]
    model.base = [inner]
    assert model.layers == [first, last, inner]


def test_an_attribute_that_is_replaced_is_forgotten():
    class Headed(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.head = self.same = tf.keras.layers.Dense(2)
            self.scale = self.add_weight("scale", (2,))
            self.mean = tf.keras.metrics.Mean()
            self.add_weight("kept", ())

    layer = Headed()
    first, scale, (mean,), last = layer.head, layer.scale, layer.metrics, tf.keras.layers.Dense(3)
    layer.head = last
    assert layer.submodules == (first, last)
    layer.same = None
    assert layer.submodules == (last,)
    assert layer.weights[0] is scale and layer.metrics == [mean]
    layer.scale = layer.mean = "none"
    assert [variable.name for variable in layer.weights] == ["kept:0"] and layer.metrics == []
    del layer.head
    assert layer.submodules == () and not hasattr(layer, "head")


def test_layers_of_a_dict_whose_keys_nothing_orders_are_found():
    model = Parts()
    model.names = {1: "x", "b": 2}
    model.base.append(tf.keras.layers.Dense(2))
    assert model.layers == model.base
    model.names[None] = last = tf.keras.layers.Dense(3)
    assert model.layers == model.base + [last]


def test_a_long_list_of_numbers_is_looked_through_once(monkeypatch):
    from estoc.tf.keras import _attributes
    model, looked = Parts(tf.keras.layers.Dense(1)), []
    model.log = [(i, float(i)) for i in range(500)]
    model.by_step = {i: float(i) for i in range(500)}
    model(np.ones((1, 2), np.float32))
    parts_of = _attributes._parts_of
    monkeypatch.setattr(_attributes, "_parts_of", lambda value: looked.append(value) or parts_of(value))
    model.log.append((500, 500.0))
    model.by_step[500] = 500.0
    assert len(model.trainable_variables) == 2 and len(looked) == 4  # a pair with its numbers, and a number


def test_labels_of_unknown_rank_are_compared_as_they_are():
    model, x = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]), np.ones((4, 2), np.float32)
    model.compile("sgd", "mse")

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float64)])
    def loss(y):
        return model.compiled_loss(y, model(x))

    assert float(loss(np.zeros((4, 1)))) == pytest.approx(np.mean(model(x).numpy() ** 2))


class Scaled(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.alpha, self.seen, self.head = 1.0, 0, tf.keras.layers.Dense(2, kernel_initializer="ones")
        self.traces = []

    def call(self, x):
        self.traces.append(1)
        return self.scaled(self.head(x))

    def scaled(self, x):
        return x * self.alpha


def test_a_call_reads_attributes_as_they_are():
    model, x = Scaled(), np.ones((1, 2), np.float32)
    outer = tf.keras.Sequential([model])
    assert model(x).numpy().tolist() == outer(x).numpy().tolist() == [[2, 2]]
    model.alpha = 5.0
    assert model(x).numpy().tolist() == outer(x).numpy().tolist() == [[10, 10]]
    model.head = tf.keras.layers.Dense(3, kernel_initializer="ones")
    assert model(x).shape == outer(x).shape == (1, 3)
    traces = len(model.traces)
    model.alpha, model.seen, model.history_of = 5.0, 1, []  # nothing that call reads has changed
    assert outer(x).numpy().tolist() == model(x).numpy().tolist() == [[10, 10, 10]]
    assert len(model.traces) == traces


def test_a_call_goes_through_the_layers_that_a_list_has_now():
    dense, x = tf.keras.layers.Dense, np.ones((1, 2), np.float32)
    model = Parts(dense(2))
    outer = tf.keras.Sequential([model])
    assert outer(x).shape == model(x).shape == (1, 2)
    model.base.append(dense(3))
    assert outer(x).shape == model(x).shape == (1, 3)
    model.base[1] = tf.keras.Sequential([dense(4)])
    assert outer(x).shape == (1, 4)
    model.base[1].add(dense(5))
    assert outer(x).shape == model(x).shape == (1, 5)


def test_gradients_are_of_the_attributes_that_the_call_had():
    model, x, seen = Scaled(), np.ones((1, 2), np.float32), []
    for alpha in (1.0, 3.0):
        model.alpha = alpha
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        seen.append(tape.gradient(loss, model.head.kernel).numpy()[0, 0])
    assert seen == [1, 3]


# --- speed and memory -------------------------------------------------------------------------------------------------


def test_the_model_that_a_loss_refers_to_is_freed():
    class About(tf.keras.losses.Loss):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def call(self, labels, predictions):
            return tf.square(labels - predictions)

    def trained():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        loss, y = About(model), np.ones((4, 1), np.float32)
        with tf.GradientTape() as tape:
            value = loss(y, model(np.ones((4, 2), np.float32)))
        assert tape.gradient(value, model.trainable_variables)[0] is not None
        return weakref.ref(model)

    model = trained()
    tf.keras.backend.clear_session()
    gc.collect()
    assert model() is None


def test_functions_trace_once_for_each_kind_of_arguments():
    traces = []

    @tf.function
    def f(x, flag):
        traces.append(x.shape)
        return x * 2.0 if flag else x

    for n in (1, 2, 3, 4, 5):
        assert f(tf.ones([n]), True).shape == (n,)
    assert len(traces) == 2  # the second is for any size
    f(tf.ones([2, 2]), True)
    f(tf.ones([2]), False)
    assert len(traces) == 4


def test_dead_objects_are_freed():
    def run():
        model = dense_model(tf)
        model.compile("sgd", "mse")
        model.fit(*data(), verbose=0)
        return model._network

    from weakref import ref
    dead = ref(run())
    gc.collect()
    assert dead() is None


# --- strategies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), lambda: tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]),
    lambda: tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
    lambda: tf.distribute.MultiWorkerMirroredStrategy(), tf.distribute.get_strategy])
def test_a_loop_under_every_strategy(make):
    x, y = data()
    strategy = make()
    with strategy.scope():
        model = dense_model(tf)
        optimizer = tf.keras.optimizers.SGD(0.1)
    rows = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).repeat(4).batch(16))

    def replica(batch):
        a, b = batch
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reduce_mean(tf.square(model(a) - b), 1), global_batch_size=16)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def step(iterator):
        return strategy.reduce("SUM", strategy.run(replica, args=(next(iterator),)), axis=None)

    iterator, losses = iter(rows), []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            losses.append(float(step(iterator)))
    assert len(losses) == 8 and losses[-1] < losses[0]
    plain = dense_model(tf)  # one replica gives the same losses
    sgd, expected = tf.keras.optimizers.SGD(0.1), []
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).repeat(4).batch(16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(plain(a) - b))
        expected.append(float(loss))
        sgd.apply_gradients(zip(tape.gradient(loss, plain.trainable_variables), plain.trainable_variables))
    assert np.allclose(losses, expected, rtol=1e-4)


def test_merge_call_and_aggregation():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        first = tf.Variable(0.0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        mean = tf.Variable(0.0, aggregation=tf.VariableAggregation.MEAN)
        none = tf.Variable(0.0)

    def merge(_, values):
        return strategy.reduce("SUM", values, axis=None) * 10.0

    def replica():
        context = tf.distribute.get_replica_context()
        own = tf.constant(1.0) * float(context.replica_id_in_sync_group + 1)
        first.assign(own)
        mean.assign_add(own)
        return context.merge_call(merge, (own,))

    result = tf.function(lambda: strategy.run(replica))()
    assert [float(v) for v in strategy.experimental_local_results(result)] == [30.0, 30.0]
    assert float(first) == 1.0 and float(mean) == 1.5
    with pytest.raises(ValueError, match="aggregation"):
        tf.function(lambda: strategy.run(lambda: none.assign(1.0)))()
    gathered = strategy.gather(strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([context.replica_id_in_sync_group])), axis=0)
    assert gathered.numpy().tolist() == [0, 1]


def test_a_coordinator_over_a_cluster_in_this_process():
    x, y = data(64)
    with LocalCluster(ps=2, workers=2) as cluster:
        strategy = tf.distribute.ParameterServerStrategy(
            cluster.resolver, tf.distribute.experimental.partitioners.FixedShardsPartitioner(2))
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
            optimizer = tf.keras.optimizers.SGD(0.05)
            seen = tf.keras.metrics.Sum()
        rows = coordinator.create_per_worker_dataset(
            lambda: tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).repeat().batch(16))
        iterator = iter(rows)

        @tf.function
        def step(batches, scale):
            def replica(a, b):
                with tf.GradientTape() as tape:
                    loss = tf.nn.compute_average_loss(tf.reduce_mean(tf.square(model(a) - b), 1)) * scale
                optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
                seen.update_state(tf.ones([16]))
                return loss

            return strategy.run(replica, args=next(batches))

        values = [coordinator.schedule(step, args=(iterator, tf.constant(1.0))) for _ in range(60)]
        kinds = tf.distribute.coordinator
        assert isinstance(rows, kinds.PerWorkerDataset) and isinstance(iterator, kinds.PerWorkerIterator)
        assert all(isinstance(value, kinds.RemoteValue) for value in values)
        coordinator.join()
        assert coordinator.done() and float(seen.result()) == 60 * 16 and int(optimizer.iterations) == 60
        losses = coordinator.fetch(values)
        assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 5 and values[0].get().dtype == tf.float32
        assert [tuple(w.shape) for w in model.layers[0].weights] == [(2, 1), (2, 1), (1,)]
        assert {w.device for w in model.layers[0].weights[:2]} == {
            f"/job:ps/replica:0/task:{i}/device:CPU:0" for i in range(2)}
        assert np.allclose(model(x).numpy(), x @ model.get_weights()[0] + model.get_weights()[1], atol=1e-5)
        with pytest.raises(tf.errors.InvalidArgumentError):
            next(iterator)
        with pytest.raises(Broken):
            coordinator.schedule(broken)

        @tf.function
        def failing(v):
            return tf.debugging.check_numerics(model(x) / v, "mine")

        coordinator.schedule(failing, args=(tf.constant(0.0),))
        with pytest.raises(tf.errors.InvalidArgumentError, match="mine"):
            coordinator.join()
        coordinator.schedule(step, args=(iterator, tf.constant(1.0)))
        coordinator.join()
        strategy._world().close()


def test_a_fit_and_a_coordinator_in_one_program(tmp_path):
    """The cluster goes from a network to a coordinator with the values of variables; models predict and are evaluated
    in this process then."""
    x, y = data(64)
    rows = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
    with LocalCluster(ps=1, workers=1) as cluster:
        strategy = tf.distribute.ParameterServerStrategy(cluster.resolver)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
            model.compile(tf.keras.optimizers.legacy.SGD(0.05), "mse")
            other = tf.Variable(2.0)
        other.assign(3.0)
        backup = tf.keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
        model.fit(rows, epochs=2, steps_per_epoch=5, verbose=0, callbacks=[backup])
        assert not (tmp_path / "backup").exists()
        weights = model.get_weights()
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        assert float(other) == 3.0
        np.testing.assert_array_equal(model.get_weights()[0], weights[0])

        @tf.function
        def step(batches):
            a, b = next(batches)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(a) - b))
            for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
                variable.assign_sub(0.05 * gradient)
            return loss

        first = model.evaluate(x, y, verbose=0)
        iterator = iter(coordinator.create_per_worker_dataset(lambda: rows))
        for _ in range(20):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        assert model.evaluate(x, y, verbose=0) < first / 2
        np.testing.assert_allclose(model.predict(x, verbose=0), model(x).numpy(), atol=1e-6)
        model.save(str(tmp_path / "model"))
        with pytest.raises(RuntimeError, match="ClusterCoordinator has this cluster"):
            model.fit(rows, steps_per_epoch=1, verbose=0)
        strategy._world().close()


def test_names_of_inputs():
    first = tf.keras.layers.Dense(2, input_shape=(3,), name="first")
    assert tf.keras.Sequential([first]).input_names == ["first_input"]
    a, b = tf.keras.Input((2,), name="left"), tf.keras.Input((2,), name="right")
    assert tf.keras.Model([a, b], tf.keras.layers.add([a, b])).input_names == ["left", "right"]


def test_fit_under_parameter_servers(capsys):
    x, y = data(64)
    with LocalCluster(ps=1, workers=2) as cluster:
        strategy = tf.distribute.experimental.ParameterServerStrategy(cluster.resolver)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
            model.compile(tf.keras.optimizers.SGD(0.05), "mse")
        rows = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)
        creator = tf.keras.utils.experimental.DatasetCreator(lambda context: rows)
        losses = model.fit(creator, epochs=4, steps_per_epoch=10, verbose=0).history["loss"]
        assert losses[-1] < losses[0] / 5 and np.allclose(
            model.predict(x, verbose=0), x @ model.get_weights()[0] + model.get_weights()[1], atol=1e-5)
        capsys.readouterr()
        model.evaluate(rows, steps=3)
        assert "3/3" in capsys.readouterr().out
        model._network.close()


TWO_WORKERS = """
import json, os, sys
import numpy as np
import estoc.tf as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
y = x.sum(1, keepdims=True)
with strategy.scope():
    v = tf.Variable(np.zeros((4, 1), np.float32))
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
    model.compile("sgd", "mse")
def make(context):
    rows = tf.data.Dataset.from_tensor_slices((x, y)).shard(context.num_input_pipelines, context.input_pipeline_id)
    return rows.batch(context.get_per_replica_batch_size(8))
def replica(batch):
    a, b = batch
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tf.matmul(a, v) - b)) / 8.0
    gradient = tape.gradient(loss, v)
    return tf.distribute.get_replica_context().all_reduce("SUM", gradient)
@tf.function
def step(batch):
    return strategy.run(replica, args=(batch,))
result = [step(batch).numpy().ravel().tolist() for batch in strategy.distribute_datasets_from_function(make)]
print("RESULT", json.dumps([strategy.num_replicas_in_sync, result]))
"""


def test_two_workers(tmp_path):
    from estoc.cluster import free_port
    workers = [f"localhost:{free_port()}" for _ in range(2)]
    children = []
    for i in range(2):
        config = '{"cluster": {"worker": ["%s", "%s"]}, "task": {"type": "worker", "index": %d}}' % (*workers, i)
        children.append(subprocess.Popen([sys.executable, "-c", TWO_WORKERS], stdout=subprocess.PIPE, text=True, env=dict(
            os.environ, TF_CONFIG=config, PYTHONPATH=os.pathsep.join(sys.path))))
    outputs = [child.communicate(timeout=120)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0]
    x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    gradient = (2 * x.T @ (-x.sum(1, keepdims=True)) / 8).ravel()
    for output in outputs:
        replicas, steps = json.loads(output.split("RESULT", 1)[1])
        assert replicas == 2 and np.allclose(steps[0], gradient, rtol=1e-5)


FITS = """
import json, os, sys
import numpy as np
import estoc.tf as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="zeros")])
    optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.5)
    model.compile(optimizer, "mse", metrics=["mae"])
rows = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).repeat().batch(8)
def fit(*callbacks):
    return model.fit(rows, epochs=2, steps_per_epoch=3, verbose=0, callbacks=callbacks).history
def replica(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(batch[0]) - batch[1])) / 8.0
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss
@tf.function
def step(iterator):
    return strategy.reduce("SUM", strategy.run(replica, args=(next(iterator),)), axis=None)
results = [fit()]
iterator = iter(strategy.experimental_distribute_dataset(rows))
results.append([float(step(iterator)) for _ in range(2)])
results += [fit(tf.keras.callbacks.BackupAndRestore(sys.argv[1])), fit(), os.path.exists(sys.argv[1])]
print("RESULT", json.dumps([results, model.get_weights()[0].ravel().tolist()]))
"""


def test_fits_by_two_workers(tmp_path):
    """fit, a loop of one's own, and fits again: what one process makes of the whole batches."""
    from estoc.cluster import free_port
    workers = [f"localhost:{free_port()}" for _ in range(2)]
    configs = ['{"cluster": {"worker": ["%s", "%s"]}, "task": {"type": "worker", "index": %d}}' % (*workers, i)
               for i in range(2)]
    children = [subprocess.Popen([sys.executable, "-c", FITS, str(tmp_path / folder)], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TF_CONFIG": config})
                for folder, config in (("backup", configs[0]), ("backup", configs[1]), ("alone", "{}"))]
    outputs = [child.communicate(timeout=120)[0] for child in children]
    first, second, alone = [json.loads(output.split("RESULT", 1)[1]) for output in outputs]
    assert first == second and first[0][-1] is False
    for have, want in zip(first[0][:-1], alone[0]):
        for key in want if isinstance(want, dict) else [slice(None)]:
            np.testing.assert_allclose(have[key], want[key], rtol=1e-5)
    np.testing.assert_allclose(first[1], alone[1], rtol=1e-5)


def test_own_names_are_importable():
    import estoc.tf.keras as keras
    import estoc.tf.keras.layers.experimental.preprocessing as kpl
    from estoc.tf.keras.layers import Dense
    assert keras.layers.Dense is Dense and kpl.StringLookup is keras.layers.StringLookup and estoc.__name__ == "estoc"


def test_mixed_precision():
    """Products of rounded numbers, float32 variables, layers of their own policy, exports in float32."""
    def model():
        return tf.keras.Sequential([tf.keras.layers.Dense(3, use_bias=False, kernel_initializer="ones"),
                                    tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones",
                                                          dtype="float32")])

    x = np.array([[1 + 2.0 ** -9, 2 + 2.0 ** -8 + 2.0 ** -10]], np.float32)
    with pytest.raises(ValueError, match="mixed_bfloat16"):
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    exact = model()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        assert tf.keras.mixed_precision.global_policy().name == "mixed_bfloat16"
        mixed = model()
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    first, last = mixed.layers
    assert (first.compute_dtype, first.variable_dtype, last.compute_dtype) == ("bfloat16", "float32", "float32")
    rounded = np.array([[1, 2]], np.float32)  # 8 significant bits, ties to even
    np.testing.assert_array_equal(exact(x).numpy(), x.sum(1, keepdims=True) * 3)
    np.testing.assert_array_equal(mixed(x).numpy(), rounded.sum(1, keepdims=True) * 3)
    np.testing.assert_array_equal(mixed.predict(x, verbose=0), rounded.sum(1, keepdims=True) * 3)
    mixed.compile("sgd", "mse")
    mixed.fit(x, np.ones((1, 1), np.float32), verbose=0)
    assert mixed.weights[0].dtype == tf.float32


def test_clear_session_frees_what_nobody_uses():
    x, y = data(16)

    def model():
        made = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,), kernel_initializer="ones")])
        made.compile("sgd", "mse")
        made.fit(x, y, verbose=0)
        return made

    tf.keras.backend.clear_session()
    kept = model()
    before = kept.predict(x, verbose=0)
    world = weakref.ref(kept.trainable_variables[0]._world)
    tf.keras.backend.clear_session()
    other = model()
    assert [made.layers[0].name for made in (kept, other)] == ["dense", "dense"]
    assert np.array_equal(kept.predict(x, verbose=0), before)
    kept.fit(x, y, verbose=0)
    with pytest.raises(NotImplementedError, match="clear_session"):
        tf.function(lambda: kept.trainable_variables[0] + other.trainable_variables[0])()
    del kept
    gc.collect()
    assert world() is None


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, want", [
    ({}, [-8.0, -10.0]), ({"clipnorm": 1.0}, [0.4, 1.2]), ({"clipvalue": 1.5}, [-0.5, 0.5]),
    ({"global_clipnorm": 1.0}, [0.4, 1.2]), ({"clipnorm": 1.0, "clipvalue": 0.5}, [0.4, 1.2]),
    ({"clipvalue": 0.3, "global_clipnorm": 0.5}, [0.7, 1.6])])
@pytest.mark.parametrize("by_hand", [False, True])
def test_gradients_are_clipped_after_those_of_all_replicas_are_one(options, want, by_hand):
    """The values are those of TensorFlow."""
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        v, optimizer = tf.Variable([1.0, 2.0]), tf.keras.optimizers.SGD(1.0, **options)

    def replica():
        context = tf.distribute.get_replica_context()
        gradient = tf.constant([3.0, 4.0]) * (tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0)
        if by_hand:
            gradient = context.all_reduce("sum", gradient)
        optimizer.apply_gradients([(gradient, v)], skip_gradients_aggregation=by_hand)

    tf.function(lambda: strategy.run(replica))()
    np.testing.assert_allclose(v.numpy(), want, rtol=1e-6)


def test_fit_clips_after_those_of_all_replicas_are_one():
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="ones")])
        model.compile(tf.keras.optimizers.SGD(0.1, clipnorm=0.5), "mse")
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    model.fit(x, np.zeros((8, 1), np.float32), batch_size=4, shuffle=False, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], [[0.934549093], [0.924452603]], rtol=1e-6)  # TensorFlow's


@pytest.mark.parametrize("call, error", [
    (lambda model, x, y: model.evaluate(x, y, batchsize=2), TypeError),
    (lambda model, x, y: model.predict(x, batchsize=2), TypeError),
    (lambda model, x, y: model.save("m", signatures=print), ValueError),
    (lambda model, x, y: model.save(".", overwrite=False), FileExistsError),
    (lambda model, x, y: model.optimizer.apply_gradients([], aggregate=False), TypeError),
    (lambda model, x, y: model.add_weight("w", [1], initialiser="ones"), TypeError),
    (lambda model, x, y: tf.keras.losses.CategoricalCrossentropy(axis=1), NotImplementedError),
    (lambda model, x, y: tf.keras.losses.categorical_crossentropy(x, x, axis=0), NotImplementedError),
    (lambda model, x, y: tf.keras.metrics.SparseCategoricalCrossentropy(axis=1), NotImplementedError),
    (lambda model, x, y: tf.keras.layers.StringLookup(encoding="latin-1"), NotImplementedError)])
def test_no_argument_is_ignored(call, error):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    with pytest.raises(error):
        call(model, np.zeros((2, 2), np.float32), np.zeros((2, 1), np.float32))


def test_a_vocabulary_without_special_tokens():
    layer = tf.keras.layers.StringLookup(vocabulary=["a", "b"], mask_token="", num_oov_indices=2)
    assert layer.get_vocabulary(include_special_tokens=False) == ["a", "b"]
    assert tf.keras.layers.IntegerLookup(vocabulary=[7, 3]).get_vocabulary(include_special_tokens=False) == [7, 3]


@pytest.mark.parametrize("name, value, measured", [  # TensorFlow's: of three elements, and of two and then of one
    ("MeanSquaredError", 0.16333334, 0.305), ("MeanAbsoluteError", 0.36666667, 0.5),
    ("KLDivergence", 1.1394328, 1.4067047), ("CosineSimilarity", -0.899438, 0.6581139),
    ("CategoricalHinge", 0.09999996, 0.8), ("BinaryCrossentropy", 0.4987029, 0.9202274),
    ("Poisson", 0.8798113, 1.2310587), ("Hinge", 0.7, 0.75)])
def test_a_vector_is_one_example(name, value, measured):
    labels, predictions = tf.constant([1.0, 0.0, 1.0]), tf.constant([0.8, 0.3, 0.4])
    loss = getattr(tf.keras.losses, name)
    each = loss(reduction="none")(labels, predictions)
    assert each.shape == ()
    np.testing.assert_allclose([each.numpy(), loss()(labels, predictions).numpy()], [value] * 2, rtol=1e-5)
    metric = getattr(tf.keras.metrics, name)()
    metric.update_state([0.0, 1.0], [0.3, 0.1])
    metric.update_state([1.0], [0.6])
    np.testing.assert_allclose(metric.result().numpy(), measured, rtol=1e-5)
    metric.reset_state()
    metric.update_state([0.0, 1.0], [[0.3], [0.1]])
    metric.update_state([1.0], [[0.6]])
    np.testing.assert_allclose(metric.result().numpy(), measured, rtol=1e-5)
    with pytest.raises(ValueError, match="vectors are one example"):
        loss()(labels, predictions, sample_weight=[1.0, 2.0, 3.0])


def test_metrics_of_a_train_step_count_the_examples():
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return self.dense(x)

        def test_step(self, data):
            x, y = data
            y_pred = self(x)
            self.compute_loss(x, y, y_pred)
            return self.compute_metrics(x, y, y_pred, None)

    model = Own()
    model.compile("sgd", "mse", metrics=[tf.keras.metrics.MeanSquaredError("error")])
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = model.evaluate(x, np.zeros(3, np.float32), batch_size=2, verbose=0, return_dict=True)
    np.testing.assert_allclose([found["loss"], found["error"]], (1 + 25 + 81) / 3, rtol=1e-6)


def test_the_gradient_of_a_loss_of_vectors():
    v = tf.Variable([0.8, 0.3, 0.4])
    with tf.GradientTape() as tape:
        loss = tf.keras.losses.mse([1.0, 0.0, 1.0], v)
    np.testing.assert_allclose(tape.gradient(loss, v).numpy(), [-0.4 / 3, 0.2, -0.4], rtol=1e-5)
    step = tf.function(lambda: tf.keras.losses.mse([1.0, 0.0, 1.0], v))
    np.testing.assert_allclose(step().numpy(), 0.16333334, rtol=1e-5)
# --- data sets --------------------------------------------------------------------------------------------------------


def test_images_of_an_idx_file_are_the_readers_own(tmp_path):
    from estoc.tf.keras.datasets import _idx

    (tmp_path / "images").write_bytes(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6)))
    images = _idx.read(str(tmp_path / "images"))
    assert images.dtype == np.uint8 and images.tolist() == [[0, 1, 2], [3, 4, 5]]
    images *= 2  # as with Keras' arrays
    assert images.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_data_sets_that_keras_keeps(tmp_path, monkeypatch):
    from estoc.tf.keras.datasets import _kept, boston_housing, cifar10, cifar100, imdb, mnist, reuters

    monkeypatch.setattr(_kept, "_FOLDER", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="imdb.npz is not there"):
        imdb.load_data()
    texts = np.empty(6, dtype=object)
    texts[:] = [[1, 2, 9], [3], [4, 5], [6, 1], [2, 2, 2, 2], [7]]
    labels = np.arange(6)
    np.savez(tmp_path / "imdb.npz", x_train=texts, y_train=labels, x_test=texts[:2], y_test=labels[:2])
    np.savez(tmp_path / "reuters.npz", x=texts, y=labels)
    (train, which), (test, _) = imdb.load_data()
    rank = {number: row for number, row in zip(which.tolist(), train)}
    assert rank[1] == [1, 6] and rank[4] == [1, 5, 5, 5, 5] and rank[0] == [1, 4, 5, 2]  # the largest is unknown, as there
    assert len(train) == 6 and len(test) == 2
    (train, which), _ = imdb.load_data(num_words=6, maxlen=4, start_char=None, oov_char=None, index_from=0)
    assert {number: row for number, row in zip(which.tolist(), train)} == {
        0: [1, 2], 1: [3], 2: [4, 5], 3: [1], 5: []}
    (train, _), (test, _) = reuters.load_data(test_split=0.5)
    assert len(train) == len(test) == 3
    np.savez(tmp_path / "mnist.npz", x_train=np.ones((2, 28, 28)), y_train=[1, 2], x_test=np.ones((1, 28, 28)), y_test=[3])
    assert mnist.load_data()[1][1].tolist() == [3]
    np.savez(tmp_path / "boston_housing.npz", x=np.arange(10).reshape(5, 2), y=np.arange(5))
    (train, prices), (test, _) = boston_housing.load_data()
    assert len(test) == 1 and (train[:, 0] == 2 * prices).all()
    (tmp_path / "cifar-10-batches-py").mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        with open(tmp_path / "cifar-10-batches-py" / name, "wb") as file:
            pickle.dump({b"data": np.arange(3072, dtype=np.int64).astype(np.uint8)[None], b"labels": [7]}, file)
    (images, labels), (test, _) = cifar10.load_data()
    assert images.shape == (5, 32, 32, 3) and labels.tolist() == [[7]] * 5 and test[0, 1, 2].tolist() == [34, 34, 34]
    (tmp_path / "cifar-100-python").mkdir()
    for name, label in (("train", 40), ("test", 90)):
        with open(tmp_path / "cifar-100-python" / name, "wb") as file:
            pickle.dump({b"data": np.repeat([1, 2, 3], 1024).astype(np.uint8)[None], b"fine_labels": [label],
                         b"coarse_labels": [label // 5]}, file)
    (images, labels), (_, other) = cifar100.load_data()
    assert images[0, 7, 9].tolist() == [1, 2, 3] and labels.tolist() == [[40]] and other.tolist() == [[90]]
    assert cifar100.load_data("coarse")[1][1].tolist() == [[18]]
    with pytest.raises(ValueError, match="must be one of"):
        cifar100.load_data("other")
    for module, name in ((imdb, "imdb"), (reuters, "reuters")):
        (tmp_path / f"{name}_word_index.json").write_text('{"the": 1, "Z\\u00fcrich": 2}', encoding="utf-8")
        assert module.get_word_index() == {"the": 1, "Zürich": 2}


def test_drawings_of_models(tmp_path, monkeypatch):
    inputs = tf.keras.Input((4,), name="rows")
    hidden = tf.keras.layers.Dense(3, name="hidden")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Add(name="sum")([hidden, tf.keras.layers.Dense(3, name="other")(inputs)]))
    path = tmp_path / "model.dot"
    tf.keras.utils.plot_model(model, path, show_shapes=True, rankdir="LR")
    text = path.read_text(encoding="utf-8")
    boxes = dict(re.findall(r'(n\d+) \[label="(\w+): [^"]*"\]', text))
    arrows = sorted((boxes[a], boxes[b]) for a, b in re.findall(r"(n\d+) -> (n\d+);", text))
    assert arrows == [("hidden", "sum"), ("other", "sum"), ("rows", "hidden"), ("rows", "other")]
    assert "rankdir=LR" in text and "sum: Add|(None, 3)" in text
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImportError, match="graphviz"):
        tf.keras.utils.plot_model(model, tmp_path / "model.png")
    with pytest.raises(ValueError, match="not yet been built"):
        tf.keras.utils.plot_model(tf.keras.Sequential([tf.keras.layers.Dense(1)]), path)


class Seen(tf.keras.callbacks.Callback):
    """Notes which of its methods are called."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_test_begin(self, logs=None):
        self.calls.append("test begin")

    def on_test_batch_begin(self, batch, logs=None):
        self.calls.append(batch)

    def on_test_batch_end(self, batch, logs=None):
        self.calls.append(sorted(logs))

    def on_test_end(self, logs=None):
        self.calls.append("test end")

    def on_predict_begin(self, logs=None):
        super().on_predict_begin(logs)
        self.calls.append("predict begin")

    def on_predict_end(self, logs=None):
        self.calls.append("predict end")


class OwnTestStep(tf.keras.Sequential):
    __test__ = False  # for pytest

    def test_step(self, data):
        return super().test_step(data)


@pytest.mark.parametrize("kind, logs", [(tf.keras.Sequential, ["loss"]), (OwnTestStep, ["loss"])])
def test_callbacks_of_evaluate_and_predict(kind, logs, capsys):
    x, y, seen = np.ones((6, 3), np.float32), np.ones((6, 1), np.float32), Seen()
    model = kind([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    model.stop_training = True  # as an earlier fit may have left it
    model.evaluate(x, y, batch_size=3, verbose=0, callbacks=[seen])
    assert seen.calls == ["test begin", 0, logs, 1, logs, "test end"]
    assert capsys.readouterr().out == ""
    model.evaluate(x, y, batch_size=3)
    assert capsys.readouterr().out.startswith("2/2 [")
    seen.calls.clear()
    model.predict(x, verbose=0, callbacks=[seen, tf.keras.callbacks.LambdaCallback(
        on_predict_end=lambda logs: seen.calls.append("lambda"))])
    assert seen.calls == ["predict begin", "predict end", "lambda"]

    class Batches(tf.keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            seen.calls.append((batch, logs["outputs"].shape))

    model.predict(x, batch_size=4, verbose=0, callbacks=[Batches()])
    assert seen.calls[3:] == [(0, (4, 1)), (1, (2, 1))]


def test_callbacks_that_say_what_they_do(tmp_path, capsys):
    x, y = np.ones((6, 3), np.float32), np.ones((6, 1), np.float32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    callbacks = [tf.keras.callbacks.LearningRateScheduler(lambda epoch: (0.1, 9.0)[epoch], verbose=1),
                 tf.keras.callbacks.ModelCheckpoint(tmp_path / "w", "loss", 1, True, True)]
    model.fit(x, y, epochs=2, verbose=0, callbacks=callbacks + [
        tf.keras.callbacks.ModelCheckpoint(tmp_path / "e{epoch}", verbose=1, save_weights_only=True)])
    out = capsys.readouterr().out
    assert "Epoch 1: LearningRateScheduler setting learning rate to 0.1." in out
    assert f"Epoch 1: loss improved from inf to 1.00000, saving model to {tmp_path}/w" in out
    assert f"Epoch 2: saving model to {tmp_path}/e2" in out


@pytest.mark.parametrize("call, error", [
    (lambda: tf.keras.metrics.AUC(unknown=False), TypeError),
    (lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]).summary(unknown=1), TypeError),
    (lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]).summary(layer_range=["a"]),
     NotImplementedError),
    (lambda: tf.keras.Model(tf.keras.Input((2,)), [], unknown=1), TypeError),
    (lambda: tf.keras.initializers.Ones()((2, 2), partition_shape=(1, 1)), TypeError),
    (lambda: tf.keras.layers.TextVectorization(encoding="latin-1"), NotImplementedError),
    (lambda: tf.keras.layers.Layer().add_loss(1.0, unknown=1), TypeError),
    (lambda: tf.keras.layers.Layer().add_metric(1.0, "a", unknown=1), TypeError),
    (lambda: tf.group(unknown=1), TypeError),
])
def test_arguments_that_nobody_reads_are_refused(call, error):
    with pytest.raises(error):
        call()


class OwnTrainStep(OwnTestStep):
    def train_step(self, data):
        return super().train_step(data)


@pytest.mark.parametrize("kind", [tf.keras.Sequential, OwnTestStep, OwnTrainStep])
def test_weighted_metrics(kind):
    random = np.random.RandomState(0)
    x, y, weight = random.randn(8, 3).astype("f4"), random.randn(8, 1).astype("f4"), np.linspace(0, 3, 8).astype("f4")
    model = kind([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile(tf.keras.optimizers.SGD(0.0), "mse", metrics=["mae"], weighted_metrics=["mse"])
    error = (model.predict(x, verbose=0) - y)[:, 0]
    want = {"loss": (weight * error ** 2).mean(), "mae": np.abs(error).mean(),
            "mse": (weight * error ** 2).sum() / weight.sum()}
    assert model.evaluate(x, y, sample_weight=weight, verbose=0, return_dict=True) == pytest.approx(want, rel=1e-5)
    history = model.fit(x, y, sample_weight=weight, verbose=0, batch_size=8).history
    assert {name: values[0] for name, values in history.items()} == pytest.approx(want, rel=1e-5)


def test_class_weights_name_all_classes():
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="keys from 0 to one less than the number of classes"):
        model.fit(np.ones((2, 2), np.float32), np.array([0, 2]), class_weight={0: 1.0, 2: 3.0}, verbose=0)


def test_arguments_without_effect_warn(tmp_path):
    with pytest.warns(UserWarning, match="no profile is written"):
        tf.keras.callbacks.TensorBoard(tmp_path, profile_batch=2)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    with pytest.warns(UserWarning, match="whether they are trainable"):
        model.summary(show_trainable=True, print_fn=lambda line: None)


def test_minimize_of_legacy_optimizers_weighs_the_gradients_of_a_loss():
    v = tf.Variable([1.0, 2.0])
    optimizer = tf.keras.optimizers.legacy.SGD(1.0)
    optimizer.minimize(lambda: v * v, [v], grad_loss=tf.constant([1.0, 10.0]), name="step")
    assert v.numpy().tolist() == [-1, -38]
    with tf.GradientTape() as tape:
        loss = v * v
    optimizer.minimize(loss, [v], grad_loss=tf.constant([1.0, 0.5]), tape=tape)
    assert v.numpy().tolist() == [1, 0] and int(optimizer.iterations) == 2
    with pytest.raises(TypeError, match="global_step"):
        optimizer.minimize(lambda: v * v, [v], global_step=3)


def test_the_backend_counts_what_is_true():
    K, y = tf.keras.backend, np.eye(4, dtype=np.float32)

    def accuracy(y_true, y_pred):
        return K.mean(K.equal(K.argmax(y_true), K.argmax(y_pred)))

    assert accuracy(y, y[[0, 1, 3, 2]]).numpy() == 0.5 and K.mean(tf.constant([1, 2])).numpy() == 1
    assert K.std(tf.constant([True, False])).numpy() == 0.5 and K.var(tf.constant([True, False])).numpy() == 0.25
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, kernel_initializer="identity", input_shape=(4,))])
    model.compile("sgd", "mse", metrics=[accuracy])
    assert model.evaluate(y, y[[0, 1, 3, 2]], verbose=0)[1] == 0.5


def test_constants_of_the_backend_have_their_shape():
    K = tf.keras.backend
    assert K.constant([1, 2], shape=(2, 1)).numpy().tolist() == [[1.0], [2.0]]
    assert K.constant(3, shape=(2,), dtype="int32").numpy().tolist() == [3, 3]
    with pytest.raises((TypeError, ValueError)):
        K.constant([1, 2], shape=(2, 2))


def test_constraints_and_averages_hold_under_a_strategy():
    """Two replicas, a fit and a loop of the program, against one device."""
    x, y = data(8)

    def trained(scope, run):
        with scope:
            layers = tf.keras.layers
            model = tf.keras.Sequential([layers.Dense(3, kernel_constraint="unit_norm", input_shape=(4,)), layers.Dense(1)])
            set_weights(model)
            optimizer = tf.keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
        run(model, optimizer)
        return model.get_weights()

    def fit(model, optimizer):
        model.compile(optimizer, "mse")
        model.fit(x, y, batch_size=4, shuffle=False, epochs=2, verbose=0)

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])

    def loop(model, optimizer):
        shares = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))

        @tf.function
        def step(batch):
            def replica(inputs):
                with tf.GradientTape() as tape:
                    loss = tf.nn.compute_average_loss(tf.reduce_mean(tf.square(model(inputs[0]) - inputs[1]), -1),
                                                      global_batch_size=8)
                optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

            strategy.run(replica, args=(batch,))

        for _ in range(3):
            step(next(iter(shares)))

    def alone(model, optimizer):
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    for there, here in ((fit, fit), (loop, alone)):
        got, want = trained(strategy.scope(), there), trained(contextlib.nullcontext(), here)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(want[0], axis=0), 1, rtol=0.3)


class Default(tf.keras.Sequential):
    """The default steps, in the loop of Python."""

    def train_step(self, batch):
        return super().train_step(batch)


def test_weights_of_classes_and_tensorboard_where_steps_are_of_python(tmp_path):
    x, classes = data(12)[0], np.arange(12) % 3
    found = []
    for kind in (tf.keras.Sequential, Default):
        for labels, loss in ((classes, "sparse_categorical_crossentropy"),
                             (np.eye(3, dtype=np.float32)[classes], "categorical_crossentropy")):
            model = kind([tf.keras.layers.Dense(3, activation="softmax", input_shape=(4,))])
            set_weights(model)
            model.compile("sgd", loss)
            folder = tmp_path / f"{len(found)}"
            model.fit(x, labels, batch_size=5, shuffle=False, verbose=0, class_weight={0: 1.0, 1: 2.0, 2: 0.5}, epochs=2,
                      callbacks=[tf.keras.callbacks.TensorBoard(str(folder))], validation_split=0.25)
            tags = set()
            for part in ("train", "validation"):
                (file,) = os.listdir(folder / part)
                tags |= {(part, event.step) for event in tf.compat.v1.train.summary_iterator(str(folder / part / file))
                         for value in event.summary.value if value.tag == "epoch_loss"}
            found.append((model.get_weights(), tags))
    for weights, tags in found[1:]:
        assert tags == found[0][1] == {(part, step) for part in ("train", "validation") for step in (0, 1)}
        for a, b in zip(weights, found[0][0]):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    with pytest.raises(NotImplementedError, match="as its third part"):
        model.fit(tf.data.Dataset.from_tensor_slices((x, classes)).batch(4), class_weight={0: 1.0, 1: 2.0, 2: 0.5})


def test_loops_over_an_unknown_number_of_steps_are_not_saved(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.LSTM(2, input_shape=(None, 3)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.save_weights(str(tmp_path / "weights"))
    x = np.random.RandomState(0).randn(6, 4, 3).astype(np.float32)
    with pytest.raises(NotImplementedError, match="unknown number of steps"):
        model.save(str(tmp_path / "model"))
    want = model.predict(x, verbose=0)
    model.save(str(tmp_path / "model"))
    again = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"](tf.constant(x))
    np.testing.assert_allclose(next(iter(again.values())), want, rtol=1e-5, atol=1e-6)


def test_a_variable_of_the_library_is_not_replaced():
    dense = tf.keras.layers.Dense(2)
    dense(np.ones((1, 3), np.float32))
    with pytest.raises(NotImplementedError, match="assign to it"):
        dense.kernel = tf.ones((3, 2))
    dense.kernel.assign(tf.ones((3, 2)))
    assert dense(np.ones((1, 3), np.float32)).numpy().tolist() == [[3, 3]]


def test_a_concrete_function_says_what_it_has_in_place_of_a_graph():
    concrete = tf.function(lambda x: x + 1).get_concrete_function(tf.TensorSpec([], tf.float32))
    for name, text in (("graph", "structured_outputs"), ("function_type", "pretty_printed_signature"),
                       ("inference_fn", "itself")):
        with pytest.raises(AttributeError, match=text):
            getattr(concrete, name)
