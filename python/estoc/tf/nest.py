# SPDX-License-Identifier: Apache-2.0
"""tf.nest"""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

from . import _structure
from ._absent import module_getattr as _module_getattr
from ._structure import flatten, is_nested  # noqa: F401


def map_structure(func: _Callable, *structure: _Any, **named: _Any) -> _Any:
    """func of the leaves of structures that are alike."""
    rest = [iter(flatten(other)) for other in structure[1:]]
    return _structure.map_structure(lambda leaf: func(leaf, *(next(other) for other in rest)), structure[0])


def pack_sequence_as(structure: _Any, flat_sequence: _Any, expand_composites: bool = False) -> _Any:
    """The structure with these leaves."""
    leaves = list(flat_sequence)
    if len(leaves) != len(flatten(structure)):
        raise ValueError(f"the structure has {len(flatten(structure))} leaves, {len(leaves)} were given")
    return _structure.pack_as(structure, leaves)


__getattr__ = _module_getattr(__name__)
