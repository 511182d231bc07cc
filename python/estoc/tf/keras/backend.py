# SPDX-License-Identifier: Apache-2.0
"""tf.keras.backend"""
from __future__ import annotations

from typing import Any as _Any

from .._absent import module_getattr as _module_getattr
from ._layer import clear_session  # noqa: F401
from ._layer import is_training as learning_phase  # noqa: F401


def epsilon() -> float:
    return 1e-7


def floatx() -> str:
    return "float32"


def image_data_format() -> str:
    return "channels_last"


def get_value(x: _Any) -> _Any:
    return x.numpy()


def set_value(x: _Any, value: _Any) -> None:
    x.assign(value)


def int_shape(x: _Any) -> tuple:
    return tuple(x.shape)


def random_normal(shape: _Any, mean: float = 0.0, stddev: float = 1.0, dtype: _Any = None, seed: _Any = None) -> _Any:
    """Normal numbers."""
    from .. import random
    return random.normal(shape, mean, stddev, dtype or "float32", seed)


def random_uniform(shape: _Any, minval: float = 0.0, maxval: float = 1.0, dtype: _Any = None, seed: _Any = None) -> _Any:
    """Numbers between two others."""
    from .. import random
    return random.uniform(shape, minval, maxval, dtype or "float32", seed)


__getattr__ = _module_getattr(__name__)
