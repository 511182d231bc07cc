# SPDX-License-Identifier: Apache-2.0
"""tf.keras.models: Sequential, functional and subclassed models over networks of the library."""
from __future__ import annotations

import contextlib as _contextlib
import functools as _functools
import html as _html
import itertools as _itertools
import json as _json
import logging as _logging
import os as _os
import re as _re
import shutil as _shutil
import threading as _threading
import weakref as _weakref
from typing import Any as _Any
from typing import Callable as _Callable
from typing import Sequence as _Sequence

import warnings as _warnings

import numpy as _np

from ... import data as _data
from ...checkpoint import load_checkpoint as _load_checkpoint
from ... import ops as _ops
from ..._lib import NULL as _NULL
from ..._lib import Keep as _Keep
from ..._lib import check as _check
from ..._lib import check_signals as _check_signals
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from ..._lib import owned as _owned
from ..._lib import text as _text
from ..._tensor import float32 as _float32
from ..._tensor import take_tensor as _take_tensor
from ..._tensor import to_array as _to_array
from ...graph import Graph as _Graph
from ...graph import Node as _Node
from ...graph import default_graph as _default_graph
from .. import _structure
from .._absent import module_getattr as _module_getattr
from .._checkpoint import Checkpoint as _Checkpoint
from .._checkpoint import restored as _restored
from .._checkpoint import write as _write_checkpoint
from .._eager import eager as _eager
from .._eager import TensorShape as _TensorShape
from .._eager import unwrap as _unwrap
from .._function import Function as _Function
from .._tape import GradientTape as _GradientTape
from .._world import _seed
from .._world import current_strategy as _current_strategy
from .._world import restorations as _restorations
from . import _config, _serial
from . import _files
from . import _summary
from . import callbacks as _callbacks
from . import losses as _losses
from . import metrics as _metrics
from . import optimizers as _optimizers
from ._recorded import overridden as _overridden
from ._layer import Input as _Input
from ._layer import InputLayer as _InputLayer
from ._layer import KerasTensor as _KerasTensor
from ._layer import Layer as _Layer
from ._layer import NativeLayer as _NativeLayer
from ._layer import assigns as _assigns
from ._layer import build_in as _build_in
from ._layer import unique_name as _unique_name
from ._layer import unrun as _unrun
from ._network import Network as _Network
from ._network import by_output as _by_output
from ._network import columns as _columns
from ._network import labels_of as _labels_of
from ._network import metrics_of as _metrics_of
from ._network import rows_of as _rows_of
from .layers._text import TextVectorization as _TextVectorization

_EXTRA = _os.path.join("assets.extra", "estoc")  # of a SavedModel: what only this package reads
_WEIGHTS = "weights"  # the checkpoint in a file of save_weights
_functional_classes: dict[type, type] = {}


class _Fit:
    """A fit under way, for callbacks: what they may change of the model is taken over after each of them."""

    def __init__(self, model: "Model", trains: bool = True):
        self.model, self.trains = model, trains
        self.rate = float("nan")

    def heard(self) -> _Any:
        """Around the method of a callback."""
        return _without_use(self.model)

    def before(self, loop: _Any) -> None:
        network, model = self.model._network, self.model
        if model._world_now().is_remote:
            return
        model._world_now().trained.add(network)
        self.rate = float(_lib.est_network_learning_rate(network._c))
        model._take_rate(self.rate)

    def after(self, loop: _Any) -> None:
        network, model = self.model._network, self.model
        if not model._world_now().is_remote:
            network.take()
            model._world_now().trained.add(network)
            model._give_rate(self.rate)
        if self.trains and model.stop_training:
            _lib.est_loop_request_stop(loop._c, b"a callback has set stop_training")


def _is_generator(x: _Any) -> bool:
    return hasattr(x, "__next__") and not hasattr(x, "element_spec")


def _spec_of(model: "Model", batch: _Any) -> _Any:
    """What batches of a generator look like. They may be padded to other lengths than the first: axes are known where
    those of the inputs are, and of a model without inputs, which is made for the first batch. A column of labels stays
    one: metrics look at that."""
    parts = batch if isinstance(batch, tuple) and not model._takes_tuple(batch) else (batch,)
    known, axes = {name: shape for name, _, shape in model._known_inputs() or ()}, {}
    leaves = _structure.flatten(parts[0])
    for leaf, name in zip(*(model._flat_inputs(parts[0]) if known else (leaves, [None] * len(leaves)))):
        shape = known.get(name, leaf.shape)
        axes[id(leaf)] = [None if axis is None else size for axis, size in zip(shape, leaf.shape)] \
            if len(shape) == leaf.ndim else leaf.shape

    def spec(leaf: _Any) -> _data.TensorSpec:
        shape = axes.get(id(leaf)) or [1 if size == 1 else None for size in leaf.shape]
        return _data.TensorSpec((None, *shape[1:]), _np.float32 if leaf.dtype == _np.float64 else leaf.dtype)

    return _structure.map_structure(spec, batch)


def _batches_of(model: "Model", x: _Any, shuffle: bool = False, steps: int | None = None) -> _Any:
    """A dataset of the batches of a keras.utils.Sequence, up to so many a pass, or of a generator; others stay."""
    from ..data import Dataset
    from .utils import Sequence
    is_sequence = isinstance(x, Sequence)
    if not is_sequence and not _is_generator(x):
        return x

    def plain(batch: _Any) -> _Any:
        parts = batch if isinstance(batch, tuple) else (batch,)
        parts = tuple(_itertools.takewhile(lambda part: part is not None, parts))  # no labels: no weights of them
        parts = tuple(tuple(part) if isinstance(part, list) else part for part in parts)  # several inputs or outputs
        return _structure.map_structure(lambda leaf: _np.asarray(_unwrap(leaf)), parts if len(parts) > 1 else parts[0])

    try:
        first = plain(x[0] if is_sequence else next(x))
    except StopIteration:
        raise ValueError("the generator has no batch, or was gone over before: give one that has") from None
    pending = [first]  # of a generator, which every pass goes on with

    def batches() -> _Any:
        if not is_sequence:
            if pending:
                yield pending.pop()
            yield from map(plain, x)
            return
        for index in (_np.random.permutation(len(x)) if shuffle else range(len(x)))[:steps]:
            yield plain(x[int(index)])
        x.on_epoch_end()

    spec = _spec_of(model, first)
    dataset = Dataset.from_generator(batches, output_signature=spec)
    if is_sequence:
        dataset._count = len(range(len(x))[:steps])
    return dataset


class _Validation(_Fit):
    """The validation within a fit: a callback that wants to stop is heard after the epoch."""

    def before(self, loop: _Any) -> None: ...

    def after(self, loop: _Any) -> None:
        if not self.model._world_now().is_remote:
            self.model._network.take()
            self.model._world_now().trained.add(self.model._network)


def _params(epochs: int, steps: int | None, verbose: _Any) -> dict:
    """What callbacks know of a call."""
    return {"verbose": 1 if verbose == "auto" else verbose, "epochs": epochs, "steps": steps}


def _steps_of(x: _Any, rows: _Any, batch_size: int | None, steps: int | None, kept: float = 0.0) -> int | None:
    """The steps of a pass over arrays or a dataset, of which only so many are made if a number is given."""
    return steps or (_known_steps(x) if isinstance(x, _data.Dataset) else rows.steps(batch_size, kept))


def _known_steps(batches: _Any) -> int | None:
    """Of a pass; None: only its end says it."""
    known = int(batches.cardinality())
    return known if known >= 0 else None


def _nothing(*arguments: _Any) -> None:
    """Around batches that no callback hears of."""


def _only_hints(function: str, named: dict) -> None:
    """Arguments of the threads of Keras, which change nothing here."""
    for key in named.keys() - {"max_queue_size", "workers", "use_multiprocessing"}:
        raise TypeError(f"Model.{function}() got an unexpected keyword argument '{key}'")


def _writable(path: str, overwrite: bool) -> None:
    if not overwrite and _os.path.exists(path):
        raise FileExistsError(f"{path} exists; remove it, or give overwrite=True")


def _by_one_thread(method: _Callable) -> _Callable:
    """A method of a model that waits while another thread uses the network. Functions of a dataset must not: that thread
    may wait for what they give."""
    @_functools.wraps(method)
    def call(self: "Model", *args: _Any, **named: _Any) -> _Any:
        use = self._use_lock()
        if not use.acquire(blocking=not isinstance(_threading.current_thread(), _threading._DummyThread)):
            raise RuntimeError(f"{self.name}.{method.__name__} in a thread of a dataset or of a function, while another thread "
                               "uses the model, which may wait for the result: predict before, or call the model, as in "
                               "model(x), which does not wait")
        try:
            return method(self, *args, **named)
        finally:
            if use._is_owned():  # a Ctrl-C may come while it is free
                use.release()

    return call


@_contextlib.contextmanager
def _without_use(model: "Model") -> _Any:
    """While code of the program runs in a callback: other threads may use the model, which it may wait for."""
    use = model._use_lock()
    if not use._is_owned():
        yield
        return
    state = use._release_save()
    try:
        yield
    finally:
        use._acquire_restore(state)


class Model(_Layer):
    """tf.keras.Model: Model(inputs, outputs) is functional; subclasses override call."""

    _where = "tf.keras.Model"
    _functional = False

    def __new__(cls, *args: _Any, **named: _Any) -> "Model":
        if cls is Model and (args or "inputs" in named):
            return super().__new__(Functional)
        parts = list(args[:2]) + [named[key] for key in ("inputs", "outputs") if key in named]
        if len(parts) == 2 and not issubclass(cls, (Functional, Sequential)) and all(
                isinstance(leaf, _KerasTensor) for part in parts for leaf in _structure.flatten(part)):
            # a subclass that is given inputs and outputs is functional, with what it overrides, as in Keras
            both = _functional_classes.get(cls)
            if both is None:
                both = _functional_classes[cls] = type(cls.__name__, (cls, Functional), {"__module__": cls.__module__})
            return super().__new__(both)
        return super().__new__(cls, *args, **named)

    def __init__(self, *args: _Any, name: str | None = None, trainable: bool = True, dtype: _Any = None,
                 **named: _Any):
        if named and not self._functional:
            raise TypeError(f"{type(self).__name__} takes no argument {next(iter(named))!r}")
        super().__init__(trainable=trainable, name=name, dtype=dtype)
        d = self.__dict__
        d["_network"] = None
        d["_strategy"] = _current_strategy()
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

    def get_layer(self, name: str | None = None, index: int | None = None) -> _Layer:
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
        if self._network is not None and self._compiled is not None and not self._has_own_metrics():
            return [_text(_lib.est_network_metric(self._network._c, i))
                    for i in range(_lib.est_network_metrics(self._network._c))]
        return [metric.name for metric in self.metrics]

    def _collect(self, graph: _Graph) -> list:
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
        if self.optimizer is not None:
            found.append(("optimizer", self.optimizer))
        return found

    # --- inputs ---

    def _given(self, x: _Any) -> _Any:
        """What the graph of the model is given for an input."""
        return x

    def _need_graph(self, what: str) -> None:
        """Before a SavedModel is written: an error if no SavedModel can hold a part of the model."""
        if self.stateful:
            raise NotImplementedError(f"{self.name} has layers that keep their states from batch to batch, which no SavedModel "
                                      "does; give a name that ends with .keras, or use save_weights")
        texts = next((layer for layer in self._flat_layers() if isinstance(layer, _TextVectorization)), None)
        if texts is not None:
            raise NotImplementedError(f"{what}: {texts.name} splits texts by operations that no SavedModel can hold; give a "
                                      "name that ends with .keras, or make a model of the layers after it")

    def _flat_inputs(self, x: _Any) -> tuple[list, list[str]]:
        """The leaves of an input and their names in the network."""
        self.__dict__["_input_form"] = _structure.map_structure(lambda leaf: None, x)
        if isinstance(x, dict):
            return [x[key] for key in sorted(x)], sorted(x)
        leaves = _structure.flatten(x)
        return leaves, ["input_1"] if len(leaves) == 1 else [f"input_{i + 1}" for i in range(len(leaves))]

    def _pack_inputs(self, nodes: list) -> _Any:
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

    def _noted_metric(self, graph: _Graph, name: str) -> _Node:
        for layer in [self] + self._flat_layers():
            if name in layer._noted.get(graph, {}):
                return layer._noted[graph][name]
        raise ValueError(f"add_metric was called with the name {name!r} when the model was built, and is not now")

    # --- outputs ---

    def _know_outputs(self, rows: _Any) -> None:
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

    def _pack_outputs(self, values: list) -> _Any:
        return _structure.pack_as(self._output_form, values) if self._output_form is not None else values[0]

    def _seed_of_network(self) -> int:
        return _seed[0]

    def build(self, input_shape: _Any) -> None:
        if self.built:
            return
        shapes = input_shape if isinstance(input_shape, list) and input_shape and isinstance(
            input_shape[0], (list, tuple)) else [tuple(input_shape)]
        if type(self).call is not _Layer.call:
            _build_in(self, self._world_now(), [(_float32, tuple(shape)) for shape in shapes])
        self.__dict__["built"] = True

    def _build_and_call(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        was_built, self.__dict__["built"] = self.built, True  # build(input_shape) of Model calls it
        if not was_built and args and type(self).build not in (Model.build, Functional.build, Sequential.build):
            self.build(_shapes(args[0]))
        return super()._build_and_call(graph, args, named, training)

    # --- compiling ---

    def compile(self, optimizer: _Any = "rmsprop", loss: _Any = None, metrics: _Any = None, loss_weights: _Any = None,
                weighted_metrics: _Any = None, run_eagerly: bool | None = None, steps_per_execution: int | None = None,
                jit_compile: bool | None = None, **named: _Any) -> None:
        if named:
            raise TypeError(f"Invalid keyword argument(s) in `compile()`: {next(iter(named))}")
        d = self.__dict__
        d["optimizer"] = _optimizers.get(optimizer)
        d["loss"] = loss
        d["_compiled"] = _Compiled(loss, metrics, weighted_metrics, loss_weights, bool(run_eagerly))
        d["_compiled"].trained = _weakref.WeakKeyDictionary(self._trained_layers())
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
        compiled, network, keep = self._compiled, self._network, _Keep()
        network.take()
        labels, _ = _labels_of(network.names, network.outputs)
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
        network.leave_optimizer(self.optimizer)
        _check(_lib.est_network_compile(network._c, keep.options(
            "est_compile_options", optimizer_value=self.optimizer._c(keep), own_losses=True, **shared)))
        network._keep.append((keep, compiled))
        network.begin(self.optimizer)

    def _trained_outputs(self, outputs: _Sequence[str]) -> list[bool]:
        """Which of the outputs have a loss."""
        if self._compiled is None:
            return [True] * len(outputs)
        return [loss is not None for loss in self._compiled.losses(self, list(outputs))]

    def _need_compiled(self) -> None:
        if self._compiled is None:
            raise RuntimeError("You must compile your model before training/testing. Use `model.compile(optimizer, "
                               "loss)`.")

    def _go_on_from(self, backup: _Any) -> str | None:
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

    def _use_lock(self) -> _Any:
        """Held while a thread uses the network."""
        return self.__dict__.setdefault("_use", _threading.RLock())

    def _drop_network(self) -> None:
        """The next use makes another one, with the same values."""
        if self._network is not None:
            self._network.hand_over()
        self._world_now().ready()
        self.__dict__["_network"] = None

    def _ready(self, rows: _Any, compiled: bool = True, model_dir: str | None = None) -> _Network:
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
            network = _Network(self, [(name, dtype, tuple(shape)[1:]) for name, (dtype, shape) in
                                      zip(rows.names, specs)], model_dir)
            network.names = rows.names
            self.__dict__["_network"] = network
            try:
                if self._compiled is not None:
                    self._compile_network()
                _check(_lib.est_network_build(network._c, _NULL))
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
        with _unrun(world):
            nodes = [world.graph.placeholder(None, dtype, (None,) + tuple(shape)[1:]) for dtype, shape in specs]
            result = self._in_graph(self._pack_inputs(nodes))
        self.__dict__["_output_form"] = _structure.map_structure(lambda leaf: None, result)
        self.__dict__["_specs"] = specs
        self.__dict__["built"] = True

    def _bring_optimizer(self, rows: _Any) -> None:
        """Before training: gives the network what the optimizer has in the world, from loops or a checkpoint."""
        world, optimizer = self._world_now(), self.optimizer
        self._network.trains(self._trained_variables())
        bound = optimizer._bound.get(world)
        if world.is_remote or not _restorations and (bound is None or self._network in world.trained or
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
        bound = self.optimizer._in_world(self._world_now())  # whose counter the network has moved, too
        if rate == rate and bound.rate is not None:
            bound.rate.assign(_np.float32(rate))

    def _give_rate(self, known: float) -> None:
        if known != known or self._world_now().is_remote or isinstance(self.optimizer._rate, _optimizers.schedules.LearningRateSchedule):
            return
        rate = float(self.optimizer._in_world(self._world_now()).rate.numpy())
        if _np.float32(rate) != _np.float32(known):
            _check(_lib.est_network_set_learning_rate(self._network._c, rate))

    # --- training ---

    @_by_one_thread
    def fit(self, x: _Any = None, y: _Any = None, batch_size: int | None = None, epochs: int = 1,
            verbose: _Any = "auto", callbacks: _Any = None, validation_split: float = 0.0, validation_data: _Any = None,
            shuffle: bool = True, class_weight: dict | None = None, sample_weight: _Any = None, initial_epoch: int = 0,
            steps_per_epoch: int | None = None, validation_steps: int | None = None,
            validation_batch_size: int | None = None, validation_freq: int = 1, max_queue_size: int = 10,
            workers: int = 1, use_multiprocessing: bool = False) -> _callbacks.History:
        """Trains; the loop is C's unless train_step is overridden."""
        self.__dict__["stop_training"] = False
        steps_per_epoch, validation_steps = (None if steps is None else int(steps)
                                             for steps in (steps_per_epoch, validation_steps))
        if _is_generator(x) and steps_per_epoch is None and epochs > initial_epoch + 1:
            _warnings.warn(f"fit: a generator has one pass, so that one epoch of {epochs - initial_epoch} is made; set "
                           "steps_per_epoch, or give a keras.utils.Sequence or a dataset")
            epochs = initial_epoch + 1
        x, validation_data = _batches_of(self, x, shuffle, steps_per_epoch), _batches_of(self, validation_data)
        steps = steps_per_epoch
        if steps is not None and steps == getattr(x, "_count", None) and not self._world_now().is_shared:
            steps = None  # each epoch is a pass, as in Keras
        if getattr(x, "_shard_policy", int)() < 0:
            _warnings.warn("fit shards its dataset over the workers of a MultiWorkerMirroredStrategy also with "
                           "AutoShardPolicy.OFF, which holds for strategy.experimental_distribute_dataset")
        if self._is_traced("train_step"):
            if class_weight is not None:
                sample_weight = _weights_of_classes(class_weight, y, sample_weight)
            if validation_data is None and validation_split:
                (x, y, sample_weight), validation_data = _split_rows((x, y, sample_weight), validation_split)
            held = None if validation_data is None else self._held_out(validation_data, validation_batch_size or batch_size)
            with _without_use(self):  # the network has no part in it
                return self._fit_traced(self._batches(x, y, batch_size, sample_weight, shuffle), epochs, callbacks, held,
                                        initial_epoch, steps, validation_steps, validation_freq, verbose)
        if validation_batch_size not in (None, batch_size or 32):
            raise NotImplementedError("validation_batch_size: validation data has batches of batch_size; leave it out, or give a "
                                      "dataset as validation_data, which has batches of its own")
        if self._compiled is not None and self._compiled.run_eagerly:
            _warnings.warn("run_eagerly holds for a train_step that is overridden; the others run in C")
        keep = _Keep()
        self._need_compiled()
        rows = _rows_of(self, x, y, sample_weight)
        backup = _callbacks.BackupAndRestore._among(callbacks)
        directory = self._go_on_from(backup)
        network = self._ready(rows, model_dir=directory)
        if self._world_now().is_remote and not network.has_cluster:
            raise RuntimeError("a ClusterCoordinator has this cluster, whose steps it schedules: fit a model before one is "
                               "made. evaluate and predict work, in this process")
        self._bring_optimizer(rows)
        members = rows.options(keep)
        if validation_data is not None:
            members.update(self._validation(validation_data).options(keep, "validation", "validation_arrays"))
        if class_weight is not None:
            if sorted(class_weight) != list(range(len(class_weight))):
                raise ValueError("Expected `class_weight` to be a dict with keys from 0 to one less than the number of "
                                 f"classes, found {class_weight}")
            members["class_weight"] = keep.f64s([class_weight[i] for i in range(len(class_weight))])
        fit, history = _Fit(self), _callbacks.History()
        if members.keys() & {"validation", "validation_arrays"} or validation_split:
            if self._world_now().is_shared:
                _callbacks._warn_of_tests(callbacks)
            else:
                testers = [one for one in _structure.flatten(callbacks or []) if isinstance(one, _callbacks.Callback)
                           and one._overrides(*_callbacks._OF_TESTS)]
                members["validation_callbacks"] = keep.span("est_hooks", "est_hook *", [
                    one._hook(_Validation(self), keep, True) for one in testers])
        progress = [] if verbose == 0 else [_callbacks._Progress(
            verbose, steps_per_epoch or rows.steps(batch_size, validation_split)).hook(keep)]
        follow, keep_averages = network.follow_up() or (None, None)
        first = [] if follow is None else [_callbacks._FollowUp(follow)._hook(_callbacks._Unsynced(), keep)]
        params = _params(epochs, _steps_of(x, rows, batch_size, steps_per_epoch, validation_split), verbose)
        history.set_params(params)
        hooks = self._hooks(callbacks, fit, keep, params, more=progress, first=first)
        if not isinstance(self.optimizer._rate, _optimizers.schedules.LearningRateSchedule):
            self._give_rate(float(_lib.est_network_learning_rate(network._c)))
        out = _ffi.new("est_history **")
        world = self._world_now()
        world.leave()
        world.trained.add(network)
        status = _lib.est_network_fit(network._c, keep.options(
            "est_fit_options", batch_size=batch_size or 0, epochs=epochs, initial_epoch=initial_epoch,
            steps_per_epoch=steps or 0, validation_split=validation_split,
            validation_steps=validation_steps or 0, validation_freq=validation_freq, no_shuffle=not shuffle,
            callbacks=hooks, verbose=_lib.EST_VERBOSE_NONE, **members), out)
        if out[0] != _NULL:
            pointer = _owned(out[0], "est_history_free")
            n = _lib.est_history_epochs(pointer)
            history.epoch = [int(_lib.est_history_epoch(pointer, i)) for i in range(n)]
            measured = {prefix + name for name in self.metrics_names for prefix in ("", "val_")}
            for k in range(_lib.est_history_count(pointer)):
                name = _lib.est_history_name(pointer, k)
                freq = validation_freq if _text(name).startswith("val_") else 1
                # a NaN that was measured stays; that of a log of a callback says that there was none
                history.history[_text(name)] = [value for epoch, value in zip(
                    history.epoch, (float(_lib.est_history_value(pointer, name, i)) for i in range(n)))
                    if (epoch + 1) % freq == 0 and (value == value or _text(name) in measured)]
        for callback in callbacks or ():
            if getattr(callback, "_raised", None) is not None:
                raised, callback._raised = callback._raised, None
                raise raised
        _check_signals(status)
        self._take_rate(float(_lib.est_network_learning_rate(network._c)))
        world.trained.add(network)
        if follow is not None:
            keep_averages()
            self.optimizer.finalize_variable_values(self._trained_variables())
        history.set_model(self)
        self.__dict__["history"] = history
        if directory is not None and backup.delete_checkpoint:
            self._forget_backup(directory)
        return history

    def _forget_backup(self, directory: str) -> None:
        """Of a fit that has come to its end; a later one of workers saves elsewhere."""
        _shutil.rmtree(directory, ignore_errors=True)  # another worker may have done it
        if not self._world_now().is_remote:
            self._drop_network()

    def _is_traced(self, what: str) -> bool:
        """Whether Python's loop runs the steps: a step is overridden, or a metric is written in Python, which networks
        of C do not know."""
        return self._has_own_step(what) or self.stateful

    def _has_own_step(self, what: str) -> bool:
        """Whether the program has written a part of a step."""
        for name in ("make_train_function", "make_test_function", "make_predict_function"):
            if _overridden(type(self), name):
                raise NotImplementedError(f"{type(self).__name__} overrides {name}, which nothing calls here: override "
                                          "train_step, test_step or predict_step, or write the loop")
        if getattr(type(self), what) is not getattr(Model, what) or _overridden(type(self), "compute_loss", "compute_metrics"):
            return True
        if what == "train_step" and _overridden(type(self.optimizer), *_optimizers._METHODS):
            return True
        return self._has_own_metrics() or self._assigns()

    def _assigns(self) -> bool:
        """Whether a call assigns to variables."""
        return _assigns([self] + self._flat_layers())

    def _predicts_in_python(self) -> bool:
        return _overridden(type(self), "predict_step") is not None or self._assigns()

    def _has_own_metrics(self) -> bool:
        return self._compiled is not None and any(map(_is_own_metric, self._compiled.metrics + self._compiled.weighted))

    @property
    def stateful(self) -> bool:
        """Whether a layer keeps its states from batch to batch."""
        return any(layer.__dict__.get("stateful") for layer in self._flat_layers())

    def reset_states(self) -> None:
        """Sets the states of all stateful layers to zeros."""
        for layer in self._flat_layers():
            if layer.__dict__.get("stateful"):
                layer.reset_states()

    def _validation(self, given: _Any) -> _Any:
        if isinstance(given, _data.Dataset):
            return _rows_of(self, given)
        return _rows_of(self, *given)

    def _told(self, callbacks: _Any, params: dict) -> list:
        """The callbacks of a call, which know of it."""
        given = _structure.flatten(callbacks) if callbacks is not None else []
        for callback in given:
            if not isinstance(callback, _callbacks.Callback):
                raise TypeError(f"a callback is a tf.keras.callbacks.Callback, not {callback!r}")
        told = [part for callback in given for part in [callback] + callback._more()]
        for callback in told:
            callback.set_params(params)
            callback.set_model(self)
        return told

    def _hooks(self, callbacks: _Any, fit: _Any, keep: _Keep, params: dict, test: bool = False,
               more: _Sequence = (), first: _Sequence = ()) -> _Any:
        hooks = list(first)
        for callback in self._told(callbacks, params):
            if isinstance(callback, _callbacks.History):
                continue
            if test and isinstance(callback, _callbacks._Native):
                continue
            if isinstance(callback, _callbacks.BackupAndRestore) and self._world_now().is_shared:
                continue
            hooks.append(callback._hook(fit, keep, test))
        return keep.span("est_hooks", "est_hook *", hooks + list(more))

    # --- evaluation and prediction ---

    @_by_one_thread
    def evaluate(self, x: _Any = None, y: _Any = None, batch_size: int | None = None, verbose: _Any = "auto",
                 sample_weight: _Any = None, steps: int | None = None, callbacks: _Any = None,
                 return_dict: bool = False, **named: _Any) -> _Any:
        """The loss, or a list of the loss and the metrics."""
        _only_hints("evaluate", named)
        x = _batches_of(self, x)
        if self._is_traced("test_step"):
            with _without_use(self):
                return self._evaluate_traced(x, y, batch_size, sample_weight, steps, callbacks, verbose, return_dict)
        keep = _Keep()
        rows = _rows_of(self, x, y, sample_weight)
        network = self._ready(rows)
        out = _ffi.new("est_metrics **")
        progress = None if verbose == 0 else _callbacks._Progress(verbose, steps or rows.steps(batch_size))
        more = [] if progress is None else [progress.hook(keep, test=True)]
        params = _params(1, _steps_of(x, rows, batch_size, steps), verbose)
        _check_signals(_lib.est_network_evaluate(network._c, keep.options(
            "est_network_evaluate_options", batch_size=batch_size or 0, steps=steps or 0, verbose=_lib.EST_VERBOSE_NONE,
            callbacks=self._hooks(callbacks, _Fit(self, False), keep, params, test=True, more=more), **rows.options(keep)), out))
        found = _metrics_of(_owned(out[0], "est_metrics_free"))
        if progress is not None:
            progress.finish(progress.runs or steps or rows.steps(batch_size) or 0, found)
        if return_dict:
            return found
        values = [found[name] for name in self.metrics_names if name in found]
        return values[0] if len(values) == 1 else values

    @_by_one_thread
    def predict(self, x: _Any, batch_size: int | None = None, verbose: _Any = "auto", steps: int | None = None,
                callbacks: _Any = None, **named: _Any) -> _np.ndarray:
        """The outputs for all rows."""
        _only_hints("predict", named)
        x = _batches_of(self, x)
        params = _params(1, None, verbose)
        told = [one for one in self._told(callbacks, params) if one._overrides(*_callbacks._OF_PREDICTIONS)]
        self._has_own_step("test_step")  # what nothing calls is refused
        if told or self.stateful or self._predicts_in_python():
            batches = self._batches(x, None, batch_size, None, False)
            params["steps"] = steps or _known_steps(batches)
            with _without_use(self):  # but for each batch
                return self._predict_told(x, batches, steps, told)
        keep = _Keep()
        rows = _rows_of(self, x)
        network = self._ready(rows, compiled=False)
        n = len(network.outputs)
        out = _ffi.new("est_tensor *[]", n)
        function = _lib.est_network_predict if n == 1 else _lib.est_network_predict_outputs
        progress = None if verbose == 0 else _callbacks._Progress(verbose, None)
        _check_signals(function(network._c, keep.options(
            "est_network_predict_options", batch_size=batch_size or 0, steps=steps or 0, **rows.options(keep)), out))
        done = steps or rows.steps(batch_size)
        if progress is not None and done is not None:
            progress.finish(done, {})
        return self._pack_outputs([_to_array(_take_tensor(out[i]), copy=True) for i in range(n)])

    def _predict_told(self, x: _Any, batches: _Any, steps: int | None, callbacks: list) -> _Any:
        """predict, batch by batch, with calls of callbacks around each."""
        for callback in callbacks:
            callback.on_predict_begin({})
        begin, end = _callbacks._around(callbacks, ["on_predict_batch_begin"], ["on_predict_batch_end"])
        outputs, has_labels = [], isinstance(x, _data.Dataset)
        for n, batch in enumerate(batches):
            if steps is not None and n == steps:
                break
            begin(n)
            if self._predicts_in_python():
                outputs.append(self._step_on(batch))
                end(n, {"outputs": outputs[-1]})
                continue
            if has_labels and isinstance(batch, tuple) and not self._takes_tuple(batch) and 1 < len(batch) <= 3:
                batch = batch[0]
            outputs.append(self._called_on(batch) if self.stateful else self.predict_on_batch(batch))
            end(n, {"outputs": outputs[-1]})
        for callback in callbacks:
            callback.on_predict_end({})
        parts = zip(*(_structure.flatten(output) for output in outputs))
        return _structure.pack_as(outputs[0], [_np.concatenate(part) for part in parts])

    def _step_on(self, batch: _Any) -> _Any:
        """What predict_step gives, traced unless the model runs eagerly."""
        if self._compiled is not None and self._compiled.run_eagerly:
            found = self.predict_step(batch)
        else:
            step = self._steps.setdefault("predict_step", _Function(lambda data: self.predict_step(data)))
            concrete, leaves = step.concrete((batch,), {}, self._world_now())
            found = concrete.run(leaves)
        return _structure.map_structure(lambda leaf: _np.asarray(_unwrap(leaf)), found)

    def predict_step(self, data: _Any) -> _Any:
        """One step of predict, which calls it only where a subclass overrides it."""
        return self(_unpack(data)[0], training=False)

    def _called_on(self, batch: _Any) -> _Any:
        return _structure.map_structure(lambda leaf: leaf.numpy(), self(batch, training=False))

    @_by_one_thread
    def predict_on_batch(self, x: _Any) -> _Any:
        if self._predicts_in_python():
            return self._step_on(_structure.map_structure(lambda leaf: _floating(_unwrap(leaf)), x))
        if self.stateful:
            return self._called_on(x)
        keep, out = _Keep(), _ffi.new("est_tensor **")
        rows = _rows_of(self, x)
        network = self._ready(rows, compiled=False)
        if len(network.outputs) > 1:
            return self.predict(x, batch_size=max(len(rows.arrays[0][1]), 1), verbose=0)
        _check(_lib.est_network_predict_on_batch(network._c, rows.named(keep), out))
        return self._pack_outputs([_to_array(_take_tensor(out[0]), copy=True)])

    def _on_batch(self, function: str, x: _Any, y: _Any, sample_weight: _Any, return_dict: bool) -> _Any:
        step = "train_step" if function == "est_network_train_on_batch" else "test_step"
        if self._has_own_step(step):
            self._need_compiled()
            self.reset_metrics()
            rows = len(_np.asarray(_structure.flatten(x)[0]))
            found, _ = self._pass(step, iter(self._batches(x, y, rows, sample_weight, False)), 1, _nothing, _nothing)
            return found if return_dict else next(iter(found.values())) if len(found) == 1 else list(found.values())
        keep = _Keep()
        rows = _rows_of(self, x, y, sample_weight)
        network = self._ready(rows)
        if function == "est_network_train_on_batch":
            self._bring_optimizer(rows)
        n = _lib.est_network_metrics(network._c)
        values = _ffi.new("double[]", n)
        _check(getattr(_lib, function)(network._c, rows.named(keep), values))
        if return_dict:
            return dict(zip(self.metrics_names, list(values)))
        return values[0] if n == 1 else list(values)

    @_by_one_thread
    def train_on_batch(self, x: _Any, y: _Any = None, sample_weight: _Any = None, class_weight: _Any = None,
                       reset_metrics: bool = True, return_dict: bool = False) -> _Any:
        if class_weight is not None:
            raise NotImplementedError("train_on_batch: give sample_weight in place of class_weight")
        if not reset_metrics:
            raise NotImplementedError("train_on_batch: metrics are those of the batch; reset_metrics=False does not "
                                      "exist yet")
        result = self._on_batch("est_network_train_on_batch", x, y, sample_weight, return_dict)
        if self._has_own_step("train_step"):
            return result
        self._world_now().trained.add(self._network)
        for step in self._network.follow_up() or ():
            step()
        return result

    @_by_one_thread
    def test_on_batch(self, x: _Any, y: _Any = None, sample_weight: _Any = None, reset_metrics: bool = True,
                      return_dict: bool = False) -> _Any:
        if not reset_metrics:
            raise NotImplementedError("test_on_batch: metrics are those of the batch; reset_metrics=False does not "
                                      "exist yet")
        return self._on_batch("est_network_test_on_batch", x, y, sample_weight, return_dict)

    # --- steps that are written in Python ---

    def compute_loss(self, x: _Any = None, y: _Any = None, y_pred: _Any = None, sample_weight: _Any = None) -> _Any:
        """The loss of a step, which the metric "loss" counts, too."""
        return self.compiled_loss(y, y_pred, sample_weight, self.losses)

    @property
    def compiled_loss(self) -> _Any:
        given = self.__dict__.get("_given_loss")
        if given is not None:
            return given

        def call(y_true: _Any, y_pred: _Any, sample_weight: _Any = None, regularization_losses: _Any = None) -> _Any:
            total = self._compiled.loss_of(self, y_true, y_pred, sample_weight)
            for term in regularization_losses or ():
                total = term if total is None else total + term
            if total is not None:
                self._compiled.count_loss(total, y_pred)
            return total

        return call

    @compiled_loss.setter
    def compiled_loss(self, value: _Any) -> None:
        """Another loss for steps that are written in Python."""
        self.__dict__["_given_loss"] = value

    @property
    def compiled_metrics(self) -> _Any:
        return self._compiled

    def compute_metrics(self, x: _Any, y: _Any, y_pred: _Any, sample_weight: _Any) -> dict:
        self._compiled.update_state(y, y_pred, sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def train_step(self, data: _Any) -> dict:
        """One step; fit calls it only where a subclass overrides it."""
        x, y, sample_weight = _unpack(data)
        with _GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self._counted_loss(x, y, y_pred, sample_weight)
        trained = self._trained_variables()
        if trained:
            self.optimizer.minimize(loss, trained, tape=tape)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data: _Any) -> dict:
        x, y, sample_weight = _unpack(data)
        y_pred = self(x, training=False)
        self._counted_loss(x, y, y_pred, sample_weight)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _counted_loss(self, x: _Any, y: _Any, y_pred: _Any, sample_weight: _Any) -> _Any:
        """compute_loss, and the metric "loss" counts what it returns if a subclass has written one that does not."""
        compiled = self._compiled
        compiled.counted = False
        loss = self.compute_loss(x, y, y_pred, sample_weight)
        if not compiled.counted:
            compiled.count_loss(loss, y_pred)
        return loss

    def _batches(self, x: _Any, y: _Any, batch_size: int | None, sample_weight: _Any, shuffle: bool) -> _Any:
        from ..data import Dataset
        if isinstance(x, _data.Dataset):
            return x
        x = tuple(x) if isinstance(x, list) and x and hasattr(x[0], "shape") else x  # several inputs
        parts = tuple(_columns(part) for part in (x, y, sample_weight) if part is not None)
        rows = Dataset.from_tensor_slices(_structure.map_structure(_np.asarray, parts if len(parts) > 1 else parts[0]))
        count = len(_np.asarray(_structure.flatten(x)[0]))
        return (rows.shuffle(count) if shuffle else rows).batch(batch_size or 32)

    def _step(self, what: str) -> _Function:
        if what not in self._steps:
            method = getattr(self, what)
            self._steps[what] = _Function(lambda iterator: method(next(iterator)))
        return self._steps[what]

    def _pass(self, what: str, iterator: _Any, steps: int | None, begin: _Any, end: _Any) -> tuple[dict, int]:
        """Runs a step on every batch, up to so many; begin(n) and end(n, logs) are called around each. Gives the last
        logs and how many steps were made."""
        logs: dict = {}
        n = 0
        from ...errors import OutOfRangeError
        while steps is None or n < steps:
            begin(n)
            try:
                logs = self._run_step(what, iterator)
            except (OutOfRangeError, StopIteration):
                break
            end(n, logs)
            n += 1
            if what == "train_step" and self.stop_training:
                break
        return {name: float(value) if _np.ndim(value) == 0 else _np.asarray(value)
                for name, value in (logs or {}).items()}, n

    def _run_step(self, what: str, iterator: _Any) -> dict:
        if self._compiled is not None and self._compiled.run_eagerly:
            return getattr(self, what)(next(iterator))
        concrete, leaves = self._step(what).concrete((iterator,), {}, self._world_now())
        return concrete.run(leaves)

    def _held_out(self, validation_data: _Any, batch_size: int | None) -> _Any:
        held, labels, weights = (validation_data, None, None) if isinstance(validation_data, _data.Dataset) else \
            _three(validation_data)
        return self._batches(held, labels, batch_size, weights, False)

    def _fit_traced(self, batches: _Any, epochs: int, callbacks: _Any, held: _Any, initial_epoch: int, steps: int | None,
                    validation_steps: int | None, validation_freq: int, verbose: _Any) -> _callbacks.History:
        self._need_compiled()
        if _callbacks.BackupAndRestore._among(callbacks) is not None:
            raise NotImplementedError("BackupAndRestore runs in C's loop, and this model overrides train_step, or has a "
                                      "metric that is written in Python; a ModelCheckpoint keeps its weights")
        params = _params(epochs, steps or _known_steps(batches), verbose)
        given = self._told(callbacks, params)
        around = _callbacks._around(given, ["on_train_batch_begin", "on_batch_begin"],
                                    ["on_train_batch_end", "on_batch_end"])
        history, logs = _callbacks.History(), {}
        history.set_params(params)
        history.set_model(self)
        for callback in given:
            callback.on_train_begin({})
        iterator, known = None, _known_steps(batches)
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            for callback in given:
                callback.on_epoch_begin(epoch, {})
            if iterator is None or steps is None:
                iterator = iter(batches)
            found, done = self._pass("train_step", iterator, steps or known, *around)
            if steps is None and done == known:
                next(iterator, None)  # to the end, where on_epoch_end of a Sequence is called
            ended = steps is not None and done < steps and not self.stop_training
            if ended:
                _logging.getLogger("tensorflow").warning(
                    "the input ended after %d of %d steps of epoch %d: training ends; repeat the dataset, or leave out "
                    "steps_per_epoch", done, steps, epoch + 1)
                if done == 0:
                    break
            logs = found
            if held is not None and (epoch + 1) % validation_freq == 0:
                logs.update({f"val_{name}": value for name, value in self._test(held, validation_steps, given).items()})
            for callback in given:
                callback.on_epoch_end(epoch, logs)
            history.epoch.append(epoch)
            for name, value in logs.items():
                history.history.setdefault(name, []).append(value)
            if verbose not in (0,):
                print(f"Epoch {epoch + 1}/{epochs} - " + " - ".join(f"{n}: {_np.mean(v):.4f}" for n, v in logs.items()))
            if self.stop_training or ended:
                break
        for callback in given:
            callback.on_train_end(logs)
        self.__dict__["history"] = history
        return history

    def _test(self, batches: _Any, steps: int | None, callbacks: list) -> dict:
        """A pass of test_step with the callbacks around it."""
        self.reset_metrics()
        for callback in callbacks:
            callback.on_test_begin({})
        found, _ = self._pass("test_step", iter(batches), _known_steps(batches) if steps is None else steps,
                              *_callbacks._around(callbacks, ["on_test_batch_begin"], ["on_test_batch_end"]))
        for callback in callbacks:
            callback.on_test_end(found)
        return found

    def _evaluate_traced(self, x: _Any, y: _Any, batch_size: _Any, sample_weight: _Any, steps: int | None,
                         callbacks: _Any, verbose: _Any, return_dict: bool) -> _Any:
        counter = _callbacks._Counter()
        progress = None if verbose == 0 else _callbacks._Progress(verbose, steps)
        batches = self._batches(x, y, batch_size, sample_weight, False)
        told = self._told(callbacks, _params(1, steps or _known_steps(batches), verbose))
        found = self._test(batches, steps, told + [counter])
        if progress is not None:
            progress.finish(counter.batches, found)
        return found if return_dict else next(iter(found.values())) if len(found) == 1 else list(found.values())

    def reset_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    # --- what it consists of ---

    def summary(self, line_length: int | None = None, positions: _Any = None, print_fn: _Any = None,
                expand_nested: bool = False, show_trainable: bool = False, layer_range: _Any = None) -> None:
        """Prints the table of layers."""
        if layer_range is not None:
            raise NotImplementedError("summary: layer_range does not exist yet")
        if show_trainable or expand_nested and any(isinstance(layer, Model) for layer in self.layers):
            _warnings.warn("summary shows the layers of the model, without those of models in it and whether they are "
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
        return "<pre>" + _html.escape("\n".join(lines)) + "</pre>"

    def _known_inputs(self) -> list | None:
        """(name, dtype, shape with the batch) of inputs, when known: from the first call, if nothing else says it."""
        return self.__dict__.get("_called")

    def _in_graph(self, *args: _Any, **named: _Any) -> _Any:
        if self.__dict__.get("_called") is None and args and not isinstance(self, (Functional, Sequential)) or \
                isinstance(self, Sequential) and self._input is None and self.__dict__.get("_called") is None and args:
            form = self.__dict__.get("_input_form")
            leaves, names = self._flat_inputs(args[0])
            self.__dict__["_input_form"] = form if form is not None else self._input_form
            specs = [getattr(leaf, "shape", None) for leaf in leaves]
            if leaves and all(isinstance(leaf, _Node) and shape is not None for leaf, shape in zip(leaves, specs)):
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

    def _saved_network(self) -> _Network:
        if self._network is None:
            specs = self._known_inputs()
            if specs is None:
                raise ValueError("the model was never called, so the shapes of its inputs are not known; fit, predict "
                                 "or call it first")
            self._network_from(specs)
        self._network.take()
        return self._network

    def _whole_network(self) -> _Network:
        """One that predicts what the model does."""
        network = self._saved_network()
        if network.has_guesses:
            if network.has_writes:
                raise NotImplementedError(f"{self.name} assigns to variables in its call, which no predictor does: give a name "
                                          "that ends with .keras, or use save_weights")
            raise NotImplementedError(f"{self.name} has a loop over an unknown number of steps, which is unrolled: fit or "
                                      "predict with the number of steps that the SavedModel takes first, or give a name "
                                      "that ends with .keras")
        return network

    # --- saving ---

    def get_config(self) -> dict:
        """How the model is made, for from_config; of a subclass its name."""
        if isinstance(self, (Functional, Sequential)):
            return _config.of_model(self)
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict, custom_objects: _Any = None) -> "Model":
        if "kind" not in config:
            return cls(**config)
        with _config.CustomObjectScope(custom_objects):
            return _config.made_model(config)

    def to_json(self, **named: _Any) -> str:
        """How the model is made, for model_from_json."""
        return _json.dumps(_config.of_model(self), **named)

    def save_weights(self, filepath: _Any, overwrite: bool = True, save_format: _Any = None, options: _Any = None) -> None:
        """Writes the variables as a checkpoint of TensorFlow's format; to a name that ends with .h5 as one file of this
        package."""
        path = _os.fspath(filepath)
        as_file = _files.is_file(path, save_format)
        if (as_file or not self._has_objects()) and self._known_inputs() is None:
            raise ValueError(f"Weights for model {self.name!r} have not yet been created. Weights are created when the "
                             "model is first called on inputs or `build()` is called with an `input_shape`.")
        _writable(path if as_file else path + ".index", overwrite)
        if as_file:
            with _files.packing(path) as folder:
                self.save_weights(_os.path.join(folder, _WEIGHTS))
        elif not self._world_now().is_remote and self._has_objects() and (self.weights or self._known_inputs() is None):
            _write_checkpoint(self, path, True)
        else:
            _check(_lib.est_network_save_weights(self._saved_network()._c, path.encode()))

    def _has_objects(self) -> bool:
        """Whether classes of the program are among its layers: their variables are known by the attributes that hold
        them, as in Keras, and not by numbers of layers."""
        return any(not type(layer).__module__.startswith("estoc.") for layer in [self] + self._flat_layers())

    def load_weights(self, filepath: _Any, skip_mismatch: bool = False, by_name: bool = False,
                     options: _Any = None) -> _Any:
        """Sets the variables from a checkpoint, a SavedModel or a file of save_weights or save. Those of a model that
        was never called wait until it is. What a checkpoint lacks keeps its values, with a warning, and assert_consumed
        of the result refuses it."""
        path = _os.fspath(filepath)
        if _os.path.isfile(path) or _files.is_file(path):
            with _files.unpacked(path) as folder:
                self.load_weights(_os.path.join(folder, _WEIGHTS), skip_mismatch, by_name)
                self._world_now().ready()  # now, since the files do not stay
            return None
        is_checkpoint = not by_name and not skip_mismatch and _os.path.exists(path + ".index")
        if is_checkpoint and not self._world_now().is_remote and (self._has_objects() or self._known_inputs() is None):
            if self._known_inputs() is not None and not self.weights:
                self._saved_network()
            status = _restored(self, path)
            if status is not None and (self._known_inputs() is None or status._restoration._given):
                return status
            if status is not None:
                status._restoration.drop()  # the network finds the variables by the numbers of layers
        keep, network = _Keep(), self._saved_network()
        lacks = None
        for partial in (False, True):
            code = _lib.est_network_load_weights(network._c, keep.string(path), keep.options(
                "est_load_weights_options", by_name=by_name, skip_mismatch=skip_mismatch, partial=partial))
            if partial or not is_checkpoint or code != _lib.EST_FAILED_PRECONDITION:
                break
            lacks = _text(_lib.est_error_message()).split(". Set ")[0]
        _check(code)
        self._world_now().trained.add(network)
        return _Loaded(lacks) if is_checkpoint else None

    def save(self, filepath: _Any, overwrite: bool = True, save_format: _Any = None, include_optimizer: bool = True,
             signatures: _Any = None, options: _Any = None, save_traces: bool = True) -> None:
        """Writes a SavedModel; to a name that ends with .keras or .h5 as one file of this package."""
        path = _os.fspath(filepath)
        _writable(path, overwrite)
        if options is not None and not hasattr(options, "experimental_io_device"):
            raise TypeError(f"Model.save: options are a tf.saved_model.SaveOptions, not {type(options).__name__}")
        if _files.is_file(path, save_format):
            if signatures is not None:
                raise NotImplementedError("Model.save: a file has no signatures; a name without .keras and .h5 makes a "
                                          "SavedModel, which has them")
            with _files.packing(path) as folder:
                self.save_weights(_os.path.join(folder, _WEIGHTS))
                self._save_config(folder, include_optimizer)
            return
        self._need_graph("save to a folder")
        if signatures is not None:
            from .. import saved_model
            written = saved_model._write(self, path, signatures)
            self._save_config(path, include_optimizer, [written.get(id(variable)) for variable in self._ordered_weights()])
            return
        network = self._whole_network()
        _check(_lib.est_network_save(network._c, path.encode()))
        names = [network.name_of(variable._bytes) for variable in self._ordered_weights()]
        self._save_config(path, include_optimizer, [name and name.decode() for name in names])

    def save_spec(self, dynamic_batch: bool = True) -> tuple | None:
        """The arguments of call, as TensorSpecs: (positional, named); None: they are not known yet."""
        if not dynamic_batch:
            raise NotImplementedError("save_spec(dynamic_batch=False): models take batches of any size")
        known = self._known_inputs()
        if known is None:
            return None
        specs = [_data.TensorSpec((None, *tuple(shape)[1:]), dtype, name) for name, dtype, shape in known]
        return (specs[0] if len(specs) == 1 else specs,), {}

    def export(self, filepath: _Any) -> None:
        """Writes a SavedModel for prediction only."""
        self._need_graph("export")
        _check(_lib.est_network_save(self._whole_network()._c, _os.fspath(filepath).encode()))

    def _save_config(self, path: str, with_optimizer: bool, names: _Sequence = ()) -> None:
        """How the model was made, for load_model; a model of a program's own classes has only what predicts. `names`
        are those of the variables in the SavedModel, in their order: layers made again may be numbered otherwise."""
        config: dict = {"model": None, "compile": None, "variables": list(names)}
        try:
            config["model"] = _config.of_model(self)
        except _config.Unknown as why:
            config["why"] = str(why)
        folder = _os.path.join(path, _EXTRA)
        _os.makedirs(folder, exist_ok=True)
        self._save_assets(folder)
        if self._compiled is not None and type(self).get_compile_config is not Model.get_compile_config:
            config["compile_config"] = _serial.serialize(self.get_compile_config())
        elif self._compiled is not None and with_optimizer and config["model"] is not None:
            given = self._compiled
            try:
                config["compile"] = _config.encode({
                    "optimizer": self.optimizer, "loss": self.loss, "metrics": given.given_metrics,
                    "loss_weights": given.loss_weights, "weighted_metrics": given.given_weighted})
                _Checkpoint(optimizer=self.optimizer).write(_os.path.join(folder, "optimizer"))
            except _config.Unknown as why:
                _warnings.warn(f"{self.name} is saved without what compile was told: {why}")
        with open(_os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
            _json.dump(config, file, indent=1)


    def _save_assets(self, folder: str) -> None:
        """What layers of a program write themselves: files (save_assets) and arrays (save_own_variables)."""
        for i, layer in enumerate([self] + self._flat_layers()):
            if type(layer).save_own_variables is not _Layer.save_own_variables:
                store: dict[str, _Any] = {}
                layer.save_own_variables(store)
                _np.savez(_os.path.join(folder, f"variables-{i}.npz"),
                          **{key: _np.asarray(value) for key, value in store.items()})
            if hasattr(type(layer), "save_assets"):
                path = _os.path.join(folder, "assets", str(i))
                _os.makedirs(path, exist_ok=True)
                layer.save_assets(path)

    def get_compile_config(self) -> dict | None:
        """What compile was told, as plain values; a subclass whose compile takes something else overrides it, and
        compile_from_config."""
        if self._compiled is None:
            return None
        given = self._compiled
        return _serial.serialize({"optimizer": self.optimizer, "loss": self.loss, "metrics": given.given_metrics,
                                  "weighted_metrics": given.given_weighted, "loss_weights": given.loss_weights})

    def compile_from_config(self, config: dict) -> None:
        """Compiles with what get_compile_config of another model gave."""
        self.compile(**_serial.deserialize(config))


class _Loaded:
    """What load_weights gives for a checkpoint."""

    def __init__(self, lacks: str | None):
        self._lacks = lacks

    def assert_consumed(self) -> "_Loaded":
        """Every variable of the model was in the checkpoint."""
        if self._lacks is not None:
            raise AssertionError(self._lacks)
        return self

    assert_existing_objects_matched = assert_consumed

    def assert_nontrivial_match(self) -> "_Loaded":
        """Something was there: load_weights has seen to it."""
        return self

    def expect_partial(self) -> "_Loaded":
        """Values that nothing takes are expected; there is no warning about them anyway."""
        return self


def _differ(kind: tuple, built: tuple | None) -> bool:
    """Whether a network that was built for a component of one dtype and shape refuses another."""
    if built is None or kind == built:
        return False
    (dtype, shape), (known, wanted) = kind, built
    if dtype != known or shape is None or wanted is None or len(shape) != len(wanted):
        return True
    return any(want is not None and have != want for have, want in zip(shape, wanted))


def _split_rows(parts: tuple, held: float) -> tuple:
    """The first rows of arrays, and the last ones, which are held out."""
    arrays = _structure.map_structure(lambda part: part if part is None else _np.asarray(part), parts)
    count = int(len(next(part for part in _structure.flatten(arrays) if part is not None)) * (1 - held))
    return tuple(_structure.map_structure(lambda part: part if part is None else part[rows], arrays)
                 for rows in (slice(None, count), slice(count, None)))


def _weights_of_classes(class_weight: dict, y: _Any, sample_weight: _Any) -> _np.ndarray:
    """Sample weights by the classes of labels, for loops of Python."""
    if y is None or _structure.is_nested(y):
        raise NotImplementedError("class_weight where train_step is overridden, or a metric is written in Python, takes "
                                  "labels of one output as an array; give a dataset weights as its third part")
    labels = _np.asarray(_unwrap(y))
    classes = labels.argmax(1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1).astype(_np.int64)
    missing = sorted(set(classes.tolist()) - class_weight.keys())
    if missing:
        raise ValueError(f"class_weight has no weight for the class {missing[0]}; it has {sorted(class_weight)}")
    weights = _np.array([class_weight[one] for one in classes.tolist()], _np.float32)
    return weights if sample_weight is None else weights * _np.asarray(_unwrap(sample_weight), _np.float32)


def _floating(leaf: _Any) -> _np.ndarray:
    array = _np.asarray(leaf)
    return array.astype(_np.float32) if array.dtype == _np.float64 else array


def _three(data: _Any) -> tuple:
    data = tuple(data)
    return data + (None,) * (3 - len(data)) if len(data) < 3 else data


def _unpack(data: _Any) -> tuple:
    if not isinstance(data, tuple):
        return data, None, None
    return data + (None,) * (3 - len(data))


def _list(metrics: _Any) -> list:
    return [] if metrics is None else _structure.flatten(metrics) if isinstance(metrics, (list, tuple, dict)) else [
        metrics]


def _labels_for(user: _Any, y_true: _Any, y_pred: _Any) -> _Any:
    """Labels for a loss or a metric of compile."""
    by_number = isinstance(user, _metrics._Native) and not isinstance(user, _metrics.MeanMetricWrapper)
    return _losses._matched(y_true, y_pred, by_number or getattr(user, "_each", None) is not None)


def _scaled(loss: _Any, weight: float) -> _Any:
    each = loss._values()
    return lambda labels, predictions: each(labels, predictions) * weight


def _is_own_metric(metric: _Any) -> bool:
    """Whether networks of C do not know a metric: it is written in Python, or a subclass overrides what it does."""
    return isinstance(metric, _metrics.Metric) and (not isinstance(metric, _metrics._Native) or _overridden(
        type(metric), "update_state", "result", "reset_state") is not None)


class _Compiled:
    """What compile was given: a loss and metrics for every output, or for each by its name or its place."""

    def __init__(self, loss: _Any, metrics: _Any, weighted: _Any, loss_weights: _Any, run_eagerly: bool = False):
        self.run_eagerly = run_eagerly
        self.given = loss if isinstance(loss, (list, tuple, dict)) else _losses._as_loss(loss)
        self.given_metrics, self.given_weighted, self.loss_weights = metrics, weighted, loss_weights
        self.metrics, self.weighted = _list(metrics), _list(weighted)
        self.trained: _Any = {}  # layers, and whether they were trainable
        self.mean = _metrics.Mean(name="loss")
        self.counted = False  # in the step that is traced
        self._objects: list | None = None
        self._losses: list | None = None  # one for each output

    def is_written(self) -> bool:
        """Whether a loss or a metric is a function or a class of the program."""
        given = _structure.flatten([self.given, self.metrics, self.weighted])
        return any(not (getattr(one, "fn", None) or type(one)).__module__.startswith(__name__.split(".")[0] + ".")
                   for one in given if one is not None and not isinstance(one, str))

    # --- by outputs ---

    def losses(self, model: _Any, names: list[str]) -> list:
        if self._losses is None:
            given = self.given
            if isinstance(given, (list, tuple, dict)):
                given = _by_output(model, names, given, "loss")
            else:
                given = [given] * len(names)
            self._losses = [None if one is None else _losses._as_loss(one) for one in given]
        return self._losses

    def weights(self, model: _Any, names: list[str]) -> list:
        given = self.loss_weights
        if given is None:
            return [1.0] * len(names)
        if not isinstance(given, (list, tuple, dict)):
            given = [given] * len(names)
        return [1.0 if one is None else float(one) for one in _by_output(model, names, given, "loss_weights")]

    @staticmethod
    def _metrics_by_output(model: _Any, names: list[str], given: _Any) -> list[list]:
        if given is None:
            return [[] for _ in names]
        nested = isinstance(given, dict) or isinstance(given, (list, tuple)) and any(
            isinstance(one, (list, tuple, dict)) for one in given)
        if len(names) == 1 and not isinstance(given, dict):
            return [_list(given)]
        if not nested:  # those of every output
            return [_list(given) for _ in names]
        return [_list(one) for one in _by_output(model, names, given, "metrics")]

    def outputs_of(self, model: _Any, names: list[str], keep: _Keep) -> list:
        """Members of an est_compile_output for each output; None: it is not trained."""
        losses, weights = self.losses(model, names), self.weights(model, names)
        metrics = self._metrics_by_output(model, names, self.given_metrics)
        weighted = self._metrics_by_output(model, names, self.given_weighted)
        if all(loss is None for loss in losses) and (any(metrics) or any(weighted)):
            raise NotImplementedError("metrics without a loss: fit has no label to measure them with; add_metric does")
        found: list = []
        for name, loss, weight, own, more in zip(names, losses, weights, metrics, weighted):
            if loss is None:
                if own or more:
                    raise NotImplementedError(f"{name} has metrics, and no loss; give it one with a loss weight near 0")
                found.append(None)
                continue
            if weight == 0:
                raise NotImplementedError(f"{name} has a loss weight of 0; leave its loss out")
            own, more = ([metric for metric in given if not _is_own_metric(metric)] for given in (own, more))
            if not all(isinstance(metric, str) for metric in more):
                raise NotImplementedError("weighted_metrics are names")
            if len(names) == 1 and weight != 1:
                loss = _losses.LossFunctionWrapper(_scaled(loss, weight), name=loss.name)
                keep.append(loss)
            found.append({
                "output": keep.string(name), "loss_value": loss._c_loss[0], "loss_weight": weight,
                "metrics": keep.strings([metric for metric in own if isinstance(metric, str)]),
                "own_values": [self.spec(metric, keep) for metric in own if not isinstance(metric, str)],
                "weighted_metrics": keep.strings(more)})
        return found

    def loss_of(self, model: _Any, y_true: _Any, y_pred: _Any, sample_weight: _Any = None) -> _Any:
        """The loss of a step that is written in Python; None: there is none."""
        predictions = _structure.flatten(y_pred)
        if len(predictions) == 1 and not isinstance(self.given, (list, tuple, dict)):
            return None if self.given is None else self.given(_labels_for(self.given, y_true, y_pred), y_pred, sample_weight)
        names = model._outputs_of_network()
        if len(names) != len(predictions):
            names = sorted(y_pred) if isinstance(y_pred, dict) else [f"output_{i + 1}" for i in range(len(predictions))]
        labels = _by_output(model, names, y_true, "y") if isinstance(y_true, (list, tuple, dict)) else [y_true]
        total = None
        for loss, weight, label, prediction in zip(self.losses(model, names), self.weights(model, names), labels,
                                                   predictions):
            if loss is not None:
                one = loss(_labels_for(loss, label, prediction), prediction, sample_weight) * weight
                total = one if total is None else total + one
        return total

    def spec(self, metric: _Any, keep: _Keep) -> _Any:
        """A metric for the network."""
        metric = _metrics.get(metric)
        if isinstance(metric, _metrics._Native):
            keep.append(metric)
            struct = keep.new("est_metric_spec *", metric._spec(keep))
            struct.name = keep.string(metric.name)
            return struct[0]
        raise TypeError(f"a metric is a name, an object or a function, not {metric!r}")

    def added(self, model: _Any, name: str, keep: _Keep) -> _Any:
        """The mean of what a call gives to add_metric by this name."""
        find = _weakref.ref(model)

        def value(labels: _Any, predictions: _Any) -> _Any:
            return find()._noted_metric(predictions.graph, name)

        loss = _losses.LossFunctionWrapper(value, name=name)
        keep.append(loss)
        struct = keep.new("est_metric_spec *", _lib.est_metric_value_of_loss(loss._c_loss))
        struct.name = keep.string(name)
        return struct[0]

    def objects(self) -> list:
        """The metrics for steps that are written in Python."""
        if self._objects is None:
            self._objects = [_metrics.get(metric) for metric in self.metrics + self.weighted]
        return self._objects

    def metric_objects(self) -> list:
        return [self.mean] + self.objects()

    def count_loss(self, value: _Any, y_pred: _Any) -> None:
        """The mean over examples: batches count as many as they have."""
        rows = _eager(_ops.shape)(_structure.flatten(y_pred)[0])[0]
        self.mean.update_state(value, sample_weight=_eager(_ops.cast)(rows, "float32"))
        self.counted = True

    def update_state(self, y_true: _Any, y_pred: _Any, sample_weight: _Any = None) -> None:
        if self.objects() and len(_structure.flatten(y_pred)) > 1:
            raise NotImplementedError("metrics of several outputs in a train_step of your own: update them there")
        mask = _losses._mask_of(y_pred)
        for i, metric in enumerate(self.objects()):
            weights = None if i < len(self.metrics) else sample_weight
            if mask is not None:
                weights = _losses._times(mask, weights)
            metric.update_state(_labels_for(metric, y_true, y_pred), y_pred,
                                **({} if weights is None else {"sample_weight": weights}))

    def reset_state(self) -> None:
        for metric in self.metric_objects():
            metric.reset_state()


# --- functional -------------------------------------------------------------------------------------------------------


def _from_within(inputs: _Any, outputs: _Any) -> tuple:
    """Inputs in place of what layers gave, and the outputs that the layers behind them make of these."""
    made: dict[int, _Any] = {}

    def new_input(item: _Any) -> _Any:
        if not isinstance(item, _KerasTensor) or item._call is None:
            return item
        made[id(item)] = _Input(batch_shape=tuple(item.shape), dtype=item.dtype)
        return made[id(item)]

    def remade(tensor: _Any) -> _Any:
        if not isinstance(tensor, _KerasTensor) or id(tensor) in made or tensor._call is None:
            return made.get(id(tensor), tensor)
        call = tensor._call
        positional, named = _structure.map_structure(remade, (call.positional, call.named))
        result = call.layer(*positional, **named) if call.layer is not None else _KerasTensor._keras_call(
            call.function, positional, named)
        made.update(zip(map(id, _structure.flatten(call.made)), _structure.flatten(result)))
        return made[id(tensor)]

    return _structure.map_structure(new_input, inputs), _structure.map_structure(remade, outputs)


class Functional(Model):
    """A model of inputs and outputs, between which layers were called."""

    _functional = True
    _scoped = False
    _in_order_of_attributes = False

    def __init__(self, inputs: _Any = None, outputs: _Any = None, name: str | None = None, trainable: bool = True,
                 dtype: _Any = None):
        Model.__init__(self, name=name or (_unique_name("model") if type(self) is Functional else None),
                       trainable=trainable, dtype=dtype)
        d = self.__dict__
        if any(isinstance(item, _KerasTensor) and item._call is not None for item in _structure.flatten(inputs)):
            inputs, outputs = _from_within(inputs, outputs)
        d["_inputs"], d["_outputs"] = inputs, outputs
        d["_flat"] = _structure.flatten(inputs)
        for item in d["_flat"]:
            if not isinstance(item, _KerasTensor):
                raise ValueError("Found unexpected instance while processing input tensors for keras functional model. "
                                 f"Expecting KerasTensor which is from tf.keras.Input(). Got: {item!r}")
        d["_terms"], d["_measured"] = [], []  # of add_loss and add_metric
        d["_output_form"] = _structure.map_structure(lambda leaf: None, outputs)
        d["_calls"] = self._by_depth(self._order(outputs))
        for call in d["_calls"]:
            if call.layer is not None and not any(call.layer is layer for layer in self._layers):
                self._layers.append(call.layer)
        d["built"] = True

    inputs = property(lambda self: self._flat)
    outputs = property(lambda self: _structure.flatten(self._outputs))
    input = property(lambda self: self._inputs)
    output = property(lambda self: self._outputs)
    input_shape = property(lambda self: _shapes(self._inputs))
    output_shape = property(lambda self: _shapes(self._outputs))
    input_names = property(lambda self: [item.name for item in self._flat])

    def _order(self, outputs: _Any) -> list:
        order, seen = [], set()

        def visit(tensor: _Any) -> None:
            if not isinstance(tensor, _KerasTensor):
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
            count = sum(one == name or _re.fullmatch(rf"{_re.escape(name)}_\d+", one) is not None for one in found)
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

        def source(leaf: _KerasTensor) -> _Any:
            """The call that gives a tensor, or an Input itself."""
            return leaf if leaf._call is None else leaf._call

        def own_of(item: _Any) -> int:
            return id(getattr(item, "layer", None) or item)

        def parents(item: _Any) -> list:
            if isinstance(item, _KerasTensor):
                return []
            found = [source(leaf) for leaf in _structure.flatten((item.positional, item.named))
                     if isinstance(leaf, _KerasTensor)]
            return list({id(item): item for item in found}.values())

        def visit(item: _Any) -> None:
            if own_of(item) not in index:
                index[own_of(item)] = len(index)
            elif id(item) in seen:
                return
            seen.add(id(item))
            for parent in parents(item):
                visit(parent)

        seen: set = set()
        for leaf in _structure.flatten([self._outputs, self._terms, [value for _, value in self._measured]]):
            if isinstance(leaf, _KerasTensor):
                visit(source(leaf))
        for call in reversed(calls):
            own = own_of(call)
            deep = max(depth.get(id(call), 0), of_layer.get(own, 0))
            depth[id(call)] = of_layer[own] = deep
            for parent in parents(call):
                depth[id(parent)] = max(depth.get(id(parent), 0), deep + 1)
        items = sorted([*self._flat, *calls], key=lambda item: (-depth.get(id(item), 0), index.get(own_of(item), 0)))
        self.__dict__["_items"] = items
        return [item for item in items if not isinstance(item, _KerasTensor)]

    @property
    def layers(self) -> list:
        """The inputs and the layers, in the order of their distance from the outputs, as in Keras."""
        found = [_InputLayer._of(item) if isinstance(item, _KerasTensor) else item.layer for item in self._items]
        return list({id(layer): layer for layer in found if layer is not None}.values())

    def _checkpoint_layers(self) -> list:
        return self._weighted_layers()  # "layer-<i>" counts inputs, which are no layers here

    def _names(self) -> list[str]:
        if isinstance(self._inputs, dict):
            return sorted(self._inputs)
        return [item.name for item in self._flat]

    def _flat_inputs(self, x: _Any) -> tuple[list, list[str]]:
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

    def _pack_inputs(self, nodes: list) -> _Any:
        return nodes[0] if len(nodes) == 1 else nodes

    def _known_inputs(self) -> list | None:
        by_name = dict(zip(self._names(), self._flat if not isinstance(self._inputs, dict) else
                           [self._inputs[key] for key in sorted(self._inputs)]))
        return [(name, item.dtype, tuple(item.shape)) for name, item in by_name.items()]

    def _ensure_built(self) -> None:
        if _default_graph() is not None or self._world_now().graph in self._made_in:
            return
        self._made_in.add(self._world_now().graph)
        _build_in(self, self._world_now(), [(dtype, shape) for _, dtype, shape in self._known_inputs()])
        for layer in self._flat_layers():  # the call has made what they have
            layer._made_in.add(self._world_now().graph)

    def build(self, input_shape: _Any) -> None:
        """Its variables are known already."""

    def call(self, inputs: _Any, training: _Any = None, mask: _Any = None) -> _Any:
        leaves, _ = self._flat_inputs(inputs)
        order = [self._inputs[key] for key in sorted(self._inputs)] if isinstance(self._inputs, dict) else self._flat
        made = {id(item): _conform(leaf, item, self.name, i) for i, (item, leaf) in enumerate(zip(order, leaves))}
        results: dict[tuple, _Any] = {}

        def find(leaf: _Any) -> _Any:
            if not isinstance(leaf, _KerasTensor):
                return leaf
            if leaf._call is None:
                return made[id(leaf)]
            return results[(id(leaf._call), leaf._index)]

        for call in self._calls:
            args, named = _structure.map_structure(find, (call.positional, call.named))
            if call.layer is None:
                from .._eager import unwrap
                args, named = _structure.map_structure(unwrap, (args, named))
            value = call.function(*args, **named)
            for i, leaf in enumerate(_structure.flatten(value)):
                results[(id(call), i)] = leaf
        for term in self._terms:
            _Layer.add_loss(self, find(term))
        for name, value in self._measured:
            _Layer.add_metric(self, find(value), name)
        return _structure.map_structure(find, self._outputs)

    def add_loss(self, losses: _Any, inputs: _Any = None) -> None:
        """A term of the loss: a tensor of the model, or of a call."""
        for loss in _structure.flatten(losses):
            if isinstance(loss, _KerasTensor):
                self._terms.append(loss)
                self._extend()
            else:
                super().add_loss(loss, inputs)

    def add_metric(self, value: _Any, name: str | None = None, aggregation: str | None = "mean") -> None:
        """The mean of a tensor of the model, among the metrics."""
        if not isinstance(value, _KerasTensor):
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
                self._layers.append(call.layer)


def _shapes(tensors: _Any) -> _Any:
    shapes = _structure.map_structure(lambda item: _TensorShape(item.shape) if isinstance(item, _Node) and not isinstance(
        item, _KerasTensor) else tuple(item.shape), tensors)
    return shapes


def _need_shape(have: _Any, want: _Any, model: str, number: int) -> None:
    """Raises where Keras does: an axis is another one. The number of axes may differ, and the last one may be 1."""
    pairs = zip(*([*shape][:-1] if len(shape) and shape[-1] == 1 else [*shape] for shape in (have, want)))
    if any(i > 0 and None not in pair and pair[0] != pair[1] for i, pair in enumerate(pairs)):
        raise ValueError(f'Input {number} of layer "{model}" is incompatible with the layer: expected shape='
                         f"{tuple(want)}, found shape={tuple(have)}")


def _conform(node: _Node, wanted: _KerasTensor, model: str, number: int) -> _Node:
    """A last axis of 1 more or less, and the dtype of the Input, as Keras does it; data of another shape is refused."""
    have, want = node.shape, wanted.shape
    if have is not None and want is not None:
        _need_shape(have, want, model, number)
        if len(have) == len(want) + 1 and have[-1] == 1:
            node = _ops.squeeze(node, -1)
        elif len(have) == len(want) - 1 and want[-1] == 1:
            node = _Node(node.graph, _lib.est_expand_dims(node._c, -1))
    if node.dtype != wanted.dtype:
        node = _Node(node.graph, _lib.est_cast(node._c, wanted.dtype.number))
    node.graph.check()
    return node


class Sequential(Model):
    """One layer after the other."""

    _scoped = False
    _in_order_of_attributes = False

    def __init__(self, layers: _Sequence | None = None, name: str | None = None):
        super().__init__(name=name)
        self.__dict__["_input"] = None
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: _Any) -> None:
        if isinstance(layer, (_KerasTensor, _InputLayer)):
            self.__dict__["_input"] = layer.output if isinstance(layer, _InputLayer) else layer
            return
        if not isinstance(layer, _Layer):
            raise TypeError(f"The added layer must be an instance of class Layer. Received: layer={layer} of type "
                            f"{type(layer)}.")
        if any(layer.name == other.name and layer is not other for other in self._layers):
            raise ValueError("All layers added to a Sequential model should have unique names. Name "
                             f"\"{layer.name}\" is already the name of a layer in this model.")
        if not self._layers and self._input is None and layer._batch_input_shape is not None:
            self.__dict__["_input"] = _Input(batch_shape=layer._batch_input_shape, name=f"{layer.name}_input")
        if not self._layers and self._input is None and isinstance(layer, (Functional, Sequential)) and len(
                layer._known_inputs() or ()) == 1:
            (_, dtype, shape), = layer._known_inputs()
            self.__dict__["_input"] = _Input(batch_shape=shape, dtype=dtype, name=f"{layer.name}_input")
        self._forget_calls()
        self._layers.append(layer)
        layer.__dict__["_in_sequence"] = _weakref.ref(self)

    def _forget_calls(self) -> None:
        """What was made of the layers so far; they keep their variables."""
        if self._network is not None:
            self._drop_network()
        self._change()
        self.__dict__.update(built=False, _steps={}, _specs=None, _output_form=None)

    def _call_symbolic(self) -> _Any:
        """Calls the layers one after the other as a functional model does, for their inputs and outputs."""
        if self._input is None:
            raise AttributeError(f"The layer {self.name} has never been called and thus has no defined input.")
        value = self._input
        for layer in self._layers:
            value = layer(value)
        return value

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
    def output_shape(self) -> _Any:
        if self._input is None:
            raise AttributeError("The layer has never been called and thus has no defined output shape.")
        return tuple(self(self._input).shape)

    def _flat_inputs(self, x: _Any) -> tuple[list, list[str]]:
        if isinstance(x, dict) or _structure.is_nested(x) and len(_structure.flatten(x)) != 1:
            return super()._flat_inputs(x)  # for a first layer that takes a dict, as DenseFeatures does
        leaves = _structure.flatten(x)
        self.__dict__["_input_form"] = None
        name = self._input.name if self._input is not None else f"{self._layers[0].name}_input"
        return leaves, [name]

    def _pack_inputs(self, nodes: list) -> _Any:
        return nodes[0] if self._input_form is None else super()._pack_inputs(nodes)

    def _known_inputs(self) -> list | None:
        if self._input is None:
            return self.__dict__.get("_called")
        return [(self._input.name, self._input.dtype, tuple(self._input.shape))]

    def _ensure_built(self) -> None:
        if _default_graph() is not None or self._input is None:
            return
        graph, natives = self._world_now().graph, [layer for layer in self._flat_layers() if isinstance(layer, _NativeLayer)]
        if self.built and any(layer._in_graphs.get(graph) for layer in natives) and all(
                graph in layer._in_graphs for layer in natives):
            return
        _build_in(self, self._world_now(), [(self._input.dtype, tuple(self._input.shape))])

    def build(self, input_shape: _Any = None) -> None:
        if self._input is None and input_shape is not None:
            self.__dict__["_input"] = _Input(batch_shape=tuple(input_shape), name=f"{self._layers[0].name}_input")
        self._ensure_built()

    def call(self, inputs: _Any, training: _Any = None, mask: _Any = None) -> _Any:
        if self._input is not None and isinstance(inputs, _Node) and not isinstance(inputs, _KerasTensor):
            inputs = _conform(inputs, self._input, self.name, 0)
        for layer in self._layers[1 if self._texts() is not None else 0:]:
            inputs = layer(inputs)
        return inputs

    # --- texts ---

    def _texts(self) -> _Any:
        """A first layer that makes numbers of texts by functions of the program: it is called outside of graphs, with what
        the model is given."""
        first = self._layers[0] if self._layers else None
        return first if isinstance(first, _TextVectorization) and first.needs_values else None

    def __call__(self, *args: _Any, **named: _Any) -> _Any:
        texts = self._texts()
        if texts is not None and args:
            args = (texts(args[0]),) + args[1:]
        return super().__call__(*args, **named)

    def _given(self, x: _Any) -> _Any:
        """What the graph of the model is given for an input, or for a dataset of inputs and labels."""
        texts = self._texts()
        if texts is None or not isinstance(x, _data.Dataset):
            return x if texts is None else texts(x)
        return x.map(lambda *parts: (texts(parts[0]), *parts[1:]) if len(parts) > 1 else texts(parts[0]))


_INSTEAD = ("tf.saved_model.load runs it, and model.load_weights(folder) takes its variables into a model of the same "
            "layers")


def load_model(filepath: _Any, custom_objects: _Any = None, compile: bool = True, safe_mode: bool = True,  # noqa: A002
               options: _Any = None) -> Model:
    """The model that Model.save has written: its layers, weights, and what compile was told with the state of the
    optimizer."""
    path = _os.fspath(filepath)
    if _os.path.isfile(path) or _files.is_file(path):
        with _files.unpacked(path) as folder:
            return load_model(folder, custom_objects, compile)
    file = _os.path.join(path, _EXTRA, "model.json")
    if not _os.path.exists(path):
        raise OSError(f"No file or directory found at {path}")
    if not _os.path.exists(file):
        raise NotImplementedError(f"{path} was not written by Model.save of this package, and has no layers to go on "
                                  f"training with; {_INSTEAD}")
    with open(file, encoding="utf-8") as opened:
        config = _json.load(opened)
    if config["model"] is None:
        raise NotImplementedError(f"{path} has no layers to go on training with: {config['why']}; {_INSTEAD}")
    with _config.CustomObjectScope(custom_objects):
        model = _config.made_model(config["model"])
        told = _config.decode(config["compile"]) if compile and config["compile"] is not None else None
    if isinstance(model, Sequential) and model._input is None and model._known_inputs() is not None:
        _build_in(model, model._world_now(), [(dtype, shape) for _, dtype, shape in model._known_inputs()])
    for i, layer in enumerate([model] + model._flat_layers()):
        if hasattr(type(layer), "load_assets"):
            layer.load_assets(_os.path.join(path, _EXTRA, "assets", str(i)))
    weights = _os.path.join(path, _WEIGHTS)
    if _os.path.exists(weights + ".index"):
        model.load_weights(weights)
        if model._known_inputs() is not None:
            model._saved_network()  # takes what waits, since the files may not stay
    else:
        _take_variables(model, path, config.get("variables") or [])
    for i, layer in enumerate([model] + model._flat_layers()):
        if type(layer).load_own_variables is not _Layer.load_own_variables:
            with _np.load(_os.path.join(path, _EXTRA, f"variables-{i}.npz")) as store:
                layer.load_own_variables(dict(store))
    if compile and config.get("compile_config") is not None:
        with _config.CustomObjectScope(custom_objects):
            model.compile_from_config(config["compile_config"])
    if told is not None:
        model.compile(**told)
        _Checkpoint(optimizer=model.optimizer).read(_os.path.join(path, _EXTRA, "optimizer"))
        world = model._world_now()
        if not world.is_remote:  # now, since the files may not stay
            model.optimizer._make_slots(world, model.trainable_variables)
            world.session()
    return model


def _take_variables(model: Model, path: str, names: list) -> None:
    """The variables of a SavedModel, by their order."""
    model._saved_network()
    variables = model._ordered_weights()
    if len(names) != len(variables) or None in names or model._world_now().is_remote:
        model.load_weights(path)
        return
    reader = _load_checkpoint(_os.path.join(path, "variables", "variables"))
    for variable, name in zip(variables, names):
        variable.assign(reader.get_tensor(name))


def clone_model(model: Model, input_tensors: _Any = None, clone_function: _Any = None) -> Model:
    """A model of the same layers with new variables."""
    if input_tensors is not None or clone_function is not None:
        raise NotImplementedError("clone_model: input_tensors and clone_function do not exist yet")
    return _config.copied(model)


def model_from_json(json_string: str, custom_objects: _Any = None) -> Model:
    """The model of Model.to_json of this package, with new variables."""
    with _config.CustomObjectScope(custom_objects):
        return _config.made_model(_json.loads(json_string))


def save_model(model: Model, filepath: _Any, overwrite: bool = True, save_format: _Any = None, **named: _Any) -> None:
    """Model.save"""
    model.save(filepath, overwrite, save_format, **named)


__getattr__ = _module_getattr(__name__)
