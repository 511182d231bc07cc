# SPDX-License-Identifier: Apache-2.0
"""tf.data.Dataset and its iterators: functions of map and filter are traced once, and C runs their graphs, as in
TensorFlow."""
from __future__ import annotations

import itertools
import logging
import os
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from .._lib import c_seed, lib
from .._tensor import as_array, as_dtype, int64
from ..data import TensorSpec
from ..errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from ..graph import Graph, NeedsValue, Node
from . import _data_groups as _groups
from . import _structure
from ._absent import Named
from ._data_elements import (array_spec, cast_to, merged, plain_values, ragged_of, ragged_row, ragged_spec, signature_of, unlisted,
                             unlisted_tuple)
from ._data_options import AUTOTUNE, INFINITE, UNKNOWN, AutoShardPolicy, Options
from ._eager import unwrap, wrap
from ._map_trace import MapTrace, csv_stage, key_of
from ._ragged import RaggedTensor, RaggedTensorSpec
from ._trace import current_trace
from ._world import next_seed


def _workers(num_parallel_calls: int | None) -> int:
    if num_parallel_calls == 0:
        raise InvalidArgumentError("num_parallel_calls must be greater than zero.")
    return 0 if num_parallel_calls is None else num_parallel_calls


class Source:
    """Tensors of a graph that a dataset is made of: an iterator's initializer computes them."""

    bound: "dict[Source, list]" = {}  # while a dataset is built for an iterator

    def __init__(self, nodes: list):
        self.nodes = nodes

    @staticmethod
    def of(dataset: "_data.Dataset") -> "list[Source]":
        """Those of a dataset, through all its stages."""
        own = getattr(dataset, "_source", None)
        return ([] if own is None else [own]) + [found for parent in dataset._parents for found in Source.of(parent)]


def over_nodes(nodes: list, make: Callable[[list], "_data.Dataset"], spec: Any) -> "Dataset":
    """make(values of the nodes), whose elements look like spec."""
    source = Source(nodes)

    def build(stage: Any) -> Any:
        values = Source.bound.get(source)

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

    return over_nodes(nodes, make, _nest.pack(form, [spec_of(leaf) for leaf in leaves]))


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
        dataset = _tensors_over_nodes(plain_values(tensors), cls.from_tensor_slices, lambda shape: shape[1:])
        if dataset is not None:
            return dataset
        dataset = cls._from_tensors(plain_values(tensors), True, "est_dataset_slices")
        dataset._count = len(as_array(_nest.flatten(plain_values(tensors))[0])) if not isinstance(tensors, list) else len(tensors)
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
            return _nest.pack(form, [(ragged_row(leaf, number) if rows else leaf) if isinstance(leaf, RaggedTensor)
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
        dataset = _tensors_over_nodes(plain_values(tensors), cls.from_tensors, lambda shape: shape)
        if dataset is not None:
            return dataset
        dataset = cls._from_tensors(plain_values(tensors), True, "est_dataset_tensors")
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

            return over_nodes(nodes, make, TensorSpec((), output_type))
        dataset = super().range(*(int(bound) for bound in args))
        dataset._count = len(range(*(int(bound) for bound in args)))
        return dataset if as_dtype(output_type) == int64 else dataset.map(lambda n: cast_to(n, output_type))

    @classmethod
    def counter(cls, start: int = 0, step: int = 1, dtype: Any = int64, name: str | None = None) -> "Dataset":
        """Numbers without end."""
        dataset = cls.range(start, 2**62 if step > 0 else -2**62, step, output_type=dtype)
        dataset._count = INFINITE
        return dataset

    @classmethod
    def from_generator(cls, generator: Callable, output_types: Any = None, output_shapes: Any = None, args: Any = None,
                       output_signature: Any = None, name: str | None = None) -> "Dataset":
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if (output_signature is None) == (output_types is None):
            raise TypeError("give either output_signature or output_types (and output_shapes)")
        if output_signature is None:
            output_signature = signature_of(output_types, output_shapes)
        arguments = tuple(unwrap(item) for item in args or ())
        plain = plain_values if _nest.structure(output_signature) is not _nest.LEAF or isinstance(
            output_signature, RaggedTensorSpec) else lambda row: as_array(unwrap(row))
        return of_rows(lambda: map(plain, generator(*arguments)), output_signature)

    @classmethod
    def list_files(cls, file_pattern: Any, shuffle: bool | None = None, seed: int | None = None,
                   name: str | None = None) -> "Dataset":
        dataset = super().list_files(file_pattern)
        return dataset if shuffle is False else dataset.shuffle(100000, seed)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> "Dataset":
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        if isinstance(datasets, _data.Dataset):
            datasets = (datasets,)
        if isinstance(datasets, dict):
            parts = [Dataset.zip(part) if isinstance(part, (dict, tuple, list)) else part for part in datasets.values()]
            return Dataset.zip(tuple(parts)).map(lambda *values: dict(zip(datasets, values)))
        datasets = [Dataset.zip(part) if isinstance(part, (dict, tuple, list)) else part for part in datasets]
        zipped = _data.Dataset.zip.__func__(Dataset, tuple(datasets))
        names, rows, raggeds = iter(zipped._names), set(), set()
        for dataset in datasets:
            for old, new in zip(dataset._names, names):
                rows.update([new] if old in dataset._rows else [])
                raggeds.update([new] if old in dataset._raggeds else [])
        zipped._own_rows, zipped._own_raggeds = frozenset(rows), frozenset(raggeds)
        counts = [dataset._count for dataset in datasets]
        finite = [count for count in counts if count >= 0]
        zipped._count = UNKNOWN if UNKNOWN in counts else min(finite, default=INFINITE)
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
        return _nest.pack(self.structure, [ragged_of(leaf, name in self._raggeds) for name, leaf in zip(
            self._names, _nest.flatten(element))])

    @property
    def element_spec(self) -> Any:
        """What elements look like."""
        spec = super().element_spec
        if not self._raggeds:
            return spec
        return _nest.pack(self.structure, [ragged_spec(leaf) if name in self._raggeds else leaf for name, leaf in zip(
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
            made = _groups.padded_batch(self, of_rows, int(batch_size), padded_shapes, padding_values, bool(drop_remainder))
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
        trace = MapTrace(graph, inputs)
        trace.rows.update(key_of(node) for name, node in inputs if name in self._rows)
        MapTrace.current.append(trace)
        try:
            with graph.as_default():
                result = map_func(*arguments) if isinstance(arguments, tuple) else map_func(arguments)
            raggeds = [isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(unlisted_tuple(result))]
        except NeedsValue as why:
            return self._map_called(map_func, why)
        finally:
            MapTrace.current.pop()
        if lib.est_global_variables(graph._c).n > 0:
            return self._map_called(map_func, "it reads variables, which may change")
        result = plain_values(unlisted_tuple(result))
        form = _nest.structure(result)
        _nest.check_dict_keys(form)
        names = _nest.names(form)
        nodes = [_data.ragged_or_node(leaf, graph) for leaf in _nest.flatten(result)]
        graph.check()
        fed, csv = trace.inputs, trace.csv

        def build(chain: Any, stage: Any) -> Any:
            if csv is not None:
                chain = csv_stage(chain, csv)
            return _data.c_map_graph(chain, fed, zip(names, nodes), _workers(num_parallel_calls))

        made = self._then(build, form)
        made._own_rows = frozenset(name for name, node in zip(names, nodes)
                                   if isinstance(node, Node) and key_of(node) in trace.rows)
        kept = {key_of(node) for name, node in inputs if name in self._rows & self._raggeds}
        made._own_raggeds = frozenset(name for name, node, ragged in zip(names, nodes, raggeds) if ragged or
                                      isinstance(node, Node) and key_of(node) in kept)
        return self._sized(made, lambda n: n)

    def _map_called(self, map_func: Callable, why: Any) -> "Dataset":
        _warn_called(map_func, why)

        raggeds: list = []

        def call(*element: Any) -> Any:
            given = self._tensors(element if isinstance(self.structure, tuple) else element[0])
            result = map_func(*given) if isinstance(given, tuple) else map_func(given)
            result = _structure.map_structure(unlisted, unlisted_tuple(result))
            raggeds[:] = [isinstance(leaf, RaggedTensor) for leaf in _nest.flatten(result)]
            return plain_values(result)

        specs: list = []
        for element in _data.DatasetIterator(self.take(2), passes=False):  # a dimension that differs is open
            result = _data.called(call, *element) if isinstance(element, tuple) else _data.called(call, element)
            specs.append(_nest.map_structure(array_spec, result))
        if not specs:
            raise ValueError("the dataset is empty, so that nothing says what the function returns")
        made = merged(specs[0], specs[-1])
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
        for name, given in {"cycle_length": cycle_length, "block_length": block_length,
                            "num_parallel_calls": num_parallel_calls}.items():
            if given == 0:
                raise InvalidArgumentError(f"interleave: {name} must be greater than zero.")
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
        return _groups.group_by_window(self, of_rows, key_func, reduce_func, window_size_func or (lambda key: window_size))

    def bucket_by_sequence_length(self, element_length_func: Callable, bucket_boundaries: Any, bucket_batch_sizes: Any,
                                  padded_shapes: Any = None, padding_values: Any = None,
                                  pad_to_bucket_boundary: bool = False, no_padding: bool = False,
                                  drop_remainder: bool = False, name: str | None = None) -> "Dataset":
        """Padded batches of elements of similar lengths."""
        return _groups.bucket_by_sequence_length(self, of_rows, element_length_func, bucket_boundaries, bucket_batch_sizes,
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
        loaded = _groups.load(path, of_rows)
        if element_spec is not None and _nest.structure(element_spec) != _nest.structure(loaded.element_spec):
            raise ValueError(f"the saved elements are {loaded.element_spec}, not {element_spec}")
        return loaded

    def take_while(self, predicate: Callable, name: str | None = None) -> "Dataset":
        """The elements before the first for which the function is false."""
        def rows() -> Iterator[Any]:
            return itertools.takewhile(lambda row: bool(self._call_with(predicate, row)), _data.DatasetIterator(self))

        return of_rows(rows, self.element_spec)

    def scan(self, initial_state: Any, scan_func: Callable, name: str | None = None) -> "Dataset":
        """scan_func(state, element) gives the next state and an element."""
        first = _structure.map_structure(lambda leaf: wrap(as_array(unwrap(leaf))), initial_state)

        def rows() -> Iterator[Any]:
            state = first
            for row in _data.DatasetIterator(self):
                state, made = scan_func(state, self._tensors(row))
                yield plain_values(made)

        made = next(rows(), None)
        if made is None:
            raise ValueError("the dataset is empty, so that nothing says what the function returns")
        spec = _nest.map_structure(lambda leaf: TensorSpec(as_array(leaf).shape, as_array(leaf).dtype), made)
        return self._sized(of_rows(rows, spec), lambda n: n)

    def unique(self, name: str | None = None) -> "Dataset":
        """Every value once, where it is first."""
        def rows() -> Iterator[Any]:
            seen: set = set()
            for row in _data.DatasetIterator(self):
                key = row if isinstance(row, bytes) else (np.asarray(row).tobytes(), np.shape(row))
                if key not in seen:
                    seen.add(key)
                    yield row

        return of_rows(rows, self.element_spec)

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
        from ._windows import Windows
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

        return of_rows(rows, datasets[0].element_spec)

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

        return of_rows(rows, spec)

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

        return of_rows(rows, datasets[0].element_spec)

    def cardinality(self, name: str | None = None) -> Any:
        """How many elements there are; -1: no end, -2: unknown before they are counted."""
        return wrap(np.int64(self._count))

    def __len__(self) -> int:
        if self._count < 0:
            raise TypeError("The dataset is infinite." if self._count == INFINITE else "The dataset length is unknown.")
        return self._count

    def __bool__(self) -> bool:
        return True

    _count = UNKNOWN

    def _sized(self, dataset: "Dataset", count: Any) -> "Dataset":
        """A dataset made of this one: as many elements as count says, of a known number of them."""
        if self._count == UNKNOWN:
            known = UNKNOWN
        elif self._count == INFINITE:
            known = count(float("inf"))
        else:
            known = count(self._count)
        dataset._count = INFINITE if known == float("inf") else int(known)
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
        if dataset._count == UNKNOWN:
            return joined
        return self._sized(joined, lambda n: n + (float("inf") if dataset._count == INFINITE else dataset._count))

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


def _warn_called(function: Callable, why: NeedsValue) -> None:
    logging.getLogger("tensorflow").warning(
        "%s is called for every element, which takes Python's lock: %s", getattr(function, "__name__", "a function of a "
                                                                                 "dataset"), why)


def of_rows(rows: Callable, spec: Any) -> Dataset:
    """The arrays that the iterables of rows() yield, which look like spec."""
    made = _data.Dataset.from_generator.__func__(Dataset, rows, spec)
    made._own_raggeds = frozenset(name for name, leaf in zip(made._names, _nest.flatten(spec)) if isinstance(
        leaf, RaggedTensorSpec))
    made._own_rows = frozenset(name for name, leaf in zip(made._names, _nest.flatten(spec)) if isinstance(
        leaf, RaggedTensorSpec) and leaf.ragged_rank == 0)
    return made


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
            self._open(True)
            self.restore(position)

    def get_next(self) -> Any:
        """The next element; OutOfRangeError at the end."""
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None
