# SPDX-License-Identifier: Apache-2.0
"""tf.io: TFRecord files, Examples, CSV lines within Dataset.map."""
from __future__ import annotations

import base64
import os
import re
from typing import Any, Mapping, Sequence

import numpy as np

from ... import io as _io
from ..._lib import Keep, ffi, here, lib
from ..._tensor import DType, as_dtype, int32, int64
from ...errors import InvalidArgumentError
from ...graph import NeedsValue, Node, RaggedNode
from ...io import FixedLenFeature, RaggedArray, VarLenFeature  # noqa: F401
from .._absent import module_getattr as _module_getattr
from .._eager import Tensor, unwrap
from .._ragged import RaggedTensor
from .._sparse import SparseTensor
from . import gfile


class TFRecordOptions:
    """How a TFRecord file is compressed."""

    def __init__(self, compression_type: str | None = None):
        self.compression_type = compression_type or ""


class TFRecordWriter(_io.TFRecordWriter):
    """Writes byte strings to a TFRecord file."""

    def __init__(self, path: Any, options: Any = None):
        if isinstance(options, TFRecordOptions):
            options = options.compression_type
        super().__init__(path, options)


class FixedLenSequenceFeature(_io.PaddedFeature):
    """A feature with any number of values, of which a batch is filled up to the longest row."""

    def __new__(cls, shape: Any, dtype: Any, allow_missing: bool = False, default_value: Any = None) -> Any:
        if not allow_missing:
            raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
        return super().__new__(cls, tuple(shape), as_dtype(dtype), default_value)


class RaggedFeature(_io.VarLenFeature):
    """A feature with any number of values, of which a batch is a ragged tensor."""

    def __new__(cls, dtype: Any, value_key: Any = None, partitions: Any = (), row_splits_dtype: Any = int32,
                validate: bool = False) -> Any:
        if value_key is not None or tuple(partitions) or as_dtype(row_splits_dtype) not in (int64, int32):
            raise NotImplementedError("RaggedFeature: value_key and partitions do not exist; of several features "
                                      "tf.RaggedTensor.from_row_lengths and its like make one")
        made = super().__new__(cls, as_dtype(dtype))
        made.row_splits_dtype = as_dtype(row_splits_dtype)
        return made

    value_key, partitions = None, ()


def _ragged(values: Any, splits: Any, feature: Any) -> Any:
    made = RaggedTensor.from_row_splits(values, splits, validate=False)
    return made.with_row_splits_dtype(feature.row_splits_dtype)


def _parsed(values: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
    """The features that were asked for; `values` has the lengths of padded ones, too."""
    return {name: _ragged(value.values, value.splits, features[name]) if isinstance(features[name], RaggedFeature) else
            value if isinstance(value, RaggedArray) else Tensor(value) for name, value in values.items() if name in features}


def parse_example(serialized: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of serialized Examples. VarLenFeatures become estoc.io.RaggedArray (TensorFlow: sparse tensors), in a
    graph and within Dataset.map what feature columns take."""
    if isinstance(serialized, Node):
        return _parse_nodes(serialized, features)
    return _parsed(_io.parse_examples(np.asarray(unwrap(serialized), dtype=object).reshape(-1), features),
                   features)


def parse_single_example(serialized: Any, features: Mapping[str, Any]) -> dict[str, Any]:
    """One serialized Example. A VarLenFeature is a SparseTensor, in a graph and within Dataset.map its values."""
    if isinstance(serialized, Node):
        from ... import ops
        return {name: _only_row(node) for name, node in _parse_nodes(ops.reshape(serialized, [1]), features).items()}
    rows = parse_example([unwrap(serialized)[()] if isinstance(serialized, Tensor) else serialized], features)
    return {name: _of_one(value) for name, value in rows.items()}


def _of_one(value: Any) -> Any:
    """What one Example has of a feature, of a batch of it alone."""
    if isinstance(value, RaggedArray):
        count = len(value.values)
        return SparseTensor(np.arange(count, dtype=np.int64).reshape(-1, 1), value.values, [count])
    return value.values if isinstance(value, RaggedTensor) else Tensor(value._value[0])


def _only_row(node: Any) -> Node:
    """What one Example has of a feature, of a batch of it alone."""
    if not isinstance(node, RaggedNode):
        return node.values if hasattr(node, "row_splits") else node[0]
    from .._map_trace import note_row

    note_row(node.values)
    return node.values


def _parse_nodes(examples: Node, features: Mapping[str, Any]) -> dict[str, Any]:
    here()
    keep = Keep()
    out = ffi.new("est_parsed[]", max(len(features), 1))
    lib.est_parse_examples(examples._c, _io.c_feature_specs(keep, features), out)
    graph = examples.graph
    graph.check()
    nodes: dict[str, Any] = {}
    for i, (name, feature) in enumerate(features.items()):
        nodes[name] = graph.node(out[i].values)
        if isinstance(feature, VarLenFeature):
            nodes[name] = RaggedNode(nodes[name], graph.node(out[i].splits))
        if isinstance(feature, RaggedFeature):
            nodes[name] = _ragged(nodes[name].values, nodes[name].splits, feature)
    return nodes


def decode_csv(records: Any, record_defaults: Sequence[Any], field_delim: str = ",", use_quote_delim: bool = True,
               na_value: str = "", select_cols: Sequence[int] | None = None) -> list[Node]:
    """The fields of lines, at once or within Dataset.map over lines of text; a default is [value], or a dtype if the
    field must not be empty. Empty lines are left out, where TensorFlow fails."""
    from .._data_files import decode_csv_now
    from .._map_trace import decode_csv_in_map

    if select_cols is not None:
        raise NotImplementedError("select_cols does not exist yet; decode all columns and drop some")
    columns = []
    for default in record_defaults:
        if isinstance(default, (DType, type)):
            columns.append((as_dtype(default), None))
            continue
        value = np.asarray(unwrap(default), dtype=object if _is_text(default) else None)
        dtype = as_dtype(str) if _is_text(default) else Tensor(default).dtype
        columns.append((dtype, None if value.size == 0 else value.reshape(-1)[0]))
    if not isinstance(records, Node):
        return decode_csv_now(records, columns, field_delim, use_quote_delim, na_value)
    return decode_csv_in_map(records, columns, field_delim, use_quote_delim, na_value)


def _is_text(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_text, value))
    return isinstance(value, (str, bytes)) or isinstance(value, Tensor) and value.dtype.name == "string"


def decode_raw(input_bytes: Any, out_type: Any, little_endian: bool = True, fixed_length: int | None = None,
               name: str | None = None) -> Tensor:
    """Numbers of the bytes of texts, at once: [..., n]."""
    if isinstance(input_bytes, Node):
        raise NeedsValue("tf.io.decode_raw works on values")
    if fixed_length is not None:
        raise NotImplementedError("decode_raw: fixed_length does not exist yet")
    texts = np.asarray(unwrap(Tensor(unwrap(input_bytes))), dtype=object)
    kind = np.dtype(as_dtype(out_type).as_numpy_dtype).newbyteorder("<" if little_endian else ">")
    sizes = {len(text) for text in texts.reshape(-1).tolist()}
    if len(sizes) > 1 or any(size % kind.itemsize for size in sizes):
        raise InvalidArgumentError(f"decode_raw: texts of {sorted(sizes)} bytes; all need the same number of them, a multiple "
                                   f"of {kind.itemsize}")
    found = np.frombuffer(b"".join(texts.reshape(-1).tolist()), kind).astype(kind.newbyteorder("="))
    return Tensor(found.reshape(texts.shape + (-1,) if found.size else texts.shape + (0,)))


def read_file(filename: Any, name: str | None = None) -> Tensor:
    """The bytes of a local file, at once."""
    if isinstance(filename, Node):
        raise NeedsValue("tf.io.read_file takes a name with a value")
    with gfile.GFile(filename, "rb") as file:
        return Tensor(file.read())


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Writes bytes to a local file, at once; its directory is made."""
    path = gfile._path(filename)
    gfile.makedirs(os.path.dirname(path) or ".")
    contents = contents.numpy() if isinstance(contents, Tensor) else contents
    with gfile.GFile(path, "wb") as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:  # noqa: A002
    """Strings in the alphabet for addresses; filled up to a multiple of four with pad."""
    from ..strings import _each
    return _each(input, "encode_base64", lambda text: base64.urlsafe_b64encode(text).rstrip(b" " if pad else b"="))


def decode_base64(input: Any, name: str | None = None) -> Tensor:  # noqa: A002
    """What encode_base64 was given."""
    from ..strings import _each
    return _each(input, "decode_base64", _of_base64)


def _of_base64(text: bytes) -> bytes:
    digits = text.rstrip(b"=")
    if not re.fullmatch(rb"[A-Za-z0-9_-]*", digits) or len(digits) % 4 == 1 or len(text) != len(digits) and (
            len(text) - len(digits) > 2 or len(text) % 4 != 0):
        raise InvalidArgumentError(f"Invalid character found in base64: {text!r}")
    return base64.urlsafe_b64decode(digits + b"=" * (-len(digits) % 4))


__all__ = ["FixedLenFeature", "TFRecordOptions", "TFRecordWriter", "VarLenFeature", "decode_base64", "decode_csv", "decode_raw",
           "encode_base64", "parse_example", "parse_single_example", "read_file", "write_file"]
__getattr__ = _module_getattr(__name__)
