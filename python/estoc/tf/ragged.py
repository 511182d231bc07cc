# SPDX-License-Identifier: Apache-2.0
"""tf.ragged"""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .. import ops as _ops
from .._tensor import as_array as _as_array
from .._tensor import as_dtype as _as_dtype
from .._tensor import int64 as _int64
from . import _ragged_ops
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._ragged import RaggedTensor as _RaggedTensor
from ._ragged import as_places as _as_places
from ._ragged import as_values as _as_values
from ._ragged import places_known as _places_known
from ._ragged import row_ids_of as _row_ids_of
from ._ragged import splits_of as _splits_of
from ._ragged import take_rows as _take_rows
from ._ragged_constant import constant  # noqa: F401


def map_flat_values(op: _Callable, *args: _Any, **kwargs: _Any) -> _Any:
    """op of the values of all rows; ragged tensors among the arguments have the same rows."""
    given = [leaf for leaf in (*args, *kwargs.values()) for leaf in (leaf if isinstance(leaf, (list, tuple)) else [leaf])
             if isinstance(leaf, _RaggedTensor)]
    if not given:
        return op(*args, **kwargs)
    if not all(_ragged_ops.same_rows(given[0], other) for other in given[1:]):
        raise ValueError("All ragged inputs must have the same rows (nested_splits) for map_flat_values.")

    def flat(value: _Any) -> _Any:
        if isinstance(value, (list, tuple)):
            return type(value)(flat(item) for item in value)
        return value.flat_values if isinstance(value, _RaggedTensor) else value

    found = op(*map(flat, args), **{key: flat(value) for key, value in kwargs.items()})
    return given[0].with_flat_values(found)


def stack(values: _Any, axis: int = 0, name: str | None = None) -> _Any:
    """Tensors of any lengths as the rows of a ragged one."""
    parts = list(values) if isinstance(values, (list, tuple)) else [values]
    if not parts:
        raise ValueError("ragged.stack needs at least one tensor")
    parts = [_as_values(item) for item in parts]
    if len(parts) == 1 and not isinstance(parts[0], _RaggedTensor) and len(parts[0].shape) > 0 and axis == 0:
        lengths = _np.array([int(parts[0].shape[0])], _np.int64)
        return _RaggedTensor._of(parts[0], _splits_of(lengths))
    return _ragged_ops.stack(parts, axis)


def range(starts: _Any, limits: _Any = None, deltas: _Any = 1, dtype: _Any = None, name: str | None = None,  # noqa: A001
          row_splits_dtype: _Any = _int64) -> _Any:
    """A row of numbers for each start, limit and delta; numbers are those of all rows."""
    if limits is None:
        starts, limits = 0, starts
    given = [_unwrap(item) for item in (starts, limits, deltas)]
    parts = [_as_array(_places_known(item, "tf.ragged.range")) for item in given]
    kinds = [part.dtype for part in parts]
    floats = [kind for kind in kinds if kind.kind == "f"]
    kind = _np.result_type(*(floats or kinds)) if dtype is None else _np.dtype(_as_dtype(dtype).as_numpy_dtype)
    first, last, step = _np.broadcast_arrays(*(_np.atleast_1d(part).astype(kind) for part in parts))
    if (step == 0).any():
        from ..errors import InvalidArgumentError
        raise InvalidArgumentError("Requires delta != 0")
    rows = [_np.arange(*row).astype(kind) for row in zip(first, last, step)]
    splits = _splits_of(_np.array([len(row) for row in rows], _as_dtype(row_splits_dtype).as_numpy_dtype))
    return _RaggedTensor._of(_Tensor(_np.concatenate(rows) if rows else _np.zeros(0, kind)), splits)


def boolean_mask(data: _Any, mask: _Any, name: str | None = None) -> _Any:
    """The values, or the rows, for which the mask is true, in their rows."""
    data, mask = _as_values(data), _as_values(mask)
    if not mask.dtype.is_bool:
        mask = _eager(_ops.cast)(mask, "bool")
    if len(mask.shape) == 0:
        raise ValueError("Expected `mask` to have rank > 0; got a scalar")
    return _masked(data, mask)


def _masked(data: _Any, mask: _Any) -> _Any:
    if not isinstance(mask, _RaggedTensor) and len(mask.shape) == 1:
        keep = _places_known(_unwrap(mask), "tf.ragged.boolean_mask")
        return _take_rows(data, _np.flatnonzero(keep))
    data, mask = (item if isinstance(item, _RaggedTensor) else _RaggedTensor.from_tensor(item) for item in (data, mask))
    splits = _places_known(mask._splits, "tf.ragged.boolean_mask")
    if not _np.array_equal(splits, _places_known(data._splits, "tf.ragged.boolean_mask")):
        from ..errors import InvalidArgumentError
        raise InvalidArgumentError("tf.ragged.boolean_mask: the rows of data and mask differ")
    values = _masked(data._inner, mask._inner)
    if isinstance(mask._inner, _RaggedTensor) or len(mask._inner.shape) > 1:
        return data.with_values(values)
    kept = _np.bincount(_row_ids_of(splits), _unwrap(mask._inner), len(splits) - 1)
    return _RaggedTensor._of(values, _splits_of(kept.astype(splits.dtype)))


def row_splits_to_segment_ids(splits: _Any, name: str | None = None, out_type: _Any = None) -> _Any:
    """The row of every value."""
    found = _places_known(_as_places(splits, "splits"), "row_splits_to_segment_ids")
    return _Tensor(_row_ids_of(found).astype(found.dtype if out_type is None else _as_dtype(out_type).as_numpy_dtype))


def segment_ids_to_row_splits(segment_ids: _Any, num_segments: _Any = None, out_type: _Any = None,
                              name: str | None = None) -> _Any:
    """Where the rows end whose values have these numbers of rows, which must not descend."""
    ids = _places_known(_as_places(segment_ids, "segment_ids"), "segment_ids_to_row_splits")
    lengths = _np.bincount(ids, minlength=0 if num_segments is None else int(_unwrap(num_segments)))
    return _Tensor(_splits_of(lengths.astype(ids.dtype if out_type is None else _as_dtype(out_type).as_numpy_dtype)))


def stack_dynamic_partitions(data: _Any, partitions: _Any, num_partitions: int, name: str | None = None) -> _Any:
    """The rows of data in the order of their partitions, a ragged row for each partition."""
    data = _as_values(data)
    numbers = _places_known(_as_places(partitions, "partitions"), "stack_dynamic_partitions").reshape(-1)
    count = int(_unwrap(num_partitions))
    if ((numbers < 0) | (numbers >= count)).any():
        from ..errors import InvalidArgumentError
        raise InvalidArgumentError(f"a partition is not in [0, {count})")
    index = _np.argsort(numbers, kind="stable")
    return _RaggedTensor._of(_take_rows(data, index), _splits_of(_np.bincount(numbers, minlength=count).astype(_np.int64)))


def cross(inputs: _Any, name: str | None = None) -> _Any:
    """Every way to take one text or number of each input's row, joined by _X_; the last input varies fastest."""
    rows = []
    for item in inputs:
        item = _as_values(item)
        lists = item.to_list() if isinstance(item, _RaggedTensor) else _unwrap(item).tolist()
        rows.append([[value if isinstance(value, bytes) else str(value).encode() for value in row] for row in lists])
    made: list = []
    for row in zip(*rows):
        found = [b""]
        for i, values in enumerate(row):
            found = [left + (b"_X_" if i else b"") + value for left in found for value in values]
        made.append(found)
    return constant(made, "string", ragged_rank=1)


__getattr__ = _module_getattr(__name__, {"placeholder": "tf.compat.v1.placeholder of the values, and one of the row_splits: "
                                                        "tf.RaggedTensor.from_row_splits joins them"})
