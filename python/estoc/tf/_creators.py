# SPDX-License-Identifier: Apache-2.0
"""tf.variable_creator_scope: functions of the program that make the variables of a block, or see them being made."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator

_open = threading.local()


@contextlib.contextmanager
def variable_creator_scope(variable_creator: Callable) -> Iterator[None]:
    """In the block variable_creator(next_creator, **kwargs) makes each variable, as a rule by next_creator(**kwargs); the
    creator of the innermost block is called first. Variables of layers and of tf.compat.v1.get_variable exist by then:
    their creator may look at them, or raise, and passes its arguments on unchanged."""
    creators = _open.__dict__.setdefault("creators", [])
    creators.append(variable_creator)
    try:
        yield
    finally:
        creators.pop()


def creating() -> bool:
    """Whether such a block is open."""
    return bool(_open.__dict__.get("creators"))


def created(make: Callable, named: dict) -> Any:
    """The variable that the open blocks make; `make` is what the outermost one calls."""
    creators, _open.creators = _open.creators, []  # what a creator makes by itself is not its own business
    try:
        return _chained(creators, make)(**named)
    finally:
        _open.creators = creators


def _chained(creators: list, make: Callable) -> Callable:
    following = make
    for creator in creators:
        following = _bound(creator, following)
    return following


def _bound(creator: Callable, following: Callable) -> Callable:
    return lambda **named: creator(following, **named)


def announce(variables: list) -> None:
    """Calls the creators of the open blocks for variables that the library has made."""
    for variable in variables if creating() else ():
        asked = {"initial_value": None, "trainable": variable.trainable, "name": variable.name.rsplit(":", 1)[0],
                 "dtype": variable.dtype, "shape": variable.shape}

        def make(variable: Any = variable, asked: dict = asked, **named: Any) -> Any:
            other = sorted(key for key in named if key not in asked or named[key] is not asked[key])
            if other:
                raise NotImplementedError(f"tf.variable_creator_scope: {variable.name} is made by a layer or by "
                                          f"get_variable, whose arguments stay as they are; changed: {', '.join(other)}")
            return variable

        if created(make, asked) is not variable:
            raise NotImplementedError(f"tf.variable_creator_scope: {variable.name} is made by a layer or by get_variable; "
                                      "a creator gives back what next_creator gives")
