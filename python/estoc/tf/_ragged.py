# SPDX-License-Identifier: Apache-2.0
"""Ragged tensors: the values of all rows, and where each row ends. Both may be nodes of a graph; what needs to know the
rows then raises NeedsValue, and the function is run as Python."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .. import ops
from .._tensor import as_array, as_dtype, int32, int64
from ..data import TensorSpec
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, RaggedNode, Shape
from ..io import RaggedArray
from . import _structure
from ._eager import Tensor, add_operators, eager, unwrap
from ._sparse import SparseTensor
from ._variable import Variable

_gather, _reshape, _cast = eager(ops.gather), eager(ops.reshape), eager(ops.cast)
_subtract, _size = eager(ops.subtract), eager(ops.size)


def as_values(value: Any, dtype: Any = None) -> Any:
    """The values of rows: a tensor of any kind."""
    if isinstance(value, RaggedTensor) or isinstance(value, Node) and not isinstance(value, Variable):
        return value
    if isinstance(value, Variable):
        return value.value()
    return value if isinstance(value, Tensor) and dtype is None else Tensor(unwrap(value), dtype)


def as_places(value: Any, what: str, dtype: Any = None) -> Any:
    """Splits, lengths and the like: an array of int64 or int32, or a node."""
    value = unwrap(value)
    if isinstance(value, Node):
        return value if value.dtype == (dtype or int64) else ops.cast(value, dtype or int64)
    array = as_array(value)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{what} is of integers, not of {array.dtype}")
    typed = hasattr(value, "dtype") and array.dtype == np.int32
    return array.astype(as_dtype(dtype).as_numpy_dtype if dtype else np.int32 if typed else np.int64)


def places_known(places: Any, what: str) -> np.ndarray:
    if isinstance(places, Node):
        raise NeedsValue(f"{what} of a ragged tensor needs its rows")
    return places


def _check(condition: Any, text: str) -> None:
    if not condition:
        raise InvalidArgumentError(f"the arguments do not form a valid RaggedTensor: {text}")


def size_of(values: Any) -> Any:
    """The number of rows of values: a number, or a node."""
    if isinstance(values, RaggedTensor):
        return values._rows()
    if isinstance(values, Node) and values.shape[0] is None:
        return _cast(_gather(eager(ops.shape)(values), 0), int64)
    return int(values.shape[0])


class RaggedTensor(_structure.Composite):
    """Rows of unequal length; of rows again, if values is one, too."""

    __array_priority__ = 95
    __slots__ = ("_inner", "_splits", "_uniform", "_keras_mask", "__weakref__")

    def __init__(self, values: Any, row_partition: Any = None, internal: bool = False):
        raise ValueError("RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
                         "RaggedTensor.from_row_lengths())")

    @staticmethod
    def _of(values: Any, splits: Any, uniform: int | None = None) -> "RaggedTensor":
        made = object.__new__(RaggedTensor)
        made._inner, made._uniform = values, uniform
        made._splits = splits._value if type(splits) is Tensor else splits
        return made

    # --- what functions that are traced see ---

    def parts(self) -> tuple:
        return self._inner, self._splits if isinstance(self._splits, Node) else Tensor(self._splits)

    def of_parts(self, parts: list) -> Any:
        values, splits = parts
        if isinstance(values, (TensorSpec, RaggedTensorSpec)):
            return RaggedTensorSpec._of(values, splits, self._uniform)
        return RaggedTensor._of(Tensor(values) if isinstance(values, np.ndarray) else values, splits, self._uniform)

    def kind(self) -> tuple:
        return ("ragged", self._uniform)

    def dispatch(self, function: Callable, positional: tuple, named: dict, convert: Callable) -> Any:
        from ._ragged_ops import dispatch
        return dispatch(function, positional, named, convert)

    def _ragged_node(self) -> Any:
        """What estoc has for it: rows of one level."""
        if isinstance(self._inner, RaggedTensor):
            raise NotImplementedError("a ragged tensor of several levels cannot be an element of a dataset or a feature: "
                                      "merge_dims() makes one level of them, to_tensor() none")
        if isinstance(self._inner, Node) or isinstance(self._splits, Node):
            graph = (self._inner if isinstance(self._inner, Node) else self._splits).graph
            values, splits = (item if isinstance(item, Node) else graph.constant(unwrap(item))
                              for item in (self._inner, self._splits))
            return RaggedNode(values, ops.cast(splits, int64))
        return RaggedArray(self._inner._value, self._splits.astype(np.int64))

    # --- construction ---

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: str | None = None,
                        validate: bool = True) -> "RaggedTensor":
        """Row r is values[row_splits[r]:row_splits[r + 1]]."""
        values, splits = as_values(values), as_places(row_splits, "row_splits")
        if isinstance(splits, np.ndarray):
            if splits.ndim != 1 or splits.size == 0:
                raise ValueError("row_splits tensor may not be empty, and is a vector: its shape is "
                                 f"{tuple(splits.shape)}")
            if validate:
                _check(splits[0] == 0, f"row_splits begins with {splits[0]}, not with 0")
                _check((np.diff(splits) >= 0).all(), "row_splits must not descend")
                count = size_of(values)
                if isinstance(count, int):
                    _check(splits[-1] == count, f"row_splits ends with {splits[-1]} for {count} values")
        return cls._of(values, splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: str | None = None,
                         validate: bool = True) -> "RaggedTensor":
        """The first row_lengths[0] values are the first row, and so on."""
        lengths = as_places(row_lengths, "row_lengths")
        if isinstance(lengths, Node):
            return cls._of(as_values(values), splits_of(lengths))
        if validate:
            _check((lengths >= 0).all(), "a row length is negative")
        return cls.from_row_splits(values, splits_of(lengths), validate=validate)

    @classmethod
    def from_value_rowids(cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None,
                          validate: bool = True) -> "RaggedTensor":
        """Value i is in row value_rowids[i], which must not descend."""
        ids = places_known(as_places(value_rowids, "value_rowids"), "from_value_rowids")
        count = int(ids[-1]) + 1 if nrows is None and ids.size else int(unwrap(nrows) if nrows is not None else 0)
        if count < 0:
            raise ValueError(f"Expected nrows >= 0; got {count}")
        if validate:
            _check((np.diff(ids) >= 0).all(), "value_rowids must not descend")
            _check(ids.size == 0 or ids[0] >= 0 and ids[-1] < count, f"a row number is not in [0, {count})")
        lengths = np.bincount(ids, minlength=count).astype(ids.dtype)
        return cls.from_row_splits(values, splits_of(lengths), validate=validate)

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, name: str | None = None,
                        validate: bool = True) -> "RaggedTensor":
        """Row r begins at row_starts[r]."""
        values, starts = as_values(values), places_known(as_places(row_starts, "row_starts"), "from_row_starts")
        end = np.array([size_of(values)], starts.dtype)
        return cls.from_row_splits(values, np.concatenate([starts, end]), validate=validate)

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, name: str | None = None,
                        validate: bool = True) -> "RaggedTensor":
        """Row r ends before row_limits[r]."""
        limits = places_known(as_places(row_limits, "row_limits"), "from_row_limits")
        return cls.from_row_splits(values, np.concatenate([np.zeros(1, limits.dtype), limits]), validate=validate)

    @classmethod
    def from_uniform_row_length(cls, values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True,
                                name: str | None = None) -> "RaggedTensor":
        """All rows have the same length."""
        values, length = as_values(values), int(unwrap(uniform_row_length))
        count = size_of(values)
        if isinstance(count, Node):
            raise NeedsValue("from_uniform_row_length needs the number of values")
        rows = int(unwrap(nrows)) if nrows is not None else count // length if length else 0
        if rows * length != count:
            raise ValueError(f"uniform_row_length={length} times nrows={rows} must equal nvals={count}")
        return cls._of(values, np.arange(rows + 1, dtype=np.int64) * length, length)

    @classmethod
    def from_nested_row_splits(cls, flat_values: Any, nested_row_splits: Sequence, name: str | None = None,
                               validate: bool = True) -> Any:
        """Several levels of row_splits, the outermost first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, "nested_row_splits", validate)

    @classmethod
    def from_nested_row_lengths(cls, flat_values: Any, nested_row_lengths: Sequence, name: str | None = None,
                                validate: bool = True) -> Any:
        """Several levels of row_lengths, the outermost first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, "nested_row_lengths", validate)

    @classmethod
    def from_nested_value_rowids(cls, flat_values: Any, nested_value_rowids: Sequence, nested_nrows: Any = None,
                                 name: str | None = None, validate: bool = True) -> Any:
        """Several levels of value_rowids, the outermost first."""
        if not isinstance(nested_value_rowids, (list, tuple)):
            raise TypeError("nested_value_rowids must be a list of Tensors")
        counts = [None] * len(nested_value_rowids) if nested_nrows is None else list(nested_nrows)
        if len(counts) != len(nested_value_rowids):
            raise ValueError("nested_nrows must have the same length as nested_value_rowids")
        found = flat_values
        for ids, count in reversed(list(zip(nested_value_rowids, counts))):
            found = cls.from_value_rowids(found, ids, count, validate=validate)
        return found

    @staticmethod
    def _nested(make: Callable, flat_values: Any, levels: Sequence, what: str, validate: bool) -> Any:
        if isinstance(levels, (Tensor, Node)):
            raise TypeError(f"{what} must be a list of tensors, got a tensor")
        found = as_values(flat_values)
        for level in reversed(list(levels)):
            found = make(found, level, validate=validate)
        return found

    @classmethod
    def from_tensor(cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1,
                    name: str | None = None, row_splits_dtype: Any = int64) -> "RaggedTensor":
        """The rows of a tensor; without what is behind lengths, or without the padding at their ends."""
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        if ragged_rank <= 0:
            raise ValueError(f"Argument `ragged_rank` must be greater than 0. Received {ragged_rank}.")
        tensor = as_values(tensor)
        if tensor.shape is None or len(tensor.shape) <= ragged_rank:
            raise ValueError(f"Argument `ragged_rank` must be less than the rank of `tensor`; it is {ragged_rank}")
        if ragged_rank > 1 or isinstance(lengths, (list, tuple)) and lengths and not np.isscalar(unwrap(lengths[0])) and \
                np.ndim(unwrap(lengths[0])) > 0:
            return cls._from_levels(tensor, lengths, padding, ragged_rank, row_splits_dtype)
        sizes = [None if size is None else int(size) for size in tensor.shape]
        if lengths is None and padding is None:
            return cls._from_whole(tensor, sizes, row_splits_dtype)
        if None in sizes[:2]:
            raise NeedsValue("RaggedTensor.from_tensor with lengths or padding needs the sizes of the tensor")
        rows, columns = sizes[0], sizes[1]
        if lengths is not None:
            counts = np.clip(places_known(as_places(lengths, "lengths"), "from_tensor"), 0, columns)
        else:
            values = unwrap(tensor)
            if isinstance(values, Node):
                raise NeedsValue("RaggedTensor.from_tensor with padding needs the values")
            same = values == as_array(unwrap(padding), values.dtype if values.dtype == object else None)
            same = np.reshape(same, (rows, columns, -1)).all(2)
            kept = np.where(same, 0, np.arange(1, columns + 1))
            counts = kept.max(1) if columns else np.zeros(rows, np.int64)
        splits = splits_of(counts.astype(as_dtype(row_splits_dtype).as_numpy_dtype))
        index = intervals(np.arange(rows) * columns, counts)
        return cls._of(_gather(_reshape(tensor, [rows * columns] + sizes[2:]), index), splits)

    @classmethod
    def _from_whole(cls, tensor: Any, sizes: list, dtype: Any) -> "RaggedTensor":
        flat = _reshape(tensor, [-1 if None in sizes[:2] or 0 not in sizes[:2] else 0] + [
            -1 if size is None else size for size in sizes[2:]]) if None not in sizes[2:] else None
        if flat is None or sizes[1] is None:
            raise NeedsValue("RaggedTensor.from_tensor needs the sizes of all axes but the first")
        if sizes[0] is None:
            count = _cast(_gather(eager(ops.shape)(tensor), 0), as_dtype(dtype))
            return cls._of(flat, eager(ops.multiply)(_range(eager(ops.add)(count, 1)), sizes[1]), sizes[1])
        splits = np.arange(sizes[0] + 1, dtype=as_dtype(dtype).as_numpy_dtype) * sizes[1]
        return cls._of(flat, splits, sizes[1])

    @classmethod
    def _from_levels(cls, tensor: Any, lengths: Any, padding: Any, rank: int, dtype: Any) -> "RaggedTensor":
        """Outer levels are whole, or as long as the lengths of each say."""
        sizes = [None if size is None else int(size) for size in tensor.shape]
        if None in sizes[:rank + 1]:
            raise NeedsValue("RaggedTensor.from_tensor needs the sizes of the tensor")
        nested = list(lengths) if isinstance(lengths, (list, tuple)) and np.ndim(unwrap(lengths[0])) > 0 else None
        if nested is not None:
            if len(nested) == 1:
                return cls.from_tensor(tensor, nested[0], row_splits_dtype=dtype)
            outer = cls.from_tensor(tensor, nested[0], row_splits_dtype=dtype)
            rest = nested[1:] if len(nested) > 2 else nested[1]
            return outer.with_values(cls.from_tensor(outer.values, rest, row_splits_dtype=dtype))
        merged = _reshape(tensor, [sizes[0] * sizes[1]] + sizes[2:])
        inner = cls.from_tensor(merged, lengths, padding, rank - 1, row_splits_dtype=dtype)
        splits = np.arange(sizes[0] + 1, dtype=as_dtype(dtype).as_numpy_dtype) * sizes[1]
        return cls._of(inner, splits, sizes[1])

    @classmethod
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = int64) -> "RaggedTensor":
        """The rows of a sparse matrix whose elements are at the beginnings of rows."""
        from ._sparse import as_sparse
        value = as_sparse(st_input, "from_sparse")
        if len(value._sizes) != 2:
            raise ValueError(f"rank(st_input) must be 2, it is {len(value._sizes)}")
        rows, columns = value._places.T
        made = cls.from_value_rowids(value.values, rows, int(value._sizes[0]))
        expected = np.arange(len(columns)) - made._splits[rows]
        if not np.array_equal(columns, expected):
            raise InvalidArgumentError("SparseTensor is not right-ragged")
        return made.with_row_splits_dtype(row_splits_dtype)

    # --- parts ---

    def _rows(self) -> Any:
        splits = self._splits
        if isinstance(splits, Node):
            return splits.shape[0] - 1 if splits.shape[0] is not None else _subtract(_size(splits, out_type=int64), 1)
        return len(splits) - 1

    values = property(lambda self: self._inner)
    row_splits = property(lambda self: self._splits if isinstance(self._splits, Node) else Tensor(self._splits))
    uniform_row_length = property(lambda self: None if self._uniform is None else Tensor(np.int64(self._uniform)))
    dtype = property(lambda self: self._inner.dtype)
    ragged_rank = property(lambda self: 1 + (self._inner.ragged_rank if isinstance(self._inner, RaggedTensor) else 0))
    flat_values = property(lambda self: self._inner.flat_values if isinstance(self._inner, RaggedTensor) else self._inner)

    @property
    def nested_row_splits(self) -> tuple:
        inner = self._inner.nested_row_splits if isinstance(self._inner, RaggedTensor) else ()
        return (self.row_splits, *inner)

    @property
    def shape(self) -> Shape:
        rows = self._rows()
        inner = tuple(self._inner.shape)[1:] if self._inner.shape is not None else None
        if inner is None:
            return Shape(None)
        return Shape((rows if isinstance(rows, int) else None, self._uniform, *inner))

    def get_shape(self) -> Shape:
        return self.shape

    def nrows(self, out_type: Any = None, name: str | None = None) -> Any:
        """How many rows there are."""
        return self._place(self._rows(), out_type)

    def _place(self, value: Any, out_type: Any) -> Any:
        """Numbers of rows or values, with the dtype of the splits if none is given."""
        kind = as_dtype(out_type) if out_type is not None else as_dtype(self._splits.dtype)
        if isinstance(value, Node):
            return value if value.dtype == kind else _cast(value, kind)
        return Tensor(np.asarray(value).astype(kind.as_numpy_dtype))

    def row_lengths(self, axis: Any = 1, name: str | None = None) -> Any:
        """How long rows are; of an inner axis a ragged tensor."""
        axis = int(unwrap(axis))
        if axis == 0:
            return self.nrows()
        if axis == 1:
            return self._place(lengths_of(self._splits), None)
        if isinstance(self._inner, RaggedTensor):
            return self.with_values(self._inner.row_lengths(axis - 1))
        shape = self._inner.shape
        counts = np.full(places_known(self._splits, "row_lengths")[-1:], shape[axis - 1], self._splits.dtype)
        return self.with_values(Tensor(counts))

    def nested_row_lengths(self, name: str | None = None) -> tuple:
        """The lengths of the rows of all levels."""
        inner = self._inner.nested_row_lengths() if isinstance(self._inner, RaggedTensor) else ()
        return (self.row_lengths(), *inner)

    def row_starts(self, name: str | None = None) -> Any:
        """Where rows begin."""
        return self.row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Any:
        """Where rows end."""
        return self.row_splits[1:]

    def value_rowids(self, name: str | None = None) -> Any:
        """The row of every value."""
        if isinstance(self._splits, Node):
            from ._ragged_ops import row_ids
            return row_ids(self)
        return Tensor(row_ids_of(self._splits))

    def nested_value_rowids(self, name: str | None = None) -> tuple:
        """value_rowids of all levels."""
        inner = self._inner.nested_value_rowids() if isinstance(self._inner, RaggedTensor) else ()
        return (self.value_rowids(), *inner)

    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Any:
        """The shape of the smallest tensor that holds it."""
        sizes = self._bounds()
        found = sizes if axis is None else [sizes[int(item)] for item in np.reshape(unwrap(axis), -1)]
        return self._place(found if axis is None or np.ndim(unwrap(axis)) else found[0], out_type)

    def _bounds(self) -> list:
        lengths = lengths_of(places_known(self._splits, "bounding_shape"))
        inner = self._inner._bounds() if isinstance(self._inner, RaggedTensor) else list(self._inner.shape)
        return [len(lengths), int(max(lengths, default=0)), *inner[1:]]

    def consumers(self) -> list:
        return []

    # --- other forms ---

    def with_values(self, new_values: Any) -> Any:
        """The same rows of other values."""
        values = as_values(new_values)
        have, want = size_of(values), self._splits
        if isinstance(have, int) and isinstance(want, np.ndarray) and want[-1] != have:
            raise InvalidArgumentError(f"with_values: {have} values where the rows have {want[-1]}")
        return RaggedTensor._of(values, self._splits, self._uniform)

    def with_flat_values(self, new_values: Any) -> Any:
        """The same rows of all levels, with other values in the innermost."""
        inner = self._inner.with_flat_values(new_values) if isinstance(self._inner, RaggedTensor) else new_values
        return self.with_values(inner)

    def with_row_splits_dtype(self, dtype: Any) -> "RaggedTensor":
        """The same with splits of int32 or int64."""
        kind = as_dtype(dtype)
        if kind not in (int32, int64):
            raise ValueError(f"Argument `row_splits` dtype must be int32 or int64. Received {kind}.")
        inner = self._inner.with_row_splits_dtype(kind) if isinstance(self._inner, RaggedTensor) else self._inner
        splits = _cast(self._splits, kind) if isinstance(self._splits, Node) else self._splits.astype(kind.as_numpy_dtype)
        return RaggedTensor._of(inner, splits, self._uniform)

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """The axes from outer_axis to inner_axis as one."""
        rank = len(self.shape)
        outer, inner = (int(axis) + rank if axis < 0 else int(axis) for axis in (outer_axis, inner_axis))
        if not 0 <= outer <= inner < rank:
            raise ValueError(f"merge_dims: axes {outer_axis} and {inner_axis} of {rank}")
        if outer == inner:
            return self
        if outer > 1:
            return self.with_values(self._inner.merge_dims(outer - 1, inner - 1) if isinstance(
                self._inner, RaggedTensor) else _merged(self._inner, outer - 1, inner - 1))
        if outer == 0:
            return self._inner.merge_dims(0, inner - 1) if isinstance(self._inner, RaggedTensor) else _merged(
                self._inner, 0, inner - 1)
        below = self._inner
        if isinstance(below, RaggedTensor):
            splits = places_known(below._splits, "merge_dims")[places_known(self._splits, "merge_dims")]
            joined = RaggedTensor._of(below._inner, splits)
            return joined if inner == 2 else joined.merge_dims(1, inner - 1)
        wide = int(np.prod([int(size) for size in below.shape[1:inner]], dtype=np.int64))
        uniform = None if self._uniform is None else self._uniform * wide
        return RaggedTensor._of(_merged(below, 0, inner - 1), self._splits * wide, uniform)

    def to_list(self) -> list:
        """Lists of lists."""
        rows = places_known(self._splits, "to_list")
        items = self._inner.to_list() if isinstance(self._inner, RaggedTensor) else _known(self._inner).tolist()
        return [items[start:end] for start, end in zip(rows[:-1], rows[1:])]

    def numpy(self) -> np.ndarray:
        """An array, of objects where rows differ in length."""
        splits = places_known(self._splits, "numpy")
        inner = self._inner.numpy() if isinstance(self._inner, RaggedTensor) else _known(self._inner)
        lengths = np.diff(splits)
        if len(lengths) and (lengths == lengths[0]).all():
            return inner.reshape((len(lengths), int(lengths[0])) + inner.shape[1:]).copy()
        rows = np.empty(len(lengths), object)
        for i, (start, end) in enumerate(zip(splits[:-1], splits[1:])):
            rows[i] = inner[start:end]
        return rows

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("a ragged tensor is no array: to_tensor() makes a dense one, numpy() an array of rows")

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Any:
        """A tensor with the default behind the ends of rows, cut to a shape if one is given."""
        from ._ragged_ops import dense
        return dense(self, default_value, shape)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """A sparse tensor of the same values."""
        bounds, splits = self._bounds(), places_known(self._splits, "to_sparse")
        rows = row_ids_of(splits)
        columns = np.arange(len(rows)) - splits[rows]
        if isinstance(self._inner, RaggedTensor):
            below = self._inner.to_sparse()
            places = np.concatenate([np.stack([rows, columns], 1)[below._places[:, 0]], below._places[:, 1:]], 1)
            return SparseTensor(places, below.values, bounds)
        inner = _known(self._inner)
        within = np.argwhere(np.ones(inner.shape, bool))
        places = np.concatenate([np.stack([rows, columns], 1)[within[:, 0]], within[:, 1:]], 1)
        return SparseTensor(places, inner.reshape(-1), bounds)

    # --- Python ---

    def __repr__(self) -> str:
        if isinstance(self.flat_values, Node) or any(isinstance(level, Node) for level in self.nested_row_splits):
            return f"tf.RaggedTensor(values={self._inner!r}, row_splits={self._splits!r})"
        with np.printoptions(formatter={"all": _shown}):
            return f"<tf.RaggedTensor {_shown(self.numpy())}>"

    __str__ = __repr__

    def __bool__(self) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __hash__(self) -> int:
        raise TypeError("RaggedTensor is unhashable.")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(places_known(self._splits, "a loop over the rows")) - 1))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        from ._absent import error
        raise error("tf.RaggedTensor", name)


def _known(value: Any) -> np.ndarray:
    value = unwrap(value)
    if isinstance(value, Node):
        raise NeedsValue("the values of a ragged tensor are known when it is run")
    return value


def _merged(values: Any, outer: int, inner: int) -> Any:
    """The axes of a tensor from outer to inner as one."""
    sizes = [-1 if size is None else int(size) for size in values.shape]
    joined = sizes[outer:inner + 1]
    one = -1 if -1 in joined else int(np.prod(joined, dtype=np.int64))
    return _reshape(values, sizes[:outer] + [one] + sizes[inner + 1:])


def _shown(value: Any) -> str:
    """Elements with commas between them, as TensorFlow prints rows."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return np.array2string(value, separator=", ") if value.size else repr(value.tolist())


# --- splits and lengths -----------------------------------------------------------------------------------------------


def splits_of(lengths: Any) -> Any:
    """The splits of rows of these lengths."""
    if isinstance(lengths, Node):
        from ._algebra import cumsum
        zero = lengths.graph.constant(np.zeros(1, lengths.dtype.as_numpy_dtype))
        return ops.concat([zero, cumsum(lengths)], 0)
    return np.concatenate([np.zeros(1, lengths.dtype), np.cumsum(lengths, dtype=lengths.dtype)])


def lengths_of(splits: Any) -> Any:
    return splits[1:] - splits[:-1]


def row_ids_of(splits: np.ndarray) -> np.ndarray:
    """The row of every value."""
    return np.repeat(np.arange(len(splits) - 1, dtype=splits.dtype), np.diff(splits))


def intervals(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers of all intervals [start, start + length), one interval after the other."""
    lengths = np.asarray(lengths, np.int64)
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(np.asarray(starts, np.int64) - (ends - lengths), lengths)


def _range(limit: Any) -> Any:
    from ._array import range_
    return range_(limit)


def take_rows(values: Any, index: np.ndarray) -> Any:
    """The rows of values at these places, of ragged ones too."""
    if not isinstance(values, RaggedTensor):
        return _gather(values, np.asarray(index, np.int64))
    splits = places_known(values._splits, "a selection of rows")
    lengths = np.diff(splits)[index]
    inner = take_rows(values._inner, intervals(splits[:-1][index], lengths))
    return RaggedTensor._of(inner, splits_of(lengths.astype(splits.dtype)), values._uniform)


def _getitem(self: Any, key: Any) -> Any:
    from ._ragged_index import index
    return index(self, key)


add_operators(RaggedTensor)
RaggedTensor.__getitem__ = _getitem


def _compared(function: Callable, other_is: bool) -> Callable:
    apply = eager(function)

    def compare(self: Any, other: Any) -> Any:
        return other_is if other is None else apply(self, other)

    return compare


RaggedTensor.__eq__ = _compared(ops.equal, False)
RaggedTensor.__ne__ = _compared(ops.not_equal, True)


class RaggedTensorSpec(_structure.Composite):
    """What a ragged tensor looks like: shape, dtype and how many of its levels are ragged."""

    __slots__ = ("_shape", "_dtype", "_rank", "_kind", "_named")

    def __init__(self, shape: Any = None, dtype: Any = None, ragged_rank: int | None = None, row_splits_dtype: Any = int64,
                 flat_values_spec: Any = None):
        if flat_values_spec is not None:
            raise NotImplementedError("RaggedTensorSpec: flat_values_spec does not exist; shape and dtype do")
        self._shape, self._dtype, self._named = Shape(shape), as_dtype(np.float32 if dtype is None else dtype), None
        self._kind = as_dtype(row_splits_dtype)
        rank = self._shape.rank
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank!r}.")
        if rank is not None and ragged_rank >= rank and rank > 0:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")
        self._rank = ragged_rank

    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self._dtype)
    ragged_rank = property(lambda self: self._rank)
    row_splits_dtype = property(lambda self: self._kind)
    value_type = property(lambda self: RaggedTensor if self._rank else Tensor)

    @classmethod
    def from_value(cls, value: Any) -> "RaggedTensorSpec":
        """That of a ragged tensor."""
        return cls(tuple(value.shape), value.dtype, value.ragged_rank, as_dtype(value._splits.dtype))

    @staticmethod
    def _of(values: Any, splits: Any, uniform: int | None) -> "RaggedTensorSpec":
        rows = None if splits.shape is None or splits.shape[0] is None else splits.shape[0] - 1
        inner = values.shape
        rank = 1 + (values.ragged_rank if isinstance(values, RaggedTensorSpec) else 0)
        return RaggedTensorSpec((rows, uniform, *inner[1:]), values.dtype, rank, splits.dtype)

    def parts(self) -> tuple:
        rows = self._shape[0]
        splits = TensorSpec((None if rows is None else rows + 1,), self._kind)
        inner = (None, *self._shape[2:])
        if self._rank == 1:
            return TensorSpec(inner, self._dtype), splits
        return RaggedTensorSpec(inner, self._dtype, self._rank - 1, self._kind), splits

    def of_parts(self, parts: list) -> Any:
        uniform = self._shape[1]
        if isinstance(parts[0], (TensorSpec, RaggedTensorSpec)):
            return RaggedTensorSpec._of(parts[0], parts[1], uniform)
        return RaggedTensor._of(parts[0], parts[1], uniform)

    def kind(self) -> tuple:
        return ("ragged", self._shape[1])

    def component(self) -> TensorSpec:
        """What a dataset has for it: values, whose rows the splits tell."""
        if self._rank > 1:
            raise NotImplementedError("a ragged tensor of several levels cannot be an element of a dataset: merge_dims() "
                                      "makes one level of them, to_tensor() none")
        return TensorSpec((None, *self._shape[1 + self._rank:]), self._dtype, ragged=self._rank == 1)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value or another spec fits."""
        other = RaggedTensorSpec.from_value(spec_or_value) if isinstance(spec_or_value, RaggedTensor) else spec_or_value
        if not isinstance(other, RaggedTensorSpec) or (other._dtype, other._rank, other._kind) != (
                self._dtype, self._rank, self._kind):
            return False
        return len(other._shape) == len(self._shape) and all(
            None in pair or pair[0] == pair[1] for pair in zip(self._shape, other._shape))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RaggedTensorSpec) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._rank}, {self._kind!r})"


