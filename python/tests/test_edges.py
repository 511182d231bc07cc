# SPDX-License-Identifier: Apache-2.0
"""The calls and programs of edges.py, as TensorFlow 2.15 gave them (golden_edges.json)."""
import json
import os

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
