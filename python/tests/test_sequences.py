# SPDX-License-Identifier: Apache-2.0
"""Sequence columns and counters: cases_sequences.py compared with what TensorFlow 2.15 gave."""
import pytest

import estoc.tf as tf

from cases import check, golden
from cases_sequences import CASES

GOLDEN = golden("sequences")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)
