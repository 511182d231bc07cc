# SPDX-License-Identifier: Apache-2.0
"""Programs of cases.py and operations.py under estoc.tf, compared with what TensorFlow 2.15 gave."""
import json
import os

import pytest

import estoc.tf as tf

import operations
from cases import CASES, differences, plain
from test_values import GOLDEN

with open(os.path.join(os.path.dirname(__file__), "golden_operations.json"), encoding="utf-8") as _file:
    OPERATIONS = json.load(_file)


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    found = []
    tf.keras.backend.reset_uids()
    differences(plain(CASES[name](tf)), GOLDEN["cases"][name], name, found)
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("name", sorted(operations.CASES))
def test_operation(name):
    found = []
    differences(plain(operations.CASES[name](tf)), OPERATIONS[name], name, found)
    assert not found, "\n".join(found[:20])


def test_a_size_that_depends_on_data_changes():
    """Arguments of the same shapes, whose results have not."""
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    for mask, want in (([True, False], [[1, 2]]), ([True, True], [[1, 2], [3, 4]]), ([False, False], []),
                       ([False, True], [[3, 4]]), ([False, False], [])):
        assert tf.boolean_mask(x, tf.constant(mask)).numpy().tolist() == want


def test_a_tape_sees_through_dropout():
    x = tf.ones([1000])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.dropout(x, 0.25)
    assert 600 < (y.numpy() > 0).sum() < 900
    assert (tape.gradient(y, x).numpy() == y.numpy()).all()
