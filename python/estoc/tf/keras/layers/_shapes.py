# SPDX-License-Identifier: Apache-2.0
"""Layers that grow, cut, turn and fill what they are given, along its axes."""
from __future__ import annotations

from typing import Any

import numpy as np

from .... import ops
from ....graph import Node
from .._layer import Layer, channels_last, two
from ._resize import METHODS, resized


def _pairs(value: Any, axes: int, what: str) -> list[tuple[int, int]]:
    """What is added or cut at both ends of each axis: a number, one for each axis, or a pair for each."""
    if isinstance(value, (int, np.integer)):
        return [(int(value), int(value))] * axes
    value = list(value)
    if axes == 1 and len(value) == 2 and all(isinstance(part, (int, np.integer)) for part in value):
        return [(int(value[0]), int(value[1]))]
    if len(value) != axes:
        raise ValueError(f"`{what}` should have {axes} elements. Received: {value}.")
    return [(int(part), int(part)) if isinstance(part, (int, np.integer)) else (int(part[0]), int(part[1]))
            for part in value]


class Permute(Layer):
    """The axes behind the batch in another order, counted from 1."""

    _scoped = False

    def __init__(self, dims: Any, **named: Any):
        super().__init__(**named)
        self.dims = tuple(int(axis) for axis in dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError("Invalid permutation argument `dims` for Permute Layer. The set of indices in `dims` must be "
                             f"consecutive and start from 1. Received dims={dims}")

    def call(self, inputs: Any) -> Any:
        return ops.transpose(inputs, (0, *self.dims))


class _Padding(Layer):
    _scoped = False
    _axes = 0

    def __init__(self, padding: Any = 1, data_format: Any = None, **named: Any):
        channels_last(data_format)
        super().__init__(**named)
        self.__dict__["padding"] = tuple(_pairs(padding, self._axes, "padding"))

    def call(self, inputs: Any) -> Any:
        rest = len(inputs.shape) - self._axes - 1
        return ops.pad(inputs, [(0, 0), *self.padding, *[(0, 0)] * rest])


class ZeroPadding1D(_Padding):
    """Zeros before and after the steps."""

    _axes = 1


class ZeroPadding2D(_Padding):
    """Zeros around images."""

    _axes = 2

    def __init__(self, padding: Any = (1, 1), data_format: Any = None, **named: Any):
        super().__init__(padding, data_format, **named)


class ZeroPadding3D(_Padding):
    """Zeros around volumes."""

    _axes = 3

    def __init__(self, padding: Any = (1, 1, 1), data_format: Any = None, **named: Any):
        super().__init__(padding, data_format, **named)


class _Cropping(Layer):
    _scoped = False
    _axes = 0

    def __init__(self, cropping: Any, data_format: Any = None, **named: Any):
        channels_last(data_format)
        super().__init__(**named)
        self.__dict__["cropping"] = tuple(_pairs(cropping, self._axes, "cropping"))

    def call(self, inputs: Any) -> Any:
        for size, (first, last) in zip(inputs.shape[1:], self.cropping):
            if size is not None and first + last >= size:
                raise ValueError(f"Values in `cropping` argument should be smaller than the corresponding spatial dimension "
                                 f"of the input. Received: input_shape={tuple(inputs.shape)}, cropping={self.cropping}")
        return inputs[(slice(None), *(slice(first, -last or None) for first, last in self.cropping))]


class Cropping1D(_Cropping):
    """Steps without the first and the last ones."""

    _axes = 1

    def __init__(self, cropping: Any = (1, 1), **named: Any):
        super().__init__(cropping, **named)


class Cropping2D(_Cropping):
    """Images without their edges."""

    _axes = 2

    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: Any = None, **named: Any):
        super().__init__(cropping, data_format, **named)


class Cropping3D(_Cropping):
    """Volumes without their edges."""

    _axes = 3

    def __init__(self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: Any = None, **named: Any):
        super().__init__(cropping, data_format, **named)


def _repeated(x: Node, times: Any) -> Node:
    """Each element of the axes behind the batch that often: [batch, a, b, channels] to [batch, a * times[0], ...]."""
    for axis, n in enumerate(times, 1):
        if n == 1:
            continue
        size, shape = x.shape[axis], tuple(x.shape)
        grown = ops.shape(x)[axis] * n if size is None else size * n
        wide = ops.tile(ops.expand_dims(x, axis + 1), [1] * (axis + 1) + [n] + [1] * (len(shape) - axis - 1))
        x = ops.reshape(wide, [ops.shape(x)[i] if s is None else s for i, s in enumerate(shape[:axis])] + [grown] + [
            ops.shape(x)[axis + 1 + i] if s is None else s for i, s in enumerate(shape[axis + 1:])])
    return x


class UpSampling1D(Layer):
    """Each step `size` times."""

    _scoped = False

    def __init__(self, size: int = 2, **named: Any):
        super().__init__(**named)
        self.__dict__["size"] = int(size)

    def call(self, inputs: Any) -> Any:
        return _repeated(inputs, (self.size,))


class UpSampling2D(Layer):
    """Images `size` times as high and wide."""

    _scoped = False

    def __init__(self, size: Any = (2, 2), data_format: Any = None, interpolation: str = "nearest", **named: Any):
        channels_last(data_format)
        if interpolation not in METHODS:
            raise ValueError(f"`interpolation` argument should be one of {', '.join(METHODS)}. Received: {interpolation}")
        super().__init__(**named)
        self.__dict__.update(size=two(size), interpolation=interpolation)

    def call(self, inputs: Any) -> Any:
        if self.interpolation == "nearest":
            return _repeated(inputs, self.size)
        if None in tuple(inputs.shape[1:3]):
            raise NotImplementedError(f"{self.name}: with {self.interpolation} interpolation the size of the images must be "
                                      "known; \"nearest\" takes any")
        return resized(inputs, *(int(size) * n for size, n in zip(inputs.shape[1:3], self.size)), self.interpolation)


class UpSampling3D(Layer):
    """Volumes `size` times as large along each axis."""

    _scoped = False

    def __init__(self, size: Any = (2, 2, 2), data_format: Any = None, **named: Any):
        channels_last(data_format)
        super().__init__(**named)
        self.__dict__["size"] = (int(size),) * 3 if isinstance(size, int) else tuple(int(part) for part in size)

    def call(self, inputs: Any) -> Any:
        return _repeated(inputs, self.size)
