# SPDX-License-Identifier: Apache-2.0
"""tf.keras.activations"""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

from ..._lib import check as _check
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from .._absent import module_getattr as _module_getattr
from .._eager import eager as _eager

_NAMES = ("elu", "exponential", "gelu", "hard_sigmoid", "linear", "mish", "relu", "selu", "sigmoid", "softmax",
          "softplus", "softsign", "swish", "tanh")


def _named(name: str) -> _Callable:
    out = _ffi.new("est_activation *")
    _check(_lib.est_activation_by_name(name.encode(), out))
    function = out[0]

    def build(x: "Tensor") -> _Any:  # noqa: F821
        return x.graph.node(function(x.value()._c if hasattr(x, "read_value") else x._c))

    build.__name__ = name
    made = _eager(build, name)
    made._keras_name = name
    return made


for _name in _NAMES:
    globals()[_name] = _named(_name)
silu = globals()["swish"]


def get(identifier: _Any) -> _Callable:
    """The function of a name, or the function itself."""
    if identifier is None:
        return globals()["linear"]
    return _named(identifier) if isinstance(identifier, str) else identifier


def serialize(activation: _Callable) -> str:
    return activation._keras_name if hasattr(activation, "_keras_name") else activation.__name__


__getattr__ = _module_getattr(__name__)
