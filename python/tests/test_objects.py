# SPDX-License-Identifier: Apache-2.0
"""Programs of cases_objects.py under estoc.tf, compared with what TensorFlow 2.15 gave (golden_objects.json)."""
import json
import os

import pytest

import estoc.tf as tf

from cases import differences, plain
from cases_objects import CASES

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden_objects.json"), encoding="utf-8") as _file:
    GOLDEN = json.load(_file)


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    found = []
    differences(plain(CASES[name](tf)), GOLDEN[name], name, found, 1e-5)  # after 20 steps
    assert not found, "\n".join(found[:20])
