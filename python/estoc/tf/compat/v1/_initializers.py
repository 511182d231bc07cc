# SPDX-License-Identifier: Apache-2.0
"""Initializers by their names in TensorFlow 1: classes, which may be given in place of what they make."""
from __future__ import annotations

from typing import Any

from ...._lib import Keep, c_seed, lib
from ...._tensor import as_dtype, c_shape, float32
from ....initializers import Initializer, constant
from ._graph import get_default_graph


class _Initializer(Initializer):
    """Called with a shape, it is a tensor of the graph."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        graph = get_default_graph()
        number = as_dtype(float32 if dtype is None else dtype).number
        return graph.node(lib.est_initial_value(self._c(graph.keep), graph._c, number, c_shape(shape)))


class zeros_initializer(_Initializer):  # noqa: N801
    def __init__(self, dtype: Any = None):
        super().__init__(lib.est_init_zeros)


class ones_initializer(_Initializer):  # noqa: N801
    def __init__(self, dtype: Any = None):
        super().__init__(lib.est_init_ones)


class constant_initializer(_Initializer):  # noqa: N801
    """A number, or an array of the variable's shape."""

    def __init__(self, value: Any = 0, dtype: Any = None, verify_shape: bool = False):
        self._value = constant(value)

    def _c(self, keep: Keep) -> Any:
        return self._value._c(keep)


class random_uniform_initializer(_Initializer):  # noqa: N801
    def __init__(self, minval: float = 0, maxval: float | None = None, seed: int | None = None, dtype: Any = None):
        super().__init__(lambda: lib.est_init_random_uniform(minval, 1 if maxval is None else maxval, c_seed(seed)))


class random_normal_initializer(_Initializer):  # noqa: N801
    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = None):
        super().__init__(lambda: lib.est_init_random_normal(mean, stddev, c_seed(seed)))


class truncated_normal_initializer(_Initializer):  # noqa: N801
    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: Any = None):
        super().__init__(lambda: lib.est_init_truncated_normal(mean, stddev, c_seed(seed)))


class glorot_uniform_initializer(_Initializer):  # noqa: N801
    def __init__(self, seed: int | None = None, dtype: Any = None):
        super().__init__(lambda: lib.est_init_glorot_uniform(c_seed(seed)))


class glorot_normal_initializer(_Initializer):  # noqa: N801
    def __init__(self, seed: int | None = None, dtype: Any = None):
        super().__init__(lambda: lib.est_init_glorot_normal(c_seed(seed)))
