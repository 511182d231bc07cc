# SPDX-License-Identifier: Apache-2.0
"""tf.distribute.experimental.partitioners: into how many shards variables are cut."""
from __future__ import annotations

from typing import Any as _Any

from ...._lib import Keep as _Keep
from ...._lib import ffi as _ffi
from ...._lib import lib as _lib
from ...._tensor import as_dtype as _as_dtype
from ...._tensor import c_shape as _c_shape
from ..._absent import module_getattr as _module_getattr


class Partitioner:
    """What partitioners are."""

    def _make(self) -> _Any:
        raise NotImplementedError("a partitioner is one of tf.distribute.experimental.partitioners")

    def _c(self, keep: _Keep) -> _Any:
        return keep.new("est_partitioner *", self._make())

    def __call__(self, shape: _Any, dtype: _Any, axis: int = 0) -> list[int]:
        """Into how many parts a variable of that shape would be cut, for each of its axes."""
        sizes = list(shape)
        first = [sizes[axis], *sizes[:axis], *sizes[axis + 1:]]  # the library cuts the first axis
        made = _ffi.new("est_partitioner *", self._make())
        n = made.shards(made, _ffi.NULL, _as_dtype(dtype).number, _ffi.new("est_shape *", _c_shape(first)), 1)
        return [max(1, min(n, size)) if i == axis else 1 for i, size in enumerate(sizes)]


class FixedShardsPartitioner(Partitioner):
    """So many shards."""

    def __init__(self, num_shards: int):
        if num_shards < 1:
            raise ValueError(f"num_shards must be positive. Received: {num_shards}")
        self._num_shards = num_shards

    def _make(self) -> _Any:
        return _lib.est_fixed_shards(self._num_shards)


class MinSizePartitioner(Partitioner):
    """As many shards as have at least that size each."""

    def __init__(self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = 16):
        if min_shard_bytes < 1:
            raise ValueError(f"Argument `min_shard_bytes` must be positive. Received: {min_shard_bytes}")
        if max_shards < 1:
            raise ValueError(f"Argument `max_shards` must be positive. Received: {max_shards}")
        self._arguments = (min_shard_bytes, max_shards)

    def _make(self) -> _Any:
        return _lib.est_min_size_partitioner(*self._arguments)


class MaxSizePartitioner(Partitioner):
    """As few shards as have at most that size each."""

    def __init__(self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = 16):
        if max_shard_bytes < 1:
            raise ValueError(f"Argument `max_shard_bytes` must be positive. Received {max_shard_bytes}")
        if max_shards is not None and max_shards < 1:
            raise ValueError(f"max_shards must be positive. Received {max_shards}")
        self._arguments = (max_shard_bytes, max_shards or 0)

    def _make(self) -> _Any:
        return _lib.est_max_size_partitioner(*self._arguments)


__getattr__ = _module_getattr(__name__)
