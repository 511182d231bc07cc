# SPDX-License-Identifier: Apache-2.0
"""Normalization layers before adapt, with the values of TensorFlow 2.15.1."""
import numpy as np
import pytest

import estoc.tf as tf

ROWS = np.array([[1, 2], [3, 6]], np.float32)


def model(layer=None):
    return tf.keras.Sequential([tf.keras.Input((2,)), layer or tf.keras.layers.Normalization(),
                                tf.keras.layers.Dense(1, kernel_initializer="ones")])


def test_mean_and_variance_begin_with_0_and_1():
    layer = tf.keras.layers.Normalization()
    assert model(layer).predict(ROWS, verbose=0).tolist() == [[3], [9]]
    assert [np.asarray(value).tolist() for value in layer.get_weights()] == [[0, 0], [1, 1], 0]
    assert layer.mean.numpy().tolist() == [[0, 0]] and layer.variance.numpy().tolist() == [[1, 1]]
    called = tf.keras.layers.Normalization(axis=None)
    assert called(ROWS).numpy().tolist() == ROWS.tolist() and called.mean.numpy().tolist() == [[0]]


@pytest.mark.parametrize("suffix", ["", ".h5"])
def test_weights_are_loaded_into_a_layer_that_was_not_adapted(tmp_path, suffix):
    adapted = tf.keras.layers.Normalization()
    adapted.adapt(ROWS)
    first = model(adapted)
    first.save_weights(str(tmp_path / "weights") + suffix)
    second, third = model(), model()
    second.load_weights(str(tmp_path / "weights") + suffix)
    third.set_weights(first.get_weights())
    for one in (first, second, third):
        assert one.predict(np.float32([[1, 5]]), verbose=0).tolist() == [[-0.5]]


def test_a_built_layer_is_adapted():
    layer = tf.keras.layers.Normalization()
    made = model(layer)
    for rows, mean, variance in ((ROWS, [2, 4], [1, 4]), ([[1.0, 2.0], [5.0, 6.0]], [3, 4], [4, 4])):
        layer.adapt(np.float32(rows))
        assert [np.asarray(value).tolist() for value in layer.get_weights()] == [mean, variance, 2]
        assert layer.mean.numpy().tolist() == [mean]
    assert made(np.float32([[1, 2]])).numpy().tolist() == [[-2]]


def test_the_last_axis_is_known():
    with pytest.raises(ValueError, match="must have known shape"):
        tf.keras.layers.Normalization()(tf.keras.Input((None,)))
