# SPDX-License-Identifier: Apache-2.0
"""Layers that prepare images: sizes, and random changes while training. What they draw is not what TensorFlow draws from
the same seed; a range of one value gives the same images."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import ops
from ...._lib import c_seed, lib
from ...._tensor import float32, int32
from ....graph import Node
from ..._array import reverse
from .._layer import Layer
from ._resize import FILL_MODES, METHODS, cut_to_ratio, middle, projected, resized


def _method(interpolation: str, known: tuple = METHODS) -> str:
    name = str(interpolation).lower()
    if name not in known:
        raise NotImplementedError(f"Value not recognized for `interpolation`: {interpolation}. Supported values are: "
                                  f"{', '.join(known)}")
    return name


class _OfImages(Layer):
    """A layer for images [rows, columns, channels], or batches of them, as floats."""

    _scoped = False

    def call(self, inputs: Any) -> Any:
        return self._each(inputs, self._of_batch)

    def _each(self, inputs: Node, function: Any) -> Node:
        inputs = ops.cast(inputs, float32)
        if len(inputs.shape) == 3:
            return ops.squeeze(function(ops.expand_dims(inputs, 0)), 0)
        if len(inputs.shape) != 4:
            raise ValueError(f"{self.name}: images are [rows, columns, channels], or batches of them, not "
                             f"{tuple(inputs.shape)}")
        return function(inputs)

    def _of_batch(self, images: Node) -> Node:
        raise NotImplementedError


class Resizing(_OfImages):
    """Images of this size."""

    def __init__(self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
                 **named: Any):
        super().__init__(**named)
        self.__dict__.update(height=int(height), width=int(width), interpolation=_method(interpolation),
                             crop_to_aspect_ratio=crop_to_aspect_ratio)

    def _of_batch(self, images: Node) -> Node:
        make = cut_to_ratio if self.crop_to_aspect_ratio else resized
        return make(images, self.height, self.width, self.interpolation)


def _known_size(layer: Layer, images: Node) -> tuple[int, int]:
    if None in tuple(images.shape[1:3]):
        raise NotImplementedError(f"{layer.name}: the size of images that are cropped must be known; Resizing before it "
                                  "makes it so")
    return int(images.shape[1]), int(images.shape[2])


class CenterCrop(_OfImages):
    """The middle of images; of smaller ones the middle with the same ratio, resized."""

    def __init__(self, height: int, width: int, **named: Any):
        super().__init__(**named)
        self.__dict__.update(height=int(height), width=int(width))

    def _of_batch(self, images: Node) -> Node:
        return middle(images, self.height, self.width)


# --- random changes ---------------------------------------------------------------------------------------------------


class _Random(_OfImages):
    """Changes images while training, which a call that is not told otherwise does."""

    def __init__(self, seed: int | None = None, **named: Any):
        super().__init__(**named)
        self.__dict__["seed"] = seed

    def call(self, inputs: Any, training: Any = True) -> Any:
        return self._each(inputs, self._of_batch if training else self._as_they_are)

    def _as_they_are(self, images: Node) -> Node:
        return images

    def _draw(self, images: Node, low: float, high: float, each: bool = True, axes: int = 1) -> Node:
        """Numbers from low to high, [batch, 1, ...] with `axes` ones, or one for all images."""
        shape = ops.stack([ops.shape(images)[0], *[1] * axes]) if each else images.graph.constant(np.zeros(0, np.int32))
        drawn = images.graph.node(lib.est_random_uniform(ops.cast(shape, int32)._c, float32.number, c_seed(self.seed)))
        return drawn * float(high - low) + float(low)


class RandomFlip(_Random):
    """Images from the other side, half of them."""

    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, **named: Any):
        super().__init__(seed, **named)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError(f"RandomFlip layer {self.name} received an unknown mode argument {mode}")
        self.__dict__["mode"] = mode

    def _of_batch(self, images: Node) -> Node:
        for name, axis in (("horizontal", 2), ("vertical", 1)):
            if name in self.mode:
                images = ops.where(self._draw(images, 0, 1, axes=3) < 0.5, reverse.over_nodes(images, [axis]), images)
        return images


class RandomCrop(_Random):
    """A part of images, the same of all in a batch; without training the middle with that ratio, resized."""

    def __init__(self, height: int, width: int, seed: int | None = None, **named: Any):
        super().__init__(seed, **named)
        self.__dict__.update(height=int(height), width=int(width))

    def _as_they_are(self, images: Node) -> Node:
        return cut_to_ratio(images, self.height, self.width)

    def _of_batch(self, images: Node) -> Node:
        rows, columns = _known_size(self, images)
        if rows < self.height or columns < self.width:
            return self._as_they_are(images)
        for axis, size, wanted in ((1, rows, self.height), (2, columns, self.width)):
            first = ops.cast(ops.floor(self._draw(images, 0, size - wanted + 1, each=False)), int32)
            first = ops.minimum(first, size - wanted)
            images = ops.gather(images, first + images.graph.constant(np.arange(wanted, dtype=np.int32)), axis)
        return images


def _bounds(factor: Any, both: bool = True) -> tuple[float, float]:
    """The lowest and the highest of a factor that is a number or a pair."""
    if isinstance(factor, (list, tuple)):
        return float(factor[0]), float(factor[1])
    return (-float(factor) if both else float(factor)), float(factor)


class _Projected(_Random):
    """Images under a map of each."""

    def __init__(self, fill_mode: str, interpolation: str, fill_value: float, seed: int | None, named: dict):
        super().__init__(seed, **named)
        if fill_mode not in FILL_MODES:
            raise NotImplementedError(f"Unknown `fill_mode` {fill_mode}. Only {', '.join(FILL_MODES)} are supported.")
        if interpolation not in ("nearest", "bilinear"):
            raise NotImplementedError(f"Unknown `interpolation` {interpolation}. Only `nearest` and `bilinear` are "
                                      "supported.")
        self.__dict__.update(fill_mode=fill_mode, interpolation=interpolation, fill_value=fill_value)

    def _of_batch(self, images: Node) -> Node:
        rows, columns = _known_size(self, images)
        return projected(images, self._map(images, rows, columns), self.fill_mode, self.interpolation, self.fill_value)

    def _map(self, images: Node, rows: int, columns: int) -> list:
        raise NotImplementedError


class RandomRotation(_Projected):
    """Images turned around their middle, by a part of a full turn."""

    def __init__(self, factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear", seed: int | None = None,
                 fill_value: float = 0.0, **named: Any):
        super().__init__(fill_mode, interpolation, fill_value, seed, named)
        self.__dict__.update(factor=factor, _range=_bounds(factor))
        if self._range[1] < self._range[0]:
            raise ValueError(f"`factor` argument cannot have a negative value. Received: factor={factor}")

    def _map(self, images: Node, rows: int, columns: int) -> list:
        angle = self._draw(images, *(2 * math.pi * bound for bound in self._range))
        sine, cosine = ops.sin(angle), ops.cos(angle)
        across = (columns - 1.0 - (cosine * (columns - 1.0) - sine * (rows - 1.0))) / 2.0
        down = (rows - 1.0 - (sine * (columns - 1.0) + cosine * (rows - 1.0))) / 2.0
        return [cosine, -sine, across, sine, cosine, down]


class RandomTranslation(_Projected):
    """Images moved down and right by parts of their size."""

    def __init__(self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear",
                 seed: int | None = None, fill_value: float = 0.0, **named: Any):
        super().__init__(fill_mode, interpolation, fill_value, seed, named)
        self.__dict__.update(height_factor=height_factor, width_factor=width_factor, _down=_bounds(height_factor),
                             _right=_bounds(width_factor))
        for bounds, name in ((self._down, "height_factor"), (self._right, "width_factor")):
            if bounds[1] < bounds[0] or max(abs(bound) for bound in bounds) > 1:
                raise ValueError(f"`{name}` must have values between [-1, 1], the lower one first. Received: {bounds}")

    def _map(self, images: Node, rows: int, columns: int) -> list:
        down = self._draw(images, *self._down) * float(rows)
        right = self._draw(images, *self._right) * float(columns)
        return [1.0, 0.0, -right, 0.0, 1.0, -down]


class RandomZoom(_Projected):
    """Images that are larger (a factor below 0) or smaller."""

    def __init__(self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
                 interpolation: str = "bilinear", seed: int | None = None, fill_value: float = 0.0, **named: Any):
        super().__init__(fill_mode, interpolation, fill_value, seed, named)
        self.__dict__.update(height_factor=height_factor, width_factor=width_factor, _high=_bounds(height_factor),
                             _wide=None if width_factor is None else _bounds(width_factor))
        for bounds, name in ((self._high, "height_factor"), (self._wide, "width_factor")):
            if bounds is not None and min(bounds) < -1.0:
                raise ValueError(f"`{name}` argument cannot have values below -1. Received: {bounds}")

    def _map(self, images: Node, rows: int, columns: int) -> list:
        high = self._draw(images, 1 + self._high[0], 1 + self._high[1])
        wide = high if self._wide is None else self._draw(images, 1 + self._wide[0], 1 + self._wide[1])
        return [wide, 0.0, (1.0 - wide) * ((columns - 1.0) / 2.0), 0.0, high, (1.0 - high) * ((rows - 1.0) / 2.0)]


class RandomContrast(_Random):
    """(x - mean) times a factor, plus the mean of the channel; within 0 and 255."""

    def __init__(self, factor: Any, seed: int | None = None, **named: Any):
        super().__init__(seed, **named)
        self.__dict__.update(factor=factor, _range=_bounds(factor, both=False))
        if min(self._range) < 0.0 or self._range[0] > 1.0:
            raise ValueError("`factor` argument cannot have negative values or values greater than 1."
                             f"Received: factor={factor}")

    def _of_batch(self, images: Node) -> Node:
        mean = ops.reduce_mean(images, [1, 2], True)
        factor = self._draw(images, 1.0 - self._range[0], 1.0 + self._range[1], each=False)
        return ops.clip_by_value((images - mean) * factor + mean, 0.0, 255.0)


class RandomBrightness(_Random):
    """x plus a part of the range of values, within that."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **named: Any):
        super().__init__(seed, **named)
        if not isinstance(value_range, (list, tuple)) or len(value_range) != 2:
            raise ValueError(f"The `value_range` argument should be a list of two numbers. Got {value_range}")
        bounds = sorted(factor) if isinstance(factor, (list, tuple)) else [-abs(factor), abs(factor)]
        if len(bounds) != 2 or min(bounds) < -1.0 or max(bounds) > 1.0:
            raise ValueError("The `factor` argument should be a number (or a list of two numbers) in the range [-1.0, 1.0]. "
                             f"Got {factor}")
        self.__dict__.update(factor=factor, value_range=value_range, _range=bounds, _values=sorted(value_range))

    def _of_batch(self, images: Node) -> Node:
        low, high = (float(value) for value in self._values)
        return ops.clip_by_value(images + self._draw(images, *self._range, axes=3) * (high - low), low, high)


class _RandomSize(_Random):
    _axis = 1

    def __init__(self, factor: Any, interpolation: str = "bilinear", seed: int | None = None, **named: Any):
        super().__init__(seed, **named)
        self.__dict__.update(factor=factor, interpolation=_method(interpolation, ("bilinear", "nearest")),
                             _range=_bounds(factor))
        if self._range[1] < self._range[0]:
            raise ValueError(f"`factor` argument cannot have an upper bound lesser than the lower bound. Received: "
                             f"factor={factor}")
        if self._range[0] < -1.0:
            raise ValueError(f"`factor` argument must have values larger than -1. Received: factor={factor}")

    def _of_batch(self, images: Node) -> Node:
        sizes = ops.shape(images)
        factor = self._draw(images, 1.0 + self._range[0], 1.0 + self._range[1], each=False)
        wanted = [size if known is None else int(known) for size, known in zip((sizes[1], sizes[2]), images.shape[1:3])]
        wanted[self._axis - 1] = ops.cast(ops.floor(factor * ops.cast(sizes[self._axis], float32)), int32)
        return resized(images, *wanted, self.interpolation)


class RandomHeight(_RandomSize):
    """Images that are higher or lower, all of a batch alike."""


class RandomWidth(_RandomSize):
    """Images that are wider or narrower, all of a batch alike."""

    _axis = 2
