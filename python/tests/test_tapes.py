# SPDX-License-Identifier: Apache-2.0
"""Gradients outside of functions: cases_tapes.py compared with what TensorFlow 2.15 gave, and what draws numbers, whose
gradients must be those of the numbers that were drawn."""
import importlib
import resource
import threading

import numpy as np
import pytest

import estoc.tf as tf
from estoc.tf._world import recorders

from cases import check, golden
from cases_tapes import CASES

GOLDEN = golden("tapes")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)


def dropped(*layers):
    """The gradient towards the input, the output of a network that is linear but for dropout, and again: they are equal
    where both are of one mask."""
    model = tf.keras.Sequential([*layers])
    x = tf.Variable(tf.ones([4, 50]))
    for _ in range(3):
        with tf.GradientTape(persistent=True) as tape:
            y = model(x, training=True)
            loss = tf.reduce_sum(y * y) / 2
        yield y, tape.gradient(y, x), tape.gradient(loss, x)


def test_a_mask_is_not_drawn_again():
    for y, gradient, of_squares in dropped(tf.keras.layers.Dropout(0.5)):
        assert set(np.unique(y.numpy())) == {0.0, 2.0}
        assert (gradient.numpy() == y.numpy()).all()
        assert (of_squares.numpy() == y.numpy() ** 2).all()


def test_a_mask_within_a_model_is_not_drawn_again():
    x = tf.ones([8, 20])
    inner = tf.keras.Sequential([tf.keras.layers.Dense(30, kernel_initializer="ones"), tf.keras.layers.Dropout(0.5)])
    model = tf.keras.Sequential([inner, tf.keras.layers.Dense(1, kernel_initializer="ones")])
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = model(x, training=True)
            loss = tf.reduce_sum(y)
        _, bias, kernel, _ = tape.gradient(loss, model.trainable_variables)
        # what is added to a unit counts as often as the unit was kept
        assert float(tf.reduce_sum(bias)) * 20 == float(loss)
        assert float(tf.reduce_sum(kernel)) == float(loss)


def test_a_function_that_draws_draws_once():
    @tf.function
    def noisy(x):
        return x * tf.random.uniform([1000])

    x = tf.Variable(tf.ones([1000]))
    for _ in range(2):
        with tf.GradientTape() as tape:
            y = noisy(x) + noisy(x)
        assert np.allclose(tape.gradient(y, x).numpy(), y.numpy(), rtol=1e-6)


def test_what_draws_goes_on_as_without_a_tape():
    """A gradient changes neither the numbers that come next nor variables."""
    def numbers(tape_too):
        tf.keras.utils.set_random_seed(7)
        layer, found = tf.keras.layers.Dropout(0.5), []
        for _ in range(3):
            x = tf.Variable(tf.ones([64]))
            with tf.GradientTape() as tape:
                y = layer(x, training=True)
            found.append(y.numpy())
            if tape_too:
                tape.gradient(y, x)
        return np.stack(found)

    assert (numbers(False) == numbers(True)).all()


def test_arrays_may_change_after_a_call():
    """TensorFlow copies some arrays and shares others; here a tape has copies."""
    v, x = tf.Variable([1.0, 1.0]), np.array([1.0, 2.0], np.float32)
    dense, dropout = tf.keras.layers.Dense(1, kernel_initializer="ones"), tf.keras.layers.Dropout(0.5)
    dense(x[None])
    with tf.GradientTape(persistent=True) as tape:
        y, z, w = v * x, dense(x[None]), tf.function(lambda x: tf.reduce_sum(v * x * x))(x)
        kept = dropout(x[None] * v, training=True)
        x[:] = 100.0
    assert tape.gradient(y, v).numpy().tolist() == [1.0, 2.0]
    assert tape.gradient(z, dense.kernel).numpy().tolist() == [[1.0], [2.0]]
    assert tape.gradient(w, v).numpy().tolist() == [1.0, 4.0]
    assert (tape.gradient(kept, v).numpy() == kept.numpy()[0]).all()


def test_threads_have_masks_of_their_own():
    """What another thread draws meanwhile is not taken for a call's own numbers."""
    wrong = []

    def work():
        layer, x = tf.keras.layers.Dropout(0.5), tf.Variable(tf.ones([64]))
        for _ in range(100):
            with tf.GradientTape() as tape:
                y = layer(x, training=True)
            wrong.extend([1] if (tape.gradient(y, x).numpy() != y.numpy()).any() else [])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_tape_that_is_kept_has_one_copy():
    """However often a variable is written, what the tape's calls have read is kept once."""
    x = tf.Variable(tf.ones([10]))
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    for _ in range(5):
        x.assign(x + 1.0)
    assert len(tape._before) == 1
    assert tape.gradient(y, x).numpy().tolist() == [2.0] * 10


def test_second_derivatives_of_what_was_drawn_are_refused():
    layer, x = tf.keras.layers.Dropout(0.5), tf.Variable(tf.ones([8]))
    with tf.GradientTape():
        with tf.GradientTape() as inner:
            y = layer(x, training=True) ** 2
        with pytest.raises(NotImplementedError, match="tf.function"):
            inner.gradient(y, x)


def test_lengths_that_differ_need_no_memory(monkeypatch):
    """Neither tapes nor operations keep memory for each length."""
    monkeypatch.setattr(importlib.import_module("estoc.tf._eager"), "_STEPS_MAX_BYTES", 4 << 20)
    x = tf.Variable(1.0)

    def step(n):
        data = tf.ones([n])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(data * x) * data)
        return tape.gradient(loss, x)

    for n in range(200_000, 200_020):
        step(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for n in range(200_020, 200_080):
        step(n)
    grown, each = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 200_000 * 4 / 1024
    assert grown < 30 * each  # one array for each of 60 lengths would be 60


def test_a_tape_that_is_gone_keeps_nothing():
    x = tf.Variable(tf.ones([10]))
    with tf.GradientTape(persistent=True) as tape:
        y = x * x
    x.assign(x * 2.0)
    assert len(tape._before) == 1
    tape.gradient(y, x)
    del tape
    assert not recorders


def test_captured_tensors_are_refused():
    x = tf.constant(2.0)

    @tf.function
    def slope():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        return tape.gradient(y, x)

    with pytest.raises(NotImplementedError, match="as an argument"):
        slope()


class _Scaled:
    scale = 2.0


def test_gradients_are_of_what_was_bound_when_a_function_was_traced():
    """Values of TensorFlow 2.15: a later binding changes neither the trace nor its gradients."""
    scale, scales, scaled, v = tf.constant(2.0), [2.0], _Scaled(), tf.Variable(3.0)

    for factor in (lambda: scale, lambda: scales[0], lambda: scaled.scale):
        scale, scales[0], scaled.scale = tf.constant(2.0), 2.0, 2.0

        @tf.function
        def f(x):
            return x * factor() * v  # noqa: B023 - called in this pass of the loop

        with tf.GradientTape(persistent=True) as tape:
            y = tf.square(f(v))
            scale, scales[0], scaled.scale = tf.constant(10.0), 10.0, 10.0
        assert (float(y), float(tape.gradient(y, v))) == (324.0, 432.0)
        assert float(tape.jacobian(y, v)) == 432.0 and float(f(v)) == 18.0
        v.assign(4.0)
        assert float(tape.gradient(y, v)) == 432.0  # of the value of that time
        v.assign(3.0)


def test_gradients_of_a_function_within_its_block_are_of_its_trace():
    scale, x = 2.0, tf.constant([1.0, 3.0])

    @tf.function
    def f(x, power):
        return {"y": scale * x ** power, "n": tf.size(x)}

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 2)["y"]
        scale = 10.0
        found = tape.gradient(y, x)
    np.testing.assert_array_equal(found, [4.0, 12.0])
