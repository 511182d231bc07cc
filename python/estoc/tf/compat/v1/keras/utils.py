# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.keras.utils: tf.keras.utils, layers over get_variable, and random numbers to compare models by."""
from __future__ import annotations

from typing import Any as _Any

from ...._absent import module_getattr as _module_getattr
from ._random import DeterministicRandomTestTool  # noqa: F401
from ._variables import get_or_create_layer, track_tf1_style_variables  # noqa: F401


def __getattr__(name: str) -> _Any:
    from ....keras import utils
    return getattr(utils, name) if name in vars(utils) else _module_getattr(__name__)(name)
