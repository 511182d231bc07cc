# SPDX-License-Identifier: Apache-2.0
"""tf.debugging: checks of values outside of functions; in functions only check_numerics."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .. import errors as _errors
from .. import ops as _ops
from .._tensor import as_array as _as_array
from ..graph import Node as _Node
from ._absent import module_getattr as _module_getattr
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._devices import placement as _placement

check_numerics = _eager(_ops.check_numerics, "check_numerics")


def _assertion(name: str, holds: _Callable, sign: str) -> _Callable:
    def check(x: _Any, y: _Any, message: str | None = None, summarize: int | None = None,
              name: str | None = None) -> None:
        x, y = _unwrap(x), _unwrap(y)
        if isinstance(x, _Node) or isinstance(y, _Node):
            raise NotImplementedError(f"tf.debugging.{check.__name__} in a tf.function does not exist yet; check the "
                                      "values that it returns")
        x, y = _as_array(x), _as_array(y)
        try:
            _np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            raise _errors.InvalidArgumentError(f"{message or ''} Shapes of x {x.shape} and y {y.shape} do not fit: x = "
                                               f"{x}, y = {y}") from None
        if not _np.all(holds(x, y)):
            raise _errors.InvalidArgumentError(f"{message or ''} Condition x {sign} y did not hold: x = {x}, y = {y}")

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raises InvalidArgumentError unless x {sign} y everywhere."
    return check


assert_equal = _assertion("assert_equal", lambda x, y: x == y, "==")
assert_none_equal = _assertion("assert_none_equal", lambda x, y: x != y, "!=")
assert_less = _assertion("assert_less", lambda x, y: x < y, "<")
assert_less_equal = _assertion("assert_less_equal", lambda x, y: x <= y, "<=")
assert_greater = _assertion("assert_greater", lambda x, y: x > y, ">")
assert_greater_equal = _assertion("assert_greater_equal", lambda x, y: x >= y, ">=")


def assert_all_finite(x: _Any, message: str, name: str | None = None) -> _Any:
    """x, or an error when an element is NaN or infinite."""
    return check_numerics(x, message)


def set_log_device_placement(enabled: bool) -> None:
    """Whether functions log where their operations run; call it first, since what has run goes on as it was."""
    _placement["log"] = bool(enabled)


def get_log_device_placement() -> bool:
    """What set_log_device_placement said."""
    return _placement["log"]


__getattr__ = _module_getattr(__name__)
