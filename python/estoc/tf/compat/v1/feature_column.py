# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.feature_column"""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from .... import layers as _layers
from ....graph import Node as _Node
from ....graph import default_graph as _default_graph
from ... import _structure
from ..._eager import unwrap as _unwrap
from ...feature_column import *  # noqa: F401,F403
from ..._absent import module_getattr as _module_getattr
from .layers import _built_by_c, _refuse


def input_layer(features: _Any, feature_columns: _Any, weight_collections: _Any = None, trainable: bool = True,
                cols_to_vars: _Any = None, cols_to_output_tensors: _Any = None) -> _Any:
    """Dense columns side by side. Their variables are in the variable scope around it, which shares them."""
    _refuse(weight_collections=weight_collections, cols_to_vars=cols_to_vars,
            cols_to_output_tensors=cols_to_output_tensors)
    leaves = _structure.flatten(features)
    if _default_graph() is None and not any(isinstance(leaf, _Node) for leaf in leaves):  # values: there is no scope
        from ...keras.layers import DenseFeatures
        return DenseFeatures(feature_columns, trainable=trainable)({
            key: _np.asarray(_unwrap(value)) for key, value in features.items()})
    return _built_by_c(None, "input_layer", None, {}, [
        lambda name: _layers.input_layer(features, feature_columns, trainable, name)])[0]


def linear_model(features: _Any, feature_columns: _Any, units: int = 1, sparse_combiner: str = "sum",
                 weight_collections: _Any = None, trainable: bool = True, cols_to_vars: _Any = None) -> _Any:
    """The weighted sum of all columns plus a bias. Their variables are in the variable scope around it."""
    _refuse(weight_collections=weight_collections, cols_to_vars=cols_to_vars,
            sparse_combiner=None if sparse_combiner == "sum" else sparse_combiner)
    return _built_by_c(None, "linear_model", None, {}, [
        lambda name: _layers.linear_model(features, feature_columns, units, trainable, name)])[0]


__getattr__ = _module_getattr(__name__)
