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
