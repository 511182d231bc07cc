# SPDX-License-Identifier: Apache-2.0
"""Programs of keras_cases.py under estoc.tf, compared with what TensorFlow 2.15 gave (golden_keras.json)."""
import pytest

import estoc.tf as tf

from cases import check, golden
from keras_cases import CASES

GOLDEN = golden("keras")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)
