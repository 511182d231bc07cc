# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.layers"""
from __future__ import annotations

from typing import Any as _Any

from .... import layers as _layers
from ..._absent import module_getattr as _module_getattr


def _activation(function: _Any) -> _Any:
    name = getattr(function, "__name__", None)
    return name if name in _layers.ACTIVATIONS else function


def dense(inputs: _Any, units: int, activation: _Any = None, use_bias: bool = True, kernel_initializer: _Any = None,
          bias_initializer: _Any = None, trainable: bool = True, name: str | None = None) -> _Any:
    return _layers.dense(inputs, units, _activation(activation), use_bias, kernel_initializer, bias_initializer,
                         trainable=trainable, name=name)


def conv2d(inputs: _Any, filters: int, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid",
           activation: _Any = None, use_bias: bool = True, kernel_initializer: _Any = None,
           bias_initializer: _Any = None, trainable: bool = True, name: str | None = None) -> _Any:
    return _layers.conv2d(inputs, filters, kernel_size, strides, padding, _activation(activation), use_bias,
                          kernel_initializer, bias_initializer, trainable=trainable, name=name)


def max_pooling2d(inputs: _Any, pool_size: _Any, strides: _Any, padding: str = "valid",
                  name: str | None = None) -> _Any:
    return _layers.max_pool2d(inputs, pool_size, strides, padding, name)


def average_pooling2d(inputs: _Any, pool_size: _Any, strides: _Any, padding: str = "valid",
                      name: str | None = None) -> _Any:
    return _layers.average_pool2d(inputs, pool_size, strides, padding, name)


def flatten(inputs: _Any, name: str | None = None) -> _Any:
    return _layers.flatten(inputs)


def dropout(inputs: _Any, rate: float = 0.5, training: bool = False, name: str | None = None) -> _Any:
    return _layers.dropout(inputs, rate, training)


def batch_normalization(inputs: _Any, momentum: float = 0.99, epsilon: float = 0.001, center: bool = True,
                        scale: bool = True, training: bool = False, trainable: bool = True,
                        name: str | None = None) -> _Any:
    return _layers.batch_normalization(inputs, training, momentum, epsilon, center, scale, trainable, name)


_CLASSES = ("BatchNormalization", "Conv2D", "Dense", "Dropout", "Flatten", "Layer", "MaxPooling2D", "AveragePooling2D",
            "SeparableConv2D")


def __getattr__(name: str) -> _Any:
    """The layers of TensorFlow 1 are those of Keras."""
    if name in _CLASSES:
        from ...keras import layers
        return getattr(layers, name)
    return _module_getattr(__name__)(name)
