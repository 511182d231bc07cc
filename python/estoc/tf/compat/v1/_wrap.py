# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.wrap_function: a graph of TensorFlow 1 as a function of tensors with values."""
from __future__ import annotations

from typing import Any, Callable

from ....graph import Node
from ... import _structure
from ..._absent import Named
from ..._custom_gradient import custom_gradient
from ..._eager import Tensor, unwrap
from . import _graph
from ._graph import Graph, Variable, state_of
from ._session import Session


class WrappedFunction(Named):
    """A part of a graph, from `feeds` to `fetches`, with the values of the graph's variables."""

    _where = "a wrapped function"

    def __init__(self, graph: Graph, session: Session, feeds: list, fetches: Any):
        self.graph, self._session = graph, session
        self.inputs, self.structured_outputs = feeds, fetches
        leaves = _structure.flatten(fetches)
        self.outputs = [leaf for leaf in leaves if isinstance(leaf, _graph.Tensor)]
        self._operations = [leaf for leaf in leaves if isinstance(leaf, _graph.Operation)]
        self._gradients: Any = None

    @property
    def variables(self) -> list[Variable]:
        """Those of the graph; they have values without a session: numpy(), and Saver.restore(None, path)."""
        return self.graph.global_variables

    @property
    def trainable_variables(self) -> list[Variable]:
        return self.graph.trainable_variables

    def prune(self, feeds: Any, fetches: Any, name: str | None = None, input_signature: Any = None) -> "WrappedFunction":
        """The function from other tensors of the graph to others, over the same variables."""
        if input_signature is not None:
            raise NotImplementedError("prune: input_signature does not exist yet; tensors have the types of the feeds")

        def element(leaf: Any) -> Any:
            return self.graph.as_graph_element(leaf)

        found = [element(leaf) for leaf in _structure.flatten(feeds)]
        return WrappedFunction(self.graph, self._session, found, _structure.map_structure(element, fetches))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        given = _structure.flatten((arguments, named))
        if len(given) != len(self.inputs):
            raise TypeError(f"a wrapped function of {[node.name for node in self.inputs]} got {len(given)} arguments")
        if any(isinstance(value, Node) for value in given):
            raise NotImplementedError("what tf.compat.v1.wrap_function has made runs by itself and is no part of a "
                                      "tf.function or of another graph; call it outside of them")
        results = iter(_structure.flatten(self._run(*given)))
        return _structure.map_structure(lambda leaf: next(results) if isinstance(leaf, _graph.Tensor) else None,
                                        self.structured_outputs)

    def _run(self, *given: Any) -> list:
        """The values of the outputs, after the operations; tapes know where they come from."""
        @custom_gradient
        def run(*values: Any) -> Any:
            feeds = dict(zip(self.inputs, map(unwrap, values)))
            found = self._session.run([*self.outputs, *self._operations], feeds)
            return [Tensor(value) for value in found[:len(self.outputs)]], lambda *weights: self._back(feeds, weights)

        return run(*given)

    def _back(self, feeds: dict, weights: tuple) -> list:
        """The derivatives towards the inputs, of the same graph."""
        if self._gradients is None:
            with self.graph.as_default():
                given = [self.graph.placeholder(None, node.dtype, node.shape) for node in self.outputs]
                self._gradients = given, _graph.gradients(self.outputs, self.inputs, given)
        given, found = self._gradients
        feeds = {**feeds, **dict(zip(given, map(unwrap, weights)))}
        values = iter(self._session.run([node for node in found if node is not None], feeds))
        found = [None if node is None else Tensor(next(values)) for node in found]
        return found[0] if len(found) == 1 else found


def wrap_function(fn: Callable, signature: Any, name: str | None = None) -> WrappedFunction:
    """Builds a graph by a function of placeholders, one for each tf.TensorSpec of the signature, and gives its variables
    their initial values. What is called afterwards is the graph."""
    graph = Graph()
    with graph.as_default():
        holders = [graph.placeholder(spec.name, spec.dtype, spec.shape)
                   for spec in _structure.flatten(signature)]
        result = fn(*_structure.pack_as(signature, holders))
        outputs = _structure.map_structure(
            lambda leaf: leaf.value() if isinstance(leaf, Variable) else leaf, result)
        session = Session(graph=graph)
        session.run([_graph.global_variables_initializer(), _graph.local_variables_initializer()])
    state_of(graph).session = session
    return WrappedFunction(graph, session, holders, outputs)
