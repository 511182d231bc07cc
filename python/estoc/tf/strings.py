# SPDX-License-Identifier: Apache-2.0
"""tf.strings"""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable
from typing import Sequence as _Sequence

import numpy as _np

from .. import ops as _ops
from .._tensor import as_array as _as_array
from ..errors import InvalidArgumentError as _InvalidArgumentError
from ..errors import OutOfRangeError as _OutOfRangeError
from ..graph import NeedsValue as _NeedsValue
from ..graph import Node as _Node
from . import _regex
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._ragged import RaggedTensor as _RaggedTensor
from ._ragged_constant import constant as _ragged_constant

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


def _each(value: _Any, what: str, function: _Callable) -> _Any:
    if isinstance(value, _RaggedTensor):
        return value.with_flat_values(_each(value.flat_values, what, function))
    texts = _texts(value, what)
    made = _np.empty(texts.shape, dtype=object)
    for at in _np.ndindex(*texts.shape):
        text = texts[at]
        made[at] = function(text if isinstance(text, bytes) else str(text).encode())
    return _Tensor(made)


_lower, _upper = _eager(_ops.string_lower, "string_lower"), _eager(_ops.string_upper, "string_upper")
_length, _substr = _eager(_ops.string_length, "string_length"), _eager(_ops.substr, "string_substr")
_join, _split = _eager(_ops.string_join, "string_join"), _eager(_ops.words, "string_words")
strip = _eager(_ops.string_strip, "strip")
to_number = _eager(_ops.string_to_number, "to_number")


def lower(input: _Any, encoding: str = "", name: str | None = None) -> _Any:  # noqa: A002
    """Lower case: of ASCII, or with encoding "utf-8" of all letters."""
    return _each(input, "lower", lambda text: text.decode("utf-8", "replace").lower().encode()) if _is_utf8(
        encoding) else _lower(input)


def _is_utf8(encoding: str) -> bool:
    if encoding not in ("", "utf-8"):
        raise _InvalidArgumentError(f"only utf-8 or '' (no encoding) is supported, received {encoding}")
    return encoding == "utf-8"


def upper(input: _Any, encoding: str = "", name: str | None = None) -> _Any:  # noqa: A002
    """Upper case: of ASCII, or with encoding "utf-8" of all letters."""
    return _each(input, "upper", lambda text: text.decode("utf-8", "replace").upper().encode()) if _is_utf8(
        encoding) else _upper(input)


def regex_replace(input: _Any, pattern: str, rewrite: str, replace_global: bool = True,  # noqa: A002
                  name: str | None = None) -> _Tensor:
    """What matches the pattern, in the syntax of RE2, replaced. In the rewrite \\0 is the match, and \\1 a group."""
    wanted, new = _as_bytes(pattern), _as_bytes(rewrite)
    return _each(input, "regex_replace", lambda text: _regex.replace(wanted, new, text, replace_global))


def regex_full_match(input: _Any, pattern: str, name: str | None = None) -> _Any:  # noqa: A002
    """Whether the whole text matches the pattern, in the syntax of RE2."""
    wanted = _as_bytes(pattern)
    if isinstance(input, _RaggedTensor):
        return input.with_flat_values(regex_full_match(input.flat_values, pattern))
    texts = _each(input, "regex_full_match", bytes)._value
    found = [_regex.full_match(wanted, text) for text in texts.reshape(-1)]
    return _Tensor(_np.array(found, bool).reshape(texts.shape))


def _characters(unit: str) -> bool:
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"unit is \"BYTE\" or \"UTF8_CHAR\", not {unit!r}")
    return unit == "UTF8_CHAR"


def length(input: _Any, unit: str = "BYTE", name: str | None = None) -> _Any:  # noqa: A002
    """Bytes, or characters with unit "UTF8_CHAR"."""
    return _length(input, _characters(unit))


def substr(input: _Any, pos: _Any, len: _Any, unit: str = "BYTE", name: str | None = None) -> _Any:  # noqa: A002
    """Parts of texts; a place below 0 counts from the end."""
    if isinstance(input, _RaggedTensor):
        return input.with_flat_values(substr(input.flat_values, pos, len, unit))
    if not any(isinstance(item, _Node) for item in (input, pos, len)):
        if _np.shape(_unwrap(pos)) != _np.shape(_unwrap(len)):
            raise _InvalidArgumentError(f"pos and len should have the same shape, got: {_np.shape(_unwrap(pos))} vs. "
                                        f"{_np.shape(_unwrap(len))}")
        texts, *numbers = _np.broadcast_arrays(_texts(input, "substr"), _as_array(_unwrap(pos)), _as_array(_unwrap(len)))
        return _substr(_Tensor(texts), *map(_Tensor, numbers), _characters(unit))
    return _substr(input, pos, len, _characters(unit))


def join(inputs: _Sequence, separator: str = "", name: str | None = None) -> _Any:
    """The texts of several tensors, one after the other."""
    if not inputs:
        return _Tensor(b"")
    return _join(list(inputs), _as_bytes(separator).decode())


def reduce_join(inputs: _Any, axis: _Any = None, keepdims: bool = False, separator: str = "",
                name: str | None = None) -> _Tensor:
    """The texts along axes, or all, one after the other."""
    if isinstance(inputs, _RaggedTensor):
        return _join_rows(inputs, axis, keepdims, _as_bytes(separator))
    texts, between = _each(inputs, "reduce_join", bytes)._value, _as_bytes(separator)
    given = [] if axis is None else [int(i) for i in _np.reshape(_unwrap(axis), -1)]
    wrong = [i for i in given if not -texts.ndim <= i < texts.ndim]
    if wrong:
        raise _OutOfRangeError(f"Invalid reduction dimension {wrong[0]} for input with {texts.ndim} dimension(s)")
    axes = list(range(texts.ndim - 1, -1, -1)) if axis is None else [i % texts.ndim for i in given]
    rest = [i for i in range(texts.ndim) if i not in axes]
    moved = texts.transpose(rest + axes[::-1])
    flat = moved.reshape([texts.shape[i] for i in rest] + [int(_np.prod([texts.shape[i] for i in axes]))])
    made = _np.empty(flat.shape[:-1], dtype=object)
    for at in _np.ndindex(*made.shape):
        made[at] = between.join(flat[at])
    return _Tensor(made.reshape([1 if i in axes else texts.shape[i] for i in range(texts.ndim)]) if keepdims else made)


def _join_rows(value: _Any, axis: _Any, keepdims: bool, separator: bytes) -> _Any:
    """Those of each row of the innermost axis."""
    if keepdims or axis is None or int(_unwrap(axis)) not in (-1, len(value.shape) - 1):
        raise NotImplementedError("tf.strings.reduce_join of a ragged tensor: along its last axis, without keepdims")
    if isinstance(value.values, _RaggedTensor):
        return value.with_values(_join_rows(value.values, -1, False, separator))
    made = _np.empty(value._rows(), object)
    for i, row in enumerate(value.to_list()):
        made[i] = separator.join(row)
    return _Tensor(made)


def split(input: _Any, sep: str | None = None, maxsplit: int = -1, name: str | None = None) -> _Any:  # noqa: A002
    """The words of a text; of several texts rows of unequal length."""
    if int(maxsplit) == 0:
        return _words_of(input, split=None)
    return _words_of(input, separator=_as_bytes(sep or ""), splits_max=max(int(maxsplit), 0))


def bytes_split(input: _Any, name: str | None = None) -> _Any:  # noqa: A002
    """The bytes of texts."""
    return _words_of(input, split="byte")


def unicode_split(input: _Any, input_encoding: str = "UTF-8", errors: str = "replace", replacement_char: int = 65533,
                  name: str | None = None) -> _Any:  # noqa: A002
    """The characters of texts in UTF-8."""
    _utf8(input_encoding, errors, replacement_char)
    return _words_of(input, split="character")


def _utf8(encoding: str, errors: str, replacement: int) -> None:
    if encoding != "UTF-8" or errors != "replace" or replacement != 65533:
        raise NotImplementedError("texts are UTF-8; errors and replacement_char do not exist yet")


def unicode_decode(input: _Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533,
                   replace_control_characters: bool = False, name: str | None = None) -> _Any:  # noqa: A002
    """The numbers of the characters of texts in UTF-8."""
    _utf8(input_encoding, errors, replacement_char)
    if replace_control_characters:
        raise NotImplementedError("unicode_decode: replace_control_characters does not exist yet")
    if isinstance(input, _RaggedTensor):
        return input.with_values(unicode_decode(input.values, input_encoding))
    texts = _each(input, "unicode_decode", bytes)._value
    rows = [[ord(character) for character in text.decode("utf-8", "replace")] for text in texts.reshape(-1)]
    flat = _np.array([number for row in rows for number in row], _np.int32)
    if texts.ndim == 0:
        return _Tensor(flat)
    return _rows_of(_Tensor(flat), _Tensor(_np.cumsum([0] + [len(row) for row in rows])), texts.shape)


_ENCODINGS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


#: Names that texts to transcode may have besides.
_GIVEN = {"UTF8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le", "UTF-32BE": "utf-32-be", "ISO-8859-1": "latin-1"}


def _codec(encoding: str, given: bool = False) -> str:
    if given and encoding.upper() in _GIVEN:
        return _GIVEN[encoding.upper()]
    if encoding not in _ENCODINGS:
        raise ValueError(f"encodings are {', '.join(_ENCODINGS)}; {encoding!r} does not exist here")
    return _ENCODINGS[encoding]


def unicode_encode(input: _Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,  # noqa: A002
                   name: str | None = None) -> _Any:
    """Texts of the numbers of their characters, along the last axis."""
    _utf8("UTF-8", errors, replacement_char)
    codec = _codec(output_encoding)

    def text(numbers: _Any) -> bytes:
        return "".join(chr(number) if 0 <= number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
                       for number in numbers).encode(codec)

    if isinstance(input, _RaggedTensor) and isinstance(input.values, _RaggedTensor):
        return input.with_values(unicode_encode(input.values, output_encoding))
    if isinstance(input, _RaggedTensor):
        rows, shape = input.to_list(), (input._rows(),)
    else:
        value = _unwrap(input)
        if isinstance(value, _Node):
            raise _NeedsValue("tf.strings.unicode_encode works on values")
        array = _np.asarray(_as_array(value))
        rows, shape = array.reshape(-1, array.shape[-1]).tolist() if array.ndim > 1 else [array.tolist()], array.shape[:-1]
    made = _np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        made[i] = text(row)
    return _Tensor(made.reshape(shape))


def unicode_transcode(input: _Any, input_encoding: str, output_encoding: str, errors: str = "replace",  # noqa: A002
                      replacement_char: int = 65533, replace_control_characters: bool = False,
                      name: str | None = None) -> _Any:
    """Texts in another encoding."""
    _utf8("UTF-8", errors, replacement_char)
    if replace_control_characters:
        raise NotImplementedError("unicode_transcode: replace_control_characters does not exist yet")
    given, wanted = _codec(input_encoding, True), _codec(output_encoding)
    return _each(input, "unicode_transcode", lambda text: text.decode(given, "replace").encode(wanted))


def _offsets(input: _Any, what: str) -> _Any:  # noqa: A002
    """Where each character of texts in UTF-8 begins, in bytes."""
    if isinstance(input, _RaggedTensor):
        return input.with_values(_offsets(input.values, what))
    texts = _each(input, what, bytes)._value
    rows = []
    for text in texts.reshape(-1):
        try:
            sizes = [len(character.encode()) for character in text.decode("utf-8")]
        except UnicodeDecodeError as error:
            raise NotImplementedError(f"tf.strings.{what} of a text that is not UTF-8 ({error})") from None
        rows.append(_np.cumsum([0] + sizes)[:-1].astype(_np.int64))
    flat = _np.concatenate(rows) if rows else _np.zeros(0, _np.int64)
    if texts.ndim == 0:
        return _Tensor(flat)
    return _rows_of(_Tensor(flat), _Tensor(_np.cumsum([0] + [len(row) for row in rows])), texts.shape)


def unicode_decode_with_offsets(input: _Any, input_encoding: str, errors: str = "replace",  # noqa: A002
                                replacement_char: int = 65533, replace_control_characters: bool = False,
                                name: str | None = None) -> tuple:
    """The numbers of the characters of texts in UTF-8, and where each begins."""
    return (unicode_decode(input, input_encoding, errors, replacement_char, replace_control_characters),
            _offsets(input, "unicode_decode_with_offsets"))


def unicode_split_with_offsets(input: _Any, input_encoding: str, errors: str = "replace",  # noqa: A002
                               replacement_char: int = 65533, name: str | None = None) -> tuple:
    """The characters of texts in UTF-8, and where each begins."""
    return (unicode_split(input, input_encoding, errors, replacement_char), _offsets(input, "unicode_split_with_offsets"))


def ngrams(data: _Any, ngram_width: _Any, separator: str = " ", pad_values: _Any = None, padding_width: int | None = None,
           preserve_short_sequences: bool = False, name: str | None = None) -> _Any:
    """All rows of so many texts along the last axis, joined; with pad_values beyond the ends."""
    widths = [int(width) for width in _np.reshape(_unwrap(ngram_width), -1)]
    if any(width < 1 for width in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Received: ngram_width={ngram_width}")
    pads = None if pad_values is None else [_as_bytes(item) for item in (
        pad_values if isinstance(pad_values, (tuple, list)) else (pad_values, pad_values))]
    if pads is not None and len(pads) != 2:
        raise TypeError(f"pad_values is a text, or a pair of texts, not {pad_values!r}")
    between, pad = _as_bytes(separator), _padding_of(pads, padding_width, max(widths))

    def of_row(row: list) -> list:
        found = []
        for width in widths:
            extra = min(pad, width - 1) if pads is not None else 0
            texts = [pads[0]] * extra + row + [pads[1]] * extra if extra else row
            made = [between.join(texts[i:i + width]) for i in range(len(texts) - width + 1)]
            found += made
        if not found and preserve_short_sequences and row:
            found = [between.join(row)]
        return found

    if isinstance(data, _RaggedTensor) and isinstance(data.values, _RaggedTensor):
        return data.with_values(ngrams(data.values, ngram_width, separator, pad_values, padding_width,
                                       preserve_short_sequences))
    if isinstance(data, _RaggedTensor):
        return _ragged_constant([of_row(row) for row in data.to_list()], "string", ragged_rank=1)
    texts = _texts(data, "ngrams")
    if texts.ndim == 0:
        raise ValueError("ngrams takes texts along an axis, not one text")
    rows = [of_row(row) for row in texts.reshape(-1, texts.shape[-1]).tolist()]
    width = len(rows[0]) if rows else 0
    made = _np.empty((len(rows), width), object)
    for i, row in enumerate(rows):
        made[i, :] = row
    return _Tensor(made.reshape(texts.shape[:-1] + (width,)))


def _padding_of(pads: _Any, padding_width: int | None, widest: int) -> int:
    if padding_width is None:
        return widest - 1 if pads is not None else 0
    if pads is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    if padding_width < 1:
        raise ValueError(f"padding_width must be greater than 0. Received: padding_width={padding_width}")
    return int(padding_width)


def _words_of(value: _Any, **how: _Any) -> _Any:
    if isinstance(value, _RaggedTensor):
        return value.with_values(_words_of(value.values, **how))
    if not isinstance(value, _Node):
        value = _Tensor(_texts(value, "split"))
    shape = value.shape
    words, splits = _split(_flat(value, [-1]), **how)
    return words if shape is not None and len(shape) == 0 else _rows_of(words, splits, shape)


_flat = _eager(_ops.reshape, "reshape")


def _rows_of(values: _Any, splits: _Any, shape: _Any) -> _Any:
    """Rows of unequal length, below the shape of what they were made of."""
    found = _RaggedTensor.from_row_splits(values, splits, validate=False)
    for size in tuple(shape)[:0:-1]:
        found = _RaggedTensor.from_uniform_row_length(found, size)
    return found


def _as_bytes(value: _Any) -> bytes:
    value = _unwrap(value)
    value = value.item() if isinstance(value, _np.ndarray) else value
    return value if isinstance(value, bytes) else str(value).encode()


__getattr__ = _module_getattr(__name__, {"unicode_script": "unicodedata.name in tf.py_function: the package has no table of "
                                                         "scripts"})
