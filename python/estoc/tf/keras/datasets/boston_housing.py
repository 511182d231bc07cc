# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.boston_housing"""
from __future__ import annotations

import numpy as _np

from ..._absent import module_getattr as _module_getattr
from . import _kept


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113):
    """(train rows, train prices), (test rows, test prices)"""
    with _kept.arrays(path) as file:
        x, y = _kept.shuffled(file["x"], file["y"], _np.random.RandomState(seed))
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


__getattr__ = _module_getattr(__name__)
