# SPDX-License-Identifier: Apache-2.0
"""The class Layer: how layers are called, their losses, masks and descriptions.

A layer is called in the graph of a function that is traced, of a network that is fitted, of a model_fn or of a map;
outside of all of them its call is a function of the world in which the layer was made. In each graph it has variables
of its own, which Python keeps in step.
"""
from __future__ import annotations

import contextlib
import inspect
import weakref
from typing import Any, Callable

import numpy as np

from ... import ops
from ..._lib import NULL, Keep, check, ffi, lib
from ..._tensor import as_dtype, float32
from ...graph import Graph, NeedsSteps, Node, Shape, as_node, default_graph
from .. import _structure
from .._absent import Named
from .._eager import Tensor, tapes, unwrap
from .._function import Function
from .._trace import take_updates, updates_of
from .._variable import Variable
from .._world import current_world
from . import mixed_precision
from ._attributes import Attributes, read_by_call
from ._calling import (Calling, apart, as_input, build_in, calls_library, context, place, scopes_of, snake, tensors_of,
                       training_by_default, training_phase, unique_name)
from ._recorded import Recorded, made_again
from ._symbolic import Input, KerasTensor
from ._weights import Weights

_VIEWS = (type({}.values()), type({}.items()))


def _policy_of(dtype: Any) -> mixed_precision.Policy | None:
    """The policy of a layer that was given this dtype; None: another type, of layers that work on strings and integers."""
    if dtype is None:
        return mixed_precision.global_policy()
    if isinstance(dtype, mixed_precision.Policy):
        return dtype
    name = dtype if isinstance(dtype, str) else as_dtype(dtype).name
    return mixed_precision.Policy(name) if "float" in name else None


def _precision_of(policy: mixed_precision.Policy | None) -> int:
    mixed = policy is not None and policy.is_mixed
    return lib.EST_PRECISION_MIXED_BFLOAT16 if mixed else lib.EST_PRECISION_FLOAT32


_OF_RAGGED_VALUES = {"Embedding", "StringLookup", "IntegerLookup", "Hashing", "Discretization", "Activation", "Dropout",
                     "ReLU", "LeakyReLU", "ELU", "Dense", "Rescaling"}
_ROWS_TO_ONE = {"GlobalAveragePooling1D", "GlobalMaxPooling1D"}
_OWN_LAYERS = __name__.rsplit(".", 1)[0] + ".layers"


class Layer(Attributes, Weights, Recorded, Named):
    """tf.keras.layers.Layer. Subclasses override call, and build to make variables with add_weight."""

    _where = "tf.keras.layers.Layer"
    _is_native = False  # of the C library
    _scoped = True  # its variables are named below its name

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, dynamic: bool = False,
                 **named: Any):
        d = self.__dict__
        d["_layers"], d["_own_weights"], d["_own_metrics"] = [], [], []
        d["_tracked"] = {}  # attributes with layers or variables in them, for checkpoints
        d["_in_attributes"] = {}  # attribute -> its layers and variables, and _Seen of its lists and dicts
        d["_held"], d["_by_attribute"] = {}, set()  # layers and variables of attributes by id; those known by them alone
        d["_updates_in"] = weakref.WeakKeyDictionary()  # Graph -> operations beside those that give the result
        d["_in_graphs"] = weakref.WeakKeyDictionary()  # Graph -> variables, of layers of the library
        d["_losses"] = weakref.WeakKeyDictionary()  # Graph -> losses of calls
        d["_noted"] = weakref.WeakKeyDictionary()  # Graph -> values of add_metric by name
        d["_built_in"] = weakref.WeakSet()
        d["_trainable"] = trainable
        d["_name"] = name or unique_name(snake(type(self).__name__))
        d["dtype_policy"] = _policy_of(dtype)
        # None: that of the graph, which a RunConfig may have set
        d["_precision"] = None if dtype is None and not d["dtype_policy"].is_mixed else _precision_of(d["dtype_policy"])
        d["_dtype"] = as_dtype(dtype if d["dtype_policy"] is None else d["dtype_policy"].variable_dtype)
        d["built"] = False
        d["_made_in"] = weakref.WeakSet()  # graphs of worlds in which the call of a functional model was made again
        d["_eager_call"] = None
        d["_edition"], d["_changed"], d["_looked"] = 0, 0, 0  # of its call; when the layer changed; when a call looked
        d["_changeable"] = []  # layers of its call that read lists or dicts
        graph = default_graph()
        d["_home"] = current_world() if graph is None or getattr(graph, "world", None) is not None else None
        shape = named.pop("input_shape", None)
        if "input_dim" in named:
            shape = (named.pop("input_dim"),)
        batch = named.pop("batch_input_shape", None)
        if batch is None and shape is not None:
            batch = (named.pop("batch_size", None),) + tuple((shape,) if isinstance(shape, int) else shape)
        d["_batch_input_shape"] = None if batch is None else tuple(batch)
        named.pop("autocast", None)
        from . import regularizers
        d["activity_regularizer"] = regularizers.get(named.pop("activity_regularizer", None))
        if named:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {next(iter(named))!r}")

    # --- parts ---

    name = property(lambda self: self._name)
    dtype = property(lambda self: self._dtype.name)
    variable_dtype = dtype
    compute_dtype = property(lambda self: self.dtype_policy.compute_dtype if self.dtype_policy else self.dtype)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._freeze(value)
        for layer in self._layers:
            layer.trainable = value

    _looks_at_trainable = False  # a call of a frozen layer is another one

    def _freeze(self, value: bool) -> None:
        """Sets whether it is trainable."""
        changed = self._trainable != bool(value)
        self.__dict__["_trainable"] = bool(value)
        if changed and (self._looks_at_trainable or "trainable" in read_by_call(type(self))):
            self._change()

    @property
    def submodules(self) -> tuple:
        return tuple(self._flat_layers())

    def _trained_layers(self, above: bool = True, found: Any = None) -> dict:
        """This layer and all within, and whether their variables are trained."""
        found = {} if found is None else found
        found[self] = above and self._trainable or found.get(self, False)
        for layer in self._layers:
            layer._trained_layers(above and self._trainable, found)
        return found

    def _flat_layers(self) -> list:
        """All layers within, each once, also one that several of them share."""
        found: dict[int, Layer] = {}
        for layer in self._layers:
            found.update((id(item), item) for item in [layer] + layer._flat_layers())
        return list(found.values())

    # --- variables ---

    # --- in functional models ---

    def _symbolic_call(self) -> tuple:
        sequence = self.__dict__.get("_in_sequence")
        if "_symbolic" not in self.__dict__ and sequence is not None and sequence() is not None:
            sequence()._call_symbolic()
        if "_symbolic" not in self.__dict__:
            raise AttributeError(f"Layer {self.name} has no inbound nodes.")
        return self._symbolic

    @property
    def input(self) -> Any:
        """What the layer was called with last in a functional model, or in a Sequential one with an input."""
        return self._symbolic_call()[0]

    @property
    def output(self) -> Any:
        """What it gave, for another model of the same layers."""
        return self._symbolic_call()[1]

    input_shape = property(lambda self: _structure.map_structure(lambda leaf: tuple(leaf.shape), self.input))
    output_shape = property(lambda self: _structure.map_structure(lambda leaf: tuple(leaf.shape), self.output))

    def _checkpoint_parts(self) -> list:
        """What tf.train.Checkpoint knows of this layer, by name: attributes, and variables by the names of
        add_weight."""
        from .metrics import Metric
        from .._checkpoint import is_trackable
        self._known("_layers")
        found = [(key, value) for key, value in self._tracked.items() if not isinstance(value, Metric) and
                 is_trackable(value)]
        known = {id(value) for _, value in found}
        for variable in self._own_weights:
            name = variable._shown.rsplit(":", 1)[0].rsplit("/", 1)[-1]
            if id(variable) not in known and name not in self._tracked:
                found.append((name, variable))
        return found

    # --- losses ---

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """A term of the loss, computed in call. What its inputs are is known without being told."""
        for loss in _structure.flatten(losses):
            value = loss() if callable(loss) else loss
            graph = value.graph if isinstance(value, Node) else default_graph()
            self._losses.setdefault(graph, []).append(value)

    def add_metric(self, value: Any, name: str | None = None, aggregation: str | None = "mean") -> None:
        """A value of call whose mean `fit` measures."""
        if aggregation not in (None, "mean"):
            raise NotImplementedError("add_metric: the aggregation is \"mean\"")
        if not name:
            raise ValueError("Please provide a name for your metric like `self.add_metric(tf.reduce_sum(inputs), "
                             "name='mean_activation')`")
        if not isinstance(value, Node):
            raise NotImplementedError("add_metric takes a tensor of the call; update a metric of your own outside")
        self._noted.setdefault(value.graph, {})[name] = value

    @property
    def metrics(self) -> list:
        return list(self._own_metrics)

    @property
    def losses(self) -> list:
        """Of add_loss in the last call, and of regularizers: in a trace or a model_fn nodes of it, else values, which a
        tape that records can go back from."""
        graph = default_graph()
        found = [loss for layer in [self] + self._flat_layers() for loss in (
            layer.__dict__.get("_losses_now", ()) if graph is None else layer._losses.get(graph, ()))]
        terms = self._cost_terms(self._world_now().graph if graph is None else graph)
        if graph is not None or not terms:
            return found + self._cost_nodes(*terms)
        function = self.__dict__.get("_cost_function")
        if function is None:
            function = self.__dict__["_cost_function"] = Function(self._cost_nodes)
        concrete, leaves = function.concrete(terms, {}, self._world_now())  # one trace for these variables
        return found + concrete.run_for(tapes(), leaves, self._cost_nodes, terms, {})

    @property
    def updates(self) -> list:
        """In the graph of a model_fn, the operations that its minimize has to follow; else nothing: what layers update in
        a step is a part of it."""
        graph = default_graph()
        if graph is None or getattr(graph, "world", None) is not None:
            return []
        return [node for layer in [self] + self._flat_layers() for node in layer._updates_in.get(graph, ())]

    def get_updates_for(self, inputs: Any) -> list:
        """All updates, as in Keras 2.15."""
        return self.updates

    def _cost_terms(self, graph: Graph) -> tuple:
        """What is regularized in a graph: a variable and the function of its value, the next variable, and so on."""
        return tuple(item for layer in [self] + self._flat_layers() for cost in layer._costs(graph) for item in cost)

    def _cost_nodes(self, *terms: Any) -> list:
        """What regularizers give, in the graph that is open."""
        return [cost(unwrap(variable)) for variable, cost in zip(terms[::2], terms[1::2])]

    def _costs(self, graph: Graph) -> list:
        """Regularizers of variables: (variable, function of its value)."""
        twins = getattr(graph, "twins", None) or ()
        return [(variable, cost) for variable, cost in self.__dict__.get("_own_costs", ())
                if variable.graph is graph or id(variable) in twins]

    def _noting(self, masks: list | None, edition: int, *args: Any, **named: Any) -> tuple:
        """A call in a graph with inputs that have masks, what it gave to add_loss: (layer, losses), the masks of the
        result, and what activations at its end were given. The edition of the layer tells tapes which traces are of the same."""
        graph = default_graph()
        for leaf, mask in zip(_structure.flatten(args[0]) if masks else (), masks or ()):
            if mask is not None and isinstance(leaf, Node):
                graph.masks[place(leaf)] = as_node(unwrap(mask), graph)
        result = self._in_graph(*args, **named)
        made = [graph.masks.get(place(leaf)) for leaf in _structure.flatten(result)] if graph.masks else []
        return (result, [(layer, layer._losses[graph]) for layer in [self] + self._flat_layers()
                         if layer._losses.get(graph)], made if any(mask is not None for mask in made) else [],
                [graph.logits.get(place(leaf)) for leaf in _structure.flatten(result)] if graph.logits else [])

    # --- calling ---

    def build(self, input_shape: Any) -> None:
        self.__dict__["built"] = True
        if isinstance(input_shape, (list, tuple)) and "_built_for" not in self.__dict__:
            self.__dict__["_built_for"] = tuple(input_shape)

    def call(self, inputs: Any, *args: Any, **named: Any) -> Any:
        """What subclasses override; of a layer of the library its nodes, for super().call."""
        if not self._is_native:
            return inputs
        node = next((leaf for leaf in _structure.flatten(inputs) if isinstance(leaf, Node)), None)
        graph = node.graph if node is not None else default_graph()
        args, named = _structure.map_structure(lambda leaf: as_input(leaf, graph), ((inputs, *args), named))
        args, named = self._bound(args, named)
        training = named.get("training")
        training = training_phase(training) if training is not None else context.__dict__.get("training")
        return self._call_in(graph, args, named, bool(training))

    def __call__(self, *args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], _VIEWS):
            args = (list(args[0]),) + args[1:]
        if args and isinstance(args[0], _structure.Composite) and type(self).__module__.startswith(_OWN_LAYERS):
            return self._call_ragged(*args, **named)
        leaves = _structure.flatten((args, named))
        if any(isinstance(leaf, KerasTensor) for leaf in leaves):
            return KerasTensor._keras_call(self._in_graph, args, named, self)
        if default_graph() is not None or any(isinstance(leaf, Node) for leaf in leaves):
            return self._in_graph(*args, **named)
        function = self._call_now()
        traces = function.experimental_get_tracing_count()
        masks = [getattr(leaf, "_keras_mask", None) for leaf in _structure.flatten(args[0])] if args else []
        masks = masks if any(mask is not None for mask in masks) else None
        values, more = tensors_of(args, named)
        try:
            concrete, flat = function.concrete((masks, self._edition, *values), more, world=self._world_now())
        except NeedsSteps:
            if not self._can_call_parts(named):
                raise
            return self.call(*args)
        if function.experimental_get_tracing_count() != traces:
            self._traced()
        given = (masks, self._edition, *args)
        had = _structure.flatten((given, named))
        result = concrete.run_for(tapes(), flat, self._noting, given, named, had if len(had) == len(flat) else None)
        value, losses, made, logits = result
        for leaf, mask in zip(_structure.flatten(value) if made else (), made):
            if mask is not None and type(leaf) is Tensor:
                leaf._keras_mask = mask
        for leaf, given in zip(_structure.flatten(value) if logits else (), logits):
            if given is not None and type(leaf) is Tensor:
                leaf._keras_logits = given
        if losses or self.__dict__.get("_has_losses"):
            self.__dict__["_has_losses"] = True
            for layer in [self] + self._flat_layers():
                layer.__dict__["_losses_now"] = ()
            for layer, values in losses:
                layer.__dict__["_losses_now"] = values
        return value

    _loops_over_time = False

    def _can_call_parts(self, named: dict) -> bool:
        """Whether `call` may be given tensors, and calls each layer by itself."""
        return False

    def _call_ragged(self, inputs: Any, *args: Any, **named: Any) -> Any:
        """Layers that know no rows work on the values of all; those that pool a row reduce it."""
        kind = type(self).__name__
        if kind in _ROWS_TO_ONE and len(inputs.shape) == 3 and inputs.ragged_rank == 1:
            from ..math import reduce_max, reduce_mean
            return (reduce_mean if kind == "GlobalAveragePooling1D" else reduce_max)(inputs, axis=1)
        if kind == "Dense" and len(inputs.flat_values.shape) < 2:
            raise ValueError("The last dimension of the inputs to a Dense layer should be defined. Found None. Full input "
                             f"shape received: {tuple(inputs.shape)}")
        plain = getattr(self, "output_mode", "int") == "int" and not getattr(self, "mask_zero", False)
        if kind not in _OF_RAGGED_VALUES or not plain:
            raise NotImplementedError(f"{kind} takes no ragged tensors here: to_tensor() makes a dense one, and "
                                      "Embedding(mask_zero=True) or Masking says what its padding is")
        return inputs.with_flat_values(self(inputs.flat_values, *args, **named))

    def _in_graph(self, *args: Any, **named: Any) -> Any:
        """The call in the graph of its inputs, or the default one."""
        node = next((leaf for leaf in _structure.flatten((args, named)) if isinstance(leaf, Node)), None)
        graph = node.graph if node is not None else default_graph()
        args, named = _structure.map_structure(lambda leaf: as_input(leaf, graph), (args, named))
        args, named = self._training_by_name(args, named)
        is_own = calls_library(type(self))
        args, named = (args, named) if is_own else self._bound(args, named)
        training = named.get("training")
        training = training_phase(training) if training is not None else context.__dict__.get("training")
        if training is None:
            training = training_by_default(type(self))
        self._check_specs(args)
        before = updates_of(graph)
        mask = self._mask_of(graph, args, named)
        with Calling(training) as outermost:
            if outermost:
                for layer in [self] + self._flat_layers():
                    layer._losses.pop(graph, None)
            result = (self._build_and_call if is_own else self._call_in)(graph, args, named, bool(training))
            if self.activity_regularizer is not None:
                self._regularize(result)
        graph.check()
        if "_built_for" not in self.__dict__ and args and isinstance(args[0], Node) and args[0].shape is not None:
            self.__dict__["_built_for"] = tuple(args[0].shape)
        if mask is not None or type(self).compute_mask is not Layer.compute_mask:
            self._set_mask(graph, args, result, mask)
        if not self._layers:
            take_updates(graph, before)
        return result

    def _check_specs(self, args: tuple) -> None:
        """Raises where an input is not what `input_spec` expects."""
        specs = self.__dict__.get("input_spec")
        if specs is not None and args:
            for spec, leaf in zip(_structure.flatten(specs), _structure.flatten(args[0])):
                if spec is not None and isinstance(leaf, Node):
                    spec.check(leaf, self.name)

    def _regularize(self, result: Any) -> None:
        """Adds what the regularizer says of the results to the loss, as a mean over the examples."""
        for leaf in _structure.flatten(result):
            if isinstance(leaf, Node):
                self.add_loss(self.activity_regularizer(leaf) / ops.cast(ops.shape(leaf)[0], leaf.dtype))

    def _training_by_name(self, args: tuple, named: dict) -> tuple:
        """The arguments of a call, of which the positional ones end before `training`."""
        names = list(inspect.signature(self.call).parameters) if len(args) > 1 and not self._has_no_signature() else []
        place = names.index("training") if "training" in names else len(args)
        return args[:place], {**named, **dict(zip(names[place:], args[place:]))}

    def _has_no_signature(self) -> bool:
        """Whether `call` says nothing about the arguments."""
        return self._is_native and not calls_library(type(self))

    def _bound(self, args: tuple, named: dict) -> tuple:
        """The arguments of a call; of layers of the library all but the inputs by name."""
        return args, named

    def _call_in(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        """A layer that is written in Python."""
        with self._within(graph) if self._scoped else apart():
            return self._build_and_call(graph, args, named, training)

    @contextlib.contextmanager
    def _within(self, graph: Graph | None) -> Any:
        """Variables that are made now are named below the name of this layer."""
        names = context.__dict__.setdefault("names", [])
        names.append(self._name)
        try:
            with graph.scope(scopes_of(graph).pop("/".join(names), self._name)) if graph is not None else contextlib.nullcontext():
                yield
        finally:
            names.pop()

    # --- masks ---

    _supports_masking = False

    @property
    def supports_masking(self) -> bool:
        """Whether the mask of the input is that of the output too."""
        return self.__dict__.get("_masking", self._supports_masking)

    @supports_masking.setter
    def supports_masking(self, value: bool) -> None:
        self.__dict__["_masking"] = bool(value)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask if self.__dict__.get("_masking", self._supports_masking) else None

    def _mask_of(self, graph: Graph, args: tuple, named: dict) -> Any:
        """The mask of the input, which a call with a parameter `mask` is given."""
        if not args or not graph.masks:
            return None
        found = _structure.map_structure(lambda leaf: graph.masks.get(place(leaf)), args[0])
        if all(mask is None for mask in _structure.flatten(found)):
            return None
        if named.get("mask") is None:
            if "mask" in inspect.signature(self.call).parameters and not self._has_no_signature():
                named["mask"] = found
            elif not self._ignores_masks:
                raise NotImplementedError(f"{self.name}: the mask of its input (mask_zero, Masking) is not applied yet "
                                          f"by {type(self).__name__}")
        return found

    _ignores_masks = True

    def _set_mask(self, graph: Graph, args: tuple, result: Any, mask: Any) -> None:
        masks = self.compute_mask(args[0] if args else None, mask)
        if masks is None:
            return
        flat = _structure.flatten(result)
        for node, one in zip(flat, masks if isinstance(masks, (list, tuple)) else [masks] * len(flat)):
            if one is not None and isinstance(node, Node):
                graph.masks[place(node)] = one

    def _build_and_call(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        of_library = calls_library(type(self))
        if not self.built and args and not (of_library and type(self).build.__module__.startswith("estoc.")):
            with self._within(graph) if of_library and not self._scoped else contextlib.nullcontext():
                graph.is_building = True
                self.build(_structure.map_structure(
                    lambda node: Shape(node.shape) if isinstance(node, Node) and node.shape is not None else None, args[0])
                    if not isinstance(args[0], Node) else args[0].shape)
                graph.is_building = False
            self.__dict__["built"] = True
        parameters = inspect.signature(self.call).parameters
        if "training" in parameters and named.get("training") is None:
            named = {**named, "training": training}
        elif "training" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            named = {key: value for key, value in named.items() if key != "training"}
        return self.call(*args, **named)

    # --- copies ---

    def __copy__(self) -> "Layer":
        """One that shares all variables, as in Keras."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __reduce_ex__(self, protocol: int) -> Any:
        """deepcopy and pickle: of a layer of the library another one that is made alike, with these values."""
        weights, shape = self.get_weights(), self.__dict__.get("_built_for")
        if not type(self).__module__.startswith("estoc.") or weights and shape is None or self.__dict__.get("_parts_of_state"):
            raise NotImplementedError(f"{self.name} cannot be copied or pickled by itself: make another {type(self).__name__}, and "
                                      "give it the values, other.set_weights(layer.get_weights()). A model is copied with its "
                                      "layers")
        args, named = self._made_as() if hasattr(self, "_made_as") else self._made_with
        parameters = list(inspect.signature(type(self)).parameters)
        place = parameters.index("name") if "name" in parameters else len(args)
        args, named = (args[:place] + (self.name,) + args[place + 1:], named) if place < len(args) else (
            args, {**named, "name": self.name})
        return made_again, (type(self), args, named), {
            "weights": weights, "shape": shape, "trainable": self._trainable,
            "adapted": self._adapted() if hasattr(self, "_adapted") else None}

    def __setstate__(self, state: dict) -> None:
        if state["adapted"] is not None:
            self.adapt(state["adapted"])
        if state["weights"]:
            first, *others = inspect.signature(self.call).parameters.values()
            if any(other.default is other.empty and other.kind is other.POSITIONAL_OR_KEYWORD for other in others):
                self.build(state["shape"])  # a cell, which a call alone cannot build
                self.__dict__["built"] = True
            else:
                build_in(self, self._world_now(), [(float32, state["shape"])])
            self.set_weights(state["weights"])
        self.trainable = state["trainable"]

    # --- description ---

    def get_config(self) -> dict:
        """What the layer was made with, for from_config, as plain values. A class of the program whose arguments are no
        plain values says itself what it was made with."""
        from . import _serial
        config: dict = {"name": self.name, "trainable": self.trainable, "dtype": _serial.serialize(
            self.dtype_policy if self.dtype_policy is not None and self.dtype_policy.is_mixed else self.dtype)}
        if self._batch_input_shape is not None:
            config["batch_input_shape"] = self._batch_input_shape
        kind = type(self)
        if kind.__module__.startswith("estoc."):
            made = _serial.recorded(self, kind)
            axes = int(kind.__name__[-2]) if kind.__name__.endswith(("1D", "2D")) else 0
            return {**config, **{key: _serial.argument(key, value, axes) for key, value in made.items()
                                 if key not in config}}
        if kind.get_config is Layer.get_config:
            made = _serial.plain_arguments(self)
            if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(kind.__init__).parameters.values()):
                config = {key: value for key, value in config.items() if key in made}
            config.update((key, value) for key, value in made.items() if key not in config)
        return config

    @classmethod
    def from_config(cls, config: dict) -> "Layer":
        if cls.__module__.startswith("estoc."):
            from . import _serial
            config = {key: _serial.made_of(value) for key, value in config.items()}
        return cls(**config)

    def save_own_variables(self, store: dict) -> None:
        """Puts the variables of this layer, without those within, into a dict; a .keras file of a class that overrides
        this and load_own_variables has what they put there."""
        for i, variable in enumerate(self._variables_here()):
            store[f"{i}"] = variable.numpy()

    def load_own_variables(self, store: dict) -> None:
        """Takes the variables of this layer from a dict."""
        for i, variable in enumerate(self._variables_here()):
            variable.assign(store[f"{i}"])

    def _variables_here(self) -> list[Variable]:
        self._ensure_built()
        found = self._variables_of(self._graph_now())
        return [item for item in found if item.trainable] + [item for item in found if not item.trainable]

    def get_build_config(self) -> dict | None:
        """The shape of the input that the layer was made for; None: it was not called."""
        shape = self.__dict__.get("_built_for")
        return None if shape is None else {"input_shape": shape}

    def build_from_config(self, config: dict) -> None:
        """Makes the variables that the layer had."""
        if config.get("input_shape") is not None and default_graph() is None:
            self.build(tuple(config["input_shape"]))

    def __repr__(self) -> str:
        return f"<estoc.tf.keras.{type(self).__name__} {self.name!r}>"


class InputLayer(Layer):
    """The input of a model as a layer; its output is what Input gives."""

    def __init__(self, input_shape: Any = None, batch_size: int | None = None, dtype: Any = None,
                 name: str | None = None, batch_input_shape: Any = None, **named: Any):
        tensor = Input(input_shape, batch_size, name, dtype, batch_shape=batch_input_shape, **named)
        super().__init__(name=tensor.name)
        self.__dict__.update(_tensor=tensor, built=True)

    def get_config(self) -> dict:
        return {"batch_input_shape": tuple(self._tensor.shape), "dtype": self._tensor.dtype.name, "sparse": False,
                "ragged": False, "name": self.name}

    @classmethod
    def _of(cls, tensor: KerasTensor) -> "InputLayer":
        """The layer of an Input, always the same one."""
        made = tensor.__dict__.get("_input_layer")
        if made is None:
            made = tensor.__dict__["_input_layer"] = cls.__new__(cls)
            Layer.__init__(made, name=tensor.name)
            made.__dict__.update(_tensor=tensor, built=True)
        return made

    input = output = property(lambda self: self._tensor)
    input_shape = output_shape = property(lambda self: [tuple(self._tensor.shape)])


# --- arguments of layers ----------------------------------------------------------------------------------------------


def activation(value: Any) -> tuple[Any, Callable | None]:
    """The C function of an activation, or NULL and a Python function that is applied to the result."""
    if value is None:
        return NULL, None
    if isinstance(value, (dict, str)):
        from . import _serial
        value = _serial.made_of(value)
    name = value if isinstance(value, str) else getattr(value, "_keras_name", None)
    if name is not None:
        out = ffi.new("est_activation *")
        check(lib.est_activation_by_name(Keep().string(name), out))
        return out[0], None
    if not callable(value):
        raise TypeError(f"an activation is a name or a function, not {value!r}")
    if isinstance(value, Layer):
        return NULL, value
    return NULL, value


def two(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, (int, np.integer)) else (int(value[0]), int(value[1]))


def channels_last(data_format: Any) -> None:
    if data_format not in (None, "channels_last"):
        raise NotImplementedError(f"data_format {data_format!r}: images are channels_last")


def refuse(**named: Any) -> None:
    """Arguments that do not exist yet."""
    for key, value in named.items():
        if value is True or value not in (None, False, 1, (1, 1)):
            raise NotImplementedError(f"{key} does not exist yet")
