# SPDX-License-Identifier: Apache-2.0
"""tf.nest"""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

from . import _structure
from ._absent import module_getattr as _module_getattr


def is_nested(seq: _Any) -> bool:
    """Whether the value has leaves: dicts, lists and tuples do."""
    return _structure.is_nested(seq) and not isinstance(seq, _structure.Composite)


def flatten(structure: _Any, expand_composites: bool = False) -> list:
    """The leaves; those of dicts in the order of their keys."""
    if expand_composites or not is_nested(structure):
        return _structure.flatten(structure) if expand_composites else [structure]
    found: list = []
    _map(found.append, structure)
    return found


def _map(function: _Callable, value: _Any) -> _Any:
    """_structure.map_structure for values that are made of several tensors as they are."""
    return _structure.map_structure(lambda leaf: function(leaf.value if isinstance(leaf, _Whole) else leaf), _whole(value))


class _Whole:
    """A ragged tensor as a leaf."""

    def __init__(self, value: _Any):
        self.value = value


def _whole(value: _Any) -> _Any:
    if isinstance(value, _structure.Composite):
        return _Whole(value)
    if isinstance(value, dict):
        made = {key: _whole(item) for key, item in value.items()}
        return made if type(value) is dict else type(value)(made.items())
    if isinstance(value, _structure.PerReplica) or not is_nested(value):
        return value
    items = [_whole(item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def _same(one: _Any, other: _Any) -> bool:
    if not is_nested(one) or not is_nested(other):
        return is_nested(one) == is_nested(other)
    if isinstance(one, dict) or isinstance(other, dict):
        return isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys() and all(
            _same(one[key], other[key]) for key in one)
    return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))


def map_structure(func: _Callable, *structure: _Any, **named: _Any) -> _Any:
    """func of the leaves of structures that are alike."""
    unknown = named.keys() - {"check_types", "expand_composites"}
    if unknown:
        raise ValueError("Only valid keyword arguments are `check_types` and `expand_composites`, got "
                         f"{sorted(unknown)}")
    if not callable(func) or not structure:
        raise TypeError("map_structure takes a function and at least one structure")
    for other in structure[1:]:
        if not _same(structure[0], other):
            raise ValueError("The two structures don't have the same nested structure.\n\n"
                             f"First structure: {structure[0]!r}\n\nSecond structure: {other!r}")
    expand = bool(named.get("expand_composites"))
    rest = [iter(flatten(other, expand)) for other in structure[1:]]
    return (_structure.map_structure if expand else _map)(lambda leaf: func(leaf, *(next(other) for other in rest)), structure[0])


def pack_sequence_as(structure: _Any, flat_sequence: _Any, expand_composites: bool = False) -> _Any:
    """The structure with these leaves."""
    leaves, wanted = list(flat_sequence), len(flatten(structure, expand_composites))
    if len(leaves) != wanted:
        raise ValueError(f"the structure has {wanted} leaves, {len(leaves)} were given")
    rest = iter(leaves)
    return (_structure.map_structure if expand_composites else _map)(lambda _: next(rest), structure)


__getattr__ = _module_getattr(__name__)
