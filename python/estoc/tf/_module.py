# SPDX-License-Identifier: Apache-2.0
"""tf.Module: an object that finds the variables among its attributes."""
from __future__ import annotations

import abc
import functools
import re
from typing import Any, Callable, Iterator

from ._array import name_scope
from ._variable import Variable


def _leaves(value: Any) -> Iterator[Any]:
    """The leaves of an attribute; keys of dicts may be of any type here."""
    if isinstance(value, dict):
        for key in sorted(value, key=lambda key: (str(type(key)), key)):
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple, set)) and not hasattr(value, "as_list"):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


class Module(metaclass=abc.ABCMeta):
    """tf.Module. Variables and modules are found in attributes, also within lists and dicts, when they are asked for;
    layers and models of Keras count as modules."""

    def __init__(self, name: str | None = None):
        if name is None:
            name = re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"_\1", type(self).__name__).lower()
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not a valid module name. Module names must be valid Python identifiers (e.g. "
                             "a valid class name).")
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context in which variables are named below this module."""
        return name_scope(self._name)

    @classmethod
    def with_name_scope(cls, method: Callable) -> Callable:
        """Decorates a method: variables that it makes are named below the module."""

        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            with self.name_scope:
                return method(self, *arguments, **named)

        return call

    def _parts(self) -> tuple[list, list]:
        """The variables and the modules among the attributes, by their names."""
        variables, modules = [], []
        for key in sorted(vars(self)):
            for leaf in _leaves(vars(self)[key]):
                if isinstance(leaf, Variable):
                    variables.append(leaf)
                elif isinstance(leaf, Module) and leaf is not self:
                    modules.append(leaf)
        return variables, modules

    def _walk(self, seen: set) -> Iterator[Any]:
        """This module and those below it, each once."""
        if id(self) in seen:
            return
        seen.add(id(self))
        yield self
        for module in self._parts()[1]:
            if isinstance(module, Module) and hasattr(module, "_walk"):
                yield from module._walk(seen)
            elif id(module) not in seen:
                seen.add(id(module))
                yield module

    @property
    def variables(self) -> tuple:
        found: dict[int, Variable] = {}
        for module in self._walk(set()):
            for variable in module._parts()[0] if hasattr(module, "_walk") else module.variables:
                found[id(variable)] = variable
        return tuple(found.values())

    @property
    def trainable_variables(self) -> tuple:
        frozen = {id(variable) for module in self._walk(set()) if not hasattr(module, "_walk")
                  for variable in module.non_trainable_variables}
        return tuple(item for item in self.variables if item.trainable and id(item) not in frozen)

    @property
    def non_trainable_variables(self) -> tuple:
        trained = {id(variable) for variable in self.trainable_variables}
        return tuple(variable for variable in self.variables if id(variable) not in trained)

    @property
    def submodules(self) -> tuple:
        found = []
        for module in list(self._walk(set()))[1:]:
            found.append(module)
            if not hasattr(module, "_walk"):
                found += [layer for layer in module.submodules if not any(layer is item for item in found)]
        return tuple(found)
