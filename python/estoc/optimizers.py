# SPDX-License-Identifier: Apache-2.0
"""Optimizers and learning-rate schedules: plain values without a graph. `minimize` makes the training operation.

With keras=True formulas, slots and names are those of the legacy Keras optimizers, else those of tf.compat.v1.train.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ._lib import Keep, here, lib, off
from .graph import Node, Variable


class Schedule:
    """A learning rate as a function of the global step."""

    def __init__(self, make: Callable[[Keep], Any]):
        self._make = make

    def rate(self, step: Node) -> Node:
        """The rate at `step`, an int64 scalar or a variable."""
        here()
        keep = Keep()
        return step.graph.node(lib.est_learning_rate(self._make(keep), step._c))


def exponential_decay(initial: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Schedule:
    """initial * decay_rate^(step / decay_steps)"""
    return Schedule(lambda keep: lib.est_exponential_decay(initial, decay_steps, decay_rate, staircase))


def inverse_time_decay(initial: float, decay_steps: int, decay_rate: float, staircase: bool = False) -> Schedule:
    """initial / (1 + decay_rate step / decay_steps)"""
    return Schedule(lambda keep: lib.est_inverse_time_decay(initial, decay_steps, decay_rate, staircase))


def polynomial_decay(initial: float, decay_steps: int, end: float = 0.0001, power: float = 1,
                     cycle: bool = False) -> Schedule:
    """(initial - end) (1 - step / decay_steps)^power + end"""
    return Schedule(lambda keep: lib.est_polynomial_decay(initial, decay_steps, end, power, cycle))


def cosine_decay(initial: float, decay_steps: int, alpha: float = 0) -> Schedule:
    """Half a cosine, from initial to alpha * initial."""
    return Schedule(lambda keep: lib.est_cosine_decay(initial, decay_steps, alpha))


def piecewise_constant(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """values[0] up to and with boundaries[0], and so on; one more value than boundaries."""
    return Schedule(lambda keep: lib.est_piecewise_constant(keep.i64s(boundaries), keep.f64s(values)))


class Optimizer:
    """How gradients update variables. learning_rate is a number, a Schedule or a node."""

    def __init__(self, make: Callable[[float, Keep], Any], learning_rate: Any):
        self._make_c = make
        self.learning_rate = learning_rate

    def _plain_rate(self) -> Any:
        """The learning rate as the program gave it."""
        return self.learning_rate

    def _c(self, keep: Keep) -> Any:
        rate = self._plain_rate()
        if hasattr(rate, "_schedule"):  # one of Keras, by the global step
            return lib.est_with_schedule(self._make_c(0, keep), rate._schedule(keep))
        if isinstance(rate, (Schedule, Node)):
            optimizer = self._make_c(0, keep)
            if isinstance(rate, Schedule):
                return lib.est_with_schedule(optimizer, rate._make(keep))
            node = rate.value() if isinstance(rate, Variable) else rate
            return lib.est_with_learning_node(optimizer, node._c)
        return self._make_c(off(rate), keep)

    def minimize(self, loss: Node, global_step: Variable | None = None, var_list: Sequence[Variable] | None = None,
                 clip_norm: float = 0, clip_global_norm: float = 0, clip_value: float = 0, name: str | None = None,
                 count_step: bool = True, run_update_ops: bool = True) -> Node:
        """The operation of a training step over all trainable variables, or these; it also counts the global step,
        unless another one does (count_step=False), and runs the updates of moving averages (run_update_ops)."""
        here()
        keep = Keep()
        members: dict[str, Any] = {"name": keep.string(name), "clip_norm": clip_norm, "clip_value": clip_value,
                                   "clip_global_norm": clip_global_norm, "no_global_step": not count_step,
                                   "no_update_ops": not run_update_ops}
        if global_step is not None:
            members["global_step"] = global_step._c
        if var_list is not None:
            members["variables"] = keep.span("est_nodes", "est_node", [variable._c for variable in var_list])
        return loss.graph.node(lib.est_minimize(self._c(keep), loss._c,
                                                keep.options("est_minimize_options", **members)))


class SGD(Optimizer):
    """w -= lr g; with momentum, or slot, a running sum of gradients."""

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0, nesterov: bool = False, keras: bool = False,
                 slot: bool = False):
        def make(rate: float, keep: Keep) -> Any:
            if momentum == 0 and not slot:
                return lib.est_sgd(rate)
            return lib.est_momentum(rate, keep.options("est_momentum_options", momentum=off(momentum), nesterov=nesterov,
                                                   keras=keras))

        super().__init__(make, learning_rate)


class Adagrad(Optimizer):
    """A += g^2; w -= lr g / sqrt(A)"""

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator: float = 0.1, epsilon: float | None = None,
                 keras: bool = False):
        super().__init__(lambda rate, keep: lib.est_adagrad(rate, keep.options(
            "est_adagrad_options", initial_accumulator=off(initial_accumulator), epsilon=off(epsilon), keras=keras)),
            learning_rate)


class Adam(Optimizer):
    """Adam; with nesterov Nadam. lazy: a sparse gradient updates only its rows. amsgrad: divides by the largest mean
    square so far."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float | None = None, nesterov: bool = False, lazy: bool = False, keras: bool = False,
                 amsgrad: bool = False):
        super().__init__(lambda rate, keep: lib.est_adam(rate, keep.options(
            "est_adam_options", beta1=off(beta1), beta2=off(beta2), epsilon=off(epsilon), nesterov=nesterov,
            lazy=lazy, keras=keras, amsgrad=amsgrad)), learning_rate)


class RMSProp(Optimizer):
    """Gradients divided by a running mean of their size."""

    def __init__(self, learning_rate: Any = 0.001, decay: float = 0.9, momentum: float = 0,
                 epsilon: float | None = None, centered: bool = False, keras: bool = False,
                 epsilon_inside: bool = False):
        super().__init__(lambda rate, keep: lib.est_rms_prop(rate, keep.options(
            "est_rms_prop_options", decay=off(decay), momentum=momentum, epsilon=off(epsilon), centered=centered,
            keras=keras, epsilon_inside=epsilon_inside)), learning_rate)


class Ftrl(Optimizer):
    """FTRL-proximal."""

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5, initial_accumulator: float = 0.1,
                 l1: float = 0, l2: float = 0, l2_shrinkage: float = 0, beta: float = 0, keras: bool = False):
        super().__init__(lambda rate, keep: lib.est_ftrl(rate, keep.options(
            "est_ftrl_options", learning_rate_power=off(learning_rate_power),
            initial_accumulator=off(initial_accumulator), l1=l1, l2=l2, l2_shrinkage=l2_shrinkage, beta=beta,
            keras=keras)), learning_rate)


class Adadelta(Optimizer):
    """Steps in the size of former ones."""

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float | None = None,
                 keras: bool = False):
        super().__init__(lambda rate, keep: lib.est_adadelta(rate, keep.options(
            "est_adadelta_options", rho=off(rho), epsilon=off(epsilon), keras=keras)), learning_rate)


class Adamax(Optimizer):
    """Adam with the largest gradient in place of a mean square. lazy: a sparse gradient updates only its rows."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float | None = None, lazy: bool = False):
        super().__init__(lambda rate, keep: lib.est_adamax(rate, keep.options(
            "est_adamax_options", beta1=off(beta1), beta2=off(beta2), epsilon=off(epsilon), lazy=lazy)), learning_rate)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float | None = None):
        super().__init__(lambda rate, keep: lib.est_nadam(rate, keep.options(
            "est_nadam_options", beta1=off(beta1), beta2=off(beta2), epsilon=off(epsilon))), learning_rate)


class Lion(Optimizer):
    """Steps of one size, by the sign of a momentum."""

    def __init__(self, learning_rate: Any = 0.0001, beta1: float = 0.9, beta2: float = 0.99):
        super().__init__(lambda rate, keep: lib.est_lion(rate, keep.options(
            "est_lion_options", beta1=off(beta1), beta2=off(beta2))), learning_rate)


def c_canned_optimizer(keep: Keep, optimizer: Any) -> Any:
    """An est_canned_optimizer: an Optimizer, a function that makes one, a name, or None for the model's default."""
    struct = keep.new("est_canned_optimizer *")
    if optimizer is None:
        return struct[0]
    if isinstance(optimizer, str):
        struct.name = keep.string(optimizer)
        return struct[0]
    if callable(optimizer) and not isinstance(optimizer, Optimizer):
        optimizer = optimizer()
    if not isinstance(optimizer, Optimizer):
        raise TypeError("an optimizer is a name, one of estoc.optimizers or a function that makes one; got "
                        f"{optimizer!r}")
    struct.value = optimizer._c(keep)
    return struct[0]
