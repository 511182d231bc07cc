# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.metrics: pairs of a value and an update, for eval_metric_ops."""
from __future__ import annotations

from typing import Any as _Any

from .... import metrics as _metrics
from .... import ops as _ops
from ...._lib import Keep as _Keep
from ...._lib import lib as _lib
from ...._tensor import bool_ as _bool
from ...._tensor import float32 as _float32
from ....graph import Variable as _BaseVariable
from ....graph import as_node as _as_node
from ..._absent import module_getattr as _module_getattr
from . import _graph


def _with_value(metric: _metrics.Metric, metrics_collections: _Any = None,
                updates_collections: _Any = None) -> _metrics.Metric:
    """Its update gives the new value, as in TensorFlow."""
    keep = _Keep()
    metric.update = metric.graph.node(_lib.est_read_after(metric.value._c, keep.span("est_nodes", "est_node",
                                                                                     [metric.update._c])))
    for collections, node in ((metrics_collections, metric.value), (updates_collections, metric.update)):
        _graph.add_to_collections(collections or [], node)
    return metric


def _of_two(name: str) -> _Any:
    def function(labels: _Any, predictions: _Any, weights: _Any = None, metrics_collections: _Any = None,
                 updates_collections: _Any = None, name: str | None = None) -> _metrics.Metric:
        made = getattr(_metrics, function.__name__)(labels, predictions, weights, name)
        return _with_value(made, metrics_collections, updates_collections)

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
    """The mean of all values so far, and its update."""
    values = _as_node(values, _graph.get_default_graph())
    return _with_value(_metrics.mean(values, weights, name), metrics_collections, updates_collections)


def auc(labels: _Any, predictions: _Any, weights: _Any = None, num_thresholds: int = 200,
        metrics_collections: _Any = None, updates_collections: _Any = None, curve: str = "ROC",
        name: str | None = None, summation_method: str = "trapezoidal") -> _metrics.Metric:
    """The area under a curve, and its update."""
    return _with_value(_metrics.auc(labels, predictions, weights, num_thresholds, curve, summation_method, name),
                       metrics_collections, updates_collections)


def mean_per_class_accuracy(labels: _Any, predictions: _Any, num_classes: int, weights: _Any = None,
                            metrics_collections: _Any = None, updates_collections: _Any = None,
                            name: str | None = None) -> _metrics.Metric:
    """The mean accuracy of classes, and its update."""
    return _with_value(_metrics.mean_per_class_accuracy(labels, predictions, num_classes, weights, name),
                       metrics_collections, updates_collections)


def mean_iou(labels: _Any, predictions: _Any, num_classes: int, weights: _Any = None, metrics_collections: _Any = None,
             updates_collections: _Any = None, name: str | None = None) -> _metrics.Metric:
    """The mean over classes of tp / (tp + fp + fn)."""
    return _with_value(_metrics.mean_iou(labels, predictions, num_classes, weights, name), metrics_collections,
                       updates_collections)


def percentage_below(values: _Any, threshold: float, weights: _Any = None, metrics_collections: _Any = None,
                     updates_collections: _Any = None, name: str | None = None) -> _metrics.Metric:
    """The part of the values below a threshold."""
    below = _ops.cast(_ops.less(values, threshold), _float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


def mean_relative_error(labels: _Any, predictions: _Any, normalizer: _Any, weights: _Any = None,
                        metrics_collections: _Any = None, updates_collections: _Any = None,
                        name: str | None = None) -> _metrics.Metric:
    """The mean of |l - p| / normalizer; 0 where that is 0."""
    error = _ops.divide_no_nan(_ops.abs(labels - predictions), _as_node(normalizer, predictions.graph, predictions.dtype))
    return mean(error, weights, metrics_collections, updates_collections, name or "mean_relative_error")


def _count(name: str, of_labels: bool, of_predictions: bool) -> _Any:
    def function(labels: _Any, predictions: _Any, weights: _Any = None, metrics_collections: _Any = None,
                 updates_collections: _Any = None, name: str | None = None) -> _metrics.Metric:
        graph = predictions.graph
        right = [node if wanted else _ops.logical_not(node) for node, wanted in (
            (_ops.cast(_as_node(labels, graph), _bool), of_labels), (_ops.cast(predictions, _bool), of_predictions))]
        found = _ops.cast(_ops.logical_and(*right), _float32)
        if weights is not None:
            found = found * _ops.cast(_as_node(weights, graph), _float32)
        state = _metrics.state(graph, (name or function.__name__) + "/count")
        update = _BaseVariable.assign_add(state, _ops.reduce_sum(found))
        return _with_value(_metrics.custom([state], [update], state.value()), metrics_collections, updates_collections)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"How many {name.replace('_', ' ')} there are, or the sum of their weights."
    return function


true_positives = _count("true_positives", True, True)
true_negatives = _count("true_negatives", False, False)
false_positives = _count("false_positives", False, True)
false_negatives = _count("false_negatives", True, False)

__getattr__ = _module_getattr(__name__)
