# SPDX-License-Identifier: Apache-2.0
"""tf.keras.activations"""
from __future__ import annotations

import functools as _functools
from typing import Any as _Any
from typing import Callable as _Callable

from ... import ops as _ops
from ..._lib import check as _check
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from .._absent import module_getattr as _module_getattr
from ...graph import default_graph as _default_graph
from .._eager import Tensor as _Tensor
from .._eager import eager as _eager
from .._eager import unwrap as _unwrap
from ..nn import gelu as _gelu

_NAMES = ("elu", "exponential", "gelu", "hard_sigmoid", "linear", "mish", "relu", "selu", "sigmoid", "softmax",
          "softplus", "softsign", "swish", "tanh")


def _keeping_logits(function: _Callable, activation: str) -> _Callable:
    """Its results outside of functions know what it was given: losses are computed from that, as in graphs."""
    @_functools.wraps(function)
    def call(x: _Any, *arguments: _Any) -> _Any:
        if hasattr(x, "read_value") and _default_graph() is None:
            x = x.value()
        result = function(x, *arguments)
        if type(result) is _Tensor:
            result._keras_logits = {activation: x if type(x) is _Tensor else _Tensor(_unwrap(x))}
        return result

    return call


def _named(name: str) -> _Callable:
    out = _ffi.new("est_activation *")
    _check(_lib.est_activation_by_name(name.encode(), out))
    function = out[0]

    def build(x: "Tensor") -> _Any:  # noqa: F821
        return x.graph.node(function(x.value()._c if hasattr(x, "read_value") else x._c))

    build.__name__, build.__doc__ = name, f"The activation {name}, element by element."
    made = _eager(build, name)
    if name in ("softmax", "sigmoid"):
        made = _keeping_logits(made, name.capitalize())
    made._keras_name = name
    return made


for _name in _NAMES:
    globals()[_name] = _named(_name)
_plain = {_name: globals()[_name] for _name in ("relu", "elu", "gelu", "softmax")}
silu = globals()["swish"]


@_eager
def _relu(x: "Tensor", alpha: float, max_value: _Any, threshold: float) -> _Any:  # noqa: F821
    below = (x - threshold) * alpha
    kept = x if max_value is None else _ops.minimum(x, max_value)
    return _ops.where(x >= threshold, kept, below)


def relu(x: _Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> _Any:
    """x from the threshold on, at most max_value; alpha (x - threshold) below."""
    if alpha == 0 and max_value is None and threshold == 0:
        return _plain["relu"](x)
    return _relu(x, float(alpha), max_value, float(threshold))


@_eager
def _elu(x: "Tensor", alpha: float) -> _Any:  # noqa: F821
    return _ops.where(x > 0.0, x, _ops.elu(x) * alpha)


def elu(x: _Any, alpha: float = 1.0) -> _Any:
    """x, or alpha (exp(x) - 1) below 0."""
    return _plain["elu"](x) if alpha == 1 else _elu(x, float(alpha))


def gelu(x: _Any, approximate: bool = False) -> _Any:
    """x times the normal distribution function of x."""
    return _gelu(x, approximate=True) if approximate else _plain["gelu"](x)


def softmax(x: _Any, axis: int = -1) -> _Any:
    """exp(x) / sum(exp(x)) along the axis."""
    return _plain["softmax"](x) if axis == -1 else _softmax(x, axis)


_softmax = _keeping_logits(_eager(_ops.softmax), "Softmax")
for _name in _plain:
    globals()[_name]._keras_name = _name


def get(identifier: _Any) -> _Callable:
    """The function of a name, or the function itself."""
    if identifier is None:
        return globals()["linear"]
    if isinstance(identifier, (dict, str)):
        from ._serial import made_of
        identifier = made_of(identifier)
    return _named(identifier) if isinstance(identifier, str) else identifier


def serialize(activation: _Callable) -> str:
    """The name of an activation."""
    return activation._keras_name if hasattr(activation, "_keras_name") else activation.__name__


__getattr__ = _module_getattr(__name__)
