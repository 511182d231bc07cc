# SPDX-License-Identifier: Apache-2.0
"""tf.function: Python functions as steps of a world."""
from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
from typing import Any, Callable

import numpy as np

from .. import errors
from .._lib import ffi, lib, text
from .._tensor import as_array, as_dtype
from ..data import TensorSpec
from ..graph import Graph, NeedsValue, Node, default_graph
from . import _structure
from ._absent import error
from ._eager import Tensor, _tensor, tapes, unwrap
from ._trace import Trace, scopes_of_function
from ._variable import Variable
from ._world import OtherWorld, World, before_write, current_world, writes

_logger = logging.getLogger("tensorflow")
_DRAWING = {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "EstDropout"}
_READING = {"ReadVariableOp", "ResourceGather", "VarIsInitializedOp"}
_WORLDS_MAX = 4  # attempts to find the world of a function
run_eagerly = [False]  # tf.config.run_functions_eagerly
shown: list = [None]  # between tf.summary.trace_on and trace_export the functions that run, by their ids


class TracedIterator:
    """What stands for an iterator among the arguments of a function that is traced."""

    def __init__(self, trace: Trace, position: int, spec: Any):
        self._trace, self._position, self.element_spec = trace, position, spec

    def __iter__(self) -> "TracedIterator":
        raise NeedsValue("a function that is traced cannot loop over an iterator; next() takes one element")

    def __next__(self) -> Any:
        return self._trace.pull(self._position, self.element_spec)

    get_next = __next__

    def get_next_as_optional(self) -> Any:
        raise NeedsValue("whether an iterator has another element is known when it is run")


def is_iterator(value: Any) -> bool:
    return hasattr(value, "_next_values") and hasattr(value, "element_spec")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic)) and not isinstance(value, Node)


class _Spec:
    """How an argument was described when a function was traced."""

    def __init__(self, dtype: Any, shape: Any):
        self.dtype, self.shape = as_dtype(dtype), shape


_OF_GRAPHS = {"graph": "structured_input_signature and structured_outputs; its operations are in a step of the library", "function_type": "pretty_printed_signature()",
              "inference_fn": "the concrete function itself, which takes the same tensors"}


class ConcreteFunction:
    """One trace of a function: a step, and how arguments and results go with it."""

    def __init__(self, function: "Function", world: World, trace: Trace, feeds: list, positions: list, outputs: Any,
                 name: str, operations: range):
        self.name = name
        self.world = world
        self.structured_outputs = outputs
        self._function = function
        self.places = positions  # of tensors among the leaves of the arguments
        self._pulls = trace.pulls
        self._outputs = outputs
        leaves = _structure.flatten(outputs)
        self._nodes = [leaf for leaf in leaves if isinstance(leaf, Node)]
        self.leaves = leaves
        self.derivatives: dict[Any, tuple] = {}  # steps of tapes that go back through a run
        self._operations = operations  # of the graph, that the trace has made
        self._rereads = trace.rereads
        self._effects = [] if function.pure else list(trace.effects)
        self._fetches = self._nodes + [node for nodes, _ in self._effects for node in nodes]
        self._targets = [] if function.pure else list(trace.targets)
        self._writes = bool(self._targets)
        self.feeds = list(feeds) + [node for _, nodes in trace.pulls for node in nodes]
        self._types = [as_dtype(int(lib.est_node_dtype(node._c))) for node in self.feeds]
        self._step: Any = None
        self._draws_numbers: bool | None = None  # None: not looked at yet
        self._written_names: list[bytes] | None = None
        self._keep: list = []  # objects whose identity is a part of the key
        self.arguments: Any = None  # (positional, named), with specs in place of tensors

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.run(self._leaves_of(arguments, named))

    def _leaves_of(self, arguments: tuple, named: dict) -> list:
        """The leaves of arguments: tensors for the specs of the trace, and whatever was no tensor there must be equal."""
        names = [name for name, parameter in self._function._signature.parameters.items()
                 if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
        positional, more = self.arguments
        names = names[:len(positional)] + [f"args_{i}" for i in range(len(names), len(positional))]
        specs = {**dict(zip(names, positional)), **more}
        if len(arguments) < len(positional) and not named:  # objects are in the trace: only tensors are given
            tensors = [name for name in names if any(isinstance(leaf, TensorSpec)
                                                     for leaf in _structure.flatten(specs[name]))]
            if len(arguments) == len(tensors):
                arguments, named = (), dict(zip(tensors, arguments))
        if len(arguments) > len(positional):
            raise TypeError(f"{self.name} takes {len(positional)} positional arguments, got {len(arguments)}")
        given = dict(zip(names, arguments))
        for name, value in named.items():
            if name not in specs or name in given:
                raise TypeError(f"{self.name} got an unexpected argument '{name}', or got it twice; it takes "
                                f"{', '.join(specs)}")
            given[name] = value
        missing = [name for name in names + sorted(more) if name not in given and any(
            isinstance(spec, TensorSpec) for spec in _structure.flatten(specs[name]))]
        if missing:
            raise TypeError(f"{self.name} is missing the arguments {', '.join(missing)}")
        leaves = []
        for name in names + sorted(more):
            wanted = _structure.flatten(specs[name])
            values = _structure.flatten(given[name]) if name in given else wanted
            if len(values) != len(wanted):
                raise TypeError(f"{self.name}: '{name}' has {len(values)} parts, and was traced with {len(wanted)}")
            leaves += [self._leaf(name, value, spec) for value, spec in zip(values, wanted)]
        return leaves

    def _leaf(self, name: str, value: Any, spec: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            if isinstance(spec, (int, float, str, bytes)) and value != spec:
                raise TypeError(f"{self.name} was traced with {name}={spec!r}; got {value!r}, which needs another trace")
            return value
        if isinstance(value, Tensor) and value.dtype != spec.dtype:
            raise errors.InvalidArgumentError(f"{self.name}: '{name}' is a tensor of {spec.dtype.name}, got "
                                              f"{value.dtype.name}")
        return value

    @property
    def argument_names(self) -> list[str]:
        """Names for the tensors among the arguments: of their specs, or of parameters."""
        positional, named = self.arguments
        names: list[str] = []
        parameters = list(self._function._signature.parameters)
        given = list(zip(parameters + [f"args_{i}" for i in range(len(positional))], positional)) + sorted(named.items())
        for name, value in given:
            tensors = [leaf for leaf in _structure.flatten(value) if isinstance(leaf, TensorSpec)]
            for i, leaf in enumerate(tensors):
                names.append(leaf.name or (name if len(tensors) == 1 else f"{name}_{i}"))
        return [name if name not in names[:i] else f"{name}_{i}" for i, name in enumerate(names)]

    @property
    def structured_input_signature(self) -> Any:
        return self.arguments

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The parameters and the results."""
        positional, named = self.arguments
        parameters = list(self._function._signature.parameters)
        given = [*zip(parameters + [f"args_{i}" for i in range(len(positional))], positional), *sorted(named.items())]

        def shown(leaf: Any) -> Any:
            return TensorSpec(leaf.shape, leaf.dtype) if isinstance(leaf, (Node, Tensor, Variable)) else leaf

        if not verbose:
            return f"{self.name}({', '.join(f'{name}: {_structure.map_structure(shown, value)}' for name, value in given)})"
        lines = ["Input Parameters:"]
        lines += [f"  {name} (POSITIONAL_OR_KEYWORD): {_structure.map_structure(shown, value)}" for name, value in given]
        return "\n".join([*lines, "Output Type:", f"  {_structure.map_structure(shown, self._outputs)}"])

    _where = "a concrete function"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _OF_GRAPHS:
            raise AttributeError(f"'ConcreteFunction' object has no attribute {name!r}")
        raise error(self._where, name, _OF_GRAPHS)

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(False)}>"

    def __str__(self) -> str:
        return "ConcreteFunction " + self.pretty_printed_signature()

    def values(self, leaves: list) -> list[np.ndarray]:
        """What to feed: arguments, and the next elements of iterators."""
        found = [leaves[i] for i in self.places]
        values = [leaf._value if type(leaf) is Tensor else leaf for leaf in found]
        for iterator, nodes in self._pulls:
            iterator = leaves[iterator] if isinstance(iterator, int) else iterator
            try:
                values += iterator._next_values()
            except StopIteration:
                raise errors.OutOfRangeError("End of sequence") from None
        return [value if type(value) is np.ndarray and value.dtype == kind.as_numpy_dtype and value.flags.c_contiguous
                else as_array(value, kind) for value, kind in zip(values, self._types)]

    def run(self, leaves: list) -> Any:
        self._prepare()
        return self._run(self.values(leaves))

    def run_for(self, tapes: list, leaves: list, function: Callable, positional: tuple, named: dict,
                given: list | None = None) -> Any:
        """run, which tapes note down as a call of a function; `given` are the leaves as the program had them. The function
        of a program may close over what is bound to something else by the time that gradients are asked for."""
        from ._tape import TracedCall
        self._prepare()
        values, time, own = self.values(leaves), writes[0], None
        if tapes and self._repeats_otherwise:
            with self.world.alone():  # no other run draws in between
                own = TracedCall(self, given or leaves, values, True)
                result = self._run(values)
        else:
            if tapes and self._function._is_users and not (self.world.is_remote or self.world.is_shared):
                own = TracedCall(self, given or leaves, values, False)
            result = self._run(values)
        for tape in tapes:
            tape.record(function, positional, named, False, result, own, time)
        return result

    @property
    def _repeats_otherwise(self) -> bool:
        """Whether the same function with the same arguments and variables may give other results."""
        if self._pulls or self._rereads:
            return True
        if self._draws_numbers is None:
            with self.world.alone():
                self._draws_numbers = self._draws()
        return self._draws_numbers

    def _draws(self) -> bool:
        seen, rest = set(), [node._c for node in self._nodes]
        while rest:
            node = rest.pop()
            if node.id in seen or node.id not in self._operations:
                continue
            seen.add(node.id)
            if text(lib.est_node_op(node)) in _DRAWING:
                return True
            rest += [lib.est_node_input(node, i) for i in range(lib.est_node_inputs(node))]
        return False

    @property
    def _written(self) -> list[bytes]:
        """The names of the variables that a run may write, first values of new ones among them."""
        if self._written_names is None:
            with self.world.alone():
                self._written_names = self._list_written()
        return self._written_names

    def _list_written(self) -> list[bytes]:
        graph = self.world.graph._c
        handles = {}
        for span in (lib.est_global_variables(graph), lib.est_local_variables(graph)):
            handles.update((span.data[i].id, lib.est_node_name(span.data[i])) for i in range(span.n))
        found = set()
        for i in self._operations:
            node = lib.est_graph_operation(graph, i)
            handle = lib.est_node_input(node, 0).id if lib.est_node_inputs(node) > 0 else -1
            if handle in handles and text(lib.est_node_op(node)) not in _READING:
                found.add(ffi.string(handles[handle]))
        return sorted(found)

    def _prepare(self) -> None:
        if shown[0] is not None:
            shown[0][id(self)] = self
        self.world.ready_to_run()
        if self._step is None or self._step._of_session is not self.world._session:
            try:
                self._step = self.world.prepare(self.feeds, self._fetches, self._targets)
            except errors.InvalidArgumentError as error:
                if "must be fed" not in str(error):
                    raise
                raise TypeError(f"{self.name} uses a tensor of another function, which is out of scope: return it from "
                                f"there and give it to this one. {error}") from None

    def _run(self, values: list) -> Any:
        if self._writes:
            before_write(self.world, lambda: self._written)
        results = iter(self.world.run(self._step, values))
        if self._writes:
            self.world.changed()
        outputs = _structure.pack_as(self._outputs, [_tensor(next(results)) if isinstance(leaf, Node) else leaf
                                                     for leaf in self.leaves])
        for nodes, function in self._effects:
            function([next(results) for _ in nodes])
        return outputs


def _output(graph: Graph) -> Callable:
    def convert(leaf: Any) -> Any:
        if leaf is None or isinstance(leaf, Node):
            return leaf
        if isinstance(leaf, Variable):
            return leaf._as_node(graph)
        if isinstance(leaf, (int, float, bool, str, bytes, np.ndarray, np.generic)):
            return Tensor(leaf)
        return leaf

    return convert


class Function:
    """A Python function that is traced once for each kind of arguments, and then run by C."""

    def __init__(self, python_function: Callable, input_signature: Any = None, autograph: bool = False):
        self.python_function = python_function
        self._autograph = autograph  # whether Python may run it where tracing it is impossible
        self._is_users = False  # made by tf.function
        self.pure = False  # whether what it does beside computing its results is left out
        self._untraced = False
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._signature = inspect.signature(python_function)
        self._cache: dict[Any, ConcreteFunction] = {}
        self._relaxed: dict[Any, list] = {}  # by key without shapes: shapes that were seen
        self._fast: dict[Any, ConcreteFunction] = {}
        self._count = 0
        functools.update_wrapper(self, python_function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = instance.__dict__.get("_functions_of_estoc") if hasattr(instance, "__dict__") else None
        if bound is None:
            bound = {}
            object.__setattr__(instance, "_functions_of_estoc", bound)
        if id(self) not in bound:
            bound[id(self)] = Function(self.python_function.__get__(instance, owner), self.input_signature,
                                       self._autograph)
            bound[id(self)]._is_users = self._is_users
        return bound[id(self)]

    experimental_get_tracing_count = lambda self: self._count  # noqa: E731

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        graph = default_graph()
        if graph is not None:  # within another trace, a model_fn or a map: a part of that
            with scopes_of_function(True) if self._is_users else contextlib.nullcontext():
                return self.python_function(*arguments, **named)
        if run_eagerly[0] and self._is_users:
            return self.python_function(*arguments, **named)
        key = None if named else self._tensors_key(arguments)
        concrete = self._fast.get(key) if key is not None else None
        if concrete is not None:
            return self._run(concrete, arguments, arguments, named)
        if self._untraced:
            return self._call_python(arguments, named)
        try:
            concrete, leaves = self.concrete(arguments, named)
        except NeedsValue as why:
            if not self._autograph:
                raise
            self._untraced = True
            _logger.warning("tf.function %s is run as Python, operation by operation, which is slower: %s. Functions "
                            "that it calls, and those of strategy.run, are still traced.", self.__name__, why)
            return self._call_python(arguments, named)
        if key is not None and len(leaves) == len(arguments):
            self._fast[key] = concrete
        return self._run(concrete, leaves, arguments, named)

    def _run(self, concrete: ConcreteFunction, leaves: Any, arguments: tuple, named: dict) -> Any:
        stack = tapes() if self._is_users else None
        return concrete.run_for(stack, leaves, self.python_function, arguments, named) if stack else concrete.run(leaves)

    def _call_python(self, arguments: tuple, named: dict) -> Any:
        """What AutoGraph would have made of loops and branches on tensors: the same values, step by step."""
        arguments, named = self._bind(arguments, named)
        if self.input_signature is not None:
            arguments = self._conform(arguments)

        def tensor(leaf: Any) -> Any:
            return _tensor(leaf) if isinstance(leaf, np.ndarray) else leaf

        positional, more = _structure.map_structure(tensor, (arguments, named))
        with scopes_of_function(False):
            result = self.python_function(*positional, **more)
        return _structure.map_structure(
            lambda leaf: Tensor(unwrap(leaf)) if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) else leaf,
            result)

    @staticmethod
    def _tensors_key(arguments: tuple) -> Any:
        """Describes arguments that are all tensors with values, in short; None: they are not."""
        key: list = [id(strategy) for strategy in _strategies()]
        for value in arguments:
            if type(value) is Tensor:
                value = value._value
            elif type(value) is not np.ndarray:
                return None
            key.append(value.dtype.num)
            key.append(value.shape)
        return tuple(key)

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The parameters and results of all traces."""
        traces = list({id(item): item for item in self._cache.values()}.values())
        return "\n\n".join(item.pretty_printed_signature(verbose) for item in traces)

    def get_concrete_function(self, *arguments: Any, **named: Any) -> ConcreteFunction:
        if self.input_signature is not None and not arguments and not named:
            arguments = self.input_signature
        concrete, leaves = self.concrete(arguments, named)
        names = [leaf.name if isinstance(leaf, TensorSpec) else None for leaf in leaves]
        known = _structure.flatten(concrete.arguments)
        if any(name is not None and name != spec.name for name, spec in zip(names, known)):
            concrete = copy.copy(concrete)  # the same step, called by these names
            concrete.arguments = _structure.pack_as(concrete.arguments, [
                spec if name is None else TensorSpec(spec.shape, spec.dtype, name) for name, spec in zip(names, known)])
        return concrete

    # --- finding a trace ---

    def _bind(self, arguments: tuple, named: dict) -> tuple[tuple, dict]:
        if not named and not any(p.default is not p.empty for p in self._signature.parameters.values()):
            return arguments, named
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def concrete(self, arguments: tuple, named: dict, world: World | None = None) -> tuple[ConcreteFunction, list]:
        arguments, named = self._bind(arguments, named)
        if self.input_signature is not None:
            arguments = self._conform(arguments)
        shapes: list = []
        kept: list = []

        def leaf_key(leaf: Any) -> Any:
            if isinstance(leaf, (Tensor, np.ndarray)) and not isinstance(leaf, Node):
                value = leaf._value if type(leaf) is Tensor else leaf
                shapes.append(value.shape)
                return ("t", as_dtype(value.dtype).number, value.ndim)
            if isinstance(leaf, np.generic):
                shapes.append(())
                return ("t", as_dtype(leaf.dtype).number, 0)
            if isinstance(leaf, TensorSpec):
                shapes.append(leaf.shape)
                return ("t", leaf.dtype.number, None if leaf.shape is None else len(leaf.shape))
            if is_iterator(leaf):
                return ("i", repr(leaf.element_spec))
            if leaf is None or isinstance(leaf, (int, float, bool, str, bytes)):
                return (type(leaf), leaf)
            kept.append(leaf)
            if hasattr(leaf, "__tf_tracing_type__"):
                return ("T", leaf.__tf_tracing_type__(None))
            return ("o", id(leaf))

        strategy = tuple(id(s) for s in _strategies())
        plain = (_structure.key_of((arguments, named), leaf_key), strategy)
        leaves = _structure.flatten((arguments, named))
        if self.input_signature is not None:
            shapes = [spec.shape for spec in _structure.flatten(self.input_signature)]
        found = self._cache.get((plain, tuple(shapes)))
        if found is None:
            found = self._find_relaxed(plain, shapes) or self._trace(plain, arguments, named, leaves, shapes, kept,
                                                                     world)
        return found, leaves

    def _conform(self, arguments: tuple) -> tuple:
        specs = self.input_signature
        if len(arguments) != len(specs):
            raise TypeError(f"{self.__name__} has an input_signature of {len(specs)} arguments; {len(arguments)} were "
                            "given")

        def one(leaf: Any, spec: Any) -> Any:
            if isinstance(leaf, TensorSpec):
                return leaf
            value = as_array(unwrap(leaf), spec.dtype if isinstance(leaf, (int, float, list, tuple)) else None)
            fits = spec.shape is None or len(spec.shape) == value.ndim and all(
                want is None or want == have for want, have in zip(spec.shape, value.shape))
            if as_dtype(value.dtype) != spec.dtype or not fits:
                raise TypeError(f"Binding inputs to tf.function `{self.__name__}` failed: a tensor of dtype "
                                f"{value.dtype} and shape {value.shape} does not fit {spec}")
            return Tensor(value)

        given, want = _structure.flatten(arguments), _structure.flatten(specs)
        if len(given) != len(want):
            return _structure.pack_as(specs, [one(a, s) for a, s in zip(arguments, want)])
        return _structure.pack_as(arguments, [one(a, s) for a, s in zip(given, want)])

    def _find_relaxed(self, plain: Any, shapes: list) -> ConcreteFunction | None:
        for seen, concrete in self._relaxed.get(plain, ()):
            if all(a is None or len(a) == len(b) and all(x is None or x == y for x, y in zip(a, b))
                   for a, b in zip(seen, shapes)):
                self._cache[(plain, tuple(shapes))] = concrete
                return concrete
        return None

    # --- tracing ---

    def _trace(self, plain: Any, arguments: tuple, named: dict, leaves: list, shapes: list, kept: list,
               world: World | None) -> ConcreteFunction:
        seen = self._relaxed.setdefault(plain, [])
        wider = None
        if seen and self.input_signature is None:
            last = seen[-1][0]
            wider = [tuple(x if x == y else None for x, y in zip(a, b)) if a is not None else None
                     for a, b in zip(last, shapes)]
        for attempt in ((wider, shapes) if wider is not None else (shapes,)):
            try:
                concrete = self._trace_world(arguments, named, leaves, attempt, world)
                break
            except (errors.OpError, ValueError, TypeError, NotImplementedError):
                if attempt is shapes:
                    raise
        concrete._keep = kept
        seen.append((attempt, concrete))
        self._cache[(plain, tuple(shapes))] = concrete
        return concrete

    def _trace_world(self, arguments: tuple, named: dict, leaves: list, shapes: list,
                     world: World | None) -> ConcreteFunction:
        world = world or current_world()
        for _ in range(_WORLDS_MAX):
            try:
                return self._trace_in(world, arguments, named, leaves, shapes)
            except OtherWorld as other:
                if other.world is world:
                    raise
                world = other.world
        raise NotImplementedError("a function uses variables of several clusters, or of before and after "
                                  "tf.keras.backend.clear_session, which cannot run in one step")

    def _trace_in(self, world: World, arguments: tuple, named: dict, leaves: list, shapes: list) -> ConcreteFunction:
        self._count += 1
        first = lib.est_graph_operations(world.graph._c)
        with scopes_of_function(True) if self._is_users else contextlib.nullcontext(), Trace(world) as trace:
            rest = iter(shapes)
            feeds, positions, made = [], [], []
            for i, leaf in enumerate(leaves):
                if _is_tensor(leaf) or isinstance(leaf, TensorSpec):
                    dtype = leaf.dtype if isinstance(leaf, (Tensor, TensorSpec)) else as_dtype(leaf.dtype)
                    node = world.graph.placeholder(None, dtype, next(rest))
                    feeds.append(node)
                    positions.append(i)
                    made.append(node)
                elif is_iterator(leaf):
                    made.append(TracedIterator(trace, i, leaf.element_spec))
                else:
                    made.append(leaf)
            positional, more = _structure.pack_as((arguments, named), made)
            result = self.python_function(*positional, **more)
            world.graph.check()
            outputs = _structure.map_structure(_output(world.graph), result)
            world.graph.check()
        concrete = ConcreteFunction(self, world, trace, feeds, positions, outputs, getattr(self, "__name__", "function"),
                                    range(first, lib.est_graph_operations(world.graph._c)))
        specs = list(leaves)
        for position, node in zip(positions, feeds):
            name = leaves[position].name if isinstance(leaves[position], TensorSpec) else None
            specs[position] = TensorSpec(node.shape, node.dtype, name)
        concrete.arguments = _structure.pack_as((arguments, named), specs)
        return concrete


def _strategies() -> list:
    from ._trace import strategies
    return strategies()


def function(func: Callable | None = None, input_signature: Any = None, autograph: bool = True,
             jit_compile: bool | None = None, reduce_retracing: bool = False, experimental_implements: Any = None,
             experimental_autograph_options: Any = None, experimental_attributes: Any = None,
             experimental_relax_shapes: bool | None = None, experimental_compile: Any = None,
             experimental_follow_type_hints: Any = None) -> Any:
    """Makes a step of a Python function, traced with nodes. One that branches on tensors or loops over a dataset is run
    as Python, with a warning; with autograph=False it raises."""
    if func is None:
        return functools.partial(function, input_signature=input_signature, autograph=autograph)
    made = Function(func, input_signature, bool(autograph))
    made._is_users = True
    return made
