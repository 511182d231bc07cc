# SPDX-License-Identifier: Apache-2.0
"""Heads: what the logits of a canned model mean, and so its loss, metrics, predictions and labels."""
from __future__ import annotations

from typing import Any, Sequence

from ._lib import Keep, check, ffi, lib, owned
from .feature_column import Column
from .layers import c_activation
from .losses import c_reduction


class Head:
    """What DNNEstimator, LinearEstimator, DNNLinearCombinedEstimator and BaselineEstimator are given."""

    def __init__(self, function: str, arguments: tuple = (), name: str | None = None, **members: Any):
        keep, out = Keep(), ffi.new("est_head **")
        self.name = name
        self._keep = keep
        options = keep.options("est_head_options", name=keep.string(name), **{
            key: value(keep) if callable(value) else value for key, value in members.items()})
        check(getattr(lib, function)(*arguments, options, out))
        self._c = owned(out[0], "est_head_free")

    @property
    def logits_dimension(self) -> int:
        """How many logits the model computes."""
        return int(lib.est_head_logits(self._c))


def _weight(weight_column: Any) -> dict[str, Any]:
    if weight_column is None:
        return {}
    if isinstance(weight_column, Column):
        def numeric(keep: Keep) -> Any:
            keep.append(weight_column)
            return weight_column._c

        return {"weight_numeric": numeric}
    return {"weight_column": lambda keep: keep.string(weight_column)}


def _vocabulary(words: Sequence[str] | None) -> dict[str, Any]:
    return {} if words is None else {"label_vocabulary": lambda keep: keep.strings(words)}


def _reduction(value: Any) -> Any:
    return c_reduction(None if value in (None, "auto") else value)


def _no_loss(loss_fn: Any) -> None:
    if loss_fn is not None:
        raise NotImplementedError("loss_fn does not exist yet; an Estimator with a model_fn of your own has any loss")


class BinaryClassHead(Head):
    """Two classes, one logit."""

    def __init__(self, weight_column: Any = None, thresholds: Sequence[float] | None = None,
                 label_vocabulary: Sequence[str] | None = None, loss_reduction: Any = None, loss_fn: Any = None,
                 name: str | None = None):
        _no_loss(loss_fn)
        super().__init__("est_binary_head", (), name, loss_reduction=_reduction(loss_reduction),
                         thresholds=lambda keep: keep.f64s(thresholds or ()), **_weight(weight_column),
                         **_vocabulary(label_vocabulary))


class MultiClassHead(Head):
    """One of more than two classes."""

    def __init__(self, n_classes: int, weight_column: Any = None, label_vocabulary: Sequence[str] | None = None,
                 loss_reduction: Any = None, loss_fn: Any = None, name: str | None = None):
        _no_loss(loss_fn)
        super().__init__("est_multi_class_head", (int(n_classes),), name, loss_reduction=_reduction(loss_reduction),
                         **_weight(weight_column), **_vocabulary(label_vocabulary))


class MultiLabelHead(Head):
    """Any number of classes at a time."""

    def __init__(self, n_classes: int, weight_column: Any = None, thresholds: Sequence[float] | None = None,
                 label_vocabulary: Sequence[str] | None = None, loss_reduction: Any = None, loss_fn: Any = None,
                 classes_for_class_based_metrics: Sequence[int] | None = None, name: str | None = None):
        _no_loss(loss_fn)
        super().__init__("est_multi_label_head", (int(n_classes),), name, loss_reduction=_reduction(loss_reduction),
                         thresholds=lambda keep: keep.f64s(thresholds or ()),
                         metric_classes=lambda keep: keep.i64s(classes_for_class_based_metrics or ()),
                         **_weight(weight_column), **_vocabulary(label_vocabulary))


def c_dimension(label_dimension: int) -> int:
    if label_dimension < 1:
        raise ValueError(f"Invalid label_dimension {label_dimension}.")
    return int(label_dimension)


class RegressionHead(Head):
    """Numbers, by their squared error."""

    def __init__(self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: Any = None,
                 loss_fn: Any = None, inverse_link_fn: Any = None, name: str | None = None):
        _no_loss(loss_fn)
        link = c_activation(inverse_link_fn)
        if link[1] is not None:
            raise NotImplementedError("inverse_link_fn is a name such as \"exp\", or that function of estoc.ops")
        super().__init__("est_regression_head", (c_dimension(label_dimension),), name, inverse_link=lambda keep: link[0],
                         loss_reduction=_reduction(loss_reduction), **_weight(weight_column))


class LogisticRegressionHead(Head):
    """Numbers in [0, 1], by the cross entropy of the sigmoid of the logits."""

    def __init__(self, weight_column: Any = None, loss_reduction: Any = None, name: str | None = None):
        super().__init__("est_logistic_regression_head", (), name, loss_reduction=_reduction(loss_reduction),
                         **_weight(weight_column))


class PoissonRegressionHead(Head):
    """Counts, whose logarithm the logits are."""

    def __init__(self, label_dimension: int = 1, weight_column: Any = None, loss_reduction: Any = None,
                 compute_full_loss: bool = True, name: str | None = None):
        super().__init__("est_poisson_head", (c_dimension(label_dimension),), name, loss_reduction=_reduction(loss_reduction),
                         no_full_loss=not compute_full_loss, **_weight(weight_column))


class MultiHead(Head):
    """Several named heads, each with its part of the logits; their losses are added up."""

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None):
        keep, out = Keep(), ffi.new("est_head **")
        self.heads, self._keep, self.name = list(heads), keep, "_".join(str(head.name) for head in heads)
        check(lib.est_multi_head(keep.span("est_heads", "est_head *", [head._c for head in heads]),
                                 keep.f64s(head_weights or ()), out))
        self._c = owned(out[0], "est_head_free")
