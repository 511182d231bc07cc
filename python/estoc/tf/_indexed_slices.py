# SPDX-License-Identifier: Apache-2.0
"""tf.IndexedSlices: the gradient of a tensor of which only some rows were read.

Operations that are given one take the dense tensor that it stands for, as in TensorFlow; those that change single
numbers of a gradient keep its rows.
"""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import ops
from .._tensor import as_dtype
from ..graph import Node, Shape
from . import _structure
from ._eager import Tensor, dispatch, eager, unwrap


class IndexedSlices(_structure.Composite):
    """values[i] belongs to row indices[i]; a row that is there several times means the sum."""

    __slots__ = ("_values", "_indices", "_dense_shape")
    has_operators = False

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None):
        self._values, self._indices, self._dense_shape = values, indices, dense_shape

    values = property(lambda self: self._values)
    indices = property(lambda self: self._indices)
    dtype = property(lambda self: self._values.dtype)
    graph = property(lambda self: self._values.graph)
    name = property(lambda self: self._values.name)
    op = property(lambda self: self._values.op)
    device = property(lambda self: self._values.device)

    @property
    def dense_shape(self) -> Any:
        """The shape of the dense tensor; None where it was not given."""
        if isinstance(self._dense_shape, (tuple, list, Shape)):
            return Tensor(np.asarray(tuple(self._dense_shape), np.int32))
        return self._dense_shape

    @property
    def shape(self) -> Shape:
        if isinstance(self._dense_shape, (Node, type(None))):
            return Shape(None)
        return Shape([int(size) for size in unwrap(self.dense_shape)])

    # --- what functions that are traced see ---

    def parts(self) -> tuple:
        shape = (self._dense_shape,) if isinstance(self._dense_shape, Node) else ()
        return (self._values, self._indices, *shape)

    def of_parts(self, parts: list) -> "IndexedSlices":
        return IndexedSlices(parts[0], parts[1], parts[2] if len(parts) > 2 else self._dense_shape)

    def kind(self) -> tuple:
        return ("slices", None if self.shape.rank is None else tuple(self.shape))

    def dispatch(self, function: Callable, positional: tuple, named: dict, convert: Callable) -> Any:
        """Operations that work on single numbers of a gradient, or are none, have rows as results."""
        build = _OF_VALUES.get(function)
        if build is not None and positional and positional[0] is self:
            return IndexedSlices(eager(build)(self._values, *positional[1:], **named), self._indices, self._dense_shape)
        return dispatch(function, _dense_among(positional), _dense_among(named), convert)

    def __neg__(self) -> "IndexedSlices":
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __str__(self) -> str:
        shape = "" if self._dense_shape is None else f", dense_shape={self.dense_shape!s}"
        return f"IndexedSlices(indices={self._indices!s}, values={self._values!s}{shape})"

    def __repr__(self) -> str:
        return str(self)


_OF_VALUES = {getattr(function, "over_nodes", function): function
              for function in (ops.identity, ops.clip_by_value, ops.clip_by_norm)}


def _dense_among(values: Any) -> Any:
    """Arguments with tensors in place of rows."""
    if isinstance(values, IndexedSlices):
        return dense(values)
    if isinstance(values, dict):
        return {key: _dense_among(item) for key, item in values.items()}
    return type(values)(_dense_among(item) for item in values) if type(values) in (list, tuple) else values


def dense(gradient: Any) -> Any:
    """A gradient as one tensor."""
    if not isinstance(gradient, IndexedSlices):
        return gradient
    if gradient.dense_shape is None:
        raise ValueError(f"Tensor conversion requested for IndexedSlices without dense_shape, which says how many rows "
                         f"there are: {gradient}")
    if gradient.shape.rank is None:
        raise NotImplementedError("IndexedSlices in a function: give dense_shape as numbers, it is known there")
    from ._array import unsorted_segment_sum
    return unsorted_segment_sum(gradient.values, gradient.indices, int(gradient.shape[0]))


def converted(slices: IndexedSlices, dtype: Any) -> Any:
    """tf.convert_to_tensor of rows."""
    if dtype is not None and as_dtype(dtype) != slices.dtype:
        raise ValueError(f"Incompatible tensor conversion requested to `dtype` {as_dtype(dtype).name} for IndexedSlices "
                         f"({slices}) with dtype {slices.dtype.name}")
    return dense(slices)


def values_of(tensors: list) -> list:
    """What norms of gradients are made of: of rows the values, one by one."""
    return [item.values if isinstance(item, IndexedSlices) else item for item in tensors]


def like(values: Any, gradient: Any) -> Any:
    """Values for the rows that a gradient has; of a tensor the values."""
    return gradient.of_parts([values, *gradient.parts()[1:]]) if isinstance(gradient, IndexedSlices) else values
