# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.data: iterators whose elements are tensors of a graph. Sessions pull an element in every run that needs
it."""
from __future__ import annotations

from typing import Any

from .... import _nest
from ...._tensor import as_array
from ....data import c_map_graph
from ....errors import InvalidArgumentError
from ....graph import Node, as_node
from ...data import AUTOTUNE, Dataset, Options, TextLineDataset, TFRecordDataset, experimental  # noqa: F401
from ..._absent import module_getattr
from . import _graph


class Iterator:
    """The elements of a dataset, as tensors of the graph."""

    def __init__(self, dataset: Any, spec: Any, one_shot: bool):
        self._spec = spec
        self._form = _nest.structure(spec)
        self.graph = _graph.get_default_graph()
        self.dataset = dataset if one_shot else None
        self.chosen_by: Node | None = None  # from_string_handle: what runs feed with the handle of another iterator
        self.resets: list[tuple[Node, Any]] = []
        self.elements: list[list[Node]] = []
        self._initializer: Node | None = None
        if not one_shot and dataset is not None:
            self._initializer = self.make_initializer(dataset)
        _graph.state_of(self.graph).iterators.append(self)

    @property
    def initializer(self) -> Node:
        """Starts the dataset from its beginning, in the session that runs it."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer." if self.dataset is not None else
                             "The iterator has no dataset; make_initializer(dataset) gives an initializer")
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Node:
        """The operation that makes the iterator one of that dataset."""
        theirs = _nest.flatten(dataset.element_spec)
        mine = _nest.flatten(self._spec)
        if len(theirs) != len(mine) or any(a.dtype != b.dtype for a, b in zip(theirs, mine)):
            raise TypeError(f"Expected a dataset of {self._spec}, got {dataset.element_spec}")
        operation = _graph.no_op(name or "MakeIterator")
        self.resets.append((operation, dataset))
        return operation

    def get_next(self, name: str | None = None) -> Any:
        """The next element: each call is an element of its own in a run."""
        graph = _graph.get_default_graph()
        if graph is not self.graph:
            raise ValueError("the iterator is of another graph")
        specs = _nest.flatten(self._spec)
        if any(getattr(spec, "ragged", False) for spec in specs):
            raise NotImplementedError("rows of unequal length have no dense tensor; use padded_batch")
        nodes = [graph.placeholder(name or "IteratorGetNext", spec.dtype, spec.shape) for spec in specs]
        self.elements.append(nodes)
        return _nest.pack(self._form, nodes)

    def leaves(self, element: Any) -> list:
        """The parts of an element, as get_next has them."""
        return _nest.flatten(element)

    output_types = property(lambda self: _nest.map_structure(lambda spec: spec.dtype, self._spec))
    output_shapes = property(lambda self: _nest.map_structure(lambda spec: spec.shape, self._spec))
    element_spec = property(lambda self: self._spec)

    @staticmethod
    def from_structure(output_types: Any, output_shapes: Any = None, shared_name: str | None = None,
                       output_classes: Any = None) -> "Iterator":
        """An iterator for datasets of this structure; make_initializer chooses one."""
        from ..._data_elements import signature_of

        return Iterator(None, signature_of(output_types, output_shapes), False)

    def string_handle(self, name: str | None = None) -> Any:
        """What stands for this iterator where an iterator of from_string_handle is fed."""
        return _graph.constant(self._handle())

    def _handle(self) -> bytes:
        return f"iterator {_graph.state_of(self.graph).iterators.index(self)}".encode()

    def _fed(self, feeds: Any) -> "Iterator":
        """The iterator that a run takes its elements from."""
        if self.chosen_by is None:
            return self
        given = feeds.get(self.chosen_by)
        handle = None if given is None else as_array(given).item()
        found = [other for other in _graph.state_of(self.graph).iterators
                 if other.chosen_by is None and other._handle() == handle]
        if not found:
            raise InvalidArgumentError(f"the handle {given!r} is of no iterator of this graph; feed what "
                                       "Session.run(iterator.string_handle()) gave", None)
        return found[0]

    @staticmethod
    def from_string_handle(string_handle: Any, output_types: Any, output_shapes: Any = None,
                           output_classes: Any = None) -> "Iterator":
        """An iterator whose elements are those of another one, whose handle runs feed to the placeholder."""
        made = Iterator.from_structure(output_types, output_shapes)
        made.chosen_by = string_handle
        return made


def dataset_of_elements(graph: Any, result: Any) -> Dataset:
    """The dataset of an input_fn that returned tensors made of the next element of an iterator: a graph over its
    elements. Tensors that need none are the same in every step."""
    form = _nest.structure(result)
    nodes = [as_node(leaf, graph) for leaf in _nest.flatten(result)]
    used = [(iterator, element) for iterator in _graph.state_of(graph).iterators for element in iterator.elements
            if any(graph.needs(nodes, node) for node in element)]
    if len(used) > 1:
        raise NotImplementedError("input_fn returned tensors of several elements; tf.data.Dataset.zip makes one of them")
    dataset, inputs = Dataset.range(1).repeat(), []
    if used:
        (iterator, element), = used
        dataset = iterator.dataset if iterator.dataset is not None else \
            iterator.resets[0][1] if len(iterator.resets) == 1 else None
        if dataset is None:
            raise ValueError("input_fn returned tensors of an iterator without a dataset of its own; return the dataset")
        inputs = list(zip(dataset._names, element))
    names = _nest.names(form)
    return dataset._then(lambda chain, stage: c_map_graph(chain, inputs, zip(names, nodes)), form)


def make_one_shot_iterator(dataset: Any) -> Iterator:
    """An iterator that begins by itself, once in each session."""
    return Iterator(dataset, dataset.element_spec, True)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Iterator:
    """An iterator that begins when its initializer is run."""
    return Iterator(dataset, dataset.element_spec, False)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The dtypes of elements."""
    return _nest.map_structure(lambda spec: spec.dtype, dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of elements."""
    return _nest.map_structure(lambda spec: spec.shape, dataset_or_iterator.element_spec)


__all__ = ["AUTOTUNE", "Dataset", "Iterator", "TFRecordDataset", "TextLineDataset", "get_output_shapes",
           "get_output_types", "make_initializable_iterator", "make_one_shot_iterator"]
__getattr__ = module_getattr(__name__)
