# SPDX-License-Identifier: Apache-2.0
"""tf.function and tf.GradientTape: Python functions as steps of a world, and derivatives."""
from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
from typing import Any, Callable

import numpy as np

from .. import errors
from .._lib import Keep, ffi, here, lib
from .._tensor import as_array, as_dtype
from ..data import TensorSpec
from ..graph import Graph, NeedsValue, Node, as_node, default_graph
from . import _structure
from ._eager import Tensor, _tensor, tapes, unwrap
from ._world import OtherWorld, Trace, Variable, World, current_world

_logger = logging.getLogger("tensorflow")
_WORLDS_MAX = 4  # attempts to find the world of a function
run_eagerly = [False]  # tf.config.run_functions_eagerly


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


class ConcreteFunction:
    """One trace of a function: a step, and how arguments and results go with it."""

    def __init__(self, function: "Function", world: World, trace: Trace, feeds: list, positions: list, outputs: Any,
                 name: str):
        self.name = name
        self.world = world
        self.structured_outputs = outputs
        self._function = function
        self._positions = positions  # of tensors among the leaves of the arguments
        self._pulls = trace.pulls
        self._outputs = outputs
        leaves = _structure.flatten(outputs)
        self._nodes = [leaf for leaf in leaves if isinstance(leaf, Node)]
        self._leaves = leaves
        self._effects = [] if function._pure else list(trace.effects)
        self._fetches = self._nodes + [node for nodes, _ in self._effects for node in nodes]
        self._targets = [] if function._pure else list(trace.targets)
        self._writes = bool(self._targets)
        self.feeds = list(feeds) + [node for _, nodes in trace.pulls for node in nodes]
        self._types = [as_dtype(int(lib.est_node_dtype(node._c))) for node in self.feeds]
        self._step: Any = None
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

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(False)}>"

    def __str__(self) -> str:
        return "ConcreteFunction " + self.pretty_printed_signature()

    def values(self, leaves: list) -> list[np.ndarray]:
        """What to feed: arguments, and the next elements of iterators."""
        found = [leaves[i] for i in self._positions]
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
        self.world.ready_to_run()
        if self._step is None or self._step._of_session is not self.world._session:
            try:
                self._step = self.world.prepare(self.feeds, self._fetches, self._targets)
            except errors.InvalidArgumentError as error:
                if "must be fed" not in str(error):
                    raise
                raise TypeError(f"{self.name} uses a tensor of another function, which is out of scope: return it from "
                                f"there and give it to this one. {error}") from None
        values = self.values(leaves)
        results = iter(self.world.run(self._step, values))
        if self._writes:
            self.world.changed()
        outputs = _structure.pack_as(self._outputs, [_tensor(next(results)) if isinstance(leaf, Node) else leaf
                                                     for leaf in self._leaves])
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
        self._pure = False  # whether what it does beside computing its results is left out
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
            return self.python_function(*arguments, **named)
        if run_eagerly[0] and self._is_users:
            return self.python_function(*arguments, **named)
        key = None if named else self._tensors_key(arguments)
        concrete = self._fast.get(key) if key is not None else None
        if concrete is not None:
            return self._recorded(concrete.run(arguments), arguments, named)
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
        return self._recorded(concrete.run(leaves), arguments, named)

    def _recorded(self, result: Any, arguments: tuple, named: dict) -> Any:
        """The result, which tapes of the program know how to compute again."""
        for tape in tapes() if self._is_users else ():
            tape.record(self.python_function, arguments, named, None, result)
        return result

    def _call_python(self, arguments: tuple, named: dict) -> Any:
        """What AutoGraph would have made of loops and branches on tensors: the same values, step by step."""
        arguments, named = self._bind(arguments, named)
        if self.input_signature is not None:
            arguments = self._conform(arguments)

        def tensor(leaf: Any) -> Any:
            return _tensor(leaf) if isinstance(leaf, np.ndarray) else leaf

        positional, more = _structure.map_structure(tensor, (arguments, named))
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
        plain = (_structure.key_of((arguments, named), leaf_key), strategy, len(tapes()) > 0 and None)
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
        with Trace(world) as trace:
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
        concrete = ConcreteFunction(self, world, trace, feeds, positions, outputs, getattr(self, "__name__", "function"))
        specs = list(leaves)
        for position, node in zip(positions, feeds):
            name = leaves[position].name if isinstance(leaves[position], TensorSpec) else None
            specs[position] = TensorSpec(node.shape, node.dtype, name)
        concrete.arguments = _structure.pack_as((arguments, named), specs)
        return concrete


def _strategies() -> list:
    from ._world import strategies
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


# --- gradients --------------------------------------------------------------------------------------------------------


class IndexedSlices:
    """The gradient of a variable of which only some rows were read."""

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None):
        self.values, self.indices, self.dense_shape = values, indices, dense_shape

    dtype = property(lambda self: self.values.dtype)

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices!r}, values={self.values!r})"


def build_gradients(targets: list, given: list | None, sources: list) -> list:
    """d(sum of targets) / d(source) in a graph, for nodes and variables; None where there is none. `given` are gradients
    towards the targets in place of ones."""
    here()
    graph, keep = targets[0].graph, Keep()
    handles = [source._handle._c if isinstance(source, Variable) else source._c for source in sources]
    out = ffi.new("est_gradient[]", max(len(handles), 1))
    lib.est_gradients_from(keep.span("est_nodes", "est_node", [target._c for target in targets]),
                           keep.span("est_nodes", "est_node", [ffi.new("est_node *")[0] if weight is None else weight._c
                                                               for weight in given or ()]),
                           keep.span("est_nodes", "est_node", handles), out)
    graph.check()
    found: list = []
    for i, source in enumerate(sources):
        if out[i].values.graph == ffi.NULL:
            found.append(None)
        elif out[i].indices.graph != ffi.NULL:
            found.append(IndexedSlices(Node(graph, out[i].values), Node(graph, out[i].indices), source.shape))
        else:
            found.append(Node(graph, out[i].values))
    return found


def dense(gradient: IndexedSlices) -> Any:
    """A gradient as one tensor."""
    from ._array import unsorted_segment_sum
    return unsorted_segment_sum(gradient.values, gradient.indices, int(gradient.dense_shape[0]))


class UnconnectedGradients:
    """What a gradient is where nothing connects: None, or zeros."""

    NONE, ZERO = "none", "zero"


class GradientTape:
    """Derivatives of what is computed within its block. In a function that is traced it records nothing: the graph
    has it all. Outside, it notes calls down; `gradient` builds them into a step, which is kept for the next time."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent = persistent
        self._accessed = watch_accessed_variables
        self._watched: list = []
        self._records: list = []
        self._seen: list = []  # variables of records that are gone
        self._used = False
        self._traced = False

    def __enter__(self) -> "GradientTape":
        self._traced = default_graph() is not None
        if not self._traced:
            tapes().append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        if not self._traced and self in tapes():
            tapes().remove(self)

    def watch(self, tensor: Any) -> None:
        self._watched += _structure.flatten(tensor)

    def watched_variables(self) -> tuple:
        """The variables that recorded calls were given, or that belong to the layers and modules called."""
        found = [item for item in self._watched + self._seen if isinstance(item, Variable)]
        for function, positional, named, *_ in self._records if self._accessed else ():
            found += [leaf for leaf in _structure.flatten((positional, named)) if isinstance(leaf, Variable)]
            found += getattr(getattr(function, "__self__", None), "trainable_variables", ())
        return tuple({id(item): item for item in found if item.trainable}.values())

    def reset(self) -> None:
        self._records, self._watched, self._seen = [], [], []

    def record(self, function: Callable, positional: tuple, named: dict, convert: Callable, result: Any) -> None:
        self._records.append((function, positional, named, convert, result))

    def _is_watched(self, source: Any) -> bool:
        if any(source is item for item in self._watched):
            return True
        return isinstance(source, Variable) and self._accessed and source.trainable

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or "
                               "jacobians)")
        self._used = True
        leaves = _structure.flatten(sources)
        targets = _structure.flatten(target)
        given = None if output_gradients is None else _structure.flatten(output_gradients)
        zero = str(getattr(unconnected_gradients, "value", unconnected_gradients)).lower() == "zero"
        if default_graph() is not None:
            found = self._in_graph(targets, leaves, given)
        else:
            found = self._at_once(targets, leaves, given)
        if zero:
            from .. import ops
            found = [Tensor(np.zeros(tuple(source.shape), source.dtype.as_numpy_dtype)) if gradient is None and
                     default_graph() is None else ops.zeros_like(unwrap(source)) if gradient is None else gradient
                     for gradient, source in zip(found, leaves)]
        if not self._persistent:
            self._forget()
        return _structure.pack_as(sources, found)

    def _forget(self) -> None:
        self._seen = list(self.watched_variables())
        self._records = []

    def _in_graph(self, targets: list, sources: list, given: list | None) -> list:
        graph = default_graph()
        targets = [unwrap(target) for target in targets]
        for target in targets:
            if isinstance(target, Node) and not target.dtype.is_floating:
                _logger.warning("The dtype of the target tensor must be floating (e.g. tf.float32) when calling "
                                "GradientTape.gradient, got tf.%s", target.dtype.name)
                return [None] * len(sources)
        ends = [(target, None if given is None or given[i] is None else _towards(target, given[i]))
                for i, target in enumerate(targets) if isinstance(target, Node)]
        if not ends:
            return [None] * len(sources)
        known = [source for source in sources if isinstance(source, Node) or self._is_watched(source)]
        wanted = [source for source in known if isinstance(source, (Node, Variable))]
        for source in wanted:
            if isinstance(source, Variable) and source.graph is not graph:
                raise OtherWorld(source._world)
        found = iter(build_gradients([target for target, _ in ends], [weight for _, weight in ends], wanted))
        return [next(found) if any(source is item for item in wanted) else None for source in sources]

    # --- outside of traces ---

    def _at_once(self, targets: list, sources: list, given: list | None) -> list:
        from ._custom_gradient import OwnGradient, backwards
        if any(isinstance(record[0], OwnGradient) for record in self._records):
            return backwards(self, targets, sources, given)
        produced = {id(leaf) for record in self._records for leaf in _structure.flatten(record[4])}
        watched = [source for source in sources if self._is_watched(source) or id(source) in produced]
        found = iter(self._of_records(self._records, targets, watched, given))
        return [next(found) if any(source is item for item in watched) else None for source in sources]

    def _of_records(self, records: list, targets: list, watched: list, given: list | None) -> list:
        """The gradients towards `watched` of what these calls have computed."""
        produced: dict[int, tuple] = {}
        for number, record in enumerate(records):
            for k, leaf in enumerate(_structure.flatten(record[4])):
                produced[id(leaf)] = (number, k)
        leaves: list = []
        places: dict[int, int] = {}

        def reference(leaf: Any) -> Any:
            if id(leaf) in produced:
                return ("r",) + produced[id(leaf)]
            if isinstance(leaf, Variable):
                return ("v", id(leaf))
            if isinstance(leaf, (Tensor, np.ndarray)):
                if id(leaf) not in places:
                    places[id(leaf)] = len(leaves)
                    leaves.append(leaf)
                value = leaf._value if type(leaf) is Tensor else leaf
                return ("l", places[id(leaf)], value.dtype.num, value.shape)
            try:
                hash(leaf)
            except TypeError:
                return ("s", repr(leaf))
            return ("s", leaf)

        for source in watched:
            if type(source) is Tensor:
                reference(source)
        keys = [(record[0], _structure.key_of((record[1], record[2]), reference)) for record in records]
        key = (tuple(keys), tuple(reference(target) for target in targets),
               tuple(reference(source) for source in watched),
               None if given is None else tuple(weight is not None for weight in given))
        weights = [as_array(unwrap(item)) for item in given or () if item is not None]
        cached = _gradient_steps.get(key)
        if cached is None:
            cached = _gradient_steps[key] = _GradientStep(records, targets, watched, places, produced, given)
            if len(_gradient_steps) > _GRADIENT_STEPS_MAX:
                _gradient_steps.pop(next(iter(_gradient_steps)))
        results = cached([as_array(unwrap(leaf)) for leaf in leaves], weights)
        for tape in tapes():
            if tape is not self and not any(cached._form):
                tape.record(cached.replay, (leaves, [item for item in given or () if item is not None]), {}, None,
                            results)
        return results

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
                 parallel_iterations: int | None = None, experimental_use_pfor: bool = True) -> Any:
        """The derivative of every element of the target, one gradient for each: [target's shape, source's shape]."""
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or "
                               "jacobians)")
        if default_graph() is not None:
            raise NotImplementedError("GradientTape.jacobian exists outside of functions; gradient() exists in both")
        value = as_array(unwrap(target))
        leaves, rows = _structure.flatten(sources), []
        persistent, self._persistent = self._persistent, True
        try:
            for i in range(value.size):
                weight = np.zeros(value.size, value.dtype)
                weight[i] = 1
                found = self.gradient(target, leaves, Tensor(weight.reshape(value.shape)), unconnected_gradients)
                rows.append([dense(item) if isinstance(item, IndexedSlices) else item for item in found])
        finally:
            self._persistent = persistent
        self._used = True
        if not persistent:
            self._forget()
        stacked = [None if column[0] is None else Tensor(np.stack([item._value for item in column]).reshape(
            value.shape + tuple(source.shape))) for source, column in zip(leaves, zip(*rows))]
        return _structure.pack_as(sources, stacked)

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
                       parallel_iterations: int | None = None, experimental_use_pfor: bool = True) -> Any:
        """The derivatives of the elements of each row of the target by the same row of the source."""
        value = as_array(unwrap(target))
        whole = self.jacobian(target, source, unconnected_gradients)
        if whole is None:
            return None
        rows = range(value.shape[0])
        return Tensor(np.stack([whole._value[(i,) + (slice(None),) * (value.ndim - 1) + (i,)] for i in rows]))

    @contextlib.contextmanager
    def stop_recording(self) -> Any:
        """Operations within are not recorded."""
        recording = not self._traced and self in tapes()
        if recording:
            tapes().remove(self)
        try:
            yield
        finally:
            if recording:
                tapes().append(self)


_gradient_steps: dict[Any, "_GradientStep"] = {}
_GRADIENT_STEPS_MAX = 256


def forget_gradients() -> None:
    """What tapes have computed, and the models that they recorded."""
    _gradient_steps.clear()


class _GradientStep:
    """Recorded calls as a function that computes derivatives."""

    def __init__(self, records: list, targets: list, watched: list, places: dict, produced: dict, given: list | None):
        # objects of the first recording, whose identity is the key; values of later ones are fed
        self._keep = (records, targets, watched)
        self._form: list = []

        are_given = None if given is None else [weight is not None for weight in given]

        def replay(leaves: list, weights: list) -> Any:
            made: dict[int, Any] = {}
            rest = iter(weights)

            def find(leaf: Any) -> Any:
                if id(leaf) in made:
                    return made[id(leaf)]
                return leaves[places[id(leaf)]] if id(leaf) in places else leaf

            for call, positional, named, convert, result in records:
                args, more = _structure.map_structure(find, (positional, named))
                if convert is not None and not any(isinstance(leaf, (Node, Variable))
                                                   for leaf in _structure.flatten((args, more))):
                    value = result  # of numbers alone, which are a part of the key
                else:
                    value = call(*(unwrap(item) for item in args), **{key: unwrap(item) for key, item in more.items()})
                for leaf, node in zip(_structure.flatten(result), _structure.flatten(value)):
                    made[id(leaf)] = node
            tape = GradientTape(persistent=True)
            tape.watch([find(source) for source in watched])
            found = tape.gradient([find(target) for target in targets], [find(source) for source in watched],
                                  None if are_given is None else [next(rest) if one else None for one in are_given])
            self._form = [isinstance(item, IndexedSlices) for item in found]
            return [(item.values, item.indices) if isinstance(item, IndexedSlices) else item for item in found]

        self.replay = replay
        self._function = Function(replay)
        self._function._pure = True  # the calls have done it
        self._sources = watched

    def __call__(self, values: list, weights: list) -> list:
        found = self._function([Tensor(value) for value in values], [Tensor(value) for value in weights])
        return [IndexedSlices(item[0], item[1], source.shape) if sparse else item
                for item, sparse, source in zip(found, self._form, self._sources)]


def _towards(target: Node, given: Any) -> Node:
    """A gradient towards a target, which has its shape."""
    from .. import ops
    weight = as_node(unwrap(given), target.graph, target.dtype)
    same = weight.shape is not None and target.shape is not None and None not in weight.shape and \
        tuple(weight.shape) == tuple(target.shape)
    return weight if same else weight * ops.ones_like(target)
