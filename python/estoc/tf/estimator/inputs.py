# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.estimator.inputs: input functions over arrays and tables in memory."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .._absent import module_getattr as _module_getattr
from ..data import Dataset as _Dataset


def _rows(features: _Any, y: _Any, batch_size: int, num_epochs: int | None, shuffle: bool | None,
          queue_capacity: int) -> _Callable:
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be provided and explicitly set as boolean (it is recommended to set it as True "
                         f"for training); got {shuffle}")

    def input_fn() -> _Dataset:
        dataset = _Dataset.from_tensor_slices(features if y is None else (features, y))
        if shuffle:
            dataset = dataset.shuffle(max(int(queue_capacity), 1))
        return dataset.repeat(num_epochs).batch(batch_size)

    return input_fn


def numpy_input_fn(x: _Any, y: _Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                   shuffle: bool | None = None, queue_capacity: int = 1000, num_threads: int = 1) -> _Callable:
    """Batches of an array or a dict of arrays, and of labels."""
    if isinstance(x, dict) and not x:
        raise ValueError("x cannot be an empty dict")
    lengths = {len(value) for value in (list(x.values()) if isinstance(x, dict) else [x])}
    for part in [] if y is None else (list(y.values()) if isinstance(y, dict) else [y]):
        lengths.add(len(part))
    if len(lengths) != 1:
        raise ValueError(f"Length of tensors in x and y is mismatched. All elements in x and y must have the same "
                         f"length; they have {sorted(lengths)}")
    return _rows(x, y, batch_size, num_epochs, shuffle, queue_capacity)


def pandas_input_fn(x: _Any, y: _Any = None, batch_size: int = 128, num_epochs: int | None = 1,
                    shuffle: bool | None = None, queue_capacity: int = 1000, num_threads: int = 1,
                    target_column: str = "target") -> _Callable:
    """Batches of the columns of a DataFrame, and of a Series or DataFrame of labels with the same index."""
    if y is not None and not _np.array_equal(x.index, y.index):
        raise ValueError("Index for x and y are mismatched.")
    labels = None if y is None else y.values if getattr(y, "ndim", 1) == 1 else {key: y[key].values for key in y}
    return _rows({key: x[key].values for key in x}, labels, batch_size, num_epochs, shuffle, queue_capacity)


__getattr__ = _module_getattr(__name__)
