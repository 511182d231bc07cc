# SPDX-License-Identifier: Apache-2.0
"""What compile is given: losses and metrics, by outputs, for networks of C and for steps that are written in Python."""
from __future__ import annotations

import weakref
from typing import Any

from ... import ops
from ..._lib import Keep, lib, off
from .. import _structure
from .._eager import eager
from . import losses as _losses
from . import metrics as _metrics
from ._network import by_output
from ._recorded import overridden


def _list(metrics: Any) -> list:
    return [] if metrics is None else _structure.flatten(metrics) if isinstance(metrics, (list, tuple, dict)) else [
        metrics]


def _labels_for(user: Any, y_true: Any, y_pred: Any) -> Any:
    """Labels for a loss or a metric of compile."""
    by_number = isinstance(user, _metrics._Native) and not isinstance(user, _metrics.MeanMetricWrapper)
    return _losses._matched(y_true, y_pred, by_number or getattr(user, "_each", None) is not None)


def _scaled(loss: Any, weight: float) -> Any:
    each = loss._values()
    return lambda labels, predictions: each(labels, predictions) * weight


def _given_order(metrics: list) -> list[int]:
    """The places of metrics, as given, in a list that has the names first and then the objects."""
    placed = [i for i, one in enumerate(metrics) if isinstance(one, str)] + [
        i for i, one in enumerate(metrics) if not isinstance(one, str)]
    return sorted(range(len(placed)), key=placed.__getitem__)


def is_own_metric(metric: Any) -> bool:
    """Whether networks of C do not know a metric: it is written in Python, or a subclass overrides what it does."""
    return isinstance(metric, _metrics.Metric) and (not isinstance(metric, _metrics._Native) or overridden(
        type(metric), "update_state", "result", "reset_state") is not None)


class Compiled:
    """What compile was given: a loss and metrics for every output, or for each by its name or its place."""

    def __init__(self, loss: Any, metrics: Any, weighted: Any, loss_weights: Any, run_eagerly: bool = False):
        self.run_eagerly = run_eagerly
        self.given = loss if isinstance(loss, (list, tuple, dict)) else _losses._as_loss(loss)
        self.given_metrics, self.given_weighted, self.loss_weights = metrics, weighted, loss_weights
        self.metrics, self.weighted = _list(metrics), _list(weighted)
        self.trained: Any = {}  # layers, and whether they were trainable
        self.mean = _metrics.Mean(name="loss")
        self.counted = False  # in the step that is traced
        self._objects: list | None = None
        self._losses: list | None = None  # one for each output
        self._given: list[tuple[list[int], int]] = []  # of each trained output: its metrics, and how many are weighted
        self._order: list[int] = []  # of the values of the network, as they were given

    def is_written(self) -> bool:
        """Whether a loss or a metric is a function or a class of the program."""
        given = _structure.flatten([self.given, self.metrics, self.weighted])
        return any(not (getattr(one, "fn", None) or type(one)).__module__.startswith(__name__.split(".")[0] + ".")
                   for one in given if one is not None and not isinstance(one, str))

    def is_for_python(self) -> bool:
        """Whether there is what networks of C do not know: metrics written in Python, losses that are no means over the
        examples."""
        return any(map(is_own_metric, self.metrics)) or not all(isinstance(metric, str) for metric in self.weighted) or any(
            getattr(loss, "reduction", None) in ("sum", "none") for loss in _structure.flatten(self.given))

    # --- by outputs ---

    def losses(self, model: Any, names: list[str]) -> list:
        if self._losses is None:
            given = self.given
            if isinstance(given, (list, tuple, dict)):
                given = by_output(model, names, given, "loss")
            else:
                given = [given] * len(names)
            self._losses = [None if one is None else _losses._as_loss(one) for one in given]
        return self._losses

    def weights(self, model: Any, names: list[str]) -> list:
        given = self.loss_weights
        if given is None:
            return [1.0] * len(names)
        if not isinstance(given, (list, tuple, dict)):
            given = [given] * len(names)
        return [1.0 if one is None else float(one) for one in by_output(model, names, given, "loss_weights")]

    @staticmethod
    def _metrics_by_output(model: Any, names: list[str], given: Any) -> list[list]:
        if given is None:
            return [[] for _ in names]
        nested = isinstance(given, dict) or isinstance(given, (list, tuple)) and any(
            isinstance(one, (list, tuple, dict)) for one in given)
        if len(names) == 1 and not isinstance(given, dict):
            return [_list(given)]
        if not nested:  # those of every output
            return [_list(given) for _ in names]
        return [_list(one) for one in by_output(model, names, given, "metrics")]

    def outputs_of(self, model: Any, names: list[str], keep: Keep) -> list:
        """Members of an est_compile_output for each output; None: it is not trained."""
        losses, weights = self.losses(model, names), self.weights(model, names)
        metrics = self._metrics_by_output(model, names, self.given_metrics)
        weighted = self._metrics_by_output(model, names, self.given_weighted)
        if all(loss is None for loss in losses) and (any(metrics) or any(weighted)):
            raise NotImplementedError("metrics without a loss: fit has no label to measure them with; add_metric does")
        found: list = []
        self._given = []
        for name, loss, weight, own, more in zip(names, losses, weights, metrics, weighted):
            if loss is None:
                if own or more:
                    raise NotImplementedError(f"{name} has metrics, and no loss; give it one with a loss weight of 0")
                found.append(None)
                continue
            own = [metric for metric in own if not is_own_metric(metric)]
            more = [metric for metric in more if isinstance(metric, str)]  # the loops of Python measure others
            if len(names) == 1 and weight != 1:
                loss = _losses.LossFunctionWrapper(_scaled(loss, weight), name=loss.name)
                keep.append(loss)
            self._given.append((_given_order(own), len(more)))
            found.append({
                "output": keep.string(name), "loss_value": loss._c_loss[0], "loss_weight": off(weight),
                "metrics": keep.strings([metric for metric in own if isinstance(metric, str)]),
                "own_values": [self.spec(metric, keep) for metric in own if not isinstance(metric, str)],
                "weighted_metrics": keep.strings(more)})
        return found

    def set_order(self, values: int, added: int) -> None:
        """Notes in which order the metrics of a network were given: it has names before objects, and what add_metric
        gives with the first output."""
        counts = [len(own) + more for own, more in self._given]
        start = values - sum(counts) - added
        order, last = list(range(start)), []
        for i, (own, more) in enumerate(self._given):
            order += [start + place for place in own]
            start += len(own)
            if i == 0:
                last = list(range(start, start + added))
                start += added
            order += range(start, start + more)
            start += more
        self._order = order + last

    def ordered(self, values: list) -> list:
        """What a network has for each of its metrics, in the order in which they were given."""
        return [values[i] for i in self._order]

    def loss_of(self, model: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a step that is written in Python; None: there is none."""
        predictions = _structure.flatten(y_pred)
        if len(predictions) == 1 and not isinstance(self.given, (list, tuple, dict)):
            if self.given is None:
                return None
            weight, = self.weights(model, ["output"])
            return self.given(_labels_for(self.given, y_true, y_pred), y_pred, sample_weight) * weight
        names = model._outputs_of_network()
        if len(names) != len(predictions):
            names = sorted(y_pred) if isinstance(y_pred, dict) else [f"output_{i + 1}" for i in range(len(predictions))]
        labels = by_output(model, names, y_true, "y") if isinstance(y_true, (list, tuple, dict)) else [y_true]
        total = None
        for loss, weight, label, prediction in zip(self.losses(model, names), self.weights(model, names), labels,
                                                   predictions):
            if loss is not None:
                one = loss(_labels_for(loss, label, prediction), prediction, sample_weight) * weight
                total = one if total is None else total + one
        return total

    def spec(self, metric: Any, keep: Keep) -> Any:
        """A metric for the network."""
        metric = _metrics.get(metric)
        if isinstance(metric, _metrics._Native):
            keep.append(metric)
            struct = keep.new("est_metric_spec *", metric._spec(keep))
            struct.name = keep.string(metric.name)
            return struct[0]
        raise TypeError(f"a metric is a name, an object or a function, not {metric!r}")

    def added(self, model: Any, name: str, keep: Keep) -> Any:
        """The mean of what a call gives to add_metric by this name."""
        find = weakref.ref(model)

        def value(labels: Any, predictions: Any) -> Any:
            return find()._noted_metric(predictions.graph, name)

        loss = _losses.LossFunctionWrapper(value, name=name)
        keep.append(loss)
        struct = keep.new("est_metric_spec *", lib.est_metric_value_of_loss(loss._c_loss))
        struct.name = keep.string(name)
        return struct[0]

    def objects(self) -> list:
        """The metrics for steps that are written in Python."""
        if self._objects is None:
            self._objects = [_metrics.get(metric) for metric in self.metrics + self.weighted]
        return self._objects

    def metric_objects(self) -> list:
        return [self.mean] + self.objects()

    def count_loss(self, value: Any, y_pred: Any) -> None:
        """The mean over examples: batches count as many as they have."""
        rows = eager(ops.shape)(_structure.flatten(y_pred)[0])[0]
        self.mean.update_state(value, sample_weight=eager(ops.cast)(rows, "float32"))
        self.counted = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if self.objects() and len(_structure.flatten(y_pred)) > 1:
            raise NotImplementedError("metrics of several outputs in a train_step of your own: update them there")
        mask = _losses._mask_of(y_pred)
        for i, metric in enumerate(self.objects()):
            weights = None if i < len(self.metrics) else sample_weight
            if mask is not None:
                weights = _losses._times(mask, weights)
            metric.update_state(_labels_for(metric, y_true, y_pred), y_pred,
                                **({} if weights is None else {"sample_weight": weights}))

    def reset_state(self) -> None:
        for metric in self.metric_objects():
            metric.reset_state()
