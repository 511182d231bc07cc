# SPDX-License-Identifier: Apache-2.0
"""Datasets of files: lines, TFRecords and CSV."""
from __future__ import annotations

import csv
import glob
import gzip
import itertools
import os
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from .. import io as _io
from .._tensor import DType, as_array, as_dtype, float32, float64, int32, int64, string
from ..data import TensorSpec
from ..graph import Node
from ._data_options import AUTOTUNE
from ._dataset import Dataset, over_nodes
from ._eager import unwrap, wrap
from ._map_trace import csv_stage


class TextLineDataset(Dataset):
    """The lines of text files."""

    def __new__(cls, filenames: Any, compression_type: str | None = None, buffer_size: int | None = None,
                num_parallel_reads: int | None = None, name: str | None = None) -> Dataset:
        return _of_files(filenames, num_parallel_reads,
                         lambda paths: Dataset.from_text(paths, compression=compression_type or None))


class TFRecordDataset(Dataset):
    """The records of TFRecord files; compression is detected."""

    def __new__(cls, filenames: Any, compression_type: str | None = None, buffer_size: int | None = None,
                num_parallel_reads: int | None = None, name: str | None = None) -> Dataset:
        if compression_type not in (None, "", "GZIP", "ZLIB"):
            raise ValueError(f"compression_type is \"\", \"GZIP\" or \"ZLIB\"; got {compression_type!r}")
        return _of_files(filenames, num_parallel_reads, Dataset.from_tfrecords)


def _of_files(filenames: Any, parallel: int | None, read: Callable) -> Dataset:
    """The records of files, whose names may be in a dataset or a tensor of a graph."""
    filenames = unwrap(filenames)
    if isinstance(filenames, Node):
        return over_nodes([filenames], lambda values: read(_paths(values[0])), TensorSpec((), string))
    if isinstance(filenames, _data.Dataset):
        return filenames.interleave(lambda name: read(_paths(name)), 1 if parallel is None else parallel,
                                    num_parallel_calls=parallel)
    return read(_paths(filenames))


def _paths(filenames: Any) -> list[str]:
    filenames = unwrap(filenames)
    if isinstance(filenames, (str, bytes, os.PathLike)):
        filenames = [filenames]
    return [path.decode() if isinstance(path, bytes) else os.fspath(path) for path in np.asarray(filenames).reshape(-1)]


def decode_csv_now(records: Any, columns: list, delimiter: str, quotes: bool, na_value: str) -> list:
    """tf.io.decode_csv of lines that have values."""
    lines = as_array(unwrap(records))
    names = [f"column_{i}" for i in range(len(columns))]
    csv = (list(zip(names, columns)), delimiter, quotes, na_value)
    source = Dataset.from_tensor_slices(lines.reshape(-1))
    rows = Dataset(lambda stage: csv_stage(source._chain(stage), csv), tuple(_nest.LEAF for _ in names), (source,), names)
    found = next(_data.DatasetIterator(rows.batch(max(lines.size, 1))), None)
    if found is None or len(found[0]) != lines.size:
        raise ValueError("tf.io.decode_csv: a line is empty")
    return [wrap(field.reshape(lines.shape)) for field in found]


def _first_fields(path: str, delimiter: str, quotes: bool) -> Iterator[list[str]]:
    """The rows of a CSV file, which may be compressed, as texts."""
    with open(path, "rb") as file:
        opened = gzip.open(path, "rt") if file.read(2) == b"\x1f\x8b" else open(path, encoding="utf-8")
    with opened as file:
        yield from csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE)


def _inferred(values: list[str]) -> Any:
    """The first of int32, int64, float32, float64 and string that holds all of them, as TensorFlow has it."""
    try:
        numbers = [int(value) for value in values]
        return int32 if all(-2**31 <= number < 2**31 for number in numbers) else int64
    except ValueError:
        pass
    try:
        largest = max((abs(float(value)) for value in values), default=0.0)
        return float64 if np.isfinite(largest) and largest > np.finfo(np.float32).max else float32
    except ValueError:
        return string


def _default(value: Any) -> tuple[Any, Any]:
    """The dtype and the default of a record_default; None: the field must not be empty."""
    if isinstance(value, (DType, type)):
        return as_dtype(value), None
    array = as_array(unwrap(value))
    return as_dtype(array.dtype), None if array.size == 0 else array.reshape(-1)[0]


class CsvDataset(Dataset):
    """The rows of CSV files as tuples of scalars (tf.data.experimental.CsvDataset)."""

    def __new__(cls, filenames: Any, record_defaults: Any, compression_type: str | None = None,
                buffer_size: int | None = None, header: bool = False, field_delim: str = ",",
                use_quote_delim: bool = True, na_value: str = "", select_cols: Any = None,
                exclude_cols: Any = None) -> Dataset:
        if select_cols is not None and exclude_cols is not None:
            raise ValueError("Either select_cols or exclude_cols should be provided, but not both.")
        paths, columns = _paths(filenames), [_default(value) for value in record_defaults]
        fields = [f"column_{i}" for i in range(len(columns))]
        chosen = fields
        if select_cols is not None or exclude_cols is not None:
            fields = [f"column_{i}" for i in range(len(next(_first_fields(paths[0], field_delim, use_quote_delim))))]
            numbers = list(select_cols) if select_cols is not None else [
                i for i in range(len(fields)) if i not in set(exclude_cols)]
            if len(numbers) != len(columns):
                raise ValueError(f"{len(columns)} record_defaults for {len(numbers)} columns")
            chosen = [fields[i] for i in numbers]
        rows = list(zip(chosen, columns))
        form = tuple(_nest.LEAF for _ in chosen)
        lines = Dataset.from_text(paths, skip=int(header), compression=compression_type or None)
        return Dataset(lambda stage: csv_stage(lines._chain(stage), (rows, field_delim, use_quote_delim, na_value),
                                               fields if fields is not chosen else ()), form, (lines,), chosen)


def make_csv_dataset(file_pattern: Any, batch_size: int, column_names: Any = None, column_defaults: Any = None,
                     label_name: str | None = None, select_columns: Any = None, field_delim: str = ",",
                     use_quote_delim: bool = True, na_value: str = "", header: bool = True,
                     num_epochs: int | None = None, shuffle: bool = True, shuffle_buffer_size: int = 10000,
                     shuffle_seed: int | None = None, prefetch_buffer_size: int | None = None,
                     num_parallel_reads: int | None = None, sloppy: bool = False, num_rows_for_inference: int | None = 100,
                     compression_type: str | None = None, ignore_errors: bool = False) -> Dataset:
    """Batches of rows of CSV files, as dicts by the names of their columns; with label_name pairs of the others and
    that one. Types that are not given are inferred from the first rows (tf.data.experimental.make_csv_dataset)."""
    patterns = [file_pattern] if isinstance(file_pattern, (str, os.PathLike)) else list(file_pattern)
    paths = sorted(path for pattern in patterns for path in (glob.glob(os.fspath(pattern)) or [os.fspath(pattern)]))
    reader = _first_fields(paths[0], field_delim, use_quote_delim)
    first = next(reader)
    if column_names is None and not header:
        raise ValueError("Cannot infer column names without a header line.")
    fields = list(column_names) if column_names is not None else first
    if len(set(fields)) != len(fields):
        raise ValueError("Cannot have duplicate column names.")
    wanted = fields if select_columns is None else [
        fields[item] if isinstance(item, int) else item for item in select_columns]
    wanted = [name for name in fields if name in set(wanted)]
    if label_name is not None and label_name not in wanted:
        raise ValueError("`label_name` provided must be one of the columns.")
    if column_defaults is None:
        rows = [first] if not header else []
        rows += itertools.islice(reader, num_rows_for_inference)
        texts = {name: [row[i] for row in rows if row[i] not in ("", na_value)] for i, name in enumerate(fields)}
        kinds = [(_inferred(texts[name]), b"" if _inferred(texts[name]) == string else 0) for name in wanted]
    else:
        kinds = [_default(value) for value in column_defaults]
        if len(kinds) != len(wanted):
            raise ValueError(f"{len(kinds)} column_defaults for {len(wanted)} columns")
    lines = Dataset.from_text(paths, skip=int(header), compression=compression_type or None)
    columns = list(zip(wanted, kinds))
    form = {name: _nest.LEAF for name in wanted}
    rows_of = lines._then(lambda chain, stage: csv_stage(chain, (columns, field_delim, use_quote_delim, na_value), fields,
                                                         ignore_errors), form)
    if shuffle:
        rows_of = rows_of.shuffle(shuffle_buffer_size, shuffle_seed)
    dataset = rows_of.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
    if label_name is not None:
        dataset = dataset.map(lambda row: ({name: row[name] for name in wanted if name != label_name}, row[label_name]))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def make_batched_features_dataset(file_pattern: Any, batch_size: int, features: Any, reader: Any = None,
                                  label_key: str | None = None, reader_args: Any = None, num_epochs: int | None = None,
                                  shuffle: bool = True, shuffle_buffer_size: int = 10000,
                                  shuffle_seed: int | None = None, prefetch_buffer_size: int | None = None,
                                  reader_num_threads: int | None = None, parser_num_threads: int | None = None,
                                  sloppy_ordering: bool = False, drop_final_batch: bool = False) -> Dataset:
    """Batches of the Examples in TFRecord files, as dicts by the names of their features; with label_key pairs of the
    others and that one (tf.data.experimental.make_batched_features_dataset)."""
    if reader_args or reader not in (None, TFRecordDataset):
        raise NotImplementedError("make_batched_features_dataset reads TFRecord files without compression")
    records = TFRecordDataset(Dataset.list_files(file_pattern, shuffle, shuffle_seed))
    if shuffle:
        records = records.shuffle(shuffle_buffer_size, shuffle_seed)
    batches = records.repeat(num_epochs).parse_examples(features, batch_size, label_key, drop_final_batch or
                                                        num_epochs is None)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


class TFRecordWriter:
    """Writes the elements of a dataset of strings to a TFRecord file, at once."""

    def __init__(self, filename: Any, compression_type: str | None = None):
        self._filename, self._compression = filename, compression_type

    def write(self, dataset: Dataset) -> None:
        """Replaces the file."""
        specs = _nest.flatten(dataset.element_spec)
        if len(specs) != 1 or specs[0].dtype != string or specs[0].shape not in ((), None):
            raise TypeError(f"`dataset` must be of strings, one in each element, not of {dataset.element_spec}")
        with _io.TFRecordWriter(self._filename, self._compression) as writer:
            for record in dataset.as_numpy_iterator():
                writer.write(record)
