# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.experimental: early stopping."""
from __future__ import annotations

from typing import Any as _Any

from ... import hooks as _hooks
from .._absent import module_getattr as _module_getattr


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


__getattr__ = _module_getattr(__name__)
