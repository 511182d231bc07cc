# SPDX-License-Identifier: Apache-2.0
"""The calls of calls.py, in values, dtypes and shapes as TensorFlow 2.15 gave them (golden_calls.json)."""
import inspect
import json
import os

import numpy as np
import pytest

import estoc.tf as tf

from calls import CALLS, DATA, results
from cases import differences

with open(os.path.join(os.path.dirname(__file__), "golden_calls.json"), encoding="utf-8") as _file:
    WANTED = json.load(_file)
T, F = tf.constant, DATA["f"]


def test_calls():
    found, got = [], results(tf)
    assert set(got) == set(CALLS) == set(WANTED)
    for call, want in WANTED.items():
        if isinstance(want, dict) and "raises" in want:
            if not isinstance(got[call], dict) or want["raises"] not in got[call].get("raises", ()):
                found.append(f"{call}: {got[call]!r} in place of {want['raises']}")
        else:
            differences(got[call], want, call, found)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("call", [
    lambda: tf.pad(F, [[1, 1], [1, 1]], "REFLECT"), lambda: tf.gather(F[None], [[0]], batch_dims=1),
    lambda: tf.nn.conv2d(DATA["f4"], DATA["k4"], 1, "SAME", dilations=2),
    lambda: tf.strings.as_string(1.5, precision=2),
    lambda: tf.nn.max_pool(DATA["f4"], 2, 2, "SAME", "NCHW"), lambda: tf.norm(F, 2, axis=[0, 1]),
    lambda: tf.Variable("a"), lambda: tf.Variable([1.0], shape=[None]), lambda: tf.Variable(1.0, validate_shape=False),
    lambda: tf.nn.embedding_lookup([F, F], [0])])
def test_arguments_that_do_not_exist_are_refused(call):
    with pytest.raises(NotImplementedError):
        call()


@pytest.mark.parametrize("call", [
    lambda: tf.add(2, F), lambda: T([1, 2]) + np.array([0.5, 1.0]), lambda: T([1, 2]) * 1.5])
def test_fractions_are_not_lost(call):
    """TensorFlow truncates arrays of floats that meet integers, at once but not in functions."""
    with pytest.raises(TypeError, match="cannot become int32"):
        call()


@pytest.mark.parametrize("call", [
    lambda: T([1]) + 2**40, lambda: tf.add(T([1]), 2**40), lambda: 300 - T([1], tf.uint8)])
def test_numbers_that_do_not_fit_are_refused(call):
    with pytest.raises(OverflowError, match="does not fit into"):
        call()


def test_names_of_tensorflow_1():
    assert tf.reduce_sum(F, reduction_indices=[1], keep_dims=True).shape == (3, 1)
    assert tf.compat.v1.argmax(F, dimension=1).numpy().tolist() == [2, 3, 2]
    with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
        tf.reduce_sum(F, 1, reduction_indices=1)
    with pytest.raises(TypeError, match=r"reduce_sum\(\) got an unexpected keyword argument 'axes'"):
        tf.reduce_sum(F, axes=1)


def test_signatures_are_those_of_tensorflow():
    assert list(inspect.signature(tf.split).parameters) == ["value", "num_or_size_splits", "axis", "num", "name"]
    assert list(inspect.signature(tf.matmul).parameters)[:4] == ["a", "b", "transpose_a", "transpose_b"]
    assert list(inspect.signature(tf.nn.relu).parameters) == ["features", "name"]


def test_arrays_take_the_dtype_of_the_tensor_in_functions_too():
    @tf.function
    def step(x):
        return x * F.astype(np.float64) + np.int64(1), tf.maximum(x, [1, 2, 3, 4])

    product, largest = step(T(F))
    assert product.dtype == largest.dtype == tf.float32
    np.testing.assert_allclose(product.numpy(), F * F + 1, rtol=1e-6)


def test_variables_compare_by_element():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 3.0])
    assert (v == 2).numpy().tolist() == [False, True]
    assert (v == w).numpy().tolist() == [True, False] and (v != w).numpy().tolist() == [False, True]
    assert (v == None) is False and (v != None) is True  # noqa: E711
    assert tf.function(lambda: tf.reduce_sum(tf.cast(v == 1.0, tf.int32)))().numpy() == 1
    assert tf.is_tensor(v)


def test_a_variable_that_fails_leaves_others_usable():
    v = tf.Variable(1.0)
    for bad in (lambda: tf.Variable("a"), lambda: tf.Variable(lambda: 1 / 0), lambda: tf.Variable(2.0, name="a b\n"),
                lambda: tf.Variable(np.zeros([1] * 30))):
        try:
            bad()
        except Exception:  # noqa: B902 - whatever it is
            pass
        assert (v + tf.Variable(2.0)).numpy() == 3


def test_structures_that_differ_are_not_mapped():
    for one, other in (({"a": 1, "b": 2}, [3, 4]), ([1, 2], [3]), ([1, [2]], [1, 2]), ((1, 2), [1, 2])):
        with pytest.raises(ValueError, match="don't have the same nested structure"):
            tf.nest.map_structure(lambda x, y: x + y, one, other)
