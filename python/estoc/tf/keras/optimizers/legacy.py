# SPDX-License-Identifier: Apache-2.0
"""tf.keras.optimizers.legacy: formulas, defaults and names of slots as there. Estimators take them, and so do models and
loops of Keras."""
from __future__ import annotations

from typing import Any as _Any

from .... import optimizers as _optimizers
from ...._lib import Keep as _Keep
from ...._lib import here as _here
from ...._lib import lib as _lib
from ....graph import Node as _Node
from ..._absent import module_getattr as _module_getattr
from ..._tape import GradientTape as _GradientTape
from ..._indexed_slices import IndexedSlices as _IndexedSlices
from .._recorded import Recorded as _Recorded
from .._serial import recorded as _recorded_arguments
from .._serial import serialize as _serialized
from . import schedules as _schedules


class Optimizer(_Recorded, _optimizers.Optimizer):
    """What they have in common: the library's optimizer in the graphs of estimators, and that of Keras elsewhere."""

    _momentum, _centered, _amsgrad = 0.0, False, False

    @property
    def learning_rate(self) -> _Any:
        """The variable, once a model or a loop trains with it; a schedule as it is."""
        if self.__dict__.get("_loop") is None or isinstance(self._rate, _schedules.LearningRateSchedule):
            return self._rate
        return self._loop.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: _Any) -> None:
        self._rate = value
        if self.__dict__.get("_loop") is not None:
            self._loop.learning_rate = value

    lr = learning_rate

    def _plain_rate(self) -> _Any:
        return self._rate

    def _set_up(self, name: str, named: dict) -> None:
        self.name = name
        self._clipping = {key: named.pop(key) for key in ("clipnorm", "clipvalue", "global_clipnorm") if key in named}
        if "lr" in named:
            self.learning_rate = named.pop("lr")
        decay = named.pop("decay", 0)
        if decay:
            self.learning_rate = _schedules.InverseTimeDecay(self.learning_rate, 1, decay)
        if named:
            raise TypeError(f"{name} got an unexpected keyword argument {next(iter(named))!r}")
        self._loop: _Any = None

    def get_config(self) -> dict:
        """What the optimizer was made with, as plain values."""
        made = _recorded_arguments(self, type(self))
        made.pop("learning_rate", None)
        rate = self._rate if self._loop is None else self._loop._rate_as_plain()
        return {"name": self.name, "learning_rate": _serialized(rate), "decay": made.pop("decay", 0.0),
                **{key: value for key, value in made.items() if key != "name"}}

    def _c(self, keep: _Keep) -> _Any:
        clip = self._clipping
        return _lib.est_with_clipping(super()._c(keep), clip.get("clipvalue") or 0.0, clip.get("clipnorm") or 0.0,
                                      clip.get("global_clipnorm") or 0.0)

    def _in_loop(self) -> _Any:
        """The same for models and loops of Keras."""
        if self._loop is None:
            from . import _of_legacy
            self._loop = _of_legacy(self)
        return self._loop

    @property
    def iterations(self) -> _Any:
        return self._in_loop().iterations

    @iterations.setter
    def iterations(self, variable: _Any) -> None:
        """In a model_fn the global step, which it counts anyway."""
        if not isinstance(variable, _Node):
            raise NotImplementedError("iterations of a legacy optimizer can be set to the global step of a model_fn; "
                                      "outside of one it counts by itself")

    def variables(self) -> list:
        return self._in_loop().variables

    def apply_gradients(self, grads_and_vars: _Any, name: str | None = None, **named: _Any) -> _Any:
        pairs = list(grads_and_vars)
        values = (gradient.values if isinstance(gradient, _IndexedSlices) else gradient for gradient, _ in pairs)
        graph = next((value.graph for value in values if isinstance(value, _Node)), None)
        if graph is None or getattr(graph, "world", None) is not None:
            return self._in_loop().apply_gradients(pairs, name, **named)
        return self._applied(graph, [(gradient, variable) for gradient, variable in pairs if gradient is not None])

    def _applied(self, graph: _Any, pairs: list) -> _Any:
        """The operation of a step of a model_fn; it counts the global step."""
        from ...compat.v1.train import _gradient
        keep = _Keep()
        _here()
        nodes = keep.span("est_nodes", "est_node", [variable._c for _, variable in pairs])
        return graph.node(_lib.est_apply_gradients(self._c(keep), nodes, keep.new("est_gradient[]", [
            _gradient(keep, gradient) for gradient, _ in pairs]), keep.options("est_minimize_options")))

    def get_updates(self, loss: _Any, params: _Any) -> list:
        """The operation of a training step, in a list."""
        return [self.minimize(loss, params)]

    def minimize(self, loss: _Any, var_list: _Any = None, grad_loss: _Any = None, name: str | None = None,
                 tape: _Any = None, **named: _Any) -> _Any:
        if not (isinstance(loss, _Node) and getattr(loss.graph, "world", None) is None):
            if named:
                raise TypeError(f"minimize() got an unexpected keyword argument {next(iter(named))!r}")
            if tape is None:
                with _GradientTape() as tape:
                    loss = loss()
            return self.apply_gradients(zip(tape.gradient(loss, var_list, grad_loss), var_list), name)
        if grad_loss is not None:
            loss = loss * grad_loss
        return super().minimize(loss, var_list=var_list, name=name, **named)


class SGD(Optimizer, _optimizers.SGD):
    def __init__(self, learning_rate: _Any = 0.01, momentum: float = 0.0, nesterov: bool = False, name: str = "SGD",
                 **named: _Any):
        _optimizers.SGD.__init__(self, learning_rate, momentum, nesterov, keras=True)
        self._momentum = momentum
        self._set_up(name, named)


class Adam(Optimizer, _optimizers.Adam):
    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 amsgrad: bool = False, name: str = "Adam", **named: _Any):
        _optimizers.Adam.__init__(self, learning_rate, beta_1, beta_2, epsilon or 1e-7, keras=True, amsgrad=bool(amsgrad))
        self._amsgrad = bool(amsgrad)
        self._set_up(name, named)


class Adagrad(Optimizer, _optimizers.Adagrad):
    def __init__(self, learning_rate: _Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 name: str = "Adagrad", **named: _Any):
        _optimizers.Adagrad.__init__(self, learning_rate, initial_accumulator_value, epsilon or 1e-7, keras=True)
        self._set_up(name, named)


class RMSprop(Optimizer, _optimizers.RMSProp):
    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
                 centered: bool = False, name: str = "RMSprop", **named: _Any):
        _optimizers.RMSProp.__init__(self, learning_rate, rho, momentum, epsilon or 1e-7, centered, keras=True)
        self._momentum, self._centered = momentum, bool(centered)
        self._set_up(name, named)


class Ftrl(Optimizer, _optimizers.Ftrl):
    def __init__(self, learning_rate: _Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, name: str = "Ftrl",
                 l2_shrinkage_regularization_strength: float = 0.0, beta: float = 0.0, **named: _Any):
        _optimizers.Ftrl.__init__(self, learning_rate, learning_rate_power, initial_accumulator_value,
                                  l1_regularization_strength, l2_regularization_strength,
                                  l2_shrinkage_regularization_strength, beta, keras=True)
        self._set_up(name, named)


class Adadelta(Optimizer, _optimizers.Adadelta):
    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, name: str = "Adadelta",
                 **named: _Any):
        _optimizers.Adadelta.__init__(self, learning_rate, rho, epsilon or 1e-7, keras=True)
        self._set_up(name, named)


class Adamax(Optimizer, _optimizers.Adamax):
    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 name: str = "Adamax", **named: _Any):
        _optimizers.Adamax.__init__(self, learning_rate, beta_1, beta_2, epsilon or 1e-7, lazy=True)
        self._set_up(name, named)


__getattr__ = _module_getattr(__name__, {
    "Nadam": "tf.keras.optimizers.Nadam, whose momentum follows another schedule"})
