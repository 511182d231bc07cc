# SPDX-License-Identifier: Apache-2.0
"""tf.data: functions of map and filter are traced once, and C runs their graphs, as in TensorFlow."""
from __future__ import annotations

import csv
import enum
import glob
import gzip
import itertools
import logging
import os
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from .. import io as _io
from .._lib import Keep, c_seed, lib
from .._tensor import DType, as_array, as_dtype, float32, float64, int32, int64, string
from ..errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from ..graph import Graph, NeedsValue, Node, RaggedNode, Shape
from . import _data_groups as _groups
from . import _structure
from ._absent import Named, module_getattr
from ._eager import Tensor, unwrap, wrap
from ._ragged import RaggedTensor, RaggedTensorSpec
from ._sparse import SparseTensor
from ._trace import current_trace
from ._world import next_seed

AUTOTUNE = -1
_INFINITE, _UNKNOWN = -1, -2
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
        self.rows: set[tuple] = set()  # nodes that are the values of one row of a VarLenFeature


def note_row(node: Node) -> None:
    """The values of a VarLenFeature of one row: batch() makes ragged ones of them."""
    if _Trace.current:
        _Trace.current[-1].rows.add(_key(node))


def _key(node: Node) -> tuple:
    return int(node._c.id), int(node._c.output)


def decode_csv_in_map(records: Node, columns: list, delimiter: str, quotes: bool, na_value: str) -> list[Node]:
    """tf.io.decode_csv: the line is decoded by a stage before the graph, which gets the fields."""
    trace = _Trace.current[-1] if _Trace.current else None
    if trace is not None and records.shape != ():
        raise NeedsValue("tf.io.decode_csv of several lines is computed outside of graphs")
    if trace is None or len(trace.inputs) != 1 or trace.inputs[0][1] is not records or records.shape != ():
        raise NotImplementedError("tf.io.decode_csv takes the line that the function of Dataset.map is given, before "
                                  "any batch(); estoc.Dataset.from_csv decodes batches")
    if trace.csv is not None:
        raise NotImplementedError("tf.io.decode_csv can be called once in a function")
    names = [f"column_{i}" for i in range(len(columns))]
    nodes = [trace.graph.placeholder(name, dtype, []) for name, (dtype, _) in zip(names, columns)]
    trace.csv = (list(zip(names, columns)), delimiter, quotes, na_value)
    trace.inputs = list(zip(names, nodes))
    return nodes


def decode_csv_now(records: Any, columns: list, delimiter: str, quotes: bool, na_value: str) -> list:
    """tf.io.decode_csv of lines that have values."""
    lines = as_array(unwrap(records))
    names = [f"column_{i}" for i in range(len(columns))]
    csv = (list(zip(names, columns)), delimiter, quotes, na_value)
    source = Dataset.from_tensor_slices(lines.reshape(-1))
    rows = Dataset(lambda stage: _csv_stage(source._chain(stage), csv), tuple(_nest.LEAF for _ in names), (source,), names)
    found = next(_data.DatasetIterator(rows.batch(max(lines.size, 1))), None)
    if found is None or len(found[0]) != lines.size:
        raise ValueError("tf.io.decode_csv: a line is empty")
    return [wrap(field.reshape(lines.shape)) for field in found]


def _csv_stage(chain: Any, csv: Any, field_names: Any = (), ignore_errors: bool = False) -> Any:
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
                     na_value=keep.string(na_value or None), field_names=keep.strings(field_names)), 1,
        keep.options("est_parse_options", bad_rows_max=_data.FOREVER if ignore_errors else 0)))


def _workers(num_parallel_calls: int | None) -> int:
    return 0 if num_parallel_calls is None else num_parallel_calls


def _values(value: Any) -> Any:
    """Tensors as arrays or nodes; ragged ones as what estoc has for them."""
    return _nest.map_structure(_value, value)


def _value(leaf: Any) -> Any:
    if isinstance(leaf, SparseTensor):
        raise NotImplementedError("a sparse tensor cannot be an element of a dataset: tf.sparse.to_dense makes a dense one of "
                                  "it, tf.RaggedTensor.from_sparse a ragged one")
    return RaggedNode.of(unwrap(leaf))


class _Source:
    """Tensors of a graph that a dataset is made of: an iterator's initializer computes them."""

    bound: "dict[_Source, list]" = {}  # while a dataset is built for an iterator

    def __init__(self, nodes: list):
        self.nodes = nodes

    @staticmethod
    def of(dataset: "_data.Dataset") -> "list[_Source]":
        """Those of a dataset, through all its stages."""
        own = getattr(dataset, "_source", None)
        return ([] if own is None else [own]) + [found for parent in dataset._parents for found in _Source.of(parent)]


def _over_nodes(nodes: list, make: Callable[[list], "_data.Dataset"], spec: Any) -> "Dataset":
    """make(values of the nodes), whose elements look like spec."""
    source = _Source(nodes)

    def build(stage: Any) -> Any:
        values = _Source.bound.get(source)

        def rows() -> Any:
            if values is None:
                raise FailedPreconditionError("a dataset over tensors of a graph has no elements before the "
                                              "initializer of an iterator (make_initializable_iterator) is run")
            return _data.DatasetIterator(make(values))

        return Dataset.from_generator(rows, output_signature=spec)._chain(stage)

    form = _nest.structure(spec)
    dataset = Dataset(build, form, (), _nest.names(form))
    dataset._source = source
    return dataset


def _tensors_over_nodes(tensors: Any, function: Callable, row_of: Callable) -> "Dataset | None":
    """The dataset of function(tensors) if one of them is a tensor of a graph."""
    leaves = _nest.flatten(tensors)
    nodes = [leaf for leaf in leaves if isinstance(leaf, Node)]
    if not nodes:
        return None
    form = _nest.structure(tensors)

    def make(values: list) -> Any:
        rest = iter(values)
        return function(_nest.pack(form, [next(rest) if isinstance(leaf, Node) else leaf for leaf in leaves]))

    def spec_of(leaf: Any) -> TensorSpec:
        given = leaf if isinstance(leaf, Node) else as_array(leaf)
        return TensorSpec(None if given.shape is None else row_of(given.shape), given.dtype)

    return _over_nodes(nodes, make, _nest.pack(form, [spec_of(leaf) for leaf in leaves]))


class Dataset(Named, _data.Dataset):
    """tf.data.Dataset. Elements are tensors."""

    _where = "tf.data.Dataset"
    _own_rows: frozenset | None = None
    _own_raggeds: frozenset | None = None

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
        if any(isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(tensors)):
            return cls._of_ragged(tensors, True)
        dataset = _tensors_over_nodes(_values(tensors), cls.from_tensor_slices, lambda shape: shape[1:])
        if dataset is not None:
            return dataset
        dataset = cls._from_tensors(_values(tensors), True, "est_dataset_slices")
        dataset._count = len(as_array(_nest.flatten(_values(tensors))[0])) if not isinstance(tensors, list) else len(tensors)
        return dataset

    @classmethod
    def _of_ragged(cls, tensors: Any, rows: bool) -> "Dataset":
        """Slices, or one element, of tensors of which some are ragged: those are constants of a map, which takes the
        row with the number of the element."""
        form, leaves = _nest.structure(tensors), _nest.flatten(tensors)
        for leaf in leaves:
            if isinstance(leaf, RaggedTensor) and leaf.ragged_rank > (2 if rows else 1):
                RaggedTensorSpec.from_value(leaf[0] if rows else leaf).component()

        def count(leaf: Any) -> int:
            return int(leaf.shape[0]) if hasattr(leaf, "shape") else len(leaf)

        counts = {count(leaf) for leaf in leaves} if rows else {1}
        if len(counts) > 1:
            raise ValueError(f"Dimensions {sorted(counts)} are not compatible")
        numbers = np.arange(counts.pop())
        plain = tuple(leaf for leaf in leaves if not isinstance(leaf, RaggedTensor))
        source = cls.from_tensor_slices((numbers, *plain)) if rows else cls.from_tensors((np.int64(0), *plain))

        def element(number: Any, *values: Any) -> Any:
            rest = iter(values)
            return _nest.pack(form, [(_ragged_row(leaf, number) if rows else leaf) if isinstance(leaf, RaggedTensor)
                                     else next(rest) for leaf in leaves])

        made = source.map(element)
        if rows:
            names = dict(zip(made._names, leaves))
            made._own_rows = made._own_raggeds = frozenset(
                name for name, leaf in names.items() if isinstance(leaf, RaggedTensor) and leaf.ragged_rank == 1) | (
                    made._own_raggeds or frozenset())
            made._own_rows = frozenset(name for name in made._own_rows if names[name].ragged_rank == 1)
        return made

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> "Dataset":
        if any(isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(tensors)):
            return cls._of_ragged(tensors, False)
        dataset = _tensors_over_nodes(_values(tensors), cls.from_tensors, lambda shape: shape)
        if dataset is not None:
            return dataset
        dataset = cls._from_tensors(_values(tensors), True, "est_dataset_tensors")
        dataset._count = 1
        return dataset

    @classmethod
    def range(cls, *args: int, output_type: Any = int64, name: str | None = None) -> "Dataset":
        bounds = [unwrap(bound) for bound in args]
        nodes = [bound for bound in bounds if isinstance(bound, Node)]
        if nodes:
            def make(values: list) -> Any:
                rest = iter(values)
                return cls.range(*(next(rest) if isinstance(bound, Node) else bound for bound in bounds),
                                 output_type=output_type)

            return _over_nodes(nodes, make, TensorSpec((), output_type))
        dataset = super().range(*(int(bound) for bound in args))
        dataset._count = len(range(*(int(bound) for bound in args)))
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
        arguments = tuple(unwrap(item) for item in args or ())
        plain = _values if _nest.structure(output_signature) is not _nest.LEAF or isinstance(
            output_signature, RaggedTensorSpec) else lambda row: as_array(unwrap(row))
        return _of_rows(lambda: map(plain, generator(*arguments)), output_signature)

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
        zipped = _data.Dataset.zip.__func__(Dataset, tuple(datasets))
        names, rows, raggeds = iter(zipped._names), set(), set()
        for dataset in datasets:
            for old, new in zip(dataset._names, names):
                rows.update([new] if old in dataset._rows else [])
                raggeds.update([new] if old in dataset._raggeds else [])
        zipped._own_rows, zipped._own_raggeds = frozenset(rows), frozenset(raggeds)
        counts = [dataset._count for dataset in datasets]
        finite = [count for count in counts if count >= 0]
        zipped._count = _UNKNOWN if _UNKNOWN in counts else min(finite, default=_INFINITE)
        return zipped

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_calls: int | None = None,
              deterministic: bool | None = None, name: str | None = None) -> "Dataset":
        size = int(batch_size)
        made = self._batch(size, bool(drop_remainder), lib.EST_ROWS_RAGGED if self._rows else 0)
        made._own_rows, made._own_raggeds = frozenset(), self._raggeds
        return self._sized(made, lambda n: n if n == float("inf") else n // size if drop_remainder else -(-n // size))

    def ragged_batch(self, batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = int64,
                     name: str | None = None) -> "Dataset":
        """batch_size elements become one; of those whose first axis differs rows of a ragged tensor."""
        if as_dtype(row_splits_dtype) != int64:
            raise NotImplementedError("ragged_batch: row_splits_dtype is tf.int64")
        if any(spec.ragged for _, spec in self._components()):
            raise NotImplementedError("a batch of ragged tensors would have several levels: merge_dims() makes one of them")
        open_ = frozenset(name for name, spec in self._components() if spec.shape is None or spec.shape[:1] == (None,))
        marked = self._then(lambda chain, stage: chain)
        marked._own_rows = marked._own_raggeds = open_
        return self._sized(marked, lambda n: n).batch(batch_size, drop_remainder)

    @property
    def _raggeds(self) -> frozenset:
        """Names of components that are ragged tensors, or rows of them; others with splits are of VarLenFeatures."""
        if self._own_raggeds is None and self._parents and self._structure is self._parents[0]._structure:
            return getattr(self._parents[0], "_raggeds", frozenset())
        return self._own_raggeds or frozenset()

    def _tensors(self, element: Any) -> Any:
        """Arrays of an element as tensors."""
        if not self._raggeds:
            return wrap(element)
        return _nest.pack(self.structure, [_ragged_of(leaf, name in self._raggeds) for name, leaf in zip(
            self._names, _nest.flatten(element))])

    @property
    def element_spec(self) -> Any:
        """What elements look like."""
        spec = super().element_spec
        if not self._raggeds:
            return spec
        return _nest.pack(self.structure, [_ragged_spec(leaf) if name in self._raggeds else leaf for name, leaf in zip(
            self._names, _nest.flatten(spec))])

    @property
    def _rows(self) -> frozenset:
        """Names of components that are the values of a VarLenFeature in one row."""
        if self._own_rows is None and self._parents and self._structure is self._parents[0]._structure:
            return getattr(self._parents[0], "_rows", frozenset())
        return self._own_rows or frozenset()

    def padded_batch(self, batch_size: int, padded_shapes: Any = None, padding_values: Any = None,
                     drop_remainder: bool = False, name: str | None = None) -> "Dataset":
        plain = padded_shapes is None and (padding_values is None or np.isscalar(padding_values) and not isinstance(
            padding_values, (str, bytes))) and all(spec.shape is not None for _, spec in self._components())
        if not plain or padding_values is not None and len({spec.dtype for _, spec in self._components()}) > 1:
            made = _groups.padded_batch(self, _of_rows, int(batch_size), padded_shapes, padding_values, bool(drop_remainder))
            return self._sized(made, lambda n: n if n == float("inf") else n // int(batch_size) if drop_remainder else
                               -(-n // int(batch_size)))
        size = int(batch_size)
        return self._sized(super().padded_batch(size, drop_remainder, padding_values or 0),
                           lambda n: n if n == float("inf") else n // size if drop_remainder else -(-n // size))

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool | None = None,
                name: str | None = None) -> "Dataset":
        seed = (next_seed() or None) if seed is None else int(seed)
        return self._sized(super().shuffle(int(buffer_size), seed, reshuffle_each_iteration is not False), lambda n: n)

    def _new_graph(self) -> Graph:
        return Graph(next_seed())

    def repeat(self, count: int | None = None, name: str | None = None) -> "Dataset":
        times = float("inf") if count in (None, -1) else int(count)
        return self._sized(super().repeat(count), lambda n: 0 if 0 in (n, times) else n * times)

    def take(self, count: int, name: str | None = None) -> "Dataset":
        return self._sized(super().take(int(count)), lambda n: n if count == -1 else min(n, int(count)))

    def skip(self, count: int, name: str | None = None) -> "Dataset":
        return self._sized(super().skip(int(count)), lambda n: 0 if count == -1 else max(n - int(count), 0))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> "Dataset":
        return self._sized(super().shard(int(num_shards), int(index)), lambda n: n if n == float("inf") else len(
            range(int(index), n, int(num_shards))))

    def prefetch(self, buffer_size: int, name: str | None = None) -> "Dataset":
        return self._sized(super().prefetch(int(buffer_size)), lambda n: n)

    def cache(self, filename: Any = "", name: str | None = None) -> "Dataset":
        return self._sized(super().cache(os.fspath(filename) or None), lambda n: n)

    def map(self, map_func: Callable, num_parallel_calls: int | None = None, deterministic: bool | None = None,
            name: str | None = None) -> "Dataset":
        """The function is called once, with nodes; C runs its graph on every element. One that needs values is called
        for each element, with a warning."""
        graph, inputs, arguments = self._trace_inputs()
        trace = _Trace(graph, inputs)
        trace.rows.update(_key(node) for name, node in inputs if name in self._rows)
        _Trace.current.append(trace)
        try:
            with graph.as_default():
                result = map_func(*arguments) if isinstance(arguments, tuple) else map_func(arguments)
            raggeds = [isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(_unlisted_tuple(result))]
        except NeedsValue as why:
            return self._map_called(map_func, why)
        finally:
            _Trace.current.pop()
        if lib.est_global_variables(graph._c).n > 0:
            return self._map_called(map_func, "it reads variables, which may change")
        result = _values(_unlisted_tuple(result))
        form = _nest.structure(result)
        _nest.check_dict_keys(form)
        names = _nest.names(form)
        nodes = [_data.ragged_or_node(leaf, graph) for leaf in _nest.flatten(result)]
        graph.check()
        fed, csv = trace.inputs, trace.csv

        def build(chain: Any, stage: Any) -> Any:
            if csv is not None:
                chain = _csv_stage(chain, csv)
            return _data.c_map_graph(chain, fed, zip(names, nodes), _workers(num_parallel_calls))

        made = self._then(build, form)
        made._own_rows = frozenset(name for name, node in zip(names, nodes)
                                   if isinstance(node, Node) and _key(node) in trace.rows)
        kept = {_key(node) for name, node in inputs if name in self._rows & self._raggeds}
        made._own_raggeds = frozenset(name for name, node, ragged in zip(names, nodes, raggeds) if ragged or
                                      isinstance(node, Node) and _key(node) in kept)
        return self._sized(made, lambda n: n)

    def _map_called(self, map_func: Callable, why: Any) -> "Dataset":
        _warn_called(map_func, why)

        raggeds: list = []

        def call(*element: Any) -> Any:
            given = self._tensors(element if isinstance(self.structure, tuple) else element[0])
            result = map_func(*given) if isinstance(given, tuple) else map_func(given)
            result = _structure.map_structure(_unlisted, _unlisted_tuple(result))
            raggeds[:] = [isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(result)]
            return _values(result)

        specs: list = []
        for element in _data.DatasetIterator(self.take(2)):  # a dimension that differs is open
            result = _data.called(call, *element) if isinstance(element, tuple) else _data.called(call, element)
            specs.append(_nest.map_structure(_spec_of, result))
        if not specs:
            raise ValueError("the dataset is empty, so that nothing says what the function returns")
        made = _merged(specs[0], specs[-1])
        if any(spec.shape is not None and spec.shape[:1] == (None,) for _, spec in self._components()):
            # the last batch is smaller
            made = _nest.map_structure(lambda spec: TensorSpec((None, *spec.shape[1:]), spec.dtype, ragged=spec.ragged)
                                       if len(spec.shape) else spec, made)
        dataset = self._sized(_data.Dataset.map(self, call, made), lambda n: n)
        dataset._own_raggeds = frozenset(name for name, ragged in zip(dataset._names, raggeds) if ragged)
        return dataset

    def filter(self, predicate: Callable, name: str | None = None) -> "Dataset":
        try:
            return self.filter_graph(predicate)
        except NeedsValue as why:
            _warn_called(predicate, why)
            return _data.Dataset.filter(self, lambda *element: self._call_with(predicate, element if isinstance(
                self.structure, tuple) else element[0]))

    def _trace_inputs(self) -> tuple:
        graph, inputs, arguments = super()._trace_inputs()
        return graph, inputs, self._tensors(arguments)

    def interleave(self, map_func: Callable, cycle_length: int | None = None, block_length: int | None = None,
                   num_parallel_calls: int | None = None, deterministic: bool | None = None,
                   name: str | None = None) -> "Dataset":
        """map_func is called with each element and makes a dataset of it; C reads cycle_length of them in turn."""
        if cycle_length in (None, AUTOTUNE):
            cycle_length = 1 if num_parallel_calls is None else min(os.cpu_count() or 1, 10)
        return super().interleave(lambda *element: self._call_with(map_func, element if isinstance(
            self.structure, tuple) else element[0]), int(cycle_length), int(block_length or 1),
            0 if num_parallel_calls is None else 1)

    def flat_map(self, map_func: Callable, name: str | None = None) -> "Dataset":
        """The elements of the datasets that map_func makes of elements, one dataset after the other."""
        return self.interleave(map_func, 1)

    def reduce(self, initial_state: Any, reduce_func: Callable, name: str | None = None) -> Any:
        """reduce_func(state, element) over all elements, at once."""
        from ._function import Function
        state = _structure.map_structure(lambda leaf: wrap(as_array(unwrap(leaf))), initial_state)
        step = Function(reduce_func, autograph=True)
        for element in self:
            state = step(state, element)
        return state

    def group_by_window(self, key_func: Callable, reduce_func: Callable, window_size: Any = None,
                        window_size_func: Callable | None = None, name: str | None = None) -> "Dataset":
        """The elements of reduce_func(key, dataset), of up to window_size elements with the same key each."""
        if (window_size is None) == (window_size_func is None):
            raise ValueError("Either the `window_size` argument or the `window_size_func` argument must be specified, but "
                             "not both.")
        return _groups.group_by_window(self, _of_rows, key_func, reduce_func, window_size_func or (lambda key: window_size))

    def bucket_by_sequence_length(self, element_length_func: Callable, bucket_boundaries: Any, bucket_batch_sizes: Any,
                                  padded_shapes: Any = None, padding_values: Any = None,
                                  pad_to_bucket_boundary: bool = False, no_padding: bool = False,
                                  drop_remainder: bool = False, name: str | None = None) -> "Dataset":
        """Padded batches of elements of similar lengths."""
        return _groups.bucket_by_sequence_length(self, _of_rows, element_length_func, bucket_boundaries, bucket_batch_sizes,
                                                 padded_shapes, padding_values, pad_to_bucket_boundary, no_padding,
                                                 drop_remainder)

    def save(self, path: Any, compression: str | None = None, shard_func: Any = None, checkpoint_args: Any = None) -> None:
        """Writes the elements below a directory, for load; TensorFlow does not read it."""
        if compression not in (None, "NONE") or shard_func is not None or checkpoint_args is not None:
            raise NotImplementedError("Dataset.save: compression, shard_func and checkpoint_args do not exist")
        _groups.save(self, path)

    @staticmethod
    def load(path: Any, element_spec: Any = None, compression: str | None = None,
             reader_func: Any = None) -> "Dataset":
        """The elements that save of this package has written."""
        if compression not in (None, "NONE") or reader_func is not None:
            raise NotImplementedError("Dataset.load: compression and reader_func do not exist")
        loaded = _groups.load(path, _of_rows)
        if element_spec is not None and _nest.structure(element_spec) != _nest.structure(loaded.element_spec):
            raise ValueError(f"the saved elements are {loaded.element_spec}, not {element_spec}")
        return loaded

    def take_while(self, predicate: Callable, name: str | None = None) -> "Dataset":
        """The elements before the first for which the function is false."""
        def rows() -> Iterator[Any]:
            return itertools.takewhile(lambda row: bool(self._call_with(predicate, row)), _data.DatasetIterator(self))

        return _of_rows(rows, self.element_spec)

    def scan(self, initial_state: Any, scan_func: Callable, name: str | None = None) -> "Dataset":
        """scan_func(state, element) gives the next state and an element."""
        first = _structure.map_structure(lambda leaf: wrap(as_array(unwrap(leaf))), initial_state)

        def rows() -> Iterator[Any]:
            state = first
            for row in _data.DatasetIterator(self):
                state, made = scan_func(state, self._tensors(row))
                yield _values(made)

        made = next(rows(), None)
        if made is None:
            raise ValueError("the dataset is empty, so that nothing says what the function returns")
        spec = _nest.map_structure(lambda leaf: TensorSpec(as_array(leaf).shape, as_array(leaf).dtype), made)
        return self._sized(_of_rows(rows, spec), lambda n: n)

    def unique(self, name: str | None = None) -> "Dataset":
        """Every value once, where it is first."""
        def rows() -> Iterator[Any]:
            seen: set = set()
            for row in _data.DatasetIterator(self):
                key = row if isinstance(row, bytes) else (np.asarray(row).tobytes(), np.shape(row))
                if key not in seen:
                    seen.add(key)
                    yield row

        return _of_rows(rows, self.element_spec)

    def get_single_element(self, name: str | None = None) -> Any:
        """The element of a dataset of one."""
        found = list(itertools.islice(iter(self), 2))
        if len(found) != 1:
            raise InvalidArgumentError("Dataset was empty." if not found else "Dataset had more than one element.")
        return found[0]

    def _call_with(self, function: Callable, row: Any) -> Any:
        row = self._tensors(row)
        return function(*row) if isinstance(row, tuple) else function(row)

    def window(self, size: int, shift: int | None = None, stride: int = 1, drop_remainder: bool = False,
               name: str | None = None) -> "Windows":
        """`size` elements, every stride-th, as a dataset; the next one begins `shift` elements later."""
        return Windows(self, int(size), int(size if shift is None else shift), int(stride), bool(drop_remainder))

    def snapshot(self, path: Any, compression: str = "AUTO", reader_func: Any = None, shard_func: Any = None,
                 name: str | None = None) -> "Dataset":
        """The elements of the first complete pass are kept in a file below `path`, also for the next program."""
        if reader_func is not None or shard_func is not None:
            raise NotImplementedError("snapshot: functions for reading and sharding do not exist yet")
        os.makedirs(os.fspath(path), exist_ok=True)
        return self.cache(os.path.join(os.fspath(path), "snapshot"))

    @staticmethod
    def sample_from_datasets(datasets: Any, weights: Any = None, seed: int | None = None,
                             stop_on_empty_dataset: bool = False, rerandomize_each_iteration: bool | None = None
                             ) -> "Dataset":
        """Elements of one of the datasets each time, drawn with these probabilities."""
        datasets = list(datasets)
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        odds = np.full(len(datasets), 1.0) if weights is None else np.asarray(as_array(unwrap(weights)), np.float64)
        if odds.shape != (len(datasets),):
            raise ValueError(f"Invalid `weights`. The shape of `weights` should be [{len(datasets)}].")

        seed = (next_seed() or None) if seed is None else int(seed)
        passes = itertools.count() if rerandomize_each_iteration else itertools.repeat(0)

        def rows() -> Iterator[Any]:
            order = next(passes)
            random = np.random.RandomState(None if seed is None else [c_seed(seed) % 2**32, c_seed(seed) >> 32, order])
            left = odds.copy()
            iterators = [_data.DatasetIterator(dataset) for dataset in datasets]
            while left.sum() > 0:
                number = int(random.choice(len(datasets), p=left / left.sum()))
                element = next(iterators[number], None)
                if element is not None:
                    yield element
                elif stop_on_empty_dataset:
                    return
                else:
                    left[number] = 0

        return _of_rows(rows, datasets[0].element_spec)

    def rejection_resample(self, class_func: Callable, target_dist: Any, initial_dist: Any = None, seed: int | None = None,
                           name: str | None = None) -> "Dataset":
        """Pairs of class and element, some left out at random so that the classes have that distribution. initial_dist is
        what they have here; without it what was seen so far."""
        wanted = np.asarray(as_array(unwrap(target_dist)), np.float64)
        known = None if initial_dist is None else np.asarray(as_array(unwrap(initial_dist)), np.float64)
        if known is not None and known.shape != wanted.shape:
            raise ValueError(f"target_dist of {wanted.shape} and initial_dist of {known.shape}")
        seed = (next_seed() or None) if seed is None else int(seed)
        of_class = self.map(class_func)
        spec = (of_class.element_spec, self.element_spec)

        def rows() -> Iterator[Any]:
            random = np.random.RandomState(None if seed is None else [c_seed(seed) % 2**32, c_seed(seed) >> 32])
            counts = np.ones(len(wanted))
            for one, element in _data.DatasetIterator(_data.Dataset.zip.__func__(Dataset, (of_class, self))):
                counts[int(one)] += 1
                odds = wanted / np.maximum(counts / counts.sum() if known is None else known, 1e-12)
                if random.random_sample() * odds.max() < odds[int(one)]:
                    yield one, element

        return _of_rows(rows, spec)

    @staticmethod
    def choose_from_datasets(datasets: Any, choice_dataset: "Dataset", stop_on_empty_dataset: bool = True) -> "Dataset":
        """The next element of the dataset that the next number of choice_dataset says."""
        datasets = list(datasets)

        def rows() -> Iterator[Any]:
            iterators = [_data.DatasetIterator(dataset) for dataset in datasets]
            for choice in _data.DatasetIterator(choice_dataset):
                element = next(iterators[int(choice)], None)
                if element is not None:
                    yield element
                elif stop_on_empty_dataset:
                    return

        return _of_rows(rows, datasets[0].element_spec)

    def cardinality(self, name: str | None = None) -> Any:
        """How many elements there are; -1: no end, -2: unknown before they are counted."""
        return wrap(np.int64(self._count))

    def __len__(self) -> int:
        if self._count < 0:
            raise TypeError("The dataset is infinite." if self._count == _INFINITE else "The dataset length is unknown.")
        return self._count

    def __bool__(self) -> bool:
        return True

    _count = _UNKNOWN

    def _sized(self, dataset: "Dataset", count: Any) -> "Dataset":
        """A dataset made of this one: as many elements as count says, of a known number of them."""
        if self._count == _UNKNOWN:
            known = _UNKNOWN
        elif self._count == _INFINITE:
            known = count(float("inf"))
        else:
            known = count(self._count)
        dataset._count = _INFINITE if known == float("inf") else int(known)
        return dataset

    def with_options(self, options: Options, name: str | None = None) -> "Dataset":
        """The same elements; the policy of sharding holds where a strategy distributes this dataset."""
        if not isinstance(options, Options):
            raise TypeError(f"options is a tf.data.Options, not {options!r}")
        dataset = self._sized(self._then(lambda chain, stage: chain), lambda n: n)
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

    # of TensorFlow 1
    output_types = property(lambda self: _nest.map_structure(lambda spec: spec.dtype, self.element_spec))
    output_shapes = property(lambda self: _nest.map_structure(lambda spec: spec.shape, self.element_spec))

    def enumerate(self, start: int = 0, name: str | None = None) -> "Dataset":
        made = super().enumerate(start)
        new = dict(zip(self._names, made._names[1:]))
        made._own_rows = frozenset(new[old] for old in self._rows)
        made._own_raggeds = frozenset(new[old] for old in self._raggeds)
        return self._sized(made, lambda n: n)

    def unbatch(self, name: str | None = None) -> "Dataset":
        made = super().unbatch()
        ragged = frozenset(name for name, spec in self._components() if spec.ragged)
        made._own_rows, made._own_raggeds = ragged, ragged & self._raggeds
        return made

    def concatenate(self, dataset: "Dataset", name: str | None = None) -> "Dataset":
        joined = super().concatenate(dataset)
        if dataset._count == _UNKNOWN:
            return joined
        return self._sized(joined, lambda n: n + (float("inf") if dataset._count == _INFINITE else dataset._count))

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
        windows = _of_rows(self._rows, specs)
        form = self._source.structure

        def call(*parts: Any) -> Any:
            window = parts if isinstance(form, tuple) else parts[0]
            return map_func(*self._datasets(window)) if isinstance(form, tuple) else map_func(self._datasets(window))

        return windows.interleave(call, cycle_length, block_length, num_parallel_calls)

    def flat_map(self, map_func: Callable, name: str | None = None) -> Dataset:
        return self.interleave(map_func, 1)


def _warn_called(function: Callable, why: NeedsValue) -> None:
    logging.getLogger("tensorflow").warning(
        "%s is called for every element, which takes Python's lock: %s", getattr(function, "__name__", "a function of a "
                                                                                 "dataset"), why)


def _unlisted(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, (bool, np.bool_)) else leaf


def _of_rows(rows: Callable, spec: Any) -> Dataset:
    """The arrays that the iterables of rows() yield, which look like spec."""
    made = _data.Dataset.from_generator.__func__(Dataset, rows, spec)
    made._own_raggeds = frozenset(name for name, leaf in zip(made._names, _nest.flatten(spec)) if isinstance(
        leaf, RaggedTensorSpec))
    made._own_rows = frozenset(name for name, leaf in zip(made._names, _nest.flatten(spec)) if isinstance(
        leaf, RaggedTensorSpec) and leaf.ragged_rank == 0)
    return made


def _unlisted_tuple(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def _spec_of(leaf: Any) -> TensorSpec:
    """What an array or a ragged one of an element looks like."""
    if isinstance(leaf, _io.RaggedArray):
        return TensorSpec((None, *leaf.values.shape[1:]), leaf.values.dtype, ragged=True)
    array = as_array(leaf)
    return TensorSpec(array.shape, array.dtype)


def _ragged_of(leaf: Any, ragged: bool) -> Any:
    """A part of an element as a tensor."""
    if ragged and isinstance(leaf, (_io.RaggedArray, RaggedNode)):
        values = leaf.values if isinstance(leaf.values, Node) else Tensor(leaf.values)
        return RaggedTensor._of(values, leaf.splits)
    return wrap(leaf)


def _ragged_spec(spec: TensorSpec) -> Any:
    """That of a ragged tensor, or of one row of it."""
    if spec.ragged:
        return RaggedTensorSpec((None, None, *spec.shape[1:]), spec.dtype, 1)
    return RaggedTensorSpec(spec.shape, spec.dtype, 0)


def _ragged_row(value: RaggedTensor, number: Node) -> Any:
    """The row with a number that is known when it is run."""
    from .. import ops
    graph = number.graph
    splits = graph.constant(value._splits.astype(np.int64))
    start, end = ops.gather(splits, number), ops.gather(splits, number + 1)
    places = graph.node(lib.est_range(start._c, end._c, graph.constant(np.int64(1))._c))
    inner = value._inner
    if not isinstance(inner, RaggedTensor):
        return ops.gather(graph.constant(unwrap(inner)), places)
    ends = graph.constant(inner._splits.astype(np.int64))
    first = ops.gather(ends, start)
    one = graph.constant(np.int64(1))
    cut = graph.node(lib.est_range(start._c, (end + one)._c, one._c))
    below = graph.node(lib.est_range(first._c, ops.gather(ends, end)._c, one._c))
    return RaggedTensor._of(ops.gather(graph.constant(unwrap(inner._inner)), below), ops.gather(ends, cut) - first)


def _merged(a: Any, b: Any) -> Any:
    """Two specs as one that both fit."""
    specs = [TensorSpec(None if len(x.shape) != len(y.shape) else tuple(m if m == n else None for m, n in
                                                                          zip(x.shape, y.shape)), x.dtype, ragged=x.ragged)
             for x, y in zip(_nest.flatten(a), _nest.flatten(b))]
    return _nest.pack(_nest.structure(a), specs)


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
        return self._dataset._tensors(super().__next__())

    def _next_values(self) -> list:
        if any(self._ragged):
            return [np.asarray(unwrap(part)) for part in _structure.flatten(self._dataset._tensors(super().__next__()))]
        return [np.asarray(leaf) for leaf in _nest.flatten(super().__next__())]

    def save_position(self) -> np.ndarray:
        """For a checkpoint; nothing at the end."""
        return np.zeros(0, np.uint8) if self._c is None else self.save()

    def restore_position(self, position: np.ndarray) -> None:
        """Goes to a saved position, wherever the iterator is."""
        self.close()
        if position.size:
            self._open()
            self.restore(position)

    def get_next(self) -> Any:
        """The next element; OutOfRangeError at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None


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
        return _over_nodes([filenames], lambda values: read(_paths(values[0])), TensorSpec((), string))
    if isinstance(filenames, _data.Dataset):
        return filenames.interleave(lambda name: read(_paths(name)), 1 if parallel is None else parallel,
                                    num_parallel_calls=parallel)
    return read(_paths(filenames))


def _paths(filenames: Any) -> list[str]:
    filenames = unwrap(filenames)
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


# --- CSV --------------------------------------------------------------------------------------------------------------


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
        return Dataset(lambda stage: _csv_stage(lines._chain(stage), (rows, field_delim, use_quote_delim, na_value),
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
    rows_of = lines._then(lambda chain, stage: _csv_stage(chain, (columns, field_delim, use_quote_delim, na_value), fields,
                                                          ignore_errors), form)
    if shuffle:
        rows_of = rows_of.shuffle(shuffle_buffer_size, shuffle_seed)
    dataset = rows_of.repeat(num_epochs).batch(batch_size, drop_remainder=num_epochs is None)
    if label_name is not None:
        dataset = dataset.map(lambda row: ({name: row[name] for name in wanted if name != label_name}, row[label_name]))
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def Counter(start: int = 0, step: int = 1, dtype: Any = int64) -> Dataset:  # noqa: N802
    """Numbers without end (tf.data.experimental.Counter)."""
    dataset = Dataset.range(start, 2**62 if step > 0 else -2**62, step, output_type=dtype)
    dataset._count = _INFINITE
    return dataset


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
    INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2

    @staticmethod
    def cardinality(dataset: Dataset) -> Any:
        return dataset.cardinality()


__all__ = ["AUTOTUNE", "Dataset", "Options", "TFRecordDataset", "TextLineDataset", "experimental"]
__getattr__ = module_getattr(__name__)
