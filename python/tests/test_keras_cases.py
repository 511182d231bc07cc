# SPDX-License-Identifier: Apache-2.0
"""Programs of keras_cases.py under estoc.tf, compared with what TensorFlow 2.15 gave (golden_keras.json)."""
import json
import os

import pytest

import estoc.tf as tf

from cases import differences, plain
from keras_cases import CASES

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden_keras.json"), encoding="utf-8") as _file:
    GOLDEN = json.load(_file)


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    found = []
    tf.keras.backend.reset_uids()
    differences(plain(CASES[name](tf)), GOLDEN[name], name, found)
    assert not found, "\n".join(found[:20])
