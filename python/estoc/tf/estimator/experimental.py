# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.experimental: early stopping, and evaluation during training."""
from __future__ import annotations

import time as _time
from typing import Any as _Any
from typing import Callable as _Callable

from ... import hooks as _hooks
from .._absent import module_getattr as _module_getattr
from ..compat.v1._monitored import SessionRunHook as _SessionRunHook


def stop_if_higher_hook(estimator: _Any, metric_name: str, threshold: float, eval_dir: str | None = None,
                        min_steps: int = 0, run_every_secs: float | None = 60,
                        run_every_steps: int | None = None) -> _hooks.Hook:
    """Stops when an evaluation has a metric above the threshold."""
    return _hooks.stop_if_higher_hook(metric_name, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_lower_hook(estimator: _Any, metric_name: str, threshold: float, eval_dir: str | None = None,
                       min_steps: int = 0, run_every_secs: float | None = 60,
                       run_every_steps: int | None = None) -> _hooks.Hook:
    """Stops when an evaluation has a metric below the threshold."""
    return _hooks.stop_if_lower_hook(metric_name, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(estimator: _Any, metric_name: str, max_steps_without_increase: int,
                             eval_dir: str | None = None, min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> _hooks.Hook:
    """Stops when the best evaluation is that many steps old."""
    return _hooks.stop_if_no_increase_hook(metric_name, max_steps_without_increase, eval_dir, min_steps, run_every_secs,
                                           run_every_steps)


def stop_if_no_decrease_hook(estimator: _Any, metric_name: str, max_steps_without_decrease: int,
                             eval_dir: str | None = None, min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> _hooks.Hook:
    """Stops when the best evaluation is that many steps old."""
    return _hooks.stop_if_no_decrease_hook(metric_name, max_steps_without_decrease, eval_dir, min_steps, run_every_secs,
                                           run_every_steps)


class _StopHook(_SessionRunHook):
    def __init__(self, should_stop_fn: _Callable[[], bool], every_secs: float | None, every_steps: int | None):
        self._should_stop_fn, self._secs, self._steps = should_stop_fn, every_secs, every_steps
        self._last: float | None = None
        self._count = 0

    def before_run(self, run_context: _Any) -> _Any:
        return None

    def after_run(self, run_context: _Any, run_values: _Any) -> None:
        now = _time.monotonic()
        self._count += 1
        due = self._last is None or (self._count >= self._steps if self._steps is not None else
                                     now - self._last >= self._secs)
        if not due:
            return
        self._last, self._count = now, 0
        if self._should_stop_fn():
            run_context.request_stop()


def make_early_stopping_hook(estimator: _Any, should_stop_fn: _Callable[[], bool], run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> _SessionRunHook:
    """Asks a function every so many seconds, or steps, whether training should stop."""
    if not callable(should_stop_fn):
        raise TypeError(f"`should_stop_fn` must be callable, received: {should_stop_fn!r}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    if run_every_secs is None and run_every_steps is None:
        raise ValueError("one of `run_every_secs` and `run_every_steps` must be set")
    return _StopHook(should_stop_fn, run_every_secs, run_every_steps)


def InMemoryEvaluatorHook(estimator: _Any, input_fn: _Callable, steps: int | None = None,  # noqa: N802
                          hooks: _Any = None, name: str | None = None, every_n_iter: int = 100) -> _hooks.Hook:
    """Evaluates the variables in memory, without a checkpoint: before the first step, every so many, and at the end."""
    return _hooks.in_memory_evaluator_hook(estimator, input_fn, steps, hooks, name, every_n_iter)


def make_stop_at_checkpoint_step_hook(estimator: _Any, last_step: int,
                                      wait_after_file_check_secs: float = 30) -> _hooks.Hook:
    """Stops at a global step; workers that are not the chief wait for the checkpoint of that step."""
    return _hooks.stop_at_checkpoint_step_hook(estimator, last_step, wait_after_file_check_secs)


_RNN = "tf.estimator.Estimator with a model_fn over tf.keras.layers.LSTM or GRU"
__getattr__ = _module_getattr(__name__, {
    "RNNClassifier": _RNN, "RNNEstimator": _RNN})
