# SPDX-License-Identifier: Apache-2.0
"""Indices and slices of ragged tensors."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..graph import NeedsValue, Node
from ._array import range_
from ._eager import eager, unwrap
from ._ragged import RaggedTensor, splits_of, take_rows

_gather = eager(ops.gather)


def index(self: Any, key: Any) -> Any:
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    if any(item is Ellipsis for item in keys):
        at = next(i for i, item in enumerate(keys) if item is Ellipsis)
        missing = len(self.shape) - sum(item is not None and item is not Ellipsis for item in keys)
        keys[at:at + 1] = [slice(None)] * missing
    keys = [_plain_key(item) for item in keys]
    if isinstance(self._splits, Node):
        return _index_node(self, keys)
    return _rows_at(self, keys)


def _plain_key(item: Any) -> Any:
    if isinstance(item, slice):
        return slice(*(None if part is None else int(unwrap(part)) for part in (item.start, item.stop, item.step)))
    if item is None:
        return None
    value = unwrap(item)
    if isinstance(value, Node):
        return value
    if np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
        raise TypeError(f"slice keys of a ragged tensor are numbers, slices, tf.newaxis and ..., got {item!r}")
    return int(value)


def _index_node(value: RaggedTensor, keys: list) -> Any:
    """A row by a number that is known when it is run, or by one of a ragged tensor whose rows are not known."""
    if len(keys) != 1 or not isinstance(keys[0], (int, Node)) or keys[0] is None:
        raise NeedsValue("slices of a ragged tensor need its rows")
    start, end = (_gather(value._splits, eager(ops.add)(keys[0], more)) for more in (0, 1))
    if isinstance(value._inner, RaggedTensor):
        raise NeedsValue("rows of a ragged tensor of several levels need its rows")
    return _gather(value._inner, range_(start, end))


def _rows_at(value: Any, keys: list) -> Any:
    if not keys:
        return value
    if not isinstance(value, RaggedTensor):
        return value[tuple(keys)]
    first, rest = keys[0], keys[1:]
    count = len(value._splits) - 1
    if first is None:
        return _outermost(_rows_at(value, rest))
    if isinstance(first, Node):
        if rest:
            raise NeedsValue("an index of a ragged tensor must be known for another behind it")
        graph = first.graph
        moved = RaggedTensor._of(value._inner, graph.constant(value._splits))
        return _index_node(moved, [first])
    if isinstance(first, int):
        if not -count <= first < count:
            raise IndexError(f"Row key {first} out of bounds")
        start, end = (int(item) for item in value._splits[first % count:][:2])
        row = take_rows(value._inner, np.arange(start, end)) if isinstance(value._inner, RaggedTensor) else \
            value._inner[start:end]
        return _rows_at(row, rest)
    index = np.arange(count)[first]
    rows = value if len(index) == count and (first.step or 1) > 0 else take_rows(value, index)
    return _within(rows, rest) if rest else rows


def _within(value: RaggedTensor, keys: list) -> Any:
    """Keys for the axes behind the first."""
    if not keys:
        return value
    first, rest = keys[0], keys[1:]
    splits = value._splits
    if first is None:
        made = RaggedTensor._of(value, np.arange(len(splits), dtype=splits.dtype), 1)
        return RaggedTensor._of(_within(value, rest), made._splits, 1)
    if isinstance(first, int):
        if value._uniform is None:
            raise ValueError("Cannot index into an inner ragged dimension.")
        if not -value._uniform <= first < value._uniform:
            raise IndexError(f"index {first} of rows of {value._uniform}")
        picked = take_rows(value._inner, splits[:-1] + first % value._uniform)
        return _within(picked, rest) if isinstance(picked, RaggedTensor) else picked[(slice(None), *rest)]
    if first == slice(None):
        kept = value
    else:
        lengths = np.diff(splits)
        parts = [np.arange(start, start + length)[first] for start, length in zip(splits[:-1], lengths)]
        index = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        counts = np.array([len(part) for part in parts], splits.dtype)
        uniform = None if value._uniform is None else len(range(value._uniform)[first])
        kept = RaggedTensor._of(take_rows(value._inner, index), splits_of(counts), uniform)
    if not rest:
        return kept
    inner = _within(kept._inner, rest) if isinstance(kept._inner, RaggedTensor) else kept._inner[(slice(None), *rest)]
    return RaggedTensor._of(inner, kept._splits, kept._uniform)


def _outermost(value: Any) -> Any:
    """The value as the only row of a new first axis."""
    if not isinstance(value, RaggedTensor):
        return eager(ops.expand_dims)(value, 0)
    count = value._rows()
    if isinstance(count, Node):
        raise NeedsValue("a new first axis of a ragged tensor needs the number of its rows")
    return RaggedTensor._of(value, np.array([0, count], np.int64), count)


