# SPDX-License-Identifier: Apache-2.0
"""What functional models are made of: the values of inputs, and of layers and operations that were called with them."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, Sequence

from ..._lib import lib
from ..._tensor import as_dtype, float32
from ...graph import Graph, Node, default_graph
from .. import _structure
from .._eager import add_operators, unwrap
from .._world import World, current_world
from ._calling import graph_of_program, place, unique_name, unrun

_sketches: list[Graph] = []
_sketching = threading.RLock()


@contextlib.contextmanager
def _sketch(layer: Any = None) -> Iterator[Graph]:
    """The graph in which functional models find out shapes; nothing of it is ever run. Other threads wait, for the world
    first: a thread that traces in it may make a model, too."""
    with (layer._world_now() if layer is not None else current_world()).alone(), _sketching:
        if not _sketches:
            _sketches.append(Graph())
            _sketches[0].is_sketch = _sketches[0].only_shapes = True
        graph, program = _sketches[0], graph_of_program()
        if default_graph() is graph:  # a layer of it makes a model of its own
            yield graph
            return
        graph.program = program
        try:
            yield graph
        finally:
            graph.program = None


class Call:
    """A call of a layer or an operation in a functional model."""

    def __init__(self, function: Callable, positional: tuple, named: dict, layer: Any):
        self.function, self.positional, self.named, self.layer = function, positional, named, layer
        self.made: Any = None  # the tensors that it gave


class KerasTensor(Node):
    """The value of an Input, or of a layer that was called with one: what functional models are made of."""

    def __init__(self, node: Node, call: Call | None, index: int = 0, name: str | None = None):
        super().__init__(node.graph, node._c)
        self._call, self._index, self._own_name = call, index, name

    @property
    def name(self) -> str:
        return self._own_name or super().name

    _keras_mask = property(lambda self: self.graph.masks.get(place(self)))

    @staticmethod
    def _keras_call(function: Callable, positional: tuple, named: dict, layer: Any = None) -> Any:
        call = Call(function, positional, named, layer)
        with _sketch(layer) as graph:
            try:
                with graph.as_default():
                    args, more = _structure.map_structure(unwrap, (positional, named))
                    result = function(*args, **more)
                    graph.check()
            except BaseException:
                lib.est_graph_recover(graph._c)
                raise
        numbers = iter(range(len(_structure.flatten(result))))
        made = _structure.map_structure(
            lambda node: KerasTensor(node, call, next(numbers)) if isinstance(node, Node) else node, result)
        call.made = made
        if layer is not None:
            layer.__dict__["_symbolic"] = (positional[0] if positional else None, made)
        return made

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<KerasTensor: shape={self.shape} dtype={self.dtype.name} (created by {self.name!r})>"


add_operators(KerasTensor)


def Input(shape: Sequence | None = None, batch_size: int | None = None, name: str | None = None, dtype: Any = None,
          sparse: bool | None = None, tensor: Any = None, ragged: bool | None = None, type_spec: Any = None,
          batch_shape: Sequence | None = None) -> KerasTensor:  # noqa: N802
    """The input of a functional model; `shape` is without the batch."""
    for given, what in ((sparse, "sparse"), (tensor, "tensor"), (ragged, "ragged"), (type_spec, "type_spec")):
        if given:
            raise NotImplementedError(f"Input: {what} does not exist yet; to_tensor() of ragged tensors, and tf.sparse.to_dense "
                                      "of sparse ones, make dense inputs, with Embedding(mask_zero=True) or Masking")
    if shape is None and batch_shape is None:
        raise ValueError("Please provide to Input a `shape` argument.")
    full = tuple(batch_shape) if batch_shape is not None else (batch_size,) + tuple(
        (shape,) if isinstance(shape, int) else shape)
    with _sketch() as graph:
        node = graph.placeholder(None, as_dtype(dtype or float32), full)
    if name is None:
        name = unique_name("input")
        name = f"input_{int(name[len('input_'):] or 0) + 1}"  # from 1, as in Keras
    return KerasTensor(node, None, 0, name)


def call_again(layer: Any, world: World, call: Call) -> None:
    """Makes the variables of a layer that a functional model has called."""
    with unrun(world):
        args, named = _structure.map_structure(
            lambda leaf: world.graph.placeholder(None, leaf.dtype, leaf.shape) if isinstance(leaf, KerasTensor) else leaf,
            (call.positional, call.named))
        layer._in_graph(*args, **named)
