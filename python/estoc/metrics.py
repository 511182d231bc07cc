# SPDX-License-Identifier: Apache-2.0
"""Streaming metrics for evaluations: labels first, then predictions. EstimatorSpec.eval_metric_ops takes them."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ._lib import Keep, here, lib
from ._tensor import c_shape, float32, as_dtype
from .graph import Graph, Node, Variable, as_node


class Metric:
    """State in variables, an update run with every batch, and a value. As a pair it is (value, update)."""

    def __init__(self, graph: Graph, c_metric: Any):
        graph.check()
        self._c = c_metric
        self.graph = graph
        self.value = graph.node(c_metric.value)
        self.update = graph.node(c_metric.update)
        self.reset = graph.node(c_metric.reset)
        graph.__dict__.setdefault("_metrics", []).append(self)

    def __iter__(self):
        return iter((self.value, self.update))

    def __getitem__(self, i: int) -> Node:
        return (self.value, self.update)[i]

    def __len__(self) -> int:
        return 2


def _options(keep: Keep, graph: Graph, weights: Any, name: str | None, **more: Any) -> Any:
    if weights is not None:
        more["weights"] = as_node(weights, graph, float32)._c
    return keep.options("est_metric_options", name=keep.string(name), **more)


def mean(values: Node, weights: Any = None, name: str | None = None) -> Metric:
    """sum(w x) / sum(w)"""
    here()
    keep = Keep()
    return Metric(values.graph, lib.est_metric_mean(values._c, _options(keep, values.graph, weights, name)))


def _of_two(name: str, meaning: str) -> Callable:
    def function(labels: Node, predictions: Node, weights: Any = None, name: str | None = None) -> Metric:
        here()
        keep, graph = Keep(), predictions.graph
        return Metric(graph, getattr(lib, f"est_metric_{function.__name__}")(
            as_node(labels, graph)._c, predictions._c, _options(keep, graph, weights, name)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


accuracy = _of_two("accuracy", "The part of predictions equal to labels.")
precision = _of_two("precision", "tp / (tp + fp)")
recall = _of_two("recall", "tp / (tp + fn)")
mean_absolute_error = _of_two("mean_absolute_error", "The mean of |p - l|.")
mean_squared_error = _of_two("mean_squared_error", "The mean of (p - l)^2.")
root_mean_squared_error = _of_two("root_mean_squared_error", "The root of the mean of (p - l)^2.")


def auc(labels: Node, predictions: Node, weights: Any = None, num_thresholds: int = 200, curve: str = "ROC",
        summation_method: str = "interpolation", name: str | None = None) -> Metric:
    """The area under the ROC or the PR curve; predictions are probabilities."""
    here()
    curves = {"ROC": 0, "PR": 1}
    methods = {"interpolation": 0, "trapezoidal": 1, "careful_interpolation": 2, "minoring": 3, "majoring": 4}
    if curve not in curves or summation_method not in methods:
        raise ValueError(f"curve is one of {', '.join(curves)} and summation_method one of {', '.join(methods)}")
    keep, graph = Keep(), predictions.graph
    return Metric(graph, lib.est_metric_auc(as_node(labels, graph)._c, predictions._c, _options(
        keep, graph, weights, name, num_thresholds=num_thresholds, curve=curves[curve],
        summation=methods[summation_method])))


def mean_per_class_accuracy(labels: Node, predictions: Node, num_classes: int, weights: Any = None,
                            name: str | None = None) -> Metric:
    """The mean over classes of the part of each that was found."""
    here()
    keep, graph = Keep(), predictions.graph
    return Metric(graph, lib.est_metric_mean_per_class_accuracy(
        as_node(labels, graph)._c, predictions._c, num_classes, _options(keep, graph, weights, name)))


def mean_iou(labels: Node, predictions: Node, num_classes: int, weights: Any = None,
             name: str | None = None) -> Metric:
    """The mean over classes of tp / (tp + fp + fn)."""
    here()
    keep, graph = Keep(), predictions.graph
    return Metric(graph, lib.est_metric_mean_iou(
        as_node(labels, graph)._c, predictions._c, num_classes, _options(keep, graph, weights, name)))


def state(graph: Graph, name: str, dtype: Any = float32, shape: Sequence[int] = ()) -> Variable:
    """The state of a metric of your own: a variable that starts at 0 in each evaluation."""
    here()
    node = lib.est_metric_state(graph._c, name.encode(), as_dtype(dtype).number, c_shape(shape))
    graph.check()
    return Variable(graph, node)


def custom(states: Sequence[Variable], updates: Sequence[Node], value: Node) -> Metric:
    """A metric of such states: `updates` change them with every batch, `value` is computed from them."""
    here()
    keep = Keep()
    return Metric(value.graph, lib.est_metric_custom(
        keep.span("est_nodes", "est_node", [node._c for node in states]),
        keep.span("est_nodes", "est_node", [node._c for node in updates]), value._c))


def of_pair(value: Node, update: Node, resets: Sequence[Node] | None = None) -> Metric:
    """A metric of two nodes. Without `resets` they are computed from other metrics of the graph, whose states all begin
    at 0 with it."""
    graph, keep = value.graph, Keep()
    if resets is None:
        resets = [metric.reset for metric in graph.__dict__.get("_metrics", ())]
    resets = keep.span("est_nodes", "est_node", [reset._c for reset in resets])
    here()
    made = keep.new("est_metric *", {"value": value._c, "update": update._c, "reset": lib.est_group(graph._c, resets)})
    return Metric(graph, made[0])
