# SPDX-License-Identifier: Apache-2.0
"""tf.keras.constraints: functions that a variable is put through after each update."""
from __future__ import annotations

from typing import Any as _Any

from ... import ops as _ops
from .._absent import module_getattr as _module_getattr
from .._eager import eager as _eager
from ._recorded import Recorded as _Recorded
from ._serial import by_module as _by_module
from ._serial import made_of as _made_of

_EPSILON = 1e-7


@_eager
def _norms(w: "Tensor", axis: _Any) -> _Any:  # noqa: F821
    return _ops.sqrt(_ops.reduce_sum(_ops.square(w), axis, True))


_cast, _clip = _eager(_ops.cast), _eager(_ops.clip_by_value)


class Constraint(_Recorded):
    """Subclasses override __call__, which gives the allowed value nearest to a value."""

    def __call__(self, w: _Any) -> _Any:
        return w

    def get_config(self) -> dict:
        return {}

    @classmethod
    def from_config(cls, config: dict) -> "Constraint":
        return cls(**config)


class MaxNorm(Constraint):
    """Columns no longer than max_value."""

    def __init__(self, max_value: float = 2, axis: _Any = 0):
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: _Any) -> _Any:
        norms = _norms(w, self.axis)
        return w * (_clip(norms, 0.0, float(self.max_value)) / (norms + _EPSILON))

    def get_config(self) -> dict:
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Nothing below 0."""

    def __call__(self, w: _Any) -> _Any:
        return w * _cast(w >= 0.0, w.dtype)


class UnitNorm(Constraint):
    """Columns of length 1."""

    def __init__(self, axis: _Any = 0):
        self.axis = axis

    def __call__(self, w: _Any) -> _Any:
        return w / (_norms(w, self.axis) + _EPSILON)

    def get_config(self) -> dict:
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Columns moved towards a length between two, by the part `rate` of the way."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: _Any = 0):
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: _Any) -> _Any:
        norms = _norms(w, self.axis)
        wanted = _clip(norms, float(self.min_value), float(self.max_value)) * float(self.rate) + norms * (1.0 - self.rate)
        return w * (wanted / (norms + _EPSILON))

    def get_config(self) -> dict:
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
_NAMES = {"max_norm": MaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm, "min_max_norm": MinMaxNorm,
          "maxnorm": MaxNorm, "nonneg": NonNeg, "unitnorm": UnitNorm, "minmaxnorm": MinMaxNorm}


def get(identifier: _Any) -> _Any:
    """The constraint of a name, or an object or a function itself."""
    identifier = _made_of(identifier)
    if identifier is None:
        return None
    if isinstance(identifier, str):
        if identifier.lower() not in _NAMES:
            raise ValueError(f"Unknown constraint: '{identifier}'; there are max_norm, min_max_norm, non_neg, unit_norm")
        return _NAMES[identifier.lower()]()
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret constraint function identifier: {identifier}")


serialize, deserialize = _by_module("constraints")
__getattr__ = _module_getattr(__name__, {
    "RadialConstraint": "a function of the kernel, [rows, columns, ...], as kernel_constraint"})
