# SPDX-License-Identifier: Apache-2.0
"""The network of a model in C: what compile, fit, evaluate, predict and save are."""
from __future__ import annotations

import re
import tempfile
import weakref
from typing import Any, Sequence

import numpy as np

from ... import _frames, _nest
from ... import data as _data
from ..._lib import NULL, Handle, Keep, check, ffi, lib, node_callback, owned, text
from ..._tensor import as_array, as_dtype, c_shape, take_tensor, to_array, to_tensor
from ...graph import Graph, Node, as_node
from .. import _devices, _structure
from .._eager import Tensor, unwrap
from .._variable import Variable
from .._world import before_write
from ._calling import build_in

_graphs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def graph_of(pointer: Any) -> Graph:
    """The Python side of a graph that callbacks of networks are given."""
    address = int(ffi.cast("uintptr_t", pointer))
    graph = _graphs.get(address)
    if graph is None or graph._c is None:  # the address of one that was freed
        graph = Graph(_borrowed=pointer)
        graph._kept_in([])
        graph.twins, graph.twin_of, graph.others = {}, {}, weakref.WeakKeyDictionary()
        _graphs[address] = graph
    return graph


class Network:
    """An est_network over the layers of a model, with variables that are kept equal to those of the world."""

    def __init__(self, model: Any, inputs: list[tuple[str, Any, Any]] | None, model_dir: str | None = None):
        self._model = weakref.ref(model)
        self._world = model._world_now()
        if model_dir is None and self._world.is_shared and not self._world.is_remote:
            # workers that are brought together again after a loss compare their checkpoints; each has its own here
            self._own_dir = tempfile.TemporaryDirectory(prefix="estoc-fit-")
            model_dir = self._own_dir.name
        self.model_dir = model_dir
        self.names: list[str] = []
        self._handle = Handle(weakref.ref(self))
        keep, out = Keep(), ffi.new("est_network **")
        self.has_cluster = self._world.is_remote and self._world.use(self)
        strategy = model._strategy if self.has_cluster or not self._world.is_remote else None
        members = {"name": keep.string(model.name), "user": self._handle.pointer,
                   "strategy": strategy._c if strategy is not None else None,
                   "seed": model._seed_of_network(), **_devices.members(keep, _devices.options())}
        if model_dir is not None:
            members["model_dir"] = keep.string(model_dir)
        self.outputs = model._outputs_of_network()
        if len(self.outputs) > 1:
            members["outputs"] = keep.strings(self.outputs)
        if inputs is not None:
            members["inputs"] = keep.span("est_network_inputs", "est_network_input", [
                {"name": keep.string(name), "dtype": as_dtype(dtype).number, "shape": c_shape(shape)}
                for name, dtype, shape in inputs])
        check(lib.est_network_create(lib.py_on_network, keep.options("est_network_options", **members), out))
        self._c = owned(out[0], "est_network_free", parents=(self._handle, strategy, keep))
        self.graph: Graph | None = None
        self._held: list[tuple[Variable, bytes]] = []  # variables that it has newer values of
        self._version = -1  # of the world's variables that the session has
        self._keep: list = []
        self.has_writes = False  # the call assigns to variables
        self.has_guesses = False  # it can tell shapes, and compute nothing
        self.optimizer: Any = None  # of compile
        self._older: set[str] = set()  # names of variables before it
        self._variables: list[Variable] = []  # that it has trained
        # of former compiles: what they have trained, and where the names of their variables begin
        self._former: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._trained: Any = {}  # layers of the model, and whether they are trained
        self.has_loss = False  # that of compile was built
        self.kinds: dict[str, tuple] = {}  # of the components that it was built for

    # --- variables ---

    @property
    def name(self) -> str:
        return self._model().name

    def _own_graph(self) -> Graph | None:
        pointer = lib.est_network_graph(self._c)
        if pointer == NULL:
            return None
        if self.graph is None:
            self.graph = graph_of(pointer)
        return self.graph

    def _pairs(self) -> list[tuple[Variable, bytes]]:
        """Variables of the world, and the names of the same ones in the network."""
        graph, model = self._own_graph(), self._model()
        if graph is None or model is None:
            return self._held
        found: dict[int, tuple] = {}
        for layer in [model] + model._flat_layers() + list(graph.others):
            mine, theirs = layer._in_graphs.get(self._world.graph, ()), layer._in_graphs.get(graph, ())
            for a, b in zip(mine, theirs):
                found[id(a)] = (a, b._bytes)
            for variable in layer._own_weights:
                twin = graph.twins.get(id(variable))
                if twin is not None:
                    found[id(variable)] = (variable, twin._bytes)
        for twin in graph.twins.values():  # of the loss, say
            variable = graph.twin_of[id(twin)]
            if variable._world is self._world:
                found.setdefault(id(variable), (variable, twin._bytes))
        return list(found.values())

    # --- what is trained ---

    def trains_layer(self, layer: Any) -> bool | None:
        """Whether the variables of a layer are trained; None: it is none of the model's."""
        if layer not in self._trained:  # not of the model, or made in the call
            self._trained = weakref.WeakKeyDictionary(self._model()._trained_when_compiled())
        return self._trained.get(layer)

    def may_train(self, variable: Variable) -> bool:
        """Whether a variable is one of a layer that is trained, and not one that the loss uses, say."""
        self._trained = weakref.WeakKeyDictionary(self._model()._trained_when_compiled())
        return any(is_trained and any(variable is own for own in layer._own_weights)
                   for layer, is_trained in self._trained.items())

    def has_other_training(self) -> bool:
        """At a compile: whether variables of add_weight were frozen in the graph, and are not now, or the other way."""
        graph = self._own_graph()
        changed = graph is not None and not self._world.is_remote and any(
            twin.trainable != (variable.trainable and self.may_train(variable))
            for twin in graph.twins.values() for variable in [graph.twin_of[id(twin)]])
        return changed

    def use_other(self, layer: Any, inputs: list | None) -> None:
        """Before the call of a layer that is none of the model's: it has its values in the world."""
        graph, world = self._own_graph(), self._world
        if layer in graph.others:
            return
        graph.others[layer] = True
        if inputs and world.graph not in layer._in_graphs:
            build_in(layer, world, [(node.dtype, node.shape) for node in inputs])
        if world.is_remote and layer._in_graphs.get(world.graph):
            raise NotImplementedError(f"{layer.name} has variables and is not a layer of {self.name}: a cluster has those of the "
                                      "model only. Make it an attribute of the model, and set its trainable to False")

    def hold(self) -> None:
        """Variables may outlive the model, whose layers know them: they keep this alive while it has their values."""
        self._held = self._pairs()
        for variable, _ in self._held + self._slot_pairs():
            variable.trained_in = self

    def let_go(self) -> None:
        for variable, _ in self._held + self._slot_pairs():
            variable.trained_in = None
        self._held = []

    def take(self) -> None:
        """Gives the session what the world has."""
        if self.has_cluster:
            self._world.give_moved(self)
            return
        with self._world.alone():
            self._ask_others()
            if self._version == self._world.version or self in self._world.trained:
                return
            session = lib.est_network_session(self._c)
            if session == NULL:
                return
            for variable, name in self._pairs() + self._slot_pairs():
                check(lib.est_session_write(session, name, to_tensor(self._world.read(variable._bytes), copy=False)))
            self._version = self._world.version

    def _ask_others(self) -> None:
        """Gives the world what other networks have learned of variables that are here, too: models share layers."""
        others = [network for network in self._world.trained if network is not self and not network.has_cluster]
        if not others:
            return
        mine = {id(variable) for variable, _ in self._pairs() + self._slot_pairs()}
        for network in others:
            if any(id(variable) in mine for variable, _ in network._pairs() + network._slot_pairs()):
                network.give_back_if_free()

    def give_back_if_free(self) -> None:
        """Gives back unless another thread uses the model, and does so at its end."""
        model = self._model()
        use = None if model is None else model._use_lock()
        if use is None:
            self.give_back()
        elif use.acquire(blocking=False):
            try:
                self.give_back()
            finally:
                use.release()

    def give_back(self) -> None:
        """Gives the world what the session has."""
        world = self._world
        with world.alone():
            pairs = self._pairs() + self._slot_pairs()
            world.trained.discard(self)
            session = lib.est_network_session(self._c)
            if session == NULL or self.has_cluster:
                return
            before_write(world, lambda: [variable._bytes for variable, _ in pairs])
            self._copy_back(pairs)
            world.changed()
            self._version = world.version

    def _copy_back(self, pairs: list) -> None:
        session, out = lib.est_network_session(self._c), ffi.new("est_tensor **")
        for variable, name in pairs:
            check(lib.est_session_read(session, name, out))
            check(lib.est_session_write(self._world.session(), variable._bytes, take_tensor(out[0])))

    # --- the optimizer ---

    def _all_names(self) -> list[str]:
        graph = self._own_graph()
        span = lib.est_global_variables(graph._c) if graph is not None else None
        return [] if span is None else [text(lib.est_node_name(span.data[i])) for i in range(span.n)]

    def _slot_pairs(self) -> list[tuple[Variable, bytes]]:
        """Slots and counters of the optimizer in the world, and the names of the same ones here."""
        bound = self.optimizer._bound.get(self._world) if self.optimizer is not None else None
        if bound is None or not self._variables:
            return []
        return [(bound.iterations, b"global_step")] + self._slots_at(self._prefix(), bound, None)

    def _slots_at(self, prefix: str | None, bound: Any, variables: list | None) -> list[tuple[Variable, bytes]]:
        """Slots in the world of these variables, or of all, and the names of the same ones under a prefix."""
        known, here = set(self._all_names()), {id(variable): name.decode() for variable, name in self._pairs()}
        wanted = None if variables is None else {id(variable) for variable in variables}
        slots = {f"{prefix}/{here.get(variable)}/{kind}": slot for (variable, kind), slot in bound.slots.items()
                 if wanted is None or variable in wanted}
        slots.update({f"{prefix}/{name}": number for name, number in bound.numbers.items()})
        return [(slot, name.encode()) for name, slot in slots.items() if name in known]

    def _prefix(self) -> str | None:
        """Of the names of the optimizer's variables, which are new since compile; None: there are none yet."""
        if self.optimizer is None:
            return None
        rule = re.compile(rf"(training/{re.escape(self.optimizer._rule)}(?:_\d+)?)/")
        found = (rule.match(name) for name in self._all_names() if name not in self._older)
        return next((match.group(1) for match in found if match), None)

    def leave_optimizer(self, following: Any) -> None:
        """Before a compile: the world gets what the optimizer has counted, and the slots are kept for when it, or the
        program, goes on with them."""
        if self._variables and not self._world.is_remote:
            if self in self._world.trained:
                self.give_back()
            self._former[self.optimizer] = (self._variables, self._prefix())
        if following in self._former:
            self.note_trained(following)

    def begin(self, optimizer: Any) -> None:
        """After a compile: the counter of steps is that of the optimizer; other names are of what it makes."""
        self.optimizer, self._older, self._variables = optimizer, set(self._all_names()), []
        self._former.pop(optimizer, None)
        optimizer._compiled.add(self)
        self.has_loss = False
        if lib.est_network_session(self._c) == NULL or self.has_cluster or self._world.is_remote:
            return
        bound = optimizer._bound.get(self._world)
        steps = np.int64(0) if bound is None else bound.iterations.numpy()
        check(lib.est_session_write(self.session(), b"global_step", to_tensor(steps)))

    def trains(self, variables: list) -> None:
        """Before training: which variables."""
        self._variables += [variable for variable in variables if not any(variable is one for one in self._variables)]

    def build_training(self, rows: Any) -> None:
        """The function of training, with the slots of the optimizer, unless it is there."""
        if self._prefix() is not None:
            return
        like, keep = rows.dataset, None
        if like is None:
            one = _data.Dataset.from_tensor_slices({name: array[:1] for name, array in rows.arrays}).batch(1)
            pointer, keep = one._finish()
            like = owned(pointer, "est_dataset_free", parents=(keep, one))
        check(lib.est_network_build(self._c, like))
        self._version = -1

    def build_loss(self, rows: Any) -> None:
        """A loss or metric of the program may use layers of others, which have their values before the first step."""
        if not self.has_loss and not self.has_cluster and not self._world.is_remote:
            self.build_training(rows)
        self.has_loss = True

    def _trained_by(self, optimizer: Any) -> tuple[list, str | None]:
        """The variables that an optimizer has trained here, and where the names of its slots begin."""
        if optimizer is self.optimizer and self._variables:
            return self._variables, self._prefix()
        return self._former.get(optimizer, ([], None))

    def give_slots(self, optimizer: Any, variables: list) -> None:
        """Gives the world the slots of these variables, if they were trained here."""
        prefix = self._trained_by(optimizer)[1]
        if prefix is not None and self.session() != NULL and not self.has_cluster:
            self._copy_back(self._slots_at(prefix, optimizer._in_world(self._world), variables))

    def note_trained(self, optimizer: Any) -> None:
        """Makes the slots in the world that the network has here."""
        if self._model() is not None:
            optimizer._make_slots(self._world, self._trained_by(optimizer)[0])

    def hand_over(self) -> None:
        """Before the network goes: the world gets all that it has."""
        if not self._world.is_remote:
            for optimizer in [*self._former, *([self.optimizer] if self.optimizer is not None else [])]:
                self.note_trained(optimizer)
        if self in self._world.trained:
            self.give_back()

    def leave(self) -> dict[bytes, np.ndarray]:
        """Leaves the cluster; gives the values of the variables by their names in the world. The model makes another
        network when it needs one."""
        model, out, values = self._model(), ffi.new("est_tensor **"), {}
        if self._c is None or model is None:
            return values
        for variable, name in self._pairs():
            check(lib.est_session_read(self.session(), name, out))
            values[variable._bytes] = to_array(take_tensor(out[0]), copy=True)
        lib.est_network_leave(self._c)
        model.__dict__["_network"] = None
        return values

    def close(self) -> None:
        """Ends the job of parameter servers."""
        network, self._c = self._c, None
        if network is not None:
            ffi.release(network)

    def name_of(self, variable: bytes) -> bytes | None:
        """The name here of a variable of the world, for worlds that have no values themselves."""
        return next((name for mine, name in self._pairs() if mine._bytes == variable), None)

    def session(self) -> Any:
        return lib.est_network_session(self._c)

    # --- after each step ---

    def follow_up(self) -> Any:
        """What C does not do after an update, constraints and moving averages: functions for after every batch and for
        the end; None: there is nothing to do."""
        optimizer, model = self.optimizer, self._model()
        trained = {id(variable) for variable in model._trained_variables()}
        pairs = [pair for pair in self._pairs() if id(pair[0]) in trained and (optimizer.use_ema or pair[0].constraint)]
        if not pairs:
            return None
        if self._world.is_shared:
            raise NotImplementedError("constraints and use_ema in a fit of several tasks do not exist yet")
        bound, out, every = optimizer._in_world(self._world), ffi.new("est_tensor **"), optimizer.ema_overwrite_frequency
        averages = [optimizer._average_of(bound, variable) for variable, _ in pairs] if optimizer.use_ema else []
        means = [average.numpy() for average in averages]

        def read(name: bytes) -> Any:
            check(lib.est_session_read(self.session(), name, out))
            return to_array(take_tensor(out[0]), copy=True)

        def follow() -> None:
            due = bool(every) and int(read(b"global_step")) % every == 0
            for i, (variable, name) in enumerate(pairs):
                value = before = read(name)
                if means:
                    kept = value.dtype.type(optimizer.ema_momentum)
                    means[i] = means[i] * kept + value * (1 - kept)
                    value = means[i] if due else value
                if variable.constraint is not None:
                    value = as_array(unwrap(variable.constraint(Tensor(value))), before.dtype)
                if value is not before:
                    check(lib.est_session_write(self.session(), name, to_tensor(value)))

        def end() -> None:
            self._world.trained.add(self)
            for average, mean in zip(averages, means):
                average.assign(mean)

        return follow, end

    # --- the function of the network ---

    def call(self, graph: Graph, features: Any, training: bool) -> Node:
        model = self._model()
        nodes = [Node(graph, lib.est_network_input_node(features, name.encode())) for name in self.names]
        graph.check()
        graph.network, self._trained = weakref.ref(self), {}
        graph.only_shapes = bool(model.__dict__.get("_only_shapes"))
        with graph.as_default():
            result = model._in_graph(model._pack_inputs(nodes), training=training)
        leaves = _structure.flatten(result)
        if len(leaves) != len(self.outputs) or not all(isinstance(leaf, Node) for leaf in leaves):
            raise ValueError(f"{model.name} has the outputs {', '.join(self.outputs)}, and its call gave {result!r}")
        self.has_guesses = self.has_guesses or graph.has_guesses or self.has_writes
        masks = [graph.masks.get((leaf._c.id, leaf._c.output)) for leaf in leaves]
        leaves = [leaf if mask is None else Node(graph, lib.est_masked(leaf._c, mask._c))
                  for leaf, mask in zip(leaves, masks)]
        for layer in [model] + model._flat_layers():
            for loss in layer._losses.pop(graph, ()):
                lib.est_add_loss(as_node(unwrap(loss), graph)._c)
            for variable, cost in layer.__dict__.get("_own_costs", ()):  # C counts those of its own layers
                lib.est_add_loss(cost(variable._as_node(graph))._c)
        if len(leaves) == 1:
            return leaves[0]
        keep = Keep()
        return Node(graph, lib.est_outputs(keep.span("est_nodes", "est_node", [leaf._c for leaf in leaves])))


@node_callback("py_on_network", lambda graph, inputs, training, user: graph)
def _on_network(graph: Any, inputs: Any, training: Any, user: Any) -> Any:
    network = Handle.get(user)()
    return network.call(graph_of(graph), inputs, bool(training))._c


class DatasetCreator:
    """A function that makes the dataset of each worker (tf.keras.utils.experimental.DatasetCreator)."""

    def __init__(self, dataset_fn: Any, input_options: Any = None):
        if not callable(dataset_fn):
            raise TypeError("`dataset_fn` for `DatasetCreator` must be a `callable`.")
        self.dataset_fn, self.input_options = dataset_fn, input_options

    def dataset(self) -> Any:
        from ...estimator import InputContext
        return self.dataset_fn(InputContext(1, 0, 1))


# --- data -------------------------------------------------------------------------------------------------------------


class Rows:
    """Data for a network: arrays by name, or a dataset in C."""

    def __init__(self, names: list[str]):
        self.names = names
        self.arrays: list[tuple[str, np.ndarray]] = []
        self.dataset: Any = None
        self.keep: list = []

    def options(self, keep: Keep, dataset: str = "input", arrays: str = "arrays") -> dict[str, Any]:
        keep.append(self)
        if self.dataset is not None:
            return {dataset: self.dataset}
        return {arrays: self.named(keep)}

    def named(self, keep: Keep) -> Any:
        tensors = [to_tensor(array, copy=False) for _, array in self.arrays]
        return _data._named_tensors(keep, [name for name, _ in self.arrays], tensors)

    def steps(self, batch_size: int | None, kept: float = 0.0) -> int | None:
        """Batches of arrays, of which a part at the end is kept for validation; None: a dataset says only at its end."""
        if self.dataset is not None or not self.arrays:
            return None
        rows = len(self.arrays[0][1])
        return -(-(rows - int(rows * kept)) // (batch_size or 32))

    def kinds(self) -> dict[str, tuple]:
        """The dtype and shape, without the batch, of every component."""
        if self.dataset is not None:
            return {name: (dtype, None if shape is None else tuple(shape)[1:]) for name, (dtype, shape) in self.specs}
        return {name: (as_dtype(array.dtype), array.shape[1:]) for name, array in self.arrays}

    def first(self) -> list[tuple[Any, tuple]]:
        """The dtype and shape, with the batch, of every input."""
        if self.dataset is not None:
            found = dict(self.specs)
            return [found[name] for name in self.names]
        by_name = dict(self.arrays)
        return [(as_dtype(by_name[name].dtype), (None,) + by_name[name].shape[1:]) for name in self.names]


def labels_of(names: Sequence[str], outputs: Sequence[str] = ("",)) -> tuple[list[str], str]:
    """Names for the labels of outputs and for the weights that no input has."""
    labels, weight = ["label"] if len(outputs) == 1 else [f"label/{output}" for output in outputs], "sample_weight"
    while any(label in names for label in labels):
        labels = [label + "_1" for label in labels]
    while weight in names:
        weight += "_1"
    return labels, weight


def by_output(model: Any, outputs: Sequence[str], given: Any, what: str) -> list:
    """One of `given` for each output: by the names of outputs, by the keys of a dict that the model gives, or in their
    order; None: there is none for an output."""
    if len(outputs) == 1 and not isinstance(given, (dict, list, tuple)):
        return [given]
    if isinstance(given, dict):
        keys = model._output_keys()
        unknown = [key for key in given if key not in outputs and key not in keys]
        if unknown:
            raise ValueError(f"Found unexpected keys that do not correspond to any Model output: {set(unknown)}. "
                             f"Expected: {list(outputs)}")
        return [given.get(name, given.get(key)) for name, key in zip(outputs, keys)]
    if not isinstance(given, (list, tuple)) or len(given) != len(outputs):
        raise ValueError(f"{what}: the model has {len(outputs)} outputs, {', '.join(outputs)}; got {given!r}")
    return list(given)


def _floats(array: np.ndarray) -> np.ndarray:
    """As Keras: floats are float32."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


def rows_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Rows:
    """Arrays or a dataset, with the names of the network."""
    if isinstance(x, DatasetCreator):
        x = x.dataset()
    x = model._given(x)
    if isinstance(x, _data.Dataset):
        return _rows_of_dataset(model, x, y)
    x = _plain(columns(x))
    leaves, names = model._flat_inputs(x)
    rows = Rows(names)
    wanted = _wanted(model)
    rows.arrays = [(name, _as_wanted(_floats(np.asarray(leaf)), wanted.get(name))) for name, leaf in zip(names, leaves)]
    several = isinstance(y, dict) or isinstance(y, (list, tuple)) and len(y) > 0 and all(
        hasattr(item, "shape") for item in y)
    if several:
        model._know_outputs(rows)
    outputs = model._outputs_of_network() if several else [""]
    several = several and (isinstance(y, dict) or len(outputs) == len(y))
    if y is not None and not several and len(model._outputs_of_network()) > 1:
        raise ValueError(f"{model.name} has the outputs {', '.join(model._outputs_of_network())}; give y as a list with "
                         "one array for each, or as a dict by their names")
    labels, weight = labels_of(names, outputs)
    if y is not None:
        values = by_output(model, outputs, y, "y") if several else [y]
        for label, value in zip(labels, values):
            if value is not None:
                array = np.asarray(_plain(value))
                rows.arrays.append((label, array.astype(np.float32) if array.dtype == np.float64 else array))
    if sample_weight is not None:
        if several:
            sample_weight = _weight_columns(model, outputs, sample_weight, len(rows.arrays[0][1]))
        rows.arrays.append((weight, np.asarray(_plain(sample_weight), np.float32)))
    sizes = {array.shape[0] for _, array in rows.arrays}
    if len(sizes) > 1:
        raise ValueError(f"Data cardinality is ambiguous: {', '.join(f'{n}: {a.shape[0]}' for n, a in rows.arrays)}. "
                         "Make sure all arrays contain the same number of samples.")
    return rows


def _weight_columns(model: Any, outputs: Sequence[str], given: Any, rows: int) -> np.ndarray:
    """Sample weights of several outputs, a column for each that is trained."""
    trained = model._trained_outputs(outputs)
    by_name = isinstance(given, dict) or isinstance(given, (list, tuple)) and any(
        item is None or hasattr(item, "shape") or isinstance(item, (list, tuple)) for item in given)
    parts = by_output(model, outputs, given, "sample_weight") if by_name else [given] * len(outputs)
    kept = [np.ones(rows, np.float32) if part is None else np.asarray(_plain(part), np.float32)
            for part, is_trained in zip(parts, trained) if is_trained]
    flat = [part[:, 0] if part.ndim == 2 and part.shape[1] == 1 else part for part in kept]
    if any(part.ndim != 1 for part in flat):
        raise NotImplementedError("sample weights of several outputs: one weight an example")
    return np.stack(flat, 1)


def columns(value: Any) -> Any:
    """Columns of tables as matrices of one column, as Keras has them."""
    return _structure.map_structure(lambda leaf: as_array(leaf)[:, None] if _frames.is_column(leaf) else leaf, value)


def _wanted(model: Any) -> dict[str, tuple]:
    """The dtypes and shapes of inputs that the model knows."""
    return {name: (dtype, tuple(shape)) for name, dtype, shape in model._known_inputs() or ()}


def _is_other(have: Any, want: Any) -> bool:
    """Whether numbers are cast, as Keras does it for an Input."""
    return want is not None and have.name != want.name and "string" not in (have.name, want.name)


def _as_wanted(array: np.ndarray, wanted: tuple | None) -> np.ndarray:
    """The dtype of an Input, and an axis of 1 at the end more or less, as Keras does it."""
    dtype, shape = wanted if wanted is not None else (None, None)
    if array.dtype.kind in "biuf" and _is_other(as_dtype(array.dtype), dtype):
        array = array.astype(dtype.as_numpy_dtype)
    if shape is not None and array.ndim == len(shape) - 1 and shape[-1] == 1:
        return array[..., None]
    return array[..., 0] if shape is not None and array.ndim == len(shape) + 1 and array.shape[-1] == 1 else array


def _plain(value: Any) -> Any:
    if isinstance(value, (dict, tuple)):
        return _structure.map_structure(lambda leaf: as_array(unwrap(leaf)), value)
    if isinstance(value, list) and any(hasattr(item, "shape") for item in value):
        return [as_array(unwrap(item)) for item in value]
    return as_array(unwrap(value))


def _rows_of_dataset(model: Any, dataset: Any, y: Any) -> Rows:
    if y is not None:
        raise ValueError("`y` argument is not supported when using dataset as input.")
    form = dataset.structure
    parts = form if isinstance(form, tuple) and 1 <= len(form) <= 3 and not model._takes_tuple(form) else (form,)
    x_form = parts[0]
    leaves, names = model._flat_inputs(_number(x_form))
    order = [int(leaf) for leaf in leaves]  # of the inputs among the leaves of x
    n_x = len(_nest.flatten(x_form))
    own = dataset._names
    new: dict[str, str] = {}
    for position, name in zip(order, names):
        new[own[position]] = name
    shapes, wanted = dataset._shapes(), _wanted(model)
    rows, stacked = Rows(names), None
    if len(parts) > 1:
        several = len(_nest.flatten(parts[1])) > 1 or isinstance(parts[1], dict)
        if several:
            rows.specs = [(name, shapes[own[position]]) for position, name in zip(order, names)]
            rows.dataset = dataset  # for `first`
            model._know_outputs(rows)
        outputs = model._outputs_of_network() if several else [""]
        labels, weight = labels_of(names, outputs)
        numbers = iter(range(n_x, n_x + len(_nest.flatten(parts[1]))))
        places = _nest.pack(parts[1], list(numbers))
        for label, place in zip(labels, by_output(model, outputs, places, "labels") if several else
                                _nest.flatten(places)):
            if place is not None:
                new[own[place]] = label
        if len(parts) > 2:
            n_weights, first = len(_nest.flatten(parts[2])), n_x + len(_nest.flatten(parts[1]))
            if n_weights != 1 and not several:
                raise NotImplementedError("sample weights of one output are one component")
            if n_weights == 1 and not isinstance(parts[2], dict):
                places = [first] * len(outputs)
            else:
                places = by_output(model, outputs, _nest.pack(parts[2], list(range(first, first + n_weights))),
                                   "sample_weight")
            if several:
                trained = model._trained_outputs(outputs)
                weights = [None if place is None else own[place] for place, kept in zip(places, trained) if kept]
                stacked = (weight, weights)
            else:
                new[own[first]] = weight

    def build(stage: Any) -> Any:
        return _converted(dataset._chain(stage), new, shapes, wanted, stacked)

    results = list(new.values()) + ([] if stacked is None else [stacked[0]])
    adapted = type(dataset)(build, {name: _nest.LEAF for name in results}, (dataset,))
    pointer, keep = adapted._finish(passes=True)
    rows.dataset = owned(pointer, "est_dataset_free", parents=(keep, dataset, adapted))
    rows.specs = [(name, (spec.dtype, spec.shape)) for name, spec in adapted._components()]
    return rows


def _number(form: Any) -> Any:
    numbers = iter(range(len(_nest.flatten(form))))
    flat = [np.int64(next(numbers)) for _ in _nest.flatten(form)]
    return _nest.pack(form, flat)


def _converted(chain: Any, new: dict, shapes: dict, wanted: dict, stacked: tuple | None = None) -> Any:
    """Other names, float32 in place of float64, the ranks of inputs that the model knows, and the weights of several
    outputs as columns of one component."""
    from ... import ops
    graph, keep, results = Graph(), Keep(), []
    taken = list(new) + [old for old in dict.fromkeys(() if stacked is None else stacked[1]) if old is not None]
    given = {old: graph.placeholder(None, *shapes[old]) for old in taken}
    nodes = [(old, given[old]) for old in new]
    changed = any(old != name for old, name in new.items()) or len(new) != len(shapes)
    for old, node in nodes:
        name, result = new[old], node._c
        if node.dtype.name == "float64" and name not in wanted:
            result, changed = lib.est_cast(result, as_dtype("float32").number), True
        dtype, want = wanted.get(name, (None, None))
        shape = node.shape
        if _is_other(node.dtype, dtype):
            result, changed = lib.est_cast(result, dtype.number), True
        if shape is not None and want is not None and len(shape) == len(want) - 1 and want[-1] == 1:
            result, changed = lib.est_expand_dims(result, -1), True
        elif shape is not None and want is not None and len(shape) == len(want) + 1 and shape[-1] == 1:
            result, changed = lib.est_squeeze(result, keep.i64s([-1])), True
        results.append((name, Node(graph, result)))
    if stacked is not None:
        parts = [None if old is None else ops.cast(given[old], "float32") for old in stacked[1]]
        if any(part is not None and part.shape is not None and len(part.shape) != 1 and part.shape[1:] != (1,) for part in parts):
            raise NotImplementedError("sample weights of several outputs: one weight an example")
        flat = [part if part is None else ops.reshape(part, [-1]) for part in parts]
        like = next((part for part in flat if part is not None), None)
        one = ops.ones_like(like) if like is not None else None
        results.append((stacked[0], ops.stack([one if part is None else part for part in flat], 1)))
        graph.check()
    elif not changed:
        return chain
    nodes = list(given.items())
    return lib.est_dataset_map_graph(chain, _data._named_nodes(keep, nodes), _data._named_nodes(keep, results), NULL)


def metrics_of(pointer: Any) -> dict[str, float]:
    found = {}
    for i in range(lib.est_metrics_count(pointer)):
        found[text(lib.est_metrics_name(pointer, i))] = float(lib.est_metrics_value(pointer, i))
    return found
