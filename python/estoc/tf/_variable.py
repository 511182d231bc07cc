# SPDX-License-Identifier: Apache-2.0
"""tf.Variable: a value of a world that steps change, and what stands for it in other graphs."""
from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Iterator

import numpy as np

from .._lib import Keep, check, ffi, here, lib, text
from .._tensor import as_array, as_dtype, c_shape, py_shape
from ..errors import OpError
from ..graph import Graph, Node, Session, Shape, as_node, default_graph
from ..graph import Variable as _Handle
from ..initializers import c_initializer
from . import _creators
from ._trace import current_trace, local, name_scopes, replica_context
from ._world import OtherWorld, World, current_world


def watchers() -> list[list]:
    """Lists that get the variables which graphs read in this thread, the innermost last."""
    return local.__dict__.setdefault("watchers", [])


@contextlib.contextmanager
def _making(world: World | None) -> Iterator[None]:
    """Around a variable that is made: where that fails, or Ctrl-C ends it, the world stays as it was."""
    if world is None:
        yield
        return
    with world.alone():
        try:
            yield
        except BaseException:
            if not local.__dict__.get("traces"):  # a trace recovers at its end
                lib.est_graph_recover(world.graph._c)
            raise


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
        with _making(world):
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
        with _making(world):
            handle = lib.est_weight(graph._c, keep.string(name), c_shape(array.shape), keep.options(
                "est_weight_options", dtype=number.number, frozen=True,
                initializer=c_initializer(keep, lambda shape, dtype: array)))
            graph.check()
            variable = cls._of(world, graph, handle, False)
        variable._shown = name + ":0"
        return variable

    # --- copies ---

    def __copy__(self) -> "Variable":
        return self

    def __deepcopy__(self, memo: dict) -> "Variable":
        new = _again(*self.__reduce__()[1])
        memo[id(self)] = new
        return new

    def __reduce__(self) -> Any:
        """Another variable of the same value and name."""
        if self._world is None or current_trace() is not None:
            raise NotImplementedError(f"{self.name} is copied and pickled outside of graphs and functions only")
        return _again, (self.numpy(), self._trainable, self._shown, self.constraint)

    name = property(lambda self: self._shown)
    dtype = property(lambda self: self._dtype)
    shape = property(lambda self: self._shape)
    trainable = property(lambda self: self._trainable)
    ndim = property(lambda self: len(self._shape))

    @property
    def op(self) -> Node:
        """The operation of a variable of a graph."""
        if self._world is not None:
            raise AttributeError("Tensor.op is undefined when eager execution is enabled.")
        return self._handle.op

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
        for watcher in watchers():
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


def _again(value: np.ndarray, trainable: bool, name: str, constraint: Callable | None) -> Variable:
    """A copy of a variable."""
    new = Variable(value, trainable, name=name.rsplit(":", 1)[0].rsplit("/", 1)[-1], constraint=constraint)
    new._shown = name
    return new


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
