# SPDX-License-Identifier: Apache-2.0
"""Objects that remember the arguments that they were made with."""
from __future__ import annotations

from typing import Any


class Recorded:
    """A base class; `_made_with` has the arguments, positional and by name."""

    def __new__(cls, *args: Any, **named: Any) -> Any:
        made = object.__new__(cls)
        made.__dict__["_made_with"] = (args, named)
        return made

    _copied_by_arguments = False  # others are copied by their attributes

    def __reduce_ex__(self, protocol: int) -> Any:
        """copy, deepcopy and pickle."""
        if not self._copied_by_arguments:
            return super().__reduce_ex__(protocol)
        public = {key: value for key, value in self.__dict__.items() if not key.startswith("_")}
        return made_again, (type(self), *self._made_with), public

    _said_besides: tuple = ()  # what get_config has that is no argument

    @classmethod
    def from_config(cls, config: dict) -> Any:
        """An object of what get_config of another gave."""
        from ._serial import made_of
        return cls(**{key: made_of(value) for key, value in config.items() if key not in cls._said_besides})


def made_again(kind: type, args: tuple, named: dict) -> Any:
    return kind(*args, **named)


def overridden(kind: type, *names: str) -> str | None:
    """The first of these methods that a class of the program overrides; None: it has those of the library."""
    for name in names:
        owner = next((item for item in kind.__mro__ if name in item.__dict__), None)
        if owner is not None and not owner.__module__.startswith("estoc."):
            return name
    return None
