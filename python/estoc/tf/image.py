# SPDX-License-Identifier: Apache-2.0
"""tf.image: sizes, parts, turns and colours of images [rows, columns, channels], or batches of them. There are no codecs
of images."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .. import ops as _ops
from .._tensor import as_dtype as _as_dtype
from .._tensor import float32 as _float32
from ..graph import Node as _Node
from ._absent import module_getattr as _module_getattr
from ._array import reverse as _reverse
from ._eager import Tensor as _Tensor
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._variable import Variable as _Variable

_cast, _multiply, _add, _pad = _eager(_ops.cast), _eager(_ops.multiply), _eager(_ops.add), _eager(_ops.pad)
_mean, _maximum = _eager(_ops.reduce_mean), _eager(_ops.maximum)
_subtract, _divide, _concat, _clip = (_eager(item) for item in (_ops.subtract, _ops.divide, _ops.concat,
                                                                 _ops.clip_by_value))
_transpose, _sqrt, _where, _square = _eager(_ops.transpose), _eager(_ops.sqrt), _eager(_ops.where), _eager(_ops.square)


class ResizeMethod:
    """How pixels of a new size are made."""

    BILINEAR, NEAREST_NEIGHBOR, BICUBIC, AREA = "bilinear", "nearest", "bicubic", "area"
    LANCZOS3, LANCZOS5, GAUSSIAN, MITCHELLCUBIC = "lanczos3", "lanczos5", "gaussian", "mitchellcubic"


def _image(value: _Any, ranks: tuple = (3, 4)) -> _Any:
    image = value if isinstance(value, (_Tensor, _Node, _Variable)) else _Tensor(_unwrap(value))
    if image.shape is None or len(image.shape) not in ranks:
        raise ValueError(f"an image has {' or '.join(map(str, ranks))} axes, not "
                         f"{'an unknown number of' if image.shape is None else len(image.shape)}")
    return image


def _size_of(image: _Any) -> tuple:
    """Rows and columns, which must be known."""
    sizes = tuple(image.shape)[-3:-1]
    if None in sizes:
        raise NotImplementedError("the size of an image must be known here: set_shape says it, or tf.image.resize makes one")
    return int(sizes[0]), int(sizes[1])


@_eager
def _resized(images: "Tensor", height: int, width: int, method: str) -> _Any:  # noqa: F821
    from .keras.layers._resize import resized
    x = _ops._node(images)
    made = resized(_ops.expand_dims(x, 0) if len(x.shape) == 3 else x, height, width, method)
    return _ops.squeeze(made, 0) if len(x.shape) == 3 else made


def resize(images: _Any, size: _Any, method: str = ResizeMethod.BILINEAR, preserve_aspect_ratio: bool = False,
           antialias: bool = False, name: str | None = None) -> _Any:
    """Images of another size, floats but with the method "nearest"."""
    from .keras.layers._resize import METHODS
    if antialias and method not in (ResizeMethod.NEAREST_NEIGHBOR, ResizeMethod.AREA):
        raise NotImplementedError("tf.image.resize: antialias does not exist; the method \"area\" averages pixels")
    if method not in METHODS:
        raise ValueError(f"Resize method is not implemented: {method}")
    image = _image(images)
    wanted = [int(item) for item in _np.reshape(_unwrap(size), -1)]
    if len(wanted) != 2:
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    if preserve_aspect_ratio:
        rows, columns = _size_of(image)
        scale = min(wanted[0] / rows, wanted[1] / columns)
        wanted = [int(_np.round(_np.float32(scale * rows))), int(_np.round(_np.float32(scale * columns)))]
    if None not in image.shape and tuple(image.shape)[-3:-1] == tuple(wanted):
        return image if method == ResizeMethod.NEAREST_NEIGHBOR else _cast(image, _float32)
    return _resized(image, *wanted, method)


# --- turns ------------------------------------------------------------------------------------------------------------


def flip_left_right(image: _Any) -> _Any:
    """Columns in the opposite order."""
    return _reverse(_image(image), [-2])


def flip_up_down(image: _Any) -> _Any:
    """Rows in the opposite order."""
    return _reverse(_image(image), [-3])


def transpose(image: _Any, name: str | None = None) -> _Any:
    """Rows as columns."""
    image = _image(image)
    return _transpose(image, [1, 0, 2] if len(image.shape) == 3 else [0, 2, 1, 3])


def rot90(image: _Any, k: int = 1, name: str | None = None) -> _Any:
    """Turned by 90 degrees, so many times, against the clock."""
    image, turns = _image(image), int(_unwrap(k)) % 4
    if turns == 0:
        return image
    if turns == 2:
        return _reverse(image, [-3, -2])
    return transpose(flip_left_right(image)) if turns == 1 else flip_left_right(transpose(image))


def _drawn(image: _Any, seed: int | None, change: _Callable) -> _Any:
    """The image, or with a chance of one half the changed one; each image of a batch for itself."""
    from . import random
    image = _image(image)
    shape = [1, 1, 1] if len(image.shape) == 3 else [_ops.shape(image)[0] if image.shape[0] is None else
                                                     int(image.shape[0]), 1, 1, 1]
    return _where(random.uniform(shape, seed=seed) < 0.5, change(image), image)


def random_flip_left_right(image: _Any, seed: int | None = None) -> _Any:
    """Columns in the opposite order, or not."""
    return _drawn(image, seed, flip_left_right)


def random_flip_up_down(image: _Any, seed: int | None = None) -> _Any:
    """Rows in the opposite order, or not."""
    return _drawn(image, seed, flip_up_down)


# --- parts ------------------------------------------------------------------------------------------------------------


def crop_to_bounding_box(image: _Any, offset_height: int, offset_width: int, target_height: int, target_width: int) -> _Any:
    """A part, from a place on."""
    image = _image(image)
    top, left, high, wide = (int(_unwrap(item)) for item in (offset_height, offset_width, target_height, target_width))
    rows, columns = _size_of(image)
    for condition, text in ((left >= 0, "offset_width must be >= 0."), (top >= 0, "offset_height must be >= 0."),
                            (wide > 0, "target_width must be > 0."), (high > 0, "target_height must be > 0."),
                            (left + wide <= columns, "width must be >= target + offset."),
                            (top + high <= rows, "height must be >= target + offset.")):
        if not condition:
            raise ValueError(text)
    return image[..., top:top + high, left:left + wide, :]


def pad_to_bounding_box(image: _Any, offset_height: int, offset_width: int, target_height: int, target_width: int) -> _Any:
    """The image at a place of a larger one, which is 0 around it."""
    image = _image(image)
    top, left, high, wide = (int(_unwrap(item)) for item in (offset_height, offset_width, target_height, target_width))
    rows, columns = _size_of(image)
    for condition, text in ((top >= 0, "offset_height must be >= 0"), (left >= 0, "offset_width must be >= 0"),
                            (high - top - rows >= 0, "height must be <= target - offset"),
                            (wide - left - columns >= 0, "width must be <= target - offset")):
        if not condition:
            raise ValueError(text)
    edges = [[top, high - top - rows], [left, wide - left - columns], [0, 0]]
    return _pad(image, edges if len(image.shape) == 3 else [[0, 0], *edges])


def central_crop(image: _Any, central_fraction: float) -> _Any:
    """The middle: this part of the rows and of the columns."""
    fraction = float(_unwrap(central_fraction))
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    image = _image(image)
    if fraction == 1:
        return image
    rows, columns = _size_of(image)
    top, left = int((rows - rows * fraction) / 2), int((columns - columns * fraction) / 2)
    return image[..., top:rows - top, left:columns - left, :]


def resize_with_crop_or_pad(image: _Any, target_height: int, target_width: int) -> _Any:
    """The middle of an image, or the image in the middle of 0."""
    image = _image(image)
    rows, columns = _size_of(image)
    high, wide = int(_unwrap(target_height)), int(_unwrap(target_width))
    if high <= 0 or wide <= 0:
        raise ValueError(f"target_{'height' if high <= 0 else 'width'} must be > 0.")
    part = crop_to_bounding_box(image, max((rows - high) // 2, 0), max((columns - wide) // 2, 0), min(high, rows),
                                min(wide, columns))
    return pad_to_bounding_box(part, max((high - rows) // 2, 0), max((wide - columns) // 2, 0), high, wide)


def resize_with_pad(image: _Any, target_height: int, target_width: int, method: str = ResizeMethod.BILINEAR,
                    antialias: bool = False) -> _Any:
    """The image resized with its ratio, in the middle of 0."""
    image = _image(image)
    rows, columns = _size_of(image)
    high, wide = int(_unwrap(target_height)), int(_unwrap(target_width))
    if high <= 0 or wide <= 0:
        raise ValueError(f"target_{'height' if high <= 0 else 'width'} must be > 0.")
    ratio = max(columns / wide, rows / high)
    size = [int(_np.floor(_np.float32(rows / ratio))), int(_np.floor(_np.float32(columns / ratio)))]
    made = resize(image, size, method, antialias=antialias)
    return pad_to_bounding_box(made, max(0, (high - size[0]) // 2), max(0, (wide - size[1]) // 2), high, wide)


def random_crop(value: _Any, size: _Any, seed: int | None = None, name: str | None = None) -> _Any:
    """A part of that size at a place that is drawn."""
    from . import random
    value = value if isinstance(value, (_Tensor, _Node)) else _Tensor(_unwrap(value))
    if value.shape is None or None in value.shape:
        raise NotImplementedError("tf.image.random_crop: the shape must be known")
    wanted = [int(item) for item in _np.reshape(_unwrap(size), -1)]
    shape = [int(item) for item in value.shape]
    if len(wanted) != len(shape) or any(want > have for want, have in zip(wanted, shape)):
        from ..errors import InvalidArgumentError
        raise InvalidArgumentError(f"Need value.shape >= size, got {shape} and {wanted}")
    found, gather = value, _eager(_ops.gather)
    for axis, (have, want) in enumerate(zip(shape, wanted)):
        if have > want:
            start = random.uniform([], 0, have - want + 1, "int32", seed=seed)
            found = gather(found, _add(start, _np.arange(want, dtype=_np.int32)), axis=axis)
    return found


# --- colours ----------------------------------------------------------------------------------------------------------


def convert_image_dtype(image: _Any, dtype: _Any, saturate: bool = False, name: str | None = None) -> _Any:
    """Another dtype: floats are in [0, 1), integers in all of their range."""
    image = image if isinstance(image, (_Tensor, _Node, _Variable)) else _Tensor(_unwrap(image))
    old, new = _as_dtype(image.dtype), _as_dtype(dtype)
    if old == new:
        return image
    if old.is_integer and new.is_floating:
        return _multiply(_cast(image, new), 1.0 / old.max)
    if old.is_floating and new.is_integer:
        scaled = _multiply(image, new.max + 0.5)
        return _cast(_clip(scaled, new.min, new.max) if saturate else scaled, new)
    if old.is_floating and new.is_floating:
        return _cast(image, new)
    raise NotImplementedError(f"tf.image.convert_image_dtype from {old.name} to {new.name}: by way of floats")


def _of_floats(image: _Any, change: _Callable) -> _Any:
    """A change of floats, of images of any dtype."""
    image = image if isinstance(image, (_Tensor, _Node, _Variable)) else _Tensor(_unwrap(image))
    dtype = _as_dtype(image.dtype)
    if dtype.is_floating:
        return change(image)
    return convert_image_dtype(change(convert_image_dtype(image, _float32)), dtype, saturate=True)


def per_image_standardization(image: _Any) -> _Any:
    """Floats of mean 0 and deviation 1 in each image."""
    image = _image(image)
    image = image if _as_dtype(image.dtype).is_floating else _cast(image, _float32)
    axes = [-1, -2, -3]
    count = int(_np.prod([int(size) for size in (*_size_of(image), image.shape[-1])]))
    mean = _mean(image, axes, True)
    deviation = _sqrt(_mean(_square(_subtract(image, mean)), axes, True))
    return _divide(_subtract(image, mean), _maximum(deviation, 1.0 / _np.sqrt(count)))


def rgb_to_grayscale(images: _Any, name: str | None = None) -> _Any:
    """One channel of three."""
    def gray(image: _Any) -> _Any:
        weights = _np.array([0.2989, 0.587, 0.114], _np.float32)
        return _eager(_ops.reduce_sum)(_multiply(image, weights), -1, True)

    return _of_floats(images, gray)


def grayscale_to_rgb(images: _Any, name: str | None = None) -> _Any:
    """Three equal channels of one."""
    images = images if isinstance(images, (_Tensor, _Node)) else _Tensor(_unwrap(images))
    return _concat([images] * 3, -1)


def adjust_brightness(image: _Any, delta: _Any) -> _Any:
    """delta more, of floats in [0, 1]."""
    return _of_floats(image, lambda given: _add(given, delta))


def adjust_contrast(images: _Any, contrast_factor: _Any) -> _Any:
    """Distances from the mean of each channel times a factor."""
    def change(image: _Any) -> _Any:
        mean = _mean(image, [-3, -2], True)
        return _add(_multiply(_subtract(image, mean), contrast_factor), mean)

    return _of_floats(images, change)


def random_brightness(image: _Any, max_delta: float, seed: int | None = None) -> _Any:
    """adjust_brightness by a number that is drawn from [-max_delta, max_delta)."""
    from . import random
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random.uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: _Any, lower: float, upper: float, seed: int | None = None) -> _Any:
    """adjust_contrast by a factor that is drawn from [lower, upper)."""
    from . import random
    if upper <= lower or lower < 0:
        raise ValueError("upper must be > lower." if upper <= lower else "lower must be non-negative.")
    return adjust_contrast(image, random.uniform([], lower, upper, seed=seed))


def total_variation(images: _Any, name: str | None = None) -> _Any:
    """The sum of the distances between pixels beside each other."""
    images = _image(images)
    distances, total = _eager(_ops.abs), _eager(_ops.reduce_sum)
    rows = distances(_subtract(images[..., 1:, :, :], images[..., :-1, :, :]))
    columns = distances(_subtract(images[..., :, 1:, :], images[..., :, :-1, :]))
    axes = [-3, -2, -1]
    return _add(total(rows, axes), total(columns, axes))


_CODECS = "there are no codecs of images: PIL.Image, called by tf.py_function in Dataset.map, decodes files"
__getattr__ = _module_getattr(__name__, dict.fromkeys((
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "encode_jpeg", "encode_png",
    "decode_and_crop_jpeg", "extract_jpeg_shape", "is_jpeg"), _CODECS))
