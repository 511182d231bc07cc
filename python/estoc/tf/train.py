# SPDX-License-Identifier: Apache-2.0
"""tf.train: checkpoints as files, and Examples."""
from __future__ import annotations

from typing import Any as _Any
from typing import Mapping as _Mapping
from typing import Sequence as _Sequence

import numpy as _np

from .. import io as _io
from .. import cluster as _cluster
from ..checkpoint import latest_checkpoint, list_variables, load_checkpoint, load_variable  # noqa: F401
from ..cluster import ClusterSpec  # noqa: F401
from ._absent import module_getattr as _module_getattr


class Server(_cluster.Server):
    """A task of a cluster in this process. The protocol "grpc" stands for the library's transport."""

    def __init__(self, server_or_cluster_def: _Any, job_name: str | None = None, task_index: int | None = None,
                 protocol: str | None = None, config: _Any = None, start: bool = True):
        threads = getattr(config, "intra_op_parallelism_threads", 0)
        super().__init__(server_or_cluster_def, job_name, task_index, protocol, start, threads)

    @staticmethod
    def create_local_server(config: _Any = None, start: bool = True) -> "Server":
        """The only task of a cluster at a free port of this machine."""
        return Server({"local": [f"localhost:{_cluster.free_port()}"]}, protocol="grpc", config=config, start=start)


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
        if len(given) != 1:
            raise ValueError("a Feature has one of bytes_list, float_list and int64_list")
        self.bytes_list, self.float_list, self.int64_list = bytes_list, float_list, int64_list

    def _array(self) -> _Any:
        if self.bytes_list is not None:
            array = _np.empty(len(self.bytes_list.value), dtype=object)
            array[:] = self.bytes_list.value
            return array
        if self.float_list is not None:
            return _np.array(self.float_list.value, _np.float32)
        return _np.array(self.int64_list.value, _np.int64)


class Features:
    """Features by name."""

    def __init__(self, feature: _Mapping[str, Feature] | None = None):
        self.feature = dict(feature or {})


class Example:
    """A tf.train.Example that can be written; tf.io.parse_example reads."""

    def __init__(self, features: Features | None = None):
        self.features = features if features is not None else Features()

    def SerializeToString(self, deterministic: bool = True) -> bytes:  # noqa: N802 - protobuf's name
        return _io.serialize_example({name: feature._array() for name, feature in self.features.feature.items()})


__getattr__ = _module_getattr(__name__, {
    "Checkpoint": "estoc.save_checkpoint writes named arrays; tf.train.load_checkpoint reads"})
