# SPDX-License-Identifier: Apache-2.0
"""The calls of layers that are under way: names, whether they train, and their arguments as tensors of the graph."""
from __future__ import annotations

import contextlib
import functools
import inspect
import re
import threading
import weakref
from typing import Any

import numpy as np

from ... import _frames
from ..._tensor import as_array
from ...graph import Graph, Node, as_node, default_graph
from .. import _structure
from .._eager import Tensor, forget_computed, unwrap
from .._tape import forget_gradients
from .._trace import Trace
from .._variable import Variable
from .._world import World, new_world

context = threading.local()  # of the calls under way: names, training, depth
_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_global_counts: dict[str, int] = {}
_counting = threading.Lock()
_scopes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def graph_of_program() -> Graph | None:
    """The graph of TensorFlow 1.x or of a model_fn that is built now; None: it is of a world, of shapes or of a network."""
    graph = default_graph()
    if graph is None or graph.is_sketch or graph.network is not None or graph.writes is not None:
        return None
    return graph if getattr(graph, "world", None) is None else None


def unique_name(base: str) -> str:
    """ "dense", "dense_1": counted in the graph of a model_fn, or in the program."""
    graph = default_graph()
    with _counting:
        counts = _global_counts
        if graph is not None and getattr(graph, "world", None) is None:
            counts = _counts.setdefault(graph, {})
        n = counts.get(base, 0)
        counts[base] = n + 1
    return base if n == 0 else f"{base}_{n}"


def reset_uids() -> None:
    """Names count from the beginning again, but for those of optimizers, which no program sees: one of an earlier name would
    go on with what that one has in the world."""
    with _counting:
        optimizers = _global_counts.get("optimizer", 0)
        _global_counts.clear()
        _global_counts["optimizer"] = optimizers


def clear_session() -> None:
    """Names count from the beginning again, and what is made from now on is apart from what was there: memory of models
    that nothing refers to any more is freed (tf.keras.backend.clear_session)."""
    reset_uids()
    forget_computed()
    forget_gradients()
    new_world()


def snake(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return name if not name.startswith("_") else "private" + name


def shown_name(own: str) -> str:
    """The name of a variable in Keras: below the names of the layers that are being called."""
    return "/".join(context.__dict__.get("names", []) + [own]) + ":0"


def scopes_of(graph: Graph) -> dict[str, str]:
    """Of a graph of the program, by the names of layers: the scopes of variables that were made for shapes, before the
    call in that graph, which goes on there."""
    return _scopes.setdefault(graph, {})


@contextlib.contextmanager
def apart() -> Any:
    """Around a model of layers that exist by themselves: their variables are not named below what calls the model."""
    before, context.names = context.__dict__.get("names", []), []
    try:
        yield
    finally:
        context.names = before


class Calling:
    """Whether the outermost layer that is called trains: inner ones that are not told do the same."""

    def __init__(self, training: Any):
        self.training = training

    def __enter__(self) -> bool:
        """Whether this call is the outermost one."""
        self.before = context.__dict__.get("training")
        context.training = self.training
        depth = context.__dict__.get("depth", 0)
        context.depth = depth + 1
        return depth == 0

    def __exit__(self, *exception: Any) -> None:
        context.training = self.before
        context.depth -= 1


def is_training() -> bool:
    """Whether a layer is called to train."""
    return bool(context.__dict__.get("training"))


@functools.lru_cache(maxsize=None)
def training_by_default(kind: type) -> bool | None:
    """What the `call` of a class takes `training` for when nobody says; None: it says nothing."""
    parameter = inspect.signature(kind.call).parameters.get("training")
    return parameter.default if parameter is not None and isinstance(parameter.default, bool) else None


def training_phase(value: Any) -> Any:
    """A `training` argument as a bool: Python decides which graph is built."""
    if value is None:
        return None
    if isinstance(value, Node):
        raise NotImplementedError("training must be True or False; a graph is built for one of them")
    return bool(value)


def place(leaf: Any) -> Any:
    return (leaf._c.id, leaf._c.output) if isinstance(leaf, Node) else None


def as_input(leaf: Any, graph: Graph) -> Any:
    if isinstance(leaf, (Node, bool)) or leaf is None:
        return leaf
    if isinstance(leaf, Variable):
        return leaf._as_node(graph)
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)) or _frames.is_column(leaf) or _frames.is_table(leaf):
        return as_node(floats(unwrap(leaf)), graph)
    return leaf


def floats(value: Any) -> np.ndarray:
    """float64 as float32, as Keras casts the inputs of layers."""
    value = as_array(value)
    return value.astype(np.float32) if value.dtype == np.float64 else value


def tensors_of(args: tuple, named: dict) -> tuple[tuple, dict]:
    """Arrays and lists of numbers as tensors."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) or type(leaf) is Tensor or _frames.is_column(leaf) or _frames.is_table(leaf):
            return Tensor(floats(unwrap(leaf)))
        return leaf

    if args and isinstance(args[0], (list, int, float)) and not isinstance(args[0], bool) and not any(
            isinstance(leaf, (Tensor, np.ndarray, Variable)) for leaf in _structure.flatten(args[0])):
        args = (Tensor(floats(args[0])),) + args[1:]
    return _structure.map_structure(one, (tuple(map(_texts, args)), named))


def _texts(value: Any) -> Any:
    """Lists of texts as tensors, also within tuples and dicts."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_texts, value))
    leaves = _structure.flatten(value) if isinstance(value, list) else ()
    return Tensor(value) if leaves and all(isinstance(leaf, (str, bytes)) for leaf in leaves) else value


def build_in(layer: Any, world: World, specs: list) -> None:
    """Makes the variables of a layer by a call that nobody runs."""
    with unrun(world):
        nodes = [world.graph.placeholder(None, dtype, shape) for dtype, shape in specs]
        layer._in_graph(nodes[0] if len(nodes) == 1 else nodes)


@contextlib.contextmanager
def unrun(world: World) -> Any:
    """A trace that makes variables and is never run."""
    with Trace(world):
        world.graph.only_shapes = True
        try:
            yield
        finally:
            world.graph.only_shapes = False


@functools.lru_cache(maxsize=None)
def calls_library(kind: type) -> bool:
    """Whether a class of the program overrides `call` of a layer of the library: it is called as one written in Python."""
    owner = next(item for item in kind.__mro__ if "call" in item.__dict__)
    return kind._is_native and not owner.__module__.startswith("estoc.")
