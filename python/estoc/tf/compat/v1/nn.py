# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.nn: the functions of tf.nn with the arguments of TensorFlow 1."""
from __future__ import annotations

from typing import Any as _Any

from ... import nn as _nn
from ..._absent import module_getattr as _module_getattr
from ._named import renamed as _renamed

for _name, _value in list(vars(_nn).items()):
    if not _name.startswith("_") and _name != "annotations":
        globals()[_name] = _value

avg_pool = avg_pool2d = _renamed(_nn.avg_pool2d, value="input")
conv2d = _renamed(_nn.conv2d, filter="filters", use_cudnn_on_gpu=None)
l2_normalize = _renamed(_nn.l2_normalize, dim="axis")
log_softmax = _renamed(_nn.log_softmax, dim="axis")
max_pool = max_pool2d = _renamed(_nn.max_pool2d, value="input")
moments = _renamed(_nn.moments, keep_dims="keepdims")
softmax = _renamed(_nn.softmax, dim="axis")


def dropout(x: _Any, keep_prob: _Any = None, noise_shape: _Any = None, seed: int | None = None,
            name: str | None = None, rate: _Any = None) -> _Any:
    """Keeps elements with that probability, scaled up, or zeroes them with the probability `rate`."""
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout: give one of keep_prob and rate")
    return _nn.dropout(x, 1 - keep_prob if rate is None else rate, noise_shape, seed, name)


def _only_named(sentinel: _Any, name: str) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{name}` with named arguments (labels=..., logits=..., ...)")


def sigmoid_cross_entropy_with_logits(_sentinel: _Any = None, labels: _Any = None, logits: _Any = None,
                                      name: str | None = None) -> _Any:
    """Of each element against a probability."""
    _only_named(_sentinel, "sigmoid_cross_entropy_with_logits")
    return _nn.sigmoid_cross_entropy_with_logits(labels, logits)


def softmax_cross_entropy_with_logits_v2(labels: _Any, logits: _Any, axis: int | None = None, name: str | None = None,
                                         dim: int | None = None) -> _Any:
    """Of each row against a distribution."""
    axis = dim if axis is None else axis
    return _nn.softmax_cross_entropy_with_logits(labels, logits, -1 if axis is None else axis)


def softmax_cross_entropy_with_logits(_sentinel: _Any = None, labels: _Any = None, logits: _Any = None, dim: int = -1,
                                      name: str | None = None, axis: int | None = None) -> _Any:
    """Of each row against a distribution, to which no gradient goes."""
    from ... import stop_gradient
    _only_named(_sentinel, "softmax_cross_entropy_with_logits")
    return softmax_cross_entropy_with_logits_v2(stop_gradient(labels), logits, axis, dim=dim)


def sparse_softmax_cross_entropy_with_logits(_sentinel: _Any = None, labels: _Any = None, logits: _Any = None,
                                             name: str | None = None) -> _Any:
    """Of each row against a class number."""
    _only_named(_sentinel, "sparse_softmax_cross_entropy_with_logits")
    return _nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def xw_plus_b(x: _Any, weights: _Any, biases: _Any, name: str | None = None) -> _Any:
    """x weights + biases"""
    from ... import matmul
    return _nn.bias_add(matmul(x, weights), biases)


def relu_layer(x: _Any, weights: _Any, biases: _Any, name: str | None = None) -> _Any:
    """relu(x weights + biases)"""
    return _nn.relu(xw_plus_b(x, weights, biases))


def zero_fraction(value: _Any, name: str | None = None) -> _Any:
    """How many of the elements are 0, of all."""
    from ... import cast, equal, float32, reduce_mean
    return reduce_mean(cast(equal(value, 0), float32))


__getattr__ = _module_getattr(__name__)
