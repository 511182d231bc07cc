# SPDX-License-Identifier: Apache-2.0
"""Initializers by their names in TensorFlow 1."""
from __future__ import annotations

from typing import Any

import numpy as np

from .... import initializers as _initializers
from ...._tensor import as_dtype


def zeros_initializer(dtype: Any = None) -> Any:
    return _initializers.zeros()


def ones_initializer(dtype: Any = None) -> Any:
    return _initializers.ones()


def constant_initializer(value: Any = 0, dtype: Any = None, verify_shape: bool = False) -> Any:
    """A number, or an array of the variable's shape."""
    if np.ndim(value) == 0:
        return _initializers.constant(value)

    def initial(shape: Any, dtype: Any = None) -> Any:
        array = np.asarray(value, as_dtype(dtype).as_numpy_dtype)
        return array.reshape(shape) if array.size > 1 else np.broadcast_to(array.reshape(()), shape).copy()

    return initial


def random_uniform_initializer(minval: float = 0, maxval: float | None = None, seed: int | None = None,
                               dtype: Any = None) -> Any:
    return _initializers.random_uniform(minval, 1 if maxval is None else maxval, seed or 0)


def random_normal_initializer(mean: float = 0.0, stddev: float = 1.0, seed: int | None = None,
                              dtype: Any = None) -> Any:
    return _initializers.random_normal(mean, stddev, seed or 0)


def truncated_normal_initializer(mean: float = 0.0, stddev: float = 1.0, seed: int | None = None,
                                 dtype: Any = None) -> Any:
    return _initializers.truncated_normal(mean, stddev, seed or 0)


def glorot_uniform_initializer(seed: int | None = None, dtype: Any = None) -> Any:
    return _initializers.glorot_uniform(seed or 0)


def glorot_normal_initializer(seed: int | None = None, dtype: Any = None) -> Any:
    return _initializers.glorot_normal(seed or 0)
