# SPDX-License-Identifier: Apache-2.0
"""The calls and programs of ragged.py and pieces.py, as TensorFlow 2.15 gave them (golden_ragged.json and
golden_pieces.json)."""
import json
import os

import pytest

import estoc.tf as tf

import calls
import pieces
import ragged
from cases import differences, plain

MODULES = {"ragged": ragged, "pieces": pieces}


def wanted(name):
    with open(os.path.join(os.path.dirname(__file__), f"golden_{name}.json"), encoding="utf-8") as file:
        return json.load(file)


WANTED = {name: wanted(name) for name in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_calls(name):
    module, golden = MODULES[name], WANTED[name]
    found, got = [], calls.results(tf, module.CALLS, **module.named(tf))
    assert set(got) | set(module.PROGRAMS) == set(golden)
    for call in module.CALLS:
        want = golden[call]
        if isinstance(want, dict) and "raises" in want:
            if not isinstance(got[call], dict) or "raises" not in got[call]:
                found.append(f"{call}: {got[call]!r} in place of {want['raises']}")
        else:
            differences(got[call], want, call, found)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module, name", [(module, name) for module in MODULES for name in MODULES[module].PROGRAMS])
def test_program(module, name):
    found = []
    differences(plain(MODULES[module].PROGRAMS[name](tf)), WANTED[module][name], name, found)
    assert not found, "\n".join(found[:20])


def test_refused():
    rows = tf.ragged.constant([[1, 2], [3]])
    for function, text in ((lambda: tf.transpose(rows), "takes no ragged tensors"),
                           (lambda: tf.data.Dataset.from_tensors(tf.ragged.constant([[[1]]])), "several levels"),
                           (lambda: tf.keras.layers.LSTM(2)(tf.ragged.constant([[[1.0]]], ragged_rank=1)), "to_tensor"),
                           (lambda: tf.keras.Input((None,), ragged=True), "to_tensor"),
                           (lambda: tf.data.Dataset.from_tensors(tf.SparseTensor([[0]], [1], [2])), "from_sparse"),
                           (lambda: tf.data.Dataset.range(2).map(lambda n: tf.sparse.from_dense([0, 1])), "from_sparse"),
                           (lambda: tf.image.decode_png, "PIL"), (lambda: tf.strings.unicode_script, "unicodedata"),
                           (lambda: tf.keras.utils.FeatureSpace({"x": "float"}).save("x"), "Model"),
                           (lambda: tf.ragged.placeholder, "row_splits")):
        with pytest.raises((NotImplementedError, AttributeError), match=text):
            function()
