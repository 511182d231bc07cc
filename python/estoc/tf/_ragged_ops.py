# SPDX-License-Identifier: Apache-2.0
"""What operations do with ragged tensors: elementwise ones work on the values, others on the rows."""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

import numpy as np

from .. import ops
from .._lib import lib
from .._tensor import as_array
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, as_node
from ._eager import Tensor, composite_among, eager, unwrap
from ._eager import dispatch as dispatch_flat
from ._ragged import RaggedTensor, as_values, intervals, places_known, row_ids_of, size_of, splits_of, take_rows
from ._variable import Variable

_reshape, _where, _expand, _size = eager(ops.reshape), eager(ops.where), eager(ops.expand_dims), eager(ops.size)
_gather, _concat, _cast, _divide = eager(ops.gather), eager(ops.concat), eager(ops.cast), eager(ops.truediv)


@eager
def _row_ids(splits: "Tensor", values: "Tensor") -> Node:
    """The row of every value."""
    graph = (splits if isinstance(splits, Node) else values).graph
    return graph.node(lib.est_row_ids(as_node(splits, graph)._c, as_node(values, graph)._c))


def row_ids(value: RaggedTensor) -> Any:
    """The row of every value."""
    if isinstance(value._splits, Node):
        inner = value._inner
        return _row_ids(value._splits, inner if not isinstance(inner, RaggedTensor) else inner.row_splits[1:])
    return Tensor(row_ids_of(value._splits))


@eager
def _sums(values: "Tensor", rows: "Tensor", count: "Tensor") -> Node:
    graph = next(item for item in (values, rows, count) if isinstance(item, Node)).graph
    values, rows, count = (as_node(item, graph) for item in (values, rows, count))
    return graph.node(lib.est_unsorted_segment_sum(values._c, rows._c, ops.cast(count, "int32")._c))


@eager
def _padding_places(splits: "Tensor", places: "Tensor") -> Node:
    """[rows, longest]: the place of each value, -1 behind the ends of rows."""
    graph = splits.graph
    return graph.node(lib.est_ragged_to_dense((as_node(places, graph)._c, splits._c), -1.0))


# --- dense forms ------------------------------------------------------------------------------------------------------


def _lowest(dtype: Any, largest: bool) -> Any:
    if dtype.is_bool:
        return not largest
    return dtype.min if largest else dtype.max


def _places(value: RaggedTensor, width: int | None) -> Any:
    """The place among the values of every element of the dense form; that behind the last one where there is none."""
    if isinstance(value._splits, Node):
        if width is not None:
            raise NeedsValue("to_tensor with a shape needs the rows")
        count = size_of(value._inner)
        numbers = _numbers(count)
        places = _padding_places(value._splits, numbers)
        return _where(ops.less(places, 0), count if isinstance(count, Node) else np.int64(count), places)
    lengths = np.diff(value._splits)
    wide = int(max(lengths, default=0)) if width is None else width
    column = np.arange(wide)
    places = value._splits[:-1, None].astype(np.int64) + column
    return np.where(column < lengths[:, None], places, value._splits[-1])


def _numbers(count: Any) -> Any:
    from ._array import range_
    return range_(count if isinstance(count, Node) else np.int64(count))


def dense(value: RaggedTensor, default: Any = None, shape: Any = None) -> Any:
    """The rows as a tensor, filled up with the default."""
    sizes = [None] * len(value.shape) if shape is None or getattr(shape, "rank", 0) is None else [
        None if size in (None, -1) else int(size) for size in unwrap(shape)]
    if len(sizes) != len(value.shape):
        raise ValueError(f"to_tensor: a shape of {len(sizes)} axes for {len(value.shape)}")
    inner = value._inner
    if isinstance(inner, RaggedTensor):
        rest = dense(inner, default, [None, *sizes[2:]])
    else:
        rest = inner
        if any(want is not None and want != have for want, have in zip(sizes[2:], inner.shape[1:])):
            raise NotImplementedError("to_tensor: a shape may cut or fill ragged axes, not those behind them")
    kind = inner.dtype
    fill = as_array(unwrap(default), kind) if default is not None else np.asarray(
        b"" if kind.name == "string" else 0, kind.as_numpy_dtype)
    tail = tuple(rest.shape)[1:]
    if None in tail:
        raise NeedsValue("to_tensor needs the sizes of the inner axes")
    last = np.empty((1, *tail), fill.dtype)
    last[...] = np.broadcast_to(fill, tail)
    found = _gather(_concat([rest, Tensor(last)], 0), _places(value, sizes[1]))
    if sizes[0] is None:
        return found
    rows = value._rows()
    if isinstance(rows, Node):
        raise NeedsValue("to_tensor with a number of rows needs the rows")
    if sizes[0] <= rows:
        return found[:sizes[0]]
    more = np.empty((sizes[0] - rows, *found.shape[1:]), fill.dtype)
    more[...] = np.broadcast_to(fill, tail)
    return _concat([found, Tensor(more)], 0)


# --- elementwise ------------------------------------------------------------------------------------------------------


def _size_at(value: Any, axis: int, shift: int) -> Any:
    """How an operand is cut along an axis: its lengths, and whether they are those of ragged rows. `shift` axes of one
    row are in front of it."""
    if axis < shift:
        return np.ones(1, np.int64), False
    axis -= shift
    while isinstance(value, RaggedTensor) and axis > 0:
        if axis == 1:
            return np.diff(places_known(value._splits, "broadcasting")), value._uniform is None
        value, axis = value._inner, axis - 1
    if isinstance(value, RaggedTensor):
        return np.array([value._rows()]), False
    count = int(np.prod([int(size) for size in value.shape[:axis]], dtype=np.int64))
    return np.full(count, value.shape[axis], np.int64), False


def _broadcast(function: Callable, one: Any, other: Any) -> RaggedTensor:
    """A function of two operands of which one is ragged, after each was repeated to the rows of both."""
    operands = [one, other]
    rank = max(len(item.shape) for item in operands)
    shifts = [rank - len(item.shape) for item in operands]
    levels = max(item.ragged_rank + shift for item, shift in zip(operands, shifts) if isinstance(item, RaggedTensor))
    if any(None in item.shape[1:] and not isinstance(item, RaggedTensor) for item in operands) or any(
            isinstance(item, Node) and item.shape[0] is None for item in operands):
        raise NeedsValue("broadcasting over rows needs the sizes of the tensors")
    at = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    cuts: list = []
    for axis in range(levels + 1):
        sizes, ragged = zip(*(_size_at(item, axis, shift) for item, shift in zip(operands, shifts)))
        starts = [np.concatenate([[0], np.cumsum(size)])[:-1] for size in sizes]
        lengths = [size[index] for size, index in zip(sizes, at)]
        alone = [not is_ragged and (size == 1).all() for size, is_ragged in zip(sizes, ragged)]
        out = lengths[1] if alone[0] else lengths[0]
        if not alone[0] and not alone[1] and not np.array_equal(*lengths):
            raise InvalidArgumentError(f"Unable to broadcast: dimension size mismatch in dimension {axis}: lengths "
                                       f"{lengths[0].tolist()} and {lengths[1].tolist()}")
        counts = [np.ones_like(out) if single else out for single in alone]
        at = [intervals(np.repeat(start[index], out), np.ones(int(out.sum()), np.int64)) if single else
              intervals(start[index], count) for start, index, single, count in zip(starts, at, alone, counts)]
        cuts.append((out, any(ragged)))
    flat = [_flattened(item, levels - shift, index) for item, shift, index in zip(operands, shifts, at)]
    result = function(*flat)
    for lengths, ragged in reversed(cuts[1:]):
        uniform = None if ragged else int(lengths[0]) if len(lengths) else 0
        result = RaggedTensor._of(result, splits_of(lengths.astype(np.int64)), uniform)
    return result


def _flattened(value: Any, levels: int, index: np.ndarray) -> Any:
    """The parts of an operand below its first levels, taken at an index."""
    while isinstance(value, RaggedTensor):
        value, levels = value._inner, levels - 1
    if levels > 0:
        value = _reshape(value, [-1] + [int(size) for size in value.shape[levels + 1:]])
    elif levels < 0:
        value = _reshape(value, [1] + [int(size) for size in value.shape])
    same = len(index) == value.shape[0] and np.array_equal(index, np.arange(len(index)))
    return value if same else _gather(value, index)


def same_rows(one: RaggedTensor, other: RaggedTensor) -> bool:
    if one.ragged_rank != other.ragged_rank:
        return False
    while True:
        mine, theirs = one._splits, other._splits
        if mine is not theirs and (isinstance(mine, Node) or isinstance(theirs, Node) or not np.array_equal(mine, theirs)):
            return False
        if not isinstance(one._inner, RaggedTensor):
            return True
        one, other = one._inner, other._inner


def _operand(value: Any, like: Any) -> Any:
    if isinstance(value, (RaggedTensor, Tensor, Node)):
        return value.value() if isinstance(value, Variable) else value
    if isinstance(value, Variable):
        return value.value()
    if isinstance(value, (int, float, bool)) or np.isscalar(value):
        return value
    array = as_array(unwrap(value))
    return Tensor(array.astype(like.as_numpy_dtype) if array.dtype.kind in "iuf" and like.name not in (
        "string", "bool") else array)


def elementwise(function: Callable, values: list) -> Any:
    """A function of operands of which some are ragged."""
    first = next(item for item in values if isinstance(item, RaggedTensor))
    values = [_operand(item, first.dtype) for item in values]
    scalar = [not isinstance(item, RaggedTensor) and (not hasattr(item, "shape") or item.shape == ()) for item in values]
    others = [item for item, single in zip(values, scalar) if not single and item is not first]
    if all(isinstance(item, RaggedTensor) and same_rows(first, item) for item in others):
        return first.with_flat_values(function(*(item.flat_values if isinstance(item, RaggedTensor) else item
                                                 for item in values)))
    if len(values) != 2:
        raise NotImplementedError("an operation on more than two ragged tensors takes those of the same rows, and scalars")
    return _broadcast(function, *values)


# --- reductions -------------------------------------------------------------------------------------------------------


def _axes_of(axis: Any, rank: int) -> list[int]:
    axes = sorted({int(item) + (rank if item < 0 else 0) for item in np.reshape(unwrap(axis), -1)})
    if any(not 0 <= item < rank for item in axes):
        raise ValueError(f"axis={axis} of a ragged tensor of {rank} axes")
    return axes


def _reduce_rows(what: str, value: RaggedTensor) -> Any:
    """Over the axis behind the first."""
    inner = value._inner
    if isinstance(inner, RaggedTensor):
        return _reduce_columns(what, value, per_row=True)
    if what == "reduce_sum":
        rows = value._rows()
        return _sums(inner, row_ids(value), rows if isinstance(rows, Node) else np.int64(rows))
    if what in ("reduce_max", "reduce_min"):
        kind = inner.dtype
        padded = dense(value, _lowest(kind, what == "reduce_max"))
        if padded.shape[1] == 0:
            return Tensor(np.full((padded.shape[0], *padded.shape[2:]), _lowest(kind, what == "reduce_max"),
                                  kind.as_numpy_dtype))
        return eager(getattr(ops, what))(padded, 1)
    return eager(getattr(ops, what))(dense(value, what in ("reduce_prod", "reduce_all")), 1)


def _reduce_columns(what: str, value: RaggedTensor, per_row: bool = False) -> Any:
    """Over the first axis, or over the rows below every row: the values of each column come together."""
    if per_row:  # [rows, (below), (columns)]: rows of columns in place of rows of rows
        below = value._inner
        outer, inner = places_known(value._splits, what), places_known(below._splits, what)
        owner = row_ids_of(outer)[row_ids_of(inner)]
        column = intervals(np.zeros(len(inner) - 1), np.diff(inner))
    else:
        below = value
        inner = places_known(value._splits, what)
        owner = np.zeros(int(inner[-1]), np.int64)
        column = intervals(np.zeros(len(inner) - 1), np.diff(inner))
    count = len(value._splits) - 1 if per_row else 1
    widths = np.zeros(count, np.int64)
    np.maximum.at(widths, owner, column + 1)
    starts = np.cumsum(widths) - widths
    places = starts[owner] + column
    order = np.argsort(places, kind="stable")
    grouped = RaggedTensor._of(take_rows(below._inner, order),
                               splits_of(np.bincount(places, minlength=int(widths.sum())).astype(np.int64)))
    found = _reduce_rows(what, grouped)
    return RaggedTensor._of(found, splits_of(widths)) if per_row else found


def _reduce_axis(what: str, value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return eager(getattr(ops, what))(value, axis)
    if axis == 0:
        return _reduce_columns(what, value)
    if axis == 1:
        return _reduce_rows(what, value)
    return value.with_values(_reduce_axis(what, value._inner, axis - 1))


def reduction(what: str) -> Callable:
    def call(value: Any, axis: Any = None, keepdims: bool = False) -> Any:
        function = eager(getattr(ops, what))
        if axis is None:
            found = function(value.flat_values)
            for _ in range(len(value.shape) if keepdims else 0):
                found = _expand(found, 0)
            return found
        found = value
        for one in reversed(_axes_of(axis, len(value.shape))):
            found = _reduce_axis(what, found, one)
            if keepdims:
                found = expand_dims(found, one)
        return found

    return call


_sum = reduction("reduce_sum")


def _mean(value: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if axis is None:
        return reduction("reduce_mean")(value, None, keepdims)
    total = _sum(value, axis, keepdims)
    count = _sum(eager(ops.ones_like)(value), axis, keepdims)
    return _divide(total, count)


def _variance(value: Any, axis: Any = None, keepdims: bool = False) -> Any:
    square = eager(ops.square)
    return eager(ops.subtract)(_mean(square(value), axis, keepdims), square(_mean(value, axis, keepdims)))


def _deviation(value: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return eager(ops.sqrt)(_variance(value, axis, keepdims))


# --- rows -------------------------------------------------------------------------------------------------------------


def _axis_of(axis: Any, rank: int) -> int:
    axis = int(unwrap(axis))
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return axis % rank



def _with_rows(value: Any) -> RaggedTensor:
    return value if isinstance(value, RaggedTensor) else RaggedTensor.from_tensor(value)


def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """One after the other along an axis."""
    parts = [as_values(item) for item in values]
    rank = len(next(item for item in parts if isinstance(item, RaggedTensor)).shape)
    if any(len(item.shape) != rank for item in parts):
        raise ValueError(f"concat: the parts have {[len(item.shape) for item in parts]} axes")
    return _joined([_with_rows(item) for item in parts], _axis_of(axis, rank))


def _joined(parts: list, axis: int) -> Any:
    if not any(isinstance(item, RaggedTensor) for item in parts):
        return _concat(parts, axis)
    if len(parts) == 1:
        return parts[0]
    parts = [_with_rows(item) for item in parts]
    splits = [places_known(item._splits, "concat") for item in parts]
    values = _joined([item._inner for item in parts], 0) if axis < 2 else None
    starts = np.cumsum([0] + [item[-1] for item in splits])
    if axis == 0:
        joined = np.concatenate([splits[0][:1]] + [item[1:] + start for item, start in zip(splits, starts)])
        return RaggedTensor._of(values, joined.astype(splits[0].dtype))
    if axis > 1:
        if any(not np.array_equal(item, splits[0]) for item in splits[1:]):
            raise InvalidArgumentError(f"concat along axis {axis}: the rows of the parts differ")
        return parts[0].with_values(_joined([item._inner for item in parts], axis - 1))
    if len({len(item) for item in splits}) > 1:
        raise InvalidArgumentError(f"Input tensors have incompatible shapes: {[len(item) - 1 for item in splits]} rows")
    begins = np.stack([item[:-1] + start for item, start in zip(splits, starts)], 1).reshape(-1)
    lengths = np.stack([np.diff(item) for item in splits], 1)
    total = lengths.sum(1).astype(splits[0].dtype)
    return RaggedTensor._of(take_rows(values, intervals(begins, lengths.reshape(-1))), splits_of(total))


def expand_dims(value: Any, axis: Any) -> Any:
    """With a new axis of one."""
    if not isinstance(value, RaggedTensor):
        return _expand(value, axis)
    rank = len(value.shape)
    axis = _axis_of(axis, rank + 1)
    if axis > 1:
        return value.with_values(expand_dims(value._inner, axis - 1))
    rows = value._rows()
    if isinstance(rows, Node):
        raise NeedsValue("expand_dims of a ragged tensor needs the number of its rows")
    ends = np.array([0, rows], np.int64) if axis == 0 else np.arange(rows + 1, dtype=np.int64)
    return RaggedTensor._of(value, ends, rows if axis == 0 else 1)


def _squeeze(value: Any, axis: Any = None) -> Any:
    if axis is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    for one in reversed(_axes_of(axis, len(value.shape))):
        value = _squeezed(value, one)
    return value


def _squeezed(value: Any, axis: int) -> Any:
    if not isinstance(value, RaggedTensor):
        return eager(ops.squeeze)(value, axis)
    if axis > 1:
        return value.with_values(_squeezed(value._inner, axis - 1))
    lengths = np.diff(places_known(value._splits, "squeeze")) if axis == 1 else np.array([value._rows()])
    if (lengths != 1).any():
        raise InvalidArgumentError(f"squeeze: axis {axis} is not 1")
    return value._inner if axis == 1 else value[0]


def stack(values: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Along a new axis."""
    parts = [as_values(item) for item in values]
    axis = _axis_of(axis, 1 + len(parts[0].shape))
    if len(parts[0].shape) == 0:
        return eager(ops.stack)(parts, 0)
    if not any(isinstance(item, RaggedTensor) for item in parts) and axis == 0:
        lengths = np.array([int(item.shape[0]) for item in parts], np.int64)
        return RaggedTensor._of(_concat(parts, 0), splits_of(lengths))
    return _joined([expand_dims(_with_rows(item) if len(item.shape) > 1 else item, axis) for item in parts], axis)


def _tile(value: Any, multiples: Any) -> Any:
    times = [int(item) for item in np.reshape(unwrap(multiples), -1)]
    if len(times) != len(value.shape):
        raise ValueError(f"tile: {len(times)} multiples for {len(value.shape)} axes")
    found = _tiled(value, times)
    rows = found._rows()
    return take_rows(found, np.tile(np.arange(rows), times[0])) if times[0] != 1 else found


def _tiled(value: Any, times: list) -> Any:
    """Along all axes but the first."""
    if not isinstance(value, RaggedTensor):
        return eager(ops.tile)(value, [1, *times[1:]]) if any(item != 1 for item in times[1:]) else value
    inner = value.with_values(_tiled(value._inner, times[1:]))
    if times[1] == 1:
        return inner
    splits = places_known(value._splits, "tile")
    lengths = np.diff(splits)
    index = intervals(np.repeat(splits[:-1], times[1]), np.repeat(lengths, times[1]))
    uniform = None if value._uniform is None else value._uniform * times[1]
    return RaggedTensor._of(take_rows(inner._inner, index), splits_of(lengths * np.array(times[1], splits.dtype)), uniform)


def _reverse(tensor: Any, axis: Any) -> Any:
    for one in _axes_of(axis, len(tensor.shape)):
        tensor = tensor[(slice(None),) * one + (slice(None, None, -1),)]
    return tensor


def gather(params: Any, indices: Any, axis: Any = 0, batch_dims: int = 0) -> Any:
    if batch_dims:
        return _gather_batches(params, as_values(indices), int(batch_dims))
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(gather(params, indices.flat_values, axis))
    if not isinstance(params, RaggedTensor):
        return _gather(params, indices, axis=axis)
    if int(axis or 0) != 0:
        raise NotImplementedError("tf.gather of a ragged tensor: axis 0, or batch_dims=1")
    index = np.asarray(places_known(unwrap(indices), "gather"))
    rows = params._rows()
    if isinstance(rows, Node):
        raise NeedsValue("gather of a ragged tensor needs its rows")
    if ((index < 0) | (index >= rows)).any():
        raise InvalidArgumentError(f"gather: an index is not in [0, {rows})")
    if index.ndim == 0:
        return params[int(index)]
    found = take_rows(params, index.reshape(-1))
    for size in index.shape[:0:-1]:
        found = RaggedTensor.from_row_splits(found, np.arange(found._rows() // size + 1 if size else 1) * size)
    return found


def _gather_batches(params: Any, indices: Any, batch_dims: int) -> Any:
    if batch_dims != 1:
        raise NotImplementedError("tf.gather of ragged tensors: batch_dims of 0 or 1")
    params, indices = _with_rows(as_values(params)), _with_rows(indices)
    starts, limits = (places_known(params._splits, "gather")[part] for part in (slice(None, -1), slice(1, None)))
    rows = row_ids_of(places_known(indices._splits, "gather"))
    if not isinstance(indices._inner, Tensor) or indices._inner.ndim != 1:
        raise NotImplementedError("tf.gather of ragged tensors: batch_dims=1 with rows of indices")
    index = indices._inner._value + starts[rows]
    if ((indices._inner._value < 0) | (index >= limits[rows])).any():
        raise InvalidArgumentError("gather: an index is out of its row")
    return indices.with_values(take_rows(params._inner, index))


def _gather_nd(params: Any, indices: Any) -> Any:
    if isinstance(indices, RaggedTensor):
        return indices.with_values(_gather_nd(params, indices._inner))
    index = np.asarray(places_known(unwrap(as_values(indices)), "gather_nd"))
    if not isinstance(params, RaggedTensor):
        from ._array import gather_nd
        return gather_nd(params, Tensor(index))
    places, levels = index[..., 0].reshape(-1), index.shape[-1]
    flat = index.reshape(-1, levels)
    value: Any = params
    for level in range(1, levels):
        if not isinstance(value, RaggedTensor):
            raise NotImplementedError("tf.gather_nd of a ragged tensor: indices of its ragged axes")
        splits = places_known(value._splits, "gather_nd")
        places, value = splits[:-1][places] + flat[:, level], value._inner
    found = take_rows(value, places)
    if index.ndim == 2:
        return found
    return _reshape(found, list(index.shape[:-1]) + list(found.shape[1:]))


def _select(condition: Any, x: Any = None, y: Any = None) -> Any:
    if (x is None) != (y is None):
        raise ValueError("x and y must be either both None or both non-None")
    if x is None:
        value = condition.to_sparse()
        return Tensor(value._places[value._values.astype(bool)])
    if not isinstance(condition, RaggedTensor):
        raise NotImplementedError("tf.where of ragged tensors: a ragged condition")
    return elementwise(eager(ops.where), [condition, x, y])


def _shape(value: Any, out_type: Any = None) -> Any:
    from ._ragged_shape import DynamicRaggedShape
    return DynamicRaggedShape.of(value, "int32" if out_type is None else out_type)


def _reshape_rows(value: Any, shape: Any) -> Any:
    sizes = np.reshape(unwrap(shape), -1).tolist()
    if sizes != [-1]:
        raise NotImplementedError("tf.reshape of a ragged tensor: to a vector, [-1]; merge_dims() joins other axes")
    return _reshape(value.flat_values, [-1])


def _softmax(value: Any, axis: Any = -1) -> Any:
    """Along the rows."""
    if _axis_of(axis, len(value.shape)) != 1 or isinstance(value._inner, RaggedTensor):
        raise NotImplementedError("tf.nn.softmax of a ragged tensor: along rows of numbers")
    high = _gather(_reduce_rows("reduce_max", value), row_ids(value))
    raised = eager(ops.exp)(eager(ops.subtract)(value._inner, eager(ops.stop_gradient)(high)))
    powers = value.with_values(raised)
    return value.with_values(_divide(raised, _gather(_reduce_rows("reduce_sum", powers), row_ids(value))))


def _join_rows(values: Any, separator: str = "") -> Any:
    return elementwise(lambda *flat: eager(ops.string_join, "string_join")(list(flat), separator), list(values))


def _add_n(inputs: Any) -> Any:
    return elementwise(lambda *flat: eager(ops.add_n)(list(flat)), list(inputs))




def _size_of_all(value: Any, out_type: Any = None) -> Any:
    return _size(value.flat_values, **({} if out_type is None else {"out_type": out_type}))


def _rank(value: Any) -> Any:
    return Tensor(np.int32(len(value.shape)))


_OF_VALUES = ("abs", "cast", "ceil", "cos", "erf", "exp", "expm1", "floor", "is_finite", "is_inf", "is_nan", "log",
              "log1p", "logical_not", "negative", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "softplus",
              "softsign", "sqrt", "square", "tanh", "identity", "stop_gradient", "zeros_like", "ones_like", "relu", "relu6",
              "elu", "selu", "leaky_relu", "check_numerics", "as_string", "string_lower", "string_upper",
              "string_strip", "string_length", "string_to_number", "string_to_hash_bucket", "one_hot", "clip_by_value",
              "substr", "lookup")
_OF_PAIRS = ("add", "subtract", "multiply", "divide", "truediv", "divide_no_nan", "floordiv", "floormod", "maximum",
             "minimum", "pow", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
             "logical_or", "squared_difference")
_OF_ROWS: dict[str, Callable] = {
    "concat": concat, "stack": stack, "expand_dims": expand_dims, "squeeze": _squeeze, "tile": _tile, "gather": gather,
    "where": _select, "shape": _shape, "reshape": _reshape_rows, "softmax": _softmax, "string_join": _join_rows,
    "add_n": _add_n, "size": _size_of_all, "reduce_mean": _mean,
    **{name: reduction(name) for name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_any",
                                          "reduce_all")}}
_tables: dict[Any, tuple] = {}  # what becomes of a function over nodes: a kind, and its handler


def _fill_tables() -> None:
    """When all operations exist."""
    from . import _array
    for names, kind in ((_OF_VALUES, "values"), (_OF_PAIRS, "pairs")):
        _tables.update({getattr(ops, name).over_nodes: (kind, None) for name in names})
    _tables.update({getattr(ops, name).over_nodes: ("rows", handler) for name, handler in _OF_ROWS.items()})
    _tables.update({function.over_nodes: ("rows", handler) for function, handler in (
        (_array.rank, _rank), (_array.reverse, _reverse), (_array.gather_nd, _gather_nd),
        (_array.reduce_variance, _variance), (_array.reduce_std, _deviation))})


def dispatch(function: Callable, positional: tuple, named: dict, convert: Callable) -> Any:
    """A function over nodes for arguments of which some are ragged."""
    if not _tables:
        _fill_tables()
    kind, handler = _tables.get(function, (None, None))
    if kind == "rows":
        return handler(*positional, **named)
    if kind == "pairs":
        return elementwise(lambda *flat: dispatch_flat(function, flat, {}, convert), [*positional, *named.values()])
    if kind == "values" and isinstance(positional[0], RaggedTensor):
        return positional[0].with_flat_values(
            dispatch_flat(function, (positional[0].flat_values, *positional[1:]), named, convert))
    raise NotImplementedError(f"{getattr(function, '__name__', 'the function')} takes no ragged tensors: to_tensor() makes "
                              "a dense one, tf.ragged.map_flat_values applies a function to the values")


def gather_of(function: Callable) -> Callable:
    """tf.gather, which also takes rows of ragged tensors by batch_dims=1."""
    @functools.wraps(function)
    def gather_(*arguments: Any, **named: Any) -> Any:
        if composite_among((*arguments, *named.values())) is None:
            return function(*arguments, **named)
        given = inspect.signature(function).bind(*arguments, **named).arguments
        return gather(given["params"], given["indices"], given.get("axis"), int(given.get("batch_dims") or 0))

    gather_.__name__ = gather_.__qualname__ = "gather"
    return gather_
