# SPDX-License-Identifier: Apache-2.0
"""tf.train: checkpoints as files, and Examples."""
from __future__ import annotations

import time as _time
from typing import Any as _Any
from typing import Callable as _Callable
from typing import Iterator as _Iterator
from typing import Mapping as _Mapping
from typing import Sequence as _Sequence

import numpy as _np

from .. import io as _io
from .. import cluster as _cluster
from ..checkpoint import latest_checkpoint, list_variables, load_checkpoint, load_variable  # noqa: F401
from ..cluster import ClusterSpec  # noqa: F401
from ._absent import module_getattr as _module_getattr
from ._checkpoint import Checkpoint, CheckpointManager, get_checkpoint_state  # noqa: F401


class Server(_cluster.Server):
    """A task of a cluster in this process. The protocol "grpc" stands for the library's transport."""

    def __init__(self, server_or_cluster_def: _Any, job_name: str | None = None, task_index: int | None = None,
                 protocol: str | None = None, config: _Any = None, start: bool = True):
        threads = getattr(config, "intra_op_parallelism_threads", 0)
        super().__init__(server_or_cluster_def, job_name, task_index, protocol, start, threads)

    def join(self) -> None:
        """Serves until the job ends, and ends the program then: as in TensorFlow, which waits for ever, nothing behind
        this call runs. Fails when the job is lost. estoc.Server.join returns."""
        super().join()
        raise SystemExit(0)

    @staticmethod
    def create_local_server(config: _Any = None, start: bool = True) -> "Server":
        """The only task of a cluster at a free port of this machine."""
        return Server({"local": [f"localhost:{_cluster.free_port()}"]}, protocol="grpc", config=config, start=start)


class CheckpointOptions:
    """How a checkpoint is written: completely, when save returns, at this machine."""

    def __init__(self, experimental_io_device: _Any = None, experimental_enable_async_checkpoint: bool = False,
                 experimental_write_callbacks: _Any = None, enable_async: bool = False):
        if experimental_io_device not in (None, "/job:localhost") or experimental_write_callbacks:
            raise NotImplementedError("experimental_io_device and experimental_write_callbacks do not exist yet")
        self.enable_async = enable_async or experimental_enable_async_checkpoint  # a checkpoint may be there earlier


def checkpoints_iterator(checkpoint_dir: _Any, min_interval_secs: float = 0, timeout: float | None = None,
                         timeout_fn: _Callable | None = None) -> _Iterator[str]:
    """The latest checkpoint of a directory, each time that there is a new one. After `timeout` seconds without one it
    ends, unless timeout_fn() says that others may come."""
    last = None
    while True:
        found = _next_checkpoint(checkpoint_dir, last, timeout)
        if found is not None:
            begin, last = _time.monotonic(), found
            yield found
            _time.sleep(max(begin + min_interval_secs - _time.monotonic(), 0))
        elif timeout_fn is None or timeout_fn():
            return


def _next_checkpoint(directory: _Any, last: str | None, timeout: float | None) -> str | None:
    """A latest checkpoint that is not `last`; None: there was none in time."""
    end = _time.monotonic() + (float("inf") if timeout is None else timeout)
    while True:
        found = latest_checkpoint(directory)
        if found is not None and found != last:
            return found
        if _time.monotonic() >= end:
            return None
        _time.sleep(min(max(end - _time.monotonic(), 0.0), 0.2))


class BytesList:
    """Values of a feature: bytes."""

    def __init__(self, value: _Sequence[bytes] = ()):
        self.value = [bytes(item) for item in value]


class FloatList:
    """Values of a feature: float32."""

    def __init__(self, value: _Sequence[float] = ()):
        self.value = [float(_np.float32(item)) for item in value]


class Int64List:
    """Values of a feature: int64."""

    def __init__(self, value: _Sequence[int] = ()):
        self.value = [int(item) for item in value]


class Feature:
    """One of the three lists."""

    def __init__(self, bytes_list: BytesList | None = None, float_list: FloatList | None = None,
                 int64_list: Int64List | None = None):
        given = [item for item in (bytes_list, float_list, int64_list) if item is not None]
        if len(given) > 1:
            raise ValueError("a Feature has one of bytes_list, float_list and int64_list")
        self.bytes_list = bytes_list if bytes_list is not None else BytesList()
        self.float_list = float_list if float_list is not None else FloatList()
        self.int64_list = int64_list if int64_list is not None else Int64List()
        self._given = given[0] if given else None

    def WhichOneof(self, oneof: str) -> str | None:  # noqa: N802 - protobuf's name
        """The name of the list that has values; None: none has."""
        if oneof != "kind":
            raise ValueError(f"a Feature has the oneof \"kind\", not {oneof!r}")
        lists = ("bytes_list", "float_list", "int64_list")
        return next((name for name in lists if getattr(self, name).value or getattr(self, name) is self._given), None)

    def __str__(self) -> str:
        """The text of the message."""
        name = self.WhichOneof("kind")
        values = [] if name is None else getattr(self, name).value
        lines = [f"  value: {_text_of(value)}\n" for value in values]
        return "" if name is None else f"{name} {{\n{''.join(lines)}}}\n"

    def _array(self) -> _Any:
        filled = [item for item in (self.bytes_list, self.float_list, self.int64_list) if item.value]
        if len(filled) > 1:
            raise ValueError("a Feature has one of bytes_list, float_list and int64_list; several have values")
        one = filled[0] if filled else self._given
        if one is None:
            raise ValueError("a Feature without values: fill one of bytes_list, float_list and int64_list")
        if one is self.bytes_list:
            array = _np.empty(len(one.value), dtype=object)
            array[:] = [bytes(item) for item in one.value]
            return array
        return _np.array(one.value, _np.float32 if one is self.float_list else _np.int64)


    def SerializeToString(self, deterministic: bool = True) -> bytes:  # noqa: N802 - protobuf's name
        """Its bytes as a message of its own: the value of an entry in those of an Example."""
        if self._given is None and not (self.bytes_list.value or self.float_list.value or self.int64_list.value):
            return b""
        message = _io.serialize_example({"": self._array()})
        for _ in range(3):  # Example.features, Features.feature, and in its entry the value, after an empty key
            size, start = _varint(message, 1)
            message = message[start:start + size]
            if message[:2] == b"\n\0":
                message = message[2:]
        return message


def _text_of(value: _Any) -> str:
    """A value as texts of messages have it: floats in 6 or 9 digits, bytes with escapes."""
    if isinstance(value, (bytes, bytearray)):
        named = {9: "\\t", 10: "\\n", 13: "\\r", 34: "\\\"", 39: "\\'", 92: "\\\\"}
        return '"' + "".join(named.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value) + '"'
    if isinstance(value, (float, _np.floating)):
        short = f"{value:.6g}"
        return short if _np.float32(short) == _np.float32(value) else f"{_np.float32(value):.9g}"
    return str(int(value))


def _varint(data: bytes, at: int) -> "tuple[int, int]":
    """A number of a protocol buffer, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


class _FeatureMap(dict):
    """Features by name; one that is asked for is made, as in protocol buffers."""

    def __missing__(self, name: str) -> Feature:
        self[name] = feature = Feature()
        return feature


class Features:
    """Features by name."""

    def __init__(self, feature: _Mapping[str, Feature] | None = None):
        self.feature = _FeatureMap(feature or {})


class Example:
    """A tf.train.Example, to be written or read."""

    def __init__(self, features: Features | None = None):
        self.features = features if features is not None else Features()

    def SerializeToString(self, deterministic: bool = True) -> bytes:  # noqa: N802 - protobuf's name
        return _io.serialize_example({name: feature._array() for name, feature in self.features.feature.items()})

    @classmethod
    def FromString(cls, s: bytes) -> "Example":  # noqa: N802
        """The Example of bytes that SerializeToString gave."""
        example = cls()
        example.ParseFromString(s)
        return example

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        """Replaces the features by those of the bytes."""
        self.features = Features({name: _feature_of(values) for name, values in
                                  _io.read_example(bytes(serialized)).items()})
        return len(serialized)

    def __eq__(self, other: _Any) -> bool:
        return isinstance(other, Example) and self.SerializeToString() == other.SerializeToString()

    def __repr__(self) -> str:
        """In the text form of protocol buffers."""
        lines = ["features {"]
        for name in sorted(self.features.feature):
            feature = self.features.feature[name]
            lines += ["  feature {", f'    key: "{name}"', "    value {"]
            for kind in ("bytes_list", "float_list", "int64_list"):
                values = getattr(feature, kind).value
                if values:
                    shown = [f'"{_escaped(value)}"' if kind == "bytes_list" else str(_np.float32(value))
                             if kind == "float_list" else str(value) for value in values]
                    lines += [f"      {kind} {{"] + [f"        value: {value}" for value in shown] + ["      }"]
            lines += ["    }", "  }"]
        return "\n".join(lines + ["}\n"])

    __str__ = __repr__


def _escaped(value: bytes) -> str:
    return "".join({"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}.get(chr(byte)) or (
        chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value)


def _feature_of(values: _Any) -> Feature:
    if values is None:
        return Feature()
    if values.dtype == object:
        return Feature(bytes_list=BytesList(values.tolist()))
    if values.dtype == _np.float32:
        return Feature(float_list=FloatList(values.tolist()))
    return Feature(int64_list=Int64List(values.tolist()))


__getattr__ = _module_getattr(__name__)
