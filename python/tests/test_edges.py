# SPDX-License-Identifier: Apache-2.0
"""The calls and programs of edges.py, as TensorFlow 2.15 gave them (golden_edges.json)."""
import json
import os

import numpy as np
import pytest

import estoc.tf as tf

import edges
from cases import differences, plain

with open(os.path.join(os.path.dirname(__file__), "golden_edges.json"), encoding="utf-8") as _file:
    WANTED = json.load(_file)


def test_all_are_compared():
    assert {*edges.CALLS, *edges.PROGRAMS} == set(WANTED)


@pytest.mark.parametrize("call", edges.CALLS)
def test_call(call):
    found, want = [], WANTED[call]
    got = edges.called(tf, [call])[call]
    if isinstance(want, dict) and "raises" in want:
        assert isinstance(got, dict) and "raises" in got, f"{got!r} in place of {want['raises']}"
    else:
        differences(got, want, call, found)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", edges.PROGRAMS)
def test_program(name):
    found = []
    tf.keras.backend.reset_uids()
    differences(plain(edges.PROGRAMS[name](tf)), WANTED[name], name, found)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("use", [
    lambda s, x: tf.SparseTensor([[0], [1]], x, [2]), lambda s, x: s.with_values(x), lambda s, x: s * x,
    lambda s, x: s / tf.convert_to_tensor(x), lambda s, x: tf.sparse.map_values(tf.multiply, s, x)])
def test_sparse_values_of_a_tape_are_refused(use):
    """They have no gradients, which would be None without a word."""
    x = tf.Variable([3.0, 4.0])
    sparse = tf.SparseTensor([[0], [1]], [1.0, 1.0], [2])
    use(sparse, x)
    with tf.GradientTape(), pytest.raises(NotImplementedError, match="has no gradient here"):
        use(sparse, x)


@pytest.mark.parametrize("make, error", [
    (lambda: tf.constant([True, 1]), ValueError), (lambda: tf.constant([[True], [1.0]]), ValueError),
    (lambda: tf.convert_to_tensor((True, 0)), ValueError), (lambda: tf.Variable([True, 1]), ValueError),
    (lambda: tf.cast([True, 1], tf.int32), ValueError), (lambda: tf.constant(1, tf.bool), TypeError),
    (lambda: tf.constant([0, 1], tf.bool), TypeError), (lambda: tf.Variable(1, dtype=tf.bool), TypeError),
    (lambda: tf.range(2.5, dtype=tf.int32), TypeError),
    (lambda: tf.reshape([1, 2, 3, 4], [2, 2.0]), tf.errors.InvalidArgumentError),
    (lambda: tf.reshape([1, 2], 2.0), tf.errors.InvalidArgumentError)])
def test_values_of_another_kind_are_refused(make, error):
    """Each by the error of TensorFlow."""
    with pytest.raises(error):
        make()


def test_values_of_another_kind_that_fit():
    """As in TensorFlow: numbers may come before truth values, and a dtype or an array says what they are."""
    assert tf.constant([1, True]).numpy().tolist() == [1, 1] and tf.constant([1, True]).dtype == tf.int32
    assert tf.constant([[1, 2], [True, False]]).numpy().tolist() == [[1, 2], [1, 0]]
    assert tf.constant([True, 1], tf.int32).numpy().tolist() == [1, 1]
    assert tf.constant(np.array([0, 1]), tf.bool).numpy().tolist() == [False, True]
    assert tf.range(2.5).numpy().tolist() == [0.0, 1.0, 2.0]
    assert tf.reshape([1, 2, 3, 4], np.array([2.0, 2.0])).numpy().tolist() == [[1, 2], [3, 4]]
