# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.keras: tf.keras, whose utils also have what moves models of TensorFlow 1 to TensorFlow 2."""
from __future__ import annotations

from typing import Any as _Any

from ...._absent import module_getattr as _module_getattr
from . import utils  # noqa: F401


def __getattr__(name: str) -> _Any:
    from .... import keras
    return getattr(keras, name) if name in vars(keras) else _module_getattr(__name__)(name)
