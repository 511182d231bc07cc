# SPDX-License-Identifier: Apache-2.0
"""Rows by their numbers: segments, partitions, repeats and counts."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import ops
from .._tensor import as_array, as_dtype, float32, int32
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node
from ._array import boolean_mask, range_, unique, unsorted_segment_sum
from ._eager import Tensor, eager, tapes, unwrap
from ._ragged import RaggedTensor
from ._ragged_ops import _sums as _sum_rows
from ._variable import Variable

_cast, _gather, _reshape, _greater = eager(ops.cast), eager(ops.gather), eager(ops.reshape), eager(ops.greater)
_expand, _max, _divide, _ones_like = eager(ops.expand_dims), eager(ops.reduce_max), eager(ops.divide), eager(ops.ones_like)
_where, _equal, _maximum = eager(ops.where), eager(ops.equal), eager(ops.maximum)


def _tensor(value: Any) -> Any:
    return value if isinstance(value, (Tensor, Node, Variable)) else Tensor(unwrap(value))


def _known(value: Any, what: str) -> np.ndarray:
    value = unwrap(value)
    if isinstance(value, Node):
        raise NeedsValue(f"tf.{what} works on values")
    return as_array(value)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = "bool", name: str | None = None) -> Any:
    """[..., maxlen]: true for the first places of each row, as many as its length."""
    lengths = _tensor(lengths)
    limit = _maximum(_max(lengths), 0) if maxlen is None else maxlen
    places = _cast(range_(unwrap(limit) if not isinstance(unwrap(limit), np.ndarray) else int(unwrap(limit))), lengths.dtype)
    mask = _greater(_expand(lengths, -1), places)
    return mask if as_dtype(dtype).is_bool else _cast(mask, dtype)


# --- places -----------------------------------------------------------------------------------------------------------


def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Any:  # noqa: A002
    """Every element along an axis, or of all, so many times."""
    x = _tensor(input)
    if axis is None:
        x, axis = _reshape(x, [-1]), 0
    axis = int(axis) + (len(x.shape) if axis < 0 else 0)
    times = _known(repeats, "repeat").reshape(-1)
    size = x.shape[axis]
    if size is None:
        raise NeedsValue("tf.repeat needs the size of the axis")
    if times.size not in (1, size):
        raise InvalidArgumentError(f"tf.repeat: {times.size} repeats for {size} elements")
    return _gather(x, np.repeat(np.arange(int(size)), times), axis=axis)


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Any:  # noqa: A002
    """Elements moved along axes, from the end to the beginning."""
    x = _tensor(input)
    shifts, axes = _known(shift, "roll").reshape(-1), _known(axis, "roll").reshape(-1)
    if shifts.size != axes.size:
        raise InvalidArgumentError(f"shift and axis must have the same size: {shifts.size} and {axes.size}")
    for move, one in zip(shifts.tolist(), axes.tolist()):
        one += len(x.shape) if one < 0 else 0
        size = x.shape[one]
        if size is None:
            raise NeedsValue("tf.roll needs the size of the axis")
        x = _gather(x, np.roll(np.arange(int(size)), move), axis=one)
    return x


def searchsorted(sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = int32,
                 name: str | None = None) -> Tensor:
    """Where each value belongs in the sorted rows."""
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'.")
    rows, wanted = _known(sorted_sequence, "searchsorted"), _known(values, "searchsorted")
    if rows.ndim != max(wanted.ndim, 1) or rows.shape[:-1] != wanted.shape[:-1]:
        raise InvalidArgumentError(f"searchsorted: rows {rows.shape} and values {wanted.shape}")
    flat = wanted.reshape(-1, wanted.shape[-1]) if wanted.ndim else wanted.reshape(1, 1)
    found = [np.searchsorted(row, part, side) for row, part in zip(rows.reshape(-1, rows.shape[-1]), flat)]
    return Tensor(np.array(found).reshape(wanted.shape).astype(as_dtype(out_type).as_numpy_dtype))


def reverse_sequence(input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None,  # noqa: A002
                     name: str | None = None) -> Any:
    """The first elements of each row, as many as its length, in the opposite order."""
    x, lengths = _tensor(input), _known(seq_lengths, "reverse_sequence")
    along, batch = (int(item or 0) % len(x.shape) for item in (seq_axis, batch_axis))
    if None in (x.shape[along], x.shape[batch]):
        raise NeedsValue("tf.reverse_sequence needs the sizes of the axes")
    steps, rows = int(x.shape[along]), int(x.shape[batch])
    if lengths.shape != (rows,) or (lengths > steps).any() or along == batch:
        raise InvalidArgumentError(f"reverse_sequence: lengths {lengths.tolist()} for {rows} rows of {steps}")
    order = [batch, along, *(i for i in range(len(x.shape)) if i not in (batch, along))]
    turned = eager(ops.transpose)(x, order)
    flat = _reshape(turned, [rows * steps, *(int(size) for size in turned.shape[2:])])
    places = np.arange(steps)
    index = np.where(places < lengths[:, None], lengths[:, None] - 1 - places, places) + np.arange(rows)[:, None] * steps
    back = _reshape(_gather(flat, index.reshape(-1)), [int(size) for size in turned.shape])
    return eager(ops.transpose)(back, list(np.argsort(order)))


# --- segments ---------------------------------------------------------------------------------------------------------


def _counted(ids: Any) -> Any:
    """How many segments sorted numbers name."""
    if isinstance(unwrap(ids), Node):
        return _max(ids) + 1
    numbers = unwrap(ids)
    if (np.diff(numbers) < 0).any():
        raise InvalidArgumentError("segment ids are not increasing")
    if numbers.size and numbers[0] < 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    return np.asarray(numbers[-1] + 1 if numbers.size else 0, numbers.dtype)


def _mean_of(total: Any, ids: Any, count: Any) -> Any:
    each = _sum_rows(_cast(_ones_like(ids), total.dtype), ids, count)
    shape = [-1] + [1] * (len(total.shape) - 1)
    return _divide(total, _reshape(_maximum(each, 1), shape)), each


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Sums of the rows with equal numbers, which must not descend."""
    ids = _tensor(segment_ids)
    return _sum_rows(_tensor(data), ids, _counted(ids))


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Any:
    """Means of the rows with equal numbers, which must not descend; 0 of none."""
    ids, data = _tensor(segment_ids), _tensor(data)
    count = _counted(ids)
    return _mean_of(_sum_rows(data, ids, count), ids, count)[0]


def _of_rows(what: str, data: Any, ids: Any, count: int, empty: Any) -> Any:
    """A reduction of the rows with each number; `empty` where there is none."""
    data, numbers = _tensor(data), _known(ids, f"math.{what}")
    kept = np.flatnonzero((numbers >= 0) & (numbers < count))
    order = kept[np.argsort(numbers[kept], kind="stable")]
    rows = RaggedTensor.from_value_rowids(_gather(data, order), numbers[order], count)
    from ._ragged_ops import reduction
    found = reduction("reduce_" + what.rsplit("_", 1)[1])(rows, 1)
    if empty is None:
        return found
    there = (np.diff(rows._splits) > 0).reshape([-1] + [1] * (len(found.shape) - 1))
    return _where(there, found, eager(ops.zeros_like)(found) + np.asarray(empty, found.dtype.as_numpy_dtype))


def _segment(what: str, meaning: str, empty: Any) -> Callable:
    def call(data: Any, segment_ids: Any, name: str | None = None) -> Any:
        numbers = _tensor(_known(segment_ids, f"math.segment_{what}"))
        return _of_rows(f"segment_{what}", data, numbers, int(_counted(numbers)), empty)

    call.__name__ = call.__qualname__ = f"segment_{what}"
    call.__doc__ = f"{meaning} of the rows with equal numbers, which must not descend."
    return call


def _unsorted(what: str, meaning: str) -> Callable:
    def call(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return _of_rows(f"unsorted_segment_{what}", data, _tensor(segment_ids), int(unwrap(num_segments)), None)

    call.__name__ = call.__qualname__ = f"unsorted_segment_{what}"
    call.__doc__ = f"{meaning} of the rows with equal numbers."
    return call


segment_max, segment_min = _segment("max", "The largest", 0), _segment("min", "The smallest", 0)
segment_prod = _segment("prod", "The product", 1)
unsorted_segment_max = _unsorted("max", "The largest")
unsorted_segment_min = _unsorted("min", "The smallest")
unsorted_segment_prod = _unsorted("prod", "The product")


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Means of the rows with equal numbers; 0 of none."""
    ids = _tensor(segment_ids)
    total = unsorted_segment_sum(_tensor(data), ids, int(unwrap(num_segments)))
    return _mean_of(total, ids, np.int32(unwrap(num_segments)))[0]


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Sums of the rows with equal numbers, divided by the square root of how many there are."""
    ids = _tensor(segment_ids)
    total = unsorted_segment_sum(_tensor(data), ids, int(unwrap(num_segments)))
    each = _mean_of(total, ids, np.int32(unwrap(num_segments)))[1]
    return _divide(total, eager(ops.sqrt)(_reshape(_maximum(each, 1), [-1] + [1] * (len(total.shape) - 1))))


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list:
    """The rows of each partition."""
    data, numbers = _tensor(data), _tensor(partitions)
    if not isinstance(unwrap(numbers), Node) and ((unwrap(numbers) < 0) | (unwrap(numbers) >= num_partitions)).any():
        raise InvalidArgumentError(f"a partition is not in [0, {num_partitions})")
    return [boolean_mask(data, _equal(numbers, i)) for i in range(int(num_partitions))]


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Any:
    """Rows of several tensors at the places that indices say; the last one of a place counts."""
    places = [_known(item, "dynamic_stitch") for item in indices]
    parts = [_tensor(item) for item in data]
    flat = np.concatenate([item.reshape(-1) for item in places])
    rows = eager(ops.concat)([_reshape(part, [place.size, *(int(size) for size in part.shape[place.ndim:])])
                              for place, part in zip(places, parts)], 0)
    source = np.zeros(int(flat.max()) + 1 if flat.size else 0, np.int64)
    source[flat] = np.arange(flat.size)
    if len(set(flat.tolist())) != len(source):
        raise InvalidArgumentError("dynamic_stitch: a row below the largest index is missing, whose value is not defined")
    return _gather(rows, source)


# --- counts -----------------------------------------------------------------------------------------------------------


def bincount(arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = int32,
             name: str | None = None, axis: Any = None, binary_output: bool = False) -> Tensor:
    """How often each number occurs, or the sum of its weights; with axis=-1 in each row."""
    if tapes():
        raise NotImplementedError("tf.math.bincount has no gradient here: tf.math.unsorted_segment_sum has one")
    numbers = _known(arr, "math.bincount")
    if (numbers < 0).any():
        raise InvalidArgumentError("Input arr must be non-negative!")
    if axis not in (None, 0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    kind = as_dtype(dtype) if weights is None else as_dtype(as_array(unwrap(weights)).dtype)
    count = int(numbers.max()) + 1 if numbers.size else 0
    count = max(count, int(unwrap(minlength))) if minlength is not None else count
    count = min(count, int(unwrap(maxlength))) if maxlength is not None else count
    given = np.ones(numbers.shape) if weights is None else _known(weights, "math.bincount")
    by_row = axis == -1 and numbers.ndim == 2
    rows = zip(numbers if by_row else numbers.reshape(1, -1), given if by_row else given.reshape(1, -1))
    found = []
    for row, weight in rows:
        kept = row < count
        made = np.bincount(row[kept], weight[kept], count)[:count]
        found.append((made > 0) if binary_output else made)
    table = np.array(found).reshape((len(found), count)).astype(kind.as_numpy_dtype)
    return Tensor(table if by_row else table[0])


def histogram_fixed_width(values: Any, value_range: Any, nbins: Any = 100, dtype: Any = int32,
                          name: str | None = None) -> Tensor:
    """How many values are in each of nbins equal parts of a range; those outside are in the first and the last."""
    found, (low, high) = _known(values, "histogram_fixed_width"), _known(value_range, "histogram_fixed_width")
    if low >= high:
        raise InvalidArgumentError(f"value_range should satisfy value_range[0] < value_range[1], but got [{low}, {high}]")
    bins = int(unwrap(nbins))
    places = np.clip(np.floor((found.reshape(-1) - low) / (high - low) * bins), 0, bins - 1).astype(np.int64)
    return Tensor(np.bincount(places, minlength=bins).astype(as_dtype(dtype).as_numpy_dtype))


def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> tuple:
    """The distinct elements of a vector, which of them each element is, and how often each occurs."""
    values, index = unique(x, out_idx)
    count = eager(ops.size)(values)
    return values, index, _cast(_sum_rows(_cast(_ones_like(index), float32), index, count), out_idx)


