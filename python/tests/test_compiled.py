# SPDX-License-Identifier: Apache-2.0
"""Masks, losses and metrics: cases_compiled.py compared with what TensorFlow 2.15 gave."""
import pytest

import estoc.tf as tf

from cases import check, golden
from cases_compiled import CASES

GOLDEN = golden("compiled")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)
