# SPDX-License-Identifier: Apache-2.0
"""tf.ragged.constant: nested lists as a ragged tensor."""
from __future__ import annotations

from typing import Any

import numpy as np

from .._tensor import as_array, as_dtype, int32, int64, string
from ._eager import Tensor
from ._ragged import RaggedTensor, splits_of


def _depth(value: Any) -> int:
    """How many levels of lists there are; all items have the same, but empty lists may be less deep."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    depths = {_depth(item) for item in value}
    scalar = any(not isinstance(item, (list, tuple, np.ndarray)) for item in value)
    if scalar and max(depths, default=0) > 0:
        raise ValueError(f"all scalar values must have the same nesting depth: {value!r}")
    return 1 + max(depths, default=0)


def _leaf_depths(value: Any, at: int, found: set) -> None:
    if isinstance(value, np.ndarray) and value.dtype != object:
        found.update([at + value.ndim] if value.size else [])
    elif isinstance(value, (list, tuple, np.ndarray)):
        for item in value:
            _leaf_depths(item, at + 1, found)
    else:
        found.add(at)


def _inner_shape(items: list, levels: int) -> tuple:
    """The shape that the items at these levels share."""
    shape: list = []
    for _ in range(levels):
        sizes = {len(item) for item in items}
        if len(sizes) > 1:
            raise ValueError(f"inner values have inconsistent shapes: lengths {sorted(sizes)}")
        shape.append(sizes.pop() if sizes else 0)
        items = [part for item in items for part in item]
    return tuple(shape)


def constant(pylist: Any, dtype: Any = None, ragged_rank: int | None = None, inner_shape: Any = None,
             name: str | None = None, row_splits_dtype: Any = int64) -> Any:
    """A ragged tensor of nested lists (tf.ragged.constant)."""
    kind = as_dtype(row_splits_dtype)
    if kind not in (int32, int64):
        raise ValueError(f"row_splits_dtype must be tf.int32 or tf.int64, not {kind}")
    if not isinstance(pylist, (list, tuple, np.ndarray)):
        if ragged_rank:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}")
        return Tensor(pylist, dtype)
    found: set = set()
    _leaf_depths(pylist, 0, found)
    if len(found) > 1:
        raise ValueError("all scalar values must have the same nesting depth")
    depth = max(_depth(pylist), max(found, default=0))
    if found and depth > max(found):
        raise ValueError(f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar value nesting")
    shape = None if inner_shape is None else (inner_shape,) if isinstance(inner_shape, int) else tuple(inner_shape)
    if shape is not None and ragged_rank is None:
        ragged_rank = depth - 1 - len(shape)
    rank = max(depth - 1, 0) if ragged_rank is None else int(ragged_rank)
    if rank < 0 or found and rank >= depth:
        raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={rank}")
    levels, items = [], list(pylist)
    for _ in range(rank):
        levels.append(np.array([len(item) for item in items], kind.as_numpy_dtype))
        items = [part for item in items for part in item]
    if shape is None:
        shape = _inner_shape(items, max(depth - 1 - rank, 0))
    flat = _flat_constant(items, shape, dtype)
    for lengths in reversed(levels):
        flat = RaggedTensor._of(flat, splits_of(lengths))
    return flat


def _flat_constant(items: list, shape: tuple, dtype: Any) -> Tensor:
    leaves: list = []

    def collect(value: Any) -> None:
        if isinstance(value, (list, tuple, np.ndarray)):
            for item in value:
                collect(item)
        else:
            leaves.append(value.numpy() if isinstance(value, Tensor) else value)

    collect(items)
    texts = {isinstance(leaf, (str, bytes)) for leaf in leaves}
    if len(texts) > 1:
        raise ValueError("a ragged constant has texts and numbers: Can't convert Python sequence with mixed types to Tensor.")
    try:
        array = as_array(leaves if leaves else np.zeros(0, np.float32), dtype) if leaves or dtype is None or as_dtype(
            dtype) != string else np.empty(0, object)
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return Tensor(array.reshape((len(items), *shape)))


