# SPDX-License-Identifier: Apache-2.0
"""The network of a model in C: what compile, fit, evaluate, predict and save are."""
from __future__ import annotations

import weakref
from typing import Any, Sequence

import numpy as np

from ... import _nest
from ... import data as _data
from ..._lib import NULL, Handle, Keep, check, ffi, lib, node_callback, owned, text
from ..._tensor import as_dtype, c_shape, take_tensor, to_tensor
from ...graph import Graph, Node
from .. import _structure
from .._eager import unwrap
from .._world import Variable, count_variables

_graphs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def graph_of(pointer: Any) -> Graph:
    """The Python side of a graph that callbacks of networks are given."""
    address = int(ffi.cast("uintptr_t", pointer))
    graph = _graphs.get(address)
    if graph is None or graph._c is None:
        graph = Graph(_borrowed=pointer)
        graph.twins, graph.twin_of = {}, {}
        _graphs[address] = graph
    return graph


class Network:
    """An est_network over the layers of a model, with variables that are kept equal to those of the world."""

    def __init__(self, model: Any, inputs: list[tuple[str, Any, Any]] | None):
        self._model = weakref.ref(model)
        self._world = model._world_now()
        self.names: list[str] = []
        self._handle = Handle(weakref.ref(self))
        keep, out = Keep(), ffi.new("est_network **")
        strategy = model._strategy
        members = {"name": keep.string(model.name), "user": self._handle.pointer,
                   "strategy": strategy._c if strategy is not None else None,
                   "seed": model._seed_of_network()}
        if inputs is not None:
            members["inputs"] = keep.span("est_network_inputs", "est_network_input", [
                {"name": keep.string(name), "dtype": as_dtype(dtype).number, "shape": c_shape(shape)}
                for name, dtype, shape in inputs])
        check(lib.est_network_create(lib.py_on_network, keep.options("est_network_options", **members), out))
        self._c = owned(out[0], "est_network_free", parents=(self._handle, strategy, keep))
        self.graph: Graph | None = None
        if self._world.is_remote:
            self._world.use(self)
        self._version = -1  # of the world's variables that the session has
        self._trains: Any = None  # how many variables the world had, and which of them the network trains
        self._keep: list = []

    # --- variables ---

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
        if graph is None:
            return []
        found: dict[int, tuple] = {}
        layers = [model] + model._flat_layers()
        for layer in layers:
            mine, theirs = layer._in_graphs.get(self._world.graph, ()), layer._in_graphs.get(graph, ())
            for a, b in zip(mine, theirs):
                found[id(a)] = (a, b._bytes)
            for variable in layer._own_weights:
                twin = graph.twins.get(id(variable))
                if twin is not None:
                    found[id(variable)] = (variable, twin._bytes)
        return list(found.values())

    def trains(self) -> frozenset[bytes]:
        """The names of its variables in the world."""
        count = count_variables(self._world.graph)
        if self._trains is None or self._trains[0] != count:
            self._trains = (count, frozenset(variable._bytes for variable, _ in self._pairs()))
        return self._trains[1]

    def take(self) -> None:
        """Gives the session what the world has."""
        if self._world.is_remote or self._version == self._world.version or self in self._world.trained:
            return
        session = lib.est_network_session(self._c)
        if session == NULL:
            return
        for variable, name in self._pairs():
            check(lib.est_session_write(session, name, to_tensor(self._world.read(variable._bytes))))
        self._version = self._world.version

    def give_back(self) -> None:
        """Gives the world what the session has."""
        world = self._world
        world.trained.discard(self)
        session = lib.est_network_session(self._c)
        if session == NULL or world.is_remote:
            return
        out = ffi.new("est_tensor **")
        for variable, name in self._pairs():
            check(lib.est_session_read(session, name, out))
            check(lib.est_session_write(world.session(), variable._bytes, take_tensor(out[0])))
        world.changed()
        self._version = world.version

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

    # --- the function of the network ---

    def call(self, graph: Graph, features: Any, training: bool) -> Node:
        model = self._model()
        nodes = [Node(graph, lib.est_network_input_node(features, name.encode())) for name in self.names]
        graph.check()
        with graph.as_default():
            result = model._in_graph(model._pack_inputs(nodes), training=training)
        leaves = _structure.flatten(result)
        if len(leaves) != 1 or not isinstance(leaves[0], Node):
            raise NotImplementedError("compile and fit work for models with one output; call the model in a "
                                      "tf.function and write the loop, or give each output a model of its own")
        for layer in [model] + model._flat_layers():
            if layer._losses.get(graph):
                raise NotImplementedError(f"{layer.name} uses add_loss, which fit does not know; override train_step")
        return leaves[0]


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

    def first(self) -> list[tuple[Any, tuple]]:
        """The dtype and shape, with the batch, of every input."""
        if self.dataset is not None:
            found = dict(self.specs)
            return [found[name] for name in self.names]
        by_name = dict(self.arrays)
        return [(as_dtype(by_name[name].dtype), (None,) + by_name[name].shape[1:]) for name in self.names]


def labels_of(names: Sequence[str]) -> tuple[str, str]:
    """Names for labels and weights that no input has."""
    label, weight = "label", "sample_weight"
    while label in names:
        label += "_1"
    while weight in names:
        weight += "_1"
    return label, weight


def _floats(array: np.ndarray) -> np.ndarray:
    """As Keras: floats are float32."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


def rows_of(model: Any, x: Any, y: Any = None, sample_weight: Any = None) -> Rows:
    """Arrays or a dataset, with the names of the network."""
    if isinstance(x, DatasetCreator):
        x = x.dataset()
    if isinstance(x, _data.Dataset):
        return _rows_of_dataset(model, x, y)
    x = _plain(x)
    leaves, names = model._flat_inputs(x)
    rows = Rows(names)
    wanted = _wanted(model)
    rows.arrays = [(name, _ranked(_floats(np.asarray(leaf)), wanted.get(name))) for name, leaf in zip(names, leaves)]
    label, weight = labels_of(names)
    if y is not None:
        labels = np.asarray(_plain(y))
        rows.arrays.append((label, labels.astype(np.float32) if labels.dtype == np.float64 else labels))
    if sample_weight is not None:
        rows.arrays.append((weight, np.asarray(_plain(sample_weight), np.float32)))
    sizes = {array.shape[0] for _, array in rows.arrays}
    if len(sizes) > 1:
        raise ValueError(f"Data cardinality is ambiguous: {', '.join(f'{n}: {a.shape[0]}' for n, a in rows.arrays)}. "
                         "Make sure all arrays contain the same number of samples.")
    return rows


def _wanted(model: Any) -> dict[str, tuple]:
    """The shapes of inputs that the model knows."""
    return {name: tuple(shape) for name, _, shape in model._known_inputs() or ()}


def _ranked(array: np.ndarray, shape: tuple | None) -> np.ndarray:
    """An axis of 1 at the end more or less, as Keras does it for an Input."""
    if shape is not None and array.ndim == len(shape) - 1 and shape[-1] == 1:
        return array[..., None]
    return array[..., 0] if shape is not None and array.ndim == len(shape) + 1 and array.shape[-1] == 1 else array


def _plain(value: Any) -> Any:
    from ..._tensor import as_array
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
    label, weight = labels_of(names)
    own = dataset._names
    new: dict[str, str] = {}
    for position, name in zip(order, names):
        new[own[position]] = name
    at = n_x
    for part, name in zip(parts[1:], (label, weight)):
        count = len(_nest.flatten(part))
        if count != 1:
            raise NotImplementedError("fit works for one label; several do not exist yet")
        new[own[at]] = name
        at += count
    shapes, wanted = dataset._shapes(), _wanted(model)
    rows = Rows(names)

    def build(stage: Any) -> Any:
        return _converted(dataset._chain(stage), new, shapes, wanted)

    adapted = type(dataset)(build, {name: _nest.LEAF for name in new.values()}, (dataset,))
    pointer, keep = adapted._finish(dataset._turns)
    dataset._turns += 1
    rows.dataset = owned(pointer, "est_dataset_free", parents=(keep, dataset, adapted))
    rows.specs = [(name, (spec.dtype, spec.shape)) for name, spec in adapted._components()]
    return rows


def _number(form: Any) -> Any:
    numbers = iter(range(len(_nest.flatten(form))))
    flat = [np.int64(next(numbers)) for _ in _nest.flatten(form)]
    return _nest.pack(form, flat)


def _converted(chain: Any, new: dict, shapes: dict, wanted: dict) -> Any:
    """Other names, float32 in place of float64, and the ranks of inputs that the model knows."""
    graph, keep, results = Graph(), Keep(), []
    nodes = [(old, graph.placeholder(None, *shapes[old])) for old in new]
    changed = any(old != name for old, name in new.items()) or len(new) != len(shapes)
    for old, node in nodes:
        name, result = new[old], node._c
        if node.dtype.name == "float64":
            result, changed = lib.est_cast(result, as_dtype("float32").number), True
        shape, want = node.shape, wanted.get(name)
        if shape is not None and want is not None and len(shape) == len(want) - 1 and want[-1] == 1:
            result, changed = lib.est_expand_dims(result, -1), True
        elif shape is not None and want is not None and len(shape) == len(want) + 1 and shape[-1] == 1:
            result, changed = lib.est_squeeze(result, keep.i64s([-1])), True
        results.append((name, Node(graph, result)))
    if not changed:
        return chain
    return lib.est_dataset_map_graph(chain, _data._named_nodes(keep, nodes), _data._named_nodes(keep, results), NULL)


def metrics_of(pointer: Any) -> dict[str, float]:
    found = {}
    for i in range(lib.est_metrics_count(pointer)):
        found[text(lib.est_metrics_name(pointer, i))] = float(lib.est_metrics_value(pointer, i))
    return found
