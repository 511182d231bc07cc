# SPDX-License-Identifier: Apache-2.0
"""tf.keras.utils"""
from __future__ import annotations

import random as _random
from typing import Any as _Any

import numpy as _np

from .._absent import module_getattr as _module_getattr
from ._network import DatasetCreator as _DatasetCreator


def to_categorical(y: _Any, num_classes: int | None = None, dtype: str = "float32") -> _np.ndarray:
    """Class numbers as rows with a 1 at the class."""
    y = _np.array(y, dtype="int64")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    y = y.ravel()
    num_classes = num_classes or int(y.max()) + 1
    rows = _np.zeros((y.size, num_classes), dtype=dtype)
    rows[_np.arange(y.size), y] = 1
    return rows.reshape(shape + (num_classes,))


def set_random_seed(seed: int) -> None:
    """Of Python, numpy and this package."""
    from .. import random
    _random.seed(seed)
    _np.random.seed(seed)
    random.set_seed(seed)


def normalize(x: _Any, axis: int = -1, order: int = 2) -> _np.ndarray:
    """x divided by its norm along the axis."""
    norm = _np.atleast_1d(_np.linalg.norm(x, order, axis))
    norm[norm == 0] = 1
    return x / _np.expand_dims(norm, axis)


class experimental:  # noqa: N801
    """tf.keras.utils.experimental"""

    DatasetCreator = _DatasetCreator


__getattr__ = _module_getattr(__name__)
