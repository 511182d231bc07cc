# SPDX-License-Identifier: Apache-2.0
"""The layers, variables and metrics of a layer: those among its attributes, in their lists and dicts too."""
from __future__ import annotations

import inspect
import operator
import weakref
from typing import Any, Iterator

from ...graph import default_graph
from .. import _structure
from .._function import Function
from .._variable import Variable
from .._world import World

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
    if isinstance(value, (Attributes, Variable)):
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


_changes = [0]  # of layers that may have been called
_reads: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # class -> names


def read_by_call(kind: type) -> set[str]:
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
    return any(read_by_call(type(layer)) & _WRITES for layer in layers)


def _same(before: Any, value: Any) -> bool:
    """Whether an attribute has kept its value."""
    if before is value:
        return True
    return type(before) is type(value) and isinstance(value, (int, float, str, bytes)) and before == value


class Attributes:
    """The part of a layer that knows what it is made of."""

    def __setattr__(self, key: str, value: Any) -> None:
        d = self.__dict__
        if "_layers" not in d:
            if not any(isinstance(leaf, (Attributes, Variable)) for leaf in _structure.flatten(value)):
                d[key] = value  # a number or a name may come before super().__init__()
                return
            raise RuntimeError(f"It looks like you are subclassing `{type(self).__name__}` and you forgot to call "
                               "`super().__init__()`")
        prop = getattr(type(self), key, None)
        if isinstance(prop, property) and prop.fset is not None:
            object.__setattr__(self, key, value)
            return
        if key in _OF_LIBRARY and isinstance(prop, property) and self._is_native:
            raise NotImplementedError(f"{self.name}.{key} is a variable of the library's {type(self).__name__}, which computes "
                                      f"with it: assign to it, or write a layer of your own, with add_weight or tensors")
        before = d.get(key, self)
        d[key] = value
        self._track(key, value, _parts_of(value))
        if key in read_by_call(type(self)) and not _same(before, value) and default_graph() is None:
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
            layer._known("_layers", read_by_call(type(layer)))
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
            type(part) is _Seen for key in read_by_call(type(layer)) for part in layer._in_attributes.get(key, ()))]
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
                if kind == "_layers":
                    self._live_with(leaf)
                d[kind].append(leaf)
                d["_by_attribute"].add(number)
        d["_by_attribute"] -= gone
        if list(held) != list(d["_held"]):
            self._change()
        d["_held"] = held

    def _live_with(self, layer: Any) -> None:
        """One world for this layer and one that is about to come into it, when tf.keras.backend.clear_session lies between
        them: that of the one with variables. Where both have some, a call says that they cannot be in one step."""
        mine, other = self._home, layer._home
        if mine is None or other is None or mine is other:
            return
        if not layer._has_variables():
            layer._move(mine)
        elif mine.of_process and other.of_process and not self._has_variables():
            self._move(other)

    def _has_variables(self) -> bool:
        return any(part.__dict__["_own_weights"] or any(part._in_graphs.values()) for part in self._all_within())

    def _move(self, world: World) -> None:
        for part in self._all_within():
            part.__dict__["_home"] = world

    def _all_within(self) -> Iterator[Any]:
        """This layer and those that are known to be within."""
        yield self
        for layer in self.__dict__["_layers"]:
            yield from layer._all_within()

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
