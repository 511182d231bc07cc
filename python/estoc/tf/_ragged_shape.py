# SPDX-License-Identifier: Apache-2.0
"""The shape of a ragged tensor: tf.shape of one, tf.experimental.DynamicRaggedShape."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import ops
from .._tensor import as_dtype, int64
from ._eager import Tensor, eager, unwrap
from ._ragged import RaggedTensor, as_places, as_values, places_known, row_ids_of, splits_of


class RowPartition:
    """How values are cut into rows."""

    def __init__(self, row_splits: Any, internal: Any = None):
        raise ValueError("RowPartition constructor is private; please use one of the factory methods instead (e.g., "
                         "RowPartition.from_row_lengths())")

    @staticmethod
    def _of(splits: np.ndarray, uniform: int | None = None) -> "RowPartition":
        made = object.__new__(RowPartition)
        made._splits, made._uniform = splits, uniform
        return made

    @classmethod
    def _like(cls, value: RaggedTensor) -> "RowPartition":
        return cls._of(places_known(value._splits, "tf.shape"), value._uniform)

    @classmethod
    def from_row_splits(cls, row_splits: Any, validate: bool = True, dtype: Any = None) -> "RowPartition":
        """By where each row ends."""
        splits = places_known(as_places(row_splits, "row_splits", dtype), "RowPartition")
        return cls._like(RaggedTensor.from_row_splits(Tensor(np.zeros(int(splits[-1]))), splits, validate=validate))

    @classmethod
    def from_row_lengths(cls, row_lengths: Any, validate: bool = True, dtype: Any = None) -> "RowPartition":
        """By how long each row is."""
        return cls.from_row_splits(splits_of(places_known(as_places(row_lengths, "row_lengths", dtype), "RowPartition")))

    @classmethod
    def from_value_rowids(cls, value_rowids: Any, nrows: Any = None, validate: bool = True,
                          dtype: Any = None) -> "RowPartition":
        """By the row of each value."""
        ids = places_known(as_places(value_rowids, "value_rowids", dtype), "RowPartition")
        return cls._like(RaggedTensor.from_value_rowids(Tensor(ids), ids, nrows))

    @classmethod
    def from_uniform_row_length(cls, uniform_row_length: Any, nvals: Any = None, nrows: Any = None, validate: bool = True,
                                dtype: Any = None, dtype_hint: Any = None) -> "RowPartition":
        """Rows of one length."""
        length = int(unwrap(uniform_row_length))
        count = int(unwrap(nvals)) if nvals is not None else int(unwrap(nrows)) * length
        made = RaggedTensor.from_uniform_row_length(Tensor(np.zeros(count)), length, nrows)
        return cls._like(made.with_row_splits_dtype(dtype or dtype_hint or int64))

    def row_splits(self) -> Tensor:
        """Where each row ends."""
        return Tensor(self._splits)

    def row_lengths(self) -> Tensor:
        """How long each row is."""
        return Tensor(np.diff(self._splits))

    def value_rowids(self) -> Tensor:
        """The row of each value."""
        return Tensor(row_ids_of(self._splits))

    def nrows(self) -> Tensor:
        """How many rows there are."""
        return Tensor(self._splits.dtype.type(len(self._splits) - 1))

    def nvals(self) -> Tensor:
        """How many values there are."""
        return Tensor(self._splits[-1])

    def __repr__(self) -> str:
        return f"tf.RowPartition(row_splits={self._splits.tolist()})"


class DynamicRaggedShape:
    """Row partitions, and the shape of the values in the last one."""

    def __init__(self, row_partitions: Sequence[RowPartition], inner_shape: Any, dtype: Any = None, validate: bool = False):
        self._partitions, self._dtype = tuple(row_partitions), as_dtype(int64 if dtype is None else dtype)
        self._inner = tuple(int(size) for size in np.reshape(unwrap(inner_shape), -1))
        counts = [part._splits[-1] for part in self._partitions]
        if self._partitions and (not self._inner or counts[-1] != self._inner[0]):
            raise ValueError(f"the last partition has {counts[-1]} values, inner_shape is {list(self._inner)}")

    @classmethod
    def of(cls, value: Any, dtype: Any = None) -> "DynamicRaggedShape":
        """That of a tensor of any kind."""
        partitions = []
        while isinstance(value, RaggedTensor):
            partitions.append(RowPartition._like(value))
            value = value._inner
        return cls(partitions, tuple(value.shape), dtype)

    from_tensor = of

    @classmethod
    def from_lengths(cls, lengths: Sequence, num_row_partitions: int | None = None,
                     dtype: Any = None) -> "DynamicRaggedShape":
        """Of the length of each axis: a number, or the lengths of all rows."""
        ragged = [i for i, item in enumerate(lengths) if not np.isscalar(item)]
        count = (max(ragged, default=0)) if num_row_partitions is None else int(num_row_partitions)
        partitions: list = []
        rows = int(lengths[0]) if lengths else 0
        for item in lengths[1:count + 1]:
            if np.isscalar(item):
                partitions.append(RowPartition._of(np.arange(rows + 1, dtype=np.int64) * int(item), int(item)))
            else:
                if len(item) != rows:
                    raise ValueError(f"from_lengths: {len(item)} lengths for {rows} rows")
                partitions.append(RowPartition._of(splits_of(np.asarray(item, np.int64))))
            rows = int(partitions[-1]._splits[-1])
        return cls(partitions, [rows, *lengths[count + 1:]], dtype)

    @classmethod
    def from_row_partitions(cls, row_partitions: Sequence[RowPartition], dtype: Any = None) -> "DynamicRaggedShape":
        """Of values that are scalars."""
        if not row_partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(row_partitions, [int(row_partitions[-1]._splits[-1])], dtype)

    row_partitions = property(lambda self: self._partitions)
    num_row_partitions = property(lambda self: len(self._partitions))
    rank = property(lambda self: len(self._inner) + len(self._partitions))
    dtype = property(lambda self: self._dtype)
    inner_rank = property(lambda self: len(self._inner))
    inner_shape = property(lambda self: Tensor(np.array(self._inner, self._dtype.as_numpy_dtype)))

    def _lengths(self) -> list:
        """The length of each axis, or of all its rows."""
        if not self._partitions:
            return list(self._inner)
        found: list = [len(self._partitions[0]._splits) - 1]
        for part in self._partitions:
            found.append(part._uniform if part._uniform is not None else tuple(np.diff(part._splits).tolist()))
        return found + list(self._inner[1:])

    def is_uniform(self, axis: int) -> bool:
        """Whether all rows of an axis have one length."""
        return not isinstance(self._lengths()[axis], tuple)

    def static_lengths(self, ragged_lengths: bool = True) -> list:
        """The length of each axis; None, or with ragged_lengths a tuple, of a ragged one."""
        return [None if isinstance(item, tuple) and not ragged_lengths else item for item in self._lengths()]

    def __getitem__(self, index: Any) -> Any:
        lengths = self._lengths()
        if isinstance(index, slice):
            start, stop, step = index.indices(len(lengths))
            if start != 0 and self._partitions:
                raise ValueError("a slice of the shape of a ragged tensor begins with 0")
            if step != 1:
                raise IndexError("Cannot stride through a shape")
            if not self._partitions:
                return DynamicRaggedShape((), lengths[index], self._dtype)
            if stop == 0:
                return DynamicRaggedShape((), [], self._dtype)
            kept = min(stop - 1, len(self._partitions))
            return DynamicRaggedShape.from_lengths(lengths[:stop], kept, self._dtype)
        found = lengths[int(unwrap(index))]
        if isinstance(found, tuple):
            raise ValueError(f"Index {index} is not uniform")
        return Tensor(np.asarray(found, self._dtype.as_numpy_dtype))

    def _rows_over(self, values: Any) -> Any:
        """A tensor of the values with these rows."""
        for part in reversed(self._partitions):
            values = RaggedTensor._of(values, part._splits, part._uniform)
        return values

    def reshape(self, tensor: Any) -> Any:
        """The elements of a tensor in this shape."""
        flat = as_values(tensor)
        while isinstance(flat, RaggedTensor):
            flat = flat._inner
        return self._rows_over(eager(ops.reshape)(flat, list(self._inner)))

    def filled(self, value: Any, dtype: Any = None) -> Any:
        """A tensor of this shape, full of one value."""
        from ._array import fill
        found = fill(list(self._inner), value)
        return self._rows_over(found if dtype is None else eager(ops.cast)(found, dtype))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, DynamicRaggedShape) and self._lengths() == other._lengths()

    def __hash__(self) -> int:
        return hash(tuple(self._lengths()))

    def __repr__(self) -> str:
        lengths = ", ".join(str(item) for item in self._lengths())
        return f"<DynamicRaggedShape lengths=[{lengths}] num_row_partitions={self.num_row_partitions}>"
