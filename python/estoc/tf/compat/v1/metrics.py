# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.metrics: pairs of a value and an update, for eval_metric_ops."""
from __future__ import annotations

from typing import Any as _Any

from .... import metrics as _metrics
from ...._lib import Keep as _Keep
from ...._lib import lib as _lib
from ..._absent import module_getattr as _module_getattr


def _refuse(metrics_collections: _Any, updates_collections: _Any) -> None:
    if metrics_collections is not None or updates_collections is not None:
        raise NotImplementedError("collections do not exist yet")


def _with_value(metric: _metrics.Metric) -> _metrics.Metric:
    """Its update gives the new value, as in TensorFlow."""
    keep = _Keep()
    metric.update = metric.graph.node(_lib.est_read_after(metric.value._c, keep.span("est_nodes", "est_node",
                                                                                     [metric.update._c])))
    return metric


def _of_two(name: str) -> _Any:
    def function(labels: _Any, predictions: _Any, weights: _Any = None, metrics_collections: _Any = None,
                 updates_collections: _Any = None, name: str | None = None) -> _metrics.Metric:
        _refuse(metrics_collections, updates_collections)
        return _with_value(getattr(_metrics, function.__name__)(labels, predictions, weights, name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(_metrics, name).__doc__
    return function


accuracy = _of_two("accuracy")
precision = _of_two("precision")
recall = _of_two("recall")
mean_absolute_error = _of_two("mean_absolute_error")
mean_squared_error = _of_two("mean_squared_error")
root_mean_squared_error = _of_two("root_mean_squared_error")


def mean(values: _Any, weights: _Any = None, metrics_collections: _Any = None, updates_collections: _Any = None,
         name: str | None = None) -> _metrics.Metric:
    _refuse(metrics_collections, updates_collections)
    return _with_value(_metrics.mean(values, weights, name))


def auc(labels: _Any, predictions: _Any, weights: _Any = None, num_thresholds: int = 200,
        metrics_collections: _Any = None, updates_collections: _Any = None, curve: str = "ROC",
        name: str | None = None, summation_method: str = "trapezoidal") -> _metrics.Metric:
    _refuse(metrics_collections, updates_collections)
    return _with_value(_metrics.auc(labels, predictions, weights, num_thresholds, curve, summation_method, name))


def mean_per_class_accuracy(labels: _Any, predictions: _Any, num_classes: int, weights: _Any = None,
                            metrics_collections: _Any = None, updates_collections: _Any = None,
                            name: str | None = None) -> _metrics.Metric:
    _refuse(metrics_collections, updates_collections)
    return _with_value(_metrics.mean_per_class_accuracy(labels, predictions, num_classes, weights, name))


__getattr__ = _module_getattr(__name__)
