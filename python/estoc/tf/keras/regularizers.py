# SPDX-License-Identifier: Apache-2.0
"""tf.keras.regularizers"""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from ... import initializers as _own
from ..._lib import Keep as _Keep
from ..._lib import check as _check
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from .._absent import module_getattr as _module_getattr
from ._recorded import Recorded as _Recorded
from ._serial import by_module as _by_module
from ._serial import made_of as _made_of


class Regularizer(_Recorded, _own.Regularizer):
    """l1 * sum |w| + l2 * sum w^2."""

    def __call__(self, x: _Any) -> _Any:
        from ... import ops
        from .._eager import eager
        total = eager(ops.multiply)(eager(ops.reduce_sum)(eager(ops.square)(x)), float(self.l2))
        if self.l1:
            total = total + eager(ops.multiply)(eager(ops.reduce_sum)(eager(ops.abs)(x)), float(self.l1))
        return total

    def get_config(self) -> dict:
        """The arguments, as float32 has them."""
        of = {"L1": ("l1",), "L2": ("l2",)}.get(type(self).__name__, ("l1", "l2"))
        return {key: float(_np.float32(getattr(self, key))) for key in of}


class L1(Regularizer):
    def __init__(self, l1: float = 0.01):
        super().__init__(l1, 0)


class L2(Regularizer):
    def __init__(self, l2: float = 0.01):
        super().__init__(0, l2)


class L1L2(Regularizer):
    def __init__(self, l1: float = 0.0, l2: float = 0.0):
        super().__init__(l1, l2)


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> Regularizer:
    """The sum of absolute values and that of squares."""
    return L1L2(l1, l2)


l1, l2 = L1, L2


def get(identifier: _Any) -> _Any:
    """The regularizer of a name, or an object or a function itself."""
    identifier = _made_of(identifier)
    if identifier is None or isinstance(identifier, Regularizer):
        return identifier
    if isinstance(identifier, str) and identifier.lower() in ("l1", "l2"):
        return L1() if identifier.lower() == "l1" else L2()
    if isinstance(identifier, str):
        out = _ffi.new("est_regularizer *")
        _check(_lib.est_regularizer_by_name(identifier.encode(), out))
        return L1L2(out.l1, out.l2)
    if isinstance(identifier, type) and issubclass(identifier, Regularizer):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret regularizer identifier: {identifier}")


def _c(keep: _Keep, value: _Any) -> _Any:
    """For layers of the library."""
    found = get(value)
    if found is not None and type(found).__call__ is not Regularizer.__call__:
        raise NotImplementedError("the regularizer of a layer of the library is a name or one of tf.keras.regularizers; "
                                  "functions and classes of your own work with add_weight")
    return _own.c_regularizer(keep, found)


serialize, deserialize = _by_module("regularizers")
__getattr__ = _module_getattr(__name__)
