# SPDX-License-Identifier: Apache-2.0
"""Graphs, their nodes and sessions that run them.

    graph = estoc.Graph()
    x = graph.placeholder("x", estoc.float32, [None, 3])
    y = estoc.ops.reduce_sum(x * x, axis=1)
    with estoc.Session(graph) as session:
        print(session.run(y, {x: array}))
"""
from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from typing import Any, Iterator, Sequence

import numpy as np

from . import _nest
from ._lib import NULL, Handle, Keep, check, fail, ffi, here, lib, owned, text
from ._shape import Shape
from ._tensor import DType, array_like, as_array, as_dtype, bool_, c_shape, float32, float64, int32, int64, py_shape
from ._tensor import string, take_tensor, to_array, to_tensor, uint8

RESOURCE = 20  # the type of a variable's handle, which is no value

_default = threading.local()
_root: "Graph | None" = None


def default_graph() -> "Graph | None":
    """The innermost graph of Graph.as_default; that of the model within a model_fn; the one of set_root_graph. None:
    there is none, or no_graph is innermost."""
    stack = _default.__dict__.get("stack")
    return stack[-1] if stack else _root


@contextlib.contextmanager
def no_graph() -> Iterator[None]:
    """Operations on values compute at once within, also where a graph is the default one."""
    stack = _default.__dict__.setdefault("stack", [])
    stack.append(None)
    try:
        yield
    finally:
        stack.pop()


def set_root_graph(graph: "Graph | None") -> None:
    """The graph that is the default one outside of all others, in every thread."""
    global _root
    _root = graph


#: Graphs that outlive a failure, by address: what their initializers raise does not poison them, since the variable
#: stays.
lasting: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Graph:
    """Operations that sessions run. A failure to build one raises at once and leaves the graph unusable, as in C."""

    #: whether operations on values alone are built too, and not computed at once
    builds = False
    #: whether it only says what shapes functional models of Keras have: variables are elsewhere
    is_sketch = False
    program: "Graph | None" = None  # of TensorFlow 1.x or a model_fn, which makes a model by such a graph
    only_shapes = False  # nobody runs what is built now: a loop over an unknown number of steps may have one
    has_guesses = False  # such a loop is in it
    #: of a graph that is written to a file: what changes variables in the function that is traced, by their names
    writes: "dict[str, list[Node]] | None" = None
    network: Any = None  # of the network of a model of Keras: a weak reference to it
    variable_suffix = ""  # of names of variables: ":0" in a model_fn of TensorFlow, where they are names of tensors

    def __init__(self, seed: int = 0, _borrowed: Any = None):
        self._after: list[Node] = []
        self._devices: list[Any] = []
        self._nodes: weakref.WeakSet | None = None
        self.raised: BaseException | None = None  # by an initializer; the next check raises it
        self.keep = Keep()  # what callbacks of this graph need
        self._holder: list = []  # that has this graph, while C has it
        self.masks: dict = {}  # of results of layers, by node and output
        self.logits: dict = {}  # what layers have given to an activation at their end, by its result
        if _borrowed is not None:
            self._c = _borrowed
            self._nodes = weakref.WeakSet()
            return
        out = ffi.new("est_graph **")
        check(lib.est_graph_create(seed, out))
        self._c = owned(out[0], "est_graph_free")

    @contextlib.contextmanager
    def as_default(self) -> Iterator["Graph"]:
        """Makes this the graph of functions that have no node to tell them; one for each thread."""
        stack = _default.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            yield self
        finally:
            stack.pop()

    def _kept_in(self, holder: list) -> None:
        """Of a graph of C: stays in the list, and can be used, until C frees it."""
        self._handle, self._holder = Handle(weakref.ref(self)), holder
        holder.append(self)
        lib.est_graph_keep(self._c, lib.py_on_graph_freed, self._handle.pointer)

    def _close(self) -> None:
        """Of a graph of C that is about to go: its nodes stand for none from now on."""
        for node in list(self._nodes or ()):
            node._c.graph = NULL
        self._c = None
        for i, graph in enumerate(self._holder):
            if graph is self:
                del self._holder[i]
                break

    def check(self) -> None:
        """Raises the first failure of an operation."""
        if self.raised is not None:
            exception, self.raised = self.raised, None
            raise exception
        if self._c is None:
            raise RuntimeError("the graph of a model exists only during the call of the estimator that built it")
        status = lib.est_graph_status(self._c)
        if status != 0:
            check(status)

    def node(self, c_node: Any) -> "Node":
        """A node that C built."""
        self.check()
        return self._made(c_node)

    def _made(self, c_node: Any) -> "Node":
        return Node(self, c_node)

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of operations made within start with "name/". A name that ends with "/", or is empty, is the whole
        scope, and may have been used before."""
        if name == "" or name.endswith("/"):
            lib.est_scope_enter(self._c, name.rstrip("/").encode())
        else:
            lib.est_scope_push(self._c, name.encode())
        try:
            yield
        finally:
            lib.est_scope_pop(self._c)

    @contextlib.contextmanager
    def after(self, nodes: "Sequence[Node] | None") -> Iterator[None]:
        """Operations made within run after these, and after those of outer calls; None: after none at all."""
        before = self._after
        self._after = [] if nodes is None else before + [_read(node) for node in nodes]
        self._order()
        try:
            yield
        finally:
            self._after = before
            self._order()

    def _order(self) -> None:
        keep = Keep()
        lib.est_graph_after(self._c, keep.span("est_nodes", "est_node", [node._c for node in self._after]))

    @contextlib.contextmanager
    def device(self, device: Any) -> Iterator[None]:
        """Pins the operations made within: parts of "/job:ps/task:0/device:CPU:0", which win over those of outer calls;
        a function of an operation (with type, name and device) that returns such a text; or None: anywhere."""
        self._devices.append(device)
        try:
            self._place()
            yield
            self.check()  # asks a device function for the last operation
        finally:
            self._devices.pop()
            self._place()

    def _place(self) -> None:
        parts: dict[str, str] = {}
        function = None
        for device in self._devices:
            if device is None:
                parts, function = {}, None
            elif isinstance(device, str):
                parts.update(device_parts(device))
            else:
                function = device
        lib.est_graph_device(self._c, "".join(parts[key] for key in _DEVICE_PARTS if key in parts).encode())
        if function is None:
            lib.est_graph_device_fn(self._c, NULL, NULL)
        elif isinstance(function, ReplicaDevices):
            function._set(self)
        else:
            handle = Handle(_DeviceFunction(self, function))
            self.keep.append(handle)
            lib.est_graph_device_fn(self._c, lib.py_on_device, handle.pointer)

    def variable(self, name: str, shape: Sequence[int], dtype: Any = float32, initializer: Any = None,
                 trainable: bool = True, regularizer: Any = None) -> "Variable":
        """A variable of exactly this name, made unique, whatever the scope; known to optimizers and savers."""
        from .initializers import c_initializer, c_regularizer

        here()
        keep = self.keep
        with self.scope(""):
            handle = lib.est_weight(self._c, keep.string(name), c_shape(shape), keep.options(
                "est_weight_options", dtype=as_dtype(dtype).number, initializer=c_initializer(keep, initializer),
                regularizer=c_regularizer(keep, regularizer), frozen=not trainable))
        self.check()
        return self._variable(handle)

    def local_variable(self, name: str, shape: Sequence[int], dtype: Any = float32) -> "Variable":
        """A variable that starts at 0 and is in no checkpoint."""
        here()
        keep = Keep()
        with self.scope(""):
            handle = lib.est_metric_state(self._c, keep.string(name), as_dtype(dtype).number, c_shape(shape))
        self.check()
        return self._variable(handle)

    def needs(self, nodes: "Sequence[Node]", on: "Node") -> bool:
        """Whether one of the nodes can be computed only after `on`."""
        keep = Keep()
        return bool(lib.est_nodes_need(keep.span("est_nodes", "est_node", [node._c for node in nodes]), on._c))

    def placeholder(self, name: str | None, dtype: Any, shape: Sequence[int | None] | None = None) -> "Node":
        """A value that every run must feed."""
        here()
        keep = Keep()
        return self.node(lib.est_placeholder(self._c, keep.string(name), as_dtype(dtype).number, c_shape(shape)))

    def constant(self, value: Any, dtype: Any = None) -> "Node":
        """A constant; the values are copied."""
        here()
        return self.node(lib.est_const(self._c, to_tensor(value, dtype)))

    def dataset_of(self, result: Any) -> Any:
        """What an input_fn means that returned nodes of this graph."""
        raise TypeError("input_fn returned nodes of a graph; it returns a dataset, or arrays of features and labels")

    def find(self, name: str) -> "Node | None":
        """Output 0 of the operation of that name."""
        node = lib.est_graph_find(self._c, name.encode())
        return None if node.graph == NULL else self._made(node)

    def _variable(self, c_node: Any) -> "Variable":
        return Variable(self, c_node)

    def _collection(self, which: str) -> list[Any]:
        span = getattr(lib, which)(self._c)
        return [span.data[i] for i in range(span.n)]

    def _variables(self, which: str) -> list["Variable"]:
        return [self._variable(c_node) for c_node in self._collection(which)]

    @property
    def trainable_variables(self) -> list["Variable"]:
        return self._variables("est_trainable_variables")

    @property
    def global_variables(self) -> list["Variable"]:
        return self._variables("est_global_variables")

    @property
    def local_variables(self) -> list["Variable"]:
        return self._variables("est_local_variables")

    @property
    def global_step(self) -> "Variable":
        """The variable that counts training steps."""
        here()
        return self._variable(lib.est_global_step(self._c))


_DEVICE_PARTS = ("job", "replica", "task", "device")


def device_parts(device: str) -> dict[str, str]:
    """The parts of a device by what they say; C checks them."""
    parts = {}
    for part in filter(None, device.split("/")):
        key = part.split(":", 1)[0].lower()
        if key in ("cpu", "gpu"):  # "cpu", "GPU:1"
            part = f"device:{part.upper()}" + ("" if ":" in part else ":0")
        parts["device" if key in ("cpu", "gpu") else key] = "/" + part
    unknown = sorted(set(parts) - set(_DEVICE_PARTS))
    if unknown:
        raise ValueError(f"{device!r} is no device: {unknown[0]!r} is none of {', '.join(_DEVICE_PARTS)}")
    return parts


class ReplicaDevices:
    """A device function: variables go to ps tasks, all else to a worker. See est_replica_device_setter."""

    def __init__(self, ps_tasks: int = 0, worker_device: str = "/job:worker", cluster: Any = None,
                 by_bytes: bool = False):
        self._options = {"ps_tasks": ps_tasks, "by_bytes": by_bytes}
        self._worker, self._cluster = worker_device, cluster

    def _set(self, graph: Graph) -> None:
        keep = graph.keep
        cluster = NULL if self._cluster is None else self._cluster._c()
        keep.append(cluster)
        lib.est_replica_device_setter(graph._c, keep.options(
            "est_device_setter_options", worker_device=keep.string(self._worker), cluster=cluster, **self._options))


class _DeviceFunction:
    """What C asks for the device of an operation, with the text that it returned last."""

    def __init__(self, graph: Graph, function: Any):
        self.graph = weakref.ref(graph)
        self.function = function
        self.result: Any = NULL


class PlacedOperation:
    """What a device function is given."""

    def __init__(self, name: str, op_type: str, device: str):
        self.name, self.type, self.device = name, op_type, device


@ffi.def_extern(name="py_on_graph_freed")
def _on_graph_freed(pointer: Any) -> None:
    """Nobody may look at the nodes of a graph that C has freed, such as a model_fn has kept."""
    handle = Handle._objects.get(int(ffi.cast("uintptr_t", pointer)))
    graph = handle.value() if handle is not None else None
    if graph is not None:
        graph._close()


@ffi.def_extern(name="py_on_device", error=NULL)
def _on_device(node: Any, op: Any, device: Any, user: Any) -> Any:
    own = Handle.get(user)
    try:
        result = own.function(PlacedOperation(text(lib.est_node_name(node)), text(op), text(device)))
        own.result = NULL if result is None else ffi.new("char[]", str(result).encode())
    except BaseException as exception:  # noqa: B036 - comes out of graph.check
        lib.est_graph_poison(node.graph, fail(exception))
        own.result = NULL
    return own.result


def merged_shape(known: Any, more: Any) -> tuple:
    """Both shapes as one; a ValueError if they are not of one value."""
    more = tuple(None if size is None or int(size) < 0 else int(size) for size in more)
    if known is None:
        return more
    if len(known) != len(more) or any(a is not None and b is not None and a != b for a, b in zip(known, more)):
        raise ValueError(f"Shapes {tuple(known)} and {more} are incompatible")
    return tuple(b if a is None else a for a, b in zip(known, more))


def _of_package(name: str) -> str:
    """The name of an operation in what the program has imported."""
    where = "tf" if DType.package == "tf" else "estoc.ops"
    return f"{where}.{name}" if name else where


class NeedsValue(TypeError):
    """Python wants to decide by what has no value while a graph is built."""


class NeedsSteps(NeedsValue, NotImplementedError):
    """A loop over time, which is unrolled, where the number of steps is not known."""


class Node:
    """One output of an operation. Operators build further operations; a node has no value before a session runs it."""

    __array_priority__ = 100
    __slots__ = ("graph", "_c", "__weakref__")

    def __init__(self, graph: Graph, c_node: Any):
        self.graph = graph
        self._c = ffi.new("est_node *", c_node)[0]  # a copy: the original may be part of an array or a struct
        if graph._nodes is not None:
            graph._nodes.add(self)

    @property
    def name(self) -> str:
        return text(lib.est_node_name(self._c))

    @property
    def op(self) -> "Node":
        """The operation that makes it: the node itself, which has its name."""
        return self

    @property
    def dtype(self) -> DType:
        number = int(lib.est_node_dtype(self._c))
        if number == 0:
            self.graph.check()
            raise TypeError(f"{self.name} is an operation without a value; Session.run runs it")
        return as_dtype(number)

    @property
    def shape(self) -> Shape | None:
        """None: not even the rank is known."""
        shape = py_shape(lib.est_node_shape(self._c))
        return None if shape is None else Shape(shape)

    def set_shape(self, shape: Any) -> None:
        """Tells what is known of the shape beyond what the graph knows; a value of another shape is then an error."""
        from .ops import reshape
        if shape is None:
            return
        known = merged_shape(self.shape, shape)
        if known != self.shape and sum(size is None for size in known) <= 1:  # a reshape can say no more
            self._c = reshape(Node(self.graph, self._c), [-1 if size is None else size for size in known])._c

    def get_shape(self) -> Shape | None:
        return self.shape

    def named(self, name: str) -> "Node":
        """Gives the operation a name; returns the node."""
        return self.graph.node(lib.est_named(self._c, name.encode()))

    def after(self, other: "Node") -> "Node":
        """Runs this operation only after that of `other`; returns this node."""
        return self.graph.node(lib.est_after(self._c, other._c))

    def __repr__(self) -> str:
        number = int(lib.est_node_dtype(self._c))
        kind = as_dtype(number).name if number in (1, 2, 3, 4, 7, 9, 10) else None
        return f"<estoc.{type(self).__name__} {self.name!r} shape={self.shape} dtype={kind}>"

    def __bool__(self) -> bool:
        raise NeedsValue(f"{self.name} has no value while the graph is built, so Python cannot branch on it; use "
                         f"{_of_package('where')}")

    def __iter__(self):
        raise NeedsValue(f"{self.name} has no value while the graph is built, so Python cannot iterate over it; use "
                         f"{_of_package('unstack')}")

    def __len__(self):
        raise TypeError(f"len() of {self.name} is not known while the graph is built; use {_of_package('size')}")

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError(f"{self.name} has no value while the graph is built, so numpy cannot use it; use the "
                                  f"functions of {_of_package('')}")

    def __float__(self):
        raise NeedsValue(f"{self.name} has no value while the graph is built")

    __int__ = __index__ = __float__
    __hash__ = object.__hash__


@dataclasses.dataclass
class RaggedNode:
    """A feature with rows of unequal length."""

    values: Node
    splits: Node

    dtype = property(lambda self: self.values.dtype)

    @staticmethod
    def of(value: Any) -> Any:
        """The same for a ragged tensor of estoc.tf; anything else stays."""
        return value._ragged_node() if hasattr(value, "_ragged_node") else value


class Variable(Node):
    """A variable's handle. `value()` and operators read it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._name + self.graph.variable_suffix

    @property
    def _name(self) -> str:
        """The name in checkpoints."""
        return text(lib.est_node_name(self._c))

    @property
    def op(self) -> Node:
        return Node(self.graph, self._c)

    def value(self) -> Node:
        here()
        return self.graph.node(lib.est_read_variable(self._c))

    read_value = value

    @property
    def dtype(self) -> DType:
        return Node(self.graph, lib.est_read_variable(self._c)).dtype

    @property
    def shape(self) -> Shape | None:
        shape = py_shape(lib.est_node_shape(lib.est_read_variable(self._c)))
        return None if shape is None else Shape(shape)

    def assign(self, value: Any) -> Node:
        """The update, to be run."""
        here()
        return self.graph.node(lib.est_assign(self._c, as_node(value, self.graph, self.dtype)._c))

    def load(self, value: Any, session: Any) -> None:
        """Sets it in a session, at once."""
        session._write(self, value)

    def assign_add(self, value: Any) -> Node:
        here()
        return self.graph.node(lib.est_assign_add(self._c, as_node(value, self.graph, self.dtype)._c))

    def assign_sub(self, value: Any) -> Node:
        here()
        return self.graph.node(lib.est_assign_sub(self._c, as_node(value, self.graph, self.dtype)._c))


def _read(node: Node) -> Node:
    return node.value() if isinstance(node, Variable) else node


def as_node(value: Any, graph: Graph, like: DType | None = None) -> Node:
    """A node for a node, a variable, a number or an array, which take the dtype `like` if they fit."""
    if isinstance(value, Variable):
        return value.value()
    if isinstance(value, Node):
        graph.check()
        if value.graph._c != graph._c:
            raise ValueError(f"{value.name} belongs to another graph")
        return value
    if hasattr(value, "_as_node"):  # a variable of a program in the style of TensorFlow 2
        return value._as_node(graph)
    if value is None:
        raise TypeError("a tensor is needed, None was given")
    if isinstance(value, (list, tuple)) and any(isinstance(item, Node) for item in value):
        from . import ops
        return ops.stack(value)
    if like is None or like is string:
        return graph.constant(value)
    return graph.constant(array_like(value, np.dtype(like.as_numpy_dtype)))


# --- sessions ---------------------------------------------------------------------------------------------------------


class Session:
    """Runs a graph and owns its variables; with a target (Server.target) the tasks of that cluster do. It computes on
    the first GPU, if there is one, unless `devices` are others: ["/gpu:1"], ["/cpu:0"]. One thread at a time."""

    def __init__(self, graph: Graph, threads: int = 0, seed: int = 0, check_numerics: bool = False,
                 target: str | None = None, connect_secs: float = 0, devices: Sequence[str] = (),
                 no_soft_placement: bool = False, log_device_placement: bool = False, no_tf32: bool = False,
                 device_memory_limit: int = 0):
        self.graph = graph
        keep = Keep()
        out = ffi.new("est_session **")
        graph.check()
        check(lib.est_session_create(graph._c, keep.options(
            "est_session_options", threads=threads, seed=seed, check_numerics=check_numerics,
            target=keep.string(target or None), connect_secs=connect_secs, devices=keep.strings(devices),
            no_soft_placement=no_soft_placement, log_device_placement=log_device_placement, no_tf32=no_tf32,
            device_memory_limit=device_memory_limit), out))
        self._c = owned(out[0], "est_session_free", parents=(graph,))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def close(self) -> None:
        """Frees the session with its variables."""
        if self._c is not None:
            ffi.release(self._c)
            self._c = None

    def init(self) -> None:
        """Runs the initializers of variables that have no value yet."""
        check(lib.est_session_init(self._session()))

    def _session(self) -> Any:
        if self._c is None:
            raise RuntimeError("the session is closed")
        return self._c

    def run(self, fetches: Any, feeds: dict[Node, Any] | None = None, targets: Sequence[Node] = ()) -> Any:
        """The values of `fetches` (a node, or a dict or tuple of nodes) as arrays. Operations without an output are run
        and give None. `targets` are only run."""
        nodes = [_read(node) for node in _nest.flatten(_tuple(fetches))]
        return _nest.pack(_nest.structure(_tuple(fetches)), self._run(nodes, feeds or {}, targets))

    def _run(self, nodes: list[Node], feeds: dict[Node, Any], targets: Sequence[Node] = ()) -> list[Any]:
        self.graph.check()
        return run_nodes(lib.est_session_run, self._session(), nodes, feeds, targets)

    def read(self, variable: str | Variable) -> np.ndarray:
        """The value of a variable."""
        name = variable if isinstance(variable, str) else variable._name
        out = ffi.new("est_tensor **")
        check(lib.est_session_read(self._session(), name.encode(), out))
        return to_array(take_tensor(out[0]))

    def write(self, variable: str | Variable, value: Any) -> None:
        """Sets a variable."""
        name = variable if isinstance(variable, str) else variable._name
        check(lib.est_session_write(self._session(), name.encode(), to_tensor(value, copy=False)))

    @property
    def variables(self) -> list[str]:
        """The names of all variables."""
        session = self._session()
        return [text(lib.est_session_variable(session, i)) for i in range(lib.est_session_variables(session))]


def run_nodes(function: Any, session: Any, nodes: list[Node], feeds: dict[Node, Any],
              targets: Sequence[Node] = ()) -> list[Any]:
    """The values of nodes by est_session_run, or a function like it; None for operations without a value."""
    keep = Keep()
    has_value = [int(lib.est_node_dtype(node._c)) not in (0, RESOURCE) for node in nodes]
    values = [node for node, has in zip(nodes, has_value) if has]
    run = [node._c for node, has in zip(nodes, has_value) if not has] + [node._c for node in targets]
    fed = []
    for node, value in feeds.items():
        tensor = to_tensor(value, node.dtype, copy=False)
        keep.append(tensor)
        fed.append({"node": node._c, "value": tensor})
    out = ffi.new("est_tensor *[]", max(len(values), 1))
    check(function(session, keep.span("est_feeds", "est_feed", fed),
                   keep.span("est_nodes", "est_node", [node._c for node in values]),
                   keep.span("est_nodes", "est_node", run), out))
    arrays = iter([to_array(take_tensor(out[i])) for i in range(len(values))])
    return [next(arrays) if has else None for has in has_value]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


__all__ = ["Graph", "Node", "Session", "Shape", "Variable", "as_array", "bool_", "float32", "float64", "int32", "int64",
           "string", "uint8"]
