# SPDX-License-Identifier: Apache-2.0
"""tf.keras.optimizers.schedules"""
from __future__ import annotations

from typing import Any as _Any
from typing import Sequence as _Sequence

from ...._lib import Keep as _Keep
from ...._lib import here as _here
from ...._lib import lib as _lib
from ...._lib import off as _off
from ...._tensor import as_array as _as_array
from ...._tensor import int64 as _int64
from ....graph import Node as _Node
from ..._absent import module_getattr as _module_getattr
from ..._eager import dispatch as _dispatch
from ..._eager import unwrap as _unwrap
from .._recorded import Recorded as _Recorded
from .._serial import by_module as _by_module


class LearningRateSchedule(_Recorded):
    """A learning rate as a function of the step. Subclasses override __call__, for loops of their own."""

    def __call__(self, step: _Any) -> _Any:
        raise NotImplementedError("Learning rate schedule must override __call__(self, step).")

    def _schedule(self, keep: _Keep) -> _Any:
        raise NotImplementedError("a learning-rate schedule of your own works with apply_gradients in a function; "
                                  "compile takes those of tf.keras.optimizers.schedules")

    def get_config(self) -> dict:
        return dict(self.__dict__.get("config", {}))


class _Native(LearningRateSchedule):
    _copied_by_arguments = True

    def __init__(self, make: _Any, config: dict):
        self._make, self.config = make, config
        self._over_nodes = self._rate

    def _schedule(self, keep: _Keep) -> _Any:
        return self._make(keep)

    def _rate(self, step: _Node) -> _Node:
        keep = _Keep()
        _here()
        step = step if step.dtype == _int64 else _Node(step.graph, _lib.est_cast(step._c, _int64.number))
        return step.graph.node(_lib.est_learning_rate(self._make(keep), step._c))

    def __call__(self, step: _Any) -> _Any:
        return _dispatch(self._over_nodes, (step,), {}, lambda positional, named: (
            (_as_array(_unwrap(positional[0]), _int64),), named))


class ExponentialDecay(_Native):
    """initial * decay_rate^(step / decay_steps)"""

    def __init__(self, initial_learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False,
                 name: str | None = None):
        super().__init__(lambda keep: _lib.est_exponential_decay(initial_learning_rate, int(decay_steps), decay_rate,
                                                                 staircase),
                         {"initial_learning_rate": initial_learning_rate, "decay_steps": decay_steps,
                          "decay_rate": decay_rate, "staircase": staircase})


class InverseTimeDecay(_Native):
    """initial / (1 + decay_rate step / decay_steps)"""

    def __init__(self, initial_learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False,
                 name: str | None = None):
        super().__init__(lambda keep: _lib.est_inverse_time_decay(initial_learning_rate, int(decay_steps), decay_rate,
                                                                  staircase),
                         {"initial_learning_rate": initial_learning_rate, "decay_steps": decay_steps,
                          "decay_rate": decay_rate, "staircase": staircase})


class PolynomialDecay(_Native):
    """(initial - end) (1 - step / decay_steps)^power + end"""

    def __init__(self, initial_learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001,
                 power: float = 1.0, cycle: bool = False, name: str | None = None):
        super().__init__(lambda keep: _lib.est_polynomial_decay(initial_learning_rate, int(decay_steps),
                                                                end_learning_rate, power, cycle),
                         {"initial_learning_rate": initial_learning_rate, "decay_steps": decay_steps,
                          "end_learning_rate": end_learning_rate, "power": power, "cycle": cycle})


class CosineDecay(_Native):
    """Half a cosine, from initial to alpha * initial."""

    def __init__(self, initial_learning_rate: float, decay_steps: int, alpha: float = 0.0, name: str | None = None,
                 warmup_target: _Any = None, warmup_steps: int = 0):
        def make(keep: _Keep) -> _Any:
            if warmup_target is None:
                return _lib.est_cosine_decay(initial_learning_rate, int(decay_steps), alpha)
            return _lib.est_warmup_before(_lib.est_cosine_decay(warmup_target, int(decay_steps), alpha),
                                          int(warmup_steps), initial_learning_rate)

        super().__init__(make, {"initial_learning_rate": initial_learning_rate, "decay_steps": decay_steps,
                                "alpha": alpha, "warmup_target": warmup_target, "warmup_steps": warmup_steps})


class CosineDecayRestarts(_Native):
    """Cosines with restarts."""

    def __init__(self, initial_learning_rate: float, first_decay_steps: int, t_mul: float = 2.0, m_mul: float = 1.0,
                 alpha: float = 0.0, name: str | None = None):
        super().__init__(lambda keep: _lib.est_cosine_decay_restarts(
            initial_learning_rate, int(first_decay_steps), t_mul, _off(m_mul), alpha),
            {"initial_learning_rate": initial_learning_rate, "first_decay_steps": first_decay_steps, "t_mul": t_mul,
             "m_mul": m_mul, "alpha": alpha})


class PiecewiseConstantDecay(_Native):
    """values[0] up to and with boundaries[0], and so on."""

    def __init__(self, boundaries: _Sequence[int], values: _Sequence[float], name: str | None = None):
        if len(values) != len(boundaries) + 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values.")
        super().__init__(lambda keep: _lib.est_piecewise_constant(keep.i64s(boundaries), keep.f64s(values)),
                         {"boundaries": list(boundaries), "values": list(values)})


serialize, deserialize = _by_module("optimizers.schedules")
__getattr__ = _module_getattr(__name__)
