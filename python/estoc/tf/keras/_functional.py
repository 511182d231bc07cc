# SPDX-License-Identifier: Apache-2.0
"""Functional models: inputs and outputs, between which layers were called."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from ... import ops
from ..._lib import lib
from ...graph import Node, default_graph
from .. import _structure
from .._eager import unwrap
from ._calling import build_in, unique_name
from ._layer import InputLayer, Layer
from ._model import Model, shapes_of
from ._symbolic import Input, KerasTensor


_classes: dict[type, type] = {}  # subclasses of Model as functional ones


def _from_within(inputs: Any, outputs: Any) -> tuple:
    """Inputs in place of what layers gave, and the outputs that the layers behind them make of these."""
    made: dict[int, Any] = {}

    def new_input(item: Any) -> Any:
        if not isinstance(item, KerasTensor) or item._call is None:
            return item
        made[id(item)] = Input(batch_shape=tuple(item.shape), dtype=item.dtype)
        return made[id(item)]

    def remade(tensor: Any) -> Any:
        if not isinstance(tensor, KerasTensor) or id(tensor) in made or tensor._call is None:
            return made.get(id(tensor), tensor)
        call = tensor._call
        positional, named = _structure.map_structure(remade, (call.positional, call.named))
        result = call.layer(*positional, **named) if call.layer is not None else KerasTensor._keras_call(
            call.function, positional, named)
        made.update(zip(map(id, _structure.flatten(call.made)), _structure.flatten(result)))
        return made[id(tensor)]

    return _structure.map_structure(new_input, inputs), _structure.map_structure(remade, outputs)


def class_for(kind: type, args: tuple, named: dict) -> type:
    """The class of a model that is made with these arguments: a subclass of Model that is given inputs and outputs is
    functional, with what it overrides, as in Keras."""
    if kind is Model and (args or "inputs" in named):
        return Functional
    parts = list(args[:2]) + [named[key] for key in ("inputs", "outputs") if key in named]
    if len(parts) != 2 or kind._functional or not all(
            isinstance(leaf, KerasTensor) for part in parts for leaf in _structure.flatten(part)):
        return kind
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (kind, Functional), {"__module__": kind.__module__})
    return _classes[kind]


class Functional(Model):
    """A model of inputs and outputs, between which layers were called."""

    _functional = True
    _scoped = False
    _in_order_of_attributes = False

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, trainable: bool = True,
                 dtype: Any = None):
        Model.__init__(self, name=name or (unique_name("model") if type(self) is Functional else None),
                       trainable=trainable, dtype=dtype)
        d = self.__dict__
        if any(isinstance(item, KerasTensor) and item._call is not None for item in _structure.flatten(inputs)):
            inputs, outputs = _from_within(inputs, outputs)
        d["_inputs"], d["_outputs"] = inputs, outputs
        d["_flat"] = _structure.flatten(inputs)
        for item in d["_flat"]:
            if not isinstance(item, KerasTensor):
                raise ValueError("Found unexpected instance while processing input tensors for keras functional model. "
                                 f"Expecting KerasTensor which is from tf.keras.Input(). Got: {item!r}")
        d["_terms"], d["_measured"] = [], []  # of add_loss and add_metric
        d["_output_form"] = _structure.map_structure(lambda leaf: None, outputs)
        d["_calls"] = self._by_depth(self._order(outputs))
        for call in d["_calls"]:
            if call.layer is not None and not any(call.layer is layer for layer in self._layers):
                self._live_with(call.layer)
                self._layers.append(call.layer)
        d["built"] = True

    inputs = property(lambda self: self._flat)
    outputs = property(lambda self: _structure.flatten(self._outputs))
    input = property(lambda self: self._inputs)
    output = property(lambda self: self._outputs)
    input_shape = property(lambda self: shapes_of(self._inputs))
    output_shape = property(lambda self: shapes_of(self._outputs))
    input_names = property(lambda self: [item.name for item in self._flat])

    def _order(self, outputs: Any) -> list:
        order, seen = [], set()

        def visit(tensor: Any) -> None:
            if not isinstance(tensor, KerasTensor):
                return
            call = tensor._call
            if call is None:
                if not any(tensor is item for item in self._flat):
                    raise ValueError(f"Graph disconnected: cannot obtain value for tensor {tensor!r}; it is not among "
                                     "the inputs of the model.")
                return
            if id(call) in seen:
                return
            seen.add(id(call))
            for leaf in _structure.flatten((call.positional, call.named)):
                visit(leaf)
            order.append(call)

        for leaf in _structure.flatten(outputs):
            visit(leaf)
        return order

    def _outputs_of_network(self) -> list[str]:
        """Names of the layers that give the outputs; the second of a layer is "name_1"."""
        found: list[str] = []
        for tensor in self.outputs:
            call = tensor._call
            name = call.layer.name if call is not None and call.layer is not None else tensor.name
            count = sum(one == name or re.fullmatch(rf"{re.escape(name)}_\d+", one) is not None for one in found)
            found.append(name if name not in found else f"{name}_{count}")
        return found

    def _output_keys(self) -> list:
        return sorted(self._outputs) if isinstance(self._outputs, dict) else self._outputs_of_network()

    def _by_depth(self, calls: list) -> list:
        """The order of Keras, in which checkpoints number layers: by the distance from the outputs, and then as a walk
        from the outputs meets the layers."""
        depth: dict[int, int] = {}
        of_layer: dict[int, int] = {}
        index: dict[int, int] = {}

        def source(leaf: KerasTensor) -> Any:
            """The call that gives a tensor, or an Input itself."""
            return leaf if leaf._call is None else leaf._call

        def own_of(item: Any) -> int:
            return id(getattr(item, "layer", None) or item)

        def parents(item: Any) -> list:
            if isinstance(item, KerasTensor):
                return []
            found = [source(leaf) for leaf in _structure.flatten((item.positional, item.named))
                     if isinstance(leaf, KerasTensor)]
            return list({id(item): item for item in found}.values())

        def visit(item: Any) -> None:
            if own_of(item) not in index:
                index[own_of(item)] = len(index)
            elif id(item) in seen:
                return
            seen.add(id(item))
            for parent in parents(item):
                visit(parent)

        seen: set = set()
        for leaf in _structure.flatten([self._outputs, self._terms, [value for _, value in self._measured]]):
            if isinstance(leaf, KerasTensor):
                visit(source(leaf))
        for call in reversed(calls):
            own = own_of(call)
            deep = max(depth.get(id(call), 0), of_layer.get(own, 0))
            depth[id(call)] = of_layer[own] = deep
            for parent in parents(call):
                depth[id(parent)] = max(depth.get(id(parent), 0), deep + 1)
        items = sorted([*self._flat, *calls], key=lambda item: (-depth.get(id(item), 0), index.get(own_of(item), 0)))
        self.__dict__["_items"] = items
        return [item for item in items if not isinstance(item, KerasTensor)]

    @property
    def layers(self) -> list:
        """The inputs and the layers, in the order of their distance from the outputs, as in Keras."""
        found = [InputLayer._of(item) if isinstance(item, KerasTensor) else item.layer for item in self._items]
        return list({id(layer): layer for layer in found if layer is not None}.values())

    def _checkpoint_layers(self) -> list:
        return self._weighted_layers()  # "layer-<i>" counts inputs, which are no layers here

    def _names(self) -> list[str]:
        if isinstance(self._inputs, dict):
            return sorted(self._inputs)
        return [item.name for item in self._flat]

    def _flat_inputs(self, x: Any) -> tuple[list, list[str]]:
        names = self._names()
        if isinstance(x, dict):
            missing = [name for name in names if name not in x]
            if missing:
                raise ValueError(f'Missing data for input "{missing[0]}". You passed a data dictionary with keys '
                                 f"{sorted(x)}. Expected the following keys: {names}")
            return [x[name] for name in names], names
        leaves = _structure.flatten(x)
        if len(leaves) != len(names):
            raise ValueError(f"Layer \"{self.name}\" expects {len(names)} input(s), but it received {len(leaves)} "
                             "input tensors.")
        return leaves, names

    def _takes_tuple(self, form: tuple) -> bool:
        return False

    def _pack_inputs(self, nodes: list) -> Any:
        return nodes[0] if len(nodes) == 1 else nodes

    def _known_inputs(self) -> list | None:
        by_name = dict(zip(self._names(), self._flat if not isinstance(self._inputs, dict) else
                           [self._inputs[key] for key in sorted(self._inputs)]))
        return [(name, item.dtype, tuple(item.shape)) for name, item in by_name.items()]

    def _ensure_built(self) -> None:
        if default_graph() is not None or self._world_now().graph in self._made_in:
            return
        self._made_in.add(self._world_now().graph)
        build_in(self, self._world_now(), [(dtype, shape) for _, dtype, shape in self._known_inputs()])
        for layer in self._flat_layers():  # the call has made what they have
            layer._made_in.add(self._world_now().graph)

    def build(self, input_shape: Any) -> None:
        """Its variables are known already."""

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        leaves, _ = self._flat_inputs(inputs)
        order = [self._inputs[key] for key in sorted(self._inputs)] if isinstance(self._inputs, dict) else self._flat
        in_parts = not any(isinstance(leaf, Node) for leaf in leaves)
        conformed = _conform_value if in_parts else conform
        made = {id(item): conformed(leaf, item, self.name, i) for i, (item, leaf) in enumerate(zip(order, leaves))}
        results: dict[tuple, Any] = {}

        def find(leaf: Any) -> Any:
            if not isinstance(leaf, KerasTensor):
                return leaf
            if leaf._call is None:
                return made[id(leaf)]
            return results[(id(leaf._call), leaf._index)]

        for call in self._calls:
            args, named = _structure.map_structure(find, (call.positional, call.named))
            if call.layer is None:
                args, named = _structure.map_structure(unwrap, (args, named))
            value = (call.layer if in_parts else call.function)(*args, **named)
            for i, leaf in enumerate(_structure.flatten(value)):
                results[(id(call), i)] = leaf
        for term in self._terms:
            Layer.add_loss(self, find(term))
        for name, value in self._measured:
            Layer.add_metric(self, find(value), name)
        return _structure.map_structure(find, self._outputs)

    def _can_call_parts(self, named: dict) -> bool:
        return not named.get("training") and not self._terms and not self._measured and all(
            call.layer is not None for call in self._calls)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """A term of the loss: a tensor of the model, or of a call."""
        for loss in _structure.flatten(losses):
            if isinstance(loss, KerasTensor):
                self._terms.append(loss)
                self._extend()
            else:
                super().add_loss(loss, inputs)

    def add_metric(self, value: Any, name: str | None = None, aggregation: str | None = "mean") -> None:
        """The mean of a tensor of the model, among the metrics."""
        if not isinstance(value, KerasTensor):
            super().add_metric(value, name, aggregation)
            return
        if aggregation not in (None, "mean"):
            raise NotImplementedError("add_metric: the aggregation is \"mean\"")
        if not name:
            raise ValueError("Please provide a name for your metric like `self.add_metric(tf.reduce_sum(inputs), "
                             "name='mean_activation')`")
        self._measured.append((name, value))
        self._extend()

    def _extend(self) -> None:
        """Calls that only losses and metrics need."""
        if self._network is not None:
            raise ValueError("add_loss and add_metric come before the model is fitted")
        self.__dict__["_calls"] = self._by_depth(self._order(
            [self._outputs, self._terms, [value for _, value in self._measured]]))
        for call in self._calls:
            if call.layer is not None and not any(call.layer is layer for layer in self._layers):
                self._live_with(call.layer)
                self._layers.append(call.layer)


def _need_shape(have: Any, want: Any, model: str, number: int) -> None:
    """Raises where Keras does: an axis is another one. The number of axes may differ, and the last one may be 1."""
    pairs = zip(*([*shape][:-1] if len(shape) and shape[-1] == 1 else [*shape] for shape in (have, want)))
    if any(i > 0 and None not in pair and pair[0] != pair[1] for i, pair in enumerate(pairs)):
        raise ValueError(f'Input {number} of layer "{model}" is incompatible with the layer: expected shape='
                         f"{tuple(want)}, found shape={tuple(have)}")


def conform(node: Node, wanted: KerasTensor, model: str, number: int) -> Node:
    """A last axis of 1 more or less, and the dtype of the Input, as Keras does it; data of another shape is refused."""
    have, want = node.shape, wanted.shape
    if have is not None and want is not None:
        _need_shape(have, want, model, number)
        if len(have) == len(want) + 1 and have[-1] == 1:
            node = ops.squeeze(node, -1)
        elif len(have) == len(want) - 1 and want[-1] == 1:
            node = Node(node.graph, lib.est_expand_dims(node._c, -1))
    if node.dtype != wanted.dtype:
        node = Node(node.graph, lib.est_cast(node._c, wanted.dtype.number))
    node.graph.check()
    return node


def _conform_value(value: Any, wanted: KerasTensor, model: str, number: int) -> Any:
    """conform of a tensor with a value."""
    array, want = np.asarray(unwrap(value)), wanted.shape
    if want is not None:
        _need_shape(array.shape, want, model, number)
        if array.ndim == len(want) + 1 and array.shape[-1] == 1:
            return array[..., 0]
        if array.ndim == len(want) - 1 and want[-1] == 1:
            return array[..., None]
    return value
