# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors of values: the places of elements, and the elements."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .._tensor import as_array
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, RaggedNode, Shape
from ..io import RaggedArray
from ._eager import Tensor, tapes, unwrap


def _array(value: Any, what: str) -> np.ndarray:
    if isinstance(value, (Node, RaggedNode)):
        raise NeedsValue(f"tf.sparse.{what} works on values")
    return as_array(unwrap(value))


class SparseTensor:
    """A tensor by the places of its elements, int64 [n, rank], their values [n], and its shape; 0 elsewhere."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        places = _array(indices, "SparseTensor")
        shape = _array(dense_shape, "SparseTensor").astype(np.int64)
        if places.size == 0:
            places = places.reshape(-1, len(shape))
        found = _array(values, "SparseTensor")
        if places.ndim != 2 or found.ndim != 1 or places.shape != (len(found), len(shape)):
            raise ValueError(f"indices {places.shape}, values {found.shape} and dense_shape {shape.shape} do not go "
                             "together: [n, rank], [n] and [rank]")
        self._places, self._values, self._sizes = places.astype(np.int64), found, shape

    indices = property(lambda self: Tensor(self._places))
    values = property(lambda self: Tensor(self._values))
    dense_shape = property(lambda self: Tensor(self._sizes))
    dtype = property(lambda self: self.values.dtype)
    shape = property(lambda self: Shape(tuple(self._sizes.tolist())))

    def get_shape(self) -> Shape:
        return self.shape

    def with_values(self, new_values: Any) -> "SparseTensor":
        """Other values at the same places."""
        return SparseTensor(self._places, new_values, self._sizes)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices!s}, values={self.values!s}, dense_shape={self.dense_shape!s})"

    def __mul__(self, other: Any) -> "SparseTensor":
        whole = np.broadcast_to(_array(other, "SparseTensor"), tuple(self._sizes))
        return self.with_values(self._values * whole[tuple(self._places.T)].astype(self._values.dtype))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "SparseTensor":
        whole = np.broadcast_to(_array(other, "SparseTensor"), tuple(self._sizes))
        return self.with_values(self._values / whole[tuple(self._places.T)].astype(self._values.dtype))


def as_sparse(value: Any, what: str) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, RaggedArray):
        return SparseTensor(value.indices, value.values, value.dense_shape)
    if isinstance(value, RaggedNode):
        raise NeedsValue(f"tf.sparse.{what} works on values")
    raise TypeError(f"tf.sparse.{what} takes a SparseTensor, not {type(value).__name__}")


def _no_tape(what: str) -> None:
    if tapes():
        raise NotImplementedError(f"tf.sparse.{what} has no gradient here: tf.sparse.to_dense before the GradientTape, or "
                                  "compute it within its stop_recording()")


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements that are not 0, or not ""."""
    array = _array(tensor, "from_dense")
    places = np.argwhere(array != (b"" if array.dtype == object else 0))
    return SparseTensor(places, array[tuple(places.T)], array.shape)


def dense_of(value: SparseTensor, default: Any, check: bool) -> Tensor:
    """All elements, the default where there is none."""
    places, sizes = value._places, value._sizes
    if check:
        flat = np.ravel_multi_index(tuple(places.T), tuple(sizes), mode="clip") if len(places) else np.zeros(0, int)
        if ((places < 0) | (places >= sizes)).any():
            raise InvalidArgumentError("indices is out of bounds")
        if (np.diff(flat) <= 0).any():
            raise InvalidArgumentError("indices is out of order or repeated. Many sparse operations require sorted "
                                       "indices. Use `tf.sparse.reorder` to create a correctly ordered copy.")
    empty = (b"" if value._values.dtype == object else 0) if default is None else _array(default, "to_dense")[()]
    found = np.full(tuple(sizes), empty, value._values.dtype)
    found[tuple(places.T)] = value._values
    return Tensor(found)


def reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The elements in the order of their places."""
    value = as_sparse(sp_input, "reorder")
    order = np.lexsort(value._places.T[::-1])
    return SparseTensor(value._places[order], value._values[order], value._sizes)


def transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Axes in another order; without one, reversed."""
    value = as_sparse(sp_input, "transpose")
    axes = list(range(len(value._sizes)))[::-1] if perm is None else [int(axis) for axis in _array(perm, "transpose")]
    return reorder(SparseTensor(value._places[:, axes], value._values, value._sizes[axes]))


def add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """The sum of two; sparse if both are. Sums that are below the threshold in size are left out."""
    _no_tape("add")
    if not all(isinstance(item, (SparseTensor, RaggedArray)) for item in (a, b)):
        sparse, dense = (a, b) if isinstance(a, (SparseTensor, RaggedArray)) else (b, a)
        whole = _array(dense, "add").copy()
        value = as_sparse(sparse, "add")
        np.add.at(whole, tuple(value._places.T), value._values)
        return Tensor(whole)
    first, second = as_sparse(a, "add"), as_sparse(b, "add")
    if (first._sizes != second._sizes).any():
        raise InvalidArgumentError(f"Operands' shapes do not match: {first._sizes} and {second._sizes}")
    places, back = np.unique(np.concatenate([first._places, second._places]), axis=0, return_inverse=True)
    total = np.zeros(len(places), first._values.dtype)
    np.add.at(total, back.reshape(-1), np.concatenate([first._values, second._values]))
    kept = np.abs(total) >= threshold if threshold else np.ones(len(total), bool)
    return SparseTensor(places[kept], total[kept], first._sizes)


def concat(axis: int, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None) -> SparseTensor:
    """One after the other along an axis."""
    parts = [as_sparse(item, "concat") for item in sp_inputs]
    axis = int(axis) % len(parts[0]._sizes)
    sizes = np.max([part._sizes for part in parts], axis=0)
    for part in parts:
        if not expand_nonconcat_dims and (np.delete(part._sizes, axis) != np.delete(sizes, axis)).any():
            raise InvalidArgumentError(f"All shapes must match but for axis {axis}: {[p._sizes.tolist() for p in parts]}")
    places, at = [], 0
    for part in parts:
        moved = part._places.copy()
        moved[:, axis] += at
        places.append(moved)
        at += part._sizes[axis]
    sizes[axis] = at
    return reorder(SparseTensor(np.concatenate(places), np.concatenate([part._values for part in parts]), sizes))


def slice_(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """A block."""
    value = as_sparse(sp_input, "slice")
    begin, wanted = (_array(item, "slice").astype(np.int64) for item in (start, size))
    sizes = np.clip(value._sizes - begin, 0, wanted)
    inside = ((value._places >= begin) & (value._places < begin + sizes)).all(1)
    return SparseTensor(value._places[inside] - begin, value._values[inside], sizes)


def sparse_dense_matmul(sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False,
                        name: str | None = None) -> Tensor:
    """The product of a sparse and a dense matrix; either may be the sparse one."""
    _no_tape("sparse_dense_matmul")
    left, right = (dense_of(as_sparse(item, "sparse_dense_matmul"), None, False)._value
                   if isinstance(item, (SparseTensor, RaggedArray)) else _array(item, "sparse_dense_matmul")
                   for item in (sp_a, b))
    return Tensor((left.T if adjoint_a else left) @ (right.T if adjoint_b else right))


def _reduced(what: str, meaning: str, ufunc: Callable) -> Callable:
    def call(sp_input: Any, axis: Any = None, keepdims: bool = False, output_is_sparse: bool = False,
             name: str | None = None) -> Tensor:
        if output_is_sparse:
            raise NotImplementedError(f"tf.sparse.{what}: output_is_sparse does not exist; from_dense makes it of the result")
        _no_tape(what)
        value = as_sparse(sp_input, what)
        rank = len(value._sizes)
        axes = set(range(rank)) if axis is None else {int(item) % rank for item in np.reshape(unwrap(axis), -1)}
        rest = [i for i in range(rank) if i not in axes]
        sizes = [int(value._sizes[i]) for i in rest]
        flat = np.ravel_multi_index(tuple(value._places[:, rest].T), sizes) if rest else np.zeros(len(value._values), int)
        found = np.zeros(int(np.prod(sizes, dtype=np.int64)), value._values.dtype)
        seen = np.zeros(found.shape, bool)
        for place, item in zip(flat, value._values):  # only of elements that are there
            found[place] = ufunc(found[place], item) if seen[place] else item
            seen[place] = True
        shape = [1 if i in axes else int(value._sizes[i]) for i in range(rank)] if keepdims else sizes
        return Tensor(found.reshape(shape))

    call.__name__ = call.__qualname__ = what
    call.__doc__ = meaning + " of the elements that are there, over axes or all; 0 where there is none."
    return call


reduce_sum = _reduced("reduce_sum", "The sum", np.add)
reduce_max = _reduced("reduce_max", "The largest", np.maximum)


def map_values(op: Callable, *args: Any, **kwargs: Any) -> SparseTensor:
    """op of the values; sparse tensors among the arguments have the same places."""
    given = [item for item in [*args, *kwargs.values()] if isinstance(item, (SparseTensor, RaggedArray))]
    if not given:
        raise ValueError("No SparseTensor in argument list of map_values")
    first = as_sparse(given[0], "map_values")
    for item in given[1:]:
        if not np.array_equal(as_sparse(item, "map_values")._places, first._places):
            raise InvalidArgumentError("map_values: the places of the elements differ")

    def values(item: Any) -> Any:
        return as_sparse(item, "map_values").values if isinstance(item, (SparseTensor, RaggedArray)) else item

    return first.with_values(op(*map(values, args), **{key: values(item) for key, item in kwargs.items()}))
