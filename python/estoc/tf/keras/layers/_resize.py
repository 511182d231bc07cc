# SPDX-License-Identifier: Apache-2.0
"""Images of another size, and images under a projective map, as products and lookups over nodes."""
from __future__ import annotations

import functools
import math
from typing import Any, Callable

import numpy as np

from .... import ops
from ...._tensor import float32, int32
from ....graph import Node
from ..._array import range_

# The kernels that weigh the pixels around a place, and how far they reach.


def _lanczos(radius: int) -> Callable:
    def kernel(x: float) -> float:
        if x > radius:
            return 0.0
        if x <= 1e-3:
            return 1.0
        return radius * math.sin(math.pi * x) * math.sin(math.pi * x / radius) / (math.pi**2 * x * x)

    return kernel


def _gaussian(x: float) -> float:
    return 0.0 if x >= 1.5 else math.exp(-x * x / (2.0 * 0.5**2))


def _mitchell(x: float) -> float:
    """B = C = 1/3."""
    if x >= 2.0:
        return 0.0
    if x >= 1.0:
        return ((-7.0 / 18.0 * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
    return (7.0 / 6.0 * x - 2.0) * x * x + 8.0 / 9.0


_KERNELS = {"lanczos3": (_lanczos(3), 3.0), "lanczos5": (_lanczos(5), 5.0), "gaussian": (_gaussian, 1.5),
            "mitchellcubic": (_mitchell, 2.0)}
METHODS = ("area", "bicubic", "bilinear", "nearest", *_KERNELS)
_CUBIC_STEPS = 1024  # TensorFlow has a table of so many places between two pixels


def _cubic(x: float) -> float:
    """Keys' cubic with a = -0.5."""
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1.0
    return ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 if x < 2.0 else 0.0


@functools.lru_cache(maxsize=256)
def weights(size: int, wanted: int, method: str) -> np.ndarray:
    """[wanted, size]: what each new pixel of an axis takes of the old ones."""
    found = np.zeros((wanted, size), np.float64)
    scale = size / wanted
    for i in range(wanted):
        place = (i + 0.5) * scale
        if method == "nearest":
            found[i, min(int(place), size - 1)] = 1.0
        elif method == "bilinear":
            low = math.floor(place - 0.5)
            found[i, max(low, 0)] += 1.0 - (place - 0.5 - low)
            found[i, min(low + 1, size - 1)] += place - 0.5 - low
        elif method == "area":
            for j in range(int(i * scale), min(math.ceil((i + 1) * scale), size)):
                found[i, j] = (min(j + 1, (i + 1) * scale) - max(j, i * scale)) / scale
        elif method == "bicubic":
            low = math.floor(place - 0.5)
            between = round((place - 0.5 - low) * _CUBIC_STEPS) / _CUBIC_STEPS
            for j in range(max(low - 1, 0), min(low + 3, size)):
                found[i, j] = _cubic(abs(j - low - between))
        else:
            kernel, radius = _KERNELS[method]
            for j in range(max(math.ceil(place - radius - 0.5), 0), min(math.floor(place + radius - 0.5), size - 1) + 1):
                found[i, j] = kernel(abs(j + 0.5 - place))
    total = found.sum(1, keepdims=True)
    return (found / np.where(total == 0, 1, total)).astype(np.float32)


def _along(x: Node, axis: int, wanted: Any, method: str) -> Node:
    """Images with another number of rows (axis 1) or columns (axis 2)."""
    size = x.shape[axis]
    if size is None or isinstance(wanted, Node):
        return _looked_up(x, axis, wanted, method)
    if size == wanted:
        return x
    matrix = weights(int(size), int(wanted), method)
    if method == "nearest":
        return ops.gather(x, x.graph.constant(matrix.argmax(1).astype(np.int32)), axis)
    order = [0, axis, *(i for i in (1, 2, 3) if i != axis)]  # its own inverse
    turned = ops.transpose(x, order) if axis != 1 else x
    shape, sizes = tuple(turned.shape), ops.shape(turned)
    rest = [sizes[i] if shape[i] is None else int(shape[i]) for i in (2, 3)]
    flat = ops.reshape(turned, [-1, int(size), rest[0] * rest[1]])
    made = ops.matmul(x.graph.constant(matrix[None]), flat)
    made = ops.reshape(made, [-1, int(wanted), *rest])
    return ops.transpose(made, order) if axis != 1 else made


def _looked_up(x: Node, axis: int, wanted: Any, method: str) -> Node:
    """The same where sizes are known only when it is run."""
    if method not in ("nearest", "bilinear"):
        raise NotImplementedError(f"resizing images of a size that is known only when it is run: the method is \"nearest\" "
                                  f"or \"bilinear\", not {method!r}")
    size = ops.shape(x)[axis]
    count = wanted if isinstance(wanted, Node) else x.graph.constant(np.int32(wanted))
    scale = ops.cast(size, float32) / ops.cast(count, float32)
    place = (ops.cast(range_(count), float32) + 0.5) * scale
    if method == "nearest":
        return ops.gather(x, ops.minimum(ops.cast(ops.floor(place), int32), size - 1), axis)
    low = ops.floor(place - 0.5)
    part = ops.reshape(place - 0.5 - low, [-1] + [1] * (3 - axis))
    low = ops.cast(low, int32)
    first = ops.gather(x, ops.maximum(low, 0), axis)
    return first + (ops.gather(x, ops.minimum(low + 1, size - 1), axis) - first) * part


def resized(x: Node, height: Any, width: Any, method: str = "bilinear") -> Node:
    """Images [batch, rows, columns, channels] of another size; floats, except for "nearest"."""
    if method != "nearest":
        x = ops.cast(x, float32)
    return _along(_along(x, 1, height, method), 2, width, method)


def cut_to_ratio(x: Node, height: int, width: int, method: str = "bilinear") -> Node:
    """The middle of images with the ratio of a size, in that size."""
    rows, columns = (None if size is None else int(size) for size in x.shape[1:3])
    if rows is None or columns is None:
        return _cut_later(x, height, width, method, False)
    high = min(int(np.float32(columns * height) / np.float32(width)), rows)
    wide = min(int(np.float32(rows * width) / np.float32(height)), columns)
    top, left = int(np.float32(rows - high) / 2), int(np.float32(columns - wide) / 2)
    return resized(x[:, top:top + high, left:left + wide], height, width, method)


def _window(x: Node, axis: int, first: Node, size: Node, wanted: int) -> Node:
    """`size` rows (axis 1) or columns (axis 2) from `first` on, as `wanted` of them."""
    places = ops.cast(range_(x.graph.constant(np.int32(wanted))), float32)
    place = (places + 0.5) * (ops.cast(size, float32) / float(wanted)) - 0.5
    low = ops.floor(place)
    part = ops.reshape(place - low, [-1] + [1] * (3 - axis))
    low = ops.cast(low, int32)
    before = ops.gather(x, first + ops.maximum(low, 0), axis)
    return before + (ops.gather(x, first + ops.minimum(low + 1, size - 1), axis) - before) * part


def _cut_later(x: Node, height: int, width: int, method: str, in_place: bool) -> Node:
    """cut_to_ratio for sizes that are known only when it is run; with in_place the middle itself where it is large enough."""
    if method != "bilinear":
        raise NotImplementedError("images of a size that is known only when it is run are cut with \"bilinear\", not "
                                  f"{method!r}")
    x = ops.cast(x, float32)
    rows, columns = (ops.shape(x)[axis] for axis in (1, 2))
    high = ops.minimum(ops.cast(ops.cast(columns * height, float32) / float(width), int32), rows)
    wide = ops.minimum(ops.cast(ops.cast(rows * width, float32) / float(height), int32), columns)
    if in_place:
        large = ops.logical_and(rows >= height, columns >= width)
        high = ops.where(large, ops.zeros_like(high) + height, high)
        wide = ops.where(large, ops.zeros_like(wide) + width, wide)
    for axis, size, part, wanted in ((1, rows, high, height), (2, columns, wide, width)):
        x = _window(x, axis, (size - part) // 2, part, wanted)
    return x


def middle(x: Node, height: int, width: int) -> Node:
    """The middle of images; of smaller ones that with the ratio, resized."""
    if None in tuple(x.shape[1:3]):
        return _cut_later(x, height, width, "bilinear", True)
    rows, columns = int(x.shape[1]), int(x.shape[2])
    if rows < height or columns < width:
        return cut_to_ratio(x, height, width)
    top, left = (rows - height) // 2, (columns - width) // 2
    return x[:, top:top + height, left:left + width]


# --- projective maps --------------------------------------------------------------------------------------------------

FILL_MODES = ("constant", "nearest", "reflect", "wrap")


def _inside(place: Node, size: int, mode: str) -> Node:
    """The place that stands for one beyond the edges."""
    if mode == "constant":
        return place
    if size > 1 and mode == "reflect":
        back = ops.abs(place + 0.5)
        back = back - 2.0 * size * ops.floor(back / (2.0 * size))
        place = ops.where(ops.logical_and(place >= 0.0, place <= size - 1.0), place,
                          ops.where(back > size, 2.0 * size - back, back) - 0.5)
    elif size > 1 and mode == "wrap":
        below = place + size * (ops.floor(-place / (size - 1.0)) + 1.0)
        above = place - size * ops.floor(place / (size - 1.0))
        place = ops.where(place < 0.0, below, ops.where(place > size - 1.0, above, place))
    return ops.clip_by_value(place, 0.0, size - 1.0)


def projected(images: Node, maps: list, fill_mode: str, method: str, fill_value: float) -> Node:
    """Each pixel (x, y) of the result is that of the images at (a x + b y + c, d x + e y + f), where `maps` has a to f of
    every image, [batch, 1] each, or numbers."""
    rows, columns, channels = (None if size is None else int(size) for size in images.shape[1:4])
    if rows is None or columns is None or channels is None:
        raise NotImplementedError("images that are turned, moved or zoomed must have a known size")
    graph, pixels = images.graph, rows * columns
    y, x = (graph.constant(part.reshape(1, -1).astype(np.float32)) for part in np.mgrid[:rows, :columns])
    a, b, c, d, e, f = maps
    across, down = _inside(a * x + b * y + c, columns, fill_mode), _inside(d * x + e * y + f, rows, fill_mode)
    flat = ops.reshape(images, [-1, channels])
    first = ops.expand_dims(ops.cast(range_(ops.shape(images)[0]), int32) * pixels, 1)

    def read(row: Node, column: Node) -> Node:
        """[batch, pixels, channels]; the fill value beyond the edges."""
        i, j = (ops.cast(ops.clip_by_value(part, 0.0, size - 1.0), int32) for part, size in ((row, rows), (column, columns)))
        found = ops.gather(flat, first + i * columns + j)
        if fill_mode != "constant":
            return found
        known = ops.logical_and(ops.logical_and(row >= 0.0, row <= rows - 1.0),
                                ops.logical_and(column >= 0.0, column <= columns - 1.0))
        return ops.where(ops.expand_dims(known, -1), found, ops.zeros_like(found) + float(fill_value))

    if method == "nearest":
        made = read(ops.floor(down + 0.5), ops.floor(across + 0.5))
    else:
        top, left = ops.floor(down), ops.floor(across)
        lower, right = (ops.expand_dims(part, -1) for part in (down - top, across - left))
        above = read(top, left) * (1.0 - right) + read(top, left + 1.0) * right
        below = read(top + 1.0, left) * (1.0 - right) + read(top + 1.0, left + 1.0) * right
        made = above * (1.0 - lower) + below * lower
    return ops.reshape(made, [-1, rows, columns, channels])
