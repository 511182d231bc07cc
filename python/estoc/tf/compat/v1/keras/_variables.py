# SPDX-License-Identifier: Apache-2.0
"""Layers and modules of TensorFlow 2 whose methods make variables as TensorFlow 1 does."""
from __future__ import annotations

import functools
import weakref
from typing import Any, Callable

from ....._tensor import as_dtype
from .....graph import Node, Shape, default_graph
from .....initializers import Initializer
from ...._module import Module
from ....keras import _layer
from .. import _graph

_ATTRIBUTE = "_tf1_style_var_store"


class Store(_layer.Layer):
    """The variables that the methods of an object have made, by name, and the layers."""

    _scoped = False

    def __init__(self) -> None:
        super().__init__(name="tf1_style_variables")
        self.__dict__["_named"] = weakref.WeakKeyDictionary()  # Graph -> variables by name
        self.__dict__["_normal"] = {}  # layers that stand for functions of tf.compat.v1.layers, by scope
        self.kept = {}

    def _known_in(self, graph: Any) -> dict:
        """Those of a graph of a model_fn, or of the program, which a network that is fitted copies."""
        world = self._world_now().graph
        apart = graph is not None and not graph.is_sketch and getattr(graph, "world", None) is None
        found = self._named.setdefault(world, {})
        return found if found or not apart else self._named.setdefault(graph, {})

    def get_variable(self, name: str, shape: Any, dtype: Any, initializer: Any, regularizer: Any, trainable: Any) -> Any:
        """The variable of that name, made by the first call."""
        known = self._known_in(default_graph())
        found = known.get(name)
        if found is not None:
            if shape is not None and found.shape != Shape([shape] if isinstance(shape, int) else shape):
                raise ValueError(f"Trying to share variable {name}, but specified shape {_graph.tuple_of(shape)} and "
                                 f"found shape {_graph.tuple_of(found.shape)}.")
            return found
        if isinstance(initializer, type):
            initializer = initializer()
        if initializer is not None and not callable(initializer) and not isinstance(initializer, (Initializer, str)):
            value, shape, dtype = _graph._initial(initializer, dtype)
            if isinstance(value, Node):
                raise NotImplementedError(f"{name}: the initial value of a variable of a layer is a number, an array or "
                                          "what an initializer gives, not a tensor")
            initializer = lambda shape, dtype=None: value  # noqa: E731
        if shape is None:
            raise ValueError(f"Shape of a new variable ({name}) must be fully defined, but instead was <unknown>.")
        if initializer is None and not as_dtype(dtype).is_floating:
            initializer = "zeros"
        made = self.add_weight(name, shape, dtype, initializer, regularizer, trainable)
        made._shown = name + ":0"
        known[name] = made
        return made

    def normal(self, scope: str, create: Callable) -> Any:
        """The layer that stands for a function, whose variables are named below the scope."""
        layer = self._normal.get(scope)
        if layer is None:
            layer = self._normal[scope] = create()
            self.__dict__["_layers"].append(layer)
        return layer

    def name_variables(self) -> None:
        """Those of layers that stand for functions, which a call may have made."""
        for scope, layer in self._normal.items():
            for variables in list(layer._in_graphs.values()):
                for variable in variables:
                    variable._shown = f"{scope}/{variable._shown.rpartition('/')[2]}"

    def _collect(self, graph: Any) -> list:
        """By name, as TensorFlow has them, and then those of layers."""
        normal = list(self._normal.values())
        own = list(self._own_weights) + [item for layer in normal for item in layer._collect(graph)]
        found = sorted(own, key=lambda variable: variable.name)
        for layer in self._layers:
            if layer not in normal:
                found += layer._collect(graph)
        return list({id(item): item for item in found}.values())


def track_tf1_style_variables(method: Callable) -> Callable:
    """Decorates a method of a layer, model or tf.Module. What get_variable, tf.compat.v1.layers and get_or_create_layer make
    in it belongs to the object: the first call makes it, later ones find it by its name. Scopes without a name of their own
    are counted anew in each call."""

    @functools.wraps(method)
    def tracked(self: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(self, Module):  # layers and models are modules
            raise ValueError("`@tf.compat.v1.keras.utils.track_tf1_style_variables` must be applied to a method of a "
                             "subclassed `tf.Module`, `tf.keras.layers.Layer`, or `tf.keras.Model` and which takes "
                             f"`self` as the first argument. But, the first argument passed to the decorated method was {self}")
        store = self.__dict__.get(_ATTRIBUTE)
        if store is None:
            store = Store()
            setattr(self, _ATTRIBUTE, store)
        with _graph.storing(store):
            result = method(self, *args, **named)
        store.name_variables()
        return result

    return tracked


def get_or_create_layer(name: str, create_layer_method: Callable) -> Any:
    """The layer of that name of the object whose method is called, made by the first call."""
    store = _graph.current_store()
    if store is None:
        if default_graph() is not None and default_graph().builds:
            return create_layer_method()
        raise ValueError("Tried to call get_or_create_layer in eager mode from a method notdecorated with "
                         "@tf.compat.v1.keras.utils.track_tf1_style_variables.")
    found = store.kept.get(name)
    if found is None:
        found = store.kept[name] = create_layer_method()
    return found
