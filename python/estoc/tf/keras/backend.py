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


__getattr__ = _module_getattr(__name__)
