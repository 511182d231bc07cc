# SPDX-License-Identifier: Apache-2.0
"""Programs of cases_tutorials.py under estoc.tf, compared with what TensorFlow 2.15 gave (golden_tutorials.json)."""
import pytest

import estoc.tf as tf

from cases import check, golden
from cases_tutorials import CASES

GOLDEN = golden("tutorials")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)
