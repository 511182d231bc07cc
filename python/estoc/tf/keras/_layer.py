# SPDX-License-Identifier: Apache-2.0
"""Layers: those of the C library as objects of Python, layers that are written in Python, and functional models.

A layer is called in the graph of a function that is traced, of a network that is fitted, of a model_fn or of a map;
outside of all of them its call is a function of the world in which the layer was made. In each graph it has variables
of its own, which Python keeps in step.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import re
import threading
import weakref
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ... import _frames, ops
from ..._lib import NULL, Keep, check, ffi, here, lib, made, text
from ..._tensor import as_array, as_dtype, c_shape, float32
from ...graph import Graph, Node, Shape, as_node, default_graph
from .. import _structure
from .._absent import Named
from .._eager import Tensor, add_operators, forget_computed, tapes, unwrap
from .._function import Function
from .._creators import announce
from .._tape import forget_gradients
from .._world import Variable, World, count_variables, current_world, new_variables, take_updates
from .._world import new_world, updates_of
from . import mixed_precision
from ._recorded import Recorded

_VIEWS = (type({}.values()), type({}.items()))
_context = threading.local()
_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_global_counts: dict[str, int] = {}
_counting = threading.Lock()


def unique_name(base: str) -> str:
    """ "dense", "dense_1": counted in the graph of a model_fn, or in the program."""
    graph = default_graph()
    with _counting:
        counts = _global_counts
        if graph is not None and getattr(graph, "world", None) is None:
            counts = _counts.setdefault(graph, {})
        n = counts.get(base, 0)
        counts[base] = n + 1
    return base if n == 0 else f"{base}_{n}"


def reset_uids() -> None:
    """Names count from the beginning again."""
    _global_counts.clear()


def clear_session() -> None:
    """Names count from the beginning again, and what is made from now on is apart from what was there: memory of models
    that nothing refers to any more is freed (tf.keras.backend.clear_session)."""
    reset_uids()
    forget_computed()
    forget_gradients()
    new_world()


def snake(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return name if not name.startswith("_") else "private" + name


# --- functional models ------------------------------------------------------------------------------------------------

_sketches: list[Graph] = []
_sketching = threading.RLock()


@contextlib.contextmanager
def _sketch(layer: "Layer | None" = None) -> Iterator[Graph]:
    """The graph in which functional models find out shapes; nothing of it is ever run. Other threads wait, for the world
    first: a thread that traces in it may make a model, too."""
    with (layer._world_now() if layer is not None else current_world()).alone(), _sketching:
        if not _sketches:
            _sketches.append(Graph())
            _sketches[0].is_sketch = _sketches[0].only_shapes = True
        yield _sketches[0]


class Call:
    """A call of a layer or an operation in a functional model."""

    def __init__(self, function: Callable, positional: tuple, named: dict, layer: "Layer | None"):
        self.function, self.positional, self.named, self.layer = function, positional, named, layer
        self.made: Any = None  # the tensors that it gave


class KerasTensor(Node):
    """The value of an Input, or of a layer that was called with one: what functional models are made of."""

    def __init__(self, node: Node, call: Call | None, index: int = 0, name: str | None = None):
        super().__init__(node.graph, node._c)
        self._call, self._index, self._own_name = call, index, name

    @property
    def name(self) -> str:
        return self._own_name or super().name

    _keras_mask = property(lambda self: self.graph.masks.get(_place(self)))

    @staticmethod
    def _keras_call(function: Callable, positional: tuple, named: dict, layer: "Layer | None" = None) -> Any:
        call = Call(function, positional, named, layer)
        with _sketch(layer) as graph:
            try:
                with graph.as_default():
                    args, more = _structure.map_structure(unwrap, (positional, named))
                    result = function(*args, **more)
                    graph.check()
            except BaseException:
                lib.est_graph_recover(graph._c)
                raise
        numbers = iter(range(len(_structure.flatten(result))))
        made = _structure.map_structure(
            lambda node: KerasTensor(node, call, next(numbers)) if isinstance(node, Node) else node, result)
        call.made = made
        if layer is not None:
            layer.__dict__["_symbolic"] = (positional[0] if positional else None, made)
        return made

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<KerasTensor: shape={self.shape} dtype={self.dtype.name} (created by {self.name!r})>"


add_operators(KerasTensor)


def Input(shape: Sequence | None = None, batch_size: int | None = None, name: str | None = None, dtype: Any = None,
          sparse: bool | None = None, tensor: Any = None, ragged: bool | None = None, type_spec: Any = None,
          batch_shape: Sequence | None = None) -> KerasTensor:  # noqa: N802
    """The input of a functional model; `shape` is without the batch."""
    for given, what in ((sparse, "sparse"), (tensor, "tensor"), (ragged, "ragged"), (type_spec, "type_spec")):
        if given:
            raise NotImplementedError(f"Input: {what} does not exist yet; to_tensor() of ragged tensors, and tf.sparse.to_dense "
                                      "of sparse ones, make dense inputs, with Embedding(mask_zero=True) or Masking")
    if shape is None and batch_shape is None:
        raise ValueError("Please provide to Input a `shape` argument.")
    full = tuple(batch_shape) if batch_shape is not None else (batch_size,) + tuple(
        (shape,) if isinstance(shape, int) else shape)
    with _sketch() as graph:
        node = graph.placeholder(None, as_dtype(dtype or float32), full)
    if name is None:
        name = unique_name("input")
        name = f"input_{int(name[len('input_'):] or 0) + 1}"  # from 1, as in Keras
    return KerasTensor(node, None, 0, name)


# --- the call under way -----------------------------------------------------------------------------------------------


def shown_name(own: str) -> str:
    """The name of a variable in Keras: below the names of the layers that are being called."""
    return "/".join(_context.__dict__.get("names", []) + [own]) + ":0"


@contextlib.contextmanager
def _apart() -> Any:
    """Around a model of layers that exist by themselves: their variables are not named below what calls the model."""
    before, _context.names = _context.__dict__.get("names", []), []
    try:
        yield
    finally:
        _context.names = before


class _Calling:
    """Whether the outermost layer that is called trains: inner ones that are not told do the same."""

    def __init__(self, training: Any):
        self.training = training

    def __enter__(self) -> bool:
        """Whether this call is the outermost one."""
        self.before = _context.__dict__.get("training")
        _context.training = self.training
        depth = _context.__dict__.get("depth", 0)
        _context.depth = depth + 1
        return depth == 0

    def __exit__(self, *exception: Any) -> None:
        _context.training = self.before
        _context.depth -= 1


def is_training() -> bool:
    """Whether a layer is called to train."""
    return bool(_context.__dict__.get("training"))


@functools.lru_cache(maxsize=None)
def _training_by_default(kind: type) -> bool | None:
    """What the `call` of a class takes `training` for when nobody says; None: it says nothing."""
    parameter = inspect.signature(kind.call).parameters.get("training")
    return parameter.default if parameter is not None and isinstance(parameter.default, bool) else None


def training_phase(value: Any) -> Any:
    """A `training` argument as a bool: Python decides which graph is built."""
    if value is None:
        return None
    if isinstance(value, Node):
        raise NotImplementedError("training must be True or False; a graph is built for one of them")
    return bool(value)


def _policy_of(dtype: Any) -> mixed_precision.Policy | None:
    """The policy of a layer that was given this dtype; None: another type, of layers that work on strings and integers."""
    if dtype is None:
        return mixed_precision.global_policy()
    if isinstance(dtype, mixed_precision.Policy):
        return dtype
    name = dtype if isinstance(dtype, str) else as_dtype(dtype).name
    return mixed_precision.Policy(name) if "float" in name else None


def _precision_of(policy: mixed_precision.Policy | None) -> int:
    mixed = policy is not None and policy.is_mixed
    return lib.EST_PRECISION_MIXED_BFLOAT16 if mixed else lib.EST_PRECISION_FLOAT32


_OF_LIBRARY = ("kernel", "bias", "embeddings")  # which no other tensor can stand for
_KINDS = ("_layers", "_own_weights", "_own_metrics")


class _Seen:
    """A list or a dict among the attributes of a layer, and the layers, variables, lists and dicts that were in it when
    it was looked at. A long list of something else, to which a program appends, is compared by identity only."""

    def __init__(self, value: list | dict):
        self.value = value
        self.items: list = []  # kept, so that their identity is theirs
        self.parts: list = []
        self.look()

    def look(self) -> bool:
        """Whether layers or variables came, went or changed their places."""
        value, count, changed = self.value, len(self.items), False
        items = list(value.values()) if isinstance(value, dict) else value
        if len(items) < count or not all(map(operator.is_, self.items, items)):
            changed = bool(self.parts)
            self.items, self.parts, count = [], [], 0
        if len(items) > count:
            self.items += items[count:]
            parts = [part for item in self.items[count:] for part in _parts_of(item)]
            if parts and isinstance(value, dict):
                parts = [part for key in _in_order(value) for part in _parts_of(value[key])]
                self.parts = []
            self.parts += parts
            changed = changed or bool(parts)
        for part in self.parts:
            if type(part) is _Seen:
                changed = part.look() or changed
        return changed


def _in_order(value: dict) -> list:
    """The keys of a dict as _structure.flatten has them; keys that nothing orders as they came."""
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def _parts_of(value: Any) -> list:
    """The layers and variables of an attribute, and its lists and dicts, which may get more of them."""
    if isinstance(value, (Layer, Variable)):
        return [value]
    if isinstance(value, (list, dict)):
        return [_Seen(value)]
    if isinstance(value, _structure.PerReplica):
        value = value.values
    return [part for item in value for part in _parts_of(item)] if isinstance(value, tuple) else []


def _leaves_of(parts: list) -> Iterator[Any]:
    for part in parts:
        if type(part) is _Seen:
            yield from _leaves_of(part.parts)
        else:
            yield part


@functools.lru_cache(maxsize=None)
def _calls_library(kind: type) -> bool:
    """Whether a class of the program overrides `call` of a layer of the library: it is called as one written in Python."""
    owner = next(item for item in kind.__mro__ if "call" in item.__dict__)
    return not owner.__module__.startswith("estoc.") and kind._call_in is not Layer._call_in


_changes = [0]  # of layers that may have been called
_reads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # class -> names


def _read_by_call(kind: type) -> set[str]:
    """The names that `call` of a class of the program reads, and the methods that it calls; of the library's classes
    none, which know nothing of attributes that are set later."""
    if kind not in _reads:
        names: set[str] = set()
        todo = ["call", "compute_mask"]
        while todo:
            name = todo.pop()
            for owner in kind.__mro__:
                if not owner.__module__.startswith("estoc.") and name in owner.__dict__:
                    found = _names_in(owner.__dict__[name]) - names
                    names |= found
                    todo += found
        _reads[kind] = names
    return _reads[kind]


def _names_in(method: Any) -> set[str]:
    """The names of attributes in the code of a method."""
    method = getattr(method, "fget", getattr(method, "__func__", method))
    todo, names = [getattr(inspect.unwrap(method), "__code__", None)], set()
    while todo:
        code = todo.pop()
        if inspect.iscode(code):
            names.update(code.co_names)
            todo += code.co_consts
    return names


_WRITES = {"assign", "assign_add", "assign_sub"}


def assigns(layers: list) -> bool:
    """Whether `call` of a class of the program assigns to variables: networks of C have no such step."""
    return any(_read_by_call(type(layer)) & _WRITES for layer in layers)


def _same(before: Any, value: Any) -> bool:
    """Whether an attribute has kept its value."""
    if before is value:
        return True
    return type(before) is type(value) and isinstance(value, (int, float, str, bytes)) and before == value


_OF_RAGGED_VALUES = {"Embedding", "StringLookup", "IntegerLookup", "Hashing", "Discretization", "Activation", "Dropout",
                     "ReLU", "LeakyReLU", "ELU", "Dense", "Rescaling"}
_ROWS_TO_ONE = {"GlobalAveragePooling1D", "GlobalMaxPooling1D"}
_NORMALIZES_BATCHES = {"BatchNormalization", "SyncBatchNormalization"}
_OWN_LAYERS = __name__.rsplit(".", 1)[0] + ".layers"


class Layer(Recorded, Named):
    """tf.keras.layers.Layer. Subclasses override call, and build to make variables with add_weight."""

    _where = "tf.keras.layers.Layer"
    _scoped = True  # its variables are named below its name

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, dynamic: bool = False,
                 **named: Any):
        d = self.__dict__
        d["_layers"], d["_own_weights"], d["_own_metrics"] = [], [], []
        d["_tracked"] = {}  # attributes with layers or variables in them, for checkpoints
        d["_in_attributes"] = {}  # attribute -> its layers and variables, and _Seen of its lists and dicts
        d["_held"], d["_by_attribute"] = {}, set()  # layers and variables of attributes by id; those known by them alone
        d["_in_graphs"] = weakref.WeakKeyDictionary()  # Graph -> variables, of layers of the library
        d["_losses"] = weakref.WeakKeyDictionary()  # Graph -> losses of calls
        d["_noted"] = weakref.WeakKeyDictionary()  # Graph -> values of add_metric by name
        d["_built_in"] = weakref.WeakSet()
        d["_trainable"] = trainable
        d["_name"] = name or unique_name(snake(type(self).__name__))
        d["dtype_policy"] = _policy_of(dtype)
        # None: that of the graph, which a RunConfig may have set
        d["_precision"] = None if dtype is None and not d["dtype_policy"].is_mixed else _precision_of(d["dtype_policy"])
        d["_dtype"] = as_dtype(dtype if d["dtype_policy"] is None else d["dtype_policy"].variable_dtype)
        d["built"] = False
        d["_made_in"] = weakref.WeakSet()  # graphs of worlds in which the call of a functional model was made again
        d["_eager_call"] = None
        d["_edition"], d["_changed"], d["_looked"] = 0, 0, 0  # of its call; when the layer changed; when a call looked
        d["_changeable"] = []  # layers of its call that read lists or dicts
        graph = default_graph()
        d["_home"] = current_world() if graph is None or getattr(graph, "world", None) is not None else None
        shape = named.pop("input_shape", None)
        if "input_dim" in named:
            shape = (named.pop("input_dim"),)
        batch = named.pop("batch_input_shape", None)
        if batch is None and shape is not None:
            batch = (named.pop("batch_size", None),) + tuple((shape,) if isinstance(shape, int) else shape)
        d["_batch_input_shape"] = None if batch is None else tuple(batch)
        named.pop("autocast", None)
        from . import regularizers
        d["activity_regularizer"] = regularizers.get(named.pop("activity_regularizer", None))
        if named:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument {next(iter(named))!r}")

    # --- parts ---

    def __setattr__(self, key: str, value: Any) -> None:
        d = self.__dict__
        if "_layers" not in d:
            if not any(isinstance(leaf, (Layer, Variable)) for leaf in _structure.flatten(value)):
                d[key] = value  # a number or a name may come before super().__init__()
                return
            raise RuntimeError(f"It looks like you are subclassing `{type(self).__name__}` and you forgot to call "
                               "`super().__init__()`")
        prop = getattr(type(self), key, None)
        if isinstance(prop, property) and prop.fset is not None:
            object.__setattr__(self, key, value)
            return
        if key in _OF_LIBRARY and isinstance(prop, property) and isinstance(self, NativeLayer):
            raise NotImplementedError(f"{self.name}.{key} is a variable of the library's {type(self).__name__}, which computes "
                                      f"with it: assign to it, or write a layer of your own, with add_weight or tensors")
        before = d.get(key, self)
        d[key] = value
        self._track(key, value, _parts_of(value))
        if key in _read_by_call(type(self)) and not _same(before, value) and default_graph() is None:
            self._change()

    def __delattr__(self, key: str) -> None:
        object.__delattr__(self, key)
        self._track(key, None, [])

    def _change(self) -> None:
        """Calls from now on are traced again, also those of layers around this one."""
        _changes[0] += 1
        self.__dict__["_changed"] = _changes[0]

    def _call_now(self) -> Function:
        """The call as a function of the world, without traces of what the layer was before it changed."""
        d = self.__dict__
        for layer in d["_changeable"]:
            layer._known("_layers", _read_by_call(type(layer)))
        if d["_looked"] != _changes[0]:
            if any(layer.__dict__["_changed"] > d["_looked"] for layer in [self] + self._flat_layers()):
                d["_eager_call"], d["_edition"] = None, _changes[0]
            d["_looked"] = _changes[0]
        if d["_eager_call"] is None:
            d["_eager_call"] = Function(self._noting)
        return d["_eager_call"]

    def _traced(self) -> None:
        """After a trace, which may have made layers and variables."""
        self.__dict__["_changeable"] = [layer for layer in [self] + self._flat_layers() if any(
            type(part) is _Seen for key in _read_by_call(type(layer)) for part in layer._in_attributes.get(key, ()))]
        self.__dict__["_looked"] = _changes[0]

    def _track(self, key: str, value: Any, parts: list) -> None:
        """Knows an attribute by what is in it, and the one that had its name no longer."""
        d = self.__dict__
        before = d["_tracked"].get(key)
        if before is not None:
            if before is value:  # list += items: in its place, where they are found
                return
            del d["_tracked"][key], d["_in_attributes"][key]
        if parts or isinstance(value, (list, dict)):
            d["_tracked"][key] = value
            d["_in_attributes"][key] = parts
        if parts or before is not None:
            self._find()

    def _find(self) -> None:
        """Brings layers, variables and metrics in line with what the attributes have now."""
        from .metrics import Metric
        d = self.__dict__
        held = {id(leaf): leaf for parts in d["_in_attributes"].values() for leaf in _leaves_of(parts) if leaf is not self}
        gone = {number for number, leaf in d["_held"].items() if number not in held and (
            number in d["_by_attribute"] or isinstance(leaf, Variable))}
        if gone:
            for kind in _KINDS:
                d[kind][:] = [item for item in d[kind] if id(item) not in gone]
        known = {id(item) for kind in _KINDS for item in d[kind]}
        for number, leaf in held.items():
            if number not in known:
                kind = "_own_weights" if isinstance(leaf, Variable) else "_own_metrics" if isinstance(leaf, Metric) else "_layers"
                d[kind].append(leaf)
                d["_by_attribute"].add(number)
        d["_by_attribute"] -= gone
        if list(held) != list(d["_held"]):
            self._change()
        d["_held"] = held

    def _known(self, kind: str, names: set[str] | None = None) -> list:
        """Layers, variables or metrics, with what lists and dicts among the attributes, or those of these names, have got
        or lost since."""
        d = self.__dict__
        changed = False
        for key, parts in d["_in_attributes"].items():
            for part in parts if names is None or key in names else ():
                if type(part) is _Seen:
                    changed = part.look() or changed
        if changed:
            self._find()
            if self._in_order_of_attributes:
                places = {number: i for i, number in enumerate(d["_held"])}
                for name in ("_layers", "_own_weights"):
                    d[name].sort(key=lambda item: places.get(id(item), len(places)))
        return d[kind]

    _in_order_of_attributes = True
    _layers = property(lambda self: self._known("_layers"))
    _own_weights = property(lambda self: self._known("_own_weights"))
    _own_metrics = property(lambda self: self._known("_own_metrics"))

    name = property(lambda self: self._name)
    dtype = property(lambda self: self._dtype.name)
    variable_dtype = dtype
    compute_dtype = property(lambda self: self.dtype_policy.compute_dtype if self.dtype_policy else self.dtype)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._freeze(value)
        for layer in self._layers:
            layer.trainable = value

    _looks_at_trainable = False  # a call of a frozen layer is another one

    def _freeze(self, value: bool) -> None:
        """Sets whether it is trainable."""
        changed = self._trainable != bool(value)
        self.__dict__["_trainable"] = bool(value)
        if changed and (self._looks_at_trainable or "trainable" in _read_by_call(type(self))):
            self._change()

    @property
    def submodules(self) -> tuple:
        return tuple(self._flat_layers())

    def _trained_layers(self, above: bool = True, found: Any = None) -> dict:
        """This layer and all within, and whether their variables are trained."""
        found = {} if found is None else found
        found[self] = above and self._trainable or found.get(self, False)
        for layer in self._layers:
            layer._trained_layers(above and self._trainable, found)
        return found

    def _flat_layers(self) -> list:
        """All layers within, each once, also one that several of them share."""
        found: dict[int, Layer] = {}
        for layer in self._layers:
            found.update((id(item), item) for item in [layer] + layer._flat_layers())
        return list(found.values())

    # --- variables ---

    def add_weight(self, name: str | None = None, shape: Any = (), dtype: Any = None, initializer: Any = None,
                   regularizer: Any = None, trainable: bool | None = None, constraint: Any = None,
                   **named: Any) -> Variable:
        """A variable of this layer. The default initializer is Glorot uniform for floats, else zeros."""
        for key in named.keys() - {"use_resource", "synchronization", "aggregation", "caching_device",
                                   "experimental_autocast"}:
            raise TypeError(f"add_weight() got an unexpected keyword argument '{key}'")
        here()
        keep = Keep()
        graph = default_graph()
        sketched = graph is not None and graph.is_sketch
        world = getattr(graph, "world", None) if graph is not None and not sketched else self._world_now()
        graph = graph if graph is not None and not sketched else world.graph
        shape = tuple((shape,) if isinstance(shape, (int, np.integer)) else shape)
        from . import constraints, initializers, regularizers
        cost = regularizers.get(regularizer)
        # in a sketch the scope of the layer is that of another graph
        scope = "/".join(_context.__dict__.get("names", [])) if sketched else ""
        with contextlib.ExitStack() as around:
            if world is not None:
                around.enter_context(world.alone())
            if scope:
                around.enter_context(graph.scope(scope))
            handle = lib.est_weight(graph._c, keep.string(name or "Variable"), c_shape(shape), keep.options(
                "est_weight_options", dtype=as_dtype(dtype or self._dtype).number,
                initializer=initializers._c(keep, initializer),
                regularizer=regularizers._c(keep, cost if world is None else None),
                frozen=trainable is False))
        graph.check()
        graph.keep.append(keep)
        variable = Variable._of(world, graph, handle, trainable is not False)
        variable._shown = shown_name(name or "Variable")
        variable.constraint = constraints.get(constraint)
        if cost is not None:
            self.__dict__.setdefault("_own_costs", []).append((variable, cost))
        announce([variable])
        if not any(variable is item for item in self._own_weights):
            self._own_weights.append(variable)
        return variable

    def add_variable(self, *args: Any, **named: Any) -> Variable:
        """add_weight, by its name of TensorFlow 1."""
        return self.add_weight(*args, **named)

    def _world_now(self) -> World:
        return self._home if self._home is not None else current_world()

    def _graph_now(self) -> Graph:
        """The graph whose variables a program means: that of a model_fn, or of the world."""
        graph = default_graph()
        if graph is not None and getattr(graph, "world", None) is None:
            return graph
        return self._world_now().graph

    def _collect(self, graph: Graph) -> list[Variable]:
        """The variables in a graph: own ones, then those of layers within."""
        found = self._variables_of(graph)
        for layer in self._layers:
            found += layer._collect(graph)
        return list({id(item): item for item in found}.values())

    def _variables_of(self, graph: Graph) -> list[Variable]:
        """The variables of this layer, without those within, in the order in which they were made."""
        own = list(self._own_weights)
        before = self.__dict__.get("_own_before", len(own))
        return own[:before] + list(self._in_graphs.get(graph, ())) + own[before:]

    def _ensure_built(self) -> None:
        """Makes the variables, if the shape of the input is known."""
        sequence = self.__dict__.get("_in_sequence")
        if default_graph() is None and not self.built and sequence is not None and sequence() is not None:
            sequence()._ensure_built()
        world = self._world_now() if "_symbolic" in self.__dict__ and default_graph() is None else None
        if world is None or world.graph in self._made_in or self._collect(world.graph):
            return
        self._made_in.add(world.graph)
        call = next((leaf._call for leaf in _structure.flatten(self._symbolic[1]) if isinstance(leaf, KerasTensor)), None)
        if call is not None:
            _call_again(self, world, call)

    @property
    def weights(self) -> list[Variable]:
        return self._parts(self._ordered_weights())

    @property
    def variables(self) -> list[Variable]:
        return self.weights

    def _parts(self, found: list) -> list:
        return [part for variable in found for part in self._world_now().parts(variable)]

    @property
    def trainable_weights(self) -> list[Variable]:
        found, frozen = self._all_weights(), self._frozen_ids()  # in this order: the first makes them
        return [item for item in found if item.trainable and id(item) not in frozen]

    @property
    def non_trainable_weights(self) -> list[Variable]:
        found, frozen = self._all_weights(), self._frozen_ids()
        return [item for item in found if not item.trainable or id(item) in frozen]

    def _all_weights(self) -> list[Variable]:
        self._ensure_built()
        return self._collect(self._graph_now())

    def _frozen_ids(self) -> set:
        graph = self._graph_now()
        if not self._trainable:
            return {id(item) for item in self._collect(graph)}
        return set().union(*(layer._frozen_ids() for layer in self._layers)) if self._layers else set()

    @property
    def trainable_variables(self) -> list[Variable]:
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Variable]:
        return self.non_trainable_weights

    def get_weights(self) -> list[np.ndarray]:
        return [np.asarray(variable.numpy()) for variable in self._ordered_weights()]

    def set_weights(self, weights: Sequence[Any]) -> None:
        variables = self._ordered_weights()
        if len(variables) != len(weights):
            raise ValueError(f"You called `set_weights(weights)` on layer \"{self.name}\" with a weight list of length "
                             f"{len(weights)}, but the layer was expecting {len(variables)} weights.")
        for variable, value in zip(variables, weights):
            if tuple(np.shape(value)) != tuple(variable.shape):
                raise ValueError(f"Layer {self.name} weight shape {tuple(variable.shape)} is not compatible with "
                                 f"provided weight shape {np.shape(value)}.")
        for variable, value in zip(variables, weights):
            variable.assign(value)

    def _ordered_weights(self) -> list[Variable]:
        """Trainable ones first."""
        return self.trainable_weights + self.non_trainable_weights

    def count_params(self) -> int:
        return sum(int(np.prod(variable.shape, dtype=np.int64)) for variable in self._all_weights())

    # --- in functional models ---

    def _symbolic_call(self) -> tuple:
        sequence = self.__dict__.get("_in_sequence")
        if "_symbolic" not in self.__dict__ and sequence is not None and sequence() is not None:
            sequence()._call_symbolic()
        if "_symbolic" not in self.__dict__:
            raise AttributeError(f"Layer {self.name} has no inbound nodes.")
        return self._symbolic

    @property
    def input(self) -> Any:
        """What the layer was called with last in a functional model, or in a Sequential one with an input."""
        return self._symbolic_call()[0]

    @property
    def output(self) -> Any:
        """What it gave, for another model of the same layers."""
        return self._symbolic_call()[1]

    input_shape = property(lambda self: _structure.map_structure(lambda leaf: tuple(leaf.shape), self.input))
    output_shape = property(lambda self: _structure.map_structure(lambda leaf: tuple(leaf.shape), self.output))

    def _checkpoint_parts(self) -> list:
        """What tf.train.Checkpoint knows of this layer, by name: attributes, and variables by the names of
        add_weight."""
        from .metrics import Metric
        from .._checkpoint import is_trackable
        self._known("_layers")
        found = [(key, value) for key, value in self._tracked.items() if not isinstance(value, Metric) and
                 is_trackable(value)]
        known = {id(value) for _, value in found}
        for variable in self._own_weights:
            name = variable._shown.rsplit(":", 1)[0].rsplit("/", 1)[-1]
            if id(variable) not in known and name not in self._tracked:
                found.append((name, variable))
        return found

    # --- losses ---

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """A term of the loss, computed in call. What its inputs are is known without being told."""
        for loss in _structure.flatten(losses):
            value = loss() if callable(loss) else loss
            graph = value.graph if isinstance(value, Node) else default_graph()
            self._losses.setdefault(graph, []).append(value)

    def add_metric(self, value: Any, name: str | None = None, aggregation: str | None = "mean") -> None:
        """A value of call whose mean `fit` measures."""
        if aggregation not in (None, "mean"):
            raise NotImplementedError("add_metric: the aggregation is \"mean\"")
        if not name:
            raise ValueError("Please provide a name for your metric like `self.add_metric(tf.reduce_sum(inputs), "
                             "name='mean_activation')`")
        if not isinstance(value, Node):
            raise NotImplementedError("add_metric takes a tensor of the call; update a metric of your own outside")
        self._noted.setdefault(value.graph, {})[name] = value

    @property
    def metrics(self) -> list:
        return list(self._own_metrics)

    @property
    def losses(self) -> list:
        """Of add_loss in the last call, and of regularizers: in a trace or a model_fn nodes of it, else values, which a
        tape that records can go back from."""
        graph = default_graph()
        found = [loss for layer in [self] + self._flat_layers() for loss in (
            layer.__dict__.get("_losses_now", ()) if graph is None else layer._losses.get(graph, ()))]
        terms = self._cost_terms(self._world_now().graph if graph is None else graph)
        if graph is not None or not terms:
            return found + self._cost_nodes(*terms)
        function = self.__dict__.get("_cost_function")
        if function is None:
            function = self.__dict__["_cost_function"] = Function(self._cost_nodes)
        concrete, leaves = function.concrete(terms, {}, self._world_now())  # one trace for these variables
        return found + concrete.run_for(tapes(), leaves, self._cost_nodes, terms, {})

    @property
    def updates(self) -> list:
        """Nothing: what layers update in a training step is a part of it."""
        return []

    def _cost_terms(self, graph: Graph) -> tuple:
        """What is regularized in a graph: a variable and the function of its value, the next variable, and so on."""
        return tuple(item for layer in [self] + self._flat_layers() for cost in layer._costs(graph) for item in cost)

    def _cost_nodes(self, *terms: Any) -> list:
        """What regularizers give, in the graph that is open."""
        return [cost(unwrap(variable)) for variable, cost in zip(terms[::2], terms[1::2])]

    def _costs(self, graph: Graph) -> list:
        """Regularizers of variables: (variable, function of its value)."""
        twins = getattr(graph, "twins", None) or ()
        return [(variable, cost) for variable, cost in self.__dict__.get("_own_costs", ())
                if variable.graph is graph or id(variable) in twins]

    def _noting(self, masks: list | None, edition: int, *args: Any, **named: Any) -> tuple:
        """A call in a graph with inputs that have masks, what it gave to add_loss: (layer, losses), the masks of the
        result, and what activations at its end were given. The edition of the layer tells tapes which traces are of the same."""
        graph = default_graph()
        for leaf, mask in zip(_structure.flatten(args[0]) if masks else (), masks or ()):
            if mask is not None and isinstance(leaf, Node):
                graph.masks[_place(leaf)] = as_node(unwrap(mask), graph)
        result = self._in_graph(*args, **named)
        made = [graph.masks.get(_place(leaf)) for leaf in _structure.flatten(result)] if graph.masks else []
        return (result, [(layer, layer._losses[graph]) for layer in [self] + self._flat_layers()
                         if layer._losses.get(graph)], made if any(mask is not None for mask in made) else [],
                [graph.logits.get(_place(leaf)) for leaf in _structure.flatten(result)] if graph.logits else [])

    # --- calling ---

    def build(self, input_shape: Any) -> None:
        self.__dict__["built"] = True
        if isinstance(input_shape, (list, tuple)) and "_built_for" not in self.__dict__:
            self.__dict__["_built_for"] = tuple(input_shape)

    def call(self, inputs: Any, *args: Any, **named: Any) -> Any:
        """What subclasses override; of a layer of the library its nodes, for super().call."""
        if type(self)._call_in is Layer._call_in:
            return inputs
        node = next((leaf for leaf in _structure.flatten(inputs) if isinstance(leaf, Node)), None)
        graph = node.graph if node is not None else default_graph()
        args, named = _structure.map_structure(lambda leaf: _as_input(leaf, graph), ((inputs, *args), named))
        args, named = self._bound(args, named)
        training = named.get("training")
        training = training_phase(training) if training is not None else _context.__dict__.get("training")
        return self._call_in(graph, args, named, bool(training))

    def __call__(self, *args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], _VIEWS):
            args = (list(args[0]),) + args[1:]
        if args and isinstance(args[0], _structure.Composite) and type(self).__module__.startswith(_OWN_LAYERS):
            return self._call_ragged(*args, **named)
        leaves = _structure.flatten((args, named))
        if any(isinstance(leaf, KerasTensor) for leaf in leaves):
            return KerasTensor._keras_call(self._in_graph, args, named, self)
        if default_graph() is not None or any(isinstance(leaf, Node) for leaf in leaves):
            return self._in_graph(*args, **named)
        function = self._call_now()
        traces = function.experimental_get_tracing_count()
        masks = [getattr(leaf, "_keras_mask", None) for leaf in _structure.flatten(args[0])] if args else []
        masks = masks if any(mask is not None for mask in masks) else None
        values, more = _values(args, named)
        concrete, flat = function.concrete((masks, self._edition, *values), more, world=self._world_now())
        if function.experimental_get_tracing_count() != traces:
            self._traced()
        given = (masks, self._edition, *args)
        had = _structure.flatten((given, named))
        result = concrete.run_for(tapes(), flat, self._noting, given, named, had if len(had) == len(flat) else None)
        value, losses, made, logits = result
        for leaf, mask in zip(_structure.flatten(value) if made else (), made):
            if mask is not None and type(leaf) is Tensor:
                leaf._keras_mask = mask
        for leaf, given in zip(_structure.flatten(value) if logits else (), logits):
            if given is not None and type(leaf) is Tensor:
                leaf._keras_logits = given
        if losses or self.__dict__.get("_has_losses"):
            self.__dict__["_has_losses"] = True
            for layer in [self] + self._flat_layers():
                layer.__dict__["_losses_now"] = ()
            for layer, values in losses:
                layer.__dict__["_losses_now"] = values
        return value

    def _call_ragged(self, inputs: Any, *args: Any, **named: Any) -> Any:
        """Layers that know no rows work on the values of all; those that pool a row reduce it."""
        kind = type(self).__name__
        if kind in _ROWS_TO_ONE and len(inputs.shape) == 3 and inputs.ragged_rank == 1:
            from ..math import reduce_max, reduce_mean
            return (reduce_mean if kind == "GlobalAveragePooling1D" else reduce_max)(inputs, axis=1)
        if kind == "Dense" and len(inputs.flat_values.shape) < 2:
            raise ValueError("The last dimension of the inputs to a Dense layer should be defined. Found None. Full input "
                             f"shape received: {tuple(inputs.shape)}")
        plain = getattr(self, "output_mode", "int") == "int" and not getattr(self, "mask_zero", False)
        if kind not in _OF_RAGGED_VALUES or not plain:
            raise NotImplementedError(f"{kind} takes no ragged tensors here: to_tensor() makes a dense one, and "
                                      "Embedding(mask_zero=True) or Masking says what its padding is")
        return inputs.with_flat_values(self(inputs.flat_values, *args, **named))

    def _in_graph(self, *args: Any, **named: Any) -> Any:
        """The call in the graph of its inputs, or the default one."""
        node = next((leaf for leaf in _structure.flatten((args, named)) if isinstance(leaf, Node)), None)
        graph = node.graph if node is not None else default_graph()
        args, named = _structure.map_structure(lambda leaf: _as_input(leaf, graph), (args, named))
        args, named = self._training_by_name(args, named)
        is_own = _calls_library(type(self))
        args, named = (args, named) if is_own else self._bound(args, named)
        training = named.get("training")
        training = training_phase(training) if training is not None else _context.__dict__.get("training")
        if training is None:
            training = _training_by_default(type(self))
        self._check_specs(args)
        before = updates_of(graph)
        mask = self._mask_of(graph, args, named)
        with _Calling(training) as outermost:
            if outermost:
                for layer in [self] + self._flat_layers():
                    layer._losses.pop(graph, None)
            result = (self._build_and_call if is_own else self._call_in)(graph, args, named, bool(training))
            if self.activity_regularizer is not None:
                self._regularize(result)
        graph.check()
        if "_built_for" not in self.__dict__ and args and isinstance(args[0], Node) and args[0].shape is not None:
            self.__dict__["_built_for"] = tuple(args[0].shape)
        if mask is not None or type(self).compute_mask is not Layer.compute_mask:
            self._set_mask(graph, args, result, mask)
        if not self._layers:
            take_updates(graph, before)
        return result

    def _check_specs(self, args: tuple) -> None:
        """Raises where an input is not what `input_spec` expects."""
        specs = self.__dict__.get("input_spec")
        if specs is not None and args:
            for spec, leaf in zip(_structure.flatten(specs), _structure.flatten(args[0])):
                if spec is not None and isinstance(leaf, Node):
                    spec.check(leaf, self.name)

    def _regularize(self, result: Any) -> None:
        """Adds what the regularizer says of the results to the loss, as a mean over the examples."""
        for leaf in _structure.flatten(result):
            if isinstance(leaf, Node):
                self.add_loss(self.activity_regularizer(leaf) / ops.cast(ops.shape(leaf)[0], leaf.dtype))

    def _training_by_name(self, args: tuple, named: dict) -> tuple:
        """The arguments of a call, of which the positional ones end before `training`."""
        names = list(inspect.signature(self.call).parameters) if len(args) > 1 and not self._has_no_signature() else []
        place = names.index("training") if "training" in names else len(args)
        return args[:place], {**named, **dict(zip(names[place:], args[place:]))}

    def _has_no_signature(self) -> bool:
        """Whether `call` says nothing about the arguments."""
        return isinstance(self, NativeLayer) and not _calls_library(type(self))

    def _bound(self, args: tuple, named: dict) -> tuple:
        """The arguments of a call; of layers of the library all but the inputs by name."""
        return args, named

    def _call_in(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        """A layer that is written in Python."""
        with self._within(graph) if self._scoped else _apart():
            return self._build_and_call(graph, args, named, training)

    @contextlib.contextmanager
    def _within(self, graph: Graph | None) -> Any:
        """Variables that are made now are named below the name of this layer."""
        names = _context.__dict__.setdefault("names", [])
        names.append(self._name)
        try:
            with graph.scope(self._name) if graph is not None else contextlib.nullcontext():
                yield
        finally:
            names.pop()

    # --- masks ---

    _supports_masking = False

    @property
    def supports_masking(self) -> bool:
        """Whether the mask of the input is that of the output too."""
        return self.__dict__.get("_masking", self._supports_masking)

    @supports_masking.setter
    def supports_masking(self, value: bool) -> None:
        self.__dict__["_masking"] = bool(value)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask if self.supports_masking else None

    def _mask_of(self, graph: Graph, args: tuple, named: dict) -> Any:
        """The mask of the input, which a call with a parameter `mask` is given."""
        if not args or not graph.masks:
            return None
        found = _structure.map_structure(lambda leaf: graph.masks.get(_place(leaf)), args[0])
        if all(mask is None for mask in _structure.flatten(found)):
            return None
        if named.get("mask") is None:
            if "mask" in inspect.signature(self.call).parameters and not self._has_no_signature():
                named["mask"] = found
            elif not self._ignores_masks:
                raise NotImplementedError(f"{self.name}: the mask of its input (mask_zero, Masking) is not applied yet "
                                          f"by {type(self).__name__}")
        return found

    _ignores_masks = True

    def _set_mask(self, graph: Graph, args: tuple, result: Any, mask: Any) -> None:
        masks = self.compute_mask(args[0] if args else None, mask)
        if masks is None:
            return
        flat = _structure.flatten(result)
        for node, one in zip(flat, masks if isinstance(masks, (list, tuple)) else [masks] * len(flat)):
            if one is not None and isinstance(node, Node):
                graph.masks[_place(node)] = one

    def _build_and_call(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        of_library = _calls_library(type(self))
        if not self.built and args and not (of_library and type(self).build.__module__.startswith("estoc.")):
            with self._within(graph) if of_library and not self._scoped else contextlib.nullcontext():
                graph.is_building = True
                self.build(_structure.map_structure(
                    lambda node: Shape(node.shape) if isinstance(node, Node) and node.shape is not None else None, args[0])
                    if not isinstance(args[0], Node) else args[0].shape)
                graph.is_building = False
            self.__dict__["built"] = True
        parameters = inspect.signature(self.call).parameters
        if "training" in parameters and named.get("training") is None:
            named = {**named, "training": training}
        elif "training" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            named = {key: value for key, value in named.items() if key != "training"}
        return self.call(*args, **named)

    # --- description ---

    def get_config(self) -> dict:
        """What the layer was made with, for from_config, as plain values. A class of the program whose arguments are no
        plain values says itself what it was made with."""
        from . import _serial
        config: dict = {"name": self.name, "trainable": self.trainable, "dtype": _serial.serialize(
            self.dtype_policy if self.dtype_policy is not None and self.dtype_policy.is_mixed else self.dtype)}
        if self._batch_input_shape is not None:
            config["batch_input_shape"] = self._batch_input_shape
        kind = type(self)
        if kind.__module__.startswith("estoc."):
            made = _serial.recorded(self, kind)
            axes = int(kind.__name__[-2]) if kind.__name__.endswith(("1D", "2D")) else 0
            return {**config, **{key: _serial.argument(key, value, axes) for key, value in made.items()
                                 if key not in config}}
        if kind.get_config is Layer.get_config:
            made = _serial.plain_arguments(self)
            if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(kind.__init__).parameters.values()):
                config = {key: value for key, value in config.items() if key in made}
            config.update((key, value) for key, value in made.items() if key not in config)
        return config

    @classmethod
    def from_config(cls, config: dict) -> "Layer":
        if cls.__module__.startswith("estoc."):
            from . import _serial
            config = {key: _serial.made_of(value) for key, value in config.items()}
        return cls(**config)

    def save_own_variables(self, store: dict) -> None:
        """Puts the variables of this layer, without those within, into a dict; a .keras file of a class that overrides
        this and load_own_variables has what they put there."""
        for i, variable in enumerate(self._variables_here()):
            store[f"{i}"] = variable.numpy()

    def load_own_variables(self, store: dict) -> None:
        """Takes the variables of this layer from a dict."""
        for i, variable in enumerate(self._variables_here()):
            variable.assign(store[f"{i}"])

    def _variables_here(self) -> list[Variable]:
        self._ensure_built()
        found = self._variables_of(self._graph_now())
        return [item for item in found if item.trainable] + [item for item in found if not item.trainable]

    def get_build_config(self) -> dict | None:
        """The shape of the input that the layer was made for; None: it was not called."""
        shape = self.__dict__.get("_built_for")
        return None if shape is None else {"input_shape": shape}

    def build_from_config(self, config: dict) -> None:
        """Makes the variables that the layer had."""
        if config.get("input_shape") is not None and default_graph() is None:
            self.build(tuple(config["input_shape"]))

    def __repr__(self) -> str:
        return f"<estoc.tf.keras.{type(self).__name__} {self.name!r}>"


class InputLayer(Layer):
    """The input of a model as a layer; its output is what Input gives."""

    def __init__(self, input_shape: Any = None, batch_size: int | None = None, dtype: Any = None,
                 name: str | None = None, batch_input_shape: Any = None, **named: Any):
        tensor = Input(input_shape, batch_size, name, dtype, batch_shape=batch_input_shape, **named)
        super().__init__(name=tensor.name)
        self.__dict__.update(_tensor=tensor, built=True)

    def get_config(self) -> dict:
        return {"batch_input_shape": tuple(self._tensor.shape), "dtype": self._tensor.dtype.name, "sparse": False,
                "ragged": False, "name": self.name}

    @classmethod
    def _of(cls, tensor: KerasTensor) -> "InputLayer":
        """The layer of an Input, always the same one."""
        made = tensor.__dict__.get("_input_layer")
        if made is None:
            made = tensor.__dict__["_input_layer"] = cls.__new__(cls)
            Layer.__init__(made, name=tensor.name)
            made.__dict__.update(_tensor=tensor, built=True)
        return made

    input = output = property(lambda self: self._tensor)
    input_shape = output_shape = property(lambda self: [tuple(self._tensor.shape)])


def _place(leaf: Any) -> Any:
    return (leaf._c.id, leaf._c.output) if isinstance(leaf, Node) else None


def _as_input(leaf: Any, graph: Graph) -> Any:
    if isinstance(leaf, (Node, bool)) or leaf is None:
        return leaf
    if isinstance(leaf, Variable):
        return leaf._as_node(graph)
    if isinstance(leaf, (Tensor, np.ndarray, np.generic)) or _frames.is_column(leaf) or _frames.is_table(leaf):
        return as_node(floats(unwrap(leaf)), graph)
    return leaf


def floats(value: Any) -> np.ndarray:
    """float64 as float32, as Keras casts the inputs of layers."""
    value = as_array(value)
    return value.astype(np.float32) if value.dtype == np.float64 else value


def _values(args: tuple, named: dict) -> tuple[tuple, dict]:
    """Arrays and lists of numbers as tensors."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray) or type(leaf) is Tensor or _frames.is_column(leaf) or _frames.is_table(leaf):
            return Tensor(floats(unwrap(leaf)))
        return leaf

    if args and isinstance(args[0], (list, int, float)) and not isinstance(args[0], bool) and not any(
            isinstance(leaf, (Tensor, np.ndarray, Variable)) for leaf in _structure.flatten(args[0])):
        args = (Tensor(floats(args[0])),) + args[1:]
    return _structure.map_structure(one, (tuple(map(_texts, args)), named))


def _texts(value: Any) -> Any:
    """Lists of texts as tensors, also within tuples and dicts."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_texts, value))
    leaves = _structure.flatten(value) if isinstance(value, list) else ()
    return Tensor(value) if leaves and all(isinstance(leaf, (str, bytes)) for leaf in leaves) else value


# --- layers of the C library ------------------------------------------------------------------------------------------


_natives: weakref.WeakSet = weakref.WeakSet()
ACTIVATED = ("Softmax", "Sigmoid")  # operations that crossentropies know


def layers_in(graph: Graph) -> list:
    """The layers of the library that have variables in a graph."""
    return [layer for layer in _natives if graph in layer._in_graphs]


class NativeLayer(Layer):
    """A layer of the library. Subclasses say how it is made."""

    _scoped = False
    _keeps_logits = False  # for crossentropies of values, which are computed from them
    #: Parameters of a call in the order of Keras; None: _call_in knows them.
    _parameters: Any = ("inputs",)

    def __init__(self, make: Callable[[Keep], Any], **named: Any):
        super().__init__(**named)
        self.__dict__["_make"] = make
        self.__dict__["_native"] = None
        self.__dict__["_after"] = None  # an activation that is written in Python
        self.__dict__["_regularized"] = []  # (index of a variable, regularizer)
        self.__dict__["_constrained"] = {}  # index of a variable -> constraint
        _natives.add(self)

    def _bound(self, args: tuple, named: dict) -> tuple:
        names, what = self._parameters, f"{type(self).__name__}.call()"
        if names is None:
            return args, named
        if len(args) > len(names):
            raise TypeError(f"{what} takes {len(names)} positional arguments but {len(args)} were given")
        for name, value in zip(names, args):
            if name in named:
                raise TypeError(f"{what} got multiple values for argument {name!r}")
            named = {**named, name: value}
        unknown = [name for name, value in named.items() if name not in names + ("training",) and value is not None]
        if unknown:
            raise TypeError(f"{what} got an unexpected keyword argument {unknown[0]!r}")
        if "inputs" not in named:
            raise TypeError(f"{what} missing 1 required positional argument: 'inputs'")
        return (named["inputs"],), {name: value for name, value in named.items() if name != "inputs"}

    def _layer(self) -> Any:
        if self._native is None:
            keep = Keep()
            self.__dict__["_native"] = made(self._make(keep), "est_layer_free")
            self.__dict__["_keep"] = keep
            if not self._trainable:
                lib.est_layer_set_trainable(self._native, False)
        return self._native

    @property
    def trainable(self) -> bool:
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._freeze(value)
        if self._native is not None:
            lib.est_layer_set_trainable(self._native, bool(value))

    def _call_in(self, graph: Graph, args: tuple, named: dict, training: bool) -> Any:
        inputs = [as_node(leaf, graph) for leaf in _structure.flatten(args[0])] if args else []
        inputs = [_single(node) for node in inputs]
        self._note_own()
        masks = {key: named[key]._c for key in ("mask", "query_mask") if isinstance(named.get(key), Node)}
        before = count_variables(graph)
        here()
        keep = Keep()
        options = keep.options("est_call_options", training=training, **masks)
        nodes = keep.span("est_nodes", "est_node", [n._c for n in inputs])
        self._layer()
        with _Training(self, graph, inputs, training):
            if self._precision is None:
                result = lib.est_layer_call_with(self._native, nodes, options)
            else:
                before_it = lib.est_graph_precision(graph._c, self._precision)
                result = lib.est_layer_call_with(self._native, nodes, options)
                lib.est_graph_precision(graph._c, before_it)
        try:
            graph.check()
        except BaseException:
            if not len(self._in_graphs):  # what the failed call has begun cannot be continued
                self.__dict__["_native"] = None
            raise
        if graph not in self._in_graphs:
            made_now = new_variables(graph, getattr(graph, "world", None), before)
            if made_now and not self._trainable and getattr(graph, "world", None) is not None:
                for variable, trainable in zip(made_now, self._trainable_ones(inputs)):
                    variable._trainable = trainable
            for variable in made_now:  # the scope of the graph may have a number more
                parts = variable._name.split("/")
                at = max((i for i, part in enumerate(parts) if re.fullmatch(re.escape(self._name) + r"(_\d+)?", part)),
                         default=0)
                variable._shown = shown_name("/".join([self._name] + parts[at + 1:]))
            self._in_graphs[graph] = made_now
            for i, constraint in self._constrained.items():
                made_now[i].constraint = constraint
            if graph.builds or getattr(graph, "world", None) is not None:  # and not the copies of a network that is fitted
                announce(made_now)
        self.__dict__["built"] = True
        result = Node(graph, result)
        if self._keeps_logits:
            kind = text(lib.est_node_op(result._c))
            if kind in ACTIVATED:
                graph.logits[_place(result)] = {kind: Node(graph, lib.est_node_input(result._c, 0))}
        return result if self._after is None else self._after(result)

    def _trainable_ones(self, inputs: list) -> list[bool]:
        """Which of its variables are trainable when the layer is not frozen: those of a trial that nobody runs."""
        trial, keep = Graph(), Keep()
        nodes = [trial.placeholder(None, node.dtype, node.shape)._c for node in inputs]
        lib.est_layer_set_trainable(self._layer(), True)
        lib.est_layer_call_with(self._layer(), keep.span("est_nodes", "est_node", nodes), keep.options("est_call_options"))
        lib.est_layer_set_trainable(self._layer(), False)
        trial.check()
        return [variable.trainable for variable in new_variables(trial, None, 0)]

    _object_names: dict = {}  # first parts of names of variables, and what Keras calls these objects

    def _checkpoint_parts(self) -> list:
        """The variables, by what follows the name of the layer in theirs."""
        from .._checkpoint import Part
        top: dict[str, Any] = {}
        for variable in self._in_graphs.get(self._graph_now(), ()):
            *above, name = variable._shown.rsplit(":", 1)[0].split(f"{self._name}/", 1)[-1].split("/")
            place = top
            for part in above:
                place = place.setdefault(self._object_names.get(part, part), {})
            place[name] = variable

        def made(place: dict) -> list:
            return [(name, Part(made(item)) if isinstance(item, dict) else item) for name, item in place.items()]

        return super()._checkpoint_parts() + made(top)

    def _ensure_built(self) -> None:
        if not self.built and self._batch_input_shape is not None and default_graph() is None:
            build_in(self, self._world_now(), [(float32, self._batch_input_shape)])
        super()._ensure_built()

    def _note_own(self) -> None:
        """Notes how many variables of its own a class of the program has made before those of the library."""
        self.__dict__.setdefault("_own_before", len(self._own_weights))

    def build(self, input_shape: Any) -> None:
        self._note_own()
        if not self.built and default_graph() is None:  # else the call that is under way makes the variables
            build_in(self, self._world_now(), [(float32, tuple(input_shape))])

    def _costs(self, graph: Graph) -> list:
        variables = self._in_graphs.get(graph, ())
        return super()._costs(graph) + [(variables[i], cost) for i, cost in self._regularized if i < len(variables)]


class _Training:
    """Around a call in the network of a model: the layer is trained if it is the model's and was when the model was
    compiled. The network has the values of other layers, and trains none of them."""

    def __init__(self, layer: NativeLayer, graph: Graph, inputs: list, training: bool):
        network = None if graph.network is None else graph.network()
        self._layers = [] if network is None else [
            (item, network.trains_layer(item)) for item in [layer] + layer._flat_layers()
            if isinstance(item, NativeLayer) and item._native is not None]
        for item, trained in self._layers:
            if trained is None:
                network.use_other(item, inputs if item is layer else None)
                if training and item._trainable and type(item).__name__ in _NORMALIZES_BATCHES:
                    raise NotImplementedError(f"{item.name} is a {type(item).__name__} that is not a layer of {network.name}, whose "
                                              "training would change its moving statistics: call it with training=False, "
                                              "set its trainable to False, or make it an attribute of the model")

    def _set(self, ended: bool) -> None:
        for item, trained in self._layers:
            lib.est_layer_set_trainable(item._native, item._trainable if ended else bool(trained))

    def __enter__(self) -> None:
        self._set(False)

    def __exit__(self, *of_exception: Any) -> None:
        self._set(True)


def _single(node: Node) -> Node:
    return Node(node.graph, lib.est_cast(node._c, float32.number)) if node.dtype.name == "float64" else node


def build_in(layer: Layer, world: World, specs: list) -> None:
    """Makes the variables of a layer by a call that nobody runs."""
    with unrun(world):
        nodes = [world.graph.placeholder(None, dtype, shape) for dtype, shape in specs]
        layer._in_graph(nodes[0] if len(nodes) == 1 else nodes)


@contextlib.contextmanager
def unrun(world: World) -> Any:
    """A trace that makes variables and is never run."""
    from .._world import Trace
    with Trace(world):
        world.graph.only_shapes = True
        try:
            yield
        finally:
            world.graph.only_shapes = False


def _call_again(layer: Layer, world: World, call: Call) -> None:
    """Makes the variables of a layer that a functional model has called."""
    with unrun(world):
        args, named = _structure.map_structure(
            lambda leaf: world.graph.placeholder(None, leaf.dtype, leaf.shape) if isinstance(leaf, KerasTensor) else leaf,
            (call.positional, call.named))
        layer._in_graph(*args, **named)


# --- arguments of layers ----------------------------------------------------------------------------------------------


def activation(value: Any) -> tuple[Any, Callable | None]:
    """The C function of an activation, or NULL and a Python function that is applied to the result."""
    if value is None:
        return NULL, None
    if isinstance(value, (dict, str)):
        from . import _serial
        value = _serial.made_of(value)
    name = value if isinstance(value, str) else getattr(value, "_keras_name", None)
    if name is not None:
        out = ffi.new("est_activation *")
        check(lib.est_activation_by_name(Keep().string(name), out))
        return out[0], None
    if not callable(value):
        raise TypeError(f"an activation is a name or a function, not {value!r}")
    if isinstance(value, Layer):
        return NULL, value
    return NULL, value


def two(value: Any) -> tuple[int, int]:
    return (int(value), int(value)) if isinstance(value, (int, np.integer)) else (int(value[0]), int(value[1]))


def channels_last(data_format: Any) -> None:
    if data_format not in (None, "channels_last"):
        raise NotImplementedError(f"data_format {data_format!r}: images are channels_last")


def refuse(**named: Any) -> None:
    """Arguments that do not exist yet."""
    for key, value in named.items():
        if value is True or value not in (None, False, 1, (1, 1)):
            raise NotImplementedError(f"{key} does not exist yet")
