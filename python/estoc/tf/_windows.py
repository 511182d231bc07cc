# SPDX-License-Identifier: Apache-2.0
"""Datasets of datasets: what Dataset.window gives."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from ..data import TensorSpec
from ._absent import Named
from ._dataset import Dataset, of_rows
from ._eager import unwrap


class Windows(Named):
    """What Dataset.window gives: datasets, one for each window; for elements of several parts a dict or tuple of them.
    It can be iterated, cut with take and skip, and made a dataset again by flat_map or interleave."""

    _where = "tf.data.Dataset.window"

    def __init__(self, source: Dataset, size: int, shift: int, stride: int, drop_remainder: bool):
        if size < 1 or shift < 1 or stride < 1:
            raise ValueError("size, shift and stride of a window are at least 1")
        self._source, self._size, self._shift, self._stride = source, size, shift, stride
        self._drop = drop_remainder
        self._part = (0, None)

    def _elements(self) -> Iterator[list]:
        """Lists of elements, in the order of their windows."""
        waiting: list = []
        skip, span = 0, (self._size - 1) * self._stride + 1
        for element in _data.DatasetIterator(self._source):
            if skip > 0:
                skip -= 1
                continue
            waiting.append(element)
            if len(waiting) == max(span, 1):
                yield waiting[::self._stride]
                skip = max(0, self._shift - len(waiting))
                waiting = waiting[self._shift:]
        while waiting and not self._drop:
            yield waiting[::self._stride]
            waiting = waiting[self._shift:]

    def _rows(self) -> Iterator[Any]:
        for window in itertools.islice(self._elements(), *self._part):
            leaves = zip(*(_nest.flatten(element) for element in window))
            yield _nest.pack(self._source.structure, [np.stack([np.asarray(leaf) for leaf in part]) for part in leaves])

    def _datasets(self, window: Any) -> Any:
        return _nest.map_structure(lambda leaf: Dataset.from_tensor_slices(unwrap(leaf)), window)

    def __iter__(self) -> Iterator[Any]:
        return map(self._datasets, self._rows())

    def _cut(self, start: int, stop: int | None) -> "Windows":
        cut = Windows(self._source, self._size, self._shift, self._stride, self._drop)
        first, last = self._part
        ends = [end for end in (last, None if stop is None else first + stop) if end is not None]
        cut._part = (first + start, min(ends, default=None))
        return cut

    def take(self, count: int) -> "Windows":
        return self._cut(0, None if count == -1 else int(count))

    def skip(self, count: int) -> "Windows":
        return self._cut(int(count), None)

    def interleave(self, map_func: Callable, cycle_length: int | None = None, block_length: int | None = None,
                   num_parallel_calls: int | None = None, deterministic: bool | None = None,
                   name: str | None = None) -> Dataset:
        specs = _nest.map_structure(lambda spec: TensorSpec((None,) + tuple(spec.shape), spec.dtype),
                                    self._source.element_spec)
        windows = of_rows(self._rows, specs)
        form = self._source.structure

        def call(*parts: Any) -> Any:
            window = parts if isinstance(form, tuple) else parts[0]
            return map_func(*self._datasets(window)) if isinstance(form, tuple) else map_func(self._datasets(window))

        return windows.interleave(call, cycle_length, block_length, num_parallel_calls)

    def flat_map(self, map_func: Callable, name: str | None = None) -> Dataset:
        return self.interleave(map_func, 1)
