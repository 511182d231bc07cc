# SPDX-License-Identifier: Apache-2.0
"""Graphs of tf.compat.v1: an estoc.Graph whose nodes have the names and attributes of TensorFlow's tensors, operations
and variables."""
from __future__ import annotations

import contextlib
import re
import sys
import threading
import weakref
from typing import Any, Iterator, Sequence

import numpy as np

from .... import graph as _base
from .... import ops
from ...._lib import NULL, ffi, here, lib, text
from ...._tensor import as_array, as_dtype, c_shape, float32
from ....errors import FailedPreconditionError
from ....graph import Node, Shape, as_node, default_graph, set_root_graph
from ....initializers import Initializer, c_initializer, zeros
from ... import _devices
from ..._absent import error
from ..._creators import announce
from ..._world import has_variables, numbered
from ._partitioners import whole


class GraphKeys:
    """The names of collections."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    MODEL_VARIABLES = "model_variables"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    SUMMARIES = "summaries"
    GLOBAL_STEP = "global_step"
    TRAIN_OP = "train_op"
    TABLE_INITIALIZERS = "table_initializer"
    INIT_OP = "init_op"
    METRIC_VARIABLES = "metric_variables"


class Tensor(Node):
    """A tensor of a graph: its value is what Session.run gives."""

    @property
    def name(self) -> str:
        return f"{text(lib.est_node_name(self._c))}:{self._c.output}"

    @property
    def op(self) -> "Operation":
        return Operation(self.graph, self._c)

    device = property(lambda self: self.op.device)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:  # noqa: A003
        """Its value, in the default session."""
        return _session(session).run(self, feed_dict)

    def set_shape(self, shape: Any) -> None:
        """The static shape is what the operation says; another one is refused."""
        mine = self.shape
        wanted = Shape(shape)
        if mine is not None and (len(mine) != len(wanted) or any(
                None not in (a, b) and a != b for a, b in zip(mine, wanted))):
            raise ValueError(f"Shapes {mine} and {wanted} are not compatible")
        if mine is None or any(a is None and b is not None for a, b in zip(mine, wanted)):
            raise NotImplementedError(f"the static shape of {self.name} is {mine}; tf.reshape makes one of another "
                                      "shape")

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={'<unknown>' if self.shape is None else tuple(self.shape)} " \
               f"dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = "<unknown>" if self.shape is None else tuple(self.shape)
        return f'Tensor("{self.name}", shape={shape}, dtype={self.dtype.name})'

    def __eq__(self, other: Any) -> bool:  # as in graphs of TensorFlow
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise error("tf.Tensor", name)


class Operation(Node):
    """An operation: Session.run runs it and gives None."""

    type = property(lambda self: text(lib.est_node_op(self._c)))  # noqa: A003
    device = property(lambda self: text(lib.est_node_device(self._c)))

    @property
    def name(self) -> str:
        return text(lib.est_node_name(self._c))

    @property
    def inputs(self) -> list[Tensor]:
        return [Tensor(self.graph, lib.est_node_input(self._c, i)) for i in range(lib.est_node_inputs(self._c))]

    @property
    def outputs(self) -> list[Tensor]:
        """The first output, if it has one."""
        return [Tensor(self.graph, self._c)] if lib.est_node_dtype(self._c) != 0 else []

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        _session(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Operation) and (self._c.graph, self._c.id) == (other._c.graph, other._c.id)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._c.id)


class Variable(_base.Variable):
    """A variable of a graph. Made by its class it is named within the current scopes, as in TensorFlow 1."""

    def __new__(cls, *args: Any, **named: Any) -> "Variable":
        if args and isinstance(args[0], _base.Graph):
            return super().__new__(cls)
        if computes_at_once() or default_graph() is None and is_empty():
            # a program that computes at once, and not one of placeholders and sessions outside of graphs
            return _variable_at_once(*args, **named)
        return _new_variable(*args, **named)

    def __init__(self, *args: Any, **named: Any):
        if not (args and isinstance(args[0], _base.Graph)):
            return  # _new_variable has done it
        super().__init__(*args)
        with self.graph.after(None):
            here()
            self._snapshot = self.graph.node(lib.est_read_variable(self._c))
        self.trainable = True

    @property
    def name(self) -> str:
        return self._name + ":0"

    @property
    def _name(self) -> str:
        return text(lib.est_node_name(self._c))

    _shared_name = _name

    @property
    def op(self) -> Operation:
        return Operation(self.graph, self._c)

    device = property(lambda self: self.op.device)
    dtype = property(lambda self: self._snapshot.dtype)
    shape = property(lambda self: self._snapshot.shape)

    @property
    def initializer(self) -> Operation:
        """Assigns the initial value."""
        node = lib.est_variable_initializer_op(self._c)
        if node.graph == NULL:
            raise ValueError(f"{self.name} has no initial value")
        return Operation(self.graph, node)

    def initialized_value(self) -> Node:
        """The value after the initializer has run."""
        return self._after(self.initializer)

    def _after(self, update: Node) -> Node:
        with self.graph.after([update]):
            return self.value()

    def assign(self, value: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Node:
        """The value after the assignment."""
        return self._after(super().assign(value))

    def assign_add(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Node:
        return self._after(super().assign_add(delta))

    def assign_sub(self, delta: Any, use_locking: Any = None, name: str | None = None, read_value: bool = True) -> Node:
        return self._after(super().assign_sub(delta))

    def eval(self, session: Any = None) -> Any:  # noqa: A003
        return _session(session).run(self)

    def numpy(self) -> np.ndarray:
        """The value that it has in tf.compat.v1.wrap_function."""
        session = state_of(self.graph).session
        if session is None:
            raise NotImplementedError(f"{self.name} has its value in a session: session.run gives it")
        return session._read(self)

    def load(self, value: Any, session: Any = None) -> None:
        """Sets it in a session, at once."""
        _session(session)._write(self, value)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __eq__(self, other: Any) -> bool:
        return self is other

    def __ne__(self, other: Any) -> bool:
        return self is not other

    __hash__ = object.__hash__


class Graph(_base.Graph):
    """A graph of tf.compat.v1."""

    builds = True

    def __init__(self, _borrowed: Any = None):
        super().__init__(_borrowed=_borrowed)
        self._python: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
        if _borrowed is None:
            numbered(self)
        self._own: list[Variable] = []

    def check(self) -> None:
        """Raises the first failure and takes it back: a program that catches it goes on with the graph."""
        try:
            super().check()
        except BaseException:
            lib.est_graph_recover(self._c)
            raise

    def _made(self, c_node: Any) -> Node:
        key = (int(c_node.id), int(c_node.output))
        found = self._python.get(key)
        if found is None:
            kind = Tensor if lib.est_node_dtype(c_node) != 0 else Operation
            found = self._python[key] = kind(self, c_node)
        return found

    def _variable(self, c_node: Any) -> Variable:
        key = ("variable", int(c_node.id))
        found = self._python.get(key)
        if found is None:
            found = self._python[key] = Variable(self, c_node)
            self._own.append(found)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor "op:output"."""
        found = state_of(self).loaded_tensors.get(name)
        if found is not None:
            return found
        op, _, output = name.rpartition(":")
        if not op or not output.isdigit():
            raise ValueError(f"The name {name!r} refers to an Operation, not a Tensor. Tensor names must be of the "
                             "form "
                             '"<op_name>:<output_index>".')
        node = self._find(op)
        if node.graph == NULL:
            raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, {op!r}, does "
                           "not exist in the graph.")
        if lib.est_node_dtype(node) == _base.RESOURCE and output == "0":
            return self._variable(node)._snapshot  # a handle is no value of a program
        made = ffi.new("est_node *", node)
        made.output = int(output)
        return self._made(made[0])

    def dataset_of(self, result: Any) -> Any:
        from .data import dataset_of_elements

        return dataset_of_elements(self, result)

    def _find(self, name: str) -> Any:
        why = state_of(self).missing.get(name)
        if why is not None:
            raise NotImplementedError(f"operation {name!r} of the imported graph was left out: {why}")
        return lib.est_graph_find(self._c, name.encode())

    def as_graph_def(self, from_version: Any = None, add_shapes: bool = False) -> Any:
        """Its operations as a message, those of TensorFlow in place of the library's own."""
        from . import _meta_graph

        if from_version is not None or add_shapes:
            raise NotImplementedError("as_graph_def: from_version and add_shapes do not exist yet")
        return _meta_graph.as_graph_def(self)

    def get_operation_by_name(self, name: str) -> Operation:
        node = self._find(name)
        if node.graph == NULL:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return Operation(self, node)

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were made."""
        self.check()
        return [Operation(self, lib.est_graph_operation(self._c, i)) for i in range(lib.est_graph_operations(self._c))]

    def as_graph_element(self, value: Any) -> Node:
        """The tensor or operation for a name or for itself."""
        if isinstance(value, str):
            return self.get_tensor_by_name(value) if ":" in value else self.get_operation_by_name(value)
        return value

    def name_scope(self, name: str) -> Any:
        return name_scope(name)

    def control_dependencies(self, control_inputs: Any) -> Any:
        return self.after(None if control_inputs is None else _ordered(control_inputs))

    def get_collection(self, name: str, scope: str | None = None) -> list:
        return get_collection(name, scope)

    def add_to_collection(self, name: str, value: Any) -> None:
        state_of(self).collections.setdefault(name, []).append(value)

    def finalize(self) -> None:
        """Nothing may be added from now on."""
        state_of(self).finalized = True

    finalized = property(lambda self: state_of(self).finalized)

    def node(self, c_node: Any) -> Node:
        if state_of(self).finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        return super().node(c_node)


class State:
    """What tf.compat.v1 keeps of a graph, also of that of a model_fn."""

    def __init__(self) -> None:
        self.collections: dict[str, list] = {}
        self.scopes: list[VariableScope] = []
        self.by_name: dict[str, _base.Variable] = {}
        self.scope_counts: dict[str, int] = {}
        self.variable_scopes: dict[str, int] = {}  # how often each was opened since the one around it was
        self.layers: dict[str, Any] = {}  # by scope, keys of those that C builds
        self.names: list[str] = []
        self.iterators: list[Any] = []
        self.loaded: list[Any] = []  # signatures of SavedModels
        self.loaded_tensors: dict[str, Any] = {}  # what stands for their tensors, by name
        self.missing: dict[str, str] = {}  # operations of imported graphs that are not here, and why
        self.prints: list[Print] = []
        self.initializers: set[int] = set()  # operations that do what sessions do without being told
        self.session: Any = None  # of a graph that is a function: its variables have values
        self.finalized = False
        self.numbered = False  # made in the scope of a DeterministicRandomTestTool


def state_of(graph: _base.Graph) -> State:
    return graph.__dict__.setdefault("_v1", State())


_implicit: Graph | None = None
_asked: bool | None = None  # whether the program has said that it computes at once, or that it has a graph


def computes_at_once() -> bool:
    """Whether names of TensorFlow 1 outside of graphs are about values: the program has called enable_eager_execution, or
    has variables with values and nothing in a graph. In others they are about a graph of the program."""
    if default_graph() is not None or _asked is not None:
        return default_graph() is None and bool(_asked)
    return is_empty() and has_variables()


def is_empty() -> bool:
    """Whether nothing was added to the graph of the program."""
    return _implicit is None or lib.est_graph_operations(_implicit._c) == 0


def get_default_graph() -> _base.Graph:
    """The graph that operations are added to; outside of all others one of the program."""
    global _implicit
    graph = default_graph()
    if graph is not None:
        return graph
    if _implicit is None:
        from ..._world import _seed
        _implicit = Graph()
        lib.est_graph_set_seed(_implicit._c, _seed[0])
    return _implicit


def seeded_graph() -> Graph | None:
    """The graph of the program whose seed tf.random.set_seed sets."""
    graph = default_graph() or _implicit
    return graph if isinstance(graph, Graph) and graph._nodes is None else None


def reset_default_graph() -> None:
    """A new graph outside of all others."""
    global _implicit, _asked
    root = _base._root is not None
    _implicit, _asked = None, False
    if root:
        set_root_graph(None)
        disable_eager_execution()


def disable_eager_execution() -> None:
    """From now on operations are added to a graph, and sessions run them."""
    global _asked
    _asked = False
    if _base._root is None:
        set_root_graph(get_default_graph())


disable_v2_behavior = disable_eager_execution


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """From now on operations on values compute at once, and variables have values outside of graphs."""
    global _asked
    _asked = True
    set_root_graph(None)


enable_v2_behavior = enable_eager_execution


def enable_tensor_equality() -> None:
    """From now on == compares the values of tensors that have them."""
    _equality(True)


def disable_tensor_equality() -> None:
    """From now on == asks whether two tensors are the same object."""
    _equality(False)


def _equality(of_values: bool) -> None:
    from ..._eager import set_tensor_equality
    set_tensor_equality(of_values)


def executing_eagerly() -> bool:
    """Whether operations compute at once: no graph is being built."""
    return default_graph() is None


def _session(session: Any) -> Any:
    from ._session import get_default_session

    session = session if session is not None else get_default_session()
    if session is None:
        raise ValueError("Cannot evaluate: No default session is registered. Use `with sess.as_default()` or pass "
                         "session=")
    return session


# --- nodes ------------------------------------------------------------------------------------------------------------


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Node:
    """A value that every run must feed."""
    if computes_at_once():
        raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
    # without a name the operation already has its type's, which would clash with itself
    return get_default_graph().placeholder(None if name == "Placeholder" else name, dtype, shape)


def placeholder_with_default(input: Any, shape: Any = None, name: str | None = None) -> Node:  # noqa: A002
    """A value that runs may feed."""
    graph = get_default_graph()
    node = ops.identity(as_node(input, graph))
    if shape is not None and Shape([shape] if isinstance(shape, int) else shape) != node.shape:
        raise NotImplementedError(f"placeholder_with_default: runs feed the shape of the default, "
                                  f"{tuple_of(node.shape)}; another one ({shape}) does not exist yet: use "
                                  "tf.compat.v1.placeholder")
    return node if name is None else node.named(name)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Node:
    """A constant of the graph."""
    array = as_array(value, dtype)
    if shape is not None:
        shape = tuple(shape)
        if array.size == 1:
            array = np.broadcast_to(array.reshape(()), shape)
        else:
            array = array.reshape(shape)
    node = get_default_graph().constant(array)
    return node if name == "Const" else node.named(name)


def no_op(name: str | None = None) -> Node:
    """An operation that does nothing but run after its control inputs."""
    here()
    graph = get_default_graph()
    node = graph.node(lib.est_group(graph._c, ffi.new("est_nodes *")[0]))
    if not graph._after:
        state_of(graph).initializers.add(int(node._c.id))
    return node if name is None else node.named(name)


def group(*inputs: Any, name: str | None = None) -> Node:
    """One operation that runs all of them."""
    nodes = [node for item in inputs for node in (item if isinstance(item, (list, tuple)) else [item])]
    nodes = [node for node in nodes if node is not None]
    if not nodes:
        return no_op(name)
    node = ops.group(_ordered(nodes))
    if not node.graph._after and all(initializes(item) for item in nodes):
        state_of(node.graph).initializers.add(int(node._c.id))
    return node if name is None else node.named(name)


def initializes(item: Any) -> bool:
    """Whether an operation does nothing that a monitored session does not do by itself."""
    return isinstance(item, Node) and int(item._c.id) in state_of(item.graph).initializers


def tuple_of_tensors(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list:
    """The tensors, each after all of them."""
    found = [tensor for tensor in tensors if tensor is not None]
    with get_default_graph().after(_ordered(found + list(control_inputs or []))):
        return [None if tensor is None else ops.identity(tensor) for tensor in tensors]


def _ordered(nodes: Sequence[Any]) -> list[Node]:
    graph = get_default_graph()
    return [node.value() if isinstance(node, _base.Variable) else node if isinstance(node, Node) else
            as_node(node, graph) for node in nodes if not getattr(node, "_is_value", False)]


def control_dependencies(control_inputs: Any) -> Any:
    """Operations made within run after these; None: after none."""
    graph = get_default_graph()
    return graph.after(None if control_inputs is None else _ordered(control_inputs))


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Operations made within are not ordered."""
    with get_default_graph().after(None):
        yield


def device(device_name_or_function: Any) -> Any:
    """Pins the operations made within to a device: a text, a function of an operation, or None. Outside of graphs what
    computes at once within does so on that GPU, and variables and functions that are made within are there."""
    name = device_name_or_function
    if name is None or isinstance(name, str):
        _devices.check_visible(name or "")
    found = default_graph()
    return get_default_graph().device(name) if found is not None or callable(name) else _outside(name)


@contextlib.contextmanager
def _outside(name: str | None) -> Any:
    """A device for what is made outside of graphs: in that of the program, at once, and in the world of functions, whose
    variables may be at tasks, which have their own."""
    from ..._world import current_world
    world, parts = current_world(), _base.device_parts(name or "")
    local = not world.is_remote and parts.keys() <= {"device"}
    with get_default_graph().device(name), _devices.scope(name), (
            world.graph.device(name) if local else contextlib.nullcontext()):
        yield


@contextlib.contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Iterator[str]:
    """Names of operations made within start with the scope's, which is the value of the with statement."""
    graph = get_default_graph()
    names = state_of(graph).names
    name = default_name if name is None else name
    if not name:
        full = ""
    elif name.endswith("/"):
        full = name
    else:
        full = _unique(graph, (names[-1] if names else "") + name) + "/"
    with graph.scope(full):
        names.append(full)
        try:
            yield full
        finally:
            names.pop()


def _unique(graph: _base.Graph, name: str) -> str:
    counts = state_of(graph).scope_counts
    number = counts.get(name, 0)
    counts[name] = number + 1
    return name if number == 0 else f"{name}_{number}"


def gradients(ys: Any, xs: Any, grad_ys: Any = None, name: str = "gradients", colocate_gradients_with_ops: bool = False,
              gate_gradients: bool = False, aggregation_method: Any = None, stop_gradients: Any = None,
              unconnected_gradients: Any = None) -> list:
    """d(sum of ys) / d(x) for each x; None where they do not depend on it."""
    if stop_gradients is not None or unconnected_gradients not in (None, "none"):
        raise NotImplementedError("stop_gradients and unconnected_gradients do not exist yet; use tf.stop_gradient")
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    weights = [None] * len(ys) if grad_ys is None else (
        list(grad_ys) if isinstance(grad_ys, (list, tuple)) else [grad_ys])
    parts = [ops.reduce_sum(y if weight is None else y * weight) for y, weight in zip(ys, weights)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    from ..._tape import build_gradients
    return build_gradients([total], None, list(xs) if isinstance(xs, (list, tuple)) else [xs])


# --- variables --------------------------------------------------------------------------------------------------------

AUTO_REUSE = "AUTO_REUSE"


class VariableScope:
    """What get_variable goes by: the prefix of names, and whether variables are made, found or both."""

    def __init__(self, reuse: Any, name: str = "", initializer: Any = None, regularizer: Any = None,
                 dtype: Any = float32, original: str = ""):
        self.reuse, self.name, self.initializer, self.regularizer = reuse, name, initializer, regularizer
        self.dtype, self.original_name_scope = dtype, original

    def reuse_variables(self) -> None:
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.initializer = initializer

    def get_variable(self, *args: Any, **named: Any) -> Any:
        with variable_scope(self):
            return get_variable(*args, **named)

    def global_variables(self) -> list:
        return get_collection(GraphKeys.GLOBAL_VARIABLES, self.name + "/")

    def trainable_variables(self) -> list:
        return get_collection(GraphKeys.TRAINABLE_VARIABLES, self.name + "/")


_stores = threading.local()  # of objects whose methods track the variables that they make


def current_store() -> Any:
    """That of the innermost method; None: variables are those of the graph."""
    open_ones = _stores.__dict__.get("open")
    return open_ones[-1] if open_ones else None


@contextlib.contextmanager
def storing(store: Any) -> Iterator[None]:
    """Around a method that tracks its variables. The outermost one begins without scopes around it."""
    open_ones = _stores.__dict__.setdefault("open", [])
    if not open_ones:
        _stores.state = State()
    open_ones.append(store)
    try:
        yield
    finally:
        open_ones.pop()


def _scopes_now() -> State:
    """Whose variable scopes are open: the graph's, or those of the method that tracks its variables."""
    return _stores.state if current_store() is not None else state_of(get_default_graph())


def get_variable_scope() -> VariableScope:
    """The variable scope of the graph that is being built."""
    state = _scopes_now()
    if not state.scopes:
        state.scopes.append(VariableScope(False))
    return state.scopes[-1]


@contextlib.contextmanager
def variable_scope(name_or_scope: Any, default_name: str | None = None, values: Any = None, initializer: Any = None,
                   regularizer: Any = None, caching_device: Any = None, partitioner: Any = None,
                   custom_getter: Any = None, reuse: Any = None, dtype: Any = None, use_resource: Any = None,
                   constraint: Any = None, auxiliary_name_scope: bool = True) -> Iterator[VariableScope]:
    """Names of variables made within start with the scope's."""
    whole(partitioner)
    if custom_getter is not None or constraint is not None:
        raise NotImplementedError("custom_getter and constraint do not exist yet")
    state, outer = _scopes_now(), get_variable_scope()
    if isinstance(name_or_scope, VariableScope):
        full, short = name_or_scope.name, name_or_scope.name.rsplit("/", 1)[-1]
        base = name_or_scope
    else:
        name = name_or_scope
        if name is None:
            if default_name is None:
                raise TypeError("If default_name is None then name_or_scope is required")
            if reuse:
                raise ValueError("reuse=True cannot be used without a name_or_scope")
            name = _unique_scope(state, outer.name, default_name)
        full, short, base = (f"{outer.name}/{name}" if outer.name else name), name, outer
    scope = VariableScope(reuse if reuse is not None else outer.reuse or base.reuse, full,
                          initializer if initializer is not None else base.initializer,
                          regularizer if regularizer is not None else base.regularizer,
                          base.dtype if dtype is None else dtype)
    with contextlib.ExitStack() as stack:
        if auxiliary_name_scope and short:
            scope.original_name_scope = stack.enter_context(name_scope(short))
        state.scopes.append(scope)
        stack.callback(state.scopes.pop)
        opened = state.variable_scopes
        if base is name_or_scope:  # names within and around it count on when it is left
            state.variable_scopes = dict(opened)
        state.variable_scopes[full] = state.variable_scopes.get(full, 0) + 1
        try:
            yield scope
        finally:
            state.variable_scopes = opened
            for key in [key for key in opened if key.startswith(full + "/")]:
                del opened[key]


class Template:
    """A function whose variables are made by its first call, in a scope of its own, and shared by later ones."""

    def __init__(self, name: str, function: Any, unique_name: str | None, named: dict):
        self._wanted, self._function, self._unique_name, self._named = name, function, unique_name, named
        self._scope: VariableScope | None = None
        self._store: Any = None  # of what is made outside of graphs

    def __call__(self, *args: Any, **named: Any) -> Any:
        with contextlib.ExitStack() as stack:
            if current_store() is None and default_graph() is None:
                from .keras._variables import Store
                self._store = self._store or Store()
                stack.enter_context(storing(self._store))
            if self._scope is not None:
                scope = variable_scope(self._scope, reuse=True)
            else:
                scope = variable_scope(self._unique_name, self._wanted)
            self._scope = stack.enter_context(scope)
            return self._function(*args, **{**self._named, **named})

    name = property(lambda self: None if self._scope is None else self._scope.name)
    variable_scope_name = property(lambda self: None if self._scope is None else self._scope.name + "/")

    @property
    def variables(self) -> list:
        """Those that its calls have made."""
        if self._store is not None:
            return self._store.weights
        return [] if self._scope is None else global_variables(self._scope.name + "/")

    global_variables = variables

    @property
    def trainable_variables(self) -> list:
        return [variable for variable in self.variables if variable.trainable]


def make_template(name_: str, func_: Any, create_scope_now_: bool = False, unique_name_: str | None = None,
                  custom_getter_: Any = None, **named: Any) -> Template:
    """The function, with these arguments, as one that shares its variables between calls."""
    if create_scope_now_ or custom_getter_ is not None:
        raise NotImplementedError("make_template: create_scope_now_ and custom_getter_ do not exist yet")
    return Template(name_, func_, unique_name_, named)


def _unique_scope(state: State, outer: str, name: str) -> str:
    """The name of a scope that was given none: names are used again when the scope around them is opened again."""
    prefix, number = outer + "/" if outer else "", 0
    while state.variable_scopes.get(prefix + name + (f"_{number}" if number else ""), 0) > 0:
        number += 1
    return f"{name}_{number}" if number else name


def _initial(initial: Any, dtype: Any) -> "tuple[Any, Any, Any]":
    """A node or an array, its shape and dtype."""
    graph = get_default_graph()
    if isinstance(initial, _base.Variable):
        initial = initial.initialized_value() if isinstance(initial, Variable) else initial.value()
    if hasattr(initial, "_value") and not isinstance(initial, Node):
        initial = initial._value
    if isinstance(initial, Node):
        if initial.shape is None or None in initial.shape:
            raise ValueError(f"the initial value {initial.name} has the shape {initial.shape}; a variable needs one "
                             "that is fully known")
        if dtype is not None and initial.dtype != dtype:
            initial = ops.cast(initial, dtype)
        return initial, initial.shape, initial.dtype
    array = as_array(initial, dtype)
    return array, array.shape, as_dtype(array.dtype)


def _make(graph: _base.Graph, name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool, regularizer: Any,
          collections: Any) -> _base.Variable:
    keys = list(collections) if collections is not None else [GraphKeys.GLOBAL_VARIABLES]
    if dtype.name == "string":
        raise NotImplementedError(f"variable {name!r}: variables hold numbers; strings are constants, or features of a "
                                  "dataset")
    if GraphKeys.LOCAL_VARIABLES in keys:
        variable = graph.local_variable(name, shape, dtype)
        if initializer is not None:
            with graph.after(None):
                lib.est_variable_initializer(variable._c, lib.est_initial_value(
                    c_initializer(graph.keep, initializer), graph._c, dtype.number, c_shape(shape)))
                graph.check()
    else:
        with graph.after(None):
            variable = graph.variable(name, shape, dtype, initializer, trainable, regularizer)
    if isinstance(variable, Variable):
        variable.trainable = trainable and GraphKeys.LOCAL_VARIABLES not in keys
    for key in keys:
        if key not in _OF_C:
            state_of(graph).collections.setdefault(key, []).append(variable)
    if isinstance(variable, Variable):
        announce([variable])
    return variable


def _new_variable(initial_value: Any = None, trainable: Any = None, collections: Any = None,
                  validate_shape: bool = True,
                  caching_device: Any = None, name: str | None = None, variable_def: Any = None, dtype: Any = None,
                  expected_shape: Any = None, import_scope: Any = None, constraint: Any = None,
                  use_resource: Any = None,
                  synchronization: Any = None, aggregation: Any = None, shape: Any = None) -> _base.Variable:
    if initial_value is None:
        raise ValueError("initial_value must be specified.")
    if constraint is not None or not validate_shape:
        raise NotImplementedError("constraint and validate_shape=False do not exist yet")
    graph, wanted = get_default_graph(), expected_shape if shape is None else shape
    with graph.after(None):
        value = initial_value() if callable(initial_value) and not isinstance(initial_value, Node) else initial_value
        value, shape, dtype = _initial(value, None if dtype is None else as_dtype(dtype))
    if wanted is not None and Shape([wanted] if isinstance(wanted, int) else wanted) != Shape(shape):
        raise NotImplementedError(f"tf.Variable: a variable has the shape of its value, {tuple_of(shape)}; shape={wanted} "
                                  "does not exist yet")
    names = state_of(graph).names
    return _make(graph, (names[-1] if names else "") + (name or "Variable"), shape, dtype, lambda s, dtype=None: value,
                 trainable is not False, None, collections)


def _variable_at_once(initial_value: Any = None, trainable: Any = None, collections: Any = None,
                      validate_shape: bool = True, caching_device: Any = None, name: str | None = None,
                      variable_def: Any = None, dtype: Any = None, expected_shape: Any = None, import_scope: Any = None,
                      constraint: Any = None, use_resource: Any = None, synchronization: Any = None,
                      aggregation: Any = None, shape: Any = None) -> Any:
    from ..._variable import Variable as Variable2
    return Variable2(initial_value, trainable, validate_shape, caching_device, name, variable_def, dtype, import_scope,
                     constraint, synchronization, aggregation, expected_shape if shape is None else shape)


def get_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                 trainable: Any = None, collections: Any = None, caching_device: Any = None, partitioner: Any = None,
                 validate_shape: bool = True, use_resource: Any = None, custom_getter: Any = None,
                 constraint: Any = None, synchronization: Any = None, aggregation: Any = None) -> _base.Variable:
    """The variable of that name in the current variable scope, made if it does not exist."""
    whole(partitioner)
    if custom_getter is not None or constraint is not None or not validate_shape:
        raise NotImplementedError("custom_getter, constraint and validate_shape=False do not exist yet")
    graph, scope = get_default_graph(), get_variable_scope()
    known = state_of(graph).by_name
    full = f"{scope.name}/{name}" if scope.name else name
    dtype = None if dtype is None else as_dtype(dtype)
    store = current_store()
    if store is not None:
        return store.get_variable(full, shape, scope.dtype if dtype is None else dtype,
                                  scope.initializer if initializer is None else initializer,
                                  scope.regularizer if regularizer is None else regularizer, trainable)
    if computes_at_once():
        from .keras._variables import Store
        store = Store()  # each call makes another one, as in TensorFlow
        made = store.get_variable(full, shape, scope.dtype if dtype is None else dtype,
                                  scope.initializer if initializer is None else initializer, None, trainable)
        store.name_variables()
        return made
    if scope.reuse and full in known:
        found = known[full]
        if shape is not None and found.shape != Shape([shape] if isinstance(shape, int) else shape):
            raise ValueError(f"Trying to share variable {full}, but specified shape {tuple_of(shape)} and found shape "
                             f"{tuple_of(found.shape)}.")
        if dtype is not None and found.dtype != dtype:
            raise ValueError(f"Trying to share variable {full}, but specified dtype {dtype.name} and found dtype "
                             f"{found.dtype.name}.")
        return found
    if full in known:
        raise ValueError(f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or "
                         "reuse=tf.AUTO_REUSE in VarScope?")
    if scope.reuse is True:
        raise ValueError(f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean "
                         "to set reuse=tf.AUTO_REUSE in VarScope?")
    initializer = scope.initializer if initializer is None else initializer
    if isinstance(initializer, type):
        initializer = initializer()
    if initializer is not None and not callable(initializer) and not isinstance(initializer, Initializer):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        with graph.after(None):
            value, shape, dtype = _initial(initializer, dtype)
        initializer = lambda s, dtype=None: value  # noqa: E731
    if shape is None:
        raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was <unknown>.")
    dtype = as_dtype(scope.dtype) if dtype is None else dtype
    if initializer is None and not dtype.is_floating:
        initializer = zeros()
    shape = [shape] if isinstance(shape, (int, np.integer)) else shape
    regularizer = scope.regularizer if regularizer is None else regularizer
    variable = _make(graph, full, shape, dtype, initializer, trainable is not False, None, collections)
    if regularizer is not None:
        losses = state_of(graph).collections.setdefault(GraphKeys.REGULARIZATION_LOSSES, [])
        losses.append(regularizer(variable.value()))
    known[full] = variable
    return variable


def get_local_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **named: Any) -> Any:
    """get_variable of a variable that is in no checkpoint."""
    named.update(trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
    return get_variable(name, shape, dtype, initializer, **named)


def tuple_of(shape: Any) -> str:
    return str(tuple([shape] if isinstance(shape, int) else shape))


# --- collections ------------------------------------------------------------------------------------------------------

_OF_C = {GraphKeys.GLOBAL_VARIABLES: "est_global_variables", GraphKeys.LOCAL_VARIABLES: "est_local_variables",
         GraphKeys.TRAINABLE_VARIABLES: "est_trainable_variables", GraphKeys.UPDATE_OPS: "est_update_ops",
         GraphKeys.REGULARIZATION_LOSSES: "est_losses"}
_VARIABLES = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES)


def get_collection(key: str, scope: str | None = None) -> list:
    """The values of a collection, those of variables first in the order in which they were made; with a scope those whose
    names begin with this pattern."""
    graph = get_default_graph()
    found = []
    if key in _OF_C:
        c_nodes = graph._collection(_OF_C[key])
        found = [graph._variable(c_node) if key in _VARIABLES else graph._made(c_node) for c_node in c_nodes]
    found += state_of(graph).collections.get(key, [])
    return [item for item in found if scope is None or hasattr(item, "name") and re.match(scope, item.name)]


def get_collection_ref(key: str) -> list:
    """The list itself, of a collection that the program fills."""
    if key in _OF_C:
        raise NotImplementedError(f"the collection {key!r} is the library's; tf.add_to_collection adds to it")
    return state_of(get_default_graph()).collections.setdefault(key, [])


def add_to_collection(name: str, value: Any) -> None:
    """Puts a value into a collection of the graph."""
    state_of(get_default_graph()).collections.setdefault(name, []).append(value)


def add_to_collections(names: Any, value: Any) -> None:
    """Puts a value into several collections of the graph."""
    for name in [names] if isinstance(names, str) else names:
        add_to_collection(name, value)


def global_variables(scope: str | None = None) -> list:
    """Variables that checkpoints keep."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list:
    """Variables that no checkpoint keeps."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list:
    """Variables that optimizers train."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list:
    """Variables of layers, as far as the program has put them into their collection."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def variables_initializer(var_list: Any, name: str = "init") -> Node:
    """The operation that gives these variables their initial values; those whose values need others come after them."""
    variables = list(var_list)
    if not variables:
        return no_op(name)
    graph = variables[0].graph
    with graph.after(None):
        node = ops.group([_base.Node(graph, _initializer(variable)) for variable in variables]).named(name)
    state_of(graph).initializers.add(int(node._c.id))
    return node


def _initializer(variable: _base.Variable) -> Any:
    node = lib.est_variable_initializer_op(variable._c)
    if node.graph == NULL:
        raise ValueError(f"{variable.name} has no initial value")
    return node


def global_variables_initializer() -> Node:
    """The operation that gives all variables that exist now their initial values."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Node:
    """An operation that gives local variables their initial values."""
    return variables_initializer(local_variables())


def tables_initializer(name: str = "init_all_tables") -> Node:
    """Sessions fill tables by themselves: nothing is left to do."""
    return no_op(name)


initialize_all_variables = global_variables_initializer
initialize_local_variables = local_variables_initializer


class Uninitialized:
    """What report_uninitialized_variables gives: Session.run makes the names of it."""

    def __init__(self, variables: list):
        self.variables = variables

    def names(self, session: Any) -> np.ndarray:
        found = []
        for variable in self.variables:
            try:
                session._read(variable)
            except FailedPreconditionError:
                found.append(variable.name.split(":")[0].encode())
        return np.array(found, dtype=object)


def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Uninitialized:
    """The names of variables that have no value yet, for Session.run."""
    return Uninitialized(list(global_variables() + local_variables() if var_list is None else var_list))


class Print:
    """What a run that needs `node` prints after it."""

    def __init__(self, node: Node, data: list, message: str, first_n: int, summarize: int):
        self.node, self.data, self.message, self.left, self.summarize = node, data, message, first_n, summarize

    def show(self, values: list) -> None:
        if self.left == 0:
            return
        self.left -= 1
        print(self.message + "".join(f"[{self._text(value)}]" for value in values), file=sys.stderr)

    def _text(self, value: Any) -> str:
        flat = np.asarray(value).reshape(-1)
        shown = flat if self.summarize < 0 else flat[:self.summarize]
        texts = [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in shown]
        return " ".join(texts) + ("..." if len(shown) < len(flat) else "")


def print_tensors(input_: Any, data: Any, message: str | None = None, first_n: int | None = None,
                  summarize: int | None = None, name: str | None = None) -> Any:
    """The tensor; a run of a session that needs it prints the data to stderr."""
    graph = get_default_graph()
    if not isinstance(graph, Graph):
        raise NotImplementedError("tf.Print exists in graphs of the program, whose sessions print; in a model_fn "
                                  "LoggingTensorHook does")
    node = ops.identity(as_node(input_, graph))
    data = [as_node(item, graph) for item in data]
    state_of(graph).prints.append(Print(node, data, message or "", -1 if first_n is None else first_n,
                                        3 if summarize is None else summarize))
    return node


def assign(ref: Any, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None) -> Node:
    """ref.assign(value)"""
    return ref.assign(value)


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Node:
    """An operation that adds to a variable; its value is the new one."""
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Node:
    """An operation that subtracts from a variable; its value is the new one."""
    return ref.assign_sub(value)


