# SPDX-License-Identifier: Apache-2.0
"""tf.sparse: sparse tensors of values, and what VarLenFeatures are parsed to."""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from .. import ops as _ops
from .._lib import here as _here
from .._lib import lib as _lib
from .._tensor import int64 as _int64
from ..graph import Node as _Node
from ..graph import RaggedNode as _RaggedNode
from ..io import RaggedArray as _RaggedArray
from ._absent import module_getattr as _module_getattr
from ._array import range_ as _range
from ._eager import Tensor as _Tensor
from ._sparse import (SparseTensor, add, concat, from_dense, map_values, reduce_max, reduce_sum, reorder,  # noqa: F401
                      sparse_dense_matmul, transpose)
from ._sparse import dense_of as _dense_of
from ._sparse import slice_ as slice  # noqa: A001,F401


def to_dense(sp_input: _Any, default_value: _Any = None, validate_indices: bool = True, name: str | None = None) -> _Any:
    """[batch, longest row], filled up with the default; the values of one row as they are."""
    if isinstance(sp_input, (_Node, _Tensor)):  # of parse_single_example
        return sp_input
    if isinstance(sp_input, SparseTensor):
        return _dense_of(sp_input, default_value, validate_indices)
    if isinstance(sp_input, _RaggedNode):
        return _dense_node(sp_input.values, sp_input.splits, default_value)
    if not isinstance(sp_input, _RaggedArray):
        raise TypeError(f"to_dense takes a SparseTensor, or what a VarLenFeature is parsed to, not {type(sp_input).__name__}")
    rows = sp_input.rows()
    empty = b"" if sp_input.values.dtype == object else 0
    dense = _np.full((len(rows), max(map(len, rows), default=0)), empty if default_value is None else default_value,
                     sp_input.values.dtype)
    for i, row in enumerate(rows):
        dense[i, :len(row)] = row
    return _Tensor(dense)


def _dense_node(values: _Node, splits: _Node, default: _Any) -> _Node:
    graph, is_text = values.graph, values.dtype.name == "string"
    _here()
    if not is_text:
        return graph.node(_lib.est_ragged_to_dense((values._c, splits._c), float(default or 0)))
    count = _ops.size(values, out_type=_int64)  # texts by their places; the default has the one behind them
    places = _dense_node(_range(count), splits, -1)
    texts = _ops.concat([values, graph.constant([b"" if default is None else default])], 0)
    return _ops.gather(texts, _ops.where(_ops.less(places, 0), count, places))


__getattr__ = _module_getattr(__name__)
