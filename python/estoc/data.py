# SPDX-License-Identifier: Apache-2.0
"""Datasets: pipelines that read rows and transform them for a model.

    rows = estoc.Dataset.from_tensor_slices(({"age": ages}, labels)).shuffle(1000).repeat().batch(64)
    for features, labels in rows.take(3):
        ...

A dataset is a description; iterating or training builds the pipeline in C. Elements are dicts, tuples and arrays, as
they were put in; arrays are read-only views of the memory of the pipeline.
"""
from __future__ import annotations

import dataclasses
import html
import itertools
import os
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from . import _frames, _nest, errors
from ._lib import NULL, Handle, Keep, Use, c_seed, callback, check, ffi, lend_to_dataset, lib, owned, running, text
from ._tensor import as_array, as_dtype, borrowed_array, c_shape, float32, int64, py_shape, take_tensor, to_array
from ._tensor import to_tensor
from .graph import Graph, Node, RaggedNode, Shape, as_node, default_graph, no_graph
from .io import PaddedFeature, RaggedArray, c_feature_specs, _compression

FOREVER = -3
AUTO = -1


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """The dtype and the shape of one part of an element; unknown dimensions are None, an unknown rank too."""

    shape: Any
    dtype: Any = float32
    name: str | None = dataclasses.field(default=None, compare=False, repr=False)
    ragged: bool = False

    def __post_init__(self):
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        object.__setattr__(self, "shape", None if self.shape is None or Shape(self.shape).rank is None else Shape(
            self.shape))

    def __repr__(self) -> str:
        shape = None if self.shape is None else tuple(self.shape)
        ragged = ", ragged=True" if self.ragged else ""
        return f"TensorSpec(shape={shape}, dtype={self.dtype!r}, name={self.name!r}{ragged})"


class _Stage(NamedTuple):
    """What the build of a chain needs to know."""

    passes: bool  # whether somebody goes over the elements now, which have another order after a shuffle
    keep: list  # what must live as long as the dataset in C


class Dataset:
    """A sequence of elements. Every method that transforms returns a new dataset and leaves this one as it is."""

    def __init__(self, build: Callable[[_Stage], Any], structure: Any, parents: Sequence["Dataset"] = (),
                 names: list[str] | None = None):
        self._build = build
        self._structure = structure
        self._own_names = names  # of components in C, one for each leaf; None: those of the structure
        self._parents = tuple(parents)
        self._spec_cache: Any = None

    # --- building ---

    def _chain(self, stage: _Stage) -> Any:
        """A new chain in C that nobody owns yet."""
        return self._build(stage)

    def _finish(self, passes: bool = False) -> tuple[Any, list]:
        """A finished dataset of C, which the caller owns, and what it borrows."""
        keep: list = []
        out = ffi.new("est_dataset **")
        check(lib.est_dataset_finish(self._chain(_Stage(passes, keep)), out))
        return out[0], keep

    def _then(self, function: Callable[[Any, _Stage], Any], structure: Any = None) -> "Dataset":
        if structure is None:
            return type(self)(lambda stage: function(self._chain(stage), stage), self._structure, (self,),
                              self._own_names)
        return type(self)(lambda stage: function(self._chain(stage), stage), structure, (self,))

    @property
    def _names(self) -> list[str]:
        """The components of C that the leaves of the structure are."""
        return self._own_names if self._own_names is not None else _nest.names(self.structure)

    def _as_input(self) -> "Dataset":
        """The same with the names that models look for: keys of features, and "label"."""
        names = _nest.names(self.structure)
        if names == self._names:
            return self
        new = dict(zip(self._names, names))
        return type(self)(lambda stage: _renamed(self._chain(stage), new, self._specs()), self.structure, (self,))

    def _components(self) -> list[tuple[str, TensorSpec]]:
        if self._spec_cache is None:
            pointer, keep = self._finish()
            dataset = owned(pointer, "est_dataset_free")
            found = []
            for i in range(lib.est_dataset_components(dataset)):
                component = lib.est_dataset_component(dataset, i)
                shape = py_shape(component.shape)
                found.append((text(component.name), TensorSpec(None if shape is None else Shape(shape),
                                                               as_dtype(int(component.dtype)),
                                                               ragged=bool(component.ragged))))
            self._spec_cache = found
            del dataset, keep
        return self._spec_cache

    @property
    def structure(self) -> Any:
        """Dicts and tuples as elements have them; None: a dict of all components by their names."""
        if self._structure is None:
            self._structure = {name: _nest.LEAF for name, _ in self._components()}
        return self._structure

    @property
    def element_spec(self) -> Any:
        """What elements look like, a TensorSpec for each array."""
        by_name = dict(self._components())
        return _nest.pack(self.structure, [by_name[name] for name in self._names])

    def __repr__(self) -> str:
        return f"<estoc.Dataset {self.element_spec}>"

    def _repr_html_(self) -> str:
        """A row for each part of an element, for notebooks."""
        rows = []
        for name, spec in self._components():
            shape = "unknown" if spec.shape is None else str(tuple(spec.shape))
            cells = (name, spec.dtype.name, shape + (", ragged" if spec.ragged else ""))
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells))
        head = "".join(f"<th>{cell}</th>" for cell in ("Dataset", "dtype", "shape"))
        return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

    # --- iterating ---

    def __iter__(self) -> Iterator[Any]:
        return DatasetIterator(self)

    def as_numpy_iterator(self) -> Iterator[Any]:
        """The elements as numpy arrays."""
        return DatasetIterator(self)

    # --- sources ---

    @classmethod
    def from_tensor_slices(cls, tensors: Any, copy: bool = False) -> "Dataset":
        """Row i of every array is element i. Arrays are shared where they have the right order and dtype: do not change
        them while the dataset is used, or give copy=True."""
        return cls._from_tensors(tensors, copy, "est_dataset_slices")

    @classmethod
    def from_tensors(cls, tensors: Any, copy: bool = False) -> "Dataset":
        """One element: the arrays, of any shapes."""
        return cls._from_tensors(tensors, copy, "est_dataset_tensors")

    @classmethod
    def _from_tensors(cls, tensors: Any, copy: bool, function: str) -> "Dataset":
        if isinstance(tensors, list):
            tensors = np.asarray(tensors, dtype=object) if _has_text(tensors) else as_array(tensors)
        form = _nest.structure(tensors)
        _nest.check_dict_keys(form)
        names = _nest.names(form)
        made = [to_tensor(leaf, copy=copy) for leaf in _nest.flatten(tensors)]

        def build(stage: _Stage) -> Any:
            keep = Keep()
            return getattr(lib, function)(_named_tensors(keep, names, made))

        dataset = cls(build, form)
        dataset._components()  # a wrong shape is an error here, not later
        return dataset

    @classmethod
    def range(cls, *bounds: int) -> "Dataset":
        """The numbers of Python's range, as int64."""
        numbers = range(*bounds)
        return cls(lambda stage: lib.est_dataset_range(numbers.start, numbers.stop, numbers.step), _nest.LEAF,
                   names=["value"])

    @classmethod
    def from_generator(cls, generator: Callable[[], Iterable], element_spec: Any) -> "Dataset":
        """The elements that the iterables of generator() yield, one iterable for each pass. element_spec has a
        TensorSpec (or a pair of a dtype and a shape) where elements have arrays. Arrays are copied."""
        spec = _spec_structure(element_spec)
        form = _nest.structure(spec)
        _nest.check_dict_keys(form)
        names, leaves = _nest.names(form), _nest.flatten(spec)

        def build(stage: _Stage) -> Any:
            handle = Handle(_Generator(generator, form, leaves))
            stage.keep.append(handle)
            keep = Keep()
            return lib.est_dataset_generator(
                _c_components(keep, names, leaves),
                keep.options("est_generator", open=lib.py_on_generator_open, next=lib.py_on_generator_next,
                             close=lib.py_on_generator_close, user=handle.pointer))

        return cls(build, form)

    @classmethod
    def list_files(cls, pattern: str | os.PathLike | Sequence) -> "Dataset":
        """The paths that match a shell pattern, in the order of their names; or these paths."""
        return cls(lambda stage: _files(pattern), _nest.LEAF, names=["path"])

    @classmethod
    def from_tfrecords(cls, files: str | os.PathLike | Sequence, cycle: int = 1, workers: int = 0) -> "Dataset":
        """The records of TFRecord files; compression is detected."""

        def build(stage: _Stage) -> Any:
            keep = Keep()
            return lib.est_dataset_tfrecords(_files(files), keep.options("est_interleave_options", cycle=cycle,
                                                                         workers=workers))

        return cls(build, _nest.LEAF, names=["record"])

    @classmethod
    def from_text(cls, files: str | os.PathLike | Sequence, skip: int = 0, compression: str | None = None) -> "Dataset":
        """The lines of text files, without their ends; the first `skip` of each file are left out."""

        def build(stage: _Stage) -> Any:
            keep = Keep()
            return lib.est_dataset_lines(_files(files), keep.options("est_lines_options", skip=skip,
                                                                     compression=_compression(compression)))

        return cls(build, _nest.LEAF, names=["line"])

    @classmethod
    def from_csv(cls, files: str | os.PathLike | Sequence, columns: Mapping[str, Any], batch_size: int,
                 header: bool = False, delimiter: str = ",", defaults: Mapping[str, Any] | None = None,
                 na_value: str | None = None, label: str | None = None, field_names: Sequence[str] = (),
                 trim: bool = False, drop_remainder: bool = False, workers: int = 0) -> "Dataset":
        """Batches of rows of CSV files: a dict of arrays by column, or with `label` a pair of the others and that one.
        `columns` are names and dtypes, in the order of the fields unless there is a header or field_names; an empty
        field is the default of its column, else 0 or "". """
        columns, defaults = dict(columns), dict(defaults or {})
        if label is not None and label not in columns:
            raise ValueError(f"label {label!r} is no column; there are {', '.join(columns)}")

        def build(stage: _Stage) -> Any:
            keep = Keep()
            rows = [{"name": keep.string(name), "dtype": as_dtype(dtype).number,
                     "default_text": keep.string(str(defaults[name]) if name in defaults else None)}
                    for name, dtype in columns.items()]
            lines = lib.est_dataset_lines(_files(files), keep.options(
                "est_lines_options", skip=int(header), quoted=True, delimiter=delimiter.encode(), trim=trim))
            return lib.est_dataset_decode_csv(
                lines, keep.span("est_csv_columns", "est_csv_column", rows),
                keep.options("est_csv_options", delimiter=delimiter.encode(), header=header,
                             na_value=keep.string(na_value), field_names=keep.strings(field_names), trim=trim),
                batch_size, keep.options("est_parse_options", drop_remainder=drop_remainder, workers=workers))

        return cls(build, *_with_label(columns, label))

    @classmethod
    def from_arrow(cls, source: Any, batch_size: int | None = None, columns: Sequence[str] | None = None,
                   label: str | None = None, nulls: str = "error", defaults: Mapping[str, Any] | None = None,
                   drop_remainder: bool = False) -> "Dataset":
        """The rows of a table, or batches of them: a dict of arrays by column, or with `label` a pair of the others and
        that column. `source` is anything with __arrow_c_stream__ (a pyarrow Table or RecordBatchReader, a Polars or
        pandas DataFrame, a DuckDB relation), or a function that returns such an object. It is asked for a stream at
        every pass; a reader that can be read only once is good for one pass, and a function can make a new one.

        Numbers are not copied where the library has their type. A null is an error, or with nulls="missing" NaN, -1, ""
        or an empty list; `defaults` has values for the nulls of columns."""
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        if drop_remainder and batch_size is None:
            raise ValueError("drop_remainder needs a batch_size")
        _frames.check_nulls(nulls)
        if not hasattr(source, "__arrow_c_stream__") and not callable(source):
            raise TypeError(f"{type(source).__name__} has no __arrow_c_stream__; give a table, or a function that "
                            "returns one" + (" (collect() a LazyFrame)" if hasattr(source, "collect") else ""))
        handle, keep = Handle(_Table(source)), Keep()
        chain = lib.est_dataset_arrow_stream(lib.py_on_arrow_open, handle.pointer, keep.options(
            "est_arrow_options", batch=batch_size or 0, drop_remainder=drop_remainder,
            nulls=lib.EST_ARROW_MISSING if nulls == "missing" else lib.EST_ARROW_NO_NULLS,
            columns=keep.strings(columns or ()),
            defaults=keep.span("est_arrow_defaults", "est_arrow_default", [
                {"column": keep.string(name), "text": keep.string(_default_text(value))}
                for name, value in (defaults or {}).items()])))
        out = ffi.new("est_dataset **")
        check(lib.est_dataset_finish(chain, out))
        native = owned(out[0], "est_dataset_free", parents=(handle,))

        def build(stage: _Stage) -> Any:  # one dataset of C for all: it holds the stream that the schema came from
            stage.keep.append(native)
            return lib.est_dataset_ref(native)

        names = [text(lib.est_dataset_component(native, i).name) for i in range(lib.est_dataset_components(native))]
        if label is not None and label not in names:
            raise ValueError(f"label {label!r} is no column; there are {', '.join(names)}")
        return cls(build, *_with_label(names, label))

    @classmethod
    def from_pandas(cls, frame: Any, label: Any = None, nulls: str = "error",
                    defaults: Mapping[str, Any] | None = None) -> "Dataset":
        """The rows of a pandas DataFrame in its order: a dict of values by column, or with `label` (the name of a
        column, or a Series) a pair of the others and that. The index is left out. Numbers are shared with the frame,
        which must not change meanwhile; categories become their values, dates the number in their unit. `nulls` and
        `defaults` are those of from_arrow; NaN in a column of floats is a value."""
        _frames.check_nulls(nulls)
        defaults = dict(defaults or {})
        columns = {str(name): frame[name] for name in frame.columns}
        if len(columns) != len(frame.columns):
            raise ValueError("two columns of the frame have the same name")
        for name in defaults:
            if name not in columns:
                raise ValueError(f"defaults: {name!r} is no column; there are {', '.join(columns)}")
        if isinstance(label, str):
            if label not in columns:
                raise ValueError(f"label {label!r} is no column; there are {', '.join(columns)}")
            label_name, labels = label, columns.pop(label)
        else:
            label_name, labels = "label", label

        def array(name: str, column: Any) -> np.ndarray:
            return _frames.column_array(column, name, nulls, defaults.get(name))

        features = {name: array(name, column) for name, column in columns.items()}
        if labels is None:
            return cls.from_tensor_slices(features)
        return cls.from_tensor_slices((features, array(label_name, labels) if _frames.is_column(labels) else labels))

    # --- transformations ---

    def batch(self, batch_size: int, drop_remainder: bool = False) -> "Dataset":
        """batch_size elements of equal shapes become one, with a new first axis."""
        return self._batch(batch_size, drop_remainder, 0)

    def padded_batch(self, batch_size: int, drop_remainder: bool = False, padding_value: float = 0) -> "Dataset":
        """The same for elements of different shapes, filled up to the largest of the batch."""
        return self._batch(batch_size, drop_remainder, lib.EST_ROWS_PADDED, padding_value)

    def _batch(self, n: int, drop_remainder: bool, rows: int, number: float = 0) -> "Dataset":
        if n < 1:
            raise ValueError(f"batch_size is {n}; it must be at least 1")

        def build(chain: Any, stage: _Stage) -> Any:
            keep = Keep()
            return lib.est_dataset_batch(chain, n, keep.options("est_batch_options", drop_remainder=drop_remainder,
                                                                rows=rows, pad_number=number))

        return self._then(build)

    def unbatch(self) -> "Dataset":
        """The rows of every element become elements."""
        return self._then(lambda chain, stage: lib.est_dataset_unbatch(chain))

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> "Dataset":
        """A random one of buffer_size buffered elements, each time. Every pass has another order; with a seed all of
        them are the same in every run of the program."""
        if buffer_size < 1:
            raise ValueError(f"buffer_size is {buffer_size}; it must be at least 1")
        fixed = c_seed(seed) or int(np.random.SeedSequence().entropy % (2**63)) | 1
        turns = itertools.count()  # passes over this dataset and all that are made of it

        def build(chain: Any, stage: _Stage) -> Any:
            if not reshuffle_each_iteration:
                return lib.est_dataset_shuffle_once(chain, buffer_size, fixed)
            if seed is None:
                return lib.est_dataset_shuffle(chain, buffer_size, 0)
            turn = next(turns) if stage.passes else 0
            return lib.est_dataset_shuffle(chain, buffer_size, (fixed + turn * 0x9E3779B97F4A7C15) % 2**64 or 1)

        return self._then(build)

    def repeat(self, count: int | None = None) -> "Dataset":
        """The elements count times; without a count (or -1) without end."""
        n = FOREVER if count is None or count == -1 else count
        return self._then(lambda chain, stage: lib.est_dataset_repeat(chain, n))

    def take(self, count: int) -> "Dataset":
        """The first elements; -1: all."""
        return self._then(lambda chain, stage: lib.est_dataset_take(chain, FOREVER if count == -1 else count))

    def skip(self, count: int) -> "Dataset":
        """All but the first elements; -1: none is left."""
        if count == -1:
            return self.take(0)
        return self._then(lambda chain, stage: lib.est_dataset_skip(chain, count))

    def shard(self, num_shards: int, index: int) -> "Dataset":
        """Every num_shards-th element, beginning with number index."""
        if not 0 <= index < num_shards:
            raise ValueError(f"index is {index}; it must be in [0, {num_shards})")
        return self._then(lambda chain, stage: lib.est_dataset_shard(chain, num_shards, index))

    def prefetch(self, buffer_size: int) -> "Dataset":
        """Computes elements ahead in a thread of its own; -1 (AUTO): 2."""
        n = 2 if buffer_size == AUTO else buffer_size
        return self if n == 0 else self._then(lambda chain, stage: lib.est_dataset_prefetch(chain, n))

    def concatenate(self, other: "Dataset") -> "Dataset":
        """These elements, then those of other, which must look the same."""
        def build(stage: _Stage) -> Any:
            new = dict(zip(other._names, self._names))
            return lib.est_dataset_concatenate(self._chain(stage), _renamed(other._chain(stage), new, other._specs()))

        if not _same(self.structure, other.structure):
            raise TypeError(f"elements are {_describe(self.structure)} and {_describe(other.structure)}")
        return type(self)(build, self.structure, (self, other), self._own_names)

    @classmethod
    def zip(cls, datasets: tuple["Dataset", ...]) -> "Dataset":
        """Tuples of elements, until one dataset ends."""
        datasets = tuple(datasets)
        if not datasets:
            raise ValueError("zip needs at least one dataset")
        form = tuple(dataset.structure for dataset in datasets)
        names, parts, at = _nest.names(form), [], 0
        for dataset in datasets:
            n = len(_nest.flatten(dataset.structure))
            parts.append((dataset, dict(zip(dataset._names, names[at:at + n]))))
            at += n

        def build(stage: _Stage) -> Any:
            chain = None
            for dataset, new in parts:
                own = _renamed(dataset._chain(stage), new, dataset._specs())
                chain = own if chain is None else lib.est_dataset_zip(chain, own)
            return chain

        return cls(build, form, datasets)

    def cache(self, path: str | os.PathLike | None = None) -> "Dataset":
        """Keeps the elements of the first complete pass, in memory or in a file."""
        shared: list = []  # the dataset of C, one for all that iterate over it, and what it borrows

        def build(stage: _Stage) -> Any:
            if not shared:
                keep, borrowed = Keep(), []
                chain = lib.est_dataset_cache(self._chain(_Stage(False, borrowed)), keep.string(path))
                out = ffi.new("est_dataset **")
                check(lib.est_dataset_finish(chain, out))
                shared.extend([owned(out[0], "est_dataset_free"), borrowed])
            stage.keep.append(shared)
            return lib.est_dataset_ref(shared[0])

        return type(self)(build, self._structure, (self,), self._own_names)

    def enumerate(self, start: int = 0) -> "Dataset":
        """Pairs of a number, from start on, and the element."""
        form = (_nest.LEAF, self.structure)
        names = _nest.names(form)

        def build(chain: Any, stage: _Stage) -> Any:
            new = dict(zip(["index"] + self._names, names))
            return _renamed(lib.est_dataset_enumerate(chain, start), new, {"index": TensorSpec((), int64), **self._specs()})

        return self._then(build, form)

    def map(self, function: Callable, element_spec: Any = None, workers: int = 0) -> "Dataset":
        """A Python function applied to every element, as numpy arrays; a tuple is passed as several arguments. It is
        called whenever an element is needed, which takes the GIL: map_graph is faster where it can be used. Without
        element_spec the first element says what results look like."""

        def apply(element: Any) -> Any:
            return function(*element) if isinstance(element, tuple) else function(element)

        if element_spec is None:
            spec = self._probe(apply)
        else:
            spec = _spec_structure(element_spec)
        form = _nest.structure(spec)
        _nest.check_dict_keys(form)
        names, leaves = _nest.names(form), _nest.flatten(spec)

        def build(chain: Any, stage: _Stage) -> Any:
            handle = Handle(_Mapping(apply, self.structure, self._order(), form, leaves))
            stage.keep.append(handle)
            keep = Keep()
            return lib.est_dataset_map(chain, lib.py_on_map,
                                       keep.options("est_map_options", user=handle.pointer, workers=workers,
                                                    components=_c_components(keep, names, leaves)))

        return self._then(build, form)

    def interleave(self, function: Callable, cycle: int = 1, block: int = 1, workers: int = 0) -> "Dataset":
        """The elements of the datasets that a Python function makes of the elements, called with numpy arrays: `cycle`
        of them are open, and `block` elements are taken of each in turn. All look like the one of the first element."""

        def apply(element: Any) -> Any:
            made = function(*element) if isinstance(element, tuple) else function(element)
            if not isinstance(made, Dataset):
                raise TypeError(f"the function must return a Dataset, not {type(made).__name__}")
            return made._as_input()

        first = next(DatasetIterator(self.take(1), passes=False), None)
        if first is None:
            raise ValueError("the dataset is empty, so that nothing says what the function returns")
        model = apply(first)
        components = model._components()

        def build(chain: Any, stage: _Stage) -> Any:
            handle, keep = Handle(_Interleaved(apply, self.structure, self._order(), components)), Keep()
            stage.keep.append(handle)
            return lib.est_dataset_interleave(chain, lib.py_on_interleave, keep.options(
                "est_interleave_options", cycle=cycle, block=block, workers=workers, user=handle.pointer,
                components=_c_components(keep, [name for name, _ in components], [spec for _, spec in components])))

        return type(self)(lambda stage: build(self._chain(stage), stage), model.structure, (self,), model._names)

    def _probe(self, apply: Callable) -> Any:
        """Specs of what a function makes of the first element; the first axis is open where that of elements is."""
        varies = any(spec.shape is None or spec.shape[:1] == (None,) for _, spec in self._components())
        for element in DatasetIterator(self.take(1), passes=False):
            result = _nest.map_structure(as_array, called(apply, element))
            return _nest.map_structure(lambda leaf: TensorSpec(
                (None,) + leaf.shape[1:] if varies and leaf.ndim > 0 else leaf.shape, leaf.dtype), result)
        raise ValueError("the dataset is empty, so element_spec is needed to know what the function returns")

    def map_graph(self, function: Callable, workers: int = 0) -> "Dataset":
        """A function over nodes, called once; C runs its graph on every element, by as many threads as workers."""
        graph, inputs, arguments = self._trace_inputs()
        result = function(*arguments) if isinstance(arguments, tuple) else function(arguments)
        form = _nest.structure(result)
        _nest.check_dict_keys(form)
        names = _nest.names(form)
        nodes = [ragged_or_node(leaf, graph) for leaf in _nest.flatten(result)]
        graph.check()
        return self._then(lambda chain, stage: c_map_graph(chain, inputs, zip(names, nodes), workers), form)

    def filter_graph(self, predicate: Callable, workers: int = 0) -> "Dataset":
        """Keeps the elements for which a function over nodes gives true; C runs its graph."""
        graph, inputs, arguments = self._trace_inputs()
        keep_node = as_node(predicate(*arguments) if isinstance(arguments, tuple) else predicate(arguments), graph)
        graph.check()

        def build(chain: Any, stage: _Stage) -> Any:
            keep = Keep()
            dense, ragged = _named_ends(keep, inputs)
            return lib.est_dataset_filter_graph(chain, dense, keep_node._c, keep.options(
                "est_map_graph_options", workers=workers, ragged_inputs=ragged))

        return self._then(build)

    def _new_graph(self) -> Graph:
        return Graph()

    def _trace_inputs(self) -> tuple[Graph, list, Any]:
        graph = self._new_graph()
        by_name = dict(self._components())
        inputs = []
        for name in self._names:
            inputs.append((name, _placeholder(graph, by_name[name])))
        return graph, inputs, _nest.pack(self.structure, [node for _, node in inputs])

    def filter(self, predicate: Callable) -> "Dataset":
        """Keeps the elements for which a Python function gives true."""

        def apply(element: Any) -> Any:
            return predicate(*element) if isinstance(element, tuple) else predicate(element)

        def build(chain: Any, stage: _Stage) -> Any:
            handle = Handle(_Mapping(apply, self.structure, self._order(), None, None))
            stage.keep.append(handle)
            return lib.est_dataset_filter(chain, lib.py_on_filter, handle.pointer)

        return self._then(build)

    def parse_examples(self, features: Mapping[str, Any], batch_size: int, label: str | None = None,
                       drop_remainder: bool = False, workers: int = 0) -> "Dataset":
        """Batches of the serialized tf.train.Examples of this dataset: a dict by feature (FixedLenFeature,
        VarLenFeature, PaddedFeature), or with `label` a pair of the others and that feature."""
        features = dict(features)
        if label is not None and label not in features:
            raise ValueError(f"label {label!r} is no feature; there are {', '.join(features)}")

        def build(chain: Any, stage: _Stage) -> Any:
            keep = Keep()
            return lib.est_dataset_parse_examples(chain, c_feature_specs(keep, features), batch_size,
                                                  keep.options("est_parse_options", drop_remainder=drop_remainder,
                                                               workers=workers))

        names = []
        for name, feature in features.items():
            names += [name, f"{name}/lengths"] if isinstance(feature, PaddedFeature) else [name]
        structure, _, own = _with_label(names, label)
        return type(self)(lambda stage: build(self._chain(stage), stage), structure, (self,), own)

    # --- parts ---

    def _order(self) -> list[int]:
        """For each leaf of the structure, the component of C it is."""
        at = {name: i for i, (name, _) in enumerate(self._components())}
        return [at[name] for name in self._names]

    def _shapes(self) -> dict[str, tuple]:
        return {name: (spec.dtype, spec.shape) for name, spec in self._components()}

    def _specs(self) -> dict[str, TensorSpec]:
        return dict(self._components())


class DatasetIterator:
    """The elements of a dataset, one after the other. `close` stops its threads; so does the end of a loop over it."""

    def __init__(self, dataset: Dataset, passes: bool = True):
        self._dataset = dataset  # its arrays and functions
        self._open(passes)
        self._form = dataset.structure
        self._order = dataset._order()
        self._ragged = [spec.ragged for _, spec in dataset._components()]
        self._element = ffi.new("est_field[]", max(len(self._ragged), 1))
        self._use = Use()

    def _open(self, passes: bool) -> None:
        dataset = self._dataset
        pointer, self._keep = dataset._finish(passes)
        native = owned(pointer, "est_dataset_free")
        out = ffi.new("est_iterator **")
        check(lib.est_iterator_create(native, out))
        self._c = owned(out[0], "est_iterator_free", parents=(self._keep, dataset))
        running.add(self)

    def __iter__(self) -> "DatasetIterator":
        return self

    def __next__(self) -> Any:
        if self._c is None:
            raise StopIteration
        with self._use:
            status = lib.est_iterator_next(self._c, self._element)
        if status == errors.OUT_OF_RANGE:
            self.close()
            raise StopIteration
        check(status)
        element = self._element
        values = []
        for i, ragged in enumerate(self._ragged):
            value = to_array(take_tensor(element[i].values))
            if ragged:
                value = RaggedArray(value, to_array(take_tensor(element[i].splits)))
            elif isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype == object:
                value = value[()]
            values.append(value)
            element[i].values = element[i].splits = NULL
        return _nest.pack(self._form, [values[i] for i in self._order])

    def save(self) -> np.ndarray:
        """The position, as an array of bytes for `restore`."""
        out = ffi.new("est_tensor **")
        check(lib.est_iterator_save(self._iterator(), out))
        return to_array(take_tensor(out[0]), copy=True)

    def restore(self, position: np.ndarray) -> None:
        """Goes to a saved position; only before the first element."""
        check(lib.est_iterator_restore(self._iterator(), to_tensor(position)))

    def _iterator(self) -> Any:
        if self._c is None:
            raise RuntimeError("the iterator is closed or at its end")
        return self._c

    def close(self) -> None:
        if self._c is not None:
            self._use.check()
            iterator, self._c = self._c, None
            ffi.release(iterator)


# --- callbacks --------------------------------------------------------------------------------------------------------


class _Generator(NamedTuple):
    make: Callable
    form: Any
    leaves: list


class _Pass:
    """One pass of a generator."""

    def __init__(self, source: _Generator):
        self.source = source
        self.rows = iter(source.make())


class _Mapping(NamedTuple):
    apply: Callable
    form: Any
    order: list
    out_form: Any
    out_leaves: list | None


class _Interleaved(NamedTuple):
    apply: Callable
    form: Any
    order: list
    components: list

    def failing(self, exception: BaseException) -> Dataset:
        """A dataset that raises."""
        def fail() -> Iterable:
            raise exception

        return Dataset.from_generator(fail, {name: spec for name, spec in self.components})


_passes: dict[int, Handle] = {}


@callback("py_on_generator_open")
def _generator_open(user: Any, state: Any) -> None:
    handle = Handle(_Pass(Handle.get(user)))
    _passes[handle.number] = handle
    state[0] = handle.pointer


@callback("py_on_generator_next", end=StopIteration)
def _generator_next(state: Any, element: Any) -> None:
    current = Handle.get(state)
    value = next(current.rows)
    try:
        _fill(element, value, current.source.form, current.source.leaves)
    except StopIteration as exception:
        raise RuntimeError("StopIteration while an element was converted") from exception


@ffi.def_extern(name="py_on_generator_close")
def _generator_close(state: Any) -> None:
    handle = _passes.pop(int(ffi.cast("uintptr_t", state)), None)
    if handle is None:
        return
    rows = Handle.get(handle.pointer).rows
    if hasattr(rows, "close"):
        rows.close()


class _Table:
    """What from_arrow was given. A reader that was read would silently be empty at the next pass."""

    def __init__(self, source: Any):
        self.source = source
        self.is_reader = hasattr(source, "read_next_batch")
        self.opened = False

    def open(self) -> Any:
        if self.is_reader and self.opened:
            raise RuntimeError(f"a {type(self.source).__name__} can be read once; for several passes give from_arrow a "
                               "function that makes a new one")
        self.opened = True
        return self.source if hasattr(self.source, "__arrow_c_stream__") else self.source()


@callback("py_on_arrow_open")
def _arrow_open(user: Any, stream: Any) -> None:
    table = Handle.get(user).open()
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(f"the function of from_arrow returned {type(table).__name__}, which has no __arrow_c_stream__")
    capsule = table.__arrow_c_stream__()
    given = ffi.cast("struct ArrowArrayStream *", _frames.capsule_pointer(capsule, b"arrow_array_stream"))
    stream[0] = given[0]
    given.release = NULL  # moved: the capsule has nothing left to release


def _element_in(mapping: _Mapping, fields: Any) -> Any:
    values = []
    for i in mapping.order:
        value = borrowed_array(fields[i].values)
        if fields[i].splits != NULL:
            value = RaggedArray(value, borrowed_array(fields[i].splits))
        elif value.ndim == 0 and value.dtype == object:
            value = value[()]
        values.append(value)
    return _nest.pack(mapping.form, values)


def called(function: Callable, *arguments: Any) -> Any:
    """A function of the user for one element: it computes with values. StopIteration is a mistake in it, not the end of
    the dataset."""
    try:
        if default_graph() is None:
            return function(*arguments)
        with no_graph():
            return function(*arguments)
    except StopIteration as exception:
        raise RuntimeError("a function of a dataset raised StopIteration") from exception


@callback("py_on_map")
def _map(user: Any, fields: Any, out: Any) -> None:
    mapping = Handle.get(user)
    result = called(mapping.apply, _element_in(mapping, fields))
    _fill(out, result, mapping.out_form, mapping.out_leaves)


@callback("py_on_filter")
def _filter(user: Any, fields: Any, keep: Any) -> None:
    mapping = Handle.get(user)
    keep[0] = bool(called(mapping.apply, _element_in(mapping, fields)))


@ffi.def_extern(name="py_on_interleave", error=NULL)
def _on_interleave(user: Any, fields: Any) -> Any:
    own = Handle.get(user)
    try:
        made = called(own.apply, _element_in(own, fields))
        pointer, keep = made._finish()
    except BaseException as exception:  # noqa: B036 - comes out of the call that wants its first element
        pointer, keep = own.failing(exception)._finish()
    if keep:
        lend_to_dataset(pointer, keep)
    return pointer


def _fill(out: Any, value: Any, form: Any, leaves: list) -> None:
    """Puts an element into fields of C, which take the references."""
    if _nest.structure(value) is not form and not _same(_nest.structure(value), form):
        raise TypeError(f"an element is {_describe(_nest.structure(value))}, but {_describe(form)} was declared")
    for i, (leaf, spec) in enumerate(zip(_nest.flatten(value), leaves)):
        if spec.ragged != isinstance(leaf, RaggedArray):
            raise TypeError(f"a {type(leaf).__name__} was given where {spec} was declared")
        array = as_array(leaf.values if spec.ragged else leaf, spec.dtype)
        if spec.shape is not None and not _fits(array.shape, spec.shape):
            raise ValueError(f"an array of shape {array.shape} was given where {tuple(spec.shape)} was declared; "
                             "element_spec says which axes may differ (None)")
        tensor = to_tensor(array, spec.dtype)
        out[i].values = lib.est_tensor_ref(tensor)
        if spec.ragged:
            splits = to_tensor(leaf.splits, int64)
            out[i].splits = lib.est_tensor_ref(splits)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    return a is _nest.LEAF and b is _nest.LEAF


def _describe(form: Any) -> str:
    if isinstance(form, dict):
        return "{" + ", ".join(f"{key}: {_describe(item)}" for key, item in form.items()) + "}"
    if isinstance(form, tuple):
        return "(" + ", ".join(_describe(item) for item in form) + ")"
    return "array"


def _fits(shape: tuple, declared: Sequence) -> bool:
    return len(shape) == len(declared) and all(want is None or want == have for have, want in zip(shape, declared))


# --- helpers ----------------------------------------------------------------------------------------------------------


def _has_text(values: Any) -> bool:
    return isinstance(values, (str, bytes)) or isinstance(values, (list, tuple)) and any(map(_has_text, values))


def _spec_structure(spec: Any) -> Any:
    """TensorSpecs for all leaves: a TensorSpec, or a pair (dtype, shape)."""
    if isinstance(spec, dict):
        return {key: _spec_structure(item) for key, item in spec.items()}
    if isinstance(spec, TensorSpec):
        return spec
    if hasattr(spec, "component"):  # of estoc.tf
        return spec.component()
    if hasattr(spec, "dtype") and hasattr(spec, "shape"):
        return TensorSpec(None if spec.shape is None else Shape(spec.shape), as_dtype(spec.dtype))
    if isinstance(spec, tuple):
        if len(spec) == 2 and isinstance(spec[1], (list, Shape)):
            return TensorSpec(Shape(spec[1]), as_dtype(spec[0]))
        return tuple(_spec_structure(item) for item in spec)
    raise TypeError(f"an element is described by TensorSpec in dicts and tuples, not by {spec!r}")


def _default_text(value: Any) -> str | bytes:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return value if isinstance(value, (str, bytes)) else str(value)


def _with_label(columns: Iterable[str], label: str | None) -> tuple[Any, tuple, list[str]]:
    """The structure of elements with these columns, no parents, and the components of its leaves."""
    features = {name: _nest.LEAF for name in columns if name != label}
    if label is None:
        return features, (), sorted(features)
    return (features, _nest.LEAF), (), sorted(features) + [label]


def _named_tensors(keep: Keep, names: list[str], tensors: list) -> Any:
    keep.extend(tensors)
    return keep.span("est_named_tensors", "est_named_tensor",
                     [{"name": keep.string(name), "tensor": tensor} for name, tensor in zip(names, tensors)])


def _named_nodes(keep: Keep, nodes: Iterable[tuple[str, Node]]) -> Any:
    return keep.span("est_named_nodes", "est_named_node",
                     [{"name": keep.string(name), "node": node._c} for name, node in nodes])


def _c_components(keep: Keep, names: list[str], leaves: list) -> Any:
    return keep.span("est_components", "est_component",
                     [{"name": keep.string(name), "dtype": leaf.dtype.number, "shape": c_shape(leaf.shape),
                       "ragged": leaf.ragged} for name, leaf in zip(names, leaves)])


def _placeholder(graph: Graph, spec: TensorSpec) -> Any:
    """What stands for a component in a graph: a node, or a RaggedNode."""
    node = graph.placeholder(None, spec.dtype, spec.shape)
    return RaggedNode(node, graph.placeholder(None, int64, (None,))) if spec.ragged else node


def ragged_or_node(leaf: Any, graph: Graph) -> Any:
    """A part of what a function over nodes returned."""
    if isinstance(leaf, RaggedArray):
        return RaggedNode(as_node(leaf.values, graph), as_node(leaf.splits, graph))
    return leaf if isinstance(leaf, RaggedNode) else as_node(leaf, graph)


def _named_ends(keep: Keep, nodes: Iterable[tuple[str, Any]]) -> tuple[Any, Any]:
    """Nodes and RaggedNodes by name, as est_named_nodes and est_named_raggeds."""
    nodes = list(nodes)
    ragged = [{"name": keep.string(name), "node": {"values": node.values._c, "splits": node.splits._c}}
              for name, node in nodes if isinstance(node, RaggedNode)]
    return (_named_nodes(keep, [pair for pair in nodes if not isinstance(pair[1], RaggedNode)]),
            keep.span("est_named_raggeds", "est_named_ragged", ragged))


def c_map_graph(chain: Any, inputs: Iterable[tuple[str, Any]], outputs: Iterable[tuple[str, Any]],
                workers: int = 0) -> Any:
    """est_dataset_map_graph over nodes and RaggedNodes by name."""
    keep = Keep()
    (dense, ragged), (results, ragged_results) = _named_ends(keep, inputs), _named_ends(keep, outputs)
    return lib.est_dataset_map_graph(chain, dense, results, keep.options(
        "est_map_graph_options", workers=workers, ragged_inputs=ragged, ragged_outputs=ragged_results))


def _renamed(chain: Any, new: Mapping[str, str], specs: Mapping[str, TensorSpec]) -> Any:
    """The same elements with other names of components: a graph without an operation."""
    if all(old == name for old, name in new.items()):
        return chain
    graph = Graph()
    nodes = [(old, _placeholder(graph, specs[old])) for old in new]
    return c_map_graph(chain, nodes, [(new[old], node) for old, node in nodes])


def _files(files: Any) -> Any:
    """A chain of paths in C: of a pattern, or of a list."""
    keep = Keep()
    if isinstance(files, Dataset):
        raise TypeError("files are a pattern or a list of paths")
    if isinstance(files, (str, bytes, os.PathLike)):
        return lib.est_dataset_files(keep.string(files))
    paths = [os.fspath(path) for path in files]
    return lib.est_dataset_slices(_named_tensors(keep, ["path"], [to_tensor(np.asarray(paths, dtype=object))]))


from_arrow = Dataset.from_arrow
from_pandas = Dataset.from_pandas
