# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.losses: means over elements whose weight is not 0, as there."""
from __future__ import annotations

from typing import Any as _Any

from .... import losses as _losses
from ..._absent import module_getattr as _module_getattr
from ..._eager import unwrap as _unwrap


class Reduction:
    """How losses become one."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_BY_NONZERO_WEIGHTS = SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


_NAMES = {"none": "none", "weighted_sum": "sum", "weighted_mean": "mean",
          "weighted_sum_over_batch_size": "sum_over_batch_size",
          "weighted_sum_by_nonzero_weights": "sum_over_nonzero_weights"}


def _weighted(function: _Any, labels: _Any, predictions: _Any, weights: _Any, reduction: str, **more: _Any) -> _Any:
    if reduction not in _NAMES:
        raise ValueError(f"Invalid Reduction Key {reduction}.")
    if isinstance(weights, (int, float)) and weights == 1:
        weights = None
    return function(_unwrap(labels), predictions, _unwrap(weights), _NAMES[reduction], **more)


def sparse_softmax_cross_entropy(labels: _Any, logits: _Any, weights: _Any = 1.0,
                                 reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.sparse_softmax_cross_entropy, labels, logits, weights, reduction)


def softmax_cross_entropy(onehot_labels: _Any, logits: _Any, weights: _Any = 1.0, label_smoothing: float = 0,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.softmax_cross_entropy, onehot_labels, logits, weights, reduction,
                     label_smoothing=label_smoothing)


def sigmoid_cross_entropy(multi_class_labels: _Any, logits: _Any, weights: _Any = 1.0, label_smoothing: float = 0,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.sigmoid_cross_entropy, multi_class_labels, logits, weights, reduction,
                     label_smoothing=label_smoothing)


def mean_squared_error(labels: _Any, predictions: _Any, weights: _Any = 1.0,
                       reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.mean_squared_error, labels, predictions, weights, reduction)


def absolute_difference(labels: _Any, predictions: _Any, weights: _Any = 1.0,
                        reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.absolute_difference, labels, predictions, weights, reduction)


def huber_loss(labels: _Any, predictions: _Any, weights: _Any = 1.0, delta: float = 1.0,
               reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.huber, labels, predictions, weights, reduction, delta=delta)


def log_loss(labels: _Any, predictions: _Any, weights: _Any = 1.0, epsilon: float = 1e-7,
             reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    return _weighted(_losses.log_loss, labels, predictions, weights, reduction, epsilon=epsilon)


__getattr__ = _module_getattr(__name__)
