# SPDX-License-Identifier: Apache-2.0
"""The calls and programs of ragged.py, as TensorFlow 2.15 gave them (golden_ragged.json)."""
import json
import os

import pytest

import estoc.tf as tf

import calls
import ragged
from cases import differences, plain

with open(os.path.join(os.path.dirname(__file__), "golden_ragged.json"), encoding="utf-8") as _file:
    WANTED = json.load(_file)


def test_calls():
    found, got = [], calls.results(tf, ragged.CALLS, **ragged.named(tf))
    assert set(got) | set(ragged.PROGRAMS) == set(WANTED)
    for call in ragged.CALLS:
        want = WANTED[call]
        if isinstance(want, dict) and "raises" in want:
            if not isinstance(got[call], dict) or "raises" not in got[call]:
                found.append(f"{call}: {got[call]!r} in place of {want['raises']}")
        else:
            differences(got[call], want, call, found)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ragged.PROGRAMS)
def test_program(name):
    found = []
    differences(plain(ragged.PROGRAMS[name](tf)), WANTED[name], name, found)
    assert not found, "\n".join(found[:20])


def test_refused():
    rows = tf.ragged.constant([[1, 2], [3]])
    for function, text in ((lambda: tf.transpose(rows), "takes no ragged tensors"),
                           (lambda: tf.data.Dataset.from_tensors(tf.ragged.constant([[[1]]])), "several levels"),
                           (lambda: tf.keras.layers.LSTM(2)(tf.ragged.constant([[[1.0]]], ragged_rank=1)), "to_tensor"),
                           (lambda: tf.ragged.placeholder, "row_splits")):
        with pytest.raises((NotImplementedError, AttributeError), match=text):
            function()
