# SPDX-License-Identifier: Apache-2.0
"""What programs do by mistake: data of another shape or kind, and exceptions from everything that calls them."""
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import estoc.tf as tf

X = np.arange(24, dtype=np.float32).reshape(6, 4)
Y = np.zeros((6, 2), np.float32)


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


def functional():
    x = tf.keras.Input((4,))
    return tf.keras.Model(x, tf.keras.layers.Dense(2)(x))


@pytest.mark.parametrize("make", [lambda: tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))]), functional,
                                  lambda: tf.keras.Sequential([tf.keras.layers.Dense(2)]), Subclassed])
@pytest.mark.parametrize("call", [lambda m: m.fit(X[:, :3], Y, verbose=0), lambda m: m.evaluate(X[:, :3], Y, verbose=0),
                                  lambda m: m.predict(X[:, :3], verbose=0), lambda m: m(X[:, :3])])
def test_data_of_another_width_is_refused_and_changes_nothing(make, call):
    model = make()
    model.compile("sgd", "mse")
    before = model.predict(X, verbose=0)
    for _ in range(2):
        with pytest.raises(ValueError, match="Input 0 of layer|float32"):
            call(model)
        assert np.array_equal(model.predict(X, verbose=0), before) and np.array_equal(model(X), before)
    assert np.isfinite(model.fit(X, Y, verbose=0).history["loss"][0])


def test_the_shape_of_an_input_is_told_before_variables_are_made():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r'Input 0 of layer "\w+" is incompatible with the layer: expected shape='
                                         r"\(None, 4\), found shape=\(None, 3\)"):
        model.fit(X[:, :3], Y, verbose=0)
    assert model.fit(X, Y, verbose=0).history


def test_an_input_without_its_batch():
    """As in Keras only axes that both have are compared; layers say what they need."""
    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, tf.keras.layers.Lambda(lambda x: x * 2.0)(x))
    assert model(np.ones(3, np.float32)).numpy().tolist() == [2.0] * 3
    assert model(np.ones((2, 3, 1), np.float32)).shape == (2, 3)
    with pytest.raises(ValueError, match="expected shape"):
        model(np.ones((2, 4), np.float32))


@pytest.mark.parametrize("make,first,other", [
    (lambda: tf.keras.layers.Dense(2), (6, 4), (6, 3)), (lambda: tf.keras.layers.Conv2D(2, 2), (1, 4, 4, 3), (1, 4, 4, 2)),
    (tf.keras.layers.LayerNormalization, (2, 3), (2, 4)), (tf.keras.layers.BatchNormalization, (2, 3), (2, 4)),
    (lambda: tf.keras.layers.LSTM(2), (2, 3, 4), (2, 3, 5))])
def test_a_layer_keeps_its_variables(make, first, other):
    """A second call with another width had made new variables, without a word."""
    layer, x = make(), np.random.RandomState(0).randn(*first).astype(np.float32)
    want, weights = layer(x).numpy(), layer.get_weights()
    with pytest.raises(ValueError):
        layer(np.zeros(other, np.float32))
    assert np.array_equal(layer(x), want)
    assert all(np.array_equal(a, b) for a, b in zip(layer.get_weights(), weights))


def test_a_layer_whose_first_call_fails_can_be_called():
    layer = tf.keras.layers.Dense(2)
    with pytest.raises(ValueError):
        layer(np.zeros(3, np.float32))
    assert layer(X).shape == (6, 2)


def test_arrays_of_other_machines():
    big = np.array([[1.5, -2.0], [3.0, 4.0]], ">f4")
    assert tf.constant(big).numpy().tolist() == big.tolist() and tf.constant(big).dtype == tf.float32
    assert next(iter(tf.data.Dataset.from_tensor_slices(big))).numpy().tolist() == [1.5, -2.0]
    assert tf.constant(np.arange(3, dtype=">i8")).numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [np.array([1, "a", None], object), None, {1, 2}, [1, "a"], 2**70,
                                   np.array([1.5, 2], object)])
def test_values_that_are_no_tensors(value):
    with pytest.raises(ValueError):
        tf.constant(value)


# --- exceptions -------------------------------------------------------------------------------------------------------


class Wrong(Exception):
    pass


def wrong(*arguments, **named):
    raise Wrong


def rows():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, (X[:, :1] > 5).astype(np.int32))).batch(2)


@pytest.mark.parametrize("moment", ["begin", "before_save", "after_save", "end"])
def test_a_listener_of_an_estimator_that_raises(moment, tmp_path):
    listener = type("Listener", (tf.estimator.CheckpointSaverListener,), {moment: wrong})()
    model = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", 4)], str(tmp_path))
    with pytest.raises(Wrong):
        model.train(rows, saving_listeners=[listener])
    model.train(rows)
    assert model.evaluate(rows)["global_step"] >= 3


def test_a_listener_of_an_estimator_is_told_the_step(tmp_path):
    calls = []

    class Listener(tf.estimator.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            calls.append(int(global_step_value))

    model = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", 4)], str(tmp_path))
    tf.estimator.train_and_evaluate(model, tf.estimator.TrainSpec(rows, max_steps=3, saving_listeners=[Listener()]),
                                    tf.estimator.EvalSpec(rows))
    assert calls[-1] == 3


@pytest.mark.parametrize("model_fn,params,match", [
    (lambda labels, mode: None, None, "features"), (lambda features, rate=1: None, None, "not expected args"),
    (lambda features, labels, mode: None, {"rate": 1}, "does not include params")])
def test_arguments_of_a_model_fn(model_fn, params, match):
    with pytest.raises(ValueError, match=match):
        tf.estimator.Estimator(model_fn, params=params)


def test_callbacks_are_freed():
    """Nothing keeps what a call was given when it has returned."""
    model = functional()
    model.compile("sgd", "mse")

    class Callback(tf.keras.callbacks.Callback):
        pass

    kept = []
    for _ in range(3):
        callback = Callback()
        kept.append(weakref.ref(callback))
        model.fit(X, Y, verbose=0, callbacks=[callback])
        del callback
    model.fit(X, Y, verbose=0)
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3


# --- threads ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def often_switched():
    """Threads of Python take turns 500 times as often as they do by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(n, function):
    """Calls the function in n threads at once, and raises what one of them raises."""
    raised, start = [], threading.Barrier(n)

    def run(number):
        start.wait()
        try:
            function(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_threads_add_to_one_variable(often_switched):
    total = tf.Variable(0.0)
    in_threads(8, lambda number: [total.assign_add(1.0) for _ in range(100)])
    assert float(total) == 800


def test_each_thread_has_models_of_its_own(often_switched):
    def work(number):
        for make in (Subclassed, functional):
            model, counter = make(), tf.Variable(0.0)
            model.compile("adam", "mse")
            model.fit(X, Y, epochs=2, verbose=0)
            np.testing.assert_allclose(model.predict(X, verbose=0), model(X), rtol=1e-5, atol=1e-5)
            plus = tf.function(lambda x, counter=counter: x * counter + 1.0)
            for i in range(1, 6):
                counter.assign_add(1.0)
                assert float(plus(tf.constant(2.0))) == 2 * i + 1

    in_threads(6, work)


def test_threads_use_one_model(often_switched):
    model = functional()
    model.compile("sgd", "mse")
    want = model.predict(X, verbose=0)
    in_threads(4, lambda number: [np.testing.assert_array_equal(model.predict(X, verbose=0), want) for _ in range(5)])
    in_threads(4, lambda number: model.fit(X, Y, verbose=0))
    assert int(model.optimizer.iterations) == 4
