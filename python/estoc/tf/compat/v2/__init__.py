# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v2: the names of tf. Its modules can be imported by this name too."""
from __future__ import annotations

import sys as _sys
from typing import Any as _Any


def _take(tf: "dict[str, _Any]") -> None:
    """The names and modules of tf."""
    globals().update({key: value for key, value in tf.items() if not key.startswith("_")})
    for name, module in list(_sys.modules.items()):
        rest = name[len("estoc.tf."):]
        if name.startswith("estoc.tf.") and not rest.startswith("compat") and "._" not in name:
            _sys.modules.setdefault(f"{__name__}.{rest}", module)


def __getattr__(name: str) -> _Any:
    return getattr(_sys.modules["estoc.tf"], name)
