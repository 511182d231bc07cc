# SPDX-License-Identifier: Apache-2.0
"""Dtypes, and numpy arrays as tensors of the library and back, without copies where lifetimes allow."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import _frames
from ._lib import NULL, check, ffi, lend, lib, owned, take_back


class DType:
    """The type of the elements of a tensor. Equal to the numpy dtype of the same meaning, and to its name."""

    def __init__(self, number: int, name: str, numpy_type: Any):
        self.number = number
        self.name = name
        self.as_numpy_dtype = numpy_type

    as_datatype_enum = property(lambda self: self.number)
    is_floating = property(lambda self: self.name in ("float32", "float64"))
    is_integer = property(lambda self: self.name in ("int32", "int64", "uint8"))
    is_bool = property(lambda self: self.name == "bool")
    is_unsigned = property(lambda self: self.name == "uint8")
    is_complex = property(lambda self: False)
    is_numpy_compatible = property(lambda self: True)
    base_dtype = real_dtype = property(lambda self: self)
    size = property(lambda self: np.dtype(self.as_numpy_dtype).itemsize if self.name != "string" else 0)
    min = property(lambda self: self._limits().min)
    max = property(lambda self: self._limits().max)

    def is_compatible_with(self, other: Any) -> bool:
        return self == other

    def _limits(self) -> Any:
        if self.name in ("bool", "string"):
            raise TypeError(f"Cannot find minimum and maximum of {self}")
        return np.finfo(self.as_numpy_dtype) if self.is_floating else np.iinfo(self.as_numpy_dtype)

    def __eq__(self, other: Any) -> bool:
        try:
            return self.number == as_dtype(other).number
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self.number)

    package = "estoc"  # that programs have it from

    def __repr__(self) -> str:
        return f"{self.package}.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"


float32 = DType(1, "float32", np.float32)
float64 = DType(2, "float64", np.float64)
int32 = DType(3, "int32", np.int32)
uint8 = DType(4, "uint8", np.uint8)
string = DType(7, "string", np.object_)
int64 = DType(9, "int64", np.int64)
bool_ = DType(10, "bool", np.bool_)
ALL = (float32, float64, int32, uint8, string, int64, bool_)
_BY_NUMBER = {dtype.number: dtype for dtype in ALL}
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NUMPY = {np.dtype(dtype.as_numpy_dtype): dtype for dtype in ALL if dtype is not string}

_BY_TYPE = {float: float32, int: int32, bool: bool_, str: string, bytes: string}


def as_dtype(value: Any) -> DType:
    """The dtype for a DType, a number, a name ("float32"), a Python type (float is float32) or a numpy dtype."""
    if isinstance(value, DType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if value in _BY_NUMBER:
            return _BY_NUMBER[value]
    elif isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    elif isinstance(value, str) and value == "float":  # numpy's is float64
        return float32
    elif isinstance(value, type) and value in _BY_TYPE:
        return _BY_TYPE[value]
    else:
        kind = np.dtype(value)
        if kind in _BY_NUMPY:
            return _BY_NUMPY[kind]
        if kind.kind in "OSU":
            return string
    raise TypeError(f"{value!r} is no dtype of a tensor; there are {', '.join(_BY_NAME)}")


# --- shapes -----------------------------------------------------------------------------------------------------------


def c_shape(shape: Sequence[int | None] | int | None) -> Any:
    """An est_shape; None or -1 for a dimension, or None for all of it, is unknown."""
    result = ffi.new("est_shape *")
    if shape is None or getattr(shape, "_known", True) is False:
        result.rank = -1
        return result[0]
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    shape = list(shape)
    if len(shape) > lib.EST_RANK_MAX:
        raise ValueError(f"a tensor has at most {lib.EST_RANK_MAX} axes, not {len(shape)}")
    result.rank = len(shape)
    for i, dim in enumerate(shape):
        result.dim[i] = -1 if dim is None else int(dim)
    return result[0]


def py_shape(shape: Any) -> tuple[int | None, ...] | None:
    """A tuple for an est_shape or a pointer to one; None: unknown rank."""
    if shape == NULL:
        return None
    if ffi.typeof(shape).kind == "pointer":
        shape = shape[0]
    if shape.rank < 0:
        return None
    return tuple(None if dim < 0 else dim for dim in shape.dim[0:shape.rank])


# --- numpy to the library ---------------------------------------------------------------------------------------------


def as_array(value: Any, dtype: Any = None) -> np.ndarray:
    """A C-ordered array of one of the dtypes that tensors have. Python floats are float32, Python ints int32 or, where
    they do not fit, int64, as in TensorFlow; numpy's types stay. Strings are an array of objects, all bytes."""
    if dtype is not None:
        dtype = as_dtype(dtype)
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        if hasattr(value, "to_tensor"):
            raise TypeError("a ragged tensor is no array: to_tensor() makes a dense one of it")
        value = value.numpy()
    if _frames.is_column(value):
        value = _frames.column_array(value)
    elif _frames.is_table(value):
        value = _frames.table_array(value)
    typed = isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__")
    array = np.asarray(value)
    if array.dtype.kind in "SU" and not isinstance(value, np.ndarray):
        array = np.array(value, dtype=object)  # numpy's own strings lose zeros at their ends
    if array.dtype.kind in "OSU":
        return _string_array(array, dtype)
    if not typed and array.size == 0 and dtype is not None:  # an empty list is one of any dtype
        return np.zeros(array.shape, dtype.as_numpy_dtype if dtype is not string else object)
    if not typed and dtype is not None and (array.dtype.kind, np.dtype(dtype.as_numpy_dtype).kind) in _LOSSES:
        raise TypeError(f"Cannot convert {value!r} to a tensor of dtype {dtype.name}")
    if dtype is string:
        raise TypeError(f"numbers ({array.dtype}) cannot become strings; convert them before")
    if dtype is None:
        if not typed and array.dtype.kind != "b" and isinstance(_first(value), (bool, np.bool_)):
            raise ValueError("Can't convert Python sequence with mixed types to Tensor.")  # numbers may come first
        if typed:
            kind = array.dtype
        elif array.dtype == np.float64:
            kind = np.dtype(np.float64 if _first_is_double(value) else np.float32)
        elif array.dtype == np.int64:
            fits = array.size == 0 or (array.min() >= -2**31 and array.max() < 2**31)
            kind = np.dtype(np.int32 if fits else np.int64)
        else:
            kind = array.dtype
        if not kind.isnative:  # bytes in the order of other machines
            kind = kind.newbyteorder("=")
        if kind not in _BY_NUMPY:
            raise TypeError(f"tensors have no dtype {kind}; use astype() with one of {', '.join(_BY_NAME)}")
        dtype = _BY_NUMPY[kind]
    # np.ascontiguousarray makes a vector of a scalar
    return np.asarray(array, dtype=dtype.as_numpy_dtype, order="C")


_LOSSES = {("f", "i"), ("f", "u"), ("f", "b"), ("i", "b"), ("c", "f"), ("c", "i"), ("c", "u")}


def _first(value: Any) -> Any:
    """What a list starts with, through the lists in it."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def _first_is_double(value: Any) -> bool:
    """Whether a list starts with numpy's float64, which is a float of Python too, or an array of them."""
    return getattr(_first(value), "dtype", None) == np.float64


def array_like(value: Any, like: Any) -> np.ndarray:
    """An operand of a tensor of the numpy dtype `like`: numbers and arrays take that dtype, if no fraction is lost."""
    if type(value) is int or type(value) is float:
        return number_like(value, like)
    array = as_array(value)
    if array.dtype == like:
        return array
    if (array.dtype.kind, np.dtype(like).kind) not in _FITS:
        shown = f"the number {value!r}" if array.ndim == 0 else f"an array of {as_dtype(array.dtype).name}"
        raise TypeError(f"{shown} cannot become {as_dtype(like).name}; cast the tensor first")
    return np.asarray(array, dtype=like, order="C")


def number_like(value: float, like: Any) -> np.ndarray:
    """The same for a number of Python."""
    like = np.dtype(like)
    if like.kind != "f":
        if like.kind not in "iu" or isinstance(value, float):
            raise TypeError(f"the number {value!r} cannot become {as_dtype(like).name}; cast the tensor first")
        limits = np.iinfo(like)
        if not limits.min <= value <= limits.max:
            raise OverflowError(f"the number {value!r} does not fit into {as_dtype(like).name}")
    return np.asarray(value, dtype=like)


_FITS = {("f", "f"), ("i", "f"), ("u", "f"), ("b", "f"), ("i", "i"), ("u", "i"), ("b", "i"), ("i", "u"), ("b", "u"),
         ("u", "u")}


def _string_array(array: np.ndarray, dtype: DType | None) -> np.ndarray:
    if dtype is not None and dtype is not string:
        raise TypeError(f"strings cannot become {dtype.name}; parse them before")
    out = np.empty(array.shape, dtype=object)
    flat, source = out.reshape(-1), array.reshape(-1)
    for i in range(flat.size):
        value = source[i]
        if isinstance(value, str):
            value = value.encode("utf-8")
        elif not isinstance(value, bytes):
            raise ValueError(f"an array of objects must hold str or bytes; element {i} is {type(value).__name__}")
        flat[i] = value
    return out


def to_tensor(value: Any, dtype: Any = None, copy: bool = True) -> Any:
    """A new est_tensor, owned by the result. Without `copy` it shares the memory of the array, if that has the right
    order and type, for as long as C needs it; the array must not change meanwhile."""
    array = as_array(value, dtype)
    out = ffi.new("est_tensor **")
    shape = c_shape(array.shape)
    if array.dtype == object:
        blob, items = _string_items(array)
        check(lib.est_tensor_create_from(string.number, shape, ffi.from_buffer(items), out))
        del blob
        return owned(out[0], "est_tensor_free", 32 * array.size)
    kind = _BY_NUMPY[array.dtype]
    if copy or array.size == 0:
        check(lib.est_tensor_create_from(kind.number, shape, ffi.cast("void *", array.ctypes.data), out))
        return owned(out[0], "est_tensor_free", array.nbytes)
    number = lend(array)
    status = lib.py_wrap(kind.number, shape, ffi.cast("void *", array.ctypes.data), number, out)
    if status != 0:
        take_back(number)
    check(status)
    return owned(out[0], "est_tensor_free", array.nbytes, borrows=True)


def _string_items(array: np.ndarray) -> tuple[Any, np.ndarray]:
    """An array of bytes objects as an array of est_str, and the bytes that it points to."""
    flat = array.reshape(-1).tolist()
    blob = b"".join(flat)
    sizes = np.fromiter(map(len, flat), np.uint64, len(flat))
    items = np.zeros((max(len(flat), 1), 2), np.uint64)
    items[1:len(flat), 0] = np.cumsum(sizes[:-1])
    items[:, 0] += int(ffi.cast("uintptr_t", ffi.from_buffer(blob)))
    items[:len(flat), 1] = sizes
    return blob, items


# --- the library to numpy ---------------------------------------------------------------------------------------------


class _Memory:
    """What numpy reads an array from: the memory of an est_tensor, which lives as long as the array."""

    __slots__ = ("tensor", "__array_interface__")

    def __init__(self, tensor: Any, data: Any, dtype: np.dtype, shape: tuple[int, ...], writable: bool):
        self.tensor = tensor
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str,
                                    "data": (int(ffi.cast("uintptr_t", data)), not writable)}


def to_array(tensor: Any, copy: bool = False, writable: bool = False) -> Any:
    """The values of an est_tensor that the argument owns: a read-only view of its memory, or a copy. `writable` is for a
    tensor that nothing else refers to. Strings are always copied, into an array of bytes objects."""
    dtype = _BY_NUMBER[int(lib.est_tensor_dtype(tensor))]
    shape = py_shape(lib.est_tensor_shape(tensor))
    data = lib.est_tensor_data(tensor)
    if dtype is string:
        return _bytes_array(data, shape)
    kind = np.dtype(dtype.as_numpy_dtype)
    if 0 in shape:
        return np.empty(shape, kind)
    array = np.asarray(_Memory(tensor, data, kind, shape, writable))
    return array.copy() if copy else array


def _bytes_array(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    items, flat = ffi.cast("est_str *", data), out.reshape(-1)
    for i in range(flat.size):
        flat[i] = bytes(ffi.buffer(items[i].data, items[i].size)) if items[i].size > 0 else b""
    return out


def borrowed_array(tensor: Any) -> Any:
    """The values of an est_tensor of somebody else, who may free it: with a reference of our own."""
    return to_array(owned(lib.est_tensor_ref(tensor), "est_tensor_free"))


def copy_values(dtype: int, shape: Any, data: Any) -> Any:
    """A copy of values that are borrowed until the next run."""
    kind, shape = _BY_NUMBER[int(dtype)], py_shape(shape)
    if kind is string:
        return _bytes_array(data, shape)
    out = np.empty(shape, dtype=kind.as_numpy_dtype)
    if out.size > 0:
        ffi.memmove(ffi.cast("void *", out.ctypes.data), data, out.nbytes)
    return out


def take_tensor(pointer: Any) -> Any:
    """Owns a new tensor that C handed out."""
    size = lib.est_tensor_bytes(pointer)
    return owned(pointer, "est_tensor_free", size)
