# SPDX-License-Identifier: Apache-2.0
"""Sequential models: one layer after the other."""
from __future__ import annotations

import weakref
from typing import Any, Sequence

from ... import data as _data
from ..._tensor import string
from ...graph import Node, default_graph
from .. import _structure
from ._calling import build_in, graph_of_program
from ._functional import conform
from ._layer import InputLayer, Layer
from ._model import Model
from ._native import NativeLayer
from ._symbolic import Input, KerasTensor
from .layers._text import TextVectorization


class Sequential(Model):
    """One layer after the other."""

    _functional = True
    _in_order_of_attributes = False

    def __init__(self, layers: Sequence | None = None, name: str | None = None):
        super().__init__(name=name)
        self.__dict__["_input"] = None
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Any) -> None:
        if isinstance(layer, (KerasTensor, InputLayer)):
            self.__dict__["_input"] = layer.output if isinstance(layer, InputLayer) else layer
            return
        if not isinstance(layer, Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Received: layer={layer} of type "
                            f"{type(layer)}.")
        if any(layer.name == other.name and layer is not other for other in self._layers):
            raise ValueError("All layers added to a Sequential model should have unique names. Name "
                             f"\"{layer.name}\" is already the name of a layer in this model.")
        if not self._layers and self._input is None and layer._batch_input_shape is not None:
            self.__dict__["_input"] = Input(batch_shape=layer._batch_input_shape, name=f"{layer.name}_input")
        if not self._layers and self._input is None and isinstance(layer, Model) and layer._functional and len(
                layer._known_inputs() or ()) == 1:
            (_, dtype, shape), = layer._known_inputs()
            self.__dict__["_input"] = Input(batch_shape=shape, dtype=dtype, name=f"{layer.name}_input")
        self._forget_calls()
        self._live_with(layer)
        self._layers.append(layer)
        layer.__dict__["_in_sequence"] = weakref.ref(self)

    def _forget_calls(self) -> None:
        """What was made of the layers so far; they keep their variables."""
        if self._network is not None:
            self._drop_network()
        self._change()
        self.__dict__.update(built=False, _steps={}, _specs=None, _output_form=None)

    def _call_symbolic(self) -> Any:
        """Calls the layers one after the other as a functional model does, for their inputs and outputs."""
        if self._input is None:
            raise AttributeError(f"The layer {self.name} has never been called and thus has no defined input.")
        value = self._input
        for layer in self._layers:
            value = layer(value)
        return value

    @property
    def _scoped(self) -> bool:
        """In a model_fn, and in graphs of TensorFlow 1.x, Keras makes no graph of its own for the shape of the first input:
        without a known one the layers are called as those of a subclass are."""
        return self._input is None and graph_of_program() is not None

    input = property(lambda self: self._input)
    output = property(lambda self: self._call_symbolic())
    outputs = property(lambda self: None if self._input is None else [self._call_symbolic()])

    def _checkpoint_layers(self) -> list:
        return self._weighted_layers() + [(f"layer-{i}", layer) for i, layer in enumerate(self._layers)]

    def pop(self) -> None:
        if not self._layers:
            raise TypeError("There are no layers in the model.")
        self._forget_calls()
        self._layers.pop()

    inputs = property(lambda self: None if self._input is None else [self._input])
    input_shape = property(lambda self: None if self._input is None else tuple(self._input.shape))

    @property
    def output_shape(self) -> Any:
        if self._input is None:
            raise AttributeError("The layer has never been called and thus has no defined output shape.")
        return tuple(self(self._input).shape)

    def _flat_inputs(self, x: Any) -> tuple[list, list[str]]:
        if isinstance(x, dict) or _structure.is_nested(x) and len(_structure.flatten(x)) != 1:
            return super()._flat_inputs(x)  # for a first layer that takes a dict, as DenseFeatures does
        leaves = _structure.flatten(x)
        self.__dict__["_input_form"] = None
        name = self._input.name if self._input is not None else f"{self._layers[0].name}_input"
        return leaves, [name]

    def _pack_inputs(self, nodes: list) -> Any:
        return nodes[0] if self._input_form is None else super()._pack_inputs(nodes)

    def _known_inputs(self) -> list | None:
        if self._input is None:
            return self.__dict__.get("_called")
        return [(self._input.name, self._input.dtype, tuple(self._input.shape))]

    def _ensure_built(self) -> None:
        if default_graph() is not None or self._input is None:
            return
        graph, natives = self._world_now().graph, [layer for layer in self._flat_layers() if isinstance(layer, NativeLayer)]
        if self.built and any(layer._in_graphs.get(graph) for layer in natives) and all(
                graph in layer._in_graphs for layer in natives):
            return
        build_in(self, self._world_now(), [(self._input.dtype, tuple(self._input.shape))])

    def build(self, input_shape: Any = None) -> None:
        if self._input is None and input_shape is not None:
            self.__dict__["_input"] = Input(batch_shape=tuple(input_shape), name=f"{self._layers[0].name}_input")
        self._ensure_built()

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if self._input is not None and isinstance(inputs, Node) and not isinstance(inputs, KerasTensor):
            inputs = conform(inputs, self._input, self.name, 0)
        for layer in self._layers[1 if self._texts() is not None else 0:]:
            inputs = layer(inputs)
        return inputs

    # --- texts ---

    def _texts(self) -> Any:
        """A first layer that makes numbers of texts by functions of the program, or before a loop over as many steps as a
        batch has: it is called outside of graphs, with what the model is given."""
        first = self._layers[0] if self._layers else None
        return first if isinstance(first, TextVectorization) and (
            first.needs_values or first.has_any_length and self._loops()) else None

    def _can_call_parts(self, named: dict) -> bool:
        return not named.get("training")

    def __call__(self, *args: Any, **named: Any) -> Any:
        texts = self._texts()
        if texts is not None and args and not (isinstance(args[0], Node) and args[0].dtype != string):  # else they are ids
            args = (texts(args[0]),) + args[1:]
        return super().__call__(*args, **named)

    def _given(self, x: Any) -> Any:
        """What the graph of the model is given for an input, or for a dataset of inputs and labels."""
        texts = self._texts()
        if texts is None or not isinstance(x, _data.Dataset):
            return x if texts is None else texts(x)
        return x.map(lambda *parts: (texts(parts[0]), *parts[1:]) if len(parts) > 1 else texts(parts[0]))

    def _given_batch(self, batch: Any) -> Any:
        texts = self._texts()
        if texts is None:
            return batch
        return (texts(batch[0]), *batch[1:]) if isinstance(batch, tuple) else texts(batch)
