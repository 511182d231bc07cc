# SPDX-License-Identifier: Apache-2.0
"""tf.keras.initializers"""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from ... import initializers as _own
from ..._lib import Keep as _Keep
from ..._lib import c_seed as _c_seed
from ..._lib import check as _check
from ..._lib import lib as _lib
from ..._tensor import as_dtype as _as_dtype
from .._absent import module_getattr as _module_getattr
from ._recorded import Recorded as _Recorded
from ._serial import by_module as _by_module
from ._serial import made_of as _made_of


class Initializer(_Recorded, _own.Initializer):
    """What initializers are. A call with a shape gives values. A class of a program defines __call__(shape, dtype)."""

    _is_float = True  # whether it makes numbers with fractions only

    def __init__(self, make: _Any = None):
        super().__init__(make)

    def _c(self, keep: _Keep) -> _Any:
        if self.__dict__.get("_make") is not None:
            return self._make()
        if type(self).__call__ is Initializer.__call__:
            raise TypeError(f"{type(self).__name__}: an initializer must have __call__(shape, dtype=None)")
        return _own._Function(lambda shape, dtype: self(shape, dtype=dtype))._c(keep)

    def get_config(self) -> dict:
        """The arguments that make the same one again."""
        return {}

    @classmethod
    def from_config(cls, config: dict) -> _Any:
        """An initializer of what get_config of another gave."""
        return cls(**{key: value for key, value in config.items() if key != "dtype"})

    def __call__(self, shape: _Any, dtype: _Any = None) -> _Any:
        if self._is_float and not _as_dtype(dtype or "float32").is_floating:
            raise ValueError(f"{type(self).__name__}: expected a floating point dtype, got {_as_dtype(dtype).name}")
        from .._eager import Tensor
        from .._world import numbered
        from ...graph import Graph, Node, Session
        from ..._tensor import c_shape
        graph, keep = numbered(Graph()), _Keep()
        node = Node(graph, _lib.est_initial_value(self._c(keep), graph._c, _as_dtype(dtype or "float32").number,
                                                  c_shape(tuple(shape))))
        graph.check()
        with Session(graph, threads=1, devices=["/cpu:0"]) as session:
            return Tensor(session.run(node))


def _class(name: str, doc: str, function: _Any, defaults: dict, base: type = Initializer) -> type:
    names = list(defaults)

    def __init__(self, *args: _Any, **named: _Any) -> None:
        values = {**defaults, **dict(zip(names, args)), **named}
        unknown = [key for key in values if key not in defaults]
        if unknown or len(args) > len(names):
            raise TypeError(f"{name} takes {', '.join(names)}")
        self.config = values

    made = type(name, (base,), {"__init__": __init__, "__doc__": doc, "__module__": __name__,
                                       "_c": lambda self, keep: function(**self.config)._c(keep)})
    made.get_config = lambda self: dict(self.config)
    return made


def _seeded(function: _Any) -> _Any:
    return lambda seed=None: function(_c_seed(seed))


class _OfAnyType(Initializer):
    _is_float = False


Zeros = _class("Zeros", "Zeros.", _own.zeros, {}, _OfAnyType)
Ones = _class("Ones", "Ones.", _own.ones, {}, _OfAnyType)
Constant = _class("Constant", "One number, or those of an array.", _own.constant, {"value": 0}, _OfAnyType)
RandomUniform = _class("RandomUniform", "Uniform.", lambda minval, maxval, seed: _own.random_uniform(
    minval, maxval, _c_seed(seed)), {"minval": -0.05, "maxval": 0.05, "seed": None})
RandomNormal = _class("RandomNormal", "Normal.", lambda mean, stddev, seed: _own.random_normal(mean, stddev, _c_seed(seed)),
                      {"mean": 0.0, "stddev": 0.05, "seed": None})
TruncatedNormal = _class("TruncatedNormal", "Normal, redrawn beyond two deviations.",
                         lambda mean, stddev, seed: _own.truncated_normal(mean, stddev, _c_seed(seed)),
                         {"mean": 0.0, "stddev": 0.05, "seed": None})
GlorotUniform = _class("GlorotUniform", "Uniform by fan in and out.", _seeded(_own.glorot_uniform), {"seed": None})
GlorotNormal = _class("GlorotNormal", "Normal by fan in and out.", _seeded(_own.glorot_normal), {"seed": None})
HeUniform = _class("HeUniform", "Uniform by fan in.", _seeded(_own.he_uniform), {"seed": None})
HeNormal = _class("HeNormal", "Normal by fan in.", _seeded(_own.he_normal), {"seed": None})
LecunUniform = _class("LecunUniform", "Uniform by fan in.", _seeded(_own.lecun_uniform), {"seed": None})
LecunNormal = _class("LecunNormal", "Normal by fan in.", _seeded(_own.lecun_normal), {"seed": None})


class _Drawn(Initializer):
    """Values that numpy computes, from a seed or from that of the program and a count."""

    _count = 0

    def __init__(self, config: dict):
        self.config = config
        self._own = _own._Function(lambda shape, dtype: self._values(tuple(shape)).astype(dtype.as_numpy_dtype))

    def get_config(self) -> dict:
        return dict(self.config)

    def _c(self, keep: _Keep) -> _Any:
        return self._own._c(keep)

    def _random(self) -> _Any:
        from .._world import _seed
        if self.config.get("seed") is not None:
            return _np.random.RandomState(self.config["seed"])
        _Drawn._count += 1
        return _np.random.RandomState((_seed[0] * 1000003 + _Drawn._count) % 2 ** 32)

    def _values(self, shape: tuple) -> _Any:
        raise NotImplementedError


class Orthogonal(_Drawn):
    """An orthogonal matrix, of the QR decomposition of normal numbers."""

    def __init__(self, gain: float = 1.0, seed: int | None = None):
        super().__init__({"gain": gain, "seed": seed})

    def _values(self, shape: tuple) -> _Any:
        if len(shape) < 2:
            raise ValueError(f"The tensor to initialize must be at least two-dimensional. Received: shape={shape}.")
        rows, columns = int(_np.prod(shape[:-1])), shape[-1]
        q, r = _np.linalg.qr(self._random().randn(max(rows, columns), min(rows, columns)))
        q = q * _np.sign(_np.diag(r))
        return self.config["gain"] * (q.T if rows < columns else q).reshape(shape)


class Identity(_Drawn):
    """The identity matrix."""

    def __init__(self, gain: float = 1.0):
        super().__init__({"gain": gain})

    def _values(self, shape: tuple) -> _Any:
        if len(shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices. Received: shape="
                             f"{shape} of rank {len(shape)}.")
        return self.config["gain"] * _np.eye(*shape)


class _ForgetBias(_Drawn):
    """The bias of an LSTM: ones for the gate that forgets."""

    def __init__(self, units: int, rest: _Any):
        super().__init__({"units": units, "rest": rest})

    def _values(self, shape: tuple) -> _Any:
        units = self.config["units"]
        found = _np.array(get(self.config["rest"])((shape[0],)))
        found[units:2 * units] = 1
        return found


orthogonal, identity = Orthogonal, Identity
zeros, ones, constant, random_uniform, random_normal, truncated_normal, glorot_uniform, glorot_normal = (
    Zeros, Ones, Constant, RandomUniform, RandomNormal, TruncatedNormal, GlorotUniform, GlorotNormal)
he_uniform, he_normal, lecun_uniform, lecun_normal = HeUniform, HeNormal, LecunUniform, LecunNormal


def _c(keep: _Keep, value: _Any) -> _Any:
    """An est_initializer by value: of a name of Keras, an Initializer or a function of shape and dtype."""
    if isinstance(value, dict):
        value = get(value)
        keep.append(value)
    if value in ("orthogonal", "Orthogonal", "identity", "Identity"):
        value = globals()[value]()
        keep.append(value)
    if isinstance(value, str):
        out = keep.new("est_initializer *")
        name = {"uniform": "random_uniform", "normal": "random_normal"}.get(value, value)
        _check(_lib.est_initializer_by_name(keep.string(name), out))
        return out[0]
    if isinstance(value, type) and issubclass(value, Initializer):
        value = value()
    return _own.c_initializer(keep, value)


class _ByName(Initializer):
    def __init__(self, name: str):
        self.config = {"name": name}
        keep = _Keep()
        _c(keep, name)  # an unknown name is an error here

    def _c(self, keep: _Keep) -> _Any:
        return _c(keep, self.config["name"])


def get(identifier: _Any) -> _Any:
    """The initializer of a name, a class or an object."""
    identifier = _made_of(identifier)
    if isinstance(identifier, str):
        kind = globals().get({"uniform": "random_uniform", "normal": "random_normal", "zero": "zeros", "one": "ones"}.get(
            identifier, identifier))
        return kind() if isinstance(kind, type) and issubclass(kind, Initializer) else _ByName(identifier)
    return identifier() if isinstance(identifier, type) else identifier


serialize, deserialize = _by_module("initializers")
__getattr__ = _module_getattr(__name__)
