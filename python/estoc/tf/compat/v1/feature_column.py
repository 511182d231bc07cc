# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.feature_column"""
from __future__ import annotations

from typing import Any as _Any

from .... import layers as _layers
from ...feature_column import *  # noqa: F401,F403
from ..._absent import module_getattr as _module_getattr


def input_layer(features: _Any, feature_columns: _Any, trainable: bool = True) -> _Any:
    """Dense columns side by side."""
    return _layers.input_layer(features, feature_columns, trainable)


def linear_model(features: _Any, feature_columns: _Any, units: int = 1, trainable: bool = True) -> _Any:
    """The weighted sum of all columns plus a bias."""
    return _layers.linear_model(features, feature_columns, units, trainable)


__getattr__ = _module_getattr(__name__)
