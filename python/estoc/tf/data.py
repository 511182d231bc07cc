# SPDX-License-Identifier: Apache-2.0
"""tf.data: datasets of arrays, functions and files, as in TensorFlow."""
from __future__ import annotations

from typing import Any, Callable

from .._tensor import int64
from ..data import TensorSpec  # noqa: F401
from ._absent import module_getattr
from ._data_files import (CsvDataset, TextLineDataset, TFRecordDataset, TFRecordWriter, make_batched_features_dataset,
                          make_csv_dataset)
from ._data_options import AUTOTUNE, INFINITE, UNKNOWN, AutoShardPolicy, Options
from ._dataset import Dataset


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:  # noqa: N802
    """Numbers without end (tf.data.experimental.Counter)."""
    return Dataset.counter(start, step, dtype)


class experimental:  # noqa: N801 - a module in TensorFlow
    """tf.data.experimental. What a dataset has a method for is also a transformation for Dataset.apply."""

    AUTOTUNE, AutoShardPolicy, Counter, CsvDataset = AUTOTUNE, AutoShardPolicy, staticmethod(Counter), CsvDataset
    TFRecordWriter = TFRecordWriter
    make_csv_dataset = staticmethod(make_csv_dataset)
    make_batched_features_dataset = staticmethod(make_batched_features_dataset)

    @staticmethod
    def enumerate_dataset(start: int = 0) -> Callable:
        return lambda dataset: dataset.enumerate(start)

    @staticmethod
    def map_and_batch(map_func: Callable, batch_size: int, num_parallel_batches: int | None = None,
                      drop_remainder: bool = False, num_parallel_calls: int | None = None) -> Callable:
        calls = num_parallel_calls if num_parallel_batches is None else num_parallel_batches
        return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)

    @staticmethod
    def parallel_interleave(map_func: Callable, cycle_length: int, block_length: int = 1, sloppy: bool = False,
                            buffer_output_elements: int | None = None,
                            prefetch_input_elements: int | None = None) -> Callable:
        return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, cycle_length)

    @staticmethod
    def shuffle_and_repeat(buffer_size: int, count: int | None = None, seed: int | None = None) -> Callable:
        return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)

    @staticmethod
    def dense_to_ragged_batch(batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = int64) -> Callable:
        return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)

    @staticmethod
    def group_by_window(key_func: Callable, reduce_func: Callable, window_size: Any = None,
                        window_size_func: Callable | None = None) -> Callable:
        return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)

    @staticmethod
    def bucket_by_sequence_length(*arguments: Any, **named: Any) -> Callable:
        return lambda dataset: dataset.bucket_by_sequence_length(*arguments, **named)

    @staticmethod
    def unbatch() -> Callable:
        return lambda dataset: dataset.unbatch()

    sample_from_datasets, load = staticmethod(Dataset.sample_from_datasets), staticmethod(Dataset.load)

    @staticmethod
    def save(dataset: Dataset, path: Any, compression: str | None = None, shard_func: Any = None) -> None:
        dataset.save(path, compression, shard_func)

    choose_from_datasets = staticmethod(Dataset.choose_from_datasets)
    INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = INFINITE, UNKNOWN

    @staticmethod
    def cardinality(dataset: Dataset) -> Any:
        return dataset.cardinality()


__all__ = ["AUTOTUNE", "Dataset", "Options", "TFRecordDataset", "TextLineDataset", "experimental"]
__getattr__ = module_getattr(__name__)
