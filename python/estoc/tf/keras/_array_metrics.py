# SPDX-License-Identifier: Apache-2.0
"""Metrics whose states are arrays: counts at several thresholds, of classes, of columns. They are written in Python, over
variables."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ... import ops
from ...graph import Node, as_node, default_graph
from .._algebra import diag_part as _diag_part
from .._eager import Tensor, eager, unwrap
from . import metrics as _metrics

_LEAST = -1e10  # below all predictions
_EPSILON = 1e-7  # of Keras


def _given(value: Any) -> Any:
    """Lists, arrays and numbers as tensors: of the graph that is built, or with values."""
    if value is None or isinstance(value, Node):
        return value
    graph = default_graph()
    return Tensor(unwrap(value)) if graph is None else as_node(unwrap(value), graph)


class Metric(_metrics.Metric):
    """A metric that takes lists, as those of Keras do. In a program's own it is up to update_state what it takes."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "update_state" in cls.__dict__ and cls.__module__.startswith("estoc."):
            inner = cls.update_state

            def update_state(self: Any, *args: Any, **more: Any) -> None:
                return inner(self, *map(_given, args), **{name: _given(value) for name, value in more.items()})

            cls.update_state = update_state


def _row(value: Any, graph: Any, dtype: Any = "float32") -> Any:
    return ops.cast(as_node(unwrap(value), graph), dtype)


def _pair(y_true: Any, y_pred: Any) -> tuple:
    graph = y_pred.graph
    predictions = _row(y_pred, graph)
    return _row(y_true, graph), predictions, graph


def _weights(sample_weight: Any, like: Any) -> Any:
    """Weights of the shape of the predictions, from those of rows."""
    if sample_weight is None:
        return ops.ones_like(like)
    weights = _row(sample_weight, like.graph)
    while len(weights.shape) < len(like.shape):
        weights = ops.expand_dims(weights, -1)
    return weights * ops.ones_like(like)


def thresholds_of(thresholds: Any, default: float) -> list[float]:
    """The thresholds as a list, each within 0 and 1."""
    given = [default] if thresholds is None else np.reshape(np.asarray(unwrap(thresholds), np.float64), -1).tolist()
    wrong = [item for item in given if item is None or not 0 <= item <= 1]
    if wrong:
        raise ValueError(f"Threshold values must be in [0, 1]. Received: {wrong}")
    return given


class Counts(Metric):
    """True and false positives and negatives at thresholds; `shown` makes the result of them."""

    def __init__(self, thresholds: Any, name: str | None, dtype: Any, top_k: Any = None, class_id: Any = None):
        super().__init__(name=name, dtype=dtype)
        default = 0.5 if top_k is None else None
        at = [_LEAST] if thresholds is None and default is None else thresholds_of(thresholds, 0.5)
        self.__dict__.update(thresholds=at, top_k=top_k, class_id=class_id)
        for state in ("true_positives", "false_positives", "true_negatives", "false_negatives"):
            setattr(self, "_" + state, self.add_weight(state, (len(at),)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, graph = _pair(y_true, y_pred)
        weights = _weights(sample_weight, predictions)
        if self.top_k is not None:
            last = predictions.shape[-1]
            chosen = ops.reduce_sum(ops.one_hot(ops.top_k(predictions, self.top_k)[1], last), -2)
            predictions = ops.where(chosen > 0.0, predictions, graph.constant(np.float32(2 * _LEAST)))
        if self.class_id is not None:
            labels, predictions, weights = (x[..., self.class_id] for x in (labels, predictions, weights))
        labels, predictions, weights = (ops.reshape(x, [1, -1]) for x in (labels, predictions, weights))
        limits = graph.constant(np.float32(self.thresholds)[:, None])
        positive = ops.cast(predictions > limits, "float32")
        true = ops.cast(labels > 0.0, "float32")
        for state, part in ((self._true_positives, positive * true), (self._false_positives, positive * (1.0 - true)),
                            (self._true_negatives, (1.0 - positive) * (1.0 - true)),
                            (self._false_negatives, (1.0 - positive) * true)):
            state.assign_add(ops.reduce_sum(part * weights, 1))

    def _all(self) -> tuple:
        return tuple(getattr(self, "_" + state).value() for state in (
            "true_positives", "false_positives", "true_negatives", "false_negatives"))

    def result(self) -> Any:
        found = self.shown(*self._all())
        return found[0] if len(self.thresholds) == 1 else found

    def shown(self, *counts: Any) -> Any:
        raise NotImplementedError("Must be implemented in subclasses.")


_ratio, _where, _sum, _mean, _max, _gather, _maximum, _minimum, _log, _cast, _is_inf, _both, _ones_like = map(
    eager, (ops.divide_no_nan, ops.where, ops.reduce_sum, ops.reduce_mean, ops.reduce_max, ops.gather, ops.maximum,
            ops.minimum, ops.log, ops.cast, ops.is_inf, ops.logical_and, ops.ones_like))


def counting(name: str, doc: str, shown: Callable) -> type:
    """A class of Counts with the parameters of Keras."""

    def __init__(self: Any, thresholds: Any = None, top_k: Any = None, class_id: Any = None, name: str | None = None,
                 dtype: Any = None) -> None:
        Counts.__init__(self, thresholds, name, dtype, top_k, class_id)

    return type(name, (Counts,), {"__init__": __init__, "__doc__": doc, "__module__": _metrics.__name__,
                                  "shown": lambda self, *counts: shown(*counts), "_maker": f"{_metrics.__name__}:{name}"})


precision = counting("Precision", "tp / (tp + fp)", lambda tp, fp, tn, fn: _ratio(tp, tp + fp))
recall = counting("Recall", "tp / (tp + fn)", lambda tp, fp, tn, fn: _ratio(tp, tp + fn))
true_positives = counting("TruePositives", "Counted.", lambda tp, fp, tn, fn: tp)
false_positives = counting("FalsePositives", "Counted.", lambda tp, fp, tn, fn: fp)
true_negatives = counting("TrueNegatives", "Counted.", lambda tp, fp, tn, fn: tn)
false_negatives = counting("FalseNegatives", "Counted.", lambda tp, fp, tn, fn: fn)


class _AtConstraint(Counts):
    """The best of one rate where another one is at least a number."""

    def __init__(self, value: float, num_thresholds: int, class_id: Any, name: str | None, dtype: Any, what: str):
        if not 0 <= value <= 1:
            raise ValueError(f"Argument `{what}` must be in the range [0, 1]. Received: {what}={value}")
        if num_thresholds <= 0:
            raise ValueError(f"Argument `num_thresholds` must be an integer > 0. Received: num_thresholds={num_thresholds}")
        n = int(num_thresholds)
        super().__init__([0.5] if n == 1 else [i / (n - 1) for i in range(n)], name, dtype, None, class_id)
        self.__dict__["_value"] = float(value)

    def result(self) -> Any:
        given, wanted = self.shown(*self._all())
        holds = given >= self._value
        return _maximum(_max(_where(holds, wanted, -1.0)), 0.0)


class SensitivityAtSpecificity(_AtConstraint):
    """tp / (tp + fn) where tn / (tn + fp) is at least a number."""

    def __init__(self, specificity: float, num_thresholds: int = 200, class_id: Any = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(specificity, num_thresholds, class_id, name, dtype, "specificity")

    def shown(self, tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
        return _ratio(tn, tn + fp), _ratio(tp, tp + fn)


class SpecificityAtSensitivity(_AtConstraint):
    """tn / (tn + fp) where tp / (tp + fn) is at least a number."""

    def __init__(self, sensitivity: float, num_thresholds: int = 200, class_id: Any = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype, "sensitivity")

    def shown(self, tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
        return _ratio(tp, tp + fn), _ratio(tn, tn + fp)


class PrecisionAtRecall(_AtConstraint):
    """tp / (tp + fp) where tp / (tp + fn) is at least a number."""

    def __init__(self, recall: float, num_thresholds: int = 200, class_id: Any = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(recall, num_thresholds, class_id, name, dtype, "recall")

    def shown(self, *counts: Any) -> Any:
        tp, fp, _, fn = counts
        return _ratio(tp, tp + fn), _ratio(tp, tp + fp)


class RecallAtPrecision(_AtConstraint):
    """tp / (tp + fn) where tp / (tp + fp) is at least a number."""

    def __init__(self, precision: float, num_thresholds: int = 200, class_id: Any = None, name: str | None = None,
                 dtype: Any = None):
        super().__init__(precision, num_thresholds, class_id, name, dtype, "precision")

    def shown(self, *counts: Any) -> Any:
        tp, fp, _, fn = counts
        return _ratio(tp, tp + fp), _ratio(tp, tp + fn)


# --- classes ----------------------------------------------------------------------------------------------------------


class IoU(Metric):
    """The mean over some classes of tp / (tp + fp + fn), of class numbers or, where they are not sparse, of vectors."""

    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1):
        super().__init__(name=name, dtype=dtype)
        chosen = [int(item) for item in target_class_ids]
        if max(chosen, default=0) >= num_classes:
            raise ValueError(f"Target class id {max(chosen)} is out of range, which is [0, {num_classes}).")
        self.__dict__.update(num_classes=int(num_classes), target_class_ids=chosen, ignore_class=ignore_class,
                             sparse_y_true=sparse_y_true, sparse_y_pred=sparse_y_pred, axis=axis)
        self.total_cm = self.add_weight("total_confusion_matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, graph = _pair(y_true, y_pred)
        if not self.sparse_y_true:
            labels = ops.argmax(labels, self.axis)
        if not self.sparse_y_pred:
            predictions = ops.argmax(predictions, self.axis)
        self._count(labels, predictions, sample_weight)

    def _count(self, labels: Any, predictions: Any, sample_weight: Any) -> None:
        n = self.num_classes
        labels, predictions = (ops.reshape(ops.cast(x, "int64"), [-1]) for x in (labels, predictions))
        weights = ops.ones_like(ops.cast(labels, "float32")) if sample_weight is None else ops.reshape(
            _row(sample_weight, labels.graph), [-1])
        if self.ignore_class is not None:
            counted = ops.cast(ops.not_equal(labels, int(self.ignore_class)), "float32")
            weights = weights * counted
            labels, predictions = (x * ops.cast(counted, "int64") for x in (labels, predictions))
        ones = labels.graph.constant(np.eye(n, dtype=np.float32))  # gather refuses numbers out of bounds, as Keras does
        rows = ops.gather(ones, labels) * ops.expand_dims(weights, -1)
        self.total_cm.assign_add(ops.matmul(rows, ops.gather(ones, predictions), transpose_a=True))

    def result(self) -> Any:
        matrix = self.total_cm.value()
        true = _diag_part(matrix)
        below = _gather(_sum(matrix, 0) + _sum(matrix, 1) - true, self.target_class_ids)
        valid = _sum(_cast(below > 0.0, "float32"))
        return _ratio(_sum(_ratio(_gather(true, self.target_class_ids), below)), valid)


class MeanIoU(IoU):
    """The mean over all classes."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
                 sparse_y_true: bool = True, sparse_y_pred: bool = True, axis: int = -1):
        super().__init__(num_classes, range(num_classes), name, dtype, ignore_class, sparse_y_true, sparse_y_pred, axis)


class OneHotIoU(IoU):
    """IoU of vectors."""

    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = None, dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1):
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)


class OneHotMeanIoU(MeanIoU):
    """MeanIoU of vectors."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None, ignore_class: int | None = None,
                 sparse_y_pred: bool = False, axis: int = -1):
        super().__init__(num_classes, name, dtype, ignore_class, False, sparse_y_pred, axis)


class BinaryIoU(IoU):
    """IoU of probabilities, which a threshold makes class 0 or 1 of."""

    def __init__(self, target_class_ids: Any = (0, 1), threshold: float = 0.5, name: str | None = None, dtype: Any = None):
        super().__init__(2, target_class_ids, name, dtype)
        self.__dict__["threshold"] = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, _ = _pair(y_true, y_pred)
        self._count(labels, ops.cast(predictions >= float(self.threshold), "int64"), sample_weight)


# --- means ------------------------------------------------------------------------------------------------------------


class MeanTensor(Metric):
    """The mean of tensors of one shape, element by element."""

    def __init__(self, name: str = "mean_tensor", dtype: Any = None, shape: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.__dict__["_shape"] = None
        if shape is not None:
            self._make(tuple(shape))

    def _make(self, shape: tuple) -> None:
        self.__dict__["_shape"] = shape
        self.total, self.count = self.add_weight("total", shape), self.add_weight("count", shape)

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        values = ops.cast(values, "float32")
        shape = tuple(values.shape)
        if self._shape is None:
            self._make(shape)
        if shape != self._shape:
            raise ValueError("MeanTensor input values must always have the same shape. Expected shape (set during the "
                             f"first call): {self._shape}. Got: {shape}.")
        weights = _weights(sample_weight, values)
        self.total.assign_add(values * weights)
        self.count.assign_add(weights)

    def result(self) -> Any:
        if self._shape is None:
            raise ValueError("MeanTensor does not have any value yet. Please call the MeanTensor instance or use "
                             "`.update_state(value)` before retrieving the result.")
        return _ratio(self.total.value(), self.count.value())


class MeanRelativeError(Metric):
    """The mean of |p - l| / normalizer."""

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self.__dict__["normalizer"] = np.asarray(unwrap(normalizer), np.float32)
        self.total, self.count = self.add_weight("total"), self.add_weight("count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, graph = _pair(y_true, y_pred)
        error = ops.divide_no_nan(ops.abs(labels - predictions), graph.constant(self.normalizer) * ops.ones_like(labels))
        weights = _weights(sample_weight, error)
        self.total.assign_add(ops.reduce_sum(error * weights))
        self.count.assign_add(ops.reduce_sum(weights))

    def result(self) -> Any:
        return _ratio(self.total.value(), self.count.value())


class FBetaScore(Metric):
    """(1 + b^2) precision recall / (b^2 precision + recall) of every column, or a mean of them."""

    def __init__(self, average: str | None = None, beta: float = 1.0, threshold: float | None = None,
                 name: str = "fbeta_score", dtype: Any = None):
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError(f"Invalid `average` argument value: {average!r}")
        super().__init__(name=name, dtype=dtype)
        self.__dict__.update(average=average, beta=float(beta), threshold=threshold, _made=False)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, _ = _pair(y_true, y_pred)
        if len(predictions.shape) != 2 or predictions.shape[1] is None:
            raise ValueError(f"FBetaScore expects 2D inputs with shape (batch_size, output_dim), got {predictions.shape}")
        n = predictions.shape[1]
        if not self._made:
            shape = () if self.average == "micro" else (n,)
            for state in ("true_positives", "false_positives", "false_negatives", "intermediate_weights"):
                setattr(self, state, self.add_weight(state, shape))
            self.__dict__["_made"] = True
        if self.threshold is None:
            chosen = ops.equal(predictions, ops.reduce_max(predictions, -1, True))
            predictions = ops.cast(ops.logical_and(chosen, ops.abs(predictions) > 1e-9), "float32")
        else:
            predictions = ops.cast(predictions > float(self.threshold), "float32")
        weights = _weights(sample_weight, predictions)
        axis = None if self.average == "micro" else 0
        for state, part in ((self.true_positives, predictions * labels), (self.false_positives, predictions * (1.0 - labels)),
                            (self.false_negatives, (1.0 - predictions) * labels), (self.intermediate_weights, labels)):
            state.assign_add(ops.reduce_sum(part * weights, axis))

    def result(self) -> Any:
        if not self._made:
            return Tensor(np.float32(0))
        tp, fp, fn = (state.value() for state in (self.true_positives, self.false_positives, self.false_negatives))
        precision, recall = tp / (tp + fp + _EPSILON), tp / (tp + fn + _EPSILON)
        scores = (1 + self.beta ** 2) * precision * recall / (self.beta ** 2 * precision + recall + _EPSILON)
        if self.average == "weighted":
            weights = self.intermediate_weights.value()
            return _sum(scores * weights / (_sum(weights) + _EPSILON))
        return scores if self.average is None else _mean(scores)


class F1Score(FBetaScore):
    """FBetaScore with beta 1."""

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str = "f1_score",
                 dtype: Any = None):
        super().__init__(average, 1.0, threshold, name, dtype)


class R2Score(Metric):
    """1 - the sum of squared errors / that of squared distances from the mean, of every column or together."""

    def __init__(self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0, name: str = "r2_score",
                 dtype: Any = None):
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ValueError(f"Invalid value for argument `class_aggregation`: {class_aggregation!r}")
        if num_regressors < 0:
            raise ValueError(f"Invalid value for argument `num_regressors`: {num_regressors}")
        super().__init__(name=name, dtype=dtype)
        self.__dict__.update(class_aggregation=class_aggregation, num_regressors=num_regressors, _made=False)
        self.count, self.num_samples = self.add_weight("count"), self.add_weight("num_samples")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, _ = _pair(y_true, y_pred)
        if not self._made:
            for state in ("squared_sum", "sum", "residual"):
                setattr(self, state, self.add_weight(state, (predictions.shape[-1],)))
            self.__dict__["_made"] = True
        if sample_weight is None:
            weights = ops.ones_like(labels[:, :1])
        else:
            weights = ops.reshape(_row(sample_weight, labels.graph), [-1, 1])
        self.sum.assign_add(ops.reduce_sum(labels * weights, 0))
        self.squared_sum.assign_add(ops.reduce_sum(labels * labels * weights, 0))
        self.residual.assign_add(ops.reduce_sum((labels - predictions) * (labels - predictions) * weights, 0))
        self.count.assign_add(ops.reduce_sum(weights))
        self.num_samples.assign_add(ops.cast(ops.size(labels), "float32"))

    def result(self) -> Any:
        if not self._made:
            return Tensor(np.float32(0))
        n, total = self.count.value(), self.sum.value()
        spread = self.squared_sum.value() - total * total / n
        scores = 1.0 - self.residual.value() / spread
        scores = _where(_is_inf(scores), 0.0, scores)
        if self.class_aggregation == "uniform_average":
            scores = _mean(scores)
        elif self.class_aggregation is not None:
            scores = _sum(scores * spread) / _sum(spread)
        if self.num_regressors:
            samples, left = self.num_samples.value(), self.num_samples.value() - float(self.num_regressors) - 1.0
            scores = _where(left > 0.0, 1.0 - _ratio((1.0 - scores) * (samples - 1.0), left), scores)
        return scores


# --- areas ------------------------------------------------------------------------------------------------------------


class _Areas(Metric):
    """AUC with the parameters that the one of the library has not."""

    def __init__(self, num_thresholds: int, curve: str, summation_method: str, name: str | None, dtype: Any, thresholds: Any,
                 multi_label: bool, num_labels: int | None, label_weights: Any, from_logits: bool):
        super().__init__(name=name, dtype=dtype)
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(f"Invalid AUC summation method value: \"{summation_method}\".")
        if num_labels is not None and not multi_label:
            raise ValueError("`num_labels` is needed only when `multi_label` is True.")
        if thresholds is not None:
            between = sorted(thresholds_of(thresholds, 0.5))
        else:
            between = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        self.__dict__.update(curve=curve, summation_method=summation_method, multi_label=multi_label,
                             num_labels=num_labels, from_logits=from_logits, _made=False, _weights_of_labels=None if
                             label_weights is None else np.asarray(unwrap(label_weights), np.float32),
                             _limits=np.float32([-_EPSILON, *between, 1 + _EPSILON]))
        if not multi_label or num_labels is not None:
            self._make(num_labels)

    thresholds = property(lambda self: self._limits.tolist())

    def _make(self, labels: int | None) -> None:
        shape = (len(self._limits),) if not self.multi_label else (len(self._limits), labels)
        for state in ("true_positives", "false_positives", "true_negatives", "false_negatives"):
            setattr(self, state, self.add_weight(state, shape))
        self.__dict__["_made"] = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, predictions, graph = _pair(y_true, y_pred)
        if self.from_logits:
            predictions = ops.sigmoid(predictions)
        if not self._made:
            self._make(predictions.shape[-1])
        weights = _weights(sample_weight, predictions)
        if self.multi_label:  # [1, rows, labels]
            labels, predictions, weights = (ops.expand_dims(x, 0) for x in (labels, predictions, weights))
            limits = graph.constant(self._limits[:, None, None])
            if self._weights_of_labels is not None and len(self._weights_of_labels) != predictions.shape[-1]:
                raise ValueError("label_weights must have one weight for each label")
        else:
            if self._weights_of_labels is not None:
                weights = weights * graph.constant(self._weights_of_labels)
            labels, predictions, weights = (ops.reshape(x, [1, -1]) for x in (labels, predictions, weights))
            limits = graph.constant(self._limits[:, None])
        positive, true = ops.cast(predictions > limits, "float32"), ops.cast(labels > 0.0, "float32")
        for state, part in ((self.true_positives, positive * true), (self.false_positives, positive * (1.0 - true)),
                            (self.true_negatives, (1.0 - positive) * (1.0 - true)),
                            (self.false_negatives, (1.0 - positive) * true)):
            state.assign_add(ops.reduce_sum(part * weights, 1))

    def result(self) -> Any:
        if not self._made:
            return Tensor(np.float32(0))
        tp, fp, tn, fn = (state.value() for state in (self.true_positives, self.false_positives, self.true_negatives,
                                                      self.false_negatives))
        area = self._interpolated(tp, fp, fn) if self.curve == "PR" and self.summation_method == "interpolation" else \
            self._summed(tp, fp, tn, fn)
        if not self.multi_label:
            return area
        weights = self._weights_of_labels
        return _mean(area) if weights is None else _ratio(_sum(area * weights), Tensor(weights.sum()))

    @staticmethod
    def _interpolated(tp: Any, fp: Any, fn: Any) -> Any:
        n = tp.shape[0] - 1
        d_tp, p = tp[:n] - tp[1:], tp + fp
        slope = _ratio(d_tp, _maximum(p[:n] - p[1:], 0.0))
        intercept = tp[1:] - slope * p[1:]
        both = _both(p[:n] > 0.0, p[1:] > 0.0)
        safe = _where(both, _ratio(p[:n], _maximum(p[1:], 0.0)), _ones_like(tp[1:]))
        return _sum(_ratio(slope * (d_tp + intercept * _log(safe)), _maximum(tp[1:] + fn[1:], 0.0)), 0)

    def _summed(self, tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
        recall = _ratio(tp, tp + fn)
        x, y = (_ratio(fp, fp + tn), recall) if self.curve == "ROC" else (recall, _ratio(tp, tp + fp))
        n = y.shape[0] - 1
        heights = (y[:n] + y[1:]) / 2.0 if self.summation_method == "interpolation" else (
            _minimum if self.summation_method == "minoring" else _maximum)(y[:n], y[1:])
        return _sum((x[:n] - x[1:]) * heights, 0)


areas = type("AUC", (_Areas,), {"__module__": _metrics.__name__, "__doc__": _Areas.__doc__,
                                "_maker": f"{_metrics.__name__}:AUC"})
