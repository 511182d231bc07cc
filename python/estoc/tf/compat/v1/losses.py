# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.losses: means over elements whose weight is not 0, as there."""
from __future__ import annotations

import functools as _functools
from typing import Any as _Any

from .... import losses as _losses
from .... import ops as _ops
from ...._lib import Keep as _Keep
from ...._lib import here as _here
from ...._lib import lib as _lib
from ....graph import Node as _Node
from ....graph import as_node as _as_node
from ....graph import default_graph as _default_graph
from ....losses import c_reduction as _c_reduction
from ..._absent import module_getattr as _module_getattr
from ..._eager import Tensor as _Tensor
from ..._eager import unwrap as _unwrap
from ..._variable import Variable as _Variable
from . import _graph


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


_LOSSES = _graph.GraphKeys.LOSSES


def _weighted(function: _Any, labels: _Any, predictions: _Any, weights: _Any, collection: str | None, reduction: str,
              **more: _Any) -> _Any:
    if reduction not in _NAMES:
        raise ValueError(f"Invalid Reduction Key {reduction}.")
    if isinstance(weights, (int, float)) and weights == 1:
        weights = None
    if _default_graph() is None and not any(isinstance(item, _Node) for item in (labels, predictions, weights)):
        given = [item if item is None or isinstance(item, (_Tensor, _Variable)) else _Tensor(item)
                 for item in (labels, predictions, weights)]
        return _at_once(function, _NAMES[reduction], tuple(sorted(more.items())))(*given)
    if not isinstance(predictions, _Node):
        predictions = _as_node(_unwrap(predictions), _graph.get_default_graph())
    loss = function(_unwrap(labels), predictions, _unwrap(weights), _NAMES[reduction], **more)
    return _collected(loss, collection)


@_functools.lru_cache(maxsize=None)
def _at_once(function: _Any, reduction: str, more: tuple) -> _Any:
    """The loss of values, which a tape can go back from."""
    from ..._function import function as traced

    def loss(labels: _Any, predictions: _Any, weights: _Any) -> _Any:
        predictions = predictions.value() if hasattr(predictions, "value") else predictions
        return function(_unwrap(labels), predictions, _unwrap(weights), reduction, **dict(more))

    return traced(loss)


def _collected(loss: _Any, collection: str | None) -> _Any:
    if collection is not None and isinstance(loss, _Node):
        _graph.state_of(loss.graph).collections.setdefault(collection, []).append(loss)
    return loss


def sparse_softmax_cross_entropy(labels: _Any, logits: _Any, weights: _Any = 1.0, scope: str | None = None,
                                 loss_collection: str | None = _LOSSES,
                                 reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """The crossentropy of logits with classes, weighted."""
    return _weighted(_losses.sparse_softmax_cross_entropy, labels, logits, weights, loss_collection, reduction)


def softmax_cross_entropy(onehot_labels: _Any, logits: _Any, weights: _Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None, loss_collection: str | None = _LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """The crossentropy of logits with distributions, weighted."""
    return _weighted(_losses.softmax_cross_entropy, onehot_labels, logits, weights, loss_collection, reduction,
                     label_smoothing=label_smoothing)


def sigmoid_cross_entropy(multi_class_labels: _Any, logits: _Any, weights: _Any = 1.0, label_smoothing: float = 0,
                          scope: str | None = None, loss_collection: str | None = _LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """The crossentropy of each logit, weighted."""
    return _weighted(_losses.sigmoid_cross_entropy, multi_class_labels, logits, weights, loss_collection, reduction,
                     label_smoothing=label_smoothing)


def mean_squared_error(labels: _Any, predictions: _Any, weights: _Any = 1.0, scope: str | None = None,
                       loss_collection: str | None = _LOSSES,
                       reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """(labels - predictions)^2, weighted."""
    return _weighted(_losses.mean_squared_error, labels, predictions, weights, loss_collection, reduction)


def absolute_difference(labels: _Any, predictions: _Any, weights: _Any = 1.0, scope: str | None = None,
                        loss_collection: str | None = _LOSSES,
                        reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """|labels - predictions|, weighted."""
    return _weighted(_losses.absolute_difference, labels, predictions, weights, loss_collection, reduction)


def huber_loss(labels: _Any, predictions: _Any, weights: _Any = 1.0, delta: float = 1.0, scope: str | None = None,
               loss_collection: str | None = _LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """Squares of small errors, absolute values of large ones, weighted."""
    return _weighted(_losses.huber, labels, predictions, weights, loss_collection, reduction, delta=delta)


def log_loss(labels: _Any, predictions: _Any, weights: _Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
             loss_collection: str | None = _LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """The crossentropy of probabilities, weighted."""
    return _weighted(_losses.log_loss, labels, predictions, weights, loss_collection, reduction, epsilon=epsilon)


def hinge_loss(labels: _Any, logits: _Any, weights: _Any = 1.0, scope: str | None = None,
               loss_collection: str | None = _LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """Of labels 0 and 1."""
    return _weighted(_hinge, labels, logits, weights, loss_collection, reduction)


def _hinge(labels: _Any, logits: _Node, weights: _Any, reduction: str) -> _Node:
    signs = _ops.cast(_as_node(labels, logits.graph), logits.dtype) * 2.0 - 1.0
    return _losses.hinge(signs, logits, weights, reduction)


def cosine_distance(labels: _Any, predictions: _Any, axis: int | None = None, weights: _Any = 1.0,
                    scope: str | None = None, loss_collection: str | None = _LOSSES,
                    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS, dim: int | None = None) -> _Any:
    """One minus the product of vectors, which are unit vectors already."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    return _weighted(_cosine_distance, labels, predictions, weights, loss_collection, reduction, axis=axis)


def _cosine_distance(labels: _Any, predictions: _Node, weights: _Any, reduction: str, axis: int) -> _Node:
    labels = _ops.cast(_as_node(labels, predictions.graph), predictions.dtype)
    return _reduced(None, 1.0 - _ops.reduce_sum(labels * predictions, axis, keepdims=True), weights, reduction)


def compute_weighted_loss(losses: _Any, weights: _Any = 1.0, scope: str | None = None,
                          loss_collection: str | None = _LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> _Any:
    """Values of elements, weighted, as one."""
    return _weighted(_reduced, None, losses, weights, loss_collection, reduction)


def _reduced(_: _Any, values: _Node, weights: _Any, reduction: str) -> _Node:
    keep = _Keep()
    more = {} if weights is None else {"weights": _as_node(weights, values.graph, values.dtype)._c}
    _here()
    return values.graph.node(_lib.est_loss_reduce(values._c, keep.options(
        "est_loss_options", reduction=_c_reduction(reduction), **more)))


# --- what a graph has of them -----------------------------------------------------------------------------------------


def add_loss(loss: _Any, loss_collection: str | None = _LOSSES) -> None:
    """Adds a loss of the program to those that get_losses has."""
    _collected(loss, loss_collection)


def get_losses(scope: str | None = None, loss_collection: str = _LOSSES) -> list:
    """The losses of the graph."""
    return _graph.get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list:
    """The losses of regularizers."""
    return _graph.get_collection(_graph.GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> _Any:
    """The sum of the regularizers of variables; 0 without any."""
    losses = get_regularization_losses(scope)
    return _ops.add_n(losses).named(name) if losses else _graph.constant(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> _Any:
    """The sum of all losses of the graph."""
    losses = get_losses(scope) + (get_regularization_losses(scope) if add_regularization_losses else [])
    if not losses:
        raise ValueError("the graph has no losses")
    return _ops.add_n(losses).named(name)


__getattr__ = _module_getattr(__name__)
