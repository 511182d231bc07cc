# SPDX-License-Identifier: Apache-2.0
"""Worlds, traces and variables.

A world is one graph and one session, which have the variables of programs in the style of TensorFlow 2. Functions are
traced into the graph of a world, each as a step of its own. There is one for everything in this process, and one for
each strategy whose variables are elsewhere.
"""
from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections import Counter
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .._lib import Keep, c_seed, check, ffi, here, lib, owned, text
from .._tensor import DType, as_array, as_dtype, c_shape, copy_values, py_shape, string, take_tensor, to_array
from .._tensor import to_tensor
from ..errors import OpError
from ..graph import Graph, Node, Session, Shape, default_graph, lasting
from ..graph import Variable as _Handle
from ..initializers import c_initializer
from . import _devices
from . import _creators

_local = threading.local()
recorders: weakref.WeakSet = weakref.WeakSet()  # tapes that record, or whose records may be asked for derivatives
writes = [0]  # how often variables were written
watchers: list[list] = []  # each gets the variables that graphs read
restorations: list = []  # checkpoints with values for variables that may not exist yet (_checkpoint.py)


def before_write(world: "World", names: Callable[[], Sequence[bytes] | None]) -> None:
    """Tapes keep the values of the variables of these names; None: it is not known which are written."""
    if recorders:
        known = names()
        values = None if known is None else {(world, name): world.read(name) for name in known}
        for tape in list(recorders):
            tape.keep(writes[0], values)
    writes[0] += 1


class OtherWorld(Exception):
    """A trace met a variable of another world, in which it has to begin again."""

    def __init__(self, world: "World"):
        super().__init__("variables of different clusters cannot be used in one function")
        self.world = world


numbering: list = []  # DeterministicRandomTestTool objects whose scope is open


def numbered(graph: Graph) -> Graph:
    """A new graph whose random operations draw what that scope says."""
    return numbering[-1].number(graph) if numbering else graph


class Trained(weakref.WeakSet):
    """Networks that have newer values than the session of a world; each lives as long as a variable that it has."""

    def add(self, network: Any) -> None:
        if network not in self:
            super().add(network)
            network.hold()

    def discard(self, network: Any) -> None:
        super().discard(network)
        network.let_go()


class World:
    """A graph and its session."""

    def __init__(self, seed: int = 0):
        self.graph = numbered(Graph(seed))
        self.graph.world = self
        lasting[int(ffi.cast("uintptr_t", self.graph._c))] = self.graph
        self.version = 0  # grows with every write of variables
        self.trained = Trained()
        self.apart: set[bytes] = set()  # names of variables that no network has
        self._session: Any = None
        self._known = -1  # variables that have values
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def alone(self) -> Any:
        """Around what changes the graph or uses the session: other threads of the program wait. A trace has the world for
        itself, with the threads of its replicas."""
        if _local.__dict__.get("traces"):
            yield
        else:
            with self._lock:
                yield

    # --- the session ---

    def _create_session(self) -> Any:
        keep, out = Keep(), ffi.new("est_session **")
        check(lib.est_session_create(self.graph._c, keep.options(
            "est_session_options", **_devices.members(keep, _devices.options())), out))
        return owned(out[0], "est_session_free", parents=(self.graph,))

    def session(self) -> Any:
        """The session, in which all variables have values."""
        if self._session is None or self._count() != self._known:
            with self.alone():
                if self._session is None:
                    self._session = self._create_session()
                self._initialize()
        return self._session

    def _count(self) -> int:
        graph = self.graph._c
        return lib.est_global_variables(graph).n + lib.est_local_variables(graph).n

    def _initialize(self) -> None:
        """Gives variables that joined the graph their initial values."""
        count = self._count()
        if count != self._known:
            check(lib.est_session_init(self._session))
            self._known = count
            for restoration in list(restorations):
                restoration.match()

    def _replace_session(self, create: Callable[[], Any]) -> None:
        """Another session with the same values of all variables."""
        old, graph = self.session(), self.graph._c
        names = [lib.est_node_name(span.data[i]) for span in (lib.est_global_variables(graph),
                                                              lib.est_local_variables(graph)) for i in range(span.n)]
        self._session, self._known = create(), -1
        self._initialize()
        out = ffi.new("est_tensor **")
        for name in names:
            check(lib.est_session_read(old, name, out))
            check(lib.est_session_write(self._session, name, take_tensor(out[0])))
        ffi.release(old)

    def ready(self) -> Any:
        """The session, with what networks have learned."""
        if self.trained:
            with self.alone():
                for network in list(self.trained):
                    network.give_back_if_free()
        return self.session()

    def ready_to_run(self) -> Any:
        """The session for a function of the program."""
        return self.ready()

    def _ready_for(self, name: bytes) -> Any:
        """The session for one variable."""
        return self.session() if name in self.apart else self.ready()

    def leave(self) -> None:
        """Before a fit, which brings several tasks together by itself."""

    def changed(self) -> None:
        self.version += 1

    is_remote = False  # its variables are at tasks of a cluster
    is_shared = False  # several tasks train together
    shares_metrics = False  # states of metrics are where the other variables are

    def parts(self, variable: "Variable") -> list["Variable"]:
        """The variable, or its shards."""
        return [variable]

    # --- variables ---

    def read(self, name: bytes) -> np.ndarray:
        out = ffi.new("est_tensor **")
        with self.alone():
            check(lib.est_session_read(self._ready_for(name), name, out))
        return to_array(take_tensor(out[0]))

    def write(self, name: bytes, value: Any, dtype: DType) -> None:
        before_write(self, lambda: [name])
        self.put(name, as_array(value, dtype))

    def put(self, name: bytes, value: np.ndarray) -> None:
        """Writes a variable, which no tape is told."""
        with self.alone():
            check(lib.est_session_write(self._ready_for(name), name, to_tensor(value, copy=False)))
            if name not in self.apart:
                self.changed()

    # --- steps ---

    def prepare(self, feeds: Sequence[Node], fetches: Sequence[Node], targets: Sequence[Node]) -> "Step":
        with self.alone():
            return Step(self.session(), feeds, fetches, targets, (self,))

    def run(self, step: "Step", values: list) -> list:
        with self._lock:
            return step.run(values)


class Step:
    """A prepared step of a session, over numpy arrays."""

    def __init__(self, session: Any, feeds: Sequence[Node], fetches: Sequence[Node], targets: Sequence[Node],
                 parents: tuple):
        keep, out = Keep(), ffi.new("est_step **")
        self._of_session = session
        check(lib.est_session_prepare(self._of_session, _span(keep, feeds), _span(keep, fetches), _span(keep, targets),
                                      out))
        self._parents = parents
        self._c = out[0]
        self._in = ffi.new("py_array[]", max(len(feeds), 1))
        self._out = ffi.new("py_array[]", max(len(fetches), 1))
        self._types = [int(lib.est_node_dtype(node._c)) for node in feeds]
        for i, number in enumerate(self._types):
            self._in[i].dtype = number
        self._n_in, self._n_out = len(feeds), len(fetches)
        self._dtypes = [int(lib.est_node_dtype(node._c)) for node in fetches]
        self._numpy = [None if number == string.number else np.dtype(as_dtype(number).as_numpy_dtype)
                       for number in self._dtypes]
        for i, number in enumerate(self._dtypes):
            self._out[i].dtype = number
        self._shapes: list = [None] * len(fetches)  # of the last run
        self._fed: list = [None] * len(feeds)
        self._fresh = ffi.new("_Bool *")

    def run(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The values of the fetches, new arrays. `values` are arrays of the right dtypes in C order."""
        given, keep = self._in, []
        for i, value in enumerate(values):
            slot = given[i]
            if value.dtype == object:
                slot.tensor = tensor = to_tensor(value)
                keep.append(tensor)
                continue
            data = ffi.from_buffer(value)
            keep.append(data)
            slot.data = data
            shape = value.shape
            if shape != self._fed[i]:
                slot.shape.rank = len(shape)
                slot.shape.dim[0:len(shape)] = shape
                self._fed[i] = shape
        results, out = [], self._out
        for i in range(self._n_out):
            shape = self._shapes[i]
            if shape is None or self._numpy[i] is None:
                out[i].data = ffi.NULL
                results.append(None)
            else:
                array = np.empty(shape, self._numpy[i])
                out[i].data = ffi.from_buffer(array) if array.size else ffi.NULL
                results.append(array)
        status = lib.py_run(self._c, self._n_in, given, self._n_out, out, self._fresh)
        if status != 0:
            check(status)
        if self._fresh[0]:
            self._take(results)
        return results

    def _take(self, results: list) -> None:
        """Copies results whose shape was not the expected one."""
        out = self._out
        for i, array in enumerate(results):
            slot = out[i]
            if array is not None and array.size and slot.data == ffi.from_buffer(array):
                continue
            results[i] = copy_values(self._dtypes[i], slot.shape, slot.data)
            self._shapes[i] = results[i].shape

    def free(self) -> None:
        """Before its session goes; a step that is not freed goes with the session."""
        if self._c is not None:
            step, self._c = self._c, None
            lib.est_step_free(step)


def _span(keep: Keep, nodes: Sequence[Node]) -> Any:
    return keep.span("est_nodes", "est_node", [node._c for node in nodes])


_seed = [0]  # of the program; 0: none
_WITHOUT_SEED = 87654321  # of the program, where a call has one; the same in TensorFlow
_draws: Counter = Counter()  # how often numbers were drawn by each seed of a call; None: without one
_default: list[World] = []


def default_world() -> World:
    """The world of this process."""
    if not _default:
        _default.append(World(_seed[0]))
    return _default[0]


def has_session() -> bool:
    """Whether the devices of functions are settled."""
    return bool(_default) and _default[0]._session is not None


def new_world() -> None:
    """Variables from now on are in another world. One goes with the last reference to its variables and functions."""
    if current_trace() is None:
        _default.clear()


def next_seed(of_call: int | None = None) -> int:
    """For what draws numbers at once: another one for each call, the same in every process if the call or the program
    has a seed; 0: neither has."""
    if of_call is None and not _seed[0]:
        return 0
    _draws[of_call] += 1
    mixed = (_seed[0] or _WITHOUT_SEED) * 0x9E3779B97F4A7C15 + c_seed(of_call) * 0xBF58476D1CE4E5B9
    return (mixed + _draws[of_call]) % 2**63 or 1


def set_seed(seed: int) -> None:
    """Of what is drawn from now on. A world without variables is made again, to draw what a new process draws."""
    _seed[0] = c_seed(seed)
    _draws.clear()
    if numbering:  # whose seed it is there
        return
    for world in _default:
        lib.est_graph_set_seed(world.graph._c, _seed[0])
        if world._session is not None:
            lib.est_session_set_seed(world._session, _seed[0])
            lib.est_session_set_run_count(world._session, 0)
    if _default and _default[0]._session is None and lib.est_global_variables(_default[0].graph._c).n == 0:
        _default.clear()


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What is drawn in it is what a program draws that has this seed and has drawn nothing."""
    before, drawn = _seed[0], Counter(_draws)
    _seed[0] = c_seed(seed)
    _draws.clear()
    try:
        yield
    finally:
        _seed[0] = before
        _draws.clear()
        _draws.update(drawn)


def current_strategy() -> Any:
    stack = _local.__dict__.get("strategies")
    return stack[-1] if stack else None


def has_variables() -> bool:
    """Whether the program has made variables with values."""
    return any(lib.est_global_variables(world.graph._c).n > 0 for world in _default)


def current_world() -> World:
    """The world of what is made now: of the trace, of the strategy, or that of the process."""
    trace = current_trace()
    if trace is not None:
        return trace.world
    strategy = current_strategy()
    return strategy._world() if strategy is not None else default_world()


# --- traces -----------------------------------------------------------------------------------------------------------


class Trace:
    """A function that is being traced: what a run must feed, and what it must do beside computing results."""

    def __init__(self, world: World):
        self.world = world
        self.graph = world.graph
        self.pulls: list[tuple[Any, list[Node]]] = []  # iterators and the placeholders of their next elements
        self.targets: list[Node] = []
        self.written: dict[str, list[Node]] = {}  # by name of variable, writes of this trace
        self.late: list = []  # called after tracing
        self.rereads = False  # whether it reads what it has written
        self.effects: list[tuple] = []  # (nodes, function of their values): done by Python after every run

    def __enter__(self) -> "Trace":
        self._alone = self.world.alone()
        self._alone.__enter__()
        _local.__dict__.setdefault("traces", []).append(self)
        self._default = self.graph.as_default()
        self._default.__enter__()
        return self

    def __exit__(self, kind: Any, exception: Any, traceback: Any) -> None:
        try:
            _local.traces.pop()
            self._default.__exit__(kind, exception, traceback)
            if kind is not None:
                lib.est_graph_recover(self.graph._c)
            for function in self.late:
                function()
        finally:
            self._alone.__exit__(None, None, None)

    def add_write(self, names: Sequence[str], operation: Node) -> None:
        self.targets.append(operation)
        for name in names:
            self.written.setdefault(name, []).append(operation)

    def pull(self, iterator: Any, spec: Any) -> Any:
        """Placeholders for the next element of an iterator."""
        from . import _structure
        leaves = _structure.flatten(spec)
        if any(getattr(leaf, "ragged", False) for leaf in leaves):
            raise NeedsValue("an iterator over VarLenFeatures is read outside of functions that are traced")
        nodes = [self.graph.placeholder(None, leaf.dtype, leaf.shape) for leaf in leaves]
        self.pulls.append((iterator, nodes))
        return _structure.pack_as(spec, nodes)


def current_trace() -> Trace | None:
    """The trace that builds now; None also in the function of a map within it, which has a graph of its own."""
    stack = _local.__dict__.get("traces")
    return stack[-1] if stack and default_graph() is stack[-1].graph else None


def enter_thread(trace: Trace, strategies: list, replica: Any) -> None:
    """Makes a thread that C has started a part of a trace."""
    _local.traces = [trace]
    _local.strategies = list(strategies)
    _local.replica = replica


def replica_context() -> Any:
    return _local.__dict__.get("replica")


def set_replica_context(context: Any) -> None:
    _local.replica = context


def strategies() -> list:
    return _local.__dict__.setdefault("strategies", [])


def updates_of(graph: Graph) -> int:
    return lib.est_update_ops(graph._c).n


def take_updates(graph: Graph, before: int) -> None:
    """What layers must do in every training step (moving averages) becomes a part of the trace."""
    trace = current_trace()
    if trace is None or trace.graph is not graph:
        return
    span = lib.est_update_ops(graph._c)
    for i in range(before, span.n):
        trace.targets.append(Node(graph, span.data[i]))


def name_scopes() -> list:
    """The names of tf.name_scope around what is made now, outside of graphs and in functions."""
    return _local.__dict__.setdefault("scopes", [])


@contextlib.contextmanager
def enter_scope(name: str) -> Iterator[list]:
    """A name below those around, the whole path if it ends with "/", or none if it is empty. In a function that is
    traced the second one of a name is name_1."""
    scopes = name_scopes()
    before, seen = list(scopes), _local.__dict__.get("seen_scopes")
    if not name or name.endswith("/"):
        scopes[:] = [name[:-1]] if name else []
    else:
        own, number = name, 0
        while seen is not None and tuple(before + [own]) in seen:
            number += 1
            own = f"{name}_{number}"
        scopes.append(own)
        if seen is not None:
            seen.add(tuple(scopes))
    try:
        yield scopes
    finally:
        scopes[:] = before


@contextlib.contextmanager
def scopes_of_function(traced: bool) -> Iterator[None]:
    """A function of the user begins without the scopes around its call."""
    before, seen = name_scopes(), _local.__dict__.get("seen_scopes")
    _local.scopes, _local.seen_scopes = [], set() if traced else None
    try:
        yield
    finally:
        _local.scopes, _local.seen_scopes = before, seen


# --- variables --------------------------------------------------------------------------------------------------------


def _initial(node: Node) -> np.ndarray:
    """The value of a tensor of the function that is traced, which must not depend on the arguments: in every later call
    the variable is there."""
    trace = current_trace()
    if node.graph.is_sketch or trace is not None and trace.graph is node.graph:
        try:
            if node.graph.is_sketch:
                with Session(node.graph, threads=1, devices=["/cpu:0"]) as session:
                    return as_array(session.run(node))
            return trace.world.prepare([], [node], []).run([])[0]
        except OpError as error:
            if "must be fed" not in str(error):
                raise
    raise ValueError("the initial value of a tf.Variable depends on arguments of the function that is traced; compute "
                     "it from numbers, or make the variable outside")


def on_own_lines(text: str) -> str:
    """The rows of a value below each other, as TensorFlow prints them."""
    return "\n" + text if "\n" in text else text


def shown(value: np.ndarray) -> str:
    """A value as the repr of tensors and variables has it; numpy 2 writes np.float32(1.0) for a scalar."""
    return on_own_lines(repr(value) if value.ndim else str(value))


class _Made(type):
    """Lets the creators of tf.variable_creator_scope make variables."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        if not _creators.creating() or cls is not Variable:
            return super().__call__(*arguments, **named)
        given = {name: parameter.default for name, parameter in inspect.signature(cls.__init__).parameters.items()
                 if name != "self"}
        given.update(zip(given, arguments))
        return _creators.created(super().__call__, {**given, **named})


class Variable(metaclass=_Made):
    """tf.Variable: a value that steps change. Reads outside of functions copy it."""

    __array_priority__ = 95
    SaveSliceInfo = None
    is_state = False  # of a metric of the library
    trained_in: Any = None  # the network that has a newer value
    constraint: Callable | None = None  # what optimizers put it through after each update

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        graph = default_graph()
        if cls is Variable and graph is not None and graph.builds:  # within a tf.Graph: one of TensorFlow 1.x
            from .compat import v1
            return v1.Variable(*arguments, **named)
        return object.__new__(cls)

    def __init__(self, initial_value: Any = None, trainable: bool | None = None, validate_shape: bool = True,
                 caching_device: Any = None, name: str | None = None, variable_def: Any = None, dtype: Any = None,
                 import_scope: Any = None, constraint: Callable | None = None, synchronization: Any = None,
                 aggregation: Any = None, shape: Any = None):
        for given, what in ((caching_device, "caching_device"), (variable_def, "variable_def"),
                            (import_scope, "import_scope"),
                            (None if validate_shape else validate_shape, "validate_shape=False")):
            if given is not None:
                raise NotImplementedError(f"tf.Variable: {what} does not exist yet")
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if callable(initial_value):
            initial_value = initial_value()
        if isinstance(initial_value, Node):
            initial_value = _initial(initial_value)
        value = as_array(initial_value, dtype)
        if value.dtype == object:
            raise NotImplementedError("tf.Variable: a variable holds numbers; strings do not exist there yet")
        if shape is not None and tuple(shape) != value.shape:
            raise NotImplementedError(f"tf.Variable: a variable has the shape of its value, {value.shape}; shape="
                                      f"{shape} does not exist yet")
        graph = default_graph()
        graph = None if graph is not None and graph.is_sketch else graph
        world = current_world() if graph is None or getattr(graph, "world", None) is not None else None
        graph = world.graph if world is not None else graph
        with world.alone() if world is not None else contextlib.nullcontext():
            own_name = name or "Variable"
            keep = Keep()
            here()
            number = as_dtype(value.dtype)
            trainable = trainable is not False  # also an integer, which has no gradient
            handle = lib.est_weight(graph._c, keep.string(own_name), c_shape(value.shape), keep.options(
                "est_weight_options", dtype=number.number, frozen=not (trainable and number.is_floating),
                initializer=c_initializer(keep, lambda shape, dtype: value)))
            graph.check()
            self._bind(world, graph, handle, trainable, "/".join(name_scopes() + [own_name]))
        self.synchronization, self.aggregation, self.constraint = synchronization, aggregation, constraint

    def _bind(self, world: World | None, graph: Graph, handle: Any, trainable: bool, name: str | None = None) -> None:
        self._world = world
        self.graph = graph
        self._handle = _Handle(graph, handle)
        self._name = text(lib.est_node_name(self._handle._c))
        self._bytes = self._name.encode()
        self._shown = (name or self._name) + ":0"
        read = lib.est_read_variable(self._handle._c)
        graph.check()
        self._dtype = as_dtype(int(lib.est_node_dtype(read)))
        self._shape = Shape(py_shape(lib.est_node_shape(read)))
        self._trainable = trainable

    @classmethod
    def _of(cls, world: World | None, graph: Graph, handle: Any, trainable: bool) -> "Variable":
        """A variable that a layer has made."""
        variable = object.__new__(cls)
        variable._bind(world, graph, handle, trainable)
        variable.synchronization = variable.aggregation = None
        return variable

    @classmethod
    def _in(cls, world: World | None, value: Any, name: str, graph: Graph | None = None) -> "Variable":
        """A variable of a world, or of the graph of a model_fn, that is not trained."""
        keep, array = Keep(), as_array(value)
        number = as_dtype(array.dtype)
        graph = graph if world is None else world.graph
        with world.alone() if world is not None else contextlib.nullcontext():
            handle = lib.est_weight(graph._c, keep.string(name), c_shape(array.shape), keep.options(
                "est_weight_options", dtype=number.number, frozen=True,
                initializer=c_initializer(keep, lambda shape, dtype: array)))
            graph.check()
            variable = cls._of(world, graph, handle, False)
        variable._shown = name + ":0"
        return variable

    name = property(lambda self: self._shown)
    dtype = property(lambda self: self._dtype)
    shape = property(lambda self: self._shape)
    trainable = property(lambda self: self._trainable)
    ndim = property(lambda self: len(self._shape))

    @property
    def device(self) -> str:
        part = ffi.new("est_variable_part *")
        check(lib.est_session_variable_part(self._world.session(), self._bytes, 0, part))
        return text(part.device)

    def get_shape(self) -> Shape:
        return self._shape

    # --- reading ---

    def _as_node(self, graph: Graph) -> Node:
        """A read in a graph, after what the trace has written so far."""
        for watcher in watchers:
            watcher.append(self)
        if graph is not self.graph:
            if graph.is_sketch:
                return graph.placeholder(None, self._dtype, self._shape)
            if self._world is not None and getattr(graph, "world", None) is not None:
                raise OtherWorld(self._world)
            if getattr(graph, "twins", None) is not None:
                read = Node(graph, lib.est_read_variable(self.twin(graph)._handle._c))
                for write in (graph.writes or {}).get(self._name, ()):
                    lib.est_after(read._c, write._c)
                return read
            raise NotImplementedError(f"{self.name} belongs to another graph; functions of Dataset.map and model_fn "
                                      "cannot read variables of the program")
        here()
        node = Node(graph, lib.est_read_variable(self._handle._c))
        trace = current_trace()
        for write in (trace.written.get(self._name, ()) if trace is not None else ()):
            lib.est_after(node._c, write._c)
            trace.rereads = True
        graph.check()
        return node

    @property
    def _c(self) -> Any:
        """The handle, for optimizers of a model_fn; there of what stands for the variable."""
        graph = default_graph()
        if graph is None or graph is self.graph or getattr(graph, "twins", None) is None:
            return self._handle._c
        return self.twin(graph)._handle._c

    def twin(self, graph: Graph) -> "Variable":
        """The variable that stands for this one in the graph of a network or of a model_fn."""
        found = graph.twins.get(id(self))
        if found is None:
            network = None if graph.network is None else graph.network()
            trainable = self._trainable and (network is None or network.may_train(self))
            keep = Keep()
            name = keep.string(self._name.rsplit("/", 1)[-1])  # below the scope of the layer that is called
            handle = lib.est_weight(graph._c, name, c_shape(self._shape), keep.options(
                "est_weight_options", dtype=self._dtype.number,
                frozen=not (trainable and self._dtype.is_floating),
                initializer=c_initializer(keep, lambda shape, dtype: self._world.read(self._bytes))))
            graph.check()
            found = Variable._of(None, graph, handle, trainable)
            graph.twins[id(self)] = found
            graph.twin_of[id(found)] = self
        return found

    def numpy(self) -> np.ndarray:
        if current_trace() is not None:
            raise NotImplementedError(f"numpy() of {self.name} is not available within a tf.function")
        value = self._world.read(self._bytes) if self._world is not None else None
        if value is None:
            raise NotImplementedError(f"{self.name} belongs to a graph; a session has its value")
        return value[()] if value.ndim == 0 else value.copy()

    def _array(self) -> np.ndarray:
        return self._world.read(self._bytes)

    def value(self) -> Any:
        from ._eager import Tensor, read, tapes
        graph = default_graph()
        if graph is not None or self._world is None:
            return self._as_node(graph if graph is not None else self.graph)
        return read(self) if tapes() else Tensor(self._array())

    read_value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype)

    def __bool__(self) -> bool:
        return bool(self.value())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __index__(self) -> int:
        return int(self.numpy())

    def __iter__(self):
        return iter(self.value())

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        head = f"<tf.Variable '{self.name}' shape={tuple(self._shape)} dtype={self._dtype.name}"
        if self._world is None or current_trace() is not None:
            return head + ">"
        return f"{head}, numpy={shown(self._array())}>"

    __hash__ = object.__hash__

    # --- writing ---

    def _write(self, function: str, value: Any, read_value: bool) -> Any:
        from ._eager import unwrap
        trace = current_trace()
        if trace is None and self._world is not None:
            graph = default_graph()
            if graph is not None and graph.writes is not None:
                return self._write_to_file(graph, function, value)
            if graph is not None and graph.is_sketch and not getattr(graph, "is_building", False):
                return self  # by a call that nobody runs
            network = None if graph is None or graph.network is None else graph.network()
            if network is not None:
                return self._write_in_network(graph, network)
            return self._write_now(function, value)
        graph = trace.graph if trace is not None else self.graph
        if graph is not self.graph:
            raise OtherWorld(self._world)
        from ..graph import as_node
        here()
        value = value._as_node(graph) if isinstance(value, Variable) else unwrap(value)
        node = as_node(value, graph, self._dtype)
        before = list(trace.written.get(self._name, ())) if trace is not None else []
        operation = self._replica_write(function, node) if replica_context() is not None else None
        if operation is None:
            operation = Node(graph, getattr(lib, function)(self._handle._c, node._c))
        for write in before:
            lib.est_after(operation._c, write._c)
        graph.check()
        if trace is not None:
            trace.add_write([self._name], operation)
        return self if trace is not None else operation

    def _write_in_network(self, graph: Graph, network: Any) -> "Variable":
        """A write in the call of a model while C builds it. One that nobody runs, for shapes, is left out."""
        if not graph.only_shapes:
            raise NotImplementedError(f"{self.name}: a function assigns to it in each call of the model, which the steps of C do "
                                      "not do: assign in `call` itself or in a method of the layer, or override train_step "
                                      "(return super().train_step(data)), test_step and predict_step alike")
        network.has_writes = True
        return self

    def _write_to_file(self, graph: Graph, function: str, value: Any) -> "Variable":
        """A write in a graph of functions that are saved."""
        from ..graph import as_node
        from ._eager import unwrap
        node = as_node(unwrap(value), graph, self._dtype)
        before = graph.writes.setdefault(self._name, [])
        operation = Node(graph, getattr(lib, function)(self.twin(graph)._handle._c, node._c))
        for write in before:
            lib.est_after(operation._c, write._c)
        graph.check()
        before.append(operation)
        return self

    def _replica_write(self, function: str, node: Node) -> Node | None:
        """In a replica: aggregates what all replicas write, by the variable's aggregation."""
        context = replica_context()
        if context.num_replicas_in_sync == 1:
            return None
        return context._write(self, function, node)

    def _write_now(self, function: str, value: Any) -> "Variable":
        from ._eager import unwrap
        new = as_array(unwrap(value), self._dtype)
        with self._world.alone():  # the sum of what several threads add
            return self._write_new(function, new)

    def _write_new(self, function: str, new: np.ndarray) -> "Variable":
        if function != "est_assign":
            old = self._array()
            new = old + new if function == "est_assign_add" else old - new
            new = np.asarray(new, old.dtype)
        if new.shape != tuple(self._shape):
            raise ValueError(f"Cannot assign value to variable '{self.name}': Shape mismatch.The variable shape "
                             f"{tuple(self._shape)}, and the assigned value shape {new.shape} are incompatible.")
        self._world.write(self._bytes, new, self._dtype)
        return self

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._write("est_assign", value, read_value)

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        return self._write("est_assign_add", delta, read_value)

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        return self._write("est_assign_sub", delta, read_value)


def new_variables(graph: Graph, world: World | None, first: int) -> list[Variable]:
    """Variables that joined the graph since it had `first` of them."""
    span = lib.est_global_variables(graph._c)
    if span.n == first:
        return []
    handles = [ffi.new("est_node *", span.data[i])[0] for i in range(first, span.n)]
    trained = lib.est_trainable_variables(graph._c)
    trainable = {trained.data[i].id for i in range(trained.n)}
    return [Variable._of(world, graph, handle, handle.id in trainable) for handle in handles]


def count_variables(graph: Graph) -> int:
    return lib.est_global_variables(graph._c).n
