# SPDX-License-Identifier: Apache-2.0
"""Functions whose arguments had other names in TensorFlow 1."""
from __future__ import annotations

import functools
from typing import Any, Callable


def renamed(function: Callable, **names: str | None) -> Callable:
    """The function, which also takes its arguments by these names; None: one that changes nothing."""

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        if named:
            for old, new in names.items():
                value = named.pop(old, None)
                if value is not None and new is not None:
                    if named.get(new) is not None:
                        raise ValueError(f"Cannot specify both '{old}' and '{new}'.")
                    named[new] = value
        return function(*positional, **named)

    return call
