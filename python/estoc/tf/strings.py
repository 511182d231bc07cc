# SPDX-License-Identifier: Apache-2.0
"""tf.strings"""
from __future__ import annotations

import re as _re
from typing import Any as _Any
from typing import Callable as _Callable
from typing import Sequence as _Sequence

import numpy as _np

from .. import ops as _ops
from .._tensor import as_array as _as_array
from ..graph import NeedsValue as _NeedsValue
from ..graph import Node as _Node
from ..io import RaggedArray as _RaggedArray
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap

as_string = _eager(_ops.as_string)
to_hash_bucket_fast = _eager(_ops.string_to_hash_bucket, "to_hash_bucket_fast")


def _texts(value: _Any, what: str) -> _np.ndarray:
    """An array of bytes. Graphs have no functions of text: in Dataset.map the function is called for each element."""
    if isinstance(value, _Node):
        raise _NeedsValue(f"tf.strings.{what} works on values")
    array = _np.asarray(_as_array(_unwrap(value)))
    found = _np.empty(array.shape, dtype=object)
    found[...] = array
    return found


def _each(value: _Any, what: str, function: _Callable) -> _Tensor:
    texts = _texts(value, what)
    made = _np.empty(texts.shape, dtype=object)
    for at in _np.ndindex(*texts.shape):
        text = texts[at]
        made[at] = function(text if isinstance(text, bytes) else str(text).encode())
    return _Tensor(made)


def lower(input: _Any, encoding: str = "", name: str | None = None) -> _Tensor:  # noqa: A002
    """Lower case: of ASCII, or with encoding "utf-8" of all letters."""
    return _each(input, "lower", lambda text: text.decode().lower().encode() if encoding else text.lower())


def upper(input: _Any, encoding: str = "", name: str | None = None) -> _Tensor:  # noqa: A002
    """Upper case: of ASCII, or with encoding "utf-8" of all letters."""
    return _each(input, "upper", lambda text: text.decode().upper().encode() if encoding else text.upper())


def strip(input: _Any, name: str | None = None) -> _Tensor:  # noqa: A002
    """Without white space at both ends."""
    return _each(input, "strip", bytes.strip)


def regex_replace(input: _Any, pattern: str, rewrite: str, replace_global: bool = True,  # noqa: A002
                  name: str | None = None) -> _Tensor:
    """What matches the pattern, in the syntax of Python's re, replaced."""
    compiled, new = _re.compile(_as_bytes(pattern)), _as_bytes(rewrite)
    return _each(input, "regex_replace", lambda text: compiled.sub(new, text, 0 if replace_global else 1))


def length(input: _Any, unit: str = "BYTE", name: str | None = None) -> _Tensor:  # noqa: A002
    """Bytes, or characters with unit "UTF8_CHAR"."""
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"unit is \"BYTE\" or \"UTF8_CHAR\", not {unit!r}")
    texts = _each(input, "length", bytes)._value
    sizes = [len(text if unit == "BYTE" else text.decode()) for text in texts.reshape(-1)]
    return _Tensor(_np.int32(sizes).reshape(texts.shape))


def join(inputs: _Sequence, separator: str = "", name: str | None = None) -> _Tensor:
    """The texts of several tensors, one after the other."""
    parts = _np.broadcast_arrays(*(_each(part, "join", bytes)._value for part in inputs))
    made = _np.empty(parts[0].shape, dtype=object)
    for at in _np.ndindex(*made.shape):
        made[at] = _as_bytes(separator).join(part[at] for part in parts)
    return _Tensor(made)


def split(input: _Any, sep: str | None = None, maxsplit: int = -1, name: str | None = None) -> _Any:  # noqa: A002
    """The words of a text; of several texts rows of unequal length."""
    texts = _texts(input, "split")
    rows = [(text if isinstance(text, bytes) else str(text).encode()).split(_as_bytes(sep) if sep else None, maxsplit)
            for text in texts.reshape(-1)]
    flat = _np.empty(sum(map(len, rows)), dtype=object)
    flat[:] = [word for row in rows for word in row]
    if texts.ndim == 0:
        return _Tensor(flat)
    if texts.ndim > 1:
        raise NotImplementedError("tf.strings.split: a text, or a vector of texts")
    return _RaggedArray(flat, _np.cumsum([0] + [len(row) for row in rows]))


def _as_bytes(value: _Any) -> bytes:
    value = _unwrap(value)
    value = value.item() if isinstance(value, _np.ndarray) else value
    return value if isinstance(value, bytes) else str(value).encode()


__getattr__ = _module_getattr(__name__)
