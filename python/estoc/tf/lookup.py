# SPDX-License-Identifier: Apache-2.0
"""tf.lookup: tables from keys to values. Those that do not change are a part of graphs; those that do belong to the
program, and a function that reads them is run as Python."""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from .. import ops as _ops
from .._lib import Keep as _Keep
from .._lib import lib as _lib
from .._tensor import as_array as _as_array
from .._tensor import as_dtype as _as_dtype
from .._tensor import int64 as _int64
from .._tensor import string as _string
from .._tensor import to_tensor as _to_tensor
from ..errors import FailedPreconditionError as _FailedPreconditionError
from ..errors import InvalidArgumentError as _InvalidArgumentError
from ..errors import NotFoundError as _NotFoundError
from ..errors import OutOfRangeError as _OutOfRangeError
from ..graph import NeedsValue as _NeedsValue
from ..graph import Node as _Node
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._ragged import RaggedTensor as _RaggedTensor
from ._sparse import SparseTensor as _SparseTensor

_gather, _cast = _eager(_ops.gather), _eager(_ops.cast)


class TextFileIndex:
    """Which part of a line a TextFileInitializer takes, beside the number of a column."""

    WHOLE_LINE, LINE_NUMBER = -2, -1


class KeyValueTensorInitializer:
    """Keys and values that are given."""

    def __init__(self, keys: _Any, values: _Any, key_dtype: _Any = None, value_dtype: _Any = None, name: str | None = None):
        self._keys = _as_array(_unwrap(keys), key_dtype).reshape(-1)
        self._values = _as_array(_unwrap(values), value_dtype)
        self.name = name

    key_dtype = property(lambda self: _as_dtype(self._keys.dtype))
    value_dtype = property(lambda self: _as_dtype(self._values.dtype))

    def _pairs(self) -> tuple[_np.ndarray, _np.ndarray]:
        if self._values.shape != self._keys.shape:
            raise _InvalidArgumentError(f"Expected shape {list(self._keys.shape)} for value, got {list(self._values.shape)}")
        return self._keys, self._values


class TextFileInitializer:
    """Keys and values that are columns of the lines of a file, whole lines, or the numbers of lines."""

    def __init__(self, filename: _Any, key_dtype: _Any, key_index: int, value_dtype: _Any, value_index: int,
                 vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None,
                 value_index_offset: int = 0):
        for dtype, index, what in ((key_dtype, key_index, "key"), (value_dtype, value_index, "value")):
            kind = _as_dtype(dtype)
            if index < -2:
                raise ValueError(f"Invalid {what} index {index}.")
            if index == TextFileIndex.LINE_NUMBER and kind != _int64:
                raise ValueError(f"`{what}_dtype` must be `tf.int64` if `{what}_index` is {index}, received: {kind}")
            if index == TextFileIndex.WHOLE_LINE and kind != _string:
                raise ValueError(f"`{what}_dtype` must be `tf.string` for whole lines, received: {kind}")
        self._path = _np.asarray(_unwrap(filename)).item()
        self.key_dtype, self.value_dtype = _as_dtype(key_dtype), _as_dtype(value_dtype)
        self._indices, self._delimiter = (int(key_index), int(value_index)), delimiter.encode()
        self._size, self._offset, self.name = vocab_size, int(value_index_offset), name

    def _pairs(self) -> tuple[_np.ndarray, _np.ndarray]:
        try:
            with open(self._path, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            raise _NotFoundError(f"{self._name()}: no such file") from None
        lines = lines[:-1] if lines[-1] == b"" else lines
        self._refuse_empty(lines)
        lines = [line.removesuffix(b"\r") for line in lines]
        if self._size is None and not lines:
            raise _OutOfRangeError(f"{self._name()} is empty; a table needs a line")
        if self._size is not None:
            if len(lines) < self._size:
                raise _InvalidArgumentError(f"the file has {len(lines)} lines, vocab_size is {self._size}")
            lines = lines[:self._size]
        return self._column(lines, 0, 0), self._column(lines, 1, self._offset)

    def _name(self) -> str:
        return self._path.decode() if isinstance(self._path, bytes) else self._path

    def _refuse_empty(self, lines: list) -> None:
        """Raises for an empty line among those that are read, as TensorFlow does."""
        position = 0
        for line in lines[:self._size]:
            position += len(line) + 1
            if line in (b"", b"\r"):
                raise _InvalidArgumentError(f"Invalid content in {self._name()}: empty line found at position {position}.")

    def _column(self, lines: list, which: int, offset: int) -> _np.ndarray:
        index, kind = self._indices[which], (self.key_dtype, self.value_dtype)[which]
        if index == TextFileIndex.LINE_NUMBER:
            return _np.arange(len(lines), dtype=_np.int64) + offset
        if index == TextFileIndex.WHOLE_LINE:
            return _as_array(lines, _string) if lines else _np.empty(0, object)
        parts = []
        for number, line in enumerate(lines):
            fields = line.split(self._delimiter)
            if index >= len(fields):
                raise _InvalidArgumentError(f"line {number} has {len(fields)} columns, number {index} was asked for")
            parts.append(fields[index])
        return _as_array(parts, _string) if kind == _string else _np.array(parts, kind.as_numpy_dtype)


@_eager
def _place(keys: "Tensor", table: _Any, buckets: int) -> _Any:  # noqa: F821
    """Where each key is among those of a table; behind them, by its hash or not, what is not there."""
    keep = _Keep()
    count = len(table._found)
    tensor = _to_tensor(table._found if count else _np.array([b"\0"], object))
    keep.append(tensor)
    node = _lib.est_vocabulary_list(keys.graph._c, tensor, keep.options(
        "est_table_options", num_oov_buckets=buckets, default_id=0 if buckets else count, has_default=not buckets))
    return keys.graph.node(_lib.est_lookup(node, keys._c))


class _Table:
    """What tables have in common."""

    key_dtype: _Any = None
    value_dtype: _Any = None

    def _keys_of(self, keys: _Any) -> _Any:
        if not hasattr(keys, "dtype"):
            raise AttributeError(f"keys are a tensor; {type(keys).__name__} has no dtype")
        if _as_dtype(keys.dtype) != self.key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self.key_dtype.name}, received: {keys.dtype}")
        return keys if isinstance(keys, (_Node, _Tensor)) else _Tensor(keys)

    def lookup(self, keys: _Any, name: str | None = None) -> _Any:
        """The value of each key; of ragged and sparse tensors at the same places."""
        if isinstance(keys, _RaggedTensor):
            return keys.with_flat_values(self.lookup(keys.flat_values))
        if isinstance(keys, _SparseTensor):
            return keys.with_values(self.lookup(keys.values))
        return self._look_up(self._keys_of(keys))

    def _look_up(self, keys: _Any) -> _Any:
        raise NotImplementedError

    def __getitem__(self, keys: _Any) -> _Any:
        return self.lookup(keys)


class StaticHashTable(_Table):
    """A table that never changes; what is not in it has a default value."""

    def __init__(self, initializer: _Any, default_value: _Any, name: str | None = None,
                 experimental_is_anonymous: bool = False):
        found, values = initializer._pairs()
        self.key_dtype, self.value_dtype, self.name = initializer.key_dtype, initializer.value_dtype, name
        if self.key_dtype.is_floating or self.key_dtype.is_bool:
            raise TypeError(f"keys of a table are strings or integers, not {self.key_dtype.name}")
        default = _as_array(_unwrap(default_value), self.value_dtype)
        if default.shape != ():
            raise ValueError("the default value of a table is a scalar")
        self._default = default
        self._found, self._values = _without_doubles(found, values)

    default_value = property(lambda self: _Tensor(self._default))

    def _look_up(self, keys: _Any) -> _Any:
        index = _place(keys if self.key_dtype in (_string, _int64) else _cast(keys, _int64), self, 0)
        last = _np.empty(1, self._values.dtype)
        last[0] = self._default[()]
        values = _np.concatenate([self._values, last]) if len(self._found) else _np.concatenate([last, last])
        return _gather(_Tensor(values), index)

    def size(self, name: str | None = None) -> _Tensor:
        """How many keys there are."""
        return _Tensor(_np.int64(len(self._found)))

    def export(self, name: str | None = None) -> tuple:
        """The keys and their values."""
        return _Tensor(self._found.astype(self.key_dtype.as_numpy_dtype)), _Tensor(self._values)


def _without_doubles(keys: _np.ndarray, values: _np.ndarray) -> tuple[_np.ndarray, _np.ndarray]:
    """Every key once: a table of graphs has no doubles."""
    found: dict = {}
    for key, value in zip(keys.tolist(), values.tolist()):
        if found.setdefault(key, value) != value:
            raise _FailedPreconditionError(f"HashTable has different value for same key. Key {key} has {found[key]} and "
                                           f"trying to add value {value}")
    if len(found) < len(keys):
        _, first = _np.unique(keys, return_index=True)
        keys, values = keys[_np.sort(first)], values[_np.sort(first)]
    return keys if keys.dtype == object else keys.astype(_np.int64), values


class StaticVocabularyTable(_Table):
    """Numbers of texts or integers; what is not in the vocabulary has one behind them, by its hash."""

    def __init__(self, initializer: _Any, num_oov_buckets: int, lookup_key_dtype: _Any = None, name: str | None = None,
                 experimental_is_anonymous: bool = False):
        if num_oov_buckets <= 0:
            raise ValueError("`num_oov_buckets` must be > 0; use StaticHashTable.")
        if initializer is None:
            if lookup_key_dtype is not None and _as_dtype(lookup_key_dtype) != _string:
                raise TypeError("a table without a vocabulary has keys of tf.string: tf.as_string makes them of integers")
            initializer = KeyValueTensorInitializer(_np.empty(0, object), _np.zeros(0, _np.int64))
        if initializer.value_dtype != _int64:
            raise TypeError(f"Invalid `value_dtype`, expected {_int64} but got {initializer.value_dtype}.")
        if initializer.key_dtype not in (_string, _int64):
            raise TypeError(f"Invalid `key_dtype`, expected string or integer but got {initializer.key_dtype}")
        self.key_dtype, self.value_dtype, self.name = initializer.key_dtype, _int64, name
        self._found, self._values = _without_doubles(*initializer._pairs())
        self._buckets = int(num_oov_buckets)

    def _look_up(self, keys: _Any) -> _Any:
        count = len(self._found)
        if not count:
            return _eager(_ops.string_to_hash_bucket, "to_hash_bucket_fast")(keys, self._buckets)
        index = _place(keys, self, self._buckets)
        if _np.array_equal(self._values, _np.arange(count)):
            return index
        return _gather(_Tensor(_np.concatenate([self._values, count + _np.arange(self._buckets)])), index)

    def size(self, name: str | None = None) -> _Tensor:
        """How many numbers there are."""
        return _Tensor(_np.int64(len(self._found) + self._buckets))


class _Changing(_Table):
    """A table that the program changes."""

    def __init__(self, key_dtype: _Any, value_dtype: _Any, default_value: _Any, name: str):
        self.key_dtype, self.value_dtype, self.name = _as_dtype(key_dtype), _as_dtype(value_dtype), name
        self._default = _as_array(_unwrap(default_value), self.value_dtype)
        self._items: dict = {}

    def _known(self, value: _Any, dtype: _Any, what: str) -> _np.ndarray:
        value = _unwrap(value)
        if isinstance(value, _Node):
            raise _NeedsValue("a table that changes works on values")
        array = _as_array(value) if hasattr(value, "dtype") else _as_array(value, dtype)
        if _as_dtype(array.dtype) != dtype:
            raise ValueError(f"{what}: Tensor conversion requested dtype {dtype.name} for Tensor with dtype "
                             f"{_as_dtype(array.dtype).name}")
        return array

    def insert(self, keys: _Any, values: _Any, name: str | None = None) -> None:
        """The values of keys, which may be there already."""
        found = self._known(keys, self.key_dtype, "keys")
        given = self._known(values, self.value_dtype, "values")
        if given.shape != found.shape + self._default.shape:
            raise _InvalidArgumentError(f"Expected shape {list(found.shape + self._default.shape)} for value, got "
                                        f"{list(given.shape)}")
        self._check(found)
        rows = given.reshape((found.size, *self._default.shape))
        self._items.update({key: row for key, row in zip(found.reshape(-1).tolist(), rows)})

    def _check(self, keys: _np.ndarray) -> None:
        """Refuses keys that stand for something else."""

    def _look_up(self, keys: _Any, default: _Any = None) -> _Any:
        found = self._known(keys, self.key_dtype, "keys")
        missing = self._default if default is None else self._known(default, self.value_dtype, "default")
        each = _np.broadcast_to(missing, found.shape + self._default.shape).reshape((found.size, *self._default.shape))
        made = _np.empty(each.shape, self._default.dtype)
        for i, key in enumerate(found.reshape(-1).tolist()):
            made[i] = self._items.get(key, each[i])
        return _Tensor(made.reshape(found.shape + self._default.shape))

    def _remove(self, keys: _Any) -> None:
        for key in self._known(keys, self.key_dtype, "keys").reshape(-1).tolist():
            self._items.pop(key, None)

    def size(self, name: str | None = None) -> _Tensor:
        """How many keys there are."""
        return _Tensor(_np.int64(len(self._items)))


class _MutableHashTable(_Changing):
    """A table that insert and remove change."""

    def __init__(self, key_dtype: _Any, value_dtype: _Any, default_value: _Any, name: str = "MutableHashTable",
                 checkpoint: bool = True, experimental_is_anonymous: bool = False):
        super().__init__(key_dtype, value_dtype, default_value, name)

    def lookup(self, keys: _Any, dynamic_default_values: _Any = None, name: str | None = None) -> _Any:
        """The value of each key; of one that is not there the default, or its own of dynamic_default_values."""
        if isinstance(keys, (_RaggedTensor, _SparseTensor)):
            return super().lookup(keys)
        keys = keys if hasattr(keys, "dtype") else _Tensor(self._known(keys, self.key_dtype, "keys"))
        return self._look_up(self._keys_of(keys), dynamic_default_values)

    def remove(self, keys: _Any, name: str | None = None) -> None:
        """Takes keys out, if they are there."""
        self._remove(keys)

    def export(self, name: str | None = None) -> tuple:
        """The keys and their values."""
        keys = list(self._items)
        values = _np.array([self._items[key] for key in keys], self._default.dtype) if keys else _np.empty(
            (0, *self._default.shape), self._default.dtype)
        return _Tensor(_as_array(keys, self.key_dtype) if keys else _np.empty(0, self.key_dtype.as_numpy_dtype)), _Tensor(
            values)


class _DenseHashTable(_Changing):
    """A table that insert and erase change; two keys stand for what is empty and what was erased."""

    def __init__(self, key_dtype: _Any, value_dtype: _Any, default_value: _Any, empty_key: _Any, deleted_key: _Any,
                 initial_num_buckets: int | None = None, name: str = "MutableDenseHashTable", checkpoint: bool = True,
                 experimental_is_anonymous: bool = False):
        super().__init__(key_dtype, value_dtype, default_value, name)
        self._special = {what: _as_array(_unwrap(key), self.key_dtype).item() for what, key in (
            ("empty_key", empty_key), ("deleted_key", deleted_key))}
        if self._special["empty_key"] == self._special["deleted_key"]:
            raise _InvalidArgumentError("Empty and deleted keys cannot be equal")

    def _check(self, keys: _np.ndarray) -> None:
        for what, key in self._special.items():
            if key in keys.reshape(-1).tolist():
                raise _InvalidArgumentError(f"Using the {what} as a table key is not allowed")

    insert_or_assign = _Changing.insert

    def erase(self, keys: _Any, name: str | None = None) -> None:
        """Takes keys out, if they are there."""
        self._check(self._known(keys, self.key_dtype, "keys"))
        self._remove(keys)

    def export(self, name: str | None = None) -> tuple:
        """TensorFlow gives all buckets, also empty ones."""
        raise NotImplementedError("DenseHashTable.export does not exist: its buckets are TensorFlow's; MutableHashTable has "
                                  "export, and lookup gives the values of keys")


class experimental:  # noqa: N801 - a module in TensorFlow
    """tf.lookup.experimental"""

    MutableHashTable, DenseHashTable = _MutableHashTable, _DenseHashTable


_MutableHashTable.__name__, _DenseHashTable.__name__ = "MutableHashTable", "DenseHashTable"
__getattr__ = _module_getattr(__name__)
