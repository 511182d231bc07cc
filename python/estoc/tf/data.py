# SPDX-License-Identifier: Apache-2.0
"""tf.data: functions of map and filter are traced once, and C runs their graphs, as in TensorFlow."""
from __future__ import annotations

import enum
import os
import types
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from .._lib import Keep, lib
from .._tensor import as_dtype, int64
from ..errors import OutOfRangeError
from ..graph import Graph, NeedsValue, Node, Shape, as_node
from ._absent import Named, module_getattr
from ._eager import unwrap, wrap
from ._world import current_trace

AUTOTUNE = -1
TensorSpec = _data.TensorSpec


class AutoShardPolicy(enum.IntEnum):
    """How workers share a dataset (tf.data.experimental.AutoShardPolicy)."""

    OFF, AUTO, FILE, DATA, HINT = -1, 0, 1, 2, 3


class _Distribute:
    """Options.experimental_distribute"""

    __slots__ = ("_policy",)

    def __init__(self) -> None:
        self._policy = AutoShardPolicy.AUTO

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        return self._policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, value: Any) -> None:
        if AutoShardPolicy(value) == AutoShardPolicy.HINT:
            raise NotImplementedError("AutoShardPolicy.HINT does not exist; OFF, AUTO, FILE and DATA do")
        self._policy = AutoShardPolicy(value)


class _Hints:
    """Options that change how fast TensorFlow's pipelines are, and nothing of their elements: any may be set."""


class Options:
    """tf.data.Options. Order and elements never depend on threads here, so `deterministic` is always True."""

    __slots__ = ("experimental_distribute", "deterministic", "autotune", "experimental_optimization",
                 "experimental_threading", "threading", "experimental_slack", "experimental_deterministic",
                 "experimental_warm_start")

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, None)
        self.experimental_distribute = _Distribute()
        self.autotune, self.experimental_optimization = _Hints(), _Hints()
        self.experimental_threading = self.threading = _Hints()


class _Trace:
    """What a function that is traced by map does to the input before its graph."""

    current: "list[_Trace]" = []

    def __init__(self, graph: Graph, inputs: list):
        self.graph = graph
        self.inputs = inputs
        self.csv: Any = None


def decode_csv_in_map(records: Node, columns: list, delimiter: str, quotes: bool, na_value: str) -> list[Node]:
    """tf.io.decode_csv: the line is decoded by a stage before the graph, which gets the fields."""
    trace = _Trace.current[-1] if _Trace.current else None
    if trace is None or len(trace.inputs) != 1 or trace.inputs[0][1]._c.id != records._c.id or records.shape != ():
        raise NotImplementedError("tf.io.decode_csv takes the line that the function of Dataset.map is given, before "
                                  "any batch(); estoc.Dataset.from_csv decodes batches")
    if trace.csv is not None:
        raise NotImplementedError("tf.io.decode_csv can be called once in a function")
    names = [f"column_{i}" for i in range(len(columns))]
    nodes = [trace.graph.placeholder(name, dtype, []) for name, (dtype, _) in zip(names, columns)]
    trace.csv = (list(zip(names, columns)), delimiter, quotes, na_value)
    trace.inputs = list(zip(names, nodes))
    return nodes


def _csv_stage(chain: Any, csv: Any) -> Any:
    columns, delimiter, quotes, na_value = csv
    keep = Keep()
    rows = []
    for name, (dtype, default) in columns:
        text = None if default is None else default if isinstance(default, bytes) else str(default)
        rows.append({"name": keep.string(name), "dtype": dtype.number, "required": default is None,
                     "default_text": keep.string(text)})
    return lib.est_dataset_unbatch(lib.est_dataset_decode_csv(
        chain, keep.span("est_csv_columns", "est_csv_column", rows),
        keep.options("est_csv_options", delimiter=delimiter.encode(), no_quotes=not quotes,
                     na_value=keep.string(na_value or None)), 1, keep.options("est_parse_options")))


def _workers(num_parallel_calls: int | None) -> int:
    return 0 if num_parallel_calls is None else num_parallel_calls


def _values(value: Any) -> Any:
    return _nest.map_structure(unwrap, value)


class Dataset(Named, _data.Dataset):
    """tf.data.Dataset. Elements are tensors."""

    _where = "tf.data.Dataset"

    def __iter__(self) -> "OwnedIterator":
        if current_trace() is not None:
            raise NeedsValue("a function that is traced cannot iterate over a dataset; iterate outside and call the "
                             "function with each element, or pass it iter(dataset) and take next()")
        return OwnedIterator(self)

    def as_numpy_iterator(self) -> Iterator[Any]:
        def plain(value: Any) -> Any:
            return _nest.map_structure(
                lambda leaf: leaf[()] if isinstance(leaf, np.ndarray) and leaf.ndim == 0 else leaf, value)

        return map(plain, _data.DatasetIterator(self))

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> "Dataset":
        return cls._from_tensors(_values(tensors), True, "est_dataset_slices")

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> "Dataset":
        return cls._from_tensors(_values(tensors), True, "est_dataset_tensors")

    @classmethod
    def range(cls, *args: int, output_type: Any = int64, name: str | None = None) -> "Dataset":
        dataset = super().range(*(int(bound) for bound in args))
        return dataset if as_dtype(output_type) == int64 else dataset.map(lambda n: _cast(n, output_type))

    @classmethod
    def from_generator(cls, generator: Callable, output_types: Any = None, output_shapes: Any = None, args: Any = None,
                       output_signature: Any = None, name: str | None = None) -> "Dataset":
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if (output_signature is None) == (output_types is None):
            raise TypeError("give either output_signature or output_types (and output_shapes)")
        if output_signature is None:
            output_signature = _signature(output_types, output_shapes)
        arguments = tuple(args or ())
        return super().from_generator(lambda: map(_values, generator(*arguments)), output_signature)

    @classmethod
    def list_files(cls, file_pattern: Any, shuffle: bool | None = None, seed: int | None = None,
                   name: str | None = None) -> "Dataset":
        dataset = super().list_files(file_pattern)
        return dataset if shuffle is False else dataset.shuffle(100000, seed)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> "Dataset":
        if datasets is None:
            datasets = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if isinstance(datasets, dict):
            raise NotImplementedError("zip takes a tuple of datasets; dicts do not exist yet")
        return _data.Dataset.zip.__func__(Dataset, tuple(datasets))

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_calls: int | None = None,
              deterministic: bool | None = None, name: str | None = None) -> "Dataset":
        return super().batch(int(batch_size), bool(drop_remainder))

    def padded_batch(self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None,
                     drop_remainder: bool = False, name: str | None = None) -> "Dataset":
        if padded_shapes is not None or not (padding_values is None or np.isscalar(padding_values)):
            raise NotImplementedError("padded_batch pads to the longest element with one number; shapes and values for "
                                      "each part do not exist yet")
        return super().padded_batch(int(batch_size), drop_remainder, padding_values or 0)

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = None,
                name: str | None = None) -> "Dataset":
        return super().shuffle(int(buffer_size), seed, reshuffle_each_iteration is not False)

    def repeat(self, count: int | None = None, name: str | None = None) -> "Dataset":
        return super().repeat(count)

    def take(self, count: int, name: str | None = None) -> "Dataset":
        return super().take(int(count))

    def skip(self, count: int, name: str | None = None) -> "Dataset":
        return super().skip(int(count))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> "Dataset":
        return super().shard(int(num_shards), int(index))

    def prefetch(self, buffer_size: int, name: str | None = None) -> "Dataset":
        return super().prefetch(int(buffer_size))

    def cache(self, filename: Any = "", name: str | None = None) -> "Dataset":
        return super().cache(os.fspath(filename) or None)

    def map(self, map_func: Callable, num_parallel_calls: int | None = None, deterministic: bool | None = None,
            name: str | None = None) -> "Dataset":
        """The function is called once, with nodes; C runs its graph on every element."""
        graph, inputs, arguments = self._trace_inputs()
        trace = _Trace(graph, inputs)
        _Trace.current.append(trace)
        try:
            with graph.as_default():
                result = map_func(*arguments) if isinstance(arguments, tuple) else map_func(arguments)
        finally:
            _Trace.current.pop()
        result = _values(result)
        form = _nest.structure(result)
        _nest.check_dict_keys(form)
        names = _nest.names(form)
        nodes = [as_node(leaf, graph) for leaf in _nest.flatten(result)]
        graph.check()
        fed, csv = trace.inputs, trace.csv

        def build(chain: Any, stage: Any) -> Any:
            keep = Keep()
            if csv is not None:
                chain = _csv_stage(chain, csv)
            return lib.est_dataset_map_graph(
                chain, _data._named_nodes(keep, fed), _data._named_nodes(keep, zip(names, nodes)),
                keep.options("est_map_graph_options", workers=_workers(num_parallel_calls)))

        return self._then(build, form)

    def filter(self, predicate: Callable, name: str | None = None) -> "Dataset":
        return self.filter_graph(predicate)

    def with_options(self, options: Options, name: str | None = None) -> "Dataset":
        """The same elements; the policy of sharding holds where a strategy distributes this dataset."""
        if not isinstance(options, Options):
            raise TypeError(f"options is a tf.data.Options, not {options!r}")
        dataset = self._then(lambda chain, stage: chain)
        dataset._policy = options.experimental_distribute.auto_shard_policy
        return dataset

    def _shard_policy(self) -> AutoShardPolicy:
        """Of the last with_options, here or before the stages that came after it."""
        seen: list = [self]
        for dataset in seen:
            if dataset.__dict__.get("_policy") is not None:
                return dataset._policy
            seen += [item for item in dataset._parents if isinstance(item, Dataset)]
        return AutoShardPolicy.AUTO

    def apply(self, transformation_func: Callable) -> "Dataset":
        return transformation_func(self)

    def enumerate(self, start: int = 0, name: str | None = None) -> "Dataset":
        return super().enumerate(start)

    def unbatch(self, name: str | None = None) -> "Dataset":
        return super().unbatch()

    def concatenate(self, dataset: "Dataset", name: str | None = None) -> "Dataset":
        return super().concatenate(dataset)

    def make_one_shot_iterator(self) -> Any:
        """An iterator of TensorFlow 1, for sessions."""
        from .compat.v1.data import make_one_shot_iterator
        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator of TensorFlow 1, for sessions."""
        from .compat.v1.data import make_initializable_iterator
        return make_initializable_iterator(self)

    def __repr__(self) -> str:
        return f"<Dataset element_spec={self.element_spec}>"


class OwnedIterator(_data.DatasetIterator):
    """The elements of a dataset as tensors. In a function that is traced the next element is one that every run of the
    function takes."""

    def __init__(self, dataset: Dataset):
        super().__init__(dataset)
        self.element_spec = dataset.element_spec

    def __iter__(self) -> "OwnedIterator":
        if current_trace() is not None:
            raise NeedsValue("a function that is traced cannot loop over an iterator; next() takes one element")
        return self

    def __next__(self) -> Any:
        trace = current_trace()
        if trace is not None:
            return trace.pull(self, self.element_spec)
        return wrap(super().__next__())

    def _next_values(self) -> list:
        return [np.asarray(leaf) for leaf in _nest.flatten(super().__next__())]

    def get_next(self) -> Any:
        """The next element; OutOfRangeError at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None


class TextLineDataset(Dataset):
    """The lines of text files."""

    def __init__(self, filenames: Any, compression_type: str | None = None, buffer_size: int | None = None,
                 num_parallel_reads: int | None = None, name: str | None = None):
        made = Dataset.from_text(_paths(filenames), compression=compression_type or None)
        Dataset.__init__(self, made._build, made._structure, names=made._own_names)

    def _then(self, function: Callable, structure: Any = None) -> Dataset:
        return Dataset._then(_plain(self), function, structure)


class TFRecordDataset(Dataset):
    """The records of TFRecord files; compression is detected."""

    def __init__(self, filenames: Any, compression_type: str | None = None, buffer_size: int | None = None,
                 num_parallel_reads: int | None = None, name: str | None = None):
        if compression_type not in (None, "", "GZIP", "ZLIB"):
            raise ValueError(f"compression_type is \"\", \"GZIP\" or \"ZLIB\"; got {compression_type!r}")
        made = Dataset.from_tfrecords(_paths(filenames))
        Dataset.__init__(self, made._build, made._structure, names=made._own_names)

    def _then(self, function: Callable, structure: Any = None) -> Dataset:
        return Dataset._then(_plain(self), function, structure)


def _plain(dataset: Dataset) -> Dataset:
    return Dataset(dataset._build, dataset._structure, (dataset,), dataset._own_names)


def _paths(filenames: Any) -> list[str]:
    filenames = unwrap(filenames)
    if isinstance(filenames, _data.Dataset):
        raise NotImplementedError("files are names; a dataset of names does not exist yet")
    if isinstance(filenames, (str, bytes, os.PathLike)):
        filenames = [filenames]
    return [path.decode() if isinstance(path, bytes) else os.fspath(path) for path in np.asarray(filenames).reshape(-1)]


def _cast(node: Node, dtype: Any) -> Node:
    from .. import ops
    return ops.cast(node, dtype)


def _signature(types: Any, shapes: Any) -> Any:
    if isinstance(types, dict):
        return {key: _signature(types[key], None if shapes is None else shapes[key]) for key in types}
    if isinstance(types, tuple):
        return tuple(_signature(item, None if shapes is None else shapes[i]) for i, item in enumerate(types))
    return TensorSpec(None if shapes is None else Shape(shapes), as_dtype(types))


#: tf.data.experimental
experimental = types.SimpleNamespace(AUTOTUNE=AUTOTUNE, AutoShardPolicy=AutoShardPolicy)

__all__ = ["AUTOTUNE", "Dataset", "Options", "TFRecordDataset", "TextLineDataset", "experimental"]
__getattr__ = module_getattr(__name__)
