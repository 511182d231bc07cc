# SPDX-License-Identifier: Apache-2.0
"""Tensors with values, and operations that take values, nodes, variables or a mixture.

A function over nodes that is given none computes at once: it is built once, for the dtypes and shapes of its arguments,
into a small graph of its own, and later calls run the prepared step. While a GradientTape records, calls are also noted
down.
"""
from __future__ import annotations

import abc
import functools
import inspect
import threading
from typing import Any, Callable

import numpy as np

from .. import ops
from .._lib import check, ffi, here, lib
from .._tensor import DType, array_like, as_array, as_dtype, number_like
from ..graph import Graph, Node, Session, Shape, default_graph
from ..io import RaggedArray
from . import _devices, _structure
from ._absent import error
from ._signatures import Binding
from ._variable import Variable, on_own_lines, shown
from ._world import Step

TensorShape = Shape


class Tensor(abc.ABC):
    """A value, as TensorFlow's eager tensors; nodes of graphs count as tensors, too (isinstance)."""

    __array_priority__ = 90
    # of layers that were called outside of functions: the mask, and what a softmax or a sigmoid at the end was given
    __slots__ = ("_value", "_keras_mask", "_keras_logits", "__weakref__")

    def __init__(self, value: Any, dtype: Any = None):
        self._value = as_array(value, dtype)

    @property
    def dtype(self) -> DType:
        return as_dtype(self._value.dtype)

    @property
    def shape(self) -> Shape:
        return Shape(self._value.shape)

    ndim = property(lambda self: self._value.ndim)
    device = property(lambda self: "/job:localhost/replica:0/task:0/device:CPU:0")

    def get_shape(self) -> Shape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Checks that the shape fits."""
        have = self._value.shape
        if shape is not None and (len(shape) != len(have) or any(
                want is not None and want != size for want, size in zip(shape, have))):
            raise ValueError(f"Tensor's shape {have} is not compatible with supplied shape {tuple(shape)}")

    def numpy(self) -> Any:
        """A copy; of a scalar a numpy scalar, or bytes."""
        return self._value[()] if self._value.ndim == 0 else self._value.copy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self._value, dtype=dtype)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __index__(self) -> int:
        return self._value.__index__()

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self):
        return (self[i] for i in range(len(self._value)))

    def __format__(self, spec: str) -> str:
        return format(self._value[()], spec)

    def __repr__(self) -> str:
        value = shown(self._value)
        return f"<tf.Tensor: shape={tuple(self._value.shape)}, dtype={self.dtype.name}, numpy={value}>"

    def __str__(self) -> str:
        value = on_own_lines(str(self._value[()]))
        return f"tf.Tensor({value}, shape={tuple(self._value.shape)}, dtype={self.dtype.name})"

    def __hash__(self) -> int:
        if _equality_of_values[0]:
            raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")
        return id(self)

    def ref(self) -> "Reference":
        """A key for dicts and sets, which stands for this object."""
        return Reference(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise error("tf.Tensor", name)


class Reference:
    """A tensor or a variable as a key: equal to others of the same object."""

    def __init__(self, wrapped: Any):
        self._wrapped = wrapped

    def deref(self) -> Any:
        """The object."""
        return self._wrapped

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Reference) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return id(self._wrapped)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._wrapped!r}>"


Tensor.register(Node)
_new = object.__new__
empty = np.empty
from_buffer = ffi.from_buffer


def _tensor(array: np.ndarray) -> Tensor:
    tensor = _new(Tensor)
    tensor._value = array
    return tensor


def unwrap(value: Any) -> Any:
    """Values of tensors as arrays, also within lists and tuples; variables as nodes of the trace, or arrays."""
    if type(value) is Tensor:
        return value._value
    if isinstance(value, Variable):
        graph = default_graph()
        if graph is not None:
            return value._as_node(graph)
        return value._as_node(value.graph) if value._world is None else value._array()
    if isinstance(value, (list, tuple)) and any(isinstance(item, (Tensor, Variable, list, tuple)) for item in value):
        return type(value)(unwrap(item) for item in value)
    return value


def wrap(value: Any) -> Any:
    """Arrays as tensors; nodes stay."""
    if isinstance(value, (np.ndarray, np.generic, bytes)):
        return Tensor(value)
    if isinstance(value, (RaggedArray, _structure.Composite)):
        return value
    if isinstance(value, tuple):
        return tuple(wrap(item) for item in value)
    if isinstance(value, dict):
        return {key: wrap(item) for key, item in value.items()}
    return value


# --- operations that compute at once ----------------------------------------------------------------------------------

_steps: dict[Any, "_Computed"] = {}
_STEPS_MAX, _STEPS_MAX_BYTES = 4096, 64 << 20
_step_bytes = [0]  # what the arguments of all have had, about as much as their results
_lock = threading.RLock()


def forget_computed() -> None:
    """Functions that were computed, and what those of a program refer to."""
    _steps.clear()
    _step_bytes[0] = 0


def _keep(key: Any, step: "_Computed", values: list) -> None:
    """Keeps a step for other arguments of the same shapes; it has memory for its results, so the oldest ones go."""
    step.bytes = sum(value.nbytes for value in values)
    _step_bytes[0] += step.bytes
    while _steps and (len(_steps) >= _STEPS_MAX or _step_bytes[0] > _STEPS_MAX_BYTES):
        _step_bytes[0] -= _steps.pop(next(iter(_steps))).bytes
    _steps[key] = step


class _Computed:
    """A function over nodes as a prepared step in a graph of its own."""

    def __init__(self, function: Callable, arguments: Any, shapes: list):
        self.graph = Graph()
        fed = iter([self.graph.placeholder(None, dtype, shape) for dtype, shape in shapes])
        self.feeds: list[Node] = []

        def node(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                self.feeds.append(next(fed))
                return self.feeds[-1]
            return value

        here()
        positional, named = _structure.map_structure(node, arguments)
        with self.graph.as_default():
            result = function(*positional, **named)
        self.form = result
        self.leaves = _structure.flatten(result)
        nodes = [leaf for leaf in self.leaves if isinstance(leaf, Node)]
        self.graph.check()
        self.session = Session(self.graph, threads=1, **_devices.options_at_once(getattr(function, "device", None)))
        self.step = Step(self.session._c, self.feeds, nodes, (), (self.session,))
        self.single = len(nodes) == 1 and result is nodes[0]
        self.bytes = 0
        self._fast: Any = None  # what a call needs when all arrays are numbers, with at least one

    def run_fast(self, *values: np.ndarray) -> Any:
        """run for arrays in C order whose shapes are those of the last call, in one crossing."""
        fast = self._fast
        if fast is None:
            return self._run_first(values)
        native, feeds, given, out, slot, shape, dtype, fresh = fast
        buffers = [from_buffer(value) for value in values]
        for feed, data in zip(feeds, buffers):
            feed.data = data
        result = empty(shape, dtype)
        slot.data = from_buffer(result)
        status = lib.py_run(native, len(values), given, 1, out, fresh)
        if status != 0 or fresh[0]:
            check(status)
            self._fast = None  # the shape of the result depends on more than those of the arguments
            self.step._shapes[0] = None
            return self.run(list(values))
        tensor = _new(Tensor)
        tensor._value = result
        return tensor

    def _run_first(self, values: tuple) -> Any:
        result = self.run(list(values))
        step = self.step
        if self.single and step._numpy[0] is not None and result._value.size > 0 and all(
                value.dtype != object for value in values):
            self._fast = (step._c, [step._in[i] for i in range(len(values))], step._in, step._out, step._out[0],
                          result._value.shape, result._value.dtype, step._fresh)
        return result

    def run(self, values: list) -> Any:
        results = self.step.run(values)
        if self.single:
            return _tensor(results[0])
        rest = iter(results)
        return _structure.pack_as(self.form, [_tensor(next(rest)) if isinstance(leaf, Node) else leaf
                                              for leaf in self.leaves])


@functools.lru_cache(maxsize=_STEPS_MAX)
def _pinned(function: Callable, device: str) -> Callable:
    """The function for a device, one object for each of both."""
    def pinned(*positional: Any, **named: Any) -> Any:
        with default_graph().device(device):
            return function(*positional, **named)

    pinned.device = device
    return pinned


def compute(function: Callable, positional: tuple, named: dict) -> Any:
    """The result of a function over nodes for arguments that have values: arrays are tensors, anything else static. It is
    computed on the CPU, unless a `with tf.device` names a GPU: a copy there and back takes longer than most operations."""
    if _devices.scopes and threading.get_ident() in _devices.scopes:
        function = _pinned(function, _devices.scopes[threading.get_ident()])
    if not named:
        if len(positional) == 2:
            x, y = positional
            if type(x) is np.ndarray and type(y) is np.ndarray:
                found = _steps.get((function, x.dtype.num, x.shape, y.dtype.num, y.shape))
                if found is not None:
                    with _lock:
                        return found.run_fast(x, y)
        elif len(positional) == 1:
            x = positional[0]
            if type(x) is np.ndarray:
                found = _steps.get((function, x.dtype.num, x.shape))
                if found is not None:
                    with _lock:
                        return found.run_fast(x)
    values: list = []
    key: list = [function]

    def describe(value: Any) -> None:
        if type(value) is np.ndarray:
            values.append(value)
            key.append(value.dtype.num)
            key.append(value.shape)
        elif isinstance(value, (list, tuple)):
            key.append(len(value))
            for item in value:
                describe(item)
        else:
            key.append(value)
            key.append(type(value))

    for value in positional:
        describe(value)
    if named:
        for name in sorted(named):
            key.append(name)
            describe(named[name])
    try:
        found = _steps.get(tuple(key))
    except TypeError:  # an argument that cannot be a key, such as a slice
        return _Computed(function, (positional, named), [(value.dtype, value.shape) for value in values]).run(values)
    if found is None:
        found = _Computed(function, (positional, named), [(as_dtype(value.dtype), value.shape) for value in values])
        _keep(tuple(key), found, values)
    with _lock:
        return found.run(values)


# --- dispatch ---------------------------------------------------------------------------------------------------------

_tapes = threading.local()


def tapes() -> list:
    """The tapes that record in this thread, outside of traces."""
    stack = _tapes.__dict__.get("stack")
    if stack is None:
        stack = _tapes.stack = []
    return stack


def _symbolic(values: Any) -> Any:
    """The first node among arguments, or the trace if there is a variable; None: all have values."""
    for value in values:
        if type(value) is Tensor or type(value) is np.ndarray:
            continue
        if isinstance(value, Node):
            return value
        if isinstance(value, Variable):
            if default_graph() is not None or value._world is None:
                return value
        elif isinstance(value, (list, tuple)):
            found = _symbolic(value)
            if found is not None:
                return found
        elif isinstance(value, dict):
            found = _symbolic(value.values())
            if found is not None:
                return found
        elif isinstance(value, _structure.Composite):
            return value
    return None


def composite_among(values: Any) -> Any:
    """The first value that is made of several tensors; None: there is none."""
    for value in values:
        if isinstance(value, _structure.Composite):
            return value
        if isinstance(value, (list, tuple)):
            found = composite_among(value)
            if found is not None:
                return found
    return None


def dispatch(function: Callable, positional: tuple, named: dict, convert: Callable) -> Any:
    """Calls a function over nodes with tensors of any kind. `convert` makes arrays of its arguments that have values."""
    found = _symbolic(positional)
    if found is None and named:
        found = _symbolic(named.values())
    if found is None:
        values, more = convert(positional, named)
        result = compute(function, values, more)
        stack = _tapes.__dict__.get("stack")
        if stack:
            for tape in stack:
                tape.record(function, positional, named, True, result)
        return result
    record = getattr(found, "_keras_call", None)
    if record is not None:
        return record(function, positional, named)
    composite = composite_among((*positional, *named.values()))
    if composite is not None:
        return composite.dispatch(function, positional, named, convert)
    here()
    return function(*(unwrap(value) for value in positional), **{key: unwrap(value) for key, value in named.items()})


_OF_ANOTHER_TYPE = {"condition", "indices", "mask", "segment_ids", "ids", "targets", "classes", "y_true", "start",
                    "size"}


def _static(value: Any) -> Any:
    if type(value) is Tensor:
        value = value._value
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim == 0 else tuple(value.tolist())
    if isinstance(value, list):
        return tuple(_static(item) for item in value)
    return value


def _like_of(values: list) -> Any:
    """The dtype of operands of one: that of the first tensor, and without one that of the first value."""
    for value in values:
        if type(value) is Tensor:
            return value._value.dtype
        if isinstance(value, Variable):
            return np.dtype(value.dtype.as_numpy_dtype)
    return as_array(_plain(values[0])).dtype if values and values[0] is not None else None


def eager(function: Callable, name: str | None = None) -> Callable:
    """A function of estoc.ops for tensors, the same for every caller."""
    return _eager(function, name or function.__name__)


@functools.lru_cache(maxsize=None)
def _eager(function: Callable, name: str) -> Callable:
    build = getattr(function, "over_nodes", function)
    signature = inspect.signature(build)
    parameters = list(signature.parameters)
    kinds = {key: str(parameter.annotation).strip("'\"") for key, parameter in signature.parameters.items()}
    tensors = [key for key in parameters if kinds[key] in ("Tensor", "Tensors")]
    lists = {key for key in tensors if kinds[key] == "Tensors"}
    first, tensor_set = parameters[0], set(tensors)
    typed = set(tensors) - _OF_ANOTHER_TYPE  # these have one dtype
    binding = Binding(name, signature.parameters)
    positions = tuple(key in tensor_set for key in parameters)

    def to_value(key: str, value: Any, like: Any) -> Any:
        if type(value) is Tensor:
            return value._value
        if isinstance(value, Variable):
            return value._array()
        if value is None:
            if signature.parameters[key].default is None:
                return None
            raise ValueError(f"{call.__name__}: a tensor is needed for {key!r}, None was given")
        return as_array(_plain(value)) if like is None else array_like(_plain(value), like)

    def convert(positional: tuple, named: dict) -> tuple:
        if not named:
            if len(positional) == 1 and type(positional[0]) is Tensor and positions[0] and first not in lists:
                return (positional[0]._value,), named
            if len(positional) == 2 and type(positional[0]) is Tensor is type(positional[1]) and all(positions[:2]):
                return (positional[0]._value, positional[1]._value), named
        like = None
        if len(typed) > 1:
            like = _like_of([value for key, value in zip(parameters, positional) if key in typed] +
                            [value for key, value in named.items() if key in typed])

        def one(key: str, value: Any, is_tensor: bool) -> Any:
            if not is_tensor:
                return _static(value)
            if key in lists:
                value = list(value)
                kind = _like_of(value)
                return [to_value(key, item, kind) for item in value]
            return to_value(key, value, like if key in typed else None)

        return (tuple(one(key, value, is_tensor) for key, value, is_tensor in zip(parameters, positional, positions)),
                {key: one(key, value, key in tensor_set) for key, value in named.items()})

    plain, required = binding.plain, binding.required

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        given = None
        if named or len(arguments) > plain or arguments and arguments[-1] is None:
            arguments, named, given = binding.bind(arguments, named)
        elif len(arguments) < required:
            binding.bind(arguments, named)  # says what is missing
        if ops.building_graph() is not None and composite_among(arguments) is None:  # tf.compat.v1: values become nodes
            result = function(*(unwrap(value) for value in arguments), **{k: unwrap(v) for k, v in named.items()})
        else:
            result = dispatch(build, arguments, named, convert)
        return result if given is None or not isinstance(result, Node) else result.named(given)

    call.__name__ = call.__qualname__ = name
    call.over_nodes = build
    call.__signature__, call.only_defaults = binding.signature(), binding.only_defaults()
    return call


def _plain(value: Any) -> Any:
    """Lists of tensors and variables as lists of arrays."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value._array() if isinstance(value, Variable) else value._value if type(value) is Tensor else value


def _operator(function: Callable, reflected: bool = False) -> Callable:
    apply = eager(function)
    build = apply.over_nodes

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, _structure.Composite) and other.has_operators and not isinstance(self, _structure.Composite):
            return NotImplemented  # its own operator knows both
        if type(self) is Tensor and not _tapes.__dict__.get("stack"):
            mine, kind = self._value, type(other)
            if kind is Tensor:
                theirs = other._value
            elif kind is float or kind is int:
                theirs = number_like(other, mine.dtype)
            else:
                return apply(other, self) if reflected else apply(self, other)
            return compute(build, (theirs, mine) if reflected else (mine, theirs), {})
        return apply(other, self) if reflected else apply(self, other)

    return method


def _getitem(self: Any, index: Any) -> Any:
    def convert(positional: tuple, named: dict) -> tuple:
        return (unwrap(positional[0]), _Index(positional[1])), named

    if isinstance(index, list):
        index = tuple(index)
    if isinstance(index, (Tensor, np.ndarray)) and as_dtype(index.dtype).is_bool and index.ndim > 0:
        from ._array import boolean_mask
        return boolean_mask(self, index)
    if not all(_is_index(part) for part in (index if isinstance(index, tuple) else (index,))):
        raise TypeError("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tensors of "
                        f"integers are valid indices, got {index!r}")
    if type(self) is Tensor and not tapes():
        index = _structure.map_structure(_plain_index, index)
        part = np.asarray(self._value[index], self._value.dtype)
        return _tensor(part if part.flags.c_contiguous else part.copy())
    return dispatch(_index, (self, index), {}, convert)


def _is_index(part: Any) -> bool:
    """Whether a part of an index is one; what it may be in a graph, the operation says."""
    if isinstance(part, (bool, np.bool_, float, str, bytes)):
        return False
    return not isinstance(part, (Tensor, np.ndarray)) or part.ndim == 0 and as_dtype(part.dtype).is_integer


def _plain_index(part: Any) -> Any:
    if isinstance(part, slice):
        return slice(*(None if bound is None else int(bound) for bound in (part.start, part.stop, part.step)))
    return int(part) if isinstance(part, (Tensor, Variable)) else part


#: A variable's value, of which tapes know where it comes from.
read = eager(ops.identity, "read")


def is_recorded(value: Any) -> bool:
    """Whether a tape that records now knows where a value comes from."""
    return any(isinstance(value, Variable) or tape.knows(value) for tape in tapes())


class _Index:
    """An index as an argument that is static and has a hash."""

    def __init__(self, index: Any):
        self.index = index

    def __hash__(self) -> int:
        return hash(repr(self.index))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Index) and repr(self.index) == repr(other.index)


def _index(x: Any, index: Any) -> Any:
    index = index.index if isinstance(index, _Index) else index
    return Node.__getitem__(x, _structure.map_structure(_plain_index, index))  # not that of a subclass, which calls this


_OPERATORS = {"add": ops.add, "sub": ops.subtract, "mul": ops.multiply, "truediv": ops.divide,
              "floordiv": ops.floordiv, "mod": ops.floormod, "pow": ops.pow, "matmul": ops.matmul}
_COMPARISONS = {"lt": ops.less, "le": ops.less_equal, "gt": ops.greater, "ge": ops.greater_equal}


_equality_of_values = [True]


def set_tensor_equality(of_values: bool) -> None:
    """Whether == of tensors and variables compares their values, as in TensorFlow 2, or asks for the same object."""
    _equality_of_values[0] = of_values


def _equality(method: Callable, other_is: bool) -> Callable:
    def compare(self: Any, other: Any) -> Any:
        if other is None:
            return other_is
        if not _equality_of_values[0]:
            return (self is other) is not other_is
        if not _go_together(self, other):
            return Tensor(other_is)
        return method(self, other)

    return compare


def _go_together(x: Any, y: Any) -> bool:
    if type(x) is type(y) is Tensor and x._value.shape == y._value.shape:  # without a Shape of each
        return True
    return isinstance(y, _structure.Composite) or ops.may_broadcast(x, y)


def add_operators(kind: type) -> None:
    """The operators of tensors, for a class whose instances dispatch knows."""
    for name, function in _OPERATORS.items():
        setattr(kind, f"__{name}__", _operator(function))
        setattr(kind, f"__r{name}__", _operator(function, reflected=True))
    for name, function in {**_COMPARISONS, "and": ops.logical_and, "or": ops.logical_or}.items():
        setattr(kind, f"__{name}__", _operator(function))
    kind.__neg__ = eager(ops.negative)
    kind.__abs__ = eager(ops.abs)
    kind.__invert__ = eager(ops.logical_not)
    kind.__getitem__ = _getitem


for _kind in (Tensor, Variable):
    add_operators(_kind)
    _kind.__eq__ = _equality(_operator(ops.equal), False)
    _kind.__ne__ = _equality(_operator(ops.not_equal), True)
Variable.ref = Tensor.ref
