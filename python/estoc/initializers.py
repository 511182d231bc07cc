# SPDX-License-Identifier: Apache-2.0
"""Initial values and regularizers of variables, with TensorFlow's formulas and defaults."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ._lib import Handle, Keep, ffi, lib, node_callback
from ._tensor import as_dtype, py_shape
from .graph import Graph, as_node, lasting


class Initializer:
    """The initial value of a variable; a plain value without a graph."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    def _c(self, keep: Keep) -> Any:
        return self._make()


class _Function(Initializer):
    def __init__(self, function: Callable):
        self._handle = Handle(function)

    def _c(self, keep: Keep) -> Any:
        keep.append(self._handle)
        struct = keep.new("est_initializer *")
        struct.make = lib.py_on_initialize
        struct.user = self._handle.pointer
        return struct[0]


@node_callback("py_on_initialize", lambda self, graph, dtype, shape: graph)
def _initialize(self: Any, graph: Any, dtype: Any, shape: Any) -> Any:
    kind, own = as_dtype(int(dtype)), Graph(_borrowed=graph)
    home = lasting.get(int(ffi.cast("uintptr_t", graph)))
    try:
        value = Handle.get(self.user)(py_shape(shape), kind)
    except BaseException as exception:
        if home is None:
            raise
        home.raised = exception
        return lib.est_initial_value(lib.est_init_zeros(), graph, dtype, shape)
    node = as_node(value, own, kind)._c
    result = ffi.new("est_node *", node)[0]
    own._close()
    return result


def as_initializer(value: Any) -> Initializer | None:
    """An Initializer or its class, a function of shape and dtype that returns a value or a node, a number, or a name
    ("zeros")."""
    if isinstance(value, type) and issubclass(value, Initializer):
        value = value()
    if value is None or isinstance(value, Initializer):
        return value
    if isinstance(value, str):
        if value not in _BY_NAME:
            raise ValueError(f"there is no initializer {value!r}; there are {', '.join(_BY_NAME)}")
        return _BY_NAME[value]()
    if callable(value):
        return _Function(lambda shape, dtype: value(shape, dtype=dtype))
    return constant(value)


def c_initializer(keep: Keep, value: Any) -> Any:
    """An est_initializer by value; zeroed for None."""
    initializer = as_initializer(value)
    return keep.new("est_initializer *")[0] if initializer is None else initializer._c(keep)


def zeros() -> Initializer:
    """Zeros."""
    return Initializer(lambda: lib.est_init_zeros())


def ones() -> Initializer:
    """Ones."""
    return Initializer(lambda: lib.est_init_ones())


def constant(value: Any = 0) -> Initializer:
    """A number, or an array of as many numbers as the variable has."""
    if np.ndim(value) == 0:
        return Initializer(lambda: lib.est_init_constant(value))

    def initial(shape: Any, dtype: Any) -> np.ndarray:
        array = np.asarray(value, dtype.as_numpy_dtype)
        if array.size == 1:
            return np.broadcast_to(array.reshape(()), shape).copy()
        if array.size != int(np.prod(shape)):
            raise ValueError(f"the initial value has the shape {array.shape}, and the variable {tuple(shape)}")
        return array.reshape(shape)

    return _Function(initial)


def random_uniform(low: float = -0.05, high: float = 0.05, seed: int = 0) -> Initializer:
    """Numbers from low to high."""
    return Initializer(lambda: lib.est_init_random_uniform(low, high, seed))


def random_normal(mean: float = 0, deviation: float = 0.05, seed: int = 0) -> Initializer:
    """Normal."""
    return Initializer(lambda: lib.est_init_random_normal(mean, deviation, seed))


def truncated_normal(mean: float = 0, deviation: float = 0.05, seed: int = 0) -> Initializer:
    """Normal, redrawn beyond two deviations."""
    return Initializer(lambda: lib.est_init_truncated_normal(mean, deviation, seed))


def glorot_uniform(seed: int = 0) -> Initializer:
    """Uniform, with a variance of 2 over the number of inputs and outputs."""
    return Initializer(lambda: lib.est_init_glorot_uniform(seed))


def glorot_normal(seed: int = 0) -> Initializer:
    """Normal within two deviations, with a variance of 2 over the number of inputs and outputs."""
    return Initializer(lambda: lib.est_init_glorot_normal(seed))


def he_uniform(seed: int = 0) -> Initializer:
    """Uniform, with a variance of 2 over the number of inputs."""
    return Initializer(lambda: lib.est_init_he_uniform(seed))


def he_normal(seed: int = 0) -> Initializer:
    """Normal within two deviations, with a variance of 2 over the number of inputs."""
    return Initializer(lambda: lib.est_init_he_normal(seed))


def lecun_uniform(seed: int = 0) -> Initializer:
    """Uniform, with a variance of 1 over the number of inputs."""
    return Initializer(lambda: lib.est_init_lecun_uniform(seed))


def lecun_normal(seed: int = 0) -> Initializer:
    """Normal within two deviations, with a variance of 1 over the number of inputs."""
    return Initializer(lambda: lib.est_init_lecun_normal(seed))


_BY_NAME = {f.__name__: f for f in (zeros, ones, random_uniform, random_normal, truncated_normal, glorot_uniform,
                                    glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal)}


class Regularizer:
    """l1 * sum |w| + l2 * sum w^2."""

    def __init__(self, l1: float = 0, l2: float = 0):
        self.l1, self.l2 = l1, l2

    def _c(self) -> Any:
        return lib.est_l1_l2_regularizer(self.l1, self.l2)


def c_regularizer(keep: Keep, value: Regularizer | None) -> Any:
    return keep.new("est_regularizer *")[0] if value is None else value._c()


