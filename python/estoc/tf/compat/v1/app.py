# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.app"""
from __future__ import annotations

import sys as _sys
from typing import Any as _Any

from ..._absent import module_getattr as _module_getattr
from . import flags


def run(main: _Any = None, argv: _Any = None) -> None:
    """Reads the flags of the program, calls main with its other arguments, or that of the program, and exits with what
    it returns."""
    main = main if main is not None else _sys.modules["__main__"].main
    _sys.exit(main(flags._parse(argv)))


__getattr__ = _module_getattr(__name__)
