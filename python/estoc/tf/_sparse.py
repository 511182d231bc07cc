# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors of values: the places of elements, and the elements."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .._tensor import array_like, as_array
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, RaggedNode, Shape
from ..io import RaggedArray
from ._eager import Tensor, is_recorded, tapes, unwrap
from ._variable import Variable


def _array(value: Any, what: str) -> np.ndarray:
    if isinstance(value, (Node, RaggedNode)):
        raise NeedsValue(f"tf.sparse.{what} works on values")
    return as_array(unwrap(value))


def _like(value: Any, dtype: np.dtype, what: str) -> np.ndarray:
    """An operand of values of that dtype: a tensor has it, numbers and arrays take it."""
    array = _array(value, what)
    if isinstance(value, (Tensor, Variable)) and array.dtype != dtype:
        raise TypeError(f"tf.sparse.{what}: values of {dtype.name} and a tensor of {array.dtype.name}; cast one of them")
    return array_like(array, dtype)


def _whole(value: Any, what: str) -> np.ndarray:
    """Places or sizes."""
    array = _array(value, what)
    return array_like(array, np.dtype(np.int64)) if array.size else array.astype(np.int64)  # [] is one of float32


class SparseTensor:
    """A tensor by the places of its elements, int64 [n, rank], their values [n], and its shape; 0 elsewhere."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        places = _whole(indices, "SparseTensor")
        shape = _whole(dense_shape, "SparseTensor")
        if places.size == 0:
            places = places.reshape(-1, len(shape))
        found = _array(values, "SparseTensor")
        if is_recorded(values):
            _no_tape("SparseTensor")
        if places.ndim != 2 or found.ndim != 1 or places.shape != (len(found), len(shape)):
            raise ValueError(f"indices {places.shape}, values {found.shape} and dense_shape {shape.shape} do not go "
                             "together: [n, rank], [n] and [rank]")
        if (shape < 0).any():
            raise ValueError(f"Dimension {shape.min()} must be >= 0")
        self._places, self._values, self._sizes = places, found, shape

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

    def _beside(self, other: Any, what: str) -> np.ndarray:
        """The elements of a dense tensor, which may be of one row or number, at the places of this one."""
        if is_recorded(other):
            _no_tape(what)
        dense = np.broadcast_to(_like(other, self._values.dtype, what), tuple(self._sizes))
        return dense[within(self)]

    def __mul__(self, other: Any) -> "SparseTensor":
        return self.with_values(self._values * self._beside(other, "multiply"))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "SparseTensor":
        return self.with_values(self._values / self._beside(other, "divide"))


def within(value: SparseTensor) -> tuple:
    """The places as an index, which are in bounds: numpy takes those below 0 from the end."""
    wrong = (value._places < 0) | (value._places >= value._sizes)
    if wrong.any():
        at = int(np.argmax(wrong.any(1)))
        raise InvalidArgumentError(f"indices[{at}] = {value._places[at].tolist()} is out of bounds: need 0 <= index < "
                                   f"{value._sizes.tolist()}")
    return tuple(value._places.T)


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
    places, sizes = within(value), value._sizes
    if check and not _is_ordered(value._places):
        raise InvalidArgumentError("indices is out of order or repeated. Many sparse operations require sorted indices. "
                                   "Use `tf.sparse.reorder` to create a correctly ordered copy.")
    empty = (b"" if value._values.dtype == object else 0) if default is None else _array(default, "to_dense")[()]
    found = np.full(tuple(sizes), empty, value._values.dtype)
    found[places] = value._values
    return Tensor(found)


def _is_ordered(places: np.ndarray) -> bool:
    """Whether each place is behind the one before it, row by row."""
    step = np.diff(places, axis=0)
    first = np.take_along_axis(step, (step != 0).argmax(1)[:, None], 1) if step.size else step
    return bool((first > 0).all())


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
        value = as_sparse(sparse, "add")
        whole = _like(dense, value._values.dtype, "add").copy()
        if whole.shape != tuple(value._sizes):
            raise InvalidArgumentError(f"Operands' shapes do not match: {value._sizes.tolist()} and {list(whole.shape)}")
        np.add.at(whole, within(value), value._values)
        return Tensor(whole)
    first, second = as_sparse(a, "add"), as_sparse(b, "add")
    if not np.array_equal(first._sizes, second._sizes):
        raise InvalidArgumentError(f"Operands' shapes do not match: {first._sizes} and {second._sizes}")
    _one_dtype([first, second], "add")
    limit = _like(threshold, first._values.dtype, "add")
    places = np.concatenate([first._places, second._places])
    of, which = _merged(first._places, second._places)
    total = np.zeros(int(of.max(initial=-1)) + 1, first._values.dtype)
    np.add.at(total, of, np.concatenate([first._values, second._values]))
    kept = np.abs(total) >= limit
    return SparseTensor(places[which[kept]], total[kept], first._sizes)


def _one_dtype(parts: list, what: str) -> None:
    kinds = {part._values.dtype.name for part in parts}
    if len(kinds) > 1:
        raise InvalidArgumentError(f"tf.sparse.{what}: values of {' and '.join(sorted(kinds))}; tf.cast one of them")


def _merged(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The element of the sum that each place of two lists goes to, and for each of these one of the places. As in a merge
    of ordered lists only what meets is added: of places that are out of order or repeated several elements stay."""
    n = len(first)
    if _is_ordered(first) and _is_ordered(second):
        _, which, of = np.unique(np.concatenate([first, second]), axis=0, return_index=True, return_inverse=True)
        return of.reshape(-1), which
    one, two = first.tolist(), second.tolist()
    of, which, i, j = np.zeros(n + len(two), np.int64), [], 0, 0
    while i < n or j < len(two):
        mine, other = i < n and (j == len(two) or one[i] <= two[j]), j < len(two) and (i == n or two[j] <= one[i])
        if mine:
            of[i] = len(which)
        if other:
            of[n + j] = len(which)
        which.append(i if mine else n + j)
        i, j = i + mine, j + other
    return of, np.array(which, np.int64)


def _axis(axis: Any, rank: int) -> int:
    if not -rank <= int(axis) < rank:
        raise InvalidArgumentError(f"axis {int(axis)} is not in [{-rank}, {rank})")
    return int(axis) % rank


def concat(axis: int, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None) -> SparseTensor:
    """One after the other along an axis."""
    parts = [as_sparse(item, "concat") for item in sp_inputs]
    axis = _axis(axis, len(parts[0]._sizes))
    if len({len(part._sizes) for part in parts}) > 1:
        raise InvalidArgumentError(f"concat: ranks differ: {[len(part._sizes) for part in parts]}")
    _one_dtype(parts, "concat")
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
    if begin.shape != value._sizes.shape or wanted.shape != value._sizes.shape or (wanted < 0).any():
        raise InvalidArgumentError(f"slice: start {begin.tolist()} and size {wanted.tolist()}, which is at least 0, have a "
                                   f"number for each axis of {value._sizes.tolist()}")
    sizes = np.clip(value._sizes - begin, 0, wanted)
    inside = ((value._places >= begin) & (value._places < begin + sizes)).all(1)
    return SparseTensor(value._places[inside] - begin, value._values[inside], sizes)


def sparse_dense_matmul(sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False,
                        name: str | None = None) -> Tensor:
    """The product of a sparse and a dense matrix; either may be the sparse one."""
    _no_tape("sparse_dense_matmul")
    if isinstance(b, (SparseTensor, RaggedArray)):  # (a b)^T = b^T a^T
        if isinstance(sp_a, (SparseTensor, RaggedArray)):
            raise TypeError("tf.sparse.sparse_dense_matmul: one of two is a dense matrix; tf.sparse.to_dense makes it one")
        found = sparse_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a)
        return Tensor(np.ascontiguousarray(found._value.T))
    sparse = as_sparse(sp_a, "sparse_dense_matmul")
    dense = _like(b, sparse._values.dtype, "sparse_dense_matmul")
    if len(sparse._sizes) != 2 or dense.ndim != 2:
        raise InvalidArgumentError(f"sparse_dense_matmul: matrices are needed, got {sparse._sizes.tolist()} and "
                                   f"{list(dense.shape)}")
    dense = dense.T if adjoint_b else dense
    at, sizes = within(sparse), sparse._sizes
    (rows, columns), (n, inner) = (at[::-1], sizes[::-1]) if adjoint_a else (at, sizes)
    if inner != dense.shape[0]:
        raise InvalidArgumentError(f"sparse_dense_matmul: {inner} columns meet {dense.shape[0]} rows")
    product = np.zeros((int(n), dense.shape[1]), dense.dtype)
    order = np.argsort(rows, kind="stable")
    found, first = np.unique(rows[order], return_index=True)
    if len(found):
        parts = sparse._values[order, None] * dense[columns[order]]
        product[found] = np.add.reduceat(parts, first, axis=0, dtype=dense.dtype)
    return Tensor(product)


def _reduced(what: str, meaning: str, ufunc: Callable) -> Callable:
    def call(sp_input: Any, axis: Any = None, keepdims: bool = False, output_is_sparse: bool = False,
             name: str | None = None) -> Tensor:
        if output_is_sparse:
            raise NotImplementedError(f"tf.sparse.{what}: output_is_sparse does not exist; from_dense makes it of the result")
        _no_tape(what)
        value = as_sparse(sp_input, what)
        rank = len(value._sizes)
        axes = set(range(rank)) if axis is None else {_axis(item, rank) for item in np.reshape(unwrap(axis), -1)}
        rest = [i for i in range(rank) if i not in axes]
        sizes = [int(value._sizes[i]) for i in rest]
        at = within(value)
        flat = np.ravel_multi_index([at[i] for i in rest], sizes) if rest else np.zeros(len(value._values), int)
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
        other = as_sparse(item, "map_values")
        if not (np.array_equal(other._places, first._places) and np.array_equal(other._sizes, first._sizes)):
            raise InvalidArgumentError("map_values: the places of the elements or the shapes differ")

    def values(item: Any) -> Any:
        return as_sparse(item, "map_values").values if isinstance(item, (SparseTensor, RaggedArray)) else item

    return first.with_values(op(*map(values, args), **{key: values(item) for key, item in kwargs.items()}))
