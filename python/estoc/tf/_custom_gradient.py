# SPDX-License-Identifier: Apache-2.0
"""tf.custom_gradient: functions of the program that give their derivatives themselves.

In a graph the results are copies whose gradients C asks the program for (est_custom_gradient). Outside, the function runs
once, with values; a tape notes its derivatives down, and goes back through them with values, one after the other.
"""
from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from .. import ops
from .._lib import Handle, Keep, callback, ffi, here, lib
from ..graph import Graph, Node, as_node, default_graph
from . import _structure
from ._eager import Tensor, eager, tapes, unwrap
from ._indexed_slices import IndexedSlices
from ._tape import GradientTape
from ._variable import Variable, watchers


def _variables_in(graph: Graph, first: int, read: list) -> list:
    """The trainable variables that the operations of a graph from `first` on have read, those of `read` among them."""
    from .keras._native import layers_in
    known: dict[int, Variable] = {}
    for layer in layers_in(graph):
        known.update((variable._handle._c.id, variable) for variable in layer._in_graphs[graph])
    for variable in read:
        handle = variable._handle if variable.graph is graph else variable.twin(graph)._handle
        known[handle._c.id] = variable
    found: dict[int, Variable] = {}
    for i in range(first, lib.est_graph_operations(graph._c)):
        node = lib.est_graph_operation(graph._c, i)
        for k in range(lib.est_node_inputs(node)):
            variable = known.get(lib.est_node_input(node, k).id)
            if variable is not None and variable.trainable:
                found[id(variable)] = variable
    return list(found.values())


class _Derivatives:
    """What a function has returned: the derivatives of its results towards its arguments and variables."""

    def __init__(self, function: Callable, count: int, variables: list):
        self._function, self._count, self._variables = function, count, variables
        if not callable(function):
            raise TypeError(f"custom_gradient: the function returns its results and a function of their gradients, not "
                            f"{function!r}")
        if variables:
            parameters = inspect.signature(function).parameters
            if "variables" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                raise TypeError("@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function "
                                f"uses variables: {variables}")

    def __call__(self, given: list) -> list:
        """Of the arguments, then of the variables; None where there is none."""
        more = {"variables": self._variables} if self._variables else {}
        found = self._function(*given, **more)
        of_variables: Any = []
        if self._variables:
            found, of_variables = found
            of_variables = list(of_variables) if isinstance(of_variables, (list, tuple)) else [of_variables]
            if len(of_variables) != len(self._variables):
                raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        leaves = _structure.flatten(found)
        if len(leaves) != self._count:
            raise ValueError(f"custom_gradient function expected to return {self._count} gradients, but returned "
                             f"{len(leaves)} instead.")
        return leaves + of_variables


# --- in graphs --------------------------------------------------------------------------------------------------------


class _InGraph:
    """Derivatives for C, which knows sources of these dtypes; None: an argument that is no tensor."""

    def __init__(self, graph: Graph, derivatives: _Derivatives, dtypes: list):
        self.graph, self._derivatives, self._dtypes = graph, derivatives, dtypes

    def build(self, dy: Any, dx: Any) -> None:
        with self.graph.as_default():
            found = self._derivatives([Node(self.graph, dy.data[i]) for i in range(dy.n)])
            known = [(gradient, dtype) for gradient, dtype in zip(found, self._dtypes) if dtype is not None]
            for i, (gradient, dtype) in enumerate(known):
                if isinstance(gradient, IndexedSlices):
                    dx[i].values = as_node(unwrap(gradient.values), self.graph, dtype)._c
                    dx[i].indices = as_node(unwrap(gradient.indices), self.graph)._c
                elif gradient is not None:
                    dx[i].values = as_node(unwrap(gradient), self.graph, dtype)._c
        self.graph.check()


@callback("py_on_gradient")
def _on_gradient(dy: Any, dx: Any, user: Any) -> None:
    Handle.get(user).build(dy, dx)


def _in_graph(function: Callable, graph: Graph, args: tuple, named: dict) -> Any:
    args = _structure.map_structure(lambda leaf: _argument(leaf, graph), args)
    leaves = _structure.flatten(args)
    watcher: list = []
    watchers().append(watcher)
    first = lib.est_graph_operations(graph._c)
    try:
        result, derivatives = function(*args, **named)
    finally:
        watchers().pop()
    graph.check()
    variables = _variables_in(graph, first, watcher)
    results = [as_node(unwrap(leaf), graph) for leaf in _structure.flatten(result)]
    sources: list = [leaf if isinstance(leaf, Node) else None for leaf in leaves]
    dtypes = [None if leaf is None else leaf.dtype for leaf in sources] + [variable.dtype for variable in variables]
    sources += [v._handle if v.graph is graph else v.twin(graph)._handle for v in variables]
    handle = Handle(_InGraph(graph, _Derivatives(derivatives, len(leaves), variables), dtypes))
    graph.keep.append(handle)
    keep, out = Keep(), ffi.new("est_node[]", max(len(results), 1))
    here()
    lib.est_custom_gradient(keep.span("est_nodes", "est_node", [node._c for node in results]),
                            keep.span("est_nodes", "est_node", [item._c for item in sources if item is not None]),
                            lib.py_on_gradient, handle.pointer, out)
    graph.check()
    return _structure.pack_as(result, [Node(graph, out[i]) for i in range(len(results))])


def _argument(leaf: Any, graph: Graph) -> Any:
    """A tensor of the graph for what is one; texts, None and truth values stay what they are."""
    if leaf is None or isinstance(leaf, (str, bytes, bool)) or callable(leaf):
        return leaf
    return as_node(unwrap(leaf), graph)


# --- outside of graphs ------------------------------------------------------------------------------------------------


class OwnGradient:
    """A call that a tape has noted down, whose derivatives the program gives."""

    must = True  # they are nowhere else

    def __init__(self, derivatives: _Derivatives, sources: list):
        self._derivatives, self._sources = derivatives, sources

    def back(self, given: list, results: list, asked: list) -> list:
        """(leaf, gradient) for what the function was given, and for the variables that it has used."""
        zeros = eager(ops.zeros_like)
        dy = [zeros(leaf) if weight is None else weight for weight, leaf in zip(given, results)]
        return [(source, gradient) for source, gradient in zip(self._sources, self._derivatives(dy))
                if not isinstance(source, Variable) or any(source is item for item in asked)]


def _with_values(f: Callable, args: tuple, named: dict) -> Any:
    with GradientTape() as watcher:  # the others record as well: derivatives of derivatives go through what was computed
        result, derivatives = f(*args, **named)
    leaves = _structure.flatten(args)
    mine = leaves + list(named.values())
    variables = [v for v in watcher.watched_variables() if not any(v is item for item in mine)]
    results = _structure.map_structure(_copy, result)
    own = OwnGradient(_Derivatives(derivatives, len(leaves), variables), leaves + variables)
    for tape in tapes():
        tape.record(f, (leaves, variables), {}, False, results, own)
    return results


def _copy(leaf: Any) -> Tensor:
    """A tensor of its own, which the tape tells from what the function was given."""
    return Tensor(unwrap(leaf)) if isinstance(leaf, (Tensor, Variable)) else Tensor(leaf)


# --- names of TensorFlow ----------------------------------------------------------------------------------------------


def custom_gradient(f: Callable | None = None) -> Any:
    """Decorates a function that returns its results and a function of their gradients, which gives those towards its
    arguments."""
    if f is None:
        return custom_gradient

    def over_nodes(*args: Any, **named: Any) -> Any:
        node = next((leaf for leaf in _structure.flatten((args, named)) if isinstance(leaf, Node)), None)
        return _in_graph(f, node.graph if node is not None else default_graph(), args, named)

    @functools.wraps(f)
    def decorated(*args: Any, **named: Any) -> Any:
        leaves = _structure.flatten((args, named))
        record = next((leaf._keras_call for leaf in leaves if hasattr(leaf, "_keras_call")), None)
        if record is not None:
            return record(over_nodes, args, named)
        if default_graph() is not None or any(isinstance(leaf, Node) for leaf in leaves):
            return over_nodes(*args, **named)
        return _with_values(f, args, named)

    return decorated


def grad_pass_through(f: Callable) -> Callable:
    """A function whose gradient is that of the identity."""

    @custom_gradient
    def passing(*args: Any, **named: Any) -> Any:
        def derivatives(*given: Any, **more: Any) -> Any:
            variables = more.get("variables")
            return (given, [None] * len(variables)) if variables is not None else given

        return f(*args, **named), derivatives

    return functools.wraps(f)(lambda *args, **named: passing(*args, **named))


def recompute_grad(f: Callable) -> Callable:
    """A function that is computed again for its gradient, in place of keeping what lies between."""

    @custom_gradient
    def computed(*args: Any, **named: Any) -> Any:
        def derivatives(*given: Any, **more: Any) -> Any:
            variables = list(more.get("variables") or ())
            inputs = _structure.flatten(args)
            with GradientTape() as tape:
                tape.watch([item for item in inputs if isinstance(item, Tensor)])
                result = f(*args, **named)
            found = tape.gradient(result, inputs + variables, list(given))
            return (found[:len(inputs)], found[len(inputs):]) if variables else found

        return f(*args, **named), derivatives

    return functools.wraps(f)(lambda *args, **named: computed(*args, **named))
