# SPDX-License-Identifier: Apache-2.0
"""Operands whose shapes do not go together, and lists of one, with the values of TensorFlow 2.15.1."""
import numpy as np
import pytest

import estoc
import estoc.tf as tf

TWO, THREE = [1.0, 2.0], [1.0, 2.0, 3.0]


@pytest.mark.parametrize("mine, other", [(tf.constant(TWO), tf.constant(THREE)), (tf.constant(TWO), THREE),
                                         (tf.constant(TWO), np.array(THREE)), (tf.Variable(TWO), tf.Variable(THREE)),
                                         (tf.Variable(TWO), THREE), (tf.constant([]), tf.constant(TWO)),
                                         (tf.constant(["a", "b"]), tf.constant(["a", "b", "c"]))])
def test_tensors_that_do_not_broadcast_are_not_equal(mine, other):
    for result, want in ((mine == other, False), (mine != other, True)):
        assert result.dtype == tf.bool and result.shape == () and bool(result) is want


def test_in_a_function():
    @tf.function
    def compare(x):
        return x == tf.constant(THREE), x != THREE

    assert [bool(value) for value in compare(tf.constant(TWO))] == [False, True]
    assert compare(tf.constant([[1.0], [2.0]]))[0].numpy().tolist() == [[True, False, False], [False, True, False]]


def test_tensors_that_broadcast_are_compared():
    assert (tf.constant([[1.0], [2.0]]) == tf.constant(THREE)).numpy().tolist() == [[True, False, False],
                                                                                    [False, True, False]]
    assert (tf.constant(1.0) == TWO).numpy().tolist() == [True, False] and (tf.constant([]) == 1.0).shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.equal(tf.constant(TWO), tf.constant(THREE))


@pytest.mark.parametrize("value", [TWO, [[1.0, 2.0], [3.0, 4.0]], 3.0])
def test_concat_of_one_tensor_is_the_tensor(value):
    for one in (tf.constant(value), np.float32(value), tf.Variable(value), [tf.constant(value)]):
        assert tf.concat(one, 0).numpy().tolist() == np.float32(value).tolist()
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.concat([1.0, 2.0], 0)


def test_in_a_graph_of_the_library():
    graph = estoc.Graph()
    same = graph.constant(np.float32(TWO)) == graph.constant(np.float32(THREE))
    with estoc.Session(graph) as session:
        assert not session.run(same)
