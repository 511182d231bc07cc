# SPDX-License-Identifier: Apache-2.0
"""Structures of arguments and results: dicts, lists, tuples and named tuples (tf.nest)."""
from __future__ import annotations

from typing import Any, Callable


class PerReplica:
    """A value of each replica of this process."""

    def __init__(self, values: Any):
        self.values = tuple(values)

    def _text(self, show: Callable) -> str:
        return "PerReplica:{\n" + ",\n".join(f"  {i}: {show(value)}" for i, value in enumerate(self.values)) + "\n}"

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)


class Composite:
    """A value that is made of several tensors, as a ragged one is: functions that are traced see its parts."""

    __slots__ = ()
    has_operators = True  # False: beside a tensor it counts as one

    def parts(self) -> tuple:
        """Tensors, arrays, nodes, or composites again."""
        raise NotImplementedError

    def of_parts(self, parts: list) -> Any:
        """The same kind of value of other parts."""
        raise NotImplementedError

    def kind(self) -> tuple:
        """What is known of it beside its parts, as a key."""
        return ()

    def dispatch(self, function: Callable, positional: tuple, named: dict, convert: Callable) -> Any:
        """A function over nodes that was given this value."""
        raise NotImplementedError


def is_nested(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, PerReplica, Composite)) and not hasattr(value, "as_list")


def flatten(value: Any) -> list:
    """The leaves; those of dicts in the order of their keys. A shape is a leaf."""
    if not is_nested(value):
        return [value]
    if isinstance(value, Composite):
        value = value.parts()
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    if isinstance(value, PerReplica):
        value = value.values
    return [leaf for item in value for leaf in flatten(item)]


def map_structure(function: Callable, value: Any) -> Any:
    """The same structure with function(leaf) for every leaf."""
    if not is_nested(value):
        return function(value)
    if isinstance(value, dict):
        made = {key: map_structure(function, value[key]) for key in sorted(value)}
        return type(value)((key, made[key]) for key in value) if type(value) is not dict else {
            key: made[key] for key in value}
    if isinstance(value, PerReplica):
        return PerReplica(map_structure(function, item) for item in value.values)
    if isinstance(value, Composite):
        return value.of_parts([map_structure(function, item) for item in value.parts()])
    items = [map_structure(function, item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def pack_as(value: Any, leaves: Any) -> Any:
    """The structure of `value` with these leaves, in the order of flatten."""
    rest = iter(leaves)
    return map_structure(lambda _: next(rest), value)


def key_of(value: Any, leaf: Callable) -> Any:
    """A hashable description of the structure, with leaf(x) for every leaf."""
    if not is_nested(value):
        return leaf(value)
    if isinstance(value, dict):
        return ("dict",) + tuple((key, key_of(value[key], leaf)) for key in sorted(value))
    if isinstance(value, PerReplica):
        return ("replicas",) + tuple(key_of(item, leaf) for item in value.values)
    if isinstance(value, Composite):
        return ("composite", value.kind()) + tuple(key_of(item, leaf) for item in value.parts())
    return (type(value).__name__,) + tuple(key_of(item, leaf) for item in value)
