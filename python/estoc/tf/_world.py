# SPDX-License-Identifier: Apache-2.0
"""Worlds, their steps, and the seeds of what they draw.

A world is one graph and one session, which have the variables of programs in the style of TensorFlow 2. Functions are
traced into the graph of a world, each as a step of its own. There is one for everything in this process, and one for
each strategy whose variables are elsewhere.
"""
from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .._lib import Keep, SharedSet, c_seed, check, ffi, lib, owned
from .._tensor import DType, as_array, as_dtype, copy_values, string, take_tensor, to_array, to_tensor
from ..graph import Graph, Node, lasting
from . import _devices
from ._trace import current_strategy, current_trace, local

_NOTHING = contextlib.nullcontext()
recorders = SharedSet()  # tapes that record, or whose records may be asked for derivatives
writes = [0]  # how often variables were written
restorations: list = []  # checkpoints with values for variables that may not exist yet (_checkpoint.py)


def before_write(world: "World", names: Callable[[], Sequence[bytes] | None]) -> None:
    """Tapes keep the values of the variables of these names; None: it is not known which are written."""
    if recorders:
        known = names()
        values = None if known is None else {(world, name): world.read(name) for name in known}
        for tape in recorders:
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


class Trained(SharedSet):
    """Networks that have newer values than the session of a world; each lives as long as a variable that it has."""

    def add(self, network: Any) -> None:
        if network not in self:
            super().add(network)
            network.hold()

    def discard(self, network: Any) -> None:
        super().discard(network)
        network.let_go()


class World:
    """A graph and its session. Threads of a program use one world at the same time; who needs several of these locks
    takes them in this order:

    1. that of a model while its network is used (keras/_model.py, _use_lock);
    2. that of a world: the graph grows, is listed, or runs (alone);
    3. that of the graph in which functional models find out shapes (keras/_symbolic.py, _sketch);
    4. that of operations that compute at once (_eager.py, _lock);
    5. those behind which nothing is locked: of names (keras/_calling.py, _counting), of the world of the process
       (_choosing) and of sets of weak references (SharedSet).

    functools.cached_property has a lock of its own around what it computes, and must not compute with any of these."""

    def __init__(self, seed: int = 0):
        self.graph = numbered(Graph(seed))
        self.graph.world = self
        lasting[int(ffi.cast("uintptr_t", self.graph._c))] = self.graph
        self.version = 0  # grows with every write of variables
        self.trained = Trained()
        self.apart: set[bytes] = set()  # names of variables that no network has
        self._session: Any = None
        self._known = -1  # variables that have values
        self._lock = threading.RLock()  # guards the graph and the session

    def alone(self) -> Any:
        """Around what changes or lists the graph, or uses the session: other threads of the program wait. A trace has the
        world for itself, with the threads of its replicas."""
        return _NOTHING if local.__dict__.get("traces") else self._lock

    # --- the session ---

    def _create_session(self) -> Any:
        keep, out = Keep(), ffi.new("est_session **")
        check(lib.est_session_create(self.graph._c, keep.options(
            "est_session_options", **_devices.members(keep, _devices.options())), out))
        return owned(out[0], "est_session_free", parents=(self.graph,))

    def session(self) -> Any:
        """The session, in which all variables have values."""
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
                for network in self.trained:
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

    of_process = False  # it is, or was, that of what no strategy has
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
_choosing = threading.Lock()  # guards it; nothing else is locked behind it


def default_world() -> World:
    """The world of this process."""
    with _choosing:
        if not _default:
            _default.append(World(_seed[0]))
            _default[0].of_process = True
        return _default[0]


def has_session() -> bool:
    """Whether the devices of functions are settled."""
    return any(world._session is not None for world in list(_default))


def new_world() -> None:
    """Variables from now on are in another world. One goes with the last reference to its variables and functions."""
    if current_trace() is None:
        with _choosing:
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
    for world in list(_default):
        lib.est_graph_set_seed(world.graph._c, _seed[0])
        if world._session is not None:
            lib.est_session_set_seed(world._session, _seed[0])
            lib.est_session_set_run_count(world._session, 0)
    if not has_session() and not has_variables():
        new_world()


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


def has_variables() -> bool:
    """Whether the program has made variables with values."""
    for world in list(_default):
        with world.alone():
            if lib.est_global_variables(world.graph._c).n > 0:
                return True
    return False


def current_world() -> World:
    """The world of what is made now: of the trace, of the strategy, or that of the process."""
    trace = current_trace()
    if trace is not None:
        return trace.world
    strategy = current_strategy()
    return strategy._world() if strategy is not None else default_world()
