# SPDX-License-Identifier: Apache-2.0
"""Layers of the C library, and their arguments."""
from __future__ import annotations

import re
from typing import Any, Callable

from ..._lib import Keep, SharedSet, ffi, here, lib, made, text
from ..._tensor import float32
from ...graph import Graph, Node, as_node, default_graph
from .. import _structure
from .._creators import announce
from .._trace import updates_of
from .._variable import count_variables, new_variables
from ._calling import build_in, place, shown_name
from ._layer import Layer

_NORMALIZES_BATCHES = {"BatchNormalization", "SyncBatchNormalization"}

_natives = SharedSet()
ACTIVATED = ("Softmax", "Sigmoid")  # operations that crossentropies know


def layers_in(graph: Graph) -> list:
    """The layers of the library that have variables in a graph."""
    return [layer for layer in _natives if graph in layer._in_graphs]


class NativeLayer(Layer):
    """A layer of the library. Subclasses say how it is made."""

    _is_native = True
    _scoped = False
    _keeps_logits = False  # for crossentropies of values, which are computed from them
    #: Parameters of a call in the order of Keras; None: _call_in knows them.
    _parameters: Any = ("inputs",)

    def __init__(self, make: Callable[[Keep], Any], **named: Any):
        super().__init__(**named)
        self.__dict__["_make"] = make
        self.__dict__["_native"] = None
        self.__dict__["_after"] = None  # an activation that is written in Python
        self.__dict__["_regularized"] = []  # (index of a variable, regularizer)
        self.__dict__["_constrained"] = {}  # index of a variable -> constraint
        _natives.add(self)

    def _bound(self, args: tuple, named: dict) -> tuple:
        names, what = self._parameters, f"{type(self).__name__}.call()"
        if names is None:
            return args, named
        if len(args) > len(names):
            raise TypeError(f"{what} takes {len(names)} positional arguments but {len(args)} were given")
        for name, value in zip(names, args):
            if name in named:
                raise TypeError(f"{what} got multiple values for argument {name!r}")
            named = {**named, name: value}
        unknown = [name for name, value in named.items() if name not in names + ("training",) and value is not None]
        if unknown:
            raise TypeError(f"{what} got an unexpected keyword argument {unknown[0]!r}")
        if "inputs" not in named:
            raise TypeError(f"{what} missing 1 required positional argument: 'inputs'")
        return (named["inputs"],), {name: value for name, value in named.items() if name != "inputs"}

    def _layer(self) -> Any:
        if self._native is None:
            keep = Keep()
            self.__dict__["_native"] = made(self._make(keep), "est_layer_free")
            self.__dict__["_keep"] = keep
            if not self._trainable:
                lib.est_layer_set_trainable(self._native, False)
        return self._native

    @property
    def trainable(self) -> bool:
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._freeze(value)
        if self._native is not None:
            lib.est_layer_set_trainable(self._native, bool(value))

    def _call_in(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        inputs = [as_node(leaf, graph) for leaf in _structure.flatten(args[0])] if args else []
        inputs = [_single(node) for node in inputs]
        self._note_own()
        masks = {key: named[key]._c for key in ("mask", "query_mask") if isinstance(named.get(key), Node)}
        before, updates = count_variables(graph), updates_of(graph)
        here()
        keep = Keep()
        options = keep.options("est_call_options", training=training, **masks)
        nodes = keep.span("est_nodes", "est_node", [n._c for n in inputs])
        self._layer()
        with _Training(self, graph, inputs, training):
            if self._precision is None:
                result = lib.est_layer_call_with(self._native, nodes, options)
            else:
                before_it = lib.est_graph_precision(graph._c, self._precision)
                result = lib.est_layer_call_with(self._native, nodes, options)
                lib.est_graph_precision(graph._c, before_it)
        try:
            graph.check()
        except BaseException:
            if not len(self._in_graphs):  # what the failed call has begun cannot be continued
                self.__dict__["_native"] = None
            raise
        if graph not in self._in_graphs:
            made_now = new_variables(graph, getattr(graph, "world", None), before)
            if made_now and not self._trainable and getattr(graph, "world", None) is not None:
                for variable, trainable in zip(made_now, self._trainable_ones(inputs)):
                    variable._trainable = trainable
            for variable in made_now:  # the scope of the graph may have a number more
                parts = variable._name.split("/")
                at = max((i for i, part in enumerate(parts) if re.fullmatch(re.escape(self._name) + r"(_\d+)?", part)),
                         default=0)
                variable._shown = shown_name("/".join([self._name] + parts[at + 1:]))
            self._in_graphs[graph] = made_now
            for i, constraint in self._constrained.items():
                made_now[i].constraint = constraint
            if graph.builds or getattr(graph, "world", None) is not None:  # and not the copies of a network that is fitted
                announce(made_now)
        self.__dict__["built"] = True
        if updates_of(graph) > updates and getattr(graph, "world", None) is None:
            made_now = [graph._made(ffi.new("est_node *", node)[0]) for node in graph._collection("est_update_ops")[updates:]]
            self._updates_in.setdefault(graph, []).extend(made_now)
        result = Node(graph, result)
        if self._keeps_logits:
            kind = text(lib.est_node_op(result._c))
            if kind in ACTIVATED:
                graph.logits[place(result)] = {kind: Node(graph, lib.est_node_input(result._c, 0))}
        return result if self._after is None else self._after(result)

    def _trainable_ones(self, inputs: list) -> list[bool]:
        """Which of its variables are trainable when the layer is not frozen: those of a trial that nobody runs."""
        trial, keep = Graph(), Keep()
        nodes = [trial.placeholder(None, node.dtype, node.shape)._c for node in inputs]
        lib.est_layer_set_trainable(self._layer(), True)
        lib.est_layer_call_with(self._layer(), keep.span("est_nodes", "est_node", nodes), keep.options("est_call_options"))
        lib.est_layer_set_trainable(self._layer(), False)
        trial.check()
        return [variable.trainable for variable in new_variables(trial, None, 0)]

    _object_names: dict = {}  # first parts of names of variables, and what Keras calls these objects

    def _checkpoint_parts(self) -> list:
        """The variables, by what follows the name of the layer in theirs."""
        from .._checkpoint import Part
        top: dict[str, Any] = {}
        for variable in self._in_graphs.get(self._graph_now(), ()):
            *above, name = variable._shown.rsplit(":", 1)[0].split(f"{self._name}/", 1)[-1].split("/")
            place = top
            for part in above:
                place = place.setdefault(self._object_names.get(part, part), {})
            place[name] = variable

        def made(place: dict) -> list:
            return [(name, Part(made(item)) if isinstance(item, dict) else item) for name, item in place.items()]

        return super()._checkpoint_parts() + made(top)

    def _ensure_built(self) -> None:
        if not self.built and self._batch_input_shape is not None and default_graph() is None:
            build_in(self, self._world_now(), [(float32, self._batch_input_shape)])
        super()._ensure_built()

    def _note_own(self) -> None:
        """Notes how many variables of its own a class of the program has made before those of the library."""
        self.__dict__.setdefault("_own_before", len(self._own_weights))

    def build(self, input_shape: Any) -> None:
        self._note_own()
        if not self.built and default_graph() is None:  # else the call that is under way makes the variables
            build_in(self, self._world_now(), [(float32, tuple(input_shape))])

    def _costs(self, graph: Graph) -> list:
        variables = self._in_graphs.get(graph, ())
        return super()._costs(graph) + [(variables[i], cost) for i, cost in self._regularized if i < len(variables)]


class _Training:
    """Around a call in the network of a model: the layer is trained if it is the model's and was when the model was
    compiled. The network has the values of other layers, and trains none of them."""

    def __init__(self, layer: NativeLayer, graph: Graph, inputs: list, training: bool):
        network = None if graph.network is None else graph.network()
        self._layers = [] if network is None else [
            (item, network.trains_layer(item)) for item in [layer] + layer._flat_layers()
            if isinstance(item, NativeLayer) and item._native is not None]
        for item, trained in self._layers:
            if trained is None:
                network.use_other(item, inputs if item is layer else None)
                if training and item._trainable and type(item).__name__ in _NORMALIZES_BATCHES:
                    raise NotImplementedError(f"{item.name} is a {type(item).__name__} that is not a layer of {network.name}, whose "
                                              "training would change its moving statistics: call it with training=False, "
                                              "set its trainable to False, or make it an attribute of the model")

    def _set(self, ended: bool) -> None:
        for item, trained in self._layers:
            lib.est_layer_set_trainable(item._native, item._trainable if ended else bool(trained))

    def __enter__(self) -> None:
        self._set(False)

    def __exit__(self, *of_exception: Any) -> None:
        self._set(True)


def _single(node: Node) -> Node:
    return Node(node.graph, lib.est_cast(node._c, float32.number)) if node.dtype.name == "float64" else node
