# SPDX-License-Identifier: Apache-2.0
"""Programs of cases.py under estoc.tf, compared with what TensorFlow 2.15 gave."""
import numpy as np
import pytest

import estoc.tf as tf

from cases import CASES, plain
from test_values import GOLDEN


def differences(got, want, where, found, atol=2e-6):
    if isinstance(want, dict):
        if not isinstance(got, dict) or got.keys() != want.keys():
            found.append(f"{where}: {got!r} in place of {want!r}")
            return
        for key in want:
            differences(got[key], want[key], f"{where}.{key}", found, atol)
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            found.append(f"{where}: {got!r} in place of {want!r}")
            return
        for i, item in enumerate(want):
            differences(got[i], item, f"{where}[{i}]", found, atol)
    elif isinstance(want, float) and not isinstance(want, bool) and isinstance(got, (int, float)):
        if not np.isclose(got, want, rtol=2e-5, atol=atol, equal_nan=True):
            found.append(f"{where}: {got!r} in place of {want!r}")
    elif got != want:
        found.append(f"{where}: {got!r} in place of {want!r}")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    found = []
    differences(plain(CASES[name](tf)), GOLDEN["cases"][name], name, found)
    assert not found, "\n".join(found[:20])
