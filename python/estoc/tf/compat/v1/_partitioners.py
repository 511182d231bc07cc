# SPDX-License-Identifier: Apache-2.0
"""Partitioners of TensorFlow 1: into how many parts a variable would be cut along each axis. Variables stay whole here;
those of parameter servers are cut by the partitioner of their strategy."""
from __future__ import annotations

import json
import math
import os
from typing import Any, Callable

from ...._tensor import as_dtype


def whole(partitioner: Any, what: str = "partitioner") -> None:
    """Takes a partitioner where it changes no value: without parameter servers, which hold parts."""
    if partitioner is None:
        return
    if not callable(partitioner):
        raise ValueError(f"Partitioner {partitioner} must be callable.")
    if "ps" in json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}):
        raise NotImplementedError(f"{what}: variables of parameter servers are divided by RunConfig(train_distribute="
                                  "ParameterServerStrategy(variable_partitioner=...))")


def _cut(shape: Any, axis: int, parts: int) -> list[int]:
    return [max(1, min(parts, shape[axis])) if i == axis else 1 for i in range(len(shape))]


def _size(dtype: Any, bytes_per_string_element: int) -> int:
    kind = as_dtype(dtype)
    return bytes_per_string_element if kind.name == "string" else int(kind.size)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Callable:
    """So many parts along an axis."""
    if num_shards < 1:
        raise ValueError(f"num_shards must be positive, not {num_shards}")

    def partitioner(shape: Any, dtype: Any = None, **more: Any) -> list[int]:
        return _cut([int(n) for n in shape], axis, num_shards)

    return partitioner


def variable_axis_size_partitioner(max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16,
                                   max_shards: int | None = None) -> Callable:
    """As many parts as keep each below a number of bytes."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("Both max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards is not None and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: Any, dtype: Any, **more: Any) -> list[int]:
        sizes = [int(n) for n in shape]
        row = math.prod(sizes) // sizes[axis] * _size(dtype, bytes_per_string_element)
        parts = -(-sizes[axis] // max(1, max_shard_bytes // row))
        return _cut(sizes, axis, parts if max_shards is None else min(parts, max_shards))

    return partitioner


def min_max_variable_partitioner(max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10,
                                 bytes_per_string_element: int = 16) -> Callable:
    """As many parts as have a number of bytes at least, and no more than a number of parts."""

    def partitioner(shape: Any, dtype: Any, **more: Any) -> list[int]:
        sizes = [int(n) for n in shape]
        slices = math.prod(sizes) * _size(dtype, bytes_per_string_element) / min_slice_size
        return _cut(sizes, axis, min(max_partitions, max(1, math.ceil(slices))))

    return partitioner
