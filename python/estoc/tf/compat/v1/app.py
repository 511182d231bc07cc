# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.app"""
from __future__ import annotations

import sys as _sys
from typing import Any as _Any

from ..._absent import module_getattr as _module_getattr


def run(main: _Any = None, argv: _Any = None) -> None:
    """Calls main(argv), or that of the program, and exits with what it returns. Flags are not parsed."""
    main = main if main is not None else _sys.modules["__main__"].main
    _sys.exit(main(list(_sys.argv if argv is None else argv)))


__getattr__ = _module_getattr(__name__, {"flags": "argparse, or absl.flags with absl.app.run"})
