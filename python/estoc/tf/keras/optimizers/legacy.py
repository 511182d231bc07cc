# SPDX-License-Identifier: Apache-2.0
"""tf.keras.optimizers.legacy: formulas, defaults and names of slots as there."""
from __future__ import annotations

from typing import Any as _Any

from .... import optimizers as _optimizers
from ..._absent import module_getattr as _module_getattr


class SGD(_optimizers.SGD):
    def __init__(self, learning_rate: _Any = 0.01, momentum: float = 0.0, nesterov: bool = False, name: str = "SGD"):
        super().__init__(learning_rate, momentum, nesterov, keras=True)


class Adam(_optimizers.Adam):
    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 amsgrad: bool = False, name: str = "Adam"):
        if amsgrad:
            raise NotImplementedError("amsgrad does not exist yet")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, keras=True)


class Adagrad(_optimizers.Adagrad):
    def __init__(self, learning_rate: _Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 name: str = "Adagrad"):
        super().__init__(learning_rate, initial_accumulator_value, epsilon, keras=True)


class RMSprop(_optimizers.RMSProp):
    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
                 centered: bool = False, name: str = "RMSprop"):
        super().__init__(learning_rate, rho, momentum, epsilon, centered, keras=True)


class Ftrl(_optimizers.Ftrl):
    def __init__(self, learning_rate: _Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, name: str = "Ftrl",
                 l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0):
        super().__init__(learning_rate, learning_rate_power, initial_accumulator_value, l1_regularization_strength,
                         l2_regularization_strength, l2_shrinkage_regularization_strength, beta, keras=True)


class Adadelta(_optimizers.Adadelta):
    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, name: str = "Adadelta"):
        super().__init__(learning_rate, rho, epsilon, keras=True)


__getattr__ = _module_getattr(__name__)
