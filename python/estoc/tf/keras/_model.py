# SPDX-License-Identifier: Apache-2.0
"""The class Model: its layers, inputs and outputs, what compile tells it, and its network in C."""
from __future__ import annotations

import html
import threading
import warnings
import weakref
from typing import Any, Sequence

import numpy as np

from ..._lib import NULL, Keep, check, lib, text
from ..._tensor import float32
from ...graph import Graph, Node
from .. import _structure
from .._eager import TensorShape
from .._trace import current_strategy
from .._world import _seed, restorations
from . import _summary
from . import optimizers as _optimizers
from ._calling import build_in, unrun
from ._compiled import Compiled
from ._layer import Layer
from ._network import Network, labels_of
from ._recorded import overridden
from ._saving import Saving
from ._steps import Steps
from ._symbolic import KerasTensor
from ._training import Training


class Model(Training, Steps, Saving, Layer):
    """tf.keras.Model: Model(inputs, outputs) is functional; subclasses override call."""

    _where = "tf.keras.Model"
    _functional = False  # of layers that exist by themselves, and that a config can describe

    def __new__(cls, *args: Any, **named: Any) -> "Model":
        from ._functional import class_for
        kind = class_for(cls, args, named)
        return super().__new__(cls, *args, **named) if kind is cls else super().__new__(kind)

    def __init__(self, *args: Any, name: str | None = None, trainable: bool = True, dtype: Any = None,
                 **named: Any):
        if named and not self._functional:
            raise TypeError(f"{type(self).__name__} takes no argument {next(iter(named))!r}")
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        d = self.__dict__
        d["_network"] = None
        d["_strategy"] = current_strategy()
        d["optimizer"] = d["loss"] = None
        d["stop_training"] = False
        d["history"] = None
        d["_compiled"] = None
        d["_specs"] = None  # of inputs, when known: (dtype, shape)
        d["_input_form"] = None
        d["_output_form"] = None  # the structure of what a call gives, when known
        d["_steps"] = {}

    @property
    def layers(self) -> list:
        return list(self._layers)

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        if index is not None:
            return self.layers[index]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name}. Existing layers are: {[layer.name for layer in self.layers]}.")

    @property
    def metrics(self) -> list:
        found = list(self._own_metrics)
        if self._compiled is not None:
            found = self._compiled.metric_objects() + found
        return found

    @property
    def metrics_names(self) -> list[str]:
        if self._network is not None and self._compiled is not None and not self._is_compiled_for_python():
            return self._compiled.ordered([text(lib.est_network_metric(self._network._c, i))
                                           for i in range(lib.est_network_metrics(self._network._c))])
        return [metric.name for metric in self.metrics]

    def _collect(self, graph: Graph) -> list:
        """As Layer has it, and those of the model itself come last, as in Keras."""
        found = [variable for layer in self._layers for variable in layer._collect(graph)] + list(self._own_weights)
        return list({id(variable): variable for variable in found}.values())

    def _ordered_weights(self) -> list:
        """Layer by layer."""
        self._ensure_built()
        found = [variable for layer in self._layers for variable in layer._ordered_weights()] + list(self._own_weights)
        return list({id(variable): variable for variable in found}.values())

    def _checkpoint_layers(self) -> list:
        """Layers by the names that checkpoints have for them; a subclass has attributes only."""
        return []

    def _weighted_layers(self) -> list:
        self._ensure_built()
        graph = self._world_now().graph
        weighted = [layer for layer in self._layers if layer._collect(graph)]
        return [(f"layer_with_weights-{i}", layer) for i, layer in enumerate(weighted)]

    def _checkpoint_parts(self) -> list:
        found = self._checkpoint_layers() + super()._checkpoint_parts()
        if self._trainer is not None:
            found.append(("optimizer", self._trainer))
        return found

    # --- inputs ---

    def _given(self, x: Any) -> Any:
        """What the graph of the model is given for an input."""
        return x

    def _given_batch(self, batch: Any) -> Any:
        """What the graph of a step is given for a batch."""
        return batch

    def _flat_inputs(self, x: Any) -> tuple[list, list[str]]:
        """The leaves of an input and their names in the network."""
        self.__dict__["_input_form"] = _structure.map_structure(lambda leaf: None, x)
        if isinstance(x, dict):
            return [x[key] for key in sorted(x)], sorted(x)
        leaves = _structure.flatten(x)
        return leaves, ["input_1"] if len(leaves) == 1 else [f"input_{i + 1}" for i in range(len(leaves))]

    def _pack_inputs(self, nodes: list) -> Any:
        return _structure.pack_as(self._input_form, nodes)

    def _takes_tuple(self, form: tuple) -> bool:
        return False

    # --- metrics of calls ---

    def _metric_names(self) -> list[str]:
        """Names of add_metric in the calls so far."""
        names: dict = {}
        for layer in [self] + self._flat_layers():
            for noted in layer._noted.values():
                names.update(noted)
        return list(names)

    def _noted_metric(self, graph: Graph, name: str) -> Node:
        for layer in [self] + self._flat_layers():
            if name in layer._noted.get(graph, {}):
                return layer._noted[graph][name]
        raise ValueError(f"add_metric was called with the name {name!r} when the model was built, and is not now")

    # --- outputs ---

    def _know_outputs(self, rows: Any) -> None:
        """Finds out what a call gives, by one that nobody runs."""
        if self._output_form is None:
            self._build_for(rows.names, rows.first())

    def _outputs_of_network(self) -> list[str]:
        """Names of outputs as Keras has them: of layers, keys, or numbers."""
        form = self._output_form
        leaves = _structure.flatten(form) if form is not None else [None]
        if len(leaves) == 1:
            return ["output_1"]
        return [str(key) for key in self._output_keys()]

    def _output_keys(self) -> list:
        """Keys of a dict that a call gives, or the names of outputs."""
        form = self._output_form
        if isinstance(form, dict):
            return sorted(form)
        return [f"output_{i + 1}" for i in range(len(_structure.flatten(form)))]

    @property
    def output_names(self) -> list[str]:
        return self._outputs_of_network()

    @property
    def input_names(self) -> list[str]:
        """The names of inputs, which model_to_estimator looks for among the features."""
        return [name for name, _, _ in self._known_inputs() or []]

    def _pack_outputs(self, values: list) -> Any:
        return _structure.pack_as(self._output_form, values) if self._output_form is not None else values[0]

    def _seed_of_network(self) -> int:
        return _seed[0]

    def build(self, input_shape: Any) -> None:
        if self.built:
            return
        shapes = input_shape if isinstance(input_shape, list) and input_shape and isinstance(
            input_shape[0], (list, tuple)) else [tuple(input_shape)]
        if type(self).call is not Layer.call:
            build_in(self, self._world_now(), [(float32, tuple(shape)) for shape in shapes])
        self.__dict__["built"] = True

    def _build_and_call(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        was_built, self.__dict__["built"] = self.built, True  # build(input_shape) of Model calls it
        if not was_built and args and overridden(type(self), "build"):
            self.build(shapes_of(args[0]))
        return super()._build_and_call(graph, args, named, training)

    # --- compiling ---

    @property
    def _trainer(self) -> Any:
        """What trains: another object where the optimizer is one of `legacy`."""
        return _optimizers._of_loops(self.optimizer)

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, loss_weights: Any = None,
                weighted_metrics: Any = None, run_eagerly: bool | None = None, steps_per_execution: int | None = None,
                jit_compile: bool | None = None, **named: Any) -> None:
        if named:
            raise TypeError(f"Invalid keyword argument(s) in `compile()`: {next(iter(named))}")
        d = self.__dict__
        d["optimizer"] = _optimizers.get(optimizer)
        d["loss"] = loss
        d["_compiled"] = Compiled(loss, metrics, weighted_metrics, loss_weights, bool(run_eagerly))
        d["_compiled"].trained = weakref.WeakKeyDictionary(self._trained_layers())
        d["_steps"] = {}  # those of before have traced another loss and optimizer
        if self._network is not None and self._network.has_other_training():
            self._drop_network()
        if self._network is not None:
            self._compile_network()

    def _trained_when_compiled(self) -> dict:
        """Its layers, and whether their variables are trained: as in Keras `trainable` counts when compile is called.
        Layers that were made later are as they are now."""
        found, then = self._trained_layers(), {} if self._compiled is None else self._compiled.trained
        return {layer: then.get(layer, now) for layer, now in found.items()}

    def _trained_variables(self) -> list:
        """Those that fit and train_on_batch train."""
        found, graph = self._all_weights(), self._graph_now()
        trained = {id(variable) for layer, is_trained in self._trained_when_compiled().items() if is_trained
                   for variable in [*layer._own_weights, *layer._in_graphs.get(graph, ())]}
        return [variable for variable in found if variable.trainable and id(variable) in trained]

    def _compile_network(self) -> None:
        compiled, network, keep = self._compiled, self._network, Keep()
        network.take()
        labels, _ = labels_of(network.names, network.outputs)
        members = compiled.outputs_of(self, network.outputs, keep)
        added = [compiled.added(self, name, keep) for name in self._metric_names()]
        for label, member in zip(labels, members):
            if member is not None:
                member["label"] = keep.string(label)
        trained = [member for member in members if member is not None]
        if added and not trained:
            raise NotImplementedError("add_metric in a model without a loss; give it one, or override train_step")
        if added:
            trained[0]["metric_values"] = keep.span("est_metric_specs", "est_metric_spec",
                                                    trained[0].pop("own_values") + added)
        for member in trained:
            if "own_values" in member:
                member["metric_values"] = keep.span("est_metric_specs", "est_metric_spec", member.pop("own_values"))
        if not trained:
            shared = {}
        elif len(members) == 1:
            shared = {key: value for key, value in members[0].items() if key not in ("output", "loss_weight")}
        else:
            shared = {"outputs": keep.span("est_compile_outputs", "est_compile_output", trained),
                      "weights_by_output": True}
        network.leave_optimizer(self._trainer)
        check(lib.est_network_compile(network._c, keep.options(
            "est_compile_options", optimizer_value=self._trainer._c(keep), own_losses=True, **shared)))
        compiled.set_order(lib.est_network_metrics(network._c), len(added))
        network._keep.append((keep, compiled))
        network.begin(self._trainer)

    def _trained_outputs(self, outputs: Sequence[str]) -> list[bool]:
        """Which of the outputs have a loss."""
        if self._compiled is None:
            return [True] * len(outputs)
        return [loss is not None for loss in self._compiled.losses(self, list(outputs))]

    def _need_compiled(self) -> None:
        if self._compiled is None:
            raise RuntimeError("You must compile your model before training/testing. Use `model.compile(optimizer, "
                               "loss)`.")

    def _go_on_from(self, backup: Any) -> str | None:
        """The directory of checkpoints for a fit of several tasks; None: one task trains, or no one was named."""
        if backup is None or not self._world_now().is_shared:
            return None
        network = self._network
        if network is not None and network.model_dir != backup.backup_dir:
            if self._world_now().is_remote:
                raise ValueError("the first use of a model by a cluster decides where its checkpoints are: give "
                                 "BackupAndRestore to the first fit")
            self._drop_network()
        return backup.backup_dir

    def _use_lock(self) -> Any:
        """Held while a thread uses the network."""
        return self.__dict__.setdefault("_use", threading.RLock())

    def _drop_network(self) -> None:
        """The next use makes another one, with the same values."""
        if self._network is not None:
            self._network.hand_over()
        self._world_now().ready()
        self.__dict__["_network"] = None

    def _ready(self, rows: Any, compiled: bool = True, model_dir: str | None = None) -> Network:
        """The network, built for such rows, with the variables of the world."""
        if compiled:
            self._need_compiled()
        specs = rows.first()
        if not self.built or self.__dict__["_specs"] is None:
            self._build_for(rows.names, specs)
        network, kinds = self._network, rows.kinds()
        if network is not None and (network.has_guesses and not self.__dict__.get("_only_shapes") or any(
                _differ(kind, network.kinds.get(name)) for name, kind in kinds.items())):
            network.hand_over()
            network = self.__dict__["_network"] = None  # another one for data of this kind
        if network is None:
            network = Network(self, [(name, dtype, tuple(shape)[1:]) for name, (dtype, shape) in
                                     zip(rows.names, specs)], model_dir)
            network.names = rows.names
            self.__dict__["_network"] = network
            try:
                if self._compiled is not None:
                    self._compile_network()
                check(lib.est_network_build(network._c, NULL))
            except BaseException:
                self.__dict__["_network"] = None
                raise
            network._own_graph()
        for name, kind in kinds.items():
            network.kinds.setdefault(name, kind)
        try:
            if compiled and self._compiled.is_written():
                network.build_loss(rows)
            network.take()
        except BaseException:  # built for data that the variables do not fit: the next call makes another one
            self.__dict__["_network"] = None
            raise
        return network

    def _build_for(self, names: list[str], specs: list) -> None:
        """Makes the variables in the world, from which the network gets its values."""
        world = self._world_now()
        with unrun(world):
            nodes = [world.graph.placeholder(None, dtype, (None,) + tuple(shape)[1:]) for dtype, shape in specs]
            result = self._in_graph(self._pack_inputs(nodes))
        self.__dict__["_output_form"] = _structure.map_structure(lambda leaf: None, result)
        self.__dict__["_specs"] = specs
        self.__dict__["built"] = True

    def _bring_optimizer(self, rows: Any) -> None:
        """Before training: gives the network what the optimizer has in the world, from loops or a checkpoint."""
        world, optimizer = self._world_now(), self._trainer
        self._network.trains(self._trained_variables())
        bound = optimizer._bound.get(world)
        if world.is_remote or not restorations and (bound is None or self._network in world.trained or
                                                    not bound.trained and not int(bound.iterations)):
            return
        optimizer._make_slots(world, self._trained_variables())
        world.session()  # what waits for the slots gets them now
        self._network.build_training(rows)
        self._network.take()

    # --- the learning rate ---

    def _take_rate(self, rate: float) -> None:
        """Of the network, into the variable of the optimizer."""
        if self._world_now().is_remote:
            return
        bound = self._trainer._in_world(self._world_now())  # whose counter the network has moved, too
        if rate == rate and bound.rate is not None:
            bound.rate.assign(np.float32(rate))

    def _give_rate(self, known: float) -> None:
        if known != known or self._world_now().is_remote or isinstance(self._trainer._rate,
                                                                       _optimizers.schedules.LearningRateSchedule):
            return
        rate = float(self._trainer._in_world(self._world_now()).rate.numpy())
        if np.float32(rate) != np.float32(known):
            check(lib.est_network_set_learning_rate(self._network._c, rate))

    # --- what it consists of ---

    def summary(self, line_length: int | None = None, positions: Any = None, print_fn: Any = None,
                expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None) -> None:
        """Prints the table of layers."""
        if layer_range is not None:
            raise NotImplementedError("summary: layer_range does not exist yet")
        if show_trainable or expand_nested and any(isinstance(layer, Model) for layer in self.layers):
            warnings.warn("summary shows the layers of the model, without those of models in it and whether they are "
                          "trainable")
        specs = self._known_inputs()
        if self._network is None:
            if specs is None:
                raise ValueError("This model has not yet been built. Build the model first by calling `build()` or by "
                                 "calling the model on a batch of data.")
            self._network_from(specs)
        for line in _summary.text_of(self, line_length, positions):
            (print if print_fn is None else print_fn)(line)

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        lines: list[str] = []
        if self._network is None and self._known_inputs() is None:
            lines.append(f"{self!r}, not built yet: it has no inputs")
        else:
            self.summary(print_fn=lines.append)
        return "<pre>" + html.escape("\n".join(lines)) + "</pre>"

    def _known_inputs(self) -> list | None:
        """(name, dtype, shape with the batch) of inputs, when known: from the first call, if nothing else says it."""
        return self.__dict__.get("_called")

    def _in_graph(self, *args: Any, **named: Any) -> Any:
        if args and self._known_inputs() is None:
            form = self.__dict__.get("_input_form")
            leaves, names = self._flat_inputs(args[0])
            self.__dict__["_input_form"] = form if form is not None else self._input_form
            specs = [getattr(leaf, "shape", None) for leaf in leaves]
            if leaves and all(isinstance(leaf, Node) and shape is not None for leaf, shape in zip(leaves, specs)):
                self.__dict__["_called"] = [(name, leaf.dtype, (None,) + tuple(leaf.shape)[1:])
                                            for name, leaf in zip(names, leaves)]
        return super()._in_graph(*args, **named)

    def _network_from(self, specs: list) -> None:
        class _Given:
            names = [name for name, _, _ in specs]

            @staticmethod
            def first() -> list:
                return [(dtype, shape) for _, dtype, shape in specs]

            @staticmethod
            def kinds() -> dict:
                return {name: (dtype, tuple(shape)[1:]) for name, dtype, shape in specs}

        self.__dict__["_only_shapes"] = True
        try:
            self._ready(_Given, compiled=False)
        finally:
            self.__dict__["_only_shapes"] = False


def _differ(kind: tuple, built: tuple | None) -> bool:
    """Whether a network that was built for a component of one dtype and shape refuses another."""
    if built is None or kind == built:
        return False
    (dtype, shape), (known, wanted) = kind, built
    if dtype != known or shape is None or wanted is None or len(shape) != len(wanted):
        return True
    return any(want is not None and have != want for have, want in zip(shape, wanted))


def shapes_of(tensors: Any) -> Any:
    shapes = _structure.map_structure(lambda item: TensorShape(item.shape) if isinstance(item, Node) and not isinstance(
        item, KerasTensor) else tuple(item.shape), tensors)
    return shapes
