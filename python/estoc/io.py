# SPDX-License-Identifier: Apache-2.0
"""TFRecord files and tf.train.Examples: reading, writing, and what to parse."""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from . import errors
from ._lib import NULL, Keep, check, ffi, lib, owned
from ._tensor import as_array, as_dtype, c_shape, string, take_tensor, to_array, to_tensor

COMPRESSION = {None: 0, "": 1, "NONE": 1, "ZLIB": 2, "GZIP": 3}


def _compression(name: str | None) -> int:
    if name not in COMPRESSION:
        raise ValueError(f"compression is \"ZLIB\", \"GZIP\" or \"\", not {name!r}")
    return COMPRESSION[name]


class TFRecordWriter:
    """Writes byte strings to a TFRecord file. A with statement completes the file, or leaves it incomplete when an
    exception ends it."""

    def __init__(self, path: str | os.PathLike, compression: str | None = None):
        keep, out = Keep(), ffi.new("est_tfrecord_writer **")
        check(lib.est_tfrecord_create(keep.string(path),
                                      keep.options("est_tfrecord_write_options", compression=_compression(compression)),
                                      out))
        self._c = owned(out[0], "est_tfrecord_abandon")

    def _writer(self) -> Any:
        if self._c is None:
            raise RuntimeError("the file is closed")
        return self._c

    def write(self, record: bytes) -> None:
        """Appends a record."""
        check(lib.est_tfrecord_write(self._writer(), ffi.from_buffer(record), len(record)))

    def flush(self) -> None:
        """Writes what is buffered, so that readers see it."""
        check(lib.est_tfrecord_flush(self._writer()))

    def close(self) -> None:
        """Completes the file."""
        if self._c is not None:
            writer, self._c = self._c, None
            ffi.gc(writer, None)  # the next call frees it
            check(lib.est_tfrecord_finish(writer))

    def __enter__(self) -> "TFRecordWriter":
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self.close()
        elif self._c is not None:
            ffi.release(self._c)
            self._c = None


def read_tfrecords(path: str | os.PathLike, compression: str | None = None) -> Iterator[bytes]:
    """The records of a file; a damaged one raises DataLossError."""
    keep, out = Keep(), ffi.new("est_tfrecord_reader **")
    check(lib.est_tfrecord_open(keep.string(path),
                                keep.options("est_tfrecord_read_options", compression=_compression(compression)), out))
    reader, record = owned(out[0], "est_tfrecord_close"), ffi.new("est_str *")
    while True:
        status = lib.est_tfrecord_next(reader, record)
        if status == errors.OUT_OF_RANGE:
            return
        check(status)
        yield bytes(ffi.buffer(record.data, record.size)) if record.size > 0 else b""


# --- Examples ---------------------------------------------------------------------------------------------------------


def serialize_example(features: Mapping[str, Any]) -> bytes:
    """A tf.train.Example of these features: strings become bytes lists, floats float32 lists, integers and booleans
    int64 lists; arrays are flattened. Features are in the order of their names, so equal examples have equal bytes."""
    out = ffi.new("est_example **")
    check(lib.est_example_create(out))
    example = owned(out[0], "est_example_free")
    for name, value in features.items():
        keep = Keep()
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        c_name = keep.string(name)
        if array.size == 0 and array.dtype.kind == "f" and not isinstance(value, np.ndarray):
            raise ValueError(f"feature {name!r} is an empty list: give an empty numpy array, whose dtype says its kind")
        if array.dtype.kind in "OSU":
            values = as_array(array).reshape(-1)
            items = keep.new("est_str[]", max(len(values), 1))
            for i, item in enumerate(values):
                items[i] = (keep.new("char[]", item), len(item))
            lib.est_example_set_bytes(example, c_name, items, len(values))
        elif array.dtype.kind == "f":
            flat = np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
            lib.est_example_set_f32s(example, c_name, ffi.cast("float *", flat.ctypes.data), flat.size)
        elif array.dtype.kind in "iub":
            flat = np.ascontiguousarray(array, dtype=np.int64).reshape(-1)
            lib.est_example_set_i64s(example, c_name, ffi.cast("int64_t *", flat.ctypes.data), flat.size)
        else:
            raise TypeError(f"feature {name!r} of dtype {array.dtype} fits no list of an Example")
    data = ffi.new("est_str *")
    check(lib.est_example_serialize(example, data))
    return bytes(ffi.buffer(data.data, data.size)) if data.size > 0 else b""


def read_example(serialized: bytes) -> dict[str, np.ndarray | None]:
    """All features of a tf.train.Example: arrays by name, None for one without values."""
    out = ffi.new("est_named_tensors *")
    data = ffi.new("est_str *", (ffi.from_buffer(serialized), len(serialized)))
    check(lib.est_example_read(data[0], out))
    try:
        return {ffi.string(out.data[i].name).decode(): None if out.data[i].tensor == NULL else
                to_array(out.data[i].tensor, copy=True) for i in range(out.n)}
    finally:
        lib.est_example_read_clear(out)


class FixedLenFeature(NamedTuple):
    """A feature with exactly this shape; without a default, an Example that lacks it is an error."""

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values; a batch of it is a RaggedArray."""

    dtype: Any


class PaddedFeature(NamedTuple):
    """A feature with any number of values: a batch is filled up to the longest row, and "<name>/lengths" has the
    number of values of each row."""

    shape: Sequence[int]
    dtype: Any
    default_value: Any = None


@dataclasses.dataclass(frozen=True)
class RaggedArray:
    """Rows of unequal length: row r is values[splits[r]:splits[r + 1]]."""

    values: np.ndarray
    splits: np.ndarray

    @property
    def indices(self) -> np.ndarray:
        """The row and the place in it of every value, int64 [n, 2]."""
        row = np.repeat(np.arange(len(self.splits) - 1), np.diff(self.splits))
        return np.stack([row, np.arange(len(row)) - np.asarray(self.splits)[row]], 1).astype(np.int64)

    @property
    def dense_shape(self) -> np.ndarray:
        """The number of rows, and the length of the longest."""
        return np.array([len(self.splits) - 1, max(np.diff(self.splits), default=0)], np.int64)

    def rows(self) -> list[np.ndarray]:
        return [self.values[start:end] for start, end in zip(self.splits[:-1], self.splits[1:])]


def c_feature_specs(keep: Keep, features: Mapping[str, Any]) -> Any:
    """est_feature_specs in the order of the mapping."""
    specs = []
    for name, feature in features.items():
        spec = {"name": keep.string(name), "dtype": as_dtype(feature.dtype).number}
        if isinstance(feature, VarLenFeature):
            spec["rows"] = lib.EST_ROWS_RAGGED
        elif isinstance(feature, (FixedLenFeature, PaddedFeature)):
            spec["rows"] = lib.EST_ROWS_FIXED if isinstance(feature, FixedLenFeature) else lib.EST_ROWS_PADDED
            spec["shape"] = c_shape(feature.shape)
            if feature.default_value is not None:
                default = np.asarray(feature.default_value)
                if default.size == 1 and as_dtype(feature.dtype) is not string:
                    default = default.reshape(())
                tensor = to_tensor(default, feature.dtype)
                keep.append(tensor)
                spec["default_value"] = tensor
        else:
            raise TypeError(f"feature {name!r} is described by FixedLenFeature, VarLenFeature or PaddedFeature, not by "
                            f"{type(feature).__name__}")
        specs.append(spec)
    return keep.span("est_feature_specs", "est_feature_spec", specs)


def parse_examples(serialized: Iterable[bytes], features: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of serialized tf.train.Examples as arrays, by the names of the features."""
    keep, out = Keep(), ffi.new("est_example_parser **")
    check(lib.est_example_parser_create(c_feature_specs(keep, features), out))
    parser = owned(out[0], "est_example_parser_free")
    records = [bytes(record) for record in serialized]
    items = keep.new("est_str[]", max(len(records), 1))
    for i, record in enumerate(records):
        items[i] = (ffi.cast("char *", ffi.from_buffer(record)), len(record))
    batch = ffi.new("est_feature_batch[]", max(len(features), 1))
    check(lib.est_example_parse(parser, items, len(records), batch))
    result: dict[str, Any] = {}
    for i, name in enumerate(features):
        parts = {}
        for part in ("values", "splits", "lengths"):
            tensor = getattr(batch[i], part)
            if tensor != NULL:
                parts[part] = to_array(take_tensor(tensor))
        if "splits" in parts:
            result[name] = RaggedArray(parts["values"], parts["splits"])
        else:
            result[name] = parts["values"]
            if "lengths" in parts and f"{name}/lengths" not in features:
                result[f"{name}/lengths"] = parts["lengths"]
    return result
