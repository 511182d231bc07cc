# SPDX-License-Identifier: Apache-2.0
"""Losses: labels first, then predictions or logits; a scalar, or one value per element with reduction="none"."""
from __future__ import annotations

from typing import Any, Callable

from ._lib import Keep, here, lib, off
from .graph import Node, as_node

_REDUCTIONS = {None: 0, "sum_over_batch_size": 1, "sum": 2, "mean": 3, "none": 4, "sum_over_nonzero_weights": 5}


def c_reduction(name: str | None) -> int:
    if name not in _REDUCTIONS:
        raise ValueError(f"there is no reduction {name!r}; there are {', '.join(filter(None, _REDUCTIONS))}")
    return _REDUCTIONS[name]


def _loss(name: str, meaning: str, *extra: str) -> Callable:
    def function(labels: Any, predictions: Node, weights: Any = None, reduction: str | None = None,
                 **more: Any) -> Node:
        unknown = set(more) - set(extra)
        if unknown:
            raise TypeError(f"{function.__name__}() got an unexpected argument {sorted(unknown)[0]!r}")
        here()
        keep, graph = Keep(), predictions.graph
        more.update((name, off(more[name])) for name in ("delta", "epsilon") if name in more)
        if weights is not None:
            more["weights"] = as_node(weights, graph, predictions.dtype)._c
        labels = as_node(labels, graph, predictions.dtype if name != "sparse_softmax_xent" else None)
        return graph.node(getattr(lib, f"est_loss_{name}")(labels._c, predictions._c, keep.options(
            "est_loss_options", reduction=c_reduction(reduction), **more)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning + (f" Further arguments: {', '.join(extra)}." if extra else "")
    return function


softmax_cross_entropy = _loss("softmax_xent", "Of distributions and logits.", "label_smoothing")
sparse_softmax_cross_entropy = _loss("sparse_softmax_xent", "Of class numbers and logits.")
sigmoid_cross_entropy = _loss("sigmoid_xent", "Of probabilities and logits, element by element.", "label_smoothing")
binary_cross_entropy = _loss("binary_xent", "Of labels and probabilities: tf.keras.losses.BinaryCrossentropy.",
                             "label_smoothing", "epsilon")
mean_squared_error = _loss("mse", "(p - l)^2")
absolute_difference = _loss("mae", "|p - l|")
huber = _loss("huber", "e^2 / 2 up to delta, delta |e| - delta^2 / 2 beyond.", "delta")
hinge = _loss("hinge", "max(0, 1 - l p)")
log_loss = _loss("log", "-l log(p + epsilon) - (1 - l) log(1 - p + epsilon)", "epsilon")
cosine_distance = _loss("cosine", "The negative cosine similarity.", "axis")
poisson = _loss("poisson", "p - l log(p + epsilon)", "epsilon")


def regularization_loss(graph: Any) -> Node:
    """The sum of the regularizers of all variables; 0 when there are none."""
    here()
    return graph.node(lib.est_regularization_loss(graph._c))
